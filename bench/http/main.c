/* SPDX-License-Identifier: MIT */
/*
 * main.c: one system, one queue, one or more numbers of connections.
 *
 *   bench-http PROTOCOL --at ADDRESS --pid PID --tasks N [--connections 1,10,64] [--jobs N]
 *              [--seconds S] [--filled N | --fill-only]
 *
 * Before each run the queue is topped up to N tasks; each prints one line of JSON. bench/http.py
 * starts the systems, lets them take turns and makes the table.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const struct protocol *const protocols[] = {
    &protocol_dibs,       &protocol_dibs_next,    &protocol_beanstalkd,
    &protocol_redis_list, &protocol_redis_stream, &protocol_postgres,
};

struct options {
    const struct protocol *protocol;
    const char *at, *connections;
    int pid;
    int64_t tasks, jobs, filled;
    double seconds;
    bool fill_only;
};

void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void *must_alloc(size_t bytes)
{
    void *block = calloc(1, bytes);
    if (block == NULL)
        die("bench: out of memory");
    return block;
}

/* ---- payloads -------------------------------------------------------------------------------- */

#define PAYLOAD_START "{\"task\":"

size_t payload_write(char out[PAYLOAD_BYTES], int64_t number)
{
    return (size_t)snprintf(out, PAYLOAD_BYTES,
                            PAYLOAD_START "%" PRId64 ",\"title\":\"render frame %" PRId64
                                          " of the film\"}",
                            number, number);
}

int64_t payload_number(const char *bytes, size_t count)
{
    size_t start = strlen(PAYLOAD_START);
    if (count <= start || memcmp(bytes, PAYLOAD_START, start) != 0)
        return 0;
    return number_at(bytes + start, bytes + count);
}

int64_t number_at(const char *bytes, const char *end)
{
    int64_t number = 0;
    for (; bytes < end && *bytes >= '0' && *bytes <= '9'; bytes++)
        number = number * 10 + (*bytes - '0');
    return number;
}

/* ---- options --------------------------------------------------------------------------------- */

static bool set_option(struct options *o, const char *name, const char *value)
{
    if (strcmp(name, "--at") == 0)
        o->at = value;
    else if (strcmp(name, "--connections") == 0)
        o->connections = value;
    else if (strcmp(name, "--pid") == 0)
        o->pid = (int)strtol(value, NULL, 10);
    else if (strcmp(name, "--tasks") == 0)
        o->tasks = strtoll(value, NULL, 10);
    else if (strcmp(name, "--jobs") == 0)
        o->jobs = strtoll(value, NULL, 10);
    else if (strcmp(name, "--filled") == 0)
        o->filled = strtoll(value, NULL, 10);
    else if (strcmp(name, "--seconds") == 0)
        o->seconds = strtod(value, NULL);
    else
        return false;
    return true;
}

static void read_options(struct options *o, int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof protocols / sizeof protocols[0]; i++) {
        if (strcmp(argv[1], protocols[i]->name) == 0)
            o->protocol = protocols[i];
    }
    if (o->protocol == NULL)
        die("bench: '%s' is no protocol", argc > 1 ? argv[1] : "");
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--fill-only") == 0)
            o->fill_only = true;
        else if (i + 1 < argc && set_option(o, argv[i], argv[i + 1]))
            i++;
        else
            die("bench: '%s' is no option, or lacks its value", argv[i]);
    }
    if (o->at == NULL || o->tasks <= 0)
        die("bench: --at and --tasks are required");
}

static void print_result(int connections, const struct result *r)
{
    double jobs = r->jobs > 0 ? (double)r->jobs : 1;
    printf("{\"connections\":%d,\"jobs\":%" PRId64 ",\"seconds\":%.4f,\"jobsPerSecond\":%.1f,"
           "\"p50Us\":%.1f,\"p95Us\":%.1f,\"p99Us\":%.1f,\"maxUs\":%.1f,"
           "\"serverCpuUs\":%.2f,\"clientCpuUs\":%.2f,\"othersPart\":%.3f}\n",
           connections, r->jobs, r->seconds, (double)r->jobs / r->seconds, r->p50_us, r->p95_us,
           r->p99_us, r->max_us, r->server_cpu_s / jobs * 1e6, r->client_cpu_s / jobs * 1e6,
           r->others_part);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct options o = {.connections = "1,10,64", .jobs = INT64_MAX, .seconds = 3};
    read_options(&o, argc, argv);
    struct drive *d = drive_new(o.protocol, o.at, o.pid);
    if (o.filled > 0)
        drive_assume(d, o.filled);
    drive_fill(d, o.tasks);
    for (const char *next = o.connections; !o.fill_only && *next != '\0';) {
        char *end = NULL;
        long connections = strtol(next, &end, 10);
        struct result result = {0};
        if (connections < 1 || connections > 1000)
            die("bench: '%s' is no list of numbers of connections", o.connections);
        drive_fill(d, o.tasks);
        drive_run(d, (int)connections, o.jobs, o.seconds, &result);
        print_result((int)connections, &result);
        next = *end == ',' ? end + 1 : end;
    }
    drive_free(d);
    return 0;
}
