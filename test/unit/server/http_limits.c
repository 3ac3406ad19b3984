/* SPDX-License-Identifier: MIT */
/*
 * http_limits.c: tests of src/server/http.c: limits to the byte, and memory: how much, and when
 * there is none.
 */
#include "server/http.h"

#include <malloc.h>
#include <setjmp.h>

#include <cmocka.h>

#include "http_check.h"

#define H "Host: h\r\n"

/* ---- limits ---- */

/* make: a request whose parts have these sizes; the caller frees it. */
static char *make(size_t target, size_t headers, size_t filler, size_t *count)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_text(&b, "GET /");
    for (size_t i = 1; i < target; i++)
        buf_char(&b, 'a');
    buf_text(&b, " HTTP/1.1\r\n" H);
    for (size_t i = 1; i < headers; i++)
        buf_printf(&b, "x-%zu: %zu\r\n", i, i);
    if (filler > 0) {
        buf_text(&b, "fill: ");
        for (size_t i = 0; i < filler; i++)
            buf_char(&b, 'f');
        buf_text(&b, "\r\n");
    }
    buf_text(&b, "\r\n");
    *count = b.len;
    return buf_detach(&b);
}

/* outcome: 200 for a request, the status of a refusal, 0 when there is more to come. */
static int outcome(const char *bytes, size_t count, size_t step)
{
    char *text = http_transcript(bytes, count, (struct http_cut){.step = step});
    size_t len = strlen(text);
    int status = len > 4 && strcmp(text + len - 4, "idle") == 0 ? 200 : 0;
    sscanf(text, "refused %d", &status);
    mem_free(text);
    return status;
}

static void check_size(size_t target, size_t headers, size_t filler, int status)
{
    size_t count = 0;
    char *bytes = make(target, headers, filler, &count);
    assert_int_equal(outcome(bytes, count, 0), status);
    assert_int_equal(outcome(bytes, count, 1), status);
    assert_int_equal(outcome(bytes, count, 1000), status);
    mem_free(bytes);
}

static void test_limits_of_a_head_are_exact(void **state)
{
    (void)state;
    check_size(HTTP_URL_BYTES_MAX, 1, 0, 200);
    check_size(HTTP_URL_BYTES_MAX + 1, 1, 0, 414);
    check_size(HTTP_URL_BYTES_MAX + 100, 1, 0, 414);
    check_size(100000, 1, 0, 414);
    check_size(1, HTTP_HEADERS_MAX, 0, 200);
    check_size(1, HTTP_HEADERS_MAX + 1, 0, 431);
    check_size(1, 2000, 0, 431);
    const size_t around = sizeof "GET / HTTP/1.1\r\n" H "fill: \r\n\r\n" - 1;
    check_size(1, 1, HTTP_HEAD_BYTES_MAX - around, 200);
    check_size(1, 1, HTTP_HEAD_BYTES_MAX - around + 1, 431);
    check_size(1, 1, 100000, 431);
}

static void test_a_head_without_end_is_refused_at_its_limit(void **state)
{
    (void)state;
    struct http *h = http_new();
    size_t used = 0;
    assert_int_equal(http_feed(h, "GET / HTTP/1.1\r\nx: ", 19, &used), HTTP_MORE);
    size_t taken = 19;
    while (http_feed(h, "y", 1, &used) == HTTP_MORE)
        taken++;
    assert_int_equal(taken, HTTP_HEAD_BYTES_MAX);
    assert_int_equal(http_refusal(h).status, 431);
    http_free(h);
}

static void test_a_body_too_large_is_refused_before_it_comes(void **state)
{
    (void)state;
    char bytes[200];
    const struct {
        const char *length;
        int status;
    } rows[] = {
        {"1048577", 413},
        {"99999999999", 413},
        {"4294967296", 413},
        {"999999999999999999", 413},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(bytes, sizeof bytes,
                 "POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: %s\r\n\r\n",
                 rows[i].length);
        assert_int_equal(outcome(bytes, strlen(bytes), 0), rows[i].status);
        assert_int_equal(outcome(bytes, strlen(bytes), 1), rows[i].status);
    }
    const char *const chunks[] = {"100001\r\n", "ffffffff\r\n", "1\r\nx\r\n100000\r\n",
                                  "80000000\r\n"};
    for (size_t i = 0; i < COUNT_OF(chunks); i++) {
        snprintf(bytes, sizeof bytes,
                 "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n%s", chunks[i]);
        assert_int_equal(outcome(bytes, strlen(bytes), 0), 413);
        assert_int_equal(outcome(bytes, strlen(bytes), 1), 413);
    }
}

/* large: a request with a body of that many bytes, in chunks when chunk > 0. */
static char *large(size_t body, size_t chunk, size_t *count)
{
    struct buf b;
    buf_init(&b, 16 << 20);
    buf_text(&b, "POST / HTTP/1.1\r\n" H);
    if (chunk == 0)
        buf_printf(&b, "Content-Length: %zu\r\n\r\n", body);
    else
        buf_text(&b, "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t at = 0; at < body;) {
        size_t n = chunk == 0 || chunk > body - at ? body - at : chunk;
        if (chunk > 0)
            buf_printf(&b, "%zx\r\n", n);
        for (size_t end = at + n; at < end; at++)
            buf_char(&b, (char)('a' + at % 26));
        if (chunk > 0)
            buf_text(&b, "\r\n");
    }
    if (chunk > 0)
        buf_text(&b, "0\r\n\r\n");
    *count = b.len;
    return buf_detach(&b);
}

static void test_the_largest_body_arrives_whole(void **state)
{
    (void)state;
    const size_t chunks[] = {0, BODY_BYTES_MAX, 1000, 1};
    for (size_t i = 0; i < COUNT_OF(chunks); i++) {
        size_t count = 0;
        char *bytes = large(BODY_BYTES_MAX, chunks[i], &count);
        for (size_t step = 1; step <= 65536; step *= 16) {
            struct http *h = http_new();
            size_t used = 0, at = 0;
            for (; at < count && http_refusal(h).status == 0; at += used)
                http_feed(h, bytes + at, step < count - at ? step : count - at, &used);
            const struct http_request *r = http_request(h);
            assert_int_equal(r->body_bytes, BODY_BYTES_MAX);
            for (size_t b = 0; b < r->body_bytes; b++)
                if (r->body[b] != (char)('a' + b % 26))
                    fail_msg("byte %zu of the body is wrong", b);
            http_free(h);
        }
        mem_free(bytes);
    }
}

/* ---- memory ---- */

static int requests, failing;

static bool count_and_fail(void)
{
    return ++requests == failing;
}

static int stop_failing(void **state)
{
    (void)state;
    mem_should_fail = NULL;
    return 0;
}

/* attempt: the n-th request for memory fails; false when there were fewer. */
static bool attempt(const char *bytes, size_t count, size_t step, int n)
{
    requests = 0;
    failing = n;
    mem_should_fail = count_and_fail;
    struct http *h = http_new();
    enum http_result result = HTTP_MORE;
    size_t used = 0;
    for (size_t at = 0; h != NULL && at < count && result == HTTP_MORE; at += used)
        result = http_feed(h, bytes + at, step < count - at ? step : count - at, &used);
    mem_should_fail = NULL;
    bool failed = requests >= n;
    if (h != NULL && failed) {
        assert_int_equal(result, HTTP_REFUSED);
        assert_int_equal(http_refusal(h).status, 503);
    } else if (h != NULL) {
        assert_int_equal(result, HTTP_REQUEST);
    }
    http_free(h);
    return failed;
}

static void test_each_lack_of_memory_is_a_refusal(void **state)
{
    (void)state;
    for (int kind = 0; kind < 6; kind++) {
        size_t count = 0, step = kind % 2 == 0 ? SIZE_MAX : 100;
        char *bytes = kind < 2   ? make(3000, 50, 5000, &count)
                      : kind < 4 ? large(200000, 0, &count)
                                 : large(200000, 7777, &count);
        int n = 1;
        while (attempt(bytes, count, step, n))
            n++;
        assert_true(n > 2);
        mem_free(bytes);
    }
}

static int requests_for(const char *bytes)
{
    struct http *h = http_new();
    size_t used = 0;
    requests = 0;
    failing = -1;
    mem_should_fail = count_and_fail;
    assert_int_equal(http_feed(h, bytes, strlen(bytes), &used), HTTP_REQUEST);
    mem_should_fail = NULL;
    http_free(h);
    return requests;
}

static void test_a_request_needs_one_block_and_one_for_its_body(void **state)
{
    (void)state;
    assert_int_equal(requests_for("GET / HTTP/1.1\r\n" H "a: b\r\nc: d\r\n\r\n"), 1);
    assert_int_equal(requests_for("POST / HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nhi"), 2);
    assert_int_equal(requests_for("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
                                  "2\r\nhi\r\n2\r\nho\r\n0\r\n\r\n"),
                     2);
}

static void test_an_idle_stream_is_small(void **state)
{
    (void)state;
    struct http *h = http_new();
    assert_true(malloc_usable_size(h) < 300);
    http_free(h);
}

static void test_a_promised_body_takes_no_memory_before_it_comes(void **state)
{
    (void)state;
    size_t used = 0;
    struct http *h = http_new();
    const char bytes[] = "POST / HTTP/1.1\r\n" H "Content-Length: 1048576\r\n\r\n";
    requests = 0;
    failing = -1;
    mem_should_fail = count_and_fail;
    assert_int_equal(http_feed(h, bytes, sizeof bytes - 1, &used), HTTP_MORE);
    assert_int_equal(requests, 1); /* the head */
    assert_int_equal(http_feed(h, "x", 1, &used), HTTP_MORE);
    mem_should_fail = NULL;
    assert_true(malloc_usable_size((void *)(uintptr_t)http_request(h)->body) < 16384);
    http_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits_of_a_head_are_exact),
        cmocka_unit_test(test_a_head_without_end_is_refused_at_its_limit),
        cmocka_unit_test(test_a_body_too_large_is_refused_before_it_comes),
        cmocka_unit_test(test_the_largest_body_arrives_whole),
        cmocka_unit_test_teardown(test_each_lack_of_memory_is_a_refusal, stop_failing),
        cmocka_unit_test_teardown(test_a_request_needs_one_block_and_one_for_its_body,
                                  stop_failing),
        cmocka_unit_test(test_an_idle_stream_is_small),
        cmocka_unit_test_teardown(test_a_promised_body_takes_no_memory_before_it_comes,
                                  stop_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
