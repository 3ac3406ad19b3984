/* SPDX-License-Identifier: MIT */
/*
 * pages.c: what the daemon answers about itself: /healthz (it lives), /readyz (it can write),
 * /metrics, and the description of its API.
 */
#include "server_private.h"

#include "api/openapi.h"
#include "base/json.h"
#include "base/str.h"

static void answer_state(struct conn *c, bool good, const char *state)
{
    struct buf body;
    struct jw w;
    buf_init(&body, 1024);
    jw_init(&w, &body);
    jw_object(&w);
    jw_ktext(&w, "status", state);
    jw_ktext(&w, "version", dibs_version());
    jw_object_end(&w);
    conn_answer(c, &(struct answer){.status = good ? 200 : 503,
                                    .body = &body,
                                    .headers = good ? "Cache-Control: no-store\r\n"
                                                    : "Cache-Control: no-store\r\n"
                                                      "Retry-After: 1\r\n"});
    buf_release(&body);
}

static void healthz(struct server *s, struct conn *c, const struct asked *asked)
{
    (void)s;
    (void)asked;
    answer_state(c, true, "ok");
}

static void readyz(struct server *s, struct conn *c, const struct asked *asked)
{
    struct writer_stats writer = writer_stats(s->writer);
    (void)asked;
    if (s->stopping)
        answer_state(c, false, "stopping");
    else if (writer.failing)
        answer_state(c, false, "the store cannot be written to");
    else
        answer_state(c, true, "ready");
}

static void openapi(struct server *s, struct conn *c, const struct asked *asked)
{
    (void)asked;
    if (s->openapi.len == 0 && !api_openapi(&s->openapi)) {
        struct dibs_error err = {0};
        buf_release(&s->openapi);
        buf_init(&s->openapi, ANSWER_BYTES_MAX);
        error_set(&err, DIBS_OUT_OF_MEMORY, "cannot describe the API: out of memory");
        dispatch_refuse(c, DIBS_OUT_OF_MEMORY, &err, "Retry-After: 1\r\n");
        return;
    }
    conn_answer(c, &(struct answer){.status = 200,
                                    .fixed = s->openapi.data,
                                    .fixed_bytes = s->openapi.len,
                                    .headers = "Cache-Control: no-cache\r\n"});
}

/* ---- metrics, part of which the store counts ------------------------------------------------- */

struct scrape {
    struct job job;
    struct server *s;
    struct conn *c;
    struct asked asked;
    dibs_arena *a;
    struct dibs_stats stats;
    int64_t answers_waiting;
    dibs_status status;
};

static void scrape_run(struct job *job, dibs *d, dibs_arena *a)
{
    struct scrape *x = (struct scrape *)job;
    struct dibs_error err = {0};
    (void)a;
    x->status = dibs_stats(d, x->a, &x->stats, &err);
    if (x->status == DIBS_OK)
        x->status = dibs__outgoing_waiting(d, x->a, &x->answers_waiting, &err);
}

static void scrape_lost(struct job *job, const struct dibs_error *err)
{
    ((struct scrape *)job)->status = err->code;
}

static void scrape_done(struct job *job)
{
    struct scrape *x = (struct scrape *)job;
    struct server *s = x->s;
    struct buf body;
    struct metrics_now now = {.writer = writer_stats(s->writer),
                              .sse = sse_stats(s->sse),
                              .readers_queued = readers_queued(s->readers),
                              .store = x->status == DIBS_OK ? &x->stats : NULL,
                              .uptime_ms = server_us() / 1000 - s->started_ms,
                              .sender = sender_stats(s->sender),
                              .answers_waiting = x->answers_waiting};
    buf_init(&body, ANSWER_BYTES_MAX);
    metrics_render(s->metrics, &now, &body);
    char headers[sizeof x->asked.headers + 32];
    snprintf(headers, sizeof headers, "Cache-Control: no-store\r\n%s", x->asked.headers);
    conn_set_data(x->c, &x->asked);
    conn_answer(x->c, &(struct answer){.status = buf_ok(&body) ? 200 : 503,
                                       .content_type = "text/plain; version=0.0.4; charset=utf-8",
                                       .body = &body,
                                       .headers = headers});
    if (conn_data(x->c) == &x->asked) /* else the next request has begun meanwhile */
        conn_set_data(x->c, NULL);
    s->jobs_out--;
    buf_release(&body);
    conn_drop(x->c);
    dibs_arena_free(x->a);
    mem_free(x);
}

static void metrics(struct server *s, struct conn *c, const struct asked *asked)
{
    struct scrape *x = mem_alloc(sizeof *x);
    dibs_arena *a = x != NULL ? dibs_arena_new() : NULL;
    struct dibs_error err = {0};
    if (a != NULL) {
        *x = (struct scrape){.job = {.run = scrape_run, .done = scrape_done, .lost = scrape_lost},
                             .s = s,
                             .c = conn_hold(c),
                             .asked = *asked,
                             .a = a,
                             .status = DIBS_STORE_BUSY};
        conn_set_data(c, &x->asked);
        s->jobs_out++;
        if (readers_submit(s->readers, &x->job))
            return;
        scrape_done(&x->job); /* what we count ourselves can still be told */
        return;
    }
    mem_free(x);
    error_set(&err, DIBS_OUT_OF_MEMORY, "cannot count: out of memory");
    dispatch_refuse(c, DIBS_OUT_OF_MEMORY, &err, "Retry-After: 1\r\n");
}

static const struct own_page pages[] = {
    {"/healthz", true, healthz},      {"/readyz", true, readyz},
    {"/metrics", false, metrics},     {"/api/openapi.json", true, openapi},
    {"/openapi.json", true, openapi},
};

const struct own_page *own_page_find(const char *path)
{
    for (size_t i = 0; i < COUNT_OF(pages); i++)
        if (str_eq(pages[i].path, path))
            return &pages[i];
    return NULL;
}
