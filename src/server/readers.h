/* SPDX-License-Identifier: MIT */
/*
 * readers.h: threads that answer what only reads, each with its own connection to the store.
 */
#ifndef DIBS_READERS_H
#define DIBS_READERS_H

#include "job.h"
#include "outbox.h"

#define READERS_COUNT 2
#define READERS_QUEUE_MAX 10000

struct readers;

struct readers_options {
    const char *data_dir;
    struct dibs_strings settings;
    struct outbox *outbox; /* where answers wait for the disk */
};
dibs_status readers_start(const struct readers_options *in, struct readers **out,
                          struct dibs_error *err) MUST_USE;
bool readers_submit(struct readers *r, struct job *job) MUST_USE; /* false: full, or it stops */
int64_t readers_queued(struct readers *r);
/* Each reads the settings again before its next job. Any thread. */
void readers_reload(struct readers *r);
void readers_stop(struct readers *r); /* finishes what was accepted */
void readers_free(struct readers *r);

#endif
