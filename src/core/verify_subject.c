/* SPDX-License-Identifier: MIT */
/*
 * verify_subject.c: does what is claimed besides tasks agree with the claims, and with the journal?
 *
 *   - a message is processing, the mentions of a channel are being read and a notice is being told
 *     exactly while a live claim of that kind has the token in their row;
 *   - the status of a message is what its newest event in the journal says;
 *   - a task with a notice has the mark for it, or nobody would look.
 * The first disagreement is the answer. verify.c compares the rest, tokens of all kinds included.
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

/* ---- claims and their subjects --------------------------------------------------------------- */

static int64_t unheld_subjects(struct tx *tx)
{
    return db_value_int(
        tx->db, 0,
        SQL("SELECT (SELECT count(*) FROM inbox_message m LEFT JOIN claim c ON c.token = m.token "
            "AND c.kind = 'inbox' AND c.resource = m.id AND c.ended_at IS NULL "
            "WHERE m.status = 'processing' AND c.token IS NULL) + "
            "(SELECT count(*) FROM notice n JOIN task t ON t.key = n.task_key "
            "LEFT JOIN claim c ON c.token = n.token AND c.kind = 'notice' "
            "AND c.resource = t.id AND c.ended_at IS NULL "
            "WHERE n.token IS NOT NULL AND c.token IS NULL) + "
            "(SELECT count(*) FROM channel_reader r LEFT JOIN claim c ON c.token = r.token "
            "AND c.kind = 'mentions' AND c.ended_at IS NULL "
            "WHERE r.token IS NOT NULL AND c.token IS NULL)"),
        DB_NO_ARGS);
}

static int64_t stray_claims(struct tx *tx)
{
    return db_value_int(
        tx->db, 0,
        SQL("SELECT count(*) FROM claim c WHERE c.ended_at IS NULL AND ("
            "c.kind = 'inbox' AND NOT EXISTS (SELECT 1 FROM inbox_message m "
            "WHERE m.id = c.resource AND m.token = c.token AND m.status = 'processing') OR "
            "c.kind = 'notice' AND NOT EXISTS (SELECT 1 FROM notice n JOIN task t "
            "ON t.key = n.task_key WHERE t.id = c.resource AND n.token = c.token) OR "
            "c.kind = 'mentions' AND NOT EXISTS (SELECT 1 FROM channel_reader r "
            "WHERE r.token = c.token))"),
        DB_NO_ARGS);
}

static dibs_status verify_holders(struct tx *tx)
{
    int64_t unheld = unheld_subjects(tx), stray = stray_claims(tx);
    if (unheld || stray)
        return disagree(tx,
                        "%" PRId64 " messages, mentions or notices are held by nobody, %" PRId64
                        " live claims hold none",
                        unheld, stray);
    int64_t unmarked = db_value_int(tx->db, 0,
                                    SQL("SELECT count(*) FROM notice n JOIN task t "
                                        "ON t.key = n.task_key WHERE t.parts & 16 = 0"),
                                    DB_NO_ARGS);
    if (unmarked)
        return disagree(tx, "%" PRId64 " notices belong to tasks without a mark", unmarked);
    return dibs__store_status(tx);
}

/* ---- messages, folded from the journal ------------------------------------------------------- */

/* Notes what the event says of its message; one that says nothing of its status is passed over. */
static dibs_status note_event(struct tx *tx, struct db_rows *rows, json_t *known)
{
    const char *data = db_text_borrowed(rows, 1);
    json_t *json = NULL;
    dibs_status status = json_read(data, strlen(data), &json, tx->err);
    if (dibs_status_is_failure(status))
        return status;
    if (status != DIBS_OK)
        return disagree(tx, "event %" PRId64 " cannot be read", db_int(rows, 0));
    const char *id = json_string_value(json_object_get(json, "messageId"));
    json_t *word = json_object_get(json, "status");
    if (id && json_is_string(word) && json_object_set(known, id, word) != 0)
        status = dibs__refuse(tx, DIBS_OUT_OF_MEMORY, "out of memory");
    json_decref(json);
    return status;
}

static dibs_status compare(struct tx *tx, json_t *known)
{
    dibs_status status = DIBS_OK;
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT id, status FROM inbox_message ORDER BY key"), DB_NO_ARGS);
    while (status == DIBS_OK && db_next(rows)) {
        const char *id = db_text_borrowed(rows, 0), *is = db_text_borrowed(rows, 1);
        const char *says = json_string_value(json_object_get(known, id));
        if (says && !str_eq(says, is)) /* without events: they were pruned */
            status = disagree(tx, "message '%s' is %s, its newest event says %s", id, is, says);
    }
    db_done(rows);
    return status;
}

static dibs_status verify_messages(struct tx *tx)
{
    json_t *known = json_object();
    dibs_status status = known ? DIBS_OK : dibs__refuse(tx, DIBS_OUT_OF_MEMORY, "out of memory");
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT number, data FROM event WHERE type >= 'inbox:' AND type < 'inbox;' "
                     "ORDER BY number"),
                 DB_NO_ARGS);
    while (status == DIBS_OK && db_next(rows))
        status = note_event(tx, rows, known);
    db_done(rows);
    if (status == DIBS_OK)
        status = compare(tx, known);
    json_decref(known);
    return status == DIBS_OK ? dibs__store_status(tx) : status;
}

dibs_status dibs__verify_subjects(struct tx *tx)
{
    dibs_status status = verify_holders(tx);
    return status == DIBS_OK ? verify_messages(tx) : status;
}
