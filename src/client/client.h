/* SPDX-License-Identifier: MIT */
/*
 * client.h: one request to dibs, wherever it is.
 *
 * The room `client` hides how an operation is reached: in this process, straight on the data file.
 * It knows no command and prints nothing. Everything above (command line, runner) speaks the JSON
 * of the API and so works the same on all ways.
 */
#ifndef DIBS_CLIENT_H
#define DIBS_CLIENT_H

#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"

struct client;

struct client_options {
    const char *data_dir; /* NULL: DIBS_DATA, else found by walking up from the current folder */
    struct dibs_strings settings; /* "defaultTTL=45m" ... */
};
/* DIBS_STORE_NOT_FOUND says where it looked and how to make one. */
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
/* DIBS_OK when an answer came, even a refusal; else it could not be asked. */
dibs_status client_call(struct client *c, const struct client_request *in,
                        struct client_answer *out, struct dibs_error *err) MUST_USE;
void client_answer_release(struct client_answer *answer);

/* The open store when it is in this process (doctor, backup, config need it); NULL otherwise. */
dibs *client_store(struct client *c);
const char *client_data_dir(const struct client *c);

/* Appends text to b percent-encoded as one path segment or query value. */
void client_encode(struct buf *b, const char *text);

#endif
