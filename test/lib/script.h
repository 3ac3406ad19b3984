/* SPDX-License-Identifier: MIT */
/*
 * script.h: a fixed sequence of operations in a program of its own, for tests that interrupt it at
 * every system call or make a call fail. The test program starts itself with --script:
 *
 *     int main(int argc, char **argv)
 *     {
 *         if (script_wanted(argc, argv))
 *             return script_main(argv);
 *         ...
 *     }
 *
 * Two plays: "new" makes a store and works in it; "old" finds one with a past (a dead session that
 * holds things, events to forget, a log about to be checkpointed, copied from elsewhere) and works
 * until the checkpoint is done.
 */
#ifndef TEST_SCRIPT_H
#define TEST_SCRIPT_H

#include "acked.h"

bool script_wanted(int argc, char **argv);
int script_main(char **argv);

struct script {
    struct place *place;
    const char *play;      /* "new", "old" */
    char template_dir[80]; /* what "old" begins with */
    char notes_path[96];
    const char *argv[8];
    char exe[256];
};
/* Prepares the place (and the past, for "old") and the command line. */
void script_init(struct script *s, struct place *p, const char *play);
void script_reset(struct script *s); /* the store as it was before the play */
/* What the program noted, against what it left. */
void script_check(struct script *s, struct notes n, int flags);
struct notes script_notes(struct script *s);

/* Up to `most` (scaled) of the numbers 1..count, evenly spread, each time another choice; all when
 * they are that few, and whenever DIBS_TEST_SCALE is above 1. */
struct points {
    long *items;
    size_t count;
};
struct points points_choose(long count, int most, uint64_t *seed);

#endif
