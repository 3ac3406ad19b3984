/* SPDX-License-Identifier: MIT */
/* probe.c: see probe.h. */
#define _GNU_SOURCE
#include "probe.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/db.h"

#define CALLS_MAX 5000 /* an operation that makes more calls than this does not end */

static sqlite3 *open_file(struct fixture *f)
{
    char path[128];
    sqlite3 *db = NULL;
    snprintf(path, sizeof path, "%s/dibs.db", f->data_dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return db;
}

int64_t probe_int(struct fixture *f, const char *sql)
{
    sqlite3 *db = open_file(f);
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    int64_t value = sqlite3_step(stmt) == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : -1;
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return value;
}

static void dump_table(sqlite3 *db, const char *table, FILE *out)
{
    char sql[128];
    sqlite3_stmt *stmt = NULL;
    snprintf(sql, sizeof sql, "SELECT * FROM \"%s\" ORDER BY 1, 2", table);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        fprintf(out, "%s:", table);
        for (int i = 0; i < sqlite3_column_count(stmt); i++) {
            const unsigned char *text = sqlite3_column_text(stmt, i);
            fprintf(out, " %s", text ? (const char *)text : "NULL");
        }
        fputc('\n', out);
    }
    sqlite3_finalize(stmt);
}

char *probe_tables(struct fixture *f)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    sqlite3 *db = open_file(f);
    sqlite3_stmt *tables = NULL;
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name",
                           -1, &tables, NULL),
        SQLITE_OK);
    while (sqlite3_step(tables) == SQLITE_ROW)
        dump_table(db, (const char *)sqlite3_column_text(tables, 0), out);
    sqlite3_finalize(tables);
    sqlite3_close(db);
    fclose(out);
    return text;
}

/* ---- failing on purpose ---------------------------------------------------------------------- */

static int calls_left;

static bool fail_now(void)
{
    return --calls_left == 0;
}

int probe_fail_each(struct fixture *f, probe_op *op)
{
    char *before = probe_tables(f);
    for (int failures = 0; failures < CALLS_MAX; failures++) {
        calls_left = failures + 1;
        db_should_fail = fail_now;
        dibs_status status = op(f);
        db_should_fail = NULL;
        if (status == DIBS_OK) {
            free(before);
            return failures;
        }
        assert_int_equal(status, DIBS_STORE_UNAVAILABLE);
        assert_int_equal(f->err.code, DIBS_STORE_UNAVAILABLE);
        char *after = probe_tables(f);
        if (strcmp(before, after) != 0)
            fail_msg("call %d failed and left a trace:\n%s\nbefore:\n%s", failures + 1, after,
                     before);
        free(after);
    }
    fail_msg("the operation never got through");
    return -1;
}

/* ---- listening ------------------------------------------------------------------------------- */

void probe_hear(void *context, const struct dibs_event *event)
{
    struct probe_ear *ear = context;
    if (ear->count == PROBE_HEARD_MAX)
        fail_msg("more than %d events", PROBE_HEARD_MAX);
    size_t i = ear->count++;
    ear->heard[i].number = event->number;
    snprintf(ear->heard[i].type, sizeof ear->heard[i].type, "%s", event->type);
    snprintf(ear->heard[i].task_id, sizeof ear->heard[i].task_id, "%s",
             event->task_id ? event->task_id : "");
    snprintf(ear->heard[i].session_id, sizeof ear->heard[i].session_id, "%s",
             event->session_id ? event->session_id : "");
    snprintf(ear->heard[i].data, sizeof ear->heard[i].data, "%s", event->data);
}

int64_t probe_listen(struct fixture *f, struct probe_ear *ear, struct dibs_strings types)
{
    int64_t id = 0;
    *ear = (struct probe_ear){0};
    assert_ok(f, dibs_subscribe(f->d,
                                &(struct dibs_subscription){
                                    .types = types, .on_event = probe_hear, .context = ear},
                                &id, &f->err));
    return id;
}

void probe_copy_file(const char *from, const char *to)
{
    char block[4096];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    if (!in || !out)
        fail_msg("cannot copy '%s' to '%s'", from, to);
    for (size_t n; (n = fread(block, 1, sizeof block, in)) > 0;)
        assert_int_equal(fwrite(block, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}
