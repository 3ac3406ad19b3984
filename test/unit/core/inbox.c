/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/inbox.c: messages arrive, are listed, and are handed out once, oldest first, to
 * whom they are for; what is not answered comes back. Answers: inbox_answer.c.
 */
#include "inboxes.h"

#include "base/base.h"
#include "base/limits.h"

static void given_leads(struct fixture *f)
{
    make_lead(f, "ann");
    make_lead(f, "bob");
}

/* ---- arriving -------------------------------------------------------------------------------- */

static void test_a_message_is_kept_with_all_that_came_with_it(void **state)
{
    struct fixture *f = *state;
    make_lead(f, "ann");
    struct dibs_message_new in = {.id = "m",
                                  .project = "default",
                                  .agent_id = "ann",
                                  .source = "slack",
                                  .content = "@ann ü?",
                                  .channel = "C1",
                                  .thread = "17.1",
                                  .user = "U1",
                                  .matched_text = "@ann",
                                  .metadata = "{\"a\":1}"};
    assert_ok(f, try_message(f, in));
    struct dibs_message m = get_message(f, "m");
    assert_string_equal(m.agent_id, "ann");
    assert_string_equal(m.source, "slack");
    assert_string_equal(m.content, "@ann ü?");
    assert_string_equal(m.channel, "C1");
    assert_string_equal(m.thread, "17.1");
    assert_string_equal(m.user, "U1");
    assert_string_equal(m.matched_text, "@ann");
    assert_string_equal(m.metadata, "{\"a\":1}");
    assert_int_equal(m.status, DIBS_INBOX_UNREAD);
    assert_int_equal(m.created_at_ms, now_ms(f));
    assert_null(m.claim);
    struct dibs_event_list events = events_of(f, "inbox:received");
    assert_int_equal(events.count, 1);
    const char *fields[] = {"messageId", "status", "agentId", "source",      "content",
                            "channel",   "thread", "user",    "matchedText", NULL};
    const char *values[] = {"m", "unread", "ann", "slack", "@ann ü?", "C1", "17.1", "U1", "@ann"};
    for (size_t i = 0; fields[i]; i++)
        assert_string_equal(event_field(f, &events.items[0], fields[i]), values[i]);
}

static void test_without_an_id_a_message_gets_the_next_free_number(void **state)
{
    struct fixture *f = *state;
    struct dibs_message out = {0};
    struct dibs_message_new in = {.content = "c"};
    make_message(f, "2");
    assert_ok(f, dibs_inbox_add(f->d, f->a, &in, &out, &f->err));
    assert_string_equal(out.id, "3"); /* 1 was drawn for the place, 2 is taken */
    assert_string_equal(out.project, "default");
    assert_string_equal(out.source, "api");
    assert_null(out.agent_id);
}

static void test_a_message_for_an_agent_is_of_its_project_and_of_no_other(void **state)
{
    struct fixture *f = *state;
    struct dibs_agent agent = {0};
    struct dibs_agent_new far = {.id = "far", .project = "other"};
    assert_ok(f, dibs_agent_register(f->d, f->a, &far, &agent, &f->err));
    struct dibs_message_new in = {.id = "a", .content = "c", .agent_id = "far"};
    assert_ok(f, try_message(f, in));
    assert_string_equal(get_message(f, "a").project, "other");
    in.id = "b";
    in.project = "other";
    assert_ok(f, try_message(f, in));
    in.id = "c";
    in.project = "third";
    assert_refused(f, DIBS_AGENT_NOT_FOUND, try_message(f, in));
    assert_string_equal(f->err.message, "there is no agent 'far' in project 'third'");
}

static void test_what_cannot_be_a_message_is_refused_by_field(void **state)
{
    struct fixture *f = *state;
    make_message(f, "there");
    const struct {
        struct dibs_message_new in;
        const char *field;
    } rows[] = {
        {{.content = NULL}, "content"},
        {{.content = ""}, "content"},
        {{.content = repeated(f, 'c', 64 * 1024 + 1)}, "content"},
        {{.content = "\xff"}, "content"},
        {{.content = "c", .id = "a b"}, "id"},
        {{.content = "c", .id = "claim"}, "id"},
        {{.content = "c", .id = "there"}, "id"},
        {{.content = "c", .project = repeated(f, 'p', 129)}, "project"},
        {{.content = "c", .source = repeated(f, 's', 129)}, "source"},
        {{.content = "c", .channel = repeated(f, 's', 257)}, "channel"},
        {{.content = "c", .thread = repeated(f, 's', 257)}, "thread"},
        {{.content = "c", .user = repeated(f, 's', 257)}, "user"},
        {{.content = "c", .matched_text = repeated(f, 's', 1025)}, "matchedText"},
        {{.content = "c", .metadata = "{"}, "metadata"},
        {{.content = "c", .agent_id = "a b"}, "agentId"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_refused(f, DIBS_INVALID_REQUEST, try_message(f, rows[i].in));
        assert_string_equal(f->err.field, rows[i].field);
    }
    assert_refused(f, DIBS_AGENT_NOT_FOUND,
                   try_message(f, (struct dibs_message_new){.content = "c", .agent_id = "nobody"}));
    assert_event_count(f, "inbox:received", 1);
}

static void test_messages_are_listed_by_filters_and_in_pages(void **state)
{
    struct fixture *f = *state;
    given_leads(f);
    make_message(f, "a");
    assert_ok(f, try_message(f, (struct dibs_message_new){
                                    .id = "b", .content = "c", .agent_id = "ann", .source = "x"}));
    assert_ok(f, try_message(
                     f, (struct dibs_message_new){.id = "c", .content = "c", .project = "other"}));
    make_message(f, "d");
    assert_string_equal(take_for(f, "bob", "bob-1", 1), "a");
    const struct {
        struct dibs_inbox_filter in;
        const char *ids;
    } rows[] = {
        {{0}, "abcd"},
        {{.agent_id = "ann"}, "b"},
        {{.source = "x"}, "b"},
        {{.project = "other"}, "c"},
        {{.status = DIBS_VALUE(DIBS_INBOX_UNREAD)}, "bcd"},
        {{.status = DIBS_VALUE(DIBS_INBOX_PROCESSING)}, "a"},
        {{.project = "default", .source = "api"}, "ad"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dibs_message_list all = {0};
        char got[8] = "";
        size_t length = 0;
        assert_ok(f, dibs_inbox_list(f->d, f->a, &rows[i].in, &all, &f->err));
        for (size_t k = 0; k < all.count; k++)
            length += (size_t)snprintf(got + length, sizeof got - length, "%s", all.items[k].id);
        assert_string_equal(got, rows[i].ids);
        assert_null(all.next_cursor);
    }
    struct dibs_message_list page = {0};
    struct dibs_inbox_filter in = {.limit = 3};
    assert_ok(f, dibs_inbox_list(f->d, f->a, &in, &page, &f->err));
    assert_int_equal(page.count, 3);
    in.cursor = page.next_cursor;
    assert_non_null(in.cursor);
    assert_ok(f, dibs_inbox_list(f->d, f->a, &in, &page, &f->err));
    assert_int_equal(page.count, 1);
    assert_string_equal(page.items[0].id, "d");
    in.cursor = "x";
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_inbox_list(f->d, f->a, &in, &page, &f->err));
}

static int blocks;

static bool count_block(void)
{
    blocks++;
    return false;
}

static void test_a_list_holds_no_more_than_it_answers_with(void **state)
{
    struct fixture *f = *state;
    struct dibs_message_list list = {0};
    struct dibs_inbox_filter in = {.status = DIBS_VALUE(DIBS_INBOX_READ), .limit = 1};
    char *text = calloc(1, DESCRIPTION_BYTES_MAX + 1);
    assert_non_null(text);
    memset(text, 'z', DESCRIPTION_BYTES_MAX);
    for (int i = 0; i < 20; i++)
        assert_ok(f, try_message(f, (struct dibs_message_new){.content = text}));
    free(text);
    blocks = 0;
    mem_should_fail = count_block;
    dibs_status status = dibs_inbox_list(f->d, f->a, &in, &list, &f->err);
    mem_should_fail = NULL;
    assert_ok(f, status);
    assert_int_equal(list.count, 0);
    assert_true(blocks < 5); /* and not one for each of the messages */
}

/* ---- taking ---------------------------------------------------------------------------------- */

static void test_messages_are_taken_oldest_first_five_at_a_time(void **state)
{
    struct fixture *f = *state;
    given_leads(f);
    const char *all[] = {"m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8"};
    for (size_t i = 0; i < 8; i++)
        make_message(f, all[i]);
    assert_string_equal(take_for(f, "ann", "ann-1", 0), "m1 m2 m3 m4 m5");
    assert_string_equal(take_for(f, "bob", "bob-1", 2), "m6 m7");
    assert_string_equal(take_for(f, "bob", "bob-1", 0), "m8");
    assert_string_equal(take_for(f, "ann", "ann-1", 0), "");
    assert_string_equal(f->err.message, "there is no unread message for agent 'ann'");
    struct dibs_message m = get_message(f, "m6");
    assert_int_equal(m.status, DIBS_INBOX_PROCESSING);
    assert_string_equal(m.claim->session_id, "bob-1");
    assert_string_equal(m.claim->kind, "inbox");
    assert_string_equal(m.claim->resource, "m6");
    assert_int_equal(m.claim->ttl_ms, MINUTES(30));
    assert_int_equal(m.claim->expires_at_ms, now_ms(f) + MINUTES(30));
    assert_event_count(f, "inbox:claimed", 8);
}

static void test_messages_go_to_whom_they_are_for(void **state)
{
    struct fixture *f = *state;
    given_leads(f);
    make_worker(f, "wim");
    struct dibs_agent_new far = {.id = "far", .project = "other", .is_lead = DIBS_VALUE(1)};
    struct dibs_agent agent = {0};
    assert_ok(f, dibs_agent_register(f->d, f->a, &far, &agent, &f->err));
    make_agent_session(f, "far-1", "far");
    make_message(f, "leads");
    assert_ok(f, try_message(f, (struct dibs_message_new){
                                    .id = "wims", .content = "c", .agent_id = "wim"}));
    assert_ok(f, try_message(f, (struct dibs_message_new){
                                    .id = "bobs", .content = "c", .agent_id = "bob"}));
    assert_ok(f, try_message(f, (struct dibs_message_new){
                                    .id = "fars", .content = "c", .project = "other"}));
    assert_string_equal(take_for(f, "wim", "wim-1", 9), "wims");
    assert_string_equal(take_for(f, "wim", "wim-1", 9), ""); /* it is no lead */
    assert_string_equal(take_for(f, "far", "far-1", 9), "fars");
    assert_string_equal(take_for(f, "ann", "ann-1", 9), "leads");
    assert_string_equal(take_for(f, "bob", "bob-1", 9), "bobs");
}

static void test_a_leads_own_and_the_common_messages_come_in_one_order(void **state)
{
    struct fixture *f = *state;
    given_leads(f);
    make_message(f, "1st");
    assert_ok(f, try_message(
                     f, (struct dibs_message_new){.id = "2nd", .content = "c", .agent_id = "ann"}));
    make_message(f, "3rd");
    assert_string_equal(take_for(f, "ann", "ann-1", 2), "1st 2nd");
}

static void test_taking_needs_an_agent_and_a_session_of_it(void **state)
{
    struct fixture *f = *state;
    given_leads(f);
    make_session(f, "alone");
    make_message(f, "m");
    const struct {
        struct dibs_inbox_claim in;
        dibs_status status;
    } rows[] = {
        {{.agent_id = "nobody", .session_id = "ann-1"}, DIBS_AGENT_NOT_FOUND},
        {{.agent_id = "ann", .session_id = "nosuch"}, DIBS_SESSION_NOT_FOUND},
        {{.agent_id = "ann", .session_id = "bob-1"}, DIBS_INVALID_REQUEST},
        {{.agent_id = "ann", .session_id = "alone"}, DIBS_INVALID_REQUEST},
        {{.agent_id = NULL, .session_id = "ann-1"}, DIBS_INVALID_REQUEST},
        {{.agent_id = "ann", .session_id = NULL}, DIBS_INVALID_REQUEST},
        {{.agent_id = "ann", .session_id = "ann-1", .count = 101}, DIBS_INVALID_REQUEST},
        {{.agent_id = "ann", .session_id = "ann-1", .count = -1}, DIBS_INVALID_REQUEST},
        {{.agent_id = "ann", .session_id = "ann-1", .ttl_ms = 1}, DIBS_INVALID_REQUEST},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dibs_message_list out = {0};
        assert_refused(f, rows[i].status, try_take(f, rows[i].in, &out));
    }
    assert_message(f, "m", "unread");
}

/* Two handles are two processes, as far as the store can tell. */
static void test_two_who_take_at_once_share_nothing(void **state)
{
    struct fixture *f = *state;
    given_leads(f);
    char id[16];
    for (int i = 0; i < 40; i++) {
        snprintf(id, sizeof id, "m%02d", i);
        make_message(f, id);
    }
    dibs *other = fixture_open(f), *mine = f->d;
    char seen[40] = {0};
    for (int turn = 0; turn < 14; turn++) {
        struct dibs_message_list got = {0};
        bool is_ann = turn % 2 == 0;
        struct dibs_inbox_claim in = {.agent_id = is_ann ? "ann" : "bob",
                                      .session_id = is_ann ? "ann-1" : "bob-1",
                                      .count = 3};
        assert_ok(f, dibs_inbox_claim(is_ann ? mine : other, f->a, &in, &got, &f->err));
        for (size_t i = 0; i < got.count; i++)
            assert_int_equal(seen[strtol(got.items[i].id + 1, NULL, 10)]++, 0);
    }
    for (int i = 0; i < 40; i++)
        assert_int_equal(seen[i], 1);
    dibs_close(other);
}

/* ---- coming back ----------------------------------------------------------------------------- */

static void test_a_message_whose_lease_ends_is_unread_again_in_its_old_place(void **state)
{
    struct fixture *f = *state;
    given_leads(f);
    make_message(f, "old");
    make_message(f, "new");
    assert_string_equal(take_for(f, "ann", "ann-1", 1), "old");
    world_pass(&f->world, MINUTES(30) - 1);
    assert_string_equal(take_for(f, "bob", "bob-1", 1), "new");
    world_pass(&f->world, 1);
    assert_string_equal(take_for(f, "bob", "bob-1", 0), "old");
    struct dibs_event_list events = events_of(f, "inbox:released");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "messageId"), "old");
    assert_string_equal(event_field(f, &events.items[0], "status"), "unread");
    assert_string_equal(event_field(f, &events.items[0], "reason"), "expired");
    assert_string_equal(event_field(f, &events.items[0], "sessionId"), "ann-1");
}

static void test_more_leases_than_one_batch_come_back_to_whoever_asks(void **state)
{
    struct fixture *f = *state;
    given_leads(f);
    char id[16];
    for (int i = 0; i < 70; i++) {
        snprintf(id, sizeof id, "m%d", i);
        make_message(f, id);
    }
    make_worker(f, "wim");
    for (int i = 0; i < 100; i++) { /* leases of something else that end before */
        snprintf(id, sizeof id, "t%d", i);
        make_task(f, id);
        assert_ok(f, try_claim(f, id, "wim-1", MINUTES(1)));
        if (i == 0) {
            struct dibs_agent_new wim = {.id = "wim", .max_tasks = DIBS_VALUE(1000)};
            struct dibs_agent agent = {0};
            assert_ok(f, dibs_agent_register(f->d, f->a, &wim, &agent, &f->err));
        }
    }
    assert_true(strlen(take_for(f, "ann", "ann-1", 100)) > 0);
    world_pass(&f->world, MINUTES(31));
    assert_string_equal(take_for(f, "bob", "bob-1", 2), "m0 m1");
}

static void test_a_heartbeat_of_the_session_renews_its_messages_and_names_them(void **state)
{
    struct fixture *f = *state;
    given_leads(f);
    make_message(f, "m");
    take_for(f, "ann", "ann-1", 0);
    for (int i = 0; i < 4; i++) {
        world_pass(&f->world, MINUTES(9));
        struct dibs_session_news news = beat(f, "ann-1");
        assert_int_equal(news.renewed.count, 1);
        assert_int_equal(news.lost.count, 0);
        assert_string_equal(news.renewed.items[0].kind, "inbox");
        assert_string_equal(news.renewed.items[0].resource, "m");
        assert_null(news.renewed.items[0].task_id);
        assert_int_equal(news.renewed.items[0].expires_at_ms, now_ms(f) + MINUTES(30));
    }
    assert_string_equal(take_for(f, "bob", "bob-1", 0), "");
    assert_message(f, "m", "processing");
}

static void test_a_heartbeat_after_the_lease_tells_of_the_loss_once(void **state)
{
    struct fixture *f = *state;
    given_leads(f);
    make_message(f, "m");
    take_for(f, "ann", "ann-1", 0);
    world_pass(&f->world, MINUTES(30));
    struct dibs_session_news news = beat(f, "ann-1");
    assert_int_equal(news.renewed.count, 0);
    assert_int_equal(news.lost.count, 1);
    assert_string_equal(news.lost.items[0].kind, "inbox");
    assert_string_equal(news.lost.items[0].resource, "m");
    assert_string_equal(news.lost.items[0].end_reason, "expired");
    assert_message(f, "m", "unread");
    assert_int_equal(beat(f, "ann-1").lost.count, 0);
}

static void test_a_heartbeat_tells_how_much_is_unread(void **state)
{
    struct fixture *f = *state;
    given_leads(f);
    make_worker(f, "wim");
    make_session(f, "alone");
    make_message(f, "common");
    assert_ok(f, try_message(f, (struct dibs_message_new){
                                    .id = "anns", .content = "c", .agent_id = "ann"}));
    assert_ok(f, try_message(f, (struct dibs_message_new){
                                    .id = "wims", .content = "c", .agent_id = "wim"}));
    assert_int_equal(beat(f, "ann-1").unread_messages, 2);
    assert_int_equal(beat(f, "bob-1").unread_messages, 1);
    assert_int_equal(beat(f, "wim-1").unread_messages, 1);
    assert_int_equal(beat(f, "wim-1").unread_mentions, 0);
    assert_int_equal(beat(f, "alone").unread_messages, -1);
    assert_int_equal(beat(f, "alone").unread_mentions, -1);
    take_for(f, "ann", "ann-1", 1);
    assert_int_equal(beat(f, "ann-1").unread_messages, 1); /* what somebody is at is not counted */
}

static dibs_status add_op(struct fixture *f)
{
    return try_message(f, (struct dibs_message_new){.id = "m", .content = "c"});
}

static dibs_status take_op(struct fixture *f)
{
    struct dibs_message_list out = {0};
    return try_take(f, (struct dibs_inbox_claim){.agent_id = "ann", .session_id = "ann-1"}, &out);
}

static void test_on_a_failing_store_nothing_arrives_and_nothing_is_taken(void **state)
{
    struct fixture *f = *state;
    given_leads(f);
    assert_true(probe_fail_each(f, add_op) > 3);
    assert_message(f, "m", "unread");
    assert_true(probe_fail_each(f, take_op) > 3);
    assert_message(f, "m", "processing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_message_is_kept_with_all_that_came_with_it),
        STORE_TEST(test_without_an_id_a_message_gets_the_next_free_number),
        STORE_TEST(test_a_message_for_an_agent_is_of_its_project_and_of_no_other),
        STORE_TEST(test_what_cannot_be_a_message_is_refused_by_field),
        STORE_TEST(test_messages_are_listed_by_filters_and_in_pages),
        STORE_TEST(test_a_list_holds_no_more_than_it_answers_with),
        STORE_TEST(test_messages_are_taken_oldest_first_five_at_a_time),
        STORE_TEST(test_messages_go_to_whom_they_are_for),
        STORE_TEST(test_a_leads_own_and_the_common_messages_come_in_one_order),
        STORE_TEST(test_taking_needs_an_agent_and_a_session_of_it),
        STORE_TEST(test_two_who_take_at_once_share_nothing),
        STORE_TEST(test_a_message_whose_lease_ends_is_unread_again_in_its_old_place),
        STORE_TEST(test_more_leases_than_one_batch_come_back_to_whoever_asks),
        STORE_TEST(test_a_heartbeat_of_the_session_renews_its_messages_and_names_them),
        STORE_TEST(test_a_heartbeat_after_the_lease_tells_of_the_loss_once),
        STORE_TEST(test_a_heartbeat_tells_how_much_is_unread),
        STORE_TEST(test_on_a_failing_store_nothing_arrives_and_nothing_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
