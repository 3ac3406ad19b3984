/* SPDX-License-Identifier: MIT */
/*
 * verify.c: does the journal agree with the tables?
 *
 * The journal is read from its oldest kept event on and compared with what the tables say:
 *   - numbers run without gaps up to the counter;
 *   - tokens of claims only grow, each is granted once and ended at most once;
 *   - what the newest event of a task says (status, attempts, version) is what its row says;
 *   - a task is in_progress or reviewing exactly when it has one live claim, the newest;
 *   - a claim is live exactly when the journal has granted and not ended it.
 * Claims on other subjects than tasks are compared in verify_subject.c.
 * The first disagreement is the answer. Renewals of leases have no events and are not compared.
 */
#include "core/core.h"

static dibs_status disagree(struct tx *tx, const char *format, ...) PRINTF_LIKE(2, 3);
static dibs_status disagree(struct tx *tx, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return dibs__refuse(tx, DIBS_STORE_CORRUPT, "the journal and the tables disagree: %s", text);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static dibs_status verify_numbers(struct tx *tx, int64_t *first)
{
    int64_t last =
        db_value_int(tx->db, 0, SQL("SELECT value FROM counter WHERE name = 'event'"), DB_NO_ARGS);
    int64_t count = db_value_int(tx->db, 0, SQL("SELECT count(*) FROM event"), DB_NO_ARGS);
    int64_t newest = db_value_int(tx->db, last, SQL("SELECT max(number) FROM event"), DB_NO_ARGS);
    *first = db_value_int(tx->db, last + 1, SQL("SELECT min(number) FROM event"), DB_NO_ARGS);
    if (count != last - *first + 1 || newest != last)
        return disagree(tx,
                        "%" PRId64 " events from %" PRId64 " to %" PRId64
                        ", the counter stands at %" PRId64,
                        count, *first, newest, last);
    return dibs__store_status(tx);
}

/* ---- tokens: granted in order, once; ended at most once, and live exactly while granted ------ */

static bool grants(const char *type)
{
    static const char *const types[] = {"task:claimed",  "task:reviewing",   "lock:taken",
                                        "inbox:claimed", "mentions:claimed", "notices:claimed"};
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (str_eq(types[i], type))
            return true;
    return false;
}

/* Whether an event of this type that names a token ends that claim. */
static bool ends(const char *type)
{
    static const char *const types[] = {
        "task:completed",    "task:released",    "task:claim-expired", "task:claim-orphaned",
        "task:cancelled",    "task:blocked",     "task:offered",       "task:accepted",
        "task:rejected",     "task:assigned",    "lock:released",      "lock:expired",
        "inbox:released",    "inbox:read",       "inbox:responded",    "inbox:delegated",
        "mentions:released", "notices:released", "notices:told"};
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (str_eq(types[i], type))
            return true;
    return false;
}

struct token_state {
    bool whole; /* nothing has been pruned: every grant is in the journal */
    int64_t first_granted, last_granted;
    json_t *live; /* token as text -> true, for those granted and not ended */
};

/* Whether the event that granted the token is still in the journal. Tokens grow with the events, so
 * the grants that were pruned are those below the first that is left. */
static bool grant_is_kept(const struct token_state *s, int64_t token)
{
    return s->whole || (s->first_granted && token >= s->first_granted);
}

static json_t *parse(struct tx *tx, const char *data)
{
    json_t *json = NULL;
    dibs_status status = json_read(data, strlen(data), &json, tx->err);
    if (dibs_status_is_failure(status))
        db_fail(tx->db, status, tx->err->message);
    if (status != DIBS_OK)
        return NULL;
    return json;
}

static dibs_status note_grant(struct tx *tx, struct token_state *s, int64_t number, int64_t token)
{
    char name[24];
    snprintf(name, sizeof name, "%" PRId64, token);
    if (token <= s->last_granted)
        return disagree(tx, "event %" PRId64 " grants token %" PRId64 " after %" PRId64, number,
                        token, s->last_granted);
    s->last_granted = token;
    if (!s->first_granted)
        s->first_granted = token;
    if (json_object_set_new(s->live, name, json_true()) != 0)
        return dibs__refuse(tx, DIBS_OUT_OF_MEMORY, "out of memory");
    return DIBS_OK;
}

static dibs_status note_end(struct tx *tx, struct token_state *s, int64_t number, int64_t token)
{
    char name[24];
    snprintf(name, sizeof name, "%" PRId64, token);
    if (json_object_del(s->live, name) != 0 && grant_is_kept(s, token))
        return disagree(tx, "event %" PRId64 " ends token %" PRId64 ", which was not live", number,
                        token);
    return DIBS_OK;
}

/* A final failure after a lapse names the token of a claim that has ended already, and a late
 * completion too. */
static bool is_second_word(const char *type, json_t *data, struct token_state *s, int64_t token)
{
    char name[24];
    snprintf(name, sizeof name, "%" PRId64, token);
    bool live = json_object_get(s->live, name) != NULL;
    bool late = json_is_true(json_object_get(data, "late"));
    return !live && (late || str_eq(type, "task:failed"));
}

static dibs_status note_event(struct tx *tx, struct token_state *s, struct db_rows *rows)
{
    int64_t number = db_int(rows, 0);
    const char *type = db_text_borrowed(rows, 1);
    bool is_grant = grants(type), is_end = ends(type) || str_eq(type, "task:failed");
    if (!is_grant && !is_end)
        return DIBS_OK;
    json_t *data = parse(tx, db_text_borrowed(rows, 2));
    if (!data)
        return disagree(tx, "event %" PRId64 " cannot be read", number);
    int64_t token = json_integer_value(json_object_get(data, "token"));
    dibs_status status = DIBS_OK;
    if (is_grant)
        status = note_grant(tx, s, number, token);
    else if (token && !is_second_word(type, data, s, token))
        status = note_end(tx, s, number, token);
    json_decref(data);
    return status;
}

static dibs_status compare_live(struct tx *tx, struct token_state *s)
{
    dibs_status status = DIBS_OK;
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT token FROM claim WHERE ended_at IS NULL"), DB_NO_ARGS);
    while (status == DIBS_OK && db_next(rows)) {
        char name[24];
        snprintf(name, sizeof name, "%" PRId64, db_int(rows, 0));
        if (json_object_del(s->live, name) != 0 && grant_is_kept(s, db_int(rows, 0)))
            status = disagree(tx, "claim %s is live, but the journal has ended it", name);
    }
    db_done(rows);
    const char *left = json_object_iter_key(json_object_iter(s->live));
    if (status == DIBS_OK && left)
        status = disagree(tx, "claim %s was granted and not ended, but is not live", left);
    return status;
}

static dibs_status verify_tokens(struct tx *tx, bool whole)
{
    struct token_state s = {.whole = whole, .live = json_object()};
    dibs_status status = s.live ? DIBS_OK : dibs__refuse(tx, DIBS_OUT_OF_MEMORY, "out of memory");
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT number, type, data FROM event ORDER BY number"), DB_NO_ARGS);
    while (status == DIBS_OK && db_next(rows))
        status = note_event(tx, &s, rows);
    db_done(rows);
    if (status == DIBS_OK)
        status = compare_live(tx, &s);
    json_decref(s.live);
    return status == DIBS_OK ? dibs__store_status(tx) : status;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static dibs_status compare_task(struct tx *tx, struct db_rows *rows)
{
    const char *id = db_text_borrowed(rows, 1), *status_word = db_text_borrowed(rows, 2);
    dibs_status status = DIBS_OK;
    struct db_rows *events = db_query(
        tx->db,
        SQL("SELECT number, data FROM event WHERE task_key = $1 ORDER BY number DESC LIMIT 1"),
        DB_ARGS(db_i(db_int(rows, 0))));
    json_t *data = db_next(events) ? parse(tx, db_text_borrowed(events, 1)) : NULL;
    if (data) {
        bool same = str_eq(json_string_value(json_object_get(data, "status")), status_word) &&
                    json_integer_value(json_object_get(data, "attempts")) == db_int(rows, 3) &&
                    json_integer_value(json_object_get(data, "version")) == db_int(rows, 4);
        if (!same)
            status = disagree(tx,
                              "task '%s' is %s (version %" PRId64 "), its newest event %" PRId64
                              " says otherwise",
                              id, status_word, db_int(rows, 4), db_int(events, 0));
    }
    db_done(events);
    json_decref(data);
    return status;
}

static dibs_status verify_tasks(struct tx *tx)
{
    dibs_status status = DIBS_OK;
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT key, id, status, attempts, version FROM task ORDER BY key"),
                 DB_NO_ARGS);
    while (status == DIBS_OK && db_next(rows))
        status = compare_task(tx, rows);
    db_done(rows);
    return status == DIBS_OK ? dibs__store_status(tx) : status;
}

static dibs_status verify_holders(struct tx *tx)
{
    int64_t unheld =
        db_value_int(tx->db, 0,
                     SQL("SELECT count(*) FROM task t LEFT JOIN claim c ON c.token = t.last_token "
                         "AND c.task_key = t.key AND c.ended_at IS NULL "
                         "WHERE t.status IN ('in_progress', 'reviewing') AND c.token IS NULL"),
                     DB_NO_ARGS);
    int64_t stray =
        db_value_int(tx->db, 0,
                     SQL("SELECT count(*) FROM claim c LEFT JOIN task t ON t.key = c.task_key "
                         "WHERE c.ended_at IS NULL AND (c.kind = 'task' OR c.kind = 'review') "
                         "AND (t.key IS NULL OR coalesce(t.last_token, 0) <> c.token "
                         "OR t.status <> "
                         "CASE c.kind WHEN 'task' THEN 'in_progress' ELSE 'reviewing' END)"),
                     DB_NO_ARGS);
    if (unheld || stray)
        return disagree(tx,
                        "%" PRId64 " tasks under way are held by nobody, %" PRId64
                        " live claims hold no such task",
                        unheld, stray);
    return dibs__store_status(tx);
}

/* A task has nothing beside its row that its marks (enum task_part) do not tell of: nobody would
 * look for it. */
static dibs_status verify_parts(struct tx *tx)
{
    int64_t unmarked = db_value_int(
        tx->db, 0,
        SQL("SELECT (SELECT count(*) FROM task_body b JOIN task t ON t.key = b.task_key "
            "WHERE t.parts & 1 = 0) + "
            "(SELECT count(*) FROM task_tag g JOIN task t ON t.key = g.task_key "
            "WHERE t.parts & 2 = 0) + "
            "(SELECT count(*) FROM task_dependency p JOIN task t ON t.key = p.task_key "
            "WHERE t.parts & 4 = 0) + "
            "(SELECT count(*) FROM task_dependency p JOIN task t ON t.key = p.needs_key "
            "WHERE t.parts & 8 = 0)"),
        DB_NO_ARGS);
    if (unmarked)
        return disagree(
            tx, "%" PRId64 " texts, tags or dependencies belong to tasks without a mark", unmarked);
    return dibs__store_status(tx);
}

dibs_status dibs__verify(struct tx *tx)
{
    int64_t first = 0;
    dibs_status status = verify_numbers(tx, &first);
    if (status == DIBS_OK)
        status = verify_holders(tx);
    if (status == DIBS_OK)
        status = verify_parts(tx);
    if (status == DIBS_OK)
        status = dibs__verify_subjects(tx);
    if (status == DIBS_OK)
        status = verify_tasks(tx);
    return status == DIBS_OK ? verify_tokens(tx, first == 1) : status;
}
