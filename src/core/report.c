/* SPDX-License-Identifier: MIT */
/*
 * report.c: what the holder of a task reports: completed, failed, given back. And what happens to a
 * report that comes too late.
 *
 * A report needs the session's live claim (and its token, if one is named). If the claim is gone:
 *   - complete, and nobody has claimed the task since: accepted as a late completion, for the work
 *     is done;
 *   - the same report was accepted before: a repeat, DIBS_OK, nothing changes;
 *   - else refused, and the result that came along is kept as the late result of its attempt, where
 *     people find it.
 */
#include "core/core.h"

/* ---- why a session does not hold a task ------------------------------------------------------ */

static dibs_status refuse_other_holder(struct tx *tx, const struct task_row *task,
                                       const struct claim_row *held)
{
    dibs__refuse(tx, DIBS_NOT_CLAIM_OWNER, "task '%s' is held by session '%s'", task->id,
                 held->session_id);
    str_fit(tx->err->holder, sizeof tx->err->holder, held->session_id);
    tx->err->holder_since_ms = held->claimed_at;
    int64_t remaining = held->expires_at - tx->now;
    tx->err->remaining_ms = remaining > 0 ? remaining : 0;
    return DIBS_NOT_CLAIM_OWNER;
}

static dibs_status refuse_not_held(struct tx *tx, const struct task_row *task,
                                   const struct claim_row *last, const char *session_id)
{
    bool was_mine = last->token && str_eq(last->session_id, session_id);
    const char *status = dibs_task_status_name(task->status);
    if (was_mine && str_eq(last->end_reason, "expired"))
        dibs__refuse(tx, DIBS_CLAIM_EXPIRED, "the lease of session '%s' on task '%s' has ended",
                     session_id, task->id);
    else if (task->status == DIBS_TASK_REVIEWING)
        dibs__refuse(tx, DIBS_TASK_NOT_CLAIMED, "task '%s' is only being reviewed by session '%s'",
                     task->id, last->session_id);
    else
        dibs__refuse(tx, DIBS_TASK_NOT_CLAIMED, "nobody holds task '%s': it is %s", task->id,
                     status);
    str_fit(tx->err->task_status, sizeof tx->err->task_status, status);
    tx->err->cancel_requested = task->status == DIBS_TASK_CANCELLED && was_mine;
    return tx->err->code;
}

/* A review is held too, but there is nothing to report of it: it can only be let go. */
static bool is_held(const struct task_row *task, bool or_reviewed)
{
    return task->status == DIBS_TASK_IN_PROGRESS ||
           (or_reviewed && task->status == DIBS_TASK_REVIEWING);
}

/* or_reviewed: a review of an offer counts as well as work on the task. */
static dibs_status find_lease(struct tx *tx, struct task_row *task, const char *session_id,
                              int64_t token, bool or_reviewed, struct claim_row *newest)
{
    bool ever = (newest->token && newest->token == task->last_token) ||
                dibs__claim_load(tx, task->last_token, newest);
    bool live = ever && !newest->ended_at;
    if (live && dibs__claim_is_past(tx, newest)) { /* a review too: it is over in the same way */
        dibs__claim_lapse(tx, newest, "task:claim-expired", "expired", 0);
        tx->keep = true;
        live = false;
        if (!dibs__task_load_key(tx, task->key, task))
            return dibs__store_status(tx);
    }
    if (!live || !is_held(task, or_reviewed))
        return refuse_not_held(tx, task, newest, session_id);
    if (!str_eq(newest->session_id, session_id))
        return refuse_other_holder(tx, task, newest);
    if (token && token != newest->token)
        return dibs__refuse(
            tx, DIBS_STALE_TOKEN,
            "token %" PRId64
            " is not that of the current claim on task '%s'; the task was claimed anew since",
            token, task->id);
    return DIBS_OK;
}

dibs_status dibs__claim_of_holder(struct tx *tx, struct task_row *task, const char *session_id,
                                  int64_t token, struct claim_row *newest)
{
    return find_lease(tx, task, session_id, token, false, newest);
}

/* ---- late reports ---------------------------------------------------------------------------- */

/* The attempt a late report belongs to: the one with its token, else the session's newest on this
 * task. */
static bool find_attempt(struct tx *tx, const struct task_row *task, const struct dibs_report *in,
                         struct claim_row *out)
{
    for (int64_t token = task->last_token; token && dibs__claim_load(tx, token, out);
         token = out->before_of_task) {
        bool mine = str_eq(out->session_id, in->session_id) && str_eq(out->kind, "task");
        if (mine && (!in->token || in->token == out->token))
            return true;
    }
    return false;
}

static void keep_late_result(struct tx *tx, const struct task_row *task,
                             const struct dibs_report *in, const char *verb)
{
    struct claim_row attempt = {0};
    if ((!in->result && !in->error) || !find_attempt(tx, task, in, &attempt))
        return;
    if (in->result)
        db_exec(tx->db, SQL("UPDATE claim SET late_result = $2 WHERE token = $1"),
                DB_ARGS(db_i(attempt.token), db_t(in->result)));
    struct jw *w = dibs__task_event(tx, "task:late-result", task, attempt.session_id,
                                    dibs__claim_agent(&attempt), -1);
    jw_kint(w, "token", attempt.token);
    jw_ktext(w, "report", verb);
    jw_kraw_opt(w, "result", in->result);
    jw_ktext_opt(w, "error", in->error);
    dibs__event_end(tx);
    tx->keep = true;
}

static bool is_by_reporter(const struct claim_row *c, const struct dibs_report *in)
{
    return c->token && str_eq(c->session_id, in->session_id) &&
           (!in->token || in->token == c->token);
}

/* Whether the very same completion was accepted before: by the same session, with the same
 * result. */
static bool is_repeated_completion(struct tx *tx, const struct task_row *task,
                                   const struct claim_row *last, const struct dibs_report *in)
{
    struct dibs_task full = {0};
    if (task->status != DIBS_TASK_COMPLETED || !is_by_reporter(last, in))
        return false;
    dibs__task_full(tx, task, &full);
    return str_eq(full.result, in->result);
}

/* A failure that left attempts can be repeated too, as long as nobody has claimed since. */
static bool is_repeated_failure(struct tx *tx, const struct task_row *task,
                                const struct claim_row *last, const struct dibs_report *in)
{
    struct dibs_task full = {0};
    bool queued = task->status == DIBS_TASK_OPEN || task->status == DIBS_TASK_BLOCKED;
    bool stands = task->status == DIBS_TASK_FAILED || (queued && !in->permanent);
    if (!stands || !is_by_reporter(last, in) || !str_eq(last->end_reason, "failed"))
        return false;
    dibs__task_full(tx, task, &full);
    return str_eq(full.error, in->error && *in->error ? in->error : "failed") &&
           str_eq(full.result, in->result);
}

static dibs_status refuse_finished(struct tx *tx, const struct task_row *task)
{
    const char *status = dibs_task_status_name(task->status);
    dibs__refuse(tx, DIBS_ALREADY_FINISHED,
                 "task '%s' is %s already; reopen it to work on it again", task->id, status);
    str_fit(tx->err->task_status, sizeof tx->err->task_status, status);
    return DIBS_ALREADY_FINISHED;
}

/* ---- the operations -------------------------------------------------------------------------- */

static dibs_status check_report(struct tx *tx, const struct dibs_report *in)
{
    dibs_status status = dibs__check_id(tx->err, "sessionId", in->session_id);
    if (status == DIBS_OK)
        status = json_check(in->result, JSON_VALUE_BYTES_MAX, "result", tx->err);
    if (status == DIBS_OK)
        status = dibs__check_text(tx->err, "error", in->error, MESSAGE_BYTES_MAX);
    return status;
}

/* The task is open again and the reporter was the last to hold it. */
static bool may_complete_late(const struct task_row *task, const struct claim_row *last,
                              const struct dibs_report *in)
{
    return task->status == DIBS_TASK_OPEN && is_by_reporter(last, in) &&
           str_eq(last->kind, "task") && /* who has read an offer has not done the task */
           last->generation == task->generation;
}

/* Nothing is refused from here on. */
static dibs_status accept(struct tx *tx, const struct report *r, bool completes,
                          struct dibs_task *out)
{
    bool bare = completes && !(r->task->parts & PART_BODY);
    db_writes_only(tx->db);
    (completes ? dibs__task_complete : dibs__task_fail)(tx, r);
    if (bare) /* what was just written is all there is to read */
        r->task->parts &= ~(int64_t)PART_BODY;
    dibs__task_full(tx, r->task, out);
    if (bare)
        out->result = dibs__strdup(tx, r->result);
    return dibs__store_status(tx);
}

/* A completion or a failure: by its holder, again, too late but welcome, or too late. */
static dibs_status take_report(struct tx *tx, const struct dibs_report *in, bool completes,
                               struct dibs_task *out)
{
    struct task_row task = {0};
    struct claim_row claim = {0};
    dibs_status status = check_report(tx, in);
    if (status == DIBS_OK)
        status = dibs__task_load_claimed(tx, in->task_id, in->token, &task, &claim);
    if (status != DIBS_OK)
        return status;
    if (completes ? is_repeated_completion(tx, &task, &claim, in)
                  : is_repeated_failure(tx, &task, &claim, in)) {
        dibs__task_full(tx, &task, out);
        return DIBS_OK;
    }
    status = dibs__claim_of_holder(tx, &task, in->session_id, in->token, &claim);
    bool late = completes && status != DIBS_OK && may_complete_late(&task, &claim, in);
    if (status == DIBS_OK || late) {
        struct report r = {.task = &task,
                           .claim = &claim,
                           .result = in->result,
                           .error = in->error,
                           .permanent = in->permanent,
                           .late = late};
        return accept(tx, &r, completes, out);
    }
    if (dibs_status_is_failure(status))
        return status;
    if (dibs__task_is_final(task.status) && !tx->err->cancel_requested)
        status = refuse_finished(tx, &task);
    keep_late_result(tx, &task, in, completes ? "complete" : "fail");
    return status;
}

static dibs_status complete_tx(struct tx *tx, const void *input, void *output)
{
    return take_report(tx, input, true, output);
}

dibs_status dibs_complete(dibs *d, dibs_arena *a, const struct dibs_report *in,
                          struct dibs_task *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, complete_tx, in, out, sizeof *out);
}

static dibs_status fail_tx(struct tx *tx, const void *input, void *output)
{
    return take_report(tx, input, false, output);
}

dibs_status dibs_fail(dibs *d, dibs_arena *a, const struct dibs_report *in, struct dibs_task *out,
                      struct dibs_error *err)
{
    return dibs__write(d, a, err, fail_tx, in, out, sizeof *out);
}

static dibs_status release_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_release *in = input;
    struct dibs_released *out = output;
    struct task_row task = {0};
    struct claim_row claim = {0};
    const char *reason = in->reason && *in->reason ? in->reason : "manual";
    dibs_status status = dibs__check_id(tx->err, "sessionId", in->session_id);
    if (status == DIBS_OK)
        status = dibs__check_text(tx->err, "reason", reason, WORD_BYTES_MAX);
    if (status == DIBS_OK)
        status = dibs__task_load_claimed(tx, in->task_id, in->token, &task, &claim);
    bool reports = str_eq(reason, "completed") || str_eq(reason, "failed");
    if (status == DIBS_OK)
        status = find_lease(tx, &task, in->session_id, in->token, !reports, &claim);
    if (status != DIBS_OK)
        return status;
    if (str_eq(reason, "completed")) {
        dibs__task_complete(tx, &(struct report){.task = &task, .claim = &claim});
    } else if (str_eq(reason, "failed")) {
        dibs__task_fail(tx, &(struct report){.task = &task, .claim = &claim});
    } else {
        dibs__claim_give_back(tx, &claim, &task, reason, true);
        dibs__session_touch(tx, claim.session_id);
    }
    *out = (struct dibs_released){
        .task_id = task.id, .reason = reason, .held_ms = dibs__held_ms(tx, &claim)};
    dibs__task_full(tx, &task, &out->task);
    return dibs__store_status(tx);
}

dibs_status dibs_claim_release(dibs *d, dibs_arena *a, const struct dibs_release *in,
                               struct dibs_released *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, release_tx, in, out, sizeof *out);
}
