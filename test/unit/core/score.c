/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/score.c: what the journal says of each agent, before and after it is folded
 * into the table of scores.
 */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void enrol(struct fixture *f, const char *session, const char *agent)
{
    struct dibs_session out = {0};
    struct dibs_session_new in = {.id = session, .agent_id = agent};
    assert_ok(f, dibs_session_register(f->d, f->a, &in, &out, &f->err));
}

static struct dibs_score score_of(struct fixture *f, const char *agent)
{
    struct dibs_score_list list = {0};
    assert_ok(f, dibs_scores(f->d, f->a, &list, &f->err));
    for (size_t i = 0; i < list.count; i++)
        if (strcmp(list.items[i].agent, agent) == 0)
            return list.items[i];
    return (struct dibs_score){0};
}

static void complete(struct fixture *f, const char *task, const char *session)
{
    struct dibs_task out = {0};
    struct dibs_report report = {.task_id = task, .session_id = session};
    assert_ok(f, dibs_complete(f->d, f->a, &report, &out, &f->err));
}

static void work(struct fixture *f, const char *task, const char *session, int64_t ms)
{
    make_task(f, task);
    claim(f, task, session);
    world_pass(&f->world, ms);
    complete(f, task, session);
}

/* The sweep folds the journal into the table. */
static void fold(struct fixture *f)
{
    struct dibs_sweep out = {0};
    assert_ok(f, dibs_cleanup(f->d, f->a, &out, &f->err));
    assert_true(probe_int(f, "SELECT count(*) FROM score") > 0);
}

static void test_a_store_without_claims_has_no_scores(void **state)
{
    struct fixture *f = *state;
    struct dibs_score_list list = {0};
    make_session(f, "s");
    make_task(f, "a");
    assert_ok(f, dibs_scores(f->d, f->a, &list, &f->err));
    assert_int_equal(list.count, 0);
}

static void test_scores_count_for_the_agent_across_its_sessions(void **state)
{
    struct fixture *f = *state;
    enrol(f, "morning", "anna");
    enrol(f, "evening", "anna");
    make_session(f, "nobody");
    work(f, "a", "morning", 1000);
    work(f, "b", "evening", 3000);
    work(f, "c", "nobody", 500);
    struct dibs_score anna = score_of(f, "anna");
    assert_int_equal(anna.claimed, 2);
    assert_int_equal(anna.completed, 2);
    assert_int_equal(anna.average_ms, 2000);
    assert_int_equal(score_of(f, "nobody").completed, 1); /* a session without agent: its id */
    assert_int_equal(score_of(f, "morning").claimed, 0);
}

static void test_every_way_a_claim_can_go_is_counted(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim refused = {0};
    struct dibs_released released = {0};
    struct dibs_cleaned cleaned = {0};
    struct dibs_task out = {0};
    enrol(f, "s", "anna");
    enrol(f, "t", "ben");
    make_task(f, "a");
    claim(f, "a", "s");
    struct dibs_claim_take take = {.task_id = "a", .session_id = "t"};
    assert_refused(f, DIBS_TASK_ALREADY_CLAIMED,
                   dibs_claim_take(f->d, f->a, &take, &refused, &f->err));
    struct dibs_release give_back = {.task_id = "a", .session_id = "s"};
    assert_ok(f, dibs_claim_release(f->d, f->a, &give_back, &released, &f->err));
    claim(f, "a", "s");
    struct dibs_report report = {.task_id = "a", .session_id = "s", .error = "no luck"};
    assert_ok(f, dibs_fail(f->d, f->a, &report, &out, &f->err));
    world_pass(&f->world, MINUTES(1)); /* the back-off */
    claim(f, "a", "s");
    world_pass(&f->world, MINUTES(30));
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    make_task(f, "b");
    claim(f, "b", "s");
    world_pass(&f->world, MINUTES(11));
    assert_ok(f, dibs_cleanup_orphaned(f->d, f->a, NULL, &cleaned, &f->err));
    claim(f, "b", "t"); /* ben takes it; what anna sends now is late */
    struct dibs_report late = {.task_id = "b", .session_id = "s", .result = "42"};
    assert_refused(f, DIBS_NOT_CLAIM_OWNER, dibs_complete(f->d, f->a, &late, &out, &f->err));
    struct dibs_score anna = score_of(f, "anna");
    assert_int_equal(anna.claimed, 4);
    assert_int_equal(anna.released, 1);
    assert_int_equal(anna.failed, 1);
    assert_int_equal(anna.expired, 1);
    assert_int_equal(anna.orphaned, 1);
    assert_int_equal(anna.completed, 0);
    assert_int_equal(anna.refused, 0);
    assert_int_equal(anna.late_results, 1);
    assert_int_equal(anna.last_active_ms, f->world.wall_ms);
    struct dibs_score ben = score_of(f, "ben");
    assert_int_equal(ben.refused, 1);
    assert_int_equal(ben.claimed, 1);
}

static void test_a_claim_that_used_up_the_attempts_counts_once(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    struct dibs_stats stats = {0};
    make_session(f, "s");
    make_task_as(f, (struct dibs_task_new){.id = "a", .max_attempts = DIBS_VALUE(1)});
    claim(f, "a", "s");
    world_pass(&f->world, MINUTES(30));
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    for (int folded = 0; folded < 2; folded++) {
        struct dibs_score s = score_of(f, "s");
        assert_int_equal(s.expired, 1);
        assert_int_equal(s.failed, 0); /* it has not reported a failure */
        assert_ok(f, dibs_stats(f->d, f->a, &stats, &f->err));
        assert_int_equal(stats.average_hold_ms, MINUTES(30));
        fold(f);
    }
}

static void test_the_most_completed_come_first_then_by_name(void **state)
{
    struct fixture *f = *state;
    struct dibs_score_list list = {0};
    make_session(f, "zoe");
    make_session(f, "ben");
    make_session(f, "anna");
    work(f, "a", "zoe", 1);
    work(f, "b", "zoe", 1);
    work(f, "c", "ben", 1);
    work(f, "d", "anna", 1);
    assert_ok(f, dibs_scores(f->d, f->a, &list, &f->err));
    assert_int_equal(list.count, 3);
    assert_string_equal(list.items[0].agent, "zoe");
    assert_string_equal(list.items[1].agent, "anna");
    assert_string_equal(list.items[2].agent, "ben");
}

static void test_folding_changes_no_score(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    work(f, "a", "s", 1000);
    fold(f);
    work(f, "b", "s", 2000);
    assert_int_equal(score_of(f, "s").completed, 2); /* the table and the tail together */
    assert_int_equal(score_of(f, "s").average_ms, 1500);
    fold(f);
    fold(f); /* nothing twice */
    assert_int_equal(score_of(f, "s").completed, 2);
    world_pass(&f->world, MINUTES(60 * 24));
    work(f, "c", "s", 6000);
    fold(f);
    struct dibs_score s = score_of(f, "s");
    assert_int_equal(s.completed, 3);
    assert_int_equal(s.claimed, 3);
    assert_int_equal(s.average_ms, 3000);
    assert_int_equal(s.last_active_ms, f->world.wall_ms);
}

static void test_a_late_completion_counts_as_completed(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    make_session(f, "s");
    make_task(f, "a");
    claim(f, "a", "s");
    world_pass(&f->world, MINUTES(30));
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    complete(f, "a", "s");
    struct dibs_score s = score_of(f, "s");
    assert_int_equal(s.expired, 1);
    assert_int_equal(s.completed, 1);
    assert_int_equal(s.average_ms, MINUTES(30));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_store_without_claims_has_no_scores),
        STORE_TEST(test_scores_count_for_the_agent_across_its_sessions),
        STORE_TEST(test_every_way_a_claim_can_go_is_counted),
        STORE_TEST(test_a_claim_that_used_up_the_attempts_counts_once),
        STORE_TEST(test_the_most_completed_come_first_then_by_name),
        STORE_TEST(test_folding_changes_no_score),
        STORE_TEST(test_a_late_completion_counts_as_completed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
