/* SPDX-License-Identifier: MIT */
/*
 * timefmt.c: tests of src/base/timefmt.c: known instants, round trips over all of its years, and
 * what is no instant.
 */
#include "base/timefmt.h"

#include <setjmp.h>

#include <cmocka.h>

#define YEAR_1_MS INT64_C(-62135596800000)
#define YEAR_9999_MS INT64_C(253402300799999)

static void test_known_instants_both_ways(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1, "1970-01-01T00:00:00.001Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {951868799999, "2000-02-29T23:59:59.999Z"},
        {951868800000, "2000-03-01T00:00:00.000Z"},
        {1709210096789, "2024-02-29T12:34:56.789Z"},
        {4107542400000, "2100-03-01T00:00:00.000Z"}, /* 2100 has no leap day */
        {4107542399999, "2100-02-28T23:59:59.999Z"},
        {-2208988800000, "1900-01-01T00:00:00.000Z"},
        {2147483648000, "2038-01-19T03:14:08.000Z"},
        {YEAR_1_MS, "0001-01-01T00:00:00.000Z"},
        {YEAR_9999_MS, "9999-12-31T23:59:59.999Z"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[TIME_TEXT_BYTES];
        int64_t ms = 99;
        time_to_text(cases[i].ms, text);
        assert_string_equal(text, cases[i].text);
        assert_true(time_from_text(cases[i].text, &ms));
        assert_true(ms == cases[i].ms);
    }
}

static void test_every_day_of_ten_thousand_years_comes_back(void **state)
{
    (void)state;
    const int64_t step = 86400000 + 1234567; /* about a day, at every time of the day */
    char before[TIME_TEXT_BYTES] = "";
    for (int64_t ms = YEAR_1_MS; ms <= YEAR_9999_MS; ms += step) {
        char text[TIME_TEXT_BYTES];
        int64_t back = 0;
        time_to_text(ms, text);
        assert_true(time_from_text(text, &back));
        assert_true(back == ms);
        assert_true(strcmp(before, text) < 0); /* and texts sort as times do */
        memcpy(before, text, sizeof before);
    }
}

static void test_the_calendar_agrees_with_libc(void **state)
{
    (void)state;
    for (int64_t ms = -INT64_C(3000000000000); ms < INT64_C(5000000000000);
         ms += INT64_C(86400000) * 13) {
        char text[TIME_TEXT_BYTES], expected[TIME_TEXT_BYTES];
        struct tm tm = {0};
        time_t seconds = (time_t)(ms / 1000);
        assert_non_null(gmtime_r(&seconds, &tm));
        strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%S.000Z", &tm);
        time_to_text(ms, text);
        assert_string_equal(text, expected);
    }
}

static void test_times_beyond_the_years_are_clamped(void **state)
{
    (void)state;
    char text[TIME_TEXT_BYTES];
    time_to_text(INT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999Z");
    time_to_text(INT64_MIN, text);
    assert_string_equal(text, "0001-01-01T00:00:00.000Z");
}

static void test_fractions_offsets_and_dates_alone_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"1970-01-01", 0},
        {"1970-01-02", 86400000},
        {"1970-01-01T00:00:01Z", 1000},
        {"1970-01-01T00:00:01.5Z", 1500},
        {"1970-01-01T00:00:01.05Z", 1050},
        {"1970-01-01T00:00:01.0059Z", 1005},
        {"1970-01-01T00:00:01.999999999Z", 1999},
        {"1970-01-01T01:00:00+01:00", 0},
        {"1970-01-01T00:00:00-05:30", 19800000},
        {"1969-12-31T23:00:00.250-01:00", 250},
        {"1970-01-01T23:59:00+23:59", 0},
        {"1970-01-01T00:00:00-00:00", 0},
        {"1969-12-31T23:59:59.9Z", -100},
        {"9999-12-31T23:59:59.999+00:00", YEAR_9999_MS},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int64_t ms = 99;
        assert_true(time_from_text(cases[i].text, &ms));
        assert_true(ms == cases[i].ms);
    }
}

static void test_what_is_no_instant_is_refused(void **state)
{
    (void)state;
    const char *const bad[] = {"",
                               "1970",
                               "1970-01",
                               "1970-1-1",
                               "1970-01-01T",
                               "1970-01-01T00:00:00",
                               "1970-01-01T00:00Z",
                               "1970-01-01 00:00:00Z",
                               "1970-01-01T00:00:00z",
                               "1970-01-01t00:00:00Z",
                               "1970-01-01Z",
                               "1970-13-01",
                               "1970-00-01",
                               "1970-01-00",
                               "1970-01-32",
                               "1970-04-31",
                               "1970-02-29",
                               "1900-02-29",
                               "2100-02-29",
                               "2023-02-29",
                               "2024-02-30",
                               "0000-01-01",
                               "19700-01-01",
                               "-1970-01-01",
                               "+1970-01-01",
                               "1970-01-01T24:00:00Z",
                               "1970-01-01T00:60:00Z",
                               "1970-01-01T00:00:60Z",
                               "1970-01-01T00:00:00.Z",
                               "1970-01-01T00:00:00.1234567890Z",
                               "1970-01-01T00:00:00,5Z",
                               "1970-01-01T00:00:00+1:00",
                               "1970-01-01T00:00:00+0100",
                               "1970-01-01T00:00:00+24:00",
                               "1970-01-01T00:00:00+00:60",
                               "1970-01-01T00:00:00+",
                               "1970-01-01T00:00:00Z ",
                               " 1970-01-01",
                               "1970-01-01T00:00:00ZZ",
                               "0001-01-01T00:00:00+00:01",
                               "9999-12-31T23:59:59-00:01",
                               "yesterday"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        int64_t ms = 99;
        assert_false(time_from_text(bad[i], &ms));
        assert_int_equal(ms, 99);
    }
    assert_false(time_from_text(NULL, &(int64_t){0}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_instants_both_ways),
        cmocka_unit_test(test_every_day_of_ten_thousand_years_comes_back),
        cmocka_unit_test(test_the_calendar_agrees_with_libc),
        cmocka_unit_test(test_times_beyond_the_years_are_clamped),
        cmocka_unit_test(test_fractions_offsets_and_dates_alone_are_read),
        cmocka_unit_test(test_what_is_no_instant_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
