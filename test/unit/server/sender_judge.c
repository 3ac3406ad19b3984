/* SPDX-License-Identifier: MIT */
/* Tests of src/server/sender_judge.c: what is sent, what is tried again and when, what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/sender.h"

static struct sender_verdict judge(int http, int64_t retry_after_s, const char *body,
                                   int64_t attempts, int64_t age_ms)
{
    struct sender_reply reply = {.http = http,
                                 .retry_after_s = retry_after_s,
                                 .body = body,
                                 .body_bytes = strlen(body),
                                 .error = "no route to host"};
    struct sender_verdict out = {0};
    sender_judge(&reply, attempts, age_ms, 0, &out);
    return out;
}

static void test_ok_is_sent(void **state)
{
    (void)state;
    assert_int_equal(judge(200, 0, "{\"ok\":true,\"ts\":\"1.2\"}", 3, 0).end, DIBS_OUTGOING_SENT);
    assert_int_equal(judge(200, 0, "{\"ok\":true}", 3, SENDER_GIVE_UP_MS * 2).end,
                     DIBS_OUTGOING_SENT);
}

static void test_errors_that_stay_end_it(void **state)
{
    static const char *const errors[] = {"channel_not_found", "invalid_auth",  "not_in_channel",
                                         "is_archived",       "msg_too_long",  "token_revoked",
                                         "account_inactive",  "of_the_future2"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"ok\":false,\"error\":\"%s\"}", errors[i]);
        struct sender_verdict v = judge(200, 0, body, 0, 0);
        assert_int_equal(v.end, DIBS_OUTGOING_FAILED);
        assert_non_null(strstr(v.error, errors[i]));
    }
    assert_int_equal(judge(200, 0, "{\"ok\":false}", 0, 0).end, DIBS_OUTGOING_FAILED);
}

static void test_errors_that_pass_are_tried_again(void **state)
{
    static const char *const errors[] = {"ratelimited", "internal_error", "fatal_error",
                                         "service_unavailable", "request_timeout"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"ok\":false,\"error\":\"%s\"}", errors[i]);
        struct sender_verdict v = judge(200, 0, body, 0, 0);
        assert_int_equal(v.end, DIBS_OUTGOING_AGAIN);
        assert_int_equal(v.again_ms, SENDER_FIRST_MS);
    }
}

static void test_what_is_no_answer_of_slack_is_tried_again(void **state)
{
    (void)state;
    assert_int_equal(judge(0, 0, "", 0, 0).end, DIBS_OUTGOING_AGAIN);
    assert_string_equal(judge(0, 0, "", 0, 0).error, "no route to host");
    assert_int_equal(judge(500, 0, "{\"ok\":true}", 0, 0).end, DIBS_OUTGOING_AGAIN);
    assert_int_equal(judge(502, 0, "<html>", 0, 0).end, DIBS_OUTGOING_AGAIN);
    assert_int_equal(judge(404, 0, "", 0, 0).end, DIBS_OUTGOING_AGAIN);
    assert_int_equal(judge(302, 0, "", 0, 0).end, DIBS_OUTGOING_AGAIN);
    assert_int_equal(judge(200, 0, "<html>", 0, 0).end, DIBS_OUTGOING_AGAIN);
    assert_int_equal(judge(200, 0, "{\"ok\":\"true\"}", 0, 0).end, DIBS_OUTGOING_AGAIN);
    assert_int_equal(judge(200, 0, "[]", 0, 0).end, DIBS_OUTGOING_AGAIN);
    assert_int_equal(judge(200, 0, "", 0, 0).end, DIBS_OUTGOING_AGAIN);
}

static void test_retry_after_is_honoured_and_nothing_else_is_sent_meanwhile(void **state)
{
    (void)state;
    struct sender_verdict v = judge(429, 30, "", 0, 0);
    assert_int_equal(v.end, DIBS_OUTGOING_AGAIN);
    assert_int_equal(v.again_ms, 30000);
    assert_int_equal(v.pause_ms, 30000);
    v = judge(429, 2, "", 15, 0); /* however often it was tried */
    assert_int_equal(v.again_ms, 2000);
    v = judge(429, 0, "", 3, 0);
    assert_int_equal(v.again_ms, 8000);
    assert_int_equal(v.pause_ms, 8000);
    v = judge(503, 60, "", 0, 0);
    assert_int_equal(v.again_ms, 60000);
    assert_int_equal(v.pause_ms, 60000);
    v = judge(429, 100000000, "", 0, 0);
    assert_int_equal(v.again_ms, 3600000);
    assert_int_equal(judge(500, 0, "", 0, 0).pause_ms, 0);
}

static void test_the_time_between_attempts_doubles_up_to_ten_minutes(void **state)
{
    int64_t expected = 1000;
    (void)state;
    for (int64_t i = 0; i < 200; i++) {
        assert_int_equal(judge(500, 0, "", i, 0).again_ms, expected);
        expected = expected * 2 < 600000 ? expected * 2 : 600000;
    }
}

static void test_chance_takes_away_at_most_half(void **state)
{
    int64_t least = INT64_MAX, most = 0;
    (void)state;
    for (uint32_t chance = 0; chance < 100000; chance += 7) {
        struct sender_verdict v = {0};
        sender_judge(&(struct sender_reply){.error = "x"}, 4, 0, chance * 41957, &v);
        least = v.again_ms < least ? v.again_ms : least;
        most = v.again_ms > most ? v.again_ms : most;
    }
    assert_in_range(least, 8000, 8100);
    assert_in_range(most, 15900, 16000);
}

static void test_after_a_day_the_next_failure_is_the_last(void **state)
{
    (void)state;
    assert_int_equal(judge(500, 0, "", 100, SENDER_GIVE_UP_MS - 1).end, DIBS_OUTGOING_AGAIN);
    struct sender_verdict v = judge(500, 0, "", 100, SENDER_GIVE_UP_MS);
    assert_int_equal(v.end, DIBS_OUTGOING_FAILED);
    assert_non_null(strstr(v.error, "given up"));
    assert_non_null(strstr(v.error, "500"));
}

static void test_only_words_of_slack_are_repeated(void **state)
{
    (void)state;
    struct sender_verdict v =
        judge(200, 0, "{\"ok\":false,\"error\":\"<script>\\n2026 error forged\"}", 0, 0);
    assert_int_equal(v.end, DIBS_OUTGOING_FAILED);
    assert_null(strstr(v.error, "forged"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ok_is_sent),
        cmocka_unit_test(test_errors_that_stay_end_it),
        cmocka_unit_test(test_errors_that_pass_are_tried_again),
        cmocka_unit_test(test_what_is_no_answer_of_slack_is_tried_again),
        cmocka_unit_test(test_retry_after_is_honoured_and_nothing_else_is_sent_meanwhile),
        cmocka_unit_test(test_the_time_between_attempts_doubles_up_to_ten_minutes),
        cmocka_unit_test(test_chance_takes_away_at_most_half),
        cmocka_unit_test(test_after_a_day_the_next_failure_is_the_last),
        cmocka_unit_test(test_only_words_of_slack_are_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
