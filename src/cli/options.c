/* SPDX-License-Identifier: MIT */
/*
 * options.c: reads a command line against tables of options.
 *
 * Options and words may be mixed in any order; "--name value" and "--name=value" mean the same;
 * "--" ends the options. A value is checked here, when it is read, so that a command meets only
 * values of the right kind and a typing error never reaches the store.
 *
 * Left out: abbreviated names (they break when an option is added) and bundled letters.
 */
#include "options.h"

#include "base/str.h"
#include "base/timefmt.h"
#include "client/client.h"
#include "must.h"

/* ---- near misses ----------------------------------------------------------------------------- */

#define NEAR_LETTERS_MAX 40

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t edit_distance(const char *a, const char *b)
{
    size_t rows[3][NEAR_LETTERS_MAX + 1] = {{0}};
    size_t a_len = strlen(a), b_len = strlen(b);

    if (a_len > NEAR_LETTERS_MAX || b_len > NEAR_LETTERS_MAX)
        return NEAR_LETTERS_MAX;
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            row[j] =
                least(least(above[j] + 1, row[j - 1] + 1), above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[a_len % 3][b_len];
}

bool edit_is_near(const char *a, const char *b)
{
    size_t letters = least(strlen(a), strlen(b));

    return edit_distance(a, b) <= (letters > 7 ? 3 : letters > 4 ? 2 : 1);
}

/* ---- looking up ------------------------------------------------------------------------------ */

const struct cli_option *option_find(const struct cli_option *const *tables, const char *word)
{
    bool is_long = str_starts(word, "--");
    const char *name = word + (is_long ? 2 : 1);
    size_t bytes = strcspn(name, "=");

    if (word[0] != '-' || bytes == 0)
        return NULL;
    for (; *tables != NULL; tables++)
        for (const struct cli_option *o = *tables; o->name != NULL; o++) {
            if (is_long && strlen(o->name) == bytes && strncmp(o->name, name, bytes) == 0)
                return o;
            if (!is_long && o->letter != 0 && o->letter == name[0] && name[1] == '\0')
                return o;
        }
    return NULL;
}

/* nearest: the name of the known option nearest to a mistyped one; NULL: none is near. */
static const char *nearest(const struct cli_option *const *tables, const char *word)
{
    char name[NEAR_LETTERS_MAX + 1] = "";
    const char *best = NULL;

    str_fit(name, sizeof name, word + strspn(word, "-"));
    name[strcspn(name, "=")] = '\0';
    for (; *tables != NULL; tables++)
        for (const struct cli_option *o = *tables; o->name != NULL; o++)
            if (!o->hidden && edit_is_near(name, o->name) &&
                (best == NULL || edit_distance(name, o->name) < edit_distance(name, best)))
                best = o->name;
    return best;
}

static dibs_status refuse_unknown(const struct args_input *in, const char *word,
                                  struct dibs_error *err)
{
    const char *near = nearest(in->tables, word);
    int shown = (int)strcspn(word, "=");

    if (near != NULL)
        return error_set(err, DIBS_INVALID_REQUEST, "unknown option '%.*s'; did you mean '--%s'?",
                         shown, word, near);
    return error_set(err, DIBS_INVALID_REQUEST, "unknown option '%.*s'", shown, word);
}

/* ---- checking values ------------------------------------------------------------------------- */

/* time_value: "+10m" from now, or ISO 8601. */
static bool time_value(const char *text, int64_t now_ms, int64_t *out_ms)
{
    int64_t ms = 0;

    if (text[0] != '+')
        return time_from_text(text, out_ms);
    if (!str_to_duration_ms(text + 1, &ms) || ms > INT64_MAX - now_ms)
        return false;
    *out_ms = now_ms + ms;
    return true;
}

/* json_value: the JSON value that the text is; NULL when it is none. */
static json_t *json_value(const char *text, struct dibs_error *err)
{
    json_t *value = NULL;

    return json_read(text, strlen(text), &value, err) == DIBS_OK ? value : NULL;
}

/* fits: whether `text` is a value of this kind, JSON excepted: that is for check_value. */
static bool fits(enum option_kind kind, const char *text)
{
    int64_t ignored = 0;

    switch (kind) {
    case OPTION_INT: return str_to_int(text, &ignored);
    case OPTION_DURATION: return str_to_duration_ms(text, &ignored);
    case OPTION_TIME: return time_value(text, 0, &ignored);
    case OPTION_PRIORITY: return dibs_priority_parse(text, &ignored);
    case OPTION_PAIR: return strchr(text, '=') != NULL && text[0] != '=';
    default: return true;
    }
}

/* What a value of a kind must be, where it must be anything. */
static const char *const wanted[] = {
    [OPTION_INT] = "a whole number",
    [OPTION_DURATION] = "a duration such as 90s, 30m or 2h",
    [OPTION_TIME] = "a time such as 2030-01-31T12:00:00Z, or +10m",
    [OPTION_PRIORITY] = "a number from 0 to 100, or critical, high, medium, low",
    [OPTION_PAIR] = "KEY=VALUE",
};

static dibs_status check_value(const struct cli_option *option, const char *text,
                               struct dibs_error *err)
{
    json_t *json = NULL;

    if (!str_is_utf8(text, strlen(text)))
        return error_set(err, DIBS_INVALID_REQUEST, "the value of --%s is not UTF-8", option->name);
    if (!fits(option->kind, text))
        return error_set(err, DIBS_INVALID_REQUEST, "--%s takes %s, not '%s'", option->name,
                         wanted[option->kind], text);
    if (option->kind == OPTION_JSON) {
        struct dibs_error why = {0};
        json = json_value(text, &why);
        if (json == NULL)
            return error_set(err, DIBS_INVALID_REQUEST, "--%s takes JSON: %s", option->name,
                             why.message);
        json_decref(json);
    }
    return DIBS_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* take_option: reads the option at items[*at], and its value, which may be the next item. */
static dibs_status take_option(const struct args_input *in, size_t *at, struct args *out,
                               struct dibs_error *err)
{
    const char *word = in->items[*at];
    const char *equals = strchr(word, '=');
    const struct cli_option *option = option_find(in->tables, word);
    const char *text = "";

    if (option == NULL)
        return refuse_unknown(in, word, err);
    if (option->kind == OPTION_FLAG) {
        if (equals != NULL)
            return error_set(err, DIBS_INVALID_REQUEST, "--%s takes no value", option->name);
    } else if (equals != NULL) {
        text = equals + 1;
    } else if (*at + 1 < in->count) {
        text = in->items[++*at];
    } else {
        return error_set(err, DIBS_INVALID_REQUEST, "--%s needs a value: --%s %s", option->name,
                         option->name, option->value);
    }
    if (check_value(option, text, err) != DIBS_OK)
        return DIBS_INVALID_REQUEST;
    out->given[out->given_count++] = (struct given){.option = option, .text = text};
    return DIBS_OK;
}

static dibs_status take_word(struct args *out, const char *word, struct dibs_error *err)
{
    if (!str_is_utf8(word, strlen(word)))
        return error_set(err, DIBS_INVALID_REQUEST, "an argument is not UTF-8");
    out->words[out->word_count++] = word;
    return DIBS_OK;
}

dibs_status args_parse(dibs_arena *a, const struct args_input *in, struct args *out,
                       struct dibs_error *err)
{
    dibs_status status = DIBS_OK;
    struct args args = {0};
    bool options_ended = false;

    args.given = must_alloc(a, (in->count + 1) * sizeof *args.given);
    args.words = must_alloc(a, (in->count + 1) * sizeof *args.words);
    args.program = must_alloc(a, (in->count + 1) * sizeof *args.program);
    for (size_t i = 0; i < in->count && status == DIBS_OK; i++) {
        char *item = in->items[i];
        if (options_ended && in->takes_program)
            args.program[args.program_count++] = item;
        else if (!options_ended && str_eq(item, "--"))
            options_ended = true;
        else if (!options_ended && item[0] == '-' && item[1] != '\0')
            status = take_option(in, &i, &args, err);
        else
            status = take_word(&args, item, err);
    }
    if (status == DIBS_OK)
        *out = args;
    return status;
}

/* ---- asking ---------------------------------------------------------------------------------- */

const char *args_text(const struct args *args, const char *name)
{
    for (size_t i = args->given_count; i-- > 0;)
        if (str_eq(args->given[i].option->name, name))
            return args->given[i].text;
    return NULL;
}

bool args_has(const struct args *args, const char *name)
{
    return args_text(args, name) != NULL;
}

int64_t args_int(const struct args *args, const char *name, int64_t otherwise)
{
    const char *text = args_text(args, name);
    int64_t value = 0;

    return text != NULL && str_to_int(text, &value) ? value : otherwise;
}

int64_t args_duration_ms(const struct args *args, const char *name, int64_t otherwise)
{
    const char *text = args_text(args, name);
    int64_t value = 0;

    return text != NULL && str_to_duration_ms(text, &value) ? value : otherwise;
}

/* ---- into a request -------------------------------------------------------------------------- */

/* text_or_json: what the text is as JSON, else the text itself. */
static json_t *text_or_json(const char *text)
{
    json_t *value = json_value(text, NULL);

    return value != NULL ? value : must_json(json_string(text));
}

static json_t *time_text(const char *text, int64_t now_ms)
{
    char iso[TIME_TEXT_BYTES] = "";
    int64_t ms = 0;

    if (!time_value(text, now_ms, &ms))
        return must_json(json_string(text));
    time_to_text(ms, iso);
    return must_json(json_string(iso));
}

static json_t *one_value(const struct given *g, int64_t now_ms)
{
    int64_t number = 0;

    switch (g->option->kind) {
    case OPTION_FLAG: return must_json(json_true());
    case OPTION_INT:
        if (str_to_int(g->text, &number))
            return must_json(json_integer(number));
        break;
    case OPTION_DURATION:
        if (str_to_duration_ms(g->text, &number))
            return must_json(json_integer(number));
        break;
    case OPTION_PRIORITY:
        if (dibs_priority_parse(g->text, &number))
            return must_json(json_integer(number));
        break;
    case OPTION_TIME: return time_text(g->text, now_ms);
    case OPTION_JSON:
    case OPTION_VALUE: return text_or_json(g->text);
    case OPTION_TEXT:
    case OPTION_LIST:
    case OPTION_PAIR: break;
    }
    return must_json(json_string(g->text));
}

/* member: body[field], made by `make` when it is not there yet. */
static json_t *member(json_t *body, const char *field, json_t *(*make)(void))
{
    if (json_object_get(body, field) == NULL)
        must_set(body, field, must_json(make()));
    return json_object_get(body, field);
}

static void add_pair(json_t *object, const char *text)
{
    const char *equals = strchr(text, '=');
    struct buf key;

    buf_init(&key, strlen(text));
    buf_append(&key, text, (size_t)(equals - text));
    must_set(object, must_buf(&key), text_or_json(equals + 1));
    buf_release(&key);
}

void args_to_body(const struct args *args, int64_t now_ms, json_t *body)
{
    for (size_t i = 0; i < args->given_count; i++) {
        const struct given *g = &args->given[i];
        const char *field = g->option->field;
        if (field == NULL)
            continue;
        if (g->option->kind == OPTION_LIST) {
            json_t *list = member(body, field, json_array);
            if (g->text[0] != '\0')
                must_push(list, must_json(json_string(g->text)));
        } else if (g->option->kind == OPTION_PAIR) {
            json_t *object = member(body, field, json_object);
            if (json_is_object(object))
                add_pair(object, g->text);
        } else {
            must_set(body, field, one_value(g, now_ms));
        }
    }
}

void query_add(struct buf *query, const char *name, const char *value)
{
    if (value == NULL)
        return;
    if (query->len > 0)
        buf_char(query, '&');
    buf_text(query, name);
    buf_char(query, '=');
    client_encode(query, value);
}

/* joined: all values of a list option with commas between them. */
static void joined(const struct args *args, const struct cli_option *option, struct buf *out)
{
    for (size_t i = 0; i < args->given_count; i++) {
        if (args->given[i].option != option)
            continue;
        if (out->len > 0)
            buf_char(out, ',');
        buf_text(out, args->given[i].text);
    }
}

/* is_last: whether no later given of the same option follows; of several, the last one counts. */
static bool is_last(const struct args *args, size_t i)
{
    for (size_t j = i + 1; j < args->given_count; j++)
        if (args->given[j].option == args->given[i].option)
            return false;
    return true;
}

/* value_in_query: as it was written, but for a flag and a duration. */
static void value_in_query(const struct args *args, const struct given *g, struct buf *out)
{
    int64_t ms = 0;

    if (g->option->kind == OPTION_LIST)
        joined(args, g->option, out);
    else if (g->option->kind == OPTION_FLAG)
        buf_text(out, "true");
    else if (g->option->kind == OPTION_DURATION && str_to_duration_ms(g->text, &ms))
        buf_printf(out, "%" PRId64, ms);
    else
        buf_text(out, g->text);
}

void args_to_query(const struct args *args, struct buf *query)
{
    struct buf value;

    buf_init(&value, BODY_BYTES_MAX);
    for (size_t i = 0; i < args->given_count; i++) {
        const struct cli_option *option = args->given[i].option;
        if (option->field == NULL || !is_last(args, i))
            continue;
        buf_reset(&value);
        value_in_query(args, &args->given[i], &value);
        query_add(query, option->field, must_buf(&value));
    }
    buf_release(&value);
}
