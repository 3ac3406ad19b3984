/* SPDX-License-Identifier: MIT */
/* Tests of src/core/wake.c: who is woken by what, and nobody else. */
#include "agents.h"
#include "core/core.h"
#include "core/poll.h"
#include "daemon.h"

static struct dibs_trigger poll(struct fixture *f, const char *agent)
{
    struct dibs_trigger out = {0};
    struct dibs_poll in = {.agent_id = agent, .claim = true};
    assert_ok(f, dibs_poll(f->d, f->a, &in, &out, &f->err));
    return out;
}

static bool is_woken(struct fixture *f, int64_t since, const char *agent)
{
    return dibs__is_woken(f->d, since, dibs__wake_key(agent));
}

static int64_t mark(struct fixture *f)
{
    return dibs__wakes(f->d).agents;
}

static void test_an_offer_and_an_assignment_wake_their_agent_only(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_worker_for(f, "amy", 1);
    make_worker_for(f, "bob", 1);
    make_task(f, "t");
    int64_t before = mark(f);
    offer(f, "t", "amy");
    assert_true(is_woken(f, before, "amy"));
    assert_false(is_woken(f, before, "bob"));
    before = mark(f);
    assert_ok(f, try_move(f, dibs_task_accept, "t", "amy"));
    assert_true(is_woken(f, before, "amy"));
    before = mark(f);
    make_agent_session(f, "bob-1", "bob");
    struct dibs_task_new in = {.id = "u", .title = "u", .assignee = "bob"};
    assert_ok(f, try_create(f, in));
    assert_true(is_woken(f, before, "bob"));
    assert_false(is_woken(f, before, "amy"));
    assert_false(is_woken(f, mark(f), "bob"));
}

static void test_a_review_that_ends_wakes_its_agent(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_agent_session(f, "amy-1", "amy");
    make_offered(f, "t", "amy");
    assert_ok(f, try_review(f, "t", "amy-1"));
    int64_t before = mark(f);
    world_pass(&f->world, MINUTES(30));
    tend(f);
    assert_true(is_woken(f, before, "amy"));
}

static void test_an_agent_without_room_is_woken_when_one_of_its_claims_ends(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_worker_for(f, "amy", 1);
    make_worker_for(f, "bob", 1);
    make_task(f, "a");
    make_task(f, "b");
    make_task(f, "c");
    poll(f, "amy");
    poll(f, "bob");
    int64_t before = mark(f);
    assert_ok(f, try_complete(f, "b", "bob", 0, NULL)); /* bob did not ask for more */
    assert_false(is_woken(f, before, "bob"));
    assert_int_equal(poll(f, "amy").type, DIBS_TRIGGER_NONE); /* c is there, but no room */
    assert_false(is_woken(f, before, "amy"));
    assert_ok(f, try_complete(f, "a", "amy", 0, NULL));
    assert_true(is_woken(f, before, "amy"));
    assert_false(is_woken(f, before, "bob"));
    before = mark(f);
    poll(f, "amy");
    assert_ok(f, try_complete(f, "c", "amy", 0, NULL)); /* woken once for each refusal */
    assert_false(is_woken(f, before, "amy"));
}

static void test_more_agents_without_room_than_are_kept_are_all_woken(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    int count = FULL_KEPT + 10;
    for (int i = 0; i < count; i++) {
        const char *agent = arena_printf(f->a, "w%d", i);
        make_worker_for(f, agent, 1);
        make_task(f, arena_printf(f->a, "t%d", i));
        poll(f, agent);
    }
    make_task(f, "more");
    for (int i = 0; i < count; i++)
        assert_int_equal(poll(f, arena_printf(f->a, "w%d", i)).type, DIBS_TRIGGER_NONE);
    for (int i = 0; i < count; i++) {
        int64_t before = mark(f);
        const char *agent = arena_printf(f->a, "w%d", i);
        assert_ok(f, try_complete(f, arena_printf(f->a, "t%d", i), agent, 0, NULL));
        assert_true(is_woken(f, before, agent));
    }
}

static void test_what_was_overwritten_counts_as_a_note_for_everybody(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_worker_for(f, "amy", 1);
    int64_t before = mark(f);
    for (int i = 0; i < WAKES_KEPT; i++)
        make_assigned(f, arena_printf(f->a, "t%d", i), "amy");
    assert_false(is_woken(f, before, "bob"));
    make_assigned(f, "more", "amy");
    assert_true(is_woken(f, before, "bob"));
    assert_false(is_woken(f, before + 1, "bob"));
}

static void test_leads_are_woken_by_their_project_and_an_agent_may_be_called_the_same(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_lead(f, "ann");
    int64_t before = mark(f);
    struct dibs_message out = {0};
    struct dibs_message_new in = {.content = "c"};
    assert_ok(f, dibs_inbox_add(f->d, f->a, &in, &out, &f->err));
    assert_true(dibs__is_woken(f->d, before, dibs__wake_key_leads("default")));
    assert_false(dibs__is_woken(f->d, before, dibs__wake_key_leads("other")));
    assert_false(is_woken(f, before, "default"));
}

static void test_who_is_no_daemon_notes_nothing(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    make_offered(f, "t", "amy");
    assert_int_equal(mark(f), 0);
}

static void test_room_is_that_of_the_agent_that_the_session_has_now(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_worker_for(f, "amy", 1);
    make_session(f, "s3");
    make_task(f, "a");
    make_task(f, "b");
    claim(f, "a", "s3"); /* of no agent yet */
    make_agent_session(f, "s3", "amy");
    assert_int_equal(poll(f, "amy").type, DIBS_TRIGGER_NONE);
    int64_t before = mark(f);
    assert_ok(f, try_complete(f, "a", "s3", 0, NULL));
    assert_true(is_woken(f, before, "amy"));
}

static void test_a_session_that_goes_to_another_agent_leaves_room_with_its_old_one(void **state)
{
    struct fixture *f = *state;
    given_a_daemon(f);
    make_worker_for(f, "amy", 1);
    make_worker_for(f, "bob", 1);
    make_agent_session(f, "s1", "amy");
    make_task(f, "a");
    make_task(f, "b");
    claim(f, "a", "s1");
    assert_int_equal(poll(f, "amy").type, DIBS_TRIGGER_NONE);
    int64_t before = mark(f);
    make_agent_session(f, "s1", "amy"); /* once more, as before */
    assert_false(is_woken(f, before, "amy"));
    make_agent_session(f, "s1", "bob");
    assert_true(is_woken(f, before, "amy"));
    assert_int_equal(poll(f, "amy").type, DIBS_TRIGGER_POOL_TASK);
    make_task(f, "c");
    assert_int_equal(poll(f, "bob").type, DIBS_TRIGGER_NONE);
    before = mark(f);
    assert_ok(f, try_complete(f, "a", "s1", 0, NULL)); /* claimed by amy, held by bob */
    assert_true(is_woken(f, before, "bob"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_an_offer_and_an_assignment_wake_their_agent_only),
        STORE_TEST(test_a_review_that_ends_wakes_its_agent),
        STORE_TEST(test_an_agent_without_room_is_woken_when_one_of_its_claims_ends),
        STORE_TEST(test_more_agents_without_room_than_are_kept_are_all_woken),
        STORE_TEST(test_what_was_overwritten_counts_as_a_note_for_everybody),
        STORE_TEST(test_leads_are_woken_by_their_project_and_an_agent_may_be_called_the_same),
        STORE_TEST(test_who_is_no_daemon_notes_nothing),
        STORE_TEST(test_room_is_that_of_the_agent_that_the_session_has_now),
        STORE_TEST(test_a_session_that_goes_to_another_agent_leaves_room_with_its_old_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
