/* SPDX-License-Identifier: MIT */
/*
 * arena.c: tests of src/base/arena.c: alignment, zeroes, growth, reuse after a reset, and every
 * allocation failing once.
 */
#include "base/arena.h"

#include <setjmp.h>
#include <stdalign.h>

#include <cmocka.h>

static int requests, failing; /* requests for memory so far; the number of the one that fails */

static bool count_and_fail(void)
{
    return ++requests == failing;
}

/* watch: from now on requests are counted, and request number `which` fails (0: none). */
static void watch(int which)
{
    requests = 0;
    failing = which;
    mem_should_fail = count_and_fail;
}

static int stop_watching(void **state)
{
    (void)state;
    mem_should_fail = NULL;
    return 0;
}

static void test_blocks_of_every_size_are_aligned_zeroed_and_apart(void **state)
{
    (void)state;
    dibs_arena *a = dibs_arena_new();
    assert_non_null(a);
    unsigned char *blocks[300];
    size_t sizes[300];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT_OF(blocks); i++) {
            sizes[i] = i * i; /* 0 to 89,401: tiny, normal and large */
            blocks[i] = arena_alloc(a, sizes[i]);
            assert_non_null(blocks[i]);
            assert_int_equal((uintptr_t)blocks[i] % alignof(max_align_t), 0);
            for (size_t k = 0; k < sizes[i]; k++)
                assert_int_equal(blocks[i][k], 0);
            memset(blocks[i], (int)(i & 255), sizes[i]);
        }
        for (size_t i = 0; i < COUNT_OF(blocks); i++) {
            for (size_t k = 0; k < sizes[i]; k++)
                assert_int_equal(blocks[i][k], i & 255);
        }
        dibs_arena_reset(a);
    }
    dibs_arena_free(a);
}

static void test_the_same_work_after_a_reset_needs_no_new_memory(void **state)
{
    (void)state;
    dibs_arena *a = dibs_arena_new();
    for (int round = 0; round < 5; round++) {
        watch(0);
        for (int i = 0; i < 500; i++)
            assert_non_null(arena_alloc(a, 1000));
        if (round == 0)
            assert_in_range(requests, 5, 50);
        else
            assert_int_equal(requests, 0);
        dibs_arena_reset(a);
    }
    dibs_arena_free(a);
}

static void test_a_reset_does_not_keep_a_huge_answer(void **state)
{
    (void)state;
    dibs_arena *a = dibs_arena_new();
    for (int i = 0; i < 64 * 1024; i++)
        assert_non_null(arena_alloc(a, 1000));
    dibs_arena_reset(a);
    watch(0);
    for (int i = 0; i < 64 * 1024; i++)
        assert_non_null(arena_alloc(a, 1000));
    assert_in_range(requests, 900, 1100); /* 64 MB in 64 KiB chunks, less the 1 MiB that was kept */
    dibs_arena_free(a);
}

static void test_text_is_copied_and_terminated(void **state)
{
    (void)state;
    dibs_arena *a = dibs_arena_new();
    assert_string_equal(arena_copy(a, "abcdef", 3), "abc");
    assert_string_equal(arena_copy(a, NULL, 0), "");
    assert_string_equal(arena_strdup(a, "whole"), "whole");
    assert_null(arena_strdup(a, NULL));
    assert_string_equal(arena_printf(a, "%s-%d", "t", 7), "t-7");
    char *wide = arena_printf(a, "%50000d", 1);
    assert_int_equal(strlen(wide), 50000);
    dibs_arena_free(a);
}

static void test_pushed_elements_stay_in_order_and_start_zeroed(void **state)
{
    (void)state;
    struct pair {
        size_t number;
        char text[24];
    } *items = NULL;
    size_t count = 0;
    dibs_arena *a = dibs_arena_new();
    for (size_t i = 0; i < 5000; i++) {
        struct pair *p = arena_push(a, (void **)&items, &count, sizeof *p);
        assert_non_null(p);
        assert_ptr_equal(p, items + i);
        assert_int_equal(p->number, 0);
        p->number = i;
        memset(p->text, 'x', sizeof p->text);
    }
    assert_int_equal(count, 5000);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(items[i].number, i);
    dibs_arena_free(a);
}

static void test_sizes_beyond_memory_are_refused(void **state)
{
    (void)state;
    dibs_arena *a = dibs_arena_new();
    void *items = NULL;
    size_t count = 0;
    assert_null(arena_alloc(a, SIZE_MAX));
    assert_null(arena_alloc(a, SIZE_MAX - 20));
    assert_null(arena_copy(a, "x", SIZE_MAX));
    assert_null(arena_push(a, &items, &count, SIZE_MAX / 4));
    assert_null(items);
    assert_int_equal(count, 0);
    dibs_arena_free(a);
}

/* work: a bit of everything; false as soon as something found no memory, with the arena still
 * usable. */
static bool work(dibs_arena *a)
{
    void *items = NULL;
    size_t count = 0;
    for (size_t i = 0; i < 600; i++) {
        void *before = items;
        size_t *number = arena_push(a, &items, &count, sizeof *number);
        if (number == NULL) {
            assert_ptr_equal(items, before);
            assert_int_equal(count, i);
            return false;
        }
        *number = i;
    }
    return arena_alloc(a, 100000) != NULL && arena_printf(a, "%30000d", 1) != NULL &&
           arena_strdup(a, "end") != NULL;
}

static void test_each_failing_allocation_is_told_and_nothing_leaks(void **state)
{
    (void)state;
    bool whole = false;
    int which = 0;
    while (!whole) {
        watch(++which);
        dibs_arena *a = dibs_arena_new();
        whole = a != NULL && work(a);
        assert_int_equal(whole, requests < which);
        if (a != NULL) {
            watch(0);
            assert_non_null(arena_alloc(a, 5000)); /* still good after the failure */
            dibs_arena_reset(a);
            assert_true(work(a));
        }
        dibs_arena_free(a);
    }
    assert_in_range(which, 6, 100);
}

static void test_freeing_no_arena_is_fine(void **state)
{
    (void)state;
    dibs_arena_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_of_every_size_are_aligned_zeroed_and_apart),
        cmocka_unit_test_teardown(test_the_same_work_after_a_reset_needs_no_new_memory,
                                  stop_watching),
        cmocka_unit_test_teardown(test_a_reset_does_not_keep_a_huge_answer, stop_watching),
        cmocka_unit_test(test_text_is_copied_and_terminated),
        cmocka_unit_test(test_pushed_elements_stay_in_order_and_start_zeroed),
        cmocka_unit_test(test_sizes_beyond_memory_are_refused),
        cmocka_unit_test_teardown(test_each_failing_allocation_is_told_and_nothing_leaks,
                                  stop_watching),
        cmocka_unit_test(test_freeing_no_arena_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
