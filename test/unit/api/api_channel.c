/* SPDX-License-Identifier: MIT */
/* Tests of src/api/api_channel.c: channels, messages and mentions in JSON. */
#include "call.h"

/* Agent bob with the sessions bob-1 and bob-2, and the channel ops. */
static void given_bob(struct world *w)
{
    post(w, "/api/sessions", "{'id': 'bob-1', 'agentId': 'bob'}");
    expect(w, 201, "OK");
    post(w, "/api/sessions", "{'id': 'bob-2', 'agentId': 'bob'}");
    expect(w, 201, "OK");
    post(w, "/api/channels", "{'id': 'ops'}");
    expect(w, 201, "OK");
}

static void say(struct world *w, const char *text)
{
    post(w, "/api/channels/ops/messages", "{'author': 'ann', 'content': '%s'}", text);
    expect(w, 201, "OK");
}

static void test_a_channel_is_created_once(void **state)
{
    struct world *w = *state;
    post(w, "/api/channels", "{'id': 'ops', 'project': 'p', 'description': 'what runs'}");
    expect(w, 201, "OK");
    expect_keys(w, "", "success channel");
    expect_keys(w, "channel", "id project description messages createdAt");
    assert_string_equal(text_at(w, "channel.createdAt"), "2026-12-31T12:00:00.000Z");
    post(w, "/api/channels", "{'id': 'ops'}");
    expect(w, 200, "OK");
    assert_string_equal(text_at(w, "channel.project"), "p");
    post(w, "/api/channels", "{'id': 'ops', 'project': 'q'}");
    expect_field(w, "project");
    post(w, "/api/channels", "{'project': 'q'}");
    expect_field(w, "id");
    post(w, "/api/channels", "{'id': 'plain'}");
    expect_keys(w, "channel", "id project messages createdAt");
    get(w, "/api/channels?project=p");
    assert_int_equal(count_at(w, "channels"), 1);
    get(w, "/api/channels");
    assert_int_equal(count_at(w, "channels"), 2);
    assert_string_equal(text_at(w, "channels.1.id"), "plain");
}

static void test_messages_are_posted_and_paged(void **state)
{
    struct world *w = *state;
    given_bob(w);
    say(w, "hello @bob, @all and bob@example.org");
    expect_keys(w, "", "success message");
    expect_keys(w, "message", "id channelId author content mentions createdAt");
    assert_int_equal(count_at(w, "message.mentions"), 1);
    assert_string_equal(text_at(w, "message.mentions.0"), "bob");
    post(w, "/api/channels/ops/messages", "{'author': 'bob', 'content': '@bob', 'replyTo': '1'}");
    expect_keys(w, "message", "id channelId author content replyTo mentions createdAt");
    assert_int_equal(count_at(w, "message.mentions"), 0);
    say(w, "third");
    get(w, "/api/channels/ops/messages?limit=2");
    expect(w, 200, "OK");
    assert_int_equal(count_at(w, "messages"), 2);
    assert_string_equal(text_at(w, "messages.1.replyTo"), "1");
    assert_string_equal(text_at(w, "nextCursor"), "2");
    get(w, "/api/channels/ops/messages?limit=2&cursor=2");
    assert_int_equal(count_at(w, "messages"), 1);
    assert_string_equal(text_at(w, "messages.0.content"), "third");
    expect_keys(w, "", "success messages");
    get(w, "/api/channels/nosuch/messages");
    expect(w, 404, "CHANNEL_NOT_FOUND");
}

static void test_bad_messages_are_refused_by_field(void **state)
{
    struct world *w = *state;
    given_bob(w);
    post(w, "/api/channels/ops/messages", "{'content': 'c'}");
    expect_field(w, "author");
    post(w, "/api/channels/ops/messages", "{'author': 'a'}");
    expect_field(w, "content");
    post(w, "/api/channels/ops/messages", "{'author': 'a', 'content': 7}");
    expect_field(w, "content");
    post(w, "/api/channels/ops/messages", "{'author': 'a', 'content': 'c', 'to': 'x'}");
    expect_field(w, "to");
    get(w, "/api/channels/ops/messages?cursor=x");
    expect_field(w, "cursor");
    post(w, "/api/channels/ops/read", "{}");
    expect_field(w, "agentId");
    post(w, "/api/mentions/claim", "{'agentId': 'bob'}");
    expect_field(w, "sessionId");
}

static void test_mentions_are_claimed_read_and_released(void **state)
{
    struct world *w = *state;
    given_bob(w);
    say(w, "@bob one");
    say(w, "@bob two");
    post(w, "/api/mentions/claim", "{'agentId': 'bob', 'sessionId': 'bob-1', 'ttlMs': 60000}");
    expect(w, 200, "OK");
    expect_keys(w, "", "success mentionsCount claimedChannels channels");
    expect_keys(w, "channels.0", "channelId count claim");
    expect_keys(w, "channels.0.claim", "token sessionId claimedAt expiresAt ttlMs");
    assert_int_equal(int_at(w, "mentionsCount"), 2);
    assert_string_equal(text_at(w, "claimedChannels.0"), "ops");
    assert_int_equal(int_at(w, "channels.0.count"), 2);
    assert_string_equal(text_at(w, "channels.0.claim.expiresAt"), "2026-12-31T12:01:00.000Z");
    post(w, "/api/mentions/claim", "{'agentId': 'bob', 'sessionId': 'bob-2'}");
    expect(w, 404, "NOTHING_TO_CLAIM");
    post(w, "/api/channels/ops/read", "{'agentId': 'bob', 'sessionId': 'bob-2'}");
    expect(w, 403, "NOT_CLAIM_OWNER");
    assert_string_equal(text_at(w, "claim.sessionId"), "bob-1");
    post(w, "/api/channels/ops/read", "{'agentId': 'bob', 'sessionId': 'bob-1', 'limit': 1}");
    assert_int_equal(count_at(w, "messages"), 1);
    assert_string_equal(text_at(w, "nextCursor"), "1");
    post(w, "/api/mentions/release", "{'agentId': 'bob', 'sessionId': 'bob-1'}");
    expect(w, 200, "OK");
    assert_int_equal(int_at(w, "released"), 1);
    post(w, "/api/mentions/claim", "{'agentId': 'bob', 'sessionId': 'bob-2'}");
    assert_int_equal(int_at(w, "mentionsCount"), 1);
    post(w, "/api/mentions/release",
         "{'agentId': 'bob', 'sessionId': 'bob-2', 'channelIds': ['ops'], 'read': true}");
    assert_int_equal(int_at(w, "released"), 1);
    post(w, "/api/mentions/claim", "{'agentId': 'bob', 'sessionId': 'bob-1'}");
    expect(w, 404, "NOTHING_TO_CLAIM");
}

static void test_mentions_come_back_when_the_lease_ends(void **state)
{
    struct world *w = *state;
    given_bob(w);
    say(w, "@bob one");
    post(w, "/api/mentions/claim", "{'agentId': 'bob', 'sessionId': 'bob-1', 'ttlMs': 60000}");
    expect(w, 200, "OK");
    tick(60000);
    post(w, "/api/mentions/claim", "{'agentId': 'bob', 'sessionId': 'bob-2'}");
    expect(w, 200, "OK");
    assert_int_equal(int_at(w, "mentionsCount"), 1);
}

static void test_a_repeated_post_with_its_key_is_one_message(void **state)
{
    struct world *w = *state;
    given_bob(w);
    w->key = "once";
    say(w, "@bob");
    say(w, "@bob");
    w->key = NULL;
    get(w, "/api/channels/ops/messages");
    assert_int_equal(count_at(w, "messages"), 1);
    post(w, "/api/mentions/claim", "{'agentId': 'bob', 'sessionId': 'bob-1'}");
    assert_int_equal(int_at(w, "mentionsCount"), 1);
}

static void test_a_key_of_one_project_sees_its_channels_only(void **state)
{
    struct world *w = *state;
    given_bob(w); /* of the project default */
    say(w, "@bob");
    w->who = (struct api_identity){.key_id = "k1", .role = API_WORKER, .project = "p"};
    post(w, "/api/channels", "{'id': 'mine'}");
    expect(w, 201, "OK");
    assert_string_equal(text_at(w, "channel.project"), "p");
    get(w, "/api/channels");
    assert_int_equal(count_at(w, "channels"), 1);
    get(w, "/api/channels/ops/messages");
    expect(w, 404, "CHANNEL_NOT_FOUND");
    post(w, "/api/channels/ops/messages", "{'author': 'x', 'content': 'c'}");
    expect(w, 404, "CHANNEL_NOT_FOUND");
    post(w, "/api/channels/mine/read", "{'agentId': 'bob'}");
    expect(w, 404, "AGENT_NOT_FOUND");
    post(w, "/api/channels", "{'id': 'ops', 'project': 'default'}");
    expect(w, 403, "FORBIDDEN");
    post(w, "/api/sessions", "{'id': 'pat-1', 'agentId': 'pat'}");
    expect(w, 201, "OK");
    post(w, "/api/channels/mine/messages", "{'author': 'x', 'content': '@bob @pat'}");
    assert_int_equal(count_at(w, "message.mentions"), 1);
    post(w, "/api/mentions/claim", "{'agentId': 'pat', 'sessionId': 'pat-1'}");
    expect(w, 200, "OK");
    assert_string_equal(text_at(w, "claimedChannels.0"), "mine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_a_channel_is_created_once),
        test_in_world(test_messages_are_posted_and_paged),
        test_in_world(test_bad_messages_are_refused_by_field),
        test_in_world(test_mentions_are_claimed_read_and_released),
        test_in_world(test_mentions_come_back_when_the_lease_ends),
        test_in_world(test_a_repeated_post_with_its_key_is_one_message),
        test_in_world(test_a_key_of_one_project_sees_its_channels_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
