/* SPDX-License-Identifier: MIT */
/*
 * channel.c: channels, and the messages in them.
 *
 * A channel is a name in a project. Messages are numbered across all channels in the order of
 * posting; the number is their id and their place, so a page is "what comes behind this number",
 * and how far an agent has read is one number per channel.
 *
 *  1. Messages are never changed or deleted.
 *  2. A reply names a message of the same channel.
 *  3. Reading as an agent gives what is behind the last it has read, and counts as having read it.
 *
 * Whom a message names, and the claims on that, are in mention.c.
 */
#include "core/channel.h"

#include "core/owner.h"

/* ---- rows ------------------------------------------------------------------------------------ */

#define CHANNEL_COLUMNS "c.key, c.id, c.project, c.description, c.created_at"

static void read_channel(struct tx *tx, struct db_rows *rows, struct channel_row *out)
{
    *out = (struct channel_row){.key = db_int(rows, 0),
                                .id = db_text(rows, 1, tx->a),
                                .project = db_text(rows, 2, tx->a),
                                .description = db_text(rows, 3, tx->a),
                                .created_at = db_int(rows, 4)};
}

static bool find_channel(struct tx *tx, const char *id, struct channel_row *out)
{
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT " CHANNEL_COLUMNS " FROM channel c WHERE c.id = $1"),
                 DB_ARGS(db_t(id)));
    bool found = db_next(rows);
    if (found)
        read_channel(tx, rows, out);
    db_done(rows);
    return found && db_ok(tx->db);
}

dibs_status dibs__channel_load(struct tx *tx, const char *field, const char *id,
                               struct channel_row *out)
{
    dibs_status status = dibs__check_id(tx->err, field, id);
    if (status != DIBS_OK || find_channel(tx, id, out))
        return status;
    status = dibs__store_status(tx);
    if (status != DIBS_OK)
        return status;
    return dibs__refuse(tx, DIBS_CHANNEL_NOT_FOUND, "there is no channel '%s'", id);
}

static void fill_channel(struct tx *tx, const struct channel_row *row, struct dibs_channel *out)
{
    *out = (struct dibs_channel){.id = row->id,
                                 .project = row->project,
                                 .description = row->description,
                                 .created_at_ms = row->created_at};
    out->messages =
        db_value_int(tx->db, 0, SQL("SELECT count(*) FROM channel_message WHERE channel_key = $1"),
                     DB_ARGS(db_i(row->key)));
}

static dibs_status project_tx(struct tx *tx, const void *input, void *output)
{
    struct channel_row row = {0};
    if (find_channel(tx, input, &row))
        *(const char **)output = row.project;
    return dibs__store_status(tx);
}

dibs_status dibs__channel_project(dibs *d, dibs_arena *a, const char *channel_id,
                                  const char **project, struct dibs_error *err)
{
    return dibs__read(d, a, err, project_tx, channel_id, project, sizeof *project);
}

/* ---- making and listing ---------------------------------------------------------------------- */

static dibs_status check_new(struct tx *tx, const struct dibs_channel_new *in)
{
    dibs_status status = dibs__check_id(tx->err, "id", in->id);
    if (status == DIBS_OK && dibs__is_reserved_id(in->id))
        status =
            error_field(tx->err, "id", "'%s' is a word that paths use; choose another", in->id);
    if (status == DIBS_OK)
        status = dibs__check_text(tx->err, "project", in->project, WORD_BYTES_MAX);
    if (status == DIBS_OK)
        status = dibs__check_text(tx->err, "description", in->description, DESCRIPTION_BYTES_MAX);
    return status;
}

static void insert_channel(struct tx *tx, const struct channel_row *row)
{
    db_exec(tx->db,
            SQL("INSERT INTO channel (key, id, project, description, created_at) "
                "VALUES ($1, $2, $3, $4, $5)"),
            DB_ARGS(db_i(row->key), db_t(row->id), db_t(row->project), db_t(row->description),
                    db_i(row->created_at)));
    struct event_head head = {.type = "channel:created", .project = row->project, .held_ms = -1};
    struct jw *w = dibs__event_begin(tx, &head);
    jw_ktext(w, "channelId", row->id);
    jw_ktext(w, "project", row->project);
    jw_ktext_opt(w, "description", row->description);
    dibs__event_end(tx);
}

static dibs_status create_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_channel_new *in = input;
    struct dibs_channel *out = output;
    struct channel_row row = {0};
    dibs_status status = check_new(tx, in);
    if (status != DIBS_OK)
        return status;
    const char *project = in->project && *in->project ? in->project : NULL;
    bool found = find_channel(tx, in->id, &row);
    if (found && project && !str_eq(project, row.project))
        return error_field(tx->err, "project",
                           "is not that of channel '%s'; choose another id for a new one", in->id);
    if (!found && db_ok(tx->db)) {
        row = (struct channel_row){.key = dibs__counter_take(tx, COUNTER_CHANNEL, 1),
                                   .id = dibs__strdup(tx, in->id),
                                   .project = dibs__strdup(tx, project ? project : "default"),
                                   .description = dibs__strdup(tx, in->description),
                                   .created_at = tx->now};
        insert_channel(tx, &row);
    }
    fill_channel(tx, &row, out);
    out->created = !found;
    return dibs__store_status(tx);
}

dibs_status dibs_channel_create(dibs *d, dibs_arena *a, const struct dibs_channel_new *in,
                                struct dibs_channel *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, create_tx, in, out, sizeof *out);
}

static dibs_status list_tx(struct tx *tx, const void *input, void *output)
{
    const char *project = input;
    struct dibs_channel_list *out = output;
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT " CHANNEL_COLUMNS
                     " FROM channel c WHERE ($1 IS NULL OR c.project = $1) ORDER BY c.key"),
                 DB_ARGS(db_t(project)));
    while (db_next(rows)) {
        struct channel_row row;
        struct dibs_channel *item = dibs__push(tx, &out->items, &out->count, sizeof *item);
        read_channel(tx, rows, &row);
        if (item)
            fill_channel(tx, &row, item);
    }
    db_done(rows);
    return dibs__store_status(tx);
}

dibs_status dibs_channel_list(dibs *d, dibs_arena *a, const char *project,
                              struct dibs_channel_list *out, struct dibs_error *err)
{
    return dibs__read(d, a, err, list_tx, project, out, sizeof *out);
}

/* ---- posting --------------------------------------------------------------------------------- */

static dibs_status check_post(struct tx *tx, const struct dibs_post_new *in)
{
    dibs_status status = dibs__check_required(tx->err, "author", in->author, WORD_BYTES_MAX);
    if (status == DIBS_OK)
        status = dibs__check_required(tx->err, "content", in->content, DESCRIPTION_BYTES_MAX);
    if (status == DIBS_OK && in->reply_to)
        status = dibs__check_id(tx->err, "replyTo", in->reply_to);
    return status;
}

/* The message that is replied to, which must stand in the same channel. */
static dibs_status find_replied(struct tx *tx, const struct channel_row *channel, const char *id,
                                int64_t *key)
{
    if (!id)
        return DIBS_OK;
    *key = db_value_int(tx->db, 0,
                        SQL("SELECT key FROM channel_message WHERE id = $1 AND channel_key = $2"),
                        DB_ARGS(db_t(id), db_i(channel->key)));
    if (*key || !db_ok(tx->db))
        return dibs__store_status(tx);
    return dibs__refuse(tx, DIBS_MESSAGE_NOT_FOUND, "there is no message '%s' in channel '%s'", id,
                        channel->id);
}

static void tell_post(struct tx *tx, const struct channel_row *channel,
                      const struct dibs_post *post)
{
    struct event_head head = {
        .type = "channel:message", .project = channel->project, .held_ms = -1};
    struct jw *w = dibs__event_begin(tx, &head);
    jw_ktext(w, "channelId", channel->id);
    jw_ktext(w, "messageId", post->id);
    jw_ktext(w, "author", post->author);
    jw_ktext(w, "content", post->content);
    jw_ktext_opt(w, "replyTo", post->reply_to);
    jw_kstrings(w, "mentions", post->mentions);
    dibs__event_end(tx);
}

static dibs_status post_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_post_new *in = input;
    struct dibs_post *out = output;
    struct channel_row channel = {0};
    int64_t replied = 0;
    dibs_status status = dibs__channel_load(tx, "id", in->channel_id, &channel);
    if (status == DIBS_OK)
        status = check_post(tx, in);
    if (status == DIBS_OK)
        status = find_replied(tx, &channel, in->reply_to, &replied);
    if (status != DIBS_OK)
        return status;
    int64_t key = dibs__counter_take(tx, COUNTER_MESSAGE, 1);
    *out = (struct dibs_post){.id = dibs__printf(tx, "%" PRId64, key),
                              .channel_id = channel.id,
                              .author = dibs__strdup(tx, in->author),
                              .content = dibs__strdup(tx, in->content),
                              .reply_to = dibs__strdup(tx, in->reply_to),
                              .created_at_ms = tx->now};
    db_exec(tx->db,
            SQL("INSERT INTO channel_message (key, id, channel_key, author, content, reply_to, "
                "created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)"),
            DB_ARGS(db_i(key), db_t(out->id), db_i(channel.key), db_t(in->author),
                    db_t(in->content), db_i_or_null(replied), db_i(tx->now)));
    dibs__mentions_add(tx, &channel, key, in->author, in->content);
    dibs__mentions_of(tx, key, &out->mentions);
    tell_post(tx, &channel, out);
    return dibs__store_status(tx);
}

dibs_status dibs_channel_post(dibs *d, dibs_arena *a, const struct dibs_post_new *in,
                              struct dibs_post *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, post_tx, in, out, sizeof *out);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Up to `limit` messages behind `*after`, which becomes the last of them. */
static void read_page(struct tx *tx, const struct channel_row *channel, int64_t *after,
                      int64_t limit, struct dibs_post_list *out)
{
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT m.key, m.id, m.author, m.content, r.id, m.created_at "
                     "FROM channel_message m LEFT JOIN channel_message r ON r.key = m.reply_to "
                     "WHERE m.channel_key = $1 AND m.key > $2 ORDER BY m.key LIMIT $3"),
                 DB_ARGS(db_i(channel->key), db_i(*after), db_i(limit + 1)));
    while (db_next(rows)) {
        if ((int64_t)out->count == limit) { /* one more than asked for: there is a next page */
            out->next_cursor = dibs__printf(tx, "%" PRId64, *after);
            break;
        }
        struct dibs_post *post = dibs__push(tx, &out->items, &out->count, sizeof *post);
        if (!post)
            break;
        *after = db_int(rows, 0);
        *post = (struct dibs_post){.id = db_text(rows, 1, tx->a),
                                   .channel_id = channel->id,
                                   .author = db_text(rows, 2, tx->a),
                                   .content = db_text(rows, 3, tx->a),
                                   .reply_to = db_text(rows, 4, tx->a),
                                   .created_at_ms = db_int(rows, 5)};
        dibs__mentions_of(tx, *after, &post->mentions);
    }
    db_done(rows);
}

static dibs_status messages_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_post_filter *in = input;
    struct channel_row channel = {0};
    int64_t after = 0, limit = 0;
    if (in->cursor && !str_to_int(in->cursor, &after))
        return error_field(tx->err, "cursor", "is not one that a list has returned");
    dibs_status status = dibs__check_limit(tx->err, in->limit, &limit);
    if (status == DIBS_OK)
        status = dibs__channel_load(tx, "id", in->channel_id, &channel);
    if (status != DIBS_OK)
        return status;
    read_page(tx, &channel, &after, limit, output);
    return dibs__store_status(tx);
}

dibs_status dibs_channel_messages(dibs *d, dibs_arena *a, const struct dibs_post_filter *in,
                                  struct dibs_post_list *out, struct dibs_error *err)
{
    return dibs__read(d, a, err, messages_tx, in, out, sizeof *out);
}

static dibs_status read_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_channel_read *in = input;
    struct channel_row channel = {0};
    struct agent_row agent = {0};
    struct session_row session = {0};
    struct reader reader = {0};
    int64_t limit = 0;
    dibs_status status = dibs__check_limit(tx->err, in->limit, &limit);
    if (status == DIBS_OK)
        status = dibs__channel_load(tx, "id", in->channel_id, &channel);
    if (status == DIBS_OK)
        status = dibs__check_id(tx->err, "agentId", in->agent_id);
    if (status == DIBS_OK)
        status = dibs__agent_load(tx, in->agent_id, &agent);
    if (status == DIBS_OK && in->session_id)
        status = dibs__agent_session(tx, &agent, in->session_id, &session);
    if (status == DIBS_OK)
        status = dibs__reader_open(tx, agent.id, &channel, in->session_id, &reader);
    if (status != DIBS_OK)
        return status;
    int64_t upto = reader.read_upto;
    read_page(tx, &channel, &upto, limit, output);
    dibs__reader_mark(tx, &reader, upto);
    if (in->session_id)
        dibs__session_touch(tx, session.id);
    return dibs__store_status(tx);
}

dibs_status dibs_channel_read(dibs *d, dibs_arena *a, const struct dibs_channel_read *in,
                              struct dibs_post_list *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, read_tx, in, out, sizeof *out);
}
