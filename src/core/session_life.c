/* SPDX-License-Identifier: MIT */
/*
 * session_life.c: a session's heartbeat, its coming back, its end.
 *
 * One heartbeat renews everything the session holds and tells what changed since the last: claims
 * it lost, tasks that were cancelled under its hands. Each is told once (claim.attention). A
 * session that was silent too long and comes back may resume what it lost, if nobody has taken it
 * since.
 */
#include "core/swarm.h"

/* How far back resume looks: more claims than anybody holds at once. */
#define RESUME_LOOK_BACK 200

static void load_attention(struct tx *tx, const char *session_id, struct claim_rows *out)
{
    struct db_rows *rows =
        db_query(tx->db,
                 SQL("SELECT " CLAIM_COLUMNS
                     " FROM claim c WHERE c.session_id = $1 AND c.attention = 1 ORDER BY c.token"),
                 DB_ARGS(db_t(session_id)));
    dibs__claims_collect(tx, rows, out);
}

static void add_claim(struct tx *tx, struct dibs_claim_list *list, const struct claim_row *c)
{
    struct dibs_claim *claim = dibs__push(tx, &list->items, &list->count, sizeof *claim);
    if (claim)
        dibs__claim_full(tx, c, dibs__claim_task_id(tx, c), claim);
}

/* Ends the lease if its deadline is past; renewing it would be taking back what may be somebody
 * else's by now. */
static void renew_or_end(struct tx *tx, struct claim_row *c)
{
    if (c->ended_at)
        return;
    if (!dibs__claim_is_past(tx, c))
        dibs__claim_extend(tx, c, tx->now + c->ttl);
    else
        dibs__claim_put_back(tx, c, "expired", false, 0);
}

static void tell(struct tx *tx, const struct claim_row *c, struct dibs_session_news *news,
                 size_t *cancelled, const char ***cancelled_ids)
{
    if (!c->ended_at) {
        add_claim(tx, &news->renewed, c);
        return;
    }
    if (str_eq(c->end_reason, "cancelled")) {
        const char **id = dibs__push(tx, cancelled_ids, cancelled, sizeof *id);
        if (id)
            *id = dibs__claim_task_id(tx, c);
    }
    add_claim(tx, &news->lost, c);
    db_exec(tx->db, SQL("UPDATE claim SET attention = 0 WHERE token = $1"),
            DB_ARGS(db_i(c->token)));
}

/* An agent that nobody has made known has no inbox. */
static void count_unread(struct tx *tx, const char *agent_id, struct dibs_session_news *news)
{
    struct agent_row agent = {0};
    struct dibs_error ignored = {0}, *err = tx->err;
    news->unread_messages = news->unread_mentions = -1;
    tx->err = &ignored;
    bool known = agent_id && dibs__agent_load(tx, agent_id, &agent) == DIBS_OK;
    tx->err = err;
    if (!known)
        return;
    news->unread_messages = dibs__inbox_unread(tx, &agent);
    news->unread_mentions = dibs__mentions_unread(tx, agent.id);
}

static dibs_status heartbeat_tx(struct tx *tx, const void *input, void *output)
{
    struct dibs_session_news *news = output;
    struct session_row session = {0};
    struct claim_rows claims = {0};
    dibs_status status = dibs__session_load(tx, input, &session);
    if (status != DIBS_OK)
        return status;
    dibs__session_touch(tx, session.id);
    load_attention(tx, session.id, &claims);
    const char **cancelled_ids = NULL;
    size_t cancelled = 0;
    for (size_t i = 0; i < claims.count && db_ok(tx->db); i++) {
        renew_or_end(tx, &claims.items[i]);
        tell(tx, &claims.items[i], news, &cancelled, &cancelled_ids);
    }
    news->cancel_requested = (struct dibs_strings){.items = cancelled_ids, .count = cancelled};
    count_unread(tx, session.agent_id, news);
    status = dibs__store_status(tx);
    return status == DIBS_OK ? dibs__session_read(tx, session.id, false, &news->session) : status;
}

dibs_status dibs_session_heartbeat(dibs *d, dibs_arena *a, const char *session_id,
                                   struct dibs_session_news *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, heartbeat_tx, session_id, out, sizeof *out);
}

/* ---- resume ---------------------------------------------------------------------------------- */

static bool was_lost(const struct claim_row *c)
{
    static const char *const reasons[] = {"expired", "session_missing", "session_stale",
                                          "process_dead", "session_ended"};
    for (size_t i = 0; i < COUNT_OF(reasons); i++)
        if (str_eq(c->kind, "task") && str_eq(c->end_reason, reasons[i]))
            return true;
    return false;
}

/* Takes the task again unless somebody has taken or finished it since. */
static void resume_one(struct tx *tx, struct session_row *session, const struct claim_row *lost,
                       struct dibs_resumed *out)
{
    struct task_row task = {0};
    struct claim_row claim = {0};
    if (!dibs__task_load_key(tx, lost->task_key, &task))
        return;
    bool untouched = task.last_token == lost->token && task.status == DIBS_TASK_OPEN &&
                     task.generation == lost->generation;
    if (!untouched) {
        add_claim(tx, &out->gone, lost);
        return;
    }
    task.due_at = 0;
    struct claim_grant grant = {.session = session,
                                .kind = "task",
                                .task = &task,
                                .ttl_ms = lost->ttl,
                                .agent_type = lost->agent_type,
                                .metadata = lost->metadata};
    dibs__claim_grant(tx, &grant, &claim);
    session->last_token = claim.token;
    struct dibs_granted *item = dibs__push(tx, &out->taken.items, &out->taken.count, sizeof *item);
    if (!item)
        return;
    dibs__task_full(tx, &task, &item->task);
    dibs__claim_full(tx, &claim, task.id, &item->claim);
}

/* A task that the session lost twice is looked at once, by its newest claim. */
static bool seen_before(const struct claim_rows *seen, int64_t task_key)
{
    for (size_t i = 0; i < seen->count; i++)
        if (seen->items[i].task_key == task_key)
            return true;
    return false;
}

/* What it has again, or sees gone, it has been told by that. All else (cancelled, blocked, locks)
 * is for its next heartbeat. */
static void forget_lost(struct tx *tx, const char *session_id)
{
    struct claim_rows untold = {0};
    load_attention(tx, session_id, &untold);
    for (size_t i = 0; i < untold.count; i++)
        if (untold.items[i].ended_at && was_lost(&untold.items[i]))
            db_exec(tx->db, SQL("UPDATE claim SET attention = 0 WHERE token = $1"),
                    DB_ARGS(db_i(untold.items[i].token)));
}

static dibs_status resume_tx(struct tx *tx, const void *input, void *output)
{
    struct session_row session = {0};
    struct claim_rows lost = {0}, seen = {0};
    dibs_status status = dibs__session_load(tx, input, &session);
    if (status != DIBS_OK)
        return status;
    /* what is past its deadline is lost too, though nobody has looked */
    dibs__expire_due(tx, SWEEP_BATCH_MAX, NULL);
    struct claim_row c = {0};
    int64_t token = session.last_token;
    for (int i = 0; token && i < RESUME_LOOK_BACK && dibs__claim_load(tx, token, &c);
         i++, token = c.before_in_session) {
        bool first = !seen_before(&seen, c.task_key);
        struct claim_row *note = dibs__push(tx, &seen.items, &seen.count, sizeof *note);
        struct claim_row *item =
            first && was_lost(&c) ? dibs__push(tx, &lost.items, &lost.count, sizeof *item) : NULL;
        if (note)
            *note = c;
        if (item)
            *item = c;
    }
    for (size_t i = 0; i < lost.count && db_ok(tx->db); i++)
        resume_one(tx, &session, &lost.items[i], output);
    forget_lost(tx, session.id);
    dibs__session_touch(tx, session.id);
    return dibs__store_status(tx);
}

dibs_status dibs_session_resume(dibs *d, dibs_arena *a, const char *session_id,
                                struct dibs_resumed *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, resume_tx, session_id, out, sizeof *out);
}

/* ---- the end, and release of what a session holds -------------------------------------------- */

/* told: it is the session itself that lets go; else its next heartbeat tells it. */
static void release_claims(struct tx *tx, const char *session_id, const char *reason, bool told,
                           struct dibs_cleaned *out)
{
    struct claim_rows claims = {0};
    load_attention(tx, session_id, &claims);
    for (size_t i = 0; i < claims.count && db_ok(tx->db); i++) {
        struct claim_row *c = &claims.items[i];
        if (c->ended_at || dibs__claim_is_lock(c))
            continue;
        dibs__claim_put_back(tx, c, reason, told, PUT_BACK_GIVEN);
        dibs__cleaned_add(tx, out, c, dibs__claim_task_id(tx, c), c->end_reason, 0);
    }
    out->session_id = session_id;
    out->reason = reason;
    struct event_head head = {
        .type = "claims:session_cleanup", .session_id = session_id, .held_ms = -1};
    struct jw *w = dibs__event_begin(tx, &head);
    jw_ktext(w, "sessionId", session_id);
    jw_ktext(w, "reason", reason);
    jw_kint(w, "count", out->count);
    dibs__event_end(tx);
}

static dibs_status deregister_tx(struct tx *tx, const void *input, void *output)
{
    struct session_row session = {0};
    struct dibs_cleaned cleaned = {0};
    dibs_status status = dibs__session_load(tx, input, &session);
    if (status != DIBS_OK)
        return status;
    release_claims(tx, session.id, "session_deregistered", true, &cleaned);
    int64_t locks = dibs__locks_release_session(tx, session.id, "session_deregistered");
    dibs__session_end(tx, session.id, "session_deregistered");
    struct event_head head = {.type = "session:deregistered",
                              .project = session.project,
                              .session_id = session.id,
                              .held_ms = -1};
    struct jw *w = dibs__event_begin(tx, &head);
    jw_ktext(w, "sessionId", session.id);
    jw_ktext(w, "reason", "session_deregistered");
    jw_kint(w, "claimsReleased", cleaned.count);
    jw_kint(w, "locksReleased", locks);
    dibs__event_end(tx);
    *(struct dibs_deregistered *)output = (struct dibs_deregistered){
        .session_id = session.id, .claims_released = cleaned.count, .locks_released = locks};
    return dibs__store_status(tx);
}

dibs_status dibs_session_deregister(dibs *d, dibs_arena *a, const char *session_id,
                                    struct dibs_deregistered *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, deregister_tx, session_id, out, sizeof *out);
}

struct release_claims {
    const char *session_id, *reason;
};

static dibs_status release_claims_tx(struct tx *tx, const void *input, void *output)
{
    const struct release_claims *in = input;
    const char *reason = in->reason && *in->reason ? in->reason : "session_ended";
    dibs_status status = dibs__check_id(tx->err, "sessionId", in->session_id);
    if (status == DIBS_OK)
        status = dibs__check_text(tx->err, "reason", reason, WORD_BYTES_MAX);
    if (status != DIBS_OK)
        return status;
    release_claims(tx, dibs__strdup(tx, in->session_id), dibs__strdup(tx, reason), false, output);
    return dibs__store_status(tx);
}

dibs_status dibs_release_session_claims(dibs *d, dibs_arena *a, const char *session_id,
                                        const char *reason, struct dibs_cleaned *out,
                                        struct dibs_error *err)
{
    struct release_claims in = {.session_id = session_id, .reason = reason};
    if (!d) {
        *out = (struct dibs_cleaned){.session_id = session_id};
        return DIBS_OK;
    }
    return dibs__write(d, a, err, release_claims_tx, &in, out, sizeof *out);
}
