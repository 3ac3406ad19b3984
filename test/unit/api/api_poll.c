/* SPDX-License-Identifier: MIT */
/* Tests of src/api/api_poll.c: the shapes of what an agent is given, and who may ask. */
#include "call.h"

static void poll(struct world *w, const char *query)
{
    char target[256];
    snprintf(target, sizeof target, "/api/poll?%s", query);
    get(w, target);
    expect(w, 200, "OK");
}

static void expect_trigger(struct world *w, const char *query, const char *type, const char *keys)
{
    poll(w, query);
    expect_keys(w, "", "success trigger sessionId");
    assert_string_equal(text_at(w, "trigger.type"), type);
    expect_keys(w, "trigger", keys);
}

static void test_nothing_is_null_with_the_time_to_ask_again(void **state)
{
    struct world *w = *state;
    given_agent(w, "bob");
    poll(w, "agentId=bob");
    expect_keys(w, "", "success trigger nextPollMs sessionId");
    assert_true(json_is_null(at(w, "trigger")));
    assert_int_equal(int_at(w, "nextPollMs"), 60000);
    assert_string_equal(text_at(w, "sessionId"), "bob");
    poll(w, "agentId=bob&sessionId=bob-2");
    assert_string_equal(text_at(w, "sessionId"), "bob-2");
}

static void test_tasks_come_with_their_claim(void **state)
{
    struct world *w = *state;
    static const char *const keys = "type taskId task claim";
    post(w, "/api/agents", "{'name': 'bob', 'maxTasks': 3}");
    given_task(w, "o");
    given_task(w, "a");
    given_task(w, "p");
    post(w, "/api/tasks/o/offer", "{'agentId': 'bob'}");
    post(w, "/api/tasks/a/assign", "{'agentId': 'bob'}");
    expect_trigger(w, "agentId=bob&ttlMs=60000", "task_offered", keys);
    assert_string_equal(text_at(w, "trigger.taskId"), "o");
    assert_string_equal(text_at(w, "trigger.task.status"), "reviewing");
    assert_int_equal(int_at(w, "trigger.claim.ttlMs"), 60000);
    assert_true(int_at(w, "trigger.claim.token") > 0);
    expect_trigger(w, "agentId=bob", "task_assigned", keys);
    expect_trigger(w, "agentId=bob", "pool_tasks_available", "type count");
    assert_int_equal(int_at(w, "trigger.count"), 1);
    poll(w, "agentId=bob&claim=true&types=a,b,c");
    assert_true(json_is_null(at(w, "trigger")));
    expect_trigger(w, "agentId=bob&claim=true", "pool_task_claimed", keys);
    assert_string_equal(text_at(w, "trigger.taskId"), "p");
}

static void test_leads_get_messages_mentions_and_finished_tasks(void **state)
{
    struct world *w = *state;
    post(w, "/api/agents", "{'name': 'ann', 'isLead': true}");
    given_session(w, "s");
    given_task(w, "t");
    given_claim(w, "t", "s");
    post(w, "/api/tasks/t/complete", "{'sessionId': 's'}");
    post(w, "/api/inbox", "{'content': 'hello'}");
    post(w, "/api/channels", "{'id': 'ops'}");
    post(w, "/api/channels/ops/messages", "{'author': 'x', 'content': 'hi @ann'}");
    expect_trigger(w, "agentId=ann", "slack_inbox_message", "type count messages");
    assert_string_equal(text_at(w, "trigger.messages.0.content"), "hello");
    assert_string_equal(text_at(w, "trigger.messages.0.claim.sessionId"), "ann");
    expect_trigger(w, "agentId=ann", "unread_mentions",
                   "type mentionsCount claimedChannels channels");
    assert_string_equal(text_at(w, "trigger.claimedChannels.0"), "ops");
    expect_trigger(w, "agentId=ann&ack=manual", "tasks_finished", "type count tasks claims");
    assert_string_equal(text_at(w, "trigger.tasks.0.id"), "t");
    poll(w, "agentId=ann");
    assert_true(json_is_null(at(w, "trigger")));
}

static void test_how_long_to_wait_is_said_in_several_ways(void **state)
{
    struct world *w = *state;
    given_agent(w, "bob");
    static const struct {
        const char *query, *field;
    } bad[] = {{"wait=soon", "wait"},
               {"wait=11m", "wait"},
               {"wait=-1", "wait"},
               {"waitMs=600001", "waitMs"},
               {"waitMs=soon", "waitMs"},
               {"ack=never", "ack"},
               {"claim=maybe", "claim"},
               {"ttlMs=1", "ttlMs"},
               {"types=", "types"},
               {"sesionId=x", "sesionId"},
               {"sessionId=a%20b", "sessionId"}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char target[128];
        snprintf(target, sizeof target, "/api/poll?agentId=bob&%s", bad[i].query);
        get(w, target);
        expect_field(w, bad[i].field);
    }
    static const char *const good[] = {"wait=20ms", "wait=20", "waitMs=20", "wait=0"};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        char query[64];
        snprintf(query, sizeof query, "agentId=bob&%s", good[i]);
        poll(w, query);
    }
    get(w, "/api/poll");
    expect_field(w, "agentId");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_nothing_is_null_with_the_time_to_ask_again),
        test_in_world(test_tasks_come_with_their_claim),
        test_in_world(test_leads_get_messages_mentions_and_finished_tasks),
        test_in_world(test_how_long_to_wait_is_said_in_several_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
