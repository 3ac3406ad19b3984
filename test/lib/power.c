/* SPDX-License-Identifier: MIT */
/* power.c: see power.h. A layer under SQLite records; the files themselves are written as ever. */
#include "power.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "workers.h"

enum { SECTOR = 512 };
/* A flush by another thread takes until so much more has happened, or this long. */
enum { LAG_RECORDS = 12, LAG_MS = 2 };

enum kind { WRITTEN, CUT_SHORT, FLUSH_BEGAN, FLUSHED, ACKNOWLEDGED };
struct record {
    enum kind kind;
    int file;
    int64_t number; /* offset; length; record of the flush's beginning; what was acknowledged */
    unsigned char *bytes;
    size_t count;
};

struct image {
    unsigned char *bytes;
    size_t count;
};

static struct {
    pthread_mutex_t mutex;
    struct record *records;
    size_t count, room;
    struct image before[POWER_FILES];
    pthread_t writer;
    sqlite3_vfs vfs, *real;
    const sqlite3_io_methods *real_methods;
    sqlite3_io_methods methods[POWER_FILES];
} power = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static const char *const suffixes[POWER_FILES] = {[POWER_DATA] = "", [POWER_LOG] = "-wal"};

/* ---- recording ------------------------------------------------------------------------------- */

static size_t add(struct record r)
{
    pthread_mutex_lock(&power.mutex);
    if (power.count == power.room) {
        power.room = power.room ? 2 * power.room : 4096;
        power.records = realloc(power.records, power.room * sizeof *power.records);
        assert_non_null(power.records);
    }
    size_t at = power.count++;
    power.records[at] = r;
    pthread_mutex_unlock(&power.mutex);
    return at;
}

size_t power_moments(void)
{
    pthread_mutex_lock(&power.mutex);
    size_t count = power.count;
    pthread_mutex_unlock(&power.mutex);
    return count;
}

static int write_to(int file, sqlite3_file *f, const void *bytes, int count, sqlite3_int64 at)
{
    unsigned char *copy = malloc((size_t)count);
    assert_non_null(copy);
    memcpy(copy, bytes, (size_t)count);
    add((struct record){WRITTEN, file, at, copy, (size_t)count});
    return power.real_methods->xWrite(f, bytes, count, at);
}

static int cut_short(int file, sqlite3_file *f, sqlite3_int64 bytes)
{
    add((struct record){.kind = CUT_SHORT, .file = file, .number = bytes});
    return power.real_methods->xTruncate(f, bytes);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int flush(int file)
{
    size_t began = add((struct record){.kind = FLUSH_BEGAN, .file = file});
    double patience = now_ms() + LAG_MS;
    while (!pthread_equal(pthread_self(), power.writer) && now_ms() < patience &&
           power_moments() < began + LAG_RECORDS)
        sched_yield();
    add((struct record){.kind = FLUSHED, .file = file, .number = (int64_t)began});
    return SQLITE_OK;
}

static int data_write(sqlite3_file *f, const void *bytes, int count, sqlite3_int64 at)
{
    return write_to(POWER_DATA, f, bytes, count, at);
}
static int log_write(sqlite3_file *f, const void *bytes, int count, sqlite3_int64 at)
{
    return write_to(POWER_LOG, f, bytes, count, at);
}
static int data_truncate(sqlite3_file *f, sqlite3_int64 bytes)
{
    return cut_short(POWER_DATA, f, bytes);
}
static int log_truncate(sqlite3_file *f, sqlite3_int64 bytes)
{
    return cut_short(POWER_LOG, f, bytes);
}
static int data_sync(sqlite3_file *f, int flags)
{
    (void)f, (void)flags;
    return flush(POWER_DATA);
}
static int log_sync(sqlite3_file *f, int flags)
{
    (void)f, (void)flags;
    return flush(POWER_LOG);
}

/* Exchanges the methods of a file that was opened below: its state is in the object. */
static int layer_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    (void)vfs;
    int rc = power.real->xOpen(power.real, name, file, flags, out);
    if (rc != SQLITE_OK || (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)) == 0)
        return rc;
    bool is_log = (flags & SQLITE_OPEN_WAL) != 0;
    sqlite3_io_methods *m = &power.methods[is_log ? POWER_LOG : POWER_DATA];
    pthread_mutex_lock(&power.mutex);
    power.real_methods = file->pMethods;
    *m = *file->pMethods;
    m->xWrite = is_log ? log_write : data_write;
    m->xTruncate = is_log ? log_truncate : data_truncate;
    m->xSync = is_log ? log_sync : data_sync;
    pthread_mutex_unlock(&power.mutex);
    file->pMethods = m;
    return rc;
}

static struct image read_file(const char *path, const char *suffix)
{
    char name[256];
    struct stat st;
    snprintf(name, sizeof name, "%s%s", path, suffix);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    struct image i = {.bytes = malloc((size_t)st.st_size + 1), .count = (size_t)st.st_size};
    assert_non_null(i.bytes);
    assert_int_equal(pread(fd, i.bytes, i.count, 0), (ssize_t)i.count);
    close(fd);
    return i;
}

void power_on(const char *data_path)
{
    for (int i = 0; i < POWER_FILES; i++)
        power.before[i] = read_file(data_path, suffixes[i]);
    power.writer = pthread_self();
    power.real = sqlite3_vfs_find(NULL);
    power.vfs = *power.real;
    power.vfs.zName = "power";
    power.vfs.pNext = NULL;
    power.vfs.xOpen = layer_open;
    assert_int_equal(sqlite3_vfs_register(&power.vfs, 1), SQLITE_OK);
}

void power_off(void)
{
    sqlite3_vfs_unregister(&power.vfs);
    sqlite3_vfs_register(power.real, 1);
}

void power_free(void)
{
    for (size_t i = 0; i < power.count; i++)
        free(power.records[i].bytes);
    free(power.records);
    for (int i = 0; i < POWER_FILES; i++)
        free(power.before[i].bytes);
    power.records = NULL;
    power.count = power.room = 0;
}

void power_acknowledge(int64_t number)
{
    add((struct record){.kind = ACKNOWLEDGED, .number = number});
}

int64_t power_acknowledged(size_t at)
{
    int64_t largest = 0;
    for (size_t i = 0; i < at; i++)
        if (power.records[i].kind == ACKNOWLEDGED && power.records[i].number > largest)
            largest = power.records[i].number;
    return largest;
}

int power_flushes(int file)
{
    int count = 0;
    for (size_t i = 0; i < power.count; i++)
        count += power.records[i].kind == FLUSHED && power.records[i].file == file;
    return count;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static bool is_new_start(const struct record *r)
{
    return r->kind == WRITTEN && r->file == POWER_LOG && r->number == 0;
}

size_t power_moment(uint64_t *seed)
{
    size_t at = chance(seed) % (power.count + 1), starts = 0;
    if (chance(seed) % 3 != 0)
        return at;
    for (size_t i = 0; i < power.count; i++)
        starts += is_new_start(&power.records[i]);
    size_t left = starts ? chance(seed) % starts + 1 : 0;
    for (size_t i = 0; i < power.count && left > 0; i++)
        if (is_new_start(&power.records[i]) && --left == 0)
            at = i + 1 + chance(seed) % 8;
    return at < power.count ? at : power.count;
}

/* ---- cutting --------------------------------------------------------------------------------- */

/* Up to which record everything is on disk for sure. */
static size_t safe_until(size_t at, int file)
{
    size_t safe = 0;
    for (size_t i = 0; i < at; i++) {
        const struct record *r = &power.records[i];
        if (r->kind == FLUSHED && r->file == file && (size_t)r->number > safe)
            safe = (size_t)r->number;
    }
    return safe;
}

/* How much of what was not flushed is there, in thousandths: all, nothing, and what lies
 * between. */
static int share(uint64_t *seed)
{
    static const int shares[] = {0, 1, 4, 20, 500, 900, 980, 1000};
    return shares[chance(seed) % (sizeof shares / sizeof *shares)];
}

static void put(struct image *i, size_t at, const unsigned char *bytes, size_t count)
{
    if (at + count > i->count) {
        i->bytes = realloc(i->bytes, at + count);
        assert_non_null(i->bytes);
        memset(i->bytes + i->count, 0, at + count - i->count);
        i->count = at + count;
    }
    memcpy(i->bytes + at, bytes, count);
}

static void put_some(struct image *i, const struct record *r, int part, uint64_t *seed)
{
    for (size_t done = 0; done < r->count;) {
        size_t at = (size_t)r->number + done, piece = SECTOR - at % SECTOR;
        piece = piece < r->count - done ? piece : r->count - done;
        if ((int)(chance(seed) % 1000) < part)
            put(i, at, r->bytes + done, piece);
        done += piece;
    }
}

static struct image image_of(size_t at, int file, bool deaf, uint64_t *seed)
{
    struct image i = {.count = power.before[file].count};
    i.bytes = malloc(i.count + 1);
    assert_non_null(i.bytes);
    memcpy(i.bytes, power.before[file].bytes, i.count);
    size_t safe = deaf ? 0 : safe_until(at, file);
    int part = share(seed);
    for (size_t n = 0; n < at; n++) {
        const struct record *r = &power.records[n];
        if (r->file != file)
            continue;
        int sure = n < safe ? 1000 : part;
        if (r->kind == WRITTEN)
            put_some(&i, r, sure, seed);
        else if (r->kind == CUT_SHORT && (int)(chance(seed) % 1000) < sure &&
                 (size_t)r->number < i.count)
            i.count = (size_t)r->number;
    }
    return i;
}

void power_cut(size_t at, uint64_t *seed, int deaf, const char *data_path)
{
    for (int file = 0; file < POWER_FILES; file++) {
        char name[256];
        struct image i = image_of(at, file, (deaf & 1 << file) != 0, seed);
        snprintf(name, sizeof name, "%s%s", data_path, suffixes[file]);
        int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, i.bytes, i.count, 0), (ssize_t)i.count);
        close(fd);
        free(i.bytes);
    }
}
