/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/api/decode.c: the tables of all operations, field by field. What is right is stored,
 * what is wrong is refused by name; a new field is tested as soon as it stands in its table.
 */
#include "call.h"

struct sample {
    enum field_kind kind;
    const char *right;     /* a value that every field of the kind takes */
    const char *wrong[12]; /* values that none takes; the list ends with NULL */
};
static const struct sample samples[] = {
    {FIELD_TEXT, "\"some text\"", {"1", "1.5", "true", "[]", "{}"}},
    {FIELD_ID,
     "\"a.b_c:d-1\"",
     {"1", "true", "[]", "{}", "\"\"", "\"a b\"", "\"\xC3\xA9\"", "\"a/b\""}},
    {FIELD_INT, "42", {"\"42\"", "1.5", "true", "[]", "{}", "\"x\"", "1e3"}},
    {FIELD_BOOL, "true", {"\"true\"", "1", "0", "[]", "{}"}},
    {FIELD_TIME, "\"2027-01-01T00:00:00Z\"", {"\"tomorrow\"", "1.5", "true", "[]", "{}", "\"\""}},
    {FIELD_MINUTES, "30", {"\"30\"", "1.5", "true", "[]", "{}"}},
    {FIELD_PRIORITY, "\"high\"", {"\"urgent\"", "101", "-1", "1.5", "true", "[]", "{}", "\"\""}},
    {FIELD_JSON, "{\"a\":[1,2.5,null]}", {NULL}},
    {FIELD_STRINGS, "[\"a\",\"b\"]", {"\"a\"", "1", "true", "{}", "[1]", "[null]", "[[\"a\"]]"}},
    {FIELD_ENUM, NULL, {"\"no such word\"", "1", "true", "[]", "{}", "\"\""}},
    {FIELD_OBJECT, NULL, {"\"a\"", "1", "true", "[]"}},
};

typedef void visit(const struct api_shape *shape, const struct field *f, const struct sample *s);

static void visit_shape(const struct api_shape *shape, visit *look)
{
    for (size_t i = 0; i < shape->count; i++) {
        const struct field *f = &shape->fields[i];
        const struct sample *s = NULL;
        for (size_t k = 0; k < COUNT_OF(samples); k++) {
            if (samples[k].kind == f->kind)
                s = &samples[k];
        }
        assert_non_null(s);
        look(shape, f, s);
        if (f->of != NULL)
            visit_shape(f->of, look);
    }
}

/* visit_all: every field of every table, also of the tables inside tables. */
static void visit_all(visit *look)
{
    size_t count = 0;
    api_operations(&count);
    for (size_t i = 0; i < count; i++)
        visit_shape(route_shape(i), look);
}

struct trial {
    dibs_arena *a;
    struct decoder d;
    struct dibs_error err;
    dibs_status status;
};

/* try_field: decodes {"name": value} by a shape. */
static void try_field(struct trial *t, const struct api_shape *shape, const char *name,
                      const char *value)
{
    char text[4096];
    json_t *object = NULL;
    *t = (struct trial){.a = dibs_arena_new()};
    t->d = (struct decoder){.a = t->a, .shape = shape, .err = &t->err};
    t->d.out = arena_alloc(t->a, shape->bytes);
    assert_non_null(t->d.out);
    assert_true(snprintf(text, sizeof text, "{\"%s\":%s}", name, value) < (int)sizeof text);
    assert_int_equal(json_read(text, strlen(text), &object, &t->err), DIBS_OK);
    t->status = decode_object(&t->d, object);
    json_decref(object);
}

static void end_trial(struct trial *t)
{
    dibs_arena_free(t->a);
}

static void expect_refused(const struct api_shape *shape, const struct field *f, const char *value)
{
    struct trial t;
    try_field(&t, shape, f->name, value);
    if (t.status != DIBS_INVALID_REQUEST || strcmp(t.err.field, f->name) != 0)
        fail_msg("'%s' took %s: %s", f->name, value, t.err.message);
    end_trial(&t);
}

/* The least that a table takes; what it must have is text. */
static void right_object(const struct api_shape *of, char out[128])
{
    size_t length = (size_t)snprintf(out, 128, "{");
    for (size_t i = 0; i < of->count; i++) {
        if (!(of->fields[i].flags & FIELD_REQUIRED))
            continue;
        assert_int_equal(of->fields[i].kind, FIELD_TEXT);
        length += (size_t)snprintf(out + length, 128 - length, "%s\"%s\":\"x\"",
                                   length > 1 ? "," : "", of->fields[i].name);
    }
    snprintf(out + length, 128 - length, "}");
}

static void right_value(const struct field *f, const struct sample *s, char out[128])
{
    if (f->kind == FIELD_OBJECT)
        right_object(f->of, out);
    else if (f->kind == FIELD_ENUM) /* the last word: its value is never 0 */
        for (const struct field_word *w = f->words; w->text != NULL; w++)
            snprintf(out, 128, "\"%s\"", w->text);
    else
        snprintf(out, 128, "%s", s->right);
}

static bool is_zero(const void *bytes, size_t count)
{
    const char *b = bytes;
    for (size_t i = 0; i < count; i++) {
        if (b[i] != 0)
            return false;
    }
    return true;
}

static void look_stores(const struct api_shape *shape, const struct field *f,
                        const struct sample *s)
{
    struct trial t;
    char value[128];
    right_value(f, s, value);
    try_field(&t, shape, f->name, value);
    if (t.status != DIBS_OK)
        fail_msg("'%s' refused %s: %s", f->name, value, t.err.message);
    if (is_zero((char *)t.d.out + f->at, sizeof(bool)) && is_zero(t.d.out, shape->bytes))
        fail_msg("'%s' was not stored", f->name);
    end_trial(&t);
}

static void test_every_field_stores_what_is_right(void **state)
{
    (void)state;
    visit_all(look_stores);
}

static void look_refuses(const struct api_shape *shape, const struct field *f,
                         const struct sample *s)
{
    for (const char *const *wrong = s->wrong; *wrong != NULL; wrong++)
        expect_refused(shape, f, *wrong);
}

static void test_every_field_refuses_wrong_types_by_name(void **state)
{
    (void)state;
    visit_all(look_refuses);
}

static void look_bounds(const struct api_shape *shape, const struct field *f,
                        const struct sample *s)
{
    char value[64];
    (void)s;
    if (f->kind == FIELD_INT || f->kind == FIELD_MINUTES || f->kind == FIELD_PRIORITY) {
        snprintf(value, sizeof value, "%" PRId64, f->min - 1);
        expect_refused(shape, f, value);
        snprintf(value, sizeof value, "%" PRId64, f->max + 1);
        if (f->max > 0)
            expect_refused(shape, f, value);
    }
}

static void test_every_number_has_its_bounds(void **state)
{
    (void)state;
    visit_all(look_bounds);
}

/* too_long: a JSON text of one byte more than allowed, or a list of one item more. */
static void look_too_long(const struct api_shape *shape, const struct field *f,
                          const struct sample *s)
{
    (void)s;
    if (f->max <= 0 || f->max > 1200 || (f->kind != FIELD_TEXT && f->kind != FIELD_STRINGS))
        return;
    struct buf value;
    buf_init(&value, 8192);
    buf_char(&value, f->kind == FIELD_TEXT ? '"' : '[');
    for (int64_t i = 0; i <= f->max; i++)
        buf_text(&value, f->kind == FIELD_TEXT ? "x" : i == 0 ? "\"x\"" : ",\"x\"");
    buf_char(&value, f->kind == FIELD_TEXT ? '"' : ']');
    assert_true(buf_ok(&value));
    expect_refused(shape, f, value.data);
    buf_release(&value);
}

static void test_every_text_and_list_has_an_end(void **state)
{
    (void)state;
    visit_all(look_too_long);
}

static void look_null(const struct api_shape *shape, const struct field *f, const struct sample *s)
{
    struct trial t;
    (void)s;
    try_field(&t, shape, f->name, "null");
    assert_int_equal(t.status, DIBS_OK);
    bool clears = shape->null_clears && !(f->flags & FIELD_KEEP);
    if (clears == is_zero(t.d.out, shape->bytes))
        fail_msg("null %s '%s'", clears ? "left" : "changed", f->name);
    end_trial(&t);
}

static void test_null_is_not_given_or_clears(void **state)
{
    (void)state;
    visit_all(look_null);
}

static void look_described(const struct api_shape *shape, const struct field *f,
                           const struct sample *s)
{
    (void)s;
    assert_true(shape->count <= 64);
    assert_true(f->doc != NULL && strlen(f->doc) >= 4);
    assert_true(f->at < shape->bytes);
    assert_true((f->kind == FIELD_ENUM) == (f->words != NULL));
    assert_true((f->kind == FIELD_OBJECT) == (f->of != NULL));
    assert_true(f->kind != FIELD_MINUTES || f->max > 0); /* or the product could overflow */
}

static void test_every_field_is_described(void **state)
{
    (void)state;
    visit_all(look_described);
}

static void look_slip(const struct api_shape *shape, const struct field *f, const struct sample *s)
{
    struct trial t;
    char name[64];
    (void)s;
    snprintf(name, sizeof name, "%sx", f->name);
    if (strlen(f->name) < 2)
        return;
    try_field(&t, shape, name, "1");
    assert_int_equal(t.status, DIBS_INVALID_REQUEST);
    assert_string_equal(t.err.field, name);
    if (strstr(t.err.message, "did you mean '") == NULL)
        fail_msg("no suggestion: %s", t.err.message);
    end_trial(&t);
}

static void test_every_name_is_found_from_a_slip(void **state)
{
    (void)state;
    visit_all(look_slip);
}

/* ---- single promises ------------------------------------------------------------------------- */

static void expect_body(struct world *w, const char *body, const char *field, const char *message)
{
    post(w, "/api/tasks", "%s", body);
    expect_field(w, field);
    expect_message(w, message);
}

static void test_refusals_say_what_is_wrong(void **state)
{
    struct world *w = *state;
    expect_body(w, "{'titel': 'x'}", "titel", "unknown field 'titel'; did you mean 'title'?");
    expect_body(w, "{'title': 'x', 'colour': 1}", "colour", "unknown field 'colour'");
    expect_body(w, "{'title': 5}", "title", "'title' must be text, not a number");
    expect_body(w, "{'title': 'x', 'priority': 'urgent'}", "priority",
                "0 to 100, or critical, high, medium, low, not 'urgent'");
    expect_body(w, "{'title': 'x', 'tags': 'a'}", "tags", "must be a list of text");
    expect_body(w, "{'title': 'x', 'dependsOn': ['a', 'a b']}", "dependsOn", "'a b' is none");
    expect_body(w, "{}", "title", "'title' is required");
    expect_body(w, "[]", "body", "1 to 1000");
    expect_body(w, "'x'", "body", "must be an object, not text");
    expect_body(w, "[{'title': 'a'}, {'title': 1}]", "tasks[1].title", "tasks[1].title");
    expect_body(w, "[{'title': 'a'}, 7]", "tasks[1]", "must be an object");
    expect_body(w, "[{'title': 'a'}, {'titel': 'b'}]", "tasks[1].titel", "did you mean 'title'?");
    expect_body(w, "{'title': 'x', 'claimTimeoutMs': 60000, 'claimTimeoutMinutes': 1}",
                "claimTimeoutMinutes", "claimTimeoutMs");
    get(w, "/api/tasks?status=nonsense");
    expect_field(w, "status");
    post(w, "/api/tasks/claims/cleanup", "{'type': 'some'}");
    expect_message(w, "one of 'all', 'expired', 'orphaned'");
}

static void test_a_field_of_a_part_is_named_with_the_part(void **state)
{
    struct world *w = *state;
    post(w, "/api/tasks/1/complete", "{'sessionId': 's', 'claimNext': {'sortby': 'random'}}");
    expect_field(w, "claimNext.sortby");
    expect_message(w, "did you mean 'sortBy'?");
    post(w, "/api/tasks/1/complete", "{'sessionId': 's', 'claimNext': {'types': 1}}");
    expect_field(w, "claimNext.types");
}

static void test_very_long_names_do_not_overflow_the_refusal(void **state)
{
    struct world *w = *state;
    char body[3000] = "{\"";
    memset(body + 2, 'n', 2000);
    memcpy(body + 2002, "\":1}", 5);
    call_raw(w, "POST", "/api/tasks", body);
    expect(w, 400, "INVALID_REQUEST");
    assert_true(strlen(text_at(w, "field")) < 64);
}

static void test_priority_and_times_are_read_in_both_forms(void **state)
{
    struct world *w = *state;
    post(w, "/api/tasks",
         "{'title': 'x', 'priority': 'critical', 'runAfter': '2027-06-01T00:00:00+02:00'}");
    expect(w, 201, "OK");
    assert_int_equal(int_at(w, "task.priority"), 95);
    assert_string_equal(text_at(w, "task.runAfter"), "2027-05-31T22:00:00.000Z");
    post(w, "/api/tasks", "{'title': 'x', 'priority': 7, 'runAfter': 1830000000000}");
    expect(w, 201, "OK");
    assert_int_equal(int_at(w, "task.priority"), 7);
    post(w, "/api/tasks", "{'title': 'x', 'claimTimeoutMinutes': 45, 'priority': 0}");
    assert_int_equal(int_at(w, "task.claimTimeoutMs"), 45 * 60000);
    assert_int_equal(int_at(w, "task.priority"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_field_stores_what_is_right),
        cmocka_unit_test(test_every_field_refuses_wrong_types_by_name),
        cmocka_unit_test(test_every_number_has_its_bounds),
        cmocka_unit_test(test_every_text_and_list_has_an_end),
        cmocka_unit_test(test_null_is_not_given_or_clears),
        cmocka_unit_test(test_every_field_is_described),
        cmocka_unit_test(test_every_name_is_found_from_a_slip),
        test_in_world(test_refusals_say_what_is_wrong),
        test_in_world(test_a_field_of_a_part_is_named_with_the_part),
        test_in_world(test_very_long_names_do_not_overflow_the_refusal),
        test_in_world(test_priority_and_times_are_read_in_both_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
