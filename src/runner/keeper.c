/* SPDX-License-Identifier: MIT */
/*
 * keeper.c: a small process that ends what a killed runner leaves behind.
 *
 * The kernel kills a command when its runner dies (PR_SET_PDEATHSIG), but not what the command has
 * started. The keeper knows the process groups of all commands that run: each command writes its
 * own into a pipe before it becomes itself, the runner takes it out when the group is gone. When
 * the pipe has no writer any more, the runner is dead, and the keeper kills what is on its list.
 *
 *   1. It may be forked while there are threads and an open store: it touches neither, and does
 *      only what is safe in a signal handler.
 *   2. It is in a session of its own: no signal that is meant for the runner reaches it.
 *   3. Without a keeper all still works, except that one thing. One that was killed is replaced
 *      (runner.c), and told of the groups that are there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner_private.h"

/* A note in the pipe, written and read as one: the group, negative when it is to be forgotten. */
typedef int64_t note;

static void learn(pid_t *groups, size_t *count, note n)
{
    pid_t group = (pid_t)(n < 0 ? -n : n);

    if (n > 0 && *count < RUNNER_MAX_TASKS)
        groups[(*count)++] = group;
    for (size_t i = 0; n < 0 && i < *count; i++)
        if (groups[i] == group) {
            groups[i] = groups[--(*count)];
            return;
        }
}

static _Noreturn void keep(int fd)
{
    static pid_t groups[RUNNER_MAX_TASKS];
    size_t count = 0;
    note n = 0;
    ssize_t got = 0;

    for (;;) {
        got = read(fd, &n, sizeof n);
        if (got == (ssize_t)sizeof n)
            learn(groups, &count, n);
        else if (got >= 0 || errno != EINTR)
            break;
    }
    for (size_t i = 0; i < count; i++)
        kill(-groups[i], SIGKILL);
    _exit(0);
}

static _Noreturn void become_keeper(int fd)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

    setsid();
    prctl(PR_SET_NAME, "dibs-keeper");
    spawn_default_signals();
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    /* nobody shall wait for the end of a stream because of us */
    for (int i = 0; i <= 2 && nowhere >= 0; i++)
        dup2(nowhere, i);
    fd = dup2(fd, 3);
    close_range(4, ~0U, 0);
    keep(fd);
}

bool keeper_start(struct keeper *k)
{
    int ends[2] = {-1, -1};
    sigset_t all, before;

    *k = (struct keeper){.fd = -1};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    /* no handler of ours may run in the child */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    k->pid = fork();
    if (k->pid == 0) {
        close(ends[1]);
        become_keeper(ends[0]);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[0]);
    if (k->pid < 0) {
        close(ends[1]);
        k->pid = 0;
        return false;
    }
    k->fd = spawn_move_up(ends[1]);
    return k->fd >= 0;
}

bool keeper_add(int fd, pid_t group)
{
    note n = group;

    return fd < 0 || write(fd, &n, sizeof n) == (ssize_t)sizeof n;
}

void keeper_forget(const struct keeper *k, pid_t group)
{
    note n = -(note)group;
    ssize_t told = k->fd >= 0 ? write(k->fd, &n, sizeof n) : 0;

    (void)told; /* a keeper that was killed keeps nothing */
}

void keeper_end(struct keeper *k)
{
    if (k->fd >= 0)
        close(k->fd);
    if (k->pid > 0)
        while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    *k = (struct keeper){.fd = -1};
}
