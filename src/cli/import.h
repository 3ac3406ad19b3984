/* SPDX-License-Identifier: MIT */
/*
 * import.h: a stream of JSON values, one at a time, with the line each began on: either one JSON
 * array or JSON lines.
 */
#ifndef DIBS_IMPORT_H
#define DIBS_IMPORT_H

#include "base/json.h"

struct import {
    FILE *from;
    bool started, is_array, ended;
    int64_t line; /* where the reader stands */
    int64_t at;   /* line on which the value read last began */
    struct buf text;
};

void import_init(struct import *in, FILE *from);
void import_release(struct import *in);
/* The next value; *out NULL at the end. A refusal names the line. The caller owns *out. */
dibs_status import_next(struct import *in, json_t **out, struct dibs_error *err) MUST_USE;

#endif
