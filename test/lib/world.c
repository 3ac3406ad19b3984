/* SPDX-License-Identifier: MIT */
/* world.c: see world.h. */
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define START_OF_TIME 1766923200000 /* 2025-12-28T12:00:00Z */

static int64_t wall_ms(void *context)
{
    return ((struct world *)context)->wall_ms;
}
static int64_t steady_ms(void *context)
{
    return ((struct world *)context)->steady_ms;
}

static void boot_id(void *context, char out[64])
{
    snprintf(out, 64, "%s", ((struct world *)context)->boot);
}

static void sleep_ms(void *context, int64_t ms)
{
    struct world *w = context;
    w->slept_ms += ms;
    world_pass(w, ms);
    if (w->on_sleep)
        w->on_sleep(w, w->on_sleep_context);
}

static void random_bytes(void *context, void *out, size_t bytes)
{
    struct world *w = context;
    unsigned char *p = out;
    for (size_t i = 0; i < bytes; i++) { /* xorshift64* */
        w->seed ^= w->seed >> 12;
        w->seed ^= w->seed << 25;
        w->seed ^= w->seed >> 27;
        p[i] = (unsigned char)((w->seed * 2685821657736338717u) >> 56);
    }
}

static void host(void *context, char out[129])
{
    snprintf(out, 129, "%s", ((struct world *)context)->host);
}

static bool process_start(void *context, int64_t pid, char out[64])
{
    struct world *w = context;
    for (size_t i = 0; i < w->process_count; i++) {
        if (w->processes[i].pid != pid)
            continue;
        snprintf(out, 64, "%s", w->processes[i].start);
        return true;
    }
    return false;
}

static enum dibs_process process_state(void *context, int64_t pid, const char *start)
{
    char now[64] = "";
    if (!process_start(context, pid, now))
        return DIBS_PROCESS_DEAD;
    return !start || strcmp(start, now) == 0 ? DIBS_PROCESS_ALIVE : DIBS_PROCESS_DEAD;
}

static const char *network_fs(void *context, const char *path)
{
    (void)path;
    return ((struct world *)context)->network_fs;
}

void world_init(struct world *w)
{
    *w = (struct world){.wall_ms = START_OF_TIME,
                        .steady_ms = 1000000,
                        .boot = "boot-1",
                        .host = "testhost",
                        .seed = 88172645463325252u};
    w->platform = (struct dibs_platform){.context = w,
                                         .wall_ms = wall_ms,
                                         .steady_ms = steady_ms,
                                         .boot_id = boot_id,
                                         .sleep_ms = sleep_ms,
                                         .random = random_bytes,
                                         .host = host,
                                         .process_start = process_start,
                                         .process_state = process_state,
                                         .network_fs = network_fs};
}

void world_pass(struct world *w, int64_t ms)
{
    w->wall_ms += ms;
    w->steady_ms += ms;
}

void world_set_clock(struct world *w, int64_t ms)
{
    w->wall_ms = ms;
}

void world_suspend(struct world *w, int64_t ms)
{
    w->wall_ms += ms;
}

void world_reboot(struct world *w, int64_t down_ms)
{
    static int boots = 1;
    w->wall_ms += down_ms;
    w->steady_ms = 5000;
    w->process_count = 0;
    snprintf(w->boot, sizeof w->boot, "boot-%d", ++boots);
}

void world_start_process(struct world *w, int64_t pid)
{
    static int starts;
    if (w->process_count == WORLD_PROCESSES_MAX)
        return;
    w->processes[w->process_count].pid = pid;
    snprintf(w->processes[w->process_count].start, 64, "start-%d", ++starts);
    w->process_count++;
}

void world_kill_process(struct world *w, int64_t pid)
{
    for (size_t i = 0; i < w->process_count; i++) {
        if (w->processes[i].pid != pid)
            continue;
        w->processes[i] = w->processes[--w->process_count];
        return;
    }
}
