/* SPDX-License-Identifier: MIT */
/* fault_rows_channel.c: the rows of fault_rows.h about channels and mentions. */
#include "core/owner.h"
#include "fault_calls.h"
#include "fault_rows.h"

/* Channel ops with two messages that mention ann, and one more with none. */
static void with_channels(struct scene *s)
{
    static const char *const channels[] = {"ops", "idle"};
    static const char *const texts[] = {"look, @ann.", "@ann @bob again"};
    struct dibs_channel channel = {0};
    struct dibs_post post = {0};
    for (int i = 0; i < 2; i++) {
        struct dibs_channel_new in = {.id = channels[i], .description = "D"};
        assert_ok(s->f, dibs_channel_create(s->d, s->f->a, &in, &channel, &s->f->err));
    }
    for (int i = 0; i < 2; i++) {
        struct dibs_post_new in = {.channel_id = "ops", .author = "x", .content = texts[i]};
        assert_ok(s->f, dibs_channel_post(s->d, s->f->a, &in, &post, &s->f->err));
    }
}

/* The same, and ann-1 is at the mentions of ann. */
static void with_claim(struct scene *s)
{
    struct dibs_mentions_list list = {0};
    struct dibs_mentions_claim in = {.agent_id = "ann", .session_id = "ann-1", .ttl_ms = 60000};
    with_channels(s);
    assert_ok(s->f, dibs_mentions_claim(s->d, s->f->a, &in, &list, &s->f->err));
}

/* The same, and the lease is over, though nobody has looked since. */
static void with_past_claim(struct scene *s)
{
    with_claim(s);
    world_pass(&s->f->world, 60000);
}

CALL(create, dibs_channel_create, struct dibs_channel,
     &(struct dibs_channel_new){.id = "new", .project = "p", .description = "D"})
CALL(find, dibs_channel_create, struct dibs_channel, &(struct dibs_channel_new){.id = "ops"})
CALL(list, dibs_channel_list, struct dibs_channel_list, NULL)
CALL(post_text, dibs_channel_post, struct dibs_post,
     &(struct dibs_post_new){.channel_id = "ops",
                             .author = "bob",
                             .content = "@ann, @bob. and @nobody-- at a@b.c",
                             .reply_to = "1"})
CALL(messages, dibs_channel_messages, struct dibs_post_list,
     &(struct dibs_post_filter){.channel_id = "ops", .limit = 1})
CALL(read_all, dibs_channel_read, struct dibs_post_list,
     &(struct dibs_channel_read){.channel_id = "ops", .agent_id = "ann", .session_id = "ann-1"})
CALL(read_held, dibs_channel_read, struct dibs_post_list,
     &(struct dibs_channel_read){.channel_id = "ops", .agent_id = "ann"})
CALL(claim_all, dibs_mentions_claim, struct dibs_mentions_list,
     &(struct dibs_mentions_claim){.agent_id = "ann", .session_id = "ann-1"})
CALL(release, dibs_mentions_release, int64_t,
     &(struct dibs_mentions_release){.agent_id = "ann", .session_id = "ann-1", .read = true})
CALL(release_named, dibs_mentions_release, int64_t,
     &(struct dibs_mentions_release){
         .agent_id = "ann", .session_id = "ann-1", .channel_ids = &DIBS_STRINGS("ops", "idle")})
CALL(project_of, dibs__channel_project, const char *, "ops")

const struct fault_row fault_channel_rows[] = {
    {"dibs_channel_create", NULL, create, DIBS_OK, false, NULL},
    {"dibs_channel_create", "of one that is there", find, DIBS_OK, false, with_channels},
    {"dibs_channel_list", NULL, list, DIBS_OK, false, with_channels},
    {"dibs_channel_post", NULL, post_text, DIBS_OK, false, with_channels},
    {"dibs_channel_messages", NULL, messages, DIBS_OK, false, with_channels},
    {"dibs_channel_read", NULL, read_all, DIBS_OK, false, with_channels},
    {"dibs_channel_read", "by the holder", read_all, DIBS_OK, false, with_claim},
    {"dibs_channel_read", "of what another holds", read_held, DIBS_NOT_CLAIM_OWNER, false,
     with_claim},
    {"dibs_channel_read", "of what was held", read_held, DIBS_OK, false, with_past_claim},
    {"dibs_mentions_claim", NULL, claim_all, DIBS_OK, false, with_channels},
    {"dibs_mentions_claim", "of what is claimed", claim_all, DIBS_NOTHING_TO_CLAIM, false,
     with_claim},
    {"dibs_mentions_claim", "of what was claimed", claim_all, DIBS_OK, false, with_past_claim},
    {"dibs_mentions_release", NULL, release, DIBS_OK, false, with_claim},
    {"dibs_mentions_release", "of channels", release_named, DIBS_OK, false, with_claim},
    {"dibs__channel_project", NULL, project_of, DIBS_OK, false, with_channels},
    {NULL, NULL, NULL, DIBS_OK, false, NULL},
};
