/* SPDX-License-Identifier: MIT */
/*
 * status.c: tests of src/base/status.c: every row of status.def is whole, unique and the same in
 * all its forms.
 *
 * That docs/errors.md is what gen_status.py makes of status.def is for test/tidy/generated.py to
 * say.
 */
#include "base/base.h"

#include <setjmp.h>

#include <cmocka.h>

enum { OUTCOME, REFUSAL, FAILURE };

static const struct row {
    int number;
    dibs_status code;
    const char *name;
    int http, exit, kind;
    const char *sentence;
} rows[] = {
#define STATUS(number, NAME, http, exit, kind, sentence)                                           \
    {number, DIBS_##NAME, #NAME, http, exit, kind, sentence},
#include "base/status.def"
#undef STATUS
};

static void test_every_row_is_answered_as_it_is_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        dibs_status s = rows[i].code;
        assert_int_equal(s, rows[i].number);
        assert_string_equal(dibs_status_name(s), rows[i].name);
        assert_string_equal(dibs_status_sentence(s), rows[i].sentence);
        assert_int_equal(dibs_status_http(s), rows[i].http);
        assert_int_equal(dibs_status_exit(s), rows[i].exit);
        assert_int_equal(dibs_status_is_failure(s), rows[i].kind == FAILURE);
        assert_int_equal(dibs_status_from_name(rows[i].name), s);
    }
}

static void test_numbers_and_names_are_unique(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t k = 0; k < i; k++) {
            assert_int_not_equal(rows[i].number, rows[k].number);
            assert_string_not_equal(rows[i].name, rows[k].name);
        }
    }
}

static void test_exit_codes_and_http_say_the_same_as_the_kind(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *r = &rows[i];
        assert_int_equal(r->exit == 0, r->code == DIBS_OK);
        assert_int_equal(r->http < 300, r->code == DIBS_OK);
        assert_int_equal(r->http >= 500, r->kind == FAILURE);
        assert_int_not_equal(r->exit, 1); /* what any program says that fell over */
        assert_in_range(r->exit, 0, 125); /* above, the shell speaks of signals */
    }
}

static void test_sentences_are_lower_case_without_full_stop(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *sentence = rows[i].sentence;
        assert_in_range(sentence[0], 'a', 'z');
        assert_int_not_equal(sentence[strlen(sentence) - 1], '.');
    }
}

static void test_what_is_in_no_row_is_internal(void **state)
{
    (void)state;
    const char *const unknown[] = {"", "ok", "DIBS_OK", "NO_SUCH_CODE", NULL};
    for (size_t i = 0; i < COUNT_OF(unknown); i++)
        assert_int_equal(dibs_status_from_name(unknown[i]), DIBS_INTERNAL);
    assert_string_equal(dibs_status_name((dibs_status)19), "INTERNAL");
    assert_int_equal(dibs_status_http((dibs_status)63), 500);
    assert_true(dibs_status_is_failure((dibs_status)13));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_is_answered_as_it_is_written),
        cmocka_unit_test(test_numbers_and_names_are_unique),
        cmocka_unit_test(test_exit_codes_and_http_say_the_same_as_the_kind),
        cmocka_unit_test(test_sentences_are_lower_case_without_full_stop),
        cmocka_unit_test(test_what_is_in_no_row_is_internal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
