/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/api/identity.c: what a key may do. The matrices walk over every operation
 * (visits.h), so that a new one cannot be forgotten.
 */
#include "visits.h"

#include "db/db.h"

#define OWNER ((struct api_identity){0})
#define AS(id, what) ((struct api_identity){.key_id = id, .role = API_##what})
#define IN_PROJECT(id, what, where)                                                                \
    ((struct api_identity){.key_id = id, .role = API_##what, .project = where})

static int64_t last_event(struct world *w)
{
    w->who = OWNER;
    get(w, "/api/events?limit=1");
    return int_at(w, "last");
}

/* The row that a visit reaches, and its shape. */
static const struct api_operation *row_of(const struct visit *v, const struct api_shape **shape)
{
    size_t count = 0;
    const struct api_operation *op = visited(v);
    assert_non_null(op);
    *shape = route_shape((size_t)(op - api_operations(&count)));
    return op;
}

static bool has_flag(const struct api_shape *shape, unsigned flag)
{
    for (size_t i = 0; i < shape->count; i++) {
        if (shape->fields[i].flags & flag)
            return true;
    }
    return false;
}

/* ---- roles ----------------------------------------------------------------------------------- */

static void walk_with_role(struct world *w, enum api_scope role)
{
    for (size_t i = 0; i < COUNT_OF(visits); i++) {
        const struct api_shape *shape = NULL;
        const struct api_operation *op = row_of(&visits[i], &shape);
        int64_t before = last_event(w);
        w->who = (struct api_identity){.key_id = "k1", .role = role};
        visit(w, &visits[i]);
        if (role >= op->scope) {
            expect(w, visits[i].http, "OK");
            continue;
        }
        expect(w, 403, "FORBIDDEN");
        expect_message(w, api_scope_name(op->scope));
        assert_int_equal(last_event(w), before);
        w->who = AS("k1", ADMIN); /* the walk goes on with the same key in another role */
        visit(w, &visits[i]);
        expect(w, visits[i].http, "OK");
    }
}

static void test_a_reading_key_may_do_all_that_reads_and_nothing_else(void **state)
{
    walk_with_role(*state, API_READER);
}

static void test_a_worker_may_do_all_but_what_is_for_admins(void **state)
{
    walk_with_role(*state, API_WORKER);
}

static void test_an_admin_may_do_everything(void **state)
{
    walk_with_role(*state, API_ADMIN);
}

static void test_the_owner_needs_no_key_for_anything(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < COUNT_OF(visits); i++) {
        visit(w, &visits[i]);
        expect(w, visits[i].http, "OK");
    }
}

/* ---- sessions -------------------------------------------------------------------------------- */

static bool acts(const struct api_operation *op, const struct api_shape *shape)
{
    bool about_session = str_starts(op->path, "/api/sessions/:id") && op->access == API_WRITES;
    return about_session || has_flag(shape, FIELD_ACTS);
}

/* Whether the visit names a session that an earlier one has registered. */
static bool names_known_session(const struct visit *v, const char *sessions)
{
    char quoted[8];
    for (const char *s = sessions; *s != '\0'; s++) {
        snprintf(quoted, sizeof quoted, "'%c'", *s);
        if (strstr(v->body, quoted) != NULL || str_starts(v->target, "/api/sessions/s"))
            return true;
    }
    return false;
}

static void test_another_key_cannot_act_for_a_session(void **state)
{
    struct world *w = *state;
    char sessions[8] = "";
    int refused = 0;
    for (size_t i = 0; i < COUNT_OF(visits); i++) {
        const struct api_shape *shape = NULL;
        const struct api_operation *op = row_of(&visits[i], &shape);
        if (acts(op, shape) && names_known_session(&visits[i], sessions)) {
            int64_t before = last_event(w);
            w->who = AS("k2", WORKER);
            visit(w, &visits[i]);
            expect(w, 403, "FORBIDDEN");
            expect_message(w, "was not registered with this key");
            assert_int_equal(last_event(w), before);
            refused++;
        }
        w->who = AS("k1", ADMIN);
        visit(w, &visits[i]);
        expect(w, visits[i].http, "OK");
        if (str_eq(op->name, "sessionRegister"))
            snprintf(sessions, sizeof sessions, "s");
        if (str_eq(op->name, "claimNext"))
            snprintf(sessions, sizeof sessions, "sw");
    }
    assert_true(refused >= 13);
}

static void test_every_writing_field_that_names_a_session_is_checked(void **state)
{
    size_t count = 0;
    const struct api_operation *ops = api_operations(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        const struct api_shape *shape = route_shape(i);
        for (size_t k = 0; k < shape->count; k++) {
            const struct field *f = &shape->fields[k];
            bool session = str_eq(f->name, "sessionId") || str_eq(f->name, "worker_id") ||
                           str_eq(f->name, "session_id");
            if (session && ops[i].access == API_WRITES && ops[i].scope < API_ADMIN &&
                !(f->flags & FIELD_ACTS))
                fail_msg("'%s' of %s is not checked against the key", f->name, ops[i].name);
        }
    }
}

static void test_a_session_of_the_owner_is_nobody_elses(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    w->who = AS("k1", WORKER);
    call_raw(w, "POST", "/api/sessions/s/heartbeat", "");
    expect(w, 403, "FORBIDDEN");
    w->who = AS("k9", ADMIN);
    call_raw(w, "POST", "/api/sessions/s/heartbeat", "");
    expect(w, 200, "OK");
}

static void test_registering_again_needs_the_same_key_until_the_session_has_ended(void **state)
{
    struct world *w = *state;
    w->who = AS("k1", WORKER);
    given_session(w, "s");
    given_session(w, "s");
    w->who = AS("k2", WORKER);
    post(w, "/api/sessions", "{'id': 's'}");
    expect(w, 403, "FORBIDDEN");
    post(w, "/api/tasks/claim", "{'worker_id': 's'}");
    expect(w, 403, "FORBIDDEN");
    w->who = AS("k1", WORKER);
    del(w, "/api/sessions/s");
    expect(w, 200, "OK");
    w->who = AS("k2", WORKER);
    post(w, "/api/sessions", "{'id': 's'}");
    expect(w, 200, "OK");
    w->who = AS("k1", WORKER);
    call_raw(w, "POST", "/api/sessions/s/heartbeat", "");
    expect(w, 403, "FORBIDDEN");
}

static void test_the_owner_takes_a_session_back_by_registering_it(void **state)
{
    struct world *w = *state;
    w->who = AS("k1", WORKER);
    given_session(w, "s");
    w->who = OWNER;
    given_session(w, "s");
    w->who = AS("k1", WORKER);
    call_raw(w, "POST", "/api/sessions/s/heartbeat", "");
    expect(w, 403, "FORBIDDEN");
}

static void test_an_unknown_worker_is_registered_under_the_key(void **state)
{
    struct world *w = *state;
    given_task(w, "a");
    w->who = AS("k1", WORKER);
    post(w, "/api/tasks/claim", "{'worker_id': 'w'}");
    expect(w, 200, "OK");
    post(w, "/api/tasks/a/complete", "{'sessionId': 'w'}");
    expect(w, 200, "OK");
    w->who = AS("k2", WORKER);
    post(w, "/api/tasks/claim", "{'worker_id': 'w'}");
    expect(w, 403, "FORBIDDEN");
    assert_null(at(w, "filters"));
}

static void test_a_worker_that_found_nothing_is_registered_all_the_same(void **state)
{
    struct world *w = *state;
    w->who = AS("k1", WORKER);
    post(w, "/api/tasks/claim", "{'worker_id': 'w'}");
    expect(w, 404, "NOTHING_TO_CLAIM");
    w->who = AS("k2", WORKER);
    call_raw(w, "POST", "/api/sessions/w/heartbeat", "");
    expect(w, 403, "FORBIDDEN");
}

static void test_the_optional_session_of_a_block_is_checked_too(void **state)
{
    struct world *w = *state;
    given_task(w, "a");
    w->who = AS("k1", WORKER);
    given_session(w, "s");
    given_claim(w, "a", "s");
    w->who = AS("k2", WORKER);
    post(w, "/api/tasks/a/block", "{'sessionId': 's'}");
    expect(w, 403, "FORBIDDEN");
    w->who = AS("k1", WORKER);
    post(w, "/api/tasks/a/block", "{'sessionId': 's'}");
    expect(w, 200, "OK");
}

static void test_a_session_that_does_not_exist_is_told_as_ever(void **state)
{
    struct world *w = *state;
    given_task(w, "a");
    w->who = AS("k1", WORKER);
    post(w, "/api/tasks/a/claim", "{'sessionId': 'nosuch'}");
    expect(w, 404, "SESSION_NOT_FOUND");
}

static void test_a_refused_claim_with_a_key_leaves_its_trace(void **state)
{
    struct world *w = *state;
    given_task(w, "a");
    w->who = AS("k1", WORKER);
    given_session(w, "s");
    given_session(w, "t");
    given_claim(w, "a", "s");
    post(w, "/api/tasks/a/claim", "{'sessionId': 't'}");
    expect(w, 409, "TASK_ALREADY_CLAIMED");
    get(w, "/api/events?types=task:claim-refused");
    assert_int_equal(count_at(w, "events"), 1);
}

static bool always(void)
{
    return true;
}

static void test_a_failing_store_lets_nobody_in(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < COUNT_OF(visits); i++) {
        w->who = IN_PROJECT("k1", WORKER, "p");
        w->hook = &db_should_fail;
        w->fails = always;
        visit(w, &visits[i]);
        w->hook = NULL;
        assert_true(w->http == 503 || w->http == 403);
        w->who = OWNER;
        visit(w, &visits[i]);
        expect(w, visits[i].http, "OK");
    }
}

/* ---- in a batch, as the daemon does it ------------------------------------------------------- */

static void test_a_refused_request_of_a_batch_harms_no_neighbour(void **state)
{
    struct world *w = *state;
    struct dibs_error err = {0};
    given_task(w, "a");
    assert_int_equal(dibs_batch_begin(w->d, &err), DIBS_OK);
    w->who = AS("k1", WORKER);
    post(w, "/api/sessions", "{'id': 's'}");
    expect(w, 201, "OK");
    w->who = AS("k2", WORKER);
    post(w, "/api/tasks/a/claim", "{'sessionId': 's'}");
    expect(w, 403, "FORBIDDEN");
    w->who = AS("k1", WORKER);
    post(w, "/api/tasks/a/claim", "{'sessionId': 's'}");
    expect(w, 200, "OK");
    w->who = AS("k2", WORKER);
    post(w, "/api/tasks/a/complete", "{'sessionId': 's', 'claimNext': {}}");
    expect(w, 403, "FORBIDDEN");
    assert_int_equal(dibs_batch_commit(w->d, &err), DIBS_OK);
    w->who = OWNER;
    get(w, "/api/tasks/a");
    assert_string_equal(text_at(w, "task.status"), "in_progress");
}

static void test_who_would_wait_is_told_so_in_a_batch(void **state)
{
    struct world *w = *state;
    struct dibs_error err = {0};
    w->who = AS("k1", WORKER);
    given_session(w, "s");
    given_session(w, "t");
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 's'}");
    assert_int_equal(dibs_batch_begin(w->d, &err), DIBS_OK);
    post(w, "/api/tasks/claim", "{'worker_id': 's', 'wait_ms': 5000}");
    expect(w, 404, "NOTHING_TO_CLAIM");
    assert_int_equal(w->wait_ms, 5000);
    post(w, "/api/tasks/claim", "{'worker_id': 'new', 'wait_ms': 4000}");
    assert_int_equal(w->wait_ms, 4000);
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 't', 'waitMs': 3000}");
    expect(w, 409, "LOCK_HELD");
    assert_int_equal(w->wait_ms, 3000);
    post(w, "/api/tasks/claim", "{'worker_id': 's'}");
    assert_int_equal(w->wait_ms, 0);
    post(w, "/api/tasks", "{'title': 'a'}");
    post(w, "/api/tasks/claim", "{'worker_id': 's', 'wait_ms': 5000}");
    expect(w, 200, "OK");
    assert_int_equal(w->wait_ms, 0);
    assert_int_equal(dibs_batch_commit(w->d, &err), DIBS_OK);
}

/* ---- idempotency keys ------------------------------------------------------------------------ */

static void test_each_key_has_its_own_idempotency_keys(void **state)
{
    struct world *w = *state;
    static const char text[] = "{\"title\":\"a\"}";
    w->key = "once";
    w->who = AS("k1", WORKER);
    call_raw(w, "POST", "/api/tasks", text);
    expect(w, 201, "OK");
    char *first = strdup(w->body);
    call_raw(w, "POST", "/api/tasks", text);
    assert_string_equal(w->body, first);
    w->who = AS("k2", WORKER);
    call_raw(w, "POST", "/api/tasks", text);
    expect(w, 201, "OK");
    assert_string_not_equal(w->body, first);
    call_raw(w, "POST", "/api/tasks", "{\"title\":\"b\"}");
    expect(w, 422, "IDEMPOTENCY_KEY_REUSED");
    expect_message(w, "'once'");
    w->who = OWNER;
    call_raw(w, "POST", "/api/tasks", "{\"title\":\"b\"}");
    expect(w, 201, "OK");
    free(first);
}

static void test_the_longest_idempotency_key_works_with_an_api_key(void **state)
{
    struct world *w = *state;
    char longest[KEY_BYTES_MAX + 2];
    memset(longest, 'x', sizeof longest);
    longest[KEY_BYTES_MAX] = '\0';
    w->key = longest;
    w->who = AS("k234567", WORKER);
    post(w, "/api/tasks", "{'title': 'a'}");
    expect(w, 201, "OK");
    char *first = strdup(w->body);
    post(w, "/api/tasks", "{'title': 'a'}");
    assert_string_equal(w->body, first);
    free(first);
    longest[KEY_BYTES_MAX] = 'x';
    longest[KEY_BYTES_MAX + 1] = '\0';
    post(w, "/api/tasks", "{'title': 'a'}");
    expect(w, 400, "INVALID_REQUEST");
    w->key = "";
    post(w, "/api/tasks", "{'title': 'a'}");
    expect(w, 400, "INVALID_REQUEST");
}

static void test_under_an_idempotency_key_the_same_is_refused(void **state)
{
    struct world *w = *state;
    given_task(w, "a");
    w->who = AS("k1", WORKER);
    given_session(w, "s");
    w->who = AS("k2", WORKER);
    w->key = "once";
    post(w, "/api/tasks/a/claim", "{'sessionId': 's'}");
    expect(w, 403, "FORBIDDEN");
    w->who = AS("k1", WORKER);
    post(w, "/api/tasks/a/claim", "{'sessionId': 's'}");
    expect(w, 200, "OK");
    w->key = "twice";
    post(w, "/api/tasks/claim", "{'worker_id': 'fresh'}");
    expect(w, 404, "NOTHING_TO_CLAIM");
}

/* ---- projects -------------------------------------------------------------------------------- */

/* What only reads is answered, but with nothing of the other project in it. */
static void expect_nothing_of(const struct world *w, const struct visit *v)
{
    static const char *const traces[] = {"\"T\"", "\"U\"", "\"V\"", "\"X\"", "\"s\"", "\"w\""};
    if (w->http == 403 || w->http == 404)
        return;
    if (w->http != 200 || !str_eq(v->method, "GET"))
        fail_msg("%s %s: %d %s", v->method, v->target, w->http, w->body);
    for (size_t i = 0; i < COUNT_OF(traces); i++) {
        if (strstr(w->body, traces[i]) != NULL)
            fail_msg("%s tells of another project: %s", v->target, w->body);
    }
}

static void test_a_key_of_one_project_finds_nothing_of_another(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < COUNT_OF(visits); i++) {
        w->who = OWNER;
        visit(w, &visits[i]);
        expect(w, visits[i].http, "OK");
        int64_t before = last_event(w);
        w->who = IN_PROJECT("k1", ADMIN, "elsewhere");
        if (str_eq(visits[i].name, "taskCreate")) {
            visit(w, &visits[i]); /* an id names one task in all projects */
            expect(w, 409, "TASK_EXISTS");
            continue;
        }
        visit(w, &visits[i]);
        expect_nothing_of(w, &visits[i]);
        assert_int_equal(last_event(w), before);
    }
}

static void test_operations_that_know_no_projects_are_closed_to_a_limited_key(void **state)
{
    static const char *const closed[] = {"claimStats", "claimCleanup", "agentScores",   "lockTake",
                                         "lockList",   "lockRelease",  "lockHeartbeat", "keyAdd",
                                         "keyList",    "keyRevoke"};
    struct world *w = *state;
    for (size_t i = 0; i < COUNT_OF(visits); i++) {
        bool is_closed = false;
        for (size_t k = 0; k < COUNT_OF(closed); k++)
            is_closed |= str_eq(closed[k], visits[i].name);
        w->who = IN_PROJECT("k1", ADMIN, "default");
        visit(w, &visits[i]);
        if (!is_closed) {
            expect(w, visits[i].http, "OK");
            continue;
        }
        expect(w, 403, "FORBIDDEN");
        expect_message(w, "project 'default' only");
        w->who = AS("k1", ADMIN);
        visit(w, &visits[i]);
        expect(w, visits[i].http, "OK");
    }
}

static void test_what_a_limited_key_makes_is_in_its_project(void **state)
{
    struct world *w = *state;
    w->who = IN_PROJECT("k1", WORKER, "p");
    post(w, "/api/tasks", "{'id': 'a', 'title': 'a'}");
    assert_string_equal(text_at(w, "task.project"), "p");
    post(w, "/api/tasks", "[{'id': 'b', 'title': 'b'}, {'title': 'c', 'project': 'p'}]");
    assert_string_equal(text_at(w, "tasks.0.project"), "p");
    post(w, "/api/sessions", "{'id': 's', 'project': ''}");
    assert_string_equal(text_at(w, "session.project"), "p");
    post(w, "/api/tasks/claim", "{'worker_id': 'w'}");
    assert_string_equal(text_at(w, "task.id"), "a");
    post(w, "/api/tasks/a/complete", "{'sessionId': 'w', 'claimNext': {}}");
    assert_string_equal(text_at(w, "next.task.id"), "b");
    get(w, "/api/tasks");
    assert_int_equal(count_at(w, "tasks"), 3);
    get(w, "/api/sessions/w");
    assert_string_equal(text_at(w, "session.project"), "p");
}

static void test_a_limited_key_cannot_name_another_project(void **state)
{
    struct world *w = *state;
    w->who = IN_PROJECT("k1", WORKER, "p");
    given_task(w, "a");
    post(w, "/api/tasks", "{'title': 'x', 'project': 'q'}");
    expect(w, 403, "FORBIDDEN");
    expect_message(w, "project 'p' only");
    post(w, "/api/tasks", "[{'title': 'x'}, {'title': 'y', 'project': 'q'}]");
    expect(w, 403, "FORBIDDEN");
    post(w, "/api/sessions", "{'project': 'q'}");
    expect(w, 403, "FORBIDDEN");
    post(w, "/api/tasks/claim", "{'worker_id': 'w', 'project': 'q'}");
    expect(w, 403, "FORBIDDEN");
    get(w, "/api/tasks?project=q");
    expect(w, 403, "FORBIDDEN");
    get(w, "/api/events?project=q");
    expect(w, 403, "FORBIDDEN");
    given_session(w, "s");
    given_claim(w, "a", "s");
    post(w, "/api/tasks/a/complete", "{'sessionId': 's', 'claimNext': {'project': 'q'}}");
    expect(w, 403, "FORBIDDEN");
    get(w, "/api/tasks/a");
    assert_string_equal(text_at(w, "task.status"), "in_progress");
}

static void test_a_limited_key_cannot_depend_on_other_projects(void **state)
{
    struct world *w = *state;
    given_task(w, "far");
    w->who = IN_PROJECT("k1", WORKER, "p");
    given_task(w, "near");
    post(w, "/api/tasks", "{'title': 'x', 'dependsOn': ['far']}");
    expect(w, 404, "TASK_NOT_FOUND");
    patch(w, "/api/tasks/near", "{'dependsOn': ['far']}");
    expect(w, 404, "TASK_NOT_FOUND");
    post(w, "/api/tasks",
         "[{'id': 'x', 'title': 'x', 'dependsOn': ['near']},"
         " {'title': 'y', 'dependsOn': ['x']}]");
    expect(w, 201, "OK");
}

static void test_the_journal_of_a_limited_key_is_that_of_its_project(void **state)
{
    struct world *w = *state;
    given_task(w, "far");
    given_session(w, "s");
    post(w, "/api/keys", "{'name': 'n', 'role': 'read', 'project': 'p'}");
    expect(w, 201, "OK");
    w->who = IN_PROJECT("k1", WORKER, "p");
    given_task(w, "near");
    get(w, "/api/events");
    assert_int_equal(count_at(w, "events"), 1);
    assert_string_equal(text_at(w, "events.0.taskId"), "near");
}

static void test_work_of_a_session_in_other_projects_is_not_shown(void **state)
{
    struct world *w = *state;
    post(w, "/api/sessions", "{'id': 's', 'project': 'p'}");
    given_task(w, "far");
    given_task(w, "later");
    given_claim(w, "far", "s");
    post(w, "/api/tasks/far/complete", "{'sessionId': 's'}");
    given_claim(w, "later", "s");
    static const char *const targets[] = {"/api/sessions", "/api/sessions/summary",
                                          "/api/sessions/s", "/api/sessions/s/current-task"};
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        w->who = IN_PROJECT("k1", READER, "p");
        get(w, targets[i]);
        expect(w, 200, "OK");
        assert_null(strstr(w->body, "far"));
        assert_null(strstr(w->body, "later"));
        w->who = OWNER;
        get(w, targets[i]);
        assert_non_null(strstr(w->body, "later"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_a_reading_key_may_do_all_that_reads_and_nothing_else),
        test_in_world(test_a_worker_may_do_all_but_what_is_for_admins),
        test_in_world(test_an_admin_may_do_everything),
        test_in_world(test_the_owner_needs_no_key_for_anything),
        test_in_world(test_another_key_cannot_act_for_a_session),
        cmocka_unit_test(test_every_writing_field_that_names_a_session_is_checked),
        test_in_world(test_a_session_of_the_owner_is_nobody_elses),
        test_in_world(test_registering_again_needs_the_same_key_until_the_session_has_ended),
        test_in_world(test_the_owner_takes_a_session_back_by_registering_it),
        test_in_world(test_an_unknown_worker_is_registered_under_the_key),
        test_in_world(test_a_worker_that_found_nothing_is_registered_all_the_same),
        test_in_world(test_the_optional_session_of_a_block_is_checked_too),
        test_in_world(test_a_session_that_does_not_exist_is_told_as_ever),
        test_in_world(test_a_refused_claim_with_a_key_leaves_its_trace),
        test_in_world(test_a_failing_store_lets_nobody_in),
        test_in_world(test_a_refused_request_of_a_batch_harms_no_neighbour),
        test_in_world(test_who_would_wait_is_told_so_in_a_batch),
        test_in_world(test_each_key_has_its_own_idempotency_keys),
        test_in_world(test_the_longest_idempotency_key_works_with_an_api_key),
        test_in_world(test_under_an_idempotency_key_the_same_is_refused),
        test_in_world(test_a_key_of_one_project_finds_nothing_of_another),
        test_in_world(test_operations_that_know_no_projects_are_closed_to_a_limited_key),
        test_in_world(test_what_a_limited_key_makes_is_in_its_project),
        test_in_world(test_a_limited_key_cannot_name_another_project),
        test_in_world(test_a_limited_key_cannot_depend_on_other_projects),
        test_in_world(test_the_journal_of_a_limited_key_is_that_of_its_project),
        test_in_world(test_work_of_a_session_in_other_projects_is_not_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
