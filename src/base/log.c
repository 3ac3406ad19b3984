/* SPDX-License-Identifier: MIT */
/*
 * log.c: one line per event, "time level message".
 *
 * A line is built on the stack and leaves in one write, so that lines of several threads and
 * processes do not mix and logging works when memory does not. Level and sink may be changed by one
 * thread while others log: both are atomic.
 *
 *   1. One call is one line: control characters, and bytes that are not UTF-8, are written as \n,
 *      \t or \x1b, so what somebody calls a task can neither forge a line nor steer a terminal.
 *   2. A message that is too long is cut.
 */
#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "str.h"
#include "timefmt.h"

#define LINE_BYTES 2048

typedef void sink_fn(enum log_level level, const char *line);

static const char *const names[] = {"debug", "info", "warn", "error", "off"};
static pthread_once_t environment_once = PTHREAD_ONCE_INIT;
static atomic_int least_level = LOG_WARN;
static _Atomic(sink_fn *) line_sink; /* NULL: stderr */

static void read_environment(void)
{
    const char *wanted = getenv("DIBS_LOG");
    for (int i = 0; wanted != NULL && i < (int)COUNT_OF(names); i++) {
        if (str_eq_nocase(wanted, names[i]))
            atomic_store(&least_level, i);
    }
}

void log_set_level(enum log_level least)
{
    pthread_once(&environment_once, read_environment); /* so that it does not overrule this later */
    atomic_store(&least_level, (int)least);
}

void log_set_sink(void (*sink)(enum log_level level, const char *line))
{
    atomic_store(&line_sink, sink);
}

/* safe: bytes of the character at text that may stand in a line as they are; 0 when its first
 * byte may not. */
static size_t safe(const char *text, size_t bytes)
{
    const unsigned char *t = (const unsigned char *)text;
    size_t length = str_utf8_char(text, bytes);
    bool control = t[0] < 0x20 || t[0] == 0x7F || (t[0] == 0xC2 && length == 2 && t[1] < 0xA0);
    return control ? 0 : length;
}

/* append_safe: message behind the first `at` bytes of line, escaped; what does not fit is left
 * out. */
static void append_safe(char line[LINE_BYTES], size_t at, const char *message)
{
    size_t rest = strlen(message);
    while (rest > 0) {
        char piece[8] = {0};
        size_t taken = safe(message, rest), length = taken;
        if (taken > 0)
            memcpy(piece, message, taken);
        else {
            taken = 1;
            const char *name = *message == '\n' ? "\\n" : *message == '\t' ? "\\t" : NULL;
            length = (size_t)(name != NULL ? snprintf(piece, sizeof piece, "%s", name)
                                           : snprintf(piece, sizeof piece, "\\x%02x",
                                                      (unsigned)(unsigned char)*message));
        }
        if (at + length >= LINE_BYTES)
            break;
        memcpy(line + at, piece, length);
        at += length;
        message += taken;
        rest -= taken;
    }
    line[at] = '\0';
}

static void write_line(char line[LINE_BYTES + 1])
{
    size_t length = strlen(line), done = 0;
    line[length++] = '\n';
    while (done < length) {
        ssize_t wrote = write(STDERR_FILENO, line + done, length - done);
        if (wrote < 0 && errno != EINTR)
            return; /* nowhere left to say so */
        if (wrote > 0)
            done += (size_t)wrote;
    }
}

void log_line(enum log_level level, const char *format, ...)
{
    pthread_once(&environment_once, read_environment);
    if (level < LOG_DEBUG || level >= LOG_OFF || (int)level < atomic_load(&least_level))
        return;
    char message[LINE_BYTES], line[LINE_BYTES + 1], when[TIME_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    int saved = errno; /* a line in the log must not change what the caller is about to look at */
    time_to_text(dibs_platform_real()->wall_ms(NULL), when);
    int front = snprintf(line, sizeof line, "%s %s ", when, names[level]);
    append_safe(line, (size_t)front, message);
    sink_fn *sink = atomic_load(&line_sink);
    if (sink != NULL)
        sink(level, line);
    else
        write_line(line);
    errno = saved;
}
