/* SPDX-License-Identifier: MIT */
/* Tests of src/server/origin.c: names that are ours, pages that are not, bodies that are JSON. */
#include "server/origin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct origin_hosts known;

static int setup(void **state)
{
    (void)state;
    known = (struct origin_hosts){0};
    return origin_set_hosts(&known, DIBS_STRINGS("box.lan", "10.0.0.5", "fe80::1", "[fd00::2]"))
               ? 0
               : -1;
}

static int teardown(void **state)
{
    (void)state;
    origin_release(&known);
    return 0;
}

static dibs_status check(const char *host, enum conn_kind kind)
{
    struct dibs_error err = {0};
    struct http_request r = {.method = "GET", .path = "/", .host = host, .http10 = host == NULL};
    dibs_status s = origin_check(&known, &r, kind, false, &err);
    assert_int_equal(err.code, s);
    assert_true((err.message[0] != '\0') == (s != DIBS_OK));
    return s;
}

static const struct {
    const char *host;
    bool ours;
} host_cases[] = {
    {"localhost", true},
    {"localhost:7117", true},
    {"LOCALHOST:7117", true},
    {"LocalHost", true},
    {"localhost:1", true},
    {"localhost:65535", true},
    {"127.0.0.1", true},
    {"127.0.0.1:80", true},
    {"[::1]", true},
    {"[::1]:7117", true},
    {"box.lan", true},
    {"BOX.lan:8080", true},
    {"10.0.0.5", true},
    {"10.0.0.5:7117", true},
    {"[fe80::1]:7117", true},
    {"[FE80::1]", true},
    {"[fd00::2]", true},
    {"", false},
    {":7117", false},
    {"localhost.", false},
    {"localhost.:7117", false},
    {"localhost:", false},
    {"localhost:0", false},
    {"localhost:65536", false},
    {"localhost:99999", false},
    {"localhost:000080", false},
    {"localhost:7117x", false},
    {"localhost:+80", false},
    {"localhost:-1", false},
    {"localhost: 80", false},
    {"localhost:80:80", false},
    {" localhost", false},
    {"localhost ", false},
    {"localhost,evil.example", false},
    {"localhost/", false},
    {"localhost#", false},
    {"user@localhost", false},
    {"localhost@evil.example", false},
    {"evil.example", false},
    {"evil.example:7117", false},
    {"localhost.evil.example", false},
    {"127.0.0.1.evil.example", false},
    {"xlocalhost", false},
    {"localhos", false},
    {"127.0.0.2", false},
    {"127.1", false},
    {"127.000.000.001", false},
    {"0177.0.0.1", false},
    {"2130706433", false},
    {"0.0.0.0", false},
    {"0", false},
    {"::1", false},
    {"[::1", false},
    {"[::1]x", false},
    {"[::1]:", false},
    {"[::]", false},
    {"[0:0:0:0:0:0:0:1]", false},
    {"[::ffff:127.0.0.1]", false},
    {"[::1%25lo]", false},
    {"fe80::1", false},
    {"[box.lan]", false},
    {"box.lan.", false},
    {"box", false},
    {"sub.box.lan", false},
};

static void test_only_our_own_names_are_answered(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(host_cases); i++) {
        dibs_status s = check(host_cases[i].host, CONN_TCP);
        if (s != (host_cases[i].ours ? DIBS_OK : DIBS_MISDIRECTED_REQUEST))
            fail_msg("'%s': %s", host_cases[i].host, dibs_status_name(s));
        assert_int_equal(check(host_cases[i].host, CONN_UNIX), DIBS_OK);
    }
}

static void test_a_request_without_host_comes_by_the_socket_only(void **state)
{
    (void)state;
    assert_int_equal(check(NULL, CONN_TCP), DIBS_MISDIRECTED_REQUEST);
    assert_int_equal(check(NULL, CONN_UNIX), DIBS_OK);
}

static void test_new_names_replace_the_old_ones(void **state)
{
    (void)state;
    assert_true(origin_set_hosts(&known, DIBS_STRINGS("other.lan")));
    assert_int_equal(check("other.lan", CONN_TCP), DIBS_OK);
    assert_int_equal(check("box.lan", CONN_TCP), DIBS_MISDIRECTED_REQUEST);
    assert_int_equal(check("localhost", CONN_TCP), DIBS_OK);
}

static int fails_left;

static bool fails_once(void)
{
    return --fails_left == 0;
}

static void test_without_memory_the_names_stay_as_they_were(void **state)
{
    (void)state;
    mem_should_fail = fails_once;
    for (int i = 1; i <= 3; i++) {
        fails_left = i;
        assert_false(origin_set_hosts(&known, DIBS_STRINGS("a.lan", "b.lan")));
    }
    mem_should_fail = NULL;
    assert_int_equal(check("box.lan", CONN_TCP), DIBS_OK);
    assert_int_equal(check("a.lan", CONN_TCP), DIBS_MISDIRECTED_REQUEST);
}

/* ---- pages ----------------------------------------------------------------------------------- */

static dibs_status check_headers(const char *method, const char *host, bool is_page,
                                 const struct http_header *headers, size_t count)
{
    struct dibs_error err = {0};
    struct http_request r = {
        .method = method, .host = host, .headers = headers, .header_count = count};
    return origin_check(&known, &r, CONN_TCP, is_page, &err);
}

static void test_only_our_own_page_may_send_requests(void **state)
{
    static const struct {
        const char *origin, *host;
        bool same;
    } cases[] = {
        {"http://localhost:7117", "localhost:7117", true},
        {"http://LOCALHOST:7117", "localhost:7117", true},
        {"https://box.lan", "box.lan", true},
        {"http://[::1]:7117", "[::1]:7117", true},
        {"null", "localhost:7117", false},
        {"", "localhost:7117", false},
        {"localhost:7117", "localhost:7117", false},
        {"//localhost:7117", "localhost:7117", false},
        {"http://", "localhost:7117", false},
        {"http://localhost", "localhost:7117", false},
        {"http://localhost:7117/", "localhost:7117", false},
        {"http://localhost:71170", "localhost:7117", false},
        {"http://localhost:7118", "localhost:7117", false},
        {"http://127.0.0.1:7117", "localhost:7117", false},
        {"http://evil.example", "localhost:7117", false},
        {"http://localhost:7117.evil.example", "localhost:7117", false},
        {"http://evil.example http://localhost:7117", "localhost:7117", false},
        {"http://localhost:7117, http://evil.example", "localhost:7117", false},
        {"file://localhost:7117", "localhost:7117", false},
        {"chrome-extension://localhost:7117", "localhost:7117", false},
        {"HTTP://localhost:7117", "localhost:7117", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct http_header header = {"origin", cases[i].origin};
        dibs_status s = check_headers("POST", cases[i].host, false, &header, 1);
        if (s != (cases[i].same ? DIBS_OK : DIBS_FORBIDDEN))
            fail_msg("'%s' to '%s': %s", cases[i].origin, cases[i].host, dibs_status_name(s));
    }
}

static void test_a_second_origin_does_not_hide_behind_the_first(void **state)
{
    static const struct http_header headers[] = {{"origin", "http://localhost"},
                                                 {"origin", "http://evil.example"}};
    (void)state;
    assert_int_equal(check_headers("POST", "localhost", false, headers, 2), DIBS_FORBIDDEN);
}

static void test_the_browsers_own_word_counts_too(void **state)
{
    static const struct {
        const char *site;
        bool fine;
    } cases[] = {{"same-origin", true}, {"none", true}, {"same-site", false},
                 {"cross-site", false}, {"", false},    {"SAME-ORIGIN", false},
                 {"whatever", false}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct http_header header = {"sec-fetch-site", cases[i].site};
        assert_int_equal(check_headers("GET", "localhost", false, &header, 1),
                         cases[i].fine ? DIBS_OK : DIBS_FORBIDDEN);
    }
}

static void test_a_link_from_elsewhere_may_open_a_page_but_nothing_else(void **state)
{
    static const struct http_header link[] = {{"sec-fetch-site", "cross-site"},
                                              {"sec-fetch-mode", "navigate"},
                                              {"sec-fetch-dest", "document"}};
    static const struct http_header frame[] = {{"sec-fetch-site", "cross-site"},
                                               {"sec-fetch-mode", "navigate"},
                                               {"sec-fetch-dest", "iframe"}};
    static const struct http_header script[] = {{"sec-fetch-site", "cross-site"},
                                                {"sec-fetch-mode", "no-cors"},
                                                {"sec-fetch-dest", "script"}};
    (void)state;
    assert_int_equal(check_headers("GET", "localhost", true, link, 3), DIBS_OK);
    assert_int_equal(check_headers("GET", "localhost", false, link, 3), DIBS_FORBIDDEN);
    assert_int_equal(check_headers("POST", "localhost", true, link, 3), DIBS_FORBIDDEN);
    assert_int_equal(check_headers("GET", "localhost", true, frame, 3), DIBS_FORBIDDEN);
    assert_int_equal(check_headers("GET", "localhost", true, script, 3), DIBS_FORBIDDEN);
    assert_int_equal(check_headers("GET", "evil.example", true, link, 3), DIBS_MISDIRECTED_REQUEST);
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static dibs_status check_type(const char *method, const char *type, size_t body_bytes)
{
    struct dibs_error err = {0};
    struct http_header header = {"content-type", type};
    struct http_request r = {.method = method,
                             .headers = &header,
                             .header_count = type != NULL,
                             .body_bytes = body_bytes};
    return origin_check_type(&r, &err);
}

static void test_a_body_must_say_that_it_is_json(void **state)
{
    static const struct {
        const char *type;
        bool fine;
    } cases[] = {
        {"application/json", true},
        {"Application/JSON", true},
        {"application/json; charset=utf-8", true},
        {"application/json;charset=UTF-8", true},
        {"application/json ; charset=\"utf-8\"", true},
        {"application/json; charset=utf8", true},
        {"application/json; profile=x; charset=utf-8", true},
        {"application/json;", true},
        {"application/json; charset=iso-8859-1", false},
        {"application/json; charset=utf-16", false},
        {"application/jsonx", false},
        {"application/json, text/plain", false},
        {"application/json text/plain", false},
        {"application/json-patch+json", false},
        {"application/x-www-form-urlencoded", false},
        {"multipart/form-data; boundary=application/json", false},
        {"text/plain", false},
        {"text/plain; application/json", false},
        {"text/json", false},
        {"", false},
        {NULL, false},
    };
    static const char *const methods[] = {"POST", "PATCH", "DELETE", "PUT"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (size_t k = 0; k < COUNT_OF(methods); k++) {
            dibs_status s = check_type(methods[k], cases[i].type, 2);
            if (s != (cases[i].fine ? DIBS_OK : DIBS_UNSUPPORTED_MEDIA_TYPE))
                fail_msg("'%s': %s", cases[i].type, dibs_status_name(s));
            assert_int_equal(check_type(methods[k], cases[i].type, 0), DIBS_OK);
        }
        assert_int_equal(check_type("GET", cases[i].type, 2), DIBS_OK);
    }
}

static void test_two_types_are_none(void **state)
{
    static const struct http_header headers[] = {{"content-type", "application/json"},
                                                 {"content-type", "application/json"}};
    struct dibs_error err = {0};
    struct http_request r = {
        .method = "POST", .headers = headers, .header_count = 2, .body_bytes = 2};
    (void)state;
    assert_int_equal(origin_check_type(&r, &err), DIBS_UNSUPPORTED_MEDIA_TYPE);
}

#define WITH_NAMES(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_NAMES(test_only_our_own_names_are_answered),
        WITH_NAMES(test_a_request_without_host_comes_by_the_socket_only),
        WITH_NAMES(test_new_names_replace_the_old_ones),
        WITH_NAMES(test_without_memory_the_names_stay_as_they_were),
        WITH_NAMES(test_only_our_own_page_may_send_requests),
        WITH_NAMES(test_a_second_origin_does_not_hide_behind_the_first),
        WITH_NAMES(test_the_browsers_own_word_counts_too),
        WITH_NAMES(test_a_link_from_elsewhere_may_open_a_page_but_nothing_else),
        cmocka_unit_test(test_a_body_must_say_that_it_is_json),
        cmocka_unit_test(test_two_types_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
