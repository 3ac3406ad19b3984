/* SPDX-License-Identifier: MIT */
/*
 * disk.c: the disk fails under a running program. test-timeout: 600
 *
 * strace makes a chosen flush answer EIO, or a chosen write ENOSPC, while the program works through
 * its script (script.h). After a failed flush nothing may be answered "done" any more in that
 * process: the kernel may have thrown away what it could not write. A full disk is refused as such,
 * reads go on, and when there is room again so do writes. Whatever happens, the store is whole
 * afterwards and what was acknowledged is in it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "script.h"
#include "traced.h"

struct failure {
    struct script *script;
    const char *call;   /* "fdatasync" */
    const char *error;  /* "EIO" */
    bool for_good;      /* from then on, else once */
    dibs_status answer; /* what the program must answer */
};

static bool failed(const struct note *n)
{
    return n->status != ASKED && dibs_status_is_failure((dibs_status)n->status);
}

/* Number of the first answer that was a failure; the count when there is none. */
static size_t first_failure(const struct failure *f, struct notes n, long when)
{
    size_t first = n.count;
    for (size_t i = n.count; i > 0; i--) {
        const struct note *note = &n.items[i - 1];
        if (!failed(note))
            continue;
        first = i - 1;
        if (note->status != (int32_t)f->answer)
            fail_msg("%s at %s %ld: %s is answered %s instead of %s", f->error, f->call, when,
                     act_name((enum act)note->act), dibs_status_name((dibs_status)note->status),
                     dibs_status_name(f->answer));
    }
    return first;
}

static struct notes run_with(const struct failure *f, long when, char hit[512])
{
    char inject[80];
    snprintf(inject, sizeof inject, "%s:error=%s:when=%ld%s", f->call, f->error, when,
             f->for_good ? "+" : "");
    script_reset(f->script);
    if (traced_run(inject, f->script->argv, hit) != TRACED_ENDED)
        fail_msg("the script does not end when %s %ld answers %s", f->call, when, f->error);
    struct notes n = script_notes(f->script);
    script_check(f->script, n, ACKED_FRESH | ACKED_FAILURES);
    return n;
}

static struct points points_of(const struct failure *f, int most)
{
    uint64_t seed = test_seed();
    script_reset(f->script);
    long count = traced_count(f->call, f->script->argv);
    assert_true(count > 0);
    struct points at = points_choose(count, most, &seed);
    printf("# %s: %zu of %ld calls of %s\n", f->script->play, at.count, count, f->call);
    return at;
}

/* ---- a flush that fails ---------------------------------------------------------------------- */

static void flush_fails(struct place *p, const char *play, const char *call, int most)
{
    struct script s = {0};
    struct failure f = {
        .script = &s, .call = call, .error = "EIO", .answer = DIBS_STORE_UNAVAILABLE};
    int failures = 0;
    char hit[512] = "";
    script_init(&s, p, play);
    struct points at = points_of(&f, most);
    for (size_t i = 0; i < at.count; i++) {
        struct notes n = run_with(&f, at.items[i], hit);
        size_t first = first_failure(&f, n, at.items[i]);
        failures += first < n.count;
        /* SQLite itself ignores what becomes of the folder of its own files */
        if (first == n.count && strstr(hit, "/dibs.db"))
            fail_msg("nobody noticed that this failed: %s", hit);
        for (size_t k = first; k < n.count; k++)
            if (n.items[k].status == DIBS_OK)
                fail_msg("after %s %ld had failed, %s was answered OK", call, at.items[i],
                         act_name((enum act)n.items[k].act));
        free(n.items);
    }
    assert_true(failures > 0);
    free(at.items);
}

static void test_after_a_failed_flush_nothing_is_answered_ok(void **state)
{
    if (!traced_permitted())
        skip();
    flush_fails(*state, "old", "fdatasync", 40);
}

static void test_after_a_failed_flush_of_a_new_store_nothing_is_answered_ok(void **state)
{
    if (!traced_permitted())
        skip();
    flush_fails(*state, "new", "fdatasync", 40);
}

static void test_after_a_failed_flush_of_the_folder_nothing_is_answered_ok(void **state)
{
    if (!traced_permitted())
        skip();
    flush_fails(*state, "new", "fsync", 5);
}

/* ---- a full disk ----------------------------------------------------------------------------- */

/* Reads go on; when the disk stays full, no write is answered as done. */
static void expect_full(const struct failure *f, struct notes n, size_t first, long when)
{
    for (size_t k = first; k < n.count; k++) {
        const struct note *note = &n.items[k];
        bool reads = note->act == ACT_READ;
        if (reads && note->status != ASKED && note->status != DIBS_OK)
            fail_msg("a read fails after %s %ld: %s", f->call, when,
                     dibs_status_name((dibs_status)note->status));
        if (!reads && f->for_good && note->status == DIBS_OK)
            fail_msg("the disk is full from %s %ld on, and %s is answered OK", f->call, when,
                     act_name((enum act)note->act));
    }
}

/* When there is room again, the next write succeeds: only the one act fails. */
static int failures_from(struct notes n, size_t first)
{
    int count = 0;
    for (size_t k = first; k < n.count; k++)
        count += failed(&n.items[k]);
    return count;
}

static void disk_is_full(struct place *p, const char *play, bool for_good, int most)
{
    struct script s = {0};
    struct failure f = {.script = &s,
                        .call = "pwrite64",
                        .error = "ENOSPC",
                        .for_good = for_good,
                        .answer = DIBS_STORE_FULL};
    int failures = 0;
    script_init(&s, p, play);
    struct points at = points_of(&f, most);
    for (size_t i = 0; i < at.count; i++) {
        struct notes n = run_with(&f, at.items[i], NULL);
        size_t first = first_failure(&f, n, at.items[i]);
        expect_full(&f, n, first, at.items[i]);
        int count = failures_from(n, first);
        if (!for_good && count > 1)
            fail_msg("one write had no room, and %d acts failed", count);
        failures += count > 0;
        free(n.items);
    }
    assert_true(failures > 0);
    free(at.items);
}

static void test_a_write_without_room_is_refused_and_the_next_one_succeeds(void **state)
{
    if (!traced_permitted())
        skip();
    disk_is_full(*state, "old", false, 25);
}

static void test_on_a_full_disk_writes_are_refused_and_reads_go_on(void **state)
{
    if (!traced_permitted())
        skip();
    disk_is_full(*state, "old", true, 25);
}

static void test_a_store_cannot_be_made_by_half_on_a_full_disk(void **state)
{
    if (!traced_permitted())
        skip();
    disk_is_full(*state, "new", true, 15);
}

static void test_a_store_is_made_once_there_is_room(void **state)
{
    if (!traced_permitted())
        skip();
    disk_is_full(*state, "new", false, 15);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_after_a_failed_flush_nothing_is_answered_ok),
        PLACE_TEST(test_after_a_failed_flush_of_a_new_store_nothing_is_answered_ok),
        PLACE_TEST(test_after_a_failed_flush_of_the_folder_nothing_is_answered_ok),
        PLACE_TEST(test_a_write_without_room_is_refused_and_the_next_one_succeeds),
        PLACE_TEST(test_on_a_full_disk_writes_are_refused_and_reads_go_on),
        PLACE_TEST(test_a_store_cannot_be_made_by_half_on_a_full_disk),
        PLACE_TEST(test_a_store_is_made_once_there_is_room),
    };
    if (script_wanted(argc, argv))
        return script_main(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
