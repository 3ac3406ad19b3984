/* SPDX-License-Identifier: MIT */
/*
 * openapi.h: the API as an OpenAPI 3.1 document, written out from the tables that make it work.
 */
#ifndef DIBS_OPENAPI_H
#define DIBS_OPENAPI_H

#include "base/buf.h"

#define OPENAPI_BYTES_MAX (256 * 1024)

/* Appends the document, always the same; make it once and keep it. False when out of memory, or
 * when `out` is too small. */
bool api_openapi(struct buf *out) MUST_USE;

#endif
