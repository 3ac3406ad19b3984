/* SPDX-License-Identifier: MIT */
/*
 * api.c: one request, from bytes to answer.
 *
 *     api_call -> route_find -> read_input (decode) -> answer -> the operation's function -> finish
 *
 * Under an idempotency key the function runs inside dibs_once: what it did and the text of its
 * answer are committed together, and a repeat is given that very text. Only successes are
 * remembered; a refusal may turn out differently next time, and should.
 *
 *   1. There is always an answer. When there is no memory even for a refusal, its body is empty and
 *      the HTTP status says 503.
 *   2. Two requests are "the same" when method, path, query and body are: the body compared as JSON
 *      with sorted members, so that a client may print it as it likes.
 *   3. Reading operations ignore the idempotency key.
 *   4. When an API key asks, identity.c decides first, in the same transaction. Without one nothing
 *      is asked and nothing is paid.
 */
#include "api_internal.h"

#include <assert.h>

#include "base/str.h"
#include "core/key.h"

struct jw *api_reply(struct api_ctx *c)
{
    jw_init(&c->w, c->out);
    jw_object(&c->w);
    jw_kbool(&c->w, "success", true);
    return &c->w;
}

dibs_status api_begin(struct api_ctx *c)
{
    if (c->in_once)
        return DIBS_OK;
    dibs_status s = dibs_batch_begin(c->d, c->err);
    c->batches += s == DIBS_OK;
    return s;
}

dibs_status api_commit(struct api_ctx *c)
{
    if (c->batches == 0)
        return DIBS_OK;
    c->batches--;
    return dibs_batch_commit(c->d, c->err);
}

void api_cancel(struct api_ctx *c)
{
    if (c->batches == 0)
        return;
    c->batches--;
    dibs_batch_cancel(c->d);
}

dibs_status api_settle(struct api_ctx *c, dibs_status s)
{
    struct dibs_error why = *c->err;
    dibs_status committed = api_commit(c);
    if (committed != DIBS_OK)
        return committed;
    *c->err = why;
    return s;
}

dibs_status api_refuse_wait(struct api_ctx *c, const char *field)
{
    return error_field(
        c->err, field,
        "cannot be given with an idempotency key: such a request is one transaction, "
        "in which nothing can be waited for; ask again later with the same key");
}

/* ---- reading the request --------------------------------------------------------------------- */

static bool is_blank(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r' && text[i] != '\n')
            return false;
    }
    return true;
}

/* read_body: the body as JSON; none at all counts as {}. */
static dibs_status read_body(const struct api_request *in, json_t **out, struct dibs_error *err)
{
    size_t bytes = in->body != NULL ? in->body_bytes : 0;
    if (!is_blank(in->body, bytes))
        return json_read(in->body, bytes, out, err);
    *out = json_object();
    return *out != NULL
               ? DIBS_OK
               : error_set(err, DIBS_OUT_OF_MEMORY, "cannot read the request: out of memory");
}

/*
 * decode_fields: the fields of a GET are in its query, those of a DELETE in query or body, all
 * others in the body. Where no fields are expected none may be.
 */
static dibs_status decode_fields(struct decoder *d, const struct route *r,
                                 const struct api_request *in, const json_t *body)
{
    static const struct api_shape nothing = {.id_at = SHAPE_NO_ID};
    struct decoder other = {.a = d->a, .shape = &nothing, .err = d->err};
    bool in_query = str_eq(r->op->method, "GET"), in_both = str_eq(r->op->method, "DELETE");
    dibs_status s = decode_query(in_query || in_both ? d : &other, in->query);
    if (s == DIBS_OK)
        s = decode_object(in_query ? &other : d, body);
    return s == DIBS_OK ? decode_finish(d) : s;
}

static dibs_status decode_list(struct api_ctx *c, const struct route *r,
                               const struct api_request *in, const json_t *body, void **out)
{
    static const struct api_shape nothing = {.id_at = SHAPE_NO_ID};
    struct decoder query = {.a = c->a, .shape = &nothing, .err = c->err};
    struct api_many *many = arena_alloc(c->a, sizeof *many);
    if (many == NULL)
        return error_set(c->err, DIBS_OUT_OF_MEMORY, "cannot read the request: out of memory");
    dibs_status s = decode_query(&query, in->query);
    if (s == DIBS_OK)
        s = decode_many(c->a, r->in, body, many, c->err);
    if (s == DIBS_OK)
        *out = many;
    return s;
}

/* read_input: fills the input struct of the operation from path, query and body. */
static dibs_status read_input(struct api_ctx *c, const struct route *r,
                              const struct api_request *in, const json_t *body, void **out)
{
    if (r->in->many)
        return decode_list(c, r, in, body, out);
    struct decoder d = {.a = c->a, .shape = r->in, .err = c->err};
    d.out = arena_alloc(c->a, r->in->bytes > 0 ? r->in->bytes : 1);
    const char *id = arena_strdup(c->a, r->id);
    if (d.out == NULL || id == NULL)
        return error_set(c->err, DIBS_OUT_OF_MEMORY, "cannot read the request: out of memory");
    dibs_status s = decode_fields(&d, r, in, body);
    if (s != DIBS_OK)
        return s;
    if (r->in->id_at != SHAPE_NO_ID)
        *(const char **)((char *)d.out + r->in->id_at) = id;
    *out = d.out;
    return DIBS_OK;
}

/* ---- running it ------------------------------------------------------------------------------ */

/* run_with_key: the question whether the key may, and the operation, as one transaction. */
static dibs_status run_with_key(struct api_ctx *c, const struct route *r, void *input)
{
    bool writes = r->op->access == API_WRITES;
    dibs_status s = writes ? api_begin(c) : DIBS_OK;
    if (s != DIBS_OK)
        return s;
    s = identity_check(c, r, input);
    if (s == DIBS_OK)
        s = r->run(c, input);
    if (!writes)
        return s;
    if (!dibs_status_is_failure(s))
        return api_settle(c, s); /* what was refused has undone itself, apart from its traces */
    api_cancel(c);
    return s;
}

/* run: the operation and the end of its answer. */
static dibs_status run(struct api_ctx *c, const struct route *r, void *input)
{
    buf_reset(c->out);
    c->http = 200;
    dibs_status s = c->who->key_id == NULL ? r->run(c, input) : run_with_key(c, r, input);
    assert(c->batches == 0);
    if (s != DIBS_OK)
        return s;
    jw_object_end(&c->w);
    return buf_status(c->out, c->err);
}

struct once_call {
    struct api_ctx *c;
    const struct route *r;
    void *input;
};

/* run_once: the work of dibs_once; the stored text is "201 {...}". */
static dibs_status run_once(dibs *d, dibs_arena *a, void *context, const char **answer,
                            struct dibs_error *err)
{
    struct once_call *call = context;
    struct api_ctx *c = call->c;
    (void)d;
    c->err = err;
    c->in_once = true;
    dibs_status s = run(c, call->r, call->input);
    if (s != DIBS_OK)
        return s;
    *answer = arena_printf(a, "%d %s", c->http, c->out->data);
    return *answer != NULL
               ? DIBS_OK
               : error_set(err, DIBS_OUT_OF_MEMORY, "cannot keep the answer: out of memory");
}

static int append_text(const char *text, size_t bytes, void *out)
{
    buf_append(out, text, bytes);
    return buf_ok(out) ? 0 : -1;
}

/* request_text: what must be the same for a repeat to be one; NULL when out of memory. */
static const char *request_text(struct api_ctx *c, const struct api_request *in, const json_t *body)
{
    struct buf text;
    buf_init(&text, 8 * (size_t)BODY_BYTES_MAX);
    buf_printf(&text, "%s %s?%s\n", in->method, in->path, in->query != NULL ? in->query : "");
    int failed = json_dump_callback(body, append_text, &text,
                                    JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    const char *copy = failed == 0 && buf_ok(&text) ? arena_copy(c->a, text.data, text.len) : NULL;
    buf_release(&text);
    return copy;
}

/* take_stored: the answer of the first time, "201 {...}", as ours. */
static dibs_status take_stored(struct api_ctx *c, const char *stored)
{
    const char *space = strchr(stored, ' ');
    char http[8] = "";
    int64_t number = 0;
    if (space != NULL && space - stored < (ptrdiff_t)sizeof http)
        memcpy(http, stored, (size_t)(space - stored));
    if (!str_to_int(http, &number))
        return error_set(c->err, DIBS_INTERNAL, "the stored answer cannot be read");
    buf_reset(c->out);
    buf_text(c->out, space + 1);
    c->http = (int)number;
    return buf_status(c->out, c->err);
}

/*
 * once_key: what an idempotency key is stored as. Each API key has its own, so that nobody is given
 * the answer to somebody else's request; without an API key it is stored as it is.
 */
static const char *once_key(struct api_ctx *c, const char *key)
{
    char digest[KEY_DIGEST_BYTES];
    size_t bytes = strlen(key);
    if (c->who->key_id == NULL || bytes == 0 || bytes > KEY_BYTES_MAX)
        return key; /* the library refuses what is too short or too long */
    if (bytes + strlen(c->who->key_id) < KEY_BYTES_MAX)
        return arena_printf(c->a, "%s/%s", c->who->key_id, key);
    return dibs__key_digest(key, digest) ? arena_printf(c->a, "%s#%s", c->who->key_id, digest)
                                         : NULL;
}

static dibs_status answer_once(struct api_ctx *c, const struct route *r,
                               const struct api_request *in, const json_t *body, void *input)
{
    struct once_call call = {.c = c, .r = r, .input = input};
    struct dibs_once once = {.work = run_once, .context = &call};
    struct dibs_error *err = c->err;
    const char *stored = NULL;
    bool repeated = false;
    once.key = once_key(c, in->idempotency_key);
    once.request = request_text(c, in, body);
    if (once.key == NULL || once.request == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot read the request: out of memory");
    dibs_status s = dibs_once(c->d, c->a, &once, &stored, &repeated, err);
    c->err = err;
    if (s == DIBS_IDEMPOTENCY_KEY_REUSED)
        return error_set(err, s,
                         "idempotency key '%.200s' was used for another request; choose a new one",
                         in->idempotency_key);
    return s == DIBS_OK && repeated ? take_stored(c, stored) : s;
}

static dibs_status answer(struct api_ctx *c, const struct route *r, const struct api_request *in)
{
    json_t *body = NULL;
    void *input = NULL;
    dibs_status s = read_body(in, &body, c->err);
    if (s == DIBS_OK)
        s = read_input(c, r, in, body, &input);
    if (s == DIBS_OK)
        s = in->idempotency_key != NULL && r->op->access == API_WRITES
                ? answer_once(c, r, in, body, input)
                : run(c, r, input);
    json_decref(body);
    return s;
}

/* refuse: writes the refusal in place of whatever was there. */
static void refuse(struct api_ctx *c, dibs_status s, const struct route *r)
{
    struct jw *w = &c->w;
    buf_reset(c->out);
    jw_init(w, c->out);
    jw_object(w);
    jw_kbool(w, "success", false);
    enc_refusal_fields(w, s, c->err);
    if (r->allowed[0] != '\0')
        jw_ktext(w, "allow", r->allowed);
    if (c->extras != NULL)
        c->extras(w, c->about);
    jw_object_end(w);
    c->http = dibs_status_http(s);
}

/* settle_body: what cannot even be refused for lack of memory has an empty body. */
static void settle_body(struct api_response *out)
{
    if (buf_ok(&out->body))
        return;
    buf_release(&out->body);
    buf_init(&out->body, ANSWER_BYTES_MAX);
    out->status = DIBS_OUT_OF_MEMORY;
    out->http = dibs_status_http(DIBS_OUT_OF_MEMORY);
}

void api_refusal(dibs_status status, const struct dibs_error *err, struct api_response *out)
{
    struct dibs_error why = *err;
    struct route none = {0};
    *out = (struct api_response){.status = status};
    buf_init(&out->body, ANSWER_BYTES_MAX);
    struct api_ctx c = {.err = &why, .out = &out->body};
    refuse(&c, status, &none);
    out->http = c.http;
    settle_body(out);
}

void api_call(dibs *d, dibs_arena *a, const struct api_request *in, struct api_response *out)
{
    struct dibs_error err = {0};
    struct route r = {0};
    *out = (struct api_response){0};
    buf_init(&out->body, ANSWER_BYTES_MAX);
    struct api_ctx c = {
        .d = d, .a = a, .err = &err, .out = &out->body, .http = 200, .who = &in->who};
    out->status = in->op != NULL ? route_take(in->op, in->path, &r, &err)
                                 : route_find(in->method, in->path, &r, &err);
    if (out->status == DIBS_OK)
        out->status = answer(&c, &r, in);
    if (out->status != DIBS_OK)
        refuse(&c, out->status, &r);
    out->http = c.http;
    out->wait_ms = c.wait_ms;
    out->wait_key = c.wait_key;
    out->wait_not_pool = c.wait_not_pool;
    out->wait_agent = c.wait_agent;
    out->wait_leads = c.wait_leads;
    settle_body(out);
}
