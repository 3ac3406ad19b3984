/* SPDX-License-Identifier: MIT */
/*
 * job.h: a piece of work that travels from the loop to a database thread and back.
 *
 *     loop thread: job made --submit--> writer or reader thread: job->run(job, store, arena)
 *                                          |
 *     loop thread: job->done(job)  <--mail--   (a writer's job only after its commit is on disk)
 *
 * The loop thread never touches the store; a database thread never touches a socket. Between
 * submit and done the job belongs to the other side, except for `gone` and `leaving`, which the
 * loop may set.
 */
#ifndef DIBS_JOB_H
#define DIBS_JOB_H

#include <stdatomic.h>
#include <uv.h>

#include "base/arena.h"
#include "base/base.h"

enum job_wait { JOB_WAITS_NOT, JOB_WAITS_FOR_TASK, JOB_WAITS_FOR_LOCK };

struct job {
    struct job *next;
    /* On a database thread. A writer runs it inside the transaction of its batch: what is refused
     * or fails must have undone itself, as each operation of the library does. May be run again
     * while it waits. */
    void (*run)(struct job *job, dibs *d, dibs_arena *a);
    /* On the loop thread; frees the job. */
    void (*done)(struct job *job);
    /* On the writer thread, after run(): the batch could not be committed, so what run() prepared
     * is void. `err` says why. NULL: nothing to take back. */
    void (*lost)(struct job *job, const struct dibs_error *err);
    /* On the writer thread, in a batch: it waited and will wait no longer (time is over, caller
     * gone). NULL: nothing to do. */
    void (*give_up)(struct job *job, dibs *d, dibs_arena *a);

    /* Set by run(): it found nothing and would wait for better, until then (steady clock, as
     * uv_hrtime() / 1000000). The writer runs it again when something has changed. */
    enum job_wait waits_for;
    int64_t wait_until_ms;
    int64_t look_at_ms; /* the writer's: it looks again then, whatever has changed */
    /* with JOB_WAITS_FOR_TASK, as in struct api_response: what of the pool, and for whom else */
    uint64_t wait_key; /* waiters with equal keys find the same; 0: like no other */
    bool wait_not_pool;
    uint64_t wait_agent, wait_leads;

    atomic_bool gone;    /* the caller has hung up: do not begin it, do not wait on */
    atomic_bool leaving; /* the caller has said its last: answer it, but do not wait on */
    bool urgent;         /* a heartbeat: goes first */
    bool has_waited;
    int64_t commit; /* the outbox's: what must be on disk before it may leave */
};

struct jobs {
    struct job *first, **last;
    int64_t count;
};
void jobs_init(struct jobs *q);
void jobs_add(struct jobs *q, struct job *job);
struct job *jobs_take(struct jobs *q);     /* NULL when empty */
struct job *jobs_take_all(struct jobs *q); /* linked by next */

/* Names the calling thread, as tools show it; at most 15 bytes. */
void job_name_thread(const char *name);

/* The way back to the loop: finished jobs, in order. */
struct mail {
    uv_async_t async;
    uv_mutex_t lock;
    struct jobs finished;
};
int mail_open(struct mail *m, uv_loop_t *loop);
void mail_send(struct mail *m, struct job *list); /* any thread; a list linked by next */
void mail_close(struct mail *m);                  /* loop thread; delivers what is still there */

#endif
