/* SPDX-License-Identifier: MIT */
/*
 * cmd_store.c: dibs init, config, doctor, backup: the care of the data itself.
 *
 * These need the store in this process, not the API, also while a daemon runs. Their answers have
 * the same form as the API's: with --json, an object with "success".
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

#include "base/str.h"
#include "core/hook.h"

#define RESTORE "restore a backup"
#define HOW_TO_RESTORE                                                                             \
    "stop everything that uses the store, delete dibs.db, dibs.db-wal and "                        \
    "dibs.db-shm in the data folder, copy the backup there as dibs.db (mode 0600), and start "     \
    "again"

/* ---- init ------------------------------------------------------------------------------------ */

/* init_dir: the data folder to make. NULL: refused and shown. */
static const char *init_dir(struct cli *cli)
{
    const char *dir = args_text(&cli->args, "data"), *from_env = getenv("DIBS_DATA");
    const char *word = cli->args.word_count > 0 ? cli->args.words[0] : NULL;

    if (args_has(&cli->args, "url")) {
        cli->exit = cli_usage(cli, "a store is made where its data shall be, not by --url");
        return NULL;
    }
    if (word != NULL && dir != NULL) {
        cli->exit = cli_usage(cli, "either --data '%s' or '%s', not both", dir, word);
        return NULL;
    }
    if (dir != NULL)
        return dir;
    if (word != NULL)
        return must_printf(cli->arena, "%s/.dibs", word);
    return from_env != NULL && from_env[0] != '\0' ? from_env : ".dibs";
}

/* keep_out_of_git: data are not source; a .gitignore inside the folder says so without touching
 * anybody's file. */
static void keep_out_of_git(struct cli *cli, const char *dir)
{
    int fd = open(must_printf(cli->arena, "%s/.gitignore", dir),
                  O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    if (fd < 0)
        return;
    if (write(fd, "*\n", 2) != 2)
        cli_hint(cli, "dibs: cannot write '%s/.gitignore': %s", dir, strerror(errno));
    close(fd);
}

bool store_make(struct cli *cli, const char *dir, bool *made)
{
    struct dibs_options options = {.data_dir = dir};
    struct dibs_error err = {0};
    dibs *store = NULL;
    dibs_status status = dibs_open(&options, &store, &err);

    if (status == DIBS_STORE_NOT_FOUND) {
        options.create = true;
        status = dibs_open(&options, &store, &err);
        *made = status == DIBS_OK;
    }
    dibs_close(store);
    if (*made)
        keep_out_of_git(cli, dir);
    if (status != DIBS_OK)
        cli->exit = cli_error(cli, &err);
    return status == DIBS_OK;
}

/* make_parent: the folder that `init DIR` names, if it is not there. */
static bool make_parent(struct cli *cli)
{
    const char *word = cli->args.word_count > 0 ? cli->args.words[0] : NULL;
    struct dibs_error err = {0};

    if (word == NULL || mkdir(word, 0777) == 0 || errno == EEXIST)
        return true;
    error_set(&err, DIBS_STORE_UNAVAILABLE, "cannot make the folder '%s': %s", word,
              strerror(errno));
    cli->exit = cli_error(cli, &err);
    return false;
}

static int init(struct cli *cli)
{
    const char *dir = init_dir(cli);
    char full[PATH_MAX] = "";
    struct buf b;
    struct jw w;
    bool made = false;

    if (dir == NULL || !make_parent(cli) || !store_make(cli, dir, &made))
        return cli->exit;
    if (realpath(dir, full) == NULL)
        str_fit(full, sizeof full, dir);
    if (!cli->json) {
        printf("%s %s\n", made ? "made" : "already there:", out_safe(cli->arena, full));
        return 0;
    }
    buf_init(&b, ANSWER_BYTES_MAX);
    jw_init(&w, &b);
    jw_object(&w);
    jw_kbool(&w, "success", true);
    jw_ktext(&w, "dataDir", full);
    jw_kbool(&w, "created", made);
    jw_object_end(&w);
    printf("%s\n", must_buf(&b));
    buf_release(&b);
    return 0;
}

/* ---- config ---------------------------------------------------------------------------------- */

static const char *setting_text(dibs_arena *a, const struct dibs_setting *s, int64_t value)
{
    char text[32] = "";

    if (!s->is_duration)
        return must_printf(a, "%" PRId64, value);
    str_from_duration_ms(value, text);
    return must_printf(a, "%s", text);
}

/* config_hooks_json: the settings of the daemon's webhooks; of a secret, whether it is set. */
static void config_hooks_json(struct jw *w, const struct dibs_hook_setting hooks[HOOK_SETTINGS])
{
    jw_karray(w, "hooks");
    for (size_t i = 0; i < HOOK_SETTINGS; i++) {
        jw_object(w);
        jw_ktext(w, "name", hooks[i].name);
        if (hooks[i].is_secret)
            jw_kbool(w, "isSet", str_eq(hooks[i].value, "set"));
        else
            jw_ktext(w, "value", hooks[i].value);
        jw_ktext(w, "origin", hooks[i].origin);
        jw_ktext(w, "environment", hooks[i].environment);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void config_json(const struct cli *cli, const struct dibs_setting_list *list,
                        const struct dibs_hook_setting hooks[HOOK_SETTINGS])
{
    struct buf b;
    struct jw w;

    buf_init(&b, ANSWER_BYTES_MAX);
    jw_init(&w, &b);
    jw_object(&w);
    jw_kbool(&w, "success", true);
    jw_ktext(&w, "dataDir", client_data_dir(cli->client));
    jw_karray(&w, "settings");
    for (size_t i = 0; i < list->count; i++) {
        jw_object(&w);
        jw_ktext(&w, "name", list->items[i].name);
        jw_kint(&w, list->items[i].is_duration ? "valueMs" : "value", list->items[i].value);
        jw_kint(&w, list->items[i].is_duration ? "defaultMs" : "default", list->items[i].standard);
        jw_ktext(&w, "origin", list->items[i].origin);
        jw_ktext(&w, "environment", list->items[i].environment);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    config_hooks_json(&w, hooks);
    jw_object_end(&w);
    printf("%s\n", must_buf(&b));
    buf_release(&b);
}

static const struct column config_columns[] = {
    {"SETTING", false, false},     {"VALUE", true, false},   {"FROM", false, false},
    {"ENVIRONMENT", false, false}, {"MEANING", false, true},
};

static void config_row(struct table *t, const char *name, const char *value, const char *origin,
                       const char *environment, const char *summary)
{
    table_cell(t, CYAN, name);
    table_cell(t, PLAIN, value);
    table_cell(t, str_eq(origin, "default") ? DIM : YELLOW, origin);
    table_cell(t, DIM, environment);
    table_cell(t, DIM, summary);
}

static int config(struct cli *cli)
{
    struct dibs_setting_list list = {0};
    struct dibs_hook_setting hooks[HOOK_SETTINGS] = {0};
    struct dibs_error err = {0};
    struct table t;

    if (!cli_open_store(cli))
        return cli->exit;
    if (dibs_settings_list(client_store(cli->client), cli->arena, &list, &err) != DIBS_OK)
        return cli_error(cli, &err);
    if (dibs__hook_settings_list(client_data_dir(cli->client), cli->arena, hooks, &err) != DIBS_OK)
        return cli_error(cli, &err);
    if (cli->json) {
        config_json(cli, &list, hooks);
        return 0;
    }
    printf("data in %s\n\n", out_safe(cli->arena, client_data_dir(cli->client)));
    table_init(&t, cli->arena, config_columns, COUNT_OF(config_columns));
    for (size_t i = 0; i < list.count; i++) {
        const struct dibs_setting *s = &list.items[i];
        config_row(&t, s->name, setting_text(cli->arena, s, s->value), s->origin, s->environment,
                   s->summary);
    }
    for (size_t i = 0; i < HOOK_SETTINGS; i++)
        config_row(&t, hooks[i].name, hooks[i].value[0] != '\0' ? hooks[i].value : "not set",
                   hooks[i].origin, hooks[i].environment, hooks[i].summary);
    table_print(&t, &cli->out);
    return 0;
}

/* ---- doctor ---------------------------------------------------------------------------------- */

static const struct cli_option doctor_options[] = {
    OPT("deep", 0, FLAG, NULL, NULL, "read every page and compare the journal with the tables"),
    {0},
};

static const char *const level_words[] = {"fine", "warning", "bad"};

/* finding_text: what was found; who is told to restore a backup is told how. */
static const char *finding_text(struct cli *cli, const struct dibs_finding *f)
{
    size_t bytes = strlen(f->text), tail = strlen(RESTORE);

    if (bytes < tail || !str_eq(f->text + bytes - tail, RESTORE))
        return f->text;
    return must_printf(cli->arena, "%s: %s", f->text, HOW_TO_RESTORE);
}

static void findings_json(struct cli *cli, const struct dibs_diagnosis *d, bool good)
{
    struct buf b;
    struct jw w;

    buf_init(&b, ANSWER_BYTES_MAX);
    jw_init(&w, &b);
    jw_object(&w);
    jw_kbool(&w, "success", good);
    if (!good)
        jw_ktext(&w, "message", "the doctor found something bad");
    jw_karray(&w, "findings");
    for (size_t i = 0; i < d->count; i++) {
        jw_object(&w);
        jw_ktext(&w, "level", level_words[d->items[i].level]);
        jw_ktext(&w, "subject", d->items[i].subject);
        jw_ktext(&w, "text", finding_text(cli, &d->items[i]));
        jw_object_end(&w);
    }
    jw_array_end(&w);
    jw_object_end(&w);
    printf("%s\n", must_buf(&b));
    buf_release(&b);
}

static int print_findings(struct cli *cli, const struct dibs_diagnosis *d)
{
    bool good = true;

    for (size_t i = 0; i < d->count; i++)
        good = good && d->items[i].level != DIBS_BAD;
    if (cli->json) {
        findings_json(cli, d, good);
        return good ? 0 : EXIT_BAD;
    }
    for (size_t i = 0; i < d->count; i++) {
        const char *word = level_words[d->items[i].level];
        out_colour(&cli->out, status_colour(word), must_printf(cli->arena, "%-8s", word));
        printf("%-12s %s\n", out_safe(cli->arena, d->items[i].subject),
               out_safe(cli->arena, finding_text(cli, &d->items[i])));
    }
    return good ? 0 : EXIT_BAD;
}

/* what_to_do: about a store that cannot be opened; NULL: nothing that the message does not say. */
static const char *what_to_do(dibs_status status)
{
    switch (status) {
    case DIBS_STORE_CORRUPT: return RESTORE;
    case DIBS_STORE_TOO_NEW: return NULL; /* the message says it */
    case DIBS_STORE_NOT_FOUND: return NULL;
    case DIBS_STORE_UNSUPPORTED: return "choose a folder on a local disk with --data or DIBS_DATA";
    case DIBS_STORE_FULL: return "free some room on the disk";
    case DIBS_INVALID_REQUEST: return "correct the setting where the message says it was found";
    default: return "see that the folder and the files in it can be read and written by you";
    }
}

static int doctor(struct cli *cli)
{
    struct dibs_diagnosis d = {0};
    struct dibs_error err = {0};
    struct client_options options = {.data_dir = args_text(&cli->args, "data"),
                                     .url = args_text(&cli->args, "url"),
                                     .needs_store = true};
    struct dibs_finding cannot_open = {.level = DIBS_BAD, .subject = "store"};
    dibs_status status = client_open(&options, &cli->client, &err);

    if (status == DIBS_OK)
        status = dibs_diagnose(client_store(cli->client), cli->arena, args_has(&cli->args, "deep"),
                               &d, &err);
    if (status == DIBS_OK)
        return print_findings(cli, &d);
    const char *advice = what_to_do(status);
    cannot_open.text = advice == NULL || strstr(err.message, "backup") != NULL
                           ? err.message
                           : must_printf(cli->arena, "%s; %s", err.message, advice);
    return print_findings(cli, &(struct dibs_diagnosis){.items = &cannot_open, .count = 1});
}

/* ---- backup ---------------------------------------------------------------------------------- */

static int backup(struct cli *cli)
{
    const char *path = cli->args.words[0];
    struct dibs_error err = {0};
    struct buf b;
    struct jw w;

    if (!cli_open_store(cli))
        return cli->exit;
    if (dibs_backup(client_store(cli->client), path, &err) != DIBS_OK)
        return cli_error(cli, &err);
    if (!cli->json) {
        printf("backed up to %s\n", out_safe(cli->arena, path));
        return 0;
    }
    buf_init(&b, ANSWER_BYTES_MAX);
    jw_init(&w, &b);
    jw_object(&w);
    jw_kbool(&w, "success", true);
    jw_ktext(&w, "path", path);
    jw_object_end(&w);
    printf("%s\n", must_buf(&b));
    buf_release(&b);
    return 0;
}

const struct command store_commands[] = {
    {"init", "Store", "[DIR]", "make a store in .dibs, here or in DIR",
     "Commands find it from any folder below, as git finds .git. Nothing happens to a store that "
     "is there already.",
     NULL, 0, 1, false, init},
    {"config", "Store", "", "the settings in force, and where they come from",
     "A setting is given as an option of any command, in the environment or in the file 'config' "
     "in the data folder.",
     NULL, 0, 0, false, config},
    {"doctor", "Store", "[--deep]", "look the store over and say what to do",
     "Exit code 1 means that something is bad.", doctor_options, 0, 0, false, doctor},
    {"backup", "Store", "FILE", "copy the store while others go on working",
     "To " RESTORE ": " HOW_TO_RESTORE ".", NULL, 1, 1, false, backup},
    {0},
};
