/* SPDX-License-Identifier: MIT */
/*
 * Tests of claims in src/core/mention.c: the mentions of an agent in a channel are with one session
 * at a time, come back when it does not finish, and none is lost or counted as read unseen.
 */
#include "channels.h"

#include "base/base.h"
#include "core/serve.h"

#define HALF_HOUR MINUTES(30) /* defaultTTL */

/* Agents bob (sessions s, t) and ann (session u); channels x, y, z. */
static void given_swarm(struct fixture *f)
{
    make_channel(f, "x");
    make_channel(f, "y");
    make_channel(f, "z");
    make_agent_session(f, "s", "bob");
    make_agent_session(f, "t", "bob");
    make_agent_session(f, "u", "ann");
}

static struct dibs_session_news beat(struct fixture *f, const char *session)
{
    struct dibs_session_news news = {0};
    assert_ok(f, dibs_session_heartbeat(f->d, f->a, session, &news, &f->err));
    return news;
}

static int64_t release(struct fixture *f, const char *session, bool read)
{
    return release_mentions(
        f, (struct dibs_mentions_release){.agent_id = "bob", .session_id = session, .read = read});
}

static int64_t count_live(struct fixture *f)
{
    return query_int(f, "SELECT count(*) FROM claim WHERE kind = 'mentions' AND ended_at IS NULL");
}

/* ---- claiming -------------------------------------------------------------------------------- */

static void test_unread_mentions_are_claimed_channel_by_channel_with_their_count(void **state)
{
    struct fixture *f = *state;
    given_swarm(f);
    post(f, "y", "@bob one");
    post(f, "x", "@bob two");
    post(f, "x", "@ann and nobody else");
    post(f, "x", "@bob three");
    post(f, "z", "nobody");
    struct dibs_mentions_list got = claim_mentions(f, "bob", "s");
    assert_int_equal(got.count, 2);
    assert_int_equal(got.mentions, 3);
    assert_string_equal(got.items[0].channel_id, "x");
    assert_int_equal(got.items[0].count, 2);
    assert_string_equal(got.items[1].channel_id, "y");
    assert_int_equal(got.items[1].count, 1);
    assert_string_equal(got.items[0].claim.session_id, "s");
    assert_string_equal(got.items[0].claim.resource, "bob/x");
    assert_int_equal(got.items[0].claim.ttl_ms, HALF_HOUR);
    assert_int_equal(got.items[0].claim.expires_at_ms, f->world.wall_ms + HALF_HOUR);
    assert_true(got.items[1].claim.token > got.items[0].claim.token);
    struct dibs_event_list events = events_of(f, "mentions:claimed");
    assert_int_equal(events.count, 2);
    assert_string_equal(event_field(f, &events.items[0], "agentId"), "bob");
    assert_string_equal(event_field(f, &events.items[0], "channelId"), "x");
    assert_string_equal(event_field(f, &events.items[0], "sessionId"), "s");
    assert_int_equal(event_int(f, &events.items[0], "count"), 2);
    assert_int_equal(event_int(f, &events.items[0], "claimedUpto"), 4);
    assert_int_equal(event_int(f, &events.items[0], "token"), got.items[0].claim.token);
}

static void test_mentions_are_with_one_session_at_a_time(void **state)
{
    struct fixture *f = *state;
    given_swarm(f);
    post(f, "x", "@bob @ann");
    claim_mentions(f, "bob", "s");
    assert_no_mentions(f, "bob", "t");
    assert_no_mentions(f, "bob", "s"); /* nor twice with the same */
    assert_int_equal(claim_mentions(f, "ann", "u").mentions, 1);
    post(f, "y", "@bob"); /* another channel is another claim */
    struct dibs_mentions_list got = claim_mentions(f, "bob", "t");
    assert_int_equal(got.count, 1);
    assert_string_equal(got.items[0].channel_id, "y");
    assert_int_equal(count_live(f), 3);
}

static void test_claiming_marks_nothing_as_read(void **state)
{
    struct fixture *f = *state;
    given_swarm(f);
    post(f, "x", "@bob");
    claim_mentions(f, "bob", "s");
    assert_int_equal(query_int(f, "SELECT read_upto FROM channel_reader"), 0);
    assert_int_equal(read_as(f, "x", "bob", "s").count, 1);
}

static void test_bad_claims_are_refused(void **state)
{
    struct fixture *f = *state;
    struct dibs_mentions_list out = {0};
    given_swarm(f);
    post(f, "x", "@bob");
    assert_refused(f, DIBS_AGENT_NOT_FOUND, try_mentions(f, "nosuch", "s", 0, &out));
    assert_refused(f, DIBS_SESSION_NOT_FOUND, try_mentions(f, "bob", "nosuch", 0, &out));
    assert_refused(f, DIBS_INVALID_REQUEST, try_mentions(f, "bob", "u", 0, &out));
    assert_string_equal(f->err.field, "sessionId");
    assert_refused(f, DIBS_INVALID_REQUEST, try_mentions(f, NULL, "s", 0, &out));
    assert_string_equal(f->err.field, "agentId");
    assert_refused(f, DIBS_INVALID_REQUEST, try_mentions(f, "bob", NULL, 0, &out));
    assert_string_equal(f->err.field, "sessionId");
    assert_refused(f, DIBS_INVALID_REQUEST, try_mentions(f, "bob", "s", 1, &out));
    assert_string_equal(f->err.field, "ttlMs");
    assert_int_equal(out.count, 0);
    assert_int_equal(count_live(f), 0);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void test_reading_ends_the_claim_and_the_mentions_are_read(void **state)
{
    struct fixture *f = *state;
    given_swarm(f);
    post(f, "x", "@bob");
    struct dibs_mentions_list got = claim_mentions(f, "bob", "s");
    world_pass(&f->world, SECONDS(20));
    assert_int_equal(read_as(f, "x", "bob", "s").count, 1);
    assert_int_equal(count_live(f), 0);
    assert_no_mentions(f, "bob", "t");
    struct dibs_event_list events = events_of(f, "mentions:released");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "reason"), "read");
    assert_int_equal(event_int(f, &events.items[0], "token"), got.items[0].claim.token);
    assert_int_equal(event_int(f, &events.items[0], "heldForMs"), SECONDS(20));
    events = events_of(f, "mentions:read");
    assert_int_equal(events.count, 1);
    assert_int_equal(event_int(f, &events.items[0], "readUpto"), 1);
    assert_int_equal(beat(f, "s").lost.count, 0); /* it let go by itself */
}

static void test_reading_a_part_keeps_the_claim_until_all_it_was_for_is_read(void **state)
{
    struct fixture *f = *state;
    struct dibs_post_list part = {0};
    given_swarm(f);
    post(f, "x", "first");
    post(f, "x", "@bob");
    post(f, "x", "@bob again");
    claim_mentions(f, "bob", "s");
    post(f, "x", "@bob later");
    assert_ok(f, try_read(f, "x", "bob", "s", 2, &part));
    assert_int_equal(count_live(f), 1);
    assert_ok(f, try_read(f, "x", "bob", "s", 1, &part));
    assert_int_equal(count_live(f), 0);
    assert_int_equal(claim_mentions(f, "bob", "t").mentions, 1); /* the later one */
}

static void test_nobody_but_the_holder_reads_claimed_mentions_away(void **state)
{
    struct fixture *f = *state;
    struct dibs_post_list out = {0};
    given_swarm(f);
    post(f, "x", "@bob @ann");
    claim_mentions(f, "bob", "s");
    world_pass(&f->world, MINUTES(10));
    assert_refused(f, DIBS_NOT_CLAIM_OWNER, try_read(f, "x", "bob", "t", 0, &out));
    assert_string_equal(f->err.holder, "s");
    assert_int_equal(f->err.remaining_ms, MINUTES(20));
    assert_refused(f, DIBS_NOT_CLAIM_OWNER, try_read(f, "x", "bob", NULL, 0, &out));
    assert_int_equal(read_as(f, "x", "ann", "u").count, 1); /* another agent is not concerned */
    assert_int_equal(count_live(f), 1);
    assert_int_equal(read_as(f, "x", "bob", "s").count, 1);
}

static void test_mentions_that_were_read_are_not_offered(void **state)
{
    struct fixture *f = *state;
    given_swarm(f);
    post(f, "x", "@bob");
    assert_int_equal(read_as(f, "x", "bob", NULL).count, 1);
    assert_no_mentions(f, "bob", "s");
    post(f, "x", "@bob");
    assert_int_equal(claim_mentions(f, "bob", "s").mentions, 1);
}

/* ---- letting go ------------------------------------------------------------------------------ */

static void test_released_mentions_are_offered_again(void **state)
{
    struct fixture *f = *state;
    given_swarm(f);
    post(f, "x", "@bob");
    post(f, "y", "@bob");
    claim_mentions(f, "bob", "s");
    assert_int_equal(release(f, "s", false), 2);
    assert_int_equal(release(f, "s", false), 0); /* a repeat changes nothing */
    assert_int_equal(claim_mentions(f, "bob", "t").mentions, 2);
    assert_event_count(f, "mentions:released", 2);
    assert_event_count(f, "mentions:read", 0);
}

static void test_a_mention_that_came_meanwhile_is_offered_after_the_others_are_read(void **state)
{
    struct fixture *f = *state;
    given_swarm(f);
    post(f, "x", "@bob one");
    claim_mentions(f, "bob", "s");
    post(f, "x", "@bob two");
    assert_no_mentions(f, "bob", "t");
    assert_int_equal(release(f, "s", true), 1);
    struct dibs_mentions_list got = claim_mentions(f, "bob", "t");
    assert_int_equal(got.mentions, 1);
    struct dibs_post_list unread = read_as(f, "x", "bob", "t");
    assert_int_equal(unread.count, 1);
    assert_string_equal(unread.items[0].content, "@bob two");
}

static void test_release_lets_go_of_the_named_channels_only(void **state)
{
    struct fixture *f = *state;
    struct dibs_strings only_y = DIBS_STRINGS("y"), twice = DIBS_STRINGS("x", "x", "z");
    struct dibs_mentions_release in = {.agent_id = "bob", .session_id = "s"};
    given_swarm(f);
    post(f, "x", "@bob");
    post(f, "y", "@bob");
    claim_mentions(f, "bob", "s");
    in.channel_ids = &only_y;
    assert_int_equal(release_mentions(f, in), 1);
    assert_int_equal(count_live(f), 1);
    struct dibs_mentions_list got = claim_mentions(f, "bob", "t");
    assert_int_equal(got.count, 1);
    assert_string_equal(got.items[0].channel_id, "y");
    in.channel_ids = &twice; /* twice the same, and one in which nothing is claimed */
    assert_int_equal(release_mentions(f, in), 1);
}

static void test_what_others_hold_is_not_released(void **state)
{
    struct fixture *f = *state;
    int64_t released = 0;
    struct dibs_strings both = DIBS_STRINGS("x", "y"), unknown = DIBS_STRINGS("x", "nosuch");
    struct dibs_mentions_release in = {.agent_id = "bob", .session_id = "s"};
    given_swarm(f);
    post(f, "x", "@bob");
    claim_mentions(f, "bob", "s");
    post(f, "y", "@bob");
    claim_mentions(f, "bob", "t");
    in.channel_ids = &both;
    assert_refused(f, DIBS_NOT_CLAIM_OWNER,
                   dibs_mentions_release(f->d, f->a, &in, &released, &f->err));
    assert_string_equal(f->err.holder, "t");
    in.channel_ids = &unknown;
    assert_refused(f, DIBS_CHANNEL_NOT_FOUND,
                   dibs_mentions_release(f->d, f->a, &in, &released, &f->err));
    assert_int_equal(count_live(f), 2); /* all or none */
    in.channel_ids = NULL;
    in.session_id = "u";
    assert_refused(f, DIBS_INVALID_REQUEST,
                   dibs_mentions_release(f->d, f->a, &in, &released, &f->err));
    in.session_id = "nosuch";
    assert_refused(f, DIBS_SESSION_NOT_FOUND,
                   dibs_mentions_release(f->d, f->a, &in, &released, &f->err));
    assert_int_equal(release(f, "s", false), 1); /* its own, of all */
    assert_int_equal(count_live(f), 1);
}

static void test_who_holds_mentions_lets_go_of_them_whatever_its_agent_is_now(void **state)
{
    struct fixture *f = *state;
    int64_t released = 0;
    struct dibs_strings only_y = DIBS_STRINGS("y");
    struct dibs_mentions_release in = {.agent_id = "bob", .session_id = "s"};
    given_swarm(f);
    post(f, "x", "@bob");
    post(f, "y", "@bob");
    claim_mentions(f, "bob", "s");
    make_agent_session(f, "s", "ann");
    in.channel_ids = &only_y;
    assert_int_equal(release_mentions(f, in), 1);
    in.channel_ids = NULL;
    assert_int_equal(release_mentions(f, in), 1);
    assert_int_equal(count_live(f), 0);
    assert_refused(f, DIBS_INVALID_REQUEST, /* it holds none of them any more */
                   dibs_mentions_release(f->d, f->a, &in, &released, &f->err));
    assert_int_equal(read_as(f, "x", "bob", "t").count, 1);
}

/* ---- ends that nobody asked for -------------------------------------------------------------- */

static void test_a_lease_that_ends_gives_all_back_unread(void **state)
{
    struct fixture *f = *state;
    given_swarm(f);
    post(f, "x", "@bob one");
    claim_mentions(f, "bob", "s");
    post(f, "x", "@bob two");
    world_pass(&f->world, HALF_HOUR - 1);
    assert_no_mentions(f, "bob", "t");
    world_pass(&f->world, 1);
    struct dibs_mentions_list got = claim_mentions(f, "bob", "t");
    assert_int_equal(got.mentions, 2);
    struct dibs_event_list events = events_of(f, "mentions:released");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "reason"), "expired");
    assert_event_count(f, "mentions:read", 0);
    struct dibs_session_news news = beat(f, "s"); /* the session is told of its loss, once */
    assert_int_equal(news.lost.count, 1);
    assert_string_equal(news.lost.items[0].resource, "bob/x");
    assert_int_equal(beat(f, "s").lost.count, 0);
}

static void test_who_reads_or_releases_too_late_takes_nothing_from_the_next(void **state)
{
    struct fixture *f = *state;
    struct dibs_post_list out = {0};
    given_swarm(f);
    post(f, "x", "@bob");
    claim_mentions(f, "bob", "s");
    world_pass(&f->world, HALF_HOUR);
    assert_int_equal(release(f, "s", true), 0); /* too late: nothing is marked */
    assert_int_equal(claim_mentions(f, "bob", "t").mentions, 1);
    assert_refused(f, DIBS_NOT_CLAIM_OWNER, try_read(f, "x", "bob", "s", 0, &out));
    assert_int_equal(release(f, "s", true), 0);
    assert_int_equal(read_as(f, "x", "bob", "t").count, 1);
}

static void test_reading_after_the_lease_is_reading_without_one(void **state)
{
    struct fixture *f = *state;
    given_swarm(f);
    post(f, "x", "@bob");
    claim_mentions(f, "bob", "s");
    world_pass(&f->world, HALF_HOUR);
    assert_int_equal(read_as(f, "x", "bob", "t").count, 1);
    assert_no_mentions(f, "bob", "s");
    assert_int_equal(count_live(f), 0);
}

static void test_a_heartbeat_of_the_session_keeps_its_mentions(void **state)
{
    struct fixture *f = *state;
    given_swarm(f);
    post(f, "x", "@bob");
    claim_mentions(f, "bob", "s");
    for (int i = 0; i < 4; i++) {
        world_pass(&f->world, MINUTES(20));
        assert_int_equal(beat(f, "s").renewed.count, 1);
        beat(f, "t");
        assert_no_mentions(f, "bob", "t");
    }
}

static void test_a_sweep_puts_back_what_is_past(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    given_swarm(f);
    post(f, "x", "@bob");
    claim_mentions(f, "bob", "s");
    world_pass(&f->world, HALF_HOUR);
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    assert_int_equal(cleaned.count, 1);
    assert_int_equal(count_live(f), 0);
    assert_int_equal(query_int(f, "SELECT count(*) FROM channel_reader WHERE token IS NOT NULL"),
                     0);
    assert_int_equal(claim_mentions(f, "bob", "t").mentions, 1);
}

static void test_a_session_that_ends_gives_its_mentions_back(void **state)
{
    struct fixture *f = *state;
    struct dibs_deregistered gone = {0};
    given_swarm(f);
    post(f, "x", "@bob");
    claim_mentions(f, "bob", "s");
    assert_ok(f, dibs_session_deregister(f->d, f->a, "s", &gone, &f->err));
    assert_int_equal(claim_mentions(f, "bob", "t").mentions, 1);
}

static void test_mentions_of_a_dead_process_are_free_at_once(void **state)
{
    struct fixture *f = *state;
    struct dibs_session out = {0};
    struct dibs_session_new in = {.id = "p", .agent_id = "bob", .pid = 4711};
    given_swarm(f);
    world_start_process(&f->world, 4711);
    assert_ok(f, dibs_session_register(f->d, f->a, &in, &out, &f->err));
    post(f, "x", "@bob");
    claim_mentions(f, "bob", "p");
    assert_no_mentions(f, "bob", "s");
    world_kill_process(&f->world, 4711);
    assert_int_equal(claim_mentions(f, "bob", "s").mentions, 1);
    struct dibs_event_list events = events_of(f, "mentions:released");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "reason"), "process_dead");
}

/* ---- counting -------------------------------------------------------------------------------- */

static void test_a_heartbeat_tells_how_many_nobody_is_at(void **state)
{
    struct fixture *f = *state;
    given_swarm(f);
    assert_int_equal(beat(f, "s").unread_mentions, 0);
    post(f, "x", "@bob @ann");
    post(f, "y", "@bob");
    assert_int_equal(beat(f, "s").unread_mentions, 2);
    claim_mentions(f, "bob", "t");
    assert_int_equal(beat(f, "s").unread_mentions, 0);
    post(f, "x", "@bob");
    assert_int_equal(beat(f, "s").unread_mentions, 1);
    assert_int_equal(release(f, "t", false), 2);
    assert_int_equal(beat(f, "s").unread_mentions, 3);
    read_as(f, "x", "bob", NULL);
    assert_int_equal(beat(f, "s").unread_mentions, 1);
    assert_int_equal(beat(f, "u").unread_mentions, 1);
}

/* ---- waking those who wait ------------------------------------------------------------------- */

static bool is_woken(struct fixture *f, const char *agent, int64_t since)
{
    return dibs__is_woken(f->d, since, dibs__wake_key(agent));
}

static void test_whoever_is_mentioned_is_woken_and_nobody_else(void **state)
{
    struct fixture *f = *state;
    dibs__serve(f->d);
    given_swarm(f);
    int64_t before = dibs__wakes(f->d).agents;
    post(f, "x", "nobody");
    assert_int_equal(dibs__wakes(f->d).agents, before);
    post(f, "x", "@bob @bob");
    assert_true(is_woken(f, "bob", before));
    assert_false(is_woken(f, "ann", before));
}

static void test_the_end_of_a_claim_wakes_the_agent_if_there_is_something_left(void **state)
{
    struct fixture *f = *state;
    dibs__serve(f->d);
    given_swarm(f);
    post(f, "x", "@bob");
    claim_mentions(f, "bob", "s");
    int64_t before = dibs__wakes(f->d).agents;
    assert_int_equal(release(f, "s", true), 1);
    assert_false(is_woken(f, "bob", before)); /* all is read */
    post(f, "x", "@bob");
    claim_mentions(f, "bob", "s");
    post(f, "x", "@bob"); /* meanwhile */
    before = dibs__wakes(f->d).agents;
    assert_int_equal(release(f, "s", true), 1);
    assert_true(is_woken(f, "bob", before));
    claim_mentions(f, "bob", "s");
    before = dibs__wakes(f->d).agents;
    world_pass(&f->world, HALF_HOUR);
    struct dibs_cleaned cleaned = {0};
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    assert_true(is_woken(f, "bob", before));
}

/* ---- a store that fails ---------------------------------------------------------------------- */

static dibs_status claim_again(struct fixture *f)
{
    struct dibs_mentions_list out = {0};
    return try_mentions(f, "bob", "s", 0, &out);
}

static dibs_status release_again(struct fixture *f)
{
    int64_t out = 0;
    struct dibs_strings both = DIBS_STRINGS("x", "y");
    struct dibs_mentions_release in = {
        .agent_id = "bob", .session_id = "s", .channel_ids = &both, .read = true};
    return dibs_mentions_release(f->d, f->a, &in, &out, &f->err);
}

static dibs_status read_again(struct fixture *f)
{
    struct dibs_post_list out = {0};
    return try_read(f, "x", "bob", "s", 0, &out);
}

static void test_a_failing_store_leaves_mentions_as_they_were(void **state)
{
    struct fixture *f = *state;
    given_swarm(f);
    post(f, "x", "@bob");
    post(f, "y", "@bob");
    assert_true(probe_fail_each(f, claim_again) > 5);
    assert_int_equal(count_live(f), 2);
    assert_true(probe_fail_each(f, release_again) > 5);
    assert_int_equal(count_live(f), 0);
    post(f, "x", "@bob");
    claim_mentions(f, "bob", "s");
    assert_true(probe_fail_each(f, read_again) > 5);
    assert_int_equal(count_live(f), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_unread_mentions_are_claimed_channel_by_channel_with_their_count),
        STORE_TEST(test_mentions_are_with_one_session_at_a_time),
        STORE_TEST(test_claiming_marks_nothing_as_read),
        STORE_TEST(test_bad_claims_are_refused),
        STORE_TEST(test_reading_ends_the_claim_and_the_mentions_are_read),
        STORE_TEST(test_reading_a_part_keeps_the_claim_until_all_it_was_for_is_read),
        STORE_TEST(test_nobody_but_the_holder_reads_claimed_mentions_away),
        STORE_TEST(test_mentions_that_were_read_are_not_offered),
        STORE_TEST(test_released_mentions_are_offered_again),
        STORE_TEST(test_a_mention_that_came_meanwhile_is_offered_after_the_others_are_read),
        STORE_TEST(test_release_lets_go_of_the_named_channels_only),
        STORE_TEST(test_what_others_hold_is_not_released),
        STORE_TEST(test_who_holds_mentions_lets_go_of_them_whatever_its_agent_is_now),
        STORE_TEST(test_a_lease_that_ends_gives_all_back_unread),
        STORE_TEST(test_who_reads_or_releases_too_late_takes_nothing_from_the_next),
        STORE_TEST(test_reading_after_the_lease_is_reading_without_one),
        STORE_TEST(test_a_heartbeat_of_the_session_keeps_its_mentions),
        STORE_TEST(test_a_sweep_puts_back_what_is_past),
        STORE_TEST(test_a_session_that_ends_gives_its_mentions_back),
        STORE_TEST(test_mentions_of_a_dead_process_are_free_at_once),
        STORE_TEST(test_a_heartbeat_tells_how_many_nobody_is_at),
        STORE_TEST(test_whoever_is_mentioned_is_woken_and_nobody_else),
        STORE_TEST(test_the_end_of_a_claim_wakes_the_agent_if_there_is_something_left),
        STORE_TEST(test_a_failing_store_leaves_mentions_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
