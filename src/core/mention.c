/* SPDX-License-Identifier: MIT */
/*
 * mention.c: whom a message names, and who is at it.
 *
 * @name means the agent of exactly that name in the channel's project, and nobody else. An agent
 * that is mentioned gets a row in channel_reader, which says how far it has read; its mentions
 * beyond that are unread. Sessions of the agent claim them channel by channel: the claim is for
 * what was there at that moment (claimed_upto).
 *
 *  1. At most one live claim on the mentions of an agent in a channel; its token is in the row.
 *  2. A claim marks nothing as read. Only reading does, or letting go of it with `read`, and that
 *     no further than what was read or claimed: a mention that came meanwhile is unread when the
 *     claim has ended, and whoever waits for one is woken then.
 *  3. A claim that ends otherwise (deadline, dead process, silent session) leaves all unread.
 *
 * A lease that is past is ended by whoever looks first, as everywhere.
 */
#include "core/channel.h"
#include "core/poll.h"

#define ENDS_TRIED 3 /* so many last dots and dashes are cut off one by one */

/* ---- finding @name in a text ----------------------------------------------------------------- */

static bool is_name_char(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

/* Whether a character that is not ASCII is part of a word: U+00C0 to U+1FFF, the scripts that put
 * spaces between words, without the two signs among them. Beyond are punctuation, symbols and the
 * scripts that put none. The first byte is enough to tell. */
static bool is_foreign_letter(const char *character)
{
    const unsigned char *c = (const unsigned char *)character;
    bool is_sign = c[0] == 0xC3 && (c[1] == 0x97 || c[1] == 0xB7); /* times, division */
    return c[0] >= 0xC3 && c[0] <= 0xE1 && !is_sign;
}

static bool is_inside_word(const char *text, const char *at)
{
    if (at == text)
        return false;
    const char *before = at - 1;
    while (before > text && ((unsigned char)*before & 0xC0) == 0x80)
        before--;
    return is_name_char((unsigned char)*before) || *before == '@' || is_foreign_letter(before);
}

bool dibs__mention_next(struct mention_scan *s)
{
    const char *at = s->at;
    while ((at = strchr(at, '@')) != NULL) {
        const char *name = at + 1, *end = name;
        while (is_name_char((unsigned char)*end))
            end++;
        if (end > name && !is_inside_word(s->text, at) && !is_foreign_letter(end)) {
            s->at = end;
            s->name = name;
            s->bytes = (size_t)(end - name);
            return true;
        }
        at = end;
    }
    return false;
}

struct name {
    const char *text; /* not terminated */
    size_t bytes;
};

/* Without this many of its last dots and dashes, or as many as it has. */
static size_t cut(struct name n, size_t most)
{
    for (; most > 0 && n.bytes > 0; most--, n.bytes--)
        if (n.text[n.bytes - 1] != '.' && n.text[n.bytes - 1] != '-')
            break;
    return n.bytes;
}

static bool is_agent(struct tx *tx, const char *project, struct name n, struct agent_row *out)
{
    char text[AGENT_NAME_BYTES_MAX + 1];
    memcpy(text, n.text, n.bytes);
    text[n.bytes] = '\0';
    return dibs__agent_named(tx, text, out) && str_eq(out->project, project);
}

/* The agent of the project that the name means; its last dots and dashes may be the sentence's, all
 * of them or a few: each length is a look-up. */
static bool find_named(struct tx *tx, const char *project, struct name n, struct agent_row *out)
{
    size_t bare = cut(n, n.bytes);
    for (int ends = 0; ends <= ENDS_TRIED && n.bytes > bare; ends++, n.bytes--)
        if (is_agent(tx, project, n, out))
            return true;
    n.bytes = bare;
    return bare > 0 && is_agent(tx, project, n, out);
}

static int compare_names(const void *left, const void *right)
{
    const struct name *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return memcmp(a->text, b->text, a->bytes);
}

/* Each name in the text once, as long as a name can be. */
static size_t find_names(struct tx *tx, const char *content, struct name **out)
{
    struct mention_scan scan = {.text = content, .at = content};
    size_t count = 0, kept = 0;
    while (dibs__mention_next(&scan)) {
        struct name n = {scan.name, scan.bytes};
        if (n.bytes > AGENT_NAME_BYTES_MAX)
            n.bytes = cut(n, n.bytes - AGENT_NAME_BYTES_MAX);
        struct name *item =
            n.bytes <= AGENT_NAME_BYTES_MAX ? dibs__push(tx, out, &count, sizeof *item) : NULL;
        if (item)
            *item = n;
    }
    if (count > 0)
        qsort(*out, count, sizeof **out, compare_names);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || compare_names(&(*out)[kept - 1], &(*out)[i]) != 0)
            (*out)[kept++] = (*out)[i];
    return kept;
}

/* The id of the agent that calls itself so: its id, else its name; NULL: no agent. */
static const char *agent_called(struct tx *tx, const char *author)
{
    struct agent_row agent = {0};
    const char *id = db_value_int(tx->db, 0, SQL("SELECT 1 FROM agent WHERE id = $1"),
                                  DB_ARGS(db_t(author))) == 1
                         ? author
                         : NULL;
    return !id && dibs__agent_named(tx, author, &agent) ? agent.id : id;
}

static void add_one(struct tx *tx, const struct channel_row *channel, int64_t message_key,
                    const char *agent_id)
{
    db_exec(tx->db,
            SQL("INSERT INTO mention (agent_id, channel_key, message_key) VALUES ($1, $2, $3) "
                "ON CONFLICT DO NOTHING"),
            DB_ARGS(db_t(agent_id), db_i(channel->key), db_i(message_key)));
    if (db_changes(tx->db) == 0)
        return; /* named before in the same text */
    db_exec(tx->db,
            SQL("INSERT INTO channel_reader (agent_id, channel_key, read_upto) VALUES ($1, $2, 0) "
                "ON CONFLICT DO NOTHING"),
            DB_ARGS(db_t(agent_id), db_i(channel->key)));
    dibs__wake_agent(tx, agent_id);
}

void dibs__mentions_add(struct tx *tx, const struct channel_row *channel, int64_t message_key,
                        const char *author, const char *content)
{
    struct name *names = NULL;
    size_t count = find_names(tx, content, &names);
    const char *author_id = count > 0 ? agent_called(tx, author) : NULL;
    for (size_t i = 0; i < count && db_ok(tx->db); i++) {
        struct agent_row agent = {0};
        if (find_named(tx, channel->project, names[i], &agent) && !str_eq(agent.id, author_id))
            add_one(tx, channel, message_key, agent.id);
    }
}

void dibs__mentions_of(struct tx *tx, int64_t message_key, struct dibs_strings *out)
{
    const char **items = NULL;
    size_t count = 0;
    struct db_rows *rows = db_query(
        tx->db, SQL("SELECT agent_id FROM mention WHERE message_key = $1 ORDER BY agent_id"),
        DB_ARGS(db_i(message_key)));
    while (db_next(rows)) {
        const char **id = dibs__push(tx, &items, &count, sizeof *id);
        if (id)
            *id = db_text(rows, 0, tx->a);
    }
    db_done(rows);
    *out = (struct dibs_strings){.items = items, .count = count};
}

/* ---- readers --------------------------------------------------------------------------------- */

#define UNREAD                                                                                     \
    "FROM mention m WHERE m.agent_id = r.agent_id AND m.channel_key = r.channel_key "              \
    "AND m.message_key > r.read_upto"
#define READER_COLUMNS                                                                             \
    "r.read_upto, r.claimed_upto, r.token, (SELECT count(*) " UNREAD                               \
    "), (SELECT max(m.message_key) " UNREAD "), c.key, c.id, c.project"
#define READER_FROM " FROM channel_reader r JOIN channel c ON c.key = r.channel_key "

static void read_reader(struct tx *tx, struct db_rows *rows, const char *agent_id,
                        struct reader *out)
{
    *out = (struct reader){.agent_id = agent_id,
                           .read_upto = db_int(rows, 0),
                           .claimed_upto = db_int(rows, 1),
                           .token = db_int(rows, 2),
                           .unread = db_int(rows, 3),
                           .newest = db_int(rows, 4),
                           .channel = {.key = db_int(rows, 5),
                                       .id = db_text(rows, 6, tx->a),
                                       .project = db_text(rows, 7, tx->a)}};
}

/* Leaves *out as one who has read nothing when the agent was never mentioned and never read. */
static void load_reader(struct tx *tx, const char *agent_id, const struct channel_row *channel,
                        struct reader *out)
{
    struct db_rows *rows = db_query(
        tx->db,
        SQL("SELECT " READER_COLUMNS READER_FROM "WHERE r.agent_id = $1 AND r.channel_key = $2"),
        DB_ARGS(db_t(agent_id), db_i(channel->key)));
    *out = (struct reader){.agent_id = agent_id, .channel = *channel};
    if (db_next(rows))
        read_reader(tx, rows, agent_id, out);
    db_done(rows);
}

struct reader_rows {
    struct reader *items;
    size_t count;
};

/* The channels in which the agent has been mentioned or has read. */
static void load_readers(struct tx *tx, const char *agent_id, struct reader_rows *out)
{
    struct db_rows *rows = db_query(
        tx->db,
        SQL("SELECT " READER_COLUMNS READER_FROM "WHERE r.agent_id = $1 ORDER BY r.channel_key"),
        DB_ARGS(db_t(agent_id)));
    while (db_next(rows)) {
        struct reader *r = dibs__push(tx, &out->items, &out->count, sizeof *r);
        if (r)
            read_reader(tx, rows, agent_id, r);
    }
    db_done(rows);
}

/* ---- events ---------------------------------------------------------------------------------- */

static struct jw *begin_event(struct tx *tx, const char *type, const struct reader *r,
                              const struct claim_row *c, int64_t held_ms)
{
    struct event_head head = {.type = type,
                              .project = r->channel.project,
                              .session_id = c ? c->session_id : NULL,
                              .agent = r->agent_id,
                              .held_ms = held_ms};
    struct jw *w = dibs__event_begin(tx, &head);
    jw_ktext(w, "agentId", r->agent_id);
    jw_ktext(w, "channelId", r->channel.id);
    if (!c)
        return w;
    jw_ktext(w, "sessionId", c->session_id);
    jw_kint(w, "token", c->token);
    return w;
}

static void tell_claimed(struct tx *tx, const struct reader *r, const struct claim_row *c)
{
    struct jw *w = begin_event(tx, "mentions:claimed", r, c, -1);
    jw_kint(w, "count", r->unread);
    jw_kint(w, "claimedUpto", r->claimed_upto);
    jw_kint(w, "incarnation", c->incarnation);
    jw_ktime(w, "claimedAt", c->claimed_at);
    jw_ktime(w, "expiresAt", c->expires_at);
    jw_kint(w, "ttlMs", c->ttl);
    dibs__event_end(tx);
}

static void tell_released(struct tx *tx, const struct reader *r, const struct claim_row *c,
                          const char *reason)
{
    int64_t held_ms = dibs__held_ms(tx, c);
    struct jw *w = begin_event(tx, "mentions:released", r, c, held_ms);
    jw_ktext(w, "reason", reason);
    jw_kint(w, "heldForMs", held_ms);
    dibs__event_end(tx);
}

/* ---- claims ---------------------------------------------------------------------------------- */

static int64_t count_unread(struct tx *tx, const struct reader *r)
{
    return db_value_int(tx->db, 0,
                        SQL("SELECT count(*) FROM mention WHERE agent_id = $1 AND channel_key = $2 "
                            "AND message_key > $3"),
                        DB_ARGS(db_t(r->agent_id), db_i(r->channel.key), db_i(r->read_upto)));
}

/* Nobody is at the mentions any more; the claim row is closed. */
static void set_free(struct tx *tx, struct reader *r, const struct claim_row *c, const char *reason)
{
    db_exec(tx->db,
            SQL("UPDATE channel_reader SET token = NULL, claimed_upto = NULL "
                "WHERE agent_id = $1 AND channel_key = $2 AND token = $3"),
            DB_ARGS(db_t(r->agent_id), db_i(r->channel.key), db_i(c->token)));
    r->token = r->claimed_upto = 0;
    tell_released(tx, r, c, reason);
    if (count_unread(tx, r) > 0)
        dibs__wake_agent(tx, r->agent_id);
}

void dibs__mentions_put_back(struct tx *tx, const struct claim_row *c, const char *reason)
{
    struct channel_row channel = {0};
    struct reader r = {0};
    char agent_id[ID_BYTES_MAX + 1];
    const char *slash = strchr(c->resource, '/'); /* ids have none */
    if (!slash || (size_t)(slash - c->resource) >= sizeof agent_id)
        return;
    memcpy(agent_id, c->resource, (size_t)(slash - c->resource));
    agent_id[slash - c->resource] = '\0';
    if (dibs__channel_load(tx, "channelId", slash + 1, &channel) != DIBS_OK)
        return;
    load_reader(tx, agent_id, &channel, &r);
    set_free(tx, &r, c, reason);
}

/* The live claim on the reader's mentions. One that is over, though nobody has looked since, is put
 * back; whoever asks is alive, whatever became of the process it once named. */
static bool live_claim(struct tx *tx, struct reader *r, const char *asker, struct claim_row *out)
{
    if (!dibs__claim_load(tx, r->token, out) || out->ended_at)
        return false;
    bool is_past = dibs__claim_is_past(tx, out);
    bool is_dead = !is_past && !str_eq(out->session_id, asker) &&
                   dibs__session_process(tx, out->session_id) == DIBS_PROCESS_DEAD;
    if (!is_past && !is_dead)
        return true;
    dibs__claim_put_back(tx, out, is_past ? "expired" : "process_dead", false, 0);
    r->token = r->claimed_upto = 0;
    return false;
}

static dibs_status refuse_other_holder(struct tx *tx, const struct reader *r,
                                       const struct claim_row *held)
{
    dibs__refuse(tx, DIBS_NOT_CLAIM_OWNER,
                 "session '%s' is at the mentions of agent '%s' in channel '%s'", held->session_id,
                 r->agent_id, r->channel.id);
    str_fit(tx->err->holder, sizeof tx->err->holder, held->session_id);
    tx->err->holder_since_ms = held->claimed_at;
    tx->err->remaining_ms = held->expires_at - tx->now;
    return DIBS_NOT_CLAIM_OWNER;
}

static void claim_one(struct tx *tx, struct reader *r, const struct session_row *session,
                      int64_t ttl_ms, struct dibs_mentions *out)
{
    struct claim_row c = {0};
    const char *resource = dibs__printf(tx, "%s/%s", r->agent_id, r->channel.id);
    if (!resource)
        return;
    dibs__subject_claim(tx, session, "mentions", resource, ttl_ms, &c);
    r->token = c.token;
    r->claimed_upto = r->newest;
    db_exec(
        tx->db,
        SQL("UPDATE channel_reader SET token = $3, claimed_upto = $4 "
            "WHERE agent_id = $1 AND channel_key = $2"),
        DB_ARGS(db_t(r->agent_id), db_i(r->channel.key), db_i(r->token), db_i(r->claimed_upto)));
    tell_claimed(tx, r, &c);
    *out = (struct dibs_mentions){.channel_id = r->channel.id, .count = r->unread};
    dibs__claim_full(tx, &c, NULL, &out->claim);
}

void dibs__mentions_take(struct tx *tx, const struct agent_row *agent,
                         const struct session_row *session, const char *only_project,
                         int64_t ttl_ms, struct dibs_mentions_list *out)
{
    struct reader_rows all = {0};
    load_readers(tx, agent->id, &all);
    for (size_t i = 0; i < all.count && db_ok(tx->db); i++) {
        struct reader *r = &all.items[i];
        struct claim_row held;
        bool is_elsewhere = only_project && !str_eq(only_project, r->channel.project);
        if (is_elsewhere || r->unread == 0 || live_claim(tx, r, session->id, &held))
            continue;
        struct dibs_mentions *item = dibs__push(tx, &out->items, &out->count, sizeof *item);
        if (!item)
            return;
        claim_one(tx, r, session, ttl_ms, item);
        out->mentions += r->unread;
    }
    if (out->count > 0)
        dibs__session_touch(tx, session->id);
}

int64_t dibs__mentions_unread(struct tx *tx, const char *agent_id)
{
    /* those that a session is at are not counted: somebody knows of them */
    return db_value_int(
        tx->db, 0,
        SQL("SELECT sum((SELECT count(*) FROM mention m WHERE m.agent_id = r.agent_id "
            "AND m.channel_key = r.channel_key "
            "AND m.message_key > coalesce(r.claimed_upto, r.read_upto))) "
            "FROM channel_reader r WHERE r.agent_id = $1"),
        DB_ARGS(db_t(agent_id)));
}

/* ---- reading --------------------------------------------------------------------------------- */

dibs_status dibs__reader_open(struct tx *tx, const char *agent_id,
                              const struct channel_row *channel, const char *session_id,
                              struct reader *out)
{
    struct claim_row held = {0};
    load_reader(tx, agent_id, channel, out);
    if (live_claim(tx, out, session_id, &held) && !str_eq(held.session_id, session_id))
        return refuse_other_holder(tx, out, &held);
    return dibs__store_status(tx);
}

static void set_read(struct tx *tx, struct reader *r, int64_t upto)
{
    if (upto <= r->read_upto)
        return;
    r->read_upto = upto;
    db_exec(tx->db,
            SQL("INSERT INTO channel_reader (agent_id, channel_key, read_upto) VALUES ($1, $2, $3) "
                "ON CONFLICT (agent_id, channel_key) DO UPDATE SET read_upto = $3"),
            DB_ARGS(db_t(r->agent_id), db_i(r->channel.key), db_i(upto)));
    struct jw *w = begin_event(tx, "mentions:read", r, NULL, -1);
    jw_kint(w, "readUpto", upto);
    dibs__event_end(tx);
}

static void let_go(struct tx *tx, struct reader *r, struct claim_row *c, const char *reason)
{
    dibs__claim_close(tx, c, reason, true);
    set_free(tx, r, c, reason);
}

void dibs__reader_mark(struct tx *tx, struct reader *r, int64_t upto)
{
    struct claim_row held = {0};
    set_read(tx, r, upto);
    if (r->token && r->claimed_upto <= r->read_upto && dibs__claim_load(tx, r->token, &held))
        let_go(tx, r, &held, "read");
}

/* ---- operations ------------------------------------------------------------------------------ */

static dibs_status load_agent(struct tx *tx, const char *agent_id, const char *session_id,
                              struct agent_row *out)
{
    dibs_status status = dibs__check_id(tx->err, "agentId", agent_id);
    if (status == DIBS_OK)
        status = dibs__check_id(tx->err, "sessionId", session_id);
    return status == DIBS_OK ? dibs__agent_load(tx, agent_id, out) : status;
}

struct claim_in {
    const struct dibs_mentions_claim *in;
    const char *only_project; /* NULL: any */
};

static dibs_status claim_tx(struct tx *tx, const void *input, void *output)
{
    const struct claim_in *of = input;
    const struct dibs_mentions_claim *in = of->in;
    struct dibs_mentions_list *out = output;
    struct agent_row agent = {0};
    struct session_row session = {0};
    dibs_status status = dibs__check_ttl(tx, "ttlMs", in->ttl_ms);
    if (status == DIBS_OK)
        status = load_agent(tx, in->agent_id, in->session_id, &agent);
    if (status == DIBS_OK)
        status = dibs__agent_session(tx, &agent, in->session_id, &session);
    if (status != DIBS_OK)
        return status;
    dibs__mentions_take(tx, &agent, &session, of->only_project, in->ttl_ms, out);
    status = dibs__store_status(tx);
    if (status != DIBS_OK || out->count > 0)
        return status;
    return dibs__refuse(tx, DIBS_NOTHING_TO_CLAIM,
                        "agent '%s' has no unread mentions that nobody is at", agent.id);
}

dibs_status dibs__mentions_claim(dibs *d, dibs_arena *a, const struct dibs_mentions_claim *in,
                                 const char *only_project, struct dibs_mentions_list *out,
                                 struct dibs_error *err)
{
    struct claim_in of = {.in = in, .only_project = only_project};
    return dibs__write(d, a, err, claim_tx, &of, out, sizeof *out);
}

dibs_status dibs_mentions_claim(dibs *d, dibs_arena *a, const struct dibs_mentions_claim *in,
                                struct dibs_mentions_list *out, struct dibs_error *err)
{
    return dibs__mentions_claim(d, a, in, NULL, out, err);
}

/* Lets go of the claim if this session has it; counts it in *released. */
static void release_one(struct tx *tx, struct reader *r, struct claim_row *held, bool read,
                        int64_t *released)
{
    if (read)
        set_read(tx, r, r->claimed_upto);
    let_go(tx, r, held, read ? "read" : "released");
    (*released)++;
}

static dibs_status release_listed(struct tx *tx, const struct dibs_mentions_release *in,
                                  const char *agent_id, int64_t *released)
{
    dibs_status status = DIBS_OK;
    for (size_t i = 0; status == DIBS_OK && i < in->channel_ids->count; i++) {
        struct channel_row channel = {0};
        struct reader r = {0};
        struct claim_row held = {0};
        status = dibs__channel_load(tx, "channelIds", in->channel_ids->items[i], &channel);
        if (status == DIBS_OK)
            status = dibs__reader_open(tx, agent_id, &channel, in->session_id, &r);
        if (status == DIBS_OK && dibs__claim_load(tx, r.token, &held))
            release_one(tx, &r, &held, in->read, released);
    }
    return status;
}

static void release_all(struct tx *tx, const struct dibs_mentions_release *in, const char *agent_id,
                        int64_t *released)
{
    struct reader_rows all = {0};
    load_readers(tx, agent_id, &all);
    for (size_t i = 0; i < all.count && db_ok(tx->db); i++) {
        struct claim_row held = {0};
        if (live_claim(tx, &all.items[i], in->session_id, &held) &&
            str_eq(held.session_id, in->session_id))
            release_one(tx, &all.items[i], &held, in->read, released);
    }
}

/* A session of the agent, or one that was and still holds mentions of it: somebody must be able to
 * let go of them. */
static dibs_status load_releaser(struct tx *tx, const struct agent_row *agent,
                                 const char *session_id, struct session_row *out)
{
    bool holds =
        db_value_int(tx->db, 0,
                     SQL("SELECT 1 FROM channel_reader r JOIN claim c ON c.token = r.token "
                         "WHERE r.agent_id = $1 AND c.session_id = $2 AND "
                         "c.ended_at IS NULL LIMIT 1"),
                     DB_ARGS(db_t(agent->id), db_t(session_id))) == 1;
    return holds ? dibs__session_load(tx, session_id, out)
                 : dibs__agent_session(tx, agent, session_id, out);
}

static dibs_status release_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_mentions_release *in = input;
    struct agent_row agent = {0};
    struct session_row session = {0};
    dibs_status status = load_agent(tx, in->agent_id, in->session_id, &agent);
    if (status == DIBS_OK)
        status = load_releaser(tx, &agent, in->session_id, &session);
    if (status != DIBS_OK)
        return status;
    if (in->channel_ids)
        status = release_listed(tx, in, agent.id, output);
    else
        release_all(tx, in, agent.id, output);
    dibs__session_touch(tx, session.id);
    return status == DIBS_OK ? dibs__store_status(tx) : status;
}

dibs_status dibs_mentions_release(dibs *d, dibs_arena *a, const struct dibs_mentions_release *in,
                                  int64_t *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, release_tx, in, out, sizeof *out);
}
