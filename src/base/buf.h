/* SPDX-License-Identifier: MIT */
/*
 * buf.h: a growing buffer of bytes that knows its maximum.
 *
 * Appending never needs to be checked: the first append that does not fit, or finds no memory,
 * marks the buffer as failed and the later ones do nothing. Check once at the end (buf_ok). data is
 * always NUL-terminated when ok.
 */
#ifndef DIBS_BUF_H
#define DIBS_BUF_H

#include "base.h"

struct buf {
    char *data;
    size_t len;
    size_t cap;
    size_t max;     /* bytes, without the terminating NUL */
    bool too_large; /* an append went beyond max */
    bool no_memory;
};

static inline bool buf_ok(const struct buf *b)
{
    return !b->too_large && !b->no_memory;
}

char *buf_add_slowly(struct buf *b, size_t count); /* buf_add when there may not be room */
/* Makes it longer by count bytes, which the caller fills in at once; NULL when it has failed. */
static inline char *buf_add(struct buf *b, size_t count)
{
    if (count >= b->cap - b->len || !buf_ok(b)) /* cap is at most max + 1, for the NUL */
        return buf_add_slowly(b, count);
    char *to = b->data + b->len;
    to[count] = '\0';
    b->len += count;
    return to;
}

void buf_init(struct buf *b, size_t max);
void buf_release(struct buf *b); /* safe to call twice, and on a zeroed struct */
void buf_reset(struct buf *b);   /* empty again, memory kept, failure forgotten */
void buf_append(struct buf *b, const void *bytes, size_t count);
void buf_text(struct buf *b, const char *text);
void buf_char(struct buf *b, char c);
void buf_int(struct buf *b, int64_t value);
void buf_printf(struct buf *b, const char *format, ...) PRINTF_LIKE(2, 3);
void buf_cut(struct buf *b, size_t len); /* shortens to len bytes */
/* the caller's now (mem_free); NULL when failed; the buf is empty */
char *buf_detach(struct buf *b) MUST_USE;

/* DIBS_OK, or the failure as an error: PAYLOAD_TOO_LARGE or OUT_OF_MEMORY. */
dibs_status buf_status(const struct buf *b, struct dibs_error *err);

#endif
