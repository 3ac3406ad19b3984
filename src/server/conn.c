/* SPDX-License-Identifier: MIT */
/*
 * conn.c: reading, states and ends of connections; conn.h draws the states.
 *
 *   1. A request is handed over once, whole, and nothing of the next one is looked at before it has
 *      been answered. So answers leave in order.
 *   2. The struct lives until the socket is closed and nobody holds it; the request in it as long.
 *   3. Every state has a time after which the connection is closed (conns_check_times): a caller
 *      cannot hold a connection by doing nothing. Streams are the exception: they have keep-alives.
 *   4. A caller that asks without end and does not read costs one answer: its next request is
 *      looked at when it has taken most of the last (choked).
 *   5. After our last word the socket is shut down and what still comes in is thrown away for a
 *      moment: closing at once could destroy the answer on its way (RST).
 */
#include <assert.h>

#include "conn_private.h"

static int64_t now_ms(const struct conns *all)
{
    return (int64_t)uv_now(all->loop);
}

static void enter(struct conn *c, enum conn_state state)
{
    c->state = state;
    c->since_ms = now_ms(c->all);
}

/* ---- life and death -------------------------------------------------------------------------- */

struct conn *conn_hold(struct conn *c)
{
    c->references++;
    return c;
}

void conn_drop(struct conn *c)
{
    assert(c->references > 0);
    if (--c->references > 0)
        return;
    http_free(c->http);
    buf_release(&c->held);
    mem_free(c);
}

static void on_closed(uv_handle_t *handle)
{
    struct conn *c = handle->data;
    c->all->count--;
    if (c->was_told)
        c->all->hooks.closed(c);
    conn_drop(c);
}

static void close_now(struct conn *c)
{
    if (c->state == CONN_CLOSED)
        return;
    enter(c, CONN_CLOSED);
    *c->link = c->next;
    if (c->next != NULL)
        c->next->link = c->link;
    uv_close(&c->h.handle, on_closed);
}

void conn_closed_by_error(struct conn *c)
{
    bool owed = c->state == CONN_ASKED || c->state == CONN_STREAMING;
    if (c->state == CONN_CLOSED)
        return;
    close_now(c);
    if (owed)
        c->all->hooks.gone(c, false);
}

bool conn_is_open(const struct conn *c)
{
    return c->state != CONN_CLOSED;
}

bool conn_has_hung_up(const struct conn *c)
{
    return c->state == CONN_CLOSED || c->half_closed;
}

void conn_close(struct conn *c, bool flush)
{
    if (c->state == CONN_CLOSED || (flush && c->state == CONN_ENDING))
        return;
    if (!flush) {
        close_now(c);
        return;
    }
    enter(c, CONN_ENDING);
    conn_shut(c);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void refuse(struct conn *c)
{
    struct http_refusal why = http_refusal(c->http);
    struct buf body;
    buf_init(&body, 1024);
    buf_printf(&body, "{\"success\":false,\"error\":\"%s\",\"message\":\"%s\"}",
               why.status == 413 ? "PAYLOAD_TOO_LARGE" : "INVALID_REQUEST", why.text);
    c->is_head = false;
    c->keep_alive = false;
    enter(c, CONN_ASKED);
    c->all->hooks.refused(c, why.status);
    conn_answer(c, &(struct answer){.status = why.status, .body = &body, .close = true});
    buf_release(&body);
}

static void hand_over(struct conn *c)
{
    const struct http_request *r = http_request(c->http);
    c->is_head = r->method[0] == 'H';
    c->keep_alive = r->keep_alive;
    c->http10 = r->http10;
    enter(c, CONN_ASKED);
    c->all->hooks.request(c, r);
    if (c->half_closed && c->state == CONN_ASKED)
        c->all->hooks.gone(c, true); /* it had said its last before this was looked at */
}

static void stop_reading(struct conn *c)
{
    if (c->read_stopped)
        return;
    c->read_stopped = true;
    uv_read_stop(&c->h.stream);
}

/* hold: keeps what cannot be read yet, and stops a caller that sends far ahead. */
static void hold(struct conn *c, const char *bytes, size_t count)
{
    buf_append(&c->held, bytes, count);
    if (!buf_ok(&c->held))
        conn_closed_by_error(c);
    else if (c->held.len >= HELD_BYTES_MAX)
        stop_reading(c);
}

static void feed(struct conn *c, const char *bytes, size_t count)
{
    c->feeding = true;
    while (count > 0 && c->state == CONN_READING && !c->choked) {
        size_t used = 0;
        if (http_is_idle(c->http))
            c->since_ms = now_ms(c->all);
        enum http_result got = http_feed(c->http, bytes, count, &used);
        bytes += used;
        count -= used;
        if (got == HTTP_REFUSED)
            refuse(c);
        else if (got == HTTP_REQUEST)
            hand_over(c);
        else if (http_wants_continue(c->http))
            conn_send_text(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    }
    c->feeding = false;
    if (count > 0 && (c->state == CONN_ASKED || (c->state == CONN_READING && c->choked)))
        hold(c, bytes, count);
}

static void alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct conn *c = handle->data;
    (void)suggested;
    *out = uv_buf_init(c->all->read_buffer, sizeof c->all->read_buffer);
}

/* on_end: the caller will send no more; what it is owed it may still want to read. */
static void on_end(struct conn *c)
{
    c->half_closed = true;
    c->read_stopped = true;
    uv_read_stop(&c->h.stream);
    if (c->state == CONN_ASKED)
        c->all->hooks.gone(c, true);
    else if (c->state == CONN_STREAMING)
        conn_closed_by_error(c);
    else if (conn_pending(c) == 0 || c->shut_done)
        close_now(c);
    else
        conn_close(c, true);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *got)
{
    struct conn *c = stream->data;
    if (count == 0)
        return;
    if (count == UV_EOF)
        on_end(c);
    else if (count < 0)
        conn_closed_by_error(c);
    else if (c->state == CONN_READING)
        feed(c, got->base, (size_t)count);
    else if (c->state == CONN_ASKED)
        hold(c, got->base, (size_t)count);
}

/* read_on: first what is held, then what comes. */
static void read_on(struct conn *c)
{
    struct buf held = c->held;
    buf_init(&c->held, HELD_BYTES_MAX + READ_BYTES);
    if (c->read_stopped && !c->half_closed) {
        c->read_stopped = false;
        uv_read_start(&c->h.stream, alloc, on_read);
    }
    if (held.len > 0)
        feed(c, held.data, held.len);
    buf_release(&held);
    if (c->half_closed && c->state == CONN_READING && !c->choked)
        conn_close(c, true); /* it has said its last, and every request in it is answered */
}

void conn_go_on(struct conn *c)
{
    http_next(c->http);
    if (c->all->draining) {
        conn_close(c, true);
        return;
    }
    enter(c, CONN_READING);
    c->choked = conn_pending(c) > PENDING_BYTES_MAX;
    if (c->choked)
        stop_reading(c);
    else if (!c->feeding) /* else feed() has the rest in its hands */
        read_on(c);
}

void conn_unchoke(struct conn *c)
{
    if (c->state != CONN_READING || conn_pending(c) > PENDING_BYTES_MAX)
        return;
    c->choked = false;
    c->since_ms = now_ms(c->all);
    read_on(c);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static int init_handle(struct conn *c, uv_loop_t *loop)
{
    if (c->kind == CONN_UNIX)
        return uv_pipe_init(loop, &c->h.pipe, 0);
    return uv_tcp_init(loop, &c->h.tcp);
}

static int begin(struct conn *c, uv_stream_t *listener)
{
    int rc = uv_accept(listener, &c->h.stream);
    if (rc == 0 && c->kind == CONN_TCP) {
        uv_tcp_nodelay(&c->h.tcp, 1);
        uv_tcp_keepalive(&c->h.tcp, 1, 60);
    }
    return rc == 0 ? uv_read_start(&c->h.stream, alloc, on_read) : rc;
}

struct conn *conn_accept(struct conns *all, uv_stream_t *listener, enum conn_kind kind,
                         bool loopback)
{
    struct conn *c = mem_alloc(sizeof *c);
    if (c == NULL)
        return NULL;
    *c = (struct conn){.all = all, .kind = kind, .loopback = loopback, .references = 1};
    buf_init(&c->held, HELD_BYTES_MAX + READ_BYTES);
    c->http = http_new();
    if (c->http == NULL || init_handle(c, all->loop) != 0) {
        conn_drop(c);
        return NULL;
    }
    c->h.handle.data = c;
    c->next = all->first;
    c->link = &all->first;
    if (c->next != NULL)
        c->next->link = &c->next;
    all->first = c;
    all->count++;
    enter(c, CONN_READING);
    if (begin(c, listener) != 0) {
        close_now(c);
        return NULL;
    }
    c->was_told = true;
    return c;
}

/* ---- all of them ----------------------------------------------------------------------------- */

struct conns *conns_new(uv_loop_t *loop, const struct conn_hooks *hooks,
                        const struct conn_limits *limits, void *server)
{
    struct conns *all = mem_alloc(sizeof *all);
    if (all != NULL) {
        all->loop = loop;
        all->hooks = *hooks;
        all->limits = *limits;
        all->server = server;
        all->date_second = -1;
    }
    return all;
}

int64_t conns_count(const struct conns *all)
{
    return all->count;
}

/* time_out: 408 for half a request, silence for the others. */
static void time_out(struct conn *c, int64_t now)
{
    const struct conn_limits *limits = &c->all->limits;
    int64_t spent = now - c->since_ms;
    if (c->state == CONN_READING && http_is_idle(c->http) && spent > limits->idle_ms) {
        close_now(c);
    } else if (c->state == CONN_READING && !http_is_idle(c->http) && spent > limits->request_ms) {
        static const char late[] = "{\"success\":false,\"error\":\"INVALID_REQUEST\",\"message\":"
                                   "\"the request took too long to come in\"}";
        c->is_head = false;
        enter(c, CONN_ASKED);
        c->all->hooks.refused(c, 408);
        conn_answer(
            c, &(struct answer){
                   .status = 408, .fixed = late, .fixed_bytes = sizeof late - 1, .close = true});
    } else if (c->state == CONN_READING && conn_pending(c) > 0 && spent > limits->answer_ms) {
        close_now(c);
    } else if (c->state == CONN_ENDING &&
               spent > (conn_pending(c) > 0 ? limits->answer_ms : LINGER_MS)) {
        close_now(c);
    }
}

void conns_check_times(struct conns *all)
{
    int64_t now = now_ms(all);
    for (struct conn *c = all->first, *next = NULL; c != NULL; c = next) {
        next = c->next;
        time_out(c, now);
    }
}

void conns_drain(struct conns *all)
{
    all->draining = true;
    for (struct conn *c = all->first, *next = NULL; c != NULL; c = next) {
        next = c->next;
        if (c->state == CONN_READING)
            conn_close(c, true);
    }
}

void conns_each_asked(struct conns *all, void (*visit)(void *context, struct conn *c),
                      void *context)
{
    for (struct conn *c = all->first, *next = NULL; c != NULL; c = next) {
        next = c->next;
        if (c->state == CONN_ASKED)
            visit(context, c);
    }
}

void conns_close_all(struct conns *all)
{
    for (struct conn *c = all->first, *next = NULL; c != NULL; c = next) {
        next = c->next;
        conn_closed_by_error(c);
    }
}

void conns_free(struct conns *all)
{
    mem_free(all);
}

/* ---- small questions ------------------------------------------------------------------------- */

void *conn_server(const struct conn *c)
{
    return c->all->server;
}

enum conn_kind conn_kind_of(const struct conn *c)
{
    return c->kind;
}

bool conn_is_loopback(const struct conn *c)
{
    return c->loopback;
}

void conn_set_headers(struct conn *c, const char *headers)
{
    c->headers = headers;
}

void conn_set_data(struct conn *c, void *data)
{
    c->data = data;
}

void *conn_data(const struct conn *c)
{
    return c->data;
}

void conn_set_stream(struct conn *c, void *stream)
{
    c->event_stream = stream;
}

void *conn_stream(const struct conn *c)
{
    return c->event_stream;
}
