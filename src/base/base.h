/* SPDX-License-Identifier: MIT */
/*
 * base.h: the first include of every file in src/.
 *
 * The room `base` knows no task. It owns memory, text, JSON, time, chance, the process table,
 * logging and the list of results; everything above stands on it. It must never know a table, a
 * route or a word of the domain. Start reading at status.def, then arena.h and buf.h.
 */
#ifndef DIBS_BASE_H
#define DIBS_BASE_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dibs.h"
#include "limits.h"

#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#define MUST_USE __attribute__((warn_unused_result))
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Calls that have bitten everybody: each has a safer way in this room (buf_printf, arena_strdup,
 * str_to_int, time_*). */
#undef sprintf /* macros with clang and _FORTIFY_SOURCE, which cannot be poisoned */
#undef vsprintf
#pragma GCC poison strcpy strcat sprintf vsprintf strtok strtok_r atoi atol atoll gets
#pragma GCC poison gmtime localtime ctime asctime

/* Memory comes from here only, so that tests can make any request fail. Zeroed; NULL when there is
 * none. */
void *mem_alloc(size_t bytes) MUST_USE;
/* as realloc: on NULL the old block is still there */
void *mem_grow(void *old, size_t bytes) MUST_USE;
char *mem_copy(const char *text) MUST_USE; /* NUL-terminated copy; NULL in, NULL out */
void mem_free(void *block);
/* Tests: asked before every request; true makes it fail. NULL (the default): never. */
extern bool (*mem_should_fail)(void);

/* Fills in err (NULL is fine) and returns code, so that a refusal is one line: return
 * error_set(err, DIBS_X, "..."). */
dibs_status error_set(struct dibs_error *err, dibs_status code, const char *format, ...)
    PRINTF_LIKE(3, 4);
/* DIBS_INVALID_REQUEST about one field, whose name is put in front in quotes: "is required" becomes
 * "'title' is required". */
dibs_status error_field(struct dibs_error *err, const char *field, const char *format, ...)
    PRINTF_LIKE(3, 4);

#endif
