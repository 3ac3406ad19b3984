/* SPDX-License-Identifier: MIT */
/*
 * api_event.c: a page of the journal.
 *
 * A reader asks for what came after the last number it has seen. When that has been pruned in part,
 * "resync" tells it that it missed something and must read the objects afresh.
 */
#include "api_event.h"

#include "api_internal.h"

struct events_in {
    struct dibs_event_filter filter;
    struct dibs_opt since;
    int detail;
};
enum { DETAIL_FULL, DETAIL_SUMMARY };
static const struct field_word detail_words[] = {
    {"full", DETAIL_FULL},
    {"summary", DETAIL_SUMMARY},
    {NULL, 0},
};

#define IN struct events_in
static const struct field events_fields[] = {
    FIELD("since", INT, since, .flags = FIELD_OPT, .doc = "Events with a larger number than this"),
    FIELD("types", STRINGS, filter.types, .doc = "Any of these types, separated by commas"),
    FIELD("project", TEXT, filter.project, .max = WORD_BYTES_MAX, .doc = "Events of this project"),
    FIELD("taskId", ID, filter.task_id, .doc = "Events of this task"),
    FIELD("detail", ENUM, detail, .words = detail_words,
          .doc = "summary leaves out the single claims of a sweep"),
    FIELD("limit", INT, filter.limit, .min = 1, .max = PAGE_MAX,
          .doc = "Events per page, 100 if not given"),
};
#undef IN
const struct api_shape api_in_events = SHAPE(struct events_in, events_fields, .id_at = SHAPE_NO_ID);

static struct dibs_event_filter filter_of(const struct events_in *in)
{
    struct dibs_event_filter filter = in->filter;
    filter.since = in->since.value;
    filter.summary = in->detail == DETAIL_SUMMARY;
    return filter;
}

dibs_status api_event_query(const char *query, dibs_arena *a, struct dibs_event_filter *out,
                            bool *since_given, struct dibs_error *err)
{
    struct events_in in = {0};
    struct decoder d = {.a = a, .shape = &api_in_events, .out = &in, .err = err};
    dibs_status s = decode_query(&d, query);
    if (s == DIBS_OK)
        s = decode_finish(&d);
    if (s != DIBS_OK)
        return s;
    *out = filter_of(&in);
    *since_given = in.since.given;
    return DIBS_OK;
}

dibs_status api_events(struct api_ctx *c, const void *input)
{
    const struct events_in *in = input;
    struct dibs_event_filter filter = filter_of(in);
    struct dibs_event_list list = {0};
    dibs_status s = dibs_events(c->d, c->a, &filter, &list, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_karray(w, "events");
    for (size_t i = 0; i < list.count; i++)
        enc_event(w, &list.items[i]);
    jw_array_end(w);
    jw_kint(w, "firstKept", list.first_kept);
    jw_kint(w, "last", list.last);
    if (in->since.given && in->since.value < list.first_kept - 1)
        jw_kbool(w, "resync", true);
    return DIBS_OK;
}
