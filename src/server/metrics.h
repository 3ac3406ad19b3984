/* SPDX-License-Identifier: MIT */
/*
 * metrics.h: what the daemon counts, and /metrics in the text format of Prometheus.
 *
 * Loop thread only. What the store counts (claims taken, expired, refused ...) is read from it when
 * somebody asks.
 */
#ifndef DIBS_METRICS_H
#define DIBS_METRICS_H

#include "api/api.h"
#include "base/buf.h"
#include "sender.h"
#include "sse.h"
#include "writer.h"

struct metrics;
struct metrics *metrics_new(void);    /* NULL when out of memory */
void metrics_free(struct metrics *m); /* NULL is fine */
/* `op` is a row of api_operations(), or NULL for what is none (pages, unknown paths): only rows
 * become labels, so no caller can make new ones. */
void metrics_request(struct metrics *m, const struct api_operation *op, int http_status,
                     int64_t micros);
void metrics_connection(struct metrics *m, int change); /* +1, -1 */
void metrics_refused_connection(struct metrics *m);
void metrics_bad_request(struct metrics *m); /* HTTP that was refused before it was a request */

enum metrics_hook_source { METRICS_SLACK, METRICS_GITHUB, METRICS_HOOK_SOURCES };
enum metrics_hook_end {
    METRICS_HOOK_MESSAGE,
    METRICS_HOOK_TASK,
    METRICS_HOOK_DUPLICATE,
    METRICS_HOOK_IGNORED,
    METRICS_HOOK_UNSIGNED, /* the signature was not right */
    METRICS_HOOK_INVALID,
    METRICS_HOOK_OFF, /* there is no secret, or it was no POST */
    METRICS_HOOK_FAILED,
    METRICS_HOOK_ENDS,
};
void metrics_hook(struct metrics *m, enum metrics_hook_source source, enum metrics_hook_end end);

struct metrics_now {
    struct writer_stats writer;
    struct sse_stats sse;
    int64_t readers_queued;
    const struct dibs_stats *store; /* NULL: could not be read */
    int64_t uptime_ms;
    struct sender_stats sender;
    int64_t answers_waiting; /* of `store` too */
};
void metrics_render(const struct metrics *m, const struct metrics_now *now, struct buf *out);

#endif
