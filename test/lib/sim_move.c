/* SPDX-License-Identifier: MIT */
/*
 * sim_move.c: the moves by people and planners, and what happens to locks, in a simulated life. See
 * sim.h.
 */
#include "sim.h"

#include <inttypes.h>
#include <string.h>

typedef dibs_status move_call(dibs *d, dibs_arena *a, const struct dibs_move *in,
                              struct dibs_task *out, struct dibs_error *err);

/* Mostly a task in one of these states; they would be rare otherwise. */
static int task_in(struct sim *s, unsigned statuses)
{
    return sim_percent(s, 75) ? sim_task_in(s, statuses) : sim_task(s);
}
#define BIT(status) (1u << DIBS_TASK_##status)
#define FINAL (BIT(COMPLETED) | BIT(FAILED) | BIT(CANCELLED))

static void finish(struct sim *s, int task, dibs_status expected, dibs_status answered,
                   const struct dibs_task *out)
{
    sim_answer(s, expected, answered);
    if (answered != DIBS_OK)
        return;
    s->m.tasks[task].unseen = false;
    if (out->status != s->m.tasks[task].status)
        sim_fail(s, "answered a task that is %s", dibs_task_status_name(out->status));
}

static void op_block(struct sim *s)
{
    int task = task_in(s, BIT(OPEN) | BIT(ASSIGNED) | BIT(IN_PROGRESS));
    int session = sim_percent(s, 40) ? sim_session(s) : NOBODY;
    struct dibs_task out = {0};
    struct dibs_move in = {.task_id = sim_id(s, task)};
    if (session != NOBODY)
        in.session_id = s->m.sessions[session].id;
    sim_begin(s, "block %s by %s", in.task_id, in.session_id ? in.session_id : "-");
    dibs_status answered = dibs_task_block(s->d, s->a, &in, &out, &s->err);
    finish(s, task, model_block(&s->m, task, session), answered, &out);
}

static void op_unblock(struct sim *s)
{
    int task = task_in(s, BIT(BLOCKED));
    struct dibs_task out = {0};
    sim_begin(s, "unblock %s", sim_id(s, task));
    struct dibs_move in = {.task_id = sim_id(s, task)};
    dibs_status answered = dibs_task_unblock(s->d, s->a, &in, &out, &s->err);
    finish(s, task, model_unblock(&s->m, task), answered, &out);
}

static void op_cancel(struct sim *s)
{
    int task = sim_task(s);
    struct dibs_task out = {0};
    sim_begin(s, "cancel %s", sim_id(s, task));
    struct dibs_move in = {.task_id = sim_id(s, task)};
    dibs_status answered = dibs_task_cancel(s->d, s->a, &in, &out, &s->err);
    finish(s, task, model_cancel(&s->m, task), answered, &out);
}

/* Mostly one that others need: they wait again then. */
static int task_to_reopen(struct sim *s)
{
    int task = task_in(s, FINAL);
    for (int i = 0; i < s->m.task_count && sim_percent(s, 60); i++) {
        int other = sim_below(s, s->m.task_count);
        uint64_t done = s->m.tasks[other].needs;
        if (done)
            task = __builtin_ctzll(done);
    }
    return task;
}

static void op_reopen(struct sim *s)
{
    int task = task_to_reopen(s);
    struct dibs_task out = {0};
    sim_follow(s);
    sim_begin(s, "reopen %s", sim_id(s, task));
    struct dibs_move in = {.task_id = sim_id(s, task)};
    dibs_status answered = dibs_task_reopen(s->d, s->a, &in, &out, &s->err);
    finish(s, task, model_reopen(&s->m, task), answered, &out);
}

static void op_review(struct sim *s)
{
    int task = task_in(s, BIT(OFFERED)), session = sim_live_session(s);
    int64_t ttl = SIM_PICK(s, sim_ttls);
    struct dibs_task out = {0};
    sim_begin(s, "review %s by %s for %" PRId64, sim_id(s, task), s->m.sessions[session].id, ttl);
    struct dibs_move in = {
        .task_id = sim_id(s, task), .session_id = s->m.sessions[session].id, .ttl_ms = ttl};
    dibs_status answered = dibs_task_review(s->d, s->a, &in, &out, &s->err);
    int claim = s->m.claim_count;
    finish(s, task, model_review(&s->m, task, session, ttl), answered, &out);
    if (answered == DIBS_OK)
        sim_adopt_token(s, &s->m.claims[claim], out.claim->token);
}

static void by_agent(struct sim *s, const char *name, int task, move_call *call,
                     dibs_status (*model)(struct model *m, int task, const char *agent))
{
    const char *agent = sim_agents[1 + sim_below(s, 2)];
    struct dibs_task out = {0};
    /* mostly the one it is offered to, or hardly anything would be accepted */
    if (task != NOBODY && s->m.tasks[task].offered_to && sim_percent(s, 60))
        agent = s->m.tasks[task].offered_to;
    sim_begin(s, "%s %s: %s", name, sim_id(s, task), agent);
    struct dibs_move in = {.task_id = sim_id(s, task), .agent_id = agent};
    dibs_status answered = call(s->d, s->a, &in, &out, &s->err);
    finish(s, task, model(&s->m, task, agent), answered, &out);
}

static void op_offer(struct sim *s)
{
    by_agent(s, "offer", task_in(s, BIT(OPEN)), dibs_task_offer, model_offer);
}
static void op_accept(struct sim *s)
{
    by_agent(s, "accept", task_in(s, BIT(OFFERED) | BIT(REVIEWING)), dibs_task_accept,
             model_accept);
}
static void op_reject(struct sim *s)
{
    by_agent(s, "reject", task_in(s, BIT(OFFERED) | BIT(REVIEWING)), dibs_task_reject,
             model_reject);
}
static void op_assign(struct sim *s)
{
    by_agent(s, "assign", sim_task(s), dibs_task_assign, model_assign);
}

/* ---- locks ----------------------------------------------------------------------------------- */

static const int64_t lock_ttls[] = {0, 0, SECONDS(5), MINUTES(10), 999};

static void op_lock(struct sim *s)
{
    int resource = sim_below(s, MODEL_RESOURCES), session = sim_live_session(s);
    bool shared = sim_percent(s, 50);
    int64_t ttl = SIM_PICK(s, lock_ttls);
    struct dibs_claim out = {0};
    sim_begin(s, "lock %s by %s, %s, %" PRId64, model_resources[resource],
              s->m.sessions[session].id, shared ? "shared" : "exclusive", ttl);
    struct dibs_lock_take in = {.resource = model_resources[resource],
                                .session_id = s->m.sessions[session].id,
                                .shared = shared,
                                .ttl_ms = ttl};
    dibs_status answered = dibs_lock_take(s->d, s->a, &in, &out, &s->err);
    int claim = s->m.claim_count;
    dibs_status expected = model_lock_take(&s->m, resource, session, shared, ttl);
    sim_answer(s, expected, answered);
    if (answered == DIBS_OK && s->m.claim_count > claim)
        sim_adopt_token(s, &s->m.claims[claim], out.token);
    if (answered == DIBS_OK && out.extended != (s->m.claim_count == claim))
        sim_fail(s, "says %s", out.extended ? "extended" : "not extended");
}

static void choose_lock(struct sim *s, int *resource, int *session, int64_t *token)
{
    *resource = sim_below(s, MODEL_RESOURCES);
    *session = sim_session(s);
    for (int i = 0; i < 12 && !model_lock_of(&s->m, *resource, *session); i++) {
        *resource = sim_below(s, MODEL_RESOURCES);
        *session = sim_session(s);
    }
    const struct m_claim *c = model_lock_of(&s->m, *resource, *session);
    *token = c && sim_percent(s, 50) ? c->token - (sim_percent(s, 10) ? 1 : 0) : 0;
}

static void op_lock_heartbeat(struct sim *s)
{
    int resource, session;
    int64_t token, extend = SIM_PICK(s, lock_ttls);
    struct dibs_claim out = {0};
    choose_lock(s, &resource, &session, &token);
    sim_begin(s, "lock heartbeat %s by %s, token %" PRId64 ", %" PRId64, model_resources[resource],
              s->m.sessions[session].id, token, extend);
    struct dibs_lock_ref in = {.resource = model_resources[resource],
                               .session_id = s->m.sessions[session].id,
                               .token = token,
                               .extend_ms = extend};
    dibs_status answered = dibs_lock_heartbeat(s->d, s->a, &in, &out, &s->err);
    sim_answer(s, model_lock_heartbeat(&s->m, resource, session, token, extend), answered);
}

static void op_unlock(struct sim *s)
{
    int resource, session;
    int64_t token;
    struct dibs_claim out = {0};
    choose_lock(s, &resource, &session, &token);
    sim_begin(s, "unlock %s by %s, token %" PRId64, model_resources[resource],
              s->m.sessions[session].id, token);
    struct dibs_lock_ref in = {.resource = model_resources[resource],
                               .session_id = s->m.sessions[session].id,
                               .token = token};
    dibs_status answered = dibs_lock_release(s->d, s->a, &in, &out, &s->err);
    sim_answer(s, model_lock_release(&s->m, resource, session, token), answered);
}

const struct sim_row sim_move_ops[] = {
    {4, op_block, false},  {4, op_unblock, false},        {3, op_cancel, false},
    {6, op_reopen, false}, {4, op_offer, false},          {4, op_review, false},
    {3, op_accept, false}, {2, op_reject, false},         {3, op_assign, false},
    {9, op_lock, false},   {2, op_lock_heartbeat, false}, {3, op_unlock, false},
    {0, NULL, false}};
