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
#include "core/swarm.h"

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
    int64_t *left;        /* how many ready tasks may still be passed over; NULL: any number */
};

/* Where TASK_COLUMNS have what the filters look at. */
enum { AT_KEY = 0, AT_TYPE = 4, AT_PRIORITY = 8, AT_ATTEMPTS = 9, AT_MAX_ATTEMPTS = 10 };

/* ---- filters --------------------------------------------------------------------------------- */

static bool has_all_tags(struct tx *tx, int64_t key, struct dibs_strings tags)
{
    for (size_t i = 0; i < tags.count; i++)
        if (db_value_int(tx->db, 0, SQL("SELECT 1 FROM task_tag WHERE task_key = $1 AND tag = $2"),
                         DB_ARGS(db_i(key), db_t(tags.items[i]))) != 1)
            return false;
    return true;
}

static bool passes(struct tx *tx, const struct search *s, struct db_rows *rows)
{
    int64_t attempts = db_int(rows, AT_ATTEMPTS), max_attempts = db_int(rows, AT_MAX_ATTEMPTS);
    struct dibs_opt spare = s->in->max_attempts_remaining;
    if (spare.given && max_attempts != 0 && attempts >= max_attempts - spare.value)
        return false;
    return has_all_tags(tx, db_int(rows, AT_KEY), s->in->tags);
}

/* Whether the walk may go on to one more task. */
static bool spend(const struct search *s)
{
    return !s->left || (*s->left)-- > 0;
}

/* The first row that passes (key 0: none); ends the statement. */
static struct task_row first_passing(struct tx *tx, const struct search *s, struct db_rows *rows)
{
    struct task_row found = {0};
    while (!found.key && spend(s) && db_next(rows))
        if (passes(tx, s, rows))
            dibs__task_row_read(tx, rows, &found);
    db_done(rows);
    return found;
}

/* ---- probing the index ----------------------------------------------------------------------- */

#define READY "SELECT " TASK_COLUMNS " FROM task t WHERE t.ready = 1 AND t.project = $1 "

/* Highest priority first, oldest first: the index as it stands. */
static struct task_row best_by_priority(struct tx *tx, const struct search *s, const char *type)
{
    if (type)
        return first_passing(tx, s,
                             db_query(tx->db,
                                      SQL(READY "AND type = $2 ORDER BY priority DESC, key"),
                                      DB_ARGS(db_t(s->project), db_t(type))));
    return first_passing(
        tx, s,
        db_query(tx->db, SQL(READY "ORDER BY priority DESC, key"), DB_ARGS(db_t(s->project))));
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
static struct task_row first_of_priority(struct tx *tx, const struct search *s, const char *type,
                                         int64_t priority, int64_t from, bool newest)
{
    struct db_rows *rows = NULL;
    if (type && newest)
        rows = db_query(tx->db, SQL(READY "AND type = $2 AND priority = $3 ORDER BY key DESC"),
                        DB_ARGS(db_t(s->project), db_t(type), db_i(priority)));
    else if (type)
        rows = db_query(tx->db,
                        SQL(READY "AND type = $2 AND priority = $3 AND key >= $4 ORDER BY key"),
                        DB_ARGS(db_t(s->project), db_t(type), db_i(priority), db_i(from)));
    else if (newest)
        rows = db_query(tx->db, SQL(READY "AND priority = $2 ORDER BY key DESC"),
                        DB_ARGS(db_t(s->project), db_i(priority)));
    else
        rows = db_query(tx->db, SQL(READY "AND priority = $2 AND key >= $3 ORDER BY key"),
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

static bool is_better(const struct search *s, const struct task_row *a, const struct task_row *b)
{
    if (!a->key || !b->key)
        return a->key != 0;
    bool up = s->in->order == DIBS_ORDER_ASC;
    if (s->in->sort == DIBS_SORT_RANDOM)
        return from_pivot(s, a->key) < from_pivot(s, b->key);
    if (s->in->sort == DIBS_SORT_CREATED_AT)
        return s->in->order == DIBS_ORDER_DESC ? a->key > b->key : a->key < b->key;
    if (a->priority != b->priority)
        return up ? a->priority < b->priority : a->priority > b->priority;
    return a->key < b->key;
}

static struct task_row best_over_priorities(struct tx *tx, const struct search *s, const char *type)
{
    struct task_row best = {0};
    /* upwards: the lowest that has one wins */
    bool by_priority = s->in->sort == DIBS_SORT_PRIORITY;
    bool newest = s->in->sort == DIBS_SORT_CREATED_AT && s->in->order == DIBS_ORDER_DESC;
    int64_t from = s->in->sort == DIBS_SORT_RANDOM ? s->pivot : 0;
    int64_t priority = next_priority(tx, s, type, -1);
    while (priority >= 0 && !(by_priority && best.key)) {
        struct task_row c = first_of_priority(tx, s, type, priority, from, newest);
        if (!c.key && from)
            /* nothing behind the pivot: around the end */
            c = first_of_priority(tx, s, type, priority, 0, false);
        if (is_better(s, &c, &best))
            best = c;
        priority = next_priority(tx, s, type, priority);
    }
    return best;
}

static struct task_row best_of_type(struct tx *tx, const struct search *s, const char *type)
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

/* The best of rows in any order; ends the statement. */
static struct task_row best_of_all(struct tx *tx, const struct search *s, struct db_rows *rows)
{
    struct task_row best = {0};
    while (db_next(rows)) {
        struct task_row c = {.key = db_int(rows, AT_KEY), .priority = db_int(rows, AT_PRIORITY)};
        if (type_wanted(s, db_text_borrowed(rows, AT_TYPE)) && passes(tx, s, rows) &&
            is_better(s, &c, &best))
            dibs__task_row_read(tx, rows, &best);
    }
    db_done(rows);
    return best;
}

/* Tasks assigned to the session's agent: few, so they are simply looked through. */
static struct task_row best_assigned(struct tx *tx, const struct search *s)
{
    if (!s->agent_id)
        return (struct task_row){0};
    struct task_row best =
        best_of_all(tx, s,
                    db_query(tx->db,
                             SQL("SELECT " TASK_COLUMNS " FROM task t WHERE t.status = "
                                 "'assigned' AND t.assignee = $1 AND t.project = $2 "
                                 "AND coalesce(t.run_after, 0) <= $3"),
                             DB_ARGS(db_t(s->agent_id), db_t(s->project), db_i(tx->now))));
    bool has_room = best.key && !dibs__agent_is_full(tx, s->agent_id);
    return has_room ? best : (struct task_row){0};
}

/* Ready tasks with a tag that few have; see claim_tags.c. */
static struct task_row best_tagged(struct tx *tx, const struct search *s, const char *tag)
{
    /* the order of a CROSS JOIN is kept: from the tags to the tasks */
    return best_of_all(tx, s,
                       db_query(tx->db,
                                SQL("SELECT " TASK_COLUMNS " FROM task_tag g CROSS JOIN task t "
                                    "WHERE g.tag = $1 AND t.key = g.task_key "
                                    "AND t.ready = 1 AND t.project = $2"),
                                DB_ARGS(db_t(tag), db_t(s->project))));
}

static struct task_row best_ready(struct tx *tx, const struct search *s)
{
    struct task_row best = {0};
    size_t rounds = s->in->types.count ? s->in->types.count : 1;
    for (size_t i = 0; i < rounds; i++) {
        struct task_row c = best_of_type(tx, s, s->in->types.count ? s->in->types.items[i] : NULL);
        if (is_better(s, &c, &best))
            best = c;
    }
    return best;
}

/* How many ready tasks are passed over for want of a tag before another way is looked for. */
#define TAG_PATIENCE 256

static struct task_row find_best(struct tx *tx, const struct search *s)
{
    int64_t left = TAG_PATIENCE;
    struct search first = *s;
    first.left = s->in->tags.count > 0 ? &left : NULL;
    struct task_row assigned = best_assigned(tx, s), ready = best_ready(tx, &first);
    if (first.left && left < 0) { /* not all of them were seen, so what was found may not be best */
        const char *tag = dibs__rare_tag(tx, s->project, s->in->tags);
        ready = tag ? best_tagged(tx, s, tag) : best_ready(tx, s);
    }
    return is_better(s, &ready, &assigned) ? ready : assigned;
}

/* What was looked for in vain in this transaction need not be looked for again in the same
 * millisecond: nothing that is written falls due at once. */
int64_t dibs__put_back_due(struct tx *tx)
{
    if (tx->d->looked_at == tx->now)
        return 0;
    dibs__promote_due(tx);
    int64_t expired = dibs__expire_due(tx, EXPIRE_BATCH_MAX, NULL);
    tx->keep = tx->keep || expired > 0; /* they stay ended, whatever is found */
    if (expired == 0)
        tx->d->looked_at = tx->now;
    return expired;
}

/* When there was nothing to find, goes on until there is nothing to put back. */
static struct task_row find(struct tx *tx, const struct search *s)
{
    struct task_row best = {0};
    int64_t expired = 0;
    do {
        expired = dibs__put_back_due(tx);
        best = find_best(tx, s);
    } while (!best.key && expired == EXPIRE_BATCH_MAX && db_ok(tx->db));
    return best;
}

bool dibs__pool_best(struct tx *tx, const char *project, struct dibs_strings types,
                     struct task_row *out)
{
    struct dibs_claim_next in = {.types = types};
    struct search s = {.in = &in, .project = project};
    *out = find(tx, &s);
    return out->key != 0 && db_ok(tx->db);
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
                      struct task_row *task, struct dibs_grant *out)
{
    struct claim_row claim = {0};
    struct claim_grant grant = {.session = session,
                                .kind = "task",
                                .task = task,
                                .ttl_ms = dibs__claim_ttl(tx, task, in->ttl_ms),
                                .agent_type = in->agent_type,
                                .metadata = in->metadata};
    db_writes_only(tx->db); /* nothing is refused from here on */
    dibs__claim_grant(tx, &grant, &claim);
    session->last_token = claim.token;
    struct dibs_granted *item = dibs__push(tx, &out->items, &out->count, sizeof *item);
    if (!item)
        return;
    dibs__task_full_claimed(tx, task, &claim, &item->task);
    dibs__claim_full(tx, &claim, task->id, &item->claim);
}

/* Notes that the session was heard, whatever the answer. */
static void touch_session(struct tx *tx, const struct look *look, const char *id)
{
    if (look->is_first)
        dibs__session_touch(tx, id);
    tx->keep = tx->keep || look->is_first || dibs__session_waits(tx, id);
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
        struct task_row task = find(tx, &s);
        if (!task.key || !db_ok(tx->db))
            break;
        grant_one(tx, in, &session, &task, out);
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
