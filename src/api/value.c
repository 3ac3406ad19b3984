/* SPDX-License-Identifier: MIT */
/*
 * value.c: a JSON value that a caller gave us, as compact text again.
 *
 * params, metadata, results and checkpoints are the caller's; we keep them as text. jansson's own
 * printer writes 0.1 as 0.10000000000000001, so numbers and text go through our writer, which takes
 * no more digits than it needs to read back the same number. Members keep their order. Nesting is
 * bounded by json_read, which every value has passed.
 */
#include "decode.h"

static void write_text(struct buf *out, const char *text, size_t bytes)
{
    struct jw w;
    jw_init(&w, out);
    jw_textn(&w, text, bytes);
}

static void write_scalar(struct buf *out, const json_t *value)
{
    struct jw w;
    jw_init(&w, out);
    switch (json_typeof(value)) {
    case JSON_INTEGER: jw_int(&w, json_integer_value(value)); break;
    case JSON_REAL: jw_real(&w, json_real_value(value)); break;
    case JSON_STRING: jw_textn(&w, json_string_value(value), json_string_length(value)); break;
    case JSON_NULL: jw_null(&w); break;
    default: jw_bool(&w, json_is_true(value));
    }
}

static void write_array(struct buf *out, const json_t *array)
{
    buf_char(out, '[');
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (i > 0)
            buf_char(out, ',');
        value_write(out, json_array_get(array, i));
    }
    buf_char(out, ']');
}

static void write_object(struct buf *out, const json_t *object)
{
    /* jansson's iterators want a plain pointer, and change nothing */
    json_t *members = (json_t *)(uintptr_t)object;
    const char *key = NULL;
    json_t *value = NULL;
    bool first = true;
    buf_char(out, '{');
    json_object_foreach(members, key, value)
    {
        if (!first)
            buf_char(out, ',');
        first = false;
        write_text(out, key, strlen(key));
        buf_char(out, ':');
        value_write(out, value);
    }
    buf_char(out, '}');
}

void value_write(struct buf *out, const json_t *value)
{
    if (json_is_object(value))
        write_object(out, value);
    else if (json_is_array(value))
        write_array(out, value);
    else
        write_scalar(out, value);
}

const char *value_text(dibs_arena *a, const json_t *value)
{
    /* escapes may make text six times as long as it came in */
    struct buf out;
    buf_init(&out, 6 * (size_t)BODY_BYTES_MAX);
    value_write(&out, value);
    const char *text = buf_ok(&out) ? arena_copy(a, out.data, out.len) : NULL;
    buf_release(&out);
    return text;
}
