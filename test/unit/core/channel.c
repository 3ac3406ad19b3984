/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/channel.c: channels are made once, messages stay in their order, pages and
 * readers miss nothing and get nothing twice. Whom messages name: mention.c.
 */
#include "channels.h"

#include "core/owner.h"

static dibs_status try_channel(struct fixture *f, struct dibs_channel_new in,
                               struct dibs_channel *out)
{
    return dibs_channel_create(f->d, f->a, &in, out, &f->err);
}

static dibs_status try_post(struct fixture *f, struct dibs_post_new in)
{
    struct dibs_post out = {0};
    return dibs_channel_post(f->d, f->a, &in, &out, &f->err);
}

static dibs_status try_messages(struct fixture *f, const char *channel, const char *cursor,
                                int64_t limit, struct dibs_post_list *out)
{
    struct dibs_post_filter in = {.channel_id = channel, .cursor = cursor, .limit = limit};
    return dibs_channel_messages(f->d, f->a, &in, out, &f->err);
}

static struct dibs_channel_list channels_of(struct fixture *f, const char *project)
{
    struct dibs_channel_list out = {0};
    assert_ok(f, dibs_channel_list(f->d, f->a, project, &out, &f->err));
    return out;
}

/* ---- channels -------------------------------------------------------------------------------- */

static void test_a_channel_is_made_once_and_found_afterwards(void **state)
{
    struct fixture *f = *state;
    struct dibs_channel c = {0}, again = {0};
    assert_ok(f, try_channel(f,
                             (struct dibs_channel_new){
                                 .id = "ops", .project = "p", .description = "what runs"},
                             &c));
    assert_true(c.created);
    assert_string_equal(c.id, "ops");
    assert_string_equal(c.project, "p");
    assert_string_equal(c.description, "what runs");
    assert_int_equal(c.messages, 0);
    assert_int_equal(c.created_at_ms, f->world.wall_ms);
    world_pass(&f->world, SECONDS(5));
    assert_ok(f,
              try_channel(f, (struct dibs_channel_new){.id = "ops", .description = "x"}, &again));
    assert_false(again.created);
    assert_string_equal(again.project, "p");
    assert_string_equal(again.description, "what runs");
    assert_int_equal(again.created_at_ms, c.created_at_ms);
    struct dibs_event_list events = events_of(f, "channel:created");
    assert_int_equal(events.count, 1);
    assert_string_equal(events.items[0].project, "p");
    assert_string_equal(event_field(f, &events.items[0], "channelId"), "ops");
    assert_string_equal(event_field(f, &events.items[0], "description"), "what runs");
}

static void test_a_channel_of_another_project_is_not_taken_for_ones_own(void **state)
{
    struct fixture *f = *state;
    struct dibs_channel out = {0};
    make_channel(f, "ops");
    assert_refused(f, DIBS_INVALID_REQUEST,
                   try_channel(f, (struct dibs_channel_new){.id = "ops", .project = "p"}, &out));
    assert_string_equal(f->err.field, "project");
    assert_ok(f,
              try_channel(f, (struct dibs_channel_new){.id = "ops", .project = "default"}, &out));
    assert_false(out.created);
}

static void test_bad_channels_are_refused_by_field(void **state)
{
    struct fixture *f = *state;
    struct dibs_channel out = {0};
    const struct {
        struct dibs_channel_new in;
        const char *field;
    } rows[] = {
        {{.id = NULL}, "id"},
        {{.id = ""}, "id"},
        {{.id = "a b"}, "id"},
        {{.id = "a/b"}, "id"},
        {{.id = ".."}, "id"},
        {{.id = "Claim"}, "id"},
        {{.id = "c", .project = repeated(f, 'p', 129)}, "project"},
        {{.id = "c", .description = "\xff"}, "description"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_refused(f, DIBS_INVALID_REQUEST, try_channel(f, rows[i].in, &out));
        assert_string_equal(f->err.field, rows[i].field);
    }
    assert_int_equal(channels_of(f, NULL).count, 0);
}

static void test_channels_are_listed_in_order_with_their_messages_counted(void **state)
{
    struct fixture *f = *state;
    struct dibs_channel out = {0};
    make_channel(f, "z");
    assert_ok(f, try_channel(f, (struct dibs_channel_new){.id = "m", .project = "p"}, &out));
    make_channel(f, "a");
    for (int i = 0; i < 3; i++)
        post(f, "a", "hello");
    struct dibs_channel_list all = channels_of(f, NULL), of_p = channels_of(f, "p");
    assert_int_equal(all.count, 3);
    assert_string_equal(all.items[0].id, "z");
    assert_string_equal(all.items[1].id, "m");
    assert_string_equal(all.items[2].id, "a");
    assert_int_equal(all.items[0].messages, 0);
    assert_int_equal(all.items[2].messages, 3);
    assert_int_equal(of_p.count, 1);
    assert_string_equal(of_p.items[0].id, "m");
    assert_int_equal(channels_of(f, "P").count, 0);
}

static void test_the_project_of_a_channel_is_told_or_nothing(void **state)
{
    struct fixture *f = *state;
    const char *project = NULL;
    struct dibs_channel out = {0};
    assert_ok(f, try_channel(f, (struct dibs_channel_new){.id = "m", .project = "p"}, &out));
    assert_ok(f, dibs__channel_project(f->d, f->a, "m", &project, &f->err));
    assert_string_equal(project, "p");
    assert_ok(f, dibs__channel_project(f->d, f->a, "n", &project, &f->err));
    assert_null(project);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void test_a_message_is_kept_as_it_was_posted(void **state)
{
    struct fixture *f = *state;
    const char *text = "Grüße \"1\"\n\t\\ \xF0\x9F\x90\xBF 'x'; --";
    struct dibs_post_list page = {0};
    make_channel(f, "ops");
    struct dibs_post first = post(f, "ops", text);
    world_pass(&f->world, SECONDS(5));
    struct dibs_post reply = post_as(
        f, (struct dibs_post_new){
               .channel_id = "ops", .author = "Ann Ö", .content = "yes", .reply_to = first.id});
    assert_string_equal(reply.reply_to, first.id);
    assert_ok(f, try_messages(f, "ops", NULL, 0, &page));
    assert_int_equal(page.count, 2);
    assert_null(page.next_cursor);
    assert_string_equal(page.items[0].id, first.id);
    assert_string_equal(page.items[0].channel_id, "ops");
    assert_string_equal(page.items[0].author, "somebody");
    assert_string_equal(page.items[0].content, text);
    assert_null(page.items[0].reply_to);
    assert_int_equal(page.items[0].mentions.count, 0);
    assert_string_equal(page.items[1].author, "Ann Ö");
    assert_string_equal(page.items[1].reply_to, first.id);
    assert_int_equal(page.items[1].created_at_ms, f->world.wall_ms);
}

static void test_the_journal_tells_all_of_a_message(void **state)
{
    struct fixture *f = *state;
    make_agent(f, "bob");
    make_channel(f, "ops");
    struct dibs_post first = post(f, "ops", "a");
    post_as(f, (struct dibs_post_new){
                   .channel_id = "ops", .author = "x", .content = "@bob ü", .reply_to = first.id});
    struct dibs_event_list events = events_of(f, "channel:message");
    assert_int_equal(events.count, 2);
    assert_string_equal(events.items[1].project, "default");
    assert_string_equal(event_field(f, &events.items[1], "channelId"), "ops");
    assert_string_equal(event_field(f, &events.items[1], "messageId"), "2");
    assert_string_equal(event_field(f, &events.items[1], "author"), "x");
    assert_string_equal(event_field(f, &events.items[1], "content"), "@bob ü");
    assert_string_equal(event_field(f, &events.items[1], "replyTo"), first.id);
    assert_non_null(strstr(events.items[1].data, "\"mentions\":[\"bob\"]"));
}

static void test_bad_messages_are_refused_and_leave_nothing(void **state)
{
    struct fixture *f = *state;
    const struct {
        struct dibs_post_new in;
        const char *field;
    } rows[] = {
        {{.author = "a", .content = "c"}, "id"},
        {{.channel_id = "ops", .content = "c"}, "author"},
        {{.channel_id = "ops", .author = "a"}, "content"},
        {{.channel_id = "ops", .author = "a", .content = ""}, "content"},
        {{.channel_id = "ops", .author = repeated(f, 'a', 129), .content = "c"}, "author"},
        {{.channel_id = "ops", .author = "a", .content = repeated(f, 'c', 65537)}, "content"},
        {{.channel_id = "ops", .author = "a", .content = "c", .reply_to = "no id"}, "replyTo"},
    };
    make_channel(f, "ops");
    make_channel(f, "other");
    struct dibs_post elsewhere = post(f, "other", "here");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_refused(f, DIBS_INVALID_REQUEST, try_post(f, rows[i].in));
        assert_string_equal(f->err.field, rows[i].field);
    }
    struct dibs_post_new in = {.channel_id = "nosuch", .author = "a", .content = "c"};
    assert_refused(f, DIBS_CHANNEL_NOT_FOUND, try_post(f, in));
    in.channel_id = "ops";
    in.reply_to = elsewhere.id; /* a message, but of another channel */
    assert_refused(f, DIBS_MESSAGE_NOT_FOUND, try_post(f, in));
    in.reply_to = "999";
    assert_refused(f, DIBS_MESSAGE_NOT_FOUND, try_post(f, in));
    assert_int_equal(query_int(f, "SELECT count(*) FROM channel_message"), 1);
    assert_event_count(f, "channel:message", 1);
}

static void test_pages_give_each_message_once_also_when_channels_are_mixed(void **state)
{
    struct fixture *f = *state;
    const char *cursor = NULL;
    int64_t seen = 0, pages = 0;
    make_channel(f, "a");
    make_channel(f, "b");
    for (int i = 0; i < 25; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        post(f, "a", text);
        post(f, "b", "noise");
    }
    do {
        struct dibs_post_list page = {0};
        assert_ok(f, try_messages(f, "a", cursor, 10, &page));
        for (size_t i = 0; i < page.count; i++)
            assert_int_equal(strtol(page.items[i].content, NULL, 10), seen++);
        cursor = page.next_cursor;
        pages++;
    } while (cursor);
    assert_int_equal(seen, 25);
    assert_int_equal(pages, 3);
    struct dibs_post_list whole = {0};
    assert_ok(f, try_messages(f, "a", NULL, 25, &whole));
    assert_int_equal(whole.count, 25);
    assert_null(whole.next_cursor);
}

static void test_pages_of_nothing_are_refused_by_field(void **state)
{
    struct fixture *f = *state;
    struct dibs_post_list page = {0};
    make_channel(f, "a");
    assert_refused(f, DIBS_INVALID_REQUEST, try_messages(f, "a", "x", 0, &page));
    assert_string_equal(f->err.field, "cursor");
    assert_refused(f, DIBS_INVALID_REQUEST, try_messages(f, "a", NULL, 1001, &page));
    assert_string_equal(f->err.field, "limit");
    assert_refused(f, DIBS_CHANNEL_NOT_FOUND, try_messages(f, "b", NULL, 0, &page));
    assert_ok(f, try_messages(f, "a", NULL, 0, &page));
    assert_int_equal(page.count, 0);
}

/* ---- reading as an agent --------------------------------------------------------------------- */

static void test_every_agent_reads_each_message_once(void **state)
{
    struct fixture *f = *state;
    make_agent(f, "bob");
    make_agent(f, "ann");
    make_channel(f, "ops");
    make_channel(f, "other");
    post(f, "ops", "one");
    post(f, "other", "elsewhere");
    post(f, "ops", "two");
    struct dibs_post_list first = read_as(f, "ops", "bob", NULL);
    assert_int_equal(first.count, 2);
    assert_string_equal(first.items[0].content, "one");
    assert_string_equal(first.items[1].content, "two");
    assert_int_equal(read_as(f, "ops", "bob", NULL).count, 0);
    post(f, "ops", "three");
    struct dibs_post_list second = read_as(f, "ops", "bob", NULL);
    assert_int_equal(second.count, 1);
    assert_string_equal(second.items[0].content, "three");
    assert_int_equal(read_as(f, "ops", "ann", NULL).count, 3);
    assert_int_equal(read_as(f, "other", "bob", NULL).count, 1);
    assert_event_count(f, "mentions:read", 4);
}

static void test_reading_a_part_marks_only_that_part(void **state)
{
    struct fixture *f = *state;
    struct dibs_post_list part = {0}, rest = {0};
    make_agent(f, "bob");
    make_channel(f, "ops");
    for (int i = 0; i < 5; i++)
        post(f, "ops", "x");
    assert_ok(f, try_read(f, "ops", "bob", NULL, 2, &part));
    assert_int_equal(part.count, 2);
    assert_non_null(part.next_cursor);
    assert_ok(f, try_read(f, "ops", "bob", NULL, 3, &rest));
    assert_int_equal(rest.count, 3);
    assert_null(rest.next_cursor);
    assert_string_equal(rest.items[0].id, "3");
}

static void test_looking_at_a_channel_marks_nothing(void **state)
{
    struct fixture *f = *state;
    struct dibs_post_list page = {0};
    make_agent(f, "bob");
    make_channel(f, "ops");
    post(f, "ops", "one");
    assert_ok(f, try_messages(f, "ops", NULL, 0, &page));
    assert_int_equal(read_as(f, "ops", "bob", NULL).count, 1);
}

static void test_only_agents_and_their_sessions_read(void **state)
{
    struct fixture *f = *state;
    struct dibs_post_list out = {0};
    make_agent(f, "bob");
    make_agent_session(f, "s-ann", "ann");
    make_session(f, "s-nobody");
    make_channel(f, "ops");
    post(f, "ops", "one");
    assert_refused(f, DIBS_AGENT_NOT_FOUND, try_read(f, "ops", "nosuch", NULL, 0, &out));
    assert_refused(f, DIBS_CHANNEL_NOT_FOUND, try_read(f, "nosuch", "bob", NULL, 0, &out));
    assert_refused(f, DIBS_SESSION_NOT_FOUND, try_read(f, "ops", "bob", "nosuch", 0, &out));
    assert_refused(f, DIBS_INVALID_REQUEST, try_read(f, "ops", "bob", "s-ann", 0, &out));
    assert_string_equal(f->err.field, "sessionId");
    assert_refused(f, DIBS_INVALID_REQUEST, try_read(f, "ops", "bob", "s-nobody", 0, &out));
    assert_string_equal(f->err.field, "sessionId");
    assert_refused(f, DIBS_INVALID_REQUEST, try_read(f, "ops", NULL, NULL, 0, &out));
    assert_string_equal(f->err.field, "agentId");
    assert_refused(f, DIBS_INVALID_REQUEST, try_read(f, "ops", "bob", NULL, -1, &out));
    assert_string_equal(f->err.field, "limit");
    assert_int_equal(read_as(f, "ops", "bob", NULL).count, 1);
}

/* ---- a store that fails ---------------------------------------------------------------------- */

static dibs_status create_again(struct fixture *f)
{
    struct dibs_channel out = {0};
    return try_channel(f, (struct dibs_channel_new){.id = "new"}, &out);
}

static dibs_status post_again(struct fixture *f)
{
    return try_post(f, (struct dibs_post_new){
                           .channel_id = "ops", .author = "x", .content = "@bob", .reply_to = "1"});
}

static dibs_status read_again(struct fixture *f)
{
    struct dibs_post_list out = {0};
    return try_read(f, "ops", "bob", "s", 0, &out);
}

static dibs_status list_again(struct fixture *f)
{
    struct dibs_channel_list out = {0};
    return dibs_channel_list(f->d, f->a, NULL, &out, &f->err);
}

static void test_a_failing_store_leaves_channels_as_they_were(void **state)
{
    struct fixture *f = *state;
    make_agent_session(f, "s", "bob");
    make_channel(f, "ops");
    post(f, "ops", "first");
    assert_true(probe_fail_each(f, create_again) > 3);
    assert_true(probe_fail_each(f, post_again) > 5);
    assert_true(probe_fail_each(f, read_again) > 5);
    assert_true(probe_fail_each(f, list_again) > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_channel_is_made_once_and_found_afterwards),
        STORE_TEST(test_a_channel_of_another_project_is_not_taken_for_ones_own),
        STORE_TEST(test_bad_channels_are_refused_by_field),
        STORE_TEST(test_channels_are_listed_in_order_with_their_messages_counted),
        STORE_TEST(test_the_project_of_a_channel_is_told_or_nothing),
        STORE_TEST(test_a_message_is_kept_as_it_was_posted),
        STORE_TEST(test_the_journal_tells_all_of_a_message),
        STORE_TEST(test_bad_messages_are_refused_and_leave_nothing),
        STORE_TEST(test_pages_give_each_message_once_also_when_channels_are_mixed),
        STORE_TEST(test_pages_of_nothing_are_refused_by_field),
        STORE_TEST(test_every_agent_reads_each_message_once),
        STORE_TEST(test_reading_a_part_marks_only_that_part),
        STORE_TEST(test_looking_at_a_channel_marks_nothing),
        STORE_TEST(test_only_agents_and_their_sessions_read),
        STORE_TEST(test_a_failing_store_leaves_channels_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
