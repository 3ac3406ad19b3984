/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/cleanup.c: the sweep as a whole. More than one batch, a failing store, a closed
 * one, whose turn it is, warnings, and pruning.
 */
#include "sweeping.h"

/* ---- much to do, failures, a closed store ---------------------------------------------------- */

static void test_more_claims_than_one_batch_are_all_expired(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_many_claims(f, SWEEP_BATCH_MAX + 5);
    world_pass(&f->world, HALF_HOUR);
    struct dibs_cleaned cleaned = clean_expired(f);
    assert_int_equal(cleaned.count, SWEEP_BATCH_MAX + 5);
    assert_string_equal(cleaned.claims[SWEEP_BATCH_MAX + 4].session_id, "s");
    assert_int_equal(probe_int(f, "SELECT count(*) FROM claim WHERE ended_at IS NULL"), 0);
    struct dibs_event_list sums = events_of(f, "claims:cleanup");
    assert_int_equal(sums.count, 2); /* one per transaction */
    assert_string_equal(event_field(f, &sums.items[0], "count"), "1000");
    assert_string_equal(event_field(f, &sums.items[1], "count"), "5");
}

static void test_locks_among_many_orphans_do_not_stop_the_sweep_early(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim lock = {0};
    make_session(f, "s");
    struct dibs_lock_take take = {.resource = "r", .session_id = "s", .ttl_ms = MINUTES(15)};
    assert_ok(f, dibs_lock_take(f->d, f->a, &take, &lock, &f->err)); /* the earliest deadline */
    given_many_claims(f, SWEEP_BATCH_MAX + 5);
    world_pass(&f->world, MINUTES(11));
    assert_int_equal(clean_orphaned(f, false).count, SWEEP_BATCH_MAX + 5);
    assert_int_equal(probe_int(f, "SELECT count(*) FROM claim WHERE ended_at IS NULL"), 0);
}

static dibs_status op_expired(struct fixture *f)
{
    struct dibs_cleaned out = {0};
    return dibs_cleanup_expired(f->d, f->a, &out, &f->err);
}
static dibs_status op_orphaned(struct fixture *f)
{
    struct dibs_cleaned out = {0};
    return dibs_cleanup_orphaned(f->d, f->a, &(struct dibs_orphan_options){.check_process = true},
                                 &out, &f->err);
}
static dibs_status op_release(struct fixture *f)
{
    struct dibs_cleaned out = {0};
    return dibs_release_session_claims(f->d, f->a, "s", NULL, &out, &f->err);
}
static dibs_status op_locks(struct fixture *f)
{
    struct dibs_cleaned out = {0};
    return dibs_cleanup_locks(f->d, f->a, &out, &f->err);
}
static dibs_status op_sessions(struct fixture *f)
{
    struct dibs_stale_sessions out = {0};
    return dibs_cleanup_sessions(f->d, f->a, &out, &f->err);
}
static dibs_status op_prune(struct fixture *f)
{
    int64_t out = 0;
    return dibs_prune(f->d, f->a, &out, &f->err);
}

static void test_nothing_is_cleaned_when_the_store_fails(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim lock = {0};
    make_session(f, "s");
    given_claim(f, "a", "s");
    given_claim(f, "b", "s");
    assert_true(probe_fail_each(f, op_release) > 5);
    claim(f, "a", "s");
    claim(f, "b", "s");
    struct dibs_lock_take take = {.resource = "r", .session_id = "s"};
    assert_ok(f, dibs_lock_take(f->d, f->a, &take, &lock, &f->err));
    world_pass(&f->world, MINUTES(11));
    assert_true(probe_fail_each(f, op_locks) > 5);
    assert_true(probe_fail_each(f, op_orphaned) > 5);
    claim(f, "a", "s");
    world_pass(&f->world, HALF_HOUR);
    assert_true(probe_fail_each(f, op_expired) > 5);
    assert_true(probe_fail_each(f, op_sessions) > 5);
    world_pass(&f->world, MINUTES(60 * 24 * 8));
    assert_true(probe_fail_each(f, op_prune) > 5);
    assert_int_equal(events_of(f, NULL).count, 0);
}

static void test_a_closed_store_has_nothing_to_clean(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {.count = 7};
    struct dibs_stale_sessions sessions = {.stale = 7, .ended = 7};
    struct dibs_sweep all = {.expired = 7};
    int64_t pruned = 7;
    bool ran = true;
    assert_ok(f, dibs_cleanup_expired(NULL, f->a, &cleaned, &f->err));
    assert_int_equal(cleaned.count, 0);
    cleaned.count = 7;
    assert_ok(f, dibs_cleanup_orphaned(NULL, f->a, NULL, &cleaned, &f->err));
    assert_int_equal(cleaned.count, 0);
    cleaned.count = 7;
    assert_ok(f, dibs_cleanup_locks(NULL, f->a, &cleaned, &f->err));
    assert_int_equal(cleaned.count, 0);
    cleaned.count = 7;
    assert_ok(f, dibs_release_session_claims(NULL, f->a, "s", NULL, &cleaned, &f->err));
    assert_int_equal(cleaned.count, 0);
    assert_string_equal(cleaned.session_id, "s");
    assert_ok(f, dibs_cleanup_sessions(NULL, f->a, &sessions, &f->err));
    assert_int_equal(sessions.stale + sessions.ended, 0);
    assert_ok(f, dibs_prune(NULL, f->a, &pruned, &f->err));
    assert_int_equal(pruned, 0);
    assert_ok(f, dibs_cleanup(NULL, f->a, &all, &f->err));
    assert_int_equal(all.expired, 0);
    assert_ok(f, dibs_maintain(NULL, &ran, &f->err));
    assert_false(ran);
}

/* ---- the whole sweep, and whose turn it is --------------------------------------------------- */

static void test_the_sweep_does_everything_and_counts_it(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim lock = {0};
    struct dibs_claim_take long_take = {.task_id = "b", .session_id = "s", .ttl_ms = MINUTES(120)};
    given_process(f, "gone", 4711, NULL);
    make_session(f, "s");
    make_session(f, "t");
    given_claim(f, "a", "s");
    make_task(f, "b");
    assert_ok(f, dibs_claim_take(f->d, f->a, &long_take, &lock, &f->err));
    struct dibs_lock_take take = {.resource = "r", .session_id = "t"};
    assert_ok(f, dibs_lock_take(f->d, f->a, &take, &lock, &f->err));
    world_pass(&f->world, MINUTES(24));
    given_claim(f, "c", "gone");
    world_kill_process(&f->world, 4711);
    world_pass(&f->world, MINUTES(6));
    struct dibs_sweep done = sweep(f);
    assert_int_equal(done.locks, 1);
    assert_int_equal(done.expired, 1);
    assert_int_equal(done.orphaned, 2);       /* b: silent, c: dead */
    assert_int_equal(done.sessions_ended, 3); /* two silent, one whose process is dead */
    assert_int_equal(done.sessions_stale, 0);
    assert_int_equal(done.expiring, 0);
    assert_int_equal(done.events_pruned, 0);
}

static void test_one_process_sweeps_per_interval_whichever_comes_first(void **state)
{
    struct fixture *f = *state;
    dibs *other = fixture_open(f);
    bool ran = false;
    assert_ok(f, dibs_maintain(f->d, &ran, &f->err));
    assert_true(ran);
    assert_ok(f, dibs_maintain(other, &ran, &f->err));
    assert_false(ran);
    world_pass(&f->world, MINUTES(5) - 1);
    assert_ok(f, dibs_maintain(f->d, &ran, &f->err));
    assert_false(ran);
    world_pass(&f->world, 1);
    assert_ok(f, dibs_maintain(other, &ran, &f->err));
    assert_true(ran);
    assert_ok(f, dibs_maintain(f->d, &ran, &f->err));
    assert_false(ran);
    dibs_close(other);
}

static void test_no_sweep_inside_a_batch(void **state)
{
    struct fixture *f = *state;
    bool ran = true;
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    assert_ok(f, dibs_maintain(f->d, &ran, &f->err));
    assert_false(ran);
    dibs_batch_cancel(f->d);
}

static void test_a_claim_about_to_end_is_warned_of_once_and_again_after_renewal(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {0};
    make_session(f, "s");
    given_claim(f, "a", "s");
    struct dibs_heartbeat hb = {.task_id = "a", .session_id = "s", .extend_ms = HALF_HOUR};
    world_pass(&f->world, MINUTES(9));
    beat(f, "s");
    world_pass(&f->world, MINUTES(9));
    beat(f, "s");
    assert_int_equal(sweep(f).expiring, 0);
    plant(f, "UPDATE claim SET expires_at = heartbeat_at + 60000"); /* one minute from now */
    assert_int_equal(sweep(f).expiring, 1);
    assert_int_equal(sweep(f).expiring, 0);
    struct dibs_event_list events = events_of(f, "task:claim-expiring");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "taskId"), "a");
    assert_string_equal(event_field(f, &events.items[0], "sessionId"), "s");
    assert_string_equal(event_field(f, &events.items[0], "remainingMs"), "60000");
    assert_ok(f, dibs_claim_heartbeat(f->d, f->a, &hb, &out, &f->err));
    assert_int_equal(sweep(f).expiring, 0);
    plant(f, "UPDATE claim SET expires_at = heartbeat_at + 1");
    assert_int_equal(sweep(f).expiring, 1);
    world_pass(&f->world, 1);
    assert_int_equal(sweep(f).expiring, 0); /* past: expired, not expiring */
}

/* ---- pruning --------------------------------------------------------------------------------- */

static int64_t prune(struct fixture *f)
{
    int64_t count = -1;
    assert_ok(f, dibs_prune(f->d, f->a, &count, &f->err));
    return count;
}

static void test_old_events_go_numbers_stay_and_readers_are_told(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "old");
    world_pass(&f->world, MINUTES(60 * 24 * 7));
    assert_int_equal(prune(f), 0); /* exactly as old as the retention: kept */
    make_task(f, "new");
    world_pass(&f->world, 1);
    assert_int_equal(prune(f), 2);
    struct dibs_event_list left = events_of(f, NULL);
    assert_int_equal(left.count, 1);
    assert_int_equal(left.items[0].number, 3);
    assert_int_equal(left.first_kept, 3);
    assert_int_equal(left.last, 3);
    world_pass(&f->world, MINUTES(60 * 24 * 8));
    assert_int_equal(prune(f), 1);
    left = events_of(f, NULL);
    assert_int_equal(left.count, 0);
    assert_int_equal(left.first_kept, 4); /* nothing is kept: the next one will be the first */
    assert_int_equal(left.last, 3);
    make_task(f, "newer");
    assert_int_equal(events_of(f, NULL).items[0].number, 4);
}

static void test_more_events_than_one_batch_are_all_pruned(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_many_claims(f, 600); /* 1,201 events */
    release_all(f, "s", NULL);
    world_pass(&f->world, MINUTES(60 * 24 * 7) + 1);
    assert_int_equal(prune(f), 1 + 600 + 600 + 600 + 1);
    assert_int_equal(events_of(f, NULL).count, 0);
}

static void test_scores_and_stats_survive_pruning(void **state)
{
    struct fixture *f = *state;
    struct dibs_task done = {0};
    struct dibs_score_list scores = {0};
    struct dibs_stats stats = {0};
    make_session(f, "s");
    given_claim(f, "a", "s");
    struct dibs_report report = {.task_id = "a", .session_id = "s"};
    world_pass(&f->world, 4000);
    assert_ok(f, dibs_complete(f->d, f->a, &report, &done, &f->err));
    world_pass(&f->world, MINUTES(60 * 24 * 8));
    assert_int_equal(prune(f), 4);
    assert_ok(f, dibs_scores(f->d, f->a, &scores, &f->err));
    assert_int_equal(scores.count, 1);
    assert_int_equal(scores.items[0].completed, 1);
    assert_int_equal(scores.items[0].average_ms, 4000);
    assert_ok(f, dibs_stats(f->d, f->a, &stats, &f->err));
    assert_int_equal(stats.completed_ever, 1);
    assert_int_equal(stats.average_hold_ms, 4000);
}

static void test_retention_zero_keeps_events_for_ever(void **state)
{
    struct fixture *f = *state;
    dibs *keeper = NULL;
    struct dibs_options options = {.data_dir = f->data_dir, .platform = &f->world.platform};
    options.settings = DIBS_STRINGS("eventRetention=0", "autoCleanup=off");
    int64_t count = -1;
    make_task(f, "a");
    assert_ok(f, dibs_open(&options, &keeper, &f->err));
    world_pass(&f->world, MINUTES(60LL * 24 * 3650));
    assert_ok(f, dibs_prune(keeper, f->a, &count, &f->err));
    assert_int_equal(count, 0);
    assert_int_equal(events_of(f, NULL).count, 1);
    dibs_close(keeper);
}

static dibs_status answer_x(dibs *d, dibs_arena *a, void *context, const char **answer,
                            struct dibs_error *err)
{
    (void)d, (void)a, (void)err;
    ++*(int *)context;
    *answer = "x";
    return DIBS_OK;
}

static void test_idempotency_keys_are_forgotten_after_a_day(void **state)
{
    struct fixture *f = *state;
    const char *answer = NULL;
    bool repeated = false;
    int runs = 0;
    struct dibs_once once = {.key = "k", .request = "r", .work = answer_x, .context = &runs};
    assert_ok(f, dibs_once(f->d, f->a, &once, &answer, &repeated, &f->err));
    world_pass(&f->world, MINUTES(60 * 24));
    prune(f);
    assert_ok(f, dibs_once(f->d, f->a, &once, &answer, &repeated, &f->err));
    assert_true(repeated);
    world_pass(&f->world, 1);
    prune(f);
    assert_ok(f, dibs_once(f->d, f->a, &once, &answer, &repeated, &f->err));
    assert_false(repeated);
    assert_int_equal(runs, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_more_claims_than_one_batch_are_all_expired),
        STORE_TEST(test_locks_among_many_orphans_do_not_stop_the_sweep_early),
        STORE_TEST(test_nothing_is_cleaned_when_the_store_fails),
        STORE_TEST(test_a_closed_store_has_nothing_to_clean),
        STORE_TEST(test_the_sweep_does_everything_and_counts_it),
        STORE_TEST(test_one_process_sweeps_per_interval_whichever_comes_first),
        STORE_TEST(test_no_sweep_inside_a_batch),
        STORE_TEST(test_a_claim_about_to_end_is_warned_of_once_and_again_after_renewal),
        STORE_TEST(test_old_events_go_numbers_stay_and_readers_are_told),
        STORE_TEST(test_more_events_than_one_batch_are_all_pruned),
        STORE_TEST(test_scores_and_stats_survive_pruning),
        STORE_TEST(test_retention_zero_keeps_events_for_ever),
        STORE_TEST(test_idempotency_keys_are_forgotten_after_a_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
