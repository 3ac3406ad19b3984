/* SPDX-License-Identifier: MIT */
/*
 * migrate.c: tests of src/db/migrate.c: old stores are brought up to date, newer ones are refused
 * or used as they say themselves, by one process or several at once, killed or not.
 */
#include "db/migrate.h"

#include "db_test.h"

#define FIRST                                                                                      \
    {                                                                                              \
        1, "first", true, "CREATE TABLE one (a INTEGER) STRICT"                                    \
    }
#define SECOND                                                                                     \
    {                                                                                              \
        2, "second", false, "CREATE TABLE two (a INTEGER) STRICT; INSERT INTO one VALUES (2)"      \
    }
#define THIRD                                                                                      \
    {                                                                                              \
        3, "third", true, "ALTER TABLE two ADD COLUMN b TEXT; INSERT INTO one VALUES (3)"          \
    }

static const struct migration all[] = {FIRST, SECOND, THIRD};
static const struct migration renamed[] = {FIRST, {2, "other", false, "SELECT 1"}};
static const struct migration broken[] = {
    FIRST,
    {2, "second", false, "CREATE TABLE two (a INTEGER) STRICT; INSERT INTO nowhere VALUES (1)"}};

static dibs_status open_upto(const char *path, size_t count, struct db **out,
                             struct dibs_error *err)
{
    return db_open_with(&(struct db_options){.path = path, .create = true},
                        (struct migration_list){all, count}, out, err);
}

static void assert_shape(struct db *db, int64_t newest, int64_t sum)
{
    struct db_info info = {0};
    assert_int_equal(db_info(db, &info, NULL), DIBS_OK);
    assert_int_equal(info.schema, newest);
    assert_int_equal(db_value_int(db, 0, SQL("SELECT sum(a) FROM one"), DB_NO_ARGS), sum);
    assert_true(db_ok(db));
}

static void test_what_is_missing_is_applied_once_and_in_order(void **state)
{
    struct place *p = *state;
    for (size_t upto = 1; upto <= 3; upto++) {
        for (int again = 0; again < 2; again++) {
            struct db *db = NULL;
            assert_int_equal(open_upto(p->path, upto, &db, NULL), DIBS_OK);
            assert_shape(db, (int64_t)upto, upto == 1 ? 0 : upto == 2 ? 2 : 5);
            db_close(db);
        }
    }
    struct db *db = NULL;
    assert_int_equal(open_upto(p->path, 3, &db, NULL), DIBS_OK);
    assert_true(db_value_int(db, 0, SQL("SELECT min(applied_at) FROM schema_migration"),
                             DB_NO_ARGS) > INT64_C(1500000000000));
    assert_int_equal(
        db_value_int(db, 0, SQL("SELECT sum(breaking) FROM schema_migration"), DB_NO_ARGS), 2);
    db_close(db);
}

static void test_a_newer_breaking_store_is_refused_untouched(void **state)
{
    struct place *p = *state;
    struct db *db = NULL;
    struct dibs_error err = {0};
    assert_int_equal(open_upto(p->path, 3, &db, NULL), DIBS_OK);
    db_close(db);
    char log[128] = {0};
    snprintf(log, sizeof log, "%s-wal", p->path);
    uint64_t before = hash_of(p->path), log_before = hash_of(log);
    assert_int_equal(open_upto(p->path, 2, &db, &err), DIBS_STORE_TOO_NEW);
    assert_non_null(strstr(err.message, "migration 3 'third'"));
    assert_non_null(strstr(err.message, "upgrade"));
    assert_true(hash_of(p->path) == before && hash_of(log) == log_before);
}

static void test_a_newer_harmless_store_is_used(void **state)
{
    struct place *p = *state;
    struct db *db = NULL;
    struct db_info info = {0};
    assert_int_equal(open_upto(p->path, 2, &db, NULL), DIBS_OK);
    db_close(db);
    assert_int_equal(open_upto(p->path, 1, &db, NULL), DIBS_OK);
    assert_shape(db, 2, 2);
    assert_int_equal(db_info(db, &info, NULL), DIBS_OK);
    assert_int_equal(info.schema_known, 1);
    db_close(db);
}

static void test_a_migration_of_another_name_is_another_program(void **state)
{
    struct place *p = *state;
    struct db *db = NULL;
    struct dibs_error err = {0};
    struct db_options in = {.path = p->path, .create = true};
    assert_int_equal(open_upto(p->path, 2, &db, NULL), DIBS_OK);
    db_close(db);
    assert_int_equal(db_open_with(&in, (struct migration_list){renamed, 2}, &db, &err),
                     DIBS_STORE_TOO_NEW);
}

static void test_a_migration_that_fails_leaves_the_store_as_it_was(void **state)
{
    struct place *p = *state;
    struct db *db = NULL;
    struct dibs_error err = {0};
    struct db_options in = {.path = p->path, .create = true};
    assert_int_equal(db_open_with(&in, (struct migration_list){broken, 2}, &db, &err),
                     DIBS_INTERNAL);
    assert_non_null(strstr(err.message, "migration 2 'second'"));
    assert_non_null(strstr(err.message, "nowhere"));
    assert_int_equal(open_upto(p->path, 2, &db, NULL), DIBS_OK);
    assert_shape(db, 2, 2);
    db_close(db);
}

static void open_and_count(void *context)
{
    struct db *db = NULL;
    struct dibs_error err = {0};
    if (open_upto(context, 3, &db, &err) != DIBS_OK) {
        fprintf(stderr, "%s\n", err.message);
        _exit(1);
    }
    CHECK(db_value_int(db, 0, SQL("SELECT sum(a) FROM one"), DB_NO_ARGS) == 5);
    db_close(db);
}

static void remove_store(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", ".lock", ".new"};
    for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
        char name[128] = {0};
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

static void test_many_processes_make_one_store_at_once(void **state)
{
    struct place *p = *state;
    for (int round = 0; round < 10; round++) {
        pid_t pids[6] = {0};
        for (size_t i = 0; i < COUNT_OF(pids); i++)
            pids[i] = start_child(open_and_count, p->path);
        for (size_t i = 0; i < COUNT_OF(pids); i++)
            assert_int_equal(wait_child(pids[i]), 0);
        remove_store(p->path);
    }
}

static void test_a_maker_killed_at_any_moment_leaves_a_store_that_can_be_completed(void **state)
{
    struct place *p = *state;
    int killed = 0, missing = 0;
    for (int delay_us = 0; delay_us < 12000; delay_us += 100) {
        pid_t pid = start_child(open_and_count, p->path);
        int64_t until = steady_us() + delay_us;
        while (steady_us() < until)
            continue;
        kill(pid, SIGKILL);
        killed += wait_child(pid) != 0;
        struct db *db = NULL;
        dibs_status s = db_open_with(&(struct db_options){.path = p->path},
                                     (struct migration_list){all, 3}, &db, NULL);
        assert_true(s == DIBS_OK || s == DIBS_STORE_NOT_FOUND);
        missing += s == DIBS_STORE_NOT_FOUND;
        if (s != DIBS_OK)
            assert_int_equal(open_upto(p->path, 3, &db, NULL), DIBS_OK);
        assert_shape(db, 3, 5);
        assert_int_equal(db_check(db, NULL), DIBS_OK);
        db_close(db);
        remove_store(p->path);
    }
    assert_true(killed > 0 && missing > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_what_is_missing_is_applied_once_and_in_order),
        STORE_TEST(test_a_newer_breaking_store_is_refused_untouched),
        STORE_TEST(test_a_newer_harmless_store_is_used),
        STORE_TEST(test_a_migration_of_another_name_is_another_program),
        STORE_TEST(test_a_migration_that_fails_leaves_the_store_as_it_was),
        STORE_TEST(test_many_processes_make_one_store_at_once),
        STORE_TEST(test_a_maker_killed_at_any_moment_leaves_a_store_that_can_be_completed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
