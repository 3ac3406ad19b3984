/* SPDX-License-Identifier: MIT */
/*
 * session.c: who a runner is: an agent, if it was given a name, and a session of this process.
 *
 * There is one session from the beginning to the end, which holds whatever was handed out. If the
 * process dies, the store sees it, and everything is free. A store that does not know the session
 * any more is told of it again.
 */
#include <unistd.h>

#include "runner_private.h"

#include "base/str.h"

static json_t *session_body(const struct runner *r)
{
    json_t *body = need_json(json_object());
    char host[WORD_BYTES_MAX + 1] = "";

    need_text(body, "id", r->session);
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

dibs_status session_open(struct runner *r, struct dibs_error *err)
{
    struct client_answer answer = {0};
    dibs_status status = r->in->agent != NULL ? register_agent(r, err) : DIBS_OK;

    if (status == DIBS_OK)
        status = ask(r, "/api/sessions", session_body(r), &answer, err);
    client_answer_release(&answer);
    r->known = status == DIBS_OK;
    r->beat_at_ms = now_ms() + beat_every_ms(r);
    return status;
}

static void on_registered(struct runner *r, struct call *c)
{
    r->beating = false;
    runner_heard(r, c);
    r->known = !call_failed(c) && c->answer.status == DIBS_OK;
    r->beat_at_ms = now_ms() + (call_failed(c) ? r->pause_ms : 0);
    if (!call_failed(c) && !r->known)
        runner_break(r, c->answer.status, call_message(c));
}

void session_register(struct runner *r)
{
    struct call *c = call_new("POST", need_copy("/api/sessions"), session_body(r), on_registered);

    c->urgent = true;
    r->known = false;
    r->beating = true;
    runner_tell(r, c);
}
