/* SPDX-License-Identifier: MIT */
/*
 * in_memory.h: for tests that make thousands of commits and are not about disks: the folders of
 * their stores lie in memory, unless TMPDIR or DIBS_TEST_DISK says otherwise. First thing in
 * main().
 */
#ifndef TEST_IN_MEMORY_H
#define TEST_IN_MEMORY_H

#include <stdlib.h>
#include <unistd.h>

static inline void stores_in_memory(void)
{
    if (!getenv("DIBS_TEST_DISK") && access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0);
}

#endif
