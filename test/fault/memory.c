/* SPDX-License-Identifier: MIT */
/*
 * memory.c: every operation with its first, second, third ... request for memory failing, ours and
 * the JSON library's, once and from there on; and with answers' arenas that are nearly full, as
 * an arena asks for memory only now and then.
 *
 * test-timeout: 300
 */
#include "base/log.h"
#include "fault_rows.h"
#include "in_memory.h"

static void once(const struct fault_row *row)
{
    fault_run(row, FAULT_MEMORY, false);
}

static void from_there_on(const struct fault_row *row)
{
    fault_run(row, FAULT_MEMORY, true);
}

static void on_a_new_handle(const struct fault_row *row)
{
    fault_run_cold(row, FAULT_MEMORY, 0);
}

int main(void)
{
    fault_body *const bodies[] = {once, from_there_on, on_a_new_handle, fault_run_full_arena};
    stores_in_memory(); /* the disk is not what fails here */
    faults_install();
    log_set_level(LOG_OFF);
    return fault_tests("fault/memory", "survives the lack of memory at any point", bodies, 4);
}
