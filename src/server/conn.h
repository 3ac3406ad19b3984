/* SPDX-License-Identifier: MIT */
/*
 * conn.h: one connection: bytes in, requests out; answers in, bytes out. Loop thread only.
 *
 *     reading --request--> asked --conn_answer--> reading ... --conn_close--> ending --> closed
 *                             \--conn_stream_begin--> streaming --conn_close--^
 *
 * One request at a time: while one is being answered, what a pipelining caller sends meanwhile
 * waits. A connection that idles costs its struct and a socket.
 */
#ifndef DIBS_CONN_H
#define DIBS_CONN_H

#include <uv.h>

#include "base/buf.h"
#include "http.h"

struct conn;
struct page;

struct answer {
    int status;
    const char *content_type; /* NULL: application/json */
    struct buf *body;         /* moved from; NULL: none */
    const char *fixed;        /* instead of body: bytes that live for ever */
    size_t fixed_bytes;
    const char *headers; /* more header lines, each ending in \r\n; NULL: none */
    bool close;          /* and hang up */
};

/* What a connection tells the server. */
struct conn_hooks {
    /* A whole request. It lives until conn_answer, and for as long as somebody holds the
     * connection. */
    void (*request)(struct conn *c, const struct http_request *r);
    /* The caller has hung up before it was answered, or while it was streamed to. After this the
     * connection is closed, except when it only sent its last byte (half_closed): then an answer
     * still reaches it. */
    void (*gone)(struct conn *c, bool half_closed);
    /* Everything given to conn_send has left (streams only). */
    void (*drained)(struct conn *c);
    /* HTTP that was refused before it was a request; the refusal is sent by conn.c. */
    void (*refused)(struct conn *c, int status);
    /* An answer has been handed to the kernel or queued for it. */
    void (*answered)(struct conn *c, int status, size_t body_bytes);
    void (*closed)(struct conn *c); /* the last word about it */
};

enum conn_kind { CONN_TCP, CONN_UNIX };

struct conn_limits {
    int64_t idle_ms;    /* between two requests */
    int64_t request_ms; /* from the first byte of a request to its last */
    int64_t answer_ms;  /* for the caller to take its answer */
};

/* All connections of a server. */
struct conns;
struct conns *conns_new(uv_loop_t *loop, const struct conn_hooks *hooks,
                        const struct conn_limits *limits, void *server);
int64_t conns_count(const struct conns *all);
/* Hangs up on those that take too long; call about once a second. */
void conns_check_times(struct conns *all);
/* From now on each connection closes after the answer it is owed; idle ones at once. */
void conns_drain(struct conns *all);
/* Visits those that are owed an answer; the visitor may close them. */
void conns_each_asked(struct conns *all, void (*visit)(void *context, struct conn *c),
                      void *context);
void conns_close_all(struct conns *all); /* at once, whatever they are doing */
void conns_free(struct conns *all);      /* when none is left; NULL is fine */

/* Accepts from a listener. NULL: could not; nothing is open. */
struct conn *conn_accept(struct conns *all, uv_stream_t *listener, enum conn_kind kind,
                         bool loopback);
/* Answers the request that was handed over. Harmless when the caller has gone. */
void conn_answer(struct conn *c, struct answer *a);
/* Sends the head of a stream; afterwards conn_send and conn_close. */
void conn_stream_begin(struct conn *c, const char *content_type);
/* Sends parts of a page, which is kept until they have left. */
void conn_send(struct conn *c, struct page *page, const uv_buf_t *parts, unsigned count);
void conn_send_text(struct conn *c, const char *text, size_t bytes); /* copied */
size_t conn_pending(const struct conn *c);   /* bytes not yet taken by the kernel */
void conn_close(struct conn *c, bool flush); /* flush: after what is pending, else now */

/* A job holds on to its connection; struct and request live until the last one lets go. */
struct conn *conn_hold(struct conn *c);
void conn_drop(struct conn *c);
bool conn_is_open(const struct conn *c);     /* an answer may still reach the caller */
bool conn_has_hung_up(const struct conn *c); /* the caller has said its last, or is gone for good */

void *conn_server(const struct conn *c);
enum conn_kind conn_kind_of(const struct conn *c);
bool conn_is_loopback(const struct conn *c); /* came in by a loopback address */
/* Header lines for the head of a stream, which may begin later; borrowed until then. */
void conn_set_headers(struct conn *c, const char *headers);
void conn_set_data(struct conn *c, void *data); /* the server's own, one pointer */
void *conn_data(const struct conn *c);
void conn_set_stream(struct conn *c, void *stream); /* the event stream's own */
void *conn_stream(const struct conn *c);

#endif
