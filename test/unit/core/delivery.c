/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/delivery.c: what is delivered counts once, together with what it brings, or not
 * at all.
 */
#include "core_help.h"

#include <string.h>

#include "core/hook.h"

static struct dibs_delivered last;

static dibs_status deliver_message(struct fixture *f, const char *id, const char *subject,
                                   struct dibs_message_new message)
{
    struct dibs_delivery in = {
        .source = "slack", .id = id, .subject = subject, .message = &message};
    return dibs__deliver_once(f->d, f->a, &in, &last, &f->err);
}

static dibs_status deliver_task(struct fixture *f, const char *source, const char *id,
                                struct dibs_task_new task)
{
    struct dibs_delivery in = {.source = source, .id = id, .task = &task};
    return dibs__deliver_once(f->d, f->a, &in, &last, &f->err);
}

static const struct dibs_message_new hello = {.source = "slack", .content = "hello"};

static void test_a_delivery_brings_one_message_however_often_it_comes(void **state)
{
    struct fixture *f = *state;
    assert_ok(f, deliver_message(f, "Ev1", NULL, hello));
    assert_false(last.repeated);
    assert_non_null(last.message_id);
    assert_null(last.task_id);
    for (int i = 0; i < 9; i++) {
        assert_ok(f, deliver_message(f, "Ev1", NULL, hello));
        assert_true(last.repeated);
        assert_null(last.message_id);
    }
    assert_int_equal(query_int(f, "SELECT count(*) FROM inbox_message"), 1);
    assert_event_count(f, "inbox:received", 1);
}

static void test_ids_of_two_sources_are_not_the_same(void **state)
{
    struct fixture *f = *state;
    assert_ok(f, deliver_message(f, "1", NULL, hello));
    assert_ok(f, deliver_task(f, "github", "1", (struct dibs_task_new){.title = "t"}));
    assert_false(last.repeated);
    assert_non_null(last.task_id);
    assert_string_equal(get_task(f, last.task_id).title, "t");
}

static void test_a_second_delivery_about_the_same_counts_as_a_repeat(void **state)
{
    struct fixture *f = *state;
    assert_ok(f, deliver_message(f, "Ev1", "C1:1.2", hello));
    assert_ok(f, deliver_message(f, "Ev2", "C1:1.2", hello));
    assert_true(last.repeated);
    assert_ok(f, deliver_message(f, "Ev3", "C1:1.3", hello));
    assert_false(last.repeated);
    /* a subject is not the id of a delivery */
    assert_ok(f, deliver_message(f, "C1:1.2", NULL, hello));
    assert_false(last.repeated);
}

static void test_a_delivery_that_is_refused_may_come_again(void **state)
{
    struct fixture *f = *state;
    struct dibs_message_new empty = {.source = "slack", .content = ""};
    assert_refused(f, DIBS_INVALID_REQUEST, deliver_message(f, "Ev1", "C1:1.2", empty));
    assert_int_equal(query_int(f, "SELECT count(*) FROM delivery"), 0);
    assert_ok(f, deliver_message(f, "Ev1", "C1:1.2", hello));
    assert_false(last.repeated);
}

static void test_a_repeat_is_known_by_another_process(void **state)
{
    struct fixture *f = *state;
    assert_ok(f, deliver_message(f, "Ev1", NULL, hello));
    fixture_reopen(f);
    assert_ok(f, deliver_message(f, "Ev1", NULL, hello));
    assert_true(last.repeated);
}

static void test_a_delivery_of_a_batch_that_is_cancelled_did_not_come(void **state)
{
    struct fixture *f = *state;
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    assert_ok(f, deliver_message(f, "Ev1", NULL, hello));
    dibs_batch_cancel(f->d);
    assert_ok(f, deliver_message(f, "Ev1", NULL, hello));
    assert_false(last.repeated);
}

static void test_two_of_one_batch_are_told_apart(void **state)
{
    struct fixture *f = *state;
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    assert_ok(f, deliver_message(f, "Ev1", NULL, hello));
    assert_false(last.repeated);
    assert_ok(f, deliver_message(f, "Ev1", NULL, hello));
    assert_true(last.repeated);
    assert_ok(f, dibs_batch_commit(f->d, &f->err));
    assert_int_equal(query_int(f, "SELECT count(*) FROM inbox_message"), 1);
}

static void test_the_leads_get_what_is_for_an_agent_of_another_project(void **state)
{
    struct fixture *f = *state;
    struct dibs_agent agent = {0};
    struct dibs_agent_new far = {.id = "far", .project = "there"};
    struct dibs_message_new in = hello;
    struct dibs_message out = {0};
    assert_ok(f, dibs_agent_register(f->d, f->a, &far, &agent, &f->err));
    in.agent_id = "far";
    in.project = "here";
    assert_ok(f, deliver_message(f, "Ev1", NULL, in));
    assert_true(last.agent_unknown);
    assert_ok(f, dibs_inbox_get(f->d, f->a, last.message_id, &out, &f->err));
    assert_null(out.agent_id);
    assert_string_equal(out.project, "here");
}

static void test_the_leads_get_what_is_for_an_agent_nobody_knows(void **state)
{
    struct fixture *f = *state;
    struct dibs_message_new in = hello;
    struct dibs_message out = {0};
    in.agent_id = "nobody";
    assert_ok(f, deliver_message(f, "Ev1", NULL, in));
    assert_true(last.agent_unknown);
    assert_ok(f, dibs_inbox_get(f->d, f->a, last.message_id, &out, &f->err));
    assert_null(out.agent_id);
}

static void test_deliveries_are_forgotten_after_a_week(void **state)
{
    struct fixture *f = *state;
    int64_t pruned = 0;
    assert_ok(f, deliver_message(f, "Ev1", NULL, hello));
    world_pass(&f->world, MINUTES(7 * 24 * 60) - 1000);
    assert_ok(f, dibs_prune(f->d, f->a, &pruned, &f->err));
    assert_ok(f, deliver_message(f, "Ev1", NULL, hello));
    assert_true(last.repeated);
    world_pass(&f->world, 2000);
    assert_ok(f, dibs_prune(f->d, f->a, &pruned, &f->err));
    assert_ok(f, deliver_message(f, "Ev1", NULL, hello));
    assert_false(last.repeated);
}

static void test_a_delivery_needs_an_id(void **state)
{
    struct fixture *f = *state;
    assert_refused(f, DIBS_INVALID_REQUEST, deliver_message(f, NULL, NULL, hello));
    assert_refused(f, DIBS_INVALID_REQUEST, deliver_message(f, "", NULL, hello));
    assert_refused(f, DIBS_INVALID_REQUEST,
                   deliver_message(f, repeated(f, 'x', KEY_BYTES_MAX + 1), NULL, hello));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_delivery_brings_one_message_however_often_it_comes),
        STORE_TEST(test_ids_of_two_sources_are_not_the_same),
        STORE_TEST(test_a_second_delivery_about_the_same_counts_as_a_repeat),
        STORE_TEST(test_a_delivery_that_is_refused_may_come_again),
        STORE_TEST(test_a_repeat_is_known_by_another_process),
        STORE_TEST(test_a_delivery_of_a_batch_that_is_cancelled_did_not_come),
        STORE_TEST(test_two_of_one_batch_are_told_apart),
        STORE_TEST(test_the_leads_get_what_is_for_an_agent_of_another_project),
        STORE_TEST(test_the_leads_get_what_is_for_an_agent_nobody_knows),
        STORE_TEST(test_deliveries_are_forgotten_after_a_week),
        STORE_TEST(test_a_delivery_needs_an_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
