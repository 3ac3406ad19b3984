/* SPDX-License-Identifier: MIT */
/*
 * keys.c: brings the loop's copy of the API keys up to date after a change, whoever made it.
 *
 *   1. One look at a time: an older list can never replace a newer one. A change that is noticed
 *      while a look is under way is followed by another look.
 *   2. A look that fails is repeated (keys_tick) until one succeeds.
 *   3. Whoever changed a key is answered when the change is in force here (keys_then).
 *   4. What a key that is no longer good has under way ends: its streams, and its calls that wait.
 */
#include "server_private.h"

#include "base/log.h"

struct look {
    struct job job;
    struct server *s;
    dibs_arena *a; /* of its own: the list outlives the reader's */
    struct dibs_key_list list;
    dibs_status status;
    struct dibs_error err;
};

static void look_run(struct job *job, dibs *d, dibs_arena *a)
{
    struct look *l = (struct look *)job;
    (void)a;
    l->status = dibs__keys_load(d, l->a, &l->list, &l->err);
}

static void look_lost(struct job *job, const struct dibs_error *err)
{
    struct look *l = (struct look *)job;
    l->status = err->code;
    l->err = *err;
}

static bool is_good(void *context, struct conn *c)
{
    struct server *s = context;
    const struct asked *asked = conn_data(c);
    return asked == NULL || asked->key_id[0] == '\0' || auth_key_is_good(s->auth, asked->key_id);
}

/* end_call: hangs up on a caller whose key was revoked while it waited. */
static void end_call(void *context, struct conn *c)
{
    struct asked *asked = conn_data(c);
    if (is_good(context, c) || asked->job == NULL)
        return;
    call_leave(asked, false);
    conn_close(c, false);
    writer_forget(((struct server *)context)->writer);
}

static void answer_waiting(struct server *s)
{
    struct job *job = jobs_take_all(&s->keys.then);
    for (struct job *next = NULL; job != NULL; job = next) {
        next = job->next;
        job->done(job);
    }
}

static void look_done(struct job *job)
{
    struct look *l = (struct look *)job;
    struct server *s = l->s;
    s->jobs_out--;
    s->keys.looking = false;
    bool fine = l->status == DIBS_OK && auth_set_keys(s->auth, &l->list);
    if (!fine)
        log_line(LOG_ERROR, "cannot read the API keys, trying again: %s",
                 l->status != DIBS_OK ? l->err.message : "out of memory");
    dibs_arena_free(l->a);
    mem_free(l);
    s->keys.again = s->keys.again || !fine;
    if (fine) {
        sse_review(s->sse, is_good, s);
        conns_each_asked(s->conns, end_call, s);
    }
    if (fine && s->keys.again)
        keys_refresh(s);
    if (!s->keys.looking && ((fine && !s->keys.again) || s->stopping))
        answer_waiting(s);
}

void keys_refresh(struct server *s)
{
    s->keys.again = true;
    if (s->keys.looking)
        return;
    struct look *l = mem_alloc(sizeof *l);
    dibs_arena *a = l != NULL ? dibs_arena_new() : NULL;
    if (a == NULL) {
        mem_free(l);
        return; /* keys_tick tries again */
    }
    *l = (struct look){.job = {.run = look_run, .done = look_done, .lost = look_lost},
                       .s = s,
                       .a = a,
                       .status = DIBS_STORE_BUSY};
    if (!readers_submit(s->readers, &l->job)) {
        dibs_arena_free(a);
        mem_free(l);
        return;
    }
    s->jobs_out++;
    s->keys.looking = true;
    s->keys.again = false;
}

void keys_tick(struct server *s)
{
    if (s->keys.again && !s->keys.looking)
        keys_refresh(s);
}

void keys_then(struct server *s, struct job *job)
{
    jobs_add(&s->keys.then, job);
    keys_refresh(s);
    if (!s->keys.looking && s->stopping)
        answer_waiting(s);
}
