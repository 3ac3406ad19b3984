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
 * The rows are few and compared one by one; there is no tree to maintain. Their paths are cut too,
 * once, so that most rows are ruled out by a length: how many segments, and how long the last.
 */
#include "api_internal.h"

#include <assert.h>
#include <pthread.h>

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

/* The path of a row, cut. */
struct pattern {
    struct {
        const char *text;
        size_t bytes; /* 0: ":id" */
    } segments[SEGMENTS_MAX];
    size_t count;
    size_t id_at;   /* which segment is ":id"; SEGMENTS_MAX: none */
    size_t same_as; /* the first row with the same path */
};
static struct pattern patterns[COUNT_OF(operations)];
static pthread_once_t patterns_once = PTHREAD_ONCE_INIT;

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

/* ---- the paths of the rows ------------------------------------------------------------------- */

static void cut_pattern(const char *path, struct pattern *out)
{
    out->id_at = SEGMENTS_MAX;
    while (*path == '/') {
        size_t bytes = strcspn(++path, "/");
        assert(out->count < SEGMENTS_MAX);
        if (*path == ':')
            out->id_at = out->count;
        out->segments[out->count].text = path;
        out->segments[out->count++].bytes = *path == ':' ? 0 : bytes;
        path += bytes;
    }
}

static void cut_patterns(void)
{
    for (size_t i = 0; i < COUNT_OF(operations); i++) {
        cut_pattern(operations[i].path, &patterns[i]);
        while (!str_eq(operations[patterns[i].same_as].path, operations[i].path))
            patterns[i].same_as++;
    }
}

/* fit: how well a row's path of as many segments fits: -1 not at all, else one bit per literal
 * segment, first highest. It begins at the end, where the rows differ most. */
static int fit(const struct pattern *pattern, const struct path *path)
{
    int score = 0;
    for (size_t i = path->count; i-- > 0;) {
        const struct segment *s = &path->segments[i];
        size_t bytes = pattern->segments[i].bytes;
        if (bytes == 0)
            continue;
        if (bytes != s->bytes || memcmp(pattern->segments[i].text, s->text, bytes) != 0)
            return -1;
        score |= 1 << (path->count - i);
    }
    return score;
}

/* best_fit: the row whose path fits best, whatever its method; -1 when none does. */
static int best_fit(const struct path *path)
{
    int best = -1, best_score = -1;
    pthread_once(&patterns_once, cut_patterns);
    for (size_t i = 0; i < COUNT_OF(operations); i++) {
        int score = patterns[i].count == path->count ? fit(&patterns[i], path) : -1;
        if (score > best_score) {
            best = (int)i;
            best_score = score;
        }
    }
    return best;
}

/* with_method: the row with the same path and the given method; -1 when there is none. */
static int with_method(int row, const char *method)
{
    size_t same_as = patterns[row].same_as;
    for (size_t i = same_as; i < COUNT_OF(operations); i++) {
        if (patterns[i].same_as == same_as && str_eq(operations[i].method, method))
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
        row = with_method(row, method);
    return row >= 0 ? &operations[row] : NULL;
}

/* take: the row, with the segment that stands where its path says ":id". */
static dibs_status take(int row, const struct path *path, struct route *out, struct dibs_error *err)
{
    size_t id_at = patterns[row].id_at;
    out->op = &operations[row];
    out->run = handlers[row].run;
    out->in = handlers[row].in;
    if (id_at == SEGMENTS_MAX)
        return DIBS_OK;
    if (!str_is_id(path->segments[id_at].text))
        return error_field(err, "id", "must be 1 to %d of A-Z a-z 0-9 . _ : -", ID_BYTES_MAX);
    str_fit(out->id, sizeof out->id, path->segments[id_at].text);
    return DIBS_OK;
}

dibs_status route_take(const struct api_operation *op, const char *path, struct route *out,
                       struct dibs_error *err)
{
    struct path cut_path;
    int row = (int)(op - operations);
    *out = (struct route){0};
    pthread_once(&patterns_once, cut_patterns);
    if (!cut(path, &cut_path) || patterns[row].count != cut_path.count)
        return error_set(err, DIBS_INTERNAL, "'%.200s' is no path of '%s'", path, op->name);
    return take(row, &cut_path, out, err);
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
    row = with_method(row, method);
    if (row < 0) {
        list_methods(pattern, out->allowed, sizeof out->allowed);
        return error_set(err, DIBS_METHOD_NOT_ALLOWED, "'%.200s' does not take %.16s, only %s",
                         path, method, out->allowed);
    }
    return take(row, &cut_path, out, err);
}
