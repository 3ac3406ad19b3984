/* SPDX-License-Identifier: MIT */
/*
 * db_sqlite_sync.c: tests of src/db/db_sqlite_sync.c and db_sqlite_log.c: a log that is written in
 * one piece and flushed by a thread. What survives a cut of the power is in test/crash/power.c.
 */
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#include "db_test.h"
#include "failing_vfs.h"

/* What on_durable was told. */
static struct {
    atomic_llong largest;
    atomic_int calls, failures;
} heard;

static void hear(void *context, int64_t commit)
{
    (void)context;
    heard.calls++;
    if (commit < 0)
        heard.failures++;
    else if (commit > heard.largest)
        heard.largest = commit;
}

static void forget(void)
{
    heard.largest = heard.calls = heard.failures = 0;
}

/* ---- one piece ------------------------------------------------------------------------------- */

static int log_writes;

static int count_log_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at)
{
    log_writes++;
    return failing_vfs.real_methods->xWrite(file, bytes, count, at);
}

static void count_writes_of_a_commit(void *context)
{
    struct place *p = context;
    struct db *db = NULL, *other = NULL;
    CHECK(failing_vfs_install());
    CHECK(store_open(p->path, true, &db, NULL) == DIBS_OK);
    failing_vfs.log_methods.xWrite = count_log_write;
    CHECK(store_open(p->path, true, &other, NULL) == DIBS_OK);
    failing_vfs.log_methods.xWrite = count_log_write;
    CHECK(add_large(other, 0));
    log_writes = 0;
    CHECK(db_begin(other, DB_WRITE));
    for (int i = 1; i <= 10; i++) /* each needs a page of its own */
        CHECK(db_exec(other,
                      SQL("INSERT INTO item (name, n) VALUES (hex(zeroblob(1400)) || $1, 1)"),
                      DB_ARGS(db_i(i))));
    CHECK(db_commit(other));
    CHECK(log_writes == 1);
    CHECK(count_items(db) == 11); /* and others find them in the file */
    CHECK(db_check(db, NULL) == DIBS_OK);
    db_close(other);
    db_close(db);
}

static void test_the_pages_of_a_commit_are_written_in_one_piece(void **state)
{
    assert_int_equal(run_child(count_writes_of_a_commit, *state), 0);
}

static void test_a_transaction_larger_than_the_buffer_is_whole(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    assert_true(db_begin(db, DB_WRITE));
    for (int i = 0; i < 4000; i++) /* 12 MB: more than SQLite keeps in memory, too */
        assert_true(db_exec(db,
                            SQL("INSERT INTO item (name, n) VALUES (hex(zeroblob(1500)) || $1, 1)"),
                            DB_ARGS(db_i(i))));
    assert_int_equal(count_items(db), 4000);
    assert_true(db_commit(db));
    struct db *other = store(p->path);
    assert_int_equal(count_items(other), 4000);
    assert_int_equal(db_check(other, NULL), DIBS_OK);
    db_close(other);
    db_close(db);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void test_without_a_thread_every_commit_is_durable(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    int64_t before = db_commit_number(db);
    assert_true(add_item(db, "a", 1));
    assert_int_equal(db_commit_number(db), before + 1);
    assert_true(db_wait_durable(db, before + 1));
    db_close(db);
}

static void test_commits_are_numbered_and_told_when_they_are_on_disk(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path), *other = store(p->path);
    struct dibs_error err = {0};
    forget();
    assert_int_equal(db_overlap(db, hear, NULL, &err), DIBS_OK);
    assert_int_equal(db_overlap(db, hear, NULL, &err), DIBS_INTERNAL); /* one is enough */
    int64_t before = db_commit_number(db);
    assert_true(add_item(db, "a", 1));
    assert_int_equal(db_commit_number(db), before + 1);
    assert_int_equal(count_items(other), 1); /* others see it at once */
    assert_true(db_begin(db, DB_WRITE) && db_commit(db));
    assert_int_equal(db_commit_number(db), before + 1); /* nothing was written */
    for (int i = 0; i < 100; i++)
        assert_true(add_large(db, i));
    assert_true(db_wait_durable(db, before + 101));
    db_close(db); /* the thread has said all it has to say */
    assert_int_equal(heard.largest, before + 101);
    assert_int_equal(heard.failures, 0);
    assert_true(heard.calls >= 1 && heard.calls <= 101);
    assert_int_equal(db_check(other, NULL), DIBS_OK);
    db_close(other);
}

/* ---- a disk that takes its time, and one that fails ------------------------------------------ */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool closed;
    int waiting, passed;
} gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0, 0};

static int slow_log_sync(sqlite3_file *file, int flags)
{
    pthread_mutex_lock(&gate.mutex);
    gate.waiting++;
    pthread_cond_broadcast(&gate.changed);
    while (gate.closed)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    gate.waiting--;
    gate.passed++;
    pthread_mutex_unlock(&gate.mutex);
    return failing_vfs.fail_log_sync ? SQLITE_IOERR_FSYNC
                                     : failing_vfs.real_methods->xSync(file, flags);
}

static void gate_set(bool closed)
{
    pthread_mutex_lock(&gate.mutex);
    gate.closed = closed;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
}

static void wait_for_a_flush(void)
{
    pthread_mutex_lock(&gate.mutex);
    while (gate.waiting == 0)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    pthread_mutex_unlock(&gate.mutex);
}

/* A store whose log is flushed by a thread, through the gate. */
static struct db *open_slow(const char *path)
{
    struct db *db = NULL;
    CHECK(failing_vfs_install());
    CHECK(store_open(path, true, &db, NULL) == DIBS_OK);
    CHECK(add_item(db, "before", 1));
    forget();
    CHECK(db_overlap(db, hear, NULL, NULL) == DIBS_OK);
    failing_vfs.log_methods.xSync = slow_log_sync; /* opening it once more has set it anew */
    return db;
}

static void commit_while_the_disk_is_busy(void *context)
{
    struct place *p = context;
    struct db *db = open_slow(p->path);
    int64_t first = db_commit_number(db) + 1;
    gate_set(true);
    CHECK(add_item(db, "a", 1));
    wait_for_a_flush();
    for (int i = 0; i < 20; i++)
        CHECK(add_large(db, i)); /* none of them waits */
    CHECK(heard.calls == 0);     /* and none is called durable */
    gate_set(false);
    CHECK(db_wait_durable(db, first + 20));
    db_close(db);
    CHECK(heard.largest == first + 20);
    CHECK(heard.calls == 2 && gate.passed == 2); /* one flush for twenty commits */
}

static void test_one_flush_covers_all_that_was_committed_meanwhile(void **state)
{
    assert_int_equal(run_child(commit_while_the_disk_is_busy, *state), 0);
}

static void fail_a_flush_of_the_thread(void *context)
{
    struct place *p = context;
    struct dibs_error err = {0};
    struct db *db = open_slow(p->path), *third = NULL;
    gate_set(true);
    CHECK(add_item(db, "unknown", 1));
    int64_t lost = db_commit_number(db);
    failing_vfs.fail_log_sync = true;
    gate_set(false);
    CHECK(!db_wait_durable(db, lost));
    CHECK(!add_item(db, "later", 1));
    CHECK(db_error(db, &err) == DIBS_STORE_UNAVAILABLE);
    CHECK(store_open(p->path, false, &third, &err) == DIBS_STORE_UNAVAILABLE);
    failing_vfs.fail_log_sync = false; /* the disk says that all is well again, and lies */
    CHECK(!db_wait_durable(db, lost));
    db_close(db);
    CHECK(heard.failures == 1 && heard.largest == 0);
}

static void test_nothing_is_durable_after_a_flush_of_the_thread_has_failed(void **state)
{
    struct place *p = *state;
    assert_int_equal(run_child(fail_a_flush_of_the_thread, p), 0);
    struct db *db = store(p->path); /* a new process may go on */
    assert_int_equal(db_check(db, NULL), DIBS_OK);
    assert_true(add_item(db, "later", 1));
    db_close(db);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static int data_writes_too_early;

static int check_data_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at)
{
    pthread_mutex_lock(&gate.mutex);
    data_writes_too_early += gate.waiting > 0;
    pthread_mutex_unlock(&gate.mutex);
    failing_vfs.data_writes++;
    return failing_vfs.real_methods->xWrite(file, bytes, count, at);
}

static void checkpoint_with_a_thread(void *context)
{
    struct place *p = context;
    struct db *db = open_slow(p->path);
    failing_vfs.data_methods.xWrite = check_data_write;
    for (int i = 0; i < 1500; i++)
        CHECK(add_large(db, i));
    CHECK(failing_vfs.data_writes > 100); /* there was a checkpoint */
    CHECK(data_writes_too_early == 0);    /* with everything flushed before */
    CHECK(db_check(db, NULL) == DIBS_OK && count_items(db) == 1501);
    db_close(db);
}

static void test_a_checkpoint_waits_until_all_is_flushed(void **state)
{
    assert_int_equal(run_child(checkpoint_with_a_thread, *state), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_the_pages_of_a_commit_are_written_in_one_piece),
        STORE_TEST(test_a_transaction_larger_than_the_buffer_is_whole),
        STORE_TEST(test_without_a_thread_every_commit_is_durable),
        STORE_TEST(test_commits_are_numbered_and_told_when_they_are_on_disk),
        STORE_TEST(test_one_flush_covers_all_that_was_committed_meanwhile),
        STORE_TEST(test_nothing_is_durable_after_a_flush_of_the_thread_has_failed),
        STORE_TEST(test_a_checkpoint_waits_until_all_is_flushed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
