/* SPDX-License-Identifier: MIT */
/*
 * db.h: the thin seam between the domain and a SQL store.
 *
 * The room `db` owns connections, transactions, prepared statements, migrations and the mapping of
 * a store's errors to ours. It must never know a task: SQL stands in core, beside the function that
 * uses it, written once in the dialect that SQLite and PostgreSQL share ($1 parameters, RETURNING,
 * ON CONFLICT, CTEs, CAST(x AS t)). Start reading here, then db.c, then db_sqlite.c.
 *
 * Failure is sticky. After the first failed call of a transaction every later one does nothing and
 * answers as if empty; db_ok() tells, db_error() says what it was, db_rollback() (or
 * db_rollback_to) clears it. So a sequence of statements needs one check, at the points where a
 * decision is made on what was read, and db_commit refuses a failed transaction.
 */
#ifndef DIBS_DB_H
#define DIBS_DB_H

#include "base/arena.h"
#include "base/base.h"

struct db;      /* one connection; one thread at a time */
struct db_rows; /* the rows of one running statement */

/* SQL is always a literal of the program: the macro does not compile with anything else, so values
 * can only be bound. */
#define SQL(literal) ("" literal "")

/* ---- values bound to $1, $2 ... -------------------------------------------------------------- */

enum db_kind { DB_NULL, DB_INT, DB_TEXT };
struct db_value {
    enum db_kind kind;
    int64_t integer;
    const char *text; /* borrowed until the statement is done */
};
static inline struct db_value db_i(int64_t value)
{
    return (struct db_value){.kind = DB_INT, .integer = value};
}
static inline struct db_value db_t(const char *text) /* NULL binds NULL */
{
    return (struct db_value){.kind = text ? DB_TEXT : DB_NULL, .text = text};
}
static inline struct db_value db_i_or_null(int64_t value) /* 0 binds NULL */
{
    return (struct db_value){.kind = value ? DB_INT : DB_NULL, .integer = value};
}
/* db_exec(db, SQL("UPDATE t SET a = $1 WHERE b = $2"), DB_ARGS(db_i(1), db_t("x"))); no parameters:
 * DB_NO_ARGS */
#define DB_ARGS(...)                                                                               \
    (const struct db_value[]){__VA_ARGS__},                                                        \
        (sizeof((const struct db_value[]){__VA_ARGS__}) / sizeof(struct db_value))
#define DB_NO_ARGS NULL, 0

/* ---- connections ----------------------------------------------------------------------------- */

struct db_options {
    const char *path; /* the data file */
    bool create;      /* make it if it is not there; else DIBS_STORE_NOT_FOUND */
    const struct dibs_platform *platform; /* for the check of the file system */
};
dibs_status db_open(const struct db_options *in, struct db **out, struct dibs_error *err) MUST_USE;
void db_close(struct db *db); /* NULL is fine */

/* ---- transactions ---------------------------------------------------------------------------- */

enum db_mode { DB_READ, DB_WRITE };
/* Begins. A write transaction takes the fair write lock first and waits for it as long as it
 * takes. */
bool db_begin(struct db *db, enum db_mode mode) MUST_USE;
/* false: rolled back (db_error says why; the error stays until the next begin) */
bool db_commit(struct db *db) MUST_USE;
void db_rollback(struct db *db);
/* A savepoint inside a write transaction; they nest. db_release and db_rollback_to end the
 * innermost. One in which nothing is written costs nothing. */
bool db_savepoint(struct db *db) MUST_USE;
/* What comes now, up to the end of the innermost savepoint, need not be undone by itself: the
 * caller has decided to do it. That saves the copies of all pages. If it fails all the same,
 * db_rollback_to leaves the failure standing, and what is around has to be undone as well. */
void db_writes_only(struct db *db);
bool db_release(struct db *db) MUST_USE;
/* Stays failed when the store has given up the whole transaction (full disk): then roll back. */
void db_rollback_to(struct db *db);
bool db_in_transaction(const struct db *db);

/* ---- statements ------------------------------------------------------------------------------ */

/*
 * `sql` is a literal (see SQL): prepared statements are kept by its address. It must use $1, $2 ...
 * without a gap, and be given exactly as many values. A statement that writes fails with
 * DIBS_INTERNAL outside of a write transaction.
 */
/* Runs a statement to its end. False on failure. */
bool db_exec(struct db *db, const char *sql, const struct db_value *args, size_t count);
int64_t db_changes(struct db *db); /* rows changed by the last db_exec */

/* Starts a statement that returns rows. Never NULL: after a failure the rows are simply empty. End
 * with db_done. */
struct db_rows *db_query(struct db *db, const char *sql, const struct db_value *args, size_t count);
bool db_next(struct db_rows *rows);               /* false: no more rows, or failure */
void db_done(struct db_rows *rows);               /* may be called early; NULL is fine */
int64_t db_int(struct db_rows *rows, int column); /* 0 for NULL */
bool db_is_null(struct db_rows *rows, int column);
/* A copy in the arena; NULL for SQL NULL. Out of memory fails the transaction and gives NULL. */
const char *db_text(struct db_rows *rows, int column, dibs_arena *a);
/* Borrowed until the next db_next/db_done; NULL for SQL NULL. */
const char *db_text_borrowed(struct db_rows *rows, int column);

/* Runs a query of one row and one integer column; `otherwise` when there is no row, or NULL, or
 * failure. */
int64_t db_value_int(struct db *db, int64_t otherwise, const char *sql, const struct db_value *args,
                     size_t count);

/* ---- state ----------------------------------------------------------------------------------- */

bool db_ok(const struct db *db);
/* The failure as an error; DIBS_OK when there was none. */
dibs_status db_error(const struct db *db, struct dibs_error *err);
/* A flush to disk has failed in this process: no handle of it works any more. Any thread. */
bool db_is_broken(void);
/* Makes the transaction fail from outside (out of memory in core): sticky like any other
 * failure. */
void db_fail(struct db *db, dibs_status code, const char *text);
/* Grows whenever another connection, of any process, has committed since. Cheap; outside of
 * transactions. */
int64_t db_change_counter(struct db *db);

/* Whether nobody else has committed between this handle's last commit and the write transaction
 * that is open: then what was read or written before still holds. False when in doubt. */
bool db_unchanged(const struct db *db);

/* ---- committing without waiting for the disk ------------------------------------------------- */

/*
 * db_overlap: from now on db_commit returns when the transaction stands, for everybody to see, but
 * before it is on disk. A thread flushes and calls on_durable(context, n) when commit n and all
 * before it are on disk, or once with -1 when a flush has failed: then nothing more will be. The
 * callback must not use the handle. Outside of transactions. Ends with db_close, which flushes.
 */
dibs_status db_overlap(struct db *db, void (*on_durable)(void *context, int64_t commit),
                       void *context, struct dibs_error *err) MUST_USE;
/* With db_overlap: whether the next commits flush by themselves before they return. That saves two
 * changes of thread when there is nothing to do meanwhile. on_durable is said of them as well, from
 * within db_commit. */
void db_flush_here(struct db *db, bool here);
/* The number of this handle's last commit that wrote something; they count up from 1. */
int64_t db_commit_number(const struct db *db);
/* Waits until that commit is on disk; false: it never will be. At once without db_overlap. */
bool db_wait_durable(struct db *db, int64_t commit) MUST_USE;

/* ---- care ------------------------------------------------------------------------------------ */

/* A whole copy in a new file, flushed; DIBS_INVALID_REQUEST when the file exists. Outside of
 * transactions, like all of these. Writers go on meanwhile. */
/* A whole, consistent copy in the new file `path`. `mark` is SQL run in the copy before it gets its
 * name, so that the copy can tell that it is one. */
dibs_status db_backup(struct db *db, const char *path, const char *mark, struct dibs_error *err)
    MUST_USE;
struct db_info {
    const char *engine;  /* "SQLite" */
    const char *version; /* "3.40.1" */
    /* this SQLite loses data when two connections write and checkpoint at once: our lock prevents
     * it */
    bool wal_reset_bug;
    int64_t file_bytes, wal_bytes, free_disk_bytes;
    int64_t schema;       /* newest migration applied */
    int64_t schema_known; /* newest migration this program has */
    char journal_mode[16];
    int64_t synchronous; /* 2 = FULL */
};
dibs_status db_info(struct db *db, struct db_info *out, struct dibs_error *err) MUST_USE;
/* Reads every page; on damage DIBS_STORE_CORRUPT with the first finding. */
dibs_status db_check(struct db *db, struct dibs_error *err) MUST_USE;

/* Tests: asked before every begin, statement step and commit; true makes it fail with
 * DIBS_STORE_UNAVAILABLE. */
extern bool (*db_should_fail)(void);

#endif
