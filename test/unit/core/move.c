/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/move.c: what people and planners do to a task: block, unblock, cancel, reopen,
 * and offers. What each leads to is in task_state.c; here is what it does besides.
 */
#include "core/core.h"
#include "core_help.h"

static dibs_status move(struct fixture *f, move_call *call, struct dibs_move in)
{
    struct dibs_task out = {0};
    return call(f->d, f->a, &in, &out, &f->err);
}

static struct dibs_session_news heartbeat(struct fixture *f, const char *session)
{
    struct dibs_session_news news = {0};
    assert_ok(f, dibs_session_heartbeat(f->d, f->a, session, &news, &f->err));
    return news;
}

static const struct dibs_event *last_event(struct fixture *f, const char *type)
{
    struct dibs_event_list all = events_of(f, type);
    assert_true(all.count > 0);
    return &all.items[all.count - 1];
}

static void make_pair(struct fixture *f)
{
    make_session(f, "s");
    make_session(f, "r");
    make_task(f, "t");
}

/* A task offered to amy, who has two sessions; bob has one. */
static void make_offer(struct fixture *f)
{
    make_agent_session(f, "amy-1", "amy");
    make_agent_session(f, "amy-2", "amy");
    make_agent_session(f, "bob-1", "bob");
    make_task_as(f, (struct dibs_task_new){.id = "t", .offered_to = "amy"});
}

/* ---- block, unblock -------------------------------------------------------------------------- */

static void test_the_holder_may_block_its_task_and_the_attempt_does_not_count(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t token = claim(f, "t", "s").token;
    world_pass(&f->world, MINUTES(1));
    assert_ok(f, move(f, dibs_task_block,
                      (struct dibs_move){
                          .task_id = "t", .session_id = "s", .reason = "needs a decision"}));
    struct dibs_task t = get_task(f, "t");
    assert_int_equal(t.status, DIBS_TASK_BLOCKED);
    assert_string_equal(t.block_reason, "needs a decision");
    assert_int_equal(t.attempts, 0);
    assert_null(t.claim);
    const struct dibs_event *told = last_event(f, "task:blocked");
    assert_string_equal(event_field(f, told, "reason"), "needs a decision");
    assert_int_equal(event_int(f, told, "token"), token);
    assert_int_equal(event_int(f, told, "heldForMs"), MINUTES(1));
    assert_string_equal(get_history(f, "t").attempts[0].end_reason, "blocked");
}

static void test_another_session_may_not_block_a_held_task_in_its_own_name(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    const char *before = rows_of(f);
    struct dibs_move in = {.task_id = "t", .session_id = "r"};
    assert_refused(f, DIBS_NOT_CLAIM_OWNER, move(f, dibs_task_block, in));
    assert_string_equal(f->err.holder, "s");
    assert_string_equal(rows_of(f), before);
}

static void test_people_may_block_a_held_task_and_its_holder_is_told(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    assert_ok(f, try_move(f, dibs_task_block, "t", NULL));
    assert_string_equal(get_task(f, "t").block_reason, "blocked");
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_heartbeat(f, "t", "s", 0));
    assert_false(f->err.cancel_requested);
    struct dibs_session_news news = heartbeat(f, "s");
    assert_int_equal(news.lost.count, 1);
    assert_string_equal(news.lost.items[0].end_reason, "blocked");
    assert_int_equal(news.cancel_requested.count, 0);
    assert_int_equal(heartbeat(f, "s").lost.count, 0);
}

static void test_blocking_after_the_deadline_blocks_a_task_that_is_free_again(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    world_pass(&f->world, MINUTES(30));
    assert_ok(f, try_move(f, dibs_task_block, "t", NULL));
    assert_status(f, "t", "blocked");
    assert_int_equal(get_task(f, "t").attempts, 1); /* the attempt was lost, not blocked */
    assert_string_equal(get_history(f, "t").attempts[0].end_reason, "expired");
    assert_event_count(f, "task:claim-expired", 1);
}

static void test_a_refused_move_that_found_a_lease_ended_leaves_it_ended(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    claim(f, "t", "s");
    world_pass(&f->world, MINUTES(30));
    assert_refused(f, DIBS_ILLEGAL_TRANSITION, try_move(f, dibs_task_unblock, "t", NULL));
    assert_string_equal(f->err.task_status, "open");
    assert_status(f, "t", "open");
    assert_event_count(f, "task:claim-expired", 1);
}

static void test_an_unblocked_task_goes_where_it_came_from(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    make_task_as(f, (struct dibs_task_new){.id = "a", .assignee = "amy"});
    assert_ok(f, try_move(f, dibs_task_block, "t", NULL));
    assert_ok(f, try_move(f, dibs_task_block, "a", NULL));
    assert_ok(f, try_move(f, dibs_task_unblock, "t", NULL));
    assert_ok(f, try_move(f, dibs_task_unblock, "a", NULL));
    assert_status(f, "t", "open");
    assert_status(f, "a", "assigned");
    assert_null(get_task(f, "t").block_reason);
    assert_event_count(f, "task:unblocked", 2);
    assert_string_equal(claim_any(f, (struct dibs_claim_next){.session_id = "s"}), "t");
}

static void test_an_unblocked_task_still_waits_for_its_dependencies(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    struct dibs_task_new in = {.id = "w"};
    in.depends_on = DIBS_STRINGS("t");
    make_task_as(f, in);
    assert_ok(f, try_move(f, dibs_task_unblock, "w", NULL));
    assert_status(f, "w", "blocked");
    assert_event_count(f, "task:unblocked", 0);
    claim(f, "t", "s");
    assert_ok(f, try_complete(f, "t", "s", 0, NULL));
    assert_status(f, "w", "open");
}

/* ---- cancel ---------------------------------------------------------------------------------- */

static void test_the_holder_of_a_cancelled_task_learns_it_in_its_next_heartbeat(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t token = claim(f, "t", "s").token;
    struct dibs_move in = {.task_id = "t", .reason = "not needed any more"};
    assert_ok(f, move(f, dibs_task_cancel, in));
    assert_status(f, "t", "cancelled");
    assert_string_equal(event_field(f, last_event(f, "task:cancelled"), "reason"),
                        "not needed any more");
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_heartbeat(f, "t", "s", token));
    assert_true(f->err.cancel_requested);
    assert_string_equal(f->err.task_status, "cancelled");
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_progress(f, "t", "s", token, NULL));
    assert_true(f->err.cancel_requested);
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_release(f, "t", "s", token, NULL));
    assert_true(f->err.cancel_requested);
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_heartbeat(f, "t", "r", 0));
    assert_false(f->err.cancel_requested); /* it never was the other's */
}

static void test_a_session_is_asked_once_to_stop_a_cancelled_task(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    make_task(f, "u");
    claim(f, "t", "s");
    claim(f, "u", "s");
    assert_ok(f, try_move(f, dibs_task_cancel, "t", NULL));
    struct dibs_session_news news = heartbeat(f, "s");
    assert_string_equal(words(f, news.cancel_requested), "t");
    assert_int_equal(news.renewed.count, 1);
    assert_string_equal(news.renewed.items[0].task_id, "u");
    news = heartbeat(f, "s");
    assert_int_equal(news.cancel_requested.count, 0);
    assert_int_equal(news.renewed.count, 1);
}

static void test_work_done_on_a_cancelled_task_is_kept(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    int64_t token = claim(f, "t", "s").token;
    assert_ok(f, try_move(f, dibs_task_cancel, "t", NULL));
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_complete(f, "t", "s", token, "\"done\""));
    assert_true(f->err.cancel_requested);
    assert_string_equal(get_history(f, "t").attempts[0].late_result, "\"done\"");
    assert_status(f, "t", "cancelled");
}

static void test_cancelling_twice_is_fine_and_told_once(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    assert_ok(f, try_move(f, dibs_task_cancel, "t", NULL));
    const char *before = rows_of(f);
    assert_ok(f, try_move(f, dibs_task_cancel, "t", NULL));
    assert_string_equal(rows_of(f), before);
    assert_event_count(f, "task:cancelled", 1);
}

static void test_cancelling_ends_a_review_and_an_offer(void **state)
{
    struct fixture *f = *state;
    make_offer(f);
    assert_ok(f, try_review(f, "t", "amy-1"));
    assert_ok(f, try_move(f, dibs_task_cancel, "t", NULL));
    assert_status(f, "t", "cancelled");
    assert_null(get_task(f, "t").offered_to);
    assert_string_equal(words(f, heartbeat(f, "amy-1").cancel_requested), "t");
    assert_refused(f, DIBS_ALREADY_FINISHED, try_move(f, dibs_task_accept, "t", "amy"));
}

/* ---- reopen ---------------------------------------------------------------------------------- */

static void test_a_reopened_task_is_a_new_generation_with_no_attempts_used(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_as(f, (struct dibs_task_new){.id = "t", .max_attempts = DIBS_VALUE(1)});
    int64_t first = claim(f, "t", "s").token;
    struct dibs_report report = {
        .task_id = "t", .session_id = "s", .error = "boom", .result = "[1]"};
    struct dibs_task failed = {0};
    assert_ok(f, dibs_fail(f->d, f->a, &report, &failed, &f->err));
    struct dibs_move in = {.task_id = "t", .reason = "try again"};
    assert_ok(f, move(f, dibs_task_reopen, in));
    struct dibs_task t = get_task(f, "t");
    assert_int_equal(t.status, DIBS_TASK_OPEN);
    assert_int_equal(t.generation, 2);
    assert_int_equal(t.attempts, 0);
    assert_int_equal(t.finished_at_ms, 0);
    assert_null(t.error);
    assert_null(t.result);
    const struct dibs_event *told = last_event(f, "task:reopened");
    assert_string_equal(event_field(f, told, "generation"), "2");
    assert_string_equal(event_field(f, told, "reason"), "try again");
    struct dibs_claim c = claim(f, "t", "s");
    assert_true(c.token > first);
    assert_int_equal(c.attempt, 1);
    assert_int_equal(c.generation, 2);
    assert_int_equal(get_history(f, "t").attempt_count, 2);
    assert_int_equal(get_history(f, "t").attempts[0].generation, 1);
}

static void test_a_reopened_task_belongs_to_nobody(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_as(f, (struct dibs_task_new){.id = "t", .assignee = "amy"});
    assert_ok(f, try_move(f, dibs_task_cancel, "t", NULL));
    assert_ok(f, try_move(f, dibs_task_reopen, "t", NULL));
    assert_null(get_task(f, "t").assignee);
    assert_ok(f, try_claim(f, "t", "s", 0));
}

static void test_a_reopened_task_still_waits_for_its_time_and_its_dependencies(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    make_task_as(f, (struct dibs_task_new){.id = "later", .run_after_ms = now_ms(f) + SECONDS(9)});
    struct dibs_task_new in = {.id = "w"};
    in.depends_on = DIBS_STRINGS("t");
    make_task_as(f, in);
    assert_ok(f, try_move(f, dibs_task_cancel, "later", NULL));
    assert_ok(f, try_move(f, dibs_task_cancel, "w", NULL));
    assert_ok(f, try_move(f, dibs_task_reopen, "later", NULL));
    assert_ok(f, try_move(f, dibs_task_reopen, "w", NULL));
    assert_status(f, "w", "blocked");
    assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, "later", "s", 0));
    world_pass(&f->world, SECONDS(9));
    assert_ok(f, try_claim(f, "later", "s", 0));
}

static void test_tasks_that_need_a_reopened_one_wait_for_it_again(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    static const char *const all[] = {"open", "assigned", "running", "done"};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        make_task_as(f, (struct dibs_task_new){.id = all[i],
                                               .assignee = i == 1 ? "amy" : NULL,
                                               .depends_on = DIBS_STRINGS("t")});
    claim(f, "t", "s");
    assert_ok(f, try_complete(f, "t", "s", 0, NULL));
    claim(f, "running", "r");
    claim(f, "done", "r");
    assert_ok(f, try_complete(f, "done", "r", 0, NULL));
    assert_ok(f, try_move(f, dibs_task_reopen, "t", NULL));
    assert_status(f, "open", "blocked");
    assert_status(f, "assigned", "blocked");
    assert_status(f, "running", "in_progress"); /* what is under way is not taken away */
    assert_status(f, "done", "completed");
    assert_string_equal(event_field(f, last_event(f, "task:blocked"), "reason"),
                        "dependency_reopened");
    assert_ok(f, try_release(f, "running", "r", 0, NULL));
    assert_status(f, "running", "blocked");
    claim(f, "t", "s");
    assert_ok(f, try_complete(f, "t", "s", 0, NULL));
    assert_status(f, "open", "open");
    assert_status(f, "assigned", "assigned");
    assert_status(f, "running", "open");
}

/* ---- offers ---------------------------------------------------------------------------------- */

static void test_an_offered_task_is_nobodys_to_claim(void **state)
{
    struct fixture *f = *state;
    make_offer(f);
    assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, "t", "amy-1", 0));
    assert_string_equal(f->err.message, "task 't' cannot be claimed: it is offered");
    assert_string_equal(claim_any(f, (struct dibs_claim_next){.session_id = "amy-1"}), "");
    assert_ok(f, try_review(f, "t", "amy-1"));
    assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, "t", "amy-1", 0));
    assert_string_equal(claim_any(f, (struct dibs_claim_next){.session_id = "bob-1"}), "");
}

static void test_an_offer_can_be_accepted_from_offered_and_from_reviewing_alike(void **state)
{
    struct fixture *f = *state;
    make_offer(f);
    make_task_as(f, (struct dibs_task_new){.id = "u", .offered_to = "amy"});
    assert_ok(f, try_review(f, "u", "amy-1"));
    static const char *const both[] = {"t", "u"};
    for (size_t i = 0; i < 2; i++) {
        assert_ok(f, try_move(f, dibs_task_accept, both[i], "amy"));
        struct dibs_task t = get_task(f, both[i]);
        assert_int_equal(t.status, DIBS_TASK_ASSIGNED);
        assert_string_equal(t.assignee, "amy");
        assert_null(t.offered_to);
        assert_null(t.claim);
        assert_ok(f, try_claim(f, both[i], "amy-2", 0));
    }
    assert_event_count(f, "task:accepted", 2);
    assert_string_equal(get_history(f, "u").attempts[0].end_reason, "accepted");
}

static void test_an_offer_can_be_rejected_from_offered_and_from_reviewing_alike(void **state)
{
    struct fixture *f = *state;
    make_offer(f);
    make_task_as(f, (struct dibs_task_new){.id = "u", .offered_to = "amy"});
    assert_ok(f, try_review(f, "u", "amy-1"));
    static const char *const both[] = {"t", "u"};
    for (size_t i = 0; i < 2; i++) {
        struct dibs_move in = {.task_id = both[i], .agent_id = "amy", .reason = "no time"};
        assert_ok(f, move(f, dibs_task_reject, in));
        struct dibs_task t = get_task(f, both[i]);
        assert_int_equal(t.status, DIBS_TASK_OPEN);
        assert_string_equal(t.rejection_reason, "no time");
        assert_null(t.offered_to);
        assert_string_equal(event_field(f, last_event(f, "task:rejected"), "reason"), "no time");
        assert_ok(f, try_claim(f, both[i], "bob-1", 0));
    }
}

static void test_only_the_agent_it_is_offered_to_may_answer_an_offer(void **state)
{
    struct fixture *f = *state;
    make_offer(f);
    const char *before = rows_of(f);
    for (int reviewing = 0; reviewing < 2; reviewing++) {
        assert_refused(f, DIBS_ILLEGAL_TRANSITION, try_move(f, dibs_task_accept, "t", "bob"));
        assert_string_equal(f->err.message, "task 't' is offered to agent 'amy'");
        assert_refused(f, DIBS_ILLEGAL_TRANSITION, try_move(f, dibs_task_reject, "t", "bob"));
        assert_string_equal(rows_of(f), before);
        if (!reviewing)
            assert_refused(f, DIBS_ILLEGAL_TRANSITION, try_review(f, "t", "bob-1"));
        assert_ok(f, reviewing ? DIBS_OK : try_review(f, "t", "amy-1"));
        before = rows_of(f);
    }
    assert_string_equal(get_task(f, "t").claim->session_id, "amy-1");
}

static void test_a_review_is_a_lease_and_belongs_to_one_session(void **state)
{
    struct fixture *f = *state;
    make_offer(f);
    struct dibs_move in = {.task_id = "t", .session_id = "amy-1", .ttl_ms = MINUTES(2)};
    assert_ok(f, move(f, dibs_task_review, in));
    struct dibs_task t = get_task(f, "t");
    assert_int_equal(t.status, DIBS_TASK_REVIEWING);
    assert_string_equal(t.claim->session_id, "amy-1");
    assert_int_equal(t.claim->expires_at_ms, now_ms(f) + MINUTES(2));
    assert_int_equal(t.attempts, 0);
    assert_int_equal(t.claim->attempt, 0);
    assert_refused(f, DIBS_ILLEGAL_TRANSITION, try_review(f, "t", "amy-2"));
    assert_int_equal(heartbeat(f, "amy-1").renewed.count, 1);
    world_pass(&f->world, MINUTES(2) - 1);
    assert_refused(f, DIBS_ILLEGAL_TRANSITION, try_review(f, "t", "amy-2"));
    world_pass(&f->world, 1);
    assert_ok(f, try_review(f, "t", "amy-2")); /* the lease had ended: offered again */
    assert_string_equal(get_task(f, "t").claim->session_id, "amy-2");
    assert_int_equal(heartbeat(f, "amy-1").lost.count, 1);
}

static void test_an_offer_can_be_answered_after_the_review_ran_out(void **state)
{
    struct fixture *f = *state;
    make_offer(f);
    assert_ok(f, try_review(f, "t", "amy-1"));
    world_pass(&f->world, MINUTES(30));
    assert_ok(f, try_move(f, dibs_task_accept, "t", "amy"));
    assert_status(f, "t", "assigned");
    assert_string_equal(get_history(f, "t").attempts[0].end_reason, "expired");
}

static void test_a_review_is_refused_for_these_reasons(void **state)
{
    struct fixture *f = *state;
    make_offer(f);
    make_session(f, "s");
    make_task(f, "open");
    assert_refused(f, DIBS_SESSION_NOT_FOUND, try_review(f, "t", "nobody"));
    assert_refused(f, DIBS_INVALID_REQUEST, try_review(f, "t", NULL));
    assert_string_equal(f->err.field, "sessionId");
    assert_refused(f, DIBS_ILLEGAL_TRANSITION, try_review(f, "t", "s"));
    assert_refused(f, DIBS_ILLEGAL_TRANSITION, try_review(f, "open", "amy-1"));
    struct dibs_move in = {.task_id = "t", .session_id = "amy-1", .ttl_ms = 1};
    assert_refused(f, DIBS_INVALID_REQUEST, move(f, dibs_task_review, in));
    assert_string_equal(f->err.field, "ttlMs");
}

static void test_a_new_offer_forgets_the_old_rejection(void **state)
{
    struct fixture *f = *state;
    make_offer(f);
    struct dibs_move in = {.task_id = "t", .agent_id = "amy", .reason = "no time"};
    assert_ok(f, move(f, dibs_task_reject, in));
    assert_ok(f, try_move(f, dibs_task_offer, "t", "bob"));
    assert_null(get_task(f, "t").rejection_reason);
    assert_string_equal(get_task(f, "t").offered_to, "bob");
    assert_string_equal(event_field(f, last_event(f, "task:offered"), "offeredTo"), "bob");
}

static void test_a_rejected_task_still_waits_for_its_time(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    int64_t due = now_ms(f) + SECONDS(9);
    make_task_as(f, (struct dibs_task_new){.id = "t", .offered_to = "amy", .run_after_ms = due});
    assert_ok(f, try_move(f, dibs_task_reject, "t", "amy"));
    assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, "t", "s", 0));
    world_pass(&f->world, SECONDS(9));
    assert_ok(f, try_claim(f, "t", "s", 0));
}

static void test_assigning_takes_a_task_out_of_review(void **state)
{
    struct fixture *f = *state;
    make_offer(f);
    assert_ok(f, try_review(f, "t", "amy-1"));
    assert_ok(f, try_move(f, dibs_task_assign, "t", "bob"));
    struct dibs_task t = get_task(f, "t");
    assert_string_equal(t.assignee, "bob");
    assert_null(t.offered_to);
    struct dibs_session_news news = heartbeat(f, "amy-1");
    assert_int_equal(news.lost.count, 1);
    assert_string_equal(news.lost.items[0].end_reason, "assigned");
    assert_refused(f, DIBS_ILLEGAL_TRANSITION, try_move(f, dibs_task_accept, "t", "amy"));
    assert_string_equal(claim_any(f, (struct dibs_claim_next){.session_id = "bob-1"}), "t");
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void test_moves_are_checked_before_anything_happens(void **state)
{
    struct fixture *f = *state;
    make_pair(f);
    static move_call *const with_agent[] = {dibs_task_offer, dibs_task_accept, dibs_task_reject,
                                            dibs_task_assign};
    static move_call *const all[] = {dibs_task_block,  dibs_task_unblock, dibs_task_cancel,
                                     dibs_task_reopen, dibs_task_offer,   dibs_task_accept,
                                     dibs_task_reject, dibs_task_assign};
    const char *before = rows_of(f);
    for (size_t i = 0; i < COUNT_OF(with_agent); i++) {
        assert_refused(f, DIBS_INVALID_REQUEST, try_move(f, with_agent[i], "t", NULL));
        assert_string_equal(f->err.field, "agentId");
        assert_refused(f, DIBS_INVALID_REQUEST, try_move(f, with_agent[i], "t", "a b"));
    }
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        assert_refused(f, DIBS_TASK_NOT_FOUND, try_move(f, all[i], "x", "amy"));
        assert_refused(f, DIBS_INVALID_REQUEST, try_move(f, all[i], NULL, "amy"));
        struct dibs_move in = {
            .task_id = "t", .agent_id = "amy", .reason = repeated(f, 'x', MESSAGE_BYTES_MAX + 1)};
        assert_refused(f, DIBS_INVALID_REQUEST, move(f, all[i], in));
        assert_string_equal(f->err.field, "reason");
    }
    assert_string_equal(rows_of(f), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_the_holder_may_block_its_task_and_the_attempt_does_not_count),
        STORE_TEST(test_another_session_may_not_block_a_held_task_in_its_own_name),
        STORE_TEST(test_people_may_block_a_held_task_and_its_holder_is_told),
        STORE_TEST(test_blocking_after_the_deadline_blocks_a_task_that_is_free_again),
        STORE_TEST(test_a_refused_move_that_found_a_lease_ended_leaves_it_ended),
        STORE_TEST(test_an_unblocked_task_goes_where_it_came_from),
        STORE_TEST(test_an_unblocked_task_still_waits_for_its_dependencies),
        STORE_TEST(test_the_holder_of_a_cancelled_task_learns_it_in_its_next_heartbeat),
        STORE_TEST(test_a_session_is_asked_once_to_stop_a_cancelled_task),
        STORE_TEST(test_work_done_on_a_cancelled_task_is_kept),
        STORE_TEST(test_cancelling_twice_is_fine_and_told_once),
        STORE_TEST(test_cancelling_ends_a_review_and_an_offer),
        STORE_TEST(test_a_reopened_task_is_a_new_generation_with_no_attempts_used),
        STORE_TEST(test_a_reopened_task_belongs_to_nobody),
        STORE_TEST(test_a_reopened_task_still_waits_for_its_time_and_its_dependencies),
        STORE_TEST(test_tasks_that_need_a_reopened_one_wait_for_it_again),
        STORE_TEST(test_an_offered_task_is_nobodys_to_claim),
        STORE_TEST(test_an_offer_can_be_accepted_from_offered_and_from_reviewing_alike),
        STORE_TEST(test_an_offer_can_be_rejected_from_offered_and_from_reviewing_alike),
        STORE_TEST(test_only_the_agent_it_is_offered_to_may_answer_an_offer),
        STORE_TEST(test_a_review_is_a_lease_and_belongs_to_one_session),
        STORE_TEST(test_an_offer_can_be_answered_after_the_review_ran_out),
        STORE_TEST(test_a_review_is_refused_for_these_reasons),
        STORE_TEST(test_a_new_offer_forgets_the_old_rejection),
        STORE_TEST(test_a_rejected_task_still_waits_for_its_time),
        STORE_TEST(test_assigning_takes_a_task_out_of_review),
        STORE_TEST(test_moves_are_checked_before_anything_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
