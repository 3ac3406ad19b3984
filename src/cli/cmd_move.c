/* SPDX-License-Identifier: MIT */
/*
 * cmd_move.c: dibs block, unblock, cancel, reopen: what people and planners do to a task, whoever
 * holds it.
 *
 * The four differ in a word of the path and in what they are called afterwards.
 */
#include "cli.h"

static const struct cli_option reason_options[] = {
    OPT("reason", 'm', TEXT, "TEXT", "reason", "why; shown in the history"),
    {0},
};

static int move(struct cli *cli, const char *suffix, const char *verb)
{
    const char *id = cli_task_id(cli), *status = NULL;
    json_t *body = NULL, *task = NULL;

    if (id == NULL || !cli_open(cli))
        return cli->exit;
    body = cli_body(cli);
    task = cli_ask(cli, &(struct client_request){.method = "POST",
                                                 .path = cli_path(cli, "/api/tasks/", id, suffix),
                                                 .body = body});
    json_decref(body);
    if (task == NULL)
        return cli->exit;
    if (cli->quiet)
        return 0;
    task = json_object_get(task, "task");
    status = get_text(task, "status");
    printf("%s %s '%s', now ", verb, id, out_safe(cli->arena, get_text(task, "title")));
    out_colour(&cli->out, status_colour(status), status);
    putchar('\n');
    return 0;
}

static int block(struct cli *cli)
{
    return move(cli, "/block", "blocked");
}

static int unblock(struct cli *cli)
{
    return move(cli, "/unblock", "unblocked");
}

static int cancel(struct cli *cli)
{
    return move(cli, "/cancel", "cancelled");
}

static int reopen(struct cli *cli)
{
    return move(cli, "/reopen", "reopened");
}

const struct command move_commands[] = {
    {"block", "Steering", "ID [--reason TEXT]", "keep a task from being claimed",
     "A claim on it ends; the attempt does not count.", reason_options, 1, 1, false, block},
    {"unblock", "Steering", "ID", "take back a block",
     "The task stays blocked while dependencies are unfinished.", NULL, 1, 1, false, unblock},
    {"cancel", "Steering", "ID [--reason TEXT]", "cancel a task",
     "Its holder is told to stop in the next heartbeat.", reason_options, 1, 1, false, cancel},
    {"reopen", "Steering", "ID [--reason TEXT]", "start a finished task again", NULL,
     reason_options, 1, 1, false, reopen},
    {0},
};
