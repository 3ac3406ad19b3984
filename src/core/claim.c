/* SPDX-License-Identifier: MIT */
/*
 * claim.c: calling dibs on a task, and keeping it.
 *
 *   (none) --take, claim-next--> live --heartbeat, progress, take by the same session--> live
 *   (later deadline) live --complete, fail, release--> ended          by its holder (report.c) live
 *   --deadline past--> ended (expired)          by whoever looks first (claim_end.c) live --session
 *   gone--> ended (orphaned)          by the sweep (cleanup.c) live --cancel, block--> ended
 *   by people (move.c); the holder learns it in its next heartbeat
 *
 *  1. A task has at most one live claim: only an open or assigned task is granted, and granting
 *     makes it in_progress.
 *  2. Tokens only grow. A holder may name its token; an older one is refused and changes nothing.
 *  3. A lease ends at its deadline, not at the next sweep: every operation here looks at the clock
 *     first.
 *  4. Attempts are counted when claimed, so a worker that dies each time still meets maxAttempts.
 */
#include "core/swarm.h"

/* ---- granting -------------------------------------------------------------------------------- */

int64_t dibs__claim_ttl(struct tx *tx, const struct task_row *task, int64_t asked_ms)
{
    if (asked_ms)
        return asked_ms;
    return task && task->claim_timeout ? task->claim_timeout : tx->d->settings.default_ttl_ms;
}

static dibs_status not_claimable(struct tx *tx, const struct task_row *task, const char *why)
{
    dibs__refuse(tx, DIBS_TASK_NOT_CLAIMABLE, "task '%s' cannot be claimed: %s", task->id, why);
    str_fit(tx->err->task_status, sizeof tx->err->task_status, dibs_task_status_name(task->status));
    return DIBS_TASK_NOT_CLAIMABLE;
}

static dibs_status not_due(struct tx *tx, const struct task_row *task)
{
    char left[32];
    int64_t due = task->due_at > task->run_after ? task->due_at : task->run_after;
    str_rough_duration_ms(due - tx->now, left);
    return not_claimable(tx, task, dibs__printf(tx, "its time comes in %s", left));
}

dibs_status dibs__claimable(struct tx *tx, const struct task_row *task,
                            const struct session_row *session)
{
    bool assigned = task->status == DIBS_TASK_ASSIGNED;
    if (assigned && !str_eq(task->assignee, session->agent_id))
        return not_claimable(tx, task, "it is assigned to another agent");
    if (task->status == DIBS_TASK_BLOCKED)
        return not_claimable(tx, task, "it is blocked");
    if (task->status != DIBS_TASK_OPEN && !assigned)
        return not_claimable(tx, task,
                             dibs__printf(tx, "it is %s", dibs_task_status_name(task->status)));
    if (task->due_at > tx->now || (assigned && task->run_after > tx->now))
        return not_due(tx, task);
    if (assigned && dibs__agent_is_full(tx, task->assignee))
        return dibs__agent_refuse_full(tx, task->assignee);
    return DIBS_OK;
}

static void insert_claim(struct tx *tx, const struct claim_row *c, int64_t session_key)
{
    db_exec(
        tx->db,
        SQL("INSERT INTO claim (token, kind, task_key, session_id, incarnation, agent_type, "
            "agent_id, claimed_at, "
            "expires_at, heartbeat_at, ttl, attempt, generation, checkpoint, metadata, "
            "before_of_task, "
            "before_in_session) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $8, $10, $11, $12, $13, $14, $15, $16)"),
        DB_ARGS(db_i(c->token), db_t(c->kind), db_i(c->task_key), db_t(c->session_id),
                db_i(c->incarnation), db_t(c->agent_type), db_t(c->agent_id), db_i(c->claimed_at),
                db_i(c->expires_at), db_i(c->ttl), db_i(c->attempt), db_i(c->generation),
                db_t(c->checkpoint), db_t(c->metadata), db_i_or_null(c->before_of_task),
                db_i_or_null(c->before_in_session)));
    db_exec(
        tx->db,
        SQL("UPDATE session SET heartbeat_at = $2, last_token = $3, "
            "claims_total = claims_total + $4 WHERE key = $1"),
        DB_ARGS(db_i(session_key), db_i(tx->now), db_i(c->token), db_i(str_eq(c->kind, "task"))));
}

/* What the attempt before left behind, for the next holder; a new generation starts with
 * nothing. */
static const char *last_checkpoint(struct tx *tx, const struct task_row *task)
{
    struct claim_row before = {0};
    if (!dibs__claim_load(tx, task->last_token, &before) || before.generation != task->generation)
        return NULL;
    return before.checkpoint;
}

void dibs__claim_grant(struct tx *tx, const struct claim_grant *in, struct claim_row *out)
{
    struct task_row *task = in->task;
    bool is_task = str_eq(in->kind, "task");
    *out = (struct claim_row){
        .token = dibs__next_token(tx),
        .kind = in->kind,
        .task_key = task->key,
        .session_id = in->session->id,
        .incarnation = in->session->incarnation,
        .agent_type = in->agent_type ? in->agent_type : in->session->agent_type,
        .agent_id = in->session->agent_id,
        .claimed_at = tx->now,
        .expires_at = tx->now + in->ttl_ms,
        .heartbeat_at = tx->now,
        .ttl = in->ttl_ms,
        .attempt = is_task ? task->attempts + 1 : 0,
        .generation = task->generation,
        .progress_percent = -1,
        .checkpoint = last_checkpoint(tx, task),
        .metadata = in->metadata,
        .before_of_task = task->last_token,
        .before_in_session = in->session->last_token,
    };
    if (in->session->status == DIBS_SESSION_STALE)
        dibs__session_revive(tx, in->session->id);
    insert_claim(tx, out, in->session->key);
    task->last_token = out->token;
    task->attempts = is_task ? out->attempt : task->attempts;
    dibs__task_set_status(tx, task, is_task ? MOVE_CLAIM : MOVE_REVIEW,
                          is_task ? DIBS_TASK_IN_PROGRESS : DIBS_TASK_REVIEWING);
    struct jw *w = dibs__task_event(tx, is_task ? "task:claimed" : "task:reviewing", task,
                                    out->session_id, dibs__claim_agent(out), -1);
    jw_kint(w, "token", out->token);
    jw_kint(w, "attempt", out->attempt);
    jw_kint(w, "incarnation", out->incarnation);
    jw_ktext_opt(w, "agentType", out->agent_type);
    jw_ktime(w, "claimedAt", out->claimed_at);
    jw_ktime(w, "expiresAt", out->expires_at);
    jw_kint(w, "ttlMs", out->ttl);
    jw_kraw_opt(w, "metadata", out->metadata);
    dibs__event_end(tx);
}

/* ---- take ------------------------------------------------------------------------------------ */

/* Every attempt to claim is on record, also the refused ones. */
static dibs_status refuse_held(struct tx *tx, const struct task_row *task,
                               const struct claim_row *held, const struct session_row *session)
{
    int64_t remaining = held->expires_at - tx->now;
    char left[32];
    str_rough_duration_ms(remaining, left);
    struct jw *w = dibs__task_event(tx, "task:claim-refused", task, session->id,
                                    dibs__session_agent(session), -1);
    jw_ktext(w, "holder", held->session_id);
    jw_kint(w, "remainingMs", remaining);
    dibs__event_end(tx);
    dibs__session_touch(tx, session->id);
    tx->keep = true;
    dibs__refuse(tx, DIBS_TASK_ALREADY_CLAIMED, "task '%s' is held by session '%s' for another %s",
                 task->id, held->session_id, left);
    str_fit(tx->err->holder, sizeof tx->err->holder, held->session_id);
    tx->err->holder_since_ms = held->claimed_at;
    tx->err->remaining_ms = remaining;
    return DIBS_TASK_ALREADY_CLAIMED;
}

/* dibs__claim_extend: a heartbeat moves the deadline away, never nearer. */
void dibs__claim_extend(struct tx *tx, struct claim_row *c, int64_t expires_at)
{
    c->expires_at = expires_at > c->expires_at ? expires_at : c->expires_at;
    c->heartbeat_at = tx->now;
    c->heartbeats++;
    db_exec(tx->db,
            SQL("UPDATE claim SET expires_at = $2, heartbeat_at = $3, heartbeats = $4, warned = 0 "
                "WHERE token = $1"),
            DB_ARGS(db_i(c->token), db_i(c->expires_at), db_i(tx->now), db_i(c->heartbeats)));
    dibs__session_touch(tx, c->session_id);
}

static dibs_status extend_own(struct tx *tx, const struct task_row *task, struct claim_row *held,
                              int64_t ttl_ms, struct dibs_claim *out)
{
    dibs__claim_extend(tx, held, tx->now + (ttl_ms ? ttl_ms : held->ttl));
    dibs__claim_full(tx, held, task->id, out);
    out->extended = true;
    return dibs__store_status(tx);
}

static dibs_status check_take(struct tx *tx, const struct dibs_claim_take *in)
{
    dibs_status status = dibs__check_ttl(tx, "ttlMs", in->ttl_ms);
    if (status == DIBS_OK)
        status = dibs__check_text(tx->err, "agentType", in->agent_type, WORD_BYTES_MAX);
    if (status == DIBS_OK)
        status = json_check(in->metadata, JSON_VALUE_BYTES_MAX, "metadata", tx->err);
    return status;
}

static dibs_status take_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_claim_take *in = input;
    struct session_row session = {0};
    struct task_row task = {0};
    struct claim_row held = {0}, claim = {0};
    dibs_status status = check_take(tx, in);
    if (status == DIBS_OK)
        status = dibs__task_load(tx, in->task_id, &task);
    if (status == DIBS_OK)
        status = dibs__session_load(tx, in->session_id, &session);
    if (status != DIBS_OK)
        return status;
    if (task.status == DIBS_TASK_IN_PROGRESS && dibs__claim_load(tx, task.last_token, &held)) {
        if (!dibs__claim_is_past(tx, &held)) {
            bool own = str_eq(held.session_id, session.id);
            return own ? extend_own(tx, &task, &held, in->ttl_ms, output)
                       : refuse_held(tx, &task, &held, &session);
        }
        dibs__claim_lapse(tx, &held, "task:claim-expired", "expired", 0);
        tx->keep = true; /* the old lease is over even if the new one cannot be granted */
        if (!dibs__task_load_key(tx, task.key, &task))
            return dibs__store_status(tx);
    }
    status = dibs__claimable(tx, &task, &session);
    if (status != DIBS_OK)
        return status;
    struct claim_grant grant = {.session = &session,
                                .kind = "task",
                                .task = &task,
                                .ttl_ms = dibs__claim_ttl(tx, &task, in->ttl_ms),
                                .agent_type = in->agent_type,
                                .metadata = in->metadata};
    db_writes_only(tx->db); /* nothing is refused from here on */
    dibs__claim_grant(tx, &grant, &claim);
    dibs__claim_full(tx, &claim, task.id, output);
    return dibs__store_status(tx);
}

dibs_status dibs_claim_take(dibs *d, dibs_arena *a, const struct dibs_claim_take *in,
                            struct dibs_claim *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, take_tx, in, out, sizeof *out);
}

/* ---- heartbeat and progress ------------------------------------------------------------------ */

static dibs_status load_held(struct tx *tx, const char *task_id, const char *session_id,
                             int64_t token, struct task_row *task, struct claim_row *claim)
{
    dibs_status status = dibs__task_load_claimed(tx, task_id, token, task, claim);
    if (status == DIBS_OK)
        status = dibs__check_id(tx->err, "sessionId", session_id);
    if (status == DIBS_OK)
        status = dibs__claim_of_holder(tx, task, session_id, token, claim);
    return status;
}

static dibs_status heartbeat_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_heartbeat *in = input;
    struct task_row task = {0};
    struct claim_row claim = {0};
    dibs_status status = dibs__check_ttl(tx, "extendMs", in->extend_ms);
    if (status == DIBS_OK)
        status = load_held(tx, in->task_id, in->session_id, in->token, &task, &claim);
    if (status != DIBS_OK)
        return status;
    db_writes_only(tx->db);
    dibs__claim_extend(tx, &claim, tx->now + (in->extend_ms ? in->extend_ms : claim.ttl));
    dibs__claim_full(tx, &claim, task.id, output);
    return dibs__store_status(tx);
}

dibs_status dibs_claim_heartbeat(dibs *d, dibs_arena *a, const struct dibs_heartbeat *in,
                                 struct dibs_claim *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, heartbeat_tx, in, out, sizeof *out);
}

static dibs_status check_progress(struct tx *tx, const struct dibs_progress *in)
{
    dibs_status status = DIBS_OK;
    if (in->percent.given)
        status = dibs__check_range(tx->err, "percent", in->percent.value, 0, 100);
    if (status == DIBS_OK)
        status = dibs__check_text(tx->err, "message", in->message, MESSAGE_BYTES_MAX);
    if (status == DIBS_OK)
        status = json_check(in->checkpoint, JSON_VALUE_BYTES_MAX, "checkpoint", tx->err);
    return status;
}

static void note_progress(struct tx *tx, const struct dibs_progress *in,
                          const struct task_row *task, struct claim_row *claim)
{
    claim->progress_percent = in->percent.given ? in->percent.value : claim->progress_percent;
    claim->progress_message = in->message ? in->message : claim->progress_message;
    claim->checkpoint = in->checkpoint ? in->checkpoint : claim->checkpoint;
    struct db_value percent =
        claim->progress_percent < 0 ? db_t(NULL) : db_i(claim->progress_percent);
    db_exec(tx->db,
            SQL("UPDATE claim SET progress_percent = $2, progress_message = $3, checkpoint = $4 "
                "WHERE token = $1"),
            DB_ARGS(db_i(claim->token), percent, db_t(claim->progress_message),
                    db_t(claim->checkpoint)));
    struct jw *w = dibs__task_event(tx, "task:progress", task, claim->session_id,
                                    dibs__claim_agent(claim), -1);
    jw_kint(w, "token", claim->token);
    if (in->percent.given)
        jw_kint(w, "percent", in->percent.value);
    jw_ktext_opt(w, "message", in->message);
    jw_kraw_opt(w, "checkpoint", in->checkpoint);
    dibs__event_end(tx);
}

static dibs_status progress_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_progress *in = input;
    struct task_row task = {0};
    struct claim_row claim = {0};
    dibs_status status = check_progress(tx, in);
    if (status == DIBS_OK)
        status = load_held(tx, in->task_id, in->session_id, in->token, &task, &claim);
    if (status != DIBS_OK)
        return status;
    dibs__claim_extend(tx, &claim, tx->now + claim.ttl);
    note_progress(tx, in, &task, &claim);
    dibs__claim_full(tx, &claim, task.id, output);
    return dibs__store_status(tx);
}

dibs_status dibs_claim_progress(dibs *d, dibs_arena *a, const struct dibs_progress *in,
                                struct dibs_claim *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, progress_tx, in, out, sizeof *out);
}
