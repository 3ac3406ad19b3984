/* SPDX-License-Identifier: MIT */
/*
 * json.h: JSON out by appending (jw_*), JSON in by jansson made strict (json_read).
 *
 * The writer puts commas by itself and escapes text; it appends to a buf, whose sticky failure is
 * checked once at the end. Nesting is asserted: an unbalanced document is a bug, not an answer.
 */
#ifndef DIBS_JSON_H
#define DIBS_JSON_H

#include <jansson.h>

#include "buf.h"

struct jw {
    struct buf *out;
    int depth;
    bool comma; /* the next value or key needs one in front */
};

void jw_init(struct jw *w, struct buf *out);
void jw_object(struct jw *w);
void jw_object_end(struct jw *w);
void jw_array(struct jw *w);
void jw_array_end(struct jw *w);
/* keys are our own literals: plain ASCII, not escaped */
void jw_key(struct jw *w, const char *key);
/* NULL writes null; invalid UTF-8 bytes, and NUL, become U+FFFD */
void jw_text(struct jw *w, const char *text);
void jw_textn(struct jw *w, const char *text, size_t bytes);
void jw_int(struct jw *w, int64_t value);
void jw_real(struct jw *w, double value);
void jw_bool(struct jw *w, bool value);
void jw_null(struct jw *w);
void jw_raw(struct jw *w, const char *json); /* already JSON; NULL writes null */
void jw_time(struct jw *w, int64_t ms);      /* ISO 8601 text; 0 writes null */

/* key and value in one call; the _opt ones write nothing at all when the value is NULL or 0 */
void jw_ktext(struct jw *w, const char *key, const char *text);
void jw_ktext_opt(struct jw *w, const char *key, const char *text);
void jw_kint(struct jw *w, const char *key, int64_t value);
void jw_kint_opt(struct jw *w, const char *key, int64_t value);
void jw_kbool(struct jw *w, const char *key, bool value);
void jw_kraw(struct jw *w, const char *key, const char *json);
void jw_kraw_opt(struct jw *w, const char *key, const char *json);
void jw_ktime(struct jw *w, const char *key, int64_t ms);
void jw_ktime_opt(struct jw *w, const char *key, int64_t ms);
void jw_kobject(struct jw *w, const char *key);
void jw_karray(struct jw *w, const char *key);
void jw_kstrings(struct jw *w, const char *key, struct dibs_strings list);

/*
 * json_read: one JSON document, strictly. Refuses with DIBS_INVALID_REQUEST and the byte, counted
 * from 1, in the message: anything after the value, duplicate keys, depth beyond JSON_DEPTH_MAX,
 * invalid UTF-8, NUL bytes and \u0000, lone surrogates, numbers out of the range of int64 or
 * double, an empty text. DIBS_PAYLOAD_TOO_LARGE beyond BODY_BYTES_MAX. Any JSON value is accepted
 * at the top. The caller owns *out (json_decref).
 */
dibs_status json_read(const char *text, size_t bytes, json_t **out, struct dibs_error *err)
    MUST_USE;
/* Whether text is one strict JSON value of at most max bytes; `field` is named in the refusal. NULL
 * text is fine. */
dibs_status json_check(const char *text, size_t max, const char *field, struct dibs_error *err)
    MUST_USE;

#endif
