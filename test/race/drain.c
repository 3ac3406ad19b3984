/* SPDX-License-Identifier: MIT */
/*
 * drain.c: many processes empty one queue. test-timeout: 600
 *
 * 64 workers on 20,000 tasks, claiming by name and claiming the next, completing most of what they
 * get, failing, giving back and abandoning some on purpose. Afterwards the journal is played back
 * and compared with what each worker was answered:
 *
 *   1. every task was completed exactly once, by the one who was told so;
 *   2. tokens only grow, and each was given to one worker;
 *   3. nobody was told "nothing to claim" while at every moment between question and answer there
 *      was something to claim;
 *   4. no other answer than these ever came back: no "busy", no failure.
 *
 * The second test keeps a queue close to empty for all of its time, as "nothing" is only worth
 * checking where it is often the answer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"
#include "workers.h"

enum act { ACT_NEXT, ACT_NAMED, ACT_COMPLETE, ACT_FAIL, ACT_RELEASE, ACT_COUNT };

struct drain {
    int tasks;
    volatile int64_t *done; /* completed so far, by all */
};

/* What a worker holds and lets lapse. It must not ask for that by name: its lease would be
 * extended, which leaves no event, and the journal would no longer tell when it ends. */
struct abandoned {
    char ids[256][16];
    size_t count;
};

/* ---- the workers ----------------------------------------------------------------------------- */

static void ask_next(struct worker *w, struct note *n, int64_t ttl_ms, int64_t wait_ms,
                     const char *type)
{
    struct dibs_grant g = {0};
    struct dibs_claim_next in = {.session_id = w->id,
                                 .ttl_ms = ttl_ms,
                                 .wait_ms = wait_ms,
                                 .types = {.items = &type, .count = type ? 1 : 0}};
    n->act = ACT_NEXT;
    n->from = worker_journal_end(w);
    must(w, dibs_now(w->d, &n->at_ms, &w->err));
    n->status = (int32_t)dibs_claim_next(w->d, w->a, &in, &g, &w->err);
    if (n->status == DIBS_NOTHING_TO_CLAIM)
        n->to = worker_journal_end(w);
    if (n->status != DIBS_OK)
        return;
    check(w, g.count == 1);
    n->token = g.items[0].claim.token;
    snprintf(n->subject, sizeof n->subject, "%s", g.items[0].task.id);
}

static void ask_named(struct worker *w, struct note *n, int task, int64_t ttl_ms)
{
    struct dibs_claim claim = {0};
    n->act = ACT_NAMED;
    snprintf(n->subject, sizeof n->subject, "t%d", task);
    struct dibs_claim_take in = {.task_id = n->subject, .session_id = w->id, .ttl_ms = ttl_ms};
    n->status = (int32_t)dibs_claim_take(w->d, w->a, &in, &claim, &w->err);
    if (n->status == DIBS_OK)
        n->token = claim.token;
    else
        snprintf(n->holder, sizeof n->holder, "%.47s", w->err.holder);
}

/* Reports on what it has been granted. */
static void report(struct worker *w, struct note n, enum act act)
{
    char result[64];
    struct dibs_task task = {0};
    struct dibs_released released = {0};
    snprintf(result, sizeof result, "{\"token\":%" PRId64 "}", n.token);
    struct dibs_report in = {.task_id = n.subject,
                             .session_id = w->id,
                             .token = n.token,
                             .result = result,
                             .error = act == ACT_FAIL ? "on purpose" : NULL};
    struct dibs_release back = {.task_id = n.subject, .session_id = w->id, .token = n.token};
    n.act = (int32_t)act;
    if (act == ACT_RELEASE)
        n.status = (int32_t)dibs_claim_release(w->d, w->a, &back, &released, &w->err);
    else if (act == ACT_FAIL)
        n.status = (int32_t)dibs_fail(w->d, w->a, &in, &task, &w->err);
    else
        n.status = (int32_t)dibs_complete(w->d, w->a, &in, &task, &w->err);
    worker_note(w, n);
}

static bool is_abandoned(const struct abandoned *a, int task)
{
    char id[16];
    snprintf(id, sizeof id, "t%d", task);
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->ids[i], id) == 0)
            return true;
    return false;
}

/* One turn of a worker of the big test; returns how long to wait for a task in the next. */
static int64_t work_once(struct worker *w, const struct drain *drain, struct abandoned *a,
                         int64_t wait_ms)
{
    struct note n = {0};
    uint64_t dice = chance(&w->seed) % 1000;
    int named = (int)(chance(&w->seed) % (uint64_t)drain->tasks);
    bool abandon = dice >= 995 && a->count < 256; /* its lease ends by itself, a second later */
    int64_t ttl_ms = abandon ? 1000 : 0;
    if (chance(&w->seed) % 4 == 0 && !is_abandoned(a, named))
        ask_named(w, &n, named, ttl_ms);
    else
        ask_next(w, &n, ttl_ms, wait_ms, NULL);
    worker_note(w, n);
    if (n.status != DIBS_OK)
        return 200;
    if (abandon) {
        snprintf(a->ids[a->count++], sizeof a->ids[0], "%.15s", n.subject);
        return 0;
    }
    report(w, n, dice < 10 ? ACT_FAIL : dice < 30 ? ACT_RELEASE : ACT_COMPLETE);
    if (dice >= 30)
        __atomic_add_fetch(drain->done, 1, __ATOMIC_SEQ_CST);
    return 0;
}

static void drain_queue(struct worker *w)
{
    const struct drain *drain = w->context;
    worker_open(w);
    worker_register(w);
    crew_barrier(w);
    struct abandoned abandoned = {0};
    int64_t wait_ms = 0;
    while (__atomic_load_n(drain->done, __ATOMIC_SEQ_CST) < drain->tasks) {
        wait_ms = work_once(w, drain, &abandoned, wait_ms);
        dibs_arena_reset(w->a);
    }
}

/* ---- what they were told, against the journal ------------------------------------------------ */

struct tally {
    int64_t granted, refused, empty, completed;
};

static void check_grant(const struct replay *r, const struct note *n, const char *who)
{
    const struct replay_grant *g = replay_find(r, n->token);
    if (!g)
        fail_msg("'%s' was granted token %" PRId64 ", the journal knows of none", who, n->token);
    assert_string_equal(g->session, who);
    assert_string_equal(g->subject, n->subject);
}

static void check_refusal(const struct note *n, const char *who, struct tally *sum)
{
    if (n->status == DIBS_TASK_ALREADY_CLAIMED) {
        assert_true(n->holder[0] != '\0');
        assert_string_not_equal(n->holder, who);
        sum->refused++;
    } else if (n->status != DIBS_TASK_NOT_CLAIMABLE) {
        fail_msg("'%s' was answered %s", who, dibs_status_name((dibs_status)n->status));
    }
}

static void check_note(const struct replay *r, const struct note *n, const char *who,
                       const char *type, struct tally *sum)
{
    if (n->act == ACT_COMPLETE || n->act == ACT_FAIL || n->act == ACT_RELEASE) {
        if (n->status != DIBS_OK)
            fail_msg("'%s' reported on '%s' and was answered %s", who, n->subject,
                     dibs_status_name((dibs_status)n->status));
        sum->completed += n->act == ACT_COMPLETE;
    } else if (n->status == DIBS_OK) {
        check_grant(r, n, who);
        sum->granted++;
    } else if (n->act == ACT_NEXT && n->status == DIBS_NOTHING_TO_CLAIM) {
        sum->empty++;
        if (!replay_was_empty(r, type, n->from, n->to, n->at_ms))
            fail_msg("'%s' was told there is nothing between event %" PRId64 " and %" PRId64
                     ", but there always was",
                     who, n->from, n->to);
    } else {
        check_refusal(n, who, sum);
    }
}

static struct tally check_notes(struct crew *c, const struct replay *r, const char *type)
{
    struct tally sum = {0};
    for (int i = 0; i < crew_count(c); i++) {
        char who[16];
        struct notes n = crew_notes(c, i);
        snprintf(who, sizeof who, "w%d", i);
        for (size_t k = 0; k < n.count; k++)
            check_note(r, &n.items[k], who, type, &sum);
        free(n.items);
    }
    return sum;
}

static struct replay *replay_of(dibs *d)
{
    struct replay *r = replay_new();
    const char *wrong = replay_run(r, d);
    if (wrong)
        fail_msg("%s", wrong);
    return r;
}

static int64_t tasks_in(dibs *d, const char *status)
{
    struct dibs_stats stats = {0};
    struct dibs_error err = {0};
    int64_t count = 0;
    dibs_arena *a = dibs_arena_new();
    assert_int_equal(dibs_stats(d, a, &stats, &err), DIBS_OK);
    for (size_t i = 0; i < stats.tasks_by_status.count; i++)
        if (strcmp(stats.tasks_by_status.items[i].name, status) == 0)
            count = stats.tasks_by_status.items[i].count;
    dibs_arena_free(a);
    return count;
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void make_tasks(struct place *p, int count)
{
    static const int64_t priorities[] = {25, 50, 75};
    dibs *d = place_open(p);
    dibs_arena *a = dibs_arena_new();
    struct dibs_error err = {0};
    assert_int_equal(dibs_batch_begin(d, &err), DIBS_OK);
    for (int i = 0; i < count; i++) {
        char id[32];
        struct dibs_task_list out = {0};
        snprintf(id, sizeof id, "t%d", i);
        struct dibs_task_new in = {.id = id,
                                   .title = "a task",
                                   .type = "work",
                                   .priority = DIBS_VALUE(priorities[i % 3]),
                                   .max_attempts = DIBS_VALUE(0)};
        assert_int_equal(dibs_task_create(d, a, &in, 1, &out, &err), DIBS_OK);
        dibs_arena_reset(a);
    }
    assert_int_equal(dibs_batch_commit(d, &err), DIBS_OK);
    dibs_arena_free(a);
    dibs_close(d);
}

static void test_64_processes_complete_20000_tasks_once_each(void **state)
{
    struct place *p = *state;
    static const char *const settings[] = {"minTTL=1s"};
    p->settings = (struct dibs_strings){.items = settings, .count = 1};
    struct drain drain = {.tasks = scaled(20000, 500), .done = shared_memory(sizeof(int64_t))};
    make_tasks(p, drain.tasks);
    int64_t began = steady_ms();
    struct crew *c = crew_start(p, 64, drain_queue, &drain);
    crew_wait(c);
    int64_t took = steady_ms() - began;

    dibs *d = place_open(p);
    struct replay *r = replay_of(d);
    struct tally sum = check_notes(c, r, NULL);
    printf("# %d tasks in %" PRId64 " ms: %" PRId64 " grants, %" PRId64 " refused, %" PRId64
           " told there is nothing\n",
           drain.tasks, took, sum.granted, sum.refused, sum.empty);
    assert_int_equal(sum.completed, drain.tasks);
    assert_int_equal(tasks_in(d, "completed"), drain.tasks);
    assert_int_equal(replay_events(r, "task:completed"), drain.tasks);
    assert_int_equal(replay_grant_count(r), sum.granted);
    assert_int_equal(replay_events(r, "task:claim-refused"), sum.refused);
    assert_int_equal(replay_held(r), 0);
    replay_free(r);
    dibs_close(d);
    crew_free(c);
}

/* ---- a queue that is empty half of the time -------------------------------------------------- */

#define HANDFUL 20

struct feeding {
    const struct drain *drain;
    int made;
};

static bool nearly_all_eaten(void *context)
{
    const struct feeding *f = context;
    return f->made - __atomic_load_n(f->drain->done, __ATOMIC_SEQ_CST) < 3;
}

/* Throws in a handful of tasks whenever the one before is eaten. Of another type there is always
 * plenty: only "rare" ones are asked for. */
static void feed(struct worker *w, const struct drain *drain)
{
    struct feeding f = {.drain = drain};
    while (f.made < drain->tasks) {
        struct dibs_task_new in[HANDFUL * 2] = {{0}};
        struct dibs_task_list out = {0};
        for (int i = 0; i < HANDFUL * 2; i++)
            in[i] = (struct dibs_task_new){.title = "a task", .type = i % 2 ? "rare" : "common"};
        must(w, dibs_task_create(w->d, w->a, in, HANDFUL * 2, &out, &w->err));
        f.made += HANDFUL;
        dibs_arena_reset(w->a);
        check(w, wait_until(nearly_all_eaten, &f, 60 * 1000));
    }
}

static void eat(struct worker *w, const struct drain *drain)
{
    while (__atomic_load_n(drain->done, __ATOMIC_SEQ_CST) < drain->tasks) {
        struct note n = {0};
        bool give_back = chance(&w->seed) % 4 == 0;
        ask_next(w, &n, 0, 0, "rare");
        worker_note(w, n);
        if (n.status == DIBS_OK)
            report(w, n, give_back ? ACT_RELEASE : ACT_COMPLETE);
        if (n.status == DIBS_OK && !give_back)
            __atomic_add_fetch(drain->done, 1, __ATOMIC_SEQ_CST);
        dibs_arena_reset(w->a);
    }
}

static void feed_or_eat(struct worker *w)
{
    worker_open(w);
    worker_register(w);
    crew_barrier(w);
    if (w->number == 0)
        feed(w, w->context);
    else
        eat(w, w->context);
}

static void test_nobody_is_told_there_is_nothing_while_there_is_something(void **state)
{
    struct place *p = *state;
    struct drain drain = {.tasks = scaled(50, 5) * HANDFUL, .done = shared_memory(sizeof(int64_t))};
    struct crew *c = crew_start(p, 6, feed_or_eat, &drain);
    crew_wait(c);
    dibs *d = place_open(p);
    struct replay *r = replay_of(d);
    struct tally sum = check_notes(c, r, "rare");
    printf("# %d tasks: %" PRId64 " grants, %" PRId64 " told there is nothing\n", drain.tasks,
           sum.granted, sum.empty);
    assert_int_equal(sum.completed, drain.tasks);
    assert_true(sum.empty > 0);
    replay_free(r);
    dibs_close(d);
    crew_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_64_processes_complete_20000_tasks_once_each),
        PLACE_TEST(test_nobody_is_told_there_is_nothing_while_there_is_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
