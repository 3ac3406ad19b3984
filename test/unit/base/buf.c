/* SPDX-License-Identifier: MIT */
/*
 * buf.c: tests of src/base/buf.c: growth, the ceiling, failure that sticks, ownership.
 */
#include "base/buf.h"

#include <setjmp.h>

#include <cmocka.h>

static int requests, failing;

static bool count_and_fail(void)
{
    return ++requests == failing;
}

static int stop_failing(void **state)
{
    (void)state;
    mem_should_fail = NULL;
    return 0;
}

static void test_an_empty_buffer_is_an_empty_text(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 10);
    assert_string_equal(b.data, "");
    assert_int_equal(b.len, 0);
    assert_true(buf_ok(&b));
    buf_reset(&b);
    buf_cut(&b, 0);
    assert_string_equal(b.data, "");
    buf_release(&b);
    buf_release(&b);
    struct buf zeroed = {0};
    buf_release(&zeroed);
}

static void test_everything_appended_is_there_in_order(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1000);
    buf_text(&b, "a");
    buf_char(&b, 'b');
    buf_append(&b, "cde", 2);
    buf_append(&b, NULL, 0);
    buf_int(&b, -12);
    buf_printf(&b, "[%s:%d]", "x", 5);
    assert_string_equal(b.data, "abcd-12[x:5]");
    assert_int_equal(b.len, 12);
    buf_cut(&b, 3);
    assert_string_equal(b.data, "abc");
    buf_cut(&b, 9);
    assert_int_equal(b.len, 3);
    buf_reset(&b);
    assert_string_equal(b.data, "");
    buf_text(&b, "again");
    assert_string_equal(b.data, "again");
    buf_release(&b);
}

static void test_integers_are_written_as_printf_would(void **state)
{
    (void)state;
    const int64_t values[] = {0,  1,   -1,         9,         10,        -10,
                              99, 100, 1234567890, INT32_MIN, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        struct buf b;
        char expected[32];
        buf_init(&b, 100);
        buf_int(&b, values[i]);
        snprintf(expected, sizeof expected, "%" PRId64, values[i]);
        assert_string_equal(b.data, expected);
        buf_release(&b);
    }
}

static void test_many_appends_grow_without_losing_a_byte(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 50000; i++)
        buf_char(&b, (char)('a' + i % 26));
    assert_true(buf_ok(&b));
    assert_int_equal(b.len, 50000);
    for (int i = 0; i < 50000; i++)
        assert_int_equal(b.data[i], 'a' + i % 26);
    assert_int_equal(strlen(b.data), 50000);
    buf_release(&b);
}

static void test_the_maximum_is_reached_and_not_passed(void **state)
{
    (void)state;
    struct dibs_error err = {0};
    struct buf b;
    for (size_t max = 0; max < 600; max += 37) {
        buf_init(&b, max);
        for (size_t i = 0; i < max; i++)
            buf_char(&b, 'x');
        assert_int_equal(buf_status(&b, &err), DIBS_OK);
        assert_true(b.cap <= max + 1);
        buf_printf(&b, "%d", 1);
        assert_true(b.too_large);
        assert_int_equal(b.len, max);
        assert_int_equal(buf_status(&b, &err), DIBS_PAYLOAD_TOO_LARGE);
        assert_int_equal(err.code, DIBS_PAYLOAD_TOO_LARGE);
        buf_release(&b);
    }
}

static void test_after_a_failure_nothing_more_is_appended_until_reset(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 4);
    buf_text(&b, "abc");
    buf_text(&b, "toolong");
    buf_text(&b, "d"); /* would fit, but the text would have a hole */
    assert_string_equal(b.data, "abc");
    assert_false(buf_ok(&b));
    buf_reset(&b);
    buf_text(&b, "abcd");
    assert_true(buf_ok(&b));
    assert_string_equal(b.data, "abcd");
    buf_release(&b);
}

static void test_each_failing_allocation_marks_the_buffer(void **state)
{
    (void)state;
    bool whole = false;
    int which = 0;
    while (!whole) {
        struct dibs_error err = {0};
        struct buf b;
        requests = 0;
        failing = ++which;
        mem_should_fail = count_and_fail;
        buf_init(&b, 100000);
        for (int i = 0; i < 1000; i++) {
            buf_printf(&b, "%04d", i);
            buf_int(&b, i);
            buf_text(&b, " ");
        }
        char *text = NULL;
        whole = buf_ok(&b);
        assert_int_equal(whole, requests < which);
        if (!whole)
            assert_int_equal(buf_status(&b, &err), DIBS_OUT_OF_MEMORY);
        text = buf_detach(&b);
        assert_int_equal(text != NULL, whole);
        assert_int_equal(b.no_memory, !whole);
        mem_free(text);
        buf_release(&b);
    }
    assert_in_range(which, 3, 30);
}

static void test_added_bytes_are_filled_in_by_the_caller(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 2000);
    for (size_t i = 0; i < 20; i++) {
        char *to = buf_add(&b, 100);
        assert_non_null(to);
        memset(to, 'a' + (int)i, 100);
        assert_int_equal(b.len, 100 * (i + 1));
        assert_int_equal(b.data[b.len], '\0');
    }
    for (size_t i = 0; i < 2000; i++)
        assert_int_equal(b.data[i], 'a' + (int)i / 100);
    assert_non_null(buf_add(&b, 0));
    assert_null(buf_add(&b, 1));
    assert_true(b.too_large);
    assert_null(buf_add(&b, 0)); /* failure sticks */
    assert_int_equal(b.len, 2000);
    buf_release(&b);
}

static void test_a_detached_text_is_the_callers(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 10);
    buf_text(&b, "mine");
    char *text = buf_detach(&b);
    assert_string_equal(b.data, "");
    assert_int_equal(b.len, 0);
    buf_text(&b, "next");
    assert_string_equal(text, "mine");
    assert_string_equal(b.data, "next");
    buf_release(&b);
    mem_free(text);
    text = buf_detach(&b);
    assert_string_equal(text, "");
    mem_free(text);
    buf_text(&b, "more than ten bytes");
    assert_null(buf_detach(&b));
    assert_int_equal(buf_status(&b, NULL), DIBS_PAYLOAD_TOO_LARGE);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_buffer_is_an_empty_text),
        cmocka_unit_test(test_everything_appended_is_there_in_order),
        cmocka_unit_test(test_integers_are_written_as_printf_would),
        cmocka_unit_test(test_many_appends_grow_without_losing_a_byte),
        cmocka_unit_test(test_the_maximum_is_reached_and_not_passed),
        cmocka_unit_test(test_after_a_failure_nothing_more_is_appended_until_reset),
        cmocka_unit_test_teardown(test_each_failing_allocation_marks_the_buffer, stop_failing),
        cmocka_unit_test(test_added_bytes_are_filled_in_by_the_caller),
        cmocka_unit_test(test_a_detached_text_is_the_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
