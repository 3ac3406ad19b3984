/* SPDX-License-Identifier: MIT */
/*
 * client.c: tests of src/client/client.c: finding the store, one request, and every allocation
 * failing in turn.
 */
#define _XOPEN_SOURCE 700 /* nftw */
#include "client/client.h"

#include <ftw.h>
#include <setjmp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct folder {
    char dir[64], data_dir[80];
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
    struct folder *f = test_calloc(1, sizeof *f);
    struct dibs_error err = {0};
    dibs *d = NULL;
    const char *tmp = getenv("TMPDIR");
    snprintf(f->dir, sizeof f->dir, "%.40s/dibs-client-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(f->dir) == NULL)
        return -1;
    snprintf(f->data_dir, sizeof f->data_dir, "%s/.dibs", f->dir);
    unsetenv("DIBS_DATA");
    if (dibs_open(&(struct dibs_options){.data_dir = f->data_dir, .create = true}, &d, &err) !=
        DIBS_OK)
        return -1;
    dibs_close(d);
    *state = f;
    return chdir(f->dir);
}

static int teardown(void **state)
{
    struct folder *f = *state;
    int bad = chdir("/");
    bad |= nftw(f->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    test_free(f);
    unsetenv("DIBS_DATA");
    return bad;
}

static struct client *open_client(const char *data_dir)
{
    struct client *c = NULL;
    struct dibs_error err = {0};
    if (client_open(&(struct client_options){.data_dir = data_dir}, &c, &err) != DIBS_OK)
        fail_msg("%s", err.message);
    return c;
}

static void test_the_store_is_found_above_the_current_folder(void **state)
{
    struct folder *f = *state;
    assert_int_equal(mkdir("below", 0777) | chdir("below"), 0);
    struct client *c = open_client(NULL);
    assert_string_equal(strrchr(client_data_dir(c), '/'), "/.dibs");
    assert_non_null(client_store(c));
    client_close(c);
    setenv("DIBS_DATA", f->data_dir, 1);
    assert_int_equal(chdir("/"), 0);
    c = open_client(NULL);
    assert_string_equal(client_data_dir(c), f->data_dir);
    client_close(c);
    client_close(NULL);
}

static void test_a_missing_store_is_told_with_the_place_and_the_remedy(void **state)
{
    struct client *c = NULL;
    struct dibs_error err = {0};
    struct client_options nowhere = {.data_dir = "/nowhere"};
    (void)state;
    assert_int_equal(client_open(&nowhere, &c, &err), DIBS_STORE_NOT_FOUND);
    assert_non_null(strstr(err.message, "'/nowhere' (from --data)"));
    assert_non_null(strstr(err.message, "dibs init"));
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(client_open(&(struct client_options){0}, &c, &err), DIBS_STORE_NOT_FOUND);
    assert_non_null(strstr(err.message, "in '/'"));
    assert_null(c);
}

static void test_an_answer_comes_also_when_it_is_a_refusal(void **state)
{
    struct folder *f = *state;
    struct client *c = open_client(f->data_dir);
    struct client_answer answer = {0};
    struct dibs_error err = {0};
    json_t *body = json_pack("{s:s}", "title", "a");
    struct client_request add = {.method = "POST", .path = "/api/tasks", .body = body};
    assert_int_equal(client_call(c, &add, &answer, &err), DIBS_OK);
    assert_int_equal(answer.status, DIBS_OK);
    assert_int_equal(answer.http, 201);
    assert_true(json_is_true(json_object_get(answer.json, "success")));
    client_answer_release(&answer);
    client_answer_release(&answer);
    struct client_request none = {.method = "GET", .path = "/api/tasks/99"};
    assert_int_equal(client_call(c, &none, &answer, &err), DIBS_OK);
    assert_int_equal(answer.status, DIBS_TASK_NOT_FOUND);
    assert_int_equal(answer.http, 404);
    client_answer_release(&answer);
    json_decref(body);
    client_close(c);
}

static void test_settings_reach_the_store(void **state)
{
    struct folder *f = *state;
    struct client *c = NULL;
    struct dibs_error err = {0};
    struct client_options in = {.data_dir = f->data_dir,
                                .settings = DIBS_STRINGS("defaultTTL=45m")};
    assert_int_equal(client_open(&in, &c, &err), DIBS_OK);
    assert_int_equal(dibs_settings(client_store(c))->default_ttl_ms, 45 * 60000);
    client_close(c);
}

static void test_encoding_leaves_only_what_is_plain(void **state)
{
    struct buf b;
    (void)state;
    buf_init(&b, 100);
    client_encode(&b, "aZ09-._~");
    client_encode(&b, "/ ?&=%+\xc3\xa4\n");
    assert_string_equal(b.data, "aZ09-._~%2F%20%3F%26%3D%25%2B%C3%A4%0A");
    buf_release(&b);
}

static int requests, failing;

static bool count_and_fail(void)
{
    return ++requests == failing;
}

/* try: opens, asks, closes. */
static dibs_status try(const char *data_dir)
{
    struct client *c = NULL;
    struct client_answer answer = {0};
    struct dibs_error err = {0};
    struct client_request list = {.method = "GET", .path = "/api/tasks", .query = "limit=3"};
    dibs_status status = client_open(&(struct client_options){.data_dir = data_dir}, &c, &err);
    if (status == DIBS_OK)
        status = client_call(c, &list, &answer, &err);
    if (status == DIBS_OK)
        status = answer.status;
    client_answer_release(&answer);
    client_close(c);
    return status;
}

static void test_every_allocation_may_fail(void **state)
{
    struct folder *f = *state;
    dibs_status status = DIBS_INTERNAL;
    for (failing = 1; failing < 10000 && status != DIBS_OK; failing++) {
        requests = 0;
        mem_should_fail = count_and_fail;
        status = try(f->data_dir);
        mem_should_fail = NULL;
        if (status != DIBS_OK)
            assert_int_equal(status, DIBS_OUT_OF_MEMORY);
    }
    assert_int_equal(status, DIBS_OK);
    assert_true(failing > 5);
}

#define FOLDER_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(test_the_store_is_found_above_the_current_folder),
        FOLDER_TEST(test_a_missing_store_is_told_with_the_place_and_the_remedy),
        FOLDER_TEST(test_an_answer_comes_also_when_it_is_a_refusal),
        FOLDER_TEST(test_settings_reach_the_store),
        FOLDER_TEST(test_encoding_leaves_only_what_is_plain),
        FOLDER_TEST(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
