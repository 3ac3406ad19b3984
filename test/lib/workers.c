/* SPDX-License-Identifier: MIT */
/*
 * workers.c: see workers.h.
 *
 * A worker is a fork of the test that never returns into cmocka: it ends with _exit, 0 when all it
 * checked was so. It asks the kernel to be killed when its parent ends, so that nothing outlives a
 * test that was stopped.
 */
#define _GNU_SOURCE
#include "workers.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MEMORY_DIR "/dev/shm"
#define MEMORY_BYTES_MIN (1LL << 30) /* the largest of these stores, many times over */
#define PATIENCE_MS (20 * 60 * 1000) /* a crew that takes longer hangs */

/* ---- scale and chance ------------------------------------------------------------------------ */

static double scale(void)
{
    const char *text = getenv("DIBS_TEST_SCALE");
    double value = text ? strtod(text, NULL) : 1;
    return value > 0 ? value : 1;
}

int scaled(int full, int least)
{
    int count = (int)(full * scale());
    return count < least ? least : count;
}

uint64_t test_seed(void)
{
    const char *text = getenv("DIBS_TEST_SEED");
    struct timespec t = {0};
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t seed = text ? strtoull(text, NULL, 10)
                         : ((uint64_t)t.tv_nsec ^ (uint64_t)t.tv_sec << 20) % 1000000000;
    printf("# the same choices again: DIBS_TEST_SEED=%" PRIu64 "\n", seed);
    fflush(stdout);
    return seed;
}

uint64_t chance(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t steady_ms(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void pause_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        continue;
}

bool wait_until(bool (*condition)(void *context), void *context, int64_t ms)
{
    int64_t deadline = steady_ms() + ms;
    while (!condition(context)) {
        if (steady_ms() > deadline)
            return false;
        pause_ms(2);
    }
    return true;
}

void *shared_memory(size_t bytes)
{
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(block != MAP_FAILED);
    return block;
}

/* ---- places ---------------------------------------------------------------------------------- */

static const char *disk_dir(void)
{
    const char *base = getenv("TMPDIR");
    return base && *base ? base : "/tmp";
}

static const char *memory_dir(void)
{
    struct statvfs fs = {0};
    if (getenv("TMPDIR") || getenv("DIBS_TEST_DISK") || access(MEMORY_DIR, W_OK) != 0 ||
        statvfs(MEMORY_DIR, &fs) != 0)
        return disk_dir();
    return (int64_t)fs.f_bavail * (int64_t)fs.f_frsize >= MEMORY_BYTES_MIN ? MEMORY_DIR
                                                                           : disk_dir();
}

static int setup_in(void **state, const char *base)
{
    struct place *p = test_calloc(1, sizeof *p);
    snprintf(p->dir, sizeof p->dir, "%.40s/dibs-test-XXXXXX", base);
    if (!mkdtemp(p->dir))
        return -1;
    snprintf(p->data_dir, sizeof p->data_dir, "%s/.dibs", p->dir);
    *state = p;
    return 0;
}

int place_setup(void **state)
{
    return setup_in(state, memory_dir());
}

int place_setup_disk(void **state)
{
    return setup_in(state, disk_dir());
}

static dibs_status try_open(struct place *p, dibs **out, struct dibs_error *err)
{
    struct dibs_options options = {
        .data_dir = p->data_dir, .create = true, .settings = p->settings};
    return dibs_open(&options, out, err);
}

dibs *place_open(struct place *p)
{
    dibs *d = NULL;
    struct dibs_error err = {0};
    dibs_status status = try_open(p, &d, &err);
    if (status != DIBS_OK)
        fail_msg("cannot open: %s: %s", dibs_status_name(status), err.message);
    return d;
}

bool place_is_sound(struct place *p, dibs *d)
{
    struct dibs_diagnosis found = {0};
    struct dibs_error err = {0};
    dibs_arena *a = dibs_arena_new();
    bool sound = dibs_diagnose(d, a, true, &found, &err) == DIBS_OK;
    if (!sound)
        print_error("cannot look over '%s': %s\n", p->dir, err.message);
    for (size_t i = 0; i < found.count; i++) {
        if (found.items[i].level != DIBS_BAD)
            continue;
        print_error("%s: %s\n", found.items[i].subject, found.items[i].text);
        sound = false;
    }
    dibs_arena_free(a);
    return sound;
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

int place_teardown(void **state)
{
    struct place *p = *state;
    int bad = 0;
    dibs *d = NULL;
    struct dibs_error err = {0};
    if (!p->skip_check && try_open(p, &d, &err) != DIBS_OK) {
        print_error("after the test: %s\n", err.message);
        bad = -1;
    } else if (!p->skip_check && !place_is_sound(p, d)) {
        bad = -1;
    }
    dibs_close(d);
    nftw(p->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    test_free(p);
    return bad;
}

/* ---- crews ----------------------------------------------------------------------------------- */

struct crew {
    struct place *place;
    int count, serial;
    pid_t *pids; /* 0: has ended */
    pthread_barrier_t *barrier;
};

static void notes_path(const struct crew *c, int number, char out[128])
{
    snprintf(out, 128, "%s/notes-%d-%d", c->place->dir, c->serial, number);
}

void worker_alone(struct worker *w, struct place *p, const char *id, const char *notes)
{
    *w = (struct worker){.place = p};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(w->id, sizeof w->id, "%s", id);
    w->file = open(notes, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    w->a = dibs_arena_new();
    check(w, w->file >= 0 && w->a != NULL);
}

static void run_worker(struct crew *c, int number, worker_job *job, void *context, pid_t parent)
{
    struct worker w = {0};
    char id[16] = "", path[128] = "";
    snprintf(id, sizeof id, "w%d", number);
    notes_path(c, number, path);
    worker_alone(&w, c->place, id, path);
    if (getppid() != parent)
        _exit(1);
    w.crew = c;
    w.number = number;
    w.context = context;
    w.seed = (uint64_t)number * 7919 + (uint64_t)c->serial;
    job(&w);
    dibs_close(w.d);
    _exit(0);
}

struct crew *crew_start(struct place *p, int count, worker_job *job, void *context)
{
    struct crew *c = calloc(1, sizeof *c);
    assert_non_null(c);
    pthread_barrierattr_t shared;
    *c = (struct crew){.place = p, .count = count, .serial = p->crews++};
    c->pids = calloc((size_t)count, sizeof *c->pids);
    assert_non_null(c->pids);
    c->barrier = shared_memory(sizeof *c->barrier);
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    assert_int_equal(pthread_barrier_init(c->barrier, &shared, (unsigned)count), 0);
    pthread_barrierattr_destroy(&shared);
    pid_t parent = getpid();
    for (int i = 0; i < count; i++) {
        c->pids[i] = fork();
        if (c->pids[i] == 0)
            run_worker(c, i, job, context, parent);
        assert_true(c->pids[i] > 0);
    }
    return c;
}

int crew_count(const struct crew *c)
{
    return c->count;
}

void crew_barrier(struct worker *w)
{
    pthread_barrier_wait(w->crew->barrier);
}

void crew_signal(struct crew *c, int number, int which)
{
    if (c->pids[number] > 0)
        kill(c->pids[number], which);
}

void crew_kill(struct crew *c)
{
    for (int i = 0; i < c->count; i++)
        crew_signal(c, i, SIGKILL);
    for (int i = 0; i < c->count; i++) {
        if (c->pids[i] > 0)
            waitpid(c->pids[i], NULL, 0);
        c->pids[i] = 0;
    }
}

/* Takes note of those that have ended. Returns how many still run; *failed becomes the number of
 * one that did not end well. */
static int reap(struct crew *c, int *failed)
{
    int running = 0;
    for (int i = 0; i < c->count; i++) {
        int status = 0;
        if (c->pids[i] == 0)
            continue;
        if (waitpid(c->pids[i], &status, WNOHANG) == 0) {
            running++;
            continue;
        }
        c->pids[i] = 0;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            *failed = i;
    }
    return running;
}

void crew_wait(struct crew *c)
{
    int failed = -1, running = 0;
    int64_t deadline = steady_ms() + PATIENCE_MS;
    while ((running = reap(c, &failed)) > 0 && failed < 0 && steady_ms() < deadline)
        pause_ms(2);
    if (running > 0)
        crew_kill(c);
    if (failed >= 0)
        fail_msg("worker %d failed", failed);
    if (running > 0)
        fail_msg("%d workers hang", running);
}

void crew_free(struct crew *c)
{
    crew_kill(c);
    munmap(c->barrier, sizeof *c->barrier);
    free(c->pids);
    free(c);
}

/* ---- workers --------------------------------------------------------------------------------- */

void worker_must(struct worker *w, dibs_status s, const char *call, const char *file, int line)
{
    if (s == DIBS_OK)
        return;
    fprintf(stderr, "%s:%d: worker '%s': %s: %s: %s\n", file, line, w->id, call,
            dibs_status_name(s), w->err.message);
    _exit(1);
}

void worker_check(struct worker *w, bool truth, const char *text, const char *file, int line)
{
    if (truth)
        return;
    fprintf(stderr, "%s:%d: worker '%s': not so: %s (%s)\n", file, line, w->id, text,
            w->err.message);
    _exit(1);
}

void worker_open(struct worker *w)
{
    must(w, try_open(w->place, &w->d, &w->err));
}

void worker_register(struct worker *w)
{
    struct dibs_session me = {0};
    struct dibs_session_new in = {.id = w->id, .agent_type = "worker", .pid = getpid()};
    must(w, dibs_session_register(w->d, w->a, &in, &me, &w->err));
}

int64_t worker_journal_end(struct worker *w)
{
    struct dibs_event_list page = {0};
    struct dibs_event_filter none = {.since = INT64_MAX, .limit = 1};
    must(w, dibs_events(w->d, w->a, &none, &page, &w->err));
    return page.last;
}

/* ---- notes ----------------------------------------------------------------------------------- */

void worker_note(struct worker *w, struct note note)
{
    check(w, write(w->file, &note, sizeof note) == (ssize_t)sizeof note);
}

struct notes notes_read(const char *path)
{
    struct notes out = {0};
    struct stat st = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return out; /* killed before it began */
    assert_int_equal(fstat(fd, &st), 0);
    out.count = (size_t)st.st_size / sizeof *out.items;
    out.items = calloc(out.count + 1, sizeof *out.items);
    assert_non_null(out.items);
    size_t bytes = out.count * sizeof *out.items;
    assert_int_equal(read(fd, out.items, bytes), bytes);
    close(fd);
    return out;
}

struct notes crew_notes(struct crew *c, int number)
{
    char path[128] = "";
    notes_path(c, number, path);
    return notes_read(path);
}
