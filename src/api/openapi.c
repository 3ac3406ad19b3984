/* SPDX-License-Identifier: MIT */
/*
 * openapi.c: the document: paths from ops.def, what they take from the shapes, what they answer
 * from openapi_replies.c, refusals from status.def.
 *
 *     api_openapi -> info, tags, paths (operation: parameters, body, responses), components
 *
 *   1. Schemas of answers leave room for more members: clients must ignore what they do not know.
 *      Those of requests do not, as we refuse what we do not know.
 *   2. An operation without a row in openapi_replies.c is left out; the test does not let it be.
 *
 * What the daemon serves beside the operations (health, metrics) is described here by hand.
 */
#include "openapi.h"

#include "api_internal.h"
#include "base/str.h"
#include "openapi_parts.h"
#include "openapi_schemas.h"

#define SCHEMA_REF "#/components/schemas/"

/* ---- answers --------------------------------------------------------------------------------- */

static void plain_type(struct jw *w, const char *name, const char *format, bool or_null)
{
    jw_key(w, "type");
    if (or_null) {
        jw_array(w);
        jw_text(w, name);
        jw_text(w, "null");
        jw_array_end(w);
    } else {
        jw_text(w, name);
    }
    jw_ktext_opt(w, "format", format);
}

static void refer(struct jw *w, const char *key, const char *schema)
{
    char target[64];
    snprintf(target, sizeof target, SCHEMA_REF "%s", schema);
    jw_kobject(w, key);
    jw_ktext(w, "$ref", target);
    jw_object_end(w);
}

static void one_of_ours(struct jw *w, const struct member *m)
{
    char target[64];
    snprintf(target, sizeof target, SCHEMA_REF "%s", m->of);
    if (!(m->flags & MEMBER_NULL)) {
        jw_ktext(w, "$ref", target);
        return;
    }
    jw_karray(w, "anyOf");
    jw_object(w);
    jw_ktext(w, "$ref", target);
    jw_object_end(w);
    jw_object(w);
    jw_ktext(w, "type", "null");
    jw_object_end(w);
    jw_array_end(w);
}

static void items_of(struct jw *w, const char *key, const char *type)
{
    jw_kobject(w, key);
    jw_ktext(w, "type", type);
    jw_object_end(w);
}

static void id_or_number(struct jw *w)
{
    jw_karray(w, "type");
    jw_text(w, "string");
    jw_text(w, "integer");
    jw_array_end(w);
}

static void member(struct jw *w, const struct member *m)
{
    bool or_null = (m->flags & MEMBER_NULL) != 0;
    jw_kobject(w, m->name);
    switch (m->kind) {
    case MEMBER_TEXT: plain_type(w, "string", NULL, or_null); break;
    case MEMBER_INT: plain_type(w, "integer", "int64", or_null); break;
    case MEMBER_BOOL: plain_type(w, "boolean", NULL, or_null); break;
    case MEMBER_TIME: plain_type(w, "string", "date-time", or_null); break;
    case MEMBER_JSON: break;
    case MEMBER_TEXTS:
        plain_type(w, "array", NULL, or_null);
        items_of(w, "items", "string");
        break;
    case MEMBER_COUNTS:
        plain_type(w, "object", NULL, or_null);
        items_of(w, "additionalProperties", "integer");
        break;
    case MEMBER_ID: id_or_number(w); break;
    case MEMBER_ONE: one_of_ours(w, m); break;
    case MEMBER_LIST:
        plain_type(w, "array", NULL, or_null);
        refer(w, "items", m->of);
        break;
    }
    jw_ktext(w, "description", m->doc);
    jw_object_end(w);
}

/* members: "type", "properties" and "required" of an object. */
static void members(struct jw *w, const struct member *list, size_t count, bool is_answer)
{
    jw_ktext(w, "type", "object");
    jw_kobject(w, "properties");
    if (is_answer) {
        jw_kobject(w, "success");
        jw_ktext(w, "type", "boolean");
        jw_kbool(w, "const", true);
        jw_object_end(w);
    }
    for (size_t i = 0; i < count; i++)
        member(w, &list[i]);
    jw_object_end(w);
    jw_karray(w, "required");
    if (is_answer)
        jw_text(w, "success");
    for (size_t i = 0; i < count; i++) {
        if (list[i].flags & MEMBER_ALWAYS)
            jw_text(w, list[i].name);
    }
    jw_array_end(w);
}

static void refer_item(struct jw *w, const char *schema)
{
    char target[64];
    snprintf(target, sizeof target, SCHEMA_REF "%s", schema);
    jw_object(w);
    jw_ktext(w, "$ref", target);
    jw_object_end(w);
}

/* one_of_words: a schema that is a word. */
static void one_of_words(struct jw *w, const char *const *words)
{
    jw_ktext(w, "type", "string");
    jw_karray(w, "enum");
    for (size_t i = 0; words[i] != NULL; i++)
        jw_text(w, words[i]);
    jw_array_end(w);
}

static void schema(struct jw *w, const struct schema *s)
{
    jw_kobject(w, s->name);
    if (str_eq(s->name, "Code"))
        openapi_codes(w, "description");
    else
        jw_ktext(w, "description", s->doc);
    if (s->words != NULL) {
        one_of_words(w, s->words);
    } else if (s->any_of != NULL) {
        jw_karray(w, "anyOf");
        for (size_t i = 0; s->any_of[i] != NULL; i++)
            refer_item(w, s->any_of[i]);
        jw_array_end(w);
    } else if (s->base != NULL) {
        jw_karray(w, "allOf");
        refer_item(w, s->base);
        jw_object(w);
        members(w, s->members, s->count, false);
        jw_object_end(w);
        jw_array_end(w);
    } else {
        members(w, s->members, s->count, false);
    }
    jw_object_end(w);
}

/* stream: the other form of GET /api/events. */
static void stream(struct jw *w)
{
    jw_kobject(w, "text/event-stream");
    jw_kobject(w, "schema");
    jw_ktext(w, "type", "string");
    jw_ktext(w, "description",
             "Unless the caller accepts application/json only: server-sent events as they happen. "
             "`id` is the number of the event, `event` its type, `data` an Event. An event "
             "`resync` says that some were missed and are gone.");
    jw_object_end(w);
    jw_object_end(w);
}

static void success(struct jw *w, const struct reply *r, int http, const char *description)
{
    char key[16];
    snprintf(key, sizeof key, "%d", http);
    jw_kobject(w, key);
    jw_ktext(w, "description", description);
    jw_kobject(w, "content");
    jw_kobject(w, "application/json");
    jw_kobject(w, "schema");
    members(w, r->members, r->count, true);
    jw_object_end(w);
    jw_object_end(w);
    if (str_eq(r->operation, "events"))
        stream(w);
    jw_object_end(w);
    jw_object_end(w);
}

/* ---- operations ------------------------------------------------------------------------------ */

static const struct reply *reply_of(const char *operation)
{
    size_t count = 0;
    const struct reply *list = openapi_replies(&count);
    for (size_t i = 0; i < count; i++) {
        if (str_eq(list[i].operation, operation))
            return &list[i];
    }
    return NULL;
}

static void refer_to_parameter(struct jw *w, const char *name)
{
    char target[64];
    snprintf(target, sizeof target, "#/components/parameters/%s", name);
    jw_object(w);
    jw_ktext(w, "$ref", target);
    jw_object_end(w);
}

static void parameters(struct jw *w, const struct api_operation *op, const struct api_shape *shape)
{
    bool in_query = str_eq(op->method, "GET") || str_eq(op->method, "DELETE");
    jw_karray(w, "parameters");
    if (strchr(op->path, ':') != NULL)
        refer_to_parameter(w, "Id");
    if (in_query)
        openapi_query(w, shape);
    if (op->access == API_WRITES)
        refer_to_parameter(w, "IdempotencyKey");
    if (str_eq(op->name, "events"))
        refer_to_parameter(w, "LastEventId");
    jw_array_end(w);
    if (in_query || !openapi_has_fields(shape))
        return;
    jw_kobject(w, "requestBody");
    jw_kbool(w, "required", openapi_is_required(shape));
    jw_kobject(w, "content");
    jw_kobject(w, "application/json");
    jw_key(w, "schema");
    if (shape->many) {
        char name[64];
        snprintf(name, sizeof name, "%sBody", op->name);
        openapi_one_or_many(w, name);
    } else {
        openapi_object(w, shape);
    }
    jw_object_end(w);
    jw_object_end(w);
    jw_object_end(w);
}

static void operation(struct jw *w, const struct api_operation *op, const struct api_shape *shape)
{
    const struct reply *r = reply_of(op->name);
    char method[16] = "", role[128];
    for (size_t i = 0; op->method[i] != '\0' && i + 1 < sizeof method; i++)
        method[i] = (char)(op->method[i] | 0x20);
    if (r == NULL)
        return;
    snprintf(role, sizeof role, "Needs a key with the role `%s` or more, where keys are in use.",
             api_scope_name(op->scope));
    jw_kobject(w, method);
    jw_ktext(w, "operationId", op->name);
    jw_ktext(w, "summary", op->summary);
    jw_ktext(w, "description", role);
    jw_ktext(w, "x-since", op->since);
    jw_karray(w, "tags");
    jw_text(w, r->tag);
    jw_array_end(w);
    parameters(w, op, shape);
    jw_kobject(w, "responses");
    if (r->http_else != 0)
        success(w, r, r->http_else, "Done; it was there already");
    success(w, r, r->http, "Done");
    openapi_refusals(w, op->access == API_WRITES, r->refusals);
    jw_object_end(w);
    jw_object_end(w);
}

/* begin_path: the key of a path: "/api/tasks/:id" is "/api/tasks/{id}". */
static void begin_path(struct jw *w, const char *pattern)
{
    char path[128];
    const char *colon = strchr(pattern, ':');
    if (colon == NULL) {
        jw_kobject(w, pattern);
        return;
    }
    size_t bytes = strcspn(colon, "/");
    snprintf(path, sizeof path, "%.*s{%.*s}%s", (int)(colon - pattern), pattern, (int)bytes - 1,
             colon + 1, colon + bytes);
    jw_kobject(w, path);
}

static bool is_first_of_path(const struct api_operation *ops, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (str_eq(ops[k].path, ops[i].path))
            return false;
    }
    return true;
}

static void operation_paths(struct jw *w)
{
    size_t count = 0;
    const struct api_operation *ops = api_operations(&count);
    for (size_t i = 0; i < count; i++) {
        if (!is_first_of_path(ops, i))
            continue;
        begin_path(w, ops[i].path);
        for (size_t k = i; k < count; k++) {
            if (str_eq(ops[k].path, ops[i].path))
                operation(w, &ops[k], route_shape(k));
        }
        jw_object_end(w);
    }
}

/* ---- what is no operation -------------------------------------------------------------------- */

static const struct page {
    const char *path, *name, *summary;
    const char *content_type;
    const char *schema; /* NULL: see type */
    const char *type;
    bool open;    /* needs no key */
    bool may_503; /* says why it cannot serve */
} pages[] = {
    {"/healthz", "healthz", "Whether the daemon runs", "application/json", "State", NULL, true,
     false},
    {"/readyz", "readyz", "Whether the daemon can do its work", "application/json", "State", NULL,
     true, true},
    {"/metrics", "metrics", "Numbers for Prometheus", "text/plain", NULL, "string", false, false},
    {"/api/openapi.json", "openapi", "This description", "application/json", NULL, "object", true,
     false},
};

static void page_answer(struct jw *w, const struct page *p, const char *http, const char *doc)
{
    jw_kobject(w, http);
    jw_ktext(w, "description", doc);
    jw_kobject(w, "content");
    jw_kobject(w, p->content_type);
    if (p->schema != NULL)
        refer(w, "schema", p->schema);
    else
        items_of(w, "schema", p->type);
    jw_object_end(w);
    jw_object_end(w);
    jw_object_end(w);
}

static void page(struct jw *w, const struct page *p)
{
    static const dibs_status none[] = {DIBS_OK};
    jw_kobject(w, p->path);
    jw_kobject(w, "get");
    jw_ktext(w, "operationId", p->name);
    jw_ktext(w, "summary", p->summary);
    jw_karray(w, "tags");
    jw_text(w, "server");
    jw_array_end(w);
    if (p->open) {
        jw_karray(w, "security");
        jw_array_end(w);
    }
    jw_kobject(w, "responses");
    page_answer(w, p, "200", "Done");
    if (p->open)
        openapi_refer_to_refusal(w, dibs_status_http(DIBS_MISDIRECTED_REQUEST));
    else
        openapi_refusals(w, false, none);
    if (p->may_503)
        page_answer(w, p, "503", "Not now");
    jw_object_end(w);
    jw_object_end(w);
    jw_object_end(w);
}

/* ---- the document ---------------------------------------------------------------------------- */

static void info(struct jw *w)
{
    jw_ktext(w, "openapi", "3.1.0");
    jw_kobject(w, "info");
    jw_ktext(w, "title", "dibs");
    jw_ktext(w, "version", dibs_version());
    jw_ktext(w, "summary", "Share one queue of work without doing anything twice");
    jw_ktext(w, "description",
             "Claims are leases: one holder, a deadline, a heartbeat, and a token that only grows. "
             "A success carries `\"success\": true`, a refusal `\"success\": false`, a code and a "
             "sentence. Times are ISO 8601 in UTC, durations whole milliseconds. An unknown field "
             "or query parameter is refused.");
    jw_kobject(w, "license");
    jw_ktext(w, "name", "MIT");
    jw_ktext(w, "identifier", "MIT");
    jw_object_end(w);
    jw_object_end(w);
    jw_karray(w, "servers");
    jw_object(w);
    jw_ktext(w, "url", "/");
    jw_object_end(w);
    jw_array_end(w);
}

/* security: a key in either header, or none where none is in use. */
static void security(struct jw *w)
{
    static const char *const schemes[] = {"apiKey", "bearer", NULL};
    jw_karray(w, "security");
    for (size_t i = 0; i < COUNT_OF(schemes); i++) {
        jw_object(w);
        if (schemes[i] != NULL) {
            jw_karray(w, schemes[i]);
            jw_array_end(w);
        }
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void tags(struct jw *w)
{
    size_t count = 0;
    const struct tag *list = openapi_tags(&count);
    jw_karray(w, "tags");
    for (size_t i = 0; i < count; i++) {
        jw_object(w);
        jw_ktext(w, "name", list[i].name);
        jw_ktext(w, "description", list[i].doc);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void security_schemes(struct jw *w)
{
    jw_kobject(w, "securitySchemes");
    jw_kobject(w, "apiKey");
    jw_ktext(w, "type", "apiKey");
    jw_ktext(w, "in", "header");
    jw_ktext(w, "name", "X-API-Key");
    jw_object_end(w);
    jw_kobject(w, "bearer");
    jw_ktext(w, "type", "http");
    jw_ktext(w, "scheme", "bearer");
    jw_object_end(w);
    jw_object_end(w);
}

static void shared_parameter(struct jw *w, const char *key, const char *name, const char *in,
                             const char *doc, const char *type)
{
    jw_kobject(w, key);
    jw_ktext(w, "name", name);
    jw_ktext(w, "in", in);
    if (str_eq(in, "path"))
        jw_kbool(w, "required", true);
    jw_ktext(w, "description", doc);
    if (type == NULL) {
        refer(w, "schema", "Id");
    } else {
        jw_kobject(w, "schema");
        jw_ktext(w, "type", type);
        if (str_eq(type, "string")) {
            jw_kint(w, "minLength", 1);
            jw_kint(w, "maxLength", KEY_BYTES_MAX);
        }
        jw_object_end(w);
    }
    jw_object_end(w);
}

static void components(struct jw *w)
{
    size_t count = 0, operations = 0;
    const struct schema *list = openapi_schemas(&count);
    const struct api_operation *ops = api_operations(&operations);
    jw_kobject(w, "components");
    security_schemes(w);
    jw_kobject(w, "parameters");
    shared_parameter(w, "Id", "id", "path", "What it is about", NULL);
    shared_parameter(w, "IdempotencyKey", "Idempotency-Key", "header",
                     "A repeat with the same key and the same request is given the same answer and "
                     "does nothing; kept for a day",
                     "string");
    shared_parameter(w, "LastEventId", "Last-Event-ID", "header",
                     "Begin behind this event, as `since`", "integer");
    jw_object_end(w);
    openapi_shared_refusals(w);
    jw_kobject(w, "schemas");
    openapi_field_schemas(w);
    for (size_t i = 0; i < operations; i++) {
        char name[64];
        if (!route_shape(i)->many)
            continue;
        snprintf(name, sizeof name, "%sBody", ops[i].name);
        jw_key(w, name);
        openapi_object(w, route_shape(i));
    }
    for (size_t i = 0; i < count; i++)
        schema(w, &list[i]);
    jw_object_end(w);
    jw_object_end(w);
}

bool api_openapi(struct buf *out)
{
    struct jw w;
    jw_init(&w, out);
    jw_object(&w);
    info(&w);
    security(&w);
    tags(&w);
    jw_kobject(&w, "paths");
    operation_paths(&w);
    for (size_t i = 0; i < COUNT_OF(pages); i++)
        page(&w, &pages[i]);
    jw_object_end(&w);
    components(&w);
    jw_object_end(&w);
    return buf_ok(out);
}
