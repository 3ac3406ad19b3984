/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/api/encode.c: whatever text callers choose comes back byte for byte, in every field
 * that takes text.
 */
#include "call.h"

static const char *const texts[] = {
    "plain",
    "'; DROP TABLE task; --",
    "\" OR \"\"=\"",
    "100% %s %n %d {} ${x} $1",
    "back\\slash \\u0041 \\n",
    "\x01\x02\x1F\x7F tab\t line\n return\r",
    "caf\xC3\xA9 \xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x92\xA5 \xE2\x80\xAE \xEF\xBB\xBF",
    "</script><b>&amp;",
    " leading and trailing ",
    "NULL",
};

/* quoted: a text as JSON. */
static const char *quoted(const char *text)
{
    static char out[4096];
    struct buf b;
    struct jw w;
    buf_init(&b, sizeof out - 1);
    jw_init(&w, &b);
    jw_text(&w, text);
    assert_true(buf_ok(&b));
    snprintf(out, sizeof out, "%s", b.data);
    buf_release(&b);
    return out;
}

/* body_of: a body made of a format in which every %s is the same quoted text. */
static void send_text(struct world *w, const char *method, const char *target, const char *format,
                      const char *text)
{
    struct buf body;
    buf_init(&body, 65536);
    for (const char *c = format; *c != '\0'; c++) {
        if (*c == '@')
            buf_text(&body, quoted(text));
        else
            buf_char(&body, *c == '\'' ? '"' : *c);
    }
    assert_true(buf_ok(&body));
    call_raw(w, method, target, body.data);
    buf_release(&body);
    if (w->http >= 300)
        fail_msg("%s %s: %s", method, target, w->body);
}

static void expect_text(const struct world *w, const char *path, const char *text)
{
    if (strcmp(text_at(w, path), text) != 0)
        fail_msg("'%s' came back as '%s'", text, text_at(w, path));
}

static void expect_texts(const struct world *w, const char *const *paths, const char *text)
{
    for (size_t i = 0; paths[i] != NULL; i++)
        expect_text(w, paths[i], text);
}

static void test_texts_of_a_task_come_back(void **state)
{
    static const char *const paths[] = {
        "task.project", "task.title",    "task.description", "task.type",      "task.phase",
        "task.tags.0",  "task.params.0", "task.metadata",    "task.dedupeKey", NULL};
    struct world *w = *state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        send_text(w, "POST", "/api/tasks",
                  "{'project': @, 'title': @, 'description': @, 'type': @, 'phase': @, "
                  "'tags': [@], 'params': [@], 'metadata': @, 'dedupeKey': @}",
                  texts[i]);
        expect_texts(w, paths, texts[i]);
        char target[64];
        snprintf(target, sizeof target, "/api/tasks/%s", text_at(w, "task.id"));
        get(w, target);
        expect_texts(w, paths, texts[i]);
        send_text(w, "PATCH", target,
                  "{'title': @, 'description': @, 'type': @, 'phase': @, 'tags': [@], "
                  "'params': [@], 'metadata': @}",
                  texts[i]);
        expect_texts(w, paths, texts[i]);
    }
}

static void test_texts_of_sessions_and_claims_come_back(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        send_text(w, "POST", "/api/sessions",
                  "{'id': 's', 'project': @, 'agentType': @, 'host': @, 'metadata': {'k': @}}",
                  texts[i]);
        expect_texts(w,
                     (const char *const[]){"session.project", "session.agentType", "session.host",
                                           "session.metadata.k", NULL},
                     texts[i]);
        post(w, "/api/tasks", "{'title': 'x'}");
        char target[64], path[96];
        snprintf(target, sizeof target, "/api/tasks/%s", text_at(w, "task.id"));
        snprintf(path, sizeof path, "%s/claim", target);
        send_text(w, "POST", path, "{'sessionId': 's', 'agentType': @, 'metadata': @}", texts[i]);
        expect_text(w, "claim.agentType", texts[i]);
        expect_text(w, "claim.metadata", texts[i]);
        snprintf(path, sizeof path, "%s/progress", target);
        send_text(w, "POST", path, "{'sessionId': 's', 'message': @, 'checkpoint': @}", texts[i]);
        expect_text(w, "claim.progress.message", texts[i]);
        expect_text(w, "claim.checkpoint", texts[i]);
        snprintf(path, sizeof path, "%s/fail", target);
        send_text(w, "POST", path, "{'sessionId': 's', 'error': @, 'permanent': true}", texts[i]);
        expect_text(w, "task.error", texts[i]);
    }
}

static void test_reasons_and_results_come_back(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    given_agent(w, "a");
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char id[16], path[64];
        snprintf(id, sizeof id, "t%zu", i);
        given_task(w, id);
        snprintf(path, sizeof path, "/api/tasks/%s/block", id);
        send_text(w, "POST", path, "{'reason': @}", texts[i]);
        expect_text(w, "task.blockReason", texts[i]);
        snprintf(path, sizeof path, "/api/tasks/%s/unblock", id);
        post(w, path, "{}");
        snprintf(path, sizeof path, "/api/tasks/%s/offer", id);
        post(w, path, "{'agentId': 'a'}");
        snprintf(path, sizeof path, "/api/tasks/%s/reject", id);
        send_text(w, "POST", path, "{'agentId': 'a', 'reason': @}", texts[i]);
        expect_text(w, "task.rejectionReason", texts[i]);
        given_claim(w, id, "s");
        snprintf(path, sizeof path, "/api/tasks/%s/release", id);
        send_text(w, "POST", path, "{'sessionId': 's', 'reason': @}", texts[i]);
        expect_text(w, "released.reason", texts[i]);
        given_claim(w, id, "s");
        snprintf(path, sizeof path, "/api/tasks/%s/complete", id);
        send_text(w, "POST", path, "{'sessionId': 's', 'result': {'r': @}}", texts[i]);
        expect_text(w, "task.result.r", texts[i]);
    }
}

/* encoded: a text as the value of a query. */
static void encode(const char *text, char *out)
{
    for (; *text != '\0'; text++, out += 3)
        snprintf(out, 4, "%%%02X", (unsigned char)*text);
}

static void test_any_text_names_a_lock_and_is_found_again(void **state)
{
    struct world *w = *state;
    given_session(w, "s");
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char target[1024] = "/api/locks?resource=";
        send_text(w, "POST", "/api/locks", "{'resource': @, 'sessionId': 's'}", texts[i]);
        expect_text(w, "lock.resource", texts[i]);
        encode(texts[i], target + strlen(target));
        get(w, target);
        assert_int_equal(count_at(w, "locks"), 1);
        expect_text(w, "locks.0.resource", texts[i]);
    }
    get(w, "/api/locks");
    assert_int_equal(count_at(w, "locks"), COUNT_OF(texts));
}

static void test_any_text_can_be_filtered_by(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        send_text(w, "POST", "/api/tasks", "{'title': 'x', 'type': @, 'tags': [@], 'project': @}",
                  texts[i]);
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        static const char *const names[] = {"type", "tag", "project"};
        for (size_t k = 0; k < COUNT_OF(names); k++) {
            char target[1024];
            snprintf(target, sizeof target, "/api/tasks?%s=", names[k]);
            encode(texts[i], target + strlen(target));
            get(w, target);
            assert_int_equal(count_at(w, "tasks"), 1);
            expect_text(w, "tasks.0.type", texts[i]);
        }
    }
}

static void test_keys_that_are_callers_text_are_escaped(void **state)
{
    struct buf b;
    struct jw w;
    (void)state;
    buf_init(&b, 1000);
    jw_init(&w, &b);
    jw_object(&w);
    enc_key(&w, "a\"b\\\x01\xC3\xA9");
    jw_int(&w, 1);
    enc_key(&w, "");
    jw_int(&w, 2);
    jw_object_end(&w);
    assert_string_equal(b.data, "{\"a\\\"b\\\\\\u0001\xC3\xA9\":1,\"\":2}");
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_world(test_texts_of_a_task_come_back),
        test_in_world(test_texts_of_sessions_and_claims_come_back),
        test_in_world(test_reasons_and_results_come_back),
        test_in_world(test_any_text_names_a_lock_and_is_found_again),
        test_in_world(test_any_text_can_be_filtered_by),
        cmocka_unit_test(test_keys_that_are_callers_text_are_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
