/* SPDX-License-Identifier: MIT */
/*
 * probe.h: instruments for tests of the store: look into the data file past the library, make each
 * call to the store fail in turn, note the events that callbacks are given.
 */
#ifndef TEST_PROBE_H
#define TEST_PROBE_H

#include "fixture.h"

/* The first column of the first row as an integer; -1 when there is no row. */
int64_t probe_int(struct fixture *f, const char *sql);
/* Every row of every table as text, for comparing; free() it. */
char *probe_tables(struct fixture *f);

/*
 * Runs `op` with the 1st, 2nd, 3rd ... call to the store failing, until it gets through. Each
 * failed run must answer DIBS_STORE_UNAVAILABLE and leave every table as it was. Returns how many
 * runs failed.
 */
typedef dibs_status probe_op(struct fixture *f);
int probe_fail_each(struct fixture *f, probe_op *op);

/* What a callback was given, in order. */
#define PROBE_HEARD_MAX 64
struct probe_ear {
    struct {
        int64_t number;
        char type[48], task_id[48], session_id[48], data[512];
    } heard[PROBE_HEARD_MAX];
    size_t count;
};
/* Subscribes the ear on f->d; types of count 0: all. Returns the subscription. */
int64_t probe_listen(struct fixture *f, struct probe_ear *ear, struct dibs_strings types);
void probe_hear(void *ear, const struct dibs_event *event);

/* Copies a file, byte by byte, as cp does; an existing one is overwritten in place. */
void probe_copy_file(const char *from, const char *to);

#endif
