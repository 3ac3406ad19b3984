/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd.c: reserve, then delete.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define PUTS_AT_ONCE 500
#define PUT_BYTES (PAYLOAD_BYTES + 64)
#define TIME_TO_RUN_S 1800

/* A line without its end out of what has come; NULL when more must come. */
static const char *next_line(struct wire *wire, size_t *bytes)
{
    const char *line = wire_bytes(wire);
    const char *end = memmem(line, wire_count(wire), "\r\n", 2);
    if (end == NULL)
        return NULL;
    *bytes = (size_t)(end - line);
    wire->used += *bytes + 2;
    return line;
}

static void expect_line(const char *line, size_t bytes, const char *start)
{
    if (bytes < strlen(start) || memcmp(line, start, strlen(start)) != 0)
        die("bench: beanstalkd answered '%.*s'", (int)bytes, line);
}

static const char *wait_for_line(struct wire *wire, size_t *bytes)
{
    const char *line = NULL;
    while ((line = next_line(wire, bytes)) == NULL)
        wire_receive(wire, true);
    return line;
}

static void fill(const char *at, int64_t first, int64_t count)
{
    struct wire *wire = wire_open(at);
    char *batch = must_alloc((size_t)PUTS_AT_ONCE * PUT_BYTES);
    for (int64_t done = 0; done < count;) {
        char job[PAYLOAD_BYTES];
        size_t bytes = 0;
        int64_t begin = done, until = count - done < PUTS_AT_ONCE ? count : done + PUTS_AT_ONCE;
        for (; done < until; done++) {
            size_t length = payload_write(job, first + done);
            bytes += (size_t)snprintf(batch + bytes, PUT_BYTES, "put 0 0 %d %zu\r\n%s\r\n",
                                      TIME_TO_RUN_S, length, job);
        }
        wire_send(wire, batch, bytes);
        for (; begin < until; begin++) {
            const char *line = wait_for_line(wire, &bytes);
            expect_line(line, bytes, "INSERTED ");
        }
    }
    free(batch);
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
    char line[192];
    if (w->asked == ASKED_CLAIM)
        wire_send(w->link, "reserve\r\n", 9);
    else
        wire_send(w->link, line, (size_t)snprintf(line, sizeof line, "delete %s\r\n", w->job.key));
}

/* "RESERVED 17 49", and then 49 bytes and the end of a line. */
static bool take_job(struct worker *w, struct wire *wire, const char *line, size_t bytes)
{
    expect_line(line, bytes, "RESERVED ");
    const char *id = line + 9, *blank = memchr(id, ' ', bytes - 9);
    size_t length = (size_t)number_at(blank + 1, line + bytes);
    if (wire_count(wire) < length + 2) {
        wire->used -= bytes + 2;
        return false;
    }
    snprintf(w->job.key, sizeof w->job.key, "%.*s", (int)(blank - id), id);
    w->job.number = payload_number(wire_bytes(wire), length);
    wire->used += length + 2;
    return true;
}

static bool answered(struct worker *w)
{
    struct wire *wire = w->link;
    size_t bytes = 0;
    wire_receive(wire, false);
    const char *line = next_line(wire, &bytes);
    if (line == NULL)
        return false;
    if (w->asked == ASKED_CLAIM)
        return take_job(w, wire, line, bytes);
    expect_line(line, bytes, "DELETED");
    return true;
}

static int64_t stat_value(const char *text, const char *end, const char *name)
{
    const char *found = memmem(text, (size_t)(end - text), name, strlen(name));
    if (found == NULL)
        die("bench: beanstalkd does not tell '%s'", name);
    return number_at(found + strlen(name), end);
}

static void count_jobs(const char *at, int64_t *waiting, int64_t *held)
{
    struct wire *wire = wire_open(at);
    size_t bytes = 0;
    wire_send(wire, "stats\r\n", 7);
    const char *line = wait_for_line(wire, &bytes);
    expect_line(line, bytes, "OK ");
    size_t length = (size_t)number_at(line + 3, line + bytes);
    while (wire_count(wire) < length)
        wire_receive(wire, true);
    const char *text = wire_bytes(wire);
    *waiting = stat_value(text, text + length, "current-jobs-ready: ");
    *held = stat_value(text, text + length, "current-jobs-reserved: ");
    wire_close(wire);
}

const struct protocol protocol_beanstalkd = {.name = "beanstalkd",
                                             .fill = fill,
                                             .open = open_link,
                                             .close = close_link,
                                             .ask = ask,
                                             .answered = answered,
                                             .count = count_jobs};
