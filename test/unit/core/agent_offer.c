/* SPDX-License-Identifier: MIT */
/* Tests of src/core/agent_offer.c: offers that nobody will answer go back to the pool. */
#include "agents.h"
#include "core/core.h"
#include "daemon.h"

static void assert_withdrawn(struct fixture *f, const char *task, const char *reason)
{
    struct dibs_event_list told = events_of(f, "task:offer-withdrawn");
    assert_status(f, task, "open");
    assert_null(get_task(f, task).offered_to);
    assert_int_equal(get_task(f, task).offered_at_ms, 0);
    assert_int_equal(told.count, 1);
    assert_string_equal(event_field(f, &told.items[0], "reason"), reason);
    assert_string_equal(event_field(f, &told.items[0], "offeredTo"), "amy");
}

static void test_it_is_known_since_when_a_task_is_offered(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    make_agent_session(f, "s", "amy");
    make_offered(f, "t", "amy");
    int64_t at = now_ms(f);
    world_pass(&f->world, 1000);
    assert_int_equal(get_task(f, "t").offered_at_ms, at);
    assert_ok(f, try_review(f, "t", "s"));
    assert_int_equal(get_task(f, "t").offered_at_ms, at);
    assert_ok(f, try_move(f, dibs_task_accept, "t", "amy"));
    assert_int_equal(get_task(f, "t").offered_at_ms, 0);
    make_task_as(f, (struct dibs_task_new){.id = "u", .offered_to = "amy"});
    assert_int_equal(get_task(f, "u").offered_at_ms, at + 1000);
}

static void test_an_offer_that_nobody_answers_goes_back(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    make_offered(f, "t", "amy");
    for (int i = 0; i < 12; i++) { /* she lives and says nothing */
        make_agent_session(f, "s", "amy");
        sweep(f);
        assert_status(f, "t", "offered");
        world_pass(&f->world, MINUTES(5));
    }
    sweep(f);
    assert_withdrawn(f, "t", "unanswered");
}

static void test_an_offer_to_an_agent_that_is_gone_goes_back(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    make_agent_session(f, "s", "amy");
    make_offered(f, "t", "amy");
    world_pass(&f->world, MINUTES(5));
    end_session(f, "s");
    world_pass(&f->world, MINUTES(10) - 1);
    sweep(f);
    assert_status(f, "t", "offered");
    world_pass(&f->world, 1);
    sweep(f);
    assert_withdrawn(f, "t", "agent_gone");
}

static void test_an_offer_made_to_an_absent_agent_waits_for_it_a_while(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    world_pass(&f->world, MINUTES(600)); /* not heard for long */
    make_offered(f, "t", "amy");
    world_pass(&f->world, MINUTES(10) - 1);
    sweep(f);
    assert_status(f, "t", "offered");
    world_pass(&f->world, 1);
    sweep(f);
    assert_withdrawn(f, "t", "agent_gone");
}

static void test_a_review_under_way_is_left_alone_until_its_lease_ends(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    make_agent_session(f, "s", "amy");
    make_offered(f, "t", "amy");
    world_pass(&f->world, MINUTES(50));
    make_agent_session(f, "s", "amy");
    assert_ok(f, try_review(f, "t", "s"));
    for (int i = 0; i < 5; i++) {
        world_pass(&f->world, MINUTES(5));
        make_agent_session(f, "s", "amy");
        sweep(f);
        assert_status(f, "t", "reviewing");
    }
    world_pass(&f->world, MINUTES(5)); /* offered again, as old as the offer is */
    sweep(f);
    assert_withdrawn(f, "t", "unanswered");
}

static void test_a_review_is_no_work_to_report_on(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    make_agent_session(f, "s", "amy");
    make_session(f, "r");
    make_offered(f, "t", "amy");
    assert_ok(f, try_review(f, "t", "s"));
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_heartbeat(f, "t", "s", 0));
    assert_string_equal(f->err.message, "task 't' is only being reviewed by session 's'");
    assert_string_equal(f->err.task_status, "reviewing");
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_complete(f, "t", "r", 0, NULL));
    assert_string_equal(f->err.message, "task 't' is only being reviewed by session 's'");
}

static void test_a_withdrawn_task_still_waits_for_its_time(void **state)
{
    struct fixture *f = *state;
    int64_t at = now_ms(f) + MINUTES(90);
    make_task_as(f, (struct dibs_task_new){.id = "t", .offered_to = "amy", .run_after_ms = at});
    world_pass(&f->world, MINUTES(60));
    sweep(f);
    assert_status(f, "t", "open");
    make_session(f, "s");
    assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, "t", "s", 0));
}

static void test_a_clock_that_is_set_takes_back_no_offer(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    make_offered(f, "t", "amy");
    world_set_clock(&f->world, f->world.wall_ms + MINUTES(600));
    sweep(f);
    assert_status(f, "t", "offered");
    world_pass(&f->world, MINUTES(10));
    sweep(f);
    assert_withdrawn(f, "t", "agent_gone");
}

/* ---- a daemon -------------------------------------------------------------------------------- */

static void test_a_daemon_wakes_for_an_offer_that_is_over(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_worker_for(f, "amy", 1);
    assert_int_equal(tend(f).next_ms, 0);
    make_offered(f, "t", "amy");
    int64_t gone_at = now_ms(f) + MINUTES(10);
    assert_int_equal(tend(f).next_ms, gone_at);
    world_pass(&f->world, MINUTES(10) - 1);
    assert_int_equal(tend(f).withdrawn, 0);
    world_pass(&f->world, 1);
    struct dibs_due due = tend(f);
    assert_int_equal(due.withdrawn, 1);
    assert_int_equal(due.next_ms, 0);
    assert_withdrawn(f, "t", "agent_gone");
}

static void test_a_daemon_follows_an_agent_that_comes_and_goes(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_worker_for(f, "amy", 1);
    make_offered(f, "t", "amy");
    int64_t made = now_ms(f);
    tend(f);
    world_pass(&f->world, MINUTES(9));
    make_agent_session(f, "amy-1", "amy");
    world_pass(&f->world, MINUTES(1));
    struct dibs_due due = tend(f); /* she is there: only her silence counts now */
    assert_int_equal(due.withdrawn, 0);
    assert_int_equal(due.next_ms, made + MINUTES(60));
    end_session(f, "amy-1");
    assert_int_equal(tend(f).next_ms, now_ms(f) + MINUTES(10));
    world_pass(&f->world, MINUTES(10));
    assert_int_equal(tend(f).withdrawn, 1);
    assert_withdrawn(f, "t", "agent_gone");
}

static void test_a_daemon_takes_back_what_a_review_outlived(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_agent_session(f, "amy-1", "amy");
    make_offered(f, "t", "amy");
    world_pass(&f->world, MINUTES(45));
    tend(f);
    assert_ok(f, try_review(f, "t", "amy-1"));
    tend(f);
    world_pass(&f->world, MINUTES(30));
    struct dibs_due due = tend(f);
    assert_int_equal(due.expired, 1);
    assert_int_equal(due.withdrawn, 1);
    assert_withdrawn(f, "t", "unanswered");
}

static void test_offers_to_an_agent_whose_last_session_is_anothers_now_go_back(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_worker_for(f, "amy", 1);
    make_worker_for(f, "bob", 1);
    make_agent_session(f, "s1", "amy");
    make_offered(f, "t", "amy");
    world_pass(&f->world, MINUTES(5));
    tend(f);
    make_agent_session(f, "s1", "bob");
    int64_t gone = now_ms(f) + MINUTES(10);
    assert_int_equal(tend(f).next_ms, gone);
    world_pass(&f->world, MINUTES(10));
    tend(f);
    assert_withdrawn(f, "t", "agent_gone");
}

static void test_a_shorter_time_for_answers_is_seen_when_the_settings_are_read_again(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_worker_for(f, "amy", 1);
    make_agent_session(f, "s1", "amy");
    make_offered(f, "t", "amy");
    int64_t at = now_ms(f);
    tend(f);
    const char *shorter[] = {"offerTTL=2m"};
    assert_true(dibs__reload(f->d, (struct dibs_strings){.items = shorter, .count = 1}));
    assert_int_equal(tend(f).next_ms, at + MINUTES(2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_it_is_known_since_when_a_task_is_offered),
        STORE_TEST(test_an_offer_that_nobody_answers_goes_back),
        STORE_TEST(test_an_offer_to_an_agent_that_is_gone_goes_back),
        STORE_TEST(test_an_offer_made_to_an_absent_agent_waits_for_it_a_while),
        STORE_TEST(test_a_review_under_way_is_left_alone_until_its_lease_ends),
        STORE_TEST(test_a_review_is_no_work_to_report_on),
        STORE_TEST(test_a_withdrawn_task_still_waits_for_its_time),
        STORE_TEST(test_a_clock_that_is_set_takes_back_no_offer),
        STORE_TEST(test_a_daemon_wakes_for_an_offer_that_is_over),
        STORE_TEST(test_a_daemon_follows_an_agent_that_comes_and_goes),
        STORE_TEST(test_a_daemon_takes_back_what_a_review_outlived),
        STORE_TEST(test_offers_to_an_agent_whose_last_session_is_anothers_now_go_back),
        STORE_TEST(test_a_shorter_time_for_answers_is_seen_when_the_settings_are_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
