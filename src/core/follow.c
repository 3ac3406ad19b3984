/* SPDX-License-Identifier: MIT */
/*
 * follow.c: the journal in short steps, for readers that never end.
 *
 * A page (dibs_events) is full when it has so many events. That is no good measure for a follower:
 * a narrow filter would look through the whole journal in one step, and a few events may be large.
 * So a step may be bounded in bytes and rows as well, and says how far it has looked.
 *
 *   1. `through` never lies: what the filter wants up to it is in the list, in order, once. The
 *      next step begins there.
 *   2. A step makes progress: unless the journal is at its end, `through` is larger than `since`.
 *   3. The filter means the same for events in the store and in memory (dibs__event_matches).
 */
#include "follow.h"

#include "core.h"

#define EVENT_BYTES 200 /* of an event beside its data, roughly */

int64_t dibs__change_counter(dibs *d)
{
    return db_change_counter(d->db);
}

/* ---- the filter ------------------------------------------------------------------------------ */

/* Names that the cleanup of older systems used for the same things. */
const char *dibs__event_type(const char *name)
{
    static const struct {
        const char *alias, *type;
    } aliases[] = {
        {"claim:expired", "task:claim-expired"},
        {"claim:orphaned", "task:claim-orphaned"},
        {"claim:released", "task:released"},
    };
    for (size_t i = 0; i < COUNT_OF(aliases); i++)
        if (str_eq(aliases[i].alias, name))
            return aliases[i].type;
    return name;
}

/* Such an event says so in its last field (claim_end.c); one claims:cleanup with the count of all
 * follows it. */
bool dibs__event_is_detail(const char *type, const char *data)
{
    static const char mark[] = "\"sweep\":true}";
    if (!data || !(str_eq(type, "task:claim-expired") || str_eq(type, "task:claim-orphaned")))
        return false;
    size_t bytes = strlen(data);
    return bytes >= sizeof mark - 1 && str_eq(data + bytes - (sizeof mark - 1), mark);
}

bool dibs__event_matches(const struct dibs_event_filter *filter, const struct dibs_event_marks *e)
{
    if ((filter->summary && e->is_detail) ||
        (filter->project && !str_eq(filter->project, e->project)) ||
        (filter->task_id && !str_eq(filter->task_id, e->task_id)))
        return false;
    for (size_t i = 0; i < filter->types.count; i++)
        if (str_eq(filter->types.items[i], e->type))
            return true;
    return filter->types.count == 0;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static struct db_rows *select_rows(struct tx *tx, int64_t since, int64_t task_key)
{
    if (task_key)
        return db_query(tx->db,
                        SQL("SELECT " EVENT_COLUMNS EVENT_FROM
                            "WHERE e.task_key = $1 AND e.number > $2 ORDER BY e.number"),
                        DB_ARGS(db_i(task_key), db_i(since)));
    return db_query(tx->db,
                    SQL("SELECT " EVENT_COLUMNS EVENT_FROM "WHERE e.number > $1 ORDER BY e.number"),
                    DB_ARGS(db_i(since)));
}

/* canonical: the filter with our names for the types; false when out of memory. */
static bool canonical(struct tx *tx, struct dibs_event_filter *filter)
{
    const char **items = arena_alloc(tx->a, sizeof *items * (filter->types.count + 1));
    if (!items)
        return false;
    for (size_t i = 0; i < filter->types.count; i++)
        items[i] = dibs__event_type(filter->types.items[i]);
    filter->types.items = items;
    return true;
}

static bool row_wanted(const struct dibs_event_filter *filter, struct db_rows *rows)
{
    struct dibs_event_marks e = {
        .type = db_text_borrowed(rows, 2),
        .project = db_text_borrowed(rows, 3),
        .task_id = db_text_borrowed(rows, 4),
    };
    e.is_detail = filter->summary && dibs__event_is_detail(e.type, db_text_borrowed(rows, 6));
    return dibs__event_matches(filter, &e);
}

/* read_rows: the events of one step; true when the journal came to its end first. */
static bool read_rows(struct tx *tx, const struct dibs_follow *in,
                      const struct dibs_event_filter *filter, struct db_rows *rows,
                      struct dibs_followed *out)
{
    int64_t bytes = 0, seen = 0;
    while ((int64_t)out->list.count < filter->limit && (!in->bytes_max || bytes < in->bytes_max) &&
           (!in->rows_max || seen < in->rows_max)) {
        if (!db_next(rows))
            return true;
        seen++;
        out->through = db_int(rows, 0);
        if (!row_wanted(filter, rows))
            continue;
        struct dibs_event *e = dibs__push(tx, &out->list.items, &out->list.count, sizeof *e);
        if (!e)
            return false;
        dibs__event_read(tx, rows, e);
        bytes += EVENT_BYTES + (e->data ? (int64_t)strlen(e->data) : 0);
    }
    return false;
}

static dibs_status follow_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_follow *in = input;
    struct dibs_followed *out = output;
    struct dibs_event_filter filter = in->filter;
    struct task_row task = {0};
    dibs_status status = DIBS_OK;
    if (filter.since < 0)
        status = error_field(tx->err, "since", "must not be negative");
    if (status == DIBS_OK && filter.task_id)
        status = dibs__task_load(tx, filter.task_id, &task);
    if (status == DIBS_OK && !canonical(tx, &filter))
        status = error_set(tx->err, DIBS_OUT_OF_MEMORY, "out of memory");
    if (status != DIBS_OK)
        return status;
    out->through = filter.since;
    out->list.last =
        db_value_int(tx->db, 0, SQL("SELECT value FROM counter WHERE name = 'event'"), DB_NO_ARGS);
    out->list.first_kept =
        db_value_int(tx->db, out->list.last + 1, SQL("SELECT min(number) FROM event"), DB_NO_ARGS);
    struct db_rows *rows = select_rows(tx, filter.since, task.key);
    bool at_end = read_rows(tx, in, &filter, rows, out);
    db_done(rows);
    if (at_end)
        out->through = out->list.last;
    return dibs__store_status(tx);
}

dibs_status dibs__follow(dibs *d, dibs_arena *a, const struct dibs_follow *in,
                         struct dibs_followed *out, struct dibs_error *err)
{
    return dibs__read(d, a, err, follow_tx, in, out, sizeof *out);
}
