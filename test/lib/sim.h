/* SPDX-License-Identifier: MIT */
/*
 * sim.h: a random life of a store, from a seed, beside the model.
 *
 * One step is one operation (or a batch of them, a move of the clocks, a death): it is written into
 * the trace, done on the store, done on the model, and then both are compared. Everything random
 * comes from the seed, so the same seed is the same life, down to the text of the journal.
 */
#ifndef TEST_SIM_H
#define TEST_SIM_H

#include "model.h"

#define SIM_TRACE 1000 /* lines kept; a replay shows them all, a failure the last of them */
#define SIM_LINE 200

struct sim {
    struct fixture *f;
    dibs *handles[2], *d; /* d: the one of this step */
    dibs_arena *a;        /* emptied after each step */
    struct dibs_error err;
    struct model m, saved; /* saved: as before the batch */
    bool in_batch;
    uint64_t chance, seed;
    int step, steps;
    int64_t steady_seen;  /* how far the model has followed the world */
    int64_t shift_before; /* of this operation, which a refusal may undo */
    char trace[SIM_TRACE][SIM_LINE];
    int traced;
};

/* ---- chance ---------------------------------------------------------------------------------- */

uint64_t sim_random(struct sim *s);
int sim_below(struct sim *s, int n); /* 0 .. n - 1 */
static inline bool sim_percent(struct sim *s, int p)
{
    return sim_below(s, 100) < p;
}
#define SIM_PICK(s, array) ((array)[sim_below(s, (int)(sizeof(array) / sizeof *(array)))])

/* ---- the course of a step -------------------------------------------------------------------- */

/* Follows the world's time, ends leases, and notes the operation in the trace. */
void sim_begin(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Compares the answers; then takes back a move of the clock that the store has undone. */
void sim_answer(struct sim *s, dibs_status expected, dibs_status answered);
void sim_fail(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_follow(struct sim *s); /* time and deadlines only */

/* A claim that the model has granted gets the number that the store gave it. */
void sim_adopt_token(struct sim *s, struct m_claim *c, int64_t token);

/* ---- choices that several operations make ---------------------------------------------------- */

int sim_task(struct sim *s);                       /* mostly one that is there; NOBODY sometimes */
int sim_task_in(struct sim *s, unsigned statuses); /* one in these states, if there is one */
int sim_session(struct sim *s);                    /* any, also one that is not registered */
int sim_live_session(struct sim *s);               /* mostly one that is */
const char *sim_id(struct sim *s, int task);
/* A task and a session, mostly the one that holds it, and a token, mostly right or 0. */
void sim_holder(struct sim *s, int *task, int *session, int64_t *token);
extern const char *const sim_agents[3];
extern const char *const sim_projects[2];
extern const char *const sim_types[3];
extern const int64_t sim_ttls[12]; /* the last one is refused */
struct dibs_strings sim_tags(unsigned mask, const char *room[3]);

typedef void sim_op(struct sim *s);
struct sim_row {
    int weight;
    sim_op *op;
    bool not_in_batch;
};
/* end with weight 0; the first row creates a task, registers a session */
extern const struct sim_row sim_task_ops[], sim_move_ops[], sim_session_ops[], sim_serve_ops[];

/* ---- the whole ------------------------------------------------------------------------------- */

/* Lives `steps` steps; returns a hash of the journal. Fails the test at the first disagreement. */
uint64_t sim_run(struct fixture *f, uint64_t seed, int steps);

#endif
