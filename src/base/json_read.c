/* SPDX-License-Identifier: MIT */
/*
 * json_read.c: one JSON document, strictly.
 *
 * jansson does the reading; it refuses duplicate keys, \u0000, lone surrogates, and numbers beyond
 * int64 and double. A scan before it looks for what jansson would accept, or would refuse without
 * saying where: a byte order mark, NUL, bytes that are not UTF-8, and nesting, which must be known
 * before a recursive reader is let loose on the text.
 *
 *   1. Every refusal names the byte, counted from 1, at which the text stopped being right.
 *   2. Out of memory is never reported as a fault of the text. jansson tells the two apart only now
 *      and then, so its requests for memory pass through here and a failed one is remembered, per
 *      thread.
 */
#include "json.h"

#include <pthread.h>

#include "str.h"

struct fault {
    size_t byte; /* from 1 on */
    char why[JSON_ERROR_TEXT_LENGTH];
};

static pthread_once_t hooks_once = PTHREAD_ONCE_INIT;
static _Thread_local bool memory_failed;

static void *hook_alloc(size_t bytes)
{
    void *block = mem_alloc(bytes);
    if (block == NULL)
        memory_failed = true;
    return block;
}

static void set_hooks(void)
{
    json_malloc_t allocate = NULL;
    json_free_t release = NULL;
    json_get_alloc_funcs(&allocate, &release);
    /* A program around the library may have set its own; its blocks must go back to where they came
     * from. Ours are the same heap as the standard ones. */
    if (allocate == malloc && release == free)
        json_set_alloc_funcs(hook_alloc, mem_free);
}

static bool fault_at(struct fault *f, size_t offset, const char *why)
{
    f->byte = offset + 1;
    str_fit(f->why, sizeof f->why, why);
    return false;
}

/* string_end: the offset of the quote that ends the string which starts at `at`; of the end of
 * the text if none does. */
static size_t string_end(const char *text, size_t bytes, size_t at)
{
    for (at++; at < bytes && text[at] != '"'; at++) {
        if (text[at] == '\\')
            at++;
    }
    return at < bytes ? at : bytes;
}

static bool scan_bytes(const char *text, size_t bytes, struct fault *f)
{
    if (bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        return fault_at(f, 0, "byte order mark");
    size_t at = str_utf8_run(text, bytes);
    if (at < bytes)
        return fault_at(f, at, text[at] == '\0' ? "NUL byte" : "not UTF-8");
    return true;
}

static bool scan_depth(const char *text, size_t bytes, struct fault *f)
{
    int depth = 0;
    for (size_t at = 0; at < bytes; at++) {
        char c = text[at];
        if (c == '"')
            at = string_end(text, bytes, at);
        else if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']')
            depth--;
        if (depth > JSON_DEPTH_MAX) {
            char why[64];
            snprintf(why, sizeof why, "nested more than %d deep", JSON_DEPTH_MAX);
            return fault_at(f, at, why);
        }
    }
    return true;
}

static bool scan_blank(const char *text, size_t bytes, struct fault *f)
{
    for (size_t at = 0; at < bytes; at++) {
        if (strchr(" \t\r\n", text[at]) == NULL) /* never NUL: scan_bytes has seen it */
            return true;
    }
    return fault_at(f, bytes, "it is empty");
}

/* explain: jansson's words, which may quote the text: no control characters, no half characters. */
static void explain(struct fault *f, const json_error_t *error)
{
    fault_at(f, error->position > 0 ? (size_t)error->position - 1 : 0, error->text);
    for (char *c = f->why; *c != '\0';) {
        size_t length = str_utf8_char(c, strlen(c));
        if (length == 0 || (unsigned char)*c < 0x20 || *c == 0x7F)
            *c = '?';
        c += length > 0 ? length : 1;
    }
}

/* parse: DIBS_OK and *out; DIBS_INVALID_REQUEST and what is wrong with the text; or
 * DIBS_OUT_OF_MEMORY. */
static dibs_status parse(const char *text, size_t bytes, json_t **out, struct fault *f)
{
    json_error_t error = {0};
    if (!scan_bytes(text, bytes, f) || !scan_depth(text, bytes, f) || !scan_blank(text, bytes, f))
        return DIBS_INVALID_REQUEST;
    pthread_once(&hooks_once, set_hooks);
    memory_failed = false;
    json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (memory_failed || json_error_code(&error) == json_error_out_of_memory) {
        json_decref(value);
        return DIBS_OUT_OF_MEMORY;
    }
    if (value == NULL) {
        explain(f, &error);
        return DIBS_INVALID_REQUEST;
    }
    *out = value;
    return DIBS_OK;
}

static dibs_status no_memory(struct dibs_error *err, size_t bytes)
{
    return error_set(err, DIBS_OUT_OF_MEMORY, "cannot read %zu bytes of JSON: out of memory",
                     bytes);
}

dibs_status json_read(const char *text, size_t bytes, json_t **out, struct dibs_error *err)
{
    struct fault f = {0};
    if (bytes > BODY_BYTES_MAX)
        return error_set(err, DIBS_PAYLOAD_TOO_LARGE, "JSON of %zu bytes is larger than %d bytes",
                         bytes, BODY_BYTES_MAX);
    dibs_status s = parse(text, bytes, out, &f);
    if (s == DIBS_OUT_OF_MEMORY)
        return no_memory(err, bytes);
    if (s != DIBS_OK)
        return error_set(err, s, "JSON is not valid at byte %zu: %s", f.byte, f.why);
    return DIBS_OK;
}

dibs_status json_check(const char *text, size_t max, const char *field, struct dibs_error *err)
{
    struct fault f = {0};
    json_t *value = NULL;
    if (text == NULL)
        return DIBS_OK;
    size_t bytes = strlen(text);
    if (bytes > max)
        return error_field(err, field, "is larger than %zu bytes", max);
    dibs_status s = parse(text, bytes, &value, &f);
    if (s == DIBS_OUT_OF_MEMORY)
        return no_memory(err, bytes);
    if (s != DIBS_OK)
        return error_field(err, field, "is not valid JSON at byte %zu: %s", f.byte, f.why);
    json_decref(value);
    return DIBS_OK;
}
