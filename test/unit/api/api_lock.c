/* SPDX-License-Identifier: MIT */
/* Tests of src/api/api_lock.c: named locks in JSON. */
#include "call.h"

static void test_a_lock_is_answered_with_its_lease(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    post(w, "/api/locks", "{'resource': 'src/main.c', 'sessionId': 's', 'ttlMs': 60000}");
    expect(w, 200, "OK");
    expect_keys(
        w, "lock",
        "kind resource mode sessionId token acquiredAt expiresAt lastHeartbeat heartbeatCount "
        "ttlMs remainingMs healthStatus");
    assert_string_equal(text_at(w, "lock.resource"), "src/main.c");
    assert_string_equal(text_at(w, "lock.mode"), "exclusive");
    assert_string_equal(text_at(w, "lock.expiresAt"), "2026-12-31T12:01:00.000Z");
    int64_t token = int_at(w, "lock.token");
    post(w, "/api/locks", "{'resource': 'src/main.c', 'sessionId': 's'}");
    expect(w, 200, "OK");
    assert_true(true_at(w, "lock.extended"));
    assert_int_equal(int_at(w, "lock.token"), token);
}

static void test_a_held_lock_names_its_holder(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    given_session(w, "other");
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 's'}");
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 'other', 'mode': 'shared'}");
    expect(w, 409, "LOCK_HELD");
    assert_string_equal(text_at(w, "claim.sessionId"), "s");
    assert_true(int_at(w, "claim.remainingMs") > 0);
    int64_t before = world_clock;
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 'other', 'waitMs': 100}");
    expect(w, 409, "LOCK_HELD");
    assert_true(world_clock - before >= 100);
}

static void test_shared_locks_are_shared_and_listed(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    given_session(w, "other");
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 's', 'mode': 'shared'}");
    assert_string_equal(text_at(w, "lock.mode"), "shared");
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 'other', 'mode': 'SHARED'}");
    expect(w, 200, "OK");
    post(w, "/api/locks", "{'resource': 'q', 'sessionId': 's'}");
    get(w, "/api/locks");
    assert_int_equal(count_at(w, "locks"), 3);
    get(w, "/api/locks?resource=r");
    assert_int_equal(count_at(w, "locks"), 2);
    get(w, "/api/locks?resource=r&sessionId=s");
    assert_int_equal(count_at(w, "locks"), 1);
    assert_string_equal(text_at(w, "locks.0.sessionId"), "s");
}

static void test_a_lock_is_renewed_and_released(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 's'}");
    int64_t token = int_at(w, "lock.token");
    tick(1000);
    post(w, "/api/locks/heartbeat",
         "{'resource': 'r', 'sessionId': 's', 'token': %d, 'extendMs': 120000}", (int)token);
    expect(w, 200, "OK");
    assert_int_equal(int_at(w, "lock.heartbeatCount"), 1);
    assert_string_equal(text_at(w, "lock.expiresAt"), "2026-12-31T12:02:01.000Z");
    post(w, "/api/locks/heartbeat", "{'resource': 'r', 'sessionId': 's', 'token': %d}",
         (int)token + 1);
    expect(w, 409, "STALE_TOKEN");
    del(w, "/api/locks?resource=r&sessionId=s");
    expect(w, 200, "OK");
    expect_keys(w, "released", "resource mode sessionId token heldMs");
    assert_int_equal(int_at(w, "released.heldMs"), 1000);
    assert_int_equal(int_at(w, "released.token"), token);
    del(w, "/api/locks?resource=r&sessionId=s");
    expect(w, 404, "LOCK_NOT_HELD");
}

static void test_waiting_under_a_key_is_refused(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    w->key = "k";
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 's', 'waitMs': 100}");
    expect_field(w, "waitMs");
    expect_message(w, "'waitMs' cannot be given with an idempotency key");
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 's', 'waitMs': 0}");
    expect(w, 200, "OK");
}

static void test_a_lock_needs_a_resource_and_a_session(void **state)
{
    struct world *w = *state;
    post(w, "/api/locks", "{'sessionId': 's'}");
    expect_field(w, "resource");
    post(w, "/api/locks", "{'resource': '', 'sessionId': 's'}");
    expect_field(w, "resource");
    post(w, "/api/locks", "{'resource': 'r'}");
    expect_field(w, "sessionId");
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 'nobody'}");
    expect(w, 404, "SESSION_NOT_FOUND");
    post(w, "/api/locks", "{'resource': 'r', 'sessionId': 's', 'mode': 'both'}");
    expect_field(w, "mode");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_a_lock_is_answered_with_its_lease),
        test_in_world(test_a_held_lock_names_its_holder),
        test_in_world(test_shared_locks_are_shared_and_listed),
        test_in_world(test_a_lock_is_renewed_and_released),
        test_in_world(test_waiting_under_a_key_is_refused),
        test_in_world(test_a_lock_needs_a_resource_and_a_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
