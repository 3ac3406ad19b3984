/* SPDX-License-Identifier: MIT */
/*
 * cmd_claim.c: dibs claim, heartbeat, progress, done, fail, release: what a worker does with a
 * task.
 *
 * All of them act as a session (identity.c). claim introduces an unknown session by itself; the
 * others do not, as a session that is not known cannot hold anything. A claim by id and "the next
 * one" are two operations of the API with two dialects, camelCase and snake_case: the option rows
 * name the fields of the second, claim_one() those of the first.
 */
#include <unistd.h>

#include "cli.h"

#include "base/str.h"
#include "base/timefmt.h"

/* ---- claim ----------------------------------------------------------------------------------- */

static const struct cli_option claim_options[] = {
    OPT("next", 0, FLAG, NULL, NULL, "the best claimable task; the same as naming none"),
    OPT("ttl", 0, DURATION, "DURATION", "ttl_ms", "how long the lease runs without a heartbeat"),
    OPT("type", 0, LIST, "TYPE", "task_types", "next: only of this type; several times for more"),
    OPT("tag", 't', LIST, "TAG", "tags", "next: only with this tag; several times: with all"),
    OPT("wait", 'w', DURATION, "DURATION", "wait_ms", "next: wait so long for a task to appear"),
    OPT("count", 'n', INT, "N", "count", "next: claim up to so many"),
    OPT("sort", 0, TEXT, "BY", "sort_by", "next: priority (standard), created_at or random"),
    OPT("order", 0, TEXT, "asc|desc", "sort_order", "next: the direction of --sort"),
    OPT("max-attempts-remaining", 0, INT, "N", "max_attempts_remaining",
        "next: only with attempts < max attempts - N"),
    OPT("agent-type", 0, TEXT, "TYPE", NULL, "what kind of worker you are, if not registered yet"),
    OPT("pid", 0, INT, "PID", NULL, "process whose end ends the session, if not registered yet"),
    OPT("idempotency-key", 0, TEXT, "KEY", NULL,
        "a repeat with the same key answers as the first time"),
    {0},
};

/* next_only: the first given option that makes no sense with a task id; NULL: none. */
static const char *next_only(const struct cli *cli)
{
    static const char *const both[] = {"ttl"};

    for (size_t i = 0; i < cli->args.given_count; i++) {
        const struct cli_option *o = cli->args.given[i].option;
        if ((o->field != NULL && !str_eq(o->name, both[0])) || str_eq(o->name, "next"))
            return o->name;
    }
    return NULL;
}

struct claimed {
    const char *id, *title, *until;
    int64_t token;
    bool extended;
    const json_t *params, *checkpoint;
};

static void print_claimed(struct cli *cli, const struct claimed *c)
{
    dibs_arena *a = cli->arena;

    if (cli->quiet) {
        printf("%s\n", out_safe(a, c->id));
        return;
    }
    printf("%s ", c->extended ? "still yours:" : "claimed");
    out_colour(&cli->out, BOLD, out_safe(a, c->id));
    printf(" '%s' until %s (token %" PRId64 ") as %s\n",
           c->title != NULL ? out_safe(a, c->title) : "", out_clock(&cli->out, a, c->until),
           c->token, cli->session);
    if (json_object_size(c->params) > 0 || json_is_array(c->params))
        show_line(cli, "params", value_line(a, c->params));
    show_line(cli, "checkpoint", value_line(a, c->checkpoint));
}

/* explain: how to go on, on a terminal; or how to stay the same holder where there is none. */
static void explain(const struct cli *cli, const char *id)
{
    if (isatty(STDERR_FILENO) == 1)
        cli_hint(cli, "then: dibs done %s, dibs fail %s or dibs release %s", id, id, id);
    else if (cli->session_is_automatic)
        cli_hint(
            cli,
            "dibs: holding as '%s'; set DIBS_SESSION so that later commands are the same holder",
            cli->session);
}

/* task_of: the task, for people; the answer to a claim by id does not carry it. */
static json_t *task_of(struct cli *cli, const char *id)
{
    if (!cli_call(cli, &(struct client_request){.method = "GET",
                                                .path = cli_path(cli, "/api/tasks/", id, "")}))
        return NULL;
    return json_object_get(cli->answer.json, "task");
}

static int claim_one(struct cli *cli)
{
    const char *id = cli_task_id(cli);
    const char *type = args_text(&cli->args, "agent-type");
    int64_t ttl_ms = args_duration_ms(&cli->args, "ttl", 0);
    json_t *body = NULL, *answer = NULL, *claim = NULL, *task = NULL;

    if (id == NULL)
        return cli->exit;
    if (next_only(cli) != NULL)
        return cli_usage(cli, "--%s chooses the next task and makes no sense with an id",
                         next_only(cli));
    body = must_json(json_object());
    must_set(body, "sessionId", must_json(json_string(cli->session)));
    if (args_has(&cli->args, "ttl"))
        must_set(body, "ttlMs", must_json(json_integer(ttl_ms)));
    if (type != NULL)
        must_set(body, "agentType", must_json(json_string(type)));
    answer = cli_ask_as_session(
        cli, &(struct client_request){.method = "POST",
                                      .path = cli_path(cli, "/api/tasks/", id, "/claim"),
                                      .body = body,
                                      .idempotency_key = args_text(&cli->args, "idempotency-key")});
    json_decref(body);
    if (answer == NULL)
        return cli->exit;
    claim = json_incref(json_object_get(answer, "claim"));
    task = task_of(cli, id);
    print_claimed(cli,
                  &(struct claimed){.id = id,
                                    .title = get_text(task, "title"),
                                    .until = get_text(claim, "expiresAt"),
                                    .token = get_int(claim, "token"),
                                    .extended = json_is_true(json_object_get(claim, "extended")),
                                    .params = json_object_get(task, "params"),
                                    .checkpoint = json_object_get(claim, "checkpoint")});
    json_decref(claim);
    explain(cli, id);
    return 0;
}

static void print_next(struct cli *cli, const json_t *task)
{
    print_claimed(cli, &(struct claimed){.id = get_id(cli->arena, task, "id"),
                                         .title = get_text(task, "title"),
                                         .until = get_text(task, "expires_at"),
                                         .token = get_int(task, "token"),
                                         .params = json_object_get(task, "params"),
                                         .checkpoint = json_object_get(task, "checkpoint")});
}

static int claim_next(struct cli *cli)
{
    json_t *body = NULL, *answer = NULL, *tasks = NULL;

    /* the operation registers an unknown worker by itself, but neither with a process to watch nor
     * with a type of agent */
    if (!cli_ensure_session(cli))
        return cli->exit;
    body = cli_body(cli);
    must_set(body, "worker_id", must_json(json_string(cli->session)));
    if (cli->project != NULL)
        must_set(body, "project", must_json(json_string(cli->project)));
    answer = cli_ask(
        cli, &(struct client_request){.method = "POST",
                                      .path = "/api/tasks/claim",
                                      .body = body,
                                      .idempotency_key = args_text(&cli->args, "idempotency-key")});
    json_decref(body);
    if (answer == NULL)
        return cli->exit;
    tasks = json_object_get(answer, "tasks");
    if (json_array_size(tasks) == 0)
        print_next(cli, json_object_get(answer, "task"));
    for (size_t i = 0; i < json_array_size(tasks); i++)
        print_next(cli, json_array_get(tasks, i));
    explain(cli, get_id(cli->arena, json_object_get(answer, "task"), "id"));
    return 0;
}

static int claim(struct cli *cli)
{
    if (cli_session(cli) == NULL || !cli_open(cli))
        return cli->exit;
    return cli->args.word_count > 0 ? claim_one(cli) : claim_next(cli);
}

/* ---- what a holder reports ------------------------------------------------------------------- */

#define NEXT_OPTION OPT("next", 0, FLAG, NULL, NULL, "and claim the next task in the same step")
#define TOKEN_OPTION                                                                               \
    OPT("token", 0, INT, "N", "token", "refuse unless this is still the token of the claim")

static const struct cli_option heartbeat_options[] = {
    OPT("extend", 0, DURATION, "DURATION", "extendMs",
        "new lease from now on, instead of the old one's"),
    TOKEN_OPTION,
    {0},
};
static const struct cli_option progress_options[] = {
    OPT("percent", 0, INT, "N", "percent", "how far, 0 to 100"),
    OPT("message", 'm', TEXT, "TEXT", "message", "what is being done"),
    OPT("checkpoint", 0, VALUE, "JSON", "checkpoint",
        "given to the next attempt if this one does not finish"),
    TOKEN_OPTION,
    {0},
};
static const struct cli_option done_options[] = {
    OPT("result", 0, VALUE, "JSON", "result",
        "what came out; JSON if it can be read so, else text"),
    NEXT_OPTION,
    TOKEN_OPTION,
    {0},
};
static const struct cli_option fail_options[] = {
    OPT("error", 'm', TEXT, "TEXT", "error", "what went wrong"),
    OPT("permanent", 0, FLAG, NULL, "permanent", "no further attempt"),
    NEXT_OPTION,
    TOKEN_OPTION,
    {0},
};
static const struct cli_option release_options[] = {
    OPT("reason", 'm', TEXT, "TEXT", "reason", "why it is given back"),
    TOKEN_OPTION,
    {0},
};

/* next_filter: which task shall be the next one. */
static json_t *next_filter(const struct cli *cli)
{
    json_t *filter = must_json(json_object());

    if (cli->project != NULL)
        must_set(filter, "project", must_json(json_string(cli->project)));
    return filter;
}

/* is_kept: whether the journal has what was just reported as a late result of this session. */
static bool is_kept(struct cli *cli, const char *id, const char *field, const json_t *value)
{
    const json_t *events = NULL, *e = NULL;

    if (value == NULL ||
        !cli_call(cli, &(struct client_request){
                           .method = "GET", .path = cli_path(cli, "/api/tasks/", id, "/history")}))
        return false;
    events = json_object_get(cli->answer.json, "events");
    for (size_t i = 0; i < json_array_size(events); i++) {
        e = json_array_get(events, i);
        if (str_eq(get_text(e, "type"), "task:late-result") &&
            str_eq(get_text(e, "sessionId"), cli->session) &&
            json_equal(json_object_get(json_object_get(e, "data"), field), value) == 1)
            return true;
    }
    return false;
}

/* tell_kept: after a refused report, that the work behind it is not lost. */
static void tell_kept(struct cli *cli, const char *id, const json_t *body)
{
    static const char *const fields[] = {"result", "error"};

    if (cli->json || cli->quiet || cli->answer.status == DIBS_OK)
        return;
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (is_kept(cli, id, fields[i], json_object_get(body, fields[i]))) {
            cli_hint(cli, "the %s was kept: dibs task show %s --history", fields[i], id);
            return;
        }
}

/* report: a holder's request about the task of the command line. */
static json_t *report(struct cli *cli, const char *suffix)
{
    json_t *body = NULL, *answer = NULL;
    const char *id = cli_task_id(cli);

    if (id == NULL || cli_session(cli) == NULL || !cli_open(cli))
        return NULL;
    body = cli_body(cli);
    must_set(body, "sessionId", must_json(json_string(cli->session)));
    if (args_has(&cli->args, "next"))
        must_set(body, "claimNext", next_filter(cli));
    answer = cli_ask(cli, &(struct client_request){.method = "POST",
                                                   .path = cli_path(cli, "/api/tasks/", id, suffix),
                                                   .body = body});
    if (answer == NULL)
        tell_kept(cli, id, body);
    json_decref(body);
    return answer;
}

static int print_lease(struct cli *cli, const json_t *answer, const char *what)
{
    const json_t *lease = json_object_get(answer, "claim");

    if (answer == NULL)
        return cli->exit;
    if (!cli->quiet)
        printf("%s %s, yours until %s\n", what, cli->args.words[0],
               out_clock(&cli->out, cli->arena, get_text(lease, "expiresAt")));
    return 0;
}

static void print_lost(struct cli *cli, const json_t *lost)
{
    for (size_t i = 0; i < json_array_size(lost); i++) {
        const json_t *c = json_array_get(lost, i);
        const char *what = get_text(c, "taskId");
        printf("lost %s: %s\n", out_safe(cli->arena, what != NULL ? what : get_text(c, "resource")),
               get_text(c, "endReason"));
    }
}

static int session_heartbeat(struct cli *cli)
{
    const json_t *answer = NULL, *cancelled = NULL;
    const char *path = NULL;

    if (cli_session(cli) == NULL)
        return cli->exit;
    for (size_t i = 0; i < cli->args.given_count; i++)
        if (cli->args.given[i].option->field != NULL)
            return cli_usage(cli, "--%s is about one task; name its id",
                             cli->args.given[i].option->name);
    path = cli_path(cli, "/api/sessions/", cli->session, "/heartbeat");
    answer = cli_ask(cli, &(struct client_request){.method = "POST", .path = path});
    if (answer == NULL)
        return cli->exit;
    if (cli->quiet)
        return 0;
    printf("session %s renewed, with %zu claims and locks\n", cli->session,
           json_array_size(json_object_get(answer, "claims")));
    print_lost(cli, json_object_get(answer, "lost"));
    cancelled = json_object_get(answer, "cancelRequested");
    if (json_array_size(cancelled) > 0)
        printf("cancelled, stop working on: %s\n", list_line(cli->arena, cancelled));
    if (get_int(answer, "unreadMessages") > 0 || get_int(answer, "unreadMentions") > 0)
        printf("unread: %" PRId64 " messages, %" PRId64 " mentions\n",
               get_int(answer, "unreadMessages"), get_int(answer, "unreadMentions"));
    return 0;
}

static int heartbeat(struct cli *cli)
{
    if (cli->args.word_count == 0)
        return session_heartbeat(cli);
    return print_lease(cli, report(cli, "/claim/heartbeat"), "renewed");
}

static int progress(struct cli *cli)
{
    return print_lease(cli, report(cli, "/progress"), "noted");
}

/* print_granted: the next task, when one was asked for. */
static void print_granted(struct cli *cli, const json_t *granted)
{
    const json_t *task = json_object_get(granted, "task");
    const json_t *lease = json_object_get(granted, "claim");

    if (json_is_object(granted))
        print_claimed(cli, &(struct claimed){.id = get_id(cli->arena, task, "id"),
                                             .title = get_text(task, "title"),
                                             .until = get_text(lease, "expiresAt"),
                                             .token = get_int(lease, "token"),
                                             .params = json_object_get(task, "params"),
                                             .checkpoint = json_object_get(lease, "checkpoint")});
    else if (granted != NULL && !cli->quiet)
        puts("nothing more to claim");
}

/* print_outcome: what became of the task. */
static int print_outcome(struct cli *cli, const json_t *answer, const char *verb)
{
    const json_t *task = json_object_get(answer, "task");
    const char *status = get_text(task, "status"), *after = get_text(task, "runAfter");
    int64_t after_ms = 0;
    dibs_arena *a = cli->arena;

    if (answer == NULL)
        return cli->exit;
    if (cli->quiet) {
        print_granted(cli, json_object_get(answer, "next"));
        return 0;
    }
    printf("%s %s '%s', now ", verb, cli->args.words[0],
           get_text(task, "title") != NULL ? out_safe(a, get_text(task, "title")) : "");
    out_colour(&cli->out, status_colour(status), status != NULL ? status : "?");
    cli->out.now_ms = cli_now(cli);
    if (after != NULL && str_eq(status, "open") && time_from_text(after, &after_ms) &&
        after_ms > cli->out.now_ms)
        printf(", claimable %s", out_when(&cli->out, a, after));
    putchar('\n');
    print_granted(cli, json_object_get(answer, "next"));
    return 0;
}

static int done(struct cli *cli)
{
    return print_outcome(cli, report(cli, "/complete"), "done");
}

static int fail(struct cli *cli)
{
    return print_outcome(cli, report(cli, "/fail"), "failed");
}

static int release(struct cli *cli)
{
    return print_outcome(cli, report(cli, "/release"), "released");
}

const struct command claim_commands[] = {
    {"claim", "Working", "[ID] [options]", "claim a task, or the next one",
     "Without ID the best claimable task is taken: highest priority first, then oldest. Exit code "
     "3 means that there is "
     "none, 4 that somebody else holds the task; the message says who and for how long. A session "
     "without a process to watch (--pid) that is silent for orphanThreshold (10m if not set "
     "otherwise) loses what it holds, however long the lease: send heartbeats, or name a process. "
     "With --json a claim by ID is told in camelCase, as POST /api/tasks/ID/claim does, the next "
     "one in snake_case, as POST /api/tasks/claim does.",
     claim_options, 0, 1, false, claim},
    {"heartbeat", "Working", "[ID] [options]", "renew the lease on a task, or on all you hold",
     "Without ID the session and everything it holds are renewed; what was lost or cancelled is "
     "told. Exit code 5 means "
     "that the claim is no longer yours.",
     heartbeat_options, 0, 1, false, heartbeat},
    {"progress", "Working", "ID [options]", "note progress on a task; renews the lease", NULL,
     progress_options, 1, 1, false, progress},
    {"done", "Working", "ID [--result JSON]", "report a task as completed",
     "Accepted also after the lease has ended, if nobody has claimed the task since.", done_options,
     1, 1, false, done},
    {"fail", "Working", "ID [--error TEXT] [--permanent]", "report that an attempt failed",
     "The task is open again after a back-off, or failed when its attempts are used up.",
     fail_options, 1, 1, false, fail},
    {"release", "Working", "ID [--reason TEXT]", "give a task back", "The attempt does not count.",
     release_options, 1, 1, false, release},
    {0},
};
