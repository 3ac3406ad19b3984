/* SPDX-License-Identifier: MIT */
/*
 * api_channel.c: channels, the messages in them, and the mentions of agents.
 *
 * Reading as an agent is a POST: it marks what it answers with as read. The other way to look at a
 * channel, GET, marks nothing.
 */
#include "api_internal.h"
#include "core/poll.h"

/* ---- shapes of answers ----------------------------------------------------------------------- */

static void enc_channel(struct jw *w, const struct dibs_channel *c)
{
    jw_object(w);
    jw_ktext(w, "id", c->id);
    jw_ktext(w, "project", c->project);
    jw_ktext_opt(w, "description", c->description);
    jw_kint(w, "messages", c->messages);
    jw_ktime(w, "createdAt", c->created_at_ms);
    jw_object_end(w);
}

static void enc_post(struct jw *w, const struct dibs_post *p)
{
    jw_object(w);
    jw_ktext(w, "id", p->id);
    jw_ktext(w, "channelId", p->channel_id);
    jw_ktext(w, "author", p->author);
    jw_ktext(w, "content", p->content);
    jw_ktext_opt(w, "replyTo", p->reply_to);
    jw_kstrings(w, "mentions", p->mentions);
    jw_ktime(w, "createdAt", p->created_at_ms);
    jw_object_end(w);
}

static dibs_status reply_posts(struct api_ctx *c, const struct dibs_post_list *list)
{
    struct jw *w = api_reply(c);
    jw_karray(w, "messages");
    for (size_t i = 0; i < list->count; i++)
        enc_post(w, &list->items[i]);
    jw_array_end(w);
    jw_ktext_opt(w, "nextCursor", list->next_cursor);
    return DIBS_OK;
}

static void enc_mentions(struct jw *w, const struct dibs_mentions *m)
{
    jw_object(w);
    jw_ktext(w, "channelId", m->channel_id);
    jw_kint(w, "count", m->count);
    enc_lease(w, &m->claim);
    jw_object_end(w);
}

void enc_mentions_fields(struct jw *w, const struct dibs_mentions_list *list)
{
    jw_kint(w, "mentionsCount", list->mentions);
    jw_karray(w, "claimedChannels");
    for (size_t i = 0; i < list->count; i++)
        jw_text(w, list->items[i].channel_id);
    jw_array_end(w);
    jw_karray(w, "channels");
    for (size_t i = 0; i < list->count; i++)
        enc_mentions(w, &list->items[i]);
    jw_array_end(w);
}

/* ---- channels -------------------------------------------------------------------------------- */

#define IN struct dibs_channel_new
static const struct field create_fields[] = {
    FIELD("id", ID, id, .flags = FIELD_REQUIRED, .doc = "Its name, and its id"),
    FIELD("project", TEXT, project, .max = WORD_BYTES_MAX,
          .doc = "Project of the channel, and of the agents that can be mentioned in it; "
                 "default if not given"),
    FIELD("description", TEXT, description, .max = DESCRIPTION_BYTES_MAX,
          .doc = "What it is for; of a channel that is there already it is left as it is"),
};
#undef IN
const struct api_shape api_in_channel_create =
    SHAPE(struct dibs_channel_new, create_fields, .id_at = SHAPE_NO_ID);

dibs_status api_channel_create(struct api_ctx *c, const void *input)
{
    struct dibs_channel channel = {0};
    dibs_status s = dibs_channel_create(c->d, c->a, input, &channel, c->err);
    if (s != DIBS_OK)
        return s;
    c->http = channel.created ? 201 : 200;
    struct jw *w = api_reply(c);
    jw_key(w, "channel");
    enc_channel(w, &channel);
    return DIBS_OK;
}

struct list_in {
    const char *project;
};
#define IN struct list_in
static const struct field list_fields[] = {
    FIELD("project", TEXT, project, .max = WORD_BYTES_MAX, .doc = "Channels of this project"),
};
#undef IN
const struct api_shape api_in_channel_list =
    SHAPE(struct list_in, list_fields, .id_at = SHAPE_NO_ID);

dibs_status api_channel_list(struct api_ctx *c, const void *input)
{
    const struct list_in *in = input;
    struct dibs_channel_list list = {0};
    dibs_status s = dibs_channel_list(c->d, c->a, in->project, &list, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_karray(w, "channels");
    for (size_t i = 0; i < list.count; i++)
        enc_channel(w, &list.items[i]);
    jw_array_end(w);
    return DIBS_OK;
}

/* ---- messages -------------------------------------------------------------------------------- */

#define IN struct dibs_post_new
static const struct field post_fields[] = {
    FIELD("author", TEXT, author, .flags = FIELD_REQUIRED, .max = WORD_BYTES_MAX,
          .doc = "Who says it: the id of an agent, or any other name"),
    FIELD("content", TEXT, content, .flags = FIELD_REQUIRED, .max = DESCRIPTION_BYTES_MAX,
          .doc = "The text; @name mentions the agent of exactly that name"),
    FIELD("replyTo", ID, reply_to, .doc = "The message in the same channel that it answers"),
};
#undef IN
const struct api_shape api_in_channel_post =
    SHAPE(struct dibs_post_new, post_fields, .id_at = offsetof(struct dibs_post_new, channel_id));

dibs_status api_channel_post(struct api_ctx *c, const void *input)
{
    struct dibs_post made = {0};
    dibs_status s = dibs_channel_post(c->d, c->a, input, &made, c->err);
    if (s != DIBS_OK)
        return s;
    c->http = 201;
    struct jw *w = api_reply(c);
    jw_key(w, "message");
    enc_post(w, &made);
    return DIBS_OK;
}

#define IN struct dibs_post_filter
static const struct field messages_fields[] = {
    FIELD("cursor", TEXT, cursor, .max = ID_BYTES_MAX, .doc = "nextCursor of the page before"),
    FIELD("limit", INT, limit, .min = 1, .max = PAGE_MAX,
          .doc = "At most so many messages; 100 if not given"),
};
#undef IN
const struct api_shape api_in_channel_messages =
    SHAPE(struct dibs_post_filter, messages_fields,
          .id_at = offsetof(struct dibs_post_filter, channel_id));

dibs_status api_channel_messages(struct api_ctx *c, const void *input)
{
    struct dibs_post_list list = {0};
    dibs_status s = dibs_channel_messages(c->d, c->a, input, &list, c->err);
    return s == DIBS_OK ? reply_posts(c, &list) : s;
}

#define IN struct dibs_channel_read
static const struct field read_fields[] = {
    FIELD("agentId", ID, agent_id, .flags = FIELD_REQUIRED, .doc = "The agent that reads"),
    FIELD("sessionId", ID, session_id, .flags = FIELD_ACTS,
          .doc = "Its session; required while one has claimed the agent's mentions there"),
    FIELD("limit", INT, limit, .min = 1, .max = PAGE_MAX,
          .doc = "At most so many messages, which then are read; 100 if not given"),
};
#undef IN
const struct api_shape api_in_channel_read = SHAPE(
    struct dibs_channel_read, read_fields, .id_at = offsetof(struct dibs_channel_read, channel_id));

dibs_status api_channel_read(struct api_ctx *c, const void *input)
{
    struct dibs_post_list list = {0};
    dibs_status s = dibs_channel_read(c->d, c->a, input, &list, c->err);
    return s == DIBS_OK ? reply_posts(c, &list) : s;
}

/* ---- mentions -------------------------------------------------------------------------------- */

#define IN struct dibs_mentions_claim
static const struct field claim_fields[] = {
    FIELD("agentId", ID, agent_id, .flags = FIELD_REQUIRED, .doc = "The agent that is mentioned"),
    FIELD("sessionId", ID, session_id, .flags = FIELD_REQUIRED | FIELD_ACTS,
          .doc = "The session of the agent that will see to them"),
    FIELD("ttlMs", INT, ttl_ms, .min = 1, .doc = "How long they are held without a heartbeat"),
};
#undef IN
const struct api_shape api_in_mentions_claim =
    SHAPE(struct dibs_mentions_claim, claim_fields, .id_at = SHAPE_NO_ID);

dibs_status api_mentions_claim(struct api_ctx *c, const void *input)
{
    struct dibs_mentions_list list = {0};
    dibs_status s = dibs__mentions_claim(c->d, c->a, input, c->who->project, &list, c->err);
    if (s != DIBS_OK)
        return s;
    enc_mentions_fields(api_reply(c), &list);
    return DIBS_OK;
}

#define IN struct dibs_mentions_release
static const struct field release_fields[] = {
    FIELD("agentId", ID, agent_id, .flags = FIELD_REQUIRED, .doc = "The agent that is mentioned"),
    FIELD_SESSION,
    FIELD("channelIds", STRINGS, channel_ids, .flags = FIELD_REF, .max = PAGE_MAX,
          .doc = "In these channels; wherever the session has claimed them if not given"),
    FIELD("read", BOOL, read,
          .doc = "true: what was there when they were claimed is read; else it is unread again"),
};
#undef IN
const struct api_shape api_in_mentions_release =
    SHAPE(struct dibs_mentions_release, release_fields, .id_at = SHAPE_NO_ID);

dibs_status api_mentions_release(struct api_ctx *c, const void *input)
{
    int64_t released = 0;
    dibs_status s = dibs_mentions_release(c->d, c->a, input, &released, c->err);
    if (s != DIBS_OK)
        return s;
    jw_kint(api_reply(c), "released", released);
    return DIBS_OK;
}
