/* SPDX-License-Identifier: MIT */
/*
 * event_stream.c: tests of src/client/event_stream.c: events out of bytes, however they are cut.
 */
#include "client/event_stream.h"

#include <setjmp.h>

#include <cmocka.h>

/* write_down: "7 task:claimed {"a":1}|" for each event. */
static void write_down(void *context, const struct client_event *event)
{
    struct buf *told = context;
    char *data =
        event->data != NULL ? json_dumps(event->data, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    buf_printf(told, "%" PRId64 " %s %s|", event->id, event->type, data != NULL ? data : "-");
    free(data);
}

/* read_in: what is told of a text that comes in pieces of `step` bytes. */
static void read_in(const char *text, size_t step, struct buf *told)
{
    struct event_stream s;
    event_stream_init(&s);
    buf_reset(told);
    for (size_t at = 0, rest = strlen(text); rest > 0; at += step, rest -= step) {
        step = rest < step ? rest : step;
        assert_true(event_stream_feed(&s, text + at, step, write_down, told));
    }
    event_stream_release(&s);
}

static void expect(const char *text, const char *events)
{
    struct buf told;
    buf_init(&told, 100000);
    for (size_t step = 1; step <= strlen(text); step++) {
        read_in(text, step, &told);
        assert_string_equal(told.data != NULL ? told.data : "", events);
    }
    buf_release(&told);
}

static void test_events_come_out_however_the_bytes_are_cut(void **state)
{
    (void)state;
    expect("id: 7\nevent: task:claimed\ndata: {\"a\":1}\n\nid: 8\nevent: x\ndata: [2]\n\n",
           "7 task:claimed {\"a\":1}|8 x [2]|");
}

static void test_all_three_line_ends_are_known(void **state)
{
    (void)state;
    expect("id: 1\r\nevent: a\r\ndata: 1\r\n\r\nid: 2\revent: b\rdata: 2\r\rdata: 3\n\n",
           "1 a 1|2 b 2|0 message 3|");
}

static void test_comments_and_unknown_fields_are_passed_over(void **state)
{
    (void)state;
    expect(": keep-alive\n\nretry: 1000\n:\ndata\n\nid: 3\nnonsense\ndata:{}\n\n",
           "0 message -|3 message {}|");
}

static void test_data_of_several_lines_is_one(void **state)
{
    (void)state;
    expect("data: {\"a\":\ndata: 1}\n\n", "0 message {\"a\":1}|");
}

static void test_without_data_only_the_id_counts(void **state)
{
    (void)state;
    expect("id: 4\nevent: x\n\nevent: y\n\nretry: 1\nid: 5\n\n", "4  -|5  -|");
}

static void test_an_event_without_end_is_not_told(void **state)
{
    (void)state;
    expect("id: 4\nevent: x\ndata: 1\n", "");
}

static void test_an_id_that_is_no_number_and_data_that_are_no_json_do_no_harm(void **state)
{
    (void)state;
    expect("id: many\ndata: <html>\n\nid: 5\ndata: 1\n\n", "0 message -|5 message 1|");
}

static void test_an_event_without_end_is_given_up_at_the_limit(void **state)
{
    struct event_stream s;
    struct buf told;
    char piece[1 << 16];
    bool going = true;
    size_t pieces = 0;
    (void)state;
    memset(piece, 'x', sizeof piece);
    event_stream_init(&s);
    buf_init(&told, 100);
    for (; going && pieces < 1000; pieces++)
        going = event_stream_feed(&s, piece, sizeof piece, write_down, &told);
    assert_false(going);
    assert_int_equal(pieces, EVENT_BYTES_MAX / sizeof piece + 1);
    event_stream_release(&s);
    buf_release(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_come_out_however_the_bytes_are_cut),
        cmocka_unit_test(test_all_three_line_ends_are_known),
        cmocka_unit_test(test_comments_and_unknown_fields_are_passed_over),
        cmocka_unit_test(test_data_of_several_lines_is_one),
        cmocka_unit_test(test_without_data_only_the_id_counts),
        cmocka_unit_test(test_an_event_without_end_is_not_told),
        cmocka_unit_test(test_an_id_that_is_no_number_and_data_that_are_no_json_do_no_harm),
        cmocka_unit_test(test_an_event_without_end_is_given_up_at_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
