/* SPDX-License-Identifier: MIT */
/*
 * listen.c: opens the doors.
 *
 *   1. Loopback (127.0.0.1 and ::1 on SERVER_PORT) unless --listen names an address of loopback or
 *      the wildcard itself; the unix socket always, with mode 0600.
 *   2. Sockets handed over by systemd (LISTEN_FDS) take the place of the addresses on TCP.
 *   3. A door to the outside stays shut while there is no key: checked before anything is bound.
 *   4. A dead socket file is replaced, a living one is not.
 */
#include "listen.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "listen_private.h"
#include "server.h"

#define BACKLOG 1024
#define UNIX_PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)
#define FIRST_PASSED_FD 3 /* SD_LISTEN_FDS_START of systemd's protocol */

struct listener {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } h;
    struct listeners *all;
    enum conn_kind kind;
    bool loopback, is_open;
    char url[160], dashboard[176], host[64];
    char path[UNIX_PATH_BYTES]; /* of a unix socket that we made; "" otherwise */
};

struct listeners {
    struct listeners_options o;
    struct listener each[LISTENERS_MAX];
    size_t count;
};

static void on_connection(uv_stream_t *stream, int status)
{
    struct listener *l = stream->data;
    if (status == 0)
        l->all->o.on_connection(l->all->o.context, stream, l->kind, l->loopback);
}

static dibs_status failed(const char *what, const char *why, struct dibs_error *err)
{
    return error_set(err, DIBS_STORE_UNAVAILABLE, "cannot listen on '%s': %s", what, why);
}

static struct listener *add(struct listeners *all, enum conn_kind kind, struct dibs_error *err)
{
    if (all->count == LISTENERS_MAX) {
        error_set(err, DIBS_INVALID_REQUEST, "at most %d addresses can be listened on",
                  LISTENERS_MAX);
        return NULL;
    }
    struct listener *l = &all->each[all->count];
    int rc = kind == CONN_UNIX ? uv_pipe_init(all->o.loop, &l->h.pipe, 0)
                               : uv_tcp_init(all->o.loop, &l->h.tcp);
    if (rc != 0) {
        failed("a socket", uv_strerror(rc), err);
        return NULL;
    }
    all->count++;
    l->h.handle.data = l;
    l->all = all;
    l->kind = kind;
    l->is_open = true;
    return l;
}

/* name_tcp: how to reach it; an address that means all of them is reached at loopback, too. */
static void name_tcp(struct listener *l)
{
    struct sockaddr_storage at = {0};
    int bytes = sizeof at, port = 0;
    uv_tcp_getsockname(&l->h.tcp, (struct sockaddr *)&at, &bytes);
    address_host(&at, l->host, sizeof l->host, &port);
    bool v6 = at.ss_family == AF_INET6;
    snprintf(l->url, sizeof l->url, v6 ? "http://[%s]:%d" : "http://%s:%d", l->host, port);
    if (str_eq(l->host, "0.0.0.0") || str_eq(l->host, "::"))
        snprintf(l->dashboard, sizeof l->dashboard, "http://%s:%d/", v6 ? "[::1]" : "127.0.0.1",
                 port);
    else
        snprintf(l->dashboard, sizeof l->dashboard, "%s/", l->url);
}

static dibs_status open_tcp(struct listeners *all, const struct address *a, const char *text,
                            struct dibs_error *err)
{
    struct listener *l = add(all, CONN_TCP, err);
    if (l == NULL)
        return err->code;
    l->loopback = a->loopback;
    unsigned flags = a->at.ss_family == AF_INET6 ? UV_TCP_IPV6ONLY : 0;
    int rc = uv_tcp_bind(&l->h.tcp, (const struct sockaddr *)&a->at, flags);
    if (rc == 0)
        rc = uv_listen(&l->h.stream, BACKLOG, on_connection);
    if (rc == UV_EADDRINUSE)
        return failed(text, "another program does; choose another port with --listen", err);
    if (rc != 0)
        return failed(text, uv_strerror(rc), err);
    name_tcp(l);
    return DIBS_OK;
}

/* ---- the unix socket ------------------------------------------------------------------------- */

static bool somebody_answers(const struct sockaddr_un *at)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd == -1)
        return true; /* cannot tell: leave it alone */
    bool answered = connect(fd, (const struct sockaddr *)at, sizeof *at) == 0;
    close(fd);
    return answered;
}

static dibs_status open_unix(struct listeners *all, const char *path, struct dibs_error *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct stat st;
    if (strlen(path) >= sizeof at.sun_path)
        return failed(path,
                      "the path of a unix socket has at most 107 bytes; put the data folder "
                      "somewhere shorter",
                      err);
    memcpy(at.sun_path, path, strlen(path) + 1);
    if (lstat(path, &st) == 0) {
        if (!S_ISSOCK(st.st_mode) || somebody_answers(&at))
            return failed(path, "somebody else does, or the file is no socket", err);
        unlink(path);
    }
    struct listener *l = add(all, CONN_UNIX, err);
    if (l == NULL)
        return err->code;
    l->loopback = true;
    mode_t before = umask(0177); /* born with mode 0600: no moment in which others may connect */
    int rc = uv_pipe_bind(&l->h.pipe, path);
    umask(before);
    if (rc == 0) {
        str_fit(l->path, sizeof l->path, path);
        rc = uv_listen(&l->h.stream, BACKLOG, on_connection);
    }
    if (rc != 0)
        return failed(path, uv_strerror(rc), err);
    snprintf(l->url, sizeof l->url, "unix:%s", path);
    return DIBS_OK;
}

/* ---- sockets from systemd -------------------------------------------------------------------- */

/* passed_count: how many descriptors were handed over to this very process. */
static int passed_count(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    int64_t owner = 0, number = 0;
    if (pid == NULL || count == NULL || !str_to_int(pid, &owner) || !str_to_int(count, &number) ||
        owner != getpid() || number < 0 || number > LISTENERS_MAX)
        return 0;
    return (int)number;
}

/* warn_if_open_to_all: whoever can connect to a unix socket may do everything. */
static void warn_if_open_to_all(const struct sockaddr_un *at)
{
    struct stat st;
    if (at->sun_path[0] != '\0' && stat(at->sun_path, &st) == 0 && (st.st_mode & 0077) != 0)
        log_line(LOG_WARN,
                 "everybody who can connect to '%s' may do everything; say SocketMode=0600 in the "
                 "socket unit",
                 at->sun_path);
}

static dibs_status open_passed(struct listeners *all, int fd, struct dibs_error *err)
{
    struct address a = {0};
    socklen_t bytes = sizeof a.at;
    if (getsockname(fd, (struct sockaddr *)&a.at, &bytes) != 0)
        return failed("a socket from systemd", strerror(errno), err);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    bool is_unix = a.at.ss_family == AF_UNIX;
    if (!is_unix)
        address_describe(&a);
    if (!is_unix && !a.loopback && !all->o.has_keys)
        return error_set(err, DIBS_FORBIDDEN,
                         "systemd passed a socket that others can reach, and there is no API key; "
                         "make one first: dibs key add NAME --role admin");
    struct listener *l = add(all, is_unix ? CONN_UNIX : CONN_TCP, err);
    if (l == NULL)
        return err->code;
    l->loopback = is_unix || a.loopback;
    if (is_unix)
        warn_if_open_to_all((const struct sockaddr_un *)&a.at);
    int rc = is_unix ? uv_pipe_open(&l->h.pipe, fd) : uv_tcp_open(&l->h.tcp, fd);
    if (rc == 0)
        rc = uv_listen(&l->h.stream, BACKLOG, on_connection);
    if (rc != 0)
        return failed("a socket from systemd", uv_strerror(rc), err);
    if (is_unix)
        snprintf(l->url, sizeof l->url, "unix:(from systemd)");
    else
        name_tcp(l);
    return DIBS_OK;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static dibs_status refuse_public(const char *text, struct dibs_error *err)
{
    return error_set(err, DIBS_FORBIDDEN,
                     "will not listen on '%s', which others can reach, while there is no API key; "
                     "make one first: dibs key add NAME --role admin",
                     text);
}

/* check: everything that was asked for can be read and may be opened. */
static dibs_status check(const struct listeners_options *in, bool *has_loopback,
                         struct dibs_error *err)
{
    for (size_t i = 0; i < in->listen.count; i++) {
        struct address a = {0};
        dibs_status s = address_read(in->listen.items[i], &a, err);
        if (s != DIBS_OK)
            return s;
        if (a.path == NULL && !a.loopback && !in->has_keys)
            return refuse_public(in->listen.items[i], err);
        *has_loopback = *has_loopback || (a.path == NULL && (a.loopback || a.any));
    }
    return DIBS_OK;
}

static dibs_status open_asked(struct listeners *all, struct dibs_error *err)
{
    dibs_status s = DIBS_OK;
    for (size_t i = 0; s == DIBS_OK && i < all->o.listen.count; i++) {
        struct address a = {0};
        s = address_read(all->o.listen.items[i], &a, err);
        if (s == DIBS_OK && a.path != NULL)
            s = open_unix(all, a.path, err);
        else if (s == DIBS_OK)
            s = open_tcp(all, &a, all->o.listen.items[i], err);
    }
    return s;
}

static dibs_status open_loopback(struct listeners *all, struct dibs_error *err)
{
    char text[32] = "";
    struct address a = {0};
    struct dibs_error ignored = {0};
    snprintf(text, sizeof text, "127.0.0.1:%d", SERVER_PORT);
    dibs_status s = address_read(text, &a, err);
    if (s == DIBS_OK)
        s = open_tcp(all, &a, text, err);
    snprintf(text, sizeof text, "[::1]:%d", SERVER_PORT);
    /* a machine may be without IPv6 */
    if (s == DIBS_OK && address_read(text, &a, &ignored) == DIBS_OK &&
        open_tcp(all, &a, text, &ignored) != DIBS_OK) {
        struct listener *l = &all->each[all->count - 1];
        l->is_open = false;
        l->url[0] = l->host[0] = '\0';
        uv_close(&l->h.handle, NULL);
    }
    return s;
}

/* is_open_at: whether one of the sockets is the file at `path`, however it was written. */
static bool is_open_at(const struct listeners *all, const char *path)
{
    struct stat wanted, at;
    if (stat(path, &wanted) != 0)
        return false;
    for (size_t i = 0; i < all->count; i++)
        if (all->each[i].path[0] != '\0' && stat(all->each[i].path, &at) == 0 &&
            at.st_dev == wanted.st_dev && at.st_ino == wanted.st_ino)
            return true;
    return false;
}

/* open_own: the socket in the data folder. Commands do without it when its path is too long. */
static dibs_status open_own(struct listeners *all, struct dibs_error *err)
{
    char path[PATH_MAX] = "";
    snprintf(path, sizeof path, "%.4000s/" SOCKET_NAME, all->o.data_dir);
    if (is_open_at(all, path))
        return DIBS_OK;
    if (strlen(path) < UNIX_PATH_BYTES)
        return open_unix(all, path, err);
    log_line(LOG_WARN, "no unix socket: '%s' is too long for one; commands use the data file",
             path);
    return DIBS_OK;
}

static dibs_status open_all(struct listeners *all, struct dibs_error *err)
{
    bool has_loopback = false, has_unix = false;
    int passed = passed_count();
    dibs_status s = check(&all->o, &has_loopback, err);
    for (int i = 0; s == DIBS_OK && i < passed; i++)
        s = open_passed(all, FIRST_PASSED_FD + i, err);
    for (size_t i = 0; i < all->count; i++)
        has_unix = has_unix || all->each[i].kind == CONN_UNIX;
    if (s == DIBS_OK)
        s = open_asked(all, err);
    if (s == DIBS_OK && passed == 0 && !has_loopback)
        s = open_loopback(all, err);
    return s == DIBS_OK && !has_unix ? open_own(all, err) : s;
}

dibs_status listeners_open(const struct listeners_options *in, struct listeners **out,
                           struct dibs_error *err)
{
    struct listeners *all = mem_alloc(sizeof *all);
    if (all == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot listen: out of memory");
    all->o = *in;
    *out = all; /* also when it failed: the caller closes what was opened */
    return open_all(all, err);
}

static const struct listener *nth(const struct listeners *l, size_t index, bool tcp_only)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct listener *at = &l->each[i];
        if (at->url[0] != '\0' && (!tcp_only || at->kind == CONN_TCP) && index-- == 0)
            return at;
    }
    return NULL;
}

const char *listeners_url(const struct listeners *l, size_t index)
{
    const struct listener *at = nth(l, index, false);
    return at != NULL ? at->url : NULL;
}

const char *listeners_host(const struct listeners *l, size_t index)
{
    const struct listener *at = nth(l, index, true);
    return at != NULL ? at->host : NULL;
}

const char *listeners_dashboard(const struct listeners *l)
{
    const struct listener *at = nth(l, 0, true);
    return at != NULL ? at->dashboard : NULL;
}

void listeners_close(struct listeners *l)
{
    for (size_t i = 0; i < l->count; i++) {
        struct listener *at = &l->each[i];
        if (!at->is_open)
            continue;
        at->is_open = false;
        if (at->path[0] != '\0')
            unlink(at->path);
        uv_close(&at->h.handle, NULL);
    }
}

void listeners_free(struct listeners *l)
{
    mem_free(l);
}
