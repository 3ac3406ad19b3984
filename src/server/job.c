/* SPDX-License-Identifier: MIT */
/*
 * job.c: the way back from the database threads to the loop, and the queue they take from.
 *
 * uv_async_send() may fold several sends into one wake-up, so the wake-up only says "look": the
 * list under the lock is the truth.
 */
#include "job.h"

#include <assert.h>
#include <sys/prctl.h>

/* ---- lists ----------------------------------------------------------------------------------- */

void jobs_init(struct jobs *q)
{
    *q = (struct jobs){.last = &q->first};
}

void jobs_add(struct jobs *q, struct job *job)
{
    job->next = NULL;
    *q->last = job;
    q->last = &job->next;
    q->count++;
}

struct job *jobs_take(struct jobs *q)
{
    struct job *job = q->first;
    if (job == NULL)
        return NULL;
    q->first = job->next;
    if (q->first == NULL)
        q->last = &q->first;
    q->count--;
    job->next = NULL;
    return job;
}

struct job *jobs_take_all(struct jobs *q)
{
    struct job *all = q->first;
    jobs_init(q);
    return all;
}

void job_name_thread(const char *name)
{
    prctl(PR_SET_NAME, name, 0, 0, 0); /* for top and perf; nothing depends on it */
}

/* ---- mail ------------------------------------------------------------------------------------ */

static void deliver(struct mail *m)
{
    uv_mutex_lock(&m->lock);
    struct job *job = jobs_take_all(&m->finished);
    uv_mutex_unlock(&m->lock);
    while (job != NULL) {
        struct job *next = job->next;
        job->done(job);
        job = next;
    }
}

static void on_mail(uv_async_t *async)
{
    deliver(async->data);
}

int mail_open(struct mail *m, uv_loop_t *loop)
{
    int rc = uv_mutex_init(&m->lock);
    if (rc != 0)
        return rc;
    jobs_init(&m->finished);
    m->async.data = m;
    rc = uv_async_init(loop, &m->async, on_mail);
    if (rc != 0)
        uv_mutex_destroy(&m->lock);
    return rc;
}

void mail_send(struct mail *m, struct job *list)
{
    if (list == NULL)
        return;
    uv_mutex_lock(&m->lock);
    for (struct job *next = NULL; list != NULL; list = next) {
        next = list->next;
        jobs_add(&m->finished, list);
    }
    uv_mutex_unlock(&m->lock);
    uv_async_send(&m->async);
}

static void on_closed(uv_handle_t *handle)
{
    struct mail *m = handle->data;
    uv_mutex_destroy(&m->lock);
}

void mail_close(struct mail *m)
{
    deliver(m);
    assert(m->finished.first == NULL);
    uv_close((uv_handle_t *)&m->async, on_closed);
}
