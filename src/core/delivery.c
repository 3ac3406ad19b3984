/* SPDX-License-Identifier: MIT */
/*
 * delivery.c: what other services deliver, taken in once.
 *
 * A service that does not hear our answer in time delivers again, up to some hours later, and may
 * do so while the first is still under way. Each delivery has an id of its own, noted in the
 * transaction that adds the message or the task: either both are there or neither, so a repeat
 * after any crash does the right thing.
 *
 *   1. Of several deliveries about the same subject (a message that mentions the bot is told as a
 *      message and as a mention) the first counts.
 *   2. A delivery that is refused is not noted: it may come again.
 *   3. No message is lost because the agent it is meant for is not known (yet): the leads get it.
 */
#include "core/core.h"

#include "core/hook.h"

#define DELIVERY_KEEP_MS                                                                           \
    (7LL * 24 * 60 * 60 * 1000) /* services give up after hours, people after
                                                        three days at most */
#define OUTGOING_KEEP_MS (7LL * 24 * 60 * 60 * 1000)

/* note: false when it is there already, or the store has failed. */
static bool note(struct tx *tx, const char *source, const char *id)
{
    return db_exec(tx->db,
                   SQL("INSERT INTO delivery (source, id, at) VALUES ($1, $2, $3) "
                       "ON CONFLICT (source, id) DO NOTHING"),
                   DB_ARGS(db_t(source), db_t(id), db_i(tx->now))) &&
           db_changes(tx->db) == 1;
}

static dibs_status check(struct tx *tx, const struct dibs_delivery *in)
{
    dibs_status status = dibs__check_required(tx->err, "source", in->source, WORD_BYTES_MAX);
    if (status == DIBS_OK)
        status = dibs__check_required(tx->err, "id", in->id, KEY_BYTES_MAX);
    if (status == DIBS_OK)
        status = dibs__check_text(tx->err, "subject", in->subject, KEY_BYTES_MAX);
    return status;
}

static dibs_status add_message(struct tx *tx, const struct dibs_message_new *in,
                               struct dibs_delivered *out)
{
    struct dibs_message message = {0};
    dibs_status status = dibs_inbox_add(tx->d, tx->a, in, &message, tx->err);
    if (status == DIBS_AGENT_NOT_FOUND) {
        struct dibs_message_new for_leads = *in;
        for_leads.agent_id = NULL;
        out->agent_unknown = true;
        status = dibs_inbox_add(tx->d, tx->a, &for_leads, &message, tx->err);
    }
    out->message_id = message.id;
    return status;
}

static dibs_status add_task(struct tx *tx, const struct dibs_task_new *in,
                            struct dibs_delivered *out)
{
    struct dibs_task_list tasks = {0};
    dibs_status status = dibs_task_create(tx->d, tx->a, in, 1, &tasks, tx->err);
    if (status == DIBS_OK)
        out->task_id = tasks.items[0].id;
    return status;
}

static dibs_status deliver_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_delivery *in = input;
    struct dibs_delivered *out = output;
    dibs_status status = check(tx, in);
    if (status != DIBS_OK)
        return status;
    out->repeated = !note(tx, in->source, in->id);
    if (!out->repeated && in->subject) {
        const char *about = dibs__printf(tx, "%s:subject", in->source);
        out->repeated = !note(tx, about, in->subject);
    }
    if (out->repeated || !db_ok(tx->db))
        return dibs__store_status(tx);
    return in->task ? add_task(tx, in->task, out) : add_message(tx, in->message, out);
}

dibs_status dibs__deliver_once(dibs *d, dibs_arena *a, const struct dibs_delivery *in,
                               struct dibs_delivered *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, deliver_tx, in, out, sizeof *out);
}

/* Answers are looked at from the oldest on, a batch at a time: those that still wait stand among
 * the newest. */
void dibs__hooks_prune(struct tx *tx)
{
    db_exec(tx->db, SQL("DELETE FROM delivery WHERE at < $1"),
            DB_ARGS(db_i(tx->now - DELIVERY_KEEP_MS)));
    db_exec(tx->db,
            SQL("DELETE FROM outgoing WHERE key IN (SELECT key FROM (SELECT key, status, "
                "updated_at FROM outgoing ORDER BY key LIMIT $2) AS oldest "
                "WHERE status <> 'waiting' AND updated_at < $1)"),
            DB_ARGS(db_i(tx->now - OUTGOING_KEEP_MS), db_i(SWEEP_BATCH_MAX)));
}
