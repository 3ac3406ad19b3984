/* SPDX-License-Identifier: MIT */
/*
 * waiting.c: see waiting.h. Everything here runs on the writer thread.
 */
#include "waiting.h"

/* Askers that found nothing in this round, by what they asked for. Beyond so many kinds the rest
 * simply look themselves. */
#define KINDS_MAX 64

/* So many look again in one batch without cause, so that others need not wait for a thousand. */
#define HEARD_MAX 64

struct round {
    const dibs *d;
    int64_t now_ms;
    int heard;           /* that have looked again without cause */
    bool all;            /* anything may have changed */
    bool tasks, locks;   /* what has */
    int64_t agents_seen; /* for whom, since then: dibs__is_woken */
    uint64_t nothing[KINDS_MAX];
    size_t count;
};

void waiting_init(struct waiting *w)
{
    *w = (struct waiting){.next_ms = INT64_MAX};
    jobs_init(&w->list);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void keep(struct waiting *w, struct job *job)
{
    job->has_waited = true;
    jobs_add(&w->list, job);
    w->next_ms = sooner(w->next_ms, sooner(job->wait_until_ms, job->look_at_ms));
}

void waiting_add(struct waiting *w, struct job *job, int64_t now_ms)
{
    job->look_at_ms = now_ms + w->look_every_ms;
    keep(w, job);
}

static struct round what_changed(const struct waiting *w, const dibs *d, struct dibs_wakes now,
                                 int64_t now_ms)
{
    return (struct round){.d = d,
                          .now_ms = now_ms,
                          .all = w->look,
                          .tasks = w->look || now.tasks != w->seen.tasks,
                          .locks = w->look || now.locks != w->seen.locks,
                          .agents_seen = w->seen.agents};
}

bool waiting_is_due(const struct waiting *w, struct dibs_wakes now, int64_t now_ms)
{
    if (w->list.first == NULL)
        return false;
    return w->all_give_up || w->look || now.tasks != w->seen.tasks ||
           now.agents != w->seen.agents || now.locks != w->seen.locks || now_ms >= w->next_ms;
}

static bool found_nothing(const struct round *r, uint64_t key)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->nothing[i] == key)
            return true;
    return false;
}

static bool is_woken(const struct round *r, uint64_t key)
{
    return key != 0 && (r->all || dibs__is_woken(r->d, r->agents_seen, key));
}

/* may_find: what is for an agent concerns its askers only, so they look, whoever found nothing. */
static bool may_find(const struct round *r, const struct job *job)
{
    if (job->waits_for == JOB_WAITS_FOR_LOCK)
        return r->locks;
    if (is_woken(r, job->wait_agent) || is_woken(r, job->wait_leads))
        return true;
    if (!r->tasks || job->wait_not_pool)
        return false;
    return job->wait_key == 0 || !found_nothing(r, job->wait_key);
}

/* must_be_heard: a little early, so that those who began to wait one after another look together;
 * at once when the setting has become shorter. */
static bool must_be_heard(struct waiting *w, struct round *r, const struct job *job)
{
    int64_t left = job->look_at_ms - r->now_ms;
    if (left > w->look_every_ms / 4 && left <= w->look_every_ms)
        return false;
    if (r->heard == HEARD_MAX) {
        w->next_ms = 0; /* the rest in the next batch */
        return false;
    }
    r->heard++;
    return true;
}

static bool stays(const struct waiting *w, struct job *job, int64_t now_ms)
{
    return !atomic_load(&job->gone) && !atomic_load(&job->leaving) && !w->all_give_up &&
           now_ms < job->wait_until_ms;
}

/* note_nothing: who did not look at the pool speaks for himself only. */
static void note_nothing(struct round *r, const struct job *job)
{
    bool of_pool = job->wait_key != 0 && !job->wait_not_pool;
    if (of_pool && r->count < KINDS_MAX && !found_nothing(r, job->wait_key))
        r->nothing[r->count++] = job->wait_key;
}

/* is_through: looks again if that may help; true when the job has its answer. */
static bool is_through(struct waiting *w, struct round *r, struct job *job, dibs *d, dibs_arena *a)
{
    if (!atomic_load(&job->gone) && (may_find(r, job) || must_be_heard(w, r, job))) {
        job->run(job, d, a);
        dibs_arena_reset(a);
        if (job->waits_for == JOB_WAITS_NOT)
            return true;
        note_nothing(r, job);
        job->look_at_ms = r->now_ms + w->look_every_ms;
    }
    if (stays(w, job, r->now_ms))
        return false;
    if (job->give_up != NULL)
        job->give_up(job, d, a);
    dibs_arena_reset(a);
    return true;
}

void waiting_run(struct waiting *w, dibs *d, dibs_arena *a, int64_t now_ms, struct jobs *finished)
{
    struct dibs_wakes before = dibs__wakes(d);
    struct round r = what_changed(w, d, before, now_ms);
    struct job *job = jobs_take_all(&w->list);
    w->next_ms = INT64_MAX;
    w->look = false;
    for (struct job *next = NULL; job != NULL; job = next) {
        next = job->next;
        if (is_through(w, &r, job, d, a))
            jobs_add(finished, job);
        else
            keep(w, job);
    }
    /* what they did themselves (a lock handed on by one who gave up) is looked at next time */
    w->seen = before;
}

void waiting_lose(struct waiting *w, int64_t now_ms, bool all, struct jobs *finished)
{
    struct job *job = jobs_take_all(&w->list);
    w->next_ms = INT64_MAX;
    for (struct job *next = NULL; job != NULL; job = next) {
        next = job->next;
        if (!all && stays(w, job, now_ms))
            keep(w, job);
        else
            jobs_add(finished, job);
    }
}
