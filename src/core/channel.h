/* SPDX-License-Identifier: MIT */
/*
 * channel.h: what channel.c (channels and their messages) and mention.c (whom a message names, and
 * how far an agent has read) share.
 */
#ifndef DIBS_CHANNEL_H
#define DIBS_CHANNEL_H

#include "core/swarm.h"

struct channel_row {
    int64_t key;
    const char *id, *project, *description;
    int64_t created_at;
};
/* or DIBS_CHANNEL_NOT_FOUND; `field` is what named it */
dibs_status dibs__channel_load(struct tx *tx, const char *field, const char *id,
                               struct channel_row *out) MUST_USE;

/* ---- whom a text names ----------------------------------------------------------------------- */

/* One @name after the other; begin with `at` at the start of the text. A name is what stands behind
 * the @, with the dots and dashes that may belong to the sentence. */
struct mention_scan {
    const char *text, *at;
    const char *name; /* not terminated */
    size_t bytes;
};
bool dibs__mention_next(struct mention_scan *s);

/* Notes whom the message names, and wakes them. */
void dibs__mentions_add(struct tx *tx, const struct channel_row *channel, int64_t message_key,
                        const char *author, const char *content);
/* The ids of the agents that a message names, in their own order. */
void dibs__mentions_of(struct tx *tx, int64_t message_key, struct dibs_strings *out);

/* ---- how far an agent has read --------------------------------------------------------------- */

struct reader {
    const char *agent_id;
    struct channel_row channel;
    int64_t read_upto;           /* key of a message; 0: nothing */
    int64_t claimed_upto, token; /* 0: nobody is at the agent's mentions here */
    int64_t unread, newest;      /* mentions beyond read_upto, and the key of the last one */
};
/* The agent as a reader of the channel. Refuses a session (which may be NULL) that does not hold
 * the agent's mentions there while another one does. */
dibs_status dibs__reader_open(struct tx *tx, const char *agent_id,
                              const struct channel_row *channel, const char *session_id,
                              struct reader *out) MUST_USE;
/* The agent has read all up to this message. Ends the claim on its mentions that are all read. */
void dibs__reader_mark(struct tx *tx, struct reader *r, int64_t upto);

#endif
