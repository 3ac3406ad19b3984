/* SPDX-License-Identifier: MIT */
/*
 * prompt.c: fills a template: "Fix {{title}} in {{params.file}}".
 *
 * A placeholder is a name in double braces, blanks around it allowed; behind params, metadata,
 * checkpoint, task and trigger a path of member names, or of numbers inside lists. Text is put in
 * as it is, anything else as JSON, what is not there as nothing.
 *
 *   1. What is put in is never looked at again: a title with braces in it is only text.
 *   2. A name that no task can have is refused before anything is claimed.
 *   3. Braces around anything that is no name are left as they are.
 */
#include "runner_private.h"

#include "base/str.h"

#define NAME_BYTES_MAX 256
#define PROMPT_BYTES_MAX (16 * 1024 * 1024)

static const char *const plain[] = {
    "id",       "title", "description", "type",  "phase", "project",
    "priority", "tags",  "attempt",     "token", "agent", "session",
};
static const char *const deep[] = {"params", "metadata", "checkpoint", "task", "trigger"};

/* next_name: the next placeholder from `at` on; false when there is none. */
static bool next_name(const char *at, const char **begin, const char **end,
                      char name[NAME_BYTES_MAX])
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

    for (at = strstr(at, "{{"); at != NULL; at = strstr(at + 1, "{{")) {
        const char *first = at + 2 + strspn(at + 2, " \t");
        size_t bytes = strspn(first, letters);
        const char *close = first + bytes + strspn(first + bytes, " \t");
        if (bytes == 0 || bytes >= NAME_BYTES_MAX || !str_starts(close, "}}"))
            continue;
        memcpy(name, first, bytes);
        name[bytes] = '\0';
        *begin = at;
        *end = close + 2;
        return true;
    }
    return false;
}

static bool is_known(const char *name)
{
    size_t bytes = strcspn(name, ".");

    for (size_t i = 0; i < COUNT_OF(plain); i++)
        if (str_eq(name, plain[i]))
            return true;
    for (size_t i = 0; i < COUNT_OF(deep); i++)
        if (strlen(deep[i]) == bytes && strncmp(name, deep[i], bytes) == 0)
            return true;
    return false;
}

dibs_status prompt_check(const char *text, struct dibs_error *err)
{
    const char *begin = NULL, *end = text;
    char name[NAME_BYTES_MAX] = "";

    while (next_name(end, &begin, &end, name))
        if (!is_known(name))
            return error_set(err, DIBS_INVALID_REQUEST,
                             "the prompt has a placeholder '{{%s}}' that stands for nothing; there "
                             "are id, title, description, type, phase, project, priority, tags, "
                             "attempt, token, agent, session, task, trigger, params.x, metadata.x "
                             "and checkpoint.x",
                             name);
    return DIBS_OK;
}

/* ---- filling in ------------------------------------------------------------------------------ */

/* scope_of: everything that a name may mean, as one object. */
static json_t *scope_of(const struct runner *r, const struct job *j)
{
    json_t *scope = j->task != NULL ? json_copy((json_t *)j->task) : json_object();
    bool bare = j->task == j->json; /* the task alone, not inside a trigger */

    need_json(scope);
    need_set(scope, "trigger",
             bare ? json_pack("{s:s, s:O}", "type", j->trigger, "task", j->json)
                  : json_incref(j->json));
    need_set(scope, "task", j->task != NULL ? json_incref((json_t *)j->task) : json_null());
    if (job_checkpoint(j) != NULL)
        need_set(scope, "checkpoint", json_incref((json_t *)job_checkpoint(j)));
    if (j->task != NULL)
        need_int(scope, "attempt", j->attempt);
    need_int(scope, "token", j->token);
    need_text(scope, "session", r->session);
    need_text(scope, "agent", r->agent_id);
    return scope;
}

/* look_up: what the name means; NULL: nothing. */
static const json_t *look_up(const json_t *scope, char *name)
{
    const json_t *value = scope;
    char *dot = NULL;
    int64_t index = 0;

    for (; value != NULL && name != NULL; name = dot) {
        dot = strchr(name, '.');
        if (dot != NULL)
            *dot++ = '\0';
        if (json_is_array(value))
            value = str_to_int(name, &index) && index >= 0 ? json_array_get(value, (size_t)index)
                                                           : NULL;
        else
            value = json_object_get(value, name);
    }
    return value;
}

char *prompt_fill(const struct runner *r, const struct job *j)
{
    const char *text = r->in->prompt, *begin = NULL, *end = text, *last = text;
    json_t *scope = scope_of(r, j);
    char name[NAME_BYTES_MAX] = "";
    struct buf b;

    buf_init(&b, PROMPT_BYTES_MAX);
    while (next_name(last, &begin, &end, name)) {
        buf_append(&b, last, (size_t)(begin - last));
        const json_t *value = look_up(scope, name);
        if (json_is_string(value))
            buf_text(&b, json_string_value(value));
        else if (value != NULL && !json_is_null(value))
            need_dump(&b, value);
        last = end;
    }
    buf_text(&b, last);
    json_decref(scope);
    if (b.too_large) { /* the whole task, many times over: nothing that could be worked with */
        buf_release(&b);
        return NULL;
    }
    return need_detach(&b);
}
