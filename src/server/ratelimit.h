/* SPDX-License-Identifier: MIT */
/*
 * ratelimit.h: a bucket of tokens: each request takes one, and they come back evenly.
 *
 * With a rate of 100 a bucket holds 100 and gets one back every 600 ms: a caller may send 100 at
 * once, or one every 600 ms for ever, or, after ten seconds of silence, 16 at once. Time is a
 * steady clock and comes from the caller. A bucket costs 24 bytes and no timer.
 */
#ifndef DIBS_RATELIMIT_H
#define DIBS_RATELIMIT_H

#include "base/base.h"

struct bucket {
    int64_t per_minute; /* also how many it holds; 0: no limit */
    int64_t level;      /* in parts of a token: 60,000 are one */
    int64_t at_ms;      /* when the level was right */
};

void bucket_fill(struct bucket *b, int64_t per_minute, int64_t now_ms);
/* Takes a token; false when there is none. */
bool bucket_take(struct bucket *b, int64_t now_ms) MUST_USE;
/* As of the last take: whole tokens left; seconds until there is one, and until it is full. */
int64_t bucket_left(const struct bucket *b);
int64_t bucket_next_s(const struct bucket *b);
int64_t bucket_full_s(const struct bucket *b);

#endif
