/* SPDX-License-Identifier: MIT */
/* faults.c: see faults.h. One thread at a time. */
#include "faults.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "base/base.h"
#include "db/db.h"

static enum fault_kind armed_kind;
static bool armed, armed_sticky;
static int64_t armed_nth, calls;

static bool strikes(enum fault_kind kind)
{
    if (!armed || kind != armed_kind)
        return false;
    calls++;
    return calls == armed_nth || (armed_sticky && calls > armed_nth);
}

void faults_arm(enum fault_kind kind, int64_t nth, bool sticky)
{
    armed_kind = kind;
    armed_nth = nth;
    armed_sticky = sticky;
    calls = 0;
    armed = true;
}

int64_t faults_disarm(void)
{
    armed = false;
    return calls;
}

static bool sql_strikes(void)
{
    return strikes(FAULT_SQL);
}

static bool memory_strikes(void)
{
    return strikes(FAULT_MEMORY);
}

/* ---- SQLite's memory ------------------------------------------------------------------------- */

static sqlite3_mem_methods standard;

static void *sqlite_malloc(int bytes)
{
    return strikes(FAULT_SQLITE_MEMORY) ? NULL : standard.xMalloc(bytes);
}

static void *sqlite_realloc(void *old, int bytes)
{
    return strikes(FAULT_SQLITE_MEMORY) ? NULL : standard.xRealloc(old, bytes);
}

void faults_install(void)
{
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &standard);
    sqlite3_mem_methods ours = standard;
    ours.xMalloc = sqlite_malloc;
    ours.xRealloc = sqlite_realloc;
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &ours) != SQLITE_OK)
        abort();
    mem_should_fail = memory_strikes;
    db_should_fail = sql_strikes;
}

/* ---- counting blocks ------------------------------------------------------------------------- */

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SANITIZED)

int64_t faults_blocks(void)
{
    return 0;
}

bool faults_see_chunks(void)
{
    return false;
}

#else

/* A program that defines these replaces those of the C library, for all its libraries as well. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void __libc_free(void *block);

static int64_t blocks;

static void *counted(void *block)
{
    __atomic_fetch_add(&blocks, block != NULL, __ATOMIC_RELAXED);
    return block;
}

void *malloc(size_t bytes)
{
    return counted(__libc_malloc(bytes));
}

#define CHUNK_BYTES (8 * 1024 - 64)

void *calloc(size_t count, size_t bytes)
{
    if (count == 1 && bytes >= CHUNK_BYTES && strikes(FAULT_CHUNK))
        return NULL;
    return counted(__libc_calloc(count, bytes));
}

void *realloc(void *old, size_t bytes)
{
    return old ? __libc_realloc(old, bytes) : counted(__libc_realloc(NULL, bytes));
}

void free(void *block)
{
    __atomic_fetch_sub(&blocks, block != NULL, __ATOMIC_RELAXED);
    __libc_free(block);
}

bool faults_see_chunks(void)
{
    return true;
}

int64_t faults_blocks(void)
{
    return __atomic_load_n(&blocks, __ATOMIC_RELAXED);
}

#endif
