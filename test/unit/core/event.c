/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/event.c: numbers without gaps, reading from a number on, filters, and the
 * delivery of events to callbacks.
 */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "db/db.h"

static struct dibs_event_list read_events(struct fixture *f, struct dibs_event_filter in)
{
    struct dibs_event_list out = {0};
    assert_ok(f, dibs_events(f->d, f->a, &in, &out, &f->err));
    return out;
}

static void create_on(struct fixture *f, dibs *d, const char *id, const char *project)
{
    struct dibs_task_list out = {0};
    struct dibs_task_new in = {.id = id, .title = id ? id : "a task", .project = project};
    assert_ok(f, dibs_task_create(d, f->a, &in, 1, &out, &f->err));
}

static void create(struct fixture *f, const char *id)
{
    create_on(f, f->d, id, NULL);
}

static void assert_numbers(struct dibs_event_list list, int64_t first, size_t count)
{
    assert_int_equal(list.count, count);
    for (size_t i = 0; i < list.count; i++)
        assert_int_equal(list.items[i].number, first + (int64_t)i);
}

static void assert_heard(const struct probe_ear *ear, const char *expected)
{
    char seen[256] = "";
    for (size_t i = 0; i < ear->count; i++) {
        const char *what = *ear->heard[i].task_id ? ear->heard[i].task_id : ear->heard[i].type;
        strncat(seen, i ? " " : "", sizeof seen - strlen(seen) - 1);
        strncat(seen, what, sizeof seen - strlen(seen) - 1);
    }
    assert_string_equal(seen, expected);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static dibs_status op_create(struct fixture *f)
{
    struct dibs_task_list out = {0};
    struct dibs_task_new in[2] = {{.title = "one"}, {.title = "two"}};
    return dibs_task_create(f->d, f->a, in, 2, &out, &f->err);
}

static void test_numbers_run_without_gaps_across_handles_refusals_and_failures(void **state)
{
    struct fixture *f = *state;
    struct dibs_task_list out = {0};
    dibs *other = fixture_open(f);
    create(f, "a");
    create_on(f, other, "b", NULL);
    struct dibs_task_new taken = {.id = "a", .title = "again"};
    assert_refused(f, DIBS_TASK_EXISTS, dibs_task_create(f->d, f->a, &taken, 1, &out, &f->err));
    create(f, "c");
    assert_true(probe_fail_each(f, op_create) > 3);
    create_on(f, other, "d", NULL);
    assert_numbers(events_of(f, NULL), 1, 6);
    dibs_close(other);
}

static void test_events_of_a_batch_are_seen_by_nobody_before_its_commit(void **state)
{
    struct fixture *f = *state;
    dibs *other = fixture_open(f);
    struct dibs_event_list seen = {0};
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    create(f, "a");
    create(f, "b");
    assert_ok(f, dibs_events(other, f->a, &(struct dibs_event_filter){0}, &seen, &f->err));
    assert_int_equal(seen.count, 0);
    assert_int_equal(seen.last, 0);
    assert_ok(f, dibs_batch_commit(f->d, &f->err));
    assert_ok(f, dibs_events(other, f->a, &(struct dibs_event_filter){0}, &seen, &f->err));
    assert_numbers(seen, 1, 2);
    dibs_close(other);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void test_a_reader_goes_on_from_the_last_number_it_saw(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 5; i++)
        create(f, NULL);
    struct dibs_event_filter page = {.limit = 2};
    assert_numbers(read_events(f, page), 1, 2);
    page.since = 2;
    assert_numbers(read_events(f, page), 3, 2);
    page.since = 4;
    struct dibs_event_list end = read_events(f, page);
    assert_numbers(end, 5, 1);
    assert_int_equal(end.first_kept, 1);
    assert_int_equal(end.last, 5);
    page.since = 5;
    end = read_events(f, page);
    assert_int_equal(end.count, 0);
    assert_int_equal(end.last, 5);
}

static void test_an_event_says_what_when_and_about_whom(void **state)
{
    struct fixture *f = *state;
    world_pass(&f->world, 1234);
    make_session(f, "s");
    create_on(f, f->d, "a", "p");
    claim(f, "a", "s");
    struct dibs_event_list events = events_of(f, NULL);
    assert_int_equal(events.count, 3);
    const struct dibs_event *e = &events.items[2];
    assert_string_equal(e->type, "task:claimed");
    assert_int_equal(e->at_ms, f->world.wall_ms);
    assert_string_equal(e->project, "p");
    assert_string_equal(e->task_id, "a");
    assert_string_equal(e->session_id, "s");
    assert_string_equal(event_field(f, e, "status"), "in_progress");
    assert_null(events.items[0].task_id);
}

static void test_types_filter_under_either_name(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    make_session(f, "s");
    create(f, "a");
    claim(f, "a", "s");
    assert_ok(f, dibs_release_session_claims(f->d, f->a, "s", NULL, &cleaned, &f->err));
    claim(f, "a", "s");
    world_pass(&f->world, MINUTES(30));
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    assert_int_equal(events_of(f, "task:released").count, 1);
    assert_int_equal(events_of(f, "claim:released").count, 1);
    assert_int_equal(events_of(f, "claim:expired").count, 1);
    assert_string_equal(events_of(f, "claim:expired").items[0].type, "task:claim-expired");
    struct dibs_event_filter several = {.types = DIBS_STRINGS("claim:expired", "task:claimed")};
    assert_int_equal(read_events(f, several).count, 3);
    assert_int_equal(events_of(f, "no:such").count, 0);
}

static void test_project_and_task_filter(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    create_on(f, f->d, "a", "p");
    create_on(f, f->d, "b", "q");
    create_on(f, f->d, "c", "p");
    claim(f, "a", "s");
    assert_int_equal(read_events(f, (struct dibs_event_filter){.project = "p"}).count, 3);
    assert_int_equal(read_events(f, (struct dibs_event_filter){.project = "none"}).count, 0);
    struct dibs_event_list of_a = read_events(f, (struct dibs_event_filter){.task_id = "a"});
    assert_int_equal(of_a.count, 2);
    assert_string_equal(of_a.items[1].type, "task:claimed");
    struct dibs_event_filter later = {.task_id = "a", .since = of_a.items[0].number};
    assert_int_equal(read_events(f, later).count, 1);
    struct dibs_event_list out = {0};
    struct dibs_event_filter unknown = {.task_id = "ghost"};
    assert_refused(f, DIBS_TASK_NOT_FOUND, dibs_events(f->d, f->a, &unknown, &out, &f->err));
}

static void test_the_summary_leaves_out_the_single_claims_of_a_sweep(void **state)
{
    struct fixture *f = *state;
    struct dibs_cleaned cleaned = {0};
    make_session(f, "s");
    create(f, "a");
    create(f, "b");
    claim(f, "a", "s");
    claim(f, "b", "s");
    world_pass(&f->world, MINUTES(30));
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    struct dibs_event_list all = events_of(f, NULL);
    struct dibs_event_list short_list = read_events(f, (struct dibs_event_filter){.summary = true});
    assert_int_equal(short_list.count, all.count - 2);
    assert_string_equal(short_list.items[short_list.count - 1].type, "claims:cleanup");
}

static void test_bad_numbers_and_limits_are_refused(void **state)
{
    struct fixture *f = *state;
    struct dibs_event_list out = {0};
    struct dibs_event_filter bad = {.since = -1};
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_events(f->d, f->a, &bad, &out, &f->err));
    assert_string_equal(f->err.field, "since");
    bad = (struct dibs_event_filter){.limit = PAGE_MAX + 1};
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_events(f->d, f->a, &bad, &out, &f->err));
    assert_string_equal(f->err.field, "limit");
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static void test_own_and_foreign_events_come_once_and_in_order(void **state)
{
    struct fixture *f = *state;
    struct probe_ear ear;
    dibs *other = fixture_open(f);
    create(f, "before");
    probe_listen(f, &ear, (struct dibs_strings){0});
    create(f, "a");
    assert_heard(&ear, "a");
    create_on(f, other, "b", NULL);
    create_on(f, other, "c", NULL);
    assert_heard(&ear, "a"); /* delivery is on the calling thread */
    create(f, "d");
    assert_heard(&ear, "a b c d");
    create_on(f, other, "e", NULL);
    assert_ok(f, dibs_dispatch(f->d, &f->err));
    assert_ok(f, dibs_dispatch(f->d, &f->err));
    assert_heard(&ear, "a b c d e");
    for (size_t i = 0; i < ear.count; i++)
        assert_int_equal(ear.heard[i].number, 2 + (int64_t)i);
    dibs_close(other);
}

static void test_a_subscriber_is_given_only_what_it_asked_for_and_what_came_later(void **state)
{
    struct fixture *f = *state;
    struct probe_ear all, claims, late;
    dibs *other = fixture_open(f);
    make_session(f, "s");
    probe_listen(f, &all, (struct dibs_strings){0});
    probe_listen(f, &claims, DIBS_STRINGS("task:claimed", "claim:released"));
    create_on(f, other, "a", NULL); /* not delivered to anybody yet */
    probe_listen(f, &late, (struct dibs_strings){0});
    claim(f, "a", "s");
    struct dibs_released out = {0};
    struct dibs_release give_back = {.task_id = "a", .session_id = "s"};
    assert_ok(f, dibs_claim_release(f->d, f->a, &give_back, &out, &f->err));
    assert_int_equal(all.count, 3);
    assert_string_equal(all.heard[2].type, "task:released");
    assert_int_equal(claims.count, 2);
    assert_string_equal(claims.heard[0].type, "task:claimed");
    assert_string_equal(claims.heard[1].type, "claim:released"); /* by the name it knows */
    assert_int_equal(late.count, 2);
    assert_string_equal(late.heard[0].type, "task:claimed");
    dibs_close(other);
}

static void test_an_unsubscribed_callback_hears_nothing_more(void **state)
{
    struct fixture *f = *state;
    struct probe_ear ear;
    int64_t id = probe_listen(f, &ear, (struct dibs_strings){0});
    create(f, "a");
    dibs_unsubscribe(f->d, id);
    create(f, "b");
    assert_heard(&ear, "a");
    dibs_unsubscribe(f->d, id); /* once more does no harm */
    probe_listen(f, &ear, (struct dibs_strings){0});
    create(f, "c"); /* and a new one starts from now */
    assert_heard(&ear, "c");
}

/* A subscriber that removes itself or another while it is being told. */
struct remover {
    struct fixture *f;
    int64_t remove;
    int calls;
};

static void remove_one(void *context, const struct dibs_event *event)
{
    struct remover *r = context;
    (void)event;
    r->calls++;
    dibs_unsubscribe(r->f->d, r->remove);
}

static int64_t add_remover(struct fixture *f, struct remover *r)
{
    int64_t id = 0;
    *r = (struct remover){.f = f};
    struct dibs_subscription in = {.on_event = remove_one, .context = r};
    assert_ok(f, dibs_subscribe(f->d, &in, &id, &f->err));
    return id;
}

static void test_a_callback_may_unsubscribe_itself_and_others(void **state)
{
    struct fixture *f = *state;
    struct remover first, second, third;
    int64_t ids[3] = {add_remover(f, &first), add_remover(f, &second), add_remover(f, &third)};
    first.remove = ids[0];
    second.remove = ids[2]; /* each of these two removes the other: one of them is called */
    third.remove = ids[1];
    create(f, "a");
    assert_int_equal(first.calls, 1);
    assert_int_equal(second.calls + third.calls, 1);
    create(f, "b");
    assert_int_equal(first.calls, 1);
    assert_int_equal(second.calls + third.calls, 2);
}

/* What a callback tries to do to the store. */
struct meddler {
    struct fixture *f;
    dibs_status read, write, batch, once, sweep;
    size_t seen;
    struct dibs_error err;
};

static dibs_status nothing(dibs *d, dibs_arena *a, void *context, const char **answer,
                           struct dibs_error *err)
{
    (void)d, (void)a, (void)context, (void)answer, (void)err;
    return DIBS_OK;
}

static void meddle(void *context, const struct dibs_event *event)
{
    struct meddler *m = context;
    dibs *d = m->f->d;
    dibs_arena *a = m->f->a;
    struct dibs_task task = {0};
    struct dibs_task_list list = {0};
    struct dibs_cleaned cleaned = {0};
    const char *answer = NULL;
    bool repeated = false;
    m->read = dibs_task_get(d, a, event->task_id, &task, NULL);
    m->seen += dibs_task_list(d, a, &(struct dibs_task_filter){0}, &list, NULL) == DIBS_OK;
    m->write = dibs_task_create(d, a, &(struct dibs_task_new){.title = "x"}, 1, &list, &m->err);
    m->batch = dibs_batch_begin(d, NULL);
    struct dibs_once once = {.key = "k", .request = "r", .work = nothing};
    m->once = dibs_once(d, a, &once, &answer, &repeated, NULL);
    m->sweep = dibs_cleanup_expired(d, a, &cleaned, NULL);
}

static void test_a_callback_may_read_but_not_write(void **state)
{
    struct fixture *f = *state;
    struct meddler m = {.f = f};
    int64_t id = 0;
    struct dibs_subscription in = {.on_event = meddle, .context = &m};
    assert_ok(f, dibs_subscribe(f->d, &in, &id, &f->err));
    create(f, "a");
    assert_int_equal(m.seen, 1);
    assert_int_equal(m.read, DIBS_OK);
    assert_int_equal(m.write, DIBS_STORE_BUSY);
    assert_string_equal(m.err.message,
                        "an event callback cannot write; note the event and write later");
    assert_int_equal(m.batch, DIBS_STORE_BUSY);
    assert_int_equal(m.once, DIBS_STORE_BUSY);
    assert_int_equal(m.sweep, DIBS_STORE_BUSY);
    assert_int_equal(events_of(f, NULL).count, 1);
    create(f, "b"); /* and nothing has been left open */
    assert_int_equal(m.seen, 2);
}

static void test_nothing_is_delivered_of_what_did_not_happen(void **state)
{
    struct fixture *f = *state;
    struct probe_ear ear;
    struct dibs_task_list out = {0};
    create(f, "a");
    probe_listen(f, &ear, (struct dibs_strings){0});
    struct dibs_task_new pair[2] = {{.id = "new", .title = "new"}, {.id = "a", .title = "taken"}};
    assert_refused(f, DIBS_TASK_EXISTS, dibs_task_create(f->d, f->a, pair, 2, &out, &f->err));
    assert_int_equal(ear.count, 0);
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    create(f, "b");
    assert_ok(f, dibs_dispatch(f->d, &f->err));
    assert_int_equal(ear.count, 0); /* not before the commit */
    dibs_batch_cancel(f->d);
    assert_ok(f, dibs_dispatch(f->d, &f->err));
    assert_int_equal(ear.count, 0);
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    create(f, "c");
    create(f, "d");
    assert_ok(f, dibs_batch_commit(f->d, &f->err));
    assert_heard(&ear, "c d");
    int failures = probe_fail_each(f, op_create);
    assert_true(failures > 3);
    assert_ok(f, dibs_dispatch(f->d, &f->err));
    assert_int_equal(ear.count, 4); /* the two of the run that got through */
}

static void count_one(void *context, const struct dibs_event *event)
{
    int64_t *last = context;
    assert_int_equal(event->number, *last + 1);
    *last = event->number;
}

static void test_a_subscriber_far_behind_is_given_everything_in_order(void **state)
{
    struct fixture *f = *state;
    int64_t last = 0, id = 0;
    dibs *other = fixture_open(f);
    struct dibs_subscription in = {.on_event = count_one, .context = &last};
    assert_ok(f, dibs_subscribe(f->d, &in, &id, &f->err));
    struct dibs_task_new *many = test_calloc(BATCH_TASKS_MAX, sizeof *many);
    for (size_t i = 0; i < BATCH_TASKS_MAX; i++)
        many[i].title = "one of many";
    struct dibs_task_list out = {0};
    assert_ok(f, dibs_task_create(other, f->a, many, BATCH_TASKS_MAX, &out, &f->err));
    assert_ok(f, dibs_task_create(other, f->a, many, 500, &out, &f->err));
    test_free(many);
    assert_ok(f, dibs_dispatch(f->d, &f->err));
    assert_int_equal(last, BATCH_TASKS_MAX + 500);
    dibs_close(other);
}

static bool always(void)
{
    return true;
}

static void test_what_could_not_be_delivered_comes_next_time(void **state)
{
    struct fixture *f = *state;
    struct probe_ear ear;
    dibs *other = fixture_open(f);
    probe_listen(f, &ear, (struct dibs_strings){0});
    create_on(f, other, "a", NULL);
    db_should_fail = always;
    dibs_status status = dibs_dispatch(f->d, &f->err);
    db_should_fail = NULL;
    assert_int_equal(status, DIBS_STORE_UNAVAILABLE);
    assert_int_equal(ear.count, 0);
    assert_ok(f, dibs_dispatch(f->d, &f->err));
    assert_heard(&ear, "a");
    dibs_close(other);
}

static void test_a_subscription_needs_a_callback_and_a_dispatch_needs_nobody(void **state)
{
    struct fixture *f = *state;
    int64_t id = 77;
    assert_ok(f, dibs_dispatch(f->d, &f->err));
    assert_refused(f, DIBS_INVALID_REQUEST,
                   dibs_subscribe(f->d, &(struct dibs_subscription){0}, &id, &f->err));
    assert_string_equal(f->err.field, "on_event");
    assert_int_equal(id, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_numbers_run_without_gaps_across_handles_refusals_and_failures),
        STORE_TEST(test_events_of_a_batch_are_seen_by_nobody_before_its_commit),
        STORE_TEST(test_a_reader_goes_on_from_the_last_number_it_saw),
        STORE_TEST(test_an_event_says_what_when_and_about_whom),
        STORE_TEST(test_types_filter_under_either_name),
        STORE_TEST(test_project_and_task_filter),
        STORE_TEST(test_the_summary_leaves_out_the_single_claims_of_a_sweep),
        STORE_TEST(test_bad_numbers_and_limits_are_refused),
        STORE_TEST(test_own_and_foreign_events_come_once_and_in_order),
        STORE_TEST(test_a_subscriber_is_given_only_what_it_asked_for_and_what_came_later),
        STORE_TEST(test_an_unsubscribed_callback_hears_nothing_more),
        STORE_TEST(test_a_callback_may_unsubscribe_itself_and_others),
        STORE_TEST(test_a_callback_may_read_but_not_write),
        STORE_TEST(test_nothing_is_delivered_of_what_did_not_happen),
        STORE_TEST(test_a_subscriber_far_behind_is_given_everything_in_order),
        STORE_TEST(test_what_could_not_be_delivered_comes_next_time),
        STORE_TEST(test_a_subscription_needs_a_callback_and_a_dispatch_needs_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
