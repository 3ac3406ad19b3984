/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/serve.c: time in which a daemon could hear nobody, processes that end, and who
 * is woken.
 */
#include <stdlib.h>

#include "daemon.h"

/* The daemon is gone for a while, and is started again. */
static int64_t down_for(struct fixture *f, int64_t ms)
{
    dibs_close(f->d);
    world_pass(&f->world, ms);
    f->d = fixture_open(f);
    dibs__serve(f->d);
    return after_downtime(f);
}

/* ---- time in which nobody could be heard ----------------------------------------------------- */

static void test_a_restart_gives_back_the_time_the_daemon_was_down(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_task(f, "a");
    struct dibs_claim c = claim_for(f, "a", "s", MINUTES(10));
    struct dibs_claim l = take_lock(f, "r", "t");
    world_pass(&f->world, 20000);
    assert_ok(f, dibs__alive(f->d, &f->err));
    assert_int_equal(down_for(f, MINUTES(300)), MINUTES(300));
    assert_int_equal(tend(f).expired, 0);
    struct dibs_event_list events = events_of(f, "leases:extended");
    assert_int_equal(events.count, 1);
    assert_int_equal(event_int(f, &events.items[0], "byMs"), MINUTES(300));
    assert_int_equal(event_int(f, &events.items[0], "count"), 2);
    assert_string_equal(event_field(f, &events.items[0], "reason"), "restart");
    struct dibs_due due = tend(f);
    assert_int_equal(due.next_ms, l.expires_at_ms + MINUTES(300));
    world_pass(&f->world, MINUTES(10) - 20000 - 1);
    tend(f);
    assert_status(f, "a", "in_progress");
    world_pass(&f->world, 1);
    assert_int_equal(tend(f).expired, 1);
    assert_int_equal(now_ms(f), c.expires_at_ms + MINUTES(300));
}

static void test_what_the_daemon_heard_last_counts_as_its_last_life(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_task(f, "a");
    claim_for(f, "a", "s", MINUTES(10));
    world_pass(&f->world, MINUTES(3));
    assert_ok(f, try_heartbeat(f, "a", "s", 0)); /* and nobody says dibs__alive */
    assert_int_equal(down_for(f, MINUTES(60)), MINUTES(60));
    world_pass(&f->world, MINUTES(10) - 1);
    tend(f);
    assert_status(f, "a", "in_progress");
}

static void test_a_lease_is_not_given_what_it_has_not_lost(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_task(f, "past");
    make_task(f, "later");
    make_task(f, "renewed");
    claim_for(f, "past", "s", MINUTES(1));
    claim_for(f, "renewed", "s", MINUTES(30));
    world_pass(&f->world, MINUTES(1)); /* past its deadline, though nobody has looked */
    assert_ok(f, dibs__alive(f->d, &f->err));
    dibs_close(f->d); /* the daemon is gone; others work on the file for days */
    f->d = fixture_open(f);
    world_pass(&f->world, MINUTES(1));
    assert_ok(f, try_heartbeat(f, "renewed", "s", 0));
    claim_for(f, "later", "t", MINUTES(30));
    int64_t ends = now_ms(f) + MINUTES(30);
    assert_int_equal(down_for(f, MINUTES(60 * 24 * 5)), 0);
    assert_event_count(f, "leases:extended", 0);
    assert_int_equal(probe_int(f, "SELECT max(expires_at) FROM claim"), ends);
    assert_int_equal(tend(f).expired, 3 - (int)events_of(f, "task:claim-expired").count);
}

static void test_the_first_sweep_after_a_downtime_orphans_nobody(void **state)
{
    struct fixture *f = *state;
    struct dibs_sweep swept = {0};
    given_a_daemon(f);
    make_task(f, "a");
    claim_for(f, "a", "s", MINUTES(30));
    world_pass(&f->world, MINUTES(4));
    assert_ok(f, dibs__alive(f->d, &f->err));
    down_for(f, MINUTES(600));
    assert_ok(f, dibs_cleanup(f->d, f->a, &swept, &f->err));
    assert_int_equal(swept.orphaned + swept.expired + swept.sessions_ended + swept.sessions_stale,
                     0);
    world_pass(&f->world, MINUTES(6)); /* silent for as long as nobody could excuse it */
    assert_ok(f, dibs_cleanup(f->d, f->a, &swept, &f->err));
    assert_int_equal(swept.sessions_ended, 0);
    world_pass(&f->world, 1);
    assert_ok(f, dibs_cleanup(f->d, f->a, &swept, &f->err));
    assert_int_equal(swept.orphaned, 1);
    assert_int_equal(swept.sessions_ended, 2);
}

static void test_a_reboot_is_a_downtime_too_and_is_not_counted_twice(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_task(f, "a");
    claim_for(f, "a", "s", MINUTES(10));
    world_pass(&f->world, MINUTES(2));
    assert_ok(f, dibs__alive(f->d, &f->err));
    dibs_close(f->d);
    world_pass(&f->world, MINUTES(5)); /* stopped, and then the machine went down */
    world_reboot(&f->world, MINUTES(100));
    f->d = fixture_open(f);
    dibs__serve(f->d);
    after_downtime(f);
    struct dibs_task task = get_task(f, "a");
    assert_non_null(task.claim);
    assert_in_range(task.claim->remaining_ms, MINUTES(8), MINUTES(10));
}

static void test_a_stall_moves_the_leases_that_were_held_when_it_began(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_task(f, "a");
    make_task(f, "b");
    struct dibs_claim a = claim_for(f, "a", "s", MINUTES(1));
    dibs *other = fixture_open(f);
    world_pass(&f->world, 30000);
    /* the daemon stands still for two minutes; another process goes on */
    world_pass(&f->world, 60000);
    struct dibs_claim b = {0};
    struct dibs_claim_take in = {.task_id = "b", .session_id = "t", .ttl_ms = MINUTES(5)};
    assert_ok(f, dibs_claim_take(other, f->a, &in, &b, &f->err));
    world_pass(&f->world, 60000);
    assert_ok(f, dibs__extend_leases(f->d, MINUTES(2), "stall", &f->err));
    struct dibs_event_list events = events_of(f, "leases:extended");
    assert_int_equal(events.count, 1);
    assert_int_equal(event_int(f, &events.items[0], "count"), 1);
    assert_string_equal(event_field(f, &events.items[0], "reason"), "stall");
    assert_int_equal(tend(f).expired, 0);
    assert_int_equal(get_task(f, "a").claim->expires_at_ms, a.expires_at_ms + MINUTES(2));
    assert_int_equal(get_task(f, "b").claim->expires_at_ms, b.expires_at_ms);
    dibs_close(other);
}

static void test_an_idle_daemon_does_not_wake_the_disk(void **state)
{
    struct fixture *f = *state;
    dibs__serve(f->d);
    after_downtime(f);
    char *before = probe_tables(f);
    world_pass(&f->world, 5000);
    assert_ok(f, dibs__alive(f->d, &f->err));
    char *after = probe_tables(f);
    assert_string_equal(before, after);
    free(before);
    free(after);
    make_session(f, "s");
    world_pass(&f->world, 5000);
    assert_ok(f, dibs__alive(f->d, &f->err));
    assert_int_equal(probe_int(f, "SELECT value FROM counter WHERE name = 'alive_at'"), now_ms(f));
}

static void test_a_daemon_does_not_sweep_behind_an_operation(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_task(f, "a");
    claim_for(f, "a", "s", MINUTES(1));
    world_pass(&f->world, MINUTES(60));
    make_task(f, "b");
    assert_status(f, "a", "in_progress");
    bool ran = false;
    assert_ok(f, dibs_maintain(f->d, &ran, &f->err)); /* when it likes */
    assert_true(ran);
    assert_status(f, "a", "open");
}

/* ---- processes ------------------------------------------------------------------------------- */

static struct dibs_session register_process(struct fixture *f, const char *id, int64_t pid)
{
    struct dibs_session out = {0};
    struct dibs_session_new in = {.id = id, .pid = pid};
    assert_ok(f, dibs_session_register(f->d, f->a, &in, &out, &f->err));
    return out;
}

static void test_sessions_of_this_host_are_listed_with_their_process(void **state)
{
    struct fixture *f = *state;
    struct dibs_local_sessions here = {0};
    struct dibs_session out = {0};
    given_a_daemon(f); /* two without a process */
    world_start_process(&f->world, 41);
    struct dibs_session near = register_process(f, "near", 41);
    struct dibs_session_new far = {.id = "far", .pid = 41, .host = "elsewhere"};
    assert_ok(f, dibs_session_register(f->d, f->a, &far, &out, &f->err));
    assert_ok(f, dibs__sessions_here(f->d, f->a, &here, &f->err));
    assert_int_equal(here.count, 1);
    assert_string_equal(here.items[0].id, "near");
    assert_int_equal(here.items[0].pid, 41);
    assert_int_equal(here.items[0].incarnation, 1);
    assert_string_equal(here.items[0].start, near.process_start);
    struct dibs_deregistered gone = {0};
    assert_ok(f, dibs_session_deregister(f->d, f->a, "near", &gone, &f->err));
    assert_ok(f, dibs__sessions_here(f->d, f->a, &here, &f->err));
    assert_int_equal(here.count, 0);
}

static void test_the_end_of_a_process_frees_all_that_its_session_held(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    world_start_process(&f->world, 41);
    register_process(f, "near", 41);
    make_task(f, "a");
    claim_for(f, "a", "near", 0);
    take_lock(f, "r", "near");
    plant(f, "INSERT INTO lock_wait VALUES (77, 'r', 't', 0, 60000, 0, 9000000000000)");
    plant(f, "INSERT INTO lock_wait VALUES (78, 'q', 'near', 0, 60000, 0, 9000000000000)");
    world_kill_process(&f->world, 41);
    assert_ok(f, dibs__session_process_ended(f->d, f->a, "near", 1, &f->err));
    assert_status(f, "a", "open");
    struct dibs_event_list orphaned = events_of(f, "task:claim-orphaned");
    assert_int_equal(orphaned.count, 1);
    assert_string_equal(event_field(f, &orphaned.items[0], "reason"), "process_dead");
    assert_string_equal(event_field(f, &orphaned.items[0], "sweep"), "");
    struct dibs_event_list taken = events_of(f, "lock:taken");
    assert_int_equal(taken.count, 2);
    assert_string_equal(taken.items[1].session_id, "t");
    assert_int_equal(probe_int(f, "SELECT count(*) FROM lock_wait"), 0);
    assert_int_equal(get_session(f, "near").status, DIBS_SESSION_ENDED);
    struct dibs_event_list ended = events_of(f, "session:deregistered");
    assert_int_equal(ended.count, 1);
    assert_string_equal(event_field(f, &ended.items[0], "reason"), "process_dead");
    assert_ok(f, dibs__session_process_ended(f->d, f->a, "near", 1, &f->err)); /* again: nothing */
    assert_event_count(f, "session:deregistered", 1);
}

static void test_the_end_of_a_process_is_nothing_to_the_next_incarnation(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    world_start_process(&f->world, 41);
    register_process(f, "near", 41);
    make_task(f, "a");
    claim_for(f, "a", "near", 0);
    world_kill_process(&f->world, 41);
    register_process(f, "near", 42); /* that process is dead as well, but it is not the one meant */
    assert_ok(f, dibs__session_process_ended(f->d, f->a, "near", 1, &f->err));
    assert_status(f, "a", "in_progress");
    assert_int_equal(get_session(f, "near").status, DIBS_SESSION_ACTIVE);
    assert_ok(f, dibs__session_process_ended(f->d, f->a, "nobody", 1, &f->err));
    assert_event_count(f, "session:deregistered", 0);
}

static void test_a_process_that_lives_after_all_keeps_its_claims(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    world_start_process(&f->world, 41);
    register_process(f, "near", 41);
    make_task(f, "a");
    claim_for(f, "a", "near", 0);
    assert_ok(f, dibs__session_process_ended(f->d, f->a, "near", 1, &f->err));
    assert_status(f, "a", "in_progress");
    assert_event_count(f, "session:deregistered", 0);
}

/* ---- wakes ----------------------------------------------------------------------------------- */

static void test_every_way_to_become_claimable_wakes(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_agent_session(f, "ann-1", "ann");
    struct dibs_wakes before = dibs__wakes(f->d), now = before;
    make_task(f, "a");
    now = dibs__wakes(f->d);
    assert_true(now.tasks > before.tasks); /* created */
    claim_for(f, "a", "s", 0);
    before = dibs__wakes(f->d);
    assert_int_equal(before.tasks, now.tasks);
    assert_ok(f, try_release(f, "a", "s", 0, NULL));
    now = dibs__wakes(f->d);
    assert_true(now.tasks > before.tasks); /* given back */
    struct dibs_strings tags = {.items = (const char *[]){"x"}, .count = 1};
    struct dibs_task out = {0};
    struct dibs_task_edit edit = {.id = "a", .tags = &tags};
    assert_ok(f, dibs_task_update(f->d, f->a, &edit, &out, &f->err));
    before = now;
    now = dibs__wakes(f->d);
    assert_true(now.tasks > before.tasks); /* another filter may fit now */
    assert_int_equal(now.agents, before.agents);
    before = now;
    assert_ok(f, try_move(f, dibs_task_assign, "a", "ann"));
    now = dibs__wakes(f->d);
    assert_true(now.agents > before.agents);
    assert_true(dibs__is_woken(f->d, before.agents, dibs__wake_key("ann")));
    assert_int_equal(now.tasks, before.tasks);
    before = now;
    claim_for(f, "a", "ann-1", MINUTES(1));
    world_pass(&f->world, MINUTES(1));
    tend(f);
    now = dibs__wakes(f->d);
    assert_true(now.tasks > before.tasks); /* its lease has ended */
}

static void test_a_dependant_that_may_start_wakes(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_task(f, "a");
    struct dibs_strings needs = {.items = (const char *[]){"a"}, .count = 1};
    make_task_as(f, (struct dibs_task_new){.id = "b", .title = "b", .depends_on = needs});
    claim_for(f, "a", "s", 0);
    int64_t before = dibs__wakes(f->d).tasks;
    assert_ok(f, try_complete(f, "a", "s", 0, NULL));
    assert_true(dibs__wakes(f->d).tasks > before);
}

static void test_a_lock_that_is_let_go_wakes(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {0};
    given_a_daemon(f);
    take_lock(f, "r", "s");
    int64_t before = dibs__wakes(f->d).locks;
    struct dibs_lock_take other = {.resource = "r", .session_id = "t"};
    assert_refused(f, DIBS_LOCK_HELD, dibs_lock_take(f->d, f->a, &other, &out, &f->err));
    assert_int_equal(dibs__wakes(f->d).locks, before); /* asking wakes nobody */
    struct dibs_lock_ref mine = {.resource = "r", .session_id = "s"};
    assert_ok(f, dibs_lock_release(f->d, f->a, &mine, &out, &f->err));
    assert_true(dibs__wakes(f->d).locks > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_restart_gives_back_the_time_the_daemon_was_down),
        STORE_TEST(test_what_the_daemon_heard_last_counts_as_its_last_life),
        STORE_TEST(test_a_lease_is_not_given_what_it_has_not_lost),
        STORE_TEST(test_the_first_sweep_after_a_downtime_orphans_nobody),
        STORE_TEST(test_a_reboot_is_a_downtime_too_and_is_not_counted_twice),
        STORE_TEST(test_a_stall_moves_the_leases_that_were_held_when_it_began),
        STORE_TEST(test_an_idle_daemon_does_not_wake_the_disk),
        STORE_TEST(test_a_daemon_does_not_sweep_behind_an_operation),
        STORE_TEST(test_sessions_of_this_host_are_listed_with_their_process),
        STORE_TEST(test_the_end_of_a_process_frees_all_that_its_session_held),
        STORE_TEST(test_the_end_of_a_process_is_nothing_to_the_next_incarnation),
        STORE_TEST(test_a_process_that_lives_after_all_keeps_its_claims),
        STORE_TEST(test_every_way_to_become_claimable_wakes),
        STORE_TEST(test_a_dependant_that_may_start_wakes),
        STORE_TEST(test_a_lock_that_is_let_go_wakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
