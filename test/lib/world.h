/* SPDX-License-Identifier: MIT */
/*
 * world.h: a machine for tests: its clocks are moved by hand, its processes live and die by hand,
 * its chance comes from a seed. Nothing here sleeps: sleep_ms moves the clocks.
 */
#ifndef TEST_WORLD_H
#define TEST_WORLD_H

#include "dibs.h"

#define WORLD_PROCESSES_MAX 64

struct world {
    struct dibs_platform platform; /* pass &world->platform to dibs_open */
    int64_t wall_ms, steady_ms;
    char boot[64];
    char host[129];
    uint64_t seed;
    struct {
        int64_t pid;
        char start[64];
    } processes[WORLD_PROCESSES_MAX];
    size_t process_count;
    const char *network_fs; /* NULL: the disk is local */
    int64_t slept_ms;       /* how long sleep_ms was asked to sleep, in all */
    /* called in sleep_ms: "meanwhile, somebody else ..." */
    void (*on_sleep)(struct world *world, void *context);
    void *on_sleep_context;
};

void world_init(struct world *w);
void world_pass(struct world *w, int64_t ms); /* time passes: both clocks move */
/* somebody sets the time of day; nothing else changes */
void world_set_clock(struct world *w, int64_t ms);
/* the machine sleeps: the time of day moves on, the steady clock not */
void world_suspend(struct world *w, int64_t ms);
/* new boot id, steady clock from near 0, all processes gone */
void world_reboot(struct world *w, int64_t down_ms);
/* with a start time no other process ever had */
void world_start_process(struct world *w, int64_t pid);
void world_kill_process(struct world *w, int64_t pid);

#endif
