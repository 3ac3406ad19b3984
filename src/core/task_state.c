/* SPDX-License-Identifier: MIT */
/*
 * task_state.c: what may become of a task. The one table of allowed moves and the one function that
 * changes a status.
 *
 *   created --> open, assigned, offered, or blocked while a dependency is unfinished
 *
 *   open ------- offer --------> offered ----- review (a lease) -----> reviewing
 *   offered <--- review ends --- reviewing
 *   open <------ reject, offeree gone ------- offered, reviewing
 *                accept --------------------- offered, reviewing ----> assigned
 *                assign --------------- open, offered, reviewing ----> assigned
 *
 *   open, or assigned to the claimer ---- claim ----> in_progress
 *   in_progress -- complete --> completed          (late, from open: nobody has claimed since)
 *   in_progress -- fail, expiry, orphan --> open, or failed when the attempts are used up
 *   in_progress -- release, session end --> open, or assigned if it was assigned
 *
 *   open, assigned, in_progress -- block --> blocked
 *   blocked -- unblock, last dependency done --> open, or assigned if it was assigned
 *   any that is not final -- cancel --> cancelled
 *   completed, failed, cancelled -- reopen --> open
 *
 *   Whatever leads to open or assigned leads to blocked while a dependency is unfinished.
 *
 * Promises: `ready` is 1 exactly for open tasks whose time has come. `finished_at` is set exactly
 * in final states. A final state is left by reopen only, which starts a new generation.
 */
#include "core/swarm.h"

#define BIT(status) (1u << DIBS_TASK_##status)
#define FINAL (BIT(COMPLETED) | BIT(FAILED) | BIT(CANCELLED))

static const struct {
    const char *verb;
    unsigned from, to;
} moves[] = {
    [MOVE_CLAIM] = {"claimed", BIT(OPEN) | BIT(ASSIGNED), BIT(IN_PROGRESS)},
    [MOVE_COMPLETE] = {"completed", BIT(IN_PROGRESS) | BIT(OPEN), BIT(COMPLETED)},
    [MOVE_RETRY] = {"failed", BIT(IN_PROGRESS), BIT(OPEN) | BIT(FAILED)},
    [MOVE_GIVE_BACK] = {"released", BIT(IN_PROGRESS), BIT(OPEN) | BIT(ASSIGNED)},
    [MOVE_OFFER] = {"offered", BIT(OPEN), BIT(OFFERED)},
    [MOVE_REVIEW] = {"reviewed", BIT(OFFERED), BIT(REVIEWING)},
    [MOVE_REVIEW_END] = {"offered again", BIT(REVIEWING), BIT(OFFERED)},
    [MOVE_WITHDRAW] = {"withdrawn", BIT(OFFERED) | BIT(REVIEWING), BIT(OPEN)},
    [MOVE_ACCEPT] = {"accepted", BIT(OFFERED) | BIT(REVIEWING), BIT(ASSIGNED)},
    [MOVE_REJECT] = {"rejected", BIT(OFFERED) | BIT(REVIEWING), BIT(OPEN)},
    [MOVE_ASSIGN] = {"assigned", BIT(OPEN) | BIT(OFFERED) | BIT(REVIEWING), BIT(ASSIGNED)},
    [MOVE_BLOCK] = {"blocked", BIT(OPEN) | BIT(ASSIGNED) | BIT(IN_PROGRESS), BIT(BLOCKED)},
    [MOVE_UNBLOCK] = {"unblocked", BIT(BLOCKED), BIT(OPEN) | BIT(ASSIGNED)},
    [MOVE_CANCEL] = {"cancelled", ~FINAL, BIT(CANCELLED)},
    [MOVE_REOPEN] = {"reopened", FINAL, BIT(OPEN)},
};

static const char *const names[] = {
    [DIBS_TASK_OPEN] = "open",
    [DIBS_TASK_OFFERED] = "offered",
    [DIBS_TASK_REVIEWING] = "reviewing",
    [DIBS_TASK_ASSIGNED] = "assigned",
    [DIBS_TASK_IN_PROGRESS] = "in_progress",
    [DIBS_TASK_BLOCKED] = "blocked",
    [DIBS_TASK_COMPLETED] = "completed",
    [DIBS_TASK_FAILED] = "failed",
    [DIBS_TASK_CANCELLED] = "cancelled",
};

const char *dibs_task_status_name(enum dibs_task_status s)
{
    return (size_t)s < COUNT_OF(names) ? names[s] : "unknown";
}

bool dibs_task_status_parse(const char *word, enum dibs_task_status *out)
{
    static const struct {
        const char *word;
        enum dibs_task_status status;
    } aliases[] = {{"unassigned", DIBS_TASK_OPEN},
                   {"pending", DIBS_TASK_OPEN},
                   {"claimed", DIBS_TASK_IN_PROGRESS}};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (!str_eq_nocase(word, names[i]))
            continue;
        *out = (enum dibs_task_status)i;
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(aliases); i++) {
        if (!str_eq_nocase(word, aliases[i].word))
            continue;
        *out = aliases[i].status;
        return true;
    }
    return false;
}

static const struct {
    const char *word;
    int64_t priority, from;
} words[] = {{"critical", 95, 85}, {"high", 75, 63}, {"medium", 50, 38}, {"low", 25, 0}};

bool dibs_priority_parse(const char *word, int64_t *out)
{
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (!str_eq_nocase(word, words[i].word))
            continue;
        *out = words[i].priority;
        return true;
    }
    return str_to_int(word, out) && *out >= PRIORITY_MIN && *out <= PRIORITY_MAX;
}

const char *dibs_priority_word(int64_t priority)
{
    size_t i = 0;
    while (i + 1 < COUNT_OF(words) && priority < words[i].from)
        i++;
    return words[i].word;
}

/* ---- moving ---------------------------------------------------------------------------------- */

bool dibs__task_may(const struct task_row *row, enum task_move move)
{
    return (moves[move].from & (1u << row->status)) != 0;
}

dibs_status dibs__task_check_move(struct tx *tx, const struct task_row *row, enum task_move move)
{
    if (dibs__task_may(row, move))
        return DIBS_OK;
    bool final = dibs__task_is_final(row->status);
    const char *status = dibs_task_status_name(row->status);
    dibs__refuse(tx, final ? DIBS_ALREADY_FINISHED : DIBS_ILLEGAL_TRANSITION,
                 "task '%s' is %s and cannot be %s%s", row->id, status, moves[move].verb,
                 final ? "; reopen it first" : "");
    str_fit(tx->err->task_status, sizeof tx->err->task_status, status);
    return tx->err->code;
}

enum dibs_task_status dibs__task_home(const struct task_row *row)
{
    return row->assignee ? DIBS_TASK_ASSIGNED : DIBS_TASK_OPEN;
}

/* A task that comes back may have to wait by now: it was given a dependency while it was away, or
 * one of them was reopened. */
static enum dibs_task_status or_blocked(struct tx *tx, const struct task_row *row,
                                        enum dibs_task_status to)
{
    bool queued = to == DIBS_TASK_OPEN || to == DIBS_TASK_ASSIGNED;
    return queued && dibs__has_unfinished_dependencies(tx, row->key) ? DIBS_TASK_BLOCKED : to;
}

/* The two moves that every task makes, with the columns that they change and no others: an index is
 * not even looked at when none of its columns is set. What was ready or running is not put off. */
static void save_claimed(struct tx *tx, struct task_row *row)
{
    row->version++;
    row->updated_at = tx->now;
    db_exec(tx->db,
            SQL("UPDATE task SET status = 'in_progress', ready = 0, attempts = $2, version = $3, "
                "last_token = $4, updated_at = $5 WHERE key = $1"),
            DB_ARGS(db_i(row->key), db_i(row->attempts), db_i(row->version), db_i(row->last_token),
                    db_i(row->updated_at)));
}

static void save_completed(struct tx *tx, struct task_row *row)
{
    row->version++;
    row->updated_at = tx->now;
    db_exec(tx->db,
            SQL("UPDATE task SET status = 'completed', version = $2, updated_at = $3, "
                "finished_at = $3, parts = parts | $4 WHERE key = $1"),
            DB_ARGS(db_i(row->key), db_i(row->version), db_i(row->updated_at), db_i(row->parts)));
}

void dibs__task_set_status(struct tx *tx, struct task_row *row, enum task_move move,
                           enum dibs_task_status to)
{
    /* callers have refused what is not allowed; coming here with it is a bug that must not reach
     * the disk */
    if (!dibs__task_may(row, move) || !(moves[move].to & (1u << to))) {
        db_fail(tx->db, DIBS_INTERNAL,
                "a task was about to make a move that the table does not allow");
        return;
    }
    to = or_blocked(tx, row, to);
    bool was_ready = row->ready, was_running = row->status == DIBS_TASK_IN_PROGRESS;
    row->status = to;
    if (to != DIBS_TASK_OFFERED && to != DIBS_TASK_REVIEWING)
        row->offered_at = 0;
    row->finished_at = dibs__task_is_final(to) ? tx->now : 0;
    bool due = row->due_at <= tx->now;
    row->ready = to == DIBS_TASK_OPEN && due;
    if (to != DIBS_TASK_OPEN || due)
        row->due_at = 0;
    if (move == MOVE_CLAIM && was_ready)
        save_claimed(tx, row);
    else if (move == MOVE_COMPLETE && was_running)
        save_completed(tx, row);
    else
        dibs__task_save(tx, row);
}

void dibs__task_add_parts(struct tx *tx, int64_t key, int64_t parts)
{
    db_exec(tx->db, SQL("UPDATE task SET parts = parts | $2 WHERE key = $1 AND parts & $2 <> $2"),
            DB_ARGS(db_i(key), db_i(parts)));
    bool another = tx->parts_key && tx->parts_key != key;
    tx->parts_key = another ? -1 : key; /* several: any row may lack them */
    tx->parts |= parts;
}

/* Those who wait for it, now that it is so. */
static void wake(struct tx *tx, const struct task_row *row)
{
    tx->d->wakes.tasks += row->ready;
    if (row->status == DIBS_TASK_ASSIGNED)
        dibs__wake_agent(tx, row->assignee);
    if (row->status == DIBS_TASK_OFFERED)
        dibs__offers_expect(tx, row);
}

void dibs__task_save(struct tx *tx, struct task_row *row)
{
    row->version++;
    row->updated_at = tx->now;
    wake(tx, row);
    db_exec(tx->db,
            SQL("UPDATE task SET status = $2, ready = $3, attempts = $4, generation = $5, version "
                "= $6, due_at = $7, "
                "assignee = $8, offered_to = $9, last_token = $10, updated_at = $11, finished_at = "
                "$12, parts = parts | $13, offered_at = $14 WHERE key = $1"),
            DB_ARGS(db_i(row->key), db_t(dibs_task_status_name(row->status)), db_i(row->ready),
                    db_i(row->attempts), db_i(row->generation), db_i(row->version),
                    db_i_or_null(row->due_at), db_t(row->assignee), db_t(row->offered_to),
                    db_i_or_null(row->last_token), db_i(row->updated_at),
                    db_i_or_null(row->finished_at), db_i(row->parts),
                    db_i_or_null(row->offered_at)));
}

struct jw *dibs__task_event(struct tx *tx, const char *type, const struct task_row *row,
                            const char *session_id, const char *agent, int64_t held_ms)
{
    struct event_head head = {.type = type,
                              .project = row->project,
                              .task_key = row->key,
                              .session_id = session_id,
                              .agent = agent,
                              .held_ms = held_ms};
    struct jw *w = dibs__event_begin(tx, &head);
    jw_ktext(w, "taskId", row->id);
    jw_ktext(w, "status", dibs_task_status_name(row->status));
    jw_kint(w, "attempts", row->attempts);
    jw_kint(w, "version", row->version);
    jw_ktext_opt(w, "sessionId", session_id);
    jw_ktext_opt(w, "agentId", str_eq(agent, session_id) ? NULL : agent);
    if (held_ms >= 0)
        jw_kint(w, "heldForMs", held_ms);
    jw_ktime_opt(w, "runAfter", row->due_at);
    return w;
}
