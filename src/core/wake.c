/* SPDX-License-Identifier: MIT */
/*
 * wake.c: who among those who wait has something to look at.
 *
 * A daemon may have a thousand agents waiting, and most of what happens concerns one of them. So
 * whoever makes something for an agent (an offer, an assigned task, a message) notes a key made of
 * its id, and those who wait (src/server/waiting.c) compare. The notes are a ring in the handle:
 *
 *  1. What was overwritten before it was looked at counts as a note for everybody.
 *  2. A note that nobody needed costs one look in vain; one that is lost makes somebody sleep
 *     through his task. So notes are made also in transactions that are undone later.
 *  3. An agent with no room (maxTasks) has nothing to look at before one of its claims ends. Only
 *     agents that were seen without room are woken by that, so that others pay nothing for it.
 *
 * Only a daemon has waiters of its own; other handles note nothing.
 */
#include "core/swarm.h"

struct dibs_wakes dibs__wakes(const dibs *d)
{
    return d->wakes;
}

/* `kind` keeps an agent and a project of the same name apart. */
static uint64_t key_of(const char *kind, const char *text)
{
    uint64_t key = str_hash(str_hash(STR_HASH, kind), text);
    return key != 0 ? key : 1;
}

uint64_t dibs__wake_key(const char *agent_id)
{
    return key_of("agent", agent_id);
}

uint64_t dibs__wake_key_leads(const char *project)
{
    return key_of("leads", project);
}

bool dibs__is_woken(const dibs *d, int64_t since, uint64_t key)
{
    int64_t count = d->wakes.agents;
    if (count - since > WAKES_KEPT)
        return true;
    for (int64_t i = since; i < count; i++)
        if (d->woken.keys[i % WAKES_KEPT] == key)
            return true;
    return false;
}

static void note(dibs *d, uint64_t key)
{
    d->woken.keys[d->wakes.agents++ % WAKES_KEPT] = key;
}

void dibs__wake_agent(struct tx *tx, const char *agent_id)
{
    if (tx->d->serving && agent_id)
        note(tx->d, dibs__wake_key(agent_id));
}

void dibs__wake_leads(struct tx *tx, const char *project)
{
    if (tx->d->serving && project)
        note(tx->d, dibs__wake_key_leads(project));
}

/* ---- agents without room --------------------------------------------------------------------- */

static bool is_full(const struct wake_notes *n, uint64_t key, size_t *at)
{
    size_t kept = n->full_count < FULL_KEPT ? n->full_count : FULL_KEPT;
    for (*at = 0; *at < kept; ++*at)
        if (n->full[*at] == key)
            return true;
    return n->full_count > FULL_KEPT;
}

void dibs__wake_when_room(struct tx *tx, const char *agent_id)
{
    struct wake_notes *n = &tx->d->woken;
    size_t at = 0;
    uint64_t key = dibs__wake_key(agent_id);
    if (!tx->d->serving || is_full(n, key, &at))
        return;
    if (n->full_count < FULL_KEPT)
        n->full[n->full_count] = key;
    n->full_count++; /* one too many: from now on all count as full */
}

/* The agent that the session has now, 0: none; it may have had another when it claimed. */
static uint64_t agent_of(struct tx *tx, const char *session_id)
{
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT agent_id FROM session WHERE id = $1 AND agent_id IS NOT NULL"),
                 DB_ARGS(db_t(session_id)));
    uint64_t key = db_next(rows) ? dibs__wake_key(db_text_borrowed(rows, 0)) : 0;
    db_done(rows);
    return key;
}

void dibs__wake_for_room(struct tx *tx, const char *session_id)
{
    struct wake_notes *n = &tx->d->woken;
    size_t at = 0;
    if (!tx->d->serving || n->full_count == 0)
        return;
    uint64_t key = agent_of(tx, session_id);
    if (key == 0 || !is_full(n, key, &at))
        return;
    note(tx->d, key);
    if (n->full_count <= FULL_KEPT)
        n->full[at] = n->full[--n->full_count];
}
