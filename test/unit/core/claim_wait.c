/* SPDX-License-Identifier: MIT */
/*
 * Tests of waiting in src/core/claim_next.c: a call with wait_ms gets what appears meanwhile, from
 * whatever side, and is told "nothing" only when the time is up and there is nothing.
 */
#include "core/core.h"
#include "core_help.h"

/* What somebody else does while the call waits. */
struct meanwhile {
    struct fixture *f;
    dibs *other;   /* a handle of another process */
    int64_t at_ms; /* after so long a wait */
    void (*act)(struct meanwhile *m);
    int64_t heartbeat, heartbeats; /* of the waiting session, as others see it */
};

static void on_sleep(struct world *world, void *context)
{
    struct meanwhile *m = context;
    if (m->act && world->slept_ms >= m->at_ms) {
        void (*act)(struct meanwhile *) = m->act;
        m->act = NULL;
        act(m);
    }
}

static struct meanwhile begin(struct fixture *f, int64_t at_ms, void (*act)(struct meanwhile *m))
{
    make_session(f, "s");
    return (struct meanwhile){.f = f, .other = fixture_open(f), .at_ms = at_ms, .act = act};
}

/* Claims with a wait while m goes on; returns the task's id, "" for nothing. */
static const char *wait_for_task(struct fixture *f, struct meanwhile *m, struct dibs_claim_next in)
{
    struct dibs_grant out = {0};
    f->world.slept_ms = 0;
    f->world.on_sleep = on_sleep;
    f->world.on_sleep_context = m;
    in.session_id = "s";
    dibs_status status = dibs_claim_next(f->d, f->a, &in, &out, &f->err);
    f->world.on_sleep = NULL;
    if (status == DIBS_NOTHING_TO_CLAIM)
        return "";
    assert_ok(f, status);
    return out.items[0].task.id;
}

static void add_task(struct meanwhile *m)
{
    struct dibs_task_list out = {0};
    struct dibs_task_new in = {.id = "new", .title = "new", .type = "work"};
    assert_ok(m->f, dibs_task_create(m->other, m->f->a, &in, 1, &out, &m->f->err));
}

static void release_task(struct meanwhile *m)
{
    struct dibs_released out = {0};
    struct dibs_release in = {.task_id = "t", .session_id = "r"};
    assert_ok(m->f, dibs_claim_release(m->other, m->f->a, &in, &out, &m->f->err));
}

static void end_session(struct meanwhile *m)
{
    struct dibs_deregistered out = {0};
    assert_ok(m->f, dibs_session_deregister(m->other, m->f->a, "s", &out, &m->f->err));
}

/* ---- what appears ---------------------------------------------------------------------------- */

static void test_a_task_that_another_process_adds_is_claimed_on_arrival(void **state)
{
    struct fixture *f = *state;
    struct meanwhile m = begin(f, 100, add_task);
    struct dibs_claim_next in = {.wait_ms = SECONDS(60)};
    assert_string_equal(wait_for_task(f, &m, in), "new");
    assert_int_equal(f->world.slept_ms, 100);
    assert_string_equal(get_task(f, "new").claim->session_id, "s");
    assert_int_equal(get_task(f, "new").claim->claimed_at_ms, now_ms(f));
    dibs_close(m.other);
}

static void test_a_task_that_another_session_gives_back_is_claimed_on_arrival(void **state)
{
    struct fixture *f = *state;
    struct meanwhile m = begin(f, 240, release_task);
    make_session(f, "r");
    make_task(f, "t");
    claim(f, "t", "r");
    assert_string_equal(wait_for_task(f, &m, (struct dibs_claim_next){.wait_ms = SECONDS(60)}),
                        "t");
    assert_int_equal(f->world.slept_ms, 240);
    dibs_close(m.other);
}

static void test_a_task_that_does_not_match_ends_no_wait(void **state)
{
    struct fixture *f = *state;
    struct meanwhile m = begin(f, 100, add_task);
    struct dibs_claim_next in = {.wait_ms = 900, .types = DIBS_STRINGS("other")};
    assert_string_equal(wait_for_task(f, &m, in), "");
    assert_int_equal(f->world.slept_ms, 900);
    assert_status(f, "new", "open");
    dibs_close(m.other);
}

static void test_what_is_there_already_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    struct meanwhile m = begin(f, 0, NULL);
    make_task(f, "t");
    assert_string_equal(wait_for_task(f, &m, (struct dibs_claim_next){.wait_ms = SECONDS(60)}),
                        "t");
    assert_int_equal(f->world.slept_ms, 0);
    dibs_close(m.other);
}

static void test_a_task_whose_time_comes_during_the_wait_is_claimed(void **state)
{
    struct fixture *f = *state;
    struct meanwhile m = begin(f, 0, NULL);
    static const struct {
        int64_t due, wait;
    } cases[] = {{100, 300}, {300, 300}, {700, 10000}, {1, 1}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *id = arena_printf(f->a, "t%zu", i);
        make_task_as(f, (struct dibs_task_new){.id = id, .run_after_ms = now_ms(f) + cases[i].due});
        struct dibs_claim_next in = {.wait_ms = cases[i].wait};
        assert_string_equal(wait_for_task(f, &m, in), id);
        assert_true(f->world.slept_ms >= cases[i].due);
        assert_true(f->world.slept_ms <= cases[i].due + 500);
    }
    dibs_close(m.other);
}

static void test_a_lease_that_ends_during_the_wait_is_claimed(void **state)
{
    struct fixture *f = *state;
    struct meanwhile m = begin(f, 0, NULL);
    make_session(f, "r");
    make_task(f, "t");
    claim(f, "t", "r");
    world_pass(&f->world, MINUTES(30) - 150);
    assert_string_equal(wait_for_task(f, &m, (struct dibs_claim_next){.wait_ms = 149}), "");
    assert_string_equal(wait_for_task(f, &m, (struct dibs_claim_next){.wait_ms = 1}), "t");
    dibs_close(m.other);
}

static void test_a_last_attempt_that_ends_during_the_wait_is_over(void **state)
{
    struct fixture *f = *state;
    struct meanwhile m = begin(f, 0, NULL);
    make_session(f, "r");
    make_task_as(f, (struct dibs_task_new){.id = "t", .max_attempts = DIBS_VALUE(1)});
    claim(f, "t", "r");
    world_pass(&f->world, MINUTES(30) - 50);
    assert_string_equal(wait_for_task(f, &m, (struct dibs_claim_next){.wait_ms = 100}), "");
    assert_status(f, "t", "failed");
    assert_event_count(f, "task:claim-expired", 1);
    dibs_close(m.other);
}

/* ---- the end of the wait --------------------------------------------------------------------- */

static void test_nothing_is_answered_when_exactly_the_wait_is_over(void **state)
{
    struct fixture *f = *state;
    struct meanwhile m = begin(f, 0, NULL);
    static const int64_t waits[] = {1, 19, 20, 21, 499, 500, 501, 1234};
    for (size_t i = 0; i < COUNT_OF(waits); i++) {
        int64_t before = now_ms(f);
        struct dibs_claim_next in = {.wait_ms = waits[i]};
        assert_string_equal(wait_for_task(f, &m, in), "");
        assert_int_equal(f->err.code, DIBS_NOTHING_TO_CLAIM);
        assert_int_equal(f->world.slept_ms, waits[i]);
        assert_int_equal(now_ms(f), before + waits[i]);
    }
    assert_string_equal(wait_for_task(f, &m, (struct dibs_claim_next){0}), "");
    assert_int_equal(f->world.slept_ms, 0);
    dibs_close(m.other);
}

static void test_a_session_that_ends_while_it_waits_gets_nothing(void **state)
{
    struct fixture *f = *state;
    struct dibs_grant out = {0};
    struct meanwhile m = begin(f, 60, end_session);
    f->world.on_sleep = on_sleep;
    f->world.on_sleep_context = &m;
    struct dibs_claim_next in = {.session_id = "s", .wait_ms = SECONDS(60)};
    assert_refused(f, DIBS_SESSION_NOT_FOUND, dibs_claim_next(f->d, f->a, &in, &out, &f->err));
    f->world.on_sleep = NULL;
    assert_int_equal(f->world.slept_ms, 60);
    dibs_close(m.other);
}

static void test_nobody_waits_inside_a_batch(void **state)
{
    struct fixture *f = *state;
    struct dibs_grant out = {0};
    make_session(f, "s");
    struct dibs_claim_next in = {.session_id = "s", .wait_ms = SECONDS(60)};
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    assert_refused(f, DIBS_NOTHING_TO_CLAIM, dibs_claim_next(f->d, f->a, &in, &out, &f->err));
    make_task(f, "t");
    assert_ok(f, dibs_claim_next(f->d, f->a, &in, &out, &f->err));
    assert_ok(f, dibs_batch_commit(f->d, &f->err));
    assert_int_equal(f->world.slept_ms, 0);
    assert_string_equal(get_task(f, "t").claim->session_id, "s");
}

/* ---- the session that waits ------------------------------------------------------------------ */

static void count_heartbeats(struct world *world, void *context)
{
    struct meanwhile *m = context;
    struct dibs_session s = {0};
    if (world->slept_ms % 100 != 0)
        return;
    assert_ok(m->f, dibs_session_get(m->other, m->f->a, "s", &s, &m->f->err));
    m->heartbeats += m->heartbeat != 0 && s.heartbeat_at_ms != m->heartbeat;
    m->heartbeat = s.heartbeat_at_ms;
}

/* Every write wakes all others that wait, whose writes would wake this one. */
static void test_waiting_writes_nothing_while_nothing_happens(void **state)
{
    struct fixture *f = *state;
    struct dibs_grant out = {0};
    struct meanwhile m = begin(f, 0, NULL);
    f->world.on_sleep = count_heartbeats;
    f->world.on_sleep_context = &m;
    struct dibs_claim_next in = {.session_id = "s", .wait_ms = SECONDS(30)};
    assert_refused(f, DIBS_NOTHING_TO_CLAIM, dibs_claim_next(f->d, f->a, &in, &out, &f->err));
    f->world.on_sleep = NULL;
    assert_int_equal(m.heartbeats, 0);
    dibs_close(m.other);
}

static void test_a_session_is_alive_while_it_waits(void **state)
{
    struct fixture *f = *state;
    struct meanwhile m = begin(f, 0, NULL);
    struct dibs_claim_next in = {.wait_ms = WAIT_MS_MAX};
    assert_string_equal(wait_for_task(f, &m, in), "");
    assert_int_equal(f->world.slept_ms, WAIT_MS_MAX);
    struct dibs_session s = get_session(f, "s");
    assert_true(now_ms(f) - s.heartbeat_at_ms <= MINUTES(1) + SECONDS(1));
    assert_int_equal(s.status, DIBS_SESSION_ACTIVE);
    dibs_close(m.other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_task_that_another_process_adds_is_claimed_on_arrival),
        STORE_TEST(test_a_task_that_another_session_gives_back_is_claimed_on_arrival),
        STORE_TEST(test_a_task_that_does_not_match_ends_no_wait),
        STORE_TEST(test_what_is_there_already_is_not_waited_for),
        STORE_TEST(test_a_task_whose_time_comes_during_the_wait_is_claimed),
        STORE_TEST(test_a_lease_that_ends_during_the_wait_is_claimed),
        STORE_TEST(test_a_last_attempt_that_ends_during_the_wait_is_over),
        STORE_TEST(test_nothing_is_answered_when_exactly_the_wait_is_over),
        STORE_TEST(test_a_session_that_ends_while_it_waits_gets_nothing),
        STORE_TEST(test_nobody_waits_inside_a_batch),
        STORE_TEST(test_waiting_writes_nothing_while_nothing_happens),
        STORE_TEST(test_a_session_is_alive_while_it_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
