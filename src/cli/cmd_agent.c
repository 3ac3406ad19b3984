/* SPDX-License-Identifier: MIT */
/*
 * cmd_agent.c: dibs agent register, list, show: the identities behind the sessions.
 *
 * An agent is made known once and changed by registering it again: what is not given stays as it
 * is. Whether it is idle, busy or offline is told by its sessions; nothing here decides it.
 */
#include "cli.h"

#include "base/str.h"

static const struct cli_option register_options[] = {
    OPT("id", 0, TEXT, "ID", "id", "its id; otherwise the name"),
    OPT("lead", 0, FLAG, NULL, "isLead", "a lead: gets messages, mentions and finished tasks"),
    OPT("worker", 0, FLAG, NULL, NULL, "a worker: gets tasks; what a new agent is"),
    OPT("max", 0, INT, "N", "maxTasks", "so many tasks at once; 1 if not given"),
    OPT("capability", 0, LIST, "WORD", "capabilities",
        "what it can do; may be given several times"),
    OPT("metadata", 0, JSON, "JSON", "metadata", "whatever you like"),
    {0},
};
static const struct cli_option list_options[] = {
    OPT("leads", 0, FLAG, NULL, NULL, "only leads"),
    OPT("workers", 0, FLAG, NULL, NULL, "only workers"),
    {0},
};

static const char *role_of(const json_t *agent)
{
    return json_is_true(json_object_get(agent, "isLead")) ? "lead" : "worker";
}

static int agent_register(struct cli *cli)
{
    bool worker = args_has(&cli->args, "worker");
    json_t *body = NULL;
    const json_t *agent = NULL;

    if (worker && args_has(&cli->args, "lead"))
        return cli_usage(cli, "--lead and --worker exclude each other");
    if (!cli_open(cli))
        return cli->exit;
    body = cli_body(cli);
    must_set(body, "name", must_json(json_string(cli->args.words[0])));
    if (worker)
        must_set(body, "isLead", json_false());
    if (cli->project != NULL)
        must_set(body, "project", must_json(json_string(cli->project)));
    agent = cli_ask(
        cli, &(struct client_request){.method = "POST", .path = "/api/agents", .body = body});
    json_decref(body);
    if (agent == NULL)
        return cli->exit;
    agent = json_object_get(agent, "agent");
    if (cli->quiet)
        printf("%s\n", get_id(cli->arena, agent, "id"));
    else
        printf("%s %s (%s, up to %" PRId64 " at once)\n",
               cli->answer.http == 201 ? "registered" : "changed", get_id(cli->arena, agent, "id"),
               role_of(agent), get_int(agent, "maxTasks"));
    return 0;
}

/* ---- list and show --------------------------------------------------------------------------- */

static const struct column agent_columns[] = {
    {"AGENT", false, false},       {"ROLE", false, false},    {"STATUS", false, false},
    {"TASKS", true, false},        {"SESSIONS", true, false}, {"PROJECT", false, false},
    {"CAPABILITIES", false, true}, {"SEEN", false, false},
};

static const char *load_of(dibs_arena *a, const json_t *agent)
{
    return must_printf(a, "%" PRId64 "/%" PRId64, get_int(agent, "tasksLive"),
                       get_int(agent, "maxTasks"));
}

static void list_row(struct cli *cli, struct table *t, const json_t *agent)
{
    const char *status = get_text(agent, "status");
    dibs_arena *a = cli->arena;

    table_cell(t, CYAN, get_id(a, agent, "id"));
    table_cell(t, PLAIN, role_of(agent));
    table_cell(t, status_colour(status), status);
    table_cell(t, PLAIN, load_of(a, agent));
    table_int(t, get_int(agent, "sessionsLive"));
    table_cell(t, PLAIN, get_text(agent, "project"));
    table_cell(t, PLAIN, list_line(a, json_object_get(agent, "capabilities")));
    table_cell(t, DIM, out_when(&cli->out, a, get_text(agent, "lastSeenAt")));
}

/* list_query: the filters; NULL: refused and shown. */
static const char *list_query(struct cli *cli)
{
    const char *query = cli_query(cli, true);
    bool leads = args_has(&cli->args, "leads"), workers = args_has(&cli->args, "workers");

    if (leads && workers) {
        cli->exit = cli_usage(cli, "--leads and --workers exclude each other");
        return NULL;
    }
    if (!leads && !workers)
        return query;
    return must_printf(cli->arena, "%s%sisLead=%s", query, query[0] != '\0' ? "&" : "",
                       leads ? "true" : "false");
}

static int agent_list(struct cli *cli)
{
    const char *query = list_query(cli);
    const json_t *answer = NULL, *agents = NULL;
    struct table t;

    if (query == NULL)
        return cli->exit;
    answer = cli_ask(
        cli, &(struct client_request){.method = "GET", .path = "/api/agents", .query = query});
    if (answer == NULL)
        return cli->exit;
    agents = json_object_get(answer, "agents");
    if (json_array_size(agents) == 0 && !cli->quiet)
        puts("no agents");
    table_init(&t, cli->arena, agent_columns, COUNT_OF(agent_columns));
    for (size_t i = 0; i < json_array_size(agents); i++) {
        const json_t *agent = json_array_get(agents, i);
        if (cli->quiet)
            printf("%s\n", get_id(cli->arena, agent, "id"));
        else
            list_row(cli, &t, agent);
    }
    if (t.cell_count > 0)
        table_print(&t, &cli->out);
    return 0;
}

static int agent_show(struct cli *cli)
{
    const char *id = cli_id_beside(cli, "scores", DIBS_AGENT_NOT_FOUND, "agent");
    const json_t *agent = NULL;
    dibs_arena *a = cli->arena;

    if (id == NULL)
        return cli->exit;
    agent = cli_ask(cli, &(struct client_request){.method = "GET",
                                                  .path = cli_path(cli, "/api/agents/", id, "")});
    if (agent == NULL)
        return cli->exit;
    agent = json_object_get(agent, "agent");
    out_colour(&cli->out, BOLD, out_safe(a, get_id(a, agent, "id")));
    printf("  %s  ", role_of(agent));
    out_colour(&cli->out, status_colour(get_text(agent, "status")), get_text(agent, "status"));
    putchar('\n');
    show_line(cli, "name", get_text(agent, "name"));
    show_line(cli, "project", get_text(agent, "project"));
    show_line(cli, "holds",
              must_printf(a, "%" PRId64 " of %" PRId64 " tasks", get_int(agent, "tasksLive"),
                          get_int(agent, "maxTasks")));
    show_line(cli, "sessions", must_printf(a, "%" PRId64, get_int(agent, "sessionsLive")));
    show_line(cli, "capabilities", list_line(a, json_object_get(agent, "capabilities")));
    show_line(cli, "metadata", value_line(a, json_object_get(agent, "metadata")));
    show_line(cli, "registered", out_when(&cli->out, a, get_text(agent, "registeredAt")));
    show_line(cli, "seen", out_when(&cli->out, a, get_text(agent, "lastSeenAt")));
    return 0;
}

const struct command agent_commands[] = {
    {"agent register", "Agents", "NAME [options]", "make an agent known, or change it",
     "What is not given stays as it is. @NAME in a channel means this agent. Its sessions are "
     "those "
     "that register with its id (DIBS_AGENT, or --agent of the commands that have it).",
     register_options, 1, 1, false, agent_register},
    {"agent list", "Agents", "[options]", "list agents and what they are doing",
     "Idle: a session of it lives and holds nothing; busy: one holds something; offline: none "
     "lives.",
     list_options, 0, 0, false, agent_list},
    {"agent show", "Agents", "ID", "show one agent", NULL, NULL, 1, 1, false, agent_show},
    {0},
};
