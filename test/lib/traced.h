/* SPDX-License-Identifier: MIT */
/*
 * traced.h: a program run under strace, which kills it at a chosen system call or makes that call
 * fail.
 *
 *     if (!traced_permitted())
 *         skip();
 *     long calls = traced_count("fdatasync", argv);
 *     traced_run("fdatasync:signal=KILL:when=3", argv);
 *
 * strace counts the calls of each kind by themselves, and a call at which the program is killed is
 * not carried out any more.
 */
#ifndef TEST_TRACED_H
#define TEST_TRACED_H

#include <stdbool.h>

/* Whether strace is there and allowed to trace; says so when not. */
bool traced_permitted(void);
enum traced { TRACED_ENDED, TRACED_KILLED, TRACED_FAILED };
/* Runs argv with this injection. Ended: by itself, with exit code 0. `hit` (may be NULL) becomes
 * what strace says of the call that was made to fail, with the path of its file; "" when none was.
 * */
enum traced traced_run(const char *inject, const char *const *argv, char hit[512]);
/* How often the program makes this system call when left alone; -1 when it does not end well. */
long traced_count(const char *syscall, const char *const *argv);

#endif
