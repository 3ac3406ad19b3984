/* SPDX-License-Identifier: MIT */
/*
 * db_sqlite_open.c: opening a data file, making a new one, and the settings of a connection.
 *
 *   1. A new store is made under another name and then renamed: under its own name there is never a
 *      half of one. All that the new file has is our mark and the empty table of migrations; the
 *      migrations follow, and whoever opens it next completes them if we die.
 *   2. Everything goes by the resolved path, so that two names of one folder share one lock file.
 *   3. Nothing is written to an existing file before sqlite_look and the check of its migrations
 *      have accepted it; sqlite_settle is the first that may.
 *   4. sqlite_seal ends the time in which a connection may change the schema.
 *
 * The folder is not made here: it belongs to the caller.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "db_private.h"
#include "db_sqlite.h"

/* ---- paths ----------------------------------------------------------------------------------- */

/* resolve: the real path of a file that may not exist yet, in a folder that must. */
static dibs_status resolve(const char *path, char out[PATH_MAX], struct dibs_error *err)
{
    char folder[PATH_MAX] = {0};
    if (realpath(path, out) != NULL)
        return DIBS_OK;
    if (errno == ENOENT) {
        const char *slash = strrchr(path, '/');
        const char *name = slash != NULL ? slash + 1 : path;
        snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - path + 1) : 1,
                 slash != NULL ? path : ".");
        char real[PATH_MAX] = {0};
        if (realpath(folder, real) != NULL) {
            int n = snprintf(out, PATH_MAX, "%s/%s", real, name);
            if (n > 0 && n < PATH_MAX)
                return DIBS_OK;
            errno = ENAMETOOLONG;
        }
    }
    return error_set(err, errno == ENOENT ? DIBS_STORE_NOT_FOUND : DIBS_STORE_UNAVAILABLE,
                     "cannot open '%s': %s", path, strerror(errno));
}

/* The folder of a path, to ask about its file system or to make a new name in it durable. */
static void folder_of(const char *path, char out[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        snprintf(out, PATH_MAX, ".");
    else
        snprintf(out, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

int sqlite_sync_folder_of(const char *path)
{
    char folder[PATH_MAX] = {0};
    folder_of(path, folder);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int rc = fsync(fd);
    int why = errno;
    close(fd);
    errno = why;
    return rc;
}

bool sqlite_is_there(const char *path, const char *suffix, int64_t *bytes)
{
    char name[PATH_MAX + 16] = {0};
    struct stat st = {0};
    snprintf(name, sizeof name, "%s%s", path, suffix);
    if (lstat(name, &st) != 0)
        return false;
    *bytes = (int64_t)st.st_size;
    return true;
}

/* ---- making a new one ------------------------------------------------------------------------ */

static dibs_status no_file(const char *path, struct dibs_error *err)
{
    bool full = errno == ENOSPC || errno == EDQUOT;
    return error_set(err, full ? DIBS_STORE_FULL : DIBS_STORE_UNAVAILABLE, "cannot make '%s': %s",
                     path, strerror(errno));
}

/* fill: an empty store of ours in a file that nobody else knows. No journal is needed: when this
 * fails, the file is thrown away. */
static dibs_status fill(struct db_conn *c, const char *path, struct dibs_error *err)
{
    char sql[512] = {0};
    snprintf(sql, sizeof sql,
             "PRAGMA page_size = %d; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = FULL;"
             " BEGIN; PRAGMA application_id = %d; %s; COMMIT",
             SQLITE_PAGE_BYTES, SQLITE_APPLICATION_ID, MIGRATE_TABLE_SQL);
    int rc =
        sqlite3_open_v2(path, &c->sqlite,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    dibs_status s = rc == SQLITE_OK ? sqlite_run(c, sql, err) : sqlite_failed(c, rc, err);
    sqlite3_close(c->sqlite);
    c->sqlite = NULL;
    return s;
}

/* A log or journal without its data file belongs to data that were moved away or lost. SQLite would
 * play it into the new file. */
static dibs_status refuse_leftovers(struct db_conn *c, struct dibs_error *err)
{
    static const char *const suffixes[] = {"-wal", "-journal"};
    for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
        int64_t bytes = 0;
        if (sqlite_is_there(c->path, suffixes[i], &bytes) && bytes > 0)
            return error_set(err, DIBS_STORE_CORRUPT,
                             "cannot make '%s': '%s%s' is left of another one; put its data file "
                             "back, or move it away",
                             c->shown, c->shown, suffixes[i]);
    }
    return DIBS_OK;
}

/* make: under the write lock, so that of several who want to make it one does. */
static dibs_status make(struct db_conn *c, struct dibs_error *err)
{
    char draft[PATH_MAX] = {0};
    int64_t bytes = 0;
    bool empty_file = sqlite_is_there(c->path, "", &bytes) && bytes == 0;
    if (bytes > 0)
        return DIBS_OK;
    dibs_status s = refuse_leftovers(c, err);
    if (s != DIBS_OK)
        return s;
    int n = snprintf(draft, sizeof draft, "%s.new", c->path);
    if (n < 0 || n >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return no_file(c->shown, err);
    }
    unlink(draft); /* of somebody who died here */
    if (mknod(draft, S_IFREG | 0600, 0) != 0)
        return no_file(c->shown, err);
    s = fill(c, draft, err);
    if (s == DIBS_OK &&
        renameat2(AT_FDCWD, draft, AT_FDCWD, c->path, empty_file ? 0 : RENAME_NOREPLACE) != 0)
        s = no_file(c->shown, err);
    if (s != DIBS_OK)
        unlink(draft);
    else if (sqlite_sync_folder_of(c->path) != 0)
        s = sqlite_failed(c, SQLITE_IOERR_DIR_FSYNC, err); /* as final as any failed flush */
    return s;
}

static dibs_status make_if_missing(struct db_conn *c, bool create, struct dibs_error *err)
{
    struct stat st = {0};
    bool there = stat(c->path, &st) == 0;
    if (!there && errno != ENOENT)
        return error_set(err, DIBS_STORE_UNAVAILABLE, "cannot open '%s': %s", c->shown,
                         strerror(errno));
    if (there && !S_ISREG(st.st_mode))
        return error_set(err, DIBS_STORE_CORRUPT, "cannot open '%s': it is not a file", c->shown);
    if (there && st.st_size > 0)
        return DIBS_OK;
    if (!there && !create)
        return error_set(err, DIBS_STORE_NOT_FOUND, "cannot open '%s': there is no such file",
                         c->shown);
    if (!create)
        return error_set(err, DIBS_STORE_CORRUPT, "cannot open '%s': the file is empty", c->shown);
    dibs_status s = write_lock_open(&c->lock, c->path, err);
    if (s == DIBS_OK)
        s = write_lock_take(&c->lock, err);
    if (s == DIBS_OK)
        s = make(c, err);
    write_lock_release(&c->lock);
    return s;
}

#define SAVEPOINT_BYTES (128 * 1024)
/* ---- the connection -------------------------------------------------------------------------- */

static pthread_once_t tune_once = PTHREAD_ONCE_INIT;

/* tune: settings of SQLite for the whole process, which count only before its first use; if
 * somebody else has used it before us it works all the same, only slower. Nobody asks how much
 * memory it has, and counting takes a lock each time. Pages that a savepoint might have to restore
 * are kept in one block of memory, not in many of a kilobyte. */
static void tune(void)
{
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    (void)sqlite3_config(SQLITE_CONFIG_STMTJRNL_SPILL, SAVEPOINT_BYTES);
}

static dibs_status connect(struct db_conn *c, struct dibs_error *err)
{
    int rc = sqlite3_open_v2(c->path, &c->sqlite,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                                 SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE,
                             sqlite_log_layer());
    if (rc != SQLITE_OK)
        return sqlite_failed(c, rc, err);
    if (sqlite3_db_readonly(c->sqlite, "main") != 0)
        return error_set(err, DIBS_STORE_UNAVAILABLE, "cannot open '%s': no permission to write it",
                         c->shown);
    return DIBS_OK;
}

static dibs_status configure(struct db_conn *c, struct dibs_error *err)
{
    sqlite3_busy_timeout(c->sqlite, BUSY_TIMEOUT_MS);
    int rc = sqlite3_db_config(c->sqlite, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_db_config(c->sqlite, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_db_config(c->sqlite, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    if (rc != SQLITE_OK)
        return sqlite_failed(c, rc, err);
    char sql[512] = {0};
    snprintf(sql, sizeof sql,
             "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA foreign_keys = ON;"
             " PRAGMA temp_store = FILE; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;"
             " PRAGMA journal_size_limit = %lld",
             4LL * WAL_CHECKPOINT_PAGES * SQLITE_PAGE_BYTES);
    dibs_status s = sqlite_run(c, sql, err);
    /* one hook serves both the automatic checkpoint and ours: setting it turns the automatic off */
    sqlite3_wal_hook(c->sqlite, sqlite_count_wal_pages, c);
    c->checkpoint_pages = WAL_CHECKPOINT_PAGES;
    return s;
}

static dibs_status open_store(struct db_conn *c, const struct db_options *in,
                              struct dibs_error *err)
{
    char path[PATH_MAX] = {0}, folder[PATH_MAX] = {0};
    pthread_once(&tune_once, tune);
    dibs_status s = resolve(in->path, path, err);
    if (s != DIBS_OK)
        return s;
    folder_of(path, folder);
    const char *network = in->platform->network_fs(in->platform->context, folder);
    if (network != NULL)
        return error_set(
            err, DIBS_STORE_UNSUPPORTED,
            "cannot open '%s': it is on a network file system (%s), where locks cannot "
            "be relied on; move it to a local disk",
            in->path, network);
    c->path = mem_copy(path);
    c->shown = mem_copy(in->path);
    if (c->path == NULL || c->shown == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot open '%s': out of memory", in->path);
    s = make_if_missing(c, in->create, err);
    if (s == DIBS_OK)
        s = connect(c, err);
    if (s == DIBS_OK)
        s = sqlite_look(c, err);
    if (s == DIBS_OK)
        s = configure(c, err);
    return s;
}

dibs_status sqlite_open(const struct db_options *in, struct db_conn **out, struct dibs_error *err)
{
    struct db_conn *c = mem_alloc(sizeof *c);
    if (c == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot open '%s': out of memory", in->path);
    c->lock.fd = -1;
    sqlite_fork_enter(c);
    sqlite_log_opening(c); /* until it is sealed: SQLite opens the log when it first reads */
    dibs_status s = open_store(c, in, err);
    if (s != DIBS_OK)
        sqlite_close(c);
    else
        *out = c;
    return s;
}

static void free_conn(struct db_conn *c)
{
    sqlite_fork_leave(c);
    write_lock_close(&c->lock);
    mem_free(c->path);
    mem_free(c->shown);
    mem_free(c);
}

void sqlite_close(struct db_conn *c)
{
    sqlite_log_opening(NULL);
    sqlite_sync_end(c);
    for (size_t i = 0; i < CONTROL_COUNT; i++)
        sqlite3_finalize(c->control[i]);
    sqlite3_close(c->sqlite);
    free_conn(c);
}

/* sqlite_abandon: what SQLite holds stays, as closing it in a child would write to the parent's
 * files. The lock file is only closed, never unlocked: its locks are the parent's as well. */
void sqlite_abandon(struct db_conn *c)
{
    free_conn(c);
}

/* sqlite_settle: switches a new or restored file to the write-ahead log, and makes sure that what
 * we rely on is in force. The usual open finds it switched and need not wait for the lock. */
dibs_status sqlite_settle(struct db_conn *c, struct dibs_error *err)
{
    char mode[16] = {0};
    int64_t synchronous = 0;
    dibs_status s = sqlite_ask_text(c, "PRAGMA journal_mode", mode, sizeof mode, err);
    if (s == DIBS_OK && !str_eq(mode, "wal")) {
        s = write_lock_take(&c->lock, err);
        if (s == DIBS_OK)
            s = sqlite_ask_text(c, "PRAGMA journal_mode = WAL", mode, sizeof mode, err);
        write_lock_release(&c->lock);
    }
    if (s == DIBS_OK)
        s = sqlite_ask_int(c, "PRAGMA synchronous", &synchronous, err);
    if (s == DIBS_OK && (!str_eq(mode, "wal") || synchronous != 2))
        s = error_set(err, DIBS_STORE_UNSUPPORTED,
                      "cannot open '%s': SQLite refuses a safe mode (journal %s, synchronous %d)",
                      c->shown, mode, (int)synchronous);
    return s == DIBS_OK ? sqlite_fork_mend(c, err) : s;
}

/* ---- after the migrations -------------------------------------------------------------------- */

static bool pragma_allowed(const char *name, const char *value)
{
    static const char *const any[] = {"data_version", "integrity_check"};
    static const char *const questions[] = {"journal_mode", "synchronous"};
    for (size_t i = 0; i < COUNT_OF(any); i++)
        if (str_eq_nocase(name, any[i]))
            return true;
    for (size_t i = 0; i < COUNT_OF(questions); i++)
        if (value == NULL && str_eq_nocase(name, questions[i]))
            return true;
    return false;
}

/* authorize: reading and writing rows, and nothing that changes the schema, the settings or the set
 * of files. Statements are literals of this program; this is the second fence behind that one. */
static int authorize(void *context, int action, const char *first, const char *second,
                     const char *database, const char *trigger)
{
    (void)context, (void)database, (void)trigger;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
    case SQLITE_FUNCTION:
    case SQLITE_RECURSIVE:
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT: return SQLITE_OK;
    case SQLITE_PRAGMA: return pragma_allowed(first, second) ? SQLITE_OK : SQLITE_DENY;
    default: return SQLITE_DENY;
    }
}

void sqlite_seal(struct db_conn *c)
{
    sqlite_log_opening(NULL);
    sqlite3_set_authorizer(c->sqlite, authorize, NULL);
    sqlite3_limit(c->sqlite, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_limit(c->sqlite, SQLITE_LIMIT_LENGTH, 16 * BODY_BYTES_MAX);
    sqlite3_limit(c->sqlite, SQLITE_LIMIT_SQL_LENGTH, 64 * 1024);
    sqlite3_limit(c->sqlite, SQLITE_LIMIT_VARIABLE_NUMBER, UINT8_MAX);
    sqlite3_limit(c->sqlite, SQLITE_LIMIT_WORKER_THREADS, 0);
}
