/* SPDX-License-Identifier: MIT */
/* Tests of src/api/api_event.c: pages of the journal. */
#include "call.h"

static void given_events(struct world *w)
{
    given_task(w, "t");
    given_session(w, "s");
    given_claim(w, "t", "s");
    post(w, "/api/tasks", "{'title': 'p', 'project': 'p'}");
}

static void test_events_have_number_type_and_data(void **state)
{
    struct world *w = *state;
    given_events(w);
    get(w, "/api/events");
    expect(w, 200, "OK");
    expect_keys(w, "", "success events firstKept last");
    assert_int_equal(count_at(w, "events"), 4);
    assert_int_equal(int_at(w, "events.0.id"), 1);
    assert_string_equal(text_at(w, "events.0.type"), "task:created");
    assert_string_equal(text_at(w, "events.0.taskId"), "t");
    assert_string_equal(text_at(w, "events.0.project"), "default");
    assert_string_equal(text_at(w, "events.0.at"), "2026-12-31T12:00:00.000Z");
    assert_string_equal(text_at(w, "events.2.type"), "task:claimed");
    assert_string_equal(text_at(w, "events.2.sessionId"), "s");
    assert_true(json_is_object(at(w, "events.2.data")));
    assert_int_equal(int_at(w, "firstKept"), 1);
    assert_int_equal(int_at(w, "last"), 4);
}

static void test_events_are_filtered_and_paged(void **state)
{
    static const struct {
        const char *query;
        size_t count;
    } cases[] = {
        {"?since=0", 4},
        {"?since=3", 1},
        {"?since=4", 0},
        {"?types=task:created", 2},
        {"?types=task:created,task:claimed", 3},
        {"?project=p", 1},
        {"?taskId=t", 2},
        {"?limit=2", 2},
        {"?detail=summary", 4},
        {"?detail=full", 4},
    };
    struct world *w = *state;
    given_events(w);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char target[100];
        snprintf(target, sizeof target, "/api/events%s", cases[i].query);
        get(w, target);
        expect(w, 200, "OK");
        if (count_at(w, "events") != cases[i].count)
            fail_msg("%s: %s", target, w->body);
        assert_null(at(w, "resync"));
    }
}

static void test_a_sweep_can_be_read_as_its_summary(void **state)
{
    struct world *w = *state;
    given_events(w);
    tick(31 * 60000);
    post(w, "/api/tasks/claims/cleanup", "{'type': 'expired'}");
    get(w, "/api/events?types=task:claim-expired,claims:cleanup");
    assert_int_equal(count_at(w, "events"), 2);
    get(w, "/api/events?types=claim:expired");
    assert_int_equal(count_at(w, "events"), 1);
    get(w, "/api/events?types=task:claim-expired,claims:cleanup&detail=summary");
    assert_int_equal(count_at(w, "events"), 1);
    assert_string_equal(text_at(w, "events.0.type"), "claims:cleanup");
}

static void test_a_reader_that_missed_something_is_told(void **state)
{
    struct world *w = *state;
    given_events(w);
    tick(INT64_C(8) * 24 * 3600000);
    post(w, "/api/tasks", "{'title': 'new'}");
    post(w, "/api/tasks/claims/cleanup", "{'type': 'events'}");
    expect(w, 200, "OK");
    get(w, "/api/events?since=1");
    assert_true(int_at(w, "firstKept") > 2);
    assert_true(true_at(w, "resync"));
    get(w, "/api/events");
    assert_null(at(w, "resync"));
    char target[64];
    snprintf(target, sizeof target, "/api/events?since=%d", (int)int_at(w, "firstKept") - 1);
    get(w, target);
    assert_null(at(w, "resync"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_events_have_number_type_and_data),
        test_in_world(test_events_are_filtered_and_paged),
        test_in_world(test_a_sweep_can_be_read_as_its_summary),
        test_in_world(test_a_reader_that_missed_something_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
