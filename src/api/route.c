/* SPDX-License-Identifier: MIT */
/*
 * route.c: from method and path to the row of ops.def.
 *
 * A path is cut at its slashes, each segment is decoded, and the rows are compared segment by
 * segment. Among the paths that fit, a literal segment beats ":id", so /api/tasks/claim is never
 * the task called "claim" (which the library refuses as an id). The path is settled before the
 * method: what exists under another method is METHOD_NOT_ALLOWED and says which methods do.
 *
 *   1. A segment that is too long to be an id fits ":id" and is refused there, naming the field.
 *   2. An empty segment fits nothing.
 *
 * The rows are few and compared one by one; there is no tree to maintain.
 */
#include "api_internal.h"
#include "base/str.h"

#define SEGMENTS_MAX 8

static const struct api_operation operations[] = {
#define OP(name, method, path, scope, access, since, summary, function)                            \
    {#name, #method, path, API_##scope, API_##access, since, summary},
#include "ops.def"
#undef OP
};

static const struct {
    api_function *run;
    const struct api_shape *in;
} handlers[] = {
#define OP(name, method, path, scope, access, since, summary, function)                            \
    {api_##function, &api_in_##function},
#include "ops.def"
#undef OP
};

struct segment {
    char text[ID_BYTES_MAX + 1]; /* "" when it is too long to be anything we know */
    size_t bytes;
};
struct path {
    struct segment segments[SEGMENTS_MAX];
    size_t count;
};

const struct api_operation *api_operations(size_t *count)
{
    *count = COUNT_OF(operations);
    return operations;
}

const struct api_shape *route_shape(size_t i)
{
    return handlers[i].in;
}

/* cut: the segments of a path; false when it is longer than any of ours or has an empty segment. */
static bool cut(const char *path, struct path *out)
{
    out->count = 0;
    while (*path == '/') {
        size_t bytes = strcspn(++path, "/");
        if (bytes == 0 || out->count == SEGMENTS_MAX)
            return false;
        struct segment *s = &out->segments[out->count++];
        if (!decode_percent(path, bytes, false, s->text, sizeof s->text))
            s->text[0] = '\0';
        s->bytes = strlen(s->text);
        path += bytes;
    }
    return out->count > 0 && *path == '\0';
}

/* skip: behind the first `bytes` of a pattern's segment when they are all of it; NULL otherwise. */
static const char *skip(const char *pattern, const char *text, size_t bytes)
{
    if (strncmp(pattern, text, bytes) != 0)
        return NULL;
    pattern += bytes;
    return *pattern == '/' || *pattern == '\0' ? pattern : NULL;
}

/* fit: how well a row's path fits: -1 not at all, else one bit per literal segment, first highest.
 * Every request passes here twice for each row, so it gives up at the first segment that differs.
 * */
static int fit(const char *pattern, const struct path *path)
{
    int score = 0;
    for (size_t i = 0; i < path->count; i++) {
        if (*pattern++ != '/')
            return -1;
        const char *behind = skip(pattern, path->segments[i].text, path->segments[i].bytes);
        bool literal = behind != NULL;
        if (!literal && *pattern != ':')
            return -1;
        while (!literal && *pattern != '/' && *pattern != '\0')
            pattern++;
        score = score * 2 + literal;
        pattern = literal ? behind : pattern;
    }
    return *pattern == '\0' ? score : -1;
}

/* best_fit: the row whose path fits best, whatever its method; -1 when none does. */
static int best_fit(const struct path *path)
{
    int best = -1, best_score = -1;
    for (size_t i = 0; i < COUNT_OF(operations); i++) {
        int score = fit(operations[i].path, path);
        if (score > best_score) {
            best = (int)i;
            best_score = score;
        }
    }
    return best;
}

/* with_method: the row with the same path and the given method; -1 when there is none. */
static int with_method(const char *pattern, const char *method)
{
    for (size_t i = 0; i < COUNT_OF(operations); i++) {
        if (str_eq(operations[i].path, pattern) && str_eq(operations[i].method, method))
            return (int)i;
    }
    return -1;
}

static void list_methods(const char *pattern, char *out, size_t out_bytes)
{
    size_t length = 0;
    for (size_t i = 0; i < COUNT_OF(operations); i++) {
        if (!str_eq(operations[i].path, pattern) || length + 16 > out_bytes)
            continue;
        length += (size_t)snprintf(out + length, out_bytes - length, "%s%s", length > 0 ? ", " : "",
                                   operations[i].method);
    }
}

const struct api_operation *api_find(const char *method, const char *path)
{
    struct path cut_path;
    int row = cut(path, &cut_path) ? best_fit(&cut_path) : -1;
    if (row >= 0)
        row = with_method(operations[row].path, method);
    return row >= 0 ? &operations[row] : NULL;
}

/* take_id: copies the segment that stands where the row's path says ":id". */
static dibs_status take_id(const char *pattern, const struct path *path, struct route *out,
                           struct dibs_error *err)
{
    const char *colon = strchr(pattern, ':');
    if (colon == NULL)
        return DIBS_OK;
    size_t i = 0;
    for (const char *c = pattern + 1; c < colon; c++)
        i += *c == '/';
    if (!str_is_id(path->segments[i].text))
        return error_field(err, "id", "must be 1 to %d of A-Z a-z 0-9 . _ : -", ID_BYTES_MAX);
    str_fit(out->id, sizeof out->id, path->segments[i].text);
    return DIBS_OK;
}

dibs_status route_find(const char *method, const char *path, struct route *out,
                       struct dibs_error *err)
{
    struct path cut_path;
    *out = (struct route){0};
    int row = cut(path, &cut_path) ? best_fit(&cut_path) : -1;
    if (row < 0)
        return error_set(err, DIBS_NOT_FOUND, "there is nothing at '%.200s'", path);
    const char *pattern = operations[row].path;
    row = with_method(pattern, method);
    if (row < 0) {
        list_methods(pattern, out->allowed, sizeof out->allowed);
        return error_set(err, DIBS_METHOD_NOT_ALLOWED, "'%.200s' does not take %.16s, only %s",
                         path, method, out->allowed);
    }
    out->op = &operations[row];
    out->run = handlers[row].run;
    out->in = handlers[row].in;
    return take_id(pattern, &cut_path, out, err);
}
