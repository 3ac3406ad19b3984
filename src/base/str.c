/* SPDX-License-Identifier: MIT */
/*
 * str.c: questions about text, and numbers and durations written as text.
 *
 * Everything here is for bytes that came from outside, so nothing depends on the locale and nothing
 * is guessed: a number is the whole text or no number, a character is valid UTF-8 or none. libc's
 * strtoll skips blanks, takes a '+' and needs errno; the loop here is shorter than its correct use.
 */
#include "str.h"

bool str_eq(const char *a, const char *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return a[0] == b[0] && strcmp(a, b) == 0; /* most that differ do so at once */
}

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

bool str_eq_nocase(const char *a, const char *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    while (*a != '\0' && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return lower(*a) == lower(*b);
}

bool str_starts(const char *text, const char *prefix)
{
    return text != NULL && strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_id_char(char c)
{
    return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || c == '.' || c == '_' ||
           c == ':' || c == '-';
}

bool str_is_id(const char *text)
{
    size_t length = 0;
    if (text == NULL)
        return false;
    while (is_id_char(text[length]) && length < ID_BYTES_MAX)
        length++;
    return length > 0 && text[length] == '\0';
}

/* second_fits: whether b may follow `first` in a character of several bytes. It alone tells
 * overlong forms (E0, F0), surrogates (ED) and what is beyond U+10FFFF (F4). */
static bool second_fits(unsigned char first, unsigned char b)
{
    unsigned char least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    return b >= least && b <= most;
}

size_t str_utf8_char(const char *text, size_t bytes)
{
    const unsigned char *t = (const unsigned char *)text;
    if (bytes == 0 || t[0] == 0)
        return 0;
    if (t[0] < 0x80)
        return 1;
    if (t[0] < 0xC2 || t[0] > 0xF4)
        return 0;
    size_t length = t[0] >= 0xF0 ? 4 : t[0] >= 0xE0 ? 3 : 2;
    if (bytes < length || !second_fits(t[0], t[1]))
        return 0;
    for (size_t i = 2; i < length; i++) {
        if ((t[i] & 0xC0) != 0x80)
            return 0;
    }
    return length;
}

size_t str_utf8_run(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        unsigned char c = (unsigned char)text[at];
        bool ascii = c > 0 && c < 0x80; /* most text is */
        size_t length = ascii ? 1 : str_utf8_char(text + at, bytes - at);
        if (length == 0)
            break;
        at += length;
    }
    return at;
}

bool str_is_utf8(const char *text, size_t bytes)
{
    return str_utf8_run(text, bytes) == bytes;
}

/* digits: the number at *text, which is moved behind it. Counts below zero, where int64_t has
 * one value more. */
static bool digits(const char **text, int64_t *out)
{
    int64_t value = 0;
    if (!is_digit(**text))
        return false;
    for (; is_digit(**text); (*text)++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, **text - '0', &value))
            return false;
    }
    *out = value;
    return true;
}

bool str_to_int(const char *text, int64_t *out)
{
    int64_t value = 0;
    if (text == NULL)
        return false;
    bool negative = *text == '-';
    text += negative;
    if (!digits(&text, &value) || *text != '\0')
        return false;
    if (!negative && __builtin_sub_overflow(0, value, &value))
        return false;
    *out = value;
    return true;
}

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {
    /* largest first */
    {"d", 24 * 60 * 60 * 1000},
    {"h", 60 * 60 * 1000},
    {"m", 60 * 1000},
    {"s", 1000},
    {"ms", 1},
    {"", 1},
};

bool str_to_duration_ms(const char *text, int64_t *out)
{
    int64_t value = 0;
    if (text == NULL || !digits(&text, &value))
        return false;
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        if (!str_eq(text, units[i].name))
            continue;
        if (__builtin_mul_overflow(value, units[i].ms, &value) ||
            __builtin_sub_overflow(0, value, &value))
            return false;
        *out = value;
        return true;
    }
    return false;
}

void str_from_duration_ms(int64_t ms, char out[32])
{
    const struct unit *u = units;
    while (ms % u->ms != 0)
        u++;
    if (ms == 0)
        u = &units[3]; /* "0s" */
    snprintf(out, 32, "%" PRId64 "%s", ms / u->ms, u->name);
}

void str_rough_duration_ms(int64_t ms, char out[32])
{
    int64_t seconds = ms > 0 ? (ms + 999) / 1000 : 0;
    int64_t minutes = (seconds + 59) / 60;
    if (seconds < 120)
        snprintf(out, 32, "%" PRId64 "s", seconds);
    else if (minutes < 120 || minutes % 60 == 0)
        snprintf(out, 32, "%" PRId64 "%s", minutes < 120 ? minutes : minutes / 60,
                 minutes < 120 ? "m" : "h");
    else
        snprintf(out, 32, "%" PRId64 "h %" PRId64 "m", minutes / 60, minutes % 60);
}

void str_fit(char *out, size_t out_bytes, const char *text)
{
    if (out_bytes == 0)
        return;
    size_t length = text != NULL ? strnlen(text, out_bytes) : 0;
    if (length == out_bytes) {
        /* Too long: cut before the character that the last byte is part of. No character has more
         * than 3 bytes behind its first; going back further would eat what is no UTF-8 at all. */
        length--;
        size_t least = length > 3 ? length - 3 : 0;
        while (length > least && ((unsigned char)text[length] & 0xC0) == 0x80)
            length--;
    }
    if (length > 0)
        memmove(out, text, length);
    out[length] = '\0';
}

uint64_t str_hash(uint64_t hash, const char *text)
{
    for (;; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
        if (*text == '\0')
            return hash;
    }
}
