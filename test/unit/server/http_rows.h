/* SPDX-License-Identifier: MIT */
/*
 * http_rows.h: requests that must be refused, as a table.
 */
#ifndef DIBS_TEST_HTTP_ROWS_H
#define DIBS_TEST_HTTP_ROWS_H

#include "http_check.h"

#include <setjmp.h>

#include <cmocka.h>

struct http_row {
    int status;
    const char *bytes;
    size_t count;
};
#define ROW(status, text)                                                                          \
    {                                                                                              \
        status, text, sizeof(text) - 1                                                             \
    }
#define BAD(text) ROW(400, text)

static inline void assert_all_refused(const char *front, const struct http_row *rows, size_t count,
                                      const char *back)
{
    for (size_t i = 0; i < count; i++)
        assert_true(http_is_refused(front, rows[i].bytes, rows[i].count, back, rows[i].status));
}

#endif
