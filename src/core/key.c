/* SPDX-License-Identifier: MIT */
/*
 * key.c: API keys in the store.
 *
 * A key is made of random bits, returned once and forgotten: the row keeps the SHA-256 of its
 * secret, enough to know the key again and of no use to who reads the file. A plain digest will do,
 * as 256 random bits cannot be guessed, unlike a password.
 *
 *   1. Neither the secret nor its digest is in an event, a message or a log.
 *   2. A revoked key keeps its row: its id is never given out again, and the journal can be read.
 *   3. Of the keys in use no two have the same name.
 *
 * Whether a key may do something is not asked here (src/api/identity.c, src/server/auth.c).
 */
#include "core/key.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "core/core.h"

#define KEY_PREFIX "dibs_"
#define ID_TRIES 16 /* one in a thousand million is taken: more tries mean broken random numbers */

/* 32 characters, five bits each; without 0, 1, l and o, which people mistake for one another */
static const char alphabet[] = "abcdefghijkmnpqrstuvwxyz23456789";
_Static_assert(sizeof alphabet == 33, "five bits");
_Static_assert(KEY_SECRET_CHARS * 5 >= 256, "256 bits");

static const char *const role_names[] = {
    [DIBS_ROLE_READ] = "read",
    [DIBS_ROLE_WORKER] = "worker",
    [DIBS_ROLE_ADMIN] = "admin",
};

const char *dibs__role_name(int role)
{
    return role >= 0 && role < (int)COUNT_OF(role_names) ? role_names[role] : "unknown";
}

/* What the store says and we do not know may nothing but read. */
static int read_role(const char *word)
{
    for (size_t i = 0; i < COUNT_OF(role_names); i++)
        if (str_eq(role_names[i], word))
            return (int)i;
    return DIBS_ROLE_READ;
}

/* ---- the text of a key ----------------------------------------------------------------------- */

bool dibs__key_digest(const char *secret, char out[KEY_DIGEST_BYTES])
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned int count = 0;
    if (EVP_Digest(secret, strlen(secret), bytes, &count, EVP_sha256(), NULL) != 1 || count != 32)
        return false;
    for (unsigned int i = 0; i < count; i++)
        snprintf(out + 2 * (size_t)i, 3, "%02x", bytes[i]);
    return true;
}

/* Whether text begins with `count` characters of the alphabet. */
static bool is_random_text(const char *text, size_t count)
{
    return strspn(text, alphabet) >= count;
}

bool dibs__key_split(const char *text, char id[KEY_ID_CHARS + 1], const char **secret)
{
    size_t prefix = strlen(KEY_PREFIX);
    if (!str_starts(text, KEY_PREFIX) ||
        strlen(text) != prefix + KEY_ID_CHARS + 1 + KEY_SECRET_CHARS)
        return false;
    const char *name = text + prefix, *rest = name + KEY_ID_CHARS;
    if (name[0] != 'k' || !is_random_text(name, KEY_ID_CHARS) || rest[0] != '_' ||
        !is_random_text(rest + 1, KEY_SECRET_CHARS))
        return false;
    memcpy(id, name, KEY_ID_CHARS);
    id[KEY_ID_CHARS] = '\0';
    *secret = rest + 1;
    return true;
}

static void random_text(struct tx *tx, char *out, size_t count)
{
    const struct dibs_platform *p = tx->d->platform;
    unsigned char bytes[KEY_SECRET_CHARS];
    assert(count <= sizeof bytes);
    p->random(p->context, bytes, count);
    for (size_t i = 0; i < count; i++)
        out[i] = alphabet[bytes[i] % 32];
    out[count] = '\0';
    OPENSSL_cleanse(bytes, sizeof bytes);
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define KEY_COLUMNS "id, name, digest, hint, role, project, rate_per_minute, created_at, revoked_at"

static void read_row(struct tx *tx, struct db_rows *rows, struct dibs_key_row *out)
{
    *out = (struct dibs_key_row){
        .id = db_text(rows, 0, tx->a),
        .name = db_text(rows, 1, tx->a),
        .digest = db_text(rows, 2, tx->a),
        .hint = db_text(rows, 3, tx->a),
        .role = read_role(db_text_borrowed(rows, 4)),
        .project = db_text(rows, 5, tx->a),
        .rate_per_minute = db_int(rows, 6),
        .created_at_ms = db_int(rows, 7),
        .revoked_at_ms = db_int(rows, 8),
        .revoked = !db_is_null(rows, 8),
    };
}

/* Whether there is a key with this id, in use or not. */
static bool find_row(struct tx *tx, const char *id, struct dibs_key_row *out)
{
    struct db_rows *rows = db_query(
        tx->db, SQL("SELECT " KEY_COLUMNS " FROM api_key WHERE id = $1"), DB_ARGS(db_t(id)));
    bool found = db_next(rows);
    if (found)
        read_row(tx, rows, out);
    db_done(rows);
    return found && db_ok(tx->db);
}

static dibs_status load_tx(struct tx *tx, const void *input, void *output)
{
    struct dibs_key_list *out = output;
    (void)input;
    struct db_rows *rows = db_query(
        tx->db, SQL("SELECT " KEY_COLUMNS " FROM api_key ORDER BY created_at, id"), DB_NO_ARGS);
    while (db_next(rows)) {
        struct dibs_key_row *key = dibs__push(tx, &out->items, &out->count, sizeof *key);
        if (!key)
            break;
        read_row(tx, rows, key);
    }
    db_done(rows);
    return dibs__store_status(tx);
}

dibs_status dibs__keys_load(dibs *d, dibs_arena *a, struct dibs_key_list *out,
                            struct dibs_error *err)
{
    return dibs__read(d, a, err, load_tx, NULL, out, sizeof *out);
}

static void write_event(struct tx *tx, const char *type, const struct dibs_key_row *key)
{
    /* no project: who is limited to one is not told about keys */
    struct event_head head = {.type = type, .held_ms = -1};
    struct jw *w = dibs__event_begin(tx, &head);
    jw_ktext(w, "keyId", key->id);
    jw_ktext(w, "name", key->name);
    jw_ktext(w, "role", dibs__role_name(key->role));
    jw_ktext_opt(w, "project", key->project);
    jw_kint(w, "ratePerMinute", key->rate_per_minute);
    dibs__event_end(tx);
}

/* ---- making one ------------------------------------------------------------------------------ */

static dibs_status check_name(struct tx *tx, const char *name)
{
    dibs_status status = dibs__check_required(tx->err, "name", name, WORD_BYTES_MAX);
    if (status != DIBS_OK)
        return status;
    int64_t taken =
        db_value_int(tx->db, 0, SQL("SELECT 1 FROM api_key WHERE name = $1 AND revoked_at IS NULL"),
                     DB_ARGS(db_t(name)));
    if (taken)
        return error_field(tx->err, "name",
                           "is taken: a key in use is called '%s'; revoke it or choose another",
                           name);
    return DIBS_OK;
}

static dibs_status check_new(struct tx *tx, const struct dibs_key_new *in)
{
    dibs_status status = check_name(tx, in->name);
    if (status == DIBS_OK)
        status = dibs__check_range(tx->err, "role", in->role, DIBS_ROLE_READ, DIBS_ROLE_ADMIN);
    if (status == DIBS_OK)
        status = dibs__check_text(tx->err, "project", in->project, WORD_BYTES_MAX);
    if (status == DIBS_OK && in->rate_per_minute.given)
        status =
            dibs__check_range(tx->err, "ratePerMinute", in->rate_per_minute.value, 0, KEY_RATE_MAX);
    return status;
}

static const char *free_id(struct tx *tx)
{
    struct dibs_key_row taken;
    char id[KEY_ID_CHARS + 1] = "k";
    for (int i = 0; i < ID_TRIES; i++) {
        random_text(tx, id + 1, KEY_ID_CHARS - 1);
        if (!find_row(tx, id, &taken))
            return dibs__strdup(tx, id);
    }
    db_fail(tx->db, DIBS_INTERNAL, "cannot make a key: no free id was found");
    return NULL;
}

static dibs_status add_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_key_new *in = input;
    struct dibs_key_added *out = output;
    char secret[KEY_SECRET_CHARS + 1], digest[KEY_DIGEST_BYTES] = "";
    dibs_status status = check_new(tx, in);
    if (status != DIBS_OK)
        return status;
    random_text(tx, secret, KEY_SECRET_CHARS);
    if (!dibs__key_digest(secret, digest))
        db_fail(tx->db, DIBS_OUT_OF_MEMORY, "out of memory");
    out->key = (struct dibs_key_row){
        .id = free_id(tx),
        .name = dibs__strdup(tx, in->name),
        .digest = dibs__strdup(tx, digest),
        .hint = dibs__strdup(tx, secret + KEY_SECRET_CHARS - KEY_HINT_CHARS),
        .role = in->role,
        .project = in->project && *in->project ? dibs__strdup(tx, in->project) : NULL,
        .rate_per_minute = in->rate_per_minute.given ? in->rate_per_minute.value : KEY_RATE_DEFAULT,
        .created_at_ms = tx->now,
    };
    const struct dibs_key_row *key = &out->key;
    out->text = dibs__printf(tx, KEY_PREFIX "%s_%s", key->id ? key->id : "", secret);
    OPENSSL_cleanse(secret, sizeof secret);
    db_exec(tx->db,
            SQL("INSERT INTO api_key (id, name, digest, hint, role, project, rate_per_minute, "
                "created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"),
            DB_ARGS(db_t(key->id), db_t(key->name), db_t(key->digest), db_t(key->hint),
                    db_t(dibs__role_name(key->role)), db_t(key->project),
                    db_i(key->rate_per_minute), db_i(tx->now)));
    if (db_ok(tx->db))
        write_event(tx, "key:added", key);
    return dibs__store_status(tx);
}

dibs_status dibs__key_add(dibs *d, dibs_arena *a, const struct dibs_key_new *in,
                          struct dibs_key_added *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, add_tx, in, out, sizeof *out);
}

/* ---- revoking -------------------------------------------------------------------------------- */

static dibs_status revoke_tx(struct tx *tx, const void *input, void *output)
{
    const char *id = input;
    struct dibs_key_row *key = output;
    dibs_status status = dibs__check_id(tx->err, "id", id);
    if (status != DIBS_OK)
        return status;
    if (!find_row(tx, id, key))
        return dibs__refuse(tx, DIBS_KEY_NOT_FOUND, "there is no key '%s'", id);
    if (key->revoked)
        return DIBS_OK;
    key->revoked = true;
    key->revoked_at_ms = tx->now;
    db_exec(tx->db, SQL("UPDATE api_key SET revoked_at = $2 WHERE id = $1"),
            DB_ARGS(db_t(id), db_i(tx->now)));
    write_event(tx, "key:revoked", key);
    return dibs__store_status(tx);
}

dibs_status dibs__key_revoke(dibs *d, dibs_arena *a, const char *id, struct dibs_key_row *out,
                             struct dibs_error *err)
{
    return dibs__write(d, a, err, revoke_tx, id, out, sizeof *out);
}
