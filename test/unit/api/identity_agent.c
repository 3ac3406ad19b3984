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

/* Lead bob was of project q until now, with a message and a mention of then. */
static void given_moved_bob(struct world *w)
{
    post(w, "/api/agents", "{'id': 'bob', 'project': 'q', 'isLead': true}");
    post(w, "/api/channels", "{'id': 'there', 'project': 'q'}");
    post(w, "/api/channels/there/messages", "{'author': 'x', 'content': '@bob SECRET'}");
    post(w, "/api/inbox", "{'id': 'there', 'content': 'SECRET', 'agentId': 'bob'}");
    post(w, "/api/agents", "{'id': 'bob', 'project': 'p'}");
    expect(w, 200, "OK");
}

static void test_a_limited_key_is_given_no_messages_of_another_project(void **state)
{
    struct world *w = *state;
    given_moved_bob(w);
    w->who = IN_PROJECT("k1", WORKER, "p");
    get(w, "/api/poll?agentId=bob");
    assert_true(json_is_null(at(w, "trigger")));
    post(w, "/api/inbox/claim", "{'agentId': 'bob', 'sessionId': 'bob'}");
    expect(w, 404, "NOTHING_TO_CLAIM");
    post(w, "/api/mentions/claim", "{'agentId': 'bob', 'sessionId': 'bob'}");
    expect(w, 404, "NOTHING_TO_CLAIM");
    post(w, "/api/inbox", "{'id': 'here', 'content': 'c', 'agentId': 'bob'}");
    post(w, "/api/channels", "{'id': 'ours'}");
    post(w, "/api/channels/ours/messages", "{'author': 'x', 'content': '@bob'}");
    get(w, "/api/poll?agentId=bob");
    assert_int_equal(count_at(w, "trigger.messages"), 1);
    assert_string_equal(text_at(w, "trigger.messages.0.id"), "here");
    get(w, "/api/poll?agentId=bob");
    assert_int_equal(count_at(w, "trigger.claimedChannels"), 1);
    assert_string_equal(text_at(w, "trigger.claimedChannels.0"), "ours");
    w->who = AS("k2", ADMIN);
    post(w, "/api/inbox/claim", "{'agentId': 'bob', 'sessionId': 'bob'}");
    assert_string_equal(text_at(w, "messages.0.id"), "there");
    post(w, "/api/mentions/claim", "{'agentId': 'bob', 'sessionId': 'bob'}");
    assert_string_equal(text_at(w, "claimedChannels.0"), "there");
}

static void test_a_limited_key_learns_of_no_channel_of_another_project(void **state)
{
    struct world *w = *state;
    given_moved_bob(w);
    w->who = IN_PROJECT("k1", WORKER, "p");
    get(w, "/api/poll?agentId=bob");
    post(w, "/api/mentions/release",
         "{'agentId': 'bob', 'sessionId': 'bob', 'channelIds': ['there']}");
    expect(w, 404, "CHANNEL_NOT_FOUND");
    assert_string_equal(text_at(w, "message"), "there is no channel 'there'");
    post(w, "/api/mentions/release",
         "{'agentId': 'bob', 'sessionId': 'bob', 'channelIds': ['nosuch']}");
    expect(w, 404, "CHANNEL_NOT_FOUND");
    assert_string_equal(text_at(w, "message"), "there is no channel 'nosuch'");
    post(w, "/api/mentions/release", "{'agentId': 'bob', 'sessionId': 'bob'}");
    expect(w, 200, "OK");
}

static void test_a_limited_key_is_not_given_the_task_that_a_message_became_elsewhere(void **state)
{
    struct world *w = *state;
    post(w, "/api/tasks", "{'id': 'there', 'title': 'SECRET', 'project': 'q'}");
    post(w, "/api/inbox", "{'id': 'a', 'content': 'c', 'project': 'p'}");
    post(w, "/api/inbox", "{'id': 'b', 'content': 'c', 'project': 'p'}");
    post(w, "/api/inbox/a/delegate", "{'taskId': 'there'}");
    expect(w, 200, "OK");
    w->who = IN_PROJECT("k1", WORKER, "p");
    get(w, "/api/inbox/a");
    assert_string_equal(text_at(w, "message.status"), "delegated");
    assert_null(at(w, "message.delegatedToTaskId"));
    get(w, "/api/inbox?status=delegated");
    assert_null(at(w, "messages.0.delegatedToTaskId"));
    post(w, "/api/inbox/a/delegate", "{'task': {'title': 'SECRET'}}");
    expect(w, 409, "ALREADY_ANSWERED");
    assert_null(at(w, "task"));
    post(w, "/api/inbox/a/delegate", "{'task': {'title': 'guess'}}");
    expect(w, 409, "ALREADY_ANSWERED");
    post(w, "/api/inbox/b/delegate", "{'task': {'title': 'x', 'id': 'there'}}");
    assert_int_not_equal(w->http, 200);
    post(w, "/api/inbox/b/delegate", "{'task': {'title': 'x', 'id': 'here'}}");
    expect(w, 200, "OK");
    get(w, "/api/inbox/b");
    assert_string_equal(text_at(w, "message.delegatedToTaskId"), "here");
    w->who = OWNER;
    get(w, "/api/inbox/a");
    assert_string_equal(text_at(w, "message.delegatedToTaskId"), "there");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_a_session_that_a_poll_registers_belongs_to_its_key),
        test_in_world(test_a_limited_key_is_given_nothing_of_another_project),
        test_in_world(test_a_limited_key_takes_no_agent_out_of_its_project),
        test_in_world(test_a_limited_key_is_given_no_messages_of_another_project),
        test_in_world(test_a_limited_key_learns_of_no_channel_of_another_project),
        test_in_world(test_a_limited_key_is_not_given_the_task_that_a_message_became_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
