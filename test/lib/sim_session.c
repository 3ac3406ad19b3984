/* SPDX-License-Identifier: MIT */
/*
 * sim_session.c: sessions, sweeps, and what happens to the machine, in a simulated life: time
 * passes, the clock is set, the machine sleeps or boots, processes start and die, programs close
 * the store and open it again. See sim.h.
 */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- sessions -------------------------------------------------------------------------------- */

static void op_register(struct sim *s)
{
    int session = sim_session(s);
    const char *project = sim_percent(s, 50) ? SIM_PICK(s, sim_projects) : NULL;
    const char *agent = SIM_PICK(s, sim_agents);
    /* mostly of a process that runs, as it is in life */
    int64_t pid = sim_percent(s, s->m.processes[session] ? 90 : 30) ? 100 + session : 0;
    struct dibs_session out = {0};
    sim_begin(s, "register %s in %s, agent %s, pid %" PRId64, s->m.sessions[session].id,
              project ? project : "-", agent ? agent : "-", pid);
    struct dibs_session_new in = {
        .id = s->m.sessions[session].id, .project = project, .agent_id = agent, .pid = pid};
    sim_answer(s, DIBS_OK, dibs_session_register(s->d, s->a, &in, &out, &s->err));
    model_register(&s->m, session, project, agent, pid);
}

/* What a heartbeat must tell: counts of the model. */
struct news {
    size_t live, lost, cancelled;
};

static struct news expected_news(const struct model *m, int session)
{
    struct news n = {0};
    for (int i = 0; i < m->claim_count; i++) {
        const struct m_claim *c = &m->claims[i];
        if (c->session != session)
            continue;
        bool untold = c->ended && !c->told;
        n.live += !c->ended;
        n.lost += untold;
        n.cancelled += untold && m_same(c->reason, "cancelled");
    }
    return n;
}

static bool is_untold(const struct model *m, int session, int64_t token)
{
    for (int i = 0; i < m->claim_count; i++) {
        const struct m_claim *c = &m->claims[i];
        if (c->session == session && c->token == token)
            return c->ended && !c->told;
    }
    return false;
}

static void check_news(struct sim *s, int session, const struct dibs_session_news *news)
{
    struct news n = expected_news(&s->m, session);
    if (news->renewed.count != n.live || news->lost.count != n.lost ||
        news->cancel_requested.count != n.cancelled)
        sim_fail(s, "told %zu renewed, %zu lost, %zu cancelled, not %zu, %zu, %zu",
                 news->renewed.count, news->lost.count, news->cancel_requested.count, n.live,
                 n.lost, n.cancelled);
    for (size_t i = 0; i < news->lost.count; i++)
        if (!is_untold(&s->m, session, news->lost.items[i].token))
            sim_fail(s, "told that %" PRId64 " was lost", news->lost.items[i].token);
}

static void op_heartbeat(struct sim *s)
{
    int session = sim_live_session(s);
    struct dibs_session_news news = {0};
    sim_begin(s, "session heartbeat %s", s->m.sessions[session].id);
    dibs_status answered =
        dibs_session_heartbeat(s->d, s->a, s->m.sessions[session].id, &news, &s->err);
    dibs_status expected = m_is_there(&s->m, session) ? DIBS_OK : DIBS_SESSION_NOT_FOUND;
    sim_answer(s, expected, answered);
    if (answered != DIBS_OK)
        return;
    check_news(s, session, &news);
    if (model_session_heartbeat(&s->m, session) != DIBS_OK)
        sim_fail(s, "the model knows no session '%s'", s->m.sessions[session].id);
}

static void op_resume(struct sim *s)
{
    int session = sim_live_session(s);
    struct dibs_resumed out = {0};
    size_t gone = 0, back = 0;
    sim_begin(s, "resume %s", s->m.sessions[session].id);
    dibs_status answered =
        dibs_session_resume(s->d, s->a, s->m.sessions[session].id, &out, &s->err);
    bool there = m_is_there(&s->m, session);
    for (int i = 0; there && i < s->m.task_count; i++) {
        bool lost = model_lost(&s->m, session, i) != NULL;
        bool mine = model_may_resume(&s->m, session, i);
        back += mine;
        gone += lost && !mine;
    }
    sim_answer(s, there ? DIBS_OK : DIBS_SESSION_NOT_FOUND, answered);
    if (answered != DIBS_OK)
        return;
    if (out.taken.count != back || out.gone.count != gone)
        sim_fail(s, "got %zu back and %zu not, instead of %zu and %zu", out.taken.count,
                 out.gone.count, back, gone);
    for (size_t i = 0; i < out.taken.count; i++) {
        int task = model_task_at(&s->m, out.taken.items[i].task.id);
        if (task == NOBODY || !model_may_resume(&s->m, session, task))
            sim_fail(s, "got '%s' back", out.taken.items[i].task.id);
        int claim = s->m.claim_count;
        model_resume_one(&s->m, session, task);
        sim_adopt_token(s, &s->m.claims[claim], out.taken.items[i].claim.token);
    }
    (void)!model_resume(&s->m, session);
}

/* How much the store has to end for a session: what lives, and what lapsed and nobody has seen. */
static int64_t to_release(const struct model *m, int session, bool locks)
{
    int64_t count = 0;
    for (int i = 0; i < m->claim_count; i++) {
        const struct m_claim *c = &m->claims[i];
        if (c->session != session || (c->kind == M_LOCK) != locks)
            continue;
        bool unseen = c->kind != M_LOCK && m->tasks[c->task].unseen && m->tasks[c->task].claim == i;
        count += !c->ended || unseen;
    }
    return count;
}

static void op_deregister(struct sim *s)
{
    int session = sim_live_session(s);
    struct dibs_deregistered out = {0};
    sim_begin(s, "deregister %s", s->m.sessions[session].id);
    dibs_status answered =
        dibs_session_deregister(s->d, s->a, s->m.sessions[session].id, &out, &s->err);
    int64_t claims = to_release(&s->m, session, false), locks = to_release(&s->m, session, true);
    sim_answer(s, model_deregister(&s->m, session), answered);
    if (answered == DIBS_OK && (out.claims_released != claims || out.locks_released != locks))
        sim_fail(s,
                 "released %" PRId64 " claims and %" PRId64 " locks, not %" PRId64 " and %" PRId64,
                 out.claims_released, out.locks_released, claims, locks);
}

static void op_release_session(struct sim *s)
{
    static const char *const reasons[] = {NULL, "lunch"};
    int session = sim_session(s);
    const char *reason = SIM_PICK(s, reasons);
    struct dibs_cleaned out = {0};
    sim_begin(s, "release all of %s, %s", s->m.sessions[session].id, reason ? reason : "-");
    int64_t claims = to_release(&s->m, session, false);
    sim_answer(
        s, DIBS_OK,
        dibs_release_session_claims(s->d, s->a, s->m.sessions[session].id, reason, &out, &s->err));
    if (out.count != claims)
        sim_fail(s, "released %" PRId64 " claims, not %" PRId64, out.count, claims);
    model_release_session(&s->m, session, reason ? reason : "session_ended");
}

/* ---- the sweep ------------------------------------------------------------------------------- */

static int64_t count_unseen(const struct model *m)
{
    int64_t count = 0;
    for (int i = 0; i < m->task_count; i++)
        count += m->tasks[i].unseen;
    return count;
}

static int64_t count_orphans(const struct model *m, bool check_process)
{
    int64_t count = 0;
    for (int i = 0; i < m->claim_count; i++) {
        const struct m_claim *c = &m->claims[i];
        count +=
            !c->ended && c->kind != M_LOCK && model_orphan_reason(m, c->session, check_process);
    }
    return count;
}

static void op_cleanup_expired(struct sim *s)
{
    struct dibs_cleaned out = {0};
    sim_begin(s, "cleanup expired");
    sim_answer(s, DIBS_OK, dibs_cleanup_expired(s->d, s->a, &out, &s->err));
    if (out.count != count_unseen(&s->m))
        sim_fail(s, "ended %" PRId64 " claims, not %" PRId64, out.count, count_unseen(&s->m));
}

static void op_cleanup_orphaned(struct sim *s)
{
    struct dibs_cleaned out = {0};
    struct dibs_orphan_options in = {.check_process = sim_percent(s, 50)};
    sim_begin(s, "cleanup orphaned%s", in.check_process ? ", look at processes" : "");
    int64_t count = count_orphans(&s->m, in.check_process);
    sim_answer(s, DIBS_OK, dibs_cleanup_orphaned(s->d, s->a, &in, &out, &s->err));
    if (out.count != count)
        sim_fail(s, "ended %" PRId64 " claims, not %" PRId64, out.count, count);
    model_cleanup_orphaned(&s->m, in.check_process);
}

static void op_cleanup_sessions(struct sim *s)
{
    struct dibs_stale_sessions out = {0}, expected = {0};
    sim_begin(s, "cleanup sessions");
    sim_answer(s, DIBS_OK, dibs_cleanup_sessions(s->d, s->a, &out, &s->err));
    model_cleanup_sessions(&s->m, &expected);
    if (out.stale != expected.stale || out.ended != expected.ended)
        sim_fail(s, "%" PRId64 " stale and %" PRId64 " ended, not %" PRId64 " and %" PRId64,
                 out.stale, out.ended, expected.stale, expected.ended);
}

static void op_cleanup_locks(struct sim *s)
{
    struct dibs_cleaned out = {0};
    sim_begin(s, "cleanup locks");
    sim_answer(s, DIBS_OK, dibs_cleanup_locks(s->d, s->a, &out, &s->err));
}

static void op_prune(struct sim *s)
{
    int64_t events = 0;
    sim_begin(s, "prune");
    sim_answer(s, DIBS_OK, dibs_prune(s->d, s->a, &events, &s->err));
}

/* What the whole sweep does to the model; the leases past their deadline have ended already. */
static struct dibs_sweep sweep_model(struct sim *s)
{
    struct dibs_sweep sum = {.expired = count_unseen(&s->m),
                             .orphaned = count_orphans(&s->m, true)};
    struct dibs_stale_sessions sessions = {0};
    model_cleanup_orphaned(&s->m, true);
    model_cleanup_sessions(&s->m, &sessions);
    sum.sessions_stale = sessions.stale;
    sum.sessions_ended = sessions.ended;
    model_withdraw(&s->m);
    return sum;
}

static void op_cleanup(struct sim *s)
{
    struct dibs_sweep out = {0};
    sim_begin(s, "cleanup");
    sim_answer(s, DIBS_OK, dibs_cleanup(s->d, s->a, &out, &s->err));
    struct dibs_sweep expected = sweep_model(s);
    if (out.expired != expected.expired || out.orphaned != expected.orphaned ||
        out.sessions_stale != expected.sessions_stale ||
        out.sessions_ended != expected.sessions_ended)
        sim_fail(s,
                 "swept %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", not %" PRId64
                 ", %" PRId64 ", %" PRId64 ", %" PRId64,
                 out.expired, out.orphaned, out.sessions_stale, out.sessions_ended,
                 expected.expired, expected.orphaned, expected.sessions_stale,
                 expected.sessions_ended);
}

static void op_maintain(struct sim *s)
{
    bool ran = false;
    sim_begin(s, "maintain");
    bool due = !s->m.cleaned_at || s->m.now - s->m.cleaned_at >= MINUTES(5);
    if (!due) /* then it only reads, and a reader does not move the clock */
        s->m.shift = s->shift_before;
    sim_answer(s, DIBS_OK, dibs_maintain(s->d, &ran, &s->err));
    if (ran != due)
        sim_fail(s, "%s", ran ? "swept too early" : "did not sweep");
    if (!ran)
        return;
    s->m.cleaned_at = s->m.now;
    sweep_model(s);
}

/* ---- the machine ----------------------------------------------------------------------------- */

static void op_pass(struct sim *s)
{
    static const int64_t times[] = {1,           1,           SECONDS(1),  SECONDS(1),  SECONDS(1),
                                    SECONDS(20), SECONDS(20), SECONDS(59), SECONDS(61), MINUTES(3),
                                    MINUTES(6),  MINUTES(11), MINUTES(31), MINUTES(125)};
    int64_t ms = sim_percent(s, 2) ? MINUTES(8 * 24 * 60) : SIM_PICK(s, times);
    sim_begin(s, "%" PRId64 " ms pass", ms);
    s->m.shift = s->shift_before;
    world_pass(&s->f->world, ms);
}

/* Whether a runAfter that has come would lie ahead again: the documents do not say what then. */
static bool would_unmake_dates(const struct sim *s, int64_t wall_ms)
{
    for (int i = 0; i < s->m.task_count; i++) {
        int64_t at = s->m.tasks[i].run_after;
        if (at && at <= model_store_time(&s->m) && at > wall_ms - SECONDS(3))
            return true;
    }
    return false;
}

static void op_set_clock(struct sim *s)
{
    static const int64_t steps[] = {SECONDS(1),   -SECONDS(1),  SECONDS(10),       -SECONDS(10),
                                    MINUTES(600), -MINUTES(90), MINUTES(3 * 1440), 1500};
    int64_t wall = s->f->world.wall_ms + SIM_PICK(s, steps);
    sim_follow(s);
    if (would_unmake_dates(s, wall))
        return;
    sim_begin(s, "clock set from %" PRId64 " to %" PRId64, s->f->world.wall_ms, wall);
    s->m.shift = s->shift_before;
    world_set_clock(&s->f->world, wall);
}

static void op_suspend(struct sim *s)
{
    int64_t ms = MINUTES(sim_below(s, 300));
    sim_begin(s, "suspend for %" PRId64, ms);
    s->m.shift = s->shift_before;
    world_suspend(&s->f->world, ms);
}

static void op_process(struct sim *s)
{
    int slot = sim_below(s, MODEL_SESSIONS);
    int64_t pid = 100 + slot;
    struct world *w = &s->f->world;
    bool runs = s->m.processes[slot] != 0;
    sim_begin(s, "process %" PRId64 " %s", pid, runs ? "dies" : "starts");
    s->m.shift = s->shift_before;
    if (runs) {
        world_kill_process(w, pid);
        s->m.processes[slot] = 0;
        return;
    }
    world_start_process(w, pid);
    s->m.processes[slot] = ++s->m.lives;
    /* the world counts over all tests; a replay must find the same name */
    snprintf(w->processes[w->process_count - 1].start, 64, "life-%" PRId64, s->m.lives);
}

static void open_again(struct sim *s, int which)
{
    dibs_close(s->handles[which]);
    if (which == 0)
        s->f->d = NULL;
    s->handles[which] = fixture_open(s->f);
    if (which == 0)
        s->f->d = s->handles[0];
    s->d = s->handles[which];
}

static void op_open_again(struct sim *s)
{
    int which = sim_below(s, 2);
    sim_begin(s, "handle %d is closed and opened", which);
    s->m.shift = s->shift_before;
    open_again(s, which);
}

static void op_reboot(struct sim *s)
{
    int64_t down = MINUTES(sim_below(s, 200)), events = 0;
    struct world *w = &s->f->world;
    sim_begin(s, "reboot after %" PRId64 " down", down);
    s->m.shift = s->shift_before;
    dibs_close(s->handles[1]);
    s->handles[1] = NULL;
    world_reboot(w, down);
    memset(s->m.processes, 0, sizeof s->m.processes);
    model_reboot(&s->m, w->wall_ms);
    s->steady_seen = w->steady_ms;
    open_again(s, 0);
    s->handles[1] = fixture_open(s->f);
    /* until somebody writes, the store goes by the time of day */
    sim_answer(s, DIBS_OK, dibs_prune(s->d, s->a, &events, &s->err));
}

const struct sim_row sim_session_ops[] = {{10, op_register, false},
                                          {8, op_heartbeat, false},
                                          {4, op_resume, false},
                                          {2, op_deregister, false},
                                          {2, op_release_session, false},
                                          {2, op_cleanup_expired, false},
                                          {3, op_cleanup_orphaned, false},
                                          {2, op_cleanup_sessions, false},
                                          {2, op_cleanup_locks, false},
                                          {1, op_prune, false},
                                          {2, op_cleanup, false},
                                          {2, op_maintain, true},
                                          {18, op_pass, false},
                                          {3, op_set_clock, true},
                                          {2, op_suspend, true},
                                          {8, op_process, false},
                                          {2, op_open_again, true},
                                          {2, op_reboot, true},
                                          {0, NULL, false}};
