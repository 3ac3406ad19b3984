/* SPDX-License-Identifier: MIT */
/*
 * http_random.c: requests, mutated at random, as fuzz/http.c would do it for longer.
 *
 * Each is fed whole and in pieces; http_check aborts when that makes a difference or when a request
 * breaks a promise. The mutations come from a fixed seed, so a failure happens again;
 * DIBS_TEST_SEED chooses another.
 */
#include "http_check.h"

#include <setjmp.h>

#include <cmocka.h>

#define ROUNDS 30000
#define STREAM_BYTES_MAX 1500
#define SECONDS_MAX 20 /* under a sanitizer, on a busy machine */

static const char *const seeds[] = {
    "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /a?b=c HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "POST /claims HTTP/1.1\r\nHost: [::1]:7117\r\nContent-Type: application/json\r\n"
    "Content-Length: 13\r\n\r\n{\"task\":\"a\"}\n",
    "PUT /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    "5\r\nhello\r\n1A\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n",
    "DELETE /y HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nConnection: Upgrade, close\r\nX: \r\n\r\n",
    "\r\nOPTIONS / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\n\r\n",
};

/* What a mutation puts in: the words on which readers disagree. */
static const char *const words[] = {
    "\r\n",
    "\r",
    "\n",
    "\r\n\r\n",
    " ",
    "\t",
    ":",
    ",",
    ";",
    "0",
    "5",
    "00000000",
    "ffffffff",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Host: i\r\n",
    "HTTP/1.1",
    "HTTP/1.0",
    "GET /canary HTTP/1.1\r\nHost: h\r\n\r\n",
    "Connection: close\r\n",
    "Upgrade: websocket\r\n",
    "Expect: 100-continue\r\n",
    "chunked",
    "\x80",
    "\x7f",
    "#",
    "?",
    "/",
    "0\r\n\r\n",
    "1\r\nx\r\n",
    "\r\n ",
    "x: y\r\n",
};

static uint64_t random_state;

/* random_below: xorshift; good enough to choose among a few. */
static size_t random_below(size_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state >> 11) % n;
}

struct stream {
    char bytes[STREAM_BYTES_MAX];
    size_t count;
};

/* splice: replaces `gone` bytes at `at` by others, when there is room. */
static void splice(struct stream *s, size_t at, size_t gone, const char *bytes, size_t count)
{
    if (gone > s->count - at)
        gone = s->count - at;
    if (s->count - gone + count > sizeof s->bytes)
        return;
    memmove(s->bytes + at + count, s->bytes + at + gone, s->count - at - gone);
    memcpy(s->bytes + at, bytes, count);
    s->count = s->count - gone + count;
}

static void mutate(struct stream *s)
{
    size_t at = random_below(s->count + 1);
    const char *word = words[random_below(COUNT_OF(words))];
    const char *seed = seeds[random_below(COUNT_OF(seeds))];
    char byte = (char)random_below(256);
    switch (random_below(6)) {
    case 0: splice(s, at, 0, word, strlen(word)); break;
    case 1: splice(s, at, 1 + random_below(4), "", 0); break;
    case 2: splice(s, at, 1, &byte, 1); break;
    case 3: splice(s, at, 1 + random_below(8), word, strlen(word)); break;
    case 4: splice(s, at, 0, &byte, 1); break;
    default: splice(s, s->count, 0, seed, strlen(seed)); break;
    }
}

static void test_mutated_requests_keep_all_promises(void **state)
{
    (void)state;
    const char *seed = getenv("DIBS_TEST_SEED");
    random_state = seed != NULL ? strtoull(seed, NULL, 10) * 2 + 1 : 20240229;
    time_t end = time(NULL) + SECONDS_MAX;
    size_t requests = 0, refusals = 0;
    for (int round = 0; round < ROUNDS && time(NULL) < end; round++) {
        struct stream s = {.count = 0};
        do
            splice(&s, s.count, 0, seeds[round % COUNT_OF(seeds)],
                   strlen(seeds[round % COUNT_OF(seeds)]));
        while (random_below(2) == 0);
        for (size_t n = random_below(4); n > 0; n--)
            mutate(&s);
        http_check(s.bytes, s.count);
        char *text = http_transcript(s.bytes, s.count, (struct http_cut){0});
        requests += strstr(text, " host=") != NULL;
        refusals += strstr(text, "refused ") != NULL;
        mem_free(text);
    }
    /* both sides were visited */
    assert_true(requests > 100);
    assert_true(refusals > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mutated_requests_keep_all_promises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
