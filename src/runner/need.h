/* SPDX-License-Identifier: MIT */
/*
 * need.h: memory that a runner has to have.
 *
 * A runner without memory ends on the spot. That is the safe way: the kernel and the keeper end its
 * commands, and the store sees that its process is gone and hands its claims to others. To limp on
 * with a job half noted would be worse.
 */
#ifndef DIBS_NEED_H
#define DIBS_NEED_H

#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"

void *need_alloc(size_t bytes);    /* zeroed; mem_free */
char *need_copy(const char *text); /* NULL in, NULL out */
char *need_detach(struct buf *b);  /* its text, to be freed; the buf is empty */
json_t *need_json(json_t *made);   /* what jansson made, never NULL */
void need_set(json_t *object, const char *key, json_t *value);     /* takes the value over */
void need_text(json_t *object, const char *key, const char *text); /* nothing when it is NULL */
void need_int(json_t *object, const char *key, int64_t value);
void need_push(json_t *array, json_t *value); /* takes the value over */
/* A JSON value as compact text, appended to b. */
void need_dump(struct buf *b, const json_t *value);
/* Whether that text has at most so many bytes. */
bool need_fits(const json_t *value, size_t max);

#endif
