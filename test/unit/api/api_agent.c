/* SPDX-License-Identifier: MIT */
/* Tests of src/api/api_agent.c: scores. */
#include "call.h"

static void test_scores_tell_what_each_agent_did(void **state)
{
    struct world *w = *state;
    post(w, "/api/sessions", "{'id': 's', 'agentId': 'Oracle'}");
    given_session(w, "lone");
    given_task(w, "a");
    given_task(w, "b");
    given_claim(w, "a", "s");
    post(w, "/api/tasks/a/claim", "{'sessionId': 'lone'}");
    expect(w, 409, "TASK_ALREADY_CLAIMED");
    tick(4000);
    post(w, "/api/tasks/a/complete", "{'sessionId': 's'}");
    given_claim(w, "b", "lone");
    post(w, "/api/tasks/b/fail", "{'sessionId': 'lone'}");
    get(w, "/api/agents/scores");
    expect(w, 200, "OK");
    assert_int_equal(count_at(w, "scores"), 2);
    expect_keys(w, "scores.0",
                "agent claimed completed failed expired orphaned released refused lateResults "
                "averageDurationMs lastActive");
    assert_string_equal(text_at(w, "scores.0.agent"), "Oracle");
    assert_int_equal(int_at(w, "scores.0.completed"), 1);
    assert_int_equal(int_at(w, "scores.0.averageDurationMs"), 4000);
    assert_string_equal(text_at(w, "scores.1.agent"), "lone");
    assert_int_equal(int_at(w, "scores.1.refused"), 1);
    assert_int_equal(int_at(w, "scores.1.failed"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_scores_tell_what_each_agent_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
