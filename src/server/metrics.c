/* SPDX-License-Identifier: MIT */
/*
 * metrics.c: counters of the loop thread, and all numbers as one text for Prometheus.
 *
 * Recording is a few additions into a table that has one row per operation, and one for whatever is
 * no operation. The text is made when somebody asks, out of the table and of what the caller
 * collected from the writer, the event readers and the store.
 *
 *   1. The set of series is bounded by our own tables: rows of ops.def, the codes below, the
 *      statuses of a task. Nothing that a caller sends becomes a label.
 *   2. Buckets are counted one by one and summed up when they are written: a record touches one.
 *   3. Units are seconds and bytes; a counter ends in _total (format 0.0.4, as promtool checks it).
 *   4. Numbers of the store are left out, not zero, when it could not be read: dibs_store_up says
 *      so.
 */
#include "metrics.h"

#include "metrics_process.h"

#define MICROS INT64_C(1000000)

/* The codes we answer with; what is not listed is counted as the last, which is no code. */
static const int codes[] = {200, 201, 204, 206, 304, 400, 401, 403, 404, 405, 406,
                            408, 409, 410, 411, 412, 413, 414, 415, 417, 421, 422,
                            426, 429, 431, 500, 501, 503, 505, 507, 0};
#define CODES COUNT_OF(codes)
#define CODE_MAX 600

/* Upper bounds of the buckets of a request's duration; the last bucket has none. */
static const struct {
    int64_t micros;
    const char *seconds;
} bounds[] = {
    {500, "0.0005"},  {1000, "0.001"},  {2500, "0.0025"}, {5000, "0.005"},  {10000, "0.01"},
    {25000, "0.025"}, {50000, "0.05"},  {100000, "0.1"},  {250000, "0.25"}, {500000, "0.5"},
    {1000000, "1"},   {2500000, "2.5"}, {5000000, "5"},   {10000000, "10"},
};
#define BOUNDS COUNT_OF(bounds)

struct row {
    int64_t by_code[CODES];
    int64_t by_duration[BOUNDS + 1];
    int64_t micros, count;
};

struct metrics {
    const struct api_operation *operations;
    size_t count;                 /* rows of `operations`; rows[count] is for all the rest */
    unsigned char slot[CODE_MAX]; /* of a code in codes[] */
    int64_t connections, accepted, refused, bad_requests;
    int64_t hooks[METRICS_HOOK_SOURCES][METRICS_HOOK_ENDS];
    int64_t started_ms; /* since 1970 */
    struct row rows[];
};

/* ---- recording ------------------------------------------------------------------------------- */

struct metrics *metrics_new(void)
{
    size_t count = 0;
    const struct api_operation *operations = api_operations(&count);
    struct metrics *m = mem_alloc(sizeof *m + (count + 1) * sizeof m->rows[0]);
    struct timespec now = {0};
    if (m == NULL)
        return NULL;
    m->operations = operations;
    m->count = count;
    memset(m->slot, CODES - 1, sizeof m->slot);
    for (size_t i = 0; i + 1 < CODES; i++)
        m->slot[codes[i]] = (unsigned char)i;
    clock_gettime(CLOCK_REALTIME, &now);
    m->started_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    return m;
}

void metrics_free(struct metrics *m)
{
    mem_free(m);
}

void metrics_request(struct metrics *m, const struct api_operation *op, int http_status,
                     int64_t micros)
{
    struct row *row = &m->rows[op != NULL ? (size_t)(op - m->operations) : m->count];
    bool known = http_status >= 0 && http_status < CODE_MAX;
    size_t bucket = 0;
    while (bucket < BOUNDS && micros > bounds[bucket].micros)
        bucket++;
    row->by_code[known ? m->slot[http_status] : CODES - 1]++;
    row->by_duration[bucket]++;
    row->micros += micros > 0 ? micros : 0;
    row->count++;
}

void metrics_connection(struct metrics *m, int change)
{
    m->connections += change;
    m->accepted += change > 0 ? change : 0;
}

void metrics_refused_connection(struct metrics *m)
{
    m->refused++;
}

void metrics_bad_request(struct metrics *m)
{
    m->bad_requests++;
}

void metrics_hook(struct metrics *m, enum metrics_hook_source source, enum metrics_hook_end end)
{
    m->hooks[source][end]++;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void counter(struct buf *out, const char *name, const char *help, int64_t value)
{
    head(out, name, "counter", help);
    buf_printf(out, "%s %" PRId64 "\n", name, value);
}

static void gauge(struct buf *out, const char *name, const char *help, int64_t value)
{
    head(out, name, "gauge", help);
    buf_printf(out, "%s %" PRId64 "\n", name, value);
}

/* seconds: a value behind a name that was written already, exact to the microsecond. */
static void seconds(struct buf *out, int64_t micros)
{
    buf_printf(out, " %" PRId64 ".%06" PRId64 "\n", micros / MICROS, micros % MICROS);
}

static void in_seconds(struct buf *out, const char *name, const char *type, const char *help,
                       int64_t micros)
{
    head(out, name, type, help);
    buf_text(out, name);
    seconds(out, micros);
}

static const char *name_of(const struct metrics *m, size_t row)
{
    return row < m->count ? m->operations[row].name : "other";
}

static void requests(const struct metrics *m, struct buf *out)
{
    head(out, "dibs_requests_total", "counter",
         "Requests answered, by operation and HTTP code; other: what is no operation.");
    for (size_t i = 0; i <= m->count; i++) {
        for (size_t k = 0; k < CODES; k++) {
            if (m->rows[i].by_code[k] == 0)
                continue;
            buf_printf(out, "dibs_requests_total{operation=\"%s\",code=\"", name_of(m, i));
            if (codes[k] != 0)
                buf_int(out, codes[k]);
            else
                buf_text(out, "other");
            buf_printf(out, "\"} %" PRId64 "\n", m->rows[i].by_code[k]);
        }
    }
}

static void durations(const struct metrics *m, struct buf *out)
{
    static const char name[] = "dibs_request_duration_seconds";
    head(out, name, "histogram",
         "Time from a whole request to its answer, waiting for work included.");
    for (size_t i = 0; i <= m->count; i++) {
        const struct row *row = &m->rows[i];
        int64_t below = 0;
        if (row->count == 0)
            continue;
        for (size_t k = 0; k <= BOUNDS; k++) {
            below += row->by_duration[k];
            buf_printf(out, "%s_bucket{operation=\"%s\",le=\"%s\"} %" PRId64 "\n", name,
                       name_of(m, i), k < BOUNDS ? bounds[k].seconds : "+Inf", below);
        }
        buf_printf(out, "%s_sum{operation=\"%s\"}", name, name_of(m, i));
        seconds(out, row->micros);
        buf_printf(out, "%s_count{operation=\"%s\"} %" PRId64 "\n", name, name_of(m, i),
                   row->count);
    }
}

static void connections(const struct metrics *m, struct buf *out)
{
    gauge(out, "dibs_connections", "Connections that are open now.", m->connections);
    counter(out, "dibs_connections_accepted_total", "Connections accepted.", m->accepted);
    counter(out, "dibs_connections_refused_total", "Connections turned away: there were too many.",
            m->refused);
    counter(out, "dibs_bad_requests_total", "Requests refused before they could be understood.",
            m->bad_requests);
}

static void batches(const struct writer_stats *w, struct buf *out)
{
    static const char name[] = "dibs_writer_batch_jobs";
    int64_t below = 0;
    head(out, name, "histogram", "Writing requests done in one transaction.");
    for (size_t i = 0; i < COUNT_OF(w->batch_jobs_le); i++) {
        below += w->batch_jobs_le[i];
        if (i + 1 < COUNT_OF(w->batch_jobs_le))
            buf_printf(out, "%s_bucket{le=\"%d\"} %" PRId64 "\n", name, 1 << i, below);
    }
    buf_printf(out, "%s_bucket{le=\"+Inf\"} %" PRId64 "\n", name, below);
    buf_printf(out, "%s_sum %" PRId64 "\n%s_count %" PRId64 "\n", name, w->jobs, name, below);
}

static void writer(const struct writer_stats *w, struct buf *out)
{
    counter(out, "dibs_writer_commits_total", "Transactions committed to disk.", w->commits);
    counter(out, "dibs_writer_failed_commits_total", "Transactions that could not be committed.",
            w->failed_commits);
    in_seconds(out, "dibs_writer_busy_seconds_total", "counter",
               "Time that the writer spent inside transactions.", w->busy_us);
    batches(w, out);
    in_seconds(out, "dibs_lease_extension_seconds_total", "counter",
               "Time by which leases were extended because the daemon could hear no heartbeats.",
               w->extended_ms * 1000);
}

static void queues(const struct metrics_now *now, struct buf *out)
{
    static const char name[] = "dibs_queue_depth";
    head(out, name, "gauge",
         "Requests inside: waiting for the writer, for work to appear (parked), for a reader.");
    buf_printf(out, "%s{queue=\"writer\"} %" PRId64 "\n", name, now->writer.queued);
    buf_printf(out, "%s{queue=\"parked\"} %" PRId64 "\n", name, now->writer.parked);
    buf_printf(out, "%s{queue=\"readers\"} %" PRId64 "\n", name, now->readers_queued);
}

static void events(const struct sse_stats *s, struct buf *out)
{
    gauge(out, "dibs_event_readers", "Open streams of events.", s->readers);
    counter(out, "dibs_event_readers_dropped_total",
            "Streams ended because the reader was too slow.", s->dropped);
    counter(out, "dibs_events_sent_total", "Events sent, counted once per reader.", s->sent_events);
}

/* tasks: one series per status, also for those that no task has. */
static void tasks(const struct dibs_stats *store, struct buf *out)
{
    head(out, "dibs_tasks", "gauge", "Tasks by status.");
    for (int s = DIBS_TASK_OPEN; s <= DIBS_TASK_CANCELLED; s++) {
        const char *name = dibs_task_status_name((enum dibs_task_status)s);
        int64_t count = 0;
        for (size_t i = 0; i < store->tasks_by_status.count; i++) {
            if (strcmp(store->tasks_by_status.items[i].name, name) == 0)
                count = store->tasks_by_status.items[i].count;
        }
        buf_printf(out, "dibs_tasks{status=\"%s\"} %" PRId64 "\n", name, count);
    }
}

static void claims(const struct dibs_stats *store, struct buf *out)
{
    gauge(out, "dibs_claims_live", "Claims whose lease runs.", store->active);
    gauge(out, "dibs_claims_expiring", "Live claims that end soon.", store->expiring);
    gauge(out, "dibs_claims_stale", "Live claims without a recent heartbeat.", store->stale);
    counter(out, "dibs_claims_taken_total", "Claims taken since the store was made.",
            store->claimed_ever);
    counter(out, "dibs_claims_completed_total", "Claims that ended with a completed task.",
            store->completed_ever);
    counter(out, "dibs_claims_failed_total", "Claims that ended with a reported failure.",
            store->failed_ever);
    counter(out, "dibs_claims_expired_total", "Claims whose lease ended without a report.",
            store->expired_ever);
    counter(out, "dibs_claims_orphaned_total", "Claims taken back from dead or silent sessions.",
            store->orphaned_ever);
    counter(out, "dibs_claims_released_total", "Claims given back.", store->released_ever);
    counter(out, "dibs_claims_refused_total", "Claims refused because another session held it.",
            store->refused_ever);
    counter(out, "dibs_late_results_total", "Results that came after the claim was lost.",
            store->late_results_ever);
}

static void hooks(const struct metrics *m, struct buf *out)
{
    static const char *const sources[] = {[METRICS_SLACK] = "slack", [METRICS_GITHUB] = "github"};
    static const char *const ends[] = {
        [METRICS_HOOK_MESSAGE] = "message",
        [METRICS_HOOK_TASK] = "task",
        [METRICS_HOOK_DUPLICATE] = "duplicate",
        [METRICS_HOOK_IGNORED] = "ignored",
        [METRICS_HOOK_UNSIGNED] = "unsigned",
        [METRICS_HOOK_INVALID] = "invalid",
        [METRICS_HOOK_OFF] = "off",
        [METRICS_HOOK_FAILED] = "failed",
    };
    head(out, "dibs_hooks_total", "counter", "Deliveries of webhooks, by what became of them.");
    for (size_t i = 0; i < METRICS_HOOK_SOURCES; i++)
        for (size_t k = 0; k < METRICS_HOOK_ENDS; k++)
            buf_printf(out, "dibs_hooks_total{source=\"%s\",outcome=\"%s\"} %" PRId64 "\n",
                       sources[i], ends[k], m->hooks[i][k]);
}

static void answers(const struct metrics_now *now, struct buf *out)
{
    counter(out, "dibs_answers_sent_total", "Answers sent to where the message came from.",
            now->sender.sent);
    counter(out, "dibs_answers_failed_total", "Answers that could not be sent, given up.",
            now->sender.failed);
    counter(out, "dibs_answer_retries_total", "Attempts to send an answer that are tried again.",
            now->sender.retried);
    if (now->store != NULL)
        gauge(out, "dibs_answers_waiting", "Answers that wait to be sent.", now->answers_waiting);
}

static void about_store(const struct dibs_stats *store, struct buf *out)
{
    gauge(out, "dibs_store_up", "1 when the numbers of the store could be read, else 0.",
          store != NULL);
    if (store == NULL)
        return;
    in_seconds(out, "dibs_oldest_claimable_age_seconds", "gauge",
               "Age of the oldest task that could be claimed; 0 when there is none.",
               store->oldest_claimable_ms * 1000);
    tasks(store, out);
    claims(store, out);
}

static void about_process(const struct metrics *m, const struct metrics_now *now, struct buf *out)
{
    struct process_numbers p = process_numbers();
    head(out, "dibs_build_info", "gauge", "Always 1; the label tells the version.");
    buf_printf(out, "dibs_build_info{version=\"%s\"} 1\n", dibs_version());
    in_seconds(out, "dibs_uptime_seconds", "gauge", "Time since the daemon began to serve.",
               now->uptime_ms * 1000);
    in_seconds(out, "process_start_time_seconds", "gauge", "When the process began, since 1970.",
               m->started_ms * 1000);
    in_seconds(out, "process_cpu_seconds_total", "counter", "Processor time used.", p.cpu_micros);
    gauge(out, "process_resident_memory_bytes", "Memory in use.", p.resident_bytes);
    gauge(out, "process_open_fds", "Open file descriptors.", p.open_fds);
    gauge(out, "process_max_fds", "File descriptors that may be open.", p.max_fds);
}

void metrics_render(const struct metrics *m, const struct metrics_now *now, struct buf *out)
{
    requests(m, out);
    durations(m, out);
    connections(m, out);
    writer(&now->writer, out);
    queues(now, out);
    events(&now->sse, out);
    hooks(m, out);
    answers(now, out);
    about_store(now->store, out);
    about_process(m, now, out);
}
