/* SPDX-License-Identifier: MIT */
/* Tests of src/api/query.c: query strings and percent-encoding. */
#include "call.h"

static bool decodes(const char *text, const char *to)
{
    char out[64];
    return decode_percent(text, strlen(text), true, out, sizeof out) && strcmp(out, to) == 0;
}

static bool is_refused(const char *text)
{
    char out[16];
    return !decode_percent(text, strlen(text), true, out, sizeof out);
}

static void test_percent_encoding_is_undone(void **state)
{
    char out[64];
    (void)state;
    assert_true(decodes("", ""));
    assert_true(decodes("a%20b+c", "a b c"));
    assert_true(decodes("%E2%82%ac%25", "\xE2\x82\xAC%"));
    assert_true(decodes("%F0%9F%92%A5", "\xF0\x9F\x92\xA5"));
    assert_true(decode_percent("a+b", 3, false, out, sizeof out));
    assert_string_equal(out, "a+b");
}

static void test_broken_encoding_is_refused(void **state)
{
    (void)state;
    assert_true(is_refused("%"));
    assert_true(is_refused("%4"));
    assert_true(is_refused("%4g"));
    assert_true(is_refused("%g4"));
    assert_true(is_refused("%00"));
    assert_true(is_refused("%C3"));
    assert_true(is_refused("%C0%80"));
    assert_true(is_refused("%ED%A0%80"));
    assert_true(is_refused("0123456789abcdef")); /* 16 bytes and the NUL do not fit into 16 */
}

static void test_parameters_select(void **state)
{
    struct world *w = *state;
    post(w, "/api/tasks", "[{'title': 'a', 'type': 'x y'}, {'title': 'b', 'type': 'x+y'}]");
    get(w, "/api/tasks?type=x+y");
    assert_int_equal(count_at(w, "tasks"), 1);
    assert_string_equal(text_at(w, "tasks.0.title"), "a");
    get(w, "/api/tasks?type=x%2By&&status=open,blocked&");
    assert_int_equal(count_at(w, "tasks"), 1);
    assert_string_equal(text_at(w, "tasks.0.title"), "b");
    get(w, "/api/tasks?limit=1");
    assert_int_equal(count_at(w, "tasks"), 1);
}

static void test_flags_need_no_value(void **state)
{
    struct world *w = *state;
    given_session(w, "gone");
    del(w, "/api/sessions/gone");
    static const struct {
        const char *target;
        size_t sessions;
    } cases[] = {{"/api/sessions", 0},          {"/api/sessions?all", 1},
                 {"/api/sessions?all=true", 1}, {"/api/sessions?all=1", 1},
                 {"/api/sessions?all=0", 0},    {"/api/sessions?all=false", 0}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        get(w, cases[i].target);
        assert_int_equal(count_at(w, "sessions"), cases[i].sessions);
    }
    get(w, "/api/sessions?all=maybe");
    expect_field(w, "all");
}

static void test_wrong_parameters_are_refused_by_name(void **state)
{
    static const struct {
        const char *target, *field, *message;
    } cases[] = {
        {"/api/tasks?stauts=open", "stauts",
         "unknown query parameter 'stauts'; did you mean 'status'?"},
        {"/api/tasks?colour=red", "colour", "unknown query parameter 'colour'"},
        {"/api/tasks?type=", "type", "must not be empty"},
        {"/api/tasks?type", "type", "must not be empty"},
        {"/api/tasks?limit=abc", "limit", "must be a whole number, not 'abc'"},
        {"/api/tasks?limit=0", "limit", "at least 1"},
        {"/api/tasks?limit=1001", "limit", "at most 1000"},
        {"/api/tasks?limit=99999999999999999999", "limit", "whole number"},
        {"/api/tasks?limit=1&limit=2", "limit", "given twice"},
        {"/api/tasks?type=%zz", "query", "%zz"},
        {"/api/tasks?sessionId=a%20b", "sessionId", "must be an id"},
        {"/api/tasks?status=open,,blocked", "status", "''"},
        {"/api/events?detail=some", "detail", "one of 'full', 'summary'"},
        {"/api/events?since=-1", "since", "at least 0"},
        {"/api/tasks/claims/stats?x=1", "x", "unknown query parameter 'x'"},
    };
    struct world *w = *state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        get(w, cases[i].target);
        expect_field(w, cases[i].field);
        expect_message(w, cases[i].message);
    }
}

static void test_a_post_takes_no_parameters(void **state)
{
    struct world *w = *state;
    post(w, "/api/tasks?title=x", "{'title': 'y'}");
    expect_field(w, "title");
    expect_message(w, "unknown query parameter");
    post(w, "/api/sessions?id=x", "{}");
    expect_field(w, "id");
}

static void test_a_delete_takes_them_in_either_place(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    post(w, "/api/locks", "{'resource': 'a/b c', 'sessionId': 's'}");
    del(w, "/api/locks?resource=a%2Fb%20c&sessionId=s");
    expect(w, 200, "OK");
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 's'}");
    call_raw(w, "DELETE", "/api/locks", "{\"resource\": \"r\", \"sessionId\": \"s\"}");
    expect(w, 200, "OK");
    call_raw(w, "DELETE", "/api/locks?resource=r", "{\"sessionId\": \"s\", \"resource\": \"r\"}");
    expect_field(w, "resource");
    call_raw(w, "DELETE", "/api/locks?resource=r", "{}");
    expect_field(w, "sessionId");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percent_encoding_is_undone),
        cmocka_unit_test(test_broken_encoding_is_refused),
        test_in_world(test_parameters_select),
        test_in_world(test_flags_need_no_value),
        test_in_world(test_wrong_parameters_are_refused_by_name),
        test_in_world(test_a_post_takes_no_parameters),
        test_in_world(test_a_delete_takes_them_in_either_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
