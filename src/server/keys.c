/* SPDX-License-Identifier: MIT */
/*
 * keys.c: brings the loop's copy of the API keys up to date after a key:* event, whoever made it.
 * The list travels in an arena of its own, as it outlives the reader's.
 */
#include "server_private.h"

#include "base/log.h"

struct refresh {
    struct job job;
    struct server *s;
    dibs_arena *a;
    struct dibs_key_list list;
    dibs_status status;
    struct dibs_error err;
};

static void load(struct job *job, dibs *d, dibs_arena *a)
{
    struct refresh *r = (struct refresh *)job;
    (void)a;
    r->status = dibs__keys_load(d, r->a, &r->list, &r->err);
}

static bool is_good(void *context, struct conn *c)
{
    struct server *s = context;
    const struct asked *asked = conn_data(c);
    return asked == NULL || asked->key_id[0] == '\0' || auth_key_is_good(s->auth, asked->key_id);
}

static void use(struct job *job)
{
    struct refresh *r = (struct refresh *)job;
    r->s->jobs_out--;
    if (r->status != DIBS_OK)
        log_line(LOG_ERROR, "cannot read the API keys: %s", r->err.message);
    else if (!auth_set_keys(r->s->auth, &r->list))
        log_line(LOG_ERROR, "cannot keep the API keys: out of memory");
    else
        sse_review(r->s->sse, is_good, r->s);
    dibs_arena_free(r->a);
    mem_free(r);
}

void keys_refresh(struct server *s)
{
    struct refresh *r = mem_alloc(sizeof *r);
    dibs_arena *a = r != NULL ? dibs_arena_new() : NULL;
    if (a == NULL) {
        mem_free(r);
        log_line(LOG_ERROR, "cannot read the API keys: out of memory");
        return;
    }
    *r = (struct refresh){.job = {.run = load, .done = use}, .s = s, .a = a};
    if (readers_submit(s->readers, &r->job)) {
        s->jobs_out++;
        return;
    }
    log_line(LOG_ERROR, "cannot read the API keys: too much to do");
    dibs_arena_free(a);
    mem_free(r);
}
