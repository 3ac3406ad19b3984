/* SPDX-License-Identifier: MIT */
/*
 * db_sqlite.c: transactions, statements and errors on SQLite.
 *
 *   1. A write transaction is: fair lock, BEGIN IMMEDIATE ... COMMIT, checkpoint if due, unlock. So
 *      no two connections ever write or checkpoint at the same instant, which SQLite up to 3.51.2
 *      does not survive (the WAL-reset bug), and BUSY can only come from a foreign program.
 *   2. Some failures (full disk, I/O error, no memory) make SQLite roll back by itself. Then there
 *      is no transaction any more, sqlite3_get_autocommit() tells, and what follows must not run as
 *      if there were one: commit and savepoints answer with a failure.
 *   3. SQLite numbers $1, $2 by first appearance, as if they were names; bind goes by the name.
 *   4. A failed flush is final (db_flush_failed): SQLite itself would go on committing.
 */
#include "db_sqlite.h"

#include <assert.h>
#include <errno.h>

#include "base/log.h"
#include "db_private.h"

/* ---- errors ---------------------------------------------------------------------------------- */

static bool no_room(struct db_conn *c, int rc)
{
    if ((rc & 0xff) == SQLITE_FULL)
        return true;
    int why = (rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_CANTOPEN
                  ? sqlite3_system_errno(c->sqlite)
                  : 0;
    return why == ENOSPC || why == EDQUOT;
}

static dibs_status unavailable(struct db_conn *c, struct dibs_error *err)
{
    int why = sqlite3_system_errno(c->sqlite);
    return error_set(err, DIBS_STORE_UNAVAILABLE, "cannot use '%s': %s%s%s", c->shown,
                     sqlite3_errmsg(c->sqlite), why != 0 ? ": " : "",
                     why != 0 ? strerror(why) : "");
}

dibs_status sqlite_failed(struct db_conn *c, int rc, struct dibs_error *err)
{
    if (rc == SQLITE_IOERR_FSYNC || rc == SQLITE_IOERR_DIR_FSYNC) {
        db_flush_failed();
        return error_set(err, DIBS_STORE_UNAVAILABLE,
                         "cannot use '%s': flush to disk failed; end this process", c->shown);
    }
    if (no_room(c, rc))
        return error_set(err, DIBS_STORE_FULL, "cannot write to '%s': the disk is full", c->shown);
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return error_set(err, DIBS_STORE_BUSY, "cannot use '%s': another program keeps it locked",
                         c->shown);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return error_set(err, DIBS_STORE_CORRUPT,
                         "cannot use '%s': the file is damaged (%s); restore a backup", c->shown,
                         sqlite3_errmsg(c->sqlite));
    case SQLITE_NOMEM:
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot use '%s': out of memory", c->shown);
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_IOERR: return unavailable(c, err);
    default:
        return error_set(err, DIBS_INTERNAL, "cannot run a statement on '%s': %s", c->shown,
                         sqlite3_errmsg(c->sqlite));
    }
}

/* ---- statements of our own ------------------------------------------------------------------- */

dibs_status sqlite_run(struct db_conn *c, const char *sql, struct dibs_error *err)
{
    int rc = sqlite3_exec(c->sqlite, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? DIBS_OK : sqlite_failed(c, rc, err);
}

dibs_status sqlite_ask_text(struct db_conn *c, const char *sql, char *out, size_t bytes,
                            struct dibs_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(c->sqlite, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(stmt, 0);
        snprintf(out, bytes, "%s", text != NULL ? text : "");
    }
    dibs_status s = rc == SQLITE_ROW ? DIBS_OK : sqlite_failed(c, rc, err);
    /* PRAGMA journal_mode = WAL answers first and commits at its end, which may fail */
    rc = sqlite3_finalize(stmt);
    return s == DIBS_OK && rc != SQLITE_OK ? sqlite_failed(c, rc, err) : s;
}

dibs_status sqlite_ask_int(struct db_conn *c, const char *sql, int64_t *out, struct dibs_error *err)
{
    char text[32] = {0};
    dibs_status s = sqlite_ask_text(c, sql, text, sizeof text, err);
    if (s == DIBS_OK)
        *out = strtoll(text, NULL, 10);
    return s;
}

static const char *const control_sql[CONTROL_COUNT] = {
    [CONTROL_BEGIN] = "BEGIN",
    [CONTROL_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [CONTROL_COMMIT] = "COMMIT",
    [CONTROL_ROLLBACK] = "ROLLBACK",
    [CONTROL_POINT_SET] = "SAVEPOINT point",
    [CONTROL_POINT_RELEASE] = "RELEASE point",
    [CONTROL_POINT_ROLLBACK] = "ROLLBACK TO point",
    [CONTROL_DATA_VERSION] = "PRAGMA data_version",
};

static int prepare_control(struct db_conn *c, enum sqlite_control which)
{
    if (c->control[which] != NULL)
        return SQLITE_OK;
    return sqlite3_prepare_v3(c->sqlite, control_sql[which], -1, SQLITE_PREPARE_PERSISTENT,
                              &c->control[which], NULL);
}

static int control(struct db_conn *c, enum sqlite_control which)
{
    int rc = prepare_control(c, which);
    if (rc != SQLITE_OK)
        return rc;
    rc = sqlite3_step(c->control[which]);
    sqlite3_reset(c->control[which]);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- transactions ---------------------------------------------------------------------------- */

static void unlock(struct db_conn *c)
{
    c->writing = false;
    write_lock_release(&c->lock);
}

/* A data file that was moved away or replaced (a restore while we run) still takes our writes, and
 * nobody would ever read them. */
static dibs_status check_in_place(struct db_conn *c, struct dibs_error *err)
{
    int moved = 0;
    int rc = sqlite3_file_control(c->sqlite, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if (rc == SQLITE_OK && moved)
        return error_set(err, DIBS_STORE_UNAVAILABLE,
                         "cannot use '%s': the file was replaced or removed; open it again",
                         c->shown);
    return DIBS_OK;
}

/* What undoes a transaction is made before it begins, as it may have to end for lack of memory; and
 * one that could not even be undone is undone now. */
static int begin_afresh(struct db_conn *c, enum db_mode mode)
{
    int rc = prepare_control(c, CONTROL_ROLLBACK);
    if (rc == SQLITE_OK && mode == DB_WRITE)
        rc = prepare_control(c, CONTROL_POINT_ROLLBACK);
    if (rc == SQLITE_OK && mode == DB_WRITE)
        rc = prepare_control(c, CONTROL_POINT_RELEASE);
    if (rc == SQLITE_OK && !sqlite3_get_autocommit(c->sqlite))
        rc = control(c, CONTROL_ROLLBACK);
    if (rc != SQLITE_OK)
        return rc;
    return control(c, mode == DB_WRITE ? CONTROL_BEGIN_WRITE : CONTROL_BEGIN);
}

static dibs_status begin(struct db_conn *c, enum db_mode mode, struct dibs_error *err)
{
    dibs_status s = DIBS_OK;
    if (mode == DB_WRITE)
        s = write_lock_take(&c->lock, err);
    if (s != DIBS_OK)
        return s;
    c->writing = mode == DB_WRITE;
    s = check_in_place(c, err);
    if (s == DIBS_OK) {
        int rc = begin_afresh(c, mode);
        s = rc == SQLITE_OK ? DIBS_OK : sqlite_failed(c, rc, err);
    }
    if (s != DIBS_OK)
        unlock(c);
    return s;
}

static void rollback(struct db_conn *c)
{
    if (!sqlite3_get_autocommit(c->sqlite)) {
        int rc = control(c, CONTROL_ROLLBACK);
        if (rc != SQLITE_OK)
            log_line(LOG_WARN, "cannot roll back on '%s': %s", c->shown, sqlite3_errmsg(c->sqlite));
    }
    unlock(c);
}

/* A number that SQLite counts up with each commit that it makes or notices; 0: not known. */
static unsigned version(struct db_conn *c)
{
    unsigned number = 0;
    int rc = sqlite3_file_control(c->sqlite, "main", SQLITE_FCNTL_DATA_VERSION, &number);
    return rc == SQLITE_OK ? number : 0;
}

static dibs_status commit(struct db_conn *c, struct dibs_error *err)
{
    dibs_status s = DIBS_OK;
    bool wrote = c->writing;
    c->version = 0;
    if (sqlite3_get_autocommit(c->sqlite)) {
        s = error_set(err, DIBS_STORE_UNAVAILABLE, "cannot commit on '%s': it was rolled back",
                      c->shown);
    } else {
        int rc = control(c, CONTROL_COMMIT);
        if (rc == SQLITE_OK)
            sqlite_sync_ask(c);
        if (rc != SQLITE_OK)
            s = sqlite_failed(c, rc, err);
        else if (c->writing)
            s = sqlite_checkpoint_if_due(c, err);
    }
    if (s == DIBS_OK && wrote)
        c->version = version(c);
    rollback(c); /* after a COMMIT that succeeded there is nothing left to undo but the lock */
    return s;
}

static dibs_status point(struct db_conn *c, enum db_point what, struct dibs_error *err)
{
    if (sqlite3_get_autocommit(c->sqlite))
        return error_set(err, DIBS_STORE_UNAVAILABLE,
                         "cannot use a savepoint on '%s': the transaction was rolled back",
                         c->shown);
    int rc = SQLITE_OK;
    if (what == DB_POINT_SET)
        rc = control(c, CONTROL_POINT_SET);
    if (what == DB_POINT_RETURN || what == DB_POINT_ROLLBACK)
        rc = control(c, CONTROL_POINT_ROLLBACK);
    if (rc == SQLITE_OK && (what == DB_POINT_RELEASE || what == DB_POINT_ROLLBACK))
        rc = control(c, CONTROL_POINT_RELEASE);
    return rc == SQLITE_OK ? DIBS_OK : sqlite_failed(c, rc, err);
}

static dibs_status data_version(struct db_conn *c, int64_t *out, struct dibs_error *err)
{
    int rc = prepare_control(c, CONTROL_DATA_VERSION);
    sqlite3_stmt *stmt = c->control[CONTROL_DATA_VERSION];
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *out = sqlite3_column_int64(stmt, 0);
    dibs_status s = rc == SQLITE_ROW ? DIBS_OK : sqlite_failed(c, rc, err);
    sqlite3_reset(stmt);
    return s;
}

/* ---- statements ------------------------------------------------------------------------------ */

struct db_stmt {
    struct db_conn *conn;
    sqlite3_stmt *stmt;
    int columns;      /* of a row */
    size_t values;    /* how many $n it takes */
    uint8_t number[]; /* number[i] = n when SQLite's parameter i + 1 is called $n */
};

static void finalize(struct db_stmt *s)
{
    sqlite3_finalize(s->stmt);
    mem_free(s);
}

/* Reads the names of the parameters. False when they are not $1, $2 ... up to the largest: a value
 * that goes nowhere is a mistake in the statement. */
static bool number_parameters(struct db_stmt *s, int count)
{
    long largest = 0;
    for (int i = 0; i < count; i++) {
        const char *name = sqlite3_bind_parameter_name(s->stmt, i + 1);
        long n = name != NULL && name[0] == '$' ? strtol(name + 1, NULL, 10) : 0;
        if (n < 1 || n > count)
            return false;
        s->number[i] = (uint8_t)n;
        largest = n > largest ? n : largest;
    }
    s->values = (size_t)count;
    return largest == count && count <= UINT8_MAX;
}

static dibs_status prepare(struct db_conn *c, const char *sql, struct db_stmt **out, bool *writes,
                           struct dibs_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v3(c->sqlite, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL);
    if (rc != SQLITE_OK)
        return sqlite_failed(c, rc, err);
    int count = sqlite3_bind_parameter_count(stmt);
    struct db_stmt *s = mem_alloc(sizeof *s + (size_t)count);
    if (s == NULL) {
        sqlite3_finalize(stmt);
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot use '%s': out of memory", c->shown);
    }
    s->conn = c;
    s->stmt = stmt;
    s->columns = sqlite3_column_count(stmt);
    if (!number_parameters(s, count)) {
        finalize(s);
        return error_set(err, DIBS_INTERNAL, "a statement must use $1, $2 ... without a gap: %s",
                         sql);
    }
    *writes = !sqlite3_stmt_readonly(stmt);
    *out = s;
    return DIBS_OK;
}

static int bind_one(sqlite3_stmt *stmt, int at, const struct db_value *v)
{
    switch (v->kind) {
    case DB_INT: return sqlite3_bind_int64(stmt, at, v->integer);
    case DB_TEXT:
        return sqlite3_bind_text64(stmt, at, v->text, strlen(v->text), SQLITE_STATIC, SQLITE_UTF8);
    case DB_NULL: break;
    }
    return sqlite3_bind_null(stmt, at);
}

static dibs_status bind(struct db_stmt *s, const struct db_value *args, size_t count,
                        struct dibs_error *err)
{
    assert(count == s->values && "as many values as parameters");
    if (count != s->values)
        return error_set(err, DIBS_INTERNAL, "a statement takes %zu values and was given %zu",
                         s->values, count);
    for (size_t i = 0; i < count; i++) {
        int rc = bind_one(s->stmt, (int)i + 1, &args[s->number[i] - 1]);
        if (rc != SQLITE_OK)
            return sqlite_failed(s->conn, rc, err);
    }
    return DIBS_OK;
}

static dibs_status step(struct db_stmt *s, bool *row, struct dibs_error *err)
{
    int rc = sqlite3_step(s->stmt);
    *row = rc == SQLITE_ROW;
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? DIBS_OK : sqlite_failed(s->conn, rc, err);
}

static void reset(struct db_stmt *s)
{
    sqlite3_reset(s->stmt); /* the values stay, unused: the next bind replaces all of them */
}

/* The value itself, looked up once. SQLite allows to ask it more while no other thread uses the
 * connection; a handle has one thread at a time. */
static sqlite3_value *value(struct db_stmt *s, int column)
{
    assert(column >= 0 && column < s->columns);
    return sqlite3_column_value(s->stmt, column);
}

static bool is_null(struct db_stmt *s, int column)
{
    return sqlite3_value_type(value(s, column)) == SQLITE_NULL;
}

static int64_t integer(struct db_stmt *s, int column)
{
    return sqlite3_value_int64(value(s, column));
}

static bool text(struct db_stmt *s, int column, const char **out, size_t *bytes)
{
    sqlite3_value *v = value(s, column);
    *out = NULL;
    if (sqlite3_value_type(v) == SQLITE_NULL)
        return true;
    *out = (const char *)sqlite3_value_text(v);
    *bytes = (size_t)sqlite3_value_bytes(v);
    return *out != NULL;
}

static int64_t changes(struct db_conn *c)
{
    return sqlite3_changes64(c->sqlite);
}

static bool unchanged(struct db_conn *c)
{
    return c->version != 0 && c->version == version(c);
}

static int64_t commit_number(struct db_conn *c)
{
    return c->commits;
}

const struct db_driver db_sqlite = {
    .open = sqlite_open,
    .settle = sqlite_settle,
    .seal = sqlite_seal,
    .close = sqlite_close,
    .abandon = sqlite_abandon,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .point = point,
    .script = sqlite_run,
    .prepare = prepare,
    .bind = bind,
    .step = step,
    .reset = reset,
    .finalize = finalize,
    .is_null = is_null,
    .integer = integer,
    .text = text,
    .changes = changes,
    .unchanged = unchanged,
    .overlap = sqlite_sync_begin,
    .flush_here = sqlite_sync_here,
    .commit_number = commit_number,
    .wait_durable = sqlite_sync_wait,
    .data_version = data_version,
    .backup = sqlite_backup,
    .info = sqlite_info,
    .check = sqlite_check,
};
