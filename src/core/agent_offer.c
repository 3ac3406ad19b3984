/* SPDX-License-Identifier: MIT */
/*
 * agent_offer.c: offers that nobody will answer go back to the pool.
 *
 *   offered --nobody answers for offerTTL ("unanswered")--> open
 *   offered --its agent has no session and was not heard for orphanThreshold ("agent_gone")--> open
 *
 * A review under way is an answer being thought about: it is left alone until its lease ends, which
 * makes the task offered again, as old as the offer is. Agents with offers are few, so they are
 * gone through one by one; an agent's offers are found by the index on offered_to.
 */
#include "core/swarm.h"

/* An agent with offers. */
struct offeree {
    const char *id;
    int64_t oldest;  /* since when the oldest of its offers stands */
    int64_t seen_at; /* 0: nobody knows the agent */
    bool has_session;
};
struct offerees {
    struct offeree *items;
    size_t count;
};

static void find_offerees(struct tx *tx, struct offerees *out)
{
    struct db_rows *rows = db_query(
        tx->db,
        SQL("SELECT o.offered_to, o.oldest, a.seen_at, (SELECT count(*) FROM session s WHERE "
            "s.agent_id = o.offered_to AND s.ended_at IS NULL) FROM (SELECT offered_to, "
            "min(offered_at) AS oldest FROM task WHERE offered_to IS NOT "
            "NULL AND status = 'offered' GROUP BY offered_to) o "
            "LEFT JOIN agent a ON a.id = o.offered_to ORDER BY o.offered_to"),
        DB_NO_ARGS);
    while (db_next(rows)) {
        struct offeree *o = dibs__push(tx, &out->items, &out->count, sizeof *o);
        if (!o)
            break;
        *o = (struct offeree){.id = db_text(rows, 0, tx->a),
                              .oldest = db_int(rows, 1),
                              .seen_at = db_int(rows, 2),
                              .has_session = db_int(rows, 3) > 0};
    }
    db_done(rows);
}

/* When an offer of that age goes back, and why. */
static int64_t ends_at(const struct tx *tx, const struct offeree *o, int64_t offered_at,
                       const char **reason)
{
    const struct dibs_settings *s = &tx->d->settings;
    int64_t unanswered = offered_at + s->offer_ttl_ms;
    int64_t heard = o->seen_at > offered_at ? o->seen_at : offered_at;
    int64_t gone = heard + s->orphan_threshold_ms;
    bool is_gone = !o->has_session && gone < unanswered;
    *reason = is_gone ? "agent_gone" : "unanswered";
    return is_gone ? gone : unanswered;
}

int64_t dibs__offer_patience(const dibs *d)
{
    const struct dibs_settings *s = &d->settings;
    return s->offer_ttl_ms < s->orphan_threshold_ms ? s->offer_ttl_ms : s->orphan_threshold_ms;
}

int64_t dibs__offers_next(struct tx *tx)
{
    struct offerees all = {0};
    const char *ignored = NULL;
    int64_t next = 0;
    find_offerees(tx, &all);
    for (size_t i = 0; i < all.count; i++) {
        int64_t at = ends_at(tx, &all.items[i], all.items[i].oldest, &ignored);
        if (next == 0 || at < next)
            next = at;
    }
    return next;
}

static void withdraw(struct tx *tx, struct task_row *task, const char *reason)
{
    const char *agent = task->offered_to;
    task->offered_to = NULL;
    task->due_at = task->run_after;
    dibs__task_set_status(tx, task, MOVE_WITHDRAW, DIBS_TASK_OPEN);
    struct jw *w = dibs__task_event(tx, "task:offer-withdrawn", task, NULL, NULL, -1);
    jw_ktext(w, "reason", reason);
    jw_ktext(w, "offeredTo", agent); /* until now */
    dibs__event_end(tx);
}

static int64_t withdraw_from(struct tx *tx, const struct offeree *o, int64_t most)
{
    struct task_row *tasks = NULL;
    size_t count = 0;
    const char *reason = NULL;
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT " TASK_COLUMNS " FROM task t WHERE t.offered_to = $1 AND t.status = "
                     "'offered' ORDER BY t.offered_at, t.key LIMIT $2"),
                 DB_ARGS(db_t(o->id), db_i(most)));
    while (db_next(rows)) {
        struct task_row *task = dibs__push(tx, &tasks, &count, sizeof *task);
        if (!task)
            break;
        dibs__task_row_read(tx, rows, task);
    }
    db_done(rows);
    int64_t done = 0;
    for (size_t i = 0; i < count && db_ok(tx->db); i++) {
        if (ends_at(tx, o, tasks[i].offered_at, &reason) > tx->now)
            continue;
        withdraw(tx, &tasks[i], reason);
        done++;
    }
    return done;
}

int64_t dibs__offers_withdraw(struct tx *tx, int64_t most)
{
    struct offerees all = {0};
    const char *ignored = NULL;
    int64_t done = 0;
    find_offerees(tx, &all);
    for (size_t i = 0; i < all.count && done < most && db_ok(tx->db); i++)
        if (ends_at(tx, &all.items[i], all.items[i].oldest, &ignored) <= tx->now)
            done += withdraw_from(tx, &all.items[i], most - done);
    return done;
}

void dibs__offers_expect(struct tx *tx, const struct task_row *task)
{
    struct tended *t = &tx->d->tended;
    int64_t at = tx->now + dibs__offer_patience(tx->d);
    if (task)
        dibs__wake_agent(tx, task->offered_to);
    bool is_back = task && task->offered_at < tx->now; /* from a review: its time may be over */
    bool has_offers = task || t->offers;
    if (is_back)
        t->offers_at = 0;
    else if (has_offers && t->offers_at && (t->offers == 0 || at < t->offers))
        t->offers = at;
}
