/* SPDX-License-Identifier: MIT */
/*
 * json_write.c: JSON by appending to a buf.
 *
 * One flag says whether the next key or value needs a comma in front; begin() looks at it, every
 * value sets it, a key and an opening bracket clear it. Text is scanned for the few bytes that need
 * care and appended in runs between them.
 *
 *   1. Whatever bytes a text has, the output is valid UTF-8 and valid JSON that json_read accepts:
 *      a byte that is part of no character, and NUL, become U+FFFD.
 *   2. Brackets are counted and asserted; a second value at the top is asserted against. That a
 *      bracket is closed by one of its own kind is left to the tests of the callers.
 *
 * No indentation: pretty output is the command line's affair.
 */
#include "json.h"

#include <assert.h>
#include <float.h>
#include <math.h>

#include "str.h"
#include "timefmt.h"

void jw_init(struct jw *w, struct buf *out)
{
    *w = (struct jw){.out = out};
}

/* begin: room for a key or a value of so many bytes, behind the comma that it may need; NULL when
 * the buffer has failed. */
static char *begin(struct jw *w, size_t bytes)
{
    bool comma = w->comma;
    assert(!comma || w->depth > 0);
    w->comma = true;
    char *to = buf_add(w->out, bytes + comma);
    if (to != NULL && comma)
        *to++ = ',';
    return to;
}

/* put: a value that is written as it is. */
static void put(struct jw *w, const char *text, size_t bytes)
{
    char *to = begin(w, bytes);
    if (to != NULL)
        memcpy(to, text, bytes);
}

static void open_bracket(struct jw *w, char c)
{
    put(w, &c, 1);
    w->comma = false;
    w->depth++;
    assert(w->depth <= JSON_DEPTH_MAX);
}

static void close_bracket(struct jw *w, char c)
{
    assert(w->depth > 0);
    w->depth--;
    buf_char(w->out, c);
    w->comma = true;
}

void jw_object(struct jw *w)
{
    open_bracket(w, '{');
}

void jw_object_end(struct jw *w)
{
    close_bracket(w, '}');
}

void jw_array(struct jw *w)
{
    open_bracket(w, '[');
}

void jw_array_end(struct jw *w)
{
    close_bracket(w, ']');
}

void jw_key(struct jw *w, const char *key)
{
    size_t bytes = strlen(key);
    assert(w->depth > 0);
    char *to = begin(w, bytes + 3);
    w->comma = false;
    if (to == NULL)
        return;
    to[0] = '"';
    memcpy(to + 1, key, bytes);
    to[bytes + 1] = '"';
    to[bytes + 2] = ':';
}

/* escape: appends a byte that cannot stand in a JSON text as it is. */
static void escape(struct buf *out, unsigned char c)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt",
                      hex[] = "0123456789abcdef";
    const char *found = c != 0 ? strchr(plain, c) : NULL;
    if (found != NULL) {
        buf_append(out, (char[]){'\\', letter[found - plain]}, 2);
    } else if (c == 0 || c >= 0x80) {
        buf_append(out, "\xEF\xBF\xBD", 3);
    } else {
        buf_append(out, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
    }
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* put_quoted: a text without anything to escape. */
static void put_quoted(struct jw *w, const char *text, size_t bytes)
{
    char *to = begin(w, bytes + 2);
    if (to == NULL)
        return;
    to[0] = '"';
    if (bytes > 0) /* text may be NULL then */
        memcpy(to + 1, text, bytes);
    to[bytes + 1] = '"';
}

/* put_escaped: any text; up to `at` there is nothing to escape. */
static void put_escaped(struct jw *w, const char *text, size_t bytes, size_t at)
{
    put(w, "\"", 1);
    size_t run = 0; /* text[run..at) is fine and not yet appended */
    while (at < bytes) {
        unsigned char c = (unsigned char)text[at];
        size_t length = is_plain(c) ? 1 : c >= 0x80 ? str_utf8_char(text + at, bytes - at) : 0;
        if (length > 0) {
            at += length;
            continue;
        }
        if (at > run)
            buf_append(w->out, text + run, at - run);
        escape(w->out, c);
        run = ++at;
    }
    if (at > run)
        buf_append(w->out, text + run, at - run);
    buf_char(w->out, '"');
}

void jw_textn(struct jw *w, const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes && is_plain((unsigned char)text[at]))
        at++;
    if (at == bytes)
        put_quoted(w, text, bytes);
    else
        put_escaped(w, text, bytes, at);
}

void jw_text(struct jw *w, const char *text)
{
    if (text == NULL)
        jw_null(w);
    else
        jw_textn(w, text, strlen(text));
}

void jw_int(struct jw *w, int64_t value)
{
    (void)!begin(w, 0);
    buf_int(w->out, value);
}

void jw_real(struct jw *w, double value)
{
    if (!isfinite(value)) {
        jw_null(w); /* JSON has no word for it */
        return;
    }
    char text[32];
    int digits = DBL_DIG;
    do /* the fewest digits that read back as the same number */
        snprintf(text, sizeof text, "%.*g", digits++, value);
    while (digits <= DBL_DECIMAL_DIG && strtod(text, NULL) != value);
    char *comma = strchr(text, ','); /* a program that uses the library may have set a locale */
    if (comma != NULL)
        *comma = '.';
    put(w, text, strlen(text));
}

void jw_bool(struct jw *w, bool value)
{
    put(w, value ? "true" : "false", value ? 4 : 5);
}

void jw_null(struct jw *w)
{
    put(w, "null", 4);
}

void jw_raw(struct jw *w, const char *json)
{
    if (json == NULL)
        json = "null";
    put(w, json, strlen(json));
}

void jw_time(struct jw *w, int64_t ms)
{
    char text[TIME_TEXT_BYTES];
    if (ms == 0) {
        jw_null(w);
        return;
    }
    time_to_text(ms, text);
    put_quoted(w, text, strlen(text));
}

void jw_ktext(struct jw *w, const char *key, const char *text)
{
    jw_key(w, key);
    jw_text(w, text);
}

void jw_ktext_opt(struct jw *w, const char *key, const char *text)
{
    if (text != NULL)
        jw_ktext(w, key, text);
}

void jw_kint(struct jw *w, const char *key, int64_t value)
{
    jw_key(w, key);
    jw_int(w, value);
}

void jw_kint_opt(struct jw *w, const char *key, int64_t value)
{
    if (value != 0)
        jw_kint(w, key, value);
}

void jw_kbool(struct jw *w, const char *key, bool value)
{
    jw_key(w, key);
    jw_bool(w, value);
}

void jw_kraw(struct jw *w, const char *key, const char *json)
{
    jw_key(w, key);
    jw_raw(w, json);
}

void jw_kraw_opt(struct jw *w, const char *key, const char *json)
{
    if (json != NULL)
        jw_kraw(w, key, json);
}

void jw_ktime(struct jw *w, const char *key, int64_t ms)
{
    jw_key(w, key);
    jw_time(w, ms);
}

void jw_ktime_opt(struct jw *w, const char *key, int64_t ms)
{
    if (ms != 0)
        jw_ktime(w, key, ms);
}

void jw_kobject(struct jw *w, const char *key)
{
    jw_key(w, key);
    jw_object(w);
}

void jw_karray(struct jw *w, const char *key)
{
    jw_key(w, key);
    jw_array(w);
}

void jw_kstrings(struct jw *w, const char *key, struct dibs_strings list)
{
    jw_karray(w, key);
    for (size_t i = 0; i < list.count; i++)
        jw_text(w, list.items[i]);
    jw_array_end(w);
}
