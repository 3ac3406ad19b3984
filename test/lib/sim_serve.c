/* SPDX-License-Identifier: MIT */
/*
 * sim_serve.c: what a daemon does beside the operations, as steps of the simulation: it tends to
 * what is due, stands still for a while and gives that time back, learns that a process has ended.
 */
#include <inttypes.h>

#include "core/serve.h"
#include "sim.h"

/* Tasks whose back-off is over are ready, and stay so if a reboot takes time back. */
static void note_promoted(struct model *m)
{
    for (int i = 0; i < m->task_count; i++)
        if (m->tasks[i].status == DIBS_TASK_OPEN && m->tasks[i].due <= m->now)
            m->tasks[i].due = 0;
}

/* Tending may find nothing and only read; a sweep of locks first makes it a writer in any case, so
 * that the clock is followed. */
static void op_tend(struct sim *s)
{
    struct dibs_cleaned locks = {0};
    struct dibs_due due = {0};
    int64_t expected = 0, expired = 0, withdrawn = 0;
    sim_begin(s, "tend");
    for (int i = 0; i < s->m.task_count; i++)
        expected += s->m.tasks[i].unseen;
    sim_answer(s, DIBS_OK, dibs_cleanup_locks(s->d, s->a, &locks, &s->err));
    do {
        sim_answer(s, DIBS_OK, dibs__tend(s->d, s->a, &due, &s->err));
        expired += due.expired;
        withdrawn += due.withdrawn;
    } while (due.more);
    if (expired != expected || due.locks != 0)
        sim_fail(s, "ended %" PRId64 " claims and %" PRId64 " locks, not %" PRId64 " and none",
                 expired, due.locks, expected);
    note_promoted(&s->m);
    int64_t given_up = model_withdraw(&s->m);
    if (withdrawn != given_up)
        sim_fail(s, "took back %" PRId64 " offers, not %" PRId64, withdrawn, given_up);
    if (due.next_ms && due.next_ms <= due.now_ms)
        sim_fail(s, "is done, but the next thing to do is due");
}

/* The locks that have run out end first: the model does not know which of them the store has
 * seen. */
static void op_stall(struct sim *s)
{
    static const int64_t times[] = {1, SECONDS(5), SECONDS(90), MINUTES(4), MINUTES(40)};
    struct dibs_cleaned locks = {0};
    int64_t by = SIM_PICK(s, times);
    sim_begin(s, "give back %" PRId64, by);
    sim_answer(s, DIBS_OK, dibs_cleanup_locks(s->d, s->a, &locks, &s->err));
    sim_answer(s, DIBS_OK, dibs__extend_leases(s->d, by, "stall", &s->err));
    model_extend(&s->m, by);
}

static void op_process_ended(struct sim *s)
{
    int session = sim_live_session(s);
    const struct m_session *who = &s->m.sessions[session];
    int64_t incarnation = who->incarnation - sim_percent(s, 20);
    sim_begin(s, "process of %s in its life %" PRId64 " has ended", who->id, incarnation);
    sim_answer(s, DIBS_OK, dibs__session_process_ended(s->d, s->a, who->id, incarnation, &s->err));
    if (incarnation == who->incarnation)
        model_process_ended(&s->m, session);
}

const struct sim_row sim_serve_ops[] = {
    {3, op_tend, true}, {2, op_stall, true}, {3, op_process_ended, false}, {0, NULL, false}};
