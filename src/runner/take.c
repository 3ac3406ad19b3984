/* SPDX-License-Identifier: MIT */
/*
 * take.c: asks for work, and makes jobs of the answers.
 *
 * As a worker: POST /api/tasks/claim. As an agent: GET /api/poll, which may also hand out offers,
 * messages, mentions and notices. Both wait at the daemon until there is something, so an idle
 * runner costs a request every WAIT_MS. Without a daemon the library looks for changes itself, in
 * shorter turns, as nothing can interrupt it.
 *
 * A request that was not answered may have been carried out. So the next one is put only after a
 * heartbeat has told what the session holds; what nobody knows of is given back (beat.c).
 */
#include "runner_private.h"

#include "base/str.h"
#include "base/timefmt.h"

#define WAIT_MS 30000
#define WAIT_IN_PROCESS_MS 500
#define LOOK_AGAIN_MS 1000 /* when the answer came sooner than it should have */

static int64_t wait_ms(const struct runner *r)
{
    if (r->in->drain_when_empty)
        return 0;
    return atomic_load(&r->ask.in_process) ? WAIT_IN_PROCESS_MS : WAIT_MS;
}

/* nothing: there is no work now. */
static void nothing(struct runner *r, const struct call *c)
{
    bool early = c->back_ms - c->sent_ms < wait_ms(r) / 2;

    if (!r->in->drain_when_empty) {
        if (early)
            r->ask_at_ms = now_ms() + LOOK_AGAIN_MS;
    } else if (runner_slots_used(r) == 0) {
        runner_drain(r);
    } else {
        r->ask_at_ms = now_ms() + LOOK_AGAIN_MS;
    }
}

/* refused: true when there is an answer to work with. */
static bool is_answered(struct runner *r, const struct call *c)
{
    r->asking = false;
    runner_heard(r, c);
    if (call_failed(c)) { /* or given up on our own wish */
        r->unsure = true;
        r->beat_at_ms = now_ms() + r->pause_ms;
        return false;
    }
    if (c->answer.status == DIBS_OK)
        return true;
    if (c->answer.status == DIBS_NOTHING_TO_CLAIM)
        nothing(r, c);
    else if (c->answer.status == DIBS_SESSION_NOT_FOUND)
        session_register(r);
    else
        runner_break(r, c->answer.status, call_message(c));
    return false;
}

/* begin: starts a job, or gives it back when nothing new is to be begun. */
static void begin(struct runner *r, struct job *j)
{
    if (r->draining) {
        report_give_back(j, "runner_stopped");
        return;
    }
    if (r->in->once)
        runner_drain(r);
    if (j->json == NULL)
        job_fetch(j);
    else
        job_start(j);
}

/* ---- as a worker ----------------------------------------------------------------------------- */

/* id_text: ids that are numbers are written as numbers in this dialect. */
static char *id_text(const json_t *id)
{
    char number[32] = "";

    if (json_is_string(id))
        return need_copy(json_string_value(id));
    snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(id));
    return need_copy(number);
}

/* task_of: the path of the claimed task: all that is known of it is more than the answer says. */
static char *task_of(const struct call *c)
{
    char *id = id_text(json_object_get(json_object_get(c->answer.json, "task"), "id"));
    struct buf path;

    buf_init(&path, BODY_BYTES_MAX);
    buf_text(&path, "/api/tasks/");
    client_encode(&path, id);
    mem_free(id);
    return need_detach(&path);
}

static void on_claimed(struct runner *r, struct call *c)
{
    const json_t *task = json_object_get(c->answer.json, "task");
    const char *claimed_at = json_text(task, "claimed_at");
    const char *expires_at = json_text(task, "expires_at");
    int64_t from = 0, to = 0;
    struct job *j = NULL;

    if (!is_answered(r, c))
        return;
    j = job_new(r, KIND_TASK, "pool_task_claimed");
    j->task_id = id_text(json_object_get(task, "id"));
    j->token = json_int(task, "token");
    need_push(j->tokens, json_integer(j->token));
    if (claimed_at != NULL && expires_at != NULL && time_from_text(claimed_at, &from) &&
        time_from_text(expires_at, &to))
        j->ttl_ms = to - from;
    j->granted_ms = j->renewed_ms = c->back_ms;
    job_learn(j, json_object_get(c->more.json, "task")); /* if not, begin() asks again */
    begin(r, j);
}

static json_t *type_list(const struct runner *r)
{
    json_t *list = need_json(json_array());

    for (size_t i = 0; i < r->in->types.count; i++)
        need_push(list, json_string(r->in->types.items[i]));
    return list;
}

static struct call *ask_for_task(const struct runner *r)
{
    json_t *body = need_json(json_object());
    struct call *c = NULL;

    need_text(body, "worker_id", r->session);
    need_text(body, "project", r->in->project);
    if (r->in->types.count > 0)
        need_set(body, "task_types", type_list(r));
    if (r->in->ttl_ms > 0)
        need_int(body, "ttl_ms", r->in->ttl_ms);
    if (wait_ms(r) > 0)
        need_int(body, "wait_ms", wait_ms(r));
    c = call_new("POST", need_copy("/api/tasks/claim"), body, on_claimed);
    c->then = task_of;
    return c;
}

/* ---- as an agent ----------------------------------------------------------------------------- */

/* note_claims: the tokens of what was handed out; members of a list that have a claim each, or are
 * one. */
static void note_claims(struct job *j, const json_t *list)
{
    const json_t *claim = NULL;

    for (size_t i = 0; i < json_array_size(list); i++) {
        claim = json_object_get(json_array_get(list, i), "claim");
        claim = claim != NULL ? claim : json_array_get(list, i);
        need_push(j->tokens, json_integer(json_int(claim, "token")));
        if (j->token == 0) {
            j->token = json_int(claim, "token");
            j->ttl_ms = json_int(claim, "ttlMs");
        }
    }
}

static void take_trigger(struct runner *r, const struct call *c, json_t *trigger)
{
    static const struct {
        const char *type, *list; /* where the claims are; NULL: there is a task */
        enum job_kind kind;
    } types[] = {
        {"task_offered", NULL, KIND_OFFER},
        {"task_assigned", NULL, KIND_TASK},
        {"pool_task_claimed", NULL, KIND_TASK},
        {"slack_inbox_message", "messages", KIND_INBOX},
        {"unread_mentions", "channels", KIND_MENTIONS},
        {"tasks_finished", "claims", KIND_FINISHED},
    };
    const char *type = json_text(trigger, "type");
    const json_t *claim = json_object_get(trigger, "claim");
    struct job *j = NULL;
    size_t i = 0;

    while (i < COUNT_OF(types) && !str_eq(types[i].type, type))
        i++;
    if (i == COUNT_OF(types)) { /* nothing was handed out */
        r->ask_at_ms = now_ms() + LOOK_AGAIN_MS;
        return;
    }
    j = job_new(r, types[i].kind, type);
    j->json = json_incref(trigger);
    j->granted_ms = j->renewed_ms = c->back_ms;
    if (types[i].list != NULL) {
        note_claims(j, json_object_get(trigger, types[i].list));
    } else {
        j->task = json_object_get(trigger, "task");
        j->task_id = need_copy(json_text(trigger, "taskId"));
        j->token = json_int(claim, "token");
        j->attempt = json_int(claim, "attempt");
        j->ttl_ms = json_int(claim, "ttlMs");
        need_push(j->tokens, json_integer(j->token));
    }
    begin(r, j);
}

static void on_polled(struct runner *r, struct call *c)
{
    json_t *trigger = json_object_get(c->answer.json, "trigger");

    if (!is_answered(r, c))
        return;
    if (json_is_object(trigger))
        take_trigger(r, c, trigger);
    else
        nothing(r, c);
}

static struct call *poll_for_agent(const struct runner *r)
{
    struct call *c = call_new("GET", need_copy("/api/poll"), NULL, on_polled);
    struct buf query;

    buf_init(&query, BODY_BYTES_MAX);
    buf_text(&query, "claim=true&ack=manual&agentId=");
    client_encode(&query, r->agent_id);
    buf_text(&query, "&sessionId=");
    client_encode(&query, r->session);
    for (size_t i = 0; i < r->in->types.count; i++) {
        buf_text(&query, i == 0 ? "&types=" : "%2C");
        client_encode(&query, r->in->types.items[i]);
    }
    if (r->in->ttl_ms > 0)
        buf_printf(&query, "&ttlMs=%" PRId64, r->in->ttl_ms);
    buf_printf(&query, "&waitMs=%" PRId64, wait_ms(r));
    c->query = need_detach(&query);
    return c;
}

void take_ask(struct runner *r)
{
    r->asking = true;
    r->asked_ms = now_ms();
    line_post(&r->ask, r->agent_id[0] != '\0' ? poll_for_agent(r) : ask_for_task(r));
}
