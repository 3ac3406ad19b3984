/* SPDX-License-Identifier: MIT */
/*
 * must.c: asks for memory and ends the process when there is none.
 *
 * Nothing is lost by that: what a command changes is changed in one transaction of the store, which
 * is either on disk or undone. The one long-lived command that must not end like this, `dibs lock
 * -- CMD`, builds its requests beforehand.
 */
#include "must.h"

#include "base/arena.h"

_Noreturn void must_fail(void)
{
    fputs("dibs: out of memory\n", stderr);
    exit(dibs_status_exit(DIBS_OUT_OF_MEMORY));
}

void *must_alloc(dibs_arena *a, size_t bytes)
{
    void *block = arena_alloc(a, bytes);

    if (block == NULL)
        must_fail();
    return block;
}

char *must_copy(dibs_arena *a, const char *text, size_t bytes)
{
    char *copy = arena_copy(a, text, bytes);

    if (copy == NULL)
        must_fail();
    return copy;
}

char *must_printf(dibs_arena *a, const char *format, ...)
{
    va_list args;
    char *text = NULL;
    int bytes = 0;

    va_start(args, format);
    bytes = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (bytes < 0)
        must_fail();
    text = must_alloc(a, (size_t)bytes + 1);
    va_start(args, format);
    vsnprintf(text, (size_t)bytes + 1, format, args);
    va_end(args);
    return text;
}

json_t *must_json(json_t *made)
{
    if (made == NULL)
        must_fail();
    return made;
}

void must_set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0)
        must_fail();
}

void must_push(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0)
        must_fail();
}

const char *must_buf(const struct buf *b)
{
    if (!buf_ok(b))
        must_fail();
    return b->data != NULL ? b->data : "";
}

static int append(const char *bytes, size_t count, void *context)
{
    buf_append(context, bytes, count);
    return 0;
}

void must_dump(struct buf *b, const json_t *value)
{
    if (json_dump_callback(value, append, b, JSON_COMPACT | JSON_ENCODE_ANY) != 0)
        must_fail();
}
