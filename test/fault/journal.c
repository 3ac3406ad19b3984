/* SPDX-License-Identifier: MIT */
/*
 * journal.c: events wait in memory for their numbers until the commit. Wherever that memory ends,
 * the operation that could not write its event fails: no event is written without its head.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "faults.h"
#include "in_memory.h"
#include "scene.h"

#define LONGEST 3000
#define STEP 8
#define CALLS 40 /* enough for more than the first chunk of the drafts */

static struct scene scene;

/* Notes progress until the drafts need a second chunk, which they do not get. */
static void run_out(const char *message)
{
    dibs_status status = DIBS_OK;
    bool struck = false;
    dibs_arena *a = dibs_arena_new();
    assert_non_null(a);
    assert_ok(scene.f, dibs_batch_begin(scene.d, &scene.f->err));
    for (int i = 0; i < CALLS && !struck; i++) {
        struct dibs_claim out = {0};
        struct dibs_progress in = {
            .task_id = "held", .session_id = "ann-1", .message = i == 0 ? message : "on"};
        dibs_arena_reset(a);
        faults_arm(FAULT_CHUNK, 1, false);
        status = dibs_claim_progress(scene.d, a, &in, &out, &scene.err);
        struck = faults_disarm() > 0;
        if (status != (struck ? DIBS_OUT_OF_MEMORY : DIBS_OK))
            fail_msg("with a message of %zu bytes, call %d: %s", strlen(message), i,
                     dibs_status_name(status));
    }
    assert_true(struck);
    dibs_batch_cancel(scene.d);
    dibs_arena_free(a);
}

static void test_an_event_that_finds_no_memory_fails_its_operation(void **state)
{
    static char message[LONGEST + 1];
    (void)state;
    if (!faults_see_chunks())
        skip();
    scene_open(&scene);
    uint64_t before = scene_digest(&scene);
    for (size_t bytes = 1; bytes < LONGEST; bytes += STEP) {
        memset(message, 'x', bytes);
        message[bytes] = '\0';
        run_out(message);
    }
    assert_true(scene_digest(&scene) == before);
    scene_verify(&scene);
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
        cmocka_unit_test_teardown(test_an_event_that_finds_no_memory_fails_its_operation, clean_up),
    };
    return cmocka_run_group_tests(tests, scene_begin, scene_end);
}
