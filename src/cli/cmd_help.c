/* SPDX-License-Identifier: MIT */
/*
 * cmd_help.c: dibs help and version. All texts come from the tables that the parser uses.
 *
 * `help --commands` prints every command with its options, one per line and separated by tabs: the
 * tests compare the manual page and the completions with it, so that they cannot fall behind.
 */
#include "cli.h"

#include "base/str.h"

#define TEXT_COLUMNS 78

/* ---- layout ---------------------------------------------------------------------------------- */

/* wrap: prints text in lines of at most TEXT_COLUMNS, indented; the first line begins at column
 * `at`. */
static void wrap(const char *text, int indent, int at)
{
    int column = at;

    while (*text != '\0') {
        int word = (int)strcspn(text, " ");
        if (column > indent && column + 1 + word > TEXT_COLUMNS) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", word, text);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void print_option(const struct cli *cli, const struct cli_option *o)
{
    const char *name =
        must_printf(cli->arena, "  %s%c%s --%s%s%s", o->letter != 0 ? "-" : " ",
                    o->letter != 0 ? o->letter : ' ', o->letter != 0 ? "," : " ", o->name,
                    o->value != NULL ? " " : "", o->value != NULL ? o->value : "");
    int used = (int)strlen(name);

    out_colour(&cli->out, CYAN, name);
    if (used > 28) {
        putchar('\n');
        used = 0;
    }
    printf("%*s", 30 - used, "");
    wrap(o->help, 30, 30);
}

static void print_options(const struct cli *cli, const char *title, const struct cli_option *table)
{
    if (table == NULL || table->name == NULL)
        return;
    putchar('\n');
    out_colour(&cli->out, BOLD, title);
    putchar('\n');
    for (; table->name != NULL; table++)
        if (!table->hidden)
            print_option(cli, table);
}

void help_command(const struct cli *cli, const struct command *c)
{
    out_colour(&cli->out, BOLD, must_printf(cli->arena, "dibs %s", c->name));
    printf("%s%s\n\n  ", c->usage[0] != '\0' ? " " : "", c->usage);
    wrap(c->summary, 2, 2);
    if (c->details != NULL) {
        printf("\n  ");
        wrap(c->details, 2, 2);
    }
    print_options(cli, "Options", c->options);
    print_options(cli, "Options of every command", global_options);
    printf(
        "\nEach setting that 'dibs config' lists is an option too, such as --default-ttl 45m.\n");
}

/* for_each: calls `print` for every command of a group, or with a first word; NULL: of any. */
static void for_each(const char *group, const char *word, FILE *to, const struct output *out,
                     void (*print)(FILE *to, const struct output *out, const struct command *c))
{
    for (size_t t = 0; command_tables[t] != NULL; t++)
        for (const struct command *c = command_tables[t]; c->name != NULL; c++)
            if ((group == NULL || str_eq(c->group, group)) &&
                (word == NULL ||
                 (str_starts(c->name, word) && strchr(" ", c->name[strlen(word)]) != NULL)))
                print(to, out, c);
}

static void print_summary(FILE *to, const struct output *out, const struct command *c)
{
    char name[64] = "";

    snprintf(name, sizeof name, "  %-18s", c->name);
    if (to == stdout)
        out_colour(out, CYAN, name);
    else
        fputs(name, to);
    fprintf(to, " %s\n", c->summary);
}

void help_group(const struct cli *cli, const char *word)
{
    printf("dibs %s\n\n", word);
    for_each(NULL, word, stdout, &cli->out, print_summary);
    printf("\nMore about one of them: dibs help %s WORD\n", word);
}

void help_all(FILE *to, const struct output *out)
{
    static const char *const groups[] = {"Store",    "Tasks",    "Working",  "Steering",
                                         "Agents",   "Messages", "Sessions", "Locks",
                                         "Overview", "Daemon",   "Keys",     "Help"};

    fprintf(to, "dibs: share a queue of work without doing anything twice\n\n"
                "usage: dibs COMMAND [options]\n");
    for (size_t i = 0; i < COUNT_OF(groups); i++) {
        fprintf(to, "\n%s\n", groups[i]);
        for_each(groups[i], NULL, to, out, print_summary);
    }
    fprintf(to,
            "\nA first try:  dibs init, dibs task add 'paint the fence', dibs claim, dibs done 1\n"
            "More:         dibs help COMMAND, man dibs\n");
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void print_names(const struct cli_option *table)
{
    for (; table != NULL && table->name != NULL; table++) {
        if (table->hidden)
            continue;
        printf("\t--%s", table->name);
        if (table->letter != 0)
            printf("\t-%c", table->letter);
    }
}

static void print_line(FILE *to, const struct output *out, const struct command *c)
{
    (void)to;
    (void)out;
    printf("%s", c->name);
    print_names(c->options);
    putchar('\n');
}

static void print_commands(void)
{
    printf("(every)");
    print_names(global_options);
    print_names(setting_options());
    putchar('\n');
    for_each(NULL, NULL, stdout, NULL, print_line);
}

static void json_options(struct jw *w, const struct cli_option *table)
{
    jw_karray(w, "options");
    for (; table != NULL && table->name != NULL; table++) {
        if (table->hidden)
            continue;
        jw_object(w);
        jw_ktext(w, "name", table->name);
        jw_ktext_opt(w, "value", table->value);
        jw_ktext(w, "help", table->help);
        jw_object_end(w);
    }
    jw_array_end(w);
}

/* is_named: whether the command is the one that the words name, or of the group; no word: any. */
static bool is_named(const struct command *c, const char *first, const char *second)
{
    const char *rest = NULL;

    if (first == NULL)
        return true;
    if (!str_starts(c->name, first))
        return false;
    rest = c->name + strlen(first);
    if (second == NULL)
        return rest[0] == '\0' || rest[0] == ' ';
    return rest[0] == ' ' && str_eq(rest + 1, second);
}

static void print_json(const char *first, const char *second)
{
    struct buf b;
    struct jw w;

    buf_init(&b, ANSWER_BYTES_MAX);
    jw_init(&w, &b);
    jw_object(&w);
    jw_kbool(&w, "success", true);
    json_options(&w, global_options);
    jw_karray(&w, "commands");
    for (size_t t = 0; command_tables[t] != NULL; t++)
        for (const struct command *c = command_tables[t]; c->name != NULL; c++) {
            if (!is_named(c, first, second))
                continue;
            jw_object(&w);
            jw_ktext(&w, "name", c->name);
            jw_ktext(&w, "usage", c->usage);
            jw_ktext(&w, "summary", c->summary);
            jw_ktext_opt(&w, "details", c->details);
            json_options(&w, c->options);
            jw_object_end(&w);
        }
    jw_array_end(&w);
    jw_object_end(&w);
    printf("%s\n", must_buf(&b));
    buf_release(&b);
}

/* ---- commands -------------------------------------------------------------------------------- */

static const struct cli_option help_options[] = {
    {.name = "commands", .kind = OPTION_FLAG, .help = "all commands and options", .hidden = true},
    {0},
};

/* help_words: about the command or the group of commands that is named. */
static int help_words(struct cli *cli, const char *first, const char *second)
{
    const struct command *c = command_find(first, second);
    bool is_group = second == NULL && command_is_group(first);

    if (c == NULL && !is_group)
        return cli_usage(cli, "there is no command '%s%s%s'; see: dibs help", first,
                         second != NULL ? " " : "", second != NULL ? second : "");
    if (cli->json) {
        print_json(first, second);
        return 0;
    }
    if (c != NULL)
        help_command(cli, c);
    if (c != NULL && is_group)
        putchar('\n');
    if (is_group)
        help_group(cli, first);
    return 0;
}

static int help(struct cli *cli)
{
    const char *first = cli->args.word_count > 0 ? cli->args.words[0] : NULL;
    const char *second = cli->args.word_count > 1 ? cli->args.words[1] : NULL;

    if (args_has(&cli->args, "commands"))
        print_commands();
    else if (first != NULL)
        return help_words(cli, first, second);
    else if (cli->json)
        print_json(NULL, NULL);
    else
        help_all(stdout, &cli->out);
    return 0;
}

static int version(struct cli *cli)
{
    if (cli->json)
        printf("{\"success\":true,\"version\":\"%s\"}\n", dibs_version());
    else
        printf("dibs %s\n", dibs_version());
    return 0;
}

const struct command help_commands[] = {
    {"help", "Help", "[COMMAND]", "explain a command", NULL, help_options, 0, 2, false, help},
    {"version", "Help", "", "print the version", NULL, NULL, 0, 0, false, version},
    {0},
};
