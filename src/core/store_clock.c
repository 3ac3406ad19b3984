/* SPDX-License-Identifier: MIT */
/*
 * store_clock.c: the clock that every lease follows.
 *
 * Store time = steady clock of this boot + an offset that all processes share through the one row
 * of table `clock`. The steady clock cannot be set and stands still while the machine sleeps, so no
 * lease ends because somebody set the time, and none ends in suspend, when no holder could have
 * sent a heartbeat.
 *
 * Store time should still look like the time of day. When the two have drifted apart by more than
 * CLOCK_STEP_MS (a step, a suspend), the next writer moves the offset AND every running lease by
 * the difference: the clock follows, the time that remains to each holder does not change. After a
 * reboot the steady clock starts anew; the leases are moved by the time the machine was down. Each
 * such move is an event (clock:adjusted), so a reader of the journal can do the same.
 */
#include "core/core.h"

#define CLOCK_STEP_MS 2000

int64_t dibs__clock_now(const dibs *d)
{
    return d->platform->steady_ms(d->platform->context) + d->clock_offset;
}

/* How long an offer stands and how long its agent was not heard are durations too. */
static void shift_offers(struct tx *tx, int64_t delta)
{
    db_exec(tx->db,
            SQL("UPDATE task SET offered_at = offered_at + $1 WHERE offered_to IS NOT NULL"),
            DB_ARGS(db_i(delta)));
    db_exec(tx->db, SQL("UPDATE agent SET seen_at = seen_at + $1"), DB_ARGS(db_i(delta)));
}

static void shift_leases(struct tx *tx, int64_t delta)
{
    db_exec(tx->db,
            SQL("UPDATE claim SET expires_at = expires_at + $1, heartbeat_at = heartbeat_at + $1, "
                "claimed_at = claimed_at + $1 WHERE ended_at IS NULL"),
            DB_ARGS(db_i(delta)));
    db_exec(tx->db,
            SQL("UPDATE session SET heartbeat_at = heartbeat_at + $1 WHERE ended_at IS NULL"),
            DB_ARGS(db_i(delta)));
    db_exec(tx->db, SQL("UPDATE lock_wait SET gives_up_at = gives_up_at + $1"),
            DB_ARGS(db_i(delta)));
    shift_offers(tx, delta);
    /* a back-off is a duration; run_after is a date and stays */
    db_exec(tx->db,
            SQL("UPDATE task SET due_at = due_at + $1 WHERE due_at IS NOT NULL "
                "AND (run_after IS NULL OR due_at > run_after)"),
            DB_ARGS(db_i(delta)));
    db_exec(tx->db,
            SQL("UPDATE counter SET value = value + $1 "
                "WHERE (name = 'cleanup_at' OR name = 'alive_at') AND value > 0"),
            DB_ARGS(db_i(delta)));
    /* so is the pause before a reply is sent again */
    db_exec(tx->db, SQL("UPDATE outgoing SET due_at = due_at + $1 WHERE status = 'waiting'"),
            DB_ARGS(db_i(delta)));
    /* how long an answer can be asked for again is a duration too */
    db_exec(tx->db, SQL("UPDATE idempotency SET at = at + $1"), DB_ARGS(db_i(delta)));
}

/* Nobody could answer an offer meanwhile, nor be heard. */
static void extend_offers(struct tx *tx, int64_t since, int64_t by)
{
    db_exec(tx->db,
            SQL("UPDATE task SET offered_at = offered_at + $1 WHERE offered_to IS NOT NULL AND "
                "offered_at <= $2"),
            DB_ARGS(db_i(by), db_i(since)));
    db_exec(tx->db,
            SQL("UPDATE agent SET seen_at = seen_at + $1 WHERE seen_at <= $2 AND seen_at > $3"),
            DB_ARGS(db_i(by), db_i(since), db_i(since - tx->d->settings.orphan_threshold_ms)));
}

/* A lease that had ended by `since`, or was renewed after it, has lost nothing. */
int64_t dibs__leases_extend(struct tx *tx, int64_t since, const char *reason)
{
    int64_t by = tx->now - since;
    if (by <= 0)
        return 0;
    extend_offers(tx, since, by);
    db_exec(tx->db,
            SQL("UPDATE session SET heartbeat_at = heartbeat_at + $1 "
                "WHERE ended_at IS NULL AND heartbeat_at <= $2"),
            DB_ARGS(db_i(by), db_i(since)));
    db_exec(tx->db,
            SQL("UPDATE claim SET expires_at = expires_at + $1, heartbeat_at = heartbeat_at + $1, "
                "warned = CASE kind WHEN 'lock' THEN warned ELSE 0 END "
                "WHERE ended_at IS NULL AND expires_at > $2 AND heartbeat_at <= $2"),
            DB_ARGS(db_i(by), db_i(since)));
    int64_t count = db_changes(tx->db);
    if (count == 0 || !db_ok(tx->db))
        return 0;
    struct jw *w =
        dibs__event_begin(tx, &(struct event_head){.type = "leases:extended", .held_ms = -1});
    jw_kint(w, "byMs", by);
    jw_kint(w, "count", count);
    jw_ktext(w, "reason", reason);
    jw_ktime(w, "heldSince", since); /* those that were live and not renewed since then */
    dibs__event_end(tx);
    return count;
}

static void adjust(struct tx *tx, const char *boot, int64_t offset, int64_t delta,
                   const char *cause)
{
    tx->d->clock_offset = offset;
    tx->now = dibs__clock_now(tx->d);
    db_exec(
        tx->db,
        SQL("INSERT INTO clock (id, boot, offset_ms) VALUES (1, $1, $2) "
            "ON CONFLICT (id) DO UPDATE SET boot = excluded.boot, offset_ms = excluded.offset_ms"),
        DB_ARGS(db_t(boot), db_i(offset)));
    if (delta == 0)
        return;
    shift_leases(tx, delta);
    struct jw *w =
        dibs__event_begin(tx, &(struct event_head){.type = "clock:adjusted", .held_ms = -1});
    jw_kint(w, "deltaMs", delta);
    jw_ktext(w, "cause", cause);
    dibs__event_end(tx);
}

/* The newest time the store has seen, for when the clock it ran on is gone. */
static int64_t last_seen(struct tx *tx)
{
    int64_t heard = db_value_int(
        tx->db, 0, SQL("SELECT max(heartbeat_at) FROM session WHERE ended_at IS NULL"), DB_NO_ARGS);
    int64_t written = db_value_int(
        tx->db, 0, SQL("SELECT at FROM event ORDER BY number DESC LIMIT 1"), DB_NO_ARGS);
    return heard > written ? heard : written;
}

/* A new store, or the first writer after a reboot. Time never goes back, and the leases lose
 * nothing of what they had. */
static void start_anew(struct tx *tx, const char *boot, bool is_new_store)
{
    const struct dibs_platform *p = tx->d->platform;
    int64_t steady = p->steady_ms(p->context), wall = p->wall_ms(p->context);
    if (is_new_store) {
        adjust(tx, boot, wall - steady, 0, "start");
        return;
    }
    int64_t seen = last_seen(tx);
    int64_t now = wall > seen ? wall : seen;
    adjust(tx, boot, now - steady, seen > 0 ? now - seen : 0, "boot");
}

/* A reader cannot move the clock. Until a writer does, it stands where the store was last seen: no
 * lease looks ended that the writer will find running. */
static int64_t standing_still(struct tx *tx)
{
    const struct dibs_platform *p = tx->d->platform;
    int64_t seen = last_seen(tx);
    return seen > 0 ? seen : p->wall_ms(p->context);
}

static void follow_wall_clock(struct tx *tx, const char *boot)
{
    const struct dibs_platform *p = tx->d->platform;
    int64_t delta = p->wall_ms(p->context) - dibs__clock_now(tx->d);
    if (delta > CLOCK_STEP_MS || delta < -CLOCK_STEP_MS)
        adjust(tx, boot, tx->d->clock_offset + delta, delta, "step");
}

dibs_status dibs__clock_begin(struct tx *tx, bool writing)
{
    const struct dibs_platform *p = tx->d->platform;
    char boot[64] = "";
    p->boot_id(p->context, boot);
    bool known = false, same_boot = false;
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT boot, offset_ms FROM clock WHERE id = 1"), DB_NO_ARGS);
    if (db_next(rows)) {
        known = true;
        same_boot = str_eq(db_text_borrowed(rows, 0), boot);
        tx->d->clock_offset = db_int(rows, 1);
    }
    db_done(rows);
    if (writing && !same_boot)
        start_anew(tx, boot, !known);
    else if (writing)
        follow_wall_clock(tx, boot);
    else if (!same_boot)
        tx->d->clock_offset = standing_still(tx) - p->steady_ms(p->context);
    tx->now = dibs__clock_now(tx->d);
    return dibs__store_status(tx);
}

static dibs_status now_tx(struct tx *tx, const void *in, void *out)
{
    (void)in;
    *(int64_t *)out = tx->now;
    return DIBS_OK;
}

dibs_status dibs_now(dibs *d, int64_t *out_ms, struct dibs_error *err)
{
    dibs_arena *a = dibs_arena_new();
    if (!a)
        return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
    dibs_status status = dibs__read(d, a, err, now_tx, NULL, out_ms, sizeof *out_ms);
    dibs_arena_free(a);
    return status;
}
