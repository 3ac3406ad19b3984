/* SPDX-License-Identifier: MIT */
/*
 * inbox.h: a message as inbox.c and inbox_answer.c pass it to one another.
 */
#ifndef DIBS_INBOX_H
#define DIBS_INBOX_H

#include "core/swarm.h"

struct message_row {
    int64_t key; /* the order of arrival */
    const char *id, *project, *agent_id, *source;
    enum dibs_inbox_status status;
    const char *content, *channel, *thread, *user, *matched_text, *metadata;
    int64_t token; /* of the newest claim, live or not; 0: nobody ever took it */
    const char *response;
    int64_t task_key;
    int64_t created_at, updated_at;
};

/* or DIBS_MESSAGE_NOT_FOUND */
dibs_status dibs__inbox_load(struct tx *tx, const char *id, struct message_row *out) MUST_USE;
/* The live claim on the message; false when nobody is at it. */
bool dibs__inbox_claim_of(struct tx *tx, const struct message_row *m, struct claim_row *out);
/* Writes status, token, response and task; the only place where they change. */
void dibs__inbox_save(struct tx *tx, struct message_row *m, enum dibs_inbox_status to);
/* Begins an event with what every event about a message has; `c`: the claim it is about, or NULL;
 * held_ms: how long that was held, when the event ends it, else -1. */
struct jw *dibs__inbox_event(struct tx *tx, const char *type, const struct message_row *m,
                             const struct claim_row *c, int64_t held_ms);
/* The message as callers see it. */
void dibs__inbox_full(struct tx *tx, const struct message_row *m, struct dibs_message *out);
/* Whoever waits for messages like this one looks again. */
void dibs__inbox_wake(struct tx *tx, const struct message_row *m);

#endif
