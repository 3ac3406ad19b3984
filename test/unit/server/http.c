/* SPDX-License-Identifier: MIT */
/*
 * http.c: tests of src/server/http.c: requests that are fine, pipelining, bodies.
 * Limits and memory are in http_limits.c, what must be refused in http_smuggling.c.
 */
#include "server/http.h"

#include <setjmp.h>

#include <cmocka.h>

#include "http_check.h"

#define H "Host: h\r\n"

/* expect: the bytes give this transcript, whole, byte by byte and cut at each place. */
static void expect_bytes(const char *bytes, size_t count, const char *transcript)
{
    char *whole = http_transcript(bytes, count, (struct http_cut){0});
    assert_string_equal(whole, transcript);
    mem_free(whole);
    for (size_t cut = 0; cut < count; cut++) {
        /* cut 0: byte by byte */
        char *again = http_transcript(bytes, count, (struct http_cut){cut, cut == 0 ? 1 : 0});
        assert_string_equal(again, transcript);
        mem_free(again);
    }
}

static void expect(const char *bytes, const char *transcript)
{
    expect_bytes(bytes, strlen(bytes), transcript);
}

/* ---- what is fine ---- */

static void test_a_request_comes_out_as_it_was_sent(void **state)
{
    (void)state;
    expect("GET /a/b%20c?x=1&y=%2F? HTTP/1.1\r\nHost: box.lan:7117\r\nAccept: */*\r\n\r\n",
           "GET /a/b%20c?x=1&y=%2F? host=box.lan:7117 keep 1.1\n"
           "host: box.lan:7117\naccept: */*\n[0]\nidle");
    expect("POST /claims HTTP/1.1\r\n" H "Content-Type: application/json\r\n"
           "Content-Length: 5\r\n\r\nhello",
           "POST /claims? host=h keep 1.1\nhost: h\ncontent-type: application/json\n"
           "content-length: 5\n[5]hello\nidle");
}

static void test_each_of_our_methods_is_taken_with_and_without_a_body(void **state)
{
    (void)state;
    const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        char bytes[200], transcript[200];
        snprintf(bytes, sizeof bytes, "%s / HTTP/1.1\r\n" H "\r\n", methods[i]);
        snprintf(transcript, sizeof transcript, "%s /? host=h keep 1.1\nhost: h\n[0]\nidle",
                 methods[i]);
        expect(bytes, transcript);
        snprintf(bytes, sizeof bytes, "%s / HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nhi",
                 methods[i]);
        snprintf(transcript, sizeof transcript,
                 "%s /? host=h keep 1.1\nhost: h\ncontent-length: 2\n[2]hi\nidle", methods[i]);
        expect(bytes, transcript);
    }
}

static void test_names_are_lower_case_and_values_trimmed(void **state)
{
    (void)state;
    expect("GET / HTTP/1.1\r\nHOST:h\r\nX-Some_Name.1~:   a  b   \r\nEmpty:\r\nBlank:    \r\n"
           "X-Utf: \xc3\xa9\r\nx: :\r\n\r\n",
           "GET /? host=h keep 1.1\nhost: h\nx-some_name.1~: a  b\nempty: \nblank: \n"
           "x-utf: \xc3\xa9\nx: :\n[0]\nidle");
}

static void test_headers_are_found_by_name(void **state)
{
    (void)state;
    struct http *h = http_new();
    size_t used = 0;
    const char bytes[] = "GET / HTTP/1.1\r\n" H "X-API-Key: k\r\nAccept: a\r\nAccept: b\r\n\r\n";
    assert_int_equal(http_feed(h, bytes, sizeof bytes - 1, &used), HTTP_REQUEST);
    assert_int_equal(used, sizeof bytes - 1);
    const struct http_request *r = http_request(h);
    assert_string_equal(http_header(r, "x-api-key"), "k");
    assert_string_equal(http_header(r, "accept"), "a");
    assert_null(http_header(r, "x-api"));
    assert_null(http_header(r, "cookie"));
    /* until http_next nothing more is taken */
    assert_int_equal(http_feed(h, "x", 1, &used), HTTP_REQUEST);
    assert_int_equal(used, 0);
    http_free(h);
    http_free(NULL);
}

static void test_odd_but_clear_targets_are_taken(void **state)
{
    (void)state;
    const char *const targets[][2] = {
        {"/", "/?"},
        {"/?", "/?"},
        {"//a", "//a?"},
        {"/a?b?c", "/a?b?c"},
        {"/%00", "/%00?"},
        {"/a:80@b", "/a:80@b?"},
        {"/?a={|}^`[]\"<>\\", "/?a={|}^`[]\"<>\\"},
        {"/../..", "/../..?"},
        {"/http://x/", "/http://x/?"},
        {"/*", "/*?"},
    };
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        char bytes[200], transcript[200];
        snprintf(bytes, sizeof bytes, "GET %s HTTP/1.1\r\n" H "\r\n", targets[i][0]);
        snprintf(transcript, sizeof transcript, "GET %s host=h keep 1.1\nhost: h\n[0]\nidle",
                 targets[i][1]);
        expect(bytes, transcript);
    }
}

static void test_hosts_are_names_and_addresses(void **state)
{
    (void)state;
    const char *const hosts[] = {
        "h",   "localhost:7117", "127.0.0.1", "[::1]",   "[::1]:80",     "a-b.c_d.example",
        "h:0", "h:65535",        "[fe80::1]", "BOX.lan", "1.2.3.4:7117", "[::ffff:1.2.3.4]"};
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        char bytes[200], transcript[200];
        snprintf(bytes, sizeof bytes, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", hosts[i]);
        snprintf(transcript, sizeof transcript, "GET /? host=%s keep 1.1\nhost: %s\n[0]\nidle",
                 hosts[i], hosts[i]);
        expect(bytes, transcript);
    }
}

static void test_connections_stay_open_when_both_sides_agree(void **state)
{
    (void)state;
    const struct {
        const char *version, *connection, *outcome;
    } rows[] = {
        {"1.1", NULL, "keep"},
        {"1.1", "keep-alive", "keep"},
        {"1.1", "close", "close"},
        {"1.1", "CLOSE", "close"},
        {"1.1", "keep-alive, close", "close"},
        {"1.1", "foo ,,  Close ,", "close"},
        {"1.1", "closed", "keep"},
        {"1.1", "not-close", "keep"},
        {"1.1", "upgrade", "keep"},
        {"1.1", "", "keep"},
        {"1.0", NULL, "close"},
        {"1.0", "keep-alive", "keep"},
        {"1.0", "Keep-Alive", "keep"},
        {"1.0", "keep-alive, close", "close"},
        {"1.0", "upgrade", "close"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char bytes[200], expected[100];
        bool has = rows[i].connection != NULL;
        snprintf(bytes, sizeof bytes, "GET / HTTP/%s\r\n" H "%s%s%s\r\n", rows[i].version,
                 has ? "Connection: " : "", has ? rows[i].connection : "", has ? "\r\n" : "");
        snprintf(expected, sizeof expected, "GET /? host=h %s %s\n", rows[i].outcome,
                 rows[i].version);
        char *text = http_transcript(bytes, strlen(bytes), (struct http_cut){0});
        assert_memory_equal(text, expected, strlen(expected));
        mem_free(text);
    }
    expect("GET / HTTP/1.1\r\n" H "Connection: close\r\nConnection: keep-alive\r\n\r\n",
           "GET /? host=h close 1.1\nhost: h\nconnection: close\nconnection: keep-alive\n[0]\n"
           "idle");
}

static void test_http_1_0_needs_no_host(void **state)
{
    (void)state;
    expect("GET /a HTTP/1.0\r\n\r\n", "GET /a? host=- close 1.0\n[0]\nidle");
    expect("POST /a HTTP/1.0\r\n" H "Content-Length: 1\r\n\r\nx",
           "POST /a? host=h close 1.0\nhost: h\ncontent-length: 1\n[1]x\nidle");
}

static void test_an_upgrade_is_read_as_the_plain_request_it_is(void **state)
{
    (void)state;
    const char *const upgrades[] = {"Upgrade: websocket", "Upgrade: h2c"};
    for (size_t i = 0; i < COUNT_OF(upgrades); i++) {
        char bytes[400];
        snprintf(bytes, sizeof bytes,
                 "POST /a HTTP/1.1\r\n" H "Connection: Upgrade\r\n%s\r\nContent-Length: 2\r\n\r\n"
                 "hiGET /b HTTP/1.1\r\n" H
                 "Connection: Upgrade\r\n%s\r\n\r\nGET /c HTTP/1.0\r\n\r\n",
                 upgrades[i], upgrades[i]);
        char *text = http_transcript(bytes, strlen(bytes), (struct http_cut){0});
        assert_non_null(strstr(text, "POST /a? host=h keep 1.1\n"));
        assert_non_null(strstr(text, "\n[2]hi\nGET /b? host=h keep 1.1\n"));
        assert_non_null(strstr(text, "\n[0]\nGET /c? host=- close 1.0\n[0]\nidle"));
        mem_free(text);
        http_check(bytes, strlen(bytes));
    }
}

static void test_one_empty_line_before_a_request_is_forgiven(void **state)
{
    (void)state;
    expect("\r\nGET /a HTTP/1.0\r\n\r\n\r\nGET /b HTTP/1.0\r\n\r\n",
           "GET /a? host=- close 1.0\n[0]\nGET /b? host=- close 1.0\n[0]\nidle");
    expect("\r\n", "idle");
    expect("\r", "more");
    expect("\r\n\r\n", "refused 400");
    expect("\r\n\r", "refused 400");
    expect("\n", "refused 400");
    expect("\rG", "refused 400");
}

/* ---- one after another ---- */

static void test_pipelined_requests_come_out_one_at_a_time(void **state)
{
    (void)state;
    const char bytes[] = "POST /1 HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc"
                         "GET /2 HTTP/1.1\r\n" H "\r\n"
                         "POST /3 HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
                         "1\r\nx\r\n0\r\n\r\n"
                         "GET /4 HTTP/1.1\r\n" H;
    expect(bytes, "POST /1? host=h keep 1.1\nhost: h\ncontent-length: 3\n[3]abc\n"
                  "GET /2? host=h keep 1.1\nhost: h\n[0]\n"
                  "POST /3? host=h keep 1.1\nhost: h\ntransfer-encoding: chunked\n[1]x\nmore");
    struct http *h = http_new();
    size_t used = 0;
    assert_int_equal(http_feed(h, bytes, sizeof bytes - 1, &used), HTTP_REQUEST);
    assert_int_equal(used, strstr(bytes, "GET /2") - bytes);
    http_free(h);
}

static void test_idle_means_that_nothing_has_come(void **state)
{
    (void)state;
    struct http *h = http_new();
    size_t used = 7;
    assert_true(http_is_idle(h));
    assert_int_equal(http_feed(h, "", 0, &used), HTTP_MORE);
    assert_int_equal(used, 0);
    assert_true(http_is_idle(h));
    assert_int_equal(http_feed(h, "G", 1, &used), HTTP_MORE);
    assert_int_equal(used, 1);
    assert_false(http_is_idle(h));
    http_free(h);
}

static void test_after_a_refusal_nothing_is_taken(void **state)
{
    (void)state;
    struct http *h = http_new();
    size_t used = 0;
    assert_int_equal(http_feed(h, "GET / HTTP/9.9\r\n\r\n", 18, &used), HTTP_REFUSED);
    assert_int_equal(http_refusal(h).status, 505);
    assert_true(strlen(http_refusal(h).text) > 0);
    assert_int_equal(http_feed(h, "GET / HTTP/1.0\r\n\r\n", 18, &used), HTTP_REFUSED);
    assert_int_equal(used, 0);
    assert_int_equal(http_refusal(h).status, 505);
    assert_false(http_is_idle(h));
    http_free(h);
}

/* ---- bodies ---- */

static void test_a_chunked_body_is_put_together(void **state)
{
    (void)state;
    const char head[] = "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n";
    const char seen[] = "POST /? host=h keep 1.1\nhost: h\ntransfer-encoding: chunked\n";
    const char *const rows[][2] = {
        {"0\r\n\r\n", "[0]"},
        {"00000000\r\n\r\n", "[0]"},
        {"5\r\nhello\r\n0\r\n\r\n", "[5]hello"},
        {"1\r\nh\r\n4\r\nello\r\n0\r\n\r\n", "[5]hello"},
        {"00000005\r\nhello\r\n00\r\n\r\n", "[5]hello"},
        {"a\r\n0\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", "[10]0\r\n\r\n0\r\n\r\n"},
        {"F\r\n123456789012345\r\n0\r\n\r\n", "[15]123456789012345"},
        {"1A\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n", "[26]abcdefghijklmnopqrstuvwxyz"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char bytes[300], transcript[300];
        snprintf(bytes, sizeof bytes, "%s%s", head, rows[i][0]);
        snprintf(transcript, sizeof transcript, "%s%s\nidle", seen, rows[i][1]);
        expect(bytes, transcript);
    }
}

static void test_a_body_may_hold_any_byte(void **state)
{
    (void)state;
    char bytes[1000];
    int head = snprintf(bytes, sizeof bytes, "PUT /x HTTP/1.1\r\n" H "Content-Length: 256\r\n\r\n");
    for (int i = 0; i < 256; i++)
        bytes[head + i] = (char)i;
    for (int step = 0; step < 3; step++) {
        struct http *h = http_new();
        size_t used = 0, at = 0, count = (size_t)head + 256;
        enum http_result result = HTTP_MORE;
        for (; at < count && result == HTTP_MORE; at += used)
            result = http_feed(h, bytes + at, step == 0 ? count - at : 1, &used);
        assert_int_equal(result, HTTP_REQUEST);
        assert_int_equal(at, count);
        assert_int_equal(http_request(h)->body_bytes, 256);
        assert_memory_equal(http_request(h)->body, bytes + head, 256);
        http_free(h);
    }
}

static void test_a_caller_that_waits_is_told_to_go_on_once(void **state)
{
    (void)state;
    const struct {
        const char *head;
        bool wants;
    } rows[] = {
        {"POST / HTTP/1.1\r\n" H "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n", true},
        {"POST / HTTP/1.1\r\n" H "Expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n\r\n",
         true},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\n", false},
        {"POST / HTTP/1.0\r\n" H "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n", false},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 0\r\nExpect: 100-continue\r\n\r\n", false},
        {"POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\n\r\n", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct http *h = http_new();
        size_t used = 0;
        http_feed(h, rows[i].head, strlen(rows[i].head), &used);
        assert_int_equal(http_refusal(h).status, 0);
        assert_int_equal(http_wants_continue(h), rows[i].wants);
        assert_false(http_wants_continue(h));
        http_free(h);
    }
}

static void test_a_caller_that_does_not_wait_is_not_told_to(void **state)
{
    (void)state;
    const char bytes[] =
        "POST / HTTP/1.1\r\n" H "Content-Length: 2\r\nExpect: 100-continue\r\n\r\nhi";
    struct http *h = http_new();
    size_t used = 0;
    assert_int_equal(http_feed(h, bytes, sizeof bytes - 2, &used), HTTP_MORE);
    assert_false(http_wants_continue(h));
    assert_int_equal(http_feed(h, bytes + used, 1, &used), HTTP_REQUEST);
    assert_false(http_wants_continue(h));
    http_free(h);
}

static void test_every_status_we_use_has_a_text(void **state)
{
    (void)state;
    const int statuses[] = {100, 200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 408, 409, 410,
                            413, 414, 415, 417, 421, 422, 429, 431, 500, 501, 503, 505, 507};
    for (size_t i = 0; i < COUNT_OF(statuses); i++)
        assert_string_not_equal(http_status_text(statuses[i]), "Unknown");
    assert_string_equal(http_status_text(404), "Not Found");
    assert_string_equal(http_status_text(299), "Unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_comes_out_as_it_was_sent),
        cmocka_unit_test(test_each_of_our_methods_is_taken_with_and_without_a_body),
        cmocka_unit_test(test_names_are_lower_case_and_values_trimmed),
        cmocka_unit_test(test_headers_are_found_by_name),
        cmocka_unit_test(test_odd_but_clear_targets_are_taken),
        cmocka_unit_test(test_hosts_are_names_and_addresses),
        cmocka_unit_test(test_connections_stay_open_when_both_sides_agree),
        cmocka_unit_test(test_http_1_0_needs_no_host),
        cmocka_unit_test(test_an_upgrade_is_read_as_the_plain_request_it_is),
        cmocka_unit_test(test_one_empty_line_before_a_request_is_forgiven),
        cmocka_unit_test(test_pipelined_requests_come_out_one_at_a_time),
        cmocka_unit_test(test_idle_means_that_nothing_has_come),
        cmocka_unit_test(test_after_a_refusal_nothing_is_taken),
        cmocka_unit_test(test_a_chunked_body_is_put_together),
        cmocka_unit_test(test_a_body_may_hold_any_byte),
        cmocka_unit_test(test_a_caller_that_waits_is_told_to_go_on_once),
        cmocka_unit_test(test_a_caller_that_does_not_wait_is_not_told_to),
        cmocka_unit_test(test_every_status_we_use_has_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
