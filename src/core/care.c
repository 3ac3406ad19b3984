/* SPDX-License-Identifier: MIT */
/*
 * care.c: looking after the store: a backup, and a look-over that says what is wrong and what to do
 * about it.
 */
#include "core/core.h"

#include <sys/stat.h>

#define FREE_DISK_WARN_BYTES (100LL * 1024 * 1024)
#define WAL_WARN_BYTES (64LL * 1024 * 1024)

dibs_status dibs_backup(dibs *d, const char *path, struct dibs_error *err)
{
    if (!path || !*path)
        return error_field(err, "path", "is required");
    if (d->batch || d->depth > 0)
        return error_set(err, DIBS_STORE_BUSY,
                         "cannot back up while a transaction is open on this handle");
    /* put back over the original with cp, the copy would have the same inode: it must know by
     * itself */
    return db_backup(d->db, path, SQL("UPDATE identity SET file = 'a backup'"), err);
}

/* ---- diagnosis ------------------------------------------------------------------------------- */

static void find(struct tx *tx, struct dibs_diagnosis *out, enum dibs_finding_level level,
                 const char *subject, const char *format, ...) PRINTF_LIKE(5, 6);
static void find(struct tx *tx, struct dibs_diagnosis *out, enum dibs_finding_level level,
                 const char *subject, const char *format, ...)
{
    char text[700];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct dibs_finding *f = dibs__push(tx, &out->items, &out->count, sizeof *f);
    if (f)
        *f = (struct dibs_finding){
            .level = level, .subject = subject, .text = dibs__strdup(tx, text)};
}

static void look_at_store(struct tx *tx, const struct db_info *info, struct dibs_diagnosis *out)
{
    find(tx, out, DIBS_FINE, "store", "'%s', %" PRId64 " KiB, log %" PRId64 " KiB", tx->d->data_dir,
         info->file_bytes / 1024, info->wal_bytes / 1024);
    bool newer = info->schema > info->schema_known;
    find(tx, out, newer ? DIBS_WARN : DIBS_FINE, "schema", "version %" PRId64 "%s", info->schema,
         newer ? ", written by a newer dibs; this one can still use it, but upgrade it soon" : "");
    if (info->wal_reset_bug)
        find(tx, out, DIBS_FINE, "sqlite",
             "%s %s can lose data when two connections write and checkpoint at once (fixed in "
             "3.51.3); dibs takes turns by "
             "its own lock, so it cannot happen as long as no other program writes to the file",
             info->engine, info->version);
    else
        find(tx, out, DIBS_FINE, "sqlite", "%s %s", info->engine, info->version);
    bool safe = info->synchronous == 2 && str_eq_nocase(info->journal_mode, "wal");
    find(tx, out, safe ? DIBS_FINE : DIBS_BAD, "durability", "journal mode %s, synchronous %s",
         info->journal_mode,
         info->synchronous == 2 ? "full" : "NOT full: answers may be lost in a power cut");
    if (info->wal_bytes > WAL_WARN_BYTES)
        find(tx, out, DIBS_WARN, "log",
             "the write-ahead log has grown: a reader keeps it from being folded in; look for a "
             "program that holds the file open");
    bool low = info->free_disk_bytes < FREE_DISK_WARN_BYTES;
    find(tx, out, low ? DIBS_WARN : DIBS_FINE, "disk", "%" PRId64 " MiB free%s",
         info->free_disk_bytes / (1024 * 1024),
         low ? "; writes will be refused when it is full: make room" : "");
}

static void look_at_clock(struct tx *tx, struct dibs_diagnosis *out)
{
    const struct dibs_platform *p = tx->d->platform;
    int64_t apart = p->wall_ms(p->context) - tx->now;
    bool odd = apart > 2000 || apart < -2000;
    find(tx, out, odd ? DIBS_WARN : DIBS_FINE, "clock",
         "the store's clock is %" PRId64 " ms %s the machine's%s", apart < 0 ? -apart : apart,
         apart < 0 ? "ahead of" : "behind",
         odd ? "; the next write moves it, and all leases with it" : "");
}

static void look_at_permissions(struct tx *tx, struct dibs_diagnosis *out)
{
    static const char *const files[] = {"", "/dibs.db", "/dibs.db-wal", "/dibs.db.lock", "/config"};
    bool open = false;
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        struct stat st;
        const char *path = dibs__printf(tx, "%s%s", tx->d->data_dir, files[i]);
        if (!path || stat(path, &st) != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) == 0)
            continue;
        open = true;
        find(tx, out, DIBS_WARN, "permissions",
             "others may write to '%s'; mend it with: chmod go-w '%s'", path, path);
    }
    if (!open)
        find(tx, out, DIBS_FINE, "permissions", "nobody else can write to the store");
}

static void look_at_contents(struct tx *tx, struct dibs_diagnosis *out)
{
    int64_t tasks = db_value_int(tx->db, 0, SQL("SELECT count(*) FROM task"), DB_NO_ARGS);
    int64_t live = db_value_int(tx->db, 0, SQL("SELECT count(*) FROM claim WHERE ended_at IS NULL"),
                                DB_NO_ARGS);
    int64_t past = db_value_int(
        tx->db, 0, SQL("SELECT count(*) FROM claim WHERE ended_at IS NULL AND expires_at <= $1"),
        DB_ARGS(db_i(tx->now)));
    find(tx, out, DIBS_FINE, "contents", "%" PRId64 " tasks, %" PRId64 " leases", tasks, live);
    if (past)
        find(tx, out, DIBS_WARN, "leases",
             "%" PRId64 " are past their deadline and not swept yet; run: dibs cleanup", past);
}

struct diagnose {
    bool deep;
    const struct db_info *info;
    dibs_status pages;
    const char *pages_text;
};

static dibs_status diagnose_tx(struct tx *tx, const void *input, void *output)
{
    const struct diagnose *in = input;
    struct dibs_diagnosis *out = output;
    look_at_store(tx, in->info, out);
    look_at_clock(tx, out);
    look_at_permissions(tx, out);
    look_at_contents(tx, out);
    if (!in->deep)
        return dibs__store_status(tx);
    if (in->pages == DIBS_OK)
        find(tx, out, DIBS_FINE, "pages", "every page of the file was read and is whole");
    else
        find(tx, out, DIBS_BAD, "pages", "%s; restore a backup", in->pages_text);
    dibs_status verified = dibs__verify(tx);
    if (verified == DIBS_OK)
        find(tx, out, DIBS_FINE, "journal", "has no gaps and agrees with the tables");
    else if (verified == DIBS_STORE_CORRUPT && db_ok(tx->db))
        find(tx, out, DIBS_BAD, "journal", "%s; please report it, and restore a backup",
             tx->err->message);
    else
        return verified;
    return dibs__store_status(tx);
}

dibs_status dibs_diagnose(dibs *d, dibs_arena *a, bool deep, struct dibs_diagnosis *out,
                          struct dibs_error *err)
{
    struct db_info info = {0};
    struct dibs_error pages_error = {0};
    dibs_status status = db_info(d->db, &info, err);
    if (status != DIBS_OK)
        return status;
    struct diagnose in = {.deep = deep, .info = &info};
    if (deep) {
        in.pages = db_check(d->db, &pages_error);
        in.pages_text = pages_error.message;
        if (in.pages != DIBS_OK && in.pages != DIBS_STORE_CORRUPT)
            return error_set(err, in.pages, "%s", pages_error.message);
    }
    return dibs__read(d, a, err, diagnose_tx, &in, out, sizeof *out);
}
