/* SPDX-License-Identifier: MIT */
/*
 * check.c: what callers send is checked here, before anything is written. Each check names the
 * field and what it should have been, so that the sentence alone is enough to mend the call.
 */
#include "core/core.h"

bool dibs__is_reserved_id(const char *id)
{
    /* "." and "..": clients take them out of a path before they send it */
    static const char *const words[] = {"claim",     "claims", "in-flight", "summary", "scores",
                                        "heartbeat", "stats",  "cleanup",   ".",       ".."};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (str_eq_nocase(id, words[i]))
            return true;
    return false;
}

dibs_status dibs__check_id(struct dibs_error *err, const char *field, const char *id)
{
    if (!id || !*id)
        return error_field(err, field, "is required");
    if (!str_is_id(id))
        return error_field(err, field, "must be 1 to %d characters of A-Z a-z 0-9 . _ : -",
                           ID_BYTES_MAX);
    return DIBS_OK;
}

dibs_status dibs__check_text(struct dibs_error *err, const char *field, const char *text,
                             size_t max)
{
    if (!text)
        return DIBS_OK;
    size_t bytes = strnlen(text, max + 1);
    if (bytes > max)
        return error_field(err, field, "is longer than %zu bytes", max);
    if (!str_is_utf8(text, bytes))
        return error_field(err, field, "is not valid UTF-8");
    return DIBS_OK;
}

dibs_status dibs__check_required(struct dibs_error *err, const char *field, const char *text,
                                 size_t max)
{
    if (!text || !*text)
        return error_field(err, field, "is required");
    return dibs__check_text(err, field, text, max);
}

dibs_status dibs__check_range(struct dibs_error *err, const char *field, int64_t value,
                              int64_t least, int64_t most)
{
    if (value < least || value > most)
        return error_field(err, field, "must be between %" PRId64 " and %" PRId64 ", not %" PRId64,
                           least, most, value);
    return DIBS_OK;
}

dibs_status dibs__check_ttl(struct tx *tx, const char *field, int64_t ttl_ms)
{
    const struct dibs_settings *s = &tx->d->settings;
    if (ttl_ms == 0 || (ttl_ms >= s->min_ttl_ms && ttl_ms <= s->max_ttl_ms))
        return DIBS_OK;
    char least[32], most[32];
    str_from_duration_ms(s->min_ttl_ms, least);
    str_from_duration_ms(s->max_ttl_ms, most);
    return error_field(tx->err, field,
                       "must be between %" PRId64 " (minTTL, %s) and %" PRId64
                       " (maxTTL, %s) milliseconds, not %" PRId64,
                       s->min_ttl_ms, least, s->max_ttl_ms, most, ttl_ms);
}

dibs_status dibs__check_limit(struct dibs_error *err, int64_t limit, int64_t *out)
{
    *out = limit ? limit : PAGE_DEFAULT;
    return dibs__check_range(err, "limit", *out, 1, PAGE_MAX);
}
