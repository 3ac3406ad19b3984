/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/session_life.c: the heartbeat of a session and its news, coming back and
 * resuming, the end.
 */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HALF_HOUR MINUTES(30)

static struct dibs_session_news beat(struct fixture *f, const char *session)
{
    struct dibs_session_news news = {0};
    assert_ok(f, dibs_session_heartbeat(f->d, f->a, session, &news, &f->err));
    return news;
}

static struct dibs_resumed resume(struct fixture *f, const char *session)
{
    struct dibs_resumed out = {0};
    assert_ok(f, dibs_session_resume(f->d, f->a, session, &out, &f->err));
    return out;
}

static struct dibs_deregistered end(struct fixture *f, const char *session)
{
    struct dibs_deregistered out = {0};
    assert_ok(f, dibs_session_deregister(f->d, f->a, session, &out, &f->err));
    return out;
}

static struct dibs_claim lock(struct fixture *f, const char *resource, const char *session,
                              int64_t ttl_ms)
{
    struct dibs_claim out = {0};
    struct dibs_lock_take in = {.resource = resource, .session_id = session, .ttl_ms = ttl_ms};
    assert_ok(f, dibs_lock_take(f->d, f->a, &in, &out, &f->err));
    return out;
}

static struct dibs_claim given_claim(struct fixture *f, const char *task, const char *session)
{
    make_task(f, task);
    return claim(f, task, session);
}

static void sweep_expired(struct fixture *f)
{
    struct dibs_cleaned out = {0};
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &out, &f->err));
}

static void complete(struct fixture *f, const char *task, const char *session)
{
    struct dibs_task done = {0};
    struct dibs_report report = {.task_id = task, .session_id = session};
    assert_ok(f, dibs_complete(f->d, f->a, &report, &done, &f->err));
}

typedef dibs_status move_fn(dibs *d, dibs_arena *a, const struct dibs_move *in,
                            struct dibs_task *out, struct dibs_error *err);
static void move(struct fixture *f, move_fn *how, struct dibs_move in)
{
    struct dibs_task out = {0};
    assert_ok(f, how(f->d, f->a, &in, &out, &f->err));
}

/* ---- the heartbeat --------------------------------------------------------------------------- */

static void test_one_heartbeat_renews_every_claim_and_lock_by_its_own_ttl(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {0};
    make_session(f, "s");
    given_claim(f, "a", "s");
    make_task(f, "b");
    struct dibs_claim_take two = {.task_id = "b", .session_id = "s", .ttl_ms = MINUTES(2)};
    assert_ok(f, dibs_claim_take(f->d, f->a, &two, &out, &f->err));
    lock(f, "r", "s", MINUTES(3));
    world_pass(&f->world, MINUTES(1));
    struct dibs_session_news news = beat(f, "s");
    assert_int_equal(news.session.heartbeat_at_ms, f->world.wall_ms);
    assert_int_equal(news.lost.count, 0);
    assert_int_equal(news.cancel_requested.count, 0);
    assert_int_equal(news.renewed.count, 3);
    assert_string_equal(news.renewed.items[0].task_id, "a");
    assert_int_equal(news.renewed.items[0].expires_at_ms, f->world.wall_ms + HALF_HOUR);
    assert_int_equal(news.renewed.items[0].heartbeat_count, 1);
    assert_string_equal(news.renewed.items[1].task_id, "b");
    assert_int_equal(news.renewed.items[1].expires_at_ms, f->world.wall_ms + MINUTES(2));
    assert_string_equal(news.renewed.items[2].resource, "r");
    assert_int_equal(news.renewed.items[2].expires_at_ms, f->world.wall_ms + MINUTES(3));
    assert_int_equal(get_task(f, "b").claim->remaining_ms, MINUTES(2));
}

static void test_a_heartbeat_never_shortens_a_lease(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {0};
    make_session(f, "s");
    given_claim(f, "a", "s");
    struct dibs_heartbeat hb = {.task_id = "a", .session_id = "s", .extend_ms = MINUTES(120)};
    assert_ok(f, dibs_claim_heartbeat(f->d, f->a, &hb, &out, &f->err));
    assert_int_equal(beat(f, "s").renewed.items[0].expires_at_ms, out.expires_at_ms);
}

static void test_a_lease_past_its_deadline_is_lost_not_renewed(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s");
    lock(f, "r", "s", 0);
    world_pass(&f->world, HALF_HOUR);
    struct dibs_session_news news = beat(f, "s");
    assert_int_equal(news.renewed.count, 0);
    assert_int_equal(news.lost.count, 2);
    assert_string_equal(news.lost.items[0].task_id, "a");
    assert_string_equal(news.lost.items[0].end_reason, "expired");
    assert_string_equal(news.lost.items[1].resource, "r");
    assert_int_equal(get_task(f, "a").status, DIBS_TASK_OPEN);
    assert_int_equal(events_of(f, "task:claim-expired").count, 1);
    assert_int_equal(events_of(f, "lock:expired").count, 1);
}

static void test_each_loss_is_told_once_with_its_reason(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "expires", "s");
    world_pass(&f->world, HALF_HOUR);
    sweep_expired(f);
    given_claim(f, "cancelled", "s");
    given_claim(f, "blocked", "s");
    given_claim(f, "kept", "s");
    move(f, dibs_task_cancel, (struct dibs_move){.task_id = "cancelled"});
    move(f, dibs_task_block, (struct dibs_move){.task_id = "blocked"});
    struct dibs_session_news news = beat(f, "s");
    assert_int_equal(news.lost.count, 3);
    assert_string_equal(news.lost.items[0].end_reason, "expired");
    assert_string_equal(news.lost.items[1].end_reason, "cancelled");
    assert_string_equal(news.lost.items[2].end_reason, "blocked");
    assert_int_equal(news.cancel_requested.count, 1);
    assert_string_equal(news.cancel_requested.items[0], "cancelled");
    assert_int_equal(news.renewed.count, 1);
    assert_string_equal(news.renewed.items[0].task_id, "kept");
    news = beat(f, "s");
    assert_int_equal(news.lost.count, 0);
    assert_int_equal(news.cancel_requested.count, 0);
    assert_int_equal(news.renewed.count, 1);
}

static void test_what_a_session_ended_itself_is_no_news(void **state)
{
    struct fixture *f = *state;
    struct dibs_released released = {0};
    make_session(f, "s");
    given_claim(f, "a", "s");
    given_claim(f, "b", "s");
    complete(f, "a", "s");
    struct dibs_release give_back = {.task_id = "b", .session_id = "s"};
    assert_ok(f, dibs_claim_release(f->d, f->a, &give_back, &released, &f->err));
    assert_int_equal(beat(f, "s").lost.count, 0);
}

static dibs_status op_beat(struct fixture *f)
{
    struct dibs_session_news news = {0};
    return dibs_session_heartbeat(f->d, f->a, "s", &news, &f->err);
}

static void test_a_heartbeat_on_a_failing_store_changes_and_tells_nothing(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "lost", "s");
    world_pass(&f->world, HALF_HOUR);
    given_claim(f, "held", "s");
    assert_true(probe_fail_each(f, op_beat) > 8);
    assert_int_equal(get_task(f, "held").claim->heartbeat_count, 1);
}

/* ---- a session that has ended ---------------------------------------------------------------- */

static void test_an_ended_session_is_refused_everywhere_with_a_sentence(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim claimed = {0};
    struct dibs_grant grant = {0};
    struct dibs_session_news news = {0};
    struct dibs_resumed resumed = {0};
    struct dibs_deregistered gone = {0};
    make_session(f, "s");
    make_task(f, "a");
    end(f, "s");
    char *before = probe_tables(f);
    struct dibs_claim_take take = {.task_id = "a", .session_id = "s"};
    assert_refused(f, DIBS_SESSION_NOT_FOUND,
                   dibs_claim_take(f->d, f->a, &take, &claimed, &f->err));
    assert_string_equal(f->err.message, "session 's' has ended; register it again");
    struct dibs_claim_next next = {.session_id = "s"};
    assert_refused(f, DIBS_SESSION_NOT_FOUND, dibs_claim_next(f->d, f->a, &next, &grant, &f->err));
    assert_refused(f, DIBS_SESSION_NOT_FOUND,
                   dibs_session_heartbeat(f->d, f->a, "s", &news, &f->err));
    assert_refused(f, DIBS_SESSION_NOT_FOUND,
                   dibs_session_resume(f->d, f->a, "s", &resumed, &f->err));
    assert_refused(f, DIBS_SESSION_NOT_FOUND,
                   dibs_session_deregister(f->d, f->a, "s", &gone, &f->err));
    struct dibs_lock_take lock_take = {.resource = "r", .session_id = "s"};
    assert_refused(f, DIBS_SESSION_NOT_FOUND,
                   dibs_lock_take(f->d, f->a, &lock_take, &claimed, &f->err));
    assert_string_equal(f->err.message, "session 's' has ended; register it again");
    char *after = probe_tables(f);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void test_a_session_that_never_was_is_told_to_register(void **state)
{
    struct fixture *f = *state;
    struct dibs_session_news news = {0};
    assert_refused(f, DIBS_SESSION_NOT_FOUND,
                   dibs_session_heartbeat(f->d, f->a, "ghost", &news, &f->err));
    assert_string_equal(f->err.message, "there is no session 'ghost'; register it first");
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_session_heartbeat(f->d, f->a, "", &news, &f->err));
    assert_string_equal(f->err.field, "sessionId");
}

/* ---- the end --------------------------------------------------------------------------------- */

static void test_the_end_counts_claims_and_locks_and_says_why(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_session(f, "t");
    given_claim(f, "a", "s");
    given_claim(f, "b", "s");
    given_claim(f, "c", "t");
    lock(f, "r", "s", 0);
    lock(f, "q", "t", 0);
    struct dibs_deregistered gone = end(f, "s");
    assert_string_equal(gone.session_id, "s");
    assert_int_equal(gone.claims_released, 2);
    assert_int_equal(gone.locks_released, 1);
    assert_int_equal(get_task(f, "a").status, DIBS_TASK_OPEN);
    assert_int_equal(get_task(f, "a").attempts, 0);
    assert_int_equal(get_task(f, "c").status, DIBS_TASK_IN_PROGRESS);
    assert_int_equal(get_session(f, "t").locks_live, 1);
    struct dibs_event_list events = events_of(f, "session:deregistered");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "reason"), "session_deregistered");
    assert_string_equal(event_field(f, &events.items[0], "claimsReleased"), "2");
    assert_string_equal(event_field(f, &events.items[0], "locksReleased"), "1");
    events = events_of(f, "lock:released");
    assert_string_equal(event_field(f, &events.items[0], "reason"), "session_deregistered");
}

static void test_assigned_and_offered_tasks_go_back_to_where_they_were(void **state)
{
    struct fixture *f = *state;
    struct dibs_session s = {0};
    struct dibs_session_new anna = {.id = "s", .agent_id = "anna"};
    assert_ok(f, dibs_session_register(f->d, f->a, &anna, &s, &f->err));
    make_task_as(f, (struct dibs_task_new){.id = "assigned", .assignee = "anna"});
    make_task_as(f, (struct dibs_task_new){.id = "offered", .offered_to = "anna"});
    claim(f, "assigned", "s");
    move(f, dibs_task_review,
         (struct dibs_move){.task_id = "offered", .session_id = "s", .agent_id = "anna"});
    assert_int_equal(end(f, "s").claims_released, 2);
    assert_int_equal(get_task(f, "assigned").status, DIBS_TASK_ASSIGNED);
    assert_int_equal(get_task(f, "offered").status, DIBS_TASK_OFFERED);
}

static void test_a_lease_that_had_ended_before_the_session_is_expired(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s");
    world_pass(&f->world, HALF_HOUR);
    end(f, "s");
    assert_int_equal(events_of(f, "task:claim-expired").count, 1);
    assert_int_equal(events_of(f, "task:released").count, 0);
    assert_int_equal(get_task(f, "a").attempts, 1);
}

static dibs_status op_end(struct fixture *f)
{
    struct dibs_deregistered out = {0};
    return dibs_session_deregister(f->d, f->a, "s", &out, &f->err);
}

static void test_an_end_on_a_failing_store_ends_nothing(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s");
    lock(f, "r", "s", 0);
    assert_true(probe_fail_each(f, op_end) > 8);
    assert_int_equal(get_session(f, "s").status, DIBS_SESSION_ENDED);
}

/* ---- resume ---------------------------------------------------------------------------------- */

static void test_a_lost_task_that_nobody_took_is_resumed_with_its_checkpoint(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim noted = {0};
    make_session(f, "s");
    struct dibs_claim first = given_claim(f, "a", "s");
    struct dibs_progress half = {.task_id = "a", .session_id = "s", .checkpoint = "{\"page\":7}"};
    assert_ok(f, dibs_claim_progress(f->d, f->a, &half, &noted, &f->err));
    world_pass(&f->world, HALF_HOUR);
    sweep_expired(f);
    struct dibs_resumed back = resume(f, "s");
    assert_int_equal(back.gone.count, 0);
    assert_int_equal(back.taken.count, 1);
    assert_string_equal(back.taken.items[0].task.id, "a");
    assert_int_equal(back.taken.items[0].task.status, DIBS_TASK_IN_PROGRESS);
    assert_true(back.taken.items[0].claim.token > first.token);
    assert_int_equal(back.taken.items[0].claim.attempt, 2);
    assert_int_equal(back.taken.items[0].claim.remaining_ms, HALF_HOUR);
    assert_string_equal(back.taken.items[0].claim.checkpoint, "{\"page\":7}");
    assert_int_equal(beat(f, "s").lost.count, 0); /* the resume has told it */
}

static void test_resume_finds_what_is_past_its_deadline_and_not_swept(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    struct dibs_claim first = given_claim(f, "a", "s");
    world_pass(&f->world, HALF_HOUR);
    struct dibs_resumed back = resume(f, "s");
    assert_int_equal(back.taken.count, 1);
    assert_true(back.taken.items[0].claim.token > first.token);
}

static void test_what_others_took_or_finished_since_is_gone(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_session(f, "t");
    given_claim(f, "taken", "s");
    given_claim(f, "finished", "s");
    given_claim(f, "returned", "s");
    given_claim(f, "free", "s");
    world_pass(&f->world, HALF_HOUR);
    sweep_expired(f);
    claim(f, "taken", "t");
    claim(f, "finished", "t");
    complete(f, "finished", "t");
    claim(f, "returned", "t");
    struct dibs_released released = {0};
    struct dibs_release give_back = {.task_id = "returned", .session_id = "t"};
    assert_ok(f, dibs_claim_release(f->d, f->a, &give_back, &released, &f->err));
    struct dibs_resumed back = resume(f, "s");
    assert_int_equal(back.taken.count, 1);
    assert_string_equal(back.taken.items[0].task.id, "free");
    assert_int_equal(back.gone.count, 3);
    assert_string_equal(back.gone.items[0].task_id, "returned"); /* newest first */
    assert_string_equal(back.gone.items[1].task_id, "finished");
    assert_string_equal(back.gone.items[2].task_id, "taken");
    assert_string_equal(get_task(f, "taken").claim->session_id, "t");
}

static void test_a_task_lost_twice_is_resumed_once(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s");
    world_pass(&f->world, HALF_HOUR);
    assert_int_equal(resume(f, "s").taken.count, 1);
    world_pass(&f->world, HALF_HOUR);
    struct dibs_resumed back = resume(f, "s");
    assert_int_equal(back.taken.count, 1);
    assert_int_equal(back.gone.count, 0);
    back = resume(f, "s"); /* what it holds again is not lost */
    assert_int_equal(back.taken.count, 0);
    assert_int_equal(back.gone.count, 0);
}

static void test_a_session_that_was_ended_as_stale_resumes_after_registering_again(void **state)
{
    struct fixture *f = *state;
    struct dibs_stale_sessions swept = {0};
    make_session(f, "s");
    given_claim(f, "a", "s");
    world_pass(&f->world, MINUTES(11));
    assert_ok(f, dibs_cleanup_sessions(f->d, f->a, &swept, &f->err));
    assert_int_equal(swept.ended, 1);
    make_session(f, "s");
    struct dibs_resumed back = resume(f, "s");
    assert_int_equal(back.taken.count, 1);
    assert_int_equal(back.taken.items[0].claim.incarnation, 2);
}

static void test_what_was_given_back_cancelled_or_reopened_is_not_resumed(void **state)
{
    struct fixture *f = *state;
    struct dibs_released released = {0};
    make_session(f, "s");
    given_claim(f, "given-back", "s");
    struct dibs_release give_back = {.task_id = "given-back", .session_id = "s"};
    assert_ok(f, dibs_claim_release(f->d, f->a, &give_back, &released, &f->err));
    given_claim(f, "cancelled", "s");
    move(f, dibs_task_cancel, (struct dibs_move){.task_id = "cancelled"});
    given_claim(f, "reopened", "s");
    world_pass(&f->world, HALF_HOUR);
    sweep_expired(f);
    move(f, dibs_task_cancel, (struct dibs_move){.task_id = "reopened"});
    move(f, dibs_task_reopen, (struct dibs_move){.task_id = "reopened"});
    struct dibs_resumed back = resume(f, "s");
    assert_int_equal(back.taken.count, 0);
    assert_int_equal(back.gone.count, 1);
    assert_string_equal(back.gone.items[0].task_id, "reopened");
}

static void test_a_cancellation_before_a_resume_is_still_told(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "cancelled", "s");
    given_claim(f, "blocked", "s");
    given_claim(f, "lost", "s");
    move(f, dibs_task_cancel, (struct dibs_move){.task_id = "cancelled"});
    move(f, dibs_task_block, (struct dibs_move){.task_id = "blocked"});
    world_pass(&f->world, HALF_HOUR);
    assert_int_equal(resume(f, "s").taken.count, 1);
    struct dibs_session_news news = beat(f, "s");
    assert_int_equal(news.lost.count, 2); /* of the third the resume has told */
    assert_int_equal(news.cancel_requested.count, 1);
    assert_string_equal(news.cancel_requested.items[0], "cancelled");
    assert_int_equal(beat(f, "s").lost.count, 0);
}

static void test_a_task_whose_attempts_are_used_up_is_gone(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_as(f, (struct dibs_task_new){.id = "a", .max_attempts = DIBS_VALUE(1)});
    claim(f, "a", "s");
    world_pass(&f->world, HALF_HOUR);
    struct dibs_resumed back = resume(f, "s");
    assert_int_equal(back.taken.count, 0);
    assert_int_equal(back.gone.count, 1);
    assert_int_equal(get_task(f, "a").status, DIBS_TASK_FAILED);
}

static void test_resume_counts_as_a_sign_of_life(void **state)
{
    struct fixture *f = *state;
    struct dibs_stale_sessions swept = {0};
    make_session(f, "s");
    world_pass(&f->world, MINUTES(6));
    assert_ok(f, dibs_cleanup_sessions(f->d, f->a, &swept, &f->err));
    assert_int_equal(swept.stale, 1);
    resume(f, "s");
    assert_int_equal(get_session(f, "s").status, DIBS_SESSION_ACTIVE);
}

static dibs_status op_resume(struct fixture *f)
{
    struct dibs_resumed out = {0};
    return dibs_session_resume(f->d, f->a, "s", &out, &f->err);
}

static void test_a_resume_on_a_failing_store_takes_nothing(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s");
    given_claim(f, "b", "s");
    world_pass(&f->world, HALF_HOUR);
    assert_true(probe_fail_each(f, op_resume) > 10);
    assert_int_equal(get_session(f, "s").claims_live, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_one_heartbeat_renews_every_claim_and_lock_by_its_own_ttl),
        STORE_TEST(test_a_heartbeat_never_shortens_a_lease),
        STORE_TEST(test_a_lease_past_its_deadline_is_lost_not_renewed),
        STORE_TEST(test_each_loss_is_told_once_with_its_reason),
        STORE_TEST(test_what_a_session_ended_itself_is_no_news),
        STORE_TEST(test_a_heartbeat_on_a_failing_store_changes_and_tells_nothing),
        STORE_TEST(test_an_ended_session_is_refused_everywhere_with_a_sentence),
        STORE_TEST(test_a_session_that_never_was_is_told_to_register),
        STORE_TEST(test_the_end_counts_claims_and_locks_and_says_why),
        STORE_TEST(test_assigned_and_offered_tasks_go_back_to_where_they_were),
        STORE_TEST(test_a_lease_that_had_ended_before_the_session_is_expired),
        STORE_TEST(test_an_end_on_a_failing_store_ends_nothing),
        STORE_TEST(test_a_lost_task_that_nobody_took_is_resumed_with_its_checkpoint),
        STORE_TEST(test_resume_finds_what_is_past_its_deadline_and_not_swept),
        STORE_TEST(test_what_others_took_or_finished_since_is_gone),
        STORE_TEST(test_a_task_lost_twice_is_resumed_once),
        STORE_TEST(test_a_session_that_was_ended_as_stale_resumes_after_registering_again),
        STORE_TEST(test_what_was_given_back_cancelled_or_reopened_is_not_resumed),
        STORE_TEST(test_a_cancellation_before_a_resume_is_still_told),
        STORE_TEST(test_a_task_whose_attempts_are_used_up_is_gone),
        STORE_TEST(test_resume_counts_as_a_sign_of_life),
        STORE_TEST(test_a_resume_on_a_failing_store_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
