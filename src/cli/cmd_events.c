/* SPDX-License-Identifier: MIT */
/*
 * cmd_events.c: dibs events and dibs watch: what happened, and what happens.
 *
 * The last ones that match a filter may be anywhere: tail() looks at the end of the journal, and as
 * long as it has found too few, at ever more of it.
 */
#include "follow.h"

#define SHOWN_STANDARD 50
#define TAIL_GROWTH 8 /* so many times as much is looked at when there were too few */

static const struct cli_option event_options[] = {
    OPT("follow", 'f', FLAG, NULL, NULL, "go on with what happens from now on"),
    OPT("since", 0, INT, "N", NULL, "from behind this number on; the last ones if not given"),
    EVENT_FILTER_OPTIONS,
    OPT("limit", 'n', INT, "N", NULL, "at most so many; 50 if not given"),
    {0},
};

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
        if (!event_ask(cli, filters, since, PAGE_MAX) || cli->answer.status != DIBS_OK) {
            json_decref(kept);
            return false;
        }
        more = json_array_size(json_object_get(cli->answer.json, "events")) == PAGE_MAX;
        since = event_after(cli->answer.json, since, PAGE_MAX);
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
    if (!event_ask(cli, filters, INT64_MAX, limit) || cli->answer.status != DIBS_OK)
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

static int events(struct cli *cli)
{
    const char *filters = event_filters(cli);
    bool all = args_has(&cli->args, "since"), asked = false;
    int64_t limit = args_int(&cli->args, "limit", SHOWN_STANDARD);
    int64_t since = args_int(&cli->args, "since", 0);

    if (args_has(&cli->args, "follow")) {
        if (args_has(&cli->args, "limit"))
            return cli_usage(cli, "--follow and --limit exclude each other");
        return all ? follow_since(cli, filters, since) : follow_from_now_on(cli, filters);
    }
    asked = all ? event_ask(cli, filters, since, limit) : tail(cli, filters, limit);
    if (!asked && cli->answer.status == DIBS_OK)
        return cli->exit;
    if (cli_show(cli) == NULL)
        return cli->exit;
    if (json_array_size(json_object_get(cli->answer.json, "events")) == 0 && !cli->quiet)
        puts("no events");
    event_print_page(cli, cli->arena);
    return 0;
}

/* ---- watch ----------------------------------------------------------------------------------- */

static const struct cli_option watch_options[] = {
    OPT("since", 0, INT, "N", NULL, "begin behind this number instead of now"),
    EVENT_FILTER_OPTIONS,
    {0},
};

static int watch(struct cli *cli)
{
    const char *filters = event_filters(cli);

    if (args_has(&cli->args, "since"))
        return follow_since(cli, filters, args_int(&cli->args, "since", 0));
    return follow_from_now_on(cli, filters);
}

const struct command event_commands[] = {
    {"events", "Overview", "[--follow] [options]", "what happened, from the journal",
     "Without --since the last 50 that match are shown, and with --follow only what comes from now "
     "on.",
     event_options, 0, 0, false, events},
    {"watch", "Overview", "[options]", "what happens, as it happens",
     "The same as events --follow. When a daemon stops, it waits for it to be back and goes on "
     "where it was. Ctrl-C ends it.",
     watch_options, 0, 0, false, watch},
    {0},
};
