/* SPDX-License-Identifier: MIT */
/*
 * owner.h: what must be known to decide whether a key may touch something: who registered a
 * session, and to which project sessions and tasks belong. Cheap reads, meant to run in the
 * transaction of the operation they guard.
 */
#ifndef DIBS_OWNER_H
#define DIBS_OWNER_H

#include "base/base.h"

struct dibs_session_owner {
    bool exists, ended;
    const char *key_id; /* NULL: registered without a key */
    const char *project;
    const char *agent_id; /* NULL: it belongs to no agent */
};
dibs_status dibs__session_owner(dibs *d, dibs_arena *a, const char *session_id,
                                struct dibs_session_owner *out, struct dibs_error *err) MUST_USE;
/* The session belongs to this key from now on. Registering one makes it nobody's first. */
dibs_status dibs__session_set_owner(dibs *d, dibs_arena *a, const char *session_id,
                                    const char *key_id, struct dibs_error *err) MUST_USE;
/* *project is NULL when there is no such task. */
dibs_status dibs__task_project(dibs *d, dibs_arena *a, const char *task_id, const char **project,
                               struct dibs_error *err) MUST_USE;
/* The same for an agent, by its id or its name. (agent.c) */
dibs_status dibs__agent_project(dibs *d, dibs_arena *a, const char *id, const char **project,
                                struct dibs_error *err) MUST_USE;
dibs_status dibs__agent_project_named(dibs *d, dibs_arena *a, const char *name,
                                      const char **project, struct dibs_error *err) MUST_USE;
/* *project is NULL when there is no such channel. (channel.c) */
dibs_status dibs__channel_project(dibs *d, dibs_arena *a, const char *channel_id,
                                  const char **project, struct dibs_error *err) MUST_USE;
/* *project is NULL when there is no such message. (inbox.c) */
dibs_status dibs__inbox_project(dibs *d, dibs_arena *a, const char *id, const char **project,
                                struct dibs_error *err) MUST_USE;

#endif
