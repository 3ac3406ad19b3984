/* SPDX-License-Identifier: MIT */
/*
 * arena.h: results of one operation live here and die together. Also dibs_arena_new, _reset, _free
 * of dibs.h. Everything returns NULL when out of memory. Blocks are zeroed and aligned for any
 * type.
 */
#ifndef DIBS_ARENA_H
#define DIBS_ARENA_H

#include "base.h"

void *arena_alloc(dibs_arena *a, size_t bytes) MUST_USE;
char *arena_copy(dibs_arena *a, const char *text, size_t bytes) MUST_USE; /* NUL-terminated */
char *arena_strdup(dibs_arena *a, const char *text) MUST_USE;             /* NULL in, NULL out */
char *arena_printf(dibs_arena *a, const char *format, ...) PRINTF_LIKE(2, 3) MUST_USE;

/*
 * arena_push: room for one more element at the end of a growing array; returns the new zeroed
 * element, NULL when out of memory (the array is then as before). Doubling inside the arena wastes
 * at most as much as the array is long.
 *     struct dibs_task *t = arena_push(a, (void **)&list->items, &list->count, sizeof *t);
 * The array must be grown by arena_push only: its capacity is derived from the count (a power of
 * two from 8 on).
 */
void *arena_push(dibs_arena *a, void **items, size_t *count, size_t element_bytes) MUST_USE;

#endif
