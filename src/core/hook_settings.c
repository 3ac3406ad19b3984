/* SPDX-License-Identifier: MIT */
/*
 * hook_settings.c: the settings of webhooks and of the sender, most of which are secrets.
 *
 * They are texts, and only the daemon needs them, so they are apart from settings.c: nobody else
 * holds them in memory. The environment wins over the file `config` of the data folder (mode 0600
 * is its owner's business; the folder is 0700). There is no option for any of them, as command
 * lines can be read by everybody on the machine.
 *
 *   1. A secret is in no message, event, log or list: lists say "set" or "not set".
 *   2. What cannot be right is refused, like everywhere: an address without http, a rule that names
 *      an event nobody sends.
 */
#include "core/hook.h"

#include <errno.h>
#include <ini.h>

#include "base/arena.h"
#include "base/str.h"

typedef dibs_status hook_check(const char *name, const char *text, struct dibs_error *err);

struct hook_setting {
    size_t offset;
    const char *name, *environment;
    bool is_secret;
    const char *standard;
    hook_check *check;
    const char *summary;
};

/* ---- what is right --------------------------------------------------------------------------- */

/* Fits into a header as it is; the text itself is not told, it may be a secret. */
static dibs_status check_visible(const char *name, const char *text, struct dibs_error *err)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            return error_field(err, name, "may only have printable ASCII characters");
    return DIBS_OK;
}

static dibs_status check_secret(const char *name, const char *text, struct dibs_error *err)
{
    (void)name;
    (void)text;
    (void)err;
    return DIBS_OK; /* any bytes make a key */
}

static dibs_status check_url(const char *name, const char *text, struct dibs_error *err)
{
    if (!str_starts(text, "http://") && !str_starts(text, "https://"))
        return error_field(err, name, "must begin with http:// or https://, not '%.100s'", text);
    return check_visible(name, text, err);
}

static dibs_status check_id(const char *name, const char *text, struct dibs_error *err)
{
    if (!str_is_id(text))
        return error_field(err, name, "cannot be '%.100s': it takes letters, digits and . _ : -",
                           text);
    return DIBS_OK;
}

static dibs_status check_word(const char *name, const char *text, struct dibs_error *err)
{
    if (strlen(text) > WORD_BYTES_MAX || !str_is_utf8(text, strlen(text)))
        return error_field(err, name, "takes at most %d bytes of UTF-8", WORD_BYTES_MAX);
    return DIBS_OK;
}

static const char *const events[] = {"issues", "issue_comment", "pull_request",
                                     "pull_request_review", "pull_request_review_comment"};

static bool is_event(const char *text, size_t bytes)
{
    for (size_t i = 0; i < COUNT_OF(events); i++)
        if (strlen(events[i]) == bytes && memcmp(events[i], text, bytes) == 0)
            return true;
    return false;
}

static const char *skip_separators(const char *text)
{
    return text + strspn(text, ", \t");
}

static dibs_status check_rule(const char *name, const char *text, struct dibs_error *err)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyz_";
    for (text = skip_separators(text); *text; text = skip_separators(text)) {
        size_t bytes = strcspn(text, ", \t"), event = strspn(text, word), action = 0;
        if (event < bytes && text[event] == '.')
            action = strspn(text + event + 1, word) + 1;
        if (event + action != bytes || action == 1 || !is_event(text, event))
            return error_field(err, name,
                               "cannot name '%.*s': it takes a list such as issues.opened, "
                               "pull_request, issue_comment.created",
                               (int)(bytes < 100 ? bytes : 100), text);
        text += bytes;
    }
    return DIBS_OK;
}

bool dibs__hook_rule_names(const char *list, const char *event, const char *action)
{
    size_t event_bytes = strlen(event), action_bytes = strlen(action);
    for (list = skip_separators(list); *list; list = skip_separators(list)) {
        size_t bytes = strcspn(list, ", \t");
        bool of_event = bytes >= event_bytes && memcmp(list, event, event_bytes) == 0;
        if (of_event && (bytes == event_bytes ||
                         (bytes == event_bytes + 1 + action_bytes && list[event_bytes] == '.' &&
                          memcmp(list + event_bytes + 1, action, action_bytes) == 0)))
            return true;
        list += bytes;
    }
    return false;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct dibs_hook_settings, field)
static const struct hook_setting settings[] = {
    {AT(slack_signing_secret), "slackSigningSecret", "DIBS_SLACK_SIGNING_SECRET", true, "",
     check_secret, "proves that POST /hooks/slack comes from Slack"},
    {AT(slack_bot_token), "slackBotToken", "DIBS_SLACK_BOT_TOKEN", true, "", check_visible,
     "sends answers to messages from Slack"},
    {AT(slack_url), "slackUrl", "DIBS_SLACK_URL", false, "https://slack.com/api", check_url,
     "where answers are sent to"},
    {AT(github_secret), "githubSecret", "DIBS_GITHUB_SECRET", true, "", check_secret,
     "proves that POST /hooks/github comes from GitHub"},
    {AT(agent), "hookAgent", "DIBS_HOOK_AGENT", false, "", check_id,
     "whose inbox hooks write to; not set: that of the leads"},
    {AT(project), "hookProject", "DIBS_HOOK_PROJECT", false, "", check_word,
     "project of what hooks bring; not set: default"},
    {AT(github_tasks), "githubTasks", "DIBS_GITHUB_TASKS", false, "", check_rule,
     "events of GitHub that become tasks, such as issues.opened"},
};
#undef AT
_Static_assert(COUNT_OF(settings) == HOOK_SETTINGS, "a line for each");

static const struct hook_setting *find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        if (str_eq(settings[i].name, name))
            return &settings[i];
    return NULL;
}

bool dibs__is_hook_setting(const char *name)
{
    return find(name) != NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reader {
    struct dibs_hook_settings *out;
    const char *origin[HOOK_SETTINGS];
    struct dibs_error *err;
    dibs_status status;
};

static void put(struct reader *r, const struct hook_setting *s, const char *text,
                const char *origin)
{
    size_t bytes = strlen(text);
    if (bytes >= HOOK_TEXT_BYTES)
        r->status = error_field(r->err, s->name, "is longer than %d bytes", HOOK_TEXT_BYTES - 1);
    else if (bytes > 0)
        r->status = s->check(s->name, text, r->err);
    if (r->status != DIBS_OK)
        return;
    /* empty means not set, which for an address is the default */
    memcpy((char *)r->out + s->offset, bytes ? text : s->standard,
           (bytes ? bytes : strlen(s->standard)) + 1);
    r->origin[s - settings] = origin;
}

static int on_line(void *user, const char *section, const char *name, const char *value)
{
    struct reader *r = user;
    const struct hook_setting *s = find(name);
    (void)section;
    if (s != NULL && r->status == DIBS_OK)
        put(r, s, value, "config file");
    return 1; /* all other names are settings.c's */
}

static void read_config(struct reader *r, const char *data_dir)
{
    char path[4096 + 16];
    snprintf(path, sizeof path, "%.4096s/config", data_dir);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        ini_parse_file(file, on_line, r); /* lines that are none are refused by settings.c */
        fclose(file);
    } else if (errno != ENOENT) {
        r->status = error_set(r->err, DIBS_STORE_UNAVAILABLE, "cannot read '%s': %s", path,
                              strerror(errno));
    }
}

static void read_all(struct reader *r, const char *data_dir)
{
    *r->out = (struct dibs_hook_settings){0};
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        put(r, &settings[i], "", "default");
    read_config(r, data_dir);
    for (size_t i = 0; i < COUNT_OF(settings) && r->status == DIBS_OK; i++) {
        const char *text = getenv(settings[i].environment);
        if (text != NULL)
            put(r, &settings[i], text, "environment");
    }
    for (size_t bytes = strlen(r->out->slack_url);
         bytes > 0 && r->out->slack_url[bytes - 1] == '/';)
        r->out->slack_url[--bytes] = '\0';
}

dibs_status dibs__hook_settings(const char *data_dir, struct dibs_hook_settings *out,
                                struct dibs_error *err)
{
    struct dibs_hook_settings fresh = {0};
    struct reader r = {.out = &fresh, .err = err, .status = DIBS_OK};
    read_all(&r, data_dir);
    if (r.status == DIBS_OK)
        *out = fresh;
    return r.status;
}

dibs_status dibs__hook_settings_list(const char *data_dir, dibs_arena *a,
                                     struct dibs_hook_setting out[HOOK_SETTINGS],
                                     struct dibs_error *err)
{
    struct dibs_hook_settings all = {0};
    struct reader r = {.out = &all, .err = err, .status = DIBS_OK};
    read_all(&r, data_dir);
    for (size_t i = 0; i < COUNT_OF(settings) && r.status == DIBS_OK; i++) {
        const struct hook_setting *s = &settings[i];
        const char *text = (const char *)&all + s->offset;
        const char *shown = !s->is_secret ? arena_strdup(a, text) : *text ? "set" : "not set";
        if (shown == NULL)
            return error_set(err, DIBS_OUT_OF_MEMORY, "out of memory");
        out[i] = (struct dibs_hook_setting){.name = s->name,
                                            .environment = s->environment,
                                            .summary = s->summary,
                                            .value = shown,
                                            .origin = r.origin[i],
                                            .is_secret = s->is_secret};
    }
    return r.status;
}
