/* SPDX-License-Identifier: MIT */
/* Tests of src/core/poll.c: what an agent is given, in which order, once, and only with room. */
#include "core/poll.h"
#include "agents.h"
#include "core/core.h"

static dibs_status try_poll(struct fixture *f, struct dibs_poll in, struct dibs_trigger *out)
{
    return dibs_poll(f->d, f->a, &in, out, &f->err);
}

static struct dibs_trigger poll_as(struct fixture *f, struct dibs_poll in)
{
    struct dibs_trigger out = {0};
    assert_ok(f, try_poll(f, in, &out));
    return out;
}

static struct dibs_trigger poll(struct fixture *f, const char *agent)
{
    return poll_as(f, (struct dibs_poll){.agent_id = agent});
}

#define assert_trigger(trigger, name) assert_string_equal(dibs_trigger_name((trigger).type), name)

/* The task that it is given, or the test fails. */
static const char *task_of(struct dibs_trigger t, const char *type)
{
    assert_trigger(t, type);
    assert_non_null(t.task);
    return t.task->task.id;
}

static void finish(struct fixture *f, const char *task, const char *session)
{
    assert_ok(f, try_complete(f, task, session, 0, NULL));
}

static void make_message(struct fixture *f, const char *id)
{
    struct dibs_message out = {0};
    struct dibs_message_new in = {.id = id, .content = id};
    assert_ok(f, dibs_inbox_add(f->d, f->a, &in, &out, &f->err));
}

static void mention(struct fixture *f, const char *channel, const char *text)
{
    struct dibs_channel made = {0};
    struct dibs_post out = {0};
    struct dibs_channel_new new = {.id = channel};
    struct dibs_post_new in = {.channel_id = channel, .author = "x", .content = text};
    assert_ok(f, dibs_channel_create(f->d, f->a, &new, &made, &f->err));
    assert_ok(f, dibs_channel_post(f->d, f->a, &in, &out, &f->err));
}

/* ---- who asks -------------------------------------------------------------------------------- */

static void test_a_poll_needs_an_agent_that_is_known(void **state)
{
    struct fixture *f = *state;
    struct dibs_trigger out = {0};
    assert_refused(f, DIBS_AGENT_NOT_FOUND,
                   try_poll(f, (struct dibs_poll){.agent_id = "amy"}, &out));
    assert_refused(f, DIBS_INVALID_REQUEST, try_poll(f, (struct dibs_poll){0}, &out));
    assert_string_equal(f->err.field, "agentId");
}

static void test_a_session_is_registered_for_an_asker_that_names_none(void **state)
{
    struct fixture *f = *state;
    reg(f, (struct dibs_agent_new){.id = "amy", .project = "p"});
    assert_string_equal(poll(f, "amy").session_id, "amy");
    struct dibs_session s = get_session(f, "amy");
    assert_string_equal(s.agent_id, "amy");
    assert_string_equal(s.project, "p");
    assert_int_equal(s.incarnation, 1);
    poll(f, "amy");
    assert_int_equal(get_session(f, "amy").incarnation, 1);
    end_session(f, "amy");
    poll(f, "amy");
    assert_int_equal(get_session(f, "amy").incarnation, 2);
    poll_as(f, (struct dibs_poll){.agent_id = "amy", .session_id = "amy-2"});
    assert_string_equal(get_session(f, "amy-2").agent_id, "amy");
}

static void test_nobody_polls_with_a_session_of_another(void **state)
{
    struct fixture *f = *state;
    struct dibs_trigger out = {0};
    make_worker_for(f, "amy", 1);
    make_agent_session(f, "bob-1", "bob");
    make_session(f, "plain");
    static const char *const others[] = {"bob-1", "plain"};
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        struct dibs_poll in = {.agent_id = "amy", .session_id = others[i]};
        assert_refused(f, DIBS_INVALID_REQUEST, try_poll(f, in, &out));
        assert_string_equal(f->err.field, "sessionId");
    }
}

static void test_a_poll_is_checked_before_anything_happens(void **state)
{
    struct fixture *f = *state;
    struct dibs_trigger out = {0};
    make_worker_for(f, "amy", 1);
    const char *many[TYPES_MAX + 1];
    for (size_t i = 0; i < COUNT_OF(many); i++)
        many[i] = "t";
    const struct {
        const char *field;
        struct dibs_poll in;
    } rows[] = {{"ttlMs", {.agent_id = "amy", .ttl_ms = 1}},
                {"waitMs", {.agent_id = "amy", .wait_ms = -1}},
                {"waitMs", {.agent_id = "amy", .wait_ms = WAIT_MS_MAX + 1}},
                {"types", {.agent_id = "amy", .types = {many, COUNT_OF(many)}}}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_refused(f, DIBS_INVALID_REQUEST, try_poll(f, rows[i].in, &out));
        assert_string_equal(f->err.field, rows[i].field);
    }
    assert_event_count(f, "session:registered", 0);
}

static void test_a_poll_is_a_sign_of_life(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    poll(f, "amy");
    world_pass(&f->world, MINUTES(6));
    poll(f, "amy");
    assert_int_equal(get_session(f, "amy").heartbeat_at_ms, now_ms(f));
    assert_int_equal(get_agent(f, "amy").seen_at_ms, now_ms(f));
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void test_an_offer_is_handed_out_for_review_oldest_first(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 2);
    make_task(f, "old");
    make_offered(f, "first", "amy");
    world_pass(&f->world, 1);
    offer(f, "old", "amy"); /* made before, offered later */
    struct dibs_trigger t = poll_as(f, (struct dibs_poll){.agent_id = "amy", .ttl_ms = MINUTES(2)});
    assert_string_equal(task_of(t, "task_offered"), "first");
    assert_string_equal(dibs_task_status_name(t.task->task.status), "reviewing");
    assert_int_equal(t.task->claim.expires_at_ms, now_ms(f) + MINUTES(2));
    assert_string_equal(t.task->claim.session_id, "amy");
    assert_int_equal(t.task->claim.attempt, 0);
    assert_string_equal(task_of(poll(f, "amy"), "task_offered"), "old");
    assert_trigger(poll(f, "amy"), "none");
    assert_ok(f, try_move(f, dibs_task_accept, "first", "amy"));
    assert_ok(f, try_move(f, dibs_task_reject, "old", "amy"));
    assert_status(f, "first", "assigned");
    assert_status(f, "old", "open");
}

static void test_a_review_that_is_never_answered_is_offered_again(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    make_offered(f, "t", "amy");
    poll_as(f, (struct dibs_poll){.agent_id = "amy", .ttl_ms = MINUTES(1)});
    world_pass(&f->world, MINUTES(1) - 1);
    assert_trigger(poll(f, "amy"), "none");
    world_pass(&f->world, 1);
    assert_string_equal(task_of(poll(f, "amy"), "task_offered"), "t");
}

static void test_assigned_tasks_come_by_priority_then_age_and_only_when_due(void **state)
{
    struct fixture *f = *state;
    int64_t later = now_ms(f) + MINUTES(1);
    make_task_as(f, (struct dibs_task_new){.id = "b", .assignee = "amy"});
    make_task_as(f, (struct dibs_task_new){.id = "c", .assignee = "amy"});
    make_task_as(f,
                 (struct dibs_task_new){.id = "a", .assignee = "amy", .priority = DIBS_VALUE(80)});
    make_task_as(f, (struct dibs_task_new){.id = "later",
                                           .assignee = "amy",
                                           .priority = DIBS_VALUE(99),
                                           .run_after_ms = later});
    make_task_as(f, (struct dibs_task_new){.id = "x", .assignee = "bob"});
    static const char *const order[] = {"a", "b", "c"};
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        struct dibs_trigger t = poll(f, "amy");
        assert_string_equal(task_of(t, "task_assigned"), order[i]);
        assert_int_equal(t.task->claim.attempt, 1);
        finish(f, order[i], "amy");
    }
    assert_int_equal(poll(f, "amy").next_poll_ms, MINUTES(1));
    world_pass(&f->world, MINUTES(1) - 2500);
    struct dibs_trigger none = poll(f, "amy");
    assert_trigger(none, "none");
    assert_int_equal(none.next_poll_ms, 2500);
    world_pass(&f->world, 2499);
    assert_int_equal(poll(f, "amy").next_poll_ms, 1000); /* not too often */
    world_pass(&f->world, 1);
    assert_string_equal(task_of(poll(f, "amy"), "task_assigned"), "later");
}

static void test_an_offer_comes_before_an_assigned_task_and_that_before_the_pool(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 3);
    make_task(f, "pool");
    make_assigned(f, "assigned", "amy");
    make_offered(f, "offered", "amy");
    struct dibs_poll in = {.agent_id = "amy", .claim = true};
    assert_string_equal(task_of(poll_as(f, in), "task_offered"), "offered");
    assert_string_equal(task_of(poll_as(f, in), "task_assigned"), "assigned");
    assert_string_equal(task_of(poll_as(f, in), "pool_task_claimed"), "pool");
    assert_trigger(poll_as(f, in), "none");
}

static void test_news_of_the_pool_reaches_all_workers_and_claims_nothing(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    make_worker_for(f, "bob", 1);
    make_task(f, "a");
    make_task(f, "b");
    make_task_as(f, (struct dibs_task_new){.id = "c", .project = "other"});
    static const char *const workers[] = {"amy", "bob"};
    for (size_t i = 0; i < COUNT_OF(workers); i++) {
        struct dibs_trigger t = poll(f, workers[i]);
        assert_trigger(t, "pool_tasks_available");
        assert_int_equal(t.pool_count, 2);
        assert_null(t.task);
    }
    assert_event_count(f, "task:claimed", 0);
    struct dibs_poll take = {.agent_id = "amy", .claim = true};
    assert_string_equal(task_of(poll_as(f, take), "pool_task_claimed"), "a");
    take.agent_id = "bob";
    assert_string_equal(task_of(poll_as(f, take), "pool_task_claimed"), "b");
}

static void test_types_narrow_the_pool_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    make_task_as(f, (struct dibs_task_new){.id = "mine", .assignee = "amy", .type = "x"});
    make_task_as(f, (struct dibs_task_new){.id = "x", .type = "x"});
    struct dibs_poll in = {.agent_id = "amy", .claim = true, .types = DIBS_STRINGS("y", "z")};
    assert_string_equal(task_of(poll_as(f, in), "task_assigned"), "mine");
    assert_trigger(poll_as(f, in), "none");
    make_task_as(f, (struct dibs_task_new){.id = "z", .type = "z"});
    in.claim = false;
    assert_int_equal(poll_as(f, in).pool_count, 1);
    in.claim = true;
    assert_string_equal(task_of(poll_as(f, in), "pool_task_claimed"), "z");
}

static void test_a_worker_at_its_capacity_is_given_nothing_until_one_ends(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    make_assigned(f, "first", "amy");
    assert_string_equal(task_of(poll(f, "amy"), "task_assigned"), "first");
    make_offered(f, "offered", "amy");
    make_assigned(f, "assigned", "amy");
    make_task(f, "pool");
    struct dibs_poll take = {.agent_id = "amy", .session_id = "amy-2", .claim = true};
    assert_trigger(poll_as(f, take), "none");
    assert_trigger(poll(f, "amy"), "none");
    finish(f, "first", "amy");
    assert_string_equal(task_of(poll_as(f, take), "task_offered"), "offered");
    assert_trigger(poll(f, "amy"), "none"); /* a review counts */
    reg(f, (struct dibs_agent_new){.id = "amy", .max_tasks = DIBS_VALUE(2)});
    assert_string_equal(task_of(poll(f, "amy"), "task_assigned"), "assigned");
}

static void test_a_task_not_finished_comes_back_after_its_lease(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    make_worker_for(f, "bob", 1);
    make_task(f, "t");
    poll_as(f, (struct dibs_poll){.agent_id = "amy", .claim = true, .ttl_ms = MINUTES(1)});
    struct dibs_poll bob = {.agent_id = "bob", .claim = true};
    struct dibs_trigger none = poll_as(f, bob);
    assert_trigger(none, "none");
    assert_int_equal(none.next_poll_ms, MINUTES(1));
    world_pass(&f->world, MINUTES(1));
    assert_string_equal(task_of(poll_as(f, bob), "pool_task_claimed"), "t");
}

/* ---- leads ----------------------------------------------------------------------------------- */

static void test_a_lead_gets_messages_then_mentions_then_finished_tasks(void **state)
{
    struct fixture *f = *state;
    make_lead(f, "ann");
    make_worker_for(f, "amy", 1);
    make_assigned(f, "done", "amy");
    poll(f, "amy");
    finish(f, "done", "amy");
    mention(f, "ops", "@ann please");
    for (int i = 0; i < 7; i++)
        make_message(f, arena_printf(f->a, "m%d", i));
    make_task(f, "pool");
    make_assigned(f, "hers", "ann");
    assert_string_equal(task_of(poll(f, "ann"), "task_assigned"), "hers");
    struct dibs_trigger t = poll(f, "ann"); /* at her capacity: only work is kept from her */
    assert_trigger(t, "slack_inbox_message");
    assert_int_equal(t.messages.count, 5);
    assert_string_equal(t.messages.items[0].id, "m0");
    t = poll(f, "ann");
    assert_int_equal(t.messages.count, 2);
    t = poll(f, "ann");
    assert_trigger(t, "unread_mentions");
    assert_int_equal(t.mentions.mentions, 1);
    assert_string_equal(t.mentions.items[0].channel_id, "ops");
    t = poll(f, "ann");
    assert_trigger(t, "tasks_finished");
    assert_int_equal(t.finished.tasks.count, 1);
    assert_string_equal(t.finished.tasks.items[0].id, "done");
    assert_int_equal(t.finished.claims.count, 0);
    assert_trigger(poll(f, "ann"), "none"); /* the pool is for workers */
}

static void test_what_a_lead_does_not_answer_comes_back_after_its_lease(void **state)
{
    struct fixture *f = *state;
    make_lead(f, "ann");
    make_worker_for(f, "amy", 1);
    make_assigned(f, "done", "amy");
    poll(f, "amy");
    finish(f, "done", "amy");
    mention(f, "ops", "@ann");
    make_message(f, "m");
    struct dibs_poll in = {.agent_id = "ann", .ack_manual = true, .ttl_ms = MINUTES(1)};
    static const char *const order[] = {"slack_inbox_message", "unread_mentions", "tasks_finished"};
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT_OF(order); i++)
            assert_trigger(poll_as(f, in), order[i]);
        assert_trigger(poll_as(f, in), "none");
        world_pass(&f->world, MINUTES(1));
    }
}

static void test_workers_are_not_given_what_is_for_leads(void **state)
{
    struct fixture *f = *state;
    make_lead(f, "ann");
    make_worker_for(f, "amy", 1);
    make_message(f, "m");
    mention(f, "ops", "@ann");
    assert_trigger(poll(f, "amy"), "none");
}

/* ---- several at once ------------------------------------------------------------------------- */

static void test_two_handles_that_poll_in_turn_share_no_trigger(void **state)
{
    struct fixture *f = *state;
    dibs *other = fixture_open(f), *mine = f->d;
    make_worker_for(f, "amy", 100);
    for (int i = 0; i < 10; i++)
        make_offered(f, arena_printf(f->a, "o%d", i), "amy");
    for (int i = 0; i < 10; i++)
        make_assigned(f, arena_printf(f->a, "a%d", i), "amy");
    for (int i = 0; i < 10; i++)
        make_task(f, arena_printf(f->a, "p%d", i));
    for (int i = 0; i < 30; i++) {
        f->d = i % 2 ? other : mine;
        struct dibs_poll in = {
            .agent_id = "amy", .session_id = i % 2 ? "amy-2" : "amy-1", .claim = true};
        assert_non_null(poll_as(f, in).task);
    }
    f->d = mine;
    assert_trigger(poll_as(f, (struct dibs_poll){.agent_id = "amy", .claim = true}), "none");
    assert_event_count(f, "task:reviewing", 10);
    assert_event_count(f, "task:claimed", 20); /* that none was given twice the teardown verifies */
    dibs_close(other);
}

static void test_a_waiting_poll_ends_with_its_time(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    int64_t before = f->world.steady_ms;
    struct dibs_trigger t = poll_as(f, (struct dibs_poll){.agent_id = "amy", .wait_ms = 3000});
    assert_trigger(t, "none");
    assert_int_equal(f->world.steady_ms - before, 3000);
}

static void test_a_waiting_poll_gets_what_comes_due_meanwhile(void **state)
{
    struct fixture *f = *state;
    int64_t at = now_ms(f) + 2000;
    make_task_as(f, (struct dibs_task_new){.id = "t", .assignee = "amy", .run_after_ms = at});
    struct dibs_trigger t = poll_as(f, (struct dibs_poll){.agent_id = "amy", .wait_ms = 60000});
    assert_string_equal(task_of(t, "task_assigned"), "t");
    assert_true(now_ms(f) - at <= 500);
}

static void test_a_session_that_waits_in_a_poll_counts_as_heard(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    f->d->settings.stale_threshold_ms = 2000; /* shorter than the time between heartbeats */
    int64_t before = now_ms(f);
    poll_as(f, (struct dibs_poll){.agent_id = "amy", .wait_ms = 9500});
    assert_int_equal(now_ms(f), before + 9500);
    assert_true(get_session(f, "amy").heartbeat_at_ms >= before + 8500);
    make_session(f, "w");
    struct dibs_claim_next in = {.session_id = "w", .wait_ms = 9500};
    before = now_ms(f);
    assert_string_equal(claim_any(f, in), "");
    assert_true(get_session(f, "w").heartbeat_at_ms >= before + 8500);
}

static void test_waiting_renews_no_claim(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 2);
    make_task(f, "t");
    poll_as(f, (struct dibs_poll){.agent_id = "amy", .claim = true, .ttl_ms = MINUTES(1)});
    int64_t ends = get_task(f, "t").claim->expires_at_ms;
    poll_as(f, (struct dibs_poll){.agent_id = "amy", .wait_ms = 20000});
    assert_int_equal(get_task(f, "t").claim->expires_at_ms, ends);
}

/* ---- taking back ----------------------------------------------------------------------------- */

static void take_back(struct fixture *f, struct dibs_taken in)
{
    assert_ok(f, dibs__take_back(f->d, f->a, &in, &f->err));
}

static void test_what_was_taken_in_vain_is_put_back_as_if_nobody_had_asked(void **state)
{
    struct fixture *f = *state;
    make_lead(f, "ann");
    make_worker_for(f, "amy", 5);
    make_assigned(f, "done", "amy");
    poll(f, "amy");
    finish(f, "done", "amy");
    make_offered(f, "offered", "amy");
    make_assigned(f, "assigned", "amy");
    make_message(f, "m");
    mention(f, "ops", "@ann");
    int64_t tokens[] = {poll(f, "amy").task->claim.token, poll(f, "amy").task->claim.token};
    take_back(f, (struct dibs_taken){.session_id = "amy", .tokens = tokens, .count = 2});
    assert_status(f, "offered", "offered");
    assert_status(f, "assigned", "assigned");
    assert_int_equal(get_task(f, "assigned").attempts, 0);
    tokens[0] = poll(f, "ann").messages.items[0].claim->token;
    tokens[1] = poll(f, "ann").mentions.items[0].claim.token;
    assert_trigger(poll(f, "ann"), "tasks_finished");
    assert_trigger(poll(f, "ann"), "none");
    take_back(f, (struct dibs_taken){.session_id = "ann",
                                     .tokens = tokens,
                                     .count = 2,
                                     .told = DIBS_STRINGS("done", "offered", "unknown")});
    assert_trigger(poll(f, "ann"), "slack_inbox_message");
    assert_trigger(poll(f, "ann"), "unread_mentions");
    assert_trigger(poll(f, "ann"), "tasks_finished");
    assert_trigger(poll(f, "ann"), "none");
}

static void test_nothing_is_taken_back_from_another_session_or_twice(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 5);
    make_assigned(f, "t", "amy");
    int64_t token = poll(f, "amy").task->claim.token;
    make_session(f, "s");
    take_back(f, (struct dibs_taken){.session_id = "s", .tokens = &token, .count = 1});
    assert_status(f, "t", "in_progress");
    finish(f, "t", "amy");
    take_back(f, (struct dibs_taken){.session_id = "amy", .tokens = &token, .count = 1});
    assert_status(f, "t", "completed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_poll_needs_an_agent_that_is_known),
        STORE_TEST(test_a_session_is_registered_for_an_asker_that_names_none),
        STORE_TEST(test_nobody_polls_with_a_session_of_another),
        STORE_TEST(test_a_poll_is_checked_before_anything_happens),
        STORE_TEST(test_a_poll_is_a_sign_of_life),
        STORE_TEST(test_an_offer_is_handed_out_for_review_oldest_first),
        STORE_TEST(test_a_review_that_is_never_answered_is_offered_again),
        STORE_TEST(test_assigned_tasks_come_by_priority_then_age_and_only_when_due),
        STORE_TEST(test_an_offer_comes_before_an_assigned_task_and_that_before_the_pool),
        STORE_TEST(test_news_of_the_pool_reaches_all_workers_and_claims_nothing),
        STORE_TEST(test_types_narrow_the_pool_and_nothing_else),
        STORE_TEST(test_a_worker_at_its_capacity_is_given_nothing_until_one_ends),
        STORE_TEST(test_a_task_not_finished_comes_back_after_its_lease),
        STORE_TEST(test_a_lead_gets_messages_then_mentions_then_finished_tasks),
        STORE_TEST(test_what_a_lead_does_not_answer_comes_back_after_its_lease),
        STORE_TEST(test_workers_are_not_given_what_is_for_leads),
        STORE_TEST(test_two_handles_that_poll_in_turn_share_no_trigger),
        STORE_TEST(test_a_waiting_poll_ends_with_its_time),
        STORE_TEST(test_a_waiting_poll_gets_what_comes_due_meanwhile),
        STORE_TEST(test_what_was_taken_in_vain_is_put_back_as_if_nobody_had_asked),
        STORE_TEST(test_nothing_is_taken_back_from_another_session_or_twice),
        STORE_TEST(test_a_session_that_waits_in_a_poll_counts_as_heard),
        STORE_TEST(test_waiting_renews_no_claim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
