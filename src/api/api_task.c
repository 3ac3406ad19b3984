/* SPDX-License-Identifier: MIT */
/*
 * api_task.c: tasks: create, list, show, change, history.
 *
 * The tables here are also the description of a task as callers write it. POST takes one task or a
 * list of them; PATCH takes the fields to change, where null empties a field.
 */
#include "api_internal.h"
#include "base/str.h"

#define MINUTES_MAX (7 * 24 * 60) /* the library has the last word on how long a lease may be */

/* ---- create ---------------------------------------------------------------------------------- */

#define IN struct dibs_task_new
static const struct field new_fields[] = {
    FIELD("id", ID, id, .doc = "Chosen by the caller; otherwise the next number"),
    FIELD("project", TEXT, project, .max = WORD_BYTES_MAX,
          .doc = "Name space of the task; 'default' if not given"),
    FIELD("title", TEXT, title, .flags = FIELD_REQUIRED, .max = TITLE_BYTES_MAX,
          .doc = "What is to be done, in one line"),
    FIELD("description", TEXT, description, .max = DESCRIPTION_BYTES_MAX,
          .doc = "What is to be done, at length"),
    FIELD("type", TEXT, type, .max = WORD_BYTES_MAX,
          .doc = "Kind of work; claim-next can ask for some kinds only"),
    FIELD("phase", TEXT, phase, .max = WORD_BYTES_MAX, .doc = "Phase of the project it is part of"),
    FIELD("priority", PRIORITY, priority, .flags = FIELD_OPT, .min = PRIORITY_MIN,
          .max = PRIORITY_MAX, .doc = "0 to 100 or critical, high, medium, low; larger is sooner"),
    FIELD("maxAttempts", INT, max_attempts, .flags = FIELD_OPT, .max = MAX_ATTEMPTS_MAX,
          .doc = "Claims after which it counts as failed; 0: no limit, standard 3"),
    FIELD("tags", STRINGS, tags, .max = TAGS_MAX, .doc = "Words to filter by"),
    FIELD("dependsOn", STRINGS, depends_on, .flags = FIELD_IDS, .max = DEPENDENCIES_MAX,
          .doc = "Tasks that must be completed before this one can be claimed"),
    FIELD("params", JSON, params, .doc = "What the worker needs to know"),
    FIELD("metadata", JSON, metadata, .doc = "Whatever the caller likes"),
    FIELD("assignee", ID, assignee, .doc = "Agent that it is assigned to from the start"),
    FIELD("offeredTo", ID, offered_to, .doc = "Agent that it is offered to from the start"),
    FIELD("runAfter", TIME, run_after_ms, .doc = "Not to be claimed before this time"),
    FIELD("claimTimeoutMs", INT, claim_timeout_ms, .min = 1,
          .doc = "Lease of a claim that names none"),
    FIELD("claimTimeoutMinutes", MINUTES, claim_timeout_ms, .flags = FIELD_HIDDEN, .min = 1,
          .max = MINUTES_MAX, .doc = "claimTimeoutMs in minutes"),
    FIELD("dedupeKey", TEXT, dedupe_key, .max = KEY_BYTES_MAX,
          .doc = "While an unfinished task of the project has it, that one is returned instead"),
};
#undef IN
const struct api_shape api_in_task_create =
    SHAPE(struct dibs_task_new, new_fields, .id_at = SHAPE_NO_ID, .many = true);

dibs_status api_task_create(struct api_ctx *c, const void *input)
{
    const struct api_many *in = input;
    struct dibs_task_list list = {0};
    dibs_status s = dibs_task_create(c->d, c->a, in->items, in->count, &list, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    c->http = !in->was_list && list.items[0].deduplicated ? 200 : 201;
    if (!in->was_list) {
        jw_key(w, "task");
        enc_task(w, &list.items[0]);
        return DIBS_OK;
    }
    jw_karray(w, "tasks");
    for (size_t i = 0; i < list.count; i++)
        enc_task(w, &list.items[i]);
    jw_array_end(w);
    return DIBS_OK;
}

/* ---- list ------------------------------------------------------------------------------------ */

struct list_in {
    struct dibs_task_filter filter;
    struct dibs_strings status;
};
#define IN struct list_in
static const struct field list_fields[] = {
    FIELD("status", STRINGS, status,
          .doc = "Any of these, separated by commas: open, blocked, in_progress, ..."),
    FIELD("type", TEXT, filter.type, .max = WORD_BYTES_MAX, .doc = "Tasks of this type"),
    FIELD("project", TEXT, filter.project, .max = WORD_BYTES_MAX, .doc = "Tasks of this project"),
    FIELD("phase", TEXT, filter.phase, .max = WORD_BYTES_MAX, .doc = "Tasks of this phase"),
    FIELD("tag", TEXT, filter.tag, .max = WORD_BYTES_MAX, .doc = "Tasks that have this tag"),
    FIELD("assignee", ID, filter.assignee, .doc = "Tasks assigned to this agent"),
    FIELD("sessionId", ID, filter.session_id, .doc = "Tasks that this session holds"),
    FIELD("cursor", TEXT, filter.cursor, .doc = "nextCursor of the page before"),
    FIELD("limit", INT, filter.limit, .min = 1, .max = PAGE_MAX,
          .doc = "Tasks per page, 100 if not given"),
};
#undef IN
const struct api_shape api_in_task_list = SHAPE(struct list_in, list_fields, .id_at = SHAPE_NO_ID);

/* read_statuses: words to statuses; "pending" is said of open and of assigned tasks alike. */
static dibs_status read_statuses(struct api_ctx *c, struct dibs_strings words,
                                 struct dibs_task_filter *out)
{
    enum dibs_task_status *list = arena_alloc(c->a, (2 * words.count + 1) * sizeof *list);
    if (list == NULL)
        return error_set(c->err, DIBS_OUT_OF_MEMORY, "cannot read the request: out of memory");
    for (size_t i = 0; i < words.count; i++) {
        if (!dibs_task_status_parse(words.items[i], &list[out->status_count]))
            return error_field(c->err, "status", "has no value '%.40s'", words.items[i]);
        out->status_count++;
        if (str_eq_nocase(words.items[i], "pending"))
            list[out->status_count++] = DIBS_TASK_ASSIGNED;
    }
    out->statuses = list;
    return DIBS_OK;
}

dibs_status api_task_list(struct api_ctx *c, const void *input)
{
    const struct list_in *in = input;
    struct dibs_task_filter filter = in->filter;
    struct dibs_task_list list = {0};
    dibs_status s = read_statuses(c, in->status, &filter);
    if (s == DIBS_OK)
        s = dibs_task_list(c->d, c->a, &filter, &list, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_karray(w, "tasks");
    for (size_t i = 0; i < list.count; i++)
        enc_task(w, &list.items[i]);
    jw_array_end(w);
    jw_ktext_opt(w, "nextCursor", list.next_cursor);
    return DIBS_OK;
}

/* ---- one task -------------------------------------------------------------------------------- */

struct id_in {
    const char *id;
};
const struct api_shape api_in_task_get = SHAPE_ID_ONLY(struct id_in, id);

dibs_status api_task_get(struct api_ctx *c, const void *input)
{
    const struct id_in *in = input;
    struct dibs_task task = {0};
    dibs_status s = dibs_task_get(c->d, c->a, in->id, &task, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_key(w, "task");
    enc_task(w, &task);
    return DIBS_OK;
}

#define IN struct dibs_task_edit
static const struct field edit_fields[] = {
    FIELD("version", INT, version, .flags = FIELD_OPT | FIELD_KEEP, .min = 1,
          .doc = "Refuse the change unless the task still has this version"),
    FIELD("title", TEXT, title, .max = TITLE_BYTES_MAX, .doc = "What is to be done, in one line"),
    FIELD("description", TEXT, description, .max = DESCRIPTION_BYTES_MAX,
          .doc = "What is to be done, at length"),
    FIELD("type", TEXT, type, .max = WORD_BYTES_MAX, .doc = "Kind of work"),
    FIELD("phase", TEXT, phase, .max = WORD_BYTES_MAX, .doc = "Phase of the project it is part of"),
    FIELD("params", JSON, params, .doc = "What the worker needs to know"),
    FIELD("metadata", JSON, metadata, .doc = "Whatever the caller likes"),
    FIELD("priority", PRIORITY, priority, .flags = FIELD_OPT, .min = PRIORITY_MIN,
          .max = PRIORITY_MAX, .reset = PRIORITY_DEFAULT,
          .doc = "0 to 100 or critical, high, medium, low; larger is sooner"),
    FIELD("maxAttempts", INT, max_attempts, .flags = FIELD_OPT, .max = MAX_ATTEMPTS_MAX,
          .reset = MAX_ATTEMPTS_DEFAULT, .doc = "Claims after which it counts as failed"),
    FIELD("runAfter", TIME, run_after_ms, .flags = FIELD_OPT,
          .doc = "Not to be claimed before this time"),
    FIELD("claimTimeoutMs", INT, claim_timeout_ms, .flags = FIELD_OPT,
          .doc = "Lease of a claim that names none; 0: the store's setting"),
    FIELD("claimTimeoutMinutes", MINUTES, claim_timeout_ms, .flags = FIELD_OPT | FIELD_HIDDEN,
          .max = MINUTES_MAX, .doc = "claimTimeoutMs in minutes"),
    FIELD("tags", STRINGS, tags, .flags = FIELD_REF, .max = TAGS_MAX,
          .doc = "Words to filter by, in place of those it has"),
    FIELD("dependsOn", STRINGS, depends_on, .flags = FIELD_REF | FIELD_IDS, .max = DEPENDENCIES_MAX,
          .doc = "What it waits for, in place of what it has"),
};
#undef IN
const struct api_shape api_in_task_update =
    SHAPE(struct dibs_task_edit, edit_fields, .id_at = offsetof(struct dibs_task_edit, id),
          .null_clears = true);

dibs_status api_task_update(struct api_ctx *c, const void *input)
{
    struct dibs_task task = {0};
    dibs_status s = dibs_task_update(c->d, c->a, input, &task, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_key(w, "task");
    enc_task(w, &task);
    return DIBS_OK;
}

/* ---- history --------------------------------------------------------------------------------- */

const struct api_shape api_in_task_history = SHAPE_ID_ONLY(struct id_in, id);

dibs_status api_task_history(struct api_ctx *c, const void *input)
{
    const struct id_in *in = input;
    struct dibs_history history = {0};
    dibs_status s = dibs_task_history(c->d, c->a, in->id, &history, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_ktext(w, "taskId", in->id);
    jw_karray(w, "events");
    for (size_t i = 0; i < history.event_count; i++)
        enc_event(w, &history.events[i]);
    jw_array_end(w);
    jw_karray(w, "attempts");
    for (size_t i = 0; i < history.attempt_count; i++)
        enc_claim(w, &history.attempts[i]);
    jw_array_end(w);
    return DIBS_OK;
}
