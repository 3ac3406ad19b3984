/* SPDX-License-Identifier: MIT */
/*
 * sse_private.h: what sse.c (streams) and sse_reader.c (what a reader asked for) share.
 */
#ifndef DIBS_SSE_PRIVATE_H
#define DIBS_SSE_PRIVATE_H

#include "sse.h"

enum reader_state {
    READER_OPENING, /* asked; the store has not yet been asked whether that can be answered */
    READER_BEHIND,
    READER_LIVE,
};

struct step;

/* One block of memory with the texts of its filter. */
struct reader {
    struct reader *next, **link; /* of all */
    struct sse *sse;
    struct conn *conn; /* NULL: it has gone */
    struct step *step; /* a page is being read for it */
    int uses;          /* the list, its step, a call that is under way */
    enum reader_state state;
    bool since_given, from_header;
    bool takes_all;      /* no filter */
    int64_t position;    /* what it wants of the events up to here has been sent */
    uint64_t told_ms;    /* when something was last sent */
    uint64_t moved_ms;   /* when what was under way last changed */
    size_t pending_seen; /* what was under way then */
    struct dibs_event_filter filter;
    const char *types[]; /* then the texts */
};

/* What a request asks for. Its texts live in an arena. */
struct reader_ask {
    struct dibs_event_filter filter;
    bool since_given, from_header;
};
/* Reads the request; `project` as in sse_request. */
dibs_status reader_ask(const struct http_request *r, const char *project, dibs_arena *a,
                       struct reader_ask *out, struct dibs_error *err) MUST_USE;
/* The name by which the caller gave its position. */
const char *reader_since_name(const struct reader *r);

struct reader *reader_new(const struct reader_ask *ask, struct conn *c); /* NULL: out of memory */
void reader_hold(struct reader *r);
void reader_drop(struct reader *r); /* frees the last use */

/* The frames of a page that come after the reader's position and that it wants, as parts of the
 * page's text that lie together. */
struct reader_parts {
    uv_buf_t parts[JOURNAL_PAGE_EVENTS / 2 + 1];
    unsigned count;
    size_t bytes;
    int64_t events;
};
void reader_parts(const struct reader *r, const struct page *page, struct reader_parts *out);

#endif
