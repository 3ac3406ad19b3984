/* SPDX-License-Identifier: MIT */
/*
 * api_notice.c: a lead says that it knows of finished tasks, or wants them told again. It is told
 * of them by a poll.
 */
#include "api_internal.h"

#define IN struct dibs_notices_ack
static const struct field ack_fields[] = {
    FIELD("sessionId", ID, session_id, .flags = FIELD_REQUIRED | FIELD_ACTS,
          .doc = "The session that was told of them"),
    FIELD("taskIds", STRINGS, task_ids, .flags = FIELD_IDS, .max = PAGE_MAX,
          .doc = "These tasks; all that it was told of if not given"),
};
#undef IN
const struct api_shape api_in_notices_ack =
    SHAPE(struct dibs_notices_ack, ack_fields, .id_at = SHAPE_NO_ID);
const struct api_shape api_in_notices_release =
    SHAPE(struct dibs_notices_ack, ack_fields, .id_at = SHAPE_NO_ID);

dibs_status api_notices_ack(struct api_ctx *c, const void *input)
{
    int64_t acked = 0;
    dibs_status s = dibs_notices_ack(c->d, c->a, input, &acked, c->err);
    if (s != DIBS_OK)
        return s;
    jw_kint(api_reply(c), "acked", acked);
    return DIBS_OK;
}

dibs_status api_notices_release(struct api_ctx *c, const void *input)
{
    int64_t released = 0;
    dibs_status s = dibs_notices_release(c->d, c->a, input, &released, c->err);
    if (s != DIBS_OK)
        return s;
    jw_kint(api_reply(c), "released", released);
    return DIBS_OK;
}
