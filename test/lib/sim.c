/* SPDX-License-Identifier: MIT */
/* sim.c: the course of a simulated life, its trace and its comparison. See sim.h. */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_STEP_MS 2000 /* the store follows the time of day when it is further away */
#define DIAGNOSE_EVERY 60
#define TRACE_SHOWN 60
#define FIRST_STEPS 16
#define OVERVIEW_EVERY 8

const char *const sim_agents[3] = {NULL, "ann", "bob"};
const char *const sim_projects[2] = {"default", "other"};
const char *const sim_types[3] = {"build", "test", "docs"};
const int64_t sim_ttls[12] = {0,
                              0,
                              0,
                              MINUTES(1),
                              MINUTES(1),
                              MINUTES(5),
                              MINUTES(5),
                              MINUTES(120),
                              MINUTES(120),
                              0,
                              MINUTES(10),
                              SECONDS(1)};

/* ---- chance ---------------------------------------------------------------------------------- */

uint64_t sim_random(struct sim *s)
{
    s->chance += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t z = s->chance;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int sim_below(struct sim *s, int n)
{
    return (int)(sim_random(s) % (uint64_t)n);
}

/* ---- trace ----------------------------------------------------------------------------------- */

static void print_trace(struct sim *s)
{
    int shown = getenv("DIBS_TEST_SEED") ? SIM_TRACE : TRACE_SHOWN;
    int first = s->traced > shown ? s->traced - shown : 0;
    for (int i = first; i < s->traced; i++)
        print_error("  %s\n", s->trace[i % SIM_TRACE]);
    print_error("replay with DIBS_TEST_SEED=%" PRIu64 " DIBS_SIM_STEPS=%d\n", s->seed, s->steps);
}

void sim_fail(struct sim *s, const char *format, ...)
{
    char text[800];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_error("seed %" PRIu64 ", step %d: %s\n", s->seed, s->step, text);
    print_trace(s);
    fail();
}

/* ---- time ------------------------------------------------------------------------------------ */

void sim_follow(struct sim *s)
{
    int64_t steady = s->f->world.steady_ms;
    s->m.now += steady - s->steady_seen;
    s->steady_seen = steady;
    model_settle(&s->m);
}

/* Each transaction looks at the time of day first; inside a batch it has begun already. */
static void follow_wall_clock(struct sim *s)
{
    int64_t apart = s->f->world.wall_ms - model_store_time(&s->m);
    s->shift_before = s->m.shift;
    if (!s->in_batch && (apart > CLOCK_STEP_MS || apart < -CLOCK_STEP_MS))
        s->m.shift += apart;
}

void sim_begin(struct sim *s, const char *format, ...)
{
    char *line = s->trace[s->traced++ % SIM_TRACE];
    int n = snprintf(line, SIM_LINE, "%d%s%s ", s->step, s->in_batch ? " batch" : "",
                     s->d == s->handles[0] ? "" : " b");
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, (size_t)(SIM_LINE - n), format, args);
    va_end(args);
    sim_follow(s);
    follow_wall_clock(s);
}

void sim_answer(struct sim *s, dibs_status expected, dibs_status answered)
{
    char *line = s->trace[(s->traced - 1) % SIM_TRACE];
    size_t n = strlen(line);
    snprintf(line + n, SIM_LINE - n, " -> %s", dibs_status_name(answered));
    if (expected != answered)
        sim_fail(s, "answered %s (%s), not %s", dibs_status_name(answered),
                 answered == DIBS_OK ? "" : s->err.message, dibs_status_name(expected));
    if (answered != DIBS_OK && (s->err.code != answered || !s->err.message[0]))
        sim_fail(s, "the refusal does not say why");
    if (answered == DIBS_OK || s->shift_before == s->m.shift)
        return;
    int64_t now = 0;
    struct dibs_error err = {0}; /* the refusal is still to be looked at */
    if (dibs_now(s->d, &now, &err) != DIBS_OK)
        sim_fail(s, "cannot ask the time: %s", err.message);
    if (now == s->m.now + s->shift_before) /* a refusal leaves no trace, nor does its clock */
        s->m.shift = s->shift_before;
}

void sim_adopt_token(struct sim *s, struct m_claim *c, int64_t token)
{
    if (token <= s->m.last_token)
        sim_fail(s, "token %" PRId64 " was given after %" PRId64, token, s->m.last_token);
    s->m.last_token = token;
    c->token = token;
}

/* ---- choices --------------------------------------------------------------------------------- */

int sim_task(struct sim *s)
{
    return s->m.task_count == 0 || sim_percent(s, 2) ? NOBODY : sim_below(s, s->m.task_count);
}

const char *sim_id(struct sim *s, int task)
{
    return task == NOBODY ? "nowhere" : s->m.tasks[task].id;
}

int sim_session(struct sim *s)
{
    return sim_below(s, MODEL_SESSIONS);
}

int sim_live_session(struct sim *s)
{
    int session = sim_session(s);
    for (int i = 0; i < MODEL_SESSIONS && !m_is_there(&s->m, session); i++)
        session = (session + 1) % MODEL_SESSIONS;
    return sim_percent(s, 95) ? session : sim_session(s);
}

int sim_task_in(struct sim *s, unsigned statuses)
{
    int first = s->m.task_count ? sim_below(s, s->m.task_count) : 0;
    for (int i = 0; i < s->m.task_count; i++) {
        int task = (first + i) % s->m.task_count;
        if (statuses >> s->m.tasks[task].status & 1)
            return task;
    }
    return sim_task(s);
}

void sim_holder(struct sim *s, int *task, int *session, int64_t *token)
{
    *task = sim_percent(s, 80) ? sim_task_in(s, 1u << DIBS_TASK_IN_PROGRESS) : sim_task(s);
    const struct m_claim *c = *task == NOBODY ? NULL : m_claim_of(&s->m, &s->m.tasks[*task]);
    *session = c && sim_percent(s, 85) ? c->session : sim_session(s);
    *token = c && sim_percent(s, 60) ? c->token : 0;
    if (c && sim_percent(s, 8))
        *token = 1 + sim_below(s, 1 + (int)(s->m.last_token & 0xffff));
}

struct dibs_strings sim_tags(unsigned mask, const char *room[3])
{
    size_t count = 0;
    for (int i = 0; i < 3; i++)
        if (mask >> i & 1)
            room[count++] = model_tags[i];
    return (struct dibs_strings){.items = room, .count = count};
}

/* ---- the loop -------------------------------------------------------------------------------- */

static const struct sim_row *choose(struct sim *s, bool for_batch)
{
    const struct sim_row *const tables[] = {sim_task_ops, sim_move_ops, sim_session_ops,
                                            sim_serve_ops};
    int sum = 0;
    for (int pass = 0, at = 0; pass < 2; pass++) {
        for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
            for (const struct sim_row *row = tables[t]; row->weight; row++) {
                if (for_batch && row->not_in_batch)
                    continue;
                if (pass == 0)
                    sum += row->weight;
                else if ((at -= row->weight) < 0)
                    return row;
            }
        }
        at = sim_below(s, sum);
    }
    return NULL;
}

static void compare(struct sim *s)
{
    sim_follow(s);
    const char *found =
        model_compare(&s->m, s->d, s->a, s->step % OVERVIEW_EVERY == 0 && !s->in_batch);
    if (found)
        sim_fail(s, "%s", found);
    dibs_arena_reset(s->a);
}

static void batch(struct sim *s)
{
    sim_begin(s, "batch of:");
    int64_t shift = s->shift_before;
    int64_t last = s->m.last_event;
    model_copy(&s->saved, &s->m);
    sim_answer(s, DIBS_OK, dibs_batch_begin(s->d, &s->err));
    s->in_batch = true;
    for (int i = 1 + sim_below(s, 5); i > 0; i--) {
        choose(s, true)->op(s);
        compare(s);
    }
    s->in_batch = false;
    if (s->m.last_event != last)
        sim_fail(s, "the journal grew before the batch was committed");
    if (sim_percent(s, 70)) {
        sim_begin(s, "batch commit");
        s->m.shift = s->shift_before; /* no transaction begins here */
        sim_answer(s, DIBS_OK, dibs_batch_commit(s->d, &s->err));
        return;
    }
    sim_begin(s, "batch cancel");
    dibs_batch_cancel(s->d);
    model_undo(&s->m, &s->saved);
    s->m.shift = shift;
}

static void diagnose(struct sim *s)
{
    struct dibs_diagnosis found = {0};
    if (dibs_diagnose(s->d, s->a, true, &found, &s->err) != DIBS_OK)
        sim_fail(s, "cannot diagnose: %s", s->err.message);
    for (size_t i = 0; i < found.count; i++)
        if (found.items[i].level == DIBS_BAD)
            sim_fail(s, "%s: %s", found.items[i].subject, found.items[i].text);
    dibs_arena_reset(s->a);
}

static uint64_t add_text(uint64_t hash, const char *text)
{
    for (const char *p = text ? text : "-"; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 0x100000001b3u; /* FNV-1a */
    return (hash ^ '\n') * 0x100000001b3u;
}

static uint64_t hash_journal(struct sim *s)
{
    uint64_t hash = 0xcbf29ce484222325u;
    int64_t since = 0;
    struct dibs_event_list page = {0};
    do {
        struct dibs_event_filter filter = {.since = since, .limit = 1000};
        if (dibs_events(s->d, s->a, &filter, &page, &s->err) != DIBS_OK)
            sim_fail(s, "cannot read the journal: %s", s->err.message);
        for (size_t i = 0; i < page.count; i++) {
            char head[64];
            since = page.items[i].number;
            snprintf(head, sizeof head, "%" PRId64 " %" PRId64, since, page.items[i].at_ms);
            hash = add_text(add_text(hash, head), page.items[i].type);
            hash = add_text(add_text(hash, page.items[i].task_id), page.items[i].data);
        }
        dibs_arena_reset(s->a);
    } while (page.count == 1000);
    return hash;
}

static void start(struct sim *s)
{
    static const char *const ids[MODEL_SESSIONS] = {"s1", "s2", "s3", "s4", "s5", "s6"};
    s->f->world.seed = s->seed * 2 + 1;
    s->chance = s->seed;
    s->steady_seen = s->f->world.steady_ms;
    model_init(&s->m);
    s->m.shift = s->f->world.wall_ms - s->m.now;
    for (int i = 0; i < MODEL_SESSIONS; i++)
        s->m.sessions[i].id = ids[i];
    s->handles[0] = s->f->d;
    for (int i = 0; i < 2; i++) {
        s->m.agents[i].id = know_agent(s->f, sim_agents[i + 1]) ? sim_agents[i + 1] : NULL;
        s->m.agents[i].seen = s->m.now;
    }
    s->handles[1] = fixture_open(s->f);
}

uint64_t sim_run(struct fixture *f, uint64_t seed, int steps)
{
    static struct sim room; /* a failed test must leave nothing behind that leaks */
    struct sim *s = &room;
    model_release(&s->m);
    model_release(&s->saved);
    *s = (struct sim){.f = f, .a = f->a, .seed = seed, .steps = steps};
    start(s);
    for (s->step = 1; s->step <= steps; s->step++) {
        s->d = s->handles[sim_percent(s, 30)];
        if (s->step <= FIRST_STEPS) /* somebody to do something, and something to do */
            (s->step % 2 ? sim_session_ops : sim_task_ops)[0].op(s);
        else if (sim_percent(s, 4))
            batch(s);
        else
            choose(s, false)->op(s);
        compare(s);
        if (s->step % DIAGNOSE_EVERY == 0)
            diagnose(s);
    }
    uint64_t hash = hash_journal(s);
    dibs_close(s->handles[1]);
    f->d = s->handles[0];
    model_release(&s->m);
    model_release(&s->saved);
    return hash;
}
