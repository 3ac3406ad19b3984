/* SPDX-License-Identifier: MIT */
/*
 * api_inbox.c: messages from outside: put in, list, claim, and the four things that can become of
 * one (read, answered, made a task, given back).
 */
#include "api_internal.h"
#include "core/poll.h"

/* ---- the shape of a message ------------------------------------------------------------------ */

static void message_origin(struct jw *w, const struct dibs_message *m)
{
    jw_ktext(w, "content", m->content);
    jw_ktext_opt(w, "channel", m->channel);
    jw_ktext_opt(w, "thread", m->thread);
    jw_ktext_opt(w, "user", m->user);
    jw_ktext_opt(w, "matchedText", m->matched_text);
    jw_kraw_opt(w, "metadata", m->metadata);
}

void enc_message(struct jw *w, const struct dibs_message *m)
{
    jw_object(w);
    jw_ktext(w, "id", m->id);
    jw_ktext(w, "project", m->project);
    jw_ktext(w, "agentId", m->agent_id);
    jw_ktext(w, "source", m->source);
    jw_ktext(w, "status", dibs_inbox_status_name(m->status));
    message_origin(w, m);
    jw_ktext_opt(w, "responseText", m->response);
    jw_ktext_opt(w, "delegatedToTaskId", m->task_id);
    jw_ktime(w, "createdAt", m->created_at_ms);
    jw_ktime(w, "lastUpdatedAt", m->updated_at_ms);
    if (m->claim != NULL)
        enc_lease(w, m->claim);
    jw_object_end(w);
}

void enc_messages(struct jw *w, const struct dibs_message_list *list)
{
    jw_karray(w, "messages");
    for (size_t i = 0; i < list->count; i++)
        enc_message(w, &list->items[i]);
    jw_array_end(w);
}

static void reply_message(struct api_ctx *c, struct dibs_message *m)
{
    identity_trim_message(c, m);
    struct jw *w = api_reply(c);
    jw_key(w, "message");
    enc_message(w, m);
}

/* ---- putting in ------------------------------------------------------------------------------ */

#define IN struct dibs_message_new
static const struct field add_fields[] = {
    FIELD("id", ID, id, .doc = "Chosen by the caller; otherwise the next number"),
    FIELD("project", TEXT, project, .max = WORD_BYTES_MAX,
          .doc = "Project it belongs to, which is the agent's if one is named; otherwise 'default' "
                 "if not given"),
    FIELD("agentId", ID, agent_id,
          .doc = "Whose inbox; not given: that of whichever lead of the project asks first"),
    FIELD("source", TEXT, source, .max = WORD_BYTES_MAX,
          .doc = "Where it comes from; 'api' if not given"),
    FIELD("content", TEXT, content, .flags = FIELD_REQUIRED, .max = DESCRIPTION_BYTES_MAX,
          .doc = "The text"),
    FIELD("channel", TEXT, channel, .max = KEY_BYTES_MAX, .doc = "Channel there"),
    FIELD("thread", TEXT, thread, .max = KEY_BYTES_MAX, .doc = "Thread there"),
    FIELD("user", TEXT, user, .max = KEY_BYTES_MAX, .doc = "Who wrote it"),
    FIELD("matchedText", TEXT, matched_text, .max = TITLE_BYTES_MAX,
          .doc = "What in it made it a message for us"),
    FIELD("metadata", JSON, metadata, .doc = "Whatever the caller likes"),
};
#undef IN
const struct api_shape api_in_inbox_add =
    SHAPE(struct dibs_message_new, add_fields, .id_at = SHAPE_NO_ID);

dibs_status api_inbox_add(struct api_ctx *c, const void *input)
{
    struct dibs_message message = {0};
    dibs_status s = dibs_inbox_add(c->d, c->a, input, &message, c->err);
    if (s != DIBS_OK)
        return s;
    c->http = 201;
    reply_message(c, &message);
    return DIBS_OK;
}

/* ---- looking --------------------------------------------------------------------------------- */

/* One more than the status: nothing given is none of them. */
static const struct field_word status_words[] = {
    {"unread", DIBS_INBOX_UNREAD + 1},       {"processing", DIBS_INBOX_PROCESSING + 1},
    {"read", DIBS_INBOX_READ + 1},           {"responded", DIBS_INBOX_RESPONDED + 1},
    {"delegated", DIBS_INBOX_DELEGATED + 1}, {NULL, 0},
};

struct list_in {
    struct dibs_inbox_filter filter;
    int status;
};
#define IN struct list_in
static const struct field list_fields[] = {
    FIELD("agentId", ID, filter.agent_id, .doc = "Messages for this agent by name"),
    FIELD("status", ENUM, status, .words = status_words, .doc = "Messages of this status"),
    FIELD("source", TEXT, filter.source, .max = WORD_BYTES_MAX, .doc = "Messages from there"),
    FIELD("project", TEXT, filter.project, .max = WORD_BYTES_MAX,
          .doc = "Messages of this project"),
    FIELD("cursor", TEXT, filter.cursor, .doc = "nextCursor of the page before"),
    FIELD("limit", INT, filter.limit, .min = 1, .max = PAGE_MAX,
          .doc = "Messages per page, 100 if not given"),
};
#undef IN
const struct api_shape api_in_inbox_list = SHAPE(struct list_in, list_fields, .id_at = SHAPE_NO_ID);

dibs_status api_inbox_list(struct api_ctx *c, const void *input)
{
    const struct list_in *in = input;
    struct dibs_inbox_filter filter = in->filter;
    struct dibs_message_list list = {0};
    if (in->status != 0)
        filter.status = DIBS_VALUE(in->status - 1);
    dibs_status s = dibs_inbox_list(c->d, c->a, &filter, &list, c->err);
    if (s != DIBS_OK)
        return s;
    for (size_t i = 0; i < list.count; i++)
        identity_trim_message(c, &list.items[i]);
    struct jw *w = api_reply(c);
    enc_messages(w, &list);
    jw_ktext_opt(w, "nextCursor", list.next_cursor);
    return DIBS_OK;
}

struct id_in {
    const char *id;
};
const struct api_shape api_in_inbox_get = SHAPE_ID_ONLY(struct id_in, id);

dibs_status api_inbox_get(struct api_ctx *c, const void *input)
{
    const struct id_in *in = input;
    struct dibs_message message = {0};
    dibs_status s = dibs_inbox_get(c->d, c->a, in->id, &message, c->err);
    if (s == DIBS_OK)
        reply_message(c, &message);
    return s;
}

/* ---- claiming -------------------------------------------------------------------------------- */

#define IN struct dibs_inbox_claim
static const struct field claim_fields[] = {
    FIELD("agentId", ID, agent_id, .flags = FIELD_REQUIRED,
          .doc = "Its messages, and those for leads if it is one"),
    FIELD("sessionId", ID, session_id, .flags = FIELD_REQUIRED | FIELD_ACTS,
          .doc = "A session of the agent, which holds them then"),
    FIELD("count", INT, count, .min = 1, .max = CLAIM_COUNT_MAX,
          .doc = "Up to so many, oldest first; 5 if not given"),
    FIELD("ttlMs", INT, ttl_ms, .min = 1, .doc = "Lease; the store's setting if not given"),
};
#undef IN
const struct api_shape api_in_inbox_claim =
    SHAPE(struct dibs_inbox_claim, claim_fields, .id_at = SHAPE_NO_ID);

dibs_status api_inbox_claim(struct api_ctx *c, const void *input)
{
    struct dibs_message_list list = {0};
    dibs_status s = dibs__inbox_claim(c->d, c->a, input, c->who->project, &list, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_kint(w, "count", (int64_t)list.count);
    enc_messages(w, &list);
    return DIBS_OK;
}

/* ---- answering ------------------------------------------------------------------------------- */

#define ANSWERER                                                                                   \
    FIELD("sessionId", ID, session_id, .flags = FIELD_ACTS,                                        \
          .doc = "Who answers; the holder, when somebody holds it"),                               \
        FIELD_TOKEN

#define IN struct dibs_inbox_answer
static const struct field read_fields[] = {ANSWERER};
static const struct field respond_fields[] = {
    ANSWERER,
    FIELD("text", TEXT, response, .flags = FIELD_REQUIRED, .max = DESCRIPTION_BYTES_MAX,
          .doc = "The answer; it is sent to the source if that takes answers"),
};
static const struct field delegate_fields[] = {
    ANSWERER,
    FIELD("taskId", ID, task_id, .flags = FIELD_IDS,
          .doc = "The task that deals with it, when there is one"),
    FIELD("task", OBJECT, task, .of = &api_in_task_create,
          .doc = "Otherwise the task to make, in the project of the message if it names none"),
};
#undef IN
#define ANSWER_SHAPE(table)                                                                        \
    SHAPE(struct dibs_inbox_answer, table, .id_at = offsetof(struct dibs_inbox_answer, id))
const struct api_shape api_in_inbox_read = ANSWER_SHAPE(read_fields);
const struct api_shape api_in_inbox_respond = ANSWER_SHAPE(respond_fields);
const struct api_shape api_in_inbox_delegate = ANSWER_SHAPE(delegate_fields);
const struct api_shape api_in_inbox_release = ANSWER_SHAPE(read_fields);

typedef dibs_status answer_call(dibs *d, dibs_arena *a, const struct dibs_inbox_answer *in,
                                struct dibs_message *out, struct dibs_error *err);

static dibs_status answer(struct api_ctx *c, const void *input, answer_call *call)
{
    struct dibs_message message = {0};
    dibs_status s = call(c->d, c->a, input, &message, c->err);
    if (s == DIBS_OK)
        reply_message(c, &message);
    return s;
}

dibs_status api_inbox_read(struct api_ctx *c, const void *input)
{
    return answer(c, input, dibs_inbox_read);
}

dibs_status api_inbox_respond(struct api_ctx *c, const void *input)
{
    return answer(c, input, dibs_inbox_respond);
}

dibs_status api_inbox_release(struct api_ctx *c, const void *input)
{
    return answer(c, input, dibs_inbox_release);
}

/* The message and its task as they are in one moment. Of a task that it became before and that the
 * caller may not see, not even a right guess is confirmed. */
static dibs_status delegate(struct api_ctx *c, const void *input, struct dibs_message *message,
                            struct dibs_task *task)
{
    dibs_status s = dibs_inbox_delegate(c->d, c->a, input, message, c->err);
    if (s != DIBS_OK)
        return s;
    identity_trim_message(c, message);
    if (message->task_id == NULL)
        return error_set(c->err, DIBS_ALREADY_ANSWERED, "message '%s' is %s already", message->id,
                         dibs_inbox_status_name(message->status));
    return dibs_task_get(c->d, c->a, message->task_id, task, c->err);
}

dibs_status api_inbox_delegate(struct api_ctx *c, const void *input)
{
    struct dibs_message message = {0};
    struct dibs_task task = {0};
    dibs_status s = api_begin(c);
    if (s != DIBS_OK)
        return s;
    s = delegate(c, input, &message, &task);
    if (s != DIBS_OK)
        return api_settle(c, s); /* a lease that was found past its deadline stays ended */
    s = api_commit(c);
    if (s != DIBS_OK)
        return s;
    reply_message(c, &message);
    jw_key(&c->w, "task");
    enc_task(&c->w, &task);
    return DIBS_OK;
}
