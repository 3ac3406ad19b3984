/* SPDX-License-Identifier: MIT */
/* Tests of src/api/api_inbox.c and api_notice.c: messages, answers and acknowledgements in JSON. */
#include "call.h"

static void given_leads(struct world *w)
{
    post(w, "/api/agents", "{'id': 'ann', 'isLead': true}");
    expect(w, 201, "OK");
    post(w, "/api/agents", "{'id': 'bob', 'isLead': true}");
    post(w, "/api/sessions", "{'id': 'ann-1', 'agentId': 'ann'}");
    post(w, "/api/sessions", "{'id': 'bob-1', 'agentId': 'bob'}");
    expect(w, 201, "OK");
}

static void given_message(struct world *w, const char *id)
{
    post(w, "/api/inbox", "{'id': '%s', 'content': 'c'}", id);
    expect(w, 201, "OK");
}

static void claim_for(struct world *w, const char *agent)
{
    post(w, "/api/inbox/claim", "{'agentId': '%s', 'sessionId': '%s-1'}", agent, agent);
}

static void test_a_message_is_answered_as_it_was_put_in(void **state)
{
    struct world *w = *state;
    given_leads(w);
    post(w, "/api/inbox", "{'content': 'c'}");
    expect(w, 201, "OK");
    expect_keys(w, "", "success message");
    expect_keys(w, "message", "id project agentId source status content createdAt lastUpdatedAt");
    assert_string_equal(text_at(w, "message.id"), "1");
    assert_string_equal(text_at(w, "message.status"), "unread");
    assert_true(json_is_null(at(w, "message.agentId")));
    post(w, "/api/inbox",
         "{'id': 'm', 'project': 'default', 'agentId': 'ann', 'source': 'slack', 'content': 'c', "
         "'channel': 'C', 'thread': 'T', 'user': 'U', 'matchedText': 'M', 'metadata': {'a': 1}}");
    expect(w, 201, "OK");
    expect_keys(w, "message",
                "id project agentId source status content channel thread user matchedText "
                "metadata createdAt lastUpdatedAt");
    assert_string_equal(text_at(w, "message.agentId"), "ann");
    assert_string_equal(text_at(w, "message.createdAt"), "2026-12-31T12:00:00.000Z");
    get(w, "/api/inbox/m");
    assert_string_equal(text_at(w, "message.matchedText"), "M");
    assert_int_equal(int_at(w, "message.metadata.a"), 1);
    get(w, "/api/inbox/nosuch");
    expect(w, 404, "MESSAGE_NOT_FOUND");
}

static void test_messages_are_listed_by_status_and_page(void **state)
{
    struct world *w = *state;
    given_leads(w);
    given_message(w, "a");
    given_message(w, "b");
    given_message(w, "c");
    post(w, "/api/inbox/a/read", "{}");
    get(w, "/api/inbox?status=unread");
    assert_int_equal(count_at(w, "messages"), 2);
    get(w, "/api/inbox?status=read");
    assert_string_equal(text_at(w, "messages.0.id"), "a");
    get(w, "/api/inbox?limit=2");
    expect_keys(w, "", "success messages nextCursor");
    char next[64];
    snprintf(next, sizeof next, "/api/inbox?limit=2&cursor=%s", text_at(w, "nextCursor"));
    get(w, next);
    assert_int_equal(count_at(w, "messages"), 1);
    assert_string_equal(text_at(w, "messages.0.id"), "c");
    get(w, "/api/inbox?status=lost");
    expect_field(w, "status");
}

static void test_claimed_messages_come_with_their_leases(void **state)
{
    struct world *w = *state;
    given_leads(w);
    given_message(w, "a");
    given_message(w, "b");
    post(w, "/api/inbox/claim",
         "{'agentId': 'ann', 'sessionId': 'ann-1', 'count': 1, 'ttlMs': 90000}");
    expect(w, 200, "OK");
    expect_keys(w, "", "success count messages");
    assert_int_equal(int_at(w, "count"), 1);
    assert_string_equal(text_at(w, "messages.0.status"), "processing");
    expect_keys(w, "messages.0.claim", "token sessionId claimedAt expiresAt ttlMs");
    assert_string_equal(text_at(w, "messages.0.claim.sessionId"), "ann-1");
    assert_string_equal(text_at(w, "messages.0.claim.expiresAt"), "2026-12-31T12:01:30.000Z");
    claim_for(w, "bob");
    assert_string_equal(text_at(w, "messages.0.id"), "b");
    claim_for(w, "bob");
    expect(w, 404, "NOTHING_TO_CLAIM");
    post(w, "/api/inbox/claim", "{'sessionId': 'ann-1'}");
    expect_field(w, "agentId");
    post(w, "/api/inbox/claim", "{'agentId': 'ann'}");
    expect_field(w, "sessionId");
}

static void test_a_heartbeat_names_messages_and_counts_what_is_unread(void **state)
{
    struct world *w = *state;
    given_leads(w);
    given_session(w, "alone");
    given_message(w, "a");
    claim_for(w, "ann");
    given_message(w, "b");
    post(w, "/api/sessions/ann-1/heartbeat", "{}");
    expect_keys(w, "", "success session claims lost cancelRequested unreadMessages unreadMentions");
    expect_keys(w, "claims.0",
                "kind resource sessionId token claimedAt expiresAt lastHeartbeat heartbeatCount "
                "ttlMs agentId remainingMs healthStatus");
    assert_string_equal(text_at(w, "claims.0.kind"), "inbox");
    assert_string_equal(text_at(w, "claims.0.resource"), "a");
    assert_int_equal(int_at(w, "unreadMessages"), 1);
    assert_int_equal(int_at(w, "unreadMentions"), 0);
    tick(31 * 60000);
    post(w, "/api/sessions/ann-1/heartbeat", "{}");
    assert_string_equal(text_at(w, "lost.0.kind"), "inbox");
    assert_string_equal(text_at(w, "lost.0.endReason"), "expired");
    assert_int_equal(int_at(w, "unreadMessages"), 2);
    post(w, "/api/sessions/alone/heartbeat", "{}");
    expect_keys(w, "", "success session claims lost cancelRequested");
}

static void test_answers_are_given_by_the_holder_and_once(void **state)
{
    struct world *w = *state;
    given_leads(w);
    given_message(w, "a");
    claim_for(w, "ann");
    int64_t token = int_at(w, "messages.0.claim.token");
    post(w, "/api/inbox/a/respond", "{'sessionId': 'bob-1', 'text': 'yes'}");
    expect(w, 403, "NOT_CLAIM_OWNER");
    assert_string_equal(text_at(w, "claim.sessionId"), "ann-1");
    post(w, "/api/inbox/a/respond", "{'text': 'yes'}");
    expect(w, 403, "NOT_CLAIM_OWNER");
    post(w, "/api/inbox/a/respond", "{'sessionId': 'ann-1', 'token': %d, 'text': 'yes'}",
         (int)token + 1);
    expect(w, 409, "STALE_TOKEN");
    post(w, "/api/inbox/a/respond", "{'sessionId': 'ann-1'}");
    expect_field(w, "text");
    for (int i = 0; i < 2; i++) {
        post(w, "/api/inbox/a/respond", "{'sessionId': 'ann-1', 'token': %d, 'text': 'yes'}",
             (int)token);
        expect(w, 200, "OK");
        assert_string_equal(text_at(w, "message.status"), "responded");
        assert_string_equal(text_at(w, "message.responseText"), "yes");
    }
    post(w, "/api/inbox/a/respond", "{'sessionId': 'ann-1', 'text': 'no'}");
    expect(w, 409, "ALREADY_ANSWERED");
    post(w, "/api/inbox/a/release", "{'sessionId': 'ann-1'}");
    expect(w, 409, "ALREADY_ANSWERED");
}

static void test_a_released_message_is_unread(void **state)
{
    struct world *w = *state;
    given_leads(w);
    given_message(w, "a");
    claim_for(w, "ann");
    post(w, "/api/inbox/a/release", "{'sessionId': 'ann-1'}");
    expect(w, 200, "OK");
    assert_string_equal(text_at(w, "message.status"), "unread");
    assert_null(at(w, "message.claim"));
    claim_for(w, "bob");
    expect(w, 200, "OK");
}

static void test_a_delegated_message_is_answered_with_its_task(void **state)
{
    struct world *w = *state;
    given_leads(w);
    given_message(w, "a");
    given_message(w, "b");
    given_task(w, "t");
    post(w, "/api/inbox/a/delegate", "{'task': {'title': 'T', 'priority': 'high'}}");
    expect(w, 200, "OK");
    expect_keys(w, "", "success message task");
    assert_string_equal(text_at(w, "message.status"), "delegated");
    assert_string_equal(text_at(w, "message.delegatedToTaskId"), text_at(w, "task.id"));
    assert_string_equal(text_at(w, "task.title"), "T");
    post(w, "/api/inbox/b/delegate", "{'taskId': 't'}");
    assert_string_equal(text_at(w, "task.id"), "t");
    post(w, "/api/inbox/b/delegate", "{'task': {'title': 'T', 'colour': 'red'}}");
    expect_field(w, "task.colour");
    post(w, "/api/inbox/b/delegate", "{'taskId': 'u'}");
    expect(w, 409, "ALREADY_ANSWERED");
}

static void test_an_answer_under_an_idempotency_key_is_given_once(void **state)
{
    struct world *w = *state;
    given_leads(w);
    given_message(w, "a");
    w->key = "k";
    for (int i = 0; i < 2; i++) {
        post(w, "/api/inbox/a/delegate", "{'task': {'title': 'T'}}");
        expect(w, 200, "OK");
    }
    w->key = NULL;
    get(w, "/api/tasks");
    assert_int_equal(count_at(w, "tasks"), 1);
}

static void test_finished_tasks_are_acknowledged(void **state)
{
    struct world *w = *state;
    given_leads(w);
    given_session(w, "s");
    given_task(w, "t");
    given_task(w, "u");
    given_claim(w, "t", "s");
    post(w, "/api/tasks/t/complete", "{'sessionId': 's'}");
    given_claim(w, "u", "s");
    post(w, "/api/tasks/u/complete", "{'sessionId': 's'}");
    assert_null(at(w, "task.notifiedAt"));
    get(w, "/api/poll?agentId=ann&sessionId=ann-1&ack=manual");
    assert_string_equal(text_at(w, "trigger.type"), "tasks_finished");
    post(w, "/api/notices/ack", "{'sessionId': 'bob-1'}");
    assert_int_equal(int_at(w, "acked"), 0);
    post(w, "/api/notices/release", "{'sessionId': 'ann-1', 'taskIds': ['t', 'nosuch']}");
    expect(w, 200, "OK");
    expect_keys(w, "", "success released");
    assert_int_equal(int_at(w, "released"), 1);
    get(w, "/api/poll?agentId=ann&sessionId=ann-1&ack=manual");
    assert_string_equal(text_at(w, "trigger.tasks.0.id"), "t");
    post(w, "/api/notices/release", "{'taskIds': ['t']}");
    expect_field(w, "sessionId");
    post(w, "/api/notices/ack", "{'sessionId': 'ann-1', 'taskIds': ['t']}");
    expect(w, 200, "OK");
    expect_keys(w, "", "success acked");
    assert_int_equal(int_at(w, "acked"), 1);
    post(w, "/api/notices/ack", "{'sessionId': 'ann-1'}");
    assert_int_equal(int_at(w, "acked"), 1);
    get(w, "/api/tasks/t");
    assert_string_equal(text_at(w, "task.notifiedAt"), "2026-12-31T12:00:00.000Z");
    post(w, "/api/notices/ack", "{}");
    expect_field(w, "sessionId");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_a_message_is_answered_as_it_was_put_in),
        test_in_world(test_messages_are_listed_by_status_and_page),
        test_in_world(test_claimed_messages_come_with_their_leases),
        test_in_world(test_a_heartbeat_names_messages_and_counts_what_is_unread),
        test_in_world(test_answers_are_given_by_the_holder_and_once),
        test_in_world(test_a_released_message_is_unread),
        test_in_world(test_a_delegated_message_is_answered_with_its_task),
        test_in_world(test_an_answer_under_an_idempotency_key_is_given_once),
        test_in_world(test_finished_tasks_are_acknowledged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
