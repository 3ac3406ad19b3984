/* SPDX-License-Identifier: MIT */
/*
 * sender.c: answers on their way: what is due, one after another.
 *
 *     loop: look -> reader: the next that is due -> loop -> thread: POST -> loop -> writer: outcome
 *       ^--------------------- at once, or when the next is due (timer) -------------------------/
 *
 *   1. One at a time: the services want it so, and the order of answers is kept while all goes
 *      well.
 *   2. A reader's answer leaves when what it has seen is on disk, so nothing is sent that a crash
 *      could undo. The outcome is noted afterwards: a crash in between sends again (outgoing.c).
 *   3. The thread begins with the first answer; a daemon that sends none has neither it nor
 *      libcurl.
 *   4. Without a token answers wait, and the log says so once.
 *   5. An outcome that the store does not take is not forgotten: it is offered again, and until
 *      then nothing else is sent.
 */
#include "sender.h"

#include "base/log.h"
#include "base/str.h"

#define LOOK_AGAIN_MS 1000 /* after a look that failed */
#define TIMER_MS_MAX 60000 /* the store's clock may be moved */

/* One answer on its way through all threads. */
struct attempt {
    struct job job;
    struct sender *s;
    dibs_arena *a;
    struct dibs_outgoing_list due; /* of at most one */
    struct dibs_outgoing_report report;
    struct sender_verdict verdict;
    dibs_status status;
    struct dibs_error err;
    char url[HOOK_TEXT_BYTES + 32], token[HOOK_TEXT_BYTES];
    bool whole; /* it was not broken off */
};

struct sender {
    struct sender_options o;
    uv_timer_t timer;
    uv_async_t posted; /* the thread is through with `attempt` */
    struct attempt *attempt;
    bool again, draining, stopped, has_thread;
    bool note_waits; /* for the timer: the store did not take the outcome */
    bool told_token, told_store;
    int64_t paused_until_ms; /* steady */
    struct sender_stats stats;

    uv_thread_t thread;
    uv_mutex_t lock;
    uv_cond_t wake;
    /* under the lock */
    struct attempt *todo, *posted_one;
    struct sender_http *http;
    int64_t end_by_ms; /* steady; 0: no hurry */
    bool ending;
};

static int64_t steady_ms(void)
{
    return (int64_t)(uv_hrtime() / 1000000);
}

static void finish(struct attempt *t);

static void on_timer(uv_timer_t *timer)
{
    sender_look(timer->data);
}

static void look_in(struct sender *s, int64_t ms)
{
    int64_t paused = s->paused_until_ms - steady_ms();
    if (ms < paused)
        ms = paused;
    if (ms > TIMER_MS_MAX)
        ms = TIMER_MS_MAX;
    if (!s->stopped && !s->draining)
        uv_timer_start(&s->timer, on_timer, (uint64_t)(ms > 0 ? ms : 0), 0);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static bool is_over(void *context)
{
    struct sender *s = context;
    uv_mutex_lock(&s->lock);
    bool over = s->end_by_ms != 0 && steady_ms() >= s->end_by_ms;
    uv_mutex_unlock(&s->lock);
    return over;
}

/* client: makes it when it is first needed; NULL: err says why. */
static struct sender_http *client(struct sender *s, struct dibs_error *err)
{
    struct sender_http *http = s->http; /* written by this thread only */
    if (http != NULL)
        return http;
    http = sender_http_new(err);
    uv_mutex_lock(&s->lock);
    s->http = http;
    uv_mutex_unlock(&s->lock);
    return http;
}

static void post(struct sender *s, struct attempt *t)
{
    const struct dibs_outgoing *o = &t->due.items[0];
    const struct dibs_platform *p = dibs_platform_real();
    struct sender_reply reply = {0};
    struct dibs_error err = {0};
    uint32_t chance = 0;
    struct sender_http *http = client(s, &err);
    t->whole = true;
    if (http == NULL)
        reply.error = err.message;
    else
        t->whole = sender_http_post(http,
                                    &(struct sender_post){.url = t->url,
                                                          .token = t->token,
                                                          .body = o->body,
                                                          .is_over = is_over,
                                                          .context = s},
                                    &reply);
    p->random(p->context, &chance, sizeof chance);
    sender_judge(&reply, o->attempts, o->age_ms, chance, &t->verdict);
}

static struct attempt *next_todo(struct sender *s)
{
    uv_mutex_lock(&s->lock);
    while (s->todo == NULL && !s->ending)
        uv_cond_wait(&s->wake, &s->lock);
    struct attempt *t = s->todo;
    s->todo = NULL;
    uv_mutex_unlock(&s->lock);
    return t;
}

static void send_all(void *context)
{
    struct sender *s = context;
    struct attempt *t = NULL;
    job_name_thread("dibs-sender");
    while ((t = next_todo(s)) != NULL) {
        post(s, t);
        uv_mutex_lock(&s->lock);
        s->posted_one = t;
        uv_mutex_unlock(&s->lock);
        uv_async_send(&s->posted);
    }
}

/* ---- the outcome ----------------------------------------------------------------------------- */

static void note_run(struct job *job, dibs *d, dibs_arena *a)
{
    struct attempt *t = (struct attempt *)job;
    t->status = dibs__outgoing_report(d, a, &t->report, &t->err);
}

static void lose(struct job *job, const struct dibs_error *err)
{
    struct attempt *t = (struct attempt *)job;
    t->status = err->code;
    t->err = *err;
}

static void count(struct sender *s, const struct attempt *t)
{
    s->stats.sent += t->report.end == DIBS_OUTGOING_SENT;
    s->stats.failed += t->report.end == DIBS_OUTGOING_FAILED;
    s->stats.retried += t->report.end == DIBS_OUTGOING_AGAIN;
}

/* submit_note: gives the outcome to the writer, now or later. */
static void submit_note(struct attempt *t);

static void on_note_timer(uv_timer_t *timer)
{
    struct sender *s = timer->data;
    s->note_waits = false;
    submit_note(s->attempt);
}

static void note_later(struct attempt *t)
{
    struct sender *s = t->s;
    if (!s->told_store)
        log_line(LOG_ERROR, "cannot note what became of an answer: %s", t->err.message);
    s->told_store = true;
    s->note_waits = !s->stopped && !s->draining;
    if (s->note_waits)
        uv_timer_start(&s->timer, on_note_timer, LOOK_AGAIN_MS, 0);
    else
        finish(t); /* it will be sent again */
}

static void note_done(struct job *job)
{
    struct attempt *t = (struct attempt *)job;
    if (t->status != DIBS_OK) {
        note_later(t);
        return;
    }
    t->s->told_store = false;
    t->s->again = true;
    count(t->s, t);
    finish(t);
}

static void submit_note(struct attempt *t)
{
    t->job = (struct job){.run = note_run, .done = note_done, .lost = lose};
    t->status = error_set(&t->err, DIBS_STORE_BUSY, "there is too much to do");
    if (!writer_submit(t->s->o.writer, &t->job))
        note_later(t);
}

static void tell(const struct attempt *t)
{
    const struct dibs_outgoing *o = &t->due.items[0];
    char span[32] = "";
    str_rough_duration_ms(t->verdict.again_ms, span);
    if (t->verdict.end == DIBS_OUTGOING_SENT)
        log_line(LOG_INFO, "the answer to message '%s' was sent to %s", o->message_id, o->target);
    else if (t->verdict.end == DIBS_OUTGOING_FAILED)
        log_line(LOG_ERROR, "the answer to message '%s' cannot be sent to %s: %s", o->message_id,
                 o->target, t->verdict.error);
    else
        log_line(o->attempts == 0 ? LOG_WARN : LOG_INFO,
                 "the answer to message '%s' is not sent to %s yet: %s; next attempt in %s",
                 o->message_id, o->target, t->verdict.error, span);
}

static void on_posted(uv_async_t *async)
{
    struct sender *s = async->data;
    uv_mutex_lock(&s->lock);
    struct attempt *t = s->posted_one;
    s->posted_one = NULL;
    uv_mutex_unlock(&s->lock);
    if (t == NULL || s->stopped)
        return;
    if (!t->whole) { /* whether it arrived is not known */
        finish(t);
        return;
    }
    tell(t);
    if (t->verdict.pause_ms > 0)
        s->paused_until_ms = steady_ms() + t->verdict.pause_ms;
    t->report = (struct dibs_outgoing_report){.key = t->due.items[0].key,
                                              .end = t->verdict.end,
                                              .error = t->verdict.error,
                                              .again_ms = t->verdict.again_ms};
    submit_note(t);
}

/* ---- looking --------------------------------------------------------------------------------- */

/* finish: this one is through; looks again when there is a reason to. */
static void finish(struct attempt *t)
{
    struct sender *s = t->s;
    bool again = s->again;
    s->again = false;
    s->attempt = NULL;
    --*s->o.jobs_out;
    dibs_arena_free(t->a);
    mem_free(t);
    if (again && !s->stopped && !s->draining)
        sender_look(s);
}

static bool start_thread(struct sender *s)
{
    if (!s->has_thread) {
        int rc = uv_thread_create(&s->thread, send_all, s);
        if (rc != 0)
            log_line(LOG_ERROR, "cannot start the sender: %s", uv_strerror(rc));
        s->has_thread = rc == 0;
    }
    return s->has_thread;
}

static void hand_over(struct attempt *t)
{
    struct sender *s = t->s;
    const struct dibs_hook_settings *set = s->o.settings;
    snprintf(t->url, sizeof t->url, "%s/chat.postMessage", set->slack_url);
    str_fit(t->token, sizeof t->token, set->slack_bot_token);
    uv_mutex_lock(&s->lock);
    s->todo = t;
    uv_mutex_unlock(&s->lock);
    uv_cond_signal(&s->wake);
}

static void look_run(struct job *job, dibs *d, dibs_arena *a)
{
    struct attempt *t = (struct attempt *)job;
    (void)a;
    t->status = dibs__outgoing_due(d, t->a, 1, &t->due, &t->err);
}

/* can_send: without a token answers wait until there is one. */
static bool can_send(struct sender *s, int64_t waiting)
{
    if (s->o.settings->slack_bot_token[0] != '\0') {
        s->told_token = false;
        return true;
    }
    if (!s->told_token)
        log_line(LOG_WARN,
                 "%" PRId64 " answer%s to Slack cannot be sent: set slackBotToken in the file "
                 "'config', or DIBS_SLACK_BOT_TOKEN, and send SIGHUP",
                 waiting, waiting == 1 ? "" : "s");
    s->told_token = true;
    return false;
}

static void look_done(struct job *job)
{
    struct attempt *t = (struct attempt *)job;
    struct sender *s = t->s;
    if (t->status != DIBS_OK) {
        log_line(LOG_WARN, "cannot look for answers to send: %s", t->err.message);
        look_in(s, LOOK_AGAIN_MS);
    } else if (t->due.waiting > 0 && can_send(s, t->due.waiting)) {
        if (t->due.count > 0 && !s->draining && !s->stopped && start_thread(s)) {
            hand_over(t);
            return;
        }
        look_in(s, t->due.count > 0 ? LOOK_AGAIN_MS : t->due.next_ms);
    }
    finish(t);
}

void sender_look(struct sender *s)
{
    if (s->stopped || s->draining)
        return;
    if (s->attempt != NULL) {
        s->again = true;
        return;
    }
    if (s->paused_until_ms > steady_ms()) {
        look_in(s, 0);
        return;
    }
    struct attempt *t = mem_alloc(sizeof *t);
    dibs_arena *a = t != NULL ? dibs_arena_new() : NULL;
    if (a == NULL) {
        mem_free(t);
        look_in(s, LOOK_AGAIN_MS);
        return;
    }
    *t = (struct attempt){.job = {.run = look_run, .done = look_done, .lost = lose},
                          .s = s,
                          .a = a,
                          .status = DIBS_STORE_BUSY};
    s->attempt = t;
    ++*s->o.jobs_out;
    if (!readers_submit(s->o.readers, &t->job))
        look_done(&t->job);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

struct sender *sender_new(const struct sender_options *in)
{
    struct sender *s = mem_alloc(sizeof *s);
    if (s == NULL)
        return NULL;
    s->o = *in;
    if (uv_mutex_init(&s->lock) != 0 || uv_cond_init(&s->wake) != 0)
        abort(); /* only for lack of memory, before anything was promised */
    uv_timer_init(in->loop, &s->timer);
    uv_async_init(in->loop, &s->posted, on_posted);
    s->timer.data = s->posted.data = s;
    return s;
}

/* hurry: what is being sent ends by then. */
static void hurry(struct sender *s, int64_t ms, bool ending)
{
    uv_mutex_lock(&s->lock);
    if (s->end_by_ms == 0 || ending)
        s->end_by_ms = steady_ms() + ms;
    s->ending = s->ending || ending;
    if (s->http != NULL)
        sender_http_wake(s->http);
    uv_mutex_unlock(&s->lock);
    uv_cond_signal(&s->wake);
}

void sender_drain(struct sender *s)
{
    s->draining = true;
    uv_timer_stop(&s->timer);
    if (s->note_waits)
        on_note_timer(&s->timer);
    hurry(s, SENDER_DRAIN_MS, false);
}

void sender_stop(struct sender *s)
{
    s->draining = s->stopped = true;
    hurry(s, 0, true);
    if (s->has_thread)
        uv_thread_join(&s->thread);
    uv_close((uv_handle_t *)&s->timer, NULL);
    uv_close((uv_handle_t *)&s->posted, NULL);
}

void sender_free(struct sender *s)
{
    if (s == NULL)
        return;
    if (s->attempt != NULL) { /* broken off; it waits in the store */
        dibs_arena_free(s->attempt->a);
        mem_free(s->attempt);
    }
    sender_http_free(s->http);
    uv_cond_destroy(&s->wake);
    uv_mutex_destroy(&s->lock);
    mem_free(s);
}

struct sender_stats sender_stats(const struct sender *s)
{
    return s != NULL ? s->stats : (struct sender_stats){0};
}
