/* SPDX-License-Identifier: MIT */
/*
 * client.c: decides how dibs is reached, and puts one request to it.
 *
 *     --url, DIBS_URL ------------------------------> way_http over TCP
 *     data folder found, dibs.sock takes a connection -> way_http over the socket
 *     data folder found, nobody there --------------> way_in_process: the store, opened here
 *
 *   1. The answer is JSON whichever way it came; a refusal is an answer, not an error.
 *   2. Where the data are is decided here, once: --url, --data, DIBS_URL, DIBS_DATA, then the
 *      nearest .dibs above the current folder.
 *   3. A daemon that is there but does not answer is an error and no reason to go around it: it may
 *      be alive and stuck. Only a socket that nobody listens on is passed over.
 *   4. Whoever brings settings of his own opens the store himself: a daemon has its own settings,
 *      and to ignore an option silently would be worse.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client_private.h"

#include "base/str.h"

#define SOCKET_NAME "dibs.sock"
#define CONNECT_MS 5000

/* ---- the way inside this process ------------------------------------------------------------- */

static dibs_status in_process_call(struct client *c, const struct api_request *in, int64_t wait_ms,
                                   struct client_answer *out, struct dibs_error *err)
{
    dibs_status status = DIBS_OK;
    json_t *json = NULL;
    struct api_response response = {0};

    (void)wait_ms; /* the library waits by itself */
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

const struct way way_in_process = {.call = in_process_call};

static dibs_status no_memory(struct dibs_error *err)
{
    return error_set(err, DIBS_OUT_OF_MEMORY, "cannot open the store: out of memory");
}

dibs_status client_go_in_process(struct client *c, struct dibs_strings settings,
                                 struct dibs_error *err)
{
    struct dibs_options options = {.data_dir = c->data_dir, .settings = settings};
    dibs_status status = DIBS_OK;

    if (c->arena == NULL)
        c->arena = dibs_arena_new();
    if (c->arena == NULL)
        return no_memory(err);
    status = dibs_open(&options, &c->store, err);
    if (status == DIBS_OK)
        c->way = &way_in_process;
    return status;
}

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

/* find: the folder to open, to be freed; *origin says who chose it. NULL with DIBS_OK: none. */
static dibs_status find(const char *wanted, const char **origin, char **out, struct dibs_error *err)
{
    const char *from_env = getenv("DIBS_DATA");
    dibs_arena *a = NULL;

    if (wanted != NULL) {
        *origin = "--data";
    } else if (from_env != NULL && from_env[0] != '\0') {
        *origin = "DIBS_DATA";
        wanted = from_env;
    } else {
        a = dibs_arena_new();
        if (a == NULL)
            return no_memory(err);
        wanted = dibs_find_data_dir(a, NULL);
    }
    *out = mem_copy(wanted);
    dibs_arena_free(a);
    return wanted != NULL && *out == NULL ? no_memory(err) : DIBS_OK;
}

/* has_own_settings: on the command line or in the environment. */
static bool has_own_settings(const struct client_options *in)
{
    static const char *const names[] = {
#define SETTING(field, name, environment, standard, least, most, is_duration, summary) environment,
#include "core/settings.def"
#undef SETTING
    };
    const char *text = NULL;

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        text = getenv(names[i]);
        if (text != NULL && text[0] != '\0')
            return true;
    }
    return in->settings.count > 0;
}

/* ---- the daemon's socket --------------------------------------------------------------------- */

/* try_connect: 0 when somebody takes the connection, else why not. */
static int try_connect(const struct sockaddr_un *address, int64_t patience_ms)
{
    struct timeval patience = {.tv_sec = patience_ms / 1000,
                               .tv_usec = (patience_ms % 1000) * 1000};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), why = 0;

    if (fd < 0)
        return errno;
    /* it waits only while the queue of those who want to connect is full */
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0)
        why = errno;
    close(fd);
    return why;
}

/* look_for_daemon: c->socket_path when there is one behind the folder; NULL: there is none. */
static dibs_status look_for_daemon(struct client *c, struct dibs_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int bytes = snprintf(address.sun_path, sizeof address.sun_path, "%s/" SOCKET_NAME, c->data_dir);
    int64_t patience_ms = c->patience_ms > 0 ? c->patience_ms : CONNECT_MS;
    int why = 0;

    /* no daemon can listen on a path that does not fit */
    if (bytes < 0 || (size_t)bytes >= sizeof address.sun_path)
        return DIBS_OK;
    if (access(address.sun_path, F_OK) != 0)
        return DIBS_OK;
    why = try_connect(&address, patience_ms);
    if (why == EAGAIN || why == EINPROGRESS)
        return error_set(err, DIBS_DAEMON_UNREACHABLE,
                         "the daemon at '%s' has taken no connection for %" PRId64
                         " ms; it may be stuck: look at its log, or restart it",
                         address.sun_path, patience_ms);
    if (why != 0)
        return DIBS_OK;
    c->socket_path = mem_copy(address.sun_path);
    return c->socket_path != NULL ? DIBS_OK : no_memory(err);
}

/* ---- opening --------------------------------------------------------------------------------- */

static dibs_status open_url(struct client *c, const struct client_options *in, const char *url,
                            struct dibs_error *err)
{
    const char *origin = in->url != NULL ? "--url" : "DIBS_URL";
    size_t bytes = 0;
    dibs_status status = DIBS_OK;

    if (in->data_dir != NULL)
        return error_set(err, DIBS_INVALID_REQUEST, "either --url or --data, not both");
    if (in->needs_store)
        return error_set(err, DIBS_INVALID_REQUEST,
                         "this command works on the data folder itself and cannot be sent to a "
                         "daemon by %s; run it where the data are, with --data DIR",
                         origin);
    if (in->settings.count > 0)
        return error_set(err, DIBS_INVALID_REQUEST,
                         "a setting cannot be given together with %s: the daemon has its own; give "
                         "it to 'dibs serve'",
                         origin);
    status = client_check_url(url, &bytes, err);
    if (status != DIBS_OK)
        return status;
    c->url = mem_copy(url);
    if (c->url == NULL)
        return no_memory(err);
    c->url[bytes] = '\0';
    return client_go_http(c, err);
}

static dibs_status open_folder(struct client *c, const struct client_options *in,
                               struct dibs_error *err)
{
    const char *origin = NULL;
    dibs_status status = find(in->data_dir, &origin, &c->data_dir, err);

    if (status != DIBS_OK)
        return status;
    if (c->data_dir == NULL)
        return not_found(NULL, NULL, err);
    if (!in->needs_store && !has_own_settings(in)) {
        status = look_for_daemon(c, err);
        if (status != DIBS_OK)
            return status;
        if (c->socket_path != NULL)
            return client_go_http(c, err);
    }
    status = client_go_in_process(c, in->settings, err);
    if (status == DIBS_STORE_NOT_FOUND && origin != NULL)
        return not_found(c->data_dir, origin, err);
    return status;
}

dibs_status client_open(const struct client_options *in, struct client **out,
                        struct dibs_error *err)
{
    dibs_status status = DIBS_OK;
    const char *url = in->url;
    struct client *c = mem_alloc(sizeof *c);

    if (c == NULL)
        return no_memory(err);
    c->patience_ms = in->patience_ms;
    c->given_up = in->given_up;
    if (url == NULL && in->data_dir == NULL)
        url = getenv("DIBS_URL");
    if (url != NULL && (url[0] != '\0' || in->url != NULL))
        status = open_url(c, in, url, err);
    else
        status = open_folder(c, in, err);
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
    dibs_close(c->store);
    dibs_arena_free(c->arena);
    http_link_free(c->link);
    mem_free(c->data_dir);
    mem_free(c->url);
    mem_free(c->socket_path);
    mem_free(c);
}

dibs *client_store(struct client *c)
{
    return c->store;
}

const char *client_data_dir(const struct client *c)
{
    return c->data_dir;
}

const char *client_url(const struct client *c)
{
    return c->url;
}

/* ---- one request ----------------------------------------------------------------------------- */

static int append(const char *bytes, size_t count, void *context)
{
    buf_append(context, bytes, count);
    return 0;
}

/* longest: the larger one of a wait so far and one that the body asks for. */
static int64_t longest(int64_t wait_ms, const json_t *body, const char *field)
{
    int64_t here_ms = json_integer_value(json_object_get(body, field));

    return here_ms > wait_ms ? here_ms : wait_ms;
}

/* query_wait: what "waitMs=N" in a query asks for; 0 when it does not. */
static int64_t query_wait(const char *query)
{
    static const char name[] = "waitMs=";
    int64_t wait_ms = 0;

    while (query != NULL && !str_starts(query, name)) {
        query = strchr(query, '&');
        query = query != NULL ? query + 1 : NULL;
    }
    if (query == NULL)
        return 0;
    for (query += strlen(name); *query >= '0' && *query <= '9' && wait_ms < WAIT_MS_MAX; query++)
        wait_ms = wait_ms * 10 + (*query - '0');
    return wait_ms;
}

/* wait_of: how long the request says that it would wait for its answer. */
static int64_t wait_of(const struct client_request *in)
{
    static const char *const fields[] = {"wait_ms", "waitMs"};
    const json_t *next = json_object_get(in->body, "claimNext");
    int64_t wait_ms = query_wait(in->query);

    for (size_t i = 0; i < COUNT_OF(fields); i++)
        wait_ms = longest(longest(wait_ms, in->body, fields[i]), next, fields[i]);
    return wait_ms < WAIT_MS_MAX ? wait_ms : WAIT_MS_MAX;
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
    status = c->way->call(c, &request, wait_of(in), out, err);
out:
    buf_release(&body);
    return status;
}

bool client_has_stream(const struct client *c)
{
    return c->way->stream != NULL;
}

dibs_status client_stream(struct client *c, const struct client_stream *in, struct dibs_error *err)
{
    if (c->way->stream == NULL)
        return error_set(err, DIBS_DAEMON_UNREACHABLE,
                         "there is no daemon whose events could be followed");
    return c->way->stream(c, in, err);
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
