/* SPDX-License-Identifier: MIT */
/*
 * postgres.c: a queue in a table of PostgreSQL, through libpq.
 *
 * Claim is an UPDATE of the first open row that nobody has locked (FOR UPDATE SKIP LOCKED, partial
 * index on open rows), complete a DELETE; each is a transaction of its own and a prepared
 * statement. Deleting is the cheaper end of a job: keeping the row would be a second update.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#if BENCH_WITH_LIBPQ
#include <libpq-fe.h>

#define CLAIM                                                                                      \
    "UPDATE task SET state = 1, worker = $1, attempts = attempts + 1, "                            \
    "deadline = now() + interval '30 minutes' WHERE id = (SELECT id FROM task WHERE state = 0 "    \
    "ORDER BY priority DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, payload"
#define COMPLETE "DELETE FROM task WHERE id = $1 AND worker = $2"
#define TABLE                                                                                      \
    "CREATE TABLE task (id bigint PRIMARY KEY, state smallint NOT NULL DEFAULT 0, "                \
    "priority smallint NOT NULL DEFAULT 50, attempts smallint NOT NULL DEFAULT 0, worker text, "   \
    "deadline timestamptz, payload text NOT NULL);"                                                \
    "CREATE INDEX task_open ON task (priority DESC, id) WHERE state = 0"

static PGconn *connect_to(const char *at)
{
    char about[256];
    const char *colon = strrchr(at, ':');
    if (colon == NULL)
        die("bench: '%s' is not HOST:PORT", at);
    snprintf(about, sizeof about,
             "host=%.*s port=%s user=bench dbname=postgres sslmode=disable "
             "options='-c client_min_messages=warning'",
             (int)(colon - at), at, colon + 1);
    PGconn *link = PQconnectdb(about);
    if (PQstatus(link) != CONNECTION_OK)
        die("bench: %s", PQerrorMessage(link));
    return link;
}

static PGresult *must_succeed(PGconn *link, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_COPY_IN)
        die("bench: %s", PQerrorMessage(link));
    return result;
}

static void execute(PGconn *link, const char *sql)
{
    PQclear(must_succeed(link, PQexec(link, sql)));
}

static void fill(const char *at, int64_t first, int64_t count)
{
    PGconn *link = connect_to(at);
    char sql[256], job[PAYLOAD_BYTES];
    if (first == 1)
        execute(link, "DROP TABLE IF EXISTS task;" TABLE);
    execute(link, "COPY task (id, payload) FROM STDIN WITH (DELIMITER '|')");
    for (int64_t i = first; i < first + count; i++) {
        payload_write(job, i);
        int bytes = snprintf(sql, sizeof sql, "%" PRId64 "|%s\n", i, job);
        if (PQputCopyData(link, sql, bytes) != 1)
            die("bench: %s", PQerrorMessage(link));
    }
    PQputCopyEnd(link, NULL);
    for (PGresult *result = NULL; (result = PQgetResult(link)) != NULL;)
        PQclear(must_succeed(link, result));
    execute(link, "VACUUM ANALYZE task");
    PQfinish(link);
}

static void open_link(struct worker *w, const char *at)
{
    PGconn *link = connect_to(at);
    PQclear(must_succeed(link, PQprepare(link, "claim", CLAIM, 1, NULL)));
    PQclear(must_succeed(link, PQprepare(link, "complete", COMPLETE, 2, NULL)));
    PQsetnonblocking(link, 1);
    w->link = link;
    w->fd = PQsocket(link);
}

static void close_link(struct worker *w)
{
    PQfinish(w->link);
}

static void ask(struct worker *w)
{
    char name[32];
    snprintf(name, sizeof name, "w%d", w->index);
    const char *claim[] = {name}, *complete[] = {w->job.key, name};
    int sent = w->asked == ASKED_CLAIM
                   ? PQsendQueryPrepared(w->link, "claim", 1, claim, NULL, NULL, 0)
                   : PQsendQueryPrepared(w->link, "complete", 2, complete, NULL, NULL, 0);
    /* so few bytes always fit into the socket */
    if (sent != 1 || PQflush(w->link) != 0)
        die("bench: %s", PQerrorMessage(w->link));
}

static void take_result(struct worker *w, PGresult *result)
{
    must_succeed(w->link, result);
    if (w->asked == ASKED_COMPLETE) {
        if (strcmp(PQcmdTuples(result), "1") != 0)
            die("bench: postgres did not know job %" PRId64, w->job.number);
        return;
    }
    if (PQntuples(result) != 1)
        die("bench: postgres says the queue is empty while it is not");
    snprintf(w->job.key, sizeof w->job.key, "%s", PQgetvalue(result, 0, 0));
    w->job.number = payload_number(PQgetvalue(result, 0, 1), (size_t)PQgetlength(result, 0, 1));
}

static bool answered(struct worker *w)
{
    if (PQconsumeInput(w->link) != 1)
        die("bench: %s", PQerrorMessage(w->link));
    while (PQisBusy(w->link) == 0) {
        PGresult *result = PQgetResult(w->link);
        if (result == NULL)
            return true;
        take_result(w, result);
        PQclear(result);
    }
    return false;
}

static void count_tasks(const char *at, int64_t *waiting, int64_t *held)
{
    PGconn *link = connect_to(at);
    PGresult *result =
        must_succeed(link, PQexec(link, "SELECT count(*) FILTER (WHERE state = 0), "
                                        "count(*) FILTER (WHERE state = 1) FROM task"));
    *waiting = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    *held = strtoll(PQgetvalue(result, 0, 1), NULL, 10);
    PQclear(result);
    PQfinish(link);
}

const struct protocol protocol_postgres = {.name = "postgres",
                                           .fill = fill,
                                           .open = open_link,
                                           .close = close_link,
                                           .ask = ask,
                                           .answered = answered,
                                           .count = count_tasks};

#else

static void fill(const char *at, int64_t first, int64_t count)
{
    (void)at, (void)first, (void)count;
    die("bench: built without libpq (script/bootstrap bench)");
}

const struct protocol protocol_postgres = {.name = "postgres", .fill = fill};

#endif
