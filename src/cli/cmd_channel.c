/* SPDX-License-Identifier: MIT */
/*
 * cmd_channel.c: dibs channel create, list, post, messages, read; dibs mentions claim, release.
 *
 * `messages` looks at a channel and changes nothing; `read` reads as an agent: what it prints is
 * read then, and the claim on the mentions in it ends. Posting needs a name and no session: the
 * agent's, or whatever the poster calls itself.
 */
#include "cli.h"

#include "base/str.h"

#define AGENT_OPTION(text) OPT("agent", 0, TEXT, "AGENT", NULL, text)

static const struct cli_option create_options[] = {
    OPT("description", 0, TEXT, "TEXT", "description", "what it is for"),
    {0},
};
static const struct cli_option post_options[] = {
    OPT("as", 0, TEXT, "AGENT", "author", "who writes (else DIBS_AGENT, else the session)"),
    OPT("reply-to", 0, TEXT, "ID", "replyTo", "the message that it answers"),
    OPT("idempotency-key", 0, TEXT, "KEY", NULL,
        "a repeat with the same key answers as the first time"),
    {0},
};
static const struct cli_option messages_options[] = {
    OPT("limit", 'n', INT, "N", "limit", "at most so many, 100 if not given"),
    OPT("cursor", 0, TEXT, "CURSOR", "cursor", "go on where the page before ended"),
    {0},
};
static const struct cli_option read_options[] = {
    AGENT_OPTION("who reads (else DIBS_AGENT)"),
    OPT("limit", 'n', INT, "N", "limit", "at most so many, 100 if not given"),
    {0},
};
static const struct cli_option claim_options[] = {
    AGENT_OPTION("whose mentions (else DIBS_AGENT)"),
    OPT("ttl", 0, DURATION, "DURATION", "ttlMs", "how long the lease runs without a heartbeat"),
    {0},
};
static const struct cli_option release_options[] = {
    AGENT_OPTION("whose mentions (else DIBS_AGENT)"),
    OPT("read", 0, FLAG, NULL, "read", "what was there when they were claimed counts as read"),
    {0},
};

/* ---- channels -------------------------------------------------------------------------------- */

static int channel_create(struct cli *cli)
{
    json_t *body = NULL;
    const json_t *channel = NULL;

    if (!cli_open(cli))
        return cli->exit;
    body = cli_body(cli);
    must_set(body, "id", must_json(json_string(cli->args.words[0])));
    if (cli->project != NULL)
        must_set(body, "project", must_json(json_string(cli->project)));
    channel = cli_ask(
        cli, &(struct client_request){.method = "POST", .path = "/api/channels", .body = body});
    json_decref(body);
    if (channel == NULL)
        return cli->exit;
    channel = json_object_get(channel, "channel");
    if (!cli->quiet)
        printf("%s ", cli->answer.http == 201 ? "made" : "already there:");
    printf("%s\n", get_id(cli->arena, channel, "id"));
    return 0;
}

static const struct column channel_columns[] = {
    {"CHANNEL", false, false}, {"PROJECT", false, false},    {"MESSAGES", true, false},
    {"MADE", false, false},    {"DESCRIPTION", false, true},
};

static int channel_list(struct cli *cli)
{
    const json_t *answer =
        cli_ask(cli, &(struct client_request){
                         .method = "GET", .path = "/api/channels", .query = cli_query(cli, true)});
    const json_t *channels = json_object_get(answer, "channels");
    struct table t;

    if (answer == NULL)
        return cli->exit;
    if (json_array_size(channels) == 0 && !cli->quiet)
        puts("no channels");
    table_init(&t, cli->arena, channel_columns, COUNT_OF(channel_columns));
    for (size_t i = 0; i < json_array_size(channels); i++) {
        const json_t *channel = json_array_get(channels, i);
        if (cli->quiet) {
            printf("%s\n", get_id(cli->arena, channel, "id"));
            continue;
        }
        table_cell(&t, CYAN, get_id(cli->arena, channel, "id"));
        table_cell(&t, PLAIN, get_text(channel, "project"));
        table_int(&t, get_int(channel, "messages"));
        table_cell(&t, DIM, out_when(&cli->out, cli->arena, get_text(channel, "createdAt")));
        table_cell(&t, PLAIN, get_text(channel, "description"));
    }
    if (t.cell_count > 0)
        table_print(&t, &cli->out);
    return 0;
}

/* ---- messages -------------------------------------------------------------------------------- */

static int channel_post(struct cli *cli)
{
    const char *author = cli_agent(cli), *named = NULL;
    json_t *body = NULL;
    const json_t *post = NULL;

    if (author == NULL && !args_has(&cli->args, "as"))
        author = cli_session(cli);
    if ((author == NULL && !args_has(&cli->args, "as")) || !cli_open(cli))
        return cli->exit;
    body = cli_body(cli);
    if (!args_has(&cli->args, "as"))
        must_set(body, "author", must_json(json_string(author)));
    must_set(body, "content", must_json(json_string(cli->args.words[1])));
    post =
        cli_ask(cli, &(struct client_request){
                         .method = "POST",
                         .path = cli_path(cli, "/api/channels/", cli->args.words[0], "/messages"),
                         .body = body,
                         .idempotency_key = args_text(&cli->args, "idempotency-key")});
    json_decref(body);
    if (post == NULL)
        return cli->exit;
    post = json_object_get(post, "message");
    named = list_line(cli->arena, json_object_get(post, "mentions"));
    if (cli->quiet)
        printf("%s\n", get_id(cli->arena, post, "id"));
    else
        printf("posted %s as %s%s%s\n", get_id(cli->arena, post, "id"),
               out_safe(cli->arena, get_text(post, "author")), named != NULL ? ", mentions " : "",
               named != NULL ? named : "");
    return 0;
}

static const struct column post_columns[] = {
    {"ID", false, false},    {"WHEN", false, false},   {"AUTHOR", false, false},
    {"REPLY", false, false}, {"MESSAGE", false, true},
};

static void print_posts(struct cli *cli, const json_t *posts)
{
    dibs_arena *a = cli->arena;
    struct table t;

    table_init(&t, a, post_columns, COUNT_OF(post_columns));
    for (size_t i = 0; i < json_array_size(posts); i++) {
        const json_t *post = json_array_get(posts, i);
        if (cli->quiet) {
            printf("%s\n", get_id(a, post, "id"));
            continue;
        }
        table_cell(&t, CYAN, get_id(a, post, "id"));
        table_cell(&t, DIM, out_when(&cli->out, a, get_text(post, "createdAt")));
        table_cell(&t, PLAIN, get_text(post, "author"));
        table_cell(&t, DIM,
                   json_object_get(post, "replyTo") != NULL ? get_id(a, post, "replyTo") : NULL);
        table_cell(&t, PLAIN, get_text(post, "content"));
    }
    if (t.cell_count > 0)
        table_print(&t, &cli->out);
}

/* show_posts: a page of messages; `none` when it is empty. */
static int show_posts(struct cli *cli, const json_t *answer, const char *none)
{
    const json_t *posts = json_object_get(answer, "messages");

    if (answer == NULL)
        return cli->exit;
    if (json_array_size(posts) == 0 && !cli->quiet)
        puts(none);
    print_posts(cli, posts);
    return 0;
}

static int channel_messages(struct cli *cli)
{
    const json_t *answer =
        cli_ask(cli, &(struct client_request){
                         .method = "GET",
                         .path = cli_path(cli, "/api/channels/", cli->args.words[0], "/messages"),
                         .query = cli_query(cli, false)});
    int code = show_posts(cli, answer, "no messages");

    if (get_text(answer, "nextCursor") != NULL)
        cli_hint(cli, "there are more: repeat with --cursor %s", get_text(answer, "nextCursor"));
    return code;
}

/* agent_body: the options, the agent and its session. NULL: refused and shown. */
static json_t *agent_body(struct cli *cli)
{
    const char *agent = cli_need_agent(cli);
    json_t *body = NULL;

    if (agent == NULL || !cli_ensure_agent_session(cli))
        return NULL;
    body = cli_session_body(cli);
    if (body != NULL)
        must_set(body, "agentId", must_json(json_string(agent)));
    return body;
}

static int channel_read(struct cli *cli)
{
    json_t *body = agent_body(cli);
    const json_t *answer = NULL;
    int code = 0;

    if (body == NULL)
        return cli->exit;
    answer = cli_ask(cli, &(struct client_request){
                              .method = "POST",
                              .path = cli_path(cli, "/api/channels/", cli->args.words[0], "/read"),
                              .body = body});
    json_decref(body);
    code = show_posts(cli, answer, "nothing new");
    if (get_text(answer, "nextCursor") != NULL)
        cli_hint(cli, "there are more: repeat the command");
    return code;
}

/* ---- mentions -------------------------------------------------------------------------------- */

static const struct column mention_columns[] = {
    {"CHANNEL", false, true},
    {"MENTIONS", true, false},
    {"TOKEN", true, false},
    {"EXPIRES", false, false},
};

void mentions_print(struct cli *cli, const json_t *answer)
{
    const json_t *channels = json_object_get(answer, "channels");
    dibs_arena *a = cli->arena;
    struct table t;

    table_init(&t, a, mention_columns, COUNT_OF(mention_columns));
    for (size_t i = 0; i < json_array_size(channels); i++) {
        const json_t *one = json_array_get(channels, i), *claim = json_object_get(one, "claim");
        if (cli->quiet) {
            printf("%s\n", get_id(a, one, "channelId"));
            continue;
        }
        table_cell(&t, CYAN, get_id(a, one, "channelId"));
        table_int(&t, get_int(one, "count"));
        table_int(&t, get_int(claim, "token"));
        table_cell(&t, PLAIN, out_when(&cli->out, a, get_text(claim, "expiresAt")));
    }
    if (t.cell_count > 0)
        table_print(&t, &cli->out);
}

static int mentions_claim(struct cli *cli)
{
    json_t *body = agent_body(cli);
    const json_t *answer = NULL;

    if (body == NULL)
        return cli->exit;
    answer = cli_ask(cli, &(struct client_request){
                              .method = "POST", .path = "/api/mentions/claim", .body = body});
    json_decref(body);
    if (answer == NULL)
        return cli->exit;
    mentions_print(cli, answer);
    cli_hint(cli, "then: dibs channel read CHANNEL, or dibs mentions release [--read]");
    return 0;
}

static int mentions_release(struct cli *cli)
{
    json_t *body = agent_body(cli), *channels = NULL;
    const json_t *answer = NULL;

    if (body == NULL)
        return cli->exit;
    if (cli->args.word_count > 0) {
        channels = must_json(json_array());
        for (size_t i = 0; i < cli->args.word_count; i++)
            must_push(channels, must_json(json_string(cli->args.words[i])));
        must_set(body, "channelIds", channels);
    }
    answer = cli_ask(cli, &(struct client_request){
                              .method = "POST", .path = "/api/mentions/release", .body = body});
    json_decref(body);
    if (answer == NULL)
        return cli->exit;
    if (!cli->quiet)
        printf("released %" PRId64 "\n", get_int(answer, "released"));
    return 0;
}

const struct command channel_commands[] = {
    {"channel create", "Messages", "CHANNEL [--description TEXT]", "make a channel, or find it",
     NULL, create_options, 1, 1, false, channel_create},
    {"channel list", "Messages", "", "list channels", NULL, NULL, 0, 0, false, channel_list},
    {"channel post", "Messages", "CHANNEL TEXT [options]", "post a message in a channel",
     "@NAME in the text, not inside a word, mentions the agent of that name and no other.",
     post_options, 2, 2, false, channel_post},
    {"channel messages", "Messages", "CHANNEL [options]", "what was posted, oldest first",
     "Marks nothing as read.", messages_options, 1, 1, false, channel_messages},
    {"channel read", "Messages", "CHANNEL [--agent AGENT] [options]",
     "what an agent has not read yet, which then is read",
     "A claim on the mentions in the channel ends when all of them have been read.", read_options,
     1, 1, false, channel_read},
    {"mentions claim", "Messages", "[--agent AGENT] [--ttl DURATION]",
     "claim the channels in which an agent is mentioned",
     "Reading the channel ends the claim; when the lease ends before, they are handed out again. "
     "Exit code 3 means that there is none.",
     claim_options, 0, 0, false, mentions_claim},
    {"mentions release", "Messages", "[CHANNEL...] [--agent AGENT] [--read]",
     "let go of claimed mentions", "Of all that the session holds, unless channels are named.",
     release_options, 0, WORDS_ANY, false, mentions_release},
    {0},
};
