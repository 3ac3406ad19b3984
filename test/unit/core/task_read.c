/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/task_read.c: one task, pages of tasks with filters and cursors, and what
 * happened to a task.
 */
#include "core/core.h"
#include "core_help.h"

static struct dibs_task_list list(struct fixture *f, struct dibs_task_filter in)
{
    struct dibs_task_list out = {0};
    assert_ok(f, dibs_task_list(f->d, f->a, &in, &out, &f->err));
    return out;
}

static const char *listed(struct fixture *f, struct dibs_task_filter in)
{
    struct dibs_task_list out = list(f, in);
    return ids(f, &out);
}

static dibs_status try_list(struct fixture *f, struct dibs_task_filter in)
{
    struct dibs_task_list out = {0};
    return dibs_task_list(f->d, f->a, &in, &out, &f->err);
}

/* ---- one task -------------------------------------------------------------------------------- */

static void test_a_task_that_does_not_exist_is_said_not_to(void **state)
{
    struct fixture *f = *state;
    struct dibs_task out = {.version = 77};
    make_task(f, "Case");
    assert_refused(f, DIBS_TASK_NOT_FOUND, dibs_task_get(f->d, f->a, "case", &out, &f->err));
    assert_string_equal(f->err.message, "there is no task 'case'");
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_task_get(f->d, f->a, NULL, &out, &f->err));
    assert_string_equal(f->err.field, "id");
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_task_get(f->d, f->a, "%", &out, &f->err));
    assert_int_equal(out.version, 77);
}

static void test_a_held_task_shows_its_holder_and_a_free_one_nobody(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_agent_session(f, "amy-1", "amy");
    make_task(f, "t");
    make_task_as(f, (struct dibs_task_new){.id = "o", .offered_to = "amy"});
    assert_null(get_task(f, "t").claim);
    int64_t token = claim(f, "t", "s").token;
    assert_string_equal(get_task(f, "t").claim->session_id, "s");
    assert_int_equal(get_task(f, "t").claim->token, token);
    assert_string_equal(get_task(f, "t").claim->task_id, "t");
    assert_ok(f, try_review(f, "o", "amy-1"));
    assert_string_equal(get_task(f, "o").claim->session_id, "amy-1");
    assert_ok(f, try_release(f, "t", "s", 0, NULL));
    assert_null(get_task(f, "t").claim);
}

static void test_a_lease_past_its_deadline_is_shown_as_expired_until_somebody_ends_it(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "t");
    claim(f, "t", "s");
    world_pass(&f->world, MINUTES(30));
    struct dibs_task t = get_task(f, "t");
    assert_int_equal(t.status, DIBS_TASK_IN_PROGRESS);
    assert_int_equal(t.claim->health, DIBS_HEALTH_EXPIRED);
    assert_int_equal(t.claim->remaining_ms, 0);
}

/* ---- filters --------------------------------------------------------------------------------- */

static void make_garden(struct fixture *f)
{
    make_session(f, "s");
    make_session(f, "r");
    struct dibs_task_new in[] = {
        {.id = "a", .type = "code", .phase = "build", .tags = DIBS_STRINGS("ui", "x")},
        {.id = "b", .type = "code", .phase = "test", .project = "p2"},
        {.id = "c", .type = "docs", .phase = "build", .tags = DIBS_STRINGS("ui")},
        {.id = "d", .type = "code", .assignee = "amy", .tags = DIBS_STRINGS("x")},
        {.id = "e", .assignee = "bob", .project = "p2"},
        {.id = "f", .type = "code", .phase = "build", .tags = DIBS_STRINGS("ui")},
    };
    for (size_t i = 0; i < COUNT_OF(in); i++)
        make_task_as(f, in[i]);
    claim(f, "a", "s");
    claim(f, "b", "s");
    claim(f, "f", "r");
    assert_ok(f, try_complete(f, "b", "s", 0, NULL));
}

static void test_each_filter_keeps_what_it_says(void **state)
{
    struct fixture *f = *state;
    make_garden(f);
    enum dibs_task_status final[] = {DIBS_TASK_COMPLETED, DIBS_TASK_FAILED};
    enum dibs_task_status waiting[] = {DIBS_TASK_OPEN, DIBS_TASK_ASSIGNED};
    assert_string_equal(listed(f, (struct dibs_task_filter){0}), "a b c d e f");
    assert_string_equal(listed(f, (struct dibs_task_filter){.project = "p2"}), "b e");
    assert_string_equal(listed(f, (struct dibs_task_filter){.type = "code"}), "a b d f");
    assert_string_equal(listed(f, (struct dibs_task_filter){.phase = "build"}), "a c f");
    assert_string_equal(listed(f, (struct dibs_task_filter){.tag = "ui"}), "a c f");
    assert_string_equal(listed(f, (struct dibs_task_filter){.tag = "u"}), "");
    assert_string_equal(listed(f, (struct dibs_task_filter){.assignee = "amy"}), "d");
    assert_string_equal(listed(f, (struct dibs_task_filter){.session_id = "s"}), "a");
    assert_string_equal(listed(f, (struct dibs_task_filter){.session_id = "nobody"}), "");
    assert_string_equal(listed(f, (struct dibs_task_filter){.statuses = final, .status_count = 2}),
                        "b");
    assert_string_equal(
        listed(f, (struct dibs_task_filter){.statuses = waiting, .status_count = 2}), "c d e");
    assert_string_equal(listed(f, (struct dibs_task_filter){.type = "code'"}), "");
}

static void test_filters_together_keep_what_passes_all(void **state)
{
    struct fixture *f = *state;
    make_garden(f);
    enum dibs_task_status held[] = {DIBS_TASK_IN_PROGRESS};
    struct dibs_task_filter in = {.project = "default",
                                  .type = "code",
                                  .phase = "build",
                                  .tag = "ui",
                                  .statuses = held,
                                  .status_count = 1};
    assert_string_equal(listed(f, in), "a f");
    in.session_id = "r";
    assert_string_equal(listed(f, in), "f");
    in.assignee = "amy";
    assert_string_equal(listed(f, in), "");
    assert_string_equal(listed(f, (struct dibs_task_filter){.project = "p2", .assignee = "bob"}),
                        "e");
}

static void test_a_listed_task_is_whole(void **state)
{
    struct fixture *f = *state;
    make_garden(f);
    struct dibs_task t = list(f, (struct dibs_task_filter){.session_id = "s"}).items[0];
    assert_string_equal(t.title, "a");
    assert_string_equal(words(f, t.tags), "ui x");
    assert_string_equal(t.claim->session_id, "s");
}

/* ---- pages ----------------------------------------------------------------------------------- */

static void test_pages_lose_and_repeat_nothing_while_tasks_are_added(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 7; i++)
        make_task(f, NULL);
    struct dibs_task_filter in = {.limit = 3};
    const char *seen = "";
    int pages = 0;
    do {
        struct dibs_task_list page = list(f, in);
        assert_true(page.count <= 3);
        seen = arena_printf(f->a, "%s%s ", seen, ids(f, &page));
        in.cursor = page.next_cursor;
        if (++pages <= 2)
            make_task(f, NULL); /* 8 and 9 come in between */
    } while (in.cursor);
    assert_string_equal(seen, "1 2 3 4 5 6 7 8 9 ");
    assert_int_equal(pages, 3);
}

static void test_a_cursor_and_a_filter_go_together(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 6; i++)
        make_task_as(f, (struct dibs_task_new){.type = i % 2 ? "odd" : "even"});
    static const char *const projects[] = {NULL, "default"};
    for (size_t i = 0; i < COUNT_OF(projects); i++) {
        struct dibs_task_filter in = {.project = projects[i], .type = "odd", .limit = 2};
        struct dibs_task_list page = list(f, in);
        assert_string_equal(ids(f, &page), "2 4");
        in.cursor = page.next_cursor;
        assert_non_null(in.cursor);
        page = list(f, in);
        assert_string_equal(ids(f, &page), "6");
        assert_null(page.next_cursor);
    }
}

static void test_a_page_that_is_just_full_has_no_next(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 4; i++)
        make_task(f, NULL);
    assert_null(list(f, (struct dibs_task_filter){.limit = 4}).next_cursor);
    assert_non_null(list(f, (struct dibs_task_filter){.limit = 3}).next_cursor);
    assert_int_equal(list(f, (struct dibs_task_filter){.project = "none"}).count, 0);
}

static void test_a_page_has_100_tasks_unless_another_limit_is_given(void **state)
{
    struct fixture *f = *state;
    struct dibs_task_new in[101];
    struct dibs_task_list out = {0};
    for (size_t i = 0; i < COUNT_OF(in); i++)
        in[i] = (struct dibs_task_new){.title = "t"};
    assert_ok(f, dibs_task_create(f->d, f->a, in, COUNT_OF(in), &out, &f->err));
    assert_int_equal(list(f, (struct dibs_task_filter){0}).count, 100);
    assert_int_equal(list(f, (struct dibs_task_filter){.limit = 1000}).count, 101);
    assert_refused(f, DIBS_INVALID_REQUEST, try_list(f, (struct dibs_task_filter){.limit = 1001}));
    assert_string_equal(f->err.field, "limit");
    assert_refused(f, DIBS_INVALID_REQUEST, try_list(f, (struct dibs_task_filter){.limit = -1}));
}

static void test_a_cursor_that_no_list_gave_is_refused(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {"", "x", "1x", " 1", "99999999999999999999"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_refused(f, DIBS_INVALID_REQUEST,
                       try_list(f, (struct dibs_task_filter){.cursor = bad[i]}));
        assert_string_equal(f->err.field, "cursor");
    }
}

/* ---- history --------------------------------------------------------------------------------- */

static const char *event_types(struct fixture *f, const struct dibs_history *h)
{
    const char *text = "";
    for (size_t i = 0; i < h->event_count; i++)
        text = arena_printf(f->a, "%s%s%s", text, i ? " " : "", h->events[i].type);
    return text;
}

static void test_history_tells_every_event_and_every_attempt_oldest_first(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_session(f, "r");
    make_task(f, "other");
    make_task(f, "t");
    int64_t first = claim(f, "t", "s").token;
    claim(f, "other", "s");
    assert_ok(f, try_progress(f, "t", "s", first, "{\"page\":3}"));
    assert_refused(f, DIBS_TASK_ALREADY_CLAIMED, try_claim(f, "t", "r", 0));
    world_pass(&f->world, MINUTES(30));
    int64_t second = claim(f, "t", "r").token;
    world_pass(&f->world, SECONDS(5));
    assert_ok(f, try_complete(f, "t", "r", second, "\"done\""));
    struct dibs_history h = get_history(f, "t");
    assert_string_equal(event_types(f, &h),
                        "task:created task:claimed task:progress task:claim-refused "
                        "task:claim-expired task:claimed task:completed");
    for (size_t i = 1; i < h.event_count; i++)
        assert_true(h.events[i].number > h.events[i - 1].number);
    assert_int_equal(h.attempt_count, 2);
    assert_int_equal(h.attempts[0].token, first);
    assert_string_equal(h.attempts[0].session_id, "s");
    assert_string_equal(h.attempts[0].end_reason, "expired");
    assert_string_equal(h.attempts[0].checkpoint, "{\"page\":3}");
    assert_int_equal(h.attempts[0].held_ms, MINUTES(30));
    assert_int_equal(h.attempts[0].attempt, 1);
    assert_int_equal(h.attempts[1].token, second);
    assert_string_equal(h.attempts[1].end_reason, "completed");
    assert_int_equal(h.attempts[1].held_ms, SECONDS(5));
    assert_int_equal(h.attempts[1].attempt, 2);
}

static void test_history_is_on_disk_and_the_same_for_every_process(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "t");
    claim(f, "t", "s");
    dibs *other = fixture_open(f);
    assert_ok(f, try_release(f, "t", "s", 0, "lunch"));
    struct dibs_history h = {0};
    assert_ok(f, dibs_task_history(other, f->a, "t", &h, &f->err));
    assert_string_equal(event_types(f, &h), "task:created task:claimed task:released");
    assert_string_equal(h.attempts[0].end_reason, "lunch");
    dibs_close(other);
    fixture_reopen(f);
    h = get_history(f, "t");
    assert_int_equal(h.event_count, 3);
    assert_string_equal(h.attempts[0].end_reason, "lunch");
    struct dibs_history none = {0};
    assert_refused(f, DIBS_TASK_NOT_FOUND, dibs_task_history(f->d, f->a, "x", &none, &f->err));
}

static void test_history_is_whole_after_a_batch_in_which_much_was_undone(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    for (int i = 0; i < 3; i++)
        make_task(f, (const char *[]){"a", "b", "c"}[i]);
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    claim(f, "a", "s");
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    claim(f, "b", "s");
    dibs_batch_cancel(f->d);
    assert_refused(f, DIBS_TASK_NOT_CLAIMED, try_complete(f, "b", "s", 0, NULL));
    assert_ok(f, try_complete(f, "a", "s", 0, NULL));
    claim(f, "c", "s");
    claim(f, "b", "s");
    assert_ok(f, try_progress(f, "b", "s", 0, "1"));
    assert_ok(f, try_complete(f, "b", "s", 0, "2"));
    assert_ok(f, dibs_batch_commit(f->d, &f->err));
    struct dibs_history h = get_history(f, "a");
    assert_string_equal(event_types(f, &h), "task:created task:claimed task:completed");
    h = get_history(f, "b");
    assert_string_equal(event_types(f, &h),
                        "task:created task:claimed task:progress task:completed");
    h = get_history(f, "c");
    assert_string_equal(event_types(f, &h), "task:created task:claimed");
}

static void test_history_has_a_completion_that_brought_its_session_back(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "t");
    claim(f, "t", "s");
    plant(f, "UPDATE session SET status = 'stale'");
    f->skip_verify = true; /* the journal does not know that it was */
    assert_ok(f, try_complete(f, "t", "s", 0, NULL));
    assert_int_equal(events_of(f, "session:active").count, 1);
    struct dibs_history h = get_history(f, "t");
    assert_string_equal(event_types(f, &h), "task:created task:claimed task:completed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_task_that_does_not_exist_is_said_not_to),
        STORE_TEST(test_a_held_task_shows_its_holder_and_a_free_one_nobody),
        STORE_TEST(test_a_lease_past_its_deadline_is_shown_as_expired_until_somebody_ends_it),
        STORE_TEST(test_each_filter_keeps_what_it_says),
        STORE_TEST(test_filters_together_keep_what_passes_all),
        STORE_TEST(test_a_listed_task_is_whole),
        STORE_TEST(test_pages_lose_and_repeat_nothing_while_tasks_are_added),
        STORE_TEST(test_a_cursor_and_a_filter_go_together),
        STORE_TEST(test_a_page_that_is_just_full_has_no_next),
        STORE_TEST(test_a_page_has_100_tasks_unless_another_limit_is_given),
        STORE_TEST(test_a_cursor_that_no_list_gave_is_refused),
        STORE_TEST(test_history_tells_every_event_and_every_attempt_oldest_first),
        STORE_TEST(test_history_is_on_disk_and_the_same_for_every_process),
        STORE_TEST(test_history_is_whole_after_a_batch_in_which_much_was_undone),
        STORE_TEST(test_history_has_a_completion_that_brought_its_session_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
