/* SPDX-License-Identifier: MIT */
/*
 * power.h: a disk that remembers in which order it was written and flushed, so that the power can
 * be cut afterwards, at any moment, as often as one likes.
 *
 *     power_on(path);            everything SQLite writes to the store is recorded from now on
 *     ...                        work; power_acknowledge(n) when n is promised to be on disk
 *     power_off();
 *     power_cut(at, &seed, deaf, folder);     the store as it is found after a cut
 *
 * What was written before the last flush that had returned is there. Of what came later each sector
 * is there or not, by chance, in any order, as a disk with a cache may leave it: a write can be
 * torn, a later one can have arrived without an earlier one, a file can be shorter than it was.
 */
#ifndef TEST_POWER_H
#define TEST_POWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { POWER_DATA, POWER_LOG, POWER_FILES };
/* Files whose flushes count for nothing: a disk that says it has flushed, and has not. */
enum { POWER_DEAF_DATA = 1 << POWER_DATA, POWER_DEAF_LOG = 1 << POWER_LOG };

void power_on(const char *data_path); /* a store that nobody has open */
void power_off(void);
void power_free(void); /* forgets the record */

void power_acknowledge(int64_t number); /* any thread */
size_t power_moments(void);             /* the power can be cut at 0 .. this */
int64_t power_acknowledged(size_t at);  /* the largest number that was out by then; 0: none */
int power_flushes(int file);            /* how often it was flushed */
/* A moment by chance; every third one shortly after the log was begun anew. */
size_t power_moment(uint64_t *seed);
void power_cut(size_t at, uint64_t *seed, int deaf, const char *data_path);

#endif
