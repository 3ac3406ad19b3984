/* SPDX-License-Identifier: MIT */
/*
 * score.c: what the journal says of each agent, and the totals of all.
 *
 * The table `score` holds the journal up to counter score_upto, counted by day, agent and type; the
 * events after that are counted when somebody asks. So writing costs nothing, asking costs the tail
 * only, and what is pruned stays counted: the sweep folds the tail in, always before it prunes.
 */
#include "core/core.h"

/* A task that fails because its attempts are used up has two events: the end of the last claim, and
 * task:failed without one, which is not to be counted as one more. */
#define IS_COUNTED "(held IS NOT NULL OR type <> 'task:failed') "

/* Saved counts and the tail, as one table. $1 is score_upto. */
#define COUNTED                                                                                    \
    "(SELECT day, agent, type, count, held, last_at FROM score "                                   \
    " UNION ALL "                                                                                  \
    " SELECT at / 86400000, coalesce(agent, ''), type, count(*), coalesce(sum(held), 0), max(at) " \
    "FROM event "                                                                                  \
    " WHERE number > $1 AND " IS_COUNTED                                                           \
    "GROUP BY at / 86400000, coalesce(agent, ''), type) counted "

static int64_t folded_upto(struct tx *tx)
{
    return db_value_int(tx->db, 0, SQL("SELECT value FROM counter WHERE name = 'score_upto'"),
                        DB_NO_ARGS);
}

int64_t dibs__scores_behind(struct tx *tx)
{
    int64_t last =
        db_value_int(tx->db, 0, SQL("SELECT value FROM counter WHERE name = 'event'"), DB_NO_ARGS);
    return last - folded_upto(tx);
}

int64_t dibs__scores_fold(struct tx *tx, int64_t at_least)
{
    int64_t upto = folded_upto(tx), until = upto + FOLD_BATCH_MAX;
    int64_t last = db_value_int(tx->db, upto, SQL("SELECT max(number) FROM event"), DB_NO_ARGS);
    if (last <= upto)
        return 0;
    until = until < at_least ? at_least : until;
    until = until > last ? last : until;
    db_exec(
        tx->db,
        SQL("INSERT INTO score (day, agent, type, count, held, last_at) "
            "SELECT at / 86400000, coalesce(agent, ''), type, count(*), coalesce(sum(held), 0), "
            "max(at) FROM event "
            "WHERE number > $1 AND number <= $2 AND " IS_COUNTED
            "GROUP BY at / 86400000, coalesce(agent, ''), type "
            "ON CONFLICT (day, agent, type) DO UPDATE SET count = score.count + excluded.count, "
            "held = score.held + excluded.held, last_at = excluded.last_at"),
        DB_ARGS(db_i(upto), db_i(until)));
    db_exec(tx->db, SQL("UPDATE counter SET value = $1 WHERE name = 'score_upto'"),
            DB_ARGS(db_i(until)));
    return last - until;
}

static int64_t *column_for(struct dibs_score *s, const char *type)
{
    const struct {
        const char *type;
        int64_t *column;
    } columns[] = {
        {"task:claimed", &s->claimed},         {"task:completed", &s->completed},
        {"task:failed", &s->failed},           {"task:claim-expired", &s->expired},
        {"task:claim-orphaned", &s->orphaned}, {"task:released", &s->released},
        {"task:claim-refused", &s->refused},   {"task:late-result", &s->late_results},
    };
    for (size_t i = 0; i < COUNT_OF(columns); i++)
        if (str_eq(columns[i].type, type))
            return columns[i].column;
    return NULL;
}

void dibs__score_totals(struct tx *tx, struct dibs_score *out, int64_t *held_ms)
{
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT type, sum(count), sum(held) FROM (SELECT type, count, held FROM score "
                     "UNION ALL SELECT type, count(*), sum(held) FROM event "
                     "WHERE number > $1 AND " IS_COUNTED "GROUP BY type) counted GROUP BY type"),
                 DB_ARGS(db_i(folded_upto(tx))));
    *out = (struct dibs_score){0};
    *held_ms = 0;
    while (db_next(rows)) {
        int64_t *column = column_for(out, db_text_borrowed(rows, 0));
        if (!column)
            continue;
        *column = db_int(rows, 1);
        *held_ms += db_int(rows, 2);
    }
    db_done(rows);
}

int64_t dibs__score_day(struct tx *tx, const char *type, int64_t day)
{
    return db_value_int(tx->db, 0,
                        SQL("SELECT sum(count) FROM " COUNTED "WHERE type = $2 AND day = $3"),
                        DB_ARGS(db_i(folded_upto(tx)), db_t(type), db_i(day)));
}

/* ---- the list -------------------------------------------------------------------------------- */

static int by_completed(const void *left, const void *right)
{
    const struct dibs_score *a = left, *b = right;
    if (a->completed != b->completed)
        return a->completed > b->completed ? -1 : 1;
    return strcmp(a->agent, b->agent);
}

static dibs_status scores_tx(struct tx *tx, const void *input, void *output)
{
    struct dibs_score_list *out = output;
    (void)input;
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT agent, type, sum(count), sum(held), max(last_at) FROM " COUNTED
                     "WHERE agent <> '' GROUP BY agent, type ORDER BY agent, type"),
                 DB_ARGS(db_i(folded_upto(tx))));
    struct dibs_score *s = NULL;
    while (db_next(rows)) {
        const char *agent = db_text_borrowed(rows, 0), *type = db_text_borrowed(rows, 1);
        struct dibs_score probe = {0};
        if (!column_for(&probe, type))
            continue;
        if (!s || !str_eq(s->agent, agent)) {
            s = dibs__push(tx, &out->items, &out->count, sizeof *s);
            if (!s)
                break;
            s->agent = db_text(rows, 0, tx->a);
        }
        *column_for(s, type) = db_int(rows, 2);
        if (str_eq(type, "task:completed") && db_int(rows, 2) > 0)
            s->average_ms = db_int(rows, 3) / db_int(rows, 2);
        if (db_int(rows, 4) > s->last_active_ms)
            s->last_active_ms = db_int(rows, 4);
    }
    db_done(rows);
    if (out->count > 1 && db_ok(tx->db))
        qsort(out->items, out->count, sizeof *out->items, by_completed);
    return dibs__store_status(tx);
}

dibs_status dibs_scores(dibs *d, dibs_arena *a, struct dibs_score_list *out, struct dibs_error *err)
{
    return dibs__read(d, a, err, scores_tx, NULL, out, sizeof *out);
}
