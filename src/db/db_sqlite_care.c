/* SPDX-License-Identifier: MIT */
/*
 * db_sqlite_care.c: checkpoints, backups and questions about a SQLite store.
 *
 * A checkpoint moves the pages of the write-ahead log into the data file. SQLite would do it inside
 * any commit and on the last close; here it happens only in sqlite_checkpoint_if_due, right after a
 * commit, while the write lock is still held, little and often. The log is then used again from its
 * beginning: a flush that overwrites is faster than one that lets a file grow, so it is not cut off
 * unless long readers have made it huge.
 *
 * A backup is written under another name, flushed, then renamed: a file that bears the name asked
 * for is whole.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "db_sqlite.h"

/* ---- checkpoints ----------------------------------------------------------------------------- */

int sqlite_count_wal_pages(void *conn, sqlite3 *sqlite, const char *name, int pages)
{
    (void)sqlite, (void)name;
    struct db_conn *c = conn;
    if (pages < c->wal_pages)
        c->checkpoint_pages = WAL_CHECKPOINT_PAGES; /* somebody else has emptied the log */
    c->wal_pages = pages;
    c->commits++;
    return SQLITE_OK;
}

static dibs_status checkpoint(struct db_conn *c, struct dibs_error *err)
{
    int in_log = 0, moved = 0;
    int rc =
        sqlite3_wal_checkpoint_v2(c->sqlite, "main", SQLITE_CHECKPOINT_PASSIVE, &in_log, &moved);
    if (rc == SQLITE_OK && in_log >= WAL_TRUNCATE_PAGES) {
        sqlite3_busy_timeout(c->sqlite, 0); /* everybody else waits for us: readers or nothing */
        rc = sqlite3_wal_checkpoint_v2(c->sqlite, "main", SQLITE_CHECKPOINT_TRUNCATE, &in_log,
                                       &moved);
        sqlite3_busy_timeout(c->sqlite, BUSY_TIMEOUT_MS);
    }
    /* readers hold some pages back: not again at every commit, only when as much has been added */
    bool all_moved = rc == SQLITE_OK && moved >= in_log;
    c->checkpoint_pages = (all_moved ? 0 : c->wal_pages) + WAL_CHECKPOINT_PAGES;
    if (rc == SQLITE_OK || (rc & 0xff) == SQLITE_BUSY)
        return DIBS_OK;
    if (rc == SQLITE_IOERR_FSYNC)
        return sqlite_failed(c, rc, err);
    log_line(LOG_WARN, "cannot checkpoint '%s': %s", c->shown, sqlite3_errmsg(c->sqlite));
    return DIBS_OK;
}

dibs_status sqlite_checkpoint_if_due(struct db_conn *c, struct dibs_error *err)
{
    if (c->wal_pages < c->checkpoint_pages)
        return DIBS_OK;
    if (!sqlite_sync_pause(c))
        return sqlite_failed(c, SQLITE_IOERR_FSYNC, err);
    dibs_status s = checkpoint(c, err);
    sqlite_sync_resume(c);
    return s;
}

/* ---- backup ---------------------------------------------------------------------------------- */

static dibs_status no_copy(const char *path, int why, struct dibs_error *err)
{
    bool full = why == ENOSPC || why == EDQUOT;
    return error_set(err, full ? DIBS_STORE_FULL : DIBS_STORE_UNAVAILABLE,
                     "cannot back up to '%s': %s", path, strerror(why));
}

static dibs_status copy_failed(sqlite3 *to, const char *path, int rc, struct dibs_error *err)
{
    if ((rc & 0xff) == SQLITE_FULL)
        return no_copy(path, ENOSPC, err);
    if ((rc & 0xff) == SQLITE_CORRUPT)
        return error_set(err, DIBS_STORE_CORRUPT, "cannot back up: the data file is damaged");
    return error_set(err, DIBS_STORE_UNAVAILABLE, "cannot back up to '%s': %s", path,
                     to != NULL ? sqlite3_errmsg(to) : sqlite3_errstr(rc));
}

/* copy: all pages as of one instant, in one read transaction; writers go on meanwhile. The end of
 * the copy flushes it. */
static dibs_status copy(struct db_conn *c, const char *draft, const char *path, const char *mark,
                        struct dibs_error *err)
{
    sqlite3 *to = NULL;
    int rc = sqlite3_open_v2(
        draft, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(to, "PRAGMA journal_mode = OFF; PRAGMA synchronous = FULL", NULL, NULL,
                          NULL);
    if (rc == SQLITE_OK) {
        sqlite3_backup *b = sqlite3_backup_init(to, "main", c->sqlite, "main");
        rc = b != NULL ? sqlite3_backup_step(b, -1) : sqlite3_extended_errcode(to);
        int finished = b != NULL ? sqlite3_backup_finish(b) : SQLITE_OK;
        rc = rc == SQLITE_DONE ? finished : rc;
    }
    /* the copy has taken over the mode of the original, whose log would stay behind */
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(to, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(to, mark, NULL, NULL, NULL);
    dibs_status s = rc == SQLITE_OK ? DIBS_OK : copy_failed(to, path, rc, err);
    sqlite3_close(to);
    return s;
}

dibs_status sqlite_backup(struct db_conn *c, const char *path, const char *mark,
                          struct dibs_error *err)
{
    char draft[PATH_MAX] = {0};
    struct stat st = {0};
    if (lstat(path, &st) == 0)
        return error_set(err, DIBS_INVALID_REQUEST,
                         "cannot back up to '%s': there is already a file", path);
    int n = snprintf(draft, sizeof draft, "%s.part", path);
    if (n < 0 || n >= PATH_MAX)
        return no_copy(path, ENAMETOOLONG, err);
    if (mknod(draft, S_IFREG | 0600, 0) != 0)
        return errno == EEXIST
                   ? error_set(err, DIBS_INVALID_REQUEST,
                               "cannot back up to '%s': '%s' is in the way: another backup is "
                               "running, or was interrupted and can be deleted",
                               path, draft)
                   : no_copy(path, errno, err);
    dibs_status s = copy(c, draft, path, mark, err);
    if (s == DIBS_OK && (renameat2(AT_FDCWD, draft, AT_FDCWD, path, RENAME_NOREPLACE) != 0 ||
                         sqlite_sync_folder_of(path) != 0))
        s = no_copy(path, errno, err);
    if (s != DIBS_OK)
        unlink(draft);
    return s;
}

/* ---- questions ------------------------------------------------------------------------------- */

bool sqlite_has_wal_reset_bug(int version_number)
{
    if (version_number < 3007000 || version_number >= 3051003)
        return false;
    bool fixed_3_44 = version_number >= 3044006 && version_number < 3045000;
    bool fixed_3_50 = version_number >= 3050007 && version_number < 3051000;
    return !fixed_3_44 && !fixed_3_50;
}

static int64_t file_bytes(const char *path, const char *suffix)
{
    char name[PATH_MAX + 8] = {0};
    struct stat st = {0};
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return stat(name, &st) == 0 ? (int64_t)st.st_size : 0;
}

dibs_status sqlite_info(struct db_conn *c, struct db_info *out, struct dibs_error *err)
{
    struct statvfs disk = {0};
    out->engine = "SQLite";
    out->version = sqlite3_libversion();
    out->wal_reset_bug = sqlite_has_wal_reset_bug(sqlite3_libversion_number());
    out->file_bytes = file_bytes(c->path, "");
    out->wal_bytes = file_bytes(c->path, "-wal");
    if (statvfs(c->path, &disk) == 0)
        out->free_disk_bytes = (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
    dibs_status s =
        sqlite_ask_text(c, "PRAGMA journal_mode", out->journal_mode, sizeof out->journal_mode, err);
    if (s == DIBS_OK)
        s = sqlite_ask_int(c, "PRAGMA synchronous", &out->synchronous, err);
    if (s == DIBS_OK)
        s = sqlite_ask_int(c, "SELECT coalesce(max(number), 0) FROM schema_migration", &out->schema,
                           err);
    return s;
}

dibs_status sqlite_check(struct db_conn *c, struct dibs_error *err)
{
    char finding[256] = {0};
    dibs_status s = sqlite_ask_text(c, "PRAGMA integrity_check(1)", finding, sizeof finding, err);
    if (s != DIBS_OK || str_eq(finding, "ok"))
        return s;
    return error_set(err, DIBS_STORE_CORRUPT, "'%s' is damaged: %s", c->shown, finding);
}
