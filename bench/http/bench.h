/* SPDX-License-Identifier: MIT */
/*
 * bench.h: the parts of the closed-loop driver and what they know of each other.
 *
 * A worker is one connection that claims a job, completes it, claims the next. What it sends and
 * how it reads the answer is a protocol: a struct of functions, one per system. drive.c owns the
 * loop and the promises that every system must keep; wire.c the sockets of those that are spoken by
 * hand; measure.c the clock, the processor's time of a server and the percentiles.
 *
 * Client and server share the machine, so a protocol does as little as it can per job: it looks for
 * the few bytes it needs and nothing else.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends the program with a sentence. */
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void *must_alloc(size_t bytes); /* zeroed */

/* ---- what a worker has in hand ---- */

enum asked { ASKED_CLAIM, ASKED_COMPLETE, ASKED_COMPLETE_AND_CLAIM };

struct job {
    int64_t number; /* 1, 2, 3 ... in the order of filling; how doubles are found */
    int64_t token;
    char key[128]; /* what the system calls it when it is completed */
};

struct worker {
    int index;
    int fd; /* readable when an answer has come */
    void *link;
    enum asked asked;
    uint64_t asked_ns;
    struct job job;
};

/* ---- systems ---- */

struct protocol {
    const char *name;
    bool chains; /* complete can claim the next job in the same request */
    /* Adds the jobs first, first + 1, ... Blocks. */
    void (*fill)(const char *at, int64_t first, int64_t count);
    void (*open)(struct worker *w, const char *at);
    void (*close)(struct worker *w);
    /* Sends what w->asked says about w->job. */
    void (*ask)(struct worker *w);
    /* Reads what has come. True when the answer is whole: w->job is then the claimed job, if one
     * was asked for. Ends the program when the answer is not a success. */
    bool (*answered)(struct worker *w);
    /* Jobs that wait for a worker, and jobs claimed and not completed. */
    void (*count)(const char *at, int64_t *waiting, int64_t *held);
};

extern const struct protocol protocol_dibs, protocol_dibs_next, protocol_beanstalkd,
    protocol_redis_list, protocol_redis_stream, protocol_postgres;

#define PAYLOAD_BYTES 128
/* The same small piece of JSON for every system; returns its length. */
size_t payload_write(char out[PAYLOAD_BYTES], int64_t number);
/* The number in a payload; 0 when it is none of ours. */
int64_t payload_number(const char *bytes, size_t count);
/* A decimal number; stops at the first other character. */
int64_t number_at(const char *bytes, const char *end);

/* ---- wire.c ---- */

struct wire {
    int fd;
    char *in; /* received and not yet used: in[used] to in[len] */
    size_t used, len, cap;
};

/* at: "HOST:PORT" with a numeric host, or "unix:PATH". */
struct wire *wire_open(const char *at);
void wire_close(struct wire *wire);
void wire_send(struct wire *wire, const char *bytes, size_t count);
/* Takes in what has come; with wait, at least one byte. Moves unused bytes to the front. */
void wire_receive(struct wire *wire, bool wait);
static inline const char *wire_bytes(const struct wire *wire)
{
    return wire->in + wire->used;
}
static inline size_t wire_count(const struct wire *wire)
{
    return wire->len - wire->used;
}

/* ---- measure.c ---- */

uint64_t now_ns(void);
/* Seconds on a processor of a process, its threads and all its children, living and reaped. */
double tree_cpu_s(int pid);
double own_cpu_s(void);
double machine_cpu_s(void); /* of everybody, stolen time included */
/* Sorts. */
void sort_latencies(uint32_t *ns, size_t count);
double percentile_us(const uint32_t *sorted_ns, size_t count, double part);

/* ---- drive.c ---- */

struct result {
    int64_t jobs;
    double seconds;
    double server_cpu_s, client_cpu_s;
    double others_part;                    /* of the machine's processors, used by neither */
    double p50_us, p95_us, p99_us, max_us; /* from asking for a job to having it */
};

struct drive;
struct drive *drive_new(const struct protocol *protocol, const char *at, int server_pid);
void drive_free(struct drive *d);
/* Jobs that are there already, put there by an earlier drive. */
void drive_assume(struct drive *d, int64_t tasks);
/* Tops the queue up to so many tasks. */
void drive_fill(struct drive *d, int64_t tasks);
/* Does jobs until so many are done or the time is over. Every job must be handed out once and be
 * completed, and the system must agree about what is left; else the program ends. */
void drive_run(struct drive *d, int connections, int64_t jobs, double seconds, struct result *out);

#endif
