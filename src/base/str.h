/* SPDX-License-Identifier: MIT */
/*
 * str.h: the few questions about text that more than one room asks. Nothing here allocates.
 */
#ifndef DIBS_STR_H
#define DIBS_STR_H

#include "base.h"

bool str_eq(const char *a, const char *b);        /* NULL equals only NULL */
bool str_eq_nocase(const char *a, const char *b); /* ASCII */
bool str_starts(const char *text, const char *prefix);
bool str_is_id(const char *text);                 /* [A-Za-z0-9._:-]{1,128} */
bool str_is_utf8(const char *text, size_t bytes); /* strict: no overlong forms, surrogates, NUL */
/* Bytes of the character at the start of text, 1 to 4; 0 when it is not such UTF-8. */
size_t str_utf8_char(const char *text, size_t bytes);
/* Bytes of the text that are such UTF-8, from its start on. */
size_t str_utf8_run(const char *text, size_t bytes);
bool str_to_int(const char *text, int64_t *out); /* whole text, decimal, in range */
/* "1500", "1500ms", "90s", "30m", "2h", "7d" to milliseconds; false when it is none of these or
 * overflows. */
bool str_to_duration_ms(const char *text, int64_t *out);
/* The shortest exact form: 1800000 -> "30m". out holds at least 32 bytes. */
void str_from_duration_ms(int64_t ms, char out[32]);
/* For people, rounded up to what matters: 1799000 -> "30m", 59001 -> "60s", 7500000 -> "2h 5m". */
void str_rough_duration_ms(int64_t ms, char out[32]);
/* Copies with truncation at a UTF-8 boundary; always terminated. For fixed fields such as those of
 * dibs_error. */
void str_fit(char *out, size_t out_bytes, const char *text);

/* str_hash: FNV-1a over a text and its terminating NUL, so that "ab","c" and "a","bc" differ. The
 * first of several texts begins with STR_HASH. Not for secrets. */
#define STR_HASH UINT64_C(14695981039346656037)
uint64_t str_hash(uint64_t hash, const char *text);

#endif
