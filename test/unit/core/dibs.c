/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/dibs.c: making, opening, finding and closing a store.
 */
#include "probe.h"

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

static dibs_status open_at(struct fixture *f, const char *path, bool create, dibs **out)
{
    struct dibs_options options = {
        .data_dir = path, .create = create, .platform = &f->world.platform};
    return dibs_open(&options, out, &f->err);
}

static void assert_not_opened(struct fixture *f, dibs_status expected, const char *path,
                              bool create)
{
    dibs *untouched = (dibs *)(void *)f, *d = untouched;
    assert_refused(f, expected, open_at(f, path, create, &d));
    assert_ptr_equal(d, untouched); /* outputs are written only on success */
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void test_a_store_is_made_for_its_owner_alone(void **state)
{
    struct fixture *f = *state;
    dibs *d = NULL;
    struct stat st;
    const char *folder = path_of(f, "new");
    assert_ok(f, open_at(f, folder, true, &d));
    dibs_close(d);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(path_of(f, "new/dibs.db"), &st), 0);
    assert_int_equal(st.st_mode & 0077, 0);
    d = NULL;
    assert_ok(f, open_at(f, folder, true, &d)); /* made already: opened */
    dibs_close(d);
    d = NULL;
    assert_ok(f, open_at(f, folder, false, &d));
    dibs_close(d);
}

static void test_what_is_not_there_is_not_opened(void **state)
{
    struct fixture *f = *state;
    char message[256];
    const char *none = path_of(f, "none"), *empty = path_of(f, "empty");
    assert_not_opened(f, DIBS_STORE_NOT_FOUND, none, false);
    snprintf(message, sizeof message, "there is no dibs data in '%s'; make it with: dibs init",
             none);
    assert_string_equal(f->err.message, message);
    assert_int_equal(access(none, F_OK), -1); /* and not made */
    assert_int_equal(mkdir(empty, 0700), 0);
    assert_not_opened(f, DIBS_STORE_NOT_FOUND, empty, false);
    assert_int_equal(access(path_of(f, "empty/dibs.db"), F_OK), -1);
}

static void test_a_folder_is_required(void **state)
{
    struct fixture *f = *state;
    assert_not_opened(f, DIBS_INVALID_REQUEST, NULL, true);
    assert_string_equal(f->err.field, "data_dir");
    assert_not_opened(f, DIBS_INVALID_REQUEST, "", true);
}

static void test_a_folder_that_cannot_be_made_is_told(void **state)
{
    struct fixture *f = *state;
    const char *deep = path_of(f, "no/such/parent");
    assert_not_opened(f, DIBS_STORE_UNAVAILABLE, deep, true);
    assert_non_null(strstr(f->err.message, "cannot make the folder"));
    assert_non_null(strstr(f->err.message, "No such file or directory"));
    const char *file = path_of(f, "file");
    write_file(file, "precious");
    struct dibs_options options = {.data_dir = file, .create = true};
    dibs *d = NULL;
    assert_int_not_equal(dibs_open(&options, &d, &f->err), DIBS_OK);
    assert_true(f->err.message[0] != '\0');
    assert_null(d);
}

static void test_a_foreign_file_is_refused_and_left_as_it_is(void **state)
{
    struct fixture *f = *state;
    char text[64] = "";
    const char *folder = path_of(f, "foreign"), *file = path_of(f, "foreign/dibs.db");
    assert_int_equal(mkdir(folder, 0700), 0);
    write_file(file, "this is a shopping list: milk, bread, butter\n");
    assert_not_opened(f, DIBS_STORE_CORRUPT, folder, true);
    FILE *back = fopen(file, "r");
    assert_non_null(fgets(text, sizeof text, back));
    fclose(back);
    assert_string_equal(text, "this is a shopping list: milk, bread, butter\n");
}

static void test_a_network_file_system_is_refused(void **state)
{
    struct fixture *f = *state;
    f->world.network_fs = "nfs";
    assert_not_opened(f, DIBS_STORE_UNSUPPORTED, path_of(f, "far"), true);
    assert_non_null(strstr(f->err.message, "nfs"));
    assert_int_equal(access(path_of(f, "far/dibs.db"), F_OK), -1);
    f->world.network_fs = NULL;
}

static void test_a_bad_setting_makes_no_store(void **state)
{
    struct fixture *f = *state;
    dibs *d = NULL;
    struct dibs_options options = {.data_dir = path_of(f, "new"), .create = true};
    options.settings = DIBS_STRINGS("lockTTL=soon");
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_open(&options, &d, &f->err));
    assert_int_equal(access(path_of(f, "new/dibs.db"), F_OK), -1);
}

static void test_the_real_machine_will_do(void **state)
{
    struct fixture *f = *state;
    dibs *d = NULL;
    int64_t now = 0;
    struct dibs_options options = {.data_dir = path_of(f, "real"), .create = true};
    assert_ok(f, dibs_open(&options, &d, &f->err));
    assert_ok(f, dibs_now(d, &now, &f->err));
    const struct dibs_platform *p = dibs_platform_real();
    assert_in_range(p->wall_ms(p->context) - now + 2000, 0, 60000);
    dibs_close(d);
}

/* ---- closing, forking ------------------------------------------------------------------------ */

static void test_closing_nothing_is_fine_and_leases_outlive_a_handle(void **state)
{
    struct fixture *f = *state;
    dibs_close(NULL);
    make_session(f, "s");
    make_task(f, "a");
    struct dibs_claim held = claim(f, "a", "s");
    fixture_reopen(f);
    assert_int_equal(get_task(f, "a").claim->token, held.token);
    assert_int_equal(get_session(f, "s").status, DIBS_SESSION_ACTIVE);
}

static void test_a_handle_does_not_survive_a_fork(void **state)
{
    struct fixture *f = *state;
    int ended = 0;
    make_task(f, "a");
    pid_t child = fork();
    if (child == 0) {
        struct dibs_task task = {0};
        struct dibs_task_list made = {0};
        struct dibs_task_new in = {.title = "of the child"};
        dibs *own = NULL;
        bool right = dibs_task_get(f->d, f->a, "a", &task, &f->err) == DIBS_FORKED &&
                     dibs_task_create(f->d, f->a, &in, 1, &made, &f->err) == DIBS_FORKED &&
                     dibs_batch_begin(f->d, &f->err) == DIBS_FORKED;
        dibs_close(f->d);
        right = right && open_at(f, f->data_dir, false, &own) == DIBS_OK &&
                dibs_task_create(own, f->a, &in, 1, &made, &f->err) == DIBS_OK;
        dibs_close(own);
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 0);
    make_task(f, "b"); /* the parent goes on */
    assert_int_equal(events_of(f, NULL).count, 3);
}

/* ---- finding --------------------------------------------------------------------------------- */

static void test_the_data_folder_is_found_from_below(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(mkdir(path_of(f, "src"), 0700), 0);
    assert_int_equal(mkdir(path_of(f, "src/core"), 0700), 0);
    const char *below = path_of(f, "src/core");
    char *real = realpath(f->data_dir, NULL);
    assert_string_equal(dibs_find_data_dir(f->a, below), real);
    assert_string_equal(dibs_find_data_dir(f->a, f->dir), real);
    char before[256];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(below), 0);
    const char *from_here = dibs_find_data_dir(f->a, NULL);
    int back = chdir(before);
    assert_int_equal(back, 0);
    assert_string_equal(from_here, real);
    assert_int_equal(mkdir(path_of(f, "src/.dibs"), 0700), 0); /* the nearest counts */
    assert_non_null(strstr(dibs_find_data_dir(f->a, below), "/src/.dibs"));
    write_file(path_of(f, "src/core/.dibs"), "a file is no data folder");
    assert_non_null(strstr(dibs_find_data_dir(f->a, below), "/src/.dibs"));
    free(real);
}

static void test_no_data_folder_above_is_told(void **state)
{
    struct fixture *f = *state;
    assert_null(dibs_find_data_dir(f->a, path_of(f, "does-not-exist")));
    if (access("/.dibs", F_OK) != 0)
        assert_null(dibs_find_data_dir(f->a, "/"));
}

static void test_the_version_is_three_numbers(void **state)
{
    int major = -1, minor = -1, patch = -1;
    (void)state;
    assert_int_equal(sscanf(dibs_version(), "%d.%d.%d", &major, &minor, &patch), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_store_is_made_for_its_owner_alone),
        STORE_TEST(test_what_is_not_there_is_not_opened),
        STORE_TEST(test_a_folder_is_required),
        STORE_TEST(test_a_folder_that_cannot_be_made_is_told),
        STORE_TEST(test_a_foreign_file_is_refused_and_left_as_it_is),
        STORE_TEST(test_a_network_file_system_is_refused),
        STORE_TEST(test_a_bad_setting_makes_no_store),
        STORE_TEST(test_the_real_machine_will_do),
        STORE_TEST(test_closing_nothing_is_fine_and_leases_outlive_a_handle),
        STORE_TEST(test_a_handle_does_not_survive_a_fork),
        STORE_TEST(test_the_data_folder_is_found_from_below),
        STORE_TEST(test_no_data_folder_above_is_told),
        cmocka_unit_test(test_the_version_is_three_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
