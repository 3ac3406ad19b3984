/* SPDX-License-Identifier: MIT */
/* timefmt.h: ISO 8601 in UTC with milliseconds, both ways. No time zone, no locale, no libc
 * calendar state. */
#ifndef DIBS_TIMEFMT_H
#define DIBS_TIMEFMT_H

#include "base.h"

#define TIME_TEXT_BYTES 32
/* 2026-11-15T22:19:00.123Z; years 0001..9999, clamped */
void time_to_text(int64_t ms, char out[TIME_TEXT_BYTES]);
/* "2026-11-15T22:19:00Z", with fraction of 1-9 digits, with +hh:mm instead of Z; "2026-11-15" alone
 * is midnight. */
bool time_from_text(const char *text, int64_t *out_ms);

#endif
