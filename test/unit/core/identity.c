/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/identity.c: a store that finds itself in another file than before issues larger
 * tokens than the original ever will, so a token of the one can never be mistaken for one of the
 * other.
 */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The store in a folder beside the fixture's, opened on the same world. */
static dibs *open_in(struct fixture *f, const char *folder)
{
    dibs *d = NULL;
    char dir[128];
    snprintf(dir, sizeof dir, "%s/%s", f->dir, folder);
    struct dibs_options options = {.data_dir = dir, .platform = &f->world.platform};
    options.settings = DIBS_STRINGS("autoCleanup=off");
    assert_ok(f, dibs_open(&options, &d, &f->err));
    return d;
}

/* Copies the closed store as `cp -r` does. */
static void copy_store(struct fixture *f, const char *folder)
{
    static const char *const files[] = {"dibs.db", "dibs.db-wal"};
    char from[128], to[128];
    snprintf(to, sizeof to, "%s/%s", f->dir, folder);
    assert_int_equal(mkdir(to, 0700), 0);
    for (size_t i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "%s/%s", f->data_dir, files[i]);
        snprintf(to, sizeof to, "%s/%s/%s", f->dir, folder, files[i]);
        if (access(from, F_OK) == 0)
            probe_copy_file(from, to);
    }
}

static int64_t take_on(struct fixture *f, dibs *d, const char *resource)
{
    struct dibs_claim out = {0};
    struct dibs_lock_take in = {.resource = resource, .session_id = "s"};
    assert_ok(f, dibs_lock_take(d, f->a, &in, &out, &f->err));
    return out.token;
}

static size_t copies_told(struct fixture *f, dibs *d)
{
    struct dibs_event_list events = {0};
    struct dibs_event_filter filter = {.types = DIBS_STRINGS("store:copied")};
    assert_ok(f, dibs_events(d, f->a, &filter, &events, &f->err));
    return events.count;
}

/* Closes the fixture's store while `work` is done on its files. */
static void close_store(struct fixture *f)
{
    dibs_close(f->d);
    f->d = NULL;
}

static void test_a_store_opened_again_is_the_same(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    int64_t first = take_on(f, f->d, "a");
    for (int i = 0; i < 3; i++)
        fixture_reopen(f);
    dibs *second = fixture_open(f);
    assert_int_equal(take_on(f, f->d, "b"), first + 1);
    assert_int_equal(copies_told(f, f->d), 0);
    assert_int_equal(probe_int(f, "SELECT value FROM counter WHERE name = 'token_epoch'"), 0);
    dibs_close(second);
}

static void test_a_plain_copy_of_the_closed_files_issues_larger_tokens(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    take_on(f, f->d, "before");
    close_store(f);
    copy_store(f, "copy");
    fixture_reopen(f);
    int64_t original = 0;
    for (int i = 0; i < 100; i++) { /* the original goes on */
        char name[16];
        snprintf(name, sizeof name, "r%d", i);
        original = take_on(f, f->d, name);
    }
    dibs *copy = open_in(f, "copy");
    assert_true(take_on(f, copy, "r0") > original);
    assert_true(take_on(f, copy, "r1") > (int64_t)1 << 40); /* the original cannot get there */
    assert_int_equal(copies_told(f, copy), 1);
    assert_int_equal(copies_told(f, f->d), 0);
    struct dibs_event_list events = {0};
    struct dibs_event_filter filter = {.types = DIBS_STRINGS("store:copied")};
    assert_ok(f, dibs_events(copy, f->a, &filter, &events, &f->err));
    assert_string_equal(event_field(f, &events.items[0], "tokenEpoch"), "1");
    dibs_close(copy);
    dibs_close(open_in(f, "copy")); /* noticed once */
    copy = open_in(f, "copy");
    assert_int_equal(copies_told(f, copy), 1);
    dibs_close(copy);
}

static void test_a_copy_of_a_copy_issues_larger_tokens_again(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    close_store(f);
    copy_store(f, "one");
    dibs *one = open_in(f, "one");
    int64_t of_one = take_on(f, one, "r");
    dibs_close(one);
    char folder[80];
    memcpy(folder, f->data_dir, sizeof folder);
    snprintf(f->data_dir, sizeof f->data_dir, "%s/one", f->dir);
    copy_store(f, "two");
    memcpy(f->data_dir, folder, sizeof folder);
    dibs *two = open_in(f, "two");
    assert_true(take_on(f, two, "q") > of_one + ((int64_t)1 << 39));
    dibs_close(two);
    fixture_reopen(f);
}

static void test_a_folder_that_is_moved_is_still_the_same_store(void **state)
{
    struct fixture *f = *state;
    char elsewhere[128];
    make_session(f, "s");
    int64_t first = take_on(f, f->d, "a");
    close_store(f);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", f->dir);
    assert_int_equal(rename(f->data_dir, elsewhere), 0);
    dibs *moved = open_in(f, "elsewhere");
    assert_int_equal(take_on(f, moved, "b"), first + 1);
    assert_int_equal(copies_told(f, moved), 0);
    dibs_close(moved);
}

static void test_a_backup_put_in_place_of_the_store_issues_larger_tokens(void **state)
{
    struct fixture *f = *state;
    char backup[128], file[128], log[128];
    make_session(f, "s");
    snprintf(backup, sizeof backup, "%s/backup.db", f->dir);
    snprintf(file, sizeof file, "%s/dibs.db", f->data_dir);
    snprintf(log, sizeof log, "%s/dibs.db-wal", f->data_dir);
    assert_ok(f, dibs_backup(f->d, backup, &f->err));
    int64_t after_backup = take_on(f, f->d, "r");
    close_store(f);
    unlink(log);
    /* as cp does: inode and time of birth stay those of the old file */
    probe_copy_file(backup, file);
    fixture_reopen(f);
    assert_true(take_on(f, f->d, "r") > after_backup);
    assert_int_equal(copies_told(f, f->d), 1);
}

static void test_leases_and_history_of_the_copy_are_those_of_the_original(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "a");
    struct dibs_claim held = claim(f, "a", "s");
    close_store(f);
    copy_store(f, "copy");
    dibs *copy = open_in(f, "copy");
    struct dibs_task task = {0};
    assert_ok(f, dibs_task_get(copy, f->a, "a", &task, &f->err));
    assert_int_equal(task.claim->token, held.token);
    struct dibs_report report = {.task_id = "a", .session_id = "s", .token = held.token};
    assert_ok(f, dibs_complete(copy, f->a, &report, &task, &f->err));
    dibs_close(copy);
    fixture_reopen(f);
}

static void test_a_backup_beside_the_log_of_the_former_file_is_refused(void **state)
{
    struct fixture *f = *state;
    char backup[128], file[128], log[128];
    dibs *d = NULL;
    make_session(f, "s");
    snprintf(backup, sizeof backup, "%s/backup.db", f->dir);
    snprintf(file, sizeof file, "%s/dibs.db", f->data_dir);
    snprintf(log, sizeof log, "%s/dibs.db-wal", f->data_dir);
    assert_ok(f, dibs_backup(f->d, backup, &f->err));
    take_on(f, f->d, "r");
    close_store(f);
    probe_copy_file(backup, file);
    struct dibs_options options = {.data_dir = f->data_dir, .platform = &f->world.platform};
    assert_refused(f, DIBS_STORE_CORRUPT, dibs_open(&options, &d, &f->err));
    assert_non_null(strstr(f->err.message, "delete"));
    unlink(log);
    fixture_reopen(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_store_opened_again_is_the_same),
        STORE_TEST(test_a_plain_copy_of_the_closed_files_issues_larger_tokens),
        STORE_TEST(test_a_copy_of_a_copy_issues_larger_tokens_again),
        STORE_TEST(test_a_folder_that_is_moved_is_still_the_same_store),
        STORE_TEST(test_a_backup_put_in_place_of_the_store_issues_larger_tokens),
        STORE_TEST(test_leases_and_history_of_the_copy_are_those_of_the_original),
        STORE_TEST(test_a_backup_beside_the_log_of_the_former_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
