/* SPDX-License-Identifier: MIT */
/*
 * event_stream.c: reads text/event-stream.
 *
 * Lines end in LF, CR or CRLF; "field: value", the blank optional; an empty line ends an event; a
 * line that begins with a colon is a comment (the daemon sends them to keep the connection open).
 * Known fields are event, id and data; others (retry) are passed over, as the standard demands. An
 * event without data is none, but its id counts: so the daemon tells how far it has looked. One
 * that the end of the stream cuts off is not told: it comes again after its predecessor's id.
 */
#include "event_stream.h"

#include "base/str.h"

void event_stream_init(struct event_stream *s)
{
    *s = (struct event_stream){0};
    buf_init(&s->line, EVENT_BYTES_MAX);
    buf_init(&s->type, WORD_BYTES_MAX);
    buf_init(&s->data, EVENT_BYTES_MAX);
}

void event_stream_release(struct event_stream *s)
{
    buf_release(&s->line);
    buf_release(&s->type);
    buf_release(&s->data);
}

struct listener {
    void (*event)(void *context, const struct client_event *event);
    void *context;
};

/* tell: hands over the event that an empty line has ended. */
static void tell(struct event_stream *s, const struct listener *to)
{
    struct client_event event = {.type = s->type.len > 0 ? s->type.data : "message", .id = s->id};

    if (s->data.len == 0) {
        event.type = "";
        if (s->id > 0)
            to->event(to->context, &event);
    } else {
        event.data = json_loadb(s->data.data, s->data.len - 1, JSON_DECODE_ANY, NULL);
        to->event(to->context, &event);
        json_decref(event.data);
    }
    buf_reset(&s->type);
    buf_reset(&s->data);
    s->id = 0;
}

/* field: one line that is neither empty nor a comment. */
static void field(struct event_stream *s, const char *name, const char *value)
{
    int64_t number = 0;

    if (str_eq(name, "data")) {
        buf_text(&s->data, value);
        buf_char(&s->data, '\n');
    } else if (str_eq(name, "event")) {
        buf_reset(&s->type);
        buf_text(&s->type, value);
    } else if (str_eq(name, "id") && str_to_int(value, &number)) {
        s->id = number;
    }
}

/* end_line: does what the line says and begins the next one. */
static void end_line(struct event_stream *s, const struct listener *to)
{
    char *line = s->line.data;
    char *colon = NULL;

    if (s->line.len == 0) {
        tell(s, to);
        return;
    }
    colon = strchr(line, ':');
    if (colon == NULL) {
        field(s, line, "");
    } else if (colon != line) {
        *colon = '\0';
        field(s, line, colon[1] == ' ' ? colon + 2 : colon + 1);
    }
    buf_reset(&s->line);
}

bool event_stream_feed(struct event_stream *s, const char *bytes, size_t count,
                       void (*event)(void *context, const struct client_event *event),
                       void *context)
{
    const struct listener to = {.event = event, .context = context};

    for (size_t i = 0; i < count; i++) {
        bool second = bytes[i] == '\n' && s->after_cr;
        s->after_cr = bytes[i] == '\r';
        if (second)
            continue;
        if (bytes[i] == '\n' || bytes[i] == '\r')
            end_line(s, &to);
        else if (bytes[i] != '\0')
            buf_char(&s->line, bytes[i]);
        if (!buf_ok(&s->line) || !buf_ok(&s->data) || !buf_ok(&s->type))
            return false;
    }
    return true;
}
