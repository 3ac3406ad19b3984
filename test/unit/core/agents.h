/* SPDX-License-Identifier: MIT */
/* agents.h: what the tests of agents, offers and polls have in common; each call expects success
 * unless its name begins with try. */
#ifndef TEST_AGENTS_H
#define TEST_AGENTS_H

#include "core_help.h"

static inline dibs_status try_register(struct fixture *f, struct dibs_agent_new in,
                                       struct dibs_agent *out)
{
    return dibs_agent_register(f->d, f->a, &in, out, &f->err);
}

static inline struct dibs_agent reg(struct fixture *f, struct dibs_agent_new in)
{
    struct dibs_agent out = {0};
    assert_ok(f, try_register(f, in, &out));
    return out;
}

static inline void make_worker_for(struct fixture *f, const char *id, int64_t max_tasks)
{
    reg(f, (struct dibs_agent_new){.id = id, .max_tasks = DIBS_VALUE(max_tasks)});
}

static inline void make_lead(struct fixture *f, const char *id)
{
    reg(f, (struct dibs_agent_new){.id = id, .is_lead = DIBS_VALUE(1)});
}

static inline struct dibs_agent get_agent(struct fixture *f, const char *id)
{
    struct dibs_agent out = {0};
    assert_ok(f, dibs_agent_get(f->d, f->a, id, &out, &f->err));
    return out;
}

static inline void end_session(struct fixture *f, const char *id)
{
    struct dibs_deregistered out = {0};
    assert_ok(f, dibs_session_deregister(f->d, f->a, id, &out, &f->err));
}

static inline void offer(struct fixture *f, const char *task, const char *agent)
{
    assert_ok(f, try_move(f, dibs_task_offer, task, agent));
}

static inline void assign(struct fixture *f, const char *task, const char *agent)
{
    assert_ok(f, try_move(f, dibs_task_assign, task, agent));
}

static inline void make_offered(struct fixture *f, const char *task, const char *agent)
{
    make_task(f, task);
    offer(f, task, agent);
}

static inline void make_assigned(struct fixture *f, const char *task, const char *agent)
{
    make_task(f, task);
    assign(f, task, agent);
}

static inline void sweep(struct fixture *f)
{
    struct dibs_sweep out = {0};
    assert_ok(f, dibs_cleanup(f->d, f->a, &out, &f->err));
}

#endif
