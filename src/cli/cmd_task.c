/* SPDX-License-Identifier: MIT */
/*
 * cmd_task.c: dibs task add, list, show, edit.
 *
 * The options that describe a task are one list, used by add and by edit: each row names the field
 * of the request that it fills in, so the functions here only choose the request and lay out the
 * answer.
 */
#include "cli.h"

#include "base/str.h"

/* ---- add ------------------------------------------------------------------------------------- */

#define TASK_OPTIONS                                                                               \
    OPT("description", 0, TEXT, "TEXT", "description", "what is to be done, at length"),           \
        OPT("type", 0, TEXT, "TYPE", "type", "kind of work; claim --type asks for it"),            \
        OPT("phase", 0, TEXT, "PHASE", "phase", "phase of the project"),                           \
        OPT("priority", 'p', PRIORITY, "N", "priority",                                            \
            "0 to 100, or critical, high, medium, low; larger is sooner"),                         \
        OPT("tag", 't', LIST, "TAG", "tags", "a tag; may be given several times"),                 \
        OPT("param", 0, PAIR, "KEY=VALUE", "params",                                               \
            "what the worker needs; VALUE is JSON if it can be read so, else text"),               \
        OPT("params", 0, JSON, "JSON", "params", "all params at once"),                            \
        OPT("metadata", 0, JSON, "JSON", "metadata", "whatever you like"),                         \
        OPT("depends-on", 0, LIST, "ID", "dependsOn",                                              \
            "a task that must be completed first; may be given several times"),                    \
        OPT("run-after", 0, TIME, "TIME", "runAfter",                                              \
            "not to be claimed before: 2030-01-31T12:00:00Z, or +10m"),                            \
        OPT("max-attempts", 0, INT, "N", "maxAttempts",                                            \
            "claims after which it counts as failed; 0: no limit"),                                \
        OPT("claim-timeout", 0, DURATION, "DURATION", "claimTimeoutMs",                            \
            "lease of a claim that names none")

static const struct cli_option add_options[] = {
    OPT("id", 0, TEXT, "ID", "id", "its id; otherwise the next number"),
    TASK_OPTIONS,
    OPT("assignee", 0, TEXT, "AGENT", "assignee", "assigned to this agent from the start"),
    OPT("dedupe-key", 0, TEXT, "KEY", "dedupeKey",
        "while an unfinished task has this key, that one is meant"),
    OPT("idempotency-key", 0, TEXT, "KEY", NULL,
        "a repeat with the same key answers as the first time"),
    {0},
};

static int task_add(struct cli *cli)
{
    const char *verb = "added";
    json_t *body = NULL, *task = NULL;

    if (!cli_open(cli))
        return cli->exit;
    body = cli_body(cli);
    must_set(body, "title", must_json(json_string(cli->args.words[0])));
    if (cli->project != NULL)
        must_set(body, "project", must_json(json_string(cli->project)));
    task = cli_ask(
        cli, &(struct client_request){.method = "POST",
                                      .path = "/api/tasks",
                                      .body = body,
                                      .idempotency_key = args_text(&cli->args, "idempotency-key")});
    json_decref(body);
    if (task == NULL)
        return cli->exit;
    task = json_object_get(task, "task");
    if (cli->quiet) {
        printf("%s\n", get_id(cli->arena, task, "id"));
        return 0;
    }
    if (json_is_true(json_object_get(task, "deduplicated")))
        verb = "already there:";
    printf("%s %s '%s' (%s, priority %" PRId64 ")\n", verb, get_id(cli->arena, task, "id"),
           out_safe(cli->arena, get_text(task, "title")), get_text(task, "status"),
           get_int(task, "priority"));
    return 0;
}

/* ---- list ------------------------------------------------------------------------------------ */

static const struct cli_option list_options[] = {
    OPT("status", 0, TEXT, "A,B", "status", "only these; unfinished ones if not given"),
    OPT("all", 'a', FLAG, NULL, NULL, "finished ones too"),
    OPT("type", 0, TEXT, "TYPE", "type", "only of this type"),
    OPT("phase", 0, TEXT, "PHASE", "phase", "only of this phase"),
    OPT("tag", 't', TEXT, "TAG", "tag", "only with this tag"),
    OPT("assignee", 0, TEXT, "AGENT", "assignee", "only assigned to this agent"),
    OPT("session", 0, TEXT, "ID", "sessionId", "only held by this session"),
    OPT("limit", 'n', INT, "N", "limit", "at most so many, 100 if not given"),
    OPT("cursor", 0, TEXT, "CURSOR", "cursor", "go on where the page before ended"),
    {0},
};

static const struct column list_columns[] = {
    {"ID", false, false},   {"STATUS", false, false},  {"PRI", true, false}, {"TYPE", false, false},
    {"TITLE", false, true}, {"HELD BY", false, false}, {"AGE", true, false},
};

static void print_ids(struct cli *cli, const json_t *list, const char *key)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        printf("%s\n", out_safe(cli->arena, get_id(cli->arena, json_array_get(list, i), key)));
}

static const char *age(struct cli *cli, const json_t *task)
{
    const char *when = out_when(&cli->out, cli->arena, get_text(task, "createdAt"));

    return must_copy(cli->arena, when, strcspn(when, " "));
}

static void print_list(struct cli *cli, const json_t *tasks)
{
    struct table t;

    table_init(&t, cli->arena, list_columns, COUNT_OF(list_columns));
    for (size_t i = 0; i < json_array_size(tasks); i++) {
        const json_t *task = json_array_get(tasks, i);
        const char *status = get_text(task, "status");
        table_cell(&t, CYAN, get_id(cli->arena, task, "id"));
        table_cell(&t, status_colour(status), status);
        table_int(&t, get_int(task, "priority"));
        table_cell(&t, PLAIN, get_text(task, "type"));
        table_cell(&t, PLAIN, get_text(task, "title"));
        table_cell(&t, PLAIN, get_text(json_object_get(task, "claim"), "sessionId"));
        table_cell(&t, DIM, age(cli, task));
    }
    table_print(&t, &cli->out);
}

static int task_list(struct cli *cli)
{
    static const char unfinished[] = "status=open,offered,reviewing,assigned,in_progress,blocked";
    const char *query = cli_query(cli, true), *cursor = NULL;
    bool everything = args_has(&cli->args, "all");
    json_t *answer = NULL, *tasks = NULL;

    if (everything && args_has(&cli->args, "status"))
        return cli_usage(cli, "--all and --status exclude each other");
    if (!everything && !args_has(&cli->args, "status"))
        query = must_printf(cli->arena, "%s%s%s", unfinished, query[0] != '\0' ? "&" : "", query);
    answer = cli_ask(
        cli, &(struct client_request){.method = "GET", .path = "/api/tasks", .query = query});
    if (answer == NULL)
        return cli->exit;
    tasks = json_object_get(answer, "tasks");
    cursor = get_text(answer, "nextCursor");
    if (cli->quiet)
        print_ids(cli, tasks, "id");
    else if (json_array_size(tasks) == 0)
        printf("no tasks%s\n", everything || args_has(&cli->args, "status") ? "" : " to do");
    else
        print_list(cli, tasks);
    if (cursor != NULL)
        cli_hint(cli, "there are more: repeat with --cursor %s", cursor);
    return 0;
}

/* ---- show ------------------------------------------------------------------------------------ */

static const struct cli_option show_options[] = {
    OPT("history", 0, FLAG, NULL, NULL, "everything that happened to it, and its attempts"),
    {0},
};

static void show_claim(struct cli *cli, const json_t *claim)
{
    const json_t *progress = json_object_get(claim, "progress");
    dibs_arena *a = cli->arena;

    if (claim == NULL)
        return;
    show_line(cli, "held by", get_text(claim, "sessionId"));
    show_line(cli, "token", must_printf(a, "%" PRId64, get_int(claim, "token")));
    show_line(cli, "claimed", out_when(&cli->out, a, get_text(claim, "claimedAt")));
    show_line(cli, "expires", out_when(&cli->out, a, get_text(claim, "expiresAt")));
    show_line(cli, "health", get_text(claim, "healthStatus"));
    if (progress != NULL) {
        const char *message = get_text(progress, "message");
        show_line(cli, "progress",
                  must_printf(a, "%" PRId64 "%%%s%s", get_int(progress, "percent"),
                              message != NULL ? ", " : "", message != NULL ? message : ""));
    }
    show_line(cli, "checkpoint", value_line(a, json_object_get(claim, "checkpoint")));
}

static void show_relations(struct cli *cli, const json_t *task)
{
    dibs_arena *a = cli->arena;

    show_line(cli, "tags", list_line(a, json_object_get(task, "tags")));
    show_line(cli, "depends on", list_line(a, json_object_get(task, "dependsOn")));
    show_line(cli, "waiting on", list_line(a, json_object_get(task, "waitingOn")));
    show_line(cli, "failed deps", list_line(a, json_object_get(task, "failedDependencies")));
    show_line(cli, "block reason", get_text(task, "blockReason"));
    show_line(cli, "assignee", get_text(task, "assignee"));
    show_line(cli, "offered to", get_text(task, "offeredTo"));
    if (get_text(task, "offeredAt") != NULL)
        show_line(cli, "offered", out_when(&cli->out, a, get_text(task, "offeredAt")));
}

static void show_task(struct cli *cli, const json_t *task)
{
    dibs_arena *a = cli->arena;
    const char *status = get_text(task, "status");
    int64_t most = get_int(task, "maxAttempts");

    out_colour(&cli->out, BOLD, out_safe(a, get_id(a, task, "id")));
    printf("  %s  ", out_safe(a, get_text(task, "title")));
    out_colour(&cli->out, status_colour(status), status);
    putchar('\n');
    show_line(cli, "project", get_text(task, "project"));
    show_line(cli, "type", get_text(task, "type"));
    show_line(cli, "phase", get_text(task, "phase"));
    show_line(cli, "priority", must_printf(a, "%" PRId64, get_int(task, "priority")));
    show_relations(cli, task);
    show_line(cli, "attempts",
              most > 0 ? must_printf(a, "%" PRId64 " of %" PRId64, get_int(task, "attempts"), most)
                       : must_printf(a, "%" PRId64, get_int(task, "attempts")));
    show_line(cli, "params", value_line(a, json_object_get(task, "params")));
    show_line(cli, "metadata", value_line(a, json_object_get(task, "metadata")));
    if (get_text(task, "runAfter") != NULL)
        show_line(cli, "run after", out_when(&cli->out, a, get_text(task, "runAfter")));
    show_line(cli, "created", out_when(&cli->out, a, get_text(task, "createdAt")));
    if (get_text(task, "finishedAt") != NULL)
        show_line(cli, "finished", out_when(&cli->out, a, get_text(task, "finishedAt")));
    if (get_text(task, "notifiedAt") != NULL)
        show_line(cli, "lead told", out_when(&cli->out, a, get_text(task, "notifiedAt")));
    show_line(cli, "version", must_printf(a, "%" PRId64, get_int(task, "version")));
    show_claim(cli, json_object_get(task, "claim"));
    show_line(cli, "result", value_line(a, json_object_get(task, "result")));
    show_line(cli, "error", get_text(task, "error"));
    show_line(cli, "description", get_text(task, "description"));
}

static const struct column attempt_columns[] = {
    {"TOKEN", true, false}, {"SESSION", false, false}, {"CLAIMED", false, false},
    {"HELD", true, false},  {"ENDED", false, false},
};
static const struct column history_columns[] = {
    {"EVENT", true, false},    {"WHEN", false, false}, {"TYPE", false, false},
    {"SESSION", false, false}, {"WHAT", false, true},
};

static void show_history(struct cli *cli, const json_t *answer)
{
    const json_t *events = json_object_get(answer, "events");
    const json_t *attempts = json_object_get(answer, "attempts");
    dibs_arena *a = cli->arena;
    struct table t;

    table_init(&t, a, history_columns, COUNT_OF(history_columns));
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        table_int(&t, get_int(e, "id"));
        table_cell(&t, PLAIN, out_when(&cli->out, a, get_text(e, "at")));
        table_cell(&t, CYAN, get_text(e, "type"));
        table_cell(&t, PLAIN, get_text(e, "sessionId"));
        table_cell(&t, PLAIN, value_line(a, json_object_get(e, "data")));
    }
    table_print(&t, &cli->out);
    if (json_array_size(attempts) == 0)
        return;
    putchar('\n');
    table_init(&t, a, attempt_columns, COUNT_OF(attempt_columns));
    for (size_t i = 0; i < json_array_size(attempts); i++) {
        const json_t *c = json_array_get(attempts, i);
        bool live = get_text(c, "endedAt") == NULL;
        table_int(&t, get_int(c, "token"));
        table_cell(&t, PLAIN, get_text(c, "sessionId"));
        table_cell(&t, PLAIN, out_when(&cli->out, a, get_text(c, "claimedAt")));
        table_cell(&t, PLAIN, live ? NULL : out_span(a, get_int(c, "heldMs")));
        table_cell(&t, PLAIN, live ? "held" : get_text(c, "endReason"));
    }
    table_print(&t, &cli->out);
}

static int task_show(struct cli *cli)
{
    bool history = args_has(&cli->args, "history");
    const char *id = cli_task_id(cli);
    const json_t *answer = NULL;

    if (id == NULL)
        return cli->exit;
    answer = cli_ask(cli, &(struct client_request){
                              .method = "GET",
                              .path = cli_path(cli, "/api/tasks/", id, history ? "/history" : "")});
    if (answer == NULL)
        return cli->exit;
    if (history)
        show_history(cli, answer);
    else
        show_task(cli, json_object_get(answer, "task"));
    return 0;
}

/* ---- edit ------------------------------------------------------------------------------------ */

static const struct cli_option edit_options[] = {
    OPT("title", 0, TEXT, "TEXT", "title", "what is to be done, in one line"),
    TASK_OPTIONS,
    OPT("version", 0, INT, "N", "version", "refuse unless it still has this version"),
    {0},
};

/* merge_params: single params are put into those that the task has, in the version just read. */
static bool merge_params(struct cli *cli, const char *path, json_t *body)
{
    json_t *task = NULL, *params = NULL, *given = json_object_get(body, "params");

    if (!args_has(&cli->args, "param") || args_has(&cli->args, "params"))
        return true;
    if (!cli_call(cli, &(struct client_request){.method = "GET", .path = path}))
        return false;
    if (cli->answer.status != DIBS_OK)
        return true; /* the change itself will be refused with the reason */
    task = json_object_get(cli->answer.json, "task");
    params = json_object_get(task, "params");
    if (json_is_object(params)) {
        params = must_json(json_copy(params));
        if (json_object_update(params, given) != 0)
            must_fail();
        must_set(body, "params", params);
    }
    if (!args_has(&cli->args, "version"))
        must_set(body, "version", must_json(json_integer(get_int(task, "version"))));
    return true;
}

static int task_edit(struct cli *cli)
{
    const char *id = cli_task_id(cli);
    const char *path = NULL;
    json_t *body = NULL, *answer = NULL;

    if (id == NULL || !cli_open(cli))
        return cli->exit;
    path = cli_path(cli, "/api/tasks/", id, "");
    body = cli_body(cli);
    if (json_object_size(body) == 0) {
        json_decref(body);
        return cli_usage(cli,
                         "nothing to change; give at least one option, see: dibs help task edit");
    }
    if (merge_params(cli, path, body))
        answer =
            cli_ask(cli, &(struct client_request){.method = "PATCH", .path = path, .body = body});
    json_decref(body);
    if (answer == NULL)
        return cli->exit;
    answer = json_object_get(answer, "task");
    if (cli->quiet)
        printf("%s\n", get_id(cli->arena, answer, "id"));
    else
        printf("changed %s '%s' (version %" PRId64 ")\n", get_id(cli->arena, answer, "id"),
               out_safe(cli->arena, get_text(answer, "title")), get_int(answer, "version"));
    return 0;
}

const struct command task_commands[] = {
    {"task add", "Tasks", "TITLE [options]", "add a task",
     "Prints its id. A task with unfinished dependencies is blocked until the last of them is "
     "completed.",
     add_options, 1, 1, false, task_add},
    {"task list", "Tasks", "[options]", "list tasks, oldest first",
     "Shows what is not finished, unless --all or --status say otherwise.", list_options, 0, 0,
     false, task_list},
    {"task show", "Tasks", "ID [--history]", "show one task, or its history", NULL, show_options, 1,
     1, false, task_show},
    {"task edit", "Tasks", "ID [options]", "change a task",
     "An empty value clears a text; one empty --tag or --depends-on empties the list. --param "
     "changes single "
     "params and keeps the others.",
     edit_options, 1, 1, false, task_edit},
    {0},
};
