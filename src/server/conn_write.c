/* SPDX-License-Identifier: MIT */
/*
 * conn_write.c: what a connection sends: answers, streams, and the end of both.
 *
 * Most answers fit into the socket's buffer and are gone with one system call; only what the kernel
 * does not take at once costs a request to libuv and, unless it belongs to a page, a copy.
 */
#include "conn_private.h"

#include "journal.h"

struct sending {
    uv_write_t req;
    struct conn *c;
    struct page *page; /* what the parts point into; NULL: `bytes` */
    char bytes[];
};

static void on_sent(uv_write_t *req, int status)
{
    struct sending *s = req->data;
    struct conn *c = s->c;
    page_drop(s->page);
    mem_free(s);
    if (status != 0 && status != UV_ECANCELED)
        conn_closed_by_error(c);
    else if (c->state == CONN_STREAMING && conn_pending(c) == 0)
        c->all->hooks.drained(c);
    else if (c->choked)
        conn_unchoke(c);
    conn_drop(c);
}

/* queue: hands the rest to libuv. A page is referred to, anything else copied. */
static void queue(struct conn *c, struct page *page, const uv_buf_t *parts, unsigned count)
{
    size_t bytes = 0;
    for (unsigned i = 0; page == NULL && i < count; i++)
        bytes += parts[i].len;
    struct sending *s = mem_alloc(sizeof *s + bytes);
    if (s == NULL) {
        conn_closed_by_error(c);
        return;
    }
    s->c = conn_hold(c);
    s->page = page != NULL ? page_hold(page) : NULL;
    s->req.data = s;
    uv_buf_t whole = uv_buf_init(s->bytes, 0);
    for (unsigned i = 0; page == NULL && i < count; i++) {
        memcpy(s->bytes + whole.len, parts[i].base, parts[i].len);
        whole.len += parts[i].len;
    }
    int rc = page != NULL ? uv_write(&s->req, &c->h.stream, parts, count, on_sent)
                          : uv_write(&s->req, &c->h.stream, &whole, 1, on_sent);
    if (rc != 0) {
        page_drop(s->page);
        mem_free(s);
        conn_closed_by_error(c);
        conn_drop(c);
    }
}

/* put: at once what the kernel takes, the rest later. `parts` is used up. */
static void put(struct conn *c, struct page *page, uv_buf_t *parts, unsigned count)
{
    if (c->state == CONN_CLOSED || c->shut)
        return;
    int sent = uv_try_write(&c->h.stream, parts, count);
    if (sent == UV_EAGAIN)
        sent = 0;
    if (sent < 0) {
        conn_closed_by_error(c);
        return;
    }
    for (; count > 0 && (size_t)sent >= parts->len; parts++, count--)
        sent -= (int)parts->len;
    if (count == 0)
        return;
    parts->base += sent;
    parts->len -= (size_t)sent;
    queue(c, page, parts, count);
}

/* ---- answers --------------------------------------------------------------------------------- */

static const char *date_line(struct conns *all)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    if ((int64_t)now.tv_sec != all->date_second) {
        struct tm parts;
        gmtime_r(&now.tv_sec, &parts);
        strftime(all->date, sizeof all->date, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts);
        all->date_second = (int64_t)now.tv_sec;
    }
    return all->date;
}

void conn_write_head(struct conn *c, const struct answer *a, size_t body_bytes, struct buf *out)
{
    buf_text(out, "HTTP/1.1 ");
    buf_int(out, a->status);
    buf_char(out, ' ');
    buf_text(out, http_status_text(a->status));
    buf_text(out, "\r\n");
    buf_text(out, date_line(c->all));
    if (a->status != 304) {
        buf_text(out, "Content-Type: ");
        buf_text(out, a->content_type != NULL ? a->content_type : "application/json");
        buf_text(out, "\r\nContent-Length: ");
        buf_int(out, (int64_t)body_bytes);
        buf_text(out, "\r\nX-Content-Type-Options: nosniff\r\n");
    }
    if (a->headers != NULL)
        buf_text(out, a->headers);
    if (!c->keep_alive)
        buf_text(out, "Connection: close\r\n");
    else if (c->http10)
        buf_text(out, "Connection: keep-alive\r\n");
    buf_text(out, "\r\n");
}

void conn_answer(struct conn *c, struct answer *a)
{
    if (c->state != CONN_ASKED)
        return;
    struct buf head;
    size_t bytes = a->body != NULL ? a->body->len : a->fixed_bytes;
    c->keep_alive = c->keep_alive && !a->close && !c->all->draining;
    buf_init(&head, 16 * 1024);
    conn_write_head(c, a, bytes, &head);
    if (!buf_ok(&head)) {
        buf_release(&head);
        conn_closed_by_error(c);
        return;
    }
    const char *body = a->body != NULL ? a->body->data : a->fixed;
    uv_buf_t parts[2] = {uv_buf_init(head.data, (unsigned)head.len),
                         uv_buf_init((char *)(uintptr_t)body, (unsigned)bytes)};
    put(c, NULL, parts, bytes > 0 && !c->is_head && a->status != 304 ? 2 : 1);
    buf_release(&head);
    if (c->state == CONN_CLOSED)
        return;
    c->all->hooks.answered(c, a->status, bytes);
    if (c->keep_alive)
        conn_go_on(c);
    else
        conn_close(c, true);
}

/* ---- streams --------------------------------------------------------------------------------- */

void conn_stream_begin(struct conn *c, const char *content_type)
{
    struct buf head;
    if (c->state != CONN_ASKED)
        return;
    c->state = CONN_STREAMING;
    buf_init(&head, 4096);
    buf_printf(&head,
               "HTTP/1.1 200 OK\r\n%sContent-Type: %s\r\nCache-Control: no-store\r\n"
               "X-Content-Type-Options: nosniff\r\n%sConnection: close\r\n\r\n",
               date_line(c->all), content_type, c->headers != NULL ? c->headers : "");
    if (buf_ok(&head))
        conn_send_text(c, head.data, head.len);
    buf_release(&head);
    c->all->hooks.answered(c, 200, 0);
}

void conn_send(struct conn *c, struct page *page, const uv_buf_t *parts, unsigned count)
{
    uv_buf_t few[64];
    for (; count > 0; parts += COUNT_OF(few)) {
        unsigned n = count < COUNT_OF(few) ? count : (unsigned)COUNT_OF(few);
        memcpy(few, parts, n * sizeof *parts);
        put(c, page, few, n);
        count -= n;
        if (count == 0)
            break;
    }
}

void conn_send_text(struct conn *c, const char *text, size_t bytes)
{
    uv_buf_t part = uv_buf_init((char *)(uintptr_t)text, (unsigned)bytes);
    put(c, NULL, &part, 1);
}

size_t conn_pending(const struct conn *c)
{
    return uv_stream_get_write_queue_size(&c->h.stream);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void on_shut(uv_shutdown_t *req, int status)
{
    struct conn *c = req->data;
    (void)status;
    mem_free(req);
    c->shut_done = true;
    /* a caller that has already said its last is closed at once; another gets a moment to read */
    if (c->half_closed && conn_is_open(c))
        conn_close(c, false);
    conn_drop(c);
}

void conn_shut(struct conn *c)
{
    uv_shutdown_t *req = c->shut ? NULL : mem_alloc(sizeof *req);
    if (req == NULL)
        return; /* it is closed when its time is over */
    c->shut = true;
    req->data = conn_hold(c);
    if (uv_shutdown(req, &c->h.stream, on_shut) != 0) {
        mem_free(req);
        conn_close(c, false);
        conn_drop(c);
    }
}
