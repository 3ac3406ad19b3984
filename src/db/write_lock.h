/* SPDX-License-Identifier: MIT */
/*
 * write_lock.h: one writer at a time, in the order of arrival, among all processes that use a data
 * file. Private to the room.
 */
#ifndef DIBS_WRITE_LOCK_H
#define DIBS_WRITE_LOCK_H

#include "base/base.h"

struct write_lock {
    char *path; /* the lock file: the data file's path and ".lock" */
    int fd;     /* -1: not open */
    bool held;
};

/* Opens the lock file beside `data_path`, making it if need be. Locks nothing yet. */
dibs_status write_lock_open(struct write_lock *lock, const char *data_path, struct dibs_error *err)
    MUST_USE;
/* Lets go of the lock if it is held. Safe to call twice and on {.fd = -1}. */
void write_lock_close(struct write_lock *lock);

/* Waits for the turn, as long as it takes; a signal does not end the wait. */
dibs_status write_lock_take(struct write_lock *lock, struct dibs_error *err) MUST_USE;
void write_lock_release(struct write_lock *lock); /* nothing happens when it is not held */

/* Process that holds the lock of a data file: 0 when nobody does, -1 when it cannot be told. */
int64_t write_lock_holder(const char *data_path);

#endif
