/* SPDX-License-Identifier: MIT */
/* Tests of src/api/suggest.c: a slip of the finger finds the field it was meant to be. */
#include "api/suggest.h"

#include "call.h"

static const struct field fields[] = {
    {.name = "title", .doc = ""},     {.name = "sessionId", .doc = ""},
    {.name = "dependsOn", .doc = ""}, {.name = "id", .doc = ""},
    {.name = "tags", .doc = ""},      {.name = "ttlMs", .doc = ""},
};

static const char *nearest(const char *name)
{
    const char *found = suggest(fields, COUNT_OF(fields), name);
    return found != NULL ? found : "nothing";
}

static void test_one_or_two_slips_are_understood(void **state)
{
    (void)state;
    assert_string_equal(nearest("titel"), "title");
    assert_string_equal(nearest("Title"), "title");
    assert_string_equal(nearest("tilte"), "title");
    assert_string_equal(nearest("session_id"), "sessionId");
    assert_string_equal(nearest("sessionid"), "sessionId");
    assert_string_equal(nearest("depends_on"), "dependsOn");
    assert_string_equal(nearest("tag"), "tags");
    assert_string_equal(nearest("ttl"), "ttlMs");
    assert_string_equal(nearest("ID"), "id");
}

static void test_something_else_is_not_bent_to_fit(void **state)
{
    char longest[300];
    memset(longest, 't', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    (void)state;
    assert_string_equal(nearest("description"), "nothing");
    assert_string_equal(nearest("x"), "nothing");
    assert_string_equal(nearest(""), "nothing");
    assert_string_equal(nearest(longest), "nothing");
    assert_null(suggest(NULL, 0, "title"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_or_two_slips_are_understood),
        cmocka_unit_test(test_something_else_is_not_bent_to_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
