/* SPDX-License-Identifier: MIT */
/*
 * query.c: query strings, and percent-encoding.
 *
 * A value of a query is text; it is made into the JSON value that its field expects and then takes
 * the same way as a member of a body (decode_field). Lists are separated by commas. What is not
 * given is not in the query: an empty value is refused, except for flags, where ?all means
 * ?all=true.
 */
#include "base/str.h"
#include "decode.h"

static dibs_status no_memory(struct decoder *d)
{
    return error_set(d->err, DIBS_OUT_OF_MEMORY, "cannot read the request: out of memory");
}

/* list_of: a comma-separated text as a JSON list. */
static json_t *list_of(const char *text)
{
    json_t *list = json_array();
    for (const char *at = text; list != NULL; at++) {
        size_t bytes = strcspn(at, ",");
        if (json_array_append_new(list, json_stringn(at, bytes)) != 0) {
            json_decref(list);
            return NULL;
        }
        at += bytes;
        if (*at == '\0')
            break;
    }
    return list;
}

/* from_text: a value of a query as the JSON value that the field would have in a body. */
static json_t *from_text(const struct field *f, const char *text)
{
    int64_t number = 0;
    switch (f->kind) {
    case FIELD_BOOL:
        if (text[0] == '\0' || str_eq_nocase(text, "true") || str_eq(text, "1"))
            return json_true();
        if (str_eq_nocase(text, "false") || str_eq(text, "0"))
            return json_false();
        return json_string(text);
    case FIELD_STRINGS: return list_of(text);
    case FIELD_INT:
    case FIELD_TIME:
    case FIELD_MINUTES:
    case FIELD_PRIORITY:
        return str_to_int(text, &number) ? json_integer(number) : json_string(text);
    default: return json_string(text);
    }
}

static dibs_status read_parameter(struct decoder *d, const char *name, const char *text)
{
    const struct field *f = decode_find(d->shape, name);
    if (f == NULL)
        return decode_unknown(d, "query parameter", name);
    if (text[0] == '\0' && f->kind != FIELD_BOOL)
        return error_field(d->err, name, "must not be empty");
    json_t *v = from_text(f, text);
    if (v == NULL)
        return no_memory(d);
    dibs_status s = decode_field(d, f, v);
    json_decref(v);
    return s;
}

/* part: decodes one name or value of a query into the arena. */
static dibs_status part(struct decoder *d, const char *text, size_t bytes, const char **out)
{
    char *decoded = arena_alloc(d->a, bytes + 1);
    if (decoded == NULL)
        return no_memory(d);
    if (!decode_percent(text, bytes, true, decoded, bytes + 1))
        return error_field(d->err, "query", "is not valid at '%.*s'",
                           (int)(bytes < 40 ? bytes : 40), text);
    *out = decoded;
    return DIBS_OK;
}

dibs_status decode_query(struct decoder *d, const char *query)
{
    for (const char *at = query; at != NULL && *at != '\0';) {
        size_t bytes = strcspn(at, "&"), name_bytes = strcspn(at, "=&");
        size_t skip = name_bytes < bytes ? name_bytes + 1 : bytes;
        const char *name = NULL, *text = NULL;
        if (bytes > 0) {
            dibs_status s = part(d, at, name_bytes, &name);
            if (s == DIBS_OK)
                s = part(d, at + skip, bytes - skip, &text);
            if (s == DIBS_OK)
                s = read_parameter(d, name, text);
            if (s != DIBS_OK)
                return s;
        }
        at += bytes + (at[bytes] == '&');
    }
    return DIBS_OK;
}

/* ---- percent-encoding ------------------------------------------------------------------------ */

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool decode_percent(const char *text, size_t bytes, bool plus_is_space, char *out, size_t out_bytes)
{
    size_t length = 0;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (c == '%') {
            int high = i + 2 < bytes ? hex(text[i + 1]) : -1;
            int low = high >= 0 ? hex(text[i + 2]) : -1;
            if (low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (length + 1 >= out_bytes)
            return false;
        out[length++] = c;
    }
    out[length] = '\0';
    return str_is_utf8(out, length);
}
