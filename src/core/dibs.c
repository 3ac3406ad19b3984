/* SPDX-License-Identifier: MIT */
/*
 * dibs.c: opening and closing a store, and finding its folder.
 *
 * A store is a folder: `dibs.db` (the data), `dibs.db-wal` and `-shm` (SQLite's), `dibs.db.lock`
 * (whose turn it is to write), `config`. The folder is made with mode 0700.
 */
#include "core/core.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/serve.h"

const char *dibs_version(void)
{
    return DIBS_VERSION;
}

static dibs_status make_folder(const char *path, struct dibs_error *err)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return DIBS_OK;
    return error_set(err, DIBS_STORE_UNAVAILABLE, "cannot make the folder '%s': %s", path,
                     strerror(errno));
}

static dibs_status check_folder(const struct dibs_options *in, struct dibs_error *err)
{
    struct stat st;
    if (!in->data_dir || !*in->data_dir)
        return error_field(err, "data_dir", "is required");
    if (in->create)
        return make_folder(in->data_dir, err);
    if (stat(in->data_dir, &st) != 0 && errno == ENOENT)
        return error_set(err, DIBS_STORE_NOT_FOUND,
                         "there is no dibs data in '%s'; make it with: dibs init", in->data_dir);
    return DIBS_OK;
}

static dibs_status open_parts(dibs *d, const struct dibs_options *in, struct dibs_error *err)
{
    buf_init(&d->draft_json, JSON_VALUE_BYTES_MAX * 4);
    d->drafts_arena = dibs_arena_new();
    d->data_dir = mem_copy(in->data_dir);
    char *path = d->drafts_arena ? arena_printf(d->drafts_arena, "%s/dibs.db", in->data_dir) : NULL;
    if (!d->data_dir || !path)
        return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
    dibs_status status = dibs__settings_load(d, in->settings, err);
    if (status != DIBS_OK)
        return status;
    status =
        db_open(&(struct db_options){.path = path, .create = in->create, .platform = d->platform},
                &d->db, err);
    return status == DIBS_OK ? dibs__identity_check(d, path, err) : status;
}

dibs_status dibs_open(const struct dibs_options *in, dibs **out, struct dibs_error *err)
{
    dibs_status status = check_folder(in, err);
    if (status != DIBS_OK)
        return status;
    dibs *d = mem_alloc(sizeof *d);
    if (!d)
        return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
    d->platform = in->platform ? in->platform : dibs_platform_real();
    status = open_parts(d, in, err);
    if (status != DIBS_OK) {
        dibs_close(d);
        return status;
    }
    dibs_arena_reset(d->drafts_arena);
    *out = d;
    return DIBS_OK;
}

void dibs_close(dibs *d)
{
    if (!d)
        return;
    dibs_batch_cancel(d);
    db_close(d->db);
    dibs__subscribers_free(d);
    buf_release(&d->draft_json);
    dibs_arena_free(d->drafts_arena);
    mem_free(d->data_dir);
    mem_free(d);
}

bool dibs__is_broken(void)
{
    return db_is_broken();
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

const char *dibs_find_data_dir(dibs_arena *a, const char *from)
{
    char here[PATH_MAX];
    if (!realpath(from ? from : ".", here))
        return NULL;
    for (;;) {
        char *candidate = arena_printf(a, "%s/.dibs", str_eq(here, "/") ? "" : here);
        if (!candidate || is_folder(candidate))
            return candidate;
        char *slash = strrchr(here, '/');
        if (!slash || str_eq(here, "/"))
            return NULL;
        slash[slash == here ? 1 : 0] = '\0';
    }
}
