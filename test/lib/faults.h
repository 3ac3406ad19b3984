/* SPDX-License-Identifier: MIT */
/*
 * faults.h: makes the n-th SQL call, the n-th request for memory of ours (and of the JSON library)
 * or the n-th of SQLite's fail, once or from there on.
 */
#ifndef TEST_FAULTS_H
#define TEST_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

enum fault_kind {
    FAULT_SQL,
    FAULT_MEMORY,
    FAULT_SQLITE_MEMORY,
    FAULT_CHUNK, /* only requests for 8 KiB and more, which are those of arenas that grow */
};
/* Under a sanitizer the size of a request cannot be seen, and no chunk fails. */
bool faults_see_chunks(void);

/* First thing in main(): SQLite takes another allocator only before it is first used. */
void faults_install(void);
void faults_arm(enum fault_kind kind, int64_t nth, bool sticky);
/* Back to normal; returns how many calls of that kind there were, whether or not they failed. */
int64_t faults_disarm(void);

/* Blocks of memory in use by the whole program, to see leaks at once; a sanitizer sees them itself
 * at the end, and then this is always 0. */
int64_t faults_blocks(void);

#endif
