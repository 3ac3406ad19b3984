/* SPDX-License-Identifier: MIT */
/*
 * fair.c: whoever writes gets his turn. test-timeout: 120
 *
 * 64 processes write without pause, on a real disk. After a warm-up their commits are counted for
 * ten seconds, while all go on: the busiest may have at most 1.5 times those of the slowest. SQLite
 * by itself lets a waiting writer starve for seconds. (That it takes ten seconds is part of the
 * promise, so this test alone is as long as the clock says.)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "workers.h"

#define WRITERS 64
#define WARM_UP_MS 1000
#define COOL_DOWN_MS 300

struct race {
    int64_t window_ms;
    volatile int64_t *began; /* when the crew set off */
};

static void write_on(struct worker *w)
{
    const struct race *race = w->context;
    struct note count = {0}; /* number: commits; at_ms: the longest wait for one */
    worker_open(w);
    worker_register(w);
    crew_barrier(w);
    if (w->number == 0)
        *race->began = steady_ms();
    crew_barrier(w);
    int64_t from = *race->began + WARM_UP_MS, to = from + race->window_ms;
    int64_t now = steady_ms(), asked = now;
    while (now < to + COOL_DOWN_MS) {
        struct dibs_session_news news = {0};
        must(w, dibs_session_heartbeat(w->d, w->a, w->id, &news, &w->err));
        dibs_arena_reset(w->a);
        now = steady_ms();
        count.number += now >= from && now < to;
        if (asked >= from && now < to && now - asked > count.at_ms)
            count.at_ms = now - asked;
        asked = now;
    }
    worker_note(w, count);
}

static void test_the_busiest_writer_has_at_most_half_as_much_again_as_the_slowest(void **state)
{
    struct race race = {.window_ms = scaled(10000, 2000), .began = shared_memory(sizeof(int64_t))};
    struct crew *c = crew_start(*state, WRITERS, write_on, &race);
    crew_wait(c);
    int64_t most = 0, least = INT64_MAX, all = 0, worst_ms = 0;
    for (int i = 0; i < WRITERS; i++) {
        struct notes n = crew_notes(c, i);
        assert_int_equal(n.count, 1);
        int64_t commits = n.items[0].number, waited = n.items[0].at_ms;
        all += commits;
        most = commits > most ? commits : most;
        least = commits < least ? commits : least;
        worst_ms = waited > worst_ms ? waited : worst_ms;
        free(n.items);
    }
    crew_free(c);
    printf("# %" PRId64 " commits in %" PRId64 " ms, each process from %" PRId64 " to %" PRId64
           ", longest wait %" PRId64 " ms\n",
           all, race.window_ms, least, most, worst_ms);
    assert_true(least > 0);
    assert_true(most * 2 <= least * 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DISK_PLACE_TEST(test_the_busiest_writer_has_at_most_half_as_much_again_as_the_slowest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
