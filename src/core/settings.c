/* SPDX-License-Identifier: MIT */
/*
 * settings.c: where each setting comes from.
 *
 * settings.def lists them once. A value is looked for in the options of dibs_open, then in the
 * environment, then in the file `config` of the data folder (read by inih: "defaultTTL = 30m",
 * sections are ignored); else the default holds. Unknown names and unreadable values are refused: a
 * typing error must not silently leave the default in force.
 */
#include "core/core.h"

#include "base/log.h"
#include "core/hook.h"

#include <errno.h>
#include <ini.h>
#include <stddef.h>

struct setting {
    size_t offset;
    const char *name, *environment;
    int64_t standard, least, most;
    bool is_duration;
    const char *summary;
};

static const struct setting settings[] = {
#define SETTING(field, name, environment, standard, least, most, is_duration, summary)             \
    {offsetof(struct dibs_settings, field),                                                        \
     name,                                                                                         \
     environment,                                                                                  \
     standard,                                                                                     \
     least,                                                                                        \
     most,                                                                                         \
     is_duration,                                                                                  \
     summary},
#include "core/settings.def"
#undef SETTING
};

static int64_t *slot(dibs *d, const struct setting *s)
{
    return (int64_t *)(void *)((char *)&d->settings + s->offset);
}

static const struct setting *find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        if (str_eq(settings[i].name, name))
            return &settings[i];
    return NULL;
}

static bool read_switch(const char *text, int64_t *out)
{
    bool on =
        str_eq_nocase(text, "on") || str_eq_nocase(text, "true") || str_eq_nocase(text, "yes");
    bool off =
        str_eq_nocase(text, "off") || str_eq_nocase(text, "false") || str_eq_nocase(text, "no");
    *out = on;
    return on || off;
}

static dibs_status put(dibs *d, const struct setting *s, const char *text, const char *origin,
                       struct dibs_error *err)
{
    int64_t value = 0;
    bool readable = s->is_duration ? str_to_duration_ms(text, &value)
                                   : read_switch(text, &value) || str_to_int(text, &value);
    if (!readable || value < s->least || value > s->most) {
        char least[32], most[32], range[96];
        str_from_duration_ms(s->least, least);
        str_from_duration_ms(s->most, most);
        snprintf(range, sizeof range, "a duration from %s to %s", least, most);
        return error_field(err, s->name, "cannot be '%s' (from %s): it takes %s", text, origin,
                           !s->is_duration ? "on or off"
                           : readable      ? range
                                           : "a duration such as 1500ms, 90s, 30m, 2h or 7d");
    }
    *slot(d, s) = value;
    d->setting_origin[s - settings] = origin;
    return DIBS_OK;
}

/* ---- the config file ------------------------------------------------------------------------- */

struct config_reader {
    dibs *d;
    struct dibs_error *err;
    dibs_status status;
};

static int on_config_line(void *user, const char *section, const char *name, const char *value)
{
    struct config_reader *r = user;
    (void)section;
    if (r->status != DIBS_OK) /* the reader goes on after an error; the first one counts */
        return 0;
    const struct setting *s = find(name);
    if (!s && dibs__is_hook_setting(name))
        return 1; /* of the daemon only */
    if (!s)
        r->status = error_set(r->err, DIBS_INVALID_REQUEST,
                              "config file has an unknown setting '%s'", name);
    else
        r->status = put(r->d, s, value, "config file", r->err);
    return r->status == DIBS_OK;
}

static dibs_status read_config(dibs *d, struct dibs_error *err)
{
    dibs_arena *a = dibs_arena_new();
    char *path = a ? arena_printf(a, "%s/config", d->data_dir) : NULL;
    if (!path) {
        dibs_arena_free(a);
        return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
    }
    dibs_status status = DIBS_OK;
    FILE *file = fopen(path, "re");
    if (file) {
        struct config_reader r = {.d = d, .err = err, .status = DIBS_OK};
        int line = ini_parse_file(file, on_config_line, &r);
        fclose(file);
        status = r.status;
        if (status == DIBS_OK && line != 0)
            status = error_set(err, DIBS_INVALID_REQUEST,
                               "cannot read line %d of '%s': write it as name = value", line, path);
    } else if (errno != ENOENT) {
        status =
            error_set(err, DIBS_STORE_UNAVAILABLE, "cannot read '%s': %s", path, strerror(errno));
    }
    dibs_arena_free(a);
    return status;
}

/* ---- the other places ------------------------------------------------------------------------ */

static dibs_status read_environment(dibs *d, struct dibs_error *err)
{
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        const char *text = getenv(settings[i].environment);
        if (!text)
            continue;
        dibs_status status = put(d, &settings[i], text, "environment", err);
        if (status != DIBS_OK)
            return status;
    }
    return DIBS_OK;
}

static dibs_status read_option(dibs *d, const char *option, struct dibs_error *err)
{
    const char *equals = strchr(option, '=');
    char name[64] = "";
    if (equals && (size_t)(equals - option) < sizeof name)
        memcpy(name, option, (size_t)(equals - option));
    const struct setting *s = find(name);
    if (!s)
        return error_set(err, DIBS_INVALID_REQUEST, "'%s' is not a setting; write it as name=value",
                         option);
    return put(d, s, equals + 1, "option", err);
}

static dibs_status check_together(const dibs *d, struct dibs_error *err)
{
    const struct dibs_settings *s = &d->settings;
    if (s->min_ttl_ms > s->max_ttl_ms)
        return error_field(err, "minTTL", "is larger than maxTTL");
    if (s->default_ttl_ms < s->min_ttl_ms || s->default_ttl_ms > s->max_ttl_ms)
        return error_field(err, "defaultTTL", "must lie between minTTL and maxTTL");
    if (s->orphan_threshold_ms < s->stale_threshold_ms)
        return error_field(
            err, "orphanThreshold",
            "is shorter than staleThreshold: sessions would end before they are stale");
    return DIBS_OK;
}

dibs_status dibs__settings_load(dibs *d, struct dibs_strings options, struct dibs_error *err)
{
    _Static_assert(COUNT_OF(settings) <= COUNT_OF(((dibs *)0)->setting_origin),
                   "room for every origin");
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        *slot(d, &settings[i]) = settings[i].standard;
        d->setting_origin[i] = "default";
    }
    dibs_status status = read_config(d, err);
    if (status == DIBS_OK)
        status = read_environment(d, err);
    for (size_t i = 0; status == DIBS_OK && i < options.count; i++)
        status = read_option(d, options.items[i], err);
    return status == DIBS_OK ? check_together(d, err) : status;
}

bool dibs__reload(dibs *d, struct dibs_strings options)
{
    struct dibs_error err = {0};
    struct dibs_settings before = d->settings;
    const char *origin[COUNT_OF(d->setting_origin)];
    memcpy(origin, d->setting_origin, sizeof origin);
    if (dibs__settings_load(d, options, &err) == DIBS_OK) {
        d->tended = (struct tended){0}; /* what is due when may be another time now */
        return true;
    }
    d->settings = before;
    memcpy(d->setting_origin, origin, sizeof origin);
    log_line(LOG_WARN, "the settings stay as they were: %s", err.message);
    return false;
}

const struct dibs_settings *dibs_settings(const dibs *d)
{
    return &d->settings;
}

dibs_status dibs_settings_list(dibs *d, dibs_arena *a, struct dibs_setting_list *out,
                               struct dibs_error *err)
{
    struct dibs_setting *items = arena_alloc(a, sizeof *items * COUNT_OF(settings));
    if (!items)
        return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        items[i] = (struct dibs_setting){.name = settings[i].name,
                                         .environment = settings[i].environment,
                                         .summary = settings[i].summary,
                                         .is_duration = settings[i].is_duration,
                                         .value = *slot(d, &settings[i]),
                                         .standard = settings[i].standard,
                                         .origin = d->setting_origin[i]};
    *out = (struct dibs_setting_list){.items = items, .count = COUNT_OF(settings)};
    return DIBS_OK;
}
