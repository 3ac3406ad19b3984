/* SPDX-License-Identifier: MIT */
/*
 * api_move.c: moves by people and planners: block, cancel, reopen, offer, assign ...
 *
 * They differ in the fields they take and in the function of the library behind them; each answers
 * with the task as it is afterwards.
 */
#include "api_internal.h"

typedef dibs_status move_function(dibs *d, dibs_arena *a, const struct dibs_move *in,
                                  struct dibs_task *out, struct dibs_error *err);

#define IN struct dibs_move
#define FIELD_REASON                                                                               \
    FIELD("reason", TEXT, reason, .max = MESSAGE_BYTES_MAX, .doc = "Why; shown in the history")
#define FIELD_AGENT FIELD("agentId", ID, agent_id, .flags = FIELD_REQUIRED, .doc = "The agent")

static const struct field block_fields[] = {
    FIELD_REASON,
    FIELD("sessionId", ID, session_id, .flags = FIELD_ACTS,
          .doc = "Given, it must be the session that holds the task"),
};
static const struct field reason_fields[] = {FIELD_REASON};
static const struct field agent_fields[] = {FIELD_AGENT};
static const struct field agent_reason_fields[] = {FIELD_AGENT, FIELD_REASON};
#undef IN

#define MOVE_SHAPE(table)                                                                          \
    SHAPE(struct dibs_move, table, .id_at = offsetof(struct dibs_move, task_id))
const struct api_shape api_in_task_block = MOVE_SHAPE(block_fields);
const struct api_shape api_in_task_unblock = SHAPE_ID_ONLY(struct dibs_move, task_id);
const struct api_shape api_in_task_cancel = MOVE_SHAPE(reason_fields);
const struct api_shape api_in_task_reopen = MOVE_SHAPE(reason_fields);
const struct api_shape api_in_task_offer = MOVE_SHAPE(agent_fields);
const struct api_shape api_in_task_accept = MOVE_SHAPE(agent_fields);
const struct api_shape api_in_task_reject = MOVE_SHAPE(agent_reason_fields);
const struct api_shape api_in_task_assign = MOVE_SHAPE(agent_fields);

static dibs_status move(struct api_ctx *c, move_function *make, const void *input)
{
    struct dibs_task task = {0};
    dibs_status s = make(c->d, c->a, input, &task, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_key(w, "task");
    enc_task(w, &task);
    return DIBS_OK;
}

dibs_status api_task_block(struct api_ctx *c, const void *input)
{
    return move(c, dibs_task_block, input);
}

dibs_status api_task_unblock(struct api_ctx *c, const void *input)
{
    return move(c, dibs_task_unblock, input);
}

dibs_status api_task_cancel(struct api_ctx *c, const void *input)
{
    return move(c, dibs_task_cancel, input);
}

dibs_status api_task_reopen(struct api_ctx *c, const void *input)
{
    return move(c, dibs_task_reopen, input);
}

dibs_status api_task_offer(struct api_ctx *c, const void *input)
{
    return move(c, dibs_task_offer, input);
}

dibs_status api_task_accept(struct api_ctx *c, const void *input)
{
    return move(c, dibs_task_accept, input);
}

dibs_status api_task_reject(struct api_ctx *c, const void *input)
{
    return move(c, dibs_task_reject, input);
}

dibs_status api_task_assign(struct api_ctx *c, const void *input)
{
    return move(c, dibs_task_assign, input);
}
