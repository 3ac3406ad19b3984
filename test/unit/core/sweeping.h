/* SPDX-License-Identifier: MIT */
/* sweeping.h: what the tests of the sweep have in common; each call expects success. */
#ifndef TEST_SWEEPING_H
#define TEST_SWEEPING_H

#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

#define HALF_HOUR MINUTES(30) /* defaultTTL */

static inline struct dibs_cleaned clean_expired(struct fixture *f)
{
    struct dibs_cleaned out = {0};
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &out, &f->err));
    return out;
}

static inline struct dibs_cleaned clean_orphaned(struct fixture *f, bool check_process)
{
    struct dibs_cleaned out = {0};
    struct dibs_orphan_options options = {.check_process = check_process};
    assert_ok(f, dibs_cleanup_orphaned(f->d, f->a, &options, &out, &f->err));
    return out;
}

static inline struct dibs_cleaned release_all(struct fixture *f, const char *session,
                                              const char *reason)
{
    struct dibs_cleaned out = {0};
    assert_ok(f, dibs_release_session_claims(f->d, f->a, session, reason, &out, &f->err));
    return out;
}

static inline struct dibs_stale_sessions clean_sessions(struct fixture *f)
{
    struct dibs_stale_sessions out = {0};
    assert_ok(f, dibs_cleanup_sessions(f->d, f->a, &out, &f->err));
    return out;
}

static inline struct dibs_sweep sweep(struct fixture *f)
{
    struct dibs_sweep out = {0};
    assert_ok(f, dibs_cleanup(f->d, f->a, &out, &f->err));
    return out;
}

static inline struct dibs_session_news beat(struct fixture *f, const char *session)
{
    struct dibs_session_news news = {0};
    assert_ok(f, dibs_session_heartbeat(f->d, f->a, session, &news, &f->err));
    return news;
}

static inline void given_claim(struct fixture *f, const char *task, const char *session)
{
    make_task(f, task);
    claim(f, task, session);
}

static inline void assert_status(struct fixture *f, const char *task,
                                 enum dibs_task_status expected)
{
    assert_string_equal(dibs_task_status_name(get_task(f, task).status),
                        dibs_task_status_name(expected));
}

static inline size_t count_events(struct fixture *f, const char *type)
{
    return events_of(f, type).count;
}

/* The session's row is not there any more, as after a repair by hand. */
static inline void lose_session(struct fixture *f, const char *id)
{
    char sql[128];
    snprintf(sql, sizeof sql, "DELETE FROM session WHERE id = '%s'", id);
    plant(f, sql);
}

static inline void given_many_claims(struct fixture *f, int64_t count)
{
    struct dibs_grant grant = {0};
    struct dibs_task_list made = {0};
    struct dibs_task_new *tasks = test_calloc((size_t)count, sizeof *tasks);
    for (int64_t i = 0; i < count; i++)
        tasks[i].title = "one of many";
    for (int64_t i = 0; i < count; i += BATCH_TASKS_MAX) {
        size_t n = (size_t)(count - i < BATCH_TASKS_MAX ? count - i : BATCH_TASKS_MAX);
        assert_ok(f, dibs_task_create(f->d, f->a, tasks + i, n, &made, &f->err));
    }
    test_free(tasks);
    for (int64_t left = count; left > 0; left -= (int64_t)grant.count) {
        struct dibs_claim_next next = {.session_id = "s",
                                       .count = left < CLAIM_COUNT_MAX ? left : CLAIM_COUNT_MAX};
        assert_ok(f, dibs_claim_next(f->d, f->a, &next, &grant, &f->err));
    }
}

static inline void given_process(struct fixture *f, const char *session, int64_t pid,
                                 const char *host)
{
    struct dibs_session out = {0};
    struct dibs_session_new in = {.id = session, .pid = pid, .host = host};
    world_start_process(&f->world, pid);
    assert_ok(f, dibs_session_register(f->d, f->a, &in, &out, &f->err));
}

#endif
