/* SPDX-License-Identifier: MIT */
/*
 * listen.h: the doors of the daemon: addresses on TCP, the unix socket in the data folder, and
 * sockets that systemd has opened for us.
 */
#ifndef DIBS_LISTEN_H
#define DIBS_LISTEN_H

#include <uv.h>

#include "conn.h"

#define LISTENERS_MAX 32
#define SOCKET_NAME "dibs.sock"

struct listeners;

struct listeners_options {
    uv_loop_t *loop;
    const char *data_dir;
    struct dibs_strings listen; /* as server_options.listen */
    bool has_keys;              /* without any, only loopback may be listened on */
    void (*on_connection)(void *context, uv_stream_t *listener, enum conn_kind kind, bool loopback);
    void *context;
};
/*
 * Opens them all. Refuses: an address that cannot be read or is in use; one that is not loopback
 * while there is no key, with a sentence that says how to make one; a unix socket that somebody
 * answers on.
 */
dibs_status listeners_open(const struct listeners_options *in, struct listeners **out,
                           struct dibs_error *err) MUST_USE;
/* "http://127.0.0.1:7117", "unix:/srv/.dibs/dibs.sock": one after another; NULL: no more. */
const char *listeners_url(const struct listeners *l, size_t index);
/* Host part of each TCP address, for the list of allowed hosts; NULL: no more. */
const char *listeners_host(const struct listeners *l, size_t index);
const char *listeners_dashboard(const struct listeners *l); /* where a browser goes; NULL: none */
void listeners_close(struct listeners *l); /* no more connections; removes the unix socket */
void listeners_free(struct listeners *l);  /* after the loop has run out; NULL is fine */

#endif
