/* SPDX-License-Identifier: MIT */
/*
 * sender.h: sends answers to where the messages came from. Loop thread only, but for its own.
 *
 * What waits stands in the store, with the time of its next attempt, so nothing is lost by a crash
 * or a restart. The loop asks a reader for what is due, hands it to the sender's thread, which
 * speaks HTTP and never touches the store, and gives the outcome to the writer.
 */
#ifndef DIBS_SENDER_H
#define DIBS_SENDER_H

#include <uv.h>

#include "core/hook.h"
#include "readers.h"
#include "writer.h"

struct sender;

struct sender_options {
    uv_loop_t *loop;
    struct readers *readers;
    struct writer *writer;
    int64_t *jobs_out;                         /* counts what is under way */
    const struct dibs_hook_settings *settings; /* read whenever something is sent */
};
struct sender *sender_new(const struct sender_options *in); /* NULL when out of memory */
/* Something may be due: at start, when a message was answered, when the settings have changed. Many
 * calls in a row cost one look. */
void sender_look(struct sender *s);
/* Begins nothing more; what is being sent may take SENDER_DRAIN_MS to end. */
void sender_drain(struct sender *s);
void sender_stop(struct sender *s); /* ends the thread, closes all handles */
void sender_free(struct sender *s); /* after the loop has run out; NULL is fine */

struct sender_stats {
    int64_t sent, failed, retried;
};
struct sender_stats sender_stats(const struct sender *s); /* NULL: all zero */

#define SENDER_DRAIN_MS 1000

/* ---- what to make of an answer of Slack's (sender_judge.c), a pure function ------------------ */

#define SENDER_FIRST_MS 1000
#define SENDER_LAST_MS (10 * 60 * 1000)
#define SENDER_GIVE_UP_MS (24LL * 60 * 60 * 1000)

struct sender_reply {
    int http;              /* 0: there was none, `error` says why */
    int64_t retry_after_s; /* 0: not said */
    const char *body;
    size_t body_bytes;
    const char *error;
};
struct sender_verdict {
    enum dibs_outgoing_end end;
    int64_t again_ms;
    int64_t pause_ms; /* nothing at all is to be sent for so long */
    char error[200];
};
/* attempts: before this one. chance: any number, for the jitter. */
void sender_judge(const struct sender_reply *reply, int64_t attempts, int64_t age_ms,
                  uint32_t chance, struct sender_verdict *out);

/* ---- one exchange (sender_http.c), on the sender's thread ------------------------------------ */

struct sender_http;
struct sender_http *sender_http_new(struct dibs_error *err); /* loads libcurl; NULL: err says why */
void sender_http_free(struct sender_http *h);                /* NULL is fine */
struct sender_post {
    const char *url, *token, *body;
    /* asked again and again, and after sender_http_wake: true ends the exchange */
    bool (*is_over)(void *context);
    void *context;
};
/* Posts and waits for the answer, whose body lives until the next post. False: it was ended. */
bool sender_http_post(struct sender_http *h, const struct sender_post *in, struct sender_reply *out)
    MUST_USE;
void sender_http_wake(struct sender_http *h); /* any thread */

#endif
