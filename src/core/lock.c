/* SPDX-License-Identifier: MIT */
/*
 * lock.c: named locks, exclusive or shared. A lock is a claim on a name instead of a task: same
 * table, same tokens, same deadlines, same end.
 *
 * Who has to wait gets a ticket. Whoever lets go of a lock (or finds its lease ended) hands it
 * over, in the same transaction, to the first waiters in the order of arrival: one exclusive, or
 * all shared ones up to the next exclusive. So waiting costs reads only, a newcomer cannot
 * overtake, and shared holders cannot starve an exclusive waiter.
 *
 *  1. At most one exclusive holder, or any number of shared ones.
 *  2. A newcomer is granted at once only if nobody waits.
 *  3. A waiter that is gone (its time is over, its session ended, its process dead) is passed over.
 *
 * A daemon asks inside a batch, where nobody can wait: it leaves the ticket, and asks again when
 * dibs__wakes says so. A lock that was handed over and whose holder has not heard of it yet is
 * marked in `warned`, which says "told of its end" of other leases.
 */
#include "core/swarm.h"

#define LOCK_TTL_MIN_MS 1000

/* ---- events ---------------------------------------------------------------------------------- */

static void tell(struct tx *tx, const char *type, const struct claim_row *c, const char *reason,
                 int64_t held_ms)
{
    struct event_head head = {.type = type,
                              .session_id = c->session_id,
                              .agent = dibs__claim_agent(c),
                              .held_ms = held_ms};
    struct jw *w = dibs__event_begin(tx, &head);
    jw_ktext(w, "resource", c->resource);
    jw_ktext(w, "mode", c->shared ? "shared" : "exclusive");
    jw_ktext(w, "sessionId", c->session_id);
    jw_kint(w, "token", c->token);
    jw_kint(w, "incarnation", c->incarnation);
    jw_ktime(w, "claimedAt", c->claimed_at);
    jw_ktime(w, "expiresAt", c->expires_at);
    jw_kint(w, "ttlMs", c->ttl);
    jw_ktext_opt(w, "reason", reason);
    if (held_ms >= 0)
        jw_kint(w, "heldForMs", held_ms);
    dibs__event_end(tx);
}

/* ---- granting -------------------------------------------------------------------------------- */

static void grant(struct tx *tx, const struct session_row *session, const char *resource,
                  bool shared, int64_t ttl, bool handed, struct claim_row *out)
{
    struct subject lock = {
        .kind = "lock", .resource = resource, .shared = shared, .is_untold = handed, .ttl_ms = ttl};
    dibs__named_claim(tx, session, &lock, out);
    tell(tx, "lock:taken", out, NULL, -1);
}

static void load_holders(struct tx *tx, const char *resource, struct claim_rows *out)
{
    struct db_rows *rows = db_query(tx->db,
                                    SQL("SELECT " CLAIM_COLUMNS
                                        " FROM claim c WHERE c.kind = 'lock' AND c.resource = $1 "
                                        "AND c.ended_at IS NULL ORDER BY c.token"),
                                    DB_ARGS(db_t(resource)));
    dibs__claims_collect(tx, rows, out);
}

struct waiter {
    int64_t ticket;
    const char *session_id;
    bool shared;
    int64_t ttl, gives_up_at;
};

static bool first_waiter(struct tx *tx, const char *resource, struct waiter *out)
{
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT ticket, session_id, shared, ttl, gives_up_at FROM lock_wait "
                     "WHERE resource = $1 ORDER BY ticket LIMIT 1"),
                 DB_ARGS(db_t(resource)));
    bool found = db_next(rows);
    if (found)
        *out = (struct waiter){.ticket = db_int(rows, 0),
                               .session_id = db_text(rows, 1, tx->a),
                               .shared = db_int(rows, 2) != 0,
                               .ttl = db_int(rows, 3),
                               .gives_up_at = db_int(rows, 4)};
    db_done(rows);
    return found && db_ok(tx->db);
}

static void drop_waiter(struct tx *tx, int64_t ticket)
{
    db_exec(tx->db, SQL("DELETE FROM lock_wait WHERE ticket = $1"), DB_ARGS(db_i(ticket)));
}

/* Gives the resource to as many waiters as it can take now, in the order of arrival. */
static void hand_over(struct tx *tx, const char *resource)
{
    struct claim_rows held = {0};
    struct waiter w = {0};
    load_holders(tx, resource, &held);
    bool exclusive = held.count > 0 && !held.items[0].shared;
    size_t count = held.count;
    while (!exclusive && first_waiter(tx, resource, &w)) {
        struct session_row session = {0};
        struct dibs_error ignored = {0}, *err = tx->err;
        tx->err = &ignored;
        bool gone = w.gives_up_at <= tx->now ||
                    dibs__session_load(tx, w.session_id, &session) != DIBS_OK ||
                    dibs__session_process(tx, w.session_id) == DIBS_PROCESS_DEAD;
        tx->err = err;
        if (!gone && count > 0 && !w.shared)
            return; /* an exclusive waiter at the head stops everyone behind it */
        drop_waiter(tx, w.ticket);
        if (gone)
            continue;
        struct claim_row granted;
        grant(tx, &session, resource, w.shared, w.ttl, true, &granted);
        tx->d->wakes.locks++;
        exclusive = !w.shared;
        count++;
    }
}

void dibs__lock_end(struct tx *tx, struct claim_row *c, const char *reason, const char *event_type,
                    bool told)
{
    dibs__claim_close(tx, c, reason, told);
    tell(tx, event_type, c, reason, dibs__held_ms(tx, c));
    tx->d->wakes.locks++;
    hand_over(tx, c->resource);
}

/* ---- taking ---------------------------------------------------------------------------------- */

static dibs_status check_take(struct tx *tx, const struct dibs_lock_take *in)
{
    dibs_status status =
        dibs__check_required(tx->err, "resource", in->resource, RESOURCE_BYTES_MAX);
    if (status == DIBS_OK && in->ttl_ms)
        status = dibs__check_range(tx->err, "ttlMs", in->ttl_ms, LOCK_TTL_MIN_MS,
                                   tx->d->settings.max_ttl_ms);
    if (status == DIBS_OK)
        status = dibs__check_range(tx->err, "waitMs", in->wait_ms, 0, WAIT_MS_MAX);
    return status;
}

/* Ends the leases that are past, and those of dead processes; what is left really holds. Whoever
 * asks is alive, whatever became of the process it once named. */
static void end_past(struct tx *tx, const char *resource, const char *asker)
{
    struct claim_rows all = {0};
    load_holders(tx, resource, &all);
    for (size_t i = 0; i < all.count && db_ok(tx->db); i++) {
        struct claim_row *c = &all.items[i];
        if (dibs__claim_is_past(tx, c))
            dibs__lock_end(tx, c, "expired", "lock:expired", false);
        else if (!str_eq(c->session_id, asker) &&
                 dibs__session_process(tx, c->session_id) == DIBS_PROCESS_DEAD)
            dibs__lock_end(tx, c, "process_dead", "lock:released", false);
    }
}

static struct claim_row *held_by(struct claim_rows *holders, const char *session_id)
{
    for (size_t i = 0; i < holders->count; i++)
        if (str_eq(holders->items[i].session_id, session_id))
            return &holders->items[i];
    return NULL;
}

static dibs_status refuse_held(struct tx *tx, const char *resource,
                               const struct claim_rows *holders)
{
    tx->keep = true; /* a ticket, and leases found ended, stay */
    if (holders->count == 0)
        return dibs__refuse(tx, DIBS_LOCK_HELD, "others wait for lock '%s' and come first",
                            resource);
    const struct claim_row *c = &holders->items[0];
    int64_t remaining = c->expires_at - tx->now;
    char left[32];
    str_rough_duration_ms(remaining, left);
    dibs__refuse(tx, DIBS_LOCK_HELD, "lock '%s' is held by session '%s' for another %s", resource,
                 c->session_id, left);
    str_fit(tx->err->holder, sizeof tx->err->holder, c->session_id);
    tx->err->holder_since_ms = c->claimed_at;
    tx->err->remaining_ms = remaining;
    return DIBS_LOCK_HELD;
}

static bool has_ticket(struct tx *tx, const char *resource, const char *session_id)
{
    return db_value_int(tx->db, 0,
                        SQL("SELECT 1 FROM lock_wait WHERE resource = $1 AND session_id = $2"),
                        DB_ARGS(db_t(resource), db_t(session_id))) == 1;
}

/* A daemon's waiter looks again: the ticket is there, and need not be written. */
static bool waits_already(struct tx *tx, const struct dibs_lock_take *in, int64_t ttl)
{
    return tx->d->serving &&
           db_value_int(
               tx->db, 0,
               SQL("SELECT 1 FROM lock_wait WHERE resource = $1 AND session_id = $2 "
                   "AND shared = $3 AND ttl = $4"),
               DB_ARGS(db_t(in->resource), db_t(in->session_id), db_i(in->shared), db_i(ttl))) == 1;
}

/* A ticket keeps its place, and is for what is asked now: it may be left of a wait that was cut
 * short. */
static void enqueue(struct tx *tx, const struct dibs_lock_take *in, int64_t ttl)
{
    if (has_ticket(tx, in->resource, in->session_id)) {
        db_exec(tx->db,
                SQL("UPDATE lock_wait SET shared = $3, ttl = $4, gives_up_at = $5 "
                    "WHERE resource = $1 AND session_id = $2"),
                DB_ARGS(db_t(in->resource), db_t(in->session_id), db_i(in->shared), db_i(ttl),
                        db_i(tx->now + in->wait_ms)));
        return;
    }
    db_exec(tx->db,
            SQL("INSERT INTO lock_wait (ticket, resource, session_id, shared, ttl, arrived_at, "
                "gives_up_at) "
                "VALUES ($1, $2, $3, $4, $5, $6, $7)"),
            DB_ARGS(db_i(dibs__counter_take(tx, COUNTER_TICKET, 1)), db_t(in->resource),
                    db_t(in->session_id), db_i(in->shared), db_i(ttl), db_i(tx->now),
                    db_i(tx->now + in->wait_ms)));
}

/* Whether the lock was handed over to its holder, who has not heard of it yet. */
static bool is_untold(struct tx *tx, const struct claim_row *c)
{
    return tx->d->serving &&
           db_value_int(tx->db, 0, SQL("SELECT warned FROM claim WHERE token = $1"),
                        DB_ARGS(db_i(c->token))) == 1;
}

static dibs_status take_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_lock_take *in = input;
    struct dibs_claim *out = output;
    struct session_row session = {0};
    struct claim_rows holders = {0};
    struct waiter ahead;
    int64_t ttl = in->ttl_ms ? in->ttl_ms : tx->d->settings.lock_ttl_ms;
    dibs_status status = check_take(tx, in);
    if (status == DIBS_OK)
        status = dibs__session_load(tx, in->session_id, &session);
    if (status != DIBS_OK)
        return status;
    end_past(tx, in->resource, in->session_id);
    hand_over(tx, in->resource); /* also passes over waiters that are gone */
    load_holders(tx, in->resource, &holders);
    struct claim_row *mine = held_by(&holders, session.id);
    if (mine && mine->shared == in->shared) {
        bool is_news = is_untold(tx, mine);
        dibs__claim_extend(tx, mine, tx->now + ttl);
        dibs__claim_full(tx, mine, NULL, out);
        out->extended = !is_news;
        return dibs__store_status(tx);
    }
    if (mine)
        return error_field(tx->err, "mode",
                           "cannot change while the lock is held; release it first");
    bool fits = holders.count == 0 || (in->shared && holders.items[0].shared);
    if (fits && !first_waiter(tx, in->resource, &ahead)) {
        struct claim_row granted;
        grant(tx, &session, in->resource, in->shared, ttl, false, &granted);
        dibs__session_touch(tx, session.id);
        dibs__claim_full(tx, &granted, NULL, out);
        return dibs__store_status(tx);
    }
    if (in->wait_ms > 0) { /* who waits lives */
        if (waits_already(tx, in, ttl)) {
            dibs__session_waits(tx, session.id);
        } else {
            enqueue(tx, in, ttl);
            dibs__session_touch(tx, session.id);
        }
    }
    return refuse_held(tx, in->resource, &holders);
}

/* The wait is over: a last look, which still counts as waiting, as a lease may have ended since the
 * one before. Without a grant the ticket goes, so that nobody is granted a lock he does not know
 * of. */
static dibs_status give_up_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_lock_take *in = input;
    struct claim_rows holders = {0};
    db_exec(tx->db,
            SQL("UPDATE lock_wait SET gives_up_at = $3 WHERE resource = $1 AND session_id = $2"),
            DB_ARGS(db_t(in->resource), db_t(in->session_id), db_i(tx->now + 1)));
    end_past(tx, in->resource, in->session_id);
    hand_over(tx, in->resource);
    load_holders(tx, in->resource, &holders);
    struct claim_row *mine = held_by(&holders, in->session_id);
    if (mine) {
        dibs__claim_full(tx, mine, NULL, output);
        return dibs__store_status(tx);
    }
    db_exec(tx->db, SQL("DELETE FROM lock_wait WHERE resource = $1 AND session_id = $2"),
            DB_ARGS(db_t(in->resource), db_t(in->session_id)));
    hand_over(tx, in->resource);
    return refuse_held(tx, in->resource, &holders);
}

/* While waiting: a look without writing. DIBS_OK when this session holds it now; DIBS_LOCK_HELD
 * while it must wait on. */
static dibs_status look_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_lock_take *in = input;
    struct claim_rows holders = {0};
    load_holders(tx, in->resource, &holders);
    struct claim_row *mine = held_by(&holders, in->session_id);
    if (mine && mine->shared == in->shared && !dibs__claim_is_past(tx, mine)) {
        dibs__claim_full(tx, mine, NULL, output);
        return dibs__store_status(tx);
    }
    bool past = false;
    for (size_t i = 0; i < holders.count; i++)
        past = past || dibs__claim_is_past(tx, &holders.items[i]) ||
               dibs__session_process(tx, holders.items[i].session_id) == DIBS_PROCESS_DEAD;
    bool queued = has_ticket(tx, in->resource, in->session_id);
    return past || !queued ? DIBS_NOTHING_TO_CLAIM /* worth a writing attempt */
                           : refuse_held(tx, in->resource, &holders);
}

/* `seen`: the change counter before the first attempt, so that a release right after it is
 * noticed. */
static dibs_status wait_for_lock(dibs *d, dibs_arena *a, const struct dibs_lock_take *in,
                                 int64_t seen, struct dibs_claim *out, struct dibs_error *err)
{
    const struct dibs_platform *p = d->platform;
    int64_t deadline = p->steady_ms(p->context) + in->wait_ms;
    dibs_status status = DIBS_LOCK_HELD;
    while (status == DIBS_LOCK_HELD && dibs__wait_for_change(d, &seen, deadline)) {
        status = dibs__read(d, a, err, look_tx, in, out, sizeof *out);
        if (status == DIBS_NOTHING_TO_CLAIM)
            status = dibs__write(d, a, err, take_tx, in, out, sizeof *out);
    }
    if (status != DIBS_LOCK_HELD)
        return status;
    return dibs__write(d, a, err, give_up_tx, in, out, sizeof *out);
}

dibs_status dibs_lock_take(dibs *d, dibs_arena *a, const struct dibs_lock_take *in,
                           struct dibs_claim *out, struct dibs_error *err)
{
    struct dibs_lock_take once = *in;
    bool waits = !d->batch && d->depth == 0; /* nobody waits inside a transaction */
    bool leaves_ticket = d->batch && d->serving;
    if (!waits && !leaves_ticket)
        once.wait_ms = 0;
    int64_t seen = waits && once.wait_ms > 0 ? db_change_counter(d->db) : 0;
    dibs_status status = dibs__write(d, a, err, take_tx, &once, out, sizeof *out);
    if (status != DIBS_LOCK_HELD || !waits || once.wait_ms == 0)
        return status;
    return wait_for_lock(d, a, in, seen, out, err);
}

/* The caller of a daemon has gone. A lock that was handed over to it meanwhile goes on to the next;
 * one that its session has heard of stays. */
static dibs_status leave_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_lock_take *in = input;
    struct claim_rows holders = {0};
    (void)output;
    db_exec(tx->db, SQL("DELETE FROM lock_wait WHERE resource = $1 AND session_id = $2"),
            DB_ARGS(db_t(in->resource), db_t(in->session_id)));
    load_holders(tx, in->resource, &holders);
    struct claim_row *mine = held_by(&holders, in->session_id);
    if (mine && dibs__claim_is_past(tx, mine))
        dibs__lock_end(tx, mine, "expired", "lock:expired", false);
    else if (mine && is_untold(tx, mine))
        dibs__lock_end(tx, mine, "released", "lock:released", true);
    hand_over(tx, in->resource);
    return dibs__store_status(tx);
}

dibs_status dibs__lock_give_up(dibs *d, const char *resource, const char *session_id,
                               struct dibs_error *err)
{
    struct dibs_lock_take in = {.resource = resource, .session_id = session_id};
    dibs_arena *a = dibs_arena_new();
    if (!a)
        return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
    dibs_status status = dibs__write(d, a, err, leave_tx, &in, NULL, 0);
    dibs_arena_free(a);
    return status;
}

/* ---- renewing, releasing, listing ------------------------------------------------------------ */

static dibs_status load_mine(struct tx *tx, const struct dibs_lock_ref *in, struct claim_row *out)
{
    struct claim_rows holders = {0};
    dibs_status status =
        dibs__check_required(tx->err, "resource", in->resource, RESOURCE_BYTES_MAX);
    if (status == DIBS_OK)
        status = dibs__check_id(tx->err, "sessionId", in->session_id);
    if (status != DIBS_OK)
        return status;
    end_past(tx, in->resource, in->session_id);
    load_holders(tx, in->resource, &holders);
    struct claim_row *mine = held_by(&holders, in->session_id);
    if (!mine) {
        tx->keep = true;
        return dibs__refuse(tx, DIBS_LOCK_NOT_HELD, "session '%s' does not hold lock '%s'",
                            in->session_id, in->resource);
    }
    if (in->token && in->token != mine->token)
        return dibs__refuse(tx, DIBS_STALE_TOKEN,
                            "token %" PRId64 " is not that of the current hold on lock '%s'",
                            in->token, in->resource);
    *out = *mine;
    return DIBS_OK;
}

static dibs_status heartbeat_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_lock_ref *in = input;
    struct claim_row mine = {0};
    dibs_status status = DIBS_OK;
    if (in->extend_ms)
        status = dibs__check_range(tx->err, "extendMs", in->extend_ms, LOCK_TTL_MIN_MS,
                                   tx->d->settings.max_ttl_ms);
    if (status == DIBS_OK)
        status = load_mine(tx, in, &mine);
    if (status != DIBS_OK)
        return status;
    dibs__claim_extend(tx, &mine, tx->now + (in->extend_ms ? in->extend_ms : mine.ttl));
    dibs__claim_full(tx, &mine, NULL, output);
    return dibs__store_status(tx);
}

dibs_status dibs_lock_heartbeat(dibs *d, dibs_arena *a, const struct dibs_lock_ref *in,
                                struct dibs_claim *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, heartbeat_tx, in, out, sizeof *out);
}

static dibs_status release_tx(struct tx *tx, const void *input, void *output)
{
    struct claim_row mine = {0};
    dibs_status status = load_mine(tx, input, &mine);
    if (status != DIBS_OK)
        return status;
    dibs__lock_end(tx, &mine, "released", "lock:released", true);
    dibs__session_touch(tx, mine.session_id);
    dibs__claim_full(tx, &mine, NULL, output);
    return dibs__store_status(tx);
}

dibs_status dibs_lock_release(dibs *d, dibs_arena *a, const struct dibs_lock_ref *in,
                              struct dibs_claim *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, release_tx, in, out, sizeof *out);
}

static dibs_status list_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_lock_filter *in = input;
    struct dibs_claim_list *out = output;
    struct db_rows *rows = db_query(
        tx->db,
        SQL("SELECT " CLAIM_COLUMNS " FROM claim c WHERE c.kind = 'lock' AND c.ended_at IS NULL "
            "ORDER BY c.resource, c.token"),
        DB_NO_ARGS);
    while (db_next(rows)) {
        struct claim_row c;
        dibs__claim_row_read(tx, rows, 0, &c);
        bool wanted = (!in->resource || str_eq(in->resource, c.resource)) &&
                      (!in->session_id || str_eq(in->session_id, c.session_id)) &&
                      !dibs__claim_is_past(tx, &c);
        struct dibs_claim *item =
            wanted ? dibs__push(tx, &out->items, &out->count, sizeof *item) : NULL;
        if (item)
            dibs__claim_full(tx, &c, NULL, item);
    }
    db_done(rows);
    return dibs__store_status(tx);
}

dibs_status dibs_lock_list(dibs *d, dibs_arena *a, const struct dibs_lock_filter *in,
                           struct dibs_claim_list *out, struct dibs_error *err)
{
    return dibs__read(d, a, err, list_tx, in, out, sizeof *out);
}

/* ---- ends from outside ----------------------------------------------------------------------- */

static void collect_names(struct tx *tx, struct db_rows *rows, const char ***names, size_t *count)
{
    while (db_next(rows)) {
        const char **name = dibs__push(tx, names, count, sizeof *name);
        if (name)
            *name = db_text(rows, 0, tx->a);
    }
    db_done(rows);
}

void dibs__tickets_drop(struct tx *tx, const char *session_id)
{
    const char **names = NULL;
    size_t count = 0;
    collect_names(tx,
                  db_query(tx->db,
                           SQL("SELECT DISTINCT resource FROM lock_wait WHERE session_id = $1"),
                           DB_ARGS(db_t(session_id))),
                  &names, &count);
    if (count > 0)
        db_exec(tx->db, SQL("DELETE FROM lock_wait WHERE session_id = $1"),
                DB_ARGS(db_t(session_id)));
    for (size_t i = 0; i < count && db_ok(tx->db); i++)
        hand_over(tx, names[i]);
}

/* Those whose time is over go; those behind them move up. */
static void drop_late_tickets(struct tx *tx)
{
    const char **names = NULL;
    size_t count = 0;
    collect_names(tx,
                  db_query(tx->db,
                           SQL("SELECT DISTINCT resource FROM lock_wait WHERE gives_up_at <= $1"),
                           DB_ARGS(db_i(tx->now))),
                  &names, &count);
    if (count == 0)
        return;
    db_exec(tx->db, SQL("DELETE FROM lock_wait WHERE gives_up_at <= $1"), DB_ARGS(db_i(tx->now)));
    tx->d->wakes.locks++; /* a ticket may have been left by an earlier call of one who waits now */
    for (size_t i = 0; i < count && db_ok(tx->db); i++)
        hand_over(tx, names[i]);
}

int64_t dibs__locks_release_session(struct tx *tx, const char *session_id, const char *reason)
{
    struct claim_rows holders = {0};
    dibs__tickets_drop(tx, session_id);
    struct db_rows *rows = db_query(tx->db,
                                    SQL("SELECT " CLAIM_COLUMNS
                                        " FROM claim c WHERE c.session_id = $1 AND c.attention = 1 "
                                        "AND c.kind = 'lock' AND c.ended_at IS NULL"),
                                    DB_ARGS(db_t(session_id)));
    dibs__claims_collect(tx, rows, &holders);
    int64_t released = 0;
    for (size_t i = 0; i < holders.count && db_ok(tx->db); i++) {
        struct claim_row *c = &holders.items[i];
        bool past = dibs__claim_is_past(tx, c); /* then that is what it lost it by */
        dibs__lock_end(tx, c, past ? "expired" : reason, past ? "lock:expired" : "lock:released",
                       !past);
        released += !past;
    }
    return released;
}

int64_t dibs__locks_expire(struct tx *tx, struct dibs_cleaned *out)
{
    struct claim_rows holders = {0};
    drop_late_tickets(tx);
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT " CLAIM_COLUMNS " FROM claim c WHERE c.ended_at IS NULL "
                     "AND c.expires_at <= $1 AND c.kind = 'lock' ORDER BY c.expires_at LIMIT $2"),
                 DB_ARGS(db_i(tx->now), db_i(SWEEP_BATCH_MAX)));
    dibs__claims_collect(tx, rows, &holders);
    for (size_t i = 0; i < holders.count && db_ok(tx->db); i++) {
        dibs__lock_end(tx, &holders.items[i], "expired", "lock:expired", false);
        if (out)
            dibs__cleaned_add(tx, out, &holders.items[i], NULL, "expired", 0);
    }
    return (int64_t)holders.count;
}
