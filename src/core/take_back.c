/* SPDX-License-Identifier: MIT */
/*
 * take_back.c: what was handed out to a caller that had gone before it could be told is put back,
 * as if nobody had asked. A task gets its attempt back, an offer is offered again, messages and
 * mentions are unread, finished tasks are told to the next lead that asks.
 *
 * A claim that has ended meanwhile, or a task that was reopened, is left alone.
 */
#include "core/poll.h"
#include "core/swarm.h"

#define GONE "caller_gone"

static void put_back(struct tx *tx, const char *session_id, int64_t token)
{
    struct claim_row c = {0};
    if (dibs__claim_load(tx, token, &c) && !c.ended_at && str_eq(c.session_id, session_id))
        dibs__claim_put_back(tx, &c, GONE, true, PUT_BACK_GIVEN);
}

/* False: no lead was told of it, or it has finished anew. */
static bool untell(struct tx *tx, const char *task_id)
{
    db_exec(tx->db,
            SQL("UPDATE notice SET notified_at = NULL WHERE notified_at IS NOT NULL AND "
                "task_key = (SELECT key FROM task WHERE id = $1)"),
            DB_ARGS(db_t(task_id)));
    return db_ok(tx->db) && db_changes(tx->db) > 0;
}

static void untell_all(struct tx *tx, const struct dibs_taken *in)
{
    const char *project = NULL;
    const char **ids = NULL;
    size_t count = 0;
    for (size_t i = 0; i < in->told.count; i++) {
        struct task_row task = {0};
        const char **id =
            untell(tx, in->told.items[i]) ? dibs__push(tx, &ids, &count, sizeof *id) : NULL;
        if (!id || dibs__task_load(tx, in->told.items[i], &task) != DIBS_OK)
            continue;
        *id = task.id;
        project = task.project;
    }
    if (count == 0 || !db_ok(tx->db))
        return;
    dibs__wake_leads(tx, project);
    struct event_head head = {.type = "notices:released",
                              .project = project,
                              .session_id = in->session_id,
                              .held_ms = -1};
    struct jw *w = dibs__event_begin(tx, &head);
    jw_kstrings(w, "taskIds", (struct dibs_strings){.items = ids, .count = count});
    jw_ktext(w, "sessionId", in->session_id);
    jw_ktext(w, "reason", GONE);
    dibs__event_end(tx);
}

static dibs_status take_back_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_taken *in = input;
    (void)output;
    for (size_t i = 0; i < in->count && db_ok(tx->db); i++)
        put_back(tx, in->session_id, in->tokens[i]);
    untell_all(tx, in);
    return dibs__store_status(tx);
}

dibs_status dibs__take_back(dibs *d, dibs_arena *a, const struct dibs_taken *in,
                            struct dibs_error *err)
{
    return dibs__write(d, a, err, take_back_tx, in, NULL, 0);
}
