/* SPDX-License-Identifier: MIT */
/*
 * db.c: connections, transactions and failure, the same for every driver.
 *
 * A handle is idle, in a read transaction or in a write transaction, perhaps with savepoints:
 *
 *     idle --db_begin--> began --db_savepoint--> level --db_release, db_rollback_to--> began
 *       ^---------------db_commit, db_rollback--/
 *
 *   1. The first failure is kept (db->failure) and every later call does nothing, until
 *      db_rollback, db_rollback_to or the next db_begin. So db_commit cannot commit half of what
 *      was asked.
 *   2. Outside of a transaction a failure lasts until the next db_begin.
 *   3. A handle belongs to the process that opened it. In a forked child it answers DIBS_FORKED and
 *      touches neither the file nor a lock.
 *   4. A savepoint is a level here; the store hears of it when something is about to be written in
 *      it, if at all. Levels between which nothing was written share one point of the store.
 *   5. After a failed flush to disk nothing in this process works any more (db_flush_failed).
 */
#include "db.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "db_private.h"

bool (*db_should_fail)(void) = NULL;

static atomic_bool flush_failed;

void db_flush_failed(void)
{
    atomic_store(&flush_failed, true);
}

bool db_is_broken(void)
{
    return atomic_load(&flush_failed);
}

/* ---- state ----------------------------------------------------------------------------------- */

bool db_ok(const struct db *db)
{
    return db->failure.code == DIBS_OK;
}

dibs_status db_error(const struct db *db, struct dibs_error *err)
{
    if (err != NULL)
        *err = db->failure;
    return db->failure.code;
}

void db_fail(struct db *db, dibs_status code, const char *text)
{
    if (db_ok(db))
        error_set(&db->failure, code, "%s", text);
}

static void forget_failure(struct db *db)
{
    db->failure.code = DIBS_OK;
    db->failure.message[0] = '\0';
}

const char *db_path(const struct db *db)
{
    return db->path;
}

/* Forks of this process and its parents, counted in the child: cheaper to look at before every
 * statement than the kernel is to ask for the pid. A child made behind libc's back (clone) is
 * noticed when it begins a transaction. */
static atomic_int forks;
static pthread_once_t count_forks_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void count_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

static bool forked(const struct db *db)
{
    return db->forks != atomic_load_explicit(&forks, memory_order_relaxed) ||
           (!db->began && db->owner != getpid());
}

static dibs_status flush_failure(const char *path, struct dibs_error *err)
{
    return error_set(err, DIBS_STORE_UNAVAILABLE,
                     "cannot use '%s': a flush to disk failed in this process; end this process",
                     path);
}

bool db_usable(struct db *db)
{
    if (!db_ok(db))
        return false;
    if (forked(db))
        error_set(&db->failure, DIBS_FORKED,
                  "cannot use '%s': it was opened before a fork; open it in the child", db->path);
    else if (atomic_load_explicit(&flush_failed, memory_order_relaxed))
        flush_failure(db->path, &db->failure);
    return db_ok(db);
}

bool db_made_to_fail(struct db *db)
{
    if (db_should_fail == NULL || !db_should_fail())
        return false;
    error_set(&db->failure, DIBS_STORE_UNAVAILABLE, "cannot use '%s': a test made it fail",
              db->path);
    return true;
}

/* ---- connections ----------------------------------------------------------------------------- */

static dibs_status prepare_store(struct db *db, struct migration_list list, int64_t now_ms,
                                 struct dibs_error *err)
{
    dibs_status s = migrate_check(db, list, err);
    if (s == DIBS_OK)
        s = db->driver->settle(db->conn, err);
    if (s == DIBS_OK)
        s = migrate_run(db, list, now_ms, err);
    if (s == DIBS_OK)
        db->driver->seal(db->conn);
    return s;
}

dibs_status db_open_with(const struct db_options *in, struct migration_list list, struct db **out,
                         struct dibs_error *err)
{
    struct dibs_error why = {0};
    struct db_options options = *in;
    dibs_status s = DIBS_OK;
    struct db *db = NULL;
    if (options.platform == NULL)
        options.platform = dibs_platform_real();
    if (atomic_load(&flush_failed))
        return flush_failure(in->path, err);
    db = mem_alloc(sizeof *db);
    char *path = mem_copy(in->path);
    if (db == NULL || path == NULL) {
        mem_free(path);
        mem_free(db);
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot open '%s': out of memory", in->path);
    }
    *db = (struct db){.driver = &db_sqlite, .path = path, .owner = getpid()};
    pthread_once(&count_forks_once, count_forks);
    db->forks = atomic_load(&forks);
    db->none.db = db;
    db->schema_known = list.count > 0 ? list.items[list.count - 1].number : 0;
    s = db->driver->open(&options, &db->conn, &why);
    if (s == DIBS_OK)
        s = prepare_store(db, list, options.platform->wall_ms(options.platform->context), &why);
    if (s != DIBS_OK) {
        db_close(db);
        return error_set(err, s, "%s", why.message);
    }
    forget_failure(db);
    *out = db;
    return DIBS_OK;
}

dibs_status db_open(const struct db_options *in, struct db **out, struct dibs_error *err)
{
    return db_open_with(in, db_migrations, out, err);
}

void db_close(struct db *db)
{
    if (db == NULL)
        return;
    if (db->conn != NULL && forked(db)) {
        db->driver->abandon(db->conn);
    } else if (db->conn != NULL) {
        db_rollback(db);
        assert(db->running == 0);
        db_statements_free(db);
        db->driver->close(db->conn);
    }
    mem_free(db->path);
    mem_free(db);
}

/* ---- transactions ---------------------------------------------------------------------------- */

bool db_begin(struct db *db, enum db_mode mode)
{
    forget_failure(db);
    if (!db_usable(db) || db_made_to_fail(db))
        return false;
    assert(!db->began);
    if (db->driver->begin(db->conn, mode, &db->failure) != DIBS_OK)
        return false;
    db->began = true;
    db->mode = mode;
    return true;
}

bool db_commit(struct db *db)
{
    if (!db->began)
        return false; /* db_begin has failed, and said why */
    bool fine = db_usable(db) && !db_made_to_fail(db);
    if (forked(db))
        return false;
    assert(db->running == 0);
    db->began = false;
    db->points = db->level_count = 0;
    if (fine)
        (void)db->driver->commit(db->conn, &db->failure);
    else
        db->driver->rollback(db->conn);
    return db_ok(db);
}

void db_rollback(struct db *db)
{
    if (!db->began || forked(db))
        return;
    db->began = false;
    db->points = db->level_count = 0;
    db->driver->rollback(db->conn);
    forget_failure(db);
}

/* ---- savepoints ------------------------------------------------------------------------------ */

static struct db_level *innermost(struct db *db)
{
    return &db->levels[db->level_count - 1];
}

/* Whether something was written since the level began, and can be undone. */
static bool is_guarded(const struct db *db, const struct db_level *level)
{
    return db->points > level->points;
}

/* Whether nothing was written between the innermost level and the one around it: then both share
 * one point. */
static bool is_shared(const struct db *db)
{
    const struct db_level *level = &db->levels[db->level_count - 1];
    return db->level_count > 1 && level[-1].points == level->points;
}

bool db_savepoint(struct db *db)
{
    if (!db_usable(db) || db_made_to_fail(db))
        return false;
    assert(db->began && db->mode == DB_WRITE);
    if (db->level_count == LEVELS_MAX) {
        db_fail(db, DIBS_INTERNAL, "there are too many savepoints inside one another");
        return false;
    }
    db->levels[db->level_count++] = (struct db_level){.points = db->points};
    return true;
}

void db_writes_only(struct db *db)
{
    if (db->level_count > 0)
        innermost(db)->unguarded = true;
}

bool db_guard(struct db *db)
{
    if (db->level_count == 0 || is_guarded(db, innermost(db)))
        return true;
    if (innermost(db)->unguarded && !is_shared(db)) {
        innermost(db)->spoiled = true;
        return true;
    }
    if (db->driver->point(db->conn, DB_POINT_SET, &db->failure) != DIBS_OK)
        return false;
    db->points++;
    return true;
}

bool db_release(struct db *db)
{
    if (db->level_count == 0 || !db_usable(db) || db_made_to_fail(db))
        return false;
    if (is_guarded(db, innermost(db)) && !is_shared(db)) {
        if (db->driver->point(db->conn, DB_POINT_RELEASE, &db->failure) != DIBS_OK)
            return false;
        db->points--;
    }
    db->level_count--;
    return true;
}

/* db_rollback_to: the failure is forgotten only if the transaction around the savepoint is intact.
 * A full disk, for one, makes SQLite roll back everything; then db_commit must still refuse. */
void db_rollback_to(struct db *db)
{
    if (db->level_count == 0 || forked(db))
        return;
    struct dibs_error why = {0};
    enum db_point what = DB_POINT_CHECK;
    if (is_guarded(db, innermost(db)))
        what = is_shared(db) ? DB_POINT_RETURN : DB_POINT_ROLLBACK;
    bool undone = db->driver->point(db->conn, what, &why) == DIBS_OK;
    db->points -= what == DB_POINT_ROLLBACK;
    if (innermost(db)->spoiled)
        db_fail(db, DIBS_STORE_UNAVAILABLE, "cannot undo a part of the transaction");
    else if (undone)
        forget_failure(db);
    else if (db_ok(db))
        db->failure = why;
    db->level_count--;
}

bool db_in_transaction(const struct db *db)
{
    return db->began;
}

bool db_unchanged(const struct db *db)
{
    return db->began && db->mode == DB_WRITE && db->driver->unchanged(db->conn);
}

void db_flush_here(struct db *db, bool here)
{
    if (!forked(db))
        db->driver->flush_here(db->conn, here);
}

int64_t db_commit_number(const struct db *db)
{
    return db->driver->commit_number(db->conn);
}

bool db_wait_durable(struct db *db, int64_t commit)
{
    return !forked(db) && db->driver->wait_durable(db->conn, commit);
}

/* ---- care ------------------------------------------------------------------------------------ */

/* The calls that report by themselves leave the sticky failure alone: they are no part of a
 * transaction. */
static dibs_status care_allowed(const struct db *db, const char *what, struct dibs_error *err)
{
    if (forked(db))
        return error_set(err, DIBS_FORKED,
                         "cannot %s '%s': it was opened before a fork; open it in the child", what,
                         db->path);
    if (atomic_load(&flush_failed))
        return flush_failure(db->path, err);
    if (db->began)
        return error_set(err, DIBS_INTERNAL, "cannot %s '%s' inside a transaction", what, db->path);
    return DIBS_OK;
}

dibs_status db_overlap(struct db *db, void (*on_durable)(void *context, int64_t commit),
                       void *context, struct dibs_error *err)
{
    struct dibs_error why = {0};
    dibs_status s = care_allowed(db, "flush", &why);
    if (s == DIBS_OK)
        s = db->driver->overlap(db->conn, on_durable, context, &why);
    return s == DIBS_OK ? s : error_set(err, s, "%s", why.message);
}

int64_t db_change_counter(struct db *db)
{
    struct dibs_error why = {0};
    int64_t version = 0;
    /* on failure the counter grows as well: whoever looks then meets the failure */
    if (care_allowed(db, "watch", &why) != DIBS_OK ||
        db->driver->data_version(db->conn, &version, &why) != DIBS_OK ||
        version != db->data_version)
        db->change_counter++;
    db->data_version = version;
    return db->change_counter;
}

dibs_status db_backup(struct db *db, const char *path, const char *mark, struct dibs_error *err)
{
    struct dibs_error why = {0};
    dibs_status s = care_allowed(db, "back up", &why);
    if (s == DIBS_OK)
        s = db->driver->backup(db->conn, path, mark, &why);
    return s == DIBS_OK ? s : error_set(err, s, "%s", why.message);
}

dibs_status db_info(struct db *db, struct db_info *out, struct dibs_error *err)
{
    struct dibs_error why = {0};
    struct db_info info = {.schema_known = db->schema_known};
    dibs_status s = care_allowed(db, "describe", &why);
    if (s == DIBS_OK)
        s = db->driver->info(db->conn, &info, &why);
    if (s != DIBS_OK)
        return error_set(err, s, "%s", why.message);
    *out = info;
    return DIBS_OK;
}

dibs_status db_check(struct db *db, struct dibs_error *err)
{
    struct dibs_error why = {0};
    dibs_status s = care_allowed(db, "check", &why);
    if (s == DIBS_OK)
        s = db->driver->check(db->conn, &why);
    return s == DIBS_OK ? s : error_set(err, s, "%s", why.message);
}
