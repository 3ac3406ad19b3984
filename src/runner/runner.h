/* SPDX-License-Identifier: MIT */
/*
 * runner.h: takes work from dibs and runs a command for each piece of it.
 *
 * The room `runner` owns what lies between a claim and a report: the command's process, its
 * streams, its time limit, the heartbeats while it lives. It decides nothing about tasks: whether a
 * claim still stands is said by the answers. It prints nothing: what happens is told to whoever
 * started it. Start reading at runner.c (the loop), then job.c (one command from claim to report),
 * line.c (requests beside the loop).
 */
#ifndef DIBS_RUNNER_H
#define DIBS_RUNNER_H

#include "base/base.h"
#include "client/client.h"

#define RUNNER_MAX_TASKS 1000 /* commands at once: three pipes each, below the usual 4,096 files */
#define RUNNER_GRACE_MS 10000
#define RUNNER_GIVE_BACK 75 /* EX_TEMPFAIL: the exit code that gives a task back */

struct runner_options {
    struct client_options client; /* how dibs is reached */
    char **program;               /* NULL-terminated; with `shell` one line for /bin/sh -c */
    bool shell;
    const char *agent;   /* poll as this agent; NULL: claim tasks only */
    bool agent_from_env; /* it was not said but found; told, so that nobody wonders */
    const char *session; /* NULL: one of this process */
    const char *project; /* NULL: not said */
    struct dibs_strings types;
    int64_t max;                             /* commands at once */
    bool max_given;                          /* it is to be the agent's capacity too */
    int64_t ttl_ms, time_limit_ms, grace_ms; /* 0: the store's, none, at once */
    const char *prompt;                      /* text of a template; NULL: none */
    const char *log_dir;                     /* NULL: beside the data */
    bool once, drain_when_empty;
    /* What happens, as JSON and as a line; only ever called by the thread that called runner_run().
     * `trouble`: something went wrong, it is not just how things go. */
    void (*news)(void *context, const json_t *news, const char *line, bool trouble);
    void *context;
};
/*
 * Runs until it is told to end: SIGTERM, SIGINT and SIGHUP let the commands end, a second one stops
 * them. *exit_code is 0, or 1 if something that --once or --drain-when-empty ran has failed, or 128
 * + the second signal. Refusals: what cannot be reached, registered or run at all.
 */
dibs_status runner_run(const struct runner_options *in, int *exit_code, struct dibs_error *err)
    MUST_USE;

/* Whether a template can be filled in: DIBS_INVALID_REQUEST names the placeholder nobody knows. */
dibs_status prompt_check(const char *text, struct dibs_error *err) MUST_USE;

#endif
