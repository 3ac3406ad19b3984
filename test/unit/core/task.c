/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/task.c: making tasks, one or many: what is kept, what is filled in, what is
 * refused and by which name; ids, limits, dedupe keys.
 */
#include "core/core.h"
#include "core_help.h"

static dibs_status create(struct fixture *f, const struct dibs_task_new *in, size_t count,
                          struct dibs_task_list *out)
{
    return dibs_task_create(f->d, f->a, in, count, out, &f->err);
}

static int64_t task_count(struct fixture *f)
{
    return query_int(f, "SELECT count(*) FROM task");
}

/* Expects that this one task is refused for that field and that nothing is left of it. */
static void assert_bad(struct fixture *f, const char *field, struct dibs_task_new in)
{
    int64_t before = task_count(f);
    if (!in.title && strcmp(field, "title") != 0)
        in.title = "t";
    dibs_status status = try_create(f, in);
    if (status != DIBS_INVALID_REQUEST)
        fail_msg("%s: %s", field, dibs_status_name(status));
    assert_string_equal(f->err.field, field);
    assert_non_null(strstr(f->err.message, arena_printf(f->a, "'%s'", field)));
    assert_int_equal(task_count(f), before);
}

/* ---- what a task is made of ------------------------------------------------------------------ */

static void test_a_task_with_a_title_alone_gets_these_defaults(void **state)
{
    struct fixture *f = *state;
    struct dibs_task made = make_task_as(f, (struct dibs_task_new){.title = "write the manual"});
    struct dibs_task t = get_task(f, made.id);
    assert_string_equal(t.id, "1");
    assert_string_equal(t.project, "default");
    assert_string_equal(t.title, "write the manual");
    assert_int_equal(t.status, DIBS_TASK_OPEN);
    assert_int_equal(t.priority, 50);
    assert_int_equal(t.attempts, 0);
    assert_int_equal(t.max_attempts, 3);
    assert_int_equal(t.generation, 1);
    assert_int_equal(t.version, 1);
    assert_int_equal(t.created_at_ms, now_ms(f));
    assert_int_equal(t.updated_at_ms, t.created_at_ms);
    assert_int_equal(t.finished_at_ms + t.run_after_ms + t.claim_timeout_ms, 0);
    assert_int_equal(t.tags.count + t.depends_on.count + t.waiting_on.count, 0);
    assert_true(!t.description && !t.type && !t.phase && !t.params && !t.metadata);
    assert_true(!t.assignee && !t.offered_to && !t.dedupe_key && !t.result && !t.error && !t.claim);
    assert_false(t.deduplicated);
}

static const char params[] = "  {\"b\": 1.50, \"a\": [ 1e2, \"\\u00e9\", \"\xc3\xa9\", null ]\n} ";

static void test_everything_given_is_kept_byte_for_byte(void **state)
{
    struct fixture *f = *state;
    struct dibs_task_new in = {.id = "Epic:1.2_a-b",
                               .project = "apollo",
                               .title = "Ünïcode \"quoted\" \\ title",
                               .description = "line\nline\ttab",
                               .type = "code review",
                               .phase = "build",
                               .priority = DIBS_VALUE(0),
                               .max_attempts = DIBS_VALUE(0),
                               .params = params,
                               .metadata = "[]",
                               .run_after_ms = 12345,
                               .claim_timeout_ms = MINUTES(7),
                               .dedupe_key = "key"};
    in.tags = DIBS_STRINGS("ui", "backend", "ui");
    make_task_as(f, in);
    struct dibs_task t = get_task(f, in.id);
    assert_string_equal(t.id, in.id);
    assert_string_equal(t.project, in.project);
    assert_string_equal(t.title, in.title);
    assert_string_equal(t.description, in.description);
    assert_string_equal(t.type, in.type);
    assert_string_equal(t.phase, in.phase);
    assert_string_equal(t.params, params);
    assert_string_equal(t.metadata, "[]");
    assert_string_equal(t.dedupe_key, "key");
    assert_string_equal(words(f, t.tags), "backend ui");
    assert_int_equal(t.priority, 0);
    assert_int_equal(t.max_attempts, 0);
    assert_int_equal(t.run_after_ms, 12345);
    assert_int_equal(t.claim_timeout_ms, MINUTES(7));
}

static void test_creating_is_told_once_with_all_that_was_given(void **state)
{
    struct fixture *f = *state;
    struct dibs_task_new in = {.id = "t", .title = "T", .type = "work", .params = "{\"a\":1}"};
    in.tags = DIBS_STRINGS("x");
    make_task_as(f, in);
    struct dibs_event_list events = events_of(f, "task:created");
    assert_int_equal(events.count, 1);
    assert_string_equal(events.items[0].task_id, "t");
    assert_string_equal(events.items[0].project, "default");
    assert_string_equal(event_field(f, &events.items[0], "title"), "T");
    assert_string_equal(event_field(f, &events.items[0], "status"), "open");
    assert_string_equal(event_field(f, &events.items[0], "params"), "{\"a\":1}");
    assert_string_equal(event_field(f, &events.items[0], "tags"), "[\"x\"]");
}

static void test_a_task_may_be_created_assigned_or_offered_but_not_both(void **state)
{
    struct fixture *f = *state;
    make_task_as(f, (struct dibs_task_new){.id = "a", .assignee = "amy"});
    make_task_as(f, (struct dibs_task_new){.id = "o", .offered_to = "otto"});
    assert_status(f, "a", "assigned");
    assert_string_equal(get_task(f, "a").assignee, "amy");
    assert_status(f, "o", "offered");
    assert_string_equal(get_task(f, "o").offered_to, "otto");
    assert_bad(f, "offeredTo", (struct dibs_task_new){.assignee = "amy", .offered_to = "otto"});
}

static void test_an_agent_that_could_not_exist_is_given_no_task(void **state)
{
    struct fixture *f = *state;
    assert_bad(f, "assignee", (struct dibs_task_new){.assignee = "not an id"});
    assert_bad(f, "offeredTo", (struct dibs_task_new){.offered_to = "a/b"});
    assert_bad(f, "assignee", (struct dibs_task_new){.assignee = repeated(f, 'a', 129)});
}

/* ---- ids ------------------------------------------------------------------------------------- */

static void test_tasks_without_an_id_are_counted(void **state)
{
    struct fixture *f = *state;
    assert_string_equal(make_task(f, NULL), "1");
    assert_string_equal(make_task(f, "chosen"), "chosen");
    assert_string_equal(make_task(f, NULL), "2");
    fixture_reopen(f);
    assert_string_equal(make_task(f, NULL), "3");
}

static void test_counting_passes_over_numbers_that_somebody_chose(void **state)
{
    struct fixture *f = *state;
    make_task(f, "1");
    make_task(f, "2");
    make_task(f, "4");
    assert_string_equal(make_task(f, NULL), "3");
    assert_string_equal(make_task(f, NULL), "5");
}

static void test_an_id_is_taken_once_in_all_projects(void **state)
{
    struct fixture *f = *state;
    make_task(f, "t");
    assert_refused(f, DIBS_TASK_EXISTS,
                   try_create(f, (struct dibs_task_new){.id = "t", .title = "x"}));
    assert_string_equal(f->err.message, "there is a task 't' already");
    assert_refused(
        f, DIBS_TASK_EXISTS,
        try_create(f, (struct dibs_task_new){.id = "t", .title = "x", .project = "other"}));
    make_task(f, "T");
    assert_int_equal(task_count(f), 2);
}

static void test_ids_that_paths_cannot_carry_are_refused(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {"",      "a b",   "a/b",       "\xc3\xa9", "a?b", "a#b",
                                      "claim", "Claim", "in-flight", "stats",    "..",  "a\tb"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_bad(f, "id", (struct dibs_task_new){.id = bad[i]});
    assert_bad(f, "id", (struct dibs_task_new){.id = repeated(f, 'x', 129)});
    make_task(f, repeated(f, 'x', 128));
    assert_int_equal(task_count(f), 1);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static const char *json_text(struct fixture *f, size_t bytes)
{
    return arena_printf(f->a, "\"%s\"", repeated(f, 'j', bytes - 2));
}

static void test_each_text_may_fill_its_limit(void **state)
{
    struct fixture *f = *state;
    const char *many[TAGS_MAX];
    for (size_t i = 0; i < TAGS_MAX; i++)
        many[i] = arena_printf(f->a, "%02zu%s", i, repeated(f, '\x01', WORD_BYTES_MAX - 2));
    /* the bytes that need most room when they are written as JSON */
    struct dibs_task_new in = {.title = repeated(f, '\x01', TITLE_BYTES_MAX),
                               .project = repeated(f, '\x01', WORD_BYTES_MAX),
                               .description = repeated(f, '\x01', DESCRIPTION_BYTES_MAX),
                               .type = repeated(f, '\x01', WORD_BYTES_MAX),
                               .phase = repeated(f, '\x01', WORD_BYTES_MAX),
                               .assignee = repeated(f, 'a', ID_BYTES_MAX),
                               .dedupe_key = repeated(f, '\x01', KEY_BYTES_MAX),
                               .params = json_text(f, JSON_VALUE_BYTES_MAX),
                               .metadata = json_text(f, JSON_VALUE_BYTES_MAX),
                               .tags = {.items = many, .count = TAGS_MAX}};
    struct dibs_task made = make_task_as(f, in);
    struct dibs_task t = get_task(f, made.id);
    assert_string_equal(t.title, in.title);
    assert_string_equal(t.description, in.description);
    assert_string_equal(t.params, in.params);
    assert_int_equal(t.tags.count, TAGS_MAX);
}

static void test_each_text_over_its_limit_is_refused_by_name(void **state)
{
    struct fixture *f = *state;
    const char *word = repeated(f, 'x', WORD_BYTES_MAX + 1);
    assert_bad(f, "title", (struct dibs_task_new){.title = repeated(f, 'x', TITLE_BYTES_MAX + 1)});
    assert_bad(f, "title", (struct dibs_task_new){.title = ""});
    assert_bad(f, "title", (struct dibs_task_new){.title = NULL});
    assert_bad(f, "project", (struct dibs_task_new){.project = word});
    assert_bad(f, "type", (struct dibs_task_new){.type = word});
    assert_bad(f, "phase", (struct dibs_task_new){.phase = word});
    assert_bad(f, "description",
               (struct dibs_task_new){.description = repeated(f, 'x', DESCRIPTION_BYTES_MAX + 1)});
    assert_bad(f, "dedupeKey",
               (struct dibs_task_new){.dedupe_key = repeated(f, 'x', KEY_BYTES_MAX + 1)});
    assert_bad(f, "params",
               (struct dibs_task_new){.params = json_text(f, JSON_VALUE_BYTES_MAX + 1)});
    assert_bad(f, "metadata",
               (struct dibs_task_new){.metadata = json_text(f, JSON_VALUE_BYTES_MAX + 1)});
    assert_bad(f, "title", (struct dibs_task_new){.title = "\xff"});
    assert_bad(f, "type", (struct dibs_task_new){.type = "\xc3"});
}

static void test_numbers_outside_their_range_are_refused_by_name(void **state)
{
    struct fixture *f = *state;
    assert_bad(f, "priority", (struct dibs_task_new){.priority = DIBS_VALUE(101)});
    assert_bad(f, "priority", (struct dibs_task_new){.priority = DIBS_VALUE(-1)});
    assert_bad(f, "maxAttempts", (struct dibs_task_new){.max_attempts = DIBS_VALUE(-1)});
    assert_bad(f, "maxAttempts", (struct dibs_task_new){.max_attempts = DIBS_VALUE(1000001)});
    assert_bad(f, "runAfter", (struct dibs_task_new){.run_after_ms = -1});
    assert_bad(f, "claimTimeoutMs", (struct dibs_task_new){.claim_timeout_ms = MINUTES(1) - 1});
    assert_non_null(strstr(f->err.message, "minTTL"));
    assert_bad(f, "claimTimeoutMs", (struct dibs_task_new){.claim_timeout_ms = MINUTES(121)});
    assert_bad(f, "claimTimeoutMs", (struct dibs_task_new){.claim_timeout_ms = -1});
}

static void test_params_that_are_not_json_are_refused(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {"",    "{",           "{\"a\":1,}",        "nul",  "{}x",
                                      "'a'", "\"\\ud800\"", "{\"a\":1,\"a\":2}", "1e999"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_bad(f, "params", (struct dibs_task_new){.params = bad[i]});
        assert_bad(f, "metadata", (struct dibs_task_new){.metadata = bad[i]});
    }
    make_task_as(f, (struct dibs_task_new){.params = "null"});
    make_task_as(f, (struct dibs_task_new){.params = "0"});
}

static void test_tags_are_counted_and_each_says_something(void **state)
{
    struct fixture *f = *state;
    const char *many[TAGS_MAX + 1];
    for (size_t i = 0; i <= TAGS_MAX; i++)
        many[i] = arena_printf(f->a, "tag-%zu", i);
    struct dibs_task_new in = {.title = "t", .tags = {.items = many, .count = TAGS_MAX + 1}};
    assert_bad(f, "tags", in);
    in.tags = DIBS_STRINGS("fine", "");
    assert_bad(f, "tags", in);
    in.tags = DIBS_STRINGS(NULL);
    assert_bad(f, "tags", in);
    const char *wide = repeated(f, 'x', WORD_BYTES_MAX + 1);
    in.tags = (struct dibs_strings){.items = &wide, .count = 1};
    assert_bad(f, "tags", in);
}

static void test_the_farthest_day_can_be_waited_for(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_as(f, (struct dibs_task_new){.id = "t", .run_after_ms = INT64_MAX});
    assert_int_equal(get_task(f, "t").run_after_ms, INT64_MAX);
    assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, "t", "s", 0));
    assert_event_count(f, "task:created", 1);
}

/* ---- many at once ---------------------------------------------------------------------------- */

static void test_many_tasks_come_back_in_the_order_of_the_call(void **state)
{
    struct fixture *f = *state;
    struct dibs_task_new in[] = {
        {.id = "c", .title = "1"}, {.title = "2"}, {.id = "a", .title = "3"}};
    struct dibs_task_list out = {0};
    assert_ok(f, create(f, in, 3, &out));
    assert_string_equal(ids(f, &out), "c 1 a");
    assert_ok(f, dibs_task_list(f->d, f->a, &(struct dibs_task_filter){0}, &out, &f->err));
    assert_string_equal(ids(f, &out), "c 1 a");
}

static void test_many_tasks_are_created_all_or_none(void **state)
{
    struct fixture *f = *state;
    make_task(f, "there");
    struct dibs_task_list out = {.count = 77};
    struct dibs_task_new bad_last[] = {{.title = "1"}, {.title = "2"}, {.title = ""}};
    assert_refused(f, DIBS_INVALID_REQUEST, create(f, bad_last, 3, &out));
    assert_string_equal(f->err.field, "tasks[2].title");
    assert_string_equal(f->err.message, "tasks[2]: 'title' is required");
    struct dibs_task_new taken[] = {{.title = "1"}, {.id = "there", .title = "2"}};
    assert_refused(f, DIBS_TASK_EXISTS, create(f, taken, 2, &out));
    assert_string_equal(f->err.message, "tasks[1]: there is a task 'there' already");
    struct dibs_task_new twice[] = {{.id = "x", .title = "1"}, {.id = "x", .title = "2"}};
    assert_refused(f, DIBS_TASK_EXISTS, create(f, twice, 2, &out));
    struct dibs_task_new lost[] = {{.title = "1"}, {.title = "2"}};
    lost[1].depends_on = DIBS_STRINGS("nowhere");
    assert_refused(f, DIBS_TASK_NOT_FOUND, create(f, lost, 2, &out));
    assert_non_null(strstr(f->err.message, "'nowhere'"));
    assert_int_equal(out.count, 77);
    assert_int_equal(task_count(f), 1);
    assert_event_count(f, "task:created", 1);
    assert_string_equal(make_task(f, NULL), "1");
}

static void test_one_call_makes_1_to_1000_tasks(void **state)
{
    struct fixture *f = *state;
    struct dibs_task_new in[1001];
    struct dibs_task_list out = {0};
    for (size_t i = 0; i < COUNT_OF(in); i++)
        in[i] = (struct dibs_task_new){.title = "one of many"};
    assert_refused(f, DIBS_INVALID_REQUEST, create(f, in, 1001, &out));
    assert_string_equal(f->err.field, "tasks");
    assert_refused(f, DIBS_INVALID_REQUEST, create(f, in, 0, &out));
    assert_int_equal(task_count(f), 0);
    assert_ok(f, create(f, in, 1000, &out));
    assert_int_equal(out.count, 1000);
    assert_string_equal(out.items[999].id, "1000");
}

/* ---- when and how long ----------------------------------------------------------------------- */

static void test_a_task_is_claimable_from_its_time_on_and_not_before(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    int64_t due = now_ms(f) + SECONDS(90);
    make_task_as(f, (struct dibs_task_new){.id = "t", .run_after_ms = due});
    assert_status(f, "t", "open");
    assert_int_equal(get_task(f, "t").run_after_ms, due);
    world_pass(&f->world, SECONDS(90) - 1);
    assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, "t", "s", 0));
    assert_string_equal(f->err.message, "task 't' cannot be claimed: its time comes in 1s");
    assert_string_equal(f->err.task_status, "open");
    assert_string_equal(claim_any(f, (struct dibs_claim_next){.session_id = "s"}), "");
    world_pass(&f->world, 1);
    assert_string_equal(claim_any(f, (struct dibs_claim_next){.session_id = "s"}), "t");
}

static void test_an_assigned_task_waits_for_its_time_too(void **state)
{
    struct fixture *f = *state;
    make_agent_session(f, "s", "amy");
    int64_t due = now_ms(f) + SECONDS(1);
    make_task_as(f, (struct dibs_task_new){.id = "t", .assignee = "amy", .run_after_ms = due});
    assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, "t", "s", 0));
    assert_string_equal(claim_any(f, (struct dibs_claim_next){.session_id = "s"}), "");
    world_pass(&f->world, SECONDS(1));
    assert_ok(f, try_claim(f, "t", "s", 0));
}

static void test_the_claim_timeout_of_a_task_is_the_lease_of_a_claim_that_names_none(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    make_task_as(f, (struct dibs_task_new){.id = "short", .claim_timeout_ms = MINUTES(5)});
    make_task(f, "usual");
    assert_int_equal(claim(f, "short", "s").expires_at_ms, now_ms(f) + MINUTES(5));
    assert_int_equal(claim(f, "usual", "s").expires_at_ms, now_ms(f) + MINUTES(30));
    assert_ok(f, try_release(f, "short", "s", 0, NULL));
    assert_ok(f, try_claim(f, "short", "s", MINUTES(9)));
    assert_int_equal(get_task(f, "short").claim->expires_at_ms, now_ms(f) + MINUTES(9));
    assert_ok(f, try_release(f, "short", "s", 0, NULL));
    assert_string_equal(claim_any(f, (struct dibs_claim_next){.session_id = "s"}), "short");
    assert_int_equal(get_task(f, "short").claim->ttl_ms, MINUTES(5));
}

/* ---- dedupe keys ----------------------------------------------------------------------------- */

static const struct dibs_task_new keyed = {.title = "nightly", .dedupe_key = "2025-12-28"};

static void test_an_unfinished_task_with_the_key_is_returned_instead(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    struct dibs_task first = make_task_as(f, keyed);
    assert_false(first.deduplicated);
    struct dibs_task_new again = keyed;
    again.id = "another";
    again.title = "other title";
    struct dibs_task second = make_task_as(f, again);
    assert_true(second.deduplicated);
    assert_string_equal(second.id, first.id);
    assert_string_equal(second.title, "nightly");
    claim(f, first.id, "s");
    assert_string_equal(make_task_as(f, keyed).id, first.id);
    assert_ok(f, try_release(f, first.id, "s", 0, NULL));
    assert_ok(f, try_move(f, dibs_task_block, first.id, NULL));
    assert_string_equal(make_task_as(f, keyed).id, first.id);
    assert_int_equal(task_count(f), 1);
    assert_event_count(f, "task:created", 1);
}

static void test_a_finished_task_gives_its_key_free(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    for (int i = 0; i < 3; i++) {
        struct dibs_task t = make_task_as(f, keyed);
        assert_false(t.deduplicated);
        claim(f, t.id, "s");
        if (i == 0)
            assert_ok(f, try_complete(f, t.id, "s", 0, NULL));
        else
            assert_ok(f, try_move(f, dibs_task_cancel, t.id, NULL));
    }
    assert_int_equal(task_count(f), 3);
}

static void test_a_task_whose_last_lease_has_run_out_gives_its_key_free(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    struct dibs_task_new once = keyed;
    once.max_attempts = DIBS_VALUE(1);
    struct dibs_task first = make_task_as(f, once);
    claim(f, first.id, "s");
    world_pass(&f->world, MINUTES(30)); /* it has failed, though nobody has looked */
    struct dibs_task second = make_task_as(f, keyed);
    assert_false(second.deduplicated);
    assert_string_not_equal(second.id, first.id);
    assert_status(f, first.id, "failed");
    claim(f, second.id, "s");
    world_pass(&f->world, MINUTES(30)); /* has attempts left: not finished */
    assert_string_equal(make_task_as(f, keyed).id, second.id);
    assert_status(f, second.id, "open");
}

static void test_each_project_has_its_own_keys(void **state)
{
    struct fixture *f = *state;
    struct dibs_task first = make_task_as(f, keyed);
    struct dibs_task_new elsewhere = keyed;
    elsewhere.project = "other";
    struct dibs_task second = make_task_as(f, elsewhere);
    assert_false(second.deduplicated);
    assert_string_not_equal(second.id, first.id);
    assert_string_equal(make_task_as(f, elsewhere).id, second.id);
}

static void test_two_tasks_of_one_call_with_one_key_are_one_task(void **state)
{
    struct fixture *f = *state;
    struct dibs_task_new in[] = {
        {.title = "first"}, {.title = "a", .dedupe_key = "k"}, {.title = "b", .dedupe_key = "k"}};
    in[1].depends_on = DIBS_STRINGS("1");
    struct dibs_task_list out = {0};
    assert_ok(f, create(f, in, 3, &out));
    assert_string_equal(ids(f, &out), "1 2 2");
    assert_false(out.items[1].deduplicated);
    assert_true(out.items[2].deduplicated);
    assert_int_equal(out.items[2].status, DIBS_TASK_BLOCKED);
    assert_int_equal(task_count(f), 2);
}

static void test_a_task_whose_key_is_in_use_again_cannot_be_reopened(void **state)
{
    struct fixture *f = *state;
    struct dibs_task first = make_task_as(f, keyed);
    assert_ok(f, try_move(f, dibs_task_cancel, first.id, NULL));
    struct dibs_task second = make_task_as(f, keyed);
    assert_refused(f, DIBS_ILLEGAL_TRANSITION, try_move(f, dibs_task_reopen, first.id, NULL));
    assert_ok(f, try_move(f, dibs_task_cancel, second.id, NULL));
    assert_ok(f, try_move(f, dibs_task_reopen, first.id, NULL));
    assert_string_equal(make_task_as(f, keyed).id, first.id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_task_with_a_title_alone_gets_these_defaults),
        STORE_TEST(test_everything_given_is_kept_byte_for_byte),
        STORE_TEST(test_creating_is_told_once_with_all_that_was_given),
        STORE_TEST(test_a_task_may_be_created_assigned_or_offered_but_not_both),
        STORE_TEST(test_an_agent_that_could_not_exist_is_given_no_task),
        STORE_TEST(test_tasks_without_an_id_are_counted),
        STORE_TEST(test_counting_passes_over_numbers_that_somebody_chose),
        STORE_TEST(test_an_id_is_taken_once_in_all_projects),
        STORE_TEST(test_ids_that_paths_cannot_carry_are_refused),
        STORE_TEST(test_each_text_may_fill_its_limit),
        STORE_TEST(test_each_text_over_its_limit_is_refused_by_name),
        STORE_TEST(test_numbers_outside_their_range_are_refused_by_name),
        STORE_TEST(test_params_that_are_not_json_are_refused),
        STORE_TEST(test_tags_are_counted_and_each_says_something),
        STORE_TEST(test_the_farthest_day_can_be_waited_for),
        STORE_TEST(test_many_tasks_come_back_in_the_order_of_the_call),
        STORE_TEST(test_many_tasks_are_created_all_or_none),
        STORE_TEST(test_one_call_makes_1_to_1000_tasks),
        STORE_TEST(test_a_task_is_claimable_from_its_time_on_and_not_before),
        STORE_TEST(test_an_assigned_task_waits_for_its_time_too),
        STORE_TEST(test_the_claim_timeout_of_a_task_is_the_lease_of_a_claim_that_names_none),
        STORE_TEST(test_an_unfinished_task_with_the_key_is_returned_instead),
        STORE_TEST(test_a_finished_task_gives_its_key_free),
        STORE_TEST(test_a_task_whose_last_lease_has_run_out_gives_its_key_free),
        STORE_TEST(test_each_project_has_its_own_keys),
        STORE_TEST(test_two_tasks_of_one_call_with_one_key_are_one_task),
        STORE_TEST(test_a_task_whose_key_is_in_use_again_cannot_be_reopened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
