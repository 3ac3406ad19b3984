/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/overview.c: what is in flight, claims in numbers, sessions at a glance.
 */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HALF_HOUR MINUTES(30)

static struct dibs_stats stats(struct fixture *f)
{
    struct dibs_stats out = {0};
    assert_ok(f, dibs_stats(f->d, f->a, &out, &f->err));
    return out;
}

static struct dibs_summary summary(struct fixture *f, const char *project)
{
    struct dibs_summary out = {0};
    assert_ok(f, dibs_session_summary(f->d, f->a, project, &out, &f->err));
    return out;
}

static struct dibs_in_flight in_flight(struct fixture *f, struct dibs_in_flight_filter in)
{
    struct dibs_in_flight out = {0};
    assert_ok(f, dibs_in_flight(f->d, f->a, &in, &out, &f->err));
    return out;
}

static int64_t tally(struct dibs_tally_list list, const char *name)
{
    for (size_t i = 0; i < list.count; i++)
        if (strcmp(list.items[i].name, name) == 0)
            return list.items[i].count;
    return 0;
}

static void enrol(struct fixture *f, const char *id, const char *project, const char *agent_type)
{
    struct dibs_session out = {0};
    struct dibs_session_new in = {.id = id, .project = project, .agent_type = agent_type};
    assert_ok(f, dibs_session_register(f->d, f->a, &in, &out, &f->err));
}

static void given_claim(struct fixture *f, const char *task, const char *session,
                        const char *project)
{
    make_task_as(f, (struct dibs_task_new){.id = task, .project = project});
    claim(f, task, session);
}

static void complete(struct fixture *f, const char *task, const char *session)
{
    struct dibs_task out = {0};
    struct dibs_report report = {.task_id = task, .session_id = session};
    assert_ok(f, dibs_complete(f->d, f->a, &report, &out, &f->err));
}

/* ---- in flight ------------------------------------------------------------------------------- */

static void test_in_flight_lists_the_oldest_claim_first_and_filters(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_session(f, "t");
    given_claim(f, "b", "s", "p");
    world_pass(&f->world, 1000);
    given_claim(f, "a", "t", "q");
    world_pass(&f->world, 1000);
    given_claim(f, "c", "s", "q");
    struct dibs_in_flight all = in_flight(f, (struct dibs_in_flight_filter){0});
    assert_int_equal(all.total, 3);
    assert_int_equal(all.count, 3);
    assert_string_equal(all.items[0].task.id, "b");
    assert_string_equal(all.items[0].claim.session_id, "s");
    assert_int_equal(all.items[0].claim.held_ms, 2000);
    assert_string_equal(all.items[2].task.id, "c");
    assert_int_equal(in_flight(f, (struct dibs_in_flight_filter){.session_id = "s"}).count, 2);
    assert_int_equal(in_flight(f, (struct dibs_in_flight_filter){.project = "q"}).count, 2);
    struct dibs_in_flight_filter both = {.session_id = "s", .project = "q"};
    assert_string_equal(in_flight(f, both).items[0].task.id, "c");
    struct dibs_in_flight some = in_flight(f, (struct dibs_in_flight_filter){.limit = 2});
    assert_int_equal(some.count, 2);
    assert_int_equal(some.total, 3);
    struct dibs_in_flight out = {0};
    struct dibs_in_flight_filter bad = {.limit = 1001};
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_in_flight(f->d, f->a, &bad, &out, &f->err));
}

static void test_claims_past_their_deadline_are_in_flight_only_when_asked_for(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s", NULL);
    world_pass(&f->world, HALF_HOUR);
    assert_int_equal(in_flight(f, (struct dibs_in_flight_filter){0}).total, 0);
    struct dibs_in_flight all =
        in_flight(f, (struct dibs_in_flight_filter){.include_expired = true});
    assert_int_equal(all.total, 1);
    assert_int_equal(all.items[0].claim.health, DIBS_HEALTH_EXPIRED);
}

/* ---- stats ----------------------------------------------------------------------------------- */

static void test_stats_of_an_empty_store_are_zero(void **state)
{
    struct fixture *f = *state;
    struct dibs_stats s = stats(f);
    assert_int_equal(s.total + s.active + s.expiring + s.stale, 0);
    assert_int_equal(s.claimed_ever + s.average_hold_ms + s.oldest_claimable_ms, 0);
    assert_int_equal(s.by_agent_type.count + s.by_session.count + s.tasks_by_status.count, 0);
    assert_int_equal(s.at_ms, f->world.wall_ms);
}

static void test_live_claims_are_counted_by_health_agent_type_and_session(void **state)
{
    struct fixture *f = *state;
    struct dibs_session_news news = {0};
    enrol(f, "s", NULL, "autonomous");
    enrol(f, "t", NULL, NULL);
    given_claim(f, "a", "s", NULL);
    given_claim(f, "b", "s", NULL);
    given_claim(f, "c", "t", NULL);
    world_pass(&f->world, MINUTES(5) + 1);
    struct dibs_stats now = stats(f);
    assert_int_equal(now.active, 3);
    assert_int_equal(now.stale, 3); /* no heartbeat for longer than five minutes */
    assert_int_equal(now.expiring, 0);
    assert_ok(f, dibs_session_heartbeat(f->d, f->a, "t", &news, &f->err));
    assert_int_equal(stats(f).stale, 2);
    assert_int_equal(tally(now.by_agent_type, "autonomous"), 2);
    assert_int_equal(tally(now.by_agent_type, "unknown"), 1);
    assert_int_equal(tally(now.by_session, "s"), 2);
    assert_int_equal(tally(now.by_session, "t"), 1);
    world_pass(&f->world, MINUTES(20));
    assert_int_equal(stats(f).expiring, 2); /* less than five minutes left */
    world_pass(&f->world, MINUTES(5));
    now = stats(f);
    assert_int_equal(now.total, 3);
    assert_int_equal(now.active, 1);
    assert_int_equal(tally(now.by_session, "s"), 0); /* of the active ones */
}

static void test_tasks_are_tallied_by_status(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "open1");
    make_task(f, "open2");
    given_claim(f, "held", "s", NULL);
    given_claim(f, "done", "s", NULL);
    complete(f, "done", "s");
    struct dibs_tally_list by_status = stats(f).tasks_by_status;
    assert_int_equal(by_status.count, 3);
    assert_int_equal(tally(by_status, "open"), 2);
    assert_int_equal(tally(by_status, "in_progress"), 1);
    assert_int_equal(tally(by_status, "completed"), 1);
}

static void test_totals_and_the_average_hold_go_over_all_ended_claims(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    struct dibs_claim refused = {0};
    make_session(f, "s");
    make_session(f, "t");
    given_claim(f, "a", "s", NULL);
    world_pass(&f->world, SECONDS(10));
    complete(f, "a", "s");
    given_claim(f, "b", "s", NULL);
    struct dibs_claim_take take = {.task_id = "b", .session_id = "t"};
    assert_refused(f, DIBS_TASK_ALREADY_CLAIMED,
                   dibs_claim_take(f->d, f->a, &take, &refused, &f->err));
    world_pass(&f->world, SECONDS(20));
    assert_ok(f, dibs_release_session_claims(f->d, f->a, "s", NULL, &cleaned, &f->err));
    claim(f, "b", "s");
    world_pass(&f->world, HALF_HOUR);
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    struct dibs_stats now = stats(f);
    assert_int_equal(now.claimed_ever, 3);
    assert_int_equal(now.completed_ever, 1);
    assert_int_equal(now.released_ever, 1);
    assert_int_equal(now.expired_ever, 1);
    assert_int_equal(now.refused_ever, 1);
    assert_int_equal(now.failed_ever + now.orphaned_ever + now.late_results_ever, 0);
    assert_int_equal(now.average_hold_ms, (SECONDS(10) + SECONDS(20) + HALF_HOUR) / 3);
}

static void test_the_oldest_claimable_task_counts_from_its_creation(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    int64_t later = f->world.wall_ms + MINUTES(2);
    make_task_as(f, (struct dibs_task_new){.id = "later", .run_after_ms = later});
    world_pass(&f->world, MINUTES(1));
    assert_int_equal(stats(f).oldest_claimable_ms, 0); /* its time has not come */
    make_task(f, "now");
    world_pass(&f->world, 500);
    assert_int_equal(stats(f).oldest_claimable_ms, 500);
    world_pass(&f->world, MINUTES(1) - 500);
    assert_int_equal(stats(f).oldest_claimable_ms, MINUTES(2));
    claim(f, "later", "s");
    assert_int_equal(stats(f).oldest_claimable_ms, MINUTES(1));
    claim(f, "now", "s");
    assert_int_equal(stats(f).oldest_claimable_ms, 0);
}

/* ---- summary --------------------------------------------------------------------------------- */

static void test_the_summary_shows_sessions_and_what_they_do(void **state)
{
    struct fixture *f = *state;
    struct dibs_deregistered gone = {0};
    struct dibs_stale_sessions swept = {0};
    make_session(f, "quiet");
    make_session(f, "ended");
    assert_ok(f, dibs_session_deregister(f->d, f->a, "ended", &gone, &f->err));
    world_pass(&f->world, MINUTES(6));
    make_session(f, "busy");
    given_claim(f, "a", "busy", NULL);
    given_claim(f, "b", "busy", NULL);
    assert_ok(f, dibs_cleanup_sessions(f->d, f->a, &swept, &f->err));
    struct dibs_summary s = summary(f, NULL);
    assert_int_equal(s.active_sessions, 1);
    assert_int_equal(s.stale_sessions, 1);
    assert_int_equal(s.in_flight, 2);
    assert_int_equal(tally(s.tasks_by_status, "in_progress"), 2);
    assert_int_equal(s.sessions.count, 2);
    assert_string_equal(s.sessions.items[1].id, "busy");
    assert_string_equal(s.sessions.items[1].current->task.id, "b");
    assert_int_equal(s.at_ms, f->world.wall_ms);
}

static void test_the_summary_of_a_project_is_about_that_project_alone(void **state)
{
    struct fixture *f = *state;
    enrol(f, "s", "p", NULL);
    enrol(f, "t", "q", NULL);
    given_claim(f, "a", "s", "p");
    complete(f, "a", "s");
    given_claim(f, "b", "t", "q");
    complete(f, "b", "t");
    given_claim(f, "c", "t", "q");
    given_claim(f, "d", "t", "p"); /* a session may work for another project */
    struct dibs_summary s = summary(f, "p");
    assert_int_equal(s.active_sessions, 1);
    assert_int_equal(s.sessions.count, 1);
    assert_int_equal(s.in_flight, 1);
    assert_int_equal(s.completed_today, 1);
    assert_int_equal(s.recent_count, 1);
    assert_string_equal(s.recent[0].task_id, "a");
    assert_int_equal(tally(s.tasks_by_status, "completed"), 1);
    assert_int_equal(tally(s.tasks_by_status, "in_progress"), 1);
    assert_int_equal(summary(f, NULL).completed_today, 2);
    assert_int_equal(summary(f, "none").completed_today, 0);
}

static void test_what_is_past_its_deadline_is_not_in_flight(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s", NULL);
    world_pass(&f->world, HALF_HOUR);
    assert_int_equal(summary(f, NULL).in_flight, 0); /* the same answer as the list gives */
}

static void test_all_sessions_are_counted_though_the_list_has_an_end(void **state)
{
    struct fixture *f = *state;
    plant(f, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200) "
             "INSERT INTO session (id, project, incarnation, status, registered_at, heartbeat_at) "
             "SELECT 'w' || i, 'default', 1, 'active', 1, 1766923200000 FROM n");
    struct dibs_summary s = summary(f, NULL);
    assert_int_equal(s.active_sessions, 1200);
    assert_int_equal(s.sessions.count, 1000);
    assert_non_null(s.sessions.next_cursor);
}

static void test_recent_completions_are_the_last_ten_newest_first(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    for (int i = 0; i < 12; i++) {
        char id[16];
        snprintf(id, sizeof id, "t%d", i);
        given_claim(f, id, "s", NULL);
        world_pass(&f->world, 1000 * (i + 1));
        complete(f, id, "s");
    }
    struct dibs_summary s = summary(f, NULL);
    assert_int_equal(s.recent_count, 10);
    assert_string_equal(s.recent[0].task_id, "t11");
    assert_string_equal(s.recent[0].title, "t11");
    assert_string_equal(s.recent[0].session_id, "s");
    assert_int_equal(s.recent[0].held_ms, 12000);
    assert_int_equal(s.recent[0].finished_at_ms, f->world.wall_ms);
    assert_string_equal(s.recent[9].task_id, "t2");
}

static void test_today_begins_at_midnight_utc(void **state)
{
    struct fixture *f = *state;
    int64_t midnight = 1766923200000 + MINUTES(60 * 12); /* 2025-12-29T00:00:00Z */
    make_session(f, "s");
    given_claim(f, "a", "s", "p");
    given_claim(f, "b", "s", "p");
    for (int i = 0; i < 12 * 3; i++) { /* up to the last moment of the day */
        struct dibs_session_news news = {0};
        world_pass(&f->world, i < 35 ? MINUTES(20) : MINUTES(20) - 1);
        assert_ok(f, dibs_session_heartbeat(f->d, f->a, "s", &news, &f->err));
    }
    assert_int_equal(f->world.wall_ms, midnight - 1);
    complete(f, "a", "s");
    assert_int_equal(summary(f, NULL).completed_today, 1);
    assert_int_equal(summary(f, "p").completed_today, 1);
    world_pass(&f->world, 1);
    assert_int_equal(summary(f, NULL).completed_today, 0);
    assert_int_equal(summary(f, "p").completed_today, 0);
    complete(f, "b", "s");
    assert_int_equal(summary(f, NULL).completed_today, 1);
    assert_int_equal(summary(f, "p").completed_today, 1);
    struct dibs_sweep swept = {0};
    assert_ok(f, dibs_cleanup(f->d, f->a, &swept, &f->err)); /* counted from the table as well */
    assert_int_equal(summary(f, NULL).completed_today, 1);
    assert_int_equal(summary(f, NULL).recent_count, 2);
}

static dibs_status op_stats(struct fixture *f)
{
    struct dibs_stats out = {0};
    return dibs_stats(f->d, f->a, &out, &f->err);
}
static dibs_status op_summary(struct fixture *f)
{
    struct dibs_summary out = {0};
    return dibs_session_summary(f->d, f->a, "default", &out, &f->err);
}
static dibs_status op_in_flight(struct fixture *f)
{
    struct dibs_in_flight out = {0};
    return dibs_in_flight(f->d, f->a, &(struct dibs_in_flight_filter){0}, &out, &f->err);
}

static void test_a_failing_store_gives_no_half_numbers(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s", NULL);
    assert_true(probe_fail_each(f, op_stats) > 5);
    assert_true(probe_fail_each(f, op_summary) > 5);
    assert_true(probe_fail_each(f, op_in_flight) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_in_flight_lists_the_oldest_claim_first_and_filters),
        STORE_TEST(test_claims_past_their_deadline_are_in_flight_only_when_asked_for),
        STORE_TEST(test_stats_of_an_empty_store_are_zero),
        STORE_TEST(test_live_claims_are_counted_by_health_agent_type_and_session),
        STORE_TEST(test_tasks_are_tallied_by_status),
        STORE_TEST(test_totals_and_the_average_hold_go_over_all_ended_claims),
        STORE_TEST(test_the_oldest_claimable_task_counts_from_its_creation),
        STORE_TEST(test_the_summary_shows_sessions_and_what_they_do),
        STORE_TEST(test_the_summary_of_a_project_is_about_that_project_alone),
        STORE_TEST(test_what_is_past_its_deadline_is_not_in_flight),
        STORE_TEST(test_all_sessions_are_counted_though_the_list_has_an_end),
        STORE_TEST(test_recent_completions_are_the_last_ten_newest_first),
        STORE_TEST(test_today_begins_at_midnight_utc),
        STORE_TEST(test_a_failing_store_gives_no_half_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
