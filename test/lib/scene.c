/* SPDX-License-Identifier: MIT */
/* scene.c: see scene.h. */
#include "scene.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- making it ------------------------------------------------------------------------------- */

static void session(struct scene *s, const char *id, const char *agent, int64_t pid)
{
    struct dibs_session out = {0};
    struct dibs_session_new in = {
        .id = id, .agent_type = "worker", .agent_id = agent, .pid = pid, .metadata = "{\"v\":1}"};
    assert_ok(s->f, dibs_session_register(s->d, s->f->a, &in, &out, &s->f->err));
}

static void task(struct scene *s, struct dibs_task_new in)
{
    in.title = in.id;
    in.type = "work";
    make_task_as(s->f, in);
}

static int64_t held(struct scene *s, const char *id, const char *by, int64_t ttl)
{
    struct dibs_claim out = {0};
    struct dibs_claim_take in = {.task_id = id, .session_id = by, .ttl_ms = ttl};
    task(s, (struct dibs_task_new){.id = id});
    assert_ok(s->f, dibs_claim_take(s->d, s->f->a, &in, &out, &s->f->err));
    return out.token;
}

static void lock(struct scene *s, const char *resource, const char *by, bool shared, int64_t ttl)
{
    struct dibs_claim out = {0};
    struct dibs_lock_take in = {
        .resource = resource, .session_id = by, .shared = shared, .ttl_ms = ttl};
    assert_ok(s->f, dibs_lock_take(s->d, s->f->a, &in, &out, &s->f->err));
}

static void heartbeat(struct scene *s, const char *id)
{
    struct dibs_session_news news = {0};
    assert_ok(s->f, dibs_session_heartbeat(s->d, s->f->a, id, &news, &s->f->err));
}

/* What a week ago happened, and will be pruned. */
static void make_past(struct scene *s)
{
    struct dibs_task out = {0};
    held(s, "old", "bob-1", 0);
    struct dibs_report report = {.task_id = "old", .session_id = "bob-1"};
    assert_ok(s->f, dibs_complete(s->d, s->f->a, &report, &out, &s->f->err));
    world_pass(&s->f->world, MINUTES(8 * 24 * 60));
}

static void make_finished(struct scene *s)
{
    struct dibs_task out = {0};
    struct fixture *f = s->f;
    held(s, "done", "ann-1", 0);
    struct dibs_report report = {.task_id = "done", .session_id = "ann-1", .result = "{\"n\":1}"};
    assert_ok(f, dibs_complete(s->d, f->a, &report, &out, &f->err));
    held(s, "failed", "ann-1", 0);
    report = (struct dibs_report){
        .task_id = "failed", .session_id = "ann-1", .error = "no", .permanent = true};
    assert_ok(f, dibs_fail(s->d, f->a, &report, &out, &f->err));
    task(s, (struct dibs_task_new){.id = "cancelled"});
    struct dibs_move move = {.task_id = "cancelled"};
    assert_ok(f, dibs_task_cancel(s->d, f->a, &move, &out, &f->err));
}

static void make_waiting(struct scene *s)
{
    struct dibs_task out = {0};
    struct fixture *f = s->f;
    task(s, (struct dibs_task_new){.id = "open",
                                   .tags = DIBS_STRINGS("red", "green"),
                                   .params = "{\"a\":[1,2]}",
                                   .description = "something to do"});
    task(s, (struct dibs_task_new){.id = "after-held", .depends_on = DIBS_STRINGS("held")});
    task(s, (struct dibs_task_new){.id = "offered", .offered_to = "ann"});
    task(s, (struct dibs_task_new){.id = "reviewing", .offered_to = "ann"});
    task(s, (struct dibs_task_new){.id = "assigned", .assignee = "ann"});
    task(s, (struct dibs_task_new){.id = "blocked"});
    task(s, (struct dibs_task_new){.id = "delayed", .run_after_ms = f->world.wall_ms + MINUTES(2)});
    struct dibs_move move = {.task_id = "blocked", .reason = "waits for a key"};
    assert_ok(f, dibs_task_block(s->d, f->a, &move, &out, &f->err));
    move = (struct dibs_move){.task_id = "reviewing", .session_id = "ann-1"};
    assert_ok(f, dibs_task_review(s->d, f->a, &move, &out, &f->err));
}

static void make_held(struct scene *s)
{
    struct dibs_claim out = {0};
    struct fixture *f = s->f;
    session(s, "silent", NULL, 0);
    session(s, "dead", NULL, 101);
    held(s, "of-silent", "silent", MINUTES(60));
    held(s, "of-dead", "dead", MINUTES(60));
    held(s, "lapsed", "bob-1", MINUTES(1));
    held(s, "held-too", "bob-1", 0);
    s->token = held(s, "held", "ann-1", 0);
    struct dibs_progress progress = {.task_id = "held",
                                     .session_id = "ann-1",
                                     .percent = DIBS_VALUE(40),
                                     .checkpoint = "{\"at\":40}"};
    assert_ok(f, dibs_claim_progress(s->d, f->a, &progress, &out, &f->err));
    lock(s, "one", "ann-1", false, MINUTES(60));
    lock(s, "many", "ann-1", true, MINUTES(60));
    lock(s, "many", "bob-1", true, MINUTES(60));
    lock(s, "past", "bob-1", false, SECONDS(5));
}

static void build(struct scene *s)
{
    world_start_process(&s->f->world, 100);
    world_start_process(&s->f->world, 101);
    session(s, "bob-1", "bob", 0);
    make_past(s);
    session(s, "bob-1", "bob", 0);
    session(s, "ann-1", "ann", 100);
    make_held(s);
    make_waiting(s);
    make_finished(s);
    for (int i = 0; i < 3; i++) { /* long enough for the silent one */
        world_pass(&s->f->world, MINUTES(4));
        heartbeat(s, "ann-1");
        heartbeat(s, "dead");
    }
    world_kill_process(&s->f->world, 101);
}

/* ---- keeping it ------------------------------------------------------------------------------ */

static struct {
    void *fixture;
    struct world world;
    int64_t token;
    unsigned char file[1024 * 1024]; /* the data file, all of it: the log is empty */
    size_t bytes;
} kept;

static void path_of(char out[128], const char *suffix)
{
    const struct fixture *f = kept.fixture;
    snprintf(out, 128, "%s/dibs.db%s", f->data_dir, suffix);
}

static void keep(struct scene *s)
{
    char path[128];
    plant(s->f, "PRAGMA wal_checkpoint(TRUNCATE)");
    path_of(path, "");
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    kept.bytes = fread(kept.file, 1, sizeof kept.file, file);
    fclose(file);
    assert_in_range(kept.bytes, 4096, sizeof kept.file - 1);
    kept.world = s->f->world;
    kept.token = s->token;
}

/* Written over in place: it stays the same file to the store, which would notice a copy. */
static void restore(void)
{
    char path[128];
    struct fixture *f = kept.fixture;
    path_of(path, "-wal");
    unlink(path);
    path_of(path, "-shm");
    unlink(path);
    path_of(path, "");
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, kept.file, kept.bytes, 0), kept.bytes);
    assert_int_equal(ftruncate(fd, (off_t)kept.bytes), 0);
    close(fd);
    f->world = kept.world;
    f->world.platform.context = &f->world;
}

int scene_begin(void **state)
{
    struct scene s = {0};
    (void)state;
    if (fixture_setup(&kept.fixture) != 0)
        return -1;
    s.f = kept.fixture;
    s.d = s.f->d;
    s.f->skip_verify = true; /* scene_verify says it better */
    build(&s);
    keep(&s);
    dibs_close(s.f->d);
    s.f->d = NULL;
    return 0;
}

int scene_end(void **state)
{
    (void)state;
    return fixture_teardown(&kept.fixture);
}

void scene_open(struct scene *s)
{
    restore();
    *s = (struct scene){.f = kept.fixture, .token = kept.token};
    fixture_reopen(s->f);
    s->d = s->f->d;
    scene_look(s, true);
    dibs_arena_reset(s->f->a);
}

void scene_close(struct scene *s)
{
    if (!s->f)
        return;
    dibs_close(s->other);
    dibs_close(s->f->d);
    s->f->d = NULL;
    scene_look(s, false);
    *s = (struct scene){0};
}

/* A table that the digest forgets would never be compared. */
static void expect_known_tables(struct scene *s)
{
    sqlite3_stmt *stmt = NULL;
    const char *sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'";
    assert_int_equal(sqlite3_prepare_v2(s->look, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int64(stmt, 0), SCENE_TABLES);
    sqlite3_finalize(stmt);
}

void scene_look(struct scene *s, bool is_open)
{
    char path[128];
    for (size_t i = 0; i < SCENE_TABLES; i++)
        sqlite3_finalize(s->tables[i]);
    memset(s->tables, 0, sizeof s->tables);
    sqlite3_close(s->look);
    s->look = NULL;
    if (!is_open)
        return;
    path_of(path, "");
    assert_int_equal(sqlite3_open(path, &s->look), SQLITE_OK);
    sqlite3_db_config(s->look, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    expect_known_tables(s);
}

/* ---- looking at it --------------------------------------------------------------------------- */

static uint64_t add(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ p[i]) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

/* Prepared once for each eye: a digest is taken thousands of times. */
static uint64_t add_table(struct scene *s, uint64_t hash, size_t table)
{
    static const char *const names[SCENE_TABLES] = {"counter",
                                                    "clock",
                                                    "identity",
                                                    "session",
                                                    "task",
                                                    "task_body",
                                                    "score",
                                                    "task_tag",
                                                    "task_dependency",
                                                    "claim",
                                                    "lock_wait",
                                                    "event",
                                                    "idempotency",
                                                    "schema_migration",
                                                    "api_key",
                                                    "agent",
                                                    "inbox_message",
                                                    "delivery",
                                                    "outgoing",
                                                    "channel",
                                                    "channel_message",
                                                    "mention",
                                                    "channel_reader",
                                                    "notice"};
    char sql[160];
    sqlite3_stmt **stmt = &s->tables[table];
    snprintf(sql, sizeof sql, "SELECT * FROM \"%s\" ORDER BY 1, 2", names[table]);
    if (!*stmt)
        assert_int_equal(sqlite3_prepare_v2(s->look, sql, -1, stmt, NULL), SQLITE_OK);
    while (sqlite3_step(*stmt) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(*stmt); i++) {
            const char *text = (const char *)sqlite3_column_text(*stmt, i);
            hash = text ? add(hash, text, strlen(text) + 1) : add(hash, "\1", 1);
        }
        hash = add(hash, "\n", 1);
    }
    assert_int_equal(sqlite3_reset(*stmt), SQLITE_OK);
    return hash;
}

uint64_t scene_digest(struct scene *s)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < SCENE_TABLES; i++)
        hash = add_table(s, hash, i);
    return hash;
}

void scene_verify(struct scene *s)
{
    struct dibs_diagnosis found = {0};
    assert_ok(s->f, dibs_diagnose(s->d, s->f->a, true, &found, &s->f->err));
    for (size_t i = 0; i < found.count; i++)
        if (found.items[i].level == DIBS_BAD)
            fail_msg("%s: %s", found.items[i].subject, found.items[i].text);
    dibs_arena_reset(s->f->a);
}
