/* SPDX-License-Identifier: MIT */
/*
 * fault_calls.h: one line makes the function of a row. The output is filled with a pattern first:
 * it may be written only when the answer is DIBS_OK.
 */
#ifndef TEST_FAULT_CALLS_H
#define TEST_FAULT_CALLS_H

#include <string.h>

#include "scene.h"

#define PATTERN 0x5a

static inline void expect_untouched(const void *out, size_t bytes)
{
    const unsigned char *p = out;
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != PATTERN)
            fail_msg("the output was written although the answer was not DIBS_OK");
}

#define BODY(type, call)                                                                           \
    type out;                                                                                      \
    memset(&out, PATTERN, sizeof out);                                                             \
    dibs_status status = call;                                                                     \
    if (status != DIBS_OK)                                                                         \
        expect_untouched(&out, sizeof out);                                                        \
    return status;

#define CALL(name, function, type, ...)                                                            \
    static dibs_status name(struct scene *s, dibs_arena *a)                                        \
    {                                                                                              \
        BODY(type, function(s->d, a, __VA_ARGS__, &out, &s->err))                                  \
    }

#define ASK(name, function, type)                                                                  \
    static dibs_status name(struct scene *s, dibs_arena *a)                                        \
    {                                                                                              \
        BODY(type, function(s->d, a, &out, &s->err))                                               \
    }

#endif
