/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/verify.c: every kind of disagreement between the journal and the tables,
 * planted by hand, is found and named; and nothing is found in stores that only lived a full life.
 */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a deep look says about the journal; NULL when it is fine. */
static const char *journal_finding(struct fixture *f)
{
    struct dibs_diagnosis found = {0};
    const char *text = "the journal was not looked at";
    assert_ok(f, dibs_diagnose(f->d, f->a, true, &found, &f->err));
    for (size_t i = 0; i < found.count; i++)
        if (strcmp(found.items[i].subject, "journal") == 0)
            text = found.items[i].level == DIBS_BAD ? found.items[i].text : NULL;
    return text;
}

static void assert_found(struct fixture *f, const char *sql, const char *expected)
{
    f->skip_verify = true;
    if (journal_finding(f))
        fail_msg("there is something before anything was planted: %s", journal_finding(f));
    plant(f, sql);
    const char *text = journal_finding(f);
    if (!text || !strstr(text, expected))
        fail_msg("%s: found '%s' instead of '%s'", sql, text ? text : "nothing", expected);
}

/* One task of every kind, a lock, a history. */
static void given_a_life(struct fixture *f)
{
    struct dibs_task out = {0};
    struct dibs_claim lock = {0};
    make_session(f, "s");
    make_task(f, "held");
    make_task(f, "done");
    make_task(f, "open");
    claim(f, "done", "s");
    struct dibs_report report = {.task_id = "done", .session_id = "s"};
    assert_ok(f, dibs_complete(f->d, f->a, &report, &out, &f->err));
    claim(f, "held", "s");
    struct dibs_lock_take take = {.resource = "r", .session_id = "s"};
    assert_ok(f, dibs_lock_take(f->d, f->a, &take, &lock, &f->err));
}

#define PLANTED(name, sql, expected)                                                               \
    static void name(void **state)                                                                 \
    {                                                                                              \
        struct fixture *f = *state;                                                                \
        given_a_life(f);                                                                           \
        assert_found(f, sql, expected);                                                            \
    }

/* ---- numbers --------------------------------------------------------------------------------- */

PLANTED(test_an_event_missing_in_the_middle_is_found, "DELETE FROM event WHERE number = 3",
        "7 events from 1 to 8, the counter stands at 8")
PLANTED(test_an_event_missing_at_the_end_is_found,
        "DELETE FROM event WHERE number = (SELECT max(number) FROM event)",
        "7 events from 1 to 7, the counter stands at 8")
PLANTED(test_an_event_too_many_is_found,
        "INSERT INTO event (number, at, type, data) SELECT number + 1, at, type, data FROM event "
        "ORDER BY number DESC LIMIT 1",
        "9 events from 1 to 9, the counter stands at 8")

PLANTED(test_a_number_out_of_line_is_found, "UPDATE event SET number = 20 WHERE number = 8",
        "8 events from 1 to 20, the counter stands at 8")

/* ---- tasks ----------------------------------------------------------------------------------- */

PLANTED(test_a_status_changed_by_hand_is_found,
        "UPDATE task SET status = 'blocked', ready = 0 WHERE id = 'open'",
        "task 'open' is blocked (version 1), its newest event 4 says otherwise")
PLANTED(test_attempts_changed_by_hand_are_found, "UPDATE task SET attempts = 0 WHERE id = 'held'",
        "task 'held' is in_progress")
PLANTED(test_a_version_changed_by_hand_is_found, "UPDATE task SET version = 9 WHERE id = 'done'",
        "task 'done' is completed (version 9)")
PLANTED(test_a_task_under_way_that_nobody_holds_is_found,
        "UPDATE claim SET ended_at = 1, end_reason = 'x' WHERE kind = 'task' AND ended_at IS NULL",
        "1 tasks under way are held by nobody, 0 live claims hold no such task")
PLANTED(test_a_live_claim_on_a_task_that_is_not_under_way_is_found,
        "UPDATE claim SET ended_at = NULL, end_reason = NULL, attention = 1 WHERE end_reason = "
        "'completed'",
        "0 tasks under way are held by nobody, 1 live claims hold no such task")
PLANTED(test_a_live_claim_on_no_task_at_all_is_found,
        "UPDATE claim SET task_key = 999 WHERE kind = 'task' AND ended_at IS NULL",
        "1 tasks under way are held by nobody, 1 live claims hold no such task")
PLANTED(
    test_two_holders_of_one_task_are_found,
    "INSERT INTO claim (token, kind, task_key, session_id, incarnation, claimed_at, expires_at, "
    "heartbeat_at, ttl) SELECT 99, kind, task_key, 't', 1, 1, 9e18, 1, 1 FROM claim "
    "WHERE kind = 'task' AND ended_at IS NULL",
    "1 live claims hold no such task")
PLANTED(test_a_task_that_forgot_its_newest_claim_is_found,
        "UPDATE task SET last_token = NULL WHERE id = 'held'",
        "1 tasks under way are held by nobody, 1 live claims hold no such task")

PLANTED(test_a_tag_that_nobody_would_look_for_is_found,
        "INSERT INTO task_tag (task_key, tag) SELECT key, 'hidden' FROM task WHERE id = 'open'",
        "1 texts, tags or dependencies belong to tasks without a mark")
PLANTED(test_texts_and_dependencies_without_a_mark_are_found,
        "INSERT INTO task_body (task_key, result) SELECT key, '1' FROM task WHERE id = 'open'; "
        "INSERT INTO task_dependency (task_key, needs_key) "
        "SELECT a.key, b.key FROM task a, task b WHERE a.id = 'open' AND b.id = 'done'",
        "3 texts, tags or dependencies belong to tasks without a mark")

static void test_an_empty_store_is_fine(void **state)
{
    assert_null(journal_finding(*state));
}

/* ---- tokens ---------------------------------------------------------------------------------- */

PLANTED(test_tokens_that_do_not_grow_are_found,
        "UPDATE event SET data = json_set(data, '$.token', 1) WHERE type = 'lock:taken'",
        "event 8 grants token 1 after 2")
PLANTED(test_an_event_that_cannot_be_read_is_found,
        "UPDATE event SET data = '{' WHERE type = 'lock:taken'", "event 8 cannot be read")
PLANTED(test_a_claim_ended_twice_in_the_journal_is_found,
        "UPDATE event SET type = 'lock:released', data = json_set(data, '$.token', 1) "
        "WHERE type = 'lock:taken'",
        "event 8 ends token 1, which was not live")
PLANTED(test_a_lock_that_is_live_without_a_grant_is_found,
        "UPDATE event SET type = 'lock:noted' WHERE type = 'lock:taken'",
        "claim 3 is live, but the journal has ended it")
PLANTED(test_a_lock_that_ended_without_an_event_is_found,
        "UPDATE claim SET ended_at = 1, end_reason = 'x' WHERE kind = 'lock'",
        "claim 3 was granted and not ended, but is not live")

/* ---- nothing is found in what is fine -------------------------------------------------------- */

static void release(struct fixture *f, const char *task)
{
    struct dibs_released out = {0};
    struct dibs_release in = {.task_id = task, .session_id = "s"};
    assert_ok(f, dibs_claim_release(f->d, f->a, &in, &out, &f->err));
}

static void test_a_claim_granted_by_a_pruned_event_may_live_and_end(void **state)
{
    struct fixture *f = *state;
    int64_t pruned = 0;
    dibs *d = NULL;
    struct dibs_options options = {.data_dir = f->data_dir, .platform = &f->world.platform};
    options.settings = DIBS_STRINGS("eventRetention=1s", "autoCleanup=off");
    assert_ok(f, dibs_open(&options, &d, &f->err));
    given_a_life(f);
    world_pass(&f->world, 1001);
    assert_ok(f, dibs_prune(d, f->a, &pruned, &f->err));
    assert_int_equal(pruned, 8);
    assert_null(journal_finding(f));
    make_task(f, "new");
    claim(f, "new", "s");
    assert_null(journal_finding(f));
    release(f, "held");
    assert_null(journal_finding(f));
    release(f, "new");
    assert_null(journal_finding(f));
    dibs_close(d);
}

/* The clock is set a month ahead, then back to yesterday: times in the journal go up and down. */
static void test_a_clock_set_to_and_fro_is_no_disagreement(void **state)
{
    struct fixture *f = *state;
    int64_t pruned = 0;
    struct dibs_session_news news = {0};
    make_session(f, "s");
    make_task(f, "a");
    claim(f, "a", "s");
    world_set_clock(&f->world, f->world.wall_ms + MINUTES(60 * 24 * 30));
    make_task(f, "next-month");
    world_set_clock(&f->world, f->world.wall_ms - MINUTES(60 * 24 * 31));
    make_task(f, "yesterday");
    for (int i = 0; i < 17 * 24 + 16; i++) { /* eight days and a half, by half hours */
        world_pass(&f->world, MINUTES(29));
        assert_ok(f, dibs_session_heartbeat(f->d, f->a, "s", &news, &f->err));
    }
    assert_ok(f, dibs_prune(f->d, f->a, &pruned, &f->err));
    assert_int_equal(pruned, 3); /* what was written before the clock was touched */
    assert_null(journal_finding(f));
    release(f, "a");
    assert_null(journal_finding(f));
}

static void test_late_completions_and_used_up_attempts_are_no_disagreement(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    struct dibs_task out = {0};
    make_session(f, "s");
    make_task(f, "late");
    make_task_as(f, (struct dibs_task_new){.id = "once", .max_attempts = DIBS_VALUE(1)});
    claim(f, "late", "s");
    claim(f, "once", "s");
    world_pass(&f->world, MINUTES(30));
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    struct dibs_report report = {.task_id = "late", .session_id = "s"};
    assert_ok(f, dibs_complete(f->d, f->a, &report, &out, &f->err));
    assert_int_equal(get_task(f, "once").status, DIBS_TASK_FAILED);
    assert_null(journal_finding(f));
}

static void test_offers_blocks_and_cancellations_are_no_disagreement(void **state)
{
    struct fixture *f = *state;
    struct dibs_task out = {0};
    struct dibs_session s = {0};
    struct dibs_session_new anna = {.id = "s", .agent_id = "anna"};
    assert_ok(f, dibs_session_register(f->d, f->a, &anna, &s, &f->err));
    make_task_as(f, (struct dibs_task_new){.id = "offered", .offered_to = "anna"});
    struct dibs_move move = {.task_id = "offered", .session_id = "s", .agent_id = "anna"};
    assert_ok(f, dibs_task_review(f->d, f->a, &move, &out, &f->err));
    assert_null(journal_finding(f));
    assert_ok(f, dibs_task_accept(f->d, f->a, &move, &out, &f->err));
    claim(f, "offered", "s");
    assert_ok(
        f, dibs_task_block(f->d, f->a, &(struct dibs_move){.task_id = "offered"}, &out, &f->err));
    assert_null(journal_finding(f));
    assert_ok(
        f, dibs_task_cancel(f->d, f->a, &(struct dibs_move){.task_id = "offered"}, &out, &f->err));
    assert_null(journal_finding(f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_an_event_missing_in_the_middle_is_found),
        STORE_TEST(test_an_event_missing_at_the_end_is_found),
        STORE_TEST(test_an_event_too_many_is_found),
        STORE_TEST(test_a_number_out_of_line_is_found),
        STORE_TEST(test_a_status_changed_by_hand_is_found),
        STORE_TEST(test_attempts_changed_by_hand_are_found),
        STORE_TEST(test_a_version_changed_by_hand_is_found),
        STORE_TEST(test_a_task_under_way_that_nobody_holds_is_found),
        STORE_TEST(test_a_live_claim_on_a_task_that_is_not_under_way_is_found),
        STORE_TEST(test_a_live_claim_on_no_task_at_all_is_found),
        STORE_TEST(test_two_holders_of_one_task_are_found),
        STORE_TEST(test_a_task_that_forgot_its_newest_claim_is_found),
        STORE_TEST(test_a_tag_that_nobody_would_look_for_is_found),
        STORE_TEST(test_texts_and_dependencies_without_a_mark_are_found),
        STORE_TEST(test_tokens_that_do_not_grow_are_found),
        STORE_TEST(test_an_event_that_cannot_be_read_is_found),
        STORE_TEST(test_a_claim_ended_twice_in_the_journal_is_found),
        STORE_TEST(test_a_lock_that_is_live_without_a_grant_is_found),
        STORE_TEST(test_a_lock_that_ended_without_an_event_is_found),
        STORE_TEST(test_an_empty_store_is_fine),
        STORE_TEST(test_a_claim_granted_by_a_pruned_event_may_live_and_end),
        STORE_TEST(test_a_clock_set_to_and_fro_is_no_disagreement),
        STORE_TEST(test_late_completions_and_used_up_attempts_are_no_disagreement),
        STORE_TEST(test_offers_blocks_and_cancellations_are_no_disagreement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
