/* SPDX-License-Identifier: MIT */
/*
 * event.c: the journal. What happened is written in the transaction in which it happened, and read
 * by everyone.
 *
 * Operations open an event, write what changed into its data, and close it; it waits as a draft.
 * Just before the commit the drafts get consecutive numbers from one counter. Writers take turns,
 * so numbers become visible in their order: a growing number is a safe cursor, and a reader that
 * asks for "larger than the last I saw" misses nothing.
 *
 *  1. Every change of state has its event in the same transaction; renewals of a lease (heartbeats)
 *     have none.
 *  2. Numbers have no gaps, also after pruning (the counter remembers) and after failed
 *     transactions (drafts have none yet).
 *  3. `data` holds what changed, enough to rebuild the row from the events alone. verify.c reads
 *     the journal so, as far as status, attempts, version and claims go.
 */
#include "core/core.h"
#include "core/follow.h"

struct draft {
    int64_t at;
    struct event_head head;
    const char *data;
};

struct jw *dibs__event_begin(struct tx *tx, const struct event_head *head)
{
    dibs *d = tx->d;
    struct draft *draft =
        arena_push(d->drafts_arena, (void **)&d->drafts, &d->draft_count, sizeof *draft);
    buf_reset(&d->draft_json);
    jw_init(&d->draft_writer, &d->draft_json);
    jw_object(&d->draft_writer);
    if (!draft) {
        db_fail(tx->db, DIBS_OUT_OF_MEMORY, "out of memory");
        return &d->draft_writer;
    }
    /* the draft may outlive the caller's arena (a batch), so it keeps copies */
    draft->at = tx->now;
    draft->head = *head;
    draft->head.project = arena_strdup(d->drafts_arena, head->project);
    draft->head.session_id = arena_strdup(d->drafts_arena, head->session_id);
    draft->head.agent = arena_strdup(d->drafts_arena, head->agent);
    bool copied = (!head->project || draft->head.project) &&
                  (!head->session_id || draft->head.session_id) &&
                  (!head->agent || draft->head.agent);
    if (!copied)
        db_fail(tx->db, DIBS_OUT_OF_MEMORY, "out of memory");
    return &d->draft_writer;
}

void dibs__event_end(struct tx *tx)
{
    dibs *d = tx->d;
    jw_object_end(&d->draft_writer);
    if (!db_ok(tx->db) || d->draft_count == 0)
        return;
    struct draft *draft = &d->drafts[d->draft_count - 1];
    if (buf_ok(&d->draft_json))
        draft->data = arena_copy(d->drafts_arena, d->draft_json.data, d->draft_json.len);
    if (!draft->data)
        db_fail(tx->db, DIBS_OUT_OF_MEMORY, "out of memory");
}

void dibs__drafts_cut(dibs *d, size_t count)
{
    d->draft_count = count;
}

dibs_status dibs__events_flush(struct tx *tx)
{
    dibs *d = tx->d;
    int64_t count = (int64_t)d->draft_count;
    if (count == 0)
        return dibs__store_status(tx);
    int64_t last = dibs__counter_take(tx, COUNTER_EVENT, count);
    for (int64_t i = 0; i < count; i++) {
        const struct draft *e = &d->drafts[i];
        struct db_value held = e->head.held_ms < 0 ? db_t(NULL) : db_i(e->head.held_ms);
        db_exec(tx->db,
                SQL("INSERT INTO event (number, at, type, project, task_key, session_id, agent, "
                    "held, data) "
                    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"),
                DB_ARGS(db_i(last - count + 1 + i), db_i(e->at), db_t(e->head.type),
                        db_t(e->head.project), db_i_or_null(e->head.task_key),
                        db_t(e->head.session_id), db_t(e->head.agent), held, db_t(e->data)));
    }
    return dibs__store_status(tx);
}

/* ---- reading --------------------------------------------------------------------------------- */

void dibs__event_read(struct tx *tx, struct db_rows *rows, struct dibs_event *out)
{
    *out = (struct dibs_event){
        .number = db_int(rows, 0),
        .at_ms = db_int(rows, 1),
        .type = db_text(rows, 2, tx->a),
        .project = db_text(rows, 3, tx->a),
        .task_id = db_text(rows, 4, tx->a),
        .session_id = db_text(rows, 5, tx->a),
        .data = db_text(rows, 6, tx->a),
    };
}

dibs_status dibs_events(dibs *d, dibs_arena *a, const struct dibs_event_filter *in,
                        struct dibs_event_list *out, struct dibs_error *err)
{
    struct dibs_follow all = {.filter = *in};
    struct dibs_followed got = {0};
    dibs_status status = dibs__check_limit(err, in->limit, &all.filter.limit);
    if (status == DIBS_OK)
        status = dibs__follow(d, a, &all, &got, err);
    if (status == DIBS_OK)
        *out = got.list;
    return status;
}

/* ---- callbacks ------------------------------------------------------------------------------- */

struct subscriber {
    int64_t id;
    int64_t since; /* newest event when it came: it is given later ones */
    bool gone;     /* unsubscribed in a callback; freed when the delivery is over */
    struct subscriber *next;
    dibs_on_event *on_event;
    void *context;
    dibs_arena *arena; /* home of the copied types */
    struct dibs_strings types;
};

static void subscriber_free(struct subscriber *s)
{
    if (s)
        dibs_arena_free(s->arena);
    mem_free(s);
}

static bool copy_types(struct subscriber *s, struct dibs_strings types)
{
    const char **items = arena_alloc(s->arena, sizeof *items * (types.count + 1));
    for (size_t i = 0; items && i < types.count; i++)
        if (!(items[i] = arena_strdup(s->arena, types.items[i])))
            return false;
    s->types = (struct dibs_strings){.items = items, .count = types.count};
    return items != NULL;
}

static dibs_status last_event(dibs *d, int64_t *out, struct dibs_error *err)
{
    dibs_arena *a = dibs_arena_new();
    struct dibs_event_list page = {0};
    if (!a)
        return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
    dibs_status status =
        dibs_events(d, a, &(struct dibs_event_filter){.since = INT64_MAX, .limit = 1}, &page, err);
    *out = page.last;
    dibs_arena_free(a);
    return status;
}

dibs_status dibs_subscribe(dibs *d, const struct dibs_subscription *in, int64_t *out,
                           struct dibs_error *err)
{
    if (!in->on_event)
        return error_field(err, "on_event", "is required");
    struct subscriber *s = mem_alloc(sizeof *s);
    if (!s || !(s->arena = dibs_arena_new()) || !copy_types(s, in->types)) {
        subscriber_free(s);
        return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
    }
    dibs_status status = last_event(d, &s->since, err);
    if (status != DIBS_OK) {
        subscriber_free(s);
        return status;
    }
    if (!d->subscribers) /* nobody has listened: there is nothing to catch up with */
        d->delivered = s->since;
    s->id = ++d->subscriber_last_id;
    s->on_event = in->on_event;
    s->context = in->context;
    s->next = d->subscribers;
    d->subscribers = s;
    *out = s->id;
    return DIBS_OK;
}

/* Unlinks and frees those that are gone, or all. */
static void remove_subscribers(dibs *d, bool all)
{
    for (struct subscriber **link = &d->subscribers; *link;) {
        struct subscriber *s = *link;
        if (!all && !s->gone) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        subscriber_free(s);
    }
}

void dibs_unsubscribe(dibs *d, int64_t id)
{
    for (struct subscriber *s = d->subscribers; s; s = s->next)
        s->gone = s->gone || s->id == id;
    if (!d->delivering) /* else the delivery is on its way along the list */
        remove_subscribers(d, false);
}

void dibs__subscribers_free(dibs *d)
{
    remove_subscribers(d, true);
}

static bool type_wanted(struct dibs_strings types, const char *type)
{
    for (size_t i = 0; i < types.count; i++)
        if (str_eq(dibs__event_type(types.items[i]), type))
            return true;
    return types.count == 0;
}

/* A subscriber to "claim:expired" sees that name; one to everything sees ours. */
static void give(struct subscriber *s, const struct dibs_event *event)
{
    if (s->gone || event->number <= s->since || !type_wanted(s->types, event->type))
        return;
    struct dibs_event seen = *event;
    for (size_t i = 0; i < s->types.count; i++)
        if (str_eq(dibs__event_type(s->types.items[i]), event->type))
            seen.type = s->types.items[i];
    s->on_event(s->context, &seen);
}

dibs_status dibs_dispatch(dibs *d, struct dibs_error *err)
{
    dibs_status status = DIBS_OK;
    if (!d->subscribers || d->delivering || d->batch || d->depth > 0)
        return DIBS_OK;
    dibs_arena *a = dibs_arena_new();
    if (!a)
        return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
    d->delivering = true;
    struct dibs_event_list page = {0};
    do {
        dibs_arena_reset(a);
        struct dibs_event_filter next = {.since = d->delivered, .limit = PAGE_MAX};
        status = dibs_events(d, a, &next, &page, err);
        for (size_t i = 0; status == DIBS_OK && i < page.count; i++) {
            d->delivered = page.items[i].number;
            for (struct subscriber *s = d->subscribers; s; s = s->next)
                give(s, &page.items[i]);
        }
    } while (status == DIBS_OK && page.count == PAGE_MAX);
    d->delivering = false;
    remove_subscribers(d, false);
    dibs_arena_free(a);
    return status;
}

void dibs__deliver(dibs *d)
{
    /* what could not be delivered now is delivered next time: the journal keeps it */
    struct dibs_error ignored = {0};
    (void)!dibs_dispatch(d, &ignored);
}
