/* SPDX-License-Identifier: MIT */
/*
 * db_sqlite_look.c: whether a file is a store of ours and whole, before SQLite reads a byte of it.
 *
 * What is foreign, damaged at its head or cut short is refused and stays as it is, without a -wal
 * or -shm beside it.
 *
 *   1. The file is read by SQLite's own descriptor: closing another one of the same file would drop
 *      the POSIX locks of every connection in this process.
 *   2. The data file may be shorter than its header says: a crash in the middle of a checkpoint
 *      leaves the rest in the log. Only a page that is in neither is missing.
 *
 * Damage inside the pages is found when they are read, or by db_check.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "db_sqlite.h"

enum { HEADER_BYTES = 100, WAL_HEADER_BYTES = 32, WAL_FRAME_BYTES = 24 };

struct head {
    int64_t file_bytes, page_bytes, pages;
    bool is_sqlite, is_ours, uses_log;
};

static uint32_t big_endian(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static dibs_status read_head(struct db_conn *c, struct head *out, struct dibs_error *err)
{
    unsigned char raw[HEADER_BYTES] = {0};
    sqlite3_file *file = NULL;
    sqlite3_int64 bytes = 0;
    int rc = sqlite3_file_control(c->sqlite, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (rc == SQLITE_OK)
        rc = file->pMethods->xFileSize(file, &bytes);
    if (rc == SQLITE_OK)
        rc = file->pMethods->xRead(file, raw, HEADER_BYTES, 0);
    if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ)
        return error_set(err, DIBS_STORE_UNAVAILABLE, "cannot read '%s': I/O error", c->shown);
    out->file_bytes = bytes;
    out->page_bytes = raw[16] << 8 | raw[17];
    if (out->page_bytes == 1)
        out->page_bytes = 65536; /* does not fit into its two bytes */
    /* the count of pages is good only if the change counter says so (file format 1.3.7) */
    out->pages = memcmp(raw + 24, raw + 92, 4) == 0 ? big_endian(raw + 28) : 0;
    out->is_sqlite = memcmp(raw, "SQLite format 3", 16) == 0;
    out->uses_log = raw[18] == 2; /* a backup (sqlite_backup) does not */
    out->is_ours = big_endian(raw + 68) == SQLITE_APPLICATION_ID;
    return DIBS_OK;
}

/* Marks in `have` the pages from `first` on that the log holds. */
static void mark_logged(int fd, int64_t page_bytes, int64_t first, int64_t pages, bool *have)
{
    _Static_assert(sizeof(bool) == 1, "is_whole looks for a byte that is false");
    unsigned char head[WAL_HEADER_BYTES] = {0}, frame[WAL_FRAME_BYTES] = {0};
    if (pread(fd, head, sizeof head, 0) != (ssize_t)sizeof head)
        return;
    off_t at = WAL_HEADER_BYTES;
    while (pread(fd, frame, sizeof frame, at) == (ssize_t)sizeof frame &&
           memcmp(frame + 8, head + 16, 8) == 0) { /* salts: frames of this round of the log */
        int64_t page = big_endian(frame);
        if (page >= first && page <= pages)
            have[page - first] = true;
        at += WAL_FRAME_BYTES + page_bytes;
    }
}

/* Whether every page that the header counts is in the file or in the log. */
static dibs_status is_whole(struct db_conn *c, const struct head *h, bool *whole,
                            struct dibs_error *err)
{
    char name[PATH_MAX + 8] = {0};
    int64_t first = h->file_bytes / h->page_bytes + 1; /* first page that the file lacks */
    *whole = first > h->pages;
    if (*whole)
        return DIBS_OK;
    int64_t lacking = h->pages - first + 1, log_bytes = 0;
    if (!sqlite_is_there(c->path, "-wal", &log_bytes) || lacking > log_bytes / h->page_bytes)
        return DIBS_OK;
    bool *have = mem_alloc((size_t)lacking * sizeof *have);
    if (have == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot open '%s': out of memory", c->shown);
    snprintf(name, sizeof name, "%s-wal", c->path);
    int fd = open(name, O_RDONLY | O_CLOEXEC); /* SQLite locks no byte of the log itself */
    if (fd >= 0) {
        mark_logged(fd, h->page_bytes, first, h->pages, have);
        close(fd);
    }
    *whole = memchr(have, false, (size_t)lacking) == NULL;
    mem_free(have);
    return DIBS_OK;
}

static dibs_status judge(struct db_conn *c, struct dibs_error *err)
{
    struct head h = {0};
    bool whole = false;
    dibs_status s = read_head(c, &h, err);
    if (s != DIBS_OK)
        return s;
    if (!h.is_sqlite || !h.is_ours)
        return error_set(err, DIBS_STORE_CORRUPT, "cannot open '%s': it is not a dibs store",
                         c->shown);
    int64_t log_bytes = 0;
    /* SQLite would play the log of the former file into it */
    if (!h.uses_log && sqlite_is_there(c->path, "-wal", &log_bytes) && log_bytes > 0)
        return error_set(err, DIBS_STORE_CORRUPT,
                         "cannot open '%s': it is a backup, and the log of the file before it is "
                         "still there; delete '%s-wal' and '%s-shm'",
                         c->shown, c->shown, c->shown);
    if (h.page_bytes >= 512 && (h.page_bytes & (h.page_bytes - 1)) == 0)
        s = is_whole(c, &h, &whole, err);
    if (s != DIBS_OK || whole)
        return s;
    return error_set(err, DIBS_STORE_CORRUPT,
                     "cannot open '%s': the file is damaged or cut short; it was left as it is, "
                     "restore a backup",
                     c->shown);
}

/* sqlite_look: what looks damaged may be a checkpoint that another process is just doing, so a bad
 * verdict is spoken under the write lock, unless there is no lock file: then nobody ever wrote
 * here, and nothing is left beside a file that is not ours. */
dibs_status sqlite_look(struct db_conn *c, struct dibs_error *err)
{
    int64_t bytes = 0;
    dibs_status verdict = judge(c, err);
    if (verdict != DIBS_OK &&
        (verdict != DIBS_STORE_CORRUPT || !sqlite_is_there(c->path, ".lock", &bytes)))
        return verdict;
    dibs_status s = c->lock.fd >= 0 ? DIBS_OK : write_lock_open(&c->lock, c->path, err);
    if (s != DIBS_OK || verdict == DIBS_OK)
        return s;
    s = write_lock_take(&c->lock, err);
    if (s == DIBS_OK)
        s = judge(c, err);
    write_lock_release(&c->lock);
    return s;
}
