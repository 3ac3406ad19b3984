/* SPDX-License-Identifier: MIT */
/*
 * tx.c: how an operation runs.
 *
 * One operation = one transaction. Alone it gets its own; inside dibs_batch_begin or dibs_once it
 * is a savepoint of the one that is open, so that a refusal undoes only itself; so is a batch
 * inside a batch. Events are collected while the operation runs and get their numbers last, just
 * before the commit.
 *
 *  1. Nothing is answered DIBS_OK before the commit has returned (in a batch: before
 *     dibs_batch_commit).
 *  2. A refusal leaves no trace, unless the operation set tx->keep (a refused claim is journalled,
 *     a late result is kept).
 *  3. The caller's `out` is written only on success.
 */
#include "core/swarm.h"

dibs_status dibs__refuse(struct tx *tx, dibs_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char text[sizeof tx->err->message];
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(tx->err, code, "%s", text);
}

dibs_status dibs__store_status(struct tx *tx)
{
    return db_ok(tx->db) ? DIBS_OK : db_error(tx->db, tx->err);
}

void *dibs__alloc(struct tx *tx, size_t bytes)
{
    void *block = arena_alloc(tx->a, bytes ? bytes : 1);
    if (!block)
        db_fail(tx->db, DIBS_OUT_OF_MEMORY, "out of memory");
    return block;
}

char *dibs__strdup(struct tx *tx, const char *text)
{
    char *copy = arena_strdup(tx->a, text);
    if (!copy && text)
        db_fail(tx->db, DIBS_OUT_OF_MEMORY, "out of memory");
    return copy;
}

char *dibs__printf(struct tx *tx, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return dibs__strdup(tx, text);
}

void *dibs__push(struct tx *tx, void *items, size_t *count, size_t element_bytes)
{
    void *element = arena_push(tx->a, items, count, element_bytes);
    if (!element)
        db_fail(tx->db, DIBS_OUT_OF_MEMORY, "out of memory");
    return element;
}

/* ---- transactions ---------------------------------------------------------------------------- */

static void forget_transaction(dibs *d)
{
    d->writing = false;
    d->level_count = 0;
    d->looked_at = 0;
    d->drafts = NULL;
    d->draft_count = 0;
    dibs_arena_reset(d->drafts_arena);
}

static dibs_status transaction_begin(struct tx *tx, enum db_mode mode)
{
    forget_transaction(tx->d);
    if (!db_begin(tx->db, mode))
        return db_error(tx->db, tx->err);
    if (mode == DB_WRITE && !db_unchanged(tx->db))
        dibs__counters_forget(tx->d);
    dibs_status status = dibs__clock_begin(tx, mode == DB_WRITE);
    if (status != DIBS_OK) {
        db_rollback(tx->db);
        return status;
    }
    tx->d->writing = mode == DB_WRITE;
    return DIBS_OK;
}

static dibs_status transaction_commit(struct tx *tx)
{
    dibs_status status = DIBS_OK;
    if (tx->d->writing) {
        status = dibs__events_flush(tx);
        dibs__counters_save(tx);
        status = status == DIBS_OK ? dibs__store_status(tx) : status;
    }
    if (status == DIBS_OK && !db_commit(tx->db))
        status = db_error(tx->db, tx->err);
    else if (status != DIBS_OK)
        db_rollback(tx->db);
    if (status == DIBS_OK && tx->d->counters[COUNTER_EVENT].known)
        tx->d->last_event = tx->d->counters[COUNTER_EVENT].value;
    if (status == DIBS_OK)
        dibs__counters_saved(tx->d);
    else
        dibs__counters_forget(tx->d);
    forget_transaction(tx->d);
    return status;
}

static void transaction_cancel(struct tx *tx)
{
    db_rollback(tx->db);
    dibs__counters_forget(tx->d);
    forget_transaction(tx->d);
}

/* Back to the innermost savepoint, when there were so many drafts. */
static void undo_to(struct tx *tx, size_t drafts)
{
    db_rollback_to(tx->db);
    dibs__drafts_cut(tx->d, drafts);
    tx->d->looked_at = 0; /* what was put back may be due again */
    dibs__leads_forget(tx->d);
}

/* ---- levels: savepoints opened by dibs_batch_begin ------------------------------------------- */

static dibs_status level_begin(struct tx *tx)
{
    dibs *d = tx->d;
    if (!d->writing || d->level_count == BATCH_LEVELS_MAX)
        return error_set(tx->err, DIBS_STORE_BUSY, "a transaction is already open on this handle");
    if (!db_savepoint(tx->db))
        return db_error(tx->db, tx->err);
    d->levels[d->level_count++] = (struct batch_level){
        .depth = d->depth,
        .nested_done = d->nested_done,
        .nested_kept = d->nested_kept,
        .drafts = d->draft_count,
    };
    return DIBS_OK;
}

/* Whether the innermost batch is a level, and was opened by the work that is running now. */
static bool at_level(const dibs *d)
{
    return d->level_count > 0 && d->levels[d->level_count - 1].depth == d->depth;
}

static void level_cancel(struct tx *tx)
{
    dibs *d = tx->d;
    const struct batch_level *level = &d->levels[--d->level_count];
    undo_to(tx, level->drafts);
    d->nested_done = level->nested_done; /* what was undone did not happen */
    d->nested_kept = level->nested_kept;
}

static dibs_status level_commit(struct tx *tx)
{
    if (db_release(tx->db)) {
        tx->d->level_count--;
        return DIBS_OK;
    }
    dibs_status status = db_error(tx->db, tx->err);
    level_cancel(tx);
    return status;
}

void dibs__levels_drop(struct tx *tx)
{
    while (at_level(tx->d))
        level_cancel(tx);
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Runs the work itself; store failures win over whatever the work made of empty results. */
static dibs_status run_work(struct tx *tx, tx_work *work, const void *in, void *out)
{
    tx->now = dibs__clock_now(tx->d);
    tx->keep = false;
    tx->d->depth++;
    dibs_status status = work(tx, in, out);
    tx->d->depth--;
    dibs_status store = dibs__store_status(tx);
    return store != DIBS_OK ? store : status;
}

static bool must_undo(const struct tx *tx, dibs_status status)
{
    return status != DIBS_OK && (!tx->keep || dibs_status_is_failure(status));
}

/* Inside an open transaction: a savepoint, so that the neighbours are not harmed. */
static dibs_status run_nested(struct tx *tx, tx_work *work, const void *in, void *out)
{
    size_t mark = tx->d->draft_count;
    if (!tx->d->writing)
        return run_work(tx, work, in, out); /* readers have nothing to undo */
    if (!db_savepoint(tx->db))
        return db_error(tx->db, tx->err);
    dibs_status status = run_work(tx, work, in, out);
    if (!must_undo(tx, status)) {
        if (db_release(tx->db)) {
            tx->d->nested_done += status == DIBS_OK;
            tx->d->nested_kept += status != DIBS_OK;
            return status;
        }
        status = db_error(tx->db, tx->err);
    }
    undo_to(tx, mark);
    return status;
}

static dibs_status run_alone(struct tx *tx, enum db_mode mode, tx_work *work, const void *in,
                             void *out)
{
    dibs_status status = transaction_begin(tx, mode);
    if (status != DIBS_OK)
        return status;
    status = run_work(tx, work, in, out);
    if (must_undo(tx, status)) {
        transaction_cancel(tx);
        return status;
    }
    dibs_status committed = transaction_commit(tx);
    return committed != DIBS_OK ? committed : status;
}

static bool in_transaction(const dibs *d)
{
    return d->batch || d->depth > 0;
}

/* Whether a sweep is due is in the store; asking costs a transaction, so it is asked now and
 * then. */
#define SWEEP_ASK_MS 1000

static void sweep_if_due(dibs *d)
{
    int64_t steady = d->platform->steady_ms(d->platform->context);
    bool asked = d->sweep_asked_ms != 0 && steady - d->sweep_asked_ms < SWEEP_ASK_MS &&
                 d->settings.cleanup_interval_ms > SWEEP_ASK_MS;
    bool ran = false;
    struct dibs_error ignored = {0};
    if (!d->settings.auto_cleanup || d->serving || d->maintaining || asked)
        return;
    d->sweep_asked_ms = steady;
    /* a sweep that fails is tried again; nobody waits for it */
    (void)!dibs_maintain(d, &ran, &ignored);
}

static dibs_status run(dibs *d, dibs_arena *a, struct dibs_error *err, enum db_mode mode,
                       tx_work *work, const void *in, void *out, size_t out_bytes)
{
    struct dibs_error unheard = {0};
    struct tx tx = {.d = d, .db = d->db, .a = a, .err = err ? err : &unheard};
    *tx.err = (struct dibs_error){0};
    void *result = out_bytes ? arena_alloc(a, out_bytes) : NULL;
    if (out_bytes && !result)
        return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
    bool alone = !in_transaction(d);
    dibs_status status =
        alone ? run_alone(&tx, mode, work, in, result) : run_nested(&tx, work, in, result);
    if (status == DIBS_OK && out_bytes)
        memcpy(out, result, out_bytes);
    if (alone && mode == DB_WRITE) {
        dibs__deliver(d);
        if (!dibs_status_is_failure(status))
            sweep_if_due(d);
    }
    return status;
}

static dibs_status refuse_in_callback(struct dibs_error *err)
{
    return error_set(err, DIBS_STORE_BUSY,
                     "an event callback cannot write; note the event and write later");
}

dibs_status dibs__write(dibs *d, dibs_arena *a, struct dibs_error *err, tx_work *work,
                        const void *in, void *out, size_t out_bytes)
{
    if (d->delivering)
        return refuse_in_callback(err);
    return run(d, a, err, DB_WRITE, work, in, out, out_bytes);
}

dibs_status dibs__read(dibs *d, dibs_arena *a, struct dibs_error *err, tx_work *work,
                       const void *in, void *out, size_t out_bytes)
{
    return run(d, a, err, DB_READ, work, in, out, out_bytes);
}

/* ---- batches --------------------------------------------------------------------------------- */

dibs_status dibs_batch_begin(dibs *d, struct dibs_error *err)
{
    struct dibs_error unheard = {0};
    struct tx tx = {.d = d, .db = d->db, .a = d->drafts_arena, .err = err ? err : &unheard};
    if (d->delivering)
        return refuse_in_callback(err);
    if (in_transaction(d))
        return level_begin(&tx);
    dibs_status status = transaction_begin(&tx, DB_WRITE);
    d->batch = status == DIBS_OK;
    return status;
}

dibs_status dibs_batch_commit(dibs *d, struct dibs_error *err)
{
    struct dibs_error unheard = {0};
    struct tx tx = {.d = d, .db = d->db, .a = d->drafts_arena, .err = err ? err : &unheard};
    if (at_level(d))
        return level_commit(&tx);
    if (!d->batch)
        return error_set(err, DIBS_STORE_BUSY, "no batch is open on this handle");
    if (d->depth > 0)
        return error_set(err, DIBS_STORE_BUSY, "an operation of the batch is still under way");
    d->batch = false;
    tx.now = dibs__clock_now(d);
    dibs_status status = transaction_commit(&tx);
    if (status == DIBS_OK) {
        dibs__deliver(d);
        sweep_if_due(d);
    }
    return status;
}

void dibs_batch_cancel(dibs *d)
{
    struct tx tx = {.d = d, .db = d ? d->db : NULL};
    if (d && at_level(d)) {
        level_cancel(&tx);
    } else if (d && d->batch && d->depth == 0) {
        d->batch = false;
        transaction_cancel(&tx);
    }
}
