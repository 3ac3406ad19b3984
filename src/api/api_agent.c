/* SPDX-License-Identifier: MIT */
/*
 * api_agent.c: what the journal says of each agent. Agents themselves, as objects with a capacity
 * and an inbox, are not here yet: a name that sessions carry is enough to keep score.
 */
#include "api_internal.h"

const struct api_shape api_in_agent_scores = {.id_at = SHAPE_NO_ID};

static void enc_score(struct jw *w, const struct dibs_score *s)
{
    jw_object(w);
    jw_ktext(w, "agent", s->agent);
    jw_kint(w, "claimed", s->claimed);
    jw_kint(w, "completed", s->completed);
    jw_kint(w, "failed", s->failed);
    jw_kint(w, "expired", s->expired);
    jw_kint(w, "orphaned", s->orphaned);
    jw_kint(w, "released", s->released);
    jw_kint(w, "refused", s->refused);
    jw_kint(w, "lateResults", s->late_results);
    jw_kint(w, "averageDurationMs", s->average_ms);
    jw_ktime(w, "lastActive", s->last_active_ms);
    jw_object_end(w);
}

dibs_status api_agent_scores(struct api_ctx *c, const void *input)
{
    struct dibs_score_list list = {0};
    (void)input;
    dibs_status s = dibs_scores(c->d, c->a, &list, c->err);
    if (s != DIBS_OK)
        return s;
    struct jw *w = api_reply(c);
    jw_karray(w, "scores");
    for (size_t i = 0; i < list.count; i++)
        enc_score(w, &list.items[i]);
    jw_array_end(w);
    return DIBS_OK;
}
