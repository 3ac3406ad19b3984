/* SPDX-License-Identifier: MIT */
/*
 * db_sqlite_sync.c: flushing the log on a thread of its own, while the next transaction runs.
 *
 * A daemon's writer need not stand still until the disk has answered: it goes on with what has
 * queued up, and the answers of a transaction leave when the flush that covers it has returned. One
 * flush covers all transactions that were committed before it began, so a slow disk makes the
 * groups larger and nobody slower.
 *
 *   1. Commits are numbered. on_durable(n) is said after a flush that began when commit n was in
 *      the file; then everything up to n is on disk.
 *   2. The data file is never ahead of the log: a checkpoint first waits until all that was
 *      committed is flushed, and flushes as ever (sqlite_sync_pause).
 *   3. A flush that failed is final (db_flush_failed). on_durable(-1) says so once, and nothing
 *      that was not durable by then ever will be.
 *
 * The thread flushes through a file object of its own: the one of the connection belongs to the
 * thread that writes.
 */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "db_private.h"
#include "db_sqlite.h"

struct sqlite_sync {
    pthread_t thread;
    sqlite3_file *file;
    void (*on_durable)(void *context, int64_t commit);
    void *context;

    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    int64_t asked, done; /* commits: in the file, on disk */
    bool failed, stopping;
    bool here; /* the connection's own: it flushes by itself */
};

/* ---- the thread ------------------------------------------------------------------------------ */

/* The next commit to flush up to; 0: it is time to end. */
static int64_t wait_for_work(struct sqlite_sync *s)
{
    pthread_mutex_lock(&s->mutex);
    while (s->asked == s->done && !s->stopping)
        pthread_cond_wait(&s->changed, &s->mutex);
    int64_t upto = s->asked > s->done ? s->asked : 0;
    pthread_mutex_unlock(&s->mutex);
    return upto;
}

static void note(struct sqlite_sync *s, int64_t upto, bool fine)
{
    pthread_mutex_lock(&s->mutex);
    if (fine)
        s->done = upto;
    s->failed = !fine;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

static void *flush_again_and_again(void *context)
{
    struct sqlite_sync *s = context;
    prctl(PR_SET_NAME, "dibs-flush", 0, 0, 0);
    bool fine = true;
    for (int64_t upto = 0; fine && (upto = wait_for_work(s)) != 0;) {
        int flags = SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY;
        fine = s->file->pMethods->xSync(s->file, flags) == SQLITE_OK;
        if (!fine)
            db_flush_failed();
        note(s, upto, fine);
        s->on_durable(s->context, fine ? upto : -1);
    }
    return NULL;
}

/* ---- beginning and ending -------------------------------------------------------------------- */

/* Signals are for the threads that the program has made itself. */
static int start_thread(struct sqlite_sync *s)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&s->thread, NULL, flush_again_and_again, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static void sync_free(struct sqlite_sync *s)
{
    if (s == NULL)
        return;
    if (s->file != NULL)
        s->file->pMethods->xClose(s->file);
    mem_free(s->file);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    mem_free(s);
}

dibs_status sqlite_sync_begin(struct db_conn *c, void (*on_durable)(void *, int64_t), void *context,
                              struct dibs_error *err)
{
    if (c->sync != NULL)
        return error_set(err, DIBS_INTERNAL, "'%s' is flushed by a thread already", c->shown);
    if (c->log == NULL)
        return error_set(err, DIBS_STORE_UNSUPPORTED,
                         "cannot flush '%s' by a thread: its log is not known", c->shown);
    struct sqlite_sync *s = mem_alloc(sizeof *s);
    if (s == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot use '%s': out of memory", c->shown);
    *s = (struct sqlite_sync){.on_durable = on_durable, .context = context};
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->asked = s->done = c->commits;
    s->file = sqlite_log_open_again(c);
    if (s->file == NULL || start_thread(s) != 0) {
        sync_free(s);
        return error_set(err, DIBS_STORE_UNAVAILABLE, "cannot flush '%s' by a thread", c->shown);
    }
    c->sync = s;
    sqlite_log_flush_later(c, true);
    return DIBS_OK;
}

void sqlite_sync_end(struct db_conn *c)
{
    struct sqlite_sync *s = c->sync;
    if (s == NULL)
        return;
    pthread_mutex_lock(&s->mutex);
    s->stopping = true; /* it flushes what it was asked for, and ends */
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->thread, NULL);
    if (c->log != NULL)
        sqlite_log_flush_later(c, false);
    sync_free(s);
    c->sync = NULL;
}

/* ---- the connection's side ------------------------------------------------------------------- */

void sqlite_sync_here(struct db_conn *c, bool here)
{
    struct sqlite_sync *s = c->sync;
    if (s == NULL || s->here == here)
        return;
    /* what the thread still has to do it does first, so that commits become durable in order */
    if (here && !sqlite_sync_wait(c, c->commits))
        return;
    s->here = here;
    sqlite_log_flush_later(c, !here);
}

void sqlite_sync_ask(struct db_conn *c)
{
    struct sqlite_sync *s = c->sync;
    if (s == NULL)
        return;
    pthread_mutex_lock(&s->mutex);
    bool more = c->commits > s->asked, here = s->here;
    s->asked = c->commits;
    if (here)
        s->done = s->asked;
    else if (more)
        pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    if (more && here)
        s->on_durable(s->context, c->commits);
}

bool sqlite_sync_wait(struct db_conn *c, int64_t commit)
{
    struct sqlite_sync *s = c->sync;
    if (s == NULL)
        return true; /* every commit was flushed before it returned */
    pthread_mutex_lock(&s->mutex);
    assert(commit <= s->asked);
    while (s->done < commit && !s->failed)
        pthread_cond_wait(&s->changed, &s->mutex);
    bool durable = s->done >= commit;
    pthread_mutex_unlock(&s->mutex);
    return durable;
}

bool sqlite_sync_pause(struct db_conn *c)
{
    if (c->sync == NULL)
        return true;
    bool durable = sqlite_sync_wait(c, c->commits);
    if (durable && !c->sync->here)
        sqlite_log_flush_later(c, false);
    return durable;
}

void sqlite_sync_resume(struct db_conn *c)
{
    if (c->sync != NULL && !c->sync->here)
        sqlite_log_flush_later(c, true);
}
