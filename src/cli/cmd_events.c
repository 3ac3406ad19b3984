/* SPDX-License-Identifier: MIT */
/*
 * cmd_events.c: dibs events, once or for as long as somebody reads.
 *
 * Following asks the journal five times a second for what came after the last number looked at:
 * numbers have no gaps and grow in the order of commit, so nothing is missed and nothing told
 * twice. It ends at SIGINT, SIGTERM and SIGHUP, and when the reader of its output is gone, which
 * poll() tells even while nothing happens.
 *
 * The last ones that match a filter may be anywhere: tail() looks at the end of the journal, and as
 * long as it has found too few, at ever more of it.
 */
#define _GNU_SOURCE /* ppoll */
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "cli.h"

#define POLL_MS 200
#define SHOWN_STANDARD 50
#define TAIL_GROWTH 8 /* so many times as much is looked at when there were too few */

static const struct cli_option event_options[] = {
    OPT("follow", 'f', FLAG, NULL, NULL, "go on with what happens from now on"),
    OPT("since", 0, INT, "N", NULL, "from behind this number on; the last ones if not given"),
    OPT("types", 0, TEXT, "A,B", "types", "only of these types"),
    OPT("task", 0, TEXT, "ID", "taskId", "only of this task"),
    OPT("summary", 0, FLAG, NULL, NULL, "without the single claims of a sweep"),
    OPT("limit", 'n', INT, "N", NULL, "at most so many; 50 if not given"),
    {0},
};

static volatile sig_atomic_t stopped;

static void stop(int sig)
{
    (void)sig;
    stopped = 1;
}

/* ask: a page of the journal from behind `since` on. False: could not be asked. */
static bool ask(struct cli *cli, const char *filters, int64_t since, int64_t limit)
{
    char query[128] = "";
    struct buf b;
    bool asked = false;

    snprintf(query, sizeof query, "since=%" PRId64 "&limit=%" PRId64, since, limit);
    buf_init(&b, BODY_BYTES_MAX);
    buf_text(&b, query);
    if (args_has(&cli->args, "summary"))
        buf_text(&b, "&detail=summary");
    if (filters[0] != '\0') {
        buf_char(&b, '&');
        buf_text(&b, filters);
    }
    asked = cli_call(cli, &(struct client_request){
                              .method = "GET", .path = "/api/events", .query = must_buf(&b)});
    buf_release(&b);
    return asked;
}

/* print_event: one line; the columns are wide enough for most, as rows to come are not known. */
static void print_event(struct cli *cli, dibs_arena *a, const json_t *event)
{
    const char *subject = get_text(event, "taskId");

    if (cli->json) {
        cli_print_json(event);
        return;
    }
    if (cli->quiet) {
        printf("%" PRId64 "\n", get_int(event, "id"));
        return;
    }
    if (subject == NULL)
        subject = get_text(event, "sessionId");
    printf("%6" PRId64 "  %s  ", get_int(event, "id"),
           out_clock(&cli->out, a, get_text(event, "at")));
    out_colour(&cli->out, CYAN, must_printf(a, "%-20s", get_text(event, "type")));
    printf("  %-12s  %s\n", subject != NULL ? out_safe(a, subject) : "-",
           value_line(a, json_object_get(event, "data")));
}

/* after: the number to go on from. A page with room left has looked at all there is, also at what
 * the filters left out. */
static int64_t after(const json_t *page, int64_t since, int64_t limit)
{
    const json_t *events = json_object_get(page, "events");
    size_t count = json_array_size(events);
    int64_t next = (int64_t)count < limit ? get_int(page, "last")
                                          : get_int(json_array_get(events, count - 1), "id");

    return next > since ? next : since;
}

static void print_page(struct cli *cli, dibs_arena *a)
{
    const json_t *events = json_object_get(cli->answer.json, "events");

    if (json_is_true(json_object_get(cli->answer.json, "resync")))
        cli_hint(cli, "dibs: events up to %" PRId64 " have been pruned",
                 get_int(cli->answer.json, "firstKept") - 1);
    for (size_t i = 0; i < json_array_size(events); i++)
        print_event(cli, a, json_array_get(events, i));
}

/* rest: waits a moment; false when it is time to end. */
static bool rest(const sigset_t *unblocked)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    struct timespec moment = {.tv_nsec = POLL_MS * 1000000L};

    if (stopped)
        return false;
    ppoll(&out, 1, &moment, unblocked);
    return !stopped && (out.revents & (POLLERR | POLLHUP | POLLNVAL)) == 0;
}

static int follow(struct cli *cli, const char *filters, int64_t since)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = stop};
    sigset_t blocked, unblocked;
    dibs_arena *a = dibs_arena_new();
    bool going = true;
    int code = 0;

    if (a == NULL)
        must_fail();
    /* blocked outside of ppoll(), so that none can slip in between looking and waiting */
    sigemptyset(&blocked);
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        sigaddset(&blocked, ends[i]);
        sigaction(ends[i], &action, NULL);
    }
    sigprocmask(SIG_BLOCK, &blocked, &unblocked);
    while (going) {
        if (!ask(cli, filters, since, PAGE_MAX) || cli->answer.status != DIBS_OK) {
            code = cli->answer.status != DIBS_OK ? cli_refusal(cli) : cli->exit;
            break;
        }
        cli->out.now_ms = cli_now(cli);
        size_t count = json_array_size(json_object_get(cli->answer.json, "events"));
        print_page(cli, a);
        since = after(cli->answer.json, since, PAGE_MAX);
        dibs_arena_reset(a);
        if (fflush(stdout) != 0)
            break;
        going = count == PAGE_MAX || rest(&unblocked);
    }
    dibs_arena_free(a);
    return code;
}

/* keep_last: moves the events of the page to `kept`, of which only the last `limit` stay. */
static void keep_last(json_t *kept, const json_t *page, int64_t limit)
{
    json_t *events = json_object_get(page, "events");

    for (size_t i = 0; i < json_array_size(events); i++)
        must_push(kept, json_incref(json_array_get(events, i)));
    while ((int64_t)json_array_size(kept) > limit)
        json_array_remove(kept, 0);
}

/* collect: the last `limit` events from behind `since` on, in cli->answer. False: refused, or it
 * could not be asked. */
static bool collect(struct cli *cli, const char *filters, int64_t since, int64_t limit)
{
    json_t *kept = must_json(json_array());
    bool more = true;

    while (more) {
        if (!ask(cli, filters, since, PAGE_MAX) || cli->answer.status != DIBS_OK) {
            json_decref(kept);
            return false;
        }
        more = json_array_size(json_object_get(cli->answer.json, "events")) == PAGE_MAX;
        since = after(cli->answer.json, since, PAGE_MAX);
        keep_last(kept, cli->answer.json, limit);
    }
    must_set(cli->answer.json, "events", kept);
    return true;
}

/* tail: the last `limit` events that match, in cli->answer. False: as collect. */
static bool tail(struct cli *cli, const char *filters, int64_t limit)
{
    int64_t since = 0, last = 0, begin = 0, window = limit;

    /* where the journal ends; and what is wrong with the question is refused */
    if (!ask(cli, filters, INT64_MAX, limit) || cli->answer.status != DIBS_OK)
        return false;
    last = get_int(cli->answer.json, "last");
    if (get_int(cli->answer.json, "firstKept") > 1)
        begin = get_int(cli->answer.json, "firstKept") - 1;
    for (;; window *= TAIL_GROWTH) {
        since = last - window > begin ? last - window : begin;
        if (!collect(cli, filters, since, limit))
            return false;
        if (since <= begin ||
            (int64_t)json_array_size(json_object_get(cli->answer.json, "events")) == limit)
            return true;
    }
}

/* from_now_on: follows from the newest event on. */
static int from_now_on(struct cli *cli, const char *filters)
{
    if (!ask(cli, "", 0, 1))
        return cli->exit;
    return follow(cli, filters, get_int(cli->answer.json, "last"));
}

static int events(struct cli *cli)
{
    const char *filters = cli_query(cli, true);
    bool all = args_has(&cli->args, "since"), asked = false;
    int64_t limit = args_int(&cli->args, "limit", SHOWN_STANDARD);
    int64_t since = args_int(&cli->args, "since", 0);

    if (args_has(&cli->args, "follow")) {
        if (args_has(&cli->args, "limit"))
            return cli_usage(cli, "--follow and --limit exclude each other");
        return all ? follow(cli, filters, since) : from_now_on(cli, filters);
    }
    asked = all ? ask(cli, filters, since, limit) : tail(cli, filters, limit);
    if (!asked && cli->answer.status == DIBS_OK)
        return cli->exit;
    if (cli_show(cli) == NULL)
        return cli->exit;
    if (json_array_size(json_object_get(cli->answer.json, "events")) == 0 && !cli->quiet)
        puts("no events");
    print_page(cli, cli->arena);
    return 0;
}

const struct command event_commands[] = {
    {"events", "Overview", "[--follow] [options]", "what happened, from the journal",
     "Without --since the last 50 that match are shown, and with --follow only what comes from now "
     "on.",
     event_options, 0, 0, false, events},
    {0},
};
