/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/once.c: a request under a key acts once and is answered the same every time.
 */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the work of a test does; how often it ran. */
struct job {
    struct fixture *f;
    const char *first, *second; /* tasks to create; the second may exist already */
    const char *claims;         /* task to claim for session "t" */
    bool swallow;               /* a refusal inside is not its own answer */
    int runs;
};

static dibs_status create(dibs *d, dibs_arena *a, const char *id, struct dibs_error *err)
{
    struct dibs_task_list out = {0};
    struct dibs_task_new in = {.id = id, .title = id};
    return id ? dibs_task_create(d, a, &in, 1, &out, err) : DIBS_OK;
}

static dibs_status do_job(dibs *d, dibs_arena *a, void *context, const char **answer,
                          struct dibs_error *err)
{
    struct job *job = context;
    job->runs++;
    dibs_status status = create(d, a, job->first, err);
    if (status == DIBS_OK)
        status = create(d, a, job->second, err);
    if (status == DIBS_OK && job->claims) {
        struct dibs_claim claimed = {0};
        struct dibs_claim_take take = {.task_id = job->claims, .session_id = "t"};
        status = dibs_claim_take(d, a, &take, &claimed, err);
    }
    *answer = "{\"answer\":1}";
    return job->swallow ? DIBS_OK : status;
}

struct reply {
    dibs_status status;
    const char *answer;
    bool repeated;
};

static struct reply ask(struct fixture *f, const char *key, const char *request, struct job *job)
{
    struct reply r = {.answer = "untouched", .repeated = true};
    struct dibs_once once = {.key = key, .request = request, .work = do_job, .context = job};
    r.status = dibs_once(f->d, f->a, &once, &r.answer, &r.repeated, &f->err);
    return r;
}

static bool exists(struct fixture *f, const char *id)
{
    struct dibs_task out = {0};
    dibs_status status = dibs_task_get(f->d, f->a, id, &out, &f->err);
    assert_true(status == DIBS_OK || status == DIBS_TASK_NOT_FOUND);
    return status == DIBS_OK;
}

static int64_t keys(struct fixture *f)
{
    return probe_int(f, "SELECT count(*) FROM idempotency");
}

static void test_a_repeat_is_answered_the_same_and_does_nothing(void **state)
{
    struct fixture *f = *state;
    struct job job = {.first = "a"};
    struct reply r = ask(f, "key", "POST /tasks a", &job);
    assert_int_equal(r.status, DIBS_OK);
    assert_string_equal(r.answer, "{\"answer\":1}");
    assert_false(r.repeated);
    for (int i = 0; i < 3; i++) {
        fixture_reopen(f); /* the answer is in the store, not in the handle */
        r = ask(f, "key", "POST /tasks a", &job);
        assert_int_equal(r.status, DIBS_OK);
        assert_string_equal(r.answer, "{\"answer\":1}");
        assert_true(r.repeated);
    }
    assert_int_equal(job.runs, 1);
    assert_int_equal(events_of(f, NULL).count, 1);
}

static void test_another_request_under_the_same_key_is_refused(void **state)
{
    struct fixture *f = *state;
    struct job job = {.first = "a"};
    assert_int_equal(ask(f, "key", "one", &job).status, DIBS_OK);
    struct reply r = ask(f, "key", "another", &job);
    assert_int_equal(r.status, DIBS_IDEMPOTENCY_KEY_REUSED);
    assert_string_equal(f->err.message,
                        "idempotency key 'key' was used for another request; choose a new one");
    assert_string_equal(r.answer, "untouched");
    assert_int_equal(job.runs, 1);
    job.first = "b";
    assert_int_equal(ask(f, "another key", "another", &job).status, DIBS_OK);
    assert_true(exists(f, "b"));
}

static void test_keys_are_checked(void **state)
{
    struct fixture *f = *state;
    struct job job = {0};
    char key[258];
    memset(key, 'k', 257);
    key[257] = '\0';
    assert_int_equal(ask(f, NULL, "r", &job).status, DIBS_INVALID_REQUEST);
    assert_string_equal(f->err.field, "idempotencyKey");
    assert_int_equal(ask(f, "", "r", &job).status, DIBS_INVALID_REQUEST);
    assert_int_equal(ask(f, key, "r", &job).status, DIBS_INVALID_REQUEST);
    assert_int_equal(job.runs, 0);
    key[256] = '\0';
    assert_int_equal(ask(f, key, NULL, &job).status, DIBS_OK); /* no request text: an empty one */
    assert_true(ask(f, key, "", &job).repeated);
}

static void test_a_refusal_is_not_stored(void **state)
{
    struct fixture *f = *state;
    struct job job = {.first = "a"};
    make_task(f, "a");
    struct reply r = ask(f, "key", "r", &job);
    assert_int_equal(r.status, DIBS_TASK_EXISTS);
    assert_string_equal(r.answer, "untouched");
    assert_int_equal(keys(f), 0);
    job.first = "b"; /* what was in the way is gone: the same key may try again */
    assert_int_equal(ask(f, "key", "r", &job).status, DIBS_OK);
    assert_int_equal(job.runs, 2);
}

static void test_work_whose_second_operation_is_refused_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct job job = {.first = "new", .second = "taken"};
    make_task(f, "taken");
    assert_int_equal(ask(f, "key", "r", &job).status, DIBS_TASK_EXISTS);
    assert_false(exists(f, "new"));
    assert_int_equal(events_of(f, NULL).count, 1);
    assert_int_equal(keys(f), 0);
}

static void given_held_task(struct fixture *f)
{
    make_session(f, "s");
    make_session(f, "t");
    make_task(f, "held");
    claim(f, "held", "s");
}

static void test_a_refused_claim_that_was_all_stays_on_record(void **state)
{
    struct fixture *f = *state;
    struct job job = {.claims = "held"};
    given_held_task(f);
    assert_int_equal(ask(f, "key", "r", &job).status, DIBS_TASK_ALREADY_CLAIMED);
    assert_string_equal(f->err.holder, "s");
    assert_int_equal(events_of(f, "task:claim-refused").count, 1);
    assert_int_equal(keys(f), 0);
}

static void test_a_refused_claim_after_other_work_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct job job = {.first = "new", .claims = "held"};
    given_held_task(f);
    assert_int_equal(ask(f, "key", "r", &job).status, DIBS_TASK_ALREADY_CLAIMED);
    assert_false(exists(f, "new"));
    assert_int_equal(events_of(f, "task:claim-refused").count, 0);
}

static void test_work_may_swallow_a_refusal_and_keep_the_rest(void **state)
{
    struct fixture *f = *state;
    struct job job = {.first = "new", .second = "taken", .swallow = true};
    make_task(f, "taken");
    assert_int_equal(ask(f, "key", "r", &job).status, DIBS_OK);
    assert_true(exists(f, "new"));
    assert_int_equal(keys(f), 1);
}

/* ---- failures -------------------------------------------------------------------------------- */

static struct job failing_job = {.first = "a", .second = "b"};

static dibs_status op_once(struct fixture *f)
{
    const char *answer = NULL;
    bool repeated = false;
    struct dibs_once once = {.key = "k", .request = "r", .work = do_job, .context = &failing_job};
    return dibs_once(f->d, f->a, &once, &answer, &repeated, &f->err);
}

static void test_a_failure_takes_back_both_the_work_and_the_key(void **state)
{
    struct fixture *f = *state;
    failing_job.runs = 0;
    int failures = probe_fail_each(f, op_once);
    assert_true(failures > 8);
    assert_true(failing_job.runs > 5); /* most failed in the middle of the work */
    assert_true(exists(f, "a") && exists(f, "b"));
    assert_int_equal(keys(f), 1);
}

/* ---- inside other things --------------------------------------------------------------------- */

static void test_inside_a_batch_the_key_is_stored_with_the_batch(void **state)
{
    struct fixture *f = *state;
    struct job one = {.first = "a"}, two = {.first = "b", .second = "a"}, three = {.first = "c"};
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    assert_int_equal(ask(f, "k1", "r", &one).status, DIBS_OK);
    assert_true(ask(f, "k1", "r", &one).repeated); /* the batch sees its own */
    assert_int_equal(ask(f, "k2", "r", &two).status, DIBS_TASK_EXISTS);
    assert_int_equal(ask(f, "k3", "r", &three).status, DIBS_OK);
    assert_ok(f, dibs_batch_commit(f->d, &f->err));
    assert_int_equal(keys(f), 2);
    assert_true(exists(f, "a") && exists(f, "c") && !exists(f, "b"));
    assert_int_equal(events_of(f, NULL).count, 2); /* nothing is told of what was undone */
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    struct job four = {.first = "d"};
    assert_int_equal(ask(f, "k4", "r", &four).status, DIBS_OK);
    dibs_batch_cancel(f->d);
    assert_int_equal(keys(f), 2);
    assert_false(exists(f, "d"));
    assert_false(ask(f, "k4", "r", &four).repeated); /* it has not happened: it happens now */
    assert_int_equal(four.runs, 2);
}

static dibs_status outer_work(dibs *d, dibs_arena *a, void *context, const char **answer,
                              struct dibs_error *err)
{
    bool repeated = false;
    dibs_status status = create(d, a, "outer", err);
    if (status != DIBS_OK)
        return status;
    struct dibs_once inner = {.key = "inner", .request = "r", .work = do_job, .context = context};
    return dibs_once(d, a, &inner, answer, &repeated, err);
}

static void test_one_inside_another_undoes_the_outer_work_too(void **state)
{
    struct fixture *f = *state;
    struct job job = {.claims = "held"};
    const char *answer = NULL;
    bool repeated = false;
    given_held_task(f);
    struct dibs_once outer = {.key = "outer", .request = "r", .work = outer_work, .context = &job};
    assert_refused(f, DIBS_TASK_ALREADY_CLAIMED,
                   dibs_once(f->d, f->a, &outer, &answer, &repeated, &f->err));
    assert_false(exists(f, "outer")); /* it was refused: nothing of it may stay */
    assert_int_equal(keys(f), 0);
    job.claims = NULL;
    assert_ok(f, dibs_once(f->d, f->a, &outer, &answer, &repeated, &f->err));
    assert_int_equal(keys(f), 2);
}

static dibs_status ends_the_batch(dibs *d, dibs_arena *a, void *context, const char **answer,
                                  struct dibs_error *err)
{
    (void)answer;
    dibs_status status = create(d, a, "inside", err);
    if (status != DIBS_OK)
        return status;
    dibs_batch_cancel(d); /* neither may pull the transaction away from under the work */
    *(dibs_status *)context = dibs_batch_commit(d, err);
    return DIBS_OK;
}

static void test_work_cannot_end_the_batch_it_runs_in(void **state)
{
    struct fixture *f = *state;
    dibs_status commit_inside = DIBS_OK;
    const char *answer = NULL;
    bool repeated = false;
    struct dibs_once once = {
        .key = "k", .request = "r", .work = ends_the_batch, .context = &commit_inside};
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    assert_ok(f, dibs_once(f->d, f->a, &once, &answer, &repeated, &f->err));
    assert_int_equal(commit_inside, DIBS_STORE_BUSY);
    assert_ok(f, dibs_batch_commit(f->d, &f->err));
    assert_true(exists(f, "inside"));
}

static void test_a_repeated_claim_is_given_the_same_token(void **state)
{
    struct fixture *f = *state;
    struct job job = {.claims = "a"};
    make_session(f, "t");
    make_task(f, "a");
    assert_int_equal(ask(f, "k", "r", &job).status, DIBS_OK);
    int64_t token = get_task(f, "a").claim->token;
    assert_true(ask(f, "k", "r", &job).repeated);
    assert_int_equal(get_task(f, "a").claim->token, token);
    assert_int_equal(get_task(f, "a").claim->heartbeat_count, 0);
    assert_int_equal(events_of(f, "task:claimed").count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_repeat_is_answered_the_same_and_does_nothing),
        STORE_TEST(test_another_request_under_the_same_key_is_refused),
        STORE_TEST(test_keys_are_checked),
        STORE_TEST(test_a_refusal_is_not_stored),
        STORE_TEST(test_work_whose_second_operation_is_refused_leaves_nothing),
        STORE_TEST(test_a_refused_claim_that_was_all_stays_on_record),
        STORE_TEST(test_a_refused_claim_after_other_work_leaves_nothing),
        STORE_TEST(test_work_may_swallow_a_refusal_and_keep_the_rest),
        STORE_TEST(test_a_failure_takes_back_both_the_work_and_the_key),
        STORE_TEST(test_inside_a_batch_the_key_is_stored_with_the_batch),
        STORE_TEST(test_one_inside_another_undoes_the_outer_work_too),
        STORE_TEST(test_work_cannot_end_the_batch_it_runs_in),
        STORE_TEST(test_a_repeated_claim_is_given_the_same_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
