/* SPDX-License-Identifier: MIT */
/*
 * sse.c: the streams of live events.
 *
 *     opening --opened()--> behind --settle(): caught up--> live
 *         \--refused          ^----give(): events missing----/
 *
 *     behind: advance() -> step on a reader thread -> step_done() -> deliver() -> settle() -> ...
 *     live:   journal page -> sse_page() -> give()
 *
 *  1. A reader's position says: of the events up to here, those that it wants have been handed to
 *     its connection, in order, once; of later ones none. Only deliver() and give() move it on,
 *     together with handing over.
 *  2. Nothing is missed or doubled when a reader becomes live. All of this runs on the loop thread,
 *     where the journal delivers pages that adjoin: journal_last() is J, the next page begins at J.
 *     settle() makes a reader live only when its position P >= J. Each event after P is also after
 *     J, so it is in a page still to come: not missed. Those up to P in these pages (the reader
 *     thread may have seen more than the journal thread) are skipped by number: not doubled. While
 *     it is behind it is given no page of the journal: its next step reads on from P. Between the
 *     comparison and the next page lies no other code, and both ways use the same filter.
 *  3. Should a page begin after the position (pruned before it was read), or be a partial one (read
 *     before anybody read along) that ends after it, the reader falls behind again. Its next step
 *     reads what it has missed, or finds out what is gone and says so: `resync`.
 *  4. Nobody waits for a reader. What is under way to it is at most SSE_PENDING_MAX, or one page
 *     that was begun with nothing under way (a single event may be larger than that).
 *  5. A stream tells the position from time to time in a frame that has only an id, which clients
 *     take over without telling anybody: who has a narrow filter need not look through everything
 *     again when it comes back.
 */
#include "sse_private.h"

#include <assert.h>

#include "api/encode.h"
#include "base/str.h"
#include "core/follow.h"

#define AGAIN_MS 50         /* the reader threads are busy: ask again after that */
#define STEP_ROWS_MAX 20000 /* a step looks at so many events at most: some 20 ms */
#define TICK_MS_MAX 1000

struct sse {
    struct sse_options options;
    struct reader *first;
    int64_t count;
    uv_timer_t tick;  /* keep-alive, and who has stalled; runs while there are readers */
    uv_timer_t again; /* steps that found the reader threads busy */
    dibs_arena *scratch;
    int64_t dropped, sent_events;
    bool stopping;
};

/* A page read for one reader. */
struct step {
    struct job job;
    struct reader *reader;
    struct conn *conn; /* held */
    struct dibs_follow ask;
    dibs_status status;
    struct dibs_error err;
    int64_t first_kept, last;
    struct page *page;
};

static void settle(struct reader *r);

/* ---- coming and leaving ---------------------------------------------------------------------- */

static void attach(struct sse *s, struct reader *r)
{
    r->sse = s;
    r->next = s->first;
    r->link = &s->first;
    if (r->next != NULL)
        r->next->link = &r->next;
    s->first = r;
    if (s->count++ == 0)
        journal_set_eager(s->options.journal, true);
    conn_set_stream(r->conn, r);
}

/* detach: forgets the reader; its connection is the caller's business. */
static struct conn *detach(struct reader *r)
{
    struct conn *c = r->conn;
    struct sse *s = r->sse;
    *r->link = r->next;
    if (r->next != NULL)
        r->next->link = r->link;
    s->count--;
    conn_set_stream(c, NULL);
    r->conn = NULL;
    if (r->step != NULL)
        atomic_store(&r->step->job.gone, true);
    if (s->count == 0) {
        uv_timer_stop(&s->tick);
        journal_set_eager(s->options.journal, false);
    }
    reader_drop(r);
    return c;
}

static void hang_up(struct reader *r, bool flush)
{
    conn_close(detach(r), flush);
}

/* drop: too slow; it may come back and resume. */
static void drop(struct reader *r)
{
    r->sse->dropped++;
    hang_up(r, false);
}

/* refuse: `close`: the connection was set aside for a stream and is of no more use. */
static void refuse(struct conn *c, dibs_status status, const struct dibs_error *err, bool close)
{
    struct buf body;
    struct jw w;
    struct answer a = {.status = dibs_status_http(status), .body = &body, .close = close};
    buf_init(&body, ANSWER_BYTES_MAX);
    jw_init(&w, &body);
    jw_object(&w);
    jw_kbool(&w, "success", false);
    enc_refusal_fields(&w, status, err);
    jw_object_end(&w);
    conn_answer(c, &a);
    buf_release(&body);
}

/* ---- sending --------------------------------------------------------------------------------- */

static void say(struct reader *r, const char *text)
{
    r->told_ms = uv_now(r->sse->options.loop);
    if (r->conn != NULL) /* the head of the stream may have found nobody */
        conn_send_text(r->conn, text, strlen(text));
}

static void send_parts(struct reader *r, struct page *page, const struct reader_parts *p)
{
    r->told_ms = uv_now(r->sse->options.loop);
    r->sse->sent_events += p->events;
    conn_send(r->conn, page, p->parts, p->count);
}

/* say_resync: what came after its position is gone up to `first_kept`. */
static void say_resync(struct reader *r, int64_t first_kept, int64_t last)
{
    char text[512];
    snprintf(text, sizeof text,
             "id: %" PRId64 "\nevent: resync\ndata: {\"firstKept\":%" PRId64 ",\"last\":%" PRId64
             ",\"since\":%" PRId64 ",\"message\":\"events %" PRId64 " to %" PRId64
             " are no longer kept; read the objects afresh\"}\n\n",
             first_kept - 1, first_kept, last, r->position, r->position + 1, first_kept - 1);
    say(r, text);
}

static void begin_stream(struct reader *r)
{
    char text[128];
    r->state = READER_BEHIND;
    snprintf(text, sizeof text, ": dibs events\nretry: %d\nid: %" PRId64 "\n\n", SSE_RETRY_MS,
             r->position);
    conn_stream_begin(r->conn, "text/event-stream");
    say(r, text);
}

/* ---- behind ---------------------------------------------------------------------------------- */

/* read_step: on a reader thread. */
static void read_step(struct job *job, dibs *d, dibs_arena *a)
{
    struct step *step = (struct step *)job;
    struct dibs_followed got = {0};
    step->status = dibs__follow(d, a, &step->ask, &got, &step->err);
    if (step->status != DIBS_OK)
        return;
    step->first_kept = got.list.first_kept;
    step->last = got.list.last;
    step->page = page_make(&got.list, step->ask.filter.since, got.through);
    if (step->page == NULL)
        step->status = error_set(&step->err, DIBS_OUT_OF_MEMORY, "out of memory");
}

/* deliver: a step's page goes to the reader it was made for. */
static void deliver(struct reader *r, const struct step *step)
{
    if (r->position < step->first_kept - 1) {
        say_resync(r, step->first_kept, step->last);
        r->position = step->first_kept - 1;
    }
    if (r->conn != NULL && step->page->count > 0) {
        struct reader_parts all = {.count = 1, .events = (int64_t)step->page->count};
        all.parts[0] = uv_buf_init(step->page->text.data, (unsigned)step->page->text.len);
        send_parts(r, step->page, &all);
    }
    if (r->position < step->page->through)
        r->position = step->page->through;
    settle(r);
}

/* newest: where a reader begins who wants what comes from now on. The journal may not have been
 * delivered so far: pages up to there are then skipped. */
static int64_t newest(const struct sse *s)
{
    int64_t delivered = journal_last(s->options.journal);
    int64_t written = s->options.newest != NULL ? s->options.newest(s->options.context) : 0;
    return written > delivered ? written : delivered;
}

/* opened: the store has said whether the request can be answered. */
static void opened(struct reader *r, struct step *step)
{
    if (step->status == DIBS_OK && r->since_given && r->position > step->last)
        step->status = error_field(&step->err, reader_since_name(r),
                                   "must not be in the future: it is %" PRId64
                                   ", the newest event is %" PRId64,
                                   r->position, step->last);
    if (step->status != DIBS_OK) {
        refuse(detach(r), step->status, &step->err, true);
        return;
    }
    if (!r->since_given)
        r->position = newest(r->sse);
    begin_stream(r);
    if (r->conn != NULL && r->since_given)
        deliver(r, step);
    else
        settle(r);
}

static void step_done(struct job *job)
{
    struct step *step = (struct step *)job;
    struct reader *r = step->reader;
    r->step = NULL;
    if (r->conn == NULL)
        ; /* it has gone meanwhile */
    else if (r->state == READER_OPENING)
        opened(r, step);
    else if (step->status == DIBS_OK)
        deliver(r, step);
    else
        hang_up(r, true); /* the store fails: asked again, it says why */
    conn_drop(step->conn);
    page_drop(step->page);
    reader_drop(r);
    mem_free(step);
}

/* step_lost: what was read never got to disk, so nobody is told. */
static void step_lost(struct job *job, const struct dibs_error *err)
{
    struct step *step = (struct step *)job;
    page_drop(step->page);
    step->page = NULL;
    step->status = err->code;
    step->err = *err;
}

static struct step *step_new(struct reader *r)
{
    struct step *step = mem_alloc(sizeof *step);
    if (step == NULL)
        return NULL;
    step->job = (struct job){.run = read_step, .done = step_done, .lost = step_lost};
    step->reader = r;
    step->conn = r->conn;
    step->ask.filter = r->filter;
    step->ask.bytes_max = JOURNAL_PAGE_BYTES;
    step->ask.rows_max = STEP_ROWS_MAX;
    /* one that begins now only wants to know whether its task is there */
    bool reads = r->since_given || r->state != READER_OPENING;
    step->ask.filter.since = reads ? r->position : INT64_MAX;
    return step;
}

static void on_again(uv_timer_t *timer);

/* advance: asks for the next page unless there is one under way, or enough. */
static void advance(struct reader *r)
{
    struct sse *s = r->sse;
    if (r->conn == NULL || r->step != NULL || r->state == READER_LIVE)
        return;
    if (r->state == READER_BEHIND && conn_pending(r->conn) > SSE_PENDING_LOW)
        return; /* sse_drained comes */
    struct step *step = step_new(r);
    if (step == NULL || !readers_submit(s->options.readers, &step->job)) {
        mem_free(step);
        if (!s->stopping)
            uv_timer_start(&s->again, on_again, AGAIN_MS, 0);
        return;
    }
    /* not touched by the reader thread, and its end comes by way of this loop */
    r->step = step;
    reader_hold(r);
    conn_hold(step->conn);
}

static void on_again(uv_timer_t *timer)
{
    struct sse *s = timer->data;
    for (struct reader *r = s->first, *next = NULL; r != NULL; r = next) {
        next = r->next;
        advance(r);
    }
}

/* settle: live when it has caught up (2), else on to the next step. */
static void settle(struct reader *r)
{
    if (r->conn == NULL)
        return;
    bool caught_up = r->position >= journal_last(r->sse->options.journal);
    r->state = caught_up ? READER_LIVE : READER_BEHIND;
    advance(r);
}

/* ---- live ------------------------------------------------------------------------------------ */

static void give(struct reader *r, struct page *page)
{
    struct reader_parts p;
    int64_t needed = page->is_partial ? page->through : page->since;
    if (needed > r->position) { /* (3) */
        r->state = READER_BEHIND;
        advance(r);
        return;
    }
    reader_parts(r, page, &p);
    size_t pending = p.bytes > 0 ? conn_pending(r->conn) : 0;
    if (pending > 0 && pending + p.bytes > SSE_PENDING_MAX) {
        drop(r);
        return;
    }
    if (r->position < page->through)
        r->position = page->through;
    if (p.bytes > 0)
        send_parts(r, page, &p);
}

void sse_page(struct sse *s, struct page *page)
{
    for (struct reader *r = s->first, *next = NULL; r != NULL; r = next) {
        next = r->next;
        if (r->state == READER_LIVE)
            give(r, page);
    }
}

/* ---- keep-alive ------------------------------------------------------------------------------ */

static void tend(struct reader *r, uint64_t now)
{
    size_t pending = conn_pending(r->conn);
    if (pending == 0 || pending != r->pending_seen) {
        r->pending_seen = pending;
        r->moved_ms = now;
    } else if (now - r->moved_ms >= SSE_STALL_MS) {
        drop(r);
        return;
    }
    if (pending == 0 && now - r->told_ms >= (uint64_t)r->sse->options.keepalive_ms) {
        char text[64];
        snprintf(text, sizeof text, ": keep-alive\nid: %" PRId64 "\n\n", r->position);
        say(r, text);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct sse *s = timer->data;
    uint64_t now = uv_now(s->options.loop);
    for (struct reader *r = s->first, *next = NULL; r != NULL; r = next) {
        next = r->next;
        if (r->state != READER_OPENING)
            tend(r, now);
    }
}

static void start_tick(struct sse *s)
{
    uint64_t ms = (uint64_t)s->options.keepalive_ms / 4;
    ms = ms > TICK_MS_MAX ? TICK_MS_MAX : ms < 1 ? 1 : ms;
    uv_timer_start(&s->tick, on_tick, ms, ms);
}

/* ---- what the server calls ------------------------------------------------------------------- */

struct sse *sse_new(const struct sse_options *in)
{
    struct sse *s = mem_alloc(sizeof *s);
    if (s == NULL)
        return NULL;
    s->scratch = dibs_arena_new();
    if (s->scratch == NULL) {
        mem_free(s);
        return NULL;
    }
    s->options = *in;
    if (s->options.keepalive_ms <= 0)
        s->options.keepalive_ms = SSE_KEEPALIVE_MS;
    (void)uv_timer_init(in->loop, &s->tick); /* cannot fail */
    (void)uv_timer_init(in->loop, &s->again);
    s->tick.data = s->again.data = s;
    return s;
}

/* admit: makes a reader of a request; NULL: refused, err says why. */
static struct reader *admit(struct sse *s, struct conn *c, const struct http_request *r,
                            const char *project, struct dibs_error *err)
{
    struct reader_ask ask = {0};
    if (s->stopping) {
        error_set(err, DIBS_STORE_UNAVAILABLE, "the daemon is stopping");
        return NULL;
    }
    if (reader_ask(r, project, s->scratch, &ask, err) != DIBS_OK)
        return NULL;
    struct reader *reader = reader_new(&ask, c);
    if (reader != NULL)
        attach(s, reader);
    else
        error_set(err, DIBS_OUT_OF_MEMORY, "cannot begin a stream: out of memory");
    return reader;
}

void sse_request(struct sse *s, struct conn *c, const struct http_request *r, const char *project)
{
    struct dibs_error err = {0};
    struct reader *reader = admit(s, c, r, project, &err);
    dibs_arena_reset(s->scratch);
    if (reader == NULL) {
        refuse(c, err.code, &err, false);
        return;
    }
    reader->moved_ms = uv_now(s->options.loop);
    if (s->count == 1)
        start_tick(s);
    reader_hold(reader);
    if (reader->since_given || reader->filter.task_id != NULL) {
        advance(reader); /* only the store knows whether these can be */
    } else {
        reader->position = newest(s);
        begin_stream(reader);
        settle(reader);
    }
    reader_drop(reader);
}

bool sse_owns(const struct sse *s, const struct conn *c)
{
    (void)s;
    return conn_stream(c) != NULL;
}

void sse_gone(struct sse *s, struct conn *c)
{
    struct reader *r = conn_stream(c);
    (void)s;
    if (r != NULL) /* also one that only said its last: a stream has no end to wait for */
        hang_up(r, false);
}

void sse_drained(struct sse *s, struct conn *c)
{
    struct reader *r = conn_stream(c);
    (void)s;
    if (r != NULL && r->state == READER_BEHIND)
        advance(r);
}

void sse_review(struct sse *s, bool (*keep)(void *context, struct conn *c), void *context)
{
    for (struct reader *r = s->first, *next = NULL; r != NULL; r = next) {
        next = r->next;
        if (!keep(context, r->conn))
            hang_up(r, false);
    }
}

/* farewell: the last that a reader hears of us. */
static void farewell(struct reader *r)
{
    struct dibs_error err = {0};
    char text[192];
    if (r->state == READER_OPENING) {
        error_set(&err, DIBS_STORE_UNAVAILABLE, "the daemon is stopping");
        refuse(detach(r), err.code, &err, true);
        return;
    }
    snprintf(text, sizeof text,
             "id: %" PRId64 "\nevent: shutdown\ndata: {\"message\":\"the daemon is stopping; come "
             "back with the last id\",\"retryMs\":%d}\n\n",
             r->position, SSE_RETRY_MS);
    reader_hold(r);
    say(r, text);
    if (r->conn != NULL)
        hang_up(r, true);
    reader_drop(r);
}

static void on_closed(uv_handle_t *handle)
{
    handle->data = NULL;
}

void sse_stop(struct sse *s)
{
    if (s->stopping)
        return;
    s->stopping = true;
    for (struct reader *r = s->first, *next = NULL; r != NULL; r = next) {
        next = r->next;
        farewell(r);
    }
    uv_close((uv_handle_t *)&s->tick, on_closed);
    uv_close((uv_handle_t *)&s->again, on_closed);
}

void sse_free(struct sse *s)
{
    if (s == NULL)
        return;
    assert(s->first == NULL);
    dibs_arena_free(s->scratch);
    mem_free(s);
}

struct sse_stats sse_stats(const struct sse *s)
{
    return (struct sse_stats){
        .readers = s->count,
        .dropped = s->dropped,
        .sent_events = s->sent_events,
    };
}
