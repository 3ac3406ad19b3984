/* SPDX-License-Identifier: MIT */
/*
 * output.c: escapes, widths, colours and times.
 *
 * Text is decoded here and not by mbrtowc(), because what dibs stores is UTF-8 whatever the locale
 * says; only the width of a character is asked of libc. Times are shown relative to the store's
 * clock (output.now_ms), the one that judges leases.
 */
#define _GNU_SOURCE /* wcwidth */
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "output.h"

#include "base/str.h"
#include "base/timefmt.h"
#include "must.h"

void output_init(struct output *out, bool no_colour)
{
    const char *never = getenv("NO_COLOR"), *term = getenv("TERM");
    struct winsize size = {0};

    *out = (struct output){0};
    if (isatty(STDOUT_FILENO) != 1)
        return;
    out->colour = !no_colour && (never == NULL || never[0] == '\0') && term != NULL &&
                  term[0] != '\0' && !str_eq(term, "dumb");
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        out->columns = size.ws_col;
}

/* ---- characters ------------------------------------------------------------------------------ */

/* decode: the character at text, and its bytes in *bytes; 0 with *bytes 1 for a byte that is no
 * UTF-8. */
static uint32_t decode(const char *text, size_t *bytes)
{
    const unsigned char *t = (const unsigned char *)text;
    size_t length = t[0] < 0x80 ? 1 : t[0] < 0xE0 ? 2 : t[0] < 0xF0 ? 3 : 4;
    uint32_t c = 0;

    *bytes = 1;
    if (strnlen(text, length) < length || !str_is_utf8(text, length))
        return 0;
    *bytes = length;
    c = length == 1 ? t[0] : t[0] & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; i++)
        c = c << 6 | (t[i] & 0x3Fu);
    return c;
}

/* turns_text: marks that reorder or hide the text around them. */
static bool turns_text(uint32_t c)
{
    return (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0x200E ||
           c == 0x200F || c == 0x061C || c == 0x2028 || c == 0x2029 || c == 0xFEFF;
}

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0);
}

static void escape_char(struct buf *b, uint32_t c, unsigned char first)
{
    if (c == '\n')
        buf_text(b, "\\n");
    else if (c == '\t')
        buf_text(b, "\\t");
    else if (c == '\r')
        buf_text(b, "\\r");
    else if (c < 0x80)
        buf_printf(b, "\\x%02x", c == 0 ? first : c);
    else
        buf_printf(b, "\\u%04x", c);
}

void out_escape(struct buf *b, const char *text)
{
    size_t bytes = 0;

    for (; *text != '\0'; text += bytes) {
        uint32_t c = decode(text, &bytes);
        if (is_control(c) || turns_text(c))
            escape_char(b, c, (unsigned char)*text);
        else
            buf_append(b, text, bytes);
    }
}

const char *out_safe(dibs_arena *a, const char *text)
{
    struct buf b;
    const char *safe = NULL;

    if (text == NULL)
        return NULL;
    buf_init(&b, ANSWER_BYTES_MAX);
    out_escape(&b, text);
    safe = must_copy(a, must_buf(&b), b.len);
    buf_release(&b);
    return safe;
}

size_t out_width(const char *text)
{
    size_t width = 0, bytes = 0;

    for (; *text != '\0'; text += bytes) {
        int w = wcwidth((wchar_t)decode(text, &bytes));
        width += w > 0 ? (size_t)w : 0;
    }
    return width;
}

void out_json(struct buf *b, const char *json, size_t bytes)
{
    const char *end = json + bytes;

    /* control characters below 0x20 are escaped in JSON already, and outside of strings all is
     * ASCII */
    while (json < end) {
        size_t step = 0;
        uint32_t c = decode(json, &step);
        if (is_control(c) || turns_text(c))
            buf_printf(b, "\\u%04x", c);
        else
            buf_append(b, json, step);
        json += step;
    }
}

void out_colour(const struct output *out, enum colour colour, const char *text)
{
    static const char *const codes[] = {"0", "1", "2", "31", "32", "33", "34", "36"};

    if (out->colour && colour != PLAIN && text[0] != '\0')
        printf("\033[%sm%s\033[0m", codes[colour], text);
    else
        fputs(text, stdout);
}

/* ---- times ----------------------------------------------------------------------------------- */

const char *out_span(dibs_arena *a, int64_t ms)
{
    static const struct {
        int64_t ms;
        char unit;
    } units[] = {{86400000, 'd'}, {3600000, 'h'}, {60000, 'm'}, {1000, 's'}};

    for (size_t i = 0; i < COUNT_OF(units); i++)
        if (ms >= units[i].ms)
            return must_printf(a, "%" PRId64 "%c", ms / units[i].ms, units[i].unit);
    return must_printf(a, "%" PRId64 "ms", ms > 0 ? ms : 0);
}

const char *out_when(const struct output *out, dibs_arena *a, const char *iso)
{
    int64_t ms = 0;

    if (iso == NULL || !time_from_text(iso, &ms))
        return "-";
    ms -= out->now_ms;
    if (ms > -1000 && ms <= 0)
        return "now";
    if (ms > 0)
        return must_printf(a, "in %s", out_span(a, ms + 999)); /* 30m that began just now is 30m */
    return must_printf(a, "%s ago", out_span(a, -ms));
}

const char *out_clock(const struct output *out, dibs_arena *a, const char *iso)
{
    struct tm then = {0}, today = {0};
    int64_t ms = 0;
    time_t at = 0, now = (time_t)(out->now_ms / 1000);
    char text[32] = "";

    if (iso == NULL || !time_from_text(iso, &ms))
        return "-";
    at = (time_t)(ms / 1000);
    if (localtime_r(&at, &then) == NULL || localtime_r(&now, &today) == NULL)
        return must_printf(a, "%s", iso);
    bool same_day = then.tm_year == today.tm_year && then.tm_yday == today.tm_yday;
    if (strftime(text, sizeof text, same_day ? "%H:%M:%S" : "%Y-%m-%d %H:%M", &then) == 0)
        return must_printf(a, "%s", iso);
    return must_printf(a, "%s", text);
}
