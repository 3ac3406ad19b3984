/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/tx.c: one operation is one transaction; several share one in a batch, and none
 * harms its neighbours.
 */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "db/db.h"

static dibs_status create(struct fixture *f, const char *id)
{
    struct dibs_task_list out = {0};
    struct dibs_task_new in = {.id = id, .title = "a task"};
    return dibs_task_create(f->d, f->a, &in, 1, &out, &f->err);
}

static bool exists_on(struct fixture *f, dibs *d, const char *id)
{
    struct dibs_task out = {0};
    dibs_status status = dibs_task_get(d, f->a, id, &out, &f->err);
    assert_true(status == DIBS_OK || status == DIBS_TASK_NOT_FOUND);
    return status == DIBS_OK;
}

static void begin(struct fixture *f)
{
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
}

static void commit(struct fixture *f)
{
    assert_ok(f, dibs_batch_commit(f->d, &f->err));
}

/* ---- alone ----------------------------------------------------------------------------------- */

static void test_a_refusal_leaves_no_trace(void **state)
{
    struct fixture *f = *state;
    struct dibs_task_list out = {.count = 77};
    assert_ok(f, create(f, "a"));
    char *before = probe_tables(f);
    struct dibs_task_new several[] = {{.id = "b", .title = "b"}, {.id = "c", .title = ""}};
    assert_refused(f, DIBS_INVALID_REQUEST,
                   dibs_task_create(f->d, f->a, several, 2, &out, &f->err));
    assert_int_equal(out.count, 77);
    char *after = probe_tables(f);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void test_a_refused_claim_is_kept_in_the_journal_all_the_same(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {.token = 77};
    make_session(f, "s");
    make_session(f, "t");
    make_task(f, "a");
    claim(f, "a", "s");
    struct dibs_claim_take take = {.task_id = "a", .session_id = "t"};
    assert_refused(f, DIBS_TASK_ALREADY_CLAIMED, dibs_claim_take(f->d, f->a, &take, &out, &f->err));
    assert_int_equal(out.token, 77);
    assert_int_equal(events_of(f, "task:claim-refused").count, 1);
}

static void test_errors_may_be_left_unheard(void **state)
{
    struct fixture *f = *state;
    struct dibs_task out = {0};
    assert_int_equal(dibs_task_get(f->d, f->a, "ghost", &out, NULL), DIBS_TASK_NOT_FOUND);
    assert_int_equal(dibs_batch_commit(f->d, NULL), DIBS_STORE_BUSY);
}

static void test_an_error_is_forgotten_by_the_next_call(void **state)
{
    struct fixture *f = *state;
    struct dibs_task out = {0};
    assert_refused(f, DIBS_TASK_NOT_FOUND, dibs_task_get(f->d, f->a, "a", &out, &f->err));
    assert_ok(f, create(f, "a"));
    assert_int_equal(f->err.code, DIBS_OK);
    assert_string_equal(f->err.message, "");
}

static bool fail_once(void)
{
    return true;
}

static void test_no_memory_is_answered_and_leaves_no_trace(void **state)
{
    struct fixture *f = *state;
    char *before = probe_tables(f);
    /* a fresh arena must ask for memory at once */
    dibs_arena *small = dibs_arena_new();
    struct dibs_task_list out = {0};
    struct dibs_task_new in = {.title = "a task"};
    mem_should_fail = fail_once;
    dibs_status status = dibs_task_create(f->d, small, &in, 1, &out, &f->err);
    mem_should_fail = NULL;
    dibs_arena_free(small);
    assert_int_equal(status, DIBS_OUT_OF_MEMORY);
    assert_int_equal(f->err.code, DIBS_OUT_OF_MEMORY);
    char *after = probe_tables(f);
    assert_string_equal(before, after);
    free(before);
    free(after);
    assert_ok(f, create(f, "a"));
}

/* ---- batches --------------------------------------------------------------------------------- */

static void test_a_refused_operation_does_not_harm_its_neighbours(void **state)
{
    struct fixture *f = *state;
    assert_ok(f, create(f, "taken"));
    begin(f);
    assert_ok(f, create(f, "a"));
    assert_refused(f, DIBS_TASK_EXISTS, create(f, "taken"));
    struct dibs_task_list out = {0};
    struct dibs_task_new pair[] = {{.id = "half", .title = "x"}, {.id = "taken", .title = "x"}};
    assert_refused(f, DIBS_TASK_EXISTS, dibs_task_create(f->d, f->a, pair, 2, &out, &f->err));
    assert_ok(f, create(f, "b"));
    commit(f);
    assert_true(exists_on(f, f->d, "a") && exists_on(f, f->d, "b"));
    assert_false(exists_on(f, f->d, "half"));
    assert_int_equal(events_of(f, NULL).count, 3);
}

static int calls_left;
static bool fail_at(void)
{
    return --calls_left == 0;
}

/* A batch of three, whose second operation meets a failure at that call; its answer. */
static dibs_status batch_of_three(struct fixture *f, int call, const char *const ids[3])
{
    begin(f);
    assert_ok(f, create(f, ids[0]));
    calls_left = call;
    db_should_fail = fail_at;
    dibs_status status = create(f, ids[1]);
    db_should_fail = NULL;
    return status;
}

static void test_a_failed_operation_undoes_only_itself(void **state)
{
    struct fixture *f = *state;
    dibs_status status = DIBS_STORE_UNAVAILABLE;
    int call = 2;
    for (; status != DIBS_OK; call++) {
        char names[3][16];
        for (int i = 0; i < 3; i++)
            snprintf(names[i], sizeof names[i], "%c%d", 'a' + i, call);
        status = batch_of_three(f, call, (const char *const[]){names[0], names[1], names[2]});
        assert_true(status == DIBS_OK || status == DIBS_STORE_UNAVAILABLE);
        assert_ok(f, create(f, names[2]));
        commit(f);
        assert_true(exists_on(f, f->d, names[0]) && exists_on(f, f->d, names[2]));
        assert_int_equal(exists_on(f, f->d, names[1]), status == DIBS_OK);
    }
    int64_t tasks = probe_int(f, "SELECT count(*) FROM task");
    assert_int_equal(events_of(f, NULL).count, tasks); /* and each is told of once */
    assert_true(call > 5);
}

static void test_a_batch_in_which_nothing_can_be_undone_is_refused_as_a_whole(void **state)
{
    struct fixture *f = *state;
    const char *const ids[] = {"a", "b", "c"};
    assert_int_equal(batch_of_three(f, 1, ids), DIBS_STORE_UNAVAILABLE); /* no savepoint */
    assert_refused(f, DIBS_STORE_UNAVAILABLE, create(f, "c"));
    assert_refused(f, DIBS_STORE_UNAVAILABLE, dibs_batch_commit(f->d, &f->err));
    for (int i = 0; i < 3; i++)
        assert_false(exists_on(f, f->d, ids[i]));
    assert_ok(f, create(f, "a"));
}

static void test_a_cancelled_batch_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    assert_ok(f, create(f, "a"));
    char *before = probe_tables(f);
    begin(f);
    claim(f, "a", "s");
    assert_ok(f, create(f, NULL));
    dibs_batch_cancel(f->d);
    char *after = probe_tables(f);
    assert_string_equal(before, after);
    free(before);
    free(after);
    dibs_batch_cancel(f->d); /* none open: nothing happens */
    dibs_batch_cancel(NULL);
}

static void test_a_batch_that_is_closed_over_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    begin(f);
    assert_ok(f, create(f, "a"));
    fixture_reopen(f);
    assert_false(exists_on(f, f->d, "a"));
}

static void test_a_read_inside_the_batch_sees_it_and_others_do_not(void **state)
{
    struct fixture *f = *state;
    dibs *other = fixture_open(f);
    make_session(f, "s");
    assert_ok(f, create(f, "a"));
    begin(f);
    assert_ok(f, create(f, "b"));
    claim(f, "a", "s");
    assert_true(exists_on(f, f->d, "b"));
    assert_int_equal(get_task(f, "a").status, DIBS_TASK_IN_PROGRESS);
    assert_int_equal(get_session(f, "s").claims_live, 1);
    assert_false(exists_on(f, other, "b"));
    commit(f);
    assert_true(exists_on(f, other, "b"));
    dibs_close(other);
}

static dibs_status op_batch(struct fixture *f)
{
    dibs_status status = dibs_batch_begin(f->d, &f->err);
    if (status != DIBS_OK)
        return status;
    if ((status = create(f, "a")) == DIBS_OK)
        status = create(f, "b");
    if (status == DIBS_OK)
        return dibs_batch_commit(f->d, &f->err);
    dibs_batch_cancel(f->d);
    return status;
}

static void test_a_batch_on_a_failing_store_leaves_all_or_nothing(void **state)
{
    struct fixture *f = *state;
    assert_true(probe_fail_each(f, op_batch) > 10);
    assert_true(exists_on(f, f->d, "a") && exists_on(f, f->d, "b"));
}

static void test_there_is_nothing_to_commit_without_a_batch(void **state)
{
    struct fixture *f = *state;
    assert_refused(f, DIBS_STORE_BUSY, dibs_batch_commit(f->d, &f->err));
    assert_string_equal(f->err.message, "no batch is open on this handle");
}

/* ---- batches in batches ---------------------------------------------------------------------- */

static void test_an_inner_batch_is_undone_alone(void **state)
{
    struct fixture *f = *state;
    begin(f);
    assert_ok(f, create(f, "a"));
    begin(f);
    assert_ok(f, create(f, "b"));
    begin(f);
    assert_ok(f, create(f, "c"));
    commit(f); /* into b's batch, with which it goes */
    assert_true(exists_on(f, f->d, "c"));
    dibs_batch_cancel(f->d);
    assert_false(exists_on(f, f->d, "b") || exists_on(f, f->d, "c"));
    assert_ok(f, create(f, "d"));
    commit(f);
    assert_true(exists_on(f, f->d, "a") && exists_on(f, f->d, "d"));
    assert_int_equal(probe_int(f, "SELECT count(*) FROM task"), 2);
    assert_int_equal(events_of(f, "task:created").count, 2); /* its events went with it */
}

static void test_an_inner_batch_is_on_disk_with_the_outermost(void **state)
{
    struct fixture *f = *state;
    dibs *other = NULL;
    struct dibs_options options = {.data_dir = f->data_dir, .platform = &f->world.platform};
    assert_ok(f, dibs_open(&options, &other, &f->err));
    begin(f);
    begin(f);
    assert_ok(f, create(f, "a"));
    commit(f);
    assert_false(exists_on(f, other, "a"));
    commit(f);
    assert_true(exists_on(f, other, "a"));
    begin(f);
    begin(f);
    assert_ok(f, create(f, "b"));
    commit(f);
    dibs_batch_cancel(f->d);
    assert_false(exists_on(f, f->d, "b"));
    dibs_close(other);
}

static void test_batches_nest_only_so_deep(void **state)
{
    struct fixture *f = *state;
    begin(f);
    for (int i = 0; i < BATCH_LEVELS_MAX; i++)
        begin(f);
    assert_refused(f, DIBS_STORE_BUSY, dibs_batch_begin(f->d, &f->err));
    assert_ok(f, create(f, "a"));
    for (int i = 0; i < BATCH_LEVELS_MAX; i++)
        commit(f);
    assert_ok(f, create(f, "b"));
    commit(f);
    assert_true(exists_on(f, f->d, "a") && exists_on(f, f->d, "b"));
    assert_refused(f, DIBS_STORE_BUSY, dibs_batch_commit(f->d, &f->err));
}

static dibs_status op_batch_in_batch(struct fixture *f)
{
    dibs_status status = dibs_batch_begin(f->d, &f->err);
    if (status != DIBS_OK)
        return status;
    status = create(f, "a");
    if (status == DIBS_OK)
        status = dibs_batch_begin(f->d, &f->err);
    if (status == DIBS_OK) {
        status = create(f, "b");
        if (status == DIBS_OK)
            status = dibs_batch_commit(f->d, &f->err);
        else
            dibs_batch_cancel(f->d);
    }
    if (status == DIBS_OK)
        return dibs_batch_commit(f->d, &f->err);
    dibs_batch_cancel(f->d);
    return status;
}

static void test_an_inner_batch_on_a_failing_store_leaves_all_or_nothing(void **state)
{
    struct fixture *f = *state;
    assert_true(probe_fail_each(f, op_batch_in_batch) > 10);
    assert_true(exists_on(f, f->d, "a") && exists_on(f, f->d, "b"));
}

struct batching {
    struct fixture *f;
    const char *kept;
};

/* The work of dibs_once: one batch kept, one undone, one left open. */
static dibs_status work_in_batches(dibs *d, dibs_arena *a, void *context, const char **answer,
                                   struct dibs_error *err)
{
    const struct batching *b = context;
    (void)a;
    (void)err;
    begin(b->f);
    assert_ok(b->f, create(b->f, b->kept));
    commit(b->f);
    begin(b->f);
    assert_ok(b->f, create(b->f, "undone"));
    dibs_batch_cancel(d);
    begin(b->f);
    assert_ok(b->f, create(b->f, "forgotten"));
    *answer = "done";
    return DIBS_OK;
}

static void test_work_that_is_done_once_may_batch(void **state)
{
    struct fixture *f = *state;
    const char *answer = NULL;
    bool repeated = false;
    for (int in_batch = 0; in_batch < 2; in_batch++) {
        const char *name = in_batch ? "a" : "b";
        struct batching job = {.f = f, .kept = name};
        struct dibs_once once = {
            .key = name, .request = "r", .work = work_in_batches, .context = &job};
        if (in_batch)
            begin(f);
        assert_ok(f, dibs_once(f->d, f->a, &once, &answer, &repeated, &f->err));
        if (in_batch)
            commit(f);
        assert_true(exists_on(f, f->d, name));
        assert_false(exists_on(f, f->d, "undone") || exists_on(f, f->d, "forgotten"));
        assert_ok(f, dibs_once(f->d, f->a, &once, &answer, &repeated, &f->err));
        assert_true(repeated);
    }
}

static dibs_status cancelled_then_refused(dibs *d, dibs_arena *a, void *context,
                                          const char **answer, struct dibs_error *err)
{
    struct fixture *f = context;
    struct dibs_claim out = {0};
    struct dibs_claim_take take = {.task_id = "a", .session_id = "t"};
    begin(f);
    assert_ok(f, create(f, "b"));
    dibs_batch_cancel(d);
    (void)answer;
    return dibs_claim_take(d, a, &take, &out, err);
}

/* A refusal inside dibs_once keeps its trace when it is all that happened. */
static void test_what_an_inner_batch_undid_did_not_happen(void **state)
{
    struct fixture *f = *state;
    const char *answer = NULL;
    bool repeated = false;
    struct dibs_once once = {
        .key = "k", .request = "r", .work = cancelled_then_refused, .context = f};
    make_session(f, "s");
    make_session(f, "t");
    make_task(f, "a");
    claim(f, "a", "s");
    assert_refused(f, DIBS_TASK_ALREADY_CLAIMED,
                   dibs_once(f->d, f->a, &once, &answer, &repeated, &f->err));
    assert_int_equal(events_of(f, "task:claim-refused").count, 1);
}

static void test_tokens_and_generated_ids_grow_through_batches_and_refusals(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {0};
    make_session(f, "s");
    assert_ok(f, create(f, "a"));
    assert_ok(f, create(f, "b"));
    assert_ok(f, create(f, "c"));
    int64_t first = claim(f, "a", "s").token;
    begin(f);
    int64_t second = claim(f, "b", "s").token;
    dibs_batch_cancel(f->d);
    begin(f);
    struct dibs_claim_take ghost = {.task_id = "b", .session_id = "ghost"};
    assert_refused(f, DIBS_SESSION_NOT_FOUND, dibs_claim_take(f->d, f->a, &ghost, &out, &f->err));
    int64_t third = claim(f, "b", "s").token;
    int64_t fourth = claim(f, "c", "s").token;
    commit(f);
    assert_true(first < second && first < third && third < fourth);
    fixture_reopen(f);
    struct dibs_lock_take lock = {.resource = "r", .session_id = "s"};
    assert_ok(f, dibs_lock_take(f->d, f->a, &lock, &out, &f->err));
    assert_true(out.token > fourth);
}

/* Tokens are drawn from a number that the handle keeps in memory as long as it may. */
static void test_two_handles_in_turns_never_draw_the_same_number(void **state)
{
    struct fixture *f = *state;
    dibs *other = fixture_open(f);
    int64_t last = 0;
    make_session(f, "s");
    for (int i = 0; i < 12; i++) {
        dibs *d = i % 3 == 2 ? other : f->d;
        struct dibs_task_list made = {0};
        struct dibs_claim claim = {0};
        struct dibs_task_new in = {.title = "a task"};
        assert_ok(f, dibs_task_create(d, f->a, &in, 1, &made, &f->err));
        struct dibs_claim_take take = {.task_id = made.items[0].id, .session_id = "s"};
        assert_ok(f, dibs_claim_take(d, f->a, &take, &claim, &f->err));
        assert_true(claim.token > last);
        last = claim.token;
    }
    assert_int_equal(events_of(f, "task:claimed").count, 12);
    dibs_close(other);
}

static dibs_status take(struct fixture *f, const char *id, int64_t *token)
{
    struct dibs_claim out = {0};
    struct dibs_claim_take in = {.task_id = id, .session_id = "s"};
    dibs_status status = dibs_claim_take(f->d, f->a, &in, &out, &f->err);
    *token = status == DIBS_OK ? out.token : *token;
    return status;
}

/* A claim that fails while it writes takes its batch with it; one that fails before does not, and
 * the next draws its token from the right number. */
static void test_a_failed_claim_leaves_numbers_and_neighbours_in_order(void **state)
{
    struct fixture *f = *state;
    dibs_status status = DIBS_STORE_UNAVAILABLE;
    int64_t before = 0;
    int went_on = 0, gave_up = 0;
    make_session(f, "s");
    make_task(f, "first");
    assert_ok(f, take(f, "first", &before));
    for (int call = 2; status != DIBS_OK; call++) {
        char ids[2][16];
        int64_t lost = 0, token = 0;
        for (int i = 0; i < 2; i++) {
            snprintf(ids[i], sizeof ids[i], "%c%d", 'a' + i, call);
            make_task(f, ids[i]);
        }
        fixture_reopen(f); /* nothing is remembered */
        begin(f);
        calls_left = call;
        db_should_fail = fail_at;
        status = take(f, ids[0], &lost);
        db_should_fail = NULL;
        dibs_status next = take(f, ids[1], &token);
        dibs_status end = dibs_batch_commit(f->d, &f->err);
        assert_int_equal(next == DIBS_OK, end == DIBS_OK);
        went_on += status != DIBS_OK && end == DIBS_OK;
        gave_up += end != DIBS_OK;
        if (end != DIBS_OK)
            assert_ok(f, take(f, ids[1], &token)); /* by itself */
        assert_true(token > before && (!lost || (lost > before && token > lost)));
        assert_int_equal(get_task(f, ids[0]).status,
                         status == DIBS_OK ? DIBS_TASK_IN_PROGRESS : DIBS_TASK_OPEN);
        before = token;
    }
    assert_true(went_on > 1 && gave_up > 1);
}

static void test_a_program_that_only_batches_sweeps_too(void **state)
{
    struct fixture *f = *state;
    dibs *d = NULL;
    struct dibs_options options = {.data_dir = f->data_dir, .platform = &f->world.platform};
    make_session(f, "s");
    make_task(f, "a");
    claim(f, "a", "s");
    world_pass(&f->world, MINUTES(31));
    assert_ok(f, dibs_open(&options, &d, &f->err));
    assert_ok(f, dibs_batch_begin(d, &f->err));
    assert_ok(f, dibs_batch_commit(d, &f->err));
    assert_int_equal(get_task(f, "a").status, DIBS_TASK_OPEN);
    dibs_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_refusal_leaves_no_trace),
        STORE_TEST(test_a_refused_claim_is_kept_in_the_journal_all_the_same),
        STORE_TEST(test_errors_may_be_left_unheard),
        STORE_TEST(test_an_error_is_forgotten_by_the_next_call),
        STORE_TEST(test_no_memory_is_answered_and_leaves_no_trace),
        STORE_TEST(test_a_refused_operation_does_not_harm_its_neighbours),
        STORE_TEST(test_a_failed_operation_undoes_only_itself),
        STORE_TEST(test_a_batch_in_which_nothing_can_be_undone_is_refused_as_a_whole),
        STORE_TEST(test_a_cancelled_batch_leaves_nothing),
        STORE_TEST(test_a_batch_that_is_closed_over_leaves_nothing),
        STORE_TEST(test_a_read_inside_the_batch_sees_it_and_others_do_not),
        STORE_TEST(test_a_batch_on_a_failing_store_leaves_all_or_nothing),
        STORE_TEST(test_there_is_nothing_to_commit_without_a_batch),
        STORE_TEST(test_an_inner_batch_is_undone_alone),
        STORE_TEST(test_an_inner_batch_is_on_disk_with_the_outermost),
        STORE_TEST(test_batches_nest_only_so_deep),
        STORE_TEST(test_an_inner_batch_on_a_failing_store_leaves_all_or_nothing),
        STORE_TEST(test_work_that_is_done_once_may_batch),
        STORE_TEST(test_what_an_inner_batch_undid_did_not_happen),
        STORE_TEST(test_tokens_and_generated_ids_grow_through_batches_and_refusals),
        STORE_TEST(test_two_handles_in_turns_never_draw_the_same_number),
        STORE_TEST(test_a_failed_claim_leaves_numbers_and_neighbours_in_order),
        STORE_TEST(test_a_program_that_only_batches_sweeps_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
