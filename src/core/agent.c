/* SPDX-License-Identifier: MIT */
/*
 * agent.c: durable identities, leads and workers, that offers, messages and mentions address.
 *
 * An agent is made known by registering it, or by the first session that says it belongs to it; it
 * stays known. What it is doing is not written down but read off its sessions: offline without a
 * living one, busy while they hold something, else idle. seen_at is when it was last heard, by a
 * poll or by a session's beginning or end.
 *
 *  1. Ids and names are unique each; a name is what @name in a message means, and is one agent's.
 *  2. Whether a project has a lead is asked for every task that finishes, so the handle remembers
 *     the answer until somebody else has written or an agent was changed.
 */
#include "core/owner.h"
#include "core/swarm.h"

static const char *const names[] = {
    [DIBS_AGENT_IDLE] = "idle", [DIBS_AGENT_BUSY] = "busy", [DIBS_AGENT_OFFLINE] = "offline"};

const char *dibs_agent_status_name(enum dibs_agent_status s)
{
    return (size_t)s < COUNT_OF(names) ? names[s] : "unknown";
}

/* ---- loading --------------------------------------------------------------------------------- */

#define AGENT_COLUMNS                                                                              \
    "key, id, name, project, is_lead, max_tasks, seen_at, capabilities, metadata, registered_at, " \
    "updated_at"

static void read_row(struct tx *tx, struct db_rows *rows, struct agent_row *out)
{
    *out = (struct agent_row){
        .key = db_int(rows, 0),
        .id = db_text(rows, 1, tx->a),
        .name = db_text(rows, 2, tx->a),
        .project = db_text(rows, 3, tx->a),
        .is_lead = db_int(rows, 4) != 0,
        .max_tasks = db_int(rows, 5),
        .seen_at = db_int(rows, 6),
    };
}

static bool read_only_row(struct tx *tx, struct db_rows *rows, struct agent_row *out)
{
    bool found = db_next(rows);
    if (found)
        read_row(tx, rows, out);
    db_done(rows);
    return found && db_ok(tx->db);
}

static bool find(struct tx *tx, const char *id, struct agent_row *out)
{
    return read_only_row(tx,
                         db_query(tx->db, SQL("SELECT " AGENT_COLUMNS " FROM agent WHERE id = $1"),
                                  DB_ARGS(db_t(id))),
                         out);
}

bool dibs__agent_named(struct tx *tx, const char *name, struct agent_row *out)
{
    return read_only_row(tx,
                         db_query(tx->db,
                                  SQL("SELECT " AGENT_COLUMNS " FROM agent WHERE name = $1"),
                                  DB_ARGS(db_t(name))),
                         out);
}

dibs_status dibs__agent_load(struct tx *tx, const char *id, struct agent_row *out)
{
    dibs_status status = dibs__check_id(tx->err, "agentId", id);
    if (status != DIBS_OK || find(tx, id, out))
        return status;
    return dibs__refuse(tx, DIBS_AGENT_NOT_FOUND, "there is no agent '%s'", id);
}

dibs_status dibs__agent_session(struct tx *tx, const struct agent_row *agent,
                                const char *session_id, struct session_row *out)
{
    dibs_status status = dibs__session_load(tx, session_id, out);
    if (status != DIBS_OK || str_eq(out->agent_id, agent->id))
        return status;
    if (out->agent_id)
        return error_field(tx->err, "sessionId", "'%s' is a session of agent '%s', not of '%s'",
                           session_id, out->agent_id, agent->id);
    return error_field(tx->err, "sessionId",
                       "'%s' is a session of no agent; register it with agentId '%s'", session_id,
                       agent->id);
}

/* ---- what it holds --------------------------------------------------------------------------- */

int64_t dibs__agent_tasks_live(struct tx *tx, const char *id)
{
    /* the order of a CROSS JOIN is kept: from the sessions to their claims */
    return db_value_int(
        tx->db, 0,
        SQL("SELECT count(*) FROM session s CROSS JOIN claim c WHERE s.agent_id = $1 AND "
            "s.ended_at IS NULL AND c.session_id = s.id AND c.attention = 1 AND c.ended_at IS NULL "
            "AND c.task_key IS NOT NULL AND c.expires_at > $2"),
        DB_ARGS(db_t(id), db_i(tx->now)));
}

bool dibs__agent_is_full(struct tx *tx, const char *id)
{
    struct agent_row agent = {0};
    if (!find(tx, id, &agent) || dibs__agent_tasks_live(tx, id) < agent.max_tasks)
        return false;
    dibs__wake_when_room(tx, id);
    return true;
}

dibs_status dibs__agent_refuse_full(struct tx *tx, const char *id)
{
    struct agent_row agent = {0};
    return find(tx, id, &agent)
               ? dibs__refuse(tx, DIBS_TASK_NOT_CLAIMABLE,
                              "agent '%s' is at its capacity of %" PRId64, id, agent.max_tasks)
               : dibs__store_status(tx);
}

static bool holds_anything(struct tx *tx, const char *id)
{
    return db_value_int(
               tx->db, 0,
               SQL("SELECT 1 FROM session s CROSS JOIN claim c WHERE s.agent_id = $1 AND "
                   "s.ended_at IS NULL AND c.session_id = s.id AND c.attention = 1 AND c.ended_at "
                   "IS NULL AND c.expires_at > $2 LIMIT 1"),
               DB_ARGS(db_t(id), db_i(tx->now))) == 1;
}

void dibs__agent_seen(struct tx *tx, const char *id)
{
    db_exec(tx->db, SQL("UPDATE agent SET seen_at = $2 WHERE id = $1 AND seen_at < $2"),
            DB_ARGS(db_t(id), db_i(tx->now)));
}

/* ---- leads ----------------------------------------------------------------------------------- */

void dibs__leads_forget(dibs *d)
{
    d->lead.is_known = false;
}

bool dibs__has_lead(struct tx *tx, const char *project)
{
    dibs *d = tx->d;
    if (d->lead.is_known && str_eq(d->lead.project, project))
        return d->lead.has;
    bool has = db_value_int(tx->db, 0,
                            SQL("SELECT 1 FROM agent WHERE is_lead = 1 AND project = $1 LIMIT 1"),
                            DB_ARGS(db_t(project))) == 1;
    d->lead.is_known = db_ok(tx->db) && strlen(project) < sizeof d->lead.project;
    d->lead.has = has;
    str_fit(d->lead.project, sizeof d->lead.project, project);
    return has;
}

/* ---- the whole agent ------------------------------------------------------------------------- */

static struct dibs_strings read_words(struct tx *tx, const char *json)
{
    const char **items = NULL;
    size_t count = 0;
    json_t *list = NULL;
    if (!db_ok(tx->db))
        return (struct dibs_strings){0};
    dibs_status status = json_read(json, strlen(json), &list, tx->err);
    if (status != DIBS_OK) /* it is our own writing, so there was no memory, or it is damaged */
        db_fail(tx->db, status == DIBS_OUT_OF_MEMORY ? status : DIBS_STORE_CORRUPT,
                "cannot read the capabilities of an agent");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char **word = dibs__push(tx, &items, &count, sizeof *word);
        if (word)
            *word = dibs__strdup(tx, json_string_value(json_array_get(list, i)));
    }
    json_decref(list);
    return (struct dibs_strings){.items = items, .count = count};
}

static void read_full(struct tx *tx, struct db_rows *rows, struct dibs_agent *out)
{
    struct agent_row row = {0};
    read_row(tx, rows, &row);
    *out = (struct dibs_agent){
        .id = row.id,
        .name = row.name,
        .project = row.project,
        .is_lead = row.is_lead,
        .max_tasks = row.max_tasks,
        .capabilities = read_words(tx, db_text(rows, 7, tx->a)),
        .metadata = db_text(rows, 8, tx->a),
        .registered_at_ms = db_int(rows, 9),
        .updated_at_ms = db_int(rows, 10),
        .seen_at_ms = row.seen_at,
    };
}

/* What its sessions say of it. */
static void add_state(struct tx *tx, struct dibs_agent *out)
{
    out->sessions_live = db_value_int(
        tx->db, 0, SQL("SELECT count(*) FROM session WHERE agent_id = $1 AND ended_at IS NULL"),
        DB_ARGS(db_t(out->id)));
    out->tasks_live = out->sessions_live > 0 ? dibs__agent_tasks_live(tx, out->id) : 0;
    out->status = DIBS_AGENT_OFFLINE;
    if (out->sessions_live > 0)
        out->status =
            out->tasks_live > 0 || holds_anything(tx, out->id) ? DIBS_AGENT_BUSY : DIBS_AGENT_IDLE;
}

static dibs_status show(struct tx *tx, const char *id, struct dibs_agent *out)
{
    struct db_rows *rows = db_query(
        tx->db, SQL("SELECT " AGENT_COLUMNS " FROM agent WHERE id = $1"), DB_ARGS(db_t(id)));
    bool found = db_next(rows);
    if (found)
        read_full(tx, rows, out);
    db_done(rows);
    if (!found)
        return dibs__refuse(tx, DIBS_AGENT_NOT_FOUND, "there is no agent '%s'", id);
    add_state(tx, out);
    return dibs__store_status(tx);
}

static dibs_status get_tx(struct tx *tx, const void *input, void *output)
{
    dibs_status status = dibs__check_id(tx->err, "id", input);
    return status == DIBS_OK ? show(tx, input, output) : status;
}

dibs_status dibs_agent_get(dibs *d, dibs_arena *a, const char *id, struct dibs_agent *out,
                           struct dibs_error *err)
{
    return dibs__read(d, a, err, get_tx, id, out, sizeof *out);
}

static bool is_wanted(const struct dibs_agent_filter *in, struct db_rows *rows)
{
    if (in->project && !str_eq(in->project, db_text_borrowed(rows, 3)))
        return false;
    return !in->is_lead.given || (in->is_lead.value != 0) == (db_int(rows, 4) != 0);
}

static dibs_status list_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_agent_filter *in = input;
    struct dibs_agent_list *out = output;
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT " AGENT_COLUMNS " FROM agent ORDER BY key"), DB_NO_ARGS);
    while (db_next(rows)) {
        struct dibs_agent *agent =
            is_wanted(in, rows) ? dibs__push(tx, &out->items, &out->count, sizeof *agent) : NULL;
        if (agent)
            read_full(tx, rows, agent);
    }
    db_done(rows);
    for (size_t i = 0; i < out->count && db_ok(tx->db); i++)
        add_state(tx, &out->items[i]);
    return dibs__store_status(tx);
}

dibs_status dibs_agent_list(dibs *d, dibs_arena *a, const struct dibs_agent_filter *in,
                            struct dibs_agent_list *out, struct dibs_error *err)
{
    return dibs__read(d, a, err, list_tx, in, out, sizeof *out);
}

struct reference {
    const char *id, *name; /* one of them */
};

static dibs_status project_tx(struct tx *tx, const void *input, void *output)
{
    struct agent_row agent = {0};
    const struct reference *in = input;
    if (in->id ? find(tx, in->id, &agent) : dibs__agent_named(tx, in->name, &agent))
        *(const char **)output = agent.project;
    return dibs__store_status(tx);
}

dibs_status dibs__agent_project(dibs *d, dibs_arena *a, const char *id, const char **project,
                                struct dibs_error *err)
{
    struct reference in = {.id = id};
    return dibs__read(d, a, err, project_tx, &in, project, sizeof *project);
}

dibs_status dibs__agent_project_named(dibs *d, dibs_arena *a, const char *name,
                                      const char **project, struct dibs_error *err)
{
    struct reference in = {.name = name};
    return dibs__read(d, a, err, project_tx, &in, project, sizeof *project);
}

/* ---- registering ----------------------------------------------------------------------------- */

static bool is_name(const char *text)
{
    size_t bytes = strlen(text);
    return str_is_id(text) && bytes <= AGENT_NAME_BYTES_MAX && strchr(text, ':') == NULL;
}

static dibs_status check_name(struct tx *tx, const char *name)
{
    if (is_name(name))
        return DIBS_OK;
    return error_field(tx->err, "name", "must be 1 to %d of A-Z a-z 0-9 . _ -",
                       AGENT_NAME_BYTES_MAX);
}

static dibs_status check_words(struct tx *tx, const struct dibs_strings *words)
{
    if (words && words->count > CAPABILITIES_MAX)
        return error_field(tx->err, "capabilities", "has more than %d entries", CAPABILITIES_MAX);
    dibs_status status = DIBS_OK;
    for (size_t i = 0; words && i < words->count && status == DIBS_OK; i++)
        status = dibs__check_required(tx->err, "capabilities", words->items[i], WORD_BYTES_MAX);
    return status;
}

static dibs_status check_new(struct tx *tx, const struct dibs_agent_new *in)
{
    dibs_status status = DIBS_OK;
    if (!in->id && !in->name)
        status = error_field(tx->err, "name", "is required");
    if (status == DIBS_OK && in->id)
        status = dibs__check_id(tx->err, "id", in->id);
    if (status == DIBS_OK && in->name)
        status = check_name(tx, in->name);
    if (status == DIBS_OK)
        status = dibs__check_text(tx->err, "project", in->project, WORD_BYTES_MAX);
    if (status == DIBS_OK && in->max_tasks.given)
        status = dibs__check_range(tx->err, "maxTasks", in->max_tasks.value, 1, AGENT_TASKS_MAX);
    if (status == DIBS_OK)
        status = check_words(tx, in->capabilities);
    if (status == DIBS_OK)
        status = json_check(in->metadata, JSON_VALUE_BYTES_MAX, "metadata", tx->err);
    return status;
}

static const char *words_text(struct tx *tx, struct dibs_strings words)
{
    struct buf text;
    struct jw w;
    buf_init(&text, JSON_VALUE_BYTES_MAX);
    jw_init(&w, &text);
    jw_array(&w);
    for (size_t i = 0; i < words.count; i++)
        jw_text(&w, words.items[i]);
    jw_array_end(&w);
    const char *copy = buf_ok(&text) ? dibs__strdup(tx, text.data) : NULL;
    if (!copy)
        db_fail(tx->db, DIBS_OUT_OF_MEMORY, "out of memory");
    buf_release(&text);
    return copy;
}

/* Writes all that can be chosen, and tells. Whoever waits for room may have it now. */
static void save(struct tx *tx, const struct dibs_agent *agent)
{
    const char *words = words_text(tx, agent->capabilities);
    db_exec(tx->db,
            SQL("INSERT INTO agent (id, name, project, is_lead, max_tasks, capabilities, metadata, "
                "registered_at, updated_at, seen_at) "
                "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $8) "
                "ON CONFLICT (id) DO UPDATE SET name = excluded.name, project = excluded.project, "
                "is_lead = excluded.is_lead, max_tasks = excluded.max_tasks, "
                "capabilities = excluded.capabilities, metadata = excluded.metadata, "
                "updated_at = excluded.updated_at"),
            DB_ARGS(db_t(agent->id), db_t(agent->name), db_t(agent->project), db_i(agent->is_lead),
                    db_i(agent->max_tasks), db_t(words), db_t(agent->metadata), db_i(tx->now)));
    dibs__leads_forget(tx->d);
    dibs__wake_agent(tx, agent->id);
    struct event_head head = {.type = agent->created ? "agent:registered" : "agent:updated",
                              .project = agent->project,
                              .held_ms = -1};
    struct jw *w = dibs__event_begin(tx, &head);
    jw_ktext(w, "agentId", agent->id);
    jw_ktext(w, "name", agent->name);
    jw_ktext(w, "project", agent->project);
    jw_kbool(w, "isLead", agent->is_lead);
    jw_kint(w, "maxTasks", agent->max_tasks);
    jw_kstrings(w, "capabilities", agent->capabilities);
    jw_kraw_opt(w, "metadata", agent->metadata);
    dibs__event_end(tx);
}

static dibs_status find_or_begin(struct tx *tx, const struct dibs_agent_new *in,
                                 struct dibs_agent *out)
{
    struct agent_row known = {0};
    const char *id = in->id;
    if (!id)
        id = dibs__agent_named(tx, in->name, &known) ? known.id : in->name;
    if (find(tx, id, &known))
        return show(tx, id, out);
    if (dibs__is_reserved_id(id))
        return error_field(tx->err, in->id ? "id" : "name",
                           "'%s' is a word that paths use; choose another", id);
    *out = (struct dibs_agent){
        .id = id, .name = id, .project = "default", .max_tasks = 1, .created = true};
    return in->name ? DIBS_OK : check_name(tx, id);
}

static bool same_words(struct dibs_strings a, struct dibs_strings b)
{
    bool same = a.count == b.count;
    for (size_t i = 0; same && i < a.count; i++)
        same = str_eq(a.items[i], b.items[i]);
    return same;
}

static bool same_choices(const struct dibs_agent *a, const struct dibs_agent *b)
{
    return str_eq(a->name, b->name) && str_eq(a->project, b->project) && a->is_lead == b->is_lead &&
           a->max_tasks == b->max_tasks && same_words(a->capabilities, b->capabilities) &&
           str_eq(a->metadata, b->metadata);
}

static void choose(const struct dibs_agent_new *in, struct dibs_agent *agent)
{
    agent->name = in->name ? in->name : agent->name;
    agent->project = in->project && *in->project ? in->project : agent->project;
    agent->is_lead = in->is_lead.given ? in->is_lead.value != 0 : agent->is_lead;
    agent->max_tasks = in->max_tasks.given ? in->max_tasks.value : agent->max_tasks;
    agent->capabilities = in->capabilities ? *in->capabilities : agent->capabilities;
    agent->metadata = in->metadata ? in->metadata : agent->metadata;
}

static dibs_status register_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_agent_new *in = input;
    struct dibs_agent agent = {0};
    struct agent_row other = {0};
    dibs_status status = check_new(tx, in);
    if (status == DIBS_OK)
        status = find_or_begin(tx, in, &agent);
    if (status != DIBS_OK)
        return status;
    struct dibs_agent before = agent;
    choose(in, &agent);
    if (dibs__agent_named(tx, agent.name, &other) && !str_eq(other.id, agent.id))
        return dibs__refuse(tx, DIBS_AGENT_EXISTS, "agent '%s' has the name '%s' already", other.id,
                            agent.name);
    if (agent.created || !same_choices(&before, &agent))
        save(tx, &agent);
    status = dibs__store_status(tx);
    if (status == DIBS_OK)
        status = show(tx, agent.id, output);
    ((struct dibs_agent *)output)->created = agent.created;
    return status;
}

dibs_status dibs_agent_register(dibs *d, dibs_arena *a, const struct dibs_agent_new *in,
                                struct dibs_agent *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, register_tx, in, out, sizeof *out);
}

/* A name for an agent that chose none: its id, unless that is another's name. */
static const char *free_name(struct tx *tx, const char *id)
{
    struct agent_row taken = {0};
    const char *name = id;
    while (name && dibs__agent_named(tx, name, &taken))
        name = dibs__printf(tx, "agent-%" PRId64, dibs__counter_take(tx, COUNTER_AGENT, 1));
    return name;
}

void dibs__agent_ensure(struct tx *tx, const char *id, const char *project)
{
    struct agent_row known = {0};
    if (find(tx, id, &known)) {
        dibs__agent_seen(tx, id);
        return;
    }
    save(tx, &(struct dibs_agent){.id = id,
                                  .name = free_name(tx, id),
                                  .project = project,
                                  .max_tasks = 1,
                                  .created = true});
}
