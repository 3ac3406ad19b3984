/* SPDX-License-Identifier: MIT */
/*
 * client.h: one request to dibs, wherever it is.
 *
 * The room `client` hides how an operation is reached: by a URL, by the unix socket of the daemon
 * that serves the data folder, or in this process, straight on the data file. It knows no command
 * and prints nothing. Everything above (command line, runner) speaks the JSON of the API and so
 * works the same on all ways. Start reading at client.c, then client_http.c.
 */
#ifndef DIBS_CLIENT_H
#define DIBS_CLIENT_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"

struct client;

struct client_options {
    const char *url;      /* of a daemon; NULL: DIBS_URL, unless data_dir is given */
    const char *data_dir; /* NULL: DIBS_DATA, else found by walking up from the current folder */
    /* "defaultTTL=45m" ... Whoever has some, here or in the environment, opens the store in this
     * process: a daemon has its own. Refused together with a URL. */
    struct dibs_strings settings;
    bool needs_store; /* in this process, though a daemon may be running: client_store() */
    /* How long a daemon may take to accept or to answer, beside what the request itself says that
     * it waits. 0: 5 s for a connection, 10 s for an answer over the socket, 30 s by URL. */
    int64_t patience_ms;
    /* Set by another thread: a request to a daemon ends within about a second, whatever its fate:
     * DIBS_DAEMON_UNREACHABLE. NULL: never. */
    const atomic_bool *given_up;
};
/*
 * DIBS_STORE_NOT_FOUND says where it looked and how to make one. A daemon at a URL is not asked
 * anything yet; one on the socket that does not even take the connection is
 * DIBS_DAEMON_UNREACHABLE, and a socket that nobody listens on any more does not count.
 */
dibs_status client_open(const struct client_options *in, struct client **out,
                        struct dibs_error *err) MUST_USE;
void client_close(struct client *c); /* NULL is fine */

struct client_request {
    const char *method, *path; /* path percent-encoded: client_encode() */
    const char *query;         /* NULL: none */
    json_t *body;              /* borrowed; NULL: none */
    const char *idempotency_key;
};
struct client_answer {
    int http;
    dibs_status status; /* DIBS_OK, or what "error" in the answer says */
    json_t *json;       /* owned; client_answer_release */
};
/*
 * DIBS_OK when an answer came, even a refusal; else it could not be asked: DIBS_DAEMON_UNREACHABLE
 * says what is wrong with the way to the daemon, and whether the request may have been carried out.
 */
dibs_status client_call(struct client *c, const struct client_request *in,
                        struct client_answer *out, struct dibs_error *err) MUST_USE;
void client_answer_release(struct client_answer *answer);

/* ---- events as they happen ------------------------------------------------------------------- */

struct client_event {
    /* "task:claimed"; "resync" and "shutdown" are about the stream itself; "" is no event and tells
     * only up to which number there is none to come */
    const char *type;
    int64_t id;   /* its number in the journal; 0: it has none */
    json_t *data; /* borrowed; NULL when it is not JSON */
};
struct client_stream {
    const char *query;                /* filters; NULL: none */
    int64_t since;                    /* from behind this number on; 0: from the beginning */
    void (*connected)(void *context); /* the stream has begun; NULL: need not know */
    void (*event)(void *context, const struct client_event *event);
    /* called at least every 200 ms and after every signal; false ends the stream */
    bool (*tick)(void *context);
    void *context;
};
/* Whether this client can follow events at a daemon; otherwise the journal is read page by page. */
bool client_has_stream(const struct client *c);
/*
 * Follows the events of a daemon until tick() has had enough: DIBS_OK. DIBS_DAEMON_UNREACHABLE:
 * there was no connection, or it has ended; resume from the last number seen. Any other status is
 * the refusal of the daemon.
 */
dibs_status client_stream(struct client *c, const struct client_stream *in, struct dibs_error *err)
    MUST_USE;

/* ---- where it is ----------------------------------------------------------------------------- */

/* The open store when it is in this process (doctor, backup, config need it); NULL otherwise. */
dibs *client_store(struct client *c);
const char *client_data_dir(const struct client *c); /* NULL behind a URL */
const char *client_url(const struct client *c);      /* NULL unless it was asked for */

/* Appends text to b percent-encoded as one path segment or query value. */
void client_encode(struct buf *b, const char *text);

#endif
