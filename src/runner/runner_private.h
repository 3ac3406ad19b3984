/* SPDX-License-Identifier: MIT */
/*
 * runner_private.h: what the files of this room share.
 *
 *   struct runner   the loop and all that is decided: one thread, no locks
 *   struct line     a thread that puts requests, one after another, and returns them to the loop;
 *                   there are two: `ask` waits for work, `tell` heartbeats and reports
 *   struct call     a request on its way there and back
 *   struct job      one piece of work, from its claim to its report
 */
#ifndef DIBS_RUNNER_PRIVATE_H
#define DIBS_RUNNER_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "need.h"
#include "runner.h"

#define RESULT_OUTPUT_BYTES 8192
#define PAUSE_FIRST_MS 200
#define PAUSE_LAST_MS 5000

struct runner;
struct job;

/* ---- line.c ---------------------------------------------------------------------------------- */

struct call {
    struct call *next;
    const char *method;
    char *path, *query;                             /* owned; query may be NULL */
    json_t *body;                                   /* owned; may be NULL */
    char *key;                                      /* idempotency key, owned; may be NULL */
    bool urgent;                                    /* to the front of the queue */
    struct job *job;                                /* whom it is about; NULL: none */
    char *(*then)(const struct call *c);            /* what to GET right behind it; NULL: nothing */
    void (*done)(struct runner *r, struct call *c); /* in the loop, when it is back */

    dibs_status status;                /* DIBS_OK: there is an answer */
    struct client_answer answer, more; /* more: what `then` got, empty if it was not answered */
    struct dibs_error err;
    int64_t sent_ms, back_ms;
};
struct call *call_new(const char *method, char *path, json_t *body,
                      void (*done)(struct runner *r, struct call *c));
void call_free(struct call *c);
/* It could not be asked, or the store failed: the same request may succeed later. */
bool call_failed(const struct call *c);
/* What the answer refuses with, in words; of a call that failed, why. */
const char *call_message(const struct call *c);

struct line {
    struct runner *runner;
    struct client_options options;
    struct client *client;  /* the thread's own once it runs */
    atomic_bool given_up;   /* a request under way ends soon */
    atomic_bool in_process; /* the last request went straight to the data file */
    int64_t looked_ms;      /* when a daemon was last looked for */
    pthread_t thread;
    bool running;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    struct call *first; /* guarded by the mutex, as is `closing` */
    bool closing;
};
/* Opens the client; the thread begins with line_start(). */
dibs_status line_open(struct line *l, struct runner *r, const struct client_options *options,
                      struct dibs_error *err) MUST_USE;
dibs_status line_start(struct line *l, struct dibs_error *err) MUST_USE;
void line_post(struct line *l, struct call *c); /* takes the call over */
void line_close(struct line *l); /* ends the thread after the request under way; safe on zeroes */

/* Calls that are back, between the threads and the loop. */
struct returns {
    pthread_mutex_t mutex;
    struct call *first, *last;
    uv_async_t async;
};

/* ---- capture.c ------------------------------------------------------------------------------- */

/* The last bytes of a stream. */
struct tail {
    char *data;
    size_t max, count, at; /* at: where the next byte goes */
};
void tail_init(struct tail *t, size_t max);
void tail_release(struct tail *t);
void tail_add(struct tail *t, const char *bytes, size_t count);
/* Appends them in order. */
void tail_copy(const struct tail *t, struct buf *to);

/* What a command prints: into a log of limited size, and the end of it in memory. */
struct capture {
    int log_fd; /* -1: none */
    char *log_path;
    bool log_broken;
    int64_t log_bytes, left_out;
    struct tail log_end, out_end, err_end;
    struct buf whole; /* all of stdout while it may be one JSON object */
    bool whole_open;
};
/* Makes the log; *c can be used even if that fails, which *why then says. */
bool capture_open(struct capture *c, const char *dir, const char *name, struct dibs_error *why);
void capture_release(struct capture *c);
void capture_out(struct capture *c, const char *bytes, size_t count);
void capture_err(struct capture *c, const char *bytes, size_t count);
void capture_end(struct capture *c); /* the log is complete */
/* The object that was printed, or {"exitCode", "output"}. */
json_t *capture_result(struct capture *c, int exit_code, const char *signal_name);
/* The last line of stderr that is not blank, valid UTF-8, at most `max` bytes with the NUL; "". */
void capture_last_error(const struct capture *c, char *out, size_t max);

/* ---- progress.c ------------------------------------------------------------------------------ */

struct progress {
    struct buf line;
    bool overlong;   /* the rest of the line is dropped */
    int64_t percent; /* -1: not told */
    char *message;   /* NULL: not told */
    json_t *checkpoint;
    bool oversize; /* a checkpoint was too large, and left out */
    bool fresh;    /* there is something that was not sent yet */
};
void progress_init(struct progress *p);
void progress_release(struct progress *p);
void progress_feed(struct progress *p, const char *bytes, size_t count);
/* Forgets what the store does not want; false when there is none. */
bool progress_drop_checkpoint(struct progress *p);
void progress_end(struct progress *p); /* a last line without a line end counts too */
/* Puts what is known into the body of a report. */
void progress_body(const struct progress *p, json_t *body);

/* ---- spawn.c, keeper.c ----------------------------------------------------------------------- */

enum { STREAM_OUT, STREAM_ERR, STREAM_PROGRESS, STREAMS };

struct spawn {
    char **argv, **envp;
    const char *input; /* what stdin holds */
    size_t input_bytes;
    int keeper_fd;
    pid_t pid;            /* out: also its process group and session */
    int streams[STREAMS]; /* out: our ends */
};
/* 0, or errno: what is returned then is -1 and nothing was started. */
int spawn(struct spawn *s) MUST_USE;
/* None ignored, none handled, none blocked, none pending of those that we have caused. */
void spawn_default_signals(void);
/* The same descriptor with a number of 10 or above, so that none stands in the way of 0 to 3. */
int spawn_move_up(int fd);

/* A process that outlives us and ends what we leave behind. */
struct keeper {
    pid_t pid;
    int fd;
};
bool keeper_start(struct keeper *k) MUST_USE;
void keeper_forget(const struct keeper *k, pid_t group); /* it is gone, or left to itself */
void keeper_end(struct keeper *k);
bool keeper_add(int fd, pid_t group); /* async-signal-safe: the child's first act */

/* ---- surroundings.c -------------------------------------------------------------------------- */

/* The environment of a job's command, NULL-terminated, to be freed with environment_free. */
char **environment_of(const struct runner *r, const struct job *job);
void environment_free(char **envp);

/* ---- prompt.c -------------------------------------------------------------------------------- */

/* The template with the job's values in it; to be freed. NULL: it would be too long. */
char *prompt_fill(const struct runner *r, const struct job *job);

/* ---- job.c ----------------------------------------------------------------------------------- */

enum job_kind { KIND_TASK, KIND_OFFER, KIND_INBOX, KIND_MENTIONS, KIND_FINISHED };
enum job_state {
    JOB_FETCHING,  /* claimed; what the task says is being asked for */
    JOB_RUNNING,   /* its command lives */
    JOB_LEAVING,   /* the command has ended, what it left behind has not */
    JOB_REPORTING, /* its outcome is on its way */
    JOB_OVER,      /* nothing more is to be done; its handles are being closed */
};
enum job_stop { STOP_NONE, STOP_LOST, STOP_TIME, STOP_LEAVING };

/* of a report */
struct step {
    const char *method;
    char *path;
    json_t *body;
    bool optional; /* its refusal is not worth a word */
    int changes;   /* how often it was sent in another form, because it was refused */
};

struct job {
    struct job *next;
    struct runner *runner;
    enum job_kind kind;
    enum job_state state;
    json_t *json;       /* what the command is given */
    const json_t *task; /* inside json; NULL: it has none */
    char *trigger;      /* type of the trigger */
    char *task_id;      /* NULL: it has none */
    json_t *tokens;     /* of all its claims */
    int64_t number;     /* counted by the runner */
    int64_t token, attempt, ttl_ms;

    pid_t pid; /* and group; 0: not started or gone */
    bool group_gone;
    int wait_status;
    int open_streams, open_handles, calls; /* calls: on their way, about this job */
    uv_pipe_t pipes[STREAMS];
    struct capture capture;
    struct progress progress;

    enum job_stop stop;
    char stop_reason[200];
    bool killed;        /* SIGKILL was sent */
    bool late;          /* the lease is over: it takes up no slot */
    bool asked_why;     /* whether the claim ended by its own report is being asked */
    bool settled;       /* the command has reported by itself */
    bool progress_sent; /* a report of progress is on its way */
    int64_t started_ms, ended_ms;
    int64_t granted_ms, renewed_ms; /* claim was answered; its last renewal was asked for */
    int64_t limit_at_ms, kill_at_ms, close_at_ms, progress_at_ms, retry_at_ms; /* 0: never */
    int64_t pause_ms;

    struct step *steps;
    size_t step_count, step_at;
    bool step_sent;
    const char *outcome; /* completed, failed, released, accepted ... */
    char reason[1024];
    dibs_status refused; /* its report was, and why */
    char refusal[512];
    bool step_failed; /* it was reported as a failure instead */
    bool stray;       /* there never was a command for it: nothing about it is news */
};

struct job *job_new(struct runner *r, enum job_kind kind, const char *trigger);
void job_start(struct job *j);
void job_fetch(struct job *j); /* asks for the task, then starts */
/* Notes what the task says; false when it is not one that we hold. */
bool job_learn(struct job *j, json_t *task);
void job_reaped(struct job *j, int wait_status);
void job_stop(struct job *j, enum job_stop why, const char *reason);
void job_on_time(struct job *j, int64_t now_ms);
int64_t job_due_ms(const struct job *j); /* INT64_MAX: nothing is due */
void job_check_group(struct job *j);     /* somebody died; perhaps the last of the group */
bool job_lease_over(const struct job *j, int64_t now_ms);
void job_free(struct job *j);
const char *job_name(const struct job *j);
/* What an attempt before this one has left behind; NULL: nothing. */
const json_t *job_checkpoint(const struct job *j);
/* Its streams have been read to the end, or are not waited for any more. */
void job_close_streams(struct job *j);

/* ---- report.c -------------------------------------------------------------------------------- */

void report_begin(struct job *j); /* decides the outcome and sends it */
void report_next(struct job *j);  /* sends the step that is due, again if need be */
void report_progress(struct job *j);
/* Gives back what was claimed, without a word about how it went. */
void report_give_back(struct job *j, const char *reason);
/* The same for what no job was about: a refusal is no news. */
void report_let_go(struct job *j, const char *reason);
void report_unlock(struct job *j, const char *resource);

/* ---- take.c ---------------------------------------------------------------------------------- */

void take_ask(struct runner *r);

/* ---- session.c, beat.c ----------------------------------------------------------------------- */

dibs_status session_open(struct runner *r, struct dibs_error *err) MUST_USE;
void session_register(struct runner *r); /* again, as the store does not know it */

int64_t beat_every_ms(const struct runner *r);
void beat_on_time(struct runner *r, int64_t now_ms);
int64_t beat_due_ms(const struct runner *r);
/* The claim with this token in a list of claims; NULL: it is not there. */
const json_t *claim_in(const json_t *list, int64_t token);

/* ---- runner.c -------------------------------------------------------------------------------- */

struct runner {
    const struct runner_options *in;
    uv_loop_t loop;
    uv_timer_t timer;
    uv_signal_t signals[4];
    bool loop_open;
    struct returns returns;
    struct line ask, tell;
    struct keeper keeper;

    char session[ID_BYTES_MAX + 1];
    bool known;   /* the session is registered */
    bool beating; /* a request about it is on its way */
    int64_t beat_at_ms;
    char agent_id[ID_BYTES_MAX + 1]; /* "": no agent */
    char *data_dir, *log_dir;

    struct job *jobs;
    int64_t jobs_made;
    json_t *strays;    /* what we hold and no job is about: {"token": seen since} */
    bool asking;       /* a request for work is on its way */
    int64_t asked_ms;  /* since when */
    bool unsure;       /* the fate of one is unknown: look what we hold before the next one */
    int64_t ask_at_ms; /* not before */
    int64_t idle_ms;   /* pause after work that was given back; grows */
    int64_t pause_ms;  /* between attempts while the daemon is away */
    bool away;         /* the last request failed */
    int signal_count, last_signal;
    bool draining, leaving, ending;
    int64_t leave_at_ms;
    size_t failures;
    dibs_status broken; /* why it cannot go on; DIBS_OK: it can */
    char broken_text[512];
    int broken_exit; /* exit code instead of that of `broken`; 0: none */
};

int64_t now_ms(void); /* steady */
void runner_tell(struct runner *r, struct call *c);
/* Notes whether dibs could be reached, and tells when that changes. */
void runner_heard(struct runner *r, const struct call *c);
size_t runner_slots_used(const struct runner *r);
void runner_drain(struct runner *r);
void runner_break(struct runner *r, dibs_status status, const char *text);
/* News: event, about a job or not, more members (taken over, may be NULL), and the line. */
void runner_news(struct runner *r, const char *event, const struct job *j, json_t *more,
                 bool trouble, const char *format, ...) PRINTF_LIKE(6, 7);
const char *json_text(const json_t *object, const char *key); /* NULL when it is no text */
int64_t json_int(const json_t *object, const char *key);

#endif
