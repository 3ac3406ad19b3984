/* SPDX-License-Identifier: MIT */
/*
 * duty.c: see duty.h. Everything here runs on the writer thread; what is due is done between
 * batches, lost time is noticed inside them as well.
 *
 *   1. A lease never ends early: before anything is ended, lost time is given back. The writer may
 *      be stopped in the middle of a batch or of its commit as well as between two turns, so it
 *      looks at the clock after each step of a turn (duty_notice_stall).
 *   2. What is due is found by the store itself (dibs__tend); here is only when to look. While
 *      there is traffic that is every TEND_EVERY_MS, as any request may have made a deadline; when
 *      there is none, exactly at the next one.
 *   3. A failure is logged once and tried again; it never ends the thread.
 */
#include "duty.h"

#include "base/arena.h"
#include "base/log.h"
#include "core/serve.h"

#define TEND_EVERY_MS 20
#define TURN_MS_MAX 1000 /* an idle writer turns at least so often */
#define STALL_MS 3000    /* a turn that took longer was a stall: the machine or we stood still */
#define ALIVE_EVERY_MS 5000
#define RETRY_MS 1000

static void complain(struct duty *k, const char *what, const struct dibs_error *err)
{
    if (!k->complained)
        log_line(LOG_ERROR, "cannot %s: %s", what, err->message);
    k->complained = true;
}

dibs_status duty_begin(struct duty *k, dibs *d, int64_t now_ms, struct dibs_error *err)
{
    *k = (struct duty){.went_on_ms = now_ms, .alive_at_ms = now_ms, .sweep_at_ms = now_ms};
    return dibs__after_downtime(d, &k->extended_ms, err);
}

void duty_notice_stall(struct duty *k, dibs *d, int64_t now_ms)
{
    struct dibs_error err = {0};
    int64_t lost = now_ms - k->went_on_ms;
    k->went_on_ms = now_ms;
    if (lost < STALL_MS)
        return;
    log_line(LOG_WARN, "stood still for %lld ms; leases are extended by that", (long long)lost);
    if (dibs__extend_leases(d, lost, "stall", &err) == DIBS_OK)
        k->extended_ms += lost;
    else
        complain(k, "extend leases", &err);
}

struct duty_mark duty_mark(const struct duty *k)
{
    return (struct duty_mark){.went_on_ms = k->went_on_ms, .extended_ms = k->extended_ms};
}

void duty_undo(struct duty *k, struct duty_mark mark)
{
    k->went_on_ms = mark.went_on_ms;
    k->extended_ms = mark.extended_ms;
}

void duty_look_again(struct duty *k)
{
    if (k->tend_at_ms > k->tended_ms + TEND_EVERY_MS)
        k->tend_at_ms = k->tended_ms + TEND_EVERY_MS;
}

static void tend(struct duty *k, dibs *d, dibs_arena *a, int64_t now_ms)
{
    struct dibs_error err = {0};
    struct dibs_due due = {0};
    dibs_status s = dibs__tend(d, a, &due, &err);
    dibs_arena_reset(a);
    k->tended_ms = now_ms;
    if (s != DIBS_OK) {
        complain(k, "end what is due", &err);
        k->tend_at_ms = now_ms + RETRY_MS;
        return;
    }
    k->complained = false;
    k->tend_at_ms = due.more ? now_ms : INT64_MAX;
    if (!due.more && due.next_ms != 0)
        k->tend_at_ms = now_ms + (due.next_ms > due.now_ms ? due.next_ms - due.now_ms : 1);
}

static void sweep(struct duty *k, dibs *d, int64_t now_ms)
{
    struct dibs_error err = {0};
    bool ran = false;
    int64_t interval = dibs_settings(d)->cleanup_interval_ms;
    k->sweep_at_ms = now_ms + (interval < TURN_MS_MAX ? interval : TURN_MS_MAX);
    if (dibs_settings(d)->auto_cleanup && dibs_maintain(d, &ran, &err) != DIBS_OK)
        complain(k, "sweep", &err);
}

/* alive: writes nothing while nobody is there who could lose something by a crash. */
static void alive(struct duty *k, dibs *d, int64_t now_ms)
{
    struct dibs_error err = {0};
    k->alive_at_ms = now_ms + ALIVE_EVERY_MS;
    if (dibs__alive(d, &err) != DIBS_OK)
        complain(k, "note that the daemon runs", &err);
}

bool duty_is_due(const struct duty *k, int64_t now_ms)
{
    return now_ms >= k->tend_at_ms || now_ms >= k->sweep_at_ms || now_ms >= k->alive_at_ms;
}

void duty_turn(struct duty *k, dibs *d, dibs_arena *a, int64_t now_ms)
{
    if (now_ms >= k->tend_at_ms)
        tend(k, d, a, now_ms);
    if (now_ms >= k->sweep_at_ms)
        sweep(k, d, now_ms);
    if (now_ms >= k->alive_at_ms)
        alive(k, d, now_ms);
}

int64_t duty_next_ms(const struct duty *k)
{
    int64_t next = k->sweep_at_ms; /* at least every TURN_MS_MAX */
    return k->tend_at_ms < next ? k->tend_at_ms : next;
}

void duty_end(struct duty *k, dibs *d)
{
    struct dibs_error err = {0};
    if (dibs__alive(d, &err) != DIBS_OK)
        complain(k, "note that the daemon stops", &err);
}
