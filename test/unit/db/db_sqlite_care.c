/* SPDX-License-Identifier: MIT */
/*
 * db_sqlite_care.c: tests of src/db/db_sqlite_care.c: checkpoints happen when they are due, only
 * then and only under the write lock; a backup is whole whatever goes on meanwhile.
 */
#include "db/db_sqlite.h"

#include "db_test.h"
#include "failing_vfs.h"

enum { FRAME_BYTES = 24 + 4096 };

/* ---- checkpoints ----------------------------------------------------------------------------- */

static void test_the_log_grows_to_its_threshold_and_is_then_used_again(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    int64_t threshold = (int64_t)WAL_CHECKPOINT_PAGES * FRAME_BYTES, longest = 0;
    int64_t first = bytes_of(p->path, "");
    int n = 0;
    while (bytes_of(p->path, "-wal") < threshold - 8 * FRAME_BYTES) {
        assert_true(add_large(db, n++));
        assert_int_equal(bytes_of(p->path, ""), first); /* nothing moved before it is due */
    }
    for (int i = 0; i < 2000; i++) {
        assert_true(add_large(db, n++));
        longest = bytes_of(p->path, "-wal") > longest ? bytes_of(p->path, "-wal") : longest;
    }
    assert_true(bytes_of(p->path, "") > first);
    assert_true(longest < threshold + 16 * FRAME_BYTES);
    db_close(db);
}

static void test_closing_moves_nothing_and_keeps_the_log(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    assert_true(add_large(db, 1));
    int64_t log = bytes_of(p->path, "-wal");
    uint64_t before = hash_of(p->path);
    db_close(db);
    assert_int_equal(bytes_of(p->path, "-wal"), log);
    assert_true(hash_of(p->path) == before);
    db = store(p->path);
    assert_int_equal(count_items(db), 1);
    db_close(db);
}

struct watch {
    const char *path;
    volatile int go, done;
};

static const char *watched_path;
static int writes_without_lock;

static int watch_data_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at)
{
    if (write_lock_holder(watched_path) != getpid())
        writes_without_lock++;
    return failing_data_write(file, bytes, count, at);
}

/* Every write to the data file, that is, every checkpoint, finds this process holding the lock. */
static void write_and_watch(void *context)
{
    struct watch *w = context;
    struct db *db = NULL;
    watched_path = w->path;
    CHECK(failing_vfs_install());
    CHECK(store_open(w->path, false, &db, NULL) == DIBS_OK);
    failing_vfs.data_methods.xWrite = watch_data_write;
    CHECK(wait_for(&w->go, 1));
    for (int i = 0; i < 1500; i++)
        CHECK(add_large(db, (int)getpid() * 10000 + i));
    db_close(db);
    CHECK(failing_vfs.data_writes > 100);
    CHECK(writes_without_lock == 0);
}

static void test_only_the_holder_of_the_lock_moves_pages(void **state)
{
    struct place *p = *state;
    struct watch *w = shared_memory(sizeof *w);
    pid_t pids[3] = {0};
    db_close(store(p->path));
    w->path = p->path;
    for (size_t i = 0; i < COUNT_OF(pids); i++)
        pids[i] = start_child(write_and_watch, w);
    w->go = 1;
    for (size_t i = 0; i < COUNT_OF(pids); i++)
        assert_int_equal(wait_child(pids[i]), 0);
    struct db *db = store(p->path);
    assert_int_equal(count_items(db), 3 * 1500);
    assert_int_equal(db_check(db, NULL), DIBS_OK);
    db_close(db);
    munmap(w, sizeof *w);
}

static void test_a_long_reader_makes_the_log_grow_and_room_comes_back(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path), *reader = store(p->path);
    int n = 0;
    assert_true(add_large(db, n++));
    assert_true(db_begin(reader, DB_READ));
    assert_int_equal(count_items(reader), 1);
    while (bytes_of(p->path, "-wal") < (int64_t)(WAL_TRUNCATE_PAGES + 100) * FRAME_BYTES) {
        assert_true(db_begin(db, DB_WRITE));
        for (int i = 0; i < 500; i++) {
            char name[3000];
            memset(name, 'z', sizeof name);
            snprintf(name + sizeof name - 16, 16, "%d", n++);
            db_exec(db, SQL("INSERT INTO item (name) VALUES ($1)"), DB_ARGS(db_t(name)));
        }
        assert_true(db_commit(db));
    }
    assert_int_equal(count_items(reader), 1);
    assert_true(db_commit(reader));
    for (int i = 0; i < 2 * WAL_CHECKPOINT_PAGES && bytes_of(p->path, "-wal") > 0; i++)
        assert_true(add_large(db, n++));
    assert_int_equal(bytes_of(p->path, "-wal"), 0);
    assert_int_equal(count_items(db), n);
    db_close(reader);
    db_close(db);
}

/* ---- backup ---------------------------------------------------------------------------------- */

static void keep_the_sum(void *context)
{
    struct watch *w = context;
    struct db *db = NULL;
    CHECK(store_open(w->path, false, &db, NULL) == DIBS_OK);
    for (int i = 0; !w->done; i++) { /* moves one between two rows, and makes the file grow */
        CHECK(db_begin(db, DB_WRITE));
        db_exec(db, SQL("UPDATE item SET n = n - 1 WHERE id = 1"), DB_NO_ARGS);
        db_exec(db, SQL("INSERT INTO part (item, body) VALUES (1, hex(zeroblob(2000)))"),
                DB_NO_ARGS);
        db_exec(db, SQL("UPDATE item SET n = n + 1 WHERE id = 2"), DB_NO_ARGS);
        CHECK(db_commit(db));
        w->go = 1;
    }
    db_close(db);
}

static void check_copy(const char *path)
{
    struct db *copy = NULL;
    struct stat st = {0};
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(bytes_of(path, ".part"), -1);
    assert_int_equal(bytes_of(path, "-wal"), -1);
    assert_int_equal(store_open(path, false, &copy, NULL), DIBS_OK);
    assert_int_equal(db_check(copy, NULL), DIBS_OK);
    assert_int_equal(db_value_int(copy, -1, SQL("SELECT sum(n) FROM item"), DB_NO_ARGS), 1000);
    /* the write of one transaction are all in or all out */
    assert_int_equal(
        db_value_int(copy, -1,
                     SQL("SELECT (SELECT n FROM item WHERE id = 2) - (SELECT count(*) FROM part)"),
                     DB_NO_ARGS),
        500);
    assert_true(add_item(copy, "works", 0));
    db_close(copy);
}

static void test_a_backup_under_load_is_whole(void **state)
{
    struct place *p = *state;
    struct watch *w = shared_memory(sizeof *w);
    w->path = p->path;
    struct db *db = store(p->path);
    assert_true(add_item(db, "a", 500) && add_item(db, "b", 500));
    db_close(db);
    pid_t pids[2] = {start_child(keep_the_sum, w), start_child(keep_the_sum, w)};
    db = store(p->path);
    assert_true(wait_for(&w->go, 1));
    for (int i = 0; i < 5; i++) {
        char path[128] = {0};
        struct dibs_error err = {0};
        snprintf(path, sizeof path, "%s/copy-%d.db", p->folder, i);
        assert_int_equal(db_backup(db, path, "", &err), DIBS_OK);
        check_copy(path);
    }
    w->done = 1;
    assert_int_equal(wait_child(pids[0]), 0);
    assert_int_equal(wait_child(pids[1]), 0);
    db_close(db);
    munmap(w, sizeof *w);
}

static void test_a_backup_overwrites_nothing(void **state)
{
    struct place *p = *state;
    char path[128] = {0}, part[128] = {0};
    struct dibs_error err = {0};
    struct db *db = store(p->path);
    snprintf(path, sizeof path, "%s/copy.db", p->folder);
    snprintf(part, sizeof part, "%s/copy.db.part", p->folder);
    assert_true(write_file(path, "precious", 8));
    uint64_t before = hash_of(path);
    assert_int_equal(db_backup(db, path, "", &err), DIBS_INVALID_REQUEST);
    assert_non_null(strstr(err.message, "already"));
    assert_true(hash_of(path) == before);
    assert_int_equal(db_backup(db, p->path, "", &err), DIBS_INVALID_REQUEST);
    assert_int_equal(unlink(path), 0);
    assert_true(write_file(part, "half", 4));
    assert_int_equal(db_backup(db, path, "", &err), DIBS_INVALID_REQUEST);
    assert_int_equal(unlink(part), 0);
    assert_int_equal(db_backup(db, "/nonexistent/copy.db", "", &err), DIBS_STORE_UNAVAILABLE);
    assert_true(db_begin(db, DB_WRITE));
    assert_int_equal(db_backup(db, path, "", &err), DIBS_INTERNAL);
    db_rollback(db);
    assert_int_equal(db_backup(db, path, "", &err), DIBS_OK);
    db_close(db);
}

/* ---- versions -------------------------------------------------------------------------------- */

static void test_the_versions_with_the_wal_reset_bug_are_known(void **state)
{
    (void)state;
    static const int bad[] = {3007000, 3040001, 3044005, 3045000, 3050006, 3051000, 3051002};
    static const int good[] = {3006023, 3044006, 3044009, 3050007, 3051003, 3053002, 4000000};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_true(sqlite_has_wal_reset_bug(bad[i]));
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_false(sqlite_has_wal_reset_bug(good[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_the_log_grows_to_its_threshold_and_is_then_used_again),
        STORE_TEST(test_closing_moves_nothing_and_keeps_the_log),
        STORE_TEST(test_only_the_holder_of_the_lock_moves_pages),
        STORE_TEST(test_a_long_reader_makes_the_log_grow_and_room_comes_back),
        STORE_TEST(test_a_backup_under_load_is_whole),
        STORE_TEST(test_a_backup_overwrites_nothing),
        cmocka_unit_test(test_the_versions_with_the_wal_reset_bug_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
