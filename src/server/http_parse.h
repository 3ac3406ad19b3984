/* SPDX-License-Identifier: MIT */
/*
 * http_parse.h: a whole head split into its tokens by a parser library.
 *
 * Which library is a secret of http_parse.c. Its header and ours both want names such as
 * HTTP_REQUEST, so this one stands alone and http_parse.c must not include http.h.
 */
#ifndef DIBS_HTTP_PARSE_H
#define DIBS_HTTP_PARSE_H

#include "base/base.h"

/* A piece of the head: where it begins and how long it is. A head has far less than 64 KiB. */
struct http_token {
    uint16_t at, bytes;
};

struct http_field {
    struct http_token name, value; /* the value without the white space in front of it */
};

struct http_parsed {
    struct http_token target;
    int major, minor;
    bool chunked;    /* what the library would do about the body: */
    uint64_t length; /* 0 when there is no Content-Length */
    size_t count;    /* of fields */
};

/*
 * http_parse: reads the request line and headers in `head`, which ends with its empty line.
 * False: the library refuses them, stops early, or finds more than `fields_max` headers.
 */
bool http_parse(const char *head, size_t bytes, struct http_field *fields, size_t fields_max,
                struct http_parsed *out) MUST_USE;

#endif
