/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/server/sse_reader.c: what may be asked for, what is refused, and which events that
 * makes, live and from the past.
 */
#include "sse_stage.h"

/* ---- from now on, and from a number on ------------------------------------------------------- */

static void test_without_a_number_a_stream_begins_now(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    make(&s, 3);
    deliver(&s);
    struct conn *c = ask(&s, NULL, NULL);
    assert_int_equal(c->status, 200);
    assert_true(sse_owns(s.sse, c));
    assert_heard(c, "");
    /* a comment to see it is open, when to come back, and where it begins */
    assert_string_equal(c->out.data, ": dibs events\nretry: 1000\nid: 3\n\n");
    make(&s, 2);
    deliver(&s);
    assert_heard(c, "4 5");
    assert_int_equal(sse_stats(s.sse).readers, 1);
    assert_int_equal(sse_stats(s.sse).sent_events, 2);
    conn_end(&s, c);
    strike_stage(&s);
}

static void test_a_frame_has_number_type_and_the_words_of_a_page(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    struct conn *c = ask(&s, "since=0", NULL);
    make_in(&s, "t", "p");
    deliver(&s);
    const char *frame = strstr(c->out.data, "id: 1\n");
    assert_non_null(frame);
    assert_int_equal(strncmp(frame,
                             "id: 1\nevent: task:created\ndata: {\"id\":1,\"type\":"
                             "\"task:created\",\"at\":\"",
                             strlen("id: 1\nevent: task:created\ndata: {\"id\":1,\"type\":"
                                    "\"task:created\",\"at\":\"")),
                     0);
    assert_non_null(strstr(frame, "\"project\":\"p\",\"taskId\":\"t\",\"data\":{"));
    conn_end(&s, c);
    strike_stage(&s);
}

static void test_a_reader_gets_what_it_missed_and_then_what_comes(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    make(&s, 5);
    deliver(&s);
    struct conn *header = ask(&s, NULL, "2"), *query = ask(&s, "since=3", NULL);
    struct conn *both = ask(&s, "since=1", "4"), *all = ask(&s, "since=0", NULL);
    struct conn *none = ask(&s, NULL, "5"), *empty = ask(&s, NULL, "");
    make(&s, 1);
    deliver(&s);
    assert_heard(header, "3 4 5 6");
    assert_heard(query, "4 5 6");
    assert_heard(both, "5 6"); /* the header wins */
    assert_heard(all, "1 2 3 4 5 6");
    assert_heard(none, "6");
    assert_heard(empty, "6");
    struct conn *each[] = {header, query, both, all, none, empty};
    for (int i = 0; i < 6; i++)
        conn_end(&s, each[i]);
    strike_stage(&s);
}

static void test_a_position_that_cannot_be_is_refused_by_name(void **state)
{
    static const char *const bad[] = {"-1", "seven", "9223372036854775808", "1.5", "4", "7 "};
    struct stage s;
    raise_stage(&s, *state, 0);
    make(&s, 3); /* so 4 is in the future */
    deliver(&s);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char query[64];
        struct conn *c = ask(&s, NULL, bad[i]);
        assert_refused_as(c, 400, "INVALID_REQUEST", "'Last-Event-ID'");
        conn_end(&s, c);
        snprintf(query, sizeof query, "since=%s", i == 5 ? "7%20" : bad[i]);
        c = ask(&s, query, NULL);
        assert_refused_as(c, 400, "INVALID_REQUEST", "'since'");
        conn_end(&s, c);
    }
    assert_int_equal(sse_stats(s.sse).readers, 0);
    strike_stage(&s);
}

static void test_other_queries_that_cannot_be_are_refused_by_name(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    static const struct {
        const char *query, *word;
    } bad[] = {{"type=x", "'types'"}, {"detail=some", "'detail'"}, {"limit=5", "'limit'"}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct conn *c = ask(&s, bad[i].query, NULL);
        assert_refused_as(c, 400, "INVALID_REQUEST", bad[i].word);
        conn_end(&s, c);
    }
    struct conn *c = ask(&s, "taskId=nobody", NULL);
    assert_refused_as(c, 404, "TASK_NOT_FOUND", "nobody");
    assert_false(sse_owns(s.sse, c));
    conn_end(&s, c);
    strike_stage(&s);
}

/* ---- filters --------------------------------------------------------------------------------- */

static void make_story(struct stage *s)
{
    struct dibs_cleaned cleaned = {0};
    make_in(s, "t1", "a");   /* 1 */
    make_in(s, "t2", "b");   /* 2 */
    make_session(s->f, "s"); /* 3 */
    claim(s->f, "t1", "s");  /* 4 */
    world_pass(&s->f->world, MINUTES(31));
    assert_ok(s->f, dibs_cleanup_expired(s->f->d, s->f->a, &cleaned, &s->f->err)); /* 5, 6 */
}

static void test_filters_mean_the_same_live_and_from_the_past(void **state)
{
    static const struct {
        const char *query, *expected;
    } each[] = {
        {"types=task:created", "1 2"},
        {"types=task:created,claim:expired", "1 2 5"},
        {"types=claim:expired&detail=summary", ""},
        {"detail=summary", "1 2 3 4 6"},
        {"detail=full", "1 2 3 4 5 6"},
        {"project=a", "1 4 5"},
        {"project=b", "2"},
        {"project=nowhere", ""},
        {"types=claims:cleanup,session:registered", "3 6"},
    };
    struct stage s;
    struct conn *live[COUNT_OF(each)];
    raise_stage(&s, *state, 0);
    for (size_t i = 0; i < COUNT_OF(each); i++)
        live[i] = ask(&s, each[i].query, NULL);
    make_story(&s);
    deliver(&s);
    for (size_t i = 0; i < COUNT_OF(each); i++) {
        char query[128];
        snprintf(query, sizeof query, "since=0&%s", each[i].query);
        struct conn *past = ask(&s, query, NULL);
        assert_heard(live[i], each[i].expected);
        assert_heard(past, each[i].expected);
        conn_end(&s, past);
        conn_end(&s, live[i]);
    }
    strike_stage(&s);
}

static void test_events_of_one_task(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    make_story(&s);
    deliver(&s);
    struct conn *now = ask(&s, "taskId=t1", NULL), *past = ask(&s, "taskId=t1", "1");
    claim(s.f, "t2", "s"); /* 7 */
    claim(s.f, "t1", "s"); /* 8 */
    deliver(&s);
    assert_heard(now, "8");
    assert_heard(past, "4 5 8");
    conn_end(&s, now);
    conn_end(&s, past);
    strike_stage(&s);
}

static void test_a_key_sees_its_project_only(void **state)
{
    struct stage s;
    raise_stage(&s, *state, 0);
    struct conn *own = ask_as(&s, NULL, NULL, "b"), *same = ask_as(&s, "project=b", NULL, "b");
    struct conn *other = ask_as(&s, "project=a", NULL, "b");
    make_story(&s);
    deliver(&s);
    assert_heard(own, "2");
    assert_heard(same, "2");
    assert_refused_as(other, 403, "FORBIDDEN", "'b'");
    conn_end(&s, own);
    conn_end(&s, same);
    conn_end(&s, other);
    strike_stage(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_without_a_number_a_stream_begins_now),
        STORE_TEST(test_a_frame_has_number_type_and_the_words_of_a_page),
        STORE_TEST(test_a_reader_gets_what_it_missed_and_then_what_comes),
        STORE_TEST(test_a_position_that_cannot_be_is_refused_by_name),
        STORE_TEST(test_other_queries_that_cannot_be_are_refused_by_name),
        STORE_TEST(test_filters_mean_the_same_live_and_from_the_past),
        STORE_TEST(test_events_of_one_task),
        STORE_TEST(test_a_key_sees_its_project_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
