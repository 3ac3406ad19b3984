/* SPDX-License-Identifier: MIT */
/*
 * Tests of src/server/metrics.c: what was recorded is told, in a text that a strict reader of the
 * format takes. check_text() is that reader: every sample belongs to a family with HELP and TYPE
 * that stand in front of it, families are not torn apart, no series comes twice, counters end in
 * _total, buckets grow up to +Inf, which is the count.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "server/metrics.h"

#define SERIES_MAX 4000

struct text {
    struct buf out;
    char *series[SERIES_MAX]; /* "name{labels}" */
    double values[SERIES_MAX];
    size_t count;
};

/* ---- the strict reader ----------------------------------------------------------------------- */

static bool is_name(const char *text, size_t bytes)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:";
    if (bytes == 0 || strchr(first, text[0]) == NULL)
        return false;
    for (size_t i = 1; i < bytes; i++) {
        if (strchr(first, text[i]) == NULL && (text[i] < '0' || text[i] > '9'))
            return false;
    }
    return true;
}

static bool ends_in(const char *text, const char *end)
{
    size_t length = strlen(text), bytes = strlen(end);
    return length >= bytes && strcmp(text + length - bytes, end) == 0;
}

struct family {
    char name[128], type[16];
    bool has_help, has_samples;
    char bucket_labels[256]; /* of the series of buckets that is being read; "" between them */
    double last_bucket, last_bound;
};

static void check_family_name(const struct family *f)
{
    assert_true(is_name(f->name, strlen(f->name)));
    assert_true(str_starts(f->name, "dibs_") || str_starts(f->name, "process_"));
    assert_true(ends_in(f->name, "_total") == str_eq(f->type, "counter"));
    assert_false(ends_in(f->name, "_bucket") || ends_in(f->name, "_sum"));
    assert_false(ends_in(f->name, "_count") || ends_in(f->name, "_info_total"));
    assert_null(strstr(f->name, "_ms"));
    assert_null(strstr(f->name, "_milliseconds"));
}

/* begin_family: reads "# HELP name text" or "# TYPE name type". */
static void begin_family(struct family *f, char *line, char seen[][128], size_t *seen_count)
{
    char name[128] = "";
    if (sscanf(line, "# HELP %127s", name) == 1) {
        assert_true(strlen(line) > strlen("# HELP ") + strlen(name) + 1);
        for (size_t i = 0; i < *seen_count; i++)
            assert_string_not_equal(seen[i], name);
        snprintf(seen[(*seen_count)++], 128, "%s", name);
        *f = (struct family){.has_help = true};
        snprintf(f->name, sizeof f->name, "%s", name);
        return;
    }
    assert_int_equal(sscanf(line, "# TYPE %127s %15s", name, f->type), 2);
    assert_string_equal(name, f->name); /* HELP stood in front */
    assert_false(f->has_samples);
    assert_true(str_eq(f->type, "counter") || str_eq(f->type, "gauge") ||
                str_eq(f->type, "histogram"));
    check_family_name(f);
}

/* check_labels: {a="b",c="d"}: names are names, values need no escapes. */
static void check_labels(const char *at)
{
    assert_int_equal(*at++, '{');
    for (;;) {
        size_t bytes = strcspn(at, "=");
        assert_true(is_name(at, bytes));
        at += bytes;
        assert_int_equal(at[0], '=');
        assert_int_equal(at[1], '"');
        at += 2;
        bytes = strcspn(at, "\"\\\n");
        assert_true(bytes > 0);
        assert_int_equal(at[bytes], '"');
        at += bytes + 1;
        if (*at == '}')
            break;
        assert_int_equal(*at++, ',');
    }
    assert_string_equal(at, "}");
}

/* check_bucket: buckets of one series come in a row and grow; +Inf ends them. */
static void check_bucket(struct family *f, const char *labels, double value)
{
    const char *le = strstr(labels, "le=\"");
    char rest[256] = "";
    assert_non_null(le);
    snprintf(rest, sizeof rest, "%.*s", (int)(le - labels), labels);
    double bound = strtod(le + 4, NULL);
    if (f->bucket_labels[0] != '\0') {
        assert_string_equal(rest, f->bucket_labels);
        assert_true(value >= f->last_bucket);
        assert_true(bound > f->last_bound);
    }
    snprintf(f->bucket_labels, sizeof f->bucket_labels, "%s", rest);
    f->last_bucket = value;
    f->last_bound = bound;
}

static void check_histogram(struct family *f, const char *suffix, const char *labels, double value)
{
    if (str_eq(suffix, "_bucket")) {
        check_bucket(f, labels, value);
    } else if (str_eq(suffix, "_sum")) {
        assert_true(f->last_bound > 1e300); /* +Inf was the last bucket */
        assert_true(value >= 0);
    } else {
        assert_string_equal(suffix, "_count");
        assert_true(value >= f->last_bucket && value <= f->last_bucket);
        f->bucket_labels[0] = '\0';
    }
}

static void check_sample(struct text *t, struct family *f, char *line)
{
    char *space = strrchr(line, ' '), *end = NULL;
    assert_non_null(space);
    *space = '\0';
    double value = strtod(space + 1, &end);
    assert_true(end > space + 1 && *end == '\0');
    size_t bytes = strcspn(line, "{");
    assert_true(is_name(line, bytes));
    if (line[bytes] == '{')
        check_labels(line + bytes);
    assert_true(strncmp(line, f->name, strlen(f->name)) == 0);
    assert_true(f->has_help && f->type[0] != '\0');
    f->has_samples = true;
    char suffix[64] = "";
    snprintf(suffix, sizeof suffix, "%.*s", (int)(bytes - strlen(f->name)), line + strlen(f->name));
    if (str_eq(f->type, "histogram"))
        check_histogram(f, suffix, line + bytes, value);
    else
        assert_string_equal(suffix, "");
    for (size_t i = 0; i < t->count; i++)
        assert_string_not_equal(t->series[i], line);
    assert_true(t->count < SERIES_MAX);
    t->series[t->count] = line;
    t->values[t->count++] = value;
}

static void check_text(struct text *t)
{
    static char seen[200][128];
    size_t seen_count = 0;
    struct family f = {0};
    assert_true(buf_ok(&t->out));
    assert_int_equal(t->out.data[t->out.len - 1], '\n');
    for (char *line = t->out.data; *line != '\0';) {
        char *end = strchr(line, '\n');
        *end = '\0';
        if (line[0] == '#')
            begin_family(&f, line, seen, &seen_count);
        else
            check_sample(t, &f, line);
        line = end + 1;
    }
}

/* ---- using it -------------------------------------------------------------------------------- */

static const struct api_operation *op(const char *name)
{
    size_t count = 0;
    const struct api_operation *all = api_operations(&count);
    for (size_t i = 0; i < count; i++) {
        if (str_eq(all[i].name, name))
            return &all[i];
    }
    fail_msg("no operation '%s'", name);
    return NULL;
}

static void render(const struct metrics *m, const struct metrics_now *now, struct text *t)
{
    *t = (struct text){0};
    buf_init(&t->out, 1 << 20);
    metrics_render(m, now, &t->out);
    check_text(t);
}

/* value: of one series; -1 when it is not there. */
static double value(const struct text *t, const char *series)
{
    for (size_t i = 0; i < t->count; i++) {
        if (str_eq(t->series[i], series))
            return t->values[i];
    }
    return -1;
}

#define assert_value(t, series, expected)                                                          \
    do {                                                                                           \
        double found_ = value(t, series);                                                          \
        if (found_ < (expected)-1e-9 || found_ > (expected) + 1e-9)                                \
            fail_msg("%s is %f, not %f", series, found_, (double)(expected));                      \
    } while (0)

static void test_a_fresh_daemon_says_nothing_wrong(void **state)
{
    struct metrics *m = metrics_new();
    struct metrics_now now = {0};
    struct text t;
    (void)state;
    render(m, &now, &t);
    assert_value(&t, "dibs_connections", 0);
    assert_value(&t, "dibs_store_up", 0);
    assert_value(&t, "dibs_build_info{version=\"" DIBS_VERSION "\"}", 1);
    assert_value(&t, "dibs_tasks{status=\"open\"}", -1); /* not known, so not told */
    assert_value(&t, "dibs_writer_batch_jobs_bucket{le=\"+Inf\"}", 0);
    buf_release(&t.out);
    metrics_free(m);
    metrics_free(NULL);
}

static void test_requests_are_counted_by_operation_and_code(void **state)
{
    struct metrics *m = metrics_new();
    struct metrics_now now = {0};
    struct text t;
    (void)state;
    for (int i = 0; i < 3; i++)
        metrics_request(m, op("claim"), 200, 400);
    metrics_request(m, op("claim"), 409, 400);
    metrics_request(m, op("events"), 200, 400);
    render(m, &now, &t);
    assert_value(&t, "dibs_requests_total{operation=\"claim\",code=\"200\"}", 3);
    assert_value(&t, "dibs_requests_total{operation=\"claim\",code=\"409\"}", 1);
    assert_value(&t, "dibs_requests_total{operation=\"events\",code=\"200\"}", 1);
    assert_value(&t, "dibs_requests_total{operation=\"fail\",code=\"200\"}", -1);
    buf_release(&t.out);
    metrics_free(m);
}

static void test_every_operation_is_a_label_and_nothing_else_becomes_one(void **state)
{
    struct metrics *m = metrics_new();
    struct metrics_now now = {0};
    struct text t;
    size_t count = 0;
    const struct api_operation *all = api_operations(&count);
    (void)state;
    for (size_t i = 0; i < count; i++)
        metrics_request(m, &all[i], 200, 1);
    for (int code = -10; code < 2000; code++) /* pages, unknown paths, codes that are none */
        metrics_request(m, NULL, code, 1);
    render(m, &now, &t);
    size_t labels = 0, others = 0;
    for (size_t i = 0; i < t.count; i++) {
        labels += str_starts(t.series[i], "dibs_request_duration_seconds_count{");
        others += str_starts(t.series[i], "dibs_requests_total{operation=\"other\"");
    }
    assert_int_equal(labels, count + 1);
    assert_true(others > 10 && others < 40);
    assert_value(&t, "dibs_requests_total{operation=\"other\",code=\"404\"}", 1);
    assert_value(&t, "dibs_request_duration_seconds_count{operation=\"other\"}", 2010);
    buf_release(&t.out);
    metrics_free(m);
}

static void test_a_code_of_every_refusal_is_told_by_its_number(void **state)
{
    static const int codes[] = {
#define STATUS(number, name, http, exit, kind, sentence) http,
#include "base/status.def"
#undef STATUS
    };
    struct metrics *m = metrics_new();
    struct metrics_now now = {0};
    struct text t;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++)
        metrics_request(m, NULL, codes[i], 1);
    render(m, &now, &t);
    assert_value(&t, "dibs_requests_total{operation=\"other\",code=\"other\"}", -1);
    assert_value(&t, "dibs_requests_total{operation=\"other\",code=\"507\"}", 1);
    buf_release(&t.out);
    metrics_free(m);
}

static void test_durations_fall_into_their_buckets(void **state)
{
    static const int64_t micros[] = {0, 500, 501, 2500, 10000000, 10000001, -5};
    struct metrics *m = metrics_new();
    struct metrics_now now = {0};
    struct text t;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(micros); i++)
        metrics_request(m, op("complete"), 200, micros[i]);
    render(m, &now, &t);
#define BUCKET(le) "dibs_request_duration_seconds_bucket{operation=\"complete\",le=\"" le "\"}"
    assert_value(&t, BUCKET("0.0005"), 3); /* 0, 500 and what a clock got wrong */
    assert_value(&t, BUCKET("0.001"), 4);
    assert_value(&t, BUCKET("0.0025"), 5);
    assert_value(&t, BUCKET("5"), 5);
    assert_value(&t, BUCKET("10"), 6);
    assert_value(&t, BUCKET("+Inf"), 7);
    assert_value(&t, "dibs_request_duration_seconds_sum{operation=\"complete\"}", 20.003502);
    assert_value(&t, "dibs_request_duration_seconds_count{operation=\"complete\"}", 7);
    buf_release(&t.out);
    metrics_free(m);
}

static void test_connections_come_and_go(void **state)
{
    struct metrics *m = metrics_new();
    struct metrics_now now = {0};
    struct text t;
    (void)state;
    metrics_connection(m, 1);
    metrics_connection(m, 1);
    metrics_connection(m, -1);
    metrics_refused_connection(m);
    metrics_bad_request(m);
    metrics_bad_request(m);
    render(m, &now, &t);
    assert_value(&t, "dibs_connections", 1);
    assert_value(&t, "dibs_connections_accepted_total", 2);
    assert_value(&t, "dibs_connections_refused_total", 1);
    assert_value(&t, "dibs_bad_requests_total", 2);
    buf_release(&t.out);
    metrics_free(m);
}

static void test_writer_queues_and_readers_are_told(void **state)
{
    struct metrics *m = metrics_new();
    struct metrics_now now = {
        .writer = {.commits = 7,
                   .jobs = 200,
                   .failed_commits = 2,
                   .queued = 3,
                   .parked = 4,
                   .busy_us = 1500000,
                   .batch_jobs_le = {1, 0, 2, 0, 0, 0, 0, 4},
                   .extended_ms = 2500},
        .sse = {.readers = 5, .dropped = 6, .sent_events = 1000},
        .readers_queued = 8,
        .uptime_ms = 61001,
    };
    struct text t;
    (void)state;
    render(m, &now, &t);
    assert_value(&t, "dibs_writer_commits_total", 7);
    assert_value(&t, "dibs_writer_failed_commits_total", 2);
    assert_value(&t, "dibs_writer_busy_seconds_total", 1.5);
    assert_value(&t, "dibs_writer_batch_jobs_bucket{le=\"1\"}", 1);
    assert_value(&t, "dibs_writer_batch_jobs_bucket{le=\"4\"}", 3);
    assert_value(&t, "dibs_writer_batch_jobs_bucket{le=\"64\"}", 3);
    assert_value(&t, "dibs_writer_batch_jobs_bucket{le=\"+Inf\"}", 7);
    assert_value(&t, "dibs_writer_batch_jobs_sum", 200);
    assert_value(&t, "dibs_writer_batch_jobs_count", 7);
    assert_value(&t, "dibs_lease_extension_seconds_total", 2.5);
    assert_value(&t, "dibs_queue_depth{queue=\"writer\"}", 3);
    assert_value(&t, "dibs_queue_depth{queue=\"parked\"}", 4);
    assert_value(&t, "dibs_queue_depth{queue=\"readers\"}", 8);
    assert_value(&t, "dibs_event_readers", 5);
    assert_value(&t, "dibs_event_readers_dropped_total", 6);
    assert_value(&t, "dibs_events_sent_total", 1000);
    assert_value(&t, "dibs_uptime_seconds", 61.001);
    buf_release(&t.out);
    metrics_free(m);
}

static void test_numbers_of_the_store_are_told(void **state)
{
    struct dibs_tally tallies[] = {{"open", 12}, {"failed", 3}};
    struct dibs_stats store = {.total = 5,
                               .active = 4,
                               .expiring = 2,
                               .stale = 1,
                               .tasks_by_status = {tallies, 2},
                               .claimed_ever = 10,
                               .completed_ever = 11,
                               .failed_ever = 12,
                               .expired_ever = 13,
                               .orphaned_ever = 14,
                               .released_ever = 15,
                               .refused_ever = 16,
                               .late_results_ever = 17,
                               .oldest_claimable_ms = 90500};
    static const struct {
        const char *series;
        double value;
    } rows[] = {
        {"dibs_store_up", 1},
        {"dibs_tasks{status=\"open\"}", 12},
        {"dibs_tasks{status=\"failed\"}", 3},
        {"dibs_tasks{status=\"in_progress\"}", 0},
        {"dibs_tasks{status=\"cancelled\"}", 0},
        {"dibs_claims_live", 4},
        {"dibs_claims_expiring", 2},
        {"dibs_claims_stale", 1},
        {"dibs_claims_taken_total", 10},
        {"dibs_claims_completed_total", 11},
        {"dibs_claims_failed_total", 12},
        {"dibs_claims_expired_total", 13},
        {"dibs_claims_orphaned_total", 14},
        {"dibs_claims_released_total", 15},
        {"dibs_claims_refused_total", 16},
        {"dibs_late_results_total", 17},
        {"dibs_oldest_claimable_age_seconds", 90.5},
    };
    struct metrics *m = metrics_new();
    struct metrics_now now = {.store = &store};
    struct text t;
    (void)state;
    render(m, &now, &t);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_value(&t, rows[i].series, rows[i].value);
    buf_release(&t.out);
    metrics_free(m);
}

static void test_the_process_knows_itself(void **state)
{
    struct metrics *m = metrics_new();
    struct metrics_now now = {0};
    struct text t;
    (void)state;
    render(m, &now, &t);
    double before = value(&t, "process_open_fds");
    assert_true(before >= 3 && before <= value(&t, "process_max_fds"));
    assert_true(value(&t, "process_resident_memory_bytes") > 100000);
    assert_true(value(&t, "process_cpu_seconds_total") >= 0);
    assert_true(value(&t, "process_start_time_seconds") > 1.6e9);
    buf_release(&t.out);
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    render(m, &now, &t);
    assert_value(&t, "process_open_fds", before + 2);
    buf_release(&t.out);
    close(fds[0]);
    close(fds[1]);
    metrics_free(m);
}

static void test_a_text_that_does_not_fit_is_a_failed_buffer(void **state)
{
    struct metrics *m = metrics_new();
    struct metrics_now now = {0};
    struct buf out;
    (void)state;
    buf_init(&out, 100);
    metrics_render(m, &now, &out);
    assert_false(buf_ok(&out));
    buf_release(&out);
    metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fresh_daemon_says_nothing_wrong),
        cmocka_unit_test(test_requests_are_counted_by_operation_and_code),
        cmocka_unit_test(test_every_operation_is_a_label_and_nothing_else_becomes_one),
        cmocka_unit_test(test_a_code_of_every_refusal_is_told_by_its_number),
        cmocka_unit_test(test_durations_fall_into_their_buckets),
        cmocka_unit_test(test_connections_come_and_go),
        cmocka_unit_test(test_writer_queues_and_readers_are_told),
        cmocka_unit_test(test_numbers_of_the_store_are_told),
        cmocka_unit_test(test_the_process_knows_itself),
        cmocka_unit_test(test_a_text_that_does_not_fit_is_a_failed_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
