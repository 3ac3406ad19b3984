/* SPDX-License-Identifier: MIT */
/*
 * cmd_session.c: dibs session register, list, show, heartbeat, resume, end, summary.
 *
 * Where an id is left out, the session that the command acts as is meant (identity.c); only
 * `register` without any id asks for a new one.
 */
#include "cli.h"

#include "base/str.h"

static const struct cli_option register_options[] = {
    OPT("agent-type", 0, TEXT, "TYPE", "agentType", "what kind of worker it is"),
    OPT("agent-id", 0, TEXT, "AGENT", "agentId", "the agent that it belongs to"),
    OPT("pid", 0, INT, "PID", "pid", "process whose end ends the session, such as $$"),
    OPT("host", 0, TEXT, "HOST", "host", "where it runs, if not here"),
    OPT("metadata", 0, JSON, "JSON", "metadata", "whatever you like"),
    {0},
};
static const struct cli_option list_options[] = {
    OPT("all", 'a', FLAG, NULL, "all", "ended ones too"),
    OPT("limit", 'n', INT, "N", "limit", "at most so many, 100 if not given"),
    OPT("cursor", 0, TEXT, "CURSOR", "cursor", "go on where the page before ended"),
    {0},
};

static int session_register(struct cli *cli)
{
    const char *id =
        cli->args.word_count > 0 ? cli->args.words[0] : args_text(&cli->args, "session");
    json_t *body = NULL, *session = NULL;

    if (id == NULL)
        id = getenv("DIBS_SESSION");
    if (!cli_open(cli))
        return cli->exit;
    body = cli_body(cli);
    if (id != NULL && id[0] != '\0')
        must_set(body, "id", must_json(json_string(id)));
    if (cli->project != NULL)
        must_set(body, "project", must_json(json_string(cli->project)));
    cli_set_process(cli, body, 0);
    session = cli_ask(
        cli, &(struct client_request){.method = "POST", .path = "/api/sessions", .body = body});
    json_decref(body);
    if (session == NULL)
        return cli->exit;
    session = json_object_get(session, "session");
    id = get_id(cli->arena, session, "id");
    if (cli->quiet)
        printf("%s\n", id);
    else
        printf("registered %s (incarnation %" PRId64 ")\n", id, get_int(session, "incarnation"));
    if (!str_eq(getenv("DIBS_SESSION"), id))
        cli_hint(cli, "to act as it: export DIBS_SESSION=%s", id);
    return 0;
}

/* ---- list and summary ------------------------------------------------------------------------ */

static const struct column session_columns[] = {
    {"SESSION", false, false}, {"STATUS", false, false},    {"AGENT", false, false},
    {"TASK", false, true},     {"CLAIMS", true, false},     {"LOCKS", true, false},
    {"DONE", true, false},     {"HEARTBEAT", false, false},
};

/* agent_of: the agent's id or else its type. */
static const char *agent_of(const json_t *session)
{
    const char *id = get_text(session, "agentId");

    return id != NULL ? id : get_text(session, "agentType");
}

void sessions_print(struct cli *cli, dibs_arena *a, const json_t *sessions, size_t rows)
{
    struct table t;

    table_init(&t, a, session_columns, COUNT_OF(session_columns));
    for (size_t i = 0; i < json_array_size(sessions) && i < rows; i++) {
        const json_t *s = json_array_get(sessions, i);
        const char *status = get_text(s, "status");
        const json_t *task = json_object_get(s, "claimInfo");
        table_cell(&t, CYAN, get_id(a, s, "id"));
        table_cell(&t, status_colour(status), status);
        table_cell(&t, PLAIN, agent_of(s));
        table_cell(&t, PLAIN,
                   get_text(task, "title") != NULL ? get_text(task, "title")
                                                   : get_text(s, "currentTaskId"));
        table_int(&t, get_int(s, "claims"));
        table_int(&t, get_int(s, "locks"));
        table_cell(&t, PLAIN,
                   must_printf(a, "%" PRId64 "/%" PRId64, get_int(s, "tasksCompleted"),
                               get_int(s, "tasksTotal")));
        table_cell(&t, DIM, out_when(&cli->out, a, get_text(s, "lastHeartbeat")));
    }
    table_print(&t, &cli->out);
}

static int session_list(struct cli *cli)
{
    const json_t *answer =
        cli_ask(cli, &(struct client_request){
                         .method = "GET", .path = "/api/sessions", .query = cli_query(cli, true)});
    const json_t *sessions = json_object_get(answer, "sessions");

    if (answer == NULL)
        return cli->exit;
    if (cli->quiet)
        for (size_t i = 0; i < json_array_size(sessions); i++)
            printf("%s\n", get_id(cli->arena, json_array_get(sessions, i), "id"));
    else if (json_array_size(sessions) == 0)
        puts("no sessions");
    else
        sessions_print(cli, cli->arena, sessions, SIZE_MAX);
    if (get_text(answer, "nextCursor") != NULL)
        cli_hint(cli, "there are more: repeat with --cursor %s", get_text(answer, "nextCursor"));
    return 0;
}

static const struct column completion_columns[] = {
    {"DONE", false, false}, {"ID", false, false},  {"TITLE", false, true},
    {"BY", false, false},   {"TOOK", true, false},
};

static void print_completions(struct cli *cli, const json_t *recent)
{
    dibs_arena *a = cli->arena;
    struct table t;

    if (json_array_size(recent) == 0)
        return;
    putchar('\n');
    table_init(&t, a, completion_columns, COUNT_OF(completion_columns));
    for (size_t i = 0; i < json_array_size(recent); i++) {
        const json_t *c = json_array_get(recent, i);
        table_cell(&t, DIM, out_when(&cli->out, a, get_text(c, "finishedAt")));
        table_cell(&t, CYAN, get_id(a, c, "taskId"));
        table_cell(&t, PLAIN, get_text(c, "title"));
        table_cell(&t, PLAIN, get_text(c, "sessionId"));
        table_cell(&t, PLAIN, out_span(a, get_int(c, "duration")));
    }
    table_print(&t, &cli->out);
}

static int session_summary(struct cli *cli)
{
    const json_t *answer = cli_ask(cli, &(struct client_request){.method = "GET",
                                                                 .path = "/api/sessions/summary",
                                                                 .query = cli_query(cli, true)});
    const json_t *metrics = NULL, *sessions = NULL;

    if (answer == NULL)
        return cli->exit;
    metrics = json_object_get(answer, "globalMetrics");
    sessions = json_object_get(answer, "sessions");
    printf("%" PRId64 " active sessions, %" PRId64 " stale, %" PRId64 " tasks in flight, %" PRId64
           " completed today\n",
           get_int(metrics, "activeCount"), get_int(metrics, "staleCount"),
           get_int(metrics, "inFlight"), get_int(metrics, "tasksCompletedToday"));
    if (json_array_size(sessions) > 0) {
        putchar('\n');
        sessions_print(cli, cli->arena, sessions, SIZE_MAX);
    }
    print_completions(cli, json_object_get(answer, "recentCompletions"));
    return 0;
}

/* ---- one session ----------------------------------------------------------------------------- */

/* own_or_named: the id that the command is about. NULL: refused and shown. */
static const char *own_or_named(struct cli *cli)
{
    struct dibs_error err = {0};
    const char *id = cli->args.word_count > 0 ? cli->args.words[0] : cli_session(cli);

    if (!str_eq(id, "summary"))
        return id;
    error_set(&err, DIBS_SESSION_NOT_FOUND, "there is no session '%s'", id);
    cli->exit = cli_error(cli, &err);
    return NULL;
}

/* about_session: asks for a session by id. */
static json_t *about_session(struct cli *cli, const char *method, const char *suffix)
{
    const char *id = own_or_named(cli);

    if (id == NULL)
        return NULL;
    return cli_ask(cli, &(struct client_request){
                            .method = method, .path = cli_path(cli, "/api/sessions/", id, suffix)});
}

static const struct column held_columns[] = {
    {"HELD", false, true},
    {"CLAIMED", false, false},
    {"FOR", true, false},
    {"ENDED", false, false},
};

static void print_claim_history(struct cli *cli, const json_t *history)
{
    dibs_arena *a = cli->arena;
    struct table t;

    if (json_array_size(history) == 0)
        return;
    putchar('\n');
    table_init(&t, a, held_columns, COUNT_OF(held_columns));
    for (size_t i = 0; i < json_array_size(history); i++) {
        const json_t *c = json_array_get(history, i);
        const char *task = get_text(c, "taskId");
        table_cell(&t, CYAN, task != NULL ? task : get_text(c, "resource"));
        table_cell(&t, PLAIN, out_when(&cli->out, a, get_text(c, "claimedAt")));
        table_cell(&t, PLAIN, out_span(a, get_int(c, "duration")));
        table_cell(&t, PLAIN, get_text(c, "releaseReason"));
    }
    table_print(&t, &cli->out);
}

static int session_show(struct cli *cli)
{
    const json_t *s = about_session(cli, "GET", "");
    dibs_arena *a = cli->arena;

    if (s == NULL)
        return cli->exit;
    s = json_object_get(s, "session");
    out_colour(&cli->out, BOLD, get_id(a, s, "id"));
    printf("  ");
    out_colour(&cli->out, status_colour(get_text(s, "status")), get_text(s, "status"));
    putchar('\n');
    show_line(cli, "project", get_text(s, "project"));
    show_line(cli, "agent type", get_text(s, "agentType"));
    show_line(cli, "agent", get_text(s, "agentId"));
    show_line(cli, "host", get_text(s, "host"));
    if (get_int(s, "pid") > 0)
        show_line(cli, "pid", must_printf(a, "%" PRId64, get_int(s, "pid")));
    show_line(cli, "incarnation", must_printf(a, "%" PRId64, get_int(s, "incarnation")));
    show_line(cli, "registered", out_when(&cli->out, a, get_text(s, "registeredAt")));
    show_line(cli, "heartbeat", out_when(&cli->out, a, get_text(s, "lastHeartbeat")));
    show_line(cli, "ended", get_text(s, "endReason"));
    show_line(cli, "holds",
              must_printf(a, "%" PRId64 " claims, %" PRId64 " locks", get_int(s, "claims"),
                          get_int(s, "locks")));
    show_line(cli, "working on", get_text(s, "currentTaskId"));
    show_line(cli, "done",
              must_printf(a, "%" PRId64 " of %" PRId64, get_int(s, "tasksCompleted"),
                          get_int(s, "tasksTotal")));
    show_line(cli, "metadata", value_line(a, json_object_get(s, "metadata")));
    print_claim_history(cli, json_object_get(s, "claimHistory"));
    return 0;
}

static int session_heartbeat(struct cli *cli)
{
    const json_t *answer = about_session(cli, "POST", "/heartbeat");

    if (answer == NULL)
        return cli->exit;
    if (!cli->quiet)
        printf("renewed, with %zu claims and locks; %zu lost since the last time\n",
               json_array_size(json_object_get(answer, "claims")),
               json_array_size(json_object_get(answer, "lost")));
    return 0;
}

static int session_resume(struct cli *cli)
{
    const json_t *answer = about_session(cli, "POST", "/resume");
    const json_t *taken = NULL, *gone = NULL;
    dibs_arena *a = cli->arena;

    if (answer == NULL)
        return cli->exit;
    taken = json_object_get(answer, "resumed");
    gone = json_object_get(answer, "gone");
    if (json_array_size(taken) == 0 && json_array_size(gone) == 0)
        puts("nothing to resume");
    for (size_t i = 0; i < json_array_size(taken); i++) {
        const json_t *task = json_object_get(json_array_get(taken, i), "task");
        printf("yours again: %s '%s'\n", out_safe(a, get_id(a, task, "id")),
               out_safe(a, get_text(task, "title")));
    }
    for (size_t i = 0; i < json_array_size(gone); i++)
        printf("gone: %s\n", out_safe(a, get_id(a, json_array_get(gone, i), "taskId")));
    return 0;
}

static int session_end(struct cli *cli)
{
    const json_t *answer = about_session(cli, "DELETE", "");

    if (answer == NULL)
        return cli->exit;
    if (!cli->quiet)
        printf("ended %s; %" PRId64 " claims and %" PRId64 " locks released\n",
               get_id(cli->arena, answer, "sessionId"), get_int(answer, "claimsReleased"),
               get_int(answer, "locksReleased"));
    return 0;
}

const struct command session_commands[] = {
    {"session register", "Sessions", "[ID] [options]",
     "register a session, or its next incarnation",
     "The same id again is a new incarnation of the session: what it holds is kept.",
     register_options, 0, 1, false, session_register},
    {"session list", "Sessions", "[--all]", "list sessions", NULL, list_options, 0, 0, false,
     session_list},
    {"session show", "Sessions", "[ID]", "show a session and its last claims", NULL, NULL, 0, 1,
     false, session_show},
    {"session heartbeat", "Sessions", "[ID]", "renew a session and all it holds", NULL, NULL, 0, 1,
     false, session_heartbeat},
    {"session resume", "Sessions", "[ID]", "claim again what it lost and nobody took", NULL, NULL,
     0, 1, false, session_resume},
    {"session end", "Sessions", "[ID]", "end a session and release what it holds", NULL, NULL, 0, 1,
     false, session_end},
    {"session summary", "Sessions", "", "all sessions at a glance", NULL, NULL, 0, 0, false,
     session_summary},
    {0},
};
