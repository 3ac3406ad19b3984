/* SPDX-License-Identifier: MIT */
/* fixture.c: see fixture.h. */
#define _GNU_SOURCE
#include "fixture.h"

#include <ftw.h>
#include <jansson.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static dibs *open_store(struct fixture *f)
{
    dibs *d = NULL;
    struct dibs_options options = {
        .data_dir = f->data_dir, .create = true, .platform = &f->world.platform};
    /* the sweep runs when a test says so */
    options.settings = DIBS_STRINGS("autoCleanup=off");
    assert_ok(f, dibs_open(&options, &d, &f->err));
    return d;
}

int fixture_setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof *f);
    const char *base = getenv("TMPDIR");
    snprintf(f->dir, sizeof f->dir, "%.40s/dibs-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(f->dir))
        return -1;
    snprintf(f->data_dir, sizeof f->data_dir, "%s/.dibs", f->dir);
    world_init(&f->world);
    f->a = dibs_arena_new();
    f->d = open_store(f);
    *state = f;
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static int verify(struct fixture *f)
{
    struct dibs_diagnosis found = {0};
    int bad = 0;
    if (!f->d || f->skip_verify)
        return 0;
    if (dibs_diagnose(f->d, f->a, true, &found, &f->err) != DIBS_OK) {
        print_error("after the test: %s\n", f->err.message);
        return -1;
    }
    for (size_t i = 0; i < found.count; i++) {
        if (found.items[i].level != DIBS_BAD)
            continue;
        print_error("after the test: %s: %s\n", found.items[i].subject, found.items[i].text);
        bad = -1;
    }
    return bad;
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    int bad = verify(f);
    dibs_close(f->d);
    dibs_arena_free(f->a);
    nftw(f->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    test_free(f);
    return bad;
}

dibs *fixture_open(struct fixture *f)
{
    return open_store(f);
}

void fixture_reopen(struct fixture *f)
{
    dibs_close(f->d);
    f->d = NULL;
    f->d = open_store(f);
}

const char *make_session(struct fixture *f, const char *id)
{
    struct dibs_session s = {0};
    assert_ok(f, dibs_session_register(f->d, f->a,
                                       &(struct dibs_session_new){.id = id, .agent_type = "cli"},
                                       &s, &f->err));
    return s.id;
}

const char *know_agent(struct fixture *f, const char *id)
{
    struct dibs_agent agent = {0};
    const char *name = strlen(id) > 64 ? "somebody" : id;
    struct dibs_agent_new in = {.id = id, .name = name, .max_tasks = DIBS_VALUE(100)};
    assert_ok(f, dibs_agent_register(f->d, f->a, &in, &agent, &f->err));
    return agent.id;
}

struct dibs_task make_task_as(struct fixture *f, struct dibs_task_new in)
{
    struct dibs_task_list out = {0};
    if (in.assignee || in.offered_to)
        know_agent(f, in.assignee ? in.assignee : in.offered_to);
    if (!in.title)
        in.title = in.id ? in.id : "a task";
    assert_ok(f, dibs_task_create(f->d, f->a, &in, 1, &out, &f->err));
    assert_int_equal(out.count, 1);
    return out.items[0];
}

const char *make_task(struct fixture *f, const char *id)
{
    return make_task_as(f, (struct dibs_task_new){.id = id, .type = "work"}).id;
}

struct dibs_claim claim(struct fixture *f, const char *task, const char *session)
{
    struct dibs_claim out = {0};
    assert_ok(f, dibs_claim_take(f->d, f->a,
                                 &(struct dibs_claim_take){.task_id = task, .session_id = session},
                                 &out, &f->err));
    return out;
}

struct dibs_task get_task(struct fixture *f, const char *id)
{
    struct dibs_task out = {0};
    assert_ok(f, dibs_task_get(f->d, f->a, id, &out, &f->err));
    return out;
}

struct dibs_session get_session(struct fixture *f, const char *id)
{
    struct dibs_session out = {0};
    assert_ok(f, dibs_session_get(f->d, f->a, id, &out, &f->err));
    return out;
}

struct dibs_event_list events_of(struct fixture *f, const char *type)
{
    struct dibs_event_list out = {0};
    struct dibs_event_filter filter = {.limit = 1000, .types = DIBS_STRINGS(type)};
    if (!type)
        filter.types.count = 0;
    assert_ok(f, dibs_events(f->d, f->a, &filter, &out, &f->err));
    return out;
}

const char *event_field(struct fixture *f, const struct dibs_event *e, const char *field)
{
    (void)f;
    static char out[8][512];
    static int next;
    char *text = out[next++ % 8];
    json_t *data = json_loads(e->data, 0, NULL);
    const json_t *value = json_object_get(data, field);
    char *dumped = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    snprintf(text, 512, "%s",
             json_is_string(value) ? json_string_value(value)
             : dumped              ? dumped
                                   : "");
    free(dumped);
    json_decref(data);
    return text;
}

void plant(struct fixture *f, const char *sql)
{
    char path[128];
    sqlite3 *db = NULL;
    char *message = NULL;
    snprintf(path, sizeof path, "%s/dibs.db", f->data_dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
    sqlite3_close(db);
}
