/* SPDX-License-Identifier: MIT */
/*
 * encode.c: the shapes of our answers, one function per noun.
 *
 * What is always there is written always (lists too, when empty); what may be absent is left out,
 * not written as null, so that a reader need only ask whether the member is there. The dialect of
 * POST /api/tasks/claim has shapes of its own, beside that operation.
 */
#include "encode.h"

#include "base/str.h"

void enc_key(struct jw *w, const char *key)
{
    struct buf text;
    struct jw escaped;
    buf_init(&text, 8 * (size_t)RESOURCE_BYTES_MAX);
    jw_init(&escaped, &text);
    jw_text(&escaped, key);
    if (buf_ok(&text)) {
        buf_cut(&text, text.len - 1); /* jw_key puts the quotes itself */
        jw_key(w, text.data + 1);
    } else {
        w->out->no_memory = true;
        jw_key(w, "");
    }
    buf_release(&text);
}

static void strings_opt(struct jw *w, const char *key, struct dibs_strings list)
{
    if (list.count > 0)
        jw_kstrings(w, key, list);
}

static void claim_times(struct jw *w, const struct dibs_claim *c)
{
    jw_ktime(w, "claimedAt", c->claimed_at_ms);
    jw_ktime(w, "expiresAt", c->expires_at_ms);
    jw_ktime(w, "lastHeartbeat", c->heartbeat_at_ms);
    jw_kint(w, "heartbeatCount", c->heartbeat_count);
    jw_kint(w, "ttlMs", c->ttl_ms);
}

void enc_lease(struct jw *w, const struct dibs_claim *c)
{
    jw_kobject(w, "claim");
    jw_kint(w, "token", c->token);
    jw_ktext(w, "sessionId", c->session_id);
    jw_ktime(w, "claimedAt", c->claimed_at_ms);
    jw_ktime(w, "expiresAt", c->expires_at_ms);
    jw_kint(w, "ttlMs", c->ttl_ms);
    jw_object_end(w);
}

/* claim_state: how it stands with the lease now, or how it ended. */
static void claim_state(struct jw *w, const struct dibs_claim *c)
{
    if (c->ended_at_ms == 0) {
        jw_kint(w, "remainingMs", c->remaining_ms);
        jw_ktext(w, "healthStatus", dibs_health_name(c->health));
        return;
    }
    jw_ktime(w, "endedAt", c->ended_at_ms);
    jw_ktext_opt(w, "endReason", c->end_reason);
    jw_kint(w, "heldMs", c->held_ms);
    jw_kraw_opt(w, "lateResult", c->late_result);
}

static void claim_progress(struct jw *w, const struct dibs_claim *c)
{
    if (c->progress_percent < 0 && c->progress_message == NULL)
        return;
    jw_kobject(w, "progress");
    if (c->progress_percent >= 0)
        jw_kint(w, "percent", c->progress_percent);
    jw_ktext_opt(w, "message", c->progress_message);
    jw_object_end(w);
}

/* enc_subject: a claim on something else than a task or a lock. */
static void enc_subject(struct jw *w, const struct dibs_claim *c)
{
    jw_object(w);
    jw_ktext(w, "kind", c->kind);
    jw_ktext(w, "resource", c->resource);
    jw_ktext(w, "sessionId", c->session_id);
    jw_kint(w, "token", c->token);
    claim_times(w, c);
    jw_ktext_opt(w, "agentType", c->agent_type);
    jw_ktext_opt(w, "agentId", c->agent_id);
    claim_state(w, c);
    jw_object_end(w);
}

void enc_claim(struct jw *w, const struct dibs_claim *c)
{
    if (c->resource != NULL && c->kind != NULL && !str_eq(c->kind, "lock")) {
        enc_subject(w, c);
        return;
    }
    if (c->resource != NULL) {
        enc_lock(w, c);
        return;
    }
    jw_object(w);
    jw_ktext_opt(w, "kind", c->kind);
    jw_ktext(w, "taskId", c->task_id);
    jw_ktext(w, "sessionId", c->session_id);
    jw_kint(w, "token", c->token);
    claim_times(w, c);
    jw_ktext_opt(w, "agentType", c->agent_type);
    jw_ktext_opt(w, "agentId", c->agent_id);
    claim_state(w, c);
    jw_kint(w, "attempt", c->attempt);
    jw_kint(w, "generation", c->generation);
    jw_kint(w, "incarnation", c->incarnation);
    if (c->extended)
        jw_kbool(w, "extended", true);
    claim_progress(w, c);
    jw_kraw_opt(w, "checkpoint", c->checkpoint);
    jw_kraw_opt(w, "metadata", c->metadata);
    jw_object_end(w);
}

void enc_lock(struct jw *w, const struct dibs_claim *c)
{
    jw_object(w);
    jw_ktext_opt(w, "kind", c->kind);
    jw_ktext(w, "resource", c->resource);
    jw_ktext(w, "mode", c->shared ? "shared" : "exclusive");
    jw_ktext(w, "sessionId", c->session_id);
    jw_kint(w, "token", c->token);
    jw_ktime(w, "acquiredAt", c->claimed_at_ms);
    jw_ktime(w, "expiresAt", c->expires_at_ms);
    jw_ktime(w, "lastHeartbeat", c->heartbeat_at_ms);
    jw_kint(w, "heartbeatCount", c->heartbeat_count);
    jw_kint(w, "ttlMs", c->ttl_ms);
    claim_state(w, c);
    if (c->extended)
        jw_kbool(w, "extended", true);
    jw_object_end(w);
}

void enc_claims(struct jw *w, const char *key, const struct dibs_claim_list *list)
{
    jw_karray(w, key);
    for (size_t i = 0; i < list->count; i++)
        enc_claim(w, &list->items[i]);
    jw_array_end(w);
}

static void task_text(struct jw *w, const struct dibs_task *t)
{
    jw_ktext(w, "id", t->id);
    jw_ktext(w, "project", t->project);
    jw_ktext(w, "title", t->title);
    jw_ktext_opt(w, "description", t->description);
    jw_ktext_opt(w, "type", t->type);
    jw_ktext_opt(w, "phase", t->phase);
    jw_ktext(w, "status", dibs_task_status_name(t->status));
    jw_kint(w, "priority", t->priority);
    jw_kstrings(w, "tags", t->tags);
    jw_kraw_opt(w, "params", t->params);
    jw_kraw_opt(w, "metadata", t->metadata);
}

static void task_relations(struct jw *w, const struct dibs_task *t)
{
    jw_kstrings(w, "dependsOn", t->depends_on);
    strings_opt(w, "waitingOn", t->waiting_on);
    strings_opt(w, "failedDependencies", t->failed_dependencies);
    jw_ktext_opt(w, "assignee", t->assignee);
    jw_ktext_opt(w, "offeredTo", t->offered_to);
    jw_ktime_opt(w, "offeredAt", t->offered_at_ms);
    jw_ktext_opt(w, "rejectionReason", t->rejection_reason);
    jw_ktext_opt(w, "blockReason", t->block_reason);
}

static void task_numbers(struct jw *w, const struct dibs_task *t)
{
    jw_ktime_opt(w, "runAfter", t->run_after_ms);
    jw_kint(w, "attempts", t->attempts);
    jw_kint(w, "maxAttempts", t->max_attempts);
    jw_kint(w, "generation", t->generation);
    jw_kint(w, "version", t->version);
    jw_kint_opt(w, "claimTimeoutMs", t->claim_timeout_ms);
    jw_ktext_opt(w, "dedupeKey", t->dedupe_key);
    jw_ktime(w, "createdAt", t->created_at_ms);
    jw_ktime(w, "updatedAt", t->updated_at_ms);
    jw_ktime_opt(w, "finishedAt", t->finished_at_ms);
    jw_ktime_opt(w, "notifiedAt", t->notified_at_ms);
}

void enc_task(struct jw *w, const struct dibs_task *t)
{
    jw_object(w);
    task_text(w, t);
    task_relations(w, t);
    task_numbers(w, t);
    jw_kraw_opt(w, "result", t->result);
    jw_ktext_opt(w, "error", t->error);
    if (t->deduplicated)
        jw_kbool(w, "deduplicated", true);
    if (t->claim != NULL) {
        jw_key(w, "claim");
        enc_claim(w, t->claim);
    }
    jw_object_end(w);
}

void enc_granted(struct jw *w, const struct dibs_granted *g)
{
    jw_object(w);
    jw_key(w, "task");
    enc_task(w, &g->task);
    jw_key(w, "claim");
    enc_claim(w, &g->claim);
    jw_object_end(w);
}

void enc_session_fields(struct jw *w, const struct dibs_session *s)
{
    jw_ktext(w, "id", s->id);
    jw_ktext(w, "project", s->project);
    jw_ktext_opt(w, "agentType", s->agent_type);
    jw_ktext_opt(w, "agentId", s->agent_id);
    jw_ktext_opt(w, "host", s->host);
    jw_kint_opt(w, "pid", s->pid);
    jw_kint(w, "incarnation", s->incarnation);
    jw_ktext(w, "status", dibs_session_status_name(s->status));
    jw_ktext(w, "healthStatus", dibs_health_name(s->health));
    jw_ktime(w, "registeredAt", s->registered_at_ms);
    jw_ktime(w, "lastHeartbeat", s->heartbeat_at_ms);
    jw_ktime_opt(w, "endedAt", s->ended_at_ms);
    jw_ktext_opt(w, "endReason", s->end_reason);
    jw_kint(w, "tasksCompleted", s->claims_completed);
    jw_kint(w, "tasksTotal", s->claims_total);
    jw_kint(w, "claims", s->claims_live);
    jw_kint(w, "locks", s->locks_live);
    if (s->current != NULL) {
        jw_ktext(w, "currentTaskId", s->current->task.id);
        jw_ktime(w, "currentTaskClaimedAt", s->current->claim.claimed_at_ms);
    }
    jw_kraw_opt(w, "metadata", s->metadata);
}

void enc_event(struct jw *w, const struct dibs_event *e)
{
    jw_object(w);
    jw_kint(w, "id", e->number);
    jw_ktext(w, "type", e->type);
    jw_ktime(w, "at", e->at_ms);
    jw_ktext_opt(w, "project", e->project);
    jw_ktext_opt(w, "taskId", e->task_id);
    jw_ktext_opt(w, "sessionId", e->session_id);
    jw_kraw(w, "data", e->data != NULL ? e->data : "{}");
    jw_object_end(w);
}

void enc_tallies(struct jw *w, const char *key, const struct dibs_tally_list *list)
{
    jw_kobject(w, key);
    for (size_t i = 0; i < list->count; i++) {
        enc_key(w, list->items[i].name != NULL ? list->items[i].name : "unknown");
        jw_int(w, list->items[i].count);
    }
    jw_object_end(w);
}

void enc_refusal_fields(struct jw *w, dibs_status status, const struct dibs_error *err)
{
    jw_ktext(w, "error", dibs_status_name(status));
    jw_ktext(w, "message", err->message[0] != '\0' ? err->message : dibs_status_sentence(status));
    if (err->field[0] != '\0')
        jw_ktext(w, "field", err->field);
    if (err->task_status[0] != '\0')
        jw_ktext(w, "taskStatus", err->task_status);
    if (err->holder[0] != '\0') {
        jw_kobject(w, "claim");
        jw_ktext(w, "sessionId", err->holder);
        jw_ktime(w, "claimedAt", err->holder_since_ms);
        jw_kint(w, "remainingMs", err->remaining_ms);
        jw_object_end(w);
    }
    if (err->cancel_requested)
        jw_kbool(w, "cancelRequested", true);
}
