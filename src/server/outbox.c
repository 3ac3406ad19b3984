/* SPDX-License-Identifier: MIT */
/*
 * outbox.c: see outbox.h.
 *
 *   1. Jobs leave in the order in which they came, so an answer never overtakes one before it.
 *   2. What a job can have seen is at most the newest commit at the moment it is sent: that number
 *      is noted under the lock, and the job stays until it is on disk. While the writer commits the
 *      number is not known; what is sent meanwhile gets it afterwards.
 *   3. A failed flush is final.
 */
#include "outbox.h"

#define NOT_KNOWN INT64_MAX /* larger than every commit, so nothing that waits for it leaves */

struct outbox {
    struct outbox_options o;
    uv_mutex_t lock;
    uv_cond_t moved;
    struct jobs held; /* each with the commit it waits for; in ascending order */
    int64_t committed, durable;
    int64_t known; /* the newest commit whose number is known */
    int64_t told;  /* how often one was: whoever waits for a number must not miss it between two */
    bool broken;
};

struct outbox *outbox_new(const struct outbox_options *in)
{
    struct outbox *o = mem_alloc(sizeof *o);
    if (o == NULL)
        return NULL;
    o->o = *in;
    jobs_init(&o->held);
    if (uv_mutex_init(&o->lock) != 0 || uv_cond_init(&o->moved) != 0)
        abort(); /* only for lack of memory, before anything was promised */
    return o;
}

void outbox_free(struct outbox *o)
{
    if (o == NULL)
        return;
    uv_cond_destroy(&o->moved);
    uv_mutex_destroy(&o->lock);
    mem_free(o);
}

static void lose(struct job *list)
{
    struct dibs_error err = {0};
    error_set(&err, DIBS_STORE_UNAVAILABLE,
              "a flush to disk has failed: whether this was done is not known");
    for (struct job *job = list; job != NULL; job = job->next)
        if (job->lost != NULL)
            job->lost(job, &err);
}

/* ready: takes out, under the lock, the jobs that may leave now. */
static struct job *ready(struct outbox *o)
{
    struct jobs out;
    struct job *job = NULL;
    jobs_init(&out);
    while (o->held.first != NULL && (o->broken || o->held.first->commit <= o->durable)) {
        job = jobs_take(&o->held);
        jobs_add(&out, job);
    }
    return jobs_take_all(&out);
}

void outbox_durable(struct outbox *o, int64_t commit)
{
    uv_mutex_lock(&o->lock);
    o->broken = o->broken || commit < 0;
    if (commit > o->durable)
        o->durable = commit;
    bool broken = o->broken;
    struct job *list = ready(o);
    if (broken)
        lose(list);
    mail_send(o->o.mail, list); /* before anybody can see that all is done, and end */
    uv_cond_broadcast(&o->moved);
    uv_mutex_unlock(&o->lock);
    (broken ? o->o.on_broken : o->o.on_durable)(o->o.context);
}

void outbox_committing(struct outbox *o)
{
    uv_mutex_lock(&o->lock);
    o->committed = NOT_KNOWN;
    uv_mutex_unlock(&o->lock);
}

void outbox_committed(struct outbox *o, int64_t commit)
{
    uv_mutex_lock(&o->lock);
    o->committed = o->known = commit;
    o->told++;
    for (struct job *job = o->held.first; job != NULL; job = job->next)
        if (job->commit == NOT_KNOWN)
            job->commit = commit;
    struct job *list = o->broken ? NULL : ready(o);
    uv_cond_broadcast(&o->moved);
    uv_mutex_unlock(&o->lock);
    mail_send(o->o.mail, list);
}

void outbox_send(struct outbox *o, struct job *list)
{
    uv_mutex_lock(&o->lock);
    for (struct job *next = NULL; list != NULL; list = next) {
        next = list->next;
        list->commit = o->committed;
        jobs_add(&o->held, list);
    }
    bool broken = o->broken;
    list = ready(o);
    uv_mutex_unlock(&o->lock);
    if (broken)
        lose(list);
    mail_send(o->o.mail, list);
}

bool outbox_settle(struct outbox *o)
{
    uv_mutex_lock(&o->lock);
    int64_t seen = o->committed, told = o->told;
    while (o->durable < seen && !o->broken) {
        uv_cond_wait(&o->moved, &o->lock);
        if (seen == NOT_KNOWN && o->told != told)
            seen = o->known;
    }
    bool fine = !o->broken;
    uv_mutex_unlock(&o->lock);
    return fine;
}
