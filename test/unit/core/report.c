/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/report.c: what the holder of a task reports, who may report, and what becomes
 * of a report that comes too late, twice or differently.
 */
#include "core/core.h"
#include "core_help.h"

static struct dibs_task complete(struct fixture *f, struct dibs_report in)
{
    struct dibs_task out = {0};
    assert_ok(f, dibs_complete(f->d, f->a, &in, &out, &f->err));
    return out;
}

static dibs_status fail_with(struct fixture *f, struct dibs_report in)
{
    struct dibs_task out = {0};
    return dibs_fail(f->d, f->a, &in, &out, &f->err);
}

static void make_pair(struct fixture *f)
{
    make_session(f, "s");
    make_session(f, "r");
    make_task(f, "t");
}

/* ---- completing ------------------------------------------------------------------------------ */

static void test_a_completed_task_keeps_its_result_and_tells_it_once(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t token = claim(f, "t", "s").token;
    world_pass(&f->world, MINUTES(3));
    complete(f, (struct dibs_report){
                    .task_id = "t", .session_id = "s", .token = token, .result = "{ \"a\": 1 }"});
    struct dibs_task t = get_task(f, "t");
    assert_int_equal(t.status, DIBS_TASK_COMPLETED);
    assert_string_equal(t.result, "{ \"a\": 1 }");
    assert_int_equal(t.finished_at_ms, now_ms(f));
    assert_null(t.claim);
    struct dibs_event_list told = events_of(f, "task:completed");
    assert_int_equal(told.count, 1);
    assert_string_equal(told.items[0].session_id, "s");
    assert_int_equal(event_int(f, &told.items[0], "token"), token);
    assert_int_equal(event_int(f, &told.items[0], "heldForMs"), MINUTES(3));
    assert_string_equal(event_field(f, &told.items[0], "result"), "{\"a\":1}");
    assert_string_equal(event_field(f, &told.items[0], "late"), "");
    assert_int_equal(get_session(f, "s").claims_completed, 1);
    assert_int_equal(get_session(f, "s").claims_total, 1);
}

static void test_an_identical_repeat_is_fine_and_changes_nothing(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t token = claim(f, "t", "s").token;
    struct dibs_report report = {
        .task_id = "t", .session_id = "s", .token = token, .result = "[1]"};
    complete(f, report);
    const char *before = rows_of(f);
    int64_t last = events_of(f, NULL).last;
    for (int i = 0; i < 3; i++)
        assert_int_equal(complete(f, report).status, DIBS_TASK_COMPLETED);
    report.token = 0;
    complete(f, report);
    assert_string_equal(rows_of(f), before);
    assert_int_equal(events_of(f, NULL).last, last);
    assert_int_equal(get_session(f, "s").claims_completed, 1);
}

static void test_the_first_final_report_wins_and_a_different_one_is_refused(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t token = claim(f, "t", "s").token;
    assert_ok(f, try_complete(f, "t", "s", token, "1"));
    assert_refused(f, DIBS_ALREADY_FINISHED, try_complete(f, "t", "s", token, "2"));
    assert_string_equal(f->err.task_status, "completed");
    assert_refused(f, DIBS_ALREADY_FINISHED, try_complete(f, "t", "s", token, NULL));
    assert_refused(f, DIBS_ALREADY_FINISHED, try_complete(f, "t", "r", 0, "1"));
    assert_refused(f, DIBS_ALREADY_FINISHED, try_complete(f, "t", "s", token + 1, "1"));
    assert_refused(f, DIBS_ALREADY_FINISHED, try_fail(f, "t", "s", token, "boom"));
    assert_string_equal(get_task(f, "t").result, "1");
    assert_null(get_task(f, "t").error);
    assert_status(f, "t", "completed");
    assert_event_count(f, "task:completed", 1);
    /* what was sent is not lost */
    assert_string_equal(get_history(f, "t").attempts[0].late_result, "2");
}

static void test_a_result_belongs_to_the_report_it_came_with(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    assert_ok(f, fail_with(f, (struct dibs_report){.task_id = "t",
                                                   .session_id = "s",
                                                   .error = "half",
                                                   .result = "\"half of it\""}));
    assert_string_equal(get_task(f, "t").result, "\"half of it\"");
    world_pass(&f->world, SECONDS(1));
    claim(f, "t", "r");
    assert_ok(f, try_complete(f, "t", "r", 0, NULL));
    assert_null(get_task(f, "t").result);
    assert_ok(f, try_complete(f, "t", "r", 0, NULL));
    assert_event_count(f, "task:completed", 1);
}

static void test_bad_reports_are_refused_by_name(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    assert_refused(f, DIBS_INVALID_REQUEST, try_complete(f, "t", "s", 0, "{"));
    assert_string_equal(f->err.field, "result");
    assert_refused(f, DIBS_INVALID_REQUEST, try_complete(f, "t", NULL, 0, NULL));
    assert_string_equal(f->err.field, "sessionId");
    assert_refused(f, DIBS_INVALID_REQUEST,
                   try_fail(f, "t", "s", 0, repeated(f, 'x', MESSAGE_BYTES_MAX + 1)));
    assert_string_equal(f->err.field, "error");
    assert_refused(f, DIBS_INVALID_REQUEST,
                   try_release(f, "t", "s", 0, repeated(f, 'x', WORD_BYTES_MAX + 1)));
    assert_string_equal(f->err.field, "reason");
    assert_refused(f, DIBS_TASK_NOT_FOUND, try_complete(f, "x", "s", 0, NULL));
    assert_refused(f, DIBS_TASK_NOT_FOUND, try_fail(f, "x", "s", 0, NULL));
    assert_refused(f, DIBS_TASK_NOT_FOUND, try_release(f, "x", "s", 0, NULL));
    assert_refused(f, DIBS_TASK_NOT_FOUND, try_heartbeat(f, "x", "s", 0));
    assert_status(f, "t", "in_progress");
}

/* ---- who may report -------------------------------------------------------------------------- */

#define REPORTS 5
static dibs_status report(struct fixture *f, int which, const char *session, int64_t token)
{
    switch (which) {
    case 0: return try_heartbeat(f, "t", session, token);
    case 1: return try_progress(f, "t", session, token, "\"mine\"");
    case 2: return try_complete(f, "t", session, token, "\"mine\"");
    case 3: return try_fail(f, "t", session, token, "mine");
    default: return try_release(f, "t", session, token, "mine");
    }
}

/* Every report is refused with this code and leaves nothing but a late result. */
static void assert_all_refused(struct fixture *f, dibs_status code, const char *session,
                               int64_t token)
{
    const char *before = rows_of(f);
    for (int i = 0; i < REPORTS; i++) {
        dibs_status status = report(f, i, session, token);
        if (status != code)
            fail_msg("report %d: %s: %s", i, dibs_status_name(status), f->err.message);
        plant(f, "UPDATE claim SET late_result = NULL");
        assert_string_equal(rows_of(f), before);
    }
}

static void test_a_session_that_does_not_hold_the_task_reports_in_vain(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t token = claim(f, "t", "s").token;
    world_pass(&f->world, MINUTES(1));
    assert_all_refused(f, DIBS_NOT_CLAIM_OWNER, "r", 0);
    assert_all_refused(f, DIBS_NOT_CLAIM_OWNER, "r", token);
    assert_all_refused(f, DIBS_NOT_CLAIM_OWNER, "nobody", 0);
    int64_t since = now_ms(f) - MINUTES(1);
    assert_refused(f, DIBS_NOT_CLAIM_OWNER, try_heartbeat(f, "t", "r", 0));
    assert_string_equal(f->err.holder, "s");
    assert_int_equal(f->err.holder_since_ms, since);
    assert_int_equal(f->err.remaining_ms, MINUTES(29));
    assert_ok(f, try_complete(f, "t", "s", token, NULL));
}

static void test_a_wrong_token_is_stale_whatever_is_reported(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t first = claim(f, "t", "s").token;
    world_pass(&f->world, MINUTES(30));
    int64_t second = claim(f, "t", "s").token; /* the same session, another run of it */
    assert_all_refused(f, DIBS_STALE_TOKEN, "s", first);
    assert_all_refused(f, DIBS_STALE_TOKEN, "s", second + 1);
    assert_ok(f, try_complete(f, "t", "s", second, NULL));
}

static void test_a_task_that_nobody_holds_takes_no_report(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    assert_all_refused(f, DIBS_TASK_NOT_CLAIMED, "s", 0);
    assert_string_equal(f->err.message, "nobody holds task 't': it is open");
    claim(f, "t", "s");
    assert_ok(f, try_release(f, "t", "s", 0, NULL));
    assert_all_refused(f, DIBS_TASK_NOT_CLAIMED, "r", 0);
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_heartbeat(f, "t", "s", 0));
}

static void test_after_somebody_else_took_it_the_former_holder_is_refused(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t first = claim(f, "t", "s").token;
    world_pass(&f->world, MINUTES(30));
    claim(f, "t", "r");
    assert_all_refused(f, DIBS_NOT_CLAIM_OWNER, "s", first);
    assert_all_refused(f, DIBS_NOT_CLAIM_OWNER, "s", 0);
    assert_string_equal(get_task(f, "t").claim->session_id, "r");
}

static void test_after_the_deadline_only_a_completion_is_taken(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_as(f, (struct dibs_task_new){.id = "t", .max_attempts = DIBS_VALUE(0)});
    for (int i = 0; i < REPORTS; i++) {
        int64_t token = claim(f, "t", "s").token;
        world_pass(&f->world, MINUTES(30));
        if (i == 2) {
            assert_ok(f, report(f, i, "s", token));
            assert_status(f, "t", "completed");
            assert_ok(f, try_move(f, dibs_task_reopen, "t", NULL));
            continue;
        }
        assert_refused(f, DIBS_CLAIM_EXPIRED, report(f, i, "s", token));
        assert_status(f, "t", "open"); /* what was found out is kept: the lease is over */
        struct dibs_history h = get_history(f, "t");
        assert_string_equal(h.attempts[h.attempt_count - 1].end_reason, "expired");
    }
}

static void test_only_the_one_whose_lease_it_was_is_told_that_it_ended(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    world_pass(&f->world, MINUTES(30));
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_heartbeat(f, "t", "r", 0));
    assert_refused(f, DIBS_CLAIM_EXPIRED, try_heartbeat(f, "t", "s", 0));
}

/* ---- late results ---------------------------------------------------------------------------- */

static void test_a_late_completion_counts_when_nobody_has_claimed_since(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    make_pair(f);
    int64_t token = claim(f, "t", "s").token;
    world_pass(&f->world, MINUTES(30));
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    world_pass(&f->world, MINUTES(300));
    struct dibs_task t =
        complete(f, (struct dibs_report){
                        .task_id = "t", .session_id = "s", .token = token, .result = "\"slow\""});
    assert_int_equal(t.status, DIBS_TASK_COMPLETED);
    assert_string_equal(t.result, "\"slow\"");
    struct dibs_event_list told = events_of(f, "task:completed");
    assert_string_equal(event_field(f, &told.items[0], "late"), "true");
    assert_ok(f, try_complete(f, "t", "s", token, "\"slow\"")); /* and may be repeated */
    assert_event_count(f, "task:completed", 1);
    assert_string_equal(get_history(f, "t").attempts[0].end_reason, "expired");
}

static void test_a_late_completion_is_kept_but_refused_after_somebody_claimed(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t first = claim(f, "t", "s").token;
    world_pass(&f->world, MINUTES(30));
    int64_t second = claim(f, "t", "r").token;
    assert_refused(f, DIBS_NOT_CLAIM_OWNER, try_complete(f, "t", "s", first, "\"slow\""));
    assert_status(f, "t", "in_progress");
    struct dibs_history h = get_history(f, "t");
    assert_string_equal(h.attempts[0].late_result, "\"slow\"");
    assert_null(h.attempts[1].late_result);
    struct dibs_event_list told = events_of(f, "task:late-result");
    assert_int_equal(told.count, 1);
    assert_string_equal(told.items[0].session_id, "s");
    assert_int_equal(event_int(f, &told.items[0], "token"), first);
    assert_string_equal(event_field(f, &told.items[0], "report"), "complete");
    assert_ok(f, try_complete(f, "t", "r", second, "\"quick\""));
    assert_string_equal(get_task(f, "t").result, "\"quick\"");
    assert_refused(f, DIBS_ALREADY_FINISHED, try_complete(f, "t", "s", 0, "\"slower\""));
    assert_string_equal(get_history(f, "t").attempts[0].late_result, "\"slower\"");
}

static void test_a_late_result_goes_to_the_attempt_its_token_names(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t first = claim(f, "t", "s").token;
    world_pass(&f->world, MINUTES(30));
    claim(f, "t", "s");
    assert_refused(f, DIBS_STALE_TOKEN, try_complete(f, "t", "s", first, "\"first\""));
    struct dibs_history h = get_history(f, "t");
    assert_string_equal(h.attempts[0].late_result, "\"first\"");
    assert_null(h.attempts[1].late_result);
}

static void test_a_late_failure_is_told_but_takes_nothing_from_the_new_holder(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t first = claim(f, "t", "s").token;
    world_pass(&f->world, MINUTES(30));
    claim(f, "t", "r");
    assert_refused(f, DIBS_NOT_CLAIM_OWNER, try_fail(f, "t", "s", first, "too late"));
    struct dibs_event_list told = events_of(f, "task:late-result");
    assert_int_equal(told.count, 1);
    assert_string_equal(event_field(f, &told.items[0], "error"), "too late");
    assert_null(get_task(f, "t").error);
    assert_status(f, "t", "in_progress");
}

static void test_the_result_of_a_stranger_is_kept_nowhere(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    assert_refused(f, DIBS_NOT_CLAIM_OWNER, try_complete(f, "t", "r", 0, "\"x\""));
    assert_event_count(f, "task:late-result", 0);
}

static void test_a_result_after_the_last_attempt_was_lost_is_kept(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_as(f, (struct dibs_task_new){.id = "t", .max_attempts = DIBS_VALUE(1)});
    claim(f, "t", "s");
    world_pass(&f->world, MINUTES(30));
    assert_refused(f, DIBS_ALREADY_FINISHED, try_complete(f, "t", "s", 0, "\"late\""));
    assert_status(f, "t", "failed");
    assert_string_equal(get_history(f, "t").attempts[0].late_result, "\"late\"");
}

static void test_a_completion_from_before_a_reopen_does_not_finish_the_new_generation(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t token = claim(f, "t", "s").token;
    assert_ok(f, try_complete(f, "t", "s", token, "1"));
    assert_ok(f, try_move(f, dibs_task_reopen, "t", NULL));
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_complete(f, "t", "s", token, "1"));
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_complete(f, "t", "s", 0, "2"));
    assert_status(f, "t", "open");
}

static void test_reading_an_offer_is_not_doing_the_task(void **state)
{
    struct fixture *f = *state;
    make_agent_session(f, "amy-1", "amy");
    make_task_as(f, (struct dibs_task_new){.id = "t", .offered_to = "amy"});
    assert_ok(f, try_review(f, "t", "amy-1"));
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_complete(f, "t", "amy-1", 0, "1"));
    assert_ok(f, try_move(f, dibs_task_reject, "t", "amy"));
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_complete(f, "t", "amy-1", 0, "1"));
    assert_status(f, "t", "open");
}

/* ---- failing --------------------------------------------------------------------------------- */

static void test_a_failure_keeps_its_error_and_leaves_the_next_attempt(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t token = claim(f, "t", "s").token;
    world_pass(&f->world, SECONDS(7));
    assert_ok(f, try_fail(f, "t", "s", token, "no space"));
    struct dibs_task t = get_task(f, "t");
    assert_int_equal(t.status, DIBS_TASK_OPEN);
    assert_string_equal(t.error, "no space");
    assert_int_equal(t.attempts, 1);
    assert_int_equal(t.finished_at_ms, 0);
    struct dibs_event_list told = events_of(f, "task:failed");
    assert_int_equal(told.count, 1);
    assert_string_equal(event_field(f, &told.items[0], "error"), "no space");
    assert_string_equal(event_field(f, &told.items[0], "final"), "false");
    assert_int_equal(event_int(f, &told.items[0], "heldForMs"), SECONDS(7));
    assert_string_equal(get_history(f, "t").attempts[0].end_reason, "failed");
}

static void test_a_permanent_failure_is_the_last(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    assert_ok(f, fail_with(f, (struct dibs_report){.task_id = "t",
                                                   .session_id = "s",
                                                   .error = "no such user",
                                                   .permanent = true}));
    struct dibs_task t = get_task(f, "t");
    assert_int_equal(t.status, DIBS_TASK_FAILED);
    assert_int_equal(t.attempts, 1);
    assert_string_equal(t.error, "no such user");
    assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, "t", "r", 0));
}

static void test_a_failure_without_words_is_called_failed(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    assert_ok(f, try_fail(f, "t", "s", 0, NULL));
    assert_string_equal(get_task(f, "t").error, "failed");
}

static void test_an_identical_failure_may_be_repeated_until_somebody_claims(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t token = claim(f, "t", "s").token;
    assert_ok(f, try_fail(f, "t", "s", token, "boom"));
    int64_t last = events_of(f, NULL).last;
    const char *before = rows_of(f);
    assert_ok(f, try_fail(f, "t", "s", token, "boom"));
    assert_ok(f, try_fail(f, "t", "s", 0, "boom"));
    assert_int_equal(events_of(f, NULL).last, last);
    assert_string_equal(rows_of(f), before);
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_fail(f, "t", "s", token, "bang"));
    world_pass(&f->world, SECONDS(1));
    claim(f, "t", "r");
    assert_refused(f, DIBS_NOT_CLAIM_OWNER, try_fail(f, "t", "s", token, "boom"));
    assert_int_equal(get_task(f, "t").attempts, 2);
}

static void test_a_failure_may_be_repeated_though_the_task_has_to_wait_by_now(void **state)
{
    struct fixture *f = *state;
    struct dibs_task out = {0};
    make_pair(f);
    make_task(f, "needed");
    claim(f, "t", "s");
    struct dibs_strings needed = DIBS_STRINGS("needed");
    struct dibs_task_edit edit = {.id = "t", .depends_on = &needed};
    assert_ok(f, dibs_task_update(f->d, f->a, &edit, &out, &f->err));
    assert_ok(f, try_fail(f, "t", "s", 0, "boom"));
    assert_status(f, "t", "blocked");
    assert_ok(f, try_fail(f, "t", "s", 0, "boom"));
    assert_event_count(f, "task:failed", 1);
}

static void test_the_same_words_about_another_attempt_are_not_a_repeat(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    assert_ok(f, try_fail(f, "t", "s", 0, "boom"));
    world_pass(&f->world, SECONDS(1));
    claim(f, "t", "s");
    world_pass(&f->world, MINUTES(30));
    struct dibs_cleaned cleaned = {0};
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    assert_refused(f, DIBS_CLAIM_EXPIRED, try_fail(f, "t", "s", 0, "boom"));
}

static void test_a_failure_that_became_permanent_is_not_a_repeat(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t token = claim(f, "t", "s").token;
    struct dibs_report in = {.task_id = "t", .session_id = "s", .token = token, .error = "boom"};
    assert_ok(f, fail_with(f, in));
    in.permanent = true;
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, fail_with(f, in));
    assert_status(f, "t", "open");
}

static void test_the_last_failure_may_be_repeated_but_not_changed(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_as(f, (struct dibs_task_new){.id = "t", .max_attempts = DIBS_VALUE(1)});
    claim(f, "t", "s");
    assert_ok(f, try_fail(f, "t", "s", 0, "boom"));
    assert_ok(f, try_fail(f, "t", "s", 0, "boom"));
    assert_refused(f, DIBS_ALREADY_FINISHED, try_fail(f, "t", "s", 0, "bang"));
    assert_refused(f, DIBS_ALREADY_FINISHED, try_complete(f, "t", "s", 0, "1"));
    assert_string_equal(get_task(f, "t").error, "boom");
    assert_event_count(f, "task:failed", 1);
}

/* ---- releasing ------------------------------------------------------------------------------- */

static struct dibs_released release(struct fixture *f, const char *reason)
{
    struct dibs_released out = {0};
    struct dibs_release in = {.task_id = "t", .session_id = "s", .reason = reason};
    assert_ok(f, dibs_claim_release(f->d, f->a, &in, &out, &f->err));
    return out;
}

static void test_a_release_answers_what_was_released_and_for_how_long_it_was_held(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    world_pass(&f->world, SECONDS(90));
    struct dibs_released r = release(f, NULL);
    assert_string_equal(r.task_id, "t");
    assert_string_equal(r.reason, "manual");
    assert_int_equal(r.held_ms, SECONDS(90));
    assert_int_equal(r.task.status, DIBS_TASK_OPEN);
    assert_event_count(f, "task:released", 1);
}

static void test_a_release_as_completed_completes(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    struct dibs_released r = release(f, "completed");
    assert_string_equal(r.reason, "completed");
    assert_int_equal(r.task.status, DIBS_TASK_COMPLETED);
    assert_event_count(f, "task:completed", 1);
    assert_event_count(f, "task:released", 0);
    assert_string_equal(get_history(f, "t").attempts[0].end_reason, "completed");
    assert_int_equal(get_session(f, "s").claims_completed, 1);
}

static void test_a_release_as_failed_fails_the_attempt(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    struct dibs_released r = release(f, "failed");
    assert_int_equal(r.task.status, DIBS_TASK_OPEN);
    assert_int_equal(r.task.attempts, 1);
    assert_true(r.task.run_after_ms > now_ms(f));
    assert_event_count(f, "task:failed", 1);
}

static void test_a_second_release_finds_nobody_holding_it(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    release(f, "done for today");
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_release(f, "t", "s", 0, NULL));
    assert_int_equal(get_task(f, "t").attempts, 0);
    assert_event_count(f, "task:released", 1);
}

static void test_the_token_of_another_task_is_stale(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "t");
    make_task(f, "other");
    int64_t token = claim(f, "other", "s").token;
    claim(f, "t", "s");
    for (int i = 0; i < 5; i++)
        assert_refused(f, DIBS_STALE_TOKEN, report(f, i, "s", token));
    assert_int_equal(get_task(f, "t").status, DIBS_TASK_IN_PROGRESS);
    assert_int_equal(get_task(f, "other").status, DIBS_TASK_IN_PROGRESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_completed_task_keeps_its_result_and_tells_it_once),
        STORE_TEST(test_an_identical_repeat_is_fine_and_changes_nothing),
        STORE_TEST(test_the_first_final_report_wins_and_a_different_one_is_refused),
        STORE_TEST(test_a_result_belongs_to_the_report_it_came_with),
        STORE_TEST(test_bad_reports_are_refused_by_name),
        STORE_TEST(test_a_session_that_does_not_hold_the_task_reports_in_vain),
        STORE_TEST(test_a_wrong_token_is_stale_whatever_is_reported),
        STORE_TEST(test_the_token_of_another_task_is_stale),
        STORE_TEST(test_a_task_that_nobody_holds_takes_no_report),
        STORE_TEST(test_after_somebody_else_took_it_the_former_holder_is_refused),
        STORE_TEST(test_after_the_deadline_only_a_completion_is_taken),
        STORE_TEST(test_only_the_one_whose_lease_it_was_is_told_that_it_ended),
        STORE_TEST(test_a_late_completion_counts_when_nobody_has_claimed_since),
        STORE_TEST(test_a_late_completion_is_kept_but_refused_after_somebody_claimed),
        STORE_TEST(test_a_late_result_goes_to_the_attempt_its_token_names),
        STORE_TEST(test_a_late_failure_is_told_but_takes_nothing_from_the_new_holder),
        STORE_TEST(test_the_result_of_a_stranger_is_kept_nowhere),
        STORE_TEST(test_a_result_after_the_last_attempt_was_lost_is_kept),
        STORE_TEST(test_a_completion_from_before_a_reopen_does_not_finish_the_new_generation),
        STORE_TEST(test_reading_an_offer_is_not_doing_the_task),
        STORE_TEST(test_a_failure_keeps_its_error_and_leaves_the_next_attempt),
        STORE_TEST(test_a_permanent_failure_is_the_last),
        STORE_TEST(test_a_failure_without_words_is_called_failed),
        STORE_TEST(test_an_identical_failure_may_be_repeated_until_somebody_claims),
        STORE_TEST(test_a_failure_may_be_repeated_though_the_task_has_to_wait_by_now),
        STORE_TEST(test_the_same_words_about_another_attempt_are_not_a_repeat),
        STORE_TEST(test_a_failure_that_became_permanent_is_not_a_repeat),
        STORE_TEST(test_the_last_failure_may_be_repeated_but_not_changed),
        STORE_TEST(test_a_release_answers_what_was_released_and_for_how_long_it_was_held),
        STORE_TEST(test_a_release_as_completed_completes),
        STORE_TEST(test_a_release_as_failed_fails_the_attempt),
        STORE_TEST(test_a_second_release_finds_nobody_holding_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
