/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/core/settings.c: every setting from every place, who wins, and what is refused. Each
 * test starts with an environment that says nothing.
 */
#include "probe.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAYS(n) MINUTES((n)*24 * 60)

/* Each setting with its default and with three more values, told in three places. */
static const struct {
    const char *name, *environment;
    size_t offset;
    int64_t standard;
    const char *text[3];
    int64_t value[3];
} all[] = {
#define ROW(field, name, environment, standard, ...)                                               \
    {                                                                                              \
        name, environment, offsetof(struct dibs_settings, field), standard, __VA_ARGS__            \
    }
    ROW(default_ttl_ms, "defaultTTL", "DIBS_DEFAULT_TTL", MINUTES(30), {"45m", "90s", "2h"},
        {MINUTES(45), SECONDS(90), MINUTES(120)}),
    ROW(min_ttl_ms, "minTTL", "DIBS_MIN_TTL", MINUTES(1), {"1s", "1500", "30m"},
        {1000, 1500, MINUTES(30)}),
    ROW(max_ttl_ms, "maxTTL", "DIBS_MAX_TTL", MINUTES(120), {"30d", "1d", "30m"},
        {DAYS(30), DAYS(1), MINUTES(30)}),
    ROW(heartbeat_interval_ms, "heartbeatInterval", "DIBS_HEARTBEAT_INTERVAL", MINUTES(1),
        {"100ms", "1d", "5s"}, {100, DAYS(1), 5000}),
    ROW(cleanup_interval_ms, "cleanupInterval", "DIBS_CLEANUP_INTERVAL", MINUTES(5),
        {"100", "1d", "7m"}, {100, DAYS(1), MINUTES(7)}),
    ROW(lock_ttl_ms, "lockTTL", "DIBS_LOCK_TTL", MINUTES(1), {"1s", "1d", "2m"},
        {1000, DAYS(1), MINUTES(2)}),
    ROW(orphan_threshold_ms, "orphanThreshold", "DIBS_ORPHAN_THRESHOLD", MINUTES(10),
        {"5m", "30d", "1h"}, {MINUTES(5), DAYS(30), MINUTES(60)}),
    ROW(warning_threshold_ms, "warningThreshold", "DIBS_WARNING_THRESHOLD", MINUTES(5),
        {"0", "30d", "2m"}, {0, DAYS(30), MINUTES(2)}),
    ROW(expiring_threshold_ms, "expiringThreshold", "DIBS_EXPIRING_THRESHOLD", MINUTES(1),
        {"0s", "30d", "2m"}, {0, DAYS(30), MINUTES(2)}),
    ROW(stale_threshold_ms, "staleThreshold", "DIBS_STALE_THRESHOLD", MINUTES(5),
        {"100ms", "10m", "1s"}, {100, MINUTES(10), 1000}),
    ROW(event_retention_ms, "eventRetention", "DIBS_EVENT_RETENTION", DAYS(7),
        {"0", "36500d", "1h"}, {0, DAYS(36500LL), MINUTES(60)}),
    ROW(offer_ttl_ms, "offerTTL", "DIBS_OFFER_TTL", MINUTES(60), {"1s", "30d", "10m"},
        {1000, DAYS(30), MINUTES(10)}),
    ROW(auto_cleanup, "autoCleanup", "DIBS_AUTO_CLEANUP", 1, {"off", "on", "NO"}, {0, 1, 0}),
#undef ROW
};
#define COUNT (sizeof all / sizeof *all)

static int quiet_setup(void **state)
{
    for (size_t i = 0; i < COUNT; i++)
        unsetenv(all[i].environment);
    return fixture_setup(state);
}

static int quiet_teardown(void **state)
{
    for (size_t i = 0; i < COUNT; i++)
        unsetenv(all[i].environment);
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

static dibs_status open_with(struct fixture *f, const char *option, dibs **out)
{
    struct dibs_options options = {.data_dir = f->data_dir, .platform = &f->world.platform};
    options.settings = DIBS_STRINGS(option);
    options.settings.count = option != NULL;
    return dibs_open(&options, out, &f->err);
}

static dibs *must_open(struct fixture *f, const char *option)
{
    dibs *d = NULL;
    assert_ok(f, open_with(f, option, &d));
    return d;
}

static void assert_refusal(struct fixture *f, const char *option, const char *message)
{
    dibs *d = NULL;
    assert_refused(f, DIBS_INVALID_REQUEST, open_with(f, option, &d));
    assert_string_equal(f->err.message, message);
    assert_null(d);
}

static void assert_in_force(struct fixture *f, dibs *d, size_t i, int64_t value, const char *origin)
{
    struct dibs_setting_list list = {0};
    assert_ok(f, dibs_settings_list(d, f->a, &list, &f->err));
    assert_int_equal(list.count, COUNT);
    assert_string_equal(list.items[i].name, all[i].name);
    assert_string_equal(list.items[i].environment, all[i].environment);
    assert_int_equal(list.items[i].standard, all[i].standard);
    assert_int_equal(list.items[i].is_duration, strcmp(all[i].name, "autoCleanup") != 0);
    assert_true(list.items[i].summary[0] != '\0');
    assert_int_equal(list.items[i].value, value);
    assert_string_equal(list.items[i].origin, origin);
    const char *base = (const char *)dibs_settings(d);
    assert_int_equal(*(const int64_t *)(const void *)(base + all[i].offset), value);
}

/* ---- where a value comes from ---------------------------------------------------------------- */

static void test_every_setting_has_its_default(void **state)
{
    struct fixture *f = *state;
    dibs *d = must_open(f, NULL);
    for (size_t i = 0; i < COUNT; i++)
        assert_in_force(f, d, i, all[i].standard, "default");
    dibs_close(d);
}

static void test_every_setting_comes_from_config_environment_and_option_in_that_order(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < COUNT; i++) {
        char line[96];
        snprintf(line, sizeof line, "%s = %s\n", all[i].name, all[i].text[0]);
        write_config(f, line);
        dibs *d = must_open(f, NULL);
        assert_in_force(f, d, i, all[i].value[0], "config file");
        dibs_close(d);
        setenv(all[i].environment, all[i].text[1], 1);
        d = must_open(f, NULL);
        assert_in_force(f, d, i, all[i].value[1], "environment");
        dibs_close(d);
        snprintf(line, sizeof line, "%s=%s", all[i].name, all[i].text[2]);
        d = must_open(f, line);
        assert_in_force(f, d, i, all[i].value[2], "option");
        dibs_close(d);
        unsetenv(all[i].environment);
    }
}

static void test_one_setting_leaves_the_others_at_their_defaults(void **state)
{
    struct fixture *f = *state;
    dibs *d = must_open(f, "lockTTL=2m");
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(all[i].name, "lockTTL") != 0)
            assert_in_force(f, d, i, all[i].standard, "default");
    dibs_close(d);
}

static void test_a_config_file_may_have_comments_sections_and_blank_lines(void **state)
{
    struct fixture *f = *state;
    write_config(f, "# of this project\n; another comment\n\n[claims]\n  defaultTTL=45m ; long\n"
                    "\n[locks]\nlockTTL   =   90s\n");
    dibs *d = must_open(f, NULL);
    assert_int_equal(dibs_settings(d)->default_ttl_ms, MINUTES(45));
    assert_int_equal(dibs_settings(d)->lock_ttl_ms, SECONDS(90));
    dibs_close(d);
}

static void test_switches_are_read_in_many_words(void **state)
{
    struct fixture *f = *state;
    const char *on[] = {"on", "true", "YES", "1"}, *off[] = {"off", "False", "no", "0"};
    for (size_t i = 0; i < 4; i++) {
        char option[32];
        snprintf(option, sizeof option, "autoCleanup=%s", on[i]);
        dibs *d = must_open(f, option);
        assert_int_equal(dibs_settings(d)->auto_cleanup, 1);
        dibs_close(d);
        snprintf(option, sizeof option, "autoCleanup=%s", off[i]);
        d = must_open(f, option);
        assert_int_equal(dibs_settings(d)->auto_cleanup, 0);
        dibs_close(d);
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void test_unknown_names_are_refused(void **state)
{
    struct fixture *f = *state;
    assert_refusal(f, "defaultTtl=30m",
                   "'defaultTtl=30m' is not a setting; write it as name=value");
    assert_refusal(f, "defaultTTL", "'defaultTTL' is not a setting; write it as name=value");
    assert_refusal(f, "", "'' is not a setting; write it as name=value");
    assert_refusal(f, "=30m", "'=30m' is not a setting; write it as name=value");
    write_config(f, "defaultTTl = 30m\n");
    assert_refusal(f, NULL, "config file has an unknown setting 'defaultTTl'");
}

static void test_a_value_that_cannot_be_read_is_refused_with_name_and_place(void **state)
{
    struct fixture *f = *state;
    const char *bad[] = {"", "soon", "-1", "10x", "1.5h", "30 m", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char option[64], message[160];
        snprintf(option, sizeof option, "lockTTL=%s", bad[i]);
        snprintf(message, sizeof message,
                 "'lockTTL' cannot be '%s' (from option): it takes a duration such as 1500ms, 90s, "
                 "30m, 2h or 7d",
                 bad[i]);
        assert_refusal(f, option, message);
        assert_string_equal(f->err.field, "lockTTL");
    }
    setenv("DIBS_LOCK_TTL", "soon", 1);
    assert_refusal(f, NULL,
                   "'lockTTL' cannot be 'soon' (from environment): it takes a duration such as "
                   "1500ms, 90s, 30m, 2h or 7d");
    assert_refusal(f, "autoCleanup=maybe",
                   "'lockTTL' cannot be 'soon' (from environment): it takes a duration such as "
                   "1500ms, 90s, 30m, 2h or 7d");
    unsetenv("DIBS_LOCK_TTL");
    assert_refusal(f, "autoCleanup=maybe",
                   "'autoCleanup' cannot be 'maybe' (from option): it takes on or off");
    assert_refusal(f, "autoCleanup=2",
                   "'autoCleanup' cannot be '2' (from option): it takes on or off");
}

static void test_a_value_out_of_bounds_is_refused_with_the_bounds(void **state)
{
    struct fixture *f = *state;
    assert_refusal(f, "lockTTL=999",
                   "'lockTTL' cannot be '999' (from option): it takes a duration from 1s to 1d");
    assert_refusal(f, "lockTTL=25h",
                   "'lockTTL' cannot be '25h' (from option): it takes a duration from 1s to 1d");
    write_config(f, "staleThreshold = 99ms\n");
    assert_refusal(
        f, NULL,
        "'staleThreshold' cannot be '99ms' (from config file): it takes a duration from 100ms to "
        "30d");
}

static void test_the_first_mistake_in_the_config_file_is_the_one_that_is_named(void **state)
{
    struct fixture *f = *state;
    write_config(f, "lockTTL = soon\nminTTL = 2m\n");
    assert_refusal(f, NULL,
                   "'lockTTL' cannot be 'soon' (from config file): it takes a duration such as "
                   "1500ms, 90s, 30m, 2h or 7d");
    write_config(f, "nonsense = 1\nlockTTL = soon\n");
    assert_refusal(f, NULL, "config file has an unknown setting 'nonsense'");
    char message[192];
    write_config(f, "minTTL = 2m\nthis is no setting\n");
    snprintf(message, sizeof message, "cannot read line 2 of '%s/config': write it as name = value",
             f->data_dir);
    assert_refusal(f, NULL, message);
}

static void test_settings_that_contradict_each_other_are_refused(void **state)
{
    struct fixture *f = *state;
    assert_refusal(f, "minTTL=3h", "'minTTL' is larger than maxTTL");
    assert_refusal(f, "minTTL=31m", "'defaultTTL' must lie between minTTL and maxTTL");
    assert_refusal(f, "defaultTTL=3h", "'defaultTTL' must lie between minTTL and maxTTL");
    assert_refusal(f, "orphanThreshold=299s",
                   "'orphanThreshold' is shorter than staleThreshold: sessions would end before "
                   "they are stale");
    setenv("DIBS_STALE_THRESHOLD", "11m", 1); /* together with a default */
    assert_refusal(f, NULL,
                   "'orphanThreshold' is shorter than staleThreshold: sessions would end before "
                   "they are stale");
}

/* ---- settings are in force ------------------------------------------------------------------- */

static void test_the_bounds_of_a_lease_are_those_of_the_settings(void **state)
{
    struct fixture *f = *state;
    struct dibs_claim out = {0};
    make_session(f, "s");
    make_task(f, "a");
    struct dibs_claim_take brief = {.task_id = "a", .session_id = "s", .ttl_ms = SECONDS(30)};
    assert_refused(f, DIBS_INVALID_REQUEST, dibs_claim_take(f->d, f->a, &brief, &out, &f->err));
    dibs *d = must_open(f, "minTTL=30s");
    assert_ok(f, dibs_claim_take(d, f->a, &brief, &out, &f->err));
    assert_int_equal(out.remaining_ms, SECONDS(30));
    dibs_close(d);
    d = must_open(f, "defaultTTL=45m");
    make_task(f, "b");
    struct dibs_claim_take usual = {.task_id = "b", .session_id = "s"};
    assert_ok(f, dibs_claim_take(d, f->a, &usual, &out, &f->err));
    assert_int_equal(out.remaining_ms, MINUTES(45));
    dibs_close(d);
}

#define SETTINGS_TEST(name) cmocka_unit_test_setup_teardown(name, quiet_setup, quiet_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SETTINGS_TEST(test_every_setting_has_its_default),
        SETTINGS_TEST(test_every_setting_comes_from_config_environment_and_option_in_that_order),
        SETTINGS_TEST(test_one_setting_leaves_the_others_at_their_defaults),
        SETTINGS_TEST(test_a_config_file_may_have_comments_sections_and_blank_lines),
        SETTINGS_TEST(test_switches_are_read_in_many_words),
        SETTINGS_TEST(test_unknown_names_are_refused),
        SETTINGS_TEST(test_a_value_that_cannot_be_read_is_refused_with_name_and_place),
        SETTINGS_TEST(test_a_value_out_of_bounds_is_refused_with_the_bounds),
        SETTINGS_TEST(test_the_first_mistake_in_the_config_file_is_the_one_that_is_named),
        SETTINGS_TEST(test_settings_that_contradict_each_other_are_refused),
        SETTINGS_TEST(test_the_bounds_of_a_lease_are_those_of_the_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
