/* SPDX-License-Identifier: MIT */
/*
 * auth.h: who asks, and may they? Loop thread only; the keys are a copy of the store's table,
 * brought up to date by whoever sees a key:* event.
 *
 *   1. The unix socket belongs to the owner of the data: no key needed, role admin.
 *   2. On TCP, while the store has never had a key and the listener is on loopback, nobody needs
 *      one. From the first key on (revoked or not) everybody does. A key that is sent must be good.
 *   3. Unknown id and wrong secret take the same path and the same time.
 */
#ifndef DIBS_AUTH_H
#define DIBS_AUTH_H

#include "api/api.h"
#include "conn.h"
#include "core/key.h"
#include "http.h"

struct auth;

struct auth_options {
    /* names a request may be addressed to, beside those of loopback: "box.lan", "10.0.0.5" */
    struct dibs_strings hosts;
};
struct auth *auth_new(const struct auth_options *in);
void auth_free(struct auth *a);
/* Replaces the keys; the rest of their buckets is kept. The list is borrowed. */
bool auth_set_keys(struct auth *a, const struct dibs_key_list *keys) MUST_USE;
bool auth_set_hosts(struct auth *a, struct dibs_strings hosts) MUST_USE;

struct auth_verdict {
    dibs_status status; /* DIBS_OK, or UNAUTHORIZED, FORBIDDEN, RATE_LIMITED, MISDIRECTED,
                           UNSUPPORTED_MEDIA_TYPE */
    struct dibs_error err;
    struct api_identity identity; /* texts live until the next auth_set_keys */
    char headers[256]; /* RateLimit, Retry-After, WWW-Authenticate lines; "" when there are none */
};
/*
 * Everything that can be refused before the request is looked at: Host and Origin (DNS rebinding,
 * cross-site requests), content type of a write, key, role against scope, rate. `now_ms` is a
 * steady clock. `public` paths (/healthz, /readyz, the page) need no key but the right Host.
 */
void auth_check(struct auth *a, const struct http_request *r, enum conn_kind kind, bool loopback,
                enum api_scope scope, bool is_public, int64_t now_ms, struct auth_verdict *out);
/* Whether a key that was accepted earlier is still good (long-lived streams). */
bool auth_key_is_good(const struct auth *a, const char *key_id);

#endif
