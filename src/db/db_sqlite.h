/* SPDX-License-Identifier: MIT */
/*
 * db_sqlite.h: what the files of the SQLite driver share: db_sqlite.c (transactions, statements,
 * errors), db_sqlite_open.c (open, create), db_sqlite_look.c (refuse), db_sqlite_care.c
 * (checkpoint, backup, info, check), db_sqlite_log.c (the file of the log), db_sqlite_sync.c (its
 * flushes), db_sqlite_fork.c (children).
 */
#ifndef DIBS_DB_SQLITE_H
#define DIBS_DB_SQLITE_H

#include <sqlite3.h>

#include "db_driver.h"
#include "write_lock.h"

/* In the header of every data file of ours, so that a file of another program is recognised. */
#define SQLITE_APPLICATION_ID 0x64696273 /* "dibs" */
#define SQLITE_PAGE_BYTES 4096

enum sqlite_control {
    CONTROL_BEGIN,
    CONTROL_BEGIN_WRITE,
    CONTROL_COMMIT,
    CONTROL_ROLLBACK,
    CONTROL_POINT_SET,
    CONTROL_POINT_RELEASE,
    CONTROL_POINT_ROLLBACK,
    CONTROL_DATA_VERSION,
    CONTROL_COUNT,
};

struct db_conn {
    sqlite3 *sqlite;
    struct write_lock lock;
    struct db_conn *next; /* in the list of db_sqlite_fork.c */
    char *path;           /* resolved: what SQLite and the lock file go by */
    char *shown;          /* as the caller gave it; for messages */
    sqlite3_stmt *control[CONTROL_COUNT];
    bool writing;             /* holds the write lock for a transaction */
    int64_t wal_pages;        /* in the write-ahead log after our last commit */
    int64_t checkpoint_pages; /* checkpoint when there are so many */
    int64_t commits;          /* of ours that wrote something */
    unsigned version;         /* of the store right after our last commit; 0: not known */
    sqlite3_file *log;        /* the write-ahead log; NULL: not known */
    struct sqlite_sync *sync; /* the thread that flushes it; NULL: every commit does */
};

/* Maps a result of SQLite to ours and says what happened; a failed flush poisons the process. */
dibs_status sqlite_failed(struct db_conn *c, int rc, struct dibs_error *err);
/* Runs statements without results, as sqlite3_exec. */
dibs_status sqlite_run(struct db_conn *c, const char *sql, struct dibs_error *err) MUST_USE;
/* First column of the first row, as text or as a number. */
dibs_status sqlite_ask_text(struct db_conn *c, const char *sql, char *out, size_t bytes,
                            struct dibs_error *err) MUST_USE;
dibs_status sqlite_ask_int(struct db_conn *c, const char *sql, int64_t *out, struct dibs_error *err)
    MUST_USE;

/* db_sqlite_open.c */
dibs_status sqlite_open(const struct db_options *in, struct db_conn **out, struct dibs_error *err);
dibs_status sqlite_settle(struct db_conn *c, struct dibs_error *err);
void sqlite_seal(struct db_conn *c);
void sqlite_close(struct db_conn *c);
void sqlite_abandon(struct db_conn *c);
/* Makes a directory's entries durable. 0, or -1 with errno. */
int sqlite_sync_folder_of(const char *path);

/* Whether path + suffix exists, and its size. */
bool sqlite_is_there(const char *path, const char *suffix, int64_t *bytes);

/* db_sqlite_look.c: DIBS_STORE_CORRUPT unless the file is ours and whole. Opens the lock file. */
dibs_status sqlite_look(struct db_conn *c, struct dibs_error *err) MUST_USE;

/* db_sqlite_care.c */
int sqlite_count_wal_pages(void *conn, sqlite3 *sqlite, const char *name, int pages);
/* Under the write lock: moves the log into the data file when it is long enough. Only a failed
 * flush is returned; anything else is logged and tried again later. */
dibs_status sqlite_checkpoint_if_due(struct db_conn *c, struct dibs_error *err);
dibs_status sqlite_backup(struct db_conn *c, const char *path, const char *mark,
                          struct dibs_error *err);
dibs_status sqlite_info(struct db_conn *c, struct db_info *out, struct dibs_error *err);
dibs_status sqlite_check(struct db_conn *c, struct dibs_error *err);
bool sqlite_has_wal_reset_bug(int version_number);

/* db_sqlite_log.c */
/* The layer to open a store with; NULL: SQLite's own will do. */
const char *sqlite_log_layer(void);
/* The logs that this thread opens from now on are the connection's; NULL: nobody's. */
void sqlite_log_opening(struct db_conn *c);
/* Whether a flush of the log is only noted, as somebody else will see to it. */
void sqlite_log_flush_later(struct db_conn *c, bool later);
/* The file of the log once more, for another thread; end it with xClose and mem_free. */
sqlite3_file *sqlite_log_open_again(struct db_conn *c) MUST_USE;

/* db_sqlite_sync.c */
dibs_status sqlite_sync_begin(struct db_conn *c, void (*on_durable)(void *, int64_t), void *context,
                              struct dibs_error *err) MUST_USE;
void sqlite_sync_end(struct db_conn *c); /* after what was committed is flushed */
/* The next commits flush by themselves (here), or are flushed by the thread. */
void sqlite_sync_here(struct db_conn *c, bool here);
void sqlite_sync_ask(struct db_conn *c); /* what was committed until now is to be flushed */
/* Waits until the commit is on disk; false: it will never be. */
bool sqlite_sync_wait(struct db_conn *c, int64_t commit) MUST_USE;
/* Everything is on disk and flushes are made at once, until resume; false: a flush has failed. */
bool sqlite_sync_pause(struct db_conn *c) MUST_USE;
void sqlite_sync_resume(struct db_conn *c);

/* db_sqlite_fork.c */
void sqlite_fork_enter(struct db_conn *c); /* when it is opened */
void sqlite_fork_leave(struct db_conn *c); /* before it is closed; harmless if it never entered */
/* Makes up for locks that SQLite believes to have inherited. Once the log is in use. */
dibs_status sqlite_fork_mend(struct db_conn *c, struct dibs_error *err) MUST_USE;

#endif
