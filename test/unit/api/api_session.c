/* SPDX-License-Identifier: MIT */
/* Tests of src/api/api_session.c: sessions in JSON. */
#include "call.h"

static void test_registering_again_is_a_new_incarnation(void **state)
{
    struct world *w = *state;
    post(w, "/api/sessions",
         "{'id': 's', 'project': 'p', 'agentType': 'cli', 'agentId': 'Oracle', 'pid': %d, "
         "'host': 'elsewhere', 'metadata': {'ctx': 0.67}}",
         (int)getpid());
    expect(w, 201, "OK");
    expect_keys(w, "session",
                "id project agentType agentId host pid incarnation status healthStatus "
                "registeredAt lastHeartbeat tasksCompleted tasksTotal claims locks metadata");
    assert_string_equal(text_at(w, "session.host"), "elsewhere");
    assert_int_equal(int_at(w, "session.pid"), getpid());
    assert_string_equal(text_at(w, "session.status"), "active");
    assert_non_null(strstr(w->body, "\"metadata\":{\"ctx\":0.67}"));
    post(w, "/api/sessions", "{'id': 's'}");
    expect(w, 200, "OK");
    assert_int_equal(int_at(w, "session.incarnation"), 2);
    assert_string_equal(text_at(w, "session.project"), "p");
    call_raw(w, "POST", "/api/sessions", "");
    expect(w, 201, "OK");
    assert_true(strlen(text_at(w, "session.id")) > 0);
}

static void test_a_session_shows_its_task_and_history(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    given_task(w, "a");
    given_task(w, "b");
    given_claim(w, "a", "s");
    tick(6300000 / 6);
    post(w, "/api/tasks/a/complete", "{'sessionId': 's'}");
    int64_t token = given_claim(w, "b", "s");
    get(w, "/api/sessions/s");
    expect(w, 200, "OK");
    assert_string_equal(text_at(w, "session.currentTaskId"), "b");
    assert_string_equal(text_at(w, "session.currentTaskClaimedAt"), "2026-12-31T12:17:30.000Z");
    expect_keys(w, "session.claimHistory.0",
                "taskId claimedAt releasedAt releaseReason duration token");
    assert_string_equal(text_at(w, "session.claimHistory.0.taskId"), "a");
    assert_string_equal(text_at(w, "session.claimHistory.0.releaseReason"), "completed");
    assert_int_equal(int_at(w, "session.claimHistory.0.duration"), 1050000);
    assert_int_equal(int_at(w, "session.tasksCompleted"), 1);
    assert_int_equal(int_at(w, "session.tasksTotal"), 2);
    get(w, "/api/sessions/s/current-task");
    expect(w, 200, "OK");
    expect_keys(w, "", "success sessionId currentTask");
    expect_keys(w, "currentTask", "taskId title claim");
    expect_keys(w, "currentTask.claim", "claimedAt remainingMs expiresAt token");
    assert_int_equal(int_at(w, "currentTask.claim.token"), token);
    assert_int_equal(int_at(w, "currentTask.claim.remainingMs"), 1800000);
}

static void test_a_session_without_a_task_has_none(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    get(w, "/api/sessions/s/current-task");
    expect(w, 200, "OK");
    assert_string_equal(text_at(w, "sessionId"), "s");
    assert_true(json_is_null(at(w, "currentTask")));
    get(w, "/api/sessions/nobody/current-task");
    expect(w, 404, "SESSION_NOT_FOUND");
    get(w, "/api/sessions/nobody");
    expect(w, 404, "SESSION_NOT_FOUND");
}

static void test_lists_go_on_with_a_cursor(void **state)
{
    struct world *w = *state;
    char target[200];
    given_session(w, "a");
    given_session(w, "b");
    post(w, "/api/sessions", "{'id': 'c', 'project': 'p'}");
    get(w, "/api/sessions?project=p");
    assert_int_equal(count_at(w, "sessions"), 1);
    get(w, "/api/sessions?limit=2");
    assert_int_equal(count_at(w, "sessions"), 2);
    snprintf(target, sizeof target, "/api/sessions?limit=2&cursor=%s", text_at(w, "nextCursor"));
    get(w, target);
    assert_int_equal(count_at(w, "sessions"), 1);
    assert_null(at(w, "nextCursor"));
}

static void test_heartbeat_tells_what_changed(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    given_task(w, "keep");
    given_task(w, "lose");
    given_task(w, "stop");
    given_claim(w, "keep", "s");
    post(w, "/api/tasks/lose/claim", "{'sessionId': 's', 'ttlMs': 60000}");
    given_claim(w, "stop", "s");
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 's', 'ttlMs': 3600000}");
    post(w, "/api/tasks/stop/cancel", "{}");
    tick(61000);
    post(w, "/api/sessions/s/heartbeat", "{}");
    expect(w, 200, "OK");
    expect_keys(w, "", "success session claims lost cancelRequested");
    assert_int_equal(count_at(w, "claims"), 2);
    assert_int_equal(count_at(w, "lost"), 2); /* the expired one, and the cancelled one */
    size_t lost = strcmp(text_at(w, "lost.0.taskId"), "lose") == 0 ? 0 : 1;
    assert_string_equal(text_at(w, lost == 0 ? "lost.0.endReason" : "lost.1.endReason"), "expired");
    assert_string_equal(text_at(w, lost == 0 ? "lost.1.taskId" : "lost.0.taskId"), "stop");
    assert_int_equal(count_at(w, "cancelRequested"), 1);
    assert_string_equal(text_at(w, "cancelRequested.0"), "stop");
    assert_string_equal(text_at(w, "session.lastHeartbeat"), "2026-12-31T12:01:01.000Z");
    post(w, "/api/sessions/s/heartbeat", "{}");
    assert_int_equal(count_at(w, "lost"), 0);
    assert_int_equal(count_at(w, "cancelRequested"), 0);
    post(w, "/api/sessions/nobody/heartbeat", "{}");
    expect(w, 404, "SESSION_NOT_FOUND");
}

static void test_what_was_lost_is_resumed(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    given_session(w, "other");
    given_task(w, "mine");
    given_task(w, "taken");
    int64_t before = given_claim(w, "mine", "s");
    given_claim(w, "taken", "s");
    tick(31 * 60000);
    given_claim(w, "taken", "other");
    post(w, "/api/sessions/s/resume", "{}");
    expect(w, 200, "OK");
    expect_keys(w, "", "success resumed gone");
    assert_int_equal(count_at(w, "resumed"), 1);
    expect_keys(w, "resumed.0", "task claim");
    assert_string_equal(text_at(w, "resumed.0.task.id"), "mine");
    assert_true(int_at(w, "resumed.0.claim.token") > before);
    assert_int_equal(count_at(w, "gone"), 1);
    assert_string_equal(text_at(w, "gone.0.taskId"), "taken");
}

static void test_the_end_of_a_session_releases_what_it_holds(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    given_task(w, "t");
    given_claim(w, "t", "s");
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 's'}");
    del(w, "/api/sessions/s");
    expect(w, 200, "OK");
    expect_keys(w, "", "success sessionId deregistered claimsReleased locksReleased");
    assert_string_equal(text_at(w, "sessionId"), "s");
    assert_true(true_at(w, "deregistered"));
    assert_int_equal(int_at(w, "claimsReleased"), 1);
    assert_int_equal(int_at(w, "locksReleased"), 1);
    get(w, "/api/sessions?all=true");
    assert_string_equal(text_at(w, "sessions.0.status"), "ended");
    assert_non_null(at(w, "sessions.0.endedAt"));
}

static void test_summary_shows_everybody_at_a_glance(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    given_session(w, "idle");
    given_task(w, "done");
    given_task(w, "t");
    given_claim(w, "done", "s");
    tick(2000);
    post(w, "/api/tasks/done/complete", "{'sessionId': 's'}");
    given_claim(w, "t", "s");
    get(w, "/api/sessions/summary");
    expect(w, 200, "OK");
    expect_keys(w, "", "success globalMetrics sessions recentCompletions timestamp");
    expect_keys(w, "globalMetrics",
                "activeCount staleCount inFlight tasksCompletedToday tasksByStatus");
    assert_int_equal(int_at(w, "globalMetrics.activeCount"), 2);
    assert_int_equal(int_at(w, "globalMetrics.inFlight"), 1);
    assert_int_equal(int_at(w, "globalMetrics.tasksCompletedToday"), 1);
    assert_int_equal(int_at(w, "globalMetrics.tasksByStatus.in_progress"), 1);
    assert_int_equal(count_at(w, "sessions"), 2);
    size_t busy = strcmp(text_at(w, "sessions.0.id"), "s") == 0 ? 0 : 1;
    const char *info = busy == 0 ? "sessions.0.claimInfo" : "sessions.1.claimInfo";
    expect_keys(w, info, "taskId title claimedAt expiresAt lastHeartbeat healthStatus");
    assert_null(at(w, busy == 0 ? "sessions.1.claimInfo" : "sessions.0.claimInfo"));
    expect_keys(w, "recentCompletions.0", "taskId title sessionId finishedAt duration");
    assert_string_equal(text_at(w, "recentCompletions.0.taskId"), "done");
    assert_int_equal(int_at(w, "recentCompletions.0.duration"), 2000);
    get(w, "/api/sessions/summary?project=nothing");
    assert_int_equal(count_at(w, "sessions"), 0);
}

static void test_a_process_elsewhere_is_not_looked_for_here(void **state)
{
    struct world *w = *state;
    w->who = (struct api_identity){.key_id = "k1", .role = API_WORKER, .remote = true};
    post(w, "/api/sessions", "{'id': 's', 'pid': 1}");
    expect(w, 400, "INVALID_REQUEST");
    assert_string_equal(text_at(w, "message"),
                        "'host' is required with a pid from another machine");
    post(w, "/api/sessions", "{'id': 's', 'pid': 1, 'host': 'box'}");
    expect(w, 201, "OK");
    post(w, "/api/sessions", "{'id': 't'}");
    expect(w, 201, "OK");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_registering_again_is_a_new_incarnation),
        test_in_world(test_a_session_shows_its_task_and_history),
        test_in_world(test_a_session_without_a_task_has_none),
        test_in_world(test_lists_go_on_with_a_cursor),
        test_in_world(test_heartbeat_tells_what_changed),
        test_in_world(test_what_was_lost_is_resumed),
        test_in_world(test_the_end_of_a_session_releases_what_it_holds),
        test_in_world(test_summary_shows_everybody_at_a_glance),
        test_in_world(test_a_process_elsewhere_is_not_looked_for_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
