/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/care.c: backups, and a look-over that finds what is wrong.
 */
#include "probe.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path_of(struct fixture *f, const char *name)
{
    static char paths[4][160];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, 160, "%s/%s", f->dir, name);
    return path;
}

/* Puts the backup into a folder of its own and opens it. */
static dibs *open_backup(struct fixture *f, const char *backup)
{
    dibs *d = NULL;
    const char *folder = path_of(f, "restored"), *file = path_of(f, "restored/dibs.db");
    assert_int_equal(mkdir(folder, 0700), 0);
    probe_copy_file(backup, file);
    struct dibs_options options = {.data_dir = folder, .platform = &f->world.platform};
    options.settings = DIBS_STRINGS("autoCleanup=off");
    assert_ok(f, dibs_open(&options, &d, &f->err));
    return d;
}

static struct dibs_diagnosis diagnose(struct fixture *f, dibs *d, bool deep)
{
    struct dibs_diagnosis out = {0};
    assert_ok(f, dibs_diagnose(d, f->a, deep, &out, &f->err));
    return out;
}

static const struct dibs_finding *find(const struct dibs_diagnosis *all, const char *subject,
                                       enum dibs_finding_level level)
{
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].subject, subject) == 0 && all->items[i].level == level)
            return &all->items[i];
    return NULL;
}

static size_t count_level(const struct dibs_diagnosis *all, enum dibs_finding_level level)
{
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++)
        count += all->items[i].level == level;
    return count;
}

/* ---- backups --------------------------------------------------------------------------------- */

static void test_a_backup_has_everything_and_issues_larger_tokens(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "a");
    make_task(f, "b");
    struct dibs_claim before = claim(f, "a", "s");
    const char *backup = path_of(f, "backup.db");
    assert_ok(f, dibs_backup(f->d, backup, &f->err));
    struct dibs_claim after = claim(f, "b", "s"); /* the original goes on */
    dibs *copy = open_backup(f, backup);
    struct dibs_task task = {0};
    assert_ok(f, dibs_task_get(copy, f->a, "a", &task, &f->err));
    assert_int_equal(task.claim->token, before.token);
    assert_int_equal(task.claim->remaining_ms, MINUTES(30));
    struct dibs_claim fresh = {0};
    struct dibs_claim_take take = {.task_id = "b", .session_id = "s"};
    assert_ok(f, dibs_claim_take(copy, f->a, &take, &fresh, &f->err));
    assert_true(fresh.token > after.token);
    struct dibs_diagnosis all = diagnose(f, copy, true);
    assert_int_equal(count_level(&all, DIBS_BAD), 0);
    dibs_close(copy);
}

static void test_a_backup_has_nothing_of_what_is_not_committed(void **state)
{
    struct fixture *f = *state;
    dibs *other = fixture_open(f);
    make_task(f, "a");
    assert_ok(f, dibs_batch_begin(other, &f->err));
    struct dibs_task_list made = {0};
    struct dibs_task_new half = {.id = "half", .title = "half"};
    assert_ok(f, dibs_task_create(other, f->a, &half, 1, &made, &f->err));
    const char *backup = path_of(f, "backup.db");
    assert_ok(f, dibs_backup(f->d, backup, &f->err));
    assert_ok(f, dibs_batch_commit(other, &f->err));
    dibs *copy = open_backup(f, backup);
    struct dibs_task task = {0};
    assert_ok(f, dibs_task_get(copy, f->a, "a", &task, &f->err));
    assert_refused(f, DIBS_TASK_NOT_FOUND, dibs_task_get(copy, f->a, "half", &task, &f->err));
    dibs_close(copy);
    dibs_close(other);
}

/* Writes without end; tells through the pipe when it has begun. */
static void write_for_ever(struct fixture *f, int begun)
{
    dibs *d = NULL;
    dibs_arena *a = dibs_arena_new();
    struct dibs_error err = {0};
    struct dibs_options options = {.data_dir = f->data_dir};
    if (dibs_open(&options, &d, &err) != DIBS_OK)
        _exit(1);
    for (int i = 0;; i++) {
        struct dibs_task_list made = {0};
        struct dibs_task_new task = {.title = "another one"};
        if (dibs_task_create(d, a, &task, 1, &made, &err) != DIBS_OK)
            _exit(1);
        dibs_arena_reset(a);
        if (i == 20 && write(begun, "!", 1) != 1)
            _exit(1);
    }
}

static void test_a_backup_taken_while_others_write_is_whole(void **state)
{
    struct fixture *f = *state;
    int begun[2];
    char mark = 0;
    dibs_close(f->d); /* the world of the fixture has no other processes */
    f->d = NULL;
    assert_int_equal(pipe(begun), 0);
    pid_t writer = fork();
    if (writer == 0)
        write_for_ever(f, begun[1]);
    close(begun[1]);
    ssize_t got = read(begun[0], &mark, 1);
    dibs *d = NULL;
    struct dibs_options options = {.data_dir = f->data_dir};
    options.settings = DIBS_STRINGS("autoCleanup=off");
    dibs_status opened = got == 1 ? dibs_open(&options, &d, &f->err) : DIBS_INTERNAL;
    const char *backup = path_of(f, "backup.db");
    dibs_status saved = opened == DIBS_OK ? dibs_backup(d, backup, &f->err) : opened;
    kill(writer, SIGKILL);
    waitpid(writer, NULL, 0);
    close(begun[0]);
    assert_ok(f, opened);
    assert_ok(f, saved);
    dibs_close(d);
    dibs *copy = open_backup(f, backup);
    struct dibs_diagnosis all = diagnose(f, copy, true);
    assert_int_equal(count_level(&all, DIBS_BAD), 0);
    struct dibs_stats stats = {0};
    assert_ok(f, dibs_stats(copy, f->a, &stats, &f->err));
    assert_true(stats.tasks_by_status.items[0].count > 20);
    dibs_close(copy);
}

static void test_a_backup_overwrites_nothing(void **state)
{
    struct fixture *f = *state;
    char text[16] = "";
    const char *there = path_of(f, "there.db");
    FILE *file = fopen(there, "w");
    fputs("precious", file);
    fclose(file);
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_backup(f->d, there, &f->err));
    assert_non_null(strstr(f->err.message, "there is already a file"));
    file = fopen(there, "r");
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "precious");
}

static void test_a_backup_needs_a_place_and_no_open_batch(void **state)
{
    struct fixture *f = *state;
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_backup(f->d, NULL, &f->err));
    assert_string_equal(f->err.field, "path");
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_backup(f->d, "", &f->err));
    assert_refused(f, DIBS_STORE_UNAVAILABLE,
                   dibs_backup(f->d, path_of(f, "no/such/folder.db"), &f->err));
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    assert_refused(f, DIBS_STORE_BUSY, dibs_backup(f->d, path_of(f, "b.db"), &f->err));
    dibs_batch_cancel(f->d);
    assert_int_equal(access(path_of(f, "b.db"), F_OK), -1);
}

/* ---- diagnosis ------------------------------------------------------------------------------- */

static void test_a_store_in_order_has_nothing_to_complain_of(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "a");
    claim(f, "a", "s");
    struct dibs_diagnosis all = diagnose(f, f->d, false);
    const char *subjects[] = {"store", "schema",      "sqlite",  "durability",
                              "clock", "permissions", "contents"};
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        assert_non_null(find(&all, subjects[i], DIBS_FINE));
    assert_int_equal(count_level(&all, DIBS_BAD), 0);
    assert_string_equal(find(&all, "contents", DIBS_FINE)->text, "1 tasks, 1 leases");
    assert_string_equal(find(&all, "durability", DIBS_FINE)->text,
                        "journal mode wal, synchronous full");
    assert_null(find(&all, "journal", DIBS_FINE)); /* that is for the deep look */
    all = diagnose(f, f->d, true);
    assert_non_null(find(&all, "pages", DIBS_FINE));
    assert_non_null(find(&all, "journal", DIBS_FINE));
}

static void test_files_that_others_may_write_to_are_named_with_the_cure(void **state)
{
    struct fixture *f = *state;
    char file[128], cure[192];
    snprintf(file, sizeof file, "%s/dibs.db", f->data_dir);
    assert_int_equal(chmod(file, 0602), 0);
    struct dibs_diagnosis all = diagnose(f, f->d, false);
    const struct dibs_finding *found = find(&all, "permissions", DIBS_WARN);
    assert_non_null(found);
    snprintf(cure, sizeof cure, "chmod go-w '%s'", file);
    assert_non_null(strstr(found->text, cure));
    assert_null(find(&all, "permissions", DIBS_FINE));
    assert_int_equal(chmod(file, 0600), 0);
    assert_int_equal(chmod(f->data_dir, 0720), 0); /* the folder, by the group */
    all = diagnose(f, f->d, false);
    found = find(&all, "permissions", DIBS_WARN);
    assert_non_null(found);
    assert_int_equal(chmod(f->data_dir, 0700), 0);
    all = diagnose(f, f->d, false);
    assert_non_null(find(&all, "permissions", DIBS_FINE));
}

static void test_a_clock_that_stands_apart_is_told(void **state)
{
    struct fixture *f = *state;
    make_task(f, "a");
    world_set_clock(&f->world, f->world.wall_ms + 3000);
    struct dibs_diagnosis all = diagnose(f, f->d, false);
    const struct dibs_finding *found = find(&all, "clock", DIBS_WARN);
    assert_non_null(found);
    assert_string_equal(found->text, "the store's clock is 3000 ms behind the machine's; the next "
                                     "write moves it, and all leases with it");
    world_set_clock(&f->world, f->world.wall_ms - 6000);
    all = diagnose(f, f->d, false);
    assert_non_null(strstr(find(&all, "clock", DIBS_WARN)->text, "3000 ms ahead of"));
    make_task(f, "b"); /* the next write */
    all = diagnose(f, f->d, false);
    assert_non_null(find(&all, "clock", DIBS_FINE));
}

static void test_leases_past_their_deadline_are_told(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    make_session(f, "s");
    make_task(f, "a");
    claim(f, "a", "s");
    world_pass(&f->world, MINUTES(30));
    struct dibs_diagnosis all = diagnose(f, f->d, false);
    const struct dibs_finding *found = find(&all, "leases", DIBS_WARN);
    assert_non_null(found);
    assert_string_equal(found->text,
                        "1 are past their deadline and not swept yet; run: dibs cleanup");
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    all = diagnose(f, f->d, false);
    assert_null(find(&all, "leases", DIBS_WARN));
}

static void test_a_deep_look_finds_a_gap_in_the_journal(void **state)
{
    struct fixture *f = *state;
    f->skip_verify = true;
    make_task(f, "a");
    make_task(f, "b");
    plant(f, "DELETE FROM event WHERE number = 2");
    struct dibs_diagnosis all = diagnose(f, f->d, false);
    assert_int_equal(count_level(&all, DIBS_BAD), 0);
    all = diagnose(f, f->d, true);
    assert_int_equal(count_level(&all, DIBS_BAD), 1);
    assert_non_null(strstr(find(&all, "journal", DIBS_BAD)->text, "restore a backup"));
}

static dibs_status op_diagnose(struct fixture *f)
{
    struct dibs_diagnosis out = {0};
    return dibs_diagnose(f->d, f->a, true, &out, &f->err);
}

static void test_a_store_that_cannot_be_read_is_a_failure_not_a_finding(void **state)
{
    struct fixture *f = *state;
    make_task(f, "a");
    assert_true(probe_fail_each(f, op_diagnose) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_backup_has_everything_and_issues_larger_tokens),
        STORE_TEST(test_a_backup_has_nothing_of_what_is_not_committed),
        STORE_TEST(test_a_backup_taken_while_others_write_is_whole),
        STORE_TEST(test_a_backup_overwrites_nothing),
        STORE_TEST(test_a_backup_needs_a_place_and_no_open_batch),
        STORE_TEST(test_a_store_in_order_has_nothing_to_complain_of),
        STORE_TEST(test_files_that_others_may_write_to_are_named_with_the_cure),
        STORE_TEST(test_a_clock_that_stands_apart_is_told),
        STORE_TEST(test_leases_past_their_deadline_are_told),
        STORE_TEST(test_a_deep_look_finds_a_gap_in_the_journal),
        STORE_TEST(test_a_store_that_cannot_be_read_is_a_failure_not_a_finding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
