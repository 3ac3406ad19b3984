/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/cleanup.c: when a session counts as gone. Dead processes, reused pids, other
 * hosts, and silence in two steps.
 */
#include "sweeping.h"

/* ---- processes ------------------------------------------------------------------------------- */

static void test_a_claim_of_a_dead_process_is_freed_at_once_when_checked(void **state)
{
    struct fixture *f = *state;
    given_process(f, "s", 4711, NULL);
    given_claim(f, "a", "s");
    assert_int_equal(clean_orphaned(f, true).count, 0);
    world_kill_process(&f->world, 4711);
    assert_int_equal(clean_orphaned(f, false).count, 0); /* nobody asked about processes */
    struct dibs_cleaned cleaned = clean_orphaned(f, true);
    assert_int_equal(cleaned.count, 1);
    assert_string_equal(cleaned.claims[0].reason, "process_dead");
    assert_status(f, "a", DIBS_TASK_OPEN);
}

static void test_a_claim_of_a_process_that_provably_lives_is_kept(void **state)
{
    struct fixture *f = *state;
    given_process(f, "s", 4711, NULL);
    given_claim(f, "a", "s");
    world_pass(&f->world, MINUTES(20));
    assert_int_equal(clean_orphaned(f, true).count, 0);
    assert_status(f, "a", DIBS_TASK_IN_PROGRESS);
    assert_int_equal(clean_orphaned(f, false).count, 1); /* unchecked, silence decides */
}

static void test_a_pid_that_belongs_to_a_later_process_is_dead(void **state)
{
    struct fixture *f = *state;
    given_process(f, "s", 4711, NULL);
    given_claim(f, "a", "s");
    world_kill_process(&f->world, 4711);
    world_start_process(&f->world, 4711);
    struct dibs_cleaned cleaned = clean_orphaned(f, true);
    assert_int_equal(cleaned.count, 1);
    assert_string_equal(cleaned.claims[0].reason, "process_dead");
}

static void test_a_process_on_another_host_is_judged_by_silence_alone(void **state)
{
    struct fixture *f = *state;
    given_process(f, "far", 4711, "elsewhere");
    given_claim(f, "a", "far");
    world_kill_process(&f->world, 4711); /* a process of this host has nothing to do with it */
    assert_int_equal(clean_orphaned(f, true).count, 0);
    world_start_process(&f->world, 4711);
    world_pass(&f->world, MINUTES(10) + 1);
    struct dibs_cleaned cleaned = clean_orphaned(f, true);
    assert_int_equal(cleaned.count, 1);
    assert_string_equal(cleaned.claims[0].reason, "session_stale");
}

static void test_locks_of_a_dead_process_are_freed_too(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim lock = {0};
    given_process(f, "s", 4711, NULL);
    make_session(f, "t");
    struct dibs_lock_take mine = {.resource = "r", .session_id = "s"};
    struct dibs_lock_take other = {.resource = "r", .session_id = "t"};
    assert_ok(f, dibs_lock_take(f->d, f->a, &mine, &lock, &f->err));
    world_kill_process(&f->world, 4711);
    clean_orphaned(f, true);
    struct dibs_event_list events = events_of(f, "lock:released");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "reason"), "process_dead");
    assert_ok(f, dibs_lock_take(f->d, f->a, &other, &lock, &f->err));
}

static void test_an_orphan_past_its_deadline_is_freed_as_the_expired_claim_it_is(void **state)
{
    struct fixture *f = *state;
    make_session(f, "quiet");
    given_claim(f, "old", "quiet");
    world_pass(&f->world, MINUTES(20));
    plant(f, "UPDATE session SET heartbeat_at = 1"); /* as if it had never been heard since */
    given_claim(f, "a", "quiet");
    plant(f, "UPDATE session SET heartbeat_at = 1");
    world_pass(&f->world, MINUTES(10));
    struct dibs_cleaned cleaned = clean_orphaned(f, false);
    assert_int_equal(cleaned.count, 1); /* what is told and what is counted agree */
    assert_string_equal(cleaned.claims[0].task_id, "a");
    assert_int_equal(count_events(f, "task:claim-orphaned"), 1);
    assert_int_equal(count_events(f, "task:claim-expired"), 1);
    struct dibs_event_list sums = events_of(f, "claims:cleanup");
    assert_int_equal(sums.count, 1);
    assert_string_equal(event_field(f, &sums.items[0], "count"), "1");
    assert_status(f, "old", DIBS_TASK_OPEN);
    assert_status(f, "a", DIBS_TASK_OPEN);
}

/* ---- silent sessions ------------------------------------------------------------------------- */

static void test_a_silent_session_is_stale_first_and_ends_later(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s");
    world_pass(&f->world, MINUTES(5));
    assert_int_equal(clean_sessions(f).stale, 0);
    world_pass(&f->world, 1);
    struct dibs_stale_sessions step = clean_sessions(f);
    assert_int_equal(step.stale, 1);
    assert_int_equal(step.ended, 0);
    assert_int_equal(get_session(f, "s").status, DIBS_SESSION_STALE);
    assert_status(f, "a", DIBS_TASK_IN_PROGRESS); /* marked, nothing taken away */
    assert_int_equal(clean_sessions(f).stale, 0); /* told once */
    world_pass(&f->world, MINUTES(5));
    step = clean_sessions(f);
    assert_int_equal(step.stale, 0);
    assert_int_equal(step.ended, 1);
    struct dibs_session s = get_session(f, "s");
    assert_int_equal(s.status, DIBS_SESSION_ENDED);
    assert_string_equal(s.end_reason, "session_stale");
    assert_status(f, "a", DIBS_TASK_OPEN);
    assert_int_equal(count_events(f, "session:stale"), 1);
    assert_int_equal(count_events(f, "session:deregistered"), 1);
    struct dibs_event_list orphaned = events_of(f, "claim:orphaned");
    assert_int_equal(orphaned.count, 1);
    assert_string_equal(event_field(f, &orphaned.items[0], "reason"), "session_stale");
}

static void test_a_stale_session_recovers_with_its_next_sign_of_life(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s");
    world_pass(&f->world, MINUTES(6));
    clean_sessions(f);
    struct dibs_session_news news = beat(f, "s");
    assert_int_equal(news.session.status, DIBS_SESSION_ACTIVE);
    assert_int_equal(news.renewed.count, 1);
    assert_int_equal(events_of(f, "session:active").count, 1);
    world_pass(&f->world, MINUTES(5));
    assert_int_equal(clean_sessions(f).ended, 0);
    assert_int_equal(get_session(f, "s").status, DIBS_SESSION_ACTIVE);
}

static void test_the_heartbeat_of_a_claim_keeps_its_session_alive(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {0};
    make_session(f, "s");
    given_claim(f, "a", "s");
    struct dibs_heartbeat hb = {.task_id = "a", .session_id = "s"};
    for (int minute = 0; minute < 60; minute += 4) {
        world_pass(&f->world, MINUTES(4));
        assert_ok(f, dibs_claim_heartbeat(f->d, f->a, &hb, &out, &f->err));
        sweep(f);
    }
    assert_int_equal(get_session(f, "s").status, DIBS_SESSION_ACTIVE);
    assert_status(f, "a", DIBS_TASK_IN_PROGRESS);
    assert_int_equal(count_events(f, "session:stale"), 0);
}

static void test_a_silent_session_whose_process_lives_is_stale_but_not_ended(void **state)
{
    struct fixture *f = *state;
    given_process(f, "slow", 4711, NULL);
    given_claim(f, "a", "slow");
    world_pass(&f->world, MINUTES(11)); /* longer than both thresholds at the first look */
    struct dibs_stale_sessions step = clean_sessions(f);
    assert_int_equal(step.ended, 0);
    assert_int_equal(step.stale, 1);
    assert_int_equal(get_session(f, "slow").status, DIBS_SESSION_STALE);
    assert_int_equal(clean_sessions(f).stale, 0);
    world_kill_process(&f->world, 4711);
    assert_int_equal(clean_sessions(f).ended, 1);
    assert_status(f, "a", DIBS_TASK_OPEN);
}

static void test_the_end_of_a_silent_session_frees_locks_and_forgets_its_waiting(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim lock = {0};
    make_session(f, "s");
    struct dibs_lock_take take = {.resource = "r", .session_id = "s", .ttl_ms = HALF_HOUR};
    assert_ok(f, dibs_lock_take(f->d, f->a, &take, &lock, &f->err));
    plant(f, "INSERT INTO lock_wait VALUES (99, 'q', 's', 0, 60000, 0, 9e18)");
    world_pass(&f->world, MINUTES(11));
    assert_int_equal(clean_sessions(f).ended, 1);
    assert_int_equal(probe_int(f, "SELECT count(*) FROM lock_wait"), 0);
    struct dibs_event_list events = events_of(f, "lock:released");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "reason"), "session_stale");
}

static void test_the_end_of_a_silent_session_calls_a_past_lease_expired(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s");
    world_pass(&f->world, HALF_HOUR);
    assert_int_equal(clean_sessions(f).ended, 1);
    assert_int_equal(count_events(f, "task:claim-expired"), 1);
    assert_int_equal(count_events(f, "task:claim-orphaned"), 0);
}

static void test_many_stale_sessions_do_not_hide_a_silent_one(void **state)
{
    struct fixture *f = *state;
    plant(f, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) "
             "INSERT INTO session (id, project, incarnation, status, registered_at, heartbeat_at) "
             "SELECT 'old' || i, 'default', 1, 'stale', 1, (SELECT 1766923200000) FROM n");
    make_session(f, "last");
    world_pass(&f->world, MINUTES(6));
    assert_int_equal(clean_sessions(f).stale, 1);
    assert_int_equal(get_session(f, "last").status, DIBS_SESSION_STALE);
}

static void test_a_session_ends_with_its_process(void **state)
{
    struct fixture *f = *state;
    given_process(f, "s", 4711, NULL);
    given_process(f, "living", 4712, NULL);
    given_claim(f, "a", "s");
    world_kill_process(&f->world, 4711);
    assert_int_equal(clean_sessions(f).ended, 1);
    assert_int_equal(get_session(f, "s").status, DIBS_SESSION_ENDED);
    assert_string_equal(get_session(f, "s").end_reason, "process_dead");
    assert_int_equal(get_session(f, "living").status, DIBS_SESSION_ACTIVE);
    assert_int_equal(get_task(f, "a").status, DIBS_TASK_OPEN);
    struct dibs_event_list told = events_of(f, "task:claim-orphaned");
    assert_int_equal(told.count, 1);
    assert_string_equal(event_field(f, &told.items[0], "reason"), "process_dead");
    given_process(f, "s", 4713, NULL); /* the same name comes back with a new process */
    claim(f, "a", "s");
    clean_sessions(f);
    assert_int_equal(get_task(f, "a").status, DIBS_TASK_IN_PROGRESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_claim_of_a_dead_process_is_freed_at_once_when_checked),
        STORE_TEST(test_a_claim_of_a_process_that_provably_lives_is_kept),
        STORE_TEST(test_a_pid_that_belongs_to_a_later_process_is_dead),
        STORE_TEST(test_a_process_on_another_host_is_judged_by_silence_alone),
        STORE_TEST(test_locks_of_a_dead_process_are_freed_too),
        STORE_TEST(test_an_orphan_past_its_deadline_is_freed_as_the_expired_claim_it_is),
        STORE_TEST(test_a_silent_session_is_stale_first_and_ends_later),
        STORE_TEST(test_a_stale_session_recovers_with_its_next_sign_of_life),
        STORE_TEST(test_the_heartbeat_of_a_claim_keeps_its_session_alive),
        STORE_TEST(test_a_silent_session_whose_process_lives_is_stale_but_not_ended),
        STORE_TEST(test_the_end_of_a_silent_session_frees_locks_and_forgets_its_waiting),
        STORE_TEST(test_the_end_of_a_silent_session_calls_a_past_lease_expired),
        STORE_TEST(test_many_stale_sessions_do_not_hide_a_silent_one),
        STORE_TEST(test_a_session_ends_with_its_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
