/* SPDX-License-Identifier: MIT */
/*
 * acts.h: the operations as a worker does them who may be killed at any moment: a note before
 * asking, a note of the answer. acked.h compares the notes with what is in the store afterwards.
 *
 * Whatever a worker sends along can be told from the token: the result of token 7 is {"token":7}.
 */
#ifndef TEST_ACTS_H
#define TEST_ACTS_H

#include "workers.h"

enum act {
    ACT_OPEN,
    ACT_REGISTER,
    ACT_CREATE, /* `number` tasks called subject.0, subject.1 ... in one call */
    ACT_BATCH,  /* the same, one call each, in one transaction */
    ACT_ONCE,   /* one task of type subject, under the idempotency key subject; `holder`: its id */
    ACT_CLAIM,
    ACT_NEXT,
    ACT_BEAT,
    ACT_PROGRESS, /* `number` percent */
    ACT_COMPLETE,
    ACT_FAIL,
    ACT_RELEASE,
    ACT_LOCK,
    ACT_UNLOCK,
    ACT_SESSION_BEAT,
    ACT_PRUNE,
    ACT_CLEANUP,
    ACT_READ, /* writes nothing */
};
const char *act_name(enum act act);

struct held {
    char subject[64];
    int64_t token;
    bool is_lock;
};

dibs_status act_open(struct worker *w);
dibs_status act_register(struct worker *w);
dibs_status act_create(struct worker *w, const char *subject, int count);
dibs_status act_batch(struct worker *w, const char *subject, int count);
dibs_status act_once(struct worker *w, const char *key);
dibs_status act_claim(struct worker *w, const char *task, struct held *out);
dibs_status act_next(struct worker *w, struct held *out);
dibs_status act_beat(struct worker *w, const struct held *h);
dibs_status act_progress(struct worker *w, const struct held *h, int percent);
dibs_status act_complete(struct worker *w, const struct held *h);
dibs_status act_fail(struct worker *w, const struct held *h);
dibs_status act_release(struct worker *w, const struct held *h);
dibs_status act_lock(struct worker *w, const char *resource, bool shared, int64_t wait_ms,
                     struct held *out);
dibs_status act_unlock(struct worker *w, const struct held *h);
dibs_status act_session_beat(struct worker *w);
dibs_status act_prune(struct worker *w);
dibs_status act_cleanup(struct worker *w);
dibs_status act_read(struct worker *w);

void result_of(int64_t token, char out[48]); /* what ACT_COMPLETE sends along */

#endif
