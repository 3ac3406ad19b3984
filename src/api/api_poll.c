/* SPDX-License-Identifier: MIT */
/*
 * api_poll.c: GET /api/poll, what an agent should do next.
 *
 * It is a GET because that is how agents have always asked, but what it answers with is claimed: it
 * writes, and HEAD is refused. The answer has one member `trigger`: what was found, by type, or
 * null with the time after which asking again may bring something (nextPollMs).
 */
#include "api_internal.h"
#include "base/str.h"
#include "core/owner.h"
#include "core/poll.h"
#include "core/serve.h"

struct poll_in {
    struct dibs_poll poll;
    const char *wait; /* with a unit */
    int ack;
};

enum { ACK_AUTO, ACK_MANUAL };
static const struct field_word ack_words[] = {
    {"auto", ACK_AUTO},
    {"manual", ACK_MANUAL},
    {NULL, 0},
};

#define IN struct poll_in
static const struct field poll_fields[] = {
    FIELD("agentId", ID, poll.agent_id, .flags = FIELD_REQUIRED, .doc = "The agent that asks"),
    FIELD("sessionId", ID, poll.session_id, .flags = FIELD_ACTS | FIELD_FRESH,
          .doc = "Who holds what is handed out; registered if new. One named like the agent if "
                 "not given"),
    FIELD("claim", BOOL, poll.claim, .doc = "A worker takes a task out of the pool"),
    FIELD("types", STRINGS, poll.types, .max = TYPES_MAX,
          .doc = "Of the pool: tasks of any of these types"),
    FIELD("ack", ENUM, ack, .words = ack_words,
          .doc =
              "manual: finished tasks count as told once they are acknowledged; otherwise (auto) "
              "once they are handed out"),
    FIELD("ttlMs", INT, poll.ttl_ms, .min = 1, .doc = "Lease of what is handed out"),
    FIELD("wait", TEXT, wait, .max = 32,
          .doc = "Wait so long for something to happen: 30s, 500ms, or milliseconds"),
    FIELD("waitMs", INT, poll.wait_ms, .max = WAIT_MS_MAX,
          .doc = "The same in milliseconds; not with an Idempotency-Key"),
};
#undef IN
const struct api_shape api_in_poll = SHAPE(struct poll_in, poll_fields, .id_at = SHAPE_NO_ID);

static dibs_status read_wait(struct api_ctx *c, const struct poll_in *in, int64_t *out)
{
    *out = in->poll.wait_ms;
    if (in->wait != NULL && !str_to_duration_ms(in->wait, out))
        return error_field(c->err, "wait",
                           "must be a duration such as 30s or 500ms, or milliseconds, not '%s'",
                           in->wait);
    if (*out < 0 || *out > WAIT_MS_MAX)
        return error_field(c->err, "wait", "must be at most %d milliseconds", WAIT_MS_MAX);
    if (c->in_once && *out > 0)
        return api_refuse_wait(c, in->wait != NULL ? "wait" : "waitMs");
    return DIBS_OK;
}

/* ensure_session: a session that a key brings into being belongs to it; the library, which would
 * register it too, knows no keys. */
static dibs_status ensure_session(struct api_ctx *c, const struct dibs_poll *in)
{
    const char *id = in->session_id != NULL ? in->session_id : in->agent_id;
    struct dibs_session_owner owner = {0};
    struct dibs_session session = {0};
    const char *project = NULL;
    dibs_status s = in->session_id == NULL ? identity_check_acting(c, id, true) : DIBS_OK;
    if (s == DIBS_OK)
        s = dibs__session_owner(c->d, c->a, id, &owner, c->err);
    if (s == DIBS_OK)
        s = dibs__agent_project(c->d, c->a, in->agent_id, &project, c->err);
    if (s != DIBS_OK || project == NULL || (owner.exists && !owner.ended))
        return s;
    struct dibs_session_new new = {.id = id, .project = project, .agent_id = in->agent_id};
    return api_register(c, &new, &session);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void wait_for(struct api_ctx *c, const struct dibs_poll *in,
                     const struct dibs_poll_wait *wait)
{
    uint64_t pool = str_hash(str_hash(STR_HASH, "poll"), wait->project);
    c->wait_ms = in->wait_ms;
    c->wait_agent = dibs__wake_key(in->agent_id);
    c->wait_leads = wait->is_lead ? dibs__wake_key_leads(wait->project) : 0;
    c->wait_not_pool = wait->is_lead || wait->is_full;
    c->wait_key = api_wait_key(pool, in->types);
}

/* ---- answering ------------------------------------------------------------------------------- */

static void enc_finished(struct jw *w, const struct dibs_notices *finished)
{
    jw_kint(w, "count", (int64_t)finished->tasks.count);
    jw_karray(w, "tasks");
    for (size_t i = 0; i < finished->tasks.count; i++)
        enc_task(w, &finished->tasks.items[i]);
    jw_array_end(w);
    if (finished->claims.count > 0)
        enc_claims(w, "claims", &finished->claims);
}

static void enc_trigger(struct jw *w, const struct dibs_trigger *t)
{
    jw_kobject(w, "trigger");
    jw_ktext(w, "type", dibs_trigger_name(t->type));
    if (t->task != NULL) {
        jw_ktext(w, "taskId", t->task->task.id);
        jw_key(w, "task");
        enc_task(w, &t->task->task);
        jw_key(w, "claim");
        enc_claim(w, &t->task->claim);
    }
    if (t->type == DIBS_TRIGGER_INBOX) {
        jw_kint(w, "count", (int64_t)t->messages.count);
        enc_messages(w, &t->messages);
    }
    if (t->type == DIBS_TRIGGER_MENTIONS)
        enc_mentions_fields(w, &t->mentions);
    if (t->type == DIBS_TRIGGER_FINISHED)
        enc_finished(w, &t->finished);
    if (t->type == DIBS_TRIGGER_POOL)
        jw_kint(w, "count", t->pool_count);
    jw_object_end(w);
}

dibs_status api_poll(struct api_ctx *c, const void *input)
{
    const struct poll_in *in = input;
    struct dibs_poll poll = in->poll;
    struct dibs_trigger trigger = {0};
    struct dibs_poll_wait wait = {0};
    dibs_status s = read_wait(c, in, &poll.wait_ms);
    poll.ack_manual = in->ack == ACK_MANUAL;
    if (s == DIBS_OK && c->who->key_id != NULL)
        s = ensure_session(c, &poll);
    if (s == DIBS_OK)
        s = dibs__poll(c->d, c->a, &poll, c->who->project, &trigger, &wait, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    if (trigger.type != DIBS_TRIGGER_NONE) {
        enc_trigger(w, &trigger);
    } else {
        jw_ktext(w, "trigger", NULL);
        jw_kint(w, "nextPollMs", trigger.next_poll_ms);
        wait_for(c, &poll, &wait);
    }
    jw_ktext(w, "sessionId", trigger.session_id);
    return DIBS_OK;
}
