/* SPDX-License-Identifier: MIT */
/*
 * write_lock.c: the fair lock around every write and every checkpoint.
 *
 * SQLite's own busy handler polls, so that with eight writers one of them can starve for seconds.
 * Here everybody draws a number and waits for the number before: bytes of a lock file, locked with
 * F_OFD_SETLKW. Byte FIRST_TICKET + n belongs to whoever drew n, from the draw until it is done,
 * and only n + 1 waits for it, so each release wakes exactly the next one.
 *
 *   1. Only the byte ROOM protects; tickets only order. A process that dies loses all its bytes, as
 *      the kernel closes its file; its successor then waits for ROOM itself. A damaged or
 *      unwritable counter costs order and time, never exclusion.
 *   2. The byte ENTRANCE is held for the few microseconds of a draw.
 *   3. The locks belong to the open file, not to the process (OFD): two handles in one process
 *      exclude each other, and closing another descriptor of the file releases nothing.
 *   4. A lock on a file that somebody has deleted protects nothing. So once inside, the file must
 *      still have a name; if it has not, it is opened anew and the turn taken again.
 *   5. The holder's process id is written into the file for people who ask; nothing relies on it.
 */
#define _GNU_SOURCE 1
#include "write_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Lock bytes. Those of the tickets lie far behind the end of the file: a lock needs no data. */
enum { ROOM = 0, ENTRANCE = 1 };
#define FIRST_TICKET ((off_t)1 << 32)
#define TICKET_MAX ((int64_t)1 << 62)

/* Contents: 16 bytes of decimal process id, then the next ticket. */
enum { HOLDER_AT = 0, HOLDER_BYTES = 16, NEXT_TICKET_AT = 16 };

enum { REOPEN_MAX = 100 }; /* somebody deletes the file faster than we can lock it */

static int change(int fd, short type, off_t first, off_t count)
{
    struct flock f = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = count};
    int rc = 0;
    do {
        rc = fcntl(fd, F_OFD_SETLKW, &f);
    } while (rc != 0 && errno == EINTR);
    return rc;
}

static int unlock_all(int fd)
{
    return change(fd, F_UNLCK, 0, 0);
}

static char *lock_path(const char *data_path)
{
    size_t bytes = strlen(data_path) + sizeof ".lock";
    char *path = mem_alloc(bytes);
    if (path != NULL)
        snprintf(path, bytes, "%s.lock", data_path);
    return path;
}

static int open_file(const char *path)
{
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
}

dibs_status write_lock_open(struct write_lock *lock, const char *data_path, struct dibs_error *err)
{
    char *path = lock_path(data_path);
    if (path == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot open '%s': out of memory", data_path);
    int fd = open_file(path);
    if (fd < 0) {
        bool full = errno == ENOSPC || errno == EDQUOT;
        dibs_status s = error_set(err, full ? DIBS_STORE_FULL : DIBS_STORE_UNAVAILABLE,
                                  "cannot open the lock file '%s': %s", path, strerror(errno));
        mem_free(path);
        return s;
    }
    *lock = (struct write_lock){.path = path, .fd = fd};
    return DIBS_OK;
}

void write_lock_close(struct write_lock *lock)
{
    if (lock->fd >= 0)
        close(lock->fd); /* closing the open file releases its locks */
    mem_free(lock->path);
    *lock = (struct write_lock){.fd = -1};
}

/* draw_ticket: the next number. Its byte is locked before the counter moves on, so the one who
 * draws after us finds it taken. A counter that cannot be written (full disk) makes the next caller
 * draw the same number and wait inside the entrance: out of order, still one at a time. */
static int draw_ticket(int fd, int64_t *ticket)
{
    int64_t next = 0;
    if (change(fd, F_WRLCK, ENTRANCE, 1) != 0)
        return -1;
    ssize_t got = pread(fd, &next, sizeof next, NEXT_TICKET_AT);
    if (got != (ssize_t)sizeof next || next < 0 || next >= TICKET_MAX)
        next = 0;
    if (change(fd, F_WRLCK, FIRST_TICKET + next, 1) != 0)
        return -1;
    *ticket = next++;
    ssize_t written = pwrite(fd, &next, sizeof next, NEXT_TICKET_AT);
    (void)written;
    return change(fd, F_UNLCK, ENTRANCE, 1);
}

static int take_turn(int fd)
{
    int64_t ticket = 0;
    if (draw_ticket(fd, &ticket) == 0 && change(fd, F_WRLCK, FIRST_TICKET + ticket - 1, 1) == 0 &&
        change(fd, F_WRLCK, ROOM, 1) == 0)
        return 0;
    int why = errno;
    unlock_all(fd);
    errno = why;
    return -1;
}

static bool still_has_a_name(int fd)
{
    struct stat st = {0};
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

static void write_holder(int fd)
{
    char text[HOLDER_BYTES + 1] = {0};
    snprintf(text, sizeof text, "%-*lld", HOLDER_BYTES, (long long)getpid());
    ssize_t written = pwrite(fd, text, HOLDER_BYTES, HOLDER_AT); /* see invariant 5 */
    (void)written;
}

dibs_status write_lock_take(struct write_lock *lock, struct dibs_error *err)
{
    for (int i = 0; i < REOPEN_MAX; i++) {
        if (lock->fd < 0)
            lock->fd = open_file(lock->path);
        if (lock->fd < 0 || take_turn(lock->fd) != 0)
            return error_set(err, DIBS_STORE_UNAVAILABLE, "cannot lock '%s': %s", lock->path,
                             strerror(errno));
        if (still_has_a_name(lock->fd)) {
            lock->held = true;
            write_holder(lock->fd);
            return DIBS_OK;
        }
        close(lock->fd);
        lock->fd = -1;
    }
    return error_set(err, DIBS_STORE_UNAVAILABLE, "cannot lock '%s': the file keeps being deleted",
                     lock->path);
}

void write_lock_release(struct write_lock *lock)
{
    if (!lock->held)
        return;
    lock->held = false;
    if (unlock_all(lock->fd) != 0) {
        /* cannot be; but a lock that stays would stop everybody, and closing always releases */
        close(lock->fd);
        lock->fd = -1;
    }
}

static int64_t holder_of(int fd)
{
    struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = ROOM, .l_len = 1};
    if (fcntl(fd, F_OFD_GETLK, &f) != 0)
        return -1;
    if (f.l_type == F_UNLCK)
        return 0;
    char text[HOLDER_BYTES + 1] = {0};
    return pread(fd, text, HOLDER_BYTES, HOLDER_AT) > 0 ? strtoll(text, NULL, 10) : -1;
}

int64_t write_lock_holder(const char *data_path)
{
    char *path = lock_path(data_path);
    if (path == NULL)
        return -1;
    int64_t holder = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) {
        holder = holder_of(fd);
        close(fd);
    } else if (errno == ENOENT) {
        holder = 0;
    }
    mem_free(path);
    return holder;
}
