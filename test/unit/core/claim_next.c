/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/claim_next.c: which task a session gets, in which order, through which filters,
 * and that "nothing to claim" is a fact.
 */
#include "core/core.h"
#include "core_help.h"

static dibs_status try_next(struct fixture *f, struct dibs_claim_next in)
{
    struct dibs_grant out = {0};
    return dibs_claim_next(f->d, f->a, &in, &out, &f->err);
}

static struct dibs_grant next(struct fixture *f, struct dibs_claim_next in)
{
    struct dibs_grant out = {0};
    assert_ok(f, dibs_claim_next(f->d, f->a, &in, &out, &f->err));
    return out;
}

/* The ids of up to `count` tasks, claimed in one call. */
static const char *take_many(struct fixture *f, struct dibs_claim_next in, int64_t count)
{
    in.session_id = "s";
    in.count = count;
    struct dibs_grant grant = next(f, in);
    const char *text = "";
    for (size_t i = 0; i < grant.count; i++)
        text = arena_printf(f->a, "%s%s%s", text, i ? " " : "", grant.items[i].task.id);
    return text;
}

/* The same, claimed one by one. */
static const char *take_each(struct fixture *f, struct dibs_claim_next in)
{
    const char *text = "";
    in.session_id = "s";
    for (const char *id = claim_any(f, in); *id; id = claim_any(f, in))
        text = arena_printf(f->a, "%s%s%s", text, *text ? " " : "", id);
    return text;
}

static void give_all_back(struct fixture *f)
{
    struct dibs_cleaned cleaned = {0};
    assert_ok(f, dibs_release_session_claims(f->d, f->a, "s", NULL, &cleaned, &f->err));
}

static void make_prioritised(struct fixture *f, const char *id, int64_t priority)
{
    make_task_as(
        f, (struct dibs_task_new){.id = id, .type = "work", .priority = DIBS_VALUE(priority)});
}

/* ---- the best -------------------------------------------------------------------------------- */

static void test_the_next_task_has_the_highest_priority_and_then_the_greatest_age(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_prioritised(f, "a", 50);
    make_prioritised(f, "b", 90);
    make_prioritised(f, "c", 10);
    make_prioritised(f, "d", 90);
    make_prioritised(f, "e", 50);
    assert_string_equal(take_each(f, (struct dibs_claim_next){0}), "b d a e c");
}

static void test_the_grant_is_the_task_and_its_claim(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_as(f, (struct dibs_task_new){.id = "t", .params = "{\"n\": 1}"});
    struct dibs_grant g = next(f, (struct dibs_claim_next){.session_id = "s",
                                                           .ttl_ms = MINUTES(9),
                                                           .agent_type = "autonomous",
                                                           .metadata = "[7]"});
    assert_int_equal(g.count, 1);
    assert_string_equal(g.items[0].task.id, "t");
    assert_string_equal(g.items[0].task.params, "{\"n\": 1}");
    assert_int_equal(g.items[0].task.status, DIBS_TASK_IN_PROGRESS);
    assert_int_equal(g.items[0].task.attempts, 1);
    assert_int_equal(g.items[0].task.claim->token, g.items[0].claim.token);
    assert_int_equal(g.items[0].claim.ttl_ms, MINUTES(9));
    assert_string_equal(g.items[0].claim.agent_type, "autonomous");
    assert_string_equal(g.items[0].claim.metadata, "[7]");
    assert_string_equal(g.items[0].claim.session_id, "s");
    assert_event_count(f, "task:claimed", 1);
}

static void test_all_three_sorts_honour_both_orders(void **state)
{
    struct fixture *f = *state;
    static const struct {
        enum dibs_sort sort;
        enum dibs_order order;
        const char *expected;
    } sorts[] = {
        {DIBS_SORT_PRIORITY, DIBS_ORDER_STANDARD, "b d a e c"},
        {DIBS_SORT_PRIORITY, DIBS_ORDER_DESC, "b d a e c"},
        {DIBS_SORT_PRIORITY, DIBS_ORDER_ASC, "c a e b d"},
        {DIBS_SORT_CREATED_AT, DIBS_ORDER_STANDARD, "a b c d e"},
        {DIBS_SORT_CREATED_AT, DIBS_ORDER_ASC, "a b c d e"},
        {DIBS_SORT_CREATED_AT, DIBS_ORDER_DESC, "e d c b a"},
    };
    make_session(f, "s");
    make_prioritised(f, "a", 50);
    make_prioritised(f, "b", 90);
    make_prioritised(f, "c", 10);
    make_prioritised(f, "d", 90);
    make_prioritised(f, "e", 50);
    make_task_as(f, (struct dibs_task_new){.id = "f", .type = "other", .assignee = "amy"});
    for (size_t i = 0; i < COUNT_OF(sorts); i++) {
        struct dibs_claim_next in = {.sort = sorts[i].sort, .order = sorts[i].order};
        assert_string_equal(take_each(f, in), sorts[i].expected);
        give_all_back(f);
        assert_string_equal(take_many(f, in, 100), sorts[i].expected);
        give_all_back(f);
        in.types = DIBS_STRINGS("work"); /* another index */
        assert_string_equal(take_each(f, in), sorts[i].expected);
        give_all_back(f);
    }
}

static void test_random_returns_every_task_sooner_or_later_and_none_twice(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    for (int i = 0; i < 6; i++)
        make_prioritised(f, arena_printf(f->a, "%c", 'a' + i), i * 20);
    bool seen[6] = {false};
    int different = 0;
    for (int i = 0; i < 200; i++) { /* the chance that one of six never comes first is 10^-15 */
        struct dibs_claim_next in = {.session_id = "s", .sort = DIBS_SORT_RANDOM};
        in.order = i % 3 == 0 ? DIBS_ORDER_STANDARD : i % 3 == 1 ? DIBS_ORDER_ASC : DIBS_ORDER_DESC;
        in.types = DIBS_STRINGS("work");
        in.types.count = i % 2;
        const char *id = claim_any(f, in);
        different += !seen[id[0] - 'a'];
        seen[id[0] - 'a'] = true;
        assert_ok(f, try_release(f, id, "s", 0, NULL));
    }
    assert_int_equal(different, 6);
    assert_int_equal(strlen(take_each(f, (struct dibs_claim_next){.sort = DIBS_SORT_RANDOM})), 11);
}

/* ---- filters --------------------------------------------------------------------------------- */

static void test_types_keep_tasks_of_any_of_them_and_the_best_of_all_wins(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_as(f, (struct dibs_task_new){.id = "a", .type = "x"});
    make_task_as(f, (struct dibs_task_new){.id = "b", .type = "y", .priority = DIBS_VALUE(60)});
    make_task_as(f, (struct dibs_task_new){.id = "c", .type = "z", .priority = DIBS_VALUE(99)});
    make_task_as(f, (struct dibs_task_new){.id = "d"});
    make_task_as(f, (struct dibs_task_new){.id = "e", .type = "x", .priority = DIBS_VALUE(60)});
    struct dibs_claim_next in = {.types = DIBS_STRINGS("x", "y", "none", "x")};
    assert_string_equal(take_each(f, in), "b e a");
    in.types = DIBS_STRINGS("none");
    assert_string_equal(take_each(f, in), "");
    in.types = DIBS_STRINGS("Z");
    assert_string_equal(take_each(f, in), "");
    assert_string_equal(take_each(f, (struct dibs_claim_next){0}), "c d");
}

static void test_tags_keep_tasks_that_have_all_of_them(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_as(f, (struct dibs_task_new){.id = "a", .tags = DIBS_STRINGS("gpu")});
    make_task_as(f, (struct dibs_task_new){.id = "b", .tags = DIBS_STRINGS("gpu", "big", "eu")});
    make_task_as(f, (struct dibs_task_new){.id = "c"});
    make_task_as(f, (struct dibs_task_new){.id = "d", .tags = DIBS_STRINGS("big", "gpu")});
    struct dibs_claim_next in = {.tags = DIBS_STRINGS("gpu", "big")};
    assert_string_equal(take_each(f, in), "b d");
    in.tags = DIBS_STRINGS("gpu", "none");
    assert_string_equal(take_each(f, in), "");
    in.tags = DIBS_STRINGS("gpu");
    assert_string_equal(take_each(f, in), "a");
}

/* A task with so many attempts made of so many. */
static void make_tried(struct fixture *f, const char *id, int64_t attempts, int64_t max_attempts)
{
    make_task_as(f, (struct dibs_task_new){.id = id, .max_attempts = DIBS_VALUE(max_attempts)});
    for (int64_t i = 0; i < attempts; i++) {
        assert_ok(f, try_claim(f, id, "s", 0));
        assert_ok(f, try_fail(f, id, "s", 0, "boom"));
        world_pass(&f->world, MINUTES(10));
    }
}

static void test_attempts_remaining_keeps_tasks_with_attempts_below_their_limit_minus_n(
    void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_tried(f, "0of3", 0, 3);
    make_tried(f, "1of3", 1, 3);
    make_tried(f, "2of3", 2, 3);
    make_tried(f, "0of1", 0, 1);
    make_tried(f, "4ofany", 4, 0);
    static const struct {
        int64_t n;
        const char *expected;
    } cases[] = {{0, "0of3 1of3 2of3 0of1 4ofany"},
                 {1, "0of3 1of3 4ofany"},
                 {2, "0of3 4ofany"},
                 {3, "4ofany"},
                 {1000000, "4ofany"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct dibs_claim_next in = {.max_attempts_remaining = DIBS_VALUE(cases[i].n)};
        assert_string_equal(take_each(f, in), cases[i].expected);
        give_all_back(f);
    }
}

static void test_filters_together_keep_what_passes_all(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_as(f, (struct dibs_task_new){.id = "a", .type = "x", .tags = DIBS_STRINGS("gpu")});
    make_task_as(f, (struct dibs_task_new){.id = "b", .type = "y", .tags = DIBS_STRINGS("gpu")});
    make_task_as(f, (struct dibs_task_new){
                        .id = "c", .type = "x", .project = "p", .tags = DIBS_STRINGS("gpu")});
    make_task_as(f, (struct dibs_task_new){.id = "d", .type = "x"});
    struct dibs_claim_next in = {.types = DIBS_STRINGS("x"), .tags = DIBS_STRINGS("gpu")};
    for (int sort = DIBS_SORT_PRIORITY; sort <= DIBS_SORT_RANDOM; sort++) {
        in.sort = (enum dibs_sort)sort;
        assert_string_equal(take_each(f, in), "a");
        give_all_back(f);
    }
}

static void test_projects_are_apart(void **state)
{
    struct fixture *f = *state;
    make_project_session(f, "s", "apollo");
    make_task_as(f, (struct dibs_task_new){.id = "default", .priority = DIBS_VALUE(100)});
    make_task_as(f, (struct dibs_task_new){.id = "apollo", .project = "apollo"});
    make_task_as(f, (struct dibs_task_new){.id = "gemini", .project = "gemini"});
    assert_string_equal(take_each(f, (struct dibs_claim_next){0}), "apollo");
    assert_string_equal(take_each(f, (struct dibs_claim_next){.project = "gemini"}), "gemini");
    assert_string_equal(take_each(f, (struct dibs_claim_next){.project = "none"}), "");
}

/* ---- what is claimable ----------------------------------------------------------------------- */

static void test_tasks_assigned_to_the_agent_count_among_the_others(void **state)
{
    struct fixture *f = *state;
    make_agent_session(f, "s", "amy");
    make_task_as(f, (struct dibs_task_new){
                        .id = "a", .assignee = "amy", .type = "x", .tags = DIBS_STRINGS("gpu")});
    make_task_as(f, (struct dibs_task_new){.id = "b", .priority = DIBS_VALUE(60)});
    make_task_as(f, (struct dibs_task_new){.id = "c", .assignee = "bob"});
    make_task_as(f, (struct dibs_task_new){.id = "d"});
    make_task_as(f,
                 (struct dibs_task_new){.id = "e", .assignee = "amy", .priority = DIBS_VALUE(99)});
    make_task_as(f, (struct dibs_task_new){.id = "f", .assignee = "amy", .project = "p"});
    assert_string_equal(take_each(f, (struct dibs_claim_next){0}), "e b a d");
    give_all_back(f);
    assert_status(f, "a", "assigned");
    struct dibs_claim_next newest = {.sort = DIBS_SORT_CREATED_AT, .order = DIBS_ORDER_DESC};
    assert_string_equal(take_each(f, newest), "e d b a");
    give_all_back(f);
    struct dibs_claim_next lowest = {.order = DIBS_ORDER_ASC};
    assert_string_equal(take_each(f, lowest), "a d b e");
    give_all_back(f);
    assert_string_equal(take_each(f, (struct dibs_claim_next){.types = DIBS_STRINGS("x")}), "a");
    give_all_back(f);
    assert_string_equal(take_each(f, (struct dibs_claim_next){.tags = DIBS_STRINGS("gpu")}), "a");
}

static void test_nothing_that_cannot_be_claimed_is_ever_returned(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_session(f, "r");
    make_agent_session(f, "amy-1", "amy");
    make_task(f, "held");
    claim(f, "held", "r");
    make_task(f, "blocked");
    assert_ok(f, try_move(f, dibs_task_block, "blocked", NULL));
    make_task_as(f, (struct dibs_task_new){.id = "waits", .depends_on = DIBS_STRINGS("held")});
    make_task_as(f, (struct dibs_task_new){.id = "later", .run_after_ms = now_ms(f) + 1});
    make_task_as(f, (struct dibs_task_new){.id = "offered", .offered_to = "amy"});
    make_task_as(f, (struct dibs_task_new){.id = "reviewing", .offered_to = "amy"});
    assert_ok(f, try_review(f, "reviewing", "amy-1"));
    make_task_as(f, (struct dibs_task_new){.id = "assigned", .assignee = "amy"});
    make_task(f, "cancelled");
    assert_ok(f, try_move(f, dibs_task_cancel, "cancelled", NULL));
    make_task(f, "failing");
    claim(f, "failing", "r");
    assert_ok(f, try_fail(f, "failing", "r", 0, "boom"));
    for (int sort = DIBS_SORT_PRIORITY; sort <= DIBS_SORT_RANDOM; sort++)
        assert_refused(
            f, DIBS_NOTHING_TO_CLAIM,
            try_next(f, (struct dibs_claim_next){.session_id = "s", .sort = (enum dibs_sort)sort}));
    assert_string_equal(f->err.message, "no claimable task matches");
}

static void test_an_ended_lease_counts_as_claimable_to_the_millisecond(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_session(f, "r");
    make_task(f, "t");
    int64_t first = claim(f, "t", "r").token;
    world_pass(&f->world, MINUTES(30) - 1);
    assert_string_equal(take_each(f, (struct dibs_claim_next){0}), "");
    world_pass(&f->world, 1);
    struct dibs_grant g = next(f, (struct dibs_claim_next){.session_id = "s"});
    assert_string_equal(g.items[0].task.id, "t");
    assert_true(g.items[0].claim.token > first);
    assert_event_count(f, "task:claim-expired", 1);
}

static void test_nobody_is_told_empty_however_many_leases_ended_at_once(void **state)
{
    struct fixture *f = *state;
    const int64_t lost = EXPIRE_BATCH_MAX * 2 + 2;
    make_session(f, "s");
    make_session(f, "r");
    for (int64_t i = 0; i < lost; i++)
        assert_ok(
            f, try_create(f, (struct dibs_task_new){.title = "t", .max_attempts = DIBS_VALUE(1)}));
    int64_t held = 0;
    while (held < lost)
        held += (int64_t)next(f, (struct dibs_claim_next){.session_id = "r", .count = 100}).count;
    world_pass(&f->world, 1);
    make_task(f, "good");
    claim(f, "good", "r");
    world_pass(&f->world, MINUTES(30));
    /* all the others have used up their only attempt; the good one is the last in the line */
    assert_string_equal(claim_any(f, (struct dibs_claim_next){.session_id = "s"}), "good");
    assert_event_count(f, "task:claim-expired", (size_t)lost + 1);
    assert_refused(f, DIBS_NOTHING_TO_CLAIM,
                   try_next(f, (struct dibs_claim_next){.session_id = "s"}));
}

static void test_what_an_empty_answer_found_out_is_kept(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_session(f, "r");
    make_task_as(f, (struct dibs_task_new){.id = "t", .max_attempts = DIBS_VALUE(1)});
    claim(f, "t", "r");
    world_pass(&f->world, MINUTES(30));
    assert_refused(f, DIBS_NOTHING_TO_CLAIM,
                   try_next(f, (struct dibs_claim_next){.session_id = "s"}));
    assert_status(f, "t", "failed");
    assert_event_count(f, "task:claim-expired", 1);
    assert_int_equal(get_session(f, "s").heartbeat_at_ms, now_ms(f));
}

/* ---- how many -------------------------------------------------------------------------------- */

static void test_a_call_may_ask_for_several_and_gets_as_many_as_there_are(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    for (int i = 0; i < 5; i++)
        make_task(f, NULL);
    assert_string_equal(take_many(f, (struct dibs_claim_next){0}, 3), "1 2 3");
    assert_string_equal(take_many(f, (struct dibs_claim_next){0}, 3), "4 5");
    assert_refused(f, DIBS_NOTHING_TO_CLAIM,
                   try_next(f, (struct dibs_claim_next){.session_id = "s", .count = 3}));
    struct dibs_session s = get_session(f, "s");
    assert_int_equal(s.claims_live, 5);
    assert_int_equal(s.claims_total, 5);
    give_all_back(f);
    assert_int_equal(get_session(f, "s").history.count, 5);
}

static void test_two_processes_never_get_the_same_task(void **state)
{
    struct fixture *f = *state;
    struct dibs_grant g = {0};
    make_session(f, "s");
    make_session(f, "r");
    for (int i = 0; i < 40; i++)
        make_task(f, NULL);
    dibs *other = fixture_open(f);
    bool seen[41] = {false};
    for (int i = 0; i < 40; i++) {
        struct dibs_claim_next in = {.session_id = i % 2 ? "s" : "r"};
        in.sort = i % 3 ? DIBS_SORT_PRIORITY : DIBS_SORT_RANDOM;
        assert_ok(f, dibs_claim_next(i % 2 ? f->d : other, f->a, &in, &g, &f->err));
        int64_t number = 0;
        assert_true(str_to_int(g.items[0].task.id, &number) && !seen[number]);
        seen[number] = true;
    }
    struct dibs_claim_next in = {.session_id = "r"};
    assert_refused(f, DIBS_NOTHING_TO_CLAIM, dibs_claim_next(other, f->a, &in, &g, &f->err));
    dibs_close(other);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void assert_bad(struct fixture *f, const char *field, struct dibs_claim_next in)
{
    if (strcmp(field, "sessionId") != 0)
        in.session_id = "s";
    assert_refused(f, DIBS_INVALID_REQUEST, try_next(f, in));
    assert_string_equal(f->err.field, field);
}

static void test_a_bad_field_is_refused_by_name(void **state)
{
    struct fixture *f = *state;
    const char *many[TYPES_MAX + 1];
    for (size_t i = 0; i <= TYPES_MAX; i++)
        many[i] = "x";
    make_session(f, "s");
    make_task(f, "t");
    assert_bad(f, "sessionId", (struct dibs_claim_next){0});
    assert_bad(f, "ttlMs", (struct dibs_claim_next){.ttl_ms = MINUTES(121)});
    assert_non_null(strstr(f->err.message, "maxTTL"));
    assert_bad(f, "count", (struct dibs_claim_next){.count = 101});
    assert_bad(f, "count", (struct dibs_claim_next){.count = -1});
    assert_bad(f, "waitMs", (struct dibs_claim_next){.wait_ms = -1});
    assert_bad(f, "waitMs", (struct dibs_claim_next){.wait_ms = WAIT_MS_MAX + 1});
    assert_bad(f, "types",
               (struct dibs_claim_next){.types = {.items = many, .count = TYPES_MAX + 1}});
    assert_bad(f, "tags", (struct dibs_claim_next){.tags = {.items = many, .count = TAGS_MAX + 1}});
    assert_bad(f, "maxAttemptsRemaining",
               (struct dibs_claim_next){.max_attempts_remaining = DIBS_VALUE(-1)});
    assert_bad(f, "metadata", (struct dibs_claim_next){.metadata = "{"});
    assert_bad(f, "agentType",
               (struct dibs_claim_next){.agent_type = repeated(f, 'x', WORD_BYTES_MAX + 1)});
    assert_refused(f, DIBS_SESSION_NOT_FOUND,
                   try_next(f, (struct dibs_claim_next){.session_id = "nobody"}));
    assert_int_equal(f->world.slept_ms, 0);
    assert_status(f, "t", "open");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_the_next_task_has_the_highest_priority_and_then_the_greatest_age),
        STORE_TEST(test_the_grant_is_the_task_and_its_claim),
        STORE_TEST(test_all_three_sorts_honour_both_orders),
        STORE_TEST(test_random_returns_every_task_sooner_or_later_and_none_twice),
        STORE_TEST(test_types_keep_tasks_of_any_of_them_and_the_best_of_all_wins),
        STORE_TEST(test_tags_keep_tasks_that_have_all_of_them),
        STORE_TEST(test_attempts_remaining_keeps_tasks_with_attempts_below_their_limit_minus_n),
        STORE_TEST(test_filters_together_keep_what_passes_all),
        STORE_TEST(test_projects_are_apart),
        STORE_TEST(test_tasks_assigned_to_the_agent_count_among_the_others),
        STORE_TEST(test_nothing_that_cannot_be_claimed_is_ever_returned),
        STORE_TEST(test_an_ended_lease_counts_as_claimable_to_the_millisecond),
        STORE_TEST(test_nobody_is_told_empty_however_many_leases_ended_at_once),
        STORE_TEST(test_what_an_empty_answer_found_out_is_kept),
        STORE_TEST(test_a_call_may_ask_for_several_and_gets_as_many_as_there_are),
        STORE_TEST(test_two_processes_never_get_the_same_task),
        STORE_TEST(test_a_bad_field_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
