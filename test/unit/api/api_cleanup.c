/* SPDX-License-Identifier: MIT */
/* Tests of src/api/api_cleanup.c: what is in flight, the numbers, and the sweeps. */
#include "call.h"

#define HALF_HOUR (30 * 60000)

static void given_flights(struct world *w)
{
    post(w, "/api/tasks",
         "[{'id': 'a', 'title': 'Phase 4', 'phase': 'implementation', 'type': 'y'}, "
         "{'id': 'b', 'title': 'B', 'priority': 90}, {'id': 'c', 'title': 'C', 'project': 'p'}]");
    post(w, "/api/sessions", "{'id': 's1', 'agentType': 'autonomous'}");
    post(w, "/api/sessions", "{'id': 's2', 'agentType': 'cli \\\" \\u0001'}");
    given_claim(w, "a", "s1");
    given_claim(w, "b", "s1");
    given_claim(w, "c", "s2");
}

static void test_in_flight_lists_tasks_and_holders(void **state)
{
    struct world *w = *state;
    given_flights(w);
    get(w, "/api/tasks/in-flight");
    expect(w, 200, "OK");
    expect_keys(w, "", "success inFlight summary");
    expect_keys(w, "inFlight.0", "taskId task claim");
    expect_keys(w, "inFlight.0.task", "title phase type priority priorityValue");
    assert_string_equal(text_at(w, "inFlight.0.taskId"), "a");
    assert_string_equal(text_at(w, "inFlight.0.task.title"), "Phase 4");
    assert_string_equal(text_at(w, "inFlight.0.task.phase"), "implementation");
    assert_string_equal(text_at(w, "inFlight.0.task.priority"), "medium");
    assert_int_equal(int_at(w, "inFlight.0.task.priorityValue"), 50);
    assert_string_equal(text_at(w, "inFlight.1.task.priority"), "critical");
    assert_string_equal(text_at(w, "inFlight.0.claim.sessionId"), "s1");
    assert_string_equal(text_at(w, "inFlight.0.claim.agentType"), "autonomous");
    assert_string_equal(text_at(w, "inFlight.0.claim.healthStatus"), "healthy");
    assert_string_equal(text_at(w, "inFlight.0.claim.claimedAt"), "2026-12-31T12:00:00.000Z");
    assert_int_equal(int_at(w, "summary.total"), 3);
    assert_int_equal(int_at(w, "summary.bySession.s1"), 2);
    assert_int_equal(int_at(w, "summary.bySession.s2"), 1);
}

static void test_in_flight_is_filtered(void **state)
{
    struct world *w = *state;
    given_flights(w);
    get(w, "/api/tasks/in-flight?sessionId=s1&limit=1");
    assert_int_equal(count_at(w, "inFlight"), 1);
    assert_int_equal(int_at(w, "summary.total"), 2);
    get(w, "/api/tasks/in-flight?project=p");
    assert_int_equal(count_at(w, "inFlight"), 1);
    tick(HALF_HOUR + 1);
    get(w, "/api/tasks/in-flight");
    assert_int_equal(count_at(w, "inFlight"), 0);
    get(w, "/api/tasks/in-flight?includeExpired=true");
    assert_int_equal(count_at(w, "inFlight"), 3);
    assert_string_equal(text_at(w, "inFlight.0.claim.healthStatus"), "expired");
}

static void test_stats_count_now_and_ever(void **state)
{
    struct world *w = *state;
    given_flights(w);
    post(w, "/api/tasks/a/complete", "{'sessionId': 's1'}");
    get(w, "/api/tasks/claims/stats");
    expect(w, 200, "OK");
    expect_keys(w, "", "success stats");
    expect_keys(w, "stats",
                "total active expiring stale byAgentType bySession tasksByStatus totals "
                "averageHoldMs oldestClaimableMs timestamp");
    expect_keys(w, "stats.totals",
                "claimed completed failed expired orphaned released refused lateResults");
    assert_int_equal(int_at(w, "stats.total"), 2);
    assert_int_equal(int_at(w, "stats.active"), 2);
    assert_int_equal(int_at(w, "stats.byAgentType.autonomous"), 1);
    json_t *odd = json_object_get(at(w, "stats.byAgentType"), "cli \" \x01");
    assert_int_equal(json_integer_value(odd), 1);
    assert_int_equal(int_at(w, "stats.bySession.s2"), 1);
    assert_int_equal(int_at(w, "stats.tasksByStatus.completed"), 1);
    assert_int_equal(int_at(w, "stats.totals.claimed"), 3);
    assert_int_equal(int_at(w, "stats.totals.completed"), 1);
    assert_string_equal(text_at(w, "stats.timestamp"), "2026-12-31T12:00:00.000Z");
}

static void test_expired_claims_are_cleaned_and_named(void **state)
{
    struct world *w = *state;
    given_flights(w);
    post(w, "/api/tasks/claims/cleanup", "{'type': 'expired'}");
    expect(w, 200, "OK");
    expect_keys(w, "cleaned", "count claims");
    assert_int_equal(int_at(w, "cleaned.count"), 0);
    tick(HALF_HOUR + 1);
    post(w, "/api/tasks/claims/cleanup", "{'type': 'expired'}");
    assert_int_equal(int_at(w, "cleaned.count"), 3);
    expect_keys(w, "cleaned.claims.0", "taskId kind sessionId token claimedAt expiresAt heldForMs");
    assert_string_equal(text_at(w, "cleaned.claims.0.taskId"), "a");
    assert_string_equal(text_at(w, "cleaned.claims.0.expiresAt"), "2026-12-31T12:30:00.000Z");
}

static void test_orphans_are_cleaned_with_the_reason(void **state)
{
    struct world *w = *state;
    given_flights(w);
    tick(11 * 60000);
    post(w, "/api/tasks/claims/cleanup", "{'type': 'orphaned', 'checkPid': true}");
    expect(w, 200, "OK");
    assert_int_equal(int_at(w, "cleaned.count"), 3);
    expect_keys(w, "cleaned.claims.0",
                "taskId kind sessionId token claimedAt expiresAt reason staleForMs heldForMs");
    assert_string_equal(text_at(w, "cleaned.claims.0.reason"), "session_stale");
    assert_int_equal(int_at(w, "cleaned.claims.0.staleForMs"), 11 * 60000);
}

static void test_the_claims_of_a_session_are_released(void **state)
{
    struct world *w = *state;
    given_flights(w);
    tick(300000);
    post(w, "/api/tasks/claims/cleanup", "{'type': 'session', 'sessionId': 's1'}");
    expect(w, 200, "OK");
    expect_keys(w, "cleaned", "count sessionId reason claims");
    assert_int_equal(int_at(w, "cleaned.count"), 2);
    assert_string_equal(text_at(w, "cleaned.sessionId"), "s1");
    assert_string_equal(text_at(w, "cleaned.reason"), "session_ended");
    assert_int_equal(int_at(w, "cleaned.claims.0.heldForMs"), 300000);
    post(w, "/api/tasks/claims/cleanup",
         "{'type': 'session', 'sessionId': 's2', 'reason': 'manual'}");
    assert_string_equal(text_at(w, "cleaned.reason"), "manual");
}

static void test_all_is_swept_by_default(void **state)
{
    struct world *w = *state;
    given_flights(w);
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 's1'}");
    tick(HALF_HOUR + 1);
    call_raw(w, "POST", "/api/tasks/claims/cleanup", NULL);
    expect(w, 200, "OK");
    expect_keys(w, "cleaned",
                "count expired orphaned locks sessionsStale sessionsEnded eventsPruned expiring");
    assert_int_equal(int_at(w, "cleaned.count"), 3);
    assert_int_equal(int_at(w, "cleaned.expired"), 3);
    assert_int_equal(int_at(w, "cleaned.locks"), 1);
    assert_int_equal(int_at(w, "cleaned.sessionsEnded"), 2);
}

static void test_the_other_sweeps_answer_too(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 's'}");
    tick(6 * 60000);
    post(w, "/api/tasks/claims/cleanup", "{'type': 'locks'}");
    expect(w, 200, "OK");
    assert_int_equal(int_at(w, "cleaned.count"), 1);
    assert_string_equal(text_at(w, "cleaned.claims.0.resource"), "r");
    post(w, "/api/tasks/claims/cleanup", "{'type': 'sessions'}");
    expect(w, 200, "OK");
    expect_keys(w, "cleaned", "count sessionsStale sessionsEnded");
    assert_int_equal(int_at(w, "cleaned.sessionsStale"), 1);
    tick(INT64_C(8) * 24 * 3600000);
    post(w, "/api/tasks/claims/cleanup", "{'type': 'events'}");
    expect(w, 200, "OK");
    assert_true(int_at(w, "cleaned.eventsPruned") > 0);
}

static void test_a_field_that_would_be_ignored_is_refused(void **state)
{
    struct world *w = *state;
    post(w, "/api/tasks/claims/cleanup", "{'type': 'session'}");
    expect_field(w, "sessionId");
    post(w, "/api/tasks/claims/cleanup", "{'sessionId': 's'}");
    expect_field(w, "sessionId");
    post(w, "/api/tasks/claims/cleanup", "{'type': 'expired', 'reason': 'x'}");
    expect_field(w, "reason");
    post(w, "/api/tasks/claims/cleanup", "{'checkPid': true}");
    expect_field(w, "checkPid");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_in_flight_lists_tasks_and_holders),
        test_in_world(test_in_flight_is_filtered),
        test_in_world(test_stats_count_now_and_ever),
        test_in_world(test_expired_claims_are_cleaned_and_named),
        test_in_world(test_orphans_are_cleaned_with_the_reason),
        test_in_world(test_the_claims_of_a_session_are_released),
        test_in_world(test_all_is_swept_by_default),
        test_in_world(test_the_other_sweeps_answer_too),
        test_in_world(test_a_field_that_would_be_ignored_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
