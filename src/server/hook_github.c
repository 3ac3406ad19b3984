/* SPDX-License-Identifier: MIT */
/*
 * hook_github.c: what a delivery of a GitHub webhook says.
 *
 * Issues, pull requests, comments and reviews become messages of the inbox; those that githubTasks
 * names become tasks instead. Of each kind the actions of the table below are news for somebody;
 * edits, labels and the like are ignored, unless githubTasks names them. So is what bots do, or an
 * agent that comments would be told of its own comment.
 *
 * A message: channel is the repository (owner/name), thread the number, user the login, matchedText
 * event and action ("issues.opened"); content is a headline, the address, and the text. A task: the
 * headline is its title, the rest its description; while it is not finished, further deliveries
 * about the same page find it instead of making another.
 */
#include "hook_text.h"
#include "http.h"

#include "base/str.h"

/* What is news, and where the parts of it are. */
static const struct kind {
    const char *event;
    const char *what;       /* in the headline */
    const char *subject;    /* has number and title */
    const char *part;       /* has body and html_url */
    const char *actions[6]; /* that become messages */
} kinds[] = {
    {"issues", "issue", "issue", "issue", {"opened", "reopened", "closed"}},
    {"issue_comment", "comment on issue", "issue", "comment", {"created"}},
    {"pull_request",
     "pull request",
     "pull_request",
     "pull_request",
     {"opened", "reopened", "closed", "ready_for_review", "review_requested"}},
    {"pull_request_review", "review of pull request", "pull_request", "review", {"submitted"}},
    {"pull_request_review_comment",
     "review comment on pull request",
     "pull_request",
     "comment",
     {"created"}},
};

struct facts {
    const struct kind *kind;
    const char *action, *repository, *login, *title, *url, *body, *state;
    int64_t number;
};

static dibs_status refuse(struct dibs_error *err, const char *what)
{
    return error_set(err, DIBS_INVALID_REQUEST, "the delivery is not one of GitHub's: %s", what);
}

static dibs_status ignore(struct hook_event *out, const char *why)
{
    out->kind = HOOK_IGNORED;
    out->why = why;
    return DIBS_OK;
}

/* ---- what it is about ------------------------------------------------------------------------ */

static const struct kind *find_kind(const char *event)
{
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (str_eq(kinds[i].event, event))
            return &kinds[i];
    return NULL;
}

static bool is_news(const struct facts *f)
{
    for (size_t i = 0; i < COUNT_OF(f->kind->actions) && f->kind->actions[i] != NULL; i++)
        if (str_eq(f->kind->actions[i], f->action))
            /* a review without words comes along with each comment on a line */
            return !str_eq(f->kind->part, "review") || f->body[0] != '\0' ||
                   !str_eq(f->state, "commented");
    return false;
}

static dibs_status read_facts(const json_t *root, struct facts *out, struct dibs_error *err)
{
    const json_t *subject = json_object_get(root, out->kind->subject);
    const json_t *part = json_object_get(root, out->kind->part);
    const json_t *number = json_object_get(subject, "number");
    out->action = hook_at(root, "action");
    out->repository = hook_at(root, "repository", "full_name");
    out->login = hook_at(root, "sender", "login");
    out->title = hook_at(subject, "title");
    out->url = hook_at(part, "html_url");
    out->body = hook_at(part, "body");
    out->state = hook_at(part, "state");
    out->number = json_integer_value(number);
    if (out->action == NULL || out->repository == NULL || out->login == NULL)
        return refuse(err, "it has no action, repository or sender");
    if (out->title == NULL || out->url == NULL || !json_is_integer(number))
        return refuse(err, "it has no number, title or html_url");
    if (strlen(out->action) > 64 || strlen(out->repository) > WORD_BYTES_MAX + 100 ||
        strlen(out->login) > WORD_BYTES_MAX || strlen(out->url) > HTTP_URL_BYTES_MAX)
        return refuse(err, "a name or html_url is too long");
    out->body = out->body != NULL ? out->body : "";
    return DIBS_OK;
}

/* ---- what becomes of it ---------------------------------------------------------------------- */

/* verb: a pull request that is closed was merged or not, a review has its verdict. */
static const char *verb(const json_t *root, const struct facts *f)
{
    const json_t *merged = json_object_get(json_object_get(root, "pull_request"), "merged");
    if (str_eq(f->kind->event, "pull_request") && str_eq(f->action, "closed"))
        return json_is_true(merged) ? "merged" : "closed without a merge";
    if (str_eq(f->kind->part, "review") && f->state != NULL && strlen(f->state) < 64)
        return f->state;
    return f->action;
}

static const char *headline(struct hook_reader *r, const struct facts *f)
{
    return hook_copy(r,
                     hook_printf(r, "%s #%" PRId64 " %s in %s by %s: %s", f->kind->what, f->number,
                                 verb(r->root, f), f->repository, f->login, f->title),
                     TITLE_BYTES_MAX);
}

/* details: address and text, below a headline if there is one. */
static const char *details(struct hook_reader *r, const struct facts *f, const char *head)
{
    const char *path = hook_at(json_object_get(r->root, "comment"), "path");
    struct buf b;
    buf_init(&b, BODY_BYTES_MAX * 2);
    if (head != NULL)
        buf_printf(&b, "%s\n", head);
    buf_text(&b, f->url);
    if (path != NULL) {
        buf_text(&b, "\nfile: ");
        buf_text(&b, path);
    }
    if (f->body[0] != '\0') {
        buf_text(&b, "\n\n");
        buf_text(&b, f->body);
    }
    return hook_take(r, &b, DESCRIPTION_BYTES_MAX);
}

static const char *metadata(struct hook_reader *r, const struct facts *f, const char *delivery)
{
    struct buf b;
    struct jw w;
    buf_init(&b, JSON_VALUE_BYTES_MAX);
    jw_init(&w, &b);
    jw_object(&w);
    jw_ktext(&w, "source", "github");
    jw_ktext(&w, "deliveryId", delivery);
    jw_ktext(&w, "event", f->kind->event);
    jw_ktext(&w, "action", f->action);
    jw_ktext(&w, "repository", f->repository);
    jw_kint(&w, "number", f->number);
    jw_ktext(&w, "url", f->url);
    jw_ktext(&w, "user", f->login);
    jw_object_end(&w);
    return hook_take(r, &b, JSON_VALUE_BYTES_MAX);
}

static void make_message(struct hook_reader *r, const struct facts *f, struct hook_event *out)
{
    out->kind = HOOK_MESSAGE;
    out->message = (struct dibs_message_new){
        .project = hook_setting(r, r->set->project),
        .agent_id = hook_setting(r, r->set->agent),
        .source = "github",
        .content = details(r, f, headline(r, f)),
        .channel = hook_copy(r, f->repository, KEY_BYTES_MAX),
        .thread = hook_printf(r, "%" PRId64, f->number),
        .user = hook_copy(r, f->login, KEY_BYTES_MAX),
        .matched_text = hook_printf(r, "%s.%s", f->kind->event, f->action),
        .metadata = metadata(r, f, out->id),
    };
}

static void make_task(struct hook_reader *r, const struct facts *f, struct hook_event *out)
{
    const char **tags = arena_alloc(r->a, sizeof *tags);
    r->no_memory = r->no_memory || tags == NULL;
    if (tags == NULL)
        return;
    tags[0] = f->kind->event;
    out->kind = HOOK_TASK;
    out->task = (struct dibs_task_new){
        .project = hook_setting(r, r->set->project),
        .title = headline(r, f),
        .description = details(r, f, NULL),
        .type = "github",
        .tags = {.items = tags, .count = 1},
        .params = metadata(r, f, out->id),
        .dedupe_key = strlen(f->url) <= KEY_BYTES_MAX ? hook_copy(r, f->url, KEY_BYTES_MAX) : NULL,
    };
}

static dibs_status read_event(struct hook_reader *r, const char *event, struct hook_event *out,
                              struct dibs_error *err)
{
    struct facts f = {.kind = find_kind(event)};
    if (!json_is_object(r->root))
        return refuse(err, "it is not an object");
    if (str_eq(event, "ping"))
        return ignore(out, "a ping");
    if (f.kind == NULL)
        return ignore(out, "an event of another kind");
    dibs_status status = read_facts(r->root, &f, err);
    if (status != DIBS_OK)
        return status;
    if (str_eq(hook_at(r->root, "sender", "type"), "Bot"))
        return ignore(out, "done by a bot");
    if (dibs__hook_rule_names(r->set->github_tasks, event, f.action))
        make_task(r, &f, out);
    else if (is_news(&f))
        make_message(r, &f, out);
    else
        return ignore(out, "no new issue, pull request, comment or review");
    return DIBS_OK;
}

dibs_status hook_github_read(dibs_arena *a, const struct dibs_hook_settings *set, const char *event,
                             const char *delivery, struct hook_body body, struct hook_event *out,
                             struct dibs_error *err)
{
    struct hook_reader r = {.a = a, .set = set};
    *out = (struct hook_event){0};
    if (event == NULL || delivery == NULL)
        return refuse(err, "it has no X-GitHub-Event and X-GitHub-Delivery");
    if (delivery[0] == '\0' || strlen(delivery) > ID_BYTES_MAX)
        return refuse(err, "X-GitHub-Delivery is no id");
    dibs_status status = json_read(body.bytes, body.count, &r.root, err);
    if (status != DIBS_OK)
        return status;
    out->id = hook_copy(&r, delivery, ID_BYTES_MAX);
    status = read_event(&r, event, out, err);
    return hook_end(&r, status, err);
}
