/* SPDX-License-Identifier: MIT */
/*
 * platform.c: tests of src/base/platform.c on the machine they run on: clocks go forward, processes
 * are told apart, and "dead" is only said of the dead.
 */
#include "base/base.h"
#include "base/str.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const struct dibs_platform *p; /* the machine */

static enum dibs_process state_of(int64_t pid, const char *start)
{
    return p->process_state(p->context, pid, start);
}

/* child_new: a process that stays until it is told to end; *tell is the pipe whose closing ends
 * it. */
static pid_t child_new(int *tell, const char *name)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char c = 0;
        close(ends[1]);
        if (name != NULL)
            prctl(PR_SET_NAME, name);
        while (read(ends[0], &c, 1) < 0 && errno == EINTR)
            continue;
        _exit(0);
    }
    close(ends[0]);
    *tell = ends[1];
    return child;
}

/* wait_for_zombie: returns when the child has ended, without reaping it. */
static void wait_for_zombie(pid_t child)
{
    siginfo_t info = {0};
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
}

static void test_clocks_go_forward_and_wall_time_is_this_century(void **state)
{
    (void)state;
    int64_t wall = p->wall_ms(p->context), steady = p->steady_ms(p->context);
    assert_true(wall > INT64_C(1577836800000)); /* 2020 */
    assert_true(wall < INT64_C(4102444800000)); /* 2100 */
    for (int i = 0; i < 1000; i++) {
        int64_t now = p->steady_ms(p->context);
        assert_true(now >= steady);
        steady = now;
    }
}

static void interrupt(int signal_number)
{
    (void)signal_number;
}

static void test_a_pause_lasts_its_time_although_signals_arrive(void **state)
{
    (void)state;
    struct sigaction act = {.sa_handler = interrupt}, old;
    assert_int_equal(sigaction(SIGALRM, &act, &old), 0);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    struct itimerspec often = {.it_interval.tv_nsec = 5000000, .it_value.tv_nsec = 5000000};
    assert_int_equal(timer_settime(timer, 0, &often, NULL), 0);
    int64_t before = p->steady_ms(p->context);
    p->sleep_ms(p->context, 60);
    int64_t passed = p->steady_ms(p->context) - before;
    timer_delete(timer);
    sigaction(SIGALRM, &old, NULL);
    assert_in_range(passed, 59, 20000); /* whole milliseconds are cut off at both ends */
    before = p->steady_ms(p->context);
    p->sleep_ms(p->context, 0);
    p->sleep_ms(p->context, -1000);
    assert_in_range(p->steady_ms(p->context) - before, 0, 20000);
}

static void test_chance_fills_all_the_bytes(void **state)
{
    (void)state;
    unsigned char first[1000], second[1000];
    int zeroes = 0;
    memset(first, 0, sizeof first);
    p->random(p->context, first, sizeof first);
    p->random(p->context, second, sizeof second);
    assert_memory_not_equal(first, second, sizeof first);
    for (size_t i = 0; i < sizeof first; i++)
        zeroes += first[i] == 0;
    assert_in_range(zeroes, 0, 50); /* 4 are to be expected */
}

static void test_host_and_boot_have_names_that_stay(void **state)
{
    (void)state;
    char host[129], same[129], boot[64], again[64];
    p->host(p->context, host);
    p->host(p->context, same);
    assert_true(host[0] != '\0');
    assert_string_equal(host, same);
    p->boot_id(p->context, boot);
    p->boot_id(p->context, again);
    assert_in_range(strlen(boot), 7, 63);
    assert_null(strchr(boot, '\n'));
    assert_string_equal(boot, again);
}

static void test_this_process_is_alive_and_known_by_its_start(void **state)
{
    (void)state;
    char start[64], again[64], boot[64];
    assert_true(p->process_start(p->context, getpid(), start));
    assert_true(p->process_start(p->context, getpid(), again));
    assert_string_equal(start, again);
    p->boot_id(p->context, boot);
    assert_memory_equal(start, boot, 7);
    assert_non_null(strchr(start, ':'));
    assert_int_equal(state_of(getpid(), start), DIBS_PROCESS_ALIVE);
    assert_int_equal(state_of(getpid(), NULL), DIBS_PROCESS_ALIVE);
    assert_int_equal(state_of(getpid(), ""), DIBS_PROCESS_ALIVE);
}

static void test_a_pid_used_again_is_another_process(void **state)
{
    (void)state;
    char start[64];
    assert_int_equal(state_of(getpid(), "00000000:1"), DIBS_PROCESS_DEAD);
    assert_true(p->process_start(p->context, getpid(), start));
    start[0] = start[0] == 'x' ? 'y' : 'x'; /* another boot */
    assert_int_equal(state_of(getpid(), start), DIBS_PROCESS_DEAD);
}

static void test_a_child_is_alive_until_it_ends_and_dead_before_it_is_reaped(void **state)
{
    (void)state;
    char start[64], unused[64] = "as before";
    int tell = -1;
    pid_t child = child_new(&tell, NULL);
    assert_true(p->process_start(p->context, child, start));
    assert_int_equal(state_of(child, start), DIBS_PROCESS_ALIVE);
    close(tell);
    wait_for_zombie(child);
    assert_int_equal(kill(child, 0), 0); /* the kernel still counts it */
    assert_int_equal(state_of(child, start), DIBS_PROCESS_DEAD);
    assert_int_equal(state_of(child, NULL), DIBS_PROCESS_DEAD);
    assert_false(p->process_start(p->context, child, unused));
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(state_of(child, start), DIBS_PROCESS_DEAD);
    assert_int_equal(state_of(child, NULL), DIBS_PROCESS_DEAD);
    assert_false(p->process_start(p->context, child, unused));
    assert_string_equal(unused, "as before");
}

static void test_a_command_name_cannot_forge_the_start(void **state)
{
    (void)state;
    const char *const names[] = {"a) Z 1 1", ") X (", "((((", "x y z", ") R 0 0 0 0 0"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char plain[64], named[64], path[64], seen[32] = "";
        int tell = -1;
        pid_t child = child_new(&tell, names[i]);
        assert_true(p->process_start(p->context, child, plain));
        snprintf(path, sizeof path, "/proc/%d/comm", (int)child);
        int64_t deadline = p->steady_ms(p->context) + 20000;
        while (!str_starts(seen, names[i]) && p->steady_ms(p->context) < deadline) {
            FILE *f = fopen(path, "r");
            assert_non_null(f);
            assert_non_null(fgets(seen, sizeof seen, f));
            fclose(f);
        }
        assert_true(str_starts(seen, names[i])); /* the child has its name */
        assert_true(p->process_start(p->context, child, named));
        assert_string_equal(named, plain);
        assert_int_equal(state_of(child, plain), DIBS_PROCESS_ALIVE);
        close(tell);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
}

static void *stay(void *argument)
{
    char c = 0;
    while (read(*(int *)argument, &c, 1) < 0 && errno == EINTR)
        continue;
    _exit(0);
}

/* is_zombie: whether /proc calls the (main thread of the) process a zombie. */
static bool is_zombie(pid_t pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return false;
    size_t got = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    const char *state = strrchr(text, ')');
    return got > 0 && state != NULL && str_starts(state, ") Z");
}

static void test_a_process_whose_main_thread_has_ended_is_alive(void **state)
{
    (void)state;
    char start[64];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static int end; /* not on the stack: the main thread's is about to go */
        pthread_t thread;
        close(ends[1]);
        end = ends[0];
        if (pthread_create(&thread, NULL, stay, &end) != 0)
            _exit(1);
        pthread_exit(NULL);
    }
    close(ends[0]);
    int64_t deadline = p->steady_ms(p->context) + 20000;
    while (!is_zombie(child) && p->steady_ms(p->context) < deadline)
        continue;
    assert_true(is_zombie(child));
    assert_true(p->process_start(p->context, child, start));
    assert_int_equal(state_of(child, start), DIBS_PROCESS_ALIVE);
    close(ends[1]);
    wait_for_zombie(child);
    assert_int_equal(state_of(child, start), DIBS_PROCESS_DEAD);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_no_permission_to_signal_means_alive(void **state)
{
    (void)state;
    char start[64];
    int status = 0;
    assert_true(p->process_start(p->context, 1, start));
    assert_int_equal(state_of(1, start), DIBS_PROCESS_ALIVE);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* as nobody, who may not signal process 1 */
        if (geteuid() == 0 && setuid(65534) != 0)
            _exit(10);
        if (kill(1, 0) == 0)
            _exit(77); /* process 1 is our own, in a container: there is nothing to see */
        if (errno != EPERM)
            _exit(11);
        if (state_of(1, start) != DIBS_PROCESS_ALIVE || state_of(1, NULL) != DIBS_PROCESS_ALIVE)
            _exit(12);
        if (state_of(1, "00000000:0") != DIBS_PROCESS_DEAD)
            _exit(13);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_what_is_no_pid_is_unknown(void **state)
{
    (void)state;
    char start[64];
    const int64_t pids[] = {0, -1, INT64_MIN, (int64_t)1 << 40};
    for (size_t i = 0; i < COUNT_OF(pids); i++) {
        assert_int_equal(state_of(pids[i], "x:1"), DIBS_PROCESS_UNKNOWN);
        assert_false(p->process_start(p->context, pids[i], start));
    }
}

static void test_a_path_that_is_yet_to_be_made_is_judged_by_its_parent(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    char folder[512], path[600];
    snprintf(folder, sizeof folder, "%s/dibs-platform-XXXXXX", tmp != NULL ? tmp : "/tmp");
    assert_non_null(mkdtemp(folder));
    const char *expected = p->network_fs(p->context, folder);
    const char *const below[] = {"", "/", "/x", "/x/", "/x/y//z", "//x"};
    for (size_t i = 0; i < COUNT_OF(below); i++) {
        snprintf(path, sizeof path, "%s%s", folder, below[i]);
        assert_true(str_eq(p->network_fs(p->context, path), expected));
    }
    rmdir(folder);
    const char *here = p->network_fs(p->context, ".");
    assert_true(str_eq(p->network_fs(p->context, "no-such-folder-here"), here));
    assert_true(str_eq(p->network_fs(p->context, "no-such/folder/here/"), here));
    assert_true(
        str_eq(p->network_fs(p->context, "/no-such-folder"), p->network_fs(p->context, "/")));
    assert_null(p->network_fs(p->context, "/proc")); /* local wherever the tests run */
    assert_null(p->network_fs(p->context, "/proc/no-such-file"));
    assert_null(p->network_fs(p->context, ""));
    assert_null(p->network_fs(p->context, NULL));
}

static void test_a_pid_of_another_container_tells_nothing(void **state)
{
    (void)state;
    char start[64], elsewhere[80];
    assert_true(p->process_start(p->context, getpid(), start));
    char *pids = strrchr(start, ':');
    assert_ptr_not_equal(pids, strchr(start, ':')); /* boot:ticks:pids */
    *pids = '\0';
    snprintf(elsewhere, sizeof elsewhere, "%s:1", start);
    assert_int_equal(state_of(getpid(), elsewhere), DIBS_PROCESS_UNKNOWN);
}

int main(void)
{
    p = dibs_platform_real();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clocks_go_forward_and_wall_time_is_this_century),
        cmocka_unit_test(test_a_pause_lasts_its_time_although_signals_arrive),
        cmocka_unit_test(test_chance_fills_all_the_bytes),
        cmocka_unit_test(test_host_and_boot_have_names_that_stay),
        cmocka_unit_test(test_this_process_is_alive_and_known_by_its_start),
        cmocka_unit_test(test_a_pid_used_again_is_another_process),
        cmocka_unit_test(test_a_child_is_alive_until_it_ends_and_dead_before_it_is_reaped),
        cmocka_unit_test(test_a_command_name_cannot_forge_the_start),
        cmocka_unit_test(test_a_process_whose_main_thread_has_ended_is_alive),
        cmocka_unit_test(test_no_permission_to_signal_means_alive),
        cmocka_unit_test(test_what_is_no_pid_is_unknown),
        cmocka_unit_test(test_a_path_that_is_yet_to_be_made_is_judged_by_its_parent),
        cmocka_unit_test(test_a_pid_of_another_container_tells_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
