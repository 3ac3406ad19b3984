/* SPDX-License-Identifier: MIT */
/*
 * hook_text.c: see hook_text.h. What others write may be of any length; what we keep has limits
 * (src/base/limits.h), so long texts are cut and end in "[...]" rather than being refused: a
 * service would deliver what is refused again and again.
 */
#include "hook_text.h"

#include "base/str.h"

#define CUT " [...]"

const char *hook_at_path(const json_t *json, const char *const *path)
{
    for (; *path != NULL; path++)
        json = json_object_get(json, *path);
    return json_string_value(json);
}

const char *hook_copy(struct hook_reader *r, const char *text, size_t max)
{
    if (text == NULL)
        return NULL;
    size_t bytes = strlen(text);
    if (bytes <= max) {
        const char *whole = arena_copy(r->a, text, bytes);
        r->no_memory = r->no_memory || whole == NULL;
        return whole;
    }
    char *cut = arena_alloc(r->a, max + 1);
    if (cut == NULL) {
        r->no_memory = true;
        return NULL;
    }
    str_fit(cut, max + 1 - strlen(CUT), text);
    memcpy(cut + strlen(cut), CUT, sizeof CUT);
    return cut;
}

const char *hook_setting(struct hook_reader *r, const char *text)
{
    return text[0] != '\0' ? hook_copy(r, text, KEY_BYTES_MAX) : NULL;
}

const char *hook_printf(struct hook_reader *r, const char *format, ...)
{
    struct buf b;
    char text[TITLE_BYTES_MAX * 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    buf_init(&b, sizeof text);
    /* vsnprintf may have cut a character in two */
    buf_append(&b, text, str_utf8_run(text, strlen(text)));
    return hook_take(r, &b, sizeof text);
}

const char *hook_take(struct hook_reader *r, struct buf *b, size_t max)
{
    const char *text = NULL;
    if (buf_ok(b))
        text = hook_copy(r, b->data != NULL ? b->data : "", max);
    else
        r->no_memory = true;
    buf_release(b);
    return text;
}

dibs_status hook_end(struct hook_reader *r, dibs_status status, struct dibs_error *err)
{
    json_decref(r->root);
    r->root = NULL;
    if (status == DIBS_OK && r->no_memory)
        status = error_set(err, DIBS_OUT_OF_MEMORY, "cannot read the delivery: out of memory");
    return status;
}
