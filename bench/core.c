/* SPDX-License-Identifier: MIT */
/*
 * core.c: what a claim costs: tasks per second by the size of transactions, claim-next by the size
 * of the queue.
 *
 *   script/bench core [--json] [--quick] [--dir FOLDER]
 *
 * The first table is claim + complete in one process on a real disk, every transaction flushed: by
 * the library, as the daemon does it (JSON in and out, api_call), and with the next task asked for
 * in the same request. The second is the processor's work for one claim-next in queues of 1
 * thousand to 1 million open tasks, in transactions of a hundred claims, commit included; waiting
 * for the disk is not. The sizes take turns in many rounds, so that whatever else the machine does
 * falls on all alike. Medians throughout. --quick stops at 20 thousand. FOLDER (/var/tmp) must be
 * on a disk, not in memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "api/api.h"
#include "dibs.h"

#define CREATE_AT_ONCE 1000
#define CREATES_PER_COMMIT 10
#define CLAIMS_PER_BATCH 100
#define WARM_ROUNDS 3
#define ROUNDS 41
#define PAIR_SECONDS 2.0
#define SAMPLES_MAX 4096

static char folder[512];
static volatile sig_atomic_t stopped;

/* ---- ends ------------------------------------------------------------------------------------ */

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void clean_up(void)
{
    if (folder[0])
        nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static void must(dibs_status status, const struct dibs_error *err, const char *what)
{
    if (status != DIBS_OK)
        die("bench: %s: %s: %s", what, dibs_status_name(status), err->message);
    if (stopped)
        die("bench: stopped");
}

/* ---- measuring ------------------------------------------------------------------------------- */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Time of this process on a processor: waiting for the disk is not in it. */
static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Counts instructions of this process outside the kernel; -1 where the machine does not let us. */
static int open_instruction_counter(void)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_HW_INSTRUCTIONS,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static int counter = -1;

static double instructions(void)
{
    uint64_t value = 0;
    if (counter < 0 || read(counter, &value, sizeof value) != sizeof value)
        return 0;
    return (double)value;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

struct samples {
    double items[SAMPLES_MAX];
    size_t count;
};

static void add(struct samples *s, double value)
{
    if (s->count < SAMPLES_MAX)
        s->items[s->count++] = value;
}

static double median(struct samples *s)
{
    if (s->count == 0)
        return 0;
    qsort(s->items, s->count, sizeof s->items[0], by_value);
    return s->items[s->count / 2];
}

/* ---- stores ---------------------------------------------------------------------------------- */

static const char *const types[] = {"build", "test", "docs",   "deploy",
                                    "lint",  "fuzz", "review", "triage"};
#define TYPE_COUNT 8

static dibs *open_store(const char *name)
{
    char path[600];
    dibs *d = NULL;
    struct dibs_error err = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    struct dibs_options options = {
        .data_dir = path, .create = true, .settings = DIBS_STRINGS("autoCleanup=off")};
    must(dibs_open(&options, &d, &err), &err, "cannot open a store");
    dibs_arena *a = dibs_arena_new();
    struct dibs_session me = {0};
    struct dibs_session_new who = {.id = "bench", .agent_type = "bench"};
    must(dibs_session_register(d, a, &who, &me, &err), &err, "cannot register");
    dibs_arena_free(a);
    return d;
}

/* Types and priorities are mixed as in a queue that many people fill. */
static void fill(dibs *d, int64_t count)
{
    static struct dibs_task_new tasks[CREATE_AT_ONCE];
    struct dibs_error err = {0};
    dibs_arena *a = dibs_arena_new();
    int64_t made = 0;
    while (made < count) {
        must(dibs_batch_begin(d, &err), &err, "cannot begin");
        for (int i = 0; i < CREATES_PER_COMMIT && made < count; i++) {
            struct dibs_task_list out = {0};
            size_t n = count - made < CREATE_AT_ONCE ? (size_t)(count - made) : CREATE_AT_ONCE;
            for (size_t k = 0; k < n; k++) {
                uint64_t mixed = (uint64_t)(made + (int64_t)k) * 0x9e3779b97f4a7c15u;
                tasks[k] = (struct dibs_task_new){
                    .title = "a task of ordinary length",
                    .type = types[(mixed >> 40) % TYPE_COUNT],
                    .priority = DIBS_VALUE((int64_t)((mixed >> 50) % 11) * 10),
                    .max_attempts = DIBS_VALUE(0)};
            }
            must(dibs_task_create(d, a, tasks, n, &out, &err), &err, "cannot create");
            made += (int64_t)n;
            dibs_arena_reset(a);
        }
        must(dibs_batch_commit(d, &err), &err, "cannot commit");
    }
    dibs_arena_free(a);
}

/* ---- claim + complete ------------------------------------------------------------------------ */

enum way { BY_LIBRARY, BY_API, BY_API_AND_NEXT, WAYS };
static const char *const way_names[WAYS] = {
    [BY_LIBRARY] = "library", [BY_API] = "api", [BY_API_AND_NEXT] = "api, claimNext"};

/* One operation on the one task under way: claims it, or completes the one claimed before. */
struct pairing {
    dibs *d;
    dibs_arena *a;
    enum way way;
    char task[64];
    int64_t token;
};

/* The text after `name` in an answer, up to the end of the value. */
static void find_value(const char *answer, const char *name, char *out, size_t bytes)
{
    const char *at = answer != NULL ? strstr(answer, name) : NULL;
    if (at == NULL)
        die("bench: no %s in: %s", name, answer != NULL ? answer : "nothing");
    at += strlen(name);
    at += *at == '"';
    snprintf(out, bytes, "%.*s", (int)strcspn(at, "\",}"), at);
}

/* Sends a request; the answer may hold the next task, after `where`. */
static void call(struct pairing *p, const char *path, const char *body, const char *where)
{
    struct api_response answer = {0};
    struct api_request request = {
        .method = "POST", .path = path, .body = body, .body_bytes = strlen(body)};
    api_call(p->d, p->a, &request, &answer);
    if (answer.http != 200)
        die("bench: %s: %d %s", path, answer.http, answer.body.data);
    p->token = 0;
    const char *task = where != NULL ? strstr(answer.body.data, where) : NULL;
    if (task != NULL) {
        char token[32];
        find_value(task, "\"id\":", p->task, sizeof p->task);
        find_value(task, "\"token\":", token, sizeof token);
        p->token = strtoll(token, NULL, 10);
    }
    buf_release(&answer.body);
    if (stopped)
        die("bench: stopped");
}

static void next_request(struct pairing *p)
{
    char path[128], body[200];
    if (!p->token) {
        call(p, "/api/tasks/claim", "{\"worker_id\":\"bench\"}", "\"task\":");
        return;
    }
    bool chained = p->way == BY_API_AND_NEXT;
    snprintf(path, sizeof path, "/api/tasks/%s/complete", p->task);
    snprintf(body, sizeof body,
             "{\"sessionId\":\"bench\",\"token\":%" PRId64 ",\"result\":{\"ok\":1}%s}", p->token,
             chained ? ",\"claimNext\":{}" : "");
    call(p, path, body, chained ? "\"next\":" : NULL);
}

static void next_operation(struct pairing *p)
{
    struct dibs_error err = {0};
    if (p->way != BY_LIBRARY) {
        next_request(p);
        return;
    }
    if (!p->token) {
        struct dibs_grant grant = {0};
        struct dibs_claim_next any = {.session_id = "bench"};
        must(dibs_claim_next(p->d, p->a, &any, &grant, &err), &err, "cannot claim");
        p->token = grant.items[0].claim.token;
        snprintf(p->task, sizeof p->task, "%s", grant.items[0].task.id);
    } else {
        struct dibs_task done = {0};
        struct dibs_report report = {
            .task_id = p->task, .session_id = "bench", .token = p->token, .result = "{\"ok\":1}"};
        must(dibs_complete(p->d, p->a, &report, &done, &err), &err, "cannot complete");
        p->token = 0;
    }
}

static void run_transaction(struct pairing *p, int operations)
{
    struct dibs_error err = {0};
    if (operations > 1)
        must(dibs_batch_begin(p->d, &err), &err, "cannot begin");
    for (int i = 0; i < operations; i++) {
        next_operation(p);
        dibs_arena_reset(p->a);
    }
    if (operations > 1)
        must(dibs_batch_commit(p->d, &err), &err, "cannot commit");
}

struct pair_result {
    enum way way;
    int operations;
    double per_second, cpu_us, instructions;
};

/* Tasks per second, as the median of short stretches: a slow flush now and then does not count. */
static void measure_pairs(struct pairing *p, struct pair_result *out)
{
    static struct samples rates, cpus, counts;
    rates.count = cpus.count = counts.count = 0;
    p->way = out->way;
    double end = now_s() + PAIR_SECONDS;
    int per_stretch = 256 / out->operations;
    while (now_s() < end && rates.count < SAMPLES_MAX) {
        double t = now_s(), c = cpu_s(), n = instructions();
        for (int i = 0; i < per_stretch; i++)
            run_transaction(p, out->operations);
        double tasks = (double)(per_stretch * out->operations);
        tasks /= out->way == BY_API_AND_NEXT ? 1 : 2; /* operations for each */
        add(&rates, tasks / (now_s() - t));
        add(&cpus, (cpu_s() - c) * 1e6 / tasks);
        add(&counts, (instructions() - n) / tasks);
    }
    out->per_second = median(&rates);
    out->cpu_us = median(&cpus);
    out->instructions = median(&counts);
}

/* ---- claim-next by the size of the queue ----------------------------------------------------- */

enum { ALL_TYPES, ONE_TYPE, VARIANTS };

struct queue {
    int64_t tasks;
    const char *name;
    dibs *d;
    struct samples us[VARIANTS], counts[VARIANTS];
    double median_us[VARIANTS], median_count[VARIANTS];
};

static char held_ids[CLAIMS_PER_BATCH][64];
static int64_t held_tokens[CLAIMS_PER_BATCH];

static void claim_some(dibs *d, dibs_arena *a, const struct dibs_claim_next *next)
{
    struct dibs_error err = {0};
    must(dibs_batch_begin(d, &err), &err, "cannot begin");
    for (int i = 0; i < CLAIMS_PER_BATCH; i++) {
        struct dibs_grant grant = {0};
        must(dibs_claim_next(d, a, next, &grant, &err), &err, "cannot claim");
        held_tokens[i] = grant.items[0].claim.token;
        snprintf(held_ids[i], sizeof held_ids[i], "%s", grant.items[0].task.id);
        dibs_arena_reset(a);
    }
    must(dibs_batch_commit(d, &err), &err, "cannot commit");
}

static void give_back(dibs *d, dibs_arena *a)
{
    struct dibs_error err = {0};
    must(dibs_batch_begin(d, &err), &err, "cannot begin");
    for (int i = 0; i < CLAIMS_PER_BATCH; i++) {
        struct dibs_released out = {0};
        struct dibs_release back = {
            .task_id = held_ids[i], .session_id = "bench", .token = held_tokens[i]};
        must(dibs_claim_release(d, a, &back, &out, &err), &err, "cannot release");
        dibs_arena_reset(a);
    }
    must(dibs_batch_commit(d, &err), &err, "cannot commit");
}

/* Claims a hundred in one transaction, then gives them back in another, which is not measured: the
 * queue is the same for the next round. */
static void measure_claims(struct queue *q, int variant, bool warm)
{
    dibs_arena *a = dibs_arena_new();
    struct dibs_claim_next next = {.session_id = "bench", .types = DIBS_STRINGS("deploy")};
    next.types.count = variant == ONE_TYPE;
    double c = cpu_s(), n = instructions();
    claim_some(q->d, a, &next);
    double us = (cpu_s() - c) * 1e6 / CLAIMS_PER_BATCH;
    double count = (instructions() - n) / CLAIMS_PER_BATCH;
    give_back(q->d, a);
    dibs_arena_free(a);
    if (!warm) {
        add(&q->us[variant], us);
        add(&q->counts[variant], count);
    }
}

static void measure_queues(struct queue *queues, size_t count)
{
    for (int round = -WARM_ROUNDS; round < ROUNDS; round++) {
        if (round >= 0 && round % 10 == 0)
            fprintf(stderr, "bench: claim-next, round %d of %d\n", round + 1, ROUNDS);
        for (size_t i = 0; i < count; i++)
            for (int v = 0; v < VARIANTS; v++)
                measure_claims(&queues[i], v, round < 0);
    }
    for (size_t i = 0; i < count; i++)
        for (int v = 0; v < VARIANTS; v++) {
            queues[i].median_us[v] = median(&queues[i].us[v]);
            queues[i].median_count[v] = median(&queues[i].counts[v]);
        }
}

/* ---- reporting ------------------------------------------------------------------------------- */

static void print_count(bool json, double count)
{
    if (counter >= 0)
        printf(json ? "%.0f" : "%14.0f", count);
    else
        printf(json ? "null" : "%14s", "-");
}

static void print_tables(const struct pair_result *pairs, size_t pair_count,
                         const struct queue *queues, size_t queue_count)
{
    printf("claim + complete, one process, every transaction flushed to disk\n");
    printf("%-16s %22s %10s %14s %14s\n", "by", "operations/transaction", "tasks/s", "cpu us/task",
           "instructions");
    for (size_t i = 0; i < pair_count; i++) {
        printf("%-16s %22d %10.0f %14.1f ", way_names[pairs[i].way], pairs[i].operations,
               pairs[i].per_second, pairs[i].cpu_us);
        print_count(false, pairs[i].instructions);
        putchar('\n');
    }
    printf("\nclaim-next in a queue of so many open tasks, %d types, 11 priorities\n", TYPE_COUNT);
    printf("%10s %10s %8s %14s %12s %8s %14s\n", "tasks", "us/claim", "ratio", "instructions",
           "us one type", "ratio", "instructions");
    for (size_t i = 0; i < queue_count; i++) {
        printf("%10" PRId64, queues[i].tasks);
        for (int v = 0; v < VARIANTS; v++) {
            printf(v ? " %12.2f %8.2f " : " %10.2f %8.2f ", queues[i].median_us[v],
                   queues[i].median_us[v] / queues[0].median_us[v]);
            print_count(false, queues[i].median_count[v]);
        }
        putchar('\n');
    }
}

static void print_json(const struct pair_result *pairs, size_t pair_count,
                       const struct queue *queues, size_t queue_count)
{
    printf("{\"bench\":\"core\",\"version\":\"%s\",\"pairs\":[", dibs_version());
    for (size_t i = 0; i < pair_count; i++) {
        printf("%s{\"by\":\"%s\",\"operationsPerTransaction\":%d,\"tasksPerSecond\":%.1f,"
               "\"cpuUs\":%.3f,\"instructions\":",
               i ? "," : "", way_names[pairs[i].way], pairs[i].operations, pairs[i].per_second,
               pairs[i].cpu_us);
        print_count(true, pairs[i].instructions);
        putchar('}');
    }
    printf("],\"claimNext\":[");
    for (size_t i = 0; i < queue_count; i++)
        for (int v = 0; v < VARIANTS; v++) {
            printf("%s{\"tasks\":%" PRId64 ",\"typeFilter\":%s,\"cpuUs\":%.3f,\"ratio\":%.3f,"
                   "\"instructions\":",
                   i || v ? "," : "", queues[i].tasks, v ? "true" : "false", queues[i].median_us[v],
                   queues[i].median_us[v] / queues[0].median_us[v]);
            print_count(true, queues[i].median_count[v]);
            putchar('}');
        }
    printf("]}\n");
}

/* ---- the whole ------------------------------------------------------------------------------- */

static struct queue queues[] = {{.tasks = 1000, .name = "q1k"},
                                {.tasks = 20000, .name = "q20k"},
                                {.tasks = 200000, .name = "q200k"},
                                {.tasks = 1000000, .name = "q1m"}};
#define SIZES(which)                                                                               \
    {.way = (which), .operations = 1}, {.way = (which), .operations = 8},                          \
        {.way = (which), .operations = 32},                                                        \
    {                                                                                              \
        .way = (which), .operations = 128                                                          \
    }
static struct pair_result pairs[] = {SIZES(BY_LIBRARY), SIZES(BY_API), SIZES(BY_API_AND_NEXT)};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void bench_pairs(void)
{
    struct pairing p = {.d = open_store("pairs"), .a = dibs_arena_new()};
    fill(p.d, 400000);
    for (size_t i = 0; i < COUNT(pairs); i++) {
        fprintf(stderr, "bench: claim + complete by %s, %d operations in a transaction\n",
                way_names[pairs[i].way], pairs[i].operations);
        measure_pairs(&p, &pairs[i]);
    }
    dibs_arena_free(p.a);
    dibs_close(p.d);
}

static void bench_queues(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fprintf(stderr, "bench: making a queue of %" PRId64 " tasks\n", queues[i].tasks);
        queues[i].d = open_store(queues[i].name);
        fill(queues[i].d, queues[i].tasks);
    }
    measure_queues(queues, count);
    for (size_t i = 0; i < count; i++)
        dibs_close(queues[i].d);
}

int main(int argc, char **argv)
{
    bool json = false, quick = false;
    const char *base = "/var/tmp";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--quick") == 0)
            quick = true;
        else if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc)
            base = argv[++i];
        else
            die("usage: script/bench core [--json] [--quick] [--dir FOLDER]");
    }
    snprintf(folder, sizeof folder, "%.400s/dibs-bench-XXXXXX", base);
    if (!mkdtemp(folder)) {
        folder[0] = '\0';
        die("bench: cannot make a folder in '%s': %s", base, strerror(errno));
    }
    atexit(clean_up);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    counter = open_instruction_counter();
    size_t queue_count = quick ? 2 : COUNT(queues);
    bench_pairs();
    bench_queues(queue_count);
    (json ? print_json : print_tables)(pairs, COUNT(pairs), queues, queue_count);
    return 0;
}
