/* SPDX-License-Identifier: MIT */
/*
 * identity.c: noticing that this store is a copy.
 *
 * A backup that is put back, or a data folder that was copied, knows only the tokens of its own
 * past; the original may have given out larger ones since. So a store remembers which file it is
 * (inode and time of birth, which no copy shares) and, when it finds itself in another file, raises
 * the epoch in the high bits of its tokens: from then on they are larger than all that the original
 * can have given out. The journal tells of it (store:copied).
 */
#define _GNU_SOURCE
#include "core/core.h"

#include <fcntl.h>
#include <sys/stat.h>

static bool file_identity(const char *path, char out[64])
{
    struct statx st;
    if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME, &st) != 0)
        return false;
    snprintf(out, 64, "%llu:%lld.%09u", (unsigned long long)st.stx_ino,
             (long long)st.stx_btime.tv_sec, st.stx_btime.tv_nsec);
    return true;
}

static bool is_known(struct tx *tx, const char *file, bool *is_new)
{
    bool same = false;
    *is_new = true;
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT file FROM identity WHERE id = 1"), DB_NO_ARGS);
    if (db_next(rows)) {
        *is_new = false;
        same = str_eq(db_text_borrowed(rows, 0), file);
    }
    db_done(rows);
    return same;
}

static dibs_status look_tx(struct tx *tx, const void *input, void *output)
{
    bool is_new = false;
    *(bool *)output = is_known(tx, input, &is_new);
    return dibs__store_status(tx);
}

static dibs_status adopt_tx(struct tx *tx, const void *input, void *output)
{
    const char *file = input;
    bool is_new = false;
    (void)output;
    if (is_known(tx, file, &is_new)) /* another process was faster */
        return DIBS_OK;
    db_exec(tx->db,
            SQL("INSERT INTO identity (id, file) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET "
                "file = excluded.file"),
            DB_ARGS(db_t(file)));
    if (is_new)
        return dibs__store_status(tx);
    int64_t epoch = dibs__counter_take(tx, COUNTER_EPOCH, 1);
    struct jw *w =
        dibs__event_begin(tx, &(struct event_head){.type = "store:copied", .held_ms = -1});
    jw_kint(w, "tokenEpoch", epoch);
    dibs__event_end(tx);
    return dibs__store_status(tx);
}

dibs_status dibs__identity_check(dibs *d, const char *path, struct dibs_error *err)
{
    char file[64] = "";
    bool known = false;
    if (!file_identity(path, file))
        return error_set(err, DIBS_STORE_UNAVAILABLE, "cannot look at '%s'", path);
    dibs_arena *a = dibs_arena_new();
    if (!a)
        return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
    d->maintaining = true; /* opening a store is no occasion for a sweep */
    dibs_status status = dibs__read(d, a, err, look_tx, file, &known, sizeof known);
    if (status == DIBS_OK && !known)
        status = dibs__write(d, a, err, adopt_tx, file, NULL, 0);
    d->maintaining = false;
    dibs_arena_free(a);
    return status;
}
