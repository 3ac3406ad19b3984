/* SPDX-License-Identifier: MIT */
/*
 * hook.c: deliveries of Slack and GitHub, from the request to the answer.
 *
 *     is there a secret? 404 -> signature 401 -> content type 415 -> what it says 400 -> the store
 *
 *   1. Nothing of a request is looked at before its signature was found right.
 *   2. What counts is answered when it is on disk, within the time that both services wait; what is
 *      ignored is answered with 200 as well, or it would come again.
 *   3. A caller that hangs up changes nothing: the delivery is taken in, and a repeat finds it.
 */
#include "hook.h"

#include <strings.h>

#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "server_private.h"

#define SAY_EVERY_MS 10000

/* One of the services. */
struct hook_source {
    enum metrics_hook_source number;
    const char *name, *path;
    const char *setting, *environment; /* of the secret */
    size_t secret_at;
    dibs_status (*verify)(const char *secret, const struct http_request *r, struct dibs_error *err);
    dibs_status (*read)(dibs_arena *a, const struct dibs_hook_settings *set,
                        const struct http_request *r, struct hook_event *out,
                        struct dibs_error *err);
    const char *type_advice;
};

static struct hook_body body_of(const struct http_request *r)
{
    return (struct hook_body){.bytes = r->body, .count = r->body_bytes};
}

static dibs_status verify_slack(const char *secret, const struct http_request *r,
                                struct dibs_error *err)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    return hook_slack_verify(secret, http_header(r, "x-slack-request-timestamp"),
                             http_header(r, "x-slack-signature"), body_of(r), now.tv_sec, err);
}

static dibs_status verify_github(const char *secret, const struct http_request *r,
                                 struct dibs_error *err)
{
    return hook_github_verify(secret, http_header(r, "x-hub-signature-256"), body_of(r), err);
}

static dibs_status read_slack(dibs_arena *a, const struct dibs_hook_settings *set,
                              const struct http_request *r, struct hook_event *out,
                              struct dibs_error *err)
{
    return hook_slack_read(a, set, body_of(r), out, err);
}

static dibs_status read_github(dibs_arena *a, const struct dibs_hook_settings *set,
                               const struct http_request *r, struct hook_event *out,
                               struct dibs_error *err)
{
    return hook_github_read(a, set, http_header(r, "x-github-event"),
                            http_header(r, "x-github-delivery"), body_of(r), out, err);
}

static const struct hook_source sources[] = {
    {METRICS_SLACK, "slack", "/hooks/slack", "slackSigningSecret", "DIBS_SLACK_SIGNING_SECRET",
     offsetof(struct dibs_hook_settings, slack_signing_secret), verify_slack, read_slack,
     "this is the address for Event Subscriptions, not for commands or interactivity"},
    {METRICS_GITHUB, "github", "/hooks/github", "githubSecret", "DIBS_GITHUB_SECRET",
     offsetof(struct dibs_hook_settings, github_secret), verify_github, read_github,
     "set the content type of the webhook to application/json"},
};

static const struct hook_source *find(const char *path)
{
    for (size_t i = 0; i < COUNT_OF(sources); i++)
        if (str_eq(sources[i].path, path))
            return &sources[i];
    return NULL;
}

bool hook_is(const char *path)
{
    return str_starts(path, "/hooks/") && find(path) != NULL;
}

/* ---- refusing -------------------------------------------------------------------------------- */

static void refuse(struct server *s, struct conn *c, const struct hook_source *from,
                   const struct dibs_error *err, enum metrics_hook_end end, const char *headers)
{
    int64_t now_ms = server_us() / 1000;
    bool quiet = s->hook_said_ms != 0 && now_ms - s->hook_said_ms < SAY_EVERY_MS;
    if (end != METRICS_HOOK_OFF) /* anybody can send what is refused: the log must not grow by it */
        log_line(quiet ? LOG_DEBUG : LOG_WARN, "a delivery for %s is refused: %s", from->path,
                 err->message);
    if (end != METRICS_HOOK_OFF && !quiet)
        s->hook_said_ms = now_ms;
    metrics_hook(s->metrics, from->number, end);
    dispatch_refuse(c, err->code, err, headers);
}

static dibs_status check_type(const struct hook_source *from, const struct http_request *r,
                              struct dibs_error *err)
{
    static const char json[] = "application/json";
    const char *type = http_header(r, "content-type");
    size_t bytes = type != NULL ? strcspn(type, "; \t") : 0;
    if (bytes == sizeof json - 1 && strncasecmp(type, json, bytes) == 0)
        return DIBS_OK;
    return error_set(err, DIBS_UNSUPPORTED_MEDIA_TYPE,
                     "the delivery must be application/json, not '%.60s'; %s",
                     type != NULL ? type : "", from->type_advice);
}

/* check: everything up to the signature; false when it was answered. */
static bool check(struct server *s, struct conn *c, const struct hook_source *from,
                  const struct http_request *r)
{
    const char *secret = (const char *)&s->hooks + from->secret_at;
    struct dibs_error err = {0};
    if (!str_eq(r->method, "POST")) {
        error_set(&err, DIBS_METHOD_NOT_ALLOWED, "'%s' takes POST only", from->path);
        refuse(s, c, from, &err, METRICS_HOOK_OFF, "Allow: POST\r\n");
    } else if (secret[0] == '\0') {
        error_set(&err, DIBS_NOT_FOUND,
                  "this daemon takes nothing from %s: set %s in the file 'config' of its data "
                  "folder, or %s in its environment",
                  from->name, from->setting, from->environment);
        refuse(s, c, from, &err, METRICS_HOOK_OFF, NULL);
    } else if (from->verify(secret, r, &err) != DIBS_OK) {
        refuse(s, c, from, &err,
               err.code == DIBS_UNAUTHORIZED ? METRICS_HOOK_UNSIGNED : METRICS_HOOK_FAILED,
               err.code == DIBS_UNAUTHORIZED ? "WWW-Authenticate: Signature\r\n"
                                             : "Retry-After: 1\r\n");
    } else if (check_type(from, r, &err) != DIBS_OK) {
        refuse(s, c, from, &err, METRICS_HOOK_INVALID, NULL);
    } else {
        return true;
    }
    return false;
}

/* ---- what needs no store --------------------------------------------------------------------- */

static void answer_json(struct conn *c, struct buf *body)
{
    bool made = buf_ok(body);
    conn_answer(c, &(struct answer){.status = made ? 200 : 503,
                                    .body = made ? body : NULL,
                                    .headers = made ? NULL : "Retry-After: 1\r\n"});
    buf_release(body);
}

static void answer_at_once(struct conn *c, const struct hook_event *event)
{
    struct buf body;
    struct jw w;
    buf_init(&body, DESCRIPTION_BYTES_MAX * 8);
    jw_init(&w, &body);
    jw_object(&w);
    jw_kbool(&w, "success", true);
    if (event->kind == HOOK_CHALLENGE) {
        jw_ktext(&w, "challenge", event->challenge);
    } else {
        jw_kbool(&w, "ignored", true);
        jw_ktext(&w, "reason", event->why);
    }
    jw_object_end(&w);
    answer_json(c, &body);
}

/* ---- by way of the writer -------------------------------------------------------------------- */

struct arrival {
    struct job job;
    struct server *s;
    struct conn *c;
    struct asked asked;
    const struct hook_source *from;
    dibs_arena *a; /* of the event */
    struct hook_event event;
    dibs_status status;
    struct dibs_error err;
    struct dibs_delivered done;
    char id[ID_BYTES_MAX + 1]; /* of the message or task */
};

static void arrive(struct job *job, dibs *d, dibs_arena *a)
{
    struct arrival *x = (struct arrival *)job;
    bool is_task = x->event.kind == HOOK_TASK;
    x->status =
        dibs__deliver_once(d, a,
                           &(struct dibs_delivery){.source = x->from->name,
                                                   .id = x->event.id,
                                                   .subject = x->event.subject,
                                                   .message = is_task ? NULL : &x->event.message,
                                                   .task = is_task ? &x->event.task : NULL},
                           &x->done, &x->err);
    if (x->status == DIBS_OK)
        str_fit(x->id, sizeof x->id, is_task ? x->done.task_id : x->done.message_id);
}

static void lose(struct job *job, const struct dibs_error *err)
{
    struct arrival *x = (struct arrival *)job;
    x->status = err->code;
    x->err = *err;
}

static void answer_arrival(struct arrival *x)
{
    struct buf body;
    struct jw w;
    buf_init(&body, DESCRIPTION_BYTES_MAX);
    jw_init(&w, &body);
    jw_object(&w);
    jw_kbool(&w, "success", true);
    if (x->done.repeated)
        jw_kbool(&w, "duplicate", true);
    else
        jw_ktext(&w, x->event.kind == HOOK_TASK ? "taskId" : "messageId", x->id);
    jw_object_end(&w);
    answer_json(x->c, &body);
}

static void tell(struct arrival *x)
{
    enum metrics_hook_end end = x->done.repeated             ? METRICS_HOOK_DUPLICATE
                                : x->event.kind == HOOK_TASK ? METRICS_HOOK_TASK
                                                             : METRICS_HOOK_MESSAGE;
    if (x->status != DIBS_OK) {
        bool ours = dibs_status_is_failure(x->status);
        refuse(x->s, x->c, x->from, &x->err, ours ? METRICS_HOOK_FAILED : METRICS_HOOK_INVALID,
               ours ? "Retry-After: 1\r\n" : NULL);
        return;
    }
    if (x->done.agent_unknown)
        log_line(LOG_WARN, "agent '%s' of hookAgent is not known; the leads get message '%s'",
                 x->event.message.agent_id, x->id);
    log_line(LOG_INFO, "%s: delivery '%s' %s", x->from->name, x->event.id,
             x->done.repeated ? "came before" : "taken in");
    metrics_hook(x->s->metrics, x->from->number, end);
    answer_arrival(x);
}

static void arrived(struct job *job)
{
    struct arrival *x = (struct arrival *)job;
    conn_set_data(x->c, &x->asked);
    tell(x);
    if (conn_data(x->c) == &x->asked) /* else the next request has begun meanwhile */
        conn_set_data(x->c, NULL);
    x->s->jobs_out--;
    conn_drop(x->c);
    dibs_arena_free(x->a);
    mem_free(x);
}

static void submit(struct arrival *x)
{
    x->job = (struct job){.run = arrive, .done = arrived, .lost = lose};
    x->status = error_set(&x->err, DIBS_STORE_BUSY, "there is too much to do; try again");
    conn_set_data(x->c, &x->asked);
    x->s->jobs_out++;
    if (!writer_submit(x->s->writer, &x->job))
        arrived(&x->job);
}

void hook_answer(struct server *s, struct conn *c, const struct asked *asked)
{
    const struct hook_source *from = find(asked->r->path);
    if (!check(s, c, from, asked->r))
        return;
    struct arrival *x = mem_alloc(sizeof *x);
    struct hook_event event = {0};
    struct dibs_error err = {0};
    dibs_arena *a = x != NULL ? dibs_arena_new() : NULL;
    dibs_status status = a != NULL ? from->read(a, &s->hooks, asked->r, &event, &err)
                                   : error_set(&err, DIBS_OUT_OF_MEMORY, "out of memory");
    if (status == DIBS_OK && (event.kind == HOOK_MESSAGE || event.kind == HOOK_TASK)) {
        *x = (struct arrival){
            .s = s, .c = conn_hold(c), .asked = *asked, .from = from, .a = a, .event = event};
        submit(x);
        return;
    }
    if (status != DIBS_OK) {
        bool ours = dibs_status_is_failure(status);
        refuse(s, c, from, &err, ours ? METRICS_HOOK_FAILED : METRICS_HOOK_INVALID,
               ours ? "Retry-After: 1\r\n" : NULL);
    } else {
        metrics_hook(s->metrics, from->number, METRICS_HOOK_IGNORED);
        answer_at_once(c, &event);
    }
    dibs_arena_free(a);
    mem_free(x);
}
