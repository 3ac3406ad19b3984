/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/server/hook_github.c and of GitHub's signature in hook_sign.c: the vector that
 * GitHub publishes, everything that is not quite right, and what each kind of event becomes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/str.h"
#include "server/hook.h"

/* from "Validating webhook deliveries" */
#define SECRET "It's a Secret to Everybody"
#define PAYLOAD "Hello, World!"
#define HEX "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

static struct dibs_error err;

static struct hook_body text(const char *body)
{
    return (struct hook_body){.bytes = body, .count = strlen(body)};
}

static dibs_status verify(const char *signature, const char *body)
{
    err = (struct dibs_error){0};
    return hook_github_verify(SECRET, signature, text(body), &err);
}

static void test_the_published_signature_is_right(void **state)
{
    (void)state;
    assert_int_equal(verify("sha256=" HEX, PAYLOAD), DIBS_OK);
}

static void test_whatever_is_not_the_signature_is_refused(void **state)
{
    static const char *const wrong[] = {
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e18",
        "sha256=857107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e1",
        "sha256=757107EA0EB2509FC211221CCE984B8A37570B6D7586C22C46F4379C8B043E17",
        "SHA256=" HEX,
        "sha1=" HEX,
        "sha256=" HEX " ",
        "sha256=" HEX HEX,
        "sha256=",
        HEX,
        "",
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_int_equal(verify(wrong[i], PAYLOAD), DIBS_UNAUTHORIZED);
        assert_null(strstr(err.message, SECRET));
    }
    assert_int_equal(verify(NULL, PAYLOAD), DIBS_UNAUTHORIZED);
    assert_int_equal(verify("sha256=" HEX, PAYLOAD "\n"), DIBS_UNAUTHORIZED);
    assert_int_equal(verify("sha256=" HEX, ""), DIBS_UNAUTHORIZED);
    assert_int_equal(hook_github_verify("another", "sha256=" HEX, text(PAYLOAD), &err),
                     DIBS_UNAUTHORIZED);
}

/* ---- deliveries ------------------------------------------------------------------------------ */

struct stage {
    dibs_arena *a;
    struct dibs_hook_settings set;
    struct hook_event out;
};

static int setup(void **state)
{
    static struct stage stage;
    stage = (struct stage){.a = dibs_arena_new()};
    *state = &stage;
    return stage.a != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    dibs_arena_free(((struct stage *)*state)->a);
    return 0;
}

static dibs_status take(struct stage *s, const char *event, const char *body)
{
    err = (struct dibs_error){0};
    return hook_github_read(s->a, &s->set, event, "72d3162e-cc78-11e3-81ab-4c9367dc0958",
                            text(body), &s->out, &err);
}

#define BY(type) "\"sender\":{\"login\":\"octocat\",\"type\":\"" type "\"}"
#define IN "\"repository\":{\"full_name\":\"octo/hello\"}," BY("User")
#define URL "https://github.com/octo/hello"
#define ISSUE                                                                                      \
    "\"issue\":{\"number\":12,\"title\":\"It breaks\",\"html_url\":\"" URL                         \
    "/issues/12\",\"body\":\"When I press it.\"}"
#define PULL                                                                                       \
    "\"pull_request\":{\"number\":13,\"title\":\"Mend it\",\"html_url\":\"" URL                    \
    "/pull/13\",\"body\":null,\"merged\":false}"
#define OPENED "{\"action\":\"opened\"," ISSUE "," IN "}"

static void test_an_issue_becomes_a_message(void **state)
{
    struct stage *s = *state;
    const struct dibs_message_new *m = &s->out.message;
    assert_int_equal(take(s, "issues", OPENED), DIBS_OK);
    assert_int_equal(s->out.kind, HOOK_MESSAGE);
    assert_string_equal(s->out.id, "72d3162e-cc78-11e3-81ab-4c9367dc0958");
    assert_string_equal(m->source, "github");
    assert_string_equal(m->content, "issue #12 opened in octo/hello by octocat: It breaks\n" URL
                                    "/issues/12\n\nWhen I press it.");
    assert_string_equal(m->channel, "octo/hello");
    assert_string_equal(m->thread, "12");
    assert_string_equal(m->user, "octocat");
    assert_string_equal(m->matched_text, "issues.opened");
    assert_int_equal(json_check(m->metadata, 10000, "metadata", &err), DIBS_OK);
    assert_non_null(strstr(m->metadata, "\"url\":\"" URL "/issues/12\""));
}

static void test_every_kind_of_news_has_its_headline(void **state)
{
    struct stage *s = *state;
    static const struct {
        const char *event, *body, *headline, *matched;
    } rows[] = {
        {"issues", "{\"action\":\"closed\"," ISSUE "," IN "}",
         "issue #12 closed in octo/hello by octocat: It breaks\n", "issues.closed"},
        {"issues", "{\"action\":\"reopened\"," ISSUE "," IN "}",
         "issue #12 reopened in octo/hello by octocat: It breaks\n", "issues.reopened"},
        {"issue_comment",
         "{\"action\":\"created\",\"comment\":{\"html_url\":\"" URL "/issues/12#issuecomment-1\","
         "\"body\":\"Me too.\"}," ISSUE "," IN "}",
         "comment on issue #12 created in octo/hello by octocat: It breaks\n" URL
         "/issues/12#issuecomment-1\n\nMe too.",
         "issue_comment.created"},
        {"pull_request", "{\"action\":\"opened\"," PULL "," IN "}",
         "pull request #13 opened in octo/hello by octocat: Mend it\n" URL "/pull/13",
         "pull_request.opened"},
        {"pull_request", "{\"action\":\"closed\"," PULL "," IN "}",
         "pull request #13 closed without a merge in octo/hello by octocat: Mend it\n",
         "pull_request.closed"},
        {"pull_request",
         "{\"action\":\"closed\",\"pull_request\":{\"number\":13,\"title\":\"Mend it\","
         "\"html_url\":\"u\",\"merged\":true}," IN "}",
         "pull request #13 merged in octo/hello by octocat: Mend it\nu", "pull_request.closed"},
        {"pull_request_review",
         "{\"action\":\"submitted\",\"review\":{\"html_url\":\"r\",\"body\":null,\"state\":"
         "\"approved\"}," PULL "," IN "}",
         "review of pull request #13 approved in octo/hello by octocat: Mend it\nr",
         "pull_request_review.submitted"},
        {"pull_request_review_comment",
         "{\"action\":\"created\",\"comment\":{\"html_url\":\"c\",\"body\":\"Why?\",\"path\":"
         "\"src/a.c\"}," PULL "," IN "}",
         "review comment on pull request #13 created in octo/hello by octocat: Mend it\nc\n"
         "file: src/a.c\n\nWhy?",
         "pull_request_review_comment.created"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(take(s, rows[i].event, rows[i].body), DIBS_OK);
        assert_int_equal(s->out.kind, HOOK_MESSAGE);
        if (!str_starts(s->out.message.content, rows[i].headline))
            fail_msg("%s: %s", rows[i].event, s->out.message.content);
        assert_string_equal(s->out.message.matched_text, rows[i].matched);
    }
}

static void test_pings_bots_and_what_is_no_news_are_ignored(void **state)
{
    struct stage *s = *state;
    static const struct {
        const char *event, *body;
    } rows[] = {
        {"ping", "{\"zen\":\"Speak like a human.\",\"hook_id\":1}"},
        {"push", "{\"ref\":\"refs/heads/main\"}"},
        {"workflow_run", "{}"},
        {"issues", "{\"action\":\"labeled\"," ISSUE "," IN "}"},
        {"issues", "{\"action\":\"edited\"," ISSUE "," IN "}"},
        {"pull_request", "{\"action\":\"synchronize\"," PULL "," IN "}"},
        {"issue_comment",
         "{\"action\":\"deleted\",\"comment\":{\"html_url\":\"c\"}," ISSUE "," IN "}"},
        {"issue_comment",
         "{\"action\":\"created\",\"comment\":{\"html_url\":\"c\",\"body\":\"x\"}," ISSUE
         ",\"repository\":{\"full_name\":\"octo/hello\"}," BY("Bot") "}"},
        {"pull_request_review",
         "{\"action\":\"submitted\",\"review\":{\"html_url\":\"r\",\"body\":null,\"state\":"
         "\"commented\"}," PULL "," IN "}"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(take(s, rows[i].event, rows[i].body), DIBS_OK);
        assert_int_equal(s->out.kind, HOOK_IGNORED);
        assert_non_null(s->out.why);
    }
}

static void test_what_the_rule_names_becomes_a_task(void **state)
{
    struct stage *s = *state;
    const struct dibs_task_new *t = &s->out.task;
    str_fit(s->set.github_tasks, sizeof s->set.github_tasks, "issues.opened, pull_request");
    str_fit(s->set.project, sizeof s->set.project, "web");
    assert_int_equal(take(s, "issues", OPENED), DIBS_OK);
    assert_int_equal(s->out.kind, HOOK_TASK);
    assert_string_equal(t->title, "issue #12 opened in octo/hello by octocat: It breaks");
    assert_string_equal(t->description, URL "/issues/12\n\nWhen I press it.");
    assert_string_equal(t->type, "github");
    assert_string_equal(t->project, "web");
    assert_string_equal(t->dedupe_key, URL "/issues/12");
    assert_int_equal(t->tags.count, 1);
    assert_string_equal(t->tags.items[0], "issues");
    assert_non_null(strstr(t->params, "\"number\":12"));
    assert_int_equal(take(s, "issues", "{\"action\":\"closed\"," ISSUE "," IN "}"), DIBS_OK);
    assert_int_equal(s->out.kind, HOOK_MESSAGE);
    /* an event without an action means all of them, also those that are no news */
    assert_int_equal(take(s, "pull_request", "{\"action\":\"synchronize\"," PULL "," IN "}"),
                     DIBS_OK);
    assert_int_equal(s->out.kind, HOOK_TASK);
    assert_int_equal(take(s, "pull_request_review",
                          "{\"action\":\"submitted\",\"review\":{\"html_url\":\"r\",\"state\":"
                          "\"approved\"}," PULL "," IN "}"),
                     DIBS_OK);
    assert_int_equal(s->out.kind, HOOK_MESSAGE);
}

static void test_a_long_title_and_a_long_text_fit(void **state)
{
    struct stage *s = *state;
    static char body[400000];
    char title[3001] = "";
    memset(title, 't', sizeof title - 1);
    size_t used = (size_t)snprintf(body, sizeof body,
                                   "{\"action\":\"opened\"," IN ",\"issue\":{\"number\":1,"
                                   "\"html_url\":\"u\",\"title\":\"%s\",\"body\":\"",
                                   title);
    memset(body + used, 'b', 200000);
    memcpy(body + used + 200000, "\"}}", 4);
    str_fit(s->set.github_tasks, sizeof s->set.github_tasks, "issues");
    assert_int_equal(take(s, "issues", body), DIBS_OK);
    assert_true(strlen(s->out.task.title) <= TITLE_BYTES_MAX);
    assert_int_equal(strlen(s->out.task.description), DESCRIPTION_BYTES_MAX);
}

static void test_an_address_that_is_too_long_is_refused_and_not_asked_for_again(void **state)
{
    struct stage *s = *state;
    static char body[700000];
    size_t used = (size_t)snprintf(body, sizeof body,
                                   "{\"action\":\"opened\"," IN ",\"issue\":{\"number\":1,"
                                   "\"title\":\"t\",\"html_url\":\"");
    memset(body + used, 'u', 600000);
    memcpy(body + used + 600000, "\"}}", 4);
    assert_int_equal(take(s, "issues", body), DIBS_INVALID_REQUEST);
}

static void test_settings_that_change_do_not_change_what_was_read(void **state)
{
    struct stage *s = *state;
    str_fit(s->set.project, sizeof s->set.project, "before");
    str_fit(s->set.agent, sizeof s->set.agent, "ann");
    assert_int_equal(take(s, "issues", OPENED), DIBS_OK);
    str_fit(s->set.project, sizeof s->set.project, "after");
    str_fit(s->set.agent, sizeof s->set.agent, "bob");
    assert_string_equal(s->out.message.project, "before");
    assert_string_equal(s->out.message.agent_id, "ann");
}

static void test_what_github_does_not_send_is_refused(void **state)
{
    struct stage *s = *state;
    static const char *const bodies[] = {
        "",
        "{",
        "[]",
        "null",
        "{}",
        "payload=%7B%7D",
        "{\"action\":\"opened\"," IN "}",
        "{\"action\":\"opened\"," ISSUE "}",
        "{\"action\":7," ISSUE "," IN "}",
        "{\"action\":\"opened\",\"issue\":{\"number\":\"12\",\"title\":\"x\",\"html_url\":\"u\"}"
        "," IN "}",
        "{\"action\":\"opened\",\"issue\":{\"number\":12,\"html_url\":\"u\"}," IN "}",
        OPENED "}",
    };
    for (size_t i = 0; i < COUNT_OF(bodies); i++)
        if (take(s, "issues", bodies[i]) != DIBS_INVALID_REQUEST)
            fail_msg("taken: %s", bodies[i]);
    assert_int_equal(take(s, NULL, OPENED), DIBS_INVALID_REQUEST);
    assert_int_equal(hook_github_read(s->a, &s->set, "issues", NULL, text(OPENED), &s->out, &err),
                     DIBS_INVALID_REQUEST);
    assert_int_equal(hook_github_read(s->a, &s->set, "issues", "", text(OPENED), &s->out, &err),
                     DIBS_INVALID_REQUEST);
}

int main(void)
{
#define READ_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_published_signature_is_right),
        cmocka_unit_test(test_whatever_is_not_the_signature_is_refused),
        READ_TEST(test_an_issue_becomes_a_message),
        READ_TEST(test_every_kind_of_news_has_its_headline),
        READ_TEST(test_pings_bots_and_what_is_no_news_are_ignored),
        READ_TEST(test_what_the_rule_names_becomes_a_task),
        READ_TEST(test_a_long_title_and_a_long_text_fit),
        READ_TEST(test_an_address_that_is_too_long_is_refused_and_not_asked_for_again),
        READ_TEST(test_settings_that_change_do_not_change_what_was_read),
        READ_TEST(test_what_github_does_not_send_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
