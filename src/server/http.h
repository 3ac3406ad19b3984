/* SPDX-License-Identifier: MIT */
/*
 * http.h: one HTTP/1.x request after another out of a stream of bytes, strictly.
 *
 * No socket in here: bytes go in, whole requests or a refusal come out. Whatever two readers could
 * understand differently is refused, and after a refusal the stream is of no use any more: answer
 * with its status and close. http_parse.c hides which parser library does the lexing.
 */
#ifndef DIBS_HTTP_H
#define DIBS_HTTP_H

#include "base/base.h"

#define HTTP_HEAD_BYTES_MAX (16 * 1024) /* request line and all headers */
#define HTTP_HEADERS_MAX 100
#define HTTP_URL_BYTES_MAX (8 * 1024)

struct http_header {
    const char *name;  /* lower case */
    const char *value; /* without the white space around it */
};

/* Lives until http_next or http_free. All texts are NUL-terminated and contain no NUL. */
struct http_request {
    const char *method; /* "GET" */
    const char *path;   /* as sent, percent-encoded, without the query; begins with '/' */
    const char *query;  /* as sent, without the '?'; "" when there is none */
    const char *host;   /* of the Host header; NULL only in HTTP/1.0 */
    const struct http_header *headers;
    size_t header_count;
    const char *body; /* "" when there is none; a NUL stands behind it, and may stand in it */
    size_t body_bytes;
    bool keep_alive; /* the connection may stay open after the answer */
    bool http10;
};

struct http;

enum http_result {
    HTTP_MORE,    /* everything was used, the request goes on */
    HTTP_REQUEST, /* a whole request is there; what is left belongs to the next one */
    HTTP_REFUSED, /* http_refusal() says why; nothing more may be fed */
};

struct http *http_new(void);    /* NULL when out of memory */
void http_free(struct http *h); /* NULL is fine */
/* Takes in bytes. *used tells how many belong to the request that is being read. How they are cut
 * into pieces makes no difference. */
enum http_result http_feed(struct http *h, const char *bytes, size_t count, size_t *used);
/* After HTTP_REQUEST. */
const struct http_request *http_request(const struct http *h);
/* Gives back the memory of the request and begins the next one. */
void http_next(struct http *h);
/* The caller sent "Expect: 100-continue" and waits for our word before it sends the body. True once
 * per request. */
bool http_wants_continue(struct http *h);
/* Nothing of a next request has come yet. */
bool http_is_idle(const struct http *h);

struct http_refusal {
    int status; /* 400, 413, 414, 417, 431, 501, 503 (out of memory), 505 */
    const char *text;
};
struct http_refusal http_refusal(const struct http *h);

/* The value of a header by its lower-case name; NULL when it was not sent. */
const char *http_header(const struct http_request *r, const char *name);
const char *http_status_text(int status); /* "Not Found" */

#endif
