/* SPDX-License-Identifier: MIT */
/*
 * openapi_replies.c: what each operation answers: the members of its success, and the refusals that
 * are its own. Those that any operation may answer are in openapi.c.
 *
 * One row per row of ops.def; the test of the description fails when one is missing, when an answer
 * has a member that its row does not have, and when a refusal is answered that its row does not
 * name.
 */
#include "openapi_schemas.h"

#define ONE(name, of, doc)                                                                         \
    {                                                                                              \
        name, MEMBER_ONE, MEMBER_ALWAYS, of, doc                                                   \
    }
#define LIST(name, of, doc)                                                                        \
    {                                                                                              \
        name, MEMBER_LIST, MEMBER_ALWAYS, of, doc                                                  \
    }
#define MUST(name, kind, doc)                                                                      \
    {                                                                                              \
        name, MEMBER_##kind, MEMBER_ALWAYS, NULL, doc                                              \
    }
#define MAY(name, kind, doc)                                                                       \
    {                                                                                              \
        name, MEMBER_##kind, 0, NULL, doc                                                          \
    }

#define MEMBERS(...)                                                                               \
    (const struct member[]){__VA_ARGS__}, COUNT_OF(((const struct member[]){__VA_ARGS__}))
#define REFUSALS(...)                                                                              \
    (const dibs_status[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, DIBS_OK                                                                       \
    }
#define NO_REFUSALS                                                                                \
    (const dibs_status[])                                                                          \
    {                                                                                              \
        DIBS_OK                                                                                    \
    }

#define TASK ONE("task", "Task", "The task as it is now")
#define CLAIM ONE("claim", "Claim", "The claim as it is now")
#define MESSAGE ONE("message", "Message", "The message as it is now")
#define CURSOR MAY("nextCursor", TEXT, "There is more: ask again with this as cursor")
#define NEXT                                                                                       \
    {                                                                                              \
        "next", MEMBER_ONE, MEMBER_NULL, "Granted",                                                \
            "When claimNext was asked for: the next task; null: there is none"                     \
    }

/* of whoever speaks as the holder of a task */
#define HOLDER_REFUSALS                                                                            \
    DIBS_TASK_NOT_FOUND, DIBS_SESSION_NOT_FOUND, DIBS_TASK_NOT_CLAIMED, DIBS_NOT_CLAIM_OWNER,      \
        DIBS_STALE_TOKEN, DIBS_CLAIM_EXPIRED
#define MOVE_REFUSALS DIBS_TASK_NOT_FOUND, DIBS_ILLEGAL_TRANSITION, DIBS_ALREADY_FINISHED
#define READER_REFUSALS DIBS_AGENT_NOT_FOUND, DIBS_SESSION_NOT_FOUND
#define ANSWER_REFUSALS                                                                            \
    DIBS_MESSAGE_NOT_FOUND, DIBS_NOT_CLAIM_OWNER, DIBS_STALE_TOKEN, DIBS_ALREADY_ANSWERED
#define LOCK_REFUSALS DIBS_SESSION_NOT_FOUND, DIBS_LOCK_NOT_HELD, DIBS_STALE_TOKEN

static const struct reply replies[] = {
    {"taskCreate", "tasks", 201, 200,
     MEMBERS({"task", MEMBER_ONE, 0, "Task", "When one was sent; 200: it was there already"},
             {"tasks", MEMBER_LIST, 0, "Task", "When a list was sent, in its order"}),
     REFUSALS(DIBS_TASK_EXISTS, DIBS_TASK_NOT_FOUND, DIBS_DEPENDENCY_CYCLE, DIBS_AGENT_NOT_FOUND)},
    {"taskList", "tasks", 200, 0,
     MEMBERS(LIST("tasks", "Task", "In the order of creation"), CURSOR), NO_REFUSALS},
    {"taskGet", "tasks", 200, 0, MEMBERS(TASK), REFUSALS(DIBS_TASK_NOT_FOUND)},
    {"taskUpdate", "tasks", 200, 0, MEMBERS(TASK),
     REFUSALS(DIBS_TASK_NOT_FOUND, DIBS_VERSION_CONFLICT, DIBS_DEPENDENCY_CYCLE)},
    {"taskHistory", "tasks", 200, 0,
     MEMBERS(MUST("taskId", TEXT, "The task"), LIST("events", "Event", "Oldest first"),
             LIST("attempts", "Claim", "Oldest first")),
     REFUSALS(DIBS_TASK_NOT_FOUND)},

    {"claim", "claims", 200, 0, MEMBERS(CLAIM),
     REFUSALS(DIBS_TASK_NOT_FOUND, DIBS_SESSION_NOT_FOUND, DIBS_TASK_ALREADY_CLAIMED,
              DIBS_TASK_NOT_CLAIMABLE)},
    {"claimNext", "claims", 200, 0,
     MEMBERS(ONE("task", "ClaimedTask", "The first of them"),
             {"tasks", MEMBER_LIST, 0, "ClaimedTask", "All of them, when count was given"},
             MUST("message", TEXT, "For people")),
     REFUSALS(DIBS_NOTHING_TO_CLAIM)},
    {"claimHeartbeat", "claims", 200, 0, MEMBERS(CLAIM), REFUSALS(HOLDER_REFUSALS)},
    {"release", "claims", 200, 0, MEMBERS(ONE("released", "Released", "What was given back"), TASK),
     REFUSALS(HOLDER_REFUSALS, DIBS_ALREADY_FINISHED)},
    {"progress", "claims", 200, 0, MEMBERS(CLAIM), REFUSALS(HOLDER_REFUSALS)},
    {"complete", "claims", 200, 0, MEMBERS(TASK, NEXT),
     REFUSALS(HOLDER_REFUSALS, DIBS_ALREADY_FINISHED)},
    {"fail", "claims", 200, 0, MEMBERS(TASK, NEXT),
     REFUSALS(HOLDER_REFUSALS, DIBS_ALREADY_FINISHED)},
    {"inFlight", "claims", 200, 0,
     MEMBERS(LIST("inFlight", "InFlight", "Oldest claim first"),
             ONE("summary", "InFlightSummary", "Counted")),
     NO_REFUSALS},
    {"claimStats", "claims", 200, 0, MEMBERS(ONE("stats", "ClaimStats", "The numbers")),
     NO_REFUSALS},
    {"claimCleanup", "claims", 200, 0, MEMBERS(ONE("cleaned", "Cleaned", "What was done")),
     REFUSALS(DIBS_SESSION_NOT_FOUND)},

    {"block", "tasks", 200, 0, MEMBERS(TASK),
     REFUSALS(HOLDER_REFUSALS, DIBS_ILLEGAL_TRANSITION, DIBS_ALREADY_FINISHED)},
    {"unblock", "tasks", 200, 0, MEMBERS(TASK), REFUSALS(MOVE_REFUSALS)},
    {"cancel", "tasks", 200, 0, MEMBERS(TASK), REFUSALS(MOVE_REFUSALS)},
    {"reopen", "tasks", 200, 0, MEMBERS(TASK), REFUSALS(MOVE_REFUSALS)},
    {"offer", "tasks", 200, 0, MEMBERS(TASK), REFUSALS(MOVE_REFUSALS, DIBS_AGENT_NOT_FOUND)},
    {"accept", "tasks", 200, 0, MEMBERS(TASK), REFUSALS(MOVE_REFUSALS)},
    {"reject", "tasks", 200, 0, MEMBERS(TASK), REFUSALS(MOVE_REFUSALS)},
    {"assign", "tasks", 200, 0, MEMBERS(TASK), REFUSALS(MOVE_REFUSALS, DIBS_AGENT_NOT_FOUND)},

    {"sessionRegister", "sessions", 201, 200,
     MEMBERS(ONE("session", "Session", "200: it was registered before")), NO_REFUSALS},
    {"sessionList", "sessions", 200, 0,
     MEMBERS(LIST("sessions", "Session", "In the order of registration"), CURSOR), NO_REFUSALS},
    {"sessionSummary", "sessions", 200, 0,
     MEMBERS(ONE("globalMetrics", "GlobalMetrics", "All at a glance"),
             LIST("sessions", "SessionCard", "Those that have not ended"),
             LIST("recentCompletions", "Completion", "Newest first, at most 10"),
             MUST("timestamp", TIME, "When this was so")),
     NO_REFUSALS},
    {"sessionGet", "sessions", 200, 0, MEMBERS(ONE("session", "SessionDetail", "The session")),
     REFUSALS(DIBS_SESSION_NOT_FOUND)},
    {"sessionDeregister", "sessions", 200, 0,
     MEMBERS(MUST("sessionId", TEXT, "The session"), MUST("deregistered", BOOL, "true"),
             MUST("claimsReleased", INT, "Tasks, messages and the like that were given back"),
             MUST("locksReleased", INT, "Locks that were given back")),
     REFUSALS(DIBS_SESSION_NOT_FOUND)},
    {"sessionHeartbeat", "sessions", 200, 0,
     MEMBERS(ONE("session", "Session", "The session"),
             LIST("claims", "Held", "What it still holds, with new deadlines"),
             LIST("lost", "Held", "What it has lost since the last time; each is told once"),
             MUST("cancelRequested", TEXTS, "Tasks that were cancelled; each is told once"),
             MAY("unreadMessages", INT, "Of a session of an agent: messages that nobody is at"),
             MAY("unreadMentions", INT, "Of a session of an agent: mentions it has not read")),
     REFUSALS(DIBS_SESSION_NOT_FOUND)},
    {"sessionResume", "sessions", 200, 0,
     MEMBERS(LIST("resumed", "Granted", "What it has again, under new tokens"),
             LIST("gone", "Claim", "What is lost for good")),
     REFUSALS(DIBS_SESSION_NOT_FOUND)},
    {"sessionCurrentTask", "sessions", 200, 0,
     MEMBERS(MUST("sessionId", TEXT, "The session"),
             {"currentTask", MEMBER_ONE, MEMBER_ALWAYS | MEMBER_NULL, "CurrentTask",
              "Its newest claim; null: it has none"}),
     REFUSALS(DIBS_SESSION_NOT_FOUND)},

    {"agentRegister", "agents", 201, 200,
     MEMBERS(ONE("agent", "Agent", "200: it was known before")), REFUSALS(DIBS_AGENT_EXISTS)},
    {"agentList", "agents", 200, 0,
     MEMBERS(LIST("agents", "Agent", "In the order in which they became known")), NO_REFUSALS},
    {"agentGet", "agents", 200, 0, MEMBERS(ONE("agent", "Agent", "The agent")),
     REFUSALS(DIBS_AGENT_NOT_FOUND)},
    {"poll", "agents", 200, 0,
     MEMBERS({"trigger", MEMBER_ONE, MEMBER_ALWAYS | MEMBER_NULL, "Trigger",
              "What there is to do; null: nothing"},
             MAY("nextPollMs", INT, "With null: nothing is known to happen before that"),
             MUST("sessionId", TEXT, "Who holds what was handed out")),
     REFUSALS(DIBS_AGENT_NOT_FOUND)},
    {"agentScores", "agents", 200, 0, MEMBERS(LIST("scores", "Score", "Most completed first")),
     NO_REFUSALS},

    {"inboxAdd", "inbox", 201, 0, MEMBERS(MESSAGE), REFUSALS(DIBS_AGENT_NOT_FOUND)},
    {"inboxList", "inbox", 200, 0,
     MEMBERS(LIST("messages", "Message", "In the order of arrival"), CURSOR), NO_REFUSALS},
    {"inboxGet", "inbox", 200, 0, MEMBERS(MESSAGE), REFUSALS(DIBS_MESSAGE_NOT_FOUND)},
    {"inboxClaim", "inbox", 200, 0,
     MEMBERS(MUST("count", INT, "So many are claimed"),
             LIST("messages", "Message", "Oldest first, each with its claim")),
     REFUSALS(DIBS_AGENT_NOT_FOUND, DIBS_SESSION_NOT_FOUND, DIBS_NOTHING_TO_CLAIM)},
    {"inboxRead", "inbox", 200, 0, MEMBERS(MESSAGE),
     REFUSALS(ANSWER_REFUSALS, DIBS_SESSION_NOT_FOUND)},
    {"inboxRespond", "inbox", 200, 0, MEMBERS(MESSAGE),
     REFUSALS(ANSWER_REFUSALS, DIBS_SESSION_NOT_FOUND)},
    {"inboxDelegate", "inbox", 200, 0, MEMBERS(MESSAGE, TASK),
     REFUSALS(ANSWER_REFUSALS, DIBS_SESSION_NOT_FOUND, DIBS_TASK_NOT_FOUND, DIBS_TASK_EXISTS,
              DIBS_DEPENDENCY_CYCLE, DIBS_AGENT_NOT_FOUND)},
    {"inboxRelease", "inbox", 200, 0, MEMBERS(MESSAGE), REFUSALS(ANSWER_REFUSALS)},
    {"noticesAck", "inbox", 200, 0, MEMBERS(MUST("acked", INT, "So many count as told by this")),
     REFUSALS(DIBS_SESSION_NOT_FOUND)},
    {"noticesRelease", "inbox", 200, 0,
     MEMBERS(MUST("released", INT, "So many of them the session held")),
     REFUSALS(DIBS_SESSION_NOT_FOUND)},

    {"channelCreate", "channels", 201, 200,
     MEMBERS(ONE("channel", "Channel", "200: it was there already")), NO_REFUSALS},
    {"channelList", "channels", 200, 0,
     MEMBERS(LIST("channels", "Channel", "In the order in which they were made")), NO_REFUSALS},
    {"channelPost", "channels", 201, 0,
     MEMBERS(ONE("message", "Post", "As it stands in the channel")),
     REFUSALS(DIBS_CHANNEL_NOT_FOUND, DIBS_MESSAGE_NOT_FOUND)},
    {"channelMessages", "channels", 200, 0,
     MEMBERS(LIST("messages", "Post", "In the order of posting"), CURSOR),
     REFUSALS(DIBS_CHANNEL_NOT_FOUND)},
    {"channelRead", "channels", 200, 0,
     MEMBERS(LIST("messages", "Post", "What the agent had not read, oldest first; now it has"),
             MAY("nextCursor", TEXT, "There is more: read again")),
     REFUSALS(DIBS_CHANNEL_NOT_FOUND, READER_REFUSALS, DIBS_NOT_CLAIM_OWNER)},
    {"mentionsClaim", "channels", 200, 0,
     MEMBERS(MUST("mentionsCount", INT, "Unread mentions in all of them"),
             MUST("claimedChannels", TEXTS, "The channels"),
             LIST("channels", "Mentions", "The same with what was claimed")),
     REFUSALS(READER_REFUSALS, DIBS_NOTHING_TO_CLAIM)},
    {"mentionsRelease", "channels", 200, 0,
     MEMBERS(MUST("released", INT, "So many claims have ended")),
     REFUSALS(DIBS_CHANNEL_NOT_FOUND, READER_REFUSALS, DIBS_NOT_CLAIM_OWNER)},

    {"lockTake", "locks", 200, 0, MEMBERS(ONE("lock", "Lock", "The lock")),
     REFUSALS(DIBS_SESSION_NOT_FOUND, DIBS_LOCK_HELD)},
    {"lockList", "locks", 200, 0, MEMBERS(LIST("locks", "Lock", "Locks that are held")),
     NO_REFUSALS},
    {"lockHeartbeat", "locks", 200, 0, MEMBERS(ONE("lock", "Lock", "The lock as it is now")),
     REFUSALS(LOCK_REFUSALS)},
    {"lockRelease", "locks", 200, 0,
     MEMBERS(ONE("released", "ReleasedLock", "What was given back")), REFUSALS(LOCK_REFUSALS)},

    {"keyAdd", "keys", 201, 0,
     MEMBERS(ONE("key", "ApiKey", "The key, without its secret"),
             MUST("apiKey", TEXT, "What to send as X-API-Key; shown this once")),
     NO_REFUSALS},
    {"keyList", "keys", 200, 0, MEMBERS(LIST("keys", "ApiKey", "Also those that were revoked")),
     NO_REFUSALS},
    {"keyRevoke", "keys", 200, 0, MEMBERS(ONE("key", "ApiKey", "The key")),
     REFUSALS(DIBS_KEY_NOT_FOUND)},

    {"events", "events", 200, 0,
     MEMBERS(LIST("events", "Event", "In the order in which they happened"),
             MUST("firstKept", INT, "Number of the oldest event still there"),
             MUST("last", INT, "Number of the newest event"),
             MAY("resync", BOOL, "Some were missed and are gone: read the objects afresh")),
     NO_REFUSALS},
};

const struct reply *openapi_replies(size_t *count)
{
    *count = COUNT_OF(replies);
    return replies;
}

static const struct tag tags[] = {
    {"tasks", "Pieces of work: create, look, change, steer"},
    {"claims", "Taking tasks and reporting on them"},
    {"sessions", "The processes that hold claims"},
    {"agents", "Leads and workers, what each should do next, what the journal says of them"},
    {"inbox", "Messages from outside, and notices of finished tasks"},
    {"channels", "Channels, their messages, and mentions of agents"},
    {"locks", "Named locks"},
    {"keys", "API keys"},
    {"events", "The journal, page by page or live"},
    {"server", "The daemon itself"},
};

const struct tag *openapi_tags(size_t *count)
{
    *count = COUNT_OF(tags);
    return tags;
}
