/* SPDX-License-Identifier: MIT */
/*
 * import.c: cuts a stream into JSON values without holding more than one of them.
 *
 * A file of a million tasks must not have to fit into one document, so the outer array is not
 * parsed: its elements are found by counting brackets outside of strings, and each is then read
 * strictly by json_read(). Without an outer array a value is a line; blank lines are skipped.
 */
#include <errno.h>

#include "import.h"

void import_init(struct import *in, FILE *from)
{
    *in = (struct import){.from = from, .line = 1};
    buf_init(&in->text, BODY_BYTES_MAX);
}

void import_release(struct import *in)
{
    buf_release(&in->text);
}

static int take(struct import *in)
{
    int c = getc(in->from);

    in->line += c == '\n';
    return c;
}

static void put_back(struct import *in, int c)
{
    in->line -= c == '\n';
    ungetc(c, in->from);
}

/* skip: the next character that is no blank. */
static int skip(struct import *in)
{
    int c = take(in);

    while (c == ' ' || c == '\t' || c == '\r' || c == '\n')
        c = take(in);
    return c;
}

static dibs_status refuse(const struct import *in, int64_t line, const char *what,
                          struct dibs_error *err)
{
    if (ferror(in->from))
        return error_set(err, DIBS_INVALID_REQUEST, "cannot read line %" PRId64 ": %s", line,
                         strerror(errno));
    return error_set(err, DIBS_INVALID_REQUEST, "line %" PRId64 ": %s", line, what);
}

/* cut_line: the rest of the line. */
static void cut_line(struct import *in, int c)
{
    for (; c != EOF && c != '\n'; c = take(in))
        buf_char(&in->text, (char)c);
}

static bool closes(int c)
{
    return c == '}' || c == ']';
}

/* cut_string: the rest of a string, behind its first quote. */
static void cut_string(struct import *in)
{
    bool escaped = false;

    for (int c = take(in); c != EOF; c = take(in)) {
        buf_char(&in->text, (char)c);
        if (c == '"' && !escaped)
            return;
        escaped = !escaped && c == '\\';
    }
}

/* cut_element: one element of the array; the comma or bracket behind it is left. */
static void cut_element(struct import *in, int c)
{
    int depth = 0;

    for (; c != EOF; c = take(in)) {
        if (depth == 0 && (c == ',' || c == ']')) {
            put_back(in, c);
            return;
        }
        buf_char(&in->text, (char)c);
        if (c == '"')
            cut_string(in);
        depth += (c == '{' || c == '[') - closes(c);
        if (depth == 0 && closes(c))
            return;
    }
}

/* start: finds out of which kind the stream is; returns its first character. */
static int start(struct import *in)
{
    int c = skip(in);

    in->started = true;
    in->is_array = c == '[';
    if (!in->is_array)
        return c;
    c = skip(in);
    in->ended = c == ']';
    return c;
}

/* step: goes from one element to the next; false when something else stands between them. */
static bool step(struct import *in, int *c)
{
    *c = skip(in);
    if (!in->is_array)
        return true;
    in->ended = *c == ']';
    if (in->ended)
        return true;
    if (*c != ',')
        return false;
    *c = skip(in);
    return true;
}

/* finish: behind the array there may be blanks only. */
static dibs_status finish(struct import *in, struct dibs_error *err)
{
    if (in->is_array && skip(in) != EOF)
        return refuse(in, in->line, "something follows after the end of the array", err);
    if (ferror(in->from))
        return refuse(in, in->line, "", err);
    return DIBS_OK;
}

dibs_status import_next(struct import *in, json_t **out, struct dibs_error *err)
{
    struct dibs_error why = {0};
    json_t *value = NULL;
    int c = 0;

    if (in->ended) {
        *out = NULL;
        return DIBS_OK;
    }
    if (!in->started)
        c = start(in);
    else if (!step(in, &c))
        return refuse(in, in->line, c == EOF ? "the array does not end" : "a comma is missing",
                      err);
    if (in->ended || (c == EOF && !in->is_array)) {
        in->ended = true;
        *out = NULL;
        return finish(in, err);
    }
    if (c == EOF)
        return refuse(in, in->line, "the array does not end", err);
    in->at = in->line;
    buf_reset(&in->text);
    if (in->is_array)
        cut_element(in, c);
    else
        cut_line(in, c);
    if (buf_status(&in->text, &why) != DIBS_OK ||
        json_read(in->text.data, in->text.len, &value, &why) != DIBS_OK)
        return refuse(in, in->at, why.message, err);
    *out = value;
    return DIBS_OK;
}
