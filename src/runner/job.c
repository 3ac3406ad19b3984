/* SPDX-License-Identifier: MIT */
/*
 * job.c: one piece of work and the command that does it.
 *
 *     FETCHING --> RUNNING --> LEAVING --> REPORTING --> OVER
 *                     |           ^
 *                     `- stop: SIGTERM to the group, after the grace SIGKILL
 *
 *   1. The outcome is what the command itself ended with. What it leaves behind in its process
 *      group is ended before the outcome is reported: SIGTERM, after the grace SIGKILL.
 *   2. Streams are read to their end, unless something outside of the group holds them open.
 *   3. A command runs only as long as its claim may stand: when the lease has not been renewed for
 *      as long as it is, for whatever reason, the claim counts as lost.
 *   4. A job is freed when its handles are closed and no call about it is on its way.
 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner_private.h"

#include "base/str.h"

#define READ_BYTES (64 * 1024)
#define HELD_OPEN_MS 500 /* streams after the last of the group has gone */
#define KILLED_MS 1000   /* a killed group is waited for so long */
#define PROGRESS_EVERY_MS 300
#define NOT_EXECUTABLE 126
#define NO_SUCH_COMMAND 127

struct job *job_new(struct runner *r, enum job_kind kind, const char *trigger)
{
    struct job *j = need_alloc(sizeof *j);
    struct job **at = &r->jobs;

    *j = (struct job){.runner = r, .kind = kind, .trigger = need_copy(trigger)};
    j->number = ++r->jobs_made;
    j->tokens = need_json(json_array());
    j->capture.log_fd = -1;
    j->granted_ms = j->renewed_ms = now_ms();
    progress_init(&j->progress);
    while (*at != NULL)
        at = &(*at)->next;
    *at = j;
    return j;
}

void job_free(struct job *j)
{
    json_decref(j->json);
    json_decref(j->tokens);
    mem_free(j->trigger);
    mem_free(j->task_id);
    capture_release(&j->capture);
    progress_release(&j->progress);
    for (size_t i = 0; i < j->step_count; i++) {
        mem_free(j->steps[i].path);
        json_decref(j->steps[i].body);
    }
    mem_free(j->steps);
    mem_free(j);
}

const char *job_name(const struct job *j)
{
    return j->task_id != NULL ? j->task_id : j->trigger;
}

const json_t *job_checkpoint(const struct job *j)
{
    const json_t *claim = json_object_get(j->json, "claim");

    return json_object_get(claim != NULL ? claim : json_object_get(j->task, "claim"), "checkpoint");
}

bool job_lease_over(const struct job *j, int64_t at_ms)
{
    return j->ttl_ms > 0 && at_ms - j->renewed_ms > j->ttl_ms;
}

/* ---- its streams ----------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct job *j = handle->data;

    j->open_handles--;
}

/* leave: the command and its group are gone and its streams read: the outcome is final. */
static void leave(struct job *j)
{
    if (j->state != JOB_LEAVING || !j->group_gone || j->open_streams > 0)
        return;
    j->kill_at_ms = j->close_at_ms = 0;
    report_begin(j);
}

static void end_stream(struct job *j, uv_pipe_t *pipe)
{
    if (uv_is_closing((uv_handle_t *)pipe))
        return;
    uv_close((uv_handle_t *)pipe, on_closed);
    j->open_streams--;
    leave(j);
}

void job_close_streams(struct job *j)
{
    for (int i = 0; i < STREAMS && j->open_handles > 0; i++)
        end_stream(j, &j->pipes[i]);
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *out)
{
    static char room[READ_BYTES]; /* one read at a time, and it is used up at once */

    (void)handle, (void)wanted;
    *out = uv_buf_init(room, sizeof room);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes)
{
    struct job *j = stream->data;
    uv_pipe_t *pipe = (uv_pipe_t *)stream;

    if (count < 0) {
        end_stream(j, pipe);
    } else if (pipe == &j->pipes[STREAM_OUT]) {
        capture_out(&j->capture, bytes->base, (size_t)count);
    } else if (pipe == &j->pipes[STREAM_ERR]) {
        capture_err(&j->capture, bytes->base, (size_t)count);
    } else {
        progress_feed(&j->progress, bytes->base, (size_t)count);
        if (j->progress.oversize)
            runner_news(j->runner, "progress", j, NULL, true,
                        "%s: a checkpoint is larger than %d bytes and was left out", job_name(j),
                        JSON_VALUE_BYTES_MAX);
        j->progress.oversize = false;
        if (j->progress.fresh && j->progress_at_ms == 0)
            j->progress_at_ms = now_ms();
    }
}

static void open_streams(struct job *j, const int fds[STREAMS])
{
    for (int i = 0; i < STREAMS; i++) {
        uv_pipe_init(&j->runner->loop, &j->pipes[i], 0);
        j->pipes[i].data = j;
        j->open_handles++;
        j->open_streams++;
        if (uv_pipe_open(&j->pipes[i], fds[i]) != 0 ||
            uv_read_start((uv_stream_t *)&j->pipes[i], on_room, on_read) != 0)
            end_stream(j, &j->pipes[i]);
    }
}

/* ---- starting -------------------------------------------------------------------------------- */

/* log_name: "7-42.log"; ids have no slash. */
static void open_log(struct job *j)
{
    struct dibs_error why = {0};
    char name[ID_BYTES_MAX + 40] = "";

    snprintf(name, sizeof name, "%s-%" PRId64 ".log", job_name(j), j->token);
    if (!capture_open(&j->capture, j->runner->log_dir, name, &why))
        runner_news(j->runner, "log", j, NULL, true, "%s: no log: %s", job_name(j), why.message);
}

/* words_of: the command with the prompt in it; *with_prompt tells whether it is. To be freed, but
 * not what it points to. */
static char **words_of(const struct runner *r, char *prompt, bool *with_prompt)
{
    static char shell[] = "/bin/sh", dash_c[] = "-c";
    size_t count = 0, at = 0;
    char **words = NULL;

    while (r->in->program[count] != NULL)
        count++;
    words = need_alloc((count + 3) * sizeof *words);
    if (r->in->shell) {
        words[at++] = shell;
        words[at++] = dash_c;
    }
    for (size_t i = 0; i < count; i++) {
        bool hole = !r->in->shell && prompt != NULL && str_eq(r->in->program[i], "{{prompt}}");
        words[at++] = hole ? prompt : r->in->program[i];
        *with_prompt = *with_prompt || hole;
    }
    return words;
}

/* cannot_start: the work is not to blame, unless it is too long for a command line. */
static void cannot_start(struct job *j, int why)
{
    struct runner *r = j->runner;
    const char *program = r->in->shell ? "/bin/sh" : r->in->program[0];
    bool passing = why == EAGAIN || why == ENOMEM || why == EMFILE || why == ENFILE;

    runner_news(r, "start_failed", j, NULL, true, "%s: cannot run '%s': %s", job_name(j), program,
                strerror(why));
    if (why == E2BIG) {
        snprintf(j->reason, sizeof j->reason, "cannot run '%.200s': %s", program, strerror(why));
        j->wait_status = W_EXITCODE(NOT_EXECUTABLE, 0);
        j->group_gone = true;
        j->state = JOB_LEAVING;
        leave(j);
        return;
    }
    if (passing)
        r->ask_at_ms = now_ms() + PAUSE_LAST_MS;
    report_give_back(j, "cannot_start");
    if (!passing) {
        runner_break(r, DIBS_OK, "the command cannot be run");
        r->broken_exit = why == ENOENT ? NO_SUCH_COMMAND : NOT_EXECUTABLE;
    }
}

static void tell_started(struct job *j)
{
    const char *title = json_text(j->task, "title");
    json_t *more = need_json(json_object());

    need_int(more, "pid", j->pid);
    need_text(more, "log", j->capture.log_path);
    if (title != NULL)
        runner_news(j->runner, "started", j, more, false,
                    "%s '%s': started as process %d (attempt %" PRId64 ")", job_name(j), title,
                    (int)j->pid, j->attempt);
    else
        runner_news(j->runner, "started", j, more, false, "%s: started as process %d", job_name(j),
                    (int)j->pid);
}

void job_start(struct job *j)
{
    struct runner *r = j->runner;
    struct spawn s = {.keeper_fd = r->keeper.fd};
    char *prompt = r->in->prompt != NULL ? prompt_fill(r, j) : NULL;
    bool with_prompt = false;
    struct buf input;
    int why = 0;

    buf_init(&input, ANSWER_BYTES_MAX);
    s.argv = words_of(r, prompt, &with_prompt);
    s.envp = environment_of(r, j);
    if (prompt != NULL && !with_prompt) {
        buf_text(&input, prompt);
    } else {
        need_dump(&input, j->json);
        buf_char(&input, '\n');
    }
    s.input = input.data;
    s.input_bytes = input.len;
    open_log(j);
    why = buf_ok(&input) && (r->in->prompt == NULL || prompt != NULL) ? spawn(&s) : E2BIG;
    if (why == 0) {
        j->pid = s.pid;
        j->state = JOB_RUNNING;
        j->started_ms = now_ms();
        j->limit_at_ms = r->in->time_limit_ms > 0 ? j->started_ms + r->in->time_limit_ms : 0;
        open_streams(j, s.streams);
        tell_started(j);
    } else {
        cannot_start(j, why);
    }
    buf_release(&input);
    environment_free(s.envp);
    mem_free(s.argv);
    mem_free(prompt);
}

/* ---- what the task says ---------------------------------------------------------------------- */

bool job_learn(struct job *j, json_t *task)
{
    const json_t *claim = json_object_get(task, "claim");

    if (task == NULL || json_int(claim, "token") != j->token)
        return false;
    j->json = json_incref(task);
    j->task = j->json;
    j->ttl_ms = json_int(claim, "ttlMs");
    j->attempt = json_int(claim, "attempt");
    return true;
}

static void on_fetched(struct runner *r, struct call *c)
{
    struct job *j = c->job;

    j->calls--;
    runner_heard(r, c);
    if (j->state != JOB_FETCHING)
        return;
    if (call_failed(c) && !job_lease_over(j, now_ms()) && !r->leaving) {
        j->pause_ms = j->pause_ms == 0 ? PAUSE_FIRST_MS : j->pause_ms * 2;
        j->pause_ms = j->pause_ms < PAUSE_LAST_MS ? j->pause_ms : PAUSE_LAST_MS;
        j->retry_at_ms = now_ms() + j->pause_ms;
        return;
    }
    j->pause_ms = 0;
    if (job_learn(j, json_object_get(c->answer.json, "task")))
        job_start(j);
    else
        report_give_back(j, "lost");
}

void job_fetch(struct job *j)
{
    struct buf path;
    struct call *c = NULL;

    buf_init(&path, BODY_BYTES_MAX);
    buf_text(&path, "/api/tasks/");
    client_encode(&path, j->task_id);
    c = call_new("GET", need_detach(&path), NULL, on_fetched);
    c->job = j;
    c->urgent = true;
    j->state = JOB_FETCHING;
    j->retry_at_ms = 0;
    j->calls++;
    runner_tell(j->runner, c);
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* group_lives: whether anything of the group is left. */
static bool group_lives(const struct job *j)
{
    return kill(-j->pid, 0) == 0 || errno == EPERM;
}

static void send_group(const struct job *j, int sig)
{
    kill(-j->pid, sig);
    if (sig != SIGKILL)
        kill(-j->pid, SIGCONT); /* one that is stopped would never hear of it */
}

/* gone: nothing of the group is left, or nothing that could be ended. */
static void gone(struct job *j)
{
    keeper_forget(&j->runner->keeper, j->pid);
    j->group_gone = true;
    j->kill_at_ms = 0;
    j->close_at_ms = now_ms() + HELD_OPEN_MS;
    leave(j);
}

void job_check_group(struct job *j)
{
    if (j->state == JOB_LEAVING && !j->group_gone && !group_lives(j))
        gone(j);
}

void job_reaped(struct job *j, int wait_status)
{
    j->wait_status = wait_status;
    j->ended_ms = now_ms();
    j->limit_at_ms = 0;
    j->state = JOB_LEAVING;
    if (group_lives(j)) {
        if (j->kill_at_ms == 0 && !j->killed) {
            send_group(j, SIGTERM);
            j->kill_at_ms = j->ended_ms + j->runner->in->grace_ms;
        }
        if (j->killed)
            j->close_at_ms = j->ended_ms + KILLED_MS;
    } else {
        gone(j);
    }
}

void job_stop(struct job *j, enum job_stop why, const char *reason)
{
    if (j->state == JOB_FETCHING && why == STOP_LEAVING) {
        report_give_back(j, "runner_stopped");
        return;
    }
    if (j->state != JOB_RUNNING || j->stop != STOP_NONE)
        return;
    j->stop = why;
    str_fit(j->stop_reason, sizeof j->stop_reason, reason);
    j->kill_at_ms = now_ms() + j->runner->in->grace_ms;
    runner_news(j->runner, "stopping", j, NULL, why != STOP_LEAVING, "%s: stopping it: %s",
                job_name(j), reason);
    send_group(j, SIGTERM);
}

/* ---- time ------------------------------------------------------------------------------------ */

static bool is_due(int64_t at_ms, int64_t at)
{
    return at_ms > 0 && at >= at_ms;
}

static void limit_reached(struct job *j)
{
    char span[32] = "", text[64] = "";

    str_from_duration_ms(j->runner->in->time_limit_ms, span);
    snprintf(text, sizeof text, "time limit of %s", span);
    job_stop(j, STOP_TIME, text);
}

static void kill_group(struct job *j, int64_t at)
{
    send_group(j, SIGKILL);
    j->killed = true;
    j->kill_at_ms = 0;
    if (j->state == JOB_LEAVING)
        j->close_at_ms = at + KILLED_MS;
}

/* give_up_waiting: for streams that somebody else holds open, or a group that cannot die. */
static void give_up_waiting(struct job *j)
{
    if (!j->group_gone) {
        keeper_forget(&j->runner->keeper, j->pid);
        j->group_gone = true;
    }
    j->close_at_ms = 0;
    job_close_streams(j);
    leave(j);
}

/* end_in_time: what must not go on any longer. */
static void end_in_time(struct job *j, int64_t at)
{
    if (!j->late && !j->settled && job_lease_over(j, at)) {
        j->late = true;
        job_stop(j, STOP_LOST, "the lease is over and could not be renewed");
    }
    if (is_due(j->limit_at_ms, at) && j->state == JOB_RUNNING) {
        j->limit_at_ms = 0;
        limit_reached(j);
    }
    if (is_due(j->kill_at_ms, at))
        kill_group(j, at);
    if (is_due(j->close_at_ms, at) && j->state == JOB_LEAVING)
        give_up_waiting(j);
}

static void tell_progress(struct job *j, int64_t at)
{
    j->progress_at_ms = 0;
    if (j->state != JOB_RUNNING || !j->progress.fresh || j->progress_sent)
        return;
    report_progress(j);
    j->progress_at_ms = at + PROGRESS_EVERY_MS;
}

void job_on_time(struct job *j, int64_t at)
{
    if (j->state == JOB_OVER)
        return;
    end_in_time(j, at);
    if (is_due(j->progress_at_ms, at))
        tell_progress(j, at);
    if (!is_due(j->retry_at_ms, at))
        return;
    j->retry_at_ms = 0;
    if (j->state == JOB_FETCHING)
        job_fetch(j);
    else if (j->state == JOB_REPORTING)
        report_next(j);
}

int64_t job_due_ms(const struct job *j)
{
    int64_t times[] = {j->limit_at_ms, j->kill_at_ms, j->close_at_ms, j->progress_at_ms,
                       j->retry_at_ms};
    int64_t due = INT64_MAX;

    for (size_t i = 0; i < COUNT_OF(times); i++)
        if (times[i] > 0 && times[i] < due)
            due = times[i];
    if (!j->late && !j->settled && j->ttl_ms > 0 && j->renewed_ms + j->ttl_ms + 1 < due)
        due = j->renewed_ms + j->ttl_ms + 1;
    return j->state == JOB_OVER ? INT64_MAX : due;
}
