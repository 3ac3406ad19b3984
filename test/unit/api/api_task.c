/* SPDX-License-Identifier: MIT */
/* Tests of src/api/api_task.c: tasks in JSON. */
#include "call.h"

static void test_a_created_task_is_answered_in_full(void **state)
{
    struct world *w = *state;
    post(w, "/api/tasks", "{'title': 'sweep'}");
    expect(w, 201, "OK");
    expect_keys(w, "", "success task");
    expect_keys(w, "task",
                "id project title status priority tags dependsOn attempts maxAttempts generation "
                "version createdAt updatedAt");
    assert_string_equal(text_at(w, "task.id"), "1");
    assert_string_equal(text_at(w, "task.project"), "default");
    assert_string_equal(text_at(w, "task.status"), "open");
    assert_int_equal(int_at(w, "task.priority"), 50);
    assert_int_equal(int_at(w, "task.maxAttempts"), 3);
    assert_string_equal(text_at(w, "task.createdAt"), "2026-12-31T12:00:00.000Z");
}

static void test_all_fields_of_a_task_come_back(void **state)
{
    struct world *w = *state;
    given_task(w, "first");
    post(w, "/api/tasks",
         "{'id': 't', 'project': 'p', 'title': 'T', 'description': 'D', 'type': 'y', "
         "'phase': 'test', 'priority': 'high', 'maxAttempts': 0, 'tags': ['a', 'b'], "
         "'dependsOn': ['first'], 'params': {'n': [1, 0.1]}, 'metadata': 'm', "
         "'runAfter': '2027-01-01', 'claimTimeoutMs': 120000, 'dedupeKey': 'k'}");
    expect(w, 201, "OK");
    expect_keys(w, "task",
                "id project title description type phase status priority tags params metadata "
                "dependsOn waitingOn runAfter attempts maxAttempts generation version "
                "claimTimeoutMs dedupeKey createdAt updatedAt");
    assert_string_equal(text_at(w, "task.status"), "blocked");
    assert_string_equal(text_at(w, "task.waitingOn.0"), "first");
    assert_int_equal(int_at(w, "task.priority"), 75);
    assert_int_equal(int_at(w, "task.maxAttempts"), 0);
    assert_string_equal(text_at(w, "task.runAfter"), "2027-01-01T00:00:00.000Z");
    assert_non_null(strstr(w->body, "\"params\":{\"n\":[1,0.1]},\"metadata\":\"m\""));
    assert_int_equal(count_at(w, "task.tags"), 2);
    get(w, "/api/tasks/t");
    expect(w, 200, "OK");
    assert_string_equal(text_at(w, "task.dedupeKey"), "k");
}

static void test_a_list_is_created_as_a_whole_or_not_at_all(void **state)
{
    struct world *w = *state;
    post(w, "/api/tasks", "[{'id': 'a', 'title': 'A'}, {'title': 'B', 'dependsOn': ['a']}]");
    expect(w, 201, "OK");
    expect_keys(w, "", "success tasks");
    assert_int_equal(count_at(w, "tasks"), 2);
    assert_string_equal(text_at(w, "tasks.1.status"), "blocked");
    post(w, "/api/tasks", "[{'id': 'c', 'title': 'C'}, {'id': 'a', 'title': 'again'}]");
    expect(w, 409, "TASK_EXISTS");
    get(w, "/api/tasks/c");
    expect(w, 404, "TASK_NOT_FOUND");
    post(w, "/api/tasks", "[{'title': 'one'}]");
    assert_int_equal(count_at(w, "tasks"), 1);
}

static void test_a_duplicate_is_answered_with_the_one_there_is(void **state)
{
    struct world *w = *state;
    post(w, "/api/tasks", "{'title': 'a', 'dedupeKey': 'k'}");
    expect(w, 201, "OK");
    assert_null(at(w, "task.deduplicated"));
    post(w, "/api/tasks", "{'title': 'b', 'dedupeKey': 'k'}");
    expect(w, 200, "OK");
    assert_true(true_at(w, "task.deduplicated"));
    assert_string_equal(text_at(w, "task.title"), "a");
}

static void test_created_assigned_and_offered(void **state)
{
    struct world *w = *state;
    given_agent(w, "Oracle");
    given_agent(w, "Sandman");
    post(w, "/api/tasks", "{'title': 'a', 'assignee': 'Oracle'}");
    assert_string_equal(text_at(w, "task.status"), "assigned");
    assert_string_equal(text_at(w, "task.assignee"), "Oracle");
    post(w, "/api/tasks", "{'title': 'a', 'offeredTo': 'Sandman'}");
    assert_string_equal(text_at(w, "task.status"), "offered");
    assert_string_equal(text_at(w, "task.offeredTo"), "Sandman");
}

static void test_lists_are_filtered(void **state)
{
    static const struct {
        const char *query;
        size_t count;
    } cases[] = {
        {"", 5},
        {"?status=open", 2},
        {"?status=OPEN,in_progress", 3},
        {"?status=claimed", 1},
        {"?status=pending", 3},
        {"?status=unassigned", 2},
        {"?status=blocked", 1},
        {"?status=completed", 0},
        {"?type=y", 1},
        {"?project=p", 1},
        {"?project=default", 4},
        {"?phase=test", 1},
        {"?tag=red", 2},
        {"?tag=RED", 0},
        {"?assignee=Oracle", 1},
        {"?sessionId=s", 1},
        {"?tag=red&type=y", 1},
    };
    struct world *w = *state;
    given_agent(w, "Oracle");
    post(
        w, "/api/tasks",
        "[{'id': 'a', 'title': 'a', 'type': 'y', 'tags': ['red']}, {'title': 'b', 'tags': ['red'], "
        "'phase': 'test'}, {'title': 'c', 'project': 'p', 'dependsOn': ['a']}, "
        "{'title': 'd', 'assignee': 'Oracle'}, {'id': 'e', 'title': 'e'}]");
    expect(w, 201, "OK");
    given_session(w, "s");
    given_claim(w, "e", "s");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char target[100];
        snprintf(target, sizeof target, "/api/tasks%s", cases[i].query);
        get(w, target);
        expect(w, 200, "OK");
        if (count_at(w, "tasks") != cases[i].count)
            fail_msg("%s: %zu tasks", target, count_at(w, "tasks"));
    }
}

static void test_pages_follow_one_another(void **state)
{
    struct world *w = *state;
    char target[200] = "/api/tasks?limit=2";
    size_t seen = 0, pages = 0;
    post(w, "/api/tasks",
         "[{'title': '1'}, {'title': '2'}, {'title': '3'}, {'title': '4'}, "
         "{'title': '5'}]");
    for (;;) {
        get(w, target);
        expect(w, 200, "OK");
        for (size_t i = 0; i < count_at(w, "tasks"); i++) {
            char path[64], title[32];
            snprintf(path, sizeof path, "tasks.%zu.title", i);
            snprintf(title, sizeof title, "%zu", ++seen);
            assert_string_equal(text_at(w, path), title);
        }
        pages++;
        if (at(w, "nextCursor") == NULL)
            break;
        snprintf(target, sizeof target, "/api/tasks?limit=2&cursor=%s", text_at(w, "nextCursor"));
    }
    assert_int_equal(seen, 5);
    assert_int_equal(pages, 3);
    get(w, "/api/tasks?cursor=nonsense");
    expect_field(w, "cursor");
}

static void test_a_change_is_made_if_the_version_is_still_that(void **state)
{
    struct world *w = *state;
    given_task(w, "t");
    int64_t version = int_at(w, "task.version");
    patch(w, "/api/tasks/t", "{'version': %d, 'title': 'new', 'priority': 'low'}", (int)version);
    expect(w, 200, "OK");
    assert_string_equal(text_at(w, "task.title"), "new");
    assert_int_equal(int_at(w, "task.priority"), 25);
    assert_true(int_at(w, "task.version") > version);
    patch(w, "/api/tasks/t", "{'version': %d, 'title': 'newer'}", (int)version);
    expect(w, 409, "VERSION_CONFLICT");
    patch(w, "/api/tasks/nosuch", "{'title': 'x'}");
    expect(w, 404, "TASK_NOT_FOUND");
}

static void test_null_empties_a_field(void **state)
{
    struct world *w = *state;
    given_task(w, "first");
    post(w, "/api/tasks",
         "{'id': 't', 'title': 'T', 'description': 'D', 'type': 'y', 'phase': 'p', "
         "'priority': 9, 'maxAttempts': 9, 'tags': ['a'], 'dependsOn': ['first'], 'params': 1, "
         "'metadata': 2, 'runAfter': '2027-01-01', 'claimTimeoutMs': 120000}");
    patch(w, "/api/tasks/t",
          "{'description': null, 'type': null, 'phase': null, 'priority': null, "
          "'maxAttempts': null, 'tags': null, 'dependsOn': null, 'params': null, "
          "'metadata': null, 'runAfter': null, 'claimTimeoutMs': null, 'version': null}");
    expect(w, 200, "OK");
    expect_keys(w, "task",
                "id project title status priority tags dependsOn attempts maxAttempts generation "
                "version createdAt updatedAt");
    assert_int_equal(int_at(w, "task.priority"), 50);
    assert_int_equal(int_at(w, "task.maxAttempts"), 3);
    assert_string_equal(text_at(w, "task.status"), "open");
    patch(w, "/api/tasks/t", "{'title': null}");
    expect_field(w, "title");
}

static void test_what_is_not_given_stays(void **state)
{
    struct world *w = *state;
    post(w, "/api/tasks", "{'id': 't', 'title': 'T', 'type': 'y', 'tags': ['a'], 'params': [1]}");
    patch(w, "/api/tasks/t", "{'phase': 'later'}");
    expect(w, 200, "OK");
    assert_string_equal(text_at(w, "task.type"), "y");
    assert_int_equal(count_at(w, "task.tags"), 1);
    assert_int_equal(count_at(w, "task.params"), 1);
    assert_string_equal(text_at(w, "task.phase"), "later");
    patch(w, "/api/tasks/t", "{'tags': [], 'params': {'a': null}, 'claimTimeoutMinutes': 2}");
    assert_int_equal(count_at(w, "task.tags"), 0);
    assert_int_equal(int_at(w, "task.claimTimeoutMs"), 120000);
    assert_true(json_is_null(at(w, "task.params.a")));
}

static void test_history_tells_events_and_attempts(void **state)
{
    struct world *w = *state;
    given_task(w, "t");
    given_session(w, "s");
    given_claim(w, "t", "s");
    tick(5000);
    post(w, "/api/tasks/t/fail", "{'sessionId': 's', 'error': 'no luck', 'result': {'got': 1}}");
    expect(w, 200, "OK");
    get(w, "/api/tasks/t/history");
    expect(w, 200, "OK");
    expect_keys(w, "", "success taskId events attempts");
    assert_string_equal(text_at(w, "taskId"), "t");
    assert_true(count_at(w, "events") >= 3);
    assert_string_equal(text_at(w, "events.0.type"), "task:created");
    expect_keys(w, "events.0", "id type at project taskId data");
    assert_true(json_is_object(at(w, "events.0.data")));
    assert_int_equal(count_at(w, "attempts"), 1);
    expect_keys(
        w, "attempts.0",
        "kind taskId sessionId token claimedAt expiresAt lastHeartbeat heartbeatCount ttlMs "
        "endedAt endReason heldMs attempt generation incarnation");
    assert_string_equal(text_at(w, "attempts.0.endReason"), "failed");
    assert_int_equal(int_at(w, "attempts.0.heldMs"), 5000);
    get(w, "/api/tasks/nosuch/history");
    expect(w, 404, "TASK_NOT_FOUND");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_a_created_task_is_answered_in_full),
        test_in_world(test_all_fields_of_a_task_come_back),
        test_in_world(test_a_list_is_created_as_a_whole_or_not_at_all),
        test_in_world(test_a_duplicate_is_answered_with_the_one_there_is),
        test_in_world(test_created_assigned_and_offered),
        test_in_world(test_lists_are_filtered),
        test_in_world(test_pages_follow_one_another),
        test_in_world(test_a_change_is_made_if_the_version_is_still_that),
        test_in_world(test_null_empties_a_field),
        test_in_world(test_what_is_not_given_stays),
        test_in_world(test_history_tells_events_and_attempts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
