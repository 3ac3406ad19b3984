/* SPDX-License-Identifier: MIT */
/*
 * json_read.c: tests of src/base/json_read.c: what must be accepted, what must be refused and at
 * which byte, and what happens when there is no memory.
 */
#include "base/json.h"
#include "base/str.h"

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

/* read_exactly: json_read of a block that ends where the text ends, so that reading beyond it is
 * found out. */
static dibs_status read_exactly(const char *text, size_t bytes, json_t **out,
                                struct dibs_error *err)
{
    char *copy = mem_alloc(bytes);
    memcpy(copy, text, bytes);
    dibs_status s = json_read(copy, bytes, out, err);
    mem_free(copy);
    return s;
}

static void accept(const char *text)
{
    struct dibs_error err = {0};
    json_t *value = NULL;
    dibs_status s = read_exactly(text, strlen(text), &value, &err);
    if (s != DIBS_OK)
        fail_msg("refused %s: %s", text, err.message);
    assert_non_null(value);
    json_decref(value);
    assert_int_equal(json_check(text, strlen(text), "params", &err), DIBS_OK);
}

static void refuse(const char *text, size_t bytes)
{
    struct dibs_error err = {0};
    json_t *value = NULL;
    if (read_exactly(text, bytes, &value, &err) != DIBS_INVALID_REQUEST)
        fail_msg("accepted %.*s", (int)bytes, text);
    assert_null(value);
    assert_int_equal(err.code, DIBS_INVALID_REQUEST);
    assert_true(str_starts(err.message, "JSON is not valid at byte "));
    const char *why = strstr(err.message, ": ");
    assert_non_null(why);
    assert_true(strlen(why) > 4);
    assert_true(str_is_utf8(err.message, strlen(err.message)));
}

static void test_every_kind_of_value_is_accepted_at_the_top(void **state)
{
    (void)state;
    const char *const good[] = {"null",
                                "true",
                                "false",
                                "0",
                                "-0",
                                "-0.0",
                                "1",
                                "-1",
                                "1.5",
                                "1e5",
                                "1E+5",
                                "1e-5",
                                "\"\"",
                                "\"a\"",
                                "[]",
                                "{}",
                                " [ ] ",
                                "\t{\r\n}\n",
                                "[1,2]",
                                "{\"a\":1,\"b\":{\"a\":2}}",
                                "9223372036854775807",
                                "-9223372036854775808",
                                "1.7976931348623157e308",
                                "1e-400",
                                "\"\\u00e9\\n\\\"\\\\\\/\\b\\f\\r\\t\"",
                                "\"\\ud83d\\ude00\"",
                                "\"\xF0\x9F\x98\x80\"",
                                "\"\xEF\xBF\xBD\"",
                                "\"\x7F\"",
                                "\"{[{[\"",
                                "\"\\\"{[\"",
                                "{\"\":1}",
                                "[{},[],\"]]]\"]"};
    for (size_t i = 0; i < COUNT_OF(good); i++)
        accept(good[i]);
}

#define REFUSE(...)                                                                                \
    refuse_all((const char *const[]){__VA_ARGS__},                                                 \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void refuse_all(const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        refuse(texts[i], strlen(texts[i]));
}

static void test_what_is_no_json_is_refused(void **state)
{
    (void)state;
    REFUSE("", " ", "\n\t", "nul", "nulll", "True", "undefined", "'a'", "{'a':1}", "{a:1}", "[",
           "]", "{", "}", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}",
           "{\"a\" 1}", "{1:2}", "{\"a\":1 \"b\":2}", "[}", "{]", "[1]]");
    REFUSE("1 2", "[] []", "{}x", "null,", "[1]//c", "/*c*/1", "//c\n1", "[1/*c*/]", "#c\n1");
}

static void test_numbers_out_of_form_or_range_are_refused(void **state)
{
    (void)state;
    REFUSE("01", "-01", "00", "+1", "1.", ".5", "1e", "1e+", "-", "0x10", "1_000", "NaN",
           "Infinity", "-Infinity");
    REFUSE("1e400", "-1e400", "9223372036854775808", "-9223372036854775809",
           "18446744073709551616");
}

static void test_a_key_given_twice_is_refused(void **state)
{
    (void)state;
    REFUSE("{\"a\":1,\"a\":2}", "{\"x\":{\"a\":1,\"\\u0061\":2}}", "[{\"k\":null,\"k\":null}]");
}

static void test_broken_texts_and_lone_surrogates_are_refused(void **state)
{
    (void)state;
    REFUSE("\"", "\"a", "\"\\", "\"\\x41\"", "\"\\u12\"", "\"\\u123g\"", "\"a\nb\"", "\"\t\"",
           "\"\x01\"");
    REFUSE("\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\ud800\"", "\"\\ud800x\"", "\"\\ud800\\n\"",
           "\"\\ude00\\ud83d\"");
}

static void test_nul_is_refused_raw_and_escaped(void **state)
{
    (void)state;
    REFUSE("\"\\u0000\"", "{\"\\u0000\":1}", "[\"a\\u0000b\"]");
    refuse("\0", 1);
    refuse("1\0", 2);
    refuse("\"a\0b\"", 5);
    refuse("{}\0{}", 5);
}

static void test_what_is_not_utf8_is_refused(void **state)
{
    (void)state;
    REFUSE("\xEF\xBB\xBF{}", "\xEF\xBB\xBF", "\xFE\xFF\x20", "\"\xC0\x80\"", "\"\xC1\xBF\"",
           "\"\xE0\x80\xAF\"", "\"\xED\xA0\x80\"", "\"\xF0\x80\x80\x80\"", "\"\xF4\x90\x80\x80\"",
           "\"\xF8\x88\x80\x80\x80\"", "\"\xFF\"", "\"\x80\"", "\"\xC3\"", "\"\xE2\x82\"", "\xC3",
           "{\"\xFF\":1}", "\xC2\xA0[]");
}

/* nested: `depth` brackets around nothing. */
static void nested(char out[256], int depth, char open, char close)
{
    memset(out, open, (size_t)depth);
    memset(out + depth, close, (size_t)depth);
    out[2 * depth] = '\0';
}

static void test_depth_32_is_the_last_accepted(void **state)
{
    (void)state;
    char text[256];
    struct dibs_error err = {0};
    json_t *value = NULL;
    nested(text, JSON_DEPTH_MAX, '[', ']');
    accept(text);
    nested(text, JSON_DEPTH_MAX + 1, '[', ']');
    refuse(text, strlen(text));
    nested(text, 100, '{', '}');
    refuse(text, strlen(text));
    memset(text, '[',
           200); /* never closed: refused for its depth, before anything recurses into it */
    assert_int_equal(json_read(text, 200, &value, &err), DIBS_INVALID_REQUEST);
    assert_string_equal(err.message, "JSON is not valid at byte 33: nested more than 32 deep");
    accept("[[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],"
           "[],[],[],[],[],[],[],[],[],[],[]]"); /* wide is not deep */
}

static void test_the_refusal_names_the_byte(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
        const char *message;
    } cases[] = {
        {"", 0, "JSON is not valid at byte 1: it is empty"},
        {"  ", 2, "JSON is not valid at byte 3: it is empty"},
        {"\xEF\xBB\xBF[]", 5, "JSON is not valid at byte 1: byte order mark"},
        {"[\"a\xFF\"]", 6, "JSON is not valid at byte 4: not UTF-8"},
        {"[1,\0]", 5, "JSON is not valid at byte 4: NUL byte"},
        {"{\"a\":1,\"b\":2,\"a\":3}", 19,
         "JSON is not valid at byte 16: duplicate object key near '\"a\"'"},
        {"[1,2] x", 7, "JSON is not valid at byte 7: end of file expected near 'x'"},
        {"[1,oops]", 8, "JSON is not valid at byte 7: invalid token near 'oops'"},
        {"[9223372036854775808]", 21,
         "JSON is not valid at byte 20: too big integer near '9223372036854775808'"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct dibs_error err = {0};
        json_t *value = NULL;
        assert_int_equal(read_exactly(cases[i].text, cases[i].bytes, &value, &err),
                         DIBS_INVALID_REQUEST);
        assert_string_equal(err.message, cases[i].message);
    }
}

static void test_the_refusal_quotes_no_control_characters(void **state)
{
    (void)state;
    const char *const texts[] = {"\"abc\x1b[31m\"", "[\x1b[2J]", "\x7F", "[\"x\ny\"]"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct dibs_error err = {0};
        json_t *value = NULL;
        assert_int_equal(json_read(texts[i], strlen(texts[i]), &value, &err), DIBS_INVALID_REQUEST);
        for (const char *c = err.message; *c != '\0'; c++)
            assert_true((unsigned char)*c >= 0x20 && *c != 0x7F);
    }
}

static void test_values_are_what_they_were(void **state)
{
    (void)state;
    const char *text =
        "{\"i\":-9223372036854775808,\"r\":0.1,\"s\":\"\\ud83d\\ude00\",\"t\":true,\"n\":null}";
    json_t *value = NULL;
    assert_int_equal(json_read(text, strlen(text), &value, NULL), DIBS_OK);
    assert_true(json_integer_value(json_object_get(value, "i")) == INT64_MIN);
    assert_true(json_real_value(json_object_get(value, "r")) == 0.1);
    assert_string_equal(json_string_value(json_object_get(value, "s")), "\xF0\x9F\x98\x80");
    assert_true(json_is_true(json_object_get(value, "t")));
    assert_true(json_is_null(json_object_get(value, "n")));
    json_decref(value);
}

static void test_a_body_of_1_mib_is_the_largest(void **state)
{
    (void)state;
    struct dibs_error err = {0};
    json_t *value = NULL;
    char *text = mem_alloc(BODY_BYTES_MAX + 2);
    memset(text, 'x', BODY_BYTES_MAX + 1);
    text[0] = text[BODY_BYTES_MAX - 1] = '"';
    assert_int_equal(json_read(text, BODY_BYTES_MAX, &value, &err), DIBS_OK);
    assert_int_equal(json_string_length(value), BODY_BYTES_MAX - 2);
    json_decref(value);
    value = NULL;
    assert_int_equal(json_read(text, BODY_BYTES_MAX + 1, &value, &err), DIBS_PAYLOAD_TOO_LARGE);
    assert_int_equal(err.code, DIBS_PAYLOAD_TOO_LARGE);
    assert_null(value);
    mem_free(text);
}

static void test_a_check_names_the_field(void **state)
{
    (void)state;
    struct dibs_error err = {0};
    assert_int_equal(json_check(NULL, 10, "params", &err), DIBS_OK);
    assert_int_equal(json_check("[1,2,3]", 7, "params", &err), DIBS_OK);
    assert_int_equal(json_check("[1,2,3]", 6, "params", &err), DIBS_INVALID_REQUEST);
    assert_string_equal(err.field, "params");
    assert_string_equal(err.message, "'params' is larger than 6 bytes");
    assert_int_equal(json_check("", 6, "result", &err), DIBS_INVALID_REQUEST);
    assert_string_equal(err.field, "result");
    assert_string_equal(err.message, "'result' is not valid JSON at byte 1: it is empty");
}

static void test_each_failing_allocation_is_out_of_memory_not_bad_json(void **state)
{
    (void)state;
    const char *text =
        "{\"a\":[1,2.5,\"text \\u00e9\",true,null,[[],{}],1,2,3,4,5,6,7,8,9],\"b\":{\"c\":\"d\"},"
        "\"e\":0,\"f\":0,\"g\":0,\"h\":0,\"i\":0,\"j\":0,\"k\":0,\"l\":0,"
        "\"a key that is longer than any first buffer would be\":-1e-5}";
    dibs_status s = DIBS_OUT_OF_MEMORY;
    int which = 0;
    for (failing = 1; s != DIBS_OK; failing++) {
        struct dibs_error err = {0};
        json_t *value = NULL;
        requests = 0;
        which = failing;
        mem_should_fail = count_and_fail;
        s = json_read(text, strlen(text), &value, &err);
        mem_should_fail = NULL;
        assert_int_equal(s == DIBS_OK, requests < failing);
        if (s != DIBS_OK) {
            assert_int_equal(s, DIBS_OUT_OF_MEMORY);
            assert_int_equal(err.code, DIBS_OUT_OF_MEMORY);
            assert_null(value);
        }
        json_decref(value);
    }
    assert_in_range(which, 20, 500);
    requests = 0;
    failing = 2;
    mem_should_fail = count_and_fail;
    assert_int_equal(json_check(text, 1000, "params", NULL), DIBS_OUT_OF_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_of_value_is_accepted_at_the_top),
        cmocka_unit_test(test_what_is_no_json_is_refused),
        cmocka_unit_test(test_numbers_out_of_form_or_range_are_refused),
        cmocka_unit_test(test_a_key_given_twice_is_refused),
        cmocka_unit_test(test_broken_texts_and_lone_surrogates_are_refused),
        cmocka_unit_test(test_nul_is_refused_raw_and_escaped),
        cmocka_unit_test(test_what_is_not_utf8_is_refused),
        cmocka_unit_test(test_depth_32_is_the_last_accepted),
        cmocka_unit_test(test_the_refusal_names_the_byte),
        cmocka_unit_test(test_the_refusal_quotes_no_control_characters),
        cmocka_unit_test(test_values_are_what_they_were),
        cmocka_unit_test(test_a_body_of_1_mib_is_the_largest),
        cmocka_unit_test(test_a_check_names_the_field),
        cmocka_unit_test_teardown(test_each_failing_allocation_is_out_of_memory_not_bad_json,
                                  stop_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
