/* SPDX-License-Identifier: MIT */
/* Tests of src/api/api.c: bodies, idempotency keys, failures. */
#include "call.h"

#include "db/db.h"

/* ---- bodies ---------------------------------------------------------------------------------- */

static void test_no_body_counts_as_an_empty_object(void **state)
{
    static const char *const bodies[] = {NULL, "", " \r\n\t ", "{}"};
    struct world *w = *state;
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        call_raw(w, "POST", "/api/sessions", bodies[i]);
        expect(w, 201, "OK");
    }
}

static void test_a_body_that_is_not_json_is_refused_with_the_place(void **state)
{
    static const char *const bodies[] = {
        "{",
        "{\"title\":}",
        "{\"title\":\"x\"} x",
        "{\"title\":\"x\",\"title\":\"y\"}",
        "\xFF\xFE",
        "{\"title\":\"\\u0000\"}",
        "{\"title\":1e999}",
    };
    struct world *w = *state;
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        call_raw(w, "POST", "/api/tasks", bodies[i]);
        expect(w, 400, "INVALID_REQUEST");
        expect_message(w, "byte");
    }
}

static void test_a_body_of_another_type_is_refused(void **state)
{
    static const char *const bodies[] = {"[]", "1", "\"x\"", "null", "true"};
    struct world *w = *state;
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        call_raw(w, "POST", "/api/sessions", bodies[i]);
        expect_field(w, "body");
    }
}

static void test_too_large_a_body_is_refused(void **state)
{
    struct world *w = *state;
    size_t bytes = BODY_BYTES_MAX + 1;
    char *body = malloc(bytes + 1);
    assert_non_null(body);
    memset(body, 'x', bytes);
    body[bytes] = '\0';
    call_raw(w, "POST", "/api/tasks", body);
    expect(w, 413, "PAYLOAD_TOO_LARGE");
    free(body);
}

static void test_a_get_takes_no_fields_in_a_body(void **state)
{
    struct world *w = *state;
    call_raw(w, "GET", "/api/tasks", "{}");
    expect(w, 200, "OK");
    call_raw(w, "GET", "/api/tasks", "{\"status\": \"open\"}");
    expect_field(w, "status");
}

static void test_refusals_have_one_shape(void **state)
{
    struct world *w = *state;
    get(w, "/api/nothing");
    expect(w, 404, "NOT_FOUND");
    expect_keys(w, "", "success error message");
    call_raw(w, "PUT", "/api/tasks", NULL);
    expect(w, 405, "METHOD_NOT_ALLOWED");
    expect_keys(w, "", "success error message allow");
    assert_string_equal(text_at(w, "allow"), "POST, GET");
    get(w, "/api/tasks/a%20b");
    expect_field(w, "id");
    expect_keys(w, "", "success error message field");
}

/* ---- idempotency ----------------------------------------------------------------------------- */

static char *copy_body(const struct world *w)
{
    char *copy = strdup(w->body);
    assert_non_null(copy);
    return copy;
}

static void test_a_repeat_is_given_the_same_answer(void **state)
{
    struct world *w = *state;
    w->key = "key 1 \"'%\xC3\xA9";
    post(w, "/api/tasks", "{'title': 'once', 'params': {'b': 1, 'a': 2}}");
    expect(w, 201, "OK");
    char *first = copy_body(w);
    tick(1000);
    post(w, "/api/tasks", "{ 'params': {'a': 2, 'b': 1},  'title': 'once'}");
    expect(w, 201, "OK");
    assert_string_equal(w->body, first);
    free(first);
    w->key = NULL;
    get(w, "/api/tasks");
    assert_int_equal(count_at(w, "tasks"), 1);
}

static void test_a_key_serves_one_request_only(void **state)
{
    struct world *w = *state;
    w->key = "k";
    post(w, "/api/tasks", "{'title': 'a'}");
    expect(w, 201, "OK");
    post(w, "/api/tasks", "{'title': 'b'}");
    expect(w, 422, "IDEMPOTENCY_KEY_REUSED");
    post(w, "/api/sessions", "{}");
    expect(w, 422, "IDEMPOTENCY_KEY_REUSED");
    w->key = "";
    post(w, "/api/tasks", "{'title': 'c'}");
    expect_field(w, "idempotencyKey");
    w->key = NULL;
    get(w, "/api/tasks");
    assert_int_equal(count_at(w, "tasks"), 1);
}

static void test_a_repeated_claim_has_the_same_token(void **state)
{
    struct world *w = *state;
    given_task(w, "t");
    given_session(w, "s");
    w->key = "claim";
    int64_t token = given_claim(w, "t", "s");
    tick(60000);
    assert_int_equal(given_claim(w, "t", "s"), token);
    assert_null(at(w, "claim.extended"));
    assert_string_equal(text_at(w, "claim.claimedAt"), "2026-12-31T12:00:00.000Z");
}

static void test_a_refusal_is_not_remembered(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    w->key = "k";
    post(w, "/api/tasks/t/claim", "{'sessionId': 's'}");
    expect(w, 404, "TASK_NOT_FOUND");
    w->key = NULL;
    given_task(w, "t");
    w->key = "k";
    post(w, "/api/tasks/t/claim", "{'sessionId': 's'}");
    expect(w, 200, "OK");
}

static void test_report_and_next_are_repeated_as_one(void **state)
{
    struct world *w = *state;
    given_task(w, "t");
    given_task(w, "u");
    given_task(w, "v");
    given_session(w, "s");
    given_claim(w, "t", "s");
    w->key = "k";
    post(w, "/api/tasks/t/complete", "{'sessionId': 's', 'claimNext': {}}");
    expect(w, 200, "OK");
    char *first = copy_body(w);
    post(w, "/api/tasks/t/complete", "{'sessionId': 's', 'claimNext': {}}");
    assert_string_equal(w->body, first);
    free(first);
    w->key = NULL;
    get(w, "/api/tasks/in-flight");
    assert_int_equal(count_at(w, "inFlight"), 1);
}

static void test_reading_ignores_the_key(void **state)
{
    struct world *w = *state;
    w->key = "k";
    get(w, "/api/tasks");
    assert_int_equal(count_at(w, "tasks"), 0);
    w->key = NULL;
    given_task(w, "t");
    w->key = "k";
    get(w, "/api/tasks");
    assert_int_equal(count_at(w, "tasks"), 1);
}

static void test_a_refused_claim_is_journalled_under_a_key_too(void **state)
{
    struct world *w = *state;
    given_task(w, "t");
    given_session(w, "s");
    given_session(w, "other");
    given_claim(w, "t", "s");
    w->key = "k";
    post(w, "/api/tasks/t/claim", "{'sessionId': 'other'}");
    expect(w, 409, "TASK_ALREADY_CLAIMED");
    assert_string_equal(text_at(w, "claim.sessionId"), "s");
    get(w, "/api/events?types=task:claim-refused");
    assert_int_equal(count_at(w, "events"), 1);
}

/* ---- failures -------------------------------------------------------------------------------- */

static int calls_left;

static bool fail_at_last(void)
{
    return calls_left-- == 0;
}

/* expect_clear_answer: the failure by its name, or the answer as if nothing had happened. */
static void expect_clear_answer(const struct world *w, const char *code)
{
    if (w->http == 200)
        return;
    if (w->json == NULL) /* there was no memory even for the refusal */
        assert_int_equal(w->http, 503);
    else if (w->http == 404)
        assert_string_equal(text_at(w, "error"), "NOTHING_TO_CLAIM");
    else
        expect(w, 503, code);
}

static const struct {
    const char *method, *target, *body;
} requests[] = {
    {"GET", "/api/tasks?status=open,blocked&tag=x", NULL},
    {"GET", "/api/tasks/t", NULL},
    {"GET", "/api/tasks/in-flight", NULL},
    {"GET", "/api/tasks/claims/stats", NULL},
    {"GET", "/api/sessions/summary", NULL},
    {"PATCH", "/api/tasks/t",
     "{\"tags\":[\"a\",\"b\"],\"params\":{\"a\":[1,{}]},\"title\":\"new\"}"},
    {"POST", "/api/tasks/claim", "{\"worker_id\":\"w\",\"task_types\":[\"none\"]}"},
    {"POST", "/api/tasks/t/claim", "{\"sessionId\":\"s\"}"},
    {"POST", "/api/tasks/t/complete", "{\"sessionId\":\"s\",\"claimNext\":{\"types\":[\"q\"]}}"},
};

/* run_out: each request again and again, failing the 1st, 2nd, 3rd ... time it asks. */
static void run_out(struct world *w, bool (**hook)(void), const char *code, const char *key)
{
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        char name[32];
        int n = 0;
        snprintf(name, sizeof name, "%s-%zu", key != NULL ? key : "", i);
        do {
            dibs_arena_free(w->a); /* a fresh one has to ask for memory */
            w->a = dibs_arena_new();
            calls_left = n++;
            w->key = key != NULL ? name : NULL;
            w->hook = hook;
            w->fails = fail_at_last;
            call_raw(w, requests[i].method, requests[i].target, requests[i].body);
            w->hook = NULL;
            w->key = NULL;
            expect_clear_answer(w, code);
        } while (calls_left < 0); /* it failed somewhere: go on until it does not */
        assert_true(n > 3);
        assert_true(w->http == 200 || w->http == 404);
    }
    get(w, "/api/tasks/t");
    assert_string_equal(text_at(w, "task.status"), "completed");
    assert_string_equal(text_at(w, "task.title"), "new");
    assert_int_equal(int_at(w, "task.attempts"), 1);
}

static void test_a_lack_of_memory_is_answered_and_leaves_nothing_half_done(void **state)
{
    struct world *w = *state;
    given_task(w, "t");
    given_session(w, "s");
    run_out(w, &mem_should_fail, "OUT_OF_MEMORY", NULL);
}

static void test_a_lack_of_memory_under_a_key_too(void **state)
{
    struct world *w = *state;
    given_task(w, "t");
    given_session(w, "s");
    run_out(w, &mem_should_fail, "OUT_OF_MEMORY", "key");
}

static void test_a_failing_store_is_answered_and_leaves_nothing_half_done(void **state)
{
    struct world *w = *state;
    given_task(w, "t");
    given_session(w, "s");
    run_out(w, &db_should_fail, "STORE_UNAVAILABLE", NULL);
}

static void test_a_failing_store_under_a_key_too(void **state)
{
    struct world *w = *state;
    given_task(w, "t");
    given_session(w, "s");
    run_out(w, &db_should_fail, "STORE_UNAVAILABLE", "key");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_no_body_counts_as_an_empty_object),
        test_in_world(test_a_body_that_is_not_json_is_refused_with_the_place),
        test_in_world(test_a_body_of_another_type_is_refused),
        test_in_world(test_too_large_a_body_is_refused),
        test_in_world(test_a_get_takes_no_fields_in_a_body),
        test_in_world(test_refusals_have_one_shape),
        test_in_world(test_a_repeat_is_given_the_same_answer),
        test_in_world(test_a_key_serves_one_request_only),
        test_in_world(test_a_repeated_claim_has_the_same_token),
        test_in_world(test_a_refusal_is_not_remembered),
        test_in_world(test_report_and_next_are_repeated_as_one),
        test_in_world(test_reading_ignores_the_key),
        test_in_world(test_a_refused_claim_is_journalled_under_a_key_too),
        test_in_world(test_a_lack_of_memory_is_answered_and_leaves_nothing_half_done),
        test_in_world(test_a_lack_of_memory_under_a_key_too),
        test_in_world(test_a_failing_store_is_answered_and_leaves_nothing_half_done),
        test_in_world(test_a_failing_store_under_a_key_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
