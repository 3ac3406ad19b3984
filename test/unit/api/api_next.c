/* SPDX-License-Identifier: MIT */
/* Tests of src/api/api_next.c: the pull interface of workers, in its own dialect. */
#include "call.h"

static void test_a_worker_pulls_a_task_in_its_dialect(void **state)
{
    struct world *w = *state;
    post(w, "/api/tasks",
         "{'id': '123', 'title': 'scrape', 'type': 'youtube_video_scrape', 'priority': 5, "
         "'params': {'video_id': 'dQw4w9WgXcQ', 'quality': 'hd'}}");
    tick(1800000);
    post(w, "/api/tasks/claim",
         "{'worker_id': 'worker-youtube-01', 'task_types': ['youtube_video_scrape', "
         "'youtube_search'], 'max_attempts_remaining': 1, 'sort_by': 'priority', "
         "'sort_order': 'desc'}");
    expect(w, 200, "OK");
    expect_keys(w, "", "success task message");
    expect_keys(w, "task",
                "id task_type status params priority attempts max_attempts worker_id claimed_at "
                "created_at title token expires_at project tags");
    assert_int_equal(int_at(w, "task.id"), 123);
    assert_string_equal(text_at(w, "task.task_type"), "youtube_video_scrape");
    assert_string_equal(text_at(w, "task.status"), "claimed");
    assert_string_equal(text_at(w, "task.params.quality"), "hd");
    assert_int_equal(int_at(w, "task.priority"), 5);
    assert_int_equal(int_at(w, "task.max_attempts"), 3);
    assert_string_equal(text_at(w, "task.worker_id"), "worker-youtube-01");
    assert_string_equal(text_at(w, "task.claimed_at"), "2026-12-31T12:30:00.000Z");
    assert_string_equal(text_at(w, "task.created_at"), "2026-12-31T12:00:00.000Z");
    assert_string_equal(text_at(w, "message"), "Task claimed successfully");
    get(w, "/api/sessions/worker-youtube-01");
    assert_string_equal(text_at(w, "session.agentType"), "worker");
    assert_int_equal(int_at(w, "session.incarnation"), 1);
}

static void test_an_empty_queue_echoes_the_filters(void **state)
{
    struct world *w = *state;
    post(w, "/api/tasks/claim",
         "{'worker_id': 'w', 'task_types': ['youtube_video_scrape'], "
         "'max_attempts_remaining': 1}");
    expect(w, 404, "NOTHING_TO_CLAIM");
    expect_keys(w, "", "success error message filters");
    expect_keys(w, "filters", "task_types max_attempts_remaining");
    assert_string_equal(text_at(w, "message"), "No pending tasks available");
    assert_string_equal(text_at(w, "filters.task_types.0"), "youtube_video_scrape");
    assert_int_equal(int_at(w, "filters.max_attempts_remaining"), 1);
    post(w, "/api/tasks/claim", "{'worker_id': 'w', 'project': 'p', 'tags': ['a']}");
    expect_keys(w, "filters", "project tags");
    post(w, "/api/tasks/claim", "{'worker_id': 'w'}");
    expect(w, 404, "NOTHING_TO_CLAIM");
    expect_keys(w, "filters", "");
    get(w, "/api/sessions/w");
    expect(w, 200, "OK"); /* registered though there was nothing to do */
}

static void test_the_worker_must_say_who_it_is(void **state)
{
    struct world *w = *state;
    post(w, "/api/tasks/claim", "{}");
    expect_field(w, "worker_id");
    assert_string_equal(text_at(w, "message"), "Missing required field: worker_id");
    post(w, "/api/tasks/claim", "{'worker_id': 'a b'}");
    expect_field(w, "worker_id");
    post(w, "/api/tasks/claim", "{'worker_id': 'w', 'ttl_ms': 5}");
    expect_field(w, "ttl_ms");
    expect_message(w, "'ttl_ms' must be between");
    post(w, "/api/tasks/claim", "{'worker_id': 'w', 'sort_by': 'age'}");
    expect_field(w, "sort_by");
    post(w, "/api/tasks/claim", "{'worker_id': 'w', 'count': 101}");
    expect_field(w, "count");
    get(w, "/api/sessions/w");
    expect(w, 404, "SESSION_NOT_FOUND"); /* a refused request registers nobody */
}

static void test_ids_are_numbers_when_they_are_numbers(void **state)
{
    static const struct {
        const char *id;
        bool number;
    } cases[] = {{"1", true},
                 {"9007199254740991", true},
                 {"9007199254740992", false},
                 {"007", false},
                 {"1a", false},
                 {"-5", false},
                 {"0", true},
                 {"12345678901234567890", false}};
    struct world *w = *state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        given_task(w, cases[i].id);
        post(w, "/api/tasks/claim", "{'worker_id': 'w'}");
        expect(w, 200, "OK");
        assert_true(cases[i].number == json_is_integer(at(w, "task.id")));
        char path[64];
        snprintf(path, sizeof path, "/api/tasks/%s/complete", cases[i].id);
        post(w, path, "{'sessionId': 'w'}");
        expect(w, 200, "OK");
    }
}

static void test_what_is_absent_is_still_in_shape(void **state)
{
    struct world *w = *state;
    given_task(w, "t");
    post(w, "/api/tasks/claim", "{'worker_id': 'w'}");
    assert_true(json_is_null(at(w, "task.task_type")));
    assert_true(json_is_object(at(w, "task.params")));
    assert_string_equal(text_at(w, "task.id"), "t");
}

static void test_several_at_once_on_request(void **state)
{
    struct world *w = *state;
    post(w, "/api/tasks", "[{'title': 'a'}, {'title': 'b'}, {'title': 'c'}]");
    post(w, "/api/tasks/claim", "{'worker_id': 'w', 'count': 2}");
    expect(w, 200, "OK");
    assert_int_equal(count_at(w, "tasks"), 2);
    assert_int_equal(int_at(w, "task.id"), int_at(w, "tasks.0.id"));
    assert_true(int_at(w, "tasks.0.token") < int_at(w, "tasks.1.token"));
    post(w, "/api/tasks/claim", "{'worker_id': 'w', 'count': 2}");
    assert_int_equal(count_at(w, "tasks"), 1);
}

static void test_an_ended_worker_is_registered_again(void **state)
{
    struct world *w = *state;
    given_task(w, "t");
    post(w, "/api/tasks/claim", "{'worker_id': 'w'}");
    del(w, "/api/sessions/w");
    expect(w, 200, "OK");
    post(w, "/api/tasks/claim", "{'worker_id': 'w'}");
    expect(w, 200, "OK");
    get(w, "/api/sessions/w");
    assert_int_equal(int_at(w, "session.incarnation"), 2);
    assert_string_equal(text_at(w, "session.status"), "active");
}

static void test_filters_and_sorts_reach_the_library(void **state)
{
    struct world *w = *state;
    post(w, "/api/tasks",
         "[{'id': 'old', 'title': 'o', 'priority': 1, 'project': 'p', 'tags': ['x', 'y']}, "
         "{'id': 'mid', 'title': 'm', 'priority': 9, 'project': 'p', 'tags': ['x']}, "
         "{'id': 'new', 'title': 'n', 'priority': 5, 'project': 'p', 'type': 'z', "
         "'maxAttempts': 1}]");
    static const struct {
        const char *more, *id;
    } cases[] = {
        {"'tags': ['x', 'y']", "old"},
        {"'task_types': ['q', 'z']", "new"},
        {"'sort_by': 'created_at'", "old"},
        {"'sort_by': 'created_at', 'sort_order': 'desc'", "new"},
        {"'sort_order': 'asc'", "old"},
        {"'sort_by': 'priority'", "mid"},
        {"'sort_by': 'created_at', 'sort_order': 'DESC', 'max_attempts_remaining': 1", "mid"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        post(w, "/api/tasks/claim", "{'worker_id': 'w', 'project': 'p', %s}", cases[i].more);
        expect(w, 200, "OK");
        assert_string_equal(text_at(w, "task.id"), cases[i].id);
        char path[64];
        snprintf(path, sizeof path, "/api/tasks/%s/release", cases[i].id);
        post(w, path, "{'sessionId': 'w'}");
        expect(w, 200, "OK");
    }
    post(w, "/api/tasks/claim", "{'worker_id': 'stranger'}");
    expect(w, 404, "NOTHING_TO_CLAIM"); /* the default project is empty */
}

static void test_waiting_ends_when_the_time_is_up(void **state)
{
    struct world *w = *state;
    int64_t before = world_clock;
    post(w, "/api/tasks/claim", "{'worker_id': 'new', 'wait_ms': 500}");
    expect(w, 404, "NOTHING_TO_CLAIM");
    assert_true(world_clock - before >= 500);
}

/* Inside the key's transaction nobody can bring anything. */
static void test_waiting_under_a_key_is_refused(void **state)
{
    struct world *w = *state;
    w->key = "k";
    post(w, "/api/tasks/claim", "{'worker_id': 'new', 'wait_ms': 500}");
    expect_field(w, "wait_ms");
    expect_message(w, "'wait_ms' cannot be given with an idempotency key");
    post(w, "/api/tasks/claim", "{'worker_id': 'new', 'wait_ms': 0}");
    expect(w, 404, "NOTHING_TO_CLAIM");
}

static void test_under_a_key_a_new_worker_is_registered_too(void **state)
{
    struct world *w = *state;
    given_task(w, "t");
    w->key = "k";
    post(w, "/api/tasks/claim", "{'worker_id': 'w'}");
    expect(w, 200, "OK");
    int64_t token = int_at(w, "task.token");
    post(w, "/api/tasks/claim", "{'worker_id': 'w'}");
    expect(w, 200, "OK");
    assert_int_equal(int_at(w, "task.token"), token);
    w->key = NULL;
    get(w, "/api/sessions/w");
    assert_int_equal(int_at(w, "session.claims"), 1);
}

/* waits_as: the key of a request for the next task, asked inside a batch. */
static uint64_t waits_as(struct world *w, const char *body)
{
    struct dibs_error err = {0};
    assert_int_equal(dibs_batch_begin(w->d, &err), DIBS_OK);
    post(w, "/api/tasks/claim", "%s", body);
    expect(w, 404, "NOTHING_TO_CLAIM");
    assert_int_equal(dibs_batch_commit(w->d, &err), DIBS_OK);
    assert_true(w->wait_key != 0);
    return w->wait_key;
}

static void test_those_who_wait_for_the_same_have_the_same_key(void **state)
{
    struct world *w = *state;
    static const char *const others[] = {
        "{'worker_id': 'c', 'wait_ms': 9, 'task_types': ['x', 'y']}",
        "{'worker_id': 'c', 'wait_ms': 9, 'task_types': ['xy']}",
        "{'worker_id': 'c', 'wait_ms': 9, 'tags': ['x']}",
        "{'worker_id': 'c', 'wait_ms': 9, 'project': 'p'}",
        "{'worker_id': 'c', 'wait_ms': 9, 'max_attempts_remaining': 1}",
    };
    uint64_t any = waits_as(w, "{'worker_id': 'a', 'wait_ms': 5}");
    assert_true(any == waits_as(w, "{'worker_id': 'b', 'wait_ms': 70, 'count': 3}"));
    assert_true(any == waits_as(w, "{'worker_id': 'b', 'wait_ms': 7, 'project': 'default'}"));
    uint64_t seen[COUNT_OF(others)];
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        seen[i] = waits_as(w, others[i]);
        assert_true(seen[i] != any);
        for (size_t j = 0; j < i; j++)
            assert_true(seen[i] != seen[j]);
    }
    post(w, "/api/sessions", "{'id': 'e', 'project': 'elsewhere'}");
    assert_true(any != waits_as(w, "{'worker_id': 'e', 'wait_ms': 5}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_a_worker_pulls_a_task_in_its_dialect),
        test_in_world(test_an_empty_queue_echoes_the_filters),
        test_in_world(test_the_worker_must_say_who_it_is),
        test_in_world(test_ids_are_numbers_when_they_are_numbers),
        test_in_world(test_what_is_absent_is_still_in_shape),
        test_in_world(test_several_at_once_on_request),
        test_in_world(test_an_ended_worker_is_registered_again),
        test_in_world(test_filters_and_sorts_reach_the_library),
        test_in_world(test_waiting_ends_when_the_time_is_up),
        test_in_world(test_waiting_under_a_key_is_refused),
        test_in_world(test_under_a_key_a_new_worker_is_registered_too),
        test_in_world(test_those_who_wait_for_the_same_have_the_same_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
