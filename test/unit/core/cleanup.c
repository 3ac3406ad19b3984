/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/cleanup.c: claims that ran out, claims whose session is gone, what a session
 * leaves behind, and the numbers. Its other promises: cleanup_sessions.c, cleanup_turns.c.
 */
#include "sweeping.h"

/* ---- expired --------------------------------------------------------------------------------- */

static void test_expired_sweep_of_an_empty_store_cleans_nothing(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = clean_expired(f);
    assert_int_equal(cleaned.count, 0);
    assert_null(cleaned.claims);
    assert_int_equal(count_events(f, NULL), 0);
}

static void test_active_claims_are_not_expired(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s");
    world_pass(&f->world, HALF_HOUR - 1);
    assert_int_equal(clean_expired(f).count, 0);
    assert_status(f, "a", DIBS_TASK_IN_PROGRESS);
    assert_int_equal(count_events(f, "claims:cleanup"), 0);
}

static void test_a_claim_past_its_deadline_is_cleaned_and_described(void **state)
{
    struct fixture *f = *state;
    make_session(f, "session-abc");
    make_task(f, "task-1");
    struct dibs_claim held = claim(f, "task-1", "session-abc");
    world_pass(&f->world, HALF_HOUR);
    struct dibs_cleaned cleaned = clean_expired(f);
    assert_int_equal(cleaned.count, 1);
    assert_string_equal(cleaned.claims[0].task_id, "task-1");
    assert_string_equal(cleaned.claims[0].session_id, "session-abc");
    assert_int_equal(cleaned.claims[0].token, held.token);
    assert_int_equal(cleaned.claims[0].claimed_at_ms, held.claimed_at_ms);
    assert_int_equal(cleaned.claims[0].expires_at_ms, held.claimed_at_ms + HALF_HOUR);
    assert_int_equal(cleaned.claims[0].held_ms, HALF_HOUR);
    assert_string_equal(cleaned.claims[0].reason, "expired");
    assert_null(cleaned.claims[0].resource);
    assert_status(f, "task-1", DIBS_TASK_OPEN);
}

static void test_all_expired_claims_are_cleaned_oldest_deadline_first(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_session(f, "t");
    given_claim(f, "a", "s");
    world_pass(&f->world, 1);
    given_claim(f, "b", "t");
    world_pass(&f->world, 1);
    given_claim(f, "c", "s");
    world_pass(&f->world, HALF_HOUR);
    struct dibs_cleaned cleaned = clean_expired(f);
    assert_int_equal(cleaned.count, 3);
    assert_string_equal(cleaned.claims[0].task_id, "a");
    assert_string_equal(cleaned.claims[1].task_id, "b");
    assert_string_equal(cleaned.claims[2].task_id, "c");
    assert_int_equal(clean_expired(f).count, 0);
}

static void test_only_the_expired_of_several_claims_are_cleaned(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "old", "s");
    world_pass(&f->world, MINUTES(20));
    given_claim(f, "young", "s");
    world_pass(&f->world, MINUTES(10));
    struct dibs_cleaned cleaned = clean_expired(f);
    assert_int_equal(cleaned.count, 1);
    assert_string_equal(cleaned.claims[0].task_id, "old");
    assert_status(f, "old", DIBS_TASK_OPEN);
    assert_status(f, "young", DIBS_TASK_IN_PROGRESS);
}

static void test_each_expired_claim_is_an_event_under_both_names(void **state)
{
    struct fixture *f = *state;
    struct probe_ear by_old_name, by_new_name;
    make_session(f, "s");
    given_claim(f, "a", "s");
    given_claim(f, "b", "s");
    probe_listen(f, &by_old_name, DIBS_STRINGS("claim:expired"));
    probe_listen(f, &by_new_name, DIBS_STRINGS("task:claim-expired"));
    world_pass(&f->world, HALF_HOUR + 500);
    clean_expired(f);
    assert_int_equal(by_old_name.count, 2);
    assert_string_equal(by_old_name.heard[0].type, "claim:expired");
    assert_string_equal(by_old_name.heard[0].task_id, "a");
    assert_string_equal(by_old_name.heard[1].task_id, "b");
    assert_int_equal(by_new_name.count, 2);
    assert_string_equal(by_new_name.heard[0].type, "task:claim-expired");
    struct dibs_event_list events = events_of(f, "claim:expired");
    assert_int_equal(events.count, 2);
    const struct dibs_event *e = &events.items[0];
    assert_string_equal(event_field(f, e, "taskId"), "a");
    assert_string_equal(event_field(f, e, "sessionId"), "s");
    assert_string_equal(event_field(f, e, "ageMs"), "1800500");
    assert_string_equal(event_field(f, e, "expiredAt"), "2025-12-28T12:30:00.000Z");
    assert_string_equal(event_field(f, e, "status"), "open");
}

static void test_the_expired_sweep_is_summed_up_in_one_event(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s");
    given_claim(f, "b", "s");
    world_pass(&f->world, HALF_HOUR);
    clean_expired(f);
    struct dibs_event_list events = events_of(f, "claims:cleanup");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "type"), "expired");
    assert_string_equal(event_field(f, &events.items[0], "count"), "2");
    clean_expired(f);
    assert_int_equal(count_events(f, "claims:cleanup"), 1);
}

/* ---- orphaned -------------------------------------------------------------------------------- */

static void test_orphan_sweep_of_an_empty_store_cleans_nothing(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(clean_orphaned(f, false).count, 0);
    assert_int_equal(clean_orphaned(f, true).count, 0);
    assert_int_equal(count_events(f, NULL), 0);
}

static void test_a_claim_whose_session_is_missing_is_orphaned(void **state)
{
    struct fixture *f = *state;
    make_session(f, "ghost");
    make_task(f, "task-2");
    struct dibs_claim held = claim(f, "task-2", "ghost");
    lose_session(f, "ghost");
    world_pass(&f->world, 1000);
    struct dibs_cleaned cleaned = clean_orphaned(f, false);
    assert_int_equal(cleaned.count, 1);
    assert_string_equal(cleaned.claims[0].task_id, "task-2");
    assert_string_equal(cleaned.claims[0].session_id, "ghost");
    assert_string_equal(cleaned.claims[0].reason, "session_missing");
    assert_int_equal(cleaned.claims[0].claimed_at_ms, held.claimed_at_ms);
    assert_int_equal(cleaned.claims[0].expires_at_ms, held.expires_at_ms);
    assert_int_equal(cleaned.claims[0].held_ms, 1000);
    assert_status(f, "task-2", DIBS_TASK_OPEN);
}

static void test_a_claim_whose_session_is_silent_too_long_is_orphaned(void **state)
{
    struct fixture *f = *state;
    make_session(f, "quiet");
    given_claim(f, "a", "quiet");
    world_pass(&f->world, MINUTES(10));
    assert_int_equal(clean_orphaned(f, false).count, 0); /* not longer than the threshold yet */
    world_pass(&f->world, 1);
    struct dibs_cleaned cleaned = clean_orphaned(f, false);
    assert_int_equal(cleaned.count, 1);
    assert_string_equal(cleaned.claims[0].reason, "session_stale");
    assert_int_equal(cleaned.claims[0].stale_for_ms, MINUTES(10) + 1);
    assert_status(f, "a", DIBS_TASK_OPEN);
}

static void test_claims_of_active_sessions_are_kept(void **state)
{
    struct fixture *f = *state;
    make_session(f, "quiet");
    make_session(f, "lively");
    given_claim(f, "a", "quiet");
    given_claim(f, "b", "lively");
    world_pass(&f->world, MINUTES(9));
    beat(f, "lively");
    world_pass(&f->world, MINUTES(2));
    assert_int_equal(clean_orphaned(f, false).count, 1);
    assert_status(f, "a", DIBS_TASK_OPEN);
    assert_status(f, "b", DIBS_TASK_IN_PROGRESS);
}

static void test_all_orphans_are_cleaned_each_with_its_reason(void **state)
{
    struct fixture *f = *state;
    make_session(f, "ghost");
    make_session(f, "quiet");
    given_claim(f, "a", "ghost");
    given_claim(f, "b", "quiet");
    given_claim(f, "c", "quiet");
    lose_session(f, "ghost");
    world_pass(&f->world, MINUTES(11));
    struct dibs_cleaned cleaned = clean_orphaned(f, false);
    assert_int_equal(cleaned.count, 3);
    assert_string_equal(cleaned.claims[0].reason, "session_missing");
    assert_string_equal(cleaned.claims[1].reason, "session_stale");
    assert_string_equal(cleaned.claims[2].reason, "session_stale");
    assert_int_equal(clean_orphaned(f, false).count, 0);
}

static void test_each_orphan_is_an_event_under_both_names(void **state)
{
    struct fixture *f = *state;
    struct probe_ear ear;
    make_session(f, "quiet");
    given_claim(f, "a", "quiet");
    probe_listen(f, &ear, DIBS_STRINGS("claim:orphaned"));
    world_pass(&f->world, MINUTES(11));
    clean_orphaned(f, false);
    assert_int_equal(ear.count, 1);
    assert_string_equal(ear.heard[0].type, "claim:orphaned");
    struct dibs_event_list events = events_of(f, "task:claim-orphaned");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "taskId"), "a");
    assert_string_equal(event_field(f, &events.items[0], "sessionId"), "quiet");
    assert_string_equal(event_field(f, &events.items[0], "reason"), "session_stale");
    assert_string_equal(event_field(f, &events.items[0], "staleForMs"), "660000");
    assert_int_equal(count_events(f, "task:claim-expired"), 0);
}

static void test_the_orphan_sweep_is_summed_up_in_one_event(void **state)
{
    struct fixture *f = *state;
    make_session(f, "quiet");
    given_claim(f, "a", "quiet");
    given_claim(f, "b", "quiet");
    world_pass(&f->world, MINUTES(11));
    clean_orphaned(f, false);
    struct dibs_event_list events = events_of(f, "claims:cleanup");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "type"), "orphaned");
    assert_string_equal(event_field(f, &events.items[0], "count"), "2");
}

/* ---- release of what a session holds --------------------------------------------------------- */

static void test_releasing_a_session_that_holds_nothing_counts_zero(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    struct dibs_cleaned cleaned = release_all(f, "s", NULL);
    assert_int_equal(cleaned.count, 0);
    assert_string_equal(cleaned.session_id, "s");
    assert_int_equal(release_all(f, "never-registered", NULL).count, 0);
    assert_int_equal(count_events(f, "task:released"), 0);
}

static void test_a_released_claim_is_described_and_its_task_open(void **state)
{
    struct fixture *f = *state;
    make_session(f, "session-abc");
    make_task(f, "task-1");
    struct dibs_claim held = claim(f, "task-1", "session-abc");
    world_pass(&f->world, MINUTES(5));
    struct dibs_cleaned cleaned = release_all(f, "session-abc", "manual");
    assert_int_equal(cleaned.count, 1);
    assert_string_equal(cleaned.session_id, "session-abc");
    assert_string_equal(cleaned.reason, "manual");
    assert_string_equal(cleaned.claims[0].task_id, "task-1");
    assert_int_equal(cleaned.claims[0].claimed_at_ms, held.claimed_at_ms);
    assert_int_equal(cleaned.claims[0].expires_at_ms, held.expires_at_ms);
    assert_int_equal(cleaned.claims[0].held_ms, 300000);
    assert_status(f, "task-1", DIBS_TASK_OPEN);
    assert_int_equal(get_task(f, "task-1").attempts, 0); /* the attempt does not count */
}

static void test_all_claims_of_the_session_are_released(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s");
    given_claim(f, "b", "s");
    given_claim(f, "c", "s");
    assert_int_equal(release_all(f, "s", NULL).count, 3);
    assert_int_equal(get_session(f, "s").claims_live, 0);
    assert_int_equal(get_session(f, "s").status, DIBS_SESSION_ACTIVE); /* not ended by it */
    assert_int_equal(release_all(f, "s", NULL).count, 0);
}

static void test_claims_of_other_sessions_are_not_released(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_session(f, "t");
    given_claim(f, "a", "s");
    given_claim(f, "b", "t");
    assert_int_equal(release_all(f, "s", NULL).count, 1);
    assert_status(f, "a", DIBS_TASK_OPEN);
    assert_status(f, "b", DIBS_TASK_IN_PROGRESS);
}

static void test_each_released_claim_is_an_event_under_both_names(void **state)
{
    struct fixture *f = *state;
    struct probe_ear ear;
    make_session(f, "s");
    given_claim(f, "a", "s");
    probe_listen(f, &ear, DIBS_STRINGS("claim:released"));
    world_pass(&f->world, 1234);
    release_all(f, "s", "shutdown");
    assert_int_equal(ear.count, 1);
    assert_string_equal(ear.heard[0].type, "claim:released");
    struct dibs_event_list events = events_of(f, "task:released");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "taskId"), "a");
    assert_string_equal(event_field(f, &events.items[0], "sessionId"), "s");
    assert_string_equal(event_field(f, &events.items[0], "reason"), "shutdown");
    assert_string_equal(event_field(f, &events.items[0], "heldForMs"), "1234");
}

static void test_the_release_is_summed_up_with_session_reason_and_count(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s");
    given_claim(f, "b", "s");
    release_all(f, "s", "shutdown");
    struct dibs_event_list events = events_of(f, "claims:session_cleanup");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "sessionId"), "s");
    assert_string_equal(event_field(f, &events.items[0], "reason"), "shutdown");
    assert_string_equal(event_field(f, &events.items[0], "count"), "2");
}

static void test_the_reason_is_session_ended_unless_one_is_given(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s");
    assert_string_equal(release_all(f, "s", NULL).reason, "session_ended");
    claim(f, "a", "s");
    assert_string_equal(release_all(f, "s", "").reason, "session_ended");
    struct dibs_event_list events = events_of(f, "task:released");
    assert_string_equal(event_field(f, &events.items[1], "reason"), "session_ended");
    char reason[WORD_BYTES_MAX + 2];
    memset(reason, 'r', sizeof reason - 1);
    reason[sizeof reason - 1] = '\0';
    struct dibs_cleaned out = {0};
    assert_refused(f, DIBS_INVALID_REQUEST,
                   dibs_release_session_claims(f->d, f->a, "s", reason, &out, &f->err));
    assert_string_equal(f->err.field, "reason");
    assert_refused(f, DIBS_INVALID_REQUEST,
                   dibs_release_session_claims(f->d, f->a, "no id", NULL, &out, &f->err));
}

static void test_a_session_hears_once_that_others_released_its_claims(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    given_claim(f, "a", "s");
    release_all(f, "s", "manual");
    struct dibs_session_news news = beat(f, "s");
    assert_int_equal(news.lost.count, 1);
    assert_string_equal(news.lost.items[0].task_id, "a");
    assert_string_equal(news.lost.items[0].end_reason, "manual");
    assert_int_equal(beat(f, "s").lost.count, 0);
}

/* ---- integration and statistics -------------------------------------------------------------- */

static void test_deregistering_a_session_releases_its_claims(void **state)
{
    struct fixture *f = *state;
    struct dibs_deregistered gone = {0};
    make_session(f, "session-123");
    given_claim(f, "a", "session-123");
    given_claim(f, "b", "session-123");
    assert_ok(f, dibs_session_deregister(f->d, f->a, "session-123", &gone, &f->err));
    assert_string_equal(gone.session_id, "session-123");
    assert_int_equal(gone.claims_released, 2);
    assert_int_equal(gone.locks_released, 0);
    struct dibs_event_list events = events_of(f, "session:deregistered");
    assert_string_equal(event_field(f, &events.items[0], "claimsReleased"), "2");
    events = events_of(f, "claim:released");
    assert_string_equal(event_field(f, &events.items[0], "reason"), "session_deregistered");
    assert_status(f, "a", DIBS_TASK_OPEN);
}

static void test_writing_calls_sweep_when_it_is_due_and_auto_cleanup_is_on(void **state)
{
    struct fixture *f = *state;
    dibs *automatic = NULL;
    struct dibs_session_news news = {0};
    make_session(f, "s");
    make_session(f, "quiet");
    given_claim(f, "a", "quiet");
    struct dibs_options options = {.data_dir = f->data_dir, .platform = &f->world.platform};
    assert_ok(f, dibs_open(&options, &automatic, &f->err));
    assert_ok(f, dibs_session_heartbeat(automatic, f->a, "s", &news, &f->err)); /* the first turn */
    world_pass(&f->world, HALF_HOUR);
    beat(f, "s"); /* this handle has it switched off */
    assert_status(f, "a", DIBS_TASK_IN_PROGRESS);
    assert_ok(f, dibs_session_heartbeat(automatic, f->a, "s", &news, &f->err));
    assert_status(f, "a", DIBS_TASK_OPEN);
    assert_int_equal(count_events(f, "claims:cleanup"), 1);
    dibs_close(automatic);
}

static void test_stats_tell_total_active_and_expiring_claims(void **state)
{
    struct fixture *f = *state;
    struct dibs_stats stats = {0};
    make_session(f, "s");
    given_claim(f, "lapsed", "s");
    world_pass(&f->world, MINUTES(4));
    given_claim(f, "nearly", "s");
    world_pass(&f->world, MINUTES(20));
    given_claim(f, "fresh", "s");
    given_claim(f, "fresh2", "s");
    world_pass(&f->world, MINUTES(6));
    assert_ok(f, dibs_stats(f->d, f->a, &stats, &f->err));
    assert_int_equal(stats.total, 4);
    assert_int_equal(stats.active, 3);
    assert_int_equal(stats.expiring, 1);
}

static void test_a_missing_table_is_answered_with_a_failure_and_nothing_is_touched(void **state)
{
    struct fixture *f = *state;
    struct dibs_stats stats = {0};
    struct dibs_cleaned cleaned = {0};
    f->skip_verify = true;
    make_session(f, "s");
    given_claim(f, "a", "s");
    plant(f, "ALTER TABLE claim RENAME TO hidden");
    world_pass(&f->world, HALF_HOUR);
    char *before = probe_tables(f);
    assert_true(dibs_status_is_failure(dibs_stats(f->d, f->a, &stats, &f->err)));
    assert_true(f->err.message[0] != '\0');
    assert_true(dibs_status_is_failure(dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err)));
    assert_true(dibs_status_is_failure(dibs_cleanup_orphaned(f->d, f->a, NULL, &cleaned, &f->err)));
    char *after = probe_tables(f);
    assert_string_equal(before, after);
    free(before);
    free(after);
    plant(f, "ALTER TABLE hidden RENAME TO claim");
    assert_int_equal(clean_expired(f).count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_expired_sweep_of_an_empty_store_cleans_nothing),
        STORE_TEST(test_active_claims_are_not_expired),
        STORE_TEST(test_a_claim_past_its_deadline_is_cleaned_and_described),
        STORE_TEST(test_all_expired_claims_are_cleaned_oldest_deadline_first),
        STORE_TEST(test_only_the_expired_of_several_claims_are_cleaned),
        STORE_TEST(test_each_expired_claim_is_an_event_under_both_names),
        STORE_TEST(test_the_expired_sweep_is_summed_up_in_one_event),
        STORE_TEST(test_orphan_sweep_of_an_empty_store_cleans_nothing),
        STORE_TEST(test_a_claim_whose_session_is_missing_is_orphaned),
        STORE_TEST(test_a_claim_whose_session_is_silent_too_long_is_orphaned),
        STORE_TEST(test_claims_of_active_sessions_are_kept),
        STORE_TEST(test_all_orphans_are_cleaned_each_with_its_reason),
        STORE_TEST(test_each_orphan_is_an_event_under_both_names),
        STORE_TEST(test_the_orphan_sweep_is_summed_up_in_one_event),
        STORE_TEST(test_releasing_a_session_that_holds_nothing_counts_zero),
        STORE_TEST(test_a_released_claim_is_described_and_its_task_open),
        STORE_TEST(test_all_claims_of_the_session_are_released),
        STORE_TEST(test_claims_of_other_sessions_are_not_released),
        STORE_TEST(test_each_released_claim_is_an_event_under_both_names),
        STORE_TEST(test_the_release_is_summed_up_with_session_reason_and_count),
        STORE_TEST(test_the_reason_is_session_ended_unless_one_is_given),
        STORE_TEST(test_a_session_hears_once_that_others_released_its_claims),
        STORE_TEST(test_deregistering_a_session_releases_its_claims),
        STORE_TEST(test_writing_calls_sweep_when_it_is_due_and_auto_cleanup_is_on),
        STORE_TEST(test_stats_tell_total_active_and_expiring_claims),
        STORE_TEST(test_a_missing_table_is_answered_with_a_failure_and_nothing_is_touched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
