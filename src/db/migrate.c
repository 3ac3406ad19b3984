/* SPDX-License-Identifier: MIT */
/*
 * migrate.c: brings a store to the shape that this program knows, or refuses to touch it.
 *
 * The table schema_migration says what was applied. A row that this program does not know was
 * written by a newer one: it says itself whether an old program may go on.
 *
 *   1. One migration is one transaction, with its row in it: a crash leaves it done or not begun.
 *   2. What is missing is decided under the write lock, so of two processes that open an old store
 *      at once, the second finds the work done.
 *   3. Nothing is written to a store that is refused.
 *
 * There is no way back to an older shape: restore a backup instead.
 */
#include "migrate.h"

#include "base/str.h"
#include "db_private.h"

/* Marks in `applied` what the store has of the list; refuses what it must not use. */
static bool read_applied(struct db *db, struct migration_list list, bool *applied,
                         struct dibs_error *err)
{
    bool fine = true;
    struct db_rows *rows = db_query(
        db, SQL("SELECT number, name, breaking FROM schema_migration ORDER BY number"), DB_NO_ARGS);
    while (fine && db_next(rows)) {
        int64_t number = db_int(rows, 0);
        const char *name = db_text_borrowed(rows, 1);
        size_t i = 0;
        while (i < list.count && list.items[i].number != number)
            i++;
        bool known = i < list.count && str_eq(list.items[i].name, name);
        if (known) {
            applied[i] = true;
        } else if (i < list.count || db_int(rows, 2) != 0) {
            error_set(err, DIBS_STORE_TOO_NEW,
                      "cannot use '%s': it has migration %" PRId64
                      " '%s', which this program does not know; upgrade this program",
                      db_path(db), number, name != NULL ? name : "");
            fine = false;
        }
    }
    db_done(rows);
    if (fine && !db_ok(db)) {
        (void)db_error(db, err);
        fine = false;
    }
    return fine;
}

static dibs_status code_of(const struct dibs_error *err)
{
    return err->code != DIBS_OK ? err->code : DIBS_INTERNAL;
}

dibs_status migrate_check(struct db *db, struct migration_list list, struct dibs_error *err)
{
    struct dibs_error why = {0};
    bool *applied = mem_alloc(list.count * sizeof *applied);
    if (applied == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot open '%s': out of memory", db_path(db));
    dibs_status s = read_applied(db, list, applied, &why) ? DIBS_OK : code_of(&why);
    if (s != DIBS_OK)
        error_set(err, s, "%s", why.message);
    mem_free(applied);
    return s;
}

static void apply(struct db *db, const struct migration *m, int64_t now_ms)
{
    db_script(db, m->sql);
    db_exec(db,
            SQL("INSERT INTO schema_migration (number, name, breaking, applied_at)"
                " VALUES ($1, $2, $3, $4)"),
            DB_ARGS(db_i(m->number), db_t(m->name), db_i(m->breaking), db_i(now_ms)));
}

/* One transaction: looks what is missing, applies the first of it. *more: something was applied. */
static dibs_status run_one(struct db *db, struct migration_list list, bool *applied, int64_t now_ms,
                           bool *more, struct dibs_error *err)
{
    *more = false;
    if (!db_begin(db, DB_WRITE))
        return db_error(db, err);
    if (!read_applied(db, list, applied, err)) {
        db_rollback(db);
        return code_of(err);
    }
    size_t i = 0;
    while (i < list.count && applied[i])
        i++;
    if (i == list.count) {
        db_rollback(db);
        return DIBS_OK;
    }
    apply(db, &list.items[i], now_ms);
    if (!db_commit(db)) {
        struct dibs_error why = {0};
        dibs_status s = db_error(db, &why);
        return error_set(err, s, "cannot apply migration %" PRId64 " '%s': %s",
                         list.items[i].number, list.items[i].name, why.message);
    }
    *more = true;
    return DIBS_OK;
}

static bool all_applied(struct db *db, struct migration_list list, bool *applied)
{
    struct dibs_error ignored = {0};
    if (!read_applied(db, list, applied, &ignored))
        return false;
    for (size_t i = 0; i < list.count; i++)
        if (!applied[i])
            return false;
    return true;
}

dibs_status migrate_run(struct db *db, struct migration_list list, int64_t now_ms,
                        struct dibs_error *err)
{
    struct dibs_error why = {0};
    dibs_status s = DIBS_OK;
    bool *applied = mem_alloc(list.count * sizeof *applied);
    if (applied == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot open '%s': out of memory", db_path(db));
    bool more = !all_applied(db, list, applied); /* the usual open need not wait for the lock */
    while (more && s == DIBS_OK)
        s = run_one(db, list, applied, now_ms, &more, &why);
    if (s != DIBS_OK)
        error_set(err, s, "%s", why.message);
    mem_free(applied);
    return s;
}
