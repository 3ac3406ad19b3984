/* SPDX-License-Identifier: MIT */
/*
 * create.c: sixteen processes find no store and make one, all at the same moment. There must be one
 * store in the end, with everybody's first write in it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "workers.h"

#define MAKERS 16

static void make_and_write(struct worker *w)
{
    struct dibs_task_list made = {0};
    struct dibs_grant g = {0};
    struct dibs_task done = {0};
    crew_barrier(w);
    worker_open(w);
    worker_register(w);
    struct dibs_task_new task = {.title = w->id}; /* without an id: the next number */
    must(w, dibs_task_create(w->d, w->a, &task, 1, &made, &w->err));
    must(w,
         dibs_claim_next(w->d, w->a, &(struct dibs_claim_next){.session_id = w->id}, &g, &w->err));
    struct dibs_report report = {.task_id = g.items[0].task.id, .session_id = w->id};
    must(w, dibs_complete(w->d, w->a, &report, &done, &w->err));
    struct note n = {.token = g.items[0].claim.token};
    snprintf(n.subject, sizeof n.subject, "%s", made.items[0].id);
    worker_note(w, n);
}

static void expect_all_there(struct place *p, struct crew *c)
{
    bool seen[MAKERS + 1] = {0};
    for (int i = 0; i < MAKERS; i++) {
        struct notes n = crew_notes(c, i);
        assert_int_equal(n.count, 1);
        long number = strtol(n.items[0].subject, NULL, 10);
        assert_in_range(number, 1, MAKERS);
        assert_false(seen[number]);
        seen[number] = true;
        free(n.items);
    }
    dibs *d = place_open(p);
    dibs_arena *a = dibs_arena_new();
    struct dibs_error err = {0};
    struct dibs_session_list sessions = {0};
    struct dibs_stats stats = {0};
    /* those who were done early may have been swept up by the others */
    struct dibs_session_filter all = {.include_ended = true, .limit = 1000};
    assert_int_equal(dibs_session_list(d, a, &all, &sessions, &err), DIBS_OK);
    assert_int_equal(sessions.count, MAKERS);
    assert_int_equal(dibs_stats(d, a, &stats, &err), DIBS_OK);
    assert_int_equal(stats.completed_ever, MAKERS);
    assert_true(place_is_sound(p, d));
    dibs_arena_free(a);
    dibs_close(d);
}

static void test_sixteen_processes_make_one_store_and_all_can_write_to_it(void **state)
{
    struct place *p = *state;
    int rounds = scaled(20, 3); /* each on a folder that is not there yet */
    for (int i = 0; i < rounds; i++) {
        snprintf(p->data_dir, sizeof p->data_dir, "%s/store-%d", p->dir, i % 1000);
        struct crew *c = crew_start(p, MAKERS, make_and_write, NULL);
        crew_wait(c);
        expect_all_there(p, c);
        crew_free(c);
    }
}

static void test_the_child_of_a_process_with_an_open_store_can_make_another(void **state)
{
    struct place *p = *state;
    struct place other = *p;
    snprintf(other.data_dir, sizeof other.data_dir, "%s/other", p->dir);
    dibs *inherited = place_open(&other);
    struct crew *c = crew_start(p, MAKERS, make_and_write, NULL);
    crew_wait(c);
    dibs_close(inherited);
    expect_all_there(p, c);
    crew_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_sixteen_processes_make_one_store_and_all_can_write_to_it),
        PLACE_TEST(test_the_child_of_a_process_with_an_open_store_can_make_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
