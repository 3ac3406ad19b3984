/* SPDX-License-Identifier: MIT */
/*
 * must.h: memory that has to be there.
 *
 * A command is a short-lived process: when it finds no memory there is nothing to save, so these
 * end it with a line and the exit code of OUT_OF_MEMORY instead of handing a NULL through every
 * function. Only the command line may do so.
 */
#ifndef DIBS_MUST_H
#define DIBS_MUST_H

#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"

_Noreturn void must_fail(void); /* says so and exits */

void *must_alloc(dibs_arena *a, size_t bytes);
char *must_copy(dibs_arena *a, const char *text, size_t bytes);
char *must_printf(dibs_arena *a, const char *format, ...) PRINTF_LIKE(2, 3);
json_t *must_json(json_t *made); /* what jansson made, never NULL */
/* object[key] = value; takes the value over */
void must_set(json_t *object, const char *key, json_t *value);
void must_push(json_t *array, json_t *value); /* takes the value over */
/* Ends the process unless the buffer holds everything; returns its text. */
const char *must_buf(const struct buf *b);
/* A JSON value as compact text, appended to b. */
void must_dump(struct buf *b, const json_t *value);

#endif
