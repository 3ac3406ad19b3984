/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/follow.c: steps along the journal that tell how far they have looked, with the
 * filter that pages have.
 */
#include "core/follow.h"

#include "core_help.h"

static struct dibs_followed step(struct fixture *f, struct dibs_follow in)
{
    struct dibs_followed out = {0};
    if (in.filter.limit == 0)
        in.filter.limit = 1000;
    assert_ok(f, dibs__follow(f->d, f->a, &in, &out, &f->err));
    return out;
}

static void make_in_project(struct fixture *f, const char *id, const char *project)
{
    make_task_as(f, (struct dibs_task_new){.id = id, .title = id, .project = project});
}

/* Five tasks, t1 to t5, in projects a and b by turns: an event each. */
static void make_five(struct fixture *f)
{
    static const char *const ids_[] = {"t1", "t2", "t3", "t4", "t5"};
    for (int i = 0; i < 5; i++)
        make_in_project(f, ids_[i], i % 2 ? "b" : "a");
}

static void test_a_step_ends_at_its_limit_and_says_where(void **state)
{
    struct fixture *f = *state;
    make_five(f);
    struct dibs_followed got = step(f, (struct dibs_follow){.filter = {.limit = 2}});
    assert_int_equal(got.list.count, 2);
    assert_int_equal(got.through, 2);
    assert_int_equal(got.list.last, 5);
    got = step(f, (struct dibs_follow){.filter = {.since = got.through}});
    assert_int_equal(got.list.count, 3);
    assert_int_equal(got.list.items[0].number, 3);
    assert_int_equal(got.through, 5);
}

static void test_a_step_that_finds_nothing_has_looked_to_the_end(void **state)
{
    struct fixture *f = *state;
    make_five(f);
    struct dibs_follow in = {.filter = {.types = DIBS_STRINGS("no:such")}};
    assert_int_equal(step(f, in).list.count, 0);
    assert_int_equal(step(f, in).through, 5);
    in.filter.types = (struct dibs_strings){0};
    in.filter.task_id = "t2"; /* the rows of one task end before the journal does */
    assert_int_equal(step(f, in).list.count, 1);
    assert_int_equal(step(f, in).through, 5);
}

static void test_a_step_looks_at_so_many_events_at_most(void **state)
{
    struct fixture *f = *state;
    make_five(f);
    struct dibs_follow in = {.filter = {.project = "b"}, .rows_max = 3};
    struct dibs_followed got = step(f, in);
    assert_int_equal(got.list.count, 1);
    assert_int_equal(got.through, 3);
    in.filter.since = got.through;
    got = step(f, in);
    assert_int_equal(got.list.count, 1);
    assert_int_equal(got.list.items[0].number, 4);
    assert_int_equal(got.through, 5);
}

static void test_a_step_ends_with_the_event_that_makes_it_large(void **state)
{
    struct fixture *f = *state;
    make_task(f, "small");
    make_task_as(f, (struct dibs_task_new){
                        .id = "large", .title = "large", .description = repeated(f, 'x', 9000)});
    make_task(f, "next");
    struct dibs_followed got = step(f, (struct dibs_follow){.bytes_max = 8000});
    assert_int_equal(got.list.count, 2);
    assert_int_equal(got.through, 2);
    /* even one that is too large alone is read, else nobody would ever come past it */
    got = step(f, (struct dibs_follow){.filter = {.since = 1}, .bytes_max = 1});
    assert_int_equal(got.list.count, 1);
    assert_int_equal(got.through, 2);
}

static void test_an_unknown_task_and_a_negative_number_are_refused(void **state)
{
    struct fixture *f = *state;
    struct dibs_followed out = {.through = 77};
    struct dibs_follow in = {.filter = {.task_id = "nobody", .limit = 1}};
    assert_refused(f, DIBS_TASK_NOT_FOUND, dibs__follow(f->d, f->a, &in, &out, &f->err));
    in = (struct dibs_follow){.filter = {.since = -1, .limit = 1}};
    assert_refused(f, DIBS_INVALID_REQUEST, dibs__follow(f->d, f->a, &in, &out, &f->err));
    assert_int_equal(out.through, 77);
}

/* A sweep with two claims in it, an expiry and a release, in two projects. */
static void make_history(struct fixture *f)
{
    make_five(f);
    make_session(f, "s");
    claim(f, "t1", "s");
    claim(f, "t2", "s");
    claim(f, "t3", "s");
    assert_ok(f, try_release(f, "t3", "s", 0, NULL));
    world_pass(&f->world, MINUTES(31));
    struct dibs_cleaned cleaned = {0};
    assert_ok(f, dibs_cleanup_expired(f->d, f->a, &cleaned, &f->err));
    make_task(f, "t6");
}

static void test_the_filter_is_that_of_pages(void **state)
{
    struct fixture *f = *state;
    make_history(f);
    const struct dibs_event_filter filters[] = {
        {0},
        {.project = "a"},
        {.project = "nowhere"},
        {.task_id = "t1"},
        {.task_id = "t1", .project = "b"},
        {.types = DIBS_STRINGS("task:created", "claims:cleanup")},
        {.types = DIBS_STRINGS("claim:expired")},
        {.types = DIBS_STRINGS("claim:released", "claim:orphaned")},
        {.summary = true},
        {.summary = true, .project = "a"},
        {.since = 7, .summary = true, .types = DIBS_STRINGS("claim:expired", "claims:cleanup")},
    };
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        struct dibs_event_list page = {0};
        assert_ok(f, dibs_events(f->d, f->a, &filters[i], &page, &f->err));
        struct dibs_followed got = step(f, (struct dibs_follow){.filter = filters[i]});
        assert_int_equal(got.list.count, page.count);
        for (size_t k = 0; k < page.count; k++)
            assert_int_equal(got.list.items[k].number, page.items[k].number);
        assert_int_equal(got.list.first_kept, page.first_kept);
        assert_int_equal(got.list.last, page.last);
    }
    /* and they do leave something out, else this would have compared nothing */
    struct dibs_follow all = {0}, summary = {.filter = {.summary = true}};
    assert_int_equal(step(f, all).list.count - step(f, summary).list.count, 2);
    struct dibs_follow expired = {.filter = {.types = DIBS_STRINGS("claim:expired")}};
    assert_int_equal(step(f, expired).list.count, 2);
}

static void test_the_counter_grows_when_another_handle_commits(void **state)
{
    struct fixture *f = *state;
    dibs *other = fixture_open(f);
    int64_t before = dibs__change_counter(other);
    assert_int_equal(dibs__change_counter(other), before);
    make_task(f, "t");
    int64_t after = dibs__change_counter(other);
    assert_true(after > before);
    assert_int_equal(dibs__change_counter(other), after);
    dibs_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_step_ends_at_its_limit_and_says_where),
        STORE_TEST(test_a_step_that_finds_nothing_has_looked_to_the_end),
        STORE_TEST(test_a_step_looks_at_so_many_events_at_most),
        STORE_TEST(test_a_step_ends_with_the_event_that_makes_it_large),
        STORE_TEST(test_an_unknown_task_and_a_negative_number_are_refused),
        STORE_TEST(test_the_filter_is_that_of_pages),
        STORE_TEST(test_the_counter_grows_when_another_handle_commits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
