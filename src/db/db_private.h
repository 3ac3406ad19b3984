/* SPDX-License-Identifier: MIT */
/*
 * db_private.h: the handle, for the files of this room that share it: db.c (connection,
 * transactions, failure), db_statement.c (statements and their cache) and migrate.c.
 */
#ifndef DIBS_DB_PRIVATE_H
#define DIBS_DB_PRIVATE_H

#include <sys/types.h>

#include "db_driver.h"
#include "migrate.h"

/* A batch in a batch, dibs_once and the operation in each of them, and some. */
enum { LEVELS_MAX = 2 * BATCH_LEVELS_MAX + 8 };

/* A prepared statement and, while it runs, its rows. */
struct db_rows {
    struct db *db;
    struct db_stmt *stmt; /* NULL: the empty rows of a failure */
    const char *sql;      /* the literal it was made from */
    bool cached;          /* else it dies in db_done */
    bool writes;
    bool busy;   /* between db_query and db_done */
    bool on_row; /* the last db_next found one */
    bool ended;
};

struct db {
    const struct db_driver *driver;
    struct db_conn *conn;
    char *path;  /* as the caller gave it; for messages */
    pid_t owner; /* process that opened it */
    int forks;   /* how many forks lay before it then */
    bool began;  /* in a transaction */
    int points;  /* savepoints of the store, one inside the other */
    struct db_level {
        int points;     /* how many there were when it began */
        bool unguarded; /* it asked for none */
        bool spoiled;   /* and has written */
    } levels[LEVELS_MAX];
    int level_count;
    enum db_mode mode;
    struct dibs_error failure; /* code DIBS_OK: none */
    int64_t changes;
    int64_t data_version, change_counter;
    int64_t schema_known;
    size_t running; /* statements between db_query and db_done */
    struct db_rows none;
    struct db_rows *cache[STATEMENTS_MAX];
};

/* db_open with migrations of the caller's choice. */
dibs_status db_open_with(const struct db_options *in, struct migration_list list, struct db **out,
                         struct dibs_error *err) MUST_USE;
const char *db_path(const struct db *db);
/* Runs several statements without values, inside a write transaction. */
bool db_script(struct db *db, const char *sql);

/* Whether a call may go on: same process, no flush failed, no failure so far. Notes the failure. */
bool db_usable(struct db *db);
/* Asks db_should_fail; true: noted as a failure. */
bool db_made_to_fail(struct db *db);
void db_statements_free(struct db *db);
/* Something is about to be written: makes sure that the innermost savepoint can undo it. */
bool db_guard(struct db *db) MUST_USE;

/* A flush to disk has failed: no handle of this process may be used again, as the kernel may have
 * dropped what it could not write and will report it as written from now on. */
void db_flush_failed(void);

#endif
