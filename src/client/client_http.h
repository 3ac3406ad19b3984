/* SPDX-License-Identifier: MIT */
/*
 * client_http.h: what single requests and the stream of events have in common.
 */
#ifndef DIBS_CLIENT_HTTP_H
#define DIBS_CLIENT_HTTP_H

#include "client_private.h"
#include "server/curl_calls.h"

struct http_link {
    const struct curl_calls *curl;
    CURL *easy; /* for single requests, one after another; it keeps connections open */
    char *api_key;
    char error[CURL_ERROR_SIZE]; /* of the last attempt, in libcurl's words */
};

const char *http_where(const struct client *c); /* the URL, or the path of the socket */
/* Sets where to, and how: all that does not depend on the request. */
CURLcode http_address(const struct client *c, CURL *easy, const char *path, const char *query);
/* Appends a header line, or the API key's if there is a key. False: out of memory. */
bool http_header_add(const struct client *c, struct curl_slist **list, const char *name,
                     const char *value) MUST_USE;
bool http_key_add(const struct client *c, struct curl_slist **list) MUST_USE;
/* The answer of a daemon; NULL when the bytes are not one. */
json_t *http_json(const struct buf *body, dibs_status *status);

/* DIBS_DAEMON_UNREACHABLE, with a sentence that says where, why, and what to do. */
dibs_status http_unreachable(const struct client *c, CURL *easy, CURLcode code,
                             struct dibs_error *err);
/* The same about an answer that no daemon of ours gave. */
dibs_status http_foreign(const struct client *c, CURL *easy, struct dibs_error *err);

dibs_status http_stream(struct client *c, const struct client_stream *in, struct dibs_error *err);

#endif
