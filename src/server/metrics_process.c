/* SPDX-License-Identifier: MIT */
/*
 * metrics_process.c: memory, descriptors and processor time of this process, from the kernel.
 *
 * Asked on the loop thread, so it must be quick also with 10,000 connections: newer kernels tell
 * the number of descriptors as the size of /proc/self/fd; where they do not, the names are counted.
 * What cannot be found out is 0.
 */
#include "metrics_process.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t resident_bytes(void)
{
    int64_t size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    int found = fscanf(file, "%" SCNd64 " %" SCNd64, &size, &pages);
    fclose(file);
    return found == 2 ? pages * sysconf(_SC_PAGESIZE) : 0;
}

static int64_t open_fds(void)
{
    struct stat about = {0};
    int64_t count = 0;
    if (stat("/proc/self/fd", &about) == 0 && about.st_size > 0)
        return about.st_size;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; /* the folder itself was one */
}

static int64_t micros(struct timeval t)
{
    return (int64_t)t.tv_sec * 1000000 + t.tv_usec;
}

struct process_numbers process_numbers(void)
{
    struct process_numbers p = {.resident_bytes = resident_bytes(), .open_fds = open_fds()};
    struct rlimit limit = {0};
    struct rusage usage = {0};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < INT64_MAX)
        p.max_fds = (int64_t)limit.rlim_cur;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        p.cpu_micros = micros(usage.ru_utime) + micros(usage.ru_stime);
    return p;
}
