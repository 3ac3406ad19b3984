/* SPDX-License-Identifier: MIT */
/*
 * runner.c: the loop: what happens next.
 *
 *     signals, ends of processes, streams, answers, time --> turn(): ask? heartbeat? over?
 *
 * Everything is decided in this one thread. After each event turn() looks at what is due, does it,
 * and sets the timer to what is due next.
 *
 *   1. Work is asked for while there is a free slot and at no other time; one request at a time.
 *   2. The first signal drains: nothing new, what runs may end. The second one stops the commands
 *      and gives their work back, for LEAVE_MS at most after the grace.
 *   3. Every process that is left to us is reaped, also those that commands leave behind: this
 *      process is their reaper.
 *   4. The session is that of this process. If it is killed, the store sees it, and everything is
 *      free again.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner_private.h"

#include "base/str.h"

#define TELL_PATIENCE_MS 10000
#define LEAVE_MS 5000 /* for the last reports, after a second signal */

const char *json_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

int64_t json_int(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* ---- news ------------------------------------------------------------------------------------ */

void runner_news(struct runner *r, const char *event, const struct job *j, json_t *more,
                 bool trouble, const char *format, ...)
{
    json_t *news = need_json(json_object());
    char line[2048] = "";
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    need_text(news, "event", event);
    if (j != NULL) {
        need_text(news, "trigger", j->trigger);
        need_text(news, "taskId", j->task_id);
        need_int(news, "token", j->token);
    }
    if (more != NULL)
        json_object_update(news, more);
    json_decref(more);
    /* what was cut in the middle of a character is no text for JSON */
    line[str_utf8_run(line, strlen(line))] = '\0';
    need_text(news, "message", line);
    r->in->news(r->in->context, news, line, trouble);
    json_decref(news);
}

void runner_heard(struct runner *r, const struct call *c)
{
    bool failed = call_failed(c);

    if (failed && r->draining && c->status != DIBS_OK && c->job == NULL && !c->urgent)
        return; /* a request for work that we gave up ourselves */
    if (failed) {
        r->pause_ms = r->pause_ms == 0 ? PAUSE_FIRST_MS : r->pause_ms * 2;
        r->pause_ms = r->pause_ms < PAUSE_LAST_MS ? r->pause_ms : PAUSE_LAST_MS;
    }
    if (failed && !r->away)
        runner_news(r, "away", NULL, NULL, true, "%s; trying again, what runs goes on",
                    call_message(c));
    else if (!failed && r->away)
        runner_news(r, "back", NULL, NULL, true, "dibs can be reached again");
    r->away = failed;
    if (!failed)
        r->pause_ms = 0;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

size_t runner_slots_used(const struct runner *r)
{
    size_t used = 0;

    for (const struct job *j = r->jobs; j != NULL; j = j->next)
        used += j->state != JOB_OVER && !(j->late && j->state == JOB_REPORTING);
    return used;
}

/* bury: frees the jobs that are over. */
static void bury(struct runner *r)
{
    struct job **at = &r->jobs;

    while (*at != NULL) {
        struct job *j = *at;
        if (j->state == JOB_OVER && j->open_handles > 0)
            job_close_streams(j);
        if (j->state == JOB_OVER && j->open_handles == 0 && j->calls == 0) {
            *at = j->next;
            job_free(j);
        } else {
            at = &j->next;
        }
    }
}

void runner_drain(struct runner *r)
{
    r->draining = true;
    atomic_store(&r->ask.given_up, true);
}

void runner_break(struct runner *r, dibs_status status, const char *text)
{
    if (r->broken_text[0] == '\0') {
        r->broken = status;
        str_fit(r->broken_text, sizeof r->broken_text, text);
    }
    runner_drain(r);
}

void runner_tell(struct runner *r, struct call *c)
{
    line_post(&r->tell, c);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void close_all(struct runner *r)
{
    if (!uv_is_closing((uv_handle_t *)&r->timer))
        uv_close((uv_handle_t *)&r->timer, NULL);
    for (size_t i = 0; i < COUNT_OF(r->signals); i++)
        if (!uv_is_closing((uv_handle_t *)&r->signals[i]))
            uv_close((uv_handle_t *)&r->signals[i], NULL);
    if (!uv_is_closing((uv_handle_t *)&r->returns.async))
        uv_close((uv_handle_t *)&r->returns.async, NULL);
}

static void on_deregistered(struct runner *r, struct call *c)
{
    (void)c; /* should it have failed, the store sees that our process is gone */
    close_all(r);
}

/* end: nothing is left to do but to say goodbye. */
static void end(struct runner *r)
{
    struct buf path;
    struct call *c = NULL;

    r->ending = true;
    if (r->away) {
        close_all(r);
        return;
    }
    buf_init(&path, BODY_BYTES_MAX);
    buf_text(&path, "/api/sessions/");
    client_encode(&path, r->session);
    /* behind whatever is on its way: a heartbeat after the end would bring the session back */
    c = call_new("DELETE", need_detach(&path), NULL, on_deregistered);
    runner_tell(r, c);
}

/* ---- what is due ----------------------------------------------------------------------------- */

static bool may_ask(const struct runner *r, int64_t at)
{
    return !r->asking && !r->unsure && !r->draining && r->known && at >= r->ask_at_ms &&
           (int64_t)runner_slots_used(r) < r->in->max;
}

/* due_ms: when turn() has something to do at the latest. */
static int64_t due_ms(const struct runner *r, int64_t at)
{
    int64_t due = beat_due_ms(r);

    for (const struct job *j = r->jobs; j != NULL; j = j->next)
        due = job_due_ms(j) < due ? job_due_ms(j) : due;
    if (!r->asking && !r->draining && r->ask_at_ms > at && r->ask_at_ms < due)
        due = r->ask_at_ms;
    if (r->leaving && r->leave_at_ms > at && r->leave_at_ms < due)
        due = r->leave_at_ms;
    return due;
}

/* is_over: nothing runs, and nothing is on its way. */
static bool is_over(const struct runner *r)
{
    return r->draining && r->jobs == NULL && !r->asking;
}

static void turn(struct runner *r);

static void on_timer(uv_timer_t *timer)
{
    turn(timer->data);
}

static void turn(struct runner *r)
{
    int64_t at = now_ms(), due = 0;
    struct job *next = NULL;

    if (r->ending) {
        bury(r);
        return;
    }
    for (struct job *j = r->jobs; j != NULL; j = next) {
        next = j->next;
        job_on_time(j, at);
    }
    bury(r);
    if (is_over(r)) {
        end(r);
        return;
    }
    beat_on_time(r, at);
    if (may_ask(r, at))
        take_ask(r);
    due = due_ms(r, at);
    at = now_ms();
    if (due != INT64_MAX)
        uv_timer_start(&r->timer, on_timer, due > at ? (uint64_t)(due - at) : 1, 0);
    else
        uv_timer_stop(&r->timer);
}

/* after: once per round of the loop, behind all its events. */
static void after(uv_check_t *check)
{
    turn(check->data);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void on_answers(uv_async_t *async)
{
    struct runner *r = async->data;
    struct call *next = NULL, *c = NULL;

    pthread_mutex_lock(&r->returns.mutex);
    c = r->returns.first;
    r->returns.first = r->returns.last = NULL;
    pthread_mutex_unlock(&r->returns.mutex);
    for (; c != NULL; c = next) {
        next = c->next;
        c->done(r, c);
        call_free(c);
    }
}

/* start_keeper: it is not worth much to go without one, but more than not to go at all. */
static void start_keeper(struct runner *r)
{
    if (!keeper_start(&r->keeper))
        runner_news(r, "keeper", NULL, NULL, true,
                    "no keeper could be started: what commands start may outlive a killed runner");
}

/* replace_keeper: somebody has killed it; the next one learns of the groups that are there. */
static void replace_keeper(struct runner *r)
{
    r->keeper.pid = 0;
    keeper_end(&r->keeper);
    start_keeper(r);
    for (const struct job *j = r->jobs; j != NULL; j = j->next)
        if (j->pid > 0 && !j->group_gone)
            keeper_add(r->keeper.fd, j->pid);
}

/* reap: everybody who has died, ours or left to us. */
static void reap(struct runner *r)
{
    int status = 0;
    pid_t pid = 0;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == r->keeper.pid)
            replace_keeper(r);
        for (struct job *j = r->jobs; j != NULL; j = j->next)
            if (j->state == JOB_RUNNING && j->pid == pid)
                job_reaped(j, status);
    }
    for (struct job *j = r->jobs; j != NULL; j = j->next)
        job_check_group(j);
}

static void first_signal(struct runner *r)
{
    size_t used = runner_slots_used(r);

    runner_drain(r);
    if (used > 0)
        runner_news(r, "draining", NULL, NULL, false,
                    "taking nothing new; %zu still running (once more to stop them)", used);
}

static void second_signal(struct runner *r)
{
    r->leaving = true;
    r->leave_at_ms = now_ms() + r->in->grace_ms + LEAVE_MS;
    for (struct job *j = r->jobs; j != NULL; j = j->next)
        job_stop(j, STOP_LEAVING, "the runner was stopped");
}

static void on_signal(uv_signal_t *signal, int number)
{
    struct runner *r = signal->data;

    if (number == SIGCHLD) {
        reap(r);
        return;
    }
    r->last_signal = number;
    r->signal_count++;
    if (r->signal_count == 1)
        first_signal(r);
    else if (r->signal_count == 2)
        second_signal(r);
}

/* is_ignored: whoever started us did not want this signal to reach us (nohup). */
static bool is_ignored(int number)
{
    struct sigaction now = {0};

    return sigaction(number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
           now.sa_handler == SIG_IGN;
}

static bool open_loop(struct runner *r)
{
    static const int numbers[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP};
    bool ok = uv_loop_init(&r->loop) == 0;

    if (!ok)
        return false;
    r->loop_open = true;
    pthread_mutex_init(&r->returns.mutex, NULL);
    uv_timer_init(&r->loop, &r->timer);
    r->timer.data = r;
    ok = uv_async_init(&r->loop, &r->returns.async, on_answers) == 0;
    r->returns.async.data = r;
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        uv_signal_init(&r->loop, &r->signals[i]);
        r->signals[i].data = r;
        if (numbers[i] != SIGHUP || !is_ignored(SIGHUP))
            ok = ok && uv_signal_start(&r->signals[i], on_signal, numbers[i]) == 0;
    }
    return ok;
}

/* ---- beginning ------------------------------------------------------------------------------- */

/* name_session: "run-host-991-1a2b3c": of this process and of no other, ever. */
static void name_session(struct runner *r)
{
    char host[64] = "";

    if (r->in->session != NULL) {
        str_fit(r->session, sizeof r->session, r->in->session);
        return;
    }
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        str_fit(host, sizeof host, "localhost");
    host[strcspn(host, ".")] = '\0';
    for (char *c = host; *c != '\0'; c++) {
        const char one[2] = {*c, '\0'};
        *c = str_is_id(one) ? *c : '_';
    }
    snprintf(r->session, sizeof r->session, "run-%s-%ld-%" PRIx64, host, (long)getpid(),
             (uint64_t)dibs_platform_real()->wall_ms(NULL));
}

/* find_places: where the data and the logs are, as paths that hold in any folder. */
static void find_places(struct runner *r)
{
    const char *dir = client_data_dir(r->tell.client), *home = getenv("HOME");
    char full[PATH_MAX] = "";
    struct buf b;

    if (dir != NULL)
        r->data_dir = need_copy(realpath(dir, full) != NULL ? full : dir);
    buf_init(&b, BODY_BYTES_MAX);
    if (r->in->log_dir != NULL)
        buf_text(&b, r->in->log_dir);
    else if (r->data_dir != NULL)
        buf_printf(&b, "%s/logs", r->data_dir);
    else if (home != NULL && home[0] == '/')
        buf_printf(&b, "%s/.local/state/dibs/logs", home);
    else
        buf_text(&b, "dibs-logs");
    r->log_dir = need_detach(&b);
}

static dibs_status begin(struct runner *r, struct dibs_error *err)
{
    struct client_options tell = r->in->client;
    dibs_status status = DIBS_OK;

    tell.patience_ms = TELL_PATIENCE_MS;
    name_session(r);
    start_keeper(r);
    status = line_open(&r->tell, r, &tell, err);
    if (status == DIBS_OK)
        status = line_open(&r->ask, r, &r->in->client, err);
    if (status != DIBS_OK)
        return status;
    find_places(r);
    status = session_open(r, err);
    if (status != DIBS_OK)
        return status;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!open_loop(r))
        return error_set(err, DIBS_OUT_OF_MEMORY, "cannot start the loop");
    status = line_start(&r->tell, err);
    if (status == DIBS_OK)
        status = line_start(&r->ask, err);
    return status;
}

/* tidy_up: whatever has been begun. */
static void tidy_up(struct runner *r)
{
    struct call *next = NULL;

    line_close(&r->ask);
    line_close(&r->tell);
    for (struct call *c = r->returns.first; c != NULL; c = next) {
        next = c->next;
        call_free(c);
    }
    while (r->jobs != NULL) {
        struct job *j = r->jobs;
        r->jobs = j->next;
        job_free(j);
    }
    if (r->loop_open) {
        close_all(r);
        uv_run(&r->loop, UV_RUN_DEFAULT);
        uv_loop_close(&r->loop);
        pthread_mutex_destroy(&r->returns.mutex);
    }
    keeper_end(&r->keeper);
    json_decref(r->strays);
    mem_free(r->data_dir);
    mem_free(r->log_dir);
}

static int exit_code_of(const struct runner *r)
{
    if (r->broken_exit != 0)
        return r->broken_exit;
    if (r->leaving)
        return 128 + r->last_signal;
    return (r->in->once || r->in->drain_when_empty) && r->failures > 0 ? 1 : 0;
}

static void tell_ready(struct runner *r)
{
    json_t *more = need_json(json_object());
    char agent[ID_BYTES_MAX + 40] = "";

    need_text(more, "sessionId", r->session);
    if (r->agent_id[0] != '\0') {
        need_text(more, "agentId", r->agent_id);
        snprintf(agent, sizeof agent, ", agent %s%s", r->agent_id,
                 r->in->agent_from_env ? " (DIBS_AGENT)" : "");
    }
    runner_news(r, "ready", NULL, more, false,
                "waiting for work as %s%s, up to %" PRId64 " at once", r->session, agent,
                r->in->max);
}

dibs_status runner_run(const struct runner_options *in, int *exit_code, struct dibs_error *err)
{
    struct runner *r = need_alloc(sizeof *r);
    uv_check_t check = {0};
    dibs_status status = DIBS_OK;

    r->in = in;
    r->keeper.fd = -1;
    status = begin(r, err);
    if (status == DIBS_OK) {
        uv_check_init(&r->loop, &check);
        check.data = r;
        uv_check_start(&check, after);
        uv_unref((uv_handle_t *)&check);
        tell_ready(r);
        turn(r);
        uv_run(&r->loop, UV_RUN_DEFAULT);
        uv_close((uv_handle_t *)&check, NULL);
        *exit_code = exit_code_of(r);
        if (r->broken != DIBS_OK)
            status = error_set(err, r->broken, "%s", r->broken_text);
    }
    tidy_up(r);
    mem_free(r);
    return status;
}
