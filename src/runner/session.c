/* SPDX-License-Identifier: MIT */
/*
 * session.c: who a runner is: an agent, if it was given a name, and a session of this process.
 *
 * There is one session from the beginning to the end, which holds whatever was handed out. If the
 * process dies, the store sees it, and everything is free. It is nobody else's: one that belongs to
 * another process that lives is refused. A store that does not know the session
 * any more is told of it again.
 */
#include <stdlib.h>
#include <unistd.h>

#include "runner_private.h"

#include "base/str.h"
#include "base/timefmt.h"

#define HTTP_CREATED 201

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
static dibs_status ask(struct runner *r, const char *method, const char *path, json_t *body,
                       struct client_answer *answer, struct dibs_error *err)
{
    const char *message = NULL;
    dibs_status status = client_call(
        r->tell.client, &(struct client_request){.method = method, .path = path, .body = body},
        answer, err);

    json_decref(body);
    if (status == DIBS_OK && answer->status != DIBS_OK) {
        message = json_text(answer->json, "message");
        status = error_set(err, answer->status, "%s",
                           message != NULL ? message : dibs_status_sentence(answer->status));
    }
    return status;
}

/* started_ms: when the process with this pid began, by the clock of now_ms(); -1: there is none. */
static int64_t started_ms(int64_t pid)
{
    char path[40] = "", text[1024] = "", *at = NULL;
    FILE *file = NULL;
    size_t bytes = 0;

    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    file = fopen(path, "re");
    if (file == NULL)
        return -1;
    bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = '\0';
    at = strrchr(text, ')'); /* behind it: the state, which is the 3rd; the start is the 22nd */
    for (int i = 2; i < 22 && at != NULL; i++) {
        at = strchr(at, ' ');
        at = at != NULL ? at + 1 : NULL;
    }
    return at != NULL ? strtoll(at, NULL, 10) * 1000 / sysconf(_SC_CLK_TCK) : -1;
}

/* lives: whether the process that a session was registered for is still there; a process that began
 * later only has its pid. */
static bool lives(int64_t pid, const char *registered_at)
{
    int64_t began = started_ms(pid), wall = dibs_platform_real()->wall_ms(NULL), registered = 0;

    if (began < 0)
        return false;
    if (registered_at == NULL || !time_from_text(registered_at, &registered))
        return true;
    return wall - (now_ms() - began) <= registered + 1000;
}

/* check_unused: refuses a session that is another process's: each would take the claims of the
 * other for its own. */
static dibs_status check_unused(struct runner *r, struct dibs_error *err)
{
    struct client_answer answer = {0};
    struct dibs_error ignored = {0};
    char here[WORD_BYTES_MAX + 1] = "";
    const json_t *session = NULL;
    struct buf path;
    dibs_status status = DIBS_OK;
    int64_t pid = 0;

    buf_init(&path, BODY_BYTES_MAX);
    buf_text(&path, "/api/sessions/");
    client_encode(&path, r->session);
    dibs_platform_real()->host(NULL, here);
    /* what cannot be asked is said when it is registered */
    if (ask(r, "GET", path.data, NULL, &answer, &ignored) == DIBS_OK)
        session = json_object_get(answer.json, "session");
    pid = json_int(session, "pid");
    if (session != NULL && !str_eq(json_text(session, "status"), "ended") && pid > 0 &&
        pid != getpid() && str_eq(json_text(session, "host"), here) &&
        lives(pid, json_text(session, "registeredAt")))
        status = error_set(err, DIBS_INVALID_REQUEST,
                           "session '%s' is in use by process %" PRId64
                           ": give another --session, or none",
                           r->session, pid);
    buf_release(&path);
    client_answer_release(&answer);
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
    if (r->in->max_given)
        need_int(body, "maxTasks", r->in->max); /* else it keeps its own, 1 if it is new */
    status = ask(r, "POST", "/api/agents", body, &answer, err);
    id = json_text(json_object_get(answer.json, "agent"), "id");
    if (status == DIBS_OK)
        str_fit(r->agent_id, sizeof r->agent_id, id != NULL ? id : r->in->agent);
    if (status == DIBS_OK && answer.http == HTTP_CREATED)
        runner_news(r, "agent", NULL, NULL, false, "there was no agent '%s': registered it now",
                    r->in->agent);
    client_answer_release(&answer);
    return status;
}

dibs_status session_open(struct runner *r, struct dibs_error *err)
{
    struct client_answer answer = {0};
    dibs_status status = r->in->session != NULL ? check_unused(r, err) : DIBS_OK;

    if (status == DIBS_OK && r->in->agent != NULL)
        status = register_agent(r, err);
    if (status == DIBS_OK)
        status = ask(r, "POST", "/api/sessions", session_body(r), &answer, err);
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
