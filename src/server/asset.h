/* SPDX-License-Identifier: MIT */
/*
 * asset.h: files that are part of the program (web/), with their ETag and a gzipped form, made at
 * build time. No path ever reaches the file system.
 */
#ifndef DIBS_ASSET_H
#define DIBS_ASSET_H

#include "conn.h"
#include "http.h"

/* Answers a GET or HEAD when the path is that of an asset ("/" is index.html); false: it is
 * none. */
bool asset_answer(struct conn *c, const struct http_request *r);
bool asset_exists(const char *path);

/* One form of a file. */
struct asset_form {
    const unsigned char *data; /* NULL: there is no such form */
    size_t bytes;
    const char *etag; /* with its quotes; differs between the forms */
};
struct asset {
    const char *path; /* "/style.css" */
    const char *content_type;
    struct asset_form plain, gzip;
};
struct asset_list {
    const struct asset *items;
    size_t count;
};
extern const struct asset_list asset_files; /* made by gen_assets.py */

/* What a request for an asset is answered with. */
struct asset_reply {
    int status; /* 200, 304 */
    const char *content_type;
    const struct asset_form *form; /* what to send; NULL: no body */
    char headers[1024];
};
/* Decides on the answer to a GET or HEAD, without a connection; false: the path is that of no
 * asset. */
bool asset_decide(const struct http_request *r, struct asset_reply *out) MUST_USE;

#endif
