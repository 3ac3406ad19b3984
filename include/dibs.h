/* SPDX-License-Identifier: MIT */
/* long because: it is the manual of the library, read in one piece from top to bottom */
/*
 * dibs.h: share one queue of work between many processes without two of them doing the same thing.
 *
 * A session (a running process) claims a task and holds it by a lease. Everybody else is told who
 * holds it. When the lease ends or the process dies, the task is free again; a late write of the
 * former holder is refused, and what it sent is kept.
 *
 *     struct dibs_error err = {0};
 *     dibs *d = NULL;
 *     if (dibs_open(&(struct dibs_options){.data_dir = ".dibs"}, &d, &err) != DIBS_OK)
 *         die(err.message);
 *     dibs_arena *a = dibs_arena_new();
 *     struct dibs_session me;
 *     struct dibs_session_new who = {.id = "worker-1", .agent_type = "worker"};
 *     dibs_session_register(d, a, &who, &me, &err);
 *     struct dibs_grant g;
 *     struct dibs_claim_next any = {.session_id = who.id};
 *     while (dibs_claim_next(d, a, &any, &g, &err) == DIBS_OK) {
 *         struct dibs_task *task = &g.items[0].task;
 *         work(task->params);
 *         struct dibs_report report = {
 *             .task_id = task->id, .session_id = who.id, .token = g.items[0].claim.token};
 *         dibs_complete(d, a, &report, task, &err);
 *         dibs_arena_reset(a);
 *     }
 *     dibs_arena_free(a);
 *     dibs_close(d);
 *
 * Rules that hold for every function here
 *   - The order of parameters is handle, arena, input, output, error.
 *   - Inputs are borrowed until the call returns. In an input struct, NULL and 0 mean "not given";
 *     where 0 is a value of its own the field is a struct dibs_opt, given as DIBS_VALUE(0).
 *   - Outputs live in the arena that was passed and die with it (dibs_arena_reset,
 *     dibs_arena_free). They are written only when the function returns DIBS_OK, unless its comment
 *     says otherwise.
 *   - What is returned DIBS_OK is on disk. DIBS_STORE_* and DIBS_OUT_OF_MEMORY mean "unknown":
 *     repeat the call, inside dibs_once() when a repeat must not act twice.
 *   - err may be NULL. It is always filled in when the answer is not DIBS_OK.
 *   - Times are integer milliseconds since 1970 UTC; durations are integer milliseconds; 0 means
 *     "none" in a time.
 *   - Text is UTF-8 without NUL. Fields called JSON hold one JSON value as text; anything else is
 *     refused.
 *
 * Threads and processes
 *   A handle may move between threads but serves one at a time: give each thread a handle of its
 *   own. Many processes may open the same folder; they take turns in the order in which they come.
 *   A handle does not survive fork(): the child is answered DIBS_FORKED and opens its own.
 *   After DIBS_STORE_UNAVAILABLE from a failed disk flush the handle answers nothing else: end the
 *   process, as what the kernel still holds of the file can no longer be trusted.
 */
#ifndef DIBS_H
#define DIBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* enum dibs_status, made from src/base/status.def; docs/errors.md explains each */
#include "dibs_status.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DIBS_API __attribute__((visibility("default")))
#define DIBS_CHECKED __attribute__((visibility("default"), warn_unused_result))
#else
#define DIBS_API
#define DIBS_CHECKED
#endif

typedef struct dibs dibs;             /* an open store */
typedef struct dibs_arena dibs_arena; /* home of results */

/* ---- errors ---------------------------------------------------------------------------------- */

/* What went wrong. A fixed struct, so that reporting an error cannot fail. */
struct dibs_error {
    dibs_status code;
    char message[512]; /* one sentence: what failed, the subject in quotes, what to do */
    char field[64];    /* DIBS_INVALID_REQUEST: the field it is about */
    /* ILLEGAL_TRANSITION, TASK_NOT_CLAIMABLE ...: the task's present status */
    char task_status[16];
    /* TASK_ALREADY_CLAIMED, LOCK_HELD, NOT_CLAIM_OWNER: session that holds it, else "" */
    char holder[129];
    int64_t holder_since_ms;
    int64_t remaining_ms; /* how long the holder's lease still runs */
    /* the claim is gone because the task was cancelled: stop working on it */
    bool cancel_requested;
};

DIBS_API const char *dibs_status_name(dibs_status s); /* "TASK_NOT_FOUND": the word on the wire */
DIBS_API const char *dibs_status_sentence(dibs_status s); /* what it means, for people */
DIBS_API int dibs_status_http(dibs_status s);
DIBS_API int dibs_status_exit(dibs_status s);
/* true: ours or the machine's, not the caller's */
DIBS_API bool dibs_status_is_failure(dibs_status s);
/* DIBS_INTERNAL for an unknown word */
DIBS_API dibs_status dibs_status_from_name(const char *name);

/* ---- arenas ---------------------------------------------------------------------------------- */

DIBS_API dibs_arena *dibs_arena_new(void); /* NULL when out of memory */
/* everything in it dies; the memory is kept for the next use */
DIBS_API void dibs_arena_reset(dibs_arena *a);
DIBS_API void dibs_arena_free(dibs_arena *a); /* NULL is fine */

/* ---- small types ----------------------------------------------------------------------------- */

/* an integer that may be absent */
struct dibs_opt {
    bool given;
    int64_t value;
};
#ifdef __cplusplus
#define DIBS_VALUE(v) (dibs_opt{true, (v)})
#else
#define DIBS_VALUE(v) ((struct dibs_opt){.given = true, .value = (v)})
#endif

struct dibs_strings {
    const char *const *items;
    size_t count;
};
#ifndef __cplusplus /* there, fill in items and count from an array of your own */
#define DIBS_STRINGS(...)                                                                          \
    ((struct dibs_strings){.items = (const char *const[]){__VA_ARGS__},                            \
                           .count =                                                                \
                               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)})
#endif

/* ---- the world outside: clock, chance, processes --------------------------------------------- */

enum dibs_process { DIBS_PROCESS_ALIVE, DIBS_PROCESS_DEAD, DIBS_PROCESS_UNKNOWN };

/*
 * What the library asks of the machine. NULL in dibs_options means the real one
 * (dibs_platform_real()); a test passes its own and moves the clock instead of sleeping. Every
 * function gets `context`; none may call back into dibs.
 */
struct dibs_platform {
    void *context;
    int64_t (*wall_ms)(void *context); /* CLOCK_REALTIME: may be set by people */
    /* CLOCK_MONOTONIC: never jumps, stands still in suspend, restarts at boot */
    int64_t (*steady_ms)(void *context);
    void (*boot_id)(void *context, char out[64]); /* differs after each boot */
    void (*sleep_ms)(void *context, int64_t ms);
    void (*random)(void *context, void *out, size_t bytes);
    void (*host)(void *context, char out[129]);
    /* Writes what tells this process from a later one with the same pid; false when there is no
     * such process. */
    bool (*process_start)(void *context, int64_t pid, char out[64]);
    /* Whether the process with that pid AND start still runs here. No permission to look means
     * alive. */
    enum dibs_process (*process_state)(void *context, int64_t pid, const char *start);
    /* Name of the network file system that `path` is on ("nfs"), or NULL when it is local. */
    const char *(*network_fs)(void *context, const char *path);
};
DIBS_API const struct dibs_platform *dibs_platform_real(void);

/* ---- settings -------------------------------------------------------------------------------- */

/*
 * Each setting comes from, in this order: dibs_options.settings ("name=value"), the environment
 * (DIBS_DEFAULT_TTL=30m), the file `config` in the data folder (defaultTTL = 30m), the default.
 * Durations take ms, s, m, h, d; a bare number is milliseconds. A value that cannot be read is
 * refused at open, naming the setting and where it was found.
 */
struct dibs_settings {
    int64_t default_ttl_ms; /* defaultTTL: lease of a claim that names none, 30 min */
    int64_t min_ttl_ms;     /* minTTL, 1 min */
    int64_t max_ttl_ms;     /* maxTTL, 2 h */
    /* heartbeatInterval: how often a holder should heartbeat, 1 min */
    int64_t heartbeat_interval_ms;
    int64_t cleanup_interval_ms; /* cleanupInterval, 5 min */
    int64_t lock_ttl_ms;         /* lockTTL, 1 min */
    /* orphanThreshold: a session silent for longer loses its claims, 10 min */
    int64_t orphan_threshold_ms;
    int64_t warning_threshold_ms;  /* warningThreshold: health "warning", 5 min */
    int64_t expiring_threshold_ms; /* expiringThreshold: health "critical", 1 min */
    int64_t stale_threshold_ms;    /* staleThreshold: health "stale", session "stale", 5 min */
    int64_t event_retention_ms;    /* eventRetention, 7 days; 0 keeps events for ever */
    int64_t offer_ttl_ms;          /* offerTTL: unanswered offers go back to the pool, 1 h */
    int64_t auto_cleanup;          /* autoCleanup: 1 = writing calls run the sweep when it is due */
};

/* one line of `dibs config` */
struct dibs_setting {
    const char *name;        /* "defaultTTL" */
    const char *environment; /* "DIBS_DEFAULT_TTL" */
    const char *summary;
    bool is_duration; /* value_ms is a duration, else a plain number */
    int64_t value;
    int64_t standard;   /* the default */
    const char *origin; /* "default", "config file", "environment", "option" */
};
struct dibs_setting_list {
    struct dibs_setting *items;
    size_t count;
};

/* ---- open and close -------------------------------------------------------------------------- */

struct dibs_options {
    const char *data_dir; /* required: the folder, usually ".dibs"; see dibs_find_data_dir() */
    bool create;          /* make the folder and an empty store if there is none */
    struct dibs_strings settings; /* "defaultTTL=45m", ...: wins over environment and config file */
    const struct dibs_platform *platform; /* NULL: the real machine */
};

/*
 * Opens the store. Refuses: a folder without a store unless `create` (DIBS_STORE_NOT_FOUND); a
 * network file system (DIBS_STORE_UNSUPPORTED); a damaged or foreign file, which is left untouched
 * (DIBS_STORE_CORRUPT); a file that a newer dibs has changed in a way this one does not understand
 * (DIBS_STORE_TOO_NEW); a setting that cannot be read (DIBS_INVALID_REQUEST). Older files are
 * brought up to date.
 */
DIBS_CHECKED dibs_status dibs_open(const struct dibs_options *in, dibs **out,
                                   struct dibs_error *err);

/* Closes the handle; leases and sessions stay as they are. NULL is fine. */
DIBS_API void dibs_close(dibs *d);

/* Walks up from `from` (NULL: the current folder) to a folder that contains `.dibs`, as git finds
 * .git. NULL if none. */
DIBS_API const char *dibs_find_data_dir(dibs_arena *a, const char *from);

DIBS_API const struct dibs_settings *dibs_settings(const dibs *d);
DIBS_CHECKED dibs_status dibs_settings_list(dibs *d, dibs_arena *a, struct dibs_setting_list *out,
                                            struct dibs_error *err);

/* The store's clock, which every lease follows: it does not jump when somebody sets the machine's
 * clock. */
DIBS_CHECKED dibs_status dibs_now(dibs *d, int64_t *out_ms, struct dibs_error *err);

/* ---- several operations in one transaction --------------------------------------------------- */

/*
 * Between dibs_batch_begin and dibs_batch_commit the operations of this handle share one
 * transaction and one flush to disk. One that is refused undoes only itself; so does one that fails
 * (no memory, no disk), unless it was already writing: then the batch fails with it, and commit
 * says so. Nothing is on disk, and no answer may be acted on, before dibs_batch_commit returns
 * DIBS_OK. Blocking waits (wait_ms) are not waited for inside a batch. Batches nest, also in the
 * work of dibs_once: commit and cancel end the innermost; an inner one is undone alone, and on disk
 * with the outermost.
 */
DIBS_CHECKED dibs_status dibs_batch_begin(dibs *d, struct dibs_error *err);
DIBS_CHECKED dibs_status dibs_batch_commit(dibs *d, struct dibs_error *err);
DIBS_API void dibs_batch_cancel(dibs *d);

/*
 * dibs_once: `work` at most once under `key`, however often it is asked for.
 *
 * In one transaction: when the key is known with the same `request` text, the stored answer is
 * returned and *repeated is true; with another request DIBS_IDEMPOTENCY_KEY_REUSED. Else `work`
 * runs (it may call any operation of this handle) and the text it leaves in *answer is stored with
 * the key, when work returns DIBS_OK. Keys are kept for a day.
 */
typedef dibs_status dibs_once_work(dibs *d, dibs_arena *a, void *context, const char **answer,
                                   struct dibs_error *err);
struct dibs_once {
    const char *key;
    const char *request; /* what must be the same for a repeat to count as one */
    dibs_once_work *work;
    void *context;
};
DIBS_CHECKED dibs_status dibs_once(dibs *d, dibs_arena *a, const struct dibs_once *in,
                                   const char **answer, bool *repeated, struct dibs_error *err);

/* ---- claims (the results) -------------------------------------------------------------------- */

/* worst first */
enum dibs_health {
    DIBS_HEALTH_EXPIRED,  /* the deadline is past */
    DIBS_HEALTH_STALE,    /* no heartbeat for staleThreshold */
    DIBS_HEALTH_CRITICAL, /* less than expiringThreshold left */
    DIBS_HEALTH_WARNING,  /* less than warningThreshold left */
    DIBS_HEALTH_HEALTHY,
};
DIBS_API const char *dibs_health_name(enum dibs_health h);

/* A lease, live or ended. Of a task it is also the record of one attempt and is kept for good. */
struct dibs_claim {
    int64_t token;    /* larger than that of every claim before it in this store */
    const char *kind; /* task, review, lock, inbox, mentions, notice */
    /* task and review; NULL for other kinds, whose subject is `resource`: the name of a lock, the
     * id of a message, agent and channel, the id of a finished task */
    const char *task_id;
    const char *resource;
    bool shared; /* a shared lock */
    const char *session_id;
    int64_t incarnation;               /* which registration of the session took it */
    const char *agent_type, *agent_id; /* may be NULL */
    int64_t claimed_at_ms, expires_at_ms, heartbeat_at_ms;
    int64_t heartbeat_count;
    int64_t ttl_ms;
    int64_t attempt, generation;
    int64_t remaining_ms; /* 0 when expired or ended */
    enum dibs_health health;
    bool extended;                /* this call found it held by the same session and extended it */
    int64_t progress_percent;     /* -1: never told */
    const char *progress_message; /* NULL: never told */
    const char *checkpoint;       /* JSON; of a fresh claim: what the attempt before left behind */
    const char *metadata;         /* JSON */
    int64_t ended_at_ms;          /* 0 while live */
    /* completed, failed, expired, orphaned, released, cancelled, blocked, session_... */
    const char *end_reason;
    int64_t held_ms;         /* how long it was, or has been, held */
    const char *late_result; /* JSON the holder sent after it had lost the claim */
};
struct dibs_claim_list {
    struct dibs_claim *items;
    size_t count;
};

/* ---- tasks ----------------------------------------------------------------------------------- */

enum dibs_task_status {
    DIBS_TASK_OPEN,
    DIBS_TASK_OFFERED,
    DIBS_TASK_REVIEWING,
    DIBS_TASK_ASSIGNED,
    DIBS_TASK_IN_PROGRESS,
    DIBS_TASK_BLOCKED,
    DIBS_TASK_COMPLETED,
    DIBS_TASK_FAILED,
    DIBS_TASK_CANCELLED,
};
DIBS_API const char *dibs_task_status_name(enum dibs_task_status s);
/* Reads a status word in any case, also "unassigned" and "pending" (open) and "claimed"
 * (in_progress). */
DIBS_API bool dibs_task_status_parse(const char *word, enum dibs_task_status *out);
/* Reads "0".."100" or critical, high, medium, low. */
DIBS_API bool dibs_priority_parse(const char *word, int64_t *out);
DIBS_API const char *dibs_priority_word(int64_t priority); /* the nearest of the four words */

struct dibs_task {
    const char *id, *project, *title;
    const char *description, *type, *phase; /* may be NULL */
    enum dibs_task_status status;
    int64_t priority; /* 0..100, larger is sooner */
    struct dibs_strings tags;
    const char *params, *metadata; /* JSON, may be NULL */
    struct dibs_strings depends_on;
    struct dibs_strings waiting_on; /* those of depends_on that are not completed */
    /* those that failed or were cancelled: they will not finish by themselves */
    struct dibs_strings failed_dependencies;
    const char *assignee, *offered_to, *rejection_reason; /* may be NULL */
    int64_t offered_at_ms;          /* since when it is offered or under review; 0: it is not */
    const char *block_reason;       /* why it was blocked by hand, may be NULL */
    int64_t run_after_ms;           /* 0: at once */
    int64_t attempts, max_attempts; /* counted when claimed; 0 = no limit */
    int64_t generation;             /* 1, and one more after each reopen */
    int64_t version;                /* grows with every change; for dibs_task_update */
    int64_t claim_timeout_ms;       /* lease of a claim that names none; 0: the setting */
    const char *dedupe_key;
    int64_t created_at_ms, updated_at_ms, finished_at_ms;
    int64_t notified_at_ms; /* when a lead was told that it is finished; 0: not */
    const char *result;     /* JSON sent with complete */
    const char *error;      /* message of the last failure, or attempts_exhausted */
    bool deduplicated;      /* dibs_task_create: this one was already there under the dedupe key */
    /* who holds it now (task, or review of an offer); NULL when nobody does */
    const struct dibs_claim *claim;
};
struct dibs_task_list {
    struct dibs_task *items;
    size_t count;
    const char *next_cursor; /* NULL: that was all */
};

struct dibs_task_new {
    const char *id;      /* [A-Za-z0-9._:-]{1,128} and not a route word; NULL: the next number */
    const char *project; /* NULL: "default" */
    const char *title;   /* required */
    const char *description, *type, *phase;
    struct dibs_opt priority, max_attempts;
    struct dibs_strings tags, depends_on;
    const char *params, *metadata; /* JSON */
    const char *assignee;          /* created as assigned to this agent */
    const char *offered_to;        /* created as offered to this agent */
    int64_t run_after_ms, claim_timeout_ms;
    /* while an unfinished task of the project has it, that one is returned instead */
    const char *dedupe_key;
};

/*
 * Creates up to 1,000 tasks, all or none; out->items are in the order of the input. depends_on may
 * name tasks of the same call. Refuses: bad fields (err->field as "tasks[3].title" when count > 1),
 * DIBS_TASK_EXISTS, an unknown dependency (DIBS_TASK_NOT_FOUND), DIBS_DEPENDENCY_CYCLE with the
 * cycle written out.
 */
DIBS_CHECKED dibs_status dibs_task_create(dibs *d, dibs_arena *a, const struct dibs_task_new *in,
                                          size_t count, struct dibs_task_list *out,
                                          struct dibs_error *err);
DIBS_CHECKED dibs_status dibs_task_get(dibs *d, dibs_arena *a, const char *id,
                                       struct dibs_task *out, struct dibs_error *err);

struct dibs_task_filter {
    const char *project, *type, *phase, *tag, *assignee, *session_id; /* NULL: any */
    const enum dibs_task_status *statuses;                            /* any of these */
    size_t status_count;
    const char *cursor; /* next_cursor of the page before */
    int64_t limit;      /* 0: 100; at most 1,000 */
};
/* Tasks in the order of their creation. */
DIBS_CHECKED dibs_status dibs_task_list(dibs *d, dibs_arena *a, const struct dibs_task_filter *in,
                                        struct dibs_task_list *out, struct dibs_error *err);

/* NULL and not-given leave the field as it is; "" clears a text */
struct dibs_task_edit {
    const char *id; /* required */
    /* refuse with DIBS_VERSION_CONFLICT unless the task still has this version */
    struct dibs_opt version;
    const char *title, *description, *type, *phase, *params, *metadata;
    struct dibs_opt priority, max_attempts, run_after_ms, claim_timeout_ms;
    const struct dibs_strings *tags, *depends_on; /* replace the whole list */
};
DIBS_CHECKED dibs_status dibs_task_update(dibs *d, dibs_arena *a, const struct dibs_task_edit *in,
                                          struct dibs_task *out, struct dibs_error *err);

/* ---- the journal ----------------------------------------------------------------------------- */

struct dibs_event {
    int64_t number; /* 1, 2, 3 ... without gaps, in the order of commit */
    int64_t at_ms;
    const char *type;                 /* "task:claimed" */
    const char *project;              /* may be NULL */
    const char *task_id, *session_id; /* may be NULL */
    const char *data;                 /* JSON object: what changed */
};
struct dibs_event_list {
    struct dibs_event *items;
    size_t count;
    /* number of the oldest event still there; a reader that is behind it must start afresh */
    int64_t first_kept;
    int64_t last; /* number of the newest event in the store */
};

struct dibs_event_filter {
    int64_t since; /* events with a larger number; 0 from the oldest kept */
    /* any of these; empty: all. "claim:expired" etc. are read as the task: names */
    struct dibs_strings types;
    const char *project, *task_id;
    bool summary;  /* leave out the per-claim events of a sweep, keep its summary */
    int64_t limit; /* 0: 100; at most 1,000 */
};
DIBS_CHECKED dibs_status dibs_events(dibs *d, dibs_arena *a, const struct dibs_event_filter *in,
                                     struct dibs_event_list *out, struct dibs_error *err);

/*
 * Calls `on_event` for every event from now on, of this and of all other processes, each once and
 * in order. Delivery is on the calling thread: after each writing operation of this handle, and in
 * dibs_dispatch(). `types` empty means all; the names claim:expired, claim:orphaned and
 * claim:released are accepted for task:claim-expired, task:claim-orphaned and task:released, and
 * are then also what the callback sees. The callback may call reading operations; writing ones are
 * answered DIBS_STORE_BUSY. Returns an id for dibs_unsubscribe in *out.
 */
typedef void dibs_on_event(void *context, const struct dibs_event *event);
struct dibs_subscription {
    struct dibs_strings types;
    dibs_on_event *on_event;
    void *context;
};
DIBS_CHECKED dibs_status dibs_subscribe(dibs *d, const struct dibs_subscription *in, int64_t *out,
                                        struct dibs_error *err);
DIBS_API void dibs_unsubscribe(dibs *d, int64_t id);
DIBS_CHECKED dibs_status dibs_dispatch(dibs *d, struct dibs_error *err);

struct dibs_history {
    struct dibs_event *events; /* oldest first */
    size_t event_count;
    struct dibs_claim *attempts; /* oldest first */
    size_t attempt_count;
};
DIBS_CHECKED dibs_status dibs_task_history(dibs *d, dibs_arena *a, const char *task_id,
                                           struct dibs_history *out, struct dibs_error *err);

/* ---- claiming -------------------------------------------------------------------------------- */

struct dibs_claim_take {
    const char *task_id, *session_id; /* required */
    int64_t ttl_ms; /* 0: the task's claim timeout, else defaultTTL; outside min..max is refused */
    const char *agent_type; /* NULL: that of the session */
    const char *metadata;   /* JSON */
};
/*
 * Claims one task. Held by the same session already: the lease is extended, never shortened
 * (out->extended, same token). Refuses: DIBS_TASK_ALREADY_CLAIMED with the holder and the time that
 * remains (written to the journal as an attempt), DIBS_TASK_NOT_CLAIMABLE, DIBS_TASK_NOT_FOUND,
 * DIBS_SESSION_NOT_FOUND, DIBS_INVALID_REQUEST (ttl).
 */
DIBS_CHECKED dibs_status dibs_claim_take(dibs *d, dibs_arena *a, const struct dibs_claim_take *in,
                                         struct dibs_claim *out, struct dibs_error *err);

enum dibs_sort { DIBS_SORT_PRIORITY, DIBS_SORT_CREATED_AT, DIBS_SORT_RANDOM };
enum dibs_order { DIBS_ORDER_STANDARD, DIBS_ORDER_ASC, DIBS_ORDER_DESC };

struct dibs_claim_next {
    const char *session_id;                 /* required */
    const char *project;                    /* NULL: the session's */
    struct dibs_strings types;              /* any of these; empty: all */
    struct dibs_strings tags;               /* all of these */
    struct dibs_opt max_attempts_remaining; /* n: only tasks with attempts < max_attempts - n */
    enum dibs_sort sort;
    enum dibs_order order; /* standard: highest priority first, oldest first; random ignores it */
    int64_t ttl_ms;
    int64_t count;   /* claim up to so many; 0: 1 */
    int64_t wait_ms; /* wait so long for a task to appear; 0: do not wait */
    const char *agent_type, *metadata;
};
struct dibs_granted {
    struct dibs_task task;
    struct dibs_claim claim;
};
struct dibs_grant {
    struct dibs_granted *items; /* at least one */
    size_t count;
};
/* Claims the best claimable task or tasks. DIBS_NOTHING_TO_CLAIM when there is none, which is then
 * a fact. */
DIBS_CHECKED dibs_status dibs_claim_next(dibs *d, dibs_arena *a, const struct dibs_claim_next *in,
                                         struct dibs_grant *out, struct dibs_error *err);

/* Names one claim of one session. token 0: whichever the session holds; given, it must be the
 * current one. */
struct dibs_claim_ref {
    const char *task_id, *session_id; /* required */
    int64_t token;
};
struct dibs_heartbeat {
    const char *task_id, *session_id;
    int64_t token;
    int64_t extend_ms; /* 0: by the claim's own ttl */
};
/* Renews the lease from now on, and the session with it. Refuses as every operation of a holder
 * does: DIBS_STALE_TOKEN, DIBS_NOT_CLAIM_OWNER, DIBS_CLAIM_EXPIRED, DIBS_TASK_NOT_CLAIMED
 * (err->cancel_requested when it was cancelled). */
DIBS_CHECKED dibs_status dibs_claim_heartbeat(dibs *d, dibs_arena *a,
                                              const struct dibs_heartbeat *in,
                                              struct dibs_claim *out, struct dibs_error *err);

struct dibs_progress {
    const char *task_id, *session_id;
    int64_t token;
    struct dibs_opt percent; /* 0..100 */
    const char *message;
    const char *checkpoint; /* JSON, given to the next attempt if this one does not finish */
};
/* Notes progress; counts as a heartbeat. */
DIBS_CHECKED dibs_status dibs_claim_progress(dibs *d, dibs_arena *a, const struct dibs_progress *in,
                                             struct dibs_claim *out, struct dibs_error *err);

/* The holder's report on a task. */
struct dibs_report {
    const char *task_id, *session_id;
    int64_t token;
    const char *result; /* JSON */
    const char *error;  /* dibs_fail: what went wrong */
    bool permanent;     /* dibs_fail: no further attempt */
};
/*
 * Completes the task. A report that comes after the lease ended is accepted when nobody has claimed
 * the task since; otherwise it is refused and its result kept as the late result of its attempt. An
 * identical repeat is DIBS_OK and changes nothing; a different one is DIBS_ALREADY_FINISHED.
 * Dependants whose last dependency this was become claimable.
 */
DIBS_CHECKED dibs_status dibs_complete(dibs *d, dibs_arena *a, const struct dibs_report *in,
                                       struct dibs_task *out, struct dibs_error *err);
/* Fails the attempt: the task is open again after a back-off, or failed when its attempts are used
 * up. */
DIBS_CHECKED dibs_status dibs_fail(dibs *d, dibs_arena *a, const struct dibs_report *in,
                                   struct dibs_task *out, struct dibs_error *err);

struct dibs_release {
    const char *task_id, *session_id;
    int64_t token;
    /* "completed" completes, "failed" fails, anything else (NULL: "manual") gives the task back */
    const char *reason;
};
struct dibs_released {
    const char *task_id, *reason;
    int64_t held_ms;
    struct dibs_task task;
};
/* Gives the task back; the attempt does not count. */
DIBS_CHECKED dibs_status dibs_claim_release(dibs *d, dibs_arena *a, const struct dibs_release *in,
                                            struct dibs_released *out, struct dibs_error *err);

struct dibs_in_flight_filter {
    const char *session_id, *project;
    bool include_expired; /* also claims whose deadline is past and that no sweep has ended yet */
    int64_t limit;        /* 0: 100; at most 1,000 */
};
struct dibs_in_flight {
    struct dibs_granted *items; /* oldest claim first */
    size_t count;
    int64_t total;
};
DIBS_CHECKED dibs_status dibs_in_flight(dibs *d, dibs_arena *a,
                                        const struct dibs_in_flight_filter *in,
                                        struct dibs_in_flight *out, struct dibs_error *err);

struct dibs_tally {
    const char *name;
    int64_t count;
};
struct dibs_tally_list {
    struct dibs_tally *items;
    size_t count;
};
struct dibs_stats {
    int64_t total;    /* claims not ended, whether or not their deadline is past */
    int64_t active;   /* of them, deadline not past */
    int64_t expiring; /* active with less than warningThreshold left */
    int64_t stale;    /* active without a heartbeat for staleThreshold */
    struct dibs_tally_list by_agent_type, by_session; /* of the active ones */
    struct dibs_tally_list tasks_by_status;
    /* since the store was made */
    int64_t claimed_ever, completed_ever, failed_ever, expired_ever, orphaned_ever, released_ever,
        refused_ever, late_results_ever;
    int64_t average_hold_ms;     /* of ended claims */
    int64_t oldest_claimable_ms; /* age of the oldest claimable task, 0 when there is none */
    int64_t at_ms;
};
DIBS_CHECKED dibs_status dibs_stats(dibs *d, dibs_arena *a, struct dibs_stats *out,
                                    struct dibs_error *err);

/* ---- moves by people and planners ------------------------------------------------------------ */

struct dibs_move {
    const char *task_id;    /* required */
    const char *reason;     /* why; shown in history */
    const char *agent_id;   /* offer, accept, reject, assign: the agent */
    const char *session_id; /* block: given, it must be the holder; review: who reviews */
    int64_t ttl_ms;         /* review: how long the lease runs, 0: defaultTTL */
};
/* in_progress ends the claim (its attempt does not count). */
DIBS_CHECKED dibs_status dibs_task_block(dibs *d, dibs_arena *a, const struct dibs_move *in,
                                         struct dibs_task *out, struct dibs_error *err);
/* Takes back a block; the task stays blocked while dependencies are unfinished. */
DIBS_CHECKED dibs_status dibs_task_unblock(dibs *d, dibs_arena *a, const struct dibs_move *in,
                                           struct dibs_task *out, struct dibs_error *err);
/* The holder learns of it in its next heartbeat. */
DIBS_CHECKED dibs_status dibs_task_cancel(dibs *d, dibs_arena *a, const struct dibs_move *in,
                                          struct dibs_task *out, struct dibs_error *err);
/* A finished task starts again as a new generation, with no attempts used. */
DIBS_CHECKED dibs_status dibs_task_reopen(dibs *d, dibs_arena *a, const struct dibs_move *in,
                                          struct dibs_task *out, struct dibs_error *err);
/* Offers, reviews and assignments are in dibs_swarm.h. */

/* ---- sessions -------------------------------------------------------------------------------- */

enum dibs_session_status { DIBS_SESSION_ACTIVE, DIBS_SESSION_STALE, DIBS_SESSION_ENDED };
DIBS_API const char *dibs_session_status_name(enum dibs_session_status s);

struct dibs_session_new {
    const char *id;      /* NULL: the next number */
    const char *project; /* NULL: "default", or what it was */
    const char *agent_type, *agent_id;
    /* process that must live for the session to live; 0: not watched. Its start time is read
     * here */
    int64_t pid;
    const char *host;     /* NULL: this one */
    const char *metadata; /* JSON */
};
struct dibs_session {
    const char *id, *project;
    const char *agent_type, *agent_id, *host, *metadata; /* may be NULL */
    int64_t pid;
    const char *process_start;       /* may be NULL */
    int64_t incarnation;             /* 1, and one more after each registration of the same id */
    enum dibs_session_status status; /* as the last sweep left it */
    enum dibs_health health;         /* as it is now: that of its worst claim, or by its silence */
    int64_t registered_at_ms, heartbeat_at_ms, ended_at_ms;
    const char *end_reason;
    int64_t claims_total, claims_completed; /* "5/12 tasks" */
    int64_t claims_live, locks_live;    /* locks are counted apart from all else that it holds */
    const struct dibs_granted *current; /* newest live claim on a task, with it; NULL */
    /* ended claims, newest first, at most 10; only dibs_session_get fills it */
    struct dibs_claim_list history;
};
struct dibs_session_list {
    struct dibs_session *items;
    size_t count;
    const char *next_cursor;
};
/* Registers a session. The same id again is a new incarnation: claims and locks are kept. */
DIBS_CHECKED dibs_status dibs_session_register(dibs *d, dibs_arena *a,
                                               const struct dibs_session_new *in,
                                               struct dibs_session *out, struct dibs_error *err);

/* what changed for a session since its last heartbeat */
struct dibs_session_news {
    struct dibs_session session;
    /* what it still holds, of every kind, with the new deadlines */
    struct dibs_claim_list renewed;
    /* expired, orphaned, blocked, cancelled, released by others; each told once */
    struct dibs_claim_list lost;
    struct dibs_strings cancel_requested; /* task ids; each told once */
    /* of its agent's, not claimed by anybody; -1: the session belongs to no agent */
    int64_t unread_messages, unread_mentions;
};
/* Renews the session and everything it holds whose deadline is not past. */
DIBS_CHECKED dibs_status dibs_session_heartbeat(dibs *d, dibs_arena *a, const char *session_id,
                                                struct dibs_session_news *out,
                                                struct dibs_error *err);

struct dibs_resumed {
    struct dibs_grant taken; /* count may be 0: tasks it had lost and has again, under new tokens */
    struct dibs_claim_list gone; /* lost for good: somebody else took them or they are finished */
};
/* Claims again, in one step, what the session lost by expiry or as an orphan and nobody has taken
 * since. */
DIBS_CHECKED dibs_status dibs_session_resume(dibs *d, dibs_arena *a, const char *session_id,
                                             struct dibs_resumed *out, struct dibs_error *err);

struct dibs_deregistered {
    const char *session_id;
    int64_t claims_released, locks_released;
};
/* Ends the session; claims and locks are released with the reason session_deregistered. */
DIBS_CHECKED dibs_status dibs_session_deregister(dibs *d, dibs_arena *a, const char *session_id,
                                                 struct dibs_deregistered *out,
                                                 struct dibs_error *err);

DIBS_CHECKED dibs_status dibs_session_get(dibs *d, dibs_arena *a, const char *session_id,
                                          struct dibs_session *out, struct dibs_error *err);
struct dibs_session_filter {
    const char *project;
    bool include_ended;
    const char *cursor;
    int64_t limit; /* 0: 100; at most 1,000 */
};
DIBS_CHECKED dibs_status dibs_session_list(dibs *d, dibs_arena *a,
                                           const struct dibs_session_filter *in,
                                           struct dibs_session_list *out, struct dibs_error *err);

struct dibs_completion {
    const char *task_id, *title, *session_id;
    int64_t finished_at_ms, held_ms;
};
struct dibs_summary {
    int64_t active_sessions, stale_sessions;
    int64_t in_flight;
    int64_t completed_today; /* since midnight UTC, counted from the journal */
    struct dibs_tally_list tasks_by_status;
    struct dibs_session_list sessions; /* those that have not ended */
    struct dibs_completion *recent;    /* newest first, at most 10 */
    size_t recent_count;
    int64_t at_ms;
};
DIBS_CHECKED dibs_status dibs_session_summary(dibs *d, dibs_arena *a, const char *project,
                                              struct dibs_summary *out, struct dibs_error *err);

/* ---- cleanup --------------------------------------------------------------------------------- */

/*
 * Each of these is one transaction, or several short ones when there is much to do, and stops at
 * the first store error without touching anything more. With d == NULL (a store that was closed)
 * they answer DIBS_OK and a count of 0.
 */
struct dibs_cleaned_claim {
    const char *kind, *task_id, *resource; /* as in struct dibs_claim */
    const char *session_id;
    int64_t token, claimed_at_ms, expires_at_ms;
    const char *reason;   /* orphaned: session_missing, session_stale, process_dead */
    int64_t stale_for_ms; /* orphaned: how long the session has been silent */
    int64_t held_ms;
};
struct dibs_cleaned {
    int64_t count;
    int64_t locks; /* dibs_cleanup_orphaned: locks of such sessions, freed too; not in `claims` */
    struct dibs_cleaned_claim *claims;
    const char *session_id, *reason; /* dibs_release_session_claims */
};
/* Ends claims whose deadline is past: event task:claim-expired each, and claims:cleanup (type
 * expired) with the count. */
DIBS_CHECKED dibs_status dibs_cleanup_expired(dibs *d, dibs_arena *a, struct dibs_cleaned *out,
                                              struct dibs_error *err);

struct dibs_orphan_options {
    /* also free claims of dead processes at once, and keep those of processes that provably live */
    bool check_process;
};
/* Ends claims of sessions that are missing, silent beyond orphanThreshold or (checked) dead:
 * task:claim-orphaned each. */
DIBS_CHECKED dibs_status dibs_cleanup_orphaned(dibs *d, dibs_arena *a,
                                               const struct dibs_orphan_options *in,
                                               struct dibs_cleaned *out, struct dibs_error *err);
/* Releases what a session holds, but for locks, without ending it. reason NULL: "session_ended".
 * Event claims:session_cleanup. */
DIBS_CHECKED dibs_status dibs_release_session_claims(dibs *d, dibs_arena *a, const char *session_id,
                                                     const char *reason, struct dibs_cleaned *out,
                                                     struct dibs_error *err);
DIBS_CHECKED dibs_status dibs_cleanup_locks(dibs *d, dibs_arena *a, struct dibs_cleaned *out,
                                            struct dibs_error *err);

struct dibs_stale_sessions {
    int64_t stale; /* silent beyond staleThreshold: marked, nothing taken away */
    /* silent beyond orphanThreshold: claims orphaned, locks released, session ended */
    int64_t ended;
};
DIBS_CHECKED dibs_status dibs_cleanup_sessions(dibs *d, dibs_arena *a,
                                               struct dibs_stale_sessions *out,
                                               struct dibs_error *err);
/* Removes events older than eventRetention, and idempotency keys older than a day. */
DIBS_CHECKED dibs_status dibs_prune(dibs *d, dibs_arena *a, int64_t *out_events,
                                    struct dibs_error *err);

struct dibs_sweep {
    int64_t expired, orphaned, locks, sessions_stale, sessions_ended, events_pruned, expiring;
};
/* All of the above, in the order: locks, expired, orphaned (with process check), sessions, expiring
 * warnings, prune. */
DIBS_CHECKED dibs_status dibs_cleanup(dibs *d, dibs_arena *a, struct dibs_sweep *out,
                                      struct dibs_error *err);
/* dibs_cleanup if cleanupInterval has passed since any process last did it; *ran tells. Writing
 * operations call it by themselves while autoCleanup is on. */
DIBS_CHECKED dibs_status dibs_maintain(dibs *d, bool *ran, struct dibs_error *err);

/* ---- locks ----------------------------------------------------------------------------------- */

struct dibs_lock_take {
    const char *resource, *session_id; /* required */
    bool shared;
    int64_t ttl_ms;  /* 0: lockTTL; from 1 s to maxTTL */
    int64_t wait_ms; /* wait so long, in the order of arrival */
};
/* Takes a named lock. Held already by the session in the same mode: extended. DIBS_LOCK_HELD names
 * a holder. */
DIBS_CHECKED dibs_status dibs_lock_take(dibs *d, dibs_arena *a, const struct dibs_lock_take *in,
                                        struct dibs_claim *out, struct dibs_error *err);
struct dibs_lock_ref {
    const char *resource, *session_id; /* required */
    int64_t token;
    int64_t extend_ms; /* heartbeat: 0: by its own ttl */
};
DIBS_CHECKED dibs_status dibs_lock_heartbeat(dibs *d, dibs_arena *a, const struct dibs_lock_ref *in,
                                             struct dibs_claim *out, struct dibs_error *err);
DIBS_CHECKED dibs_status dibs_lock_release(dibs *d, dibs_arena *a, const struct dibs_lock_ref *in,
                                           struct dibs_claim *out, struct dibs_error *err);
struct dibs_lock_filter {
    const char *resource, *session_id;
};
DIBS_CHECKED dibs_status dibs_lock_list(dibs *d, dibs_arena *a, const struct dibs_lock_filter *in,
                                        struct dibs_claim_list *out, struct dibs_error *err);

/* ---- scores ---------------------------------------------------------------------------------- */

struct dibs_score {
    const char *agent; /* agent id, or the session id of a session without one */
    int64_t claimed, completed, failed, expired, orphaned, released, refused, late_results;
    int64_t average_ms; /* of completed claims */
    int64_t last_active_ms;
};
struct dibs_score_list {
    struct dibs_score *items; /* most completed first */
    size_t count;
};
/* What the journal says of each agent, also of events that have been pruned since. */
DIBS_CHECKED dibs_status dibs_scores(dibs *d, dibs_arena *a, struct dibs_score_list *out,
                                     struct dibs_error *err);

/* ---- care of the store ----------------------------------------------------------------------- */

/* Copies the store, consistent and whole, to the new file `path` while others go on working. A
 * store started from the copy issues larger tokens than the original ever will. Refuses to
 * overwrite. */
DIBS_CHECKED dibs_status dibs_backup(dibs *d, const char *path, struct dibs_error *err);

enum dibs_finding_level { DIBS_FINE, DIBS_WARN, DIBS_BAD };
struct dibs_finding {
    enum dibs_finding_level level;
    /* "store", "schema", "sqlite", "clock", "disk", "permissions", "journal", ... */
    const char *subject;
    const char *text; /* what is the case, and what to do about it */
};
struct dibs_diagnosis {
    struct dibs_finding *items;
    size_t count;
};
/* Looks the store over; `deep` also reads every page and compares the whole journal with the
 * tables. */
DIBS_CHECKED dibs_status dibs_diagnose(dibs *d, dibs_arena *a, bool deep,
                                       struct dibs_diagnosis *out, struct dibs_error *err);

DIBS_API const char *dibs_version(void);

#ifdef __cplusplus
}
#endif

#include "dibs_swarm.h"

#endif
