/* SPDX-License-Identifier: MIT */
/*
 * core_help.h: short words for tests of the core: try_x is one operation whose answer the test
 * looks at (with assert_ok or assert_refused), and a few ways to look at the store from outside.
 */
#ifndef TEST_CORE_HELP_H
#define TEST_CORE_HELP_H

#include "fixture.h"

const char *make_agent_session(struct fixture *f, const char *id, const char *agent);
const char *make_project_session(struct fixture *f, const char *id, const char *project);
int64_t now_ms(struct fixture *f); /* the store's time */

/* Operations of a holder; token 0 names none. What they return on success is thrown away. */
dibs_status try_claim(struct fixture *f, const char *task, const char *session, int64_t ttl_ms);
dibs_status try_heartbeat(struct fixture *f, const char *task, const char *session, int64_t token);
dibs_status try_progress(struct fixture *f, const char *task, const char *session, int64_t token,
                         const char *checkpoint);
dibs_status try_complete(struct fixture *f, const char *task, const char *session, int64_t token,
                         const char *result);
dibs_status try_fail(struct fixture *f, const char *task, const char *session, int64_t token,
                     const char *error);
dibs_status try_release(struct fixture *f, const char *task, const char *session, int64_t token,
                        const char *reason);

/* dibs_task_block, _cancel, _offer ...: agent may be NULL. */
typedef dibs_status move_call(dibs *d, dibs_arena *a, const struct dibs_move *in,
                              struct dibs_task *out, struct dibs_error *err);
dibs_status try_move(struct fixture *f, move_call *call, const char *task, const char *agent);
/* Takes the offer under review, as the session of its agent. */
dibs_status try_review(struct fixture *f, const char *task, const char *session);

/* One task of one call; what is refused is said in f->err. */
dibs_status try_create(struct fixture *f, struct dibs_task_new in);
/* The id of the task that claim-next gives; "" when there is nothing to claim. */
const char *claim_any(struct fixture *f, struct dibs_claim_next in);

/* A number in an event's data; the test fails when there is none. */
int64_t event_int(struct fixture *f, const struct dibs_event *e, const char *field);
struct dibs_history get_history(struct fixture *f, const char *task);
/* Every row about tasks and claims as text: the same before and after when nothing has changed. */
const char *rows_of(struct fixture *f);
int64_t query_int(struct fixture *f, const char *sql);
/* Whether the data file itself refuses this statement. */
bool is_refused_by_the_file(struct fixture *f, const char *sql);

/* The list as words with a blank between them, and the same of tasks. */
const char *words(struct fixture *f, struct dibs_strings list);
const char *ids(struct fixture *f, const struct dibs_task_list *list);
/* `count` times the character. */
const char *repeated(struct fixture *f, char c, size_t count);

#define assert_status(f, task, expected)                                                           \
    assert_string_equal(dibs_task_status_name(get_task(f, task).status), expected)
#define assert_event_count(f, type, expected) assert_int_equal(events_of(f, type).count, expected)

#endif
