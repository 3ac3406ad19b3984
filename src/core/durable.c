/* SPDX-License-Identifier: MIT */
/* durable.c: passes on to the store what durable.h promises; the work is in db_sqlite_sync.c. */
#include "core/durable.h"

#include "core/core.h"

dibs_status dibs__overlap(dibs *d, void (*on_durable)(void *context, int64_t commit), void *context,
                          struct dibs_error *err)
{
    return db_overlap(d->db, on_durable, context, err);
}

void dibs__flush_here(dibs *d, bool here)
{
    db_flush_here(d->db, here);
}

int64_t dibs__commit_number(const dibs *d)
{
    return db_commit_number(d->db);
}

bool dibs__wait_durable(dibs *d, int64_t commit)
{
    return db_wait_durable(d->db, commit);
}

int64_t dibs__last_event(const dibs *d)
{
    return d->last_event;
}
