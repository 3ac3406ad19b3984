/* SPDX-License-Identifier: MIT */
/* Tests of src/api/route.c: which operation a request reaches, without a store. */
#include "call.h"

static dibs_status find(const char *method, const char *path, struct route *r,
                        struct dibs_error *err)
{
    *err = (struct dibs_error){0};
    return route_find(method, path, r, err);
}

/* with_id: the path of a row with "7" in place of ":id". */
static void with_id(const char *pattern, char out[128])
{
    const char *colon = strchr(pattern, ':');
    if (colon == NULL)
        snprintf(out, 128, "%s", pattern);
    else
        snprintf(out, 128, "%.*s7%s", (int)(colon - pattern), pattern, colon + 3);
}

static void test_every_row_is_reached_by_its_own_path(void **state)
{
    size_t count = 0;
    const struct api_operation *ops = api_operations(&count);
    (void)state;
    assert_true(count > 30);
    for (size_t i = 0; i < count; i++) {
        struct route r;
        struct dibs_error err;
        char path[128];
        with_id(ops[i].path, path);
        assert_int_equal(find(ops[i].method, path, &r, &err), DIBS_OK);
        assert_ptr_equal(r.op, &ops[i]);
        assert_ptr_equal(r.in, route_shape(i));
        assert_string_equal(r.id, strchr(ops[i].path, ':') != NULL ? "7" : "");
        assert_ptr_equal(api_find(ops[i].method, path), &ops[i]);
        struct route known = {0};
        assert_int_equal(route_take(&ops[i], path, &known, &err), DIBS_OK);
        assert_ptr_equal(known.op, r.op);
        assert_ptr_equal(known.in, r.in);
        assert_true(known.run == r.run);
        assert_string_equal(known.id, r.id);
    }
}

static void test_every_row_with_an_id_has_a_place_for_it(void **state)
{
    size_t count = 0;
    const struct api_operation *ops = api_operations(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        bool has_id = strchr(ops[i].path, ':') != NULL;
        assert_true(has_id == (route_shape(i)->id_at != SHAPE_NO_ID));
        assert_true(strlen(ops[i].summary) > 5 && strlen(ops[i].since) > 0);
    }
}

static void test_a_literal_segment_beats_an_id(void **state)
{
    struct route r;
    struct dibs_error err;
    (void)state;
    assert_int_equal(find("GET", "/api/tasks/in-flight", &r, &err), DIBS_OK);
    assert_string_equal(r.op->name, "inFlight");
    assert_int_equal(find("GET", "/api/sessions/summary", &r, &err), DIBS_OK);
    assert_string_equal(r.op->name, "sessionSummary");
    assert_int_equal(find("POST", "/api/tasks/claim", &r, &err), DIBS_OK);
    assert_string_equal(r.op->name, "claimNext");
    assert_int_equal(find("GET", "/api/tasks/in-flights", &r, &err), DIBS_OK);
    assert_string_equal(r.op->name, "taskGet");
}

static void test_an_unknown_path_is_not_found(void **state)
{
    static const char *const paths[] = {"",
                                        "/",
                                        "/api",
                                        "/api/",
                                        "api/tasks",
                                        "/api/task",
                                        "/api/tasks/",
                                        "/api//tasks",
                                        "/api/tasks//claim",
                                        "/api/tasks/1/2/3/4/5/6/7/8/9/10",
                                        "/api/tasks/1/claim/heartbeat/more"};
    struct route r;
    struct dibs_error err;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        assert_int_equal(find("GET", paths[i], &r, &err), DIBS_NOT_FOUND);
        assert_null(api_find("GET", paths[i]));
    }
}

static void test_another_method_is_told_which_ones_there_are(void **state)
{
    struct route r;
    struct dibs_error err;
    (void)state;
    assert_int_equal(find("DELETE", "/api/tasks/7", &r, &err), DIBS_METHOD_NOT_ALLOWED);
    assert_string_equal(r.allowed, "GET, PATCH");
    assert_non_null(strstr(err.message, "GET, PATCH"));
    assert_int_equal(find("PUT", "/api/locks", &r, &err), DIBS_METHOD_NOT_ALLOWED);
    assert_string_equal(r.allowed, "POST, GET, DELETE");
    /* the task cannot be called "claim", so this is no reading of it */
    assert_int_equal(find("GET", "/api/tasks/claim", &r, &err), DIBS_METHOD_NOT_ALLOWED);
    assert_string_equal(r.allowed, "POST");
    assert_int_equal(find("get", "/api/tasks", &r, &err), DIBS_METHOD_NOT_ALLOWED);
    assert_null(api_find("PUT", "/api/locks"));
}

static void test_segments_are_percent_decoded(void **state)
{
    struct route r;
    struct dibs_error err;
    (void)state;
    assert_int_equal(find("GET", "/api/t%61sks/a%3Ab%2Dc", &r, &err), DIBS_OK);
    assert_string_equal(r.op->name, "taskGet");
    assert_string_equal(r.id, "a:b-c");
    assert_int_equal(find("GET", "/api/tasks/a+b", &r, &err), DIBS_INVALID_REQUEST);
}

static void test_an_id_that_is_none_is_refused_by_name(void **state)
{
    char longest[200] = "/api/tasks/", *id = longest + strlen(longest);
    static const char *const paths[] = {
        "/api/tasks/a%2Fb",    "/api/tasks/a%20b",
        "/api/tasks/%00",      "/api/tasks/%",
        "/api/tasks/%4",       "/api/tasks/%zz",
        "/api/tasks/%ff%fe",   "/api/tasks/a'b",
        "/api/tasks/a\"b",     "/api/tasks/%F0%9F",
        "/api/sessions/a%0Ab", "/api/tasks/;drop",
        "/api/tasks/a*b",      "/api/tasks/a%25b/claim/heartbeat",
    };
    struct route r;
    struct dibs_error err;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        const char *method = strstr(paths[i], "/claim") != NULL ? "POST" : "GET";
        assert_int_equal(find(method, paths[i], &r, &err), DIBS_INVALID_REQUEST);
        assert_string_equal(err.field, "id");
        const struct api_operation *op = api_find(method, paths[i]);
        assert_int_equal(route_take(op, paths[i], &r, &err), DIBS_INVALID_REQUEST);
    }
    memset(id, 'x', ID_BYTES_MAX);
    assert_int_equal(find("GET", longest, &r, &err), DIBS_OK);
    assert_int_equal(strlen(r.id), ID_BYTES_MAX);
    memset(id, 'x', ID_BYTES_MAX + 1);
    assert_int_equal(find("GET", longest, &r, &err), DIBS_INVALID_REQUEST);
    assert_string_equal(err.field, "id");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_is_reached_by_its_own_path),
        cmocka_unit_test(test_every_row_with_an_id_has_a_place_for_it),
        cmocka_unit_test(test_a_literal_segment_beats_an_id),
        cmocka_unit_test(test_an_unknown_path_is_not_found),
        cmocka_unit_test(test_another_method_is_told_which_ones_there_are),
        cmocka_unit_test(test_segments_are_percent_decoded),
        cmocka_unit_test(test_an_id_that_is_none_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
