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

enum traced traced_run(const char *inject, const char *const *argv)
{
    char trace[64] = "", injection[128] = "";
    snprintf(trace, sizeof trace, "trace=%.*s", (int)strcspn(inject, ":"), inject);
    snprintf(injection, sizeof injection, "inject=%s", inject);
    const char *const options[] = {"-o", "/dev/null", "-e", trace, "-e", injection, NULL};
    int status = run_strace(options, argv);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return TRACED_KILLED; /* strace ends as its program did */
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? TRACED_ENDED : TRACED_FAILED;
}

static long count_lines(const char *path, const char *syscall)
{
    char line[512];
    long count = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    while (fgets(line, sizeof line, file)) {
        const char *found = strstr(line, syscall);
        count += found && found[strlen(syscall)] == '(';
    }
    fclose(file);
    return count;
}

long traced_count(const char *syscall, const char *const *argv)
{
    char trace[64] = "", path[] = "/tmp/dibs-trace-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return -1;
    close(fd);
    snprintf(trace, sizeof trace, "trace=%s", syscall);
    const char *const options[] = {"-o", path, "-e", trace, NULL};
    int status = run_strace(options, argv);
    long count = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? count_lines(path, syscall) : -1;
    unlink(path);
    return count;
}
