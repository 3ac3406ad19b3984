/* SPDX-License-Identifier: MIT */
/*
 * redis.c: a queue in Redis, in the two usual ways.
 *
 *   redis-list     LMOVE from the queue to the list of jobs in work, then LREM from there
 *   redis-stream   XREADGROUP of one entry, then XACK
 *
 * An answer is walked once to find its end; the walk notes the strings and the last number in it.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define PUSHES_AT_ONCE 500
#define PUSH_BYTES (PAYLOAD_BYTES + 96)
#define STRINGS_MAX 16

struct text {
    const char *bytes;
    size_t count;
};

struct reply {
    struct text strings[STRINGS_MAX];
    size_t string_count;
    int64_t numbers[STRINGS_MAX];
    size_t number_count;
};

/* ---- answers --------------------------------------------------------------------------------- */

static const char *walk_string(const char *at, const char *end, int64_t bytes, struct reply *out)
{
    if (bytes < 0)
        return at;
    if (end - at < bytes + 2)
        return NULL;
    if (out->string_count < STRINGS_MAX)
        out->strings[out->string_count++] = (struct text){at, (size_t)bytes};
    return at + bytes + 2;
}

/* walk: one value; returns where it ends, or NULL when more must come. */
static const char *walk(const char *at, const char *end, struct reply *out)
{
    const char *line_end = memmem(at, (size_t)(end - at), "\r\n", 2);
    if (line_end == NULL)
        return NULL;
    char type = *at;
    int64_t number = at[1] == '-' ? -1 : number_at(at + 1, line_end);
    if (type == '-')
        die("bench: redis answered '%.*s'", (int)(line_end - at), at);
    at = line_end + 2;
    if (type == '$')
        return walk_string(at, end, number, out);
    if (type == ':' && out->number_count < STRINGS_MAX)
        out->numbers[out->number_count++] = number;
    for (; type == '*' && number > 0 && at != NULL; number--)
        at = at < end ? walk(at, end, out) : NULL;
    return at;
}

static bool next_reply(struct wire *wire, struct reply *out)
{
    const char *begin = wire_bytes(wire);
    *out = (struct reply){0};
    if (wire_count(wire) == 0)
        return false;
    const char *end = walk(begin, begin + wire_count(wire), out);
    if (end == NULL)
        return false;
    wire->used += (size_t)(end - begin);
    return true;
}

/* Waits for an answer and gives the first number in it. */
static int64_t wait_for_number(struct wire *wire)
{
    struct reply reply = {0};
    while (!next_reply(wire, &reply))
        wire_receive(wire, true);
    return reply.number_count > 0 ? reply.numbers[0] : 0;
}

static int64_t number_of(struct wire *wire, const char *command)
{
    wire_send(wire, command, strlen(command));
    return wait_for_number(wire);
}

/* ---- both ------------------------------------------------------------------------------------ */

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

/* Sends one command for each job, many at a time; start is what stands before the payload. */
static void push_all(struct wire *wire, const char *start, int64_t first, int64_t count)
{
    char *batch = must_alloc((size_t)PUSHES_AT_ONCE * PUSH_BYTES);
    for (int64_t done = 0; done < count;) {
        char job[PAYLOAD_BYTES];
        size_t bytes = 0;
        int64_t begin = done, until = count - done < PUSHES_AT_ONCE ? count : done + PUSHES_AT_ONCE;
        for (; done < until; done++) {
            size_t length = payload_write(job, first + done);
            bytes +=
                (size_t)snprintf(batch + bytes, PUSH_BYTES, "%s$%zu\r\n%s\r\n", start, length, job);
        }
        wire_send(wire, batch, bytes);
        for (; begin < until; begin++)
            wait_for_number(wire);
    }
    free(batch);
}

/* True when an answer is whole; the answer to a complete must be that one job was meant. */
static bool whole_answer(struct worker *w, struct reply *out)
{
    wire_receive(w->link, false);
    if (!next_reply(w->link, out))
        return false;
    if (w->asked == ASKED_COMPLETE && out->numbers[0] != 1)
        die("bench: redis did not know job %" PRId64, w->job.number);
    if (w->asked == ASKED_CLAIM && out->string_count == 0)
        die("bench: redis says the queue is empty while it is not");
    return true;
}

static void keep(struct job *job, struct text key, struct text payload)
{
    snprintf(job->key, sizeof job->key, "%.*s", (int)key.count, key.bytes);
    job->number = payload_number(payload.bytes, payload.count);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void list_fill(const char *at, int64_t first, int64_t count)
{
    struct wire *wire = wire_open(at);
    push_all(wire, "*3\r\n$5\r\nRPUSH\r\n$5\r\nqueue\r\n", first, count);
    wire_close(wire);
}

static void list_ask(struct worker *w)
{
    static const char move[] = "*5\r\n$5\r\nLMOVE\r\n$5\r\nqueue\r\n$4\r\nwork\r\n"
                               "$4\r\nLEFT\r\n$5\r\nRIGHT\r\n";
    char text[256];
    if (w->asked == ASKED_CLAIM)
        wire_send(w->link, move, sizeof move - 1);
    else
        wire_send(w->link, text,
                  (size_t)snprintf(text, sizeof text,
                                   "*4\r\n$4\r\nLREM\r\n$4\r\nwork\r\n$1\r\n1\r\n$%zu\r\n%s\r\n",
                                   strlen(w->job.key), w->job.key));
}

static bool list_answered(struct worker *w)
{
    struct reply reply;
    if (!whole_answer(w, &reply))
        return false;
    if (w->asked == ASKED_CLAIM)
        keep(&w->job, reply.strings[0], reply.strings[0]);
    return true;
}

static void list_count(const char *at, int64_t *waiting, int64_t *held)
{
    struct wire *wire = wire_open(at);
    *waiting = number_of(wire, "LLEN queue\r\n");
    *held = number_of(wire, "LLEN work\r\n");
    wire_close(wire);
}

const struct protocol protocol_redis_list = {.name = "redis-list",
                                             .fill = list_fill,
                                             .open = open_link,
                                             .close = close_link,
                                             .ask = list_ask,
                                             .answered = list_answered,
                                             .count = list_count};

/* ---- streams --------------------------------------------------------------------------------- */

static void stream_fill(const char *at, int64_t first, int64_t count)
{
    struct wire *wire = wire_open(at);
    if (first == 1)
        number_of(wire, "XGROUP CREATE queue workers 0 MKSTREAM\r\n");
    push_all(wire, "*5\r\n$4\r\nXADD\r\n$5\r\nqueue\r\n$1\r\n*\r\n$3\r\njob\r\n", first, count);
    wire_close(wire);
}

static void stream_ask(struct worker *w)
{
    char text[256];
    if (w->asked == ASKED_CLAIM) {
        wire_send(w->link, text,
                  (size_t)snprintf(text, sizeof text,
                                   "*9\r\n$10\r\nXREADGROUP\r\n$5\r\nGROUP\r\n$7\r\nworkers\r\n"
                                   "$4\r\nw%03d\r\n$5\r\nCOUNT\r\n$1\r\n1\r\n$7\r\nSTREAMS\r\n"
                                   "$5\r\nqueue\r\n$1\r\n>\r\n",
                                   w->index % 1000));
        return;
    }
    wire_send(w->link, text,
              (size_t)snprintf(text, sizeof text,
                               "*4\r\n$4\r\nXACK\r\n$5\r\nqueue\r\n$7\r\nworkers\r\n$%zu\r\n%s\r\n",
                               strlen(w->job.key), w->job.key));
}

/* The strings of an entry: the stream's name, the entry's id, "job", the payload. */
static bool stream_answered(struct worker *w)
{
    struct reply reply;
    if (!whole_answer(w, &reply))
        return false;
    if (w->asked == ASKED_CLAIM && reply.string_count == 4)
        keep(&w->job, reply.strings[1], reply.strings[3]);
    return true;
}

/* XPENDING begins with the number of entries given out and not acknowledged. Entries stay in the
 * stream; what waits is what the group lags behind, the last number that XINFO tells. */
static void stream_count(const char *at, int64_t *waiting, int64_t *held)
{
    struct wire *wire = wire_open(at);
    struct reply reply = {0};
    *held = number_of(wire, "XPENDING queue workers\r\n");
    wire_send(wire, "XINFO GROUPS queue\r\n", 20);
    while (!next_reply(wire, &reply))
        wire_receive(wire, true);
    *waiting = reply.number_count > 0 ? reply.numbers[reply.number_count - 1] : -1;
    wire_close(wire);
}

const struct protocol protocol_redis_stream = {.name = "redis-stream",
                                               .fill = stream_fill,
                                               .open = open_link,
                                               .close = close_link,
                                               .ask = stream_ask,
                                               .answered = stream_answered,
                                               .count = stream_count};
