/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/subject.c: a session that holds one claim of every kind keeps all of them by a
 * heartbeat, and loses all of them, with each subject back where it was, in every way in which a
 * claim can end without its holder's word. And of verify_subject.c: what does not agree is found.
 */
#include "daemon.h"
#include "inboxes.h"

#define PID 4711
static const char *const kinds[] = {"task", "review", "lock", "inbox", "mentions", "notice"};

static void given_mentions(struct fixture *f)
{
    struct dibs_channel channel = {0};
    struct dibs_post post = {0};
    struct dibs_mentions_list mentions = {0};
    struct dibs_channel_new make = {.id = "ops"};
    struct dibs_post_new say = {.channel_id = "ops", .author = "x", .content = "@ann"};
    struct dibs_mentions_claim take = {.agent_id = "ann", .session_id = "ann-1"};
    assert_ok(f, dibs_channel_create(f->d, f->a, &make, &channel, &f->err));
    assert_ok(f, dibs_channel_post(f->d, f->a, &say, &post, &f->err));
    assert_ok(f, dibs_mentions_claim(f->d, f->a, &take, &mentions, &f->err));
}

/* Session ann-1 of lead ann, whose process is PID, holds one of each kind, for half an hour. */
static void given_one_of_each_kind(struct fixture *f)
{
    struct dibs_agent agent = {0};
    struct dibs_session session = {0};
    struct dibs_claim lock = {0};
    struct dibs_agent_new ann = {.id = "ann", .is_lead = DIBS_VALUE(1), .max_tasks = DIBS_VALUE(9)};
    struct dibs_session_new who = {.id = "ann-1", .agent_id = "ann", .pid = PID};
    struct dibs_lock_take take = {.resource = "r", .session_id = "ann-1", .ttl_ms = MINUTES(30)};
    world_start_process(&f->world, PID);
    assert_ok(f, dibs_agent_register(f->d, f->a, &ann, &agent, &f->err));
    assert_ok(f, dibs_session_register(f->d, f->a, &who, &session, &f->err));
    make_worker(f, "wim");
    make_task(f, "done");
    assert_ok(f, try_claim(f, "done", "wim-1", 0));
    assert_ok(f, try_complete(f, "done", "wim-1", 0, NULL));
    make_task(f, "work");
    make_task(f, "offer");
    assert_ok(f, try_claim(f, "work", "ann-1", 0));
    assert_ok(f, try_move(f, dibs_task_offer, "offer", "ann"));
    assert_ok(f, try_review(f, "offer", "ann-1"));
    assert_ok(f, dibs_lock_take(f->d, f->a, &take, &lock, &f->err));
    make_message(f, "m");
    assert_string_equal(take_for(f, "ann", "ann-1", 0), "m");
    given_mentions(f);
    assert_string_equal(told(f, "ann", "ann-1", true), "done");
}

static void assert_all_held(struct fixture *f)
{
    assert_status(f, "work", "in_progress");
    assert_status(f, "offer", "reviewing");
    assert_message(f, "m", "processing");
    assert_int_equal(query_int(f, "SELECT count(*) FROM claim WHERE ended_at IS NULL"), 6);
}

/* Everything is back where it was, and in this many events of this reason. */
static void assert_all_back(struct fixture *f, const char *reason)
{
    assert_status(f, "work", "open");
    assert_status(f, "offer", "offered");
    assert_message(f, "m", "unread");
    assert_int_equal(query_int(f, "SELECT count(*) FROM claim WHERE ended_at IS NULL"), 0);
    assert_int_equal(query_int(f, "SELECT count(*) FROM channel_reader WHERE token > 0"), 0);
    assert_int_equal(query_int(f, "SELECT count(*) FROM notice WHERE token > 0"), 0);
    assert_int_equal(query_int(f, "SELECT count(*) FROM notice WHERE notified_at IS NULL"), 1);
    const char *types[] = {"inbox:released", "mentions:released", "notices:released"};
    for (size_t i = 0; i < 3; i++) {
        struct dibs_event_list events = events_of(f, types[i]);
        assert_int_equal(events.count, 1);
        assert_string_equal(event_field(f, &events.items[0], "reason"), reason);
        assert_string_equal(events.items[0].session_id, "ann-1");
    }
}

static void assert_kinds(const struct dibs_claim_list *list)
{
    assert_int_equal(list->count, 6);
    for (size_t i = 0; i < list->count; i++) {
        assert_string_equal(list->items[i].kind, kinds[i]);
        assert_true((list->items[i].task_id == NULL) != (list->items[i].resource == NULL));
    }
    assert_string_equal(list->items[2].resource, "r");
    assert_string_equal(list->items[3].resource, "m");
    assert_string_equal(list->items[4].resource, "ann/ops");
    assert_string_equal(list->items[5].resource, "done");
}

/* ---- held ------------------------------------------------------------------------------------ */

static void test_one_heartbeat_renews_every_kind(void **state)
{
    struct fixture *f = *state;
    given_one_of_each_kind(f);
    for (int i = 0; i < 4; i++) {
        world_pass(&f->world, MINUTES(20));
        struct dibs_session_news news = beat(f, "ann-1");
        assert_kinds(&news.renewed);
        assert_int_equal(news.lost.count, 0);
        for (size_t k = 0; k < 6; k++)
            assert_int_equal(news.renewed.items[k].remaining_ms, MINUTES(30));
    }
    assert_all_held(f);
}

static void test_locks_and_tasks_are_counted_apart_from_the_rest(void **state)
{
    struct fixture *f = *state;
    struct dibs_stats stats = {0};
    struct dibs_in_flight flying = {0};
    struct dibs_claim_list locks = {0};
    given_one_of_each_kind(f);
    struct dibs_session s = get_session(f, "ann-1");
    assert_int_equal(s.locks_live, 1);
    assert_int_equal(s.claims_live, 5);
    assert_int_equal(s.claims_total, 1);
    assert_string_equal(s.current->task.id, "offer"); /* the newest on a task */
    assert_ok(f, dibs_stats(f->d, f->a, &stats, &f->err));
    assert_int_equal(stats.total, 1);
    assert_int_equal(stats.active, 1);
    struct dibs_in_flight_filter all = {0};
    assert_ok(f, dibs_in_flight(f->d, f->a, &all, &flying, &f->err));
    assert_int_equal(flying.total, 1);
    struct dibs_lock_filter any = {0};
    assert_ok(f, dibs_lock_list(f->d, f->a, &any, &locks, &f->err));
    assert_int_equal(locks.count, 1);
}

static void test_time_in_which_nobody_could_be_heard_counts_for_no_kind(void **state)
{
    struct fixture *f = *state;
    dibs__serve(f->d);
    assert_int_equal(after_downtime(f), 0);
    given_one_of_each_kind(f);
    fixture_reopen(f);
    world_pass(&f->world, MINUTES(100)); /* the daemon is away */
    dibs__serve(f->d);
    assert_int_equal(after_downtime(f), MINUTES(100));
    assert_int_equal(tend(f).expired, 0);
    assert_all_held(f);
    struct dibs_session_news news = beat(f, "ann-1");
    assert_kinds(&news.renewed);
}

static void test_a_clock_that_is_set_moves_the_leases_of_every_kind(void **state)
{
    struct fixture *f = *state;
    given_one_of_each_kind(f);
    world_set_clock(&f->world, f->world.wall_ms + MINUTES(500));
    struct dibs_session_news news = beat(f, "ann-1");
    assert_kinds(&news.renewed);
    assert_all_held(f);
}

/* ---- every way back -------------------------------------------------------------------------- */

static void test_every_kind_comes_back_when_its_lease_ends(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    given_one_of_each_kind(f);
    world_pass(&f->world, MINUTES(30));
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    assert_int_equal(cleaned.count, 5);
    assert_int_equal(query_int(f, "SELECT count(*) FROM claim WHERE ended_at IS NULL"), 1);
    assert_ok(f, dibs_cleanup_locks(f->d, f->a, &cleaned, &f->err));
    assert_string_equal(cleaned.claims[0].kind, "lock");
    assert_all_back(f, "expired");
}

static void test_a_daemon_ends_every_kind_at_its_deadline(void **state)
{
    struct fixture *f = *state;
    dibs__serve(f->d);
    assert_int_equal(after_downtime(f), 0);
    given_one_of_each_kind(f);
    int64_t deadline = now_ms(f) + MINUTES(30);
    world_pass(&f->world, MINUTES(29) + SECONDS(30));
    tend(f);
    assert_event_count(f, "task:claim-expiring", 1); /* only tasks are warned of */
    assert_int_equal(tend(f).next_ms, deadline);
    world_pass(&f->world, SECONDS(30) - 1);
    assert_int_equal(tend(f).expired, 0);
    assert_all_held(f);
    world_pass(&f->world, 1);
    struct dibs_due due = tend(f);
    assert_int_equal(due.expired, 5);
    assert_int_equal(due.locks, 1);
    assert_all_back(f, "expired");
}

static void test_a_late_heartbeat_tells_of_every_kind_that_was_lost(void **state)
{
    struct fixture *f = *state;
    given_one_of_each_kind(f);
    world_pass(&f->world, MINUTES(30));
    struct dibs_session_news news = beat(f, "ann-1");
    assert_int_equal(news.renewed.count, 0);
    assert_kinds(&news.lost);
    assert_all_back(f, "expired");
    assert_int_equal(beat(f, "ann-1").lost.count, 0);
}

static void test_every_kind_comes_back_from_a_dead_process(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    struct dibs_orphan_options options = {.check_process = true};
    given_one_of_each_kind(f);
    assert_ok(f, dibs_cleanup_orphaned(f->d, f->a, &options, &cleaned, &f->err));
    assert_int_equal(cleaned.count, 0);
    world_kill_process(&f->world, PID);
    assert_ok(f, dibs_cleanup_orphaned(f->d, f->a, &options, &cleaned, &f->err));
    assert_int_equal(cleaned.count, 5);
    assert_int_equal(cleaned.locks, 1);
    assert_all_back(f, "process_dead");
    struct dibs_session_news news = beat(f, "ann-1"); /* it was not quite dead */
    assert_kinds(&news.lost);
}

static void test_a_daemon_that_sees_a_process_end_puts_every_kind_back(void **state)
{
    struct fixture *f = *state;
    given_one_of_each_kind(f);
    world_kill_process(&f->world, PID);
    assert_ok(f, dibs__session_process_ended(f->d, f->a, "ann-1", 1, &f->err));
    assert_all_back(f, "process_dead");
    assert_int_equal(get_session(f, "ann-1").status, DIBS_SESSION_ENDED);
}

static void test_every_kind_comes_back_from_a_silent_session(void **state)
{
    struct fixture *f = *state;
    struct dibs_stale_sessions stale = {0};
    given_one_of_each_kind(f);
    /* so nobody can tell whether the process lives */
    snprintf(f->world.host, sizeof f->world.host, "elsewhere");
    world_pass(&f->world, MINUTES(10) + 1);
    assert_ok(f, dibs_cleanup_sessions(f->d, f->a, &stale, &f->err));
    assert_true(stale.ended >= 1);
    assert_all_back(f, "session_stale");
}

static void test_a_session_that_ends_gives_every_kind_back(void **state)
{
    struct fixture *f = *state;
    struct dibs_deregistered gone = {0};
    given_one_of_each_kind(f);
    assert_ok(f, dibs_session_deregister(f->d, f->a, "ann-1", &gone, &f->err));
    assert_int_equal(gone.claims_released, 5);
    assert_int_equal(gone.locks_released, 1);
    assert_all_back(f, "session_deregistered");
    assert_int_equal(get_task(f, "work").attempts, 0); /* the attempt was not made */
}

static void test_all_that_a_session_holds_but_locks_can_be_taken_from_it(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    given_one_of_each_kind(f);
    assert_ok(f,
              dibs_release_session_claims(f->d, f->a, "ann-1", "session_stale", &cleaned, &f->err));
    assert_int_equal(cleaned.count, 5);
    assert_event_count(f, "task:claim-orphaned", 0); /* whatever the reason is called */
    assert_event_count(f, "task:released", 1);
    struct dibs_session_news news = beat(f, "ann-1");
    assert_int_equal(news.lost.count, 5);
    assert_int_equal(news.renewed.count, 1);
    assert_string_equal(news.renewed.items[0].kind, "lock");
}

static void test_a_lease_that_was_over_before_is_expired_whatever_the_reason(void **state)
{
    struct fixture *f = *state;
    struct dibs_deregistered gone = {0};
    given_one_of_each_kind(f);
    world_pass(&f->world, MINUTES(30));
    world_kill_process(&f->world, PID);
    assert_ok(f, dibs_session_deregister(f->d, f->a, "ann-1", &gone, &f->err));
    assert_all_back(f, "expired");
}

static void test_what_came_back_is_handed_out_again_under_a_larger_token(void **state)
{
    struct fixture *f = *state;
    struct dibs_mentions_list mentions = {0};
    given_one_of_each_kind(f);
    int64_t last = query_int(f, "SELECT max(token) FROM claim");
    make_lead(f, "bob");
    make_agent_session(f, "ann-2", "ann");
    world_pass(&f->world, MINUTES(30));
    assert_string_equal(take_for(f, "bob", "bob-1", 0), "m");
    assert_string_equal(told(f, "bob", "bob-1", true), "done");
    struct dibs_mentions_claim take = {.agent_id = "ann", .session_id = "ann-2"};
    assert_ok(f, dibs_mentions_claim(f->d, f->a, &take, &mentions, &f->err));
    assert_true(get_message(f, "m").claim->token > last);
    assert_true(mentions.items[0].claim.token > last);
}

/* ---- verify ---------------------------------------------------------------------------------- */

static const char *journal_finding(struct fixture *f)
{
    struct dibs_diagnosis found = {0};
    const char *text = "the journal was not looked at";
    assert_ok(f, dibs_diagnose(f->d, f->a, true, &found, &f->err));
    for (size_t i = 0; i < found.count; i++)
        if (strcmp(found.items[i].subject, "journal") == 0)
            text = found.items[i].level == DIBS_BAD ? found.items[i].text : "fine";
    return text;
}

#define PLANTED(name, sql, expected)                                                               \
    static void name(void **state)                                                                 \
    {                                                                                              \
        struct fixture *f = *state;                                                                \
        given_one_of_each_kind(f);                                                                 \
        assert_string_equal(journal_finding(f), "fine");                                           \
        f->skip_verify = true;                                                                     \
        plant(f, sql);                                                                             \
        const char *text = journal_finding(f);                                                     \
        if (!strstr(text, expected))                                                               \
            fail_msg("found '%s' instead of '%s'", text, expected);                                \
    }
PLANTED(test_a_message_in_hand_that_nobody_holds_is_found,
        "UPDATE claim SET ended_at = 1, end_reason = 'x' WHERE kind = 'inbox'",
        "1 messages, mentions or notices are held by nobody, 0 live claims hold none")
PLANTED(test_a_live_claim_on_an_unread_message_is_found,
        "UPDATE inbox_message SET status = 'unread'",
        "0 messages, mentions or notices are held by nobody, 1 live claims hold none")
PLANTED(test_a_claim_with_another_token_than_its_message_is_found,
        "UPDATE inbox_message SET token = token + 100",
        "1 messages, mentions or notices are held by nobody, 1 live claims hold none")
PLANTED(test_mentions_that_nobody_reads_are_found,
        "UPDATE claim SET ended_at = 1, end_reason = 'x' WHERE kind = 'mentions'",
        "1 messages, mentions or notices are held by nobody, 0 live claims hold none")
PLANTED(test_a_live_claim_on_no_mentions_is_found,
        "UPDATE channel_reader SET token = NULL, claimed_upto = NULL",
        "0 messages, mentions or notices are held by nobody, 1 live claims hold none")
PLANTED(test_a_notice_that_nobody_is_told_is_found,
        "UPDATE claim SET ended_at = 1, end_reason = 'x' WHERE kind = 'notice'",
        "1 messages, mentions or notices are held by nobody, 0 live claims hold none")
PLANTED(test_a_live_claim_on_no_notice_is_found, "UPDATE notice SET token = NULL",
        "0 messages, mentions or notices are held by nobody, 1 live claims hold none")
PLANTED(test_a_notice_without_a_mark_is_found, "UPDATE task SET parts = 0 WHERE id = 'done'",
        "1 notices belong to tasks without a mark")
PLANTED(test_a_message_answered_by_hand_is_found,
        "INSERT INTO inbox_message (key, id, project, source, status, content, created_at, "
        "updated_at) VALUES (99, 'n', 'p', 's', 'read', 'c', 1, 1); "
        "UPDATE event SET data = json_set(data, '$.messageId', 'n') WHERE type = 'inbox:received'",
        "message 'n' is read, its newest event says unread")
PLANTED(test_a_grant_of_a_message_without_an_event_is_found,
        "UPDATE event SET type = 'inbox:noted' WHERE type = 'inbox:claimed'",
        "is live, but the journal has ended it")

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_one_heartbeat_renews_every_kind),
        STORE_TEST(test_locks_and_tasks_are_counted_apart_from_the_rest),
        STORE_TEST(test_time_in_which_nobody_could_be_heard_counts_for_no_kind),
        STORE_TEST(test_a_clock_that_is_set_moves_the_leases_of_every_kind),
        STORE_TEST(test_every_kind_comes_back_when_its_lease_ends),
        STORE_TEST(test_a_daemon_ends_every_kind_at_its_deadline),
        STORE_TEST(test_a_late_heartbeat_tells_of_every_kind_that_was_lost),
        STORE_TEST(test_every_kind_comes_back_from_a_dead_process),
        STORE_TEST(test_a_daemon_that_sees_a_process_end_puts_every_kind_back),
        STORE_TEST(test_every_kind_comes_back_from_a_silent_session),
        STORE_TEST(test_a_session_that_ends_gives_every_kind_back),
        STORE_TEST(test_all_that_a_session_holds_but_locks_can_be_taken_from_it),
        STORE_TEST(test_a_lease_that_was_over_before_is_expired_whatever_the_reason),
        STORE_TEST(test_what_came_back_is_handed_out_again_under_a_larger_token),
        STORE_TEST(test_a_message_in_hand_that_nobody_holds_is_found),
        STORE_TEST(test_a_live_claim_on_an_unread_message_is_found),
        STORE_TEST(test_a_claim_with_another_token_than_its_message_is_found),
        STORE_TEST(test_mentions_that_nobody_reads_are_found),
        STORE_TEST(test_a_live_claim_on_no_mentions_is_found),
        STORE_TEST(test_a_notice_that_nobody_is_told_is_found),
        STORE_TEST(test_a_live_claim_on_no_notice_is_found),
        STORE_TEST(test_a_notice_without_a_mark_is_found),
        STORE_TEST(test_a_message_answered_by_hand_is_found),
        STORE_TEST(test_a_grant_of_a_message_without_an_event_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
