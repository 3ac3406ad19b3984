/* SPDX-License-Identifier: MIT */
/*
 * follow.h: events in the terminal, page by page or as they happen: what dibs events and dibs watch
 * have in common.
 */
#ifndef DIBS_FOLLOW_H
#define DIBS_FOLLOW_H

#include "cli.h"

#define EVENT_FILTER_OPTIONS                                                                       \
    OPT("types", 0, TEXT, "A,B", "types", "only of these types"),                                  \
        OPT("task", 0, TEXT, "ID", "taskId", "only of this task"),                                 \
        OPT("summary", 0, FLAG, NULL, NULL, "without the single claims of a sweep")

/* The filters of the command line as a query; "" when there are none. */
const char *event_filters(struct cli *cli);
/* Asks for a page of the journal from behind `since` on. False: it could not be asked. */
bool event_ask(struct cli *cli, const char *filters, int64_t since, int64_t limit);
/* The number to go on from behind the page in cli->answer. */
int64_t event_after(const json_t *page, int64_t since, int64_t limit);
/* Prints the page in cli->answer. */
void event_print_page(const struct cli *cli, dibs_arena *a);

/* Prints what happens until a signal ends it, or nobody reads any more; returns the exit code. */
int follow_since(struct cli *cli, const char *filters, int64_t since);
int follow_from_now_on(struct cli *cli, const char *filters);

#endif
