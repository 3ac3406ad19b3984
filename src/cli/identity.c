/* SPDX-License-Identifier: MIT */
/*
 * identity.c: as which session a command acts, and its registration.
 *
 * A session is named by --session or DIBS_SESSION. Without either, all commands of one terminal are
 * one session, named after the user, the host and the terminal's session leader, and registered
 * with the leader's pid: it ends when the terminal is closed, and with it end its claims.
 * Registering is a write, so it is done only when the store says that it does not know the session.
 *
 * A session may belong to an agent, named by --agent or DIBS_AGENT. One that belongs to none is
 * made that agent's by the first command that needs it; one of another agent is never taken over.
 */
#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include "cli.h"

#include "base/str.h"

/* append_plain: text without what an id may not contain, at most `most` bytes of it. */
static void append_plain(struct buf *b, const char *text, size_t most)
{
    for (size_t i = 0; text[i] != '\0' && i < most; i++) {
        const char one[2] = {text[i], '\0'};
        buf_char(b, str_is_id(one) ? text[i] : '_');
    }
}

/* automatic: "ann-host-991". */
static const char *automatic(dibs_arena *a)
{
    const struct passwd *user = getpwuid(geteuid());
    char host[256] = "";
    const char *id = NULL;
    struct buf b;

    if (gethostname(host, sizeof host - 1) != 0)
        str_fit(host, sizeof host, "localhost");
    host[strcspn(host, ".")] = '\0';
    buf_init(&b, ID_BYTES_MAX);
    if (user != NULL)
        append_plain(&b, user->pw_name, 40);
    else
        buf_printf(&b, "uid%lu", (unsigned long)geteuid());
    buf_char(&b, '-');
    append_plain(&b, host, 60);
    buf_printf(&b, "-%ld", (long)getsid(0));
    id = must_copy(a, must_buf(&b), b.len);
    buf_release(&b);
    return id;
}

int64_t cli_session_leader(void)
{
    pid_t leader = getsid(0);

    /* a command that leads its own session (cron, setsid) is gone in a moment */
    if (leader <= 0 || leader == getpid())
        return 0;
    return kill(leader, 0) == 0 || errno == EPERM ? (int64_t)leader : 0;
}

const char *cli_session(struct cli *cli)
{
    const char *id = args_text(&cli->args, "session");
    const char *origin = "--session";

    if (cli->session != NULL)
        return cli->session;
    if (id == NULL) {
        id = getenv("DIBS_SESSION");
        origin = "DIBS_SESSION";
    }
    if (id == NULL || (id[0] == '\0' && str_eq(origin, "DIBS_SESSION"))) {
        id = automatic(cli->arena);
        cli->session_is_automatic = true;
    }
    if (!str_is_id(id)) {
        cli->exit =
            cli_usage(cli, "%s must be up to %d letters, digits and '.', '_', ':', '-', not '%s'",
                      origin, ID_BYTES_MAX, id);
        return NULL;
    }
    cli->session = id;
    return id;
}

void cli_set_process(const struct cli *cli, json_t *body, int64_t pid)
{
    char host[WORD_BYTES_MAX + 1] = "";

    if (pid > 0)
        must_set(body, "pid", must_json(json_integer(pid)));
    if (client_url(cli->client) == NULL || json_object_get(body, "host") != NULL)
        return;
    if (gethostname(host, sizeof host - 1) == 0 && host[0] != '\0')
        must_set(body, "host", must_json(json_string(host)));
}

const char *cli_agent(const struct cli *cli)
{
    const char *agent = args_text(&cli->args, "agent");

    if (agent == NULL)
        agent = getenv("DIBS_AGENT");
    return agent != NULL && agent[0] != '\0' ? agent : NULL;
}

const char *cli_need_agent(struct cli *cli)
{
    const char *agent = cli_agent(cli);

    if (agent == NULL)
        cli->exit = cli_usage(cli, "which agent? Give --agent ID or set DIBS_AGENT");
    else if (!str_is_id(agent))
        cli->exit = cli_usage(cli, "'%s' cannot be the id of an agent", agent);
    else
        return agent;
    return NULL;
}

/* register_it: registers the session; false when it is refused, the answer says why. */
static bool register_it(struct cli *cli)
{
    int64_t pid = cli->session_is_automatic ? cli_session_leader() : 0;
    const char *type = args_text(&cli->args, "agent-type");
    json_t *body = must_json(json_object());
    bool asked = false;

    pid = args_int(&cli->args, "pid", pid);
    must_set(body, "id", json_string(cli->session));
    must_set(body, "agentType", json_string(type != NULL ? type : "cli"));
    if (cli_agent(cli) != NULL)
        must_set(body, "agentId", must_json(json_string(cli_agent(cli))));
    if (cli->project != NULL)
        must_set(body, "project", json_string(cli->project));
    cli_set_process(cli, body, pid);
    asked = cli_call(
        cli, &(struct client_request){.method = "POST", .path = "/api/sessions", .body = body});
    json_decref(body);
    return asked;
}

json_t *cli_ask_as_session(struct cli *cli, const struct client_request *in)
{
    if (!cli_call(cli, in))
        return NULL;
    if (cli->answer.status == DIBS_SESSION_NOT_FOUND) {
        if (!register_it(cli))
            return NULL;
        if (cli->answer.status == DIBS_OK && !cli_call(cli, in))
            return NULL;
    }
    return cli_show(cli);
}

/* succeeded: whether the last answer was no refusal; one is shown. */
static bool succeeded(struct cli *cli)
{
    if (cli->answer.status == DIBS_OK)
        return true;
    cli->exit = cli_refusal(cli);
    return false;
}

/* agent_is_known: a session would make any agent known, also one that is a typing error. */
static bool agent_is_known(struct cli *cli)
{
    const char *path = cli_path(cli, "/api/agents/", cli_agent(cli), "");

    return cli_call(cli, &(struct client_request){.method = "GET", .path = path}) && succeeded(cli);
}

/* ensure: for_agent: a session that belongs to no agent is registered again as this agent's. */
static bool ensure(struct cli *cli, bool for_agent)
{
    const char *path = cli_path(cli, "/api/sessions/", cli->session, "");

    if (!cli_call(cli, &(struct client_request){.method = "GET", .path = path}))
        return false;
    const json_t *session = json_object_get(cli->answer.json, "session");
    bool lives = cli->answer.status == DIBS_OK && !str_eq(get_text(session, "status"), "ended");
    if (lives && (!for_agent || get_text(session, "agentId") != NULL))
        return true;
    if (cli->answer.status != DIBS_SESSION_NOT_FOUND && !succeeded(cli))
        return false;
    if (for_agent && !agent_is_known(cli))
        return false;
    return register_it(cli) && succeeded(cli);
}

bool cli_ensure_session(struct cli *cli)
{
    return ensure(cli, false);
}

bool cli_ensure_agent_session(struct cli *cli)
{
    return cli_session(cli) != NULL && cli_open(cli) && ensure(cli, true);
}
