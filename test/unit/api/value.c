/* SPDX-License-Identifier: MIT */
/* Tests of src/api/value.c: JSON that we keep for a caller comes back as it was. */
#include "call.h"

static const char *round_trip(dibs_arena *a, const char *text)
{
    struct dibs_error err = {0};
    json_t *value = NULL;
    if (json_read(text, strlen(text), &value, &err) != DIBS_OK)
        fail_msg("%s: %s", text, err.message);
    const char *out = value_text(a, value);
    json_decref(value);
    assert_non_null(out);
    return out;
}

static void test_compact_json_comes_back_byte_for_byte(void **state)
{
    static const char *const texts[] = {
        "null",
        "true",
        "false",
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "0.1",
        "1.5",
        "-2.25",
        "1e+300",
        "\"\"",
        "[]",
        "{}",
        "[1,[2,[3]],{}]",
        "{\"z\":1,\"a\":2,\"m\":{\"k\":[null,true]}}",
        "\"caf\xC3\xA9 \xF0\x9F\x92\xA5\"",
        "\"a\\\"b\\\\c\\n\\t\\u0001\"",
        "{\"\\u0001 key \\\"x\\\"\":\"'; DROP TABLE task; --\"}",
        "{\"\":\"\"}",
    };
    dibs_arena *a = dibs_arena_new();
    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        assert_string_equal(round_trip(a, texts[i]), texts[i]);
    dibs_arena_free(a);
}

static void test_white_space_and_needless_escapes_are_dropped(void **state)
{
    dibs_arena *a = dibs_arena_new();
    (void)state;
    assert_string_equal(round_trip(a, " { \"a\" : [ 1 , 2 ] } \n"), "{\"a\":[1,2]}");
    assert_string_equal(round_trip(a, "\"\\u0041\\/\\ud83d\\udca5\""), "\"A/\xF0\x9F\x92\xA5\"");
    dibs_arena_free(a);
}

static void test_the_deepest_value_that_can_be_read_can_be_written(void **state)
{
    char text[2 * JSON_DEPTH_MAX + 1] = "";
    memset(text, '[', JSON_DEPTH_MAX);
    memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    dibs_arena *a = dibs_arena_new();
    (void)state;
    assert_string_equal(round_trip(a, text), text);
    dibs_arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compact_json_comes_back_byte_for_byte),
        cmocka_unit_test(test_white_space_and_needless_escapes_are_dropped),
        cmocka_unit_test(test_the_deepest_value_that_can_be_read_can_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
