/* SPDX-License-Identifier: MIT */
/*
 * ratelimit.c: the bucket of ratelimit.h, in whole numbers.
 *
 * A token is cut into 60,000 parts, as many as a minute has milliseconds, so that each millisecond
 * brings exactly `per_minute` parts: nothing is lost by rounding, however often it is asked.
 */
#include "ratelimit.h"

#define PARTS 60000

static int64_t most(const struct bucket *b)
{
    return b->per_minute * PARTS;
}

void bucket_fill(struct bucket *b, int64_t per_minute, int64_t now_ms)
{
    *b = (struct bucket){.per_minute = per_minute, .at_ms = now_ms};
    b->level = most(b);
}

static void catch_up(struct bucket *b, int64_t now_ms)
{
    int64_t passed = now_ms - b->at_ms;
    if (passed <= 0)
        return;
    /* a full minute fills every bucket; beyond it the product need not be made */
    b->level = passed >= PARTS ? most(b) : b->level + passed * b->per_minute;
    b->level = b->level > most(b) ? most(b) : b->level;
    b->at_ms = now_ms;
}

bool bucket_take(struct bucket *b, int64_t now_ms)
{
    if (b->per_minute == 0)
        return true;
    catch_up(b, now_ms);
    if (b->level < PARTS)
        return false;
    b->level -= PARTS;
    return true;
}

int64_t bucket_left(const struct bucket *b)
{
    return b->level / PARTS;
}

/* Seconds, rounded up, until `parts` more have come. */
static int64_t seconds_for(const struct bucket *b, int64_t parts)
{
    int64_t per_second = b->per_minute * 1000;
    return parts <= 0 || per_second == 0 ? 0 : (parts + per_second - 1) / per_second;
}

int64_t bucket_next_s(const struct bucket *b)
{
    return seconds_for(b, PARTS - b->level);
}

int64_t bucket_full_s(const struct bucket *b)
{
    return seconds_for(b, most(b) - b->level);
}
