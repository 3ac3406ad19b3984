/* SPDX-License-Identifier: MIT */
/*
 * origin.h: was this request meant for us, by somebody who knew where it goes?
 *
 * A page from anywhere can make a browser on this machine send requests to a daemon that listens on
 * loopback only. These checks keep out what comes that way; they say nothing about who asks.
 */
#ifndef DIBS_ORIGIN_H
#define DIBS_ORIGIN_H

#include "conn.h"
#include "http.h"

/* The names we go by, beside those of loopback; copies, owned by whoever owns the struct. */
struct origin_hosts {
    char **names;
    size_t count;
};
/* False when out of memory: the list is then as before. */
bool origin_set_hosts(struct origin_hosts *h, struct dibs_strings names) MUST_USE;
void origin_release(struct origin_hosts *h);

/*
 * Host (DNS rebinding: DIBS_MISDIRECTED_REQUEST), Origin and Sec-Fetch-Site (cross-site requests:
 * DIBS_FORBIDDEN). `is_page`: harmless to open by a link from elsewhere.
 */
dibs_status origin_check(const struct origin_hosts *h, const struct http_request *r,
                         enum conn_kind kind, bool is_page, struct dibs_error *err) MUST_USE;
/* A request that writes and has a body says that it is JSON: a form of another site cannot. */
dibs_status origin_check_type(const struct http_request *r, struct dibs_error *err) MUST_USE;

#endif
