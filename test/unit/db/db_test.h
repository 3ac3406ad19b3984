/* SPDX-License-Identifier: MIT */
/*
 * db_test.h: what the tests of this room share: a folder per test, a store with a small schema of
 * its own, child processes, and questions about files.
 */
#ifndef DIBS_DB_TEST_H
#define DIBS_DB_TEST_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "db/db_private.h"
#include "db/write_lock.h"

static const struct migration test_migration_items[] = {
    {1, "first", true,
     "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, n INTEGER) STRICT;"
     "CREATE TABLE part (item INTEGER NOT NULL REFERENCES item (id), body TEXT) STRICT"},
};
static const struct migration_list test_migrations = {test_migration_items, 1};

struct place {
    char folder[64];
    char path[80]; /* of the data file, which is not there yet */
};

/* A test's own folder; setup and teardown for cmocka. */
static inline int place_setup(void **state)
{
    struct place *p = mem_alloc(sizeof *p);
    const char *tmp = getenv("TMPDIR");
    if (p == NULL)
        return -1;
    if (tmp == NULL || strlen(tmp) > 30)
        tmp = "/tmp";
    snprintf(p->folder, sizeof p->folder, "%s/dibs-db-XXXXXX", tmp);
    if (mkdtemp(p->folder) == NULL)
        return -1;
    snprintf(p->path, sizeof p->path, "%s/dibs.db", p->folder);
    *state = p;
    return 0;
}

static inline int place_teardown(void **state)
{
    struct place *p = *state;
    DIR *d = opendir(p->folder);
    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d))
        unlinkat(dirfd(d), e->d_name, 0);
    if (d != NULL)
        closedir(d);
    int rc = rmdir(p->folder);
    mem_free(p);
    return rc;
}

#define STORE_TEST(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

static inline dibs_status store_open(const char *path, bool create, struct db **out,
                                     struct dibs_error *err)
{
    return db_open_with(&(struct db_options){.path = path, .create = create}, test_migrations, out,
                        err);
}

static inline struct db *store(const char *path)
{
    struct db *db = NULL;
    struct dibs_error err = {0};
    if (store_open(path, true, &db, &err) != DIBS_OK)
        print_error("cannot open '%s': %s\n", path, err.message);
    return db;
}

static inline bool add_item(struct db *db, const char *name, int64_t n)
{
    return db_begin(db, DB_WRITE) &&
           db_exec(db, SQL("INSERT INTO item (name, n) VALUES ($1, $2)"),
                   DB_ARGS(db_t(name), db_i(n))) &&
           db_commit(db);
}

/* An item that needs a page of its own; `n` must be new. */
static inline bool add_large(struct db *db, int n)
{
    char name[3000];
    memset(name, 'x', sizeof name);
    snprintf(name + sizeof name - 16, 16, "%d", n);
    return add_item(db, name, n);
}

static inline int64_t count_items(struct db *db)
{
    return db_value_int(db, -1, SQL("SELECT count(*) FROM item"), DB_NO_ARGS);
}

/* ---- files ----------------------------------------------------------------------------------- */

static inline int64_t bytes_of(const char *path, const char *suffix)
{
    char name[256] = {0};
    struct stat st = {0};
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return stat(name, &st) == 0 ? (int64_t)st.st_size : -1;
}

/* A number for a file's contents (FNV-1a); 0 when it cannot be read. */
static inline uint64_t hash_of(const char *path)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    unsigned char block[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    for (ssize_t n = read(fd, block, sizeof block); n > 0; n = read(fd, block, sizeof block))
        for (ssize_t i = 0; i < n; i++)
            hash = (hash ^ block[i]) * UINT64_C(1099511628211);
    close(fd);
    return hash;
}

static inline bool write_file(const char *path, const void *bytes, size_t count)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool fine = fd >= 0 && write(fd, bytes, count) == (ssize_t)count;
    if (fd >= 0)
        close(fd);
    return fine;
}

static inline int files_in(const char *folder)
{
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d))
        count += e->d_name[0] != '.';
    if (d != NULL)
        closedir(d);
    return count;
}

/* ---- processes ------------------------------------------------------------------------------- */

/* In a child process there is no cmocka: a failed check ends the child with a line on stderr. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static inline pid_t start_child(void (*work)(void *), void *context)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        work(context);
        _exit(0);
    }
    return pid;
}

/* Exit code of a child; 1000 and more: killed by a signal. */
static inline int wait_child(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static inline int run_child(void (*work)(void *), void *context)
{
    return wait_child(start_child(work, context));
}

/* Memory that parent and children see alike. */
static inline void *shared_memory(size_t bytes)
{
    void *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return m == MAP_FAILED ? NULL : m;
}

static inline int64_t steady_us(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Waits until *value is at least `least`; false after ten seconds. */
static inline bool wait_for(volatile int *value, int least)
{
    int64_t deadline = steady_us() + 10 * 1000000;
    while (*value < least && steady_us() < deadline)
        poll(NULL, 0, 1);
    return *value >= least;
}

#endif
