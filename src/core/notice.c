/* SPDX-License-Identifier: MIT */
/*
 * notice.c: the leads of a project are told once of each task that a worker finished.
 *
 *   (task completed, or failed for good) --> untold --take--> told
 *                                            untold --take, manual--> claimed --ack--> told
 *                                            claimed --lease ends, release--> untold
 *
 *  1. Remembered is only what finishes while the project has a lead, and was not done by a lead:
 *     without a lead nothing is written.
 *  2. A task that is reopened is not finished: its notice is gone, and it is told of again when it
 *     finishes again.
 *  3. A notice is claimed exactly while its row has the token of a live claim.
 *  4. An acknowledgement is of the finish that the session was told of, not of a later one.
 */
#include "core/swarm.h"

#define NOTICES_DEFAULT 50

struct notice_row {
    int64_t task_key;
    const char *task_id, *project;
    int64_t token, notified_at;
    int64_t finished_token; /* of the claim under which the task was finished */
};

#define NOTICE_COLUMNS "n.task_key, t.id, n.project, n.token, n.notified_at, t.last_token"
#define NOTICE_FROM " FROM notice n JOIN task t ON t.key = n.task_key "

static void row_read(struct tx *tx, struct db_rows *rows, struct notice_row *out)
{
    *out = (struct notice_row){.task_key = db_int(rows, 0),
                               .task_id = db_text(rows, 1, tx->a),
                               .project = db_text(rows, 2, tx->a),
                               .token = db_int(rows, 3),
                               .notified_at = db_int(rows, 4),
                               .finished_token = db_int(rows, 5)};
}

static bool find_row(struct tx *tx, const char *task_id, struct notice_row *out)
{
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT " NOTICE_COLUMNS NOTICE_FROM "WHERE t.id = $1"),
                 DB_ARGS(db_t(task_id)));
    bool found = db_next(rows);
    if (found)
        row_read(tx, rows, out);
    db_done(rows);
    return found && db_ok(tx->db);
}

/* Begins an event about some tasks; `c`: the claim it is about, or NULL. */
static struct jw *begin(struct tx *tx, const char *type, const char *project,
                        struct dibs_strings tasks, const struct claim_row *c, bool ends)
{
    int64_t held_ms = ends ? dibs__held_ms(tx, c) : -1;
    struct event_head head = {.type = type,
                              .project = project,
                              .session_id = c->session_id,
                              .agent = dibs__claim_agent(c),
                              .held_ms = held_ms};
    struct jw *w = dibs__event_begin(tx, &head);
    jw_kstrings(w, "taskIds", tasks);
    jw_ktext(w, "sessionId", c->session_id);
    jw_ktext_opt(w, "agentId", c->agent_id);
    jw_kint_opt(w, "token", c->token);
    if (ends)
        jw_kint(w, "heldForMs", held_ms);
    return w;
}

/* ---- what there is to tell ------------------------------------------------------------------- */

static bool is_lead(struct tx *tx, const char *agent_id)
{
    return agent_id && db_value_int(tx->db, 0, SQL("SELECT is_lead FROM agent WHERE id = $1"),
                                    DB_ARGS(db_t(agent_id))) == 1;
}

void dibs__notice_drop(struct tx *tx, const struct task_row *task, const char *reason)
{
    struct notice_row n = {0};
    struct claim_row c = {0};
    if (!(task->parts & PART_NOTICE) || !find_row(tx, task->id, &n))
        return;
    db_exec(tx->db, SQL("DELETE FROM notice WHERE task_key = $1"), DB_ARGS(db_i(task->key)));
    if (!dibs__claim_load(tx, n.token, &c) || c.ended_at)
        return;
    dibs__claim_close(tx, &c, reason, false);
    struct jw *w = begin(tx, "notices:released", n.project, DIBS_STRINGS(task->id), &c, true);
    jw_ktext(w, "reason", reason);
    dibs__event_end(tx);
}

void dibs__notice_add(struct tx *tx, const struct task_row *task, const char *agent_id)
{
    if (!dibs__has_lead(tx, task->project) || is_lead(tx, agent_id))
        return;
    dibs__notice_drop(tx, task, "finished_again");
    dibs__task_add_parts(tx, task->key, PART_NOTICE);
    db_exec(tx->db, SQL("INSERT INTO notice (task_key, project, finished_at) VALUES ($1, $2, $3)"),
            DB_ARGS(db_i(task->key), db_t(task->project), db_i(tx->now)));
    dibs__wake_leads(tx, task->project);
}

/* ---- telling --------------------------------------------------------------------------------- */

static void mark_told(struct tx *tx, int64_t task_key)
{
    db_exec(tx->db, SQL("UPDATE notice SET notified_at = $2, token = NULL WHERE task_key = $1"),
            DB_ARGS(db_i(task_key), db_i(tx->now)));
}

static void tell_told(struct tx *tx, const char *project, struct dibs_strings tasks,
                      const struct claim_row *c, bool ends)
{
    struct jw *w = begin(tx, "notices:told", project, tasks, c, ends);
    jw_ktime(w, "notifiedAt", tx->now);
    dibs__event_end(tx);
}

static void claim_one(struct tx *tx, const struct session_row *session, const struct notice_row *n,
                      int64_t ttl_ms, struct dibs_notices *out)
{
    struct claim_row c = {0};
    dibs__subject_claim(tx, session, "notice", n->task_id, ttl_ms, &c);
    db_exec(tx->db, SQL("UPDATE notice SET token = $2 WHERE task_key = $1"),
            DB_ARGS(db_i(n->task_key), db_i(c.token)));
    struct jw *w = begin(tx, "notices:claimed", n->project, DIBS_STRINGS(n->task_id), &c, false);
    jw_kint(w, "incarnation", c.incarnation);
    jw_ktime(w, "claimedAt", c.claimed_at);
    jw_ktime(w, "expiresAt", c.expires_at);
    jw_kint(w, "ttlMs", c.ttl);
    dibs__event_end(tx);
    struct dibs_claim *claim =
        dibs__push(tx, &out->claims.items, &out->claims.count, sizeof *claim);
    if (claim)
        dibs__claim_full(tx, &c, NULL, claim);
}

static size_t find_untold(struct tx *tx, const char *project, int64_t count,
                          struct notice_row **found)
{
    size_t found_count = 0;
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT " NOTICE_COLUMNS NOTICE_FROM
                     "WHERE n.project = $1 AND n.notified_at IS NULL AND n.token IS NULL "
                     "ORDER BY n.finished_at, n.task_key LIMIT $2"),
                 DB_ARGS(db_t(project), db_i(count)));
    while (db_next(rows)) {
        struct notice_row *n = dibs__push(tx, found, &found_count, sizeof *n);
        if (n)
            row_read(tx, rows, n);
    }
    db_done(rows);
    return db_ok(tx->db) ? found_count : 0;
}

static void add_task(struct tx *tx, const struct notice_row *n, struct dibs_notices *out)
{
    struct task_row row = {0};
    struct dibs_task *task = dibs__push(tx, &out->tasks.items, &out->tasks.count, sizeof *task);
    if (task && dibs__task_load_key(tx, n->task_key, &row))
        dibs__task_full(tx, &row, task);
}

void dibs__notices_take(struct tx *tx, const struct agent_row *agent,
                        const struct session_row *session, int64_t count, bool manual,
                        int64_t ttl_ms, struct dibs_notices *out)
{
    struct notice_row *found = NULL;
    size_t n = find_untold(tx, agent->project, count ? count : NOTICES_DEFAULT, &found);
    const char **ids = n > 0 ? dibs__alloc(tx, n * sizeof *ids) : NULL;
    if (!ids)
        return;
    dibs__session_touch(tx, session->id);
    for (size_t i = 0; i < n && db_ok(tx->db); i++) {
        ids[i] = found[i].task_id;
        if (manual)
            claim_one(tx, session, &found[i], ttl_ms, out);
        else
            mark_told(tx, found[i].task_key);
        add_task(tx, &found[i], out);
    }
    if (!manual)
        tell_told(tx, agent->project, (struct dibs_strings){.items = ids, .count = n},
                  &(struct claim_row){.session_id = session->id, .agent_id = agent->id}, false);
}

static dibs_status claim_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_notices_claim *in = input;
    struct dibs_notices *out = output;
    struct agent_row agent = {0};
    struct session_row session = {0};
    dibs_status status = dibs__check_range(tx->err, "count", in->count, 0, PAGE_MAX);
    if (status == DIBS_OK)
        status = dibs__check_ttl(tx, "ttlMs", in->ttl_ms);
    if (status == DIBS_OK)
        status = dibs__agent_load(tx, in->agent_id, &agent);
    if (status == DIBS_OK && !agent.is_lead)
        status = error_field(tx->err, "agentId", "'%s' is not a lead", agent.id);
    if (status == DIBS_OK)
        status = dibs__agent_session(tx, &agent, in->session_id, &session);
    if (status != DIBS_OK)
        return status;
    int64_t ended = 0;
    do { /* what leases that have ended held is to be told again */
        ended = dibs__expire_due(tx, EXPIRE_BATCH_MAX, NULL);
        tx->keep = tx->keep || ended > 0;
        dibs__notices_take(tx, &agent, &session, in->count, in->manual, in->ttl_ms, out);
    } while (out->tasks.count == 0 && ended == EXPIRE_BATCH_MAX && db_ok(tx->db));
    if (out->tasks.count == 0)
        return dibs__refuse(tx, DIBS_NOTHING_TO_CLAIM,
                            "no task of project '%s' has finished that no lead was told of",
                            agent.project);
    return dibs__store_status(tx);
}

dibs_status dibs_notices_claim(dibs *d, dibs_arena *a, const struct dibs_notices_claim *in,
                               struct dibs_notices *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, claim_tx, in, out, sizeof *out);
}

/* ---- acknowledging, letting go --------------------------------------------------------------- */

/* Whether the session was told of this finish, and not of an earlier one, by a claim that has ended
 * without the session having heard so. */
static bool was_told(struct tx *tx, const struct session_row *session, const struct notice_row *n)
{
    return db_value_int(tx->db, 0,
                        SQL("SELECT 1 FROM claim WHERE session_id = $1 AND attention = 1 AND "
                            "kind = 'notice' AND resource = $2 AND token > $3 LIMIT 1"),
                        DB_ARGS(db_t(session->id), db_t(n->task_id), db_i(n->finished_token))) == 1;
}

/* Told by a claim of this session; also after its lease has ended, while nobody else is being
 * told. */
static bool ack_one(struct tx *tx, const struct session_row *session, const char *task_id)
{
    struct notice_row n = {0};
    struct claim_row c = {.session_id = session->id, .agent_id = session->agent_id};
    if (!find_row(tx, task_id, &n) || n.notified_at)
        return false;
    bool held = dibs__claim_load(tx, n.token, &c);
    bool mine = held ? str_eq(c.session_id, session->id) : was_told(tx, session, &n);
    if (!mine)
        return false;
    if (held)
        dibs__claim_close(tx, &c, "acknowledged", true);
    mark_told(tx, n.task_key);
    tell_told(tx, n.project, DIBS_STRINGS(n.task_id), &c, held);
    return true;
}

/* Only what the session holds can be let go. */
static bool release_one(struct tx *tx, const struct session_row *session, const char *task_id)
{
    struct notice_row n = {0};
    struct claim_row c = {0};
    if (!find_row(tx, task_id, &n) || !dibs__claim_load(tx, n.token, &c) ||
        !str_eq(c.session_id, session->id))
        return false;
    dibs__claim_put_back(tx, &c, "released", true, PUT_BACK_GIVEN);
    return true;
}

/* The tasks that the session is being told of, or was and has not heard that this is over. */
static struct dibs_strings told_tasks(struct tx *tx, const char *session_id)
{
    const char **ids = NULL;
    size_t count = 0;
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT resource FROM claim WHERE session_id = $1 AND attention = 1 "
                     "AND kind = 'notice' ORDER BY token"),
                 DB_ARGS(db_t(session_id)));
    while (db_next(rows)) {
        const char **id = dibs__push(tx, &ids, &count, sizeof *id);
        if (id)
            *id = db_text(rows, 0, tx->a);
    }
    db_done(rows);
    return (struct dibs_strings){.items = ids, .count = count};
}

/* Does it to the tasks that are named, or to all that the session was told of, and counts them. */
static dibs_status each(struct tx *tx, const struct dibs_notices_ack *in,
                        bool (*one)(struct tx *tx, const struct session_row *session,
                                    const char *task_id),
                        int64_t *out)
{
    struct session_row session = {0};
    int64_t count = 0;
    dibs_status status = dibs__session_load(tx, in->session_id, &session);
    for (size_t i = 0; i < in->task_ids.count && status == DIBS_OK; i++)
        status = dibs__check_id(tx->err, "taskIds", in->task_ids.items[i]);
    if (status != DIBS_OK)
        return status;
    struct dibs_strings ids = in->task_ids.count > 0 ? in->task_ids : told_tasks(tx, session.id);
    for (size_t i = 0; i < ids.count && db_ok(tx->db); i++)
        count += one(tx, &session, ids.items[i]);
    dibs__session_touch(tx, session.id);
    *out = count;
    return dibs__store_status(tx);
}

static dibs_status ack_tx(struct tx *tx, const void *input, void *output)
{
    return each(tx, input, ack_one, output);
}

dibs_status dibs_notices_ack(dibs *d, dibs_arena *a, const struct dibs_notices_ack *in,
                             int64_t *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, ack_tx, in, out, sizeof *out);
}

static dibs_status release_tx(struct tx *tx, const void *input, void *output)
{
    return each(tx, input, release_one, output);
}

dibs_status dibs_notices_release(dibs *d, dibs_arena *a, const struct dibs_notices_ack *in,
                                 int64_t *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, release_tx, in, out, sizeof *out);
}

/* ---- coming back ----------------------------------------------------------------------------- */

void dibs__notice_put_back(struct tx *tx, const struct claim_row *c, const char *reason)
{
    struct notice_row n = {0};
    if (!find_row(tx, c->resource, &n) || n.token != c->token)
        return;
    db_exec(tx->db, SQL("UPDATE notice SET token = NULL WHERE task_key = $1"),
            DB_ARGS(db_i(n.task_key)));
    struct jw *w = begin(tx, "notices:released", n.project, DIBS_STRINGS(n.task_id), c, true);
    jw_ktext(w, "reason", reason);
    dibs__event_end(tx);
    dibs__wake_leads(tx, n.project);
}
