/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/task_edit.c: changing what a task says: what is left alone, what is cleared,
 * what is refused, and what becomes of its status when its dependencies or its time change.
 */
#include "core/core.h"
#include "core_help.h"

static dibs_status try_update(struct fixture *f, struct dibs_task_edit in)
{
    struct dibs_task out = {0};
    return dibs_task_update(f->d, f->a, &in, &out, &f->err);
}

static struct dibs_task update(struct fixture *f, struct dibs_task_edit in)
{
    struct dibs_task out = {0};
    assert_ok(f, dibs_task_update(f->d, f->a, &in, &out, &f->err));
    return out;
}

static void assert_bad(struct fixture *f, const char *field, struct dibs_task_edit in)
{
    const char *before = rows_of(f);
    in.id = "t";
    dibs_status status = try_update(f, in);
    if (status != DIBS_INVALID_REQUEST)
        fail_msg("%s: %s", field, dibs_status_name(status));
    assert_string_equal(f->err.field, field);
    assert_string_equal(rows_of(f), before);
}

static void make_full(struct fixture *f)
{
    struct dibs_task_new in = {.id = "t",
                               .title = "title",
                               .description = "description",
                               .type = "type",
                               .phase = "phase",
                               .params = "{\"p\":1}",
                               .metadata = "{\"m\":1}",
                               .priority = DIBS_VALUE(10),
                               .max_attempts = DIBS_VALUE(5),
                               .claim_timeout_ms = MINUTES(3)};
    in.tags = DIBS_STRINGS("a", "b");
    make_task_as(f, in);
}

/* ---- texts and numbers ----------------------------------------------------------------------- */

static void test_what_is_not_given_stays_as_it_is(void **state)
{
    struct fixture *f = *state;
    make_full(f);
    world_pass(&f->world, 5);
    struct dibs_task t = update(f, (struct dibs_task_edit){.id = "t", .title = "new title"});
    assert_string_equal(t.title, "new title");
    assert_string_equal(t.description, "description");
    assert_string_equal(t.type, "type");
    assert_string_equal(t.phase, "phase");
    assert_string_equal(t.params, "{\"p\":1}");
    assert_string_equal(t.metadata, "{\"m\":1}");
    assert_string_equal(words(f, t.tags), "a b");
    assert_int_equal(t.priority, 10);
    assert_int_equal(t.max_attempts, 5);
    assert_int_equal(t.claim_timeout_ms, MINUTES(3));
    assert_int_equal(t.version, 2);
    assert_int_equal(t.updated_at_ms, t.created_at_ms + 5);
}

static void test_every_field_can_be_changed_and_one_event_tells_it(void **state)
{
    struct fixture *f = *state;
    make_full(f);
    struct dibs_strings tags = DIBS_STRINGS("c");
    struct dibs_task_edit in = {.id = "t",
                                .title = "T",
                                .description = "D",
                                .type = "Y",
                                .phase = "P",
                                .params = " [1, 2] ",
                                .metadata = "2",
                                .priority = DIBS_VALUE(0),
                                .max_attempts = DIBS_VALUE(0),
                                .run_after_ms = DIBS_VALUE(1),
                                .claim_timeout_ms = DIBS_VALUE(0),
                                .tags = &tags};
    update(f, in);
    struct dibs_task t = get_task(f, "t");
    assert_string_equal(t.title, "T");
    assert_string_equal(t.description, "D");
    assert_string_equal(t.type, "Y");
    assert_string_equal(t.phase, "P");
    assert_string_equal(t.params, " [1, 2] ");
    assert_string_equal(t.metadata, "2");
    assert_string_equal(words(f, t.tags), "c");
    assert_int_equal(t.priority + t.max_attempts + t.claim_timeout_ms, 0);
    assert_int_equal(t.run_after_ms, 1);
    struct dibs_event_list events = events_of(f, "task:updated");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "title"), "T");
    assert_string_equal(event_field(f, &events.items[0], "priority"), "0");
    assert_string_equal(event_field(f, &events.items[0], "params"), "[1,2]");
    assert_string_equal(event_field(f, &events.items[0], "tags"), "[\"c\"]");
}

static void test_an_empty_text_clears(void **state)
{
    struct fixture *f = *state;
    make_full(f);
    struct dibs_strings none = {0};
    update(f, (struct dibs_task_edit){.id = "t",
                                      .description = "",
                                      .type = "",
                                      .phase = "",
                                      .params = "",
                                      .metadata = "",
                                      .tags = &none});
    struct dibs_task t = get_task(f, "t");
    assert_true(!t.description && !t.type && !t.phase && !t.params && !t.metadata);
    assert_int_equal(t.tags.count, 0);
    assert_string_equal(t.title, "title");
    struct dibs_event_list events = events_of(f, "task:updated");
    assert_string_equal(event_field(f, &events.items[0], "type"), "null");
    assert_bad(f, "title", (struct dibs_task_edit){.title = ""});
}

static void test_a_bad_field_is_refused_by_name_and_nothing_changes(void **state)
{
    struct fixture *f = *state;
    make_full(f);
    const char *word = repeated(f, 'x', WORD_BYTES_MAX + 1);
    assert_bad(f, "title", (struct dibs_task_edit){.title = repeated(f, 'x', TITLE_BYTES_MAX + 1)});
    assert_bad(f, "description",
               (struct dibs_task_edit){.description = repeated(f, 'x', DESCRIPTION_BYTES_MAX + 1)});
    assert_bad(f, "type", (struct dibs_task_edit){.type = word});
    assert_bad(f, "phase", (struct dibs_task_edit){.phase = "\xff"});
    assert_bad(f, "params", (struct dibs_task_edit){.params = "{"});
    assert_bad(f, "metadata", (struct dibs_task_edit){.metadata = "nul"});
    assert_bad(f, "priority", (struct dibs_task_edit){.priority = DIBS_VALUE(101)});
    assert_bad(f, "maxAttempts", (struct dibs_task_edit){.max_attempts = DIBS_VALUE(-1)});
    assert_bad(f, "maxAttempts", (struct dibs_task_edit){.max_attempts = DIBS_VALUE(1000001)});
    assert_bad(f, "runAfter", (struct dibs_task_edit){.run_after_ms = DIBS_VALUE(-1)});
    assert_bad(f, "claimTimeoutMs", (struct dibs_task_edit){.claim_timeout_ms = DIBS_VALUE(1)});
    struct dibs_strings empty_tag = DIBS_STRINGS("x", "");
    assert_bad(f, "tags", (struct dibs_task_edit){.title = "lost", .tags = &empty_tag});
    const char *many[TAGS_MAX + 1];
    for (size_t i = 0; i <= TAGS_MAX; i++)
        many[i] = arena_printf(f->a, "tag-%zu", i);
    struct dibs_strings too_many = {.items = many, .count = TAGS_MAX + 1};
    assert_bad(f, "tags", (struct dibs_task_edit){.tags = &too_many});
    struct dibs_strings bad_id = DIBS_STRINGS("not an id");
    assert_bad(f, "dependsOn", (struct dibs_task_edit){.depends_on = &bad_id});
    assert_event_count(f, "task:updated", 0);
}

static void test_a_task_that_does_not_exist_cannot_be_changed(void **state)
{
    struct fixture *f = *state;
    assert_refused(f, DIBS_TASK_NOT_FOUND,
                   try_update(f, (struct dibs_task_edit){.id = "x", .title = "y"}));
    assert_refused(f, DIBS_INVALID_REQUEST, try_update(f, (struct dibs_task_edit){.title = "y"}));
    assert_string_equal(f->err.field, "id");
}

static void test_a_finished_task_may_be_described_better(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "t");
    claim(f, "t", "s");
    assert_ok(f, try_complete(f, "t", "s", 0, "1"));
    struct dibs_task t = update(f, (struct dibs_task_edit){.id = "t", .title = "clearer"});
    assert_int_equal(t.status, DIBS_TASK_COMPLETED);
    assert_string_equal(t.result, "1");
    assert_int_equal(t.finished_at_ms, now_ms(f));
}

/* ---- versions -------------------------------------------------------------------------------- */

static void test_a_change_with_an_old_version_is_refused(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_full(f);
    struct dibs_task_edit mine = {.id = "t", .version = DIBS_VALUE(1), .title = "mine"};
    struct dibs_task_edit theirs = {.id = "t", .version = DIBS_VALUE(1), .title = "theirs"};
    assert_int_equal(update(f, mine).version, 2);
    const char *before = rows_of(f);
    assert_refused(f, DIBS_VERSION_CONFLICT, try_update(f, theirs));
    assert_string_equal(f->err.message, "task 't' has version 2 now, not 1; read it again");
    assert_string_equal(rows_of(f), before);
    theirs.version = DIBS_VALUE(3);
    assert_refused(f, DIBS_VERSION_CONFLICT, try_update(f, theirs));
    claim(f, "t", "s"); /* any change counts, not only those of texts */
    theirs.version = DIBS_VALUE(2);
    assert_refused(f, DIBS_VERSION_CONFLICT, try_update(f, theirs));
    theirs.version = DIBS_VALUE(get_task(f, "t").version);
    assert_string_equal(update(f, theirs).title, "theirs");
}

/* ---- what changes claiming ------------------------------------------------------------------- */

static void test_a_new_priority_counts_for_the_next_claim(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "first");
    make_task(f, "second");
    update(f, (struct dibs_task_edit){.id = "second", .priority = DIBS_VALUE(51)});
    assert_string_equal(claim_any(f, (struct dibs_claim_next){.session_id = "s"}), "second");
}

static void test_a_task_can_be_put_off_and_brought_forward(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim_next any = {.session_id = make_session(f, "s")};
    make_task(f, "t");
    int64_t later = now_ms(f) + MINUTES(5);
    update(f, (struct dibs_task_edit){.id = "t", .run_after_ms = DIBS_VALUE(later)});
    assert_string_equal(claim_any(f, any), "");
    update(f, (struct dibs_task_edit){.id = "t", .title = "still later"});
    assert_string_equal(claim_any(f, any), "");
    world_pass(&f->world, MINUTES(5) - 1);
    assert_string_equal(claim_any(f, any), "");
    world_pass(&f->world, 1);
    assert_string_equal(claim_any(f, any), "t");
    assert_ok(f, try_fail(f, "t", "s", 0, "boom"));
    assert_string_equal(claim_any(f, any), "");
    update(f, (struct dibs_task_edit){.id = "t", .run_after_ms = DIBS_VALUE(0)});
    assert_string_equal(claim_any(f, any), "t");
}

static void test_a_time_set_while_it_was_held_counts_when_it_comes_back(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    static const char *const ways[] = {"released", "failed", "expired"};
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        make_task(f, ways[i]);
        claim(f, ways[i], "s");
        int64_t later = now_ms(f) + MINUTES(60);
        update(f, (struct dibs_task_edit){.id = ways[i], .run_after_ms = DIBS_VALUE(later)});
        assert_status(f, ways[i], "in_progress");
    }
    assert_ok(f, try_release(f, "released", "s", 0, NULL));
    assert_ok(f, try_fail(f, "failed", "s", 0, "boom"));
    world_pass(&f->world, MINUTES(31));
    assert_string_equal(claim_any(f, (struct dibs_claim_next){.session_id = "s"}), "");
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        assert_status(f, ways[i], "open");
        assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, ways[i], "s", 0));
    }
    world_pass(&f->world, MINUTES(29));
    for (size_t i = 0; i < COUNT_OF(ways); i++)
        assert_ok(f, try_claim(f, ways[i], "s", 0));
}

static void test_attempts_cannot_be_limited_to_less_than_were_made(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "t");
    claim(f, "t", "s");
    assert_ok(f, try_fail(f, "t", "s", 0, "boom"));
    world_pass(&f->world, SECONDS(1));
    /* one is used: an open task needs one more, or nobody could ever claim it */
    assert_bad(f, "maxAttempts", (struct dibs_task_edit){.max_attempts = DIBS_VALUE(1)});
    assert_non_null(strstr(f->err.message, "at least 2"));
    update(f, (struct dibs_task_edit){.id = "t", .max_attempts = DIBS_VALUE(2)});
    claim(f, "t", "s");
    assert_bad(f, "maxAttempts", (struct dibs_task_edit){.max_attempts = DIBS_VALUE(1)});
    update(f, (struct dibs_task_edit){.id = "t", .max_attempts = DIBS_VALUE(2)});
    update(f, (struct dibs_task_edit){.id = "t", .max_attempts = DIBS_VALUE(0)});
    assert_ok(f, try_fail(f, "t", "s", 0, "boom"));
    assert_status(f, "t", "open");
}

static void test_a_new_claim_timeout_counts_for_the_next_claim(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "t");
    update(f, (struct dibs_task_edit){.id = "t", .claim_timeout_ms = DIBS_VALUE(MINUTES(2))});
    assert_int_equal(claim(f, "t", "s").ttl_ms, MINUTES(2));
}

/* ---- dependencies ---------------------------------------------------------------------------- */

static void depend_on(struct fixture *f, const char *task, struct dibs_strings needed)
{
    update(f, (struct dibs_task_edit){.id = task, .depends_on = &needed});
}

static void test_a_new_dependency_blocks_and_taking_it_back_unblocks(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim_next any = {.session_id = make_session(f, "s")};
    make_task_as(f, (struct dibs_task_new){.id = "needed", .priority = DIBS_VALUE(0)});
    make_task(f, "open");
    make_task_as(f, (struct dibs_task_new){.id = "assigned", .assignee = "amy"});
    depend_on(f, "open", DIBS_STRINGS("needed"));
    depend_on(f, "assigned", DIBS_STRINGS("needed"));
    assert_status(f, "open", "blocked");
    assert_status(f, "assigned", "blocked");
    assert_string_equal(words(f, get_task(f, "open").waiting_on), "needed");
    assert_string_equal(claim_any(f, any), "needed");
    assert_string_equal(claim_any(f, any), "");
    depend_on(f, "open", (struct dibs_strings){0});
    depend_on(f, "assigned", (struct dibs_strings){0});
    assert_status(f, "open", "open");
    assert_status(f, "assigned", "assigned");
    assert_string_equal(claim_any(f, any), "open");
}

static void test_a_task_freed_by_a_change_still_waits_for_its_time(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim_next any = {.session_id = make_session(f, "s")};
    make_task_as(f, (struct dibs_task_new){.id = "needed", .run_after_ms = INT64_MAX});
    struct dibs_task_new in = {.id = "t", .run_after_ms = now_ms(f) + SECONDS(9)};
    in.depends_on = DIBS_STRINGS("needed");
    make_task_as(f, in);
    depend_on(f, "t", (struct dibs_strings){0});
    assert_status(f, "t", "open");
    assert_string_equal(claim_any(f, any), "");
    world_pass(&f->world, SECONDS(9));
    assert_string_equal(claim_any(f, any), "t");
}

static void test_the_old_dependency_no_longer_counts_after_a_change(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task(f, "old");
    make_task(f, "new");
    struct dibs_task_new in = {.id = "t"};
    in.depends_on = DIBS_STRINGS("old");
    make_task_as(f, in);
    depend_on(f, "t", DIBS_STRINGS("new"));
    assert_string_equal(words(f, get_task(f, "t").depends_on), "new");
    claim(f, "old", "s");
    assert_ok(f, try_complete(f, "old", "s", 0, NULL));
    assert_status(f, "t", "blocked");
    claim(f, "new", "s");
    assert_ok(f, try_complete(f, "new", "s", 0, NULL));
    assert_status(f, "t", "open");
}

static void test_a_task_blocked_by_hand_stays_blocked_when_its_dependencies_go(void **state)
{
    struct fixture *f = *state;
    make_task(f, "needed");
    make_task(f, "t");
    assert_ok(f, try_move(f, dibs_task_block, "t", NULL));
    depend_on(f, "t", DIBS_STRINGS("needed"));
    depend_on(f, "t", (struct dibs_strings){0});
    assert_status(f, "t", "blocked");
    assert_ok(f, try_move(f, dibs_task_unblock, "t", NULL));
    assert_status(f, "t", "open");
}

static void test_a_change_that_names_an_unknown_task_changes_nothing(void **state)
{
    struct fixture *f = *state;
    make_task(f, "needed");
    struct dibs_task_new in = {.id = "t"};
    in.depends_on = DIBS_STRINGS("needed");
    make_task_as(f, in);
    const char *before = rows_of(f);
    struct dibs_strings needed = DIBS_STRINGS("needed", "lost");
    struct dibs_task_edit edit = {.id = "t", .title = "new", .depends_on = &needed};
    assert_refused(f, DIBS_TASK_NOT_FOUND, try_update(f, edit));
    assert_string_equal(f->err.message, "task 't' depends on 'lost', which does not exist");
    assert_string_equal(rows_of(f), before);
}

static void test_a_dependency_given_to_a_held_task_counts_when_it_comes_back(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim_next any = {.session_id = make_session(f, "s")};
    static const char *const ways[] = {"released", "failed", "expired"};
    make_task_as(f, (struct dibs_task_new){.id = "needed", .run_after_ms = INT64_MAX});
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        make_task(f, ways[i]);
        claim(f, ways[i], "s");
        depend_on(f, ways[i], DIBS_STRINGS("needed"));
        assert_status(f, ways[i], "in_progress");
    }
    assert_ok(f, try_release(f, "released", "s", 0, NULL));
    assert_ok(f, try_fail(f, "failed", "s", 0, "boom"));
    world_pass(&f->world, MINUTES(30));
    assert_string_equal(claim_any(f, any), "");
    for (size_t i = 0; i < COUNT_OF(ways); i++)
        assert_status(f, ways[i], "blocked");
    assert_ok(f, try_move(f, dibs_task_cancel, "needed", NULL));
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        depend_on(f, ways[i], (struct dibs_strings){0});
        assert_status(f, ways[i], "open");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_what_is_not_given_stays_as_it_is),
        STORE_TEST(test_every_field_can_be_changed_and_one_event_tells_it),
        STORE_TEST(test_an_empty_text_clears),
        STORE_TEST(test_a_bad_field_is_refused_by_name_and_nothing_changes),
        STORE_TEST(test_a_task_that_does_not_exist_cannot_be_changed),
        STORE_TEST(test_a_finished_task_may_be_described_better),
        STORE_TEST(test_a_change_with_an_old_version_is_refused),
        STORE_TEST(test_a_new_priority_counts_for_the_next_claim),
        STORE_TEST(test_a_task_can_be_put_off_and_brought_forward),
        STORE_TEST(test_a_time_set_while_it_was_held_counts_when_it_comes_back),
        STORE_TEST(test_attempts_cannot_be_limited_to_less_than_were_made),
        STORE_TEST(test_a_new_claim_timeout_counts_for_the_next_claim),
        STORE_TEST(test_a_new_dependency_blocks_and_taking_it_back_unblocks),
        STORE_TEST(test_a_task_freed_by_a_change_still_waits_for_its_time),
        STORE_TEST(test_the_old_dependency_no_longer_counts_after_a_change),
        STORE_TEST(test_a_task_blocked_by_hand_stays_blocked_when_its_dependencies_go),
        STORE_TEST(test_a_change_that_names_an_unknown_task_changes_nothing),
        STORE_TEST(test_a_dependency_given_to_a_held_task_counts_when_it_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
