/* SPDX-License-Identifier: MIT */
/*
 * core.h: private to the room `core`, the domain.
 *
 * The room owns tasks, claims, sessions, locks and the journal: what may happen to them and in
 * which order. It must never know HTTP, a command line or the shape of an answer; the only JSON it
 * writes is the `data` of events. One operation is one function is one transaction, and the events
 * that tell of it are written in it. Start reading at tx.c (how an operation runs), then
 * task_state.c (what may become of a task) and claim.c.
 *
 * Names: dibs_x is public (dibs.h); dibs__x crosses files inside this room; everything named so
 * that ends in _tx or takes a struct tx runs inside an open transaction.
 */
#ifndef DIBS_CORE_H
#define DIBS_CORE_H

#include "base/arena.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "core/serve.h"
#include "db/db.h"

/* ---- the handle and the transaction under way ------------------------------------------------ */

/* Numbers that only grow (counter.c). */
enum counter {
    COUNTER_EVENT,
    COUNTER_TOKEN,
    COUNTER_EPOCH,
    COUNTER_TASK,     /* ids of tasks for which the caller chose none */
    COUNTER_TASK_KEY, /* the order of creation */
    COUNTER_SESSION,
    COUNTER_TICKET,
    COUNTER_AGENT,
    COUNTER_INBOX,
    COUNTER_CHANNEL,
    COUNTER_MESSAGE, /* of channels */
    COUNTER_OUTGOING,
    COUNTER_COUNT,
};

struct draft; /* an event of this transaction, not yet numbered */

struct tx {
    dibs *d;
    struct db *db;
    dibs_arena *a;          /* where results go */
    struct dibs_error *err; /* never NULL in here */
    int64_t now;            /* store time of this operation */
    bool sweeping;          /* a sweep, which sums up what it ends in one event */
    bool keep;              /* commit what was written although the answer is a refusal */
    /* marks set in this operation (dibs__task_add_parts), which rows read before do not have */
    int64_t parts_key, parts;
};

struct subscriber;

/* Who has something to look at, for those who wait in a daemon (wake.c). */
#define WAKES_KEPT 256
#define FULL_KEPT 64
struct wake_notes {
    uint64_t keys[WAKES_KEPT]; /* the newest; wakes.agents counts all that there were */
    uint64_t full[FULL_KEPT];  /* agents that were not given something for want of room */
    size_t full_count;         /* beyond FULL_KEPT: any agent may be */
};

struct dibs {
    struct db *db;
    const struct dibs_platform *platform;
    struct dibs_settings settings;
    const char *setting_origin[16]; /* in the order of settings.def */
    char *data_dir;

    /* the transaction under way */
    bool batch; /* opened by dibs_batch_begin */
    int depth;  /* operations running inside one another (dibs_once) */
    /* batches inside the one that is open, or inside dibs_once: a savepoint each */
    struct batch_level {
        int depth; /* of the work that opened it: nobody else may end it */
        int nested_done, nested_kept;
        size_t drafts;
    } levels[BATCH_LEVELS_MAX];
    int level_count;
    /* inner operations of dibs_once that succeeded; that were refused but kept a trace */
    int nested_done, nested_kept;
    bool writing;             /* a write transaction is open */
    dibs_arena *drafts_arena; /* events wait here for their numbers */
    struct draft *drafts;
    size_t draft_count;
    struct buf draft_json;
    struct jw draft_writer;
    int64_t clock_offset; /* of the transaction's clock row */
    int64_t looked_at;    /* store time at which nothing was found that is due (claim_next.c) */
    struct counter_state {
        int64_t value;
        bool known, changed;
    } counters[COUNTER_COUNT]; /* counter.c */
    int64_t last_event;        /* number of the newest event that this handle has committed */

    /* delivery of events */
    struct subscriber *subscribers;
    int64_t subscriber_last_id;
    int64_t delivered; /* number of the last event given to the callbacks */
    bool delivering;
    bool maintaining;
    int64_t sweep_asked_ms; /* steady clock: when this handle last asked whether a sweep is due */

    /* a daemon's handle (serve.c) */
    bool serving, notes_alive;
    bool heard; /* somebody, in the transaction under way */
    struct dibs_wakes wakes;
    struct tended {
        int64_t clock_offset; /* the rest is in this clock's time */
        int64_t warned_upto;  /* of all leases that end until then it was warned */
        int64_t woken_upto;   /* whose assigned tasks came due until then was woken */
        /* when it was looked for, and when the next offer may go back to the pool */
        int64_t offers_at, offers;
    } tended;
    struct wake_notes woken; /* wake.c */
    struct {                 /* agent.c: whether a project has a lead; of the last one asked for */
        bool is_known, has;
        char project[WORD_BYTES_MAX + 1];
    } lead;
};

/* ---- running an operation (tx.c) ------------------------------------------------------------- */

typedef dibs_status tx_work(struct tx *tx, const void *in, void *out);

/*
 * Runs `work` in a transaction (a savepoint of the one that is open, if any), with a zeroed `out`
 * of out_bytes that is copied to the caller's only when the answer is DIBS_OK and the transaction
 * is on disk.
 */
dibs_status dibs__write(dibs *d, dibs_arena *a, struct dibs_error *err, tx_work *work,
                        const void *in, void *out, size_t out_bytes) MUST_USE;
dibs_status dibs__read(dibs *d, dibs_arena *a, struct dibs_error *err, tx_work *work,
                       const void *in, void *out, size_t out_bytes) MUST_USE;

/* Undoes the batches that the work of dibs_once has begun and not ended. */
void dibs__levels_drop(struct tx *tx);

/* Fills in tx->err and returns code. */
dibs_status dibs__refuse(struct tx *tx, dibs_status code, const char *format, ...)
    PRINTF_LIKE(3, 4);
/* The store's failure as status (DIBS_OK when there is none): the last line of most operations. */
dibs_status dibs__store_status(struct tx *tx);
/* Allocates in the result arena; out of memory fails the transaction. */
void *dibs__alloc(struct tx *tx, size_t bytes) MUST_USE;
char *dibs__strdup(struct tx *tx, const char *text) MUST_USE; /* NULL in, NULL out */
/* For short texts: what is longer than 1,023 bytes is cut. */
char *dibs__printf(struct tx *tx, const char *format, ...) PRINTF_LIKE(2, 3) MUST_USE;
void *dibs__push(struct tx *tx, void *items, size_t *count, size_t element_bytes) MUST_USE;

/* ---- numbers (counter.c) --------------------------------------------------------------------- */

int64_t dibs__next_token(struct tx *tx); /* larger than every token before */
/* Draws `count` numbers and returns the last of them. */
int64_t dibs__counter_take(struct tx *tx, enum counter which, int64_t count);
void dibs__counters_save(struct tx *tx); /* at the end of a writing transaction */
void dibs__counters_saved(dibs *d);      /* they are in the store now */
void dibs__counters_forget(dibs *d);

/* ---- which file this is (identity.c) --------------------------------------------------------- */

/* Raises the token epoch when the store finds itself in another file than before: a copy or a
 * restored backup. */
dibs_status dibs__identity_check(dibs *d, const char *path, struct dibs_error *err) MUST_USE;

/* ---- the store's clock (store_clock.c) ------------------------------------------------------- */

/* Reads the clock row, follows steps of the machine's clock by moving all leases along (writing
 * transactions only). */
dibs_status dibs__clock_begin(struct tx *tx, bool writing) MUST_USE;
int64_t dibs__clock_now(const dibs *d);
/* Time since `since` in which nobody could be heard: the leases that were held then, and the
 * silence of sessions, are moved by what has passed. Event leases:extended. */
int64_t dibs__leases_extend(struct tx *tx, int64_t since, const char *reason);

/* ---- settings (settings.c) ------------------------------------------------------------------- */

dibs_status dibs__settings_load(dibs *d, struct dibs_strings options, struct dibs_error *err)
    MUST_USE;

/* ---- checks of what callers send (check.c); each returns DIBS_OK or DIBS_INVALID_REQUEST about
 * `field` */

/* required */
dibs_status dibs__check_id(struct dibs_error *err, const char *field, const char *id);
dibs_status dibs__check_text(struct dibs_error *err, const char *field, const char *text,
                             size_t max);
dibs_status dibs__check_required(struct dibs_error *err, const char *field, const char *text,
                                 size_t max);
dibs_status dibs__check_range(struct dibs_error *err, const char *field, int64_t value,
                              int64_t least, int64_t most);
dibs_status dibs__check_ttl(struct tx *tx, const char *field, int64_t ttl_ms); /* 0 is fine */
/* page size with default */
dibs_status dibs__check_limit(struct dibs_error *err, int64_t limit, int64_t *out);
bool dibs__is_reserved_id(const char *id); /* words the routes use */

/* ---- the journal (event.c) ------------------------------------------------------------------- */

struct event_head {
    const char *type;    /* a literal */
    const char *project; /* may be NULL */
    int64_t task_key;    /* 0: none */
    const char *session_id, *agent;
    int64_t held_ms; /* of the claim this event ends; -1: ends none */
};
/* Opens the data object of a new event; write its fields, then dibs__event_end. Nothing else may be
 * begun in between. */
struct jw *dibs__event_begin(struct tx *tx, const struct event_head *head);
void dibs__event_end(struct tx *tx);
/* numbers the drafts and writes them: last in a transaction */
dibs_status dibs__events_flush(struct tx *tx) MUST_USE;
void dibs__drafts_cut(dibs *d, size_t count);
void dibs__deliver(dibs *d); /* gives committed events to the callbacks */
void dibs__subscribers_free(dibs *d);
/* Reads one event from columns number, at, type, project, task id, session_id, data. */
#define EVENT_COLUMNS "e.number, e.at, e.type, e.project, t.id, e.session_id, e.data"
#define EVENT_FROM " FROM event e LEFT JOIN task t ON t.key = e.task_key "
void dibs__event_read(struct tx *tx, struct db_rows *rows, struct dibs_event *out);

/* ---- sessions (session.c) -------------------------------------------------------------------- */

struct session_row {
    int64_t key;
    const char *id, *project, *agent_type, *agent_id;
    int64_t incarnation;
    enum dibs_session_status status;
    int64_t last_token;
};
/* Loads a session that has not ended, else DIBS_SESSION_NOT_FOUND. */
dibs_status dibs__session_load(struct tx *tx, const char *id, struct session_row *out) MUST_USE;
/* Everything about a session as callers see it; DIBS_SESSION_NOT_FOUND if there never was one. */
dibs_status dibs__session_read(struct tx *tx, const char *id, bool with_history,
                               struct dibs_session *out) MUST_USE;
/* A stale session that does something is active again; event session:active. */
void dibs__session_revive(struct tx *tx, const char *session_id);
/* Notes that the session was heard: heartbeat, and active again if it was stale. */
void dibs__session_touch(struct tx *tx, const char *session_id);
/* The same for one that waits: only now and then (dibs__heard_every_ms), as a write wakes everybody
 * else who waits in another process, and their writes would wake this one. Whether it was noted. */
bool dibs__session_waits(struct tx *tx, const char *session_id);
/* Whether the session's process lives; unknown when it is on another host or was never named. */
enum dibs_process dibs__session_process(struct tx *tx, const char *session_id);
/* Marks it ended. Claims and locks must have been dealt with. */
void dibs__session_end(struct tx *tx, const char *id, const char *reason);
/* agent id, else session id: whom scores count for */
const char *dibs__session_agent(const struct session_row *s);

/* ---- tasks (task_state.c, task_read.c, depend.c) --------------------------------------------- */

/* the hot row */
struct task_row {
    int64_t key;
    const char *id, *project, *title, *type, *phase;
    enum dibs_task_status status;
    bool ready;
    int64_t priority, attempts, max_attempts, generation, version;
    int64_t run_after, due_at, claim_timeout; /* 0: none */
    const char *assignee, *offered_to, *dedupe_key;
    int64_t last_token;
    int64_t created_at, updated_at, finished_at;
    int64_t offered_at; /* 0: it is not offered */
    int64_t parts;      /* enum task_part */
};
/* What a task has beside its row. One that is not marked is not there; one that is may be. */
enum task_part {
    PART_BODY = 1,
    PART_TAGS = 2,
    PART_NEEDS = 4,
    PART_NEEDED = 8,
    PART_NOTICE = 16,
    PART_ALL = 31,
};
/* Marks parts before they are added. */
void dibs__task_add_parts(struct tx *tx, int64_t key, int64_t parts);
#define TASK_COLUMNS                                                                               \
    "t.key, t.id, t.project, t.title, t.type, t.phase, t.status, t.ready, t.priority, "            \
    "t.attempts, t.max_attempts, "                                                                 \
    "t.generation, t.version, t.run_after, t.due_at, t.claim_timeout, t.assignee, t.offered_to, "  \
    "t.dedupe_key, "                                                                               \
    "t.last_token, t.created_at, t.updated_at, t.finished_at, t.parts, t.offered_at"
#define TASK_COLUMN_COUNT 25
void dibs__task_row_read(struct tx *tx, struct db_rows *rows, struct task_row *out);
/* or DIBS_TASK_NOT_FOUND */
dibs_status dibs__task_load(struct tx *tx, const char *id, struct task_row *out) MUST_USE;
bool dibs__task_load_key(struct tx *tx, int64_t key, struct task_row *out);
/* The unfinished task with the same dedupe key in the same project, if there is one. */
bool dibs__task_of_key(struct tx *tx, const struct task_row *wanted, struct task_row *out);
/* Everything about the task as callers see it. */
void dibs__task_full(struct tx *tx, const struct task_row *row, struct dibs_task *out);
/* The same for a task whose live claim is at hand. */
struct claim_row;
void dibs__task_full_claimed(struct tx *tx, const struct task_row *row, const struct claim_row *c,
                             struct dibs_task *out);

/* the arrows of task_state.c */
enum task_move {
    MOVE_CLAIM,
    MOVE_COMPLETE,
    MOVE_RETRY,     /* fail, expiry, orphan */
    MOVE_GIVE_BACK, /* release, session end */
    MOVE_OFFER,
    MOVE_REVIEW,
    MOVE_REVIEW_END,
    MOVE_WITHDRAW, /* the offeree is gone */
    MOVE_ACCEPT,
    MOVE_REJECT,
    MOVE_ASSIGN,
    MOVE_BLOCK,
    MOVE_UNBLOCK,
    MOVE_CANCEL,
    MOVE_REOPEN,
};
bool dibs__task_may(const struct task_row *row, enum task_move move);
/* DIBS_OK, or DIBS_ILLEGAL_TRANSITION (DIBS_ALREADY_FINISHED from a final status) with a
 * sentence. */
dibs_status dibs__task_check_move(struct tx *tx, const struct task_row *row, enum task_move move)
    MUST_USE;
/* The only function that changes a status. The move must be allowed. Keeps ready, due_at and
 * finished_at in step. */
void dibs__task_set_status(struct tx *tx, struct task_row *row, enum task_move move,
                           enum dibs_task_status to);
/* Writes the row's changeable columns; version and updated_at advance. */
void dibs__task_save(struct tx *tx, struct task_row *row);
static inline bool dibs__task_is_final(enum dibs_task_status s)
{
    return s >= DIBS_TASK_COMPLETED;
}
/* Begins an event about the task with its id, status, attempts and version already written. */
struct jw *dibs__task_event(struct tx *tx, const char *type, const struct task_row *row,
                            const char *session_id, const char *agent, int64_t held_ms);
void dibs__task_set_text(struct tx *tx, int64_t key, const char *sql, const char *text);
void dibs__task_set_error(struct tx *tx, int64_t key, const char *error);
void dibs__task_set_result(struct tx *tx, int64_t key, const char *result);
/* The same for a row that is saved with the mark of a body. */
void dibs__task_put_result(struct tx *tx, const struct task_row *row, const char *result);
void dibs__task_set_block_reason(struct tx *tx, int64_t key, const char *reason);
void dibs__task_set_rejection(struct tx *tx, int64_t key, const char *reason);
/* Open, or assigned when it has an assignee: where a task goes when it is given back or
 * unblocked. */
enum dibs_task_status dibs__task_home(const struct task_row *row);

bool dibs__has_unfinished_dependencies(struct tx *tx, int64_t task_key);
dibs_status dibs__dependencies_set(struct tx *tx, const struct task_row *row,
                                   struct dibs_strings ids) MUST_USE;
/* after a completion */
void dibs__dependants_unblock(struct tx *tx, const struct task_row *finished);
void dibs__dependants_tell_failure(struct tx *tx, const struct task_row *failed);
void dibs__dependencies_read(struct tx *tx, int64_t task_key, struct dibs_task *out);

/* ---- claims (claim.c, claim_read.c, claim_end.c, report.c) ----------------------------------- */

struct claim_row {
    int64_t token;
    const char *kind;
    int64_t task_key;
    const char *resource;
    bool shared;
    const char *session_id;
    int64_t incarnation;
    const char *agent_type, *agent_id;
    int64_t claimed_at, expires_at, heartbeat_at, heartbeats, ttl, attempt, generation;
    int64_t progress_percent; /* -1: none */
    const char *progress_message, *checkpoint, *metadata;
    int64_t ended_at;
    const char *end_reason, *late_result;
    int64_t before_of_task, before_in_session;
};
#define CLAIM_COLUMNS                                                                              \
    "c.token, c.kind, c.task_key, c.resource, c.shared, c.session_id, c.incarnation, "             \
    "c.agent_type, c.agent_id, "                                                                   \
    "c.claimed_at, c.expires_at, c.heartbeat_at, c.heartbeats, c.ttl, c.attempt, c.generation, "   \
    "c.progress_percent, "                                                                         \
    "c.progress_message, c.checkpoint, c.metadata, c.ended_at, c.end_reason, c.late_result, "      \
    "c.before_of_task, "                                                                           \
    "c.before_in_session"
#define CLAIM_COLUMN_COUNT 25
void dibs__claim_row_read(struct tx *tx, struct db_rows *rows, int first_column,
                          struct claim_row *out);
struct claim_rows {
    struct claim_row *items;
    size_t count;
};
/* Reads all rows of a query of CLAIM_COLUMNS, and ends it. */
void dibs__claims_collect(struct tx *tx, struct db_rows *rows, struct claim_rows *out);
bool dibs__claim_load(struct tx *tx, int64_t token, struct claim_row *out);
enum dibs_health dibs__claim_health(const struct tx *tx, const struct claim_row *c);
void dibs__claim_full(struct tx *tx, const struct claim_row *row, const char *task_id,
                      struct dibs_claim *out);
static inline const char *dibs__claim_agent(const struct claim_row *c)
{
    return c->agent_id ? c->agent_id : c->session_id;
}
static inline int64_t dibs__held_ms(const struct tx *tx, const struct claim_row *c)
{
    int64_t until = c->ended_at ? c->ended_at : tx->now;
    if (until > c->expires_at)
        until = c->expires_at; /* a lease ends at its deadline, whenever somebody looks */
    return until > c->claimed_at ? until - c->claimed_at : 0;
}
static inline bool dibs__claim_is_past(const struct tx *tx, const struct claim_row *c)
{
    return c->expires_at <= tx->now;
}

/* what a new claim is made of */
struct claim_grant {
    const struct session_row *session;
    const char *kind;      /* "task" or "review" */
    struct task_row *task; /* its status is changed and saved */
    int64_t ttl_ms;
    const char *agent_type, *metadata;
};
/* Grants a claimable task: claim row, task in_progress, attempt counted, session heard, event. */
void dibs__claim_grant(struct tx *tx, const struct claim_grant *in, struct claim_row *out);
int64_t dibs__claim_ttl(struct tx *tx, const struct task_row *task, int64_t asked_ms);
/* Whether this session may claim the task now; else DIBS_TASK_NOT_CLAIMABLE with the reason. Not
 * for in_progress. */
dibs_status dibs__claimable(struct tx *tx, const struct task_row *task,
                            const struct session_row *session) MUST_USE;
void dibs__claim_extend(struct tx *tx, struct claim_row *c, int64_t expires_at);

/* The one way a lease ends. told: its session knows by itself (it asked for the end). */
void dibs__claim_close(struct tx *tx, struct claim_row *c, const char *reason, bool told);
/* Ends a task or review claim that ran out or lost its session, moves the task on, writes the
 * event. */
void dibs__claim_lapse(struct tx *tx, struct claim_row *c, const char *event_type,
                       const char *reason, int64_t stale_for_ms);
/* Ends the task's lease if its deadline is past, and reads the row again. Whoever looks first does,
 * so that no answer depends on whether a sweep has been there. */
bool dibs__lapse_if_past(struct tx *tx, struct task_row *task);
/* Gives the task back: attempt returned, open or assigned, event task:released. */
void dibs__claim_give_back(struct tx *tx, struct claim_row *c, struct task_row *task,
                           const char *reason, bool told);
/* Ends up to `most` leases whose deadline is past, oldest deadline first; appends to *out when it
 * is not NULL. */
int64_t dibs__expire_due(struct tx *tx, int64_t most, struct dibs_cleaned *out);
void dibs__promote_due(struct tx *tx); /* tasks whose time has come become ready */
/* Puts back what has ended or come due, a portion; EXPIRE_BATCH_MAX: there may be more. Of tasks
 * and sessions it tells the journal, so that it stays whatever the answer (tx->keep).
 * (claim_next.c) */
int64_t dibs__put_back_due(struct tx *tx);
/* The best task of the project's pool, of one of these types if any are given. (claim_next.c) */
bool dibs__pool_best(struct tx *tx, const char *project, struct dibs_strings types,
                     struct task_row *out);
/* The tag that fewest tasks have, when walking those is less work than walking the ready tasks of
 * the project; else NULL. (claim_tags.c) */
const char *dibs__rare_tag(struct tx *tx, const char *project, struct dibs_strings tags);
/* The task and its newest claim (token 0: it was never claimed) in one look; or
 * DIBS_TASK_NOT_FOUND. `token`: what the caller says that claim's is, 0: nothing. */
dibs_status dibs__task_load_claimed(struct tx *tx, const char *id, int64_t token,
                                    struct task_row *task, struct claim_row *newest) MUST_USE;
/* The session's live claim on the task, for a report by its holder; otherwise the refusal that says
 * what happened. `newest` is the task's newest claim, read here if it was not before. A lease found
 * past its deadline is ended on the way (tx->keep), and the task row read again. */
dibs_status dibs__claim_of_holder(struct tx *tx, struct task_row *task, const char *session_id,
                                  int64_t token, struct claim_row *newest) MUST_USE;
void dibs__cleaned_add(struct tx *tx, struct dibs_cleaned *out, const struct claim_row *c,
                       const char *task_id, const char *reason, int64_t stale_for_ms);

struct report {
    struct task_row *task;
    struct claim_row *claim;
    const char *result, *error;
    bool permanent, late;
};
void dibs__task_complete(struct tx *tx, const struct report *r);
void dibs__task_fail(struct tx *tx, const struct report *r);

/* ---- locks (lock.c) -------------------------------------------------------------------------- */

void dibs__lock_end(struct tx *tx, struct claim_row *c, const char *reason, const char *event_type,
                    bool told);
int64_t dibs__locks_release_session(struct tx *tx, const char *session_id, const char *reason);
/* The session waits for no lock any more; whoever waited behind it moves up. */
void dibs__tickets_drop(struct tx *tx, const char *session_id);
int64_t dibs__locks_expire(struct tx *tx, struct dibs_cleaned *out);

/* ---- cleanup (cleanup.c) --------------------------------------------------------------------- */

/* Why a session is over; its claims become free, its locks go to the next, the session ends. */
struct silent {
    const char *id, *project;
    int64_t silent_for;
    const char *over; /* why it ends; NULL: it is only stale */
};
void dibs__session_over(struct tx *tx, const struct silent *s);
/* task:claim-expiring for up to SWEEP_BATCH_MAX leases that end soon; how many. */
int64_t dibs__warn_expiring(struct tx *tx);
/* Waits a little, or until another process has committed; false when the deadline (steady clock)
 * has come. */
bool dibs__wait_for_change(dibs *d, int64_t *seen, int64_t deadline_steady_ms);

/* ---- scores (score.c) ------------------------------------------------------------------------ */

/* Counts a portion of the journal's tail into `score`, at least up to this number (before anything
 * is pruned); returns how many events are left to count. */
int64_t dibs__scores_fold(struct tx *tx, int64_t at_least);
int64_t dibs__scores_behind(struct tx *tx); /* events not counted yet */
/* Of all agents since the store was made, and how long the claims that have ended were held. */
void dibs__score_totals(struct tx *tx, struct dibs_score *out, int64_t *held_ms);
int64_t dibs__score_day(struct tx *tx, const char *type, int64_t day);

/* ---- counting (overview.c) ------------------------------------------------------------------- */

void dibs__tally_add(struct tx *tx, struct dibs_tally_list *list, const char *name, int64_t count);

/* ---- verify.c -------------------------------------------------------------------------------- */

/* Folds the journal and compares it with the tables; DIBS_STORE_CORRUPT with the first
 * disagreement. */
dibs_status dibs__verify(struct tx *tx) MUST_USE;
/* The part of it that is about messages, mentions and notices (verify_subject.c). */
dibs_status dibs__verify_subjects(struct tx *tx) MUST_USE;

#endif
