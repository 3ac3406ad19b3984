/* SPDX-License-Identifier: MIT */
/*
 * db_sqlite_fork.c: what a child must set right before it opens a store of its own.
 *
 * A handle is useless in a forked child, but two things of it live on there and do harm:
 *
 *   1. The lock file. Its locks belong to the open file, which parent and child share: a parent
 *      that dies in a transaction would leave its lock to the child. So the child closes it at
 *      once.
 *   2. SQLite's list of open files. POSIX locks are not inherited, yet the list says that this
 *      process has them, and a connection that the child opens takes them for granted. Without its
 *      shared lock on the data file another program may delete the log under the child's feet;
 *      without the one on the -shm file the next process may cut that file short. So the child
 *      takes both itself, by descriptors that stay open for good: closing one would drop the locks
 *      again.
 *
 * If the parent was in a transaction at the fork, the list claims locks that cannot be made up for;
 * then the child is refused. exec() cures all of this.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db_sqlite.h"

/* Where SQLite keeps its shared locks: in the data file by its file format, in the -shm file by the
 * layout of its unix VFS (the "dead man switch" behind the eight locks of the log). */
enum { SHARED_FIRST = 0x40000002, SHARED_BYTES = 510, SHM_SWITCH = 128 };

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct db_conn *connections; /* all of this process */
static bool inherited, inherited_busy;

static void before_fork(void)
{
    pthread_mutex_lock(&guard);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&guard);
}

static void in_child(void)
{
    for (struct db_conn *c = connections; c != NULL; c = c->next) {
        inherited = true;
        if (c->sqlite != NULL && sqlite3_txn_state(c->sqlite, "main") != SQLITE_TXN_NONE)
            inherited_busy = true;
        if (c->lock.fd >= 0)
            close(c->lock.fd);
        c->lock.fd = -1;
        c->lock.held = false;
    }
    connections = NULL;
    pthread_mutex_unlock(&guard);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

void sqlite_fork_enter(struct db_conn *c)
{
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&guard);
    c->next = connections;
    connections = c;
    pthread_mutex_unlock(&guard);
}

void sqlite_fork_leave(struct db_conn *c)
{
    pthread_mutex_lock(&guard);
    struct db_conn **at = &connections;
    while (*at != NULL && *at != c)
        at = &(*at)->next;
    if (*at == c)
        *at = c->next;
    pthread_mutex_unlock(&guard);
}

/* Files that are held already: a process that opens and closes often needs each only once. */
struct held {
    dev_t device;
    ino_t inode;
    struct held *next;
};
static struct held *held;

static bool is_held(const struct stat *st)
{
    struct held *h = held;
    while (h != NULL && (h->device != st->st_dev || h->inode != st->st_ino))
        h = h->next;
    return h != NULL;
}

static int hold(const char *path, const char *suffix, off_t first, off_t count)
{
    char name[PATH_MAX + 8] = {0};
    struct stat st = {0};
    struct flock f = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = first, .l_len = count};
    snprintf(name, sizeof name, "%s%s", path, suffix);
    if (stat(name, &st) != 0)
        return -1;
    if (is_held(&st))
        return 0;
    struct held *h = mem_alloc(sizeof *h);
    if (h == NULL) {
        errno = ENOMEM;
        return -1;
    }
    *h = (struct held){st.st_dev, st.st_ino, held};
    held = h;
    int fd = open(name, O_RDWR | O_CLOEXEC); /* stays open for good: see above */
    return fd < 0 ? -1 : fcntl(fd, F_SETLK, &f);
}

static int hold_both(const char *path)
{
    pthread_mutex_lock(&guard);
    int rc = hold(path, "", SHARED_FIRST, SHARED_BYTES);
    if (rc == 0)
        rc = hold(path, "-shm", SHM_SWITCH, 1);
    int why = errno;
    pthread_mutex_unlock(&guard);
    errno = why;
    return rc;
}

dibs_status sqlite_fork_mend(struct db_conn *c, struct dibs_error *err)
{
    if (!inherited)
        return DIBS_OK;
    if (inherited_busy)
        return error_set(err, DIBS_FORKED,
                         "cannot open '%s': this process was forked inside a transaction",
                         c->shown);
    /* SQLite makes the -shm file when it first reads; in a new store nobody has read yet */
    int64_t rows = 0;
    dibs_status s = sqlite_ask_int(c, "SELECT count(*) FROM sqlite_master", &rows, err);
    if (s != DIBS_OK)
        return s;
    if (hold_both(c->path) != 0)
        return error_set(err, DIBS_STORE_UNAVAILABLE, "cannot lock '%s' after a fork: %s", c->shown,
                         strerror(errno));
    return DIBS_OK;
}
