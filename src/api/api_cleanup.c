/* SPDX-License-Identifier: MIT */
/*
 * api_cleanup.c: all claims at once: what is in flight, the numbers, and the sweeps.
 */
#include "api_internal.h"
#include "base/str.h"

/* ---- in flight ------------------------------------------------------------------------------- */

#define IN struct dibs_in_flight_filter
static const struct field in_flight_fields[] = {
    FIELD("sessionId", ID, session_id, .doc = "Claims of this session"),
    FIELD("project", TEXT, project, .max = WORD_BYTES_MAX, .doc = "Tasks of this project"),
    FIELD("includeExpired", BOOL, include_expired,
          .doc = "Also claims whose deadline is past and that no sweep has ended yet"),
    FIELD("limit", INT, limit, .min = 1, .max = PAGE_MAX,
          .doc = "At most so many, 100 if not given"),
};
#undef IN
const struct api_shape api_in_in_flight =
    SHAPE(struct dibs_in_flight_filter, in_flight_fields, .id_at = SHAPE_NO_ID);

/* tally_sessions: how many of the listed claims each session holds; false when out of memory. */
static bool tally_sessions(dibs_arena *a, const struct dibs_in_flight *list,
                           struct dibs_tally_list *out)
{
    for (size_t i = 0; i < list->count; i++) {
        const char *id = list->items[i].claim.session_id;
        size_t k = 0;
        while (k < out->count && !str_eq(out->items[k].name, id))
            k++;
        if (k == out->count) {
            struct dibs_tally *added =
                arena_push(a, (void **)&out->items, &out->count, sizeof *added);
            if (added == NULL)
                return false;
            added->name = id;
        }
        out->items[k].count++;
    }
    return true;
}

static void enc_flight(struct jw *w, const struct dibs_granted *g)
{
    jw_object(w);
    jw_ktext(w, "taskId", g->task.id);
    jw_kobject(w, "task");
    jw_ktext(w, "title", g->task.title);
    jw_ktext_opt(w, "phase", g->task.phase);
    jw_ktext_opt(w, "type", g->task.type);
    jw_ktext(w, "priority", dibs_priority_word(g->task.priority));
    jw_kint(w, "priorityValue", g->task.priority);
    jw_object_end(w);
    jw_key(w, "claim");
    enc_claim(w, &g->claim);
    jw_object_end(w);
}

dibs_status api_in_flight(struct api_ctx *c, const void *input)
{
    struct dibs_in_flight list = {0};
    struct dibs_tally_list by_session = {0};
    dibs_status s = dibs_in_flight(c->d, c->a, input, &list, c->err);
    if (s != DIBS_OK)
        return s;
    if (!tally_sessions(c->a, &list, &by_session))
        return error_set(c->err, DIBS_OUT_OF_MEMORY, "cannot count the claims: out of memory");
    struct jw *w = api_reply(c);
    jw_karray(w, "inFlight");
    for (size_t i = 0; i < list.count; i++)
        enc_flight(w, &list.items[i]);
    jw_array_end(w);
    jw_kobject(w, "summary");
    jw_kint(w, "total", list.total);
    enc_tallies(w, "bySession", &by_session);
    jw_object_end(w);
    return DIBS_OK;
}

/* ---- stats ----------------------------------------------------------------------------------- */

const struct api_shape api_in_claim_stats = {.id_at = SHAPE_NO_ID};

static void enc_totals(struct jw *w, const struct dibs_stats *stats)
{
    jw_kobject(w, "totals");
    jw_kint(w, "claimed", stats->claimed_ever);
    jw_kint(w, "completed", stats->completed_ever);
    jw_kint(w, "failed", stats->failed_ever);
    jw_kint(w, "expired", stats->expired_ever);
    jw_kint(w, "orphaned", stats->orphaned_ever);
    jw_kint(w, "released", stats->released_ever);
    jw_kint(w, "refused", stats->refused_ever);
    jw_kint(w, "lateResults", stats->late_results_ever);
    jw_object_end(w);
}

dibs_status api_claim_stats(struct api_ctx *c, const void *input)
{
    struct dibs_stats stats = {0};
    (void)input;
    dibs_status s = dibs_stats(c->d, c->a, &stats, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_kobject(w, "stats");
    jw_kint(w, "total", stats.total);
    jw_kint(w, "active", stats.active);
    jw_kint(w, "expiring", stats.expiring);
    jw_kint(w, "stale", stats.stale);
    enc_tallies(w, "byAgentType", &stats.by_agent_type);
    enc_tallies(w, "bySession", &stats.by_session);
    enc_tallies(w, "tasksByStatus", &stats.tasks_by_status);
    enc_totals(w, &stats);
    jw_kint(w, "averageHoldMs", stats.average_hold_ms);
    jw_kint(w, "oldestClaimableMs", stats.oldest_claimable_ms);
    jw_ktime(w, "timestamp", stats.at_ms);
    jw_object_end(w);
    return DIBS_OK;
}

/* ---- cleanup --------------------------------------------------------------------------------- */

enum cleanup { CLEANUP_ALL, EXPIRED, ORPHANED, SESSION, LOCKS, SESSIONS, EVENTS };
static const struct field_word cleanup_words[] = {
    {"all", CLEANUP_ALL}, {"expired", EXPIRED},   {"orphaned", ORPHANED}, {"session", SESSION},
    {"locks", LOCKS},     {"sessions", SESSIONS}, {"events", EVENTS},     {NULL, 0},
};
struct cleanup_in {
    int type;
    bool check_pid;
    const char *session_id, *reason;
};
#define IN struct cleanup_in
static const struct field cleanup_fields[] = {
    FIELD("type", ENUM, type, .words = cleanup_words, .doc = "What to clean; all if not given"),
    FIELD("checkPid", BOOL, check_pid,
          .doc = "orphaned: also free claims of dead processes, and keep those of living ones"),
    FIELD("sessionId", ID, session_id, .doc = "session: whose claims to release"),
    FIELD("reason", TEXT, reason, .max = WORD_BYTES_MAX,
          .doc = "session: why; session_ended if not given"),
};
#undef IN
const struct api_shape api_in_claim_cleanup =
    SHAPE(struct cleanup_in, cleanup_fields, .id_at = SHAPE_NO_ID);

/* check_cleanup: a field that the type would ignore is refused: it was meant to narrow the sweep.
 * */
static dibs_status check_cleanup(struct api_ctx *c, const struct cleanup_in *in)
{
    if (in->type == SESSION && in->session_id == NULL)
        return error_field(c->err, "sessionId", "is required for type 'session'");
    if (in->type != SESSION && in->session_id != NULL)
        return error_field(c->err, "sessionId", "goes with type 'session' only");
    if (in->type != SESSION && in->reason != NULL)
        return error_field(c->err, "reason", "goes with type 'session' only");
    if (in->type != ORPHANED && in->check_pid)
        return error_field(c->err, "checkPid", "goes with type 'orphaned' only");
    return DIBS_OK;
}

static void enc_cleaned_claim(struct jw *w, const struct dibs_cleaned_claim *claim, int type)
{
    jw_object(w);
    jw_ktext_opt(w, "taskId", claim->task_id);
    jw_ktext_opt(w, "resource", claim->resource);
    jw_ktext_opt(w, "kind", claim->kind);
    jw_ktext(w, "sessionId", claim->session_id);
    jw_kint(w, "token", claim->token);
    jw_ktime(w, "claimedAt", claim->claimed_at_ms);
    jw_ktime(w, "expiresAt", claim->expires_at_ms);
    if (type == ORPHANED) {
        jw_ktext_opt(w, "reason", claim->reason);
        jw_kint(w, "staleForMs", claim->stale_for_ms);
    }
    jw_kint(w, "heldForMs", claim->held_ms);
    jw_object_end(w);
}

static dibs_status clean_claims(struct api_ctx *c, const struct cleanup_in *in)
{
    struct dibs_orphan_options options = {.check_process = in->check_pid};
    struct dibs_cleaned cleaned = {0};
    dibs_status s = DIBS_OK;
    if (in->type == EXPIRED)
        s = dibs_cleanup_expired(c->d, c->a, &cleaned, c->err);
    else if (in->type == ORPHANED)
        s = dibs_cleanup_orphaned(c->d, c->a, &options, &cleaned, c->err);
    else if (in->type == LOCKS)
        s = dibs_cleanup_locks(c->d, c->a, &cleaned, c->err);
    else
        s = dibs_release_session_claims(c->d, c->a, in->session_id, in->reason, &cleaned, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_kobject(w, "cleaned");
    jw_kint(w, "count", cleaned.count);
    jw_ktext_opt(w, "sessionId", cleaned.session_id);
    jw_ktext_opt(w, "reason", cleaned.reason);
    jw_karray(w, "claims");
    for (int64_t i = 0; i < cleaned.count; i++)
        enc_cleaned_claim(w, &cleaned.claims[i], in->type);
    jw_array_end(w);
    jw_object_end(w);
    return DIBS_OK;
}

static dibs_status clean_sessions(struct api_ctx *c)
{
    struct dibs_stale_sessions cleaned = {0};
    dibs_status s = dibs_cleanup_sessions(c->d, c->a, &cleaned, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_kobject(w, "cleaned");
    jw_kint(w, "count", cleaned.ended);
    jw_kint(w, "sessionsStale", cleaned.stale);
    jw_kint(w, "sessionsEnded", cleaned.ended);
    jw_object_end(w);
    return DIBS_OK;
}

static dibs_status clean_events(struct api_ctx *c)
{
    int64_t pruned = 0;
    dibs_status s = dibs_prune(c->d, c->a, &pruned, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_kobject(w, "cleaned");
    jw_kint(w, "count", pruned);
    jw_kint(w, "eventsPruned", pruned);
    jw_object_end(w);
    return DIBS_OK;
}

static dibs_status clean_all(struct api_ctx *c)
{
    struct dibs_sweep sweep = {0};
    dibs_status s = dibs_cleanup(c->d, c->a, &sweep, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_kobject(w, "cleaned");
    jw_kint(w, "count", sweep.expired + sweep.orphaned);
    jw_kint(w, "expired", sweep.expired);
    jw_kint(w, "orphaned", sweep.orphaned);
    jw_kint(w, "locks", sweep.locks);
    jw_kint(w, "sessionsStale", sweep.sessions_stale);
    jw_kint(w, "sessionsEnded", sweep.sessions_ended);
    jw_kint(w, "eventsPruned", sweep.events_pruned);
    jw_kint(w, "expiring", sweep.expiring);
    jw_object_end(w);
    return DIBS_OK;
}

dibs_status api_claim_cleanup(struct api_ctx *c, const void *input)
{
    const struct cleanup_in *in = input;
    dibs_status s = check_cleanup(c, in);
    if (s != DIBS_OK)
        return s;
    switch ((enum cleanup)in->type) {
    case CLEANUP_ALL: return clean_all(c);
    case SESSIONS: return clean_sessions(c);
    case EVENTS: return clean_events(c);
    default: return clean_claims(c, in);
    }
}
