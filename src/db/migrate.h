/* SPDX-License-Identifier: MIT */
/*
 * migrate.h: brings a store to the shape that this program knows. Private to the room.
 *
 * The migrations themselves are migrations/NNNN_name.sql, put into the program by
 * gen_migrations.py.
 */
#ifndef DIBS_MIGRATE_H
#define DIBS_MIGRATE_H

#include "db.h"

struct migration {
    int64_t number; /* from 1 on, growing */
    const char *name;
    bool breaking; /* a program that does not know this migration must not use the store */
    const char *sql;
};

struct migration_list {
    const struct migration *items;
    size_t count;
};

/* All that this program has, in order; made by gen_migrations.py. */
extern const struct migration_list db_migrations;

/* The table that remembers what was applied. The driver makes it together with the store. */
#define MIGRATE_TABLE_SQL                                                                          \
    "CREATE TABLE schema_migration ("                                                              \
    " number INTEGER PRIMARY KEY, name TEXT NOT NULL,"                                             \
    " breaking INTEGER NOT NULL, applied_at INTEGER NOT NULL) STRICT"

/* Reads only. DIBS_STORE_TOO_NEW when the store has a breaking migration that is not in the list.
 * */
dibs_status migrate_check(struct db *db, struct migration_list list, struct dibs_error *err)
    MUST_USE;

/* Applies what is missing, each migration in a write transaction of its own that looks again first:
 * several processes may do this at once. */
dibs_status migrate_run(struct db *db, struct migration_list list, int64_t now_ms,
                        struct dibs_error *err) MUST_USE;

#endif
