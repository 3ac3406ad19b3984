/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/depend.c: who waits for whom, when the wait ends, who is told that it ends in
 * vain, and cycles.
 */
#include "core/core.h"
#include "core_help.h"

static void make_needing(struct fixture *f, const char *id, struct dibs_strings needed)
{
    make_task_as(f, (struct dibs_task_new){.id = id, .depends_on = needed});
}

static dibs_status try_depend(struct fixture *f, const char *id, struct dibs_strings needed)
{
    struct dibs_task out = {0};
    struct dibs_task_edit in = {.id = id, .depends_on = &needed};
    return dibs_task_update(f->d, f->a, &in, &out, &f->err);
}

static void finish(struct fixture *f, const char *id)
{
    claim(f, id, "s");
    assert_ok(f, try_complete(f, id, "s", 0, NULL));
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void test_a_task_waits_until_the_last_of_its_dependencies_is_completed(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "a");
    make_task(f, "b");
    make_needing(f, "t", DIBS_STRINGS("b", "a", "b"));
    struct dibs_task t = get_task(f, "t");
    assert_int_equal(t.status, DIBS_TASK_BLOCKED);
    assert_int_equal(t.version, 1);
    assert_string_equal(words(f, t.depends_on), "a b");
    assert_string_equal(words(f, t.waiting_on), "a b");
    assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, "t", "s", 0));
    assert_string_equal(f->err.message, "task 't' cannot be claimed: it is blocked");
    assert_string_equal(f->err.task_status, "blocked");
    finish(f, "b");
    assert_status(f, "t", "blocked");
    assert_string_equal(words(f, get_task(f, "t").waiting_on), "a");
    assert_event_count(f, "task:unblocked", 0);
    finish(f, "a");
    assert_status(f, "t", "open");
    assert_int_equal(get_task(f, "t").waiting_on.count, 0);
    assert_string_equal(words(f, get_task(f, "t").depends_on), "a b");
    struct dibs_event_list told = events_of(f, "task:unblocked");
    assert_int_equal(told.count, 1);
    assert_string_equal(told.items[0].task_id, "t");
    assert_string_equal(event_field(f, &told.items[0], "dependency"), "a");
    assert_ok(f, try_claim(f, "t", "s", 0));
}

static void test_claim_next_passes_over_tasks_that_wait(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim_next any = {.session_id = make_session(f, "s")};
    make_task(f, "needed");
    make_task_as(f, (struct dibs_task_new){.id = "urgent",
                                           .priority = DIBS_VALUE(100),
                                           .depends_on = DIBS_STRINGS("needed")});
    assert_string_equal(claim_any(f, any), "needed");
    assert_string_equal(claim_any(f, any), "");
    assert_ok(f, try_complete(f, "needed", "s", 0, NULL));
    assert_string_equal(claim_any(f, any), "urgent");
}

static void test_dependencies_that_are_completed_already_block_nothing(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "a");
    finish(f, "a");
    make_needing(f, "t", DIBS_STRINGS("a"));
    assert_status(f, "t", "open");
    assert_ok(f, try_claim(f, "t", "s", 0));
}

static void test_a_diamond_opens_from_its_root_to_its_tip(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "root");
    make_needing(f, "left", DIBS_STRINGS("root"));
    make_needing(f, "right", DIBS_STRINGS("root"));
    make_needing(f, "tip", DIBS_STRINGS("left", "right"));
    finish(f, "root");
    assert_status(f, "left", "open");
    assert_status(f, "right", "open");
    assert_status(f, "tip", "blocked");
    finish(f, "left");
    assert_status(f, "tip", "blocked");
    finish(f, "right");
    assert_status(f, "tip", "open");
    assert_event_count(f, "task:unblocked", 3);
}

static void test_an_assigned_task_that_waited_is_assigned_again(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "a");
    make_task_as(
        f, (struct dibs_task_new){.id = "t", .assignee = "amy", .depends_on = DIBS_STRINGS("a")});
    assert_status(f, "t", "blocked");
    finish(f, "a");
    assert_status(f, "t", "assigned");
}

static void test_a_task_that_waited_still_waits_for_its_time(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim_next any = {.session_id = make_session(f, "s")};
    make_task(f, "a");
    make_task_as(f, (struct dibs_task_new){.id = "t",
                                           .run_after_ms = now_ms(f) + SECONDS(9),
                                           .depends_on = DIBS_STRINGS("a")});
    finish(f, "a");
    assert_status(f, "t", "open");
    assert_string_equal(claim_any(f, any), "");
    world_pass(&f->world, SECONDS(9));
    assert_string_equal(claim_any(f, any), "t");
}

static void test_a_task_blocked_by_hand_stays_blocked_after_its_dependencies(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "a");
    make_task(f, "t");
    assert_ok(f, try_move(f, dibs_task_block, "t", NULL));
    assert_ok(f, try_depend(f, "t", DIBS_STRINGS("a")));
    finish(f, "a");
    assert_status(f, "t", "blocked");
    assert_event_count(f, "task:unblocked", 0);
    assert_ok(f, try_move(f, dibs_task_unblock, "t", NULL));
    assert_status(f, "t", "open");
}

static void test_an_offer_does_not_lead_around_a_dependency(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_agent_session(f, "amy-1", "amy");
    make_task(f, "needed");
    static const char *const all[] = {"accepted", "rejected", "assigned"};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        make_task_as(f, (struct dibs_task_new){.id = all[i],
                                               .offered_to = "amy",
                                               .depends_on = DIBS_STRINGS("needed")});
    assert_ok(f, try_move(f, dibs_task_accept, "accepted", "amy"));
    assert_ok(f, try_move(f, dibs_task_reject, "rejected", "amy"));
    assert_ok(f, try_move(f, dibs_task_assign, "assigned", "amy"));
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        assert_status(f, all[i], "blocked");
        assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, all[i], "amy-1", 0));
    }
    finish(f, "needed");
    assert_status(f, "accepted", "assigned");
    assert_status(f, "rejected", "open");
    assert_status(f, "assigned", "assigned");
}

/* ---- waiting in vain ------------------------------------------------------------------------- */

static void test_a_failed_dependency_is_told_to_those_who_wait_for_it(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_as(f, (struct dibs_task_new){.id = "a", .max_attempts = DIBS_VALUE(1)});
    make_task(f, "b");
    make_needing(f, "t", DIBS_STRINGS("a", "b"));
    claim(f, "a", "s");
    assert_ok(f, try_fail(f, "a", "s", 0, "boom"));
    struct dibs_task t = get_task(f, "t");
    assert_int_equal(t.status, DIBS_TASK_BLOCKED);
    assert_string_equal(words(f, t.failed_dependencies), "a");
    assert_string_equal(words(f, t.waiting_on), "a b");
    struct dibs_event_list told = events_of(f, "task:blocked");
    assert_int_equal(told.count, 1);
    assert_string_equal(told.items[0].task_id, "t");
    assert_string_equal(event_field(f, &told.items[0], "reason"), "dependency_failed");
    assert_string_equal(event_field(f, &told.items[0], "dependency"), "a");
    assert_string_equal(event_field(f, &told.items[0], "dependencyStatus"), "failed");
    finish(f, "b");
    assert_status(f, "t", "blocked");
}

static void test_a_failure_that_is_not_the_last_is_told_to_nobody(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "a");
    make_needing(f, "t", DIBS_STRINGS("a"));
    claim(f, "a", "s");
    assert_ok(f, try_fail(f, "a", "s", 0, "boom"));
    assert_event_count(f, "task:blocked", 0);
    assert_int_equal(get_task(f, "t").failed_dependencies.count, 0);
}

static void test_a_crash_that_uses_up_the_attempts_is_told_too(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_as(f, (struct dibs_task_new){.id = "a", .max_attempts = DIBS_VALUE(1)});
    make_needing(f, "t", DIBS_STRINGS("a"));
    claim(f, "a", "s");
    world_pass(&f->world, MINUTES(30));
    assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, "a", "s", 0));
    assert_status(f, "a", "failed");
    assert_event_count(f, "task:blocked", 1);
    assert_string_equal(words(f, get_task(f, "t").failed_dependencies), "a");
}

static void test_a_cancelled_dependency_is_told_and_opens_the_way_when_done_after_all(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "a");
    make_needing(f, "t", DIBS_STRINGS("a"));
    assert_ok(f, try_move(f, dibs_task_cancel, "a", NULL));
    struct dibs_event_list told = events_of(f, "task:blocked");
    assert_int_equal(told.count, 1);
    assert_string_equal(event_field(f, &told.items[0], "dependencyStatus"), "cancelled");
    assert_string_equal(words(f, get_task(f, "t").failed_dependencies), "a");
    assert_ok(f, try_move(f, dibs_task_reopen, "a", NULL));
    assert_int_equal(get_task(f, "t").failed_dependencies.count, 0);
    finish(f, "a");
    assert_status(f, "t", "open");
}

static void test_a_new_task_learns_at_once_that_its_dependency_has_failed(void **state)
{
    struct fixture *f = *state;
    make_task(f, "a");
    assert_ok(f, try_move(f, dibs_task_cancel, "a", NULL));
    make_needing(f, "t", DIBS_STRINGS("a"));
    assert_status(f, "t", "blocked");
    assert_string_equal(words(f, get_task(f, "t").failed_dependencies), "a");
}

/* ---- cycles ---------------------------------------------------------------------------------- */

static void test_a_task_cannot_wait_for_itself(void **state)
{
    struct fixture *f = *state;
    struct dibs_task_new self = {.id = "a", .title = "a"};
    self.depends_on = DIBS_STRINGS("a");
    assert_refused(f, DIBS_DEPENDENCY_CYCLE, try_create(f, self));
    assert_string_equal(f->err.message, "the dependencies would form a cycle: a -> a");
    make_task(f, "b");
    const char *before = rows_of(f);
    assert_refused(f, DIBS_DEPENDENCY_CYCLE, try_depend(f, "b", DIBS_STRINGS("b")));
    assert_string_equal(rows_of(f), before);
}

static void test_two_tasks_cannot_wait_for_each_other(void **state)
{
    struct fixture *f = *state;
    make_task(f, "a");
    make_needing(f, "b", DIBS_STRINGS("a"));
    const char *before = rows_of(f);
    assert_refused(f, DIBS_DEPENDENCY_CYCLE, try_depend(f, "a", DIBS_STRINGS("b")));
    assert_string_equal(f->err.message, "the dependencies would form a cycle: a -> b -> a");
    assert_string_equal(rows_of(f), before);
}

static void test_a_ring_of_five_is_refused_and_written_out(void **state)
{
    struct fixture *f = *state;
    struct dibs_task_new in[] = {{.id = "a", .depends_on = DIBS_STRINGS("b")},
                                 {.id = "b", .depends_on = DIBS_STRINGS("c")},
                                 {.id = "c", .depends_on = DIBS_STRINGS("d")},
                                 {.id = "d", .depends_on = DIBS_STRINGS("e")},
                                 {.id = "e", .depends_on = DIBS_STRINGS("a")}};
    struct dibs_task_list out = {0};
    for (size_t i = 0; i < COUNT_OF(in); i++)
        in[i].title = in[i].id;
    assert_refused(f, DIBS_DEPENDENCY_CYCLE, dibs_task_create(f->d, f->a, in, 5, &out, &f->err));
    assert_string_equal(f->err.message, "tasks[4]: the dependencies would form a cycle: "
                                        "e -> a -> b -> c -> d -> e");
    assert_int_equal(query_int(f, "SELECT count(*) FROM task"), 0);
    in[4].depends_on.count = 0;
    assert_ok(f, dibs_task_create(f->d, f->a, in, 5, &out, &f->err));
    assert_refused(f, DIBS_DEPENDENCY_CYCLE, try_depend(f, "e", DIBS_STRINGS("a")));
}

static void test_a_task_may_name_one_that_comes_later_in_the_same_call(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    struct dibs_task_new in[] = {{.id = "last", .title = "1"}, {.title = "2"}, {.title = "3"}};
    in[0].depends_on = DIBS_STRINGS("1", "2");
    in[1].depends_on = DIBS_STRINGS("2");
    struct dibs_task_list out = {0};
    assert_ok(f, dibs_task_create(f->d, f->a, in, 3, &out, &f->err));
    assert_int_equal(out.items[0].status, DIBS_TASK_BLOCKED);
    assert_int_equal(out.items[1].status, DIBS_TASK_BLOCKED);
    assert_int_equal(out.items[2].status, DIBS_TASK_OPEN);
    finish(f, "2");
    finish(f, "1");
    assert_status(f, "last", "open");
}

static void test_a_cycle_too_long_to_write_out_is_refused_as_well(void **state)
{
    struct fixture *f = *state;
    const char *before = NULL, *first = NULL;
    for (int i = 0; i < 60; i++) {
        const char *id = arena_printf(f->a, "a-task-with-a-long-name-%02d", i);
        make_needing(f, id, (struct dibs_strings){.items = &before, .count = before ? 1 : 0});
        first = first ? first : id;
        before = id;
    }
    assert_refused(f, DIBS_DEPENDENCY_CYCLE,
                   try_depend(f, first, (struct dibs_strings){.items = &before, .count = 1}));
    assert_non_null(strstr(f->err.message, "a-task-with-a-long-name-00 -> "
                                           "a-task-with-a-long-name-59 -> "
                                           "a-task-with-a-long-name-58 -> "));
    assert_non_null(strstr(f->err.message, " -> ..."));
}

/* Every task needs both of the layer before: there are 2^40 ways from the top to the bottom. */
static void test_a_cycle_in_a_dense_graph_is_found_without_trying_every_way(void **state)
{
    struct fixture *f = *state;
    const char *below[2] = {make_task(f, "a0"), make_task(f, "b0")};
    for (int i = 1; i <= 40; i++) {
        const char *layer[2] = {arena_printf(f->a, "a%d", i), arena_printf(f->a, "b%d", i)};
        make_needing(f, layer[0], (struct dibs_strings){.items = below, .count = 2});
        make_needing(f, layer[1], (struct dibs_strings){.items = below, .count = 2});
        below[0] = layer[0];
        below[1] = layer[1];
    }
    assert_refused(f, DIBS_DEPENDENCY_CYCLE, try_depend(f, "a0", DIBS_STRINGS("a40")));
    assert_non_null(strstr(f->err.message, "a0 -> a40 -> a39 -> "));
    assert_ok(f, try_depend(f, "a40", DIBS_STRINGS("a0", "b0")));
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void test_a_dependency_must_exist_and_be_an_id(void **state)
{
    struct fixture *f = *state;
    struct dibs_task_new in = {.id = "t", .title = "t"};
    in.depends_on = DIBS_STRINGS("lost");
    assert_refused(f, DIBS_TASK_NOT_FOUND, try_create(f, in));
    assert_string_equal(f->err.message, "task 't' depends on 'lost', which does not exist");
    in.depends_on = DIBS_STRINGS("not an id");
    assert_refused(f, DIBS_INVALID_REQUEST, try_create(f, in));
    assert_string_equal(f->err.field, "dependsOn");
    in.depends_on = DIBS_STRINGS(NULL);
    assert_refused(f, DIBS_INVALID_REQUEST, try_create(f, in));
    assert_string_equal(f->err.field, "dependsOn");
    assert_int_equal(query_int(f, "SELECT count(*) FROM task"), 0);
}

static void test_a_task_waits_for_at_most_256_others(void **state)
{
    struct fixture *f = *state;
    const char *needed[DEPENDENCIES_MAX + 1];
    struct dibs_task_new many[DEPENDENCIES_MAX + 1] = {0};
    struct dibs_task_list out = {0};
    for (size_t i = 0; i <= DEPENDENCIES_MAX; i++) {
        needed[i] = arena_printf(f->a, "n%zu", i);
        many[i] = (struct dibs_task_new){.id = needed[i], .title = "n"};
    }
    assert_ok(f, dibs_task_create(f->d, f->a, many, DEPENDENCIES_MAX + 1, &out, &f->err));
    struct dibs_task_new in = {.id = "t", .title = "t"};
    in.depends_on = (struct dibs_strings){.items = needed, .count = DEPENDENCIES_MAX + 1};
    assert_refused(f, DIBS_INVALID_REQUEST, try_create(f, in));
    assert_string_equal(f->err.field, "dependsOn");
    in.depends_on.count = DEPENDENCIES_MAX;
    assert_ok(f, try_create(f, in));
    assert_int_equal(get_task(f, "t").waiting_on.count, DEPENDENCIES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_task_waits_until_the_last_of_its_dependencies_is_completed),
        STORE_TEST(test_claim_next_passes_over_tasks_that_wait),
        STORE_TEST(test_dependencies_that_are_completed_already_block_nothing),
        STORE_TEST(test_a_diamond_opens_from_its_root_to_its_tip),
        STORE_TEST(test_an_assigned_task_that_waited_is_assigned_again),
        STORE_TEST(test_a_task_that_waited_still_waits_for_its_time),
        STORE_TEST(test_a_task_blocked_by_hand_stays_blocked_after_its_dependencies),
        STORE_TEST(test_an_offer_does_not_lead_around_a_dependency),
        STORE_TEST(test_a_failed_dependency_is_told_to_those_who_wait_for_it),
        STORE_TEST(test_a_failure_that_is_not_the_last_is_told_to_nobody),
        STORE_TEST(test_a_crash_that_uses_up_the_attempts_is_told_too),
        STORE_TEST(test_a_cancelled_dependency_is_told_and_opens_the_way_when_done_after_all),
        STORE_TEST(test_a_new_task_learns_at_once_that_its_dependency_has_failed),
        STORE_TEST(test_a_task_cannot_wait_for_itself),
        STORE_TEST(test_two_tasks_cannot_wait_for_each_other),
        STORE_TEST(test_a_ring_of_five_is_refused_and_written_out),
        STORE_TEST(test_a_task_may_name_one_that_comes_later_in_the_same_call),
        STORE_TEST(test_a_cycle_too_long_to_write_out_is_refused_as_well),
        STORE_TEST(test_a_cycle_in_a_dense_graph_is_found_without_trying_every_way),
        STORE_TEST(test_a_dependency_must_exist_and_be_an_id),
        STORE_TEST(test_a_task_waits_for_at_most_256_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
