/* SPDX-License-Identifier: MIT */
/*
 * schema.h: whether a JSON value is what a schema of our description says: the part of JSON Schema
 * that the description uses, read strictly: a member that is not described is a fault. What was
 * met on the way is noted as "Schema.member".
 */
#ifndef DIBS_TEST_SCHEMA_H
#define DIBS_TEST_SCHEMA_H

#include "base/timefmt.h"
#include "call.h"

struct schemas {
    json_t *doc;   /* the description */
    json_t *seen;  /* {"Task.id": true, ...} */
    char why[512]; /* of the last value that did not fit */
};

static inline json_t *pointer(json_t *v, const char *path)
{
    char part[128];
    while (v != NULL && *path != '\0') {
        size_t bytes = strcspn(path, "/");
        assert_true(bytes < sizeof part);
        memcpy(part, path, bytes);
        part[bytes] = '\0';
        v = json_object_get(v, part);
        path += bytes + (path[bytes] == '/');
    }
    return v;
}

/* resolve: what a $ref stands for; *name becomes the name of what it refers to. */
static inline json_t *resolve(const struct schemas *s, json_t *schema, const char **name)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    if (ref == NULL)
        return schema;
    assert_true(str_starts(ref, "#/"));
    json_t *target = pointer(s->doc, ref + 2);
    if (target == NULL)
        fail_msg("'%s' refers to nothing", ref);
    *name = strrchr(ref, '/') + 1;
    return target;
}

static inline bool PRINTF_LIKE(2, 3) misfit(struct schemas *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(s->why, sizeof s->why, format, args);
    va_end(args);
    return false;
}

static inline bool is_of_type(const json_t *v, const char *type)
{
    return (str_eq(type, "object") && json_is_object(v)) ||
           (str_eq(type, "array") && json_is_array(v)) ||
           (str_eq(type, "string") && json_is_string(v)) ||
           (str_eq(type, "integer") && json_is_integer(v)) ||
           (str_eq(type, "boolean") && json_is_boolean(v)) ||
           (str_eq(type, "null") && json_is_null(v));
}

static inline bool fits_type(struct schemas *s, json_t *schema, const char *name, const json_t *v)
{
    json_t *type = json_object_get(schema, "type"), *item = NULL;
    size_t i = 0;
    if (type == NULL || (json_is_string(type) && is_of_type(v, json_string_value(type))))
        return true;
    json_array_foreach(type, i, item)
    {
        if (is_of_type(v, json_string_value(item)))
            return true;
    }
    return misfit(s, "%s is of another type", name);
}

static inline bool fits_words(struct schemas *s, json_t *schema, const char *name, json_t *v)
{
    json_t *words = json_object_get(schema, "enum"), *word = NULL;
    json_t *exactly = json_object_get(schema, "const");
    size_t i = 0;
    bool found = words == NULL;
    json_array_foreach(words, i, word) found |= json_equal(word, v) == 1;
    if (!found || (exactly != NULL && json_equal(exactly, v) != 1))
        return misfit(s, "%s is none of the words", name);
    return true;
}

static inline bool fits_number(struct schemas *s, json_t *schema, const char *name, json_t *v)
{
    json_t *low = json_object_get(schema, "minimum"), *high = json_object_get(schema, "maximum");
    if (low != NULL && json_integer_value(v) < json_integer_value(low))
        return misfit(s, "%s is below its minimum", name);
    if (high != NULL && json_integer_value(v) > json_integer_value(high))
        return misfit(s, "%s is above its maximum", name);
    return true;
}

static inline bool fits_text(struct schemas *s, json_t *schema, const char *name, json_t *v)
{
    json_t *longest = json_object_get(schema, "maxLength");
    const char *format = json_string_value(json_object_get(schema, "format"));
    int64_t ms = 0;
    if (longest != NULL && json_string_length(v) > (size_t)json_integer_value(longest))
        return misfit(s, "%s is too long", name);
    if (str_eq(format, "date-time") && !time_from_text(json_string_value(v), &ms))
        return misfit(s, "%s is no time", name);
    return true;
}

static inline bool fits_bounds(struct schemas *s, json_t *schema, const char *name, json_t *v)
{
    return fits_words(s, schema, name, v) &&
           (!json_is_integer(v) || fits_number(s, schema, name, v)) &&
           (!json_is_string(v) || fits_text(s, schema, name, v));
}

static inline bool fits(struct schemas *s, json_t *schema, const char *name, json_t *v);

/* property: the schema of a member, also of those that come from allOf; *owner is who has it. */
static inline json_t *property(const struct schemas *s, json_t *schema, const char *key,
                               const char **owner)
{
    json_t *parts = json_object_get(schema, "allOf"), *part = NULL;
    json_t *found = json_object_get(json_object_get(schema, "properties"), key);
    size_t i = 0;
    json_array_foreach(parts, i, part)
    {
        const char *name = *owner;
        json_t *resolved = resolve(s, part, &name);
        json_t *inherited = property(s, resolved, key, &name);
        if (inherited != NULL) {
            *owner = name;
            return inherited;
        }
    }
    return found;
}

static inline bool has_required(struct schemas *s, json_t *schema, const char *name, json_t *v)
{
    json_t *parts = json_object_get(schema, "allOf"), *part = NULL, *key = NULL;
    size_t i = 0;
    json_array_foreach(json_object_get(schema, "required"), i, key)
    {
        if (json_object_get(v, json_string_value(key)) == NULL)
            return misfit(s, "%s has no '%s'", name, json_string_value(key));
    }
    json_array_foreach(parts, i, part)
    {
        const char *other = name;
        if (!has_required(s, resolve(s, part, &other), other, v))
            return false;
    }
    return true;
}

static inline bool fits_object(struct schemas *s, json_t *schema, const char *name, json_t *v)
{
    json_t *others = json_object_get(schema, "additionalProperties"), *value = NULL;
    const char *key = NULL;
    if (json_object_get(schema, "properties") == NULL && others == NULL &&
        json_object_get(schema, "allOf") == NULL)
        return true; /* any object */
    json_object_foreach(v, key, value)
    {
        char label[256];
        const char *owner = name;
        json_t *part = property(s, schema, key, &owner);
        if (part == NULL && json_is_object(others))
            part = others;
        else if (part == NULL)
            return misfit(s, "%s has a member '%s' that is not described", name, key);
        snprintf(label, sizeof label, "%s.%s", owner, key);
        if (!fits(s, part, label, value))
            return false;
        json_object_set_new(s->seen, label, json_true());
    }
    return has_required(s, schema, name, v);
}

static inline bool fits(struct schemas *s, json_t *schema, const char *name, json_t *v)
{
    json_t *choice = NULL, *item = NULL;
    size_t i = 0;
    schema = resolve(s, schema, &name);
    json_t *any = json_object_get(schema, "anyOf");
    json_array_foreach(any, i, choice)
    {
        if (fits(s, choice, name, v))
            return true;
    }
    if (any != NULL)
        return false;
    if (!fits_type(s, schema, name, v) || !fits_bounds(s, schema, name, v))
        return false;
    json_array_foreach(json_object_get(schema, "items") != NULL ? v : NULL, i, item)
    {
        if (!fits(s, json_object_get(schema, "items"), name, item))
            return false;
    }
    return json_is_object(v) ? fits_object(s, schema, name, v) : true;
}

#endif
