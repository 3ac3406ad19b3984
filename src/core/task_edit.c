/* SPDX-License-Identifier: MIT */
/*
 * task_edit.c: changing what a task says: texts, numbers, tags, dependencies. One event tells every
 * field that changed.
 *
 * With a version given, the change happens only if nobody has changed the task since. New
 * dependencies may block an open task or, when they are all completed, free a blocked one.
 */
#include "core/core.h"

#include <assert.h>

static dibs_status check_edit_texts(struct dibs_error *err, const struct dibs_task_edit *in)
{
    dibs_status status =
        in->title ? dibs__check_required(err, "title", in->title, TITLE_BYTES_MAX) : DIBS_OK;
    if (status == DIBS_OK)
        status = dibs__check_text(err, "description", in->description, DESCRIPTION_BYTES_MAX);
    if (status == DIBS_OK)
        status = dibs__check_text(err, "type", in->type, WORD_BYTES_MAX);
    if (status == DIBS_OK)
        status = dibs__check_text(err, "phase", in->phase, WORD_BYTES_MAX);
    if (status == DIBS_OK && in->params && *in->params)
        status = json_check(in->params, JSON_VALUE_BYTES_MAX, "params", err);
    if (status == DIBS_OK && in->metadata && *in->metadata)
        status = json_check(in->metadata, JSON_VALUE_BYTES_MAX, "metadata", err);
    return status;
}

static dibs_status check_edit_numbers(struct tx *tx, const struct dibs_task_edit *in,
                                      const struct task_row *row)
{
    dibs_status status = DIBS_OK;
    if (in->priority.given)
        status =
            dibs__check_range(tx->err, "priority", in->priority.value, PRIORITY_MIN, PRIORITY_MAX);
    if (status == DIBS_OK && in->run_after_ms.given && in->run_after_ms.value < 0)
        status = error_field(tx->err, "runAfter", "lies before 1970");
    if (status == DIBS_OK && in->claim_timeout_ms.given)
        status = dibs__check_ttl(tx, "claimTimeoutMs", in->claim_timeout_ms.value);
    if (status != DIBS_OK || !in->max_attempts.given)
        return status;
    /* a task that waits must have an attempt left, or nobody could ever claim it */
    bool running = row->status == DIBS_TASK_IN_PROGRESS || dibs__task_is_final(row->status);
    int64_t least = running ? row->attempts : row->attempts + 1;
    if (in->max_attempts.value != 0 && in->max_attempts.value < least)
        return error_field(tx->err, "maxAttempts",
                           "must be 0 (no limit) or at least %" PRId64 ": %" PRId64
                           " are used already",
                           least, row->attempts);
    return dibs__check_range(tx->err, "maxAttempts", in->max_attempts.value, 0, MAX_ATTEMPTS_MAX);
}

static const char *text_after(const char *given, const char *before)
{
    if (!given)
        return before;
    return *given ? given : NULL; /* "" clears */
}

static void apply_row(struct tx *tx, const struct dibs_task_edit *in, struct task_row *row)
{
    row->title = in->title ? in->title : row->title;
    row->type = text_after(in->type, row->type);
    row->phase = text_after(in->phase, row->phase);
    row->priority = in->priority.given ? in->priority.value : row->priority;
    row->max_attempts = in->max_attempts.given ? in->max_attempts.value : row->max_attempts;
    row->claim_timeout =
        in->claim_timeout_ms.given ? in->claim_timeout_ms.value : row->claim_timeout;
    if (in->run_after_ms.given) {
        row->run_after = in->run_after_ms.value;
        row->due_at =
            row->status == DIBS_TASK_OPEN && row->run_after > tx->now ? row->run_after : 0;
        row->ready = row->status == DIBS_TASK_OPEN && !row->due_at;
    }
    db_exec(tx->db,
            SQL("UPDATE task SET title = $2, type = $3, phase = $4, priority = $5, max_attempts = "
                "$6, claim_timeout = $7, "
                "run_after = $8 WHERE key = $1"),
            DB_ARGS(db_i(row->key), db_t(row->title), db_t(row->type), db_t(row->phase),
                    db_i(row->priority), db_i(row->max_attempts), db_i_or_null(row->claim_timeout),
                    db_i_or_null(row->run_after)));
    dibs__task_save(tx, row);
}

void dibs__task_set_text(struct tx *tx, int64_t key, const char *sql, const char *text)
{
    dibs__task_add_parts(tx, key, PART_BODY);
    db_exec(tx->db, sql, DB_ARGS(db_i(key), db_t(text)));
}

#define SET_BODY(column)                                                                           \
    SQL("INSERT INTO task_body (task_key, " column ") VALUES ($1, $2) "                            \
        "ON CONFLICT (task_key) DO UPDATE SET " column " = excluded." column)

void dibs__task_set_error(struct tx *tx, int64_t key, const char *error)
{
    dibs__task_set_text(tx, key, SET_BODY("error"), error);
}
void dibs__task_set_result(struct tx *tx, int64_t key, const char *result)
{
    dibs__task_set_text(tx, key, SET_BODY("result"), result);
}
void dibs__task_put_result(struct tx *tx, const struct task_row *row, const char *result)
{
    assert(row->parts & PART_BODY);
    db_exec(tx->db, SET_BODY("result"), DB_ARGS(db_i(row->key), db_t(result)));
}
void dibs__task_set_block_reason(struct tx *tx, int64_t key, const char *reason)
{
    dibs__task_set_text(tx, key, SET_BODY("block_reason"), reason);
}
void dibs__task_set_rejection(struct tx *tx, int64_t key, const char *reason)
{
    dibs__task_set_text(tx, key, SET_BODY("rejection_reason"), reason);
}

static void apply_body(struct tx *tx, const struct dibs_task_edit *in, int64_t key)
{
    if (in->description)
        dibs__task_set_text(tx, key, SET_BODY("description"), text_after(in->description, NULL));
    if (in->params)
        dibs__task_set_text(tx, key, SET_BODY("params"), text_after(in->params, NULL));
    if (in->metadata)
        dibs__task_set_text(tx, key, SET_BODY("metadata"), text_after(in->metadata, NULL));
}

static dibs_status apply_tags(struct tx *tx, const struct dibs_strings *tags, int64_t key)
{
    if (!tags)
        return DIBS_OK;
    if (tags->count > TAGS_MAX)
        return error_field(tx->err, "tags", "has more than %d entries", TAGS_MAX);
    db_exec(tx->db, SQL("DELETE FROM task_tag WHERE task_key = $1"), DB_ARGS(db_i(key)));
    if (tags->count)
        dibs__task_add_parts(tx, key, PART_TAGS);
    for (size_t i = 0; i < tags->count; i++) {
        dibs_status status = dibs__check_required(tx->err, "tags", tags->items[i], WORD_BYTES_MAX);
        if (status != DIBS_OK)
            return status;
        db_exec(tx->db,
                SQL("INSERT INTO task_tag (task_key, tag) VALUES ($1, $2) ON CONFLICT DO NOTHING"),
                DB_ARGS(db_i(key), db_t(tags->items[i])));
    }
    return DIBS_OK;
}

static dibs_status apply_dependencies(struct tx *tx, const struct dibs_task_edit *in,
                                      struct task_row *row)
{
    if (!in->depends_on)
        return DIBS_OK;
    dibs_status status = dibs__dependencies_set(tx, row, *in->depends_on);
    if (status != DIBS_OK)
        return status;
    bool must_wait = dibs__has_unfinished_dependencies(tx, row->key);
    bool waits = row->status == DIBS_TASK_BLOCKED;
    bool by_hand =
        waits &&
        db_value_int(
            tx->db, 0,
            SQL("SELECT 1 FROM task_body WHERE task_key = $1 AND block_reason IS NOT NULL"),
            DB_ARGS(db_i(row->key))) == 1;
    bool idle = row->status == DIBS_TASK_OPEN || row->status == DIBS_TASK_ASSIGNED;
    if (must_wait && idle) {
        dibs__task_set_status(tx, row, MOVE_BLOCK, DIBS_TASK_BLOCKED);
    } else if (!must_wait && waits && !by_hand) {
        row->due_at = row->run_after;
        dibs__task_set_status(tx, row, MOVE_UNBLOCK, dibs__task_home(row));
    }
    return DIBS_OK;
}

static void tell_updated(struct tx *tx, const struct dibs_task_edit *in, const struct task_row *row)
{
    struct jw *w = dibs__task_event(tx, "task:updated", row, NULL, NULL, -1);
    jw_ktext_opt(w, "title", in->title);
    if (in->type)
        jw_ktext(w, "type", row->type);
    if (in->phase)
        jw_ktext(w, "phase", row->phase);
    if (in->priority.given)
        jw_kint(w, "priority", row->priority);
    if (in->max_attempts.given)
        jw_kint(w, "maxAttempts", row->max_attempts);
    if (in->claim_timeout_ms.given)
        jw_kint(w, "claimTimeoutMs", row->claim_timeout);
    if (in->run_after_ms.given)
        jw_ktime(w, "asksToRunAfter", row->run_after);
    if (in->description)
        jw_ktext(w, "description", text_after(in->description, NULL));
    if (in->params)
        jw_kraw(w, "params", text_after(in->params, NULL));
    if (in->metadata)
        jw_kraw(w, "metadata", text_after(in->metadata, NULL));
    if (in->tags)
        jw_kstrings(w, "tags", *in->tags);
    if (in->depends_on)
        jw_kstrings(w, "dependsOn", *in->depends_on);
    dibs__event_end(tx);
}

static dibs_status update_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_task_edit *in = input;
    struct task_row row = {0};
    dibs_status status = dibs__task_load(tx, in->id, &row);
    if (status == DIBS_OK && in->version.given && in->version.value != row.version)
        status =
            dibs__refuse(tx, DIBS_VERSION_CONFLICT,
                         "task '%s' has version %" PRId64 " now, not %" PRId64 "; read it again",
                         row.id, row.version, in->version.value);
    if (status == DIBS_OK)
        status = check_edit_texts(tx->err, in);
    if (status == DIBS_OK)
        status = check_edit_numbers(tx, in, &row);
    if (status != DIBS_OK)
        return status;
    apply_row(tx, in, &row);
    apply_body(tx, in, row.key);
    status = apply_tags(tx, in->tags, row.key);
    if (status == DIBS_OK)
        status = apply_dependencies(tx, in, &row);
    if (status != DIBS_OK)
        return status;
    tell_updated(tx, in, &row);
    dibs__task_full(tx, &row, output);
    return dibs__store_status(tx);
}

dibs_status dibs_task_update(dibs *d, dibs_arena *a, const struct dibs_task_edit *in,
                             struct dibs_task *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, update_tx, in, out, sizeof *out);
}
