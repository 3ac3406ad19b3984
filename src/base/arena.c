/* SPDX-License-Identifier: MIT */
/*
 * arena.c: memory that is handed out in slices and taken back all at once.
 *
 * An arena is a chain of chunks, the first of 4 KiB, each new one twice as large up to 64 KiB. A
 * slice comes from the current chunk or from the next one that has room; what is left at the end of
 * a chunk is lost until the reset. A request too large for a normal chunk gets a chunk of its own.
 *
 *   1. Every slice is aligned for any type.
 *   2. A reset gives back the chunks of large requests and keeps the normal ones, up to a ceiling,
 *      so that an arena used over and over stops asking for memory, and one huge answer is not kept
 *      for ever.
 *   3. An allocation that fails leaves the arena as it was.
 *
 * Slices cannot be freed one by one: that is the point. One thread at a time.
 */
#include "arena.h"

#include <stdalign.h>

enum {
    FIRST_BYTES = 4 * 1024,
    NORMAL_BYTES_MAX = 64 * 1024,
    LARGE_BYTES = 16 * 1024,      /* so large a request has its own chunk: little is lost at ends */
    KEEP_BYTES_MAX = 1024 * 1024, /* what a reset keeps: enough for all but the largest pages */
};

struct chunk {
    struct chunk *next;
    size_t size, used; /* bytes of data */
    alignas(max_align_t) unsigned char data[];
};

struct dibs_arena {
    struct chunk *first;   /* the normal ones, in order of their making */
    struct chunk *current; /* one of them; those before it are full, those after it empty */
    struct chunk *large;
};

static struct chunk *chunk_new(size_t size)
{
    if (size > SIZE_MAX - sizeof(struct chunk))
        return NULL;
    struct chunk *c = mem_alloc(sizeof *c + size);
    if (c != NULL)
        c->size = size;
    return c;
}

static void chunks_free(struct chunk *c)
{
    while (c != NULL) {
        struct chunk *next = c->next;
        mem_free(c);
        c = next;
    }
}

dibs_arena *dibs_arena_new(void)
{
    dibs_arena *a = mem_alloc(sizeof *a);
    if (a == NULL)
        return NULL;
    a->first = a->current = chunk_new(FIRST_BYTES - sizeof(struct chunk));
    if (a->first == NULL) {
        mem_free(a);
        return NULL;
    }
    return a;
}

void dibs_arena_reset(dibs_arena *a)
{
    chunks_free(a->large);
    a->large = NULL;
    a->current = a->first;
    size_t kept = 0;
    for (struct chunk *c = a->first; c != NULL; c = c->next) {
        c->used = 0;
        kept += c->size;
        if (kept > KEEP_BYTES_MAX) {
            chunks_free(c->next);
            c->next = NULL;
        }
    }
}

void dibs_arena_free(dibs_arena *a)
{
    if (a == NULL)
        return;
    chunks_free(a->first);
    chunks_free(a->large);
    mem_free(a);
}

static void *slice_large(dibs_arena *a, size_t bytes)
{
    struct chunk *c = chunk_new(bytes);
    if (c == NULL)
        return NULL;
    c->used = bytes;
    c->next = a->large;
    a->large = c;
    return c->data;
}

/* more: makes a->current a chunk with room for bytes, which is less than LARGE_BYTES. */
static bool more(dibs_arena *a, size_t bytes)
{
    struct chunk *c = a->current;
    while (c->next != NULL) {
        c = c->next;
        if (c->size - c->used >= bytes) {
            a->current = c;
            return true;
        }
    }
    size_t whole = (c->size + sizeof *c) * 2;
    while (whole - sizeof *c < bytes)
        whole *= 2;
    if (whole > NORMAL_BYTES_MAX)
        whole = NORMAL_BYTES_MAX;
    c->next = chunk_new(whole - sizeof *c);
    if (c->next == NULL)
        return false;
    a->current = c->next;
    return true;
}

/* slice: bytes of the arena, with whatever an earlier use left in them. */
static void *slice(dibs_arena *a, size_t bytes)
{
    const size_t unit = alignof(max_align_t);
    if (bytes > SIZE_MAX - unit)
        return NULL;
    bytes = bytes == 0 ? unit : (bytes + unit - 1) / unit * unit;
    if (bytes >= LARGE_BYTES)
        return slice_large(a, bytes);
    if (a->current->size - a->current->used < bytes && !more(a, bytes))
        return NULL;
    void *block = a->current->data + a->current->used;
    a->current->used += bytes;
    return block;
}

void *arena_alloc(dibs_arena *a, size_t bytes)
{
    void *block = slice(a, bytes);
    if (block != NULL)
        memset(block, 0, bytes);
    return block;
}

char *arena_copy(dibs_arena *a, const char *text, size_t bytes)
{
    char *copy = bytes < SIZE_MAX ? slice(a, bytes + 1) : NULL;
    if (copy == NULL)
        return NULL;
    if (bytes > 0)
        memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

char *arena_strdup(dibs_arena *a, const char *text)
{
    return text != NULL ? arena_copy(a, text, strlen(text)) : NULL;
}

char *arena_printf(dibs_arena *a, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length >= 0 ? slice(a, (size_t)length + 1) : NULL;
    if (text != NULL)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

/* is_full: whether count is one of the capacities that arena_push makes: 0, 8, 16, 32 ... */
static bool is_full(size_t count)
{
    return count == 0 || (count >= 8 && (count & (count - 1)) == 0);
}

void *arena_push(dibs_arena *a, void **items, size_t *count, size_t element_bytes)
{
    if (is_full(*count)) {
        size_t room = *count == 0 ? 8 : *count * 2, bytes = 0;
        if (room < *count || __builtin_mul_overflow(room, element_bytes, &bytes))
            return NULL;
        void *grown = slice(a, bytes);
        if (grown == NULL)
            return NULL;
        if (*count > 0)
            memcpy(grown, *items, *count * element_bytes);
        *items = grown;
    }
    void *element = (char *)*items + *count * element_bytes;
    memset(element, 0, element_bytes);
    (*count)++;
    return element;
}
