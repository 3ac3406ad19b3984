/* SPDX-License-Identifier: MIT */
/*
 * sse_reader.c: what a reader of the stream asked for, and which frames of a page that makes.
 *
 * A reader is one block of memory that holds the texts of its filter, some 250 bytes for one that
 * wants everything: there may be thousands, and they mostly wait.
 *
 *   1. The filter of a reader never changes, so a reader thread may look at it.
 *   2. What the caller says about its position: Last-Event-ID wins over ?since=, because a browser
 *      that comes back repeats the address it began with.
 */
#include "sse_private.h"

#include <assert.h>

#include "api/api_event.h"
#include "base/str.h"
#include "core/follow.h"

/* ---- what is asked for ----------------------------------------------------------------------- */

static dibs_status read_header(const struct http_request *r, struct reader_ask *out,
                               struct dibs_error *err)
{
    const char *text = http_header(r, "last-event-id");
    char shown[48];
    if (text == NULL || text[0] == '\0') /* empty: the client has not seen an event yet */
        return DIBS_OK;
    str_fit(shown, sizeof shown, text);
    out->since_given = out->from_header = true;
    if (!str_to_int(text, &out->filter.since))
        return error_field(err, "Last-Event-ID", "must be the number of an event, not '%s'", shown);
    if (out->filter.since < 0)
        return error_field(err, "Last-Event-ID", "must not be negative");
    return DIBS_OK;
}

dibs_status reader_ask(const struct http_request *r, const char *project, dibs_arena *a,
                       struct reader_ask *out, struct dibs_error *err)
{
    struct reader_ask ask = {0};
    dibs_status s = api_event_query(r->query, a, &ask.filter, &ask.since_given, err);
    if (s == DIBS_OK)
        s = read_header(r, &ask, err);
    if (s == DIBS_OK && ask.filter.since < 0)
        s = error_field(err, "since", "must not be negative");
    if (s == DIBS_OK && ask.filter.limit > 0)
        s = error_field(err, "limit", "is for a page of the journal; a stream does not end");
    if (s != DIBS_OK)
        return s;
    if (project != NULL && ask.filter.project != NULL && !str_eq(project, ask.filter.project))
        return error_set(err, DIBS_FORBIDDEN, "this key is for project '%s' only", project);
    if (project != NULL)
        ask.filter.project = project;
    *out = ask;
    return DIBS_OK;
}

const char *reader_since_name(const struct reader *r)
{
    return r->from_header ? "Last-Event-ID" : "since";
}

/* ---- one reader ------------------------------------------------------------------------------ */

static size_t room_for(const char *text)
{
    return text != NULL ? strlen(text) + 1 : 0;
}

/* put: copies a text to *at and moves it on; NULL stays NULL. */
static const char *put(char **at, const char *text)
{
    size_t bytes = room_for(text);
    char *copy = *at;
    if (bytes == 0)
        return NULL;
    memcpy(copy, text, bytes);
    *at += bytes;
    return copy;
}

struct reader *reader_new(const struct reader_ask *ask, struct conn *c)
{
    const struct dibs_event_filter *f = &ask->filter;
    size_t list = sizeof(const char *) * f->types.count;
    size_t texts = room_for(f->project) + room_for(f->task_id);
    for (size_t i = 0; i < f->types.count; i++)
        texts += room_for(dibs__event_type(f->types.items[i]));
    struct reader *r = mem_alloc(sizeof *r + list + texts);
    if (r == NULL)
        return NULL;
    char *at = (char *)r + sizeof *r + list;
    r->uses = 1;
    r->conn = c;
    r->since_given = ask->since_given;
    r->from_header = ask->from_header;
    r->position = f->since;
    r->filter = (struct dibs_event_filter){.summary = f->summary, .limit = JOURNAL_PAGE_EVENTS};
    r->filter.project = put(&at, f->project);
    r->filter.task_id = put(&at, f->task_id);
    for (size_t i = 0; i < f->types.count; i++)
        r->types[i] = put(&at, dibs__event_type(f->types.items[i]));
    r->filter.types = (struct dibs_strings){.items = r->types, .count = f->types.count};
    r->takes_all = !f->summary && f->project == NULL && f->task_id == NULL && f->types.count == 0;
    return r;
}

void reader_hold(struct reader *r)
{
    r->uses++;
}

void reader_drop(struct reader *r)
{
    if (--r->uses == 0)
        mem_free(r);
}

/* ---- which frames ---------------------------------------------------------------------------- */

static bool wants(const struct reader *r, const struct page_event *e)
{
    struct dibs_event_marks marks = {
        .type = e->type,
        .project = e->project,
        .task_id = e->task_id,
        .is_detail = e->sweep_detail,
    };
    return e->number > r->position && (r->takes_all || dibs__event_matches(&r->filter, &marks));
}

void reader_parts(const struct reader *r, const struct page *page, struct reader_parts *out)
{
    out->count = 0;
    out->bytes = 0;
    out->events = 0;
    if (r->takes_all && r->position == page->since && page->count > 0) { /* most readers, mostly */
        out->parts[0] = uv_buf_init(page->text.data, (unsigned)page->text.len);
        out->count = 1;
        out->bytes = page->text.len;
        out->events = (int64_t)page->count;
        return;
    }
    assert(page->count <= JOURNAL_PAGE_EVENTS);
    bool adjoins = false; /* the event before this one is the end of the last part */
    for (size_t i = 0; i < page->count; i++) {
        const struct page_event *e = &page->events[i];
        bool wanted = wants(r, e);
        if (wanted && adjoins)
            out->parts[out->count - 1].len += e->bytes;
        else if (wanted)
            out->parts[out->count++] = uv_buf_init(page->text.data + e->at, (unsigned)e->bytes);
        if (wanted) {
            out->bytes += e->bytes;
            out->events++;
        }
        adjoins = wanted;
    }
}
