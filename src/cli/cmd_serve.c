/* SPDX-License-Identifier: MIT */
/*
 * cmd_serve.c: dibs serve: finds or makes the data folder and hands it to the daemon.
 *
 * The folder is the one that any other command would use here. --init makes it when there is none,
 * so that one command is enough to begin; without --init a wrong folder does not become a new and
 * empty queue.
 */
#include <limits.h>

#include "cli.h"

#include "base/str.h"
#include "server/server.h"

#define CONNECTIONS_MIN 8
#define CONNECTIONS_MAX 1000000

static const struct cli_option serve_options[] = {
    OPT("listen", 'l', LIST, "ADDR", NULL,
        "where: PORT, ADDR:PORT, [ADDR]:PORT or unix:PATH; several times for more; if not given, "
        "port 7117 of this machine only, and the socket in the data folder"),
    OPT("host", 0, LIST, "NAME", NULL,
        "a name by which others reach it; several times for more; localhost needs no mention"),
    OPT("max-connections", 0, INT, "N", NULL, "at most so many at once"),
    OPT("idle-timeout", 0, DURATION, "DURATION", NULL,
        "hang up on a connection that has asked nothing for so long (75s)"),
    OPT("request-timeout", 0, DURATION, "DURATION", NULL,
        "hang up on a request that has not come in whole by then (10s)"),
    OPT("log-requests", 0, FLAG, NULL, NULL, "one line of JSON for each request"),
    OPT("init", 0, FLAG, NULL, NULL, "make the data folder if there is none"),
    {0},
};

/* all_given: every value of an option that may be given several times. */
static struct dibs_strings all_given(struct cli *cli, const char *name)
{
    const char **items = must_alloc(cli->arena, (cli->args.given_count + 1) * sizeof *items);
    size_t count = 0;

    for (size_t i = 0; i < cli->args.given_count; i++)
        if (str_eq(cli->args.given[i].option->name, name))
            items[count++] = cli->args.given[i].text;
    return (struct dibs_strings){.items = items, .count = count};
}

/* find_dir: the data folder; .dibs here when there is none anywhere. */
static const char *find_dir(struct cli *cli)
{
    const char *dir = args_text(&cli->args, "data");

    if (dir == NULL)
        dir = getenv("DIBS_DATA");
    if (dir == NULL || dir[0] == '\0')
        dir = dibs_find_data_dir(cli->arena, NULL);
    return dir != NULL ? dir : ".dibs";
}

static int serve(struct cli *cli)
{
    struct server_options options = {
        .data_dir = find_dir(cli),
        .settings = cli_settings(cli),
        .listen = all_given(cli, "listen"),
        .hosts = all_given(cli, "host"),
        .connections_max = args_int(&cli->args, "max-connections", 0),
        .idle_timeout_ms = args_duration_ms(&cli->args, "idle-timeout", 0),
        .request_timeout_ms = args_duration_ms(&cli->args, "request-timeout", 0),
        .log_requests = args_has(&cli->args, "log-requests"),
        .quiet = cli->quiet,
    };
    struct dibs_error err = {0};
    bool made = false;
    char full[PATH_MAX] = "";

    if (args_has(&cli->args, "url"))
        return cli_usage(cli, "serve is the daemon itself and cannot be sent to one by --url");
    if (args_has(&cli->args, "max-connections") &&
        (options.connections_max < CONNECTIONS_MIN || options.connections_max > CONNECTIONS_MAX))
        return cli_usage(cli, "--max-connections must be from %d to %d", CONNECTIONS_MIN,
                         CONNECTIONS_MAX);
    if (args_has(&cli->args, "init") && !store_make(cli, options.data_dir, &made))
        return cli->exit;
    if (made)
        cli_hint(cli, "dibs: made %s",
                 realpath(options.data_dir, full) != NULL ? full : options.data_dir);
    if (server_run(&options, &err) == DIBS_OK)
        return 0;
    /* it is about an address, or about another daemon: no case for the doctor */
    if (err.code == DIBS_STORE_UNAVAILABLE)
        cli->quiet = true;
    return cli_error(cli, &err);
}

const struct command serve_commands[] = {
    {"serve", "Daemon", "[--listen ADDR]... [options]", "the daemon: HTTP API, events, metrics",
     "Commands on the same data folder use it by themselves, through a socket in the folder; from "
     "elsewhere, with --url or DIBS_URL. While there are no API keys it serves this machine only: "
     "make one with dibs key add before you listen on other addresses. SIGTERM and Ctrl-C end it "
     "after what was accepted is done; SIGHUP reads the settings again.",
     serve_options, 0, 0, false, serve},
    {0},
};
