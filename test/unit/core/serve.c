/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/serve.c: the deadlines a daemon wakes for. Time in which it could hear nobody,
 * processes that end: serve_time.c; waiting for a lock inside a batch: serve_lock.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "daemon.h"

#define MANY 10000

/* ---- deadlines ------------------------------------------------------------------------------- */

static void test_nothing_is_due_in_an_empty_store(void **state)
{
    struct fixture *f = *state;
    struct dibs_due due = tend(f);
    assert_int_equal(due.next_ms, 0);
    assert_int_equal(due.now_ms, now_ms(f));
    assert_false(due.more);
}

static void test_a_lease_ends_at_its_deadline_and_not_a_millisecond_before(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_task(f, "a");
    struct dibs_claim c = claim_for(f, "a", "s", MINUTES(1));
    tend(f); /* warns at once: it is about to end */
    assert_event_count(f, "task:claim-expiring", 1);
    world_pass(&f->world, MINUTES(1) - 1);
    struct dibs_due due = tend(f);
    assert_int_equal(due.expired, 0);
    assert_int_equal(due.next_ms, c.expires_at_ms);
    assert_status(f, "a", "in_progress");
    world_pass(&f->world, 1);
    due = tend(f);
    assert_int_equal(due.expired, 1);
    assert_int_equal(due.now_ms, c.expires_at_ms);
    assert_int_equal(due.next_ms, 0);
    assert_status(f, "a", "open");
    struct dibs_event_list events = events_of(f, "task:claim-expired");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "sweep"), ""); /* no part of a sweep */
    assert_event_count(f, "claims:cleanup", 0);
    assert_int_equal(tend(f).expired, 0); /* once */
}

static void test_a_look_at_nothing_due_writes_nothing(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_task(f, "a");
    claim_for(f, "a", "s", MINUTES(30));
    char *before = probe_tables(f);
    world_pass(&f->world, MINUTES(10));
    assert_int_equal(tend(f).next_ms, f->world.wall_ms + MINUTES(19)); /* the warning */
    char *after = probe_tables(f);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void test_the_holder_is_warned_once_for_each_renewal(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_task(f, "a");
    struct dibs_claim c = claim_for(f, "a", "s", MINUTES(5));
    assert_int_equal(tend(f).next_ms, c.expires_at_ms - MINUTES(1));
    world_pass(&f->world, MINUTES(4) - 1);
    assert_int_equal(tend(f).warned, 0);
    world_pass(&f->world, 1);
    struct dibs_due due = tend(f);
    assert_int_equal(due.warned, 1);
    assert_int_equal(due.next_ms, c.expires_at_ms);
    world_pass(&f->world, 1000);
    assert_int_equal(tend(f).warned, 0);
    assert_ok(f, try_heartbeat(f, "a", "s", 0));
    world_pass(&f->world, MINUTES(4));
    assert_int_equal(tend(f).warned, 1);
    assert_event_count(f, "task:claim-expiring", 2);
}

static void test_a_short_lease_is_warned_of_though_others_were_before(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    for (int i = 0; i < 3; i++)
        make_task(f, (const char *[]){"a", "b", "c"}[i]);
    claim_for(f, "a", "s", MINUTES(2));
    claim_for(f, "b", "s", MINUTES(3));
    world_pass(&f->world, MINUTES(1) + 30000);
    assert_int_equal(tend(f).warned, 1);
    claim_for(f, "c", "s", MINUTES(1)); /* ends before b */
    assert_int_equal(tend(f).warned, 1);
    world_pass(&f->world, 30000);
    struct dibs_due due = tend(f);
    assert_int_equal(due.expired, 1);
    assert_int_equal(due.warned, 1);
    assert_event_count(f, "task:claim-expiring", 3);
}

static void test_a_lock_goes_to_the_next_waiter_at_its_deadline(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    take_lock(f, "r", "s");
    plant(f, "INSERT INTO lock_wait VALUES (77, 'r', 't', 0, 60000, 0, 9000000000000)");
    world_pass(&f->world, MINUTES(1) - 1);
    assert_int_equal(tend(f).locks, 0);
    world_pass(&f->world, 1);
    assert_int_equal(tend(f).locks, 1);
    assert_event_count(f, "lock:expired", 1);
    struct dibs_event_list taken = events_of(f, "lock:taken");
    assert_int_equal(taken.count, 2);
    assert_string_equal(taken.items[1].session_id, "t");
}

static void test_whoever_waits_behind_a_ticket_whose_time_is_over_moves_up(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    struct dibs_lock_take shared = {
        .resource = "r", .session_id = "s", .shared = true, .ttl_ms = MINUTES(30)};
    struct dibs_claim out = {0};
    assert_ok(f, dibs_lock_take(f->d, f->a, &shared, &out, &f->err));
    make_session(f, "u");
    int64_t end = now_ms(f) + 5000;
    char sql[200];
    snprintf(sql, sizeof sql, "INSERT INTO lock_wait VALUES (77, 'r', 't', 0, 60000, 0, %lld)",
             (long long)end);
    plant(f, sql); /* exclusive */
    plant(f, "INSERT INTO lock_wait VALUES (78, 'r', 'u', 1, 60000, 0, 9000000000000)");
    assert_int_equal(tend(f).next_ms, end);
    world_pass(&f->world, 5000);
    tend(f);
    struct dibs_event_list taken = events_of(f, "lock:taken");
    assert_int_equal(taken.count, 2);
    assert_string_equal(taken.items[1].session_id, "u");
}

static void test_a_review_past_its_deadline_is_offered_again(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_agent_session(f, "ann-1", "ann");
    make_task(f, "a");
    assert_ok(f, try_move(f, dibs_task_offer, "a", "ann"));
    assert_ok(f, try_review(f, "a", "ann-1"));
    assert_status(f, "a", "reviewing");
    struct dibs_due due = tend(f);
    world_pass(&f->world, due.next_ms - due.now_ms);
    assert_int_equal(tend(f).expired, 1);
    assert_status(f, "a", "offered");
}

static void test_a_task_becomes_ready_when_its_time_has_come(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    int64_t at = now_ms(f) + 5000;
    make_task_as(f, (struct dibs_task_new){.id = "a", .title = "a", .run_after_ms = at});
    int64_t before = dibs__wakes(f->d).tasks;
    assert_int_equal(tend(f).next_ms, at);
    world_pass(&f->world, 4999);
    assert_int_equal(tend(f).promoted, 0);
    world_pass(&f->world, 1);
    assert_int_equal(tend(f).promoted, 1);
    assert_int_equal(dibs__wakes(f->d).tasks, before + 1);
    assert_int_equal(probe_int(f, "SELECT ready FROM task WHERE id = 'a'"), 1);
}

static void test_those_who_wait_are_woken_when_the_time_of_an_assigned_task_comes(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_agent_session(f, "ann-1", "ann");
    int64_t at = now_ms(f) + 5000;
    make_task_as(
        f, (struct dibs_task_new){.id = "a", .title = "a", .assignee = "ann", .run_after_ms = at});
    int64_t before = dibs__wakes(f->d).agents;
    assert_int_equal(tend(f).next_ms, at);
    world_pass(&f->world, 4999);
    tend(f);
    assert_int_equal(dibs__wakes(f->d).agents, before);
    world_pass(&f->world, 1);
    assert_int_equal(tend(f).next_ms, 0);
    assert_int_equal(dibs__wakes(f->d).agents, before + 1);
    assert_true(dibs__is_woken(f->d, before, dibs__wake_key("ann")));
    assert_false(dibs__is_woken(f->d, before, dibs__wake_key("bob")));
    tend(f);
    assert_int_equal(dibs__wakes(f->d).agents, before + 1);
}

static void test_what_another_process_has_ended_is_not_ended_again(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_task(f, "a");
    claim_for(f, "a", "s", MINUTES(1));
    tend(f);
    dibs *other = fixture_open(f);
    world_pass(&f->world, MINUTES(1));
    struct dibs_cleaned cleaned = {0};
    assert_ok(f, dibs_cleanup_expired(other, f->a, &cleaned, &f->err));
    assert_int_equal(cleaned.count, 1);
    assert_int_equal(tend(f).expired, 0);
    assert_event_count(f, "task:claim-expired", 1);
    dibs_close(other);
}

static void test_a_clock_that_is_set_ends_no_lease(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_task(f, "a");
    claim_for(f, "a", "s", MINUTES(10));
    tend(f);
    world_set_clock(&f->world, f->world.wall_ms + MINUTES(600));
    assert_int_equal(tend(f).expired, 0);
    make_task(f, "b"); /* a writer follows the clock */
    assert_int_equal(tend(f).expired, 0);
    world_set_clock(&f->world, f->world.wall_ms - MINUTES(1200));
    make_task(f, "c");
    struct dibs_due due = tend(f);
    assert_int_equal(due.next_ms, f->world.wall_ms + MINUTES(9));
    world_pass(&f->world, MINUTES(9));
    assert_int_equal(tend(f).warned, 1);
}

static void test_it_is_refused_inside_a_batch(void **state)
{
    struct fixture *f = *state;
    struct dibs_due due = {.now_ms = 77};
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    assert_refused(f, DIBS_STORE_BUSY, dibs__tend(f->d, f->a, &due, &f->err));
    assert_int_equal(due.now_ms, 77);
    dibs_batch_cancel(f->d);
}

/* ---- many at once ---------------------------------------------------------------------------- */

static void given_leases(struct fixture *f, int count)
{
    dibs_arena *a = dibs_arena_new();
    uint32_t chance = 0;
    for (int i = 0; i < count / 100; i++) {
        struct dibs_task_new tasks[100] = {{0}};
        char ids[100][16];
        for (int j = 0; j < 100; j++) {
            snprintf(ids[j], sizeof ids[j], "m%d", i * 100 + j);
            tasks[j] = (struct dibs_task_new){.id = ids[j], .title = "m"};
        }
        struct dibs_task_list created = {0};
        assert_ok(f, dibs_batch_begin(f->d, &f->err));
        assert_ok(f, dibs_task_create(f->d, a, tasks, 100, &created, &f->err));
        for (int j = 0; j < 100; j++) {
            f->world.platform.random(&f->world, &chance, sizeof chance);
            struct dibs_claim out = {0};
            struct dibs_claim_take in = {
                .task_id = ids[j], .session_id = "s", .ttl_ms = MINUTES(2) + chance % 1000};
            assert_ok(f, dibs_claim_take(f->d, a, &in, &out, &f->err));
        }
        assert_ok(f, dibs_batch_commit(f->d, &f->err));
        dibs_arena_reset(a);
    }
    dibs_arena_free(a);
}

/* Goes from one time that tend names to the next; checks that none is named in vain and nothing
 * is left behind. */
static int64_t tend_to_the_end(struct fixture *f, int64_t *calls)
{
    int64_t expired = 0, warned = 0;
    dibs_arena *a = dibs_arena_new();
    for (;;) {
        struct dibs_due due = {0};
        assert_ok(f, dibs__tend(f->d, a, &due, &f->err));
        expired += due.expired;
        warned += due.warned;
        ++*calls;
        assert_in_range(due.expired, 0, 1000);
        assert_in_range(due.warned, 0, 1000);
        if (due.more)
            continue;
        if (due.next_ms == 0)
            break;
        assert_true(due.next_ms > due.now_ms);
        world_pass(&f->world, due.next_ms - due.now_ms);
        dibs_arena_reset(a);
    }
    dibs_arena_free(a);
    assert_int_equal(warned, MANY);
    return expired;
}

static void test_ten_thousand_leases_of_one_second_end_each_at_its_time(void **state)
{
    struct fixture *f = *state;
    int64_t calls = 0;
    given_a_daemon(f);
    given_leases(f, MANY);
    assert_int_equal(tend_to_the_end(f, &calls), MANY);
    assert_in_range(calls, 1000, 2200); /* each millisecond of warnings and of ends, no more */
    assert_int_equal(probe_int(f, "SELECT count(*) FROM claim WHERE ended_at IS NOT expires_at"),
                     0);
    assert_int_equal(probe_int(f, "SELECT count(*) FROM event WHERE type = 'task:claim-expired'"),
                     MANY);
    /* in the order of their deadlines */
    assert_int_equal(probe_int(f, "SELECT count(*) FROM (SELECT c.expires_at AS at, "
                                  "lag(c.expires_at) OVER (ORDER BY e.number) AS before FROM event "
                                  "e JOIN claim c ON c.token = e.data ->> 'token' "
                                  "WHERE e.type = 'task:claim-expired') WHERE before > at"),
                     0);
}

static void test_more_than_a_portion_is_done_in_portions(void **state)
{
    struct fixture *f = *state;
    int64_t calls = 0;
    given_a_daemon(f);
    given_leases(f, 2500);
    world_pass(&f->world, MINUTES(1) + 1000); /* all warnings are due */
    struct dibs_due due = tend(f);
    assert_int_equal(due.warned, 1000);
    assert_true(due.more);
    while (due.more)
        due = tend(f);
    world_pass(&f->world, MINUTES(1));
    for (due.more = true; due.more; calls++) {
        due = tend(f);
        int64_t left = 2500 - calls * TEND_BATCH_MAX;
        assert_int_equal(due.expired, left < TEND_BATCH_MAX ? left : TEND_BATCH_MAX);
    }
    assert_int_equal(calls, (2500 + TEND_BATCH_MAX - 1) / TEND_BATCH_MAX);
    assert_int_equal(due.next_ms, 0);
}

static int64_t uncounted(struct fixture *f)
{
    return probe_int(f, "SELECT e.value - s.value FROM counter e JOIN counter s "
                        "ON e.name = 'event' AND s.name = 'score_upto'");
}

static void test_events_are_counted_into_the_scores_a_portion_at_a_time(void **state)
{
    struct fixture *f = *state;
    struct dibs_stats before = {0}, after = {0};
    struct dibs_sweep swept = {0};
    given_a_daemon(f);
    given_leases(f, 11000); /* two events each */
    assert_ok(f, dibs_stats(f->d, f->a, &before, &f->err));
    assert_int_equal(before.claimed_ever, 11000);
    int64_t left = uncounted(f);
    assert_true(left > 2 * FOLD_BATCH_MAX);
    assert_true(tend(f).more);
    assert_int_equal(uncounted(f), left - FOLD_BATCH_MAX);
    while (tend(f).more) {
    }
    assert_in_range(uncounted(f), 1, FOLD_BATCH_MAX - 1);
    assert_ok(f, dibs_cleanup(f->d, f->a, &swept, &f->err)); /* leaves nothing to count */
    assert_int_equal(uncounted(f), 0);
    assert_ok(f, dibs_stats(f->d, f->a, &after, &f->err));
    assert_int_equal(after.claimed_ever, 11000);
}

/* ---- assigned for later ---------------------------------------------------------------------- */

static int64_t make_assigned_for(struct fixture *f, const char *id, int64_t after_ms)
{
    int64_t at = now_ms(f) + after_ms;
    make_task_as(
        f, (struct dibs_task_new){.id = id, .title = id, .assignee = "ann", .run_after_ms = at});
    return at;
}

static void test_a_task_assigned_for_later_is_waited_for_however_soon_after_a_look(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_agent_session(f, "ann-1", "ann");
    assert_int_equal(tend(f).next_ms, 0);
    world_pass(&f->world, 20);
    int64_t late = make_assigned_for(f, "a", 1500);
    assert_int_equal(tend(f).next_ms, late);
    int64_t soon = make_assigned_for(f, "b", 500); /* sooner than what it waits for */
    assert_int_equal(tend(f).next_ms, soon);
    int64_t before = dibs__wakes(f->d).agents;
    world_pass(&f->world, 500);
    assert_int_equal(tend(f).next_ms, late);
    assert_true(dibs__is_woken(f->d, before, dibs__wake_key("ann")));
    before = dibs__wakes(f->d).agents;
    world_pass(&f->world, 1000);
    assert_int_equal(tend(f).next_ms, 0);
    assert_true(dibs__is_woken(f->d, before, dibs__wake_key("ann")));
}

static void test_a_task_that_another_process_assigns_for_later_is_waited_for(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_agent_session(f, "ann-1", "ann");
    tend(f);
    dibs *own = f->d, *other = fixture_open(f);
    f->d = other;
    int64_t at = make_assigned_for(f, "a", 700);
    f->d = own;
    assert_int_equal(tend(f).next_ms, at);
    dibs_close(other);
}

static void test_a_clock_that_is_set_wakes_those_whose_assigned_tasks_are_due_by_it(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_agent_session(f, "ann-1", "ann");
    make_assigned_for(f, "a", MINUTES(60));
    tend(f);
    int64_t before = dibs__wakes(f->d).agents;
    world_set_clock(&f->world, f->world.wall_ms + MINUTES(120));
    make_task(f, "b"); /* a writer follows the clock */
    tend(f);
    assert_true(dibs__is_woken(f->d, before, dibs__wake_key("ann")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_nothing_is_due_in_an_empty_store),
        STORE_TEST(test_a_lease_ends_at_its_deadline_and_not_a_millisecond_before),
        STORE_TEST(test_a_look_at_nothing_due_writes_nothing),
        STORE_TEST(test_the_holder_is_warned_once_for_each_renewal),
        STORE_TEST(test_a_short_lease_is_warned_of_though_others_were_before),
        STORE_TEST(test_a_lock_goes_to_the_next_waiter_at_its_deadline),
        STORE_TEST(test_whoever_waits_behind_a_ticket_whose_time_is_over_moves_up),
        STORE_TEST(test_a_review_past_its_deadline_is_offered_again),
        STORE_TEST(test_a_task_becomes_ready_when_its_time_has_come),
        STORE_TEST(test_those_who_wait_are_woken_when_the_time_of_an_assigned_task_comes),
        STORE_TEST(test_what_another_process_has_ended_is_not_ended_again),
        STORE_TEST(test_a_clock_that_is_set_ends_no_lease),
        STORE_TEST(test_it_is_refused_inside_a_batch),
        STORE_TEST(test_ten_thousand_leases_of_one_second_end_each_at_its_time),
        STORE_TEST(test_more_than_a_portion_is_done_in_portions),
        STORE_TEST(test_events_are_counted_into_the_scores_a_portion_at_a_time),
        STORE_TEST(test_a_task_assigned_for_later_is_waited_for_however_soon_after_a_look),
        STORE_TEST(test_a_task_that_another_process_assigns_for_later_is_waited_for),
        STORE_TEST(test_a_clock_that_is_set_wakes_those_whose_assigned_tasks_are_due_by_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
