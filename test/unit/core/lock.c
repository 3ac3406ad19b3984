/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/lock.c: who may hold a named lock together with whom, for how long, and how it
 * is let go. Waiting for one: lock_wait.c.
 */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dibs_status try_take(struct fixture *f, struct dibs_lock_take in, struct dibs_claim *out)
{
    return dibs_lock_take(f->d, f->a, &in, out, &f->err);
}

static struct dibs_claim take(struct fixture *f, struct dibs_lock_take in)
{
    struct dibs_claim out = {0};
    assert_ok(f, try_take(f, in, &out));
    return out;
}

static void assert_held(struct fixture *f, struct dibs_lock_take in)
{
    struct dibs_claim out = {.token = 77};
    assert_refused(f, DIBS_LOCK_HELD, try_take(f, in, &out));
    assert_int_equal(out.token, 77);
}

static void assert_bad(struct fixture *f, struct dibs_lock_take in, const char *field)
{
    struct dibs_claim out = {0};
    assert_refused(f, DIBS_INVALID_REQUEST, try_take(f, in, &out));
    assert_string_equal(f->err.field, field);
}

static struct dibs_claim_list list(struct fixture *f, struct dibs_lock_filter in)
{
    struct dibs_claim_list out = {0};
    assert_ok(f, dibs_lock_list(f->d, f->a, &in, &out, &f->err));
    return out;
}

static void given_sessions(struct fixture *f)
{
    make_session(f, "s");
    make_session(f, "t");
    make_session(f, "u");
}

/* ---- taking ---------------------------------------------------------------------------------- */

static void test_a_free_lock_is_granted_and_described(void **state)
{
    struct fixture *f = *state;
    given_sessions(f);
    struct dibs_claim c =
        take(f, (struct dibs_lock_take){.resource = "src/ main.c ü", .session_id = "s"});
    assert_string_equal(c.resource, "src/ main.c ü");
    assert_null(c.task_id);
    assert_string_equal(c.session_id, "s");
    assert_false(c.shared);
    assert_false(c.extended);
    assert_int_equal(c.ttl_ms, MINUTES(1)); /* lockTTL */
    assert_int_equal(c.remaining_ms, MINUTES(1));
    assert_int_equal(c.claimed_at_ms, f->world.wall_ms);
    struct dibs_event_list events = events_of(f, "lock:taken");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "resource"), "src/ main.c ü");
    assert_string_equal(event_field(f, &events.items[0], "mode"), "exclusive");
    assert_string_equal(event_field(f, &events.items[0], "sessionId"), "s");
}

static void test_an_exclusive_lock_is_refused_to_everyone_else_with_its_holder(void **state)
{
    struct fixture *f = *state;
    given_sessions(f);
    take(f, (struct dibs_lock_take){.resource = "r", .session_id = "s"});
    int64_t since = f->world.wall_ms;
    world_pass(&f->world, SECONDS(10));
    for (int shared = 0; shared < 2; shared++) {
        assert_held(f,
                    (struct dibs_lock_take){.resource = "r", .session_id = "t", .shared = shared});
        assert_string_equal(f->err.holder, "s");
        assert_int_equal(f->err.holder_since_ms, since);
        assert_int_equal(f->err.remaining_ms, SECONDS(50));
        assert_string_equal(f->err.message, "lock 'r' is held by session 's' for another 50s");
    }
    take(f, (struct dibs_lock_take){.resource = "another", .session_id = "t"});
}

static void test_shared_holders_are_together_and_keep_an_exclusive_one_out(void **state)
{
    struct fixture *f = *state;
    given_sessions(f);
    struct dibs_claim one =
        take(f, (struct dibs_lock_take){.resource = "r", .session_id = "s", .shared = true});
    struct dibs_claim two =
        take(f, (struct dibs_lock_take){.resource = "r", .session_id = "t", .shared = true});
    assert_true(one.shared && two.shared);
    assert_true(two.token > one.token);
    assert_held(f, (struct dibs_lock_take){.resource = "r", .session_id = "u"});
    struct dibs_lock_ref ref = {.resource = "r", .session_id = "s"};
    struct dibs_claim out = {0};
    assert_ok(f, dibs_lock_release(f->d, f->a, &ref, &out, &f->err));
    assert_held(f, (struct dibs_lock_take){.resource = "r", .session_id = "u"});
    assert_string_equal(f->err.holder, "t");
    ref.session_id = "t";
    assert_ok(f, dibs_lock_release(f->d, f->a, &ref, &out, &f->err));
    take(f, (struct dibs_lock_take){.resource = "r", .session_id = "u"});
}

static void test_taking_again_in_the_same_mode_extends_and_never_shortens(void **state)
{
    struct fixture *f = *state;
    given_sessions(f);
    for (int shared = 0; shared < 2; shared++) {
        struct dibs_lock_take in = {
            .resource = shared ? "a" : "b", .session_id = "s", .shared = shared};
        struct dibs_claim first = take(f, in);
        world_pass(&f->world, SECONDS(20));
        struct dibs_claim again = take(f, in);
        assert_true(again.extended);
        assert_int_equal(again.token, first.token);
        assert_int_equal(again.expires_at_ms, first.expires_at_ms + SECONDS(20));
        in.ttl_ms = SECONDS(5);
        assert_int_equal(take(f, in).expires_at_ms, again.expires_at_ms);
    }
    assert_int_equal(events_of(f, "lock:taken").count, 2);
}

static void test_the_mode_cannot_change_while_the_lock_is_held(void **state)
{
    struct fixture *f = *state;
    given_sessions(f);
    take(f, (struct dibs_lock_take){.resource = "r", .session_id = "s", .shared = true});
    assert_bad(f, (struct dibs_lock_take){.resource = "r", .session_id = "s"}, "mode");
    take(f, (struct dibs_lock_take){.resource = "q", .session_id = "s"});
    assert_bad(f, (struct dibs_lock_take){.resource = "q", .session_id = "s", .shared = true},
               "mode");
    assert_int_equal(list(f, (struct dibs_lock_filter){0}).count, 2);
}

static void test_bad_requests_are_refused_by_field(void **state)
{
    struct fixture *f = *state;
    char name[1026];
    given_sessions(f);
    memset(name, 'n', 1025);
    name[1025] = '\0';
    assert_bad(f, (struct dibs_lock_take){.session_id = "s"}, "resource");
    assert_bad(f, (struct dibs_lock_take){.resource = "", .session_id = "s"}, "resource");
    assert_bad(f, (struct dibs_lock_take){.resource = name, .session_id = "s"}, "resource");
    assert_bad(f, (struct dibs_lock_take){.resource = "\xff", .session_id = "s"}, "resource");
    assert_bad(f, (struct dibs_lock_take){.resource = "r"}, "sessionId");
    assert_bad(f, (struct dibs_lock_take){.resource = "r", .session_id = "s", .ttl_ms = 999},
               "ttlMs");
    assert_bad(f, (struct dibs_lock_take){.resource = "r", .session_id = "s", .ttl_ms = -1},
               "ttlMs");
    assert_bad(
        f, (struct dibs_lock_take){.resource = "r", .session_id = "s", .ttl_ms = MINUTES(120) + 1},
        "ttlMs");
    assert_bad(f, (struct dibs_lock_take){.resource = "r", .session_id = "s", .wait_ms = -1},
               "waitMs");
    assert_bad(
        f, (struct dibs_lock_take){.resource = "r", .session_id = "s", .wait_ms = MINUTES(10) + 1},
        "waitMs");
    struct dibs_claim out = {0};
    assert_refused(
        f, DIBS_SESSION_NOT_FOUND,
        try_take(f, (struct dibs_lock_take){.resource = "r", .session_id = "ghost"}, &out));
    assert_int_equal(list(f, (struct dibs_lock_filter){0}).count, 0);
    name[1024] = '\0'; /* the longest name, the shortest and the longest lease */
    take(f, (struct dibs_lock_take){.resource = name, .session_id = "s", .ttl_ms = 1000});
    take(f, (struct dibs_lock_take){.resource = "r", .session_id = "s", .ttl_ms = MINUTES(120)});
}

static void test_tokens_of_locks_and_tasks_grow_together(void **state)
{
    struct fixture *f = *state;
    given_sessions(f);
    make_task(f, "a");
    struct dibs_claim first = take(f, (struct dibs_lock_take){.resource = "r", .session_id = "s"});
    struct dibs_claim second = claim(f, "a", "s");
    struct dibs_claim third = take(f, (struct dibs_lock_take){.resource = "q", .session_id = "s"});
    assert_true(first.token < second.token && second.token < third.token);
}

/* ---- deadlines and renewals ------------------------------------------------------------------ */

static void test_a_lock_is_free_from_its_deadline_on(void **state)
{
    struct fixture *f = *state;
    given_sessions(f);
    struct dibs_claim old =
        take(f, (struct dibs_lock_take){.resource = "r", .session_id = "s", .ttl_ms = SECONDS(5)});
    world_pass(&f->world, SECONDS(5) - 1);
    assert_held(f, (struct dibs_lock_take){.resource = "r", .session_id = "t"});
    world_pass(&f->world, 1);
    struct dibs_claim now = take(f, (struct dibs_lock_take){.resource = "r", .session_id = "t"});
    assert_true(now.token > old.token);
    struct dibs_event_list events = events_of(f, "lock:expired");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "sessionId"), "s");
    assert_string_equal(event_field(f, &events.items[0], "heldForMs"), "5000");
}

static void test_a_heartbeat_renews_the_lock_and_the_session(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {0};
    given_sessions(f);
    struct dibs_claim c = take(f, (struct dibs_lock_take){.resource = "r", .session_id = "s"});
    struct dibs_lock_ref ref = {.resource = "r", .session_id = "s", .token = c.token};
    world_pass(&f->world, SECONDS(59));
    assert_ok(f, dibs_lock_heartbeat(f->d, f->a, &ref, &out, &f->err));
    assert_int_equal(out.expires_at_ms, f->world.wall_ms + MINUTES(1));
    assert_int_equal(out.heartbeat_count, 1);
    assert_int_equal(get_session(f, "s").heartbeat_at_ms, f->world.wall_ms);
    ref.extend_ms = MINUTES(30);
    assert_ok(f, dibs_lock_heartbeat(f->d, f->a, &ref, &out, &f->err));
    assert_int_equal(out.remaining_ms, MINUTES(30));
    ref.extend_ms = 999;
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_lock_heartbeat(f->d, f->a, &ref, &out, &f->err));
    assert_string_equal(f->err.field, "extendMs");
}

static void test_a_heartbeat_after_the_deadline_is_refused(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {0};
    given_sessions(f);
    take(f, (struct dibs_lock_take){.resource = "r", .session_id = "s"});
    struct dibs_lock_ref ref = {.resource = "r", .session_id = "s"};
    world_pass(&f->world, MINUTES(1));
    assert_refused(f, DIBS_LOCK_NOT_HELD, dibs_lock_heartbeat(f->d, f->a, &ref, &out, &f->err));
    assert_string_equal(f->err.message, "session 's' does not hold lock 'r'");
    assert_int_equal(events_of(f, "lock:expired").count, 1); /* found on the way, and told */
}

static void test_a_wrong_token_is_refused_and_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {0};
    given_sessions(f);
    struct dibs_claim old = take(f, (struct dibs_lock_take){.resource = "r", .session_id = "s"});
    world_pass(&f->world, MINUTES(1));
    struct dibs_claim now = take(f, (struct dibs_lock_take){.resource = "r", .session_id = "s"});
    assert_true(now.token > old.token);
    struct dibs_lock_ref stale = {.resource = "r", .session_id = "s", .token = old.token};
    assert_refused(f, DIBS_STALE_TOKEN, dibs_lock_heartbeat(f->d, f->a, &stale, &out, &f->err));
    assert_refused(f, DIBS_STALE_TOKEN, dibs_lock_release(f->d, f->a, &stale, &out, &f->err));
    struct dibs_claim_list held = list(f, (struct dibs_lock_filter){0});
    assert_int_equal(held.count, 1);
    assert_int_equal(held.items[0].token, now.token);
    assert_int_equal(held.items[0].heartbeat_count, 0);
}

/* ---- letting go ------------------------------------------------------------------------------ */

static void test_a_released_lock_is_free_and_only_its_holder_can_release_it(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {0};
    given_sessions(f);
    take(f, (struct dibs_lock_take){.resource = "r", .session_id = "s"});
    struct dibs_lock_ref other = {.resource = "r", .session_id = "t"};
    assert_refused(f, DIBS_LOCK_NOT_HELD, dibs_lock_release(f->d, f->a, &other, &out, &f->err));
    struct dibs_lock_ref mine = {.resource = "r", .session_id = "s"};
    world_pass(&f->world, 1500);
    assert_ok(f, dibs_lock_release(f->d, f->a, &mine, &out, &f->err));
    assert_int_equal(out.held_ms, 1500);
    assert_string_equal(out.end_reason, "released");
    assert_refused(f, DIBS_LOCK_NOT_HELD, dibs_lock_release(f->d, f->a, &mine, &out, &f->err));
    struct dibs_event_list events = events_of(f, "lock:released");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "reason"), "released");
    assert_string_equal(event_field(f, &events.items[0], "heldForMs"), "1500");
    take(f, (struct dibs_lock_take){.resource = "r", .session_id = "t"});
    struct dibs_lock_ref bad = {.session_id = "s"};
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_lock_release(f->d, f->a, &bad, &out, &f->err));
    assert_string_equal(f->err.field, "resource");
}

static void test_the_lock_sweep_ends_what_is_past_and_names_it(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    given_sessions(f);
    take(f, (struct dibs_lock_take){.resource = "long", .session_id = "s", .ttl_ms = MINUTES(5)});
    struct dibs_claim c = take(f, (struct dibs_lock_take){.resource = "short", .session_id = "t"});
    plant(f, "INSERT INTO lock_wait VALUES (1, 'long', 'u', 0, 60000, 0, 5)"); /* long past */
    world_pass(&f->world, MINUTES(1));
    assert_ok(f, dibs_cleanup_locks(f->d, f->a, &cleaned, &f->err));
    assert_int_equal(cleaned.count, 1);
    assert_null(cleaned.claims[0].task_id);
    assert_string_equal(cleaned.claims[0].resource, "short");
    assert_string_equal(cleaned.claims[0].session_id, "t");
    assert_int_equal(cleaned.claims[0].token, c.token);
    assert_string_equal(cleaned.claims[0].reason, "expired");
    assert_int_equal(cleaned.claims[0].held_ms, MINUTES(1));
    assert_int_equal(probe_int(f, "SELECT count(*) FROM lock_wait"), 0);
}

static void test_the_list_shows_live_locks_by_name_and_filters(void **state)
{
    struct fixture *f = *state;
    given_sessions(f);
    take(f, (struct dibs_lock_take){.resource = "b", .session_id = "s", .shared = true});
    take(f, (struct dibs_lock_take){.resource = "b", .session_id = "t", .shared = true});
    take(f, (struct dibs_lock_take){.resource = "a", .session_id = "s"});
    take(f, (struct dibs_lock_take){.resource = "c", .session_id = "u", .ttl_ms = SECONDS(1)});
    world_pass(&f->world, SECONDS(1)); /* c is past its deadline, though nobody has ended it */
    struct dibs_claim_list all = list(f, (struct dibs_lock_filter){0});
    assert_int_equal(all.count, 3);
    assert_string_equal(all.items[0].resource, "a");
    assert_string_equal(all.items[1].session_id, "s");
    assert_string_equal(all.items[2].session_id, "t");
    assert_int_equal(list(f, (struct dibs_lock_filter){.resource = "b"}).count, 2);
    assert_int_equal(list(f, (struct dibs_lock_filter){.session_id = "s"}).count, 2);
    struct dibs_lock_filter both = {.resource = "b", .session_id = "s"};
    assert_int_equal(list(f, both).count, 1);
    assert_int_equal(list(f, (struct dibs_lock_filter){.resource = "none"}).count, 0);
}

/* ---- a failing store ------------------------------------------------------------------------- */

static dibs_status op_take(struct fixture *f)
{
    struct dibs_claim out = {0};
    return try_take(f, (struct dibs_lock_take){.resource = "r", .session_id = "t"}, &out);
}
static dibs_status op_heartbeat(struct fixture *f)
{
    struct dibs_claim out = {0};
    struct dibs_lock_ref ref = {.resource = "r", .session_id = "t"};
    return dibs_lock_heartbeat(f->d, f->a, &ref, &out, &f->err);
}
static dibs_status op_release(struct fixture *f)
{
    struct dibs_claim out = {0};
    struct dibs_lock_ref ref = {.resource = "r", .session_id = "t"};
    return dibs_lock_release(f->d, f->a, &ref, &out, &f->err);
}

static void test_a_failing_store_neither_grants_nor_frees(void **state)
{
    struct fixture *f = *state;
    given_sessions(f);
    take(f, (struct dibs_lock_take){.resource = "r", .session_id = "s"});
    world_pass(&f->world, MINUTES(1)); /* the taking ends the old lease too */
    assert_true(probe_fail_each(f, op_take) > 8);
    assert_true(probe_fail_each(f, op_heartbeat) > 4);
    plant(f, "INSERT INTO lock_wait VALUES (1, 'r', 'u', 0, 60000, 0, 9e18)");
    assert_true(probe_fail_each(f, op_release) > 8); /* and hands over */
    assert_string_equal(list(f, (struct dibs_lock_filter){0}).items[0].session_id, "u");
}

static void test_a_lock_whose_holder_is_dead_goes_to_the_next_who_asks(void **state)
{
    struct fixture *f = *state;
    struct dibs_session out = {0};
    world_start_process(&f->world, 4711);
    struct dibs_session_new who = {.id = "dying", .pid = 4711};
    assert_ok(f, dibs_session_register(f->d, f->a, &who, &out, &f->err));
    make_session(f, "next");
    take(f, (struct dibs_lock_take){.resource = "r", .session_id = "dying"});
    assert_held(f, (struct dibs_lock_take){.resource = "r", .session_id = "next"});
    world_kill_process(&f->world, 4711);
    /* whoever asks is alive, whatever process it once named */
    assert_true(take(f, (struct dibs_lock_take){.resource = "r", .session_id = "dying"}).extended);
    take(f, (struct dibs_lock_take){.resource = "r", .session_id = "next"});
    struct dibs_event_list told = events_of(f, "lock:released");
    assert_int_equal(told.count, 1);
    assert_string_equal(event_field(f, &told.items[0], "reason"), "process_dead");
}

static void test_the_end_of_a_session_does_not_let_go_of_what_had_run_out(void **state)
{
    struct fixture *f = *state;
    struct dibs_deregistered gone = {0};
    given_sessions(f);
    take(f, (struct dibs_lock_take){.resource = "past", .session_id = "s"});
    take(f, (struct dibs_lock_take){.resource = "live", .session_id = "s", .ttl_ms = MINUTES(5)});
    world_pass(&f->world, MINUTES(2));
    assert_ok(f, dibs_session_deregister(f->d, f->a, "s", &gone, &f->err));
    assert_int_equal(gone.locks_released, 1);
    struct dibs_event_list expired = events_of(f, "lock:expired");
    struct dibs_event_list released = events_of(f, "lock:released");
    assert_int_equal(expired.count, 1);
    assert_int_equal(released.count, 1);
    assert_string_equal(event_field(f, &expired.items[0], "resource"), "past");
    assert_string_equal(event_field(f, &expired.items[0], "reason"), "expired");
    assert_string_equal(event_field(f, &released.items[0], "resource"), "live");
    assert_int_equal(probe_int(f, "SELECT count(*) FROM claim WHERE end_reason = 'expired'"), 1);
    make_session(f, "s");
    struct dibs_session_news news = {0};
    assert_ok(f, dibs_session_heartbeat(f->d, f->a, "s", &news, &f->err));
    assert_int_equal(news.lost.count, 1); /* it did not let go of that one by itself */
    assert_string_equal(news.lost.items[0].resource, "past");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_free_lock_is_granted_and_described),
        STORE_TEST(test_an_exclusive_lock_is_refused_to_everyone_else_with_its_holder),
        STORE_TEST(test_shared_holders_are_together_and_keep_an_exclusive_one_out),
        STORE_TEST(test_taking_again_in_the_same_mode_extends_and_never_shortens),
        STORE_TEST(test_the_mode_cannot_change_while_the_lock_is_held),
        STORE_TEST(test_bad_requests_are_refused_by_field),
        STORE_TEST(test_tokens_of_locks_and_tasks_grow_together),
        STORE_TEST(test_a_lock_is_free_from_its_deadline_on),
        STORE_TEST(test_a_heartbeat_renews_the_lock_and_the_session),
        STORE_TEST(test_a_heartbeat_after_the_deadline_is_refused),
        STORE_TEST(test_a_wrong_token_is_refused_and_changes_nothing),
        STORE_TEST(test_a_released_lock_is_free_and_only_its_holder_can_release_it),
        STORE_TEST(test_the_lock_sweep_ends_what_is_past_and_names_it),
        STORE_TEST(test_the_list_shows_live_locks_by_name_and_filters),
        STORE_TEST(test_a_failing_store_neither_grants_nor_frees),
        STORE_TEST(test_a_lock_whose_holder_is_dead_goes_to_the_next_who_asks),
        STORE_TEST(test_the_end_of_a_session_does_not_let_go_of_what_had_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
