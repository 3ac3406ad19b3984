/* SPDX-License-Identifier: MIT */
/*
 * task.c: making tasks and changing what they say. What becomes of them is in task_state.c and
 * claim.c.
 *
 * Several tasks may be created at once, all or none, and may depend on one another in any order:
 * rows first, then dependencies, then each task's first status. A dedupe key that an unfinished
 * task of the project carries returns that task instead of making a second one.
 */
#include "core/swarm.h"

/* ---- checks ---------------------------------------------------------------------------------- */

static dibs_status check_list(struct dibs_error *err, const char *field, struct dibs_strings list,
                              size_t most)
{
    if (list.count > most)
        return error_field(err, field, "has more than %zu entries", most);
    for (size_t i = 0; i < list.count; i++) {
        dibs_status status = dibs__check_required(err, field, list.items[i], WORD_BYTES_MAX);
        if (status != DIBS_OK)
            return status;
    }
    return DIBS_OK;
}

struct text_rule {
    const char *field, *text;
    size_t max;
};

static dibs_status check_texts(struct dibs_error *err, const struct text_rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        dibs_status status = dibs__check_text(err, rules[i].field, rules[i].text, rules[i].max);
        if (status != DIBS_OK)
            return status;
    }
    return DIBS_OK;
}

static dibs_status check_new_texts(struct dibs_error *err, const struct dibs_task_new *in)
{
    const struct text_rule rules[] = {
        {"project", in->project, WORD_BYTES_MAX},
        {"description", in->description, DESCRIPTION_BYTES_MAX},
        {"type", in->type, WORD_BYTES_MAX},
        {"phase", in->phase, WORD_BYTES_MAX},
        {"dedupeKey", in->dedupe_key, KEY_BYTES_MAX},
    };
    dibs_status status = dibs__check_required(err, "title", in->title, TITLE_BYTES_MAX);
    if (status == DIBS_OK)
        status = check_texts(err, rules, COUNT_OF(rules));
    if (status == DIBS_OK && in->assignee)
        status = dibs__check_id(err, "assignee", in->assignee);
    if (status == DIBS_OK && in->offered_to)
        status = dibs__check_id(err, "offeredTo", in->offered_to);
    if (status == DIBS_OK)
        status = json_check(in->params, JSON_VALUE_BYTES_MAX, "params", err);
    if (status == DIBS_OK)
        status = json_check(in->metadata, JSON_VALUE_BYTES_MAX, "metadata", err);
    return status;
}

static dibs_status check_numbers(struct tx *tx, struct dibs_opt priority,
                                 struct dibs_opt max_attempts, int64_t run_after,
                                 int64_t claim_timeout)
{
    dibs_status status = DIBS_OK;
    if (priority.given)
        status = dibs__check_range(tx->err, "priority", priority.value, PRIORITY_MIN, PRIORITY_MAX);
    if (status == DIBS_OK && max_attempts.given)
        status = dibs__check_range(tx->err, "maxAttempts", max_attempts.value, 0, MAX_ATTEMPTS_MAX);
    if (status == DIBS_OK && run_after < 0)
        status = error_field(tx->err, "runAfter", "lies before 1970");
    if (status == DIBS_OK)
        status = dibs__check_ttl(tx, "claimTimeoutMs", claim_timeout);
    return status;
}

static dibs_status check_new(struct tx *tx, const struct dibs_task_new *in)
{
    dibs_status status = in->id ? dibs__check_id(tx->err, "id", in->id) : DIBS_OK;
    if (status == DIBS_OK && in->id && dibs__is_reserved_id(in->id))
        status =
            error_field(tx->err, "id", "'%s' is a word that paths use; choose another", in->id);
    if (status == DIBS_OK)
        status = check_new_texts(tx->err, in);
    if (status == DIBS_OK)
        status = check_numbers(tx, in->priority, in->max_attempts, in->run_after_ms,
                               in->claim_timeout_ms);
    if (status == DIBS_OK)
        status = check_list(tx->err, "tags", in->tags, TAGS_MAX);
    if (status == DIBS_OK && in->assignee && in->offered_to)
        status = error_field(tx->err, "offeredTo", "cannot be given together with assignee");
    return status;
}

/* A task for an agent that nobody knows would wait for ever. */
static dibs_status check_agent(struct tx *tx, const struct dibs_task_new *in)
{
    struct agent_row agent = {0};
    const char *id = in->assignee ? in->assignee : in->offered_to;
    return id ? dibs__agent_load(tx, id, &agent) : DIBS_OK;
}

/* ---- creating -------------------------------------------------------------------------------- */

static const char *next_task_id(struct tx *tx)
{
    const char *id = NULL;
    do { /* somebody may have chosen a number as an id of their own */
        id = dibs__printf(tx, "%" PRId64, dibs__counter_take(tx, COUNTER_TASK, 1));
    } while (id && db_ok(tx->db) &&
             db_value_int(tx->db, 0, SQL("SELECT 1 FROM task WHERE id = $1"), DB_ARGS(db_t(id))) ==
                 1);
    return id;
}

static void insert_row(struct tx *tx, struct task_row *row)
{
    row->key = dibs__counter_take(tx, COUNTER_TASK_KEY, 1);
    tx->d->wakes.tasks += row->ready;
    if (row->assignee)
        dibs__wake_agent(tx, row->assignee);
    if (row->offered_to)
        dibs__offers_expect(tx, row);
    db_exec(
        tx->db,
        SQL("INSERT INTO task (key, id, project, title, type, phase, status, ready, priority, "
            "attempts, "
            "max_attempts, generation, "
            "version, run_after, due_at, claim_timeout, assignee, offered_to, dedupe_key, "
            "created_at, updated_at, parts, offered_at) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, $10, 1, 1, $11, $12, $13, $14, $15, "
            "$16, $17, $17, $18, $19)"),
        DB_ARGS(db_i(row->key), db_t(row->id), db_t(row->project), db_t(row->title),
                db_t(row->type), db_t(row->phase), db_t(dibs_task_status_name(row->status)),
                db_i(row->ready), db_i(row->priority), db_i(row->max_attempts),
                db_i_or_null(row->run_after), db_i_or_null(row->due_at),
                db_i_or_null(row->claim_timeout), db_t(row->assignee), db_t(row->offered_to),
                db_t(row->dedupe_key), db_i(row->created_at), db_i(row->parts),
                db_i_or_null(row->offered_at)));
}

static void insert_body(struct tx *tx, int64_t key, const char *description, const char *params,
                        const char *metadata)
{
    if (description || params || metadata)
        db_exec(tx->db,
                SQL("INSERT INTO task_body (task_key, description, params, metadata) VALUES ($1, "
                    "$2, $3, $4) "
                    "ON CONFLICT (task_key) DO UPDATE SET description = excluded.description, "
                    "params = excluded.params, "
                    "metadata = excluded.metadata"),
                DB_ARGS(db_i(key), db_t(description), db_t(params), db_t(metadata)));
}

static void insert_tags(struct tx *tx, int64_t key, struct dibs_strings tags)
{
    for (size_t i = 0; i < tags.count; i++)
        db_exec(tx->db,
                SQL("INSERT INTO task_tag (task_key, tag) VALUES ($1, $2) ON CONFLICT DO NOTHING"),
                DB_ARGS(db_i(key), db_t(tags.items[i])));
}

static enum dibs_task_status first_status(const struct dibs_task_new *in)
{
    if (in->assignee)
        return DIBS_TASK_ASSIGNED;
    return in->offered_to ? DIBS_TASK_OFFERED : DIBS_TASK_OPEN;
}

static int64_t first_parts(const struct dibs_task_new *in)
{
    bool has_body = in->description || in->params || in->metadata;
    return (has_body ? PART_BODY : 0) | (in->tags.count ? PART_TAGS : 0) |
           (in->depends_on.count ? PART_NEEDS : 0);
}

bool dibs__task_of_key(struct tx *tx, const struct task_row *wanted, struct task_row *out)
{
    struct task_row row = {0};
    if (!wanted->dedupe_key)
        return false;
    struct db_rows *rows = db_query(tx->db,
                                    SQL("SELECT " TASK_COLUMNS
                                        " FROM task t WHERE t.project = $1 AND t.dedupe_key = $2 "
                                        "AND t.finished_at IS NULL"),
                                    DB_ARGS(db_t(wanted->project), db_t(wanted->dedupe_key)));
    bool found = db_next(rows);
    if (found)
        dibs__task_row_read(tx, rows, &row);
    db_done(rows);
    if (!found || !db_ok(tx->db))
        return false;
    dibs__lapse_if_past(tx, &row); /* its last attempt may be over, and the task with it */
    if (dibs__task_is_final(row.status))
        return false;
    *out = row;
    return true;
}

static dibs_status make_row(struct tx *tx, const struct dibs_task_new *in, struct task_row *row,
                            bool *duplicate)
{
    *row = (struct task_row){
        .id = in->id,
        .project = in->project && *in->project ? in->project : "default",
        .title = in->title,
        .type = in->type,
        .phase = in->phase,
        .status = first_status(in),
        .priority = in->priority.given ? in->priority.value : PRIORITY_DEFAULT,
        .max_attempts = in->max_attempts.given ? in->max_attempts.value : MAX_ATTEMPTS_DEFAULT,
        .generation = 1,
        .version = 1,
        .run_after = in->run_after_ms,
        .claim_timeout = in->claim_timeout_ms,
        .assignee = in->assignee,
        .offered_to = in->offered_to,
        .offered_at = in->offered_to ? tx->now : 0,
        .dedupe_key = in->dedupe_key,
        .created_at = tx->now,
        .updated_at = tx->now,
        .parts = first_parts(in),
    };
    *duplicate = dibs__task_of_key(tx, row, row);
    if (*duplicate)
        return DIBS_OK;
    bool taken = row->id && db_value_int(tx->db, 0, SQL("SELECT 1 FROM task WHERE id = $1"),
                                         DB_ARGS(db_t(row->id))) == 1;
    if (taken)
        return dibs__refuse(tx, DIBS_TASK_EXISTS, "there is a task '%s' already", row->id);
    if (!row->id)
        row->id = next_task_id(tx);
    bool open = row->status == DIBS_TASK_OPEN;
    row->due_at = open && row->run_after > tx->now ? row->run_after : 0;
    row->ready = open && !row->due_at;
    insert_row(tx, row);
    insert_body(tx, row->key, in->description, in->params, in->metadata);
    insert_tags(tx, row->key, in->tags);
    return dibs__store_status(tx);
}

static void tell_created(struct tx *tx, const struct task_row *row, const struct dibs_task_new *in)
{
    struct jw *w = dibs__task_event(tx, "task:created", row, NULL, NULL, -1);
    jw_ktext(w, "project", row->project);
    jw_ktext(w, "title", row->title);
    jw_ktext_opt(w, "type", row->type);
    jw_ktext_opt(w, "phase", row->phase);
    jw_kint(w, "priority", row->priority);
    jw_kint(w, "maxAttempts", row->max_attempts);
    jw_kint(w, "generation", row->generation);
    jw_kint_opt(w, "claimTimeoutMs", row->claim_timeout);
    jw_ktime_opt(w, "asksToRunAfter", row->run_after);
    jw_ktext_opt(w, "assignee", row->assignee);
    jw_ktext_opt(w, "offeredTo", row->offered_to);
    jw_ktext_opt(w, "dedupeKey", row->dedupe_key);
    jw_ktext_opt(w, "description", in->description);
    jw_kraw_opt(w, "params", in->params);
    jw_kraw_opt(w, "metadata", in->metadata);
    if (in->tags.count)
        jw_kstrings(w, "tags", in->tags);
    if (in->depends_on.count)
        jw_kstrings(w, "dependsOn", in->depends_on);
    dibs__event_end(tx);
}

/* A task that has to wait for others starts blocked; the row was made as open because others may
 * need its key. */
static dibs_status settle(struct tx *tx, struct task_row *row, const struct dibs_task_new *in)
{
    dibs_status status =
        in->depends_on.count ? dibs__dependencies_set(tx, row, in->depends_on) : DIBS_OK;
    if (status != DIBS_OK)
        return status;
    if (in->depends_on.count && row->status != DIBS_TASK_OFFERED &&
        dibs__has_unfinished_dependencies(tx, row->key)) {
        row->version = 0; /* set_status counts it up again: a new task has version 1 */
        dibs__task_set_status(tx, row, MOVE_BLOCK, DIBS_TASK_BLOCKED);
    }
    tell_created(tx, row, in);
    return dibs__store_status(tx);
}

struct create {
    const struct dibs_task_new *in;
    size_t count;
};

/* In a list the field is named with its place: tasks[3].title */
static dibs_status in_place(struct tx *tx, const struct create *create, size_t i,
                            dibs_status status)
{
    if (status == DIBS_OK || create->count == 1 || dibs_status_is_failure(status))
        return status;
    char field[sizeof tx->err->field], text[sizeof tx->err->message];
    snprintf(field, sizeof field, "tasks[%zu]%s%.30s", i, *tx->err->field ? "." : "",
             tx->err->field);
    snprintf(text, sizeof text, "tasks[%zu]: %.470s", i, tx->err->message);
    str_fit(tx->err->field, sizeof tx->err->field, field);
    str_fit(tx->err->message, sizeof tx->err->message, text);
    return status;
}

static dibs_status create_tx(struct tx *tx, const void *input, void *output)
{
    const struct create *create = input;
    struct dibs_task_list *out = output;
    if (create->count < 1 || create->count > BATCH_TASKS_MAX)
        return error_field(tx->err, "tasks", "must be 1 to %d tasks", BATCH_TASKS_MAX);
    struct task_row *rows = dibs__alloc(tx, sizeof *rows * create->count);
    bool *duplicate = dibs__alloc(tx, sizeof *duplicate * create->count);
    struct dibs_task *items = dibs__alloc(tx, sizeof *items * create->count);
    if (!rows || !duplicate || !items)
        return DIBS_OUT_OF_MEMORY;
    for (size_t i = 0; i < create->count; i++) {
        dibs_status status = check_new(tx, &create->in[i]);
        if (status == DIBS_OK)
            status = check_agent(tx, &create->in[i]);
        if (status == DIBS_OK)
            status = make_row(tx, &create->in[i], &rows[i], &duplicate[i]);
        if (status != DIBS_OK)
            return in_place(tx, create, i, status);
    }
    for (size_t i = 0; i < create->count; i++) {
        dibs_status status = duplicate[i] ? DIBS_OK : settle(tx, &rows[i], &create->in[i]);
        if (status != DIBS_OK)
            return in_place(tx, create, i, status);
    }
    for (size_t i = 0; i < create->count; i++) {
        if (duplicate[i]) /* it may be one of this very call, settled since */
            dibs__task_load_key(tx, rows[i].key, &rows[i]);
        dibs__task_full(tx, &rows[i], &items[i]);
        items[i].deduplicated = duplicate[i];
    }
    *out = (struct dibs_task_list){.items = items, .count = create->count};
    return dibs__store_status(tx);
}

dibs_status dibs_task_create(dibs *d, dibs_arena *a, const struct dibs_task_new *in, size_t count,
                             struct dibs_task_list *out, struct dibs_error *err)
{
    return dibs__write(d, a, err, create_tx, &(struct create){.in = in, .count = count}, out,
                       sizeof *out);
}
