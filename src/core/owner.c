/* SPDX-License-Identifier: MIT */
/*
 * owner.c: to whom sessions and tasks belong.
 *
 * A session belongs to the API key that registered it last, or to the owner of the data when that
 * was done without one; the column is written right after registering, in the same transaction. A
 * task belongs to no key, only to its project. Nothing is refused here: src/api/identity.c decides.
 */
#include "core/owner.h"

#include "core/core.h"

static dibs_status owner_tx(struct tx *tx, const void *input, void *output)
{
    struct dibs_session_owner *out = output;
    struct db_rows *rows = db_query(
        tx->db, SQL("SELECT key_id, project, ended_at, agent_id FROM session WHERE id = $1"),
        DB_ARGS(db_t(input)));
    if (db_next(rows))
        *out = (struct dibs_session_owner){
            .exists = true,
            .ended = !db_is_null(rows, 2),
            .key_id = db_text(rows, 0, tx->a),
            .project = db_text(rows, 1, tx->a),
            .agent_id = db_text(rows, 3, tx->a),
        };
    db_done(rows);
    return dibs__store_status(tx);
}

dibs_status dibs__session_owner(dibs *d, dibs_arena *a, const char *session_id,
                                struct dibs_session_owner *out, struct dibs_error *err)
{
    return dibs__read(d, a, err, owner_tx, session_id, out, sizeof *out);
}

struct set_owner {
    const char *session_id, *key_id;
};

static dibs_status set_owner_tx(struct tx *tx, const void *input, void *output)
{
    const struct set_owner *in = input;
    (void)output;
    db_exec(tx->db, SQL("UPDATE session SET key_id = $2 WHERE id = $1"),
            DB_ARGS(db_t(in->session_id), db_t(in->key_id)));
    return dibs__store_status(tx);
}

dibs_status dibs__session_set_owner(dibs *d, dibs_arena *a, const char *session_id,
                                    const char *key_id, struct dibs_error *err)
{
    struct set_owner in = {.session_id = session_id, .key_id = key_id};
    return dibs__write(d, a, err, set_owner_tx, &in, NULL, 0);
}

static dibs_status project_tx(struct tx *tx, const void *input, void *output)
{
    const char **out = output;
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT project FROM task WHERE id = $1"), DB_ARGS(db_t(input)));
    if (db_next(rows))
        *out = db_text(rows, 0, tx->a);
    db_done(rows);
    return dibs__store_status(tx);
}

dibs_status dibs__task_project(dibs *d, dibs_arena *a, const char *task_id, const char **project,
                               struct dibs_error *err)
{
    return dibs__read(d, a, err, project_tx, task_id, project, sizeof *project);
}
