/* SPDX-License-Identifier: MIT */
/*
 * replay.h: the journal played back, event by event, with a suspicious eye.
 *
 * It notices a gap in the numbers, a token that does not grow, a task or an exclusive lock granted
 * while somebody holds it, a task completed twice. It remembers every grant, and when each task was
 * there for the taking, so that a test can ask whether "nothing to claim" was ever the truth.
 */
#ifndef TEST_REPLAY_H
#define TEST_REPLAY_H

#include "dibs.h"

struct replay_grant {
    int64_t token;
    int64_t number; /* of the event */
    char subject[64], session[48];
    bool is_lock, shared;
    char ended[32]; /* type of the event that ended it; "" while it is held */
    bool was_dead;  /* it was ended because its holder's process was dead */
};

/* A task could be claimed from event `from` on until event `to`, once the clock showed due_ms. */
struct replay_chance {
    int64_t from, to, due_ms; /* to = INT64_MAX: still */
    int type;                 /* see replay_type */
    bool held;                /* due_ms is the deadline of its lease */
};

struct replay;

struct replay *replay_new(void);
void replay_free(struct replay *r);
/* Plays what has been added to the journal since the last time. Returns NULL, or what is wrong. */
const char *replay_run(struct replay *r, dibs *d);

int64_t replay_events(const struct replay *r, const char *type); /* how many of a type */
size_t replay_grant_count(const struct replay *r);
const struct replay_grant *replay_grant_at(const struct replay *r, size_t index);
const struct replay_grant *replay_find(const struct replay *r, int64_t token); /* NULL: none */
size_t replay_held(const struct replay *r); /* grants not ended */

/* Whether the answer "nothing to claim" may be true: at some point between event `from` and event
 * `to` no task (of this type; NULL: of any) could be claimed at that time. */
bool replay_was_empty(const struct replay *r, const char *type, int64_t from, int64_t to,
                      int64_t at_ms);

#endif
