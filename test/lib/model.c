/* SPDX-License-Identifier: MIT */
/*
 * model.c: the parts of the model that every operation uses: how a claim ends and what becomes of
 * its task then, who is there, what is due. See model.h.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#define BACKOFF_FIRST_MS 1000
#define BACKOFF_LAST_MS MINUTES(10)

void model_init(struct model *m)
{
    memset(m, 0, sizeof *m);
    m->now = 1;
    m->last_event_at = INT64_MIN;
}

void model_release(struct model *m)
{
    free(m->claims);
    m->claims = NULL;
    m->claim_count = m->claim_room = 0;
}

void model_copy(struct model *to, const struct model *from)
{
    free(to->claims);
    *to = *from;
    to->claim_room = from->claim_count + 64;
    to->claims = calloc((size_t)to->claim_room, sizeof *to->claims);
    if (!to->claims)
        abort();
    if (from->claim_count)
        memcpy(to->claims, from->claims, (size_t)from->claim_count * sizeof *to->claims);
}

void model_undo(struct model *m, const struct model *before)
{
    int64_t now = m->now, lives = m->lives, processes[MODEL_SESSIONS];
    memcpy(processes, m->processes, sizeof processes);
    model_copy(m, before);
    memcpy(m->processes, processes, sizeof processes);
    m->lives = lives;
    m->now = now;
}

/* ---- small questions ------------------------------------------------------------------------- */

bool m_same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool m_is_final(enum dibs_task_status s)
{
    return s == DIBS_TASK_COMPLETED || s == DIBS_TASK_FAILED || s == DIBS_TASK_CANCELLED;
}

struct m_claim *m_claim_of(struct model *m, const struct m_task *t)
{
    return t->claim == NOBODY ? NULL : &m->claims[t->claim];
}

struct m_claim *m_live(struct model *m, const struct m_task *t)
{
    struct m_claim *c = m_claim_of(m, t);
    return c && !c->ended ? c : NULL;
}

bool m_is_there(const struct model *m, int session)
{
    const struct m_session *s = &m->sessions[session];
    return s->exists && s->status != DIBS_SESSION_ENDED;
}

bool m_waits(const struct model *m, const struct m_task *t)
{
    for (int i = 0; i < m->task_count; i++)
        if ((t->needs >> i & 1) && m->tasks[i].status != DIBS_TASK_COMPLETED)
            return true;
    return false;
}

bool m_is_due(const struct model *m, const struct m_task *t)
{
    return t->due <= m->now && t->run_after <= model_store_time(m);
}

enum dibs_task_status m_home(const struct m_task *t)
{
    return t->assignee ? DIBS_TASK_ASSIGNED : DIBS_TASK_OPEN;
}

void m_queue(const struct model *m, struct m_task *t, enum dibs_task_status to)
{
    t->status = m_waits(m, t) ? DIBS_TASK_BLOCKED : to;
    if (t->status != DIBS_TASK_OPEN)
        t->due = t->due_least = t->due_most = 0;
}

enum dibs_process m_process(const struct model *m, int session)
{
    const struct m_session *s = &m->sessions[session];
    if (!s->pid)
        return DIBS_PROCESS_UNKNOWN;
    int64_t runs = m->processes[s->pid - 100];
    /* a session that was registered before its process ran knows no start time */
    bool same = runs && (!s->process || s->process == runs);
    return same ? DIBS_PROCESS_ALIVE : DIBS_PROCESS_DEAD;
}

/* ---- claims ---------------------------------------------------------------------------------- */

struct m_claim *m_add(struct model *m, struct m_claim c)
{
    if (m->claim_count == m->claim_room) {
        m->claim_room = m->claim_room ? m->claim_room * 2 : 64;
        m->claims = realloc(m->claims, (size_t)m->claim_room * sizeof *m->claims);
        if (!m->claims)
            abort();
    }
    m->claims[m->claim_count] = c;
    if (c.task != NOBODY) {
        m->tasks[c.task].claim = m->claim_count;
        m->tasks[c.task].unseen = false;
    }
    return &m->claims[m->claim_count++];
}

void m_end(struct m_claim *c, const char *reason, bool told)
{
    c->ended = true;
    c->reason = reason;
    c->told = told;
}

/* Anything that a session does counts as its heartbeat; one that has ended stays so. */
void m_heard(struct model *m, int session)
{
    struct m_session *s = &m->sessions[session];
    if (!m_is_there(m, session))
        return;
    s->heartbeat = m->now;
    s->status = DIBS_SESSION_ACTIVE;
}

/* An attempt was lost: another one, or the end. Doubling from 1 s to 10 min, up to a quarter
 * less. */
void m_retry(struct model *m, struct m_task *t, bool backoff, bool permanent)
{
    bool left = t->max_attempts == 0 || t->attempts < t->max_attempts;
    t->assignee = NULL;
    t->due = 0;
    if (permanent || !left) {
        t->status = DIBS_TASK_FAILED;
        return;
    }
    m_queue(m, t, DIBS_TASK_OPEN);
    if (!backoff || t->status != DIBS_TASK_OPEN)
        return;
    int64_t delay = BACKOFF_FIRST_MS;
    for (int64_t i = 1; i < t->attempts && delay < BACKOFF_LAST_MS; i++)
        delay *= 2;
    if (delay > BACKOFF_LAST_MS)
        delay = BACKOFF_LAST_MS;
    t->due = m->now + delay;
    t->due_least = m->now + delay - delay / 4;
    t->due_most = t->due;
}

void m_give_back(struct model *m, struct m_claim *c, const char *reason, bool told)
{
    struct m_task *t = &m->tasks[c->task];
    m_end(c, reason, told);
    if (c->kind == M_REVIEW) {
        t->status = DIBS_TASK_OFFERED;
        return;
    }
    t->attempts -= t->attempts > 0;
    m_queue(m, t, m_home(t));
}

void m_complete(struct model *m, struct m_task *t, const char *result)
{
    struct m_claim *c = m_claim_of(m, t);
    int at = (int)(t - m->tasks);
    if (!c->ended)
        m_end(c, "completed", true);
    t->status = DIBS_TASK_COMPLETED;
    t->due = 0;
    t->result = result;
    t->unseen = false;
    m->sessions[c->session].completed++;
    m_heard(m, c->session);
    for (int i = 0; i < m->task_count; i++) {
        struct m_task *other = &m->tasks[i];
        if ((other->needs >> at & 1) && other->status == DIBS_TASK_BLOCKED && !other->by_hand)
            m_queue(m, other, m_home(other));
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

static void lapse(struct model *m, struct m_claim *c)
{
    m_end(c, "expired", false);
    if (c->kind == M_LOCK)
        return;
    struct m_task *t = &m->tasks[c->task];
    t->before = (struct m_face){.status = t->status, .assignee = t->assignee, .error = t->error};
    t->unseen = true;
    if (c->kind == M_REVIEW) {
        t->status = DIBS_TASK_OFFERED;
        return;
    }
    m_retry(m, t, false, false);
    if (t->status == DIBS_TASK_FAILED)
        t->error = "attempts_exhausted";
}

void model_settle(struct model *m)
{
    for (int i = 0; i < m->claim_count; i++)
        if (!m->claims[i].ended && m->claims[i].expires <= m->now)
            lapse(m, &m->claims[i]);
}

/* A lease that had passed its deadline while nobody wrote has time left again. */
static void revive(struct model *m, struct m_claim *c)
{
    c->ended = c->told = false;
    c->reason = NULL;
    if (c->kind == M_LOCK)
        return;
    struct m_task *t = &m->tasks[c->task];
    t->status = t->before.status;
    t->assignee = t->before.assignee;
    t->error = t->before.error;
    t->unseen = false;
}

static void extend_offers(struct model *m, int64_t since, int64_t by)
{
    for (int i = 0; i < m->task_count; i++)
        if (m->tasks[i].offered_to && m->tasks[i].offered_at <= since)
            m->tasks[i].offered_at += by;
    for (int i = 0; i < 2; i++) /* who was not heard for longer is gone already */
        if (m->agents[i].seen <= since && m->agents[i].seen > since - MINUTES(10))
            m->agents[i].seen += by;
}

void model_extend(struct model *m, int64_t by)
{
    int64_t since = m->now - by;
    for (int i = 0; i < MODEL_SESSIONS; i++)
        if (m_is_there(m, i) && m->sessions[i].heartbeat <= since)
            m->sessions[i].heartbeat += by;
    extend_offers(m, since, by);
    for (int i = 0; i < m->claim_count; i++) {
        struct m_claim *c = &m->claims[i];
        bool unseen = c->kind != M_LOCK && m->tasks[c->task].unseen && m->tasks[c->task].claim == i;
        if ((c->ended && !unseen) || c->expires <= since || c->heartbeat > since)
            continue;
        if (c->ended)
            revive(m, c);
        c->expires += by;
        c->heartbeat += by;
    }
}

void model_reboot(struct model *m, int64_t wall_ms)
{
    int64_t seen = m->last_event_at;
    for (int i = 0; i < MODEL_SESSIONS; i++)
        if (m_is_there(m, i) && m->sessions[i].heartbeat > seen)
            seen = m->sessions[i].heartbeat;
    if (seen == INT64_MIN) { /* there is nothing to keep, and nothing moves with the clock */
        int64_t before = m->shift;
        m->shift = wall_ms - m->now;
        m->cleaned_at += m->cleaned_at ? before - m->shift : 0;
        return;
    }
    m->now = seen;
    if (wall_ms > model_store_time(m))
        m->shift = wall_ms - m->now;
    for (int i = 0; i < m->claim_count; i++) {
        struct m_claim *c = &m->claims[i];
        if (c->ended && m_same(c->reason, "expired") && c->expires > seen)
            revive(m, c);
    }
}
