/* SPDX-License-Identifier: MIT */
/*
 * db.c: tests of the seam (src/db/db.c, db_statement.c): rows in and out, sticky failure,
 * savepoints, the statement cache, forks, and what a sealed connection refuses.
 */
#include "db/db.h"

#include "db_test.h"

static void test_rows_come_back_as_they_went_in(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    dibs_arena *a = dibs_arena_new();
    assert_true(db_begin(db, DB_WRITE));
    db_exec(db, SQL("INSERT INTO item (id, name, n) VALUES ($1, $2, $3)"),
            DB_ARGS(db_i(INT64_MAX), db_t("żółw 🐢 '; DROP TABLE item; --"), db_i_or_null(0)));
    assert_int_equal(db_changes(db), 1);
    /* $2 first: the values go by number, not by place */
    db_exec(db, SQL("INSERT INTO item (name, n, id) VALUES ($2, $1, $1)"),
            DB_ARGS(db_i(-7), db_t("")));
    assert_true(db_commit(db));
    struct db_rows *rows =
        db_query(db, SQL("SELECT id, name, n FROM item ORDER BY id"), DB_NO_ARGS);
    assert_true(db_next(rows));
    assert_int_equal(db_int(rows, 0), -7);
    assert_string_equal(db_text_borrowed(rows, 1), "");
    assert_int_equal(db_int(rows, 2), -7);
    assert_true(db_next(rows));
    assert_true(db_int(rows, 0) == INT64_MAX);
    const char *name = db_text(rows, 1, a);
    assert_true(db_is_null(rows, 2));
    assert_int_equal(db_int(rows, 2), 0);
    assert_null(db_text(rows, 2, a));
    assert_false(db_next(rows));
    assert_false(db_next(rows)); /* stays at its end */
    assert_null(db_text(rows, 1, a));
    db_done(rows);
    assert_string_equal(name, "żółw 🐢 '; DROP TABLE item; --");
    assert_int_equal(
        db_value_int(db, 5, SQL("SELECT n FROM item WHERE id = $1"), DB_ARGS(db_i(-7))), -7);
    assert_int_equal(db_value_int(db, 5, SQL("SELECT n FROM item WHERE id = $1"), DB_ARGS(db_i(0))),
                     5);
    assert_int_equal(db_value_int(db, 5, SQL("SELECT n FROM item WHERE n IS NULL AND name <> $1"),
                                  DB_ARGS(db_t("x"))),
                     5);
    assert_true(db_ok(db));
    dibs_arena_free(a);
    db_close(db);
}

static void test_returning_gives_rows_of_a_write(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    assert_true(add_item(db, "a", 1));
    assert_true(add_item(db, "b", 1));
    assert_true(db_begin(db, DB_WRITE));
    struct db_rows *rows = db_query(db, SQL("UPDATE item SET n = n + $1 WHERE n = $2 RETURNING n"),
                                    DB_ARGS(db_i(5), db_i(1)));
    assert_true(db_next(rows));
    assert_int_equal(db_int(rows, 0), 6);
    db_done(rows); /* early: all rows are changed nevertheless */
    assert_true(db_commit(db));
    assert_int_equal(db_value_int(db, 0, SQL("SELECT sum(n) FROM item"), DB_NO_ARGS), 12);
    db_close(db);
}

static void test_the_first_failure_stays_and_the_rest_does_nothing(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    struct dibs_error err = {0};
    assert_true(add_item(db, "taken", 1));
    assert_true(db_begin(db, DB_WRITE));
    assert_true(db_exec(db, SQL("INSERT INTO item (name) VALUES ('before')"), DB_NO_ARGS));
    assert_false(db_exec(db, SQL("INSERT INTO item (name) VALUES ('taken')"), DB_NO_ARGS));
    assert_false(db_exec(db, SQL("INSERT INTO item (name) VALUES ('after')"), DB_NO_ARGS));
    assert_false(db_exec(db, SQL("this is not even parsed"), DB_NO_ARGS));
    struct db_rows *rows = db_query(db, SQL("SELECT name FROM item"), DB_NO_ARGS);
    assert_non_null(rows);
    assert_false(db_next(rows));
    assert_null(db_text_borrowed(rows, 0));
    assert_int_equal(db_int(rows, 0), 0);
    db_done(rows);
    assert_int_equal(db_value_int(db, 42, SQL("SELECT 1"), DB_NO_ARGS), 42);
    assert_int_equal(db_changes(db), 0);
    assert_false(db_ok(db));
    assert_false(db_commit(db));
    assert_false(db_in_transaction(db));
    /* readable after the commit that refused, until the next begin */
    assert_int_equal(db_error(db, &err), DIBS_INTERNAL);
    assert_non_null(strstr(err.message, "UNIQUE"));
    assert_true(db_begin(db, DB_READ));
    assert_int_equal(db_error(db, NULL), DIBS_OK);
    assert_int_equal(count_items(db), 1);
    assert_true(db_commit(db));
    db_close(db);
}

static void test_a_rollback_undoes_and_forgets_the_failure(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    assert_true(db_begin(db, DB_WRITE));
    db_exec(db, SQL("INSERT INTO item (name) VALUES ('x')"), DB_NO_ARGS);
    db_fail(db, DIBS_OUT_OF_MEMORY, "no memory in core");
    db_fail(db, DIBS_INTERNAL, "a second one is not kept");
    assert_int_equal(db_error(db, NULL), DIBS_OUT_OF_MEMORY);
    db_rollback(db);
    db_rollback(db);
    assert_true(db_ok(db));
    assert_int_equal(count_items(db), 0);
    db_close(db);
}

static void test_a_savepoint_undoes_only_itself(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    assert_true(db_begin(db, DB_WRITE));
    for (int i = 0; i < 6; i++) {
        assert_true(db_savepoint(db));
        db_exec(db, SQL("INSERT INTO item (id, name) VALUES ($1, CAST($1 AS TEXT))"),
                DB_ARGS(db_i(i)));
        if (i == 2)
            db_exec(db, SQL("INSERT INTO item (id, name) VALUES (0, 'twice')"), DB_NO_ARGS);
        if (i == 4) {
            db_rollback_to(db);
            continue;
        }
        if (!db_release(db)) {
            assert_int_equal(i, 2);
            db_rollback_to(db);
            assert_true(db_ok(db));
        }
    }
    assert_true(db_commit(db));
    assert_int_equal(db_value_int(db, 0, SQL("SELECT sum(id) FROM item"), DB_NO_ARGS),
                     0 + 1 + 3 + 5);
    db_close(db);
}

static bool add_number(struct db *db, int64_t n)
{
    return db_exec(db, SQL("INSERT INTO item (id, name) VALUES ($1, CAST($1 AS TEXT))"),
                   DB_ARGS(db_i(n)));
}

static int64_t sum(struct db *db)
{
    return db_value_int(db, 0, SQL("SELECT sum(id) FROM item"), DB_NO_ARGS);
}

/* Savepoints are set when something is written; those without a write between them are one. */
static void test_savepoints_inside_one_another_are_undone_one_by_one(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    assert_true(db_begin(db, DB_WRITE) && add_number(db, 1));
    assert_true(db_savepoint(db) && db_savepoint(db) && add_number(db, 10));
    db_rollback_to(db); /* the inner one, which shares its point with the outer */
    assert_int_equal(sum(db), 1);
    assert_true(add_number(db, 100) && db_savepoint(db) && add_number(db, 1000));
    assert_true(db_savepoint(db) && db_release(db)); /* nothing in it */
    db_rollback_to(db);
    assert_int_equal(sum(db), 101);
    assert_true(db_savepoint(db) && add_number(db, 10) && db_release(db));
    assert_int_equal(sum(db), 111);
    db_rollback_to(db); /* the outer one, with what was released into it */
    assert_int_equal(sum(db), 1);
    assert_true(db_commit(db));
    assert_int_equal(sum(db), 1);
    db_close(db);
}

static void test_what_asked_not_to_be_guarded_is_undone_with_what_is_around(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    assert_true(db_begin(db, DB_WRITE) && add_number(db, 1) && db_savepoint(db));
    assert_true(add_number(db, 10) && db_savepoint(db));
    db_writes_only(db);
    assert_true(add_number(db, 100));
    db_fail(db, DIBS_OUT_OF_MEMORY, "out of memory");
    db_rollback_to(db);
    assert_int_equal(db_error(db, NULL), DIBS_OUT_OF_MEMORY); /* still there */
    db_rollback_to(db);
    assert_true(db_ok(db));
    assert_int_equal(sum(db), 1);
    assert_true(db_savepoint(db)); /* the outermost, this time */
    db_writes_only(db);
    assert_true(add_number(db, 1000));
    db_rollback_to(db);
    assert_false(db_ok(db));
    assert_false(add_number(db, 10000) || db_commit(db));
    assert_int_equal(sum(db), 0);
    db_close(db);
}

static void test_what_is_not_guarded_costs_nothing_when_nothing_was_written(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    assert_true(db_begin(db, DB_WRITE) && add_number(db, 1) && db_savepoint(db));
    db_writes_only(db);
    db_fail(db, DIBS_OUT_OF_MEMORY, "out of memory");
    db_rollback_to(db); /* there is nothing to undo */
    assert_true(db_ok(db));
    assert_true(db_commit(db));
    assert_int_equal(sum(db), 1);
    db_close(db);
}

static void test_a_handle_knows_whether_others_have_written(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path), *other = store(p->path);
    assert_true(add_item(db, "a", 1));
    assert_false(db_unchanged(db)); /* only inside a transaction */
    assert_true(db_begin(db, DB_WRITE) && db_unchanged(db) && db_commit(db));
    assert_int_equal(count_items(other), 1);
    assert_true(db_begin(db, DB_WRITE) && db_unchanged(db));
    db_rollback(db);
    assert_true(add_item(other, "b", 1));
    assert_true(db_begin(db, DB_WRITE) && !db_unchanged(db));
    assert_true(add_number(db, 7) && db_commit(db));
    assert_true(db_begin(db, DB_WRITE) && db_unchanged(db) && db_commit(db));
    assert_true(add_item(other, "c", 1));
    assert_int_equal(count_items(db), 4); /* having read it is not enough */
    assert_true(db_begin(db, DB_WRITE) && !db_unchanged(db) && db_commit(db));
    db_close(other);
    db_close(db);
}

static void test_a_statement_may_run_inside_the_loop_over_its_own_rows(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    static const char sql[] = "SELECT id FROM item WHERE id > $1 ORDER BY id";
    for (int i = 1; i <= 4; i++)
        assert_true(add_item(db, (const char[]){(char)('a' + i), 0}, i));
    int pairs = 0;
    struct db_rows *outer = db_query(db, sql, DB_ARGS(db_i(0)));
    while (db_next(outer)) {
        struct db_rows *inner = db_query(db, sql, DB_ARGS(db_i(db_int(outer, 0))));
        assert_ptr_not_equal(inner, outer);
        while (db_next(inner))
            pairs++;
        db_done(inner);
    }
    db_done(outer);
    assert_int_equal(pairs, 3 + 2 + 1);
    db_close(db);
}

static void test_more_statements_than_the_cache_holds(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    static char sql[STATEMENTS_MAX * 3][32];
    for (int i = 0; i < STATEMENTS_MAX * 3; i++)
        snprintf(sql[i], sizeof sql[i], "SELECT %d + $1", i);
    struct db_rows *open = db_query(db, sql[0], DB_ARGS(db_i(1))); /* must survive the eviction */
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < STATEMENTS_MAX * 3; i++)
            assert_int_equal(db_value_int(db, -1, sql[i], DB_ARGS(db_i(round))), i + round);
    assert_true(db_next(open));
    assert_int_equal(db_int(open, 0), 1);
    db_done(open);
    db_close(db);
}

static void test_a_write_needs_a_write_transaction(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    assert_false(db_exec(db, SQL("INSERT INTO item (name) VALUES ('x')"), DB_NO_ARGS));
    assert_int_equal(db_error(db, NULL), DIBS_INTERNAL);
    assert_true(db_begin(db, DB_READ));
    assert_false(db_exec(db, SQL("DELETE FROM item"), DB_NO_ARGS));
    assert_false(db_commit(db));
    assert_int_equal(db_error(db, NULL), DIBS_INTERNAL);
    db_close(db);
}

static void test_a_read_transaction_sees_one_instant(void **state)
{
    struct place *p = *state;
    struct db *reader = store(p->path), *writer = store(p->path);
    assert_true(add_item(writer, "a", 1));
    assert_true(db_begin(reader, DB_READ));
    assert_int_equal(count_items(reader), 1);
    assert_true(add_item(writer, "b", 1));
    assert_int_equal(count_items(reader), 1);
    assert_true(db_commit(reader));
    assert_int_equal(count_items(reader), 2);
    db_close(reader);
    db_close(writer);
}

static void test_the_change_counter_grows_with_commits_of_others(void **state)
{
    struct place *p = *state;
    struct db *watcher = store(p->path), *writer = store(p->path);
    int64_t before = db_change_counter(watcher);
    assert_int_equal(db_change_counter(watcher), before);
    assert_true(add_item(writer, "a", 1));
    int64_t after = db_change_counter(watcher);
    assert_true(after > before);
    assert_int_equal(db_change_counter(watcher), after);
    assert_true(add_item(watcher, "b", 1)); /* its own do not count */
    assert_int_equal(db_change_counter(watcher), after);
    assert_true(db_begin(writer, DB_WRITE));
    db_exec(writer, SQL("DELETE FROM item"), DB_NO_ARGS);
    db_rollback(writer);
    assert_int_equal(db_change_counter(watcher), after);
    db_close(watcher);
    db_close(writer);
}

/* ---- failing on purpose ---------------------------------------------------------------------- */

static int calls_until_failure;

static bool fail_now(void)
{
    return --calls_until_failure == 0;
}

static void test_any_call_may_fail_and_leaves_all_or_nothing(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    bool committed = false;
    int fail_at = 0;
    while (!committed) {
        calls_until_failure = ++fail_at;
        db_should_fail = fail_now;
        bool began = db_begin(db, DB_WRITE);
        db_exec(db, SQL("INSERT INTO item (name) VALUES ('a')"), DB_NO_ARGS);
        db_exec(db, SQL("INSERT INTO item (name) VALUES ('b')"), DB_NO_ARGS);
        committed = db_commit(db);
        db_should_fail = NULL;
        assert_true(committed == db_ok(db));
        assert_int_equal(db_error(db, NULL), committed ? DIBS_OK : DIBS_STORE_UNAVAILABLE);
        assert_true(began || fail_at == 1);
        assert_false(db_in_transaction(db));
        assert_true(db_begin(db, DB_READ));
        assert_int_equal(count_items(db), committed ? 2 : 0);
        db_rollback(db);
    }
    assert_int_equal(fail_at, 5); /* begin, two steps, commit; the fifth never came */
    db_close(db);
}

static void test_no_memory_at_any_point_of_open_is_answered(void **state)
{
    struct place *p = *state;
    struct db *db = NULL;
    dibs_status s = DIBS_OUT_OF_MEMORY;
    int fail_at = 0;
    for (; s != DIBS_OK; fail_at++) {
        struct dibs_error err = {0};
        calls_until_failure = fail_at + 1;
        mem_should_fail = fail_now;
        s = store_open(p->path, true, &db, &err);
        mem_should_fail = NULL;
        assert_true(s == DIBS_OK || s == DIBS_OUT_OF_MEMORY);
        assert_int_equal(err.code, s);
    }
    assert_true(fail_at > 5);
    assert_true(add_item(db, "a", 1));
    db_close(db);
}

static void test_no_memory_for_a_text_fails_the_transaction(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    dibs_arena *a = dibs_arena_new();
    static char large[300000];
    memset(large, 'x', sizeof large - 1);
    assert_true(add_item(db, large, 1));
    assert_true(db_begin(db, DB_READ));
    struct db_rows *rows = db_query(db, SQL("SELECT name FROM item"), DB_NO_ARGS);
    assert_true(db_next(rows));
    calls_until_failure = 1;
    mem_should_fail = fail_now;
    assert_null(db_text(rows, 0, a));
    mem_should_fail = NULL;
    db_done(rows);
    assert_int_equal(db_error(db, NULL), DIBS_OUT_OF_MEMORY);
    db_rollback(db);
    dibs_arena_free(a);
    db_close(db);
}

/* ---- forks ----------------------------------------------------------------------------------- */

static void use_inherited_handle(void *context)
{
    struct db *db = context;
    struct dibs_error err = {0};
    struct db_info info = {0};
    CHECK(!db_begin(db, DB_WRITE));
    CHECK(db_error(db, &err) == DIBS_FORKED);
    CHECK(strstr(err.message, "fork") != NULL);
    CHECK(!db_begin(db, DB_READ));
    CHECK(count_items(db) == -1);
    CHECK(db_info(db, &info, &err) == DIBS_FORKED);
    CHECK(db_check(db, &err) == DIBS_FORKED);
    CHECK(db_backup(db, "/nowhere", "", &err) == DIBS_FORKED);
    db_rollback(db);
    CHECK(!db_commit(db));
    db_close(db);
}

static void test_a_handle_does_not_work_in_a_child(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    assert_true(add_item(db, "a", 1));
    assert_int_equal(run_child(use_inherited_handle, db), 0);
    assert_true(add_item(db, "b", 1));
    assert_int_equal(count_items(db), 2);
    db_close(db);
}

static void close_inherited_handle(void *context)
{
    db_close(context);
}

static void try_lock(void *context)
{
    /* the parent's transaction is open: the lock must still be held, whatever the sibling did */
    CHECK(write_lock_holder(context) == getppid());
}

static void test_a_child_that_closes_does_not_disturb_an_open_transaction(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    assert_true(db_begin(db, DB_WRITE));
    assert_true(db_exec(db, SQL("INSERT INTO item (name) VALUES ('x')"), DB_NO_ARGS));
    assert_int_equal(run_child(use_inherited_handle, db), 0);
    assert_int_equal(run_child(close_inherited_handle, db), 0);
    assert_int_equal(run_child(try_lock, p->path), 0);
    assert_true(db_commit(db));
    assert_int_equal(count_items(db), 1);
    assert_int_equal(db_check(db, NULL), DIBS_OK);
    db_close(db);
}

/* ---- care ------------------------------------------------------------------------------------ */

static void test_a_sealed_connection_does_not_change_the_schema(void **state)
{
    static const char *const refused[] = {
        "DROP TABLE item",
        "CREATE TABLE more (a)",
        "CREATE TEMP TABLE more (a)",
        "ALTER TABLE item ADD COLUMN more",
        "CREATE INDEX more ON item (n)",
        "ATTACH 'other.db' AS other",
        "PRAGMA synchronous = OFF",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA writable_schema = ON",
        "PRAGMA wal_checkpoint",
        "VACUUM",
        "DELETE FROM sqlite_schema",
    };
    struct place *p = *state;
    struct db *db = store(p->path);
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        assert_true(db_begin(db, DB_WRITE));
        assert_false(db_exec(db, refused[i], DB_NO_ARGS));
        db_rollback(db);
    }
    /* what core uses is allowed: JSON functions and tables, CTEs, window functions */
    assert_int_equal(
        db_value_int(db, 0, SQL("SELECT sum(value) FROM json_each($1)"), DB_ARGS(db_t("[1,2,3]"))),
        6);
    assert_int_equal(db_value_int(db, 0,
                                  SQL("WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1"
                                      " FROM t WHERE n < 9) SELECT max(n) FROM t"),
                                  DB_NO_ARGS),
                     9);
    assert_true(db_ok(db));
    db_close(db);
}

static void test_foreign_keys_and_strict_types_are_in_force(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    assert_true(db_begin(db, DB_WRITE));
    assert_false(db_exec(db, SQL("INSERT INTO part (item) VALUES (99)"), DB_NO_ARGS));
    assert_int_equal(db_error(db, NULL), DIBS_INTERNAL);
    db_rollback(db);
    assert_true(db_begin(db, DB_WRITE));
    assert_false(db_exec(db, SQL("INSERT INTO item (name, n) VALUES ('x', $1)"),
                         DB_ARGS(db_t("not a number"))));
    db_rollback(db);
    db_close(db);
}

static void test_info_tells_what_is_in_force(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    struct db_info info = {0};
    assert_int_equal(db_info(db, &info, NULL), DIBS_OK);
    assert_string_equal(info.engine, "SQLite");
    assert_string_equal(info.journal_mode, "wal");
    assert_int_equal(info.synchronous, 2);
    assert_int_equal(info.schema, 1);
    assert_int_equal(info.schema_known, 1);
    assert_int_equal(info.file_bytes, bytes_of(p->path, ""));
    assert_int_equal(info.wal_bytes, bytes_of(p->path, "-wal"));
    assert_true(info.file_bytes > 0 && info.wal_bytes > 0 && info.free_disk_bytes > 0);
    assert_int_equal(db_check(db, NULL), DIBS_OK);
    db_close(db);
}

static void test_the_real_migrations_make_a_store(void **state)
{
    struct place *p = *state;
    struct db *db = NULL;
    struct dibs_error err = {0};
    struct db_info info = {0};
    struct db_options in = {.path = p->path, .create = true};
    assert_int_equal(db_open(&in, &db, &err), DIBS_OK);
    assert_int_equal(db_info(db, &info, NULL), DIBS_OK);
    assert_true(info.schema >= 1);
    assert_int_equal(info.schema, info.schema_known);
    db_close(db);
    db_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_rows_come_back_as_they_went_in),
        STORE_TEST(test_returning_gives_rows_of_a_write),
        STORE_TEST(test_the_first_failure_stays_and_the_rest_does_nothing),
        STORE_TEST(test_a_rollback_undoes_and_forgets_the_failure),
        STORE_TEST(test_a_savepoint_undoes_only_itself),
        STORE_TEST(test_savepoints_inside_one_another_are_undone_one_by_one),
        STORE_TEST(test_what_asked_not_to_be_guarded_is_undone_with_what_is_around),
        STORE_TEST(test_what_is_not_guarded_costs_nothing_when_nothing_was_written),
        STORE_TEST(test_a_handle_knows_whether_others_have_written),
        STORE_TEST(test_a_statement_may_run_inside_the_loop_over_its_own_rows),
        STORE_TEST(test_more_statements_than_the_cache_holds),
        STORE_TEST(test_a_write_needs_a_write_transaction),
        STORE_TEST(test_a_read_transaction_sees_one_instant),
        STORE_TEST(test_the_change_counter_grows_with_commits_of_others),
        STORE_TEST(test_any_call_may_fail_and_leaves_all_or_nothing),
        STORE_TEST(test_no_memory_at_any_point_of_open_is_answered),
        STORE_TEST(test_no_memory_for_a_text_fails_the_transaction),
        STORE_TEST(test_a_handle_does_not_work_in_a_child),
        STORE_TEST(test_a_child_that_closes_does_not_disturb_an_open_transaction),
        STORE_TEST(test_a_sealed_connection_does_not_change_the_schema),
        STORE_TEST(test_foreign_keys_and_strict_types_are_in_force),
        STORE_TEST(test_info_tells_what_is_in_force),
        STORE_TEST(test_the_real_migrations_make_a_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
