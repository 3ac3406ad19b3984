/* SPDX-License-Identifier: MIT */
/*
 * api_next.c: POST /api/tasks/claim, the pull interface of workers.
 *
 * It speaks a dialect of its own, in and out: snake_case, "status": "claimed", the id as a number
 * when it is one, the filters echoed when nothing was found. A worker need not register: a
 * worker_id that is no living session becomes one, in the same transaction as its first claim.
 */
#include "api_internal.h"
#include "base/str.h"
#include "core/owner.h"
#include "core/serve.h"

/* Numbers beyond this are not exact in every reader of JSON; such an id stays text. */
#define EXACT_INTEGER_MAX INT64_C(9007199254740991)

const struct field_word api_sort_words[] = {
    {"priority", DIBS_SORT_PRIORITY},
    {"created_at", DIBS_SORT_CREATED_AT},
    {"random", DIBS_SORT_RANDOM},
    {NULL, 0},
};
const struct field_word api_order_words[] = {
    {"asc", DIBS_ORDER_ASC},
    {"desc", DIBS_ORDER_DESC},
    {NULL, 0},
};

_Static_assert(sizeof(enum dibs_sort) == sizeof(int), "FIELD_ENUM stores an int");
_Static_assert(sizeof(enum dibs_order) == sizeof(int), "FIELD_ENUM stores an int");

#define IN struct dibs_claim_next
static const struct field next_fields[] = {
    FIELD("worker_id", ID, session_id, .flags = FIELD_REQUIRED | FIELD_ACTS | FIELD_FRESH,
          .missing = "Missing required field: worker_id", .doc = "The worker; registered if new"),
    FIELD("task_types", STRINGS, types, .max = TYPES_MAX, .doc = "Tasks of any of these types"),
    FIELD("max_attempts_remaining", INT, max_attempts_remaining, .flags = FIELD_OPT,
          .doc = "n: only tasks with attempts < max_attempts - n"),
    FIELD("sort_by", ENUM, sort, .words = api_sort_words,
          .doc = "priority (standard), created_at or random"),
    FIELD("sort_order", ENUM, order, .words = api_order_words,
          .doc = "Highest priority or oldest first if not given"),
    FIELD("ttl_ms", INT, ttl_ms, .min = 1, .doc = "Lease of the claim"),
    FIELD("wait_ms", INT, wait_ms, .max = WAIT_MS_MAX,
          .doc = "Wait so long for a task; not with an Idempotency-Key"),
    FIELD("count", INT, count, .min = 1, .max = CLAIM_COUNT_MAX, .doc = "Claim up to so many"),
    FIELD("project", TEXT, project, .max = WORD_BYTES_MAX,
          .doc = "Tasks of this project; the worker's if not given"),
    FIELD("tags", STRINGS, tags, .max = TAGS_MAX, .doc = "Tasks that have all of these tags"),
};
#undef IN
const struct api_shape api_in_claim_next =
    SHAPE(struct dibs_claim_next, next_fields, .id_at = SHAPE_NO_ID);

/* ---- claiming -------------------------------------------------------------------------------- */

/*
 * claim_as_new: registers the worker and claims, as one. Looked at again first: the same worker may
 * have been registered by another of its requests in the meantime.
 */
static dibs_status claim_as_new(struct api_ctx *c, const struct dibs_claim_next *in,
                                struct dibs_grant *out)
{
    struct dibs_session_new who = {
        .id = in->session_id, .project = in->project, .agent_type = "worker"};
    struct dibs_session session = {0};
    dibs_status s = api_begin(c);
    if (s != DIBS_OK)
        return s;
    s = dibs_claim_next(c->d, c->a, in, out, c->err);
    if (s == DIBS_SESSION_NOT_FOUND) {
        s = api_register(c, &who, &session);
        if (s == DIBS_OK)
            s = dibs_claim_next(c->d, c->a, in, out, c->err);
    }
    if (s != DIBS_OK && s != DIBS_NOTHING_TO_CLAIM) {
        api_cancel(c);
        return s;
    }
    return api_settle(c, s);
}

static dibs_status claim(struct api_ctx *c, const struct dibs_claim_next *in,
                         struct dibs_grant *out)
{
    dibs_status s = dibs_claim_next(c->d, c->a, in, out, c->err);
    if (s != DIBS_SESSION_NOT_FOUND)
        return s;
    s = claim_as_new(c, in, out);
    /* there is no waiting inside a transaction; the worker is registered now, so ask once more */
    if (s == DIBS_NOTHING_TO_CLAIM && in->wait_ms > 0)
        s = dibs_claim_next(c->d, c->a, in, out, c->err);
    return s;
}

/* ---- waiting --------------------------------------------------------------------------------- */

uint64_t api_wait_key(uint64_t hash, struct dibs_strings texts)
{
    for (size_t i = 0; i < texts.count; i++)
        hash = str_hash(hash, texts.items[i]);
    hash = str_hash(hash, "");
    return hash != 0 ? hash : 1;
}

/* wait_for: the key is the same for all who would be given the same tasks of the pool, 0 when it
 * cannot be told; what is assigned concerns one agent only. */
static void wait_for(struct api_ctx *c, const struct dibs_claim_next *in)
{
    struct dibs_session_owner worker = {0};
    struct dibs_error ignored = {0};
    char attempts[32] = "";
    c->wait_ms = in->wait_ms;
    if (in->wait_ms == 0 ||
        dibs__session_owner(c->d, c->a, in->session_id, &worker, &ignored) != DIBS_OK)
        return;
    const char *project = in->project != NULL ? in->project : worker.project;
    if (in->max_attempts_remaining.given)
        snprintf(attempts, sizeof attempts, "%" PRId64, in->max_attempts_remaining.value);
    uint64_t hash = str_hash(str_hash(STR_HASH, attempts), project != NULL ? project : "");
    c->wait_key = api_wait_key(api_wait_key(hash, in->types), in->tags);
    c->wait_agent = worker.agent_id != NULL ? dibs__wake_key(worker.agent_id) : 0;
}

/* ---- answering ------------------------------------------------------------------------------- */

static void enc_id(struct jw *w, const char *id)
{
    int64_t number = 0;
    bool plain = id[0] >= '0' && id[0] <= '9' && (id[0] != '0' || id[1] == '\0');
    jw_key(w, "id");
    if (plain && str_to_int(id, &number) && number <= EXACT_INTEGER_MAX)
        jw_int(w, number);
    else
        jw_text(w, id);
}

static void enc_claimed(struct jw *w, const struct dibs_granted *g)
{
    const struct dibs_task *t = &g->task;
    jw_object(w);
    enc_id(w, t->id);
    jw_ktext(w, "task_type", t->type);
    jw_ktext(w, "status", "claimed");
    jw_kraw(w, "params", t->params != NULL ? t->params : "{}");
    jw_kint(w, "priority", t->priority);
    jw_kint(w, "attempts", t->attempts);
    jw_kint(w, "max_attempts", t->max_attempts);
    jw_ktext(w, "worker_id", g->claim.session_id);
    jw_ktime(w, "claimed_at", g->claim.claimed_at_ms);
    jw_ktime(w, "created_at", t->created_at_ms);
    jw_ktext(w, "title", t->title);
    jw_ktext_opt(w, "description", t->description);
    jw_kint(w, "token", g->claim.token);
    jw_ktime(w, "expires_at", g->claim.expires_at_ms);
    jw_ktext(w, "project", t->project);
    jw_kstrings(w, "tags", t->tags);
    jw_kraw_opt(w, "checkpoint", g->claim.checkpoint);
    jw_object_end(w);
}

/* enc_filters: what was asked for, when nothing was found. */
static void enc_filters(struct jw *w, const void *about)
{
    const struct dibs_claim_next *in = about;
    jw_kobject(w, "filters");
    if (in->types.count > 0)
        jw_kstrings(w, "task_types", in->types);
    if (in->max_attempts_remaining.given)
        jw_kint(w, "max_attempts_remaining", in->max_attempts_remaining.value);
    jw_ktext_opt(w, "project", in->project);
    if (in->tags.count > 0)
        jw_kstrings(w, "tags", in->tags);
    jw_object_end(w);
}

/* in_dialect: the field that a refusal of the library is about, by its name here. */
static void in_dialect(struct dibs_error *err)
{
    static const char *const names[][2] = {
        {"sessionId", "worker_id"},
        {"types", "task_types"},
        {"ttlMs", "ttl_ms"},
        {"waitMs", "wait_ms"},
        {"maxAttemptsRemaining", "max_attempts_remaining"},
    };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (!str_eq(err->field, names[i][0]))
            continue;
        char told[sizeof err->message];
        const char *rest = err->message;
        size_t quoted = strlen(names[i][0]) + 2; /* 'ttlMs' is what the sentence begins with */
        if (rest[0] == '\'' && str_starts(rest + 1, names[i][0]) && strlen(rest) > quoted) {
            snprintf(told, sizeof told, "'%s'%.*s", names[i][1], 400, rest + quoted);
            str_fit(err->message, sizeof err->message, told);
        }
        str_fit(err->field, sizeof err->field, names[i][1]);
        return;
    }
}

dibs_status api_claim_next(struct api_ctx *c, const void *input)
{
    const struct dibs_claim_next *in = input;
    struct dibs_grant grant = {0};
    if (c->in_once && in->wait_ms > 0)
        return api_refuse_wait(c, "wait_ms");
    dibs_status s = claim(c, in, &grant);
    if (s == DIBS_NOTHING_TO_CLAIM) {
        c->extras = enc_filters;
        c->about = in;
        wait_for(c, in);
        return error_set(c->err, s, "No pending tasks available");
    }
    if (s != DIBS_OK) {
        in_dialect(c->err);
        return s;
    }
    struct jw *w = api_reply(c);
    jw_key(w, "task");
    enc_claimed(w, &grant.items[0]);
    if (in->count > 0) {
        jw_karray(w, "tasks");
        for (size_t i = 0; i < grant.count; i++)
            enc_claimed(w, &grant.items[i]);
        jw_array_end(w);
    }
    jw_ktext(w, "message", "Task claimed successfully");
    return DIBS_OK;
}
