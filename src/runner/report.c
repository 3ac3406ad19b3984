/* SPDX-License-Identifier: MIT */
/*
 * report.c: what becomes of a job: its outcome, as one or more requests.
 *
 *                        exit 0               exit 75            any other end
 *     task               complete             release            fail
 *     task_offered       accept               release            reject
 *     inbox messages     read, each           release            release
 *     mentions           release as read      release            release
 *     finished tasks     acknowledge          release            release
 *
 *   1. A command that was stopped at its time limit has failed, one that lost its claim too: what
 *      it printed is sent all the same and kept as a late result. One that was stopped because the
 *      runner leaves is given back.
 *   2. Every request carries the same idempotency key each time it is sent, so that sending it
 *      again is harmless. It is sent until it is answered, or the lease is long over.
 *   3. A refusal is an answer: the command may have reported by itself, or the claim is lost. If
 *      it is about what was sent, the report is sent once more with less in it, and in the end as a
 *      failure with the words of the refusal: the claim must not stay.
 */
#define _GNU_SOURCE /* sigabbrev_np */
#include <signal.h>
#include <sys/wait.h>

#include "runner_private.h"

#include "base/str.h"

#define LATE_MS (10 * 60 * 1000) /* how long a report is sent after the lease is over */
#define IDLE_FIRST_MS 1000       /* pause after work that was given back */
#define IDLE_LAST_MS 30000

/* ---- requests -------------------------------------------------------------------------------- */

/* path_of: prefix + id, percent-encoded, + suffix; to be freed. */
static char *path_of(const char *prefix, const char *id, const char *suffix)
{
    struct buf path;

    buf_init(&path, BODY_BYTES_MAX);
    buf_text(&path, prefix);
    client_encode(&path, id);
    buf_text(&path, suffix);
    return need_detach(&path);
}

/* body_of: who reports, under which claim. */
static json_t *body_of(const struct job *j, int64_t token)
{
    json_t *body = need_json(json_object());

    need_text(body, "sessionId", j->runner->session);
    if (token > 0)
        need_int(body, "token", token);
    return body;
}

static struct step *add_step(struct job *j, char *path, json_t *body)
{
    struct step *grown = mem_grow(j->steps, (j->step_count + 1) * sizeof *grown);

    if (grown == NULL)
        need_json(NULL);
    j->steps = grown;
    grown[j->step_count] = (struct step){.method = "POST", .path = path, .body = body};
    return &grown[j->step_count++];
}

/* ---- the outcome ----------------------------------------------------------------------------- */

enum ending { ENDED_WELL, GIVEN_BACK, FAILED };

/* signal_name: "SIGSEGV"; in a buffer of the caller's. */
static const char *signal_name(int number, char out[24])
{
    const char *word = sigabbrev_np(number);

    if (word != NULL)
        snprintf(out, 24, "SIG%s", word);
    else
        snprintf(out, 24, "signal %d", number);
    return out;
}

/* explain: j->reason: how the command ended, and its last words. */
static void explain(struct job *j)
{
    char last[512] = "", name[24] = "", how[256] = "";

    if (j->reason[0] != '\0')
        return;
    capture_last_error(&j->capture, last, sizeof last);
    if (j->stop == STOP_TIME)
        snprintf(how, sizeof how, "%s", j->stop_reason);
    else if (j->stop != STOP_NONE)
        snprintf(how, sizeof how, "stopped: %s", j->stop_reason);
    else if (WIFSIGNALED(j->wait_status))
        snprintf(how, sizeof how, "killed by signal %s",
                 signal_name(WTERMSIG(j->wait_status), name));
    else
        snprintf(how, sizeof how, "exit code %d", WEXITSTATUS(j->wait_status));
    snprintf(j->reason, sizeof j->reason, "%s%s%s", how, last[0] != '\0' ? ": " : "", last);
}

static enum ending ending_of(const struct job *j)
{
    bool exited = WIFEXITED(j->wait_status);
    int code = exited ? WEXITSTATUS(j->wait_status) : -1;

    if (j->stop == STOP_TIME || j->stop == STOP_LOST)
        return FAILED;
    if (code == 0)
        return ENDED_WELL;
    return code == RUNNER_GIVE_BACK || j->stop == STOP_LEAVING ? GIVEN_BACK : FAILED;
}

static json_t *result_of(struct job *j)
{
    char name[24] = "";

    if (WIFSIGNALED(j->wait_status))
        return capture_result(&j->capture, 0, signal_name(WTERMSIG(j->wait_status), name));
    return capture_result(&j->capture, WEXITSTATUS(j->wait_status), NULL);
}

static void plan_task(struct job *j, enum ending how)
{
    json_t *body = body_of(j, j->token);
    const char *verb = how == ENDED_WELL ? "/complete" : how == FAILED ? "/fail" : "/release";

    if (how != GIVEN_BACK)
        need_set(body, "result", result_of(j));
    if (how == FAILED)
        need_text(body, "error", j->reason);
    if (how == GIVEN_BACK)
        need_text(body, "reason", j->stop == STOP_LEAVING ? "runner_stopped" : "given_back");
    add_step(j, path_of("/api/tasks/", j->task_id, verb), body);
}

static void plan_offer(struct job *j, enum ending how)
{
    json_t *body = NULL;

    if (how == GIVEN_BACK) {
        plan_task(j, how);
        return;
    }
    body = need_json(json_object());
    need_text(body, "agentId", j->runner->agent_id);
    if (how == FAILED)
        need_text(body, "reason", j->reason);
    add_step(j, path_of("/api/tasks/", j->task_id, how == ENDED_WELL ? "/accept" : "/reject"),
             body);
}

static void plan_inbox(struct job *j, enum ending how)
{
    const json_t *messages = json_object_get(j->json, "messages"), *m = NULL;

    for (size_t i = 0; i < json_array_size(messages); i++) {
        m = json_array_get(messages, i);
        /* one that the command has answered itself is refused, which is as it should be */
        add_step(
            j, path_of("/api/inbox/", json_text(m, "id"), how == ENDED_WELL ? "/read" : "/release"),
            body_of(j, json_int(json_object_get(m, "claim"), "token")))
            ->optional = true;
    }
}

static void plan_mentions(struct job *j, enum ending how)
{
    json_t *body = body_of(j, 0);
    json_t *channels = json_object_get(j->json, "claimedChannels");

    need_text(body, "agentId", j->runner->agent_id);
    if (json_array_size(channels) > 0)
        need_set(body, "channelIds", json_incref(channels));
    need_set(body, "read", json_boolean(how == ENDED_WELL));
    add_step(j, need_copy("/api/mentions/release"), body)->optional = true;
}

static void plan_finished(struct job *j, enum ending how)
{
    const json_t *tasks = json_object_get(j->json, "tasks");
    json_t *body = body_of(j, 0), *ids = need_json(json_array());

    for (size_t i = 0; i < json_array_size(tasks); i++)
        need_push(ids, json_incref(json_object_get(json_array_get(tasks, i), "id")));
    need_set(body, "taskIds", ids);
    add_step(j, need_copy(how == ENDED_WELL ? "/api/notices/ack" : "/api/notices/release"), body)
        ->optional = true;
}

static void plan(struct job *j, enum ending how)
{
    static void (*const plans[])(struct job * j, enum ending how) = {
        [KIND_TASK] = plan_task,         [KIND_OFFER] = plan_offer,       [KIND_INBOX] = plan_inbox,
        [KIND_MENTIONS] = plan_mentions, [KIND_FINISHED] = plan_finished,
    };
    static const char *const words[][3] = {
        [KIND_TASK] = {"completed", "released", "failed"},
        [KIND_OFFER] = {"accepted", "released", "rejected"},
        [KIND_INBOX] = {"read", "released", "failed"},
        [KIND_MENTIONS] = {"read", "released", "failed"},
        [KIND_FINISHED] = {"acknowledged", "released", "failed"},
    };

    j->outcome = words[j->kind][how];
    plans[j->kind](j, how);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* drop: nobody is going to hear of it. */
static void drop(struct job *j, const char *why)
{
    j->step_at = j->step_count;
    if (j->stray)
        return;
    runner_news(j->runner, "dropped", j, NULL, true, "%s: its outcome (%s) was not reported: %s",
                job_name(j), j->outcome, why);
    j->runner->failures++;
}

static bool is_hopeless(const struct job *j)
{
    int64_t at = now_ms();

    if (j->runner->leaving && at >= j->runner->leave_at_ms)
        return true;
    if (!job_lease_over(j, at))
        return false;
    return j->runner->draining || at - j->renewed_ms > j->ttl_ms + LATE_MS;
}

/* is_loss: the answer says that the claim is not ours any more. */
static bool is_loss(dibs_status status)
{
    return status == DIBS_NOT_CLAIM_OWNER || status == DIBS_STALE_TOKEN ||
           status == DIBS_CLAIM_EXPIRED || status == DIBS_TASK_NOT_CLAIMED ||
           status == DIBS_ALREADY_FINISHED || status == DIBS_ILLEGAL_TRANSITION ||
           status == DIBS_TASK_NOT_FOUND || status == DIBS_SESSION_NOT_FOUND;
}

static void tell_refused(struct job *j, dibs_status status)
{
    json_t *more = need_json(json_object());

    need_text(more, "error", dibs_status_name(status));
    runner_news(j->runner, "refused", j, more, true, "%s: the report (%s) was refused: %s",
                job_name(j), j->outcome, j->refusal);
}

/* change: makes another report of one that was refused; false when there is nothing to change. */
static bool change(struct job *j, struct step *step)
{
    bool smaller = json_object_del(step->body, "result") == 0 ||
                   json_object_del(step->body, "checkpoint") == 0;

    if (!smaller) {
        if (j->kind != KIND_TASK || step->optional || str_eq(j->outcome, "released") ||
            j->step_failed)
            return false;
        j->step_failed = true;
        j->outcome = "failed";
        j->runner->failures++;
        mem_free(step->path);
        step->path = path_of("/api/tasks/", j->task_id, "/fail");
        json_decref(step->body);
        step->body = body_of(j, j->token);
        need_text(step->body, "error", j->refusal);
    }
    step->changes++;
    return true;
}

/* on_history: the claim is over: by a report of the command itself, or was nothing recorded? */
static void on_history(struct runner *r, struct call *c)
{
    struct job *j = c->job;
    const json_t *claim = claim_in(json_object_get(c->answer.json, "attempts"), j->token);
    const char *how = json_text(claim, "endReason");

    j->calls--;
    runner_heard(r, c);
    if (!str_eq(how, "completed") && !str_eq(how, "failed")) {
        tell_refused(j, j->refused);
        r->failures++;
    }
    j->step_at++;
    report_next(j);
}

static void ask_history(struct job *j)
{
    struct call *c =
        call_new("GET", path_of("/api/tasks/", j->task_id, "/history"), NULL, on_history);

    c->job = j;
    j->calls++;
    runner_tell(j->runner, c);
}

/* refused: the answer was no. True when the step is not over yet. */
static bool refused(struct job *j, const struct call *c)
{
    struct step *step = &j->steps[j->step_at];
    bool loss = is_loss(c->answer.status) || j->stop == STOP_LOST;

    j->refused = c->answer.status;
    snprintf(j->refusal, sizeof j->refusal, "%s", call_message(c));
    if (!loss && !step->optional && !j->stray)
        tell_refused(j, j->refused);
    if (!loss && change(j, step)) {
        report_next(j);
        return true;
    }
    if (step->optional || j->settled || j->stray)
        return false;
    if (loss && j->kind == KIND_TASK && j->stop != STOP_LOST) {
        ask_history(j);
        return true;
    }
    if (loss)
        tell_refused(j, j->refused);
    else
        j->runner->failures++;
    return false;
}

static void on_step(struct runner *r, struct call *c)
{
    struct job *j = c->job;

    j->calls--;
    j->step_sent = false;
    runner_heard(r, c);
    if (call_failed(c) && !is_hopeless(j)) {
        j->pause_ms = j->pause_ms == 0 ? PAUSE_FIRST_MS : j->pause_ms * 2;
        j->pause_ms = j->pause_ms < PAUSE_LAST_MS ? j->pause_ms : PAUSE_LAST_MS;
        j->retry_at_ms = now_ms() + j->pause_ms;
        return;
    }
    j->pause_ms = 0;
    if (call_failed(c)) {
        drop(j, call_message(c));
    } else {
        if (c->answer.status != DIBS_OK && refused(j, c))
            return;
        j->step_at++;
    }
    report_next(j);
}

void report_next(struct job *j)
{
    const struct step *step = NULL;
    struct call *c = NULL;
    struct buf key;

    if (j->step_at >= j->step_count) {
        j->state = JOB_OVER;
        return;
    }
    step = &j->steps[j->step_at];
    c = call_new(step->method, need_copy(step->path), json_incref(step->body), on_step);
    buf_init(&key, KEY_BYTES_MAX);
    buf_printf(&key, "%s-%" PRId64 "-%" PRId64 "-%zu.%d", j->runner->session, j->token, j->number,
               j->step_at, step->changes);
    c->key = need_detach(&key);
    c->job = j;
    j->calls++;
    j->step_sent = true;
    runner_tell(j->runner, c);
}

/* tell_ended: how it went, in a line. */
static void tell_ended(struct job *j, enum ending how)
{
    json_t *more = need_json(json_object());
    char span[32] = "";
    int64_t took_ms = j->started_ms > 0 ? j->ended_ms - j->started_ms : 0;

    if (took_ms < 10000)
        snprintf(span, sizeof span, "%.1fs", (double)took_ms / 1000);
    else
        str_rough_duration_ms(took_ms, span);
    need_text(more, "outcome", j->outcome);
    if (WIFSIGNALED(j->wait_status))
        need_int(more, "signal", WTERMSIG(j->wait_status));
    else
        need_int(more, "exitCode", WEXITSTATUS(j->wait_status));
    need_int(more, "durationMs", took_ms);
    if (how == FAILED)
        need_text(more, "error", j->reason);
    if (j->capture.log_broken)
        runner_news(j->runner, "log", j, NULL, true, "%s: its log could not be written to the end",
                    job_name(j));
    runner_news(j->runner, "ended", j, more, how == FAILED, "%s: %s after %s%s%s", job_name(j),
                j->outcome, span, how == FAILED ? ": " : "", how == FAILED ? j->reason : "");
}

/* pace: what is given back at once would otherwise be taken again at once. Tasks and offers that
 * fail are not: their attempts are counted, or they are rejected. */
static void pace(struct runner *r, enum job_kind kind, enum ending how)
{
    bool settled = how == ENDED_WELL || (how == FAILED && kind <= KIND_OFFER);

    if (settled) {
        r->idle_ms = 0;
        return;
    }
    r->idle_ms = r->idle_ms == 0 ? IDLE_FIRST_MS : r->idle_ms * 2;
    r->idle_ms = r->idle_ms < IDLE_LAST_MS ? r->idle_ms : IDLE_LAST_MS;
    r->ask_at_ms = now_ms() + r->idle_ms;
}

void report_begin(struct job *j)
{
    enum ending how = ending_of(j);

    capture_end(&j->capture);
    progress_end(&j->progress);
    explain(j);
    if (how == FAILED)
        j->runner->failures++;
    pace(j->runner, j->kind, how);
    if (j->kind == KIND_TASK && j->progress.fresh) {
        json_t *body = body_of(j, j->token);
        progress_body(&j->progress, body);
        add_step(j, path_of("/api/tasks/", j->task_id, "/progress"), body)->optional = true;
    }
    plan(j, how);
    tell_ended(j, how);
    j->state = JOB_REPORTING;
    report_next(j);
}

void report_give_back(struct job *j, const char *reason)
{
    plan(j, GIVEN_BACK);
    if (j->kind == KIND_TASK || j->kind == KIND_OFFER)
        need_text(j->steps[0].body, "reason", reason);
    j->state = JOB_REPORTING;
    report_next(j);
}

void report_let_go(struct job *j, const char *reason)
{
    j->stray = true;
    report_give_back(j, reason);
}

void report_unlock(struct job *j, const char *resource)
{
    json_t *body = body_of(j, j->token);

    need_text(body, "resource", resource);
    add_step(j, need_copy("/api/locks"), body)->method = "DELETE";
    j->stray = true;
    j->outcome = "released";
    j->state = JOB_REPORTING;
    report_next(j);
}

/* ---- progress -------------------------------------------------------------------------------- */

static void on_progress(struct runner *r, struct call *c)
{
    struct job *j = c->job;

    j->calls--;
    j->progress_sent = false;
    runner_heard(r, c);
    if (call_failed(c))
        j->progress.fresh = true;
    else if (c->answer.status == DIBS_OK)
        j->renewed_ms = c->sent_ms > j->renewed_ms ? c->sent_ms : j->renewed_ms;
    else if (is_loss(c->answer.status))
        r->beat_at_ms = now_ms(); /* the answer to that says how it was lost */
    else {
        runner_news(r, "progress", j, NULL, true, "%s: its progress was refused: %s", job_name(j),
                    call_message(c));
        /* the rest of it, and what comes later, shall not suffer for a checkpoint */
        if (progress_drop_checkpoint(&j->progress))
            j->progress.fresh = true;
    }
    if (j->progress.fresh && j->progress_at_ms == 0 && j->state == JOB_RUNNING)
        j->progress_at_ms = now_ms() + PAUSE_FIRST_MS;
}

void report_progress(struct job *j)
{
    json_t *body = NULL;
    struct call *c = NULL;

    j->progress.fresh = false;
    if (j->kind != KIND_TASK)
        return;
    body = body_of(j, j->token);
    progress_body(&j->progress, body);
    c = call_new("POST", path_of("/api/tasks/", j->task_id, "/progress"), body, on_progress);
    c->job = j;
    j->calls++;
    j->progress_sent = true;
    runner_tell(j->runner, c);
}
