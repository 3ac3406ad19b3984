/* SPDX-License-Identifier: MIT */
/*
 * writer.h: the one thread that writes.
 *
 * It takes everything that queued up while the last commit was running and does it in one
 * transaction, commits once, and only then sends the answers on their way. Between batches it
 * tends to what is due (leases that end, tasks that become ready, the periodic sweep) and wakes
 * those that wait.
 */
#ifndef DIBS_WRITER_H
#define DIBS_WRITER_H

#include "job.h"
#include "outbox.h"

#define WRITER_QUEUE_MAX 20000 /* jobs that may wait; beyond it callers are told to come later */

struct writer;

struct writer_stats {
    int64_t commits, jobs, failed_commits;
    bool failing;             /* the last commit failed */
    int64_t queued, parked;   /* now */
    int64_t busy_us;          /* time inside transactions */
    int64_t batch_jobs_le[8]; /* batches of up to 1, 2, 4, 8, 16, 32, 64, more jobs */
    int64_t extended_ms;      /* by how much leases were extended after stalls and restarts */
};

struct writer_options {
    const char *data_dir;
    struct dibs_strings settings;
    struct outbox *outbox; /* where answers wait for the disk */
    /* a batch could not be committed: writer thread; must only leave a hint */
    void (*on_failure)(void *context, const struct dibs_error *err);
    void *context;
};

dibs_status writer_start(const struct writer_options *in, struct writer **out,
                         struct dibs_error *err) MUST_USE;
/* False: the queue is full, or it stops; the job stays the caller's. Loop thread. */
bool writer_submit(struct writer *w, struct job *job) MUST_USE;
/* Lets the thread know of what was submitted: once, before the loop sleeps, so that requests which
 * came in together share a transaction. Loop thread. */
void writer_wake(struct writer *w);
/* Somebody else has written to the store: all that wait look again. Any thread. */
void writer_nudge(struct writer *w);
/* The caller of a job that may be waiting has gone or is leaving: let go of it. Any thread. */
void writer_forget(struct writer *w);
/* Reads the settings again before the next batch. Any thread. */
void writer_reload(struct writer *w);
/* From now on nobody waits any longer: all that do are answered. Any thread. */
void writer_drain(struct writer *w);
/* Finishes what was accepted and ends the thread. Blocks. */
void writer_stop(struct writer *w);
void writer_free(struct writer *w); /* after writer_stop; NULL is fine */
/* The newest event of the writer's that is on disk; everything that was answered is up to there. */
int64_t writer_last_event(struct writer *w);        /* any thread */
struct writer_stats writer_stats(struct writer *w); /* any thread */

#endif
