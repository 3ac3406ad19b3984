/* SPDX-License-Identifier: MIT */
/*
 * open.c: dibs_open with its first, second, third ... call failing, on a new folder and on a store
 * that is there; and the check that no operation of the headers is missing in these tests.
 *
 * test-timeout: 300
 */
#define _GNU_SOURCE
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fault_rows.h"
#include "in_memory.h"

static struct scene scene;

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void remove_folder(const char *path)
{
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- opening --------------------------------------------------------------------------------- */

struct opening {
    enum fault_kind kind;
    bool sticky, is_new;
};

static struct dibs_options options(bool is_new)
{
    static const char *const settings[] = {"autoCleanup=off"};
    return (struct dibs_options){.data_dir = scene.f->data_dir,
                                 .create = is_new,
                                 .platform = &scene.f->world.platform,
                                 .settings = {.items = settings, .count = 1}};
}

/* Opens without faults, looks whether it works, closes. */
static void expect_it_opens(bool is_new, const char *what)
{
    dibs *d = NULL;
    struct dibs_session out = {0};
    struct dibs_error err = {0};
    struct dibs_options in = options(is_new);
    if (dibs_open(&in, &d, &err) != DIBS_OK)
        fail_msg("%s: then it does not open any more: %s", what, err.message);
    struct dibs_session_new who = {.id = "probe"};
    if (dibs_session_register(d, scene.f->a, &who, &out, &err) != DIBS_OK)
        fail_msg("%s: then it does not work: %s", what, err.message);
    dibs_close(d);
    dibs_arena_reset(scene.f->a);
}

static void expect_whole(dibs *d, const char *what)
{
    struct dibs_diagnosis found = {0};
    struct dibs_error err = {0};
    if (dibs_diagnose(d, scene.f->a, true, &found, &err) != DIBS_OK)
        fail_msg("%s: cannot look it over: %s", what, err.message);
    for (size_t i = 0; i < found.count; i++)
        if (found.items[i].level == DIBS_BAD)
            fail_msg("%s: %s: %s", what, found.items[i].subject, found.items[i].text);
    dibs_arena_reset(scene.f->a);
}

/* One attempt; false when there was nothing left to fail. */
static bool open_once(const struct opening *o, int64_t nth)
{
    char what[160];
    dibs *d = NULL;
    struct dibs_error err = {0};
    struct dibs_options in = options(o->is_new);
    snprintf(what, sizeof what, "opening, call %" PRId64 " of kind %d fails%s", nth, o->kind,
             o->sticky ? " and all after it" : "");
    int64_t blocks = faults_blocks();
    faults_arm(o->kind, nth, o->sticky);
    dibs_status status = dibs_open(&in, &d, &err);
    bool struck = faults_disarm() >= nth;
    /* a first look that fails is made up for by a second one: then the store must be whole */
    if (status == DIBS_OK)
        expect_whole(d, what);
    if (status != DIBS_OK && !struck)
        fail_msg("%s: but none did, and %s", what, err.message);
    if (status != DIBS_OK && (d || err.code != status || !err.message[0]))
        fail_msg("%s: %s without a message of its own", what, dibs_status_name(status));
    dibs_close(d);
    if (faults_blocks() != blocks)
        fail_msg("%s: %" PRId64 " blocks of memory are lost", what, faults_blocks() - blocks);
    return struck;
}

/* SQLite keeps what belongs to a file while anybody has it open, so nobody may meanwhile. */
static uint64_t digest(void)
{
    scene_look(&scene, true);
    uint64_t hash = scene_digest(&scene);
    scene_look(&scene, false);
    return hash;
}

static void open_with_faults(const struct opening *o)
{
    scene_open(&scene);
    dibs_close(scene.d);
    scene.d = scene.f->d = NULL;
    scene_look(&scene, false);
    bool sparse = o->kind == FAULT_SQLITE_MEMORY && !fault_all();
    for (int64_t nth = 1;; nth += sparse ? 1 + nth / 64 : 1) {
        if (o->is_new)
            remove_folder(scene.f->data_dir);
        uint64_t before = o->is_new ? 0 : digest();
        bool more = open_once(o, nth);
        if (!o->is_new && digest() != before)
            fail_msg("opening, call %" PRId64 " of kind %d fails: something changed", nth, o->kind);
        if (!more)
            break;
        if (o->is_new)
            expect_it_opens(true, "opening a new store failed");
    }
    expect_it_opens(false, "opening failed often");
    scene_close(&scene);
}

static void with_all_faults(bool is_new)
{
    for (int kind = FAULT_SQL; kind <= FAULT_SQLITE_MEMORY; kind++)
        for (int sticky = 0; sticky < 2; sticky++)
            open_with_faults(&(struct opening){(enum fault_kind)kind, sticky, is_new});
}

static void test_opening_a_store_survives_any_failure(void **state)
{
    (void)state;
    with_all_faults(false);
}

static void test_making_a_store_survives_any_failure(void **state)
{
    (void)state;
    with_all_faults(true);
}

/* ---- completeness ---------------------------------------------------------------------------- */

static bool has_row(const char *name)
{
    const struct fault_row *const tables[] = {fault_task_rows, fault_session_rows,
                                              fault_channel_rows, fault_inbox_rows,
                                              fault_agent_rows};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct fault_row *row = tables[t]; row->call; row++)
            if (strcmp(row->operation, name) == 0)
                return true;
    return strcmp(name, "dibs_open") == 0;
}

/* How many operations a header has; counts those that have no row. */
static int look_through(const char *root, const char *header, int *missing)
{
    char path[512], line[512], name[64];
    int found = 0;
    snprintf(path, sizeof path, "%s/include/%s", root, header);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "DIBS_CHECKED dibs_status %63[a-z_](", name) != 1)
            continue;
        found++;
        *missing += !has_row(name);
        if (!has_row(name))
            print_error("%s has no row in test/lib/fault_rows_*.c\n", name);
    }
    fclose(file);
    return found;
}

static void test_every_operation_of_the_headers_is_made_to_fail(void **state)
{
    int missing = 0;
    (void)state;
    const char *root = getenv("DIBS_SOURCE_ROOT");
    if (!root)
        skip();
    assert_true(look_through(root, "dibs.h", &missing) > 45);
    assert_true(look_through(root, "dibs_swarm.h", &missing) > 20);
    assert_int_equal(missing, 0);
}

static int clean_up(void **state)
{
    (void)state;
    faults_disarm();
    scene_close(&scene);
    return 0;
}

int main(void)
{
    stores_in_memory(); /* the disk is not what fails here */
    faults_install();
    log_set_level(LOG_OFF);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_opening_a_store_survives_any_failure, clean_up),
        cmocka_unit_test_teardown(test_making_a_store_survives_any_failure, clean_up),
        cmocka_unit_test(test_every_operation_of_the_headers_is_made_to_fail),
    };
    return cmocka_run_group_tests(tests, scene_begin, scene_end);
}
