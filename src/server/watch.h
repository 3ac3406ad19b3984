/* SPDX-License-Identifier: MIT */
/*
 * watch.h: processes of sessions on this host, watched by pidfd: when one dies, its session is
 * ended and its claims are free at once. Loop thread only.
 */
#ifndef DIBS_WATCH_H
#define DIBS_WATCH_H

#include <uv.h>

#include "base/base.h"
#include "readers.h"
#include "writer.h"

#define WATCHED_MAX 4096 /* descriptors; beyond it the periodic sweep finds the dead */

struct watch;

struct watch_options {
    uv_loop_t *loop;
    struct readers *readers; /* looks up who runs here */
    struct writer *writer;   /* is given a job for each death */
    int64_t *jobs_out;       /* counts jobs that are under way */
};
struct watch *watch_new(const struct watch_options *in); /* NULL when out of memory */
/* Looks up which sessions run here and watches those it does not watch yet. At start, and after
 * each session:registered and session:deregistered; many calls in a row cost one look. */
void watch_refresh(struct watch *w);
int64_t watch_count(const struct watch *w);
void watch_stop(struct watch *w); /* closes all handles */
void watch_free(struct watch *w); /* after the loop has run out; NULL is fine */

#endif
