/* SPDX-License-Identifier: MIT */
/*
 * failing_vfs.h: SQLite's own file layer, with flushes and writes that fail when told to. Installed
 * as the default, it serves every connection that the process opens afterwards.
 */
#ifndef DIBS_FAILING_VFS_H
#define DIBS_FAILING_VFS_H

#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>

static struct {
    bool fail_log_sync, fail_data_sync, fail_data_write;
    int log_syncs, data_writes;
    sqlite3_vfs vfs, *real;
    const sqlite3_io_methods *real_methods;
    sqlite3_io_methods data_methods, log_methods;
} failing_vfs;

static inline int failing_data_sync(sqlite3_file *file, int flags)
{
    return failing_vfs.fail_data_sync ? SQLITE_IOERR_FSYNC
                                      : failing_vfs.real_methods->xSync(file, flags);
}

static inline int failing_log_sync(sqlite3_file *file, int flags)
{
    failing_vfs.log_syncs++;
    return failing_vfs.fail_log_sync ? SQLITE_IOERR_FSYNC
                                     : failing_vfs.real_methods->xSync(file, flags);
}

static inline int failing_data_write(sqlite3_file *file, const void *bytes, int count,
                                     sqlite3_int64 at)
{
    failing_vfs.data_writes++;
    return failing_vfs.fail_data_write ? SQLITE_IOERR_WRITE
                                       : failing_vfs.real_methods->xWrite(file, bytes, count, at);
}

/* The real layer keeps its state in the file object and not in the methods, so the methods can be
 * exchanged under it. */
static inline int failing_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                               int *out_flags)
{
    (void)vfs;
    int rc = failing_vfs.real->xOpen(failing_vfs.real, name, file, flags, out_flags);
    if (rc != SQLITE_OK || (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)) == 0)
        return rc;
    failing_vfs.real_methods = file->pMethods;
    if (flags & SQLITE_OPEN_MAIN_DB) {
        failing_vfs.data_methods = *file->pMethods;
        failing_vfs.data_methods.xSync = failing_data_sync;
        failing_vfs.data_methods.xWrite = failing_data_write;
        file->pMethods = &failing_vfs.data_methods;
    } else {
        failing_vfs.log_methods = *file->pMethods;
        failing_vfs.log_methods.xSync = failing_log_sync;
        file->pMethods = &failing_vfs.log_methods;
    }
    return rc;
}

static inline bool failing_vfs_install(void)
{
    memset(&failing_vfs, 0, sizeof failing_vfs);
    failing_vfs.real = sqlite3_vfs_find(NULL);
    if (failing_vfs.real == NULL)
        return false;
    failing_vfs.vfs = *failing_vfs.real;
    failing_vfs.vfs.zName = "failing";
    failing_vfs.vfs.pNext = NULL;
    failing_vfs.vfs.xOpen = failing_open;
    return sqlite3_vfs_register(&failing_vfs.vfs, 1) == SQLITE_OK;
}

#endif
