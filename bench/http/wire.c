/* SPDX-License-Identifier: MIT */
/*
 * wire.c: a connected socket with a buffer of what has been received.
 *
 * Sending blocks, which a closed loop of small requests never notices. Receiving waits only when it
 * is told to: filling does, workers come when their socket is readable.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench.h"

#define BUFFER_BYTES 4096

static int connect_unix(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof to.sun_path)
        die("bench: '%s' is too long for a socket", path);
    memcpy(to.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        die("bench: cannot connect to '%s': %s", path, strerror(errno));
    return fd;
}

static int connect_tcp(const char *at)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    char host[64] = "";
    const char *colon = strrchr(at, ':');
    if (colon == NULL || (size_t)(colon - at) >= sizeof host)
        die("bench: '%s' is not HOST:PORT", at);
    memcpy(host, at, (size_t)(colon - at));
    to.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1)
        die("bench: '%s' is not an address", host);
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        die("bench: cannot connect to '%s': %s", at, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

struct wire *wire_open(const char *at)
{
    struct wire *wire = must_alloc(sizeof *wire);
    wire->fd = strncmp(at, "unix:", 5) == 0 ? connect_unix(at + 5) : connect_tcp(at);
    wire->cap = BUFFER_BYTES;
    wire->in = must_alloc(wire->cap);
    return wire;
}

void wire_close(struct wire *wire)
{
    close(wire->fd);
    free(wire->in);
    free(wire);
}

void wire_send(struct wire *wire, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(wire->fd, bytes, count, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            die("bench: cannot send: %s", strerror(errno));
        if (sent > 0) {
            bytes += sent;
            count -= (size_t)sent;
        }
    }
}

static void make_room(struct wire *wire)
{
    if (wire->used > 0) {
        memmove(wire->in, wire->in + wire->used, wire->len - wire->used);
        wire->len -= wire->used;
        wire->used = 0;
    }
    if (wire->len < wire->cap / 2)
        return;
    wire->cap *= 2;
    wire->in = realloc(wire->in, wire->cap);
    if (wire->in == NULL)
        die("bench: out of memory");
}

void wire_receive(struct wire *wire, bool wait)
{
    make_room(wire);
    ssize_t got =
        recv(wire->fd, wire->in + wire->len, wire->cap - wire->len, wait ? 0 : MSG_DONTWAIT);
    if (got == 0)
        die("bench: the server has closed the connection");
    if (got < 0 && errno != EAGAIN && errno != EINTR)
        die("bench: cannot receive: %s", strerror(errno));
    if (got > 0)
        wire->len += (size_t)got;
}
