/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/claim_end.c: how a lease ends and what becomes of the task then: attempts that
 * count and attempts that do not, back-off, the last attempt.
 */
#include "core/core.h"
#include "core_help.h"

static void make_task_with(struct fixture *f, const char *id, int64_t max_attempts)
{
    make_task_as(f, (struct dibs_task_new){.id = id, .max_attempts = DIBS_VALUE(max_attempts)});
}

/* Claims and never comes back. */
static void crash(struct fixture *f, const char *task, const char *session)
{
    claim(f, task, session);
    world_pass(&f->world, MINUTES(30));
}

/* ---- attempts -------------------------------------------------------------------------------- */

static void test_a_worker_that_always_crashes_meets_the_limit_of_attempts(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "t");
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(get_task(f, "t").attempts, i - 1);
        crash(f, "t", "s");
    }
    assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, "t", "s", 0));
    assert_string_equal(f->err.task_status, "failed");
    struct dibs_task t = get_task(f, "t");
    assert_int_equal(t.status, DIBS_TASK_FAILED);
    assert_string_equal(t.error, "attempts_exhausted");
    assert_int_equal(t.attempts, 3);
    assert_int_equal(t.finished_at_ms, now_ms(f));
    assert_event_count(f, "task:claim-expired", 3);
    struct dibs_event_list told = events_of(f, "task:failed");
    assert_int_equal(told.count, 1);
    assert_string_equal(event_field(f, &told.items[0], "error"), "attempts_exhausted");
    assert_string_equal(event_field(f, &told.items[0], "final"), "true");
}

static void test_one_attempt_may_be_all_there_is(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_with(f, "t", 1);
    crash(f, "t", "s");
    assert_string_equal(claim_any(f, (struct dibs_claim_next){.session_id = "s"}), "");
    assert_status(f, "t", "failed");
}

static void test_no_limit_means_that_crashes_never_end_it(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_with(f, "t", 0);
    for (int i = 0; i < 20; i++)
        crash(f, "t", "s");
    assert_ok(f, try_claim(f, "t", "s", 0));
    assert_int_equal(get_task(f, "t").attempts, 21);
}

static void test_crashes_and_failures_count_together(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "t");
    crash(f, "t", "s");
    claim(f, "t", "s");
    assert_ok(f, try_fail(f, "t", "s", 0, "boom"));
    world_pass(&f->world, MINUTES(10));
    claim(f, "t", "s");
    assert_int_equal(get_task(f, "t").claim->attempt, 3);
    assert_ok(f, try_fail(f, "t", "s", 0, "bang"));
    assert_status(f, "t", "failed");
    assert_string_equal(get_task(f, "t").error, "bang");
}

static void test_giving_a_task_back_gives_the_attempt_back(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_with(f, "t", 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(claim(f, "t", "s").attempt, 1);
        assert_ok(f, try_release(f, "t", "s", 0, NULL));
        assert_int_equal(get_task(f, "t").attempts, 0);
        assert_status(f, "t", "open");
    }
    assert_event_count(f, "task:released", 5);
    assert_int_equal(get_history(f, "t").attempt_count, 5);
}

static void test_a_released_task_can_be_claimed_at_once(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "t");
    claim(f, "t", "s");
    assert_ok(f, try_release(f, "t", "s", 0, "busy"));
    struct dibs_event_list told = events_of(f, "task:released");
    assert_string_equal(event_field(f, &told.items[0], "reason"), "busy");
    assert_string_equal(claim_any(f, (struct dibs_claim_next){.session_id = "s"}), "t");
}

/* ---- assigned tasks -------------------------------------------------------------------------- */

static void test_an_assigned_task_given_back_is_still_its_agents(void **state)
{
    struct fixture *f = *state;
    make_agent_session(f, "amy-1", "amy");
    make_task_as(f, (struct dibs_task_new){.id = "t", .assignee = "amy"});
    claim(f, "t", "amy-1");
    assert_ok(f, try_release(f, "t", "amy-1", 0, NULL));
    assert_status(f, "t", "assigned");
    assert_string_equal(get_task(f, "t").assignee, "amy");
}

static void test_an_assigned_task_whose_holder_is_lost_is_for_everyone(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_agent_session(f, "amy-1", "amy");
    make_task_as(f, (struct dibs_task_new){.id = "t", .assignee = "amy"});
    crash(f, "t", "amy-1");
    assert_ok(f, try_claim(f, "t", "s", 0));
    assert_null(get_task(f, "t").assignee);
}

/* ---- back-off -------------------------------------------------------------------------------- */

static void test_the_wait_after_a_failure_doubles_from_a_second_to_ten_minutes(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_with(f, "t", 0);
    int64_t full = SECONDS(1);
    for (int i = 0; i < 14; i++) {
        claim(f, "t", "s");
        assert_ok(f, try_fail(f, "t", "s", 0, "boom"));
        struct dibs_task t = get_task(f, "t");
        assert_int_equal(t.status, DIBS_TASK_OPEN);
        int64_t wait = t.run_after_ms - now_ms(f);
        if (wait > full || wait <= full - full / 4)
            fail_msg("attempt %d waits for %" PRId64 " ms of %" PRId64, i + 1, wait, full);
        world_pass(&f->world, wait - 1);
        assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, "t", "s", 0));
        world_pass(&f->world, 1);
        full = full * 2 < MINUTES(10) ? full * 2 : MINUTES(10);
    }
}

static void test_tasks_that_fail_together_do_not_all_come_back_together(void **state)
{
    struct fixture *f = *state;
    int64_t first = 0, differ = 0;
    make_session(f, "s");
    for (int i = 0; i < 10; i++) {
        const char *id = make_task(f, NULL);
        claim(f, id, "s");
        assert_ok(f, try_fail(f, id, "s", 0, "boom"));
        int64_t due = get_task(f, id).run_after_ms;
        first = first ? first : due;
        differ += due != first;
    }
    assert_true(differ > 0);
}

static void test_a_crash_has_no_back_off(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "t");
    crash(f, "t", "s");
    assert_ok(f, try_claim(f, "t", "s", 0));
}

/* ---- the record ------------------------------------------------------------------------------ */

static void test_an_expired_claim_stays_on_record_with_its_reason(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "t");
    int64_t token = claim(f, "t", "s").token;
    int64_t deadline = get_task(f, "t").claim->expires_at_ms;
    world_pass(&f->world, MINUTES(45)); /* nobody looks for a quarter of an hour */
    struct dibs_cleaned cleaned = {0};
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    assert_int_equal(cleaned.count, 1);
    assert_string_equal(cleaned.claims[0].task_id, "t");
    assert_string_equal(cleaned.claims[0].session_id, "s");
    assert_int_equal(cleaned.claims[0].token, token);
    assert_int_equal(cleaned.claims[0].expires_at_ms, deadline);
    assert_string_equal(cleaned.claims[0].reason, "expired");
    struct dibs_history h = get_history(f, "t");
    assert_int_equal(h.attempt_count, 1);
    assert_string_equal(h.attempts[0].end_reason, "expired");
    assert_int_equal(h.attempts[0].ended_at_ms, now_ms(f));
    assert_int_equal(h.attempts[0].remaining_ms, 0);
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    assert_int_equal(cleaned.count, 0);
    assert_event_count(f, "task:claim-expired", 1);
}

static void test_a_review_that_runs_out_is_offered_again_and_no_attempt_is_counted(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    make_agent_session(f, "amy-1", "amy");
    make_task_as(f, (struct dibs_task_new){.id = "t", .offered_to = "amy"});
    assert_ok(f, try_review(f, "t", "amy-1"));
    world_pass(&f->world, MINUTES(30) - 1);
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    assert_status(f, "t", "reviewing");
    world_pass(&f->world, 1);
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    struct dibs_task t = get_task(f, "t");
    assert_int_equal(t.status, DIBS_TASK_OFFERED);
    assert_string_equal(t.offered_to, "amy");
    assert_int_equal(t.attempts, 0);
    assert_null(t.claim);
    assert_ok(f, try_review(f, "t", "amy-1"));
}

static void test_a_review_past_its_deadline_is_over_whether_or_not_it_was_swept(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    make_agent_session(f, "ann-1", "ann");
    for (int swept = 0; swept < 2; swept++) {
        const char *id = swept ? "swept" : "unseen";
        make_task(f, id);
        assert_ok(f, try_move(f, dibs_task_offer, id, "ann"));
        assert_ok(f, try_review(f, id, "ann-1"));
        assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_heartbeat(f, id, "ann-1", 0));
        world_pass(&f->world, MINUTES(30));
        if (swept)
            assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
        assert_refused(f, DIBS_CLAIM_EXPIRED, try_heartbeat(f, id, "ann-1", 0));
        assert_refused(f, DIBS_CLAIM_EXPIRED, try_complete(f, id, "ann-1", 0, NULL));
        assert_status(f, id, "offered");
    }
}

static void test_a_claim_that_somebody_else_ended_is_told_to_its_session_once(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_session(f, "r");
    make_task(f, "t");
    crash(f, "t", "s");
    claim(f, "t", "r");
    struct dibs_session_news news = {0};
    assert_ok(f, dibs_session_heartbeat(f->d, f->a, "s", &news, &f->err));
    assert_int_equal(news.renewed.count, 0);
    assert_int_equal(news.lost.count, 1);
    assert_string_equal(news.lost.items[0].task_id, "t");
    assert_string_equal(news.lost.items[0].end_reason, "expired");
    assert_ok(f, dibs_session_heartbeat(f->d, f->a, "s", &news, &f->err));
    assert_int_equal(news.lost.count, 0);
}

static void test_a_session_is_not_told_of_the_ends_it_asked_for(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    static const char *const ids_of[] = {"a", "b", "c"};
    for (size_t i = 0; i < COUNT_OF(ids_of); i++) {
        make_task(f, ids_of[i]);
        claim(f, ids_of[i], "s");
    }
    assert_ok(f, try_complete(f, "a", "s", 0, NULL));
    assert_ok(f, try_fail(f, "b", "s", 0, "boom"));
    assert_ok(f, try_release(f, "c", "s", 0, NULL));
    struct dibs_session_news news = {0};
    assert_ok(f, dibs_session_heartbeat(f->d, f->a, "s", &news, &f->err));
    assert_int_equal(news.lost.count + news.renewed.count, 0);
}

static void test_the_file_refuses_a_claim_that_is_half_ended(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "t");
    claim(f, "t", "s");
    assert_true(is_refused_by_the_file(f, "UPDATE claim SET ended_at = 1"));
    assert_true(is_refused_by_the_file(f, "UPDATE claim SET end_reason = 'expired'"));
    assert_true(is_refused_by_the_file(f, "UPDATE claim SET kind = 'other'"));
    assert_true(is_refused_by_the_file(f, "UPDATE claim SET attention = 0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_worker_that_always_crashes_meets_the_limit_of_attempts),
        STORE_TEST(test_one_attempt_may_be_all_there_is),
        STORE_TEST(test_no_limit_means_that_crashes_never_end_it),
        STORE_TEST(test_crashes_and_failures_count_together),
        STORE_TEST(test_giving_a_task_back_gives_the_attempt_back),
        STORE_TEST(test_a_released_task_can_be_claimed_at_once),
        STORE_TEST(test_an_assigned_task_given_back_is_still_its_agents),
        STORE_TEST(test_an_assigned_task_whose_holder_is_lost_is_for_everyone),
        STORE_TEST(test_the_wait_after_a_failure_doubles_from_a_second_to_ten_minutes),
        STORE_TEST(test_tasks_that_fail_together_do_not_all_come_back_together),
        STORE_TEST(test_a_crash_has_no_back_off),
        STORE_TEST(test_an_expired_claim_stays_on_record_with_its_reason),
        STORE_TEST(test_a_review_that_runs_out_is_offered_again_and_no_attempt_is_counted),
        STORE_TEST(test_a_review_past_its_deadline_is_over_whether_or_not_it_was_swept),
        STORE_TEST(test_a_claim_that_somebody_else_ended_is_told_to_its_session_once),
        STORE_TEST(test_a_session_is_not_told_of_the_ends_it_asked_for),
        STORE_TEST(test_the_file_refuses_a_claim_that_is_half_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
