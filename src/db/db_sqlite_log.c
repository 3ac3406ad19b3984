/* SPDX-License-Identifier: MIT */
/*
 * db_sqlite_log.c: between SQLite and the file of its write-ahead log.
 *
 * SQLite writes a log page by page, two calls to the kernel for each, and flushes it at the end of
 * the transaction. Here what it writes in a row is held back and written in one piece, before
 * anything else happens to the file. A layer ("VFS") of our own lies on top of SQLite's for that;
 * of the files of a store it touches only the log, and all but write, flush and the like goes
 * straight through.
 *
 *   1. Nothing is held back beyond the flush that ends a transaction. SQLite shows the new pages to
 *      other connections only after that flush (synchronous = FULL, which sqlite_settle checks), so
 *      nobody is ever pointed to a page that is not in the file.
 *   2. A write that fails later than SQLite thinks fails the flush, and with it the transaction.
 *   3. While the log is flushed by a thread (db_sqlite_sync.c), a flush only notes that it was
 *      asked for. But a new first page of the log is always flushed here and now: SQLite must not
 *      write behind it before it is on disk, or the old pages could come back to life.
 */
#include <pthread.h>
#include <string.h>

#include "db_sqlite.h"

/* Our part of a file object lies behind that of the layer below, which needs less than this.
 * SQLite's layer takes less than 128 KiB in one piece. */
enum { BELOW_BYTES = 1024, HOLD_BYTES = 120 * 1024 };

struct sqlite_log {
    sqlite3_io_methods methods;        /* those below, with ours in some places */
    const sqlite3_io_methods *below;   /* what they were */
    const char *name;                  /* of the file, SQLite's */
    struct db_conn *conn;              /* whose log it is; NULL: of a passer-by */
    char *held;                        /* HOLD_BYTES, made when first needed */
    sqlite3_int64 held_at, held_bytes; /* where they belong in the file */
    bool new_start;                    /* the first page was written and not flushed yet */
    bool later;                        /* a flush need only be noted */
};

/* The connection that this thread is opening: the log that is opened meanwhile is its log. */
static _Thread_local struct db_conn *opening;

static struct sqlite_log *log_of(sqlite3_file *file)
{
    return (struct sqlite_log *)(void *)((char *)file + BELOW_BYTES);
}

static int write_held(sqlite3_file *file)
{
    struct sqlite_log *log = log_of(file);
    sqlite3_int64 bytes = log->held_bytes;
    log->held_bytes = 0;
    return bytes == 0 ? SQLITE_OK : log->below->xWrite(file, log->held, (int)bytes, log->held_at);
}

/* ---- the methods of a log -------------------------------------------------------------------- */

static int log_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at)
{
    struct sqlite_log *log = log_of(file);
    log->new_start = log->new_start || at == 0;
    bool follows = log->held_bytes > 0 && at == log->held_at + log->held_bytes &&
                   count <= HOLD_BYTES - log->held_bytes;
    int rc = follows ? SQLITE_OK : write_held(file);
    if (rc != SQLITE_OK)
        return rc;
    if (log->held == NULL)
        log->held = sqlite3_malloc(HOLD_BYTES);
    if (log->held == NULL || count > HOLD_BYTES)
        return log->below->xWrite(file, bytes, count, at);
    if (!follows)
        log->held_at = at;
    memcpy(log->held + log->held_bytes, bytes, (size_t)count);
    log->held_bytes += count;
    return SQLITE_OK;
}

static int log_sync(sqlite3_file *file, int flags)
{
    struct sqlite_log *log = log_of(file);
    int rc = write_held(file);
    if (rc != SQLITE_OK || (log->later && !log->new_start))
        return rc;
    rc = log->below->xSync(file, flags);
    if (rc == SQLITE_OK)
        log->new_start = false;
    return rc;
}

static int log_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 at)
{
    int rc = write_held(file);
    return rc == SQLITE_OK ? log_of(file)->below->xRead(file, bytes, count, at) : rc;
}

static int log_truncate(sqlite3_file *file, sqlite3_int64 bytes)
{
    int rc = write_held(file);
    return rc == SQLITE_OK ? log_of(file)->below->xTruncate(file, bytes) : rc;
}

static int log_size(sqlite3_file *file, sqlite3_int64 *out)
{
    int rc = write_held(file);
    return rc == SQLITE_OK ? log_of(file)->below->xFileSize(file, out) : rc;
}

static int log_close(sqlite3_file *file)
{
    struct sqlite_log *log = log_of(file);
    (void)write_held(file); /* of a transaction that was given up: worth nothing */
    sqlite3_free(log->held);
    if (log->conn != NULL)
        log->conn->log = NULL;
    file->pMethods = log->below;
    return log->below->xClose(file);
}

/* ---- the layer ------------------------------------------------------------------------------- */

static sqlite3_vfs layer;

static sqlite3_vfs *below(void)
{
    return layer.pAppData;
}

static int layer_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                      int *out_flags)
{
    (void)vfs;
    int rc = below()->xOpen(below(), name, file, flags, out_flags);
    if (rc != SQLITE_OK || (flags & SQLITE_OPEN_WAL) == 0)
        return rc;
    struct sqlite_log *log = log_of(file);
    *log = (struct sqlite_log){
        .methods = *file->pMethods, .below = file->pMethods, .name = name, .conn = opening};
    log->methods.xWrite = log_write;
    log->methods.xSync = log_sync;
    log->methods.xRead = log_read;
    log->methods.xTruncate = log_truncate;
    log->methods.xFileSize = log_size;
    log->methods.xClose = log_close;
    file->pMethods = &log->methods;
    if (opening != NULL)
        opening->log = file;
    return SQLITE_OK;
}

static int layer_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    (void)vfs;
    return below()->xDelete(below(), name, sync_folder);
}

static int layer_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    (void)vfs;
    return below()->xAccess(below(), name, flags, out);
}

static int layer_full_path(sqlite3_vfs *vfs, const char *name, int bytes, char *out)
{
    (void)vfs;
    return below()->xFullPathname(below(), name, bytes, out);
}

static int layer_last_error(sqlite3_vfs *vfs, int bytes, char *out)
{
    (void)vfs;
    return below()->xGetLastError(below(), bytes, out);
}

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

/* The rest of the methods (time, randomness, sleep) needs nothing of the object it is called on. */
static const char *lay_over(sqlite3_vfs *lower)
{
    if (layer.pAppData == lower)
        return layer.zName;
    if (lower == NULL || lower->szOsFile > BELOW_BYTES)
        return NULL;
    sqlite3_vfs_unregister(&layer);
    layer = *lower;
    layer.zName = "dibs";
    layer.pNext = NULL;
    layer.pAppData = lower;
    layer.szOsFile = BELOW_BYTES + (int)sizeof(struct sqlite_log);
    layer.xOpen = layer_open;
    layer.xDelete = layer_delete;
    layer.xAccess = layer_access;
    layer.xFullPathname = layer_full_path;
    layer.xGetLastError = layer_last_error;
    return sqlite3_vfs_register(&layer, 0) == SQLITE_OK ? layer.zName : NULL;
}

const char *sqlite_log_layer(void)
{
    pthread_mutex_lock(&guard);
    const char *name = lay_over(sqlite3_vfs_find(NULL));
    pthread_mutex_unlock(&guard);
    return name;
}

void sqlite_log_opening(struct db_conn *c)
{
    opening = c;
}

/* ---- for the thread that flushes ------------------------------------------------------------- */

void sqlite_log_flush_later(struct db_conn *c, bool later)
{
    log_of(c->log)->later = later;
}

sqlite3_file *sqlite_log_open_again(struct db_conn *c)
{
    sqlite3_file *file = mem_alloc((size_t)below()->szOsFile);
    int flags = SQLITE_OPEN_WAL | SQLITE_OPEN_READWRITE;
    if (file != NULL &&
        below()->xOpen(below(), log_of(c->log)->name, file, flags, NULL) != SQLITE_OK) {
        mem_free(file);
        file = NULL;
    }
    return file;
}
