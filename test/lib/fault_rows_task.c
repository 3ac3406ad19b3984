/* SPDX-License-Identifier: MIT */
/*
 * fault_rows_task.c: the rows of fault_rows.h about tasks, claims and the journal.
 *
 * CALL makes the function of a row: the operation with one input, on the scene, with an output that
 * must stay as it was unless the answer is DIBS_OK. ASK is the same without an input.
 */
#include <stdlib.h>
#include <string.h>

#include "fault_calls.h"
#include "fault_rows.h"

/* ---- tasks ----------------------------------------------------------------------------------- */

static dibs_status create(struct scene *s, dibs_arena *a)
{
    struct dibs_task_list out = {0};
    const struct dibs_task_new in[] = {
        {.id = "n1", .title = "first", .tags = DIBS_STRINGS("x", "y"), .params = "[1,{\"a\":2}]"},
        {.title = "second", .depends_on = DIBS_STRINGS("n1", "held"), .description = "long"},
        {.id = "n3", .title = "third", .dedupe_key = "k", .run_after_ms = 9999999999999},
        {.title = "fourth", .dedupe_key = "k"},
        {.title = "fifth", .assignee = "ann", .metadata = "{\"m\":true}"},
    };
    return dibs_task_create(s->d, a, in, 5, &out, &s->err);
}

static dibs_status create_cycle(struct scene *s, dibs_arena *a)
{
    struct dibs_task_list out = {0};
    const struct dibs_task_new in[] = {
        {.id = "c1", .title = "a", .depends_on = DIBS_STRINGS("c2")},
        {.id = "c2", .title = "b", .depends_on = DIBS_STRINGS("c1")}};
    return dibs_task_create(s->d, a, in, 2, &out, &s->err);
}

static dibs_status update(struct scene *s, dibs_arena *a)
{
    struct dibs_task out = {0};
    struct dibs_strings tags = DIBS_STRINGS("blue"), needs = DIBS_STRINGS("held", "held-too");
    struct dibs_task_edit in = {.id = "open",
                                .title = "new",
                                .params = "{}",
                                .description = "",
                                .priority = DIBS_VALUE(90),
                                .tags = &tags,
                                .depends_on = &needs};
    return dibs_task_update(s->d, a, &in, &out, &s->err);
}

CALL(get, dibs_task_get, struct dibs_task, "held")
CALL(list, dibs_task_list, struct dibs_task_list,
     &(struct dibs_task_filter){.tag = "red", .limit = 5})
CALL(list_all, dibs_task_list, struct dibs_task_list, &(struct dibs_task_filter){.limit = 4})
CALL(events, dibs_events, struct dibs_event_list,
     &(struct dibs_event_filter){.types = DIBS_STRINGS("task:claimed"), .task_id = "held"})
CALL(history, dibs_task_history, struct dibs_history, "held")
CALL(in_flight, dibs_in_flight, struct dibs_in_flight,
     &(struct dibs_in_flight_filter){.include_expired = true})
ASK(stats, dibs_stats, struct dibs_stats)
ASK(scores, dibs_scores, struct dibs_score_list)

/* ---- claims ---------------------------------------------------------------------------------- */

#define TAKE(task, session)                                                                        \
    (&(struct dibs_claim_take){.task_id = task, .session_id = session, .metadata = "{\"a\":1}"})
CALL(take, dibs_claim_take, struct dibs_claim, TAKE("open", "bob-1"))
CALL(take_own, dibs_claim_take, struct dibs_claim, TAKE("held", "ann-1"))
CALL(take_held, dibs_claim_take, struct dibs_claim, TAKE("held", "bob-1"))
CALL(take_lapsed, dibs_claim_take, struct dibs_claim, TAKE("lapsed", "ann-1"))
CALL(next, dibs_claim_next, struct dibs_grant,
     &(struct dibs_claim_next){.session_id = "bob-1", .count = 3})
CALL(next_chosen, dibs_claim_next, struct dibs_grant,
     &(struct dibs_claim_next){.session_id = "ann-1",
                               .types = DIBS_STRINGS("work", "play"),
                               .tags = DIBS_STRINGS("red"),
                               .sort = DIBS_SORT_CREATED_AT,
                               .order = DIBS_ORDER_DESC})
CALL(next_none, dibs_claim_next, struct dibs_grant,
     &(struct dibs_claim_next){.session_id = "bob-1", .types = DIBS_STRINGS("play")})
CALL(heartbeat, dibs_claim_heartbeat, struct dibs_claim,
     &(struct dibs_heartbeat){.task_id = "held", .session_id = "ann-1"})
CALL(heartbeat_late, dibs_claim_heartbeat, struct dibs_claim,
     &(struct dibs_heartbeat){.task_id = "lapsed", .session_id = "bob-1"})
CALL(progress, dibs_claim_progress, struct dibs_claim,
     &(struct dibs_progress){
         .task_id = "held", .session_id = "ann-1", .message = "on", .checkpoint = "[1]"})
#define REPORT(task, session)                                                                      \
    (&(struct dibs_report){                                                                        \
        .task_id = task, .session_id = session, .result = "{\"r\":1}", .error = "no"})
CALL(complete, dibs_complete, struct dibs_task, REPORT("held", "ann-1"))
CALL(complete_late, dibs_complete, struct dibs_task, REPORT("lapsed", "bob-1"))
CALL(complete_other, dibs_complete, struct dibs_task, REPORT("done", "ann-1"))
CALL(failing, dibs_fail, struct dibs_task, REPORT("held", "ann-1"))
CALL(fail_for_good, dibs_fail, struct dibs_task,
     &(struct dibs_report){.task_id = "held", .session_id = "ann-1", .permanent = true})
CALL(release, dibs_claim_release, struct dibs_released,
     &(struct dibs_release){.task_id = "held", .session_id = "ann-1", .reason = "lunch"})

/* ---- moves ----------------------------------------------------------------------------------- */

#define MOVE(task) (&(struct dibs_move){.task_id = task, .reason = "why"})
#define MOVE_BY(task, agent) (&(struct dibs_move){.task_id = task, .agent_id = agent})
CALL(block, dibs_task_block, struct dibs_task, MOVE("held"))
CALL(unblock, dibs_task_unblock, struct dibs_task, MOVE("blocked"))
CALL(cancel, dibs_task_cancel, struct dibs_task, MOVE("held"))
CALL(reopen, dibs_task_reopen, struct dibs_task, MOVE("done"))
CALL(offer, dibs_task_offer, struct dibs_task, MOVE_BY("open", "bob"))
CALL(review, dibs_task_review, struct dibs_task,
     &(struct dibs_move){.task_id = "offered", .session_id = "ann-1"})
CALL(accept, dibs_task_accept, struct dibs_task, MOVE_BY("reviewing", "ann"))
CALL(reject, dibs_task_reject, struct dibs_task, MOVE_BY("reviewing", "ann"))
CALL(assign, dibs_task_assign, struct dibs_task, MOVE_BY("offered", "bob"))

const struct fault_row fault_task_rows[] = {
    {"dibs_task_create", "of five", create, DIBS_OK, false, NULL},
    {"dibs_task_create", "of a cycle", create_cycle, DIBS_DEPENDENCY_CYCLE, false, NULL},
    {"dibs_task_update", NULL, update, DIBS_OK, false, NULL},
    {"dibs_task_get", NULL, get, DIBS_OK, false, NULL},
    {"dibs_task_list", "by tag", list, DIBS_OK, false, NULL},
    {"dibs_task_list", "of a page", list_all, DIBS_OK, false, NULL},
    {"dibs_events", NULL, events, DIBS_OK, false, NULL},
    {"dibs_task_history", NULL, history, DIBS_OK, false, NULL},
    {"dibs_in_flight", NULL, in_flight, DIBS_OK, false, NULL},
    {"dibs_stats", NULL, stats, DIBS_OK, false, NULL},
    {"dibs_scores", NULL, scores, DIBS_OK, false, NULL},
    {"dibs_claim_take", NULL, take, DIBS_OK, false, NULL},
    {"dibs_claim_take", "by its holder", take_own, DIBS_OK, false, NULL},
    {"dibs_claim_take", "of what another holds", take_held, DIBS_TASK_ALREADY_CLAIMED, false, NULL},
    {"dibs_claim_take", "of what lapsed", take_lapsed, DIBS_OK, false, NULL},
    {"dibs_claim_next", "of three", next, DIBS_OK, false, NULL},
    {"dibs_claim_next", "by type and tag", next_chosen, DIBS_OK, false, NULL},
    {"dibs_claim_next", "of nothing", next_none, DIBS_NOTHING_TO_CLAIM, false, NULL},
    {"dibs_claim_heartbeat", NULL, heartbeat, DIBS_OK, false, NULL},
    {"dibs_claim_heartbeat", "that is late", heartbeat_late, DIBS_CLAIM_EXPIRED, false, NULL},
    {"dibs_claim_progress", NULL, progress, DIBS_OK, false, NULL},
    {"dibs_complete", NULL, complete, DIBS_OK, false, NULL},
    {"dibs_complete", "that is late", complete_late, DIBS_OK, false, NULL},
    {"dibs_complete", "of what is done", complete_other, DIBS_ALREADY_FINISHED, false, NULL},
    {"dibs_fail", NULL, failing, DIBS_OK, false, NULL},
    {"dibs_fail", "for good", fail_for_good, DIBS_OK, false, NULL},
    {"dibs_claim_release", NULL, release, DIBS_OK, false, NULL},
    {"dibs_task_block", NULL, block, DIBS_OK, false, NULL},
    {"dibs_task_unblock", NULL, unblock, DIBS_OK, false, NULL},
    {"dibs_task_cancel", NULL, cancel, DIBS_OK, false, NULL},
    {"dibs_task_reopen", NULL, reopen, DIBS_OK, false, NULL},
    {"dibs_task_offer", NULL, offer, DIBS_OK, false, NULL},
    {"dibs_task_review", NULL, review, DIBS_OK, false, NULL},
    {"dibs_task_accept", NULL, accept, DIBS_OK, false, NULL},
    {"dibs_task_reject", NULL, reject, DIBS_OK, false, NULL},
    {"dibs_task_assign", NULL, assign, DIBS_OK, false, NULL},
    {0},
};
