/* SPDX-License-Identifier: MIT */
/* daemon.h: a store as a daemon uses it, for tests of src/core/serve.c. */
#ifndef TEST_DAEMON_H
#define TEST_DAEMON_H

#include "core/serve.h"
#include "core_help.h"
#include "probe.h"

static inline struct dibs_due tend(struct fixture *f)
{
    struct dibs_due due = {0};
    assert_ok(f, dibs__tend(f->d, f->a, &due, &f->err));
    return due;
}

static inline int64_t after_downtime(struct fixture *f)
{
    int64_t by = -1;
    assert_ok(f, dibs__after_downtime(f->d, &by, &f->err));
    return by;
}

static inline void given_a_daemon(struct fixture *f)
{
    dibs__serve(f->d);
    assert_int_equal(after_downtime(f), 0);
    make_session(f, "s");
    make_session(f, "t");
}

static inline struct dibs_claim take_lock(struct fixture *f, const char *resource,
                                          const char *session)
{
    struct dibs_claim out = {0};
    struct dibs_lock_take in = {.resource = resource, .session_id = session};
    assert_ok(f, dibs_lock_take(f->d, f->a, &in, &out, &f->err));
    return out;
}

static inline struct dibs_claim claim_for(struct fixture *f, const char *task, const char *session,
                                          int64_t ttl_ms)
{
    struct dibs_claim out = {0};
    struct dibs_claim_take in = {.task_id = task, .session_id = session, .ttl_ms = ttl_ms};
    assert_ok(f, dibs_claim_take(f->d, f->a, &in, &out, &f->err));
    return out;
}

#endif
