/* SPDX-License-Identifier: MIT */
/*
 * power.c: the power goes out. test-timeout: 600
 *
 * A program works through some hundred transactions, checkpoints and fresh starts of the log
 * included, while the disk records what is written and flushed (power.h). Then the power is cut at
 * moments chosen by chance, each time with another part of what was not flushed yet. Whatever is
 * left: the store opens, the deep check finds it whole, and every transaction that had been
 * acknowledged is in it. Both ways of committing are tried: each commit flushes for itself, and a
 * thread flushes while the next transaction runs (durable.h).
 *
 * The same cuts on a disk that does not flush, or for answers that did not wait, must find losses:
 * else this test could not find any.
 *
 *   DIBS_TEST_SCALE  times so many cuts        DIBS_TEST_SEED  the same choices again
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/durable.h"
#include "power.h"
#include "workers.h"

enum { BATCHES = 260, OPERATIONS_MAX = 14, SESSIONS = 6 };

struct load {
    struct place *place;
    dibs *d;
    dibs_arena *a;
    uint64_t seed;
    bool overlap, hasty; /* hasty: acknowledges when the commit returns, durable or not */
    struct {
        char task[32];
        int64_t token;
    } held[SESSIONS];
    int64_t last_event[BATCHES + 64]; /* of the journal, after each commit */
};

static void must_be(dibs_status status, const struct dibs_error *err)
{
    if (status != DIBS_OK)
        fail_msg("%s: %s", dibs_status_name(status), err->message);
}

/* ---- work ------------------------------------------------------------------------------------ */

static void create_some(struct load *l)
{
    struct dibs_error err = {0};
    struct dibs_task_list out = {0};
    struct dibs_task_new in[8] = {{0}};
    size_t count = 1 + chance(&l->seed) % 8;
    for (size_t i = 0; i < count; i++)
        in[i] = (struct dibs_task_new){.title = "a task",
                                       .type = i % 2 ? "odd" : "even",
                                       .priority = DIBS_VALUE((int64_t)(chance(&l->seed) % 100)),
                                       .max_attempts = DIBS_VALUE(0),
                                       .params = "{\"a\":[1,2,3]}"};
    must_be(dibs_task_create(l->d, l->a, in, count, &out, &err), &err);
}

static void claim_or_report(struct load *l, int who)
{
    struct dibs_error err = {0};
    char session[16];
    snprintf(session, sizeof session, "s%d", who);
    if (l->held[who].token) {
        struct dibs_task out = {0};
        struct dibs_report in = {.task_id = l->held[who].task,
                                 .session_id = session,
                                 .token = l->held[who].token,
                                 .result = "{\"done\":true}"};
        bool fails = chance(&l->seed) % 8 == 0;
        must_be((fails ? dibs_fail : dibs_complete)(l->d, l->a, &in, &out, &err), &err);
        l->held[who].token = 0;
        return;
    }
    struct dibs_grant grant = {0};
    struct dibs_claim_next in = {.session_id = session};
    dibs_status status = dibs_claim_next(l->d, l->a, &in, &grant, &err);
    if (status == DIBS_NOTHING_TO_CLAIM)
        return;
    must_be(status, &err);
    l->held[who].token = grant.items[0].claim.token;
    snprintf(l->held[who].task, sizeof l->held[who].task, "%s", grant.items[0].task.id);
}

static int64_t last_event_of(dibs *d, dibs_arena *a)
{
    struct dibs_error err = {0};
    struct dibs_event_list page = {0};
    struct dibs_event_filter none = {.since = INT64_MAX, .limit = 1};
    must_be(dibs_events(d, a, &none, &page, &err), &err);
    return page.last;
}

static void run_batch(struct load *l)
{
    struct dibs_error err = {0};
    int operations = 1 + (int)(chance(&l->seed) % OPERATIONS_MAX);
    must_be(dibs_batch_begin(l->d, &err), &err);
    create_some(l);
    for (int i = 0; i < operations; i++)
        claim_or_report(l, (int)(chance(&l->seed) % SESSIONS));
    must_be(dibs_batch_commit(l->d, &err), &err);
    int64_t number = dibs__commit_number(l->d);
    assert_true(number > 0 && number < (int64_t)(sizeof l->last_event / sizeof *l->last_event));
    l->last_event[number] = last_event_of(l->d, l->a);
    if (!l->overlap || l->hasty)
        power_acknowledge(number);
    dibs_arena_reset(l->a);
}

static void on_durable(void *context, int64_t commit)
{
    struct load *l = context;
    if (commit > 0 && !l->hasty)
        power_acknowledge(commit);
}

static void make_store(struct load *l)
{
    struct dibs_error err = {0};
    dibs *d = place_open(l->place);
    for (int i = 0; i < SESSIONS; i++) {
        char id[16];
        struct dibs_session out = {0};
        snprintf(id, sizeof id, "s%d", i);
        must_be(dibs_session_register(d, l->a, &(struct dibs_session_new){.id = id}, &out, &err),
                &err);
    }
    dibs_close(d);
}

static void store_path(const struct load *l, char out[128])
{
    snprintf(out, 128, "%s/dibs.db", l->place->data_dir);
}

/* Works and records; the store is closed afterwards. */
static void record(struct load *l)
{
    char path[128];
    struct dibs_error err = {0};
    make_store(l);
    store_path(l, path);
    power_on(path);
    l->d = place_open(l->place);
    if (l->overlap)
        must_be(dibs__overlap(l->d, on_durable, l, &err), &err);
    for (int i = 0; i < BATCHES; i++)
        run_batch(l);
    dibs_close(l->d);
    power_off();
    assert_true(power_flushes(POWER_DATA) >= 3); /* the log was emptied and begun anew */
}

/* ---- cuts ------------------------------------------------------------------------------------ */

/* Whether everything that was acknowledged by then is there, in a store that is whole. */
static bool survives(struct load *l, struct place *ruin, size_t at, int deaf)
{
    char path[128], shm[140];
    struct dibs_options options = {.data_dir = ruin->data_dir};
    struct dibs_error err = {0};
    dibs *d = NULL;
    snprintf(path, sizeof path, "%s/dibs.db", ruin->data_dir);
    snprintf(shm, sizeof shm, "%s-shm", path);
    unlink(shm); /* it is in memory, as far as SQLite cares: nothing of it is believed */
    power_cut(at, &l->seed, deaf, path);
    if (dibs_open(&options, &d, &err) != DIBS_OK)
        return false;
    int64_t promised = l->last_event[power_acknowledged(at)];
    struct dibs_event_list page = {0};
    struct dibs_event_filter none = {.since = INT64_MAX, .limit = 1};
    bool fine = dibs_events(d, l->a, &none, &page, &err) == DIBS_OK && page.last >= promised &&
                place_is_sound(ruin, d);
    dibs_close(d);
    dibs_arena_reset(l->a);
    return fine;
}

static int count_losses(struct load *l, int cuts, int deaf)
{
    struct place ruin = *l->place;
    int losses = 0;
    snprintf(ruin.data_dir, sizeof ruin.data_dir, "%s/ruin", l->place->dir);
    assert_int_equal(mkdir(ruin.data_dir, 0700), 0);
    for (int i = 0; i < cuts; i++) {
        size_t at = power_moment(&l->seed);
        uint64_t seed = l->seed;
        if (survives(l, &ruin, at, deaf))
            continue;
        losses++;
        if (!deaf && !l->hasty)
            print_error("lost by a cut at %zu of %zu, choices %" PRIu64 "\n", at, power_moments(),
                        seed);
    }
    return losses;
}

static int try_cuts(struct place *place, bool overlap, bool hasty, int cuts, int deaf)
{
    struct load *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->place = place;
    l->a = dibs_arena_new();
    l->seed = test_seed();
    l->overlap = overlap;
    l->hasty = hasty;
    record(l);
    int losses = count_losses(l, cuts, deaf);
    power_free();
    dibs_arena_free(l->a);
    free(l);
    return losses;
}

static void test_what_a_commit_has_answered_survives_a_cut(void **state)
{
    assert_int_equal(try_cuts(*state, false, false, scaled(150, 20), 0), 0);
}

static void test_what_a_thread_has_flushed_survives_a_cut(void **state)
{
    assert_int_equal(try_cuts(*state, true, false, scaled(250, 20), 0), 0);
}

static void test_a_disk_that_does_not_flush_loses_something(void **state)
{
    assert_true(try_cuts(*state, false, false, 60, POWER_DEAF_LOG) > 0);
}

static void test_an_answer_that_does_not_wait_is_lost_by_some_cut(void **state)
{
    assert_true(try_cuts(*state, true, true, 60, 0) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_what_a_commit_has_answered_survives_a_cut),
        PLACE_TEST(test_what_a_thread_has_flushed_survives_a_cut),
        PLACE_TEST(test_a_disk_that_does_not_flush_loses_something),
        PLACE_TEST(test_an_answer_that_does_not_wait_is_lost_by_some_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
