/* SPDX-License-Identifier: MIT */
/*
 * outgoing.c: answers on their way to where the message came from.
 *
 *     waiting --sent--> sent
 *        ^  \--failed--> failed
 *        \-- again, later --/
 *
 * The row is written in the transaction that answers the message, and says all that is to be sent.
 * Who sends it (src/server/sender.c) asks for what is due and reports each attempt.
 *
 *   1. An answer is sent at least once. Between the sending and the report the sender may die;
 *      then it is sent again, with the same client_msg_id, by which Slack can know it again.
 *   2. What is sent does not change between attempts.
 *   3. Each waiting answer ends as sent or failed, with an event.
 */
#include "core/swarm.h"

#include "core/hook.h"

#define SLACK "slack"

/* ---- adding ---------------------------------------------------------------------------------- */

/* A random UUID (version 4) as text. */
static void make_uuid(const struct dibs_platform *p, char out[37])
{
    unsigned char b[16];
    p->random(p->context, b, sizeof b);
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    snprintf(out, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
             b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
             b[14], b[15]);
}

static void write_body(struct buf *out, const char *uuid, const char *channel, const char *thread,
                       const char *text)
{
    struct jw w;
    jw_init(&w, out);
    jw_object(&w);
    jw_ktext(&w, "channel", channel);
    jw_ktext_opt(&w, "thread_ts", thread);
    jw_ktext(&w, "text", text);
    jw_ktext(&w, "client_msg_id", uuid);
    jw_object_end(&w);
}

void dibs__outgoing_add(struct tx *tx, int64_t message_key, const char *source, const char *channel,
                        const char *thread, const char *text)
{
    char uuid[37] = "";
    struct buf body;
    if (!str_eq(source, SLACK) || channel == NULL)
        return;
    make_uuid(tx->d->platform, uuid);
    buf_init(&body, BODY_BYTES_MAX * 2); /* escapes may make the text longer */
    write_body(&body, uuid, channel, thread, text);
    if (buf_ok(&body))
        db_exec(tx->db,
                SQL("INSERT INTO outgoing (key, message_key, target, body, status, attempts, "
                    "due_at, created_at, updated_at) "
                    "VALUES ($1, $2, $3, $4, 'waiting', 0, $5, $5, $5)"),
                DB_ARGS(db_i(dibs__counter_take(tx, COUNTER_OUTGOING, 1)), db_i(message_key),
                        db_t(SLACK), db_t(body.data), db_i(tx->now)));
    else
        db_fail(tx->db, DIBS_OUT_OF_MEMORY, "out of memory");
    buf_release(&body);
}

/* ---- what is due ----------------------------------------------------------------------------- */

static int64_t count_waiting(struct tx *tx)
{
    return db_value_int(tx->db, 0, SQL("SELECT count(*) FROM outgoing WHERE status = 'waiting'"),
                        DB_NO_ARGS);
}

static void read_due(struct tx *tx, int64_t most, struct dibs_outgoing_list *out)
{
    struct db_rows *rows = db_query(
        tx->db,
        SQL("SELECT o.key, o.target, o.body, m.id, o.attempts, o.created_at "
            "FROM outgoing o JOIN inbox_message m ON m.key = o.message_key "
            "WHERE o.status = 'waiting' AND o.due_at <= $1 ORDER BY o.due_at, o.key LIMIT $2"),
        DB_ARGS(db_i(tx->now), db_i(most)));
    while (db_next(rows)) {
        struct dibs_outgoing *o = dibs__push(tx, &out->items, &out->count, sizeof *o);
        if (!o)
            break;
        *o = (struct dibs_outgoing){.key = db_int(rows, 0),
                                    .target = db_text(rows, 1, tx->a),
                                    .body = db_text(rows, 2, tx->a),
                                    .message_id = db_text(rows, 3, tx->a),
                                    .attempts = db_int(rows, 4),
                                    .age_ms = tx->now - db_int(rows, 5)};
    }
    db_done(rows);
}

static dibs_status due_tx(struct tx *tx, const void *input, void *output)
{
    struct dibs_outgoing_list *out = output;
    read_due(tx, *(const int64_t *)input, out);
    out->waiting = count_waiting(tx);
    int64_t next = db_value_int(
        tx->db, -1, SQL("SELECT min(due_at) FROM outgoing WHERE status = 'waiting'"), DB_NO_ARGS);
    out->next_ms = out->waiting == 0 ? -1 : next > tx->now ? next - tx->now : 0;
    return dibs__store_status(tx);
}

dibs_status dibs__outgoing_due(dibs *d, dibs_arena *a, int64_t most, struct dibs_outgoing_list *out,
                               struct dibs_error *err)
{
    return dibs__read(d, a, err, due_tx, &most, out, sizeof *out);
}

static dibs_status waiting_tx(struct tx *tx, const void *input, void *output)
{
    (void)input;
    *(int64_t *)output = count_waiting(tx);
    return dibs__store_status(tx);
}

dibs_status dibs__outgoing_waiting(dibs *d, dibs_arena *a, int64_t *out, struct dibs_error *err)
{
    return dibs__read(d, a, err, waiting_tx, NULL, out, sizeof *out);
}

/* ---- what became of it ----------------------------------------------------------------------- */

struct outgoing_row {
    const char *message_id, *project, *target;
    int64_t attempts;
};

static bool load_waiting(struct tx *tx, int64_t key, struct outgoing_row *out)
{
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT m.id, m.project, o.target, o.attempts FROM outgoing o "
                     "JOIN inbox_message m ON m.key = o.message_key "
                     "WHERE o.key = $1 AND o.status = 'waiting'"),
                 DB_ARGS(db_i(key)));
    bool found = db_next(rows);
    if (found)
        *out = (struct outgoing_row){.message_id = db_text(rows, 0, tx->a),
                                     .project = db_text(rows, 1, tx->a),
                                     .target = db_text(rows, 2, tx->a),
                                     .attempts = db_int(rows, 3)};
    db_done(rows);
    return found && db_ok(tx->db);
}

static void tell(struct tx *tx, const struct outgoing_row *row,
                 const struct dibs_outgoing_report *in)
{
    bool sent = in->end == DIBS_OUTGOING_SENT;
    struct jw *w = dibs__event_begin(
        tx, &(struct event_head){.type = sent ? "inbox:reply-sent" : "inbox:reply-failed",
                                 .project = row->project,
                                 .held_ms = -1});
    jw_ktext(w, "messageId", row->message_id);
    jw_ktext(w, "target", row->target);
    jw_kint(w, "attempts", row->attempts + 1);
    jw_ktext_opt(w, "error", sent ? NULL : in->error);
    dibs__event_end(tx);
}

static dibs_status report_tx(struct tx *tx, const void *input, void *output)
{
    static const char *const words[] = {[DIBS_OUTGOING_SENT] = "sent",
                                        [DIBS_OUTGOING_FAILED] = "failed",
                                        [DIBS_OUTGOING_AGAIN] = "waiting"};
    const struct dibs_outgoing_report *in = input;
    struct outgoing_row row = {0};
    char error[MESSAGE_BYTES_MAX];
    (void)output;
    if (!load_waiting(tx, in->key, &row))
        return dibs__store_status(tx);
    str_fit(error, sizeof error, in->error ? in->error : "");
    db_exec(tx->db,
            SQL("UPDATE outgoing SET status = $2, attempts = attempts + 1, due_at = $3, "
                "error = $4, updated_at = $5 WHERE key = $1"),
            DB_ARGS(db_i(in->key), db_t(words[in->end]), db_i(tx->now + in->again_ms),
                    db_t(in->end == DIBS_OUTGOING_SENT ? NULL : error), db_i(tx->now)));
    if (in->end != DIBS_OUTGOING_AGAIN)
        tell(tx, &row, in);
    return dibs__store_status(tx);
}

dibs_status dibs__outgoing_report(dibs *d, dibs_arena *a, const struct dibs_outgoing_report *in,
                                  struct dibs_error *err)
{
    return dibs__write(d, a, err, report_tx, in, NULL, 0);
}
