/* SPDX-License-Identifier: MIT */
/* Tests of src/api/identity.c for agents: keys poll with sessions of their own, and a key of one
 * project neither sees nor takes the agents of another. */
#include "call.h"

#define OWNER ((struct api_identity){0})
#define AS(id, what) ((struct api_identity){.key_id = id, .role = API_##what})
#define IN_PROJECT(id, what, where)                                                                \
    ((struct api_identity){.key_id = id, .role = API_##what, .project = where})

static void test_a_session_that_a_poll_registers_belongs_to_its_key(void **state)
{
    struct world *w = *state;
    given_agent(w, "bob");
    w->who = AS("k1", WORKER);
    get(w, "/api/poll?agentId=bob");
    expect(w, 200, "OK");
    get(w, "/api/poll?agentId=bob&sessionId=bob-2");
    expect(w, 200, "OK");
    w->who = AS("k2", WORKER);
    get(w, "/api/poll?agentId=bob"); /* the session is called like the agent */
    expect(w, 403, "FORBIDDEN");
    get(w, "/api/poll?agentId=bob&sessionId=bob-2");
    expect(w, 403, "FORBIDDEN");
    get(w, "/api/poll?agentId=bob&sessionId=bob-3");
    expect(w, 200, "OK");
    get(w, "/api/poll?agentId=nobody");
    expect(w, 404, "AGENT_NOT_FOUND");
}

static void test_a_limited_key_is_given_nothing_of_another_project(void **state)
{
    struct world *w = *state;
    post(w, "/api/agents", "{'name': 'bob', 'project': 'p', 'maxTasks': 9}");
    post(w, "/api/agents", "{'name': 'zoe', 'project': 'q'}");
    post(w, "/api/tasks", "{'id': 'there', 'title': 'x', 'project': 'q', 'offeredTo': 'bob'}");
    post(w, "/api/tasks", "{'id': 'here', 'title': 'x', 'project': 'p', 'offeredTo': 'bob'}");
    w->who = IN_PROJECT("k1", WORKER, "p");
    get(w, "/api/poll?agentId=bob");
    assert_string_equal(text_at(w, "trigger.taskId"), "here");
    get(w, "/api/poll?agentId=bob");
    assert_true(json_is_null(at(w, "trigger")));
    get(w, "/api/poll?agentId=zoe");
    expect(w, 404, "AGENT_NOT_FOUND");
    get(w, "/api/agents/zoe");
    expect(w, 404, "AGENT_NOT_FOUND");
    post(w, "/api/tasks", "{'title': 'x', 'assignee': 'zoe'}");
    expect(w, 404, "AGENT_NOT_FOUND");
    post(w, "/api/sessions", "{'id': 'mine', 'agentId': 'zoe'}");
    expect(w, 404, "AGENT_NOT_FOUND");
    get(w, "/api/agents");
    assert_int_equal(count_at(w, "agents"), 1);
}

static void test_a_limited_key_takes_no_agent_out_of_its_project(void **state)
{
    struct world *w = *state;
    post(w, "/api/agents", "{'id': 'z-1', 'name': 'zoe', 'project': 'q'}");
    w->who = IN_PROJECT("k1", WORKER, "p");
    static const char *const bodies[] = {"{'name': 'zoe'}", "{'id': 'z-1'}", "{'name': 'z-1'}",
                                         "{'id': 'x', 'name': 'zoe'}"};
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        post(w, "/api/agents", "%s", bodies[i]);
        expect(w, 403, "FORBIDDEN");
    }
    post(w, "/api/agents", "{'name': 'amy'}");
    assert_string_equal(text_at(w, "agent.project"), "p");
    w->who = OWNER;
    get(w, "/api/agents/z-1");
    assert_string_equal(text_at(w, "agent.project"), "q");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_a_session_that_a_poll_registers_belongs_to_its_key),
        test_in_world(test_a_limited_key_is_given_nothing_of_another_project),
        test_in_world(test_a_limited_key_takes_no_agent_out_of_its_project),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
