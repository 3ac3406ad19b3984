/* SPDX-License-Identifier: MIT */
/*
 * model_session.c: the model of sessions, of the sweep and of named locks. See model.h.
 */
#include "model.h"

#include <string.h>

#define STALE_MS MINUTES(5)
#define ORPHAN_MS MINUTES(10)
#define OFFER_TTL_MS MINUTES(60)
#define LOCK_TTL_MS MINUTES(1)
#define LOOK_BACK 200 /* claims of a session that resume looks at */

const char *const model_resources[MODEL_RESOURCES] = {"build/a b", "deploy", "db:migrations"};

/* ---- life of a session ----------------------------------------------------------------------- */

void model_register(struct model *m, int session, const char *project, const char *agent,
                    int64_t pid)
{
    struct m_session *s = &m->sessions[session];
    const char *before = s->exists ? s->project : "default";
    if (m_is_there(m, session))
        m_agent_seen(m, s->agent); /* it may leave it */
    s->project = project ? project : before;
    s->agent = agent ? agent : s->agent;
    s->pid = pid;
    s->process = pid ? m->processes[pid - 100] : 0;
    s->incarnation++;
    s->exists = true;
    s->status = DIBS_SESSION_ACTIVE;
    s->heartbeat = m->now;
    m_agent_seen(m, s->agent);
}

dibs_status model_session_heartbeat(struct model *m, int session)
{
    if (!m_is_there(m, session))
        return DIBS_SESSION_NOT_FOUND;
    m_heard(m, session);
    for (int i = 0; i < m->claim_count; i++) {
        struct m_claim *c = &m->claims[i];
        if (c->session != session)
            continue;
        if (c->ended)
            c->told = true;
        else
            m_renew(m, c, c->ttl);
    }
    return DIBS_OK;
}

static bool counts_as_lost(const struct m_claim *c)
{
    static const char *const reasons[] = {"expired", "session_missing", "session_stale",
                                          "process_dead", "session_ended"};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (c->kind == M_TASK && c->ended && m_same(c->reason, reasons[i]))
            return true;
    return false;
}

struct m_claim *model_lost(struct model *m, int session, int task)
{
    int looked = 0;
    for (int i = m->claim_count - 1; i >= 0 && looked < LOOK_BACK; i--) {
        struct m_claim *c = &m->claims[i];
        if (c->session != session || c->kind == M_LOCK)
            continue;
        looked++;
        if (c->task == task)
            return counts_as_lost(c) ? c : NULL;
    }
    return NULL;
}

bool model_may_resume(struct model *m, int session, int task)
{
    const struct m_task *t = &m->tasks[task];
    const struct m_claim *c = model_lost(m, session, task);
    return c && c == m_claim_of(m, t) && t->status == DIBS_TASK_OPEN &&
           t->generation == c->generation;
}

void model_resume_one(struct model *m, int session, int task)
{
    m_grant(m, task, session, M_TASK, model_lost(m, session, task)->ttl);
}

dibs_status model_resume(struct model *m, int session)
{
    if (!m_is_there(m, session))
        return DIBS_SESSION_NOT_FOUND;
    for (int i = 0; i < m->claim_count; i++) {
        struct m_claim *c = &m->claims[i];
        if (c->session != session || !c->ended || c->told)
            continue;
        /* what it has resumed or sees gone it knows; of the rest nothing was said */
        c->told = counts_as_lost(c);
    }
    m_heard(m, session);
    return DIBS_OK;
}

static void give_all_back(struct model *m, int session, const char *reason, bool told)
{
    for (int i = 0; i < m->claim_count; i++) {
        struct m_claim *c = &m->claims[i];
        if (c->session == session && !c->ended && c->kind != M_LOCK)
            m_give_back(m, c, reason, told);
    }
}

void model_release_session(struct model *m, int session, const char *reason)
{
    give_all_back(m, session, reason, false);
}

dibs_status model_deregister(struct model *m, int session)
{
    if (!m_is_there(m, session))
        return DIBS_SESSION_NOT_FOUND;
    give_all_back(m, session, "session_deregistered", true);
    for (int i = 0; i < m->claim_count; i++) {
        struct m_claim *c = &m->claims[i];
        if (c->session == session && !c->ended)
            m_end(c, "session_deregistered", true);
    }
    m->sessions[session].status = DIBS_SESSION_ENDED;
    m_agent_seen(m, m->sessions[session].agent);
    return DIBS_OK;
}

/* ---- the sweep ------------------------------------------------------------------------------- */

const char *model_orphan_reason(const struct model *m, int session, bool check_process)
{
    if (!m_is_there(m, session))
        return "session_missing";
    enum dibs_process process = check_process ? m_process(m, session) : DIBS_PROCESS_UNKNOWN;
    if (process == DIBS_PROCESS_DEAD)
        return "process_dead";
    bool silent = m->now - m->sessions[session].heartbeat > ORPHAN_MS;
    return silent && process != DIBS_PROCESS_ALIVE ? "session_stale" : NULL;
}

static void orphan(struct model *m, struct m_claim *c, const char *reason)
{
    m_end(c, reason, false);
    if (c->kind == M_LOCK)
        return;
    struct m_task *t = &m->tasks[c->task];
    if (c->kind == M_REVIEW) {
        t->status = DIBS_TASK_OFFERED;
        return;
    }
    m_retry(m, t, false, false);
    if (t->status == DIBS_TASK_FAILED)
        t->error = "attempts_exhausted";
}

void model_cleanup_orphaned(struct model *m, bool check_process)
{
    for (int i = 0; i < m->claim_count; i++) {
        struct m_claim *c = &m->claims[i];
        const char *reason = c->ended ? NULL : model_orphan_reason(m, c->session, check_process);
        if (reason)
            orphan(m, c, reason);
    }
}

static void end_session(struct model *m, int session, const char *reason)
{
    for (int i = 0; i < m->claim_count; i++)
        if (m->claims[i].session == session && !m->claims[i].ended)
            orphan(m, &m->claims[i], reason);
    m->sessions[session].status = DIBS_SESSION_ENDED;
    m_agent_seen(m, m->sessions[session].agent);
}

void model_process_ended(struct model *m, int session)
{
    if (m_is_there(m, session) && m_process(m, session) == DIBS_PROCESS_DEAD)
        end_session(m, session, "process_dead");
}

enum dibs_session_status model_session_status(const struct model *m, int session)
{
    const struct m_session *s = &m->sessions[session];
    bool silent = s->status == DIBS_SESSION_ACTIVE && m->now - s->heartbeat > STALE_MS;
    return silent ? DIBS_SESSION_STALE : s->status;
}

void model_cleanup_sessions(struct model *m, struct dibs_stale_sessions *out)
{
    *out = (struct dibs_stale_sessions){0};
    for (int i = 0; i < MODEL_SESSIONS; i++) {
        struct m_session *s = &m->sessions[i];
        int64_t silent = m->now - s->heartbeat;
        const char *reason = m_is_there(m, i) ? model_orphan_reason(m, i, true) : NULL;
        if (!m_is_there(m, i) || (!reason && silent <= STALE_MS))
            continue;
        if (!reason) {
            out->stale += s->status == DIBS_SESSION_ACTIVE;
            s->status = DIBS_SESSION_STALE;
            continue;
        }
        end_session(m, i, reason);
        out->ended++;
    }
}

/* ---- agents ---------------------------------------------------------------------------------- */

void m_agent_seen(struct model *m, const char *agent)
{
    for (int i = 0; i < 2; i++)
        if (m_same(m->agents[i].id, agent))
            m->agents[i].seen = m->now;
}

static bool has_session(const struct model *m, const char *agent)
{
    for (int i = 0; i < MODEL_SESSIONS; i++)
        if (m_is_there(m, i) && m_same(m->sessions[i].agent, agent))
            return true;
    return false;
}

static bool is_given_up(const struct model *m, const struct m_task *t)
{
    int64_t heard = t->offered_at;
    if (m->now - t->offered_at >= OFFER_TTL_MS)
        return true;
    for (int i = 0; i < 2; i++)
        if (m_same(m->agents[i].id, t->offered_to) && m->agents[i].seen > heard)
            heard = m->agents[i].seen;
    return !has_session(m, t->offered_to) && m->now - heard >= ORPHAN_MS;
}

int64_t model_withdraw(struct model *m)
{
    int64_t count = 0;
    for (int i = 0; i < m->task_count; i++) {
        struct m_task *t = &m->tasks[i];
        if (t->status != DIBS_TASK_OFFERED || !is_given_up(m, t))
            continue;
        t->offered_to = NULL;
        m_queue(m, t, DIBS_TASK_OPEN);
        count++;
    }
    return count;
}

/* ---- locks ----------------------------------------------------------------------------------- */

struct m_claim *model_lock_of(struct model *m, int resource, int session)
{
    for (int i = 0; i < m->claim_count; i++) {
        struct m_claim *c = &m->claims[i];
        if (c->kind == M_LOCK && !c->ended && c->resource == resource && c->session == session)
            return c;
    }
    return NULL;
}

static bool fits(const struct model *m, int resource, bool shared)
{
    for (int i = 0; i < m->claim_count; i++) {
        const struct m_claim *c = &m->claims[i];
        if (c->kind == M_LOCK && !c->ended && c->resource == resource && !(shared && c->shared))
            return false;
    }
    return true;
}

/* Whoever asks for a lock finds those whose holders' processes are dead, except its own. */
static void free_dead(struct model *m, int resource, int asker)
{
    for (int i = 0; i < m->claim_count; i++) {
        struct m_claim *c = &m->claims[i];
        if (c->kind == M_LOCK && !c->ended && c->resource == resource && c->session != asker &&
            m_process(m, c->session) == DIBS_PROCESS_DEAD)
            m_end(c, "process_dead", false);
    }
}

static bool bad_lock_ttl(int64_t ttl)
{
    return ttl != 0 && (ttl < SECONDS(1) || ttl > MINUTES(120));
}

dibs_status model_lock_take(struct model *m, int resource, int session, bool shared, int64_t ttl)
{
    if (bad_lock_ttl(ttl))
        return DIBS_INVALID_REQUEST;
    if (!m_is_there(m, session))
        return DIBS_SESSION_NOT_FOUND;
    int64_t lease = ttl ? ttl : LOCK_TTL_MS;
    struct m_claim *mine = model_lock_of(m, resource, session);
    if (mine && mine->shared != shared)
        return DIBS_INVALID_REQUEST;
    free_dead(m, resource, session);
    if (mine) {
        m_renew(m, mine, lease);
        return DIBS_OK;
    }
    if (!fits(m, resource, shared))
        return DIBS_LOCK_HELD;
    m_add(m, (struct m_claim){.kind = M_LOCK,
                              .task = NOBODY,
                              .resource = resource,
                              .session = session,
                              .shared = shared,
                              .incarnation = m->sessions[session].incarnation,
                              .expires = m->now + lease,
                              .heartbeat = m->now,
                              .ttl = lease});
    m_heard(m, session);
    return DIBS_OK;
}

static dibs_status check_lock(struct model *m, int resource, int session, int64_t token)
{
    const struct m_claim *mine = model_lock_of(m, resource, session);
    if (mine && token && token != mine->token)
        return DIBS_STALE_TOKEN; /* nothing else happens then */
    free_dead(m, resource, session);
    return mine ? DIBS_OK : DIBS_LOCK_NOT_HELD;
}

dibs_status model_lock_heartbeat(struct model *m, int resource, int session, int64_t token,
                                 int64_t extend)
{
    if (bad_lock_ttl(extend))
        return DIBS_INVALID_REQUEST;
    dibs_status status = check_lock(m, resource, session, token);
    struct m_claim *mine = model_lock_of(m, resource, session);
    if (status == DIBS_OK)
        m_renew(m, mine, extend ? extend : mine->ttl);
    return status;
}

dibs_status model_lock_release(struct model *m, int resource, int session, int64_t token)
{
    dibs_status status = check_lock(m, resource, session, token);
    if (status != DIBS_OK)
        return status;
    m_end(model_lock_of(m, resource, session), "released", true);
    m_heard(m, session);
    return DIBS_OK;
}
