/* SPDX-License-Identifier: MIT */
/*
 * server_private.h: the daemon from inside: its parts, and one request on its way.
 */
#ifndef DIBS_SERVER_PRIVATE_H
#define DIBS_SERVER_PRIVATE_H

#include <uv.h>

#include "api/api.h"
#include "auth.h"
#include "conn.h"
#include "core/hook.h"
#include "journal.h"
#include "listen.h"
#include "metrics.h"
#include "readers.h"
#include "sender.h"
#include "server.h"
#include "sse.h"
#include "watch.h"
#include "writer.h"

struct server {
    struct server_options o;
    uv_loop_t loop;
    uv_signal_t on_term, on_int, on_hup;
    uv_timer_t timer;
    uv_prepare_t before_sleep;
    uv_async_t failure; /* the writer says that the store is broken */
    struct mail mail;
    struct outbox *outbox;
    struct writer *writer;
    struct readers *readers;
    struct journal *_Atomic journal;
    struct sse *sse;
    struct auth *auth;
    struct metrics *metrics;
    struct watch *watch;
    struct sender *sender;
    struct dibs_hook_settings hooks;
    int64_t hook_said_ms; /* when a delivery that was refused was last worth a warning */
    struct listeners *listeners;
    struct conns *conns;
    struct {
        bool looking, again;
        struct jobs then; /* answered when the keys are up to date */
    } keys;
    dibs_arena *arena; /* of what the loop thread answers itself */
    struct buf openapi;
    int64_t connections_max;
    int64_t started_ms;
    int64_t jobs_out; /* given to the database threads and not back yet */
    int lock_fd;      /* one daemon per data folder */
    bool has_keys, stopping, stopped;
    int64_t stop_by_ms;
    struct dibs_error why; /* an end that is not orderly */
    char data_dir[4096];   /* absolute */
};

/* A request that is being answered: the connection's data. */
struct asked {
    const struct api_operation *op; /* NULL: a page, or nothing we know */
    const struct http_request *r;
    int64_t begun_us;
    char key_id[64];
    char headers[256]; /* of the key's rate, for the answer; "" when there are none */
    struct job *job;   /* while it is with a database thread */
    bool is_kept;      /* of a stream: freed with its connection */
};

int64_t server_us(void); /* steady */

/* dispatch.c: from a request to whoever answers it */
void dispatch(struct conn *c, const struct http_request *r);
void dispatch_gone(struct conn *c, bool half_closed);
void dispatch_answered(struct conn *c, int status, size_t body_bytes);
void dispatch_refused(struct conn *c, int status); /* HTTP that was no request */
void dispatch_closed(struct conn *c);
/* Answers with a refusal. `headers` as in struct answer. */
void dispatch_refuse(struct conn *c, dibs_status status, const struct dibs_error *err,
                     const char *headers);

/* call.c: an operation, by way of a database thread */
void call_submit(struct server *s, struct conn *c, const struct asked *asked,
                 const struct auth_verdict *who);
/* The caller has hung up, or, half closed, at least said its last. */
void call_leave(struct asked *asked, bool half_closed);

/* pages.c: what the daemon answers itself: health, metrics, the description of the API */
struct own_page {
    const char *path;
    bool is_public;
    void (*answer)(struct server *s, struct conn *c, const struct asked *asked);
};
const struct own_page *own_page_find(const char *path); /* NULL: none */

/* keys.c: brings auth up to date with the store */
void keys_refresh(struct server *s);
void keys_tick(struct server *s); /* now and then: repeats what failed */
/* A change of keys has been committed: job->done once it is in force here. */
void keys_then(struct server *s, struct job *job);

/* notify.c: tells systemd; nothing when it did not ask */
void notify_systemd(const char *state);

#endif
