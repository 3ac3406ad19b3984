/* SPDX-License-Identifier: MIT */
/*
 * listen_private.h: an address as --listen gives it, shared by listen_address.c and listen.c.
 */
#ifndef DIBS_LISTEN_PRIVATE_H
#define DIBS_LISTEN_PRIVATE_H

#include <sys/socket.h>

#include "listen.h"

struct address {
    struct sockaddr_storage at; /* unless path is set */
    const char *path;           /* of a unix socket; points into the text it was read from */
    bool loopback, any;
};
dibs_status address_read(const char *text, struct address *out, struct dibs_error *err) MUST_USE;
void address_describe(struct address *out); /* loopback and any, from `at` */
/* "127.0.0.1" or "::1", and the port. */
void address_host(const struct sockaddr_storage *at, char *out, size_t bytes, int *port);

#endif
