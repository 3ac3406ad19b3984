/* SPDX-License-Identifier: MIT */
/*
 * call.h: a store of its own for each test, requests in one line, and answers looked at by path.
 *
 *     post(w, "/api/tasks", "{'title': 'sweep'}");
 *     expect(w, 201, "OK");
 *     assert_string_equal(text_at(w, "task.status"), "open");
 *
 * Bodies are written with ' for ". The clock stands still until tick() moves it; whoever waits in
 * the library moves it too. Nothing is swept unless a test asks for it.
 */
#ifndef DIBS_TEST_CALL_H
#define DIBS_TEST_CALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/api_internal.h"
#include "base/str.h"

#define NOON INT64_C(1798718400000) /* 2026-12-31T12:00:00.000Z */

struct world {
    char dir[256];
    dibs *d;
    dibs_arena *a;
    int http;
    char *body;              /* the last answer as text */
    json_t *json;            /* and as JSON */
    const char *key;         /* idempotency key of the next requests; NULL: none */
    struct api_identity who; /* of the next requests; zero: the owner of the data */
    int64_t wait_ms;         /* of the last answer */
    uint64_t wait_key;
    bool (**hook)(void); /* set to `fails` while a request runs; NULL: nothing is */
    bool (*fails)(void);
};

static int64_t world_clock;

static inline int64_t world_now(void *context)
{
    (void)context;
    return world_clock;
}

static inline void world_sleep(void *context, int64_t ms)
{
    (void)context;
    world_clock += ms > 0 ? ms : 1;
}

static inline void tick(int64_t ms)
{
    world_clock += ms;
}

static inline int world_open(void **state)
{
    static struct dibs_platform platform;
    struct world *w = calloc(1, sizeof *w);
    struct dibs_error err = {0};
    const char *tmp = getenv("TMPDIR");
    assert_non_null(w);
    snprintf(w->dir, sizeof w->dir, "%s/dibs-api-XXXXXX", tmp != NULL ? tmp : "/tmp");
    assert_non_null(mkdtemp(w->dir));
    platform = *dibs_platform_real();
    platform.wall_ms = world_now;
    platform.steady_ms = world_now;
    platform.sleep_ms = world_sleep;
    world_clock = NOON;
    struct dibs_options options = {.data_dir = w->dir,
                                   .create = true,
                                   .settings = DIBS_STRINGS("autoCleanup=0"),
                                   .platform = &platform};
    if (dibs_open(&options, &w->d, &err) != DIBS_OK)
        fail_msg("cannot open the store: %s", err.message);
    w->a = dibs_arena_new();
    assert_non_null(w->a);
    *state = w;
    return 0;
}

static inline int world_close(void **state)
{
    static const char *const files[] = {"dibs.db",      "dibs.db-wal",  "dibs.db-shm",
                                        "dibs.db.lock", "dibs.db.turn", "config"};
    struct world *w = *state;
    char path[512];
    dibs_close(w->d);
    dibs_arena_free(w->a);
    json_decref(w->json);
    free(w->body);
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        snprintf(path, sizeof path, "%s/%s", w->dir, files[i]);
        unlink(path);
    }
    int left = rmdir(w->dir);
    free(w);
    return left; /* a file that we do not know is a finding */
}

/* Sends a request as it is and keeps the answer. */
static inline void call_raw(struct world *w, const char *method, const char *target,
                            const char *body)
{
    char path[8192];
    snprintf(path, sizeof path, "%s", target);
    char *question = strchr(path, '?');
    if (question != NULL)
        *question++ = '\0';
    struct api_request in = {.method = method,
                             .path = path,
                             .query = question,
                             .body = body,
                             .body_bytes = body != NULL ? strlen(body) : 0,
                             .idempotency_key = w->key,
                             .who = w->who};
    struct api_response out;
    if (w->hook != NULL)
        *w->hook = w->fails;
    api_call(w->d, w->a, &in, &out);
    if (w->hook != NULL)
        *w->hook = NULL;
    json_decref(w->json);
    free(w->body);
    w->http = out.http;
    w->wait_ms = out.wait_ms;
    w->wait_key = out.wait_key;
    w->body = out.body.len > 0 ? strdup(out.body.data) : NULL;
    w->json = w->body != NULL ? json_loads(w->body, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (w->body != NULL && w->json == NULL)
        fail_msg("the answer is not JSON: %s", w->body);
    if (w->json != NULL)
        assert_true(json_is_true(json_object_get(w->json, "success")) == (out.status == DIBS_OK));
    buf_release(&out.body);
    dibs_arena_reset(w->a);
}

static inline void PRINTF_LIKE(4, 0) call_args(struct world *w, const char *method,
                                               const char *target, const char *format, va_list args)
{
    char body[16384];
    assert_true(vsnprintf(body, sizeof body, format, args) < (int)sizeof body);
    for (char *c = body; *c != '\0'; c++) {
        if (*c == '\'')
            *c = '"';
    }
    call_raw(w, method, target, body);
}

static inline void PRINTF_LIKE(3, 4)
    post(struct world *w, const char *target, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    call_args(w, "POST", target, format, args);
    va_end(args);
}

static inline void PRINTF_LIKE(3, 4)
    patch(struct world *w, const char *target, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    call_args(w, "PATCH", target, format, args);
    va_end(args);
}

static inline void get(struct world *w, const char *target)
{
    call_raw(w, "GET", target, NULL);
}

static inline void del(struct world *w, const char *target)
{
    call_raw(w, "DELETE", target, NULL);
}

/* The member at a path such as "tasks.0.claim.token"; NULL when there is none. */
static inline json_t *at(const struct world *w, const char *path)
{
    json_t *v = w->json;
    char part[128];
    while (v != NULL && *path != '\0') {
        size_t bytes = strcspn(path, ".");
        int64_t index = 0;
        assert_true(bytes < sizeof part);
        memcpy(part, path, bytes);
        part[bytes] = '\0';
        if (json_is_array(v))
            v = str_to_int(part, &index) ? json_array_get(v, (size_t)index) : NULL;
        else
            v = json_object_get(v, part);
        path += bytes + (path[bytes] == '.');
    }
    return v;
}

static inline const char *text_at(const struct world *w, const char *path)
{
    if (!json_is_string(at(w, path)))
        fail_msg("no text at '%s' in %s", path, w->body);
    return json_string_value(at(w, path));
}

static inline int64_t int_at(const struct world *w, const char *path)
{
    if (!json_is_integer(at(w, path)))
        fail_msg("no whole number at '%s' in %s", path, w->body);
    return json_integer_value(at(w, path));
}

static inline size_t count_at(const struct world *w, const char *path)
{
    if (!json_is_array(at(w, path)))
        fail_msg("no list at '%s' in %s", path, w->body);
    return json_array_size(at(w, path));
}

static inline bool true_at(const struct world *w, const char *path)
{
    return json_is_true(at(w, path));
}

/* The members of the object at a path, in their order: "id title status" */
static inline void expect_keys(const struct world *w, const char *path, const char *keys)
{
    struct buf list;
    const char *key = NULL;
    json_t *value = NULL;
    buf_init(&list, 4096);
    json_object_foreach(at(w, path), key, value)
        buf_printf(&list, "%s%s", list.len > 0 ? " " : "", key);
    assert_true(buf_ok(&list));
    assert_string_equal(list.data != NULL ? list.data : "", keys);
    buf_release(&list);
}

/* What the answer must be: "OK", or the word of the refusal. */
static inline void expect(const struct world *w, int http, const char *code)
{
    const char *error = json_string_value(json_object_get(w->json, "error"));
    if (w->http != http || strcmp(error != NULL ? error : "OK", code) != 0)
        fail_msg("expected %d %s, got %d %s", http, code, w->http, w->body);
}

static inline void expect_field(const struct world *w, const char *field)
{
    expect(w, 400, "INVALID_REQUEST");
    assert_string_equal(text_at(w, "field"), field);
}

static inline void expect_message(const struct world *w, const char *part)
{
    if (strstr(text_at(w, "message"), part) == NULL)
        fail_msg("'%s' is not in the message: %s", part, text_at(w, "message"));
}

/* Steps that many tests begin with. */
static inline void given_session(struct world *w, const char *id)
{
    post(w, "/api/sessions", "{'id': '%s'}", id);
    assert_true(w->http == 201 || w->http == 200);
}

static inline void given_agent(struct world *w, const char *id)
{
    post(w, "/api/agents", "{'id': '%s'}", id);
    assert_true(w->http == 201 || w->http == 200);
}

static inline void given_task(struct world *w, const char *id)
{
    post(w, "/api/tasks", "{'id': '%s', 'title': 'do %s'}", id, id);
    expect(w, 201, "OK");
}

static inline int64_t given_claim(struct world *w, const char *task, const char *session)
{
    char path[300];
    snprintf(path, sizeof path, "/api/tasks/%s/claim", task);
    post(w, path, "{'sessionId': '%s'}", session);
    expect(w, 200, "OK");
    return int_at(w, "claim.token");
}

#define test_in_world(f) cmocka_unit_test_setup_teardown(f, world_open, world_close)

#endif
