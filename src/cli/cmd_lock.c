/* SPDX-License-Identifier: MIT */
/*
 * cmd_lock.c: dibs lock take, release, heartbeat, list; dibs lock RESOURCE -- CMD is in
 * lock_hold.c.
 *
 * A resource is any text, often a path, so it travels in the body and never in the path of a
 * request.
 */
#include "cli.h"

#define TAKE_OPTIONS                                                                               \
    OPT("shared", 0, FLAG, NULL, NULL, "share it with other shared holders"),                      \
        OPT("ttl", 0, DURATION, "DURATION", "ttlMs", "how long it is held without a heartbeat"),   \
        OPT("wait", 'w', DURATION, "DURATION", "waitMs", "wait so long, in the order of arrival")

static const struct cli_option hold_options[] = {TAKE_OPTIONS, {0}};
static const struct cli_option take_options[] = {
    TAKE_OPTIONS,
    OPT("pid", 0, INT, "PID", NULL, "process whose end ends the session, if not registered yet"),
    {0},
};
static const struct cli_option heartbeat_options[] = {
    OPT("extend", 0, DURATION, "DURATION", "extendMs",
        "new lease from now on, instead of the old one's"),
    OPT("token", 0, INT, "N", "token", "refuse unless this is still the token of the lock"),
    {0},
};
static const struct cli_option release_options[] = {
    OPT("token", 0, INT, "N", "token", "refuse unless this is still the token of the lock"),
    {0},
};
static const struct cli_option list_options[] = {
    OPT("resource", 0, TEXT, "NAME", "resource", "only this one"),
    OPT("session", 0, TEXT, "ID", "sessionId", "only held by this session"),
    {0},
};

/* lock_body: the options, the resource and who asks. NULL: refused and shown. */
static json_t *lock_body(struct cli *cli)
{
    json_t *body = NULL;

    if (cli_session(cli) == NULL || !cli_open(cli))
        return NULL;
    body = cli_body(cli);
    must_set(body, "resource", must_json(json_string(cli->args.words[0])));
    must_set(body, "sessionId", must_json(json_string(cli->session)));
    if (args_has(&cli->args, "shared"))
        must_set(body, "mode", must_json(json_string("shared")));
    return body;
}

static void print_lock(struct cli *cli, const json_t *lock, const char *verb)
{
    if (!cli->quiet)
        printf("%s '%s' until %s (token %" PRId64 ") as %s\n", verb,
               out_safe(cli->arena, get_text(lock, "resource")),
               out_clock(&cli->out, cli->arena, get_text(lock, "expiresAt")),
               get_int(lock, "token"), cli->session);
    else
        printf("%" PRId64 "\n", get_int(lock, "token"));
}

static int lock_take(struct cli *cli)
{
    json_t *body = lock_body(cli), *answer = NULL;
    const json_t *lock = NULL;

    if (body == NULL)
        return cli->exit;
    answer = cli_ask_as_session(
        cli, &(struct client_request){.method = "POST", .path = "/api/locks", .body = body});
    json_decref(body);
    if (answer == NULL)
        return cli->exit;
    lock = json_object_get(answer, "lock");
    print_lock(cli, lock,
               json_is_true(json_object_get(lock, "extended")) ? "still yours:" : "locked");
    return 0;
}

static int lock_heartbeat(struct cli *cli)
{
    json_t *body = lock_body(cli), *answer = NULL;

    if (body == NULL)
        return cli->exit;
    answer = cli_ask(cli, &(struct client_request){
                              .method = "POST", .path = "/api/locks/heartbeat", .body = body});
    json_decref(body);
    if (answer == NULL)
        return cli->exit;
    print_lock(cli, json_object_get(answer, "lock"), "renewed");
    return 0;
}

static int lock_release(struct cli *cli)
{
    json_t *body = lock_body(cli), *answer = NULL;

    if (body == NULL)
        return cli->exit;
    answer = cli_ask(
        cli, &(struct client_request){.method = "DELETE", .path = "/api/locks", .body = body});
    json_decref(body);
    if (answer == NULL)
        return cli->exit;
    if (!cli->quiet)
        printf("released '%s'\n", out_safe(cli->arena, cli->args.words[0]));
    return 0;
}

static const struct column lock_columns[] = {
    {"RESOURCE", false, true}, {"MODE", false, false},  {"HELD BY", false, false},
    {"TOKEN", true, false},    {"TAKEN", false, false}, {"EXPIRES", false, false},
};

static int lock_list(struct cli *cli)
{
    const json_t *answer =
        cli_ask(cli, &(struct client_request){
                         .method = "GET", .path = "/api/locks", .query = cli_query(cli, false)});
    const json_t *locks = json_object_get(answer, "locks");
    dibs_arena *a = cli->arena;
    struct table t;

    if (answer == NULL)
        return cli->exit;
    if (json_array_size(locks) == 0 && !cli->quiet)
        puts("no locks");
    table_init(&t, a, lock_columns, COUNT_OF(lock_columns));
    for (size_t i = 0; i < json_array_size(locks); i++) {
        const json_t *lock = json_array_get(locks, i);
        if (cli->quiet) {
            printf("%s\n", out_safe(a, get_text(lock, "resource")));
            continue;
        }
        table_cell(&t, CYAN, get_text(lock, "resource"));
        table_cell(&t, PLAIN, get_text(lock, "mode"));
        table_cell(&t, PLAIN, get_text(lock, "sessionId"));
        table_int(&t, get_int(lock, "token"));
        table_cell(&t, PLAIN, out_when(&cli->out, a, get_text(lock, "acquiredAt")));
        table_cell(&t, PLAIN, out_when(&cli->out, a, get_text(lock, "expiresAt")));
    }
    if (t.cell_count > 0)
        table_print(&t, &cli->out);
    return 0;
}

const struct command lock_commands[] = {
    {"lock", "Locks", "RESOURCE [options] -- CMD [ARG...]", "hold a lock while a command runs",
     "The lock is renewed while CMD runs and released when it ends; the exit code is that of CMD, "
     "128 more than the "
     "signal that ended it, 4 when the lock is held by somebody else, or 5 when it was lost: CMD "
     "is then stopped. CMD "
     "finds the fencing token in DIBS_LOCK_TOKEN. The holder is a session of its own, so that two "
     "of these exclude each "
     "other in one terminal too, unless --session names one.",
     hold_options, 1, 1, true, lock_hold},
    {"lock take", "Locks", "RESOURCE [options]", "take a lock and keep it", NULL, take_options, 1,
     1, false, lock_take},
    {"lock heartbeat", "Locks", "RESOURCE [options]", "renew a lock", NULL, heartbeat_options, 1, 1,
     false, lock_heartbeat},
    {"lock release", "Locks", "RESOURCE [options]", "release a lock", NULL, release_options, 1, 1,
     false, lock_release},
    {"lock list", "Locks", "[options]", "list locks", NULL, list_options, 0, 0, false, lock_list},
    {0},
};
