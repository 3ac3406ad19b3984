/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/api/openapi*.c: the description says what the operations do. A long story is told to
 * the API; every request in it must fit the description of what the operation takes, every answer
 * the description of what it answers, and in the end every member that is described must have
 * been met in an answer.
 */
#include "api/openapi.h"

#include "api/openapi_schemas.h"
#include "schema.h"
#include "visits.h"

static json_t *document(void)
{
    struct buf text;
    buf_init(&text, OPENAPI_BYTES_MAX);
    assert_true(api_openapi(&text));
    json_t *doc = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(doc);
    buf_release(&text);
    return doc;
}

/* described: the description of an operation; the test fails when there is none. */
static json_t *described(json_t *doc, const struct api_operation *op)
{
    char path[128], method[16] = "";
    const char *rest = strstr(op->path, ":id");
    snprintf(path, sizeof path, "%s", op->path);
    if (rest != NULL)
        snprintf(path, sizeof path, "%.*s{id}%s", (int)(rest - op->path), op->path, rest + 3);
    for (size_t i = 0; op->method[i] != '\0'; i++)
        method[i] = (char)(op->method[i] | 0x20);
    json_t *found = json_object_get(json_object_get(json_object_get(doc, "paths"), path), method);
    if (found == NULL)
        fail_msg("%s %s is not described", op->method, path);
    return found;
}

/* ---- the form of the document ---------------------------------------------------------------- */

static void test_every_operation_is_described_once(void **state)
{
    size_t count = 0, replies = 0, described_count = 0;
    const struct api_operation *ops = api_operations(&count);
    const char *path = NULL;
    json_t *doc = document(), *methods = NULL;
    (void)state;
    openapi_replies(&replies);
    assert_int_equal(replies, count);
    for (size_t i = 0; i < count; i++) {
        json_t *about = described(doc, &ops[i]);
        assert_string_equal(json_string_value(json_object_get(about, "operationId")), ops[i].name);
        assert_string_equal(json_string_value(json_object_get(about, "summary")), ops[i].summary);
    }
    json_object_foreach(json_object_get(doc, "paths"), path, methods) described_count +=
        json_object_size(methods);
    assert_int_equal(described_count, count + 4); /* healthz, readyz, metrics, openapi.json */
    json_decref(doc);
}

/* parameter: whether an operation takes this one, and where. */
static bool parameter(json_t *doc, json_t *about, const char *in, const char *name)
{
    struct schemas s = {.doc = doc};
    json_t *item = NULL;
    size_t i = 0;
    json_array_foreach(json_object_get(about, "parameters"), i, item)
    {
        const char *unused = "";
        json_t *p = resolve(&s, item, &unused);
        if (str_eq(json_string_value(json_object_get(p, "in")), in) &&
            str_eq(json_string_value(json_object_get(p, "name")), name))
            return true;
    }
    return false;
}

/* body_fields: the properties of what an operation takes. */
static json_t *body_fields(json_t *doc, json_t *about)
{
    struct schemas s = {.doc = doc};
    const char *unused = "";
    json_t *schema = json_object_get(
        json_object_get(json_object_get(json_object_get(about, "requestBody"), "content"),
                        "application/json"),
        "schema");
    json_t *any = json_object_get(schema, "anyOf");
    if (any != NULL)
        schema = resolve(&s, json_array_get(any, 0), &unused);
    return json_object_get(schema, "properties");
}

static void test_every_field_that_is_taken_is_described(void **state)
{
    size_t count = 0;
    const struct api_operation *ops = api_operations(&count);
    json_t *doc = document();
    (void)state;
    for (size_t i = 0; i < count; i++) {
        const struct api_shape *shape = route_shape(i);
        json_t *about = described(doc, &ops[i]);
        bool in_query = str_eq(ops[i].method, "GET") || str_eq(ops[i].method, "DELETE");
        for (size_t k = 0; k < shape->count; k++) {
            const char *name = shape->fields[k].name;
            bool told = in_query ? parameter(doc, about, "query", name)
                                 : json_object_get(body_fields(doc, about), name) != NULL;
            if (told == ((shape->fields[k].flags & FIELD_HIDDEN) != 0))
                fail_msg("%s: '%s' is %sdescribed", ops[i].name, name, told ? "" : "not ");
        }
        bool writes = ops[i].access == API_WRITES;
        assert_true(parameter(doc, about, "header", "Idempotency-Key") == writes);
        assert_true(parameter(doc, about, "path", "id") == (strchr(ops[i].path, ':') != NULL));
    }
    json_decref(doc);
}

static void test_words_are_those_of_the_library(void **state)
{
    json_t *doc = document(), *word = NULL;
    json_t *schemas = json_object_get(json_object_get(doc, "components"), "schemas");
    size_t i = 0;
    (void)state;
    json_array_foreach(pointer(schemas, "TaskStatus/enum"), i, word)
    {
        assert_string_equal(json_string_value(word),
                            dibs_task_status_name((enum dibs_task_status)i));
    }
    assert_int_equal(i, DIBS_TASK_CANCELLED + 1);
    json_array_foreach(pointer(schemas, "Health/enum"), i, word)
    {
        assert_string_equal(json_string_value(word), dibs_health_name((enum dibs_health)i));
    }
    assert_int_equal(i, DIBS_HEALTH_HEALTHY + 1);
    json_array_foreach(pointer(schemas, "SessionStatus/enum"), i, word)
    {
        assert_string_equal(json_string_value(word),
                            dibs_session_status_name((enum dibs_session_status)i));
    }
    assert_int_equal(i, DIBS_SESSION_ENDED + 1);
    json_array_foreach(pointer(schemas, "Role/enum"), i, word)
    {
        assert_string_equal(json_string_value(word), api_scope_name((enum api_scope)i));
    }
    assert_int_equal(i, API_ADMIN + 1);
    json_decref(doc);
}

static void test_the_document_is_small_and_always_the_same(void **state)
{
    struct buf one, two;
    (void)state;
    buf_init(&one, OPENAPI_BYTES_MAX);
    buf_init(&two, OPENAPI_BYTES_MAX);
    assert_true(api_openapi(&one) && api_openapi(&two));
    assert_true(one.len < 200 * 1000);
    assert_string_equal(one.data, two.data);
    buf_release(&one);
    buf_release(&two);
}

static int64_t allocations_left;

static bool fails_at_last(void)
{
    return allocations_left-- <= 0;
}

static void test_without_memory_there_is_no_document(void **state)
{
    struct buf text;
    (void)state;
    bool made = false;
    for (int64_t n = 0; !made; n++) {
        allocations_left = n;
        buf_init(&text, OPENAPI_BYTES_MAX);
        mem_should_fail = fails_at_last;
        made = api_openapi(&text);
        mem_should_fail = NULL;
        assert_true(made == buf_ok(&text));
        buf_release(&text);
        assert_true(n < 10000);
    }
    buf_init(&text, 1000);
    assert_false(api_openapi(&text));
    buf_release(&text);
}

/* ---- the story ------------------------------------------------------------------------------- */

/* check_request: the body that was sent is what the description asks for. */
static void check_request(struct schemas *s, json_t *about, const char *name, const char *body)
{
    json_t *schema = pointer(json_object_get(about, "requestBody"), "content");
    schema = json_object_get(json_object_get(schema, "application/json"), "schema");
    if (body[0] == '\0' || schema == NULL)
        return;
    json_t *value = json_loads(body, 0, NULL);
    assert_non_null(value);
    if (!fits(s, schema, name, value))
        fail_msg("%s takes %s, but by its description: %s", name, body, s->why);
    json_decref(value);
}

static void check_answer(struct schemas *s, struct world *w, json_t *about, const char *name)
{
    char http[16];
    const char *refused = name;
    snprintf(http, sizeof http, "%d", w->http);
    json_t *response = json_object_get(json_object_get(about, "responses"), http);
    if (response == NULL)
        fail_msg("%s is not said to answer %s: %s", name, http, w->body);
    response = resolve(s, response, &refused);
    json_t *schema = json_object_get(json_object_get(response, "content"), "application/json");
    if (!fits(s, json_object_get(schema, "schema"), name, w->json))
        fail_msg("%s answers %s, but by its description: %s", name, w->body, s->why);
    const char *code = json_string_value(json_object_get(w->json, "error"));
    char quoted[64];
    snprintf(quoted, sizeof quoted, "`%s`", code);
    if (code != NULL &&
        strstr(json_string_value(json_object_get(response, "description")), quoted) == NULL)
        fail_msg("%s is not said to refuse with %s", name, code);
}

/* tell: sends a request and holds it and its answer against the description. A target "+5000" moves
 * the clock. */
static void tell(struct schemas *s, struct world *w, const struct visit *v)
{
    char body[512], path[256];
    if (v->target[0] == '+') {
        tick(strtoll(v->target, NULL, 10));
        return;
    }
    visit(w, v);
    if (w->http != v->http)
        fail_msg("%s %s %s: %d %s", v->method, v->target, v->body, w->http, w->body);
    snprintf(path, sizeof path, "%.*s", (int)strcspn(v->target, "?"), v->target);
    const struct api_operation *op = api_find(v->method, path);
    assert_non_null(op);
    json_t *about = described(s->doc, op);
    snprintf(body, sizeof body, "%s", v->body);
    for (char *c = body; *c != '\0'; c++)
        *c = *c == '\'' ? '"' : *c;
    if (w->http < 300)
        check_request(s, about, op->name, body);
    check_answer(s, w, about, op->name);
}

#define GET(target, http)                                                                          \
    {                                                                                              \
        "", "GET", target, "", http                                                                \
    }
#define POST(target, body, http)                                                                   \
    {                                                                                              \
        "", "POST", target, body, http                                                             \
    }
#define DEL(target, http)                                                                          \
    {                                                                                              \
        "", "DELETE", target, "", http                                                             \
    }
#define WAIT(ms)                                                                                   \
    {                                                                                              \
        "", "", "+" #ms, "", 0                                                                     \
    }

static const struct visit beginning[] = {
    POST("/api/sessions",
         "{'id': 's', 'project': 'default', 'agentType': 'w', 'agentId': 'ag', "
         "'pid': 7, 'host': 'elsewhere', 'metadata': {'a': 1}}",
         201),
    POST("/api/sessions", "{'id': 's'}", 200),
    POST("/api/sessions", "{'id': 'o'}", 201),
    POST("/api/tasks",
         "{'id': 't', 'title': 'T', 'description': 'D', 'type': 'x', 'phase': 'p', "
         "'priority': 'high', 'maxAttempts': 9, 'tags': ['a', 'b'], 'params': {'n': 1}, "
         "'metadata': [1], 'runAfter': '2026-01-01T00:00:00Z', 'claimTimeoutMs': 120000, "
         "'dedupeKey': 'k'}",
         201),
    POST("/api/tasks", "{'title': 'T', 'dedupeKey': 'k', 'priority': 3}", 200),
    POST("/api/tasks", "[{'id': 'u', 'title': 'U'}, {'id': 'v', 'title': 'V', 'dependsOn': ['u']}]",
         201),
    POST("/api/tasks", "{'id': 't', 'title': 'T'}", 409),
    POST("/api/tasks", "{'title': 'T', 'dependsOn': ['nosuch']}", 404),
    POST("/api/tasks", "{'title': 'T', 'colour': 'red'}", 400),
    GET("/api/tasks?limit=1&status=open,blocked", 200),
    GET("/api/tasks/v", 200),
    GET("/api/tasks/nosuch", 404),
    GET("/api/tasks/t?x=1", 400),
    {"", "PATCH", "/api/tasks/t", "{'priority': null, 'phase': 'q', 'runAfter': null}", 200},
    {"", "PATCH", "/api/tasks/t", "{'version': 999}", 409},
    {"", "PATCH", "/api/tasks/u", "{'dependsOn': ['v']}", 400},
};

static const struct visit holding[] = {
    POST("/api/tasks/t/claim", "{'sessionId': 's', 'metadata': {'m': 1}, 'agentType': 'w'}", 200),
    POST("/api/tasks/t/claim", "{'sessionId': 's', 'ttlMs': 180000}", 200),
    POST("/api/tasks/t/claim", "{'sessionId': 'o'}", 409),
    POST("/api/tasks/v/claim", "{'sessionId': 'o'}", 400),
    POST("/api/tasks/t/claim", "{'sessionId': 'nobody'}", 404),
    POST("/api/tasks/t/claim", "{'sessionId': 'o', 'ttlMs': 1}", 400),
    POST("/api/tasks/t/progress",
         "{'sessionId': 's', 'percent': 40, 'message': 'm', "
         "'checkpoint': {'line': 7}}",
         200),
    POST("/api/tasks/t/claim/heartbeat", "{'sessionId': 's', 'extendMs': 90000}", 200),
    POST("/api/tasks/t/claim/heartbeat", "{'sessionId': 's', 'token': 1000000}", 409),
    POST("/api/tasks/t/claim/heartbeat", "{'sessionId': 'o'}", 403),
    POST("/api/tasks/u/progress", "{'sessionId': 's'}", 404),
    POST("/api/locks", "{'resource': 'r', 'sessionId': 's', 'mode': 'shared', 'ttlMs': 60000}",
         200),
    POST("/api/locks", "{'resource': 'r', 'sessionId': 's', 'mode': 'shared'}", 200),
    POST("/api/locks", "{'resource': 'r', 'sessionId': 'o', 'waitMs': 0}", 409),
    POST("/api/locks/heartbeat", "{'resource': 'r', 'sessionId': 's', 'extendMs': 5000}", 200),
    POST("/api/locks/heartbeat", "{'resource': 'r', 'sessionId': 's', 'token': 1000000}", 409),
    POST("/api/locks/heartbeat", "{'resource': 'q', 'sessionId': 's'}", 404),
    GET("/api/locks", 200),
    GET("/api/tasks/in-flight", 200),
    GET("/api/tasks/claims/stats", 200),
    GET("/api/sessions?limit=1", 200),
    GET("/api/sessions/summary", 200),
    GET("/api/sessions/s", 200),
    GET("/api/sessions/nobody", 404),
    GET("/api/sessions/s/current-task", 200),
    GET("/api/sessions/o/current-task", 200),
    POST("/api/sessions/s/heartbeat", "", 200),
    POST("/api/sessions/nobody/heartbeat", "", 404),
    DEL("/api/locks?resource=r&sessionId=s", 200),
    DEL("/api/locks?resource=r&sessionId=s", 404),
    POST("/api/tasks/t/release", "{'sessionId': 's', 'reason': 'lunch'}", 200),
    POST("/api/tasks/t/release", "{'sessionId': 's'}", 404),
};

static const struct visit ending[] = {
    POST("/api/tasks/claim",
         "{'worker_id': 's', 'task_types': ['x'], 'count': 2, 'tags': ['a'], "
         "'max_attempts_remaining': 1, 'project': 'default', 'sort_by': 'random'}",
         200),
    POST("/api/tasks/claim",
         "{'worker_id': 's', 'task_types': ['none'], 'tags': ['a'], "
         "'max_attempts_remaining': 1, 'project': 'default'}",
         404),
    POST("/api/tasks/t/fail", "{'sessionId': 's', 'error': 'e', 'claimNext': {'types': ['none']}}",
         200),
    POST("/api/tasks/claim", "{'worker_id': 'w'}", 200),
    POST("/api/tasks/u/complete", "{'sessionId': 'w', 'result': {'ok': true}, 'claimNext': {}}",
         200),
    POST("/api/tasks/u/complete", "{'sessionId': 'w', 'result': 2}", 409),
    GET("/api/tasks/u/history", 200),
    GET("/api/tasks/nosuch/history", 404),
    POST("/api/tasks/v/cancel", "{'reason': 'no'}", 200), /* held by w */
    POST("/api/tasks/v/claim/heartbeat", "{'sessionId': 'w'}", 404),
    POST("/api/sessions/w/heartbeat", "", 200),
    POST("/api/agents", "{'id': 'ag', 'maxTasks': 9, 'metadata': {'m': 1}}", 200),
    POST("/api/agents", "{'id': 'le', 'isLead': true}", 201),
    POST("/api/agents", "{'id': 'le', 'isLead': true}", 200),
    POST("/api/agents", "{'id': 'xx', 'name': 'ag'}", 409),
    GET("/api/agents", 200),
    GET("/api/agents/ag", 200),
    GET("/api/agents/nosuch", 404),
    GET("/api/poll?agentId=nosuch", 404),
    POST("/api/tasks/v/offer", "{'agentId': 'ag'}", 409),
    POST("/api/tasks", "{'id': 'd', 'title': 'waits', 'dependsOn': ['v']}", 201),
    GET("/api/tasks/d", 200),
    POST("/api/tasks/v/reopen", "{'reason': 'yes'}", 200),
    POST("/api/tasks/v/reopen", "{}", 409),
    POST("/api/tasks/v/block", "{'reason': 'r'}", 200),
    POST("/api/tasks/v/unblock", "", 200),
    POST("/api/tasks/v/unblock", "", 409),
    POST("/api/tasks/v/offer", "{'agentId': 'ag'}", 200),
    POST("/api/tasks/v/reject", "{'agentId': 'ag', 'reason': 'busy'}", 200),
    POST("/api/tasks/v/offer", "{'agentId': 'ag'}", 200),
    POST("/api/tasks/v/accept", "{'agentId': 'ag'}", 200),
    POST("/api/tasks/v/accept", "{'agentId': 'ag'}", 409),
    POST("/api/tasks/t/assign", "{'agentId': 'ag'}", 200),
    POST("/api/tasks/t/assign", "{'agentId': 'nosuch'}", 409),
    GET("/api/poll?agentId=ag", 200), /* task_assigned */
    GET("/api/poll?agentId=ag", 200),
    POST("/api/tasks/v/complete", "{'sessionId': 'ag'}", 200),
    GET("/api/poll?agentId=le&ack=manual", 200), /* tasks_finished, with claims */
    POST("/api/inbox", "{'content': 'c'}", 201),
    GET("/api/poll?agentId=le", 200),                /* slack_inbox_message */
    GET("/api/poll?agentId=le", 200),                /* nothing */
    POST("/api/tasks", "{'title': 'pool'}", 201),    /* pool_tasks_available */
    GET("/api/poll?agentId=ag&sessionId=ag-2", 200), /* task_assigned, t */
    GET("/api/poll?agentId=ag", 200),                /* pool_tasks_available */
    GET("/api/poll?agentId=ag&claim=true", 200),     /* pool_task_claimed */
    POST("/api/sessions/s/resume", "", 200),
    GET("/api/sessions/summary", 200),
    GET("/api/sessions/s", 200),
    GET("/api/agents/scores", 200),
};

static const struct visit talking[] = {
    POST("/api/sessions", "{'id': 'm-1', 'agentId': 'm'}", 201),
    POST("/api/sessions", "{'id': 'm-2', 'agentId': 'm'}", 201),
    POST("/api/channels", "{'id': 'ops', 'project': 'default', 'description': 'D'}", 201),
    POST("/api/channels", "{'id': 'ops'}", 200),
    POST("/api/channels", "{'id': 'ops', 'project': 'p'}", 400),
    GET("/api/channels?project=default", 200),
    POST("/api/channels/ops/messages", "{'author': 'x', 'content': '@m'}", 201),
    POST("/api/channels/ops/messages", "{'author': 'x', 'content': 'c', 'replyTo': '1'}", 201),
    POST("/api/channels/ops/messages", "{'author': 'x', 'content': 'c', 'replyTo': '9'}", 404),
    POST("/api/channels/nosuch/messages", "{'author': 'x', 'content': 'c'}", 404),
    GET("/api/channels/ops/messages?limit=1", 200),
    GET("/api/channels/nosuch/messages", 404),
    POST("/api/mentions/claim", "{'agentId': 'm', 'sessionId': 'm-1', 'ttlMs': 90000}", 200),
    POST("/api/mentions/claim", "{'agentId': 'm', 'sessionId': 'm-2'}", 404),
    POST("/api/mentions/claim", "{'agentId': 'nosuch', 'sessionId': 'm-2'}", 404),
    POST("/api/channels/ops/read", "{'agentId': 'm', 'sessionId': 'm-2'}", 403),
    POST("/api/channels/ops/read", "{'agentId': 'm', 'sessionId': 'm-1', 'limit': 1}", 200),
    POST("/api/mentions/release",
         "{'agentId': 'm', 'sessionId': 'm-1', 'channelIds': ['ops'], 'read': true}", 200),
    POST("/api/channels/ops/messages", "{'author': 'x', 'content': '@le'}", 201),
    GET("/api/poll?agentId=le", 200), /* unread_mentions */
};

static const struct visit writing[] = {
    POST("/api/agents", "{'id': 'boss', 'isLead': true}", 201),
    POST("/api/sessions", "{'id': 'boss-1', 'agentId': 'boss', 'agentType': 'lead'}", 201),
    POST("/api/sessions", "{'id': 'boss-2', 'agentId': 'boss'}", 201),
    POST("/api/inbox",
         "{'id': 'i', 'source': 'slack', 'content': 'c', 'channel': 'C', 'thread': '1', "
         "'user': 'U', 'matchedText': 'x', 'metadata': {}}",
         201),
    POST("/api/inbox", "{'id': 'i', 'content': 'c'}", 400),
    POST("/api/inbox", "{'content': 'c', 'agentId': 'nosuch'}", 404),
    POST("/api/inbox/claim",
         "{'agentId': 'boss', 'sessionId': 'boss-1', 'count': 1, 'ttlMs': 90000}", 200),
    POST("/api/inbox/claim", "{'agentId': 'boss', 'sessionId': 'boss-2'}", 404),
    POST("/api/sessions/boss-1/heartbeat", "", 200),
    POST("/api/inbox/i/read", "{'sessionId': 'boss-2'}", 403),
    POST("/api/inbox/i/read", "{'sessionId': 'boss-1', 'token': 1}", 409),
    POST("/api/inbox", "{'id': 'k', 'content': 'c', 'agentId': 'boss'}", 201),
    POST("/api/inbox/k/read", "", 200),
    GET("/api/inbox/i", 200),
    GET("/api/inbox/nosuch", 404),
    WAIT(91000),
    POST("/api/sessions/boss-1/heartbeat", "", 200),
    POST("/api/inbox/i/release", "{'sessionId': 'boss-1'}", 200),
    POST("/api/inbox/i/respond", "{'text': 'yes'}", 200),
    POST("/api/inbox/i/respond", "{'text': 'no'}", 409),
    POST("/api/inbox", "{'id': 'j', 'content': 'c', 'agentId': 'boss'}", 201),
    POST("/api/inbox/j/delegate", "{'task': {'id': 'jt', 'title': 'T'}}", 200),
    POST("/api/inbox/j/delegate", "{'task': {'id': 'jt', 'title': 'T'}, 'taskId': 'jt'}", 400),
    GET("/api/inbox?status=responded&source=slack&limit=1", 200),
    GET("/api/inbox?limit=1", 200),
    POST("/api/sessions", "{'id': 'hand'}", 201),
    POST("/api/tasks/jt/claim", "{'sessionId': 'hand'}", 200),
    POST("/api/tasks/jt/complete", "{'sessionId': 'hand'}", 200),
    GET("/api/poll?agentId=boss&sessionId=boss-1&ack=manual", 200),
    POST("/api/notices/ack", "{'sessionId': 'boss-1', 'taskIds': ['jt']}", 200),
    POST("/api/notices/ack", "{'sessionId': 'nosuch'}", 404),
    POST("/api/notices/release", "{'sessionId': 'boss-1', 'taskIds': ['jt']}", 200),
    POST("/api/notices/release", "{'sessionId': 'nosuch'}", 404),
    GET("/api/tasks/jt", 200),
};

static const struct visit losing[] = {
    POST("/api/tasks",
         "[{'id': '7', 'title': 'a', 'description': 'D', 'priority': 90}, "
         "{'id': '8', 'title': 'b'}, {'id': '9', 'title': 'c'}]",
         201),
    POST("/api/tasks/7/claim", "{'sessionId': 's', 'ttlMs': 60000}", 200),
    POST("/api/tasks/7/progress", "{'sessionId': 's', 'checkpoint': 1}", 200),
    POST("/api/tasks/8/claim", "{'sessionId': 's', 'ttlMs': 60000}", 200),
    POST("/api/locks", "{'resource': 'gone', 'sessionId': 's', 'ttlMs': 1000}", 200),
    WAIT(61000),
    POST("/api/tasks/8/claim/heartbeat", "{'sessionId': 's'}", 410),
    POST("/api/tasks/claims/cleanup", "{'type': 'expired'}", 200),
    POST("/api/tasks/claims/cleanup", "{'type': 'locks'}", 200),
    POST("/api/locks/heartbeat", "{'resource': 'gone', 'sessionId': 's'}", 404),
    POST("/api/tasks/claim", "{'worker_id': 'w'}", 200), /* 7, with its checkpoint */
    POST("/api/tasks/7/complete", "{'sessionId': 's', 'result': 'late'}", 403),
    GET("/api/tasks/7/history", 200),
    POST("/api/sessions/s/heartbeat", "", 200),
    POST("/api/sessions/s/resume", "", 200), /* has 8 again, 7 is gone */
    POST("/api/tasks/claims/cleanup", "{'type': 'session', 'sessionId': 's', 'reason': 'r'}", 200),
    POST("/api/tasks/claims/cleanup", "{'type': 'session'}", 400),
    POST("/api/tasks/9/claim", "{'sessionId': 'o', 'ttlMs': 7200000}", 200),
    WAIT(3600000),
    POST("/api/tasks/claims/cleanup", "{'type': 'orphaned'}", 200),
    POST("/api/tasks/claims/cleanup", "{'type': 'sessions'}", 200),
    POST("/api/tasks/claims/cleanup", "{}", 200),
    GET("/api/sessions?all=true", 200),
    POST("/api/keys", "{'name': 'n', 'role': 'worker', 'project': 'p', 'ratePerMinute': 5}", 201),
    GET("/api/keys", 200),
    DEL("/api/keys/nosuch", 404),
    DEL("/api/keys/KEY", 200),
    GET("/api/keys", 200),
    POST("/api/sessions", "{'id': 'z'}", 201),
    DEL("/api/sessions/z", 200),
    DEL("/api/sessions/z", 404),
    GET("/api/events?limit=1000&detail=full", 200),
    WAIT(691200000),
    POST("/api/tasks/claims/cleanup", "{'type': 'events'}", 200),
    GET("/api/events?since=0", 200),
};

static void expect_seen(const struct schemas *s, const char *owner, const struct member *members,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char label[256];
        snprintf(label, sizeof label, "%s.%s", owner, members[i].name);
        if (json_object_get(s->seen, label) == NULL)
            fail_msg("%s is described, but no answer had it", label);
    }
}

/* The method is settled before there is an operation, so this refusal is described by none. */
static void check_wrong_method(struct schemas *s, struct world *w)
{
    json_t *refusal = pointer(s->doc, "components/schemas/Refusal");
    del(w, "/api/tasks");
    expect(w, 405, "METHOD_NOT_ALLOWED");
    if (!fits(s, refusal, "Refusal", w->json))
        fail_msg("a refusal is %s, but by its description: %s", w->body, s->why);
}

static void test_every_operation_answers_as_described(void **state)
{
    struct schemas s = {.doc = document(), .seen = json_object()};
    for (size_t i = 0; i < COUNT_OF(visits); i++)
        tell(&s, *state, &visits[i]);
    json_decref(s.doc);
    json_decref(s.seen);
}

static void test_the_description_says_what_is_answered(void **state)
{
    struct world *w = *state;
    struct schemas s = {.doc = document(), .seen = json_object()};
    size_t count = 0;
    for (size_t i = 0; i < COUNT_OF(beginning); i++)
        tell(&s, w, &beginning[i]);
    for (size_t i = 0; i < COUNT_OF(holding); i++)
        tell(&s, w, &holding[i]);
    for (size_t i = 0; i < COUNT_OF(ending); i++)
        tell(&s, w, &ending[i]);
    for (size_t i = 0; i < COUNT_OF(talking); i++)
        tell(&s, w, &talking[i]);
    for (size_t i = 0; i < COUNT_OF(writing); i++)
        tell(&s, w, &writing[i]);
    for (size_t i = 0; i < COUNT_OF(losing); i++)
        tell(&s, w, &losing[i]);
    check_wrong_method(&s, w);
    const struct schema *schemas = openapi_schemas(&count);
    for (size_t i = 0; i < count; i++) {
        if (!str_eq(schemas[i].name, "State")) /* the daemon's own */
            expect_seen(&s, schemas[i].name, schemas[i].members, schemas[i].count);
    }
    const struct reply *replies = openapi_replies(&count);
    for (size_t i = 0; i < count; i++)
        expect_seen(&s, replies[i].operation, replies[i].members, replies[i].count);
    json_decref(s.doc);
    json_decref(s.seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operation_is_described_once),
        cmocka_unit_test(test_every_field_that_is_taken_is_described),
        cmocka_unit_test(test_words_are_those_of_the_library),
        cmocka_unit_test(test_the_document_is_small_and_always_the_same),
        cmocka_unit_test(test_without_memory_there_is_no_document),
        test_in_world(test_every_operation_answers_as_described),
        test_in_world(test_the_description_says_what_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
