/* SPDX-License-Identifier: MIT */
/*
 * db_statement.c: statements, their rows, and the cache of prepared ones.
 *
 * The cache is a hash table keyed by the address of the SQL literal: the same place in the program
 * is the same statement, and no text is compared. A statement may stand in one of a few
 * neighbouring slots; when all are taken the first one that is not running makes room. A statement
 * that is asked for while it runs (a query inside the loop over its own rows) is prepared a second
 * time, for that use only.
 *
 *   1. A statement that writes runs only inside a write transaction, thus under the write lock.
 *   2. Values are borrowed from db_query to db_done.
 *   3. After a failure db_query answers with db->none, rows that are always empty.
 */
#include <assert.h>

#include "db_private.h"

enum { NEIGHBOURS = 8 };

/* ---- the cache ------------------------------------------------------------------------------- */

static size_t slot_of(const char *sql)
{
    uint64_t mixed = (uint64_t)(uintptr_t)sql * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 32) % STATEMENTS_MAX;
}

static void statement_free(struct db_rows *rows)
{
    if (rows == NULL)
        return;
    rows->db->driver->finalize(rows->stmt);
    mem_free(rows);
}

void db_statements_free(struct db *db)
{
    for (size_t i = 0; i < STATEMENTS_MAX; i++) {
        statement_free(db->cache[i]);
        db->cache[i] = NULL;
    }
}

static struct db_rows *statement_new(struct db *db, const char *sql)
{
    struct db_rows *rows = mem_alloc(sizeof *rows);
    if (rows == NULL) {
        db_fail(db, DIBS_OUT_OF_MEMORY, "cannot prepare a statement: out of memory");
        return NULL;
    }
    *rows = (struct db_rows){.db = db, .sql = sql};
    if (db->driver->prepare(db->conn, sql, &rows->stmt, &rows->writes, &db->failure) != DIBS_OK) {
        mem_free(rows);
        return NULL;
    }
    return rows;
}

/* A slot for a new statement, emptied; NULL when all that it could have are running. */
static struct db_rows **make_room(struct db *db, size_t first)
{
    struct db_rows **idle = NULL;
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        struct db_rows **slot = &db->cache[(first + i) % STATEMENTS_MAX];
        if (*slot == NULL)
            return slot;
        if (idle == NULL && !(*slot)->busy)
            idle = slot;
    }
    if (idle != NULL) {
        statement_free(*idle);
        *idle = NULL;
    }
    return idle;
}

static struct db_rows *statement(struct db *db, const char *sql)
{
    size_t first = slot_of(sql);
    bool running = false;
    for (size_t i = 0; i < NEIGHBOURS && !running; i++) {
        struct db_rows *found = db->cache[(first + i) % STATEMENTS_MAX];
        if (found != NULL && found->sql == sql && !found->busy)
            return found;
        running = found != NULL && found->sql == sql;
    }
    struct db_rows *rows = statement_new(db, sql);
    struct db_rows **slot = rows != NULL && !running ? make_room(db, first) : NULL;
    if (slot != NULL) {
        rows->cached = true;
        *slot = rows;
    }
    return rows;
}

/* ---- running --------------------------------------------------------------------------------- */

static void finish(struct db_rows *rows)
{
    rows->busy = rows->on_row = false;
    rows->db->running--;
    rows->db->driver->reset(rows->stmt);
    if (!rows->cached)
        statement_free(rows);
}

struct db_rows *db_query(struct db *db, const char *sql, const struct db_value *args, size_t count)
{
    struct db_rows *rows = db_usable(db) ? statement(db, sql) : NULL;
    if (rows == NULL)
        return &db->none;
    rows->busy = true;
    rows->on_row = rows->ended = false;
    db->running++;
    if (rows->writes && !(db->began && db->mode == DB_WRITE))
        db_fail(db, DIBS_INTERNAL, "cannot write outside of a write transaction");
    else if (!rows->writes || db_guard(db))
        (void)db->driver->bind(rows->stmt, args, count, &db->failure);
    if (!db_ok(db)) {
        finish(rows);
        return &db->none;
    }
    return rows;
}

bool db_next(struct db_rows *rows)
{
    struct db *db = rows->db;
    rows->on_row = false;
    if (rows->stmt == NULL || rows->ended || !db_usable(db) || db_made_to_fail(db))
        return false;
    if (db->driver->step(rows->stmt, &rows->on_row, &db->failure) != DIBS_OK)
        rows->on_row = false;
    rows->ended = !rows->on_row;
    return rows->on_row;
}

void db_done(struct db_rows *rows)
{
    if (rows != NULL && rows->stmt != NULL)
        finish(rows);
}

bool db_exec(struct db *db, const char *sql, const struct db_value *args, size_t count)
{
    struct db_rows *rows = db_query(db, sql, args, count);
    while (db_next(rows))
        continue;
    if (db_ok(db))
        db->changes = db->driver->changes(db->conn);
    db_done(rows);
    return db_ok(db);
}

int64_t db_changes(struct db *db)
{
    return db_ok(db) ? db->changes : 0;
}

bool db_script(struct db *db, const char *sql)
{
    if (!db_usable(db) || db_made_to_fail(db) || !db_guard(db))
        return false;
    assert(db->began && db->mode == DB_WRITE);
    return db->driver->script(db->conn, sql, &db->failure) == DIBS_OK;
}

/* ---- columns --------------------------------------------------------------------------------- */

bool db_is_null(struct db_rows *rows, int column)
{
    return !rows->on_row || rows->db->driver->is_null(rows->stmt, column);
}

int64_t db_int(struct db_rows *rows, int column)
{
    return rows->on_row ? rows->db->driver->integer(rows->stmt, column) : 0;
}

static const char *text_of(struct db_rows *rows, int column, size_t *bytes)
{
    const char *text = NULL;
    if (rows->on_row && !rows->db->driver->text(rows->stmt, column, &text, bytes))
        db_fail(rows->db, DIBS_OUT_OF_MEMORY, "cannot read a row: out of memory");
    return text;
}

const char *db_text_borrowed(struct db_rows *rows, int column)
{
    size_t bytes = 0;
    return text_of(rows, column, &bytes);
}

const char *db_text(struct db_rows *rows, int column, dibs_arena *a)
{
    size_t bytes = 0;
    const char *text = text_of(rows, column, &bytes);
    if (text == NULL)
        return NULL;
    const char *copy = arena_copy(a, text, bytes);
    if (copy == NULL)
        db_fail(rows->db, DIBS_OUT_OF_MEMORY, "cannot read a row: out of memory");
    return copy;
}

int64_t db_value_int(struct db *db, int64_t otherwise, const char *sql, const struct db_value *args,
                     size_t count)
{
    int64_t value = otherwise;
    struct db_rows *rows = db_query(db, sql, args, count);
    if (db_next(rows) && !db_is_null(rows, 0))
        value = db_int(rows, 0);
    db_done(rows);
    return value;
}
