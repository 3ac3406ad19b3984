/* SPDX-License-Identifier: MIT */
/*
 * model_move.c: the model of creating tasks and of the moves that people and planners make. See
 * model.h. Each move is a row of the table of states: from where, to where, and what it ends.
 */
#include "model.h"

#include <stdio.h>
#include <string.h>

int model_task_at(const struct model *m, const char *id)
{
    for (int i = 0; i < m->task_count; i++)
        if (strcmp(m->tasks[i].id, id) == 0)
            return i;
    return NOBODY;
}

static int duplicate_of(const struct model *m, const char *project, const char *dedupe)
{
    for (int i = 0; dedupe && i < m->task_count; i++) {
        const struct m_task *t = &m->tasks[i];
        if (m_same(t->dedupe, dedupe) && m_same(t->project, project) && !m_is_final(t->status))
            return i;
    }
    return NOBODY;
}

static enum dibs_task_status first_status(const struct model *m, const struct m_task *t)
{
    if (t->offered_to)
        return DIBS_TASK_OFFERED;
    return m_waits(m, t) ? DIBS_TASK_BLOCKED : m_home(t);
}

dibs_status model_create(struct model *m, const struct m_new *in, int *at)
{
    *at = duplicate_of(m, in->project, in->dedupe);
    if (*at != NOBODY)
        return DIBS_OK;
    if (in->id && model_task_at(m, in->id) != NOBODY)
        return DIBS_TASK_EXISTS;
    if (in->needs_unknown)
        return DIBS_TASK_NOT_FOUND;
    *at = m->task_count;
    struct m_task *t = &m->tasks[m->task_count++];
    *t = (struct m_task){.project = in->project,
                         .type = in->type,
                         .dedupe = in->dedupe,
                         .assignee = in->assignee,
                         .offered_to = in->offered_to,
                         .tags = in->tags,
                         .priority = in->priority,
                         .max_attempts = in->max_attempts,
                         .claim_timeout = in->claim_timeout,
                         .run_after = in->run_after,
                         .needs = in->needs,
                         .offered_at = m->now,
                         .generation = 1,
                         .claim = NOBODY};
    if (in->id)
        snprintf(t->id, sizeof t->id, "%s", in->id);
    t->status = first_status(m, t);
    return DIBS_OK;
}

/* ---- moves ----------------------------------------------------------------------------------- */

#define BIT(status) (1u << DIBS_TASK_##status)

static dibs_status check(const struct model *m, int task, unsigned from)
{
    if (task == NOBODY)
        return DIBS_TASK_NOT_FOUND;
    enum dibs_task_status s = m->tasks[task].status;
    if (from >> s & 1)
        return DIBS_OK;
    return m_is_final(s) ? DIBS_ALREADY_FINISHED : DIBS_ILLEGAL_TRANSITION;
}

static void end_live(struct model *m, struct m_task *t, const char *reason)
{
    struct m_claim *c = m_live(m, t);
    if (c)
        m_end(c, reason, false);
}

dibs_status model_block(struct model *m, int task, int session)
{
    dibs_status status = check(m, task, BIT(OPEN) | BIT(ASSIGNED) | BIT(IN_PROGRESS));
    if (status != DIBS_OK)
        return status;
    struct m_task *t = &m->tasks[task];
    struct m_claim *c = m_live(m, t);
    if (session != NOBODY && c && c->session != session)
        return DIBS_NOT_CLAIM_OWNER;
    if (c)
        t->attempts -= t->attempts > 0; /* the attempt does not count */
    end_live(m, t, "blocked");
    t->status = DIBS_TASK_BLOCKED;
    t->by_hand = true;
    t->due = 0;
    return DIBS_OK;
}

dibs_status model_unblock(struct model *m, int task)
{
    dibs_status status = check(m, task, BIT(BLOCKED));
    if (status != DIBS_OK)
        return status;
    struct m_task *t = &m->tasks[task];
    t->by_hand = false;
    m_queue(m, t, m_home(t));
    return DIBS_OK;
}

dibs_status model_cancel(struct model *m, int task)
{
    if (task != NOBODY && m->tasks[task].status == DIBS_TASK_CANCELLED)
        return DIBS_OK;
    dibs_status status = check(m, task, ~(BIT(COMPLETED) | BIT(FAILED) | BIT(CANCELLED)));
    if (status != DIBS_OK)
        return status;
    struct m_task *t = &m->tasks[task];
    end_live(m, t, "cancelled");
    t->status = DIBS_TASK_CANCELLED;
    t->offered_to = NULL;
    t->by_hand = false;
    t->due = 0;
    return DIBS_OK;
}

dibs_status model_reopen(struct model *m, int task)
{
    dibs_status status = check(m, task, BIT(COMPLETED) | BIT(FAILED) | BIT(CANCELLED));
    if (status != DIBS_OK)
        return status;
    struct m_task *t = &m->tasks[task];
    if (duplicate_of(m, t->project, t->dedupe) != NOBODY)
        return DIBS_ILLEGAL_TRANSITION;
    t->generation++;
    t->attempts = 0;
    t->assignee = t->result = t->error = NULL;
    m_queue(m, t, DIBS_TASK_OPEN);
    /* who had been freed by it and has not begun waits again */
    for (int i = 0; i < m->task_count; i++) {
        struct m_task *other = &m->tasks[i];
        bool idle = other->status == DIBS_TASK_OPEN || other->status == DIBS_TASK_ASSIGNED;
        if ((other->needs >> task & 1) && idle)
            m_queue(m, other, other->status);
    }
    return DIBS_OK;
}

dibs_status model_offer(struct model *m, int task, const char *agent)
{
    dibs_status status = check(m, task, BIT(OPEN));
    if (status != DIBS_OK)
        return status;
    struct m_task *t = &m->tasks[task];
    t->offered_to = agent;
    t->status = DIBS_TASK_OFFERED;
    t->offered_at = m->now;
    t->due = 0;
    return DIBS_OK;
}

static dibs_status check_offer(const struct model *m, int task, const char *agent)
{
    dibs_status status = check(m, task, BIT(OFFERED) | BIT(REVIEWING));
    if (status == DIBS_OK && !m_same(m->tasks[task].offered_to, agent))
        return DIBS_ILLEGAL_TRANSITION;
    return status;
}

dibs_status model_accept(struct model *m, int task, const char *agent)
{
    dibs_status status = check_offer(m, task, agent);
    if (status != DIBS_OK)
        return status;
    struct m_task *t = &m->tasks[task];
    end_live(m, t, "accepted");
    t->assignee = agent;
    t->offered_to = NULL;
    m_queue(m, t, DIBS_TASK_ASSIGNED);
    return DIBS_OK;
}

dibs_status model_reject(struct model *m, int task, const char *agent)
{
    dibs_status status = check_offer(m, task, agent);
    if (status != DIBS_OK)
        return status;
    struct m_task *t = &m->tasks[task];
    end_live(m, t, "rejected");
    t->offered_to = NULL;
    m_queue(m, t, DIBS_TASK_OPEN);
    return DIBS_OK;
}

dibs_status model_assign(struct model *m, int task, const char *agent)
{
    dibs_status status = check(m, task, BIT(OPEN) | BIT(OFFERED) | BIT(REVIEWING));
    if (status != DIBS_OK)
        return status;
    struct m_task *t = &m->tasks[task];
    end_live(m, t, "assigned");
    t->assignee = agent;
    t->offered_to = NULL;
    m_queue(m, t, DIBS_TASK_ASSIGNED);
    return DIBS_OK;
}
