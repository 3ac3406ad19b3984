/* SPDX-License-Identifier: MIT */
/*
 * api_agent.c: agents: make one known or change it, one, all, and what the journal says of each.
 *
 * An agent belongs to a project. A key that is limited to one neither sees nor changes the agents
 * of others; an id or a name that is theirs is taken.
 */
#include "api_internal.h"
#include "base/str.h"
#include "core/owner.h"

static void enc_agent(struct jw *w, const struct dibs_agent *a)
{
    jw_object(w);
    jw_ktext(w, "id", a->id);
    jw_ktext(w, "name", a->name);
    jw_ktext(w, "project", a->project);
    jw_kbool(w, "isLead", a->is_lead);
    jw_kint(w, "maxTasks", a->max_tasks);
    jw_kstrings(w, "capabilities", a->capabilities);
    jw_kraw_opt(w, "metadata", a->metadata);
    jw_ktext(w, "status", dibs_agent_status_name(a->status));
    jw_kint(w, "tasksLive", a->tasks_live);
    jw_kint(w, "sessionsLive", a->sessions_live);
    jw_ktime(w, "registeredAt", a->registered_at_ms);
    jw_ktime(w, "updatedAt", a->updated_at_ms);
    jw_ktime(w, "lastSeenAt", a->seen_at_ms);
    jw_object_end(w);
}

/* ---- register -------------------------------------------------------------------------------- */

#define IN struct dibs_agent_new
static const struct field new_fields[] = {
    FIELD("id", ID, id, .doc = "Chosen by the caller; otherwise that of the name, or the name"),
    FIELD("name", TEXT, name, .max = AGENT_NAME_BYTES_MAX,
          .doc = "What @name in a message means; the id if not given"),
    FIELD("project", TEXT, project, .max = WORD_BYTES_MAX,
          .doc = "Project it works on; 'default', or what it was, if not given"),
    FIELD("isLead", BOOL, is_lead, .flags = FIELD_OPT,
          .doc = "It plans and answers; otherwise it is a worker"),
    FIELD("maxTasks", INT, max_tasks, .flags = FIELD_OPT, .min = 1, .max = AGENT_TASKS_MAX,
          .doc = "So many tasks and reviews at once; 1 if not given"),
    FIELD("capabilities", STRINGS, capabilities, .flags = FIELD_REF, .max = CAPABILITIES_MAX,
          .doc = "Words for what it can do"),
    FIELD("metadata", JSON, metadata, .doc = "Whatever the caller likes"),
};
#undef IN
const struct api_shape api_in_agent_register =
    SHAPE(struct dibs_agent_new, new_fields, .id_at = SHAPE_NO_ID);

/* check_name: one that an agent of another project has, which this key does not see, is taken. */
static dibs_status check_name(struct api_ctx *c, const char *name)
{
    const char *project = NULL;
    if (c->who->project == NULL || name == NULL)
        return DIBS_OK;
    dibs_status s = dibs__agent_project_named(c->d, c->a, name, &project, c->err);
    if (s == DIBS_OK && project == NULL) /* or it would become that agent's */
        s = dibs__agent_project(c->d, c->a, name, &project, c->err);
    if (s != DIBS_OK || project == NULL || str_eq(project, c->who->project))
        return s;
    return error_set(c->err, DIBS_FORBIDDEN, "agent name '%s' is taken; choose another", name);
}

dibs_status api_agent_register(struct api_ctx *c, const void *input)
{
    const struct dibs_agent_new *in = input;
    struct dibs_agent agent = {0};
    dibs_status s = check_name(c, in->name);
    if (s == DIBS_OK)
        s = dibs_agent_register(c->d, c->a, in, &agent, c->err);
    if (s != DIBS_OK)
        return s;
    c->http = agent.created ? 201 : 200;
    struct jw *w = api_reply(c);
    jw_key(w, "agent");
    enc_agent(w, &agent);
    return DIBS_OK;
}

/* ---- list and get ---------------------------------------------------------------------------- */

#define IN struct dibs_agent_filter
static const struct field list_fields[] = {
    FIELD("project", TEXT, project, .max = WORD_BYTES_MAX, .doc = "Agents of this project"),
    FIELD("isLead", BOOL, is_lead, .flags = FIELD_OPT, .doc = "Leads only, or workers only"),
};
#undef IN
const struct api_shape api_in_agent_list =
    SHAPE(struct dibs_agent_filter, list_fields, .id_at = SHAPE_NO_ID);

dibs_status api_agent_list(struct api_ctx *c, const void *input)
{
    struct dibs_agent_list list = {0};
    dibs_status s = dibs_agent_list(c->d, c->a, input, &list, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_karray(w, "agents");
    for (size_t i = 0; i < list.count; i++)
        enc_agent(w, &list.items[i]);
    jw_array_end(w);
    return DIBS_OK;
}

struct get_in {
    const char *id;
};
const struct api_shape api_in_agent_get = SHAPE_ID_ONLY(struct get_in, id);

dibs_status api_agent_get(struct api_ctx *c, const void *input)
{
    struct dibs_agent agent = {0};
    dibs_status s = dibs_agent_get(c->d, c->a, ((const struct get_in *)input)->id, &agent, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_key(w, "agent");
    enc_agent(w, &agent);
    return DIBS_OK;
}

/* ---- scores ---------------------------------------------------------------------------------- */

const struct api_shape api_in_agent_scores = {.id_at = SHAPE_NO_ID};

static void enc_score(struct jw *w, const struct dibs_score *s)
{
    jw_object(w);
    jw_ktext(w, "agent", s->agent);
    jw_kint(w, "claimed", s->claimed);
    jw_kint(w, "completed", s->completed);
    jw_kint(w, "failed", s->failed);
    jw_kint(w, "expired", s->expired);
    jw_kint(w, "orphaned", s->orphaned);
    jw_kint(w, "released", s->released);
    jw_kint(w, "refused", s->refused);
    jw_kint(w, "lateResults", s->late_results);
    jw_kint(w, "averageDurationMs", s->average_ms);
    jw_ktime(w, "lastActive", s->last_active_ms);
    jw_object_end(w);
}

dibs_status api_agent_scores(struct api_ctx *c, const void *input)
{
    struct dibs_score_list list = {0};
    (void)input;
    dibs_status s = dibs_scores(c->d, c->a, &list, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_karray(w, "scores");
    for (size_t i = 0; i < list.count; i++)
        enc_score(w, &list.items[i]);
    jw_array_end(w);
    return DIBS_OK;
}
