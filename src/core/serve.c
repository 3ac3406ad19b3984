/* SPDX-License-Identifier: MIT */
/*
 * serve.c: what a daemon does beside the operations: it wakes for deadlines, keeps the time in
 * which it could hear nobody from counting against anybody, ends sessions whose process is gone.
 *
 * What is due is found by reading: indexes have the earliest deadline, waiting task, warning
 * and ticket at their beginning, so that a look costs the same whatever there is. Only when
 * something is due does it write, a portion at a time.
 *
 *  1. Nothing ends early: the store's clock judges what is due, inside the writing transaction.
 *  2. It ends in the same way whoever looks first (claim_end.c, lock.c): other processes may have
 *     been quicker, and then there is nothing to do.
 *  3. alive_at (table counter) is the last moment in which the daemon could hear heartbeats. Every
 *     transaction of the daemon moves it on, and dibs__alive when there is nothing to write.
 *     Whoever was heard after it was heard by another process and has lost nothing.
 *
 * The periodic sweep is in cleanup.c; the daemon calls dibs_maintain when it likes.
 */
#include "core/serve.h"

#include "core/swarm.h"

void dibs__serve(dibs *d)
{
    d->serving = true;
}

/* ---- what is due ----------------------------------------------------------------------------- */

/* Store times; 0: there is none. */
struct due {
    int64_t now;
    int64_t lease, task, ticket;
    int64_t warned_lease; /* the first lease of which nobody was warned ends then */
    int64_t assigned;     /* the next assigned task may be claimed then; nothing to write */
    int64_t offer;        /* goes back to the pool then */
    int64_t behind;       /* events that the scores do not know yet */
};

/* Wakes those whose assigned tasks have come due after `upto`; returns when the next one does. */
static int64_t look_for_assigned(struct tx *tx, int64_t upto)
{
    int64_t next = 0;
    struct db_rows *rows = db_query(tx->db,
                                    SQL("SELECT run_after, assignee FROM task WHERE status = "
                                        "'assigned' AND run_after > $1 ORDER BY run_after"),
                                    DB_ARGS(db_i(upto)));
    while (next == 0 && db_next(rows)) {
        if (db_int(rows, 0) > tx->now)
            next = db_int(rows, 0);
        else
            dibs__wake_agent(tx, db_text_borrowed(rows, 1));
    }
    db_done(rows);
    return next;
}

/* Offers are gone through when one of them may be over (dibs__offers_expect), and again after so
 * long that one which another process has made since may be. */
static int64_t look_for_offers(struct tx *tx)
{
    struct tended *t = &tx->d->tended;
    bool is_known = t->offers_at && t->clock_offset == tx->d->clock_offset &&
                    (t->offers == 0 || t->offers > tx->now) &&
                    tx->now - t->offers_at < dibs__offer_patience(tx->d);
    if (!is_known) {
        t->offers = dibs__offers_next(tx);
        t->offers_at = tx->now;
    }
    return t->offers;
}

static void look(struct tx *tx, struct due *out)
{
    /* a clock that was set makes all that was remembered void */
    struct tended before = tx->d->tended.clock_offset == tx->d->clock_offset
                               ? tx->d->tended
                               : (struct tended){.warned_upto = 0};
    int64_t from = before.warned_upto > tx->now ? before.warned_upto : tx->now;
    *out = (struct due){.now = tx->now};
    out->lease = db_value_int(
        tx->db, 0,
        SQL("SELECT expires_at FROM claim WHERE ended_at IS NULL ORDER BY expires_at LIMIT 1"),
        DB_NO_ARGS);
    out->task = db_value_int(
        tx->db, 0, SQL("SELECT due_at FROM task WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1"),
        DB_NO_ARGS);
    out->ticket =
        db_value_int(tx->db, 0, SQL("SELECT min(gives_up_at) FROM lock_wait"), DB_NO_ARGS);
    out->warned_lease =
        db_value_int(tx->db, 0,
                     SQL("SELECT expires_at FROM claim WHERE ended_at IS NULL AND expires_at > $1 "
                         "AND warned = 0 AND kind = 'task' ORDER BY expires_at LIMIT 1"),
                     DB_ARGS(db_i(from)));
    out->assigned = look_for_assigned(tx, before.woken_upto);
    out->offer = look_for_offers(tx);
    out->behind = dibs__scores_behind(tx);
}

/*
 * Remembers how far assignees were woken, and how far warnings are out, so that the next look need
 * not pass all the leases that were warned of: a lease that is new or renewed ends later than that,
 * if no lease is shorter than the time between its warning and its end.
 */
static void remember(dibs *d, const struct due *due)
{
    int64_t ahead = d->settings.expiring_threshold_ms, upto = due->now + ahead - 1;
    if (due->warned_lease && due->warned_lease <= upto)
        upto = due->warned_lease - 1;
    d->tended.clock_offset = d->clock_offset;
    d->tended.warned_upto = d->settings.min_ttl_ms >= ahead ? upto : 0;
    d->tended.woken_upto = due->now;
}

static int64_t warning_of(const dibs *d, const struct due *due)
{
    int64_t ahead = d->settings.expiring_threshold_ms;
    return due->warned_lease && ahead > 0 ? due->warned_lease - ahead : 0;
}

static int64_t earliest(int64_t a, int64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The next thing that has to be written. */
static int64_t next_write(const dibs *d, const struct due *due)
{
    int64_t next = earliest(earliest(due->lease, due->task), due->ticket);
    return earliest(earliest(next, warning_of(d, due)), due->offer);
}

/* Counting events into the scores waits for no time, only until it is worth a transaction; if it
 * were left to the sweep, a busy store would have millions to count at once. */
static bool is_due(const dibs *d, const struct due *due)
{
    int64_t next = next_write(d, due);
    return (next != 0 && next <= due->now) || due->behind >= FOLD_BATCH_MAX;
}

static dibs_status look_tx(struct tx *tx, const void *input, void *output)
{
    (void)input;
    look(tx, output);
    return dibs__store_status(tx);
}

/* ---- doing it -------------------------------------------------------------------------------- */

static int64_t promote(struct tx *tx)
{
    db_exec(tx->db,
            SQL("UPDATE task SET ready = 1, due_at = NULL WHERE key IN (SELECT key FROM task "
                "WHERE due_at IS NOT NULL AND due_at <= $1 ORDER BY due_at LIMIT $2)"),
            DB_ARGS(db_i(tx->now), db_i(TEND_BATCH_MAX)));
    int64_t count = db_ok(tx->db) ? db_changes(tx->db) : 0;
    tx->d->wakes.tasks += count;
    return count;
}

struct done {
    struct dibs_due sum;
    struct due due;
};

static dibs_status tend_tx(struct tx *tx, const void *input, void *output)
{
    struct done *out = output;
    struct dibs_due *sum = &out->sum;
    (void)input;
    sum->locks = dibs__locks_expire(tx, NULL);
    sum->expired = dibs__expire_due(tx, TEND_BATCH_MAX, NULL);
    sum->promoted = promote(tx);
    if (look_for_offers(tx) && tx->d->tended.offers <= tx->now)
        sum->withdrawn = dibs__offers_withdraw(tx, TEND_BATCH_MAX);
    sum->warned = dibs__warn_expiring(tx);
    bool had_time = sum->locks + sum->expired + sum->promoted + sum->withdrawn + sum->warned == 0;
    if (had_time && dibs__scores_behind(tx) >= FOLD_BATCH_MAX)
        dibs__scores_fold(tx, 0);
    look(tx, &out->due);
    return dibs__store_status(tx);
}

dibs_status dibs__tend(dibs *d, dibs_arena *a, struct dibs_due *out, struct dibs_error *err)
{
    struct done done = {0};
    if (d->batch || d->depth > 0)
        return error_set(err, DIBS_STORE_BUSY, "a transaction is already open on this handle");
    dibs_status status = dibs__read(d, a, err, look_tx, NULL, &done.due, sizeof done.due);
    if (status == DIBS_OK && is_due(d, &done.due))
        status = dibs__write(d, a, err, tend_tx, NULL, &done, sizeof done);
    if (status != DIBS_OK)
        return status;
    remember(d, &done.due);
    *out = done.sum;
    out->now_ms = done.due.now;
    out->more = is_due(d, &done.due);
    out->next_ms = earliest(next_write(d, &done.due), done.due.assigned);
    return DIBS_OK;
}

/* ---- time in which nobody could be heard ----------------------------------------------------- */

/* Runs work that has no result. */
static dibs_status write_alone(dibs *d, tx_work *work, const void *in, void *out, size_t out_bytes,
                               struct dibs_error *err)
{
    dibs_arena *a = dibs_arena_new();
    if (!a)
        return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
    dibs_status status = dibs__write(d, a, err, work, in, out, out_bytes);
    dibs_arena_free(a);
    return status;
}

static void set_alive_at(struct tx *tx)
{
    db_exec(tx->db,
            SQL("INSERT INTO counter (name, value) VALUES ('alive_at', $1) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value"),
            DB_ARGS(db_i(tx->now)));
}

static dibs_status alive_tx(struct tx *tx, const void *input, void *output)
{
    (void)input;
    (void)output;
    set_alive_at(tx);
    return dibs__store_status(tx);
}

/* Whether there is anybody whose heartbeat could be missed. */
static dibs_status is_watched_tx(struct tx *tx, const void *input, void *output)
{
    (void)input;
    *(bool *)output =
        db_value_int(tx->db, 0, SQL("SELECT 1 FROM claim WHERE ended_at IS NULL LIMIT 1"),
                     DB_NO_ARGS) == 1 ||
        db_value_int(tx->db, 0, SQL("SELECT 1 FROM session WHERE ended_at IS NULL LIMIT 1"),
                     DB_NO_ARGS) == 1;
    return dibs__store_status(tx);
}

dibs_status dibs__alive(dibs *d, struct dibs_error *err)
{
    bool watched = false;
    dibs_arena *a = dibs_arena_new();
    if (!a)
        return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
    dibs_status status = dibs__read(d, a, err, is_watched_tx, NULL, &watched, sizeof watched);
    if (status == DIBS_OK && watched) /* an idle machine is left to sleep */
        status = dibs__write(d, a, err, alive_tx, NULL, NULL, 0);
    dibs_arena_free(a);
    return status;
}

static dibs_status after_downtime_tx(struct tx *tx, const void *input, void *output)
{
    (void)input;
    int64_t alive = db_value_int(
        tx->db, 0, SQL("SELECT value FROM counter WHERE name = 'alive_at'"), DB_NO_ARGS);
    int64_t count = alive > 0 ? dibs__leases_extend(tx, alive, "restart") : 0;
    set_alive_at(tx);
    *(int64_t *)output = count > 0 ? tx->now - alive : 0;
    return dibs__store_status(tx);
}

dibs_status dibs__after_downtime(dibs *d, int64_t *by_ms, struct dibs_error *err)
{
    d->tended = (struct tended){0}; /* leases were moved: look at them anew */
    dibs_status status = write_alone(d, after_downtime_tx, NULL, by_ms, sizeof *by_ms, err);
    /* not before: a transaction that came earlier would make it look alive all along */
    d->notes_alive = d->notes_alive || status == DIBS_OK;
    return status;
}

struct stall {
    int64_t by_ms;
    const char *reason;
};

static dibs_status extend_tx(struct tx *tx, const void *input, void *output)
{
    const struct stall *in = input;
    (void)output;
    dibs__leases_extend(tx, tx->now - in->by_ms, in->reason);
    return dibs__store_status(tx);
}

dibs_status dibs__extend_leases(dibs *d, int64_t by_ms, const char *reason, struct dibs_error *err)
{
    struct stall in = {.by_ms = by_ms, .reason = reason};
    if (by_ms <= 0)
        return DIBS_OK;
    d->tended = (struct tended){0};
    return write_alone(d, extend_tx, &in, NULL, 0, err);
}

/* ---- processes ------------------------------------------------------------------------------- */

static dibs_status here_tx(struct tx *tx, const void *input, void *output)
{
    struct dibs_local_sessions *out = output;
    const struct dibs_platform *p = tx->d->platform;
    char here[129] = "";
    (void)input;
    p->host(p->context, here);
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT id, incarnation, pid, process_start FROM session "
                     "WHERE ended_at IS NULL AND pid IS NOT NULL AND host = $1 ORDER BY key"),
                 DB_ARGS(db_t(here)));
    while (db_next(rows)) {
        if (p->process_state(p->context, db_int(rows, 2), db_text_borrowed(rows, 3)) ==
            DIBS_PROCESS_UNKNOWN)
            continue; /* of another pid name space: its number means another process here */
        struct dibs_local_session *s = dibs__push(tx, &out->items, &out->count, sizeof *s);
        if (!s)
            break;
        *s = (struct dibs_local_session){.id = db_text(rows, 0, tx->a),
                                         .incarnation = db_int(rows, 1),
                                         .pid = db_int(rows, 2),
                                         .start = db_text(rows, 3, tx->a)};
    }
    db_done(rows);
    return dibs__store_status(tx);
}

dibs_status dibs__sessions_here(dibs *d, dibs_arena *a, struct dibs_local_sessions *out,
                                struct dibs_error *err)
{
    return dibs__read(d, a, err, here_tx, NULL, out, sizeof *out);
}

struct ended_process {
    const char *id;
    int64_t incarnation;
};

static dibs_status process_ended_tx(struct tx *tx, const void *input, void *output)
{
    const struct ended_process *in = input;
    struct silent over = {.over = "process_dead"};
    (void)output;
    struct db_rows *rows = db_query(tx->db,
                                    SQL("SELECT id, project, heartbeat_at FROM session "
                                        "WHERE id = $1 AND incarnation = $2 AND ended_at IS NULL"),
                                    DB_ARGS(db_t(in->id), db_i(in->incarnation)));
    if (db_next(rows)) {
        over.id = db_text(rows, 0, tx->a);
        over.project = db_text(rows, 1, tx->a);
        over.silent_for = tx->now - db_int(rows, 2);
    }
    db_done(rows);
    if (over.id && dibs__session_process(tx, over.id) == DIBS_PROCESS_DEAD)
        dibs__session_over(tx, &over);
    return dibs__store_status(tx);
}

dibs_status dibs__session_process_ended(dibs *d, dibs_arena *a, const char *id, int64_t incarnation,
                                        struct dibs_error *err)
{
    struct ended_process in = {.id = id, .incarnation = incarnation};
    return dibs__write(d, a, err, process_ended_tx, &in, NULL, 0);
}
