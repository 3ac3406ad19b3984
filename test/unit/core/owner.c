/* SPDX-License-Identifier: MIT */
/* Tests of src/core/owner.c: who registered a session, and where things belong. */
#include "core/owner.h"

#include "core_help.h"

static struct dibs_session_owner owner_of(struct fixture *f, const char *id)
{
    struct dibs_session_owner out = {0};
    assert_ok(f, dibs__session_owner(f->d, f->a, id, &out, &f->err));
    return out;
}

static void own(struct fixture *f, const char *id, const char *key)
{
    assert_ok(f, dibs__session_set_owner(f->d, f->a, id, key, &f->err));
}

static void test_a_session_is_nobodys_until_it_is_said(void **state)
{
    struct fixture *f = *state;
    make_project_session(f, "s", "web");
    struct dibs_session_owner owner = owner_of(f, "s");
    assert_true(owner.exists);
    assert_false(owner.ended);
    assert_null(owner.key_id);
    assert_string_equal(owner.project, "web");
    own(f, "s", "k234567");
    assert_string_equal(owner_of(f, "s").key_id, "k234567");
    assert_false(owner_of(f, "nosuch").exists);
}

static void test_registering_again_makes_it_nobodys(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    own(f, "s", "k234567");
    make_session(f, "s");
    assert_null(owner_of(f, "s").key_id);
}

static void test_an_ended_session_is_known_as_such(void **state)
{
    struct fixture *f = *state;
    struct dibs_deregistered gone = {0};
    make_session(f, "s");
    own(f, "s", "k234567");
    assert_ok(f, dibs_session_deregister(f->d, f->a, "s", &gone, &f->err));
    assert_true(owner_of(f, "s").ended);
    assert_string_equal(owner_of(f, "s").key_id, "k234567");
}

static void test_a_task_belongs_to_its_project(void **state)
{
    struct fixture *f = *state;
    const char *project = "untouched";
    make_task_as(f, (struct dibs_task_new){.id = "a", .title = "a", .project = "web"});
    assert_ok(f, dibs__task_project(f->d, f->a, "a", &project, &f->err));
    assert_string_equal(project, "web");
    assert_ok(f, dibs__task_project(f->d, f->a, "nosuch", &project, &f->err));
    assert_null(project);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_session_is_nobodys_until_it_is_said),
        STORE_TEST(test_registering_again_makes_it_nobodys),
        STORE_TEST(test_an_ended_session_is_known_as_such),
        STORE_TEST(test_a_task_belongs_to_its_project),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
