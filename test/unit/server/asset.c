/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/server/asset.c: which form of a file is sent to whom, when nothing needs to be sent,
 * and that every answer carries the policies. No connection: asset_decide() is asked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "server/asset.h"

/* ask: the answer to a request with up to two headers; a NULL value leaves its header out. */
static struct asset_reply ask(const char *path, const char *accept_encoding,
                              const char *if_none_match)
{
    struct http_header headers[2];
    struct http_request r = {.method = "GET",
                             .path = path,
                             .query = "",
                             .host = "localhost",
                             .headers = headers,
                             .body = ""};
    struct asset_reply reply = {0};
    if (accept_encoding != NULL)
        headers[r.header_count++] = (struct http_header){"accept-encoding", accept_encoding};
    if (if_none_match != NULL)
        headers[r.header_count++] = (struct http_header){"if-none-match", if_none_match};
    assert_true(asset_decide(&r, &reply));
    return reply;
}

static const struct asset *find(const char *path)
{
    for (size_t i = 0; i < asset_files.count; i++) {
        if (str_eq(asset_files.items[i].path, path))
            return &asset_files.items[i];
    }
    fail_msg("there is no '%s'", path);
    return NULL;
}

/* header: whether the answer has this line. */
static bool header(const struct asset_reply *reply, const char *line)
{
    char wanted[512];
    snprintf(wanted, sizeof wanted, "%s\r\n", line);
    const char *found = strstr(reply->headers, wanted);
    return found != NULL && (found == reply->headers || found[-1] == '\n');
}

static bool is_gzip(const struct asset_reply *reply)
{
    bool says = header(reply, "Content-Encoding: gzip");
    bool is = reply->form->data[0] == 0x1F && reply->form->data[1] == 0x8B;
    assert_true(says == is);
    return is;
}

static void test_the_page_is_at_the_root(void **state)
{
    struct asset_reply root = ask("/", NULL, NULL);
    struct asset_reply named = ask("/index.html", NULL, NULL);
    (void)state;
    assert_int_equal(root.status, 200);
    assert_string_equal(root.content_type, "text/html; charset=utf-8");
    assert_ptr_equal(root.form, named.form);
    assert_memory_equal(root.form->data, "<!doctype html>", 15);
    assert_true(asset_exists("/") && asset_exists("/page.js") && asset_exists("/style.css"));
}

static void test_what_is_no_asset_is_left_to_others(void **state)
{
    static const char *const paths[] = {"",
                                        "//",
                                        "/index",
                                        "/index.html/",
                                        "/INDEX.HTML",
                                        "/../web/index.html",
                                        "/%2e%2e/page.js",
                                        "/style.css?x",
                                        "/api/tasks",
                                        "/metrics"};
    struct asset_reply reply = {0};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct http_request r = {.method = "GET", .path = paths[i]};
        assert_false(asset_decide(&r, &reply));
        assert_false(asset_exists(paths[i]));
    }
}

static void test_gzip_is_for_those_who_take_it(void **state)
{
    static const char *const takes[] = {"gzip",
                                        "GZIP",
                                        "x-gzip",
                                        "gzip, deflate, br",
                                        "br;q=1.0, gzip;q=0.8, *;q=0.1",
                                        "*",
                                        "*;q=0.5",
                                        "deflate,gzip;q=1",
                                        "gzip ; q=0.001",
                                        "gzip;q=0.5, identity;q=0.5",
                                        "identity;q=0, gzip",
                                        ",, gzip ,",
                                        "gzip;Q=1.000",
                                        "gzip\t;\tq=1"};
    static const char *const refuses[] = {"",
                                          "identity",
                                          "gzip;q=0",
                                          "gzip;q=0.0",
                                          "gzip;q=0.000",
                                          "*;q=0",
                                          "*, gzip;q=0",
                                          "gzip;q=0, *;q=1",
                                          "br",
                                          "gzipped",
                                          "xgzip",
                                          "gzip;q=",
                                          "gzip;q=x",
                                          "gzip;q=2",
                                          "gzip;q=0.5x",
                                          "gzip;q=0.5, identity;q=0.8",
                                          "deflate",
                                          "gzip;level=9",
                                          " "};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(takes); i++) {
        struct asset_reply reply = ask("/", takes[i], NULL);
        if (!is_gzip(&reply))
            fail_msg("'%s' was sent the plain form", takes[i]);
    }
    for (size_t i = 0; i < COUNT_OF(refuses); i++) {
        struct asset_reply reply = ask("/", refuses[i], NULL);
        if (is_gzip(&reply))
            fail_msg("'%s' was sent the gzipped form", refuses[i]);
    }
    struct asset_reply silent = ask("/", NULL, NULL);
    assert_false(is_gzip(&silent));
    assert_true(header(&silent, "Vary: Accept-Encoding"));
}

static void test_a_caller_that_has_the_file_is_sent_nothing(void **state)
{
    const struct asset *page = find("/index.html");
    char weak[64], list[256];
    (void)state;
    snprintf(weak, sizeof weak, "W/%s", page->plain.etag);
    snprintf(list, sizeof list, "\"x\", W/\"a,b\" ,%s", page->plain.etag);
    const char *const same[] = {page->plain.etag, weak, list, "*"};
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        struct asset_reply reply = ask("/", NULL, same[i]);
        assert_int_equal(reply.status, 304);
        assert_null(reply.form);
        snprintf(list, sizeof list, "ETag: %s", page->plain.etag);
        assert_true(header(&reply, list));
        assert_true(header(&reply, "Vary: Accept-Encoding"));
        assert_false(header(&reply, "Content-Encoding: gzip"));
        snprintf(list, sizeof list, "\"x\", W/\"a,b\" ,%s", page->plain.etag);
    }
}

static void test_a_caller_with_another_file_is_sent_this_one(void **state)
{
    const struct asset *page = find("/index.html");
    char longer[64], open[64], inside[64], naked[64];
    (void)state;
    snprintf(longer, sizeof longer, "%sx", page->plain.etag);
    snprintf(open, sizeof open, "%.10s", page->plain.etag);
    snprintf(inside, sizeof inside, "\"x,%s", page->plain.etag + 1);
    snprintf(naked, sizeof naked, "%.*s", (int)strlen(page->plain.etag) - 2, page->plain.etag + 1);
    const char *const others[] = {"\"x\"",         "",  "x",  longer, open, inside, naked,
                                  page->gzip.etag, ",", "W/", "\""};
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        struct asset_reply reply = ask("/", NULL, others[i]);
        if (reply.status != 200)
            fail_msg("'%s' counted as the same", others[i]);
    }
}

static void test_each_form_has_an_etag_of_its_own(void **state)
{
    const struct asset *page = find("/index.html");
    (void)state;
    assert_string_not_equal(page->plain.etag, page->gzip.etag);
    assert_int_equal(ask("/", "gzip", page->gzip.etag).status, 304);
    assert_int_equal(ask("/", "gzip", page->plain.etag).status, 200);
    for (size_t i = 0; i < asset_files.count; i++) {
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(asset_files.items[i].plain.etag,
                                    asset_files.items[k].plain.etag);
    }
}

static void expect_policies(const struct asset_reply *reply)
{
    static const char *const lines[] = {
        "Cache-Control: no-cache",
        "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
        "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'",
        "Referrer-Policy: no-referrer",
        "Cross-Origin-Resource-Policy: same-origin",
        "Cross-Origin-Opener-Policy: same-origin",
    };
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        if (!header(reply, lines[i]))
            fail_msg("no '%s' in an answer %d", lines[i], reply->status);
    }
    assert_true(strlen(reply->headers) < sizeof reply->headers - 1);
}

static void test_every_answer_carries_the_policies(void **state)
{
    (void)state;
    for (size_t i = 0; i < asset_files.count; i++) {
        const char *path = asset_files.items[i].path;
        struct asset_reply replies[] = {ask(path, NULL, NULL), ask(path, "gzip", NULL),
                                        ask(path, NULL, "*")};
        for (size_t k = 0; k < COUNT_OF(replies); k++)
            expect_policies(&replies[k]);
    }
}

/* The policies forbid inline scripts and styles and foreign hosts: such a page would be broken. */
static void test_the_page_keeps_to_its_own_policies(void **state)
{
    static const char *const forbidden[] = {"<style",      " style=",  " onclick=", " onload=",
                                            "javascript:", "https://", "<iframe",   "<base"};
    static const char *const unsafe[] = {"innerHTML",      "outerHTML", "insertAdjacentHTML",
                                         "document.write", "eval(",     "new Function"};
    (void)state;
    for (size_t i = 0; i < asset_files.count; i++) {
        const struct asset *asset = &asset_files.items[i];
        char *text = calloc(1, asset->plain.bytes + 1);
        assert_non_null(text);
        memcpy(text, asset->plain.data, asset->plain.bytes);
        bool html = str_starts(asset->content_type, "text/html");
        bool script = str_starts(asset->content_type, "text/javascript");
        for (size_t k = 0; html && k < COUNT_OF(forbidden); k++)
            assert_null(strstr(text, forbidden[k]));
        for (size_t k = 0; script && k < COUNT_OF(unsafe); k++)
            assert_null(strstr(text, unsafe[k]));
        const char *at = text;
        while (html && (at = strstr(at, "<script")) != NULL) {
            const char *end = strchr(at, '>'), *source = strstr(at, "src=\"/");
            assert_true(source != NULL && source < end);
            assert_true(str_starts(end + 1, "</script>"));
            at = end;
        }
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_page_is_at_the_root),
        cmocka_unit_test(test_what_is_no_asset_is_left_to_others),
        cmocka_unit_test(test_gzip_is_for_those_who_take_it),
        cmocka_unit_test(test_a_caller_that_has_the_file_is_sent_nothing),
        cmocka_unit_test(test_a_caller_with_another_file_is_sent_this_one),
        cmocka_unit_test(test_each_form_has_an_etag_of_its_own),
        cmocka_unit_test(test_every_answer_carries_the_policies),
        cmocka_unit_test(test_the_page_keeps_to_its_own_policies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
