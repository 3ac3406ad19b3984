/* SPDX-License-Identifier: MIT */
/*
 * client.c: finds the store and puts one request to it.
 *
 * A client holds one way of reaching dibs: a struct of three functions. Today there is one,
 * in_process: the store is opened in this process and the request goes straight to api_call(). A
 * way over a socket is another such struct, chosen in client_open; nothing above this file would
 * notice.
 *
 *   1. The answer is JSON whichever way it came; a refusal is an answer, not an error.
 *   2. Where the data are is decided here, once: data_dir, DIBS_DATA, then the nearest .dibs
 *      above the current folder.
 *
 * Left out: retries. The library already waits for its turn, and repeating is the caller's
 * decision.
 */
#include <unistd.h>

#include "client.h"

#include "api/api.h"
#include "base/str.h"

struct client;

struct way {
    dibs_status (*call)(struct client *c, const struct api_request *in, struct client_answer *out,
                        struct dibs_error *err);
    dibs *(*store)(struct client *c);
    void (*close)(struct client *c);
};

struct client {
    const struct way *way;
    char *data_dir;
    dibs *store;
    dibs_arena *arena; /* home of one answer while it is made */
};

/* ---- the way inside this process ------------------------------------------------------------- */

static dibs_status in_process_call(struct client *c, const struct api_request *in,
                                   struct client_answer *out, struct dibs_error *err)
{
    dibs_status status = DIBS_OK;
    json_t *json = NULL;
    struct api_response response = {0};

    api_call(c->store, c->arena, in, &response);
    status = buf_status(&response.body, err);
    if (status != DIBS_OK)
        goto out;
    /* not json_read(): its limits are for what strangers send, an answer may be a long page */
    json = json_loadb(response.body.data, response.body.len, 0, NULL);
    if (json == NULL) {
        /* our own writer made it and put in only what the strict reader had let pass, so nothing
         * can be wrong with it: what failed is a request for memory, which jansson often reports as
         * a fault of the text */
        status =
            error_set(err, DIBS_OUT_OF_MEMORY, "cannot read the answer to %s '%s': out of memory",
                      in->method, in->path);
        goto out;
    }
    *out = (struct client_answer){.http = response.http, .status = response.status, .json = json};
out:
    buf_release(&response.body);
    dibs_arena_reset(c->arena);
    return status;
}

static dibs *in_process_store(struct client *c)
{
    return c->store;
}

static void in_process_close(struct client *c)
{
    dibs_close(c->store);
    dibs_arena_free(c->arena);
}

static const struct way in_process = {
    .call = in_process_call,
    .store = in_process_store,
    .close = in_process_close,
};

/* ---- finding the data ------------------------------------------------------------------------ */

/* not_found: says where it looked and how to make a store there. */
static dibs_status not_found(const char *dir, const char *origin, struct dibs_error *err)
{
    char cwd[384] = "";

    if (dir != NULL)
        return error_set(err, DIBS_STORE_NOT_FOUND,
                         "there is no dibs data in '%s' (from %s); make one with: dibs init", dir,
                         origin);
    if (getcwd(cwd, sizeof cwd) == NULL)
        str_fit(cwd, sizeof cwd, "the current folder");
    return error_set(err, DIBS_STORE_NOT_FOUND,
                     "there is no '.dibs' in '%s' nor in any folder above it; make one with: dibs "
                     "init",
                     cwd);
}

/* find: the folder to open, in the arena; *origin says who chose it. NULL: none. */
static const char *find(dibs_arena *a, const char *wanted, const char **origin)
{
    const char *from_env = getenv("DIBS_DATA");

    if (wanted != NULL) {
        *origin = "--data";
        return wanted;
    }
    if (from_env != NULL && from_env[0] != '\0') {
        *origin = "DIBS_DATA";
        return from_env;
    }
    return dibs_find_data_dir(a, NULL);
}

dibs_status client_open(const struct client_options *in, struct client **out,
                        struct dibs_error *err)
{
    dibs_status status = DIBS_OK;
    const char *dir = NULL, *origin = NULL;
    struct client *c = mem_alloc(sizeof *c);

    if (c == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot open the store: out of memory");
    c->way = &in_process;
    c->arena = dibs_arena_new();
    if (c->arena == NULL) {
        status = error_set(err, DIBS_OUT_OF_MEMORY, "cannot open the store: out of memory");
        goto out;
    }
    dir = find(c->arena, in->data_dir, &origin);
    if (dir == NULL) {
        status = not_found(NULL, NULL, err);
        goto out;
    }
    c->data_dir = mem_copy(dir);
    dibs_arena_reset(c->arena);
    if (c->data_dir == NULL) {
        status = error_set(err, DIBS_OUT_OF_MEMORY, "cannot open the store: out of memory");
        goto out;
    }
    status = dibs_open(&(struct dibs_options){.data_dir = c->data_dir, .settings = in->settings},
                       &c->store, err);
    if (status == DIBS_STORE_NOT_FOUND && origin != NULL)
        status = not_found(c->data_dir, origin, err);
out:
    if (status != DIBS_OK)
        client_close(c);
    else
        *out = c;
    return status;
}

void client_close(struct client *c)
{
    if (c == NULL)
        return;
    c->way->close(c);
    mem_free(c->data_dir);
    mem_free(c);
}

dibs *client_store(struct client *c)
{
    return c->way->store(c);
}

const char *client_data_dir(const struct client *c)
{
    return c->data_dir;
}

/* ---- one request ----------------------------------------------------------------------------- */

static int append(const char *bytes, size_t count, void *context)
{
    buf_append(context, bytes, count);
    return 0;
}

dibs_status client_call(struct client *c, const struct client_request *in,
                        struct client_answer *out, struct dibs_error *err)
{
    dibs_status status = DIBS_OK;
    struct buf body;
    struct api_request request = {.method = in->method,
                                  .path = in->path,
                                  .query = in->query,
                                  .idempotency_key = in->idempotency_key};

    /* a far larger room than a body may have: dibs itself says what its limit is */
    buf_init(&body, ANSWER_BYTES_MAX);
    if (in->body != NULL) {
        if (json_dump_callback(in->body, append, &body, JSON_COMPACT) != 0) {
            status = error_set(err, DIBS_OUT_OF_MEMORY, "cannot write the request: out of memory");
            goto out;
        }
        status = buf_status(&body, err);
        if (status != DIBS_OK)
            goto out;
        request.body = body.data;
        request.body_bytes = body.len;
    }
    status = c->way->call(c, &request, out, err);
out:
    buf_release(&body);
    return status;
}

void client_answer_release(struct client_answer *answer)
{
    json_decref(answer->json);
    answer->json = NULL;
}

void client_encode(struct buf *b, const char *text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

    for (; *text != '\0'; text++) {
        if (strchr(plain, *text) != NULL)
            buf_char(b, *text);
        else
            buf_printf(b, "%%%02X", (unsigned char)*text);
    }
}
