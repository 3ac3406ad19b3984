/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/task_state.c: every move from every status, allowed or not, against a table
 * that is written out here once more; the words of statuses and priorities.
 */
#include "core/core.h"
#include "core_help.h"

/* ---- a task in each status ------------------------------------------------------------------- */

#define HOLDER "holder" /* a session of AGENT */
#define AGENT "agent-1"

static void make_open(struct fixture *f, const char *id)
{
    make_task(f, id);
}
static void make_offered(struct fixture *f, const char *id)
{
    make_task_as(f, (struct dibs_task_new){.id = id, .offered_to = AGENT});
}
static void make_reviewing(struct fixture *f, const char *id)
{
    make_offered(f, id);
    assert_ok(f, try_review(f, id, HOLDER));
}
static void make_assigned(struct fixture *f, const char *id)
{
    make_task_as(f, (struct dibs_task_new){.id = id, .assignee = AGENT});
}
static void make_in_progress(struct fixture *f, const char *id)
{
    make_task(f, id);
    claim(f, id, HOLDER);
}
static void make_blocked(struct fixture *f, const char *id)
{
    make_task(f, id);
    assert_ok(f, try_move(f, dibs_task_block, id, NULL));
}
static void make_completed(struct fixture *f, const char *id)
{
    make_in_progress(f, id);
    assert_ok(f, try_complete(f, id, HOLDER, 0, "\"first\""));
}
static void make_failed(struct fixture *f, const char *id)
{
    make_task_as(f, (struct dibs_task_new){.id = id, .max_attempts = DIBS_VALUE(1)});
    claim(f, id, HOLDER);
    assert_ok(f, try_fail(f, id, HOLDER, 0, "first"));
}
static void make_cancelled(struct fixture *f, const char *id)
{
    make_task(f, id);
    assert_ok(f, try_move(f, dibs_task_cancel, id, NULL));
}

/* ---- each move ------------------------------------------------------------------------------- */

static dibs_status do_claim(struct fixture *f, const char *id)
{
    return try_claim(f, id, HOLDER, 0);
}
static dibs_status do_complete(struct fixture *f, const char *id)
{
    return try_complete(f, id, HOLDER, 0, "\"second\"");
}
static dibs_status do_fail(struct fixture *f, const char *id)
{
    return try_fail(f, id, HOLDER, 0, "second");
}
static dibs_status do_release(struct fixture *f, const char *id)
{
    return try_release(f, id, HOLDER, 0, NULL);
}
static dibs_status do_offer(struct fixture *f, const char *id)
{
    return try_move(f, dibs_task_offer, id, AGENT);
}
static dibs_status do_review(struct fixture *f, const char *id)
{
    return try_review(f, id, HOLDER);
}
static dibs_status do_accept(struct fixture *f, const char *id)
{
    return try_move(f, dibs_task_accept, id, AGENT);
}
static dibs_status do_reject(struct fixture *f, const char *id)
{
    return try_move(f, dibs_task_reject, id, AGENT);
}
static dibs_status do_assign(struct fixture *f, const char *id)
{
    return try_move(f, dibs_task_assign, id, AGENT);
}
static dibs_status do_block(struct fixture *f, const char *id)
{
    return try_move(f, dibs_task_block, id, NULL);
}
static dibs_status do_unblock(struct fixture *f, const char *id)
{
    return try_move(f, dibs_task_unblock, id, NULL);
}
static dibs_status do_cancel(struct fixture *f, const char *id)
{
    return try_move(f, dibs_task_cancel, id, NULL);
}
static dibs_status do_reopen(struct fixture *f, const char *id)
{
    return try_move(f, dibs_task_reopen, id, NULL);
}

#define MOVES 13
static const struct {
    const char *name;
    dibs_status (*run)(struct fixture *f, const char *id);
} moves[MOVES] = {
    {"claim", do_claim},     {"complete", do_complete}, {"fail", do_fail},
    {"release", do_release}, {"offer", do_offer},       {"review", do_review},
    {"accept", do_accept},   {"reject", do_reject},     {"assign", do_assign},
    {"block", do_block},     {"unblock", do_unblock},   {"cancel", do_cancel},
    {"reopen", do_reopen},
};

/* Either the status that the move leads to, in small letters, or the refusal, in capitals. */
#define NOT_HELD "TASK_NOT_CLAIMED"
#define CLOSED "TASK_NOT_CLAIMABLE"
#define NO "ILLEGAL_TRANSITION"
#define OVER "ALREADY_FINISHED"

/* clang-format off */
static const struct {
    const char *name;
    void (*make)(struct fixture *f, const char *id);
    const char *after[MOVES];
} statuses[] = {
    /*                                 claim          complete     fail      release
                                       offer      review       accept      reject  assign
                                       block      unblock cancel       reopen */
    {"open", make_open,               {"in_progress", NOT_HELD,    NOT_HELD, NOT_HELD,
                                       "offered", NO,          NO,         NO,     "assigned",
                                       "blocked", NO,     "cancelled", NO}},
    {"offered", make_offered,         {CLOSED,        NOT_HELD,    NOT_HELD, NOT_HELD,
                                       NO,        "reviewing", "assigned", "open", "assigned",
                                       NO,        NO,     "cancelled", NO}},
    {"reviewing", make_reviewing,     {CLOSED,        NOT_HELD,    NOT_HELD, "offered",
                                       NO,        NO,          "assigned", "open", "assigned",
                                       NO,        NO,     "cancelled", NO}},
    {"assigned", make_assigned,       {"in_progress", NOT_HELD,    NOT_HELD, NOT_HELD,
                                       NO,        NO,          NO,         NO,     NO,
                                       "blocked", NO,     "cancelled", NO}},
    {"in_progress", make_in_progress, {"in_progress", "completed", "open",   "open",
                                       NO,        NO,          NO,         NO,     NO,
                                       "blocked", NO,     "cancelled", NO}},
    {"blocked", make_blocked,         {CLOSED,        NOT_HELD,    NOT_HELD, NOT_HELD,
                                       NO,        NO,          NO,         NO,     NO,
                                       NO,        "open", "cancelled", NO}},
    {"completed", make_completed,     {CLOSED,        OVER,        OVER,     NOT_HELD,
                                       OVER,      OVER,        OVER,       OVER,   OVER,
                                       OVER,      OVER,   OVER,        "open"}},
    {"failed", make_failed,           {CLOSED,        OVER,        OVER,     NOT_HELD,
                                       OVER,      OVER,        OVER,       OVER,   OVER,
                                       OVER,      OVER,   OVER,        "open"}},
    {"cancelled", make_cancelled,     {CLOSED,        OVER,        OVER,     NOT_HELD,
                                       OVER,      OVER,        OVER,       OVER,   OVER,
                                       OVER,      OVER,   "cancelled", "open"}},
};
/* clang-format on */

/* Rows without what a refused report leaves behind on purpose. */
static const char *lasting_rows(struct fixture *f)
{
    plant(f, "UPDATE claim SET late_result = NULL");
    return rows_of(f);
}

static void try_one(struct fixture *f, size_t s, size_t m)
{
    const char *expected = statuses[s].after[m];
    const char *id = arena_printf(f->a, "%s-%s", statuses[s].name, moves[m].name);
    statuses[s].make(f, id);
    assert_status(f, id, statuses[s].name);
    int64_t version = get_task(f, id).version;
    const char *before = lasting_rows(f);
    dibs_status status = moves[m].run(f, id);
    struct dibs_error err = f->err;
    const char *after = lasting_rows(f);
    struct dibs_task task = get_task(f, id);
    const char *now = dibs_task_status_name(task.status);
    const char *answer = status == DIBS_OK ? now : dibs_status_name(status);
    if (strcmp(answer, expected) != 0)
        fail_msg("%s: %s instead of %s: %s", id, answer, expected, err.message);
    if (status != DIBS_OK) {
        assert_string_equal(err.task_status, statuses[s].name);
        assert_non_null(strstr(err.message, id));
        assert_string_equal(after, before);
    } else if (strcmp(now, statuses[s].name) != 0) {
        assert_true(task.version > version);
        struct dibs_history h = get_history(f, id);
        const struct dibs_event *last = &h.events[h.event_count - 1];
        assert_string_equal(event_field(f, last, "status"), now);
    }
}

static void test_each_move_from_each_status_goes_where_the_table_says(void **state)
{
    struct fixture *f = *state;
    make_agent_session(f, HOLDER, AGENT);
    for (size_t s = 0; s < COUNT_OF(statuses); s++)
        for (size_t m = 0; m < MOVES; m++)
            try_one(f, s, m);
}

static void test_every_status_is_in_the_table_once(void **state)
{
    (void)state;
    assert_int_equal(COUNT_OF(statuses), 9);
    for (int i = 0; i < 9; i++)
        assert_string_equal(statuses[i].name, dibs_task_status_name((enum dibs_task_status)i));
    assert_string_equal(dibs_task_status_name((enum dibs_task_status)9), "unknown");
}

/* ---- the table itself, with the arrows that no single operation shows ------------------------ */

static void test_inner_moves_are_allowed_from_these_statuses_only(void **state)
{
    (void)state;
    static const struct {
        enum task_move move;
        const char *from;
    } arrows[] = {
        {MOVE_CLAIM, "open assigned"},
        {MOVE_COMPLETE, "open in_progress"},
        {MOVE_RETRY, "in_progress"},
        {MOVE_GIVE_BACK, "in_progress"},
        {MOVE_OFFER, "open"},
        {MOVE_REVIEW, "offered"},
        {MOVE_REVIEW_END, "reviewing"},
        {MOVE_WITHDRAW, "offered reviewing"},
        {MOVE_ACCEPT, "offered reviewing"},
        {MOVE_REJECT, "offered reviewing"},
        {MOVE_ASSIGN, "open offered reviewing"},
        {MOVE_BLOCK, "open assigned in_progress"},
        {MOVE_UNBLOCK, "blocked"},
        {MOVE_CANCEL, "open offered reviewing assigned in_progress blocked"},
        {MOVE_REOPEN, "completed failed cancelled"},
    };
    assert_int_equal(COUNT_OF(arrows), MOVE_REOPEN + 1);
    for (size_t i = 0; i < COUNT_OF(arrows); i++)
        for (int s = DIBS_TASK_OPEN; s <= DIBS_TASK_CANCELLED; s++) {
            struct task_row row = {.status = (enum dibs_task_status)s};
            const char *word = strstr(arrows[i].from, dibs_task_status_name(row.status));
            if (dibs__task_may(&row, arrows[i].move) != (word != NULL))
                fail_msg("move %d from %s", arrows[i].move, dibs_task_status_name(row.status));
        }
}

struct wrong_move {
    const char *id;
    enum task_move move;
    enum dibs_task_status to;
};

static dibs_status wrong_move_tx(struct tx *tx, const void *input, void *output)
{
    const struct wrong_move *in = input;
    struct task_row row = {0};
    (void)output;
    dibs_status status = dibs__task_load(tx, in->id, &row);
    if (status == DIBS_OK)
        dibs__task_set_status(tx, &row, in->move, in->to);
    return status;
}

static void test_a_move_outside_the_table_never_reaches_the_disk(void **state)
{
    struct fixture *f = *state;
    make_task(f, "t");
    const char *before = rows_of(f);
    struct wrong_move from = {"t", MOVE_REOPEN, DIBS_TASK_OPEN};
    struct wrong_move to = {"t", MOVE_OFFER, DIBS_TASK_COMPLETED};
    assert_refused(f, DIBS_INTERNAL,
                   dibs__write(f->d, f->a, &f->err, wrong_move_tx, &from, NULL, 0));
    assert_refused(f, DIBS_INTERNAL, dibs__write(f->d, f->a, &f->err, wrong_move_tx, &to, NULL, 0));
    assert_string_equal(rows_of(f), before);
}

static void test_the_data_file_itself_refuses_a_status_that_does_not_exist(void **state)
{
    struct fixture *f = *state;
    make_task(f, "t");
    assert_true(is_refused_by_the_file(f, "UPDATE task SET ready = 0, status = 'done'"));
    assert_true(is_refused_by_the_file(f, "UPDATE task SET status = NULL"));
    assert_true(is_refused_by_the_file(f, "UPDATE task SET ready = 0, status = 'completed'"));
    assert_true(is_refused_by_the_file(f, "UPDATE task SET status = 'blocked'"));
    assert_true(is_refused_by_the_file(f, "UPDATE task SET priority = 101"));
}

/* ---- moves seen from outside ----------------------------------------------------------------- */

static void test_only_final_statuses_have_a_time_of_finishing(void **state)
{
    struct fixture *f = *state;
    make_agent_session(f, HOLDER, AGENT);
    for (size_t s = 0; s < COUNT_OF(statuses); s++) {
        statuses[s].make(f, statuses[s].name);
        struct dibs_task task = get_task(f, statuses[s].name);
        bool final = task.status >= DIBS_TASK_COMPLETED;
        assert_int_equal(task.finished_at_ms, final ? now_ms(f) : 0);
    }
}

static void test_a_refused_move_says_what_to_do_with_a_finished_task(void **state)
{
    struct fixture *f = *state;
    make_agent_session(f, HOLDER, AGENT);
    make_completed(f, "t");
    assert_refused(f, DIBS_ALREADY_FINISHED, try_move(f, dibs_task_assign, "t", AGENT));
    assert_string_equal(f->err.message,
                        "task 't' is completed and cannot be assigned; reopen it first");
    make_open(f, "u");
    assert_refused(f, DIBS_ILLEGAL_TRANSITION, try_move(f, dibs_task_accept, "u", AGENT));
    assert_string_equal(f->err.message, "task 'u' is open and cannot be accepted");
}

static void test_the_version_grows_with_every_change(void **state)
{
    struct fixture *f = *state;
    make_agent_session(f, HOLDER, AGENT);
    make_task(f, "t");
    int64_t version = get_task(f, "t").version;
    assert_int_equal(version, 1);
    static dibs_status (*const steps[])(struct fixture *, const char *) = {
        do_offer,   do_review, do_accept,   do_claim,  do_release, do_block,
        do_unblock, do_claim,  do_complete, do_reopen, do_cancel};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        world_pass(&f->world, 10);
        assert_ok(f, steps[i](f, "t"));
        struct dibs_task task = get_task(f, "t");
        assert_true(task.version > version);
        assert_int_equal(task.updated_at_ms, now_ms(f));
        version = task.version;
    }
}

/* ---- words ----------------------------------------------------------------------------------- */

static void test_status_words_are_read_in_any_case_and_by_their_other_names(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        enum dibs_task_status status;
    } known[] = {{"open", DIBS_TASK_OPEN},
                 {"OPEN", DIBS_TASK_OPEN},
                 {"unassigned", DIBS_TASK_OPEN},
                 {"Pending", DIBS_TASK_OPEN},
                 {"claimed", DIBS_TASK_IN_PROGRESS},
                 {"CLAIMED", DIBS_TASK_IN_PROGRESS},
                 {"In_Progress", DIBS_TASK_IN_PROGRESS},
                 {"offered", DIBS_TASK_OFFERED},
                 {"reviewing", DIBS_TASK_REVIEWING},
                 {"assigned", DIBS_TASK_ASSIGNED},
                 {"blocked", DIBS_TASK_BLOCKED},
                 {"completed", DIBS_TASK_COMPLETED},
                 {"failed", DIBS_TASK_FAILED},
                 {"cancelled", DIBS_TASK_CANCELLED}};
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        enum dibs_task_status status = DIBS_TASK_CANCELLED + 1;
        assert_true(dibs_task_status_parse(known[i].word, &status));
        assert_int_equal(status, known[i].status);
    }
    static const char *const unknown[] = {"", "done", "open ", "opened", "0", NULL};
    for (size_t i = 0; i < COUNT_OF(unknown); i++) {
        enum dibs_task_status status = DIBS_TASK_FAILED;
        assert_false(dibs_task_status_parse(unknown[i], &status));
        assert_int_equal(status, DIBS_TASK_FAILED);
    }
}

static void test_priorities_are_read_as_words_and_as_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        int64_t priority;
    } known[] = {{"critical", 95}, {"HIGH", 75}, {"Medium", 50}, {"low", 25},
                 {"0", 0},         {"100", 100}, {"42", 42}};
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        int64_t priority = -1;
        assert_true(dibs_priority_parse(known[i].word, &priority));
        assert_int_equal(priority, known[i].priority);
    }
    static const char *const unknown[] = {"", "101", "-1", "urgent", "5x", "1.5"};
    for (size_t i = 0; i < COUNT_OF(unknown); i++) {
        int64_t priority = -1;
        assert_false(dibs_priority_parse(unknown[i], &priority));
    }
}

static void test_a_priority_is_named_by_the_nearest_word(void **state)
{
    (void)state;
    static const struct {
        int64_t priority;
        const char *word;
    } names[] = {{100, "critical"}, {95, "critical"}, {86, "critical"}, {84, "high"},
                 {75, "high"},      {63, "high"},     {62, "medium"},   {50, "medium"},
                 {38, "medium"},    {37, "low"},      {25, "low"},      {0, "low"}};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        assert_string_equal(dibs_priority_word(names[i].priority), names[i].word);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_each_move_from_each_status_goes_where_the_table_says),
        cmocka_unit_test(test_every_status_is_in_the_table_once),
        cmocka_unit_test(test_inner_moves_are_allowed_from_these_statuses_only),
        STORE_TEST(test_a_move_outside_the_table_never_reaches_the_disk),
        STORE_TEST(test_the_data_file_itself_refuses_a_status_that_does_not_exist),
        STORE_TEST(test_only_final_statuses_have_a_time_of_finishing),
        STORE_TEST(test_a_refused_move_says_what_to_do_with_a_finished_task),
        STORE_TEST(test_the_version_grows_with_every_change),
        cmocka_unit_test(test_status_words_are_read_in_any_case_and_by_their_other_names),
        cmocka_unit_test(test_priorities_are_read_as_words_and_as_numbers),
        cmocka_unit_test(test_a_priority_is_named_by_the_nearest_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
