/* SPDX-License-Identifier: MIT */
/*
 * output.h: text for people: escaped, coloured when it may be, in columns, with times relative to
 * now.
 *
 * Everything that came from outside (titles, ids, messages, file names) passes out_escape() before
 * it is printed, so that a title with an escape sequence in it cannot do anything to a terminal.
 */
#ifndef DIBS_OUTPUT_H
#define DIBS_OUTPUT_H

#include "base/base.h"
#include "base/buf.h"

enum colour { PLAIN, BOLD, DIM, RED, GREEN, YELLOW, BLUE, CYAN };

struct output {
    bool colour;
    size_t columns; /* width of the terminal; 0: not a terminal, nothing is cut */
    int64_t now_ms;
};

/* Looks at standard output and the environment (NO_COLOR, TERM, COLUMNS). */
void output_init(struct output *out, bool no_colour);

/* ---- text ------------------------------------------------------------------------------------ */

/* Appends text with control characters, line breaks, direction marks and broken UTF-8 written out:
 * \n \x1b \u202e. */
void out_escape(struct buf *b, const char *text);
/* The same in the arena; NULL in, NULL out. */
const char *out_safe(dibs_arena *a, const char *text);
size_t out_width(const char *text); /* columns that escaped text takes on a terminal */
/* As much of escaped text as fits into so many columns, at least 1, with an ellipsis at its end. */
const char *out_cut(dibs_arena *a, const char *text, size_t columns);
/* Prints to standard output in a colour, if there are colours. */
void out_colour(const struct output *out, enum colour colour, const char *text);
/* Appends JSON text with those characters escaped that JSON lets pass but a terminal may obey. */
void out_json(struct buf *b, const char *json, size_t bytes);

/* ---- times ----------------------------------------------------------------------------------- */

/* "12s", "4m", "3h", "2d": the largest unit only */
const char *out_span(dibs_arena *a, int64_t ms);
/* "2m ago", "in 4m", "now" from an ISO 8601 text; "-" for NULL */
const char *out_when(const struct output *out, dibs_arena *a, const char *iso);
/* "14:32", with the date when it is not today; local time */
const char *out_clock(const struct output *out, dibs_arena *a, const char *iso);

/* ---- columns --------------------------------------------------------------------------------- */

#define TABLE_COLUMNS_MAX 12

struct column {
    const char *title;
    bool right;    /* numbers */
    bool flexible; /* is cut when the terminal is too narrow */
};
struct cell {
    const char *text; /* escaped */
    enum colour colour;
};
struct table {
    dibs_arena *arena;
    const struct column *columns;
    size_t column_count;
    struct cell *cells; /* row by row */
    size_t cell_count;
};
void table_init(struct table *t, dibs_arena *a, const struct column *columns, size_t count);
/* The next cell of the row; NULL text is shown as "-". The text is escaped and copied. */
void table_cell(struct table *t, enum colour colour, const char *text);
void table_int(struct table *t, int64_t value);
void table_print(const struct table *t, const struct output *out);

#endif
