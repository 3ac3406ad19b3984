/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/server/journal.c and page.c: pages that adjoin, soon after a hint and without one,
 * from other handles on the same file, through failures of the store.
 */
#include "server/journal.h"

#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "core_help.h"
#include "db/db.h"
#include "workers.h"

#define DEADLINE_MS 10000

static const char *const own_type[] = {"session:registered"};

struct ear {
    struct fixture *f;
    uv_loop_t loop;
    struct journal *journal;
    int64_t seen; /* the last number heard */
    size_t pages, largest, frames, partial;
    char last_frame[4096], last_type[64];
    atomic_int others;
    bool gap;
};

static void on_page(void *context, struct page *page)
{
    struct ear *ear = context;
    ear->gap = ear->gap || page->since != ear->seen;
    ear->pages++;
    ear->partial += page->is_partial;
    ear->largest = page->count > ear->largest ? page->count : ear->largest;
    for (size_t i = 0; i < page->count; i++) {
        const struct page_event *e = &page->events[i];
        ear->gap = ear->gap || (!page->is_partial && e->number != ear->seen + 1);
        ear->seen = e->number;
        snprintf(ear->last_type, sizeof ear->last_type, "%s", e->type);
        snprintf(ear->last_frame, sizeof ear->last_frame, "%.*s", (int)e->bytes,
                 page->text.data + e->at);
        ear->frames++;
    }
    ear->seen = page->through;
    assert_int_equal(journal_last(ear->journal), page->through);
    page_drop(page);
}

static void on_others(void *context)
{
    struct ear *ear = context;
    atomic_fetch_add(&ear->others, 1);
}

/* ear_open: nobody reads along yet; then only sessions matter. */
static void ear_open(struct ear *ear, struct fixture *f)
{
    *ear = (struct ear){.f = f};
    assert_int_equal(uv_loop_init(&ear->loop), 0);
    const struct dibs_strings own_types = {own_type, 1};
    struct journal_options in = {.data_dir = f->data_dir,
                                 .loop = &ear->loop,
                                 .on_page = on_page,
                                 .own_types = own_types,
                                 .on_others = on_others,
                                 .context = ear};
    assert_ok(f, journal_start(&in, &ear->journal, &f->err));
    ear->seen = journal_last(ear->journal);
}

static void ear_start(struct ear *ear, struct fixture *f)
{
    ear_open(ear, f);
    journal_set_eager(ear->journal, true);
}

static void ear_stop(struct ear *ear)
{
    journal_stop(ear->journal);
    assert_int_equal(uv_run(&ear->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&ear->loop), 0);
    journal_free(ear->journal);
}

static void on_time(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

static void on_timer_closed(uv_handle_t *handle)
{
    handle->data = NULL;
}

/* Runs the loop until the condition holds; fails after a while. */
static void run_until(struct ear *ear, bool (*condition)(struct ear *ear, int64_t n), int64_t n)
{
    bool late = false;
    uv_timer_t timer;
    uv_timer_init(&ear->loop, &timer);
    timer.data = &late;
    uv_timer_start(&timer, on_time, DEADLINE_MS, 0);
    while (!late && !condition(ear, n))
        uv_run(&ear->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, on_timer_closed);
    while (timer.data != NULL)
        uv_run(&ear->loop, UV_RUN_ONCE);
    assert_false(late);
}

static bool has_heard(struct ear *ear, int64_t number)
{
    return ear->seen >= number;
}

static int64_t newest(struct fixture *f)
{
    struct dibs_event_list list = {0};
    assert_ok(f, dibs_events(f->d, f->a, &(struct dibs_event_filter){.since = INT64_MAX}, &list,
                             &f->err));
    return list.last;
}

static void create_many(struct fixture *f, int count)
{
    struct dibs_task_new in[BATCH_TASKS_MAX];
    struct dibs_task_list out = {0};
    for (int i = 0; i < count; i++)
        in[i] = (struct dibs_task_new){.title = "one of many"};
    assert_ok(f, dibs_task_create(f->d, f->a, in, (size_t)count, &out, &f->err));
}

/* ---- pages ----------------------------------------------------------------------------------- */

static void test_a_frame_is_the_event_as_a_client_reads_it(void **state)
{
    struct fixture *f = *state;
    struct dibs_event items[] = {
        {.number = 7,
         .at_ms = 1000,
         .type = "task:created",
         .project = "p",
         .task_id = "t",
         .data = "{\"a\":\n1,\r\n\"b\":\"x\\ny\"}"},
        {.number = 8,
         .at_ms = 2000,
         .type = "task:claim-expired",
         .session_id = "s",
         .data = "{\"sweep\":true}"},
    };
    struct dibs_event_list list = {.items = items, .count = 2, .last = 9};
    struct page *page = page_make(&list, 6, 8);
    (void)f;
    assert_string_equal(page->text.data,
                        "id: 7\nevent: task:created\ndata: {\"id\":7,\"type\":\"task:created\","
                        "\"at\":\"1970-01-01T00:00:01.000Z\",\"project\":\"p\",\"taskId\":\"t\","
                        "\"data\":{\"a\": 1,  \"b\":\"x\\ny\"}}\n\n"
                        "id: 8\nevent: task:claim-expired\ndata: {\"id\":8,"
                        "\"type\":\"task:claim-expired\",\"at\":\"1970-01-01T00:00:02.000Z\","
                        "\"sessionId\":\"s\",\"data\":{\"sweep\":true}}\n\n");
    assert_int_equal(page->events[1].at, page->events[0].bytes);
    assert_int_equal(page->events[1].at + page->events[1].bytes, page->text.len);
    assert_false(page->events[0].sweep_detail);
    assert_true(page->events[1].sweep_detail);
    assert_int_equal(page->since, 6);
    assert_int_equal(page->through, 8);
    assert_int_equal(page->last, 9);
    page_drop(page_hold(page));
    page_drop(page);
    page_drop(NULL);
}

static int64_t requests_left;
static bool fails_now(void)
{
    return --requests_left < 0;
}

static void test_a_page_without_memory_is_none(void **state)
{
    struct fixture *f = *state;
    struct dibs_event items[] = {{.number = 1,
                                  .type = "x:y",
                                  .project = "p",
                                  .task_id = "t",
                                  .session_id = "s",
                                  .data = "{}"}};
    struct dibs_event_list list = {.items = items, .count = 1, .last = 1};
    (void)f;
    struct page *page = NULL;
    int64_t allowed = 0;
    for (; page == NULL && allowed < 100; allowed++) {
        requests_left = allowed;
        mem_should_fail = fails_now;
        page = page_make(&list, 0, 1);
        mem_should_fail = NULL;
    }
    assert_non_null(page);
    assert_true(allowed > 3);
    assert_int_equal(page->count, 1);
    page_drop(page);
}

/* ---- following ------------------------------------------------------------------------------- */

static void test_what_was_there_before_is_not_delivered(void **state)
{
    struct fixture *f = *state;
    struct ear ear;
    make_task(f, "before");
    ear_start(&ear, f);
    assert_int_equal(journal_last(ear.journal), newest(f));
    make_task(f, "after");
    journal_hint(ear.journal);
    run_until(&ear, has_heard, newest(f));
    assert_int_equal(ear.frames, 1);
    assert_non_null(strstr(ear.last_frame, "\"taskId\":\"after\""));
    ear_stop(&ear);
}

static void test_changes_by_others_are_found_without_a_hint(void **state)
{
    struct fixture *f = *state;
    struct ear ear;
    ear_start(&ear, f);
    uint64_t began = uv_hrtime();
    make_task(f, "t");
    run_until(&ear, has_heard, newest(f));
    uint64_t ms = (uv_hrtime() - began) / 1000000;
    assert_true(ms < 2000); /* 200 by promise; a loaded machine may be slower */
    assert_string_equal(ear.last_type, "task:created");
    ear_stop(&ear); /* the thread has ended: it has said what it had to say */
    assert_true(atomic_load(&ear.others) > 0);
}

static void test_a_large_commit_comes_in_pages_that_adjoin(void **state)
{
    struct fixture *f = *state;
    struct ear ear;
    ear_start(&ear, f);
    create_many(f, 1000);
    create_many(f, 1000);
    journal_hint(ear.journal);
    run_until(&ear, has_heard, newest(f));
    assert_int_equal(ear.frames, 2000);
    assert_false(ear.gap);
    assert_true(ear.largest <= JOURNAL_PAGE_EVENTS);
    ear_stop(&ear);
}

static void test_while_nobody_reads_along_only_our_own_types_are_read(void **state)
{
    struct fixture *f = *state;
    struct ear ear;
    ear_open(&ear, f);
    create_many(f, 1000);
    make_session(f, "somebody");
    int64_t session = newest(f);
    create_many(f, 10);
    journal_hint(ear.journal);
    run_until(&ear, has_heard, newest(f));
    assert_int_equal(ear.frames, 1);
    assert_string_equal(ear.last_type, "session:registered");
    assert_non_null(strstr(ear.last_frame, "somebody"));
    assert_int_equal(newest(f), session + 10);
    assert_int_equal(ear.partial, ear.pages);
    assert_false(ear.gap);
    journal_set_eager(ear.journal, true);
    create_many(f, 1); /* a look may have begun before we said so; not after this was heard */
    run_until(&ear, has_heard, newest(f));
    size_t frames = ear.frames, partial = ear.partial;
    create_many(f, 5);
    journal_hint(ear.journal);
    run_until(&ear, has_heard, newest(f));
    assert_int_equal(ear.frames, frames + 5);
    assert_int_equal(ear.partial, partial);
    assert_false(ear.gap);
    ear_stop(&ear);
}

static void test_a_page_does_not_grow_beyond_its_bytes(void **state)
{
    struct fixture *f = *state;
    struct ear ear;
    ear_start(&ear, f);
    const char *text = repeated(f, 'x', JOURNAL_PAGE_BYTES + 1);
    for (int i = 0; i < 4; i++)
        make_task_as(f, (struct dibs_task_new){.title = "large", .description = text});
    journal_hint(ear.journal);
    run_until(&ear, has_heard, newest(f));
    assert_int_equal(ear.frames, 4);
    assert_int_equal(ear.largest, 1);
    assert_false(ear.gap);
    ear_stop(&ear);
}

static void test_a_loop_that_does_not_run_gets_few_pages_later(void **state)
{
    struct fixture *f = *state;
    struct ear ear;
    ear_start(&ear, f);
    for (int i = 0; i < 200; i++) { /* the loop does not run meanwhile */
        make_task_as(f, (struct dibs_task_new){.title = "one"});
        journal_hint(ear.journal);
    }
    run_until(&ear, has_heard, newest(f));
    assert_int_equal(ear.frames, 200);
    assert_false(ear.gap);
    assert_true(ear.pages <= 10); /* two on their way, then all the rest */
    ear_stop(&ear);
}

static void test_events_pruned_unread_are_told_as_a_gap(void **state)
{
    struct fixture *f = *state;
    struct ear ear;
    ear_start(&ear, f);
    create_many(f, 900); /* pages wait for the loop, so not all of them are read */
    journal_hint(ear.journal);
    int64_t end = newest(f);
    plant(f, "DELETE FROM event");
    run_until(&ear, has_heard, end);
    assert_int_equal(journal_last(ear.journal), end);
    make_task(f, "after");
    journal_hint(ear.journal);
    run_until(&ear, has_heard, end + 1);
    assert_int_equal(ear.seen, end + 1);
    assert_true(ear.gap);
    f->skip_verify = true;
    ear_stop(&ear);
}

/* ---- failures -------------------------------------------------------------------------------- */

static atomic_int complaints, reliefs;
static atomic_bool store_fails;
static __thread bool is_test_thread;

static void count_lines(enum log_level level, const char *line)
{
    (void)level;
    if (strstr(line, "cannot follow the journal"))
        atomic_fetch_add(&complaints, 1);
    if (strstr(line, "can be followed again"))
        atomic_fetch_add(&reliefs, 1);
}

static bool store_should_fail(void)
{
    return !is_test_thread && atomic_load(&store_fails);
}

static bool has_complained(void *context)
{
    (void)context;
    return atomic_load(&complaints) > 0;
}

static void test_a_failing_store_is_told_once_and_read_again_later(void **state)
{
    struct fixture *f = *state;
    struct ear ear;
    is_test_thread = true;
    atomic_store(&store_fails, true);
    log_set_sink(count_lines);
    db_should_fail = store_should_fail; /* before there is a thread that asks it */
    ear_start(&ear, f);
    make_task(f, "t");
    journal_hint(ear.journal);
    assert_true(wait_until(has_complained, NULL, DEADLINE_MS));
    make_task(f, "u");
    journal_hint(ear.journal);
    atomic_store(&store_fails, false);
    run_until(&ear, has_heard, newest(f));
    ear_stop(&ear);
    db_should_fail = NULL;
    log_set_sink(NULL);
    assert_int_equal(ear.frames, 2);
    assert_false(ear.gap);
    assert_int_equal(atomic_load(&complaints), 1);
    assert_int_equal(atomic_load(&reliefs), 1);
}

static void test_a_folder_without_a_store_is_refused(void **state)
{
    struct fixture *f = *state;
    uv_loop_t loop;
    struct journal *j = NULL;
    assert_int_equal(uv_loop_init(&loop), 0);
    struct journal_options in = {.data_dir = "/nonexistent", .loop = &loop, .on_page = on_page};
    assert_refused(f, DIBS_STORE_NOT_FOUND, journal_start(&in, &j, &f->err));
    assert_null(j);
    assert_int_equal(uv_loop_close(&loop), 0);
    journal_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_frame_is_the_event_as_a_client_reads_it),
        STORE_TEST(test_a_page_without_memory_is_none),
        STORE_TEST(test_what_was_there_before_is_not_delivered),
        STORE_TEST(test_changes_by_others_are_found_without_a_hint),
        STORE_TEST(test_a_large_commit_comes_in_pages_that_adjoin),
        STORE_TEST(test_while_nobody_reads_along_only_our_own_types_are_read),
        STORE_TEST(test_a_page_does_not_grow_beyond_its_bytes),
        STORE_TEST(test_a_loop_that_does_not_run_gets_few_pages_later),
        STORE_TEST(test_events_pruned_unread_are_told_as_a_gap),
        STORE_TEST(test_a_failing_store_is_told_once_and_read_again_later),
        STORE_TEST(test_a_folder_without_a_store_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
