/* SPDX-License-Identifier: MIT */
/* Tests of src/api/api_key.c: keys are made, listed without secrets, revoked. */
#include "call.h"

static void test_a_new_key_is_told_once(void **state)
{
    struct world *w = *state;
    post(w, "/api/keys",
         "{'name': 'ci', 'role': 'worker', 'project': 'web', 'ratePerMinute': 600}");
    expect(w, 201, "OK");
    expect_keys(w, "", "success key apiKey");
    expect_keys(w, "key", "id name role project ratePerMinute hint createdAt");
    assert_int_equal(int_at(w, "key.ratePerMinute"), 600);
    char secret[128], id[16];
    str_fit(secret, sizeof secret, text_at(w, "apiKey"));
    str_fit(id, sizeof id, text_at(w, "key.id"));
    assert_true(str_starts(secret, "dibs_"));
    assert_non_null(strstr(secret, id));
    get(w, "/api/keys");
    expect(w, 200, "OK");
    assert_int_equal(count_at(w, "keys"), 1);
    assert_string_equal(text_at(w, "keys.0.id"), id);
    assert_null(strstr(w->body, strrchr(secret, '_') + 1));
    assert_null(strstr(w->body, "digest"));
    get(w, "/api/events?types=key:added");
    assert_string_equal(text_at(w, "events.0.data.keyId"), id);
    assert_null(strstr(w->body, strrchr(secret, '_') + 1));
}

static void test_the_standards_are_all_projects_and_a_hundred_per_minute(void **state)
{
    struct world *w = *state;
    post(w, "/api/keys", "{'name': 'n', 'role': 'READ'}");
    expect(w, 201, "OK");
    assert_null(at(w, "key.project"));
    assert_int_equal(int_at(w, "key.ratePerMinute"), 100);
    assert_string_equal(text_at(w, "key.role"), "read");
    post(w, "/api/keys", "{'name': 'm', 'role': 'admin', 'ratePerMinute': 0}");
    assert_int_equal(int_at(w, "key.ratePerMinute"), 0);
}

static void test_a_revoked_key_stays_in_the_list(void **state)
{
    struct world *w = *state;
    char path[64];
    post(w, "/api/keys", "{'name': 'n', 'role': 'read'}");
    snprintf(path, sizeof path, "/api/keys/%s", text_at(w, "key.id"));
    for (int i = 0; i < 2; i++) { /* again is no mistake */
        del(w, path);
        expect(w, 200, "OK");
        assert_string_equal(text_at(w, "key.revokedAt"), "2026-12-31T12:00:00.000Z");
        tick(1000);
    }
    get(w, "/api/keys");
    assert_int_equal(count_at(w, "keys"), 1);
    assert_non_null(at(w, "keys.0.revokedAt"));
    get(w, "/api/events?types=key:revoked");
    assert_int_equal(count_at(w, "events"), 1);
    del(w, "/api/keys/kaaaaaa");
    expect(w, 404, "KEY_NOT_FOUND");
}

static void test_what_cannot_be_a_key_is_refused_by_field(void **state)
{
    struct world *w = *state;
    post(w, "/api/keys", "{'role': 'read'}");
    expect_field(w, "name");
    post(w, "/api/keys", "{'name': '', 'role': 'read'}");
    expect_field(w, "name");
    post(w, "/api/keys", "{'name': 'n'}");
    expect_field(w, "role");
    post(w, "/api/keys", "{'name': 'n', 'role': 'root'}");
    expect_field(w, "role");
    post(w, "/api/keys", "{'name': 'n', 'role': 'read', 'ratePerMinute': -1}");
    expect_field(w, "ratePerMinute");
    post(w, "/api/keys", "{'name': 'n', 'role': 'read', 'ratePerMinute': 1000001}");
    expect_field(w, "ratePerMinute");
    post(w, "/api/keys", "{'name': 'n', 'role': 'read', 'projekt': 'p'}");
    expect_field(w, "projekt");
    post(w, "/api/keys", "{'name': 'n', 'role': 'read'}");
    expect(w, 201, "OK");
    post(w, "/api/keys", "{'name': 'n', 'role': 'admin'}");
    expect_field(w, "name");
}

static void test_the_answer_with_the_secret_is_not_stored(void **state)
{
    struct world *w = *state;
    w->key = "once";
    post(w, "/api/keys", "{'name': 'n', 'role': 'read'}");
    expect_field(w, "Idempotency-Key");
    w->key = NULL;
    get(w, "/api/keys");
    assert_int_equal(count_at(w, "keys"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_a_new_key_is_told_once),
        test_in_world(test_the_standards_are_all_projects_and_a_hundred_per_minute),
        test_in_world(test_a_revoked_key_stays_in_the_list),
        test_in_world(test_what_cannot_be_a_key_is_refused_by_field),
        test_in_world(test_the_answer_with_the_secret_is_not_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
