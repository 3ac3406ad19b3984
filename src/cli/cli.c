/* SPDX-License-Identifier: MIT */
/*
 * cli.c: finds the command, reads its options, runs it, and sees its output through.
 *
 * Commands live in tables, one per cmd_*.c; a table's row is all that help, completion and dispatch
 * know of a command. A command has one or two words; options may stand anywhere, so the words are
 * looked for by stepping over the global options first, and only then are the options of the
 * command known and read.
 *
 *   1. Nothing is asked of the store before the whole command line has been read and found good.
 *   2. What could not be written to standard output is reported, except to a reader who has hung
 *      up.
 */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "cli.h"

#include "base/str.h"

const struct command *const command_tables[] = {
    store_commands,   task_commands,  import_commands, claim_commands,    move_commands,
    offer_commands,   poll_commands,  agent_commands,  inbox_commands,    channel_commands,
    session_commands, lock_commands,  key_commands,    overview_commands, event_commands,
    top_commands,     serve_commands, run_commands,    help_commands,     NULL,
};

const struct cli_option global_options[] = {
    OPT("data", 0, TEXT, "DIR", NULL, "the data folder (else DIBS_DATA, else .dibs here or above)"),
    OPT("url", 0, TEXT, "URL", NULL, "a daemon elsewhere (else DIBS_URL); its key: DIBS_API_KEY"),
    OPT("session", 0, TEXT, "ID", NULL,
        "who asks (else DIBS_SESSION, else one that ends with the terminal)"),
    OPT("project", 0, TEXT, "NAME", NULL, "the project (else DIBS_PROJECT)"),
    OPT("json", 0, FLAG, NULL, NULL, "print the answer as JSON, also when it is a refusal"),
    OPT("quiet", 'q', FLAG, NULL, NULL, "print ids only, and no hints"),
    OPT("no-color", 0, FLAG, NULL, NULL, "no colours, as with NO_COLOR"),
    OPT("help", 'h', FLAG, NULL, NULL, "explain the command"),
    {0},
};

/* ---- options for settings -------------------------------------------------------------------- */

static const struct {
    const char *name, *environment, *summary;
    bool is_duration;
} settings[] = {
#define SETTING(field, name, environment, standard, least, most, is_duration, summary)             \
    {name, environment, summary, is_duration},
#include "core/settings.def"
#undef SETTING
};

#define SETTING_NAME_BYTES 40

const struct cli_option *setting_options(void)
{
    static struct cli_option options[COUNT_OF(settings) + 1];
    static char names[COUNT_OF(settings)][SETTING_NAME_BYTES];

    if (options[0].name != NULL)
        return options;
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        /* DIBS_DEFAULT_TTL is --default-ttl */
        str_fit(names[i], sizeof names[i], settings[i].environment + strlen("DIBS_"));
        for (char *c = names[i]; *c != '\0'; c++)
            *c = (char)(*c == '_' ? '-' : *c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
        options[i] = (struct cli_option){.name = names[i],
                                         .kind = OPTION_TEXT,
                                         .value = settings[i].is_duration ? "DURATION" : "N",
                                         .help = settings[i].summary};
    }
    return options;
}

struct dibs_strings cli_settings(struct cli *cli)
{
    const char **items = must_alloc(cli->arena, COUNT_OF(settings) * sizeof *items);
    size_t count = 0;

    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        const char *text = args_text(&cli->args, setting_options()[i].name);
        if (text != NULL)
            items[count++] = must_printf(cli->arena, "%s=%s", settings[i].name, text);
    }
    return (struct dibs_strings){.items = items, .count = count};
}

/* open_as: opens the client; the store itself, when it is needed. */
static bool open_as(struct cli *cli, bool needs_store)
{
    struct dibs_error err = {0};
    struct client_options options = {.data_dir = args_text(&cli->args, "data"),
                                     .url = args_text(&cli->args, "url"),
                                     .settings = cli_settings(cli),
                                     .needs_store = needs_store};

    if (cli->client != NULL)
        return true;
    if (client_open(&options, &cli->client, &err) == DIBS_OK) {
        cli->out.now_ms = cli_now(cli);
        return true;
    }
    cli->exit = cli_error(cli, &err);
    return false;
}

bool cli_open(struct cli *cli)
{
    return open_as(cli, false);
}

bool cli_open_store(struct cli *cli)
{
    return open_as(cli, true);
}

/* ---- finding the command --------------------------------------------------------------------- */

const struct command *command_find(const char *first, const char *second)
{
    for (size_t t = 0; command_tables[t] != NULL; t++)
        for (const struct command *c = command_tables[t]; c->name != NULL; c++) {
            size_t bytes = strlen(first);
            if (second == NULL && str_eq(c->name, first))
                return c;
            if (second != NULL && str_starts(c->name, first) && c->name[bytes] == ' ' &&
                str_eq(c->name + bytes + 1, second))
                return c;
        }
    return NULL;
}

bool command_is_group(const char *word)
{
    for (size_t t = 0; command_tables[t] != NULL; t++)
        for (const struct command *c = command_tables[t]; c->name != NULL; c++)
            if (str_starts(c->name, word) && c->name[strlen(word)] == ' ')
                return true;
    return false;
}

/* next_word: index of the first item from `at` on that is no global option; count when there is
 * none. */
static size_t next_word(char **items, size_t count, size_t at)
{
    const struct cli_option *const tables[] = {global_options, setting_options(), NULL};

    for (; at < count && items[at][0] == '-'; at++) {
        const struct cli_option *option = option_find(tables, items[at]);
        if (option == NULL)
            return count;
        if (option->kind != OPTION_FLAG && strchr(items[at], '=') == NULL)
            at++;
    }
    return at < count ? at : count;
}

/* remove_item: takes items[at] out of the list. */
static void remove_item(char **items, size_t *count, size_t at)
{
    memmove(&items[at], &items[at + 1], (*count - at - 1) * sizeof *items);
    (*count)--;
}

/* said: whether an option without a value is among the items, for when they cannot be parsed. */
static bool said(char **items, size_t count, const char *option)
{
    for (size_t i = 0; i < count && !str_eq(items[i], "--"); i++)
        if (str_eq(items[i], option))
            return true;
    return false;
}

/* nearest_command: the command word that a mistyped one may have meant; NULL: none. */
static const char *nearest_command(dibs_arena *a, const char *group, const char *word)
{
    const char *best = NULL;

    for (size_t t = 0; command_tables[t] != NULL; t++)
        for (const struct command *c = command_tables[t]; c->name != NULL; c++) {
            const char *name = c->name;
            size_t bytes = group != NULL ? strlen(group) + 1 : 0;
            if (group != NULL && (!str_starts(name, group) || name[bytes - 1] != ' '))
                continue;
            name = must_copy(a, name + bytes, strcspn(name + bytes, " "));
            if (edit_is_near(word, name) &&
                (best == NULL || edit_distance(word, name) < edit_distance(word, best)))
                best = name;
        }
    return best;
}

static int refuse_command(struct cli *cli, const char *group, const char *word)
{
    const char *best = nearest_command(cli->arena, group, word);
    const char *space = group != NULL ? " " : "";

    group = group != NULL ? group : "";
    if (best != NULL)
        return cli_usage(cli, "there is no command '%s%s%s'; did you mean '%s%s%s'?", group, space,
                         word, group, space, best);
    return cli_usage(cli, "there is no command '%s%s%s'; see: dibs help%s%s", group, space, word,
                     space, group);
}

/* unknown_option: the first item that is an option of no command at all; NULL: none. */
static const char *unknown_option(char **items, size_t count)
{
    const struct cli_option *const tables[] = {global_options, setting_options(), NULL};

    for (size_t i = 0; i < count; i++)
        if (items[i][0] == '-' && option_find(tables, items[i]) == NULL)
            return items[i];
    return NULL;
}

/* only_options: there is no word on the command line. */
static int only_options(struct cli *cli, char **items, size_t count, bool help)
{
    if (said(items, count, "--version")) {
        printf("dibs %s\n", dibs_version());
        return 0;
    }
    if (help) {
        help_all(stdout, &cli->out);
        return 0;
    }
    if (unknown_option(items, count) != NULL)
        return cli_usage(cli, "unknown option '%s' before a command", unknown_option(items, count));
    if (cli->json)
        return cli_usage(cli, "no command given; see: dibs help");
    help_all(stderr, &cli->out);
    return EXIT_USAGE;
}

/* no_command: the command line names no command to run. */
static int no_command(struct cli *cli, char **items, size_t count)
{
    size_t at = next_word(items, count, 0);
    bool help = said(items, count, "--help") || said(items, count, "-h");

    if (at == count)
        return only_options(cli, items, count, help);
    if (!command_is_group(items[at]))
        return refuse_command(cli, NULL, items[at]);
    if (help) {
        help_group(cli, items[at]);
        return 0;
    }
    if (at + 1 < count)
        return refuse_command(cli, items[at], items[at + 1]);
    return cli_usage(cli, "'%s' needs another word; see: dibs help %s", items[at], items[at]);
}

/* find: the command that the items name; its words are taken out of them. NULL: none. */
static const struct command *find(char **items, size_t *count)
{
    size_t first = next_word(items, *count, 0);
    size_t second = first < *count ? next_word(items, *count, first + 1) : *count;
    const struct command *command = NULL;

    if (first == *count)
        return NULL;
    if (second < *count)
        command = command_find(items[first], items[second]);
    if (command != NULL)
        remove_item(items, count, second);
    else
        command = command_find(items[first], NULL);
    if (command != NULL)
        remove_item(items, count, first);
    return command;
}

/* ---- running --------------------------------------------------------------------------------- */

/* check_words: whether there are as many words as the command takes. */
static int check_words(struct cli *cli)
{
    const struct command *c = cli->command;

    if (cli->args.word_count < c->words_min)
        return cli_usage(cli, "too few arguments; usage: dibs %s %s", c->name, c->usage);
    if (cli->args.word_count > c->words_max)
        return cli_usage(cli, "too many arguments, '%s' is one too much; usage: dibs %s %s",
                         cli->args.words[c->words_max], c->name, c->usage);
    for (size_t i = 0; i < cli->args.word_count; i++)
        if (cli->args.words[i][0] == '\0')
            return cli_usage(cli, "an argument is empty; usage: dibs %s %s", c->name, c->usage);
    return 0;
}

static int run(struct cli *cli, char **items, size_t count)
{
    static const struct cli_option none[] = {{0}};
    struct dibs_error err = {0};
    const struct cli_option *own = cli->command->options;
    const struct cli_option *tables[] = {own != NULL ? own : none, global_options,
                                         setting_options(), NULL};
    struct args_input input = {.tables = tables,
                               .items = items,
                               .count = count,
                               .takes_program = cli->command->takes_program};
    int code = 0;

    if (args_parse(cli->arena, &input, &cli->args, &err) != DIBS_OK)
        return cli_usage(cli, "%s", err.message);
    if (args_has(&cli->args, "help")) {
        help_command(cli, cli->command);
        return 0;
    }
    cli->json = args_has(&cli->args, "json");
    cli->quiet = args_has(&cli->args, "quiet");
    cli->project = args_text(&cli->args, "project");
    if (cli->project == NULL)
        cli->project = getenv("DIBS_PROJECT");
    if (cli->project != NULL && cli->project[0] == '\0')
        cli->project = NULL;
    code = check_words(cli);
    return code != 0 ? code : cli->command->run(cli);
}

/* reader_hung_up: whether standard output is a pipe that nobody reads any more. */
static bool reader_hung_up(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

    return poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

/* flush: a command whose output is lost has failed, unless its reader had seen enough. */
static int flush(int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return code;
    if (errno == EPIPE || reader_hung_up())
        return code;
    fprintf(stderr, "dibs: cannot write to standard output%s%s\n", errno != 0 ? ": " : "",
            errno != 0 ? strerror(errno) : "");
    return code != 0 ? code : EXIT_BAD;
}

int cli_main(int argc, char **argv)
{
    struct cli cli = {0};
    size_t count = argc > 0 ? (size_t)argc - 1 : 0;
    char **items = argv + 1;
    int code = 0;

    cli.arena = dibs_arena_new();
    if (cli.arena == NULL)
        must_fail();
    cli.json = said(items, count, "--json");
    output_init(&cli.out, said(items, count, "--no-color"));
    cli.command = find(items, &count);
    code = cli.command != NULL ? run(&cli, items, count) : no_command(&cli, items, count);
    code = flush(code);
    client_answer_release(&cli.answer);
    client_close(cli.client);
    dibs_arena_free(cli.arena);
    return code;
}
