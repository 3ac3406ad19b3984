/* SPDX-License-Identifier: MIT */
/*
 * subject.c: claims on whatever is handed out, and the one way back.
 *
 * A claim has a kind: task and review (a task by its key), lock, inbox (a message), mentions (those
 * of an agent in a channel), notice (a finished task that a lead is told of). The last four name
 * their subject in `resource`. Leases, tokens, heartbeats and ends are the same for all; what
 * differs is only what becomes of the subject, and that is decided here.
 *
 *  1. Whoever ends a claim that its holder has not reported on (deadline, dead process, silent
 *     session, a session that lets go of everything) calls dibs__claim_put_back and nothing else.
 *  2. A lease past its deadline had ended before anybody asked: it is "expired", whatever the
 *     caller's reason.
 *  3. The subject's own file changes the subject and writes the event, which names the token.
 */
#include "core/swarm.h"

/* ---- granting -------------------------------------------------------------------------------- */

void dibs__subject_claim(struct tx *tx, const struct session_row *session, const char *kind,
                         const char *resource, int64_t ttl_ms, struct claim_row *out)
{
    struct subject named = {.kind = kind,
                            .resource = resource,
                            .ttl_ms = ttl_ms ? ttl_ms : tx->d->settings.default_ttl_ms};
    dibs__named_claim(tx, session, &named, out);
}

void dibs__named_claim(struct tx *tx, const struct session_row *session, const struct subject *in,
                       struct claim_row *out)
{
    *out = (struct claim_row){.token = dibs__next_token(tx),
                              .kind = in->kind,
                              .resource = in->resource,
                              .shared = in->shared,
                              .session_id = session->id,
                              .incarnation = session->incarnation,
                              .agent_type = session->agent_type,
                              .agent_id = session->agent_id,
                              .claimed_at = tx->now,
                              .expires_at = tx->now + in->ttl_ms,
                              .heartbeat_at = tx->now,
                              .ttl = in->ttl_ms,
                              .progress_percent = -1};
    db_exec(tx->db,
            SQL("INSERT INTO claim (token, kind, resource, shared, session_id, incarnation, "
                "agent_type, agent_id, claimed_at, expires_at, heartbeat_at, ttl, warned) "
                "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $9, $11, $12)"),
            DB_ARGS(db_i(out->token), db_t(in->kind), db_t(in->resource), db_i(in->shared),
                    db_t(session->id), db_i(session->incarnation), db_t(session->agent_type),
                    db_t(session->agent_id), db_i(tx->now), db_i(out->expires_at), db_i(in->ttl_ms),
                    db_i(in->is_untold)));
}

/* ---- putting back ---------------------------------------------------------------------------- */

static void put_back_task(struct tx *tx, struct claim_row *c, const char *reason, bool told,
                          int64_t stale_for_ms)
{
    struct task_row task = {0};
    if (str_eq(reason, "expired"))
        dibs__claim_lapse(tx, c, "task:claim-expired", reason, 0);
    else if (stale_for_ms >= 0)
        dibs__claim_lapse(tx, c, "task:claim-orphaned", reason, stale_for_ms);
    else if (dibs__task_load_key(tx, c->task_key, &task))
        dibs__claim_give_back(tx, c, &task, reason, told);
}

void dibs__claim_put_back(struct tx *tx, struct claim_row *c, const char *reason, bool told,
                          int64_t stale_for_ms)
{
    static const struct {
        const char *kind;
        void (*put_back)(struct tx *tx, const struct claim_row *c, const char *reason);
    } subjects[] = {{"inbox", dibs__inbox_put_back},
                    {"mentions", dibs__mentions_put_back},
                    {"notice", dibs__notice_put_back}};
    if (dibs__claim_is_past(tx, c)) {
        reason = "expired";
        told = false;
    }
    if (!c->resource) {
        put_back_task(tx, c, reason, told, stale_for_ms);
        return;
    }
    if (dibs__claim_is_lock(c)) {
        bool expired = str_eq(reason, "expired");
        dibs__lock_end(tx, c, reason, expired ? "lock:expired" : "lock:released", told);
        return;
    }
    dibs__claim_close(tx, c, reason, told);
    for (size_t i = 0; i < COUNT_OF(subjects); i++)
        if (str_eq(subjects[i].kind, c->kind))
            subjects[i].put_back(tx, c, reason);
}

const char *dibs__claim_task_id(struct tx *tx, const struct claim_row *c)
{
    struct task_row task = {0};
    return c->task_key && dibs__task_load_key(tx, c->task_key, &task) ? task.id : NULL;
}
