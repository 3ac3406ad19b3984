/* SPDX-License-Identifier: MIT */
/*
 * journal.c: one thread that follows the journal for everybody who listens.
 *
 *     journal thread: wait for a hint or JOURNAL_LOOK_MS -> read -> page -> (at most PAGES_WAITING)
 *     loop thread:    take the pages, deliver each, make room for the next
 *
 *  1. Pages follow one another without a gap: each begins where the one before it ended, except
 *     where events were pruned before anybody read them, which the page tells (since).
 *  2. journal_last() is the end of the last page that the loop was given.
 *  3. A slow loop gets larger pages, not more of them: with PAGES_WAITING on their way the thread
 *     waits until they are taken. Many commits in a row share a page: between two looks lie at
 *     least SPACE_MS, which a single commit after a quiet moment does not feel.
 *  4. A hint is never lost: it is taken back under the lock before the store is read.
 *  5. While nobody reads along, most events would be read, made into text and thrown away. So only
 *     those of own_types are read, and the page says so (is_partial). Whoever begins to read along
 *     may still be given one that was on its way.
 *  6. The thread does not die. What it cannot read it reads again later, with more and more time
 *     between, and says so once.
 *
 * Whether it was our writer or another process that has changed the file cannot be told when both
 * have; then on_others is called too, at most once per JOURNAL_LOOK_MS.
 */
#include "journal.h"

#include "base/log.h"
#include "core/follow.h"
#include "core/serve.h"
#include "job.h"

#define PAGES_WAITING 2
#define SPACE_MS 5
#define PARTIAL_ROWS 20000 /* a partial page looks at so many events at most: some 20 ms */
#define BACK_OFF_MS_MAX 5000
#define NS_PER_MS 1000000ULL

struct journal {
    struct journal_options options;
    uv_thread_t thread;
    uv_async_t async;
    int64_t delivered; /* loop thread */

    uv_mutex_t lock;
    uv_cond_t wake;
    bool hinted, stopping, wakeable; /* wakeable: the thread waits for a hint */
    bool eager;                      /* somebody reads along: a hint is followed at once */
    struct page *pages[PAGES_WAITING];
    size_t page_count;

    /* the thread's own */
    dibs *d;
    dibs_arena *arena;
    int64_t read_to, changes_seen;
    uint64_t looked_at, others_at; /* uv_hrtime */
    int64_t back_off_ms;           /* 0: all is well */
    bool more;                     /* the last page was full */
    bool whole;                    /* the next page is to have every event */
    bool others_owed; /* somebody else may have written and on_others is to be called */
};

/* ---- reading, on the journal thread ---------------------------------------------------------- */

/* trouble: the store could not be read; the next look is later than the last. */
static void trouble(struct journal *j, const char *what)
{
    if (j->back_off_ms == 0)
        log_line(LOG_ERROR, "cannot follow the journal: %s; trying again", what);
    j->back_off_ms = j->back_off_ms == 0 ? JOURNAL_LOOK_MS : j->back_off_ms * 2;
    if (j->back_off_ms > BACK_OFF_MS_MAX)
        j->back_off_ms = BACK_OFF_MS_MAX;
}

static void well(struct journal *j)
{
    if (j->back_off_ms > 0)
        log_line(LOG_WARN, "the journal can be followed again");
    j->back_off_ms = 0;
}

/* next_page: what came after read_to, *out is NULL when nothing did; false on failure. */
static bool next_page(struct journal *j, struct page **out)
{
    struct dibs_follow step = {
        .filter = {.since = j->read_to, .limit = JOURNAL_PAGE_EVENTS},
        .bytes_max = JOURNAL_PAGE_BYTES,
    };
    if (!j->whole) {
        step.filter.types = j->options.own_types;
        step.rows_max = PARTIAL_ROWS;
    }
    struct dibs_followed got = {0};
    struct dibs_error err = {0};
    dibs_arena_reset(j->arena);
    if (dibs__follow(j->d, j->arena, &step, &got, &err) != DIBS_OK) {
        trouble(j, err.message);
        return false;
    }
    j->more = got.through < got.list.last;
    if (got.through <= j->read_to) {
        well(j);
        return true;
    }
    int64_t since = got.list.first_kept - 1 > j->read_to ? got.list.first_kept - 1 : j->read_to;
    *out = page_make(&got.list, since, got.through);
    if (*out == NULL) {
        j->more = true;
        trouble(j, "out of memory");
        return false;
    }
    (*out)->is_partial = !j->whole;
    j->read_to = got.through;
    well(j);
    return true;
}

static void publish(struct journal *j, struct page *page)
{
    uv_mutex_lock(&j->lock);
    j->pages[j->page_count++] = page;
    uv_mutex_unlock(&j->lock);
    uv_async_send(&j->async);
}

static void tell_of_others(struct journal *j, bool changed, bool hinted)
{
    uint64_t now = uv_hrtime();
    j->others_owed = j->others_owed || changed;
    bool due = now - j->others_at >= JOURNAL_LOOK_MS * NS_PER_MS;
    if (!j->others_owed || (hinted && !due))
        return;
    j->others_owed = false;
    j->others_at = now;
    if (j->options.on_others != NULL)
        j->options.on_others(j->options.context);
}

static void look(struct journal *j, bool hinted)
{
    struct page *page = NULL;
    int64_t changes = dibs__change_counter(j->d);
    bool changed = changes != j->changes_seen;
    j->looked_at = uv_hrtime();
    if (changed || hinted || j->more || j->back_off_ms > 0) {
        if (!next_page(j, &page))
            return; /* changes_seen stays: this change has not been looked at yet */
    }
    j->changes_seen = changes;
    if (page != NULL && j->options.settle != NULL && !j->options.settle(j->options.context)) {
        page_drop(page);
        return; /* nothing is told that never got to disk */
    }
    if (page != NULL)
        publish(j, page);
    tell_of_others(j, changed, hinted);
}

/* pause_ns: how long to wait before the next look, hint or not; 0: not at all. */
static uint64_t pause_ns(const struct journal *j)
{
    uint64_t space = (uint64_t)(j->back_off_ms > 0 ? j->back_off_ms : SPACE_MS) * NS_PER_MS;
    uint64_t passed = uv_hrtime() - j->looked_at;
    return passed < space && (!j->more || j->back_off_ms > 0) ? space - passed : 0;
}

/* next_look: waits until it is time to look; false: stop. */
static bool next_look(struct journal *j, bool *hinted)
{
    uint64_t until = uv_hrtime() + JOURNAL_LOOK_MS * NS_PER_MS;
    uv_mutex_lock(&j->lock);
    for (uint64_t ns = 0; !j->stopping && (ns = pause_ns(j)) > 0;)
        (void)uv_cond_timedwait(&j->wake, &j->lock, ns);
    while (!j->stopping && j->page_count == PAGES_WAITING)
        uv_cond_wait(&j->wake, &j->lock);
    j->wakeable = true;
    for (uint64_t now = 0;
         !j->stopping && !(j->hinted && j->eager) && !j->more && (now = uv_hrtime()) < until;)
        (void)uv_cond_timedwait(&j->wake, &j->lock, until - now);
    j->wakeable = false;
    *hinted = j->hinted;
    j->hinted = false;
    j->whole = j->eager || j->options.own_types.count == 0;
    bool goes_on = !j->stopping;
    uv_mutex_unlock(&j->lock);
    return goes_on;
}

static void follow(void *context)
{
    struct journal *j = context;
    job_name_thread("dibs-journal");
    for (bool hinted = false; next_look(j, &hinted);)
        look(j, hinted);
}

void journal_hint(struct journal *j)
{
    uv_mutex_lock(&j->lock);
    bool wake = !j->hinted && j->wakeable && j->eager;
    j->hinted = true;
    uv_mutex_unlock(&j->lock);
    if (wake)
        uv_cond_signal(&j->wake);
}

void journal_set_eager(struct journal *j, bool eager)
{
    uv_mutex_lock(&j->lock);
    j->eager = eager;
    uv_mutex_unlock(&j->lock);
    if (eager)
        uv_cond_signal(&j->wake);
}

/* ---- the loop's side ------------------------------------------------------------------------- */

static void on_async(uv_async_t *async)
{
    struct journal *j = async->data;
    struct page *pages[PAGES_WAITING];
    uv_mutex_lock(&j->lock);
    size_t count = j->page_count;
    for (size_t i = 0; i < count; i++)
        pages[i] = j->pages[i];
    j->page_count = 0;
    uv_mutex_unlock(&j->lock);
    for (size_t i = 0; i < count; i++) {
        j->delivered = pages[i]->through;
        j->options.on_page(j->options.context, pages[i]);
    }
    if (count == PAGES_WAITING) /* else it does not wait for this */
        uv_cond_signal(&j->wake);
}

int64_t journal_last(const struct journal *j)
{
    return j->delivered;
}

/* prepare: opens the store and finds out where the journal ends. */
static dibs_status prepare(struct journal *j, struct dibs_error *err)
{
    struct dibs_options open = {.data_dir = j->options.data_dir, .settings = j->options.settings};
    struct dibs_follow end = {.filter = {.since = INT64_MAX, .limit = 1}};
    struct dibs_followed got = {0};
    j->arena = dibs_arena_new();
    if (j->arena == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot follow the journal: out of memory");
    dibs_status s = dibs_open(&open, &j->d, err);
    if (s != DIBS_OK)
        return s;
    dibs__serve(j->d);
    j->changes_seen = dibs__change_counter(j->d);
    s = dibs__follow(j->d, j->arena, &end, &got, err);
    j->read_to = j->delivered = got.list.last;
    return s;
}

static dibs_status start(struct journal *j, struct dibs_error *err)
{
    const char *what = "no mutex";
    int rc = uv_mutex_init(&j->lock);
    if (rc != 0)
        goto no_lock;
    what = "no condition variable";
    rc = uv_cond_init(&j->wake);
    if (rc != 0)
        goto no_wake;
    what = "no way to wake the loop";
    j->async.data = j;
    rc = uv_async_init(j->options.loop, &j->async, on_async);
    if (rc != 0)
        goto no_async;
    what = "no thread";
    rc = uv_thread_create(&j->thread, follow, j);
    if (rc == 0)
        return DIBS_OK;
    uv_close((uv_handle_t *)&j->async, NULL);
    (void)uv_run(j->options.loop, UV_RUN_NOWAIT); /* else the loop would remember it */
no_async:
    uv_cond_destroy(&j->wake);
no_wake:
    uv_mutex_destroy(&j->lock);
no_lock:
    return error_set(err, DIBS_INTERNAL, "cannot follow the journal: %s: %s", what,
                     uv_strerror(rc));
}

dibs_status journal_start(const struct journal_options *in, struct journal **out,
                          struct dibs_error *err)
{
    struct journal *j = mem_alloc(sizeof *j);
    if (j == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot follow the journal: out of memory");
    j->options = *in;
    dibs_status s = prepare(j, err);
    if (s == DIBS_OK)
        s = start(j, err);
    if (s != DIBS_OK) {
        dibs_close(j->d);
        dibs_arena_free(j->arena);
        mem_free(j);
        return s;
    }
    *out = j;
    return DIBS_OK;
}

void journal_stop(struct journal *j)
{
    uv_mutex_lock(&j->lock);
    j->stopping = true;
    uv_mutex_unlock(&j->lock);
    uv_cond_signal(&j->wake);
    uv_thread_join(&j->thread);
    uv_close((uv_handle_t *)&j->async, NULL);
    for (size_t i = 0; i < j->page_count; i++)
        page_drop(j->pages[i]);
    j->page_count = 0;
    dibs_close(j->d);
    j->d = NULL;
}

void journal_free(struct journal *j)
{
    if (j == NULL)
        return;
    uv_cond_destroy(&j->wake);
    uv_mutex_destroy(&j->lock);
    dibs_arena_free(j->arena);
    mem_free(j);
}
