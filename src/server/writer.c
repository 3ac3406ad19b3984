/* SPDX-License-Identifier: MIT */
/*
 * writer.c: the one thread that writes, and its queue.
 *
 *     turn:  take all that queued up -> one transaction: each job, then those that wait -> commit
 *            -> answers to the outbox -> what is due (duty.c) -> next turn
 *     meanwhile, on a thread of the store's: flush -> outbox: answers on their way
 *
 *   1. No job goes back before the commit that holds it is on disk (outbox.c). When the commit
 *      fails every job of the batch is told so (job->lost).
 *   2. A job that is refused or fails has undone itself; its neighbours do not notice.
 *   3. Heartbeats go first: under too much load leases must not be lost for want of a turn.
 *   4. The thread ends when it is told to stop and the queue is empty, never before.
 */
#include "writer.h"

#include "base/log.h"
#include "core/durable.h"
#include "core/follow.h"
#include "core/serve.h"
#include "duty.h"
#include "waiting.h"

#define BATCH_JOBS_MAX 512 /* so that the first of them need not wait for too many others */

#define SMALL_BATCH_JOBS 8 /* fewer than these do not outweigh their commit */
#define OVERLAP_JOBS 4     /* fewer than these are not worth another thread */
#define SLOW_FLUSH_US 1000 /* a commit that takes longer is worth it */
#define MEASURE_EVERY 64   /* commits */
#define RETRY_MS 100       /* a store that could not be written to is not asked again at once */

struct writer {
    struct writer_options o;
    bool has_unseen; /* the loop's: jobs were added since it last woke the thread */
    uv_thread_t thread;
    uv_mutex_t lock;
    uv_cond_t wake;

    /* under the lock */
    struct jobs urgent, normal;
    bool stopping, draining, nudged, left, reload;
    int64_t durable;  /* commits: on disk; INT64_MAX when no more will be */
    bool awaits_disk; /* the thread waits for `durable` to move */
    struct writer_stats stats;

    /* the thread's own */
    int64_t committed;
    dibs *d;
    dibs_arena *a;
    struct waiting waiting;
    struct duty duty;
    int64_t others;      /* grows when somebody else has committed */
    int64_t retry_at_ms; /* for those who wait, after a failure */
    int64_t flush_us;    /* how long a commit takes that waits for the disk; a moving average */
    int64_t last_event;  /* of the newest commit; under the lock, as the next */
    int64_t last_event_on_disk;
};

/* What a turn begins with. */
struct turn {
    struct jobs jobs; /* not run yet */
    int64_t taken;    /* in all */
    bool nudged, left, draining, reload, over;
};

static int64_t steady_us(void)
{
    return (int64_t)(uv_hrtime() / 1000);
}

static int64_t steady_ms(void)
{
    return steady_us() / 1000;
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* must_look: whether those who wait must be looked after; not too soon after a failure. */
static bool must_look(const struct writer *w, int64_t now_ms)
{
    return now_ms >= w->retry_at_ms && waiting_is_due(&w->waiting, dibs__wakes(w->d), now_ms);
}

/* must_turn: under the lock. */
static bool must_turn(struct writer *w, int64_t now_ms)
{
    if (w->urgent.first != NULL || w->normal.first != NULL || w->nudged || w->left || w->reload ||
        w->stopping || w->draining != w->waiting.all_give_up)
        return true;
    return now_ms >= duty_next_ms(&w->duty) || must_look(w, now_ms);
}

static int64_t wake_at_ms(const struct writer *w)
{
    int64_t at = duty_next_ms(&w->duty), look_at = w->waiting.next_ms;
    if (w->waiting.list.first == NULL)
        return at;
    if (look_at < w->retry_at_ms)
        look_at = w->retry_at_ms;
    return look_at < at ? look_at : at;
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

/* take: under the lock; heartbeats first. */
static void take(struct writer *w, struct turn *t)
{
    struct job *job = NULL;
    while (t->taken < BATCH_JOBS_MAX && (job = jobs_take(&w->urgent)) != NULL) {
        jobs_add(&t->jobs, job);
        t->taken++;
    }
    while (t->taken < BATCH_JOBS_MAX && (job = jobs_take(&w->normal)) != NULL) {
        jobs_add(&t->jobs, job);
        t->taken++;
    }
}

static void take_turn(struct writer *w, struct turn *t)
{
    *t = (struct turn){0};
    jobs_init(&t->jobs);
    uv_mutex_lock(&w->lock);
    w->stats.parked = w->waiting.list.count;
    wait_for_turn(w);
    take(w, t);
    t->nudged = w->nudged;
    t->left = w->left;
    t->draining = w->draining;
    t->reload = w->reload;
    t->over = w->stopping && w->urgent.first == NULL && w->normal.first == NULL;
    w->nudged = w->left = w->reload = false;
    uv_mutex_unlock(&w->lock);
}

/*
 * take_more: while a flush is under way on its thread there is no hurry to commit, so what arrives
 * meanwhile comes into the same transaction. A small batch takes along what has arrived while it
 * ran, as its commit costs more than its jobs. False: nothing has come, or it is time to commit.
 * (With a disk that answers at once it does not pay to wait for more, nor to let a large batch
 * grow: callers would all wait for each other, and while the writer writes nobody would prepare the
 * next batch.)
 */
static bool take_more(struct writer *w, struct turn *t)
{
    uv_mutex_lock(&w->lock);
    w->awaits_disk = true;
    while (w->durable < w->committed && w->urgent.first == NULL && w->normal.first == NULL)
        uv_cond_wait(&w->wake, &w->lock);
    w->awaits_disk = false;
    if (w->durable < w->committed || t->taken < SMALL_BATCH_JOBS)
        take(w, t);
    uv_mutex_unlock(&w->lock);
    return t->jobs.first != NULL;
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

static void count_batch(struct writer *w, int64_t jobs, bool failed, int64_t began_us)
{
    int slot = 0;
    while (slot < 7 && jobs > (1 << slot))
        slot++;
    uv_mutex_lock(&w->lock);
    w->stats.commits += !failed;
    w->stats.failed_commits += failed;
    w->stats.jobs += jobs;
    w->stats.batch_jobs_le[slot]++;
    w->stats.busy_us += steady_us() - began_us;
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
        duty_notice_stall(&w->duty, w->d, steady_ms());
    }
    int64_t now = steady_ms();
    if (waiting_is_due(&w->waiting, dibs__wakes(w->d), now))
        waiting_run(&w->waiting, w->d, w->a, now, finished);
    duty_notice_stall(&w->duty, w->d, steady_ms());
}

/*
 * part: answers what is through and keeps what waits. Who waits now found nothing at some moment of
 * this batch; what came after that moment it has not seen, so it looks again at all that has
 * changed since `before`, the beginning.
 */
static void part(struct writer *w, struct jobs *finished, struct dibs_wakes before)
{
    struct jobs answered;
    struct job *job = NULL;
    jobs_init(&answered);
    while ((job = jobs_take(finished)) != NULL) {
        if (job->waits_for == JOB_WAITS_NOT || job->has_waited) {
            jobs_add(&answered, job);
            continue;
        }
        waiting_add(&w->waiting, job, steady_ms());
        w->waiting.seen = before;
        if (atomic_load(&job->gone) || atomic_load(&job->leaving))
            w->waiting.next_ms = 0; /* it may have left a ticket, which the next turn takes back */
    }
    outbox_send(w->o.outbox, jobs_take_all(&answered));
}

/* note_commit: tells the outbox how far we are. */
static void note_commit(struct writer *w)
{
    uv_mutex_lock(&w->lock);
    w->committed = dibs__commit_number(w->d);
    w->last_event = dibs__last_event(w->d);
    if (w->durable >= w->committed)
        w->last_event_on_disk = w->last_event;
    uv_mutex_unlock(&w->lock);
    outbox_committed(w->o.outbox, w->committed);
}

/*
 * commit: waits for the disk itself while the disk is fast, as handing the flush to another thread
 * and back costs more than it brings; a slow disk works beside us. How fast it is, is measured
 * whenever we wait ourselves, which now and then we always do.
 */
static dibs_status commit(struct writer *w, const struct turn *t, struct dibs_error *err)
{
    bool here = w->flush_us < SLOW_FLUSH_US || t->taken < OVERLAP_JOBS ||
                w->stats.commits % MEASURE_EVERY == 0;
    outbox_committing(w->o.outbox);
    dibs__flush_here(w->d, here);
    int64_t began = steady_us();
    dibs_status s = dibs_batch_commit(w->d, err);
    if (here)
        w->flush_us += (steady_us() - began - w->flush_us) / 8;
    note_commit(w);
    return s;
}

static void run_batch(struct writer *w, struct turn *t)
{
    struct dibs_error err = {0};
    struct jobs finished;
    int64_t began = steady_us();
    struct duty_mark mark = duty_mark(&w->duty);
    struct dibs_wakes before = dibs__wakes(w->d);
    jobs_init(&finished);
    dibs_status s = dibs_batch_begin(w->d, &err);
    if (s == DIBS_OK) {
        duty_notice_stall(&w->duty, w->d, steady_ms());
        do
            run_jobs(w, t, &finished);
        while (take_more(w, t));
        s = commit(w, t, &err);
    } else {
        struct job *job = NULL;
        while ((job = jobs_take(&t->jobs)) != NULL)
            jobs_add(&finished, job);
        waiting_lose(&w->waiting, steady_ms(), dibs__is_broken(), &finished);
        w->retry_at_ms = steady_ms() + RETRY_MS;
    }
    if (s != DIBS_OK) {
        lose_all(&finished, &err);
        duty_undo(&w->duty, mark);
    }
    count_batch(w, t->taken, s != DIBS_OK, began);
    part(w, &finished, before);
    if (s != DIBS_OK)
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
    if (t->reload) {
        dibs__reload(w->d, w->o.settings);
        duty_look_again(&w->duty);
        w->waiting.next_ms = 0;
    }
    w->waiting.look_every_ms = dibs__heard_every_ms(w->d);
    w->waiting.all_give_up = t->draining;
    if (t->left)
        w->waiting.next_ms = 0; /* all are gone through, to find who has left */
    if (t->nudged && others_wrote(w)) {
        w->waiting.look = true;
        duty_look_again(&w->duty);
    }
    if (t->jobs.first != NULL || must_look(w, steady_ms()))
        run_batch(w, t);
    if (duty_is_due(&w->duty, steady_ms())) {
        outbox_committing(w->o.outbox);
        duty_notice_stall(&w->duty, w->d, steady_ms());
        duty_turn(&w->duty, w->d, w->a, steady_ms());
        note_commit(w);
    }
}

static void write_jobs(void *context)
{
    struct writer *w = context;
    job_name_thread("dibs-writer");
    struct turn t = {0};
    do {
        take_turn(w, &t);
        turn(w, &t);
    } while (!t.over || w->waiting.list.first != NULL);
    duty_end(&w->duty, w->d);
    note_commit(w);
    (void)!outbox_settle(w->o.outbox); /* if it cannot, everybody has been told */
}

static void on_durable(void *context, int64_t commit)
{
    struct writer *w = context;
    uv_mutex_lock(&w->lock);
    w->durable = commit < 0 ? INT64_MAX : commit;
    if (commit >= w->committed)
        w->last_event_on_disk = w->last_event;
    bool awaited = w->awaits_disk;
    uv_mutex_unlock(&w->lock);
    outbox_durable(w->o.outbox, commit);
    if (awaited)
        uv_cond_signal(&w->wake);
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
    s = dibs__overlap(w->d, on_durable, w, err);
    if (s == DIBS_OK)
        s = duty_begin(&w->duty, w->d, steady_ms(), err);
    note_commit(w);
    return s;
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
    if (taken)
        jobs_add(job->urgent ? &w->urgent : &w->normal, job);
    uv_mutex_unlock(&w->lock);
    w->has_unseen = w->has_unseen || taken;
    return taken;
}

void writer_wake(struct writer *w)
{
    if (w->has_unseen)
        uv_cond_signal(&w->wake); /* unlocked, else it would wake up only to wait for the lock */
    w->has_unseen = false;
}

/* raise_flag: sets one of the flags under the lock and wakes the thread. */
static void raise_flag(struct writer *w, bool *flag)
{
    uv_mutex_lock(&w->lock);
    *flag = true;
    uv_mutex_unlock(&w->lock);
    uv_cond_signal(&w->wake);
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
    dibs_close(w->d); /* ends the thread that flushes, too: nothing is sent from here any more */
    w->d = NULL;
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

int64_t writer_last_event(struct writer *w)
{
    uv_mutex_lock(&w->lock);
    int64_t number = w->last_event_on_disk;
    uv_mutex_unlock(&w->lock);
    return number;
}

struct writer_stats writer_stats(struct writer *w)
{
    uv_mutex_lock(&w->lock);
    struct writer_stats stats = w->stats;
    stats.queued = w->urgent.count + w->normal.count;
    uv_mutex_unlock(&w->lock);
    return stats;
}
