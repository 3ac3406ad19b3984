/* SPDX-License-Identifier: MIT */
/*
 * workers.h: real processes that share one store, and what each of them was answered.
 *
 *     static void job(struct worker *w)           runs in a process of its own
 *     {
 *         worker_open(w);
 *         crew_barrier(w);                        all begin at the same moment
 *         must(w, dibs_claim_next(w->d, ...));
 *         worker_note(w, (struct note){...});
 *     }
 *     struct crew *c = crew_start(place, 10, job, NULL);
 *     crew_wait(c);
 *     struct notes n = crew_notes(c, 3);
 *     crew_free(c);
 *
 * A note is one write(2) to the worker's own file: once on disk cache it survives kill -9, so a
 * worker writes it before it asks and again when it has the answer. Workers die with the test.
 *
 * Stores of these tests lie in memory (/dev/shm) unless TMPDIR or DIBS_TEST_DISK is set or there is
 * too little of it: the fewer milliseconds a flush takes, the harder processes press each other.
 * DIBS_TEST_SCALE multiplies counts; DIBS_TEST_SEED replays a run's choices.
 */
#ifndef TEST_WORKERS_H
#define TEST_WORKERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "dibs.h"

/* ---- a folder of its own for each test ------------------------------------------------------- */

struct place {
    char dir[64]; /* the test's folder; the store is in dir/.dibs */
    char data_dir[80];
    struct dibs_strings settings; /* for every handle opened here */
    bool skip_check;              /* leave out the deep check at the end */
    int crews;                    /* how many there have been; names their notes */
};
int place_setup(void **state);      /* in memory if possible */
int place_setup_disk(void **state); /* under TMPDIR or /tmp: with the disk's real flushes */
int place_teardown(void **state);   /* the deep check must find nothing bad */
#define PLACE_TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
#define DISK_PLACE_TEST(name)                                                                      \
    cmocka_unit_test_setup_teardown(name, place_setup_disk, place_teardown)

dibs *place_open(struct place *p); /* makes the store if there is none; expects success */
/* Whether the deep check finds the store whole, the journal in agreement with the tables; prints
 * what is not. */
bool place_is_sound(struct place *p, dibs *d);

/* ---- scale and chance ------------------------------------------------------------------------ */

int scaled(int full, int least); /* full times DIBS_TEST_SCALE, at least `least` */
/* DIBS_TEST_SEED, else a new one; printed, so that a failing run tells how to repeat its choices */
uint64_t test_seed(void);
uint64_t chance(uint64_t *seed); /* the next number (splitmix64) */
int64_t steady_ms(void);

/* ---- workers --------------------------------------------------------------------------------- */

struct crew;
struct worker {
    struct crew *crew;
    struct place *place;
    int number;  /* 0, 1 ... */
    char id[48]; /* its session */
    dibs *d;
    dibs_arena *a;
    struct dibs_error err;
    uint64_t seed;
    int file;      /* its notes */
    void *context; /* the test's */
};
typedef void worker_job(struct worker *w);

struct crew *crew_start(struct place *p, int count, worker_job *job, void *context);
void crew_barrier(struct worker *w); /* waits until every worker of the crew has come here */
/* Waits for the end of all, expects that each found all well; the first that did not ends the
 * others. */
void crew_wait(struct crew *c);
void crew_kill(struct crew *c);                          /* kill -9, all, and wait */
void crew_signal(struct crew *c, int number, int which); /* one of them */
int crew_count(const struct crew *c);
void crew_free(struct crew *c);

/* A worker that is this very process: a test program that was started to be one. */
void worker_alone(struct worker *w, struct place *p, const char *id, const char *notes);
void worker_open(struct worker *w);     /* opens its handle; expects success */
void worker_register(struct worker *w); /* its session, with its process id */
/* Ends the worker with a message unless it was answered DIBS_OK. */
#define must(w, call) worker_must(w, (call), #call, __FILE__, __LINE__)
void worker_must(struct worker *w, dibs_status s, const char *call, const char *file, int line);
#define check(w, truth) worker_check(w, (truth), #truth, __FILE__, __LINE__)
void worker_check(struct worker *w, bool truth, const char *text, const char *file, int line);
int64_t worker_journal_end(struct worker *w); /* number of the newest event */

/* ---- notes ----------------------------------------------------------------------------------- */

#define ASKED (-1) /* status of a note written before the answer */

struct note {
    int32_t act; /* what was asked; the test's own numbers */
    int32_t status;
    int64_t token;
    int64_t number;   /* whatever belongs to the act */
    int64_t from, to; /* newest event before the question and after the answer */
    int64_t at_ms;    /* store time before the question */
    char subject[64]; /* task id, resource */
    char holder[48];  /* who was named as the holder */
};
struct notes {
    struct note *items; /* free */
    size_t count;
};
void worker_note(struct worker *w, struct note note);
struct notes crew_notes(struct crew *c, int number);
struct notes notes_read(const char *path);

/* ---- waiting --------------------------------------------------------------------------------- */

void *shared_memory(size_t bytes); /* zeroed, and the same memory in all workers started later */
/* Waits for a condition; false when it has not come true in that time. */
bool wait_until(bool (*condition)(void *context), void *context, int64_t ms);
void pause_ms(int64_t ms); /* for moments that are meant to be random */

#endif
