/* SPDX-License-Identifier: MIT */
/*
 * call.c: one operation of the API, on its way to a database thread and back.
 *
 *     call_submit -> writer or readers: call_run (api_call) -> call_done: the answer
 *
 *   1. The request lives in the connection, which the call holds on to.
 *   2. A call that would wait is kept by the writer and run again; what it found before is thrown
 *      away each time, so the answer it finally leaves is the last.
 *   3. Nothing is taken for a caller that has hung up: tasks and locks that were taken for one
 *      before it could be told are given back.
 */
#include "server_private.h"

#include <jansson.h>

#include "base/log.h"
#include "base/str.h"
#include "core/poll.h"
#include "core/serve.h"

struct call {
    struct job job;
    struct server *server;
    struct conn *conn;
    struct asked asked;
    struct api_request in;
    struct api_response out;
    char project[WORD_BYTES_MAX + 1];
    bool keys_are_new; /* the change of keys that it made is in force */
};

static bool is_lock(const struct call *call)
{
    return str_eq(call->asked.op->name, "lockTake");
}

static bool is_poll(const struct call *call)
{
    return str_eq(call->asked.op->name, "poll");
}

/* ---- on a database thread -------------------------------------------------------------------- */

static void call_run(struct job *job, dibs *d, dibs_arena *a)
{
    struct call *call = (struct call *)job;
    buf_release(&call->out.body);
    api_call(d, a, &call->in, &call->out);
    job->waits_for = JOB_WAITS_NOT;
    if (call->out.wait_ms <= 0)
        return;
    job->waits_for = is_lock(call) ? JOB_WAITS_FOR_LOCK : JOB_WAITS_FOR_TASK;
    job->wait_key = call->out.wait_key;
    job->wait_not_pool = call->out.wait_not_pool;
    job->wait_agent = call->out.wait_agent;
    job->wait_leads = call->out.wait_leads;
    if (job->wait_until_ms == 0)
        job->wait_until_ms = server_us() / 1000 + call->out.wait_ms;
}

static void call_lost(struct job *job, const struct dibs_error *err)
{
    struct call *call = (struct call *)job;
    buf_release(&call->out.body);
    api_refusal(err->code, err, &call->out);
}

/* call_give_up: takes back the ticket of one who no longer waits for a lock. */
static void call_give_up(struct job *job, dibs *d, dibs_arena *a)
{
    struct call *call = (struct call *)job;
    struct dibs_error err = {0};
    (void)a;
    if (!is_lock(call))
        return;
    json_t *body = json_loadb(call->in.body, call->in.body_bytes, 0, NULL);
    const char *resource = json_string_value(json_object_get(body, "resource"));
    const char *session = json_string_value(json_object_get(body, "sessionId"));
    if (resource != NULL && session != NULL &&
        dibs__lock_give_up(d, resource, session, &err) != DIBS_OK)
        log_line(LOG_WARN, "cannot take back a ticket for '%s': %s", resource, err.message);
    json_decref(body);
}

/* ---- claimed for nobody ---------------------------------------------------------------------- */

/* give_back_task: `task` and `claim` are one object in the dialect of workers. */
static void give_back_task(dibs *d, dibs_arena *a, const json_t *task, const json_t *claim)
{
    struct dibs_error err = {0};
    struct dibs_released freed = {0};
    char number[32] = "";
    const json_t *id = json_object_get(task, "id");
    const json_t *session = json_object_get(claim, "worker_id");
    if (json_is_integer(id))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(id));
    struct dibs_release back = {
        .task_id = json_is_integer(id) ? number : json_string_value(id),
        .session_id = json_string_value(session ? session : json_object_get(claim, "sessionId")),
        .token = json_integer_value(json_object_get(claim, "token")),
        .reason = "caller_gone"};
    if (dibs_claim_release(d, a, &back, &freed, &err) != DIBS_OK)
        log_line(LOG_WARN, "cannot give back task '%s' of a caller that has gone: %s",
                 back.task_id != NULL ? back.task_id : "?", err.message);
}

static void give_back_lock(dibs *d, dibs_arena *a, const json_t *lock)
{
    struct dibs_error err = {0};
    struct dibs_claim freed = {0};
    struct dibs_lock_ref back = {.resource = json_string_value(json_object_get(lock, "resource")),
                                 .session_id =
                                     json_string_value(json_object_get(lock, "sessionId")),
                                 .token = json_integer_value(json_object_get(lock, "token"))};
    if (dibs_lock_release(d, a, &back, &freed, &err) != DIBS_OK)
        log_line(LOG_WARN, "cannot give back lock '%s' of a caller that has gone: %s",
                 back.resource != NULL ? back.resource : "?", err.message);
}

/* What a trigger of a poll was made of: claims in several places, and tasks told of without one. */
struct handed {
    int64_t tokens[PAGE_MAX];
    const char *told[PAGE_MAX];
    struct dibs_taken taken;
};

static void add_token(struct handed *h, const json_t *claim)
{
    if (json_is_object(claim) && h->taken.count < PAGE_MAX)
        h->tokens[h->taken.count++] = json_integer_value(json_object_get(claim, "token"));
}

static void add_tokens(struct handed *h, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        add_token(h, json_object_get(json_array_get(list, i), "claim"));
}

static void add_finished(struct handed *h, const json_t *trigger)
{
    const json_t *tasks = json_object_get(trigger, "tasks"),
                 *claims = json_object_get(trigger, "claims");
    for (size_t i = 0; i < json_array_size(claims); i++)
        add_token(h, json_array_get(claims, i));
    for (size_t i = 0; claims == NULL && i < json_array_size(tasks) && i < PAGE_MAX; i++)
        h->told[h->taken.told.count++] =
            json_string_value(json_object_get(json_array_get(tasks, i), "id"));
}

static void give_back_trigger(dibs *d, dibs_arena *a, const json_t *answer)
{
    struct dibs_error err = {0};
    struct handed *h = arena_alloc(a, sizeof *h);
    const json_t *trigger = json_object_get(answer, "trigger");
    if (h == NULL)
        return; /* the leases will end */
    h->taken =
        (struct dibs_taken){.session_id = json_string_value(json_object_get(answer, "sessionId")),
                            .tokens = h->tokens,
                            .told = {.items = h->told}};
    add_token(h, json_object_get(trigger, "claim"));
    add_tokens(h, json_object_get(trigger, "messages"));
    add_tokens(h, json_object_get(trigger, "channels"));
    add_finished(h, trigger);
    if (dibs__take_back(d, a, &h->taken, &err) != DIBS_OK)
        log_line(LOG_WARN, "cannot give back what was found for a caller that has gone: %s",
                 err.message);
}

static void give_back(struct job *job, dibs *d, dibs_arena *a)
{
    struct call *call = (struct call *)job;
    json_t *answer = json_loadb(call->out.body.data, call->out.body.len, 0, NULL);
    if (is_poll(call)) {
        give_back_trigger(d, a, answer);
        json_decref(answer);
        return;
    }
    const json_t *tasks = json_object_get(answer, "tasks"), *next = json_object_get(answer, "next");
    for (size_t i = 0; i < json_array_size(tasks); i++)
        give_back_task(d, a, json_array_get(tasks, i), json_array_get(tasks, i));
    if (is_lock(call))
        give_back_lock(d, a, json_object_get(answer, "lock"));
    else if (json_is_object(next))
        give_back_task(d, a, json_object_get(next, "task"), json_object_get(next, "claim"));
    else if (tasks == NULL && str_eq(call->asked.op->name, "claimNext"))
        give_back_task(d, a, json_object_get(answer, "task"), json_object_get(answer, "task"));
    json_decref(answer);
}

static void call_free(struct job *job)
{
    struct call *call = (struct call *)job;
    call->server->jobs_out--;
    conn_drop(call->conn);
    buf_release(&call->out.body);
    mem_free(call);
}

/* takes_next: may give the caller something it did not name. */
static bool takes_next(const struct call *call)
{
    const char *name = call->asked.op->name;
    if (str_eq(name, "complete") || str_eq(name, "fail"))
        return call->out.body.len > 0 && strstr(call->out.body.data, "\"next\":{") != NULL;
    if (is_poll(call))
        return !str_starts(call->out.body.data, "{\"success\":true,\"trigger\":null");
    return str_eq(name, "claimNext") || is_lock(call);
}

/* was_in_vain: something was taken for a caller that cannot be told. A repeat under an idempotency
 * key will be told; a lock that was only extended was known before. */
static bool was_in_vain(const struct call *call)
{
    return conn_has_hung_up(call->conn) && call->out.status == DIBS_OK && call->out.body.len > 0 &&
           call->in.idempotency_key == NULL && takes_next(call) &&
           !(is_lock(call) && strstr(call->out.body.data, "\"extended\":true") != NULL);
}

/* ---- back on the loop ------------------------------------------------------------------------ */

/* more_headers: what a refusal says beside its body. */
static void more_headers(struct call *call)
{
    char *headers = call->asked.headers;
    size_t used = strlen(headers), room = sizeof call->asked.headers - used;
    if (call->out.http == 503 && strstr(headers, "Retry-After") == NULL)
        snprintf(headers + used, room, "Retry-After: 1\r\n");
}

static bool changes_keys(const struct call *call)
{
    return call->asked.op->access == API_WRITES && str_starts(call->asked.op->path, "/api/keys");
}

static void call_done(struct job *job)
{
    struct call *call = (struct call *)job;
    bool in_vain = was_in_vain(call);
    if (call->out.status == DIBS_OK && changes_keys(call) && !call->keys_are_new) {
        call->keys_are_new = true;
        keys_then(call->server, job);
        return;
    }
    call->asked.job = NULL;
    if (in_vain || call->out.http == 0) /* or it was not even begun */
        conn_close(call->conn, false);
    if (in_vain) {
        conn_set_data(call->conn, NULL);
        call->job = (struct job){.run = give_back, .done = call_free};
        if (writer_submit(call->server->writer, &call->job))
            return;
    }
    more_headers(call);
    conn_set_data(call->conn, &call->asked);
    conn_answer(call->conn, &(struct answer){.status = call->out.http,
                                             .body = &call->out.body,
                                             .headers = call->asked.headers});
    if (conn_data(call->conn) == &call->asked) /* else the next request has begun meanwhile */
        conn_set_data(call->conn, NULL);
    call_free(job);
}

static void refuse_busy(struct server *s, struct conn *c)
{
    struct dibs_error err = {0};
    error_set(&err, DIBS_STORE_BUSY, "%s",
              s->stopping ? "the daemon is stopping; try again in a moment"
                          : "there is too much to do; try again in a moment");
    dispatch_refuse(c, DIBS_STORE_BUSY, &err, "Retry-After: 1\r\n");
}

static struct call *call_new(struct server *s, struct conn *c, const struct asked *asked,
                             const struct auth_verdict *who)
{
    struct call *call = mem_alloc(sizeof *call);
    const struct http_request *r = asked->r;
    if (call == NULL)
        return NULL;
    call->job = (struct job){
        .run = call_run, .done = call_done, .lost = call_lost, .give_up = call_give_up};
    call->job.urgent = strstr(asked->op->name, "eartbeat") != NULL;
    call->server = s;
    call->asked = *asked;
    call->asked.job = &call->job;
    call->conn = conn_hold(c);
    str_fit(call->project, sizeof call->project, who->identity.project);
    call->in = (struct api_request){.op = asked->op,
                                    .method = asked->op->method,
                                    .path = r->path,
                                    .query = r->query,
                                    .body = r->body,
                                    .body_bytes = r->body_bytes,
                                    .idempotency_key = http_header(r, "idempotency-key"),
                                    .who = who->identity};
    call->in.who.remote = conn_kind_of(c) == CONN_TCP && !conn_is_loopback(c);
    if (who->identity.key_id != NULL)
        call->in.who.key_id = call->asked.key_id;
    if (who->identity.project != NULL)
        call->in.who.project = call->project;
    return call;
}

/* call_leave: what takes something is not begun for a caller that has gone, nor for one that has
 * said its last (a client that closes looks like that at first). A report was meant when it was
 * sent: it is done, whoever is there to hear of it. */
void call_leave(struct asked *asked, bool half_closed)
{
    const char *name = asked->op->name;
    bool takes = str_eq(name, "claimNext") || str_eq(name, "lockTake") || str_eq(name, "poll") ||
                 (!half_closed && str_eq(name, "claim"));
    atomic_store(takes ? &asked->job->gone : &asked->job->leaving, true);
}

void call_submit(struct server *s, struct conn *c, const struct asked *asked,
                 const struct auth_verdict *who)
{
    struct call *call = call_new(s, c, asked, who);
    bool taken = false;
    if (call != NULL)
        taken = asked->op->access == API_WRITES ? writer_submit(s->writer, &call->job)
                                                : readers_submit(s->readers, &call->job);
    if (taken) {
        s->jobs_out++;
        conn_set_data(c, &call->asked);
        return;
    }
    if (call != NULL) {
        s->jobs_out++;
        call_free(&call->job);
    }
    refuse_busy(s, c);
}
