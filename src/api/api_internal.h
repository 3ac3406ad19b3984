/* SPDX-License-Identifier: MIT */
/*
 * api_internal.h: what the files of this room share.
 *
 * An operation is a shape (what it takes) and a function (what it does). api.c reads the request
 * into the struct of the shape before the function runs, and turns what the function returns into
 * an answer after it: a function that returns DIBS_OK has written the members of the answer behind
 * "success": true; one that returns anything else has written nothing and filled in c->err.
 */
#ifndef DIBS_API_INTERNAL_H
#define DIBS_API_INTERNAL_H

#include "api.h"
#include "decode.h"
#include "encode.h"

/* One running request. */
struct api_ctx {
    dibs *d;
    dibs_arena *a;
    struct dibs_error *err;
    struct buf *out;
    struct jw w;
    int http;          /* of a success: 200 unless the function says otherwise */
    bool in_once;      /* runs under an idempotency key, so a transaction is open already */
    int batches;       /* so many did api_begin open */
    int64_t wait_ms;   /* the caller would have waited so long for a better answer */
    uint64_t wait_key; /* with wait_ms: see api_response, as the next ones */
    bool wait_not_pool;
    uint64_t wait_agent, wait_leads;
    const struct api_identity *who;
    /* more members for a refusal, written behind the message; NULL: none */
    void (*extras)(struct jw *w, const void *about);
    const void *about;
};

typedef dibs_status api_function(struct api_ctx *c, const void *input);

/* Begins the answer {"success":true and returns its writer; api.c ends it. */
struct jw *api_reply(struct api_ctx *c);

/*
 * Several calls of the library as one transaction, or as a part of the one that is open: they may
 * be used inside one another. Under an idempotency key they do nothing: there a refusal takes
 * everything back by itself (dibs_once). After api_begin, end with api_commit when what was done
 * shall stay, with api_settle in front of a refusal, else with api_cancel.
 */
dibs_status api_begin(struct api_ctx *c) MUST_USE;
dibs_status api_commit(struct api_ctx *c) MUST_USE;
void api_cancel(struct api_ctx *c);
/* Commits although the answer is the refusal `s`, of which c->err tells; returns s if it can. */
dibs_status api_settle(struct api_ctx *c, dibs_status s) MUST_USE;

/* Refuses to wait under an idempotency key: the transaction it opens would keep out whoever could
 * end the wait. `field` is what asked for it. */
dibs_status api_refuse_wait(struct api_ctx *c, const char *field);

/* Adds texts to a wait_key that str_hash began; never 0 (api_next.c). */
uint64_t api_wait_key(uint64_t hash, struct dibs_strings texts);

/* One line per operation: its shape and its function. */
#define OP(name, method, path, scope, access, since, summary, function)                            \
    extern const struct api_shape api_in_##function;                                               \
    api_function api_##function;
#include "ops.def"
#undef OP

/* ---- routes ---------------------------------------------------------------------------------- */

struct route {
    const struct api_operation *op;
    api_function *run;
    const struct api_shape *in;
    char id[ID_BYTES_MAX + 1]; /* the :id of the path, decoded; "" when the path has none */
    char allowed[64];          /* DIBS_METHOD_NOT_ALLOWED: "GET, PATCH" */
};

/* Finds the operation of a request: DIBS_NOT_FOUND, DIBS_METHOD_NOT_ALLOWED, DIBS_INVALID_REQUEST
 * (a path that cannot be decoded, an :id that is none). */
dibs_status route_find(const char *method, const char *path, struct route *out,
                       struct dibs_error *err) MUST_USE;
/* The same when the operation is known: `op` is what api_find gave for the path. */
dibs_status route_take(const struct api_operation *op, const char *path, struct route *out,
                       struct dibs_error *err) MUST_USE;
/* What an operation takes, for descriptions and tests; i counts the rows of ops.def. */
const struct api_shape *route_shape(size_t i);

/* ---- who asks -------------------------------------------------------------------------------- */

/* Only for a request with a key: refuses what it may not do (DIBS_FORBIDDEN), hides what it may not
 * see, and holds `input` to the key's project. */
dibs_status identity_check(struct api_ctx *c, const struct route *r, void *input) MUST_USE;
/* Only for a request with a key: may it act for this session? `fresh`: registering it, if need
 * be. */
dibs_status identity_check_acting(struct api_ctx *c, const char *id, bool fresh) MUST_USE;
/* Takes out of what is told about a session the tasks that the caller may not see. */
void identity_trim(struct api_ctx *c, struct dibs_session *s);
/* The same for the task that a message became. */
void identity_trim_message(struct api_ctx *c, struct dibs_message *m);
/* Registers a session, which then belongs to the caller's key. */
dibs_status api_register(struct api_ctx *c, const struct dibs_session_new *in,
                         struct dibs_session *out) MUST_USE;

/* ---- tables of fields ------------------------------------------------------------------------ */

/* A row of a table; IN is the struct it fills: FIELD("title", TEXT, title, .doc = "...") */
#define FIELD(text, type, member, ...)                                                             \
    {                                                                                              \
        .name = text, .kind = FIELD_##type, .at = offsetof(IN, member), __VA_ARGS__                \
    }
/* The shape of a struct: SHAPE(struct x, x_fields, .id_at = SHAPE_NO_ID) */
#define SHAPE(type, table, ...)                                                                    \
    {                                                                                              \
        .bytes = sizeof(type), .fields = table, .count = COUNT_OF(table), __VA_ARGS__              \
    }
/* The shape of an operation that takes nothing but the :id of its path, which goes to `member`. */
#define SHAPE_ID_ONLY(type, member)                                                                \
    {                                                                                              \
        .bytes = sizeof(type), .id_at = offsetof(type, member)                                     \
    }

/* Fields that many operations share. */
#define FIELD_SESSION                                                                              \
    FIELD("sessionId", ID, session_id, .flags = FIELD_REQUIRED | FIELD_ACTS,                       \
          .doc = "The session that holds it")
#define FIELD_TOKEN                                                                                \
    FIELD("token", INT, token, .min = 1,                                                           \
          .doc = "Token of the claim; given, it must be the current one")

/* What claim-next may be told in either dialect, apart from who asks. */
extern const struct field_word api_sort_words[], api_order_words[];

#endif
