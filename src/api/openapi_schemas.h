/* SPDX-License-Identifier: MIT */
/*
 * openapi_schemas.h: our answers as data: the objects in them, and what each operation answers.
 * The encoders are the truth; test/unit/api/openapi.c holds the two together.
 */
#ifndef DIBS_OPENAPI_SCHEMAS_H
#define DIBS_OPENAPI_SCHEMAS_H

#include "base/json.h"

enum member_kind {
    MEMBER_TEXT,
    MEMBER_INT,
    MEMBER_BOOL,
    MEMBER_TIME,   /* ISO 8601 */
    MEMBER_JSON,   /* any JSON value of the caller's */
    MEMBER_TEXTS,  /* list of text */
    MEMBER_COUNTS, /* object: name to number */
    MEMBER_ID,     /* number when the id is one, else text */
    MEMBER_ONE,    /* a schema, by the name in `of` */
    MEMBER_LIST,   /* a list of them */
};
enum member_flag {
    MEMBER_ALWAYS = 1, /* never left out */
    MEMBER_NULL = 2,   /* may be null */
};

struct member {
    const char *name;
    enum member_kind kind;
    unsigned flags;
    const char *of;
    const char *doc;
};

/* An object (members), a word out of a list (words), or one of other schemas (any_of). */
struct schema {
    const char *name, *doc;
    const struct member *members;
    size_t count;
    const char *const *words;  /* up to a NULL */
    const char *const *any_of; /* up to a NULL */
    const char *base;          /* has the members of this one as well */
};
const struct schema *openapi_schemas(size_t *count);

/* What an operation of ops.def answers. */
struct reply {
    const char *operation;
    const char *tag;              /* the area it belongs to */
    int http, http_else;          /* of a success; http_else: "it was there already", 0: none */
    const struct member *members; /* behind "success": true */
    size_t count;
    const dibs_status *refusals; /* beside those that every operation may answer; up to DIBS_OK */
};
const struct reply *openapi_replies(size_t *count);

struct tag {
    const char *name, *doc;
};
const struct tag *openapi_tags(size_t *count);

#endif
