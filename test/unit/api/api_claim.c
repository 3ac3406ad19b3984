/* SPDX-License-Identifier: MIT */
/* Tests of src/api/api_claim.c: claiming a named task and what its holder says afterwards. */
#include "call.h"

static void given_all(struct world *w)
{
    given_task(w, "t");
    given_session(w, "s");
    given_session(w, "other");
}

static void test_a_claim_is_answered_with_its_lease(void **state)
{
    struct world *w = *state;
    given_all(w);
    post(w, "/api/tasks/t/claim",
         "{'sessionId': 's', 'ttlMs': 1800000, 'agentType': 'autonomous'}");
    expect(w, 200, "OK");
    expect_keys(w, "", "success claim");
    expect_keys(
        w, "claim",
        "kind taskId sessionId token claimedAt expiresAt lastHeartbeat heartbeatCount ttlMs "
        "agentType remainingMs healthStatus attempt generation incarnation");
    assert_string_equal(text_at(w, "claim.taskId"), "t");
    assert_string_equal(text_at(w, "claim.sessionId"), "s");
    assert_string_equal(text_at(w, "claim.claimedAt"), "2026-12-31T12:00:00.000Z");
    assert_string_equal(text_at(w, "claim.expiresAt"), "2026-12-31T12:30:00.000Z");
    assert_string_equal(text_at(w, "claim.agentType"), "autonomous");
    assert_string_equal(text_at(w, "claim.healthStatus"), "healthy");
    assert_int_equal(int_at(w, "claim.remainingMs"), 1800000);
    assert_true(int_at(w, "claim.token") > 0);
    get(w, "/api/tasks/t");
    assert_string_equal(text_at(w, "task.status"), "in_progress");
    assert_string_equal(text_at(w, "task.claim.sessionId"), "s");
}

static void test_second_claimer_is_told_who_holds_it(void **state)
{
    struct world *w = *state;
    given_all(w);
    given_claim(w, "t", "s");
    tick(15 * 60000);
    post(w, "/api/tasks/t/claim", "{'sessionId': 'other'}");
    expect(w, 409, "TASK_ALREADY_CLAIMED");
    assert_string_equal(text_at(w, "claim.sessionId"), "s");
    assert_string_equal(text_at(w, "claim.claimedAt"), "2026-12-31T12:00:00.000Z");
    assert_int_equal(int_at(w, "claim.remainingMs"), 900000);
    expect_keys(w, "claim", "sessionId claimedAt remainingMs");
    assert_true(strlen(text_at(w, "message")) > 10);
}

static void test_claiming_again_extends_under_the_same_token(void **state)
{
    struct world *w = *state;
    given_all(w);
    int64_t token = given_claim(w, "t", "s");
    assert_null(at(w, "claim.extended"));
    tick(60000);
    post(w, "/api/tasks/t/claim", "{'sessionId': 's', 'metadata': {'a': 1}}");
    expect(w, 200, "OK");
    assert_true(true_at(w, "claim.extended"));
    assert_int_equal(int_at(w, "claim.token"), token);
}

static void test_an_unknown_session_is_not_registered_here(void **state)
{
    struct world *w = *state;
    given_task(w, "t");
    post(w, "/api/tasks/t/claim", "{'sessionId': 'nobody'}");
    expect(w, 404, "SESSION_NOT_FOUND");
    post(w, "/api/tasks/t/claim", "{}");
    expect_field(w, "sessionId");
    given_session(w, "s");
    post(w, "/api/tasks/nosuch/claim", "{'sessionId': 's'}");
    expect(w, 404, "TASK_NOT_FOUND");
    post(w, "/api/tasks/t/claim", "{'sessionId': 's', 'ttlMs': 1000}");
    expect_field(w, "ttlMs");
    expect_message(w, "minTTL");
    post(w, "/api/tasks/t/claim", "{'sessionId': 's', 'ttlMs': 0}");
    expect_field(w, "ttlMs");
}

static void test_heartbeat_extends_and_counts(void **state)
{
    struct world *w = *state;
    given_all(w);
    int64_t token = given_claim(w, "t", "s");
    for (int i = 1; i <= 3; i++) {
        tick(60000);
        post(w, "/api/tasks/t/claim/heartbeat", "{'sessionId': 's', 'extendMs': 1800000}");
        expect(w, 200, "OK");
        assert_int_equal(int_at(w, "claim.heartbeatCount"), i);
    }
    assert_string_equal(text_at(w, "claim.expiresAt"), "2026-12-31T12:33:00.000Z");
    post(w, "/api/tasks/t/claim/heartbeat", "{'sessionId': 'other'}");
    expect(w, 403, "NOT_CLAIM_OWNER");
    post(w, "/api/tasks/t/claim/heartbeat", "{'sessionId': 's', 'token': %d}", (int)token + 1);
    expect(w, 409, "STALE_TOKEN");
    post(w, "/api/tasks/t/claim/heartbeat", "{'sessionId': 's', 'token': %d}", (int)token);
    expect(w, 200, "OK");
}

static void test_progress_is_shown_and_the_checkpoint_handed_on(void **state)
{
    struct world *w = *state;
    given_all(w);
    given_claim(w, "t", "s");
    post(w, "/api/tasks/t/progress",
         "{'sessionId': 's', 'percent': 0, 'message': 'begun', 'checkpoint': {'page': 7}}");
    expect(w, 200, "OK");
    assert_int_equal(int_at(w, "claim.progress.percent"), 0);
    assert_string_equal(text_at(w, "claim.progress.message"), "begun");
    post(w, "/api/tasks/t/release", "{'sessionId': 's'}");
    expect(w, 200, "OK");
    post(w, "/api/tasks/t/claim", "{'sessionId': 'other'}");
    assert_int_equal(int_at(w, "claim.checkpoint.page"), 7);
    post(w, "/api/tasks/t/progress", "{'sessionId': 'other', 'percent': 101}");
    expect_field(w, "percent");
}

static void test_release_tells_how_long_it_was_held(void **state)
{
    struct world *w = *state;
    given_all(w);
    given_claim(w, "t", "s");
    tick(1000);
    post(w, "/api/tasks/t/release", "{'sessionId': 's', 'reason': 'lunch'}");
    expect(w, 200, "OK");
    expect_keys(w, "", "success released task");
    expect_keys(w, "released", "taskId reason claimDuration");
    assert_string_equal(text_at(w, "released.taskId"), "t");
    assert_string_equal(text_at(w, "released.reason"), "lunch");
    assert_int_equal(int_at(w, "released.claimDuration"), 1000);
    assert_string_equal(text_at(w, "task.status"), "open");
    given_claim(w, "t", "s");
    post(w, "/api/tasks/t/release", "{'sessionId': 's', 'reason': 'completed'}");
    assert_string_equal(text_at(w, "released.reason"), "completed");
    assert_string_equal(text_at(w, "task.status"), "completed");
}

static void test_complete_and_fail_report(void **state)
{
    struct world *w = *state;
    given_all(w);
    given_claim(w, "t", "s");
    post(w, "/api/tasks/t/complete", "{'sessionId': 's', 'result': {'lines': 3}}");
    expect(w, 200, "OK");
    expect_keys(w, "", "success task");
    assert_string_equal(text_at(w, "task.status"), "completed");
    assert_int_equal(int_at(w, "task.result.lines"), 3);
    assert_non_null(at(w, "task.finishedAt"));
    given_task(w, "u");
    given_claim(w, "u", "s");
    post(w, "/api/tasks/u/fail", "{'sessionId': 's', 'error': 'broken', 'permanent': true}");
    expect(w, 200, "OK");
    assert_string_equal(text_at(w, "task.status"), "failed");
    assert_string_equal(text_at(w, "task.error"), "broken");
}

static void test_the_next_task_comes_with_the_report(void **state)
{
    struct world *w = *state;
    given_all(w);
    post(w, "/api/tasks",
         "[{'id': 'low', 'title': 'l', 'type': 'y', 'priority': 1}, "
         "{'id': 'high', 'title': 'h', 'type': 'z'}]");
    given_claim(w, "t", "s");
    post(w, "/api/tasks/t/complete",
         "{'sessionId': 's', 'claimNext': {'types': ['y'], 'ttlMs': 600000}}");
    expect(w, 200, "OK");
    expect_keys(w, "", "success task next");
    expect_keys(w, "next", "task claim");
    assert_string_equal(text_at(w, "task.status"), "completed");
    assert_string_equal(text_at(w, "next.task.id"), "low");
    assert_int_equal(int_at(w, "next.claim.remainingMs"), 600000);
    post(w, "/api/tasks/low/fail",
         "{'sessionId': 's', 'claimNext': {'sort_by': 'created_at', 'sort_order': 'desc'}}");
    expect(w, 200, "OK");
    assert_string_equal(text_at(w, "next.task.id"), "high");
    post(w, "/api/tasks/high/complete", "{'sessionId': 's', 'claimNext': {}}");
    expect(w, 200, "OK");
    assert_true(json_is_null(at(w, "next")));
}

static void test_a_bad_wish_for_the_next_takes_the_report_back(void **state)
{
    struct world *w = *state;
    given_all(w);
    given_claim(w, "t", "s");
    post(w, "/api/tasks/t/complete", "{'sessionId': 's', 'claimNext': {'ttlMs': 5}}");
    expect_field(w, "claimNext.ttlMs");
    get(w, "/api/tasks/t");
    assert_string_equal(text_at(w, "task.status"), "in_progress");
    w->key = "k";
    post(w, "/api/tasks/t/complete", "{'sessionId': 's', 'claimNext': {'ttlMs': 5}}");
    expect_field(w, "claimNext.ttlMs");
    get(w, "/api/tasks/t");
    assert_string_equal(text_at(w, "task.status"), "in_progress");
}

/* lose_claim: s had t and lost it; other has it now. */
static void lose_claim(struct world *w)
{
    given_all(w);
    given_claim(w, "t", "s");
    tick(31 * 60000);
    given_claim(w, "t", "other");
}

static void expect_late_result(struct world *w)
{
    expect(w, 403, "NOT_CLAIM_OWNER");
    assert_string_equal(text_at(w, "claim.sessionId"), "other");
    w->key = NULL;
    get(w, "/api/tasks/t/history");
    assert_int_equal(int_at(w, "attempts.0.lateResult.n"), 1);
    get(w, "/api/tasks/t");
    assert_string_equal(text_at(w, "task.status"), "in_progress");
}

static void test_a_late_result_is_kept_though_refused(void **state)
{
    struct world *w = *state;
    lose_claim(w);
    post(w, "/api/tasks/t/complete", "{'sessionId': 's', 'result': {'n': 1}}");
    expect_late_result(w);
}

static void test_a_late_result_is_kept_when_the_next_is_asked_for(void **state)
{
    struct world *w = *state;
    lose_claim(w);
    post(w, "/api/tasks/t/complete", "{'sessionId': 's', 'result': {'n': 1}, 'claimNext': {}}");
    expect_late_result(w);
}

static void test_a_late_result_is_kept_under_a_key(void **state)
{
    struct world *w = *state;
    lose_claim(w);
    w->key = "late";
    post(w, "/api/tasks/t/complete", "{'sessionId': 's', 'result': {'n': 1}}");
    expect_late_result(w);
}

static void test_a_cancelled_holder_is_told_to_stop(void **state)
{
    struct world *w = *state;
    given_all(w);
    given_claim(w, "t", "s");
    post(w, "/api/tasks/t/cancel", "{'reason': 'not needed'}");
    expect(w, 200, "OK");
    post(w, "/api/tasks/t/claim/heartbeat", "{'sessionId': 's'}");
    assert_true(w->http >= 400);
    assert_true(true_at(w, "cancelRequested"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_a_claim_is_answered_with_its_lease),
        test_in_world(test_second_claimer_is_told_who_holds_it),
        test_in_world(test_claiming_again_extends_under_the_same_token),
        test_in_world(test_an_unknown_session_is_not_registered_here),
        test_in_world(test_heartbeat_extends_and_counts),
        test_in_world(test_progress_is_shown_and_the_checkpoint_handed_on),
        test_in_world(test_release_tells_how_long_it_was_held),
        test_in_world(test_complete_and_fail_report),
        test_in_world(test_the_next_task_comes_with_the_report),
        test_in_world(test_a_bad_wish_for_the_next_takes_the_report_back),
        test_in_world(test_a_late_result_is_kept_though_refused),
        test_in_world(test_a_late_result_is_kept_when_the_next_is_asked_for),
        test_in_world(test_a_late_result_is_kept_under_a_key),
        test_in_world(test_a_cancelled_holder_is_told_to_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
