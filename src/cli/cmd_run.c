/* SPDX-License-Identifier: MIT */
/*
 * cmd_run.c: dibs run: reads its options, hands them to the runner, and prints what it tells.
 *
 * News go to standard error, a line each; with --quiet only what went wrong; with --json each one
 * is a line of JSON on standard output, as dibs watch does it.
 */
#include <errno.h>

#include "cli.h"

#include "base/str.h"
#include "runner/runner.h"

#define PROMPT_FILE_BYTES_MAX (1024 * 1024)

static const struct cli_option run_options[] = {
    OPT("agent", 0, TEXT, "NAME", NULL,
        "poll as this agent: offers, assigned tasks, messages and mentions too (else DIBS_AGENT)"),
    OPT("type", 0, LIST, "TYPE", NULL,
        "from the pool only tasks of this type; several times for more"),
    OPT("max", 'n', INT, "N", NULL, "so many at once (else MAX_CONCURRENT_TASKS, else 1)"),
    OPT("ttl", 0, DURATION, "DURATION", NULL, "lease of the claims; renewed while CMD runs"),
    OPT("time-limit", 0, DURATION, "DURATION", NULL, "stop CMD after so long; the attempt fails"),
    OPT("grace", 0, DURATION, "DURATION", NULL,
        "between SIGTERM and SIGKILL when CMD is stopped (10s)"),
    OPT("prompt", 0, TEXT, "FILE", NULL,
        "fill this template; CMD reads it instead of JSON, or has it as argument {{prompt}}"),
    OPT("log-dir", 0, TEXT, "DIR", NULL, "where the output goes (logs in the data folder)"),
    OPT("once", 0, FLAG, NULL, NULL, "wait for one task, run it, end"),
    OPT("drain-when-empty", 0, FLAG, NULL, NULL, "end when there is nothing to claim"),
    OPT("shell", 0, FLAG, NULL, NULL, "CMD is one line for /bin/sh -c"),
    {0},
};

/* news: see the head of this file. */
static void news(void *context, const json_t *item, const char *line, bool trouble)
{
    const struct cli *cli = context;

    if (cli->json) {
        cli_print_json(item);
        fflush(stdout);
    } else if (trouble || !cli->quiet) {
        cli_complain("%s", line);
    }
}

/* max_of: how many at once, and whether that was said; 0: refused and shown. */
static int64_t max_of(struct cli *cli, bool *given)
{
    const char *from_env = getenv("MAX_CONCURRENT_TASKS");
    int64_t max = 1;

    *given = args_has(&cli->args, "max") || (from_env != NULL && from_env[0] != '\0');
    if (args_has(&cli->args, "max")) {
        max = args_int(&cli->args, "max", 1);
    } else if (from_env != NULL && from_env[0] != '\0' && !str_to_int(from_env, &max)) {
        cli->exit = cli_usage(cli, "MAX_CONCURRENT_TASKS is not a number: '%s'", from_env);
        return 0;
    }
    if (max >= 1 && max <= RUNNER_MAX_TASKS)
        return max;
    cli->exit =
        cli_usage(cli, "%s must be from 1 to %d",
                  args_has(&cli->args, "max") ? "--max" : "MAX_CONCURRENT_TASKS", RUNNER_MAX_TASKS);
    return 0;
}

/* read_prompt: the template; NULL when there is none, or it was refused: cli->exit. */
static const char *read_prompt(struct cli *cli)
{
    const char *path = args_text(&cli->args, "prompt");
    struct dibs_error err = {0};
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = NULL;

    if (path == NULL)
        return NULL;
    file = fopen(path, "re");
    if (file == NULL) {
        cli->exit = cli_usage(cli, "cannot read '%s': %s", path, strerror(errno));
        return NULL;
    }
    text = must_alloc(cli->arena, PROMPT_FILE_BYTES_MAX + 1);
    bytes = fread(text, 1, PROMPT_FILE_BYTES_MAX + 1, file);
    if (ferror(file) != 0)
        cli->exit = cli_usage(cli, "cannot read '%s': %s", path, strerror(errno));
    else if (bytes > PROMPT_FILE_BYTES_MAX)
        cli->exit = cli_usage(cli, "'%s' is longer than 1 MiB", path);
    else if (!str_is_utf8(text, bytes))
        cli->exit = cli_usage(cli, "'%s' is not UTF-8 text", path);
    fclose(file);
    if (cli->exit != 0)
        return NULL;
    text[bytes] = '\0';
    if (prompt_check(text, &err) != DIBS_OK)
        cli->exit = cli_usage(cli, "%s", err.message);
    return text;
}

/* check: what can be said of the options before anything is asked. */
static int check(struct cli *cli)
{
    const char *const positive[] = {"ttl", "time-limit"};
    bool shell = args_has(&cli->args, "shell");

    if (cli->args.program_count == 0)
        return cli_usage(cli, "no command to run; usage: dibs run [options] -- CMD ARGS");
    if (shell && cli->args.program_count > 1)
        return cli_usage(cli, "--shell takes one line: put it in quotes behind --");
    if (args_has(&cli->args, "once") && args_has(&cli->args, "drain-when-empty"))
        return cli_usage(cli, "either --once or --drain-when-empty, not both");
    for (size_t i = 0; i < COUNT_OF(positive); i++)
        if (args_has(&cli->args, positive[i]) && args_duration_ms(&cli->args, positive[i], 0) <= 0)
            return cli_usage(cli, "--%s must be more than 0", positive[i]);
    for (size_t i = 0; i < cli->args.program_count; i++)
        if (str_eq(cli->args.program[i], "{{prompt}}") && !args_has(&cli->args, "prompt"))
            return cli_usage(cli, "an argument is {{prompt}}, but there is no --prompt FILE");
    if (args_has(&cli->args, "session") && !str_is_id(args_text(&cli->args, "session")))
        return cli_usage(cli, "--session must be an id");
    return 0;
}

static struct dibs_strings types_of(struct cli *cli)
{
    const char **items = must_alloc(cli->arena, (cli->args.given_count + 1) * sizeof *items);
    size_t count = 0;

    for (size_t i = 0; i < cli->args.given_count; i++)
        if (str_eq(cli->args.given[i].option->name, "type"))
            items[count++] = cli->args.given[i].text;
    return (struct dibs_strings){.items = items, .count = count};
}

static int run(struct cli *cli)
{
    struct runner_options options = {
        .client = {.data_dir = args_text(&cli->args, "data"),
                   .url = args_text(&cli->args, "url"),
                   .settings = cli_settings(cli)},
        .program = cli->args.program,
        .shell = args_has(&cli->args, "shell"),
        .agent = cli_agent(cli),
        .agent_from_env = !args_has(&cli->args, "agent"),
        /* not DIBS_SESSION: inside another runner's command that is the other runner's */
        .session = args_text(&cli->args, "session"),
        .project = cli->project,
        .types = types_of(cli),
        .ttl_ms = args_duration_ms(&cli->args, "ttl", 0),
        .time_limit_ms = args_duration_ms(&cli->args, "time-limit", 0),
        .grace_ms = args_duration_ms(&cli->args, "grace", RUNNER_GRACE_MS),
        .log_dir = args_text(&cli->args, "log-dir"),
        .once = args_has(&cli->args, "once"),
        .drain_when_empty = args_has(&cli->args, "drain-when-empty"),
        .news = news,
        .context = cli,
    };
    struct dibs_error err = {0};
    int code = check(cli);

    if (code != 0)
        return code;
    options.max = max_of(cli, &options.max_given);
    if (options.max == 0)
        return cli->exit;
    options.prompt = read_prompt(cli);
    if (cli->exit != 0)
        return cli->exit;
    return runner_run(&options, &code, &err) == DIBS_OK ? code : cli_error(cli, &err);
}

const struct command run_commands[] = {
    {"run", "Working", "[options] -- CMD [ARGS]", "run a command for each task that comes",
     "CMD reads the task as JSON, or what --prompt makes of it, and finds DIBS_TASK_ID, "
     "DIBS_TITLE, "
     "DIBS_PARAMS and more in its environment. Exit code 0 completes the task, 75 gives it back, "
     "anything else fails it; the last 8 KiB that it printed, or all of it if that is one JSON "
     "object, are the result. Lines on descriptor 3 are progress. CMD is stopped, with everything "
     "in its process group, when the claim is lost or the task cancelled. SIGTERM lets what runs "
     "end and takes nothing new; a second one stops it and gives it back. Never through a shell, "
     "unless --shell asks for it.",
     run_options, 0, 0, true, run},
    {0},
};
