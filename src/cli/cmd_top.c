/* SPDX-License-Identifier: MIT */
/*
 * cmd_top.c: dibs top: sessions and claims, drawn again and again on the whole terminal.
 *
 * Each picture is made of two answers and written at once, so it does not flicker. The terminal is
 * put back as it was on every way out. While a daemon cannot be reached the last picture stays,
 * with a line that says so. Into a pipe, with --once or with --json there is one picture and no
 * more.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli.h"

#include "base/str.h"

#define INTERVAL_MS 1000
#define INTERVAL_URL_MS 2000 /* two requests each: fits into the 100 per minute of a key */
#define INTERVAL_MIN_MS 250
#define ROWS_OTHERWISE 24
#define ROWS_OF_FRAME 6 /* head, blank lines, titles of the two tables */

#define SCREEN_BEGIN "\033[?1049h\033[?25l"
#define SCREEN_END "\033[?25h\033[?1049l"
#define SCREEN_CLEAR "\033[H\033[2J"

static const struct cli_option top_options[] = {
    OPT("once", 0, FLAG, NULL, NULL, "one picture, then end"),
    OPT("interval", 0, DURATION, "DURATION", NULL, "between two pictures; 1s, or 2s with --url"),
    {0},
};

struct top {
    struct cli *cli;
    dibs_arena *arena; /* of one picture */
    json_t *summary, *in_flight;
    struct dibs_error err; /* of the last attempt; code DIBS_OK: none */
    struct termios before;
    bool changed_terminal;
};

/* ---- asking ---------------------------------------------------------------------------------- */

/* ask: an answer in *out, which keeps the old one when there is none. */
static bool ask(struct top *t, const char *path, json_t **out)
{
    struct client_answer answer = {0};
    const char *message = NULL;
    struct buf query;
    dibs_status status = DIBS_OK;

    buf_init(&query, BODY_BYTES_MAX);
    query_add(&query, "project", t->cli->project);
    status = client_call(
        t->cli->client,
        &(struct client_request){.method = "GET", .path = path, .query = must_buf(&query)}, &answer,
        &t->err);
    buf_release(&query);
    if (status == DIBS_OK && answer.status != DIBS_OK) {
        message = get_text(answer.json, "message");
        status = error_set(&t->err, answer.status, "%s",
                           message != NULL ? message : dibs_status_sentence(answer.status));
    }
    if (status == DIBS_OK) {
        json_decref(*out);
        *out = json_incref(answer.json);
    }
    client_answer_release(&answer);
    return status == DIBS_OK;
}

static bool look(struct top *t)
{
    bool ok = ask(t, "/api/sessions/summary", &t->summary) &&
              ask(t, "/api/tasks/in-flight", &t->in_flight);

    if (ok)
        t->err = (struct dibs_error){0};
    return ok;
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* counts_line: "3 sessions, 2 in flight   open 4, in_progress 2, completed 9" */
static const char *counts_line(struct top *t)
{
    const json_t *metrics = json_object_get(t->summary, "globalMetrics");
    json_t *by_status = json_object_get(metrics, "tasksByStatus"), *count = NULL;
    const char *status = NULL, *line = NULL;
    struct buf b;

    buf_init(&b, 4096);
    buf_printf(&b, "%" PRId64 " active, %" PRId64 " stale sessions, %" PRId64 " in flight",
               get_int(metrics, "activeCount"), get_int(metrics, "staleCount"),
               get_int(metrics, "inFlight"));
    json_object_foreach(by_status, status, count)
        buf_printf(&b, "%s%s %" PRId64,
                   b.data != NULL && strchr(b.data, ':') != NULL ? ", " : "; tasks: ", status,
                   (int64_t)json_integer_value(count));
    line = must_copy(t->arena, must_buf(&b), b.len);
    buf_release(&b);
    return line;
}

static void print_head(struct top *t)
{
    const struct cli *cli = t->cli;
    const char *url = client_url(cli->client);

    out_colour(&cli->out, BOLD, "dibs top");
    printf("  %s  %s\n", out_safe(t->arena, url != NULL ? url : client_data_dir(cli->client)),
           out_clock(&cli->out, t->arena, get_text(t->summary, "timestamp")));
    if (t->err.code != DIBS_OK)
        out_colour(&cli->out, RED, out_safe(t->arena, t->err.message));
    else
        printf("%s", out_safe(t->arena, counts_line(t)));
    putchar('\n');
}

/* print_rest: that there are more rows than fit. */
static void print_rest(const struct top *t, int64_t all, size_t rows)
{
    if (all > (int64_t)rows)
        out_colour(&t->cli->out, DIM,
                   must_printf(t->arena, "... and %" PRId64 " more\n", all - (int64_t)rows));
}

/* picture: everything, in at most `rows` lines. */
static void picture(struct top *t, size_t rows)
{
    const json_t *sessions = json_object_get(t->summary, "sessions");
    const json_t *list = json_object_get(t->in_flight, "inFlight");
    int64_t claims = get_int(json_object_get(t->in_flight, "summary"), "total");
    size_t room = rows > ROWS_OF_FRAME + 4 ? rows - ROWS_OF_FRAME : 4;
    size_t for_claims = json_array_size(list) < room / 2 ? json_array_size(list) + 1 : room / 2;
    size_t for_sessions = room - for_claims;

    if (json_array_size(sessions) < for_sessions) {
        for_sessions = json_array_size(sessions) + 1;
        for_claims = room - for_sessions;
    }
    print_head(t);
    putchar('\n');
    /* one line less than there is room: it may be needed to say that there are more */
    sessions_print(t->cli, t->arena, sessions, for_sessions - 1);
    print_rest(t, (int64_t)json_array_size(sessions), for_sessions - 1);
    putchar('\n');
    in_flight_print(t->cli, t->arena, list, for_claims - 1);
    print_rest(t, claims,
               for_claims - 1 < json_array_size(list) ? for_claims - 1 : json_array_size(list));
}

static int print_once(struct top *t)
{
    if (!look(t))
        return cli_error(t->cli, &t->err);
    if (t->cli->json) {
        must_set(t->summary, "inFlight", json_incref(json_object_get(t->in_flight, "inFlight")));
        cli_print_json(t->summary);
        return 0;
    }
    picture(t, SIZE_MAX / 2);
    return 0;
}

/* ---- the terminal ---------------------------------------------------------------------------- */

static volatile sig_atomic_t stopped;

static void stop(int sig)
{
    (void)sig;
    stopped = 1;
}

static void wake(int sig)
{
    (void)sig;
}

static void begin_screen(struct top *t)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction stopping = {.sa_handler = stop}, waking = {.sa_handler = wake};
    struct termios now = {0};

    for (size_t i = 0; i < COUNT_OF(ends); i++)
        sigaction(ends[i], &stopping, NULL);
    sigaction(SIGWINCH, &waking, NULL);
    /* whoever suspends it would be left with a terminal in disorder */
    signal(SIGTSTP, SIG_IGN);
    if (tcgetattr(STDIN_FILENO, &t->before) == 0) {
        now = t->before;
        now.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
        t->changed_terminal = tcsetattr(STDIN_FILENO, TCSANOW, &now) == 0;
    }
    fputs(SCREEN_BEGIN, stdout);
}

static void end_screen(struct top *t)
{
    fputs(SCREEN_END, stdout);
    fflush(stdout);
    if (t->changed_terminal)
        tcsetattr(STDIN_FILENO, TCSANOW, &t->before);
}

/* draw: one picture as large as the terminal is now. */
static void draw(struct top *t)
{
    struct winsize size = {0};
    size_t rows = ROWS_OTHERWISE;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0) {
        rows = size.ws_row;
        t->cli->out.columns = size.ws_col;
    }
    t->cli->out.now_ms = cli_now(t->cli);
    fputs(SCREEN_CLEAR, stdout);
    picture(t, rows);
    fflush(stdout);
    dibs_arena_reset(t->arena);
}

/* pause_or_key: waits for the next picture; false when it is time to end. */
static bool pause_or_key(const struct top *t, int64_t ms)
{
    struct pollfd in = {.fd = t->changed_terminal ? STDIN_FILENO : -1, .events = POLLIN};
    char key = 0;

    if (stopped)
        return false;
    if (poll(&in, 1, (int)ms) < 0 || (in.revents & POLLIN) == 0)
        return !stopped && (in.revents & (POLLERR | POLLHUP)) == 0;
    return read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q';
}

static int live(struct top *t)
{
    int64_t standard_ms = client_url(t->cli->client) != NULL ? INTERVAL_URL_MS : INTERVAL_MS;
    int64_t interval_ms = args_duration_ms(&t->cli->args, "interval", standard_ms);

    if (interval_ms < INTERVAL_MIN_MS)
        interval_ms = INTERVAL_MIN_MS;
    /* what is wrong at the beginning is told on a terminal that is as it was */
    if (!look(t))
        return cli_error(t->cli, &t->err);
    begin_screen(t);
    do {
        draw(t);
        if (!pause_or_key(t, interval_ms))
            break;
        look(t);
    } while (!stopped);
    end_screen(t);
    return 0;
}

static int top(struct cli *cli)
{
    struct top t = {.cli = cli};
    int code = 0;

    if (!cli_open(cli))
        return cli->exit;
    t.arena = dibs_arena_new();
    if (t.arena == NULL)
        must_fail();
    if (cli->json || args_has(&cli->args, "once") || isatty(STDOUT_FILENO) != 1)
        code = print_once(&t);
    else
        code = live(&t);
    json_decref(t.summary);
    json_decref(t.in_flight);
    dibs_arena_free(t.arena);
    return code;
}

const struct command top_commands[] = {
    {"top", "Overview", "[--once] [--interval DURATION]", "sessions and claims, live",
     "Fills the terminal until q or Ctrl-C. One picture only when its output is not a terminal.",
     top_options, 0, 0, false, top},
    {0},
};
