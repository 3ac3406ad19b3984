/* SPDX-License-Identifier: MIT */
/*
 * visits.h: a walk that comes by every operation of ops.def. A test of ops.c fails when a row is
 * left out, so whoever walks here has seen them all.
 */
#ifndef DIBS_TEST_VISITS_H
#define DIBS_TEST_VISITS_H

#include "call.h"

/* One request per row of ops.def, in an order in which each finds what it needs. */
static const struct visit {
    const char *name, *method, *target, *body;
    int http;
} visits[] = {
    {"taskCreate", "POST", "/api/tasks", "{'id': 't', 'title': 'T'}", 201},
    {"taskList", "GET", "/api/tasks", "", 200},
    {"taskGet", "GET", "/api/tasks/t", "", 200},
    {"taskUpdate", "PATCH", "/api/tasks/t", "{'phase': 'p'}", 200},
    {"sessionRegister", "POST", "/api/sessions", "{'id': 's'}", 201},
    {"sessionList", "GET", "/api/sessions", "", 200},
    {"claim", "POST", "/api/tasks/t/claim", "{'sessionId': 's'}", 200},
    {"claimHeartbeat", "POST", "/api/tasks/t/claim/heartbeat", "{'sessionId': 's'}", 200},
    {"progress", "POST", "/api/tasks/t/progress", "{'sessionId': 's', 'percent': 5}", 200},
    {"inFlight", "GET", "/api/tasks/in-flight", "", 200},
    {"claimStats", "GET", "/api/tasks/claims/stats", "", 200},
    {"sessionSummary", "GET", "/api/sessions/summary", "", 200},
    {"sessionCurrentTask", "GET", "/api/sessions/s/current-task", "", 200},
    {"sessionHeartbeat", "POST", "/api/sessions/s/heartbeat", "", 200},
    {"sessionResume", "POST", "/api/sessions/s/resume", "", 200},
    {"release", "POST", "/api/tasks/t/release", "{'sessionId': 's'}", 200},
    {"block", "POST", "/api/tasks/t/block", "{'reason': 'r'}", 200},
    {"unblock", "POST", "/api/tasks/t/unblock", "", 200},
    {"agentRegister", "POST", "/api/agents", "{'name': 'a', 'maxTasks': 2}", 201},
    {"agentList", "GET", "/api/agents", "", 200},
    {"agentGet", "GET", "/api/agents/a", "", 200},
    {"offer", "POST", "/api/tasks/t/offer", "{'agentId': 'a'}", 200},
    {"poll", "GET", "/api/poll?agentId=a", "", 200},
    {"reject", "POST", "/api/tasks/t/reject", "{'agentId': 'a'}", 200},
    {"offer", "POST", "/api/tasks/t/offer", "{'agentId': 'a'}", 200},
    {"accept", "POST", "/api/tasks/t/accept", "{'agentId': 'a'}", 200},
    {"cancel", "POST", "/api/tasks/t/cancel", "{}", 200},
    {"reopen", "POST", "/api/tasks/t/reopen", "{}", 200},
    {"taskCreate", "POST", "/api/tasks", "{'id': 'u', 'title': 'U'}", 201},
    {"assign", "POST", "/api/tasks/u/assign", "{'agentId': 'a'}", 200},
    {"taskCreate", "POST", "/api/tasks", "[{'id': 'v', 'title': 'V'}]", 201},
    {"claimNext", "POST", "/api/tasks/claim", "{'worker_id': 'w', 'count': 9}", 200},
    {"complete", "POST", "/api/tasks/v/complete", "{'sessionId': 'w'}", 200},
    {"taskCreate", "POST", "/api/tasks", "{'id': 'x', 'title': 'X'}", 201},
    {"claim", "POST", "/api/tasks/x/claim", "{'sessionId': 'w'}", 200},
    {"fail", "POST", "/api/tasks/x/fail", "{'sessionId': 'w', 'error': 'e'}", 200},
    {"taskHistory", "GET", "/api/tasks/v/history", "", 200},
    {"claimCleanup", "POST", "/api/tasks/claims/cleanup", "{}", 200},
    {"agentScores", "GET", "/api/agents/scores", "", 200},
    {"lockTake", "POST", "/api/locks", "{'resource': 'r', 'sessionId': 's'}", 200},
    {"lockList", "GET", "/api/locks", "", 200},
    {"lockHeartbeat", "POST", "/api/locks/heartbeat", "{'resource': 'r', 'sessionId': 's'}", 200},
    {"lockRelease", "DELETE", "/api/locks", "{'resource': 'r', 'sessionId': 's'}", 200},
    {"sessionRegister", "POST", "/api/sessions", "{'id': 'quinn-1', 'agentId': 'quinn'}", 201},
    {"channelCreate", "POST", "/api/channels", "{'id': 'ops'}", 201},
    {"channelList", "GET", "/api/channels", "", 200},
    {"channelPost", "POST", "/api/channels/ops/messages", "{'author': 'x', 'content': '@quinn'}",
     201},
    {"channelMessages", "GET", "/api/channels/ops/messages", "", 200},
    {"mentionsClaim", "POST", "/api/mentions/claim", "{'agentId': 'quinn', 'sessionId': 'quinn-1'}",
     200},
    {"mentionsRelease", "POST", "/api/mentions/release",
     "{'agentId': 'quinn', 'sessionId': 'quinn-1'}", 200},
    {"channelRead", "POST", "/api/channels/ops/read", "{'agentId': 'quinn'}", 200},
    {"inboxAdd", "POST", "/api/inbox", "{'id': 'm', 'agentId': 'quinn', 'content': 'c'}", 201},
    {"inboxList", "GET", "/api/inbox", "", 200},
    {"inboxGet", "GET", "/api/inbox/m", "", 200},
    {"inboxClaim", "POST", "/api/inbox/claim", "{'agentId': 'quinn', 'sessionId': 'quinn-1'}", 200},
    {"inboxRelease", "POST", "/api/inbox/m/release", "{'sessionId': 'quinn-1'}", 200},
    {"inboxRead", "POST", "/api/inbox/m/read", "{}", 200},
    {"inboxAdd", "POST", "/api/inbox", "{'id': 'n', 'content': 'c'}", 201},
    {"inboxRespond", "POST", "/api/inbox/n/respond", "{'text': 'yes'}", 200},
    {"inboxAdd", "POST", "/api/inbox", "{'id': 'o', 'content': 'c'}", 201},
    {"inboxDelegate", "POST", "/api/inbox/o/delegate", "{'taskId': 't'}", 200},
    {"noticesAck", "POST", "/api/notices/ack", "{'sessionId': 'quinn-1'}", 200},
    {"noticesRelease", "POST", "/api/notices/release", "{'sessionId': 'quinn-1'}", 200},
    {"keyAdd", "POST", "/api/keys", "{'name': 'n', 'role': 'read'}", 201},
    {"keyList", "GET", "/api/keys", "", 200},
    {"keyRevoke", "DELETE", "/api/keys/KEY", "", 200},
    {"events", "GET", "/api/events", "", 200},
    {"sessionGet", "GET", "/api/sessions/s", "", 200},
    {"sessionDeregister", "DELETE", "/api/sessions/s", "", 200},
};

/* The row of ops.def that a visit reaches; NULL: none. */
static inline const struct api_operation *visited(const struct visit *v)
{
    char path[128];
    snprintf(path, sizeof path, "%.*s", (int)strcspn(v->target, "?"), v->target);
    return api_find(v->method, path);
}

/* The id of the key that was made last. */
static char visited_key[16];

/* Sends a row; KEY at the end of its target stands for the key that was made last. */
static inline void visit(struct world *w, const struct visit *v)
{
    char body[512], target[128];
    size_t length = strlen(v->target);
    bool names_key = length > 3 && strcmp(v->target + length - 3, "KEY") == 0;
    snprintf(target, sizeof target, "%.*s%s", (int)(names_key ? length - 3 : length), v->target,
             names_key ? visited_key : "");
    snprintf(body, sizeof body, "%s", v->body);
    for (char *c = body; *c != '\0'; c++) {
        if (*c == '\'')
            *c = '"';
    }
    call_raw(w, v->method, target, body);
    const char *key = json_string_value(at(w, "key.id"));
    if (key != NULL)
        str_fit(visited_key, sizeof visited_key, key);
}

#endif
