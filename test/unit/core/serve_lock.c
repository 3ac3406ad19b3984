/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/lock.c as a daemon uses it: it asks inside a batch, cannot wait there, leaves a
 * ticket and asks again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon.h"

static struct dibs_claim last; /* what the last granted call was given */

/* One request in one batch, as the writer of a daemon runs it. */
static dibs_status ask(struct fixture *f, const char *session, bool shared, int64_t wait_ms)
{
    struct dibs_lock_take in = {
        .resource = "r", .session_id = session, .shared = shared, .wait_ms = wait_ms};
    last = (struct dibs_claim){0};
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    dibs_status status = dibs_lock_take(f->d, f->a, &in, &last, &f->err);
    struct dibs_error refusal = f->err;
    assert_ok(f, dibs_batch_commit(f->d, &f->err));
    f->err = refusal;
    return status;
}

static void give_up(struct fixture *f, const char *session)
{
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    assert_ok(f, dibs__lock_give_up(f->d, "r", session, &f->err));
    assert_ok(f, dibs_batch_commit(f->d, &f->err));
}

static void let_go(struct fixture *f, const char *session)
{
    struct dibs_claim out = {0};
    struct dibs_lock_ref in = {.resource = "r", .session_id = session};
    assert_ok(f, dibs_lock_release(f->d, f->a, &in, &out, &f->err));
}

static int64_t tickets(struct fixture *f)
{
    return probe_int(f, "SELECT count(*) FROM lock_wait");
}

static int64_t holds(struct fixture *f, const char *session)
{
    char sql[200];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM claim WHERE kind = 'lock' AND ended_at IS NULL AND "
             "session_id = '%s'",
             session);
    return probe_int(f, sql);
}

static void given_three(struct fixture *f)
{
    given_a_daemon(f); /* s and t */
    make_session(f, "u");
}

static void test_who_has_to_wait_leaves_a_ticket_and_is_told_who_holds_it(void **state)
{
    struct fixture *f = *state;
    given_three(f);
    assert_ok(f, ask(f, "s", false, 5000));
    assert_false(last.extended);
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "t", false, 5000));
    assert_string_equal(f->err.holder, "s");
    assert_int_equal(tickets(f), 1);
    assert_int_equal(f->world.slept_ms, 0);
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "u", false, 0)); /* does not want to wait */
    assert_int_equal(tickets(f), 1);
}

static void test_looking_again_writes_nothing_and_wakes_nobody(void **state)
{
    struct fixture *f = *state;
    given_three(f);
    assert_ok(f, ask(f, "s", false, 5000));
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "t", false, 5000));
    world_pass(&f->world, 100);
    struct dibs_wakes before = dibs__wakes(f->d);
    char *tables = probe_tables(f);
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "t", false, 5000));
    char *after = probe_tables(f);
    assert_string_equal(tables, after);
    assert_int_equal(dibs__wakes(f->d).locks, before.locks);
    assert_int_equal(tickets(f), 1);
    free(tables);
    free(after);
}

static void test_the_ticket_is_granted_in_its_turn_and_the_next_call_is_told(void **state)
{
    struct fixture *f = *state;
    given_three(f);
    assert_ok(f, ask(f, "s", false, 0));
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "t", false, 5000));
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "u", false, 5000));
    let_go(f, "s");
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "u", false, 5000)); /* t was first */
    world_pass(&f->world, 100);
    assert_ok(f, ask(f, "t", false, 5000));
    assert_false(last.extended); /* to its caller it is new */
    assert_int_equal(last.remaining_ms, MINUTES(1));
    assert_ok(f, ask(f, "t", false, 5000));
    assert_true(last.extended);
    let_go(f, "t");
    assert_ok(f, ask(f, "u", false, 5000));
    assert_int_equal(tickets(f), 0);
}

static void test_shared_waiters_are_granted_together(void **state)
{
    struct fixture *f = *state;
    given_three(f);
    assert_ok(f, ask(f, "s", false, 0));
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "t", true, 5000));
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "u", true, 5000));
    let_go(f, "s");
    assert_ok(f, ask(f, "u", true, 5000));
    assert_false(last.extended);
    assert_ok(f, ask(f, "t", true, 5000));
    assert_false(last.extended);
}

static void test_a_ticket_is_good_until_the_end_of_its_wait(void **state)
{
    struct fixture *f = *state;
    struct dibs_due due = {0};
    given_three(f);
    assert_ok(f, ask(f, "s", false, 0));
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "t", false, 5000));
    world_pass(&f->world, 4000);
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "t", false, 5000)); /* does not begin anew */
    world_pass(&f->world, 1000);
    int64_t before = dibs__wakes(f->d).locks;
    assert_ok(f, dibs__tend(f->d, f->a, &due, &f->err));
    assert_int_equal(tickets(f), 0);
    assert_true(dibs__wakes(f->d).locks > before);
    let_go(f, "s");
    assert_int_equal(holds(f, "t"), 0);
}

static void test_whoever_gives_up_leaves_the_queue_and_those_behind_move_up(void **state)
{
    struct fixture *f = *state;
    given_three(f);
    assert_ok(f, ask(f, "s", true, 0));
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "t", false, 5000));
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "u", true, 5000)); /* behind an exclusive waiter */
    int64_t before = dibs__wakes(f->d).locks;
    give_up(f, "t");
    assert_int_equal(tickets(f), 0);
    assert_int_equal(holds(f, "u"), 1);
    assert_true(dibs__wakes(f->d).locks > before);
    assert_ok(f, ask(f, "u", true, 5000));
    let_go(f, "s");
    let_go(f, "u");
    assert_int_equal(holds(f, "t"), 0);
}

static void test_a_lock_handed_to_a_caller_who_has_gone_goes_to_the_next(void **state)
{
    struct fixture *f = *state;
    given_three(f);
    assert_ok(f, ask(f, "s", false, 0));
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "t", false, 5000));
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "u", false, 5000));
    let_go(f, "s");
    assert_int_equal(holds(f, "t"), 1); /* which nobody has told it */
    give_up(f, "t");
    assert_int_equal(holds(f, "t"), 0);
    assert_int_equal(holds(f, "u"), 1);
    assert_ok(f, ask(f, "u", false, 5000));
    assert_false(last.extended);
}

static void test_giving_up_does_not_take_a_lock_that_was_told_of(void **state)
{
    struct fixture *f = *state;
    given_three(f);
    assert_ok(f, ask(f, "s", false, 0));
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "t", false, 5000));
    let_go(f, "s");
    assert_ok(f, ask(f, "t", false, 5000));
    give_up(f, "t");
    assert_int_equal(holds(f, "t"), 1);
    give_up(f, "nobody");
    assert_event_count(f, "lock:released", 1);
}

static void test_a_lock_handed_over_by_another_process_is_told_too(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {0};
    given_three(f);
    assert_ok(f, ask(f, "s", false, 0));
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "t", false, 5000));
    dibs *other = fixture_open(f);
    struct dibs_lock_ref in = {.resource = "r", .session_id = "s"};
    assert_ok(f, dibs_lock_release(other, f->a, &in, &out, &f->err));
    dibs_close(other);
    assert_ok(f, ask(f, "t", false, 5000));
    assert_false(last.extended);
}

static void test_the_end_of_a_session_lets_those_behind_its_ticket_move_up(void **state)
{
    struct fixture *f = *state;
    struct dibs_deregistered gone = {0};
    given_three(f);
    assert_ok(f, ask(f, "s", true, 0));
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "t", false, 5000));
    assert_refused(f, DIBS_LOCK_HELD, ask(f, "u", true, 5000));
    assert_ok(f, dibs_session_deregister(f->d, f->a, "t", &gone, &f->err));
    assert_int_equal(holds(f, "u"), 1);
    assert_int_equal(tickets(f), 0);
}

/* A request with an idempotency key runs inside dibs_once. */
static dibs_status take_once(dibs *d, dibs_arena *a, void *context, const char **answer,
                             struct dibs_error *err)
{
    struct dibs_claim out = {0};
    *answer = "{}";
    return dibs_lock_take(d, a, context, &out, err);
}

static void test_a_request_with_a_key_leaves_its_ticket_too(void **state)
{
    struct fixture *f = *state;
    const char *answer = NULL;
    bool repeated = false;
    given_three(f);
    assert_ok(f, ask(f, "s", false, 0));
    struct dibs_lock_take in = {.resource = "r", .session_id = "t", .wait_ms = 5000};
    struct dibs_once once = {.key = "k", .request = "x", .work = take_once, .context = &in};
    for (int i = 0; i < 2; i++) {
        assert_ok(f, dibs_batch_begin(f->d, &f->err));
        dibs_status expected = i == 0 ? DIBS_LOCK_HELD : DIBS_OK;
        assert_int_equal(dibs_once(f->d, f->a, &once, &answer, &repeated, &f->err), expected);
        assert_ok(f, dibs_batch_commit(f->d, &f->err));
        assert_int_equal(tickets(f), i == 0 ? 1 : 0);
        if (i == 0)
            let_go(f, "s");
    }
    assert_int_equal(holds(f, "t"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_who_has_to_wait_leaves_a_ticket_and_is_told_who_holds_it),
        STORE_TEST(test_looking_again_writes_nothing_and_wakes_nobody),
        STORE_TEST(test_the_ticket_is_granted_in_its_turn_and_the_next_call_is_told),
        STORE_TEST(test_shared_waiters_are_granted_together),
        STORE_TEST(test_a_ticket_is_good_until_the_end_of_its_wait),
        STORE_TEST(test_whoever_gives_up_leaves_the_queue_and_those_behind_move_up),
        STORE_TEST(test_a_lock_handed_to_a_caller_who_has_gone_goes_to_the_next),
        STORE_TEST(test_giving_up_does_not_take_a_lock_that_was_told_of),
        STORE_TEST(test_a_lock_handed_over_by_another_process_is_told_too),
        STORE_TEST(test_the_end_of_a_session_lets_those_behind_its_ticket_move_up),
        STORE_TEST(test_a_request_with_a_key_leaves_its_ticket_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
