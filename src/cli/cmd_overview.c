/* SPDX-License-Identifier: MIT */
/*
 * cmd_overview.c: dibs in-flight, stats, scores, cleanup: all claims at once.
 */
#include "cli.h"

#include "base/str.h"

/* ---- in-flight ------------------------------------------------------------------------------- */

static const struct cli_option in_flight_options[] = {
    OPT("session", 0, TEXT, "ID", "sessionId", "only held by this session"),
    OPT("include-expired", 0, FLAG, NULL, "includeExpired",
        "also claims whose deadline is past and that no sweep has ended yet"),
    OPT("limit", 'n', INT, "N", "limit", "at most so many, 100 if not given"),
    {0},
};

static const struct column in_flight_columns[] = {
    {"ID", false, false},      {"TITLE", false, true},    {"HELD BY", false, false},
    {"CLAIMED", false, false}, {"EXPIRES", false, false}, {"HEALTH", false, false},
    {"DONE", true, false},
};

void in_flight_print(struct cli *cli, dibs_arena *a, const json_t *list, size_t rows)
{
    struct table t;

    table_init(&t, a, in_flight_columns, COUNT_OF(in_flight_columns));
    for (size_t i = 0; i < json_array_size(list) && i < rows; i++) {
        const json_t *item = json_array_get(list, i), *claim = json_object_get(item, "claim");
        const json_t *percent = json_object_get(json_object_get(claim, "progress"), "percent");
        const char *health = get_text(claim, "healthStatus");
        table_cell(&t, CYAN, get_id(a, item, "taskId"));
        table_cell(&t, PLAIN, get_text(json_object_get(item, "task"), "title"));
        table_cell(&t, PLAIN, get_text(claim, "sessionId"));
        table_cell(&t, PLAIN, out_when(&cli->out, a, get_text(claim, "claimedAt")));
        table_cell(&t, PLAIN, out_when(&cli->out, a, get_text(claim, "expiresAt")));
        table_cell(&t, health_colour(health), health);
        table_cell(&t, PLAIN,
                   percent == NULL
                       ? NULL
                       : must_printf(a, "%" PRId64 "%%", (int64_t)json_integer_value(percent)));
    }
    table_print(&t, &cli->out);
}

static int in_flight(struct cli *cli)
{
    const json_t *answer = cli_ask(cli, &(struct client_request){.method = "GET",
                                                                 .path = "/api/tasks/in-flight",
                                                                 .query = cli_query(cli, true)});
    const json_t *list = json_object_get(answer, "inFlight");
    int64_t total = get_int(json_object_get(answer, "summary"), "total");

    if (answer == NULL)
        return cli->exit;
    if (cli->quiet)
        for (size_t i = 0; i < json_array_size(list); i++)
            printf("%s\n", get_id(cli->arena, json_array_get(list, i), "taskId"));
    else if (json_array_size(list) == 0)
        puts("nothing is claimed");
    else
        in_flight_print(cli, cli->arena, list, SIZE_MAX);
    if (total > (int64_t)json_array_size(list))
        cli_hint(cli, "%" PRId64 " in all; see more with --limit", total);
    return 0;
}

/* ---- stats ----------------------------------------------------------------------------------- */

/* tally_line: "worker 3, cli 1"; NULL when there is nothing to count. */
static const char *tally_line(dibs_arena *a, json_t *tallies)
{
    const char *name = NULL, *line = NULL;
    json_t *value = NULL;
    struct buf b;

    if (json_object_size(tallies) == 0)
        return NULL;
    buf_init(&b, ANSWER_BYTES_MAX);
    json_object_foreach(tallies, name, value) buf_printf(&b, "%s%s %" PRId64, b.len > 0 ? ", " : "",
                                                         name, (int64_t)json_integer_value(value));
    line = must_copy(a, must_buf(&b), b.len);
    buf_release(&b);
    return line;
}

static int stats(struct cli *cli)
{
    const json_t *answer =
        cli_ask(cli, &(struct client_request){.method = "GET", .path = "/api/tasks/claims/stats"});
    dibs_arena *a = cli->arena;

    if (answer == NULL)
        return cli->exit;
    answer = json_object_get(answer, "stats");
    out_colour(&cli->out, BOLD, "claims\n");
    show_line(cli, "total", must_printf(a, "%" PRId64, get_int(answer, "total")));
    show_line(cli, "active", must_printf(a, "%" PRId64, get_int(answer, "active")));
    show_line(cli, "expiring", must_printf(a, "%" PRId64, get_int(answer, "expiring")));
    show_line(cli, "stale", must_printf(a, "%" PRId64, get_int(answer, "stale")));
    show_line(cli, "by agent type", tally_line(a, json_object_get(answer, "byAgentType")));
    show_line(cli, "by session", tally_line(a, json_object_get(answer, "bySession")));
    show_line(cli, "average hold", out_span(a, get_int(answer, "averageHoldMs")));
    out_colour(&cli->out, BOLD, "tasks\n");
    show_line(cli, "by status", tally_line(a, json_object_get(answer, "tasksByStatus")));
    if (get_int(answer, "oldestClaimableMs") > 0)
        show_line(cli, "oldest waits", out_span(a, get_int(answer, "oldestClaimableMs")));
    out_colour(&cli->out, BOLD, "since the store was made\n");
    show_line(cli, "claims", tally_line(a, json_object_get(answer, "totals")));
    return 0;
}

/* ---- scores ---------------------------------------------------------------------------------- */

static const char *const score_fields[] = {"claimed",  "completed", "failed",  "expired",
                                           "orphaned", "released",  "refused", "lateResults"};
static const struct column score_columns[] = {
    {"AGENT", false, true},  {"CLAIMED", true, false}, {"DONE", true, false},
    {"FAILED", true, false}, {"EXPIRED", true, false}, {"ORPHANED", true, false},
    {"BACK", true, false},   {"REFUSED", true, false}, {"LATE", true, false},
    {"TAKES", true, false},  {"ACTIVE", false, false},
};

static int scores(struct cli *cli)
{
    const json_t *answer =
        cli_ask(cli, &(struct client_request){.method = "GET", .path = "/api/agents/scores"});
    const json_t *list = json_object_get(answer, "scores");
    dibs_arena *a = cli->arena;
    struct table t;

    if (answer == NULL)
        return cli->exit;
    if (json_array_size(list) == 0) {
        puts("no scores yet");
        return 0;
    }
    table_init(&t, a, score_columns, COUNT_OF(score_columns));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *score = json_array_get(list, i);
        table_cell(&t, CYAN, get_text(score, "agent"));
        for (size_t j = 0; j < COUNT_OF(score_fields); j++)
            table_int(&t, get_int(score, score_fields[j]));
        table_cell(&t, PLAIN, out_span(a, get_int(score, "averageDurationMs")));
        table_cell(&t, DIM, out_when(&cli->out, a, get_text(score, "lastActive")));
    }
    table_print(&t, &cli->out);
    return 0;
}

/* ---- cleanup --------------------------------------------------------------------------------- */

static const struct cli_option cleanup_options[] = {
    OPT("type", 0, TEXT, "TYPE", "type",
        "only this: expired, orphaned, locks, sessions, events, session"),
    OPT("no-process-check", 0, FLAG, NULL, NULL,
        "orphaned: go by heartbeats alone, do not look at processes"),
    OPT("session", 0, TEXT, "ID", "sessionId", "session: release what this session holds"),
    OPT("reason", 'm', TEXT, "TEXT", "reason", "session: why"),
    {0},
};

static const struct column cleaned_columns[] = {
    {"FREED", false, true},
    {"WAS HELD BY", false, false},
    {"FOR", true, false},
    {"REASON", false, false},
};

static void print_cleaned(struct cli *cli, const json_t *claims)
{
    struct table t;

    table_init(&t, cli->arena, cleaned_columns, COUNT_OF(cleaned_columns));
    for (size_t i = 0; i < json_array_size(claims); i++) {
        const json_t *c = json_array_get(claims, i);
        const char *task = get_text(c, "taskId");
        table_cell(&t, CYAN, task != NULL ? task : get_text(c, "resource"));
        table_cell(&t, PLAIN, get_text(c, "sessionId"));
        table_cell(&t, PLAIN, out_span(cli->arena, get_int(c, "heldForMs")));
        table_cell(&t, PLAIN, get_text(c, "reason"));
    }
    if (t.cell_count > 0)
        table_print(&t, &cli->out);
}

/* print_counts: the numbers of a sweep, but for the claims it lists. */
static void print_counts(struct cli *cli, json_t *cleaned)
{
    const char *name = NULL;
    json_t *value = NULL;
    struct buf b;

    buf_init(&b, 4096);
    json_object_foreach(cleaned, name,
                        value) if (json_is_integer(value) &&
                                   (!str_eq(name, "count") || json_object_size(cleaned) <= 2 ||
                                    json_object_get(cleaned, "claims") != NULL))
        buf_printf(&b, "%s%s %" PRId64, b.len > 0 ? ", " : "",
                   str_eq(name, "count") ? "freed" : name, (int64_t)json_integer_value(value));
    printf("%s\n", out_safe(cli->arena, must_buf(&b)));
    buf_release(&b);
}

static int cleanup(struct cli *cli)
{
    const char *type = args_text(&cli->args, "type");
    bool orphaned = str_eq(type, "orphaned");
    json_t *body = NULL, *answer = NULL;

    if (args_has(&cli->args, "no-process-check") && !orphaned)
        return cli_usage(cli, "--no-process-check goes with --type orphaned only");
    if (!cli_open(cli))
        return cli->exit;
    body = cli_body(cli);
    if (type == NULL && args_has(&cli->args, "session"))
        must_set(body, "type", must_json(json_string("session")));
    if (orphaned)
        must_set(body, "checkPid", json_boolean(!args_has(&cli->args, "no-process-check")));
    answer = cli_ask(cli, &(struct client_request){
                              .method = "POST", .path = "/api/tasks/claims/cleanup", .body = body});
    json_decref(body);
    if (answer == NULL)
        return cli->exit;
    answer = json_object_get(answer, "cleaned");
    if (!cli->quiet) {
        print_counts(cli, answer);
        print_cleaned(cli, json_object_get(answer, "claims"));
    }
    return 0;
}

const struct command overview_commands[] = {
    {"in-flight", "Overview", "[options]", "all claimed tasks and who holds them", NULL,
     in_flight_options, 0, 0, false, in_flight},
    {"stats", "Overview", "", "claims in numbers", NULL, NULL, 0, 0, false, stats},
    {"scores", "Overview", "", "what the journal says of each agent", NULL, NULL, 0, 0, false,
     scores},
    {"agent scores", "Agents", "", "what the journal says of each agent", NULL, NULL, 0, 0, false,
     scores},
    {"cleanup", "Overview", "[options]", "free what expired or was orphaned, now",
     "Leases end by themselves at their deadline; this frees what dead or silent sessions hold, "
     "and tidies up.",
     cleanup_options, 0, 0, false, cleanup},
    {0},
};
