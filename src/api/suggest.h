/* SPDX-License-Identifier: MIT */
/* suggest.h: the name that a mistyped one was probably meant to be. */
#ifndef DIBS_SUGGEST_H
#define DIBS_SUGGEST_H

#include "decode.h"

/* The nearest name of the fields, at most two slips of the finger away; NULL when none is. */
const char *suggest(const struct field *fields, size_t count, const char *name);

#endif
