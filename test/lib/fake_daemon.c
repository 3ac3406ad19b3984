/* SPDX-License-Identifier: MIT */
/*
 * fake_daemon.c: one thread that waits for connections, requests and the end, all in one poll().
 */
#define _GNU_SOURCE /* accept4, memmem */
#include "fake_daemon.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/str.h"

static void must(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    abort();
}

/* whole: bytes of the request at the start of b; 0: it is not all there yet. */
static size_t whole(const struct buf *b)
{
    const char *end = b->len > 0 ? memmem(b->data, b->len, "\r\n\r\n", 4) : NULL;
    const char *length = NULL;
    size_t body = 0, head = 0;

    if (end == NULL)
        return 0;
    head = (size_t)(end - b->data) + 4;
    length = strcasestr(b->data, "\r\nContent-Length: ");
    if (length != NULL && length < end)
        body = (size_t)strtoul(length + 18, NULL, 10);
    return b->len >= head + body ? head + body : 0;
}

static void hang_up(struct fake_daemon *f, size_t i)
{
    close(f->connections[i].fd);
    f->connections[i].fd = -1;
    buf_release(&f->connections[i].in);
}

static void send_all(int fd, const char *text, size_t bytes)
{
    /* one that has hung up meanwhile is no concern of ours */
    if (send(fd, text, bytes, MSG_NOSIGNAL) < 0)
        return;
}

static void reply(struct fake_daemon *f, size_t i)
{
    size_t at = f->request_count < f->reply_count ? f->request_count : f->reply_count - 1;
    const struct fake_reply *r = &f->replies[at];
    int fd = f->connections[i].fd;
    struct buf out;

    buf_init(&out, 1 << 20);
    if (r->act == FAKE_ANSWER)
        buf_printf(&out, "HTTP/1.1 %d Whatever\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n",
                   r->http != 0 ? r->http : 200, r->type != NULL ? r->type : "application/json",
                   strlen(r->body));
    if (r->act != FAKE_HANG && r->act != FAKE_HANG_UP)
        buf_text(&out, r->body);
    if (out.len > 0)
        send_all(fd, out.data, out.len);
    buf_release(&out);
    if (r->act == FAKE_HANG_UP || r->act == FAKE_RAW_HANG_UP)
        hang_up(f, i);
}

/* take: what has come on a connection, and answers to it. */
static void take(struct fake_daemon *f, size_t i)
{
    struct buf *in = &f->connections[i].in;
    char bytes[4096];
    ssize_t count = read(f->connections[i].fd, bytes, sizeof bytes);
    size_t request = 0;

    if (count <= 0) {
        hang_up(f, i);
        return;
    }
    pthread_mutex_lock(&f->lock);
    f->connection_count += in->cap == 0;
    buf_append(in, bytes, (size_t)count);
    while (f->connections[i].fd >= 0 && (request = whole(in)) > 0) {
        buf_append(&f->requests, in->data, request);
        buf_text(&f->requests, "\n====\n");
        memmove(in->data, in->data + request, in->len - request);
        buf_cut(in, in->len - request);
        reply(f, i);
        f->request_count++;
    }
    pthread_mutex_unlock(&f->lock);
}

static void welcome(struct fake_daemon *f)
{
    int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);

    for (size_t i = 0; fd >= 0 && i < FAKE_CONNECTIONS_MAX; i++)
        if (f->connections[i].fd < 0) {
            f->connections[i].fd = fd;
            buf_init(&f->connections[i].in, 4 << 20);
            return;
        }
    close(fd);
}

static void *serve(void *context)
{
    struct fake_daemon *f = context;

    for (;;) {
        struct pollfd fds[FAKE_CONNECTIONS_MAX + 2] = {{.fd = f->stop[0], .events = POLLIN},
                                                       {.fd = f->listener, .events = POLLIN}};
        for (size_t i = 0; i < FAKE_CONNECTIONS_MAX; i++)
            fds[i + 2] = (struct pollfd){.fd = f->connections[i].fd, .events = POLLIN};
        must(poll(fds, COUNT_OF(fds), -1) > 0, "poll");
        if (fds[0].revents != 0)
            return NULL;
        for (size_t i = 0; i < FAKE_CONNECTIONS_MAX; i++)
            if (fds[i + 2].revents != 0)
                take(f, i);
        if (fds[1].revents != 0)
            welcome(f);
    }
}

static void listen_unix(struct fake_daemon *f, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    str_fit(address.sun_path, sizeof address.sun_path, path);
    f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(bind(f->listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
}

static void listen_tcp(struct fake_daemon *f)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;

    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(bind(f->listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    must(getsockname(f->listener, (struct sockaddr *)&address, &bytes) == 0, "getsockname");
    snprintf(f->url, sizeof f->url, "http://127.0.0.1:%d", ntohs(address.sin_port));
}

void fake_daemon_start(struct fake_daemon *f, const char *path, const struct fake_reply *replies,
                       size_t count)
{
    *f = (struct fake_daemon){.replies = replies, .reply_count = count};
    for (size_t i = 0; i < FAKE_CONNECTIONS_MAX; i++)
        f->connections[i].fd = -1;
    buf_init(&f->requests, 16 << 20);
    pthread_mutex_init(&f->lock, NULL);
    if (path != NULL)
        listen_unix(f, path);
    else
        listen_tcp(f);
    must(listen(f->listener, 16) == 0, "listen");
    must(pipe(f->stop) == 0, "pipe");
    must(pthread_create(&f->thread, NULL, serve, f) == 0, "pthread_create");
}

void fake_daemon_stop(struct fake_daemon *f)
{
    must(write(f->stop[1], "x", 1) == 1, "write");
    pthread_join(f->thread, NULL);
    for (size_t i = 0; i < FAKE_CONNECTIONS_MAX; i++)
        if (f->connections[i].fd >= 0)
            hang_up(f, i);
    close(f->listener);
    close(f->stop[0]);
    close(f->stop[1]);
    buf_release(&f->requests);
    pthread_mutex_destroy(&f->lock);
}

size_t fake_daemon_requests(struct fake_daemon *f)
{
    size_t count = 0;

    pthread_mutex_lock(&f->lock);
    count = f->request_count;
    pthread_mutex_unlock(&f->lock);
    return count;
}

size_t fake_daemon_connections(struct fake_daemon *f)
{
    size_t count = 0;

    pthread_mutex_lock(&f->lock);
    count = f->connection_count;
    pthread_mutex_unlock(&f->lock);
    return count;
}

bool fake_daemon_was_sent(struct fake_daemon *f, const char *text)
{
    bool found = false;

    pthread_mutex_lock(&f->lock);
    found = f->requests.len > 0 && strstr(f->requests.data, text) != NULL;
    pthread_mutex_unlock(&f->lock);
    return found;
}
