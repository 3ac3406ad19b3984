/* SPDX-License-Identifier: MIT */
/* fault_rows.c: the runner of fault_rows.h. */
#include "fault_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

#define ARENA_STEP 16 /* every slice begins at a multiple of it */
#define MOST 100000   /* calls of one operation: more means that it never ends */

static struct scene scene;     /* of the test under way, for its teardown */
static uint64_t untouched = 0; /* its digest before the operation; 0: not known */

static void stage(const struct fault_row *row)
{
    scene_close(&scene);
    scene_open(&scene);
    if (row->prepare)
        row->prepare(&scene);
    untouched = 0;
}

/* ---- one attempt ----------------------------------------------------------------------------- */

struct attempt {
    const struct fault_row *row;
    enum fault_kind kind;
    bool sticky;
    int64_t nth;
    size_t room; /* 1: the arena is full; 2: one step is left ...; 0: a new one */
};

static void describe(const struct attempt *t, char out[200])
{
    static const char *const kinds[] = {"SQL call", "request for memory",
                                        "request of SQLite for memory", "growth of an arena"};
    snprintf(out, 200, "%s%s%s, %s %" PRId64 "%s fails", t->row->operation,
             t->row->which ? ": " : "", t->row->which ? t->row->which : "", kinds[t->kind], t->nth,
             t->sticky ? " and all after it" : "");
}

static dibs_arena *arena_of_two_chunks(void)
{
    dibs_arena *a = dibs_arena_new();
    assert_non_null(a);
    assert_non_null(arena_alloc(a, 3000));
    assert_non_null(arena_alloc(a, 6000));
    dibs_arena_reset(a);
    return a;
}

/* How many steps fit in before it asks for a third chunk. */
static size_t steps_in_two_chunks(void)
{
    static size_t steps;
    if (steps)
        return steps;
    dibs_arena *a = arena_of_two_chunks();
    faults_arm(FAULT_MEMORY, 1, true);
    while (arena_alloc(a, ARENA_STEP))
        steps++;
    faults_disarm();
    dibs_arena_free(a);
    return steps;
}

/* An arena in which there is room for so many steps, or a new one. */
static dibs_arena *arena_with_room(size_t room)
{
    if (!room)
        return dibs_arena_new();
    dibs_arena *a = arena_of_two_chunks();
    for (size_t used = room - 1; used < steps_in_two_chunks(); used++)
        assert_non_null(arena_alloc(a, ARENA_STEP));
    return a;
}

/* Runs the operation; *struck: a call failed. */
static dibs_status run(const struct attempt *t, bool *struck)
{
    dibs_arena *a = arena_with_room(t->room);
    assert_non_null(a);
    memset(&scene.err, 0, sizeof scene.err);
    faults_arm(t->kind, t->nth, t->sticky);
    dibs_status status = t->row->call(&scene, a);
    *struck = faults_disarm() >= t->nth;
    dibs_arena_free(a);
    return status;
}

static void check_failure(const struct attempt *t, dibs_status status)
{
    char what[200];
    int64_t now = 0;
    struct dibs_task task = {0};
    struct fixture *f = scene.f;
    describe(t, what);
    if (scene.err.code != status || !scene.err.message[0])
        fail_msg("%s: %s without a message of its own", what, dibs_status_name(status));
    if (!t->row->in_steps && scene_digest(&scene) != untouched)
        fail_msg("%s: %s, and yet something has changed", what, dibs_status_name(status));
    if (dibs_now(scene.d, &now, &f->err) != DIBS_OK ||
        dibs_task_get(scene.d, f->a, "open", &task, &f->err) != DIBS_OK)
        fail_msg("%s: the handle is of no use any more: %s", what, f->err.message);
    dibs_arena_reset(f->a);
}

/* One attempt and what must be true after it. Returns false when there was nothing left to fail. */
static bool attempt(const struct attempt *t)
{
    char what[200];
    bool struck = false;
    if (!untouched)
        untouched = scene_digest(&scene);
    dibs_status status = run(t, &struck);
    describe(t, what);
    if (dibs_status_is_failure(status)) {
        if (!struck)
            fail_msg("%s: but none did, and %s: %s", what, dibs_status_name(status),
                     scene.err.message);
        check_failure(t, status);
        if (t->row->in_steps) {
            scene_verify(&scene);
            stage(t->row);
        }
        return true;
    }
    if (status != t->row->answers)
        fail_msg("%s: answered %s: %s", what, dibs_status_name(status), scene.err.message);
    if (!struck)
        return false;
    /* SQLite can do without some of what it asks for, and a refusal with fewer words */
    bool may_do_without = t->kind == FAULT_SQLITE_MEMORY || t->row->answers != DIBS_OK;
    if (!may_do_without && !t->row->in_steps)
        fail_msg("%s: and nobody noticed", what);
    scene_verify(&scene);
    stage(t->row);
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

bool fault_all(void)
{
    const char *scale = getenv("DIBS_TEST_SCALE");
    return scale && strtod(scale, NULL) > 1;
}

/* What the first use of a library allocates for good is not a leak. */
static void warm_up(const struct fault_row *row)
{
    bool struck = false;
    stage(row);
    struct attempt t = {.row = row, .kind = FAULT_SQL, .nth = MOST};
    dibs_status status = run(&t, &struck);
    if (status != row->answers)
        fail_msg("%s: answered %s: %s", row->operation, dibs_status_name(status),
                 scene.err.message);
    scene_close(&scene);
}

static void finish(const struct fault_row *row, int64_t blocks)
{
    scene_verify(&scene);
    scene_close(&scene);
    int64_t lost = faults_blocks() - blocks;
    if (lost != 0)
        fail_msg("%s: %" PRId64 " blocks of memory are lost", row->operation, lost);
}

void fault_run(const struct fault_row *row, enum fault_kind kind, bool sticky)
{
    warm_up(row);
    int64_t blocks = faults_blocks();
    stage(row);
    struct attempt t = {.row = row, .kind = kind, .sticky = sticky, .nth = 1};
    while (attempt(&t)) {
        t.nth += kind == FAULT_SQLITE_MEMORY && !fault_all() ? 1 + t.nth / 64 : 1;
        if (t.nth > MOST)
            fail_msg("%s: never succeeds", row->operation);
    }
    finish(row, blocks);
}

/* Another handle has no statements prepared yet, and what the row prepared on it is gone. */
static void reopen(const struct fault_row *row)
{
    if (row->prepare) {
        stage(row);
        return;
    }
    fixture_reopen(scene.f);
    scene.d = scene.f->d;
}

static int64_t count_calls(const struct fault_row *row, enum fault_kind kind)
{
    dibs_arena *a = arena_of_two_chunks();
    reopen(row);
    faults_arm(kind, MOST, false);
    dibs_status status = row->call(&scene, a);
    int64_t calls = faults_disarm();
    dibs_arena_free(a);
    assert_int_equal(status, row->answers);
    stage(row);
    return calls;
}

void fault_run_cold(const struct fault_row *row, enum fault_kind kind, int64_t points)
{
    warm_up(row);
    int64_t blocks = faults_blocks();
    stage(row);
    int64_t calls = count_calls(row, kind);
    int64_t stride = points && calls > points ? calls / points : 1;
    struct attempt t = {.row = row, .kind = kind, .nth = 1};
    for (bool more = true; more; t.nth += stride) {
        reopen(row);
        more = attempt(&t);
    }
    finish(row, blocks);
}

void fault_run_full_arena(const struct fault_row *row)
{
    if (!faults_see_chunks())
        return;
    warm_up(row);
    int64_t blocks = faults_blocks();
    stage(row);
    struct attempt t = {.row = row, .kind = FAULT_CHUNK, .nth = 1, .room = 1};
    /* with enough room nothing more is asked for */
    while (t.room <= steps_in_two_chunks() && attempt(&t))
        t.room++;
    finish(row, blocks);
}

/* ---- tests from rows ------------------------------------------------------------------------- */

static fault_body *const *current_bodies;
static size_t current_body_count;

static void run_bodies(void **state)
{
    for (size_t i = 0; i < current_body_count; i++)
        current_bodies[i](*state);
}

static int clean_up(void **state)
{
    (void)state;
    faults_disarm();
    scene_close(&scene);
    return 0;
}

int fault_tests(const char *group, const char *promise, fault_body *const *bodies,
                size_t body_count)
{
    static struct CMUnitTest tests[200];
    static char names[200][160];
    const struct fault_row *const tables[] = {fault_task_rows,  fault_session_rows,
                                              fault_serve_rows, fault_channel_rows,
                                              fault_inbox_rows, fault_agent_rows};
    size_t count = 0;
    current_bodies = bodies;
    current_body_count = body_count;
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const struct fault_row *row = tables[t]; row->call && count < 200; row++, count++) {
            snprintf(names[count], sizeof names[count], "%s%s%s %s", row->operation,
                     row->which ? " " : "", row->which ? row->which : "", promise);
            tests[count] = (struct CMUnitTest){.name = names[count],
                                               .test_func = run_bodies,
                                               .teardown_func = clean_up,
                                               .initial_state = (void *)(uintptr_t)row};
        }
    return _cmocka_run_group_tests(group, tests, count, scene_begin, scene_end);
}
