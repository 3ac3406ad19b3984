/* SPDX-License-Identifier: MIT */
/*
 * fault_rows_serve.c: what a daemon does beside the operations (core/serve.h), as rows of
 * fault_rows.h.
 */
#include "core/serve.h"
#include "fault_calls.h"
#include "fault_rows.h"

ASK(tend, dibs__tend, struct dibs_due)
ASK(sessions_here, dibs__sessions_here, struct dibs_local_sessions)

static dibs_status alive(struct scene *s, dibs_arena *a)
{
    (void)a;
    return dibs__alive(s->d, &s->err);
}

static dibs_status after_downtime(struct scene *s, dibs_arena *a)
{
    (void)a;
    BODY(int64_t, dibs__after_downtime(s->d, &out, &s->err))
}

static dibs_status extend_leases(struct scene *s, dibs_arena *a)
{
    (void)a;
    return dibs__extend_leases(s->d, SECONDS(5), "stall", &s->err);
}

static dibs_status process_ended(struct scene *s, dibs_arena *a)
{
    return dibs__session_process_ended(s->d, a, "dead", 1, &s->err);
}

static dibs_status give_up(struct scene *s, dibs_arena *a)
{
    (void)a;
    return dibs__lock_give_up(s->d, "one", "bob-1", &s->err);
}

/* The daemon was alive once, and has been away since. */
static void prepare_downtime(struct scene *s)
{
    int64_t by = 0;
    assert_int_equal(dibs__after_downtime(s->d, &by, &s->err), DIBS_OK);
    world_pass(&s->f->world, SECONDS(10));
}

static void prepare_ticket(struct scene *s)
{
    struct dibs_claim out = {0};
    struct dibs_lock_take in = {.resource = "one", .session_id = "bob-1", .wait_ms = SECONDS(60)};
    dibs__serve(s->d);
    assert_int_equal(dibs_batch_begin(s->d, &s->err), DIBS_OK);
    assert_int_equal(dibs_lock_take(s->d, s->f->a, &in, &out, &s->err), DIBS_LOCK_HELD);
    assert_int_equal(dibs_batch_commit(s->d, &s->err), DIBS_OK);
}

static dibs_status take_with_ticket(struct scene *s, dibs_arena *a)
{
    struct dibs_lock_take in = {.resource = "one", .session_id = "bob-1", .wait_ms = SECONDS(60)};
    dibs__serve(s->d);
    dibs_status status = dibs_batch_begin(s->d, &s->err);
    if (status != DIBS_OK)
        return status;
    struct dibs_claim out = {0};
    struct dibs_error refused = {0};
    status = dibs_lock_take(s->d, a, &in, &out, &refused);
    if (dibs_status_is_failure(status)) {
        dibs_batch_cancel(s->d);
        s->err = refused;
        return status;
    }
    dibs_status committed = dibs_batch_commit(s->d, &s->err);
    if (committed == DIBS_OK)
        s->err = refused;
    return committed == DIBS_OK ? status : committed;
}

const struct fault_row fault_serve_rows[] = {
    {"dibs__tend", NULL, tend, DIBS_OK, false, NULL},
    {"dibs__alive", NULL, alive, DIBS_OK, false, NULL},
    {"dibs__after_downtime", NULL, after_downtime, DIBS_OK, false, prepare_downtime},
    {"dibs__extend_leases", NULL, extend_leases, DIBS_OK, false, NULL},
    {"dibs__sessions_here", NULL, sessions_here, DIBS_OK, false, NULL},
    {"dibs__session_process_ended", NULL, process_ended, DIBS_OK, false, NULL},
    {"dibs__lock_give_up", NULL, give_up, DIBS_OK, false, prepare_ticket},
    {"dibs_lock_take", "inside a daemon's batch", take_with_ticket, DIBS_LOCK_HELD, false, NULL},
    {0},
};
