/* SPDX-License-Identifier: MIT */
/*
 * event_stream.h: server-sent events out of bytes that come in any pieces.
 */
#ifndef DIBS_EVENT_STREAM_H
#define DIBS_EVENT_STREAM_H

#include "base/buf.h"
#include "client.h"

#define EVENT_BYTES_MAX (8 * 1024 * 1024) /* one event; ours carry at most a request's body */

struct event_stream {
    struct buf line, type, data;
    int64_t id;    /* of the event that is being read; 0: none so far */
    bool after_cr; /* a line feed now belongs to the line end that was seen already */
};

void event_stream_init(struct event_stream *s);
void event_stream_release(struct event_stream *s);
/* Takes in bytes and calls `event` for each event that is whole. False: an event is too large, or
 * there is no memory; nothing more may be fed. */
bool event_stream_feed(struct event_stream *s, const char *bytes, size_t count,
                       void (*event)(void *context, const struct client_event *event),
                       void *context) MUST_USE;

#endif
