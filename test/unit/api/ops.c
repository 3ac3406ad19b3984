/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/api/ops.def: every operation is visited, once with success and once under another
 * method; and every refusal that this room can answer is answered by somebody.
 */
#include "visits.h"

#include "db/db.h"

static void test_every_operation_is_visited(void **state)
{
    struct world *w = *state;
    size_t count = 0;
    const struct api_operation *ops = api_operations(&count);
    bool seen[100] = {false};
    assert_true(count < COUNT_OF(seen));
    for (size_t i = 0; i < COUNT_OF(visits); i++) {
        const struct api_operation *op = visited(&visits[i]);
        assert_non_null(op);
        assert_string_equal(op->name, visits[i].name);
        visit(w, &visits[i]);
        expect(w, visits[i].http, "OK");
        seen[op - ops] = true;
    }
    for (size_t i = 0; i < count; i++) {
        if (!seen[i])
            fail_msg("'%s' of ops.def has no request here", ops[i].name);
    }
}

static void test_reading_operations_change_nothing(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < COUNT_OF(visits); i++) {
        const struct api_operation *op = visited(&visits[i]);
        get(w, "/api/events?limit=1");
        int64_t before = int_at(w, "last");
        visit(w, &visits[i]);
        get(w, "/api/events?limit=1");
        assert_true(op->access == API_WRITES || int_at(w, "last") == before);
    }
}

static bool always(void)
{
    return true;
}

static void test_every_operation_tells_of_a_failing_store(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < COUNT_OF(visits); i++) {
        w->hook = &db_should_fail;
        w->fails = always;
        visit(w, &visits[i]);
        w->hook = NULL;
        expect(w, 503, "STORE_UNAVAILABLE");
        visit(w, &visits[i]); /* and has changed nothing */
        expect(w, visits[i].http, "OK");
    }
}

static void test_names_and_paths_are_unique(void **state)
{
    size_t count = 0;
    const struct api_operation *ops = api_operations(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(ops[i].name, ops[k].name);
            assert_false(str_eq(ops[i].path, ops[k].path) && str_eq(ops[i].method, ops[k].method));
        }
        bool reads = str_eq(ops[i].method, "GET") && !str_eq(ops[i].name, "poll");
        assert_true(ops[i].access == (reads ? API_READS : API_WRITES));
    }
}

/* ---- every refusal --------------------------------------------------------------------------- */

/* One request per code. Given: task "held" by session s, "lost" expired, "done" completed,
 * "blocked" and "free"; session other; lock "r" of s; message "answered"; agent bob. */
static const struct refusal {
    const char *code, *method, *target, *body;
    int http;
} refusals[] = {
    {"NOTHING_TO_CLAIM", "POST", "/api/tasks/claim", "{'worker_id': 'w', 'project': 'empty'}", 404},
    {"TASK_ALREADY_CLAIMED", "POST", "/api/tasks/held/claim", "{'sessionId': 'other'}", 409},
    {"LOCK_HELD", "POST", "/api/locks", "{'resource': 'r', 'sessionId': 'other'}", 409},
    {"NOT_CLAIM_OWNER", "POST", "/api/tasks/held/progress", "{'sessionId': 'other'}", 403},
    {"STALE_TOKEN", "POST", "/api/tasks/held/complete", "{'sessionId': 's', 'token': 1}", 409},
    {"CLAIM_EXPIRED", "POST", "/api/tasks/lost/claim/heartbeat", "{'sessionId': 's'}", 410},
    {"TASK_NOT_CLAIMED", "POST", "/api/tasks/free/release", "{'sessionId': 's'}", 404},
    {"LOCK_NOT_HELD", "DELETE", "/api/locks?resource=q&sessionId=s", "", 404},
    {"TASK_NOT_CLAIMABLE", "POST", "/api/tasks/blocked/claim", "{'sessionId': 's'}", 400},
    {"ILLEGAL_TRANSITION", "POST", "/api/tasks/free/accept", "{'agentId': 'a'}", 409},
    {"ALREADY_FINISHED", "POST", "/api/tasks/done/complete", "{'sessionId': 's', 'result': 2}",
     409},
    {"VERSION_CONFLICT", "PATCH", "/api/tasks/held", "{'version': 999, 'title': 'x'}", 409},
    {"INVALID_REQUEST", "POST", "/api/tasks", "{'title': ''}", 400},
    {"TASK_NOT_FOUND", "GET", "/api/tasks/nosuch", "", 404},
    {"SESSION_NOT_FOUND", "GET", "/api/sessions/nosuch", "", 404},
    {"NOT_FOUND", "GET", "/api/nosuch", "", 404},
    {"METHOD_NOT_ALLOWED", "DELETE", "/api/tasks", "", 405},
    {"TASK_EXISTS", "POST", "/api/tasks", "{'id': 'held', 'title': 'x'}", 409},
    {"AGENT_NOT_FOUND", "GET", "/api/agents/nosuch", "", 404},
    {"AGENT_EXISTS", "POST", "/api/agents", "{'id': 'other', 'name': 'bob'}", 409},
    {"MESSAGE_NOT_FOUND", "GET", "/api/inbox/nosuch", "", 404},
    {"ALREADY_ANSWERED", "POST", "/api/inbox/answered/respond", "{'text': 'no'}", 409},
    {"CHANNEL_NOT_FOUND", "GET", "/api/channels/nosuch/messages", "", 404},
    {"KEY_NOT_FOUND", "DELETE", "/api/keys/knosuch", "", 404},
    {"DEPENDENCY_CYCLE", "PATCH", "/api/tasks/free", "{'dependsOn': ['blocked']}", 400},
};

static void given_everything(struct world *w)
{
    given_agent(w, "bob");
    given_session(w, "s");
    given_session(w, "other");
    given_task(w, "lost");
    given_task(w, "done");
    given_task(w, "free");
    post(w, "/api/tasks", "{'id': 'blocked', 'title': 'b', 'dependsOn': ['free']}");
    post(w, "/api/tasks/lost/claim", "{'sessionId': 's', 'ttlMs': 60000}");
    tick(61000);
    given_task(w, "held");
    given_claim(w, "done", "s");
    post(w, "/api/tasks/done/complete", "{'sessionId': 's', 'result': 1}");
    given_claim(w, "held", "s");
    post(w, "/api/inbox", "{'id': 'answered', 'content': 'c'}");
    post(w, "/api/inbox/answered/respond", "{'text': 'yes'}");
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 's'}");
    expect(w, 200, "OK");
}

static void test_every_refusal_is_reached(void **state)
{
    struct world *w = *state;
    given_everything(w);
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        const struct refusal *r = &refusals[i];
        visit(w, &(struct visit){.method = r->method, .target = r->target, .body = r->body});
        expect(w, r->http, r->code);
        assert_true(strlen(text_at(w, "message")) > 5);
        assert_int_equal(dibs_status_http(dibs_status_from_name(r->code)), r->http);
    }
}

static void test_every_outcome_and_refusal_of_the_list_has_a_case(void **state)
{
    /* answered in tests of their own, by the daemon, or only when a store is opened */
    static const char *const elsewhere[] = {"OK",
                                            "IDEMPOTENCY_KEY_REUSED",
                                            "PAYLOAD_TOO_LARGE",
                                            "STORE_NOT_FOUND",
                                            "UNAUTHORIZED",
                                            "FORBIDDEN",
                                            "RATE_LIMITED",
                                            "UNSUPPORTED_MEDIA_TYPE",
                                            "MISDIRECTED_REQUEST"};
    (void)state;
#define STATUS(number, NAME, http, exit, kind, sentence) #NAME,
    static const char *const names[] = {
#include "base/status.def"
    };
#undef STATUS
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        bool found = dibs_status_is_failure(dibs_status_from_name(names[i]));
        for (size_t k = 0; k < COUNT_OF(elsewhere); k++)
            found |= str_eq(elsewhere[k], names[i]);
        for (size_t k = 0; k < COUNT_OF(refusals); k++)
            found |= str_eq(refusals[k].code, names[i]);
        if (!found)
            fail_msg("'%s' of status.def has no request here", names[i]);
    }
}

static void test_a_cycle_is_written_out(void **state)
{
    struct world *w = *state;
    given_everything(w);
    patch(w, "/api/tasks/free", "{'dependsOn': ['blocked']}");
    expect(w, 400, "DEPENDENCY_CYCLE");
    expect_message(w, "free");
    expect_message(w, "blocked");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_every_operation_is_visited),
        test_in_world(test_reading_operations_change_nothing),
        test_in_world(test_every_operation_tells_of_a_failing_store),
        cmocka_unit_test(test_names_and_paths_are_unique),
        test_in_world(test_every_refusal_is_reached),
        cmocka_unit_test(test_every_outcome_and_refusal_of_the_list_has_a_case),
        test_in_world(test_a_cycle_is_written_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
