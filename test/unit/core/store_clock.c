/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/store_clock.c: whatever becomes of the machine's clock, a lease keeps the time
 * that remains to it: clocks set forward and back, suspend, reboot, drift.
 */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HALF_HOUR MINUTES(30)
#define HOURS(n) MINUTES(60 * (n))

static int64_t now(struct fixture *f)
{
    int64_t out = 0;
    assert_ok(f, dibs_now(f->d, &out, &f->err));
    return out;
}

/* A write that says nothing about any lease. */
static void write_something(struct fixture *f)
{
    make_task(f, NULL);
}

static int64_t remaining(struct fixture *f, const char *task)
{
    struct dibs_task t = get_task(f, task);
    return t.claim ? t.claim->remaining_ms : -1;
}

static void given_claim(struct fixture *f)
{
    make_session(f, "s");
    make_task(f, "a");
    claim(f, "a", "s");
}

static struct dibs_cleaned sweep_expired(struct fixture *f)
{
    struct dibs_cleaned out = {0};
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &out, &f->err));
    return out;
}

static void assert_adjusted(struct fixture *f, const char *cause, int64_t delta)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)delta);
    struct dibs_event_list events = events_of(f, "clock:adjusted");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "cause"), cause);
    assert_string_equal(event_field(f, &events.items[0], "deltaMs"), text);
}

static void test_the_store_shows_the_time_of_day_and_moves_with_it(void **state)
{
    struct fixture *f = *state;
    write_something(f);
    assert_int_equal(now(f), f->world.wall_ms);
    world_pass(&f->world, HOURS(100));
    assert_int_equal(now(f), f->world.wall_ms);
    assert_int_equal(events_of(f, "clock:adjusted").count, 0);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void step_by(struct fixture *f, int64_t delta)
{
    given_claim(f);
    world_pass(&f->world, MINUTES(10));
    world_set_clock(&f->world, f->world.wall_ms + delta);
    assert_int_equal(remaining(f, "a"), MINUTES(20)); /* a reader, before anybody writes */
    write_something(f);
    assert_int_equal(now(f), f->world.wall_ms);
    assert_int_equal(remaining(f, "a"), MINUTES(20));
    assert_adjusted(f, "step", delta);
    world_pass(&f->world, MINUTES(20) - 1);
    assert_int_equal(sweep_expired(f).count, 0); /* not a moment early */
    world_pass(&f->world, 1);
    assert_int_equal(sweep_expired(f).count, 1); /* nor late */
}

static void test_a_clock_set_forward_ends_no_lease(void **state)
{
    step_by(*state, HOURS(5));
}

static void test_a_clock_set_back_prolongs_no_lease(void **state)
{
    step_by(*state, -HOURS(5));
}

static void test_the_write_after_the_step_may_be_about_the_lease_itself(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {0};
    given_claim(f);
    make_session(f, "t");
    world_set_clock(&f->world, f->world.wall_ms + HOURS(3));
    struct dibs_claim_take other = {.task_id = "a", .session_id = "t"};
    assert_refused(f, DIBS_TASK_ALREADY_CLAIMED,
                   dibs_claim_take(f->d, f->a, &other, &out, &f->err));
    assert_int_equal(f->err.remaining_ms, HALF_HOUR);
    struct dibs_heartbeat hb = {.task_id = "a", .session_id = "s"};
    assert_ok(f, dibs_claim_heartbeat(f->d, f->a, &hb, &out, &f->err));
    assert_int_equal(out.expires_at_ms, f->world.wall_ms + HALF_HOUR);
    /* the journal tells of the clock before it tells of what came after */
    struct dibs_event_list events = events_of(f, NULL);
    assert_string_equal(events.items[events.count - 2].type, "clock:adjusted");
    assert_string_equal(events.items[events.count - 1].type, "task:claim-refused");
    assert_int_equal(events.items[events.count - 2].at_ms, f->world.wall_ms);
}

static void test_how_long_a_task_was_held_does_not_depend_on_the_clock(void **state)
{
    struct fixture *f = *state;
    struct dibs_released out = {0};
    given_claim(f);
    world_pass(&f->world, MINUTES(5));
    world_set_clock(&f->world, f->world.wall_ms + HOURS(5));
    write_something(f);
    world_pass(&f->world, MINUTES(5));
    struct dibs_release in = {.task_id = "a", .session_id = "s"};
    assert_ok(f, dibs_claim_release(f->d, f->a, &in, &out, &f->err));
    assert_int_equal(out.held_ms, MINUTES(10));
    claim(f, "a", "s");
    world_pass(&f->world, MINUTES(5));
    world_set_clock(&f->world, f->world.wall_ms - HOURS(50));
    write_something(f);
    world_pass(&f->world, MINUTES(5));
    assert_ok(f, dibs_claim_release(f->d, f->a, &in, &out, &f->err));
    assert_int_equal(out.held_ms, MINUTES(10));
}

static void test_drift_up_to_two_seconds_changes_nothing(void **state)
{
    struct fixture *f = *state;
    given_claim(f);
    world_set_clock(&f->world, f->world.wall_ms + 2000);
    write_something(f);
    assert_int_equal(now(f), f->world.wall_ms - 2000);
    world_set_clock(&f->world, f->world.wall_ms - 4000);
    write_something(f);
    assert_int_equal(now(f), f->world.wall_ms + 2000);
    assert_int_equal(events_of(f, "clock:adjusted").count, 0);
    assert_int_equal(remaining(f, "a"), HALF_HOUR);
    world_set_clock(&f->world, f->world.wall_ms - 1);
    write_something(f);
    assert_adjusted(f, "step", -2001);
    assert_int_equal(remaining(f, "a"), HALF_HOUR);
}

static void test_all_handles_follow_one_move(void **state)
{
    struct fixture *f = *state;
    dibs *other = fixture_open(f);
    struct dibs_session_news news = {0};
    int64_t seen = 0;
    given_claim(f);
    world_set_clock(&f->world, f->world.wall_ms + HOURS(4));
    write_something(f);
    assert_ok(f, dibs_now(other, &seen, &f->err));
    assert_int_equal(seen, f->world.wall_ms);
    make_session(f, "t");
    assert_ok(f, dibs_session_heartbeat(other, f->a, "t", &news, &f->err));
    assert_int_equal(remaining(f, "a"), HALF_HOUR); /* moved once, not once per process */
    assert_int_equal(events_of(f, "clock:adjusted").count, 1);
    dibs_close(other);
}

static void test_a_refused_operation_does_not_move_the_clock(void **state)
{
    struct fixture *f = *state;
    struct dibs_session_news news = {0};
    write_something(f);
    int64_t before = now(f);
    world_set_clock(&f->world, f->world.wall_ms + HOURS(1));
    assert_refused(f, DIBS_SESSION_NOT_FOUND,
                   dibs_session_heartbeat(f->d, f->a, "ghost", &news, &f->err));
    assert_int_equal(now(f), before);
    assert_int_equal(events_of(f, "clock:adjusted").count, 0);
    write_something(f);
    assert_int_equal(now(f), f->world.wall_ms);
}

/* ---- what moves along and what does not ------------------------------------------------------ */

static void test_sessions_locks_waits_turns_and_keys_move_along(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim lock = {0};
    struct dibs_sweep swept = {0};
    bool ran = false;
    make_session(f, "s");
    struct dibs_lock_take take = {.resource = "r", .session_id = "s"};
    assert_ok(f, dibs_lock_take(f->d, f->a, &take, &lock, &f->err));
    plant(f, "INSERT INTO lock_wait SELECT 1, 'r', 's', 0, 1, at, at + 5000 FROM event LIMIT 1");
    plant(f, "INSERT INTO idempotency SELECT 'k', 'r', 'a', at FROM event LIMIT 1");
    assert_ok(f, dibs_maintain(f->d, &ran, &f->err));
    assert_true(ran);
    int64_t since = f->world.wall_ms;
    world_set_clock(&f->world, f->world.wall_ms + HOURS(30));
    assert_ok(f, dibs_cleanup(f->d, f->a, &swept, &f->err));
    assert_int_equal(swept.locks + swept.sessions_stale + swept.sessions_ended, 0);
    assert_int_equal(probe_int(f, "SELECT gives_up_at FROM lock_wait"), since + HOURS(30) + 5000);
    assert_int_equal(probe_int(f, "SELECT count(*) FROM idempotency"), 1);
    assert_int_equal(get_session(f, "s").status, DIBS_SESSION_ACTIVE);
    assert_ok(f, dibs_maintain(f->d, &ran, &f->err));
    assert_false(ran); /* the interval has not passed */
}

static struct dibs_task fail_task(struct fixture *f, const char *task)
{
    struct dibs_task out = {0};
    struct dibs_report report = {.task_id = task, .session_id = "s"};
    assert_ok(f, dibs_fail(f->d, f->a, &report, &out, &f->err));
    return out;
}

static bool can_claim(struct fixture *f, const char *task)
{
    struct dibs_claim out = {0};
    struct dibs_claim_take take = {.task_id = task, .session_id = "s"};
    dibs_status status = dibs_claim_take(f->d, f->a, &take, &out, &f->err);
    assert_true(status == DIBS_OK || status == DIBS_TASK_NOT_CLAIMABLE);
    return status == DIBS_OK;
}

static void test_a_date_stays_where_it_is_while_a_back_off_moves_along(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    int64_t date = f->world.wall_ms + HOURS(2);
    make_task_as(f, (struct dibs_task_new){.id = "dated", .run_after_ms = date});
    make_task(f, "retried");
    claim(f, "retried", "s");
    fail_task(f, "retried");
    world_set_clock(&f->world, f->world.wall_ms + HOURS(2) - 1);
    assert_false(can_claim(f, "retried")); /* two hours on the wall are no time for a back-off */
    assert_false(can_claim(f, "dated"));
    world_pass(&f->world, 1);
    assert_true(can_claim(f, "dated")); /* its date has come */
    assert_false(can_claim(f, "retried"));
    world_pass(&f->world, SECONDS(1));
    assert_true(can_claim(f, "retried"));
    assert_int_equal(get_task(f, "dated").run_after_ms, date);
}

static void test_a_back_off_later_than_its_date_moves_and_the_date_stays(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    int64_t date = f->world.wall_ms + 1000;
    make_task_as(f, (struct dibs_task_new){.id = "a", .run_after_ms = date});
    world_pass(&f->world, 1000);
    claim(f, "a", "s");
    fail_task(f, "a");
    world_set_clock(&f->world, f->world.wall_ms + HOURS(1));
    write_something(f);
    assert_false(can_claim(f, "a"));
    assert_int_equal(probe_int(f, "SELECT run_after FROM task WHERE id = 'a'"), date);
    world_pass(&f->world, SECONDS(1));
    assert_true(can_claim(f, "a"));
}

/* ---- suspend and reboot ---------------------------------------------------------------------- */

static void test_no_lease_ends_while_the_machine_sleeps(void **state)
{
    struct fixture *f = *state;
    struct dibs_sweep swept = {0};
    given_claim(f);
    world_pass(&f->world, MINUTES(9));
    world_suspend(&f->world, HOURS(8));
    assert_int_equal(remaining(f, "a"), MINUTES(21));
    assert_ok(f, dibs_cleanup(f->d, f->a, &swept, &f->err));
    assert_int_equal(swept.expired + swept.orphaned + swept.sessions_ended, 0);
    assert_int_equal(remaining(f, "a"), MINUTES(21));
    assert_int_equal(now(f), f->world.wall_ms);
    assert_adjusted(f, "step", HOURS(8));
}

static void test_no_lease_ends_while_the_machine_is_down(void **state)
{
    struct fixture *f = *state;
    struct dibs_sweep swept = {0};
    given_claim(f);
    world_pass(&f->world, MINUTES(9));
    struct dibs_claim out = {0};
    struct dibs_heartbeat hb = {.task_id = "a", .session_id = "s"};
    assert_ok(f, dibs_claim_heartbeat(f->d, f->a, &hb, &out, &f->err)); /* last seen alive */
    world_reboot(&f->world, HOURS(3));
    fixture_reopen(f);
    assert_int_equal(remaining(f, "a"), HALF_HOUR); /* to a reader, before anybody writes */
    assert_ok(f, dibs_cleanup(f->d, f->a, &swept, &f->err));
    assert_int_equal(swept.expired + swept.orphaned + swept.sessions_ended, 0);
    assert_int_equal(now(f), f->world.wall_ms);
    assert_int_equal(remaining(f, "a"), HALF_HOUR);
    assert_adjusted(f, "boot", HOURS(3));
    world_pass(&f->world, HALF_HOUR - 1);
    assert_int_equal(sweep_expired(f).count, 0);
    world_pass(&f->world, 1);
    assert_int_equal(sweep_expired(f).count, 1);
}

static void test_after_a_reboot_with_a_wrong_clock_leases_keep_their_time(void **state)
{
    struct fixture *f = *state;
    given_claim(f);
    world_pass(&f->world, MINUTES(1));
    write_something(f);
    int64_t seen = now(f);
    world_reboot(&f->world, -HOURS(24 * 365 * 10)); /* the battery of its clock is empty */
    fixture_reopen(f);
    write_something(f);
    assert_int_equal(now(f), seen); /* it goes on from where it was */
    assert_int_equal(remaining(f, "a"), MINUTES(29));
    write_something(f);
    assert_int_equal(remaining(f, "a"), MINUTES(29));
    world_set_clock(&f->world, f->world.wall_ms + HOURS(24 * 365 * 10)); /* the network sets it */
    write_something(f);
    assert_int_equal(now(f), f->world.wall_ms);
    assert_int_equal(remaining(f, "a"), MINUTES(29));
}

static void test_a_store_without_history_takes_the_time_as_it_is_after_a_reboot(void **state)
{
    struct fixture *f = *state;
    world_reboot(&f->world, HOURS(1));
    fixture_reopen(f);
    assert_int_equal(now(f), f->world.wall_ms);
    write_something(f);
    assert_int_equal(now(f), f->world.wall_ms);
    assert_int_equal(events_of(f, "clock:adjusted").count, 0);
}

static dibs_status op_heartbeat(struct fixture *f)
{
    struct dibs_session_news news = {0};
    return dibs_session_heartbeat(f->d, f->a, "s", &news, &f->err);
}

static void test_a_failing_store_moves_all_leases_or_none(void **state)
{
    struct fixture *f = *state;
    given_claim(f);
    world_set_clock(&f->world, f->world.wall_ms + HOURS(1));
    assert_true(probe_fail_each(f, op_heartbeat) > 10);
    assert_int_equal(remaining(f, "a"), HALF_HOUR);
    assert_adjusted(f, "step", HOURS(1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_the_store_shows_the_time_of_day_and_moves_with_it),
        STORE_TEST(test_a_clock_set_forward_ends_no_lease),
        STORE_TEST(test_a_clock_set_back_prolongs_no_lease),
        STORE_TEST(test_the_write_after_the_step_may_be_about_the_lease_itself),
        STORE_TEST(test_how_long_a_task_was_held_does_not_depend_on_the_clock),
        STORE_TEST(test_drift_up_to_two_seconds_changes_nothing),
        STORE_TEST(test_all_handles_follow_one_move),
        STORE_TEST(test_a_refused_operation_does_not_move_the_clock),
        STORE_TEST(test_sessions_locks_waits_turns_and_keys_move_along),
        STORE_TEST(test_a_date_stays_where_it_is_while_a_back_off_moves_along),
        STORE_TEST(test_a_back_off_later_than_its_date_moves_and_the_date_stays),
        STORE_TEST(test_no_lease_ends_while_the_machine_sleeps),
        STORE_TEST(test_no_lease_ends_while_the_machine_is_down),
        STORE_TEST(test_after_a_reboot_with_a_wrong_clock_leases_keep_their_time),
        STORE_TEST(test_a_store_without_history_takes_the_time_as_it_is_after_a_reboot),
        STORE_TEST(test_a_failing_store_moves_all_leases_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
