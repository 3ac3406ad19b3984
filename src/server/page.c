/* SPDX-License-Identifier: MIT */
/*
 * page.c: some events of the journal with the text in which they are sent, made once for all who
 * read them.
 *
 *   1. The frames lie one after another in one text, so whoever wants a row of events sends one
 *      piece of it.
 *   2. The JSON of an event is that of GET /api/events as a page (enc_event).
 *   3. A page is made on one thread and then belongs to the loop: references are not atomic.
 */
#include "api/encode.h"
#include "core/follow.h"
#include "journal.h"

struct page *page_hold(struct page *p)
{
    p->references++;
    return p;
}

void page_drop(struct page *p)
{
    if (p == NULL || --p->references > 0)
        return;
    buf_release(&p->text);
    dibs_arena_free(p->arena);
    mem_free(p);
}

/*
 * write_frame: one event as a client sees it. A line break inside of valid JSON can only be white
 * space between its parts, but it would end the data: line.
 */
static void write_frame(struct buf *out, const struct dibs_event *e)
{
    struct jw w;
    buf_printf(out, "id: %" PRId64 "\nevent: %s\ndata: ", e->number, e->type);
    size_t begin = out->len;
    jw_init(&w, out);
    enc_event(&w, e);
    for (size_t i = begin; buf_ok(out) && i < out->len; i++) {
        if (out->data[i] == '\n' || out->data[i] == '\r')
            out->data[i] = ' ';
    }
    buf_text(out, "\n\n");
}

static bool fill_event(struct page *p, struct page_event *out, const struct dibs_event *e)
{
    out->number = e->number;
    out->type = arena_strdup(p->arena, e->type);
    out->project = arena_strdup(p->arena, e->project);
    out->task_id = arena_strdup(p->arena, e->task_id);
    out->session_id = arena_strdup(p->arena, e->session_id);
    out->sweep_detail = dibs__event_is_detail(e->type, e->data);
    out->at = p->text.len;
    write_frame(&p->text, e);
    out->bytes = p->text.len - out->at;
    return out->type != NULL && (out->project != NULL || e->project == NULL) &&
           (out->task_id != NULL || e->task_id == NULL) &&
           (out->session_id != NULL || e->session_id == NULL) && buf_ok(&p->text);
}

struct page *page_make(const struct dibs_event_list *list, int64_t since, int64_t through)
{
    struct page *p = mem_alloc(sizeof *p);
    if (p == NULL)
        return NULL;
    p->references = 1;
    p->since = since;
    p->through = through;
    p->last = list->last;
    buf_init(&p->text, ANSWER_BYTES_MAX);
    p->arena = dibs_arena_new();
    if (p->arena != NULL)
        p->events = arena_alloc(p->arena, sizeof *p->events * (list->count + 1));
    bool ok = p->events != NULL;
    for (size_t i = 0; ok && i < list->count; i++)
        ok = fill_event(p, &p->events[p->count++], &list->items[i]);
    if (!ok) {
        page_drop(p);
        return NULL;
    }
    return p;
}
