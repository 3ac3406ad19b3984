/* SPDX-License-Identifier: MIT */
/*
 * move.c: what people and planners do to a task: block, unblock, cancel, reopen; and offers: offer,
 * review, accept, reject, assign. Each is one arrow of task_state.c.
 *
 * A move that takes a task away from its holder ends the claim; the holder learns it in its next
 * heartbeat.
 */
#include "core/swarm.h"

static dibs_status load_for(struct tx *tx, const struct dibs_move *in, enum task_move move,
                            struct task_row *task)
{
    dibs_status status = dibs__check_text(tx->err, "reason", in->reason, MESSAGE_BYTES_MAX);
    if (status == DIBS_OK)
        status = dibs__task_load(tx, in->task_id, task);
    if (status == DIBS_OK && dibs__lapse_if_past(tx, task))
        tx->keep = true;
    return status == DIBS_OK ? dibs__task_check_move(tx, task, move) : status;
}

/* Ends the live claim, if there is one. */
static void end_claim(struct tx *tx, const struct task_row *task, const char *reason,
                      struct claim_row *out)
{
    bool held = task->status == DIBS_TASK_IN_PROGRESS || task->status == DIBS_TASK_REVIEWING;
    *out = (struct claim_row){0};
    if (held && dibs__claim_load(tx, task->last_token, out) && !out->ended_at)
        dibs__claim_close(tx, out, reason, false);
    else
        *out = (struct claim_row){0};
}

static void tell(struct tx *tx, const char *type, const struct task_row *task,
                 const struct claim_row *ended, const struct dibs_move *in)
{
    bool had_holder = ended && ended->token;
    struct jw *w = dibs__task_event(tx, type, task, had_holder ? ended->session_id : in->session_id,
                                    had_holder ? dibs__claim_agent(ended) : NULL,
                                    had_holder ? dibs__held_ms(tx, ended) : -1);
    if (had_holder)
        jw_kint(w, "token", ended->token);
    jw_ktext_opt(w, "reason", in->reason);
    jw_ktext_opt(w, "assignee", task->assignee);
    jw_ktext_opt(w, "offeredTo", task->offered_to);
    jw_kint(w, "generation", task->generation);
    dibs__event_end(tx);
}

static dibs_status finish(struct tx *tx, const struct task_row *task, struct dibs_task *out)
{
    dibs__task_full(tx, task, out);
    return dibs__store_status(tx);
}

/* ---- block, unblock -------------------------------------------------------------------------- */

static dibs_status block_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_move *in = input;
    struct task_row task = {0};
    struct claim_row ended = {0};
    dibs_status status = load_for(tx, in, MOVE_BLOCK, &task);
    if (status != DIBS_OK)
        return status;
    if (in->session_id && task.status == DIBS_TASK_IN_PROGRESS) {
        struct claim_row mine = {0};
        status = dibs__claim_of_holder(tx, &task, in->session_id, 0, &mine);
        if (status != DIBS_OK)
            return status;
    }
    bool running = task.status == DIBS_TASK_IN_PROGRESS;
    end_claim(tx, &task, "blocked", &ended);
    if (running && task.attempts > 0)
        task.attempts--; /* waiting for something else is not the holder's failure */
    dibs__task_set_status(tx, &task, MOVE_BLOCK, DIBS_TASK_BLOCKED);
    dibs__task_set_block_reason(tx, task.key, in->reason && *in->reason ? in->reason : "blocked");
    tell(tx, "task:blocked", &task, &ended, in);
    return finish(tx, &task, output);
}

static dibs_status unblock_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_move *in = input;
    struct task_row task = {0};
    dibs_status status = load_for(tx, in, MOVE_UNBLOCK, &task);
    if (status != DIBS_OK)
        return status;
    dibs__task_set_block_reason(tx, task.key, NULL);
    bool waits = dibs__has_unfinished_dependencies(tx, task.key);
    if (waits) {
        dibs__task_save(tx, &task);
    } else {
        task.due_at = task.run_after;
        dibs__task_set_status(tx, &task, MOVE_UNBLOCK, dibs__task_home(&task));
    }
    tell(tx, waits ? "task:updated" : "task:unblocked", &task, NULL, in);
    return finish(tx, &task, output);
}

/* ---- cancel, reopen -------------------------------------------------------------------------- */

static dibs_status cancel_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_move *in = input;
    struct task_row task = {0};
    struct claim_row ended = {0};
    dibs_status status = load_for(tx, in, MOVE_CANCEL, &task);
    if (status != DIBS_OK && task.status == DIBS_TASK_CANCELLED && !dibs_status_is_failure(status))
        return finish(tx, &task, output); /* cancelled already: what was asked for is so */
    if (status != DIBS_OK)
        return status;
    end_claim(tx, &task, "cancelled", &ended);
    task.offered_to = NULL;
    dibs__task_set_status(tx, &task, MOVE_CANCEL, DIBS_TASK_CANCELLED);
    dibs__task_set_block_reason(tx, task.key, NULL);
    tell(tx, "task:cancelled", &task, &ended, in);
    dibs__dependants_tell_failure(tx, &task);
    return finish(tx, &task, output);
}

/* Tasks that had been waiting for this one and were not begun since wait again. */
static void block_dependants(struct tx *tx, const struct task_row *reopened)
{
    int64_t *keys = NULL;
    size_t count = 0;
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT t.key FROM task_dependency p JOIN task t ON t.key = p.task_key "
                     "WHERE p.needs_key = $1 AND t.status IN ('open', 'assigned') ORDER BY t.key"),
                 DB_ARGS(db_i(reopened->key)));
    while (db_next(rows)) {
        int64_t *key = dibs__push(tx, &keys, &count, sizeof *key);
        if (key)
            *key = db_int(rows, 0);
    }
    db_done(rows);
    for (size_t i = 0; i < count; i++) {
        struct task_row row = {0};
        if (!dibs__task_load_key(tx, keys[i], &row))
            return;
        dibs__task_set_status(tx, &row, MOVE_BLOCK, DIBS_TASK_BLOCKED);
        struct jw *w = dibs__task_event(tx, "task:blocked", &row, NULL, NULL, -1);
        jw_ktext(w, "reason", "dependency_reopened");
        jw_ktext(w, "dependency", reopened->id);
        dibs__event_end(tx);
    }
}

static dibs_status reopen_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_move *in = input;
    struct task_row task = {0};
    dibs_status status = load_for(tx, in, MOVE_REOPEN, &task);
    if (status != DIBS_OK)
        return status;
    struct task_row other = {0};
    if (dibs__task_of_key(tx, &task, &other))
        return dibs__refuse(
            tx, DIBS_ILLEGAL_TRANSITION,
            "task '%s' cannot be reopened: another unfinished task has its dedupe key", task.id);
    task.generation++;
    task.attempts = 0;
    task.assignee = NULL;
    task.due_at = task.run_after;
    dibs__task_set_status(tx, &task, MOVE_REOPEN, DIBS_TASK_OPEN);
    dibs__task_set_error(tx, task.key, NULL);
    dibs__task_set_result(tx, task.key, NULL);
    tell(tx, "task:reopened", &task, NULL, in);
    dibs__notice_drop(tx, &task, "reopened");
    block_dependants(tx, &task);
    return finish(tx, &task, output);
}

/* ---- offers ---------------------------------------------------------------------------------- */

static dibs_status load_for_agent(struct tx *tx, const struct dibs_move *in, enum task_move move,
                                  struct task_row *task)
{
    dibs_status status = dibs__check_id(tx->err, "agentId", in->agent_id);
    return status == DIBS_OK ? load_for(tx, in, move, task) : status;
}

/* For an agent that must be known: nobody would ever ask for a task of a name that was mistyped. */
static dibs_status load_for_known(struct tx *tx, const struct dibs_move *in, enum task_move move,
                                  struct task_row *task)
{
    struct agent_row agent = {0};
    dibs_status status = load_for_agent(tx, in, move, task);
    return status == DIBS_OK ? dibs__agent_load(tx, in->agent_id, &agent) : status;
}

static dibs_status offer_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_move *in = input;
    struct task_row task = {0};
    dibs_status status = load_for_known(tx, in, MOVE_OFFER, &task);
    if (status != DIBS_OK)
        return status;
    task.offered_to = in->agent_id;
    task.offered_at = tx->now;
    dibs__task_set_status(tx, &task, MOVE_OFFER, DIBS_TASK_OFFERED);
    dibs__task_set_rejection(tx, task.key, NULL);
    tell(tx, "task:offered", &task, NULL, in);
    return finish(tx, &task, output);
}

static dibs_status refuse_other_agent(struct tx *tx, const struct task_row *task)
{
    dibs__refuse(tx, DIBS_ILLEGAL_TRANSITION, "task '%s' is offered to agent '%s'", task->id,
                 task->offered_to);
    str_fit(tx->err->task_status, sizeof tx->err->task_status, dibs_task_status_name(task->status));
    return DIBS_ILLEGAL_TRANSITION;
}

static dibs_status review_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_move *in = input;
    struct task_row task = {0};
    struct session_row session = {0};
    struct claim_row claim = {0};
    dibs_status status = dibs__check_ttl(tx, "ttlMs", in->ttl_ms);
    if (status == DIBS_OK)
        status = load_for(tx, in, MOVE_REVIEW, &task);
    if (status == DIBS_OK)
        status = dibs__session_load(tx, in->session_id, &session);
    if (status == DIBS_OK && !str_eq(task.offered_to, session.agent_id))
        status = refuse_other_agent(tx, &task);
    if (status == DIBS_OK && dibs__agent_is_full(tx, task.offered_to))
        status = dibs__agent_refuse_full(tx, task.offered_to);
    if (status != DIBS_OK)
        return status;
    struct claim_grant grant = {.session = &session,
                                .kind = "review",
                                .task = &task,
                                .ttl_ms = dibs__claim_ttl(tx, NULL, in->ttl_ms)};
    dibs__claim_grant(tx, &grant, &claim);
    return finish(tx, &task, output);
}

static dibs_status accept_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_move *in = input;
    struct task_row task = {0};
    struct claim_row ended = {0};
    dibs_status status = load_for_agent(tx, in, MOVE_ACCEPT, &task);
    if (status == DIBS_OK && !str_eq(task.offered_to, in->agent_id))
        status = refuse_other_agent(tx, &task);
    if (status != DIBS_OK)
        return status;
    end_claim(tx, &task, "accepted", &ended);
    task.assignee = in->agent_id;
    task.offered_to = NULL;
    dibs__task_set_status(tx, &task, MOVE_ACCEPT, DIBS_TASK_ASSIGNED);
    tell(tx, "task:accepted", &task, &ended, in);
    return finish(tx, &task, output);
}

static dibs_status reject_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_move *in = input;
    struct task_row task = {0};
    struct claim_row ended = {0};
    dibs_status status = load_for_agent(tx, in, MOVE_REJECT, &task);
    if (status == DIBS_OK && !str_eq(task.offered_to, in->agent_id))
        status = refuse_other_agent(tx, &task);
    if (status != DIBS_OK)
        return status;
    end_claim(tx, &task, "rejected", &ended);
    task.offered_to = NULL;
    task.due_at = task.run_after;
    dibs__task_set_status(tx, &task, MOVE_REJECT, DIBS_TASK_OPEN);
    dibs__task_set_rejection(tx, task.key, in->reason);
    tell(tx, "task:rejected", &task, &ended, in);
    return finish(tx, &task, output);
}

static dibs_status assign_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_move *in = input;
    struct task_row task = {0};
    struct claim_row ended = {0};
    dibs_status status = load_for_known(tx, in, MOVE_ASSIGN, &task);
    if (status != DIBS_OK)
        return status;
    end_claim(tx, &task, "assigned", &ended);
    task.assignee = in->agent_id;
    task.offered_to = NULL;
    dibs__task_set_status(tx, &task, MOVE_ASSIGN, DIBS_TASK_ASSIGNED);
    tell(tx, "task:assigned", &task, &ended, in);
    return finish(tx, &task, output);
}

#define MOVE_FUNCTION(name, work)                                                                  \
    dibs_status name(dibs *d, dibs_arena *a, const struct dibs_move *in, struct dibs_task *out,    \
                     struct dibs_error *err)                                                       \
    {                                                                                              \
        return dibs__write(d, a, err, work, in, out, sizeof *out);                                 \
    }
MOVE_FUNCTION(dibs_task_block, block_tx)
MOVE_FUNCTION(dibs_task_unblock, unblock_tx)
MOVE_FUNCTION(dibs_task_cancel, cancel_tx)
MOVE_FUNCTION(dibs_task_reopen, reopen_tx)
MOVE_FUNCTION(dibs_task_offer, offer_tx)
MOVE_FUNCTION(dibs_task_review, review_tx)
MOVE_FUNCTION(dibs_task_accept, accept_tx)
MOVE_FUNCTION(dibs_task_reject, reject_tx)
MOVE_FUNCTION(dibs_task_assign, assign_tx)
