/* SPDX-License-Identifier: MIT */
/*
 * stopped.c: a holder that stands still (SIGSTOP, a debugger, a laptop's lid) beyond the end of its
 * lease, wakes up and goes on as if nothing had happened. It must be told, and do no harm.
 *
 * Fifty at once: they stop, their leases of one second end, others claim, they go on. Where another
 * session has claimed the holder is told NOT_CLAIM_OWNER; where its own session has come back as a
 * new process and claimed again, STALE_TOKEN.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"
#include "workers.h"

#define HOLDERS 50
#define PATIENCE_MS (60 * 1000)

enum { ACT_CLAIM, ACT_HEARTBEAT, ACT_PROGRESS, ACT_RELEASE, ACT_COMPLETE, ACT_COUNT };

struct stage {
    volatile int64_t holding; /* how many hold their task */
    volatile int64_t awake;   /* 1: they may go on */
    int64_t expires_at_ms[HOLDERS];
};

static const char *const settings[] = {"minTTL=1s", "autoCleanup=off"};

static bool others_have_claimed(void *context)
{
    return ((struct stage *)context)->awake != 0;
}

static void note_answer(struct worker *w, int act, dibs_status status)
{
    struct note n = {.act = act, .status = (int32_t)status};
    snprintf(n.holder, sizeof n.holder, "%.47s", w->err.holder);
    worker_note(w, n);
}

static void hold_and_come_back(struct worker *w)
{
    struct stage *stage = w->context;
    struct dibs_claim claim = {0};
    struct dibs_released released = {0};
    struct dibs_task task = {0};
    char id[16], result[32];
    snprintf(id, sizeof id, "t%d", w->number);
    snprintf(result, sizeof result, "{\"late\":%d}", w->number);
    worker_open(w);
    worker_register(w);
    struct dibs_claim_take take = {.task_id = id, .session_id = w->id, .ttl_ms = 1000};
    must(w, dibs_claim_take(w->d, w->a, &take, &claim, &w->err));
    worker_note(w, (struct note){.act = ACT_CLAIM, .token = claim.token});
    stage->expires_at_ms[w->number] = claim.expires_at_ms;
    __atomic_add_fetch(&stage->holding, 1, __ATOMIC_SEQ_CST);
    check(w, wait_until(others_have_claimed, stage, PATIENCE_MS)); /* stopped in here */

    int64_t token = claim.token;
    struct dibs_heartbeat beat = {.task_id = id, .session_id = w->id, .token = token};
    struct dibs_progress progress = {
        .task_id = id, .session_id = w->id, .token = token, .percent = DIBS_VALUE(50)};
    struct dibs_release release = {.task_id = id, .session_id = w->id, .token = token};
    struct dibs_report report = {
        .task_id = id, .session_id = w->id, .token = token, .result = result};
    note_answer(w, ACT_HEARTBEAT, dibs_claim_heartbeat(w->d, w->a, &beat, &claim, &w->err));
    note_answer(w, ACT_PROGRESS, dibs_claim_progress(w->d, w->a, &progress, &claim, &w->err));
    note_answer(w, ACT_RELEASE, dibs_claim_release(w->d, w->a, &release, &released, &w->err));
    note_answer(w, ACT_COMPLETE, dibs_complete(w->d, w->a, &report, &task, &w->err));
}

static void make_tasks(struct place *p, int count)
{
    dibs *d = place_open(p);
    dibs_arena *a = dibs_arena_new();
    struct dibs_error err = {0};
    for (int i = 0; i < count; i++) {
        char id[16];
        struct dibs_task_list made = {0};
        snprintf(id, sizeof id, "t%d", i);
        struct dibs_task_new in = {.id = id, .title = "a task"};
        assert_int_equal(dibs_task_create(d, a, &in, 1, &made, &err), DIBS_OK);
    }
    dibs_arena_free(a);
    dibs_close(d);
}

/* ---- the others ------------------------------------------------------------------------------ */

struct others {
    dibs *d;
    dibs_arena *a;
    struct dibs_error err;
    struct stage *stage;
    int64_t tokens[HOLDERS];
};

static bool all_hold(void *context)
{
    return ((struct others *)context)->stage->holding == HOLDERS;
}

static bool all_leases_have_ended(void *context)
{
    struct others *o = context;
    int64_t now = 0;
    if (dibs_now(o->d, &now, &o->err) != DIBS_OK)
        return false;
    for (int i = 0; i < HOLDERS; i++)
        if (now < o->stage->expires_at_ms[i])
            return false;
    return true;
}

static void register_as(struct others *o, const char *id)
{
    struct dibs_session session = {0};
    struct dibs_session_new in = {.id = id};
    assert_int_equal(dibs_session_register(o->d, o->a, &in, &session, &o->err), DIBS_OK);
}

/* Even ones are claimed by another session, odd ones by the holder's own in a new incarnation. */
static const char *claimer_of(int i, char out[16])
{
    snprintf(out, 16, i % 2 ? "w%d" : "other", i);
    return out;
}

static void claim_all(struct others *o)
{
    for (int i = 0; i < HOLDERS; i++) {
        char id[16], who[16];
        struct dibs_claim claim = {0};
        snprintf(id, sizeof id, "t%d", i);
        register_as(o, claimer_of(i, who));
        struct dibs_claim_take in = {.task_id = id, .session_id = who, .ttl_ms = 600000};
        assert_int_equal(dibs_claim_take(o->d, o->a, &in, &claim, &o->err), DIBS_OK);
        assert_false(claim.extended);
        assert_true(claim.claimed_at_ms >= o->stage->expires_at_ms[i]);
        o->tokens[i] = claim.token;
    }
}

/* ---- what became of it ----------------------------------------------------------------------- */

static void expect_refusals(struct crew *c, int i)
{
    struct notes n = crew_notes(c, i);
    assert_int_equal(n.count, ACT_COUNT);
    for (int act = ACT_HEARTBEAT; act < ACT_COUNT; act++) {
        assert_int_equal(n.items[act].status, i % 2 ? DIBS_STALE_TOKEN : DIBS_NOT_CLAIM_OWNER);
        if (i % 2 == 0)
            assert_string_equal(n.items[act].holder, "other");
    }
    free(n.items);
}

static void expect_unharmed(struct others *o, int i)
{
    char id[16], who[16], late[32];
    struct dibs_task task = {0};
    struct dibs_history history = {0};
    snprintf(id, sizeof id, "t%d", i);
    snprintf(late, sizeof late, "{\"late\":%d}", i);
    assert_int_equal(dibs_task_get(o->d, o->a, id, &task, &o->err), DIBS_OK);
    assert_int_equal(task.status, DIBS_TASK_IN_PROGRESS);
    assert_int_equal(task.claim->token, o->tokens[i]);
    assert_int_equal(task.claim->progress_percent, -1);
    assert_int_equal(dibs_task_history(o->d, o->a, id, &history, &o->err), DIBS_OK);
    assert_int_equal(history.attempt_count, 2);
    assert_string_equal(history.attempts[0].end_reason, "expired");
    assert_non_null(history.attempts[0].late_result);
    assert_string_equal(history.attempts[0].late_result, late);
    struct dibs_report done = {
        .task_id = id, .session_id = claimer_of(i, who), .token = o->tokens[i], .result = "1"};
    assert_int_equal(dibs_complete(o->d, o->a, &done, &task, &o->err), DIBS_OK);
    assert_string_equal(task.result, "1");
}

static void test_a_holder_that_was_stopped_beyond_its_lease_is_refused_and_its_result_kept(
    void **state)
{
    struct place *p = *state;
    p->settings = (struct dibs_strings){.items = settings, .count = 2};
    struct others o = {.stage = shared_memory(sizeof *o.stage), .a = dibs_arena_new()};
    make_tasks(p, HOLDERS);
    struct crew *c = crew_start(p, HOLDERS, hold_and_come_back, o.stage);
    assert_true(wait_until(all_hold, &o, PATIENCE_MS));
    for (int i = 0; i < HOLDERS; i++)
        crew_signal(c, i, SIGSTOP);
    o.d = place_open(p);
    assert_true(wait_until(all_leases_have_ended, &o, PATIENCE_MS));
    claim_all(&o);
    o.stage->awake = 1;
    for (int i = 0; i < HOLDERS; i++)
        crew_signal(c, i, SIGCONT);
    crew_wait(c);
    for (int i = 0; i < HOLDERS; i++) {
        expect_refusals(c, i);
        expect_unharmed(&o, i);
    }
    crew_free(c);
    dibs_arena_free(o.a);
    dibs_close(o.d);
}

/* ---- stopped in the middle of a write -------------------------------------------------------- */

static void begin_and_wait(struct worker *w)
{
    struct stage *stage = w->context;
    struct dibs_task_list made = {0};
    struct dibs_task_new in = {.id = "half", .title = "never committed"};
    worker_open(w);
    must(w, dibs_batch_begin(w->d, &w->err));
    must(w, dibs_task_create(w->d, w->a, &in, 1, &made, &w->err));
    stage->holding = HOLDERS;
    check(w, wait_until(others_have_claimed, stage, PATIENCE_MS));
}

static void write_behind(struct worker *w)
{
    struct stage *stage = w->context;
    worker_open(w);
    stage->expires_at_ms[w->number] = 1; /* about to ask */
    worker_register(w);
    __atomic_add_fetch(&stage->holding, 1, __ATOMIC_SEQ_CST);
}

static bool all_ask(void *context)
{
    struct others *o = context;
    return o->stage->expires_at_ms[0] && o->stage->expires_at_ms[1] && o->stage->expires_at_ms[2];
}

static void test_a_writer_killed_in_its_turn_leaves_nothing_and_lets_the_others_on(void **state)
{
    struct place *p = *state;
    struct others o = {.stage = shared_memory(sizeof *o.stage), .a = dibs_arena_new()};
    struct dibs_task task = {0};
    make_tasks(p, 1);
    struct crew *stopped = crew_start(p, 1, begin_and_wait, o.stage);
    assert_true(wait_until(all_hold, &o, PATIENCE_MS));
    crew_signal(stopped, 0, SIGSTOP);
    o.stage->holding = 0;
    struct crew *waiting = crew_start(p, 3, write_behind, o.stage);
    assert_true(wait_until(all_ask, &o, PATIENCE_MS));
    assert_int_equal(o.stage->holding, 0); /* nobody overtakes the one whose turn it is */
    crew_kill(stopped);
    crew_wait(waiting);
    assert_int_equal(o.stage->holding, 3);
    crew_free(waiting);
    crew_free(stopped);
    o.d = place_open(p);
    assert_int_equal(dibs_task_get(o.d, o.a, "half", &task, &o.err), DIBS_TASK_NOT_FOUND);
    dibs_arena_free(o.a);
    dibs_close(o.d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_a_holder_that_was_stopped_beyond_its_lease_is_refused_and_its_result_kept),
        PLACE_TEST(test_a_writer_killed_in_its_turn_leaves_nothing_and_lets_the_others_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
