/* SPDX-License-Identifier: MIT */
/* acked.c: see acked.h. */
#include "acked.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the notes say of one grant. */
struct fact {
    struct held held;
    int ended;       /* the act that ended it and was acknowledged; -1: none */
    int maybe_ended; /* an act that may have; -1: none */
    int64_t beats;
    int64_t percent, maybe_percent; /* -1: none */
};

struct facts {
    dibs *d;
    dibs_arena *a;
    const struct replay *replay;
    const char *session;
    int flags;
    struct fact *items;
    size_t count;
    int unknown_grants; /* asked for, and not told whether granted */
    bool registered;
};

static void clash(const struct facts *f, const struct note *n, const char *what)
{
    fail_msg("'%s' asked for %s '%s' (token %" PRId64 ") and was answered %s, but %s", f->session,
             act_name((enum act)n->act), n->subject, n->token,
             n->status == ASKED ? "nothing" : dibs_status_name((dibs_status)n->status), what);
}

static bool is_grant(int act)
{
    return act == ACT_CLAIM || act == ACT_NEXT || act == ACT_LOCK;
}

static bool is_end(int act)
{
    return act == ACT_COMPLETE || act == ACT_FAIL || act == ACT_RELEASE || act == ACT_UNLOCK;
}

static struct fact *fact_of(struct facts *f, int64_t token)
{
    for (size_t i = f->count; i > 0; i--)
        if (f->items[i - 1].held.token == token)
            return &f->items[i - 1];
    return NULL;
}

/* ---- tasks made ------------------------------------------------------------------------------ */

static int tasks_there(struct facts *f, const struct note *n)
{
    int there = 0;
    for (int i = 0; i < n->number; i++) {
        char id[80];
        struct dibs_task task = {0};
        struct dibs_error err = {0};
        snprintf(id, sizeof id, "%s.%d", n->subject, i);
        dibs_arena_reset(f->a);
        dibs_status status = dibs_task_get(f->d, f->a, id, &task, &err);
        if (status != DIBS_OK && status != DIBS_TASK_NOT_FOUND)
            fail_msg("cannot read task '%s': %s", id, err.message);
        there += status == DIBS_OK;
    }
    return there;
}

static int tasks_made_once(struct facts *f, const char *key)
{
    struct dibs_task_list list = {0};
    struct dibs_error err = {0};
    struct dibs_task_filter filter = {.type = key};
    dibs_arena_reset(f->a);
    if (dibs_task_list(f->d, f->a, &filter, &list, &err) != DIBS_OK)
        fail_msg("cannot list tasks: %s", err.message);
    return (int)list.count;
}

/* The task that a key stands for: the one whose id was told, else any (which takes a search). */
static int task_of_key(struct facts *f, const struct note *n)
{
    struct dibs_task task = {0};
    struct dibs_error err = {0};
    if (n->status != DIBS_OK)
        return tasks_made_once(f, n->subject);
    dibs_arena_reset(f->a);
    return dibs_task_get(f->d, f->a, n->holder, &task, &err) == DIBS_OK &&
           strcmp(task.type, n->subject) == 0;
}

static void check_created(struct facts *f, const struct note *n)
{
    bool once = n->act == ACT_ONCE;
    int all = once ? 1 : (int)n->number;
    int there = once ? task_of_key(f, n) : tasks_there(f, n);
    if (n->status == DIBS_OK ? there != all : there != 0 && there != all)
        clash(f, n, there == 0 ? "nothing is there" : "a part of it is there");
}

/* ---- what each note says --------------------------------------------------------------------- */

static void learn_grant(struct facts *f, const struct note *n)
{
    if (fact_of(f, n->token))
        return; /* claimed again by its holder: extended */
    struct fact *more = realloc(f->items, (f->count + 1) * sizeof *more);
    assert_non_null(more);
    f->items = more;
    more[f->count] = (struct fact){
        .held = {.token = n->token, .is_lock = n->act == ACT_LOCK},
        .ended = -1,
        .maybe_ended = -1,
        .percent = -1,
        .maybe_percent = -1,
    };
    snprintf(more[f->count++].held.subject, sizeof more->held.subject, "%s", n->subject);
}

static void learn_holder(struct facts *f, const struct note *n)
{
    struct fact *fact = fact_of(f, n->token);
    if (!fact)
        clash(f, n, "it was never granted that");
    if (n->act == ACT_PROGRESS)
        fact->percent = n->number;
    if (n->act == ACT_BEAT || n->act == ACT_PROGRESS)
        fact->beats++;
    if (is_end(n->act))
        fact->ended = n->act;
}

/* An act without an answer, or answered with a failure. */
static void learn_unknown(struct facts *f, const struct note *n)
{
    struct fact *fact = fact_of(f, n->token);
    f->unknown_grants += is_grant(n->act);
    if (fact && is_end(n->act))
        fact->maybe_ended = n->act;
    if (fact && n->act == ACT_PROGRESS)
        fact->maybe_percent = n->number;
}

/* Which refusals a worker may meet that does nothing wrong. */
static bool refusal_is_fair(struct facts *f, const struct note *n)
{
    struct fact *fact = n->token ? fact_of(f, n->token) : NULL;
    switch (n->status) {
    case DIBS_NOTHING_TO_CLAIM: return n->act == ACT_NEXT;
    case DIBS_LOCK_HELD: return n->act == ACT_LOCK;
    case DIBS_SESSION_NOT_FOUND: return !f->registered;
    case DIBS_TASK_ALREADY_CLAIMED:
    case DIBS_TASK_NOT_CLAIMABLE:
    case DIBS_TASK_NOT_FOUND: return n->act == ACT_CLAIM;
    /* it did not know that an earlier try had succeeded */
    default: return fact && fact->maybe_ended >= 0;
    }
}

/* An answer that is neither a failure nor about making tasks. */
static void learn_answer(struct facts *f, const struct note *n)
{
    if (n->status != DIBS_OK && !refusal_is_fair(f, n))
        clash(f, n, "there was no reason to refuse it");
    if (n->status != DIBS_OK)
        return;
    if (n->act == ACT_REGISTER)
        f->registered = true;
    else if (is_grant(n->act))
        learn_grant(f, n);
    else if (n->token)
        learn_holder(f, n);
}

static void learn(struct facts *f, const struct note *n)
{
    bool failed = n->status != ASKED && dibs_status_is_failure((dibs_status)n->status);
    if (failed && !(f->flags & ACKED_FAILURES))
        clash(f, n, "there was no reason to fail");
    if (n->act == ACT_CREATE || n->act == ACT_BATCH || n->act == ACT_ONCE)
        check_created(f, n);
    else if (n->status == ASKED || failed)
        learn_unknown(f, n);
    else
        learn_answer(f, n);
}

/* ---- facts against the store ----------------------------------------------------------------- */

static void contradict(const struct facts *f, const struct fact *fact, const char *what)
{
    fail_msg("token %" PRId64 " of '%s' on '%s' (%s%s): %s", fact->held.token, f->session,
             fact->held.subject, fact->ended >= 0 ? "ended by " : "held",
             fact->ended >= 0 ? act_name((enum act)fact->ended) : "", what);
}

static const char *reason_of(int act)
{
    return act == ACT_COMPLETE ? "completed" : act == ACT_FAIL ? "failed" : "manual";
}

static void check_end(const struct facts *f, const struct fact *fact, const char *end_reason)
{
    bool as_told = end_reason && fact->ended >= 0 && !strcmp(end_reason, reason_of(fact->ended));
    bool as_asked =
        end_reason && fact->maybe_ended >= 0 && !strcmp(end_reason, reason_of(fact->maybe_ended));
    if (fact->ended >= 0 && !as_told)
        contradict(f, fact, end_reason ? end_reason : "is not ended in the store");
    /* those who are killed last may find the first dead already */
    bool was_dead = end_reason && !strcmp(end_reason, "process_dead");
    if (fact->ended < 0 && end_reason && !as_asked && !was_dead && (f->flags & ACKED_FRESH))
        contradict(f, fact, end_reason);
}

static void check_completed(struct facts *f, const struct fact *fact)
{
    struct dibs_task task = {0};
    struct dibs_error err = {0};
    char result[48];
    result_of(fact->held.token, result);
    if (dibs_task_get(f->d, f->a, fact->held.subject, &task, &err) != DIBS_OK)
        contradict(f, fact, err.message);
    if (task.status != DIBS_TASK_COMPLETED || !task.result || strcmp(task.result, result))
        contradict(f, fact, "the task has another status or result");
}

static void check_attempt(struct facts *f, const struct fact *fact)
{
    struct dibs_history history = {0};
    struct dibs_error err = {0};
    const struct dibs_claim *claim = NULL;
    dibs_arena_reset(f->a);
    if (dibs_task_history(f->d, f->a, fact->held.subject, &history, &err) != DIBS_OK)
        contradict(f, fact, err.message);
    for (size_t i = 0; i < history.attempt_count; i++)
        if (history.attempts[i].token == fact->held.token)
            claim = &history.attempts[i];
    if (!claim || strcmp(claim->session_id, f->session))
        contradict(f, fact, claim ? claim->session_id : "the store knows of no such grant");
    if (claim->heartbeat_count < fact->beats)
        contradict(f, fact, "heartbeats are missing");
    if (claim->progress_percent != fact->percent && claim->progress_percent != fact->maybe_percent)
        contradict(f, fact, "its progress is another");
    check_end(f, fact, claim->end_reason);
    if (fact->ended == ACT_COMPLETE)
        check_completed(f, fact);
}

static bool lock_is_held(struct facts *f, const struct fact *fact)
{
    struct dibs_claim_list list = {0};
    struct dibs_error err = {0};
    struct dibs_lock_filter filter = {.resource = fact->held.subject, .session_id = f->session};
    dibs_arena_reset(f->a);
    if (dibs_lock_list(f->d, f->a, &filter, &list, &err) != DIBS_OK)
        contradict(f, fact, err.message);
    return list.count == 1 && list.items[0].token == fact->held.token;
}

static void check_lock(struct facts *f, const struct fact *fact)
{
    const struct replay_grant *g = replay_find(f->replay, fact->held.token);
    if (!g || strcmp(g->session, f->session) || strcmp(g->subject, fact->held.subject))
        contradict(f, fact, "the journal knows of no such grant");
    if (fact->ended >= 0 && strcmp(g->ended, "lock:released"))
        contradict(f, fact, "the journal has not released it");
    if (!(f->flags & ACKED_FRESH))
        return;
    bool held = lock_is_held(f, fact);
    if (held != (g->ended[0] == '\0'))
        contradict(f, fact, "the journal and the list of locks disagree");
    if (fact->ended < 0 && fact->maybe_ended < 0 && !held && !g->was_dead)
        contradict(f, fact, "it is not held in the store");
}

/* Every grant under this name must be one that was told, or one of those nobody was told about. */
static void check_nothing_else(struct facts *f)
{
    int unknown = 0;
    for (size_t i = 0; i < replay_grant_count(f->replay); i++) {
        const struct replay_grant *g = replay_grant_at(f->replay, i);
        if (strcmp(g->session, f->session) == 0 && !fact_of(f, g->token))
            unknown++;
    }
    if (unknown > f->unknown_grants)
        fail_msg("'%s' was granted %d things without knowing, and asked for %d", f->session,
                 unknown, f->unknown_grants);
}

void acked_check(dibs *d, const struct replay *r, const char *session, struct notes n, int flags)
{
    struct facts f = {
        .d = d, .a = dibs_arena_new(), .replay = r, .session = session, .flags = flags};
    for (size_t i = 0; i < n.count; i++) {
        bool answered = n.items[i].status == ASKED && i + 1 < n.count;
        if (!answered)
            learn(&f, &n.items[i]);
    }
    for (size_t i = 0; i < f.count; i++) {
        if (f.items[i].held.is_lock)
            check_lock(&f, &f.items[i]);
        else
            check_attempt(&f, &f.items[i]);
    }
    check_nothing_else(&f);
    free(f.items);
    dibs_arena_free(f.a);
}

/* ---- the next user --------------------------------------------------------------------------- */

#define must_be_ok(call)                                                                           \
    do {                                                                                           \
        dibs_status status_ = (call);                                                              \
        if (status_ != DIBS_OK)                                                                    \
            fail_msg("%s: %s: %s", #call, dibs_status_name(status_), err.message);                 \
    } while (0)

void expect_usable(dibs *d)
{
    struct dibs_error err = {0};
    struct dibs_session session = {0};
    struct dibs_task_list made = {0};
    struct dibs_claim claim = {0};
    struct dibs_task task = {0};
    dibs_arena *a = dibs_arena_new();
    struct dibs_session_new who = {.id = "next-user"};
    struct dibs_task_new what = {.title = "afterwards", .type = "afterwards"};
    must_be_ok(dibs_session_register(d, a, &who, &session, &err));
    must_be_ok(dibs_task_create(d, a, &what, 1, &made, &err));
    struct dibs_claim_take take = {.task_id = made.items[0].id, .session_id = who.id};
    must_be_ok(dibs_claim_take(d, a, &take, &claim, &err));
    struct dibs_report done = {
        .task_id = take.task_id, .session_id = who.id, .token = claim.token, .result = "1"};
    must_be_ok(dibs_complete(d, a, &done, &task, &err));
    dibs_arena_free(a);
}

void crash_check(const struct crash *c)
{
    dibs *d = place_open(c->place);
    assert_true(place_is_sound(c->place, d));
    struct replay *r = c->replay ? c->replay : replay_new();
    const char *wrong = replay_run(r, d);
    if (wrong)
        fail_msg("%s", wrong);
    acked_check(d, r, c->session, c->notes, c->flags);
    expect_usable(d);
    assert_true(place_is_sound(c->place, d));
    if (!c->replay)
        replay_free(r);
    dibs_close(d);
}
