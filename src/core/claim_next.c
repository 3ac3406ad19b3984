/* SPDX-License-Identifier: MIT */
/*
 * claim_next.c: the best claimable task for a session.
 *
 * "Best" is read off an index that holds only ready tasks, in the order (project[, type], priority
 * downwards, key): the first entry that passes the filters is the answer, so the cost does not grow
 * with the number of tasks. The other orders use the same index: priorities are few (0..100), so it
 * is probed once for each priority that occurs, and the best of these firsts is taken.
 *
 * Before looking, leases that have ended and tasks whose time has come are put back, a few at a
 * time; only when nothing was found does it go on until there is really nothing left. So "nothing
 * to claim" is a fact.
 */
#include "core/core.h"

/* One look for a task; a call that waits takes several. */
struct look {
    const struct dibs_claim_next *in;
    bool is_first;
};

struct search {
    const struct dibs_claim_next *in;
    const char *project;
    const char *agent_id; /* tasks assigned to it count too */
    int64_t pivot;        /* random order: the key to start from */
};

struct candidate {
    int64_t key, priority; /* key 0: none */
};

/* ---- filters --------------------------------------------------------------------------------- */

static bool has_all_tags(struct tx *tx, int64_t key, struct dibs_strings tags)
{
    for (size_t i = 0; i < tags.count; i++)
        if (db_value_int(tx->db, 0, SQL("SELECT 1 FROM task_tag WHERE task_key = $1 AND tag = $2"),
                         DB_ARGS(db_i(key), db_t(tags.items[i]))) != 1)
            return false;
    return true;
}

/* Columns: key, priority, attempts, max_attempts. */
static bool passes(struct tx *tx, const struct search *s, struct db_rows *rows)
{
    int64_t attempts = db_int(rows, 2), max_attempts = db_int(rows, 3);
    struct dibs_opt spare = s->in->max_attempts_remaining;
    if (spare.given && max_attempts != 0 && attempts >= max_attempts - spare.value)
        return false;
    return has_all_tags(tx, db_int(rows, 0), s->in->tags);
}

/* The first row that passes; ends the statement. */
static struct candidate first_passing(struct tx *tx, const struct search *s, struct db_rows *rows)
{
    struct candidate found = {0};
    while (!found.key && db_next(rows))
        if (passes(tx, s, rows))
            found = (struct candidate){.key = db_int(rows, 0), .priority = db_int(rows, 1)};
    db_done(rows);
    return found;
}

/* ---- probing the index ----------------------------------------------------------------------- */

#define READY_COLUMNS                                                                              \
    "SELECT key, priority, attempts, max_attempts FROM task WHERE ready = 1 AND project = $1 "

/* Highest priority first, oldest first: the index as it stands. */
static struct candidate best_by_priority(struct tx *tx, const struct search *s, const char *type)
{
    if (type)
        return first_passing(
            tx, s,
            db_query(tx->db, SQL(READY_COLUMNS "AND type = $2 ORDER BY priority DESC, key"),
                     DB_ARGS(db_t(s->project), db_t(type))));
    return first_passing(tx, s,
                         db_query(tx->db, SQL(READY_COLUMNS "ORDER BY priority DESC, key"),
                                  DB_ARGS(db_t(s->project))));
}

/* The next priority above `above` that occurs among ready tasks; -1 when there is none. */
static int64_t next_priority(struct tx *tx, const struct search *s, const char *type, int64_t above)
{
    if (type)
        return db_value_int(
            tx->db, -1,
            SQL("SELECT min(priority) FROM task WHERE ready = 1 AND project = $1 AND type = $2 "
                "AND priority > $3"),
            DB_ARGS(db_t(s->project), db_t(type), db_i(above)));
    return db_value_int(
        tx->db, -1,
        SQL("SELECT min(priority) FROM task WHERE ready = 1 AND project = $1 AND priority > $2"),
        DB_ARGS(db_t(s->project), db_i(above)));
}

/* Within one priority: the oldest from key `from` on, or the newest. */
static struct candidate first_of_priority(struct tx *tx, const struct search *s, const char *type,
                                          int64_t priority, int64_t from, bool newest)
{
    struct db_rows *rows = NULL;
    if (type && newest)
        rows =
            db_query(tx->db, SQL(READY_COLUMNS "AND type = $2 AND priority = $3 ORDER BY key DESC"),
                     DB_ARGS(db_t(s->project), db_t(type), db_i(priority)));
    else if (type)
        rows = db_query(
            tx->db, SQL(READY_COLUMNS "AND type = $2 AND priority = $3 AND key >= $4 ORDER BY key"),
            DB_ARGS(db_t(s->project), db_t(type), db_i(priority), db_i(from)));
    else if (newest)
        rows = db_query(tx->db, SQL(READY_COLUMNS "AND priority = $2 ORDER BY key DESC"),
                        DB_ARGS(db_t(s->project), db_i(priority)));
    else
        rows = db_query(tx->db, SQL(READY_COLUMNS "AND priority = $2 AND key >= $3 ORDER BY key"),
                        DB_ARGS(db_t(s->project), db_i(priority), db_i(from)));
    return first_passing(tx, s, rows);
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* Distance upwards from the pivot, around the end: the task right after a random point is the
 * nearest. */
static uint64_t from_pivot(const struct search *s, int64_t key)
{
    return (uint64_t)key - (uint64_t)s->pivot;
}

static bool is_better(const struct search *s, struct candidate a, struct candidate b)
{
    if (!a.key || !b.key)
        return a.key != 0;
    bool up = s->in->order == DIBS_ORDER_ASC;
    if (s->in->sort == DIBS_SORT_RANDOM)
        return from_pivot(s, a.key) < from_pivot(s, b.key);
    if (s->in->sort == DIBS_SORT_CREATED_AT)
        return s->in->order == DIBS_ORDER_DESC ? a.key > b.key : a.key < b.key;
    if (a.priority != b.priority)
        return up ? a.priority < b.priority : a.priority > b.priority;
    return a.key < b.key;
}

static struct candidate best_over_priorities(struct tx *tx, const struct search *s,
                                             const char *type)
{
    struct candidate best = {0};
    /* upwards: the lowest that has one wins */
    bool by_priority = s->in->sort == DIBS_SORT_PRIORITY;
    bool newest = s->in->sort == DIBS_SORT_CREATED_AT && s->in->order == DIBS_ORDER_DESC;
    int64_t from = s->in->sort == DIBS_SORT_RANDOM ? s->pivot : 0;
    int64_t priority = next_priority(tx, s, type, -1);
    while (priority >= 0 && !(by_priority && best.key)) {
        struct candidate c = first_of_priority(tx, s, type, priority, from, newest);
        if (!c.key && from)
            /* nothing behind the pivot: around the end */
            c = first_of_priority(tx, s, type, priority, 0, false);
        if (is_better(s, c, best))
            best = c;
        priority = next_priority(tx, s, type, priority);
    }
    return best;
}

static struct candidate best_of_type(struct tx *tx, const struct search *s, const char *type)
{
    bool as_indexed = s->in->sort == DIBS_SORT_PRIORITY && s->in->order != DIBS_ORDER_ASC;
    return as_indexed ? best_by_priority(tx, s, type) : best_over_priorities(tx, s, type);
}

static bool type_wanted(const struct search *s, const char *type)
{
    for (size_t i = 0; i < s->in->types.count; i++)
        if (str_eq(s->in->types.items[i], type))
            return true;
    return s->in->types.count == 0;
}

/* Tasks assigned to the session's agent: few, so they are simply looked through. */
static struct candidate best_assigned(struct tx *tx, const struct search *s)
{
    struct candidate best = {0};
    if (!s->agent_id)
        return best;
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT key, priority, attempts, max_attempts, type FROM task "
                     "WHERE status = 'assigned' AND assignee = $1 AND project = $2 "
                     "AND coalesce(run_after, 0) <= $3"),
                 DB_ARGS(db_t(s->agent_id), db_t(s->project), db_i(tx->now)));
    while (db_next(rows)) {
        struct candidate c = {.key = db_int(rows, 0), .priority = db_int(rows, 1)};
        if (type_wanted(s, db_text_borrowed(rows, 4)) && passes(tx, s, rows) &&
            is_better(s, c, best))
            best = c;
    }
    db_done(rows);
    return best;
}

static int64_t find_best(struct tx *tx, const struct search *s)
{
    struct candidate best = best_assigned(tx, s);
    size_t rounds = s->in->types.count ? s->in->types.count : 1;
    for (size_t i = 0; i < rounds; i++) {
        struct candidate c = best_of_type(tx, s, s->in->types.count ? s->in->types.items[i] : NULL);
        if (is_better(s, c, best))
            best = c;
    }
    return best.key;
}

/* Puts back what has ended or come due; when there was nothing to find, goes on until there is
 * nothing to put back. */
static int64_t find(struct tx *tx, const struct search *s)
{
    int64_t key = 0, expired = 0;
    dibs__promote_due(tx);
    do {
        expired = dibs__expire_due(tx, EXPIRE_BATCH_MAX, NULL);
        tx->keep = tx->keep || expired > 0; /* they stay ended, whatever is found */
        key = find_best(tx, s);
    } while (!key && expired == EXPIRE_BATCH_MAX && db_ok(tx->db));
    return key;
}

/* ---- the operation --------------------------------------------------------------------------- */

static int64_t random_key(struct tx *tx)
{
    uint64_t chance = 0;
    const struct dibs_platform *p = tx->d->platform;
    p->random(p->context, &chance, sizeof chance);
    int64_t last = db_value_int(tx->db, 1, SQL("SELECT max(key) FROM task"), DB_NO_ARGS);
    return (int64_t)(chance % (uint64_t)(last > 0 ? last : 1)) + 1;
}

static dibs_status check_next(struct tx *tx, const struct dibs_claim_next *in)
{
    dibs_status status = dibs__check_ttl(tx, "ttlMs", in->ttl_ms);
    if (status == DIBS_OK)
        status = dibs__check_range(tx->err, "count", in->count, 0, CLAIM_COUNT_MAX);
    if (status == DIBS_OK)
        status = dibs__check_range(tx->err, "waitMs", in->wait_ms, 0, WAIT_MS_MAX);
    if (status == DIBS_OK && in->types.count > TYPES_MAX)
        status = error_field(tx->err, "types", "has more than %d entries", TYPES_MAX);
    if (status == DIBS_OK && in->tags.count > TAGS_MAX)
        status = error_field(tx->err, "tags", "has more than %d entries", TAGS_MAX);
    if (status == DIBS_OK && in->max_attempts_remaining.given)
        status = dibs__check_range(tx->err, "maxAttemptsRemaining",
                                   in->max_attempts_remaining.value, 0, MAX_ATTEMPTS_MAX);
    if (status == DIBS_OK)
        status = dibs__check_text(tx->err, "agentType", in->agent_type, WORD_BYTES_MAX);
    if (status == DIBS_OK)
        status = json_check(in->metadata, JSON_VALUE_BYTES_MAX, "metadata", tx->err);
    return status;
}

static void grant_one(struct tx *tx, const struct dibs_claim_next *in, struct session_row *session,
                      int64_t key, struct dibs_grant *out)
{
    struct task_row task = {0};
    struct claim_row claim = {0};
    if (!dibs__task_load_key(tx, key, &task))
        return;
    struct claim_grant grant = {.session = session,
                                .kind = "task",
                                .task = &task,
                                .ttl_ms = dibs__claim_ttl(tx, &task, in->ttl_ms),
                                .agent_type = in->agent_type,
                                .metadata = in->metadata};
    dibs__claim_grant(tx, &grant, &claim);
    session->last_token = claim.token;
    struct dibs_granted *item = dibs__push(tx, &out->items, &out->count, sizeof *item);
    if (!item)
        return;
    dibs__task_full(tx, &task, &item->task);
    dibs__claim_full(tx, &claim, task.id, &item->claim);
}

/* Notes that the session was heard. While it waits that is done now and then only: a write wakes
 * everybody else who waits, and their writes would wake this one. */
static void touch_session(struct tx *tx, const struct look *look, const char *id)
{
    int64_t age = look->is_first ? 0 : tx->d->settings.heartbeat_interval_ms;
    bool is_old =
        db_value_int(tx->db, 0, SQL("SELECT 1 FROM session WHERE id = $1 AND heartbeat_at <= $2"),
                     DB_ARGS(db_t(id), db_i(tx->now - age))) == 1;
    if (!is_old)
        return;
    dibs__session_touch(tx, id);
    tx->keep = true;
}

static dibs_status next_tx(struct tx *tx, const void *input, void *output)
{
    const struct look *look = input;
    const struct dibs_claim_next *in = look->in;
    struct dibs_grant *out = output;
    struct session_row session = {0};
    dibs_status status = check_next(tx, in);
    if (status == DIBS_OK)
        status = dibs__session_load(tx, in->session_id, &session);
    if (status != DIBS_OK)
        return status;
    struct search s = {.in = in,
                       .project = in->project ? in->project : session.project,
                       .agent_id = session.agent_id};
    int64_t wanted = in->count ? in->count : 1;
    while ((int64_t)out->count < wanted && db_ok(tx->db)) {
        s.pivot = in->sort == DIBS_SORT_RANDOM ? random_key(tx) : 0;
        int64_t key = find(tx, &s);
        if (!key)
            break;
        grant_one(tx, in, &session, key, out);
    }
    if (out->count > 0 || !db_ok(tx->db))
        return dibs__store_status(tx);
    touch_session(tx, look, session.id);
    return dibs__refuse(tx, DIBS_NOTHING_TO_CLAIM, "no claimable task matches");
}

dibs_status dibs_claim_next(dibs *d, dibs_arena *a, const struct dibs_claim_next *in,
                            struct dibs_grant *out, struct dibs_error *err)
{
    const struct dibs_platform *p = d->platform;
    bool waiting = in->wait_ms > 0 && in->wait_ms <= WAIT_MS_MAX && !d->batch && d->depth == 0;
    int64_t deadline = p->steady_ms(p->context) + (waiting ? in->wait_ms : 0);
    /* read before looking, so that what is added right after the look ends the wait */
    int64_t seen = waiting ? db_change_counter(d->db) : 0;
    struct look look = {.in = in, .is_first = true};
    for (;;) {
        dibs_status status = dibs__write(d, a, err, next_tx, &look, out, sizeof *out);
        if (status != DIBS_NOTHING_TO_CLAIM || !waiting)
            return status;
        look.is_first = false;
        waiting = dibs__wait_for_change(d, &seen, deadline); /* false: one last look */
    }
}
