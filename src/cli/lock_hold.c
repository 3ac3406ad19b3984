/* SPDX-License-Identifier: MIT */
/*
 * lock_hold.c: dibs lock RESOURCE -- CMD: a lock that lives as long as a command.
 *
 *     take the lock -> start CMD -> renew at a third of the lease, until CMD ends -> release
 *                                    `-> lost: SIGTERM, 5 s later SIGKILL, exit 5
 *
 *   1. CMD never runs without the lock: when the lease could not be renewed in time, for whatever
 *      reason, the lock counts as lost at its deadline, measured from before the last renewal was
 *      asked for.
 *   2. Signals are blocked and waited for, so there is no handler and no race between a signal
 *      and a wait.
 *   3. The holder is a session of this process. If this process is killed, the store sees that it
 *      is dead and frees the lock, and the kernel sends CMD a SIGTERM.
 */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

#include "base/str.h"

#define GRACE_MS 5000
#define RETRY_MS 500 /* between attempts to renew while the store cannot be used */
#define NOT_EXECUTABLE 126
#define NO_SUCH_COMMAND 127

struct hold {
    struct cli *cli;
    const char *resource;
    json_t *ref; /* {resource, sessionId, token}: names the lock in later requests */
    int64_t token, ttl_ms;
    int64_t renew_at_ms, deadline_ms, kill_at_ms; /* by the steady clock; kill_at 0: not doomed */
    pid_t child;
    bool own_session, lost;
};

static int64_t steady_ms(void)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- taking and giving back ------------------------------------------------------------------ */

/* own_session: names and registers a session of this process. */
static bool own_session(struct hold *h)
{
    struct cli *cli = h->cli;
    const char *parent = cli_session(cli);
    json_t *body = NULL;
    bool asked = false;

    if (parent == NULL)
        return false;
    cli->session = must_printf(cli->arena, "%.100s.lock-%ld", parent, (long)getpid());
    body = must_json(json_object());
    must_set(body, "id", must_json(json_string(cli->session)));
    must_set(body, "agentType", must_json(json_string("cli")));
    cli_set_process(cli, body, getpid());
    if (cli->project != NULL)
        must_set(body, "project", must_json(json_string(cli->project)));
    asked = cli_call(
        cli, &(struct client_request){.method = "POST", .path = "/api/sessions", .body = body});
    json_decref(body);
    h->own_session = asked && cli->answer.status == DIBS_OK;
    if (asked && !h->own_session)
        cli->exit = cli_refusal(cli);
    return h->own_session;
}

/* quietly: a request whose answer decides nothing. */
static dibs_status quietly(struct hold *h, const char *method, const char *path, json_t *body,
                           struct dibs_error *err)
{
    struct client_answer answer = {0};
    const char *message = NULL;
    dibs_status status = client_call(
        h->cli->client, &(struct client_request){.method = method, .path = path, .body = body},
        &answer, err);

    if (status == DIBS_OK && answer.status != DIBS_OK) {
        message = get_text(answer.json, "message");
        status = error_set(err, answer.status, "%s",
                           message != NULL ? message : dibs_status_sentence(answer.status));
    }
    client_answer_release(&answer);
    return status;
}

static void end_session(struct hold *h)
{
    struct dibs_error ignored = {0};

    /* should this fail, the store ends the session when it sees that its process is gone */
    if (h->own_session)
        quietly(h, "DELETE", cli_path(h->cli, "/api/sessions/", h->cli->session, ""), NULL,
                &ignored);
}

/* take: the lock, or a refusal that has been shown. */
static bool take(struct hold *h)
{
    struct cli *cli = h->cli;
    json_t *body = cli_body(cli);
    const json_t *lock = NULL;
    int64_t asked_at_ms = 0;
    bool asked = false;

    must_set(body, "resource", must_json(json_string(h->resource)));
    must_set(body, "sessionId", must_json(json_string(cli->session)));
    if (args_has(&cli->args, "shared"))
        must_set(body, "mode", must_json(json_string("shared")));
    if (!h->own_session)
        asked = cli_ensure_session(cli);
    if (h->own_session || asked)
        asked = cli_call(
            cli, &(struct client_request){.method = "POST", .path = "/api/locks", .body = body});
    json_decref(body);
    if (!asked)
        return false;
    if (cli->answer.status != DIBS_OK) {
        cli->exit = cli_refusal(cli);
        return false;
    }
    lock = json_object_get(cli->answer.json, "lock");
    h->token = get_int(lock, "token");
    h->ttl_ms = get_int(lock, "ttlMs");
    asked_at_ms = steady_ms() - (h->ttl_ms - get_int(lock, "remainingMs"));
    h->deadline_ms = asked_at_ms + h->ttl_ms;
    h->renew_at_ms = asked_at_ms + h->ttl_ms / 3;
    if (!json_is_true(json_object_get(lock, "extended")))
        return true;
    /* two holders in one session would release the lock under each other */
    struct dibs_error err = {0};
    error_set(&err, DIBS_LOCK_HELD, "session '%s' holds '%s' already; release it first",
              cli->session, h->resource);
    cli->exit = cli_error(cli, &err);
    return false;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* run_child: in the child: becomes the command. */
static _Noreturn void run_child(const struct hold *h, const sigset_t *mask, pid_t parent)
{
    char **program = h->cli->args.program;
    char token[32] = "";

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(128 + SIGTERM);
    snprintf(token, sizeof token, "%" PRId64, h->token);
    setenv("DIBS_LOCK_RESOURCE", h->resource, 1);
    setenv("DIBS_LOCK_TOKEN", token, 1);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(program[0], program);
    int why = errno;
    cli_complain("cannot run '%s': %s", program[0], strerror(why));
    _exit(why == ENOENT ? NO_SUCH_COMMAND : NOT_EXECUTABLE);
}

/* doom: the lock is lost, CMD must go. */
static void doom(struct hold *h, const char *why)
{
    if (h->lost)
        return;
    h->lost = true;
    h->kill_at_ms = steady_ms() + GRACE_MS;
    cli_complain("the lock '%s' was lost, stopping '%s': %s", h->resource, h->cli->args.program[0],
                 why);
    kill(h->child, SIGTERM);
}

static void renew(struct hold *h)
{
    struct dibs_error err = {0};
    int64_t asked_at_ms = steady_ms();
    dibs_status status = quietly(h, "POST", "/api/locks/heartbeat", h->ref, &err);

    if (status == DIBS_OK) {
        h->deadline_ms = asked_at_ms + h->ttl_ms;
        h->renew_at_ms = asked_at_ms + h->ttl_ms / 3;
    } else if (!dibs_status_is_failure(status)) {
        doom(h, err.message);
    } else if (steady_ms() >= h->deadline_ms) {
        doom(h, err.message);
    } else {
        h->renew_at_ms = steady_ms() + RETRY_MS;
        if (h->renew_at_ms > h->deadline_ms)
            h->renew_at_ms = h->deadline_ms;
    }
}

/* on_time: does what is due. */
static void on_time(struct hold *h)
{
    int64_t now_ms = steady_ms();

    if (h->lost && now_ms >= h->kill_at_ms) {
        kill(h->child, SIGKILL);
        h->kill_at_ms = INT64_MAX;
    } else if (!h->lost && now_ms >= h->renew_at_ms) {
        renew(h);
    }
}

/* wait_for_child: until CMD has ended; returns its wait status. */
static int wait_for_child(struct hold *h, const sigset_t *signals)
{
    int status = 0;

    for (;;) {
        int64_t due_ms = h->lost ? h->kill_at_ms : h->renew_at_ms;
        int64_t rest_ms = due_ms - steady_ms();
        siginfo_t info = {0};
        if (rest_ms < 0)
            rest_ms = 0;
        if (rest_ms > GRACE_MS)
            rest_ms = GRACE_MS;
        struct timespec timeout = {.tv_sec = (time_t)(rest_ms / 1000),
                                   .tv_nsec = (long)(rest_ms % 1000) * 1000000};
        int sig = sigtimedwait(signals, &info, &timeout);
        if (waitpid(h->child, &status, WNOHANG) == h->child)
            return status;
        /* what the terminal sends reaches CMD by itself: it is in the same process group */
        if (sig > 0 && sig != SIGCHLD && info.si_code != SI_KERNEL)
            kill(h->child, sig);
        on_time(h);
    }
}

/* run_command: from fork to the exit code. */
static int run_command(struct hold *h)
{
    static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    sigset_t signals, before;
    pid_t self = getpid();
    int status = 0;

    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    for (size_t i = 0; i < COUNT_OF(forwarded); i++)
        sigaddset(&signals, forwarded[i]);
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &signals, &before);
    fflush(stdout);
    h->child = fork();
    if (h->child == 0)
        run_child(h, &before, self);
    if (h->child < 0) {
        cli_complain("cannot start '%s': %s", h->cli->args.program[0], strerror(errno));
        return NOT_EXECUTABLE;
    }
    status = wait_for_child(h, &signals);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* give_back: releases the lock; one that is gone by now was lost while CMD still ran. */
static void give_back(struct hold *h)
{
    struct dibs_error err = {0};

    if (!h->lost && quietly(h, "DELETE", "/api/locks", h->ref, &err) != DIBS_OK) {
        h->lost = !dibs_status_is_failure(err.code);
        cli_complain(h->lost ? "the command has ended, but it lost the lock '%s' before: %s"
                             : "cannot release '%s': %s",
                     h->resource, err.message);
    }
    end_session(h);
}

int lock_hold(struct cli *cli)
{
    struct hold h = {.cli = cli, .resource = cli->args.words[0]};
    int code = 0;

    if (cli->args.program_count == 0)
        return cli_usage(cli,
                         "no command to run; usage: dibs lock RESOURCE -- CMD, or dibs lock take "
                         "RESOURCE");
    if (cli_session(cli) == NULL || !cli_open(cli))
        return cli->exit;
    if (!args_has(&cli->args, "session") && !own_session(&h))
        return cli->exit;
    if (!take(&h)) {
        end_session(&h);
        return cli->exit;
    }
    h.ref = must_json(json_object());
    must_set(h.ref, "resource", must_json(json_string(h.resource)));
    must_set(h.ref, "sessionId", must_json(json_string(cli->session)));
    must_set(h.ref, "token", must_json(json_integer(h.token)));
    code = run_command(&h);
    give_back(&h);
    json_decref(h.ref);
    return h.lost ? dibs_status_exit(DIBS_LOCK_NOT_HELD) : code;
}
