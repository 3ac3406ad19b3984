/* SPDX-License-Identifier: MIT */
/* inboxes.h: what the tests of messages and of notices have in common; each call expects success
 * unless its name begins with try. */
#ifndef TEST_INBOXES_H
#define TEST_INBOXES_H

#include "core_help.h"
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Agents of the project "default" with a session each, which is called like the agent with "-1"
 * behind it. */
static inline void make_agent_as(struct fixture *f, const char *id, bool is_lead)
{
    struct dibs_agent out = {0};
    struct dibs_agent_new in = {.id = id, .is_lead = DIBS_VALUE(is_lead)};
    char session[64];
    snprintf(session, sizeof session, "%s-1", id);
    assert_ok(f, dibs_agent_register(f->d, f->a, &in, &out, &f->err));
    make_agent_session(f, session, id);
}

static inline void make_lead(struct fixture *f, const char *id)
{
    make_agent_as(f, id, true);
}

static inline void make_worker(struct fixture *f, const char *id)
{
    make_agent_as(f, id, false);
}

static inline dibs_status try_message(struct fixture *f, struct dibs_message_new in)
{
    struct dibs_message out = {0};
    return dibs_inbox_add(f->d, f->a, &in, &out, &f->err);
}

/* A message for the leads of the project; content = id. */
static inline void make_message(struct fixture *f, const char *id)
{
    assert_ok(f, try_message(f, (struct dibs_message_new){.id = id, .content = id}));
}

static inline struct dibs_message get_message(struct fixture *f, const char *id)
{
    struct dibs_message out = {0};
    assert_ok(f, dibs_inbox_get(f->d, f->a, id, &out, &f->err));
    return out;
}

#define assert_message(f, id, expected)                                                            \
    assert_string_equal(dibs_inbox_status_name(get_message(f, id).status), expected)

static inline dibs_status try_take(struct fixture *f, struct dibs_inbox_claim in,
                                   struct dibs_message_list *out)
{
    return dibs_inbox_claim(f->d, f->a, &in, out, &f->err);
}

/* The ids of what is taken, with blanks between them; "" when there is nothing. */
static inline const char *take_for(struct fixture *f, const char *agent, const char *session,
                                   int64_t count)
{
    struct dibs_message_list list = {0};
    dibs_status status = try_take(
        f, (struct dibs_inbox_claim){.agent_id = agent, .session_id = session, .count = count},
        &list);
    if (status == DIBS_NOTHING_TO_CLAIM)
        return "";
    assert_ok(f, status);
    const char **ids = calloc(list.count, sizeof *ids);
    for (size_t i = 0; i < list.count; i++)
        ids[i] = list.items[i].id;
    const char *text = words(f, (struct dibs_strings){.items = ids, .count = list.count});
    free(ids);
    return text;
}

typedef dibs_status answer_call(dibs *d, dibs_arena *a, const struct dibs_inbox_answer *in,
                                struct dibs_message *out, struct dibs_error *err);
static inline dibs_status try_answer(struct fixture *f, answer_call *call,
                                     struct dibs_inbox_answer in)
{
    struct dibs_message out = {0};
    return call(f->d, f->a, &in, &out, &f->err);
}

static inline struct dibs_session_news beat(struct fixture *f, const char *session)
{
    struct dibs_session_news news = {0};
    assert_ok(f, dibs_session_heartbeat(f->d, f->a, session, &news, &f->err));
    return news;
}

static inline dibs_status try_notices(struct fixture *f, struct dibs_notices_claim in,
                                      struct dibs_notices *out)
{
    return dibs_notices_claim(f->d, f->a, &in, out, &f->err);
}

/* The ids of the finished tasks that are told, with blanks between them; "" when there are none. */
static inline const char *told(struct fixture *f, const char *agent, const char *session,
                               bool manual)
{
    struct dibs_notices out = {0};
    dibs_status status = try_notices(
        f, (struct dibs_notices_claim){.agent_id = agent, .session_id = session, .manual = manual},
        &out);
    if (status == DIBS_NOTHING_TO_CLAIM)
        return "";
    assert_ok(f, status);
    assert_int_equal(out.claims.count, manual ? out.tasks.count : 0);
    return ids(f, &out.tasks);
}

static inline int64_t ack(struct fixture *f, const char *session, struct dibs_strings task_ids)
{
    int64_t acked = -1;
    struct dibs_notices_ack in = {.session_id = session, .task_ids = task_ids};
    assert_ok(f, dibs_notices_ack(f->d, f->a, &in, &acked, &f->err));
    return acked;
}

static inline int64_t let_go(struct fixture *f, const char *session, struct dibs_strings task_ids)
{
    int64_t released = -1;
    struct dibs_notices_ack in = {.session_id = session, .task_ids = task_ids};
    assert_ok(f, dibs_notices_release(f->d, f->a, &in, &released, &f->err));
    return released;
}

#endif
