/* SPDX-License-Identifier: MIT */
/*
 * json_write.c: tests of src/base/json_write.c: commas, escapes, replaced bytes, numbers; and that
 * what was written is read back as it was meant.
 */
#include "base/json.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    struct buf out;
    struct jw w;
};

static struct fixture fixture;

static int set_up(void **state)
{
    buf_init(&fixture.out, BODY_BYTES_MAX);
    jw_init(&fixture.w, &fixture.out);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    buf_release(&f->out);
    return 0;
}

/* again: an empty document. */
static void again(struct fixture *f)
{
    buf_reset(&f->out);
    jw_init(&f->w, &f->out);
}

static void test_commas_stand_between_and_nowhere_else(void **state)
{
    struct fixture *f = *state;
    struct jw *w = &f->w;
    jw_object(w);
    jw_kint(w, "a", 1);
    jw_karray(w, "list");
    jw_int(w, 1);
    jw_text(w, "two");
    jw_object(w);
    jw_object_end(w);
    jw_array(w);
    jw_array_end(w);
    jw_null(w);
    jw_array_end(w);
    jw_kobject(w, "o");
    jw_kbool(w, "yes", true);
    jw_kbool(w, "no", false);
    jw_object_end(w);
    jw_kraw(w, "raw", "{\"x\":[1]}");
    jw_kraw(w, "none", NULL);
    jw_kstrings(w, "tags", DIBS_STRINGS("p", "q"));
    jw_kstrings(w, "empty", (struct dibs_strings){0});
    jw_ktext(w, "t", NULL);
    jw_ktime(w, "at", 1);
    jw_ktime(w, "never", 0);
    jw_object_end(w);
    assert_int_equal(w->depth, 0);
    assert_string_equal(
        f->out.data, "{\"a\":1,\"list\":[1,\"two\",{},[],null],\"o\":{\"yes\":true,\"no\":false},"
                     "\"raw\":{\"x\":[1]},\"none\":null,\"tags\":[\"p\",\"q\"],\"empty\":[],"
                     "\"t\":null,\"at\":\"1970-01-01T00:00:00.001Z\",\"never\":null}");
}

static void test_optional_fields_without_a_value_leave_no_trace(void **state)
{
    struct fixture *f = *state;
    struct jw *w = &f->w;
    jw_object(w);
    jw_ktext_opt(w, "a", NULL);
    jw_kint_opt(w, "b", 0);
    jw_kraw_opt(w, "c", NULL);
    jw_ktime_opt(w, "d", 0);
    jw_object_end(w);
    assert_string_equal(f->out.data, "{}");
    again(f);
    jw_object(w);
    jw_ktext_opt(w, "a", "");
    jw_kint_opt(w, "b", -1);
    jw_kraw_opt(w, "c", "[]");
    jw_ktime_opt(w, "d", 86400000);
    jw_object_end(w);
    assert_string_equal(f->out.data,
                        "{\"a\":\"\",\"b\":-1,\"c\":[],\"d\":\"1970-01-02T00:00:00.000Z\"}");
}

static void test_special_characters_are_escaped(void **state)
{
    struct fixture *f = *state;
    jw_text(&f->w, "a\"b\\c\b\f\n\r\t\x01\x1f\x7f/e");
    assert_string_equal(f->out.data, "\"a\\\"b\\\\c\\b\\f\\n\\r\\t\\u0001\\u001f\x7f/e\"");
}

static void test_valid_utf8_passes_and_every_other_byte_is_replaced(void **state)
{
    struct fixture *f = *state;
#define R "\xEF\xBF\xBD"
    static const struct {
        const char *in;
        size_t bytes;
        const char *out;
    } cases[] = {
        {"Gr\xC3\xBCn \xE2\x82\xAC \xF0\x9F\x98\x80", 14,
         "\"Gr\xC3\xBCn \xE2\x82\xAC \xF0\x9F\x98\x80\""},
        {"\xFF", 1, "\"" R "\""},
        {"a\xC3", 2, "\"a" R "\""},
        {"\xC0\x80", 2, "\"" R R "\""},
        {"\xED\xA0\x80z", 4, "\"" R R R "z\""},
        {"\xE2\x82\xAC", 2, "\"" R R "\""}, /* the text ends inside the character */
        {"a\0b", 3, "\"a" R "b\""},
        {"", 0, "\"\""},
        {NULL, 0, "\"\""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        again(f);
        jw_textn(&f->w, cases[i].in, cases[i].bytes);
        assert_string_equal(f->out.data, cases[i].out);
    }
}

static void test_any_bytes_at_all_are_read_back_as_one_valid_text(void **state)
{
    struct fixture *f = *state;
    uint64_t chance = 88172645463325252u;
    for (int round = 0; round < 3000; round++) {
        char bytes[64];
        for (size_t i = 0; i < sizeof bytes; i++) {
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            bytes[i] = (char)(chance >> 11);
        }
        again(f);
        jw_textn(&f->w, bytes, (size_t)round % (sizeof bytes + 1));
        json_t *value = NULL;
        assert_int_equal(json_read(f->out.data, f->out.len, &value, NULL), DIBS_OK);
        assert_true(json_is_string(value));
        json_decref(value);
    }
}

static void test_integers_keep_all_their_digits(void **state)
{
    struct fixture *f = *state;
    jw_array(&f->w);
    jw_int(&f->w, INT64_MIN);
    jw_int(&f->w, 0);
    jw_int(&f->w, INT64_MAX);
    jw_array_end(&f->w);
    assert_string_equal(f->out.data, "[-9223372036854775808,0,9223372036854775807]");
}

static void test_reals_are_short_and_read_back_the_same(void **state)
{
    struct fixture *f = *state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.1, "0.1"},
        {1.5, "1.5"},
        {-2.25, "-2.25"},
        {3, "3"},
        {1e300, "1e+300"},
        {100.0 / 3, NULL},
        {5e-324, NULL},
        {1.7976931348623157e308, NULL},
        {0.1 + 0.2, "0.30000000000000004"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        again(f);
        jw_real(&f->w, cases[i].value);
        if (cases[i].text != NULL)
            assert_string_equal(f->out.data, cases[i].text);
        assert_true(strtod(f->out.data, NULL) == cases[i].value);
    }
    again(f);
    jw_array(&f->w);
    jw_real(&f->w, (double)NAN);
    jw_real(&f->w, (double)INFINITY);
    jw_array_end(&f->w);
    assert_string_equal(f->out.data, "[null,null]");
}

static void test_a_full_buffer_fails_once_at_the_end(void **state)
{
    (void)state;
    struct buf small;
    struct jw w;
    buf_init(&small, 10);
    jw_init(&w, &small);
    jw_object(&w);
    jw_ktext(&w, "key", "a text that does not fit");
    jw_object_end(&w);
    assert_int_equal(buf_status(&small, NULL), DIBS_PAYLOAD_TOO_LARGE);
    buf_release(&small);
}

static void close_unopened(struct jw *w)
{
    jw_object_end(w);
}

static void key_at_the_top(struct jw *w)
{
    jw_kint(w, "a", 1);
}

static void two_values_at_the_top(struct jw *w)
{
    jw_int(w, 1);
    jw_int(w, 2);
}

static void too_deep(struct jw *w)
{
    for (int i = 0; i <= JSON_DEPTH_MAX; i++)
        jw_array(w);
}

static void test_an_unbalanced_document_aborts(void **state)
{
    struct fixture *f = *state;
    void (*const wrongs[])(struct jw * w) = {close_unopened, key_at_the_top, two_values_at_the_top,
                                             too_deep};
    for (size_t i = 0; i < COUNT_OF(wrongs); i++) {
        int status = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            int quiet = open("/dev/null", O_WRONLY);
            if (quiet >= 0)
                dup2(quiet, STDERR_FILENO);
            signal(SIGABRT, SIG_DFL);
            wrongs[i](&f->w);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_commas_stand_between_and_nowhere_else),
        TEST(test_optional_fields_without_a_value_leave_no_trace),
        TEST(test_special_characters_are_escaped),
        TEST(test_valid_utf8_passes_and_every_other_byte_is_replaced),
        TEST(test_any_bytes_at_all_are_read_back_as_one_valid_text),
        TEST(test_integers_keep_all_their_digits),
        TEST(test_reals_are_short_and_read_back_the_same),
        TEST(test_a_full_buffer_fails_once_at_the_end),
        TEST(test_an_unbalanced_document_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
