/* SPDX-License-Identifier: MIT */
/*
 * progress.c: what a command says on descriptor 3, line by line.
 *
 *     reading the sources              a message
 *     42% half of the tests pass       a percentage, and a message if there is one
 *     {"percent": 42, "message": "...", "checkpoint": {...}}
 *
 * Of each kind the last one counts; what was told is sent together. A line that looks like JSON and
 * is none is a message like any other. Lines longer than LINE_BYTES_MAX are cut, messages too.
 */
#include "runner_private.h"

#include "base/str.h"

#define LINE_BYTES_MAX (JSON_VALUE_BYTES_MAX + MESSAGE_BYTES_MAX)

void progress_init(struct progress *p)
{
    *p = (struct progress){.percent = -1};
    buf_init(&p->line, LINE_BYTES_MAX);
}

void progress_release(struct progress *p)
{
    buf_release(&p->line);
    mem_free(p->message);
    json_decref(p->checkpoint);
    *p = (struct progress){.percent = -1};
}

static void note_message(struct progress *p, const char *text)
{
    char fitted[MESSAGE_BYTES_MAX + 1] = "";

    str_fit(fitted, sizeof fitted, text);
    mem_free(p->message);
    p->message = need_copy(fitted);
    p->fresh = true;
}

static void note_percent(struct progress *p, double percent)
{
    p->percent = percent > 0 ? percent < 100 ? (int64_t)percent : 100 : 0;
    p->fresh = true;
}

/* note_checkpoint: one that is too large would be refused, and what is told with it. */
static void note_checkpoint(struct progress *p, json_t *checkpoint)
{
    if (!need_fits(checkpoint, JSON_VALUE_BYTES_MAX)) {
        p->oversize = true;
        return;
    }
    json_decref(p->checkpoint);
    p->checkpoint = json_incref(checkpoint);
    p->fresh = true;
}

/* take_json: false when the line is no object that says something of ours. */
static bool take_json(struct progress *p, const char *line, size_t bytes)
{
    struct dibs_error ignored = {0};
    json_t *json = NULL, *checkpoint = NULL;
    const json_t *percent = NULL;
    bool known = false;

    if (line[0] != '{' || json_read(line, bytes, &json, &ignored) != DIBS_OK)
        return false;
    percent = json_object_get(json, "percent");
    checkpoint = json_object_get(json, "checkpoint");
    if (json_is_number(percent)) {
        note_percent(p, json_number_value(percent));
        known = true;
    }
    if (json_text(json, "message") != NULL) {
        note_message(p, json_text(json, "message"));
        known = true;
    }
    if (checkpoint != NULL) {
        note_checkpoint(p, checkpoint);
        known = true;
    }
    json_decref(json);
    return known;
}

/* take_percent: "42% text"; what stands behind it is returned. NULL: there is none. */
static const char *take_percent(struct progress *p, const char *line)
{
    size_t digits = strspn(line, "0123456789");
    char number[4] = "";
    int64_t percent = 0;

    if (digits == 0 || digits > 3 || line[digits] != '%')
        return NULL;
    memcpy(number, line, digits);
    if (!str_to_int(number, &percent))
        return NULL;
    note_percent(p, (double)percent);
    return line + digits + 1;
}

/* end_line: does what the line says and begins the next one. */
static void end_line(struct progress *p)
{
    const char *line = p->line.data != NULL ? p->line.data : "", *rest = NULL;
    size_t good = 0;

    /* an overlong line may have been cut inside a character */
    good = str_utf8_run(line, p->line.len);
    if (good < p->line.len)
        buf_cut(&p->line, good);
    while (p->line.len > 0 && strchr(" \t\r", line[p->line.len - 1]) != NULL)
        buf_cut(&p->line, p->line.len - 1);
    line += strspn(line, " \t");
    if (line[0] != '\0' && !take_json(p, line, strlen(line))) {
        rest = take_percent(p, line);
        rest = rest != NULL ? rest + strspn(rest, " \t") : line;
        if (rest[0] != '\0')
            note_message(p, rest);
    }
    buf_reset(&p->line);
    p->overlong = false;
}

void progress_feed(struct progress *p, const char *bytes, size_t count)
{
    size_t room = 0;

    while (count > 0) {
        const char *end = memchr(bytes, '\n', count);
        size_t piece = end != NULL ? (size_t)(end - bytes) : count;
        room = LINE_BYTES_MAX - p->line.len;
        if (!p->overlong)
            buf_append(&p->line, bytes, piece < room ? piece : room);
        p->overlong = p->overlong || piece > room;
        if (end == NULL)
            return;
        end_line(p);
        bytes += piece + 1;
        count -= piece + 1;
    }
}

void progress_end(struct progress *p)
{
    if (p->line.len > 0)
        end_line(p);
}

bool progress_drop_checkpoint(struct progress *p)
{
    bool had = p->checkpoint != NULL;

    json_decref(p->checkpoint);
    p->checkpoint = NULL;
    return had;
}

void progress_body(const struct progress *p, json_t *body)
{
    if (p->percent >= 0)
        need_int(body, "percent", p->percent);
    need_text(body, "message", p->message);
    if (p->checkpoint != NULL)
        need_set(body, "checkpoint", json_incref(p->checkpoint));
}
