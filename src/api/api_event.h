/* SPDX-License-Identifier: MIT */
/*
 * api_event.h: for the live stream of events, which takes the same query as a page of the journal
 * and tells of each event in the same words.
 */
#ifndef DIBS_API_EVENT_H
#define DIBS_API_EVENT_H

#include "base/arena.h"
#include "base/base.h"

/* Reads the query of GET /api/events; refuses what the page would refuse. The texts live in `a`. */
dibs_status api_event_query(const char *query, dibs_arena *a, struct dibs_event_filter *out,
                            bool *since_given, struct dibs_error *err) MUST_USE;

#endif
