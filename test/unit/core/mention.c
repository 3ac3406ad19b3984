/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/mention.c: @name in a text means exactly that agent and nobody else. Claims on
 * mentions: mention_claim.c.
 */
#include "channels.h"

#include "base/base.h"
#include "base/limits.h"
#include "db/db.h"

/* Whom a text names, as words; posted by "somebody" in the channel "ops". */
static const char *named(struct fixture *f, const char *text)
{
    return words(f, post(f, "ops", text).mentions);
}

static void given_agents(struct fixture *f)
{
    static const char *const names[] = {"bob", "bobby", "bob-2", "b.o_b", "Bob", "all-2"};
    make_channel(f, "ops");
    for (size_t i = 0; i < COUNT_OF(names); i++)
        make_agent(f, names[i]);
}

/* ---- whom a text names ----------------------------------------------------------------------- */

static void test_a_name_means_that_agent_and_no_other(void **state)
{
    struct fixture *f = *state;
    const struct {
        const char *text, *named;
    } rows[] = {
        {"@bob", "bob"},
        {"@bobby", "bobby"},
        {"@bob-2", "bob-2"},
        {"@Bob", "Bob"},
        {"@b.o_b!", "b.o_b"},
        {"@BOB", ""},
        {"@bo", ""},
        {"@bob2", ""},
        {"@bob_", ""},
        {"@bob-3", ""},
        {"@bobb", ""},
        {"@all", ""},
        {"@everyone @here @channel", ""},
        {"@%", ""},
        {"@b_b", ""},
        {"@b*", ""},
        {"@", ""},
        {"@ bob", ""},
        {"bob", ""},
        {"hello @bob and @bobby", "bob bobby"},
        {"@bobby@bob", "bobby"}, /* the second is inside a word */
        {"@@bob", ""},
    };
    given_agents(f);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_string_equal(named(f, rows[i].text), rows[i].named);
}

static void test_the_sentence_around_a_name_is_not_part_of_it(void **state)
{
    struct fixture *f = *state;
    const struct {
        const char *text, *named;
    } rows[] = {
        {"ask @bob.", "bob"},
        {"ask @bob...", "bob"},
        {"ask @bob-", "bob"},
        {"@bob--please", ""},
        {"@bob.Then", ""},
        {"@bob, @bobby; (@Bob) [@bob-2]: \"@b.o_b\"?", "Bob b.o_b bob bob-2 bobby"},
        {"line\n@bob\r\n@bobby\tx", "bob bobby"},
        {"/@bob", "bob"},
        {"*@bob*", "bob"},
        {"`@bob`", "bob"},
        {"@bob's", "bob"},
        {"@bob:", "bob"},
        {"me@bob", ""},
        {"me.@bob", ""},
        {"me_@bob", ""},
        {"me-@bob", ""},
        {"ann@bob.example ann@bob", ""},
        {"mailto:bob@bob.org", ""},
        {"@bob@example.org", "bob"},
    };
    given_agents(f);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_string_equal(named(f, rows[i].text), rows[i].named);
}

static void test_letters_of_any_alphabet_make_a_word_and_signs_do_not(void **state)
{
    struct fixture *f = *state;
    const struct {
        const char *text, *named;
    } rows[] = {
        {"é@bob", ""},
        {"@bobé", ""},
        {"@bob.é", ""},
        {"я@bob", ""},
        {"@bobя", ""},
        {"e\xCC\x81@bob", ""}, /* an accent of its own */
        {"ก@bob", ""},         /* U+0E01 */
        {"“@bob”", "bob"},     /* U+201C, U+201D */
        {"→@bob…", "bob"},
        {"×@bob÷", "bob"},
        {"«@bob»", "bob"},
        {"你好@bob你好", "bob"}, /* written without spaces */
        {"\xF0\x9F\x90\xBF@bob\xF0\x9F\x90\xBF", "bob"},
        {"\xC2\xA0@bob\xC2\xA0", "bob"}, /* a space that does not break */
        {"＠bob", ""},                   /* another character */
    };
    given_agents(f);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_string_equal(named(f, rows[i].text), rows[i].named);
}

static void test_a_name_may_end_like_a_sentence(void **state)
{
    struct fixture *f = *state;
    make_channel(f, "ops");
    make_agent(f, "bob");
    make_agent(f, "bob.");
    make_agent(f, "ann-.");
    assert_string_equal(named(f, "@bob"), "bob");
    assert_string_equal(named(f, "@bob."), "bob.");
    assert_string_equal(named(f, "@bob.."), "bob.");
    assert_string_equal(named(f, "@ann-."), "ann-.");
    assert_string_equal(named(f, "@ann-.-"), "ann-.");
    assert_string_equal(named(f, "@ann-"), "");
}

static void test_the_longest_name_is_found_and_a_longer_one_is_nobody(void **state)
{
    struct fixture *f = *state;
    char text[200];
    make_channel(f, "ops");
    make_agent(f, repeated(f, 'n', 64));
    snprintf(text, sizeof text, "@%s", repeated(f, 'n', 64));
    assert_string_equal(named(f, text), text + 1);
    snprintf(text, sizeof text, "@%s------", repeated(f, 'n', 64));
    assert_string_equal(named(f, text), repeated(f, 'n', 64));
    snprintf(text, sizeof text, "@%s", repeated(f, 'n', 65));
    assert_string_equal(named(f, text), "");
    snprintf(text, sizeof text, "@%s", repeated(f, 'n', 63));
    assert_string_equal(named(f, text), "");
}

static int statements;

static bool count_statement(void)
{
    statements++;
    return false;
}

/* How many statements it takes to post the piece again and again. */
static int statements_of_post(struct fixture *f, const char *piece)
{
    char *text = calloc(1, DESCRIPTION_BYTES_MAX + 1);
    assert_non_null(text);
    for (size_t at = 0; at + strlen(piece) <= DESCRIPTION_BYTES_MAX; at += strlen(piece))
        memcpy(text + at, piece, strlen(piece));
    statements = 0;
    db_should_fail = count_statement;
    post(f, "ops", text);
    db_should_fail = NULL;
    free(text);
    return statements;
}

static void test_each_name_is_looked_up_once_and_with_few_of_its_ends(void **state)
{
    struct fixture *f = *state;
    given_agents(f);
    int least = statements_of_post(f, "x");
    assert_true(statements_of_post(f, "@a ") <= least + 5);
    assert_true(statements_of_post(f, "@bob, ") <= least + 10);
    assert_true(statements_of_post(f, "@a------------------------------ ") <= least + 10);
    assert_true(statements_of_post(f, "@a--@a.-.@a---@a. ") <= least + 40);
}

static void test_an_agent_is_known_by_its_name_not_by_its_id(void **state)
{
    struct fixture *f = *state;
    make_channel(f, "ops");
    make_agent_in(f, "default", "a1", "bob");
    make_agent_in(f, "default", "bob", "rob"); /* its id is the other's name */
    assert_string_equal(named(f, "@bob"), "a1");
    assert_string_equal(named(f, "@rob"), "bob");
    assert_string_equal(named(f, "@a1"), "");
}

static void test_a_message_does_not_mention_its_author(void **state)
{
    struct fixture *f = *state;
    struct dibs_post_new in = {.channel_id = "ops", .content = "@bob @rob @ann"};
    make_channel(f, "ops");
    make_agent_in(f, "default", "a1", "bob");
    make_agent_in(f, "default", "bob", "rob");
    make_agent(f, "ann");
    in.author = "a1";
    assert_string_equal(words(f, post_as(f, in).mentions), "ann bob");
    in.author = "bob"; /* an id comes before a name */
    assert_string_equal(words(f, post_as(f, in).mentions), "a1 ann");
    in.author = "rob"; /* nobody's id, so a name */
    assert_string_equal(words(f, post_as(f, in).mentions), "a1 ann");
    in.author = "Ann";
    assert_string_equal(words(f, post_as(f, in).mentions), "a1 ann bob");
}

static void test_agents_of_other_projects_are_not_mentioned(void **state)
{
    struct fixture *f = *state;
    make_channel(f, "ops");
    make_agent_in(f, "p", "far", "far");
    make_agent_in(f, "p", "bob.", "bob.");
    make_agent(f, "bob");
    assert_string_equal(named(f, "@far"), "");
    assert_string_equal(named(f, "@bob."), "bob"); /* here there is only one bob */
    make_agent_session(f, "s", "far");
    assert_no_mentions(f, "far", "s");
}

static void test_each_agent_is_mentioned_once_per_message_however_many_there_are(void **state)
{
    struct fixture *f = *state;
    char text[4000] = "", name[16];
    make_channel(f, "ops");
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "agent-%03d", i);
        make_agent(f, name);
        size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, "@%s, again @%s. ", name, name);
    }
    struct dibs_post p = post(f, "ops", text);
    assert_int_equal(p.mentions.count, 100);
    assert_string_equal(p.mentions.items[0], "agent-000");
    assert_string_equal(p.mentions.items[99], "agent-099");
    make_agent_session(f, "s", "agent-042");
    assert_int_equal(claim_mentions(f, "agent-042", "s").mentions, 1);
}

/* The same rule once more, as plainly as can be: every @ by itself, every length from the longest
 * on, words looked at character by character. */
static bool slow_is_letter(const char *text, size_t at)
{
    unsigned char c = (unsigned char)text[at];
    if (c < 0x80)
        return c != '\0' && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "._-",
                                   c) != NULL;
    unsigned point = 0;
    if (c < 0xE0)
        point = (c & 0x1Fu) << 6 | ((unsigned char)text[at + 1] & 0x3Fu);
    else if (c < 0xF0)
        point = (c & 0x0Fu) << 12 | ((unsigned char)text[at + 1] & 0x3Fu) << 6 |
                ((unsigned char)text[at + 2] & 0x3Fu);
    else
        point = 0x10000;
    return point >= 0xC0 && point < 0x2000 && point != 0xD7 && point != 0xF7;
}

static bool slow_is_named(const char *text, const char *name)
{
    size_t bytes = strlen(text), length = strlen(name);
    for (size_t i = 0; i < bytes; i++) {
        size_t before = i, end = i + 1;
        if (text[i] != '@')
            continue;
        while (before > 0 && ((unsigned char)text[--before] & 0xC0) == 0x80)
            continue;
        if (i > 0 && (text[before] == '@' || slow_is_letter(text, before)))
            continue;
        while ((unsigned char)text[end] < 0x80 && slow_is_letter(text, end))
            end++;
        if (slow_is_letter(text, end) || end - i - 1 < length ||
            strncmp(text + i + 1, name, length) != 0)
            continue;
        if (strspn(text + i + 1 + length, ".-") >= end - i - 1 - length)
            return true;
    }
    return false;
}

static size_t add_text(char *to, size_t room, size_t at, const char *text)
{
    return at + (size_t)snprintf(to + at, room - at, "%s", text);
}

/* One text made of pieces of which many are on the edge of something. */
static void make_up_text(uint64_t *chance, int pieces_count, char text[128])
{
    static const char *const pieces[] = {"@", "@a", " @", " @ab", "a", "b", "ab", ".",  "-", "_",
                                         " ", " ",  "é",  "你",   "×", ",", "7",  "b7", "A"};
    size_t at = 0;
    for (int i = 0; i < pieces_count; i++) {
        *chance = *chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        at = add_text(text, 128, at, pieces[(*chance >> 33) % COUNT_OF(pieces)]);
    }
}

static void test_random_texts_name_whom_the_plain_rule_says(void **state)
{
    struct fixture *f = *state;
    /* in the order of answers; none ends in a dot or a dash, so that the rule has one answer */
    static const char *const names[] = {"a", "a.b", "ab", "b7"};
    uint64_t chance = 20260131;
    int64_t found = 0;
    make_channel(f, "ops");
    for (size_t i = 0; i < COUNT_OF(names); i++)
        make_agent(f, names[i]);
    assert_ok(f, dibs_batch_begin(f->d, &f->err)); /* one flush for all */
    for (int round = 0; round < 5000; round++) {
        char text[128], expected[32] = "";
        size_t at = 0;
        make_up_text(&chance, 1 + round % 24, text);
        for (size_t i = 0; i < COUNT_OF(names); i++)
            if (slow_is_named(text, names[i])) {
                at = add_text(expected, sizeof expected, at, at > 0 ? " " : "");
                at = add_text(expected, sizeof expected, at, names[i]);
            }
        const char *got = named(f, text);
        if (strcmp(got, expected) != 0)
            fail_msg("'%s' names '%s', not '%s'", text, got, expected);
        found += got[0] != '\0';
    }
    assert_ok(f, dibs_batch_commit(f->d, &f->err));
    assert_in_range(found, 500, 4500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_name_means_that_agent_and_no_other),
        STORE_TEST(test_the_sentence_around_a_name_is_not_part_of_it),
        STORE_TEST(test_letters_of_any_alphabet_make_a_word_and_signs_do_not),
        STORE_TEST(test_a_name_may_end_like_a_sentence),
        STORE_TEST(test_the_longest_name_is_found_and_a_longer_one_is_nobody),
        STORE_TEST(test_each_name_is_looked_up_once_and_with_few_of_its_ends),
        STORE_TEST(test_an_agent_is_known_by_its_name_not_by_its_id),
        STORE_TEST(test_a_message_does_not_mention_its_author),
        STORE_TEST(test_agents_of_other_projects_are_not_mentioned),
        STORE_TEST(test_each_agent_is_mentioned_once_per_message_however_many_there_are),
        STORE_TEST(test_random_texts_name_whom_the_plain_rule_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
