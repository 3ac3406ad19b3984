/* SPDX-License-Identifier: MIT */
/*
 * depend.c: dependencies between tasks.
 *
 * A task whose dependencies are not all completed is blocked; the completion of the last one
 * unblocks it, unless somebody has blocked it by hand as well. A dependency that fails or is
 * cancelled will not complete by itself: its dependants stay blocked and are told so, by an event
 * and in their failed_dependencies. Cycles are refused when an edge is added, by walking from the
 * needed task along what it needs.
 */
#include "core/core.h"

#define WAY_BYTES_MAX 300 /* of a cycle in a message, which has room for 511 in all */

bool dibs__has_unfinished_dependencies(struct tx *tx, int64_t task_key)
{
    return db_value_int(tx->db, 0,
                        SQL("SELECT 1 FROM task_dependency p JOIN task t ON t.key = p.needs_key "
                            "WHERE p.task_key = $1 AND t.status <> 'completed' LIMIT 1"),
                        DB_ARGS(db_i(task_key))) == 1;
}

void dibs__dependencies_read(struct tx *tx, int64_t task_key, struct dibs_task *out)
{
    const char **all = NULL, **waiting = NULL, **failed = NULL;
    size_t all_count = 0, waiting_count = 0, failed_count = 0;
    struct db_rows *rows = db_query(
        tx->db,
        SQL("SELECT t.id, t.status FROM task_dependency p JOIN task t ON t.key = p.needs_key "
            "WHERE p.task_key = $1 ORDER BY t.key"),
        DB_ARGS(db_i(task_key)));
    while (db_next(rows)) {
        const char *id = db_text(rows, 0, tx->a), *status = db_text_borrowed(rows, 1);
        const char **item = dibs__push(tx, &all, &all_count, sizeof *item);
        if (item)
            *item = id;
        if (!str_eq(status, "completed") &&
            (item = dibs__push(tx, &waiting, &waiting_count, sizeof *item)))
            *item = id;
        bool is_lost = str_eq(status, "failed") || str_eq(status, "cancelled");
        if (is_lost && (item = dibs__push(tx, &failed, &failed_count, sizeof *item)))
            *item = id;
    }
    db_done(rows);
    out->depends_on = (struct dibs_strings){.items = all, .count = all_count};
    out->waiting_on = (struct dibs_strings){.items = waiting, .count = waiting_count};
    out->failed_dependencies = (struct dibs_strings){.items = failed, .count = failed_count};
}

/* ---- setting them ---------------------------------------------------------------------------- */

/* Whether `from` is or needs `target`, directly or not. Every task is visited once, however many
 * ways lead to it. */
static bool is_reachable(struct tx *tx, int64_t from, int64_t target)
{
    return db_value_int(tx->db, 0,
                        SQL("WITH RECURSIVE needed (key) AS ("
                            "  SELECT CAST($1 AS BIGINT)"
                            "  UNION"
                            "  SELECT p.needs_key FROM needed JOIN task_dependency p ON p.task_key "
                            "= needed.key"
                            ") SELECT 1 FROM needed WHERE key = $2 LIMIT 1"),
                        DB_ARGS(db_i(from), db_i(target))) == 1;
}

/* The first task that `from` needs and from which `target` is reached. */
static bool next_on_the_way(struct tx *tx, int64_t from, int64_t target, struct task_row *out)
{
    bool found = false;
    struct db_rows *rows = db_query(
        tx->db, SQL("SELECT needs_key FROM task_dependency WHERE task_key = $1 ORDER BY needs_key"),
        DB_ARGS(db_i(from)));
    while (!found && db_next(rows))
        found = is_reachable(tx, db_int(rows, 0), target) &&
                dibs__task_load_key(tx, db_int(rows, 0), out);
    db_done(rows);
    return found;
}

/* The way from a task to one that it needs, as far as a message has room for: "a -> b -> c". One
 * way is followed step by step; trying all of them could take for ever. */
static const char *write_way(struct tx *tx, const struct task_row *from, int64_t target)
{
    struct task_row at = *from;
    const char *way = at.id;
    while (way && at.key != target && next_on_the_way(tx, at.key, target, &at)) {
        if (strlen(way) + strlen(at.id) > WAY_BYTES_MAX)
            return dibs__printf(tx, "%s -> ...", way);
        way = dibs__printf(tx, "%s -> %s", way, at.id);
    }
    return way ? way : from->id;
}

static dibs_status add_one(struct tx *tx, const struct task_row *row, const char *id)
{
    struct task_row needed = {0};
    dibs_status status = dibs__check_id(tx->err, "dependsOn", id);
    if (status == DIBS_OK)
        status = dibs__task_load(tx, id, &needed);
    if (status == DIBS_TASK_NOT_FOUND)
        return dibs__refuse(tx, status, "task '%s' depends on '%s', which does not exist", row->id,
                            id);
    if (status != DIBS_OK)
        return status;
    if (is_reachable(tx, needed.key, row->key))
        return dibs__refuse(tx, DIBS_DEPENDENCY_CYCLE,
                            "the dependencies would form a cycle: %s -> %s", row->id,
                            write_way(tx, &needed, row->key));
    db_exec(tx->db,
            SQL("INSERT INTO task_dependency (task_key, needs_key) VALUES ($1, $2) ON CONFLICT DO "
                "NOTHING"),
            DB_ARGS(db_i(row->key), db_i(needed.key)));
    dibs__task_add_parts(tx, row->key, PART_NEEDS);
    dibs__task_add_parts(tx, needed.key, PART_NEEDED);
    return dibs__store_status(tx);
}

dibs_status dibs__dependencies_set(struct tx *tx, const struct task_row *row,
                                   struct dibs_strings ids)
{
    if (ids.count > DEPENDENCIES_MAX)
        return error_field(tx->err, "dependsOn", "has more than %d entries", DEPENDENCIES_MAX);
    db_exec(tx->db, SQL("DELETE FROM task_dependency WHERE task_key = $1"),
            DB_ARGS(db_i(row->key)));
    dibs_status status = dibs__store_status(tx);
    for (size_t i = 0; status == DIBS_OK && i < ids.count; i++)
        status = add_one(tx, row, ids.items[i]);
    return status;
}

/* ---- telling dependants ---------------------------------------------------------------------- */

struct keys {
    int64_t *items;
    size_t count;
};

static void blocked_dependants(struct tx *tx, int64_t needs_key, struct keys *out)
{
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT t.key FROM task_dependency p JOIN task t ON t.key = p.task_key "
                     "WHERE p.needs_key = $1 AND t.status = 'blocked' ORDER BY t.key"),
                 DB_ARGS(db_i(needs_key)));
    while (db_next(rows)) {
        int64_t *key = dibs__push(tx, &out->items, &out->count, sizeof *key);
        if (key)
            *key = db_int(rows, 0);
    }
    db_done(rows);
}

static bool is_blocked_by_hand(struct tx *tx, int64_t task_key)
{
    return db_value_int(
               tx->db, 0,
               SQL("SELECT 1 FROM task_body WHERE task_key = $1 AND block_reason IS NOT NULL"),
               DB_ARGS(db_i(task_key))) == 1;
}

void dibs__dependants_unblock(struct tx *tx, const struct task_row *finished)
{
    struct keys keys = {0};
    blocked_dependants(tx, finished->key, &keys);
    for (size_t i = 0; i < keys.count; i++) {
        struct task_row row = {0};
        if (is_blocked_by_hand(tx, keys.items[i]) ||
            dibs__has_unfinished_dependencies(tx, keys.items[i]))
            continue;
        if (!dibs__task_load_key(tx, keys.items[i], &row))
            return;
        row.due_at = row.run_after;
        dibs__task_set_status(tx, &row, MOVE_UNBLOCK, dibs__task_home(&row));
        struct jw *w = dibs__task_event(tx, "task:unblocked", &row, NULL, NULL, -1);
        jw_ktext(w, "dependency", finished->id);
        dibs__event_end(tx);
    }
}

void dibs__dependants_tell_failure(struct tx *tx, const struct task_row *failed)
{
    struct keys keys = {0};
    blocked_dependants(tx, failed->key, &keys);
    for (size_t i = 0; i < keys.count; i++) {
        struct task_row row = {0};
        if (!dibs__task_load_key(tx, keys.items[i], &row))
            return;
        struct jw *w = dibs__task_event(tx, "task:blocked", &row, NULL, NULL, -1);
        jw_ktext(w, "reason", "dependency_failed");
        jw_ktext(w, "dependency", failed->id);
        jw_ktext(w, "dependencyStatus", dibs_task_status_name(failed->status));
        dibs__event_end(tx);
    }
}
