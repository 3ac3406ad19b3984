/* SPDX-License-Identifier: MIT */
/* channels.h: what the tests of channels and of mentions have in common; each call expects success
 * unless its name begins with try. */
#ifndef TEST_CHANNELS_H
#define TEST_CHANNELS_H

#include "core_help.h"
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void make_agent_in(struct fixture *f, const char *project, const char *id,
                                 const char *name)
{
    struct dibs_agent out = {0};
    struct dibs_agent_new in = {.id = id, .name = name, .project = project};
    assert_ok(f, dibs_agent_register(f->d, f->a, &in, &out, &f->err));
}

/* An agent of the project "default" whose id and name are the same. */
static inline void make_agent(struct fixture *f, const char *name)
{
    make_agent_in(f, "default", name, name);
}

static inline void make_channel(struct fixture *f, const char *id)
{
    struct dibs_channel out = {0};
    struct dibs_channel_new in = {.id = id};
    assert_ok(f, dibs_channel_create(f->d, f->a, &in, &out, &f->err));
}

static inline struct dibs_post post_as(struct fixture *f, struct dibs_post_new in)
{
    struct dibs_post out = {0};
    assert_ok(f, dibs_channel_post(f->d, f->a, &in, &out, &f->err));
    return out;
}

static inline struct dibs_post post(struct fixture *f, const char *channel, const char *content)
{
    return post_as(
        f, (struct dibs_post_new){.channel_id = channel, .author = "somebody", .content = content});
}

static inline dibs_status try_read(struct fixture *f, const char *channel, const char *agent,
                                   const char *session, int64_t limit, struct dibs_post_list *out)
{
    struct dibs_channel_read in = {
        .channel_id = channel, .agent_id = agent, .session_id = session, .limit = limit};
    return dibs_channel_read(f->d, f->a, &in, out, &f->err);
}

static inline struct dibs_post_list read_as(struct fixture *f, const char *channel,
                                            const char *agent, const char *session)
{
    struct dibs_post_list out = {0};
    assert_ok(f, try_read(f, channel, agent, session, 0, &out));
    return out;
}

static inline dibs_status try_mentions(struct fixture *f, const char *agent, const char *session,
                                       int64_t ttl_ms, struct dibs_mentions_list *out)
{
    struct dibs_mentions_claim in = {.agent_id = agent, .session_id = session, .ttl_ms = ttl_ms};
    return dibs_mentions_claim(f->d, f->a, &in, out, &f->err);
}

static inline struct dibs_mentions_list claim_mentions(struct fixture *f, const char *agent,
                                                       const char *session)
{
    struct dibs_mentions_list out = {0};
    assert_ok(f, try_mentions(f, agent, session, 0, &out));
    return out;
}

#define assert_no_mentions(f, agent, session)                                                      \
    do {                                                                                           \
        struct dibs_mentions_list none_ = {0};                                                     \
        assert_refused(f, DIBS_NOTHING_TO_CLAIM, try_mentions(f, agent, session, 0, &none_));      \
    } while (0)

static inline int64_t release_mentions(struct fixture *f, struct dibs_mentions_release in)
{
    int64_t released = -1;
    assert_ok(f, dibs_mentions_release(f->d, f->a, &in, &released, &f->err));
    return released;
}

#endif
