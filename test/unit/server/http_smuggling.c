/* SPDX-License-Identifier: MIT */
/*
 * http_smuggling.c: heads that two readers could understand differently, or that are none. Those
 * in which the end of the body is in doubt are in http_framing.c.
 *
 * Behind each stands a canary, a request in the same bytes. The refusal must be the only thing that
 * comes out, however the bytes are cut: a canary that comes out was smuggled.
 */
#include "http_rows.h"

static const struct http_row request_lines[] = {
    /* not three words with one blank between them */
    BAD(" GET / HTTP/1.1"),
    BAD("  GET / HTTP/1.1"),
    BAD("\tGET / HTTP/1.1"),
    BAD("GET  / HTTP/1.1"),
    BAD("GET /  HTTP/1.1"),
    BAD("GET / HTTP/1.1 "),
    BAD("GET / HTTP/1.1  "),
    BAD("GET\t/ HTTP/1.1"),
    BAD("GET /\tHTTP/1.1"),
    BAD("GET / HTTP/1.1\t"),
    BAD("GET /a b HTTP/1.1"),
    BAD("GET / HTTP/1.1 x"),
    BAD("GET / HTTP/1.1 HTTP/1.1"),
    BAD("GET"),
    BAD("GET "),
    BAD("GET /"),
    BAD("GET / "),
    BAD("/"),
    BAD("GET/ HTTP/1.1"),
    BAD("GET HTTP/1.1"),
    BAD("GET  HTTP/1.1"),
    BAD(" / HTTP/1.1"),
    BAD("GET / /HTTP/1.1"),
    BAD("HTTP/1.1 200 OK"),
    BAD("ICY 200 OK"),
    BAD("{\"jsonrpc\":\"2.0\"}"),
    BAD("SSH-2.0-OpenSSH_9.2"),
    BAD("EHLO mail.example"),
    BAD("*1"),
    BAD("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    BAD("PROXY TCP4 10.0.0.1 10.0.0.2 1 2"),
    /* methods */
    BAD("G\x01T / HTTP/1.1"),
    BAD("G(ET / HTTP/1.1"),
    BAD("GET: / HTTP/1.1"),
    BAD("\"GET\" / HTTP/1.1"),
    BAD("G\xc3\x89T / HTTP/1.1"),
    BAD("GET\0 / HTTP/1.1"),
    ROW(501, "get / HTTP/1.1"),
    ROW(501, "Get / HTTP/1.1"),
    ROW(501, "GETT / HTTP/1.1"),
    ROW(501, "GE / HTTP/1.1"),
    ROW(501, "TRACE / HTTP/1.1"),
    ROW(501, "TRACK / HTTP/1.1"),
    ROW(501, "CONNECT / HTTP/1.1"),
    ROW(501, "PROPFIND / HTTP/1.1"),
    ROW(501, "M-SEARCH / HTTP/1.1"),
    ROW(501, "PURGE / HTTP/1.1"),
    ROW(501, "SOURCE / HTTP/1.0"),
    ROW(501, "QUERY / HTTP/1.1"),
    ROW(501, "X / HTTP/1.1"),
    /* targets */
    BAD("OPTIONS * HTTP/1.1"),
    BAD("GET * HTTP/1.1"),
    BAD("GET http://h/ HTTP/1.1"),
    BAD("GET HTTP://h/ HTTP/1.1"),
    BAD("GET https://h HTTP/1.1"),
    BAD("GET file:///etc/passwd HTTP/1.1"),
    BAD("GET h:80 HTTP/1.1"),
    BAD("CONNECT h:443 HTTP/1.1"),
    BAD("GET ?a=b HTTP/1.1"),
    BAD("GET a HTTP/1.1"),
    BAD("GET \\a HTTP/1.1"),
    BAD("GET . HTTP/1.1"),
    BAD("GET %2F HTTP/1.1"),
    BAD("GET # HTTP/1.1"),
    BAD("GET /# HTTP/1.1"),
    BAD("GET /a#b HTTP/1.1"),
    BAD("GET /?a#b HTTP/1.1"),
    BAD("GET /\xc3\xa9 HTTP/1.1"),
    BAD("GET /\x80 HTTP/1.1"),
    BAD("GET /\xff HTTP/1.1"),
    BAD("GET /?\xe2\x80\xa8 HTTP/1.1"),
    BAD("GET /\x7f HTTP/1.1"),
    BAD("GET /\0 HTTP/1.1"),
    BAD("GET /a\0/b HTTP/1.1"),
    BAD("GET /\x0b HTTP/1.1"),
    BAD("GET /\x0c HTTP/1.1"),
    BAD("GET /\x1b[31m HTTP/1.1"),
    /* versions */
    BAD("GET / http/1.1"),
    BAD("GET / Http/1.1"),
    BAD("GET / HTTP/1"),
    BAD("GET / HTTP/1."),
    BAD("GET / HTTP/.1"),
    BAD("GET / HTTP/"),
    BAD("GET / HTTP"),
    BAD("GET / HTTP/1.1x"),
    BAD("GET / HTTP/1.10"),
    BAD("GET / HTTP/01.1"),
    BAD("GET / HTTP/1.01"),
    BAD("GET / HTTP/11.1"),
    BAD("GET / HTTP/1,1"),
    BAD("GET / HTTP 1.1"),
    BAD("GET / HTTP-1.1"),
    BAD("GET / HTTPS/1.1"),
    BAD("GET / HTTP/-1.1"),
    BAD("GET / HTTP/+1.1"),
    BAD("GET / HTTP/1.a"),
    BAD("GET / HTTP/a.1"),
    BAD("GET / XTTP/1.1"),
    BAD("GET / RTSP/1.0"),
    BAD("GET / HTTP/1.\xb2"),
    ROW(505, "GET / HTTP/2.0"),
    ROW(505, "GET / HTTP/0.9"),
    ROW(505, "GET / HTTP/1.2"),
    ROW(505, "GET / HTTP/1.9"),
    ROW(505, "GET / HTTP/3.0"),
    ROW(505, "GET / HTTP/9.9"),
    ROW(505, "GET / HTTP/0.0"),
    ROW(505, "GET / HTTP/2.1"),
};

static void test_request_lines_that_are_none(void **state)
{
    (void)state;
    assert_all_refused("", request_lines, COUNT_OF(request_lines), "\r\nHost: h\r\n\r\n");
}

static const struct http_row heads[] = {
    /* ends of lines */
    BAD("GET / HTTP/1.1\nHost: h\n\n"),
    BAD("GET / HTTP/1.1\nHost: h\r\n\r\n"),
    BAD("GET / HTTP/1.1\r\nHost: h\n\r\n"),
    BAD("GET / HTTP/1.1\r\nHost: h\n\n"),
    BAD("GET / HTTP/1.1\r\nHost: h\r\n\n"),
    BAD("GET / HTTP/1.1\rHost: h\r\r"),
    BAD("GET / HTTP/1.1\r\nHost: h\r\r\n\r\n"),
    BAD("GET / HTTP/1.1\r\r\nHost: h\r\n\r\n"),
    BAD("GET / HTTP/1.1\r\nHost: h\r\n\r\r\n"),
    BAD("GET / HTTP/1.1\r\nHost: h\r\n\rX: y\r\n\r\n"),
    BAD("GET / HTTP/1.1\r\nHost: h\rX: y\r\n\r\n"),
    BAD("GET / HTTP/1.1\n\r\nHost: h\r\n\r\n"),
    BAD("GET / HTTP/1.1\r\nHost: h\n\rX: y\r\n\r\n"),
    BAD("GET / HTTP/1.1\r\nHost: h\r\n\x0b\r\n"),
    BAD("GET / HTTP/1.1\r\nHost: h\r\n\x00\r\n\r\n"),
    /* in front of the request */
    BAD("\n"),
    BAD("\r"),
    BAD("\n\n"),
    BAD("\r\r\n"),
    BAD("\r\n\n"),
    BAD("\r\n\r\n"),
    BAD("\r\n\r\n\r\n"),
    BAD("\r\n "),
    BAD(" \r\n"),
    BAD("\t"),
    BAD("\0"),
    BAD("\xef\xbb\xbf"),
    BAD("\xff\xfe"),
    BAD("\x80"),
    /* other protocols, other times */
    BAD("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    BAD("GET /\r\n\r\n"),
    BAD("GET /\r\n"),
    BAD("GET / \r\n\r\n"),
    BAD("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    BAD("GET / HTTP/1.1\r\n"),
    BAD("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    BAD("POST / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nTransfer-Encoding: "
        "chunked\r\n\r\n"),
    /* the Host header is missing */
    BAD("GET / HTTP/1.1\r\n\r\n"),
    BAD("GET / HTTP/1.1\r\nX-Host: h\r\n\r\n"),
    BAD("GET / HTTP/1.1\r\nHos: h\r\n\r\n"),
    BAD("GET / HTTP/1.1\r\nX-Forwarded-Host: h\r\n\r\n"),
};

static void test_heads_that_are_cut_up_otherwise_than_by_crlf(void **state)
{
    (void)state;
    assert_all_refused("", heads, COUNT_OF(heads), "");
}

static const struct http_row header_lines[] = {
    /* not Name: value */
    BAD("X"),
    BAD("X y"),
    BAD(": y"),
    BAD(":"),
    BAD("::"),
    BAD(" : y"),
    BAD("X : y"),
    BAD("X\t: y"),
    BAD(" X: y"),
    BAD("\tX: y"),
    BAD("X Y: z"),
    BAD("X: y\r\n z"),
    BAD("X: y\r\n\tz"),
    BAD("X:\r\n y"),
    BAD("X: y\r\n "),
    BAD("X: y\r\n \r\nZ: z"),
    BAD("X: y\n z"),
    BAD("X: y\nZ: z"),
    BAD("X: y\rZ: z"),
    BAD("X:\ty"),
    BAD("X: y\t"),
    BAD("X: y\tz"),
    BAD("X(: y"),
    BAD("X): y"),
    BAD("X/: y"),
    BAD("X=: y"),
    BAD("X@: y"),
    BAD("X[]: y"),
    BAD("{X}: y"),
    BAD("X\\: y"),
    BAD("X,: y"),
    BAD("X;: y"),
    BAD("X<>: y"),
    BAD("X?: y"),
    BAD("\"X\": y"),
    BAD("X\xc3\xa9: y"),
    BAD("\xff: y"),
    BAD("X\0: y"),
    BAD("\0X: y"),
    BAD("X: \0"),
    BAD("X: y\0z"),
    BAD("X: \x01"),
    BAD("X: \x08"),
    BAD("X: \x0b"),
    BAD("X: \x0c"),
    BAD("X: \x1b[2J"),
    BAD("X: \x7f"),
    BAD("X\x0b: y"),
    BAD("GET /canary HTTP/1.1"),
    /* two hosts, odd hosts */
    BAD("Host: h"),
    BAD("Host: i"),
    BAD("host: h"),
    BAD("HOST: h"),
    BAD("Host:"),
    BAD("Host : i"),
    BAD(" Host: i"),
    /* what decides who asks is not sent twice */
    BAD("Authorization: Bearer a\r\nAuthorization: Bearer b"),
    BAD("Authorization: Bearer a\r\nauthorization: Bearer a"),
    BAD("X-API-Key: a\r\nX-Api-Key: b"),
    BAD("Content-Type: application/json\r\nContent-Type: text/plain"),
    BAD("Idempotency-Key: a\r\nX: y\r\nIdempotency-Key: b"),
    BAD("Origin: http://h\r\nOrigin: http://i"),
    BAD("Last-Event-ID: 1\r\nLast-Event-ID: 2"),
    BAD("Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site"),
    /* expectations */
    ROW(417, "Expect: 200-ok"),
    ROW(417, "Expect:"),
    ROW(417, "Expect: 100-continue, x"),
    ROW(417, "Expect: 100-continued"),
    ROW(417, "Expect: 100-continue\r\nExpect: x"),
    ROW(417, "Expect: 100"),
    BAD("Expect: 100-continue\r\n x"),
    BAD("Expect : 100-continue"),
};

static void test_header_lines_that_are_none(void **state)
{
    (void)state;
    assert_all_refused("GET / HTTP/1.1\r\nHost: h\r\n", header_lines, COUNT_OF(header_lines),
                       "\r\n\r\n");
}

static const struct http_row hosts[] = {
    BAD(""),           BAD(" "),     BAD(","),       BAD("h,i"),     BAD("h, i"),
    BAD("h i"),        BAD("h/"),    BAD("h/a"),     BAD("/"),       BAD("http://h"),
    BAD("h?"),         BAD("h#"),    BAD("a@h"),     BAD("a:b@h"),   BAD("h:"),
    BAD("h:x"),        BAD("h:80x"), BAD("h:80:80"), BAD("h:65536"), BAD("h:123456"),
    BAD("h:-1"),       BAD("h:+80"), BAD("h: 80"),   BAD(":80"),     BAD("[::1"),
    BAD("::1"),        BAD("[]"),    BAD("[::1]x"),  BAD("[::1]:"),  BAD("[::1]:x"),
    BAD("[::1%eth0]"), BAD("[h]"),   BAD("[[::1]]"), BAD("h]"),      BAD("h%2e"),
    BAD("h\\"),        BAD("\"h\""), BAD("<h>"),     BAD("h;i"),     BAD("h\xc3\xa9"),
    BAD("h\0i"),       BAD("h\0"),   BAD("h\ti"),    BAD("*"),       BAD("h&i"),
    BAD("${h}"),       BAD("h'"),    BAD("h:80 i"),  BAD("h\x7f"),   BAD("h!"),
};

static void test_hosts_that_are_none(void **state)
{
    (void)state;
    assert_all_refused("GET / HTTP/1.1\r\nHost: ", hosts, COUNT_OF(hosts), "\r\n\r\n");
    assert_all_refused("GET / HTTP/1.0\r\nHost: ", hosts, COUNT_OF(hosts), "\r\n\r\n");
}

static void test_no_control_byte_is_taken_anywhere_in_a_head(void **state)
{
    (void)state;
    const char head[] = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nX: y\r\n\r\n";
    /* in front of the last byte an LF would end the head, and be the next one's trouble */
    for (size_t at = 0; at < sizeof head - 2; at++) {
        for (int c = 0; c <= 0x20; c++) {
            char byte = c == 0x20 ? 0x7f : (char)c;
            struct buf b;
            buf_init(&b, 1000);
            buf_append(&b, head, at);
            buf_char(&b, byte);
            buf_text(&b, head + at);
            assert_true(http_is_refused("", b.data, b.len, "", 400));
            buf_release(&b);
        }
    }
}

static void test_a_request_that_is_cut_short_never_comes_out(void **state)
{
    (void)state;
    const char *const whole[] = {
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "GET /a HTTP/1.0\r\n\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(whole); i++)
        for (size_t count = 1; count < strlen(whole[i]); count++) {
            char *text = http_transcript(whole[i], count, (struct http_cut){0});
            assert_string_equal(text, "more");
            mem_free(text);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_lines_that_are_none),
        cmocka_unit_test(test_heads_that_are_cut_up_otherwise_than_by_crlf),
        cmocka_unit_test(test_header_lines_that_are_none),
        cmocka_unit_test(test_hosts_that_are_none),
        cmocka_unit_test(test_no_control_byte_is_taken_anywhere_in_a_head),
        cmocka_unit_test(test_a_request_that_is_cut_short_never_comes_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
