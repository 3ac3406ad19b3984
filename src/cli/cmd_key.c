/* SPDX-License-Identifier: MIT */
/*
 * cmd_key.c: dibs key add, list, revoke: who may ask a daemon from elsewhere.
 *
 * A new key is printed once, alone on stdout when --quiet asks for it, so that it can go into a
 * file without passing the screen. --project of the command line limits the key; DIBS_PROJECT does
 * not, as a limit should be meant.
 */
#include "cli.h"

static const struct cli_option add_options[] = {
    OPT("role", 0, TEXT, "ROLE", "role", "read, worker or admin"),
    OPT("rate", 0, INT, "N", "ratePerMinute", "requests per minute; 0: no limit, 100 if not given"),
    {0},
};
static const struct cli_option list_options[] = {
    OPT("all", 'a', FLAG, NULL, NULL, "also those that were revoked"),
    {0},
};

/* say_what: "k7f3a9x 'ci': worker, project 'web', 100 requests per minute" */
static void say_what(struct cli *cli, const json_t *key)
{
    const char *project = get_text(key, "project");
    int64_t rate = get_int(key, "ratePerMinute");
    printf("%s '%s': %s", get_text(key, "id"), out_safe(cli->arena, get_text(key, "name")),
           get_text(key, "role"));
    if (project != NULL)
        printf(", project '%s'", out_safe(cli->arena, project));
    if (rate > 0)
        printf(", %" PRId64 " requests per minute\n", rate);
    else
        puts(", no limit of requests");
}

static int key_add(struct cli *cli)
{
    const char *project = args_text(&cli->args, "project");
    json_t *body = NULL;
    const json_t *answer = NULL;

    if (!cli_open(cli))
        return cli->exit;
    body = cli_body(cli);
    must_set(body, "name", must_json(json_string(cli->args.words[0])));
    if (project != NULL && project[0] != '\0')
        must_set(body, "project", must_json(json_string(project)));
    answer =
        cli_ask(cli, &(struct client_request){.method = "POST", .path = "/api/keys", .body = body});
    json_decref(body);
    if (answer == NULL)
        return cli->exit;
    if (!cli->quiet) {
        fputs("added ", stdout);
        say_what(cli, json_object_get(answer, "key"));
    }
    printf("%s\n", get_text(answer, "apiKey"));
    cli_hint(cli, "keep it now, it cannot be shown again; whoever has it sets DIBS_API_KEY to it");
    return 0;
}

static const struct column key_columns[] = {
    {"ID", false, false},      {"NAME", false, true},       {"ROLE", false, false},
    {"PROJECT", false, false}, {"PER MINUTE", true, false}, {"ENDS IN", false, false},
    {"MADE", false, false},    {"REVOKED", false, false},
};

static void list_row(struct cli *cli, struct table *t, const json_t *key)
{
    const char *project = get_text(key, "project"), *revoked = get_text(key, "revokedAt");
    dibs_arena *a = cli->arena;
    table_cell(t, CYAN, get_text(key, "id"));
    table_cell(t, PLAIN, get_text(key, "name"));
    table_cell(t, PLAIN, get_text(key, "role"));
    table_cell(t, PLAIN, project != NULL ? project : "all");
    if (get_int(key, "ratePerMinute") > 0)
        table_int(t, get_int(key, "ratePerMinute"));
    else
        table_cell(t, PLAIN, "no limit");
    table_cell(t, PLAIN, get_text(key, "hint"));
    table_cell(t, PLAIN, out_when(&cli->out, a, get_text(key, "createdAt")));
    if (args_has(&cli->args, "all"))
        table_cell(t, PLAIN, revoked != NULL ? out_when(&cli->out, a, revoked) : "");
}

static int key_list(struct cli *cli)
{
    const json_t *answer =
        cli_ask(cli, &(struct client_request){.method = "GET", .path = "/api/keys"});
    const json_t *keys = json_object_get(answer, "keys");
    struct table t;
    size_t shown = 0;

    if (answer == NULL)
        return cli->exit;
    /* the last column is about those that were revoked */
    table_init(&t, cli->arena, key_columns,
               COUNT_OF(key_columns) - (args_has(&cli->args, "all") ? 0 : 1));
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const json_t *key = json_array_get(keys, i);
        if (get_text(key, "revokedAt") != NULL && !args_has(&cli->args, "all"))
            continue;
        shown++;
        if (cli->quiet)
            printf("%s\n", get_text(key, "id"));
        else
            list_row(cli, &t, key);
    }
    if (shown == 0 && !cli->quiet)
        puts("no keys");
    if (t.cell_count > 0)
        table_print(&t, &cli->out);
    return 0;
}

static int key_revoke(struct cli *cli)
{
    const json_t *answer = NULL, *key = NULL;

    if (!cli_open(cli))
        return cli->exit;
    answer = cli_ask(
        cli, &(struct client_request){.method = "DELETE",
                                      .path = cli_path(cli, "/api/keys/", cli->args.words[0], "")});
    if (answer == NULL)
        return cli->exit;
    key = json_object_get(answer, "key");
    if (!cli->quiet)
        printf("revoked %s '%s'\n", get_text(key, "id"),
               out_safe(cli->arena, get_text(key, "name")));
    return 0;
}

const struct command key_commands[] = {
    {"key add", "Keys", "NAME --role ROLE [--rate N] [--project NAME]",
     "make an API key and print it, once",
     "With role read it may look, with worker also work, with admin also clean up and manage keys. "
     "A session belongs to the key that registered it: no other key but an admin's can act for it. "
     "--project limits the key to that project. From the first key on, everybody who comes over "
     "TCP needs one, also on this machine; the socket in the data folder needs none.",
     add_options, 1, 1, false, key_add},
    {"key list", "Keys", "[--all]", "list API keys, without their secrets", NULL, list_options, 0,
     0, false, key_list},
    {"key revoke", "Keys", "ID", "revoke an API key, for good",
     "A daemon refuses it within a second. Sessions that it registered live on until they end.",
     NULL, 1, 1, false, key_revoke},
    {0},
};
