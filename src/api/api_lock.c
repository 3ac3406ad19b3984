/* SPDX-License-Identifier: MIT */
/*
 * api_lock.c: named locks. A lock may name a path, so its resource travels in the body or the
 * query, never in the path of the request.
 */
#include "api_internal.h"

enum { MODE_EXCLUSIVE, MODE_SHARED };
static const struct field_word mode_words[] = {
    {"exclusive", MODE_EXCLUSIVE},
    {"shared", MODE_SHARED},
    {NULL, 0},
};

struct take_in {
    struct dibs_lock_take take;
    int mode;
};
#define FIELD_RESOURCE(member)                                                                     \
    FIELD("resource", TEXT, member, .flags = FIELD_REQUIRED, .max = RESOURCE_BYTES_MAX,            \
          .doc = "Name of the lock, any text")

#define IN struct take_in
static const struct field take_fields[] = {
    FIELD_RESOURCE(take.resource),
    FIELD("sessionId", ID, take.session_id, .flags = FIELD_REQUIRED | FIELD_ACTS,
          .doc = "The session that takes it"),
    FIELD("mode", ENUM, mode, .words = mode_words,
          .doc = "exclusive (standard), or shared with other shared holders"),
    FIELD("ttlMs", INT, take.ttl_ms, .min = 1, .doc = "How long it is held without a heartbeat"),
    FIELD("waitMs", INT, take.wait_ms, .max = WAIT_MS_MAX,
          .doc = "How long to wait for it, in the order of arrival; not with an Idempotency-Key"),
};
#undef IN
const struct api_shape api_in_lock_take = SHAPE(struct take_in, take_fields, .id_at = SHAPE_NO_ID);

static dibs_status reply_lock(struct api_ctx *c, const struct dibs_claim *lock)
{
    struct jw *w = api_reply(c);
    jw_key(w, "lock");
    enc_lock(w, lock);
    return DIBS_OK;
}

dibs_status api_lock_take(struct api_ctx *c, const void *input)
{
    const struct take_in *in = input;
    struct dibs_lock_take take = in->take;
    struct dibs_claim lock = {0};
    take.shared = in->mode == MODE_SHARED;
    if (c->in_once && take.wait_ms > 0)
        return api_refuse_wait(c, "waitMs");
    dibs_status s = dibs_lock_take(c->d, c->a, &take, &lock, c->err);
    if (s == DIBS_LOCK_HELD)
        c->wait_ms = take.wait_ms;
    return s == DIBS_OK ? reply_lock(c, &lock) : s;
}

#define IN struct dibs_lock_ref
static const struct field heartbeat_fields[] = {
    FIELD_RESOURCE(resource),
    FIELD_SESSION,
    FIELD_TOKEN,
    FIELD("extendMs", INT, extend_ms, .min = 1,
          .doc = "New lease from now on; its ttl if not given"),
};
static const struct field release_fields[] = {
    FIELD_RESOURCE(resource),
    FIELD_SESSION,
    FIELD_TOKEN,
};
#undef IN
const struct api_shape api_in_lock_heartbeat =
    SHAPE(struct dibs_lock_ref, heartbeat_fields, .id_at = SHAPE_NO_ID);
const struct api_shape api_in_lock_release =
    SHAPE(struct dibs_lock_ref, release_fields, .id_at = SHAPE_NO_ID);

dibs_status api_lock_heartbeat(struct api_ctx *c, const void *input)
{
    struct dibs_claim lock = {0};
    dibs_status s = dibs_lock_heartbeat(c->d, c->a, input, &lock, c->err);
    return s == DIBS_OK ? reply_lock(c, &lock) : s;
}

dibs_status api_lock_release(struct api_ctx *c, const void *input)
{
    struct dibs_claim lock = {0};
    dibs_status s = dibs_lock_release(c->d, c->a, input, &lock, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_kobject(w, "released");
    jw_ktext(w, "resource", lock.resource);
    jw_ktext(w, "mode", lock.shared ? "shared" : "exclusive");
    jw_ktext(w, "sessionId", lock.session_id);
    jw_kint(w, "token", lock.token);
    jw_kint(w, "heldMs", lock.held_ms);
    jw_object_end(w);
    return DIBS_OK;
}

#define IN struct dibs_lock_filter
static const struct field list_fields[] = {
    FIELD("resource", TEXT, resource, .max = RESOURCE_BYTES_MAX, .doc = "This lock only"),
    FIELD("sessionId", ID, session_id, .doc = "Locks of this session"),
};
#undef IN
const struct api_shape api_in_lock_list =
    SHAPE(struct dibs_lock_filter, list_fields, .id_at = SHAPE_NO_ID);

dibs_status api_lock_list(struct api_ctx *c, const void *input)
{
    struct dibs_claim_list list = {0};
    dibs_status s = dibs_lock_list(c->d, c->a, input, &list, c->err);
    if (s != DIBS_OK)
        return s;
    enc_claims(api_reply(c), "locks", &list);
    return DIBS_OK;
}
