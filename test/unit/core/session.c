/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/session.c: registering, the same id again, and what a session looks like to
 * others: one by one and in lists.
 */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct dibs_session enrol(struct fixture *f, struct dibs_session_new in)
{
    struct dibs_session out = {0};
    assert_ok(f, dibs_session_register(f->d, f->a, &in, &out, &f->err));
    return out;
}

static void assert_not_enrolled(struct fixture *f, struct dibs_session_new in, const char *field)
{
    struct dibs_session out = {.pid = 77};
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_session_register(f->d, f->a, &in, &out, &f->err));
    assert_string_equal(f->err.field, field);
    assert_int_equal(out.pid, 77); /* outputs are written only on success */
    assert_int_equal(probe_int(f, "SELECT count(*) FROM session"), 0);
    assert_int_equal(events_of(f, NULL).count, 0);
}

static struct dibs_session_list list(struct fixture *f, struct dibs_session_filter in)
{
    struct dibs_session_list out = {0};
    assert_ok(f, dibs_session_list(f->d, f->a, &in, &out, &f->err));
    return out;
}

static void complete(struct fixture *f, const char *task, const char *session)
{
    struct dibs_task done = {0};
    struct dibs_report report = {.task_id = task, .session_id = session};
    assert_ok(f, dibs_complete(f->d, f->a, &report, &done, &f->err));
}

static void end(struct fixture *f, const char *session)
{
    struct dibs_deregistered gone = {0};
    assert_ok(f, dibs_session_deregister(f->d, f->a, session, &gone, &f->err));
}

static const char *long_text(size_t bytes)
{
    static char text[512 * 1024];
    memset(text, 'x', bytes);
    text[bytes] = '\0';
    return text;
}

/* ---- registering ----------------------------------------------------------------------------- */

static void test_generated_ids_count_up_and_step_over_chosen_ones(void **state)
{
    struct fixture *f = *state;
    enrol(f, (struct dibs_session_new){.id = "2"});
    assert_string_equal(enrol(f, (struct dibs_session_new){0}).id, "1");
    assert_string_equal(enrol(f, (struct dibs_session_new){0}).id, "3");
    end(f, "3");
    assert_string_equal(enrol(f, (struct dibs_session_new){0}).id, "4"); /* never given twice */
}

static void test_a_chosen_id_is_kept(void **state)
{
    struct fixture *f = *state;
    char id[129];
    memset(id, 'i', 128);
    id[128] = '\0';
    assert_string_equal(enrol(f, (struct dibs_session_new){.id = id}).id, id);
    assert_string_equal(enrol(f, (struct dibs_session_new){.id = "A.b_c:d-9"}).id, "A.b_c:d-9");
}

static void test_bad_ids_and_words_that_paths_use_are_refused(void **state)
{
    struct fixture *f = *state;
    const char *bad[] = {"", "two words", "a/b", "\xc3\xa9", long_text(129), "summary", "Summary"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_not_enrolled(f, (struct dibs_session_new){.id = bad[i]}, "id");
}

static void test_every_bad_field_is_refused_by_name(void **state)
{
    struct fixture *f = *state;
    assert_not_enrolled(f, (struct dibs_session_new){.project = long_text(129)}, "project");
    assert_not_enrolled(f, (struct dibs_session_new){.agent_type = "\xff"}, "agentType");
    assert_not_enrolled(f, (struct dibs_session_new){.agent_id = "not an id"}, "agentId");
    assert_not_enrolled(f, (struct dibs_session_new){.agent_id = ""}, "agentId");
    assert_not_enrolled(f, (struct dibs_session_new){.agent_id = "scores"}, "agentId");
    assert_not_enrolled(f, (struct dibs_session_new){.host = long_text(129)}, "host");
    assert_not_enrolled(f, (struct dibs_session_new){.pid = -1}, "pid");
    assert_not_enrolled(f, (struct dibs_session_new){.pid = 1LL << 31}, "pid");
    assert_not_enrolled(f, (struct dibs_session_new){.metadata = "{\"a\":"}, "metadata");
}

static void test_a_new_session_is_described(void **state)
{
    struct fixture *f = *state;
    struct dibs_session s =
        enrol(f, (struct dibs_session_new){
                     .id = "s", .agent_type = "cli", .agent_id = "anna", .metadata = "{\"a\":1}"});
    assert_string_equal(s.project, "default");
    assert_string_equal(s.agent_type, "cli");
    assert_string_equal(s.agent_id, "anna");
    assert_string_equal(s.host, "testhost");
    assert_string_equal(s.metadata, "{\"a\":1}");
    assert_int_equal(s.pid, 0);
    assert_null(s.process_start);
    assert_int_equal(s.incarnation, 1);
    assert_int_equal(s.status, DIBS_SESSION_ACTIVE);
    assert_int_equal(s.registered_at_ms, f->world.wall_ms);
    assert_int_equal(s.heartbeat_at_ms, f->world.wall_ms);
    assert_int_equal(s.ended_at_ms, 0);
    assert_null(s.current);
    assert_int_equal(s.claims_total + s.claims_completed + s.claims_live + s.locks_live, 0);
}

static void test_a_process_is_recorded_with_host_and_start_time(void **state)
{
    struct fixture *f = *state;
    world_start_process(&f->world, 4711);
    struct dibs_session s = enrol(f, (struct dibs_session_new){.id = "s", .pid = 4711});
    assert_int_equal(s.pid, 4711);
    assert_string_equal(s.host, "testhost");
    assert_string_equal(s.process_start, f->world.processes[0].start);
    /* on another host, or gone already, there is no start time to read */
    s = enrol(f, (struct dibs_session_new){.id = "far", .pid = 4711, .host = "elsewhere"});
    assert_string_equal(s.host, "elsewhere");
    assert_null(s.process_start);
    s = enrol(f, (struct dibs_session_new){.id = "late", .pid = 4712});
    assert_null(s.process_start);
}

static void test_registration_is_an_event_that_can_rebuild_the_session(void **state)
{
    struct fixture *f = *state;
    world_start_process(&f->world, 4711);
    enrol(f, (struct dibs_session_new){.id = "s",
                                       .project = "p",
                                       .agent_type = "cli",
                                       .agent_id = "anna",
                                       .pid = 4711,
                                       .metadata = "[1]"});
    struct dibs_event_list events = events_of(f, "session:registered");
    assert_int_equal(events.count, 1);
    const struct dibs_event *e = &events.items[0];
    assert_string_equal(e->session_id, "s");
    assert_string_equal(e->project, "p");
    assert_string_equal(event_field(f, e, "sessionId"), "s");
    assert_string_equal(event_field(f, e, "incarnation"), "1");
    assert_string_equal(event_field(f, e, "agentType"), "cli");
    assert_string_equal(event_field(f, e, "agentId"), "anna");
    assert_string_equal(event_field(f, e, "pid"), "4711");
    assert_string_equal(event_field(f, e, "host"), "testhost");
    assert_string_equal(event_field(f, e, "processStart"), f->world.processes[0].start);
    assert_string_equal(event_field(f, e, "metadata"), "[1]");
}

static dibs_status op_register(struct fixture *f)
{
    struct dibs_session out = {0};
    return dibs_session_register(f->d, f->a, &(struct dibs_session_new){.id = "s"}, &out, &f->err);
}

static void test_a_failing_store_registers_nothing(void **state)
{
    struct fixture *f = *state;
    assert_true(probe_fail_each(f, op_register) > 4);
    assert_int_equal(get_session(f, "s").incarnation, 1);
    assert_true(probe_fail_each(f, op_register) > 4);
    assert_int_equal(get_session(f, "s").incarnation, 2);
}

/* ---- the same id again ----------------------------------------------------------------------- */

static void test_registering_again_keeps_claims_and_locks(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim lock = {0}, renewed = {0};
    make_session(f, "s");
    make_task(f, "a");
    make_task(f, "b");
    struct dibs_claim held = claim(f, "a", "s");
    struct dibs_lock_take take = {.resource = "r", .session_id = "s"};
    assert_ok(f, dibs_lock_take(f->d, f->a, &take, &lock, &f->err));
    struct dibs_session again = enrol(f, (struct dibs_session_new){.id = "s"});
    assert_int_equal(again.incarnation, 2);
    assert_int_equal(again.claims_live, 1);
    assert_int_equal(again.locks_live, 1);
    assert_string_equal(again.current->task.id, "a");
    assert_int_equal(again.current->claim.token, held.token);
    assert_int_equal(again.current->claim.incarnation, 1); /* who took it stays on record */
    struct dibs_heartbeat hb = {.task_id = "a", .session_id = "s", .token = held.token};
    assert_ok(f, dibs_claim_heartbeat(f->d, f->a, &hb, &renewed, &f->err));
    struct dibs_lock_ref ref = {.resource = "r", .session_id = "s", .token = lock.token};
    assert_ok(f, dibs_lock_heartbeat(f->d, f->a, &ref, &renewed, &f->err));
    assert_int_equal(claim(f, "b", "s").incarnation, 2);
    assert_int_equal(get_session(f, "s").claims_total, 2);
}

static void test_registering_again_keeps_what_is_not_given_but_not_the_process(void **state)
{
    struct fixture *f = *state;
    world_start_process(&f->world, 1);
    world_start_process(&f->world, 2);
    enrol(f, (struct dibs_session_new){.id = "s",
                                       .project = "p",
                                       .agent_type = "cli",
                                       .agent_id = "anna",
                                       .pid = 1,
                                       .metadata = "{}"});
    world_pass(&f->world, 5000);
    struct dibs_session s = enrol(f, (struct dibs_session_new){.id = "s", .pid = 2});
    assert_string_equal(s.project, "p");
    assert_string_equal(s.agent_type, "cli");
    assert_string_equal(s.agent_id, "anna");
    assert_string_equal(s.metadata, "{}");
    assert_int_equal(s.pid, 2);
    assert_string_equal(s.process_start, f->world.processes[1].start);
    assert_int_equal(s.registered_at_ms, f->world.wall_ms);
    s = enrol(f, (struct dibs_session_new){.id = "s", .project = "q", .agent_type = "web"});
    assert_string_equal(s.project, "q");
    assert_string_equal(s.agent_type, "web");
    assert_int_equal(s.pid, 0);
    assert_null(s.process_start);
    assert_int_equal(s.incarnation, 3);
}

static void test_an_ended_session_registered_again_lives(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    end(f, "s");
    struct dibs_session s = enrol(f, (struct dibs_session_new){.id = "s"});
    assert_int_equal(s.status, DIBS_SESSION_ACTIVE);
    assert_int_equal(s.incarnation, 2);
    assert_int_equal(s.ended_at_ms, 0);
    assert_null(s.end_reason);
}

static void test_a_new_incarnation_is_not_handed_a_lock_the_old_one_waited_for(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim lock = {0};
    make_session(f, "holder");
    make_session(f, "s");
    struct dibs_lock_take take = {.resource = "r", .session_id = "holder"};
    assert_ok(f, dibs_lock_take(f->d, f->a, &take, &lock, &f->err));
    /* the process died while it waited: its ticket is still there */
    plant(f, "INSERT INTO lock_wait VALUES (1, 'r', 's', 0, 60000, 0, 9e18)");
    enrol(f, (struct dibs_session_new){.id = "s"});
    struct dibs_lock_ref ref = {.resource = "r", .session_id = "holder"};
    assert_ok(f, dibs_lock_release(f->d, f->a, &ref, &lock, &f->err));
    assert_int_equal(get_session(f, "s").locks_live, 0);
}

/* ---- looking at sessions --------------------------------------------------------------------- */

static void test_a_session_nobody_registered_is_not_found(void **state)
{
    struct fixture *f = *state;
    struct dibs_session out = {0};
    assert_refused(f, DIBS_SESSION_NOT_FOUND, dibs_session_get(f->d, f->a, "ghost", &out, &f->err));
    assert_string_equal(f->err.message, "there is no session 'ghost'; register it first");
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_session_get(f->d, f->a, NULL, &out, &f->err));
    assert_string_equal(f->err.field, "sessionId");
}

static void test_an_ended_session_can_still_be_looked_at(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    world_pass(&f->world, 1000);
    end(f, "s");
    struct dibs_session s = get_session(f, "s");
    assert_int_equal(s.status, DIBS_SESSION_ENDED);
    assert_int_equal(s.ended_at_ms, f->world.wall_ms);
    assert_string_equal(s.end_reason, "session_deregistered");
}

static void test_the_current_task_is_the_newest_claim(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim lock = {0};
    make_session(f, "s");
    make_task(f, "a");
    make_task(f, "b");
    claim(f, "b", "s");
    world_pass(&f->world, 1000);
    struct dibs_claim newest = claim(f, "a", "s");
    struct dibs_lock_take take = {.resource = "r", .session_id = "s"};
    assert_ok(f, dibs_lock_take(f->d, f->a, &take, &lock, &f->err)); /* a lock is no task */
    struct dibs_session s = get_session(f, "s");
    assert_int_equal(s.claims_live, 2);
    assert_int_equal(s.locks_live, 1);
    assert_string_equal(s.current->task.id, "a");
    assert_int_equal(s.current->claim.token, newest.token);
    complete(f, "a", "s");
    assert_string_equal(get_session(f, "s").current->task.id, "b");
    complete(f, "b", "s");
    assert_null(get_session(f, "s").current);
}

static void test_a_claim_past_its_deadline_shows_as_expired_until_somebody_ends_it(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "a");
    claim(f, "a", "s");
    world_pass(&f->world, MINUTES(30));
    struct dibs_session s = get_session(f, "s");
    assert_int_equal(s.current->claim.health, DIBS_HEALTH_EXPIRED);
    assert_int_equal(s.current->claim.remaining_ms, 0);
    struct dibs_cleaned cleaned = {0};
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    s = get_session(f, "s");
    assert_null(s.current);
    assert_string_equal(s.history.items[0].end_reason, "expired");
}

static void test_history_is_the_last_ten_ended_claims_with_reason_and_duration(void **state)
{
    struct fixture *f = *state;
    struct dibs_released released = {0};
    make_session(f, "s");
    for (int i = 0; i < 12; i++) {
        char id[16];
        snprintf(id, sizeof id, "t%d", i);
        make_task(f, id);
        claim(f, id, "s");
        world_pass(&f->world, (i + 1) * 1000);
        if (i < 11)
            complete(f, id, "s");
    }
    struct dibs_release give_back = {.task_id = "t11", .session_id = "s", .reason = "lunch"};
    assert_ok(f, dibs_claim_release(f->d, f->a, &give_back, &released, &f->err));
    make_task(f, "under-way");
    claim(f, "under-way", "s");
    struct dibs_session s = get_session(f, "s");
    assert_int_equal(s.history.count, 10);
    assert_string_equal(s.history.items[0].task_id, "t11");
    assert_string_equal(s.history.items[0].end_reason, "lunch");
    assert_int_equal(s.history.items[0].held_ms, 12000);
    assert_string_equal(s.history.items[1].task_id, "t10");
    assert_string_equal(s.history.items[1].end_reason, "completed");
    assert_int_equal(s.history.items[1].held_ms, 11000);
    assert_string_equal(s.history.items[9].task_id, "t2");
    assert_int_equal(s.claims_total, 13);
    assert_int_equal(s.claims_completed, 11);
    assert_int_equal(list(f, (struct dibs_session_filter){0}).items[0].history.count, 0);
}

static void test_history_goes_on_across_incarnations(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "a");
    claim(f, "a", "s");
    end(f, "s");
    make_session(f, "s");
    struct dibs_session s = get_session(f, "s");
    assert_int_equal(s.history.count, 1);
    assert_string_equal(s.history.items[0].end_reason, "session_deregistered");
    assert_int_equal(s.history.items[0].incarnation, 1);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void test_lists_are_in_the_order_of_registration_and_leave_out_the_ended(void **state)
{
    struct fixture *f = *state;
    make_session(f, "c");
    make_session(f, "a");
    make_session(f, "b");
    end(f, "a");
    struct dibs_session_list all = list(f, (struct dibs_session_filter){0});
    assert_int_equal(all.count, 2);
    assert_string_equal(all.items[0].id, "c");
    assert_string_equal(all.items[1].id, "b");
    assert_null(all.next_cursor);
    all = list(f, (struct dibs_session_filter){.include_ended = true});
    assert_int_equal(all.count, 3);
    assert_string_equal(all.items[1].id, "a");
    assert_int_equal(all.items[1].status, DIBS_SESSION_ENDED);
}

static void test_pages_and_project_together_leave_nobody_out(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 9; i++) {
        char id[16];
        snprintf(id, sizeof id, "s%d", i);
        enrol(f, (struct dibs_session_new){.id = id, .project = i % 2 ? "odd" : "even"});
    }
    struct dibs_session_filter filter = {.project = "even", .limit = 2};
    char seen[64] = "";
    int pages = 0;
    do {
        struct dibs_session_list page = list(f, filter);
        for (size_t i = 0; i < page.count; i++)
            strncat(seen, page.items[i].id, sizeof seen - strlen(seen) - 1);
        filter.cursor = page.next_cursor;
        pages++;
    } while (filter.cursor);
    assert_string_equal(seen, "s0s2s4s6s8");
    assert_int_equal(pages, 3);
    assert_int_equal(list(f, (struct dibs_session_filter){.project = "none"}).count, 0);
}

static void test_bad_cursors_and_limits_are_refused(void **state)
{
    struct fixture *f = *state;
    struct dibs_session_list out = {0};
    struct dibs_session_filter filter = {.cursor = "x"};
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_session_list(f->d, f->a, &filter, &out, &f->err));
    assert_string_equal(f->err.field, "cursor");
    filter = (struct dibs_session_filter){.limit = 1001};
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_session_list(f->d, f->a, &filter, &out, &f->err));
    assert_string_equal(f->err.field, "limit");
    filter.limit = -1;
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_session_list(f->d, f->a, &filter, &out, &f->err));
}

static void test_a_list_shows_what_each_session_works_on(void **state)
{
    struct fixture *f = *state;
    make_session(f, "busy");
    make_session(f, "idle");
    make_task(f, "a");
    claim(f, "a", "busy");
    struct dibs_session_list all = list(f, (struct dibs_session_filter){0});
    assert_string_equal(all.items[0].current->task.id, "a");
    assert_int_equal(all.items[0].claims_live, 1);
    assert_null(all.items[1].current);
}

static void test_status_words_are_those_of_the_domain(void **state)
{
    (void)state;
    assert_string_equal(dibs_session_status_name(DIBS_SESSION_ACTIVE), "active");
    assert_string_equal(dibs_session_status_name(DIBS_SESSION_STALE), "stale");
    assert_string_equal(dibs_session_status_name(DIBS_SESSION_ENDED), "ended");
    assert_string_equal(dibs_session_status_name((enum dibs_session_status)99), "unknown");
}

static void test_the_health_of_a_session_is_that_of_its_worst_claim_or_its_silence(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_session(f, "quiet");
    make_task(f, "a");
    assert_int_equal(get_session(f, "s").health, DIBS_HEALTH_HEALTHY);
    struct dibs_claim out = {0};
    struct dibs_claim_take in = {.task_id = "a", .session_id = "s", .ttl_ms = MINUTES(4)};
    assert_ok(f, dibs_claim_take(f->d, f->a, &in, &out, &f->err));
    assert_int_equal(get_session(f, "s").health, DIBS_HEALTH_WARNING);
    world_pass(&f->world, MINUTES(4));
    assert_int_equal(get_session(f, "s").health, DIBS_HEALTH_EXPIRED);
    assert_int_equal(get_session(f, "quiet").health, DIBS_HEALTH_HEALTHY);
    world_pass(&f->world, MINUTES(1) + 1);
    assert_int_equal(get_session(f, "quiet").health, DIBS_HEALTH_STALE);
    assert_int_equal(get_session(f, "quiet").status, DIBS_SESSION_STALE);
}

static void test_a_silent_session_is_stale_before_any_sweep_has_seen_it(void **state)
{
    struct fixture *f = *state;
    struct dibs_session_list list = {0};
    struct dibs_summary summary = {0};
    struct dibs_session_filter all = {.limit = 0};
    make_session(f, "s");
    world_pass(&f->world, MINUTES(5));
    assert_int_equal(get_session(f, "s").status, DIBS_SESSION_ACTIVE);
    world_pass(&f->world, 1);
    make_session(f, "t");
    assert_int_equal(get_session(f, "s").status, DIBS_SESSION_STALE);
    assert_ok(f, dibs_session_list(f->d, f->a, &all, &list, &f->err));
    assert_int_equal(list.items[0].status, DIBS_SESSION_STALE);
    assert_int_equal(list.items[1].status, DIBS_SESSION_ACTIVE);
    assert_ok(f, dibs_session_summary(f->d, f->a, NULL, &summary, &f->err));
    assert_int_equal(summary.stale_sessions, 1);
    assert_int_equal(summary.active_sessions, 1);
    assert_int_equal(events_of(f, "session:stale").count, 0); /* looking is not finding */
    struct dibs_session_news news = {0};
    assert_ok(f, dibs_session_heartbeat(f->d, f->a, "s", &news, &f->err));
    assert_int_equal(news.session.status, DIBS_SESSION_ACTIVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_generated_ids_count_up_and_step_over_chosen_ones),
        STORE_TEST(test_a_chosen_id_is_kept),
        STORE_TEST(test_bad_ids_and_words_that_paths_use_are_refused),
        STORE_TEST(test_every_bad_field_is_refused_by_name),
        STORE_TEST(test_a_new_session_is_described),
        STORE_TEST(test_a_process_is_recorded_with_host_and_start_time),
        STORE_TEST(test_registration_is_an_event_that_can_rebuild_the_session),
        STORE_TEST(test_a_failing_store_registers_nothing),
        STORE_TEST(test_registering_again_keeps_claims_and_locks),
        STORE_TEST(test_registering_again_keeps_what_is_not_given_but_not_the_process),
        STORE_TEST(test_an_ended_session_registered_again_lives),
        STORE_TEST(test_a_new_incarnation_is_not_handed_a_lock_the_old_one_waited_for),
        STORE_TEST(test_a_session_nobody_registered_is_not_found),
        STORE_TEST(test_an_ended_session_can_still_be_looked_at),
        STORE_TEST(test_the_current_task_is_the_newest_claim),
        STORE_TEST(test_a_claim_past_its_deadline_shows_as_expired_until_somebody_ends_it),
        STORE_TEST(test_history_is_the_last_ten_ended_claims_with_reason_and_duration),
        STORE_TEST(test_history_goes_on_across_incarnations),
        STORE_TEST(test_lists_are_in_the_order_of_registration_and_leave_out_the_ended),
        STORE_TEST(test_pages_and_project_together_leave_nobody_out),
        STORE_TEST(test_bad_cursors_and_limits_are_refused),
        STORE_TEST(test_a_list_shows_what_each_session_works_on),
        cmocka_unit_test(test_status_words_are_those_of_the_domain),
        STORE_TEST(test_the_health_of_a_session_is_that_of_its_worst_claim_or_its_silence),
        STORE_TEST(test_a_silent_session_is_stale_before_any_sweep_has_seen_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
