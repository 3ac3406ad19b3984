/* SPDX-License-Identifier: MIT */
/*
 * api.h: the operations as a pure function from request to answer, JSON in and JSON out.
 *
 * The room `api` owns the words of the protocol: paths, fields, shapes of answers. It must never
 * know a socket, and it decides nothing about tasks: each api_* function gets its input decoded,
 * calls the library and encodes. The command line without a daemon, the HTTP server and the tests
 * all come through api_call(). Start reading at ops.def, then api.c.
 */
#ifndef DIBS_API_H
#define DIBS_API_H

#include "base/base.h"
#include "base/buf.h"

enum api_scope { API_READER, API_WORKER, API_ADMIN };
enum api_access { API_READS, API_WRITES };

/* Who asks. All zero: the owner of the data, in this process or on the unix socket. */
struct api_identity {
    const char *key_id;  /* NULL: no key; may act for every session */
    enum api_scope role; /* of the key */
    const char *project; /* the only project it may see and change; NULL: all */
    bool remote;         /* asks from another machine, as far as we can tell */
};

/* The least role of a key that reaches a scope, as a word: "read", "worker", "admin". */
const char *api_scope_name(enum api_scope scope);

struct api_operation;

struct api_request {
    const struct api_operation *op; /* what api_find gave for method and path; NULL: not asked */
    const char *method;
    const char *path;  /* "/api/tasks/7/claim", percent-encoded, without the query */
    const char *query; /* "status=open&limit=5", percent-encoded; NULL or "" when there is none */
    const char *body;  /* JSON; NULL or empty when there is none */
    size_t body_bytes;
    const char *idempotency_key; /* NULL: none */
    struct api_identity who;
};

struct api_response {
    int http;           /* 200, 409 ... */
    dibs_status status; /* DIBS_OK, or the refusal that the body names */
    struct buf body;    /* one JSON object; initialised by api_call, released by the caller */
    /* The caller would have waited so long for a better answer, which cannot be done inside a
     * batch; 0: it would not. Asking again may do better once something has changed: */
    int64_t wait_ms;
    /* the pool of tasks, unless wait_not_pool; those with equal keys find the same there, with 0
     * what no other does */
    uint64_t wait_key;
    bool wait_not_pool;
    /* or something for its agent, or for the leads of its project (dibs__is_woken); 0: has none */
    uint64_t wait_agent, wait_leads;
};

/*
 * Answers one request. Always fills in *out: a refusal is an answer too. `a` is used for what the
 * answer is made of and may be reset afterwards. When there is no memory even for a refusal, the
 * body is empty.
 */
void api_call(dibs *d, dibs_arena *a, const struct api_request *in, struct api_response *out);

/* Makes the answer that says `status`, for a request that did not come so far. *out as above. */
void api_refusal(dibs_status status, const struct dibs_error *err, struct api_response *out);

/* One row of ops.def. */
struct api_operation {
    const char *name, *method, *path;
    enum api_scope scope;
    enum api_access access;
    const char *since, *summary;
};
const struct api_operation *api_operations(size_t *count);
/* The operation that a request would reach; NULL when there is none. */
const struct api_operation *api_find(const char *method, const char *path);

#endif
