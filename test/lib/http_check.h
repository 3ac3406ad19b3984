/* SPDX-License-Identifier: MIT */
/*
 * http_check.h: what comes out of server/http.h, as a text that can be compared.
 *
 *     POST /a?b host=h close 1.1
 *     host: h
 *     [5]hello
 *     refused 400
 *
 * The last line is "refused ...", "idle" (nothing is begun) or "more" (something is).
 */
#ifndef DIBS_TEST_HTTP_CHECK_H
#define DIBS_TEST_HTTP_CHECK_H

#include "base/buf.h"

/* How a stream is cut: `first` bytes, then pieces of `step`; 0: all the rest at once. */
struct http_cut {
    size_t first, step;
};

/*
 * http_transcript: feeds the bytes and writes down what happens; the caller frees the text. Each
 * piece is a block of its own, so that a sanitizer sees a look beyond it. Aborts when a request is
 * not what http.h promises.
 */
char *http_transcript(const void *bytes, size_t count, struct http_cut cut);
/* Aborts unless the transcript is the same however the bytes are cut. */
void http_check(const void *bytes, size_t count);
/*
 * http_is_refused: front, bytes, back and a canary behind them give nothing but a refusal with this
 * status, whole, byte by byte and cut at each place. False: prints what they gave.
 */
bool http_is_refused(const char *front, const void *bytes, size_t count, const char *back,
                     int status);

#endif
