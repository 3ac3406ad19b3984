/* SPDX-License-Identifier: MIT */
/*
 * waiting.h: the writer's jobs that found nothing and would rather wait than hear it.
 *
 * In order of arrival. They look again, inside a batch, when a task has become ready, a lock was
 * let go, or there is something for their agent; for the last time when their time is over. And now
 * and then, whatever has changed: a session that waits counts as heard, and is so by looking. Of
 * those that ask for the same of the pool, the first that finds nothing speaks for all behind it,
 * so a thousand idle workers cost one look; and what is for one agent makes no other look
 * (core/wake.c).
 */
#ifndef DIBS_WAITING_H
#define DIBS_WAITING_H

#include "core/serve.h"
#include "job.h"

struct waiting {
    struct jobs list;
    int64_t next_ms;        /* steady: when the first of them gives up or must look again */
    int64_t look_every_ms;  /* dibs__heard_every_ms */
    struct dibs_wakes seen; /* what they have looked at */
    bool look;              /* somebody else has written: look at everything */
    bool all_give_up;       /* the daemon stops */
};
void waiting_init(struct waiting *w);
/* One that has just looked. */
void waiting_add(struct waiting *w, struct job *job, int64_t now_ms);
/* Whether waiting_run has something to do. */
bool waiting_is_due(const struct waiting *w, struct dibs_wakes now, int64_t now_ms);
/* Inside a batch: lets those look that may find something; who is through goes to `finished`. */
void waiting_run(struct waiting *w, dibs *d, dibs_arena *a, int64_t now_ms, struct jobs *finished);
/* When the store cannot be used: those that may not wait any longer (with `all`, everybody) go to
 * `finished` without another look. */
void waiting_lose(struct waiting *w, int64_t now_ms, bool all, struct jobs *finished);

#endif
