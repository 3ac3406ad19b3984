/* SPDX-License-Identifier: MIT */
/*
 * claim_tags.c: claim-next with tags, when the tasks that have them are few among many.
 *
 * Ready tasks stand in the order of their priority, tags beside them: to find one that has a tag,
 * either the ready tasks are walked until one has it, or the tasks with the tag until one is ready.
 * claim_next.c begins with the first, which ends at once when the tag is common. When it has gone
 * on for long in vain, this file counts both sides, without reading a task, and names the tag to
 * walk by if that is the shorter way.
 *
 * Left out: an index of the ready tasks by tag. It would have to be kept in step with every claim,
 * and pay only where a store has many ready tasks and many finished ones with the tag as well.
 */
#include "core/core.h"

/* Both counts stop there: beyond it either side is long. */
#define COUNT_MAX 1000000
#define COUNT_FIRST 1024

static int64_t count_ready(struct tx *tx, const char *project, int64_t most)
{
    return db_value_int(tx->db, 0,
                        SQL("SELECT count(*) FROM (SELECT 1 FROM task WHERE ready = 1 AND "
                            "project = $1 LIMIT $2) some"),
                        DB_ARGS(db_t(project), db_i(most)));
}

static int64_t count_tagged(struct tx *tx, const char *tag, int64_t most)
{
    return db_value_int(
        tx->db, 0,
        SQL("SELECT count(*) FROM (SELECT 1 FROM task_tag WHERE tag = $1 LIMIT $2) some"),
        DB_ARGS(db_t(tag), db_i(most)));
}

/* The counts go twice as far each time until one side has ended, so the longer one is never counted
 * through. */
const char *dibs__rare_tag(struct tx *tx, const char *project, struct dibs_strings tags)
{
    for (int64_t most = COUNT_FIRST; most <= COUNT_MAX && db_ok(tx->db); most *= 2) {
        const char *rarest = NULL;
        int64_t fewest = most;
        for (size_t i = 0; i < tags.count; i++) {
            int64_t count = count_tagged(tx, tags.items[i], most);
            rarest = count < fewest ? tags.items[i] : rarest;
            fewest = count < fewest ? count : fewest;
        }
        if (rarest)
            return rarest;
        if (count_ready(tx, project, most) < most)
            return NULL;
    }
    return NULL;
}
