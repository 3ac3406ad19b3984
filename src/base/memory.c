/* SPDX-License-Identifier: MIT */
/*
 * memory.c: the only place that asks libc for memory, and the fixed struct in which errors travel.
 *
 * Every request passes should_fail(), so that a test can make the first, second, third ... one fail
 * and see that nothing leaks and nothing is half done. An error needs no memory at all: reporting
 * one cannot fail.
 *
 *   1. mem_alloc returns zeroed memory; a request for 0 bytes is answered with a block that may be
 *      freed.
 *   2. error_set formats before it writes, so an argument may be the error's own text.
 *   3. A message that is too long is cut between two characters, never inside one.
 */
#include "base.h"
#include "str.h"

bool (*mem_should_fail)(void) = NULL;

static bool should_fail(void)
{
    return mem_should_fail != NULL && mem_should_fail();
}

/* Up to here a block comes from glibc's cache of the thread, which calloc passes by: it takes a
 * lock and fills the cache with what is freed, without ever taking from it. */
#define SMALL_BYTES 1024

void *mem_alloc(size_t bytes)
{
    if (should_fail())
        return NULL;
    if (bytes > SMALL_BYTES)
        return calloc(1, bytes);
    void *block = malloc(bytes > 0 ? bytes : 1);
    return block != NULL ? memset(block, 0, bytes) : NULL;
}

void *mem_grow(void *old, size_t bytes)
{
    return should_fail() ? NULL : realloc(old, bytes > 0 ? bytes : 1);
}

char *mem_copy(const char *text)
{
    if (text == NULL)
        return NULL;
    size_t bytes = strlen(text) + 1;
    char *copy = mem_alloc(bytes);
    if (copy != NULL)
        memcpy(copy, text, bytes);
    return copy;
}

void mem_free(void *block)
{
    free(block);
}

/* fill: err holds code, field and text and nothing else. */
static void fill(struct dibs_error *err, dibs_status code, const char *field, const char *text)
{
    memset(err, 0, sizeof *err);
    err->code = code;
    str_fit(err->field, sizeof err->field, field);
    str_fit(err->message, sizeof err->message, text);
}

/* One byte more than a message holds: str_fit then sees that something was cut off, and where. */
#define TEXT_BYTES (sizeof((struct dibs_error *)0)->message + 1)

dibs_status error_set(struct dibs_error *err, dibs_status code, const char *format, ...)
{
    if (err == NULL)
        return code;
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fill(err, code, NULL, text);
    return code;
}

dibs_status error_field(struct dibs_error *err, const char *field, const char *format, ...)
{
    if (err == NULL)
        return DIBS_INVALID_REQUEST;
    char text[TEXT_BYTES];
    char name[sizeof err->field];
    str_fit(name, sizeof name, field);
    int front = name[0] != '\0' ? snprintf(text, sizeof text, "'%s' ", name) : 0;
    va_list args;
    va_start(args, format);
    vsnprintf(text + front, sizeof text - (size_t)front, format, args);
    va_end(args);
    fill(err, DIBS_INVALID_REQUEST, name, text);
    return DIBS_INVALID_REQUEST;
}
