/* SPDX-License-Identifier: MIT */
/*
 * sse.h: GET /api/events as a stream of server-sent events.
 *
 * A reader is behind (it is sent pages read for it by the reader threads) or live (it is sent the
 * pages that the journal delivers to all). It becomes live when it has caught up. Nobody waits for
 * a reader: one with more than SSE_PENDING_MAX bytes under way is hung up on and resumes with
 * Last-Event-ID.
 */
#ifndef DIBS_SSE_H
#define DIBS_SSE_H

#include "conn.h"
#include "journal.h"
#include "readers.h"

#define SSE_PENDING_MAX (64 * 1024)
#define SSE_PENDING_LOW (16 * 1024) /* one that is behind gets its next page below this */
#define SSE_KEEPALIVE_MS 15000
#define SSE_STALL_MS 10000 /* so long nothing of what is under way was taken: hung up on */
#define SSE_RETRY_MS 1000  /* how long a client waits before it comes back */

struct sse;

struct sse_options {
    uv_loop_t *loop;
    struct readers *readers;
    struct journal *journal;
    /* the newest event that somebody can have been told of; NULL: what the journal delivered */
    int64_t (*newest)(void *context);
    void *context;
    int64_t keepalive_ms; /* 0: SSE_KEEPALIVE_MS */
};
struct sse *sse_new(const struct sse_options *in); /* NULL when out of memory */
/* Answers GET /api/events: refuses a query that cannot be read, else begins the stream, both
 * perhaps only after a look into the store. `project` is what the caller's key is limited to, NULL:
 * nothing. */
void sse_request(struct sse *s, struct conn *c, const struct http_request *r, const char *project);
/* It streams to this connection, or is about to. */
bool sse_owns(const struct sse *s, const struct conn *c);
/* Call when the caller has hung up and when the connection is closed, whoever closed it; harmless
 * for connections that are not owned. */
void sse_gone(struct sse *s, struct conn *c);
void sse_drained(struct sse *s, struct conn *c);
void sse_page(struct sse *s, struct page *page); /* borrowed */
/* Hangs up on the readers whose key is no longer valid (keep returns false). */
void sse_review(struct sse *s, bool (*keep)(void *context, struct conn *c), void *context);
/* Tells all readers that the daemon stops, hangs up, and closes its timers. Whoever asks later is
 * answered 503. */
void sse_stop(struct sse *s);
/* After sse_stop, when the loop has run out and all jobs are back; NULL is fine. */
void sse_free(struct sse *s);

struct sse_stats {
    int64_t readers, dropped, sent_events;
};
struct sse_stats sse_stats(const struct sse *s);

#endif
