/* SPDX-License-Identifier: MIT */
/*
 * openapi_fields.c: shapes (decode.h) as JSON Schema: each kind of field has one writer, as it has
 * one reader in decode.c.
 *
 *   1. What a schema here refuses, the decoder refuses as well. The decoder may refuse more: bytes
 *      are not characters, and the library has the last word.
 *   2. Hidden fields are other names, kept for callers that know them; they are not told.
 *   3. Null is told only where it means something (a shape that clears).
 */
#include "openapi_parts.h"

static bool is_told(const struct field *f)
{
    return (f->flags & FIELD_HIDDEN) == 0;
}

bool openapi_has_fields(const struct api_shape *shape)
{
    for (size_t i = 0; i < shape->count; i++) {
        if (is_told(&shape->fields[i]))
            return true;
    }
    return false;
}

bool openapi_is_required(const struct api_shape *shape)
{
    for (size_t i = 0; i < shape->count; i++) {
        if (shape->fields[i].flags & FIELD_REQUIRED)
            return true;
    }
    return false;
}

/* ---- one field ------------------------------------------------------------------------------- */

static void type(struct jw *w, const char *name, bool or_null)
{
    jw_key(w, "type");
    if (!or_null) {
        jw_text(w, name);
        return;
    }
    jw_array(w);
    jw_text(w, name);
    jw_text(w, "null");
    jw_array_end(w);
}

/* reference: a schema by its name; beside null that takes a choice. */
static void reference(struct jw *w, const char *name, bool or_null)
{
    char target[64];
    snprintf(target, sizeof target, "#/components/schemas/%s", name);
    if (!or_null) {
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

static void text_field(struct jw *w, const struct field *f, bool or_null)
{
    type(w, "string", or_null);
    if (f->max > 0)
        jw_kint(w, "maxLength", f->max);
}

static void number_field(struct jw *w, const struct field *f, bool or_null)
{
    type(w, "integer", or_null);
    jw_ktext(w, "format", "int64");
    jw_kint(w, "minimum", f->min);
    if (f->max > 0)
        jw_kint(w, "maximum", f->max);
}

static void list_field(struct jw *w, const struct field *f, bool or_null)
{
    type(w, "array", or_null);
    jw_kobject(w, "items");
    if (f->flags & FIELD_IDS)
        reference(w, "Id", false);
    else
        type(w, "string", false);
    jw_object_end(w);
    if (f->max > 0)
        jw_kint(w, "maxItems", f->max);
}

static void word_field(struct jw *w, const struct field *f)
{
    type(w, "string", false);
    jw_karray(w, "enum");
    for (const struct field_word *word = f->words; word->text != NULL; word++)
        jw_text(w, word->text);
    jw_array_end(w);
}

static void object_members(struct jw *w, const struct api_shape *shape);

/* field_members: the members of a field's schema. */
static void field_members(struct jw *w, const struct field *f, bool or_null)
{
    switch (f->kind) {
    case FIELD_TEXT: text_field(w, f, or_null); break;
    case FIELD_ID: reference(w, "Id", or_null); break;
    case FIELD_INT:
    case FIELD_MINUTES: number_field(w, f, or_null); break;
    case FIELD_BOOL: type(w, "boolean", or_null); break;
    case FIELD_TIME: reference(w, "Time", or_null); break;
    case FIELD_PRIORITY: reference(w, "Priority", or_null); break;
    case FIELD_JSON: break; /* whatever the caller likes */
    case FIELD_STRINGS: list_field(w, f, or_null); break;
    case FIELD_ENUM: word_field(w, f); break;
    case FIELD_OBJECT: object_members(w, f->of); break;
    }
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static void object_members(struct jw *w, const struct api_shape *shape)
{
    jw_ktext(w, "type", "object");
    jw_kobject(w, "properties");
    for (size_t i = 0; i < shape->count; i++) {
        const struct field *f = &shape->fields[i];
        if (!is_told(f))
            continue;
        jw_kobject(w, f->name);
        field_members(w, f, shape->null_clears);
        jw_ktext(w, "description", f->doc);
        jw_object_end(w);
    }
    jw_object_end(w);
    if (openapi_is_required(shape)) {
        jw_karray(w, "required");
        for (size_t i = 0; i < shape->count; i++) {
            if (shape->fields[i].flags & FIELD_REQUIRED)
                jw_text(w, shape->fields[i].name);
        }
        jw_array_end(w);
    }
    jw_kbool(w, "additionalProperties", false);
}

void openapi_object(struct jw *w, const struct api_shape *shape)
{
    jw_object(w);
    object_members(w, shape);
    jw_object_end(w);
}

/* refer: {"$ref": ...} as a value. */
static void refer(struct jw *w, const char *name)
{
    jw_object(w);
    reference(w, name, false);
    jw_object_end(w);
}

void openapi_one_or_many(struct jw *w, const char *name)
{
    jw_object(w);
    jw_karray(w, "anyOf");
    refer(w, name);
    jw_object(w);
    jw_ktext(w, "type", "array");
    jw_key(w, "items");
    refer(w, name);
    jw_kint(w, "minItems", 1);
    jw_kint(w, "maxItems", BATCH_TASKS_MAX);
    jw_object_end(w);
    jw_array_end(w);
    jw_object_end(w);
}

/* ---- queries --------------------------------------------------------------------------------- */

void openapi_query(struct jw *w, const struct api_shape *shape)
{
    for (size_t i = 0; i < shape->count; i++) {
        const struct field *f = &shape->fields[i];
        if (!is_told(f))
            continue;
        jw_object(w);
        jw_ktext(w, "name", f->name);
        jw_ktext(w, "in", "query");
        if (f->flags & FIELD_REQUIRED)
            jw_kbool(w, "required", true);
        jw_ktext(w, "description", f->doc);
        if (f->kind == FIELD_STRINGS) /* separated by commas */
            jw_kbool(w, "explode", false);
        jw_kobject(w, "schema");
        field_members(w, f, false);
        jw_object_end(w);
        jw_object_end(w);
    }
}

/* ---- what fields refer to -------------------------------------------------------------------- */

static void id_schema(struct jw *w)
{
    char pattern[64];
    snprintf(pattern, sizeof pattern, "^[A-Za-z0-9._:-]{1,%d}$", ID_BYTES_MAX);
    jw_kobject(w, "Id");
    jw_ktext(w, "type", "string");
    jw_ktext(w, "pattern", pattern);
    jw_ktext(w, "description", "An id, and not a word that the paths use");
    jw_object_end(w);
}

static void priority_schema(struct jw *w)
{
    static const char *const words[] = {"critical", "high", "medium", "low"};
    jw_kobject(w, "Priority");
    jw_karray(w, "anyOf");
    jw_object(w);
    jw_ktext(w, "type", "integer");
    jw_kint(w, "minimum", PRIORITY_MIN);
    jw_kint(w, "maximum", PRIORITY_MAX);
    jw_object_end(w);
    jw_object(w);
    jw_ktext(w, "type", "string");
    jw_karray(w, "enum");
    for (size_t i = 0; i < COUNT_OF(words); i++)
        jw_text(w, words[i]);
    jw_array_end(w);
    jw_object_end(w);
    jw_array_end(w);
    jw_ktext(w, "description", "A number or a word; larger is sooner");
    jw_object_end(w);
}

static void time_schema(struct jw *w)
{
    jw_kobject(w, "Time");
    jw_karray(w, "anyOf");
    jw_object(w);
    jw_ktext(w, "type", "string");
    jw_ktext(w, "format", "date-time");
    jw_object_end(w);
    jw_object(w);
    jw_ktext(w, "type", "integer");
    jw_ktext(w, "format", "int64");
    jw_kint(w, "minimum", 0);
    jw_object_end(w);
    jw_array_end(w);
    jw_ktext(w, "description", "ISO 8601 text, or milliseconds since 1970");
    jw_object_end(w);
}

void openapi_field_schemas(struct jw *w)
{
    id_schema(w);
    priority_schema(w);
    time_schema(w);
}
