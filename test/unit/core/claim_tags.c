/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/claim_tags.c: among many ready tasks, the best one with the tags is found
 * whichever side is walked, and it is the one that looking at every task would find.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_help.h"

#define TASKS 1500

struct item {
    char id[16];
    int64_t priority;
    bool is_b, rare, common, ready, other_project;
};
static struct item items[TASKS];

static uint32_t chance(struct fixture *f, uint32_t below)
{
    uint32_t number = 0;
    f->world.platform.random(&f->world, &number, sizeof number);
    return number % below;
}

/* Many without the rare tag come first in every order. */
static void given_items(struct fixture *f)
{
    make_session(f, "s");
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    for (int i = 0; i < TASKS; i++) {
        bool is_edge = i < 400 || i >= TASKS - 400;
        const char *tags[2];
        size_t count = 0;
        items[i] = (struct item){.priority = is_edge ? 50 : 10 + chance(f, 80),
                                 .is_b = chance(f, 2),
                                 .rare = !is_edge && chance(f, 25) == 0,
                                 .common = chance(f, 10) < 7,
                                 .ready = chance(f, 10) > 0,
                                 .other_project = chance(f, 10) == 0};
        if (is_edge && i % 3 == 0)
            items[i].priority = i % 2 ? 0 : 100;
        snprintf(items[i].id, sizeof items[i].id, "t%d", i);
        if (items[i].rare)
            tags[count++] = "rare";
        if (items[i].common)
            tags[count++] = "common";
        struct dibs_task_new in = {.id = items[i].id,
                                   .title = "t",
                                   .type = items[i].is_b ? "b" : "a",
                                   .project = items[i].other_project ? "other" : "default",
                                   .priority = DIBS_VALUE(items[i].priority),
                                   .tags = {.items = tags, .count = count}};
        struct dibs_task_list out = {0};
        assert_ok(f, dibs_task_create(f->d, f->a, &in, 1, &out, &f->err));
        if (!items[i].ready)
            assert_ok(f, try_move(f, dibs_task_cancel, items[i].id, NULL));
    }
    assert_ok(f, dibs_batch_commit(f->d, &f->err));
}

static bool has(struct dibs_strings words, const char *word)
{
    for (size_t i = 0; i < words.count; i++)
        if (strcmp(words.items[i], word) == 0)
            return true;
    return false;
}

static bool fits(const struct dibs_claim_next *in, const struct item *item)
{
    bool type = in->types.count == 0 || has(in->types, item->is_b ? "b" : "a");
    bool tags =
        (item->rare || !has(in->tags, "rare")) && (item->common || !has(in->tags, "common"));
    return type && tags && item->ready && !item->other_project;
}

static bool is_better(const struct dibs_claim_next *in, int a, int b)
{
    bool by_priority = in->sort == DIBS_SORT_PRIORITY;
    if (by_priority && items[a].priority != items[b].priority)
        return (items[a].priority < items[b].priority) == (in->order == DIBS_ORDER_ASC);
    return by_priority || in->order != DIBS_ORDER_DESC ? a < b : a > b;
}

static const char *expected(const struct dibs_claim_next *in)
{
    int best = -1;
    for (int i = 0; i < TASKS; i++)
        if (fits(in, &items[i]) && (best < 0 || is_better(in, i, best)))
            best = i;
    return best < 0 ? "" : items[best].id;
}

static void test_the_best_task_with_the_tags_is_found_in_every_order(void **state)
{
    struct fixture *f = *state;
    const char *words[] = {"rare", "common"}, *types[] = {"a", "b"};
    given_items(f);
    for (int n = 0; n < 3 * 3 * 3 * 2; n++) {
        int tags = n % 3, kinds = n / 3 % 3;
        struct dibs_claim_next in = {
            .session_id = "s",
            .sort = n / 27 ? DIBS_SORT_CREATED_AT : DIBS_SORT_PRIORITY,
            .order = (enum dibs_order[]){DIBS_ORDER_STANDARD, DIBS_ORDER_ASC,
                                         DIBS_ORDER_DESC}[n / 9 % 3],
            .tags = {.items = words + (tags == 1), .count = tags == 2 ? 2 : 1},
            .types = {.items = types + (kinds == 1), .count = (size_t)kinds}};
        assert_ok(f, dibs_batch_begin(f->d, &f->err));
        assert_string_equal(claim_any(f, in), expected(&in));
        dibs_batch_cancel(f->d);
    }
}

static void test_a_tag_that_nobody_ready_has_finds_nothing(void **state)
{
    struct fixture *f = *state;
    const char *words[] = {"nobody", "common"};
    given_items(f);
    struct dibs_claim_next in = {.session_id = "s", .tags = {.items = words, .count = 1}};
    assert_string_equal(claim_any(f, in), "");
    in.tags.count = 2;
    assert_string_equal(claim_any(f, in), "");
}

static void test_every_task_with_a_rare_tag_is_given_once_in_random_order(void **state)
{
    struct fixture *f = *state;
    const char *words[] = {"rare"};
    given_items(f);
    struct dibs_claim_next in = {
        .session_id = "s", .sort = DIBS_SORT_RANDOM, .tags = {.items = words, .count = 1}};
    for (;;) {
        const char *id = claim_any(f, in);
        if (!*id)
            break;
        struct item *item = &items[strtol(id + 1, NULL, 10)];
        assert_true(fits(&in, item));
        item->ready = false;
    }
    for (int i = 0; i < TASKS; i++)
        assert_false(fits(&in, &items[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_the_best_task_with_the_tags_is_found_in_every_order),
        STORE_TEST(test_a_tag_that_nobody_ready_has_finds_nothing),
        STORE_TEST(test_every_task_with_a_rare_tag_is_given_once_in_random_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
