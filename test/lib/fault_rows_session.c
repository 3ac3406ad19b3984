/* SPDX-License-Identifier: MIT */
/* fault_rows_session.c: the rows of fault_rows.h about sessions, locks, sweeps and the store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/key.h"
#include "core/owner.h"
#include "fault_calls.h"
#include "fault_rows.h"

/* ---- sessions -------------------------------------------------------------------------------- */

CALL(enter, dibs_session_register, struct dibs_session,
     &(struct dibs_session_new){.agent_type = "new", .pid = 100, .metadata = "{\"v\":2}"})
CALL(enter_again, dibs_session_register, struct dibs_session,
     &(struct dibs_session_new){.id = "ann-1", .agent_id = "ann"})
CALL(heartbeat, dibs_session_heartbeat, struct dibs_session_news, "bob-1")
CALL(resume, dibs_session_resume, struct dibs_resumed, "bob-1")
CALL(leave, dibs_session_deregister, struct dibs_deregistered, "bob-1")
CALL(get, dibs_session_get, struct dibs_session, "ann-1")
CALL(list, dibs_session_list, struct dibs_session_list,
     &(struct dibs_session_filter){.include_ended = true, .limit = 2})
CALL(summary, dibs_session_summary, struct dibs_summary, "default")

static dibs_status release_all(struct scene *s, dibs_arena *a)
{
    struct dibs_cleaned out = {0};
    return dibs_release_session_claims(s->d, a, "bob-1", "lunch", &out, &s->err);
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

ASK(expired, dibs_cleanup_expired, struct dibs_cleaned)
CALL(orphaned, dibs_cleanup_orphaned, struct dibs_cleaned,
     &(struct dibs_orphan_options){.check_process = true})
ASK(locks, dibs_cleanup_locks, struct dibs_cleaned)
ASK(sessions, dibs_cleanup_sessions, struct dibs_stale_sessions)
ASK(prune, dibs_prune, int64_t)
ASK(cleanup, dibs_cleanup, struct dibs_sweep)

static dibs_status maintain(struct scene *s, dibs_arena *a)
{
    bool ran = false;
    (void)a;
    return dibs_maintain(s->d, &ran, &s->err);
}

/* ---- locks ----------------------------------------------------------------------------------- */

CALL(lock, dibs_lock_take, struct dibs_claim,
     &(struct dibs_lock_take){.resource = "new", .session_id = "ann-1"})
CALL(lock_past, dibs_lock_take, struct dibs_claim,
     &(struct dibs_lock_take){.resource = "past", .session_id = "ann-1"})
CALL(lock_held, dibs_lock_take, struct dibs_claim,
     &(struct dibs_lock_take){.resource = "one", .session_id = "bob-1"})
CALL(lock_heartbeat, dibs_lock_heartbeat, struct dibs_claim,
     &(struct dibs_lock_ref){.resource = "one", .session_id = "ann-1"})
CALL(unlock, dibs_lock_release, struct dibs_claim,
     &(struct dibs_lock_ref){.resource = "many", .session_id = "ann-1"})
CALL(lock_list, dibs_lock_list, struct dibs_claim_list, &(struct dibs_lock_filter){0})

/* ---- the store ------------------------------------------------------------------------------- */

ASK(settings, dibs_settings_list, struct dibs_setting_list)

static dibs_status now(struct scene *s, dibs_arena *a)
{
    int64_t out = 0;
    (void)a;
    return dibs_now(s->d, &out, &s->err);
}

/* Two operations under one commit: both or none. */
static dibs_status batch(struct scene *s, dibs_arena *a)
{
    struct dibs_claim claim = {0};
    struct dibs_task task = {0};
    struct dibs_claim_take take = {.task_id = "open", .session_id = "bob-1"};
    struct dibs_report report = {.task_id = "held", .session_id = "ann-1", .result = "2"};
    dibs_status status = dibs_batch_begin(s->d, &s->err);
    if (status != DIBS_OK)
        return status;
    status = dibs_claim_take(s->d, a, &take, &claim, &s->err);
    if (status == DIBS_OK)
        status = dibs_complete(s->d, a, &report, &task, &s->err);
    if (status == DIBS_OK)
        return dibs_batch_commit(s->d, &s->err);
    dibs_batch_cancel(s->d);
    return status;
}

/* One that fails undoes only itself; the batch goes on, and what it leaves is whole. */
static dibs_status batch_goes_on(struct scene *s, dibs_arena *a)
{
    struct dibs_claim claim = {0};
    struct dibs_task task = {0};
    struct dibs_error lost = {0}, first = {0};
    struct dibs_claim_take take = {.task_id = "open", .session_id = "bob-1"};
    struct dibs_report report = {.task_id = "held", .session_id = "ann-1", .result = "2"};
    dibs_status status = dibs_batch_begin(s->d, &s->err);
    if (status != DIBS_OK)
        return status;
    dibs_status taken = dibs_claim_take(s->d, a, &take, &claim, &first);
    dibs_status done = dibs_complete(s->d, a, &report, &task, &lost);
    status = dibs_batch_commit(s->d, &s->err);
    if (status != DIBS_OK)
        return status;
    s->err = taken != DIBS_OK ? first : lost;
    return taken != DIBS_OK ? taken : done;
}

static dibs_status once_work(dibs *d, dibs_arena *a, void *context, const char **answer,
                             struct dibs_error *err)
{
    struct dibs_claim claim = {0};
    struct dibs_claim_take take = {.task_id = "open", .session_id = "bob-1"};
    (void)context;
    dibs_status status = dibs_claim_take(d, a, &take, &claim, err);
    *answer = "claimed";
    return status;
}

static dibs_status once(struct scene *s, dibs_arena *a)
{
    const char *answer = NULL;
    bool repeated = false;
    struct dibs_once in = {.key = "key", .request = "claim open", .work = once_work};
    return dibs_once(s->d, a, &in, &answer, &repeated, &s->err);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static void count_event(void *context, const struct dibs_event *event)
{
    struct scene *s = context;
    (void)event;
    s->events_seen++;
}

static dibs_status subscribe(struct scene *s, dibs_arena *a)
{
    int64_t id = 0;
    struct dibs_subscription in = {.types = DIBS_STRINGS("claim:expired", "task:created"),
                                   .on_event = count_event,
                                   .context = s};
    (void)a;
    dibs_status status = dibs_subscribe(s->d, &in, &id, &s->err);
    if (status == DIBS_OK)
        dibs_unsubscribe(s->d, id);
    return status;
}

/* Another handle has written something that the callback has not seen. */
static void prepare_dispatch(struct scene *s)
{
    int64_t id = 0;
    struct dibs_session out = {0};
    struct dibs_session_new in = {.agent_type = "new"};
    struct dibs_subscription all = {.on_event = count_event, .context = s};
    assert_ok(s->f, dibs_subscribe(s->d, &all, &id, &s->f->err));
    s->other = fixture_open(s->f);
    assert_ok(s->f, dibs_session_register(s->other, s->f->a, &in, &out, &s->f->err));
}

/* It is delivered once, however often the delivery failed before. */
static dibs_status dispatch(struct scene *s, dibs_arena *a)
{
    (void)a;
    dibs_status status = dibs_dispatch(s->d, &s->err);
    assert_int_equal(s->events_seen, status == DIBS_OK);
    return status;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* The id of a key in the scene; made by prepare_key. */
static char key_id[KEY_ID_CHARS + 1];

static void prepare_key(struct scene *s)
{
    struct dibs_key_added out = {0};
    struct dibs_key_new in = {.name = "before", .role = DIBS_ROLE_WORKER};
    assert_int_equal(dibs__key_add(s->d, s->f->a, &in, &out, &s->err), DIBS_OK);
    snprintf(key_id, sizeof key_id, "%s", out.key.id);
}

CALL(key_add, dibs__key_add, struct dibs_key_added,
     &(struct dibs_key_new){.name = "new", .role = DIBS_ROLE_ADMIN, .project = "web"})
CALL(key_revoke, dibs__key_revoke, struct dibs_key_row, key_id)
ASK(keys_load, dibs__keys_load, struct dibs_key_list)
CALL(session_owner, dibs__session_owner, struct dibs_session_owner, "ann-1")
CALL(task_project, dibs__task_project, const char *, "held")

static dibs_status set_owner(struct scene *s, dibs_arena *a)
{
    return dibs__session_set_owner(s->d, a, "ann-1", "k234567", &s->err);
}

/* ---- backup and diagnosis -------------------------------------------------------------------- */

static dibs_status backup(struct scene *s, dibs_arena *a)
{
    char path[120], part[128];
    (void)a;
    snprintf(path, sizeof path, "%s/copy.db", s->f->dir);
    snprintf(part, sizeof part, "%s.part", path);
    dibs_status status = dibs_backup(s->d, path, &s->err);
    assert_int_equal(access(path, F_OK) == 0, status == DIBS_OK);
    assert_int_not_equal(access(part, F_OK), 0);
    unlink(path);
    return status;
}

static dibs_status diagnose(struct scene *s, dibs_arena *a)
{
    struct dibs_diagnosis out = {0};
    return dibs_diagnose(s->d, a, true, &out, &s->err);
}

const struct fault_row fault_session_rows[] = {
    {"dibs_session_register", NULL, enter, DIBS_OK, false, NULL},
    {"dibs_session_register", "again", enter_again, DIBS_OK, false, NULL},
    {"dibs_session_heartbeat", NULL, heartbeat, DIBS_OK, false, NULL},
    {"dibs_session_resume", NULL, resume, DIBS_OK, false, NULL},
    {"dibs_session_deregister", NULL, leave, DIBS_OK, false, NULL},
    {"dibs_session_get", NULL, get, DIBS_OK, false, NULL},
    {"dibs_session_list", NULL, list, DIBS_OK, false, NULL},
    {"dibs_session_summary", NULL, summary, DIBS_OK, false, NULL},
    {"dibs_release_session_claims", NULL, release_all, DIBS_OK, false, NULL},
    {"dibs_cleanup_expired", NULL, expired, DIBS_OK, true, NULL},
    {"dibs_cleanup_orphaned", NULL, orphaned, DIBS_OK, true, NULL},
    {"dibs_cleanup_locks", NULL, locks, DIBS_OK, true, NULL},
    {"dibs_cleanup_sessions", NULL, sessions, DIBS_OK, false, NULL},
    {"dibs_prune", NULL, prune, DIBS_OK, false, NULL},
    {"dibs_cleanup", NULL, cleanup, DIBS_OK, true, NULL},
    {"dibs_maintain", NULL, maintain, DIBS_OK, true, NULL},
    {"dibs_lock_take", NULL, lock, DIBS_OK, false, NULL},
    {"dibs_lock_take", "of what lapsed", lock_past, DIBS_OK, false, NULL},
    {"dibs_lock_take", "of what another holds", lock_held, DIBS_LOCK_HELD, false, NULL},
    {"dibs_lock_heartbeat", NULL, lock_heartbeat, DIBS_OK, false, NULL},
    {"dibs_lock_release", NULL, unlock, DIBS_OK, false, NULL},
    {"dibs_lock_list", NULL, lock_list, DIBS_OK, false, NULL},
    {"dibs_settings_list", NULL, settings, DIBS_OK, false, NULL},
    {"dibs_now", NULL, now, DIBS_OK, false, NULL},
    {"dibs_batch_begin", NULL, batch, DIBS_OK, false, NULL},
    {"dibs_batch_commit", "after a failure in it", batch_goes_on, DIBS_OK, true, NULL},
    {"dibs_once", NULL, once, DIBS_OK, false, NULL},
    {"dibs_subscribe", NULL, subscribe, DIBS_OK, false, NULL},
    {"dibs_dispatch", NULL, dispatch, DIBS_OK, false, prepare_dispatch},
    {"dibs__key_add", NULL, key_add, DIBS_OK, false, NULL},
    {"dibs__key_revoke", NULL, key_revoke, DIBS_OK, false, prepare_key},
    {"dibs__keys_load", NULL, keys_load, DIBS_OK, false, prepare_key},
    {"dibs__session_owner", NULL, session_owner, DIBS_OK, false, NULL},
    {"dibs__session_set_owner", NULL, set_owner, DIBS_OK, false, NULL},
    {"dibs__task_project", NULL, task_project, DIBS_OK, false, NULL},
    {"dibs_backup", NULL, backup, DIBS_OK, false, NULL},
    {"dibs_diagnose", "in depth", diagnose, DIBS_OK, false, NULL},
    {0},
};
