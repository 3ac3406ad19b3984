/* SPDX-License-Identifier: MIT */
/*
 * progress.c: tests of src/runner/progress.c: what a command says on descriptor 3.
 */
#include "runner/runner_private.h"

#include <setjmp.h>

#include <cmocka.h>

static int setup(void **state)
{
    struct progress *p = test_calloc(1, sizeof *p);
    progress_init(p);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    progress_release(*state);
    test_free(*state);
    return 0;
}

static void feed(struct progress *p, const char *text)
{
    progress_feed(p, text, strlen(text));
}

static void test_a_line_is_a_message(void **state)
{
    struct progress *p = *state;
    feed(p, "reading");
    assert_false(p->fresh); /* the line has not ended */
    feed(p, " the sources\n");
    assert_true(p->fresh);
    assert_string_equal(p->message, "reading the sources");
    assert_int_equal(p->percent, -1);
    feed(p, "\t  linking \t\r\n");
    assert_string_equal(p->message, "linking");
}

static void test_a_percentage_stands_in_front(void **state)
{
    static const struct {
        const char *line, *message; /* NULL: none */
        int percent;
    } rows[] = {
        {"42% half of it\n", "half of it", 42}, {"7%\n", NULL, 7},
        {" 100%done\n", "done", 100},           {"999% more\n", "more", 100},
        {"1000% of it\n", "1000% of it", -1},   {"% of it\n", "% of it", -1},
        {"42 % of it\n", "42 % of it", -1},     {"-5% of it\n", "-5% of it", -1},
    };
    struct progress *p = *state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        feed(p, rows[i].line);
        assert_true(p->fresh);
        assert_int_equal(p->percent, rows[i].percent);
        if (rows[i].message != NULL)
            assert_string_equal(p->message, rows[i].message);
        else
            assert_null(p->message);
        progress_release(p);
        progress_init(p);
    }
}

static void test_json_says_all_at_once(void **state)
{
    struct progress *p = *state;
    json_t *body = json_object();
    feed(p, "{\"percent\": 41.9, \"message\": \"half\", \"checkpoint\": {\"page\": [1, 2]}}\n");
    progress_body(p, body);
    assert_int_equal(json_int(body, "percent"), 41);
    assert_string_equal(json_text(body, "message"), "half");
    char *checkpoint = json_dumps(json_object_get(body, "checkpoint"), JSON_COMPACT);
    assert_string_equal(checkpoint, "{\"page\":[1,2]}");
    free(checkpoint);
    json_decref(body);
    feed(p, "{\"percent\": -3}\n");
    assert_int_equal(p->percent, 0);
    assert_string_equal(p->message, "half"); /* of each kind the last one counts */
    assert_non_null(p->checkpoint);
}

static void test_json_that_says_nothing_is_a_message(void **state)
{
    static const char *const lines[] = {"{\"percent\": \"many\"}", "{\"other\": 1}", "{broken",
                                        "{\"percent\": 1} and more", "[42]"};
    struct progress *p = *state;
    char line[64];
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        snprintf(line, sizeof line, "%s\n", lines[i]);
        feed(p, line);
        assert_string_equal(p->message, lines[i]);
        assert_int_equal(p->percent, -1);
    }
}

static void test_a_percentage_out_of_range_is_the_nearest(void **state)
{
    struct progress *p = *state;
    feed(p, "{\"percent\": 1e300}\n");
    assert_int_equal(p->percent, 100);
    feed(p, "{\"percent\": -1e300}\n");
    assert_int_equal(p->percent, 0);
}

static void test_a_checkpoint_that_is_too_large_is_left_out(void **state)
{
    struct progress *p = *state;
    struct buf line;
    feed(p, "{\"checkpoint\": 1}\n");
    buf_init(&line, JSON_VALUE_BYTES_MAX);
    buf_text(&line, "{\"percent\": 7, \"checkpoint\": [1e99");
    for (int i = 0; i < 40000; i++)
        buf_text(&line, ",1e99"); /* 21 bytes when it is written again */
    buf_text(&line, "]}\n");
    assert_true(buf_ok(&line));
    progress_feed(p, line.data, line.len);
    buf_release(&line);
    assert_int_equal(p->percent, 7);
    assert_true(p->oversize);
    assert_int_equal(json_integer_value(p->checkpoint), 1);
}

static void test_blank_lines_say_nothing(void **state)
{
    struct progress *p = *state;
    feed(p, "\n \t \n\r\n");
    progress_end(p);
    assert_false(p->fresh);
    assert_null(p->message);
}

static void test_the_last_line_needs_no_end(void **state)
{
    struct progress *p = *state;
    feed(p, "50% a\n80% b");
    assert_int_equal(p->percent, 50);
    progress_end(p);
    assert_int_equal(p->percent, 80);
    assert_string_equal(p->message, "b");
}

static void test_pieces_of_any_size_make_the_same_lines(void **state)
{
    static const char text[] = "a\n10% \xC3\xA9t\xC3\xA9\n{\"checkpoint\": 5}\n";
    struct progress *p = *state;
    for (size_t i = 0; i < sizeof text - 1; i++)
        progress_feed(p, &text[i], 1);
    assert_int_equal(p->percent, 10);
    assert_string_equal(p->message, "\xC3\xA9t\xC3\xA9");
    assert_int_equal(json_integer_value(p->checkpoint), 5);
}

static void test_what_is_no_utf8_ends_the_message(void **state)
{
    struct progress *p = *state;
    feed(p, "good \xFF bad\n");
    assert_string_equal(p->message, "good");
    feed(p, "next\n"); /* and concerns that line alone */
    assert_string_equal(p->message, "next");
}

static void test_a_message_is_cut_between_characters(void **state)
{
    struct progress *p = *state;
    feed(p, "x");
    for (int i = 0; i < MESSAGE_BYTES_MAX; i++)
        feed(p, "\xC3\xA9");
    feed(p, "\n");
    assert_int_equal(strlen(p->message), MESSAGE_BYTES_MAX - 1);
    assert_memory_equal(p->message + MESSAGE_BYTES_MAX - 3, "\xC3\xA9", 3);
}

static void test_an_overlong_line_is_cut_and_the_next_one_whole(void **state)
{
    struct progress *p = *state;
    size_t bytes = 2 * (JSON_VALUE_BYTES_MAX + MESSAGE_BYTES_MAX);
    char *line = test_malloc(bytes);
    memset(line, 'a', bytes);
    progress_feed(p, line, bytes);
    progress_feed(p, line, bytes);
    assert_true(p->line.len < bytes); /* memory is bounded */
    feed(p, " the rest\n33% b\n");
    assert_int_equal(p->percent, 33);
    assert_string_equal(p->message, "b");
    progress_feed(p, line, bytes);
    feed(p, "\n");
    assert_int_equal(strlen(p->message), MESSAGE_BYTES_MAX);
    test_free(line);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_line_is_a_message),
        TEST(test_a_percentage_stands_in_front),
        TEST(test_json_says_all_at_once),
        TEST(test_json_that_says_nothing_is_a_message),
        TEST(test_a_percentage_out_of_range_is_the_nearest),
        TEST(test_a_checkpoint_that_is_too_large_is_left_out),
        TEST(test_blank_lines_say_nothing),
        TEST(test_the_last_line_needs_no_end),
        TEST(test_pieces_of_any_size_make_the_same_lines),
        TEST(test_what_is_no_utf8_ends_the_message),
        TEST(test_a_message_is_cut_between_characters),
        TEST(test_an_overlong_line_is_cut_and_the_next_one_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
