/* SPDX-License-Identifier: MIT */
/*
 * spawn.c: from a list of words to a running process.
 *
 *     0  a file in memory with all that the command is told: nobody has to write while it reads
 *     1  2  3   pipes that the loop reads
 *
 *   1. The command leads a session and a process group of its own, so that it can be ended with all
 *      that it has started, and no Ctrl-C of our terminal reaches it.
 *   2. It inherits no other descriptor, no blocked and no ignored signal.
 *   3. It dies with us: the kernel kills it when the thread that started it ends, which is the
 *      loop's; its group is known to the keeper before anything of it can run.
 *   4. Between vfork and exec only what is safe in the child of a process with threads, and in its
 *      memory: nothing is copied, our thread waits meanwhile, as it would anyway for this:
 *   5. Whether exec succeeded is known when this returns.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner_private.h"

#define FIRST_HIGH_FD 10

int spawn_move_up(int fd)
{
    int high = fd < 0 || fd >= FIRST_HIGH_FD ? fd : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_HIGH_FD);

    if (high != fd)
        close(fd);
    return high;
}

/* pipe_up: a pipe whose ends have high numbers. */
static bool pipe_up(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    ends[0] = spawn_move_up(ends[0]);
    ends[1] = spawn_move_up(ends[1]);
    return ends[0] >= 0 && ends[1] >= 0;
}

/* input_file: a file in memory, read from its beginning; -1: errno says why. */
static int input_file(const char *bytes, size_t count)
{
    int fd = spawn_move_up(memfd_create("dibs-input", MFD_CLOEXEC));
    size_t done = 0;
    ssize_t wrote = 0;

    while (fd >= 0 && done < count) {
        wrote = write(fd, bytes + done, count - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            close(fd);
            return -1;
        }
        done += (size_t)wrote;
    }
    if (fd >= 0)
        lseek(fd, 0, SEEK_SET);
    return fd;
}

/* All that is open between the beginning and the end of spawn(). */
struct ends {
    int input, why[2], streams[STREAMS][2];
};

static void close_ends(struct ends *e, bool ours_too)
{
    close(e->input);
    for (int i = 0; i < 2; i++)
        close(e->why[i]);
    for (int i = 0; i < STREAMS; i++) {
        close(e->streams[i][1]);
        if (ours_too)
            close(e->streams[i][0]);
    }
}

static bool open_ends(const struct spawn *s, struct ends *e)
{
    bool ok = true;

    *e = (struct ends){-1, {-1, -1}, {{-1, -1}, {-1, -1}, {-1, -1}}};
    e->input = input_file(s->input, s->input_bytes);
    ok = e->input >= 0 && pipe_up(e->why);
    for (int i = 0; i < STREAMS && ok; i++)
        ok = pipe_up(e->streams[i]);
    return ok;
}

void spawn_default_signals(void)
{
    sigset_t none;

    /* a keeper that is gone has left one pending, which must not end the command */
    signal(SIGPIPE, SIG_IGN);
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL); /* refused for a few, which nobody can change */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become(const struct spawn *s, const struct ends *e, pid_t parent)
{
    int why = 0;
    ssize_t told = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(128 + SIGKILL);
    setsid();
    keeper_add(s->keeper_fd, getpid());
    if (dup2(e->input, STDIN_FILENO) == STDIN_FILENO &&
        dup2(e->streams[STREAM_OUT][1], STDOUT_FILENO) == STDOUT_FILENO &&
        dup2(e->streams[STREAM_ERR][1], STDERR_FILENO) == STDERR_FILENO &&
        dup2(e->streams[STREAM_PROGRESS][1], 3) == 3) {
        close_range(4, ~0U, CLOSE_RANGE_CLOEXEC);
        spawn_default_signals();
        execvpe(s->argv[0], s->argv, s->envp);
    }
    why = errno;
    told = write(e->why[1], &why, sizeof why);
    (void)told;
    _exit(127);
}

/* exec_failure: 0 once the child has become the command, else why it has not. */
static int exec_failure(int fd)
{
    int why = 0;
    ssize_t got = 0;

    do
        got = read(fd, &why, sizeof why);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof why ? why : 0;
}

int spawn(struct spawn *s)
{
    struct ends e;
    sigset_t all, before;
    pid_t self = getpid();
    int why = 0;

    if (!open_ends(s, &e)) {
        why = errno;
        close_ends(&e, true);
        return why;
    }
    /* no handler of ours may run in the child */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    s->pid = vfork();
    if (s->pid == 0)
        become(s, &e, self);
    why = s->pid < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(e.why[1]);
    e.why[1] = -1;
    if (why == 0) {
        why = exec_failure(e.why[0]);
        if (why != 0)
            while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
                ;
    }
    close_ends(&e, why != 0);
    for (int i = 0; i < STREAMS; i++)
        s->streams[i] = why == 0 ? e.streams[i][0] : -1;
    return why;
}
