/* SPDX-License-Identifier: MIT */
/*
 * watch.c: one pidfd per session whose process runs on this host.
 *
 *   1. A pidfd means a process, not a number: opened first, then compared with the start time that
 *      the session registered. A number that was given to somebody else meanwhile is a death.
 *   2. The store decides: a death is reported to the writer, which looks itself before it ends
 *      anything (dibs__session_process_ended).
 *   3. What cannot be watched (no descriptor, too many) is left to the periodic sweep.
 */
#include "watch.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "core/serve.h"

#define LOOK_EVERY_MS 20 /* a crowd that registers at once costs one look */

struct watched {
    uv_poll_t poll;
    struct watch *all;
    struct watched *next;
    int fd;
    int64_t incarnation;
    char id[ID_BYTES_MAX + 1];
};

struct watch {
    struct watch_options o;
    uv_timer_t timer;
    struct watched *first;
    int64_t count;
    bool looking, again, stopped;
};

/* ---- a death --------------------------------------------------------------------------------- */

struct death {
    struct job job;
    int64_t *jobs_out;
    int64_t incarnation;
    char id[ID_BYTES_MAX + 1];
};

static void report(struct job *job, dibs *d, dibs_arena *a)
{
    struct death *death = (struct death *)job;
    struct dibs_error err = {0};
    if (dibs__session_process_ended(d, a, death->id, death->incarnation, &err) != DIBS_OK)
        log_line(LOG_WARN, "cannot end session '%s', whose process is gone: %s", death->id,
                 err.message);
}

static void reported(struct job *job)
{
    struct death *death = (struct death *)job;
    --*death->jobs_out;
    mem_free(death);
}

static void tell_death(struct watch *w, const char *id, int64_t incarnation)
{
    struct death *death = mem_alloc(sizeof *death);
    if (death == NULL)
        return; /* the sweep will find it */
    *death = (struct death){.job = {.run = report, .done = reported},
                            .jobs_out = w->o.jobs_out,
                            .incarnation = incarnation};
    death->job.urgent = true;
    str_fit(death->id, sizeof death->id, id);
    if (writer_submit(w->o.writer, &death->job)) {
        ++*w->o.jobs_out;
        return;
    }
    mem_free(death);
    watch_refresh(w); /* which finds it dead again */
}

/* ---- watching -------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct watched *p = handle->data;
    close(p->fd);
    mem_free(p);
}

static void forget(struct watched **link)
{
    struct watched *p = *link;
    *link = p->next;
    p->all->count--;
    uv_close((uv_handle_t *)&p->poll, on_closed);
}

static void on_exit_of(uv_poll_t *poll, int status, int events)
{
    struct watched *p = poll->data;
    (void)status;
    (void)events;
    tell_death(p->all, p->id, p->incarnation);
    for (struct watched **link = &p->all->first; *link != NULL; link = &(*link)->next)
        if (*link == p) {
            forget(link);
            return;
        }
}

static bool lives(const struct dibs_local_session *s)
{
    const struct dibs_platform *p = dibs_platform_real();
    return p->process_state(p->context, s->pid, s->start) != DIBS_PROCESS_DEAD;
}

static void begin(struct watch *w, const struct dibs_local_session *s)
{
    if (w->count >= WATCHED_MAX)
        return;
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)s->pid, 0);
    if ((fd == -1 && errno == ESRCH) || !lives(s)) {
        if (fd != -1)
            close(fd);
        tell_death(w, s->id, s->incarnation);
        return;
    }
    struct watched *p = fd != -1 ? mem_alloc(sizeof *p) : NULL;
    if (p == NULL || uv_poll_init(w->o.loop, &p->poll, fd) != 0) {
        mem_free(p);
        if (fd != -1)
            close(fd);
        return;
    }
    p->all = w;
    p->fd = fd;
    p->incarnation = s->incarnation;
    p->poll.data = p;
    str_fit(p->id, sizeof p->id, s->id);
    p->next = w->first;
    w->first = p;
    w->count++;
    uv_poll_start(&p->poll, UV_READABLE, on_exit_of);
}

/* ---- looking up ------------------------------------------------------------------------------ */

struct look {
    struct job job;
    struct watch *w;
    dibs_arena *a;
    struct dibs_local_sessions found; /* sorted by id */
    bool *watched;                    /* of each of them: it is watched already */
    dibs_status status;
};

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct dibs_local_session *)a)->id,
                  ((const struct dibs_local_session *)b)->id);
}

static void look_run(struct job *job, dibs *d, dibs_arena *a)
{
    struct look *l = (struct look *)job;
    struct dibs_error err = {0};
    (void)a;
    l->status = dibs__sessions_here(d, l->a, &l->found, &err);
    if (l->status == DIBS_OK) {
        l->watched = arena_alloc(l->a, l->found.count + 1);
        if (l->watched == NULL)
            l->status = error_set(&err, DIBS_OUT_OF_MEMORY, "out of memory");
    }
    if (l->status == DIBS_OK && l->found.count > 1)
        qsort(l->found.items, l->found.count, sizeof *l->found.items, by_id);
    if (l->status != DIBS_OK)
        log_line(LOG_WARN, "cannot look up which sessions run here: %s", err.message);
}

/* is_known: the store still has this one, as the session it was; and so it is watched already. */
static bool is_known(struct look *l, const struct watched *p)
{
    struct dibs_local_session wanted = {.id = p->id};
    const struct dibs_local_session *found =
        l->found.count == 0
            ? NULL
            : bsearch(&wanted, l->found.items, l->found.count, sizeof *l->found.items, by_id);
    if (found == NULL || found->incarnation != p->incarnation)
        return false;
    l->watched[found - l->found.items] = true;
    return true;
}

static void compare(struct watch *w, struct look *l)
{
    for (struct watched **link = &w->first; *link != NULL;)
        if (is_known(l, *link))
            link = &(*link)->next;
        else
            forget(link);
    for (size_t i = 0; i < l->found.count; i++)
        if (!l->watched[i])
            begin(w, &l->found.items[i]);
}

static void start_timer(struct watch *w);

static void look_done(struct job *job)
{
    struct look *l = (struct look *)job;
    struct watch *w = l->w;
    --*w->o.jobs_out;
    w->looking = false;
    if (l->status == DIBS_OK && !w->stopped)
        compare(w, l);
    dibs_arena_free(l->a);
    mem_free(l);
    if (w->again && !w->stopped)
        start_timer(w);
}

static void on_timer(uv_timer_t *timer)
{
    struct watch *w = timer->data;
    struct look *l = mem_alloc(sizeof *l);
    dibs_arena *a = l != NULL ? dibs_arena_new() : NULL;
    if (a == NULL) {
        mem_free(l);
        return;
    }
    *l = (struct look){.job = {.run = look_run, .done = look_done}, .w = w, .a = a};
    w->looking = true;
    w->again = false;
    ++*w->o.jobs_out;
    if (!readers_submit(w->o.readers, &l->job)) {
        l->status = DIBS_STORE_BUSY;
        w->again = true;
        look_done(&l->job);
    }
}

static void start_timer(struct watch *w)
{
    uv_timer_start(&w->timer, on_timer, LOOK_EVERY_MS, 0);
}

void watch_refresh(struct watch *w)
{
    if (w->stopped)
        return;
    if (w->looking)
        w->again = true;
    else if (!uv_is_active((uv_handle_t *)&w->timer))
        start_timer(w);
}

struct watch *watch_new(const struct watch_options *in)
{
    struct watch *w = mem_alloc(sizeof *w);
    if (w == NULL)
        return NULL;
    w->o = *in;
    uv_timer_init(in->loop, &w->timer);
    w->timer.data = w;
    return w;
}

int64_t watch_count(const struct watch *w)
{
    return w->count;
}

void watch_stop(struct watch *w)
{
    w->stopped = true;
    while (w->first != NULL)
        forget(&w->first);
    uv_close((uv_handle_t *)&w->timer, NULL);
}

void watch_free(struct watch *w)
{
    mem_free(w);
}
