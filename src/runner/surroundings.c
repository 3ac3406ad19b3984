/* SPDX-License-Identifier: MIT */
/*
 * surroundings.c: the environment in which a command runs.
 *
 * It is ours, but for the variables by which dibs speaks to it: they name the task and its claim,
 * and the store, so that a dibs command inside finds the same one and is the same session. A value
 * that does not fit into a variable (the kernel takes 128 KiB) is left out; it is on standard input
 * all the same.
 */
#include <unistd.h>

#include "runner_private.h"

#include "base/str.h"

#define VALUE_BYTES_MAX 100000

extern char **environ;

/* Variables of ours that are replaced or taken away; the others (DIBS_API_KEY ...) stay. */
static const char *const ours[] = {
    "DIBS_TASK_ID", "DIBS_TOKEN",   "DIBS_TYPE",    "DIBS_TITLE",   "DIBS_PARAMS",
    "DIBS_ATTEMPT", "DIBS_SESSION", "DIBS_TRIGGER", "DIBS_PROJECT", "DIBS_CHECKPOINT",
    "DIBS_AGENT",   "DIBS_DATA",    "DIBS_SOCKET",  "DIBS_URL",
};

static bool is_ours(const char *entry)
{
    size_t bytes = strcspn(entry, "=");

    for (size_t i = 0; i < COUNT_OF(ours); i++)
        if (strlen(ours[i]) == bytes && strncmp(ours[i], entry, bytes) == 0)
            return true;
    return false;
}

struct list {
    char **items;
    size_t count;
};

static void add(struct list *to, const char *name, const char *value)
{
    struct buf b;

    if (value == NULL || strlen(value) > VALUE_BYTES_MAX)
        return;
    buf_init(&b, VALUE_BYTES_MAX + 256);
    buf_printf(&b, "%s=%s", name, value);
    to->items[to->count++] = need_detach(&b);
}

static void add_int(struct list *to, const char *name, int64_t value)
{
    char text[32] = "";

    snprintf(text, sizeof text, "%" PRId64, value);
    if (value > 0)
        add(to, name, text);
}

static void add_json(struct list *to, const char *name, const json_t *value)
{
    struct buf b;

    if (value == NULL)
        return;
    buf_init(&b, ANSWER_BYTES_MAX);
    need_dump(&b, value);
    if (buf_ok(&b))
        add(to, name, b.data);
    buf_release(&b);
}

/* add_store: how the same store is reached. */
static void add_store(struct list *to, const struct runner *r)
{
    struct buf b;

    if (r->in->client.url != NULL || r->data_dir == NULL) {
        const char *url = r->in->client.url != NULL ? r->in->client.url : getenv("DIBS_URL");
        add(to, "DIBS_URL", url);
        return;
    }
    add(to, "DIBS_DATA", r->data_dir);
    buf_init(&b, BODY_BYTES_MAX);
    buf_printf(&b, "%s/dibs.sock", r->data_dir);
    if (buf_ok(&b) && access(b.data, F_OK) == 0)
        add(to, "DIBS_SOCKET", b.data);
    buf_release(&b);
}

char **environment_of(const struct runner *r, const struct job *j)
{
    struct list list = {0};
    size_t inherited = 0;

    while (environ[inherited] != NULL)
        inherited++;
    list.items = need_alloc((inherited + COUNT_OF(ours) + 1) * sizeof *list.items);
    for (size_t i = 0; i < inherited; i++)
        if (!is_ours(environ[i]))
            list.items[list.count++] = need_copy(environ[i]);
    add(&list, "DIBS_SESSION", r->session);
    add(&list, "DIBS_TRIGGER", j->trigger);
    add(&list, "DIBS_AGENT", r->agent_id[0] != '\0' ? r->agent_id : NULL);
    add(&list, "DIBS_TASK_ID", j->task_id);
    add_int(&list, "DIBS_TOKEN", j->token);
    add_int(&list, "DIBS_ATTEMPT", j->attempt);
    add(&list, "DIBS_TYPE", json_text(j->task, "type"));
    add(&list, "DIBS_TITLE", json_text(j->task, "title"));
    add(&list, "DIBS_PROJECT", j->task != NULL ? json_text(j->task, "project") : r->in->project);
    add_json(&list, "DIBS_PARAMS", json_object_get(j->task, "params"));
    add_json(&list, "DIBS_CHECKPOINT", job_checkpoint(j));
    add_store(&list, r);
    return list.items;
}

void environment_free(char **envp)
{
    for (size_t i = 0; envp != NULL && envp[i] != NULL; i++)
        mem_free(envp[i]);
    mem_free(envp);
}
