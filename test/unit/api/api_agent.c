/* SPDX-License-Identifier: MIT */
/* Tests of src/api/api_agent.c: making agents known, showing them, scores. */
#include "call.h"

static void test_an_agent_is_made_known_shown_and_changed(void **state)
{
    struct world *w = *state;
    static const char *const keys =
        "id name project isLead maxTasks capabilities status tasksLive sessionsLive registeredAt "
        "updatedAt lastSeenAt";
    post(w, "/api/agents", "{'name': 'bob', 'capabilities': ['c'], 'maxTasks': 2}");
    expect(w, 201, "OK");
    expect_keys(w, "", "success agent");
    expect_keys(w, "agent", keys);
    assert_string_equal(text_at(w, "agent.id"), "bob");
    assert_string_equal(text_at(w, "agent.status"), "offline");
    post(w, "/api/agents", "{'id': 'bob', 'isLead': true, 'metadata': {'a': [1]}}");
    expect(w, 200, "OK");
    get(w, "/api/agents/bob");
    expect(w, 200, "OK");
    assert_true(json_is_true(at(w, "agent.isLead")));
    assert_int_equal(int_at(w, "agent.maxTasks"), 2);
    assert_int_equal(int_at(w, "agent.metadata.a.0"), 1);
    assert_string_equal(text_at(w, "agent.capabilities.0"), "c");
    post(w, "/api/agents", "{'id': 'bob', 'isLead': false}");
    assert_true(json_is_false(at(w, "agent.isLead")));
}

static void test_agents_are_listed_by_project_and_part(void **state)
{
    struct world *w = *state;
    post(w, "/api/agents", "{'name': 'ann', 'isLead': true}");
    post(w, "/api/agents", "{'name': 'bob'}");
    post(w, "/api/agents", "{'name': 'cat', 'project': 'p'}");
    static const struct {
        const char *query;
        size_t count;
    } rows[] = {
        {"", 3}, {"?isLead=true", 1}, {"?isLead=false", 2}, {"?project=p", 1}, {"?project=q", 0}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char target[64];
        snprintf(target, sizeof target, "/api/agents%s", rows[i].query);
        get(w, target);
        assert_int_equal(count_at(w, "agents"), rows[i].count);
    }
}

static void test_what_cannot_be_an_agent_is_refused(void **state)
{
    struct world *w = *state;
    post(w, "/api/agents", "{'id': 'a', 'name': 'bob'}");
    post(w, "/api/agents", "{'id': 'b', 'name': 'bob'}");
    expect(w, 409, "AGENT_EXISTS");
    get(w, "/api/agents/b");
    expect(w, 404, "AGENT_NOT_FOUND");
    post(w, "/api/agents", "{}");
    expect_field(w, "name");
    post(w, "/api/agents", "{'name': 'x', 'maxTasks': 0}");
    expect_field(w, "maxTasks");
    post(w, "/api/agents", "{'name': 'x', 'isLead': 1}");
    expect_field(w, "isLead");
    post(w, "/api/agents", "{'name': 'scores'}");
    expect_field(w, "name");
}

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
        test_in_world(test_an_agent_is_made_known_shown_and_changed),
        test_in_world(test_agents_are_listed_by_project_and_part),
        test_in_world(test_what_cannot_be_an_agent_is_refused),
        test_in_world(test_scores_tell_what_each_agent_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
