/* SPDX-License-Identifier: MIT */
/*
 * counter.c: numbers that only grow: tokens, events, ids and keys.
 *
 * A counter is read when a transaction first needs it and written once, at its end: writers take
 * turns, so nobody else can draw in between. It is known for the next transaction too, if nobody
 * else has written since. An operation that is undone leaves a gap, which does
 * no harm; events have none, because they are numbered last.
 *
 * Tokens carry the store's epoch in their high bits. It is raised when a store finds that it is a
 * copy (identity.c), so that the copy never repeats a token that the original gave out later. 2^40
 * claims per epoch; the whole stays below 2^53, which every JSON reader can hold.
 */
#include "core/swarm.h"

#define TOKEN_EPOCH_SHIFT 40

static const char *const names[COUNTER_COUNT] = {
    [COUNTER_EVENT] = "event",     [COUNTER_TOKEN] = "token",       [COUNTER_EPOCH] = "token_epoch",
    [COUNTER_TASK] = "task",       [COUNTER_TASK_KEY] = "task_key", [COUNTER_SESSION] = "session",
    [COUNTER_TICKET] = "ticket",   [COUNTER_AGENT] = "agent",       [COUNTER_INBOX] = "inbox",
    [COUNTER_CHANNEL] = "channel", [COUNTER_MESSAGE] = "message",   [COUNTER_OUTGOING] = "outgoing",
};

static struct counter_state *read_once(struct tx *tx, enum counter which)
{
    struct counter_state *c = &tx->d->counters[which];
    if (!c->known) {
        c->value = db_value_int(tx->db, 0, SQL("SELECT value FROM counter WHERE name = $1"),
                                DB_ARGS(db_t(names[which])));
        c->known = db_ok(tx->db); /* else the next one, after a savepoint, would count from 0 */
    }
    return c;
}

int64_t dibs__counter_take(struct tx *tx, enum counter which, int64_t count)
{
    struct counter_state *c = read_once(tx, which);
    c->changed = c->known;
    c->value += count;
    return c->value;
}

int64_t dibs__next_token(struct tx *tx)
{
    int64_t floor = read_once(tx, COUNTER_EPOCH)->value << TOKEN_EPOCH_SHIFT;
    struct counter_state *c = read_once(tx, COUNTER_TOKEN);
    if (c->value < floor)
        c->value = floor;
    return dibs__counter_take(tx, COUNTER_TOKEN, 1);
}

/* Whoever writes lives: what it has heard until now was heard (serve.c). Not worth a write of its
 * own. */
static void note_alive(struct tx *tx)
{
    db_exec(tx->db, SQL("UPDATE counter SET value = $1 WHERE name = 'alive_at'"),
            DB_ARGS(db_i(tx->now)));
}

void dibs__counters_save(struct tx *tx)
{
    bool wrote = tx->d->heard;
    for (size_t i = 0; i < COUNTER_COUNT; i++)
        if (tx->d->counters[i].changed) {
            db_exec(tx->db, SQL("UPDATE counter SET value = $2 WHERE name = $1"),
                    DB_ARGS(db_t(names[i]), db_i(tx->d->counters[i].value)));
            wrote = true;
        }
    if (wrote && tx->d->notes_alive)
        note_alive(tx);
    tx->d->heard = false;
}

void dibs__counters_saved(dibs *d)
{
    for (size_t i = 0; i < COUNTER_COUNT; i++)
        d->counters[i].changed = false;
}

void dibs__counters_forget(dibs *d)
{
    memset(d->counters, 0, sizeof d->counters);
    dibs__leads_forget(d);
    d->tended.offers_at = 0;
}
