/* SPDX-License-Identifier: MIT */
/*
 * task_read.c: tasks from rows to what callers see: one, a page of them, and everything that
 * happened to one.
 *
 * The hot row is read first; long texts, tags and dependencies are fetched beside it, so that the
 * rows which every claim touches stay small.
 */
#include "core/core.h"

static enum dibs_task_status read_status(struct tx *tx, const char *word)
{
    enum dibs_task_status status = DIBS_TASK_OPEN;
    if (db_ok(tx->db) && (!word || !dibs_task_status_parse(word, &status)))
        db_fail(tx->db, DIBS_STORE_CORRUPT, "a task has a status that does not exist");
    return status;
}

void dibs__task_row_read(struct tx *tx, struct db_rows *rows, struct task_row *out)
{
    *out = (struct task_row){
        .key = db_int(rows, 0),
        .id = db_text(rows, 1, tx->a),
        .project = db_text(rows, 2, tx->a),
        .title = db_text(rows, 3, tx->a),
        .type = db_text(rows, 4, tx->a),
        .phase = db_text(rows, 5, tx->a),
        .status = read_status(tx, db_text_borrowed(rows, 6)),
        .ready = db_int(rows, 7) != 0,
        .priority = db_int(rows, 8),
        .attempts = db_int(rows, 9),
        .max_attempts = db_int(rows, 10),
        .generation = db_int(rows, 11),
        .version = db_int(rows, 12),
        .run_after = db_int(rows, 13),
        .due_at = db_int(rows, 14),
        .claim_timeout = db_int(rows, 15),
        .assignee = db_text(rows, 16, tx->a),
        .offered_to = db_text(rows, 17, tx->a),
        .dedupe_key = db_text(rows, 18, tx->a),
        .last_token = db_int(rows, 19),
        .created_at = db_int(rows, 20),
        .updated_at = db_int(rows, 21),
        .finished_at = db_int(rows, 22),
        .parts = db_int(rows, 23),
        .offered_at = db_int(rows, 24),
    };
}

static bool read_only_row(struct tx *tx, struct db_rows *rows, struct task_row *out)
{
    bool found = db_next(rows);
    if (found)
        dibs__task_row_read(tx, rows, out);
    db_done(rows);
    return found && db_ok(tx->db);
}

dibs_status dibs__task_load(struct tx *tx, const char *id, struct task_row *out)
{
    dibs_status status = dibs__check_id(tx->err, "id", id);
    if (status != DIBS_OK)
        return status;
    struct db_rows *rows = db_query(
        tx->db, SQL("SELECT " TASK_COLUMNS " FROM task t WHERE t.id = $1"), DB_ARGS(db_t(id)));
    if (read_only_row(tx, rows, out))
        return DIBS_OK;
    return dibs__refuse(tx, DIBS_TASK_NOT_FOUND, "there is no task '%s'", id);
}

bool dibs__task_load_key(struct tx *tx, int64_t key, struct task_row *out)
{
    return read_only_row(tx,
                         db_query(tx->db,
                                  SQL("SELECT " TASK_COLUMNS " FROM task t WHERE t.key = $1"),
                                  DB_ARGS(db_i(key))),
                         out);
}

static bool read_with_claim(struct tx *tx, struct db_rows *rows, struct task_row *task,
                            struct claim_row *newest)
{
    bool found = db_next(rows);
    if (found) {
        dibs__task_row_read(tx, rows, task);
        dibs__claim_row_read(tx, rows, TASK_COLUMN_COUNT, newest);
    }
    db_done(rows);
    return found && db_ok(tx->db);
}

#define TASK_AND_CLAIM "SELECT " TASK_COLUMNS ", " CLAIM_COLUMNS " FROM "

/* A token is the key of its row and leads to the task, so the id need not be looked up. Whether it
 * is the right task, and the newest claim, is seen then. */
dibs_status dibs__task_load_claimed(struct tx *tx, const char *id, int64_t token,
                                    struct task_row *task, struct claim_row *newest)
{
    dibs_status status = dibs__check_id(tx->err, "id", id);
    if (status != DIBS_OK)
        return status;
    if (token &&
        read_with_claim(tx,
                        db_query(tx->db,
                                 SQL(TASK_AND_CLAIM "claim c JOIN task t ON t.key = c.task_key "
                                                    "WHERE c.token = $1"),
                                 DB_ARGS(db_i(token))),
                        task, newest) &&
        task->last_token == token && str_eq(task->id, id))
        return DIBS_OK;
    if (read_with_claim(tx,
                        db_query(tx->db,
                                 SQL(TASK_AND_CLAIM "task t LEFT JOIN claim c "
                                                    "ON c.token = t.last_token WHERE t.id = $1"),
                                 DB_ARGS(db_t(id))),
                        task, newest))
        return DIBS_OK;
    return dibs__refuse(tx, DIBS_TASK_NOT_FOUND, "there is no task '%s'", id);
}

/* ---- the whole task -------------------------------------------------------------------------- */

static void read_body(struct tx *tx, int64_t key, struct dibs_task *out)
{
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT description, params, metadata, result, error, block_reason, "
                     "rejection_reason FROM task_body WHERE task_key = $1"),
                 DB_ARGS(db_i(key)));
    if (db_next(rows)) {
        out->description = db_text(rows, 0, tx->a);
        out->params = db_text(rows, 1, tx->a);
        out->metadata = db_text(rows, 2, tx->a);
        out->result = db_text(rows, 3, tx->a);
        out->error = db_text(rows, 4, tx->a);
        out->block_reason = db_text(rows, 5, tx->a);
        out->rejection_reason = db_text(rows, 6, tx->a);
    }
    db_done(rows);
}

static void read_tags(struct tx *tx, int64_t key, struct dibs_task *out)
{
    const char **items = NULL;
    size_t count = 0;
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT tag FROM task_tag WHERE task_key = $1 ORDER BY tag"),
                 DB_ARGS(db_i(key)));
    while (db_next(rows)) {
        const char **tag = dibs__push(tx, &items, &count, sizeof *tag);
        if (tag)
            *tag = db_text(rows, 0, tx->a);
    }
    db_done(rows);
    out->tags = (struct dibs_strings){.items = items, .count = count};
}

static bool has_part(const struct tx *tx, const struct task_row *row, enum task_part part)
{
    bool unknown = tx->parts_key == row->key || tx->parts_key < 0;
    return ((row->parts | (unknown ? tx->parts : 0)) & part) != 0;
}

static void fill_without_claim(struct tx *tx, const struct task_row *row, struct dibs_task *out)
{
    *out = (struct dibs_task){
        .id = row->id,
        .project = row->project,
        .title = row->title,
        .type = row->type,
        .phase = row->phase,
        .status = row->status,
        .priority = row->priority,
        .assignee = row->assignee,
        .offered_to = row->offered_to,
        .offered_at_ms = row->offered_at,
        .run_after_ms = row->due_at ? row->due_at : row->run_after,
        .attempts = row->attempts,
        .max_attempts = row->max_attempts,
        .generation = row->generation,
        .version = row->version,
        .claim_timeout_ms = row->claim_timeout,
        .dedupe_key = row->dedupe_key,
        .created_at_ms = row->created_at,
        .updated_at_ms = row->updated_at,
        .finished_at_ms = row->finished_at,
    };
    if (has_part(tx, row, PART_BODY))
        read_body(tx, row->key, out);
    if (has_part(tx, row, PART_TAGS))
        read_tags(tx, row->key, out);
    if (has_part(tx, row, PART_NEEDS))
        dibs__dependencies_read(tx, row->key, out);
    if (has_part(tx, row, PART_NOTICE))
        out->notified_at_ms =
            db_value_int(tx->db, 0, SQL("SELECT notified_at FROM notice WHERE task_key = $1"),
                         DB_ARGS(db_i(row->key)));
}

void dibs__task_full_claimed(struct tx *tx, const struct task_row *row, const struct claim_row *c,
                             struct dibs_task *out)
{
    fill_without_claim(tx, row, out);
    struct dibs_claim *claim = dibs__alloc(tx, sizeof *claim);
    if (!claim)
        return;
    dibs__claim_full(tx, c, row->id, claim);
    out->claim = claim;
}

void dibs__task_full(struct tx *tx, const struct task_row *row, struct dibs_task *out)
{
    bool held = row->status == DIBS_TASK_IN_PROGRESS || row->status == DIBS_TASK_REVIEWING;
    struct claim_row c = {0};
    if (held && dibs__claim_load(tx, row->last_token, &c) && !c.ended_at)
        dibs__task_full_claimed(tx, row, &c, out);
    else
        fill_without_claim(tx, row, out);
}

static dibs_status get_tx(struct tx *tx, const void *input, void *output)
{
    struct task_row row = {0};
    dibs_status status = dibs__task_load(tx, input, &row);
    if (status == DIBS_OK)
        dibs__task_full(tx, &row, output);
    return status;
}

dibs_status dibs_task_get(dibs *d, dibs_arena *a, const char *id, struct dibs_task *out,
                          struct dibs_error *err)
{
    return dibs__read(d, a, err, get_tx, id, out, sizeof *out);
}

/* ---- pages ----------------------------------------------------------------------------------- */

static bool status_wanted(const struct dibs_task_filter *in, enum dibs_task_status status)
{
    for (size_t i = 0; i < in->status_count; i++)
        if (in->statuses[i] == status)
            return true;
    return in->status_count == 0;
}

static bool has_tag(struct tx *tx, int64_t key, const char *tag)
{
    return db_value_int(tx->db, 0, SQL("SELECT 1 FROM task_tag WHERE tag = $1 AND task_key = $2"),
                        DB_ARGS(db_t(tag), db_i(key))) == 1;
}

static bool held_by(struct tx *tx, const struct task_row *row, const char *session_id)
{
    struct claim_row c = {0};
    bool held = row->status == DIBS_TASK_IN_PROGRESS || row->status == DIBS_TASK_REVIEWING;
    return held && dibs__claim_load(tx, row->last_token, &c) && str_eq(c.session_id, session_id);
}

/* Filters are applied row by row in the order of creation: any combination works and a page stays a
 * page. */
static bool row_wanted(struct tx *tx, const struct dibs_task_filter *in, const struct task_row *row)
{
    if (!status_wanted(in, row->status))
        return false;
    if ((in->type && !str_eq(in->type, row->type)) || (in->phase && !str_eq(in->phase, row->phase)))
        return false;
    if (in->assignee && !str_eq(in->assignee, row->assignee))
        return false;
    if (in->tag && !has_tag(tx, row->key, in->tag))
        return false;
    return !in->session_id || held_by(tx, row, in->session_id);
}

static struct db_rows *select_page(struct tx *tx, const struct dibs_task_filter *in, int64_t after)
{
    if (in->project)
        return db_query(tx->db,
                        SQL("SELECT " TASK_COLUMNS
                            " FROM task t WHERE t.key > $1 AND t.project = $2 ORDER BY t.key"),
                        DB_ARGS(db_i(after), db_t(in->project)));
    return db_query(tx->db,
                    SQL("SELECT " TASK_COLUMNS " FROM task t WHERE t.key > $1 ORDER BY t.key"),
                    DB_ARGS(db_i(after)));
}

static dibs_status list_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_task_filter *in = input;
    struct dibs_task_list *out = output;
    int64_t after = 0, limit = 0;
    if (in->cursor && !str_to_int(in->cursor, &after))
        return error_field(tx->err, "cursor", "is not one that a list has returned");
    dibs_status status = dibs__check_limit(tx->err, in->limit, &limit);
    if (status != DIBS_OK)
        return status;
    struct db_rows *rows = select_page(tx, in, after);
    while (db_next(rows)) {
        struct task_row row;
        dibs__task_row_read(tx, rows, &row);
        if (!row_wanted(tx, in, &row))
            continue;
        if ((int64_t)out->count == limit) { /* one more than asked for: there is a next page */
            out->next_cursor = dibs__printf(tx, "%" PRId64, after);
            break;
        }
        struct dibs_task *task = dibs__push(tx, &out->items, &out->count, sizeof *task);
        if (task)
            dibs__task_full(tx, &row, task);
        after = row.key;
    }
    db_done(rows);
    return dibs__store_status(tx);
}

dibs_status dibs_task_list(dibs *d, dibs_arena *a, const struct dibs_task_filter *in,
                           struct dibs_task_list *out, struct dibs_error *err)
{
    return dibs__read(d, a, err, list_tx, in, out, sizeof *out);
}

/* ---- history --------------------------------------------------------------------------------- */

static void read_attempts(struct tx *tx, const struct task_row *row, struct dibs_history *out)
{
    for (int64_t token = row->last_token; token;) {
        struct claim_row c = {0};
        if (!dibs__claim_load(tx, token, &c))
            break;
        struct dibs_claim *claim =
            dibs__push(tx, &out->attempts, &out->attempt_count, sizeof *claim);
        if (claim)
            dibs__claim_full(tx, &c, row->id, claim);
        token = c.before_of_task;
    }
    for (size_t i = 0; i < out->attempt_count / 2; i++) { /* the chain runs backwards */
        struct dibs_claim first = out->attempts[i];
        out->attempts[i] = out->attempts[out->attempt_count - 1 - i];
        out->attempts[out->attempt_count - 1 - i] = first;
    }
}

static dibs_status history_tx(struct tx *tx, const void *input, void *output)
{
    struct dibs_history *out = output;
    struct task_row row = {0};
    dibs_status status = dibs__task_load(tx, input, &row);
    if (status != DIBS_OK)
        return status;
    struct db_rows *rows = db_query(
        tx->db, SQL("SELECT " EVENT_COLUMNS EVENT_FROM "WHERE e.task_key = $1 ORDER BY e.number"),
        DB_ARGS(db_i(row.key)));
    while (db_next(rows)) {
        struct dibs_event *e = dibs__push(tx, &out->events, &out->event_count, sizeof *e);
        if (e)
            dibs__event_read(tx, rows, e);
    }
    db_done(rows);
    read_attempts(tx, &row, out);
    return dibs__store_status(tx);
}

dibs_status dibs_task_history(dibs *d, dibs_arena *a, const char *task_id, struct dibs_history *out,
                              struct dibs_error *err)
{
    return dibs__read(d, a, err, history_tx, task_id, out, sizeof *out);
}
