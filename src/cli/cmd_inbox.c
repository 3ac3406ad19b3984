/* SPDX-License-Identifier: MIT */
/*
 * cmd_inbox.c: dibs inbox add, list, show, claim, read, respond, delegate, release: messages that
 * want an answer.
 *
 * A message is claimed like a task, by a session of an agent, and ends in one of three ways: read,
 * responded or delegated. Those are allowed without a claim too while nobody holds the message, so
 * a person can answer what no agent has begun with.
 */
#include "cli.h"

#include "base/str.h"

#define TOKEN_OPTION                                                                               \
    OPT("token", 0, INT, "N", "token", "refuse unless this is still the token of the claim")

static const struct cli_option add_options[] = {
    OPT("agent", 0, TEXT, "AGENT", "agentId", "for this agent; otherwise for any lead"),
    OPT("source", 0, TEXT, "WORD", "source", "where it comes from; 'api' if not given"),
    OPT("channel", 0, TEXT, "TEXT", "channel", "the channel there"),
    OPT("thread", 0, TEXT, "TEXT", "thread", "the thread there"),
    OPT("user", 0, TEXT, "TEXT", "user", "who wrote it"),
    OPT("matched", 0, TEXT, "TEXT", "matchedText", "what in it was meant for us"),
    OPT("metadata", 0, JSON, "JSON", "metadata", "whatever you like"),
    OPT("id", 0, TEXT, "ID", "id", "its id; otherwise the next number"),
    OPT("idempotency-key", 0, TEXT, "KEY", NULL,
        "a repeat with the same key answers as the first time"),
    {0},
};
static const struct cli_option list_options[] = {
    OPT("status", 0, TEXT, "STATUS", "status",
        "only these: unread, processing, read, responded or delegated"),
    OPT("agent", 0, TEXT, "AGENT", "agentId", "only for this agent"),
    OPT("source", 0, TEXT, "WORD", "source", "only from there"),
    OPT("limit", 'n', INT, "N", "limit", "at most so many, 100 if not given"),
    OPT("cursor", 0, TEXT, "CURSOR", "cursor", "go on where the page before ended"),
    {0},
};
static const struct cli_option claim_options[] = {
    OPT("agent", 0, TEXT, "AGENT", NULL, "whose messages (else DIBS_AGENT)"),
    OPT("count", 'n', INT, "N", "count", "up to so many, oldest first; 5 if not given"),
    OPT("ttl", 0, DURATION, "DURATION", "ttlMs", "how long the lease runs without a heartbeat"),
    {0},
};
static const struct cli_option answer_options[] = {TOKEN_OPTION, {0}};
static const struct cli_option delegate_options[] = {
    OPT("task", 0, TEXT, "ID", NULL, "to this task, which exists"),
    OPT("title", 0, TEXT, "TEXT", "title", "to a new task with this title"),
    OPT("description", 0, TEXT, "TEXT", "description", "new task: what is to be done, at length"),
    OPT("type", 0, TEXT, "TYPE", "type", "new task: kind of work"),
    OPT("priority", 'p', PRIORITY, "N", "priority", "new task: 0 to 100, or a word"),
    OPT("tag", 't', LIST, "TAG", "tags", "new task: a tag; may be given several times"),
    OPT("param", 0, PAIR, "KEY=VALUE", "params", "new task: what the worker needs"),
    OPT("assignee", 0, TEXT, "AGENT", "assignee", "new task: assigned to this agent"),
    OPT("token", 0, INT, "N", NULL, "refuse unless this is still the token of the claim"),
    {0},
};

static int inbox_add(struct cli *cli)
{
    json_t *body = NULL;
    const json_t *message = NULL;

    if (!cli_open(cli))
        return cli->exit;
    body = cli_body(cli);
    must_set(body, "content", must_json(json_string(cli->args.words[0])));
    if (cli->project != NULL)
        must_set(body, "project", must_json(json_string(cli->project)));
    message = cli_ask(
        cli, &(struct client_request){.method = "POST",
                                      .path = "/api/inbox",
                                      .body = body,
                                      .idempotency_key = args_text(&cli->args, "idempotency-key")});
    json_decref(body);
    if (message == NULL)
        return cli->exit;
    message = json_object_get(message, "message");
    if (cli->quiet)
        printf("%s\n", get_id(cli->arena, message, "id"));
    else
        printf("added %s for %s\n", get_id(cli->arena, message, "id"),
               get_text(message, "agentId") != NULL ? get_text(message, "agentId")
                                                    : "whichever lead asks first");
    return 0;
}

/* ---- list and show --------------------------------------------------------------------------- */

static const struct column message_columns[] = {
    {"ID", false, false},      {"STATUS", false, false}, {"FOR", false, false},
    {"SOURCE", false, false},  {"USER", false, false},   {"MESSAGE", false, true},
    {"HELD BY", false, false}, {"AGE", true, false},
};

static void message_row(struct cli *cli, struct table *t, const json_t *m)
{
    dibs_arena *a = cli->arena;
    const char *status = get_text(m, "status");
    const char *when = out_when(&cli->out, a, get_text(m, "createdAt"));

    table_cell(t, CYAN, get_id(a, m, "id"));
    table_cell(t, status_colour(status), status);
    table_cell(t, PLAIN, get_text(m, "agentId"));
    table_cell(t, PLAIN, get_text(m, "source"));
    table_cell(t, PLAIN, get_text(m, "user"));
    table_cell(t, PLAIN, get_text(m, "content"));
    table_cell(t, PLAIN, get_text(json_object_get(m, "claim"), "sessionId"));
    table_cell(t, DIM, must_copy(a, when, strcspn(when, " ")));
}

void messages_print(struct cli *cli, const json_t *messages)
{
    struct table t;

    table_init(&t, cli->arena, message_columns, COUNT_OF(message_columns));
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        if (cli->quiet)
            printf("%s\n", get_id(cli->arena, message, "id"));
        else
            message_row(cli, &t, message);
    }
    if (t.cell_count > 0)
        table_print(&t, &cli->out);
}

static int inbox_list(struct cli *cli)
{
    const json_t *answer =
        cli_ask(cli, &(struct client_request){
                         .method = "GET", .path = "/api/inbox", .query = cli_query(cli, true)});
    const json_t *messages = json_object_get(answer, "messages");

    if (answer == NULL)
        return cli->exit;
    if (json_array_size(messages) == 0 && !cli->quiet)
        puts("no messages");
    messages_print(cli, messages);
    if (get_text(answer, "nextCursor") != NULL)
        cli_hint(cli, "there are more: repeat with --cursor %s", get_text(answer, "nextCursor"));
    return 0;
}

static void show_message(struct cli *cli, const json_t *m)
{
    const json_t *claim = json_object_get(m, "claim");
    dibs_arena *a = cli->arena;

    out_colour(&cli->out, BOLD, out_safe(a, get_id(a, m, "id")));
    printf("  ");
    out_colour(&cli->out, status_colour(get_text(m, "status")), get_text(m, "status"));
    putchar('\n');
    show_line(cli, "project", get_text(m, "project"));
    show_line(cli, "for", get_text(m, "agentId"));
    show_line(cli, "source", get_text(m, "source"));
    show_line(cli, "channel", get_text(m, "channel"));
    show_line(cli, "thread", get_text(m, "thread"));
    show_line(cli, "user", get_text(m, "user"));
    show_line(cli, "matched", get_text(m, "matchedText"));
    show_line(cli, "metadata", value_line(a, json_object_get(m, "metadata")));
    show_line(cli, "received", out_when(&cli->out, a, get_text(m, "createdAt")));
    if (claim != NULL) {
        show_line(cli, "held by", get_text(claim, "sessionId"));
        show_line(cli, "token", must_printf(a, "%" PRId64, get_int(claim, "token")));
        show_line(cli, "expires", out_when(&cli->out, a, get_text(claim, "expiresAt")));
    }
    show_line(cli, "message", get_text(m, "content"));
    show_line(cli, "response", get_text(m, "responseText"));
    if (json_object_get(m, "delegatedToTaskId") != NULL)
        show_line(cli, "task", get_id(a, m, "delegatedToTaskId"));
}

/* message_id: the message that the command line names. NULL: refused and shown. */
static const char *message_id(struct cli *cli)
{
    return cli_id_beside(cli, "claim", DIBS_MESSAGE_NOT_FOUND, "message");
}

static int inbox_show(struct cli *cli)
{
    const char *id = message_id(cli);
    const json_t *answer = NULL;

    if (id == NULL)
        return cli->exit;
    answer = cli_ask(cli, &(struct client_request){.method = "GET",
                                                   .path = cli_path(cli, "/api/inbox/", id, "")});
    if (answer == NULL)
        return cli->exit;
    show_message(cli, json_object_get(answer, "message"));
    return 0;
}

/* ---- work ------------------------------------------------------------------------------------ */

static int inbox_claim(struct cli *cli)
{
    const char *agent = cli_need_agent(cli);
    json_t *body = NULL;
    const json_t *answer = NULL, *first = NULL;

    if (agent == NULL || !cli_ensure_agent_session(cli))
        return cli->exit;
    body = cli_session_body(cli);
    must_set(body, "agentId", must_json(json_string(agent)));
    answer = cli_ask(
        cli, &(struct client_request){.method = "POST", .path = "/api/inbox/claim", .body = body});
    json_decref(body);
    if (answer == NULL)
        return cli->exit;
    messages_print(cli, json_object_get(answer, "messages"));
    first = json_object_get(json_array_get(json_object_get(answer, "messages"), 0), "claim");
    cli_hint(cli, "yours until %s as %s; then: dibs inbox respond, delegate, read or release ID",
             out_clock(&cli->out, cli->arena, get_text(first, "expiresAt")), cli->session);
    return 0;
}

/* settle: what becomes of the message of the command line. Takes the body over. */
static int settle(struct cli *cli, json_t *body, const char *suffix, const char *verb)
{
    const json_t *answer = NULL, *m = NULL;

    if (body == NULL)
        return cli->exit;
    answer = cli_ask_as_session(
        cli,
        &(struct client_request){.method = "POST",
                                 .path = cli_path(cli, "/api/inbox/", cli->args.words[0], suffix),
                                 .body = body});
    json_decref(body);
    if (answer == NULL)
        return cli->exit;
    m = json_object_get(answer, "message");
    if (!cli->quiet)
        printf("%s %s, ", verb, get_id(cli->arena, m, "id"));
    if (json_object_get(m, "delegatedToTaskId") != NULL)
        printf("%s%s\n", cli->quiet ? "" : "to task ", get_id(cli->arena, m, "delegatedToTaskId"));
    else if (!cli->quiet)
        printf("now %s\n", get_text(m, "status"));
    return 0;
}

static int inbox_read(struct cli *cli)
{
    if (message_id(cli) == NULL)
        return cli->exit;
    return settle(cli, cli_session_body(cli), "/read", "marked");
}

static int inbox_release(struct cli *cli)
{
    if (message_id(cli) == NULL)
        return cli->exit;
    return settle(cli, cli_session_body(cli), "/release", "released");
}

static int inbox_respond(struct cli *cli)
{
    json_t *body = NULL;

    if (message_id(cli) == NULL)
        return cli->exit;
    body = cli_session_body(cli);
    if (body != NULL)
        must_set(body, "text", must_json(json_string(cli->args.words[1])));
    return settle(cli, body, "/respond", "answered");
}

/* delegate_body: the task that is meant goes into the body. NULL: refused and shown. */
static json_t *delegate_body(struct cli *cli)
{
    const char *existing = args_text(&cli->args, "task");
    json_t *task = NULL, *body = NULL;

    if (cli_session(cli) == NULL || !cli_open(cli))
        return NULL;
    task = cli_body(cli);
    if ((existing != NULL) == (json_object_size(task) > 0)) {
        json_decref(task);
        cli->exit = cli_usage(cli, "to which task? Give --task ID, or --title TEXT for a new one");
        return NULL;
    }
    body = must_json(json_object());
    must_set(body, "sessionId", must_json(json_string(cli->session)));
    if (args_has(&cli->args, "token"))
        must_set(body, "token", must_json(json_integer(args_int(&cli->args, "token", 0))));
    if (existing != NULL) {
        must_set(body, "taskId", must_json(json_string(existing)));
        json_decref(task);
        return body;
    }
    if (cli->project != NULL)
        must_set(task, "project", must_json(json_string(cli->project)));
    must_set(body, "task", task);
    return body;
}

static int inbox_delegate(struct cli *cli)
{
    if (message_id(cli) == NULL)
        return cli->exit;
    return settle(cli, delegate_body(cli), "/delegate", "delegated");
}

const struct command inbox_commands[] = {
    {"inbox add", "Messages", "TEXT [options]", "put a message into an inbox", NULL, add_options, 1,
     1, false, inbox_add},
    {"inbox list", "Messages", "[options]", "list messages, oldest first", NULL, list_options, 0, 0,
     false, inbox_list},
    {"inbox show", "Messages", "ID", "show one message", NULL, NULL, 1, 1, false, inbox_show},
    {"inbox claim", "Messages", "[--agent AGENT] [options]", "claim unread messages, oldest first",
     "They are unread again when the lease ends. Exit code 3 means that there is none.",
     claim_options, 0, 0, false, inbox_claim},
    {"inbox read", "Messages", "ID [--token N]", "a message is read and needs no answer", NULL,
     answer_options, 1, 1, false, inbox_read},
    {"inbox respond", "Messages", "ID TEXT [--token N]", "answer a message",
     "A message from Slack is answered there too, as soon as it can be sent.", answer_options, 2, 2,
     false, inbox_respond},
    {"inbox delegate", "Messages", "ID (--task ID | --title TEXT [options])",
     "make a message a task, or hand it to one", "With --quiet the task's id is printed.",
     delegate_options, 1, 1, false, inbox_delegate},
    {"inbox release", "Messages", "ID [--token N]", "give a message back, unread", NULL,
     answer_options, 1, 1, false, inbox_release},
    {0},
};
