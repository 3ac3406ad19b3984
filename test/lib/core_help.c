/* SPDX-License-Identifier: MIT */
/* core_help.c: see core_help.h. */
#include "core_help.h"

#include <sqlite3.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

static const char *register_as(struct fixture *f, struct dibs_session_new in)
{
    struct dibs_session s = {0};
    assert_ok(f, dibs_session_register(f->d, f->a, &in, &s, &f->err));
    return s.id;
}

const char *make_agent_session(struct fixture *f, const char *id, const char *agent)
{
    return register_as(f, (struct dibs_session_new){.id = id, .agent_id = agent});
}

const char *make_project_session(struct fixture *f, const char *id, const char *project)
{
    return register_as(f, (struct dibs_session_new){.id = id, .project = project});
}

int64_t now_ms(struct fixture *f)
{
    int64_t now = 0;
    assert_ok(f, dibs_now(f->d, &now, &f->err));
    return now;
}

/* ---- one operation --------------------------------------------------------------------------- */

dibs_status try_claim(struct fixture *f, const char *task, const char *session, int64_t ttl_ms)
{
    struct dibs_claim out = {0};
    struct dibs_claim_take in = {.task_id = task, .session_id = session, .ttl_ms = ttl_ms};
    return dibs_claim_take(f->d, f->a, &in, &out, &f->err);
}

dibs_status try_heartbeat(struct fixture *f, const char *task, const char *session, int64_t token)
{
    struct dibs_claim out = {0};
    struct dibs_heartbeat in = {.task_id = task, .session_id = session, .token = token};
    return dibs_claim_heartbeat(f->d, f->a, &in, &out, &f->err);
}

dibs_status try_progress(struct fixture *f, const char *task, const char *session, int64_t token,
                         const char *checkpoint)
{
    struct dibs_claim out = {0};
    struct dibs_progress in = {
        .task_id = task, .session_id = session, .token = token, .checkpoint = checkpoint};
    return dibs_claim_progress(f->d, f->a, &in, &out, &f->err);
}

dibs_status try_complete(struct fixture *f, const char *task, const char *session, int64_t token,
                         const char *result)
{
    struct dibs_task out = {0};
    struct dibs_report in = {
        .task_id = task, .session_id = session, .token = token, .result = result};
    return dibs_complete(f->d, f->a, &in, &out, &f->err);
}

dibs_status try_fail(struct fixture *f, const char *task, const char *session, int64_t token,
                     const char *error)
{
    struct dibs_task out = {0};
    struct dibs_report in = {
        .task_id = task, .session_id = session, .token = token, .error = error};
    return dibs_fail(f->d, f->a, &in, &out, &f->err);
}

dibs_status try_release(struct fixture *f, const char *task, const char *session, int64_t token,
                        const char *reason)
{
    struct dibs_released out = {0};
    struct dibs_release in = {
        .task_id = task, .session_id = session, .token = token, .reason = reason};
    return dibs_claim_release(f->d, f->a, &in, &out, &f->err);
}

dibs_status try_move(struct fixture *f, move_call *call, const char *task, const char *agent)
{
    struct dibs_task out = {0};
    return call(f->d, f->a, &(struct dibs_move){.task_id = task, .agent_id = agent}, &out, &f->err);
}

dibs_status try_review(struct fixture *f, const char *task, const char *session)
{
    struct dibs_task out = {0};
    struct dibs_move in = {.task_id = task, .session_id = session};
    return dibs_task_review(f->d, f->a, &in, &out, &f->err);
}

dibs_status try_create(struct fixture *f, struct dibs_task_new in)
{
    struct dibs_task_list out = {0};
    return dibs_task_create(f->d, f->a, &in, 1, &out, &f->err);
}

const char *claim_any(struct fixture *f, struct dibs_claim_next in)
{
    struct dibs_grant out = {0};
    dibs_status status = dibs_claim_next(f->d, f->a, &in, &out, &f->err);
    if (status == DIBS_NOTHING_TO_CLAIM)
        return "";
    assert_ok(f, status);
    return out.items[0].task.id;
}

/* ---- looking --------------------------------------------------------------------------------- */

int64_t event_int(struct fixture *f, const struct dibs_event *e, const char *field)
{
    int64_t value = 0;
    const char *text = event_field(f, e, field);
    if (!str_to_int(text, &value))
        fail_msg("'%s' of event %s is '%s'", field, e->type, text);
    return value;
}

struct dibs_history get_history(struct fixture *f, const char *task)
{
    struct dibs_history out = {0};
    assert_ok(f, dibs_task_history(f->d, f->a, task, &out, &f->err));
    return out;
}

static sqlite3 *open_file(struct fixture *f)
{
    sqlite3 *db = NULL;
    const char *path = arena_printf(f->a, "%s/dibs.db", f->data_dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return db;
}

static void add_rows(sqlite3 *db, const char *sql, struct buf *out)
{
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    while (sqlite3_step(s) == SQLITE_ROW)
        for (int i = 0; i < sqlite3_column_count(s); i++) {
            const char *value = (const char *)sqlite3_column_text(s, i);
            buf_printf(out, "%s=%s\n", sqlite3_column_name(s, i), value ? value : "(null)");
        }
    sqlite3_finalize(s);
}

const char *rows_of(struct fixture *f)
{
    struct buf out;
    sqlite3 *db = open_file(f);
    buf_init(&out, ANSWER_BYTES_MAX);
    add_rows(db, "SELECT * FROM task ORDER BY key", &out);
    add_rows(db, "SELECT * FROM task_body ORDER BY task_key", &out);
    add_rows(db, "SELECT * FROM task_tag ORDER BY task_key, tag", &out);
    add_rows(db, "SELECT * FROM task_dependency ORDER BY task_key, needs_key", &out);
    add_rows(db, "SELECT * FROM claim ORDER BY token", &out);
    sqlite3_close(db);
    assert_true(buf_ok(&out));
    const char *text = arena_copy(f->a, out.data, out.len);
    buf_release(&out);
    return text;
}

int64_t query_int(struct fixture *f, const char *sql)
{
    sqlite3 *db = open_file(f);
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return value;
}

bool is_refused_by_the_file(struct fixture *f, const char *sql)
{
    sqlite3 *db = open_file(f);
    int result = sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_close(db);
    return result == SQLITE_CONSTRAINT;
}

const char *words(struct fixture *f, struct dibs_strings list)
{
    const char *text = "";
    for (size_t i = 0; i < list.count; i++)
        text = arena_printf(f->a, "%s%s%s", text, i ? " " : "", list.items[i]);
    return text;
}

const char *ids(struct fixture *f, const struct dibs_task_list *list)
{
    const char *text = "";
    for (size_t i = 0; i < list->count; i++)
        text = arena_printf(f->a, "%s%s%s", text, i ? " " : "", list->items[i].id);
    return text;
}

const char *repeated(struct fixture *f, char c, size_t count)
{
    char *text = arena_alloc(f->a, count + 1);
    assert_non_null(text);
    memset(text, c, count);
    return text;
}
