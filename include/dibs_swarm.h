/* SPDX-License-Identifier: MIT */
/*
 * dibs_swarm.h: agents that work together: offers, an inbox, channels with mentions, notices of
 * finished work, and one question that answers with whatever there is to do next.
 *
 * An agent is a durable identity; its sessions are the processes that do its work. Everything that
 * is handed to one of them (a task, an offer to review, a message, the mentions of a channel,
 * notices) is a claim: it has a lease, the session's heartbeat renews it, and what was not
 * acknowledged when it ends is handed out again. The rules of dibs.h hold here too.
 */
#ifndef DIBS_SWARM_H
#define DIBS_SWARM_H

#ifndef DIBS_H
#error "include dibs.h, which includes this"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- agents ---------------------------------------------------------------------------------- */

enum dibs_agent_status {
    DIBS_AGENT_IDLE,    /* a session of it lives and holds nothing */
    DIBS_AGENT_BUSY,    /* a session of it holds something */
    DIBS_AGENT_OFFLINE, /* no session of it lives */
};
DIBS_API const char *dibs_agent_status_name(enum dibs_agent_status s);

struct dibs_agent {
    const char *id, *name, *project;
    bool is_lead;
    int64_t max_tasks; /* so many tasks and reviews at once */
    struct dibs_strings capabilities;
    const char *metadata; /* JSON, may be NULL */
    enum dibs_agent_status status;
    int64_t tasks_live;    /* tasks and reviews that its sessions hold */
    int64_t sessions_live; /* sessions that have not ended */
    int64_t registered_at_ms, updated_at_ms, seen_at_ms;
    bool created; /* dibs_agent_register: it was not there before */
};
struct dibs_agent_list {
    struct dibs_agent *items;
    size_t count;
};

struct dibs_agent_new {
    const char *id;      /* NULL: that of the agent with this name, else the name itself */
    const char *name;    /* [A-Za-z0-9._-]{1,64}; NULL: as it is, or the id */
    const char *project; /* NULL: as it is, or "default" */
    struct dibs_opt is_lead, max_tasks;      /* not given: as they are, or 0 and 1 */
    const struct dibs_strings *capabilities; /* NULL: as they are */
    const char *metadata;                    /* JSON; NULL: as it is */
};
/* Makes an agent known, or changes what is given of one that is. A session that registers with an
 * agent_id nobody knows makes a worker of that id known. Refuses a name that another agent has
 * (DIBS_AGENT_EXISTS). */
DIBS_CHECKED dibs_status dibs_agent_register(dibs *d, dibs_arena *a,
                                             const struct dibs_agent_new *in,
                                             struct dibs_agent *out, struct dibs_error *err);
DIBS_CHECKED dibs_status dibs_agent_get(dibs *d, dibs_arena *a, const char *id,
                                        struct dibs_agent *out, struct dibs_error *err);
struct dibs_agent_filter {
    const char *project;     /* NULL: any */
    struct dibs_opt is_lead; /* not given: both */
};
DIBS_CHECKED dibs_status dibs_agent_list(dibs *d, dibs_arena *a, const struct dibs_agent_filter *in,
                                         struct dibs_agent_list *out, struct dibs_error *err);

/* ---- offers and assignment ------------------------------------------------------------------- */

/* The agent must be known (DIBS_AGENT_NOT_FOUND). An offer that nobody answers within offerTTL, or
 * whose agent is gone for longer than orphanThreshold, goes back to the pool. */
DIBS_CHECKED dibs_status dibs_task_offer(dibs *d, dibs_arena *a, const struct dibs_move *in,
                                         struct dibs_task *out, struct dibs_error *err);
/* offered -> reviewing, held by session_id under a lease; when it ends the task is offered
 * again. */
DIBS_CHECKED dibs_status dibs_task_review(dibs *d, dibs_arena *a, const struct dibs_move *in,
                                          struct dibs_task *out, struct dibs_error *err);
/* From offered and from reviewing alike, by the agent it is offered to. */
DIBS_CHECKED dibs_status dibs_task_accept(dibs *d, dibs_arena *a, const struct dibs_move *in,
                                          struct dibs_task *out, struct dibs_error *err);
DIBS_CHECKED dibs_status dibs_task_reject(dibs *d, dibs_arena *a, const struct dibs_move *in,
                                          struct dibs_task *out, struct dibs_error *err);
DIBS_CHECKED dibs_status dibs_task_assign(dibs *d, dibs_arena *a, const struct dibs_move *in,
                                          struct dibs_task *out, struct dibs_error *err);

/* ---- inbox ----------------------------------------------------------------------------------- */

enum dibs_inbox_status {
    DIBS_INBOX_UNREAD,
    DIBS_INBOX_PROCESSING, /* claimed; unread again when the lease ends */
    DIBS_INBOX_READ,
    DIBS_INBOX_RESPONDED,
    DIBS_INBOX_DELEGATED,
};
DIBS_API const char *dibs_inbox_status_name(enum dibs_inbox_status s);

struct dibs_message {
    const char *id, *project;
    const char *agent_id; /* NULL: for whichever lead of the project asks first */
    const char *source;   /* slack, github, api ... */
    enum dibs_inbox_status status;
    const char *content;
    const char *channel, *thread, *user, *matched_text; /* may be NULL */
    const char *metadata;                               /* JSON, may be NULL */
    const char *response;                               /* responded with */
    const char *task_id;                                /* delegated to */
    int64_t created_at_ms, updated_at_ms;
    const struct dibs_claim *claim; /* while it is being processed, else NULL */
};
struct dibs_message_list {
    struct dibs_message *items;
    size_t count;
    const char *next_cursor; /* NULL: that was all */
};

struct dibs_message_new {
    const char *id;       /* NULL: the next number */
    const char *project;  /* NULL: that of the agent, or "default" */
    const char *agent_id; /* of the same project; NULL: for the leads of the project */
    const char *source;   /* NULL: "api" */
    const char *content;  /* required */
    const char *channel, *thread, *user, *matched_text;
    const char *metadata; /* JSON */
};
DIBS_CHECKED dibs_status dibs_inbox_add(dibs *d, dibs_arena *a, const struct dibs_message_new *in,
                                        struct dibs_message *out, struct dibs_error *err);
DIBS_CHECKED dibs_status dibs_inbox_get(dibs *d, dibs_arena *a, const char *id,
                                        struct dibs_message *out, struct dibs_error *err);
struct dibs_inbox_filter {
    const char *project, *agent_id, *source; /* NULL: any */
    struct dibs_opt status;                  /* enum dibs_inbox_status */
    const char *cursor;
    int64_t limit; /* 0: 100; at most 1,000 */
};
/* Messages in the order of their arrival. */
DIBS_CHECKED dibs_status dibs_inbox_list(dibs *d, dibs_arena *a, const struct dibs_inbox_filter *in,
                                         struct dibs_message_list *out, struct dibs_error *err);

struct dibs_inbox_claim {
    const char *agent_id;   /* required: its messages, and those for leads if it is one */
    const char *session_id; /* required: a session of the agent */
    int64_t count;          /* up to so many, oldest first; 0: 5 */
    int64_t ttl_ms;         /* 0: defaultTTL */
};
/* DIBS_NOTHING_TO_CLAIM when there is no unread message. */
DIBS_CHECKED dibs_status dibs_inbox_claim(dibs *d, dibs_arena *a, const struct dibs_inbox_claim *in,
                                          struct dibs_message_list *out, struct dibs_error *err);

/* What becomes of a message. Each works from unread and from processing. A session that is given
 * must hold it if somebody does (DIBS_NOT_CLAIM_OWNER, DIBS_STALE_TOKEN); one that is not given
 * may only be left out while nobody holds it. A repeat that says the same is a no-op. */
struct dibs_inbox_answer {
    const char *id; /* required */
    const char *session_id;
    int64_t token;
    const char *response;             /* respond: required */
    const char *task_id;              /* delegate: an existing task, */
    const struct dibs_task_new *task; /* or one to create in the same transaction */
};
DIBS_CHECKED dibs_status dibs_inbox_read(dibs *d, dibs_arena *a, const struct dibs_inbox_answer *in,
                                         struct dibs_message *out, struct dibs_error *err);
/* A message from Slack is answered there too, as soon as it can be sent. */
DIBS_CHECKED dibs_status dibs_inbox_respond(dibs *d, dibs_arena *a,
                                            const struct dibs_inbox_answer *in,
                                            struct dibs_message *out, struct dibs_error *err);
DIBS_CHECKED dibs_status dibs_inbox_delegate(dibs *d, dibs_arena *a,
                                             const struct dibs_inbox_answer *in,
                                             struct dibs_message *out, struct dibs_error *err);
/* Gives it back: unread again at once. */
DIBS_CHECKED dibs_status dibs_inbox_release(dibs *d, dibs_arena *a,
                                            const struct dibs_inbox_answer *in,
                                            struct dibs_message *out, struct dibs_error *err);

/* ---- channels and mentions ------------------------------------------------------------------- */

struct dibs_channel {
    const char *id, *project, *description; /* the last may be NULL */
    int64_t messages;
    int64_t created_at_ms;
    bool created; /* dibs_channel_create: it was not there before */
};
struct dibs_channel_list {
    struct dibs_channel *items;
    size_t count;
};
struct dibs_channel_new {
    const char *id; /* required: its name too */
    const char *project, *description;
};
/* Makes a channel, or finds it. */
DIBS_CHECKED dibs_status dibs_channel_create(dibs *d, dibs_arena *a,
                                             const struct dibs_channel_new *in,
                                             struct dibs_channel *out, struct dibs_error *err);
DIBS_CHECKED dibs_status dibs_channel_list(dibs *d, dibs_arena *a, const char *project,
                                           struct dibs_channel_list *out, struct dibs_error *err);

struct dibs_post {
    const char *id, *channel_id;
    const char *author; /* an agent's id, or whatever the poster calls itself */
    const char *content;
    const char *reply_to;         /* id of a message, may be NULL */
    struct dibs_strings mentions; /* ids of the agents that it names */
    int64_t created_at_ms;
};
struct dibs_post_list {
    struct dibs_post *items;
    size_t count;
    const char *next_cursor;
};
struct dibs_post_new {
    const char *channel_id, *author, *content; /* required */
    const char *reply_to;
};
/* @name in the text, not inside a word, mentions the agent of that name and no other; a message
 * does not mention its author. DIBS_CHANNEL_NOT_FOUND. */
DIBS_CHECKED dibs_status dibs_channel_post(dibs *d, dibs_arena *a, const struct dibs_post_new *in,
                                           struct dibs_post *out, struct dibs_error *err);
struct dibs_post_filter {
    const char *channel_id; /* required */
    const char *cursor;
    int64_t limit; /* 0: 100; at most 1,000 */
};
/* Messages of a channel in the order of posting; nothing is marked as read. */
DIBS_CHECKED dibs_status dibs_channel_messages(dibs *d, dibs_arena *a,
                                               const struct dibs_post_filter *in,
                                               struct dibs_post_list *out, struct dibs_error *err);

struct dibs_channel_read {
    const char *channel_id, *agent_id; /* required */
    const char *session_id;            /* as in struct dibs_inbox_answer */
    int64_t limit;                     /* at most so many; 0: 100 */
};
/* The messages of the channel that the agent has not read, oldest first. Marks what it returns as
 * read, and lets go of the agent's claim on the mentions there when all it was for has been read.
 * next_cursor is set when there is more. */
DIBS_CHECKED dibs_status dibs_channel_read(dibs *d, dibs_arena *a,
                                           const struct dibs_channel_read *in,
                                           struct dibs_post_list *out, struct dibs_error *err);

struct dibs_mentions {
    const char *channel_id;
    int64_t count; /* unread mentions of the agent when they were claimed */
    struct dibs_claim claim;
};
struct dibs_mentions_list {
    struct dibs_mentions *items;
    size_t count;
    int64_t mentions; /* of all */
};
struct dibs_mentions_claim {
    const char *agent_id, *session_id; /* required */
    int64_t ttl_ms;                    /* 0: defaultTTL */
};
/* Claims every channel in which the agent has unread mentions and nobody is at them.
 * DIBS_NOTHING_TO_CLAIM when there is none. */
DIBS_CHECKED dibs_status dibs_mentions_claim(dibs *d, dibs_arena *a,
                                             const struct dibs_mentions_claim *in,
                                             struct dibs_mentions_list *out,
                                             struct dibs_error *err);
struct dibs_mentions_release {
    const char *agent_id, *session_id;      /* required */
    const struct dibs_strings *channel_ids; /* NULL: all that the session holds */
    bool read; /* what was there when they were claimed counts as read; later mentions do not */
};
/* Lets go of the claims; *out is how many. Who holds some may, whatever its agent is now. */
DIBS_CHECKED dibs_status dibs_mentions_release(dibs *d, dibs_arena *a,
                                               const struct dibs_mentions_release *in, int64_t *out,
                                               struct dibs_error *err);

/* ---- notices of finished tasks --------------------------------------------------------------- */

struct dibs_notices_claim {
    const char *agent_id, *session_id; /* required: a lead and its session */
    int64_t count;                     /* 0: 50 */
    bool manual;                       /* keep them claimed until dibs_notices_ack */
    int64_t ttl_ms;
};
struct dibs_notices {
    struct dibs_task_list tasks;
    struct dibs_claim_list claims; /* of `manual`, in the same order; else empty */
};
/* Tasks of the project that workers have completed, or that have failed for good, and no lead was
 * told of, in the order in which they finished. Only tasks that finish while the project has a lead
 * are remembered. DIBS_NOTHING_TO_CLAIM when there is none. */
DIBS_CHECKED dibs_status dibs_notices_claim(dibs *d, dibs_arena *a,
                                            const struct dibs_notices_claim *in,
                                            struct dibs_notices *out, struct dibs_error *err);
struct dibs_notices_ack {
    const char *session_id;       /* required */
    struct dibs_strings task_ids; /* none: all that the session was told of */
};
/* They count as told; *out is how many. After the lease too, while nobody else is being told, until
 * a heartbeat has told the session that it lost them. */
DIBS_CHECKED dibs_status dibs_notices_ack(dibs *d, dibs_arena *a, const struct dibs_notices_ack *in,
                                          int64_t *out, struct dibs_error *err);
/* Lets go of them: a lead is told of them again; *out is how many the session held. */
DIBS_CHECKED dibs_status dibs_notices_release(dibs *d, dibs_arena *a,
                                              const struct dibs_notices_ack *in, int64_t *out,
                                              struct dibs_error *err);

/* ---- poll ------------------------------------------------------------------------------------ */

enum dibs_trigger_type {
    DIBS_TRIGGER_NONE,
    DIBS_TRIGGER_TASK_OFFERED,  /* task and claim: it is being reviewed now */
    DIBS_TRIGGER_TASK_ASSIGNED, /* task and claim */
    DIBS_TRIGGER_INBOX,         /* messages */
    DIBS_TRIGGER_MENTIONS,      /* mentions */
    DIBS_TRIGGER_FINISHED,      /* finished */
    DIBS_TRIGGER_POOL,          /* pool_count tasks may be claimed; nothing was */
    DIBS_TRIGGER_POOL_TASK,     /* task and claim, out of the pool */
};
/* task_offered, task_assigned, slack_inbox_message, unread_mentions, tasks_finished,
 * pool_tasks_available, pool_task_claimed; "none" */
DIBS_API const char *dibs_trigger_name(enum dibs_trigger_type t);

struct dibs_poll {
    const char *agent_id;      /* required, and known */
    const char *session_id;    /* NULL: a session named like the agent; registered if need be */
    bool claim;                /* workers: take a task from the pool */
    struct dibs_strings types; /* with claim: of these types only */
    bool ack_manual;           /* notices are told once they were acknowledged */
    int64_t ttl_ms;            /* lease of what is handed out; 0: defaultTTL */
    int64_t wait_ms;           /* wait so long for something to happen */
};
struct dibs_trigger {
    enum dibs_trigger_type type;
    const char *session_id;          /* who holds what was handed out */
    const struct dibs_granted *task; /* NULL unless the type has a task */
    struct dibs_message_list messages;
    struct dibs_mentions_list mentions;
    struct dibs_notices finished;
    int64_t pool_count;
    int64_t next_poll_ms; /* with DIBS_TRIGGER_NONE: nothing is known to happen before that */
};
/*
 * The first of: an offer to the agent and a task assigned to it (both only while it holds fewer
 * than max_tasks); for a lead unread messages, unread mentions, finished tasks; for a worker what
 * is in the pool. All in one transaction, so two polls never get the same. When there is nothing
 * the answer is DIBS_OK with DIBS_TRIGGER_NONE.
 */
DIBS_CHECKED dibs_status dibs_poll(dibs *d, dibs_arena *a, const struct dibs_poll *in,
                                   struct dibs_trigger *out, struct dibs_error *err);

#ifdef __cplusplus
}
#endif
#endif
