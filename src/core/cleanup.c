/* SPDX-License-Identifier: MIT */
/*
 * cleanup.c: the sweep. A safety net: nothing waits for it, since every operation ends the leases
 * it finds past their deadline. It frees what no operation looks at: claims of sessions that are
 * gone, locks nobody asks for, old events.
 *
 *  1. Each step runs in short transactions and stops at the first store error; what it cannot read
 *     it does not touch.
 *  2. A session is dead only for a reason that is written down: missing, silent beyond
 *     orphanThreshold, or its process (host, pid and start time) no longer exists.
 *  3. One process sweeps per interval, whichever comes first: the time of the last sweep is in the
 *     store.
 */
#include "core/swarm.h"

#include "core/hook.h"

static void tell_cleanup(struct tx *tx, const char *type, int64_t count)
{
    struct jw *w =
        dibs__event_begin(tx, &(struct event_head){.type = "claims:cleanup", .held_ms = -1});
    jw_ktext(w, "type", type);
    jw_kint(w, "count", count);
    dibs__event_end(tx);
}

/* Appends what one transaction cleaned to what the ones before it did. */
static dibs_status add_up(dibs_arena *a, struct dibs_cleaned *sum, const struct dibs_cleaned *part,
                          struct dibs_error *err)
{
    size_t count = (size_t)sum->count;
    for (int64_t i = 0; i < part->count; i++) {
        struct dibs_cleaned_claim *item =
            arena_push(a, (void **)&sum->claims, &count, sizeof *item);
        if (!item)
            return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
        *item = part->claims[i];
    }
    sum->count = (int64_t)count;
    sum->locks += part->locks;
    return DIBS_OK;
}

/* what one transaction of a sweep did */
struct step {
    struct dibs_cleaned cleaned;
    bool full; /* it stopped at the size of a batch: there may be more */
};

/* Runs one step again and again until it finds less than a full batch. */
static dibs_status sweep(dibs *d, dibs_arena *a, tx_work *step, const void *in,
                         struct dibs_cleaned *out, struct dibs_error *err)
{
    struct dibs_cleaned sum = {0};
    struct step part = {0};
    if (!d) { /* a store that was closed has nothing to clean */
        *out = sum;
        return DIBS_OK;
    }
    do {
        dibs_status status = dibs__write(d, a, err, step, in, &part, sizeof part);
        if (status == DIBS_OK)
            status = add_up(a, &sum, &part.cleaned, err);
        if (status != DIBS_OK)
            return status;
    } while (part.full);
    *out = sum;
    return DIBS_OK;
}

/* ---- expired --------------------------------------------------------------------------------- */

static dibs_status expired_tx(struct tx *tx, const void *input, void *output)
{
    struct step *out = output;
    (void)input;
    tx->sweeping = true;
    out->full = dibs__expire_due(tx, SWEEP_BATCH_MAX, &out->cleaned) >= SWEEP_BATCH_MAX;
    if (out->cleaned.count > 0)
        tell_cleanup(tx, "expired", out->cleaned.count);
    return dibs__store_status(tx);
}

dibs_status dibs_cleanup_expired(dibs *d, dibs_arena *a, struct dibs_cleaned *out,
                                 struct dibs_error *err)
{
    return sweep(d, a, expired_tx, NULL, out, err);
}

static dibs_status locks_tx(struct tx *tx, const void *input, void *output)
{
    struct step *out = output;
    (void)input;
    out->full = dibs__locks_expire(tx, &out->cleaned) >= SWEEP_BATCH_MAX;
    return dibs__store_status(tx);
}

dibs_status dibs_cleanup_locks(dibs *d, dibs_arena *a, struct dibs_cleaned *out,
                               struct dibs_error *err)
{
    return sweep(d, a, locks_tx, NULL, out, err);
}

/* ---- orphaned -------------------------------------------------------------------------------- */

struct orphan {
    struct claim_row claim;
    const char *reason;
    int64_t stale_for;
};

/* Columns behind the claim's: session id, status, heartbeat_at, host, pid, process_start. */
static const char *orphan_reason(struct tx *tx, struct db_rows *rows, bool check_process)
{
    const struct dibs_platform *p = tx->d->platform;
    int c = CLAIM_COLUMN_COUNT;
    if (db_is_null(rows, c) || str_eq(db_text_borrowed(rows, c + 1), "ended"))
        return "session_missing";
    enum dibs_process process = DIBS_PROCESS_UNKNOWN;
    if (check_process && db_int(rows, c + 4) > 0) {
        char here[129] = "";
        p->host(p->context, here);
        if (str_eq(db_text_borrowed(rows, c + 3), here))
            process =
                p->process_state(p->context, db_int(rows, c + 4), db_text_borrowed(rows, c + 5));
    }
    if (process == DIBS_PROCESS_DEAD)
        return "process_dead";
    bool silent = tx->now - db_int(rows, c + 2) > tx->d->settings.orphan_threshold_ms;
    return silent && process != DIBS_PROCESS_ALIVE ? "session_stale" : NULL;
}

static int64_t find_orphans(struct tx *tx, bool check_process, struct orphan **found)
{
    size_t count = 0;
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT " CLAIM_COLUMNS
                     ", s.id, s.status, s.heartbeat_at, s.host, s.pid, s.process_start "
                     "FROM claim c LEFT JOIN session s ON s.id = c.session_id WHERE c.ended_at IS "
                     "NULL ORDER BY c.expires_at"),
                 DB_NO_ARGS);
    while (count < SWEEP_BATCH_MAX && db_next(rows)) {
        const char *reason = orphan_reason(tx, rows, check_process);
        struct orphan *o = reason ? dibs__push(tx, found, &count, sizeof *o) : NULL;
        if (!o)
            continue;
        dibs__claim_row_read(tx, rows, 0, &o->claim);
        o->reason = dibs__claim_is_past(tx, &o->claim) ? "expired" : reason;
        int64_t heard = db_int(rows, CLAIM_COLUMN_COUNT + 2);
        o->stale_for = heard && tx->now > heard ? tx->now - heard : 0;
    }
    db_done(rows);
    return (int64_t)count;
}

static dibs_status orphaned_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_orphan_options *in = input;
    struct step *out = output;
    struct orphan *found = NULL;
    int64_t count = find_orphans(tx, in && in->check_process, &found);
    out->full = count >= SWEEP_BATCH_MAX;
    for (int64_t i = 0; i < count && db_ok(tx->db); i++) {
        struct orphan *o = &found[i];
        bool expired = str_eq(o->reason, "expired"), lock = dibs__claim_is_lock(&o->claim);
        tx->sweeping = !expired; /* only the orphans are summed up below */
        dibs__claim_put_back(tx, &o->claim, o->reason, false, o->stale_for);
        out->cleaned.locks += lock;
        if (!expired && !lock)
            dibs__cleaned_add(tx, &out->cleaned, &o->claim, dibs__claim_task_id(tx, &o->claim),
                              o->reason, o->stale_for);
    }
    if (out->cleaned.count > 0)
        tell_cleanup(tx, "orphaned", out->cleaned.count);
    return dibs__store_status(tx);
}

dibs_status dibs_cleanup_orphaned(dibs *d, dibs_arena *a, const struct dibs_orphan_options *in,
                                  struct dibs_cleaned *out, struct dibs_error *err)
{
    return sweep(d, a, orphaned_tx, in, out, err);
}

/* ---- sessions: stale, then ended ------------------------------------------------------------- */

static size_t find_silent(struct tx *tx, struct silent **found)
{
    const struct dibs_settings *s = &tx->d->settings;
    size_t count = 0;
    struct db_rows *rows = db_query(
        tx->db,
        SQL("SELECT id, project, heartbeat_at, status FROM session "
            "WHERE ended_at IS NULL AND (pid IS NOT NULL OR heartbeat_at < $1) ORDER BY key"),
        DB_ARGS(db_i(tx->now - s->stale_threshold_ms)));
    while (count < SWEEP_BATCH_MAX && db_next(rows)) {
        int64_t silent_for = tx->now - db_int(rows, 2);
        enum dibs_process process = dibs__session_process(tx, db_text_borrowed(rows, 0));
        const char *over = process == DIBS_PROCESS_DEAD ? "process_dead" : NULL;
        /* a process that lives is slow, not gone */
        if (silent_for > s->orphan_threshold_ms && process == DIBS_PROCESS_UNKNOWN)
            over = "session_stale";
        bool newly_stale =
            silent_for > s->stale_threshold_ms && !str_eq(db_text_borrowed(rows, 3), "stale");
        struct silent *item =
            over || newly_stale ? dibs__push(tx, found, &count, sizeof *item) : NULL;
        if (item)
            *item = (struct silent){.id = db_text(rows, 0, tx->a),
                                    .project = db_text(rows, 1, tx->a),
                                    .silent_for = silent_for,
                                    .over = over};
    }
    db_done(rows);
    return count;
}

static void orphan_claims_of(struct tx *tx, const struct silent *s)
{
    struct claim_rows found = {0};
    struct db_rows *rows = db_query(tx->db,
                                    SQL("SELECT " CLAIM_COLUMNS
                                        " FROM claim c WHERE c.session_id = $1 AND c.attention = 1 "
                                        "AND c.ended_at IS NULL"),
                                    DB_ARGS(db_t(s->id)));
    dibs__claims_collect(tx, rows, &found);
    for (size_t i = 0; i < found.count && db_ok(tx->db); i++)
        dibs__claim_put_back(tx, &found.items[i], s->over, false, s->silent_for);
}

static void tell_session(struct tx *tx, const char *type, const struct silent *s)
{
    struct event_head head = {
        .type = type, .project = s->project, .session_id = s->id, .held_ms = -1};
    struct jw *w = dibs__event_begin(tx, &head);
    jw_ktext(w, "sessionId", s->id);
    jw_kint(w, "silentForMs", s->silent_for);
    if (s->over)
        jw_ktext(w, "reason", s->over);
    dibs__event_end(tx);
}

void dibs__session_over(struct tx *tx, const struct silent *s)
{
    dibs__tickets_drop(tx, s->id);
    orphan_claims_of(tx, s);
    dibs__session_end(tx, s->id, s->over);
    tell_session(tx, "session:deregistered", s);
}

static dibs_status sessions_tx(struct tx *tx, const void *input, void *output)
{
    struct dibs_stale_sessions *out = output;
    struct silent *found = NULL;
    (void)input;
    size_t count = find_silent(tx, &found);
    for (size_t i = 0; i < count && db_ok(tx->db); i++) {
        if (!found[i].over) {
            db_exec(tx->db, SQL("UPDATE session SET status = 'stale' WHERE id = $1"),
                    DB_ARGS(db_t(found[i].id)));
            tell_session(tx, "session:stale", &found[i]);
            out->stale++;
        } else {
            dibs__session_over(tx, &found[i]);
            out->ended++;
        }
    }
    return dibs__store_status(tx);
}

dibs_status dibs_cleanup_sessions(dibs *d, dibs_arena *a, struct dibs_stale_sessions *out,
                                  struct dibs_error *err)
{
    if (!d) {
        *out = (struct dibs_stale_sessions){0};
        return DIBS_OK;
    }
    struct dibs_stale_sessions sum = {0}, part = {0};
    do {
        dibs_status status = dibs__write(d, a, err, sessions_tx, NULL, &part, sizeof part);
        if (status != DIBS_OK)
            return status;
        sum.stale += part.stale;
        sum.ended += part.ended;
    } while (part.stale + part.ended >= SWEEP_BATCH_MAX);
    *out = sum;
    return DIBS_OK;
}

/* ---- leases about to end --------------------------------------------------------------------- */

int64_t dibs__warn_expiring(struct tx *tx)
{
    struct claim_rows due = {0};
    struct db_rows *rows = db_query(
        tx->db,
        SQL("SELECT " CLAIM_COLUMNS " FROM claim c WHERE c.ended_at IS NULL AND c.expires_at <= $1 "
            "AND c.expires_at > $2 AND c.warned = 0 AND c.kind = 'task' ORDER BY c.expires_at "
            "LIMIT $3"),
        DB_ARGS(db_i(tx->now + tx->d->settings.expiring_threshold_ms), db_i(tx->now),
                db_i(SWEEP_BATCH_MAX)));
    dibs__claims_collect(tx, rows, &due);
    for (size_t i = 0; i < due.count && db_ok(tx->db); i++) {
        struct task_row task = {0};
        if (!dibs__task_load_key(tx, due.items[i].task_key, &task))
            break;
        db_exec(tx->db, SQL("UPDATE claim SET warned = 1 WHERE token = $1"),
                DB_ARGS(db_i(due.items[i].token)));
        struct jw *w = dibs__task_event(tx, "task:claim-expiring", &task, due.items[i].session_id,
                                        dibs__claim_agent(&due.items[i]), -1);
        jw_kint(w, "token", due.items[i].token);
        jw_kint(w, "remainingMs", due.items[i].expires_at - tx->now);
        dibs__event_end(tx);
    }
    return (int64_t)due.count;
}

static dibs_status expiring_tx(struct tx *tx, const void *input, void *output)
{
    (void)input;
    *(int64_t *)output = dibs__warn_expiring(tx);
    return dibs__store_status(tx);
}

/* ---- pruning --------------------------------------------------------------------------------- */

/* The number up to which events are old. Numbers are in the order of commit, so the old ones are a
 * beginning. */
static int64_t prune_boundary(struct tx *tx, int64_t *count)
{
    int64_t boundary = 0, oldest = tx->now - tx->d->settings.event_retention_ms;
    *count = 0;
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT number, at FROM event ORDER BY number LIMIT $1"),
                 DB_ARGS(db_i(SWEEP_BATCH_MAX)));
    while (db_next(rows) && db_int(rows, 1) < oldest) {
        boundary = db_int(rows, 0);
        ++*count;
    }
    db_done(rows);
    return boundary;
}

static dibs_status prune_tx(struct tx *tx, const void *input, void *output)
{
    int64_t count = 0;
    (void)input;
    db_exec(tx->db, SQL("DELETE FROM idempotency WHERE at < $1"),
            DB_ARGS(db_i(tx->now - IDEMPOTENCY_KEEP_MS)));
    dibs__hooks_prune(tx);
    if (tx->d->settings.event_retention_ms == 0)
        return dibs__store_status(tx);
    int64_t boundary = prune_boundary(tx, &count);
    if (count > 0) {
        dibs__scores_fold(tx, boundary); /* what is forgotten stays counted */
        db_exec(tx->db, SQL("DELETE FROM event WHERE number <= $1"), DB_ARGS(db_i(boundary)));
    }
    *(int64_t *)output = count;
    return dibs__store_status(tx);
}

dibs_status dibs_prune(dibs *d, dibs_arena *a, int64_t *out_events, struct dibs_error *err)
{
    int64_t sum = 0, part = 0;
    do {
        dibs_status status =
            d ? dibs__write(d, a, err, prune_tx, NULL, &part, sizeof part) : DIBS_OK;
        if (status != DIBS_OK)
            return status;
        sum += part;
    } while (part >= SWEEP_BATCH_MAX);
    *out_events = sum;
    return DIBS_OK;
}

/* ---- offers that nobody will answer ---------------------------------------------------------- */

static dibs_status offers_tx(struct tx *tx, const void *input, void *output)
{
    (void)input;
    *(int64_t *)output = dibs__offers_withdraw(tx, SWEEP_BATCH_MAX);
    return dibs__store_status(tx);
}

static dibs_status withdraw_offers(dibs *d, dibs_arena *a, struct dibs_error *err)
{
    dibs_status status = DIBS_OK;
    int64_t part = SWEEP_BATCH_MAX;
    while (status == DIBS_OK && part >= SWEEP_BATCH_MAX)
        status = dibs__write(d, a, err, offers_tx, NULL, &part, sizeof part);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static dibs_status fold_tx(struct tx *tx, const void *input, void *output)
{
    (void)input;
    *(int64_t *)output = dibs__scores_fold(tx, 0);
    return dibs__store_status(tx);
}

static dibs_status fold_scores(dibs *d, dibs_arena *a, struct dibs_error *err)
{
    dibs_status status = DIBS_OK;
    int64_t left = 1;
    while (status == DIBS_OK && left > 0)
        status = dibs__write(d, a, err, fold_tx, NULL, &left, sizeof left);
    return status;
}

static dibs_status warn_expiring(dibs *d, dibs_arena *a, int64_t *sum, struct dibs_error *err)
{
    int64_t part = 0;
    do {
        dibs_status status = dibs__write(d, a, err, expiring_tx, NULL, &part, sizeof part);
        if (status != DIBS_OK)
            return status;
        *sum += part;
    } while (part >= SWEEP_BATCH_MAX);
    return DIBS_OK;
}

static dibs_status sweep_claims(dibs *d, dibs_arena *a, struct dibs_sweep *sum,
                                struct dibs_error *err)
{
    struct dibs_cleaned part = {0};
    dibs_status status = dibs_cleanup_locks(d, a, &part, err);
    sum->locks = part.count;
    if (status == DIBS_OK)
        status = dibs_cleanup_expired(d, a, &part, err);
    sum->expired = part.count;
    if (status == DIBS_OK)
        status = dibs_cleanup_orphaned(d, a, &(struct dibs_orphan_options){.check_process = true},
                                       &part, err);
    sum->orphaned = part.count;
    sum->locks += part.locks;
    return status;
}

dibs_status dibs_cleanup(dibs *d, dibs_arena *a, struct dibs_sweep *out, struct dibs_error *err)
{
    struct dibs_sweep sum = {0};
    struct dibs_stale_sessions sessions = {0};
    if (!d) {
        *out = sum;
        return DIBS_OK;
    }
    bool outer = d->maintaining;
    d->maintaining = true; /* the steps write too; they must not start a sweep of their own */
    dibs_status status = sweep_claims(d, a, &sum, err);
    if (status == DIBS_OK)
        status = dibs_cleanup_sessions(d, a, &sessions, err);
    if (status == DIBS_OK)
        status = withdraw_offers(d, a, err);
    if (status == DIBS_OK)
        status = warn_expiring(d, a, &sum.expiring, err);
    if (status == DIBS_OK)
        status = dibs_prune(d, a, &sum.events_pruned, err);
    if (status == DIBS_OK)
        status = fold_scores(d, a, err);
    d->maintaining = outer;
    if (status != DIBS_OK)
        return status;
    sum.sessions_stale = sessions.stale;
    sum.sessions_ended = sessions.ended;
    *out = sum;
    return DIBS_OK;
}

static dibs_status is_due_tx(struct tx *tx, const void *input, void *output)
{
    (void)input;
    int64_t last = db_value_int(
        tx->db, 0, SQL("SELECT value FROM counter WHERE name = 'cleanup_at'"), DB_NO_ARGS);
    *(bool *)output = tx->now - last >= tx->d->settings.cleanup_interval_ms;
    return dibs__store_status(tx);
}

/* Whether it is due, and if so, the turn is ours: others see the new time. */
static dibs_status take_turn_tx(struct tx *tx, const void *input, void *output)
{
    dibs_status status = is_due_tx(tx, input, output);
    if (status == DIBS_OK && *(bool *)output)
        db_exec(tx->db, SQL("UPDATE counter SET value = $1 WHERE name = 'cleanup_at'"),
                DB_ARGS(db_i(tx->now)));
    return dibs__store_status(tx);
}

dibs_status dibs_maintain(dibs *d, bool *ran, struct dibs_error *err)
{
    bool due = false;
    *ran = false;
    if (!d || d->maintaining || d->batch || d->depth > 0)
        return DIBS_OK;
    dibs_arena *a = dibs_arena_new();
    if (!a)
        return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
    d->maintaining = true;
    dibs_status status = dibs__read(d, a, err, is_due_tx, NULL, &due, sizeof due);
    if (status == DIBS_OK && due)
        status = dibs__write(d, a, err, take_turn_tx, NULL, &due, sizeof due);
    struct dibs_sweep sweep_result = {0};
    if (status == DIBS_OK && due)
        status = dibs_cleanup(d, a, &sweep_result, err);
    *ran = status == DIBS_OK && due;
    d->maintaining = false;
    dibs_arena_free(a);
    return status;
}

/* ---- waiting for others ---------------------------------------------------------------------- */

bool dibs__wait_for_change(dibs *d, int64_t *seen, int64_t deadline)
{
    const struct dibs_platform *p = d->platform;
    int64_t counter = *seen ? *seen : db_change_counter(d->db);
    int64_t started = p->steady_ms(p->context);
    for (;;) {
        int64_t now = p->steady_ms(p->context);
        if (now >= deadline)
            return false;
        int64_t left = deadline - now;
        p->sleep_ms(p->context, left < WAIT_POLL_MS ? left : WAIT_POLL_MS);
        *seen = db_change_counter(d->db);
        /* a lease may also end, or a task become due, without anybody writing: look at least every
         * half second */
        if (*seen != counter || p->steady_ms(p->context) - started >= 500)
            return true;
    }
}
