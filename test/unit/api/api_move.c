/* SPDX-License-Identifier: MIT */
/* Tests of src/api/api_move.c: moves by people and planners. */
#include "call.h"

static void move(struct world *w, const char *verb, const char *body, const char *status)
{
    char path[64];
    snprintf(path, sizeof path, "/api/tasks/t/%s", verb);
    post(w, path, "%s", body);
    expect(w, 200, "OK");
    expect_keys(w, "", "success task");
    assert_string_equal(text_at(w, "task.status"), status);
}

static void test_block_and_unblock(void **state)
{
    struct world *w = *state;
    given_task(w, "t");
    move(w, "block", "{'reason': 'waits for parts'}", "blocked");
    assert_string_equal(text_at(w, "task.blockReason"), "waits for parts");
    move(w, "unblock", "{}", "open");
    given_session(w, "s");
    given_session(w, "other");
    given_claim(w, "t", "s");
    post(w, "/api/tasks/t/block", "{'sessionId': 'other'}");
    expect(w, 403, "NOT_CLAIM_OWNER");
    move(w, "block", "{'sessionId': 's'}", "blocked");
    post(w, "/api/tasks/t/unblock", "{'reason': 'x'}");
    expect_field(w, "reason");
}

static void test_cancel_and_reopen(void **state)
{
    struct world *w = *state;
    given_task(w, "t");
    move(w, "cancel", "{'reason': 'not needed'}", "cancelled");
    move(w, "reopen", "{'reason': 'needed'}", "open");
    assert_int_equal(int_at(w, "task.generation"), 2);
    post(w, "/api/tasks/t/reopen", "{}");
    expect(w, 409, "ILLEGAL_TRANSITION");
    assert_string_equal(text_at(w, "taskStatus"), "open");
}

static void test_offer_reject_accept_assign(void **state)
{
    struct world *w = *state;
    given_task(w, "t");
    given_agent(w, "Oracle");
    given_agent(w, "Sandman");
    move(w, "offer", "{'agentId': 'Oracle'}", "offered");
    assert_string_equal(text_at(w, "task.offeredTo"), "Oracle");
    move(w, "reject", "{'agentId': 'Oracle', 'reason': 'too busy'}", "open");
    assert_string_equal(text_at(w, "task.rejectionReason"), "too busy");
    move(w, "offer", "{'agentId': 'Sandman'}", "offered");
    move(w, "accept", "{'agentId': 'Sandman'}", "assigned");
    assert_string_equal(text_at(w, "task.assignee"), "Sandman");
    given_task(w, "u");
    post(w, "/api/tasks/u/assign", "{'agentId': 'Oracle'}");
    assert_string_equal(text_at(w, "task.assignee"), "Oracle");
    post(w, "/api/tasks/u/assign", "{}");
    expect_field(w, "agentId");
    post(w, "/api/tasks/u/assign", "{'agentId': 'Orakel'}");
    expect(w, 409, "ILLEGAL_TRANSITION");
    given_task(w, "x");
    post(w, "/api/tasks/x/assign", "{'agentId': 'Orakel'}");
    expect(w, 404, "AGENT_NOT_FOUND");
    post(w, "/api/tasks/x/offer", "{'agentId': 'Orakel'}");
    expect(w, 404, "AGENT_NOT_FOUND");
}

static void test_an_offer_is_answered_after_a_poll_has_begun_its_review(void **state)
{
    struct world *w = *state;
    given_agent(w, "Oracle");
    given_task(w, "t");
    move(w, "offer", "{'agentId': 'Oracle'}", "offered");
    get(w, "/api/poll?agentId=Oracle");
    assert_string_equal(text_at(w, "trigger.task.status"), "reviewing");
    move(w, "reject", "{'agentId': 'Oracle', 'reason': 'no'}", "open");
    move(w, "offer", "{'agentId': 'Oracle'}", "offered");
    get(w, "/api/poll?agentId=Oracle");
    move(w, "accept", "{'agentId': 'Oracle'}", "assigned");
    get(w, "/api/poll?agentId=Oracle");
    assert_string_equal(text_at(w, "trigger.type"), "task_assigned");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_block_and_unblock),
        test_in_world(test_cancel_and_reopen),
        test_in_world(test_offer_reject_accept_assign),
        test_in_world(test_an_offer_is_answered_after_a_poll_has_begun_its_review),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
