/* SPDX-License-Identifier: MIT */
/*
 * client_http.c: tests of src/client/client_http.c and client_stream.c against something that
 * listens and answers what the test wants: well, badly, late or not at all.
 */
#define _XOPEN_SOURCE 700 /* nftw */
#include "client/client.h"

#include <ftw.h>
#include <setjmp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_daemon.h"

#define GOOD "{\"success\":true,\"tasks\":[]}"
#define IMPATIENT_MS 300

struct folder {
    char dir[64], data_dir[80], socket[100];
    struct fake_daemon daemon;
    bool is_running;
};

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *at)
{
    (void)about;
    (void)kind;
    (void)at;
    return remove(path);
}

static int setup(void **state)
{
    static const char *const variables[] = {"DIBS_DATA",  "DIBS_URL",   "DIBS_API_KEY",
                                            "http_proxy", "HTTP_PROXY", "DIBS_DEFAULT_TTL"};
    struct folder *f = test_calloc(1, sizeof *f);
    struct dibs_error err = {0};
    dibs *d = NULL;
    const char *tmp = getenv("TMPDIR");
    for (size_t i = 0; i < COUNT_OF(variables); i++)
        unsetenv(variables[i]);
    snprintf(f->dir, sizeof f->dir, "%.40s/dibs-http-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(f->dir) == NULL)
        return -1;
    snprintf(f->data_dir, sizeof f->data_dir, "%s/.dibs", f->dir);
    snprintf(f->socket, sizeof f->socket, "%s/dibs.sock", f->data_dir);
    if (dibs_open(&(struct dibs_options){.data_dir = f->data_dir, .create = true}, &d, &err) !=
        DIBS_OK)
        return -1;
    dibs_close(d);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct folder *f = *state;
    if (f->is_running)
        fake_daemon_stop(&f->daemon);
    int bad = nftw(f->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    test_free(f);
    return bad;
}

#define START(folder, path, ...)                                                                   \
    static const struct fake_reply replies[] = {__VA_ARGS__};                                      \
    fake_daemon_start(&(folder)->daemon, path, replies, COUNT_OF(replies));                        \
    (folder)->is_running = true

static struct client *open_client(const struct client_options *in)
{
    struct client *c = NULL;
    struct dibs_error err = {0};
    if (client_open(in, &c, &err) != DIBS_OK)
        fail_msg("%s", err.message);
    return c;
}

static struct client *by_url(struct folder *f)
{
    return open_client(&(struct client_options){.url = f->daemon.url, .patience_ms = IMPATIENT_MS});
}

static struct client *by_socket(struct folder *f)
{
    struct client *c =
        open_client(&(struct client_options){.data_dir = f->data_dir, .patience_ms = IMPATIENT_MS});
    assert_null(client_store(c));
    return c;
}

static const struct client_request list = {.method = "GET", .path = "/api/tasks"};
static const struct client_request sweep = {.method = "POST", .path = "/api/tasks/claims/cleanup"};

/* fails: the request brings no answer; the sentence about it must contain these words. */
static void fails(struct client *c, const struct client_request *in, const char *first,
                  const char *second)
{
    struct client_answer answer = {0};
    struct dibs_error err = {0};
    assert_int_equal(client_call(c, in, &answer, &err), DIBS_DAEMON_UNREACHABLE);
    assert_null(answer.json);
    if (strstr(err.message, first) == NULL || strstr(err.message, second) == NULL)
        fail_msg("neither '%s' nor '%s' may miss in: %s", first, second, err.message);
}

static void succeeds(struct client *c, const struct client_request *in)
{
    struct client_answer answer = {0};
    struct dibs_error err = {0};
    if (client_call(c, in, &answer, &err) != DIBS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(answer.status, DIBS_OK);
    client_answer_release(&answer);
}

/* ---- what is sent ---------------------------------------------------------------------------- */

static void test_a_request_carries_body_key_and_idempotency_key(void **state)
{
    struct folder *f = *state;
    START(f, NULL, {.http = 201, .body = GOOD});
    json_t *body = json_pack("{s:s}", "title", "a");
    struct client_request add = {.method = "POST",
                                 .path = "/api/tasks",
                                 .query = "a=b",
                                 .body = body,
                                 .idempotency_key = "once 1"};
    setenv("DIBS_API_KEY", "dibs_secret", 1);
    struct client *c = by_url(f);
    succeeds(c, &add);
    assert_true(fake_daemon_was_sent(&f->daemon, "POST /api/tasks?a=b HTTP/1.1\r\n"));
    assert_true(fake_daemon_was_sent(&f->daemon, "Authorization: Bearer dibs_secret\r\n"));
    assert_true(fake_daemon_was_sent(&f->daemon, "Idempotency-Key: once 1\r\n"));
    assert_true(fake_daemon_was_sent(&f->daemon, "Content-Type: application/json\r\n"));
    assert_true(fake_daemon_was_sent(&f->daemon, "\r\n\r\n{\"title\":\"a\"}"));
    assert_false(fake_daemon_was_sent(&f->daemon, "Expect"));
    client_close(c);
    json_decref(body);
}

static void test_the_key_is_not_sent_to_the_socket(void **state)
{
    struct folder *f = *state;
    START(f, f->socket, {.body = GOOD});
    setenv("DIBS_API_KEY", "dibs_secret", 1);
    struct client *c = by_socket(f);
    succeeds(c, &list);
    succeeds(c, &sweep);
    assert_true(fake_daemon_was_sent(&f->daemon, "Content-Length: 0\r\n"));
    assert_false(fake_daemon_was_sent(&f->daemon, "dibs_secret"));
    client_close(c);
}

static void test_no_header_can_be_smuggled_in(void **state)
{
    struct folder *f = *state;
    START(f, NULL, {.body = GOOD});
    struct client *c = by_url(f);
    struct client_answer answer = {0};
    struct dibs_error err = {0};
    static const char *const keys[] = {"a\r\nX-API-Key: b", "a\n", " a", "a ", ""};
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        struct client_request in = sweep;
        in.idempotency_key = keys[i];
        assert_int_equal(client_call(c, &in, &answer, &err), DIBS_INVALID_REQUEST);
    }
    client_close(c);
    setenv("DIBS_API_KEY", "a\r\nHost: b", 1);
    struct client_options in = {.url = f->daemon.url};
    assert_int_equal(client_open(&in, &c, &err), DIBS_INVALID_REQUEST);
    assert_int_equal(fake_daemon_requests(&f->daemon), 0);
}

static void test_reads_share_a_connection_and_writes_have_their_own(void **state)
{
    struct folder *f = *state;
    START(f, NULL, {.body = GOOD});
    struct client *c = by_url(f);
    for (int i = 0; i < 3; i++)
        succeeds(c, &list);
    assert_int_equal(fake_daemon_connections(&f->daemon), 1);
    succeeds(c, &sweep);
    succeeds(c, &sweep);
    assert_int_equal(fake_daemon_connections(&f->daemon), 3);
    client_close(c);
}

/* ---- what comes back ------------------------------------------------------------------------- */

static void test_a_refusal_is_an_answer(void **state)
{
    struct folder *f = *state;
    START(f, NULL,
          {.http = 404,
           .body = "{\"success\":false,\"error\":\"TASK_NOT_FOUND\",\"message\":\"no\"}"});
    struct client *c = by_url(f);
    struct client_answer answer = {0};
    struct dibs_error err = {0};
    assert_int_equal(client_call(c, &list, &answer, &err), DIBS_OK);
    assert_int_equal(answer.status, DIBS_TASK_NOT_FOUND);
    assert_int_equal(answer.http, 404);
    client_answer_release(&answer);
    client_close(c);
}

static void test_what_is_no_answer_of_ours_is_told_with_its_status(void **state)
{
    struct folder *f = *state;
    START(f, NULL, {.http = 502, .type = "text/html", .body = "<h1>Bad Gateway</h1>"},
          {.http = 301, .body = ""}, {.body = "{}"}, {.body = "[true]"}, {.body = "{\"success\":"},
          {.body = "{\"success\":false}"});
    struct client *c = by_url(f);
    fails(c, &list, "HTTP status 502, text/html", f->daemon.url);
    fails(c, &list, "HTTP status 301", "redirects are not followed");
    for (int i = 0; i < 4; i++)
        fails(c, &list, "is not a dibs daemon", "HTTP status 200");
    client_close(c);
}

static void test_bytes_that_are_no_http_are_told(void **state)
{
    struct folder *f = *state;
    START(f, f->socket, {.act = FAKE_RAW_HANG_UP, .body = "220 mail.example ESMTP\r\n"});
    struct client *c = by_socket(f);
    fails(c, &list, "cannot reach the daemon", f->socket);
    client_close(c);
}

/* ---- when nothing comes back ----------------------------------------------------------------- */

static void test_a_daemon_that_does_not_answer_is_an_error_and_not_passed_over(void **state)
{
    struct folder *f = *state;
    START(f, f->socket, {.act = FAKE_HANG});
    struct client *c = by_socket(f);
    fails(c, &list, "has not answered within 300ms", "it may be stuck");
    fails(c, &sweep, "has not answered within 300ms", "may have been carried out");
    assert_null(client_store(c));
    assert_int_equal(fake_daemon_requests(&f->daemon), 2);
    client_close(c);
}

static void test_what_a_request_waits_is_not_held_against_the_daemon(void **state)
{
    struct folder *f = *state;
    START(f, f->socket, {.act = FAKE_HANG});
    struct client *c = by_socket(f);
    json_t *body = json_pack("{s:{s:i}}", "claimNext", "waitMs", 200);
    struct client_request in = {.method = "POST", .path = "/api/tasks/1/complete", .body = body};
    fails(c, &in, "has not answered within 500ms", "");
    json_decref(body);
    struct client_request poll = {
        .method = "GET", .path = "/api/poll", .query = "agentId=waitMs%3D9&waitMs=100&claim=true"};
    fails(c, &poll, "has not answered within 400ms", "");
    client_close(c);
}

static void test_a_write_is_not_repeated_when_its_fate_is_unknown(void **state)
{
    struct folder *f = *state;
    START(f, NULL, {.act = FAKE_HANG_UP}, {.body = GOOD});
    struct client *c = by_url(f);
    fails(c, &sweep, "hung up without an answer", "may have been carried out");
    assert_int_equal(fake_daemon_requests(&f->daemon), 1);
    client_close(c);
}

static void test_a_write_with_an_idempotency_key_is_repeated_once(void **state)
{
    struct folder *f = *state;
    START(f, NULL, {.act = FAKE_HANG_UP}, {.body = GOOD}, {.act = FAKE_HANG_UP});
    struct client *c = by_url(f);
    struct client_request in = sweep;
    in.idempotency_key = "k";
    succeeds(c, &in);
    assert_int_equal(fake_daemon_requests(&f->daemon), 2);
    fails(c, &in, "hung up without an answer", "");
    assert_int_equal(fake_daemon_requests(&f->daemon), 4);
    client_close(c);
}

static void test_a_read_is_repeated_once(void **state)
{
    struct folder *f = *state;
    START(f, NULL, {.act = FAKE_HANG_UP}, {.body = GOOD});
    struct client *c = by_url(f);
    succeeds(c, &list);
    assert_int_equal(fake_daemon_requests(&f->daemon), 2);
    client_close(c);
}

/* ---- when nobody is there -------------------------------------------------------------------- */

static void test_a_url_where_nobody_listens_is_named_with_the_reason(void **state)
{
    struct folder *f = *state;
    struct client_options in = {.url = "http://127.0.0.1:1/"};
    (void)f;
    struct client *c = open_client(&in);
    assert_string_equal(client_url(c), "http://127.0.0.1:1");
    assert_null(client_data_dir(c));
    fails(c, &list, "'http://127.0.0.1:1': connection refused", "dibs serve");
    client_close(c);
}

static void test_a_socket_that_nobody_listens_on_leaves_the_data_file(void **state)
{
    struct folder *f = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    memcpy(address.sun_path, f->socket, strlen(f->socket) + 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    assert_int_equal(access(f->socket, F_OK), 0);
    struct client *c = open_client(&(struct client_options){.data_dir = f->data_dir});
    assert_non_null(client_store(c));
    assert_false(client_has_stream(c));
    client_close(c);
}

static void test_a_daemon_that_goes_leaves_the_data_file(void **state)
{
    struct folder *f = *state;
    START(f, f->socket, {.body = GOOD});
    struct client *c = by_socket(f);
    succeeds(c, &list);
    fake_daemon_stop(&f->daemon);
    f->is_running = false;
    succeeds(c, &sweep);
    assert_non_null(client_store(c));
    client_close(c);
}

static void test_a_daemon_that_takes_no_connections_is_told(void **state)
{
    struct folder *f = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), waiting[8];
    struct client *c = NULL;
    struct dibs_error err = {0};
    struct client_options in = {.data_dir = f->data_dir, .patience_ms = IMPATIENT_MS};
    memcpy(address.sun_path, f->socket, strlen(f->socket) + 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 0), 0);
    for (size_t i = 0; i < COUNT_OF(waiting); i++) {
        waiting[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(waiting[i], (struct sockaddr *)&address, sizeof address) != 0)
            break;
        assert_true(i + 1 < COUNT_OF(waiting));
    }
    assert_int_equal(client_open(&in, &c, &err), DIBS_DAEMON_UNREACHABLE);
    assert_non_null(strstr(err.message, "has taken no connection for 300 ms"));
    for (size_t i = 0; i < COUNT_OF(waiting); i++)
        close(waiting[i]);
    close(fd);
}

/* ---- which way ------------------------------------------------------------------------------- */

static void test_own_settings_and_the_need_for_the_store_go_around_the_daemon(void **state)
{
    struct folder *f = *state;
    START(f, f->socket, {.body = GOOD});
    struct client *c = open_client(&(struct client_options){
        .data_dir = f->data_dir, .settings = DIBS_STRINGS("defaultTTL=45m")});
    assert_non_null(client_store(c));
    client_close(c);
    c = open_client(&(struct client_options){.data_dir = f->data_dir, .needs_store = true});
    assert_non_null(client_store(c));
    client_close(c);
    setenv("DIBS_DEFAULT_TTL", "45m", 1);
    c = open_client(&(struct client_options){.data_dir = f->data_dir});
    assert_int_equal(dibs_settings(client_store(c))->default_ttl_ms, 45 * 60000);
    client_close(c);
    assert_int_equal(fake_daemon_connections(&f->daemon), 0);
}

static void test_the_folder_on_the_command_line_beats_the_url_of_the_environment(void **state)
{
    struct folder *f = *state;
    setenv("DIBS_URL", "http://127.0.0.1:1", 1);
    struct client *c = open_client(&(struct client_options){.data_dir = f->data_dir});
    assert_non_null(client_store(c));
    client_close(c);
    setenv("DIBS_DATA", f->data_dir, 1);
    c = open_client(&(struct client_options){0});
    assert_string_equal(client_url(c), "http://127.0.0.1:1");
    client_close(c);
}

static void test_what_makes_no_sense_with_a_url_is_refused(void **state)
{
    struct folder *f = *state;
    const struct client_options in[] = {
        {.url = "http://h", .data_dir = f->data_dir},
        {.url = "http://h", .needs_store = true},
        {.url = "http://h", .settings = DIBS_STRINGS("defaultTTL=45m")},
        {.url = ""},
        {.url = "h:7117"},
        {.url = "ftp://h"},
        {.url = "http://"},
        {.url = "http:///x"},
        {.url = "http://name:word@h"},
        {.url = "http://h/?a"},
        {.url = "http://h/ x"},
        {.url = "https://h/\r\nX: y"},
    };
    for (size_t i = 0; i < COUNT_OF(in); i++) {
        struct client *c = NULL;
        struct dibs_error err = {0};
        assert_int_equal(client_open(&in[i], &c, &err), DIBS_INVALID_REQUEST);
        assert_null(strstr(err.message, "word@"));
        assert_null(c);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

struct heard {
    struct buf text;
    size_t events, wanted, connected, ticks;
};

static void on_connected(void *context)
{
    ((struct heard *)context)->connected++;
}

static void on_event(void *context, const struct client_event *event)
{
    struct heard *h = context;
    buf_printf(&h->text, "%" PRId64 " %s|", event->id, event->type);
    h->events++;
}

static bool on_tick(void *context)
{
    struct heard *h = context;
    return ++h->ticks < 200 && h->events < h->wanted;
}

static dibs_status follow(struct client *c, struct heard *h, struct dibs_error *err)
{
    buf_init(&h->text, 1000);
    return client_stream(c,
                         &(struct client_stream){.query = "types=a",
                                                 .since = 41,
                                                 .connected = on_connected,
                                                 .event = on_event,
                                                 .tick = on_tick,
                                                 .context = h},
                         err);
}

#define STREAM_HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

static void test_events_are_followed_until_the_listener_has_enough(void **state)
{
    struct folder *f = *state;
    START(f, f->socket,
          {.act = FAKE_RAW,
           .body = STREAM_HEAD ": hello\n\nid: 42\nevent: a\ndata: {}\n\nid: 43\nevent: b\ndata: "
                               "{}\n\n"});
    struct client *c = by_socket(f);
    struct heard h = {.wanted = 2};
    struct dibs_error err = {0};
    assert_true(client_has_stream(c));
    assert_int_equal(follow(c, &h, &err), DIBS_OK);
    assert_string_equal(h.text.data, "42 a|43 b|");
    assert_int_equal(h.connected, 1);
    assert_true(fake_daemon_was_sent(&f->daemon, "GET /api/events?types=a HTTP/1.1\r\n"));
    assert_true(fake_daemon_was_sent(&f->daemon, "Accept: text/event-stream\r\n"));
    assert_true(fake_daemon_was_sent(&f->daemon, "Last-Event-ID: 41\r\n"));
    buf_release(&h.text);
    client_close(c);
}

static void test_the_end_of_a_stream_is_told_apart_from_a_refusal(void **state)
{
    struct folder *f = *state;
    START(f, NULL,
          {.act = FAKE_RAW_HANG_UP, .body = STREAM_HEAD "id: 42\nevent: a\ndata: {}\n\nid: 43\nda"},
          {.http = 403, .body = "{\"success\":false,\"error\":\"FORBIDDEN\",\"message\":\"no\"}"},
          {.http = 200, .type = "text/html", .body = "<p>"}, {.act = FAKE_HANG_UP});
    struct client *c = by_url(f);
    struct heard h = {.wanted = 9};
    struct dibs_error err = {0};
    assert_int_equal(follow(c, &h, &err), DIBS_DAEMON_UNREACHABLE);
    assert_string_equal(h.text.data, "42 a|");
    assert_non_null(strstr(err.message, "has ended the stream"));
    buf_release(&h.text);
    assert_int_equal(follow(c, &h, &err), DIBS_FORBIDDEN);
    assert_string_equal(err.message, "no");
    assert_int_equal(follow(c, &h, &err), DIBS_DAEMON_UNREACHABLE);
    assert_non_null(strstr(err.message, "HTTP status 200, text/html"));
    assert_int_equal(h.connected, 1);
    assert_int_equal(follow(c, &h, &err), DIBS_DAEMON_UNREACHABLE);
    assert_non_null(strstr(err.message, "cannot reach the daemon"));
    client_close(c);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int requests, failing;
static pthread_t tested;

/* count_and_fail: only in the thread under test, the other one answers it. */
static bool count_and_fail(void)
{
    return pthread_equal(pthread_self(), tested) && ++requests == failing;
}

static dibs_status try(struct folder *f)
{
    struct client *c = NULL;
    struct client_answer answer = {0};
    struct dibs_error err = {0};
    dibs_status status = client_open(&(struct client_options){.data_dir = f->data_dir}, &c, &err);
    if (status == DIBS_OK)
        status = client_call(c, &list, &answer, &err);
    client_answer_release(&answer);
    client_close(c);
    return status;
}

static void test_every_allocation_may_fail(void **state)
{
    struct folder *f = *state;
    dibs_status status = DIBS_INTERNAL;
    START(f, f->socket, {.body = GOOD});
    tested = pthread_self();
    for (failing = 1; failing < 100 && status != DIBS_OK; failing++) {
        requests = 0;
        mem_should_fail = count_and_fail;
        status = try(f);
        mem_should_fail = NULL;
        if (status != DIBS_OK)
            assert_int_equal(status, DIBS_OUT_OF_MEMORY);
    }
    assert_int_equal(status, DIBS_OK);
    assert_true(failing > 4);
}

#define FOLDER_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(test_a_request_carries_body_key_and_idempotency_key),
        FOLDER_TEST(test_the_key_is_not_sent_to_the_socket),
        FOLDER_TEST(test_no_header_can_be_smuggled_in),
        FOLDER_TEST(test_reads_share_a_connection_and_writes_have_their_own),
        FOLDER_TEST(test_a_refusal_is_an_answer),
        FOLDER_TEST(test_what_is_no_answer_of_ours_is_told_with_its_status),
        FOLDER_TEST(test_bytes_that_are_no_http_are_told),
        FOLDER_TEST(test_a_daemon_that_does_not_answer_is_an_error_and_not_passed_over),
        FOLDER_TEST(test_what_a_request_waits_is_not_held_against_the_daemon),
        FOLDER_TEST(test_a_write_is_not_repeated_when_its_fate_is_unknown),
        FOLDER_TEST(test_a_write_with_an_idempotency_key_is_repeated_once),
        FOLDER_TEST(test_a_read_is_repeated_once),
        FOLDER_TEST(test_a_url_where_nobody_listens_is_named_with_the_reason),
        FOLDER_TEST(test_a_socket_that_nobody_listens_on_leaves_the_data_file),
        FOLDER_TEST(test_a_daemon_that_goes_leaves_the_data_file),
        FOLDER_TEST(test_a_daemon_that_takes_no_connections_is_told),
        FOLDER_TEST(test_own_settings_and_the_need_for_the_store_go_around_the_daemon),
        FOLDER_TEST(test_the_folder_on_the_command_line_beats_the_url_of_the_environment),
        FOLDER_TEST(test_what_makes_no_sense_with_a_url_is_refused),
        FOLDER_TEST(test_events_are_followed_until_the_listener_has_enough),
        FOLDER_TEST(test_the_end_of_a_stream_is_told_apart_from_a_refusal),
        FOLDER_TEST(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
