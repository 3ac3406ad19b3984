/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/claim.c: calling dibs on a named task, keeping it with heartbeats, and what the
 * others are told meanwhile.
 */
#include "core/core.h"
#include "core_help.h"

static struct dibs_claim take(struct fixture *f, struct dibs_claim_take in)
{
    struct dibs_claim out = {0};
    assert_ok(f, dibs_claim_take(f->d, f->a, &in, &out, &f->err));
    return out;
}

static struct dibs_claim heartbeat(struct fixture *f, const char *task, const char *session,
                                   int64_t extend_ms)
{
    struct dibs_claim out = {0};
    struct dibs_heartbeat in = {.task_id = task, .session_id = session, .extend_ms = extend_ms};
    assert_ok(f, dibs_claim_heartbeat(f->d, f->a, &in, &out, &f->err));
    return out;
}

static dibs_status progress(struct fixture *f, struct dibs_progress in, struct dibs_claim *out)
{
    return dibs_claim_progress(f->d, f->a, &in, out, &f->err);
}

static void make_pair(struct fixture *f)
{
    make_session(f, "s");
    make_session(f, "r");
    make_task(f, "t");
}

/* ---- taking ---------------------------------------------------------------------------------- */

static void test_a_claim_is_a_lease_with_a_holder_a_deadline_and_a_token(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    struct dibs_claim c = take(f, (struct dibs_claim_take){.task_id = "t",
                                                           .session_id = "s",
                                                           .ttl_ms = MINUTES(10),
                                                           .agent_type = "autonomous",
                                                           .metadata = "{\"why\": \"test\"}"});
    assert_true(c.token > 0);
    assert_string_equal(c.task_id, "t");
    assert_null(c.resource);
    assert_string_equal(c.session_id, "s");
    assert_string_equal(c.agent_type, "autonomous");
    assert_string_equal(c.metadata, "{\"why\": \"test\"}");
    assert_int_equal(c.incarnation, 1);
    assert_int_equal(c.claimed_at_ms, now_ms(f));
    assert_int_equal(c.expires_at_ms, now_ms(f) + MINUTES(10));
    assert_int_equal(c.heartbeat_at_ms, c.claimed_at_ms);
    assert_int_equal(c.heartbeat_count + c.held_ms + c.ended_at_ms, 0);
    assert_int_equal(c.ttl_ms, MINUTES(10));
    assert_int_equal(c.remaining_ms, MINUTES(10));
    assert_int_equal(c.attempt, 1);
    assert_int_equal(c.generation, 1);
    assert_int_equal(c.progress_percent, -1);
    assert_false(c.extended);
    struct dibs_task t = get_task(f, "t");
    assert_int_equal(t.status, DIBS_TASK_IN_PROGRESS);
    assert_int_equal(t.attempts, 1);
    struct dibs_event_list told = events_of(f, "task:claimed");
    assert_int_equal(told.count, 1);
    assert_string_equal(told.items[0].session_id, "s");
    assert_int_equal(event_int(f, &told.items[0], "token"), c.token);
}

static void test_the_default_lease_is_30_minutes_and_the_agent_type_that_of_the_session(
    void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    struct dibs_claim c = claim(f, "t", "s");
    assert_int_equal(c.ttl_ms, MINUTES(30));
    assert_string_equal(c.agent_type, "cli");
}

static void test_second_claimer_is_told_who_holds_it_since_when_and_for_how_long(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t since = claim(f, "t", "s").claimed_at_ms;
    world_pass(&f->world, MINUTES(10));
    const char *before = rows_of(f);
    assert_refused(f, DIBS_TASK_ALREADY_CLAIMED, try_claim(f, "t", "r", 0));
    assert_string_equal(f->err.holder, "s");
    assert_int_equal(f->err.holder_since_ms, since);
    assert_int_equal(f->err.remaining_ms, MINUTES(20));
    assert_string_equal(f->err.message, "task 't' is held by session 's' for another 20m");
    assert_string_equal(rows_of(f), before);
}

static void test_a_refused_claim_is_on_record(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    make_agent_session(f, "amy-1", "amy");
    claim(f, "t", "s");
    world_pass(&f->world, SECONDS(1));
    assert_refused(f, DIBS_TASK_ALREADY_CLAIMED, try_claim(f, "t", "amy-1", 0));
    struct dibs_event_list told = events_of(f, "task:claim-refused");
    assert_int_equal(told.count, 1);
    assert_string_equal(told.items[0].task_id, "t");
    assert_string_equal(told.items[0].session_id, "amy-1");
    assert_string_equal(event_field(f, &told.items[0], "holder"), "s");
    assert_string_equal(event_field(f, &told.items[0], "agentId"), "amy");
    assert_int_equal(event_int(f, &told.items[0], "remainingMs"), MINUTES(30) - SECONDS(1));
    /* whoever asks is alive */
    assert_int_equal(get_session(f, "amy-1").heartbeat_at_ms, now_ms(f));
}

static void test_a_claim_is_refused_for_these_reasons(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    assert_refused(f, DIBS_TASK_NOT_FOUND, try_claim(f, "x", "s", 0));
    assert_refused(f, DIBS_SESSION_NOT_FOUND, try_claim(f, "t", "x", 0));
    assert_string_equal(f->err.message, "there is no session 'x'; register it first");
    assert_refused(f, DIBS_INVALID_REQUEST, try_claim(f, NULL, "s", 0));
    assert_refused(f, DIBS_INVALID_REQUEST, try_claim(f, "t", NULL, 0));
    assert_string_equal(f->err.field, "sessionId");
    struct dibs_deregistered gone = {0};
    assert_ok(f, dibs_session_deregister(f->d, f->a, "r", &gone, &f->err));
    assert_refused(f, DIBS_SESSION_NOT_FOUND, try_claim(f, "t", "r", 0));
    assert_status(f, "t", "open");
}

static void test_a_lease_outside_the_bounds_is_refused_with_both_named(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    assert_refused(f, DIBS_INVALID_REQUEST, try_claim(f, "t", "s", MINUTES(1) - 1));
    assert_string_equal(f->err.field, "ttlMs");
    assert_non_null(strstr(f->err.message, "60000 (minTTL, 1m)"));
    assert_non_null(strstr(f->err.message, "7200000 (maxTTL, 2h)"));
    assert_refused(f, DIBS_INVALID_REQUEST, try_claim(f, "t", "s", MINUTES(120) + 1));
    assert_refused(f, DIBS_INVALID_REQUEST, try_claim(f, "t", "s", -1));
    assert_status(f, "t", "open");
    assert_ok(f, try_claim(f, "t", "s", MINUTES(1)));
    assert_refused(f, DIBS_INVALID_REQUEST, try_claim(f, "t", "s", MINUTES(120) + 1));
    assert_ok(f, try_claim(f, "t", "s", MINUTES(120)));
}

static void test_metadata_and_agent_type_are_checked(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {0};
    make_pair(f);
    struct dibs_claim_take in = {.task_id = "t", .session_id = "s", .metadata = "{"};
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_claim_take(f->d, f->a, &in, &out, &f->err));
    assert_string_equal(f->err.field, "metadata");
    in.metadata = NULL;
    in.agent_type = repeated(f, 'x', WORD_BYTES_MAX + 1);
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_claim_take(f->d, f->a, &in, &out, &f->err));
    assert_string_equal(f->err.field, "agentType");
}

static void test_an_assigned_task_is_claimed_by_sessions_of_its_agent_only(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_agent_session(f, "amy-1", "amy");
    make_agent_session(f, "amy-2", "amy");
    make_agent_session(f, "bob-1", "bob");
    make_agent_session(f, "amy", "bob"); /* a session's own name is not its agent's */
    make_task_as(f, (struct dibs_task_new){.id = "t", .assignee = "amy"});
    static const char *const others[] = {"s", "bob-1", "amy"};
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, "t", others[i], 0));
        assert_string_equal(f->err.message,
                            "task 't' cannot be claimed: it is assigned to another agent");
    }
    assert_ok(f, try_claim(f, "t", "amy-2", 0));
    assert_refused(f, DIBS_TASK_ALREADY_CLAIMED, try_claim(f, "t", "amy-1", 0));
}

/* ---- extending ------------------------------------------------------------------------------- */

static void test_claiming_what_one_holds_extends_it_under_the_same_token(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    struct dibs_claim first = claim(f, "t", "s");
    world_pass(&f->world, MINUTES(10));
    struct dibs_claim again = claim(f, "t", "s");
    assert_true(again.extended);
    assert_int_equal(again.token, first.token);
    assert_int_equal(again.expires_at_ms, now_ms(f) + MINUTES(30));
    assert_int_equal(again.claimed_at_ms, first.claimed_at_ms);
    assert_int_equal(again.held_ms, MINUTES(10));
    assert_int_equal(again.heartbeat_count, 1);
    assert_int_equal(get_task(f, "t").attempts, 1);
    assert_event_count(f, "task:claimed", 1);
    again = take(
        f, (struct dibs_claim_take){.task_id = "t", .session_id = "s", .ttl_ms = MINUTES(120)});
    assert_int_equal(again.expires_at_ms, now_ms(f) + MINUTES(120));
}

static void test_a_lease_is_never_shortened(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t deadline = now_ms(f) + MINUTES(120);
    assert_ok(f, try_claim(f, "t", "s", MINUTES(120)));
    world_pass(&f->world, MINUTES(1));
    struct dibs_claim c =
        take(f, (struct dibs_claim_take){.task_id = "t", .session_id = "s", .ttl_ms = MINUTES(1)});
    assert_true(c.extended);
    assert_int_equal(c.expires_at_ms, deadline);
    assert_int_equal(heartbeat(f, "t", "s", MINUTES(1)).expires_at_ms, deadline);
    assert_int_equal(heartbeat(f, "t", "s", 0).expires_at_ms, now_ms(f) + MINUTES(120));
}

static void test_a_session_that_registers_again_keeps_its_claim_and_its_token(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    struct dibs_claim first = claim(f, "t", "s");
    make_session(f, "s");
    assert_int_equal(get_session(f, "s").incarnation, 2);
    assert_string_equal(get_task(f, "t").claim->session_id, "s");
    assert_int_equal(get_task(f, "t").claim->token, first.token);
    struct dibs_claim again = claim(f, "t", "s");
    assert_true(again.extended);
    assert_int_equal(again.token, first.token);
    assert_refused(f, DIBS_TASK_ALREADY_CLAIMED, try_claim(f, "t", "r", 0));
}

/* ---- the deadline ---------------------------------------------------------------------------- */

static void test_a_lease_ends_at_its_deadline_to_the_millisecond_without_any_sweep(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t first = claim(f, "t", "s").token;
    world_pass(&f->world, MINUTES(30) - 1);
    assert_refused(f, DIBS_TASK_ALREADY_CLAIMED, try_claim(f, "t", "r", 0));
    assert_int_equal(f->err.remaining_ms, 1);
    world_pass(&f->world, 1);
    struct dibs_claim second = claim(f, "t", "r");
    assert_true(second.token > first);
    assert_false(second.extended);
    assert_int_equal(second.attempt, 2);
    struct dibs_event_list told = events_of(f, "task:claim-expired");
    assert_int_equal(told.count, 1);
    assert_string_equal(told.items[0].session_id, "s");
    assert_int_equal(event_int(f, &told.items[0], "token"), first);
    assert_int_equal(event_int(f, &told.items[0], "heldForMs"), MINUTES(30));
    assert_true(told.items[0].number < events_of(f, "task:claimed").items[1].number);
}

static void test_a_heartbeat_one_millisecond_before_the_deadline_keeps_the_lease(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    world_pass(&f->world, MINUTES(30) - 1);
    assert_int_equal(heartbeat(f, "t", "s", 0).expires_at_ms, now_ms(f) + MINUTES(30));
    world_pass(&f->world, MINUTES(30) - 1);
    assert_refused(f, DIBS_TASK_ALREADY_CLAIMED, try_claim(f, "t", "r", 0));
    world_pass(&f->world, 1);
    assert_refused(f, DIBS_CLAIM_EXPIRED, try_heartbeat(f, "t", "s", 0));
    assert_string_equal(f->err.task_status, "open");
    assert_string_equal(f->err.message, "the lease of session 's' on task 't' has ended");
}

static void test_the_former_holder_gets_a_new_token_when_it_claims_again(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t first = claim(f, "t", "s").token;
    world_pass(&f->world, MINUTES(30));
    struct dibs_claim second = claim(f, "t", "s");
    assert_false(second.extended);
    assert_true(second.token > first);
    assert_refused(f, DIBS_STALE_TOKEN, try_heartbeat(f, "t", "s", first));
    assert_ok(f, try_heartbeat(f, "t", "s", second.token));
}

static void test_a_fresh_claim_does_not_inherit_a_heartbeat(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    world_pass(&f->world, MINUTES(1));
    heartbeat(f, "t", "s", 0);
    world_pass(&f->world, MINUTES(30));
    struct dibs_claim fresh = claim(f, "t", "r");
    assert_int_equal(fresh.heartbeat_count, 0);
    assert_int_equal(fresh.heartbeat_at_ms, now_ms(f));
    assert_int_equal(fresh.claimed_at_ms, now_ms(f));
    assert_int_equal(fresh.health, DIBS_HEALTH_HEALTHY);
}

/* ---- heartbeats ------------------------------------------------------------------------------ */

static void test_heartbeats_are_counted_and_leave_no_trace_in_the_journal(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    int64_t last = events_of(f, NULL).last;
    for (int i = 1; i <= 3; i++) {
        world_pass(&f->world, MINUTES(1));
        struct dibs_claim c = heartbeat(f, "t", "s", 0);
        assert_int_equal(c.heartbeat_count, i);
        assert_int_equal(c.heartbeat_at_ms, now_ms(f));
        assert_int_equal(c.remaining_ms, MINUTES(30));
    }
    assert_int_equal(events_of(f, NULL).last, last);
}

static void test_a_heartbeat_may_ask_for_its_own_length_within_the_bounds(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {0};
    make_pair(f);
    assert_ok(f, try_claim(f, "t", "s", MINUTES(2)));
    assert_int_equal(heartbeat(f, "t", "s", MINUTES(90)).remaining_ms, MINUTES(90));
    struct dibs_heartbeat in = {.task_id = "t", .session_id = "s", .extend_ms = MINUTES(121)};
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_claim_heartbeat(f->d, f->a, &in, &out, &f->err));
    assert_string_equal(f->err.field, "extendMs");
    assert_non_null(strstr(f->err.message, "maxTTL"));
}

static void test_the_heartbeat_of_a_claim_is_one_of_its_session_too(void **state)
{
    struct fixture *f = *state;
    struct dibs_sweep swept = {0};
    make_pair(f);
    claim(f, "t", "s");
    for (int i = 0; i < 20; i++) { /* nobody ever calls the session's own heartbeat */
        world_pass(&f->world, MINUTES(4));
        heartbeat(f, "t", "s", 0);
        assert_ok(f, dibs_cleanup(f->d, f->a, &swept, &f->err));
    }
    assert_int_equal(get_session(f, "s").status, DIBS_SESSION_ACTIVE);
    assert_int_equal(get_session(f, "s").heartbeat_at_ms, now_ms(f));
    assert_string_equal(get_task(f, "t").claim->session_id, "s");
}

/* ---- progress -------------------------------------------------------------------------------- */

static void test_progress_is_kept_told_and_extends_the_lease(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim c = {0};
    make_pair(f);
    int64_t token = claim(f, "t", "s").token;
    world_pass(&f->world, MINUTES(29));
    assert_ok(f, progress(f,
                          (struct dibs_progress){.task_id = "t",
                                                 .session_id = "s",
                                                 .token = token,
                                                 .percent = DIBS_VALUE(0),
                                                 .message = "begun"},
                          &c));
    assert_int_equal(c.progress_percent, 0);
    assert_string_equal(c.progress_message, "begun");
    assert_int_equal(c.expires_at_ms, now_ms(f) + MINUTES(30));
    assert_int_equal(c.heartbeat_count, 1);
    assert_ok(f, progress(f,
                          (struct dibs_progress){.task_id = "t",
                                                 .session_id = "s",
                                                 .percent = DIBS_VALUE(100),
                                                 .checkpoint = "[1]"},
                          &c));
    assert_int_equal(c.progress_percent, 100);
    assert_string_equal(c.progress_message, "begun");
    assert_string_equal(c.checkpoint, "[1]");
    assert_string_equal(get_task(f, "t").claim->checkpoint, "[1]");
    struct dibs_event_list told = events_of(f, "task:progress");
    assert_int_equal(told.count, 2);
    assert_string_equal(event_field(f, &told.items[0], "percent"), "0");
    assert_string_equal(event_field(f, &told.items[0], "message"), "begun");
    assert_string_equal(event_field(f, &told.items[1], "checkpoint"), "[1]");
}

static void test_bad_progress_is_refused_by_name(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {0};
    make_pair(f);
    claim(f, "t", "s");
    const char *before = rows_of(f);
    struct dibs_progress in = {.task_id = "t", .session_id = "s", .percent = DIBS_VALUE(101)};
    assert_refused(f, DIBS_INVALID_REQUEST, progress(f, in, &out));
    assert_string_equal(f->err.field, "percent");
    in.percent = DIBS_VALUE(-1);
    assert_refused(f, DIBS_INVALID_REQUEST, progress(f, in, &out));
    in.percent.given = false;
    in.message = repeated(f, 'x', MESSAGE_BYTES_MAX + 1);
    assert_refused(f, DIBS_INVALID_REQUEST, progress(f, in, &out));
    assert_string_equal(f->err.field, "message");
    in.message = repeated(f, 'x', MESSAGE_BYTES_MAX);
    in.checkpoint = "{";
    assert_refused(f, DIBS_INVALID_REQUEST, progress(f, in, &out));
    assert_string_equal(f->err.field, "checkpoint");
    assert_string_equal(rows_of(f), before);
}

static void test_the_last_checkpoint_is_handed_to_the_next_holder(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    assert_null(claim(f, "t", "s").checkpoint);
    assert_ok(f, try_progress(f, "t", "s", 0, "{\"page\": 1}"));
    assert_ok(f, try_progress(f, "t", "s", 0, "{\"page\": 2}"));
    world_pass(&f->world, MINUTES(30));
    assert_string_equal(claim(f, "t", "r").checkpoint, "{\"page\": 2}");
    assert_ok(f, try_fail(f, "t", "r", 0, "boom")); /* without a checkpoint of its own */
    world_pass(&f->world, SECONDS(2));
    assert_string_equal(claim(f, "t", "s").checkpoint, "{\"page\": 2}");
}

static void test_a_new_generation_starts_without_a_checkpoint(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    assert_ok(f, try_progress(f, "t", "s", 0, "{\"page\": 2}"));
    assert_ok(f, try_complete(f, "t", "s", 0, NULL));
    assert_ok(f, try_move(f, dibs_task_reopen, "t", NULL));
    struct dibs_claim c = claim(f, "t", "r");
    assert_null(c.checkpoint);
    assert_int_equal(c.generation, 2);
    assert_int_equal(c.attempt, 1);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void test_tokens_grow_over_claims_of_every_kind_and_across_restarts(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_agent_session(f, "amy-1", "amy");
    int64_t last = 0;
    for (int round = 0; round < 3; round++) {
        const char *named = make_task(f, NULL);
        const char *offered = make_task_as(f, (struct dibs_task_new){.offered_to = "amy"}).id;
        make_task(f, NULL);
        assert_ok(f, try_claim(f, named, "s", 0));
        assert_true(get_task(f, named).claim->token > last);
        last = get_task(f, named).claim->token;
        assert_ok(f, try_review(f, offered, "amy-1"));
        assert_true(get_task(f, offered).claim->token > last);
        last = get_task(f, offered).claim->token;
        struct dibs_claim lock = {0};
        struct dibs_lock_take in = {.resource = arena_printf(f->a, "lock %d", round),
                                    .session_id = "s"};
        assert_ok(f, dibs_lock_take(f->d, f->a, &in, &lock, &f->err));
        assert_true(lock.token > last);
        last = lock.token;
        const char *next = claim_any(f, (struct dibs_claim_next){.session_id = "s"});
        assert_true(get_task(f, next).claim->token > last);
        last = get_task(f, next).claim->token;
        fixture_reopen(f);
    }
    assert_true(last < (int64_t)1 << 53); /* every JSON reader can hold it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_claim_is_a_lease_with_a_holder_a_deadline_and_a_token),
        STORE_TEST(test_the_default_lease_is_30_minutes_and_the_agent_type_that_of_the_session),
        STORE_TEST(test_second_claimer_is_told_who_holds_it_since_when_and_for_how_long),
        STORE_TEST(test_a_refused_claim_is_on_record),
        STORE_TEST(test_a_claim_is_refused_for_these_reasons),
        STORE_TEST(test_a_lease_outside_the_bounds_is_refused_with_both_named),
        STORE_TEST(test_metadata_and_agent_type_are_checked),
        STORE_TEST(test_an_assigned_task_is_claimed_by_sessions_of_its_agent_only),
        STORE_TEST(test_claiming_what_one_holds_extends_it_under_the_same_token),
        STORE_TEST(test_a_lease_is_never_shortened),
        STORE_TEST(test_a_session_that_registers_again_keeps_its_claim_and_its_token),
        STORE_TEST(test_a_lease_ends_at_its_deadline_to_the_millisecond_without_any_sweep),
        STORE_TEST(test_a_heartbeat_one_millisecond_before_the_deadline_keeps_the_lease),
        STORE_TEST(test_the_former_holder_gets_a_new_token_when_it_claims_again),
        STORE_TEST(test_a_fresh_claim_does_not_inherit_a_heartbeat),
        STORE_TEST(test_heartbeats_are_counted_and_leave_no_trace_in_the_journal),
        STORE_TEST(test_a_heartbeat_may_ask_for_its_own_length_within_the_bounds),
        STORE_TEST(test_the_heartbeat_of_a_claim_is_one_of_its_session_too),
        STORE_TEST(test_progress_is_kept_told_and_extends_the_lease),
        STORE_TEST(test_bad_progress_is_refused_by_name),
        STORE_TEST(test_the_last_checkpoint_is_handed_to_the_next_holder),
        STORE_TEST(test_a_new_generation_starts_without_a_checkpoint),
        STORE_TEST(test_tokens_grow_over_claims_of_every_kind_and_across_restarts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
