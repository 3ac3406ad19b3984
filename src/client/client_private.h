/* SPDX-License-Identifier: MIT */
/*
 * client_private.h: what the files of this room share: a client is one way of reaching dibs, and a
 * way is a few functions.
 */
#ifndef DIBS_CLIENT_PRIVATE_H
#define DIBS_CLIENT_PRIVATE_H

#include "api/api.h"
#include "client.h"

struct way {
    dibs_status (*call)(struct client *c, const struct api_request *in, int64_t wait_ms,
                        struct client_answer *out, struct dibs_error *err);
    /* NULL: there is no stream this way */
    dibs_status (*stream)(struct client *c, const struct client_stream *in, struct dibs_error *err);
};
extern const struct way way_in_process, way_http;

struct client {
    const struct way *way;
    char *data_dir;      /* NULL behind a URL */
    char *url;           /* without a slash at its end; NULL unless there is one */
    char *socket_path;   /* of the daemon; NULL: over TCP */
    int64_t patience_ms; /* 0: the standard ones */
    const atomic_bool *given_up;
    struct http_link *link;
    dibs *store;       /* in process */
    dibs_arena *arena; /* in process: home of one answer while it is made */
};

/* Opens the store of c->data_dir in this process and goes that way from now on. */
dibs_status client_go_in_process(struct client *c, struct dibs_strings settings,
                                 struct dibs_error *err) MUST_USE;

/* ---- client_http.c --------------------------------------------------------------------------- */

/* Goes by HTTP to c->url or c->socket_path from now on; nothing is sent yet. */
dibs_status client_go_http(struct client *c, struct dibs_error *err) MUST_USE;
void http_link_free(struct http_link *link); /* NULL is fine */
/* Whether a URL can be used, and which part of it cannot. *bytes: without slashes at its end. */
dibs_status client_check_url(const char *url, size_t *bytes, struct dibs_error *err) MUST_USE;

#endif
