/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/outgoing.c: answers on their way: what is put there, when it is due, how it
 * ends.
 */
#include "core_help.h"

#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "core/hook.h"

static const char *add_message(struct fixture *f, const char *source, const char *channel,
                               const char *thread)
{
    struct dibs_message_new in = {
        .source = source, .content = "a question", .channel = channel, .thread = thread};
    struct dibs_message out = {0};
    assert_ok(f, dibs_inbox_add(f->d, f->a, &in, &out, &f->err));
    return out.id;
}

static void respond(struct fixture *f, const char *id, const char *text)
{
    struct dibs_inbox_answer in = {.id = id, .response = text};
    struct dibs_message out = {0};
    assert_ok(f, dibs_inbox_respond(f->d, f->a, &in, &out, &f->err));
}

static const char *answer(struct fixture *f, const char *text)
{
    const char *id = add_message(f, "slack", "C1", "1.2");
    respond(f, id, text);
    return id;
}

static struct dibs_outgoing_list due(struct fixture *f)
{
    struct dibs_outgoing_list out = {0};
    assert_ok(f, dibs__outgoing_due(f->d, f->a, 10, &out, &f->err));
    return out;
}

static void report(struct fixture *f, int64_t key, enum dibs_outgoing_end end, const char *error,
                   int64_t again_ms)
{
    struct dibs_outgoing_report in = {.key = key, .end = end, .error = error, .again_ms = again_ms};
    assert_ok(f, dibs__outgoing_report(f->d, f->a, &in, &f->err));
}

static const char *field(struct fixture *f, const char *json, const char *name)
{
    json_t *root = json_loads(json, 0, NULL);
    char text[256] = "";
    assert_non_null(root);
    str_fit(text, sizeof text, json_string_value(json_object_get(root, name)));
    json_decref(root);
    char *copy = arena_strdup(f->a, text);
    assert_non_null(copy);
    return copy;
}

static void test_an_answer_to_slack_is_due_at_once(void **state)
{
    struct fixture *f = *state;
    const char *id = answer(f, "an \"answer\"");
    struct dibs_outgoing_list list = due(f);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.waiting, 1);
    assert_int_equal(list.next_ms, 0);
    assert_string_equal(list.items[0].message_id, id);
    assert_string_equal(list.items[0].target, "slack");
    assert_int_equal(list.items[0].attempts, 0);
    assert_string_equal(field(f, list.items[0].body, "channel"), "C1");
    assert_string_equal(field(f, list.items[0].body, "thread_ts"), "1.2");
    assert_string_equal(field(f, list.items[0].body, "text"), "an \"answer\"");
}

static void test_each_answer_has_an_id_of_its_own_that_stays(void **state)
{
    struct fixture *f = *state;
    answer(f, "a");
    answer(f, "b");
    struct dibs_outgoing_list list = due(f);
    assert_int_equal(list.count, 2);
    const char *first = field(f, list.items[0].body, "client_msg_id");
    assert_int_equal(strlen(first), 36);
    assert_int_equal(first[14], '4');
    assert_string_not_equal(first, field(f, list.items[1].body, "client_msg_id"));
    report(f, list.items[0].key, DIBS_OUTGOING_AGAIN, "x", 0);
    list = due(f);
    for (size_t i = 0; i < list.count; i++)
        if (list.items[i].attempts == 1)
            assert_string_equal(field(f, list.items[i].body, "client_msg_id"), first);
}

static void test_nothing_is_sent_where_nobody_takes_it(void **state)
{
    struct fixture *f = *state;
    respond(f, add_message(f, "github", "octo/hello", "12"), "a");
    respond(f, add_message(f, "api", "C1", NULL), "a");
    respond(f, add_message(f, "slack", NULL, NULL), "a");
    struct dibs_outgoing_list list = due(f);
    assert_int_equal(list.waiting, 0);
    assert_int_equal(list.next_ms, -1);
}

static void test_a_repeated_answer_is_sent_once(void **state)
{
    struct fixture *f = *state;
    const char *id = answer(f, "a");
    respond(f, id, "a");
    assert_int_equal(due(f).waiting, 1);
}

static void test_what_was_sent_is_told_and_does_not_wait(void **state)
{
    struct fixture *f = *state;
    const char *id = answer(f, "a");
    report(f, due(f).items[0].key, DIBS_OUTGOING_SENT, NULL, 0);
    assert_int_equal(due(f).waiting, 0);
    struct dibs_event_list events = events_of(f, "inbox:reply-sent");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "messageId"), id);
    assert_string_equal(event_field(f, &events.items[0], "target"), "slack");
    assert_string_equal(event_field(f, &events.items[0], "attempts"), "1");
}

static void test_what_failed_is_told_with_the_reason(void **state)
{
    struct fixture *f = *state;
    answer(f, "a");
    int64_t key = due(f).items[0].key;
    report(f, key, DIBS_OUTGOING_AGAIN, "busy", 0);
    report(f, key, DIBS_OUTGOING_FAILED, "Slack says: channel_not_found", 0);
    assert_int_equal(due(f).waiting, 0);
    struct dibs_event_list events = events_of(f, "inbox:reply-failed");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "error"), "Slack says: channel_not_found");
    assert_string_equal(event_field(f, &events.items[0], "attempts"), "2");
}

static void test_what_is_tried_again_is_due_later_and_outlives_the_process(void **state)
{
    struct fixture *f = *state;
    answer(f, "a");
    report(f, due(f).items[0].key, DIBS_OUTGOING_AGAIN, "busy", 30000);
    struct dibs_outgoing_list list = due(f);
    assert_int_equal(list.count, 0);
    assert_int_equal(list.waiting, 1);
    assert_int_equal(list.next_ms, 30000);
    fixture_reopen(f);
    world_pass(&f->world, 29999);
    assert_int_equal(due(f).count, 0);
    world_pass(&f->world, 1);
    list = due(f);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.items[0].attempts, 1);
    assert_int_equal(list.items[0].age_ms, 30000);
    assert_event_count(f, "inbox:reply-sent", 0);
    assert_event_count(f, "inbox:reply-failed", 0);
}

static void test_the_one_that_is_due_longest_goes_first(void **state)
{
    struct fixture *f = *state;
    const char *one = answer(f, "a"), *two = answer(f, "b");
    world_pass(&f->world, 10);
    assert_string_equal(due(f).items[0].message_id, one);
    report(f, due(f).items[0].key, DIBS_OUTGOING_AGAIN, "x", 0);
    assert_string_equal(due(f).items[0].message_id, two);
}

static void test_a_second_report_changes_nothing(void **state)
{
    struct fixture *f = *state;
    answer(f, "a");
    int64_t key = due(f).items[0].key;
    report(f, key, DIBS_OUTGOING_SENT, NULL, 0);
    report(f, key, DIBS_OUTGOING_FAILED, "late", 0);
    report(f, key, DIBS_OUTGOING_AGAIN, "late", 0);
    report(f, key + 100, DIBS_OUTGOING_SENT, NULL, 0);
    assert_int_equal(query_int(f, "SELECT count(*) FROM outgoing WHERE status = 'sent'"), 1);
    assert_event_count(f, "inbox:reply-sent", 1);
    assert_event_count(f, "inbox:reply-failed", 0);
}

static void test_ended_answers_are_forgotten_after_a_week_waiting_ones_never(void **state)
{
    struct fixture *f = *state;
    int64_t pruned = 0, waiting = 0;
    answer(f, "a");
    answer(f, "b");
    report(f, due(f).items[0].key, DIBS_OUTGOING_SENT, NULL, 0);
    world_pass(&f->world, MINUTES(7 * 24 * 60) - 1000);
    assert_ok(f, dibs_prune(f->d, f->a, &pruned, &f->err));
    assert_int_equal(query_int(f, "SELECT count(*) FROM outgoing"), 2);
    world_pass(&f->world, MINUTES(60));
    assert_ok(f, dibs_prune(f->d, f->a, &pruned, &f->err));
    assert_int_equal(query_int(f, "SELECT count(*) FROM outgoing"), 1);
    assert_ok(f, dibs__outgoing_waiting(f->d, f->a, &waiting, &f->err));
    assert_int_equal(waiting, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_an_answer_to_slack_is_due_at_once),
        STORE_TEST(test_each_answer_has_an_id_of_its_own_that_stays),
        STORE_TEST(test_nothing_is_sent_where_nobody_takes_it),
        STORE_TEST(test_a_repeated_answer_is_sent_once),
        STORE_TEST(test_what_was_sent_is_told_and_does_not_wait),
        STORE_TEST(test_what_failed_is_told_with_the_reason),
        STORE_TEST(test_what_is_tried_again_is_due_later_and_outlives_the_process),
        STORE_TEST(test_the_one_that_is_due_longest_goes_first),
        STORE_TEST(test_a_second_report_changes_nothing),
        STORE_TEST(test_ended_answers_are_forgotten_after_a_week_waiting_ones_never),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
