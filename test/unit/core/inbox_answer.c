/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/inbox_answer.c: every answer from every status; who may answer, before, during
 * and after a lease; that each message is answered once.
 */
#include "inboxes.h"

/* One message in each status, named after it. */
static void given_one_of_each(struct fixture *f)
{
    make_lead(f, "ann");
    make_lead(f, "bob");
    make_task(f, "t");
    make_message(f, "processing");
    assert_string_equal(take_for(f, "ann", "ann-1", 1), "processing");
    make_message(f, "unread");
    make_message(f, "read");
    make_message(f, "responded");
    make_message(f, "delegated");
    assert_ok(f, try_answer(f, dibs_inbox_read, (struct dibs_inbox_answer){.id = "read"}));
    assert_ok(f, try_answer(f, dibs_inbox_respond,
                            (struct dibs_inbox_answer){.id = "responded", .response = "yes"}));
    assert_ok(f, try_answer(f, dibs_inbox_delegate,
                            (struct dibs_inbox_answer){.id = "delegated", .task_id = "t"}));
}

static dibs_status answer_as(struct fixture *f, answer_call *call, const char *id,
                             const char *session, int64_t token)
{
    return try_answer(
        f, call,
        (struct dibs_inbox_answer){.id = id,
                                   .session_id = session,
                                   .token = token,
                                   .response = call == dibs_inbox_respond ? "yes" : NULL,
                                   .task_id = call == dibs_inbox_delegate ? "t" : NULL});
}

/* ---- every answer from every status ---------------------------------------------------------- */

static answer_call *const calls[] = {dibs_inbox_read, dibs_inbox_respond, dibs_inbox_delegate,
                                     dibs_inbox_release};
static const char *const statuses[] = {"unread", "processing", "read", "responded", "delegated"};

/* What each call makes of each status; NULL: refused. */
static const char *const becomes[5][4] = {
    {"read", "responded", "delegated", "unread"}, /* unread */
    {"read", "responded", "delegated", "unread"}, /* processing */
    {"read", NULL, NULL, NULL},                   /* read */
    {NULL, "responded", NULL, NULL},              /* responded */
    {NULL, NULL, "delegated", NULL},              /* delegated */
};

/* A message in this status; one in hand is in ann's. */
static void make_in_status(struct fixture *f, size_t status, const char *id)
{
    make_message(f, id);
    if (status == 1)
        assert_string_equal(take_for(f, "ann", "ann-1", 1), id);
    if (status > 1)
        assert_ok(f, answer_as(f, calls[status - 2], id, NULL, 0));
    assert_message(f, id, statuses[status]);
}

static void try_cell(struct fixture *f, size_t status, size_t call)
{
    char id[32];
    const char *expected = becomes[status][call];
    snprintf(id, sizeof id, "%s-%zu", statuses[status], call);
    make_in_status(f, status, id);
    size_t events = events_of(f, NULL).count;
    dibs_status got = answer_as(f, calls[call], id, status == 1 ? "ann-1" : NULL, 0);
    if (expected)
        assert_ok(f, got);
    else
        assert_refused(f, DIBS_ALREADY_ANSWERED, got);
    assert_message(f, id, expected ? expected : statuses[status]);
    bool changes = expected && strcmp(expected, statuses[status]) != 0;
    assert_int_equal(events_of(f, NULL).count, events + changes);
    if (status < 2 && call == 3) /* out of the way of the next */
        assert_ok(f, answer_as(f, dibs_inbox_read, id, NULL, 0));
}

static void test_every_answer_to_every_status_is_as_the_table_says(void **state)
{
    struct fixture *f = *state;
    make_lead(f, "ann");
    make_task(f, "t");
    for (size_t status = 0; status < 5; status++)
        for (size_t call = 0; call < 4; call++)
            try_cell(f, status, call);
}

/* ---- who may --------------------------------------------------------------------------------- */

static void test_while_somebody_holds_it_only_the_holder_answers(void **state)
{
    struct fixture *f = *state;
    given_one_of_each(f);
    int64_t token = get_message(f, "processing").claim->token;
    for (size_t i = 0; i < 4; i++) {
        assert_refused(f, DIBS_NOT_CLAIM_OWNER, answer_as(f, calls[i], "processing", "bob-1", 0));
        assert_string_equal(f->err.holder, "ann-1");
        assert_int_equal(f->err.remaining_ms, MINUTES(30));
        assert_refused(f, DIBS_NOT_CLAIM_OWNER,
                       answer_as(f, calls[i], "processing", "bob-1", token));
        assert_refused(f, DIBS_NOT_CLAIM_OWNER, answer_as(f, calls[i], "processing", NULL, 0));
        assert_refused(f, DIBS_STALE_TOKEN,
                       answer_as(f, calls[i], "processing", "ann-1", token + 1));
    }
    assert_message(f, "processing", "processing");
    assert_ok(f, answer_as(f, dibs_inbox_read, "processing", "ann-1", token));
    assert_int_equal(get_session(f, "ann-1").claims_live, 0);
    struct dibs_event_list events = events_of(f, "inbox:read");
    const struct dibs_event *last = &events.items[events.count - 1];
    assert_string_equal(last->session_id, "ann-1");
    assert_int_equal(event_int(f, last, "token"), token);
    assert_string_equal(event_field(f, last, "late"), "");
}

static void test_a_message_that_nobody_holds_is_anybodys_who_is_known(void **state)
{
    struct fixture *f = *state;
    given_one_of_each(f);
    assert_refused(f, DIBS_SESSION_NOT_FOUND, answer_as(f, dibs_inbox_read, "unread", "nosuch", 0));
    assert_refused(f, DIBS_STALE_TOKEN, answer_as(f, dibs_inbox_read, "unread", "bob-1", 7));
    assert_refused(f, DIBS_STALE_TOKEN, answer_as(f, dibs_inbox_read, "unread", NULL, 7));
    assert_refused(f, DIBS_MESSAGE_NOT_FOUND, answer_as(f, dibs_inbox_read, "nosuch", "bob-1", 0));
    assert_refused(f, DIBS_INVALID_REQUEST, answer_as(f, dibs_inbox_read, "a b", "bob-1", 0));
    assert_refused(f, DIBS_INVALID_REQUEST, answer_as(f, dibs_inbox_read, "unread", "a b", 0));
    assert_ok(f, answer_as(f, dibs_inbox_read, "unread", "bob-1", 0));
    assert_message(f, "unread", "read");
}

static void test_an_answer_after_the_lease_is_welcome_while_nobody_took_it(void **state)
{
    struct fixture *f = *state;
    given_one_of_each(f);
    int64_t token = get_message(f, "processing").claim->token;
    world_pass(&f->world, MINUTES(30));
    assert_ok(f, answer_as(f, dibs_inbox_respond, "processing", "ann-1", token));
    assert_message(f, "processing", "responded");
    struct dibs_event_list events = events_of(f, "inbox:responded");
    const struct dibs_event *last = &events.items[events.count - 1];
    assert_string_equal(event_field(f, last, "late"), "true");
    assert_int_equal(event_int(f, last, "token"), token);
    assert_event_count(f, "inbox:released", 1);
}

static void test_an_answer_of_a_dead_session_is_welcome_while_nobody_took_it(void **state)
{
    struct fixture *f = *state;
    struct dibs_deregistered gone = {0};
    given_one_of_each(f);
    assert_ok(f, dibs_session_deregister(f->d, f->a, "ann-1", &gone, &f->err));
    assert_int_equal(gone.claims_released, 1);
    assert_message(f, "processing", "unread");
    assert_ok(f, answer_as(f, dibs_inbox_read, "processing", "ann-1", 0));
    assert_message(f, "processing", "read");
}

static void test_an_answer_after_another_took_it_is_refused(void **state)
{
    struct fixture *f = *state;
    given_one_of_each(f);
    int64_t token = get_message(f, "processing").claim->token;
    world_pass(&f->world, MINUTES(30));
    assert_string_equal(take_for(f, "bob", "bob-1", 1), "processing");
    assert_refused(f, DIBS_NOT_CLAIM_OWNER,
                   answer_as(f, dibs_inbox_read, "processing", "ann-1", token));
    assert_ok(f, answer_as(f, dibs_inbox_release, "processing", "bob-1", 0));
    /* now it is free, but the token is an old one */
    assert_refused(f, DIBS_STALE_TOKEN,
                   answer_as(f, dibs_inbox_read, "processing", "ann-1", token));
    assert_ok(f, answer_as(f, dibs_inbox_read, "processing", "bob-1", 0));
    assert_refused(f, DIBS_ALREADY_ANSWERED,
                   answer_as(f, dibs_inbox_respond, "processing", "ann-1", token));
}

static void test_a_released_message_is_taken_first_again(void **state)
{
    struct fixture *f = *state;
    given_one_of_each(f);
    assert_ok(f, answer_as(f, dibs_inbox_release, "processing", "ann-1", 0));
    struct dibs_event_list events = events_of(f, "inbox:released");
    assert_int_equal(events.count, 1);
    assert_string_equal(event_field(f, &events.items[0], "reason"), "released");
    assert_string_equal(event_field(f, &events.items[0], "status"), "unread");
    assert_int_equal(beat(f, "ann-1").lost.count, 0); /* it knows */
    assert_string_equal(take_for(f, "bob", "bob-1", 0), "processing unread");
}

/* ---- answers with something in them ---------------------------------------------------------- */

static void test_a_response_is_kept_and_put_on_its_way_to_slack_only(void **state)
{
    struct fixture *f = *state;
    make_lead(f, "ann");
    assert_ok(f, try_message(f, (struct dibs_message_new){.id = "s",
                                                          .source = "slack",
                                                          .content = "c",
                                                          .channel = "C1",
                                                          .thread = "1.2"}));
    make_message(f, "a");
    struct dibs_inbox_answer in = {.id = "s", .response = "ü\nyes"};
    assert_ok(f, try_answer(f, dibs_inbox_respond, in));
    assert_ok(f, try_answer(f, dibs_inbox_respond, in)); /* a repeat sends nothing */
    in.id = "a";
    assert_ok(f, try_answer(f, dibs_inbox_respond, in));
    assert_string_equal(get_message(f, "s").response, "ü\nyes");
    assert_int_equal(query_int(f, "SELECT count(*) FROM outgoing"), 1);
    assert_int_equal(query_int(f, "SELECT count(*) FROM outgoing WHERE status = 'waiting' AND "
                                  "message_key = (SELECT key FROM inbox_message WHERE id = 's')"),
                     1);
    in.response = "no";
    assert_refused(f, DIBS_ALREADY_ANSWERED, try_answer(f, dibs_inbox_respond, in));
    make_message(f, "b");
    const char *bad[] = {NULL, "", repeated(f, 'x', 64 * 1024 + 1), "\xff"};
    for (size_t i = 0; i < 4; i++) {
        in = (struct dibs_inbox_answer){.id = "b", .response = bad[i]};
        assert_refused(f, DIBS_INVALID_REQUEST, try_answer(f, dibs_inbox_respond, in));
        assert_string_equal(f->err.field, "text");
    }
}

static void test_a_message_becomes_a_task_in_its_project_in_one_step(void **state)
{
    struct fixture *f = *state;
    struct dibs_message out = {0};
    assert_ok(f,
              try_message(f, (struct dibs_message_new){.id = "m", .content = "c", .project = "p"}));
    struct dibs_task_new task = {.title = "do it", .type = "fix", .params = "{\"a\":1}"};
    struct dibs_inbox_answer in = {.id = "m", .task = &task};
    assert_ok(f, dibs_inbox_delegate(f->d, f->a, &in, &out, &f->err));
    assert_int_equal(out.status, DIBS_INBOX_DELEGATED);
    struct dibs_task made = get_task(f, out.task_id);
    assert_string_equal(made.project, "p");
    assert_string_equal(made.title, "do it");
    struct dibs_event_list events = events_of(f, "inbox:delegated");
    assert_string_equal(event_field(f, &events.items[0], "taskId"), made.id);
    /* the same again finds the same task; another is refused, and makes none */
    assert_ok(f, dibs_inbox_delegate(f->d, f->a, &in, &out, &f->err));
    assert_string_equal(out.task_id, made.id);
    task.title = "do something else";
    assert_refused(f, DIBS_ALREADY_ANSWERED, try_answer(f, dibs_inbox_delegate, in));
    in = (struct dibs_inbox_answer){.id = "m", .task_id = made.id};
    assert_ok(f, try_answer(f, dibs_inbox_delegate, in));
    in.task_id = "other";
    assert_refused(f, DIBS_ALREADY_ANSWERED, try_answer(f, dibs_inbox_delegate, in));
    assert_int_equal(query_int(f, "SELECT count(*) FROM task"), 1);
}

static void test_a_task_that_cannot_be_made_leaves_the_message_as_it_was(void **state)
{
    struct fixture *f = *state;
    given_one_of_each(f);
    struct dibs_task_new taken = {.id = "t", .title = "T"}, untitled = {0},
                         waits = {.title = "T", .depends_on = DIBS_STRINGS("nosuch")};
    const struct {
        struct dibs_inbox_answer in;
        dibs_status status;
        const char *field;
    } rows[] = {
        {{.task = &taken}, DIBS_TASK_EXISTS, ""},
        {{.task = &untitled}, DIBS_INVALID_REQUEST, "title"},
        {{.task = &waits}, DIBS_TASK_NOT_FOUND, ""},
        {{.task_id = "nosuch"}, DIBS_TASK_NOT_FOUND, ""},
        {{.task_id = "a b"}, DIBS_INVALID_REQUEST, "taskId"},
        {{.task_id = "t", .task = &taken}, DIBS_INVALID_REQUEST, "taskId"},
        {{.task = NULL}, DIBS_INVALID_REQUEST, "task"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dibs_inbox_answer in = rows[i].in;
        in.id = "processing";
        in.session_id = "ann-1";
        assert_refused(f, rows[i].status, try_answer(f, dibs_inbox_delegate, in));
        assert_string_equal(f->err.field, rows[i].field);
    }
    assert_message(f, "processing", "processing");
    assert_int_equal(query_int(f, "SELECT count(*) FROM task"), 1);
}

static dibs_status delegate_op(struct fixture *f)
{
    struct dibs_task_new task = {.title = "T"};
    struct dibs_inbox_answer in = {.id = "processing", .session_id = "ann-1", .task = &task};
    return try_answer(f, dibs_inbox_delegate, in);
}

static void test_on_a_failing_store_nothing_is_answered_by_half(void **state)
{
    struct fixture *f = *state;
    given_one_of_each(f);
    assert_true(probe_fail_each(f, delegate_op) > 5);
    assert_message(f, "processing", "delegated");
    assert_int_equal(query_int(f, "SELECT count(*) FROM task"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_every_answer_to_every_status_is_as_the_table_says),
        STORE_TEST(test_while_somebody_holds_it_only_the_holder_answers),
        STORE_TEST(test_a_message_that_nobody_holds_is_anybodys_who_is_known),
        STORE_TEST(test_an_answer_after_the_lease_is_welcome_while_nobody_took_it),
        STORE_TEST(test_an_answer_of_a_dead_session_is_welcome_while_nobody_took_it),
        STORE_TEST(test_an_answer_after_another_took_it_is_refused),
        STORE_TEST(test_a_released_message_is_taken_first_again),
        STORE_TEST(test_a_response_is_kept_and_put_on_its_way_to_slack_only),
        STORE_TEST(test_a_message_becomes_a_task_in_its_project_in_one_step),
        STORE_TEST(test_a_task_that_cannot_be_made_leaves_the_message_as_it_was),
        STORE_TEST(test_on_a_failing_store_nothing_is_answered_by_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
