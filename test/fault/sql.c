/* SPDX-License-Identifier: MIT */
/*
 * sql.c: every operation with its first, second, third ... SQL call failing, once and from there
 * on. A failed operation says so, changes nothing, and can be repeated on the same handle.
 *
 * test-timeout: 300
 */
#include "base/log.h"
#include "fault_rows.h"
#include "in_memory.h"

static void once(const struct fault_row *row)
{
    fault_run(row, FAULT_SQL, false);
}

static void from_there_on(const struct fault_row *row)
{
    fault_run(row, FAULT_SQL, true);
}

int main(void)
{
    fault_body *const bodies[] = {once, from_there_on};
    stores_in_memory(); /* the disk is not what fails here */
    faults_install();
    log_set_level(LOG_OFF);
    return fault_tests("fault/sql", "survives the failure of any SQL call", bodies, 2);
}
