/* SPDX-License-Identifier: MIT */
/*
 * swarm.h: what the files of core share about agents and what is handed to them: capacity, offers,
 * waking, and claims on other subjects than tasks. Private to the room, as core.h is.
 */
#ifndef DIBS_CORE_SWARM_H
#define DIBS_CORE_SWARM_H

#include "core/core.h"

/* ---- agents (agent.c, agent_offer.c) --------------------------------------------------------- */

struct agent_row {
    int64_t key;
    const char *id, *name, *project;
    bool is_lead;
    int64_t max_tasks, seen_at;
};
/* or DIBS_AGENT_NOT_FOUND */
dibs_status dibs__agent_load(struct tx *tx, const char *id, struct agent_row *out) MUST_USE;
/* The agent that @name means; false when there is none. */
bool dibs__agent_named(struct tx *tx, const char *name, struct agent_row *out);
/* A session of this agent that has not ended, else DIBS_SESSION_NOT_FOUND (there is none) or
 * DIBS_INVALID_REQUEST (it belongs to another agent). */
dibs_status dibs__agent_session(struct tx *tx, const struct agent_row *agent,
                                const char *session_id, struct session_row *out) MUST_USE;
/* Makes a worker of this id known if nobody is; a session has begun that says it belongs to it. */
void dibs__agent_ensure(struct tx *tx, const char *id, const char *project);
void dibs__agent_seen(struct tx *tx, const char *id);
/* Tasks and reviews that the agent's sessions hold. */
int64_t dibs__agent_tasks_live(struct tx *tx, const char *id);
/* Whether it holds as many as it may. One nobody knows has no limit. Who was refused something for
 * that is woken when one of them ends. */
bool dibs__agent_is_full(struct tx *tx, const char *id);
/* DIBS_TASK_NOT_CLAIMABLE "agent 'x' is at its capacity of n" */
dibs_status dibs__agent_refuse_full(struct tx *tx, const char *id);
/* Whether the project has a lead; known without asking the store while nobody else has written. */
bool dibs__has_lead(struct tx *tx, const char *project);
void dibs__leads_forget(dibs *d);
/* Offers whose agent is gone or silent go back to the pool; how many. */
int64_t dibs__offers_withdraw(struct tx *tx, int64_t most);
/* Store time at which dibs__offers_withdraw finds the next; 0: there is none. */
int64_t dibs__offers_next(struct tx *tx);
/* What is offered now, or whose agent goes now, is not over before that time has passed. */
int64_t dibs__offer_patience(const dibs *d);
/* Notes that this task is offered, for the daemon's next look; NULL: a session has ended, whose
 * agent may have offers. */
void dibs__offers_expect(struct tx *tx, const struct task_row *task);

/* Whoever waits in a poll of this agent, or of any lead of the project, looks again. (wake.c) */
void dibs__wake_agent(struct tx *tx, const char *agent_id);
void dibs__wake_leads(struct tx *tx, const char *project);
/* An agent had no room for what there is for it; a session has one task or review less. */
void dibs__wake_when_room(struct tx *tx, const char *agent_id);
void dibs__wake_for_room(struct tx *tx, const char *session_id);

/* ---- claims on other subjects (subject.c) ---------------------------------------------------- */

/* kind: "inbox", "mentions" or "notice"; resource: the name of the subject within its kind. Writes
 * the row and no event: the subject's file does, which also notes the token in the subject. */
void dibs__subject_claim(struct tx *tx, const struct session_row *session, const char *kind,
                         const char *resource, int64_t ttl_ms, struct claim_row *out);
/* The same for a lock too, which may be shared, and may be handed to one who is still to hear. */
struct subject {
    const char *kind, *resource;
    bool shared, is_untold;
    int64_t ttl_ms;
};
void dibs__named_claim(struct tx *tx, const struct session_row *session, const struct subject *in,
                       struct claim_row *out);
/* Ends a live claim of any kind because its time is over, its session is gone or lets go of
 * everything, and puts its subject back: task, review, lock, inbox, mentions, notice. reason:
 * "process_dead", "session_stale", "session_deregistered" ...; it is "expired" when the deadline is
 * past, whatever is given. `told`: the session asked for it. stale_for_ms: how long the session
 * that is gone had been silent; PUT_BACK_GIVEN: it is not gone, the attempt does not count. */
#define PUT_BACK_GIVEN (-1)
void dibs__claim_put_back(struct tx *tx, struct claim_row *c, const char *reason, bool told,
                          int64_t stale_for_ms);
/* Id of the task that a task or review claim is on; NULL for other kinds. */
const char *dibs__claim_task_id(struct tx *tx, const struct claim_row *c);
static inline bool dibs__claim_is_lock(const struct claim_row *c)
{
    return c->resource && str_eq(c->kind, "lock");
}

/* what is put back, each in its own file; the claim row is closed already */
void dibs__inbox_put_back(struct tx *tx, const struct claim_row *c, const char *reason);
void dibs__mentions_put_back(struct tx *tx, const struct claim_row *c, const char *reason);
void dibs__notice_put_back(struct tx *tx, const struct claim_row *c, const char *reason);

/* what poll.c hands out; each claims for the session, tells the journal, and leaves *out empty when
 * there is nothing; only_project: nothing of another one, if that is given */
void dibs__inbox_take(struct tx *tx, const struct agent_row *agent,
                      const struct session_row *session, const char *only_project, int64_t count,
                      int64_t ttl_ms, struct dibs_message_list *out);
void dibs__mentions_take(struct tx *tx, const struct agent_row *agent,
                         const struct session_row *session, const char *only_project,
                         int64_t ttl_ms, struct dibs_mentions_list *out);
struct dibs_notices;
void dibs__notices_take(struct tx *tx, const struct agent_row *agent,
                        const struct session_row *session, int64_t count, bool manual,
                        int64_t ttl_ms, struct dibs_notices *out);
/* A task was completed, or failed for good: the project's leads are to be told, if it has any and
 * the agent that worked on it is not a lead itself. */
void dibs__notice_add(struct tx *tx, const struct task_row *task, const char *agent_id);
/* The task is not finished any more: nobody is told, and whoever was about to be is no longer. */
void dibs__notice_drop(struct tx *tx, const struct task_row *task, const char *reason);
/* Unread messages and mentions for the answer to a heartbeat. */
int64_t dibs__inbox_unread(struct tx *tx, const struct agent_row *agent);
int64_t dibs__mentions_unread(struct tx *tx, const char *agent_id);

/* An answer to a message is put on its way (outgoing.c); nothing for sources that take none. */
void dibs__outgoing_add(struct tx *tx, int64_t message_key, const char *source, const char *channel,
                        const char *thread, const char *text);

#endif
