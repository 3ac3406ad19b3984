/* SPDX-License-Identifier: MIT */
/*
 * durable.h: for a daemon's writer: committing without standing still until the disk has answered.
 *
 * After dibs__overlap a commit on this handle returns when the transaction stands, which everybody
 * can see by then, but before it is on disk; a thread flushes it meanwhile. So the answers of a
 * batch must wait: take dibs__commit_number after dibs_batch_commit has returned DIBS_OK, and send
 * them when on_durable has been called with that number or a larger one. The same goes for events
 * that leave the machine, and for a refusal, which may rest on what is not on disk yet.
 *
 *   1. on_durable is called on the flushing thread, with growing numbers; it must not use the
 *      handle. Once with -1: a flush has failed, nothing further will be durable, end this process.
 *   2. A batch in which nothing was written has the number of the commit before it, of which
 *      on_durable may have been told already.
 *   3. dibs_close flushes, and calls on_durable for the last time, before it returns.
 */
#ifndef DIBS_CORE_DURABLE_H
#define DIBS_CORE_DURABLE_H

#include "base/base.h"

dibs_status dibs__overlap(dibs *d, void (*on_durable)(void *context, int64_t commit), void *context,
                          struct dibs_error *err) MUST_USE;
/* Whether the next commits wait for the disk themselves after all: worth it when there is nothing
 * to do meanwhile. on_durable is called for them too, from within the commit. */
void dibs__flush_here(dibs *d, bool here);
/* The handle's last commit that wrote something; they are counted from 1. */
int64_t dibs__commit_number(const dibs *d);
/* The number of the newest event among them; 0: none yet. */
int64_t dibs__last_event(const dibs *d);
/* Waits until that commit is on disk; false: it never will be. */
bool dibs__wait_durable(dibs *d, int64_t commit) MUST_USE;

#endif
