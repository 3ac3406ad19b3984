/* SPDX-License-Identifier: MIT */
/* claim_read.c: claims from rows to what callers see, and how healthy they are. */
#include "core/core.h"

static const char *const health_names[] = {
    [DIBS_HEALTH_EXPIRED] = "expired",   [DIBS_HEALTH_STALE] = "stale",
    [DIBS_HEALTH_CRITICAL] = "critical", [DIBS_HEALTH_WARNING] = "warning",
    [DIBS_HEALTH_HEALTHY] = "healthy",
};

const char *dibs_health_name(enum dibs_health h)
{
    return (size_t)h < COUNT_OF(health_names) ? health_names[h] : "unknown";
}

void dibs__claim_row_read(struct tx *tx, struct db_rows *rows, int first, struct claim_row *out)
{
    *out = (struct claim_row){
        .token = db_int(rows, first),
        .kind = db_text(rows, first + 1, tx->a),
        .task_key = db_int(rows, first + 2),
        .resource = db_text(rows, first + 3, tx->a),
        .shared = db_int(rows, first + 4) != 0,
        .session_id = db_text(rows, first + 5, tx->a),
        .incarnation = db_int(rows, first + 6),
        .agent_type = db_text(rows, first + 7, tx->a),
        .agent_id = db_text(rows, first + 8, tx->a),
        .claimed_at = db_int(rows, first + 9),
        .expires_at = db_int(rows, first + 10),
        .heartbeat_at = db_int(rows, first + 11),
        .heartbeats = db_int(rows, first + 12),
        .ttl = db_int(rows, first + 13),
        .attempt = db_int(rows, first + 14),
        .generation = db_int(rows, first + 15),
        .progress_percent = db_is_null(rows, first + 16) ? -1 : db_int(rows, first + 16),
        .progress_message = db_text(rows, first + 17, tx->a),
        .checkpoint = db_text(rows, first + 18, tx->a),
        .metadata = db_text(rows, first + 19, tx->a),
        .ended_at = db_int(rows, first + 20),
        .end_reason = db_text(rows, first + 21, tx->a),
        .late_result = db_text(rows, first + 22, tx->a),
        .before_of_task = db_int(rows, first + 23),
        .before_in_session = db_int(rows, first + 24),
    };
}

void dibs__claims_collect(struct tx *tx, struct db_rows *rows, struct claim_rows *out)
{
    while (db_next(rows)) {
        struct claim_row *c = dibs__push(tx, &out->items, &out->count, sizeof *c);
        if (c)
            dibs__claim_row_read(tx, rows, 0, c);
    }
    db_done(rows);
}

bool dibs__claim_load(struct tx *tx, int64_t token, struct claim_row *out)
{
    if (!token)
        return false;
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT " CLAIM_COLUMNS " FROM claim c WHERE c.token = $1"),
                 DB_ARGS(db_i(token)));
    bool found = db_next(rows);
    if (found)
        dibs__claim_row_read(tx, rows, 0, out);
    db_done(rows);
    return found && db_ok(tx->db);
}

/* Worst first: a claim that is both stale and nearly over is called stale. */
enum dibs_health dibs__claim_health(const struct tx *tx, const struct claim_row *c)
{
    const struct dibs_settings *s = &tx->d->settings;
    int64_t remaining = c->expires_at - tx->now;
    if (remaining <= 0)
        return DIBS_HEALTH_EXPIRED;
    if (tx->now - c->heartbeat_at > s->stale_threshold_ms)
        return DIBS_HEALTH_STALE;
    if (remaining < s->expiring_threshold_ms)
        return DIBS_HEALTH_CRITICAL;
    return remaining < s->warning_threshold_ms ? DIBS_HEALTH_WARNING : DIBS_HEALTH_HEALTHY;
}

void dibs__claim_full(struct tx *tx, const struct claim_row *c, const char *task_id,
                      struct dibs_claim *out)
{
    int64_t remaining = c->ended_at ? 0 : c->expires_at - tx->now;
    *out = (struct dibs_claim){
        .token = c->token,
        .kind = c->kind,
        .task_id = task_id,
        .resource = c->resource,
        .shared = c->shared,
        .session_id = c->session_id,
        .incarnation = c->incarnation,
        .agent_type = c->agent_type,
        .agent_id = c->agent_id,
        .claimed_at_ms = c->claimed_at,
        .expires_at_ms = c->expires_at,
        .heartbeat_at_ms = c->heartbeat_at,
        .heartbeat_count = c->heartbeats,
        .ttl_ms = c->ttl,
        .attempt = c->attempt,
        .generation = c->generation,
        .remaining_ms = remaining > 0 ? remaining : 0,
        .health = c->ended_at ? DIBS_HEALTH_EXPIRED : dibs__claim_health(tx, c),
        .progress_percent = c->progress_percent,
        .progress_message = c->progress_message,
        .checkpoint = c->checkpoint,
        .metadata = c->metadata,
        .ended_at_ms = c->ended_at,
        .end_reason = c->end_reason,
        .held_ms = dibs__held_ms(tx, c),
        .late_result = c->late_result,
    };
}
