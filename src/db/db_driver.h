/* SPDX-License-Identifier: MIT */
/*
 * db_driver.h: what a store must be able to do. Private to the room; db.c is the only caller.
 *
 * Each driver defines struct db_conn and struct db_stmt for itself. A function that returns a
 * status fills in err (never NULL here) when it is not DIBS_OK. Sticky failure, forks, the
 * statement cache and the fault hook are settled above the driver.
 */
#ifndef DIBS_DB_DRIVER_H
#define DIBS_DB_DRIVER_H

#include "db.h"

struct db_conn; /* one connection */
struct db_stmt; /* one prepared statement */

/* RETURN undoes what came after the innermost point, which stays; ROLLBACK ends it as well. CHECK
 * only asks whether the transaction is still there. */
enum db_point {
    DB_POINT_SET,
    DB_POINT_RELEASE,
    DB_POINT_RETURN,
    DB_POINT_ROLLBACK,
    DB_POINT_CHECK,
};

struct db_driver {
    /* open checks that the store is ours and whole and writes nothing to it, unless it makes a new
     * one; settle then prepares it for writing; seal, after the migrations, forbids all but DML. */
    dibs_status (*open)(const struct db_options *in, struct db_conn **out, struct dibs_error *err);
    dibs_status (*settle)(struct db_conn *c, struct dibs_error *err);
    void (*seal)(struct db_conn *c);
    void (*close)(struct db_conn *c);
    void (*abandon)(
        struct db_conn *c); /* close in a forked child: leaves the parent's state alone */

    dibs_status (*begin)(struct db_conn *c, enum db_mode mode, struct dibs_error *err);
    dibs_status (*commit)(struct db_conn *c, struct dibs_error *err); /* rolled back if not OK */
    void (*rollback)(struct db_conn *c);
    /* A point that is gone, because the store rolled back the whole transaction, is a failure. */
    dibs_status (*point)(struct db_conn *c, enum db_point what, struct dibs_error *err);
    dibs_status (*script)(struct db_conn *c, const char *sql, struct dibs_error *err);

    dibs_status (*prepare)(struct db_conn *c, const char *sql, struct db_stmt **out, bool *writes,
                           struct dibs_error *err);
    dibs_status (*bind)(struct db_stmt *s, const struct db_value *args, size_t count,
                        struct dibs_error *err);
    dibs_status (*step)(struct db_stmt *s, bool *row, struct dibs_error *err);
    void (*reset)(struct db_stmt *s); /* ready for the next bind; the values are not read again */
    void (*finalize)(struct db_stmt *s);
    bool (*is_null)(struct db_stmt *s, int column);
    int64_t (*integer)(struct db_stmt *s, int column);
    /* *out is NULL for NULL; false: out of memory */
    bool (*text)(struct db_stmt *s, int column, const char **out, size_t *bytes);
    int64_t (*changes)(struct db_conn *c);

    /* Inside a write transaction: whether nobody else has committed since our last commit. */
    bool (*unchanged)(struct db_conn *c);

    /* Flushing apart from committing: see db_overlap. */
    dibs_status (*overlap)(struct db_conn *c, void (*on_durable)(void *, int64_t), void *context,
                           struct dibs_error *err);
    void (*flush_here)(struct db_conn *c, bool here);
    int64_t (*commit_number)(struct db_conn *c);
    bool (*wait_durable)(struct db_conn *c, int64_t commit);

    /* Differs from the last answer when another connection has committed in between. */
    dibs_status (*data_version)(struct db_conn *c, int64_t *out, struct dibs_error *err);
    dibs_status (*backup)(struct db_conn *c, const char *path, const char *mark,
                          struct dibs_error *err);
    dibs_status (*info)(struct db_conn *c, struct db_info *out, struct dibs_error *err);
    dibs_status (*check)(struct db_conn *c, struct dibs_error *err);
};

extern const struct db_driver db_sqlite;

#endif
