/* SPDX-License-Identifier: MIT */
/*
 * claim_end.c: the one way a lease ends, and what becomes of the task then.
 *
 * A claim row is closed exactly once. Whoever ends a claim without its holder asking (deadline,
 * orphan, cancel, block) leaves `attention` set, so that the session's next heartbeat can tell it;
 * then the mark is taken off.
 *
 * Expiry is not a timer's business: whoever looks first at a lease whose deadline is past ends it.
 * The sweep and the daemon only make sure that somebody looks.
 */
#include "core/swarm.h"

void dibs__claim_close(struct tx *tx, struct claim_row *c, const char *reason, bool told)
{
    c->ended_at = tx->now;
    c->end_reason = reason;
    db_exec(tx->db,
            SQL("UPDATE claim SET ended_at = $2, end_reason = $3, attention = $4 WHERE token = $1"),
            DB_ARGS(db_i(c->token), db_i(tx->now), db_t(reason), db_i(told ? 0 : 1)));
    if (c->task_key)
        dibs__wake_for_room(tx, c->session_id);
}

/* ---- the task after its holder failed it: another attempt, or the end ------------------------ */

static int64_t backoff_ms(struct tx *tx, int64_t attempts)
{
    int64_t delay = BACKOFF_FIRST_MS;
    for (int64_t i = 1; i < attempts && delay < BACKOFF_LAST_MS; i++)
        delay *= 2;
    if (delay > BACKOFF_LAST_MS)
        delay = BACKOFF_LAST_MS;
    uint32_t chance = 0;
    const struct dibs_platform *p = tx->d->platform;
    p->random(p->context, &chance, sizeof chance);
    /* up to a quarter less, so that tasks that failed together do not all come back together */
    return delay - (int64_t)(chance % (uint32_t)(delay / 4));
}

static bool attempts_left(const struct task_row *task)
{
    return task->max_attempts == 0 || task->attempts < task->max_attempts;
}

/* Moves the task on after a lost attempt; returns whether it has failed for good. */
static bool retry_or_fail(struct tx *tx, struct task_row *task, bool with_backoff, bool permanent)
{
    bool over = permanent || !attempts_left(task);
    /* whoever it was assigned to has had the attempt; now it is for everyone */
    task->assignee = NULL;
    int64_t due = !over && with_backoff ? tx->now + backoff_ms(tx, task->attempts) : 0;
    task->due_at = due > task->run_after ? due : task->run_after;
    dibs__task_set_status(tx, task, MOVE_RETRY, over ? DIBS_TASK_FAILED : DIBS_TASK_OPEN);
    return over;
}

/* task:failed for good; dependants will wait in vain and are told. */
static void tell_failed(struct tx *tx, const struct task_row *task, const struct claim_row *c,
                        const char *error)
{
    struct jw *w =
        dibs__task_event(tx, "task:failed", task, c->session_id, dibs__claim_agent(c), -1);
    jw_kint(w, "token", c->token);
    jw_ktext(w, "error", error);
    jw_kbool(w, "final", true);
    dibs__event_end(tx);
    dibs__dependants_tell_failure(tx, task);
    dibs__notice_add(tx, task, c->agent_id);
}

/* ---- lapse: expired or orphaned -------------------------------------------------------------- */

static void lapse_review(struct tx *tx, struct claim_row *c, struct task_row *task,
                         const char *reason)
{
    dibs__task_set_status(tx, task, MOVE_REVIEW_END, DIBS_TASK_OFFERED);
    struct jw *w = dibs__task_event(tx, "task:offered", task, c->session_id, dibs__claim_agent(c),
                                    dibs__held_ms(tx, c));
    jw_kint(w, "token", c->token);
    jw_ktext(w, "reason", reason);
    jw_ktext_opt(w, "offeredTo", task->offered_to);
    dibs__event_end(tx);
}

void dibs__claim_lapse(struct tx *tx, struct claim_row *c, const char *event_type,
                       const char *reason, int64_t stale_for_ms)
{
    struct task_row task = {0};
    if (!dibs__task_load_key(tx, c->task_key, &task))
        return;
    dibs__claim_close(tx, c, reason, false);
    if (str_eq(c->kind, "review")) {
        lapse_review(tx, c, &task, reason);
        return;
    }
    bool was_assigned = task.assignee != NULL;
    bool over = retry_or_fail(tx, &task, false, false);
    if (over)
        dibs__task_set_error(tx, task.key, "attempts_exhausted");
    struct jw *w = dibs__task_event(tx, event_type, &task, c->session_id, dibs__claim_agent(c),
                                    dibs__held_ms(tx, c));
    jw_kint(w, "token", c->token);
    jw_ktext(w, "reason", reason);
    jw_ktime(w, "claimedAt", c->claimed_at);
    jw_ktime(w, "expiredAt", c->expires_at);
    jw_kint(w, "ageMs", tx->now > c->claimed_at ? tx->now - c->claimed_at : 0);
    jw_kint_opt(w, "staleForMs", stale_for_ms);
    if (was_assigned)
        jw_ktext(w, "assignee", NULL);
    if (tx->sweeping)
        jw_kbool(w, "sweep", true); /* the last field: readers of summaries look for it there */
    dibs__event_end(tx);
    if (over)
        tell_failed(tx, &task, c, "attempts_exhausted");
}

bool dibs__lapse_if_past(struct tx *tx, struct task_row *task)
{
    struct claim_row held = {0};
    bool is_held = task->status == DIBS_TASK_IN_PROGRESS || task->status == DIBS_TASK_REVIEWING;
    if (!is_held || !dibs__claim_load(tx, task->last_token, &held) || held.ended_at ||
        !dibs__claim_is_past(tx, &held))
        return false;
    dibs__claim_lapse(tx, &held, "task:claim-expired", "expired", 0);
    return dibs__task_load_key(tx, task->key, task);
}

/* ---- give back ------------------------------------------------------------------------------- */

void dibs__claim_give_back(struct tx *tx, struct claim_row *c, struct task_row *task,
                           const char *reason, bool told)
{
    dibs__claim_close(tx, c, reason, told);
    if (str_eq(c->kind, "review")) {
        lapse_review(tx, c, task, reason);
        return;
    }
    if (task->attempts > 0)
        task->attempts--;           /* the attempt was not made */
    task->due_at = task->run_after; /* it may have been put off meanwhile */
    dibs__task_set_status(tx, task, MOVE_GIVE_BACK, dibs__task_home(task));
    struct jw *w = dibs__task_event(tx, "task:released", task, c->session_id, dibs__claim_agent(c),
                                    dibs__held_ms(tx, c));
    jw_kint(w, "token", c->token);
    jw_ktext(w, "reason", reason);
    dibs__event_end(tx);
}

/* ---- complete and fail ----------------------------------------------------------------------- */

/* A result belongs to the report it came with: one without takes away what an attempt before left,
 * and makes no row for nothing. */
static void set_result(struct tx *tx, const struct task_row *task, const char *result)
{
    if (result)
        dibs__task_put_result(tx, task, result);
    else if (task->parts & PART_BODY)
        db_exec(tx->db,
                SQL("UPDATE task_body SET result = NULL WHERE task_key = $1 AND result IS NOT "
                    "NULL"),
                DB_ARGS(db_i(task->key)));
}

/* Counted also for a session that has ended; a sign of life only of one that has not. */
static void count_completed(struct tx *tx, const char *session_id)
{
    db_exec(tx->db,
            SQL("UPDATE session SET claims_completed = claims_completed + 1, heartbeat_at = $2 "
                "WHERE id = $1 AND status = 'active'"),
            DB_ARGS(db_t(session_id), db_i(tx->now)));
    if (db_changes(tx->db) > 0)
        return;
    db_exec(tx->db,
            SQL("UPDATE session SET claims_completed = claims_completed + 1, "
                "heartbeat_at = CASE WHEN ended_at IS NULL THEN $2 ELSE heartbeat_at END "
                "WHERE id = $1"),
            DB_ARGS(db_t(session_id), db_i(tx->now)));
    dibs__session_revive(tx, session_id);
}

void dibs__task_complete(struct tx *tx, const struct report *r)
{
    struct task_row *task = r->task;
    struct claim_row *c = r->claim;
    if (!c->ended_at)
        dibs__claim_close(tx, c, "completed", true);
    task->parts |= r->result ? PART_BODY : 0; /* written with the status */
    dibs__task_set_status(tx, task, MOVE_COMPLETE, DIBS_TASK_COMPLETED);
    set_result(tx, task, r->result);
    count_completed(tx, c->session_id);
    struct jw *w = dibs__task_event(tx, "task:completed", task, c->session_id, dibs__claim_agent(c),
                                    dibs__held_ms(tx, c));
    jw_kint(w, "token", c->token);
    jw_kraw_opt(w, "result", r->result);
    if (r->late)
        jw_kbool(w, "late", true);
    dibs__event_end(tx);
    if (task->parts & PART_NEEDED)
        dibs__dependants_unblock(tx, task);
    dibs__notice_add(tx, task, c->agent_id);
}

void dibs__task_fail(struct tx *tx, const struct report *r)
{
    struct task_row *task = r->task;
    struct claim_row *c = r->claim;
    const char *error = r->error && *r->error ? r->error : "failed";
    dibs__claim_close(tx, c, "failed", true);
    dibs__session_touch(tx, c->session_id);
    bool was_assigned = task->assignee != NULL;
    task->parts |= PART_BODY; /* for the error; written with the status */
    bool over = retry_or_fail(tx, task, true, r->permanent);
    dibs__task_set_error(tx, task->key, error);
    set_result(tx, task, r->result);
    struct jw *w = dibs__task_event(tx, "task:failed", task, c->session_id, dibs__claim_agent(c),
                                    dibs__held_ms(tx, c));
    jw_kint(w, "token", c->token);
    jw_ktext(w, "error", error);
    jw_kraw_opt(w, "result", r->result);
    jw_kbool(w, "final", over);
    if (was_assigned)
        jw_ktext(w, "assignee", NULL);
    dibs__event_end(tx);
    if (!over)
        return;
    dibs__dependants_tell_failure(tx, task);
    dibs__notice_add(tx, task, c->agent_id);
}

/* ---- looking for leases that have ended ------------------------------------------------------ */

void dibs__cleaned_add(struct tx *tx, struct dibs_cleaned *out, const struct claim_row *c,
                       const char *task_id, const char *reason, int64_t stale_for_ms)
{
    size_t count = (size_t)out->count;
    struct dibs_cleaned_claim *item = dibs__push(tx, &out->claims, &count, sizeof *item);
    if (!item)
        return;
    *item = (struct dibs_cleaned_claim){.kind = c->kind,
                                        .task_id = task_id,
                                        .resource = c->resource,
                                        .session_id = c->session_id,
                                        .token = c->token,
                                        .claimed_at_ms = c->claimed_at,
                                        .expires_at_ms = c->expires_at,
                                        .reason = reason,
                                        .stale_for_ms = stale_for_ms,
                                        .held_ms = dibs__held_ms(tx, c)};
    out->count = (int64_t)count;
}

int64_t dibs__expire_due(struct tx *tx, int64_t most, struct dibs_cleaned *out)
{
    struct claim_rows due = {0};
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT " CLAIM_COLUMNS " FROM claim c WHERE c.ended_at IS NULL "
                     "AND c.expires_at <= $1 AND c.kind <> 'lock' ORDER BY c.expires_at LIMIT $2"),
                 DB_ARGS(db_i(tx->now), db_i(most)));
    dibs__claims_collect(tx, rows, &due);
    for (size_t i = 0; i < due.count && db_ok(tx->db); i++) {
        struct claim_row *c = &due.items[i];
        dibs__claim_put_back(tx, c, "expired", false, 0);
        if (out)
            dibs__cleaned_add(tx, out, c, dibs__claim_task_id(tx, c), "expired", 0);
    }
    return (int64_t)due.count;
}

void dibs__promote_due(struct tx *tx)
{
    /* the update alone would build a table in memory each time, and mostly there is nothing to
     * do */
    if (db_value_int(tx->db, 0,
                     SQL("SELECT 1 FROM task WHERE due_at IS NOT NULL AND due_at <= $1 LIMIT 1"),
                     DB_ARGS(db_i(tx->now))) != 1)
        return;
    db_exec(
        tx->db,
        SQL("UPDATE task SET ready = 1, due_at = NULL WHERE due_at IS NOT NULL AND due_at <= $1"),
        DB_ARGS(db_i(tx->now)));
    tx->d->wakes.tasks += db_changes(tx->db);
}
