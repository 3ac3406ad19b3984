/* SPDX-License-Identifier: MIT */
/* Tests of src/server/auth.c: who is let in, as whom, how often, and what the others are told. */
#include "server/auth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/str.h"

#define SECRET "abcdefghijkmnpqrstuvwxyz23456789abcdefghijkmnpqrstuv"
#define OTHER_SECRET "vutsrqpnmkjihgfedcba98765432zyxwvutsrqpnmkjihgfedcba"
#define KEY(id) "dibs_" id "_" SECRET
#define NOW INT64_C(1000000)

static char digest[KEY_DIGEST_BYTES];
static struct dibs_key_row rows[] = {
    {.id = "kreader", .name = "r", .digest = digest, .role = DIBS_ROLE_READ, .rate_per_minute = 60},
    {.id = "kwrkers",
     .name = "w",
     .digest = digest,
     .role = DIBS_ROLE_WORKER,
     .project = "web",
     .rate_per_minute = 100},
    {.id = "kadmins", .name = "a", .digest = digest, .role = DIBS_ROLE_ADMIN},
    {.id = "krevked", .name = "x", .digest = digest, .role = DIBS_ROLE_ADMIN, .revoked = true},
};
static const struct dibs_key_list all_keys = {.items = rows, .count = COUNT_OF(rows)};

static int setup(void **state)
{
    struct auth *a = auth_new(&(struct auth_options){0});
    *state = a;
    return a != NULL && dibs__key_digest(SECRET, digest) && auth_set_keys(a, &all_keys) ? 0 : -1;
}

static int setup_without_keys(void **state)
{
    *state = auth_new(&(struct auth_options){0});
    return *state != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    auth_free(*state);
    return 0;
}

/* One question. */
struct ask {
    const char *method, *name, *value, *name2, *value2; /* GET; headers, NULL: none */
    size_t body_bytes;
    enum conn_kind kind;
    bool elsewhere; /* the listener is not on loopback */
    enum api_scope scope;
    bool is_public;
    int64_t now_ms; /* 0: NOW */
};

static struct auth_verdict ask(struct auth *a, struct ask q)
{
    struct http_header headers[2];
    size_t count = 0;
    struct auth_verdict v;
    if (q.name != NULL)
        headers[count++] = (struct http_header){q.name, q.value};
    if (q.name2 != NULL)
        headers[count++] = (struct http_header){q.name2, q.value2};
    struct http_request r = {.method = q.method != NULL ? q.method : "GET",
                             .path = "/api/tasks",
                             .host = "localhost:7117",
                             .headers = headers,
                             .header_count = count,
                             .body_bytes = q.body_bytes};
    auth_check(a, &r, q.kind, !q.elsewhere, q.scope, q.is_public, q.now_ms != 0 ? q.now_ms : NOW,
               &v);
    assert_int_equal(v.err.code, v.status);
    assert_null(strstr(v.err.message, SECRET));
    assert_null(strstr(v.headers, SECRET));
    return v;
}

static struct auth_verdict with_key(struct auth *a, const char *key, enum api_scope scope)
{
    return ask(a, (struct ask){.name = "x-api-key", .value = key, .scope = scope});
}

#define assert_headers(v, expected) assert_string_equal((v).headers, expected)

/* ---- without a key --------------------------------------------------------------------------- */

static void test_until_there_is_a_key_loopback_needs_none(void **state)
{
    struct auth_verdict v = ask(*state, (struct ask){.scope = API_ADMIN});
    assert_int_equal(v.status, DIBS_OK);
    assert_null(v.identity.key_id);
    assert_headers(v, "");
}

static void test_from_elsewhere_a_key_is_always_needed(void **state)
{
    struct auth_verdict v = ask(*state, (struct ask){.elsewhere = true});
    assert_int_equal(v.status, DIBS_UNAUTHORIZED);
    assert_headers(v, "WWW-Authenticate: Bearer\r\n");
    assert_non_null(strstr(v.err.message, "dibs key add"));
}

static void test_from_the_first_key_on_everybody_on_tcp_needs_one(void **state)
{
    assert_int_equal(ask(*state, (struct ask){0}).status, DIBS_UNAUTHORIZED);
    struct dibs_key_list revoked = {.items = &rows[3], .count = 1};
    assert_true(auth_set_keys(*state, &revoked));
    assert_int_equal(ask(*state, (struct ask){0}).status, DIBS_UNAUTHORIZED);
}

static void test_the_socket_needs_none(void **state)
{
    struct auth_verdict v = ask(*state, (struct ask){.kind = CONN_UNIX, .scope = API_ADMIN});
    assert_int_equal(v.status, DIBS_OK);
    assert_null(v.identity.key_id);
}

static void test_local_callers_without_a_key_are_not_counted(void **state)
{
    for (int i = 0; i < 5000; i++)
        assert_int_equal(ask(*state, (struct ask){.kind = CONN_UNIX}).status, DIBS_OK);
}

static void test_public_pages_need_no_key_but_the_right_host(void **state)
{
    struct ask q = {.is_public = true, .elsewhere = true, .scope = API_ADMIN};
    assert_int_equal(ask(*state, q).status, DIBS_OK);
    q.name = "origin";
    q.value = "http://evil.example";
    assert_int_equal(ask(*state, q).status, DIBS_FORBIDDEN);
}

/* ---- with a key ------------------------------------------------------------------------------ */

static void test_a_key_is_what_it_was_made_as(void **state)
{
    struct auth_verdict v = with_key(*state, KEY("kwrkers"), API_WORKER);
    assert_int_equal(v.status, DIBS_OK);
    assert_string_equal(v.identity.key_id, "kwrkers");
    assert_int_equal(v.identity.role, API_WORKER);
    assert_string_equal(v.identity.project, "web");
    v = with_key(*state, KEY("kadmins"), API_ADMIN);
    assert_int_equal(v.status, DIBS_OK);
    assert_int_equal(v.identity.role, API_ADMIN);
    assert_null(v.identity.project);
}

static void test_a_role_reaches_its_scope_and_those_below(void **state)
{
    static const char *const keys[] = {KEY("kreader"), KEY("kwrkers"), KEY("kadmins")};
    for (int role = 0; role < 3; role++) {
        for (int scope = 0; scope < 3; scope++) {
            struct auth_verdict v = with_key(*state, keys[role], (enum api_scope)scope);
            assert_int_equal(v.status, role >= scope ? DIBS_OK : DIBS_FORBIDDEN);
        }
    }
}

static void test_a_key_comes_in_either_header(void **state)
{
    static const char *const good[] = {
        "Bearer " KEY("kreader"),
        "bearer " KEY("kreader"),
        "BEARER   " KEY("kreader"),
    };
    static const char *const bad[] = {
        KEY("kreader"),
        "Basic " KEY("kreader"),
        "Bearer",
        "Bearer ",
        "",
        "Bearer" KEY("kreader"),
        "Bearer " KEY("kreader") " ",
        "Token token=abc",
        "Bearer Bearer " KEY("kreader"),
    };
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_int_equal(
            ask(*state, (struct ask){.name = "authorization", .value = good[i]}).status, DIBS_OK);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct auth_verdict v = ask(*state, (struct ask){.name = "authorization", .value = bad[i]});
        assert_int_equal(v.status, DIBS_UNAUTHORIZED);
        assert_headers(v, "WWW-Authenticate: Bearer\r\n");
    }
}

static void test_two_headers_must_say_the_same(void **state)
{
    struct ask q = {.name = "x-api-key",
                    .value = KEY("kreader"),
                    .name2 = "authorization",
                    .value2 = "Bearer " KEY("kreader")};
    assert_int_equal(ask(*state, q).status, DIBS_OK);
    q.value2 = "Bearer " KEY("kwrkers");
    assert_int_equal(ask(*state, q).status, DIBS_UNAUTHORIZED);
    q.name2 = "x-api-key";
    q.value2 = KEY("kwrkers");
    assert_int_equal(ask(*state, q).status, DIBS_UNAUTHORIZED);
    q.name2 = "authorization";
    q.value2 = "Basic abc";
    assert_int_equal(ask(*state, q).status, DIBS_UNAUTHORIZED);
}

static void test_all_that_is_wrong_is_told_alike(void **state)
{
    static const char *const wrong[] = {
        "",
        "x",
        SECRET,
        "dibs_kreader_",
        "dibs_kreader_" OTHER_SECRET,
        "dibs_kunkn2w_" SECRET,
        "dibs_kwrkers_" OTHER_SECRET,
        KEY("kreader") "x",
        "Dibs_kreader_" SECRET,
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct auth_verdict v = with_key(*state, wrong[i], API_READER);
        assert_int_equal(v.status, DIBS_UNAUTHORIZED);
        assert_string_equal(v.err.message, "the API key is not valid");
        assert_headers(v, "WWW-Authenticate: Bearer\r\n");
        assert_null(v.identity.key_id);
    }
}

static void test_a_revoked_key_is_no_key(void **state)
{
    struct auth_verdict v = with_key(*state, KEY("krevked"), API_READER);
    assert_int_equal(v.status, DIBS_UNAUTHORIZED);
    assert_non_null(strstr(v.err.message, "revoked"));
    assert_null(v.identity.key_id);
    /* who does not know the secret does not learn that there was such a key */
    v = with_key(*state, "dibs_krevked_" OTHER_SECRET, API_READER);
    assert_string_equal(v.err.message, "the API key is not valid");
}

static void test_a_key_that_is_sent_must_be_good_on_the_socket_too(void **state)
{
    struct ask q = {.name = "x-api-key", .value = KEY("kunkn2w"), .kind = CONN_UNIX};
    assert_int_equal(ask(*state, q).status, DIBS_UNAUTHORIZED);
    q.value = KEY("kreader");
    q.scope = API_WORKER;
    assert_int_equal(ask(*state, q).status, DIBS_FORBIDDEN);
}

static void test_good_keys_are_known_while_they_are(void **state)
{
    struct dibs_key_list fewer = {.items = rows, .count = 1};
    assert_true(auth_key_is_good(*state, "kwrkers"));
    assert_false(auth_key_is_good(*state, "krevked"));
    assert_false(auth_key_is_good(*state, "kunkn2w"));
    assert_false(auth_key_is_good(*state, "kwrkersx"));
    assert_true(auth_set_keys(*state, &fewer));
    assert_false(auth_key_is_good(*state, "kwrkers"));
    assert_true(auth_key_is_good(*state, "kreader"));
    assert_int_equal(with_key(*state, KEY("kwrkers"), API_READER).status, DIBS_UNAUTHORIZED);
}

static void test_a_thousand_keys_are_told_apart(void **state)
{
    static struct dibs_key_row many[1000];
    static char ids[1000][8];
    char key[128];
    for (size_t i = 0; i < COUNT_OF(many); i++) {
        snprintf(ids[i], sizeof ids[i], "k%c%c%caaa", 'a' + (char)(i / 100),
                 'p' + (char)(i / 10 % 10), 'p' + (char)(i % 10));
        many[i] = (struct dibs_key_row){.id = ids[i], .digest = digest, .role = (int)(i % 3)};
    }
    assert_true(auth_set_keys(*state, &(struct dibs_key_list){.items = many, .count = 1000}));
    for (size_t i = 0; i < COUNT_OF(many); i++) {
        snprintf(key, sizeof key, "dibs_%.7s_%s", ids[i], SECRET);
        struct auth_verdict v = with_key(*state, key, API_READER);
        assert_int_equal(v.status, DIBS_OK);
        assert_string_equal(v.identity.key_id, ids[i]);
        assert_int_equal(v.identity.role, i % 3);
    }
}

/* ---- rate ------------------------------------------------------------------------------------ */

static struct auth_verdict worker_at(struct auth *a, int64_t now_ms)
{
    return ask(a, (struct ask){.name = "x-api-key", .value = KEY("kwrkers"), .now_ms = now_ms});
}

static void test_a_key_is_told_what_it_has_left(void **state)
{
    struct auth_verdict v = worker_at(*state, NOW);
    assert_headers(v, "RateLimit-Policy: \"default\";q=100;w=60\r\n"
                      "RateLimit: \"default\";r=99;t=1\r\n");
    for (int i = 0; i < 99; i++)
        v = worker_at(*state, NOW);
    assert_int_equal(v.status, DIBS_OK);
    assert_headers(v, "RateLimit-Policy: \"default\";q=100;w=60\r\n"
                      "RateLimit: \"default\";r=0;t=60\r\n");
    v = worker_at(*state, NOW);
    assert_int_equal(v.status, DIBS_RATE_LIMITED);
    assert_headers(v, "RateLimit-Policy: \"default\";q=100;w=60\r\n"
                      "RateLimit: \"default\";r=0;t=60\r\n"
                      "Retry-After: 1\r\n");
    assert_int_equal(worker_at(*state, NOW + 599).status, DIBS_RATE_LIMITED);
    assert_int_equal(worker_at(*state, NOW + 600).status, DIBS_OK);
}

static void test_one_key_does_not_use_up_anothers(void **state)
{
    while (worker_at(*state, NOW).status == DIBS_OK)
        continue;
    assert_int_equal(with_key(*state, KEY("kreader"), API_READER).status, DIBS_OK);
}

static void test_a_key_without_limit_is_not_counted(void **state)
{
    for (int i = 0; i < 3000; i++) {
        struct auth_verdict v = with_key(*state, KEY("kadmins"), API_ADMIN);
        assert_int_equal(v.status, DIBS_OK);
        assert_headers(v, "");
    }
}

static void test_what_a_key_has_used_is_remembered_when_keys_change(void **state)
{
    while (worker_at(*state, NOW).status == DIBS_OK)
        continue;
    assert_true(auth_set_keys(*state, &all_keys));
    assert_int_equal(worker_at(*state, NOW).status, DIBS_RATE_LIMITED);
    struct dibs_key_row faster = rows[1];
    faster.rate_per_minute = 200;
    assert_true(auth_set_keys(*state, &(struct dibs_key_list){.items = &faster, .count = 1}));
    assert_int_equal(worker_at(*state, NOW).status, DIBS_OK);
}

static void test_refused_requests_are_counted_too(void **state)
{
    for (int i = 0; i < 60; i++)
        assert_int_equal(with_key(*state, KEY("kreader"), API_ADMIN).status, DIBS_FORBIDDEN);
    assert_int_equal(with_key(*state, KEY("kreader"), API_ADMIN).status, DIBS_RATE_LIMITED);
}

static void test_guessing_is_slowed_down_but_never_who_has_a_key(void **state)
{
    int told = 0;
    struct auth_verdict v = with_key(*state, KEY("kunkn2w"), API_READER);
    while (v.status == DIBS_UNAUTHORIZED && told++ < 10000)
        v = with_key(*state, KEY("kunkn2w"), API_READER);
    assert_int_equal(told, 600);
    assert_int_equal(v.status, DIBS_RATE_LIMITED);
    assert_headers(v, "Retry-After: 1\r\n");
    assert_int_equal(with_key(*state, KEY("kreader"), API_READER).status, DIBS_OK);
    assert_int_equal(ask(*state, (struct ask){0}).status, DIBS_UNAUTHORIZED);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void test_a_body_must_be_json_whoever_sends_it(void **state)
{
    struct ask q = {.method = "POST",
                    .body_bytes = 2,
                    .name = "x-api-key",
                    .value = KEY("kwrkers"),
                    .scope = API_WORKER,
                    .name2 = "content-type",
                    .value2 = "text/plain"};
    struct auth_verdict v = ask(*state, q);
    assert_int_equal(v.status, DIBS_UNSUPPORTED_MEDIA_TYPE);
    assert_true(str_starts(v.headers, "RateLimit-Policy"));
    q.value2 = "application/json";
    assert_int_equal(ask(*state, q).status, DIBS_OK);
    q = (struct ask){.method = "POST", .body_bytes = 2, .kind = CONN_UNIX};
    assert_int_equal(ask(*state, q).status, DIBS_UNSUPPORTED_MEDIA_TYPE);
}

static void test_names_can_be_added_later(void **state)
{
    struct http_header header = {"x-api-key", KEY("kadmins")};
    struct http_request r = {
        .method = "GET", .host = "box.lan", .headers = &header, .header_count = 1};
    struct auth_verdict v;
    auth_check(*state, &r, CONN_TCP, true, API_READER, false, NOW, &v);
    assert_int_equal(v.status, DIBS_MISDIRECTED_REQUEST);
    assert_headers(v, "");
    assert_true(auth_set_hosts(*state, DIBS_STRINGS("box.lan")));
    auth_check(*state, &r, CONN_TCP, true, API_READER, false, NOW, &v);
    assert_int_equal(v.status, DIBS_OK);
}

static int fails_left;

static bool fails_once(void)
{
    return --fails_left == 0;
}

static void test_without_memory_the_keys_stay_as_they_were(void **state)
{
    struct dibs_key_list fewer = {.items = &rows[1], .count = 1};
    mem_should_fail = fails_once;
    for (int i = 1; i <= 2; i++) { /* the table, a project */
        fails_left = i;
        assert_false(auth_set_keys(*state, &fewer));
        fails_left = i;
        assert_null(auth_new(&(struct auth_options){.hosts = DIBS_STRINGS("box.lan")}));
    }
    mem_should_fail = NULL;
    assert_true(auth_key_is_good(*state, "kreader"));
}

#define WITH_KEYS(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define WITHOUT_KEYS(f) cmocka_unit_test_setup_teardown(f, setup_without_keys, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITHOUT_KEYS(test_until_there_is_a_key_loopback_needs_none),
        WITHOUT_KEYS(test_from_elsewhere_a_key_is_always_needed),
        WITH_KEYS(test_from_the_first_key_on_everybody_on_tcp_needs_one),
        WITH_KEYS(test_the_socket_needs_none),
        WITH_KEYS(test_local_callers_without_a_key_are_not_counted),
        WITH_KEYS(test_public_pages_need_no_key_but_the_right_host),
        WITH_KEYS(test_a_key_is_what_it_was_made_as),
        WITH_KEYS(test_a_role_reaches_its_scope_and_those_below),
        WITH_KEYS(test_a_key_comes_in_either_header),
        WITH_KEYS(test_two_headers_must_say_the_same),
        WITH_KEYS(test_all_that_is_wrong_is_told_alike),
        WITH_KEYS(test_a_revoked_key_is_no_key),
        WITH_KEYS(test_a_key_that_is_sent_must_be_good_on_the_socket_too),
        WITH_KEYS(test_good_keys_are_known_while_they_are),
        WITH_KEYS(test_a_thousand_keys_are_told_apart),
        WITH_KEYS(test_a_key_is_told_what_it_has_left),
        WITH_KEYS(test_one_key_does_not_use_up_anothers),
        WITH_KEYS(test_a_key_without_limit_is_not_counted),
        WITH_KEYS(test_what_a_key_has_used_is_remembered_when_keys_change),
        WITH_KEYS(test_refused_requests_are_counted_too),
        WITH_KEYS(test_guessing_is_slowed_down_but_never_who_has_a_key),
        WITH_KEYS(test_a_body_must_be_json_whoever_sends_it),
        WITH_KEYS(test_names_can_be_added_later),
        WITH_KEYS(test_without_memory_the_keys_stay_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
