/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/hook_settings.c: where the settings of webhooks come from, what is refused, and
 * that secrets are not told.
 */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/hook.h"

static const char *const variables[] = {
    "DIBS_SLACK_SIGNING_SECRET", "DIBS_SLACK_BOT_TOKEN", "DIBS_SLACK_URL",    "DIBS_GITHUB_SECRET",
    "DIBS_HOOK_AGENT",           "DIBS_HOOK_PROJECT",    "DIBS_GITHUB_TASKS",
};

static int quiet_setup(void **state)
{
    for (size_t i = 0; i < COUNT_OF(variables); i++)
        unsetenv(variables[i]);
    return fixture_setup(state);
}

static int quiet_teardown(void **state)
{
    for (size_t i = 0; i < COUNT_OF(variables); i++)
        unsetenv(variables[i]);
    return fixture_teardown(state);
}

static void write_config(struct fixture *f, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/config", f->data_dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static struct dibs_hook_settings load(struct fixture *f)
{
    struct dibs_hook_settings out = {0};
    assert_ok(f, dibs__hook_settings(f->data_dir, &out, &f->err));
    return out;
}

static void test_nothing_is_set_but_the_address_of_slack(void **state)
{
    struct fixture *f = *state;
    struct dibs_hook_settings s = load(f);
    assert_string_equal(s.slack_signing_secret, "");
    assert_string_equal(s.slack_bot_token, "");
    assert_string_equal(s.github_secret, "");
    assert_string_equal(s.agent, "");
    assert_string_equal(s.project, "");
    assert_string_equal(s.github_tasks, "");
    assert_string_equal(s.slack_url, "https://slack.com/api");
}

static void test_the_environment_wins_over_the_file(void **state)
{
    struct fixture *f = *state;
    write_config(f, "maxTTL = 3h\nslackSigningSecret = abc\nslackBotToken = xoxb-1\n"
                    "slackUrl = http://127.0.0.1:1/api/\ngithubSecret = It's a Secret\n"
                    "hookAgent = lead\nhookProject = web\ngithubTasks = issues.opened\n");
    struct dibs_hook_settings s = load(f);
    assert_string_equal(s.slack_signing_secret, "abc");
    assert_string_equal(s.slack_bot_token, "xoxb-1");
    assert_string_equal(s.slack_url, "http://127.0.0.1:1/api");
    assert_string_equal(s.github_secret, "It's a Secret");
    assert_string_equal(s.agent, "lead");
    assert_string_equal(s.project, "web");
    assert_string_equal(s.github_tasks, "issues.opened");
    setenv("DIBS_GITHUB_SECRET", "other", 1);
    setenv("DIBS_HOOK_AGENT", "", 1); /* says that it is not set */
    setenv("DIBS_SLACK_URL", "", 1);
    s = load(f);
    assert_string_equal(s.github_secret, "other");
    assert_string_equal(s.agent, "");
    assert_string_equal(s.slack_url, "https://slack.com/api");
}

static void test_the_library_opens_a_store_whose_config_has_them(void **state)
{
    struct fixture *f = *state;
    write_config(f, "maxTTL = 3h\ngithubSecret = abc\n");
    fixture_reopen(f);
    assert_int_equal(dibs_settings(f->d)->max_ttl_ms, MINUTES(180));
}

static void test_what_cannot_be_right_is_refused_by_name(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *variable, *text, *name;
    } rows[] = {
        {"DIBS_SLACK_URL", "slack.com/api", "slackUrl"},
        {"DIBS_SLACK_URL", "ftp://slack.com", "slackUrl"},
        {"DIBS_SLACK_BOT_TOKEN", "xoxb\r\nX-Header: 1", "slackBotToken"},
        {"DIBS_HOOK_AGENT", "a lead", "hookAgent"},
        {"DIBS_GITHUB_TASKS", "issue.opened", "githubTasks"},
        {"DIBS_GITHUB_TASKS", "issues.", "githubTasks"},
        {"DIBS_GITHUB_TASKS", "issues,push", "githubTasks"},
        {"DIBS_GITHUB_TASKS", "issues.opened.twice", "githubTasks"},
        {"DIBS_GITHUB_TASKS", "issues opened", "githubTasks"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct dibs_hook_settings out = {0};
        setenv(rows[i].variable, rows[i].text, 1);
        f->err = (struct dibs_error){0};
        assert_refused(f, DIBS_INVALID_REQUEST, dibs__hook_settings(f->data_dir, &out, &f->err));
        assert_non_null(strstr(f->err.message, rows[i].name));
        assert_null(strstr(f->err.message, "xoxb"));
        unsetenv(rows[i].variable);
    }
}

static void test_a_text_that_is_too_long_is_refused(void **state)
{
    struct fixture *f = *state;
    struct dibs_hook_settings out = {0};
    char text[HOOK_TEXT_BYTES + 1];
    memset(text, 'x', sizeof text);
    text[HOOK_TEXT_BYTES] = '\0';
    setenv("DIBS_GITHUB_SECRET", text, 1);
    assert_refused(f, DIBS_INVALID_REQUEST, dibs__hook_settings(f->data_dir, &out, &f->err));
    setenv("DIBS_GITHUB_SECRET", text + 1, 1);
    assert_string_equal(load(f).github_secret, text + 1);
}

static void test_secrets_are_told_only_as_set_or_not(void **state)
{
    struct fixture *f = *state;
    struct dibs_hook_setting list[HOOK_SETTINGS];
    setenv("DIBS_SLACK_BOT_TOKEN", "xoxb-very-secret", 1);
    setenv("DIBS_HOOK_AGENT", "lead", 1);
    assert_ok(f, dibs__hook_settings_list(f->data_dir, f->a, list, &f->err));
    for (size_t i = 0; i < HOOK_SETTINGS; i++) {
        assert_null(strstr(list[i].value, "secret"));
        if (strcmp(list[i].name, "slackBotToken") == 0) {
            assert_string_equal(list[i].value, "set");
            assert_string_equal(list[i].origin, "environment");
        }
        if (strcmp(list[i].name, "githubSecret") == 0) {
            assert_string_equal(list[i].value, "not set");
            assert_string_equal(list[i].origin, "default");
        }
        if (strcmp(list[i].name, "hookAgent") == 0)
            assert_string_equal(list[i].value, "lead");
    }
}

static void test_a_rule_names_an_action_or_all_of_an_event(void **state)
{
    (void)state;
    static const char rule[] = "issues.opened, pull_request,issue_comment.created";
    assert_true(dibs__hook_rule_names(rule, "issues", "opened"));
    assert_false(dibs__hook_rule_names(rule, "issues", "closed"));
    assert_false(dibs__hook_rule_names(rule, "issues", "open"));
    assert_false(dibs__hook_rule_names(rule, "issues", "opened_again"));
    assert_true(dibs__hook_rule_names(rule, "pull_request", "opened"));
    assert_true(dibs__hook_rule_names(rule, "pull_request", "anything"));
    assert_false(dibs__hook_rule_names(rule, "pull_request_review", "submitted"));
    assert_true(dibs__hook_rule_names(rule, "issue_comment", "created"));
    assert_false(dibs__hook_rule_names("", "issues", "opened"));
}

int main(void)
{
#define QUIET_TEST(name) cmocka_unit_test_setup_teardown(name, quiet_setup, quiet_teardown)
    const struct CMUnitTest tests[] = {
        QUIET_TEST(test_nothing_is_set_but_the_address_of_slack),
        QUIET_TEST(test_the_environment_wins_over_the_file),
        QUIET_TEST(test_the_library_opens_a_store_whose_config_has_them),
        QUIET_TEST(test_what_cannot_be_right_is_refused_by_name),
        QUIET_TEST(test_a_text_that_is_too_long_is_refused),
        QUIET_TEST(test_secrets_are_told_only_as_set_or_not),
        QUIET_TEST(test_a_rule_names_an_action_or_all_of_an_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
