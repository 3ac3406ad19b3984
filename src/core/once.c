/* SPDX-License-Identifier: MIT */
/*
 * once.c: idempotency keys. An answer that got lost on the way can be asked for again: the key, a
 * digest of the request and the answer are stored in the transaction of the work itself, so that
 * either all of it is there or none.
 */
#include "core/core.h"

#include <openssl/evp.h>

#define DIGEST_TEXT_BYTES 65

struct once_out {
    const char *answer;
    bool repeated;
};

static bool digest(const char *text, char out[DIGEST_TEXT_BYTES])
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned int count = 0;
    if (EVP_Digest(text, strlen(text), bytes, &count, EVP_sha256(), NULL) != 1)
        return false;
    for (unsigned int i = 0; i < count && i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

/* DIBS_OK: answered from the store; DIBS_NOTHING_TO_CLAIM: the key is new. */
static dibs_status look_up(struct tx *tx, const struct dibs_once *in, const char *request,
                           struct once_out *out)
{
    dibs_status status = DIBS_NOTHING_TO_CLAIM;
    struct db_rows *rows =
        db_query(tx->db, SQL("SELECT request, answer FROM idempotency WHERE key = $1"),
                 DB_ARGS(db_t(in->key)));
    if (db_next(rows)) {
        status = DIBS_OK;
        out->repeated = true;
        out->answer = db_text(rows, 1, tx->a);
        if (!str_eq(db_text_borrowed(rows, 0), request))
            status = dibs__refuse(
                tx, DIBS_IDEMPOTENCY_KEY_REUSED,
                "idempotency key '%s' was used for another request; choose a new one", in->key);
    }
    db_done(rows);
    return status;
}

static dibs_status once_tx(struct tx *tx, const void *input, void *output)
{
    const struct dibs_once *in = input;
    struct once_out *out = output;
    char request[DIGEST_TEXT_BYTES] = "";
    dibs_status status = dibs__check_required(tx->err, "idempotencyKey", in->key, KEY_BYTES_MAX);
    if (status != DIBS_OK)
        return status;
    if (!digest(in->request ? in->request : "", request))
        return dibs__refuse(tx, DIBS_OUT_OF_MEMORY, "out of memory");
    status = look_up(tx, in, request, out);
    if (status != DIBS_NOTHING_TO_CLAIM)
        return status;
    /* one may run inside another's work: each counts what happened inside itself */
    int done_outside = tx->d->nested_done, kept_outside = tx->d->nested_kept;
    tx->d->nested_done = tx->d->nested_kept = 0;
    status = in->work(tx->d, tx->a, in->context, &out->answer, tx->err);
    dibs__levels_drop(tx);
    if (status == DIBS_OK)
        db_exec(tx->db,
                SQL("INSERT INTO idempotency (key, request, answer, at) VALUES ($1, $2, $3, $4)"),
                DB_ARGS(db_t(in->key), db_t(request), db_t(out->answer ? out->answer : ""),
                        db_i(tx->now)));
    /* a refusal that wanted to leave a trace (a refused claim) does so, but only if it is all that
     * happened */
    else
        tx->keep = tx->d->nested_kept > 0 && tx->d->nested_done == 0;
    tx->d->nested_done = done_outside;
    tx->d->nested_kept = kept_outside;
    return status;
}

dibs_status dibs_once(dibs *d, dibs_arena *a, const struct dibs_once *in, const char **answer,
                      bool *repeated, struct dibs_error *err)
{
    struct once_out out = {0};
    dibs_status status = dibs__write(d, a, err, once_tx, in, &out, sizeof out);
    if (status == DIBS_OK) {
        *answer = out.answer;
        *repeated = out.repeated;
    }
    return status;
}
