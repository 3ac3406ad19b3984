/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/check.c: what callers send is refused by the name of its field, with a sentence
 * that says what it should have been.
 */
#include "core/core.h"
#include "core_help.h"

static void assert_field(struct fixture *f, const char *field, const char *sentence)
{
    assert_int_equal(f->err.code, DIBS_INVALID_REQUEST);
    assert_string_equal(f->err.field, field);
    assert_string_equal(f->err.message, sentence);
}

static void test_an_id_has_1_to_128_of_its_characters(void **state)
{
    struct fixture *f = *state;
    static const char *const good[] = {"a", "0", "A-z_9.x:y", "-", "in_flight", "claim2"};
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_ok(f, dibs__check_id(&f->err, "id", good[i]));
    assert_ok(f, dibs__check_id(&f->err, "id", repeated(f, 'x', 128)));
    static const char *const bad[] = {"a b", "a/b", "é", "a\n", "a%20", "a'", "a\"b", "a;"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_refused(f, DIBS_INVALID_REQUEST, dibs__check_id(&f->err, "id", bad[i]));
    assert_refused(f, DIBS_INVALID_REQUEST,
                   dibs__check_id(&f->err, "taskId", repeated(f, 'x', 129)));
    assert_field(f, "taskId", "'taskId' must be 1 to 128 characters of A-Z a-z 0-9 . _ : -");
}

static void test_a_missing_id_is_called_required(void **state)
{
    struct fixture *f = *state;
    assert_refused(f, DIBS_INVALID_REQUEST, dibs__check_id(&f->err, "id", NULL));
    assert_field(f, "id", "'id' is required");
    assert_refused(f, DIBS_INVALID_REQUEST, dibs__check_id(&f->err, "id", ""));
    assert_field(f, "id", "'id' is required");
}

static void test_words_of_paths_are_reserved_in_any_case(void **state)
{
    (void)state;
    static const char *const reserved[] = {"claim",  "claims",    "in-flight", "summary",
                                           "scores", "stats",     "heartbeat", "cleanup",
                                           "Claim",  "IN-FLIGHT", ".",         ".."};
    for (size_t i = 0; i < COUNT_OF(reserved); i++)
        assert_true(dibs__is_reserved_id(reserved[i]));
    static const char *const free_words[] = {"claim-1", "inflight", "", "..."};
    for (size_t i = 0; i < COUNT_OF(free_words); i++)
        assert_false(dibs__is_reserved_id(free_words[i]));
}

static void test_a_text_may_fill_its_limit_and_no_more(void **state)
{
    struct fixture *f = *state;
    assert_ok(f, dibs__check_text(&f->err, "title", NULL, 4));
    assert_ok(f, dibs__check_text(&f->err, "title", "", 4));
    assert_ok(f, dibs__check_text(&f->err, "title", "abcd", 4));
    assert_ok(f, dibs__check_text(&f->err, "title", "éé", 4));
    assert_refused(f, DIBS_INVALID_REQUEST, dibs__check_text(&f->err, "title", "abcde", 4));
    assert_field(f, "title", "'title' is longer than 4 bytes");
    assert_refused(f, DIBS_INVALID_REQUEST, dibs__check_text(&f->err, "title", "ééx", 4));
}

static void test_text_that_is_not_utf8_is_refused(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {"\xff", "a\xc3", "\xc0\x80", "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_refused(f, DIBS_INVALID_REQUEST, dibs__check_text(&f->err, "type", bad[i], 10));
        assert_field(f, "type", "'type' is not valid UTF-8");
    }
}

static void test_a_required_text_must_say_something(void **state)
{
    struct fixture *f = *state;
    assert_ok(f, dibs__check_required(&f->err, "title", "x", 4));
    assert_refused(f, DIBS_INVALID_REQUEST, dibs__check_required(&f->err, "title", NULL, 4));
    assert_field(f, "title", "'title' is required");
    assert_refused(f, DIBS_INVALID_REQUEST, dibs__check_required(&f->err, "title", "", 4));
    assert_refused(f, DIBS_INVALID_REQUEST, dibs__check_required(&f->err, "title", "abcde", 4));
}

static void test_a_number_out_of_range_is_told_the_range(void **state)
{
    struct fixture *f = *state;
    assert_ok(f, dibs__check_range(&f->err, "percent", 0, 0, 100));
    assert_ok(f, dibs__check_range(&f->err, "percent", 100, 0, 100));
    assert_refused(f, DIBS_INVALID_REQUEST, dibs__check_range(&f->err, "percent", 101, 0, 100));
    assert_field(f, "percent", "'percent' must be between 0 and 100, not 101");
    assert_refused(f, DIBS_INVALID_REQUEST,
                   dibs__check_range(&f->err, "percent", INT64_MIN, 0, 100));
}

static void test_a_ttl_outside_its_bounds_is_told_both_bounds(void **state)
{
    struct fixture *f = *state;
    struct tx tx = {.d = f->d, .err = &f->err};
    assert_ok(f, dibs__check_ttl(&tx, "ttlMs", 0));
    assert_ok(f, dibs__check_ttl(&tx, "ttlMs", MINUTES(1)));
    assert_ok(f, dibs__check_ttl(&tx, "ttlMs", MINUTES(120)));
    static const int64_t bad[] = {MINUTES(1) - 1, MINUTES(120) + 1, 1, -1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_refused(f, DIBS_INVALID_REQUEST, dibs__check_ttl(&tx, "ttlMs", bad[i]));
    assert_refused(f, DIBS_INVALID_REQUEST, dibs__check_ttl(&tx, "ttlMs", 59999));
    assert_field(f, "ttlMs",
                 "'ttlMs' must be between 60000 (minTTL, 1m) and 7200000 (maxTTL, 2h) "
                 "milliseconds, not 59999");
}

static void test_the_bounds_of_a_ttl_follow_the_settings(void **state)
{
    struct fixture *f = *state;
    dibs *other = NULL;
    struct dibs_options options = {.data_dir = f->data_dir, .platform = &f->world.platform};
    options.settings = DIBS_STRINGS("minTTL=5s", "maxTTL=10m", "defaultTTL=7m", "autoCleanup=off");
    assert_ok(f, dibs_open(&options, &other, &f->err));
    struct tx tx = {.d = other, .err = &f->err};
    assert_ok(f, dibs__check_ttl(&tx, "ttlMs", SECONDS(5)));
    assert_refused(f, DIBS_INVALID_REQUEST, dibs__check_ttl(&tx, "ttlMs", SECONDS(5) - 1));
    assert_refused(f, DIBS_INVALID_REQUEST, dibs__check_ttl(&tx, "ttlMs", MINUTES(10) + 1));
    assert_non_null(strstr(f->err.message, "(minTTL, 5s)"));
    assert_non_null(strstr(f->err.message, "(maxTTL, 10m)"));
    struct dibs_claim taken = {0};
    make_session(f, "s");
    make_task(f, "t");
    assert_ok(f, dibs_claim_take(other, f->a,
                                 &(struct dibs_claim_take){.task_id = "t", .session_id = "s"},
                                 &taken, &f->err));
    assert_int_equal(taken.ttl_ms, MINUTES(7));
    dibs_close(other);
}

static void test_a_page_has_100_entries_unless_asked_and_at_most_1000(void **state)
{
    struct fixture *f = *state;
    int64_t limit = 0;
    assert_ok(f, dibs__check_limit(&f->err, 0, &limit));
    assert_int_equal(limit, 100);
    assert_ok(f, dibs__check_limit(&f->err, 1, &limit));
    assert_int_equal(limit, 1);
    assert_ok(f, dibs__check_limit(&f->err, 1000, &limit));
    assert_int_equal(limit, 1000);
    assert_refused(f, DIBS_INVALID_REQUEST, dibs__check_limit(&f->err, 1001, &limit));
    assert_field(f, "limit", "'limit' must be between 1 and 1000, not 1001");
    assert_refused(f, DIBS_INVALID_REQUEST, dibs__check_limit(&f->err, -1, &limit));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_an_id_has_1_to_128_of_its_characters),
        STORE_TEST(test_a_missing_id_is_called_required),
        cmocka_unit_test(test_words_of_paths_are_reserved_in_any_case),
        STORE_TEST(test_a_text_may_fill_its_limit_and_no_more),
        STORE_TEST(test_text_that_is_not_utf8_is_refused),
        STORE_TEST(test_a_required_text_must_say_something),
        STORE_TEST(test_a_number_out_of_range_is_told_the_range),
        STORE_TEST(test_a_ttl_outside_its_bounds_is_told_both_bounds),
        STORE_TEST(test_the_bounds_of_a_ttl_follow_the_settings),
        STORE_TEST(test_a_page_has_100_entries_unless_asked_and_at_most_1000),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
