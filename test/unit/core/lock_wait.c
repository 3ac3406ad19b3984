/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/lock.c: waiting for a lock. Whoever waits sleeps in the library; what others do
 * meanwhile happens in the world's on_sleep, on handles of their own. A waiter that is started
 * there waits inside the other's sleep, so the one that came last is the first to return.
 */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 16

struct scene;
typedef void scene_step(struct scene *s);

/* What happens, one step per sleep; after the last step the scene is silent. */
struct scene {
    struct fixture *f;
    dibs *others[4];
    int other_count;
    scene_step *steps[STEPS_MAX];
    int next;
    dibs_status first, second; /* answers to waiters that a step has started */
    struct dibs_error err;
};

static void on_sleep(struct world *w, void *context)
{
    struct scene *s = context;
    (void)w;
    scene_step *step = s->next < STEPS_MAX ? s->steps[s->next] : NULL;
    if (!step)
        return;
    s->next++;
    step(s);
}

static void play(struct scene *s, struct fixture *f)
{
    s->f = f;
    f->world.on_sleep = on_sleep;
    f->world.on_sleep_context = s;
    const char *sessions[] = {"holder", "a", "b", "c"};
    for (size_t i = 0; i < 4; i++)
        make_session(f, sessions[i]);
}

static void close_scene(struct scene *s)
{
    s->f->world.on_sleep = NULL;
    while (s->other_count > 0)
        dibs_close(s->others[--s->other_count]);
}

/* A handle that nobody else sleeps in. */
static dibs *another(struct scene *s)
{
    assert_true(s->other_count < 4);
    return s->others[s->other_count++] = fixture_open(s->f);
}

static dibs_status take_on(struct scene *s, dibs *d, struct dibs_lock_take in)
{
    struct dibs_claim out = {0};
    s->err = (struct dibs_error){0};
    dibs_status status = dibs_lock_take(d, s->f->a, &in, &out, &s->err);
    if (status == DIBS_OK)
        assert_string_equal(out.session_id, in.session_id);
    return status;
}

static dibs_status take(struct scene *s, struct dibs_lock_take in)
{
    return take_on(s, s->f->d, in);
}

static void release(struct scene *s, const char *session)
{
    struct dibs_claim out = {0};
    struct dibs_lock_ref ref = {.resource = "r", .session_id = session};
    dibs *d = fixture_open(s->f);
    assert_ok(s->f, dibs_lock_release(d, s->f->a, &ref, &out, &s->f->err));
    dibs_close(d);
}

static void assert_holders(struct scene *s, const char *expected)
{
    char seen[64] = "";
    struct dibs_claim_list held = {0};
    dibs *d = fixture_open(s->f);
    assert_ok(s->f, dibs_lock_list(d, s->f->a, &(struct dibs_lock_filter){.resource = "r"}, &held,
                                   &s->f->err));
    dibs_close(d);
    for (size_t i = 0; i < held.count; i++) {
        if (i > 0)
            strncat(seen, " ", sizeof seen - strlen(seen) - 1);
        strncat(seen, held.items[i].session_id, sizeof seen - strlen(seen) - 1);
    }
    assert_string_equal(seen, expected);
}

static int64_t tickets(struct scene *s)
{
    return probe_int(s->f, "SELECT count(*) FROM lock_wait");
}

/* ---- in the order of arrival ----------------------------------------------------------------- */

static void b_waits(struct scene *s)
{
    s->first =
        take_on(s, another(s),
                (struct dibs_lock_take){.resource = "r", .session_id = "b", .wait_ms = 60000});
}
static void c_waits(struct scene *s)
{
    s->second =
        take_on(s, another(s),
                (struct dibs_lock_take){.resource = "r", .session_id = "c", .wait_ms = 60000});
}
static void pass_it_on_to_c(struct scene *s)
{
    assert_int_equal(tickets(s), 3);
    release(s, "holder");
    assert_holders(s, "a"); /* who came first */
    release(s, "a");
    assert_holders(s, "b");
    release(s, "b");
    assert_holders(s, "c");
}
static void c_lets_go(struct scene *s)
{
    release(s, "c");
}
static void b_lets_go(struct scene *s)
{
    release(s, "b");
}

static void test_three_waiters_are_served_in_the_order_of_arrival(void **state)
{
    struct scene s = {.steps = {b_waits, c_waits, pass_it_on_to_c, c_lets_go, b_lets_go}};
    play(&s, *state);
    assert_int_equal(take(&s, (struct dibs_lock_take){.resource = "r", .session_id = "holder"}),
                     DIBS_OK);
    assert_int_equal(
        take(&s, (struct dibs_lock_take){.resource = "r", .session_id = "a", .wait_ms = 60000}),
        DIBS_OK);
    assert_int_equal(s.first, DIBS_OK); /* each came to its end, the later ones a second time */
    assert_int_equal(s.second, DIBS_OK);
    assert_holders(&s, "a");
    assert_int_equal(tickets(&s), 0);
    struct dibs_event_list taken = events_of(s.f, "lock:taken");
    const char *order[] = {"holder", "a", "b", "c", "b", "a"};
    assert_int_equal(taken.count, 6);
    for (size_t i = 0; i < taken.count; i++)
        assert_string_equal(taken.items[i].session_id, order[i]);
    close_scene(&s);
}

/* ---- shared and exclusive -------------------------------------------------------------------- */

static void b_waits_shared(struct scene *s)
{
    s->first = take_on(s, another(s),
                       (struct dibs_lock_take){
                           .resource = "r", .session_id = "b", .shared = true, .wait_ms = 60000});
}
static void c_waits_a_second(struct scene *s)
{
    s->second =
        take_on(s, another(s),
                (struct dibs_lock_take){.resource = "r", .session_id = "c", .wait_ms = 1000});
}
static void holder_lets_go(struct scene *s)
{
    release(s, "holder");
}

static void holder_lets_go_to_a_and_b(struct scene *s)
{
    release(s, "holder");
    assert_holders(s, "a b"); /* both in the same step */
}

static void test_shared_waiters_get_it_together_up_to_the_next_exclusive_one(void **state)
{
    struct scene s = {.steps = {b_waits_shared, c_waits_a_second, holder_lets_go_to_a_and_b}};
    play(&s, *state);
    assert_int_equal(take(&s, (struct dibs_lock_take){.resource = "r", .session_id = "holder"}),
                     DIBS_OK);
    struct dibs_lock_take a = {
        .resource = "r", .session_id = "a", .shared = true, .wait_ms = 60000};
    assert_int_equal(take(&s, a), DIBS_OK);
    assert_int_equal(s.first, DIBS_OK);
    assert_int_equal(s.second, DIBS_LOCK_HELD);
    assert_holders(&s, "a b");
    close_scene(&s);
}

static void newcomer_asks_shared(struct scene *s)
{
    dibs *d = another(s);
    struct dibs_lock_take in = {.resource = "r", .session_id = "b", .shared = true};
    assert_int_equal(take_on(s, d, in), DIBS_LOCK_HELD); /* it would fit, but a comes first */
    assert_string_equal(s->err.holder, "holder");
    assert_holders(s, "holder");
}

static void test_shared_newcomers_do_not_starve_an_exclusive_waiter(void **state)
{
    struct scene s = {.steps = {newcomer_asks_shared, holder_lets_go}};
    play(&s, *state);
    struct dibs_lock_take shared = {.resource = "r", .session_id = "holder", .shared = true};
    assert_int_equal(take(&s, shared), DIBS_OK);
    assert_int_equal(
        take(&s, (struct dibs_lock_take){.resource = "r", .session_id = "a", .wait_ms = 60000}),
        DIBS_OK);
    assert_holders(&s, "a");
    close_scene(&s);
}

static void b_queues_up_shared(struct scene *s)
{
    plant(s->f, "INSERT INTO lock_wait VALUES (99, 'r', 'b', 1, 60000, 0, 9e18)");
}

static void test_an_exclusive_waiter_that_gives_up_lets_shared_ones_pass(void **state)
{
    struct scene s = {.steps = {b_queues_up_shared}};
    play(&s, *state);
    struct dibs_lock_take shared = {.resource = "r", .session_id = "holder", .shared = true};
    assert_int_equal(take(&s, shared), DIBS_OK);
    struct dibs_lock_take a = {.resource = "r", .session_id = "a", .wait_ms = 1000};
    assert_int_equal(take(&s, a), DIBS_LOCK_HELD);
    assert_holders(&s, "holder b");
    assert_int_equal(tickets(&s), 0);
    close_scene(&s);
}

/* ---- giving up ------------------------------------------------------------------------------- */

static void test_a_wait_gives_up_at_its_time_and_leaves_no_ticket(void **state)
{
    struct scene s = {0};
    play(&s, *state);
    struct fixture *f = s.f;
    struct dibs_claim out = {.token = 77};
    struct dibs_lock_take keep = {.resource = "r", .session_id = "holder", .ttl_ms = MINUTES(60)};
    assert_int_equal(take(&s, keep), DIBS_OK);
    int64_t began = f->world.steady_ms;
    struct dibs_lock_take in = {.resource = "r", .session_id = "a", .wait_ms = 12345};
    assert_refused(f, DIBS_LOCK_HELD, dibs_lock_take(f->d, f->a, &in, &out, &f->err));
    assert_int_equal(f->world.steady_ms - began, 12345);
    assert_int_equal(out.token, 77);
    assert_string_equal(f->err.holder, "holder");
    assert_int_equal(f->err.remaining_ms, MINUTES(60) - 12345);
    assert_int_equal(tickets(&s), 0);
    release(&s, "holder");
    assert_holders(&s, ""); /* nobody is given what he does not wait for any more */
    close_scene(&s);
}

static void test_a_lock_whose_lease_ends_unnoticed_goes_to_the_waiter(void **state)
{
    struct scene s = {0};
    play(&s, *state);
    struct dibs_lock_take brief = {.resource = "r", .session_id = "holder", .ttl_ms = SECONDS(5)};
    assert_int_equal(take(&s, brief), DIBS_OK);
    int64_t began = s.f->world.steady_ms;
    struct dibs_lock_take in = {.resource = "r", .session_id = "a", .wait_ms = 60000};
    assert_int_equal(take(&s, in), DIBS_OK);
    assert_in_range(s.f->world.steady_ms - began, SECONDS(5), SECONDS(5) + 500);
    close_scene(&s);
}

static void test_a_lease_that_ends_in_the_last_moment_of_a_wait_goes_to_the_waiter(void **state)
{
    struct scene s = {0};
    play(&s, *state);
    struct dibs_lock_take brief = {.resource = "r", .session_id = "holder", .ttl_ms = 5210};
    assert_int_equal(take(&s, brief), DIBS_OK);
    struct dibs_lock_take in = {.resource = "r", .session_id = "a", .wait_ms = 5210};
    assert_int_equal(take(&s, in), DIBS_OK);
    assert_holders(&s, "a");
    assert_int_equal(tickets(&s), 0);
    close_scene(&s);
}

static void test_nobody_waits_inside_a_batch(void **state)
{
    struct scene s = {0};
    play(&s, *state);
    struct fixture *f = s.f;
    assert_int_equal(take(&s, (struct dibs_lock_take){.resource = "r", .session_id = "holder"}),
                     DIBS_OK);
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    struct dibs_lock_take in = {.resource = "r", .session_id = "a", .wait_ms = 60000};
    assert_int_equal(take(&s, in), DIBS_LOCK_HELD);
    assert_ok(f, dibs_batch_commit(f->d, &f->err));
    assert_int_equal(f->world.slept_ms, 0);
    assert_int_equal(tickets(&s), 0);
    close_scene(&s);
}

/* ---- waiters that are gone ------------------------------------------------------------------- */

static void end_session(struct scene *s, const char *id)
{
    struct dibs_deregistered gone = {0};
    dibs *d = another(s);
    assert_ok(s->f, dibs_session_deregister(d, s->f->a, id, &gone, &s->f->err));
}

static void test_waiters_that_are_late_ended_or_dead_are_passed_over(void **state)
{
    struct scene s = {0};
    play(&s, *state);
    struct fixture *f = s.f;
    struct dibs_session dead = {0};
    world_start_process(&f->world, 4711);
    struct dibs_session_new in = {.id = "dead", .pid = 4711};
    assert_ok(f, dibs_session_register(f->d, f->a, &in, &dead, &f->err));
    end_session(&s, "b");
    assert_int_equal(take(&s, (struct dibs_lock_take){.resource = "r", .session_id = "holder"}),
                     DIBS_OK);
    plant(f, "INSERT INTO lock_wait VALUES (1, 'r', 'a', 0, 60000, 0, 1766923200000), "
             "(2, 'r', 'b', 0, 60000, 0, 9e18), (3, 'r', 'dead', 0, 60000, 0, 9e18), "
             "(4, 'r', 'never-was', 0, 60000, 0, 9e18), (5, 'r', 'c', 0, 60000, 0, 9e18)");
    world_kill_process(&f->world, 4711);
    release(&s, "holder");
    assert_holders(&s, "c");
    assert_int_equal(tickets(&s), 0);
    close_scene(&s);
}

static void a_is_ended(struct scene *s)
{
    end_session(s, "a");
}

static void test_a_waiter_whose_session_ends_is_told(void **state)
{
    struct scene s = {.steps = {a_is_ended}};
    play(&s, *state);
    assert_int_equal(take(&s, (struct dibs_lock_take){.resource = "r", .session_id = "holder"}),
                     DIBS_OK);
    struct dibs_lock_take in = {.resource = "r", .session_id = "a", .wait_ms = 60000};
    assert_int_equal(take(&s, in), DIBS_SESSION_NOT_FOUND);
    assert_string_equal(s.err.message, "session 'a' has ended; register it again");
    assert_true(s.f->world.slept_ms < 1000);
    close_scene(&s);
}

static void holder_ends(struct scene *s)
{
    end_session(s, "holder");
}

static void test_the_end_of_the_holding_session_hands_over(void **state)
{
    struct scene s = {.steps = {holder_ends}};
    play(&s, *state);
    assert_int_equal(take(&s, (struct dibs_lock_take){.resource = "r", .session_id = "holder"}),
                     DIBS_OK);
    struct dibs_lock_take in = {.resource = "r", .session_id = "a", .wait_ms = 60000};
    assert_int_equal(take(&s, in), DIBS_OK);
    assert_true(s.f->world.slept_ms < 1000);
    close_scene(&s);
}

static void holder_dies(struct scene *s)
{
    struct dibs_cleaned cleaned = {0};
    dibs *d = another(s);
    world_kill_process(&s->f->world, 4711);
    assert_ok(s->f, dibs_cleanup_orphaned(d, s->f->a,
                                          &(struct dibs_orphan_options){.check_process = true},
                                          &cleaned, &s->f->err));
}

static void test_the_sweep_hands_the_lock_of_a_dead_process_over(void **state)
{
    struct scene s = {.steps = {holder_dies}};
    play(&s, *state);
    struct dibs_session registered = {0};
    world_start_process(&s.f->world, 4711);
    struct dibs_session_new who = {.id = "holder", .pid = 4711};
    assert_ok(s.f, dibs_session_register(s.f->d, s.f->a, &who, &registered, &s.f->err));
    assert_int_equal(take(&s, (struct dibs_lock_take){.resource = "r", .session_id = "holder"}),
                     DIBS_OK);
    struct dibs_lock_take in = {.resource = "r", .session_id = "a", .wait_ms = 60000};
    assert_int_equal(take(&s, in), DIBS_OK);
    close_scene(&s);
}

/* ---- tickets --------------------------------------------------------------------------------- */

static void test_a_ticket_left_behind_is_for_what_is_asked_now(void **state)
{
    struct scene s = {.steps = {holder_lets_go}};
    play(&s, *state);
    assert_int_equal(take(&s, (struct dibs_lock_take){.resource = "r", .session_id = "holder"}),
                     DIBS_OK);
    /* of a wait that was cut short: another mode, another lease, nearly over */
    plant(s.f, "INSERT INTO lock_wait VALUES (1, 'r', 'a', 1, 5000, 0, 1766923200001)");
    struct dibs_claim out = {0};
    struct dibs_lock_take in = {.resource = "r", .session_id = "a", .wait_ms = 60000};
    assert_ok(s.f, dibs_lock_take(s.f->d, s.f->a, &in, &out, &s.f->err));
    assert_false(out.shared);
    assert_int_equal(out.ttl_ms, MINUTES(1));
    close_scene(&s);
}

static void test_waiting_counts_as_a_sign_of_life(void **state)
{
    struct scene s = {0};
    play(&s, *state);
    struct dibs_lock_take keep = {.resource = "r", .session_id = "holder", .ttl_ms = MINUTES(60)};
    assert_int_equal(take(&s, keep), DIBS_OK);
    world_pass(&s.f->world, MINUTES(4));
    int64_t asked_at = s.f->world.wall_ms;
    struct dibs_lock_take in = {.resource = "r", .session_id = "a", .wait_ms = 1000};
    assert_int_equal(take(&s, in), DIBS_LOCK_HELD);
    assert_int_equal(get_session(s.f, "a").heartbeat_at_ms, asked_at);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_three_waiters_are_served_in_the_order_of_arrival),
        STORE_TEST(test_shared_waiters_get_it_together_up_to_the_next_exclusive_one),
        STORE_TEST(test_shared_newcomers_do_not_starve_an_exclusive_waiter),
        STORE_TEST(test_an_exclusive_waiter_that_gives_up_lets_shared_ones_pass),
        STORE_TEST(test_a_wait_gives_up_at_its_time_and_leaves_no_ticket),
        STORE_TEST(test_a_lock_whose_lease_ends_unnoticed_goes_to_the_waiter),
        STORE_TEST(test_a_lease_that_ends_in_the_last_moment_of_a_wait_goes_to_the_waiter),
        STORE_TEST(test_nobody_waits_inside_a_batch),
        STORE_TEST(test_waiters_that_are_late_ended_or_dead_are_passed_over),
        STORE_TEST(test_a_waiter_whose_session_ends_is_told),
        STORE_TEST(test_the_end_of_the_holding_session_hands_over),
        STORE_TEST(test_the_sweep_hands_the_lock_of_a_dead_process_over),
        STORE_TEST(test_a_ticket_left_behind_is_for_what_is_asked_now),
        STORE_TEST(test_waiting_counts_as_a_sign_of_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
