/* SPDX-License-Identifier: MIT */
/* Tests of src/core/agent.c: making agents known, what they are doing, and how much they may
 * hold. */
#include <stdio.h>
#include <unistd.h>

#include "agents.h"
#include "core/swarm.h"
#include "db/db_private.h"
#include "db/migrate.h"
#include "probe.h"

static void test_an_agent_is_made_known_once_and_changed_afterwards(void **state)
{
    struct fixture *f = *state;
    struct dibs_agent a = reg(f, (struct dibs_agent_new){.name = "amy"});
    assert_true(a.created);
    assert_string_equal(a.id, "amy");
    assert_string_equal(a.project, "default");
    assert_false(a.is_lead);
    assert_int_equal(a.max_tasks, 1);
    assert_int_equal(a.capabilities.count, 0);
    assert_int_equal(a.registered_at_ms, now_ms(f));
    world_pass(&f->world, 1000);
    struct dibs_strings words = DIBS_STRINGS("c", "sql");
    a = reg(f, (struct dibs_agent_new){.name = "amy",
                                       .project = "p",
                                       .is_lead = DIBS_VALUE(1),
                                       .max_tasks = DIBS_VALUE(3),
                                       .capabilities = &words,
                                       .metadata = "{\"a\":1}"});
    assert_false(a.created);
    a = get_agent(f, "amy");
    assert_true(a.is_lead);
    assert_string_equal(a.project, "p");
    assert_int_equal(a.max_tasks, 3);
    assert_string_equal(a.capabilities.items[1], "sql");
    assert_string_equal(a.metadata, "{\"a\":1}");
    assert_int_equal(a.updated_at_ms, a.registered_at_ms + 1000);
    assert_event_count(f, "agent:registered", 1);
    assert_event_count(f, "agent:updated", 1);
}

static void test_saying_the_same_again_changes_nothing_and_tells_nobody(void **state)
{
    struct fixture *f = *state;
    struct dibs_strings words = DIBS_STRINGS("c");
    struct dibs_agent_new in = {
        .id = "amy", .max_tasks = DIBS_VALUE(2), .capabilities = &words, .metadata = "1"};
    reg(f, in);
    world_pass(&f->world, 1000);
    struct dibs_agent a = reg(f, in);
    assert_false(a.created);
    assert_int_equal(a.updated_at_ms, a.registered_at_ms);
    a = reg(f, (struct dibs_agent_new){.id = "amy"}); /* nothing given: as it is */
    assert_int_equal(a.max_tasks, 2);
    assert_int_equal(a.capabilities.count, 1);
    assert_event_count(f, "agent:updated", 0);
}

static void test_a_name_belongs_to_one_agent(void **state)
{
    struct fixture *f = *state;
    struct dibs_agent out = {0};
    reg(f, (struct dibs_agent_new){.id = "a-1", .name = "amy"});
    assert_refused(f, DIBS_AGENT_EXISTS,
                   try_register(f, (struct dibs_agent_new){.id = "a-2", .name = "amy"}, &out));
    assert_refused(f, DIBS_AGENT_NOT_FOUND, dibs_agent_get(f->d, f->a, "a-2", &out, &f->err));
    /* the id is found by the name */
    assert_string_equal(reg(f, (struct dibs_agent_new){.name = "amy"}).id, "a-1");
    reg(f, (struct dibs_agent_new){.id = "a-1", .name = "ann"});
    assert_string_equal(reg(f, (struct dibs_agent_new){.name = "amy"}).id, "amy");
}

static void test_what_cannot_be_an_agent_is_refused_by_field(void **state)
{
    struct fixture *f = *state;
    struct dibs_agent out = {0};
    const char *many[CAPABILITIES_MAX + 1];
    for (size_t i = 0; i < COUNT_OF(many); i++)
        many[i] = "w";
    struct dibs_strings too_many = {.items = many, .count = COUNT_OF(many)};
    struct dibs_strings empty = DIBS_STRINGS("");
    const struct {
        const char *field;
        struct dibs_agent_new in;
    } rows[] = {
        {"name", {0}},
        {"name", {.name = "a:b"}},
        {"name", {.name = repeated(f, 'a', AGENT_NAME_BYTES_MAX + 1)}},
        {"name", {.id = "a:b"}}, /* an id that can be no name needs one */
        {"name", {.name = "scores"}},
        {"id", {.id = "scores", .name = "x"}},
        {"id", {.id = "no id"}},
        {"project", {.name = "x", .project = repeated(f, 'p', WORD_BYTES_MAX + 1)}},
        {"maxTasks", {.name = "x", .max_tasks = DIBS_VALUE(0)}},
        {"maxTasks", {.name = "x", .max_tasks = DIBS_VALUE(AGENT_TASKS_MAX + 1)}},
        {"capabilities", {.name = "x", .capabilities = &too_many}},
        {"capabilities", {.name = "x", .capabilities = &empty}},
        {"metadata", {.name = "x", .metadata = "{"}},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_refused(f, DIBS_INVALID_REQUEST, try_register(f, rows[i].in, &out));
        assert_string_equal(f->err.field, rows[i].field);
    }
    assert_event_count(f, "agent:registered", 0);
}

static void test_a_session_makes_its_agent_known_as_a_worker(void **state)
{
    struct fixture *f = *state;
    struct dibs_session s = {0};
    struct dibs_session_new in = {.id = "s", .agent_id = "amy", .project = "p"};
    assert_ok(f, dibs_session_register(f->d, f->a, &in, &s, &f->err));
    struct dibs_agent a = get_agent(f, "amy");
    assert_string_equal(a.name, "amy");
    assert_string_equal(a.project, "p");
    assert_false(a.is_lead);
    assert_event_count(f, "agent:registered", 1);
    make_agent_session(f, "t", "amy");
    assert_event_count(f, "agent:registered", 1);
    assert_string_equal(get_agent(f, "amy").project, "p");
}

static void test_an_agent_made_by_a_session_gets_a_free_name(void **state)
{
    struct fixture *f = *state;
    reg(f, (struct dibs_agent_new){.id = "x", .name = "amy"});
    make_agent_session(f, "s", "amy");
    assert_string_equal(get_agent(f, "amy").name, "agent-1");
    assert_string_equal(get_agent(f, "x").name, "amy");
}

static void test_status_is_read_off_the_sessions(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 2);
    assert_int_equal(get_agent(f, "amy").status, DIBS_AGENT_OFFLINE);
    make_agent_session(f, "s", "amy");
    assert_int_equal(get_agent(f, "amy").status, DIBS_AGENT_IDLE);
    assert_int_equal(get_agent(f, "amy").sessions_live, 1);
    make_task(f, "t");
    claim(f, "t", "s");
    assert_int_equal(get_agent(f, "amy").status, DIBS_AGENT_BUSY);
    assert_int_equal(get_agent(f, "amy").tasks_live, 1);
    world_pass(&f->world, MINUTES(30)); /* a lease ends at its deadline, whoever looks */
    assert_int_equal(get_agent(f, "amy").status, DIBS_AGENT_IDLE);
    struct dibs_claim lock = {0};
    struct dibs_lock_take take = {.resource = "r", .session_id = "s"};
    assert_ok(f, dibs_lock_take(f->d, f->a, &take, &lock, &f->err));
    assert_int_equal(get_agent(f, "amy").status, DIBS_AGENT_BUSY);
    assert_int_equal(get_agent(f, "amy").tasks_live, 0);
    end_session(f, "s");
    assert_int_equal(get_agent(f, "amy").status, DIBS_AGENT_OFFLINE);
    assert_string_equal(dibs_agent_status_name(DIBS_AGENT_OFFLINE), "offline");
}

static void test_an_agent_is_heard_when_a_session_begins_and_ends(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    int64_t made = now_ms(f);
    world_pass(&f->world, MINUTES(1));
    assert_int_equal(get_agent(f, "amy").seen_at_ms, made);
    make_agent_session(f, "s", "amy");
    assert_int_equal(get_agent(f, "amy").seen_at_ms, made + MINUTES(1));
    world_pass(&f->world, MINUTES(1));
    end_session(f, "s");
    assert_int_equal(get_agent(f, "amy").seen_at_ms, made + MINUTES(2));
}

static void test_agents_are_listed_by_project_and_part(void **state)
{
    struct fixture *f = *state;
    struct dibs_agent_list out = {0};
    make_lead(f, "ann");
    make_worker_for(f, "bob", 1);
    reg(f, (struct dibs_agent_new){.id = "cat", .project = "p", .is_lead = DIBS_VALUE(1)});
    struct dibs_agent_filter all = {0}, leads = {.is_lead = DIBS_VALUE(1)},
                             workers = {.is_lead = DIBS_VALUE(0)}, of_p = {.project = "p"};
    assert_ok(f, dibs_agent_list(f->d, f->a, &all, &out, &f->err));
    assert_int_equal(out.count, 3);
    assert_string_equal(out.items[1].id, "bob");
    assert_ok(f, dibs_agent_list(f->d, f->a, &leads, &out, &f->err));
    assert_int_equal(out.count, 2);
    assert_ok(f, dibs_agent_list(f->d, f->a, &workers, &out, &f->err));
    assert_int_equal(out.count, 1);
    assert_ok(f, dibs_agent_list(f->d, f->a, &of_p, &out, &f->err));
    assert_string_equal(out.items[0].id, "cat");
}

/* ---- capacity -------------------------------------------------------------------------------- */

static void test_an_agent_at_its_capacity_is_given_no_assigned_task(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    make_agent_session(f, "s", "amy");
    make_agent_session(f, "t", "amy");
    make_assigned(f, "a", "amy");
    make_assigned(f, "b", "amy");
    make_task(f, "pool");
    assert_ok(f, try_claim(f, "a", "s", 0));
    assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, "b", "t", 0));
    assert_string_equal(f->err.message, "agent 'amy' is at its capacity of 1");
    /* what nobody was given is not counted: the pool is for all */
    assert_string_equal(claim_any(f, (struct dibs_claim_next){.session_id = "t"}), "pool");
    assert_string_equal(claim_any(f, (struct dibs_claim_next){.session_id = "t"}), "");
    assert_ok(f, try_complete(f, "pool", "t", 0, NULL));
    assert_ok(f, try_complete(f, "a", "s", 0, NULL));
    assert_string_equal(claim_any(f, (struct dibs_claim_next){.session_id = "t"}), "b");
}

static void test_claiming_several_stops_at_the_capacity(void **state)
{
    struct fixture *f = *state;
    struct dibs_grant out = {0};
    make_worker_for(f, "amy", 2);
    make_agent_session(f, "s", "amy");
    for (int i = 0; i < 4; i++)
        make_assigned(f, arena_printf(f->a, "t%d", i), "amy");
    struct dibs_claim_next in = {.session_id = "s", .count = 4};
    assert_ok(f, dibs_claim_next(f->d, f->a, &in, &out, &f->err));
    assert_int_equal(out.count, 2);
}

static void test_a_review_counts_and_is_refused_at_the_capacity(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    make_agent_session(f, "s", "amy");
    make_offered(f, "a", "amy");
    make_offered(f, "b", "amy");
    assert_ok(f, try_review(f, "a", "s"));
    assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_review(f, "b", "s"));
    assert_string_equal(f->err.message, "agent 'amy' is at its capacity of 1");
    assert_int_equal(get_agent(f, "amy").tasks_live, 1);
    assert_ok(f, try_move(f, dibs_task_accept, "a", "amy")); /* answering needs no room */
    assert_ok(f, try_review(f, "b", "s"));
    assert_refused(f, DIBS_TASK_NOT_CLAIMABLE, try_claim(f, "a", "s", 0));
}

static void test_nobody_can_be_given_a_task_whose_name_was_mistyped(void **state)
{
    struct fixture *f = *state;
    make_worker_for(f, "amy", 1);
    make_task(f, "t");
    assert_refused(f, DIBS_AGENT_NOT_FOUND, try_move(f, dibs_task_offer, "t", "ammy"));
    assert_refused(f, DIBS_AGENT_NOT_FOUND, try_move(f, dibs_task_assign, "t", "ammy"));
    assert_status(f, "t", "open");
    struct dibs_task_new assigned = {.title = "x", .assignee = "ammy"};
    struct dibs_task_new offered = {.title = "x", .offered_to = "ammy"};
    assert_refused(f, DIBS_AGENT_NOT_FOUND, try_create(f, assigned));
    assert_refused(f, DIBS_AGENT_NOT_FOUND, try_create(f, offered));
    assert_event_count(f, "task:created", 1);
}

/* ---- leads ----------------------------------------------------------------------------------- */

static dibs_status has_lead_tx(struct tx *tx, const void *in, void *out)
{
    *(bool *)out = dibs__has_lead(tx, in);
    return DIBS_OK;
}

static bool has_lead(struct fixture *f, const char *project)
{
    bool has = false;
    assert_ok(f, dibs__write(f->d, f->a, &f->err, has_lead_tx, project, &has, sizeof has));
    return has;
}

static void test_whether_a_project_has_a_lead_is_always_known(void **state)
{
    struct fixture *f = *state;
    assert_false(has_lead(f, "default"));
    assert_false(has_lead(f, "p"));
    make_lead(f, "ann");
    assert_true(has_lead(f, "default"));
    assert_false(has_lead(f, "p"));
    dibs *other = fixture_open(f); /* another process */
    struct dibs_agent out = {0};
    struct dibs_agent_new moved = {.id = "ann", .project = "p"};
    assert_ok(f, dibs_agent_register(other, f->a, &moved, &out, &f->err));
    assert_true(has_lead(f, "p"));
    assert_false(has_lead(f, "default"));
    dibs_close(other);
    assert_ok(f, dibs_batch_begin(f->d, &f->err));
    reg(f, (struct dibs_agent_new){.id = "ann", .is_lead = DIBS_VALUE(0)});
    assert_false(has_lead(f, "p"));
    dibs_batch_cancel(f->d); /* it did not happen */
    assert_true(has_lead(f, "p"));
}

/* ---- an older store -------------------------------------------------------------------------- */

/* A store of the time before agents, with these rows. */
static void given_an_older_store(struct fixture *f, const char *sql)
{
    char path[128];
    struct db *db = NULL;
    static const char *const ends[] = {"", "-wal", "-shm"};
    struct migration_list before = {.items = db_migrations.items, .count = 3};
    f->skip_verify = true; /* no journal tells of the rows */
    dibs_close(f->d);
    f->d = NULL;
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        snprintf(path, sizeof path, "%s/dibs.db%s", f->data_dir, ends[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/dibs.db", f->data_dir);
    struct db_options in = {.path = path, .create = true};
    assert_int_equal(db_open_with(&in, before, &db, &f->err), DIBS_OK);
    db_close(db);
    plant(f, sql);
    fixture_reopen(f);
}

static void assert_agent(struct fixture *f, const char *id, const char *project)
{
    struct dibs_agent agent = get_agent(f, id);
    assert_string_equal(agent.name, id);
    assert_string_equal(agent.project, project);
    assert_false(agent.is_lead);
    assert_int_equal(agent.max_tasks, 1);
    assert_int_equal(agent.capabilities.count, 0);
}

#define OLD_SESSION                                                                                \
    "INSERT INTO session (id, project, agent_id, incarnation, status, registered_at, "             \
    "heartbeat_at, ended_at) VALUES "
#define OLD_TASK                                                                                   \
    "INSERT INTO task (id, project, title, status, ready, priority, attempts, max_attempts, "      \
    "generation, version, assignee, offered_to, created_at, updated_at, finished_at) VALUES "

static void test_agents_that_an_older_store_names_are_known(void **state)
{
    struct fixture *f = *state;
    given_an_older_store(
        f,
        OLD_SESSION "('s1', 'P', 'amy', 1, 'active', 1, 5, NULL),"
                    "('s2', 'Q', 'amy', 1, 'stale', 1, 9, NULL),"
                    "('s3', 'P', 'gone', 1, 'ended', 1, 9, 9),"
                    "('s4', 'P', NULL, 1, 'active', 1, 9, NULL),"
                    "('s5', 'P', 'a:b', 1, 'active', 1, 9, NULL);" OLD_TASK
                    "('t1', 'R', 't', 'assigned', 0, 50, 0, 3, 1, 1, 'bob', NULL, 1, 2, NULL),"
                    "('t2', 'R', 't', 'offered', 0, 50, 0, 3, 1, 1, NULL, 'cid', 1, 2, NULL),"
                    "('t3', 'R', 't', 'in_progress', 0, 50, 0, 3, 1, 1, 'amy', NULL, 1, 2, NULL),"
                    "('t4', 'R', 't', 'completed', 0, 50, 1, 3, 1, 1, 'dan', NULL, 1, 2, 3);");
    struct dibs_agent_list all = {0};
    assert_ok(f, dibs_agent_list(f->d, f->a, &(struct dibs_agent_filter){0}, &all, &f->err));
    assert_int_equal(all.count, 4);
    assert_agent(f, "amy", "Q"); /* where it was heard last */
    assert_agent(f, "a:b", "P");
    assert_agent(f, "bob", "R");
    assert_agent(f, "cid", "R");
    assert_int_equal(get_agent(f, "amy").sessions_live, 2);
    assert_int_equal(probe_int(f, "SELECT offered_at FROM task WHERE id = 't2'"), 2);
    assert_ok(f, try_move(f, dibs_task_accept, "t2", "cid"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_an_agent_is_made_known_once_and_changed_afterwards),
        STORE_TEST(test_saying_the_same_again_changes_nothing_and_tells_nobody),
        STORE_TEST(test_a_name_belongs_to_one_agent),
        STORE_TEST(test_what_cannot_be_an_agent_is_refused_by_field),
        STORE_TEST(test_a_session_makes_its_agent_known_as_a_worker),
        STORE_TEST(test_an_agent_made_by_a_session_gets_a_free_name),
        STORE_TEST(test_status_is_read_off_the_sessions),
        STORE_TEST(test_an_agent_is_heard_when_a_session_begins_and_ends),
        STORE_TEST(test_agents_are_listed_by_project_and_part),
        STORE_TEST(test_an_agent_at_its_capacity_is_given_no_assigned_task),
        STORE_TEST(test_claiming_several_stops_at_the_capacity),
        STORE_TEST(test_a_review_counts_and_is_refused_at_the_capacity),
        STORE_TEST(test_nobody_can_be_given_a_task_whose_name_was_mistyped),
        STORE_TEST(test_whether_a_project_has_a_lead_is_always_known),
        STORE_TEST(test_agents_that_an_older_store_names_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
