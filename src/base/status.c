/* SPDX-License-Identifier: MIT */
/*
 * status.c: what each status is called, means and maps to.
 *
 * One table, made from status.def, which is the only list of results: a new row there is all that
 * is needed here. The numbers have gaps, so the table is searched; a few dozen comparisons do not
 * show beside a request. A number that is in no row is answered as INTERNAL: only a bug can produce
 * it.
 */
#include "base.h"
#include "str.h"

enum kind { OUTCOME, REFUSAL, FAILURE };

static const struct row {
    dibs_status code;
    const char *name;
    int http, exit;
    enum kind kind;
    const char *sentence;
} rows[] = {
#define STATUS(number, NAME, http, exit, kind, sentence)                                           \
    {DIBS_##NAME, #NAME, http, exit, kind, sentence},
#include "status.def"
#undef STATUS
};

/* The header is generated, the table is included: they must say the same. */
#define STATUS(number, NAME, http, exit, kind, sentence)                                           \
    _Static_assert(DIBS_##NAME == (number), "dibs_status.h is older than status.def: " #NAME);
#include "status.def"
#undef STATUS

static const struct row *find(dibs_status s)
{
    const struct row *internal = rows;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (rows[i].code == s)
            return &rows[i];
        if (rows[i].code == DIBS_INTERNAL)
            internal = &rows[i];
    }
    return internal;
}

const char *dibs_status_name(dibs_status s)
{
    return find(s)->name;
}

const char *dibs_status_sentence(dibs_status s)
{
    return find(s)->sentence;
}

int dibs_status_http(dibs_status s)
{
    return find(s)->http;
}

int dibs_status_exit(dibs_status s)
{
    return find(s)->exit;
}

bool dibs_status_is_failure(dibs_status s)
{
    return find(s)->kind == FAILURE;
}

dibs_status dibs_status_from_name(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (str_eq(rows[i].name, name))
            return rows[i].code;
    }
    return DIBS_INTERNAL;
}
