/* SPDX-License-Identifier: MIT */
/*
 * api_session.c: sessions: register, heartbeat, resume, end; one, all, and the summary that the
 * dashboard's cards are made of.
 */
#include "api_internal.h"

struct id_in {
    const char *id;
};

static void enc_session(struct jw *w, const struct dibs_session *s)
{
    jw_object(w);
    enc_session_fields(w, s);
    jw_object_end(w);
}

/* ---- register -------------------------------------------------------------------------------- */

#define IN struct dibs_session_new
static const struct field new_fields[] = {
    FIELD("id", ID, id, .flags = FIELD_ACTS | FIELD_FRESH,
          .doc = "Chosen by the caller; otherwise the next number"),
    FIELD("project", TEXT, project, .max = WORD_BYTES_MAX,
          .doc = "Project it works on; 'default', or what it was, if not given"),
    FIELD("agentType", TEXT, agent_type, .max = WORD_BYTES_MAX,
          .doc = "Kind of agent: autonomous, cli, worker, ..."),
    FIELD("agentId", ID, agent_id, .doc = "The agent it belongs to"),
    FIELD("pid", INT, pid, .min = 1, .max = INT32_MAX,
          .doc = "Process that must live for the session to live"),
    FIELD("host", TEXT, host, .max = WORD_BYTES_MAX,
          .doc = "Machine of the process; this one if "
                 "not given"),
    FIELD("metadata", JSON, metadata, .doc = "Whatever the caller likes"),
};
#undef IN
const struct api_shape api_in_session_register =
    SHAPE(struct dibs_session_new, new_fields, .id_at = SHAPE_NO_ID);

dibs_status api_session_register(struct api_ctx *c, const void *input)
{
    struct dibs_session session = {0};
    dibs_status s = api_register(c, input, &session);
    if (s != DIBS_OK)
        return s;
    c->http = session.incarnation == 1 ? 201 : 200;
    struct jw *w = api_reply(c);
    jw_key(w, "session");
    enc_session(w, &session);
    return DIBS_OK;
}

/* ---- list and summary ------------------------------------------------------------------------ */

#define IN struct dibs_session_filter
static const struct field list_fields[] = {
    FIELD("project", TEXT, project, .max = WORD_BYTES_MAX, .doc = "Sessions of this project"),
    FIELD("all", BOOL, include_ended, .doc = "Also those that have ended"),
    FIELD("cursor", TEXT, cursor, .doc = "nextCursor of the page before"),
    FIELD("limit", INT, limit, .min = 1, .max = PAGE_MAX,
          .doc = "Sessions per page, 100 if not given"),
};
#undef IN
const struct api_shape api_in_session_list =
    SHAPE(struct dibs_session_filter, list_fields, .id_at = SHAPE_NO_ID);

dibs_status api_session_list(struct api_ctx *c, const void *input)
{
    struct dibs_session_list list = {0};
    dibs_status s = dibs_session_list(c->d, c->a, input, &list, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_karray(w, "sessions");
    for (size_t i = 0; i < list.count; i++) {
        identity_trim(c, &list.items[i]);
        enc_session(w, &list.items[i]);
    }
    jw_array_end(w);
    jw_ktext_opt(w, "nextCursor", list.next_cursor);
    return DIBS_OK;
}

struct summary_in {
    const char *project;
};
#define IN struct summary_in
static const struct field summary_fields[] = {
    FIELD("project", TEXT, project, .max = WORD_BYTES_MAX, .doc = "This project only"),
};
#undef IN
const struct api_shape api_in_session_summary =
    SHAPE(struct summary_in, summary_fields, .id_at = SHAPE_NO_ID);

static void enc_claim_info(struct jw *w, const struct dibs_granted *current)
{
    const struct dibs_claim *claim = &current->claim;
    jw_kobject(w, "claimInfo");
    jw_ktext(w, "taskId", current->task.id);
    jw_ktext(w, "title", current->task.title);
    jw_ktext_opt(w, "phase", current->task.phase);
    jw_ktime(w, "claimedAt", claim->claimed_at_ms);
    jw_ktime(w, "expiresAt", claim->expires_at_ms);
    jw_ktime(w, "lastHeartbeat", claim->heartbeat_at_ms);
    jw_ktext(w, "healthStatus", dibs_health_name(claim->health));
    jw_object_end(w);
}

static void enc_metrics(struct jw *w, const struct dibs_summary *summary)
{
    jw_kobject(w, "globalMetrics");
    jw_kint(w, "activeCount", summary->active_sessions);
    jw_kint(w, "staleCount", summary->stale_sessions);
    jw_kint(w, "inFlight", summary->in_flight);
    jw_kint(w, "tasksCompletedToday", summary->completed_today);
    enc_tallies(w, "tasksByStatus", &summary->tasks_by_status);
    jw_object_end(w);
}

static void enc_completions(struct jw *w, const struct dibs_summary *summary)
{
    jw_karray(w, "recentCompletions");
    for (size_t i = 0; i < summary->recent_count; i++) {
        const struct dibs_completion *done = &summary->recent[i];
        jw_object(w);
        jw_ktext(w, "taskId", done->task_id);
        jw_ktext(w, "title", done->title);
        jw_ktext(w, "sessionId", done->session_id);
        jw_ktime(w, "finishedAt", done->finished_at_ms);
        jw_kint(w, "duration", done->held_ms);
        jw_object_end(w);
    }
    jw_array_end(w);
}

dibs_status api_session_summary(struct api_ctx *c, const void *input)
{
    const struct summary_in *in = input;
    struct dibs_summary summary = {0};
    dibs_status s = dibs_session_summary(c->d, c->a, in->project, &summary, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    enc_metrics(w, &summary);
    jw_karray(w, "sessions");
    for (size_t i = 0; i < summary.sessions.count; i++) {
        struct dibs_session *session = &summary.sessions.items[i];
        identity_trim(c, session);
        jw_object(w);
        enc_session_fields(w, session);
        if (session->current != NULL)
            enc_claim_info(w, session->current);
        jw_object_end(w);
    }
    jw_array_end(w);
    enc_completions(w, &summary);
    jw_ktime(w, "timestamp", summary.at_ms);
    return DIBS_OK;
}

/* ---- one session ----------------------------------------------------------------------------- */

const struct api_shape api_in_session_get = SHAPE_ID_ONLY(struct id_in, id);

static void enc_claim_history(struct jw *w, const struct dibs_claim_list *history)
{
    jw_karray(w, "claimHistory");
    for (size_t i = 0; i < history->count; i++) {
        const struct dibs_claim *claim = &history->items[i];
        jw_object(w);
        jw_ktext_opt(w, "taskId", claim->task_id);
        jw_ktext_opt(w, "resource", claim->resource);
        jw_ktime(w, "claimedAt", claim->claimed_at_ms);
        jw_ktime(w, "releasedAt", claim->ended_at_ms);
        jw_ktext(w, "releaseReason", claim->end_reason);
        jw_kint(w, "duration", claim->held_ms);
        jw_kint(w, "token", claim->token);
        jw_object_end(w);
    }
    jw_array_end(w);
}

dibs_status api_session_get(struct api_ctx *c, const void *input)
{
    const struct id_in *in = input;
    struct dibs_session session = {0};
    dibs_status s = dibs_session_get(c->d, c->a, in->id, &session, c->err);
    if (s != DIBS_OK)
        return s;
    identity_trim(c, &session);
    struct jw *w = api_reply(c);
    jw_kobject(w, "session");
    enc_session_fields(w, &session);
    enc_claim_history(w, &session.history);
    jw_object_end(w);
    return DIBS_OK;
}

const struct api_shape api_in_session_current_task = SHAPE_ID_ONLY(struct id_in, id);

dibs_status api_session_current_task(struct api_ctx *c, const void *input)
{
    const struct id_in *in = input;
    struct dibs_session session = {0};
    dibs_status s = dibs_session_get(c->d, c->a, in->id, &session, c->err);
    if (s != DIBS_OK)
        return s;
    identity_trim(c, &session);
    struct jw *w = api_reply(c);
    jw_ktext(w, "sessionId", session.id);
    jw_key(w, "currentTask");
    if (session.current == NULL) {
        jw_null(w);
        return DIBS_OK;
    }
    const struct dibs_claim *claim = &session.current->claim;
    jw_object(w);
    jw_ktext(w, "taskId", session.current->task.id);
    jw_ktext(w, "title", session.current->task.title);
    jw_kobject(w, "claim");
    jw_ktime(w, "claimedAt", claim->claimed_at_ms);
    jw_kint(w, "remainingMs", claim->remaining_ms);
    jw_ktime(w, "expiresAt", claim->expires_at_ms);
    jw_kint(w, "token", claim->token);
    jw_object_end(w);
    jw_object_end(w);
    return DIBS_OK;
}

/* ---- its life -------------------------------------------------------------------------------- */

const struct api_shape api_in_session_heartbeat = SHAPE_ID_ONLY(struct id_in, id);

dibs_status api_session_heartbeat(struct api_ctx *c, const void *input)
{
    const struct id_in *in = input;
    struct dibs_session_news news = {0};
    dibs_status s = dibs_session_heartbeat(c->d, c->a, in->id, &news, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_key(w, "session");
    enc_session(w, &news.session);
    enc_claims(w, "claims", &news.renewed);
    enc_claims(w, "lost", &news.lost);
    jw_kstrings(w, "cancelRequested", news.cancel_requested);
    if (news.unread_messages >= 0) {
        jw_kint(w, "unreadMessages", news.unread_messages);
        jw_kint(w, "unreadMentions", news.unread_mentions);
    }
    return DIBS_OK;
}

const struct api_shape api_in_session_resume = SHAPE_ID_ONLY(struct id_in, id);

dibs_status api_session_resume(struct api_ctx *c, const void *input)
{
    const struct id_in *in = input;
    struct dibs_resumed resumed = {0};
    dibs_status s = dibs_session_resume(c->d, c->a, in->id, &resumed, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_karray(w, "resumed");
    for (size_t i = 0; i < resumed.taken.count; i++)
        enc_granted(w, &resumed.taken.items[i]);
    jw_array_end(w);
    enc_claims(w, "gone", &resumed.gone);
    return DIBS_OK;
}

const struct api_shape api_in_session_deregister = SHAPE_ID_ONLY(struct id_in, id);

dibs_status api_session_deregister(struct api_ctx *c, const void *input)
{
    const struct id_in *in = input;
    struct dibs_deregistered gone = {0};
    dibs_status s = dibs_session_deregister(c->d, c->a, in->id, &gone, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_ktext(w, "sessionId", gone.session_id);
    jw_kbool(w, "deregistered", true);
    jw_kint(w, "claimsReleased", gone.claims_released);
    jw_kint(w, "locksReleased", gone.locks_released);
    return DIBS_OK;
}
