/* SPDX-License-Identifier: MIT */
/*
 * log.c: tests of src/base/log.c: what is logged, in one line, and that nobody can forge another.
 */
#include "base/log.h"
#include "base/str.h"
#include "base/timefmt.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char last[4096];
static enum log_level last_level;
static atomic_int lines;

static void keep(enum log_level level, const char *line)
{
    str_fit(last, sizeof last, line);
    last_level = level;
    lines++;
}

static void count(enum log_level level, const char *line)
{
    (void)level;
    (void)line;
    lines++;
}

static int set_up(void **state)
{
    (void)state;
    lines = 0;
    last[0] = '\0';
    log_set_sink(keep);
    log_set_level(LOG_WARN);
    return 0;
}

/* message: what stands behind time and level in the last line. */
static const char *message(void)
{
    const char *space = strchr(last, ' ');
    assert_non_null(space);
    space = strchr(space + 1, ' ');
    assert_non_null(space);
    return space + 1;
}

static void test_a_line_has_time_level_and_message(void **state)
{
    (void)state;
    int64_t ms = 0;
    char when[TIME_TEXT_BYTES];
    log_line(LOG_WARN, "cannot checkpoint '%s': %d", "x.db", 5);
    assert_int_equal(last_level, LOG_WARN);
    assert_string_equal(message(), "cannot checkpoint 'x.db': 5");
    str_fit(when, 25, last);
    assert_true(time_from_text(when, &ms));
    assert_true(str_starts(last + 24, " warn "));
}

static void test_only_lines_of_the_level_or_worse_are_written(void **state)
{
    (void)state;
    for (int least = LOG_DEBUG; least <= LOG_OFF; least++) {
        log_set_level((enum log_level)least);
        for (int level = LOG_DEBUG; level < LOG_OFF; level++) {
            lines = 0;
            log_line((enum log_level)level, "x");
            assert_int_equal(lines, level >= least);
        }
        lines = 0;
        log_line(LOG_OFF, "x"); /* is no level to log at */
        assert_int_equal(lines, 0);
    }
}

static void test_one_call_is_one_line_whatever_it_says(void **state)
{
    (void)state;
    log_line(LOG_ERROR, "%s", "a\nb\tc\rd\x1b[31m\x7f\xFF\xC2\x9Bx Gr\xC3\xBCn \xE2\x82\xAC");
    assert_string_equal(message(), "a\\nb\\tc\\x0dd\\x1b[31m\\x7f\\xff\\xc2\\x9bx "
                                   "Gr\xC3\xBCn \xE2\x82\xAC");
}

static void test_a_long_message_is_cut(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    log_line(LOG_ERROR, "%s", text);
    assert_in_range(strlen(last), 1900, 2047);
    memset(text, '\n', sizeof text - 1);
    log_line(LOG_ERROR, "%s", text);
    assert_in_range(strlen(last), 1900, 2047);
    assert_null(strchr(last, '\n'));
    assert_int_equal(lines, 2);
}

static void test_logging_leaves_errno_alone(void **state)
{
    (void)state;
    log_set_sink(NULL);
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    close(STDERR_FILENO);
    errno = ENOSPC;
    log_line(LOG_ERROR, "nobody hears this");
    int after = errno;
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_int_equal(after, ENOSPC);
}

/* stderr_of_child: what a fresh process with DIBS_LOG=level writes when it logs at every level. */
static void stderr_of_child(const char *level, char *out, size_t out_bytes)
{
    int ends[2];
    size_t length = 0;
    ssize_t got = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv("DIBS_LOG", level, 1);
        execl("/proc/self/exe", "log", "say", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    while ((got = read(ends[0], out + length, out_bytes - 1 - length)) > 0)
        length += (size_t)got;
    close(ends[0]);
    out[length] = '\0';
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* say: the other half of stderr_of_child. */
static int say(void)
{
    for (int level = LOG_DEBUG; level < LOG_OFF; level++)
        log_line((enum log_level)level, "said %d", level);
    return 0;
}

static void test_the_environment_sets_the_level_and_stderr_gets_the_lines(void **state)
{
    (void)state;
    static const struct {
        const char *level;
        int lines;
    } cases[] = {{"debug", 4}, {"info", 3},     {"WARN", 2}, {"error", 1},
                 {"off", 0},   {"nonsense", 2}, {"", 2}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[1024];
        int ends = 0;
        stderr_of_child(cases[i].level, text, sizeof text);
        for (const char *c = text; *c != '\0'; c++)
            ends += *c == '\n';
        assert_int_equal(ends, cases[i].lines);
        assert_int_equal(strstr(text, " error said 3\n") != NULL, cases[i].lines > 0);
    }
}

static void *log_much(void *argument)
{
    (void)argument;
    for (int i = 0; i < 1000; i++)
        log_line(LOG_ERROR, "line %d", i);
    return NULL;
}

static void test_threads_may_log_while_another_changes_the_level(void **state)
{
    (void)state;
    pthread_t threads[4];
    log_set_sink(count);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_much, NULL), 0);
    for (int i = 0; i < 1000; i++)
        log_set_level(i % 2 == 0 ? LOG_DEBUG : LOG_ERROR);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(lines, 4000);
}

int main(int argc, char **argv)
{
    if (argc > 1 && str_eq(argv[1], "say"))
        return say();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_line_has_time_level_and_message, set_up),
        cmocka_unit_test_setup(test_only_lines_of_the_level_or_worse_are_written, set_up),
        cmocka_unit_test_setup(test_one_call_is_one_line_whatever_it_says, set_up),
        cmocka_unit_test_setup(test_a_long_message_is_cut, set_up),
        cmocka_unit_test_setup(test_logging_leaves_errno_alone, set_up),
        cmocka_unit_test_setup(test_the_environment_sets_the_level_and_stderr_gets_the_lines,
                               set_up),
        cmocka_unit_test_setup(test_threads_may_log_while_another_changes_the_level, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
