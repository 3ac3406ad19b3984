/* SPDX-License-Identifier: MIT */
/*
 * fault_rows.h: every operation of the headers once or more, as a row that can be run again and
 * again on a scene, and the runner that makes its first, second, third ... call fail.
 */
#ifndef TEST_FAULT_ROWS_H
#define TEST_FAULT_ROWS_H

#include "faults.h"
#include "scene.h"

struct fault_row {
    const char *operation; /* the function of dibs.h or dibs_swarm.h */
    const char *which;     /* what is special about this row; NULL */
    dibs_status (*call)(struct scene *s, dibs_arena *a);
    dibs_status answers; /* when nothing fails */
    /* Several transactions, or work after the commit: a failure may leave some of it done. What is
     * done must be whole. */
    bool in_steps;
    void (*prepare)(struct scene *s); /* what the scene needs besides; NULL */
};
/* end with call NULL */
extern const struct fault_row fault_task_rows[], fault_session_rows[], fault_serve_rows[],
    fault_channel_rows[], fault_inbox_rows[], fault_agent_rows[];

/* SQLite asks for memory very often. Unless DIBS_TEST_SCALE is above 1, its later requests are
 * failed only here and there. */
bool fault_all(void);
/* Runs the row with its 1st, 2nd ... call of this kind failing, until none is left to fail. After
 * each failure: it is said, nothing has changed, the handle works. At the end: it succeeds, the
 * journal agrees with the tables, no block of memory is lost. */
void fault_run(const struct fault_row *row, enum fault_kind kind, bool sticky);
/* The same on a handle that has just been opened, so that its statements are not prepared yet. Of
 * the many calls only `points`, evenly spread; 0: all of them. */
void fault_run_cold(const struct fault_row *row, enum fault_kind kind, int64_t points);
/* The arena for the answer is full, has 16 bytes left, 32, 48 ... until they are enough: so a
 * request for more memory comes at every place at which there can be one. */
void fault_run_full_arena(const struct fault_row *row);

/* Runs one test for each row, which does all the bodies in turn. Returns the number of failures. */
typedef void fault_body(const struct fault_row *row);
int fault_tests(const char *group, const char *promise, fault_body *const *bodies,
                size_t body_count);

#endif
