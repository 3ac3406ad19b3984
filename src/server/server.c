/* SPDX-License-Identifier: MIT */
/*
 * server.c: puts the daemon together, runs it, and takes it apart again.
 *
 * Start: the store is opened (and brought up to date) once, then the database threads, then the
 * doors; only then is it ready. Stop: the doors are shut, nobody waits any longer, every request
 * that was accepted is answered, then the threads end, then the handles. A second signal, or
 * STOP_MS, ends it at once: nothing that was answered is lost by that.
 */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "core/serve.h"
#include "server_private.h"

#define STOP_MS 10000
#define TICK_MS 500
#define CONNECTIONS_MAX 12000
#define HOSTS_MAX 64
#define SPARE_FILES 256 /* descriptors that are not connections */

/* ---- hooks ----------------------------------------------------------------------------------- */

static void on_connection(void *context, uv_stream_t *listener, enum conn_kind kind, bool loopback)
{
    static const char full[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
                               "Content-Length: 0\r\nConnection: close\r\n\r\n";
    struct server *s = context;
    struct conn *c = conn_accept(s->conns, listener, kind, loopback);
    if (c == NULL)
        return;
    metrics_connection(s->metrics, 1);
    if (conns_count(s->conns) <= s->connections_max && !s->stopping)
        return;
    metrics_refused_connection(s->metrics);
    conn_send_text(c, full, sizeof full - 1);
    conn_close(c, true);
}

static void on_drained(struct conn *c)
{
    struct server *s = conn_server(c);
    sse_drained(s->sse, c);
}

static const struct conn_hooks hooks = {
    .request = dispatch,
    .gone = dispatch_gone,
    .drained = on_drained,
    .refused = dispatch_refused,
    .answered = dispatch_answered,
    .closed = dispatch_closed,
};

/* Events that concern the daemon itself. While nobody reads along no others are read, so whatever
 * on_page looks for must be here. */
static const char *const own_types[] = {
    "key:added",       "key:revoked",          "session:registered",
    "session:active",  "session:deregistered", "session:stale",
    "inbox:responded",
};

static void on_page(void *context, struct page *page)
{
    struct server *s = context;
    bool keys = false, sessions = false, answers = false;
    for (size_t i = 0; i < page->count; i++) {
        const char *type = page->events[i].type;
        keys = keys || str_starts(type, "key:");
        sessions = sessions || str_starts(type, "session:");
        answers = answers || str_eq(type, "inbox:responded");
    }
    if (keys)
        keys_refresh(s);
    if (sessions)
        watch_refresh(s->watch);
    if (answers)
        sender_look(s->sender);
    sse_page(s->sse, page);
    page_drop(page);
}

static void on_others(void *context)
{
    struct server *s = context;
    writer_nudge(s->writer);
}

static int64_t newest_event(void *context)
{
    struct server *s = context;
    return writer_last_event(s->writer);
}

static bool settle(void *context)
{
    struct server *s = context;
    return outbox_settle(s->outbox);
}

static void on_durable(void *context)
{
    struct server *s = context;
    struct journal *journal = atomic_load(&s->journal); /* not there yet in the first moments */
    if (journal != NULL)
        journal_hint(journal);
}

static void on_flush_failed(void *context)
{
    struct server *s = context;
    uv_async_send(&s->failure);
}

static void on_failure(void *context, const struct dibs_error *err)
{
    struct server *s = context;
    log_line(LOG_ERROR, "cannot commit: %s", err->message);
    if (dibs__is_broken())
        uv_async_send(&s->failure);
}

static void on_before_sleep(uv_prepare_t *prepare)
{
    struct server *s = prepare->data;
    if (s->writer != NULL)
        writer_wake(s->writer);
}

/* ---- stopping -------------------------------------------------------------------------------- */

static void close_handle(void *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* close_parts: the threads end, then the handles; also of a start that failed half-way. */
static void close_parts(struct server *s)
{
    if (s->listeners != NULL)
        listeners_close(s->listeners);
    conns_close_all(s->conns);
    if (s->sender != NULL)
        sender_stop(s->sender);
    if (s->writer != NULL)
        writer_stop(s->writer);
    if (s->readers != NULL)
        readers_stop(s->readers);
    if (s->journal != NULL)
        journal_stop(s->journal);
    if (s->watch != NULL)
        watch_stop(s->watch);
    if (s->sse != NULL)
        sse_stop(s->sse);
    mail_close(&s->mail);
    close_handle(&s->on_term);
    close_handle(&s->on_int);
    close_handle(&s->on_hup);
    close_handle(&s->timer);
    close_handle(&s->before_sleep);
    close_handle(&s->failure);
}

/* finish: every request has been answered. */
static void finish(struct server *s)
{
    if (s->stopped)
        return;
    s->stopped = s->stopping = true;
    close_parts(s);
}

static bool all_answered(const struct server *s)
{
    return conns_count(s->conns) == 0 && s->jobs_out == 0;
}

static void begin_stop(struct server *s)
{
    s->stopping = true;
    s->stop_by_ms = server_us() / 1000 + STOP_MS;
    notify_systemd("STOPPING=1");
    listeners_close(s->listeners);
    sse_stop(s->sse);
    writer_drain(s->writer);
    sender_drain(s->sender);
    conns_drain(s->conns);
    uv_timer_set_repeat(&s->timer, 10);
    uv_timer_again(&s->timer);
}

static void reload_hooks(struct server *s)
{
    struct dibs_error err = {0};
    if (dibs__hook_settings(s->data_dir, &s->hooks, &err) != DIBS_OK)
        log_line(LOG_WARN, "the settings of webhooks stay as they were: %s", err.message);
    sender_look(s->sender);
}

static void on_signal(uv_signal_t *signal, int number)
{
    struct server *s = signal->data;
    if (number == SIGHUP) {
        log_line(LOG_INFO, "reading the settings again");
        writer_reload(s->writer);
        readers_reload(s->readers);
        reload_hooks(s);
    } else if (!s->stopping) {
        begin_stop(s);
    } else {
        finish(s);
    }
}

static void on_broken(uv_async_t *async)
{
    struct server *s = async->data;
    error_set(&s->why, DIBS_STORE_UNAVAILABLE,
              "a flush to disk has failed: the daemon ends, as nothing it still holds of the file "
              "can be trusted; what was answered is on disk");
    finish(s);
}

static void on_tick(uv_timer_t *timer)
{
    struct server *s = timer->data;
    conns_check_times(s->conns);
    keys_tick(s);
    fflush(stdout); /* lines about requests do not wait for a full buffer */
    if (s->stopping && (all_answered(s) || server_us() / 1000 >= s->stop_by_ms))
        finish(s);
}

/* ---- starting -------------------------------------------------------------------------------- */

static void lock_path(const struct server *s, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%.4000s/daemon.lock", s->data_dir);
}

/* holds_lock: whether the file we have locked is still the one at that path; who ends removes
 * it. */
static bool holds_lock(int fd, const char *path)
{
    struct stat ours, there;
    return fstat(fd, &ours) == 0 && stat(path, &there) == 0 && ours.st_ino == there.st_ino &&
           ours.st_dev == there.st_dev;
}

/* lock_folder: one daemon per data folder; the lock goes with the process. */
static dibs_status lock_folder(struct server *s, struct dibs_error *err)
{
    char path[PATH_MAX];
    lock_path(s, path);
    for (;;) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd == -1)
            return error_set(err, DIBS_STORE_UNAVAILABLE, "cannot make '%s': %s", path,
                             strerror(errno));
        bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
        if (locked && holds_lock(fd, path)) {
            s->lock_fd = fd;
            return DIBS_OK;
        }
        close(fd);
        if (!locked)
            return error_set(err, DIBS_STORE_BUSY, "another daemon serves '%s' already",
                             s->data_dir);
    }
}

/* open_once: makes and migrates the store, and reads the keys, before any thread does. */
static dibs_status open_once(struct server *s, struct dibs_error *err)
{
    dibs *d = NULL;
    struct dibs_key_list keys = {0};
    dibs_status status = dibs_open(&(struct dibs_options){.data_dir = s->o.data_dir,
                                                          .create = s->o.create,
                                                          .settings = s->o.settings},
                                   &d, err);
    if (status != DIBS_OK)
        return status;
    if (realpath(s->o.data_dir, s->data_dir) == NULL)
        status = error_set(err, DIBS_STORE_UNAVAILABLE, "cannot use '%s': %s", s->o.data_dir,
                           strerror(errno));
    if (status == DIBS_OK)
        status = lock_folder(s, err);
    if (status == DIBS_OK)
        status = dibs__hook_settings(s->data_dir, &s->hooks, err);
    if (status == DIBS_OK)
        status = dibs__keys_load(d, s->arena, &keys, err);
    if (status == DIBS_OK && !auth_set_keys(s->auth, &keys))
        status = error_set(err, DIBS_OUT_OF_MEMORY, "cannot keep the API keys: out of memory");
    s->has_keys = keys.count > 0;
    dibs_arena_reset(s->arena);
    dibs_close(d);
    return status;
}

static dibs_status start_threads(struct server *s, struct dibs_error *err)
{
    dibs_status status = writer_start(&(struct writer_options){.data_dir = s->data_dir,
                                                               .settings = s->o.settings,
                                                               .outbox = s->outbox,
                                                               .on_failure = on_failure,
                                                               .context = s},
                                      &s->writer, err);
    if (status == DIBS_OK)
        status = readers_start(&(struct readers_options){.data_dir = s->data_dir,
                                                         .settings = s->o.settings,
                                                         .outbox = s->outbox},
                               &s->readers, err);
    struct journal *journal = NULL;
    if (status == DIBS_OK)
        status =
            journal_start(&(struct journal_options){.data_dir = s->data_dir,
                                                    .settings = s->o.settings,
                                                    .loop = &s->loop,
                                                    .on_page = on_page,
                                                    .own_types = {own_types, COUNT_OF(own_types)},
                                                    .on_others = on_others,
                                                    .settle = settle,
                                                    .context = s},
                          &journal, err);
    atomic_store(&s->journal, journal);
    return status;
}

static void open_handles(struct server *s)
{
    uv_signal_init(&s->loop, &s->on_term);
    uv_signal_init(&s->loop, &s->on_int);
    uv_signal_init(&s->loop, &s->on_hup);
    uv_timer_init(&s->loop, &s->timer);
    uv_prepare_init(&s->loop, &s->before_sleep);
    uv_async_init(&s->loop, &s->failure, on_broken);
    s->on_term.data = s->on_int.data = s->on_hup.data = s->timer.data = s->failure.data = s;
    s->before_sleep.data = s;
    uv_signal_start(&s->on_term, on_signal, SIGTERM);
    uv_signal_start(&s->on_int, on_signal, SIGINT);
    uv_signal_start(&s->on_hup, on_signal, SIGHUP);
    uv_timer_start(&s->timer, on_tick, TICK_MS, TICK_MS);
    uv_prepare_start(&s->before_sleep, on_before_sleep);
}

/* count_connections: as many as there are descriptors for. */
static void count_connections(struct server *s)
{
    struct rlimit files = {0};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_NOFILE, &files);
    int64_t room = (int64_t)files.rlim_cur - SPARE_FILES;
    int64_t wanted = s->o.connections_max > 0 ? s->o.connections_max : CONNECTIONS_MAX;
    s->connections_max = room < wanted ? room : wanted;
    if (s->connections_max < 8)
        s->connections_max = 8;
}

static dibs_status make_parts(struct server *s, struct dibs_error *err)
{
    struct conn_limits limits = {.idle_ms = s->o.idle_timeout_ms > 0 ? s->o.idle_timeout_ms : 75000,
                                 .request_ms =
                                     s->o.request_timeout_ms > 0 ? s->o.request_timeout_ms : 10000,
                                 .answer_ms = 30000};
    s->arena = dibs_arena_new();
    s->auth = auth_new(&(struct auth_options){.hosts = s->o.hosts});
    s->metrics = metrics_new();
    s->conns = conns_new(&s->loop, &hooks, &limits, s);
    s->outbox = outbox_new(&(struct outbox_options){
        .mail = &s->mail, .on_durable = on_durable, .on_broken = on_flush_failed, .context = s});
    buf_init(&s->openapi, ANSWER_BYTES_MAX);
    if (s->outbox == NULL || s->arena == NULL || s->auth == NULL || s->metrics == NULL ||
        s->conns == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot start: out of memory");
    return DIBS_OK;
}

static dibs_status make_followers(struct server *s, struct dibs_error *err)
{
    s->sse = sse_new(&(struct sse_options){.loop = &s->loop,
                                           .readers = s->readers,
                                           .journal = s->journal,
                                           .newest = newest_event,
                                           .context = s});
    s->watch = watch_new(&(struct watch_options){
        .loop = &s->loop, .readers = s->readers, .writer = s->writer, .jobs_out = &s->jobs_out});
    s->sender = sender_new(&(struct sender_options){.loop = &s->loop,
                                                    .readers = s->readers,
                                                    .writer = s->writer,
                                                    .jobs_out = &s->jobs_out,
                                                    .settings = &s->hooks});
    if (s->sse == NULL || s->watch == NULL || s->sender == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot start: out of memory");
    watch_refresh(s->watch);
    sender_look(s->sender);
    return DIBS_OK;
}

/* allow_hosts: the addresses we listen on are good names for us. */
static dibs_status allow_hosts(struct server *s, struct dibs_error *err)
{
    const char *names[LISTENERS_MAX + HOSTS_MAX];
    size_t count = 0;
    if (s->o.hosts.count > HOSTS_MAX)
        return error_set(err, DIBS_INVALID_REQUEST, "at most %d names can be given with --host",
                         HOSTS_MAX);
    for (size_t i = 0; i < s->o.hosts.count; i++)
        names[count++] = s->o.hosts.items[i];
    for (size_t i = 0; listeners_host(s->listeners, i) != NULL; i++)
        names[count++] = listeners_host(s->listeners, i);
    if (!auth_set_hosts(s->auth, (struct dibs_strings){.items = names, .count = count}))
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot start: out of memory");
    return DIBS_OK;
}

static void announce(const struct server *s)
{
    for (size_t i = 0; !s->o.quiet && listeners_url(s->listeners, i) != NULL; i++)
        printf("dibs: listening on %s\n", listeners_url(s->listeners, i));
    if (!s->o.quiet && listeners_dashboard(s->listeners) != NULL)
        printf("dibs: dashboard at %s\n", listeners_dashboard(s->listeners));
    fflush(stdout);
    notify_systemd("READY=1");
}

static dibs_status start(struct server *s, struct dibs_error *err)
{
    count_connections(s);
    dibs_status status = make_parts(s, err);
    if (status == DIBS_OK)
        status = open_once(s, err);
    if (status == DIBS_OK)
        status = start_threads(s, err);
    if (status == DIBS_OK)
        status = make_followers(s, err);
    if (status == DIBS_OK)
        status = listeners_open(&(struct listeners_options){.loop = &s->loop,
                                                            .data_dir = s->data_dir,
                                                            .listen = s->o.listen,
                                                            .has_keys = s->has_keys,
                                                            .on_connection = on_connection,
                                                            .context = s},
                                &s->listeners, err);
    return status == DIBS_OK ? allow_hosts(s, err) : status;
}

static void free_parts(struct server *s)
{
    sender_free(s->sender);
    watch_free(s->watch);
    sse_free(s->sse);
    readers_free(s->readers);
    writer_free(s->writer); /* only now does nobody flush any more, who would tell the journal */
    journal_free(s->journal);
    outbox_free(s->outbox);
    listeners_free(s->listeners);
    conns_free(s->conns);
    metrics_free(s->metrics);
    auth_free(s->auth);
    buf_release(&s->openapi);
    dibs_arena_free(s->arena);
    if (s->lock_fd != -1) {
        char path[PATH_MAX];
        lock_path(s, path);
        unlink(path);
        close(s->lock_fd);
    }
}

dibs_status server_run(const struct server_options *in, struct dibs_error *err)
{
    struct server *s = mem_alloc(sizeof *s);
    if (s == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot start: out of memory");
    s->o = *in;
    s->lock_fd = -1;
    jobs_init(&s->keys.then);
    s->started_ms = server_us() / 1000;
    if (uv_loop_init(&s->loop) != 0 || mail_open(&s->mail, &s->loop) != 0)
        abort(); /* only for lack of memory or descriptors, before anything was promised */
    open_handles(s);
    dibs_status status = start(s, err);
    if (status == DIBS_OK)
        announce(s);
    else
        close_parts(s);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    if (status == DIBS_OK && s->why.code != DIBS_OK)
        status = error_set(err, s->why.code, "%s", s->why.message);
    free_parts(s);
    uv_loop_close(&s->loop);
    mem_free(s);
    return status;
}
