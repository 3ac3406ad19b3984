/* SPDX-License-Identifier: MIT */
/*
 * overview.c: the state of things at a glance: who holds what (in flight), claims in numbers
 * (stats), sessions with their current tasks (summary). Reads only.
 */
#include "core/core.h"

#define RECENT_COMPLETIONS 10
#define RECENT_LOOK_BACK 10000 /* events; older completions are not recent */
#define DAY_MS 86400000

void dibs__tally_add(struct tx *tx, struct dibs_tally_list *list, const char *name, int64_t count)
{
    for (size_t i = 0; i < list->count; i++) {
        if (!str_eq(list->items[i].name, name))
            continue;
        list->items[i].count += count;
        return;
    }
    struct dibs_tally *t = dibs__push(tx, &list->items, &list->count, sizeof *t);
    if (t)
        *t = (struct dibs_tally){.name = name, .count = count};
}

static void tasks_by_status(struct tx *tx, const char *project, struct dibs_tally_list *out)
{
    struct db_rows *rows =
        project ? db_query(tx->db,
                           SQL("SELECT status, count(*) FROM task WHERE project = $1 GROUP BY "
                               "status ORDER BY status"),
                           DB_ARGS(db_t(project)))
                : db_query(tx->db,
                           SQL("SELECT status, count(*) FROM task GROUP BY status ORDER BY status"),
                           DB_NO_ARGS);
    while (db_next(rows))
        dibs__tally_add(tx, out, db_text(rows, 0, tx->a), db_int(rows, 1));
    db_done(rows);
}

/* ---- in flight ------------------------------------------------------------------------------- */

static void load_live(struct tx *tx, struct claim_rows *out)
{
    struct db_rows *rows = db_query(
        tx->db,
        SQL("SELECT " CLAIM_COLUMNS " FROM claim c WHERE c.ended_at IS NULL AND c.kind = 'task' "
            "ORDER BY c.claimed_at, c.token"),
        DB_NO_ARGS);
    dibs__claims_collect(tx, rows, out);
}

static dibs_status in_flight_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_in_flight_filter *in = input;
    struct dibs_in_flight *out = output;
    struct claim_rows live = {0};
    int64_t limit = 0;
    dibs_status status = dibs__check_limit(tx->err, in->limit, &limit);
    if (status != DIBS_OK)
        return status;
    load_live(tx, &live);
    for (size_t i = 0; i < live.count && db_ok(tx->db); i++) {
        struct claim_row *c = &live.items[i];
        struct task_row task = {0};
        if (!in->include_expired && dibs__claim_is_past(tx, c))
            continue;
        if (in->session_id && !str_eq(in->session_id, c->session_id))
            continue;
        if (!dibs__task_load_key(tx, c->task_key, &task) ||
            (in->project && !str_eq(in->project, task.project)))
            continue;
        out->total++;
        if ((int64_t)out->count >= limit)
            continue;
        struct dibs_granted *item = dibs__push(tx, &out->items, &out->count, sizeof *item);
        if (!item)
            break;
        dibs__task_full(tx, &task, &item->task);
        dibs__claim_full(tx, c, task.id, &item->claim);
    }
    return dibs__store_status(tx);
}

dibs_status dibs_in_flight(dibs *d, dibs_arena *a, const struct dibs_in_flight_filter *in,
                           struct dibs_in_flight *out, struct dibs_error *err)
{
    return dibs__read(d, a, err, in_flight_tx, in, out, sizeof *out);
}

/* ---- stats ----------------------------------------------------------------------------------- */

static void count_live(struct tx *tx, struct dibs_stats *out)
{
    struct claim_rows live = {0};
    load_live(tx, &live);
    out->total = (int64_t)live.count;
    for (size_t i = 0; i < live.count; i++) {
        const struct claim_row *c = &live.items[i];
        if (dibs__claim_is_past(tx, c))
            continue;
        out->active++;
        out->expiring += c->expires_at - tx->now < tx->d->settings.warning_threshold_ms;
        out->stale += tx->now - c->heartbeat_at > tx->d->settings.stale_threshold_ms;
        dibs__tally_add(tx, &out->by_agent_type, c->agent_type ? c->agent_type : "unknown", 1);
        dibs__tally_add(tx, &out->by_session, c->session_id, 1);
    }
}

static void count_ever(struct tx *tx, struct dibs_stats *out)
{
    struct dibs_score all = {0};
    int64_t held = 0;
    dibs__score_totals(tx, &all, &held);
    out->claimed_ever = all.claimed;
    out->completed_ever = all.completed;
    out->failed_ever = all.failed;
    out->expired_ever = all.expired;
    out->orphaned_ever = all.orphaned;
    out->released_ever = all.released;
    out->refused_ever = all.refused;
    out->late_results_ever = all.late_results;
    int64_t ended = all.completed + all.failed + all.expired + all.orphaned + all.released;
    out->average_hold_ms = ended > 0 ? held / ended : 0;
}

/* Keys are in the order of creation, and the indexes have them: no row is read but one. */
static int64_t oldest_claimable(struct tx *tx)
{
    int64_t ready = db_value_int(tx->db, INT64_MAX,
                                 SQL("SELECT min(key) FROM task WHERE ready = 1"), DB_NO_ARGS);
    int64_t due =
        db_value_int(tx->db, INT64_MAX,
                     SQL("SELECT min(key) FROM task WHERE due_at IS NOT NULL AND due_at <= $1"),
                     DB_ARGS(db_i(tx->now)));
    return db_value_int(tx->db, 0, SQL("SELECT created_at FROM task WHERE key = $1"),
                        DB_ARGS(db_i(ready < due ? ready : due)));
}

static dibs_status stats_tx(struct tx *tx, const void *input, void *output)
{
    struct dibs_stats *out = output;
    (void)input;
    count_live(tx, out);
    tasks_by_status(tx, NULL, &out->tasks_by_status);
    count_ever(tx, out);
    int64_t oldest = oldest_claimable(tx);
    out->oldest_claimable_ms = oldest && tx->now > oldest ? tx->now - oldest : 0;
    out->at_ms = tx->now;
    return dibs__store_status(tx);
}

dibs_status dibs_stats(dibs *d, dibs_arena *a, struct dibs_stats *out, struct dibs_error *err)
{
    return dibs__read(d, a, err, stats_tx, NULL, out, sizeof *out);
}

/* ---- summary --------------------------------------------------------------------------------- */

static void read_recent(struct tx *tx, const char *project, struct dibs_summary *out)
{
    int64_t last =
        db_value_int(tx->db, 0, SQL("SELECT value FROM counter WHERE name = 'event'"), DB_NO_ARGS);
    struct db_rows *rows = db_query(
        tx->db,
        SQL("SELECT t.id, t.title, e.session_id, e.at, e.held, e.project FROM event e "
            "JOIN task t ON t.key = e.task_key WHERE e.type = 'task:completed' AND e.number > $1 "
            "ORDER BY e.number DESC"),
        DB_ARGS(db_i(last - RECENT_LOOK_BACK)));
    while (out->recent_count < RECENT_COMPLETIONS && db_next(rows)) {
        if (project && !str_eq(project, db_text_borrowed(rows, 5)))
            continue;
        struct dibs_completion *c = dibs__push(tx, &out->recent, &out->recent_count, sizeof *c);
        if (c)
            *c = (struct dibs_completion){.task_id = db_text(rows, 0, tx->a),
                                          .title = db_text(rows, 1, tx->a),
                                          .session_id = db_text(rows, 2, tx->a),
                                          .finished_at_ms = db_int(rows, 3),
                                          .held_ms = db_int(rows, 4)};
    }
    db_done(rows);
}

/* Of one project the journal itself is counted, from its end back to midnight; the saved scores
 * know no projects. */
static int64_t completed_today(struct tx *tx, const char *project)
{
    int64_t day = tx->now / DAY_MS, count = 0;
    if (!project)
        return dibs__score_day(tx, "task:completed", day);
    struct db_rows *rows = db_query(
        tx->db, SQL("SELECT at, type, project FROM event ORDER BY number DESC"), DB_NO_ARGS);
    while (db_next(rows) && db_int(rows, 0) / DAY_MS >= day)
        count += str_eq(db_text_borrowed(rows, 1), "task:completed") &&
                 str_eq(db_text_borrowed(rows, 2), project) && db_int(rows, 0) / DAY_MS == day;
    db_done(rows);
    return count;
}

/* The list of sessions has an end, the numbers do not. */
static void count_sessions(struct tx *tx, const char *project, struct dibs_summary *out)
{
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT project, heartbeat_at FROM session WHERE ended_at IS NULL"),
                 DB_NO_ARGS);
    while (db_next(rows)) {
        if (project && !str_eq(project, db_text_borrowed(rows, 0)))
            continue;
        bool stale = tx->now - db_int(rows, 1) > tx->d->settings.stale_threshold_ms;
        out->stale_sessions += stale;
        out->active_sessions += !stale;
    }
    db_done(rows);
}

static dibs_status summary_tx(struct tx *tx, const void *input, void *output)
{
    const char *project = input;
    struct dibs_summary *out = output;
    struct dibs_in_flight flying = {0};
    struct dibs_session_filter filter = {.project = project, .limit = PAGE_MAX};
    dibs_status status = dibs_session_list(tx->d, tx->a, &filter, &out->sessions, tx->err);
    if (status == DIBS_OK)
        status = in_flight_tx(tx, &(struct dibs_in_flight_filter){.project = project, .limit = 1},
                              &flying);
    if (status != DIBS_OK)
        return status;
    out->in_flight = flying.total;
    count_sessions(tx, project, out);
    tasks_by_status(tx, project, &out->tasks_by_status);
    out->completed_today = completed_today(tx, project);
    read_recent(tx, project, out);
    out->at_ms = tx->now;
    return dibs__store_status(tx);
}

dibs_status dibs_session_summary(dibs *d, dibs_arena *a, const char *project,
                                 struct dibs_summary *out, struct dibs_error *err)
{
    return dibs__read(d, a, err, summary_tx, project, out, sizeof *out);
}
