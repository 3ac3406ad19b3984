/* SPDX-License-Identifier: MIT */
/*
 * inbox.c: messages from outside, and taking them.
 *
 *   (new) --> unread --claim--> processing --read, respond, delegate--> answered (inbox_answer.c)
 *   processing --lease ends, session gone, release--> unread
 *   unread --read, respond, delegate--> answered, by somebody who had not claimed it
 *
 *  1. A message is processing exactly while it has one live claim, the one whose token is in its
 *     row.
 *  2. Messages are handed out in the order of arrival. One that comes back keeps its place.
 *  3. A message is for one agent, or for whichever lead of its project asks first.
 */
#include "core/inbox.h"

#include "core/owner.h"
#include "core/poll.h"

#define INBOX_COUNT_DEFAULT 5

static const char *const names[] = {[DIBS_INBOX_UNREAD] = "unread",
                                    [DIBS_INBOX_PROCESSING] = "processing",
                                    [DIBS_INBOX_READ] = "read",
                                    [DIBS_INBOX_RESPONDED] = "responded",
                                    [DIBS_INBOX_DELEGATED] = "delegated"};

const char *dibs_inbox_status_name(enum dibs_inbox_status s)
{
    return (size_t)s < COUNT_OF(names) ? names[s] : "unknown";
}

static enum dibs_inbox_status read_status(struct tx *tx, const char *word)
{
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (str_eq(names[i], word))
            return (enum dibs_inbox_status)i;
    if (db_ok(tx->db))
        db_fail(tx->db, DIBS_STORE_CORRUPT, "a message has a status that does not exist");
    return DIBS_INBOX_UNREAD;
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define MESSAGE_COLUMNS                                                                            \
    "m.key, m.id, m.project, m.agent_id, m.source, m.status, m.content, m.channel, m.thread, "     \
    "m.sender, m.matched_text, m.metadata, m.token, m.response, m.task_key, m.created_at, "        \
    "m.updated_at"

static void row_read(struct tx *tx, struct db_rows *rows, struct message_row *out)
{
    *out = (struct message_row){
        .key = db_int(rows, 0),
        .id = db_text(rows, 1, tx->a),
        .project = db_text(rows, 2, tx->a),
        .agent_id = db_text(rows, 3, tx->a),
        .source = db_text(rows, 4, tx->a),
        .status = read_status(tx, db_text_borrowed(rows, 5)),
        .content = db_text(rows, 6, tx->a),
        .channel = db_text(rows, 7, tx->a),
        .thread = db_text(rows, 8, tx->a),
        .user = db_text(rows, 9, tx->a),
        .matched_text = db_text(rows, 10, tx->a),
        .metadata = db_text(rows, 11, tx->a),
        .token = db_int(rows, 12),
        .response = db_text(rows, 13, tx->a),
        .task_key = db_int(rows, 14),
        .created_at = db_int(rows, 15),
        .updated_at = db_int(rows, 16),
    };
}

static bool find_row(struct tx *tx, const char *id, struct message_row *out)
{
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT " MESSAGE_COLUMNS " FROM inbox_message m WHERE m.id = $1"),
                 DB_ARGS(db_t(id)));
    bool found = db_next(rows);
    if (found)
        row_read(tx, rows, out);
    db_done(rows);
    return found && db_ok(tx->db);
}

dibs_status dibs__inbox_load(struct tx *tx, const char *id, struct message_row *out)
{
    dibs_status status = dibs__check_id(tx->err, "id", id);
    if (status != DIBS_OK)
        return status;
    if (find_row(tx, id, out))
        return DIBS_OK;
    return dibs__refuse(tx, DIBS_MESSAGE_NOT_FOUND, "there is no message '%s'", id);
}

bool dibs__inbox_claim_of(struct tx *tx, const struct message_row *m, struct claim_row *out)
{
    return m->status == DIBS_INBOX_PROCESSING && dibs__claim_load(tx, m->token, out) &&
           !out->ended_at;
}

void dibs__inbox_save(struct tx *tx, struct message_row *m, enum dibs_inbox_status to)
{
    m->status = to;
    m->updated_at = tx->now;
    db_exec(tx->db,
            SQL("UPDATE inbox_message SET status = $2, token = $3, response = $4, task_key = $5, "
                "updated_at = $6 WHERE key = $1"),
            DB_ARGS(db_i(m->key), db_t(names[to]), db_i_or_null(m->token), db_t(m->response),
                    db_i_or_null(m->task_key), db_i(tx->now)));
}

struct jw *dibs__inbox_event(struct tx *tx, const char *type, const struct message_row *m,
                             const struct claim_row *c, int64_t held_ms)
{
    struct event_head head = {.type = type,
                              .project = m->project,
                              .session_id = c ? c->session_id : NULL,
                              .agent = c ? dibs__claim_agent(c) : NULL,
                              .held_ms = held_ms};
    struct jw *w = dibs__event_begin(tx, &head);
    jw_ktext(w, "messageId", m->id);
    jw_ktext(w, "status", dibs_inbox_status_name(m->status));
    jw_ktext_opt(w, "agentId", m->agent_id);
    if (c) {
        jw_ktext(w, "sessionId", c->session_id);
        jw_kint(w, "token", c->token);
    }
    if (held_ms >= 0)
        jw_kint(w, "heldForMs", held_ms);
    return w;
}

static void fill(struct tx *tx, const struct message_row *m, const struct claim_row *c,
                 struct dibs_message *out)
{
    struct task_row task = {0};
    struct dibs_claim *claim = c ? dibs__alloc(tx, sizeof *claim) : NULL;
    if (claim)
        dibs__claim_full(tx, c, NULL, claim);
    bool delegated = m->task_key && dibs__task_load_key(tx, m->task_key, &task);
    *out = (struct dibs_message){
        .id = m->id,
        .project = m->project,
        .agent_id = m->agent_id,
        .source = m->source,
        .status = m->status,
        .content = m->content,
        .channel = m->channel,
        .thread = m->thread,
        .user = m->user,
        .matched_text = m->matched_text,
        .metadata = m->metadata,
        .response = m->response,
        .task_id = delegated ? task.id : NULL,
        .created_at_ms = m->created_at,
        .updated_at_ms = m->updated_at,
        .claim = claim,
    };
}

void dibs__inbox_full(struct tx *tx, const struct message_row *m, struct dibs_message *out)
{
    struct claim_row c = {0};
    fill(tx, m, dibs__inbox_claim_of(tx, m, &c) ? &c : NULL, out);
}

void dibs__inbox_wake(struct tx *tx, const struct message_row *m)
{
    if (m->agent_id)
        dibs__wake_agent(tx, m->agent_id);
    else
        dibs__wake_leads(tx, m->project);
}

/* ---- arriving -------------------------------------------------------------------------------- */

static dibs_status check_new(struct tx *tx, const struct dibs_message_new *in)
{
    const struct {
        const char *field, *text;
        size_t max;
    } rules[] = {
        {"project", in->project, WORD_BYTES_MAX},
        {"source", in->source, WORD_BYTES_MAX},
        {"channel", in->channel, KEY_BYTES_MAX},
        {"thread", in->thread, KEY_BYTES_MAX},
        {"user", in->user, KEY_BYTES_MAX},
        {"matchedText", in->matched_text, TITLE_BYTES_MAX},
    };
    dibs_status status = in->id ? dibs__check_id(tx->err, "id", in->id) : DIBS_OK;
    if (status == DIBS_OK && in->id && dibs__is_reserved_id(in->id))
        status =
            error_field(tx->err, "id", "'%s' is a word that paths use; choose another", in->id);
    if (status == DIBS_OK)
        status = dibs__check_required(tx->err, "content", in->content, DESCRIPTION_BYTES_MAX);
    for (size_t i = 0; i < COUNT_OF(rules) && status == DIBS_OK; i++)
        status = dibs__check_text(tx->err, rules[i].field, rules[i].text, rules[i].max);
    if (status == DIBS_OK)
        status = json_check(in->metadata, JSON_VALUE_BYTES_MAX, "metadata", tx->err);
    return status;
}

/* Draws the place in the order of arrival, and the id if none was chosen. */
static void name(struct tx *tx, struct message_row *m)
{
    struct message_row taken = {0};
    const char *chosen = m->id;
    do { /* somebody may have chosen a number as an id of their own */
        m->key = dibs__counter_take(tx, COUNTER_INBOX, 1);
        m->id = chosen ? chosen : dibs__printf(tx, "%" PRId64, m->key);
    } while (!chosen && m->id && find_row(tx, m->id, &taken));
}

static void insert(struct tx *tx, const struct message_row *m)
{
    db_exec(tx->db,
            SQL("INSERT INTO inbox_message (key, id, project, agent_id, source, status, content, "
                "channel, thread, sender, matched_text, metadata, created_at, updated_at) "
                "VALUES ($1, $2, $3, $4, $5, 'unread', $6, $7, $8, $9, $10, $11, $12, $12)"),
            DB_ARGS(db_i(m->key), db_t(m->id), db_t(m->project), db_t(m->agent_id), db_t(m->source),
                    db_t(m->content), db_t(m->channel), db_t(m->thread), db_t(m->user),
                    db_t(m->matched_text), db_t(m->metadata), db_i(tx->now)));
    struct jw *w = dibs__inbox_event(tx, "inbox:received", m, NULL, -1);
    jw_ktext(w, "source", m->source);
    jw_ktext(w, "content", m->content);
    jw_ktext_opt(w, "channel", m->channel);
    jw_ktext_opt(w, "thread", m->thread);
    jw_ktext_opt(w, "user", m->user);
    jw_ktext_opt(w, "matchedText", m->matched_text);
    jw_kraw_opt(w, "metadata", m->metadata);
    dibs__event_end(tx);
}

static const char *or_else(const char *text, const char *otherwise)
{
    return text && *text ? text : otherwise;
}

/* The agent that it is for. A project that is named is the agent's: whoever may see only one of
 * them is not to find messages of the other in it. */
static dibs_status load_addressee(struct tx *tx, const struct dibs_message_new *in,
                                  struct agent_row *out)
{
    dibs_status status = dibs__agent_load(tx, in->agent_id, out);
    if (status != DIBS_OK || str_eq(or_else(in->project, out->project), out->project))
        return status;
    return dibs__refuse(tx, DIBS_AGENT_NOT_FOUND, "there is no agent '%s' in project '%s'",
                        in->agent_id, in->project);
}

static dibs_status add_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_message_new *in = input;
    struct message_row taken = {0};
    struct agent_row agent = {.project = "default"};
    dibs_status status = check_new(tx, in);
    if (status == DIBS_OK && in->agent_id)
        status = load_addressee(tx, in, &agent);
    if (status != DIBS_OK)
        return status;
    if (in->id && find_row(tx, in->id, &taken))
        return error_field(tx->err, "id", "'%s' is that of another message", in->id);
    struct message_row m = {.id = in->id,
                            .project = or_else(in->project, agent.project),
                            .agent_id = in->agent_id,
                            .source = or_else(in->source, "api"),
                            .status = DIBS_INBOX_UNREAD,
                            .content = in->content,
                            .channel = in->channel,
                            .thread = in->thread,
                            .user = in->user,
                            .matched_text = in->matched_text,
                            .metadata = in->metadata,
                            .created_at = tx->now,
                            .updated_at = tx->now};
    name(tx, &m);
    insert(tx, &m);
    dibs__inbox_wake(tx, &m);
    if (find_row(tx, m.id, &m)) /* what is given back lives in the caller's arena */
        dibs__inbox_full(tx, &m, output);
    return dibs__store_status(tx);
}

dibs_status dibs_inbox_add(dibs *d, dibs_arena *a, const struct dibs_message_new *in,
                           struct dibs_message *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, add_tx, in, out, sizeof *out);
}

/* ---- reading --------------------------------------------------------------------------------- */

static dibs_status get_tx(struct tx *tx, const void *input, void *output)
{
    struct message_row m = {0};
    dibs_status status = dibs__inbox_load(tx, input, &m);
    if (status == DIBS_OK)
        dibs__inbox_full(tx, &m, output);
    return status;
}

dibs_status dibs_inbox_get(dibs *d, dibs_arena *a, const char *id, struct dibs_message *out,
                           struct dibs_error *err)
{
    return dibs__read(d, a, err, get_tx, id, out, sizeof *out);
}

/* Up to `limit` messages behind this one; what is not wanted is never copied. */
static struct db_rows *select_page(struct tx *tx, const struct dibs_inbox_filter *in, int64_t after,
                                   int64_t limit)
{
    const char *status =
        in->status.given ? dibs_inbox_status_name((enum dibs_inbox_status)in->status.value) : NULL;
    return db_query(tx->db,
                    SQL("SELECT " MESSAGE_COLUMNS " FROM inbox_message m WHERE m.key > $1 "
                        "AND ($2 IS NULL OR m.project = $2) AND ($3 IS NULL OR m.agent_id = $3) "
                        "AND ($4 IS NULL OR m.source = $4) AND ($5 IS NULL OR m.status = $5) "
                        "ORDER BY m.key LIMIT $6"),
                    DB_ARGS(db_i(after), db_t(in->project), db_t(in->agent_id), db_t(in->source),
                            db_t(status), db_i(limit)));
}

static dibs_status list_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_inbox_filter *in = input;
    struct dibs_message_list *out = output;
    int64_t after = 0, limit = 0;
    if (in->cursor && !str_to_int(in->cursor, &after))
        return error_field(tx->err, "cursor", "is not one that a list has returned");
    dibs_status status = dibs__check_limit(tx->err, in->limit, &limit);
    if (status != DIBS_OK)
        return status;
    struct db_rows *rows = select_page(tx, in, after, limit + 1);
    while (db_next(rows)) {
        struct message_row m;
        if ((int64_t)out->count == limit) { /* one more than asked for: there is a next page */
            out->next_cursor = dibs__printf(tx, "%" PRId64, after);
            break;
        }
        row_read(tx, rows, &m);
        struct dibs_message *item = dibs__push(tx, &out->items, &out->count, sizeof *item);
        if (item)
            dibs__inbox_full(tx, &m, item);
        after = m.key;
    }
    db_done(rows);
    return dibs__store_status(tx);
}

dibs_status dibs_inbox_list(dibs *d, dibs_arena *a, const struct dibs_inbox_filter *in,
                            struct dibs_message_list *out, struct dibs_error *err)
{
    return dibs__read(d, a, err, list_tx, in, out, sizeof *out);
}

int64_t dibs__inbox_unread(struct tx *tx, const struct agent_row *agent)
{
    int64_t own = db_value_int(
        tx->db, 0,
        SQL("SELECT count(*) FROM inbox_message WHERE status = 'unread' AND agent_id = $1"),
        DB_ARGS(db_t(agent->id)));
    if (!agent->is_lead)
        return own;
    return own + db_value_int(tx->db, 0,
                              SQL("SELECT count(*) FROM inbox_message WHERE status = 'unread' "
                                  "AND agent_id IS NULL AND project = $1"),
                              DB_ARGS(db_t(agent->project)));
}

static dibs_status project_tx(struct tx *tx, const void *input, void *output)
{
    struct message_row m = {0};
    if (find_row(tx, input, &m))
        *(const char **)output = m.project;
    return dibs__store_status(tx);
}

dibs_status dibs__inbox_project(dibs *d, dibs_arena *a, const char *id, const char **project,
                                struct dibs_error *err)
{
    return dibs__read(d, a, err, project_tx, id, project, sizeof *project);
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* An agent that was in another project has messages of then. */
static struct db_rows *select_unread(struct tx *tx, const struct agent_row *agent,
                                     const char *only_project, int64_t count)
{
    if (!agent->is_lead)
        return db_query(tx->db,
                        SQL("SELECT " MESSAGE_COLUMNS " FROM inbox_message m "
                            "WHERE m.status = 'unread' AND m.agent_id = $1 "
                            "AND ($2 IS NULL OR m.project = $2) ORDER BY m.key LIMIT $3"),
                        DB_ARGS(db_t(agent->id), db_t(only_project), db_i(count)));
    return db_query(
        tx->db,
        SQL("SELECT " MESSAGE_COLUMNS " FROM inbox_message m "
            "WHERE m.status = 'unread' AND m.agent_id = $1 AND ($2 IS NULL OR m.project = $2) "
            "UNION ALL SELECT " MESSAGE_COLUMNS " FROM inbox_message m "
            "WHERE m.status = 'unread' AND m.agent_id IS NULL AND m.project = $3 "
            "AND ($2 IS NULL OR m.project = $2) ORDER BY 1 LIMIT $4"),
        DB_ARGS(db_t(agent->id), db_t(only_project), db_t(agent->project), db_i(count)));
}

static void take_one(struct tx *tx, const struct session_row *session, struct message_row *m,
                     int64_t ttl_ms, struct dibs_message *out)
{
    struct claim_row c = {0};
    dibs__subject_claim(tx, session, "inbox", m->id, ttl_ms, &c);
    m->token = c.token;
    dibs__inbox_save(tx, m, DIBS_INBOX_PROCESSING);
    struct jw *w = dibs__inbox_event(tx, "inbox:claimed", m, &c, -1);
    jw_kint(w, "incarnation", c.incarnation);
    jw_ktime(w, "claimedAt", c.claimed_at);
    jw_ktime(w, "expiresAt", c.expires_at);
    jw_kint(w, "ttlMs", c.ttl);
    dibs__event_end(tx);
    fill(tx, m, &c, out);
}

void dibs__inbox_take(struct tx *tx, const struct agent_row *agent,
                      const struct session_row *session, const char *only_project, int64_t count,
                      int64_t ttl_ms, struct dibs_message_list *out)
{
    struct message_row *found = NULL;
    size_t found_count = 0;
    struct db_rows *rows =
        select_unread(tx, agent, only_project, count ? count : INBOX_COUNT_DEFAULT);
    while (db_next(rows)) {
        struct message_row *m = dibs__push(tx, &found, &found_count, sizeof *m);
        if (m)
            row_read(tx, rows, m);
    }
    db_done(rows);
    if (found_count > 0)
        dibs__session_touch(tx, session->id);
    for (size_t i = 0; i < found_count && db_ok(tx->db); i++) {
        struct dibs_message *item = dibs__push(tx, &out->items, &out->count, sizeof *item);
        if (item)
            take_one(tx, session, &found[i], ttl_ms, item);
    }
}

struct claim_in {
    const struct dibs_inbox_claim *in;
    const char *only_project; /* NULL: any */
};

/* Leases that have ended are ended first: what they held may be taken again. */
static void end_and_take(struct tx *tx, const struct claim_in *of, const struct agent_row *agent,
                         const struct session_row *session, struct dibs_message_list *out)
{
    int64_t ended = 0;
    do {
        ended = dibs__expire_due(tx, EXPIRE_BATCH_MAX, NULL);
        tx->keep = tx->keep || ended > 0; /* they stay ended, whatever is found */
        dibs__inbox_take(tx, agent, session, of->only_project, of->in->count, of->in->ttl_ms, out);
    } while (out->count == 0 && ended == EXPIRE_BATCH_MAX && db_ok(tx->db));
}

static dibs_status claim_tx(struct tx *tx, const void *input, void *output)
{
    const struct claim_in *of = input;
    const struct dibs_inbox_claim *in = of->in;
    struct dibs_message_list *out = output;
    struct agent_row agent = {0};
    struct session_row session = {0};
    dibs_status status = dibs__check_range(tx->err, "count", in->count, 0, CLAIM_COUNT_MAX);
    if (status == DIBS_OK)
        status = dibs__check_ttl(tx, "ttlMs", in->ttl_ms);
    if (status == DIBS_OK)
        status = dibs__agent_load(tx, in->agent_id, &agent);
    if (status == DIBS_OK)
        status = dibs__agent_session(tx, &agent, in->session_id, &session);
    if (status != DIBS_OK)
        return status;
    end_and_take(tx, of, &agent, &session, out);
    if (out->count == 0)
        return dibs__refuse(tx, DIBS_NOTHING_TO_CLAIM, "there is no unread message for agent '%s'",
                            agent.id);
    return dibs__store_status(tx);
}

dibs_status dibs__inbox_claim(dibs *d, dibs_arena *a, const struct dibs_inbox_claim *in,
                              const char *only_project, struct dibs_message_list *out,
                              struct dibs_error *err)
{
    struct claim_in of = {.in = in, .only_project = only_project};
    return dibs__write(d, a, err, claim_tx, &of, out, sizeof *out);
}

dibs_status dibs_inbox_claim(dibs *d, dibs_arena *a, const struct dibs_inbox_claim *in,
                             struct dibs_message_list *out, struct dibs_error *err)
{
    return dibs__inbox_claim(d, a, in, NULL, out, err);
}

/* ---- coming back ----------------------------------------------------------------------------- */

void dibs__inbox_put_back(struct tx *tx, const struct claim_row *c, const char *reason)
{
    struct message_row m = {0};
    if (!find_row(tx, c->resource, &m) || m.token != c->token)
        return;
    dibs__inbox_save(tx, &m, DIBS_INBOX_UNREAD);
    struct jw *w = dibs__inbox_event(tx, "inbox:released", &m, c, dibs__held_ms(tx, c));
    jw_ktext(w, "reason", reason);
    dibs__event_end(tx);
    dibs__inbox_wake(tx, &m);
}
