/* SPDX-License-Identifier: MIT */
/*
 * str.c: tests of src/base/str.c: comparisons, ids, strict UTF-8, numbers, durations, fitting.
 */
#include "base/str.h"

#include <setjmp.h>

#include <cmocka.h>

static void test_null_equals_only_null(void **state)
{
    (void)state;
    assert_true(str_eq(NULL, NULL));
    assert_false(str_eq(NULL, ""));
    assert_false(str_eq("", NULL));
    assert_true(str_eq("a", "a"));
    assert_false(str_eq("a", "A"));
    assert_true(str_eq_nocase(NULL, NULL));
    assert_false(str_eq_nocase("", NULL));
    assert_true(str_eq_nocase("In_Progress", "IN_PROGRESS"));
    assert_false(str_eq_nocase("open", "opene"));
    assert_false(str_eq_nocase("opene", "open"));
    assert_false(str_eq_nocase("[", "{")); /* a bit apart as letters are, but no letters */
    assert_true(str_starts("abc", "ab"));
    assert_true(str_starts("abc", ""));
    assert_false(str_starts("a", "ab"));
    assert_false(str_starts(NULL, "a"));
}

static void test_an_id_is_1_to_128_of_its_characters(void **state)
{
    (void)state;
    char text[ID_BYTES_MAX + 2];
    memset(text, 'x', sizeof text);
    text[ID_BYTES_MAX + 1] = '\0';
    assert_false(str_is_id(text));
    text[ID_BYTES_MAX] = '\0';
    assert_true(str_is_id(text));
    assert_true(str_is_id("aZ09._:-"));
    assert_false(str_is_id(""));
    assert_false(str_is_id(NULL));
    for (int c = 1; c < 256; c++) {
        bool allowed = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       c == '.' || c == '_' || c == ':' || c == '-';
        assert_int_equal(str_is_id((char[]){'a', (char)c, '\0'}), allowed);
    }
}

/* encode: the code point as UTF-8 would have it if everything were allowed; returns the bytes. */
static size_t encode(uint32_t point, char out[4])
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3F));
    out[0] = (char)((0xF00 >> length & 0xFF) | point);
    return length;
}

static void test_every_code_point_is_utf8_but_surrogates_and_nul(void **state)
{
    (void)state;
    for (uint32_t point = 0; point < 0x120000; point++) {
        char text[4];
        size_t length = encode(point, text);
        bool valid = point > 0 && point <= 0x10FFFF && (point < 0xD800 || point > 0xDFFF);
        assert_int_equal(str_utf8_char(text, length), valid ? length : 0);
        if (length > 1)
            assert_int_equal(str_utf8_char(text, length - 1), 0);
    }
}

static void test_overlong_cut_and_stray_bytes_are_not_utf8(void **state)
{
    (void)state;
    const char *const bad[] = {"\xC0\x80",
                               "\xC1\xBF",
                               "\xE0\x80\x80",
                               "\xE0\x9F\xBF",
                               "\xF0\x80\x80\x80",
                               "\xF0\x8F\xBF\xBF",
                               "\xF4\x90\x80\x80",
                               "\xF5\x80\x80\x80",
                               "\xFF",
                               "\xFE",
                               "\x80",
                               "\xBF",
                               "a\x80",
                               "\xC3",
                               "\xE2\x82",
                               "\xE2\x82(",
                               "\xF0\x9F\x98",
                               "\xC3\xC3",
                               "\xED\xA0\x80",
                               "\xED\xBF\xBF"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_false(str_is_utf8(bad[i], strlen(bad[i])));
    assert_false(str_is_utf8("a\0b", 3));
    assert_true(str_is_utf8("", 0));
    assert_int_equal(str_utf8_run("ab\xC3\xBC\xFFz", 6), 4);
    assert_int_equal(str_utf8_run("a\0b", 3), 1);
    assert_int_equal(str_utf8_run("\xC3", 1), 0);
    assert_true(str_is_utf8("\x7FGr\xC3\xBCn \xE2\x82\xAC \xF0\x9F\x98\x80", 15));
}

static void test_a_number_is_the_whole_text_or_none(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"-0", 0},
        {"7", 7},
        {"-7", -7},
        {"007", 7},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        int64_t value = 99;
        assert_true(str_to_int(good[i].text, &value));
        assert_true(value == good[i].value);
    }
    const char *const bad[] = {"",
                               "-",
                               "+1",
                               " 1",
                               "1 ",
                               "1a",
                               "0x10",
                               "1.0",
                               "1e3",
                               "--1",
                               "9223372036854775808",
                               "-9223372036854775809",
                               "99999999999999999999"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        int64_t value = 99;
        assert_false(str_to_int(bad[i], &value));
        assert_int_equal(value, 99);
    }
    assert_false(str_to_int(NULL, &(int64_t){0}));
}

static void test_durations_are_read_with_their_unit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"1500", 1500},
        {"1500ms", 1500},
        {"90s", 90000},
        {"30m", 1800000},
        {"2h", 7200000},
        {"7d", 604800000},
        {"0", 0},
        {"0s", 0},
        {"9223372036854775807", INT64_MAX},
        {"106751991167d", INT64_C(106751991167) * 86400000},
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        int64_t ms = -1;
        assert_true(str_to_duration_ms(good[i].text, &ms));
        assert_true(ms == good[i].ms);
    }
    const char *const bad[] = {"",
                               "s",
                               "-5s",
                               "+5s",
                               "1.5h",
                               "5 s",
                               " 5s",
                               "5S",
                               "5sec",
                               "5w",
                               "1h30m",
                               "106751991168d",
                               "9223372036854775808",
                               "9223372036854775807s"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        int64_t ms = -1;
        assert_false(str_to_duration_ms(bad[i], &ms));
        assert_int_equal(ms, -1);
    }
    assert_false(str_to_duration_ms(NULL, &(int64_t){0}));
}

static void test_durations_are_written_in_their_largest_exact_unit(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {1, "1ms"},
        {1500, "1500ms"},
        {1000, "1s"},
        {90000, "90s"},
        {60000, "1m"},
        {1800000, "30m"},
        {3600000, "1h"},
        {7200000, "2h"},
        {86400000, "1d"},
        {604800000, "7d"},
        {129600000, "36h"},
        {-1500, "-1500ms"},
        {INT64_MAX, "9223372036854775807ms"},
        {INT64_MIN, "-9223372036854775808ms"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[32];
        int64_t back = -1;
        str_from_duration_ms(cases[i].ms, text);
        assert_string_equal(text, cases[i].text);
        if (cases[i].ms >= 0) {
            assert_true(str_to_duration_ms(text, &back));
            assert_true(back == cases[i].ms);
        }
    }
}

static void test_fitting_cuts_before_a_character_that_does_not_fit(void **state)
{
    (void)state;
    const char *text = "a\xC3\xBC\xE2\x82\xAC\xF0\x9F\x98\x80z"; /* 1, 2, 3, 4 and 1 bytes */
    const size_t expected[] = {0, 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
    for (size_t room = 1; room < COUNT_OF(expected); room++) {
        char out[16];
        memset(out, '#', sizeof out);
        str_fit(out, room, text);
        assert_int_equal(strlen(out), expected[room]);
        assert_memory_equal(out, text, expected[room]);
        assert_int_equal(out[room], '#');
    }
    char out[4] = "xyz";
    str_fit(out, sizeof out, NULL);
    assert_string_equal(out, "");
    str_fit(out, 0, "abc");
    assert_string_equal(out, "");
    str_fit(out, sizeof out, "abcdef");
    assert_string_equal(out, "abc");
    char junk[16];
    str_fit(junk, sizeof junk,
            "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80");
    assert_int_equal(strlen(junk), 12); /* what is no UTF-8 loses at most three bytes */
}

static void test_durations_for_people_are_rounded_up(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {{-5, "0s"},       {0, "0s"},         {1, "1s"},        {59001, "60s"},
                 {119000, "119s"}, {119001, "2m"},    {1799000, "30m"}, {7140000, "119m"},
                 {7200000, "2h"},  {7500000, "2h 5m"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char out[32];
        str_rough_duration_ms(cases[i].ms, out);
        assert_string_equal(out, cases[i].text);
    }
}

static void test_a_hash_tells_texts_and_their_ends_apart(void **state)
{
    (void)state;
    uint64_t ab_c = str_hash(str_hash(STR_HASH, "ab"), "c");
    assert_true(ab_c != str_hash(str_hash(STR_HASH, "a"), "bc"));
    assert_true(ab_c != str_hash(str_hash(STR_HASH, "c"), "ab"));
    assert_true(ab_c == str_hash(str_hash(STR_HASH, "ab"), "c"));
    assert_true(str_hash(STR_HASH, "") != STR_HASH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_equals_only_null),
        cmocka_unit_test(test_an_id_is_1_to_128_of_its_characters),
        cmocka_unit_test(test_every_code_point_is_utf8_but_surrogates_and_nul),
        cmocka_unit_test(test_overlong_cut_and_stray_bytes_are_not_utf8),
        cmocka_unit_test(test_a_number_is_the_whole_text_or_none),
        cmocka_unit_test(test_durations_are_read_with_their_unit),
        cmocka_unit_test(test_durations_are_written_in_their_largest_exact_unit),
        cmocka_unit_test(test_durations_for_people_are_rounded_up),
        cmocka_unit_test(test_fitting_cuts_before_a_character_that_does_not_fit),
        cmocka_unit_test(test_a_hash_tells_texts_and_their_ends_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
