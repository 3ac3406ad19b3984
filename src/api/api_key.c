/* SPDX-License-Identifier: MIT */
/*
 * api_key.c: API keys: make one, list them, revoke one.
 *
 * The answer to making one carries the key itself, this once. So it takes no idempotency key: the
 * answer would have to be stored. Digests are never part of an answer.
 */
#include "core/key.h"

#include "api_internal.h"

_Static_assert((int)API_READER == (int)DIBS_ROLE_READ && (int)API_WORKER == (int)DIBS_ROLE_WORKER &&
                   (int)API_ADMIN == (int)DIBS_ROLE_ADMIN,
               "a key's role is the scope it reaches");

const char *api_scope_name(enum api_scope scope)
{
    return dibs__role_name((int)scope);
}

static const struct field_word role_words[] = {
    {"read", DIBS_ROLE_READ},
    {"worker", DIBS_ROLE_WORKER},
    {"admin", DIBS_ROLE_ADMIN},
    {NULL, 0},
};

static void enc_api_key(struct jw *w, const struct dibs_key_row *key)
{
    jw_object(w);
    jw_ktext(w, "id", key->id);
    jw_ktext(w, "name", key->name);
    jw_ktext(w, "role", dibs__role_name(key->role));
    jw_ktext_opt(w, "project", key->project);
    jw_kint(w, "ratePerMinute", key->rate_per_minute);
    jw_ktext(w, "hint", key->hint);
    jw_ktime(w, "createdAt", key->created_at_ms);
    if (key->revoked)
        jw_ktime(w, "revokedAt", key->revoked_at_ms);
    jw_object_end(w);
}

#define IN struct dibs_key_new
static const struct field add_fields[] = {
    FIELD("name", TEXT, name, .flags = FIELD_REQUIRED, .max = WORD_BYTES_MAX,
          .doc = "What people call it; no two keys in use have the same"),
    FIELD("role", ENUM, role, .flags = FIELD_REQUIRED, .words = role_words,
          .doc = "read: look only; worker: also work; admin: also clean up and manage keys"),
    FIELD("project", TEXT, project, .max = WORD_BYTES_MAX,
          .doc = "The only project it may see and change; all if not given"),
    FIELD("ratePerMinute", INT, rate_per_minute, .flags = FIELD_OPT, .max = KEY_RATE_MAX,
          .doc = "Requests per minute; 0: no limit, 100 if not given"),
};
#undef IN
const struct api_shape api_in_key_add =
    SHAPE(struct dibs_key_new, add_fields, .id_at = SHAPE_NO_ID);

dibs_status api_key_add(struct api_ctx *c, const void *input)
{
    struct dibs_key_added added = {0};
    if (c->in_once)
        return error_field(c->err, "Idempotency-Key",
                           "cannot be given here: the answer is a secret and is not stored");
    dibs_status s = dibs__key_add(c->d, c->a, input, &added, c->err);
    if (s != DIBS_OK)
        return s;
    c->http = 201;
    struct jw *w = api_reply(c);
    jw_key(w, "key");
    enc_api_key(w, &added.key);
    jw_ktext(w, "apiKey", added.text);
    return DIBS_OK;
}

const struct api_shape api_in_key_list = {.id_at = SHAPE_NO_ID};

dibs_status api_key_list(struct api_ctx *c, const void *input)
{
    struct dibs_key_list list = {0};
    (void)input;
    dibs_status s = dibs__keys_load(c->d, c->a, &list, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_karray(w, "keys");
    for (size_t i = 0; i < list.count; i++)
        enc_api_key(w, &list.items[i]);
    jw_array_end(w);
    return DIBS_OK;
}

struct id_in {
    const char *id;
};
const struct api_shape api_in_key_revoke = SHAPE_ID_ONLY(struct id_in, id);

dibs_status api_key_revoke(struct api_ctx *c, const void *input)
{
    const struct id_in *in = input;
    struct dibs_key_row key = {0};
    dibs_status s = dibs__key_revoke(c->d, c->a, in->id, &key, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_key(w, "key");
    enc_api_key(w, &key);
    return DIBS_OK;
}
