/* SPDX-License-Identifier: MIT */
/*
 * cmd_offer.c: dibs offer, accept, reject, assign: handing a task to one agent.
 *
 * The four differ in a word of the path and in where the agent stands: who hands out names it
 * behind the task, who answers is that agent (--agent or DIBS_AGENT). Whether poll has made the
 * offer a review in between does not matter to anybody here.
 */
#include "cli.h"

#define AGENT_OPTION OPT("agent", 0, TEXT, "AGENT", NULL, "whom it is offered to (else DIBS_AGENT)")

static const struct cli_option accept_options[] = {AGENT_OPTION, {0}};
static const struct cli_option reject_options[] = {
    AGENT_OPTION,
    OPT("reason", 'm', TEXT, "TEXT", "reason", "why not; shown to whoever offers it next"),
    {0},
};

/* hand: puts the move and says what has become of the task. */
static int hand(struct cli *cli, const char *suffix, const char *agent, const char *verb)
{
    const char *id = cli_task_id(cli), *status = NULL;
    json_t *body = NULL;
    const json_t *task = NULL;

    if (id == NULL || !cli_open(cli))
        return cli->exit;
    body = cli_body(cli);
    must_set(body, "agentId", must_json(json_string(agent)));
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
    printf("%s %s '%s' %s %s, now ", verb, out_safe(cli->arena, id),
           out_safe(cli->arena, get_text(task, "title")), cli->args.word_count > 1 ? "to" : "for",
           out_safe(cli->arena, agent));
    out_colour(&cli->out, status_colour(status), status);
    putchar('\n');
    return 0;
}

static int offer(struct cli *cli)
{
    return hand(cli, "/offer", cli->args.words[1], "offered");
}

static int assign(struct cli *cli)
{
    return hand(cli, "/assign", cli->args.words[1], "assigned");
}

static int accept_offer(struct cli *cli)
{
    const char *agent = cli_need_agent(cli);

    return agent != NULL ? hand(cli, "/accept", agent, "accepted") : cli->exit;
}

static int reject(struct cli *cli)
{
    const char *agent = cli_need_agent(cli);

    return agent != NULL ? hand(cli, "/reject", agent, "rejected") : cli->exit;
}

const struct command offer_commands[] = {
    {"offer", "Agents", "ID AGENT", "offer a task to an agent",
     "It goes back to the pool when the agent rejects it, does not answer for offerTTL (1h if not "
     "set otherwise), or is gone.",
     NULL, 2, 2, false, offer},
    {"accept", "Agents", "ID [--agent AGENT]", "accept an offered task",
     "It is then assigned to the agent: the next poll, or dibs claim ID, begins it.",
     accept_options, 1, 1, false, accept_offer},
    {"reject", "Agents", "ID [--agent AGENT] [--reason TEXT]", "turn down an offered task",
     "It goes back to the pool.", reject_options, 1, 1, false, reject},
    {"assign", "Agents", "ID AGENT", "assign a task to an agent, without asking",
     "Nobody else can claim it then.", NULL, 2, 2, false, assign},
    {0},
};
