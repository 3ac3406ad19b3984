/* SPDX-License-Identifier: MIT */
/*
 * api_claim.c: claiming a named task, and what its holder says afterwards: heartbeat, progress,
 * complete, fail, release.
 *
 * complete and fail may ask for the next task in the same request. Report and claim are then one
 * transaction: a worker is never left with its report taken and its next request lost, and finding
 * nothing to claim is no failure of the report.
 */
#include "api_internal.h"
#include "base/str.h"

#define TASK_ID(type) .id_at = offsetof(type, task_id)

/* ---- take ------------------------------------------------------------------------------------ */

#define IN struct dibs_claim_take
static const struct field take_fields[] = {
    FIELD("sessionId", ID, session_id, .flags = FIELD_REQUIRED | FIELD_ACTS,
          .doc = "The session that claims"),
    FIELD("ttlMs", INT, ttl_ms, .min = 1,
          .doc = "Lease; the task's claim timeout or the store's setting if not given"),
    FIELD("agentType", TEXT, agent_type, .max = WORD_BYTES_MAX,
          .doc = "Kind of agent; that of the session if not given"),
    FIELD("metadata", JSON, metadata, .doc = "Whatever the caller likes"),
};
#undef IN
const struct api_shape api_in_claim_take =
    SHAPE(struct dibs_claim_take, take_fields, TASK_ID(struct dibs_claim_take));

static dibs_status reply_claim(struct api_ctx *c, const struct dibs_claim *claim)
{
    struct jw *w = api_reply(c);
    jw_key(w, "claim");
    enc_claim(w, claim);
    return DIBS_OK;
}

dibs_status api_claim_take(struct api_ctx *c, const void *input)
{
    struct dibs_claim claim = {0};
    dibs_status s = dibs_claim_take(c->d, c->a, input, &claim, c->err);
    return s == DIBS_OK ? reply_claim(c, &claim) : s;
}

/* ---- heartbeat and progress ------------------------------------------------------------------ */

#define IN struct dibs_heartbeat
static const struct field heartbeat_fields[] = {
    FIELD_SESSION,
    FIELD_TOKEN,
    FIELD("extendMs", INT, extend_ms, .min = 1,
          .doc = "New lease from now on; the claim's own ttl if not given"),
};
#undef IN
const struct api_shape api_in_claim_heartbeat =
    SHAPE(struct dibs_heartbeat, heartbeat_fields, TASK_ID(struct dibs_heartbeat));

dibs_status api_claim_heartbeat(struct api_ctx *c, const void *input)
{
    struct dibs_claim claim = {0};
    dibs_status s = dibs_claim_heartbeat(c->d, c->a, input, &claim, c->err);
    return s == DIBS_OK ? reply_claim(c, &claim) : s;
}

#define IN struct dibs_progress
static const struct field progress_fields[] = {
    FIELD_SESSION,
    FIELD_TOKEN,
    FIELD("percent", INT, percent, .flags = FIELD_OPT, .max = 100, .doc = "How much is done"),
    FIELD("message", TEXT, message, .max = MESSAGE_BYTES_MAX, .doc = "What is being done"),
    FIELD("checkpoint", JSON, checkpoint,
          .doc = "Given to the next attempt if this one does not finish"),
};
#undef IN
const struct api_shape api_in_claim_progress =
    SHAPE(struct dibs_progress, progress_fields, TASK_ID(struct dibs_progress));

dibs_status api_claim_progress(struct api_ctx *c, const void *input)
{
    struct dibs_claim claim = {0};
    dibs_status s = dibs_claim_progress(c->d, c->a, input, &claim, c->err);
    return s == DIBS_OK ? reply_claim(c, &claim) : s;
}

/* ---- release --------------------------------------------------------------------------------- */

#define IN struct dibs_release
static const struct field release_fields[] = {
    FIELD_SESSION,
    FIELD_TOKEN,
    FIELD("reason", TEXT, reason, .max = WORD_BYTES_MAX,
          .doc = "completed completes, failed fails, anything else gives the task back"),
};
#undef IN
const struct api_shape api_in_claim_release =
    SHAPE(struct dibs_release, release_fields, TASK_ID(struct dibs_release));

dibs_status api_claim_release(struct api_ctx *c, const void *input)
{
    struct dibs_released released = {0};
    dibs_status s = dibs_claim_release(c->d, c->a, input, &released, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_kobject(w, "released");
    jw_ktext(w, "taskId", released.task_id);
    jw_ktext(w, "reason", released.reason);
    jw_kint(w, "claimDuration", released.held_ms);
    jw_object_end(w);
    jw_key(w, "task");
    enc_task(w, &released.task);
    return DIBS_OK;
}

/* ---- complete and fail ----------------------------------------------------------------------- */

/* The names of POST /api/tasks/claim are understood as well: a worker that speaks that dialect asks
 * for its next task in the same words. */
#define IN struct dibs_claim_next
static const struct field next_fields[] = {
    FIELD("types", STRINGS, types, .max = TYPES_MAX, .doc = "Tasks of any of these types"),
    FIELD("tags", STRINGS, tags, .max = TAGS_MAX, .doc = "Tasks that have all of these tags"),
    FIELD("project", TEXT, project, .max = WORD_BYTES_MAX,
          .doc = "Tasks of this project; the session's if not given"),
    FIELD("maxAttemptsRemaining", INT, max_attempts_remaining, .flags = FIELD_OPT,
          .doc = "n: only tasks with attempts < maxAttempts - n"),
    FIELD("sortBy", ENUM, sort, .words = api_sort_words,
          .doc = "priority (standard), created_at or random"),
    FIELD("sortOrder", ENUM, order, .words = api_order_words, .doc = "asc or desc"),
    FIELD("ttlMs", INT, ttl_ms, .min = 1, .doc = "Lease of the new claim"),
    FIELD("agentType", TEXT, agent_type, .max = WORD_BYTES_MAX, .doc = "Kind of agent"),
    FIELD("metadata", JSON, metadata, .doc = "Whatever the caller likes"),
    FIELD("task_types", STRINGS, types, .flags = FIELD_HIDDEN, .max = TYPES_MAX, .doc = "types"),
    FIELD("max_attempts_remaining", INT, max_attempts_remaining, .flags = FIELD_OPT | FIELD_HIDDEN,
          .doc = "maxAttemptsRemaining"),
    FIELD("sort_by", ENUM, sort, .flags = FIELD_HIDDEN, .words = api_sort_words, .doc = "sortBy"),
    FIELD("sort_order", ENUM, order, .flags = FIELD_HIDDEN, .words = api_order_words,
          .doc = "sortOrder"),
    FIELD("ttl_ms", INT, ttl_ms, .flags = FIELD_HIDDEN, .min = 1, .doc = "ttlMs"),
};
#undef IN
static const struct api_shape next_shape =
    SHAPE(struct dibs_claim_next, next_fields, .id_at = SHAPE_NO_ID);

struct report_in {
    struct dibs_report report;
    struct dibs_claim_next *next; /* NULL: no next task wanted */
};
#define IN struct report_in
#define REPORT_FIELDS                                                                              \
    FIELD("sessionId", ID, report.session_id, .flags = FIELD_REQUIRED | FIELD_ACTS,                \
          .doc = "The session that holds it"),                                                     \
        FIELD("token", INT, report.token, .min = 1,                                                \
              .doc = "Token of the claim; given, it must be the current one"),                     \
        FIELD("result", JSON, report.result, .doc = "What came of it"),                            \
        FIELD("claimNext", OBJECT, next, .of = &next_shape,                                        \
              .doc = "Claim the next task in the same step")

static const struct field complete_fields[] = {REPORT_FIELDS};
static const struct field fail_fields[] = {
    REPORT_FIELDS,
    FIELD("error", TEXT, report.error, .max = MESSAGE_BYTES_MAX, .doc = "What went wrong"),
    FIELD("permanent", BOOL, report.permanent, .doc = "No further attempt"),
};
#undef IN
const struct api_shape api_in_complete =
    SHAPE(struct report_in, complete_fields, .id_at = offsetof(struct report_in, report.task_id));
const struct api_shape api_in_fail =
    SHAPE(struct report_in, fail_fields, .id_at = offsetof(struct report_in, report.task_id));

typedef dibs_status report_function(dibs *d, dibs_arena *a, const struct dibs_report *in,
                                    struct dibs_task *out, struct dibs_error *err);

/* name_part: a refusal about a field of claimNext says so. */
static void name_part(struct dibs_error *err)
{
    char joined[128];
    if (err->field[0] == '\0' || str_starts(err->field, "claimNext"))
        return;
    snprintf(joined, sizeof joined, "claimNext.%s", err->field);
    str_fit(err->field, sizeof err->field, joined);
}

/*
 * report_and_claim: both in one transaction. A refused report is committed all the same: what the
 * library noted of it (a late result) shall stay. A refused claim takes the report back with it, so
 * that the caller may mend the request and send it again.
 */
static dibs_status report_and_claim(struct api_ctx *c, report_function *report,
                                    const struct report_in *in, struct dibs_task *task,
                                    struct dibs_grant *grant)
{
    struct dibs_claim_next next = *in->next;
    next.session_id = in->report.session_id;
    dibs_status s = api_begin(c);
    if (s != DIBS_OK)
        return s;
    s = report(c->d, c->a, &in->report, task, c->err);
    if (s != DIBS_OK)
        return api_settle(c, s);
    s = dibs_claim_next(c->d, c->a, &next, grant, c->err);
    if (s != DIBS_OK && s != DIBS_NOTHING_TO_CLAIM) {
        api_cancel(c);
        name_part(c->err);
        return s;
    }
    return api_commit(c);
}

static dibs_status answer_report(struct api_ctx *c, report_function *report,
                                 const struct report_in *in)
{
    struct dibs_task task = {0};
    struct dibs_grant grant = {0};
    dibs_status s = in->next != NULL ? report_and_claim(c, report, in, &task, &grant)
                                     : report(c->d, c->a, &in->report, &task, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_key(w, "task");
    enc_task(w, &task);
    if (in->next == NULL)
        return DIBS_OK;
    jw_key(w, "next");
    if (grant.count > 0)
        enc_granted(w, &grant.items[0]);
    else
        jw_null(w);
    return DIBS_OK;
}

dibs_status api_complete(struct api_ctx *c, const void *input)
{
    return answer_report(c, dibs_complete, input);
}

dibs_status api_fail(struct api_ctx *c, const void *input)
{
    return answer_report(c, dibs_fail, input);
}
