/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/server/hook_slack.c and of Slack's signature in hook_sign.c: the vector that Slack
 * publishes, everything that is not quite right, and what each kind of delivery becomes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "server/hook.h"

/* from "Verifying requests from Slack" */
#define SECRET "8f742231b10e8888abcd99yyyzzz85a5"
#define SENT_S 1531420618
#define TIMESTAMP "1531420618"
#define SIGNATURE "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
#define BODY                                                                                       \
    "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"                     \
    "&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner"             \
    "&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands"      \
    "%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"                                       \
    "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"

static struct dibs_error err;

static struct hook_body text(const char *body)
{
    return (struct hook_body){.bytes = body, .count = strlen(body)};
}

static dibs_status verify(const char *timestamp, const char *signature, const char *body,
                          int64_t now_s)
{
    err = (struct dibs_error){0};
    return hook_slack_verify(SECRET, timestamp, signature, text(body), now_s, &err);
}

/* ---- signatures ------------------------------------------------------------------------------ */

static void test_the_published_signature_is_right(void **state)
{
    (void)state;
    assert_int_equal(verify(TIMESTAMP, SIGNATURE, BODY, SENT_S), DIBS_OK);
}

static void test_a_request_is_good_for_five_minutes_before_and_after(void **state)
{
    (void)state;
    assert_int_equal(verify(TIMESTAMP, SIGNATURE, BODY, SENT_S + 300), DIBS_OK);
    assert_int_equal(verify(TIMESTAMP, SIGNATURE, BODY, SENT_S - 300), DIBS_OK);
    assert_int_equal(verify(TIMESTAMP, SIGNATURE, BODY, SENT_S + 301), DIBS_UNAUTHORIZED);
    assert_non_null(strstr(err.message, "300 seconds"));
    assert_int_equal(verify(TIMESTAMP, SIGNATURE, BODY, SENT_S - 301), DIBS_UNAUTHORIZED);
    assert_int_equal(verify(TIMESTAMP, SIGNATURE, BODY, SENT_S + 86400), DIBS_UNAUTHORIZED);
}

static void test_whatever_is_not_the_signature_is_refused(void **state)
{
    static const char *const wrong[] = {
        "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b504", /* last digit */
        "v0=b2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503", /* first digit */
        "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b50",  /* cut */
        "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b5033",
        "v0=A2114D57B48EAC39B9AD189DD8316235A7B4A8D21A10BD27519666489C69B503",
        "V0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        "v1=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        " v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        "v0=",
        "",
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_int_equal(verify(TIMESTAMP, wrong[i], BODY, SENT_S), DIBS_UNAUTHORIZED);
        assert_null(strstr(err.message, SECRET));
    }
}

static void test_timestamp_and_body_are_part_of_what_is_signed(void **state)
{
    (void)state;
    assert_int_equal(verify("1531420619", SIGNATURE, BODY, SENT_S), DIBS_UNAUTHORIZED);
    assert_int_equal(verify("01531420618", SIGNATURE, BODY, SENT_S), DIBS_UNAUTHORIZED);
    assert_int_equal(verify(TIMESTAMP, SIGNATURE, BODY "x", SENT_S), DIBS_UNAUTHORIZED);
    assert_int_equal(verify(TIMESTAMP, SIGNATURE, "", SENT_S), DIBS_UNAUTHORIZED);
}

static void test_another_secret_makes_another_signature(void **state)
{
    (void)state;
    assert_int_equal(hook_slack_verify("8f742231b10e8888abcd99yyyzzz85a6", TIMESTAMP, SIGNATURE,
                                       text(BODY), SENT_S, &err),
                     DIBS_UNAUTHORIZED);
}

static void test_missing_and_senseless_headers_are_refused(void **state)
{
    static const char *const times[] = {"",
                                        "now",
                                        "1531420618.0",
                                        "-1531420618",
                                        "1e9",
                                        " ",
                                        "0x5b47a00a",
                                        "99999999999999999999",
                                        "153142061800000000000000000000000000"};
    (void)state;
    assert_int_equal(verify(NULL, SIGNATURE, BODY, SENT_S), DIBS_UNAUTHORIZED);
    assert_int_equal(verify(TIMESTAMP, NULL, BODY, SENT_S), DIBS_UNAUTHORIZED);
    for (size_t i = 0; i < COUNT_OF(times); i++)
        assert_int_equal(verify(times[i], SIGNATURE, BODY, SENT_S), DIBS_UNAUTHORIZED);
}

static void test_a_nul_in_the_body_does_not_end_what_is_signed(void **state)
{
    char one[HOOK_HEX_BYTES] = "", other[HOOK_HEX_BYTES] = "";
    (void)state;
    assert_true(hook_hmac(SECRET, "v0:1:", 5, "a\0b", 3, one));
    assert_true(hook_hmac(SECRET, "v0:1:", 5, "a\0c", 3, other));
    assert_string_not_equal(one, other);
}

/* ---- deliveries ------------------------------------------------------------------------------ */

struct stage {
    dibs_arena *a;
    struct dibs_hook_settings set;
    struct hook_event out;
};

static int setup(void **state)
{
    static struct stage stage;
    stage = (struct stage){.a = dibs_arena_new()};
    *state = &stage;
    return stage.a != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    dibs_arena_free(((struct stage *)*state)->a);
    return 0;
}

static dibs_status take(struct stage *s, const char *body)
{
    err = (struct dibs_error){0};
    return hook_slack_read(s->a, &s->set, text(body), &s->out, &err);
}

/* An event_callback around the fields of an event. */
#define EVENT(fields)                                                                              \
    "{\"token\":\"x\",\"team_id\":\"T1\",\"api_app_id\":\"A1\",\"type\":\"event_callback\","       \
    "\"event_id\":\"Ev1\",\"event_time\":1515449522,\"authorizations\":[{\"team_id\":\"T1\","      \
    "\"user_id\":\"UBOT\",\"is_bot\":true}],\"event\":{" fields "}}"
#define IN_CHANNEL "\"user\":\"U1\",\"channel\":\"C1\",\"ts\":\"1515449522.000016\""

static void test_the_challenge_is_to_be_sent_back(void **state)
{
    struct stage *s = *state;
    assert_int_equal(take(s, "{\"token\":\"x\",\"challenge\":\"3eZbrw1aBm2rZgRNFdxV2595E9CY\","
                             "\"type\":\"url_verification\"}"),
                     DIBS_OK);
    assert_int_equal(s->out.kind, HOOK_CHALLENGE);
    assert_string_equal(s->out.challenge, "3eZbrw1aBm2rZgRNFdxV2595E9CY");
}

static void test_a_mention_becomes_a_message_without_it(void **state)
{
    struct stage *s = *state;
    const struct dibs_message_new *m = &s->out.message;
    assert_int_equal(take(s, EVENT("\"type\":\"app_mention\"," IN_CHANNEL
                                   ",\"text\":\"<@UBOT>  is a &lt; b &amp;&amp; c &gt; d? "
                                   "&copy; <@U2>\"")),
                     DIBS_OK);
    assert_int_equal(s->out.kind, HOOK_MESSAGE);
    assert_string_equal(s->out.id, "Ev1");
    assert_string_equal(s->out.subject, "C1:1515449522.000016");
    assert_string_equal(m->source, "slack");
    assert_string_equal(m->content, "is a < b && c > d? &copy; <@U2>");
    assert_string_equal(m->matched_text, "<@UBOT>");
    assert_string_equal(m->channel, "C1");
    assert_string_equal(m->user, "U1");
    assert_string_equal(m->thread, "1515449522.000016");
    assert_string_equal(m->metadata, "{\"teamId\":\"T1\",\"eventId\":\"Ev1\",\"eventType\":"
                                     "\"app_mention\",\"ts\":\"1515449522.000016\"}");
    assert_null(m->agent_id);
    assert_null(m->project);
    assert_null(m->id);
}

static void test_a_reply_keeps_the_key_of_its_thread(void **state)
{
    struct stage *s = *state;
    assert_int_equal(take(s, EVENT("\"type\":\"message\"," IN_CHANNEL
                                   ",\"thread_ts\":\"1515449000.000001\",\"text\":\"more\"")),
                     DIBS_OK);
    assert_string_equal(s->out.message.thread, "1515449000.000001");
    assert_string_equal(s->out.subject, "C1:1515449522.000016");
}

static void test_only_the_mention_of_the_bot_in_front_is_taken_off(void **state)
{
    struct stage *s = *state;
    static const struct {
        const char *body, *content, *matched;
    } rows[] = {
        {EVENT("\"type\":\"message\"," IN_CHANNEL ",\"text\":\"<@U2> hello\""), "<@U2> hello",
         NULL},
        {EVENT("\"type\":\"message\"," IN_CHANNEL ",\"text\":\"hello <@UBOT>\""), "hello <@UBOT>",
         NULL},
        {EVENT("\"type\":\"message\"," IN_CHANNEL ",\"text\":\"<@UBOT|bot> hello\""), "hello",
         "<@UBOT|bot>"},
        {EVENT("\"type\":\"message\"," IN_CHANNEL ",\"text\":\"<@UBOTS> hello\""), "<@UBOTS> hello",
         NULL},
        {EVENT("\"type\":\"message\"," IN_CHANNEL ",\"text\":\"<@UBOT hello\""), "<@UBOT hello",
         NULL},
        {EVENT("\"type\":\"app_mention\"," IN_CHANNEL ",\"text\":\" <@UBOT> \""), "<@UBOT>",
         "<@UBOT>"},
        /* without authorizations, a mention in front of an app_mention is ours */
        {"{\"type\":\"event_callback\",\"event_id\":\"E\",\"event\":{\"type\":\"app_mention\","
         "\"text\":\"<@U9> hi\"," IN_CHANNEL "}}",
         "hi", "<@U9>"},
        {"{\"type\":\"event_callback\",\"event_id\":\"E\",\"event\":{\"type\":\"message\","
         "\"text\":\"<@U9> hi\"," IN_CHANNEL "}}",
         "<@U9> hi", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(take(s, rows[i].body), DIBS_OK);
        assert_int_equal(s->out.kind, HOOK_MESSAGE);
        assert_string_equal(s->out.message.content, rows[i].content);
        assert_true(str_eq(s->out.message.matched_text, rows[i].matched));
    }
}

static void test_files_are_named_in_the_text(void **state)
{
    struct stage *s = *state;
    assert_int_equal(take(s, EVENT("\"type\":\"message\",\"subtype\":\"file_share\"," IN_CHANNEL
                                   ",\"text\":\"\",\"files\":[{\"name\":\"a.png\",\"permalink\":"
                                   "\"https://x/a\"},{\"name\":\"b\"}]")),
                     DIBS_OK);
    assert_int_equal(s->out.kind, HOOK_MESSAGE);
    assert_string_equal(s->out.message.content, "[file: a.png https://x/a]\n[file: b]");
}

static void test_bots_edits_and_other_events_are_ignored(void **state)
{
    struct stage *s = *state;
    static const char *const bodies[] = {
        EVENT("\"type\":\"message\",\"bot_id\":\"B1\"," IN_CHANNEL ",\"text\":\"beep\""),
        EVENT("\"type\":\"app_mention\",\"bot_id\":\"B1\"," IN_CHANNEL ",\"text\":\"beep\""),
        EVENT("\"type\":\"message\",\"subtype\":\"bot_message\"," IN_CHANNEL ",\"text\":\"beep\""),
        EVENT("\"type\":\"message\",\"bot_profile\":{\"id\":\"B1\"}," IN_CHANNEL
              ",\"text\":\"beep\""),
        EVENT("\"type\":\"message\",\"user\":\"UBOT\",\"channel\":\"C1\",\"ts\":\"1.2\","
              "\"text\":\"my own\""),
        EVENT("\"type\":\"message\",\"subtype\":\"message_changed\",\"hidden\":true,"
              "\"channel\":\"C1\",\"ts\":\"1.2\",\"message\":{\"text\":\"new\"}"),
        EVENT("\"type\":\"message\",\"subtype\":\"message_deleted\",\"channel\":\"C1\","
              "\"ts\":\"1.2\""),
        EVENT("\"type\":\"message\",\"subtype\":\"message_replied\"," IN_CHANNEL ",\"text\":\"x\""),
        EVENT("\"type\":\"message\",\"subtype\":\"channel_join\"," IN_CHANNEL
              ",\"text\":\"<@U1> has joined\""),
        EVENT("\"type\":\"message\",\"subtype\":\"channel_topic\"," IN_CHANNEL ",\"text\":\"x\""),
        EVENT("\"type\":\"message\",\"subtype\":\"of_tomorrow\"," IN_CHANNEL ",\"text\":\"x\""),
        EVENT("\"type\":\"message\",\"edited\":{\"user\":\"U1\"}," IN_CHANNEL ",\"text\":\"x\""),
        EVENT("\"type\":\"message\"," IN_CHANNEL ",\"text\":\"\""),
        EVENT("\"type\":\"message\"," IN_CHANNEL ",\"text\":\"  \\n\""),
        EVENT("\"type\":\"message\"," IN_CHANNEL),
        EVENT("\"type\":\"reaction_added\",\"user\":\"U1\""),
        "{\"type\":\"app_rate_limited\",\"team_id\":\"T1\"}",
    };
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        assert_int_equal(take(s, bodies[i]), DIBS_OK);
        assert_int_equal(s->out.kind, HOOK_IGNORED);
        assert_non_null(s->out.why);
    }
}

static void test_agent_and_project_come_from_the_settings(void **state)
{
    struct stage *s = *state;
    str_fit(s->set.agent, sizeof s->set.agent, "lead");
    str_fit(s->set.project, sizeof s->set.project, "web");
    assert_int_equal(take(s, EVENT("\"type\":\"message\"," IN_CHANNEL ",\"text\":\"x\"")), DIBS_OK);
    assert_string_equal(s->out.message.agent_id, "lead");
    assert_string_equal(s->out.message.project, "web");
}

static void test_a_long_text_is_cut_between_characters(void **state)
{
    struct stage *s = *state;
    static char body[200000];
    size_t used = (size_t)snprintf(body, sizeof body,
                                   "{\"type\":\"event_callback\",\"event_id\":\"E\",\"event\":{"
                                   "\"type\":\"message\"," IN_CHANNEL ",\"text\":\"x");
    for (size_t i = 0; i < 40000; i++, used += 3)
        memcpy(body + used, "\xe2\x82\xac", 4);
    memcpy(body + used, "\"}}", 4);
    assert_int_equal(take(s, body), DIBS_OK);
    const char *content = s->out.message.content;
    assert_true(strlen(content) <= DESCRIPTION_BYTES_MAX);
    assert_true(strlen(content) > DESCRIPTION_BYTES_MAX - 16);
    assert_true(str_is_utf8(content, strlen(content)));
    assert_string_equal(content + strlen(content) - 6, " [...]");
}

static void test_what_slack_does_not_send_is_refused(void **state)
{
    struct stage *s = *state;
    static const char *const bodies[] = {
        "",
        "{",
        "null",
        "[]",
        "{}",
        "\"event_callback\"",
        "{\"type\":7}",
        "{\"type\":\"url_verification\"}",
        "{\"type\":\"url_verification\",\"challenge\":7}",
        "{\"type\":\"event_callback\"}",
        "{\"type\":\"event_callback\",\"event_id\":\"E\"}",
        "{\"type\":\"event_callback\",\"event_id\":\"E\",\"event\":{}}",
        "{\"type\":\"event_callback\",\"event_id\":\"E\",\"event\":[]}",
        "{\"type\":\"event_callback\",\"event_id\":7,\"event\":{\"type\":\"message\"}}",
        "{\"type\":\"event_callback\",\"event\":{\"type\":\"message\"}}",
        EVENT("\"type\":\"message\",\"user\":\"U1\",\"text\":\"x\",\"ts\":\"1.2\""),
        EVENT("\"type\":\"message\",\"user\":\"U1\",\"text\":\"x\",\"channel\":\"C1\""),
        EVENT("\"type\":\"message\"," IN_CHANNEL ",\"text\":\"x\"") "x",
        "{\"type\":\"event_callback\",\"type\":\"event_callback\"}",
        "{\"type\":\"event_callback\xff\"}",
        BODY,
    };
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        if (take(s, bodies[i]) != DIBS_INVALID_REQUEST)
            fail_msg("taken: %s", bodies[i]);
        assert_true(err.message[0] != '\0');
    }
}

int main(void)
{
#define READ_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_published_signature_is_right),
        cmocka_unit_test(test_a_request_is_good_for_five_minutes_before_and_after),
        cmocka_unit_test(test_whatever_is_not_the_signature_is_refused),
        cmocka_unit_test(test_timestamp_and_body_are_part_of_what_is_signed),
        cmocka_unit_test(test_another_secret_makes_another_signature),
        cmocka_unit_test(test_missing_and_senseless_headers_are_refused),
        cmocka_unit_test(test_a_nul_in_the_body_does_not_end_what_is_signed),
        READ_TEST(test_the_challenge_is_to_be_sent_back),
        READ_TEST(test_a_mention_becomes_a_message_without_it),
        READ_TEST(test_a_reply_keeps_the_key_of_its_thread),
        READ_TEST(test_only_the_mention_of_the_bot_in_front_is_taken_off),
        READ_TEST(test_files_are_named_in_the_text),
        READ_TEST(test_bots_edits_and_other_events_are_ignored),
        READ_TEST(test_agent_and_project_come_from_the_settings),
        READ_TEST(test_a_long_text_is_cut_between_characters),
        READ_TEST(test_what_slack_does_not_send_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
