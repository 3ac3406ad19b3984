/* SPDX-License-Identifier: MIT */
/*
 * dibs.c: our own daemon over HTTP/1.1 with keep-alive, on TCP or its unix socket.
 *
 *   dibs        POST /api/tasks/claim, then POST /api/tasks/ID/complete
 *   dibs-next   complete with claimNext: one request for each job
 *
 * The number of a job is its id: tasks without an id of their own are numbered from 1. Answers are
 * searched for "id" and "token", not parsed.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bench.h"

#define TASKS_PER_REQUEST 1000
#define REQUEST_BYTES 512

/* What is between the quotes of a request, and the request around it. */
static void post(struct wire *wire, const char *path, const char *body, size_t count)
{
    char head[REQUEST_BYTES];
    int bytes = snprintf(head, sizeof head,
                         "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                         "Content-Length: %zu\r\n\r\n",
                         path, count);
    if (bytes + count < sizeof head) {
        memcpy(head + bytes, body, count);
        wire_send(wire, head, (size_t)bytes + count);
    } else {
        wire_send(wire, head, (size_t)bytes);
        wire_send(wire, body, count);
    }
}

static size_t content_length(const char *head, const char *end)
{
    static const char name[] = "\r\ncontent-length:";
    for (const char *line = head; line != NULL && line < end;
         line = memmem(line + 1, (size_t)(end - line) - 1, "\r\n", 2)) {
        if (strncasecmp(line, name, sizeof name - 1) == 0)
            return strtoul(line + sizeof name - 1, NULL, 10);
    }
    die("bench: dibs answered without a length");
}

struct reply {
    const char *body, *end;
};

/* next_reply: a whole answer out of what has come, which must be a success; false when more must
 * come. The reply lives until something more is received. */
static bool next_reply(struct wire *wire, struct reply *out)
{
    const char *bytes = wire_bytes(wire);
    const char *end = memmem(bytes, wire_count(wire), "\r\n\r\n", 4);
    if (end == NULL)
        return false;
    size_t head = (size_t)(end - bytes) + 4, body = content_length(bytes, end);
    if (wire_count(wire) < head + body)
        return false;
    if (strncmp(bytes, "HTTP/1.1 2", 10) != 0)
        die("bench: dibs answered: %.*s", (int)(head + body), bytes);
    wire->used += head + body;
    *out = (struct reply){.body = bytes + head, .end = bytes + head + body};
    return true;
}

static struct reply wait_for_reply(struct wire *wire)
{
    struct reply reply = {0};
    while (!next_reply(wire, &reply))
        wire_receive(wire, true);
    return reply;
}

/* The first character after the name, from there on; NULL when it does not occur. */
static const char *after(const char *from, const char *end, const char *name)
{
    const char *found = memmem(from, (size_t)(end - from), name, strlen(name));
    return found == NULL ? NULL : found + strlen(name);
}

static int64_t find_number(const char *from, const char *end, const char *name)
{
    const char *value = after(from, end, name);
    if (value != NULL && *value == '"')
        value++;
    return value == NULL ? 0 : number_at(value, end);
}

/* ---- protocol -------------------------------------------------------------------------------- */

static void fill(const char *at, int64_t first, int64_t count)
{
    struct wire *wire = wire_open(at);
    char *body = must_alloc((size_t)TASKS_PER_REQUEST * (PAYLOAD_BYTES + 64));
    for (int64_t done = 0; done < count;) {
        size_t bytes = 0;
        int64_t until = count - done < TASKS_PER_REQUEST ? count : done + TASKS_PER_REQUEST;
        for (; done < until; done++)
            bytes += (size_t)snprintf(body + bytes, PAYLOAD_BYTES + 64,
                                      "%c{\"title\":\"render frame %" PRId64 " of the film\"}",
                                      bytes == 0 ? '[' : ',', first + done);
        body[bytes++] = ']';
        post(wire, "/api/tasks", body, bytes);
        wait_for_reply(wire);
    }
    free(body);
    wire_close(wire);
}

static void open_link(struct worker *w, const char *at)
{
    struct wire *wire = wire_open(at);
    w->link = wire;
    w->fd = wire->fd;
}

static void close_link(struct worker *w)
{
    wire_close(w->link);
}

static void ask(struct worker *w)
{
    char path[192], body[192];
    int bytes = 0;
    if (w->asked == ASKED_CLAIM) {
        bytes = snprintf(body, sizeof body, "{\"worker_id\":\"w%d\"}", w->index);
        post(w->link, "/api/tasks/claim", body, (size_t)bytes);
        return;
    }
    bytes = snprintf(body, sizeof body, "{\"sessionId\":\"w%d\",\"token\":%" PRId64 "%s}", w->index,
                     w->job.token, w->asked == ASKED_COMPLETE ? "" : ",\"claimNext\":{}");
    snprintf(path, sizeof path, "/api/tasks/%" PRId64 "/complete", w->job.number);
    post(w->link, path, body, (size_t)bytes);
}

static bool answered(struct worker *w)
{
    struct wire *wire = w->link;
    struct reply reply = {0};
    wire_receive(wire, false);
    if (!next_reply(wire, &reply))
        return false;
    if (w->asked == ASKED_COMPLETE)
        return true;
    const char *task = reply.body;
    if (w->asked == ASKED_COMPLETE_AND_CLAIM)
        task = after(task, reply.end, "\"next\":{");
    if (task == NULL)
        die("bench: dibs says there is no next task while there is one");
    w->job.number = find_number(task, reply.end, "\"id\":");
    w->job.token = find_number(task, reply.end, "\"token\":");
    return true;
}

static void count_tasks(const char *at, int64_t *waiting, int64_t *held)
{
    static const char request[] = "GET /api/tasks/claims/stats HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct wire *wire = wire_open(at);
    wire_send(wire, request, sizeof request - 1);
    struct reply reply = wait_for_reply(wire);
    const char *states = after(reply.body, reply.end, "\"tasksByStatus\":");
    if (states == NULL)
        die("bench: dibs does not tell how many tasks there are");
    const char *end = memchr(states, '}', (size_t)(reply.end - states));
    *waiting = find_number(states, end, "\"open\":");
    *held = find_number(states, end, "\"in_progress\":");
    wire_close(wire);
}

const struct protocol protocol_dibs = {.name = "dibs",
                                       .fill = fill,
                                       .open = open_link,
                                       .close = close_link,
                                       .ask = ask,
                                       .answered = answered,
                                       .count = count_tasks};

const struct protocol protocol_dibs_next = {.name = "dibs-next",
                                            .chains = true,
                                            .fill = fill,
                                            .open = open_link,
                                            .close = close_link,
                                            .ask = ask,
                                            .answered = answered,
                                            .count = count_tasks};
