/* SPDX-License-Identifier: MIT */
/*
 * acked.h: a worker's notes against the store it left behind.
 *
 *   - What was acknowledged is there: its tasks, its grants under its name and token, its
 *     heartbeats and progress, its reports with their results.
 *   - What it was not told about (killed before the answer, or answered with a failure) has
 *     happened wholly or not at all.
 *   - Nothing else has happened in its name: no grant that it did not ask for.
 *
 * Expects, with cmocka's fail_msg, that all of this is so.
 */
#ifndef TEST_ACKED_H
#define TEST_ACKED_H

#include "acts.h"
#include "replay.h"

enum {
    /* nobody has cleaned up since: what was not ended is still held */
    ACKED_FRESH = 1,
    /* failures are answers, too: what they were about is unknown */
    ACKED_FAILURES = 2,
};
void acked_check(dibs *d, const struct replay *r, const char *session, struct notes n, int flags);

/* The whole of it after a crash: the store opens, is sound, agrees with the notes; then it is used
 * for a little work, as the next user would. */
struct crash {
    struct place *place;
    struct replay *replay;
    const char *session;
    struct notes notes;
    int flags;
};
void crash_check(const struct crash *c);
void expect_usable(dibs *d);

#endif
