/* SPDX-License-Identifier: MIT */
/* script.c: see script.h. */
#define _GNU_SOURCE
#include "script.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define SESSION "script"
/* a page of the log, with its head; a checkpoint is due at 1,000 */
#define LOG_PAGE_BYTES (4096 + 24)
#define LOG_PAGES_BEFORE 930

static const char *const settings[] = {"autoCleanup=off", "eventRetention=1ms"};
static const char *const data_files[] = {"dibs.db", "dibs.db-wal"};

/* ---- the plays ------------------------------------------------------------------------------- */

/* The disk fails: reads must go on all the same. */
static bool worked(struct worker *w, dibs_status status)
{
    if (status == DIBS_STORE_FULL)
        act_read(w);
    return status == DIBS_OK;
}

static void play_scene(struct worker *w, const char *name)
{
    char text[48];
    struct held h = {0}, lock = {0};
    snprintf(text, sizeof text, "%s-a", name);
    worked(w, act_create(w, text, 3));
    snprintf(text, sizeof text, "%s-b", name);
    worked(w, act_batch(w, text, 3));
    snprintf(text, sizeof text, "%s-key", name);
    worked(w, act_once(w, text));
    if (worked(w, act_next(w, &h))) {
        worked(w, act_beat(w, &h));
        worked(w, act_progress(w, &h, 40));
        worked(w, act_complete(w, &h));
    }
    snprintf(text, sizeof text, "%s-b.1", name);
    if (worked(w, act_claim(w, text, &h)))
        worked(w, act_fail(w, &h));
    if (worked(w, act_next(w, &h)))
        worked(w, act_release(w, &h));
    if (worked(w, act_lock(w, "the-lock", false, 0, &lock))) {
        worked(w, act_session_beat(w));
        worked(w, act_unlock(w, &lock));
    }
    worked(w, act_next(w, &h)); /* and keeps it */
}

static void play(struct worker *w, bool old)
{
    if (act_open(w) != DIBS_OK && act_open(w) != DIBS_OK)
        return;
    worked(w, act_register(w));
    if (old) {
        worked(w, act_cleanup(w));
        worked(w, act_prune(w));
    }
    play_scene(w, "one");
    if (old)
        play_scene(w, "two");
    act_read(w);
}

bool script_wanted(int argc, char **argv)
{
    return argc == 5 && strcmp(argv[1], "--script") == 0;
}

int script_main(char **argv)
{
    struct place p = {.settings = {.items = settings, .count = 2}};
    struct worker w = {0};
    snprintf(p.data_dir, sizeof p.data_dir, "%s", argv[3]);
    worker_alone(&w, &p, SESSION, argv[4]);
    play(&w, strcmp(argv[2], "old") == 0);
    dibs_close(w.d);
    dibs_arena_free(w.a);
    return 0;
}

/* ---- a store with a past --------------------------------------------------------------------- */

static off_t size_of(const char *dir, const char *name)
{
    char path[160];
    struct stat st = {0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return stat(path, &st) == 0 ? st.st_size : 0;
}

/* A process that holds two tasks and a lock when it ends, and has filled the log by then. */
static void leave_a_past(struct worker *w)
{
    struct held h = {0};
    must(w, act_open(w));
    must(w, act_register(w));
    must(w, act_create(w, "past", 5));
    must(w, act_next(w, &h));
    must(w, act_next(w, &h));
    must(w, act_lock(w, "the-lock", false, 0, &h));
    while (size_of(w->place->data_dir, "dibs.db-wal") < (off_t)LOG_PAGES_BEFORE * LOG_PAGE_BYTES)
        must(w, act_session_beat(w));
}

static void copy_file(const char *from_dir, const char *to_dir, const char *name)
{
    char from[160], to[160];
    snprintf(from, sizeof from, "%s/%s", from_dir, name);
    snprintf(to, sizeof to, "%s/%s", to_dir, name);
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(in >= 0 && out >= 0);
    off_t left = size_of(from_dir, name);
    while (left > 0) {
        ssize_t sent = sendfile(out, in, NULL, (size_t)left);
        assert_true(sent > 0);
        left -= sent;
    }
    close(in);
    close(out);
}

/* ---- for the test ---------------------------------------------------------------------------- */

void script_init(struct script *s, struct place *p, const char *play)
{
    *s = (struct script){.place = p, .play = play};
    p->settings = (struct dibs_strings){.items = settings, .count = 2};
    snprintf(s->template_dir, sizeof s->template_dir, "%s/template", p->dir);
    snprintf(s->notes_path, sizeof s->notes_path, "%s/notes", p->dir);
    assert_true(readlink("/proc/self/exe", s->exe, sizeof s->exe - 1) > 0);
    const char *argv[] = {s->exe, "--script", play, p->data_dir, s->notes_path, NULL};
    memcpy(s->argv, argv, sizeof argv);
    if (strcmp(play, "old") != 0)
        return;
    struct place past = *p;
    snprintf(past.data_dir, sizeof past.data_dir, "%s", s->template_dir);
    struct crew *c = crew_start(&past, 1, leave_a_past, NULL);
    crew_wait(c);
    crew_free(c);
}

static void remove_store(const struct place *p)
{
    static const char *const names[] = {"dibs.db",      "dibs.db-wal", "dibs.db-shm",
                                        "dibs.db.lock", "dibs.db.new", "dibs.db.new-journal"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s/%s", p->data_dir, names[i]);
        unlink(path);
    }
    rmdir(p->data_dir);
}

void script_reset(struct script *s)
{
    unlink(s->notes_path);
    remove_store(s->place);
    if (strcmp(s->play, "old") != 0)
        return;
    assert_int_equal(mkdir(s->place->data_dir, 0700), 0);
    for (size_t i = 0; i < sizeof data_files / sizeof data_files[0]; i++)
        copy_file(s->template_dir, s->place->data_dir, data_files[i]);
}

struct notes script_notes(struct script *s)
{
    return notes_read(s->notes_path);
}

void script_check(struct script *s, struct notes n, int flags)
{
    crash_check(&(struct crash){.place = s->place, .session = SESSION, .notes = n, .flags = flags});
}

struct points points_choose(long count, int most, uint64_t *seed)
{
    struct points out = {.items = calloc((size_t)count + 1, sizeof *out.items)};
    assert_non_null(out.items);
    int wanted = scaled(most, 2);
    long chosen = wanted > most || wanted > count ? count : wanted;
    for (long i = 0; i < chosen; i++) {
        long from = i * count / chosen, to = (i + 1) * count / chosen;
        out.items[out.count++] = 1 + from + (long)(chance(seed) % (uint64_t)(to - from));
    }
    return out;
}
