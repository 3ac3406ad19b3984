/* SPDX-License-Identifier: MIT */
/* traced.c: see traced.h. */
#define _GNU_SOURCE
#include "traced.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 32

/* In the child: becomes strace. */
static void become_strace(const char *const *options, const char *const *argv)
{
    const char *all[ARGUMENTS_MAX] = {"strace", "-qq", "-f"};
    size_t n = 3;
    while (*options)
        all[n++] = *options++;
    while (*argv && n < ARGUMENTS_MAX - 1)
        all[n++] = *argv++;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* the leak checker of a sanitizer build is itself a tracer, and there can be only one */
    setenv("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1", 1);
    execvp("strace", (char *const *)all);
    _exit(127);
}

static int run_strace(const char *const *options, const char *const *argv)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        become_strace(options, argv);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return status;
}

bool traced_permitted(void)
{
    const char *const options[] = {"-o", "/dev/null", "-e", "trace=fdatasync", NULL};
    const char *const argv[] = {"true", NULL};
    int status = run_strace(options, argv);
    bool fine = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!fine)
        printf("# strace is missing or may not trace here\n");
    return fine;
}

/* A file for strace to write to; false when there can be none. */
static bool make_log(char path[32])
{
    snprintf(path, 32, "/tmp/dibs-trace-XXXXXX");
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* The number of lines with this text; the last of them is copied to `line`. */
static long find_lines(const char *path, const char *text, char line[512])
{
    char next[512];
    long count = 0;
    FILE *file = fopen(path, "re");
    line[0] = '\0';
    while (file && fgets(next, sizeof next, file)) {
        if (!strstr(next, text))
            continue;
        count++;
        snprintf(line, 512, "%s", next);
    }
    if (file)
        fclose(file);
    return count;
}

enum traced traced_run(const char *inject, const char *const *argv, char hit[512])
{
    char trace[64] = "", injection[128] = "", log[32] = "/dev/null";
    snprintf(trace, sizeof trace, "trace=%.*s", (int)strcspn(inject, ":"), inject);
    snprintf(injection, sizeof injection, "inject=%s", inject);
    if (hit && !make_log(log))
        return TRACED_FAILED;
    const char *const options[] = {"-y", "-o", log, "-e", trace, "-e", injection, NULL};
    int status = run_strace(options, argv);
    if (hit) {
        find_lines(log, "(INJECTED)", hit);
        unlink(log);
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return TRACED_KILLED; /* strace ends as its program did */
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? TRACED_ENDED : TRACED_FAILED;
}

long traced_count(const char *syscall, const char *const *argv)
{
    char trace[64] = "", call[64] = "", log[32] = "", line[512] = "";
    if (!make_log(log))
        return -1;
    snprintf(trace, sizeof trace, "trace=%s", syscall);
    snprintf(call, sizeof call, "%s(", syscall);
    const char *const options[] = {"-o", log, "-e", trace, NULL};
    int status = run_strace(options, argv);
    long count = find_lines(log, call, line);
    unlink(log);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? count : -1;
}
