/* SPDX-License-Identifier: MIT */
/*
 * capture.c: keeps what a command prints: all of it in a log, up to a limit, and its end in memory.
 *
 *     log:    the first LOG_BYTES_MAX bytes of stdout and stderr as they come, then nothing more;
 *             at the end a line that says how much was left out, and the last LOG_END_BYTES
 *     result: {"exitCode": 0, "output": "the last 8 KiB of stdout"}; but if all of stdout is one
 *             JSON object of at most 256 KiB, that object is the result itself
 *
 *   1. Memory is bounded whatever the command prints, and the command never waits for more than a
 *      write to a file.
 *   2. A log that cannot be written costs the log, not the work.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner_private.h"

#include "base/str.h"

#define LOG_BYTES_MAX (16 * 1024 * 1024)
#define LOG_END_BYTES (64 * 1024)
#define ERR_END_BYTES 4096

/* ---- the last bytes -------------------------------------------------------------------------- */

void tail_init(struct tail *t, size_t max)
{
    *t = (struct tail){.data = need_alloc(max), .max = max};
}

void tail_release(struct tail *t)
{
    mem_free(t->data);
    *t = (struct tail){0};
}

void tail_add(struct tail *t, const char *bytes, size_t count)
{
    size_t first = 0;

    if (count > t->max) {
        bytes += count - t->max;
        count = t->max;
    }
    first = t->max - t->at < count ? t->max - t->at : count;
    memcpy(t->data + t->at, bytes, first);
    memcpy(t->data, bytes + first, count - first);
    t->at = (t->at + count) % t->max;
    t->count = t->count + count < t->max ? t->count + count : t->max;
}

void tail_copy(const struct tail *t, struct buf *to)
{
    size_t start = t->count < t->max ? 0 : t->at;
    size_t first = t->max - start < t->count ? t->max - start : t->count;

    if (t->count == 0)
        return;
    buf_append(to, t->data + start, first);
    buf_append(to, t->data, t->count - first);
}

/* ---- the log --------------------------------------------------------------------------------- */

/* make_folders: the folder of the path and those above it. */
static bool make_folders(const char *path)
{
    char *copy = need_copy(path);
    bool made = true;

    for (char *slash = strchr(copy + 1, '/'); slash != NULL && made;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        made = mkdir(copy, 0700) == 0 || errno == EEXIST;
        *slash = '/';
    }
    mem_free(copy);
    return made;
}

/* open_log: made when it is not there, and so are the folders above it. */
static int open_log(const char *path)
{
    const int how = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
    int fd = open(path, how, 0600);

    return fd < 0 && errno == ENOENT && make_folders(path) ? open(path, how, 0600) : fd;
}

bool capture_open(struct capture *c, const char *dir, const char *name, struct dibs_error *why)
{
    struct buf path;

    *c = (struct capture){.log_fd = -1, .whole_open = true};
    tail_init(&c->log_end, LOG_END_BYTES);
    tail_init(&c->out_end, RESULT_OUTPUT_BYTES);
    tail_init(&c->err_end, ERR_END_BYTES);
    buf_init(&c->whole, JSON_VALUE_BYTES_MAX);
    buf_init(&path, BODY_BYTES_MAX);
    buf_printf(&path, "%s/%s", dir, name);
    c->log_path = need_detach(&path);
    c->log_fd = open_log(c->log_path);
    if (c->log_fd >= 0)
        return true;
    error_set(why, DIBS_STORE_UNAVAILABLE, "cannot write '%.300s': %s", c->log_path,
              strerror(errno));
    mem_free(c->log_path);
    c->log_path = NULL;
    return false;
}

void capture_release(struct capture *c)
{
    if (c->log_fd >= 0)
        close(c->log_fd);
    tail_release(&c->log_end);
    tail_release(&c->out_end);
    tail_release(&c->err_end);
    buf_release(&c->whole);
    mem_free(c->log_path);
    *c = (struct capture){.log_fd = -1};
}

/* write_log: bytes as they are; the first failure closes the log. */
static void write_log(struct capture *c, const char *bytes, size_t count)
{
    ssize_t wrote = 0;

    while (count > 0 && c->log_fd >= 0) {
        wrote = write(c->log_fd, bytes, count);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            close(c->log_fd);
            c->log_fd = -1;
            c->log_broken = true;
            return;
        }
        bytes += wrote;
        count -= (size_t)wrote;
    }
}

static void to_log(struct capture *c, const char *bytes, size_t count)
{
    size_t room = 0;

    if (c->log_fd < 0)
        return;
    if (c->log_bytes < LOG_BYTES_MAX) {
        room = (size_t)(LOG_BYTES_MAX - c->log_bytes);
        room = room < count ? room : count;
        write_log(c, bytes, room);
        c->log_bytes += (int64_t)room;
    }
    if (count > room) {
        tail_add(&c->log_end, bytes + room, count - room);
        c->left_out += (int64_t)(count - room);
    }
}

void capture_end(struct capture *c)
{
    struct buf b;

    if (c->left_out > 0) {
        buf_init(&b, LOG_END_BYTES + 256);
        buf_printf(&b, "\n[dibs: the log is full: %" PRId64 " bytes are left out here]\n",
                   c->left_out - (int64_t)c->log_end.count);
        tail_copy(&c->log_end, &b);
        if (buf_ok(&b))
            write_log(c, b.data, b.len);
        buf_release(&b);
    }
    if (c->log_fd >= 0)
        close(c->log_fd);
    c->log_fd = -1;
}

/* ---- the streams ----------------------------------------------------------------------------- */

/* to_whole: stdout as long as it may be one JSON object. */
static void to_whole(struct capture *c, const char *bytes, size_t count)
{
    size_t blank = 0;

    if (!c->whole_open)
        return;
    if (c->whole.len == 0)
        while (blank < count && strchr(" \t\r\n", bytes[blank]) != NULL && bytes[blank] != '\0')
            blank++;
    if (blank == count)
        return;
    if (c->whole.len == 0 && bytes[blank] != '{') {
        c->whole_open = false;
        return;
    }
    buf_append(&c->whole, bytes + blank, count - blank);
    if (!buf_ok(&c->whole)) {
        c->whole_open = false;
        buf_release(&c->whole);
    }
}

void capture_out(struct capture *c, const char *bytes, size_t count)
{
    to_log(c, bytes, count);
    tail_add(&c->out_end, bytes, count);
    to_whole(c, bytes, count);
}

void capture_err(struct capture *c, const char *bytes, size_t count)
{
    to_log(c, bytes, count);
    tail_add(&c->err_end, bytes, count);
}

/* ---- what is left of it ---------------------------------------------------------------------- */

/* clean: the bytes as text that JSON can carry: what is no UTF-8, and NUL, become U+FFFD; at the
 * front the rest of a character that was cut is left out. */
static char *clean(const char *bytes, size_t count, bool was_cut)
{
    struct buf b;
    size_t at = 0, good = 0;

    buf_init(&b, 3 * count + 1);
    while (was_cut && at < count && at < 3 && ((unsigned char)bytes[at] & 0xC0) == 0x80)
        at++;
    while (at < count) {
        good = str_utf8_char(bytes + at, count - at);
        if (good > 0 && bytes[at] != '\0')
            buf_append(&b, bytes + at, good);
        else
            buf_text(&b, "\xEF\xBF\xBD");
        at += good > 0 ? good : 1;
    }
    return need_detach(&b);
}

static char *tail_text(const struct tail *t)
{
    struct buf b;
    char *text = NULL;

    buf_init(&b, t->max);
    tail_copy(t, &b);
    text = clean(b.data != NULL ? b.data : "", b.len, t->count == t->max);
    buf_release(&b);
    return text;
}

/* printed_object: all of stdout, if it is one JSON object that can be a result; else NULL. */
static json_t *printed_object(const struct capture *c)
{
    struct dibs_error ignored = {0};
    json_t *object = NULL;

    if (!c->whole_open || c->whole.len == 0 ||
        json_read(c->whole.data, c->whole.len, &object, &ignored) != DIBS_OK)
        return NULL;
    if (need_fits(object, JSON_VALUE_BYTES_MAX)) /* 1e99 takes 21 bytes when it is written again */
        return object;
    json_decref(object);
    return NULL;
}

json_t *capture_result(struct capture *c, int exit_code, const char *signal_name)
{
    json_t *result = printed_object(c);
    char *text = NULL;

    if (result != NULL)
        return result;
    result = need_json(json_object());
    if (signal_name != NULL)
        need_text(result, "signal", signal_name);
    else
        need_int(result, "exitCode", exit_code);
    text = tail_text(&c->out_end);
    need_text(result, "output", text);
    mem_free(text);
    return result;
}

void capture_last_error(const struct capture *c, char *out, size_t max)
{
    char *text = tail_text(&c->err_end);
    size_t end = strlen(text), start = 0;

    while (end > 0 && strchr(" \t\r\n", text[end - 1]) != NULL)
        end--;
    text[end] = '\0';
    for (start = end; start > 0 && text[start - 1] != '\n' && text[start - 1] != '\r'; start--)
        ;
    str_fit(out, max, text + start);
    mem_free(text);
}
