/* SPDX-License-Identifier: MIT */
/*
 * http_head.h: private to http*.c: the raw bytes of a head, and what they mean.
 */
#ifndef DIBS_HTTP_HEAD_H
#define DIBS_HTTP_HEAD_H

#include "http.h"

/* How far the head that is coming in has been looked at. Zeroed: nothing has come. */
struct http_scan {
    uint32_t bytes; /* of the head so far */
    uint16_t lines; /* ended so far */
    uint8_t place;  /* within a line */
};

/*
 * http_scan: looks at the next bytes of a head, each once. Returns how many of them belong to it;
 * *done tells that its empty line was among them. A byte that may be in no head, or one too many,
 * fills in `why`; what was returned is then of no use.
 */
size_t http_scan(struct http_scan *s, const char *bytes, size_t count, bool *done,
                 struct http_refusal *why);

/* How the body comes. */
struct http_plan {
    bool chunked;
    bool expects_continue;
    size_t length; /* unless chunked; 0: there is none */
};

/*
 * http_head_read: makes a request of a scanned head. Its texts become texts in place: names in
 * lower case, NULs behind each. `headers` has room for `header_count`, which is what the scan has
 * counted. False: `why` is filled in.
 */
bool http_head_read(char *head, size_t bytes, struct http_header *headers, size_t header_count,
                    struct http_request *out, struct http_plan *plan, struct http_refusal *why)
    MUST_USE;

#endif
