/* SPDX-License-Identifier: MIT */
/*
 * claim.c: several real processes claim at the same moment. However they fall, one gets the task
 * and the others are told the truth.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"
#include "workers.h"

enum { ACT_NEXT, ACT_NAMED };

static void make_tasks(struct place *p, int count)
{
    dibs *d = place_open(p);
    dibs_arena *a = dibs_arena_new();
    for (int i = 0; i < count; i++) {
        char id[32];
        struct dibs_task_list out = {0};
        struct dibs_error err = {0};
        snprintf(id, sizeof id, "t%d", i);
        struct dibs_task_new in = {.id = id, .title = "a task", .type = "work"};
        assert_int_equal(dibs_task_create(d, a, &in, 1, &out, &err), DIBS_OK);
    }
    dibs_arena_free(a);
    dibs_close(d);
}

/* ---- ten at once ----------------------------------------------------------------------------- */

static void claim_any(struct worker *w)
{
    struct dibs_grant g = {0};
    struct dibs_claim_next in = {.session_id = w->id};
    worker_open(w);
    worker_register(w);
    crew_barrier(w);
    dibs_status status = dibs_claim_next(w->d, w->a, &in, &g, &w->err);
    struct note answer = {.act = ACT_NEXT, .status = (int32_t)status};
    if (status == DIBS_OK) {
        answer.token = g.items[0].claim.token;
        snprintf(answer.subject, sizeof answer.subject, "%s", g.items[0].task.id);
    }
    worker_note(w, answer);
}

struct outcome {
    int granted, empty, other;
};

/* What ten workers were told, each asking once; every grant must be of another task. */
static struct outcome ten_workers_on(struct place *p, int tasks)
{
    struct outcome sum = {0};
    char taken[10][64] = {{0}};
    make_tasks(p, tasks);
    struct crew *c = crew_start(p, 10, claim_any, NULL);
    crew_wait(c);
    for (int i = 0; i < 10; i++) {
        struct notes n = crew_notes(c, i);
        assert_int_equal(n.count, 1);
        if (n.items[0].status == DIBS_OK) {
            for (int k = 0; k < sum.granted; k++)
                assert_string_not_equal(taken[k], n.items[0].subject);
            snprintf(taken[sum.granted++], 64, "%s", n.items[0].subject);
        } else if (n.items[0].status == DIBS_NOTHING_TO_CLAIM) {
            sum.empty++;
        } else {
            sum.other++;
        }
        free(n.items);
    }
    crew_free(c);
    return sum;
}

static void test_ten_workers_on_ten_tasks_get_one_each(void **state)
{
    struct outcome o = ten_workers_on(*state, 10);
    assert_int_equal(o.granted, 10);
    assert_int_equal(o.empty, 0);
    assert_int_equal(o.other, 0);
}

static void test_ten_workers_on_five_tasks_five_get_one_and_five_are_told_there_is_none(
    void **state)
{
    struct outcome o = ten_workers_on(*state, 5);
    assert_int_equal(o.granted, 5);
    assert_int_equal(o.empty, 5);
    assert_int_equal(o.other, 0);
}

/* ---- one task, everybody wants it ------------------------------------------------------------ */

#define CLAIMERS 64

static void claim_the_same(struct worker *w)
{
    int rounds = *(int *)w->context;
    worker_open(w);
    worker_register(w);
    for (int i = 0; i < rounds; i++) {
        struct dibs_claim claim = {0};
        struct note answer = {.act = ACT_NAMED, .number = i};
        snprintf(answer.subject, sizeof answer.subject, "t%d", i);
        struct dibs_claim_take in = {.task_id = answer.subject, .session_id = w->id};
        crew_barrier(w);
        answer.status = (int32_t)dibs_claim_take(w->d, w->a, &in, &claim, &w->err);
        if (answer.status == DIBS_OK)
            answer.token = claim.token;
        else
            snprintf(answer.holder, sizeof answer.holder, "%.47s", w->err.holder);
        worker_note(w, answer);
        dibs_arena_reset(w->a);
    }
}

static void test_one_of_64_wins_a_named_task_and_63_are_told_who(void **state)
{
    struct place *p = *state;
    int rounds = scaled(100, 10);
    make_tasks(p, rounds);
    struct crew *c = crew_start(p, CLAIMERS, claim_the_same, &rounds);
    crew_wait(c);
    struct notes n[CLAIMERS];
    for (int i = 0; i < CLAIMERS; i++) {
        n[i] = crew_notes(c, i);
        assert_int_equal(n[i].count, rounds);
    }
    for (int round = 0; round < rounds; round++) {
        int winner = -1;
        for (int i = 0; i < CLAIMERS; i++) {
            if (n[i].items[round].status != DIBS_OK)
                continue;
            assert_int_equal(winner, -1);
            winner = i;
        }
        assert_int_not_equal(winner, -1);
        char name[16];
        snprintf(name, sizeof name, "w%d", winner);
        for (int i = 0; i < CLAIMERS; i++) {
            if (i == winner)
                continue;
            assert_int_equal(n[i].items[round].status, DIBS_TASK_ALREADY_CLAIMED);
            assert_string_equal(n[i].items[round].holder, name);
        }
    }
    for (int i = 0; i < CLAIMERS; i++)
        free(n[i].items);
    crew_free(c);

    /* the losers are on record, too */
    dibs *d = place_open(p);
    struct replay *r = replay_new();
    const char *wrong = replay_run(r, d);
    if (wrong)
        fail_msg("%s", wrong);
    assert_int_equal(replay_events(r, "task:claim-refused"), rounds * (CLAIMERS - 1));
    replay_free(r);
    dibs_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_ten_workers_on_ten_tasks_get_one_each),
        PLACE_TEST(test_ten_workers_on_five_tasks_five_get_one_and_five_are_told_there_is_none),
        PLACE_TEST(test_one_of_64_wins_a_named_task_and_63_are_told_who),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
