/* SPDX-License-Identifier: MIT */
/*
 * decode.c: fills an input struct from a JSON object, member by member, by the rows of its shape.
 *
 * Each kind of field has one reader, which checks type and range and stores the value; values of a
 * query string come the same way (query.c). So every row has one set of refusals.
 *
 *   1. Nothing is ignored: a name that no row knows is refused, with the nearest one that a row
 *      does know.
 *   2. Nothing is stored twice: two names for one place (claimTimeoutMs, claimTimeoutMinutes) may
 *      not both be given, nor one name twice.
 *   3. What is stored lives in the arena; the JSON may be thrown away afterwards.
 *
 * What a value means to a task (may this priority be, does that session exist) is not asked here.
 */
#include "decode.h"

#include "base/str.h"
#include "base/timefmt.h"
#include "suggest.h"

#define MINUTE_MS 60000

static dibs_status no_memory(struct decoder *d)
{
    return error_set(d->err, DIBS_OUT_OF_MEMORY, "cannot read the request: out of memory");
}

/* full_name: the field as the caller knows it, with what it is a part of. */
static const char *full_name(const struct decoder *d, const char *name, char out[64])
{
    if (d->prefix == NULL) {
        str_fit(out, 64, name);
        return out;
    }
    char joined[256];
    snprintf(joined, sizeof joined, "%.100s.%.100s", d->prefix, name);
    str_fit(out, 64, joined);
    return out;
}

/* place: where in the struct the field goes. */
static void *place(const struct decoder *d, const struct field *f)
{
    return (char *)d->out + f->at;
}

/* ---- refusals -------------------------------------------------------------------------------- */

static const char *actual(const json_t *v)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",  [JSON_STRING] = "text",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null",
    };
    return names[json_typeof(v)];
}

static void list_words(struct buf *out, const struct field_word *words)
{
    buf_text(out, "one of");
    for (const struct field_word *w = words; w->text != NULL; w++)
        buf_printf(out, "%s '%s'", w == words ? "" : ",", w->text);
}

static void expected(struct buf *out, const struct field *f)
{
    static const char *const names[] = {
        [FIELD_TEXT] = "text",
        [FIELD_ID] = "an id: 1 to 128 of A-Z a-z 0-9 . _ : -",
        [FIELD_INT] = "a whole number",
        [FIELD_BOOL] = "true or false",
        [FIELD_TIME] = "a time: ISO 8601 text, or milliseconds since 1970",
        [FIELD_MINUTES] = "a whole number of minutes",
        [FIELD_PRIORITY] = "a priority: 0 to 100, or critical, high, medium, low",
        [FIELD_JSON] = "any JSON value",
        [FIELD_STRINGS] = "a list of text",
        [FIELD_ENUM] = "",
        [FIELD_OBJECT] = "an object",
    };
    if (f->kind == FIELD_ENUM)
        list_words(out, f->words);
    else
        buf_text(out, names[f->kind]);
}

/* refuse_value: "'priority' must be a priority ..., not a list" */
static dibs_status refuse_value(struct decoder *d, const struct field *f, const json_t *v)
{
    struct buf want;
    char name[64], got[64] = "";
    buf_init(&want, 256);
    expected(&want, f);
    if (json_is_string(v))
        str_fit(got, 40, json_string_value(v));
    dibs_status s = got[0] != '\0'
                        ? error_field(d->err, full_name(d, f->name, name), "must be %s, not '%s'",
                                      buf_ok(&want) ? want.data : "different", got)
                        : error_field(d->err, full_name(d, f->name, name), "must be %s, not %s",
                                      buf_ok(&want) ? want.data : "different", actual(v));
    buf_release(&want);
    return s;
}

dibs_status decode_unknown(struct decoder *d, const char *what, const char *name)
{
    char shown[64];
    const char *nearest = suggest(d->shape->fields, d->shape->count, name);
    full_name(d, name, shown);
    dibs_status s = nearest != NULL
                        ? error_set(d->err, DIBS_INVALID_REQUEST,
                                    "unknown %s '%s'; did you mean '%s'?", what, shown, nearest)
                        : error_set(d->err, DIBS_INVALID_REQUEST, "unknown %s '%s'", what, shown);
    if (d->err != NULL)
        str_fit(d->err->field, sizeof d->err->field, shown);
    return s;
}

/* ---- one value ------------------------------------------------------------------------------- */

static dibs_status read_text(struct decoder *d, const struct field *f, const json_t *v)
{
    char name[64];
    if (!json_is_string(v))
        return refuse_value(d, f, v);
    const char *text = json_string_value(v);
    size_t bytes = json_string_length(v);
    if (f->kind == FIELD_ID && !str_is_id(text))
        return refuse_value(d, f, v);
    if (f->max > 0 && bytes > (size_t)f->max)
        return error_field(d->err, full_name(d, f->name, name), "is longer than %" PRId64 " bytes",
                           f->max);
    const char **out = place(d, f);
    *out = arena_copy(d->a, text, bytes);
    return *out != NULL ? DIBS_OK : no_memory(d);
}

/* number_of: the number that a value stands for, in the unit of the wire. */
static bool number_of(const struct field *f, const json_t *v, int64_t *out)
{
    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return true;
    }
    if (!json_is_string(v))
        return false;
    if (f->kind == FIELD_TIME)
        return time_from_text(json_string_value(v), out);
    return f->kind == FIELD_PRIORITY && dibs_priority_parse(json_string_value(v), out);
}

static void store_number(struct decoder *d, const struct field *f, int64_t value)
{
    if (f->flags & FIELD_OPT)
        *(struct dibs_opt *)place(d, f) = DIBS_VALUE(value);
    else
        *(int64_t *)place(d, f) = value;
}

static dibs_status read_number(struct decoder *d, const struct field *f, const json_t *v)
{
    char name[64];
    int64_t value = 0;
    if (!number_of(f, v, &value))
        return refuse_value(d, f, v);
    if (value < f->min)
        return error_field(d->err, full_name(d, f->name, name), "must be at least %" PRId64,
                           f->min);
    if (f->max > 0 && value > f->max)
        return error_field(d->err, full_name(d, f->name, name), "must be at most %" PRId64, f->max);
    store_number(d, f, f->kind == FIELD_MINUTES ? value * MINUTE_MS : value);
    return DIBS_OK;
}

static dibs_status read_bool(struct decoder *d, const struct field *f, const json_t *v)
{
    if (!json_is_boolean(v))
        return refuse_value(d, f, v);
    if (f->flags & FIELD_OPT)
        store_number(d, f, json_is_true(v));
    else
        *(bool *)place(d, f) = json_is_true(v);
    return DIBS_OK;
}

static dibs_status read_json(struct decoder *d, const struct field *f, const json_t *v)
{
    const char *text = value_text(d->a, v);
    if (text == NULL)
        return no_memory(d);
    *(const char **)place(d, f) = text;
    return DIBS_OK;
}

static dibs_status read_enum(struct decoder *d, const struct field *f, const json_t *v)
{
    for (const struct field_word *w = f->words; w->text != NULL; w++) {
        if (str_eq_nocase(w->text, json_string_value(v))) {
            memcpy(place(d, f), &w->value, sizeof w->value);
            return DIBS_OK;
        }
    }
    return refuse_value(d, f, v);
}

static dibs_status store_strings(struct decoder *d, const struct field *f, struct dibs_strings list)
{
    if (!(f->flags & FIELD_REF)) {
        *(struct dibs_strings *)place(d, f) = list;
        return DIBS_OK;
    }
    struct dibs_strings *copy = arena_alloc(d->a, sizeof *copy);
    if (copy == NULL)
        return no_memory(d);
    *copy = list;
    *(const struct dibs_strings **)place(d, f) = copy;
    return DIBS_OK;
}

static dibs_status read_strings(struct decoder *d, const struct field *f, const json_t *v)
{
    char name[64];
    size_t count = json_array_size(v);
    if (!json_is_array(v))
        return refuse_value(d, f, v);
    if (f->max > 0 && count > (size_t)f->max)
        return error_field(d->err, full_name(d, f->name, name), "has more than %" PRId64 " items",
                           f->max);
    const char **items = arena_alloc(d->a, (count + 1) * sizeof *items);
    if (items == NULL)
        return no_memory(d);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(v, i);
        if (!json_is_string(item))
            return error_field(d->err, full_name(d, f->name, name),
                               "must be a list of text, not of %s", actual(item));
        if ((f->flags & FIELD_IDS) && !str_is_id(json_string_value(item)))
            return error_field(d->err, full_name(d, f->name, name),
                               "must be a list of ids: '%.40s' is none", json_string_value(item));
        items[i] = arena_copy(d->a, json_string_value(item), json_string_length(item));
        if (items[i] == NULL)
            return no_memory(d);
    }
    return store_strings(d, f, (struct dibs_strings){.items = items, .count = count});
}

static dibs_status read_object(struct decoder *d, const struct field *f, const json_t *v)
{
    char name[64];
    if (!json_is_object(v))
        return refuse_value(d, f, v);
    struct decoder part = {.a = d->a, .shape = f->of, .err = d->err};
    part.prefix = full_name(d, f->name, name);
    part.out = arena_alloc(d->a, f->of->bytes);
    if (part.out == NULL)
        return no_memory(d);
    dibs_status s = decode_object(&part, v);
    if (s == DIBS_OK)
        s = decode_finish(&part);
    if (s == DIBS_OK)
        *(void **)place(d, f) = part.out;
    return s;
}

static dibs_status read_value(struct decoder *d, const struct field *f, const json_t *v)
{
    static dibs_status (*const readers[])(struct decoder *, const struct field *,
                                          const json_t *) = {
        [FIELD_TEXT] = read_text,       [FIELD_ID] = read_text,
        [FIELD_INT] = read_number,      [FIELD_BOOL] = read_bool,
        [FIELD_TIME] = read_number,     [FIELD_MINUTES] = read_number,
        [FIELD_PRIORITY] = read_number, [FIELD_JSON] = read_json,
        [FIELD_STRINGS] = read_strings, [FIELD_ENUM] = read_enum,
        [FIELD_OBJECT] = read_object,
    };
    return readers[f->kind](d, f, v);
}

/* clear: what null means where it clears: the empty text, the empty list, the standard number. */
static dibs_status clear(struct decoder *d, const struct field *f)
{
    if (f->flags & FIELD_KEEP)
        return DIBS_OK;
    if (f->kind == FIELD_STRINGS)
        return store_strings(d, f, (struct dibs_strings){0});
    if (f->kind == FIELD_TEXT || f->kind == FIELD_JSON)
        *(const char **)place(d, f) = "";
    else
        store_number(d, f, f->reset);
    return DIBS_OK;
}

/* ---- objects ----------------------------------------------------------------------------------
 * */

const struct field *decode_find(const struct api_shape *shape, const char *name)
{
    for (size_t i = 0; i < shape->count; i++) {
        if (strcmp(shape->fields[i].name, name) == 0)
            return &shape->fields[i];
    }
    return NULL;
}

/* mark: notes that a field was given; refuses a second value for the same place. */
static dibs_status mark(struct decoder *d, const struct field *f)
{
    char name[64];
    for (size_t i = 0; i < d->shape->count; i++) {
        const struct field *other = &d->shape->fields[i];
        if (!(d->seen >> i & 1) || other->at != f->at)
            continue;
        if (other == f)
            return error_field(d->err, full_name(d, f->name, name), "is given twice");
        return error_field(d->err, full_name(d, f->name, name),
                           "says the same as '%s': give one of them", other->name);
    }
    d->seen |= UINT64_C(1) << (f - d->shape->fields);
    return DIBS_OK;
}

dibs_status decode_field(struct decoder *d, const struct field *f, const json_t *v)
{
    if (json_is_null(v) && !d->shape->null_clears)
        return DIBS_OK;
    dibs_status s = mark(d, f);
    if (s != DIBS_OK)
        return s;
    return json_is_null(v) ? clear(d, f) : read_value(d, f, v);
}

dibs_status decode_object(struct decoder *d, const json_t *object)
{
    if (!json_is_object(object))
        return error_field(d->err, d->prefix != NULL ? d->prefix : "body",
                           "must be an object, not %s", actual(object));
    /* jansson's iterators want a plain pointer, and change nothing */
    json_t *members = (json_t *)(uintptr_t)object;
    const char *name = NULL;
    json_t *v = NULL;
    json_object_foreach(members, name, v)
    {
        const struct field *f = decode_find(d->shape, name);
        dibs_status s = f != NULL ? decode_field(d, f, v) : decode_unknown(d, "field", name);
        if (s != DIBS_OK)
            return s;
    }
    return DIBS_OK;
}

dibs_status decode_finish(struct decoder *d)
{
    char name[64];
    for (size_t i = 0; i < d->shape->count; i++) {
        const struct field *f = &d->shape->fields[i];
        if (!(f->flags & FIELD_REQUIRED) || (d->seen >> i & 1))
            continue;
        dibs_status s = error_field(d->err, full_name(d, f->name, name), "is required");
        if (f->missing != NULL && d->err != NULL)
            str_fit(d->err->message, sizeof d->err->message, f->missing);
        return s;
    }
    return DIBS_OK;
}

dibs_status decode_many(dibs_arena *a, const struct api_shape *shape, const json_t *body,
                        struct api_many *out, struct dibs_error *err)
{
    bool is_list = json_is_array(body);
    size_t count = is_list ? json_array_size(body) : 1;
    if (count == 0 || count > BATCH_TASKS_MAX)
        return error_field(err, "body", "must be an object, or a list of 1 to %d of them",
                           BATCH_TASKS_MAX);
    char *items = arena_alloc(a, count * shape->bytes);
    if (items == NULL)
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot read the request: out of memory");
    for (size_t i = 0; i < count; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "tasks[%zu]", i);
        struct decoder d = {.a = a, .shape = shape, .out = items + i * shape->bytes, .err = err};
        d.prefix = is_list ? prefix : NULL;
        dibs_status s = decode_object(&d, is_list ? json_array_get(body, i) : body);
        if (s == DIBS_OK)
            s = decode_finish(&d);
        if (s != DIBS_OK)
            return s;
    }
    *out = (struct api_many){.items = items, .count = count, .was_list = is_list};
    return DIBS_OK;
}
