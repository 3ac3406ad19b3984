/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/claim_read.c: how healthy a claim is, to the millisecond, and what is shown of
 * a claim that has ended.
 */
#include "core/core.h"
#include "core_help.h"

static const char *health(struct fixture *f)
{
    return dibs_health_name(get_task(f, "t").claim->health);
}

static void hold(struct fixture *f, int64_t ttl_ms)
{
    make_session(f, "s");
    make_task(f, "t");
    assert_ok(f, try_claim(f, "t", "s", ttl_ms));
}

static void test_health_has_five_words_worst_first(void **state)
{
    (void)state;
    static const char *const all[] = {"expired", "stale", "critical", "warning", "healthy"};
    for (int i = 0; i < 5; i++)
        assert_string_equal(dibs_health_name((enum dibs_health)i), all[i]);
    assert_string_equal(dibs_health_name((enum dibs_health)5), "unknown");
}

static void test_a_claim_is_stale_when_its_heartbeat_is_older_than_5_minutes(void **state)
{
    struct fixture *f = *state;
    hold(f, MINUTES(30));
    assert_string_equal(health(f), "healthy");
    world_pass(&f->world, MINUTES(5));
    assert_string_equal(health(f), "healthy");
    world_pass(&f->world, 1);
    assert_string_equal(health(f), "stale");
    assert_ok(f, try_heartbeat(f, "t", "s", 0));
    assert_string_equal(health(f), "healthy");
}

static void test_a_claim_warns_when_less_than_5_minutes_are_left(void **state)
{
    struct fixture *f = *state;
    hold(f, MINUTES(6));
    world_pass(&f->world, MINUTES(1));
    assert_string_equal(health(f), "healthy");
    world_pass(&f->world, 1);
    assert_string_equal(health(f), "warning");
}

static void test_a_claim_is_critical_when_less_than_a_minute_is_left(void **state)
{
    struct fixture *f = *state;
    hold(f, MINUTES(5));
    world_pass(&f->world, MINUTES(4));
    assert_string_equal(health(f), "warning");
    world_pass(&f->world, 1);
    assert_string_equal(health(f), "critical");
    world_pass(&f->world, MINUTES(1) - 2);
    assert_string_equal(health(f), "critical");
    assert_int_equal(get_task(f, "t").claim->remaining_ms, 1);
    world_pass(&f->world, 1);
    assert_string_equal(health(f), "expired");
    assert_int_equal(get_task(f, "t").claim->remaining_ms, 0);
    world_pass(&f->world, MINUTES(60));
    assert_string_equal(health(f), "expired");
    assert_int_equal(get_task(f, "t").claim->remaining_ms, 0);
}

static void test_the_worst_word_wins(void **state)
{
    struct fixture *f = *state;
    hold(f, MINUTES(6));
    world_pass(&f->world, MINUTES(5) + 1); /* silent for 5 minutes, and less than one left */
    assert_string_equal(health(f), "stale");
    world_pass(&f->world, MINUTES(1) - 1);
    assert_string_equal(health(f), "expired");
}

static void test_the_borders_follow_the_settings(void **state)
{
    struct fixture *f = *state;
    dibs *other = NULL;
    struct dibs_task t = {0};
    hold(f, MINUTES(30));
    struct dibs_options options = {.data_dir = f->data_dir, .platform = &f->world.platform};
    options.settings =
        DIBS_STRINGS("staleThreshold=20m", "warningThreshold=15m", "expiringThreshold=10m",
                     "orphanThreshold=30m", "autoCleanup=off");
    assert_ok(f, dibs_open(&options, &other, &f->err));
    static const struct {
        int64_t pass;
        const char *word;
    } steps[] = {
        {MINUTES(15), "healthy"}, {1, "warning"}, {MINUTES(5) - 1, "warning"}, {1, "stale"}};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        world_pass(&f->world, steps[i].pass);
        assert_ok(f, dibs_task_get(other, f->a, "t", &t, &f->err));
        assert_string_equal(dibs_health_name(t.claim->health), steps[i].word);
    }
    dibs_close(other);
}

static void test_a_claim_that_has_ended_has_nothing_left(void **state)
{
    struct fixture *f = *state;
    hold(f, MINUTES(30));
    world_pass(&f->world, MINUTES(2));
    assert_ok(f, try_release(f, "t", "s", 0, NULL));
    world_pass(&f->world, MINUTES(2));
    struct dibs_claim c = get_history(f, "t").attempts[0];
    assert_int_equal(c.remaining_ms, 0);
    assert_int_equal(c.health, DIBS_HEALTH_EXPIRED);
    assert_int_equal(c.held_ms, MINUTES(2));
    assert_string_equal(c.end_reason, "manual");
    assert_int_equal(c.ended_at_ms, c.claimed_at_ms + MINUTES(2));
}

static void test_stats_count_what_expires_soon_and_what_is_stale(void **state)
{
    struct fixture *f = *state;
    struct dibs_stats stats = {0};
    hold(f, MINUTES(30));
    make_task(f, "u");
    world_pass(&f->world, MINUTES(5) + 1);
    assert_ok(f, try_claim(f, "u", "s", MINUTES(2)));
    assert_ok(f, dibs_stats(f->d, f->a, &stats, &f->err));
    assert_int_equal(stats.active, 2);
    assert_int_equal(stats.expiring, 1);
    assert_int_equal(stats.stale, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_health_has_five_words_worst_first),
        STORE_TEST(test_a_claim_is_stale_when_its_heartbeat_is_older_than_5_minutes),
        STORE_TEST(test_a_claim_warns_when_less_than_5_minutes_are_left),
        STORE_TEST(test_a_claim_is_critical_when_less_than_a_minute_is_left),
        STORE_TEST(test_the_worst_word_wins),
        STORE_TEST(test_the_borders_follow_the_settings),
        STORE_TEST(test_a_claim_that_has_ended_has_nothing_left),
        STORE_TEST(test_stats_count_what_expires_soon_and_what_is_stale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
