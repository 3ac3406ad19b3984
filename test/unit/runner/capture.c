/* SPDX-License-Identifier: MIT */
/*
 * capture.c: tests of src/runner/capture.c: the log, the ends of the streams, and the result.
 */
#include "runner/runner_private.h"

#include <setjmp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
    char dir[64];
    struct capture c;
};

static int setup(void **state)
{
    struct place *p = test_calloc(1, sizeof *p);
    struct dibs_error why = {0};
    const char *tmp = getenv("TMPDIR");
    snprintf(p->dir, sizeof p->dir, "%.40s/dibs-cap-XXXXXX", tmp != NULL ? tmp : "/tmp");
    *state = p;
    return mkdtemp(p->dir) == NULL || !capture_open(&p->c, p->dir, "a/b/7.log", &why);
}

static int teardown(void **state)
{
    struct place *p = *state;
    char path[128];
    static const char *const left[] = {"a/b/7.log", "a/b", "a"};
    capture_release(&p->c);
    for (size_t i = 0; i < COUNT_OF(left); i++) {
        snprintf(path, sizeof path, "%s/%s", p->dir, left[i]);
        remove(path);
    }
    rmdir(p->dir);
    test_free(p);
    return 0;
}

static void out(struct place *p, const char *text)
{
    capture_out(&p->c, text, strlen(text));
}

/* The result after exit code 0 as compact JSON; valid until the next call. */
static const char *result(struct place *p)
{
    static char text[3 * RESULT_OUTPUT_BYTES];
    json_t *json = capture_result(&p->c, 0, NULL);
    char *dumped = json_dumps(json, JSON_COMPACT);
    assert_non_null(dumped);
    snprintf(text, sizeof text, "%s", dumped);
    free(dumped);
    json_decref(json);
    return text;
}

/* The output member of the result. */
static const char *output(struct place *p)
{
    static char text[3 * RESULT_OUTPUT_BYTES + 1];
    json_t *json = capture_result(&p->c, 0, NULL);
    assert_non_null(json_text(json, "output"));
    snprintf(text, sizeof text, "%s", json_text(json, "output"));
    json_decref(json);
    return text;
}

static const char *last_error(const struct place *p, size_t max)
{
    static char text[ID_BYTES_MAX];
    assert_true(max <= sizeof text);
    capture_last_error(&p->c, text, max);
    return text;
}

/* ---- tails ----------------------------------------------------------------------------------- */

static void test_a_tail_keeps_the_last_bytes_in_order(void **state)
{
    (void)state;
    static const char all[] = "abcdefghijklmnopqrstuvwxyz";
    for (size_t piece = 1; piece < sizeof all; piece++) {
        struct tail t;
        tail_init(&t, 7);
        for (size_t at = 0; at < sizeof all - 1; at += piece) {
            size_t left = sizeof all - 1 - at, end = at + (piece < left ? piece : left);
            struct buf b;
            tail_add(&t, all + at, end - at);
            buf_init(&b, 100);
            tail_copy(&t, &b);
            size_t kept = end < 7 ? end : 7;
            assert_int_equal(b.len, kept);
            assert_memory_equal(b.data, all + end - kept, kept);
            buf_release(&b);
        }
        tail_release(&t);
    }
}

/* ---- the result ------------------------------------------------------------------------------ */

static void test_the_result_is_what_was_printed(void **state)
{
    struct place *p = *state;
    assert_string_equal(result(p), "{\"exitCode\":0,\"output\":\"\"}");
    out(p, "one\n");
    capture_err(&p->c, "not this\n", 9);
    out(p, "two\n");
    assert_string_equal(result(p), "{\"exitCode\":0,\"output\":\"one\\ntwo\\n\"}");
    json_t *json = capture_result(&p->c, 0, "SIGKILL");
    assert_string_equal(json_text(json, "signal"), "SIGKILL");
    assert_null(json_object_get(json, "exitCode"));
    json_decref(json);
}

static void test_one_json_object_is_the_result_itself(void **state)
{
    struct place *p = *state;
    static const char text[] = " \r\n\t{\"a\": [1, {\"b\": \"}\"}],\n \"c\": null}\n";
    for (size_t i = 0; i < sizeof text - 1; i++)
        capture_out(&p->c, &text[i], 1);
    assert_string_equal(result(p), "{\"a\":[1,{\"b\":\"}\"}],\"c\":null}");
}

static void test_anything_but_one_whole_object_is_text(void **state)
{
    static const char *const texts[] = {
        "{\"a\": 1} {\"b\": 2}", "{\"a\": 1}\nok",    "{\"a\": ", "[1]",
        "ok {\"a\": 1}",         "{\"a\":1,\"a\":2}", "5"};
    struct place *p = *state;
    struct dibs_error why = {0};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        out(p, texts[i]);
        assert_string_equal(output(p), texts[i]);
        capture_release(&p->c);
        assert_true(capture_open(&p->c, p->dir, "a/b/7.log", &why));
    }
}

static void test_an_object_that_is_too_large_is_cut_text(void **state)
{
    struct place *p = *state;
    out(p, "{\"a\": \"");
    for (int i = 0; i < JSON_VALUE_BYTES_MAX / 8; i++)
        out(p, "12345678");
    out(p, "\"}");
    assert_int_equal(strlen(output(p)), RESULT_OUTPUT_BYTES);
    assert_int_equal(p->c.whole.len, 0); /* it is not kept any longer */
}

static void test_the_end_begins_with_a_whole_character(void **state)
{
    struct place *p = *state;
    out(p, "x");
    for (int i = 0; i < RESULT_OUTPUT_BYTES; i++)
        out(p, "\xE2\x82\xAC"); /* three bytes: 8,192 of them begin inside one */
    const char *text = output(p);
    assert_int_equal(strlen(text), RESULT_OUTPUT_BYTES / 3 * 3);
    assert_memory_equal(text, "\xE2\x82\xAC", 3);
}

static void test_what_is_no_text_is_replaced(void **state)
{
    struct place *p = *state;
    capture_out(&p->c, "a\0b\xFF\xC3", 5);
    assert_string_equal(output(p), "a\xEF\xBF\xBD"
                                   "b\xEF\xBF\xBD\xEF\xBF\xBD");
}

/* ---- the last error -------------------------------------------------------------------------- */

static void test_an_object_that_grows_when_it_is_written_again_is_text(void **state)
{
    struct place *p = *state;
    out(p, "{\"v\": [1e99");
    for (int i = 0; i < 45000; i++)
        out(p, ",1e99"); /* 21 bytes when it is written again */
    out(p, "]}");
    assert_int_equal(strlen(output(p)), RESULT_OUTPUT_BYTES);
}

static void test_the_last_line_of_stderr_that_is_not_blank(void **state)
{
    static const struct {
        const char *text, *last;
    } rows[] = {
        {"", ""},
        {"\n \n", ""},
        {"one\ntwo", "two"},
        {"one\n\n \r\n", "one"},
        {"50%\rdone\n", "done"},
        {"\xC3\xA9\xFF\n", "\xC3\xA9\xEF\xBF\xBD"},
    };
    struct place *p = *state;
    struct dibs_error why = {0};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        capture_err(&p->c, rows[i].text, strlen(rows[i].text));
        assert_string_equal(last_error(p, 100), rows[i].last);
        capture_release(&p->c);
        assert_true(capture_open(&p->c, p->dir, "a/b/7.log", &why));
    }
}

static void test_a_long_last_line_is_cut_between_characters(void **state)
{
    struct place *p = *state;
    for (int i = 0; i < 20; i++)
        capture_err(&p->c, "\xE2\x82\xAC", 3);
    assert_int_equal(strlen(last_error(p, 12)), 9);
}

/* ---- the log --------------------------------------------------------------------------------- */

static void test_a_full_log_says_what_it_leaves_out_and_how_it_ends(void **state)
{
    struct place *p = *state;
    static char block[1024 * 1024];
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 18; i++)
        capture_out(&p->c, block, sizeof block);
    capture_err(&p->c, "the end\n", 8);
    capture_end(&p->c);
    FILE *log = fopen(p->c.log_path, "r");
    assert_non_null(log);
    assert_int_equal(fseek(log, 16 * 1024 * 1024, SEEK_SET), 0);
    size_t got = fread(block, 1, sizeof block, log);
    fclose(log);
    char line[100];
    int bytes =
        snprintf(line, sizeof line, "\n[dibs: the log is full: %d bytes are left out here]\nxx",
                 2 * 1024 * 1024 + 8 - 64 * 1024);
    assert_memory_equal(block, line, (size_t)bytes);
    assert_int_equal(got, (size_t)bytes - 2 + 64 * 1024);
    assert_memory_equal(block + got - 9, "xthe end\n", 9);
}

static void test_without_a_log_the_result_is_kept_all_the_same(void **state)
{
    struct place *p = *state;
    struct dibs_error why = {0};
    struct stat log;
    assert_int_equal(stat(p->c.log_path, &log), 0);
    assert_int_equal(log.st_mode & 0777, 0600);
    capture_release(&p->c);
    assert_false(capture_open(&p->c, p->dir, "a/b/7.log/none", &why)); /* that is no folder */
    assert_non_null(strstr(why.message, "7.log/none"));
    out(p, "still");
    capture_end(&p->c);
    assert_string_equal(output(p), "still");
    assert_null(p->c.log_path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tail_keeps_the_last_bytes_in_order),
        TEST(test_the_result_is_what_was_printed),
        TEST(test_one_json_object_is_the_result_itself),
        TEST(test_anything_but_one_whole_object_is_text),
        TEST(test_an_object_that_is_too_large_is_cut_text),
        TEST(test_the_end_begins_with_a_whole_character),
        TEST(test_what_is_no_text_is_replaced),
        TEST(test_an_object_that_grows_when_it_is_written_again_is_text),
        TEST(test_the_last_line_of_stderr_that_is_not_blank),
        TEST(test_a_long_last_line_is_cut_between_characters),
        TEST(test_a_full_log_says_what_it_leaves_out_and_how_it_ends),
        TEST(test_without_a_log_the_result_is_kept_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
