/* SPDX-License-Identifier: MIT */
/* Tests of src/server/ratelimit.c: how many pass, and when the next one may. */
#include "server/ratelimit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static int64_t take_all(struct bucket *b, int64_t now_ms)
{
    int64_t taken = 0;
    while (taken < 10000 && bucket_take(b, now_ms))
        taken++;
    return taken;
}

static void test_a_full_bucket_gives_as_many_as_its_rate_at_once(void **state)
{
    static const int64_t rates[] = {1, 2, 7, 60, 100, 9999};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rates); i++) {
        struct bucket b;
        bucket_fill(&b, rates[i], 12345);
        assert_int_equal(take_all(&b, 12345), rates[i]);
        assert_int_equal(bucket_left(&b), 0);
    }
}

static void test_tokens_come_back_evenly(void **state)
{
    struct bucket b;
    (void)state;
    bucket_fill(&b, 100, 0);
    assert_int_equal(take_all(&b, 0), 100);
    assert_false(bucket_take(&b, 599));
    assert_true(bucket_take(&b, 600));
    assert_false(bucket_take(&b, 600));
    assert_int_equal(take_all(&b, 10600), 16); /* ten seconds later, and two thirds of one left */
    assert_true(bucket_take(&b, 10800));
}

static void test_nothing_is_lost_by_asking_often(void **state)
{
    struct bucket b;
    int64_t taken = 0;
    (void)state;
    bucket_fill(&b, 7, 0);
    assert_int_equal(take_all(&b, 0), 7);
    for (int64_t now = 1; now <= 60 * 60000; now++)
        taken += bucket_take(&b, now);
    assert_int_equal(taken, 60 * 7);
}

static void test_a_bucket_never_holds_more_than_its_rate(void **state)
{
    struct bucket b;
    (void)state;
    bucket_fill(&b, 5, 0);
    assert_true(bucket_take(&b, 0));
    assert_int_equal(take_all(&b, INT64_C(1) << 60), 5);
}

static void test_a_clock_that_stands_or_goes_back_brings_nothing(void **state)
{
    struct bucket b;
    (void)state;
    bucket_fill(&b, 2, 5000);
    assert_int_equal(take_all(&b, 5000), 2);
    assert_false(bucket_take(&b, 4000));
    assert_false(bucket_take(&b, 0));
    assert_true(bucket_take(&b, 35000));
}

static void test_no_rate_means_no_limit(void **state)
{
    struct bucket b;
    (void)state;
    bucket_fill(&b, 0, 0);
    assert_int_equal(take_all(&b, 0), 10000);
    assert_int_equal(bucket_next_s(&b), 0);
}

static void test_it_tells_when_to_come_again(void **state)
{
    struct bucket b;
    (void)state;
    bucket_fill(&b, 100, 0);
    assert_true(bucket_take(&b, 0));
    assert_int_equal(bucket_left(&b), 99);
    assert_int_equal(bucket_full_s(&b), 1);
    assert_int_equal(bucket_next_s(&b), 0);
    (void)take_all(&b, 0);
    assert_int_equal(bucket_next_s(&b), 1);
    assert_int_equal(bucket_full_s(&b), 60);
    bucket_fill(&b, 2, 0);
    assert_int_equal(take_all(&b, 0), 2);
    assert_int_equal(bucket_next_s(&b), 30);
    assert_false(bucket_take(&b, 29000)); /* what it says is enough, and a second less is not */
    assert_int_equal(bucket_next_s(&b), 1);
    assert_true(bucket_take(&b, 30000));
}

static void test_the_largest_rate_does_not_overflow(void **state)
{
    struct bucket b;
    (void)state;
    bucket_fill(&b, KEY_RATE_MAX, 0);
    for (int i = 0; i < KEY_RATE_MAX; i++)
        assert_true(bucket_take(&b, 0));
    assert_false(bucket_take(&b, 0));
    assert_true(bucket_take(&b, INT64_MAX / 2));
    assert_int_equal(bucket_left(&b), KEY_RATE_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_bucket_gives_as_many_as_its_rate_at_once),
        cmocka_unit_test(test_tokens_come_back_evenly),
        cmocka_unit_test(test_nothing_is_lost_by_asking_often),
        cmocka_unit_test(test_a_bucket_never_holds_more_than_its_rate),
        cmocka_unit_test(test_a_clock_that_stands_or_goes_back_brings_nothing),
        cmocka_unit_test(test_no_rate_means_no_limit),
        cmocka_unit_test(test_it_tells_when_to_come_again),
        cmocka_unit_test(test_the_largest_rate_does_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
