/* SPDX-License-Identifier: MIT */
/*
 * serve.h: what a daemon needs of the library beyond dibs.h: deadlines to wake for, time in which
 * it could not hear heartbeats, processes to watch, and whether there is something for those who
 * wait.
 */
#ifndef DIBS_SERVE_H
#define DIBS_SERVE_H

#include "base/base.h"

/* This handle is a daemon's: it sweeps when it likes, so writing calls no longer do (autoCleanup),
 * and who waits for a lock inside a batch leaves a ticket. */
void dibs__serve(dibs *d);
/* Reads the settings again, in the same order of precedence. What cannot be read is logged, and all
 * stay as they were: false. */
bool dibs__reload(dibs *d, struct dibs_strings options);

/* A flush to disk has failed in this process: it must end, and answer nothing more. Any thread. */
bool dibs__is_broken(void);

struct dibs_due {
    int64_t now_ms;  /* store time */
    int64_t next_ms; /* store time of the next thing to do; 0: nothing known */
    bool more;       /* there was more than fits one short transaction: call again soon */
    int64_t expired, locks, warned, promoted, withdrawn; /* done by this call */
};
/*
 * Does what is due: ends leases and locks past their deadline, warns of those about to end
 * (task:claim-expiring), makes tasks ready whose time has come, takes back offers that nobody will
 * answer, counts events into the scores; in portions (at most TEND_BATCH_MAX leases end at once).
 * Reads first (a few microseconds) and takes the write lock only when something is due. Not inside
 * a batch.
 */
dibs_status dibs__tend(dibs *d, dibs_arena *a, struct dibs_due *out, struct dibs_error *err)
    MUST_USE;

/*
 * Time in which the daemon could not hear heartbeats must not count against a lease.
 * dibs__after_downtime, first of all at start, extends every live lease that was held when the
 * daemon was last alive, and not renewed since, by the time since. From then on every transaction
 * of this handle notes that heartbeats are heard; dibs__alive does when there is nothing to write
 * (call every few seconds and at the end). dibs__extend_leases is for a stall: call it before
 * anything is tended to. Each writes one event leases:extended {byMs, count, reason, heldSince}
 * when there was something to extend; the silence of sessions is moved along.
 */
dibs_status dibs__alive(dibs *d, struct dibs_error *err) MUST_USE;
dibs_status dibs__after_downtime(dibs *d, int64_t *by_ms, struct dibs_error *err) MUST_USE;
dibs_status dibs__extend_leases(dibs *d, int64_t by_ms, const char *reason, struct dibs_error *err)
    MUST_USE;

/* A session whose process runs on this host, in this pid namespace. */
struct dibs_local_session {
    const char *id;
    int64_t incarnation, pid;
    const char *start; /* tells the process from a later one with the same pid */
};
struct dibs_local_sessions {
    struct dibs_local_session *items;
    size_t count;
};
dibs_status dibs__sessions_here(dibs *d, dibs_arena *a, struct dibs_local_sessions *out,
                                struct dibs_error *err) MUST_USE;
/* Its process is gone: claims orphaned (process_dead), locks handed over, session ended. Nothing
 * when it has another incarnation by now, or the process lives after all. */
dibs_status dibs__session_process_ended(dibs *d, dibs_arena *a, const char *id, int64_t incarnation,
                                        struct dibs_error *err) MUST_USE;

/*
 * How often, on this handle, a task became ready, an agent got something to look at, a lock was let
 * go or handed over: whoever waits looks again when the number has changed. Of agents it is also
 * known which, so that one event does not make a thousand agents look (wake.c).
 */
struct dibs_wakes {
    int64_t tasks, agents, locks;
};
struct dibs_wakes dibs__wakes(const dibs *d);
/* What a waiter for this agent, or for any lead of the project, is woken by; never 0. */
uint64_t dibs__wake_key(const char *agent_id);
uint64_t dibs__wake_key_leads(const char *project);
/* Whether that was woken since `agents` stood there; true also when that cannot be told any
 * more. */
bool dibs__is_woken(const dibs *d, int64_t since, uint64_t key);

/* Whoever waits must be heard so often, by looking again, not to be taken for silent. */
int64_t dibs__heard_every_ms(const dibs *d);

/* A waiter for a lock that asked inside a batch has left its ticket; this takes it back. */
dibs_status dibs__lock_give_up(dibs *d, const char *resource, const char *session_id,
                               struct dibs_error *err) MUST_USE;

#endif
