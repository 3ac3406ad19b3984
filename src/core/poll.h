/* SPDX-License-Identifier: MIT */
/*
 * poll.h: what a daemon needs of dibs_poll beyond dibs_swarm.h: whom to hold it to, what ends its
 * wait, and how to give back what was taken for a caller that has gone.
 */
#ifndef DIBS_POLL_H
#define DIBS_POLL_H

#include "base/base.h"

/* What a poll that found nothing waits for: its agent's key (dibs__wake_key), and these. */
struct dibs_poll_wait {
    bool is_lead;        /* the project's leads' too, and nothing of the pool */
    bool is_full;        /* nothing of the pool: there was something, but the agent has no room */
    const char *project; /* of the agent */
};
/* dibs_poll, which hands out nothing of another project than only_project, if that is given. *wait
 * is set with DIBS_TRIGGER_NONE. */
dibs_status dibs__poll(dibs *d, dibs_arena *a, const struct dibs_poll *in, const char *only_project,
                       struct dibs_trigger *out, struct dibs_poll_wait *wait,
                       struct dibs_error *err) MUST_USE;

/* dibs_inbox_claim and dibs_mentions_claim, held to a project in the same way. (inbox.c,
 * mention.c) */
dibs_status dibs__inbox_claim(dibs *d, dibs_arena *a, const struct dibs_inbox_claim *in,
                              const char *only_project, struct dibs_message_list *out,
                              struct dibs_error *err) MUST_USE;
dibs_status dibs__mentions_claim(dibs *d, dibs_arena *a, const struct dibs_mentions_claim *in,
                                 const char *only_project, struct dibs_mentions_list *out,
                                 struct dibs_error *err) MUST_USE;

/* What was handed out, by the tokens of its claims; told: tasks of which a lead was told without
 * one. */
struct dibs_taken {
    const char *session_id;
    const int64_t *tokens;
    size_t count;
    struct dibs_strings told;
};
/* Takes it back: nobody was there to be given it. What has been taken or answered since stays. */
dibs_status dibs__take_back(dibs *d, dibs_arena *a, const struct dibs_taken *in,
                            struct dibs_error *err) MUST_USE;

#endif
