/* SPDX-License-Identifier: MIT */
/*
 * inbox_answer.c: what becomes of a message: read, answered, made a task, or given back.
 *
 *  1. Only the holder answers while somebody holds it. While nobody does, whoever comes first.
 *  2. The lease of the answerer has ended and nobody took the message since: welcome, for the work
 *     is done. Somebody took it: refused.
 *  3. A message is answered once. The same answer again is DIBS_OK and changes nothing; another is
 *     DIBS_ALREADY_ANSWERED.
 *  4. The answer, the task it became and the reply on its way to the source are one transaction.
 */
#include "core/inbox.h"

/* what is done to a message */
struct deed {
    enum dibs_inbox_status to;
    const char *event, *end; /* the event; why the claim ends */
};
static const struct deed deed_read = {DIBS_INBOX_READ, "inbox:read", "read"};
static const struct deed deed_respond = {DIBS_INBOX_RESPONDED, "inbox:responded", "responded"};
static const struct deed deed_delegate = {DIBS_INBOX_DELEGATED, "inbox:delegated", "delegated"};
static const struct deed deed_release = {DIBS_INBOX_UNREAD, "inbox:released", "released"};

/* ---- who may --------------------------------------------------------------------------------- */

static dibs_status refuse_not_holder(struct tx *tx, const struct message_row *m,
                                     const struct claim_row *held)
{
    int64_t remaining = held->expires_at - tx->now;
    dibs__refuse(tx, DIBS_NOT_CLAIM_OWNER, "message '%s' is held by session '%s'", m->id,
                 held->session_id);
    str_fit(tx->err->holder, sizeof tx->err->holder, held->session_id);
    tx->err->holder_since_ms = held->claimed_at;
    tx->err->remaining_ms = remaining > 0 ? remaining : 0;
    return DIBS_NOT_CLAIM_OWNER;
}

/* Nobody holds it. `last`: the claim that was on it last. */
static dibs_status check_free(struct tx *tx, const struct dibs_inbox_answer *in,
                              const struct claim_row *last)
{
    struct session_row session = {0};
    bool was_mine = last->token && str_eq(last->session_id, in->session_id);
    if (!in->session_id || was_mine)
        return DIBS_OK;
    return dibs__session_load(tx, in->session_id, &session);
}

/* Whether the answer may be given now. *claim is the claim it is given under: live, or ended and
 * the newest, or none (token 0). */
static dibs_status check_holder(struct tx *tx, const struct dibs_inbox_answer *in,
                                const struct message_row *m, struct claim_row *claim)
{
    bool ever = dibs__claim_load(tx, m->token, claim);
    bool live = ever && !claim->ended_at;
    if (live && !str_eq(claim->session_id, in->session_id))
        return refuse_not_holder(tx, m, claim);
    if (in->token && in->token != m->token)
        return dibs__refuse(tx, DIBS_STALE_TOKEN,
                            "token %" PRId64 " is not that of the newest claim on message '%s'",
                            in->token, m->id);
    dibs_status status = live ? DIBS_OK : check_free(tx, in, claim);
    if (!live && !str_eq(claim->session_id, in->session_id))
        *claim = (struct claim_row){.session_id = in->session_id};
    return status;
}

/* ---- once ------------------------------------------------------------------------------------ */

/* A task that was made for the message without an id is known by what it says. */
static bool same_task(struct tx *tx, const struct message_row *m,
                      const struct dibs_inbox_answer *in)
{
    struct task_row row = {0};
    struct dibs_task task = {0};
    if (!dibs__task_load_key(tx, m->task_key, &row))
        return false;
    if (in->task_id)
        return str_eq(in->task_id, row.id);
    dibs__task_full(tx, &row, &task);
    return (!in->task->id || str_eq(in->task->id, row.id)) && str_eq(in->task->title, task.title) &&
           str_eq(in->task->type, task.type) && str_eq(in->task->description, task.description) &&
           str_eq(in->task->params, task.params);
}

static bool says_the_same(struct tx *tx, const struct message_row *m, const struct deed *deed,
                          const struct dibs_inbox_answer *in)
{
    if (m->status != deed->to)
        return false;
    if (deed == &deed_respond)
        return str_eq(m->response, in->response);
    return deed != &deed_delegate || same_task(tx, m, in);
}

static bool is_answered(const struct message_row *m)
{
    return m->status != DIBS_INBOX_UNREAD && m->status != DIBS_INBOX_PROCESSING;
}

/* ---- doing it -------------------------------------------------------------------------------- */

/* The task that the message becomes: the one that is named, or a new one in the message's
 * project. */
static dibs_status find_task(struct tx *tx, const struct message_row *m,
                             const struct dibs_inbox_answer *in, struct task_row *out)
{
    struct dibs_task_list made = {0};
    if (in->task_id)
        return dibs__task_load(tx, in->task_id, out);
    struct dibs_task_new wanted = *in->task;
    if (!wanted.project || !*wanted.project)
        wanted.project = m->project;
    dibs_status status = dibs_task_create(tx->d, tx->a, &wanted, 1, &made, tx->err);
    return status == DIBS_OK ? dibs__task_load(tx, made.items[0].id, out) : status;
}

static void finish(struct tx *tx, const struct dibs_inbox_answer *in, const struct deed *deed,
                   struct message_row *m, struct claim_row *claim, const struct task_row *task)
{
    bool live = claim->token && !claim->ended_at;
    if (live)
        dibs__claim_close(tx, claim, deed->end, true);
    m->response = deed == &deed_respond ? in->response : NULL;
    m->task_key = task->key;
    dibs__inbox_save(tx, m, deed->to);
    if (in->session_id)
        dibs__session_touch(tx, in->session_id);
    struct jw *w = dibs__inbox_event(tx, deed->event, m, claim->token ? claim : NULL,
                                     live ? dibs__held_ms(tx, claim) : -1);
    if (!claim->token)
        jw_ktext_opt(w, "sessionId", in->session_id);
    jw_ktext_opt(w, "responseText", m->response);
    jw_ktext_opt(w, "taskId", task->id);
    if (deed == &deed_release)
        jw_ktext(w, "reason", deed->end);
    if (claim->token && !live)
        jw_kbool(w, "late", true);
    dibs__event_end(tx);
}

static dibs_status check_answer(struct tx *tx, const struct dibs_inbox_answer *in,
                                const struct deed *deed)
{
    dibs_status status = DIBS_OK;
    if (in->session_id)
        status = dibs__check_id(tx->err, "sessionId", in->session_id);
    if (status == DIBS_OK && deed == &deed_respond)
        status = dibs__check_required(tx->err, "text", in->response, DESCRIPTION_BYTES_MAX);
    if (status == DIBS_OK && deed == &deed_delegate && !in->task_id == !in->task)
        status =
            error_field(tx->err, in->task ? "taskId" : "task",
                        in->task ? "cannot be given together with task" : "is required, or taskId");
    if (status == DIBS_OK && in->task_id)
        status = dibs__check_id(tx->err, "taskId", in->task_id);
    return status;
}

/* Loads the message. A lease past its deadline is over, whoever comes. */
static dibs_status load_now(struct tx *tx, const char *id, struct message_row *m)
{
    struct claim_row held = {0};
    dibs_status status = dibs__inbox_load(tx, id, m);
    if (status != DIBS_OK || !dibs__inbox_claim_of(tx, m, &held) || !dibs__claim_is_past(tx, &held))
        return status;
    dibs__claim_put_back(tx, &held, "expired", false, 0);
    tx->keep = true;
    return dibs__inbox_load(tx, id, m);
}

static dibs_status answer(struct tx *tx, const struct dibs_inbox_answer *in,
                          const struct deed *deed, struct dibs_message *out)
{
    struct message_row m = {0};
    struct claim_row claim = {0};
    struct task_row task = {0};
    dibs_status status = check_answer(tx, in, deed);
    if (status == DIBS_OK)
        status = load_now(tx, in->id, &m);
    if (status != DIBS_OK)
        return status;
    if (says_the_same(tx, &m, deed, in)) {
        dibs__inbox_full(tx, &m, out);
        return dibs__store_status(tx);
    }
    if (is_answered(&m))
        return dibs__refuse(tx, DIBS_ALREADY_ANSWERED, "message '%s' is %s already", m.id,
                            dibs_inbox_status_name(m.status));
    status = check_holder(tx, in, &m, &claim);
    if (status == DIBS_OK && deed == &deed_delegate)
        status = find_task(tx, &m, in, &task);
    if (status != DIBS_OK)
        return status;
    finish(tx, in, deed, &m, &claim, &task);
    if (deed == &deed_respond)
        dibs__outgoing_add(tx, m.key, m.source, m.channel, m.thread, in->response);
    if (deed == &deed_release)
        dibs__inbox_wake(tx, &m);
    status = dibs__inbox_load(tx, m.id, &m); /* the texts of the answer, in the caller's arena */
    if (status == DIBS_OK)
        dibs__inbox_full(tx, &m, out);
    return status == DIBS_OK ? dibs__store_status(tx) : status;
}

static dibs_status read_tx(struct tx *tx, const void *input, void *output)
{
    return answer(tx, input, &deed_read, output);
}

static dibs_status respond_tx(struct tx *tx, const void *input, void *output)
{
    return answer(tx, input, &deed_respond, output);
}

static dibs_status delegate_tx(struct tx *tx, const void *input, void *output)
{
    return answer(tx, input, &deed_delegate, output);
}

static dibs_status release_tx(struct tx *tx, const void *input, void *output)
{
    return answer(tx, input, &deed_release, output);
}

dibs_status dibs_inbox_read(dibs *d, dibs_arena *a, const struct dibs_inbox_answer *in,
                            struct dibs_message *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, read_tx, in, out, sizeof *out);
}

dibs_status dibs_inbox_respond(dibs *d, dibs_arena *a, const struct dibs_inbox_answer *in,
                               struct dibs_message *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, respond_tx, in, out, sizeof *out);
}

dibs_status dibs_inbox_delegate(dibs *d, dibs_arena *a, const struct dibs_inbox_answer *in,
                                struct dibs_message *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, delegate_tx, in, out, sizeof *out);
}

dibs_status dibs_inbox_release(dibs *d, dibs_arena *a, const struct dibs_inbox_answer *in,
                               struct dibs_message *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, release_tx, in, out, sizeof *out);
}
