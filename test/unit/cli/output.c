/* SPDX-License-Identifier: MIT */
/*
 * output.c: tests of src/cli/output.c: escapes, widths and times.
 */
#include "cli/output.h"

#include <locale.h>
#include <setjmp.h>

#include <cmocka.h>

static int setup(void **state)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    setenv("TZ", "UTC", 1);
    tzset();
    *state = dibs_arena_new();
    return *state == NULL;
}

static int teardown(void **state)
{
    dibs_arena_free(*state);
    return 0;
}

static void test_what_a_terminal_would_obey_is_written_out(void **state)
{
    static const char *const pairs[][2] = {
        {"plain \xc3\xa4 \xe6\xb1\x89 \xf0\x9f\x98\x80",
         "plain \xc3\xa4 \xe6\xb1\x89 \xf0\x9f\x98\x80"},
        {"a\x1b[31m", "a\\x1b[31m"},
        {"tab\tline\nreturn\r", "tab\\tline\\nreturn\\r"},
        {"\x7f\x01", "\\x7f\\x01"},
        {"\xc2\x9b", "\\u009b"},
        {"\xe2\x80\xae \xe2\x81\xa6", "\\u202e \\u2066"},
        {"broken \xff\xc3", "broken \\xff\\xc3"},
        {"", ""},
    };
    for (size_t i = 0; i < COUNT_OF(pairs); i++)
        assert_string_equal(out_safe(*state, pairs[i][0]), pairs[i][1]);
    assert_null(out_safe(*state, NULL));
}

static void test_json_stays_the_same_value(void **state)
{
    (void)state;
    const char json[] = "{\"a\":\"\xc2\x9b\x7f\xe2\x80\xae \xc3\xa4\"}";
    struct buf b;
    buf_init(&b, 1000);
    out_json(&b, json, sizeof json - 1);
    assert_string_equal(b.data, "{\"a\":\"\\u009b\\u007f\\u202e \xc3\xa4\"}");
    buf_release(&b);
}

static void test_width_is_in_columns_not_bytes(void **state)
{
    (void)state;
    assert_int_equal(out_width("abc"), 3);
    assert_int_equal(out_width("\xc3\xa4"), 1);
    assert_int_equal(out_width("\xe6\xb1\x89\xe5\xad\x97"), 4);
    assert_int_equal(out_width("e\xcc\x81"), 1);
    assert_int_equal(out_width(""), 0);
}

static void test_times_are_told_from_now(void **state)
{
    const struct output out = {.now_ms = 1000000000000}; /* 2001-09-09T01:46:40Z */
    dibs_arena *a = *state;
    assert_string_equal(out_when(&out, a, "2001-09-09T01:46:40Z"), "now");
    assert_string_equal(out_when(&out, a, "2001-09-09T01:46:39.100Z"), "now");
    assert_string_equal(out_when(&out, a, "2001-09-09T01:46:40.100Z"), "in 1s");
    assert_string_equal(out_when(&out, a, "2001-09-09T01:46:41Z"), "in 1s");
    assert_string_equal(out_when(&out, a, "2001-09-09T01:46:10Z"), "30s ago");
    assert_string_equal(out_when(&out, a, "2001-09-09T01:44:39Z"), "2m ago");
    assert_string_equal(out_when(&out, a, "2001-09-09T02:16:39.990Z"), "in 30m");
    assert_string_equal(out_when(&out, a, "2001-09-07T00:00:00Z"), "2d ago");
    assert_string_equal(out_when(&out, a, NULL), "-");
    assert_string_equal(out_when(&out, a, "nonsense"), "-");
    assert_string_equal(out_clock(&out, a, "2001-09-09T02:16:40Z"), "02:16:40");
    assert_string_equal(out_clock(&out, a, "2001-09-10T02:16:40Z"), "2001-09-10 02:16");
    assert_string_equal(out_span(a, 950), "950ms");
    assert_string_equal(out_span(a, 7200000), "2h");
}

#define ARENA_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(test_what_a_terminal_would_obey_is_written_out),
        ARENA_TEST(test_json_stays_the_same_value),
        ARENA_TEST(test_width_is_in_columns_not_bytes),
        ARENA_TEST(test_times_are_told_from_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
