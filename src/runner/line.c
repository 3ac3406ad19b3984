/* SPDX-License-Identifier: MIT */
/*
 * line.c: a thread that puts requests to dibs, one after another.
 *
 * The client waits for its answers; the loop must not. So the loop hands a call to a line and gets
 * it back through a queue and a wake-up when it is answered, or could not be.
 *
 *   1. A call belongs to one thread at a time: the loop's, the line's while it is under way.
 *   2. Calls of one line are put in order, urgent ones first. Nothing is repeated here: the loop
 *      decides about that.
 *   3. When a daemon on the data folder goes, the client goes on with the data file by itself; when
 *      one comes (back), the line goes over to it at its next request.
 */
#include <time.h>
#include <unistd.h>

#include "runner_private.h"

#include "base/str.h"

#define LOOK_EVERY_MS 2000 /* for a daemon, while there was none */

/* The first use of libcurl is not safe in two threads at once. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* now_ms: goes on in suspend, as leases do. */
int64_t now_ms(void)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- calls ----------------------------------------------------------------------------------- */

struct call *call_new(const char *method, char *path, json_t *body,
                      void (*done)(struct runner *r, struct call *c))
{
    struct call *c = need_alloc(sizeof *c);

    *c = (struct call){.method = method, .path = path, .body = body, .done = done};
    return c;
}

void call_free(struct call *c)
{
    client_answer_release(&c->answer);
    client_answer_release(&c->more);
    json_decref(c->body);
    mem_free(c->path);
    mem_free(c->query);
    mem_free(c->key);
    mem_free(c);
}

bool call_failed(const struct call *c)
{
    if (c->status != DIBS_OK)
        return true;
    return dibs_status_is_failure(c->answer.status) || c->answer.status == DIBS_RATE_LIMITED;
}

const char *call_message(const struct call *c)
{
    const char *text = json_text(c->answer.json, "message");

    if (c->status != DIBS_OK)
        return c->err.message;
    return text != NULL ? text : dibs_status_sentence(c->answer.status);
}

/* ---- the client ------------------------------------------------------------------------------ */

static dibs_status open_client(struct line *l, struct dibs_error *err)
{
    struct client *client = NULL;
    dibs_status status = DIBS_OK;

    pthread_mutex_lock(&opening);
    status = client_open(&l->options, &client, err);
    pthread_mutex_unlock(&opening);
    if (status != DIBS_OK)
        return status;
    client_close(l->client);
    l->client = client;
    atomic_store(&l->in_process, client_store(client) != NULL);
    l->looked_ms = now_ms();
    return DIBS_OK;
}

/* look_for_daemon: goes over to one that has come since the data file was opened here. */
static void look_for_daemon(struct line *l)
{
    struct dibs_error ignored = {0};
    struct buf path;
    bool there = false;

    if (client_store(l->client) == NULL || now_ms() - l->looked_ms < LOOK_EVERY_MS)
        return;
    buf_init(&path, BODY_BYTES_MAX);
    buf_printf(&path, "%s/dibs.sock", client_data_dir(l->client));
    there = buf_ok(&path) && access(path.data, F_OK) == 0;
    buf_release(&path);
    l->looked_ms = now_ms();
    /* should it fail, the one that is open serves as before */
    if (there && open_client(l, &ignored) != DIBS_OK)
        return;
}

/* put_then: what belongs to the answer, without a way back and forth through the loop. */
static void put_then(struct line *l, struct call *c)
{
    struct dibs_error ignored = {0};
    char *path = c->then(c);
    dibs_status status = client_call(
        l->client, &(struct client_request){.method = "GET", .path = path}, &c->more, &ignored);

    (void)status; /* the loop sees that there is nothing */
    mem_free(path);
}

static void put(struct line *l, struct call *c)
{
    struct client_request request = {.method = c->method,
                                     .path = c->path,
                                     .query = c->query,
                                     .body = c->body,
                                     .idempotency_key = c->key};

    look_for_daemon(l);
    c->sent_ms = now_ms();
    c->status = client_call(l->client, &request, &c->answer, &c->err);
    c->back_ms = now_ms();
    if (c->then != NULL && c->status == DIBS_OK && c->answer.status == DIBS_OK)
        put_then(l, c);
    atomic_store(&l->in_process, client_store(l->client) != NULL);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void give_back(struct returns *to, struct call *c)
{
    pthread_mutex_lock(&to->mutex);
    c->next = NULL;
    if (to->last != NULL)
        to->last->next = c;
    else
        to->first = c;
    to->last = c;
    pthread_mutex_unlock(&to->mutex);
    uv_async_send(&to->async);
}

static void *serve(void *context)
{
    struct line *l = context;
    struct call *c = NULL;

    pthread_mutex_lock(&l->mutex);
    while (!l->closing) {
        c = l->first;
        if (c == NULL) {
            pthread_cond_wait(&l->cond, &l->mutex);
            continue;
        }
        l->first = c->next;
        pthread_mutex_unlock(&l->mutex);
        put(l, c);
        give_back(&l->runner->returns, c);
        pthread_mutex_lock(&l->mutex);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

dibs_status line_open(struct line *l, struct runner *r, const struct client_options *options,
                      struct dibs_error *err)
{
    l->runner = r;
    l->options = *options;
    l->options.given_up = &l->given_up;
    return open_client(l, err);
}

dibs_status line_start(struct line *l, struct dibs_error *err)
{
    int failed = 0;

    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->cond, NULL);
    failed = pthread_create(&l->thread, NULL, serve, l);
    if (failed != 0)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot start a thread: %s", strerror(failed));
    l->running = true;
    return DIBS_OK;
}

void line_post(struct line *l, struct call *c)
{
    struct call **at = &l->first;

    pthread_mutex_lock(&l->mutex);
    while (!c->urgent && *at != NULL)
        at = &(*at)->next;
    c->next = *at;
    *at = c;
    pthread_cond_signal(&l->cond);
    pthread_mutex_unlock(&l->mutex);
}

void line_close(struct line *l)
{
    struct call *next = NULL;

    if (l->running) {
        atomic_store(&l->given_up, true);
        pthread_mutex_lock(&l->mutex);
        l->closing = true;
        pthread_cond_signal(&l->cond);
        pthread_mutex_unlock(&l->mutex);
        pthread_join(l->thread, NULL);
        pthread_cond_destroy(&l->cond);
        pthread_mutex_destroy(&l->mutex);
    }
    for (struct call *c = l->first; c != NULL; c = next) {
        next = c->next;
        call_free(c);
    }
    client_close(l->client);
    *l = (struct line){0};
}
