/* SPDX-License-Identifier: MIT */
/*
 * fake_daemon.h: something that listens and answers as the test says: with an answer, with junk,
 * with nothing, or by hanging up. Keeps what it was sent.
 */
#ifndef DIBS_TEST_FAKE_DAEMON_H
#define DIBS_TEST_FAKE_DAEMON_H

#include <pthread.h>

#include "base/buf.h"

#define FAKE_CONNECTIONS_MAX 16

enum fake_act {
    FAKE_ANSWER,      /* and leave the connection open */
    FAKE_RAW,         /* send `body` as it is and leave the connection open */
    FAKE_RAW_HANG_UP, /* send `body` as it is and hang up */
    FAKE_HANG_UP,     /* after the request has come in */
    FAKE_HANG,        /* take the request and say nothing */
};
struct fake_reply {
    enum fake_act act;
    int http;         /* 0: 200 */
    const char *type; /* NULL: application/json */
    const char *body;
};

struct fake_daemon {
    const struct fake_reply *replies; /* to the first request, the second ...; the last one stays */
    size_t reply_count;
    char url[64]; /* over TCP */

    int listener, stop[2];
    pthread_t thread;
    pthread_mutex_t lock;
    struct buf requests; /* all bytes that came, with "\n====\n" behind each request */
    size_t request_count, connection_count;
    struct {
        int fd;
        struct buf in;
    } connections[FAKE_CONNECTIONS_MAX];
};

/* Listens on a unix socket, or on a free port of 127.0.0.1 when path is NULL. */
void fake_daemon_start(struct fake_daemon *f, const char *path, const struct fake_reply *replies,
                       size_t count);
void fake_daemon_stop(struct fake_daemon *f);
size_t fake_daemon_requests(struct fake_daemon *f);
/* Connections on which something was sent. */
size_t fake_daemon_connections(struct fake_daemon *f);
/* Whether `text` is among what was sent. */
bool fake_daemon_was_sent(struct fake_daemon *f, const char *text);

#endif
