/* SPDX-License-Identifier: MIT */
/*
 * key.h: API keys: made, listed, revoked; and how the daemon knows one again.
 *
 * A key is one text, dibs_<id>_<secret>, shown once. The id is no secret: it names the key in
 * lists, in the journal and in the rows of sessions. Of the secret only its SHA-256 is stored. Not
 * part of dibs.h: whoever has the data file needs no key.
 */
#ifndef DIBS_KEY_H
#define DIBS_KEY_H

#include "base/base.h"

#define KEY_ID_CHARS 7 /* "k" and six more */
#define KEY_SECRET_CHARS 52
#define KEY_HINT_CHARS 4
#define KEY_DIGEST_BYTES 65 /* hex and a NUL */

/* In the order of what they may do: each may do all that those before it may. */
enum dibs_role { DIBS_ROLE_READ, DIBS_ROLE_WORKER, DIBS_ROLE_ADMIN };
const char *dibs__role_name(int role); /* "read", "worker", "admin" */

struct dibs_key_row {
    const char *id;          /* "k7f3a9x" */
    const char *name;        /* what people call it; of all keys not revoked, only one has it */
    const char *digest;      /* SHA-256 of the secret, hex */
    const char *hint;        /* the last characters of the secret */
    int role;                /* enum dibs_role */
    const char *project;     /* NULL: all */
    int64_t rate_per_minute; /* 0: no limit */
    int64_t created_at_ms, revoked_at_ms;
    bool revoked;
};
struct dibs_key_list {
    struct dibs_key_row *items;
    size_t count; /* revoked ones included */
};
/* All keys there ever were, oldest first. */
dibs_status dibs__keys_load(dibs *d, dibs_arena *a, struct dibs_key_list *out,
                            struct dibs_error *err) MUST_USE;

struct dibs_key_new {
    const char *name; /* required */
    int role;
    const char *project;             /* NULL: all */
    struct dibs_opt rate_per_minute; /* not given: KEY_RATE_DEFAULT; 0: no limit */
};
struct dibs_key_added {
    struct dibs_key_row key;
    const char *text; /* the key itself: the only time it can be seen */
};
/* Event key:added. DIBS_INVALID_REQUEST: no name, or one that a key in use has already. */
dibs_status dibs__key_add(dibs *d, dibs_arena *a, const struct dibs_key_new *in,
                          struct dibs_key_added *out, struct dibs_error *err) MUST_USE;
/* Event key:revoked, unless it was revoked before. DIBS_KEY_NOT_FOUND. */
dibs_status dibs__key_revoke(dibs *d, dibs_arena *a, const char *id, struct dibs_key_row *out,
                             struct dibs_error *err) MUST_USE;

/* Takes a key apart: false when the text cannot be one. *secret points into text. */
bool dibs__key_split(const char *text, char id[KEY_ID_CHARS + 1], const char **secret) MUST_USE;
/* The digest of a secret as it is stored; false when out of memory. */
bool dibs__key_digest(const char *secret, char out[KEY_DIGEST_BYTES]) MUST_USE;

#endif
