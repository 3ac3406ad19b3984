/* SPDX-License-Identifier: MIT */
/*
 * hook_slack.c: what a delivery of Slack's Events API says.
 *
 *     url_verification -> the challenge goes back
 *     event_callback   -> app_mention, message: a message of the inbox; all else is ignored
 *
 *   1. What bots write is ignored, above all what we write ourselves, and so is what is no new
 *      text: edits, deletions, people who join.
 *   2. The thread key is thread_ts, or ts of a message that may begin a thread: the answer to it
 *      does.
 *   3. A message that mentions the bot is told twice where the app listens to messages as well;
 *      both have the same channel and ts, which is the subject of the delivery.
 *
 * content is the text with Slack's &amp; &lt; &gt; decoded, without the mention of the bot at its
 * beginning; that mention, as it was written, is matchedText.
 */
#include "hook_text.h"

#include "base/str.h"

static dibs_status refuse(struct dibs_error *err, const char *what)
{
    return error_set(err, DIBS_INVALID_REQUEST, "the delivery is not one of Slack's: %s", what);
}

static dibs_status ignore(struct hook_event *out, const char *why)
{
    out->kind = HOOK_IGNORED;
    out->why = why;
    return DIBS_OK;
}

/* ---- what is not for us ---------------------------------------------------------------------- */

/* is_our_user: one of the users that the app is in this workspace. */
static bool is_our_user(const json_t *root, const char *id, size_t bytes)
{
    const json_t *all = json_object_get(root, "authorizations");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        const char *ours = json_string_value(json_object_get(one, "user_id"));
        if (ours != NULL && strlen(ours) == bytes && memcmp(ours, id, bytes) == 0 &&
            json_is_true(json_object_get(one, "is_bot")))
            return true;
    }
    return false;
}

/* is_new_text: subtypes that are messages like others; the rest tells of changes and of bots. */
static bool is_new_text(const char *subtype)
{
    static const char *const texts[] = {"file_share", "thread_broadcast", "me_message"};
    if (subtype == NULL)
        return true;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (str_eq(texts[i], subtype))
            return true;
    return false;
}

static const char *why_not(const json_t *root, const json_t *event)
{
    const char *type = hook_at(event, "type"), *user = hook_at(event, "user");
    if (!str_eq(type, "app_mention") && !str_eq(type, "message"))
        return "an event of another kind";
    if (str_eq(hook_at(event, "subtype"), "bot_message") ||
        json_is_string(json_object_get(event, "bot_id")) ||
        json_is_object(json_object_get(event, "bot_profile")))
        return "written by a bot";
    if (user != NULL && is_our_user(root, user, strlen(user)))
        return "written by this app";
    if (!is_new_text(hook_at(event, "subtype")) || json_is_true(json_object_get(event, "hidden")) ||
        json_is_object(json_object_get(event, "edited")))
        return "no new message";
    return NULL;
}

/* ---- the text -------------------------------------------------------------------------------- */

/* decode: Slack writes & < > of the text as entities, and nothing else. */
static void decode(struct buf *out, const char *text)
{
    static const struct {
        const char *entity;
        char c;
    } entities[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}};
    while (*text != '\0') {
        size_t plain = strcspn(text, "&"), i = 0;
        buf_append(out, text, plain);
        text += plain;
        if (*text == '\0')
            return;
        while (i < COUNT_OF(entities) && !str_starts(text, entities[i].entity))
            i++;
        buf_char(out, i < COUNT_OF(entities) ? entities[i].c : '&');
        text += i < COUNT_OF(entities) ? strlen(entities[i].entity) : 1;
    }
}

/* mention_bytes: how much of the text is the mention of the bot it begins with, as <@U061F7AUR> or
 * <@U061F7AUR|name>; 0: it begins with none. */
static size_t mention_bytes(const json_t *root, const json_t *event, const char *text)
{
    if (text[0] != '<' || text[1] != '@')
        return 0;
    size_t id = strcspn(text + 2, "|>"), end = strcspn(text, ">");
    if (text[end] != '>')
        return 0;
    bool told = json_array_size(json_object_get(root, "authorizations")) > 0;
    bool ours =
        told ? is_our_user(root, text + 2, id) : str_eq(hook_at(event, "type"), "app_mention");
    return ours ? end + 1 : 0;
}

static void add_files(struct buf *out, const json_t *files)
{
    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *file = json_array_get(files, i);
        const char *name = hook_at(file, "name"), *link = hook_at(file, "permalink");
        buf_printf(out, "%s[file: %s%s%s]", out->len > 0 ? "\n" : "", name != NULL ? name : "?",
                   link != NULL ? " " : "", link != NULL ? link : "");
    }
}

/* read_text: false when there is nothing to read. */
static bool read_text(struct hook_reader *r, const json_t *event, struct dibs_message_new *out)
{
    static const char blanks[] = " \t\r\n";
    const char *text = hook_at(event, "text");
    struct buf b;
    text = text != NULL ? text : "";
    text += strspn(text, blanks);
    size_t mention = mention_bytes(r->root, event, text);
    buf_init(&b, BODY_BYTES_MAX * 2);
    if (mention > 0) {
        buf_append(&b, text, mention);
        out->matched_text = hook_take(r, &b, TITLE_BYTES_MAX);
        buf_init(&b, BODY_BYTES_MAX * 2);
    }
    const char *rest = text + mention + strspn(text + mention, blanks);
    decode(&b, rest);
    add_files(&b, json_object_get(event, "files"));
    if (b.len == 0 && mention > 0) /* the mention is all there is */
        buf_append(&b, text, mention);
    bool any = b.len > 0 || !buf_ok(&b);
    out->content = hook_take(r, &b, DESCRIPTION_BYTES_MAX);
    return any;
}

/* ---- the message ----------------------------------------------------------------------------- */

static const char *metadata(struct hook_reader *r, const json_t *event)
{
    struct buf b;
    struct jw w;
    buf_init(&b, JSON_VALUE_BYTES_MAX);
    jw_init(&w, &b);
    jw_object(&w);
    jw_ktext_opt(&w, "teamId", hook_copy(r, hook_at(r->root, "team_id"), KEY_BYTES_MAX));
    jw_ktext_opt(&w, "eventId", hook_copy(r, hook_at(r->root, "event_id"), KEY_BYTES_MAX));
    jw_ktext_opt(&w, "eventType", hook_copy(r, hook_at(event, "type"), KEY_BYTES_MAX));
    jw_ktext_opt(&w, "channelType", hook_copy(r, hook_at(event, "channel_type"), KEY_BYTES_MAX));
    jw_ktext_opt(&w, "ts", hook_copy(r, hook_at(event, "ts"), KEY_BYTES_MAX));
    jw_object_end(&w);
    return hook_take(r, &b, JSON_VALUE_BYTES_MAX);
}

static dibs_status read_event(struct hook_reader *r, struct hook_event *out, struct dibs_error *err)
{
    const json_t *event = json_object_get(r->root, "event");
    const char *id = hook_at(r->root, "event_id"), *channel = hook_at(event, "channel");
    const char *ts = hook_at(event, "ts"), *thread = hook_at(event, "thread_ts");
    if (!json_is_object(event) || id == NULL || hook_at(event, "type") == NULL)
        return refuse(err, "an event_callback has event_id and event");
    const char *why = why_not(r->root, event);
    if (why != NULL)
        return ignore(out, why);
    if (channel == NULL || ts == NULL)
        return refuse(err, "a message has channel and ts");
    if (strlen(id) > ID_BYTES_MAX || strlen(channel) > WORD_BYTES_MAX || strlen(ts) > 64)
        return refuse(err, "an id is too long");
    out->message = (struct dibs_message_new){
        .project = hook_setting(r, r->set->project),
        .agent_id = hook_setting(r, r->set->agent),
        .source = "slack",
        .channel = hook_copy(r, channel, KEY_BYTES_MAX),
        .thread = hook_copy(r, thread != NULL ? thread : ts, KEY_BYTES_MAX),
        .user = hook_copy(r, hook_at(event, "user"), KEY_BYTES_MAX),
        .metadata = metadata(r, event),
    };
    if (!read_text(r, event, &out->message))
        return ignore(out, "no text");
    out->kind = HOOK_MESSAGE;
    out->id = hook_copy(r, id, KEY_BYTES_MAX);
    out->subject = hook_printf(r, "%s:%s", channel, ts);
    return DIBS_OK;
}

dibs_status hook_slack_read(dibs_arena *a, const struct dibs_hook_settings *set,
                            struct hook_body body, struct hook_event *out, struct dibs_error *err)
{
    struct hook_reader r = {.a = a, .set = set};
    *out = (struct hook_event){0};
    dibs_status status = json_read(body.bytes, body.count, &r.root, err);
    if (status != DIBS_OK)
        return status;
    const char *type = hook_at(r.root, "type"), *challenge = hook_at(r.root, "challenge");
    if (type == NULL) {
        status = refuse(err, "it has no type");
    } else if (str_eq(type, "event_callback")) {
        status = read_event(&r, out, err);
    } else if (!str_eq(type, "url_verification")) {
        status = ignore(out, "a delivery of another kind");
    } else if (challenge == NULL) {
        status = refuse(err, "a url_verification has a challenge");
    } else {
        out->kind = HOOK_CHALLENGE;
        out->challenge = hook_copy(&r, challenge, DESCRIPTION_BYTES_MAX);
    }
    return hook_end(&r, status, err);
}
