/* SPDX-License-Identifier: MIT */
/*
 * identity.c: may this key do that? The one place where it is decided, for every operation alike.
 *
 * It looks at the decoded input through the same table of fields that decoded it, so an operation
 * need not know keys: fields flagged FIELD_ACTS name the session that a request acts for, a field
 * called `project` is what a limited key is held to, and the path says what its :id is.
 *
 *   1. A key below the operation's scope is refused (the daemon does so before; this is the second
 *      lock on the door).
 *   2. Who is no admin acts only for sessions that the same key registered. A session that is not
 *      there yet, or has ended, is free to be registered.
 *   3. A key with a project sees that project only. What is elsewhere does not exist for it; an
 *      operation that knows no projects is not for it at all, so a new one is closed until somebody
 *      thinks about it.
 *
 * It runs in the transaction of a writing operation. Nothing here is asked when there is no key.
 */
#include "base/str.h"
#include "core/owner.h"

#include "api_internal.h"

/* What the :id of an operation's path names. */
enum subject { SUBJECT_NONE, SUBJECT_OTHER, SUBJECT_SESSION, SUBJECT_OF_PROJECT };

/* What belongs to a project, and how to find out to which. */
struct belonging {
    const char *path; /* of the operations on one of them */
    const char *word; /* as refusals call it */
    dibs_status missing;
    dibs_status (*project)(dibs *d, dibs_arena *a, const char *id, const char **project,
                           struct dibs_error *err);
};
static const struct belonging belongings[] = {
    {"/api/tasks/:id", "task", DIBS_TASK_NOT_FOUND, dibs__task_project},
    {"/api/agents/:id", "agent", DIBS_AGENT_NOT_FOUND, dibs__agent_project},
    {"/api/inbox/:id", "message", DIBS_MESSAGE_NOT_FOUND, dibs__inbox_project},
    {"/api/channels/:id", "channel", DIBS_CHANNEL_NOT_FOUND, dibs__channel_project},
};
enum { A_TASK, AN_AGENT, A_MESSAGE, A_CHANNEL };

static const struct belonging *belonging_of(const struct api_operation *op)
{
    for (size_t i = 0; i < COUNT_OF(belongings); i++)
        if (str_starts(op->path, belongings[i].path))
            return &belongings[i];
    return NULL;
}

static enum subject subject_of(const struct api_operation *op)
{
    if (strchr(op->path, ':') == NULL)
        return SUBJECT_NONE;
    if (str_starts(op->path, "/api/sessions/:id"))
        return SUBJECT_SESSION;
    return belonging_of(op) != NULL ? SUBJECT_OF_PROJECT : SUBJECT_OTHER;
}

static bool is_elsewhere(const struct api_ctx *c, const char *project)
{
    return c->who->project != NULL && project != NULL && !str_eq(project, c->who->project);
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* session_is_there: a key limited to a project does not learn of sessions elsewhere. */
static dibs_status session_is_there(struct api_ctx *c, const char *id,
                                    const struct dibs_session_owner *owner)
{
    if (!owner->exists || !is_elsewhere(c, owner->project))
        return DIBS_OK;
    return error_set(c->err, DIBS_SESSION_NOT_FOUND, "there is no session '%s'; register it first",
                     id);
}

dibs_status identity_check_acting(struct api_ctx *c, const char *id, bool fresh)
{
    struct dibs_session_owner owner = {0};
    dibs_status s = dibs__session_owner(c->d, c->a, id, &owner, c->err);
    if (s != DIBS_OK || !owner.exists)
        return s;
    if (fresh && is_elsewhere(c, owner.project))
        return error_set(c->err, DIBS_FORBIDDEN, "session id '%s' is taken; choose another", id);
    s = session_is_there(c, id, &owner);
    if (s != DIBS_OK || c->who->role == API_ADMIN || str_eq(owner.key_id, c->who->key_id) ||
        (fresh && owner.ended))
        return s;
    return error_set(c->err, DIBS_FORBIDDEN,
                     "session '%s' was not registered with this key, which cannot act for it", id);
}

static dibs_status check_seeing(struct api_ctx *c, const char *id)
{
    struct dibs_session_owner owner = {0};
    dibs_status s = dibs__session_owner(c->d, c->a, id, &owner, c->err);
    return s == DIBS_OK ? session_is_there(c, id, &owner) : s;
}

/*
 * identity_trim: a session of the key's project may also work elsewhere; of that nothing is told.
 */
void identity_trim(struct api_ctx *c, struct dibs_session *s)
{
    struct dibs_error unheard = {0};
    size_t kept = 0;
    if (c->who->project == NULL)
        return;
    if (s->current != NULL && is_elsewhere(c, s->current->task.project))
        s->current = NULL;
    for (size_t i = 0; i < s->history.count; i++) {
        const char *project = NULL, *task = s->history.items[i].task_id;
        if (task != NULL && dibs__task_project(c->d, c->a, task, &project, &unheard) == DIBS_OK &&
            project != NULL && !is_elsewhere(c, project))
            s->history.items[kept++] = s->history.items[i];
    }
    s->history.count = kept;
}

/* identity_trim_message: whoever sees all projects may make a message of one a task of another. */
void identity_trim_message(struct api_ctx *c, struct dibs_message *m)
{
    struct dibs_error unheard = {0};
    const char *project = NULL;
    if (c->who->project == NULL || m->task_id == NULL)
        return;
    if (dibs__task_project(c->d, c->a, m->task_id, &project, &unheard) != DIBS_OK ||
        project == NULL || is_elsewhere(c, project))
        m->task_id = NULL;
}

/* ---- what belongs to a project --------------------------------------------------------------- */

/* check_here: for a key with a project; what is elsewhere does not exist for it. */
static dibs_status check_here(struct api_ctx *c, const struct belonging *b, const char *id)
{
    const char *project = NULL;
    dibs_status s = b->project(c->d, c->a, id, &project, c->err);
    if (s != DIBS_OK || !is_elsewhere(c, project))
        return s;
    return error_set(c->err, b->missing, "there is no %s '%s'", b->word, id);
}

static dibs_status check_all_here(struct api_ctx *c, const struct belonging *b,
                                  const struct dibs_strings *ids)
{
    dibs_status s = DIBS_OK;
    for (size_t i = 0; ids != NULL && s == DIBS_OK && i < ids->count; i++)
        s = check_here(c, b, ids->items[i]);
    return s;
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* hold_to_project: none given means the key's own. */
static dibs_status hold_to_project(struct api_ctx *c, const char **project)
{
    if (*project == NULL || **project == '\0')
        *project = c->who->project;
    if (!is_elsewhere(c, *project))
        return DIBS_OK;
    return error_set(c->err, DIBS_FORBIDDEN, "this key is for project '%s' only", c->who->project);
}

static dibs_status check_struct(struct api_ctx *c, const struct api_shape *shape, void *input);

/* named_by: what the key must be able to see to name it in this field; NULL: nothing. */
static const struct belonging *named_by(const struct field *f)
{
    if (str_eq(f->name, "agentId") || str_eq(f->name, "assignee") || str_eq(f->name, "offeredTo"))
        return &belongings[AN_AGENT];
    if (str_eq(f->name, "channelIds"))
        return &belongings[A_CHANNEL];
    return f->flags & FIELD_IDS ? &belongings[A_TASK] : NULL;
}

/* check_field: what a field says about sessions and, for a key with a project, about projects. */
static dibs_status check_field(struct api_ctx *c, const struct field *f, void *at)
{
    if (f->flags & FIELD_ACTS) {
        const char *id = *(const char **)at;
        return id != NULL ? identity_check_acting(c, id, (f->flags & FIELD_FRESH) != 0) : DIBS_OK;
    }
    if (f->kind == FIELD_OBJECT)
        return *(void **)at != NULL ? check_struct(c, f->of, *(void **)at) : DIBS_OK;
    if (c->who->project == NULL)
        return DIBS_OK;
    if (str_eq(f->name, "project"))
        return hold_to_project(c, at);
    const struct belonging *b = named_by(f);
    if (b == NULL)
        return DIBS_OK;
    if (f->kind == FIELD_STRINGS)
        return check_all_here(c, b, f->flags & FIELD_REF ? *(const struct dibs_strings **)at : at);
    return *(const char **)at != NULL ? check_here(c, b, *(const char **)at) : DIBS_OK;
}

static dibs_status check_struct(struct api_ctx *c, const struct api_shape *shape, void *input)
{
    dibs_status s = DIBS_OK;
    for (size_t i = 0; s == DIBS_OK && i < shape->count; i++)
        s = check_field(c, &shape->fields[i], (char *)input + shape->fields[i].at);
    return s;
}

static dibs_status check_input(struct api_ctx *c, const struct api_shape *shape, void *input)
{
    if (!shape->many)
        return check_struct(c, shape, input);
    const struct api_many *many = input;
    dibs_status s = DIBS_OK;
    for (size_t i = 0; s == DIBS_OK && i < many->count; i++)
        s = check_struct(c, shape, (char *)many->items + i * shape->bytes);
    return s;
}

/* ---- the whole request ----------------------------------------------------------------------- */

/* check_new_id: an id names one agent, message or channel in all projects. (Of tasks the library
 * itself says that there is one.) */
static dibs_status check_new_id(struct api_ctx *c, const struct route *r, void *input)
{
    const struct field *f = decode_find(r->in, "id");
    const char *project = NULL;
    size_t bytes = strlen(r->op->path);
    for (size_t i = AN_AGENT; f != NULL && i < COUNT_OF(belongings); i++) {
        const struct belonging *b = &belongings[i];
        const char *id = *(const char **)((char *)input + f->at);
        bool makes_one = str_starts(b->path, r->op->path) && str_eq(b->path + bytes, "/:id");
        dibs_status s =
            makes_one && id != NULL ? b->project(c->d, c->a, id, &project, c->err) : DIBS_OK;
        if (s != DIBS_OK)
            return s;
        if (is_elsewhere(c, project))
            return error_set(c->err, DIBS_FORBIDDEN, "%s id '%s' is taken; choose another", b->word,
                             id);
    }
    return DIBS_OK;
}

static dibs_status check_subject(struct api_ctx *c, const struct route *r, void *input)
{
    switch (subject_of(r->op)) {
    case SUBJECT_OF_PROJECT:
        return c->who->project != NULL ? check_here(c, belonging_of(r->op), r->id) : DIBS_OK;
    case SUBJECT_SESSION:
        return r->op->access == API_WRITES ? identity_check_acting(c, r->id, false)
                                           : check_seeing(c, r->id);
    case SUBJECT_NONE: return r->in->many ? DIBS_OK : check_new_id(c, r, input);
    case SUBJECT_OTHER: return DIBS_OK;
    }
    return DIBS_OK;
}

/* knows_projects: whether a key with a project can be held to it in this operation. What only
 * admins may do concerns the whole store: a new key has a project, but is not made in it. */
static bool knows_projects(const struct route *r)
{
    enum subject subject = subject_of(r->op);
    if (r->op->scope == API_ADMIN)
        return false;
    if (subject != SUBJECT_NONE)
        return subject != SUBJECT_OTHER;
    /* what names an agent, or tasks, is held to them */
    return decode_find(r->in, "project") != NULL || decode_find(r->in, "agentId") != NULL ||
           decode_find(r->in, "taskIds") != NULL;
}

dibs_status identity_check(struct api_ctx *c, const struct route *r, void *input)
{
    const struct api_identity *who = c->who;
    if (who->role < r->op->scope)
        return error_set(c->err, DIBS_FORBIDDEN, "this needs a key with role '%s'",
                         api_scope_name(r->op->scope));
    if (who->project != NULL && !knows_projects(r))
        return error_set(c->err, DIBS_FORBIDDEN,
                         "this key is for project '%s' only, and this concerns all projects",
                         who->project);
    dibs_status s = check_subject(c, r, input);
    return s == DIBS_OK ? check_input(c, r->in, input) : s;
}

/* ---- sessions get their owner ---------------------------------------------------------------- */

dibs_status api_register(struct api_ctx *c, const struct dibs_session_new *in,
                         struct dibs_session *out)
{
    /* a number without a machine would be looked for among the processes of this one */
    if (c->who->remote && in->pid != 0 && in->host == NULL)
        return error_field(c->err, "host", "is required with a pid from another machine");
    dibs_status s = dibs_session_register(c->d, c->a, in, out, c->err);
    if (s == DIBS_OK && c->who->key_id != NULL)
        s = dibs__session_set_owner(c->d, c->a, out->id, c->who->key_id, c->err);
    return s;
}
