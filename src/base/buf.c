/* SPDX-License-Identifier: MIT */
/*
 * buf.c: a growing buffer of bytes with a ceiling.
 *
 * Capacity doubles, so n appends cost O(n) copies. Failure is sticky: it is noted once and checked
 * once, which keeps the code that writes an answer free of error paths.
 *
 *   1. len <= max, and data[len] is NUL, also in a buffer that was never written to (it then points
 *      to `nothing`).
 *   2. cap is 0 exactly when data is not ours to free.
 *   3. An append is whole or not at all.
 */
#include "buf.h"

#define FIRST_BYTES ((size_t)1024) /* most answers fit */

static char nothing[1]; /* never written to: every empty buffer of every thread points here */

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.data = nothing, .max = max};
}

void buf_release(struct buf *b)
{
    if (b->cap > 0)
        mem_free(b->data);
    buf_init(b, b->max);
}

void buf_reset(struct buf *b)
{
    b->too_large = b->no_memory = false;
    b->len = 0;
    if (b->cap > 0)
        b->data[0] = '\0';
}

/* room: makes space for count more bytes and the NUL; false, and the buffer has failed, when
 * there is none. */
static bool room(struct buf *b, size_t count)
{
    if (!buf_ok(b))
        return false;
    if (count > b->max - b->len) {
        b->too_large = true;
        return false;
    }
    size_t need = b->len + count + 1;
    if (need <= b->cap)
        return true;
    size_t cap = b->cap > 0 ? b->cap : FIRST_BYTES;
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    if (cap > b->max)
        cap = b->max + 1; /* need is no larger: the last step goes to the ceiling, not beyond */
    char *data = mem_grow(b->cap > 0 ? b->data : NULL, cap);
    if (data == NULL) {
        b->no_memory = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

char *buf_add_slowly(struct buf *b, size_t count)
{
    if (!room(b, count))
        return NULL;
    char *to = b->data + b->len;
    to[count] = '\0';
    b->len += count;
    return to;
}

void buf_append(struct buf *b, const void *bytes, size_t count)
{
    char *to = buf_add(b, count);
    if (to != NULL && count > 0)
        memcpy(to, bytes, count);
}

void buf_text(struct buf *b, const char *text)
{
    buf_append(b, text, strlen(text));
}

void buf_char(struct buf *b, char c)
{
    char *to = buf_add(b, 1);
    if (to != NULL)
        *to = c;
}

void buf_int(struct buf *b, int64_t value)
{
    char digits[20]; /* -9223372036854775808 */
    size_t at = sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0)
        digits[--at] = '-';
    buf_append(b, digits + at, sizeof digits - at);
}

void buf_printf(struct buf *b, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        b->no_memory =
            true; /* the only reason that is left when the compiler has checked the format */
    else if (room(b, (size_t)length)) {
        vsnprintf(b->data + b->len, (size_t)length + 1, format, again);
        b->len += (size_t)length;
    }
    va_end(again);
}

void buf_cut(struct buf *b, size_t len)
{
    if (len >= b->len)
        return;
    b->len = len;
    b->data[len] = '\0';
}

char *buf_detach(struct buf *b)
{
    buf_append(b, "", 0); /* an empty text is a block of its own too */
    struct buf old = *b;
    if (buf_ok(&old))
        b->cap = 0;
    buf_release(b);
    b->too_large = old.too_large; /* still there for buf_status */
    b->no_memory = old.no_memory;
    return buf_ok(&old) ? old.data : NULL;
}

dibs_status buf_status(const struct buf *b, struct dibs_error *err)
{
    if (b->no_memory)
        return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory after %zu bytes of text", b->len);
    if (b->too_large)
        return error_set(err, DIBS_PAYLOAD_TOO_LARGE, "text is larger than %zu bytes", b->max);
    return DIBS_OK;
}
