/* SPDX-License-Identifier: MIT */
/*
 * writer.c: the one thread that writes, and its queue.
 *
 *     turn:  take all that queued up -> one transaction: each job, then those that wait -> commit
 *            -> answers on their way -> what is due (duty.c) -> next turn
 *
 *   1. No job goes back before the commit that holds it is on disk. When the commit fails every job
 *      of the batch is told so (job->lost).
 *   2. A job that is refused or fails has undone itself; its neighbours do not notice.
 *   3. Heartbeats go first: under too much load leases must not be lost for want of a turn.
 *   4. The thread ends when it is told to stop and the queue is empty, never before.
 */
#include "writer.h"

#include <assert.h>

#include "base/log.h"
#include "core/follow.h"
#include "core/serve.h"
#include "duty.h"
#include "waiting.h"

#define BATCH_JOBS_MAX 512 /* so that the first of them need not wait for too many others */

struct writer {
    struct writer_options o;
    uv_thread_t thread;
    uv_mutex_t lock;
    uv_cond_t wake;

    /* under the lock */
    struct jobs urgent, normal;
    bool stopping, draining, nudged, left, reload;
    struct writer_stats stats;

    /* the thread's own */
    dibs *d;
    dibs_arena *a;
    struct waiting waiting;
    struct duty duty;
    int64_t others; /* grows when somebody else has committed */
};

/* What a turn begins with. */
struct turn {
    struct jobs jobs;
    bool nudged, left, draining, reload, over;
};

static int64_t steady_ms(void)
{
    return (int64_t)(uv_hrtime() / 1000000);
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* must_turn: under the lock. */
static bool must_turn(struct writer *w, int64_t now_ms)
{
    if (w->urgent.first != NULL || w->normal.first != NULL || w->nudged || w->left || w->reload ||
        w->stopping || w->draining != w->waiting.all_give_up)
        return true;
    return now_ms >= duty_next_ms(&w->duty) ||
           waiting_is_due(&w->waiting, dibs__wakes(w->d), now_ms);
}

static int64_t wake_at_ms(const struct writer *w)
{
    int64_t at = duty_next_ms(&w->duty);
    return w->waiting.list.first != NULL && w->waiting.next_ms < at ? w->waiting.next_ms : at;
}

static void wait_for_turn(struct writer *w)
{
    for (;;) {
        int64_t now = steady_ms();
        if (must_turn(w, now))
            return;
        int64_t left = wake_at_ms(w) - now;
        uv_cond_timedwait(&w->wake, &w->lock, (uint64_t)(left > 0 ? left : 1) * 1000000);
    }
}

static void take_turn(struct writer *w, struct turn *t)
{
    struct job *job = NULL;
    *t = (struct turn){0};
    jobs_init(&t->jobs);
    uv_mutex_lock(&w->lock);
    w->stats.parked = w->waiting.list.count;
    wait_for_turn(w);
    while (t->jobs.count < BATCH_JOBS_MAX && (job = jobs_take(&w->urgent)) != NULL)
        jobs_add(&t->jobs, job);
    while (t->jobs.count < BATCH_JOBS_MAX && (job = jobs_take(&w->normal)) != NULL)
        jobs_add(&t->jobs, job);
    t->nudged = w->nudged;
    t->left = w->left;
    t->draining = w->draining;
    t->reload = w->reload;
    t->over = w->stopping && w->urgent.first == NULL && w->normal.first == NULL;
    w->nudged = w->left = w->reload = false;
    uv_mutex_unlock(&w->lock);
}

/* ---- one transaction ------------------------------------------------------------------------- */

static void lose_all(struct jobs *finished, const struct dibs_error *err)
{
    for (struct job *job = finished->first; job != NULL; job = job->next) {
        job->waits_for = JOB_WAITS_NOT;
        if (job->lost != NULL)
            job->lost(job, err);
    }
}

static void count_batch(struct writer *w, int64_t jobs, bool failed, int64_t began_ms)
{
    int slot = 0;
    while (slot < 7 && jobs > (1 << slot))
        slot++;
    uv_mutex_lock(&w->lock);
    w->stats.commits += !failed;
    w->stats.failed_commits += failed;
    w->stats.jobs += jobs;
    w->stats.batch_jobs_le[slot]++;
    w->stats.busy_us += (int64_t)(uv_hrtime() / 1000) - began_ms;
    w->stats.failing = failed;
    w->stats.extended_ms = w->duty.extended_ms;
    uv_mutex_unlock(&w->lock);
}

static void run_jobs(struct writer *w, struct turn *t, struct jobs *finished)
{
    struct job *job = NULL;
    while ((job = jobs_take(&t->jobs)) != NULL) {
        if (!atomic_load(&job->gone))
            job->run(job, w->d, w->a);
        dibs_arena_reset(w->a);
        jobs_add(finished, job);
    }
    int64_t now = steady_ms();
    if (waiting_is_due(&w->waiting, dibs__wakes(w->d), now))
        waiting_run(&w->waiting, w->d, w->a, now, finished);
}

/* part: answers what is through and keeps what waits. */
static void part(struct writer *w, struct jobs *finished)
{
    struct jobs answered;
    struct job *job = NULL;
    jobs_init(&answered);
    while ((job = jobs_take(finished)) != NULL) {
        bool waits = job->waits_for != JOB_WAITS_NOT && !job->has_waited &&
                     !w->waiting.all_give_up && !atomic_load(&job->gone) &&
                     !atomic_load(&job->leaving);
        if (waits)
            waiting_add(&w->waiting, job);
        else
            jobs_add(&answered, job);
    }
    mail_send(w->o.mail, jobs_take_all(&answered));
}

static void run_batch(struct writer *w, struct turn *t)
{
    struct dibs_error err = {0};
    struct jobs finished;
    int64_t count = t->jobs.count, began = (int64_t)(uv_hrtime() / 1000);
    jobs_init(&finished);
    dibs_status s = dibs_batch_begin(w->d, &err);
    if (s == DIBS_OK) {
        run_jobs(w, t, &finished);
        s = dibs_batch_commit(w->d, &err);
    } else {
        struct job *job = NULL;
        while ((job = jobs_take(&t->jobs)) != NULL)
            jobs_add(&finished, job);
    }
    if (s != DIBS_OK)
        lose_all(&finished, &err);
    count_batch(w, count, s != DIBS_OK, began);
    part(w, &finished);
    if (s == DIBS_OK)
        w->o.on_commit(w->o.context);
    else
        w->o.on_failure(w->o.context, &err);
    duty_look_again(&w->duty);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* others_wrote: the counter of this connection does not move for its own commits. */
static bool others_wrote(struct writer *w)
{
    int64_t before = w->others;
    w->others = dibs__change_counter(w->d);
    return w->others != before;
}

static void turn(struct writer *w, struct turn *t)
{
    if (t->reload)
        dibs__reload(w->d, w->o.settings);
    duty_notice_stall(&w->duty, w->d, steady_ms());
    w->waiting.all_give_up = t->draining;
    if (t->left)
        w->waiting.next_ms = 0; /* all are gone through, to find who has left */
    if (t->nudged && others_wrote(w)) {
        w->waiting.look = true;
        duty_look_again(&w->duty);
    }
    if (t->jobs.first != NULL || waiting_is_due(&w->waiting, dibs__wakes(w->d), steady_ms()))
        run_batch(w, t);
    if (duty_turn(&w->duty, w->d, w->a, steady_ms()))
        w->o.on_commit(w->o.context);
    w->duty.turned_ms = steady_ms();
}

static void write_jobs(void *context)
{
    struct writer *w = context;
    struct turn t = {0};
    do {
        take_turn(w, &t);
        turn(w, &t);
    } while (!t.over);
    assert(w->waiting.list.first == NULL);
    duty_end(&w->duty, w->d);
}

static dibs_status open_parts(struct writer *w, struct dibs_error *err)
{
    w->a = dibs_arena_new();
    if (w->a == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot start the writer: out of memory");
    dibs_status s = dibs_open(
        &(struct dibs_options){.data_dir = w->o.data_dir, .settings = w->o.settings}, &w->d, err);
    if (s != DIBS_OK)
        return s;
    dibs__serve(w->d);
    return duty_begin(&w->duty, w->d, steady_ms(), err);
}

dibs_status writer_start(const struct writer_options *in, struct writer **out,
                         struct dibs_error *err)
{
    struct writer *w = mem_alloc(sizeof *w);
    if (w == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot start the writer: out of memory");
    w->o = *in;
    jobs_init(&w->urgent);
    jobs_init(&w->normal);
    waiting_init(&w->waiting);
    if (uv_mutex_init(&w->lock) != 0 || uv_cond_init(&w->wake) != 0)
        abort(); /* only for lack of memory, before anything was promised */
    dibs_status s = open_parts(w, err);
    int rc = s == DIBS_OK ? uv_thread_create(&w->thread, write_jobs, w) : 0;
    if (rc != 0)
        s = error_set(err, DIBS_INTERNAL, "cannot start the writer: %s", uv_strerror(rc));
    if (s != DIBS_OK) {
        writer_free(w);
        return s;
    }
    *out = w;
    return DIBS_OK;
}

bool writer_submit(struct writer *w, struct job *job)
{
    uv_mutex_lock(&w->lock);
    int64_t queued = w->urgent.count + w->normal.count;
    bool taken = !w->stopping && queued < WRITER_QUEUE_MAX;
    if (taken) {
        jobs_add(job->urgent ? &w->urgent : &w->normal, job);
        uv_cond_signal(&w->wake);
    }
    uv_mutex_unlock(&w->lock);
    return taken;
}

/* raise_flag: sets one of the flags under the lock and wakes the thread. */
static void raise_flag(struct writer *w, bool *flag)
{
    uv_mutex_lock(&w->lock);
    *flag = true;
    uv_cond_signal(&w->wake);
    uv_mutex_unlock(&w->lock);
}

void writer_nudge(struct writer *w)
{
    raise_flag(w, &w->nudged);
}

void writer_forget(struct writer *w)
{
    raise_flag(w, &w->left);
}

void writer_reload(struct writer *w)
{
    raise_flag(w, &w->reload);
}

void writer_drain(struct writer *w)
{
    raise_flag(w, &w->draining);
}

void writer_stop(struct writer *w)
{
    writer_drain(w);
    raise_flag(w, &w->stopping);
    uv_thread_join(&w->thread);
}

void writer_free(struct writer *w)
{
    if (w == NULL)
        return;
    dibs_close(w->d);
    dibs_arena_free(w->a);
    uv_cond_destroy(&w->wake);
    uv_mutex_destroy(&w->lock);
    mem_free(w);
}

struct writer_stats writer_stats(struct writer *w)
{
    uv_mutex_lock(&w->lock);
    struct writer_stats stats = w->stats;
    stats.queued = w->urgent.count + w->normal.count;
    uv_mutex_unlock(&w->lock);
    return stats;
}
