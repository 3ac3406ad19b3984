/* SPDX-License-Identifier: MIT */
/*
 * cmd_poll.c: dibs poll, dibs notices ack and release: what an agent should do next.
 *
 * One question, one answer, claimed for the session that asks. The table below has a row for each
 * type of trigger; a type that is not in it (of a newer daemon) is told by its name. The exit code
 * is 3 when there is nothing to do, as it is for claim, so a script can loop on it.
 */
#include "cli.h"

#include "base/str.h"

#define EXIT_NOTHING 3

static const struct cli_option poll_options[] = {
    OPT("agent", 0, TEXT, "AGENT", "agentId", "who asks (else DIBS_AGENT)"),
    OPT("wait", 'w', DURATION, "DURATION", "waitMs", "wait so long for something to happen"),
    OPT("claim", 0, FLAG, NULL, "claim", "workers: take a task from the pool"),
    OPT("type", 0, LIST, "TYPE", "types",
        "with --claim: only of this type; several times for more"),
    OPT("ack", 0, TEXT, "manual|auto", "ack",
        "finished tasks count as told when acknowledged, or now"),
    OPT("ttl", 0, DURATION, "DURATION", "ttlMs", "how long the lease runs without a heartbeat"),
    OPT("pid", 0, INT, "PID", NULL, "process whose end ends the session, if not registered yet"),
    {0},
};

/* ---- showing a trigger ----------------------------------------------------------------------- */

static void show_task(struct cli *cli, const json_t *trigger, const char *verb)
{
    const json_t *task = json_object_get(trigger, "task");
    const json_t *claim = json_object_get(trigger, "claim");
    const json_t *params = json_object_get(task, "params");
    dibs_arena *a = cli->arena;

    if (cli->quiet) {
        printf("%s\n", out_safe(a, get_id(a, trigger, "taskId")));
        return;
    }
    printf("%s ", verb);
    out_colour(&cli->out, BOLD, out_safe(a, get_id(a, trigger, "taskId")));
    printf(" '%s' until %s (token %" PRId64 ") as %s\n", out_safe(a, get_text(task, "title")),
           out_clock(&cli->out, a, get_text(claim, "expiresAt")), get_int(claim, "token"),
           cli->session);
    if (json_object_size(params) > 0 || json_is_array(params))
        show_line(cli, "params", value_line(a, params));
    show_line(cli, "checkpoint", value_line(a, json_object_get(claim, "checkpoint")));
}

static void show_offer(struct cli *cli, const json_t *trigger)
{
    const char *id = get_id(cli->arena, trigger, "taskId");

    show_task(cli, trigger, "offered, to be answered:");
    cli_hint(cli, "then: dibs accept %s, or dibs reject %s --reason TEXT", id, id);
}

static void show_assigned(struct cli *cli, const json_t *trigger)
{
    show_task(cli, trigger, "assigned and claimed");
}

static void show_claimed(struct cli *cli, const json_t *trigger)
{
    show_task(cli, trigger, "claimed");
}

static void show_messages(struct cli *cli, const json_t *trigger)
{
    messages_print(cli, json_object_get(trigger, "messages"));
    cli_hint(cli, "then: dibs inbox respond, delegate, read or release ID");
}

static void show_mentions(struct cli *cli, const json_t *trigger)
{
    mentions_print(cli, trigger);
    cli_hint(cli, "then: dibs channel read CHANNEL, or dibs mentions release [--read]");
}

static const struct column finished_columns[] = {
    {"FINISHED", false, false},
    {"STATUS", false, false},
    {"TITLE", false, true},
    {"RESULT", false, false},
};

static void show_finished(struct cli *cli, const json_t *trigger)
{
    const json_t *tasks = json_object_get(trigger, "tasks");
    dibs_arena *a = cli->arena;
    struct table t;

    table_init(&t, a, finished_columns, COUNT_OF(finished_columns));
    for (size_t i = 0; i < json_array_size(tasks); i++) {
        const json_t *task = json_array_get(tasks, i);
        const char *status = get_text(task, "status"), *error = get_text(task, "error");
        if (cli->quiet) {
            printf("%s\n", out_safe(a, get_id(a, task, "id")));
            continue;
        }
        table_cell(&t, CYAN, get_id(a, task, "id"));
        table_cell(&t, status_colour(status), status);
        table_cell(&t, PLAIN, get_text(task, "title"));
        table_cell(&t, PLAIN,
                   error != NULL ? error : value_line(a, json_object_get(task, "result")));
    }
    if (t.cell_count > 0)
        table_print(&t, &cli->out);
    if (json_array_size(json_object_get(trigger, "claims")) > 0)
        cli_hint(cli, "then: dibs notices ack");
}

static void show_pool(struct cli *cli, const json_t *trigger)
{
    int64_t count = get_int(trigger, "count");

    if (!cli->quiet)
        printf("%" PRId64 " task%s in the pool\n", count, count == 1 ? "" : "s");
    cli_hint(cli, "then: dibs claim, or dibs poll --claim");
}

static const struct {
    const char *type;
    void (*show)(struct cli *cli, const json_t *trigger);
} triggers[] = {
    {"task_offered", show_offer},           {"task_assigned", show_assigned},
    {"slack_inbox_message", show_messages}, {"unread_mentions", show_mentions},
    {"tasks_finished", show_finished},      {"pool_tasks_available", show_pool},
    {"pool_task_claimed", show_claimed},
};

static void show_trigger(struct cli *cli, const json_t *trigger)
{
    const char *type = get_text(trigger, "type");

    for (size_t i = 0; i < COUNT_OF(triggers); i++)
        if (str_eq(type, triggers[i].type)) {
            triggers[i].show(cli, trigger);
            return;
        }
    printf("%s\n", out_safe(cli->arena, type != NULL ? type : "?"));
}

/* ---- poll ------------------------------------------------------------------------------------ */

/* poll_query: the agent, its session and the options. */
static const char *poll_query(struct cli *cli, const char *agent)
{
    struct buf b;
    const char *query = NULL;

    buf_init(&b, BODY_BYTES_MAX);
    args_to_query(&cli->args, &b);
    if (!args_has(&cli->args, "agent"))
        query_add(&b, "agentId", agent);
    query_add(&b, "sessionId", cli->session);
    query = must_copy(cli->arena, must_buf(&b), b.len);
    buf_release(&b);
    return query;
}

/* say_nothing: there was nothing to do. */
static void say_nothing(struct cli *cli, int64_t next_ms)
{
    if (!cli->quiet && !cli->json)
        cli_complain("there is nothing to do");
    if (next_ms > 0)
        cli_hint(cli, "ask again in %s, or wait for it: dibs poll --wait 5m",
                 out_span(cli->arena, next_ms));
}

static int poll_once(struct cli *cli)
{
    const char *agent = cli_need_agent(cli);
    const json_t *trigger = NULL;

    if (agent == NULL || !cli_ensure_agent_session(cli))
        return cli->exit;
    if (!cli_call(cli, &(struct client_request){
                           .method = "GET", .path = "/api/poll", .query = poll_query(cli, agent)}))
        return cli->exit;
    if (cli->answer.status != DIBS_OK)
        return cli_refusal(cli);
    trigger = json_object_get(cli->answer.json, "trigger");
    cli->out.now_ms = cli_now(cli); /* it may have waited for long */
    if (cli->json)
        cli_print_json(cli->answer.json);
    else if (json_is_object(trigger))
        show_trigger(cli, trigger);
    if (json_is_object(trigger))
        return 0;
    say_nothing(cli, get_int(cli->answer.json, "nextPollMs"));
    return EXIT_NOTHING;
}

/* ---- notices --------------------------------------------------------------------------------- */

/* Puts the request about the tasks in the words, or all; what the member counts, or -1. */
static int64_t settle_notices(struct cli *cli, const char *path, const char *member)
{
    json_t *body = cli_session_body(cli), *ids = NULL;
    const json_t *answer = NULL;

    if (body == NULL)
        return -1;
    if (cli->args.word_count > 0) {
        ids = must_json(json_array());
        for (size_t i = 0; i < cli->args.word_count; i++)
            must_push(ids, must_json(json_string(cli->args.words[i])));
        must_set(body, "taskIds", ids);
    }
    answer = cli_ask(cli, &(struct client_request){.method = "POST", .path = path, .body = body});
    json_decref(body);
    return answer != NULL ? get_int(answer, member) : -1;
}

static int notices_ack(struct cli *cli)
{
    int64_t count = settle_notices(cli, "/api/notices/ack", "acked");

    if (count < 0)
        return cli->exit;
    if (!cli->quiet)
        printf("told of %" PRId64 " finished task%s\n", count, count == 1 ? "" : "s");
    return 0;
}

static int notices_release(struct cli *cli)
{
    int64_t count = settle_notices(cli, "/api/notices/release", "released");

    if (count < 0)
        return cli->exit;
    if (!cli->quiet)
        printf("let go of %" PRId64 " finished task%s\n", count, count == 1 ? "" : "s");
    return 0;
}

const struct command poll_commands[] = {
    {"poll", "Agents", "[--agent AGENT] [options]", "what an agent should do next, claimed for it",
     "The first of: an offer, a task assigned to it; for a lead unread messages, unread mentions, "
     "finished tasks; for a worker what is in the pool. What is not answered when its lease ends "
     "is "
     "handed out again. Exit code 3 means that there is nothing to do.",
     poll_options, 0, 0, false, poll_once},
    {"notices ack", "Messages", "[ID...]", "a lead knows of these finished tasks",
     "Of all that the session holds since poll --ack manual, unless tasks are named.", NULL, 0,
     WORDS_ANY, false, notices_ack},
    {"notices release", "Messages", "[ID...]", "let go of finished tasks: they are told again",
     "Of all that the session holds since poll --ack manual, unless tasks are named.", NULL, 0,
     WORDS_ANY, false, notices_release},
    {0},
};
