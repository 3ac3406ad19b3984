/* SPDX-License-Identifier: MIT */
/*
 * outbox.h: answers that wait for the disk.
 *
 * The writer commits without waiting for the flush; meanwhile it goes on with the next batch.
 * Whatever was done, or only read, after a commit may tell of it, so it leaves when that commit is
 * on disk: answers of the writer, answers of the readers, and the journal. Any thread.
 */
#ifndef DIBS_OUTBOX_H
#define DIBS_OUTBOX_H

#include "job.h"

struct outbox;

struct outbox_options {
    struct mail *mail;
    void (*on_durable)(void *context); /* something more is on disk; must only leave a hint */
    void (*on_broken)(void *context);  /* a flush has failed: nothing more ever will be */
    void *context;
};
struct outbox *outbox_new(const struct outbox_options *in); /* NULL when out of memory */
void outbox_free(struct outbox *o);                         /* NULL is fine */

/* The writer is about to commit: whoever looks from now on may see what has no number yet. */
void outbox_committing(struct outbox *o);
/* It has: this is the newest commit there is. Numbers count up; the same again: nothing was new. */
void outbox_committed(struct outbox *o, int64_t commit);
/* That commit and all before it are on disk; -1: the flush has failed. */
void outbox_durable(struct outbox *o, int64_t commit);
/* Sends jobs (linked by next) on their way once everything they can have seen is on disk. When it
 * will never be, they are lost first (job->lost). */
void outbox_send(struct outbox *o, struct job *list);
/* Waits until everything that can have been seen so far is on disk; false: it never will be. */
bool outbox_settle(struct outbox *o) MUST_USE;

#endif
