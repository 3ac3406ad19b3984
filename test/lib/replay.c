/* SPDX-License-Identifier: MIT */
/*
 * replay.c: see replay.h.
 *
 * Limits: renewals of a lease leave no event, so replay_was_empty counts a held task as there for
 * the taking once its first deadline is past; a test that asks must not renew what it lets lapse.
 * A journal that was pruned beyond what has been played is taken up at its oldest event; what was
 * granted before is then unknown and not judged.
 */
#include "replay.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/timefmt.h"

#define TYPES_OF_EVENT_MAX 64
#define TYPES_OF_TASK_MAX 16

struct item {
    int type;          /* index into task_types, -1: none */
    bool completed;    /* and not reopened */
    int64_t chance_at; /* its open chance, -1: none */
};

struct replay {
    int64_t next, last_token;
    bool partial;
    char wrong[300];
    json_t *ids; /* task id -> index of its item */
    struct item *items;
    size_t item_count;
    struct replay_grant *grants;
    size_t grant_count;
    size_t *live; /* indexes of grants not ended */
    size_t live_count;
    struct replay_chance *chances;
    size_t chance_count;
    struct {
        char name[40];
        int64_t count;
    } events[TYPES_OF_EVENT_MAX];
    char task_types[TYPES_OF_TASK_MAX][40];
};

struct replay *replay_new(void)
{
    struct replay *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->next = 1;
    r->ids = json_object();
    return r;
}

void replay_free(struct replay *r)
{
    json_decref(r->ids);
    free(r->items);
    free(r->grants);
    free(r->live);
    free(r->chances);
    free(r);
}

/* One more element at the end of an array, zeroed. */
static void *add(void *array, size_t *count, size_t bytes)
{
    void **items = array;
    if ((*count & (*count - 1)) == 0) { /* 0, 1, 2, 4, 8 ...: full */
        size_t room = *count ? *count * 2 : 1;
        void *more = realloc(*items, room * bytes);
        if (!more)
            abort();
        *items = more;
    }
    return memset((char *)*items + (*count)++ * bytes, 0, bytes);
}

static void wrong(struct replay *r, const struct dibs_event *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void wrong(struct replay *r, const struct dibs_event *e, const char *format, ...)
{
    char text[200] = "";
    va_list args;
    if (r->wrong[0])
        return; /* the first is the one to look at */
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(r->wrong, sizeof r->wrong, "event %" PRId64 " (%s): %s", e->number, e->type, text);
}

static const char *text_of(const json_t *data, const char *name)
{
    const char *text = json_string_value(json_object_get(data, name));
    return text ? text : "";
}

static int64_t time_of(const json_t *data, const char *name)
{
    int64_t ms = 0;
    const char *text = text_of(data, name);
    return *text && time_from_text(text, &ms) ? ms : 0;
}

static void count_event(struct replay *r, const char *type)
{
    size_t i = 0;
    while (i < TYPES_OF_EVENT_MAX - 1 && r->events[i].name[0] && strcmp(r->events[i].name, type))
        i++;
    snprintf(r->events[i].name, sizeof r->events[i].name, "%s", type);
    r->events[i].count++;
}

int64_t replay_events(const struct replay *r, const char *type)
{
    for (size_t i = 0; i < TYPES_OF_EVENT_MAX; i++)
        if (strcmp(r->events[i].name, type) == 0)
            return r->events[i].count;
    return 0;
}

/* ---- grants ---------------------------------------------------------------------------------- */

static int by_token(const void *a, const void *b)
{
    int64_t x = ((const struct replay_grant *)a)->token,
            y = ((const struct replay_grant *)b)->token;
    return (x > y) - (x < y);
}

const struct replay_grant *replay_find(const struct replay *r, int64_t token)
{
    struct replay_grant key = {.token = token};
    return r->grant_count ? bsearch(&key, r->grants, r->grant_count, sizeof key, by_token) : NULL;
}

size_t replay_grant_count(const struct replay *r)
{
    return r->grant_count;
}

const struct replay_grant *replay_grant_at(const struct replay *r, size_t index)
{
    return &r->grants[index];
}

size_t replay_held(const struct replay *r)
{
    return r->live_count;
}

static void note_grant(struct replay *r, const struct dibs_event *e, const json_t *data)
{
    bool is_lock = strcmp(e->type, "lock:taken") == 0;
    struct replay_grant g = {.token = json_integer_value(json_object_get(data, "token")),
                             .number = e->number,
                             .is_lock = is_lock,
                             .shared = strcmp(text_of(data, "mode"), "shared") == 0};
    snprintf(g.subject, sizeof g.subject, "%s", text_of(data, is_lock ? "resource" : "taskId"));
    snprintf(g.session, sizeof g.session, "%s", text_of(data, "sessionId"));
    if (g.token <= r->last_token)
        wrong(r, e, "token %" PRId64 " after %" PRId64, g.token, r->last_token);
    r->last_token = g.token;
    for (size_t i = 0; i < r->live_count; i++) {
        const struct replay_grant *other = &r->grants[r->live[i]];
        if (other->is_lock == is_lock && strcmp(other->subject, g.subject) == 0 &&
            !(g.shared && other->shared))
            wrong(r, e, "'%s' is granted to '%s' while '%s' holds it", g.subject, g.session,
                  other->session);
    }
    *(struct replay_grant *)add(&r->grants, &r->grant_count, sizeof g) = g;
    *(size_t *)add(&r->live, &r->live_count, sizeof *r->live) = r->grant_count - 1;
}

static bool ends(const char *type)
{
    static const char *const types[] = {"task:completed",      "task:failed",    "task:released",
                                        "task:claim-expired",  "task:cancelled", "task:blocked",
                                        "task:claim-orphaned", "lock:released",  "lock:expired"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i], type) == 0)
            return true;
    return false;
}

static void note_end(struct replay *r, const struct dibs_event *e, const json_t *data)
{
    int64_t token = json_integer_value(json_object_get(data, "token"));
    struct replay_grant *g = (struct replay_grant *)replay_find(r, token);
    /* an attempt that ran out is followed by the failure of its task; a late completion comes after
     * the end of its claim */
    bool second_word =
        strcmp(e->type, "task:failed") == 0 || json_is_true(json_object_get(data, "late"));
    if (!token || (!g && r->partial))
        return;
    if (!g || (g->ended[0] && !second_word))
        wrong(r, e, "ends token %" PRId64 ", which %s", token, g ? g->ended : "was never granted");
    if (!g || g->ended[0])
        return;
    snprintf(g->ended, sizeof g->ended, "%s", e->type);
    const char *reason = json_string_value(json_object_get(data, "reason"));
    g->was_dead = reason && strcmp(reason, "process_dead") == 0;
    for (size_t i = 0; i < r->live_count; i++)
        if (&r->grants[r->live[i]] == g) {
            r->live[i] = r->live[--r->live_count];
            break;
        }
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static int type_index(struct replay *r, const char *type)
{
    for (int i = 0; *type && i < TYPES_OF_TASK_MAX; i++) {
        if (!r->task_types[i][0])
            snprintf(r->task_types[i], sizeof r->task_types[i], "%s", type);
        if (strcmp(r->task_types[i], type) == 0)
            return i;
    }
    return -1;
}

static struct item *item_of(struct replay *r, const char *id)
{
    json_t *known = json_object_get(r->ids, id);
    if (known)
        return &r->items[json_integer_value(known)];
    struct item *item = add(&r->items, &r->item_count, sizeof *item);
    *item = (struct item){.type = -1, .chance_at = -1};
    json_object_set_new(r->ids, id, json_integer((json_int_t)r->item_count - 1));
    return item;
}

/* What the event makes of the chance to claim the task. */
static void note_chance(struct replay *r, struct item *item, const struct dibs_event *e,
                        const json_t *data)
{
    bool open = strcmp(text_of(data, "status"), "open") == 0;
    bool claimed = strcmp(e->type, "task:claimed") == 0;
    if (item->chance_at >= 0)
        r->chances[item->chance_at].to = e->number;
    item->chance_at = -1;
    if (!open && !claimed)
        return;
    struct replay_chance *chance_ = add(&r->chances, &r->chance_count, sizeof *chance_);
    *chance_ = (struct replay_chance){.from = e->number,
                                      .to = INT64_MAX,
                                      .due_ms = time_of(data, open ? "runAfter" : "expiresAt"),
                                      .type = item->type,
                                      .held = claimed};
    item->chance_at = (int64_t)r->chance_count - 1;
}

static void note_task(struct replay *r, const struct dibs_event *e, const json_t *data)
{
    struct item *item = item_of(r, text_of(data, "taskId"));
    if (strcmp(e->type, "task:claim-refused") == 0 || strcmp(e->type, "task:late-result") == 0 ||
        strcmp(e->type, "task:claim-expiring") == 0)
        return; /* nothing has changed */
    if (strcmp(e->type, "task:created") == 0)
        item->type = type_index(r, text_of(data, "type"));
    if (strcmp(e->type, "task:completed") == 0 && item->completed)
        wrong(r, e, "task '%s' is completed twice", text_of(data, "taskId"));
    item->completed = strcmp(text_of(data, "status"), "completed") == 0;
    note_chance(r, item, e, data);
}

/* The leases that were held in a time when nobody could be heard end later. */
static void note_extension(struct replay *r, const json_t *data)
{
    int64_t by = json_integer_value(json_object_get(data, "byMs"));
    int64_t since = time_of(data, "heldSince");
    for (size_t i = 0; i < r->item_count; i++) {
        int64_t at = r->items[i].chance_at;
        if (at >= 0 && r->chances[at].held && r->chances[at].due_ms > since)
            r->chances[at].due_ms += by;
    }
}

/* ---- playing --------------------------------------------------------------------------------- */

static void play(struct replay *r, const struct dibs_event *e)
{
    json_t *data = json_loads(e->data, 0, NULL);
    if (e->number != r->next)
        wrong(r, e, "expected number %" PRId64, r->next);
    if (!data)
        wrong(r, e, "cannot read its data");
    r->next = e->number + 1;
    count_event(r, e->type);
    if (ends(e->type))
        note_end(r, e, data);
    if (strcmp(e->type, "task:claimed") == 0 || strcmp(e->type, "lock:taken") == 0)
        note_grant(r, e, data);
    if (strncmp(e->type, "task:", 5) == 0)
        note_task(r, e, data);
    if (strcmp(e->type, "leases:extended") == 0)
        note_extension(r, data);
    json_decref(data);
}

const char *replay_run(struct replay *r, dibs *d)
{
    struct dibs_error err = {0};
    struct dibs_event_list page = {0};
    dibs_arena *a = dibs_arena_new();
    do {
        struct dibs_event_filter more = {.since = r->next - 1, .limit = 1000};
        dibs_arena_reset(a);
        if (dibs_events(d, a, &more, &page, &err) != DIBS_OK) {
            snprintf(r->wrong, sizeof r->wrong, "cannot read the journal: %.200s", err.message);
            break;
        }
        if (page.first_kept > r->next) {
            r->next = page.first_kept;
            r->partial = true;
            r->live_count = 0;
        }
        for (size_t i = 0; i < page.count && !r->wrong[0]; i++)
            play(r, &page.items[i]);
    } while (page.count == 1000 && !r->wrong[0]);
    if (!r->wrong[0] && page.last != r->next - 1)
        snprintf(r->wrong, sizeof r->wrong,
                 "the journal ends at %" PRId64 ", its counter says %" PRId64, r->next - 1,
                 page.last);
    dibs_arena_free(a);
    return r->wrong[0] ? r->wrong : NULL;
}

/* ---- was there really nothing? --------------------------------------------------------------- */

bool replay_was_empty(const struct replay *r, const char *type, int64_t from, int64_t to,
                      int64_t at_ms)
{
    int64_t upto = from; /* up to here there always was a task */
    for (;;) {
        int64_t further = upto;
        for (size_t i = 0; i < r->chance_count; i++) {
            const struct replay_chance *c = &r->chances[i];
            bool fits = !type || (c->type >= 0 && strcmp(r->task_types[c->type], type) == 0);
            if (fits && c->due_ms <= at_ms && c->from <= upto && c->to > further)
                further = c->to;
        }
        if (further > to)
            return false;
        if (further == upto)
            return true;
        upto = further;
    }
}
