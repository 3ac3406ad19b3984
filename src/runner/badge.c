/* SPDX-License-Identifier: MIT */
/*
 * badge.c: the sessions that a runner asks as.
 *
 * Usually there is one, from the beginning to the end. But of what a poll hands out, a review and
 * notices can only be given back by ending the session that holds them. So a session that was given
 * such a trigger is retired: the next request comes from a new one, and the old one is ended as
 * soon as its jobs are over, which puts back whatever they have not settled.
 *
 *   1. All of them are sessions of this process: if it dies, everything is free.
 *   2. A retired session is renewed for as long as it has jobs.
 */
#include <unistd.h>

#include "runner_private.h"

#include "base/str.h"

/* ---- registering ----------------------------------------------------------------------------- */

static json_t *session_body(const struct runner *r, const struct badge *b)
{
    json_t *body = need_json(json_object());
    char host[WORD_BYTES_MAX + 1] = "";

    need_text(body, "id", b->id);
    need_text(body, "agentType", "runner");
    need_int(body, "pid", getpid());
    need_text(body, "project", r->in->project);
    if (r->agent_id[0] != '\0')
        need_text(body, "agentId", r->agent_id);
    /* a daemon elsewhere would take the process for one of its own */
    if (r->data_dir == NULL && gethostname(host, sizeof host - 1) == 0 && host[0] != '\0')
        need_text(body, "host", host);
    return body;
}

/* ask: one request before the loop runs; the answer's JSON is to be released. */
static dibs_status ask(struct runner *r, const char *path, json_t *body,
                       struct client_answer *answer, struct dibs_error *err)
{
    const char *message = NULL;
    dibs_status status = client_call(
        r->tell.client, &(struct client_request){.method = "POST", .path = path, .body = body},
        answer, err);

    json_decref(body);
    if (status == DIBS_OK && answer->status != DIBS_OK) {
        message = json_text(answer->json, "message");
        status = error_set(err, answer->status, "%s",
                           message != NULL ? message : dibs_status_sentence(answer->status));
    }
    return status;
}

static dibs_status register_agent(struct runner *r, struct dibs_error *err)
{
    struct client_answer answer = {0};
    json_t *body = need_json(json_object());
    dibs_status status = DIBS_OK;
    const char *id = NULL;

    need_text(body, "name", r->in->agent);
    need_text(body, "project", r->in->project);
    need_int(body, "maxTasks", r->in->max);
    status = ask(r, "/api/agents", body, &answer, err);
    id = json_text(json_object_get(answer.json, "agent"), "id");
    if (status == DIBS_OK)
        str_fit(r->agent_id, sizeof r->agent_id, id != NULL ? id : r->in->agent);
    client_answer_release(&answer);
    return status;
}

static struct badge *new_badge(struct runner *r)
{
    struct badge *b = need_alloc(sizeof *b);

    if (r->badge_count++ == 0)
        str_fit(b->id, sizeof b->id, r->session);
    else
        snprintf(b->id, sizeof b->id, "%s.%" PRId64, r->session, r->badge_count % 1000000000);
    b->next = r->badges;
    r->badges = b;
    return b;
}

dibs_status badge_first(struct runner *r, struct dibs_error *err)
{
    struct client_answer answer = {0};
    dibs_status status = r->in->agent != NULL ? register_agent(r, err) : DIBS_OK;
    struct badge *b = new_badge(r);

    if (status == DIBS_OK)
        status = ask(r, "/api/sessions", session_body(r, b), &answer, err);
    client_answer_release(&answer);
    b->known = status == DIBS_OK;
    b->beat_at_ms = now_ms() + beat_every_ms(r);
    return status;
}

static void on_registered(struct runner *r, struct call *c)
{
    struct badge *b = c->badge;

    b->busy = false;
    runner_heard(r, c);
    b->known = !call_failed(c) && c->answer.status == DIBS_OK;
    b->beat_at_ms = now_ms() + (call_failed(c) ? r->pause_ms : 0);
    if (!call_failed(c) && !b->known)
        runner_break(r, c->answer.status, call_message(c));
}

void badge_register(struct runner *r, struct badge *b)
{
    struct call *c =
        call_new("POST", need_copy("/api/sessions"), session_body(r, b), on_registered);

    c->badge = b;
    c->urgent = true;
    b->known = false;
    b->busy = true;
    runner_tell(r, c);
}

void badge_change(struct runner *r)
{
    r->badges->retired = true;
    badge_register(r, new_badge(r));
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void on_ended(struct runner *r, struct call *c)
{
    struct badge **at = &r->badges, *b = c->badge;

    b->busy = false;
    runner_heard(r, c);
    if (call_failed(c)) {
        b->beat_at_ms = now_ms() + r->pause_ms;
        return;
    }
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    mem_free(b);
}

static void end_badge(struct runner *r, struct badge *b)
{
    struct buf path;
    struct call *c = NULL;

    buf_init(&path, BODY_BYTES_MAX);
    buf_text(&path, "/api/sessions/");
    client_encode(&path, b->id);
    c = call_new("DELETE", need_detach(&path), NULL, on_ended);
    c->badge = b;
    b->busy = true;
    runner_tell(r, c);
}

void badge_free_all(struct runner *r)
{
    while (r->badges != NULL) {
        struct badge *b = r->badges;
        r->badges = b->next;
        mem_free(b);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

static bool is_done(const struct badge *b)
{
    return b->retired && b->jobs == 0;
}

void badge_on_time(struct runner *r, int64_t at)
{
    int64_t every = beat_every_ms(r);

    for (struct badge *b = r->badges; b != NULL; b = b->next) {
        if (b->beat_at_ms > at + every) /* a shorter lease has come along */
            b->beat_at_ms = at + every;
        if (b->busy)
            continue;
        if (is_done(b) && (at >= b->beat_at_ms || !r->away))
            end_badge(r, b);
        else if (at >= b->beat_at_ms && b->known)
            beat_send(r, b);
        else if (at >= b->beat_at_ms)
            badge_register(r, b);
    }
}

int64_t badge_due_ms(const struct runner *r)
{
    int64_t due = INT64_MAX;

    for (const struct badge *b = r->badges; b != NULL; b = b->next)
        if (!b->busy && b->beat_at_ms < due)
            due = b->beat_at_ms;
    return due;
}
