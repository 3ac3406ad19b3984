/* SPDX-License-Identifier: MIT */
/*
 * scene.h: a store in which there is something of everything, for operations that are made to fail,
 * and a digest of all its tables, to see that nothing has changed.
 *
 *   sessions  ann-1 (agent ann, its process runs), bob-1 (agent bob), silent (stale by now),
 *             dead (its process has died)
 *   tasks     open, held (by ann-1, with a checkpoint), held-too (by bob-1), after-held (waits for
 *             held), lapsed (by bob-1, past its deadline), of-silent, of-dead, offered and
 *             reviewing (to ann), assigned (to ann), blocked, done, failed, cancelled, delayed;
 *             all but old were made after the events that a prune removes
 *   locks     one (by ann-1), many (shared by ann-1 and bob-1), past (by bob-1)
 */
#ifndef TEST_SCENE_H
#define TEST_SCENE_H

#include "fixture.h"

struct sqlite3;
struct sqlite3_stmt;

#define SCENE_TABLES 24

struct scene {
    struct fixture *f;
    dibs *d; /* f->d */
    struct dibs_error err;
    dibs *other;          /* a second handle; NULL until somebody needs one */
    struct sqlite3 *look; /* reads the tables, past the library */
    struct sqlite3_stmt *tables[SCENE_TABLES];
    int64_t events_seen; /* by a callback */
    int64_t token;       /* of ann-1 on held */
};

/* The setup and teardown of the whole group: the store is built once, and nothing of it stays. */
int scene_begin(void **state);
int scene_end(void **state);
/* Opens the store; its file is as it was when it was built. */
void scene_open(struct scene *s);
void scene_close(struct scene *s);              /* safe to call twice */
void scene_look(struct scene *s, bool is_open); /* opens or closes the eye on the tables */
/* A hash of every row of every table. */
uint64_t scene_digest(struct scene *s);
/* Deep diagnosis: fails the test when anything is bad. */
void scene_verify(struct scene *s);

#endif
