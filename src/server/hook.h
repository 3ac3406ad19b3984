/* SPDX-License-Identifier: MIT */
/*
 * hook.h: webhooks: what Slack and GitHub deliver becomes messages of the inbox, or tasks.
 *
 *     POST /hooks/slack, /hooks/github -> hook.c: is it on? -> signature over the raw body
 *         -> hook_slack.c, hook_github.c: what does it say? -> job: taken in once -> 200
 *
 * The signature is the proof of who sends: no API key, no rule about Host or Origin. What checks
 * and what reads are pure functions.
 */
#ifndef DIBS_SERVER_HOOK_H
#define DIBS_SERVER_HOOK_H

#include "base/arena.h"
#include "base/base.h"
#include "core/hook.h"

/* ---- signatures (hook_sign.c) ---------------------------------------------------------------- */

#define HOOK_HEX_BYTES 65 /* of SHA-256, with the NUL */
#define HOOK_WINDOW_S 300 /* Slack: a request that is older, or from the future, is refused */

/* HMAC-SHA256 of two texts, one behind the other, as lower-case hex; false when out of memory. */
bool hook_hmac(const char *secret, const char *head, size_t head_bytes, const char *body,
               size_t body_bytes, char out[HOOK_HEX_BYTES]) MUST_USE;

struct hook_body {
    const char *bytes; /* exactly as it came */
    size_t count;
};
/* DIBS_OK, DIBS_UNAUTHORIZED with a sentence, or DIBS_OUT_OF_MEMORY. Headers that were not sent are
 * NULL. One spelling of a signature is right, that with small letters. */
dibs_status hook_slack_verify(const char *secret, const char *timestamp, const char *signature,
                              struct hook_body body, int64_t now_s, struct dibs_error *err)
    MUST_USE;
dibs_status hook_github_verify(const char *secret, const char *signature, struct hook_body body,
                               struct dibs_error *err) MUST_USE;

/* ---- what a delivery says -------------------------------------------------------------------- */

enum hook_kind { HOOK_IGNORED, HOOK_CHALLENGE, HOOK_MESSAGE, HOOK_TASK };

struct hook_event {
    enum hook_kind kind;
    const char *why;       /* it is ignored: a literal */
    const char *challenge; /* to be sent back */
    const char *id;        /* of the delivery */
    const char *subject;   /* struct dibs_delivery; may be NULL */
    struct dibs_message_new message;
    struct dibs_task_new task;
};
/* Texts of *out live in the arena, or in the settings. DIBS_INVALID_REQUEST when it is not what
 * the service sends. */
dibs_status hook_slack_read(dibs_arena *a, const struct dibs_hook_settings *set,
                            struct hook_body body, struct hook_event *out, struct dibs_error *err)
    MUST_USE;
/* event and delivery: headers X-GitHub-Event and X-GitHub-Delivery. */
dibs_status hook_github_read(dibs_arena *a, const struct dibs_hook_settings *set, const char *event,
                             const char *delivery, struct hook_body body, struct hook_event *out,
                             struct dibs_error *err) MUST_USE;

/* ---- answering (hook.c) ---------------------------------------------------------------------- */

struct conn;
struct server;
struct asked;
bool hook_is(const char *path);
void hook_answer(struct server *s, struct conn *c, const struct asked *asked);

#endif
