/* SPDX-License-Identifier: MIT */
/*
 * db_sqlite.c: tests of src/db/db_sqlite.c and db_sqlite_fork.c: many processes on one file take
 * turns, a full disk and a failed flush are answered as such, children open stores of their own.
 *
 * test-parallel: no
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>

#include "base/log.h"
#include "db_test.h"
#include "failing_vfs.h"

enum { SKIPPED = 77 };

/* ---- many at once ---------------------------------------------------------------------------- */

struct crowd {
    volatile int ready, go;
    volatile int64_t commits[64], worst_us[64];
};

struct member {
    const char *path;
    struct crowd *crowd;
    int number;
    int64_t run_us;
};

static void commit_for_a_while(void *context)
{
    struct member *m = context;
    struct crowd *crowd = m->crowd;
    struct db *db = NULL;
    CHECK(store_open(m->path, false, &db, NULL) == DIBS_OK);
    __atomic_add_fetch(&crowd->ready, 1, __ATOMIC_SEQ_CST);
    CHECK(wait_for(&crowd->go, 1));
    int64_t end = steady_us() + m->run_us;
    for (int64_t start = steady_us(); start < end; start = steady_us()) {
        CHECK(db_begin(db, DB_WRITE));
        CHECK(db_exec(db, SQL("UPDATE item SET n = n + 1 WHERE id = 1"), DB_NO_ARGS));
        CHECK(db_commit(db));
        int64_t took = steady_us() - start;
        if (took > crowd->worst_us[m->number])
            crowd->worst_us[m->number] = took;
        crowd->commits[m->number]++;
    }
    db_close(db);
}

static void test_eight_processes_get_equal_shares_and_lose_nothing(void **state)
{
    enum { COUNT = 8 };
    struct place *p = *state;
    struct crowd *crowd = shared_memory(sizeof *crowd);
    pid_t pids[COUNT] = {0};
    struct db *db = store(p->path);
    assert_true(add_item(db, "counter", 0));
    db_close(db);
    for (int i = 0; i < COUNT; i++)
        pids[i] = start_child(commit_for_a_while, &(struct member){p->path, crowd, i, 2000000});
    assert_true(wait_for(&crowd->ready, COUNT));
    crowd->go = 1;
    int64_t total = 0, least = INT64_MAX, most = 0, worst = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(wait_child(pids[i]), 0);
        int64_t n = crowd->commits[i];
        total += n;
        least = n < least ? n : least;
        most = n > most ? n : most;
        worst = crowd->worst_us[i] > worst ? crowd->worst_us[i] : worst;
    }
    print_message("%d processes: %" PRId64 " commits/s, shares %" PRId64 " to %" PRId64
                  ", worst wait %" PRId64 " us\n",
                  COUNT, total / 2, least, most, worst);
    assert_true(least > 0 && most * 2 <= least * 3);
    db = store(p->path);
    assert_int_equal(db_value_int(db, -1, SQL("SELECT n FROM item WHERE id = 1"), DB_NO_ARGS),
                     total);
    assert_int_equal(db_check(db, NULL), DIBS_OK);
    db_close(db);
    munmap(crowd, sizeof *crowd);
}

static void *open_commit_close(void *context)
{
    struct member *m = context;
    for (int i = 0; i < 40; i++) {
        struct db *db = NULL;
        char name[32] = {0};
        snprintf(name, sizeof name, "%d-%d", m->number, i);
        if (store_open(m->path, true, &db, NULL) == DIBS_OK && add_item(db, name, 1))
            m->crowd->commits[m->number]++;
        db_close(db);
    }
    return NULL;
}

static void test_threads_with_handles_of_their_own_do_not_disturb_each_other(void **state)
{
    struct place *p = *state;
    struct crowd crowd = {0};
    struct member members[4] = {{0}};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        members[i] = (struct member){p->path, &crowd, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, open_commit_close, &members[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(crowd.commits[i], 40);
    }
    struct db *db = store(p->path);
    assert_int_equal(count_items(db), 4 * 40);
    assert_int_equal(db_check(db, NULL), DIBS_OK);
    db_close(db);
}

/* ---- a full disk ----------------------------------------------------------------------------- */

static dibs_status add_until_it_fails(struct db *db, int *next)
{
    while (add_large(db, *next))
        ++*next;
    return db_error(db, NULL);
}

/* More than fits into SQLite's cache in one transaction, so that it must write before the commit.
 * */
static void overflow_one_transaction(struct db *db, int first)
{
    char name[3000];
    memset(name, 'y', sizeof name);
    for (int i = first; i < first + 2000 && db_ok(db); i++) {
        snprintf(name + sizeof name - 16, 16, "%d", i);
        db_exec(db, SQL("INSERT INTO item (name) VALUES ($1)"), DB_ARGS(db_t(name)));
    }
}

static void fill_the_disk(void *context)
{
    struct place *p = context;
    char ballast[128] = {0};
    static char block[256 * 1024];
    struct db *db = NULL;
    struct dibs_error err = {0};
    int n = 0;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", p->folder, "tmpfs", 0, "size=4m") != 0)
        _exit(SKIPPED);
    snprintf(ballast, sizeof ballast, "%s/ballast", p->folder);
    CHECK(write_file(ballast, block, sizeof block));
    CHECK(store_open(p->path, true, &db, &err) == DIBS_OK);
    CHECK(add_until_it_fails(db, &n) == DIBS_STORE_FULL);
    db_error(db, &err);
    CHECK(strstr(err.message, "disk is full") != NULL);
    CHECK(db_begin(db, DB_READ) && count_items(db) == n && db_commit(db));

    /* SQLite drops the whole transaction here; a savepoint must not make it look whole again */
    CHECK(db_begin(db, DB_WRITE) && db_savepoint(db));
    overflow_one_transaction(db, 100000);
    CHECK(db_error(db, NULL) == DIBS_STORE_FULL);
    db_rollback_to(db);
    CHECK(!db_ok(db));
    CHECK(!db_exec(db, SQL("INSERT INTO item (name) VALUES ('lost')"), DB_NO_ARGS));
    CHECK(!db_commit(db));
    CHECK(db_error(db, NULL) == DIBS_STORE_FULL);

    CHECK(unlink(ballast) == 0);
    CHECK(add_item(db, "room again", 1));
    CHECK(db_begin(db, DB_READ) && count_items(db) == n + 1 && db_commit(db));
    CHECK(db_check(db, NULL) == DIBS_OK);
    db_close(db);
    umount2(p->folder, MNT_DETACH);
}

static void test_a_full_disk_stops_writes_and_not_reads_until_there_is_room(void **state)
{
    int code = run_child(fill_the_disk, *state);
    if (code == SKIPPED) {
        print_message("skipped: no right to mount a small disk\n");
        skip();
    }
    assert_int_equal(code, 0);
}

/* ---- a disk that fails ----------------------------------------------------------------------- */

static void check_that_all_is_refused(struct db *db, struct db *other, const char *path)
{
    struct dibs_error err = {0};
    struct db *third = NULL;
    CHECK(!add_item(db, "later", 1));
    CHECK(db_error(db, &err) == DIBS_STORE_UNAVAILABLE);
    CHECK(strstr(err.message, "flush") != NULL && strstr(err.message, "end this process") != NULL);
    CHECK(!db_begin(db, DB_READ) && db_error(db, NULL) == DIBS_STORE_UNAVAILABLE);
    CHECK(!db_begin(other, DB_READ) && db_error(other, NULL) == DIBS_STORE_UNAVAILABLE);
    CHECK(count_items(other) == -1);
    CHECK(db_check(other, &err) == DIBS_STORE_UNAVAILABLE);
    CHECK(store_open(path, false, &third, &err) == DIBS_STORE_UNAVAILABLE);
}

static void fail_a_flush_of_the_log(void *context)
{
    struct place *p = context;
    struct db *db = NULL, *other = NULL;
    struct dibs_error err = {0};
    CHECK(failing_vfs_install());
    CHECK(store_open(p->path, true, &db, NULL) == DIBS_OK);
    CHECK(store_open(p->path, true, &other, NULL) == DIBS_OK);
    int before = failing_vfs.log_syncs;
    CHECK(add_item(db, "answered", 1));
    CHECK(failing_vfs.log_syncs > before); /* on disk before it is answered */
    failing_vfs.fail_log_sync = true;
    CHECK(!add_item(db, "unknown", 1));
    CHECK(db_error(db, &err) == DIBS_STORE_UNAVAILABLE);
    CHECK(strstr(err.message, "flush to disk failed") != NULL);
    failing_vfs.fail_log_sync = false; /* the disk says that all is well again, and lies */
    check_that_all_is_refused(db, other, p->path);
    db_close(db);
    db_close(other);
}

static void test_nothing_is_answered_after_a_failed_flush(void **state)
{
    struct place *p = *state;
    assert_int_equal(run_child(fail_a_flush_of_the_log, p), 0);
    struct db *db = store(p->path); /* a new process may go on */
    assert_int_equal(
        db_value_int(db, 0, SQL("SELECT count(*) FROM item WHERE name = 'answered'"), DB_NO_ARGS),
        1);
    assert_true(add_item(db, "later", 1));
    db_close(db);
}

static void fail_a_flush_of_the_data_file(void *context)
{
    struct place *p = context;
    struct db *db = NULL, *other = NULL;
    int n = 0;
    CHECK(failing_vfs_install());
    CHECK(store_open(p->path, true, &db, NULL) == DIBS_OK);
    CHECK(store_open(p->path, true, &other, NULL) == DIBS_OK);
    failing_vfs.fail_data_sync = true;
    CHECK(add_until_it_fails(db, &n) == DIBS_STORE_UNAVAILABLE); /* at the first checkpoint */
    CHECK(n > 10);
    failing_vfs.fail_data_sync = false;
    check_that_all_is_refused(db, other, p->path);
    db_close(db);
    db_close(other);
}

static void test_a_flush_that_fails_in_a_checkpoint_counts_as_well(void **state)
{
    struct place *p = *state;
    assert_int_equal(run_child(fail_a_flush_of_the_data_file, p), 0);
    struct db *db = store(p->path);
    assert_int_equal(db_check(db, NULL), DIBS_OK);
    assert_true(count_items(db) > 10);
    db_close(db);
}

static int warnings;

static void count_warnings(enum log_level level, const char *line)
{
    warnings += level == LOG_WARN && strstr(line, "checkpoint") != NULL;
}

static void fail_writes_of_the_data_file(void *context)
{
    struct place *p = context;
    struct db *db = NULL;
    int n = 0;
    log_set_sink(count_warnings);
    CHECK(failing_vfs_install());
    CHECK(store_open(p->path, true, &db, NULL) == DIBS_OK);
    failing_vfs.fail_data_write = true;
    for (; warnings == 0 && n < 3000; n++)
        CHECK(add_large(db, n)); /* the commit is safe in the log: its answer is not spoilt */
    CHECK(warnings == 1);
    failing_vfs.fail_data_write = false;
    CHECK(add_large(db, n));
    CHECK(count_items(db) == n + 1 && db_check(db, NULL) == DIBS_OK);
    db_close(db);
}

static void test_a_checkpoint_that_fails_otherwise_is_only_logged(void **state)
{
    assert_int_equal(run_child(fail_writes_of_the_data_file, *state), 0);
}

/* ---- children -------------------------------------------------------------------------------- */

static void open_and_add(void *context)
{
    struct place *p = context;
    struct db *db = NULL;
    struct dibs_error err = {0};
    CHECK(store_open(p->path, false, &db, &err) == DIBS_OK);
    CHECK(add_item(db, "by the child", 1));
    db_close(db);
}

static void test_a_child_opens_a_handle_of_its_own(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    assert_true(add_item(db, "before", 1));
    assert_int_equal(run_child(open_and_add, p), 0);
    assert_true(add_item(db, "after", 1));
    assert_int_equal(count_items(db), 3);
    db_close(db);
}

struct family {
    struct place *place;
    volatile int parent_gone, child_ready, child_may_go, child_done;
};

static void live_on_without_parent(struct family *f, struct db *inherited)
{
    struct db *db = NULL;
    CHECK(wait_for(&f->parent_gone, 1));
    db_close(inherited);
    CHECK(store_open(f->place->path, false, &db, NULL) == DIBS_OK);
    CHECK(add_item(db, "one", 1));
    f->child_ready = 1;
    CHECK(wait_for(&f->child_may_go, 1));
    CHECK(add_item(db, "two", 1));
    db_close(db);
    f->child_done = 1;
}

/* As a daemon does: opens, forks, and the parent ends. */
static void open_then_fork(void *context)
{
    struct family *f = context;
    struct db *db = NULL;
    CHECK(store_open(f->place->path, true, &db, NULL) == DIBS_OK);
    CHECK(add_item(db, "zero", 1));
    if (fork() == 0) {
        live_on_without_parent(f, db);
        _exit(0);
    }
    db_close(db);
}

static void visit_with_another_program(void *context)
{
    struct place *p = context;
    sqlite3 *plain = NULL; /* checkpoints and deletes the log when it believes to be alone */
    CHECK(sqlite3_open(p->path, &plain) == SQLITE_OK);
    CHECK(sqlite3_exec(plain, "SELECT count(*) FROM item", NULL, NULL, NULL) == SQLITE_OK);
    CHECK(sqlite3_close(plain) == SQLITE_OK);
}

static void test_a_child_that_outlives_its_parent_keeps_its_log(void **state)
{
    struct place *p = *state;
    struct family *f = shared_memory(sizeof *f);
    f->place = p;
    assert_int_equal(run_child(open_then_fork, f), 0);
    f->parent_gone = 1;
    assert_true(wait_for(&f->child_ready, 1));
    assert_int_equal(run_child(visit_with_another_program, p), 0);
    assert_true(bytes_of(p->path, "-wal") > 0);
    f->child_may_go = 1;
    assert_true(wait_for(&f->child_done, 1));
    struct db *db = store(p->path);
    assert_int_equal(count_items(db), 3);
    db_close(db);
    munmap(f, sizeof *f);
}

static void die_in_a_transaction(void *context)
{
    struct family *f = context;
    struct db *db = NULL;
    CHECK(store_open(f->place->path, true, &db, NULL) == DIBS_OK);
    if (fork() == 0) {
        f->child_ready = 1;
        wait_for(&f->child_may_go, 1);
        f->child_done = 1;
        _exit(0);
    }
    CHECK(wait_for(&f->child_ready, 1));
    CHECK(db_begin(db, DB_WRITE));
    raise(SIGKILL);
}

static void test_a_child_does_not_inherit_the_lock_of_a_parent_that_dies(void **state)
{
    struct place *p = *state;
    struct family *f = shared_memory(sizeof *f);
    f->place = p;
    assert_int_equal(run_child(die_in_a_transaction, f), 1000 + SIGKILL);
    assert_int_equal(write_lock_holder(p->path), 0); /* the grandchild still runs */
    struct db *db = store(p->path);
    assert_true(add_item(db, "a", 1));
    db_close(db);
    f->child_may_go = 1;
    assert_true(wait_for(&f->child_done, 1));
    munmap(f, sizeof *f);
}

static void open_inside_a_transaction(void *context)
{
    struct place *p = context;
    struct db *db = NULL;
    CHECK(store_open(p->path, false, &db, NULL) == DIBS_FORKED);
}

static void test_a_child_forked_inside_a_transaction_is_refused(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    assert_true(db_begin(db, DB_WRITE));
    assert_int_equal(run_child(open_inside_a_transaction, p), 0);
    assert_true(db_commit(db));
    db_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_eight_processes_get_equal_shares_and_lose_nothing),
        STORE_TEST(test_threads_with_handles_of_their_own_do_not_disturb_each_other),
        STORE_TEST(test_a_full_disk_stops_writes_and_not_reads_until_there_is_room),
        STORE_TEST(test_nothing_is_answered_after_a_failed_flush),
        STORE_TEST(test_a_flush_that_fails_in_a_checkpoint_counts_as_well),
        STORE_TEST(test_a_checkpoint_that_fails_otherwise_is_only_logged),
        STORE_TEST(test_a_child_opens_a_handle_of_its_own),
        STORE_TEST(test_a_child_that_outlives_its_parent_keeps_its_log),
        STORE_TEST(test_a_child_does_not_inherit_the_lock_of_a_parent_that_dies),
        STORE_TEST(test_a_child_forked_inside_a_transaction_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
