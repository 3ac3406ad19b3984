/* SPDX-License-Identifier: MIT */
/*
 * server.h: the daemon.
 *
 * The room `server` owns sockets, HTTP, who may ask, live events and the threads between them and
 * the store. It must never know what a task is: requests go to api_call() and come back as answers.
 *
 *     bytes -> conn -> http -> server (auth, rate) -> job -> writer or reader: api_call -> answer
 *     after a commit: writer -> journal -> loop -> sse
 *
 * Threads: the loop (sockets; never the store), one writer and a few readers (the store; never a
 * socket), one that follows the journal. Start reading at server.c, then writer.c.
 */
#ifndef DIBS_SERVER_H
#define DIBS_SERVER_H

#include "base/base.h"

#define SERVER_PORT 7117

struct server_options {
    const char *data_dir;
    bool create;
    struct dibs_strings settings;
    struct dibs_strings listen; /* "ADDR:PORT", "PORT", "[::]:PORT", "unix:PATH"; empty: loopback on
                                   SERVER_PORT and the socket in the data folder */
    struct dibs_strings hosts;  /* further names in the Host header */
    int64_t connections_max;    /* 0: as many as the limit of open files allows, at most 12,000 */
    int64_t idle_timeout_ms;    /* 0: 75 s */
    int64_t request_timeout_ms; /* 0: 10 s for a request to come in whole */
    bool log_requests;          /* one line of JSON per request on stdout */
    bool quiet;
};

/* Runs until SIGTERM or SIGINT; then finishes what was accepted. DIBS_OK after an orderly end. */
dibs_status server_run(const struct server_options *in, struct dibs_error *err) MUST_USE;

#endif
