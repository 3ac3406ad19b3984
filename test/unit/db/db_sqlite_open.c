/* SPDX-License-Identifier: MIT */
/*
 * db_sqlite_open.c: tests of src/db/db_sqlite_open.c and db_sqlite_look.c: what is made, what is
 * refused, and that what is refused stays as it was.
 */
#include <sqlite3.h>

#include "db_test.h"

/* Opens without create, expects a refusal, and checks that no byte and no file has changed. */
static void refuse_untouched(const struct place *p, dibs_status want, const char *text)
{
    struct db *db = NULL;
    struct dibs_error err = {0};
    uint64_t before = hash_of(p->path);
    int files = files_in(p->folder);
    assert_int_equal(store_open(p->path, false, &db, &err), want);
    assert_null(db);
    assert_int_equal(err.code, want);
    if (strstr(err.message, text) == NULL)
        fail_msg("'%s' does not say '%s'", err.message, text);
    assert_true(hash_of(p->path) == before);
    assert_int_equal(files_in(p->folder), files);
}

static void test_a_new_store_is_private_and_works(void **state)
{
    struct place *p = *state;
    struct stat st = {0};
    struct db *db = store(p->path);
    static const char *const suffixes[] = {"", "-wal", "-shm", ".lock"};
    assert_true(add_item(db, "a", 1));
    for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
        char name[128] = {0};
        snprintf(name, sizeof name, "%s%s", p->path, suffixes[i]);
        assert_int_equal(stat(name, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
    }
    assert_int_equal(files_in(p->folder), 4);
    db_close(db);
    assert_int_equal(store_open(p->path, false, &db, NULL), DIBS_OK);
    assert_int_equal(count_items(db), 1);
    db_close(db);
}

static void test_a_missing_file_is_not_made_unasked(void **state)
{
    struct place *p = *state;
    struct db *db = NULL;
    struct dibs_error err = {0};
    assert_int_equal(store_open(p->path, false, &db, &err), DIBS_STORE_NOT_FOUND);
    assert_int_equal(files_in(p->folder), 0);
    assert_int_equal(store_open("/nonexistent/dibs.db", true, &db, &err), DIBS_STORE_NOT_FOUND);
    assert_int_equal(store_open("/dev/null/dibs.db", true, &db, &err), DIBS_STORE_UNAVAILABLE);
}

static void test_an_empty_file_is_a_store_only_when_asked_to_make_one(void **state)
{
    struct place *p = *state;
    struct db *db = NULL;
    assert_true(write_file(p->path, "", 0));
    refuse_untouched(p, DIBS_STORE_CORRUPT, "empty");
    assert_int_equal(store_open(p->path, true, &db, NULL), DIBS_OK);
    assert_true(add_item(db, "a", 1));
    db_close(db);
}

static void test_a_database_of_another_program_is_left_alone(void **state)
{
    struct place *p = *state;
    for (int wal = 0; wal < 2; wal++) {
        sqlite3 *other = NULL;
        unlink(p->path);
        assert_int_equal(sqlite3_open(p->path, &other), SQLITE_OK);
        if (wal)
            sqlite3_exec(other, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
        sqlite3_exec(other, "CREATE TABLE t (a); INSERT INTO t VALUES (1)", NULL, NULL, NULL);
        sqlite3_close(other);
        refuse_untouched(p, DIBS_STORE_CORRUPT, "is not a dibs store");
    }
}

static void test_noise_is_left_alone(void **state)
{
    struct place *p = *state;
    static unsigned char noise[20000];
    static const size_t sizes[] = {1, 15, 16, 99, 100, 511, 512, 4096, 20000};
    uint32_t x = 12345;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (unsigned char)((x = x * 1664525 + 1013904223) >> 24);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        assert_true(write_file(p->path, noise, sizes[i]));
        refuse_untouched(p, DIBS_STORE_CORRUPT, "is not a dibs store");
    }
    assert_true(write_file(p->path, "SQLite format 3", 16));
    refuse_untouched(p, DIBS_STORE_CORRUPT, "is not a dibs store");
}

static void test_what_is_not_a_file_is_refused_at_once(void **state)
{
    struct place *p = *state;
    struct db *db = NULL;
    assert_int_equal(mkfifo(p->path, 0600), 0);
    assert_int_equal(store_open(p->path, true, &db, NULL), DIBS_STORE_CORRUPT);
    assert_int_equal(store_open(p->folder, true, &db, NULL), DIBS_STORE_CORRUPT);
}

/* Fills a store with some pages and moves all of them into the data file. */
static int64_t make_whole_store(const struct place *p)
{
    sqlite3 *plain = NULL;
    struct db *db = store(p->path);
    for (int i = 0; i < 20; i++)
        assert_true(add_large(db, i));
    db_close(db);
    assert_int_equal(sqlite3_open(p->path, &plain), SQLITE_OK); /* its close moves the log */
    sqlite3_exec(plain, "SELECT count(*) FROM item", NULL, NULL, NULL);
    sqlite3_close(plain);
    return bytes_of(p->path, "");
}

static void test_a_file_cut_short_is_refused_wherever_it_is_cut(void **state)
{
    struct place *p = *state;
    int64_t whole = make_whole_store(p);
    assert_true(whole > 10 * 4096);
    assert_int_equal(bytes_of(p->path, "-wal"), -1);
    for (int64_t page = whole / 4096 - 1; page >= 0; page--) {
        int64_t sizes[] = {page * 4096 + 4095, page * 4096 + 512, page * 4096 + 1, page * 4096};
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            assert_int_equal(truncate(p->path, sizes[i]), 0);
            refuse_untouched(p, DIBS_STORE_CORRUPT, "cannot open");
        }
    }
}

static void test_a_file_cut_short_is_refused_beside_its_log(void **state)
{
    struct place *p = *state;
    int64_t whole = make_whole_store(p);
    struct db *db = store(p->path);
    for (int i = 0; i < 200; i++) { /* a long log, but of few pages */
        assert_true(db_begin(db, DB_WRITE));
        db_exec(db, SQL("UPDATE item SET n = n + 1 WHERE id = 1"), DB_NO_ARGS);
        assert_true(db_commit(db));
    }
    db_close(db);
    assert_true(bytes_of(p->path, "-wal") > 0);
    assert_int_equal(truncate(p->path, whole / 2), 0);
    refuse_untouched(p, DIBS_STORE_CORRUPT, "cut short");
}

/* What a crash in the middle of a checkpoint leaves: page 1 says how long the file will be, the
 * rest is still in the log only. */
static void test_pages_that_are_still_in_the_log_are_not_missing(void **state)
{
    struct place *p = *state;
    unsigned char page[4096];
    struct db *db = store(p->path);
    for (int i = 0; i < 20; i++)
        assert_true(add_large(db, i));
    db_close(db);
    int64_t before = bytes_of(p->path, "");
    /* the newest image of page 1 in the log becomes the first page of the file */
    char log[128] = {0};
    snprintf(log, sizeof log, "%s-wal", p->path);
    int fd = open(log, O_RDONLY | O_CLOEXEC), out = open(p->path, O_WRONLY | O_CLOEXEC);
    unsigned char frame[24];
    bool found = false;
    for (off_t at = 32; pread(fd, frame, 24, at) == 24; at += 24 + 4096)
        if (frame[0] == 0 && frame[1] == 0 && frame[2] == 0 && frame[3] == 1)
            found = pread(fd, page, 4096, at + 24) == 4096;
    assert_true(found);
    assert_int_equal(pwrite(out, page, 4096, 0), 4096);
    close(fd);
    close(out);
    uint32_t pages = (uint32_t)page[28] << 24 | (uint32_t)page[29] << 16 | page[30] << 8 | page[31];
    assert_true((int64_t)pages * 4096 > before);
    assert_int_equal(store_open(p->path, false, &db, NULL), DIBS_OK);
    assert_int_equal(count_items(db), 20);
    assert_int_equal(db_check(db, NULL), DIBS_OK);
    db_close(db);
    /* without the log the same file is damaged */
    assert_int_equal(unlink(log), 0);
    refuse_untouched(p, DIBS_STORE_CORRUPT, "cut short");
}

static void test_damage_inside_is_found_by_check(void **state)
{
    struct place *p = *state;
    unsigned char zeros[4096] = {0};
    struct db *db = NULL;
    struct dibs_error err = {0};
    int64_t whole = make_whole_store(p);
    int fd = open(p->path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, zeros, sizeof zeros, whole - 8192), 4096);
    close(fd);
    dibs_status s = store_open(p->path, false, &db, &err);
    if (s == DIBS_OK)
        s = db_check(db, &err);
    assert_int_equal(s, DIBS_STORE_CORRUPT);
    db_close(db);
}

static void test_a_leftover_log_is_not_played_into_a_new_store(void **state)
{
    struct place *p = *state;
    struct db *db = store(p->path);
    struct dibs_error err = {0};
    assert_true(add_item(db, "a", 1));
    db_close(db);
    assert_int_equal(unlink(p->path), 0);
    assert_int_equal(store_open(p->path, true, &db, &err), DIBS_STORE_CORRUPT);
    assert_non_null(strstr(err.message, "-wal"));
    assert_int_equal(bytes_of(p->path, ""), -1);
}

static const char *pretend_nfs(void *context, const char *path)
{
    (void)context, (void)path;
    return "nfs";
}

static void test_a_network_file_system_is_refused_before_anything_is_touched(void **state)
{
    struct place *p = *state;
    struct db *db = NULL;
    struct dibs_error err = {0};
    struct dibs_platform platform = *dibs_platform_real();
    platform.network_fs = pretend_nfs;
    struct db_options in = {.path = p->path, .create = true, .platform = &platform};
    assert_int_equal(db_open(&in, &db, &err), DIBS_STORE_UNSUPPORTED);
    assert_non_null(strstr(err.message, "nfs"));
    assert_int_equal(files_in(p->folder), 0);
}

static void open_without_rights(void *context)
{
    struct place *p = context;
    struct db *db = NULL;
    struct dibs_error err = {0};
    CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    CHECK(store_open(p->path, false, &db, &err) == DIBS_STORE_UNAVAILABLE);
    CHECK(strstr(err.message, "cannot open") != NULL || strstr(err.message, "ermission") != NULL);
    CHECK(store_open(p->path, true, &db, &err) == DIBS_STORE_UNAVAILABLE);
}

static void test_missing_rights_are_told(void **state)
{
    struct place *p = *state;
    if (geteuid() != 0)
        skip(); /* needs root, to become somebody who has no rights */
    struct db *db = store(p->path);
    assert_true(add_item(db, "a", 1));
    db_close(db);
    uint64_t before = hash_of(p->path);
    assert_int_equal(chmod(p->folder, 0755), 0);
    static const mode_t modes[] = {0000, 0600, 0444};
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        assert_int_equal(chmod(p->path, modes[i]), 0);
        assert_int_equal(run_child(open_without_rights, p), 0);
    }
    assert_int_equal(chmod(p->folder, 0700), 0);
    assert_int_equal(run_child(open_without_rights, p), 0);
    assert_true(hash_of(p->path) == before);
}

static void test_two_names_of_one_store_share_one_lock(void **state)
{
    struct place *p = *state;
    char folder_link[128] = {0}, file_link[128] = {0}, by_folder[160] = {0};
    snprintf(folder_link, sizeof folder_link, "%s/again", p->folder);
    snprintf(file_link, sizeof file_link, "%s/other.db", p->folder);
    snprintf(by_folder, sizeof by_folder, "%s/again/dibs.db", p->folder);
    assert_int_equal(symlink(p->folder, folder_link), 0);
    struct db *one = store(p->path);
    assert_int_equal(symlink(p->path, file_link), 0);
    struct db *two = store(by_folder), *three = store(file_link);
    assert_true(add_item(one, "a", 1) && add_item(two, "b", 1) && add_item(three, "c", 1));
    assert_int_equal(count_items(one), 3);
    assert_int_equal(bytes_of(file_link, ".lock"), -1);
    db_close(one);
    db_close(two);
    db_close(three);
}

static void test_a_replaced_file_is_noticed(void **state)
{
    struct place *p = *state;
    char moved[128] = {0};
    struct dibs_error err = {0};
    struct db *db = store(p->path);
    snprintf(moved, sizeof moved, "%s/moved.db", p->folder);
    assert_true(add_item(db, "a", 1));
    assert_int_equal(rename(p->path, moved), 0);
    assert_false(db_begin(db, DB_WRITE));
    assert_int_equal(db_error(db, &err), DIBS_STORE_UNAVAILABLE);
    assert_non_null(strstr(err.message, "replaced or removed"));
    assert_false(db_begin(db, DB_READ));
    assert_int_equal(rename(moved, p->path), 0);
    assert_true(add_item(db, "b", 1));
    db_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_new_store_is_private_and_works),
        STORE_TEST(test_a_missing_file_is_not_made_unasked),
        STORE_TEST(test_an_empty_file_is_a_store_only_when_asked_to_make_one),
        STORE_TEST(test_a_database_of_another_program_is_left_alone),
        STORE_TEST(test_noise_is_left_alone),
        STORE_TEST(test_what_is_not_a_file_is_refused_at_once),
        STORE_TEST(test_a_file_cut_short_is_refused_wherever_it_is_cut),
        STORE_TEST(test_a_file_cut_short_is_refused_beside_its_log),
        STORE_TEST(test_pages_that_are_still_in_the_log_are_not_missing),
        STORE_TEST(test_damage_inside_is_found_by_check),
        STORE_TEST(test_a_leftover_log_is_not_played_into_a_new_store),
        STORE_TEST(test_a_network_file_system_is_refused_before_anything_is_touched),
        STORE_TEST(test_missing_rights_are_told),
        STORE_TEST(test_two_names_of_one_store_share_one_lock),
        STORE_TEST(test_a_replaced_file_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
