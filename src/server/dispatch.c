/* SPDX-License-Identifier: MIT */
/*
 * dispatch.c: from a whole request to whoever answers it.
 *
 *     request -> may it? (auth) -> page of ours | asset | event stream | operation (call.c)
 *        \-> webhook (hook.c), which proves itself by its signature
 *
 * Nothing is looked at, and nothing learnt from an answer, before auth has said yes; only health,
 * the page and the description of the API need no key.
 */
#include "server_private.h"

#include "api/encode.h"
#include "asset.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "base/timefmt.h"
#include "hook.h"

int64_t server_us(void)
{
    return (int64_t)(uv_hrtime() / 1000);
}

void dispatch_refuse(struct conn *c, dibs_status status, const struct dibs_error *err,
                     const char *headers)
{
    struct api_response out = {0};
    api_refusal(status, err, &out);
    conn_answer(c, &(struct answer){.status = out.http, .body = &out.body, .headers = headers});
    buf_release(&out.body);
}

/* ---- what kind of request it is -------------------------------------------------------------- */

static bool wants_stream(const struct http_request *r)
{
    const char *accept = http_header(r, "accept");
    return accept == NULL || strstr(accept, "text/event-stream") != NULL ||
           strstr(accept, "application/json") == NULL;
}

/* refuse_unknown: no such path, or not with this method; says which it takes. */
static void refuse_unknown(struct server *s, struct conn *c, const struct http_request *r,
                           const char *headers)
{
    struct api_response out = {0};
    struct api_request in = {.method = r->method, .path = r->path, .query = r->query};
    char more[512];
    api_call(NULL, s->arena, &in, &out);
    dibs_arena_reset(s->arena);
    str_fit(more, sizeof more, headers);
    const char *allow = out.status == DIBS_METHOD_NOT_ALLOWED && out.body.len > 0
                            ? strstr(out.body.data, "\"allow\":\"")
                            : NULL;
    if (allow != NULL) {
        size_t used = strlen(more);
        allow += strlen("\"allow\":\"");
        snprintf(more + used, sizeof more - used, "Allow: %.*s\r\n", (int)strcspn(allow, "\""),
                 allow);
    }
    conn_answer(c, &(struct answer){.status = out.http, .body = &out.body, .headers = more});
    buf_release(&out.body);
}

static void refuse_method(struct conn *c, const char *path)
{
    struct dibs_error err = {0};
    error_set(&err, DIBS_METHOD_NOT_ALLOWED, "'%s' takes GET only", path);
    dispatch_refuse(c, DIBS_METHOD_NOT_ALLOWED, &err, "Allow: GET, HEAD\r\n");
}

/* refuse_scoped: numbers of the whole store are not for a key of one project. */
static void refuse_scoped(struct conn *c, const char *path, const char *headers)
{
    struct dibs_error err = {0};
    error_set(&err, DIBS_FORBIDDEN, "'%s' tells of all projects, and the API key is limited to one",
              path);
    dispatch_refuse(c, DIBS_FORBIDDEN, &err, headers);
}

struct destination {
    const char *method; /* HEAD is answered as GET, without the body */
    const struct own_page *page;
    bool is_asset, is_hook;
    const struct api_operation *op;
};

static struct destination find(const struct http_request *r)
{
    struct destination to = {.method = str_eq(r->method, "HEAD") ? "GET" : r->method};
    to.op = str_starts(r->path, "/api/") ? api_find(to.method, r->path) : NULL;
    if (to.op != NULL && to.op->access == API_WRITES && !str_eq(to.method, r->method))
        to.op = NULL; /* HEAD promises to change nothing */
    if (to.op == NULL)
        to.page = own_page_find(r->path);
    to.is_hook = to.op == NULL && to.page == NULL && hook_is(r->path);
    to.is_asset = to.op == NULL && to.page == NULL && !to.is_hook && asset_exists(r->path);
    return to;
}

/* stream: events until somebody hangs up; who asked for them is kept as long. */
static void stream(struct server *s, struct conn *c, const struct asked *asked, const char *project)
{
    struct asked *kept = mem_alloc(sizeof *kept);
    struct dibs_error err = {0};
    if (kept == NULL) {
        error_set(&err, DIBS_OUT_OF_MEMORY, "cannot send events: out of memory");
        dispatch_refuse(c, DIBS_OUT_OF_MEMORY, &err, "Retry-After: 1\r\n");
        return;
    }
    *kept = *asked;
    kept->is_kept = true;
    conn_set_data(c, kept);
    conn_set_headers(c, kept->headers);
    sse_request(s->sse, c, asked->r, project);
    if (conn_data(c) == kept && !sse_owns(s->sse, c)) {
        conn_set_headers(c, NULL);
        conn_set_data(c, NULL);
        mem_free(kept);
    }
}

static void answer(struct server *s, struct conn *c, struct asked *asked,
                   const struct destination *to, const struct auth_verdict *who)
{
    const struct http_request *r = asked->r;
    bool is_get = str_eq(to->method, "GET");
    if (to->page != NULL && !to->page->is_public && who->identity.project != NULL)
        refuse_scoped(c, r->path, who->headers);
    else if ((to->page != NULL || to->is_asset) && !is_get)
        refuse_method(c, r->path);
    else if (to->page != NULL)
        to->page->answer(s, c, asked);
    else if (to->is_asset)
        asset_answer(c, r);
    else if (to->op == NULL)
        refuse_unknown(s, c, r, who->headers);
    else if (str_eq(to->op->name, "events") && wants_stream(r) && str_eq(r->method, "GET"))
        stream(s, c, asked, who->identity.project);
    else
        call_submit(s, c, asked, who);
}

void dispatch(struct conn *c, const struct http_request *r)
{
    struct server *s = conn_server(c);
    struct asked asked = {.r = r, .begun_us = server_us()};
    struct destination to = find(r);
    struct auth_verdict who = {0};
    bool is_public = to.is_asset || (to.page != NULL && to.page->is_public);
    asked.op = to.op;
    conn_set_data(c, &asked);
    if (to.is_hook) { /* its signature is the proof */
        hook_answer(s, c, &asked);
        if (conn_data(c) == &asked)
            conn_set_data(c, NULL);
        return;
    }
    auth_check(s->auth, r, conn_kind_of(c), conn_is_loopback(c),
               to.op != NULL ? to.op->scope : API_READER, is_public, asked.begun_us / 1000, &who);
    str_fit(asked.key_id, sizeof asked.key_id, who.identity.key_id);
    str_fit(asked.headers, sizeof asked.headers, who.headers);
    if (who.status != DIBS_OK)
        dispatch_refuse(c, who.status, &who.err, who.headers);
    else
        answer(s, c, &asked, &to, &who);
    if (conn_data(c) == &asked)
        conn_set_data(c, NULL);
}

/* ---- afterwards ------------------------------------------------------------------------------ */

void dispatch_gone(struct conn *c, bool half_closed)
{
    struct server *s = conn_server(c);
    struct asked *asked = conn_data(c);
    if (sse_owns(s->sse, c)) {
        sse_gone(s->sse, c);
        return;
    }
    if (asked == NULL || asked->job == NULL)
        return;
    call_leave(asked, half_closed);
    writer_forget(s->writer);
}

void dispatch_closed(struct conn *c)
{
    struct server *s = conn_server(c);
    struct asked *asked = conn_data(c);
    metrics_connection(s->metrics, -1);
    if (asked == NULL || !asked->is_kept)
        return;
    conn_set_data(c, NULL);
    mem_free(asked);
}

static void log_request(const struct asked *asked, int status, size_t body_bytes, int64_t us)
{
    struct buf line;
    struct jw w;
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    buf_init(&line, 64 * 1024);
    jw_init(&w, &line);
    jw_object(&w);
    jw_ktime(&w, "at", (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    if (asked->r != NULL) { /* else it was refused before it was a request */
        jw_ktext(&w, "method", asked->r->method);
        jw_ktext(&w, "path", asked->r->path);
    }
    jw_ktext_opt(&w, "operation", asked->op != NULL ? asked->op->name : NULL);
    jw_ktext_opt(&w, "key", asked->key_id[0] != '\0' ? asked->key_id : NULL);
    jw_kint(&w, "status", status);
    jw_kint(&w, "bytes", (int64_t)body_bytes);
    jw_kint(&w, "us", us);
    jw_object_end(&w);
    buf_char(&line, '\n');
    if (buf_ok(&line))
        fwrite(line.data, 1, line.len, stdout);
    buf_release(&line);
}

void dispatch_refused(struct conn *c, int status)
{
    struct server *s = conn_server(c);
    metrics_bad_request(s->metrics);
    if (s->o.log_requests)
        log_request(&(struct asked){0}, status, 0, 0);
}

void dispatch_answered(struct conn *c, int status, size_t body_bytes)
{
    struct server *s = conn_server(c);
    const struct asked *asked = conn_data(c);
    if (asked == NULL)
        return;
    int64_t us = server_us() - asked->begun_us;
    metrics_request(s->metrics, asked->op, status, us);
    if (s->o.log_requests)
        log_request(asked, status, body_bytes, us);
}
