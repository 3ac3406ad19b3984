/* SPDX-License-Identifier: MIT */
/*
 * follow.c: prints events as they happen, from a daemon or from the journal itself.
 *
 *     daemon:      one stream; when it breaks, again from the last number on, with a growing pause
 *     data file:   five times a second a page from behind the last number looked at
 *
 * Numbers have no gaps and grow in the order of commit, so either way nothing is missed and nothing
 * told twice. Following ends at SIGINT, SIGTERM and SIGHUP, and when the reader of the output is
 * gone, which poll() tells even while nothing happens.
 */
#define _GNU_SOURCE /* ppoll */
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "follow.h"

#include "base/str.h"

#define POLL_MS 200
#define PAUSE_FIRST_MS 200
#define PAUSE_LAST_MS 5000

/* ---- pages ----------------------------------------------------------------------------------- */

const char *event_filters(struct cli *cli)
{
    const char *filters = cli_query(cli, true);

    if (!args_has(&cli->args, "summary"))
        return filters;
    return must_printf(cli->arena, "%s%sdetail=summary", filters, filters[0] != '\0' ? "&" : "");
}

bool event_ask(struct cli *cli, const char *filters, int64_t since, int64_t limit)
{
    struct buf b;
    bool asked = false;

    buf_init(&b, BODY_BYTES_MAX);
    buf_printf(&b, "since=%" PRId64 "&limit=%" PRId64 "%s%s", since, limit,
               filters[0] != '\0' ? "&" : "", filters);
    asked = cli_call(cli, &(struct client_request){
                              .method = "GET", .path = "/api/events", .query = must_buf(&b)});
    buf_release(&b);
    return asked;
}

/* A page with room left has looked at all there is, also at what the filters left out. */
int64_t event_after(const json_t *page, int64_t since, int64_t limit)
{
    const json_t *events = json_object_get(page, "events");
    size_t count = json_array_size(events);
    int64_t next = (int64_t)count < limit ? get_int(page, "last")
                                          : get_int(json_array_get(events, count - 1), "id");

    return next > since ? next : since;
}

/* ---- one event ------------------------------------------------------------------------------- */

/* type_colour: by what an event means for the work. */
static enum colour type_colour(const char *type)
{
    static const struct {
        const char *end;
        enum colour colour;
    } ends[] = {
        {":claimed", YELLOW},  {":progress", YELLOW}, {":completed", GREEN}, {":failed", RED},
        {"-expired", RED},     {"-orphaned", RED},    {"-refused", RED},     {":stale", RED},
        {":late-result", RED}, {"-expiring", YELLOW}, {":cancelled", DIM},   {":deregistered", DIM},
    };
    size_t bytes = type != NULL ? strlen(type) : 0;

    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        size_t tail = strlen(ends[i].end);
        if (bytes >= tail && str_eq(type + bytes - tail, ends[i].end))
            return ends[i].colour;
    }
    return CYAN;
}

/* data_line: what the event carries, but for what stands in the columns. */
static const char *data_line(dibs_arena *a, const json_t *event)
{
    json_t *data = json_copy(json_object_get(event, "data"));
    const char *line = NULL;

    if (data == NULL)
        return "";
    json_object_del(data, "taskId");
    json_object_del(data, "sessionId");
    line = value_line(a, data);
    json_decref(data);
    return line;
}

/* print_line: for people; the columns are wide enough for most, as rows to come are not known. On a
 * terminal a line of a live view is one line. */
static void print_line(const struct cli *cli, dibs_arena *a, const json_t *event, bool live)
{
    const char *type = get_text(event, "type") != NULL ? get_text(event, "type") : "?";
    const char *task = get_text(event, "taskId"), *session = get_text(event, "sessionId");
    const char *subject = task != NULL ? task : session != NULL ? session : "-";
    const char *begin = must_printf(a, "%6" PRId64 "  %s  ", get_int(event, "id"),
                                    out_clock(&cli->out, a, get_text(event, "at")));
    const char *middle = must_printf(a, "  %-12s  ", out_safe(a, subject));
    const char *who =
        task != NULL && session != NULL ? must_printf(a, "%s ", out_safe(a, session)) : "";
    const char *data = data_line(a, event);
    size_t used = 0;

    type = must_printf(a, "%-20s", out_safe(a, type));
    used = out_width(begin) + out_width(type) + out_width(middle) + out_width(who);
    if (live && cli->out.columns > used)
        data = out_cut(a, data, cli->out.columns - used);
    fputs(begin, stdout);
    out_colour(&cli->out, type_colour(get_text(event, "type")), type);
    fputs(middle, stdout);
    out_colour(&cli->out, BOLD, who);
    puts(data);
}

static void print_event(const struct cli *cli, dibs_arena *a, const json_t *event, bool live)
{
    if (cli->json)
        cli_print_json(event);
    else if (cli->quiet)
        printf("%" PRId64 "\n", get_int(event, "id"));
    else
        print_line(cli, a, event, live);
}

/* tell_pruned: what was asked for is no longer there in full. */
static void tell_pruned(const struct cli *cli, const json_t *page)
{
    cli_hint(cli, "dibs: events up to %" PRId64 " have been pruned",
             get_int(page, "firstKept") - 1);
}

/* print_page: the page in cli->answer. */
static void print_page(const struct cli *cli, dibs_arena *a, bool live)
{
    const json_t *events = json_object_get(cli->answer.json, "events");

    if (json_is_true(json_object_get(cli->answer.json, "resync")))
        tell_pruned(cli, cli->answer.json);
    for (size_t i = 0; i < json_array_size(events); i++)
        print_event(cli, a, json_array_get(events, i), live);
}

void event_print_page(const struct cli *cli, dibs_arena *a)
{
    print_page(cli, a, false);
}

/* ---- when to end ----------------------------------------------------------------------------- */

static volatile sig_atomic_t stopped;

static void stop(int sig)
{
    (void)sig;
    stopped = 1;
}

/* catch_signals: those that end us; *set names them. */
static void catch_signals(sigset_t *set)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = stop};

    sigemptyset(set);
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        sigaddset(set, ends[i]);
        sigaction(ends[i], &action, NULL);
    }
}

/* rest: waits for so long with these signals let through; false when it is time to end. */
static bool rest(int64_t ms, const sigset_t *unblocked)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    struct timespec moment = {.tv_sec = (time_t)(ms / 1000),
                              .tv_nsec = (long)(ms % 1000) * 1000000};

    if (stopped)
        return false;
    ppoll(&out, 1, &moment, unblocked);
    return !stopped && (out.revents & (POLLERR | POLLHUP | POLLNVAL)) == 0;
}

/* ---- the journal, page by page --------------------------------------------------------------- */

static int follow_journal(struct cli *cli, const char *filters, int64_t since)
{
    sigset_t blocked, unblocked;
    dibs_arena *a = dibs_arena_new();
    bool going = true;
    int code = 0;

    if (a == NULL)
        must_fail();
    /* blocked outside of ppoll(), so that none can slip in between looking and waiting */
    catch_signals(&blocked);
    sigprocmask(SIG_BLOCK, &blocked, &unblocked);
    while (going) {
        if (!event_ask(cli, filters, since, PAGE_MAX) || cli->answer.status != DIBS_OK) {
            code = cli->answer.status != DIBS_OK ? cli_refusal(cli) : cli->exit;
            break;
        }
        cli->out.now_ms = cli_now(cli);
        size_t count = json_array_size(json_object_get(cli->answer.json, "events"));
        print_page(cli, a, true);
        since = event_after(cli->answer.json, since, PAGE_MAX);
        dibs_arena_reset(a);
        if (fflush(stdout) != 0)
            break;
        going = count == PAGE_MAX || rest(POLL_MS, &unblocked);
    }
    dibs_arena_free(a);
    return code;
}

/* ---- the stream of a daemon ------------------------------------------------------------------ */

struct follower {
    struct cli *cli;
    dibs_arena *arena;
    int64_t since;
    int64_t pause_ms;
    bool connected, lost; /* once; now */
};

static void on_connected(void *context)
{
    struct follower *f = context;

    if (f->lost)
        cli_complain("connected again, going on behind event %" PRId64, f->since);
    f->connected = true;
    f->lost = false;
    f->pause_ms = PAUSE_FIRST_MS;
}

static void on_event(void *context, const struct client_event *event)
{
    struct follower *f = context;

    if (str_eq(event->type, "resync"))
        tell_pruned(f->cli, event->data);
    else if (get_int(event->data, "id") > 0) /* "shutdown" and the like are not in the journal */
        print_event(f->cli, f->arena, event->data, true);
    if (event->id > f->since)
        f->since = event->id;
    dibs_arena_reset(f->arena);
}

static bool on_tick(void *context)
{
    struct follower *f = context;

    f->cli->out.now_ms = cli_now(f->cli);
    return fflush(stdout) == 0 && rest(0, NULL);
}

/* is_passing: whether a daemon that was there may be back soon. */
static bool is_passing(const struct follower *f, dibs_status status)
{
    return f->connected && (dibs_status_is_failure(status) || status == DIBS_RATE_LIMITED);
}

static int follow_stream(struct cli *cli, const char *filters, int64_t since)
{
    struct follower f = {.cli = cli, .since = since, .pause_ms = PAUSE_FIRST_MS};
    struct client_stream stream = {.query = filters,
                                   .connected = on_connected,
                                   .event = on_event,
                                   .tick = on_tick,
                                   .context = &f};
    struct dibs_error err = {0};
    dibs_status status = DIBS_OK;
    sigset_t ends;

    f.arena = dibs_arena_new();
    if (f.arena == NULL)
        must_fail();
    catch_signals(&ends);
    for (;;) {
        stream.since = f.since;
        status = client_stream(cli->client, &stream, &err);
        if (status == DIBS_OK || !is_passing(&f, status))
            break;
        if (!f.lost)
            cli_complain("%s; waiting for the daemon to be back", err.message);
        f.lost = true;
        if (!rest(f.pause_ms, NULL))
            break;
        f.pause_ms = f.pause_ms * 2 < PAUSE_LAST_MS ? f.pause_ms * 2 : PAUSE_LAST_MS;
    }
    dibs_arena_free(f.arena);
    return status == DIBS_OK || f.lost ? 0 : cli_error(cli, &err);
}

int follow_since(struct cli *cli, const char *filters, int64_t since)
{
    if (!cli_open(cli))
        return cli->exit;
    return client_has_stream(cli->client) ? follow_stream(cli, filters, since)
                                          : follow_journal(cli, filters, since);
}

int follow_from_now_on(struct cli *cli, const char *filters)
{
    /* where the journal ends; and what is wrong with the question is refused */
    if (!event_ask(cli, filters, INT64_MAX, 1))
        return cli->exit;
    if (cli->answer.status != DIBS_OK)
        return cli_refusal(cli);
    return follow_since(cli, filters, get_int(cli->answer.json, "last"));
}
