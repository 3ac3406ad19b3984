/* SPDX-License-Identifier: MIT */
/* acts.c: see acts.h. */
#include "acts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
    [ACT_OPEN] = "open",         [ACT_REGISTER] = "register",
    [ACT_CREATE] = "create",     [ACT_BATCH] = "batch",
    [ACT_ONCE] = "once",         [ACT_CLAIM] = "claim",
    [ACT_NEXT] = "next",         [ACT_BEAT] = "beat",
    [ACT_PROGRESS] = "progress", [ACT_COMPLETE] = "complete",
    [ACT_FAIL] = "fail",         [ACT_RELEASE] = "release",
    [ACT_LOCK] = "lock",         [ACT_UNLOCK] = "unlock",
    [ACT_PRUNE] = "prune",       [ACT_SESSION_BEAT] = "session beat",
    [ACT_CLEANUP] = "cleanup",   [ACT_READ] = "read",
};

const char *act_name(enum act act)
{
    return names[act];
}

void result_of(int64_t token, char out[48])
{
    snprintf(out, 48, "{\"token\":%" PRId64 "}", token);
}

static struct note ask(struct worker *w, enum act act, const char *subject, int64_t token,
                       int64_t number)
{
    struct note n = {.act = (int32_t)act, .status = ASKED, .token = token, .number = number};
    snprintf(n.subject, sizeof n.subject, "%s", subject);
    dibs_arena_reset(w->a);
    worker_note(w, n);
    return n;
}

static dibs_status answer(struct worker *w, struct note n, dibs_status status)
{
    n.status = (int32_t)status;
    worker_note(w, n);
    return status;
}

dibs_status act_open(struct worker *w)
{
    struct note n = ask(w, ACT_OPEN, "", 0, 0);
    struct dibs_options in = {
        .data_dir = w->place->data_dir, .create = true, .settings = w->place->settings};
    return answer(w, n, dibs_open(&in, &w->d, &w->err));
}

dibs_status act_register(struct worker *w)
{
    struct dibs_session out = {0};
    struct dibs_session_new in = {.id = w->id, .agent_type = "worker", .pid = getpid()};
    struct note n = ask(w, ACT_REGISTER, w->id, 0, 0);
    return answer(w, n, dibs_session_register(w->d, w->a, &in, &out, &w->err));
}

/* ---- making tasks ---------------------------------------------------------------------------- */

#define TOGETHER_MAX 8

static void fill_new(const char *subject, int count, char ids[][80], struct dibs_task_new *in)
{
    for (int i = 0; i < count; i++) {
        snprintf(ids[i], 80, "%s.%d", subject, i);
        in[i] = (struct dibs_task_new){
            .id = ids[i], .title = subject, .type = "work", .max_attempts = DIBS_VALUE(0)};
    }
}

dibs_status act_create(struct worker *w, const char *subject, int count)
{
    char ids[TOGETHER_MAX][80];
    struct dibs_task_new in[TOGETHER_MAX];
    struct dibs_task_list out = {0};
    fill_new(subject, count, ids, in);
    struct note n = ask(w, ACT_CREATE, subject, 0, count);
    return answer(w, n, dibs_task_create(w->d, w->a, in, (size_t)count, &out, &w->err));
}

static dibs_status create_in_batch(struct worker *w, const struct dibs_task_new *in, int count)
{
    dibs_status status = dibs_batch_begin(w->d, &w->err);
    if (status != DIBS_OK)
        return status;
    for (int i = 0; i < count && status == DIBS_OK; i++) {
        struct dibs_task_list out = {0};
        status = dibs_task_create(w->d, w->a, &in[i], 1, &out, &w->err);
    }
    if (status == DIBS_OK)
        return dibs_batch_commit(w->d, &w->err);
    dibs_batch_cancel(w->d);
    return status;
}

dibs_status act_batch(struct worker *w, const char *subject, int count)
{
    char ids[TOGETHER_MAX][80];
    struct dibs_task_new in[TOGETHER_MAX];
    fill_new(subject, count, ids, in);
    struct note n = ask(w, ACT_BATCH, subject, 0, count);
    return answer(w, n, create_in_batch(w, in, count));
}

static dibs_status create_one(dibs *d, dibs_arena *a, void *context, const char **out,
                              struct dibs_error *err)
{
    struct dibs_task_list made = {0};
    struct dibs_task_new in = {.title = "once", .type = context};
    dibs_status status = dibs_task_create(d, a, &in, 1, &made, err);
    if (status == DIBS_OK)
        *out = made.items[0].id;
    return status;
}

dibs_status act_once(struct worker *w, const char *key)
{
    char type[64];
    const char *text = NULL;
    bool repeated = false;
    snprintf(type, sizeof type, "%s", key);
    struct dibs_once in = {.key = key, .request = key, .work = create_one, .context = type};
    struct note n = ask(w, ACT_ONCE, key, 0, 0);
    dibs_status status = dibs_once(w->d, w->a, &in, &text, &repeated, &w->err);
    if (status == DIBS_OK)
        snprintf(n.holder, sizeof n.holder, "%s", text);
    return answer(w, n, status);
}

/* ---- claiming and reporting ------------------------------------------------------------------ */

static void hold(struct note *n, const char *subject, const struct dibs_claim *claim,
                 struct held *out)
{
    n->token = claim->token;
    snprintf(n->subject, sizeof n->subject, "%s", subject);
    *out = (struct held){.token = claim->token, .is_lock = claim->resource != NULL};
    snprintf(out->subject, sizeof out->subject, "%s", subject);
}

dibs_status act_claim(struct worker *w, const char *task, struct held *out)
{
    struct dibs_claim claim = {0};
    struct dibs_claim_take in = {.task_id = task, .session_id = w->id};
    struct note n = ask(w, ACT_CLAIM, task, 0, 0);
    dibs_status status = dibs_claim_take(w->d, w->a, &in, &claim, &w->err);
    if (status == DIBS_OK)
        hold(&n, task, &claim, out);
    return answer(w, n, status);
}

dibs_status act_next(struct worker *w, struct held *out)
{
    struct dibs_grant g = {0};
    struct dibs_claim_next in = {.session_id = w->id};
    struct note n = ask(w, ACT_NEXT, "", 0, 0);
    dibs_status status = dibs_claim_next(w->d, w->a, &in, &g, &w->err);
    if (status == DIBS_OK)
        hold(&n, g.items[0].task.id, &g.items[0].claim, out);
    return answer(w, n, status);
}

dibs_status act_beat(struct worker *w, const struct held *h)
{
    struct dibs_claim claim = {0};
    struct dibs_heartbeat in = {.task_id = h->subject, .session_id = w->id, .token = h->token};
    struct note n = ask(w, ACT_BEAT, h->subject, h->token, 0);
    return answer(w, n, dibs_claim_heartbeat(w->d, w->a, &in, &claim, &w->err));
}

dibs_status act_progress(struct worker *w, const struct held *h, int percent)
{
    struct dibs_claim claim = {0};
    struct dibs_progress in = {.task_id = h->subject,
                               .session_id = w->id,
                               .token = h->token,
                               .percent = DIBS_VALUE(percent),
                               .checkpoint = "{\"at\":1}"};
    struct note n = ask(w, ACT_PROGRESS, h->subject, h->token, percent);
    return answer(w, n, dibs_claim_progress(w->d, w->a, &in, &claim, &w->err));
}

dibs_status act_complete(struct worker *w, const struct held *h)
{
    struct dibs_task task = {0};
    char result[48];
    result_of(h->token, result);
    struct dibs_report in = {
        .task_id = h->subject, .session_id = w->id, .token = h->token, .result = result};
    struct note n = ask(w, ACT_COMPLETE, h->subject, h->token, 0);
    return answer(w, n, dibs_complete(w->d, w->a, &in, &task, &w->err));
}

dibs_status act_fail(struct worker *w, const struct held *h)
{
    struct dibs_task task = {0};
    struct dibs_report in = {
        .task_id = h->subject, .session_id = w->id, .token = h->token, .error = "on purpose"};
    struct note n = ask(w, ACT_FAIL, h->subject, h->token, 0);
    return answer(w, n, dibs_fail(w->d, w->a, &in, &task, &w->err));
}

dibs_status act_release(struct worker *w, const struct held *h)
{
    struct dibs_released out = {0};
    struct dibs_release in = {.task_id = h->subject, .session_id = w->id, .token = h->token};
    struct note n = ask(w, ACT_RELEASE, h->subject, h->token, 0);
    return answer(w, n, dibs_claim_release(w->d, w->a, &in, &out, &w->err));
}

/* ---- locks, and the rest --------------------------------------------------------------------- */

dibs_status act_lock(struct worker *w, const char *resource, bool shared, int64_t wait_ms,
                     struct held *out)
{
    struct dibs_claim claim = {0};
    struct dibs_lock_take in = {.resource = resource,
                                .session_id = w->id,
                                .shared = shared,
                                .ttl_ms = 30 * 60 * 1000,
                                .wait_ms = wait_ms};
    struct note n = ask(w, ACT_LOCK, resource, 0, shared);
    dibs_status status = dibs_lock_take(w->d, w->a, &in, &claim, &w->err);
    if (status == DIBS_OK)
        hold(&n, resource, &claim, out);
    return answer(w, n, status);
}

dibs_status act_unlock(struct worker *w, const struct held *h)
{
    struct dibs_claim claim = {0};
    struct dibs_lock_ref in = {.resource = h->subject, .session_id = w->id, .token = h->token};
    struct note n = ask(w, ACT_UNLOCK, h->subject, h->token, 0);
    return answer(w, n, dibs_lock_release(w->d, w->a, &in, &claim, &w->err));
}

dibs_status act_session_beat(struct worker *w)
{
    struct dibs_session_news news = {0};
    struct note n = ask(w, ACT_SESSION_BEAT, w->id, 0, 0);
    return answer(w, n, dibs_session_heartbeat(w->d, w->a, w->id, &news, &w->err));
}

dibs_status act_prune(struct worker *w)
{
    int64_t events = 0;
    struct note n = ask(w, ACT_PRUNE, "", 0, 0);
    return answer(w, n, dibs_prune(w->d, w->a, &events, &w->err));
}

dibs_status act_cleanup(struct worker *w)
{
    struct dibs_sweep sweep = {0};
    struct note n = ask(w, ACT_CLEANUP, "", 0, 0);
    return answer(w, n, dibs_cleanup(w->d, w->a, &sweep, &w->err));
}

dibs_status act_read(struct worker *w)
{
    struct dibs_stats stats = {0};
    struct note n = ask(w, ACT_READ, "", 0, 0);
    return answer(w, n, dibs_stats(w->d, w->a, &stats, &w->err));
}
