/* SPDX-License-Identifier: MIT */
/*
 * duty.h: what the writer does without being asked: ends leases at their deadline, makes delayed
 * tasks ready, sweeps now and then, and gives leases back the time in which nobody could be heard.
 */
#ifndef DIBS_DUTY_H
#define DIBS_DUTY_H

#include "base/base.h"

struct duty {
    int64_t tended_ms, tend_at_ms; /* steady clock, as all of these */
    int64_t sweep_at_ms;
    int64_t alive_at_ms;
    int64_t went_on_ms;  /* the last moment in which the writer is known to have been at work */
    int64_t extended_ms; /* sum of all extensions */
    bool complained;     /* the last attempt failed and was logged */
};

/* At start: extends leases by the time in which no daemon ran. */
dibs_status duty_begin(struct duty *k, dibs *d, int64_t now_ms, struct dibs_error *err) MUST_USE;
/* After each step, in a batch or not: time that was lost since the last is given back to all
 * leases. */
void duty_notice_stall(struct duty *k, dibs *d, int64_t now_ms);
/* What a batch that cannot be committed has given back is given back again by the next step. */
struct duty_mark {
    int64_t went_on_ms, extended_ms;
};
struct duty_mark duty_mark(const struct duty *k);
void duty_undo(struct duty *k, struct duty_mark mark);
/* Something was written, here or elsewhere: deadlines may be nearer than they were. */
void duty_look_again(struct duty *k);
bool duty_is_due(const struct duty *k, int64_t now_ms);
/* Does what is due. */
void duty_turn(struct duty *k, dibs *d, dibs_arena *a, int64_t now_ms);
int64_t duty_next_ms(const struct duty *k); /* when it wants its next turn */
/* At the end: notes until when heartbeats were heard. */
void duty_end(struct duty *k, dibs *d);

#endif
