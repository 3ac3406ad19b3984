/* SPDX-License-Identifier: MIT */
/*
 * lock.c: named locks between real processes. The counter files here have no protection of their
 * own, so that one lost update is enough to show that two were inside at once.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "replay.h"
#include "workers.h"

#define LOCKERS 16
#define COUNTERS 4 /* each with a lock of its own */
#define WAIT_MS (5 * 60 * 1000)

struct locking {
    int rounds;                 /* of each worker */
    volatile int64_t *readers;  /* how many hold each lock as readers now */
    volatile int64_t *together; /* the most readers that were in at once */
};

static void name_of(int counter, char out[16])
{
    snprintf(out, 16, "counter-%d", counter);
}

static int64_t take(struct worker *w, const char *resource, bool shared)
{
    struct dibs_claim claim = {0};
    struct dibs_lock_take in = {
        .resource = resource, .session_id = w->id, .shared = shared, .wait_ms = WAIT_MS};
    must(w, dibs_lock_take(w->d, w->a, &in, &claim, &w->err));
    return claim.token;
}

static void let_go(struct worker *w, const char *resource, int64_t token)
{
    struct dibs_claim claim = {0};
    struct dibs_lock_ref in = {.resource = resource, .session_id = w->id, .token = token};
    must(w, dibs_lock_release(w->d, w->a, &in, &claim, &w->err));
    dibs_arena_reset(w->a);
}

static int open_counter(struct worker *w, int counter)
{
    char path[128];
    snprintf(path, sizeof path, "%s/counter-%d", w->place->dir, counter);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    check(w, fd >= 0);
    return fd;
}

static int64_t read_counter(int fd)
{
    int64_t value = 0;
    return pread(fd, &value, sizeof value, 0) == (ssize_t)sizeof value ? value : 0;
}

static void increment(struct worker *w, int counter)
{
    int fd = open_counter(w, counter);
    int64_t value = read_counter(fd);
    sched_yield(); /* whoever else is inside gets his chance to do harm */
    value++;
    check(w, pwrite(fd, &value, sizeof value, 0) == (ssize_t)sizeof value);
    close(fd);
}

static int64_t sum_of_counters(struct place *p)
{
    struct worker w = {.place = p};
    int64_t sum = 0;
    for (int i = 0; i < COUNTERS; i++) {
        int fd = open_counter(&w, i);
        sum += read_counter(fd);
        close(fd);
    }
    return sum;
}

static void expect_clean_journal(struct place *p, int64_t taken)
{
    dibs *d = place_open(p);
    struct replay *r = replay_new();
    const char *wrong = replay_run(r, d);
    if (wrong)
        fail_msg("%s", wrong);
    assert_int_equal(replay_grant_count(r), taken);
    assert_int_equal(replay_held(r), 0);
    replay_free(r);
    dibs_close(d);
}

/* ---- exclusive ------------------------------------------------------------------------------- */

static void count_up(struct worker *w)
{
    const struct locking *l = w->context;
    worker_open(w);
    worker_register(w);
    crew_barrier(w);
    for (int i = 0; i < l->rounds; i++) {
        char resource[16];
        int counter = (int)(chance(&w->seed) % COUNTERS);
        name_of(counter, resource);
        int64_t token = take(w, resource, false);
        increment(w, counter);
        let_go(w, resource, token);
    }
}

static void test_no_increment_under_an_exclusive_lock_is_lost(void **state)
{
    struct place *p = *state;
    struct locking l = {.rounds = scaled(2000, 160) / LOCKERS};
    struct crew *c = crew_start(p, LOCKERS, count_up, &l);
    crew_wait(c);
    crew_free(c);
    assert_int_equal(sum_of_counters(p), l.rounds * LOCKERS);
    expect_clean_journal(p, l.rounds * LOCKERS);
}

/* ---- shared and exclusive -------------------------------------------------------------------- */

/* Readers see the same value as long as they are inside, and meet one another there. */
static void read_twice(struct worker *w, const struct locking *l, int counter)
{
    int fd = open_counter(w, counter);
    int64_t value = read_counter(fd);
    int64_t inside = __atomic_add_fetch(&l->readers[counter], 1, __ATOMIC_SEQ_CST);
    if (inside > *l->together)
        *l->together = inside;
    for (int i = 0; i < 20; i++) {
        sched_yield();
        check(w, read_counter(fd) == value);
    }
    __atomic_sub_fetch(&l->readers[counter], 1, __ATOMIC_SEQ_CST);
    close(fd);
}

static void read_or_write(struct worker *w)
{
    const struct locking *l = w->context;
    worker_open(w);
    worker_register(w);
    crew_barrier(w);
    for (int i = 0; i < l->rounds; i++) {
        char resource[16];
        int counter = (int)(chance(&w->seed) % 2);
        bool shared = (w->number + i) % 4 != 0;
        name_of(counter, resource);
        int64_t token = take(w, resource, shared);
        if (shared) {
            read_twice(w, l, counter);
        } else {
            check(w, l->readers[counter] == 0);
            increment(w, counter);
        }
        let_go(w, resource, token);
    }
}

static void test_readers_share_a_lock_and_a_writer_has_it_alone(void **state)
{
    struct place *p = *state;
    volatile int64_t *shared = shared_memory((COUNTERS + 1) * sizeof(int64_t));
    struct locking l = {.rounds = scaled(40, 8), .readers = shared, .together = &shared[COUNTERS]};
    struct crew *c = crew_start(p, LOCKERS, read_or_write, &l);
    crew_wait(c);
    crew_free(c);
    assert_int_equal(sum_of_counters(p), l.rounds * LOCKERS / 4);
    assert_true(*l.together > 1);
    expect_clean_journal(p, l.rounds * LOCKERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_no_increment_under_an_exclusive_lock_is_lost),
        PLACE_TEST(test_readers_share_a_lock_and_a_writer_has_it_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
