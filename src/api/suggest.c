/* SPDX-License-Identifier: MIT */
/*
 * suggest.c: finds the field that a typing error was meant to be.
 *
 * The distance between two names is the number of letters to insert, remove or replace
 * (Levenshtein), upper and lower case being the same, so that session_id is near sessionId. Names
 * are short: one row of the table on the stack is enough, and longer words than any name are not
 * compared at all.
 */
#include "suggest.h"

#define NAME_BYTES_MAX 48
#define DISTANCE_MAX 2

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* distance: row by row of the table, of which `row` is the one above. */
static size_t distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t row[NAME_BYTES_MAX + 1];
    for (size_t j = 0; j <= b_bytes; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_bytes; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_bytes; j++) {
            size_t replaced = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
            diagonal = row[j];
            row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_bytes];
}

/* rank: the distance, and among equals the longer common beginning: "ttl" is ttlMs, not title. */
static size_t rank(const char *name, size_t bytes, const char *field, size_t field_bytes)
{
    size_t common = 0;
    while (common < bytes && lower(name[common]) == lower(field[common]))
        common++;
    return distance(name, bytes, field, field_bytes) * (NAME_BYTES_MAX + 1) + NAME_BYTES_MAX -
           common;
}

const char *suggest(const struct field *fields, size_t count, const char *name)
{
    const char *nearest = NULL;
    size_t bytes = strlen(name), best = (DISTANCE_MAX + 1) * (NAME_BYTES_MAX + 1);
    if (bytes > NAME_BYTES_MAX)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t field_bytes = strlen(fields[i].name);
        if (field_bytes > NAME_BYTES_MAX)
            continue;
        size_t far = rank(name, bytes, fields[i].name, field_bytes);
        /* of a word of two letters, two slips leave nothing */
        if (far < best && far / (NAME_BYTES_MAX + 1) < field_bytes) {
            best = far;
            nearest = fields[i].name;
        }
    }
    return nearest;
}
