/* SPDX-License-Identifier: MIT */
/*
 * log.h: one line per event on stderr, "time level message"; control characters are escaped so that
 * one line stays one line. Libraries do not talk: libdibs logs only what it cannot return (a failed
 * checkpoint), at LOG_WARN.
 */
#ifndef DIBS_LOG_H
#define DIBS_LOG_H

#include "base.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };
/* default LOG_WARN; also from DIBS_LOG=debug|info|warn|error|off */
void log_set_level(enum log_level least);
/* Where lines go; NULL: stderr. Tests replace it. The line has no newline at its end. */
void log_set_sink(void (*sink)(enum log_level level, const char *line));
void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
