/* SPDX-License-Identifier: MIT */
/*
 * options.c: tests of src/cli/options.c: reading a command line, and turning it into a request.
 */
#include "cli/options.h"

#include <setjmp.h>

#include <cmocka.h>

#include "base/str.h"

static const struct cli_option table[] = {
    OPT("flag", 'f', FLAG, NULL, "flag", ""),
    OPT("text", 't', TEXT, "TEXT", "text", ""),
    OPT("list", 0, LIST, "ITEM", "list", ""),
    OPT("number", 'n', INT, "N", "number", ""),
    OPT("lease", 0, DURATION, "DURATION", "leaseMs", ""),
    OPT("after", 0, TIME, "TIME", "after", ""),
    OPT("priority", 0, PRIORITY, "N", "priority", ""),
    OPT("json", 0, JSON, "JSON", "json", ""),
    OPT("value", 0, VALUE, "VALUE", "value", ""),
    OPT("param", 0, PAIR, "KEY=VALUE", "params", ""),
    OPT("local", 0, TEXT, "TEXT", NULL, ""),
    {0},
};
static const struct cli_option *const tables[] = {table, NULL};

struct run {
    dibs_arena *a;
    struct args args;
    struct dibs_error err;
};

static int setup(void **state)
{
    struct run *r = test_calloc(1, sizeof *r);
    r->a = dibs_arena_new();
    *state = r;
    return r->a == NULL;
}

static int teardown(void **state)
{
    struct run *r = *state;
    dibs_arena_free(r->a);
    test_free(r);
    return 0;
}

/* parse: the items up to a NULL. */
static dibs_status parse(struct run *r, bool takes_program, const char *const *items)
{
    struct args_input in = {.tables = tables, .takes_program = takes_program};
    char **copy = arena_alloc(r->a, 64 * sizeof *copy);
    for (; items[in.count] != NULL; in.count++)
        copy[in.count] = arena_strdup(r->a, items[in.count]);
    in.items = copy;
    return args_parse(r->a, &in, &r->args, &r->err);
}
#define PARSE(r, ...) parse(r, false, (const char *const[]){__VA_ARGS__, NULL})

/* body: the request of the command line, as text. */
static const char *body(struct run *r)
{
    json_t *object = json_object();
    args_to_body(&r->args, 1000, object);
    char *text = json_dumps(object, JSON_COMPACT);
    const char *copy = arena_strdup(r->a, text);
    json_decref(object);
    json_free_t release = NULL;
    json_get_alloc_funcs(NULL, &release);
    release(text);
    return copy;
}

static void test_words_and_options_may_be_mixed(void **state)
{
    struct run *r = *state;
    assert_int_equal(PARSE(r, "a", "--text", "x", "b", "-f", "--number=7", "c"), DIBS_OK);
    assert_int_equal(r->args.word_count, 3);
    assert_string_equal(r->args.words[0], "a");
    assert_string_equal(r->args.words[2], "c");
    assert_string_equal(args_text(&r->args, "text"), "x");
    assert_true(args_has(&r->args, "flag"));
    assert_int_equal(args_int(&r->args, "number", 0), 7);
    assert_int_equal(args_int(&r->args, "lease", 5), 5);
}

static void test_the_last_of_several_counts(void **state)
{
    struct run *r = *state;
    assert_int_equal(PARSE(r, "--text", "x", "-t", "y", "--text=z=1"), DIBS_OK);
    assert_string_equal(args_text(&r->args, "text"), "z=1");
    assert_string_equal(body(r), "{\"text\":\"z=1\"}");
}

static void test_two_dashes_end_the_options(void **state)
{
    struct run *r = *state;
    assert_int_equal(PARSE(r, "--", "--text", "-", "--"), DIBS_OK);
    assert_int_equal(r->args.word_count, 3);
    assert_int_equal(r->args.given_count, 0);
    const char *const items[] = {"a", "-f", "--", "make", "--", "-f", NULL};
    assert_int_equal(parse(r, true, items), DIBS_OK);
    assert_int_equal(r->args.word_count, 1);
    assert_int_equal(r->args.program_count, 3);
    assert_string_equal(r->args.program[1], "--");
    assert_null(r->args.program[3]);
}

static void test_a_single_dash_is_a_word(void **state)
{
    struct run *r = *state;
    assert_int_equal(PARSE(r, "-"), DIBS_OK);
    assert_string_equal(r->args.words[0], "-");
}

static void test_an_option_may_take_what_looks_like_one(void **state)
{
    struct run *r = *state;
    assert_int_equal(PARSE(r, "--text", "--flag", "--number", "-3"), DIBS_OK);
    assert_string_equal(args_text(&r->args, "text"), "--flag");
    assert_int_equal(args_int(&r->args, "number", 0), -3);
    assert_false(args_has(&r->args, "flag"));
}

static void test_what_is_wrong_is_said_of_the_option(void **state)
{
    static const char *const wrong[][2] = {
        {"--txet", "unknown option '--txet'; did you mean '--text'?"},
        {"--zzzzzz=1", "unknown option '--zzzzzz'"},
        {"-z", "unknown option '-z'"},
        {"-ff", "unknown option '-ff'"},
        {"---flag", "unknown option '---flag'; did you mean '--flag'?"},
        {"--flag=1", "--flag takes no value"},
        {"--text", "--text needs a value: --text TEXT"},
        {"--number=1.5", "--number takes a whole number, not '1.5'"},
        {"--number=", "--number takes a whole number, not ''"},
        {"--lease=1y", "--lease takes a duration such as 90s, 30m or 2h, not '1y'"},
        {"--after=noon", "--after takes a time such as 2030-01-31T12:00:00Z, or +10m, not 'noon'"},
        {"--param=x", "--param takes KEY=VALUE, not 'x'"},
        {"--param==x", "--param takes KEY=VALUE, not '=x'"},
        {"--text=\xff", "the value of --text is not UTF-8"},
        {"\xff", "an argument is not UTF-8"},
    };
    struct run *r = *state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_int_equal(PARSE(r, wrong[i][0]), DIBS_INVALID_REQUEST);
        assert_string_equal(r->err.message, wrong[i][1]);
    }
    assert_int_equal(PARSE(r, "--json={"), DIBS_INVALID_REQUEST);
    assert_true(str_starts(r->err.message, "--json takes JSON: "));
    assert_int_equal(PARSE(r, "--priority=101"), DIBS_INVALID_REQUEST);
}

static void test_every_kind_becomes_its_json(void **state)
{
    struct run *r = *state;
    assert_int_equal(PARSE(r, "-f", "--number=7", "--lease=30m", "--after=+10s", "--priority=high",
                           "--json={\"a\":1}", "--value=not json", "--local=kept out"),
                     DIBS_OK);
    assert_string_equal(body(r), "{\"flag\":true,\"number\":7,\"leaseMs\":1800000,"
                                 "\"after\":\"1970-01-01T00:00:11.000Z\",\"priority\":75,"
                                 "\"json\":{\"a\":1},\"value\":\"not json\"}");
}

static void test_lists_and_pairs_are_collected(void **state)
{
    struct run *r = *state;
    assert_int_equal(
        PARSE(r, "--list=a", "--param=n=1", "--list", "b,c", "--param=s=x=y", "--param=s=[true]"),
        DIBS_OK);
    assert_string_equal(body(r), "{\"list\":[\"a\",\"b,c\"],\"params\":{\"n\":1,\"s\":[true]}}");
    assert_int_equal(PARSE(r, "--list="), DIBS_OK);
    assert_string_equal(body(r), "{\"list\":[]}");
}

static void test_a_query_is_encoded_and_each_option_stands_once(void **state)
{
    struct run *r = *state;
    struct buf query;
    assert_int_equal(
        PARSE(r, "--text=a b&c", "--list=x", "--text=\xc3\xa4", "-f", "--list=y", "--lease=2m"),
        DIBS_OK);
    buf_init(&query, 1000);
    args_to_query(&r->args, &query);
    query_add(&query, "project", NULL);
    query_add(&query, "last", "=");
    assert_string_equal(query.data, "text=%C3%A4&flag=true&list=x%2Cy&leaseMs=120000&last=%3D");
    buf_release(&query);
}

static void test_distance_counts_slips(void **state)
{
    (void)state;
    assert_int_equal(edit_distance("", ""), 0);
    assert_int_equal(edit_distance("abc", "abc"), 0);
    assert_int_equal(edit_distance("abc", "abd"), 1);
    assert_int_equal(edit_distance("abc", "acb"), 1);
    assert_int_equal(edit_distance("abc", "xabc"), 1);
    assert_int_equal(edit_distance("kitten", "sitting"), 3);
    assert_int_equal(edit_distance("", "abc"), 3);
    assert_true(edit_is_near("limti", "limit"));
    assert_false(edit_is_near("ab", "cd"));
    char vast[200];
    memset(vast, 'x', sizeof vast);
    vast[sizeof vast - 1] = '\0';
    assert_false(edit_is_near(vast, "limit"));
}

#define RUN_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUN_TEST(test_words_and_options_may_be_mixed),
        RUN_TEST(test_the_last_of_several_counts),
        RUN_TEST(test_two_dashes_end_the_options),
        RUN_TEST(test_a_single_dash_is_a_word),
        RUN_TEST(test_an_option_may_take_what_looks_like_one),
        RUN_TEST(test_what_is_wrong_is_said_of_the_option),
        RUN_TEST(test_every_kind_becomes_its_json),
        RUN_TEST(test_lists_and_pairs_are_collected),
        RUN_TEST(test_a_query_is_encoded_and_each_option_stands_once),
        RUN_TEST(test_distance_counts_slips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
