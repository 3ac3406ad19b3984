/* SPDX-License-Identifier: MIT */
/*
 * syscall.c: killed at each system call that changes a file. test-timeout: 600
 *
 * A program works through a fixed script (script.h) under strace, which kills it at its 1st, 2nd,
 * 3rd ... write, flush, truncation, renaming, opening and locking. After each the store must be
 * what the program was told it is. The everyday run takes a choice of the many writes and locks;
 * a DIBS_TEST_SCALE above 1 takes all.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "script.h"
#include "traced.h"

static const struct {
    const char *name;
    int most; /* how many of its calls the everyday run tries in each play */
} calls[] = {
    {"pwrite64", 30}, {"fdatasync", 40}, {"fsync", 10},     {"ftruncate", 10}, {"renameat2", 5},
    {"unlink", 10},   {"openat", 6},     {"mkdir", 5},      {"mknod", 5},      {"mknodat", 5},
    {"fcntl", 12},    {"munmap", 5},     {"fallocate", 10},
};

static int kill_at(struct script *s, const char *name, long when)
{
    char inject[64];
    snprintf(inject, sizeof inject, "%s:signal=KILL:when=%ld", name, when);
    script_reset(s);
    enum traced how = traced_run(inject, s->argv, NULL);
    if (how == TRACED_FAILED)
        fail_msg("the script fails, to be killed at %s %ld", name, when);
    struct notes n = script_notes(s);
    script_check(s, n, ACKED_FRESH);
    free(n.items);
    return how == TRACED_KILLED;
}

static void kill_everywhere(struct place *p, const char *play)
{
    struct script s = {0};
    uint64_t seed = test_seed();
    int killed = 0, points = 0;
    script_init(&s, p, play);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        script_reset(&s);
        long count = traced_count(calls[i].name, s.argv);
        if (count < 0)
            fail_msg("the script fails when left alone");
        struct points at = points_choose(count, calls[i].most, &seed);
        for (size_t k = 0; k < at.count; k++)
            killed += kill_at(&s, calls[i].name, at.items[k]);
        points += (int)at.count;
        printf("# %s: %zu of %ld calls of %s\n", play, at.count, count, calls[i].name);
        free(at.items);
    }
    assert_true(killed > 0);
    /* the number of calls varies by a few from run to run, with the dice of SQLite */
    assert_true(killed + points / 20 + 5 >= points);
}

static void test_a_store_in_the_making_survives_being_killed_at_any_system_call(void **state)
{
    if (!traced_permitted())
        skip();
    kill_everywhere(*state, "new");
}

static void test_an_old_store_survives_being_killed_at_any_system_call(void **state)
{
    if (!traced_permitted())
        skip();
    kill_everywhere(*state, "old");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_a_store_in_the_making_survives_being_killed_at_any_system_call),
        PLACE_TEST(test_an_old_store_survives_being_killed_at_any_system_call),
    };
    if (script_wanted(argc, argv))
        return script_main(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
