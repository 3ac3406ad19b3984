/* SPDX-License-Identifier: MIT */
/*
 * model.h: what the store should say, kept in a few arrays and written from the documented rules.
 *
 * The model knows no SQL and no transaction. Each model_x() is one operation: it answers what the
 * store must answer and changes the model as the store must change. What only the store can know
 * (the number of a token, the length of a back-off) is checked for its bounds and adopted.
 *
 * Time. `now` moves when time passes and at no other moment: setting the clock and suspend do not
 * touch it, as no lease may end through them. All leases, heartbeats and back-offs are in this
 * time. store = now + shift is what the store calls the time; dates (runAfter) are in that one.
 *
 * Leases end in the model at their deadline. The store may show such a claim as still there, past
 * its deadline, until somebody looks; model_compare() knows both faces and accepts no third.
 */
#ifndef TEST_MODEL_H
#define TEST_MODEL_H

#include "fixture.h"

#define MODEL_TASKS_MAX 40
#define MODEL_SESSIONS 6
#define MODEL_RESOURCES 3
#define NOBODY (-1)

enum m_kind { M_TASK, M_REVIEW, M_LOCK };

struct m_claim {
    enum m_kind kind;
    int64_t token; /* 0: just granted, the store's number not yet known */
    int task, resource, session;
    bool shared;
    int64_t incarnation, attempt, generation;
    int64_t expires, heartbeat, ttl;
    const char *checkpoint;
    bool ended, told;
    const char *reason;
};

/* what a lapse changes, to show the face from before it */
struct m_face {
    enum dibs_task_status status;
    const char *assignee, *error;
};

struct m_task {
    char id[24];
    const char *project, *type, *dedupe, *assignee, *offered_to, *result, *error;
    unsigned tags;
    enum dibs_task_status status;
    int64_t priority, attempts, max_attempts, generation, claim_timeout;
    int64_t run_after;           /* a date: store time; 0 none */
    int64_t due;                 /* end of a back-off; 0 none */
    int64_t offered_at;          /* while it is offered or reviewed */
    int64_t due_least, due_most; /* a back-off the store has just chosen */
    bool by_hand;                /* blocked by somebody, not only by dependencies */
    uint64_t needs;              /* bit i: task i */
    int claim;                   /* newest claim, live or ended; NOBODY */
    bool unseen;                 /* its claim lapsed and the store has not looked yet */
    struct m_face before;        /* the lapse */
    int64_t version;             /* as the store last said */
};

struct m_session {
    const char *id, *project, *agent;
    bool exists;
    enum dibs_session_status status;
    int64_t incarnation, heartbeat, pid, process, total, completed;
};

struct model {
    int64_t now, shift;
    int64_t last_token, last_event, last_event_at;
    int64_t cleaned_at; /* last sweep by dibs_maintain; 0 never */
    struct m_task tasks[MODEL_TASKS_MAX];
    int task_count;
    struct m_session sessions[MODEL_SESSIONS];
    struct m_claim *claims;
    int claim_count, claim_room;
    int64_t processes[MODEL_SESSIONS]; /* slot i has pid 100 + i; which life of it, 0 dead */
    int64_t lives;
    struct m_agent { /* those that there are, from the beginning */
        const char *id;
        int64_t seen;
    } agents[2];
};

void model_init(struct model *m);
void model_copy(struct model *to, const struct model *from);
void model_undo(struct model *m, const struct model *before); /* all but time and processes */
void model_release(struct model *m);

/* ---- shared by the files of the model -------------------------------------------------------- */

static inline int64_t model_store_time(const struct model *m)
{
    return m->now + m->shift;
}
bool m_same(const char *a, const char *b);
bool m_is_final(enum dibs_task_status s);
struct m_claim *m_claim_of(struct model *m, const struct m_task *t); /* newest; NULL */
struct m_claim *m_live(struct model *m, const struct m_task *t);     /* newest, if not ended */
struct m_claim *m_add(struct model *m, struct m_claim c);
void m_end(struct m_claim *c, const char *reason, bool told);
void m_heard(struct model *m, int session);
bool m_is_there(const struct model *m, int session); /* registered and not ended */
bool m_waits(const struct model *m, const struct m_task *t);
bool m_is_due(const struct model *m, const struct m_task *t);
/* Open or assigned is where it is to go; while a dependency is unfinished that means blocked. */
void m_queue(const struct model *m, struct m_task *t, enum dibs_task_status to);
enum dibs_task_status m_home(const struct m_task *t);
void m_retry(struct model *m, struct m_task *t, bool backoff, bool permanent);
void m_grant(struct model *m, int task, int session, enum m_kind kind, int64_t ttl);
void m_renew(struct model *m, struct m_claim *c, int64_t by); /* never nearer */
void m_give_back(struct model *m, struct m_claim *c, const char *reason, bool told);
void m_complete(struct model *m, struct m_task *t, const char *result);
enum dibs_process m_process(const struct model *m, int session);
void m_agent_seen(struct model *m, const char *agent); /* NULL is fine */
/* Every lease whose deadline has come ends now. */
void model_settle(struct model *m);
/* After a boot: the time since the store last wrote anything does not count, and its clock shows
 * the time of day, but never an earlier time than it has shown. */
void model_reboot(struct model *m, int64_t wall_ms);

/* Offers that nobody answered, or whose agent is gone, go back to the pool; how many. */
int64_t model_withdraw(struct model *m);

/* ---- operations; each answers what the store must answer ------------------------------------- */

struct m_new {
    const char *id, *project, *type, *dedupe, *assignee, *offered_to;
    unsigned tags;
    int64_t priority, max_attempts, run_after, claim_timeout;
    uint64_t needs;
    bool needs_unknown;
};
/* *at: the task, new or found by its dedupe key */
dibs_status model_create(struct model *m, const struct m_new *in, int *at);
dibs_status model_take(struct model *m, int task, int session, int64_t ttl);

struct m_next {
    int session;
    const char *project;
    const char *types[3];
    size_t type_count;
    unsigned tags;
    struct dibs_opt spare;
    enum dibs_sort sort;
    enum dibs_order order;
    int64_t ttl, count;
};
/* Whether task `t` may be given by claim-next, and whether it is the one that must be. */
bool model_next_fits(const struct model *m, const struct m_next *in, const struct m_task *t);
int model_next_best(const struct model *m, const struct m_next *in); /* NOBODY when there is none */
void model_next_grant(struct model *m, const struct m_next *in, int task);
dibs_status model_next_check(const struct model *m, const struct m_next *in);

dibs_status model_heartbeat(struct model *m, int task, int session, int64_t token, int64_t extend);
dibs_status model_progress(struct model *m, int task, int session, int64_t token,
                           const char *checkpoint);
dibs_status model_complete(struct model *m, int task, int session, int64_t token,
                           const char *result);
struct m_failure {
    int64_t token;
    const char *error, *result;
    bool permanent;
};
dibs_status model_fail(struct model *m, int task, int session, const struct m_failure *in);
dibs_status model_release_claim(struct model *m, int task, int session, int64_t token,
                                const char *reason);

dibs_status model_block(struct model *m, int task, int session);
dibs_status model_unblock(struct model *m, int task);
dibs_status model_cancel(struct model *m, int task);
dibs_status model_reopen(struct model *m, int task);
dibs_status model_offer(struct model *m, int task, const char *agent);
dibs_status model_review(struct model *m, int task, int session, int64_t ttl);
dibs_status model_accept(struct model *m, int task, const char *agent);
dibs_status model_reject(struct model *m, int task, const char *agent);
dibs_status model_assign(struct model *m, int task, const char *agent);

void model_register(struct model *m, int session, const char *project, const char *agent,
                    int64_t pid);
dibs_status model_session_heartbeat(struct model *m, int session);
/* The claim by which the session lost the task, if its newest on it ended so; NULL otherwise. */
struct m_claim *model_lost(struct model *m, int session, int task);
/* Whether resuming would give it back: nobody has taken or changed the task since. */
bool model_may_resume(struct model *m, int session, int task);
void model_resume_one(struct model *m, int session, int task);
dibs_status model_resume(struct model *m, int session); /* the rest of it, after the tasks */
dibs_status model_deregister(struct model *m, int session);
void model_release_session(struct model *m, int session, const char *reason);
const char *model_orphan_reason(const struct model *m, int session, bool check_process);
void model_cleanup_orphaned(struct model *m, bool check_process);
void model_process_ended(struct model *m, int session);
/* Leases held and not renewed in the last `by` ms, and sessions silent all that time, get them
 * back. */
void model_extend(struct model *m, int64_t by);
/* As it is seen: stale from its threshold on, whether or not a sweep has said so. */
enum dibs_session_status model_session_status(const struct model *m, int session);
void model_cleanup_sessions(struct model *m, struct dibs_stale_sessions *out);

dibs_status model_lock_take(struct model *m, int resource, int session, bool shared, int64_t ttl);
dibs_status model_lock_heartbeat(struct model *m, int resource, int session, int64_t token,
                                 int64_t extend);
dibs_status model_lock_release(struct model *m, int resource, int session, int64_t token);
struct m_claim *model_lock_of(struct model *m, int resource, int session); /* live; NULL */

/* ---- comparing ------------------------------------------------------------------------------- */

extern const char *const model_resources[MODEL_RESOURCES];
extern const char *const model_tags[3];
/* Compares everything that callers can see. NULL when it agrees, else a sentence. `thorough` looks
 * also at what is dear to ask. */
const char *model_compare(struct model *m, dibs *d, dibs_arena *a, bool thorough);
int model_task_at(const struct model *m, const char *id); /* NOBODY when unknown */

#endif
