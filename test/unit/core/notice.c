/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/notice.c: the leads of a project are told once of each task that a worker
 * finished; with ack=manual only what was acknowledged counts as told.
 */
#include "inboxes.h"

/* Lead ann, lead bob, worker wim. */
static void given_a_team(struct fixture *f)
{
    make_lead(f, "ann");
    make_lead(f, "bob");
    make_worker(f, "wim");
}

static void finish_as(struct fixture *f, const char *task, const char *session)
{
    make_task(f, task);
    assert_ok(f, try_claim(f, task, session, 0));
    assert_ok(f, try_complete(f, task, session, 0, "1"));
}

static void finish(struct fixture *f, const char *task)
{
    finish_as(f, task, "wim-1");
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void test_a_lead_is_told_once_and_no_other_lead_again(void **state)
{
    struct fixture *f = *state;
    given_a_team(f);
    finish(f, "b");
    finish(f, "a");
    assert_int_equal(get_task(f, "a").notified_at_ms, 0);
    world_pass(&f->world, SECONDS(5));
    assert_string_equal(told(f, "ann", "ann-1", false), "b a"); /* in the order of finishing */
    assert_string_equal(told(f, "ann", "ann-1", false), "");
    assert_string_equal(told(f, "bob", "bob-1", false), "");
    assert_int_equal(get_task(f, "a").notified_at_ms, now_ms(f));
    struct dibs_event_list events = events_of(f, "notices:told");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "taskIds"), "[\"b\",\"a\"]");
    assert_string_equal(event_field(f, &events.items[0], "sessionId"), "ann-1");
    assert_string_equal(event_field(f, &events.items[0], "agentId"), "ann");
}

static void test_failures_are_told_when_they_are_final(void **state)
{
    struct fixture *f = *state;
    given_a_team(f);
    make_task_as(f,
                 (struct dibs_task_new){.id = "once", .title = "T", .max_attempts = DIBS_VALUE(1)});
    make_task(f, "again");
    make_task_as(f,
                 (struct dibs_task_new){.id = "gone", .title = "T", .max_attempts = DIBS_VALUE(1)});
    make_task(f, "cancelled");
    assert_ok(f, try_claim(f, "once", "wim-1", 0));
    assert_ok(f, try_fail(f, "once", "wim-1", 0, "e"));
    assert_ok(f, try_claim(f, "again", "wim-1", 0));
    assert_ok(f, try_fail(f, "again", "wim-1", 0, "e"));
    assert_ok(f, try_claim(f, "gone", "wim-1", MINUTES(1)));
    assert_ok(f, try_move(f, dibs_task_cancel, "cancelled", NULL));
    world_pass(&f->world, MINUTES(1)); /* its only attempt is over with its lease */
    struct dibs_cleaned cleaned = {0};
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    assert_string_equal(told(f, "ann", "ann-1", false), "once gone");
}

static void test_what_a_lead_did_itself_is_not_told(void **state)
{
    struct fixture *f = *state;
    given_a_team(f);
    make_session(f, "alone"); /* of no agent */
    finish_as(f, "anns", "ann-1");
    finish_as(f, "alones", "alone");
    assert_string_equal(told(f, "bob", "bob-1", false), "alones");
}

static void test_without_a_lead_nothing_is_remembered(void **state)
{
    struct fixture *f = *state;
    make_worker(f, "wim");
    finish(f, "before");
    assert_int_equal(query_int(f, "SELECT count(*) FROM notice"), 0);
    assert_int_equal(query_int(f, "SELECT count(*) FROM task WHERE parts & 16 <> 0"), 0);
    make_lead(f, "ann");
    finish(f, "after");
    assert_string_equal(told(f, "ann", "ann-1", false), "after");
}

static void test_leads_are_told_of_their_project_only(void **state)
{
    struct fixture *f = *state;
    given_a_team(f);
    struct dibs_agent_new far = {.id = "far", .project = "other", .is_lead = DIBS_VALUE(1)};
    struct dibs_agent agent = {0};
    assert_ok(f, dibs_agent_register(f->d, f->a, &far, &agent, &f->err));
    make_agent_session(f, "far-1", "far");
    finish(f, "here");
    make_task_as(f, (struct dibs_task_new){.id = "there", .title = "T", .project = "other"});
    assert_ok(f, try_claim(f, "there", "wim-1", 0));
    assert_ok(f, try_complete(f, "there", "wim-1", 0, NULL));
    assert_string_equal(told(f, "far", "far-1", false), "there");
    assert_string_equal(told(f, "ann", "ann-1", false), "here");
}

static void test_a_task_that_finishes_again_is_told_again(void **state)
{
    struct fixture *f = *state;
    given_a_team(f);
    finish(f, "t");
    assert_ok(f, try_move(f, dibs_task_reopen, "t", NULL));
    assert_string_equal(told(f, "ann", "ann-1", false), ""); /* it is not finished */
    assert_ok(f, try_claim(f, "t", "wim-1", 0));
    assert_ok(f, try_complete(f, "t", "wim-1", 0, NULL));
    assert_string_equal(told(f, "ann", "ann-1", false), "t");
    assert_ok(f, try_move(f, dibs_task_reopen, "t", NULL));
    assert_int_equal(get_task(f, "t").notified_at_ms, 0);
    assert_ok(f, try_claim(f, "t", "wim-1", 0));
    assert_ok(f, try_complete(f, "t", "wim-1", 0, NULL));
    assert_string_equal(told(f, "bob", "bob-1", false), "t");
}

/* ---- acknowledging --------------------------------------------------------------------------- */

static void test_what_is_claimed_is_told_by_its_acknowledgement(void **state)
{
    struct fixture *f = *state;
    given_a_team(f);
    finish(f, "a");
    finish(f, "b");
    finish(f, "c");
    assert_string_equal(told(f, "ann", "ann-1", true), "a b c");
    assert_string_equal(told(f, "bob", "bob-1", true), ""); /* somebody is being told */
    assert_int_equal(get_task(f, "a").notified_at_ms, 0);
    assert_int_equal(ack(f, "bob-1", DIBS_STRINGS("a", "b")), 0);
    assert_int_equal(ack(f, "ann-1", DIBS_STRINGS("b", "nosuch")), 1);
    assert_int_equal(get_task(f, "b").notified_at_ms, now_ms(f));
    assert_int_equal(ack(f, "ann-1", (struct dibs_strings){0}), 2);
    assert_int_equal(ack(f, "ann-1", (struct dibs_strings){0}), 0);
    assert_int_equal(ack(f, "ann-1", DIBS_STRINGS("a")), 0);
    assert_int_equal(get_session(f, "ann-1").claims_live, 0);
    assert_event_count(f, "notices:claimed", 3);
    assert_event_count(f, "notices:told", 3);
    assert_string_equal(told(f, "bob", "bob-1", false), "");
}

static void test_what_is_not_acknowledged_is_told_again_after_the_lease(void **state)
{
    struct fixture *f = *state;
    given_a_team(f);
    finish(f, "a");
    assert_string_equal(told(f, "ann", "ann-1", true), "a");
    world_pass(&f->world, MINUTES(30));
    assert_string_equal(told(f, "bob", "bob-1", true), "a");
    assert_int_equal(ack(f, "ann-1", DIBS_STRINGS("a")), 0);
    struct dibs_event_list events = events_of(f, "notices:released");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "reason"), "expired");
    assert_string_equal(event_field(f, &events.items[0], "taskIds"), "[\"a\"]");
    assert_int_equal(ack(f, "bob-1", DIBS_STRINGS("a")), 1);
}

static void test_a_late_acknowledgement_counts_while_nobody_else_is_told(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    given_a_team(f);
    finish(f, "a");
    assert_string_equal(told(f, "ann", "ann-1", true), "a");
    world_pass(&f->world, MINUTES(30));
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    assert_int_equal(cleaned.count, 1);
    assert_string_equal(cleaned.claims[0].kind, "notice");
    assert_string_equal(cleaned.claims[0].resource, "a");
    assert_int_equal(ack(f, "wim-1", DIBS_STRINGS("a")), 0); /* was never told */
    assert_int_equal(ack(f, "bob-1", DIBS_STRINGS("a")), 0); /* a lead, but neither was he */
    assert_int_equal(ack(f, "ann-1", DIBS_STRINGS("a")), 1);
}

static void test_a_late_acknowledgement_of_all_is_one_of_each(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    given_a_team(f);
    finish(f, "a");
    finish(f, "b");
    assert_string_equal(told(f, "ann", "ann-1", true), "a b");
    world_pass(&f->world, MINUTES(30));
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    finish(f, "c");
    assert_string_equal(told(f, "ann", "ann-1", true), "a b c"); /* a and b a second time */
    world_pass(&f->world, MINUTES(30));
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    assert_int_equal(ack(f, "ann-1", (struct dibs_strings){0}), 3);
    assert_int_equal(ack(f, "ann-1", (struct dibs_strings){0}), 0);
    assert_string_equal(told(f, "bob", "bob-1", false), "");
}

static void test_who_has_heard_of_its_loss_acknowledges_nothing(void **state)
{
    struct fixture *f = *state;
    given_a_team(f);
    finish(f, "a");
    finish(f, "b");
    assert_string_equal(told(f, "ann", "ann-1", true), "a b");
    assert_int_equal(let_go(f, "ann-1", DIBS_STRINGS("b")), 1);
    assert_int_equal(ack(f, "ann-1", DIBS_STRINGS("b")), 0);
    world_pass(&f->world, MINUTES(30));
    assert_int_equal(beat(f, "ann-1").lost.count, 1);
    assert_int_equal(ack(f, "ann-1", DIBS_STRINGS("a")), 0);
    assert_int_equal(ack(f, "ann-1", (struct dibs_strings){0}), 0);
    assert_string_equal(told(f, "bob", "bob-1", false), "a b");
}

static void test_an_acknowledgement_is_of_the_finish_that_was_told(void **state)
{
    struct fixture *f = *state;
    given_a_team(f);
    finish(f, "a");
    assert_string_equal(told(f, "ann", "ann-1", true), "a");
    assert_ok(f, try_move(f, dibs_task_reopen, "a", NULL));
    assert_ok(f, try_claim(f, "a", "wim-1", 0)); /* all in the same millisecond */
    assert_ok(f, try_complete(f, "a", "wim-1", 0, "2"));
    assert_int_equal(ack(f, "ann-1", DIBS_STRINGS("a")), 0);
    assert_int_equal(ack(f, "ann-1", (struct dibs_strings){0}), 0);
    assert_string_equal(told(f, "ann", "ann-1", true), "a");
    assert_int_equal(ack(f, "ann-1", DIBS_STRINGS("a")), 1);
}

static void test_what_nobody_was_told_is_not_acknowledged(void **state)
{
    struct fixture *f = *state;
    given_a_team(f);
    finish(f, "a");
    assert_int_equal(ack(f, "ann-1", DIBS_STRINGS("a")), 0);
    assert_string_equal(told(f, "bob", "bob-1", false), "a");
}

static void test_what_is_let_go_is_told_again_at_once(void **state)
{
    struct fixture *f = *state;
    given_a_team(f);
    finish(f, "a");
    finish(f, "b");
    finish(f, "c");
    finish(f, "d");
    assert_string_equal(told(f, "ann", "ann-1", true), "a b c d");
    assert_int_equal(let_go(f, "bob-1", DIBS_STRINGS("a")), 0); /* not his */
    assert_int_equal(let_go(f, "ann-1", DIBS_STRINGS("b", "nosuch", "b")), 1);
    struct dibs_event_list events = events_of(f, "notices:released");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "reason"), "released");
    assert_string_equal(event_field(f, &events.items[0], "taskIds"), "[\"b\"]");
    assert_string_equal(event_field(f, &events.items[0], "sessionId"), "ann-1");
    assert_int_equal(ack(f, "ann-1", DIBS_STRINGS("c")), 1);
    assert_int_equal(let_go(f, "ann-1", DIBS_STRINGS("c")), 0); /* it is told */
    assert_string_equal(told(f, "bob", "bob-1", true), "b");
    assert_int_equal(let_go(f, "ann-1", (struct dibs_strings){0}), 2);
    assert_int_equal(let_go(f, "ann-1", (struct dibs_strings){0}), 0);
    assert_int_equal(get_session(f, "ann-1").claims_live, 0);
    assert_int_equal(beat(f, "ann-1").lost.count, 0); /* it asked for it */
    assert_string_equal(told(f, "ann", "ann-1", false), "a d");
    assert_int_equal(ack(f, "bob-1", DIBS_STRINGS("b")), 1);
    assert_int_equal(get_task(f, "b").notified_at_ms, now_ms(f));
}

static void test_a_lease_that_has_ended_is_let_go_as_expired(void **state)
{
    struct fixture *f = *state;
    given_a_team(f);
    finish(f, "a");
    assert_string_equal(told(f, "ann", "ann-1", true), "a");
    world_pass(&f->world, MINUTES(30));
    assert_int_equal(let_go(f, "ann-1", (struct dibs_strings){0}), 1);
    struct dibs_event_list events = events_of(f, "notices:released");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "reason"), "expired");
    assert_string_equal(told(f, "bob", "bob-1", false), "a");
}

static void test_reopening_takes_a_notice_out_of_the_hands_of_its_reader(void **state)
{
    struct fixture *f = *state;
    given_a_team(f);
    finish(f, "a");
    assert_string_equal(told(f, "ann", "ann-1", true), "a");
    assert_ok(f, try_move(f, dibs_task_reopen, "a", NULL));
    struct dibs_session_news news = beat(f, "ann-1");
    assert_int_equal(news.renewed.count, 0);
    assert_int_equal(news.lost.count, 1);
    assert_string_equal(news.lost.items[0].kind, "notice");
    assert_string_equal(news.lost.items[0].end_reason, "reopened");
    assert_int_equal(ack(f, "ann-1", DIBS_STRINGS("a")), 0);
}

static void test_notices_are_for_leads_and_their_sessions(void **state)
{
    struct fixture *f = *state;
    given_a_team(f);
    finish(f, "a");
    const struct {
        struct dibs_notices_claim in;
        dibs_status status;
    } rows[] = {
        {{.agent_id = "wim", .session_id = "wim-1"}, DIBS_INVALID_REQUEST},
        {{.agent_id = "ann", .session_id = "bob-1"}, DIBS_INVALID_REQUEST},
        {{.agent_id = "ann", .session_id = "nosuch"}, DIBS_SESSION_NOT_FOUND},
        {{.agent_id = "nobody", .session_id = "ann-1"}, DIBS_AGENT_NOT_FOUND},
        {{.agent_id = "ann", .session_id = "ann-1", .count = 1001}, DIBS_INVALID_REQUEST},
        {{.agent_id = "ann", .session_id = "ann-1", .ttl_ms = 1}, DIBS_INVALID_REQUEST},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dibs_notices out = {0};
        assert_refused(f, rows[i].status, try_notices(f, rows[i].in, &out));
    }
    int64_t acked = 0;
    struct dibs_notices_ack bad = {.session_id = "nosuch"};
    assert_refused(f, DIBS_SESSION_NOT_FOUND, dibs_notices_ack(f->d, f->a, &bad, &acked, &f->err));
    bad = (struct dibs_notices_ack){.session_id = "ann-1", .task_ids = DIBS_STRINGS("a b")};
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_notices_ack(f->d, f->a, &bad, &acked, &f->err));
    assert_refused(f, DIBS_INVALID_REQUEST,
                   dibs_notices_release(f->d, f->a, &bad, &acked, &f->err));
    bad = (struct dibs_notices_ack){.session_id = "nosuch"};
    assert_refused(f, DIBS_SESSION_NOT_FOUND,
                   dibs_notices_release(f->d, f->a, &bad, &acked, &f->err));
}

static void test_fifty_are_told_at_a_time_unless_asked_otherwise(void **state)
{
    struct fixture *f = *state;
    struct dibs_notices out = {0};
    char id[16];
    given_a_team(f);
    for (int i = 0; i < 60; i++) {
        snprintf(id, sizeof id, "t%d", i);
        finish(f, id);
    }
    struct dibs_notices_claim in = {.agent_id = "ann", .session_id = "ann-1", .count = 3};
    assert_ok(f, try_notices(f, in, &out));
    assert_int_equal(out.tasks.count, 3);
    in.count = 0;
    assert_ok(f, try_notices(f, in, &out));
    assert_int_equal(out.tasks.count, 50);
    assert_string_equal(out.tasks.items[0].id, "t3");
    assert_string_equal(out.tasks.items[0].result, "1");
    assert_int_equal(out.tasks.items[0].notified_at_ms, now_ms(f));
}

static dibs_status take_op(struct fixture *f)
{
    struct dibs_notices out = {0};
    return try_notices(
        f, (struct dibs_notices_claim){.agent_id = "ann", .session_id = "ann-1", .manual = true},
        &out);
}

static dibs_status ack_op(struct fixture *f)
{
    int64_t acked = 0;
    struct dibs_notices_ack in = {.session_id = "ann-1"};
    return dibs_notices_ack(f->d, f->a, &in, &acked, &f->err);
}

static dibs_status release_op(struct fixture *f)
{
    int64_t released = 0;
    struct dibs_notices_ack in = {.session_id = "ann-1"};
    return dibs_notices_release(f->d, f->a, &in, &released, &f->err);
}

static void test_on_a_failing_store_nobody_is_told(void **state)
{
    struct fixture *f = *state;
    given_a_team(f);
    finish(f, "a");
    finish(f, "b");
    assert_true(probe_fail_each(f, take_op) > 4);
    assert_true(probe_fail_each(f, release_op) > 4);
    assert_int_equal(query_int(f, "SELECT count(*) FROM notice WHERE token IS NULL"), 2);
    assert_true(probe_fail_each(f, take_op) > 4);
    assert_true(probe_fail_each(f, ack_op) > 4);
    assert_int_equal(query_int(f, "SELECT count(*) FROM notice WHERE notified_at IS NOT NULL"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_lead_is_told_once_and_no_other_lead_again),
        STORE_TEST(test_failures_are_told_when_they_are_final),
        STORE_TEST(test_what_a_lead_did_itself_is_not_told),
        STORE_TEST(test_without_a_lead_nothing_is_remembered),
        STORE_TEST(test_leads_are_told_of_their_project_only),
        STORE_TEST(test_a_task_that_finishes_again_is_told_again),
        STORE_TEST(test_what_is_claimed_is_told_by_its_acknowledgement),
        STORE_TEST(test_what_is_not_acknowledged_is_told_again_after_the_lease),
        STORE_TEST(test_a_late_acknowledgement_counts_while_nobody_else_is_told),
        STORE_TEST(test_a_late_acknowledgement_of_all_is_one_of_each),
        STORE_TEST(test_who_has_heard_of_its_loss_acknowledges_nothing),
        STORE_TEST(test_an_acknowledgement_is_of_the_finish_that_was_told),
        STORE_TEST(test_what_nobody_was_told_is_not_acknowledged),
        STORE_TEST(test_what_is_let_go_is_told_again_at_once),
        STORE_TEST(test_a_lease_that_has_ended_is_let_go_as_expired),
        STORE_TEST(test_reopening_takes_a_notice_out_of_the_hands_of_its_reader),
        STORE_TEST(test_notices_are_for_leads_and_their_sessions),
        STORE_TEST(test_fifty_are_told_at_a_time_unless_asked_otherwise),
        STORE_TEST(test_on_a_failing_store_nobody_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
