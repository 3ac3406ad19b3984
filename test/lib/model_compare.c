/* SPDX-License-Identifier: MIT */
/*
 * model_compare.c: everything that callers of the store can see, against the model. See model.h.
 *
 * A claim past its deadline may still stand in the store until somebody looks. Then its task is
 * compared with the face it had before the lapse; once the store has shown the other face, it may
 * not go back.
 */
#include "model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const model_tags[3] = {"red", "green", "blue"};

static char text[640];

#define DISAGREE(...) (snprintf(text, sizeof text, __VA_ARGS__), text)

static const char *or_none(const char *s)
{
    return s ? s : "(none)";
}

/* ---- claims ---------------------------------------------------------------------------------- */

static const char *compare_claim(const struct model *m, const struct m_claim *c,
                                 const struct dibs_claim *seen)
{
    const char *what = seen->task_id ? seen->task_id : seen->resource;
    int64_t left = c->expires > m->now ? c->expires - m->now : 0;
    if (seen->token != c->token || !m_same(seen->session_id, m->sessions[c->session].id))
        return DISAGREE("'%s' is held by %s under %" PRId64 ", not by %s under %" PRId64, what,
                        seen->session_id, seen->token, m->sessions[c->session].id, c->token);
    if (seen->remaining_ms != left)
        return DISAGREE("the lease on '%s' has %" PRId64 " ms left, not %" PRId64, what,
                        seen->remaining_ms, left);
    if (seen->incarnation != c->incarnation || seen->attempt != c->attempt ||
        seen->generation != c->generation || seen->ttl_ms != c->ttl || seen->shared != c->shared)
        return DISAGREE("the claim on '%s' is not as granted", what);
    if (!m_same(seen->checkpoint, c->checkpoint))
        return DISAGREE("the checkpoint on '%s' is %s, not %s", what, or_none(seen->checkpoint),
                        or_none(c->checkpoint));
    return NULL;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* The store still shows the claim that lapsed: compare with the face from before. */
static bool shows_old_face(struct model *m, const struct m_task *t, const struct dibs_task *seen)
{
    const struct m_claim *c = m_claim_of(m, t);
    return t->unseen && c && seen->claim && seen->claim->token == c->token;
}

static const char *compare_state(struct model *m, struct m_task *t, const struct dibs_task *seen)
{
    t->unseen = shows_old_face(m, t, seen);
    struct m_face now = {.status = t->status, .assignee = t->assignee, .error = t->error};
    struct m_face face = t->unseen ? t->before : now;
    if (seen->status != face.status)
        return DISAGREE("task '%s' is %s, not %s", t->id, dibs_task_status_name(seen->status),
                        dibs_task_status_name(face.status));
    if (!m_same(seen->assignee, face.assignee) || !m_same(seen->offered_to, t->offered_to))
        return DISAGREE("task '%s' is assigned to %s and offered to %s, not %s and %s", t->id,
                        or_none(seen->assignee), or_none(seen->offered_to), or_none(face.assignee),
                        or_none(t->offered_to));
    if (!m_same(seen->error, face.error) || !m_same(seen->result, t->result))
        return DISAGREE("task '%s' has error %s and result %s, not %s and %s", t->id,
                        or_none(seen->error), or_none(seen->result), or_none(face.error),
                        or_none(t->result));
    const struct m_claim *c = t->unseen ? m_claim_of(m, t) : m_live(m, t);
    if (!c != !seen->claim)
        return DISAGREE("task '%s' is held by %s", t->id, seen->claim ? "somebody" : "nobody");
    return c ? compare_claim(m, c, seen->claim) : NULL;
}

static const char *compare_counts(struct model *m, struct m_task *t, const struct dibs_task *seen)
{
    size_t needs = (size_t)__builtin_popcountll(t->needs), waits = 0;
    for (int i = 0; i < m->task_count; i++)
        waits += (t->needs >> i & 1) && m->tasks[i].status != DIBS_TASK_COMPLETED;
    if (seen->attempts != t->attempts || seen->max_attempts != t->max_attempts)
        return DISAGREE("task '%s' has used %" PRId64 " of %" PRId64 " attempts, not %" PRId64
                        " of %" PRId64,
                        t->id, seen->attempts, seen->max_attempts, t->attempts, t->max_attempts);
    if (seen->generation != t->generation || seen->priority != t->priority)
        return DISAGREE("task '%s' has generation %" PRId64 " and priority %" PRId64, t->id,
                        seen->generation, seen->priority);
    if (seen->depends_on.count != needs || seen->waiting_on.count != waits)
        return DISAGREE("task '%s' waits for %zu of %zu, not for %zu of %zu", t->id,
                        seen->waiting_on.count, seen->depends_on.count, waits, needs);
    if ((seen->finished_at_ms != 0) != (m_is_final(seen->status)))
        return DISAGREE("task '%s' is %s and finished at %" PRId64, t->id,
                        dibs_task_status_name(seen->status), seen->finished_at_ms);
    if (seen->version < t->version)
        return DISAGREE("version of task '%s' went back", t->id);
    t->version = seen->version;
    return NULL;
}

/* A back-off that the store has just chosen must lie within its bounds; then it is the model's. */
static const char *adopt_backoff(struct model *m, struct m_task *t, const struct dibs_task *seen)
{
    int64_t due = seen->run_after_ms - m->shift;
    if (!t->due_most)
        return NULL;
    if (due < t->due_least || due > t->due_most)
        return DISAGREE("task '%s' comes back in %" PRId64 " ms, not in %" PRId64 " to %" PRId64,
                        t->id, due - m->now, t->due_least - m->now, t->due_most - m->now);
    t->due = due;
    t->due_least = t->due_most = 0;
    return NULL;
}

static const char *compare_tasks(struct model *m, dibs *d, dibs_arena *a)
{
    struct dibs_task_list list = {0};
    struct dibs_error err = {0};
    if (dibs_task_list(d, a, &(struct dibs_task_filter){.limit = 1000}, &list, &err) != DIBS_OK)
        return DISAGREE("cannot list tasks: %s", err.message);
    if (list.count != (size_t)m->task_count)
        return DISAGREE("there are %zu tasks, not %d", list.count, m->task_count);
    const char *found = NULL;
    for (int i = 0; !found && i < m->task_count; i++) {
        struct m_task *t = &m->tasks[i];
        if (strcmp(t->id, list.items[i].id) != 0)
            return DISAGREE("task %d is '%s', not '%s'", i, list.items[i].id, t->id);
        found = compare_state(m, t, &list.items[i]);
        if (!found)
            found = compare_counts(m, t, &list.items[i]);
        if (!found)
            found = adopt_backoff(m, t, &list.items[i]);
    }
    return found;
}

/* ---- sessions and locks ---------------------------------------------------------------------- */

struct holdings {
    int64_t claims, unseen, locks;
};

static struct holdings count_held(const struct model *m, int session)
{
    struct holdings h = {0};
    for (int i = 0; i < m->claim_count; i++) {
        const struct m_claim *c = &m->claims[i];
        if (c->session != session)
            continue;
        h.locks += c->kind == M_LOCK && !c->ended;
        h.claims += c->kind != M_LOCK && !c->ended;
        h.unseen += c->kind != M_LOCK && m->tasks[c->task].unseen && m->tasks[c->task].claim == i;
    }
    return h;
}

static const char *compare_session(const struct model *m, int at, const struct dibs_session *seen)
{
    const struct m_session *s = &m->sessions[at];
    struct holdings h = count_held(m, at);
    enum dibs_session_status status = model_session_status(m, at);
    if (seen->status != status || seen->incarnation != s->incarnation)
        return DISAGREE("session '%s' is %s in its life %" PRId64 ", not %s in %" PRId64, s->id,
                        dibs_session_status_name(seen->status), seen->incarnation,
                        dibs_session_status_name(status), s->incarnation);
    if (!m_same(seen->project, s->project) || !m_same(seen->agent_id, s->agent))
        return DISAGREE("session '%s' is of %s and agent %s", s->id, seen->project,
                        or_none(seen->agent_id));
    if (seen->claims_total != s->total || seen->claims_completed != s->completed)
        return DISAGREE("session '%s' completed %" PRId64 "/%" PRId64 ", not %" PRId64 "/%" PRId64,
                        s->id, seen->claims_completed, seen->claims_total, s->completed, s->total);
    if (seen->claims_live != h.claims + h.unseen || seen->locks_live < h.locks)
        return DISAGREE("session '%s' holds %" PRId64 " tasks and %" PRId64 " locks, not %" PRId64
                        " (and %" PRId64 " that lapsed) and %" PRId64,
                        s->id, seen->claims_live, seen->locks_live, h.claims, h.unseen, h.locks);
    int64_t silent = model_store_time(m) - seen->heartbeat_at_ms;
    if (s->status != DIBS_SESSION_ENDED && silent != m->now - s->heartbeat)
        return DISAGREE("session '%s' is silent for %" PRId64 " ms, not %" PRId64, s->id, silent,
                        m->now - s->heartbeat);
    return NULL;
}

static const char *compare_sessions(const struct model *m, dibs *d, dibs_arena *a)
{
    struct dibs_session_list list = {0};
    struct dibs_error err = {0};
    struct dibs_session_filter all = {.include_ended = true, .limit = 1000};
    if (dibs_session_list(d, a, &all, &list, &err) != DIBS_OK)
        return DISAGREE("cannot list sessions: %s", err.message);
    size_t known = 0;
    for (int i = 0; i < MODEL_SESSIONS; i++) {
        const struct m_session *s = &m->sessions[i];
        known += s->exists;
        const struct dibs_session *seen = NULL;
        for (size_t k = 0; k < list.count; k++)
            if (strcmp(list.items[k].id, s->id) == 0)
                seen = &list.items[k];
        if (!s->exists != !seen)
            return DISAGREE("session '%s' is %s", s->id, seen ? "there" : "not there");
        const char *found = seen ? compare_session(m, i, seen) : NULL;
        if (found)
            return found;
    }
    return list.count == known ? NULL : DISAGREE("there are %zu sessions", list.count);
}

static const char *compare_locks(const struct model *m, dibs *d, dibs_arena *a)
{
    struct dibs_claim_list list = {0};
    struct dibs_error err = {0};
    size_t held = 0;
    if (dibs_lock_list(d, a, &(struct dibs_lock_filter){0}, &list, &err) != DIBS_OK)
        return DISAGREE("cannot list locks: %s", err.message);
    for (int i = 0; i < m->claim_count; i++) {
        const struct m_claim *c = &m->claims[i];
        if (c->kind != M_LOCK || c->ended)
            continue;
        held++;
        const struct dibs_claim *seen = NULL;
        for (size_t k = 0; k < list.count; k++)
            if (list.items[k].token == c->token)
                seen = &list.items[k];
        if (!seen || !m_same(seen->resource, model_resources[c->resource]))
            return DISAGREE("session '%s' does not hold lock '%s' under %" PRId64,
                            m->sessions[c->session].id, model_resources[c->resource], c->token);
        const char *found = compare_claim(m, c, seen);
        if (found)
            return found;
    }
    return list.count == held ? NULL : DISAGREE("%zu locks are held, not %zu", list.count, held);
}

/* ---- clock, journal, and what is dear to ask ------------------------------------------------- */

static const char *compare_clock_and_journal(struct model *m, dibs *d, dibs_arena *a)
{
    int64_t now = 0;
    struct dibs_error err = {0};
    struct dibs_event_list page = {0};
    int64_t since = m->last_event > 0 ? m->last_event - 1 : 0;
    if (dibs_now(d, &now, &err) != DIBS_OK)
        return DISAGREE("cannot ask the time: %s", err.message);
    if (now != model_store_time(m))
        return DISAGREE("the store's clock shows %" PRId64 ", not %" PRId64, now,
                        model_store_time(m));
    struct dibs_event_filter tail = {.since = since, .limit = 1000};
    if (dibs_events(d, a, &tail, &page, &err) != DIBS_OK)
        return DISAGREE("cannot read the journal: %s", err.message);
    if (page.last < m->last_event)
        return DISAGREE("the journal went back to %" PRId64, page.last);
    m->last_event = page.last;
    m->last_event_at = INT64_MIN; /* all of it may have been pruned */
    if (page.count > 0 && page.items[page.count - 1].number != page.last)
        return DISAGREE("the journal's end %" PRId64 " cannot be read", page.last);
    if (page.count > 0)
        m->last_event_at = page.items[page.count - 1].at_ms - m->shift;
    return NULL;
}

static const char *compare_overview(struct model *m, dibs *d, dibs_arena *a)
{
    struct dibs_in_flight flying = {0};
    struct dibs_stats stats = {0};
    struct dibs_error err = {0};
    int64_t live = 0, unseen = 0;
    for (int i = 0; i < m->task_count; i++) {
        const struct m_claim *c = m_claim_of(m, &m->tasks[i]);
        live += c && !c->ended && c->kind == M_TASK;
        unseen += m->tasks[i].unseen && c->kind == M_TASK;
    }
    if (dibs_in_flight(d, a, &(struct dibs_in_flight_filter){.limit = 1000}, &flying, &err) !=
            DIBS_OK ||
        dibs_stats(d, a, &stats, &err) != DIBS_OK)
        return DISAGREE("cannot ask for an overview: %s", err.message);
    if (flying.total != live || stats.active != live || stats.total != live + unseen)
        return DISAGREE("%" PRId64 " tasks are in flight, %" PRId64 " of %" PRId64
                        " claims active, not %" PRId64 " of %" PRId64,
                        flying.total, stats.active, stats.total, live, live + unseen);
    return NULL;
}

const char *model_compare(struct model *m, dibs *d, dibs_arena *a, bool thorough)
{
    const char *found = compare_clock_and_journal(m, d, a);
    if (!found)
        found = compare_tasks(m, d, a);
    if (!found)
        found = compare_sessions(m, d, a);
    if (!found)
        found = compare_locks(m, d, a);
    if (!found && thorough)
        found = compare_overview(m, d, a);
    return found;
}
