/* SPDX-License-Identifier: MIT */
/*
 * ask.c: puts a request, and says what is to be said of every answer: the JSON of it, or why it is
 * a refusal and what to try next.
 *
 * A refusal's exit code is that of its status (status.def), so a script can tell "nothing to claim"
 * from "you lost the claim" without reading text. With --json the refusal goes to standard output
 * like any other answer; otherwise people read a line, and sometimes a second one beginning with
 * "try:", on standard error.
 */
#include "cli.h"

#include "base/str.h"

/* ---- saying no ------------------------------------------------------------------------------- */

/* complain: a line on standard error, escaped. */
static void complain(const char *prefix, const char *text)
{
    struct buf b;

    buf_init(&b, ANSWER_BYTES_MAX);
    out_escape(&b, text);
    /* standard output first, so that on a terminal the lines stand in the order of events */
    fflush(stdout);
    fprintf(stderr, "%s%s\n", prefix, must_buf(&b));
    buf_release(&b);
}

void cli_complain(const char *format, ...)
{
    char text[2048] = "";
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    complain("dibs: ", text);
}

void cli_hint(const struct cli *cli, const char *format, ...)
{
    char text[1024] = "";
    va_list args;

    if (cli->quiet || cli->json)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    complain("", text);
}

/* print_error: a refusal that did not come from the API, in the same form. */
static void print_error(const struct cli *cli, const struct dibs_error *err)
{
    struct buf b;
    struct jw w;

    if (!cli->json) {
        complain("dibs: ", err->message);
        return;
    }
    buf_init(&b, ANSWER_BYTES_MAX);
    jw_init(&w, &b);
    jw_object(&w);
    jw_kbool(&w, "success", false);
    jw_ktext(&w, "error", dibs_status_name(err->code));
    jw_ktext(&w, "message", err->message);
    if (err->field[0] != '\0')
        jw_ktext(&w, "field", err->field);
    jw_object_end(&w);
    printf("%s\n", must_buf(&b));
    buf_release(&b);
}

int cli_usage(struct cli *cli, const char *format, ...)
{
    struct dibs_error err = {.code = DIBS_INVALID_REQUEST};
    va_list args;

    va_start(args, format);
    vsnprintf(err.message, sizeof err.message, format, args);
    va_end(args);
    print_error(cli, &err);
    return EXIT_USAGE;
}

/* What to try after a refusal; %s is the subject of the command. */
static const struct {
    dibs_status status;
    const char *text;
} advice[] = {
    {DIBS_ALREADY_ANSWERED, "dibs inbox show %s"},
    {DIBS_MESSAGE_NOT_FOUND, "dibs inbox list"},
    {DIBS_CHANNEL_NOT_FOUND, "dibs channel list, dibs channel create ID"},
    {DIBS_AGENT_NOT_FOUND, "dibs agent list, dibs agent register NAME"},
    {DIBS_NOTHING_TO_CLAIM, "dibs claim --wait 5m (waits for one), dibs task list"},
    {DIBS_TASK_ALREADY_CLAIMED, "dibs claim (takes the next free task)"},
    {DIBS_LOCK_HELD, "--wait 1m (waits for the lock), dibs lock list"},
    {DIBS_NOT_CLAIM_OWNER, "dibs task show %s (who holds it); set DIBS_SESSION if it is yours"},
    {DIBS_STALE_TOKEN, "dibs task show %s (who holds it now)"},
    {DIBS_CLAIM_EXPIRED, "dibs session resume (takes back what nobody has taken since)"},
    {DIBS_TASK_NOT_CLAIMED, "dibs claim %s"},
    {DIBS_TASK_NOT_CLAIMABLE, "dibs task show %s (what it waits for)"},
    {DIBS_ALREADY_FINISHED, "dibs reopen %s"},
    {DIBS_VERSION_CONFLICT, "dibs task show %s, then edit it again"},
    {DIBS_SESSION_NOT_FOUND, "dibs session register, dibs session list"},
    {DIBS_TASK_NOT_FOUND, "dibs task list --all"},
    {DIBS_UNAUTHORIZED, "export DIBS_API_KEY=the key"},
    {DIBS_STORE_CORRUPT, "dibs doctor"},
    {DIBS_STORE_UNAVAILABLE, "dibs doctor"},
};

/* The same where a command is about something else than tasks; `of` is its first word. */
static const struct {
    const char *of;
    dibs_status status;
    const char *text;
} advice_elsewhere[] = {
    {"inbox", DIBS_NOTHING_TO_CLAIM, "dibs poll --wait 5m (waits for something to do)"},
    {"inbox", DIBS_NOT_CLAIM_OWNER,
     "dibs inbox show %s (who holds it); set DIBS_SESSION if it is yours"},
    {"inbox", DIBS_STALE_TOKEN, "dibs inbox show %s (who holds it now)"},
    {"inbox", DIBS_CLAIM_EXPIRED, "dibs inbox show %s"},
    {"mentions", DIBS_NOTHING_TO_CLAIM, "dibs poll --wait 5m (waits for something to do)"},
};

/* What to try about a task that nobody holds, by its status. */
static const struct {
    const char *status, *text;
} advice_not_held[] = {
    {"cancelled", "stop working on it (it was cancelled), or dibs reopen %s"},
    {"blocked", "dibs task show %s (what it waits for)"},
    {"completed", "dibs reopen %s"},
    {"failed", "dibs reopen %s"},
    {"offered", "dibs accept %s, or dibs reject it"},
    {"reviewing", "dibs accept %s, or dibs reject it"},
};

/* is_about: whether the command's first word is this one. */
static bool is_about(const struct cli *cli, const char *word)
{
    const char *name = cli->command != NULL ? cli->command->name : "";

    return str_starts(name, word) && strchr(" ", name[strlen(word)]) != NULL;
}

/* advice_on: NULL when there is none. */
static const char *advice_on(const struct cli *cli, dibs_status status, const char *task_status)
{
    for (size_t i = 0; status == DIBS_TASK_NOT_CLAIMED && i < COUNT_OF(advice_not_held); i++)
        if (str_eq(advice_not_held[i].status, task_status))
            return advice_not_held[i].text;
    for (size_t i = 0; i < COUNT_OF(advice_elsewhere); i++)
        if (advice_elsewhere[i].status == status && is_about(cli, advice_elsewhere[i].of))
            return advice_elsewhere[i].text;
    for (size_t i = 0; i < COUNT_OF(advice); i++)
        if (advice[i].status == status)
            return advice[i].text;
    return NULL;
}

static void advise(const struct cli *cli, dibs_status status, const char *task_status)
{
    const char *subject = cli->args.word_count > 0 ? cli->args.words[0] : "";
    const char *text = advice_on(cli, status, task_status);
    const char *hole = text != NULL ? strstr(text, "%s") : NULL;
    struct buf b;

    if (text == NULL)
        return;
    buf_init(&b, 4096);
    buf_append(&b, text, hole != NULL ? (size_t)(hole - text) : strlen(text));
    if (hole != NULL) {
        buf_text(&b, str_is_id(subject) ? subject : "ID");
        buf_text(&b, hole + 2);
    }
    complain("try: ", must_buf(&b));
    buf_release(&b);
}

/* ---- in the words of the command line -------------------------------------------------------- */

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* is_same_field: "ttl_ms" and "ttlMs" are one field in two dialects. */
static bool is_same_field(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strspn(a, "_");
        b += strspn(b, "_");
        if (lower(*a) != lower(*b))
            return false;
        if (*a == '\0')
            return true;
    }
}

/* option_of: the option of this command line that a field of the request came from; NULL: none. */
static const char *option_of(const struct cli *cli, const char *field)
{
    for (size_t i = 0; field != NULL && i < cli->args.given_count; i++) {
        const struct cli_option *o = cli->args.given[i].option;
        if (is_same_field(o->field != NULL ? o->field : o->name, field))
            return o->name;
    }
    return NULL;
}

/* in_own_words: a message that begins with 'ttl_ms' is about --ttl. */
static const char *in_own_words(const struct cli *cli, const char *message)
{
    const char *field = get_text(cli->answer.json, "field");
    const char *option = option_of(cli, field);
    size_t bytes = field != NULL ? strlen(field) : 0;

    if (option == NULL || message[0] != '\'' || !str_starts(message + 1, field) ||
        message[bytes + 1] != '\'')
        return message;
    return must_printf(cli->arena, "--%s%s", option, message + bytes + 2);
}

int cli_error(struct cli *cli, const struct dibs_error *err)
{
    print_error(cli, err);
    if (!cli->json && !cli->quiet)
        advise(cli, err->code, err->task_status);
    return dibs_status_exit(err->code);
}

int cli_refusal(struct cli *cli)
{
    const char *message = get_text(cli->answer.json, "message");
    dibs_status status = cli->answer.status;

    if (status == DIBS_NOTHING_TO_CLAIM && is_about(cli, "claim"))
        message = NULL; /* what the dialect of that operation says is meant for programs */
    if (cli->json) {
        cli_print_json(cli->answer.json);
    } else {
        complain("dibs: ",
                 message != NULL ? in_own_words(cli, message) : dibs_status_sentence(status));
        if (!cli->quiet)
            advise(cli, status, get_text(cli->answer.json, "taskStatus"));
    }
    return dibs_status_exit(status);
}

/* ---- asking ---------------------------------------------------------------------------------- */

int64_t cli_now(struct cli *cli)
{
    int64_t now_ms = 0;
    struct timespec now = {0};
    dibs *store = cli->client != NULL ? client_store(cli->client) : NULL;

    if (store != NULL && dibs_now(store, &now_ms, NULL) == DIBS_OK)
        return now_ms;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool cli_call(struct cli *cli, const struct client_request *in)
{
    struct dibs_error err = {0};
    struct client_answer answer = {0};

    if (!cli_open(cli))
        return false;
    if (client_call(cli->client, in, &answer, &err) != DIBS_OK) {
        cli->exit = cli_error(cli, &err);
        return false;
    }
    client_answer_release(&cli->answer);
    cli->answer = answer;
    return true;
}

json_t *cli_show(struct cli *cli)
{
    cli->exit = 0;
    if (cli->answer.status != DIBS_OK) {
        cli->exit = cli_refusal(cli);
        return NULL;
    }
    if (!cli->json)
        return cli->answer.json;
    cli_print_json(cli->answer.json);
    return NULL;
}

json_t *cli_ask(struct cli *cli, const struct client_request *in)
{
    return cli_call(cli, in) ? cli_show(cli) : NULL;
}

void cli_print_json(const json_t *value)
{
    struct buf plain, safe;

    buf_init(&plain, ANSWER_BYTES_MAX);
    buf_init(&safe, ANSWER_BYTES_MAX);
    must_dump(&plain, value);
    out_json(&safe, must_buf(&plain), plain.len);
    printf("%s\n", must_buf(&safe));
    buf_release(&plain);
    buf_release(&safe);
}

/* ---- parts of a request ---------------------------------------------------------------------- */

const char *cli_path(struct cli *cli, const char *prefix, const char *id, const char *suffix)
{
    struct buf b;
    const char *path = NULL;

    buf_init(&b, BODY_BYTES_MAX);
    buf_text(&b, prefix);
    client_encode(&b, id);
    buf_text(&b, suffix);
    path = must_copy(cli->arena, must_buf(&b), b.len);
    buf_release(&b);
    return path;
}

json_t *cli_body(struct cli *cli)
{
    json_t *body = must_json(json_object());

    args_to_body(&cli->args, cli_now(cli), body);
    return body;
}

const char *cli_query(struct cli *cli, bool with_project)
{
    struct buf b;
    const char *query = NULL;

    buf_init(&b, BODY_BYTES_MAX);
    args_to_query(&cli->args, &b);
    if (with_project)
        query_add(&b, "project", cli->project);
    query = must_copy(cli->arena, must_buf(&b), b.len);
    buf_release(&b);
    return query;
}

const char *cli_task_id(struct cli *cli)
{
    /* words of the routes: no task can have them as its id, and as paths they mean something else
     */
    static const char *const routes[] = {"claim", "claims", "in-flight"};
    const char *id = cli->args.words[0];
    struct dibs_error err = {0};

    for (size_t i = 0; i < COUNT_OF(routes); i++)
        if (str_eq(id, routes[i])) {
            error_set(&err, DIBS_TASK_NOT_FOUND, "there is no task '%s'", id);
            cli->exit = cli_error(cli, &err);
            return NULL;
        }
    return id;
}

const char *cli_id_beside(struct cli *cli, const char *route, dibs_status none, const char *kind)
{
    const char *id = cli->args.words[0];
    struct dibs_error err = {0};

    if (!str_eq(id, route))
        return id;
    error_set(&err, none, "there is no %s '%s'", kind, id);
    cli->exit = cli_error(cli, &err);
    return NULL;
}

json_t *cli_session_body(struct cli *cli)
{
    json_t *body = NULL;

    if (cli_session(cli) == NULL || !cli_open(cli))
        return NULL;
    body = cli_body(cli);
    must_set(body, "sessionId", must_json(json_string(cli->session)));
    return body;
}

/* ---- parts of an answer ---------------------------------------------------------------------- */

const char *get_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

int64_t get_int(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (json_is_real(value))
        return (int64_t)json_real_value(value);
    return json_integer_value(value);
}

const char *get_id(dibs_arena *a, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (json_is_integer(value))
        return must_printf(a, "%" PRId64, (int64_t)json_integer_value(value));
    return json_is_string(value) ? json_string_value(value) : "?";
}

const char *value_line(dibs_arena *a, const json_t *value)
{
    struct buf b;
    const char *line = NULL;

    if (value == NULL)
        return NULL;
    buf_init(&b, ANSWER_BYTES_MAX);
    must_dump(&b, value);
    line = out_safe(a, must_buf(&b));
    buf_release(&b);
    return line;
}

const char *list_line(dibs_arena *a, const json_t *list)
{
    struct buf b;
    const char *line = NULL;

    if (json_array_size(list) == 0)
        return NULL;
    buf_init(&b, ANSWER_BYTES_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (b.len > 0)
            buf_text(&b, ", ");
        out_escape(&b, text != NULL ? text : "?");
    }
    line = must_copy(a, must_buf(&b), b.len);
    buf_release(&b);
    return line;
}

static enum colour colour_of(const char *word, const char *const *words, enum colour colour,
                             enum colour otherwise)
{
    for (; *words != NULL; words++)
        if (str_eq(word, *words))
            return colour;
    return otherwise;
}

enum colour status_colour(const char *status)
{
    static const char *const good[] = {"completed", "active",    "fine", "idle",
                                       "responded", "delegated", NULL};
    static const char *const bad[] = {"failed", "blocked", "bad", NULL};
    static const char *const busy[] = {"in_progress", "reviewing",  "stale", "warning",
                                       "busy",        "processing", NULL};
    static const char *const gone[] = {"cancelled", "ended", "offline", "read", NULL};

    return colour_of(
        status, good, GREEN,
        colour_of(status, bad, RED,
                  colour_of(status, busy, YELLOW, colour_of(status, gone, DIM, PLAIN))));
}

enum colour health_colour(const char *health)
{
    static const char *const bad[] = {"expired", "stale", "critical", NULL};
    static const char *const middling[] = {"warning", NULL};

    return colour_of(health, bad, RED, colour_of(health, middling, YELLOW, GREEN));
}

void show_line(const struct cli *cli, const char *label, const char *text)
{
    if (text == NULL)
        return;
    out_colour(&cli->out, DIM, must_printf(cli->arena, "  %-13s", label));
    printf(" %s\n", out_safe(cli->arena, text));
}
