/* SPDX-License-Identifier: MIT */
/*
 * cmd_import.c: dibs task import.
 *
 * Tasks are created in chunks, each of which is one request and so one transaction: all of it or
 * nothing. A bad line stops the import, says which line it was and how much had been created
 * before. With ids or dedupe keys in the file the same import can be repeated: --skip-existing
 * leaves out ids that are there already.
 */
#include <errno.h>
#include <unistd.h>

#include "cli.h"
#include "import.h"

#include "base/str.h"

/* so that the request, with what JSON adds to it, stays below what the API takes */
#define CHUNK_BYTES_MAX (BODY_BYTES_MAX / 4 * 3)
#define SKIP_ROUNDS_MAX                                                                            \
    8 /* how often somebody else may create an id between looking and creating */

struct chunk {
    json_t *tasks;
    int64_t lines[BATCH_TASKS_MAX]; /* where each came from */
    size_t bytes;
};

struct tally {
    int64_t created, deduplicated, skipped;
};

static const struct cli_option import_options[] = {
    OPT("skip-existing", 0, FLAG, NULL, NULL, "leave out tasks whose id is there already"),
    {0},
};

/* ---- what is there already ------------------------------------------------------------------- */

/* exists: whether a task has this id. *asked is false when that could not be found out. */
static bool exists(struct cli *cli, const char *id, bool *asked)
{
    const char *path = cli_path(cli, "/api/tasks/", id, "");

    if (!str_is_id(id))
        return false; /* the API says what is wrong with it */
    *asked = cli_call(cli, &(struct client_request){.method = "GET", .path = path});
    return *asked && cli->answer.status == DIBS_OK;
}

static void remove_at(struct chunk *chunk, size_t i)
{
    size_t count = json_array_size(chunk->tasks);

    json_array_remove(chunk->tasks, i);
    memmove(&chunk->lines[i], &chunk->lines[i + 1], (count - i - 1) * sizeof chunk->lines[0]);
}

/* skip_existing: takes out of the chunk what is in the store, or stands in the chunk twice. */
static bool skip_existing(struct cli *cli, struct chunk *chunk, struct tally *tally)
{
    json_t *seen = must_json(json_object());
    bool asked = true;

    for (size_t i = 0; asked && i < json_array_size(chunk->tasks);) {
        const char *id = get_text(json_array_get(chunk->tasks, i), "id");
        if (id != NULL && (json_object_get(seen, id) != NULL || exists(cli, id, &asked))) {
            remove_at(chunk, i);
            tally->skipped++;
            continue;
        }
        if (id != NULL)
            must_set(seen, id, must_json(json_true()));
        i++;
    }
    json_decref(seen);
    return asked;
}

/* ---- one chunk ------------------------------------------------------------------------------- */

/* refusal_line: the line of the task that a refusal is about ("tasks[3].title"); 0: it does not
 * say. */
static int64_t refusal_line(const struct cli *cli, const struct chunk *chunk)
{
    const char *field = get_text(cli->answer.json, "field");
    size_t index = 0;

    if (json_array_size(chunk->tasks) == 1)
        return chunk->lines[0];
    if (!str_starts(field, "tasks["))
        return 0;
    for (const char *c = field + strlen("tasks["); *c >= '0' && *c <= '9'; c++)
        index = index * 10 + (size_t)(*c - '0');
    return index < json_array_size(chunk->tasks) ? chunk->lines[index] : 0;
}

/* refused: the API's refusal, with the line it is about and what was created before. */
static int refused(struct cli *cli, const struct chunk *chunk, const struct tally *tally)
{
    json_t *answer = cli->answer.json;
    int64_t line = refusal_line(cli, chunk);
    const char *message = get_text(answer, "message");
    struct buf text;

    buf_init(&text, ANSWER_BYTES_MAX);
    if (line > 0) {
        buf_printf(&text, "line %" PRId64 ": ", line);
        must_set(answer, "line", must_json(json_integer(line)));
    } else {
        buf_printf(&text, "in the chunk from line %" PRId64 " on: ", chunk->lines[0]);
    }
    /* the place in the chunk means nothing to people: they have the line */
    if (line > 0 && str_starts(message, "tasks[") && strstr(message, "]: ") != NULL)
        message = strstr(message, "]: ") + strlen("]: ");
    buf_text(&text, message != NULL ? message : dibs_status_sentence(cli->answer.status));
    must_set(answer, "message", must_json(json_string(must_buf(&text))));
    must_set(answer, "created", must_json(json_integer(tally->created)));
    buf_release(&text);
    cli->exit = cli_refusal(cli);
    if (cli->answer.status == DIBS_TASK_EXISTS)
        cli_hint(cli, "try: --skip-existing");
    return cli->exit;
}

static void count(const json_t *tasks, struct tally *tally)
{
    for (size_t i = 0; i < json_array_size(tasks); i++) {
        if (json_is_true(json_object_get(json_array_get(tasks, i), "deduplicated")))
            tally->deduplicated++;
        else
            tally->created++;
    }
}

/* send_chunk: creates the tasks of the chunk and empties it; false: refused and shown. */
static bool send_chunk(struct cli *cli, struct chunk *chunk, struct tally *tally)
{
    bool skip = args_has(&cli->args, "skip-existing");

    for (int round = 0; json_array_size(chunk->tasks) > 0; round++) {
        if (skip && !skip_existing(cli, chunk, tally))
            return false;
        if (json_array_size(chunk->tasks) == 0)
            break;
        if (!cli_call(cli, &(struct client_request){
                               .method = "POST", .path = "/api/tasks", .body = chunk->tasks}))
            return false;
        if (cli->answer.status == DIBS_OK) {
            count(json_object_get(cli->answer.json, "tasks"), tally);
            break;
        }
        if (!skip || cli->answer.status != DIBS_TASK_EXISTS || round == SKIP_ROUNDS_MAX) {
            refused(cli, chunk, tally);
            return false;
        }
    }
    json_array_clear(chunk->tasks);
    chunk->bytes = 0;
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void add_to_chunk(struct cli *cli, struct chunk *chunk, const struct import *in,
                         json_t *task)
{
    if (cli->project != NULL && json_is_object(task) && json_object_get(task, "project") == NULL)
        must_set(task, "project", must_json(json_string(cli->project)));
    chunk->lines[json_array_size(chunk->tasks)] = in->at;
    chunk->bytes += in->text.len;
    must_push(chunk->tasks, task);
}

static void progress(const struct cli *cli, const struct tally *tally)
{
    if (!cli->quiet && !cli->json && isatty(STDERR_FILENO) == 1)
        fprintf(stderr, "\r%" PRId64 " tasks ...", tally->created);
}

/* import_all: reads to the end; false: refused and shown. */
static bool import_all(struct cli *cli, struct import *in, struct chunk *chunk, struct tally *tally)
{
    struct dibs_error err = {0};
    json_t *task = NULL;

    for (;;) {
        if (import_next(in, &task, &err) != DIBS_OK) {
            size_t bytes = strlen(err.message);
            snprintf(err.message + bytes, sizeof err.message - bytes,
                     "; %" PRId64 " tasks were created before it", tally->created);
            cli->exit = cli_error(cli, &err);
            return false;
        }
        if (task == NULL)
            return send_chunk(cli, chunk, tally);
        if (json_array_size(chunk->tasks) == BATCH_TASKS_MAX ||
            (chunk->bytes > 0 && chunk->bytes + in->text.len > CHUNK_BYTES_MAX)) {
            if (!send_chunk(cli, chunk, tally)) {
                json_decref(task);
                return false;
            }
            progress(cli, tally);
        }
        add_to_chunk(cli, chunk, in, task);
    }
}

static void report(const struct cli *cli, const struct tally *tally)
{
    if (cli->json) {
        printf("{\"success\":true,\"created\":%" PRId64 ",\"deduplicated\":%" PRId64
               ",\"skipped\":%" PRId64 "}\n",
               tally->created, tally->deduplicated, tally->skipped);
        return;
    }
    printf("created %" PRId64 " tasks", tally->created);
    if (tally->deduplicated + tally->skipped > 0)
        printf(", %" PRId64 " were there already", tally->deduplicated + tally->skipped);
    putchar('\n');
}

static int task_import(struct cli *cli)
{
    struct chunk *chunk = must_alloc(cli->arena, sizeof *chunk);
    struct import in = {0};
    struct tally tally = {0};
    const char *path = cli->args.words[0];
    FILE *from = str_eq(path, "-") ? stdin : NULL;
    bool done = false;

    if (!cli_open(cli))
        return cli->exit;
    if (from == NULL)
        from = fopen(path, "re");
    if (from == NULL)
        return cli_usage(cli, "cannot open '%s': %s", path, strerror(errno));
    import_init(&in, from);
    chunk->tasks = must_json(json_array());
    done = import_all(cli, &in, chunk, &tally);
    if (!cli->quiet && !cli->json && tally.created > BATCH_TASKS_MAX && isatty(STDERR_FILENO) == 1)
        fputs("\r\033[K", stderr);
    if (done)
        report(cli, &tally);
    json_decref(chunk->tasks);
    import_release(&in);
    if (from != stdin)
        fclose(from);
    return done ? 0 : cli->exit;
}

const struct command import_commands[] = {
    {"task import", "Tasks", "FILE|- [--skip-existing]", "add many tasks from a file",
     "FILE holds a JSON array of tasks, or one task per line, with the fields of the API: "
     "{\"id\", \"title\", \"type\", \"priority\", \"params\", \"dependsOn\", ...}. Up to 1,000 are "
     "created in one transaction: a bad one stops the import, nothing of its thousand is created.",
     import_options, 1, 1, false, task_import},
    {0},
};
