/* SPDX-License-Identifier: MIT */
/*
 * sqlite_memory.c: every operation with SQLite's first, second, third ... request for memory
 * failing, once and from there on, and on a handle that has still to prepare its statements. It
 * asks very often: only a DIBS_TEST_SCALE above 1 fails each of the requests.
 *
 * test-timeout: 600
 */
#include "base/log.h"
#include "fault_rows.h"
#include "in_memory.h"

#define POINTS 40

static void once(const struct fault_row *row)
{
    fault_run(row, FAULT_SQLITE_MEMORY, false);
}

static void from_there_on(const struct fault_row *row)
{
    fault_run(row, FAULT_SQLITE_MEMORY, true);
}

static void on_a_new_handle(const struct fault_row *row)
{
    fault_run_cold(row, FAULT_SQLITE_MEMORY, fault_all() ? 0 : POINTS);
}

int main(void)
{
    fault_body *const bodies[] = {once, from_there_on, on_a_new_handle};
    stores_in_memory(); /* the disk is not what fails here */
    faults_install();
    log_set_level(LOG_OFF);
    return fault_tests("fault/sqlite_memory", "survives SQLite's lack of memory", bodies, 3);
}
