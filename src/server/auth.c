/* SPDX-License-Identifier: MIT */
/*
 * auth.c: who asks, and may they?
 *
 *     auth_check: origin_check -> find the key -> count the request -> role -> content type
 *
 * The keys are a copy of the store's table, sorted by id, with a bucket each.
 *
 *   1. A key is looked up by its id, which is no secret; its secret is compared as a digest, in
 *      constant time. An id that is unknown is compared with a digest that nothing has, so that the
 *      way is the same for all that is wrong.
 *   2. A key that is sent must be good, also where none is needed: what passes a caller's key on to
 *      the unix socket must not turn it into the owner.
 *   3. What is wrong is counted in one bucket for all. It delays those who guess and nobody with a
 *      good key.
 *   4. No secret is in a message, a header or a log.
 */
#include "auth.h"

#include <openssl/crypto.h>

#include "base/str.h"
#include "origin.h"
#include "ratelimit.h"

#define WRONG_PER_MINUTE 600

struct entry {
    char id[KEY_ID_CHARS + 1];
    char digest[KEY_DIGEST_BYTES];
    char *project; /* NULL: all */
    enum api_scope role;
    bool revoked;
    bool counted; /* the bucket is in use */
    int64_t per_minute;
    struct bucket bucket;
};

struct table {
    struct entry *entries; /* by id */
    size_t count;
};

struct auth {
    struct origin_hosts hosts;
    struct table keys;
    bool wrong_counted;
    struct bucket wrong;
};

/* ---- the keys -------------------------------------------------------------------------------- */

static void table_release(struct table *t)
{
    for (size_t i = 0; i < t->count; i++)
        mem_free(t->entries[i].project);
    mem_free(t->entries);
    *t = (struct table){0};
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->id, ((const struct entry *)b)->id);
}

static struct entry *find(const struct table *t, const char *id)
{
    struct entry wanted = {0};
    if (t->count == 0 || id == NULL || strlen(id) > KEY_ID_CHARS)
        return NULL;
    str_fit(wanted.id, sizeof wanted.id, id);
    return bsearch(&wanted, t->entries, t->count, sizeof wanted, by_id);
}

struct auth *auth_new(const struct auth_options *in)
{
    struct auth *a = mem_alloc(sizeof *a);
    if (a != NULL && !origin_set_hosts(&a->hosts, in->hosts)) {
        mem_free(a);
        return NULL;
    }
    return a;
}

void auth_free(struct auth *a)
{
    if (a == NULL)
        return;
    table_release(&a->keys);
    origin_release(&a->hosts);
    mem_free(a);
}

/* take_over: a key as the store has it, with what is left in its bucket. */
static bool take_over(struct entry *e, const struct dibs_key_row *key, const struct table *before)
{
    const struct entry *old = find(before, key->id);
    str_fit(e->id, sizeof e->id, key->id);
    str_fit(e->digest, sizeof e->digest, key->digest);
    e->role = (enum api_scope)key->role;
    e->revoked = key->revoked;
    e->per_minute = key->rate_per_minute;
    if (old != NULL && old->counted && old->per_minute == e->per_minute) {
        e->counted = true;
        e->bucket = old->bucket;
    }
    e->project = mem_copy(key->project);
    return e->project != NULL || key->project == NULL;
}

bool auth_set_keys(struct auth *a, const struct dibs_key_list *keys)
{
    struct table fresh = {.entries = mem_alloc((keys->count + 1) * sizeof(struct entry))};
    if (fresh.entries == NULL)
        return false;
    for (size_t i = 0; i < keys->count; i++) {
        struct entry *e = &fresh.entries[fresh.count++];
        if (!take_over(e, &keys->items[i], &a->keys)) {
            table_release(&fresh);
            return false;
        }
    }
    qsort(fresh.entries, fresh.count, sizeof *fresh.entries, by_id);
    table_release(&a->keys);
    a->keys = fresh;
    return true;
}

bool auth_set_hosts(struct auth *a, struct dibs_strings hosts)
{
    return origin_set_hosts(&a->hosts, hosts);
}

bool auth_key_is_good(const struct auth *a, const char *key_id)
{
    const struct entry *e = find(&a->keys, key_id);
    return e != NULL && !e->revoked;
}

/* ---- finding out ----------------------------------------------------------------------------- */

enum sent { SENT_NONE, SENT_KEY, SENT_UNCLEAR };

/* note_key: a second header may repeat the key, and nothing else. */
static enum sent note_key(enum sent so_far, const char **key, const char *value)
{
    if (so_far == SENT_UNCLEAR || value == NULL || (so_far == SENT_KEY && !str_eq(*key, value)))
        return SENT_UNCLEAR;
    *key = value;
    return SENT_KEY;
}

/* bearer: what follows "Bearer "; NULL when it is another scheme. */
static const char *bearer(const char *value)
{
    char scheme[8] = "";
    memcpy(scheme, value, strnlen(value, 7));
    return str_eq_nocase(scheme, "bearer ") ? value + 7 + strspn(value + 7, " ") : NULL;
}

static enum sent key_of(const struct http_request *r, const char **key)
{
    enum sent sent = SENT_NONE;
    for (size_t i = 0; i < r->header_count; i++) {
        const struct http_header *header = &r->headers[i];
        if (str_eq(header->name, "x-api-key"))
            sent = note_key(sent, key, header->value);
        else if (str_eq(header->name, "authorization"))
            sent = note_key(sent, key, bearer(header->value));
    }
    return sent;
}

/* match: the key that the text is, NULL when it is none. One way for all that is wrong. */
static struct entry *match(struct auth *a, const char *text)
{
    static const char of_nothing[KEY_DIGEST_BYTES] =
        "----------------------------------------------------------------";
    char id[KEY_ID_CHARS + 1] = "", digest[KEY_DIGEST_BYTES] = "";
    const char *secret = text;
    bool whole = dibs__key_split(text, id, &secret);
    struct entry *e = find(&a->keys, id);
    bool hashed = dibs__key_digest(secret, digest);
    bool same = CRYPTO_memcmp(digest, e != NULL ? e->digest : of_nothing, sizeof digest - 1) == 0;
    return whole && hashed && same ? e : NULL;
}

/* ---- refusing -------------------------------------------------------------------------------- */

static void add_header(struct auth_verdict *out, const char *format, ...) PRINTF_LIKE(2, 3);
static void add_header(struct auth_verdict *out, const char *format, ...)
{
    size_t length = strlen(out->headers);
    va_list args;
    va_start(args, format);
    vsnprintf(out->headers + length, sizeof out->headers - length, format, args);
    va_end(args);
}

static dibs_status refuse_rate(struct auth_verdict *out, const struct bucket *b)
{
    int64_t seconds = bucket_next_s(b) > 0 ? bucket_next_s(b) : 1;
    add_header(out, "Retry-After: %" PRId64 "\r\n", seconds);
    return error_set(&out->err, DIBS_RATE_LIMITED,
                     "too many requests; try again in %" PRId64 " second%s", seconds,
                     seconds == 1 ? "" : "s");
}

static dibs_status refuse_key(struct auth *a, int64_t now_ms, const char *why,
                              struct auth_verdict *out)
{
    if (!a->wrong_counted)
        bucket_fill(&a->wrong, WRONG_PER_MINUTE, now_ms);
    a->wrong_counted = true;
    if (!bucket_take(&a->wrong, now_ms))
        return refuse_rate(out, &a->wrong);
    add_header(out, "WWW-Authenticate: Bearer\r\n");
    return error_set(&out->err, DIBS_UNAUTHORIZED, "%s", why);
}

static dibs_status need_key(const struct auth *a, enum conn_kind kind, bool loopback,
                            struct auth_verdict *out)
{
    if (kind == CONN_UNIX || (loopback && a->keys.count == 0))
        return DIBS_OK;
    add_header(out, "WWW-Authenticate: Bearer\r\n");
    return error_set(&out->err, DIBS_UNAUTHORIZED,
                     "send an API key, as X-API-Key or as Authorization: Bearer; make one with: "
                     "dibs key add NAME --role worker");
}

/* count: takes a token, and tells how many are left. */
static dibs_status count(struct entry *e, int64_t now_ms, struct auth_verdict *out)
{
    if (e->per_minute == 0)
        return DIBS_OK;
    if (!e->counted)
        bucket_fill(&e->bucket, e->per_minute, now_ms);
    e->counted = true;
    bool taken = bucket_take(&e->bucket, now_ms);
    add_header(out, "RateLimit-Policy: \"default\";q=%" PRId64 ";w=60\r\n", e->per_minute);
    add_header(out, "RateLimit: \"default\";r=%" PRId64 ";t=%" PRId64 "\r\n",
               bucket_left(&e->bucket), bucket_full_s(&e->bucket));
    return taken ? DIBS_OK : refuse_rate(out, &e->bucket);
}

static dibs_status check_key(struct auth *a, const char *text, enum api_scope scope, int64_t now_ms,
                             struct auth_verdict *out)
{
    struct entry *e = match(a, text);
    if (e == NULL)
        return refuse_key(a, now_ms, "the API key is not valid", out);
    if (e->revoked)
        return refuse_key(a, now_ms, "the API key was revoked", out);
    out->identity = (struct api_identity){.key_id = e->id, .role = e->role, .project = e->project};
    dibs_status s = count(e, now_ms, out);
    if (s == DIBS_OK && e->role < scope)
        s = error_set(&out->err, DIBS_FORBIDDEN, "this needs a key with role '%s'",
                      api_scope_name(scope));
    return s;
}

static dibs_status check_caller(struct auth *a, const struct http_request *r, enum conn_kind kind,
                                bool loopback, enum api_scope scope, int64_t now_ms,
                                struct auth_verdict *out)
{
    const char *key = NULL;
    switch (key_of(r, &key)) {
    case SENT_NONE: return need_key(a, kind, loopback, out);
    case SENT_KEY: return check_key(a, key, scope, now_ms, out);
    case SENT_UNCLEAR: break;
    }
    return refuse_key(a, now_ms, "send one API key, as X-API-Key or as Authorization: Bearer", out);
}

void auth_check(struct auth *a, const struct http_request *r, enum conn_kind kind, bool loopback,
                enum api_scope scope, bool is_public, int64_t now_ms, struct auth_verdict *out)
{
    *out = (struct auth_verdict){0};
    out->status = origin_check(&a->hosts, r, kind, is_public, &out->err);
    if (out->status != DIBS_OK || is_public)
        return;
    out->status = check_caller(a, r, kind, loopback, scope, now_ms, out);
    if (out->status == DIBS_OK)
        out->status = origin_check_type(r, &out->err);
}
