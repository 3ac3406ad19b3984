/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/server/sse.c: who is behind, who is live, what was pruned, who is too slow, and that
 * nothing is missed or doubled in whatever order things happen.
 */
#include "sse_stage.h"
#include "workers.h"

/* ---- what is gone ---------------------------------------------------------------------------- */

static void test_what_was_pruned_is_told_by_a_resync(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    make(&s, 6);
    deliver(&s);
    plant(s.f, "DELETE FROM event WHERE number <= 3");
    struct conn *behind = ask(&s, NULL, "1"), *edge = ask(&s, NULL, "3");
    struct conn *narrow = ask(&s, "types=no:such", "0");
    assert_heard(behind, "r3 4 5 6");
    assert_heard(edge, "4 5 6");
    assert_heard(narrow, "r3");
    assert_non_null(strstr(behind->out.data, "id: 3\nevent: resync\ndata: {\"firstKept\":4,"
                                             "\"last\":6,\"since\":1,"));
    plant(s.f, "DELETE FROM event");
    struct conn *nothing = ask(&s, NULL, "2");
    assert_heard(nothing, "r6");
    make(&s, 1);
    deliver(&s);
    assert_heard(nothing, "r6 7");
    struct conn *each[] = {behind, edge, narrow, nothing};
    for (int i = 0; i < 4; i++)
        conn_end(&s, each[i]);
    s.f->skip_verify = true;
    strike_stage(&s);
}

static void test_events_pruned_under_a_live_reader_are_told_too(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    struct conn *c = ask(&s, NULL, NULL);
    make(&s, 1);
    deliver(&s);
    make(&s, 4);
    plant(s.f, "DELETE FROM event WHERE number <= 3"); /* 2 and 3 unread by the journal */
    deliver(&s);
    run_steps(&s);
    assert_heard(c, "1 r3 4 5");
    make(&s, 1);
    deliver(&s);
    assert_heard(c, "1 r3 4 5 6");
    conn_end(&s, c);
    s.f->skip_verify = true;
    strike_stage(&s);
}

/* ---- behind and live ------------------------------------------------------------------------- */

static void test_a_step_that_saw_more_than_the_journal_doubles_nothing(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    make(&s, 2);
    deliver(&s);
    make(&s, 3); /* committed; the journal has not come to it */
    struct conn *c = ask(&s, NULL, "1");
    assert_heard(c, "2 3 4 5");
    deliver_some(&s, 2); /* 3 4: known already */
    assert_heard(c, "2 3 4 5");
    make(&s, 1);
    deliver(&s); /* 5 6: half of it known */
    assert_heard(c, "2 3 4 5 6");
    conn_end(&s, c);
    strike_stage(&s);
}

static void test_pages_that_come_during_a_step_are_not_missed(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    make(&s, 2);
    deliver(&s);
    struct conn *c = ask_as(&s, NULL, "0", NULL); /* the step waits */
    struct job *job = jobs_there.first;
    jobs_there = (struct jobs){.last = &jobs_there.first};
    dibs_arena *a = dibs_arena_new();
    job->run(job, s.f->d, a); /* it has read 1 2 */
    make(&s, 2);
    deliver(&s); /* and only now come 3 4 */
    assert_string_equal(c->out.data, "");
    job->done(job);
    assert_heard(c, "1 2");
    assert_int_equal(run_steps(&s), 1);
    assert_heard(c, "1 2 3 4");
    make(&s, 1);
    deliver(&s);
    assert_heard(c, "1 2 3 4 5");
    dibs_arena_free(a);
    conn_end(&s, c);
    strike_stage(&s);
}

/* The journal read on before it was told that somebody reads along. */
static void deliver_partial(struct stage *s)
{
    deliver_page(s, JOURNAL_PAGE_EVENTS, DIBS_STRINGS("session:registered"));
}

static void test_a_reader_that_is_given_a_partial_page_reads_what_it_lacks(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    make(&s, 2);
    deliver(&s);
    struct conn *c = ask(&s, NULL, "2");
    make(&s, 2);
    make_session(s.f, "somebody");
    deliver_partial(&s); /* only the session, which would be 5 */
    assert_heard(c, "");
    assert_int_equal(run_steps(&s), 1);
    assert_heard(c, "3 4 5");
    make(&s, 1);
    deliver(&s);
    assert_heard(c, "3 4 5 6");
    conn_end(&s, c);
    strike_stage(&s);
}

static void test_a_partial_page_that_tells_nothing_new_changes_nothing(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    make(&s, 1);
    make_session(s.f, "somebody"); /* both committed; the journal has come to neither */
    struct conn *c = ask(&s, NULL, "0");
    assert_heard(c, "1 2");
    deliver_partial(&s);
    assert_int_equal(run_steps(&s), 0);
    make(&s, 1);
    deliver(&s);
    assert_heard(c, "1 2 3");
    conn_end(&s, c);
    strike_stage(&s);
}

static void test_a_long_past_comes_in_steps_as_fast_as_it_is_taken(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    const char *text = repeated(s.f, 'x', 10000);
    for (int i = 0; i < 20; i++)
        make_task_as(s.f, (struct dibs_task_new){.title = "large", .description = text});
    deliver(&s);
    struct conn *c = ask_as(&s, "since=0", NULL, NULL);
    c->stuck = true;
    run_steps(&s);
    size_t most = 0;
    for (int rounds = 0; listen_to(c).last_id < 20; rounds++) {
        assert_true(rounds < 20);
        most = c->pending > most ? c->pending : most;
        assert_int_equal(run_steps(&s), 0); /* nothing is read ahead of it */
        c->pending = 0;
        sse_drained(s.sse, c);
        run_steps(&s);
    }
    assert_in_range(most, SSE_PENDING_LOW + 1, SSE_PENDING_MAX);
    assert_heard(c, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20");
    conn_end(&s, c);
    strike_stage(&s);
}

static void test_a_reader_that_is_too_slow_is_dropped_and_resumes(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    struct conn *slow = ask(&s, NULL, NULL), *fast = ask(&s, NULL, NULL);
    const char *text = repeated(s.f, 'x', 10000);
    slow->stuck = true;
    int made = 0;
    for (; !slow->closed && made < 20; made++) {
        make_task_as(s.f, (struct dibs_task_new){.title = "large", .description = text});
        deliver(&s);
        assert_true(slow->pending <= SSE_PENDING_MAX);
    }
    assert_in_range(made, 5, 8);
    assert_false(slow->flushed);
    assert_false(sse_owns(s.sse, slow));
    assert_int_equal(sse_stats(s.sse).dropped, 1);
    assert_int_equal(sse_stats(s.sse).readers, 1);
    assert_true(journal_is_eager);
    assert_int_equal(listen_to(fast).last_id, made);
    char id[32];
    int64_t had = listen_to(slow).last_id;
    snprintf(id, sizeof id, "%" PRId64, had);
    struct conn *back = ask(&s, NULL, id);
    char first[32];
    snprintf(first, sizeof first, "%" PRId64, had + 1);
    assert_int_equal(strncmp(listen_to(back).text, first, strlen(first)), 0);
    assert_int_equal(listen_to(back).last_id, made);
    conn_end(&s, slow);
    conn_end(&s, fast);
    conn_end(&s, back);
    strike_stage(&s);
}

static void test_an_event_larger_than_what_may_be_under_way_arrives(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    struct conn *live = ask(&s, NULL, NULL);
    const char *params = arena_printf(s.f->a, "\"%s\"", repeated(s.f, 'x', 200000));
    make_task_as(s.f, (struct dibs_task_new){.title = "huge", .params = params});
    make(&s, 1);
    deliver_some(&s, 1);
    deliver(&s);
    struct conn *past = ask(&s, "since=0", NULL);
    assert_heard(live, "1 2");
    assert_heard(past, "1 2");
    assert_int_equal(sse_stats(s.sse).dropped, 0);
    conn_end(&s, live);
    conn_end(&s, past);
    strike_stage(&s);
}

/* ---- coming and going ------------------------------------------------------------------------ */

static void test_a_caller_that_hangs_up_while_it_is_looked_up_is_forgotten(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    make(&s, 1);
    deliver(&s);
    struct conn *c = ask_as(&s, "since=0", NULL, NULL);
    assert_true(sse_owns(s.sse, c));
    sse_gone(s.sse, c);
    assert_false(sse_owns(s.sse, c));
    assert_int_equal(c->holds, 1); /* by the step, which knows that nobody wants it */
    assert_true(atomic_load(&jobs_there.first->gone));
    run_steps(&s);
    assert_int_equal(c->status, 0);
    conn_end(&s, c);
    strike_stage(&s);
}

static void test_a_connection_that_breaks_while_it_is_sent_to_is_forgotten(void **state)
{
    static const char *const queries[] = {NULL, "since=0"};
    struct stage s;
    raise_stage(&s, *state, 0);
    make(&s, 1);
    deliver(&s);
    for (int i = 0; i < 2; i++) { /* at the head, from the past, live */
        struct conn *head = ask_as(&s, queries[i], NULL, NULL);
        struct conn *later = ask(&s, queries[i], NULL);
        later->breaks = head->breaks = true;
        run_steps(&s);
        make(&s, 1);
        deliver(&s);
        assert_false(sse_owns(s.sse, later));
        assert_false(sse_owns(s.sse, head));
        conn_end(&s, head);
        conn_end(&s, later);
    }
    struct conn *at_once = conn_new(&s);
    at_once->breaks = true;
    sse_request(s.sse, at_once, &(struct http_request){.method = "GET", .query = ""}, NULL);
    assert_false(sse_owns(s.sse, at_once));
    conn_end(&s, at_once);
    strike_stage(&s);
}

static void test_when_the_reader_threads_are_busy_it_is_tried_again(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    make(&s, 2);
    deliver(&s);
    readers_full = true;
    struct conn *c = ask(&s, "since=0", NULL);
    assert_int_equal(c->status, 0);
    readers_full = false;
    for (int i = 0; i < 1000 && !jobs_there.first; i++)
        uv_run(&s.loop, UV_RUN_ONCE);
    run_steps(&s);
    assert_heard(c, "1 2");
    conn_end(&s, c);
    strike_stage(&s);
}

static bool keeps_none_of(void *context, struct conn *c)
{
    return c != context;
}

static void test_a_review_hangs_up_on_those_it_does_not_keep(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    struct conn *kept = ask(&s, NULL, NULL), *revoked = ask(&s, NULL, NULL);
    sse_review(s.sse, keeps_none_of, revoked);
    assert_true(revoked->closed);
    assert_false(kept->closed);
    make(&s, 1);
    deliver(&s);
    assert_heard(kept, "1");
    assert_heard(revoked, "");
    assert_int_equal(sse_stats(s.sse).dropped, 0);
    conn_end(&s, kept);
    conn_end(&s, revoked);
    strike_stage(&s);
}

static void test_at_the_end_readers_are_told_and_hung_up_on(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    make(&s, 1);
    deliver(&s);
    struct conn *c = ask(&s, "types=no:such", NULL), *opening = ask_as(&s, "since=0", NULL, NULL);
    make(&s, 1);
    deliver(&s);
    sse_stop(s.sse);
    assert_true(c->closed && c->flushed);
    assert_non_null(strstr(c->out.data, "id: 2\nevent: shutdown\ndata: {\"message\":"));
    assert_non_null(strstr(c->out.data, "\"retryMs\":1000}\n\n"));
    assert_refused_as(opening, 503, "STORE_UNAVAILABLE", "stopping");
    struct conn *late = ask(&s, NULL, NULL);
    assert_refused_as(late, 503, "STORE_UNAVAILABLE", "stopping");
    conn_end(&s, c);
    conn_end(&s, opening);
    conn_end(&s, late);
    strike_stage(&s);
}

static void test_keep_alives_tell_a_filtered_reader_how_far_it_is(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 20);
    struct conn *c = ask(&s, "types=no:such", NULL);
    make(&s, 3);
    deliver(&s);
    assert_int_equal(listen_to(c).last_id, 0);
    for (int i = 0; i < 1000 && !strstr(c->out.data, ": keep-alive\nid: 3\n\n"); i++)
        uv_run(&s.loop, UV_RUN_ONCE);
    assert_int_equal(listen_to(c).last_id, 3);
    assert_heard(c, "");
    conn_end(&s, c);
    strike_stage(&s);
}

/* ---- every order ----------------------------------------------------------------------------- */

#define CROWD 12

/* A reader that comes and goes, and all that it should have heard and has heard. */
struct member {
    struct conn *conn;
    const char *query;
    int64_t id; /* the last it knows */
    struct buf heard;
};

static void take_in(struct member *m)
{
    struct heard h = listen_to(m->conn);
    if (h.text[0])
        buf_printf(&m->heard, "%s%s", m->heard.len ? " " : "", h.text);
    if (h.last_id > m->id)
        m->id = h.last_id;
    buf_reset(&m->conn->out);
    buf_text(&m->conn->out, "");
}

static void come_back(struct stage *s, struct member *m)
{
    char id[32];
    take_in(m);
    conn_end(s, m->conn);
    snprintf(id, sizeof id, "%" PRId64, m->id);
    m->conn = ask_as(s, m->query, id, NULL);
}

/* One thing happens, by chance. */
static void happen(struct stage *s, struct member *crowd, uint64_t *seed)
{
    struct member *m = &crowd[chance(seed) % CROWD];
    switch (chance(seed) % 9) {
    case 0: make_in(s, NULL, chance(seed) % 2 ? "a" : "b"); break;
    case 1: make(s, 3); break;
    case 2: deliver_some(s, 1 + (int64_t)(chance(seed) % 3)); break;
    case 3: deliver(s); break;
    case 4: run_steps(s); break;
    case 5: come_back(s, m); break;
    case 6: m->conn->stuck = !m->conn->stuck; break;
    case 7: deliver_partial(s); break;
    default:
        m->conn->pending = 0;
        sse_drained(s->sse, m->conn);
        take_in(m);
    }
}

static void expect_all(struct stage *s, struct member *m)
{
    struct dibs_event_list page = {0};
    struct dibs_event_filter filter = {.limit = PAGE_MAX};
    struct buf expected;
    filter.project = strstr(m->query, "project=a") ? "a" : NULL;
    const struct dibs_strings one = DIBS_STRINGS("session:registered");
    if (strstr(m->query, "types"))
        filter.types = one;
    assert_ok(s->f, dibs_events(s->f->d, s->f->a, &filter, &page, &s->f->err));
    buf_init(&expected, 1 << 20);
    buf_text(&expected, "");
    for (size_t i = 0; i < page.count; i++)
        buf_printf(&expected, "%s%" PRId64, i ? " " : "", page.items[i].number);
    assert_string_equal(m->heard.data, expected.data);
    buf_release(&expected);
}

static void test_in_whatever_order_nothing_is_missed_or_doubled(void **state)
{
    static const char *const queries[] = {"since=0", "since=0&project=a",
                                          "since=0&types=session:registered"};
    struct stage s;
    struct member crowd[CROWD];
    uint64_t seed = test_seed();
    raise_stage(&s, *state, 0);
    make_session(s.f, "somebody");
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = (struct member){.query = queries[i % 3]};
        buf_init(&crowd[i].heard, 1 << 20);
        buf_text(&crowd[i].heard, "");
        crowd[i].conn = ask_as(&s, crowd[i].query, NULL, NULL);
    }
    for (int i = 0; i < 1200 && newest(&s) < 900; i++)
        happen(&s, crowd, &seed);
    for (int i = 0; i < CROWD; i++) {
        crowd[i].conn->stuck = false;
        crowd[i].conn->pending = 0;
        come_back(&s, &crowd[i]);
    }
    run_steps(&s);
    deliver(&s);
    for (int i = 0; i < CROWD; i++) {
        take_in(&crowd[i]);
        expect_all(&s, &crowd[i]);
        conn_end(&s, crowd[i].conn);
        buf_release(&crowd[i].heard);
    }
    strike_stage(&s);
}

/* ---- many ------------------------------------------------------------------------------------ */

static void test_a_thousand_readers_share_one_page(void **state)
{
    enum { READERS = 1000 };
    struct stage s;
    struct conn *crowd[READERS];
    raise_stage(&s, *state, 0);
    for (int i = 0; i < READERS; i++)
        crowd[i] = ask(&s, i % 2 ? "types=task:created" : NULL, NULL);
    make(&s, 20);
    uint64_t began = uv_hrtime();
    deliver(&s);
    double us = (double)(uv_hrtime() - began) / 1000.0;
    print_message("# %d readers, 20 events: %.1f us per reader\n", READERS, us / READERS);
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(listen_to(crowd[i]).last_id, 20);
        conn_end(&s, crowd[i]);
    }
    assert_int_equal(sse_stats(s.sse).sent_events, 20 * READERS);
    strike_stage(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_what_was_pruned_is_told_by_a_resync),
        STORE_TEST(test_events_pruned_under_a_live_reader_are_told_too),
        STORE_TEST(test_a_step_that_saw_more_than_the_journal_doubles_nothing),
        STORE_TEST(test_pages_that_come_during_a_step_are_not_missed),
        STORE_TEST(test_a_reader_that_is_given_a_partial_page_reads_what_it_lacks),
        STORE_TEST(test_a_partial_page_that_tells_nothing_new_changes_nothing),
        STORE_TEST(test_a_long_past_comes_in_steps_as_fast_as_it_is_taken),
        STORE_TEST(test_a_reader_that_is_too_slow_is_dropped_and_resumes),
        STORE_TEST(test_an_event_larger_than_what_may_be_under_way_arrives),
        STORE_TEST(test_a_caller_that_hangs_up_while_it_is_looked_up_is_forgotten),
        STORE_TEST(test_a_connection_that_breaks_while_it_is_sent_to_is_forgotten),
        STORE_TEST(test_when_the_reader_threads_are_busy_it_is_tried_again),
        STORE_TEST(test_a_review_hangs_up_on_those_it_does_not_keep),
        STORE_TEST(test_at_the_end_readers_are_told_and_hung_up_on),
        STORE_TEST(test_keep_alives_tell_a_filtered_reader_how_far_it_is),
        STORE_TEST(test_in_whatever_order_nothing_is_missed_or_doubled),
        STORE_TEST(test_a_thousand_readers_share_one_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
