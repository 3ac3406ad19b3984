/* SPDX-License-Identifier: MIT */
/*
 * follow.h: the journal for those who follow it for long: short steps that tell how far they have
 * looked, the same filter for events that are already in memory, and a cheap way to see that
 * somebody has written.
 */
#ifndef DIBS_FOLLOW_H
#define DIBS_FOLLOW_H

#include "base/base.h"

/* Grows whenever another handle, of any process, has committed since this one last asked. */
int64_t dibs__change_counter(dibs *d);

struct dibs_follow {
    struct dibs_event_filter filter; /* its limit: 1 or more */
    int64_t bytes_max; /* ends with the event that brings the data to so many bytes; 0: no bound */
    int64_t rows_max;  /* looks at so many events at most; 0: no bound */
};
struct dibs_followed {
    struct dibs_event_list list;
    int64_t through; /* every event up to here that the filter wants is in the list */
};
/* As dibs_events, in a step of bounded length. */
dibs_status dibs__follow(dibs *d, dibs_arena *a, const struct dibs_follow *in,
                         struct dibs_followed *out, struct dibs_error *err) MUST_USE;

/* What the filter looks at. */
struct dibs_event_marks {
    const char *type, *project, *task_id; /* the last two may be NULL */
    bool is_detail;
};
/* `filter`'s since and limit do not count here. Its types are our own names (dibs__event_type). */
bool dibs__event_matches(const struct dibs_event_filter *filter, const struct dibs_event_marks *e);
/* Our name for what the caller calls a type: "claim:expired" is "task:claim-expired". */
const char *dibs__event_type(const char *name);
/* An event that a sweep wrote for one claim, which detail=summary leaves out. */
bool dibs__event_is_detail(const char *type, const char *data);

#endif
