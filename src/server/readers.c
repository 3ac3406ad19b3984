/* SPDX-License-Identifier: MIT */
/*
 * readers.c: a few threads, each with a connection of its own, that take jobs from one queue.
 *
 * Nothing here can change the store. A read sees one consistent state of it and never waits for the
 * writer. Each job runs by itself and goes back at once.
 */
#include "readers.h"

#include <assert.h>

#include "core/serve.h"

struct readers {
    uv_mutex_t lock;
    uv_cond_t wake;
    struct jobs queue;
    bool stopping;
    struct outbox *outbox;
    int count; /* threads that run */
    struct reader {
        struct readers *all;
        uv_thread_t thread;
        dibs *d;
        dibs_arena *a;
        int64_t settings_seen;
    } each[READERS_COUNT];
    struct dibs_strings settings;
    atomic_int_least64_t settings_version;
};

static struct job *next_job(struct readers *r)
{
    uv_mutex_lock(&r->lock);
    while (r->queue.first == NULL && !r->stopping)
        uv_cond_wait(&r->wake, &r->lock);
    struct job *job = jobs_take(&r->queue);
    uv_mutex_unlock(&r->lock);
    return job;
}

static void read_jobs(void *context)
{
    struct reader *me = context;
    struct job *job = NULL;
    job_name_thread("dibs-reader");
    while ((job = next_job(me->all)) != NULL) {
        int64_t version = atomic_load(&me->all->settings_version);
        if (version != me->settings_seen)
            dibs__reload(me->d, me->all->settings);
        me->settings_seen = version;
        if (!atomic_load(&job->gone))
            job->run(job, me->d, me->a);
        dibs_arena_reset(me->a);
        outbox_send(me->all->outbox, job);
    }
}

static dibs_status start_one(struct readers *r, struct reader *me, const struct readers_options *in,
                             struct dibs_error *err)
{
    me->all = r;
    me->a = dibs_arena_new();
    if (me->a == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot start a reader: out of memory");
    dibs_status s = dibs_open(
        &(struct dibs_options){.data_dir = in->data_dir, .settings = in->settings}, &me->d, err);
    if (s != DIBS_OK)
        return s;
    dibs__serve(me->d);
    int rc = uv_thread_create(&me->thread, read_jobs, me);
    if (rc != 0)
        return error_set(err, DIBS_INTERNAL, "cannot start a reader: %s", uv_strerror(rc));
    r->count++;
    return DIBS_OK;
}

dibs_status readers_start(const struct readers_options *in, struct readers **out,
                          struct dibs_error *err)
{
    struct readers *r = mem_alloc(sizeof *r);
    if (r == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot start the readers: out of memory");
    r->outbox = in->outbox;
    r->settings = in->settings;
    jobs_init(&r->queue);
    if (uv_mutex_init(&r->lock) != 0) {
        mem_free(r);
        return error_set(err, DIBS_INTERNAL, "cannot start the readers: no mutex");
    }
    if (uv_cond_init(&r->wake) != 0) {
        uv_mutex_destroy(&r->lock);
        mem_free(r);
        return error_set(err, DIBS_INTERNAL, "cannot start the readers: no condition variable");
    }
    dibs_status s = DIBS_OK;
    for (int i = 0; i < READERS_COUNT && s == DIBS_OK; i++)
        s = start_one(r, &r->each[i], in, err);
    if (s != DIBS_OK) {
        readers_stop(r);
        readers_free(r);
        return s;
    }
    *out = r;
    return DIBS_OK;
}

bool readers_submit(struct readers *r, struct job *job)
{
    uv_mutex_lock(&r->lock);
    bool taken = !r->stopping && r->queue.count < READERS_QUEUE_MAX;
    if (taken)
        jobs_add(&r->queue, job);
    uv_mutex_unlock(&r->lock);
    if (taken)
        uv_cond_signal(&r->wake);
    return taken;
}

int64_t readers_queued(struct readers *r)
{
    uv_mutex_lock(&r->lock);
    int64_t count = r->queue.count;
    uv_mutex_unlock(&r->lock);
    return count;
}

void readers_reload(struct readers *r)
{
    atomic_fetch_add(&r->settings_version, 1);
}

void readers_stop(struct readers *r)
{
    uv_mutex_lock(&r->lock);
    r->stopping = true;
    uv_cond_broadcast(&r->wake);
    uv_mutex_unlock(&r->lock);
    for (int i = 0; i < r->count; i++)
        uv_thread_join(&r->each[i].thread);
    r->count = 0;
    assert(r->queue.first == NULL);
}

void readers_free(struct readers *r)
{
    if (r == NULL)
        return;
    for (int i = 0; i < READERS_COUNT; i++) {
        dibs_close(r->each[i].d);
        dibs_arena_free(r->each[i].a);
    }
    uv_cond_destroy(&r->wake);
    uv_mutex_destroy(&r->lock);
    mem_free(r);
}
