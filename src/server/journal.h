/* SPDX-License-Identifier: MIT */
/*
 * journal.h: the journal as it grows, page by page, for the loop.
 *
 * A thread of its own reads what was committed since it last looked: soon after a hint from our
 * writer, and every JOURNAL_LOOK_MS for what other processes wrote to the same data file. Each page
 * is made once, with the text that event readers are sent, and shared by all of them.
 */
#ifndef DIBS_JOURNAL_H
#define DIBS_JOURNAL_H

#include <uv.h>

#include "base/arena.h"
#include "base/base.h"
#include "base/buf.h"

#define JOURNAL_LOOK_MS 100
#define JOURNAL_PAGE_EVENTS 256
#define JOURNAL_PAGE_BYTES (32 * 1024) /* a page ends with the event that reaches it */

struct page_event {
    int64_t number;
    const char *type;                           /* these live in the page */
    const char *project, *task_id, *session_id; /* may be NULL */
    bool sweep_detail;                          /* left out of detail=summary */
    size_t at, bytes;                           /* its frame within page->text */
};

/* Belongs to the loop thread once delivered. */
struct page {
    int references;
    /* It holds all events with since < number <= through (those of a filter, if one was asked for).
     * since is larger than the end of the page before it when events were pruned unread. */
    int64_t since, through;
    int64_t last;    /* number of the newest event the journal had when the page was read */
    bool is_partial; /* read while nobody read along: only the events of options.own_types */
    struct page_event *events;
    size_t count;
    struct buf text; /* "id: 7\nevent: task:claimed\ndata: {...}\n\n" one after another */
    dibs_arena *arena;
};
struct page *page_hold(struct page *p);
void page_drop(struct page *p); /* frees the last reference; NULL is fine */
/* Makes a page of a list of events; NULL when out of memory. One reference. Any thread. */
struct page *page_make(const struct dibs_event_list *list, int64_t since, int64_t through);

struct journal;

struct journal_options {
    const char *data_dir;
    struct dibs_strings settings;
    uv_loop_t *loop;
    void (*on_page)(void *context, struct page *page); /* loop thread; owns the reference */
    /* all that on_page needs to see while nobody reads along; none: every event, always */
    struct dibs_strings own_types;
    /* another process has (or may have, when our writer is busy as well) written: journal thread;
     * must only leave a hint */
    void (*on_others)(void *context);
    /* waits until what was read is on disk; false: it never will be. Journal thread. NULL: it is */
    bool (*settle)(void *context);
    void *context;
};
/* The first page begins with the first event after this call. */
dibs_status journal_start(const struct journal_options *in, struct journal **out,
                          struct dibs_error *err) MUST_USE;
int64_t journal_last(const struct journal *j); /* newest event delivered; loop thread */
void journal_hint(struct journal *j);          /* our writer has committed; any thread */
/* While nobody reads along (as at first) hints wait for the next look, and pages are partial. Any
 * thread. */
void journal_set_eager(struct journal *j, bool eager);
/* Loop thread: ends the thread, closes its handle. Nothing is delivered afterwards. */
void journal_stop(struct journal *j);
void journal_free(struct journal *j); /* after the loop has run out; NULL is fine */

#endif
