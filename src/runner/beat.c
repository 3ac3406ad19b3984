/* SPDX-License-Identifier: MIT */
/*
 * beat.c: heartbeats and what their answers say.
 *
 * One heartbeat renews everything that the session holds. The answer lists what it still holds and
 * what it has lost since the last one; each loss is told once, and that answer may not reach us. So
 * a task whose claim is in neither list is looked up: if it ended by a report, its command has
 * reported by itself and may go on; else it is stopped.
 *
 * What the session holds and no job is about is a stray: claimed by a request of ours whose answer
 * never came, by an earlier process with this session, or by a command, which acts as the same
 * session. It is given back as soon as nobody can be using it: when every command has ended that
 * may have claimed it, and the request for work has returned that was on its way when it was seen.
 */
#include "runner_private.h"

#include "base/str.h"

#define BEAT_MS_MAX 20000 /* also how long it may take until a cancelled task is stopped */
#define BEAT_MS_MIN 200

/* ---- what was lost --------------------------------------------------------------------------- */

const json_t *claim_in(const json_t *list, int64_t token)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_int(json_array_get(list, i), "token") == token)
            return json_array_get(list, i);
    return NULL;
}

static void lost(struct job *j, const char *reason)
{
    char text[160] = "";

    snprintf(text, sizeof text, "the claim was lost (%.100s)", reason != NULL ? reason : "ended");
    job_stop(j, STOP_LOST, text);
}

static void on_history(struct runner *r, struct call *c)
{
    struct job *j = c->job;
    const json_t *claim = claim_in(json_object_get(c->answer.json, "attempts"), j->token);
    const char *reason = json_text(claim, "endReason");

    j->calls--;
    j->asked_why = false;
    runner_heard(r, c);
    if (call_failed(c))
        return; /* the next heartbeat asks again */
    if (str_eq(reason, "completed") || str_eq(reason, "failed"))
        j->settled = true;
    else if (claim == NULL || json_object_get(claim, "endedAt") != NULL)
        lost(j, reason);
}

/* ask_why: how the claim of a running job ended. */
static void ask_why(struct job *j)
{
    struct call *c = NULL;
    struct buf path;

    if (j->asked_why || j->settled || j->state != JOB_RUNNING)
        return;
    buf_init(&path, BODY_BYTES_MAX);
    buf_text(&path, "/api/tasks/");
    client_encode(&path, j->task_id);
    buf_text(&path, "/history");
    c = call_new("GET", need_detach(&path), NULL, on_history);
    c->job = j;
    j->calls++;
    j->asked_why = true;
    runner_tell(j->runner, c);
}

static bool is_listed(const json_t *ids, const char *id)
{
    for (size_t i = 0; id != NULL && i < json_array_size(ids); i++)
        if (str_eq(json_string_value(json_array_get(ids, i)), id))
            return true;
    return false;
}

/* compare: what the answer says of one job. */
static void compare(struct job *j, const struct call *c)
{
    const json_t *answer = c->answer.json, *claim = NULL;
    const json_t *told = json_object_get(answer, "lost");

    if (j->granted_ms > c->sent_ms)
        return; /* claimed meanwhile */
    for (size_t i = 0; i < json_array_size(j->tokens) && claim == NULL; i++)
        claim = claim_in(told, json_integer_value(json_array_get(j->tokens, i)));
    if (is_listed(json_object_get(answer, "cancelRequested"), j->task_id) &&
        claim_in(json_object_get(answer, "claims"), j->token) == NULL)
        lost(j, "cancelled");
    else if (claim != NULL)
        lost(j, json_text(claim, "endReason"));
    else if (j->kind != KIND_TASK || claim_in(json_object_get(answer, "claims"), j->token) != NULL)
        j->renewed_ms = c->sent_ms > j->renewed_ms ? c->sent_ms : j->renewed_ms;
    else
        ask_why(j);
}

/* ---- what nobody knows of -------------------------------------------------------------------- */

static bool is_known(const struct runner *r, int64_t token)
{
    for (const struct job *j = r->jobs; j != NULL; j = j->next)
        for (size_t i = 0; i < json_array_size(j->tokens); i++)
            if (json_integer_value(json_array_get(j->tokens, i)) == token)
                return true;
    return false;
}

/* list_of: {"member": [value]} */
static json_t *list_of(const char *member, json_t *value)
{
    json_t *list = need_json(json_array()), *object = need_json(json_object());

    need_push(list, value);
    need_set(object, member, list);
    return object;
}

/* give_back: one claim, as a job that was never begun. */
static void give_back(struct runner *r, json_t *claim, const char *reason)
{
    static const struct {
        const char *name, *trigger;
        enum job_kind kind;
    } kinds[] = {
        {"review", "task_offered", KIND_OFFER},
        {"inbox", "slack_inbox_message", KIND_INBOX},
        {"mentions", "unread_mentions", KIND_MENTIONS},
        {"notice", "tasks_finished", KIND_FINISHED},
    };
    const char *kind = json_text(claim, "kind"), *task_id = json_text(claim, "taskId");
    const char *resource = json_text(claim, "resource"), *slash = NULL;
    size_t i = 0;
    struct job *j = NULL;

    while (i < COUNT_OF(kinds) && !str_eq(kinds[i].name, kind))
        i++;
    j = i < COUNT_OF(kinds) ? job_new(r, kinds[i].kind, kinds[i].trigger)
                            : job_new(r, KIND_TASK, "pool_task_claimed");
    j->task_id = need_copy(task_id);
    j->token = json_int(claim, "token");
    j->ttl_ms = json_int(claim, "ttlMs");
    need_push(j->tokens, json_integer(j->token));
    if (j->kind == KIND_INBOX)
        j->json = list_of("messages", json_pack("{s:s, s:O}", "id", resource, "claim", claim));
    else if (j->kind == KIND_FINISHED)
        j->json = list_of("tasks", json_pack("{s:s}", "id", resource));
    else if (j->kind == KIND_MENTIONS && (slash = strchr(resource, '/')) != NULL)
        j->json = list_of("claimedChannels", json_string(slash + 1));
    if (i == COUNT_OF(kinds) && task_id == NULL)
        report_unlock(j, resource);
    else
        report_let_go(j, reason);
}

/* may_be_used: by a command, or by a job that is about to be, of a claim that was seen at `since`.
 * Tokens grow: a claim older than that of a command cannot have been made by the command. */
static bool may_be_used(const struct runner *r, int64_t token, int64_t since)
{
    if (r->asking && r->asked_ms <= since)
        return true;
    for (const struct job *j = r->jobs; j != NULL; j = j->next)
        if ((j->state == JOB_RUNNING || j->state == JOB_LEAVING) && j->token < token)
            return true;
    return false;
}

static void give_back_strays(struct runner *r, const struct call *c)
{
    const json_t *claims = json_object_get(c->answer.json, "claims");
    json_t *strays = need_json(json_object()), *claim = NULL;
    char name[32] = "";
    int64_t token = 0, since = 0;

    for (size_t i = 0; i < json_array_size(claims); i++) {
        claim = json_array_get(claims, i);
        token = json_int(claim, "token");
        if (is_known(r, token))
            continue;
        snprintf(name, sizeof name, "%" PRId64, token);
        since = json_int(r->strays, name);
        since = since > 0 ? since : c->back_ms;
        if (may_be_used(r, token, since))
            need_int(strays, name, since);
        else
            give_back(r, claim, r->unsure ? "unanswered" : "left_behind");
    }
    json_decref(r->strays);
    r->strays = strays;
}

/* ---- heartbeats ------------------------------------------------------------------------------ */

int64_t beat_every_ms(const struct runner *r)
{
    int64_t every = BEAT_MS_MAX;

    for (const struct job *j = r->jobs; j != NULL; j = j->next)
        if (j->ttl_ms > 0 && j->ttl_ms / 3 < every)
            every = j->ttl_ms / 3;
    return every > BEAT_MS_MIN ? every : BEAT_MS_MIN;
}

static void on_beat(struct runner *r, struct call *c)
{
    struct job *next = NULL;

    r->beating = false;
    if (r->ending)
        return;
    runner_heard(r, c);
    if (call_failed(c)) {
        r->beat_at_ms = now_ms() + r->pause_ms;
        return;
    }
    if (c->answer.status == DIBS_SESSION_NOT_FOUND) {
        session_register(r);
        return;
    }
    r->beat_at_ms = c->sent_ms + beat_every_ms(r);
    if (c->answer.status != DIBS_OK) {
        runner_news(r, "refused", NULL, NULL, true, "the heartbeat was refused: %s",
                    call_message(c));
        return;
    }
    for (struct job *j = r->jobs; j != NULL; j = next) {
        next = j->next;
        compare(j, c);
    }
    give_back_strays(r, c);
    r->unsure = false;
}

static void send_beat(struct runner *r)
{
    struct buf path;
    struct call *c = NULL;

    buf_init(&path, BODY_BYTES_MAX);
    buf_text(&path, "/api/sessions/");
    client_encode(&path, r->session);
    buf_text(&path, "/heartbeat");
    c = call_new("POST", need_detach(&path), NULL, on_beat);
    c->urgent = true;
    r->beating = true;
    runner_tell(r, c);
}

void beat_on_time(struct runner *r, int64_t at)
{
    int64_t every = beat_every_ms(r);

    if (r->beat_at_ms > at + every) /* a shorter lease has come along */
        r->beat_at_ms = at + every;
    if (r->beating || at < r->beat_at_ms)
        return;
    if (r->known)
        send_beat(r);
    else
        session_register(r);
}

int64_t beat_due_ms(const struct runner *r)
{
    return r->beating ? INT64_MAX : r->beat_at_ms;
}
