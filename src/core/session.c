/* SPDX-License-Identifier: MIT */
/*
 * session.c: the processes that hold claims.
 *
 *   register --> active --silent for staleThreshold--> stale --silent for orphanThreshold--> ended
 *   (cleanup.c) active, stale --deregister--> ended      any --register again--> active, next
 *   incarnation anything the session does (claim, heartbeat, report) makes it active again
 *
 *  1. Rows are updated in place and never deleted: registering an id again keeps its claims.
 *  2. The heartbeat of a claim is one of its session too; there is no second one to forget.
 *  3. A process is known by host, pid and start time together, as pids are used again.
 */
#include "core/swarm.h"

static const char *const names[] = {[DIBS_SESSION_ACTIVE] = "active",
                                    [DIBS_SESSION_STALE] = "stale",
                                    [DIBS_SESSION_ENDED] = "ended"};

const char *dibs_session_status_name(enum dibs_session_status s)
{
    return (size_t)s < COUNT_OF(names) ? names[s] : "unknown";
}

static enum dibs_session_status read_status(const char *word)
{
    if (str_eq(word, "active"))
        return DIBS_SESSION_ACTIVE;
    return str_eq(word, "stale") ? DIBS_SESSION_STALE : DIBS_SESSION_ENDED;
}

const char *dibs__session_agent(const struct session_row *s)
{
    return s->agent_id ? s->agent_id : s->id;
}

/* Reads a session whatever its status; false when there is none. */
static bool find_row(struct tx *tx, const char *id, struct session_row *out)
{
    struct db_rows *rows = db_query(
        tx->db,
        SQL("SELECT key, id, project, agent_type, agent_id, incarnation, status, last_token "
            "FROM session WHERE id = $1"),
        DB_ARGS(db_t(id)));
    bool found = db_next(rows);
    if (found)
        *out = (struct session_row){
            .key = db_int(rows, 0),
            .id = db_text(rows, 1, tx->a),
            .project = db_text(rows, 2, tx->a),
            .agent_type = db_text(rows, 3, tx->a),
            .agent_id = db_text(rows, 4, tx->a),
            .incarnation = db_int(rows, 5),
            .status = read_status(db_text_borrowed(rows, 6)),
            .last_token = db_int(rows, 7),
        };
    db_done(rows);
    return found && db_ok(tx->db);
}

dibs_status dibs__session_load(struct tx *tx, const char *id, struct session_row *out)
{
    dibs_status status = dibs__check_id(tx->err, "sessionId", id);
    if (status != DIBS_OK)
        return status;
    if (!find_row(tx, id, out))
        return dibs__refuse(tx, DIBS_SESSION_NOT_FOUND,
                            "there is no session '%s'; register it first", id);
    if (out->status == DIBS_SESSION_ENDED)
        return dibs__refuse(tx, DIBS_SESSION_NOT_FOUND, "session '%s' has ended; register it again",
                            id);
    return DIBS_OK;
}

void dibs__session_revive(struct tx *tx, const char *session_id)
{
    db_exec(tx->db, SQL("UPDATE session SET status = 'active' WHERE id = $1 AND status = 'stale'"),
            DB_ARGS(db_t(session_id)));
    if (db_changes(tx->db) == 0 || !db_ok(tx->db))
        return;
    struct event_head head = {.type = "session:active", .session_id = session_id, .held_ms = -1};
    struct jw *w = dibs__event_begin(tx, &head);
    jw_ktext(w, "sessionId", session_id);
    dibs__event_end(tx);
}

void dibs__session_touch(struct tx *tx, const char *session_id)
{
    tx->d->heard = true;
    dibs__session_revive(tx, session_id);
    db_exec(tx->db, SQL("UPDATE session SET heartbeat_at = $2 WHERE id = $1 AND ended_at IS NULL"),
            DB_ARGS(db_t(session_id), db_i(tx->now)));
}

int64_t dibs__heard_every_ms(const dibs *d)
{
    const struct dibs_settings *s = &d->settings;
    int64_t half = s->stale_threshold_ms / 2;
    return s->heartbeat_interval_ms < half ? s->heartbeat_interval_ms : half;
}

bool dibs__session_waits(struct tx *tx, const char *session_id)
{
    bool is_old =
        db_value_int(tx->db, 0, SQL("SELECT 1 FROM session WHERE id = $1 AND heartbeat_at <= $2"),
                     DB_ARGS(db_t(session_id), db_i(tx->now - dibs__heard_every_ms(tx->d)))) == 1;
    if (is_old)
        dibs__session_touch(tx, session_id);
    return is_old;
}

void dibs__session_end(struct tx *tx, const char *id, const char *reason)
{
    db_exec(tx->db,
            SQL("UPDATE session SET status = 'ended', ended_at = $2, end_reason = $3 WHERE id = $1 "
                "AND ended_at IS NULL"),
            DB_ARGS(db_t(id), db_i(tx->now), db_t(reason)));
    db_exec(tx->db,
            SQL("UPDATE agent SET seen_at = $2 WHERE id = (SELECT agent_id FROM session WHERE id = "
                "$1)"),
            DB_ARGS(db_t(id), db_i(tx->now)));
    dibs__offers_expect(tx, NULL);
}

enum dibs_process dibs__session_process(struct tx *tx, const char *session_id)
{
    const struct dibs_platform *p = tx->d->platform;
    enum dibs_process state = DIBS_PROCESS_UNKNOWN;
    char here[129] = "";
    p->host(p->context, here);
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT host, pid, process_start FROM session WHERE id = $1"),
                 DB_ARGS(db_t(session_id)));
    if (db_next(rows) && str_eq(db_text_borrowed(rows, 0), here) && db_int(rows, 1) > 0)
        state = p->process_state(p->context, db_int(rows, 1), db_text_borrowed(rows, 2));
    db_done(rows);
    return state;
}

/* ---- reading --------------------------------------------------------------------------------- */

#define SESSION_COLUMNS                                                                            \
    "s.key, s.id, s.project, s.agent_type, s.agent_id, s.host, s.metadata, s.pid, "                \
    "s.process_start, s.incarnation, "                                                             \
    "s.status, s.registered_at, s.heartbeat_at, s.ended_at, s.end_reason, s.claims_total, "        \
    "s.claims_completed, "                                                                         \
    "s.last_token"

static bool is_silent(const struct tx *tx, int64_t heartbeat_at)
{
    return tx->now - heartbeat_at > tx->d->settings.stale_threshold_ms;
}

static void read_full(struct tx *tx, struct db_rows *rows, struct dibs_session *out,
                      int64_t *last_token)
{
    *out = (struct dibs_session){
        .id = db_text(rows, 1, tx->a),
        .project = db_text(rows, 2, tx->a),
        .agent_type = db_text(rows, 3, tx->a),
        .agent_id = db_text(rows, 4, tx->a),
        .host = db_text(rows, 5, tx->a),
        .metadata = db_text(rows, 6, tx->a),
        .pid = db_int(rows, 7),
        .process_start = db_text(rows, 8, tx->a),
        .incarnation = db_int(rows, 9),
        .status = read_status(db_text_borrowed(rows, 10)),
        .registered_at_ms = db_int(rows, 11),
        .heartbeat_at_ms = db_int(rows, 12),
        .ended_at_ms = db_int(rows, 13),
        .end_reason = db_text(rows, 14, tx->a),
        .claims_total = db_int(rows, 15),
        .claims_completed = db_int(rows, 16),
    };
    *last_token = db_int(rows, 17);
    if (out->status == DIBS_SESSION_ACTIVE && is_silent(tx, out->heartbeat_at_ms))
        out->status = DIBS_SESSION_STALE; /* before any sweep has said so */
}

/* Without claims a session is judged by its silence alone; one that has ended is expired. */
static enum dibs_health own_health(const struct tx *tx, const struct dibs_session *s)
{
    if (s->status == DIBS_SESSION_ENDED)
        return DIBS_HEALTH_EXPIRED;
    return is_silent(tx, s->heartbeat_at_ms) ? DIBS_HEALTH_STALE : DIBS_HEALTH_HEALTHY;
}

static void read_current(struct tx *tx, struct dibs_session *out)
{
    out->health = own_health(tx, out);
    struct claim_row newest = {0};
    struct db_rows *rows = db_query(tx->db,
                                    SQL("SELECT " CLAIM_COLUMNS
                                        " FROM claim c WHERE c.session_id = $1 AND c.attention = 1 "
                                        "AND c.ended_at IS NULL ORDER BY c.token"),
                                    DB_ARGS(db_t(out->id)));
    while (db_next(rows)) {
        struct claim_row c;
        dibs__claim_row_read(tx, rows, 0, &c);
        if (dibs__claim_is_lock(&c))
            out->locks_live++;
        else
            out->claims_live++;
        if (!c.resource)
            newest = c;
        enum dibs_health health = dibs__claim_health(tx, &c);
        out->health = health < out->health ? health : out->health; /* worst first */
    }
    db_done(rows);
    struct task_row task = {0};
    struct dibs_granted *current = newest.token ? dibs__alloc(tx, sizeof *current) : NULL;
    if (!current || !dibs__task_load_key(tx, newest.task_key, &task))
        return;
    dibs__task_full(tx, &task, &current->task);
    dibs__claim_full(tx, &newest, task.id, &current->claim);
    out->current = current;
}

static void read_history(struct tx *tx, int64_t last_token, struct dibs_session *out)
{
    struct claim_row c = {0};
    for (int64_t token = last_token; token && out->history.count < CLAIM_HISTORY_SHOWN;
         token = c.before_in_session) {
        struct task_row task = {0};
        if (!dibs__claim_load(tx, token, &c) || !dibs__task_load_key(tx, c.task_key, &task))
            return;
        if (!c.ended_at || !str_eq(c.kind, "task"))
            continue;
        struct dibs_claim *claim =
            dibs__push(tx, &out->history.items, &out->history.count, sizeof *claim);
        if (claim)
            dibs__claim_full(tx, &c, task.id, claim);
    }
}

dibs_status dibs__session_read(struct tx *tx, const char *id, bool with_history,
                               struct dibs_session *out)
{
    int64_t last_token = 0;
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT " SESSION_COLUMNS " FROM session s WHERE s.id = $1"),
                 DB_ARGS(db_t(id)));
    bool found = db_next(rows);
    if (found)
        read_full(tx, rows, out, &last_token);
    db_done(rows);
    if (!found)
        return dibs__refuse(tx, DIBS_SESSION_NOT_FOUND,
                            "there is no session '%s'; register it first", id);
    read_current(tx, out);
    if (with_history)
        read_history(tx, last_token, out);
    return dibs__store_status(tx);
}

static dibs_status get_tx(struct tx *tx, const void *input, void *output)
{
    dibs_status status = dibs__check_id(tx->err, "sessionId", input);
    return status == DIBS_OK ? dibs__session_read(tx, input, true, output) : status;
}

dibs_status dibs_session_get(dibs *d, dibs_arena *a, const char *session_id,
                             struct dibs_session *out, struct dibs_error *err)
{
    return dibs__read(d, a, err, get_tx, session_id, out, sizeof *out);
}

static dibs_status list_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_session_filter *in = input;
    struct dibs_session_list *out = output;
    int64_t after = 0, limit = 0, last_token = 0;
    if (in->cursor && !str_to_int(in->cursor, &after))
        return error_field(tx->err, "cursor", "is not one that a list has returned");
    dibs_status status = dibs__check_limit(tx->err, in->limit, &limit);
    if (status != DIBS_OK)
        return status;
    struct db_rows *rows =
        in->include_ended
            ? db_query(
                  tx->db,
                  SQL("SELECT " SESSION_COLUMNS " FROM session s WHERE s.key > $1 ORDER BY s.key"),
                  DB_ARGS(db_i(after)))
            : db_query(
                  tx->db,
                  SQL("SELECT " SESSION_COLUMNS
                      " FROM session s WHERE s.ended_at IS NULL AND s.key > $1 ORDER BY s.key"),
                  DB_ARGS(db_i(after)));
    while (db_next(rows)) {
        if (in->project && !str_eq(in->project, db_text_borrowed(rows, 2)))
            continue;
        if ((int64_t)out->count == limit) {
            out->next_cursor = dibs__printf(tx, "%" PRId64, after);
            break;
        }
        struct dibs_session *s = dibs__push(tx, &out->items, &out->count, sizeof *s);
        if (!s)
            break;
        read_full(tx, rows, s, &last_token);
        read_current(tx, s);
        after = db_int(rows, 0);
    }
    db_done(rows);
    return dibs__store_status(tx);
}

dibs_status dibs_session_list(dibs *d, dibs_arena *a, const struct dibs_session_filter *in,
                              struct dibs_session_list *out, struct dibs_error *err)
{
    return dibs__read(d, a, err, list_tx, in, out, sizeof *out);
}

/* ---- registering ----------------------------------------------------------------------------- */

static dibs_status check_new(struct tx *tx, const struct dibs_session_new *in)
{
    dibs_status status = in->id ? dibs__check_id(tx->err, "id", in->id) : DIBS_OK;
    if (status == DIBS_OK && in->id && dibs__is_reserved_id(in->id))
        status =
            error_field(tx->err, "id", "'%s' is a word that paths use; choose another", in->id);
    if (status == DIBS_OK)
        status = dibs__check_text(tx->err, "project", in->project, WORD_BYTES_MAX);
    if (status == DIBS_OK)
        status = dibs__check_text(tx->err, "agentType", in->agent_type, WORD_BYTES_MAX);
    if (status == DIBS_OK && in->agent_id)
        status = dibs__check_id(tx->err, "agentId", in->agent_id);
    if (status == DIBS_OK && in->agent_id && dibs__is_reserved_id(in->agent_id))
        status = error_field(tx->err, "agentId", "'%s' is a word that paths use; choose another",
                             in->agent_id);
    if (status == DIBS_OK)
        status = dibs__check_text(tx->err, "host", in->host, WORD_BYTES_MAX);
    if (status == DIBS_OK)
        status = dibs__check_range(tx->err, "pid", in->pid, 0, INT32_MAX);
    if (status == DIBS_OK)
        status = json_check(in->metadata, JSON_VALUE_BYTES_MAX, "metadata", tx->err);
    return status;
}

static const char *next_session_id(struct tx *tx)
{
    const char *id = NULL;
    struct session_row taken;
    do { /* somebody may have chosen a number as an id of their own */
        id = dibs__printf(tx, "%" PRId64, dibs__counter_take(tx, COUNTER_SESSION, 1));
    } while (id && find_row(tx, id, &taken));
    return id;
}

/* On this host the start time of the process is read now: the pid alone would also name a later
 * process. */
static const char *process_start(struct tx *tx, const struct dibs_session_new *in,
                                 const char *this_host)
{
    const struct dibs_platform *p = tx->d->platform;
    char start[64] = "";
    bool here = in->pid > 0 && (!in->host || str_eq(in->host, this_host));
    if (!here || !p->process_start(p->context, in->pid, start))
        return NULL;
    return dibs__strdup(tx, start);
}

/* If the session had another agent before, that has one less: room for what the session holds, and
 * perhaps nobody to answer an offer. */
static void leave_agent(struct tx *tx, const struct session_row *before, const char *agent_id)
{
    bool is_gone = before->status == DIBS_SESSION_ENDED; /* it has left then */
    if (!before->agent_id || is_gone || str_eq(before->agent_id, agent_id))
        return;
    dibs__wake_agent(tx, before->agent_id);
    dibs__agent_seen(tx, before->agent_id);
    dibs__offers_expect(tx, NULL);
}

static dibs_status register_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_session_new *in = input;
    struct session_row before = {0};
    char host[129] = "";
    dibs_status status = check_new(tx, in);
    if (status != DIBS_OK)
        return status;
    tx->d->platform->host(tx->d->platform->context, host);
    const char *id = in->id ? in->id : next_session_id(tx);
    bool known = in->id && find_row(tx, id, &before);
    int64_t incarnation = known ? before.incarnation + 1 : 1;
    const char *project = in->project && *in->project ? in->project
                          : known                     ? before.project
                                                      : "default";
    db_exec(tx->db,
            SQL("INSERT INTO session (id, project, agent_type, agent_id, host, pid, process_start, "
                "metadata, incarnation, "
                "status, registered_at, heartbeat_at) "
                "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'active', $10, $10) "
                "ON CONFLICT (id) DO UPDATE SET project = excluded.project, "
                "agent_type = coalesce(excluded.agent_type, session.agent_type), "
                "agent_id = coalesce(excluded.agent_id, session.agent_id), host = excluded.host, "
                "pid = excluded.pid, "
                "process_start = excluded.process_start, metadata = coalesce(excluded.metadata, "
                "session.metadata), "
                "incarnation = excluded.incarnation, status = 'active', registered_at = "
                "excluded.registered_at, "
                "heartbeat_at = excluded.heartbeat_at, ended_at = NULL, end_reason = NULL, "
                "key_id = NULL"),
            DB_ARGS(db_t(id), db_t(project), db_t(in->agent_type), db_t(in->agent_id),
                    db_t(in->host ? in->host : host), db_i_or_null(in->pid),
                    db_t(process_start(tx, in, host)), db_t(in->metadata), db_i(incarnation),
                    db_i(tx->now)));
    /* whoever waited for a lock under this id waits no more: a grant would find nobody at home */
    if (known)
        dibs__tickets_drop(tx, id);
    status = dibs__session_read(tx, id, false, output);
    if (status != DIBS_OK)
        return status;
    const struct dibs_session *s = output;
    if (s->agent_id)
        dibs__agent_ensure(tx, s->agent_id, s->project);
    leave_agent(tx, &before, s->agent_id);
    struct event_head head = {
        .type = "session:registered", .project = s->project, .session_id = s->id, .held_ms = -1};
    struct jw *w = dibs__event_begin(tx, &head);
    jw_ktext(w, "sessionId", s->id);
    jw_ktext(w, "project", s->project);
    jw_kint(w, "incarnation", s->incarnation);
    jw_ktext_opt(w, "agentType", s->agent_type);
    jw_ktext_opt(w, "agentId", s->agent_id);
    jw_ktext_opt(w, "host", s->host);
    jw_kint_opt(w, "pid", s->pid);
    jw_ktext_opt(w, "processStart", s->process_start);
    jw_kraw_opt(w, "metadata", s->metadata);
    dibs__event_end(tx);
    return dibs__store_status(tx);
}

dibs_status dibs_session_register(dibs *d, dibs_arena *a, const struct dibs_session_new *in,
                                  struct dibs_session *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, register_tx, in, out, sizeof *out);
}
