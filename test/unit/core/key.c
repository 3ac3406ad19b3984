/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/key.c: a key is random, told once and stored as a digest; it keeps its row for
 * ever; the journal tells of it without the secret.
 */
#include "core/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "probe.h"

static struct dibs_key_added add(struct fixture *f, struct dibs_key_new in)
{
    struct dibs_key_added out = {0};
    assert_ok(f, dibs__key_add(f->d, f->a, &in, &out, &f->err));
    return out;
}

static struct dibs_key_list load(struct fixture *f)
{
    struct dibs_key_list out = {0};
    assert_ok(f, dibs__keys_load(f->d, f->a, &out, &f->err));
    return out;
}

static dibs_status try_add(struct fixture *f, struct dibs_key_new in)
{
    struct dibs_key_added out = {.text = "untouched"};
    dibs_status status = dibs__key_add(f->d, f->a, &in, &out, &f->err);
    assert_string_equal(out.text, "untouched");
    return status;
}

static struct dibs_key_row revoke(struct fixture *f, const char *id)
{
    struct dibs_key_row out = {0};
    assert_ok(f, dibs__key_revoke(f->d, f->a, id, &out, &f->err));
    return out;
}

static const char *secret_of(const struct dibs_key_added *added)
{
    char id[KEY_ID_CHARS + 1];
    const char *secret = NULL;
    assert_true(dibs__key_split(added->text, id, &secret));
    assert_string_equal(id, added->key.id);
    return secret;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void test_a_key_can_be_known_again_by_its_digest(void **state)
{
    struct fixture *f = *state;
    struct dibs_key_added added =
        add(f, (struct dibs_key_new){.name = "ci", .role = DIBS_ROLE_WORKER, .project = "web"});
    char digest[KEY_DIGEST_BYTES];
    assert_true(dibs__key_digest(secret_of(&added), digest));
    assert_string_equal(digest, added.key.digest);
    struct dibs_key_list list = load(f);
    assert_int_equal(list.count, 1);
    const struct dibs_key_row *key = &list.items[0];
    assert_string_equal(key->digest, digest);
    assert_string_equal(key->id, added.key.id);
    assert_string_equal(key->name, "ci");
    assert_string_equal(key->project, "web");
    assert_int_equal(key->role, DIBS_ROLE_WORKER);
    assert_int_equal(key->rate_per_minute, KEY_RATE_DEFAULT);
    assert_true(key->created_at_ms > 0);
    assert_false(key->revoked);
}

static void test_a_digest_is_the_sha256_that_others_compute(void **state)
{
    char digest[KEY_DIGEST_BYTES];
    (void)state;
    assert_true(dibs__key_digest("abc", digest));
    assert_string_equal(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static bool stands_in(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

static void test_the_secret_is_nowhere_in_the_store(void **state)
{
    struct fixture *f = *state;
    struct dibs_key_added added =
        add(f, (struct dibs_key_new){.name = "ci", .role = DIBS_ROLE_ADMIN});
    revoke(f, added.key.id);
    char *tables = probe_tables(f);
    assert_true(stands_in(tables, added.key.digest));
    assert_false(stands_in(tables, secret_of(&added)));
    /* nor more of it than the hint */
    assert_false(stands_in(tables, secret_of(&added) + KEY_SECRET_CHARS - KEY_HINT_CHARS - 2));
    free(tables);
}

static void test_keys_are_unlike_one_another(void **state)
{
    struct fixture *f = *state;
    char name[16];
    bool seen[256] = {false};
    int letters = 0;
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "key %d", i);
        struct dibs_key_added added = add(f, (struct dibs_key_new){.name = name});
        for (const char *c = secret_of(&added); *c != '\0'; c++) {
            letters += !seen[(unsigned char)*c];
            seen[(unsigned char)*c] = true;
        }
    }
    assert_int_equal(probe_int(f, "SELECT count(DISTINCT id) FROM api_key"), 50);
    assert_int_equal(probe_int(f, "SELECT count(DISTINCT digest) FROM api_key"), 50);
    assert_int_equal(letters, 32);
}

static void test_the_rate_is_as_asked_for(void **state)
{
    struct fixture *f = *state;
    struct dibs_key_new in = {.name = "a", .rate_per_minute = DIBS_VALUE(0)};
    assert_int_equal(add(f, in).key.rate_per_minute, 0);
    in = (struct dibs_key_new){.name = "b", .rate_per_minute = DIBS_VALUE(KEY_RATE_MAX)};
    assert_int_equal(add(f, in).key.rate_per_minute, KEY_RATE_MAX);
    in = (struct dibs_key_new){.name = "c", .rate_per_minute = DIBS_VALUE(KEY_RATE_MAX + 1)};
    assert_refused(f, DIBS_INVALID_REQUEST, try_add(f, in));
    assert_string_equal(f->err.field, "ratePerMinute");
    in = (struct dibs_key_new){.name = "c", .rate_per_minute = DIBS_VALUE(-1)};
    assert_refused(f, DIBS_INVALID_REQUEST, try_add(f, in));
}

static void test_what_cannot_be_a_key_is_refused(void **state)
{
    struct fixture *f = *state;
    char lengthy[WORD_BYTES_MAX + 2];
    memset(lengthy, 'x', sizeof lengthy);
    lengthy[sizeof lengthy - 1] = '\0';
    assert_refused(f, DIBS_INVALID_REQUEST, try_add(f, (struct dibs_key_new){0}));
    assert_refused(f, DIBS_INVALID_REQUEST, try_add(f, (struct dibs_key_new){.name = ""}));
    assert_refused(f, DIBS_INVALID_REQUEST, try_add(f, (struct dibs_key_new){.name = lengthy}));
    assert_string_equal(f->err.field, "name");
    assert_refused(f, DIBS_INVALID_REQUEST,
                   try_add(f, (struct dibs_key_new){.name = "a", .project = lengthy}));
    assert_string_equal(f->err.field, "project");
    assert_refused(f, DIBS_INVALID_REQUEST,
                   try_add(f, (struct dibs_key_new){.name = "a", .role = 3}));
    assert_string_equal(f->err.field, "role");
    assert_int_equal(load(f).count, 0);
}

static void test_no_two_keys_in_use_have_one_name(void **state)
{
    struct fixture *f = *state;
    struct dibs_key_added first = add(f, (struct dibs_key_new){.name = "ci"});
    assert_refused(f, DIBS_INVALID_REQUEST, try_add(f, (struct dibs_key_new){.name = "ci"}));
    assert_non_null(strstr(f->err.message, "'ci'"));
    revoke(f, first.key.id);
    struct dibs_key_added second = add(f, (struct dibs_key_new){.name = "ci"});
    assert_string_not_equal(first.key.id, second.key.id);
    assert_int_equal(load(f).count, 2);
    /* and the file itself sees to it */
    assert_int_equal(probe_int(f, "SELECT count(*) FROM api_key WHERE revoked_at IS NULL"), 1);
}

/* Chance that always says the same, as a broken machine would. */
static void no_chance(void *context, void *out, size_t bytes)
{
    (void)context;
    memset(out, 0xff, bytes);
}

static void test_an_id_is_never_given_out_twice(void **state)
{
    struct fixture *f = *state;
    f->world.platform.random = no_chance;
    struct dibs_key_added first = add(f, (struct dibs_key_new){.name = "a"});
    revoke(f, first.key.id);
    assert_refused(f, DIBS_INTERNAL, try_add(f, (struct dibs_key_new){.name = "a"}));
    assert_int_equal(load(f).count, 1);
}

/* ---- revoking -------------------------------------------------------------------------------- */

static void test_a_revoked_key_says_since_when(void **state)
{
    struct fixture *f = *state;
    struct dibs_key_added added = add(f, (struct dibs_key_new){.name = "ci"});
    world_pass(&f->world, SECONDS(90));
    struct dibs_key_row key = revoke(f, added.key.id);
    assert_true(key.revoked);
    assert_int_equal(key.revoked_at_ms - key.created_at_ms, SECONDS(90));
    world_pass(&f->world, SECONDS(90));
    assert_int_equal(revoke(f, added.key.id).revoked_at_ms, key.revoked_at_ms);
    assert_int_equal(events_of(f, "key:revoked").count, 1);
    assert_true(load(f).items[0].revoked);
}

static void test_a_key_that_never_was_cannot_be_revoked(void **state)
{
    struct fixture *f = *state;
    struct dibs_key_row out = {.role = 7};
    assert_refused(f, DIBS_KEY_NOT_FOUND, dibs__key_revoke(f->d, f->a, "kaaaaaa", &out, &f->err));
    assert_refused(f, DIBS_INVALID_REQUEST, dibs__key_revoke(f->d, f->a, "", &out, &f->err));
    assert_int_equal(out.role, 7);
}

/* ---- the journal ----------------------------------------------------------------------------- */

static void test_the_journal_tells_of_keys_but_not_their_secrets(void **state)
{
    struct fixture *f = *state;
    struct dibs_key_added added =
        add(f, (struct dibs_key_new){.name = "ci", .role = DIBS_ROLE_WORKER, .project = "web"});
    revoke(f, added.key.id);
    static const char *const types[] = {"key:added", "key:revoked"};
    for (size_t i = 0; i < 2; i++) {
        struct dibs_event_list events = events_of(f, types[i]);
        assert_int_equal(events.count, 1);
        const struct dibs_event *e = &events.items[0];
        assert_string_equal(event_field(f, e, "keyId"), added.key.id);
        assert_string_equal(event_field(f, e, "name"), "ci");
        assert_string_equal(event_field(f, e, "role"), "worker");
        assert_string_equal(event_field(f, e, "project"), "web");
        assert_string_equal(event_field(f, e, "ratePerMinute"), "100");
        assert_null(strstr(e->data, added.key.digest));
        assert_null(strstr(e->data, secret_of(&added)));
        assert_null(e->project);
    }
}

/* ---- texts ----------------------------------------------------------------------------------- */

static void test_only_a_whole_key_can_be_taken_apart(void **state)
{
    static const char good[] = "dibs_kabcdef_abcdefghijkmnpqrstuvwxyz23456789abcdefghijkmnpqrstuv";
    static const char *const bad[] = {
        "",
        "dibs_",
        "dibs_kabcdef",
        "dibs_kabcdef_",
        "dibs_kabcdef_abcdefghijkmnpqrstuvwxyz23456789abcdefghijkmnpqrstu",
        "dibs_kabcdef_abcdefghijkmnpqrstuvwxyz23456789abcdefghijkmnpqrstuvw",
        "dibs-kabcdef_abcdefghijkmnpqrstuvwxyz23456789abcdefghijkmnpqrstuv",
        "DIBS_kabcdef_abcdefghijkmnpqrstuvwxyz23456789abcdefghijkmnpqrstuv",
        "dibs_xabcdef_abcdefghijkmnpqrstuvwxyz23456789abcdefghijkmnpqrstuv",
        "dibs_kabcde1_abcdefghijkmnpqrstuvwxyz23456789abcdefghijkmnpqrstuv",
        "dibs_kabcdefaabcdefghijkmnpqrstuvwxyz23456789abcdefghijkmnpqrstuv",
        "dibs_kabcdef_Abcdefghijkmnpqrstuvwxyz23456789abcdefghijkmnpqrstuv",
        "dibs_kabcdef_abcdefghijkmnpqrstuvwxyz23456789abcdefghijkmnpqrstu\n",
        "dibs_kabcde__abcdefghijkmnpqrstuvwxyz23456789abcdefghijkmnpqrstuv",
    };
    char id[KEY_ID_CHARS + 1] = "before";
    const char *secret = NULL;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_false(dibs__key_split(bad[i], id, &secret));
        assert_string_equal(id, "before");
        assert_null(secret);
    }
    assert_true(dibs__key_split(good, id, &secret));
    assert_string_equal(id, "kabcdef");
    assert_string_equal(secret, good + 13);
}

static void test_roles_have_names(void **state)
{
    (void)state;
    assert_string_equal(dibs__role_name(DIBS_ROLE_READ), "read");
    assert_string_equal(dibs__role_name(DIBS_ROLE_WORKER), "worker");
    assert_string_equal(dibs__role_name(DIBS_ROLE_ADMIN), "admin");
    assert_string_equal(dibs__role_name(-1), "unknown");
    assert_string_equal(dibs__role_name(3), "unknown");
}

/* ---- an older store -------------------------------------------------------------------------- */

static void test_a_store_without_keys_gets_its_table_when_it_is_opened(void **state)
{
    struct fixture *f = *state;
    make_session(f, "s");
    dibs_close(f->d);
    f->d = NULL;
    plant(f, "DROP TABLE api_key; ALTER TABLE session DROP COLUMN key_id;"
             "DELETE FROM schema_migration WHERE number = 2");
    fixture_reopen(f);
    assert_string_equal(get_session(f, "s").id, "s");
    add(f, (struct dibs_key_new){.name = "ci"});
    assert_int_equal(probe_int(f, "SELECT count(*) FROM session WHERE key_id IS NULL"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_a_key_can_be_known_again_by_its_digest),
        cmocka_unit_test(test_a_digest_is_the_sha256_that_others_compute),
        STORE_TEST(test_the_secret_is_nowhere_in_the_store),
        STORE_TEST(test_keys_are_unlike_one_another),
        STORE_TEST(test_the_rate_is_as_asked_for),
        STORE_TEST(test_what_cannot_be_a_key_is_refused),
        STORE_TEST(test_no_two_keys_in_use_have_one_name),
        STORE_TEST(test_an_id_is_never_given_out_twice),
        STORE_TEST(test_a_revoked_key_says_since_when),
        STORE_TEST(test_a_key_that_never_was_cannot_be_revoked),
        STORE_TEST(test_the_journal_tells_of_keys_but_not_their_secrets),
        cmocka_unit_test(test_only_a_whole_key_can_be_taken_apart),
        cmocka_unit_test(test_roles_have_names),
        STORE_TEST(test_a_store_without_keys_gets_its_table_when_it_is_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
