/* SPDX-License-Identifier: MIT */
/*
 * sse_stage.h: streams of events to connections that are played here, with a journal and reader
 * threads that move on only when the test says so. So every order of "page delivered" and "step
 * done" can be had, and none depends on time.
 *
 * It defines the conn_*, readers_submit and journal_last that sse.c calls, in place of the real
 * ones: for tests of sse.c and sse_reader.c only, each a program of its own.
 */
#ifndef TEST_SSE_STAGE_H
#define TEST_SSE_STAGE_H

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/follow.h"
#include "core_help.h"
#include "server/sse.h"

/* ---- what is played -------------------------------------------------------------------------- */

struct conn {
    struct buf out;     /* all that was sent, without the head of the stream */
    struct buf refusal; /* the body of conn_answer */
    int status;         /* 200 once the stream has begun */
    size_t pending;
    bool stuck;  /* takes nothing: what is sent stays under way */
    bool breaks; /* the next thing that is sent finds nobody there */
    bool closed, flushed;
    int holds;
    void *stream;
    struct sse *sse;
};

static int64_t journal_at;     /* journal_last */
static struct jobs jobs_there; /* submitted, not yet run */
static bool readers_full;

static bool journal_is_eager;

void journal_set_eager(struct journal *j, bool eager)
{
    (void)j;
    journal_is_eager = eager;
}

int64_t journal_last(const struct journal *j)
{
    (void)j;
    return journal_at;
}

bool readers_submit(struct readers *r, struct job *job)
{
    (void)r;
    if (readers_full)
        return false;
    job->next = NULL;
    *jobs_there.last = job;
    jobs_there.last = &job->next;
    return true;
}

void conn_answer(struct conn *c, struct answer *a)
{
    c->status = a->status;
    buf_append(&c->refusal, a->body->data, a->body->len);
}

static void put(struct conn *c, const char *bytes, size_t count)
{
    if (c->closed)
        return;
    if (c->breaks) {
        c->closed = true;
        sse_gone(c->sse, c);
        return;
    }
    buf_append(&c->out, bytes, count);
    c->pending += c->stuck ? count : 0;
}

void conn_stream_begin(struct conn *c, const char *content_type)
{
    assert_string_equal(content_type, "text/event-stream");
    c->status = 200;
    put(c, "", 0);
}

void conn_send(struct conn *c, struct page *page, const uv_buf_t *parts, unsigned count)
{
    page_drop(page_hold(page));
    for (unsigned i = 0; i < count; i++)
        put(c, parts[i].base, parts[i].len);
}

void conn_send_text(struct conn *c, const char *text, size_t bytes)
{
    put(c, text, bytes);
}

size_t conn_pending(const struct conn *c)
{
    return c->pending;
}

void conn_close(struct conn *c, bool flush)
{
    c->closed = true;
    c->flushed = flush;
}

struct conn *conn_hold(struct conn *c)
{
    c->holds++;
    return c;
}

void conn_drop(struct conn *c)
{
    c->holds--;
}

void conn_set_stream(struct conn *c, void *stream)
{
    c->stream = stream;
}

void *conn_stream(const struct conn *c)
{
    return c->stream;
}

/* ---- the stage ------------------------------------------------------------------------------- */

struct stage {
    struct fixture *f;
    uv_loop_t loop;
    struct sse *sse;
};

static void raise_stage(struct stage *s, struct fixture *f, int64_t keepalive_ms)
{
    *s = (struct stage){.f = f};
    journal_at = 0;
    readers_full = false;
    jobs_there = (struct jobs){.last = &jobs_there.first};
    assert_int_equal(uv_loop_init(&s->loop), 0);
    s->sse = sse_new(&(struct sse_options){.loop = &s->loop, .keepalive_ms = keepalive_ms});
    assert_non_null(s->sse);
}

/* Lets the reader threads do what there is to do, with what follows from it; how many steps. */
static int run_steps(struct stage *s)
{
    int count = 0;
    for (struct job *job = NULL; (job = jobs_there.first) != NULL; count++) {
        jobs_there.first = job->next;
        if (!jobs_there.first)
            jobs_there.last = &jobs_there.first;
        if (!atomic_load(&job->gone)) {
            dibs_arena *a = dibs_arena_new();
            job->run(job, s->f->d, a);
            dibs_arena_free(a);
        }
        job->done(job);
    }
    return count;
}

static void strike_stage(struct stage *s)
{
    sse_stop(s->sse);
    run_steps(s);
    assert_int_equal(sse_stats(s->sse).readers, 0);
    assert_int_equal(uv_run(&s->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&s->loop), 0);
    sse_free(s->sse);
}

static int64_t newest(struct stage *s)
{
    struct dibs_event_list list = {0};
    struct dibs_event_filter end = {.since = INT64_MAX};
    assert_ok(s->f, dibs_events(s->f->d, s->f->a, &end, &list, &s->f->err));
    return list.last;
}

/* The journal thread reads up to `limit` events, of all types or of some, and the loop gets
 * them. */
static void deliver_page(struct stage *s, int64_t limit, struct dibs_strings types)
{
    dibs_arena *a = dibs_arena_new();
    struct dibs_follow in = {.filter = {.since = journal_at, .limit = limit, .types = types}};
    struct dibs_followed got = {0};
    assert_ok(s->f, dibs__follow(s->f->d, a, &in, &got, &s->f->err));
    if (got.through > journal_at) {
        int64_t kept = got.list.first_kept - 1;
        struct page *page =
            page_make(&got.list, kept > journal_at ? kept : journal_at, got.through);
        assert_non_null(page);
        page->is_partial = types.count > 0;
        journal_at = page->through;
        sse_page(s->sse, page);
        page_drop(page);
    }
    dibs_arena_free(a);
}

static void deliver_some(struct stage *s, int64_t limit)
{
    deliver_page(s, limit, (struct dibs_strings){0});
}

static void deliver(struct stage *s)
{
    while (journal_at < newest(s))
        deliver_some(s, JOURNAL_PAGE_EVENTS);
}

static struct conn *conn_new(struct stage *s)
{
    struct conn *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->sse = s->sse;
    buf_init(&c->out, 64 << 20);
    buf_init(&c->refusal, 1 << 20);
    buf_text(&c->out, "");
    buf_text(&c->refusal, "");
    return c;
}

/* A connection ends as the server lets it end. */
static void conn_end(struct stage *s, struct conn *c)
{
    sse_gone(s->sse, c);
    run_steps(s);
    assert_false(sse_owns(s->sse, c));
    assert_int_equal(c->holds, 0);
    buf_release(&c->out);
    buf_release(&c->refusal);
    free(c);
}

/* GET /api/events?query with Last-Event-ID: id, by a key that is limited to a project; each may be
 * NULL. */
static struct conn *ask_as(struct stage *s, const char *query, const char *id, const char *project)
{
    struct conn *c = conn_new(s);
    struct http_header header = {"last-event-id", id};
    struct http_request r = {.method = "GET",
                             .path = "/api/events",
                             .query = query ? query : "",
                             .headers = &header,
                             .header_count = id ? 1 : 0};
    sse_request(s->sse, c, &r, project);
    return c;
}

static struct conn *ask(struct stage *s, const char *query, const char *id)
{
    struct conn *c = ask_as(s, query, id, NULL);
    run_steps(s);
    return c;
}

/* What a client makes of the stream: numbers of events and, as r5, resyncs, with blanks between. */
struct heard {
    char text[4096];
    int64_t last_id;
};
static struct heard listen_to(const struct conn *c)
{
    struct heard h = {0};
    const char *end = NULL;
    size_t length = 0;
    for (const char *at = c->out.data; (end = strstr(at, "\n\n")) != NULL; at = end + 2) {
        char frame[2048] = "\n";
        size_t bytes = (size_t)(end - at);
        snprintf(frame + 1, sizeof frame - 1, "%.*s", (int)(bytes < 2000 ? bytes : 2000), at);
        const char *id = strstr(frame, "\nid: "), *type = strstr(frame, "\nevent: ");
        if (id)
            h.last_id = strtoll(id + 5, NULL, 10);
        if (!type || !strstr(frame, "\ndata: {"))
            continue;
        bool resync = strncmp(type, "\nevent: resync", 14) == 0;
        if (length < sizeof h.text - 32)
            length += (size_t)snprintf(h.text + length, sizeof h.text - length, "%s%s%" PRId64,
                                       length ? " " : "", resync ? "r" : "", h.last_id);
    }
    return h;
}

#define assert_heard(c, expected) assert_string_equal(listen_to(c).text, expected)
#define assert_refused_as(c, http, code, word)                                                     \
    do {                                                                                           \
        assert_int_equal((c)->status, http);                                                       \
        assert_non_null(strstr((c)->refusal.data, "\"success\":false"));                           \
        assert_non_null(strstr((c)->refusal.data, "\"error\":\"" code "\""));                      \
        if (!strstr((c)->refusal.data, word))                                                      \
            fail_msg("no '%s' in %s", word, (c)->refusal.data);                                    \
        assert_string_equal((c)->out.data, "");                                                    \
    } while (0)

static void make_in(struct stage *s, const char *id, const char *project)
{
    make_task_as(s->f, (struct dibs_task_new){.id = id, .title = "a task", .project = project});
}

static void make(struct stage *s, int count)
{
    for (int i = 0; i < count; i++)
        make_in(s, NULL, NULL);
}

#endif
