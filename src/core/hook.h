/* SPDX-License-Identifier: MIT */
/*
 * hook.h: what a daemon needs to take in what other services deliver, and to send answers there:
 * the settings with their secrets, deliveries that count once, answers on their way.
 *
 * Not part of dibs.h: whoever works on the data file needs none of it.
 */
#ifndef DIBS_HOOK_H
#define DIBS_HOOK_H

#include "base/base.h"
#include "dibs_swarm.h"

/* ---- settings (hook_settings.c) -------------------------------------------------------------- */

#define HOOK_TEXT_BYTES 1024 /* with the NUL */

/* Each is "" when it is not set. From the environment, then from the file `config`; never from a
 * command line, which others can see. */
struct dibs_hook_settings {
    char slack_signing_secret[HOOK_TEXT_BYTES];
    char slack_bot_token[HOOK_TEXT_BYTES];
    char slack_url[HOOK_TEXT_BYTES]; /* without a slash at its end; has a default */
    char github_secret[HOOK_TEXT_BYTES];
    char agent[HOOK_TEXT_BYTES];        /* whose inbox; "": for the leads */
    char project[HOOK_TEXT_BYTES];      /* "": "default" */
    char github_tasks[HOOK_TEXT_BYTES]; /* "issues.opened,pull_request": become tasks */
};
dibs_status dibs__hook_settings(const char *data_dir, struct dibs_hook_settings *out,
                                struct dibs_error *err) MUST_USE;
/* Whether a line of the config file with this name is for dibs__hook_settings. */
bool dibs__is_hook_setting(const char *name);
/* Whether the list of github_tasks names this event: "issues.opened", or "issues" for all of its
 * actions. */
bool dibs__hook_rule_names(const char *list, const char *event, const char *action);

/* A line of `dibs config`. */
struct dibs_hook_setting {
    const char *name, *environment, *summary;
    const char *value;  /* of a secret: "set" or "not set" */
    const char *origin; /* "default", "config file", "environment" */
    bool is_secret;
};
#define HOOK_SETTINGS 7
dibs_status dibs__hook_settings_list(const char *data_dir, dibs_arena *a,
                                     struct dibs_hook_setting out[HOOK_SETTINGS],
                                     struct dibs_error *err) MUST_USE;

/* ---- what is delivered (delivery.c) ---------------------------------------------------------- */

struct dibs_delivery {
    const char *source;  /* required: slack, github */
    const char *id;      /* required: that of the delivery, which a repeat has again */
    const char *subject; /* what it is about, when several deliveries may be; NULL: not known */
    const struct dibs_message_new *message; /* one of these two */
    const struct dibs_task_new *task;
};
struct dibs_delivered {
    bool repeated;                    /* it came before: nothing was done */
    const char *message_id, *task_id; /* one of these two, unless it was repeated */
    bool agent_unknown;               /* the leads got the message instead */
};
/* Takes it in, once: the delivery is noted in the transaction that adds the message or task. */
dibs_status dibs__deliver_once(dibs *d, dibs_arena *a, const struct dibs_delivery *in,
                               struct dibs_delivered *out, struct dibs_error *err) MUST_USE;

/* ---- answers on their way (outgoing.c) ------------------------------------------------------- */

struct dibs_outgoing {
    int64_t key;
    const char *target;     /* slack */
    const char *body;       /* JSON, the same each time it is sent */
    const char *message_id; /* that it answers */
    int64_t attempts;       /* before this one */
    int64_t age_ms;
};
struct dibs_outgoing_list {
    struct dibs_outgoing *items; /* due, the one that is due longest first */
    size_t count;
    int64_t waiting; /* in all */
    int64_t next_ms; /* from now: when the next is due; -1: none waits */
};
dibs_status dibs__outgoing_due(dibs *d, dibs_arena *a, int64_t most, struct dibs_outgoing_list *out,
                               struct dibs_error *err) MUST_USE;

enum dibs_outgoing_end { DIBS_OUTGOING_SENT, DIBS_OUTGOING_FAILED, DIBS_OUTGOING_AGAIN };
struct dibs_outgoing_report {
    int64_t key;
    enum dibs_outgoing_end end;
    const char *error; /* of FAILED and AGAIN */
    int64_t again_ms;  /* from now: when to try again */
};
/* What became of an attempt. Events inbox:reply-sent, inbox:reply-failed. Nothing when it does not
 * wait any more. */
dibs_status dibs__outgoing_report(dibs *d, dibs_arena *a, const struct dibs_outgoing_report *in,
                                  struct dibs_error *err) MUST_USE;
dibs_status dibs__outgoing_waiting(dibs *d, dibs_arena *a, int64_t *out, struct dibs_error *err)
    MUST_USE;

/* ---- of the room's own ----------------------------------------------------------------------- */

struct tx;
/* Forgets deliveries and answers that are long over (dibs_prune). */
void dibs__hooks_prune(struct tx *tx);

#endif
