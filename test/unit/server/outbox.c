/* SPDX-License-Identifier: MIT */
/* Tests of src/server/outbox.c: no answer leaves before what it can have seen is on disk. */
#include "server/outbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct stage {
    uv_loop_t loop;
    struct mail mail;
    struct outbox *outbox;
    int hints, breaks;
    atomic_bool settled;
    char left[32]; /* names of the jobs that have left, in order */
};

struct parcel {
    struct job job;
    struct stage *stage;
    char name;
    bool lost;
};

static void parcel_done(struct job *job)
{
    struct parcel *p = (struct parcel *)job;
    size_t count = strlen(p->stage->left);
    p->stage->left[count] = p->lost ? '!' : p->name;
}

static void parcel_lost(struct job *job, const struct dibs_error *err)
{
    assert_int_equal(err->code, DIBS_STORE_UNAVAILABLE);
    ((struct parcel *)job)->lost = true;
}

static void on_durable(void *context)
{
    ((struct stage *)context)->hints++;
}

static void on_broken(void *context)
{
    ((struct stage *)context)->breaks++;
}

static void open_stage(struct stage *s)
{
    *s = (struct stage){0};
    assert_int_equal(uv_loop_init(&s->loop), 0);
    assert_int_equal(mail_open(&s->mail, &s->loop), 0);
    s->outbox = outbox_new(&(struct outbox_options){
        .mail = &s->mail, .on_durable = on_durable, .on_broken = on_broken, .context = s});
    assert_non_null(s->outbox);
}

static void close_stage(struct stage *s)
{
    mail_close(&s->mail);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&s->loop), 0);
    outbox_free(s->outbox);
}

static struct parcel parcel(struct stage *s, char name)
{
    return (struct parcel){
        .job = {.done = parcel_done, .lost = parcel_lost}, .stage = s, .name = name};
}

/* left: what has come out so far. */
static const char *left(struct stage *s)
{
    uv_run(&s->loop, UV_RUN_NOWAIT);
    return s->left;
}

static void test_what_has_seen_only_the_disk_leaves_at_once(void **state)
{
    struct stage s;
    (void)state;
    open_stage(&s);
    struct parcel a = parcel(&s, 'a'), b = parcel(&s, 'b');
    outbox_send(s.outbox, &a.job);
    assert_string_equal(left(&s), "a");
    outbox_committed(s.outbox, 3);
    outbox_durable(s.outbox, 3);
    outbox_send(s.outbox, &b.job);
    assert_string_equal(left(&s), "ab");
    close_stage(&s);
}

static void test_an_answer_waits_for_the_commit_it_can_have_seen(void **state)
{
    struct stage s;
    (void)state;
    open_stage(&s);
    struct parcel a = parcel(&s, 'a'), b = parcel(&s, 'b');
    outbox_committed(s.outbox, 1);
    outbox_send(s.outbox, &a.job);
    outbox_committed(s.outbox, 2);
    outbox_send(s.outbox, &b.job);
    assert_string_equal(left(&s), "");
    outbox_durable(s.outbox, 1);
    assert_string_equal(left(&s), "a");
    outbox_durable(s.outbox, 2);
    assert_string_equal(left(&s), "ab");
    assert_int_equal(s.hints, 2);
    close_stage(&s);
}

static void test_what_is_sent_while_a_commit_is_under_way_waits_for_that_one(void **state)
{
    struct stage s;
    (void)state;
    open_stage(&s);
    struct parcel a = parcel(&s, 'a'), b = parcel(&s, 'b');
    outbox_committing(s.outbox);
    outbox_send(s.outbox, &a.job);
    assert_string_equal(left(&s), "");
    outbox_durable(s.outbox, 1); /* the disk may be faster than the writer's next line */
    assert_string_equal(left(&s), "");
    outbox_committed(s.outbox, 1);
    assert_string_equal(left(&s), "a");
    outbox_committing(s.outbox);
    outbox_send(s.outbox, &b.job);
    outbox_committed(s.outbox, 2);
    assert_string_equal(left(&s), "a");
    outbox_durable(s.outbox, 2);
    assert_string_equal(left(&s), "ab");
    close_stage(&s);
}

static void test_a_commit_in_which_nothing_was_written_holds_nobody_up(void **state)
{
    struct stage s;
    (void)state;
    open_stage(&s);
    struct parcel a = parcel(&s, 'a');
    outbox_committed(s.outbox, 5);
    outbox_durable(s.outbox, 5);
    outbox_committing(s.outbox);
    outbox_send(s.outbox, &a.job);
    outbox_committed(s.outbox, 5);
    assert_string_equal(left(&s), "a");
    close_stage(&s);
}

static void test_after_a_failed_flush_everybody_is_told_that_it_is_not_known(void **state)
{
    struct stage s;
    (void)state;
    open_stage(&s);
    struct parcel a = parcel(&s, 'a'), b = parcel(&s, 'b'), c = parcel(&s, 'c');
    outbox_committed(s.outbox, 1);
    outbox_durable(s.outbox, 1);
    outbox_send(s.outbox, &a.job);
    outbox_committed(s.outbox, 2);
    outbox_send(s.outbox, &b.job);
    outbox_durable(s.outbox, -1);
    assert_string_equal(left(&s), "a!");
    outbox_send(s.outbox, &c.job);
    assert_string_equal(left(&s), "a!!");
    assert_int_equal(s.breaks, 1);
    assert_false(outbox_settle(s.outbox));
    close_stage(&s);
}

static void settle_thread(void *context)
{
    struct stage *s = context;
    assert_true(outbox_settle(s->outbox));
    atomic_store(&s->settled, true);
}

static void test_settling_waits_for_what_was_committed_by_then(void **state)
{
    struct stage s;
    uv_thread_t thread;
    (void)state;
    open_stage(&s);
    outbox_committed(s.outbox, 7);
    assert_int_equal(uv_thread_create(&thread, settle_thread, &s), 0);
    assert_false(atomic_load(&s.settled));
    outbox_durable(s.outbox, 6);
    outbox_durable(s.outbox, 7);
    uv_thread_join(&thread);
    assert_true(atomic_load(&s.settled));
    assert_true(outbox_settle(s.outbox));
    close_stage(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_has_seen_only_the_disk_leaves_at_once),
        cmocka_unit_test(test_an_answer_waits_for_the_commit_it_can_have_seen),
        cmocka_unit_test(test_what_is_sent_while_a_commit_is_under_way_waits_for_that_one),
        cmocka_unit_test(test_a_commit_in_which_nothing_was_written_holds_nobody_up),
        cmocka_unit_test(test_after_a_failed_flush_everybody_is_told_that_it_is_not_known),
        cmocka_unit_test(test_settling_waits_for_what_was_committed_by_then),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
