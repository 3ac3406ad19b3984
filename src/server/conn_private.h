/* SPDX-License-Identifier: MIT */
/*
 * conn_private.h: a connection from inside, shared by conn.c (reading, states, ends) and
 * conn_write.c (writing).
 */
#ifndef DIBS_CONN_PRIVATE_H
#define DIBS_CONN_PRIVATE_H

#include "conn.h"

#define READ_BYTES                                                                                 \
    (64 * 1024) /* one buffer for all connections: it is emptied before it is reused */
#define HELD_BYTES_MAX (64 * 1024)    /* of a pipelining caller; then it is no longer read from */
#define PENDING_BYTES_MAX (64 * 1024) /* of answers not taken; then nothing more is answered */
#define LINGER_MS 2000 /* how long a caller may take to notice that we are done with it */

enum conn_state {
    CONN_READING,   /* a request is awaited or coming in */
    CONN_ASKED,     /* somebody owes it an answer */
    CONN_STREAMING, /* conn_send until it is closed */
    CONN_ENDING, /* nothing more to say; what is pending goes out, what comes in is thrown away */
    CONN_CLOSED, /* the socket is being closed or is */
};

struct conns {
    uv_loop_t *loop;
    struct conn_hooks hooks;
    struct conn_limits limits;
    void *server;
    struct conn *first; /* all that are not closed */
    int64_t count;
    bool draining;
    char date[64]; /* "Date: ...\r\n", made anew each second */
    int64_t date_second;
    char read_buffer[READ_BYTES];
};

struct conn {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } h;
    struct conns *all;
    struct conn *next, **link;
    struct http *http;
    struct buf held; /* came while it was being answered */
    enum conn_state state;
    enum conn_kind kind;
    int references;
    int64_t since_ms; /* when its state, or the request it is sending, began */
    bool loopback;
    bool feeding;      /* inside feed(): an answer given meanwhile is followed up there */
    bool half_closed;  /* the caller has said all it will */
    bool read_stopped; /* held is full, or it is choked */
    bool choked;       /* does not take its answers: its next request waits until it has */
    bool is_head;      /* the request is HEAD: no body in the answer */
    bool keep_alive, http10;
    bool shut;           /* our end is being shut down */
    bool shut_done;      /* it is */
    bool was_told;       /* conn_accept has returned it, so its end is told too */
    const char *headers; /* of the stream that may begin */
    void *data, *event_stream;
};

/* conn.c */
void conn_closed_by_error(struct conn *c);
void conn_go_on(struct conn *c);   /* after an answer: what is held is read */
void conn_unchoke(struct conn *c); /* some of what was pending has left */
/* conn_write.c */
void conn_write_head(struct conn *c, const struct answer *a, size_t body_bytes, struct buf *out);
void conn_shut(struct conn *c); /* no more from us, once the pending has left */

#endif
