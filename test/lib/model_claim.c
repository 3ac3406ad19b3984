/* SPDX-License-Identifier: MIT */
/*
 * model_claim.c: the model of claiming and of what a holder reports. See model.h.
 *
 * The order in which reasons for a refusal are looked at is part of the rules: first what is wrong
 * with the request itself, then whether the task and the session are there, then who holds it.
 */
#include "model.h"

#include <string.h>

#define DEFAULT_TTL_MS MINUTES(30)

static bool bad_ttl(int64_t ttl)
{
    return ttl != 0 && (ttl < MINUTES(1) || ttl > MINUTES(120));
}

/* ---- granting -------------------------------------------------------------------------------- */

void m_grant(struct model *m, int task, int session, enum m_kind kind, int64_t ttl)
{
    struct m_task *t = &m->tasks[task];
    const struct m_claim *before = m_claim_of(m, t);
    bool same_generation = before && before->generation == t->generation;
    struct m_claim c = {.kind = kind,
                        .task = task,
                        .resource = NOBODY,
                        .session = session,
                        .incarnation = m->sessions[session].incarnation,
                        .generation = t->generation,
                        .expires = m->now + ttl,
                        .heartbeat = m->now,
                        .ttl = ttl,
                        .checkpoint = same_generation ? before->checkpoint : NULL};
    if (kind == M_TASK) {
        c.attempt = ++t->attempts;
        m->sessions[session].total++;
    }
    t->status = kind == M_TASK ? DIBS_TASK_IN_PROGRESS : DIBS_TASK_REVIEWING;
    t->due = 0;
    m_add(m, c);
    m_heard(m, session);
}

void m_renew(struct model *m, struct m_claim *c, int64_t by)
{
    c->expires = c->expires > m->now + by ? c->expires : m->now + by;
    c->heartbeat = m->now;
    m_heard(m, c->session);
}

static bool claimable(const struct model *m, const struct m_task *t, int session)
{
    if (t->status == DIBS_TASK_OPEN)
        return m_is_due(m, t);
    return t->status == DIBS_TASK_ASSIGNED && m_same(t->assignee, m->sessions[session].agent) &&
           t->run_after <= model_store_time(m);
}

static int64_t ttl_of(const struct m_task *t, int64_t asked)
{
    if (asked)
        return asked;
    return t->claim_timeout ? t->claim_timeout : DEFAULT_TTL_MS;
}

dibs_status model_take(struct model *m, int task, int session, int64_t ttl)
{
    if (bad_ttl(ttl))
        return DIBS_INVALID_REQUEST;
    if (task == NOBODY)
        return DIBS_TASK_NOT_FOUND;
    if (!m_is_there(m, session))
        return DIBS_SESSION_NOT_FOUND;
    struct m_task *t = &m->tasks[task];
    struct m_claim *c = m_live(m, t);
    if (c && c->kind == M_TASK && c->session == session) {
        m_renew(m, c, ttl ? ttl : c->ttl);
        return DIBS_OK;
    }
    if (c && c->kind == M_TASK) {
        m_heard(m, session);
        return DIBS_TASK_ALREADY_CLAIMED;
    }
    if (!claimable(m, t, session))
        return DIBS_TASK_NOT_CLAIMABLE;
    m_grant(m, task, session, M_TASK, ttl_of(t, ttl));
    return DIBS_OK;
}

/* ---- claim-next ------------------------------------------------------------------------------ */

dibs_status model_next_check(const struct model *m, const struct m_next *in)
{
    if (bad_ttl(in->ttl))
        return DIBS_INVALID_REQUEST;
    return m_is_there(m, in->session) ? DIBS_OK : DIBS_SESSION_NOT_FOUND;
}

static bool has_type(const struct m_next *in, const char *type)
{
    for (size_t i = 0; i < in->type_count; i++)
        if (type && m_same(in->types[i], type))
            return true;
    return in->type_count == 0;
}

bool model_next_fits(const struct model *m, const struct m_next *in, const struct m_task *t)
{
    const char *project = in->project ? in->project : m->sessions[in->session].project;
    bool spare =
        !in->spare.given || t->max_attempts == 0 || t->attempts < t->max_attempts - in->spare.value;
    return m_same(t->project, project) && claimable(m, t, in->session) && has_type(in, t->type) &&
           (t->tags & in->tags) == in->tags && spare;
}

/* Whether a goes before b; tasks are numbered in the order of their creation. */
static bool goes_first(const struct model *m, const struct m_next *in, int a, int b)
{
    int64_t pa = m->tasks[a].priority, pb = m->tasks[b].priority;
    if (in->sort == DIBS_SORT_CREATED_AT)
        return in->order == DIBS_ORDER_DESC ? a > b : a < b;
    if (pa != pb)
        return in->order == DIBS_ORDER_ASC ? pa < pb : pa > pb;
    return a < b;
}

int model_next_best(const struct model *m, const struct m_next *in)
{
    int best = NOBODY;
    for (int i = 0; i < m->task_count; i++)
        if (model_next_fits(m, in, &m->tasks[i]) && (best == NOBODY || goes_first(m, in, i, best)))
            best = i;
    return best;
}

void model_next_grant(struct model *m, const struct m_next *in, int task)
{
    m_grant(m, task, in->session, M_TASK, ttl_of(&m->tasks[task], in->ttl));
}

dibs_status model_review(struct model *m, int task, int session, int64_t ttl)
{
    if (bad_ttl(ttl))
        return DIBS_INVALID_REQUEST;
    if (task == NOBODY)
        return DIBS_TASK_NOT_FOUND;
    struct m_task *t = &m->tasks[task];
    if (m_is_final(t->status))
        return DIBS_ALREADY_FINISHED;
    if (t->status != DIBS_TASK_OFFERED)
        return DIBS_ILLEGAL_TRANSITION;
    if (!m_is_there(m, session))
        return DIBS_SESSION_NOT_FOUND;
    if (!m_same(t->offered_to, m->sessions[session].agent))
        return DIBS_ILLEGAL_TRANSITION;
    m_grant(m, task, session, M_REVIEW, ttl ? ttl : DEFAULT_TTL_MS);
    return DIBS_OK;
}

/* ---- the holder ------------------------------------------------------------------------------ */

/* DIBS_OK when the session holds the task, or its review, under this token (0: any), else why
 * not. */
static dibs_status check_lease(struct model *m, const struct m_task *t, int session, int64_t token)
{
    struct m_claim *c = m_claim_of(m, t);
    if (!c || c->ended) {
        bool expired = c && c->session == session && c->ended && m_same(c->reason, "expired");
        return expired ? DIBS_CLAIM_EXPIRED : DIBS_TASK_NOT_CLAIMED;
    }
    if (c->session != session)
        return DIBS_NOT_CLAIM_OWNER;
    return token && token != c->token ? DIBS_STALE_TOKEN : DIBS_OK;
}

/* The same, and a review does not count. */
static dibs_status check_holder(struct model *m, const struct m_task *t, int session, int64_t token)
{
    struct m_claim *c = m_claim_of(m, t);
    if (c && !c->ended && c->kind == M_REVIEW)
        return DIBS_TASK_NOT_CLAIMED;
    return check_lease(m, t, session, token);
}

dibs_status model_heartbeat(struct model *m, int task, int session, int64_t token, int64_t extend)
{
    if (bad_ttl(extend))
        return DIBS_INVALID_REQUEST;
    if (task == NOBODY)
        return DIBS_TASK_NOT_FOUND;
    struct m_task *t = &m->tasks[task];
    dibs_status status = check_holder(m, t, session, token);
    struct m_claim *c = m_claim_of(m, t);
    if (status == DIBS_OK)
        m_renew(m, c, extend ? extend : c->ttl);
    return status;
}

dibs_status model_progress(struct model *m, int task, int session, int64_t token,
                           const char *checkpoint)
{
    dibs_status status = model_heartbeat(m, task, session, token, 0);
    if (status == DIBS_OK && checkpoint)
        m_claim_of(m, &m->tasks[task])->checkpoint = checkpoint;
    return status;
}

/* The refusal of a report: a task that is over says so, except to the holder of a cancelled one. */
static dibs_status refuse_report(struct model *m, const struct m_task *t, int session,
                                 dibs_status status)
{
    const struct m_claim *c = m_claim_of(m, t);
    bool told_to_stop = t->status == DIBS_TASK_CANCELLED && c && c->session == session;
    return m_is_final(t->status) && !told_to_stop ? DIBS_ALREADY_FINISHED : status;
}

dibs_status model_complete(struct model *m, int task, int session, int64_t token,
                           const char *result)
{
    if (task == NOBODY)
        return DIBS_TASK_NOT_FOUND;
    struct m_task *t = &m->tasks[task];
    struct m_claim *c = m_claim_of(m, t);
    bool mine = c && c->session == session && (!token || token == c->token);
    if (t->status == DIBS_TASK_COMPLETED && mine && m_same(t->result, result))
        return DIBS_OK; /* the same report once more */
    dibs_status status = check_holder(m, t, session, token);
    bool late = t->status == DIBS_TASK_OPEN && mine && c->ended && c->kind == M_TASK &&
                c->generation == t->generation;
    if (status != DIBS_OK && !late)
        return refuse_report(m, t, session, status);
    m_complete(m, t, result);
    return DIBS_OK;
}

dibs_status model_fail(struct model *m, int task, int session, const struct m_failure *in)
{
    if (task == NOBODY)
        return DIBS_TASK_NOT_FOUND;
    struct m_task *t = &m->tasks[task];
    struct m_claim *c = m_claim_of(m, t);
    bool mine = c && c->session == session && (!in->token || in->token == c->token);
    bool queued = t->status == DIBS_TASK_OPEN || t->status == DIBS_TASK_BLOCKED;
    bool stands = t->status == DIBS_TASK_FAILED || (queued && !in->permanent);
    const char *error = in->error ? in->error : "failed";
    if (stands && mine && m_same(c->reason, "failed") && m_same(t->error, error) &&
        m_same(t->result, in->result))
        return DIBS_OK;
    dibs_status status = check_holder(m, t, session, in->token);
    if (status != DIBS_OK)
        return refuse_report(m, t, session, status);
    m_end(c, "failed", true);
    m_heard(m, session);
    m_retry(m, t, true, in->permanent);
    t->error = error;
    t->result = in->result;
    return DIBS_OK;
}

dibs_status model_release_claim(struct model *m, int task, int session, int64_t token,
                                const char *reason)
{
    if (task == NOBODY)
        return DIBS_TASK_NOT_FOUND;
    struct m_task *t = &m->tasks[task];
    bool reports = m_same(reason, "completed") || m_same(reason, "failed");
    dibs_status status =
        reports ? check_holder(m, t, session, token) : check_lease(m, t, session, token);
    if (status != DIBS_OK)
        return status;
    if (m_same(reason, "completed"))
        return model_complete(m, task, session, token, NULL);
    if (m_same(reason, "failed"))
        return model_fail(m, task, session, &(struct m_failure){.token = token});
    m_give_back(m, m_claim_of(m, t), reason ? reason : "manual", true);
    m_heard(m, session);
    return DIBS_OK;
}
