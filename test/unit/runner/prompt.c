/* SPDX-License-Identifier: MIT */
/*
 * prompt.c: tests of src/runner/prompt.c: templates and what is put into them.
 */
#include "runner/runner_private.h"

#include <setjmp.h>

#include <cmocka.h>

static const char task_text[] =
    "{\"id\": \"7\", \"title\": \"paint {{id}} {{nosuch}}\", \"type\": \"job\", \"priority\": 50,"
    " \"tags\": [\"a\", \"b\"], \"params\": {\"file\": \"x.c\", \"deep\": {\"list\": [10, {\"y\":"
    " true}]}, \"none\": null}, \"claim\": {\"token\": 9, \"checkpoint\": {\"page\": 3}}}";

/* What the template becomes for that task, claimed by session s; to be freed with mem_free. */
static char *fill_as(const char *text, const char *agent, bool in_trigger)
{
    static char trigger[] = "pool_task_claimed";
    struct runner_options in = {.prompt = text};
    struct runner *r = test_calloc(1, sizeof *r);
    struct job *j = test_calloc(1, sizeof *j);
    json_t *task = json_loads(task_text, 0, NULL);
    assert_non_null(task);
    r->in = &in;
    snprintf(r->session, sizeof r->session, "s");
    snprintf(r->agent_id, sizeof r->agent_id, "%s", agent);
    j->runner = r;
    j->trigger = trigger;
    j->token = 9;
    j->attempt = 2;
    j->json = in_trigger ? json_pack("{s:s, s:o}", "type", j->trigger, "task", task) : task;
    j->task = task;
    char *filled = prompt_fill(r, j);
    json_decref(j->json);
    test_free(j);
    test_free(r);
    return filled;
}

static void expect(const char *text, const char *filled)
{
    char *got = fill_as(text, "", false);
    assert_string_equal(got, filled);
    mem_free(got);
}

static void test_names_stand_for_what_the_task_says(void **state)
{
    (void)state;
    expect("", "");
    expect("no names", "no names");
    expect("{{id}}", "7");
    expect("a{{id}}b{{type}}c", "a7bjobc");
    expect("{{ id }}{{\tpriority\t}}", "750");
    expect("{{attempt}}/{{token}}/{{session}}", "2/9/s");
    expect("<{{agent}}{{description}}{{phase}}>", "<>");
}

static void test_values_that_are_no_text_are_json(void **state)
{
    (void)state;
    expect("{{tags}}", "[\"a\",\"b\"]");
    expect("{{params.deep}}", "{\"list\":[10,{\"y\":true}]}");
    expect("{{params.none}}|{{checkpoint}}", "|{\"page\":3}");
}

static void test_paths_lead_into_objects_and_lists(void **state)
{
    (void)state;
    expect("{{params.file}}", "x.c");
    expect("{{params.deep.list.0}} {{params.deep.list.1.y}}", "10 true");
    expect("{{task.claim.checkpoint.page}} {{checkpoint.page}}", "3 3");
    expect("{{trigger.type}} {{trigger.task.id}}", "pool_task_claimed 7");
    expect("<{{params.nosuch}}{{params.file.deeper}}{{params.deep.list.2}}"
           "{{params.deep.list.-1}}{{params.deep.list.x}}{{params.}}{{metadata.a}}>",
           "<>");
}

static void test_what_is_put_in_is_not_looked_at_again(void **state)
{
    (void)state;
    expect("{{title}}{{id}}", "paint {{id}} {{nosuch}}7");
}

static void test_braces_around_anything_else_stay(void **state)
{
    (void)state;
    expect("{{}} {{ }} {id} {{id} {{i d}} }}", "{{}} {{ }} {id} {{id} {{i d}} }}");
    expect("{{{id}}}", "{7}");
    expect("{{ {{id}} }}", "{{ 7 }}");
    expect("{{id", "{{id");
    expect("{{id}}{{", "7{{");
}

static void test_inside_a_trigger_the_names_mean_the_same(void **state)
{
    (void)state;
    char *got =
        fill_as("{{id}} {{agent}} {{trigger.task.params.file}} {{trigger.type}}", "ann", true);
    assert_string_equal(got, "7 ann x.c pool_task_claimed");
    mem_free(got);
}

static void test_a_prompt_beyond_all_measure_is_refused(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 64 * 1024 * 1024);
    for (int i = 0; i < 17 * 1024; i++)
        buf_printf(&text, "%01024d", i);
    assert_true(buf_ok(&text));
    assert_null(fill_as(text.data, "", false));
    buf_release(&text);
}

static void test_a_name_that_no_task_can_have_is_refused(void **state)
{
    (void)state;
    static const char *const good[] = {"{{id}}",      "{{params}}",    "{{metadata.a.b}}",
                                       "{{task.id}}", "{{trigger.x}}", "{{checkpoint}}",
                                       "{{}}",        "{nosuch}"};
    static const char *const bad[] = {"{{nosuch}}",  "{{id}} {{Title}}", "{{id.x}}",
                                      "{{param.x}}", "{{paramss}}",      "{{.id}}"};
    struct dibs_error err = {0};
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_int_equal(prompt_check(good[i], &err), DIBS_OK);
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(prompt_check(bad[i], &err), DIBS_INVALID_REQUEST);
    assert_int_equal(prompt_check("{{id}} {{Title}}", &err), DIBS_INVALID_REQUEST);
    assert_non_null(strstr(err.message, "'{{Title}}'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_stand_for_what_the_task_says),
        cmocka_unit_test(test_values_that_are_no_text_are_json),
        cmocka_unit_test(test_paths_lead_into_objects_and_lists),
        cmocka_unit_test(test_what_is_put_in_is_not_looked_at_again),
        cmocka_unit_test(test_braces_around_anything_else_stay),
        cmocka_unit_test(test_inside_a_trigger_the_names_mean_the_same),
        cmocka_unit_test(test_a_prompt_beyond_all_measure_is_refused),
        cmocka_unit_test(test_a_name_that_no_task_can_have_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
