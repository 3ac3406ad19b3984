/* SPDX-License-Identifier: MIT */
/*
 * model.c: random lives of a store against a model written from the documented rules.
 *
 * test-timeout: 600
 *
 * Each seed is one life: sessions, tasks, locks, sweeps, batches, clocks that are set, suspends,
 * boots, deaths. After every step all that callers can see is compared with the model, and now and
 * then the journal with the tables. The environment chooses:
 *   DIBS_TEST_SEED   this seed only
 *   DIBS_SIM_SEEDS   how many seeds (200)       DIBS_TEST_SCALE  times so many
 *   DIBS_SIM_FIRST   the first of them (1; with a scale above 1 a new one each time)
 *   DIBS_SIM_STEPS   steps of each (300)        DIBS_TEST_DISK   stores not in memory
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "in_memory.h"
#include "sim.h"

static int64_t from_environment(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoll(text, NULL, 10) : otherwise;
}

/* The fixture of the life under way, for the teardown of a test that failed in it. */
static void *current;

static int end_life(void **state)
{
    (void)state;
    int bad = current ? fixture_teardown(&current) : 0;
    current = NULL;
    return bad;
}

static uint64_t live(uint64_t seed, int steps)
{
    assert_int_equal(fixture_setup(&current), 0);
    uint64_t hash = sim_run(current, seed, steps);
    assert_int_equal(end_life(NULL), 0);
    return hash;
}

static void test_the_store_does_what_the_rules_say(void **state)
{
    (void)state;
    const char *text = getenv("DIBS_TEST_SCALE");
    double scale = text && strtod(text, NULL) > 0 ? strtod(text, NULL) : 1;
    int64_t seeds = (int64_t)((double)from_environment("DIBS_SIM_SEEDS", 200) * scale) + 1;
    int64_t usual = scale > 1 ? (int64_t)time(NULL) * 1000 : 1;
    uint64_t first = (uint64_t)from_environment("DIBS_SIM_FIRST", usual);
    int steps = (int)from_environment("DIBS_SIM_STEPS", 300);
    if (getenv("DIBS_TEST_SEED")) {
        first = (uint64_t)from_environment("DIBS_TEST_SEED", 1);
        seeds = 1;
    }
    print_message("# %" PRId64 " seeds from %" PRIu64 ", %d steps each\n", seeds, first, steps);
    for (uint64_t i = 0; i < (uint64_t)seeds; i++)
        live(first + i, steps);
}

static void test_the_same_seed_writes_the_same_journal(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)from_environment("DIBS_TEST_SEED", 7);
    uint64_t one = live(seed, 300), again = live(seed, 300), other = live(seed + 1, 300);
    assert_true(one == again);
    assert_true(one != other);
}

int main(void)
{
    stores_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_the_store_does_what_the_rules_say, end_life),
        cmocka_unit_test_teardown(test_the_same_seed_writes_the_same_journal, end_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
