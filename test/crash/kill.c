/* SPDX-License-Identifier: MIT */
/*
 * kill.c: kill -9 at random moments. test-timeout: 600
 *
 * Two hundred rounds on one store that grows old with them. In each, a few workers do a bit of
 * everything as fast as they can; a moment later all are killed. Then the store is opened, looked
 * over and compared with what they were answered (acked.h), and the dead are cleaned up after, in
 * some rounds by a process that is killed, too. The worker's log is written with write(2), which
 * a killed process does not lose.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acked.h"

#define WORKERS 4
#define HELD_MAX 6
#define ROUND_MS_MAX 40

struct round {
    int number;
    uint64_t seed;
};

static const char *const settings[] = {"autoCleanup=off", "eventRetention=3s"};

/* ---- a worker's life ------------------------------------------------------------------------- */

struct life {
    struct worker *w;
    int round;
    struct held held[HELD_MAX];
    int held_count;
    int serial;
};

static uint64_t dice(struct life *l, uint64_t sides)
{
    return chance(&l->w->seed) % sides;
}

static void keep(struct life *l, const struct held *h)
{
    for (int i = 0; i < l->held_count; i++)
        if (l->held[i].token == h->token)
            return; /* extended */
    l->held[l->held_count++] = *h;
}

static void make_tasks(struct life *l)
{
    char name[64];
    snprintf(name, sizeof name, "r%d-%d-%d", l->round, l->w->number, l->serial++);
    uint64_t how = dice(l, 8);
    if (how == 0)
        act_once(l->w, name);
    else if (how < 4)
        act_batch(l->w, name, 1 + (int)dice(l, 3));
    else
        act_create(l->w, name, 1 + (int)dice(l, 3));
}

static void get_something(struct life *l)
{
    char name[64];
    struct held h = {0};
    dibs_status status = DIBS_OK;
    uint64_t how = dice(l, 10);
    if (l->held_count == HELD_MAX)
        return;
    if (how < 3) { /* something that another one may hold, or that may not be there */
        snprintf(name, sizeof name, "r%d-%d-%d.0", l->round, (int)dice(l, WORKERS),
                 (int)dice(l, (uint64_t)l->serial + 2));
        status = act_claim(l->w, name, &h);
    } else if (how < 5) {
        /* a session takes a lock in one mode only: that mode comes with the name */
        int which = (int)dice(l, 3);
        snprintf(name, sizeof name, "lock-%d", which);
        status = act_lock(l->w, name, which == 0, dice(l, 2) * 30, &h);
    } else {
        status = act_next(l->w, &h);
    }
    if (status == DIBS_OK)
        keep(l, &h);
}

/* Does something with one of the things it holds; an end takes it off the list. */
static void use_something(struct life *l)
{
    if (l->held_count == 0)
        return;
    int at = (int)dice(l, (uint64_t)l->held_count);
    struct held h = l->held[at];
    uint64_t how = dice(l, 10);
    if (!h.is_lock && how < 4) {
        if (how < 2)
            act_beat(l->w, &h);
        else
            act_progress(l->w, &h, (int)dice(l, 101));
        return;
    }
    l->held[at] = l->held[--l->held_count];
    if (h.is_lock)
        act_unlock(l->w, &h);
    else if (how == 4)
        act_fail(l->w, &h);
    else if (how == 5)
        act_release(l->w, &h);
    else
        act_complete(l->w, &h);
}

static void live(struct worker *w)
{
    const struct round *round = w->context;
    struct life l = {.w = w, .round = round->number};
    snprintf(w->id, sizeof w->id, "r%dw%d", round->number, w->number);
    w->seed = round->seed + (uint64_t)w->number;
    if (act_open(w) != DIBS_OK || act_register(w) != DIBS_OK)
        return;
    for (;;) {
        uint64_t what = dice(&l, 100);
        if (what < 25)
            make_tasks(&l);
        else if (what < 55)
            get_something(&l);
        else if (what < 95)
            use_something(&l);
        else if (what < 98)
            act_session_beat(w);
        else
            act_prune(w);
    }
}

/* ---- afterwards ------------------------------------------------------------------------------ */

struct kept {
    char session[48];
    struct notes notes;
};

struct trial {
    struct place *place;
    struct replay *replay;
    uint64_t seed;
    struct kept *kept; /* WORKERS for each round */
    int64_t answers, unanswered;
};

static void play_on(struct trial *t, dibs *d)
{
    assert_true(place_is_sound(t->place, d));
    const char *wrong = replay_run(t->replay, d);
    if (wrong)
        fail_msg("%s", wrong);
}

static void check_workers(struct trial *t, struct crew *c, int round)
{
    dibs *d = place_open(t->place);
    play_on(t, d);
    for (int i = 0; i < WORKERS; i++) {
        struct kept *k = &t->kept[round * WORKERS + i];
        snprintf(k->session, sizeof k->session, "r%dw%d", round, i);
        k->notes = crew_notes(c, i);
        acked_check(d, t->replay, k->session, k->notes, ACKED_FRESH);
        size_t count = k->notes.count;
        bool cut = count > 0 && k->notes.items[count - 1].status == ASKED;
        t->unanswered += cut;
        t->answers += (int64_t)(count - cut) / 2;
    }
    dibs_close(d);
}

static void clean(struct worker *w)
{
    if (act_open(w) == DIBS_OK)
        act_cleanup(w);
}

/* The claims and locks of the dead are free again, whoever sweeps and however often that is cut
 * short. */
static void clean_up(struct trial *t, int round)
{
    struct dibs_error err = {0};
    struct dibs_sweep sweep = {0};
    struct dibs_in_flight left = {0};
    struct dibs_claim_list locks = {0};
    bool cut_short = round % 3 == 0;
    if (cut_short) {
        struct crew *c = crew_start(t->place, 1, clean, NULL);
        pause_ms((int64_t)(chance(&t->seed) % 8));
        crew_kill(c);
        crew_free(c);
    }
    dibs *d = place_open(t->place);
    dibs_arena *a = dibs_arena_new();
    if (cut_short)
        play_on(t, d);
    assert_int_equal(dibs_cleanup(d, a, &sweep, &err), DIBS_OK);
    struct dibs_in_flight_filter all = {.include_expired = true};
    assert_int_equal(dibs_in_flight(d, a, &all, &left, &err), DIBS_OK);
    assert_int_equal(left.total, 0);
    assert_int_equal(dibs_lock_list(d, a, &(struct dibs_lock_filter){0}, &locks, &err), DIBS_OK);
    assert_int_equal(locks.count, 0);
    expect_usable(d);
    dibs_arena_free(a);
    dibs_close(d);
}

static void check_all_again(struct trial *t, int rounds)
{
    dibs *d = place_open(t->place);
    play_on(t, d);
    for (int i = 0; i < rounds * WORKERS; i++) {
        acked_check(d, t->replay, t->kept[i].session, t->kept[i].notes, 0);
        free(t->kept[i].notes.items);
    }
    dibs_close(d);
}

static void test_nothing_acknowledged_is_lost_by_kill_9(void **state)
{
    struct place *p = *state;
    int rounds = scaled(200, 10);
    p->settings = (struct dibs_strings){.items = settings, .count = 2};
    struct trial t = {.place = p,
                      .replay = replay_new(),
                      .seed = test_seed(),
                      .kept = calloc((size_t)rounds * WORKERS, sizeof *t.kept)};
    assert_non_null(t.kept);
    for (int i = 0; i < rounds; i++) {
        struct round round = {.number = i, .seed = chance(&t.seed)};
        struct crew *c = crew_start(p, WORKERS, live, &round);
        pause_ms((int64_t)(chance(&t.seed) % ROUND_MS_MAX));
        crew_kill(c);
        check_workers(&t, c, i);
        crew_free(c);
        clean_up(&t, i);
    }
    check_all_again(&t, rounds);
    printf("# %d rounds, %" PRId64 " answers, %" PRId64 " workers killed before the answer\n",
           rounds, t.answers, t.unanswered);
    assert_true(t.answers > 0 && t.unanswered > 0);
    replay_free(t.replay);
    free(t.kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_nothing_acknowledged_is_lost_by_kill_9),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
