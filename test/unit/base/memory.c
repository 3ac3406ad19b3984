/* SPDX-License-Identifier: MIT */
/*
 * memory.c: tests of src/base/memory.c: zeroed memory, requests that fail on demand, and errors
 * that always fit.
 */
#include "base/base.h"
#include "base/str.h"

#include <setjmp.h>

#include <cmocka.h>

static bool always(void)
{
    return true;
}

static void test_memory_is_zeroed_and_never_null_for_nothing(void **state)
{
    (void)state;
    unsigned char *block = mem_alloc(1000);
    assert_non_null(block);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(block[i], 0);
    mem_free(block);
    void *nothing = mem_alloc(0);
    assert_non_null(nothing);
    mem_free(nothing);
    mem_free(NULL);
}

static void test_growing_keeps_the_contents(void **state)
{
    (void)state;
    char *block = mem_copy("abc");
    assert_non_null(block);
    char *grown = mem_grow(block, 100000);
    assert_non_null(grown);
    assert_string_equal(grown, "abc");
    mem_free(grown);
    assert_null(mem_copy(NULL));
}

static void test_every_request_fails_when_the_test_says_so(void **state)
{
    (void)state;
    char *block = mem_copy("abc");
    mem_should_fail = always;
    void *allocated = mem_alloc(1), *grown = mem_grow(block, 10), *copied = mem_copy("x");
    mem_should_fail = NULL;
    assert_null(allocated);
    assert_null(grown);
    assert_null(copied);
    assert_string_equal(block, "abc");
    mem_free(block);
}

static void test_an_error_replaces_the_one_before(void **state)
{
    (void)state;
    struct dibs_error err = {
        .holder = "s1", .field = "x", .remaining_ms = 5, .cancel_requested = true};
    assert_int_equal(error_set(&err, DIBS_STORE_FULL, "cannot write '%s': %d", "x.db", 28),
                     DIBS_STORE_FULL);
    assert_int_equal(err.code, DIBS_STORE_FULL);
    assert_string_equal(err.message, "cannot write 'x.db': 28");
    assert_string_equal(err.holder, "");
    assert_string_equal(err.field, "");
    assert_int_equal(err.remaining_ms, 0);
    assert_false(err.cancel_requested);
}

static void test_an_error_may_quote_itself(void **state)
{
    (void)state;
    struct dibs_error err = {0};
    error_set(&err, DIBS_INTERNAL, "inner");
    error_set(&err, DIBS_INTERNAL, "outer: %s", err.message);
    assert_string_equal(err.message, "outer: inner");
}

static void test_a_long_error_is_cut_between_characters(void **state)
{
    (void)state;
    struct dibs_error err = {0};
    char text[1024];
    for (size_t shift = 0; shift < 3; shift++) {
        memset(text, 'x', shift);
        for (size_t at = shift; at + 3 < sizeof text; at += 3)
            memcpy(text + at, "\xE2\x82\xAC", 4); /* the euro sign and a NUL */
        error_set(&err, DIBS_INTERNAL, "%s", text);
        size_t length = strlen(err.message);
        assert_in_range(length, sizeof err.message - 3, sizeof err.message - 1);
        assert_true(str_is_utf8(err.message, length));
        assert_memory_equal(err.message, text, length);
    }
}

static void test_a_field_error_names_the_field_twice(void **state)
{
    (void)state;
    struct dibs_error err = {0};
    assert_int_equal(error_field(&err, "priority", "must be at most %d", 100),
                     DIBS_INVALID_REQUEST);
    assert_int_equal(err.code, DIBS_INVALID_REQUEST);
    assert_string_equal(err.field, "priority");
    assert_string_equal(err.message, "'priority' must be at most 100");
    error_field(&err, NULL, "no field");
    assert_string_equal(err.message, "no field");
    assert_string_equal(err.field, "");
}

static void test_a_huge_field_name_is_cut_and_the_reason_still_fits(void **state)
{
    (void)state;
    struct dibs_error err = {0};
    char name[2000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    error_field(&err, name, "is not known");
    assert_int_equal(strlen(err.field), sizeof err.field - 1);
    assert_non_null(strstr(err.message, "n' is not known"));
}

static void test_an_error_nobody_wants_is_only_its_code(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, DIBS_STORE_BUSY, "%d", 1), DIBS_STORE_BUSY);
    assert_int_equal(error_field(NULL, "x", "%d", 1), DIBS_INVALID_REQUEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_zeroed_and_never_null_for_nothing),
        cmocka_unit_test(test_growing_keeps_the_contents),
        cmocka_unit_test(test_every_request_fails_when_the_test_says_so),
        cmocka_unit_test(test_an_error_replaces_the_one_before),
        cmocka_unit_test(test_an_error_may_quote_itself),
        cmocka_unit_test(test_a_long_error_is_cut_between_characters),
        cmocka_unit_test(test_a_field_error_names_the_field_twice),
        cmocka_unit_test(test_a_huge_field_name_is_cut_and_the_reason_still_fits),
        cmocka_unit_test(test_an_error_nobody_wants_is_only_its_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
