/* SPDX-License-Identifier: MIT */
/*
 * need.c: memory, or the end of the process.
 *
 * _exit() and not exit(): another thread may be inside the store, and nothing here is worth tidying
 * up with no memory left.
 */
#include <unistd.h>

#include "need.h"

static _Noreturn void fail(void)
{
    static const char text[] = "dibs: out of memory; the runner ends, its tasks come back\n";

    ssize_t told = write(STDERR_FILENO, text, sizeof text - 1);

    (void)told;
    _exit(dibs_status_exit(DIBS_OUT_OF_MEMORY));
}

void *need_alloc(size_t bytes)
{
    void *block = mem_alloc(bytes);

    if (block == NULL)
        fail();
    return block;
}

char *need_copy(const char *text)
{
    char *copy = mem_copy(text);

    if (text != NULL && copy == NULL)
        fail();
    return copy;
}

char *need_detach(struct buf *b)
{
    char *text = b->data == NULL && buf_ok(b) ? need_copy("") : buf_detach(b);

    if (text == NULL)
        fail();
    return text;
}

json_t *need_json(json_t *made)
{
    if (made == NULL)
        fail();
    return made;
}

void need_set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, need_json(value)) != 0)
        fail();
}

void need_text(json_t *object, const char *key, const char *text)
{
    if (text != NULL)
        need_set(object, key, json_string(text));
}

void need_int(json_t *object, const char *key, int64_t value)
{
    need_set(object, key, json_integer(value));
}

void need_push(json_t *array, json_t *value)
{
    if (json_array_append_new(array, need_json(value)) != 0)
        fail();
}

static int append(const char *bytes, size_t count, void *context)
{
    buf_append(context, bytes, count);
    return 0;
}

void need_dump(struct buf *b, const json_t *value)
{
    if (json_dump_callback(value, append, b, JSON_COMPACT | JSON_ENCODE_ANY) != 0)
        fail();
}

bool need_fits(const json_t *value, size_t max)
{
    struct buf b;
    bool ok = false;

    buf_init(&b, max);
    need_dump(&b, value);
    ok = buf_ok(&b);
    buf_release(&b);
    return ok;
}
