/* SPDX-License-Identifier: MIT */
/*
 * sim_task.c: the operations on tasks of a simulated life: each chooses what to ask, asks the store
 * and the model, and compares. See sim.h.
 */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const results[] = {NULL, "1", "{\"ok\":true}"};
static const char *const checkpoints[] = {NULL, "{\"at\":1}", "[2]"};

/* An operation on the task has succeeded: from now on the store knows of a lapse before it. */
static void looked_at(struct sim *s, int task, dibs_status status)
{
    if (status == DIBS_OK && task != NOBODY)
        s->m.tasks[task].unseen = false;
}

static void check_task(struct sim *s, int task, dibs_status status, const struct dibs_task *out)
{
    looked_at(s, task, status);
    if (status == DIBS_OK && out->status != s->m.tasks[task].status)
        sim_fail(s, "answered a task that is %s", dibs_task_status_name(out->status));
}

/* ---- create ---------------------------------------------------------------------------------- */

static struct m_new choose_new(struct sim *s, char id[24])
{
    static const int64_t priorities[] = {0, 25, 50, 50, 75, 100};
    static const int64_t attempts[] = {0, 1, 2, 3, 3, 5};
    static const char *const keys[] = {NULL, NULL, NULL, NULL, "k1", "k2"};
    struct m_new in = {.project = SIM_PICK(s, sim_projects),
                       .type = sim_percent(s, 80) ? SIM_PICK(s, sim_types) : NULL,
                       .dedupe = SIM_PICK(s, keys),
                       .tags = (unsigned)(sim_below(s, 8) & sim_below(s, 8)),
                       .priority = SIM_PICK(s, priorities),
                       .max_attempts = SIM_PICK(s, attempts),
                       .claim_timeout = sim_percent(s, 20) ? MINUTES(3) : 0};
    if (sim_percent(s, 15))
        in.run_after = model_store_time(&s->m) + MINUTES(sim_below(s, 20) - 4);
    if (sim_percent(s, 15))
        in.assignee = sim_agents[1 + sim_below(s, 2)];
    else if (sim_percent(s, 15))
        in.offered_to = sim_agents[1 + sim_below(s, 2)];
    for (int i = 0; i < 2 && s->m.task_count; i++)
        if (sim_percent(s, 30))
            in.needs |= (uint64_t)1 << sim_below(s, s->m.task_count);
    in.needs_unknown = sim_percent(s, 2);
    if (sim_percent(s, 70)) {
        snprintf(id, 24, "t-%d", sim_percent(s, 95) ? s->m.task_count : 0);
        in.id = id;
    }
    return in;
}

static void op_create(struct sim *s)
{
    char id[24] = "";
    const char *tags[3], *needs[MODEL_TASKS_MAX + 1];
    size_t need_count = 0;
    int at = NOBODY;
    struct dibs_task_list out = {0};
    if (s->m.task_count == MODEL_TASKS_MAX)
        return;
    struct m_new in = choose_new(s, id);
    for (int i = 0; i < s->m.task_count; i++)
        if (in.needs >> i & 1)
            needs[need_count++] = s->m.tasks[i].id;
    if (in.needs_unknown)
        needs[need_count++] = "nowhere";
    sim_begin(s, "create %s in %s, type %s, dedupe %s, needs %" PRIx64 ", after %" PRId64,
              in.id ? in.id : "(number)", in.project, in.type ? in.type : "-",
              in.dedupe ? in.dedupe : "-", in.needs, in.run_after);
    struct dibs_task_new new = {.id = in.id,
                                .project = in.project,
                                .title = "a task",
                                .type = in.type,
                                .dedupe_key = in.dedupe,
                                .tags = sim_tags(in.tags, tags),
                                .priority = DIBS_VALUE(in.priority),
                                .max_attempts = DIBS_VALUE(in.max_attempts),
                                .assignee = in.assignee,
                                .offered_to = in.offered_to,
                                .run_after_ms = in.run_after,
                                .claim_timeout_ms = in.claim_timeout,
                                .depends_on = {.items = needs, .count = need_count}};
    dibs_status answered = dibs_task_create(s->d, s->a, &new, 1, &out, &s->err);
    int count = s->m.task_count;
    dibs_status expected = model_create(&s->m, &in, &at);
    sim_answer(s, expected, answered);
    if (answered != DIBS_OK)
        return;
    if (out.count != 1 || out.items[0].deduplicated != (count == s->m.task_count))
        sim_fail(s, "created another task than it should");
    if (!in.id && at == count)
        snprintf(s->m.tasks[at].id, sizeof s->m.tasks[at].id, "%s", out.items[0].id);
    if (strcmp(out.items[0].id, s->m.tasks[at].id) != 0)
        sim_fail(s, "answered task '%s', not '%s'", out.items[0].id, s->m.tasks[at].id);
}

static void op_update(struct sim *s)
{
    int task = sim_task(s);
    int64_t priority = sim_below(s, 103) - 1;
    struct dibs_task out = {0};
    sim_begin(s, "update %s, priority %" PRId64, sim_id(s, task), priority);
    struct dibs_task_edit in = {.id = sim_id(s, task), .priority = DIBS_VALUE(priority)};
    dibs_status answered = dibs_task_update(s->d, s->a, &in, &out, &s->err);
    bool bad = priority < 0 || priority > 100;
    dibs_status expected = task == NOBODY ? DIBS_TASK_NOT_FOUND
                           : bad          ? DIBS_INVALID_REQUEST
                                          : DIBS_OK;
    sim_answer(s, expected, answered);
    if (answered == DIBS_OK)
        s->m.tasks[task].priority = priority;
}

/* ---- claiming -------------------------------------------------------------------------------- */

static void op_take(struct sim *s)
{
    static const unsigned wanted[] = {1u << DIBS_TASK_OPEN, 1u << DIBS_TASK_ASSIGNED,
                                      1u << DIBS_TASK_IN_PROGRESS};
    int task = sim_percent(s, 70) ? sim_task_in(s, SIM_PICK(s, wanted)) : sim_task(s);
    int session = sim_live_session(s);
    int64_t ttl = SIM_PICK(s, sim_ttls);
    struct dibs_claim out = {0};
    sim_begin(s, "claim %s by %s for %" PRId64, sim_id(s, task), s->m.sessions[session].id, ttl);
    struct dibs_claim_take in = {
        .task_id = sim_id(s, task), .session_id = s->m.sessions[session].id, .ttl_ms = ttl};
    dibs_status answered = dibs_claim_take(s->d, s->a, &in, &out, &s->err);
    int before = s->m.claim_count;
    dibs_status expected = model_take(&s->m, task, session, ttl);
    sim_answer(s, expected, answered);
    looked_at(s, task, answered);
    if (answered == DIBS_OK && s->m.claim_count > before)
        sim_adopt_token(s, &s->m.claims[before], out.token);
    if (answered == DIBS_OK && out.extended != (s->m.claim_count == before))
        sim_fail(s, "says %s", out.extended ? "extended" : "not extended");
    if (answered != DIBS_TASK_ALREADY_CLAIMED)
        return;
    const struct m_claim *c = m_live(&s->m, &s->m.tasks[task]);
    if (strcmp(s->err.holder, s->m.sessions[c->session].id) != 0 ||
        s->err.remaining_ms != c->expires - s->m.now)
        sim_fail(s, "names %s for %" PRId64 " ms", s->err.holder, s->err.remaining_ms);
}

static struct m_next choose_next(struct sim *s)
{
    struct m_next in = {.session = sim_live_session(s),
                        .project = sim_percent(s, 20) ? SIM_PICK(s, sim_projects) : NULL,
                        .type_count = sim_percent(s, 60) ? 0 : (size_t)(1 + sim_below(s, 3)),
                        .tags = sim_percent(s, 25) ? (unsigned)sim_below(s, 8) : 0,
                        .sort = (enum dibs_sort)sim_below(s, 3),
                        .order = (enum dibs_order)sim_below(s, 3),
                        .ttl = SIM_PICK(s, sim_ttls),
                        .count = sim_percent(s, 80) ? 0 : 2 + sim_below(s, 3)};
    for (size_t i = 0; i < in.type_count; i++)
        in.types[i] = SIM_PICK(s, sim_types);
    if (sim_percent(s, 20))
        in.spare = DIBS_VALUE(sim_below(s, 3));
    return in;
}

/* Each task that was given must be the best there was at that moment; in random order, any. */
static void check_granted(struct sim *s, const struct m_next *in, const struct dibs_granted *item)
{
    int task = model_task_at(&s->m, item->task.id);
    int best = model_next_best(&s->m, in);
    bool fits = task != NOBODY && model_next_fits(&s->m, in, &s->m.tasks[task]);
    if (!fits || (in->sort != DIBS_SORT_RANDOM && task != best))
        sim_fail(s, "gave '%s', not '%s'", item->task.id, sim_id(s, best));
    int claim = s->m.claim_count;
    model_next_grant(&s->m, in, task);
    sim_adopt_token(s, &s->m.claims[claim], item->claim.token);
}

static void op_next(struct sim *s)
{
    struct m_next in = choose_next(s);
    const char *tags[3];
    struct dibs_grant out = {0};
    sim_begin(s, "claim-next by %s, project %s, %zu types %s, tags %x, sort %d order %d, %" PRId64,
              s->m.sessions[in.session].id, in.project ? in.project : "-", in.type_count,
              in.type_count ? in.types[0] : "", in.tags, in.sort, in.order, in.count);
    struct dibs_claim_next next = {.session_id = s->m.sessions[in.session].id,
                                   .project = in.project,
                                   .types = {.items = in.types, .count = in.type_count},
                                   .tags = sim_tags(in.tags, tags),
                                   .max_attempts_remaining = in.spare,
                                   .sort = in.sort,
                                   .order = in.order,
                                   .ttl_ms = in.ttl,
                                   .count = in.count};
    dibs_status answered = dibs_claim_next(s->d, s->a, &next, &out, &s->err);
    dibs_status expected = model_next_check(&s->m, &in);
    bool any = expected == DIBS_OK && model_next_best(&s->m, &in) != NOBODY;
    if (expected == DIBS_OK && !any)
        expected = DIBS_NOTHING_TO_CLAIM;
    sim_answer(s, expected, answered);
    if (answered == DIBS_NOTHING_TO_CLAIM)
        m_heard(&s->m, in.session);
    if (answered != DIBS_OK)
        return;
    for (size_t i = 0; i < out.count; i++)
        check_granted(s, &in, &out.items[i]);
    size_t wanted = in.count ? (size_t)in.count : 1;
    if (out.count > wanted || (out.count < wanted && model_next_best(&s->m, &in) != NOBODY))
        sim_fail(s, "gave %zu of %zu tasks", out.count, wanted);
}

/* ---- the holder ------------------------------------------------------------------------------ */

/* Of a review that ran out, "expired" and "not claimed" are both true. */
static dibs_status settle_review(struct sim *s, int task, dibs_status expected,
                                 dibs_status answered)
{
    const struct m_claim *c = task == NOBODY ? NULL : m_claim_of(&s->m, &s->m.tasks[task]);
    bool either = c && c->kind == M_REVIEW && expected == DIBS_CLAIM_EXPIRED &&
                  answered == DIBS_TASK_NOT_CLAIMED;
    return either ? answered : expected;
}

static void op_heartbeat(struct sim *s)
{
    int task, session;
    int64_t token, extend = SIM_PICK(s, sim_ttls);
    struct dibs_claim out = {0};
    sim_holder(s, &task, &session, &token);
    sim_begin(s, "heartbeat %s by %s, token %" PRId64 ", %" PRId64, sim_id(s, task),
              s->m.sessions[session].id, token, extend);
    struct dibs_heartbeat in = {.task_id = sim_id(s, task),
                                .session_id = s->m.sessions[session].id,
                                .token = token,
                                .extend_ms = extend};
    dibs_status answered = dibs_claim_heartbeat(s->d, s->a, &in, &out, &s->err);
    dibs_status expected = model_heartbeat(&s->m, task, session, token, extend);
    sim_answer(s, settle_review(s, task, expected, answered), answered);
}

static void op_progress(struct sim *s)
{
    int task, session;
    int64_t token;
    const char *checkpoint = SIM_PICK(s, checkpoints);
    struct dibs_claim out = {0};
    sim_holder(s, &task, &session, &token);
    sim_begin(s, "progress %s by %s, token %" PRId64 ", checkpoint %s", sim_id(s, task),
              s->m.sessions[session].id, token, checkpoint ? checkpoint : "-");
    struct dibs_progress in = {.task_id = sim_id(s, task),
                               .session_id = s->m.sessions[session].id,
                               .token = token,
                               .percent = DIBS_VALUE(sim_below(s, 101)),
                               .checkpoint = checkpoint};
    dibs_status answered = dibs_claim_progress(s->d, s->a, &in, &out, &s->err);
    dibs_status expected = model_progress(&s->m, task, session, token, checkpoint);
    sim_answer(s, settle_review(s, task, expected, answered), answered);
}

static void op_complete(struct sim *s)
{
    int task, session;
    int64_t token;
    const char *result = SIM_PICK(s, results);
    struct dibs_task out = {0};
    sim_holder(s, &task, &session, &token);
    sim_begin(s, "complete %s by %s, token %" PRId64 ", result %s", sim_id(s, task),
              s->m.sessions[session].id, token, result ? result : "-");
    struct dibs_report in = {.task_id = sim_id(s, task),
                             .session_id = s->m.sessions[session].id,
                             .token = token,
                             .result = result};
    dibs_status answered = dibs_complete(s->d, s->a, &in, &out, &s->err);
    dibs_status expected = model_complete(&s->m, task, session, token, result);
    sim_answer(s, settle_review(s, task, expected, answered), answered);
    check_task(s, task, answered, &out);
}

static void op_fail(struct sim *s)
{
    static const char *const errors[] = {NULL, "no network", "disk full"};
    int task, session;
    int64_t token;
    bool permanent = sim_percent(s, 15);
    struct dibs_task out = {0};
    sim_holder(s, &task, &session, &token);
    const char *error = SIM_PICK(s, errors);
    const char *result = sim_percent(s, 20) ? SIM_PICK(s, results) : NULL;
    sim_begin(s, "fail %s by %s, token %" PRId64 ", error %s, result %s%s", sim_id(s, task),
              s->m.sessions[session].id, token, error ? error : "-", result ? result : "-",
              permanent ? ", for good" : "");
    struct dibs_report in = {.task_id = sim_id(s, task),
                             .session_id = s->m.sessions[session].id,
                             .token = token,
                             .error = error,
                             .result = result,
                             .permanent = permanent};
    dibs_status answered = dibs_fail(s->d, s->a, &in, &out, &s->err);
    dibs_status expected =
        model_fail(&s->m, task, session, &(struct m_failure){token, error, result, permanent});
    sim_answer(s, settle_review(s, task, expected, answered), answered);
    check_task(s, task, answered, &out);
}

static void op_release(struct sim *s)
{
    static const char *const reasons[] = {NULL, "manual", "tired", "completed", "failed"};
    int task, session;
    int64_t token;
    const char *reason = SIM_PICK(s, reasons);
    struct dibs_released out = {0};
    sim_holder(s, &task, &session, &token);
    sim_begin(s, "release %s by %s, token %" PRId64 ", %s", sim_id(s, task),
              s->m.sessions[session].id, token, reason ? reason : "-");
    struct dibs_release in = {.task_id = sim_id(s, task),
                              .session_id = s->m.sessions[session].id,
                              .token = token,
                              .reason = reason};
    dibs_status answered = dibs_claim_release(s->d, s->a, &in, &out, &s->err);
    dibs_status expected = model_release_claim(&s->m, task, session, token, reason);
    sim_answer(s, settle_review(s, task, expected, answered), answered);
    check_task(s, task, answered, &out.task);
}

const struct sim_row sim_task_ops[] = {{12, op_create, false},   {3, op_update, false},
                                       {14, op_take, false},     {18, op_next, false},
                                       {6, op_heartbeat, false}, {4, op_progress, false},
                                       {10, op_complete, false}, {8, op_fail, false},
                                       {5, op_release, false},   {0, NULL, false}};
