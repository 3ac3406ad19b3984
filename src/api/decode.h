/* SPDX-License-Identifier: MIT */
/*
 * decode.h: what a request may carry, as tables, and one reader for all of them.
 *
 * Each operation has a shape: a C struct and the list of fields that fill it. A field is data with
 * a sentence of documentation, so that the same list that reads a request can describe it. Query
 * strings and JSON bodies go through the same rows.
 *
 * Refused by name, with DIBS_INVALID_REQUEST: an unknown field (with the nearest known name), a
 * wrong type (with the expected one), a value out of range, a field given twice, a missing one.
 */
#ifndef DIBS_DECODE_H
#define DIBS_DECODE_H

#include "base/arena.h"
#include "base/json.h"

enum field_kind {
    FIELD_TEXT,     /* const char *; max: bytes */
    FIELD_ID,       /* const char *, as str_is_id */
    FIELD_INT,      /* int64_t, or struct dibs_opt with FIELD_OPT; min, max */
    FIELD_BOOL,     /* bool, or struct dibs_opt with FIELD_OPT */
    FIELD_TIME,     /* as FIELD_INT: ISO 8601 text, or milliseconds since 1970 */
    FIELD_MINUTES,  /* as FIELD_INT: whole minutes on the wire, milliseconds in the struct */
    FIELD_PRIORITY, /* struct dibs_opt: 0..100 or a word */
    FIELD_JSON,     /* const char *: any JSON value, as compact text */
    FIELD_STRINGS,  /* struct dibs_strings, or a pointer to one with FIELD_REF; max: items */
    FIELD_ENUM,     /* int: the value of one of `words` */
    FIELD_OBJECT,   /* void *: a struct of the shape `of`, NULL when not given */
};

enum field_flag {
    FIELD_REQUIRED = 1,
    FIELD_OPT = 2,     /* it is a struct dibs_opt: 0 or false, and absent, differ */
    FIELD_REF = 4,     /* the list is behind a pointer: empty and absent differ */
    FIELD_KEEP = 8,    /* null means "not given" even where null clears */
    FIELD_IDS = 16,    /* the id, or each item of the list, is that of a task */
    FIELD_HIDDEN = 32, /* another name for a field above it; left out of descriptions */
    FIELD_ACTS = 64,   /* the session for which the request acts (identity.c) */
    FIELD_FRESH = 128  /* with FIELD_ACTS: it will be registered if it is not there or has ended */
};

/* one word of an enumeration; the list ends with a NULL text */
struct field_word {
    const char *text;
    int value;
};

struct field {
    const char *name;
    enum field_kind kind;
    unsigned flags;
    size_t at;        /* offset in the struct */
    int64_t min, max; /* max 0: no upper bound of its own */
    int64_t reset;    /* what null stores where null clears */
    const struct field_word *words;
    const struct api_shape *of;
    const char *missing; /* the message when a required field is absent; NULL: the usual one */
    const char *doc;
};

#define SHAPE_NO_ID ((size_t)-1)

struct api_shape {
    size_t bytes; /* of the struct */
    const struct field *fields;
    size_t count;     /* at most 64 */
    size_t id_at;     /* where the :id of the path goes (const char *), or SHAPE_NO_ID */
    bool many;        /* the body may be a list of such objects; the input is a struct api_many */
    bool null_clears; /* null empties a field instead of leaving it as it is */
};

/* The input of an operation whose shape says `many`. */
struct api_many {
    void *items;
    size_t count;
    bool was_list;
};

struct decoder {
    dibs_arena *a;
    const struct api_shape *shape;
    void *out;          /* zeroed, shape->bytes large */
    const char *prefix; /* "tasks[3]": put in front of field names in refusals; NULL: nothing */
    uint64_t seen;      /* one bit per field */
    struct dibs_error *err;
};

/* Both may be used on one decoder, in any order; decode_finish then checks what is missing. */
dibs_status decode_object(struct decoder *d, const json_t *object) MUST_USE;
dibs_status decode_query(struct decoder *d, const char *query) MUST_USE; /* NULL is fine */
dibs_status decode_finish(struct decoder *d) MUST_USE;
/* One field: its row, NULL when there is none; its value; the refusal of a name without a row,
 * which `what` calls "field" or "query parameter". */
const struct field *decode_find(const struct api_shape *shape, const char *name);
dibs_status decode_field(struct decoder *d, const struct field *f, const json_t *v) MUST_USE;
dibs_status decode_unknown(struct decoder *d, const char *what, const char *name) MUST_USE;
/* One object, or a list of up to BATCH_TASKS_MAX, each of the shape. */
dibs_status decode_many(dibs_arena *a, const struct api_shape *shape, const json_t *body,
                        struct api_many *out, struct dibs_error *err) MUST_USE;

/*
 * Undoes percent-encoding of `bytes` of `text` into out, which holds out_bytes with the terminating
 * NUL. False on a broken escape, a NUL, invalid UTF-8, or when it does not fit.
 */
bool decode_percent(const char *text, size_t bytes, bool plus_is_space, char *out, size_t out_bytes)
    MUST_USE;

/* Appends a JSON value as compact text, members in their order, numbers exact. */
void value_write(struct buf *out, const json_t *value);
/* The same as text in the arena; NULL when out of memory. */
const char *value_text(dibs_arena *a, const json_t *value) MUST_USE;

#endif
