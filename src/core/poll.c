/* SPDX-License-Identifier: MIT */
/*
 * poll.c: one question, "what is there for this agent?", answered with the first of what there is
 * and claimed in the same transaction, so that two who ask at once never get the same.
 *
 *   offers -> assigned tasks -> a lead: messages, mentions, finished tasks; a worker: the pool
 *
 *  1. Nothing that makes work is handed to an agent that holds maxTasks tasks and reviews already.
 *  2. Everything handed out is a claim of the asking session, except the news that the pool has
 *     tasks, which is meant for all, and notices that need no acknowledgement.
 *  3. "Nothing" is a fact: leases that have ended are put back first, as in claim_next.c.
 *
 * A session named like the agent is registered for an asker that names none: an agent that is one
 * process needs no more than its id. Waiting is the caller's business when a transaction is open.
 */
#include "core/poll.h"

#include "core/swarm.h"

#define POLL_MESSAGES 5
#define POLL_NOTICES 50
#define POOL_COUNTED 1000 /* more are not counted */
#define SEEN_AGAIN_MS 1000
#define NEXT_POLL_LEAST_MS 1000

const char *dibs_trigger_name(enum dibs_trigger_type t)
{
    static const char *const names[] = {
        [DIBS_TRIGGER_NONE] = "none",
        [DIBS_TRIGGER_TASK_OFFERED] = "task_offered",
        [DIBS_TRIGGER_TASK_ASSIGNED] = "task_assigned",
        [DIBS_TRIGGER_INBOX] = "slack_inbox_message",
        [DIBS_TRIGGER_MENTIONS] = "unread_mentions",
        [DIBS_TRIGGER_FINISHED] = "tasks_finished",
        [DIBS_TRIGGER_POOL] = "pool_tasks_available",
        [DIBS_TRIGGER_POOL_TASK] = "pool_task_claimed",
    };
    return (size_t)t < COUNT_OF(names) ? names[t] : "unknown";
}

/* One look; a call that waits takes several. */
struct look {
    const struct dibs_poll *in;
    const char *only_project; /* NULL: any */
    bool is_first;
};
struct found {
    struct dibs_trigger trigger;
    struct dibs_poll_wait wait;
};
struct asker {
    const struct look *look;
    bool is_full; /* there was something for it, but it has no room */
    struct agent_row agent;
    struct session_row session;
};

/* ---- who asks -------------------------------------------------------------------------------- */

static dibs_status check(struct tx *tx, const struct dibs_poll *in)
{
    dibs_status status = dibs__check_ttl(tx, "ttlMs", in->ttl_ms);
    if (status == DIBS_OK)
        status = dibs__check_range(tx->err, "waitMs", in->wait_ms, 0, WAIT_MS_MAX);
    if (status == DIBS_OK && in->types.count > TYPES_MAX)
        status = error_field(tx->err, "types", "has more than %d entries", TYPES_MAX);
    return status;
}

static dibs_status register_session(struct tx *tx, struct asker *who, const char *id)
{
    struct dibs_session_new in = {
        .id = id, .project = who->agent.project, .agent_id = who->agent.id};
    struct dibs_session session = {0};
    dibs_status status = dibs_session_register(tx->d, tx->a, &in, &session, tx->err);
    return status == DIBS_OK ? dibs__agent_session(tx, &who->agent, id, &who->session) : status;
}

static dibs_status load_asker(struct tx *tx, struct asker *who)
{
    const struct dibs_poll *in = who->look->in;
    const char *id = in->session_id ? in->session_id : in->agent_id;
    dibs_status status = dibs__agent_load(tx, in->agent_id, &who->agent);
    if (status == DIBS_OK)
        status = dibs__agent_session(tx, &who->agent, id, &who->session);
    return status == DIBS_SESSION_NOT_FOUND ? register_session(tx, who, id) : status;
}

/* Notes that agent and session were heard. */
static void touch(struct tx *tx, const struct asker *who, bool took)
{
    bool is_heard = who->look->is_first || took;
    if (is_heard)
        dibs__session_touch(tx, who->session.id);
    else
        is_heard = dibs__session_waits(tx, who->session.id);
    if (is_heard && tx->now - who->agent.seen_at >= SEEN_AGAIN_MS)
        dibs__agent_seen(tx, who->agent.id);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static bool has_room(struct tx *tx, struct asker *who)
{
    who->is_full = who->is_full || dibs__agent_is_full(tx, who->agent.id);
    return !who->is_full;
}

static bool may_take(const struct asker *who, const struct task_row *task)
{
    const char *only = who->look->only_project;
    return !only || str_eq(only, task->project);
}

/* The first that may be handed out, if the agent has room; ends the statement. */
static bool first_task(struct tx *tx, struct asker *who, struct db_rows *rows, struct task_row *out)
{
    *out = (struct task_row){0};
    while (!out->key && db_next(rows)) {
        dibs__task_row_read(tx, rows, out);
        if (!may_take(who, out))
            *out = (struct task_row){0};
    }
    db_done(rows);
    return out->key != 0 && db_ok(tx->db) && has_room(tx, who);
}

static void grant(struct tx *tx, const struct asker *who, struct task_row *task,
                  enum dibs_trigger_type type, struct dibs_trigger *out)
{
    bool is_review = type == DIBS_TRIGGER_TASK_OFFERED;
    struct claim_row claim = {0};
    struct claim_grant in = {
        .session = &who->session,
        .kind = is_review ? "review" : "task",
        .task = task,
        .ttl_ms = dibs__claim_ttl(tx, is_review ? NULL : task, who->look->in->ttl_ms)};
    dibs__claim_grant(tx, &in, &claim);
    struct dibs_granted *item = dibs__alloc(tx, sizeof *item);
    if (!item)
        return;
    dibs__task_full_claimed(tx, task, &claim, &item->task);
    dibs__claim_full(tx, &claim, task->id, &item->claim);
    out->type = type;
    out->task = item;
}

static void try_offer(struct tx *tx, struct asker *who, struct dibs_trigger *out)
{
    struct task_row task = {0};
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT " TASK_COLUMNS " FROM task t WHERE t.offered_to = $1 AND t.status = "
                     "'offered' ORDER BY t.offered_at, t.key"),
                 DB_ARGS(db_t(who->agent.id)));
    if (first_task(tx, who, rows, &task))
        grant(tx, who, &task, DIBS_TRIGGER_TASK_OFFERED, out);
}

static void try_assigned(struct tx *tx, struct asker *who, struct dibs_trigger *out)
{
    struct task_row task = {0};
    struct db_rows *rows = db_query(tx->db,
                                    SQL("SELECT " TASK_COLUMNS
                                        " FROM task t WHERE t.status = 'assigned' AND t.assignee = "
                                        "$1 AND coalesce(t.run_after, 0) <= $2 "
                                        "ORDER BY t.priority DESC, t.key"),
                                    DB_ARGS(db_t(who->agent.id), db_i(tx->now)));
    if (first_task(tx, who, rows, &task))
        grant(tx, who, &task, DIBS_TRIGGER_TASK_ASSIGNED, out);
}

/* ---- the pool -------------------------------------------------------------------------------- */

static int64_t count_pool(struct tx *tx, const struct asker *who)
{
    const char *project = who->agent.project;
    struct dibs_strings types = who->look->in->types;
    if (types.count == 0)
        return db_value_int(tx->db, 0,
                            SQL("SELECT count(*) FROM (SELECT 1 FROM task WHERE ready = 1 AND "
                                "project = $1 LIMIT $2) AS t"),
                            DB_ARGS(db_t(project), db_i(POOL_COUNTED)));
    int64_t count = 0;
    for (size_t i = 0; i < types.count && count < POOL_COUNTED; i++)
        count += db_value_int(tx->db, 0,
                              SQL("SELECT count(*) FROM (SELECT 1 FROM task WHERE ready = 1 AND "
                                  "project = $1 AND type = $2 LIMIT $3) AS t"),
                              DB_ARGS(db_t(project), db_t(types.items[i]), db_i(POOL_COUNTED)));
    return count;
}

static void try_pool(struct tx *tx, struct asker *who, struct dibs_trigger *out)
{
    const struct dibs_poll *in = who->look->in;
    struct task_row task = {0};
    if (in->claim) {
        if (dibs__pool_best(tx, who->agent.project, in->types, &task) && may_take(who, &task) &&
            has_room(tx, who))
            grant(tx, who, &task, DIBS_TRIGGER_POOL_TASK, out);
        return;
    }
    int64_t count = count_pool(tx, who);
    if (count == 0 || !has_room(tx, who))
        return;
    out->type = DIBS_TRIGGER_POOL;
    out->pool_count = count;
}

/* ---- leads ----------------------------------------------------------------------------------- */

static void try_lead(struct tx *tx, const struct asker *who, struct dibs_trigger *out)
{
    const struct dibs_poll *in = who->look->in;
    int64_t ttl = dibs__claim_ttl(tx, NULL, in->ttl_ms);
    const char *only = who->look->only_project;
    dibs__inbox_take(tx, &who->agent, &who->session, only, POLL_MESSAGES, ttl, &out->messages);
    if (out->messages.count > 0)
        out->type = DIBS_TRIGGER_INBOX;
    if (out->type == DIBS_TRIGGER_NONE)
        dibs__mentions_take(tx, &who->agent, &who->session, only, ttl, &out->mentions);
    if (out->mentions.count > 0)
        out->type = DIBS_TRIGGER_MENTIONS;
    if (out->type == DIBS_TRIGGER_NONE)
        dibs__notices_take(tx, &who->agent, &who->session, POLL_NOTICES, in->ack_manual, ttl,
                           &out->finished);
    if (out->finished.tasks.count > 0)
        out->type = DIBS_TRIGGER_FINISHED;
}

/* ---- nothing --------------------------------------------------------------------------------- */

static int64_t sooner(int64_t a, int64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* When the agent's next assigned task may be claimed; 0: not before `until`. By time, as an agent
 * may have many. */
static int64_t next_assigned(struct tx *tx, const struct asker *who, int64_t until)
{
    int64_t at = 0;
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT run_after, assignee FROM task WHERE status = 'assigned' AND "
                     "run_after > $1 AND run_after < $2 ORDER BY run_after"),
                 DB_ARGS(db_i(tx->now), db_i(until)));
    while (at == 0 && db_next(rows))
        if (str_eq(db_text_borrowed(rows, 1), who->agent.id))
            at = db_int(rows, 0);
    db_done(rows);
    return at;
}

/* Until something is known to happen by itself: a lease ends, a task comes due. */
static int64_t until_next(struct tx *tx, const struct asker *who)
{
    int64_t most = tx->d->settings.heartbeat_interval_ms;
    int64_t lease = db_value_int(
        tx->db, 0,
        SQL("SELECT expires_at FROM claim WHERE ended_at IS NULL ORDER BY expires_at LIMIT 1"),
        DB_NO_ARGS);
    int64_t delayed = db_value_int(
        tx->db, 0, SQL("SELECT due_at FROM task WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1"),
        DB_NO_ARGS);
    int64_t at = sooner(sooner(lease, delayed), next_assigned(tx, who, tx->now + most));
    int64_t left = at ? at - tx->now : most;
    left = left < most ? left : most;
    return left > NEXT_POLL_LEAST_MS ? left : NEXT_POLL_LEAST_MS;
}

/* ---- the operation --------------------------------------------------------------------------- */

static void try_all(struct tx *tx, struct asker *who, struct dibs_trigger *out)
{
    try_offer(tx, who, out);
    if (out->type == DIBS_TRIGGER_NONE)
        try_assigned(tx, who, out);
    if (out->type != DIBS_TRIGGER_NONE)
        return;
    if (who->agent.is_lead)
        try_lead(tx, who, out);
    else
        try_pool(tx, who, out);
}

static dibs_status poll_tx(struct tx *tx, const void *input, void *output)
{
    struct asker who = {.look = input};
    struct found *found = output;
    struct dibs_trigger *out = &found->trigger;
    int64_t expired = 0;
    dibs_status status = check(tx, who.look->in);
    if (status == DIBS_OK)
        status = load_asker(tx, &who);
    if (status != DIBS_OK)
        return status;
    do {
        expired = dibs__put_back_due(tx);
        try_all(tx, &who, out);
    } while (out->type == DIBS_TRIGGER_NONE && expired == EXPIRE_BATCH_MAX && db_ok(tx->db));
    touch(tx, &who, out->type != DIBS_TRIGGER_NONE);
    out->session_id = who.session.id;
    if (out->type == DIBS_TRIGGER_NONE)
        out->next_poll_ms = until_next(tx, &who);
    found->wait = (struct dibs_poll_wait){
        .is_lead = who.agent.is_lead, .is_full = who.is_full, .project = who.agent.project};
    return dibs__store_status(tx);
}

dibs_status dibs__poll(dibs *d, dibs_arena *a, const struct dibs_poll *in, const char *only_project,
                       struct dibs_trigger *out, struct dibs_poll_wait *wait,
                       struct dibs_error *err)
{
    const struct dibs_platform *p = d->platform;
    bool waiting = in->wait_ms > 0 && in->wait_ms <= WAIT_MS_MAX && !d->batch && d->depth == 0;
    int64_t deadline = p->steady_ms(p->context) + (waiting ? in->wait_ms : 0);
    /* read before looking, so that what is added right after the look ends the wait */
    int64_t seen = waiting ? db_change_counter(d->db) : 0;
    struct look look = {.in = in, .only_project = only_project, .is_first = true};
    struct found found = {0};
    for (;;) {
        dibs_status status = dibs__write(d, a, err, poll_tx, &look, &found, sizeof found);
        if (status != DIBS_OK)
            return status;
        if (found.trigger.type != DIBS_TRIGGER_NONE || !waiting) {
            *out = found.trigger;
            *wait = found.wait;
            return DIBS_OK;
        }
        look.is_first = false;
        waiting = dibs__wait_for_change(d, &seen, deadline); /* false: one last look */
    }
}

dibs_status dibs_poll(dibs *d, dibs_arena *a, const struct dibs_poll *in, struct dibs_trigger *out,
                      struct dibs_error *err)
{
    struct dibs_poll_wait ignored = {0};
    return dibs__poll(d, a, in, NULL, out, &ignored, err);
}
