/* SPDX-License-Identifier: MIT */
/*
 * drive.c: the closed loop, and what every system must keep.
 *
 *   claim -> complete -> claim -> ...           each worker, one request at a time
 *   claim -> complete and claim -> ...          where the protocol chains
 *
 *   1. No job is handed out twice, over all runs of a drive: seen[] has one flag for each.
 *   2. Every job that was handed out is completed: a worker stops only between jobs.
 *   3. After each run the system counts what is left, and it must be what we reckon.
 *
 * A worker draws a ticket before it asks for a job, so that nobody asks an empty queue. A few jobs
 * for each worker go before the measured ones: first answers register sessions and plan statements.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench.h"

#define WARM_JOBS_PER_WORKER 8
#define EVENTS_AT_ONCE 128
#define SILENCE_MS 30000

struct drive {
    const struct protocol *protocol;
    const char *at;
    int server_pid;
    bool *seen;     /* [1..filled] */
    int64_t filled; /* ever */
    int64_t completed;
    /* of the run */
    struct worker *workers;
    int epoll;
    int active;
    int64_t tickets;
    uint64_t deadline_ns;
    uint32_t *latencies;
    size_t latency_count;
};

struct drive *drive_new(const struct protocol *protocol, const char *at, int server_pid)
{
    struct drive *d = must_alloc(sizeof *d);
    d->protocol = protocol;
    d->at = at;
    d->server_pid = server_pid;
    return d;
}

void drive_free(struct drive *d)
{
    free(d->seen);
    free(d);
}

void drive_assume(struct drive *d, int64_t tasks)
{
    d->seen = realloc(d->seen, (size_t)(d->filled + tasks + 1) * sizeof *d->seen);
    if (d->seen == NULL)
        die("bench: out of memory");
    memset(d->seen + d->filled + 1, 0, (size_t)tasks * sizeof *d->seen);
    d->filled += tasks;
}

void drive_fill(struct drive *d, int64_t tasks)
{
    int64_t missing = tasks - (d->filled - d->completed);
    if (missing <= 0)
        return;
    d->protocol->fill(d->at, d->filled + 1, missing);
    drive_assume(d, missing);
}

/* ---- one worker ------------------------------------------------------------------------------ */

static bool ticket(struct drive *d)
{
    if (d->tickets == 0 || now_ns() >= d->deadline_ns)
        return false;
    d->tickets--;
    return true;
}

static void ask(struct drive *d, struct worker *w, enum asked what)
{
    w->asked = what;
    w->asked_ns = now_ns();
    d->protocol->ask(w);
}

/* A job has come: it must be new. */
static void take(struct drive *d, struct worker *w)
{
    int64_t number = w->job.number;
    if (d->latencies != NULL)
        d->latencies[d->latency_count++] = (uint32_t)(now_ns() - w->asked_ns);
    if (number < 1 || number > d->filled)
        die("bench: %s handed out job %" PRId64 ", which was never put in", d->protocol->name,
            number);
    if (d->seen[number])
        die("bench: %s handed out job %" PRId64 " twice", d->protocol->name, number);
    d->seen[number] = true;
    ask(d, w, d->protocol->chains && ticket(d) ? ASKED_COMPLETE_AND_CLAIM : ASKED_COMPLETE);
}

static void claim_or_rest(struct drive *d, struct worker *w)
{
    if (ticket(d))
        ask(d, w, ASKED_CLAIM);
    else
        d->active--;
}

static void on_readable(struct drive *d, struct worker *w)
{
    if (!d->protocol->answered(w))
        return;
    if (w->asked != ASKED_CLAIM)
        d->completed++;
    if (w->asked == ASKED_COMPLETE)
        claim_or_rest(d, w);
    else
        take(d, w);
}

/* ---- one run --------------------------------------------------------------------------------- */

/* Does so many jobs, or as many as fit before the deadline; returns when all workers rest. */
static void work(struct drive *d, int connections, int64_t jobs, uint64_t deadline_ns)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    d->tickets = jobs;
    d->deadline_ns = deadline_ns;
    d->active = connections;
    for (int i = 0; i < connections; i++)
        claim_or_rest(d, &d->workers[i]);
    while (d->active > 0) {
        int count = epoll_wait(d->epoll, events, EVENTS_AT_ONCE, SILENCE_MS);
        if (count == 0)
            die("bench: %s has not answered for %d s", d->protocol->name, SILENCE_MS / 1000);
        if (count < 0 && errno != EINTR)
            die("bench: cannot wait: %s", strerror(errno));
        for (int i = 0; i < count; i++)
            on_readable(d, events[i].data.ptr);
    }
}

static void open_workers(struct drive *d, int connections)
{
    d->epoll = epoll_create1(EPOLL_CLOEXEC);
    d->workers = must_alloc((size_t)connections * sizeof *d->workers);
    for (int i = 0; i < connections; i++) {
        struct worker *w = &d->workers[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = w};
        w->index = i;
        d->protocol->open(w, d->at);
        if (epoll_ctl(d->epoll, EPOLL_CTL_ADD, w->fd, &event) != 0)
            die("bench: cannot watch a connection: %s", strerror(errno));
    }
}

static void close_workers(struct drive *d, int connections)
{
    for (int i = 0; i < connections; i++)
        d->protocol->close(&d->workers[i]);
    free(d->workers);
    close(d->epoll);
}

static void check(struct drive *d)
{
    int64_t waiting = 0, held = 0;
    d->protocol->count(d->at, &waiting, &held);
    if (held != 0 || waiting != d->filled - d->completed)
        die("bench: %s has %" PRId64 " jobs waiting and %" PRId64 " held after %" PRId64
            " of %" PRId64 " were completed",
            d->protocol->name, waiting, held, d->completed, d->filled);
}

void drive_run(struct drive *d, int connections, int64_t jobs, double seconds, struct result *out)
{
    open_workers(d, connections);
    work(d, connections, (int64_t)connections * WARM_JOBS_PER_WORKER, UINT64_MAX);

    int64_t left = d->filled - d->completed;
    jobs = jobs < left ? jobs : left;
    d->latencies = must_alloc((size_t)(jobs + 1) * sizeof *d->latencies);
    d->latency_count = 0;
    sync(); /* what filling has left to be written would be written during the run */
    double server_s = tree_cpu_s(d->server_pid), own_s = own_cpu_s(), all_s = machine_cpu_s();
    int64_t completed = d->completed;
    uint64_t begin_ns = now_ns();
    work(d, connections, jobs, begin_ns + (uint64_t)(seconds * 1e9));
    out->seconds = (double)(now_ns() - begin_ns) / 1e9;
    out->server_cpu_s = tree_cpu_s(d->server_pid) - server_s;
    out->client_cpu_s = own_cpu_s() - own_s;
    out->others_part = (machine_cpu_s() - all_s - out->server_cpu_s - out->client_cpu_s) /
                       out->seconds / (double)sysconf(_SC_NPROCESSORS_ONLN);
    if (out->others_part < 0) /* ticks are coarse */
        out->others_part = 0;
    out->jobs = d->completed - completed;

    close_workers(d, connections);
    check(d);
    sort_latencies(d->latencies, d->latency_count);
    out->p50_us = percentile_us(d->latencies, d->latency_count, 0.50);
    out->p95_us = percentile_us(d->latencies, d->latency_count, 0.95);
    out->p99_us = percentile_us(d->latencies, d->latency_count, 0.99);
    out->max_us = percentile_us(d->latencies, d->latency_count, 1.0);
    free(d->latencies);
    d->latencies = NULL;
}
