/* SPDX-License-Identifier: MIT */
/*
 * measure.c: the clock, the processor's time of a server, percentiles.
 *
 * A server's time is read from /proc: of every thread of every process below its first one, in
 * nanoseconds (schedstat), and of children that have ended and were waited for, in ticks. So
 * PostgreSQL's backends count, and so do its helpers.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

double own_cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t read_file(const char *path, char *out, size_t bytes)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    size_t count = fread(out, 1, bytes - 1, file);
    fclose(file);
    out[count] = '\0';
    return count;
}

/* The time of children that have ended and were waited for. */
static double reaped_s(int pid)
{
    char path[64], text[1024];
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    read_file(path, text, sizeof text);
    const char *rest = strrchr(text, ')'); /* the name before it may contain anything */
    if (rest == NULL ||
        sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %lu %lu", &user,
               &system) != 2)
        return 0;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double thread_s(int pid, const char *thread)
{
    char path[320], text[128];
    uint64_t ns = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, thread);
    if (read_file(path, text, sizeof text) == 0 || sscanf(text, "%" SCNu64, &ns) != 1)
        return 0;
    return (double)ns / 1e9;
}

/* Children of one thread, and theirs. */
static double children_s(int pid, const char *thread)
{
    char path[320], text[16384];
    double sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%s/children", pid, thread);
    read_file(path, text, sizeof text);
    char *next = text;
    for (long child = 0; (child = strtol(next, &next, 10)) > 0;)
        sum += tree_cpu_s((int)child);
    return sum;
}

double tree_cpu_s(int pid)
{
    char path[64];
    double sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return 0;
    for (struct dirent *task = NULL; (task = readdir(tasks)) != NULL;) {
        if (task->d_name[0] != '.')
            sum += thread_s(pid, task->d_name) + children_s(pid, task->d_name);
    }
    closedir(tasks);
    return sum + reaped_s(pid);
}

double machine_cpu_s(void)
{
    char text[512];
    unsigned long user = 0, nice = 0, system = 0, idle = 0, io = 0, irq = 0, soft = 0, steal = 0;
    read_file("/proc/stat", text, sizeof text);
    if (sscanf(text, "cpu %lu %lu %lu %lu %lu %lu %lu %lu", &user, &nice, &system, &idle, &io, &irq,
               &soft, &steal) != 8)
        return 0;
    return (double)(user + nice + system + irq + soft + steal) / (double)sysconf(_SC_CLK_TCK);
}

static int by_value(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

void sort_latencies(uint32_t *ns, size_t count)
{
    qsort(ns, count, sizeof *ns, by_value);
}

double percentile_us(const uint32_t *sorted_ns, size_t count, double part)
{
    if (count == 0)
        return 0;
    return (double)sorted_ns[(size_t)(part * (double)(count - 1) + 0.5)] / 1e3;
}
