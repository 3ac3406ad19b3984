/* SPDX-License-Identifier: MIT */
/*
 * openapi_schemas.c: the objects that answers are made of, member by member.
 *
 * Written by hand, beside the encoders that it describes (encode.c and the api_*.c): whoever adds a
 * member there adds a line here, and the test of this file fails until it is done. MUST is always
 * there, MAY can be left out.
 *
 * What operations take is not here: it is written out from the tables that decode it.
 */
#include "openapi_schemas.h"

#define MUST(name, kind, doc)                                                                      \
    {                                                                                              \
        name, MEMBER_##kind, MEMBER_ALWAYS, NULL, doc                                              \
    }
#define MAY(name, kind, doc)                                                                       \
    {                                                                                              \
        name, MEMBER_##kind, 0, NULL, doc                                                          \
    }
#define NULLABLE(name, kind, doc)                                                                  \
    {                                                                                              \
        name, MEMBER_##kind, MEMBER_ALWAYS | MEMBER_NULL, NULL, doc                                \
    }
#define MUST_OF(name, kind, of, doc)                                                               \
    {                                                                                              \
        name, MEMBER_##kind, MEMBER_ALWAYS, of, doc                                                \
    }
#define MAY_OF(name, kind, of, doc)                                                                \
    {                                                                                              \
        name, MEMBER_##kind, 0, of, doc                                                            \
    }

/* ---- words ----------------------------------------------------------------------------------- */

static const char *const task_status_words[] = {"open",        "offered", "reviewing", "assigned",
                                                "in_progress", "blocked", "completed", "failed",
                                                "cancelled",   NULL};
static const char *const health_words[] = {"expired", "stale",   "critical",
                                           "warning", "healthy", NULL};
static const char *const session_status_words[] = {"active", "stale", "ended", NULL};
static const char *const lock_mode_words[] = {"exclusive", "shared", NULL};
static const char *const claim_kind_words[] = {"task",     "review", "lock", "inbox",
                                               "mentions", "notice", NULL};
static const char *const agent_status_words[] = {"idle", "busy", "offline", NULL};
static const char *const trigger_words[] = {
    "task_offered",   "task_assigned",        "slack_inbox_message", "unread_mentions",
    "tasks_finished", "pool_tasks_available", "pool_task_claimed",   NULL};
static const char *const inbox_status_words[] = {"unread",    "processing", "read",
                                                 "responded", "delegated",  NULL};
static const char *const role_words[] = {"read", "worker", "admin", NULL};
static const char *const code_words[] = {
#define STATUS(number, name, http, exit, kind, sentence) #name,
#include "base/status.def"
#undef STATUS
    NULL};

/* ---- tasks and claims ------------------------------------------------------------------------ */

static const struct member task[] = {
    MUST("id", TEXT, "Chosen by whoever created it, else a number"),
    MUST("project", TEXT, "Name space of the task"),
    MUST("title", TEXT, "What is to be done, in one line"),
    MAY("description", TEXT, "What is to be done, at length"),
    MAY("type", TEXT, "Kind of work"),
    MAY("phase", TEXT, "Phase of the project it is part of"),
    MUST_OF("status", ONE, "TaskStatus", "Where it stands"),
    MUST("priority", INT, "0 to 100; larger is sooner"),
    MUST("tags", TEXTS, "Words to filter by"),
    MAY("params", JSON, "What the worker needs to know"),
    MAY("metadata", JSON, "Whatever the caller likes"),
    MUST("dependsOn", TEXTS, "Tasks that must be completed before this one can be claimed"),
    MAY("waitingOn", TEXTS, "Those of dependsOn that are not completed"),
    MAY("failedDependencies", TEXTS, "Those of dependsOn that will not finish by themselves"),
    MAY("assignee", TEXT, "Agent that it is assigned to"),
    MAY("offeredTo", TEXT, "Agent that it is offered to"),
    MAY("offeredAt", TIME, "Since when it is offered to it"),
    MAY("rejectionReason", TEXT, "Why the last offer was rejected"),
    MAY("blockReason", TEXT, "Why it was blocked by hand"),
    MAY("runAfter", TIME, "Not to be claimed before this time"),
    MUST("attempts", INT, "Claims so far, in this generation"),
    MUST("maxAttempts", INT, "Claims after which it counts as failed; 0: no limit"),
    MUST("generation", INT, "1, and one more after each reopen"),
    MUST("version", INT, "Grows with every change"),
    MAY("claimTimeoutMs", INT, "Lease of a claim that names none"),
    MAY("dedupeKey", TEXT, "No two unfinished tasks of a project have the same"),
    MUST("createdAt", TIME, "When it was created"),
    MUST("updatedAt", TIME, "When it last changed"),
    MAY("finishedAt", TIME, "When it was completed, failed or cancelled"),
    MAY("notifiedAt", TIME, "When a lead was told that it is finished"),
    MAY("result", JSON, "What came of it"),
    MAY("error", TEXT, "What went wrong last"),
    MAY("deduplicated", BOOL, "It was already there under its dedupeKey"),
    MAY_OF("claim", ONE, "Claim", "Who holds it now"),
};

static const struct member progress[] = {
    MAY("percent", INT, "How much is done"),
    MAY("message", TEXT, "What is being done"),
};

static const struct member claim[] = {
    MUST_OF("kind", ONE, "ClaimKind", "task, or review of an offer"),
    MUST("taskId", TEXT, "The task"),
    MUST("sessionId", TEXT, "The session that holds it"),
    MUST("token", INT, "Larger than that of every claim before it"),
    MUST("claimedAt", TIME, "When it was taken"),
    MUST("expiresAt", TIME, "When the lease ends without a heartbeat"),
    MUST("lastHeartbeat", TIME, "When its holder was last heard of"),
    MUST("heartbeatCount", INT, "Heartbeats so far"),
    MUST("ttlMs", INT, "What a heartbeat extends it by"),
    MAY("agentType", TEXT, "Kind of agent that holds it"),
    MAY("agentId", TEXT, "Agent that holds it"),
    MAY("remainingMs", INT, "While live: what is left of the lease"),
    MAY_OF("healthStatus", ONE, "Health", "While live: how it stands with the lease"),
    MAY("endedAt", TIME, "When it ended"),
    MAY("endReason", TEXT, "How it ended: completed, failed, expired, orphaned, released, ..."),
    MAY("heldMs", INT, "How long it was held"),
    MAY("lateResult", JSON, "What its holder sent after it had lost the claim"),
    MUST("attempt", INT, "Which attempt at the task this is"),
    MUST("generation", INT, "Which generation of the task it belongs to"),
    MUST("incarnation", INT, "Which registration of the session took it"),
    MAY("extended", BOOL, "The session held it already; the lease was extended"),
    MAY_OF("progress", ONE, "Progress", "What its holder told last"),
    MAY("checkpoint", JSON, "Where to go on; of a fresh claim: what the attempt before left"),
    MAY("metadata", JSON, "Whatever the caller likes"),
};

static const struct member lock[] = {
    MUST_OF("kind", ONE, "ClaimKind", "lock"),
    MUST("resource", TEXT, "Name of the lock"),
    MUST_OF("mode", ONE, "LockMode", "Alone, or with other shared holders"),
    MUST("sessionId", TEXT, "The session that holds it"),
    MUST("token", INT, "Larger than that of every claim before it"),
    MUST("acquiredAt", TIME, "When it was taken"),
    MUST("expiresAt", TIME, "When it ends without a heartbeat"),
    MUST("lastHeartbeat", TIME, "When its holder was last heard of"),
    MUST("heartbeatCount", INT, "Heartbeats so far"),
    MUST("ttlMs", INT, "What a heartbeat extends it by"),
    MAY("remainingMs", INT, "While live: what is left of it"),
    MAY_OF("healthStatus", ONE, "Health", "While live: how it stands with it"),
    MAY("endedAt", TIME, "When it ended"),
    MAY("endReason", TEXT, "How it ended"),
    MAY("heldMs", INT, "How long it was held"),
    MAY("extended", BOOL, "The session held it already; it was extended"),
};
static const struct member subject_claim[] = {
    MUST_OF("kind", ONE, "ClaimKind", "inbox, mentions or notice"),
    MUST("resource", TEXT, "Id of the message, agent/channel, or id of the finished task"),
    MUST("sessionId", TEXT, "The session that holds it"),
    MUST("token", INT, "Larger than that of every claim before it"),
    MUST("claimedAt", TIME, "When it was taken"),
    MUST("expiresAt", TIME, "When the lease ends without a heartbeat"),
    MUST("lastHeartbeat", TIME, "When its holder was last heard of"),
    MUST("heartbeatCount", INT, "Heartbeats so far"),
    MUST("ttlMs", INT, "What a heartbeat extends it by"),
    MAY("agentType", TEXT, "Kind of agent that holds it"),
    MAY("agentId", TEXT, "Agent that holds it"),
    MAY("remainingMs", INT, "While live: what is left of the lease"),
    MAY_OF("healthStatus", ONE, "Health", "While live: how it stands with the lease"),
    MAY("endedAt", TIME, "When it ended"),
    MAY("endReason", TEXT, "How it ended"),
    MAY("heldMs", INT, "How long it was held"),
};
static const char *const held[] = {"Claim", "Lock", "SubjectClaim", NULL};

static const struct member lock_released[] = {
    MUST("resource", TEXT, "Name of the lock"),
    MUST_OF("mode", ONE, "LockMode", "How it was held"),
    MUST("sessionId", TEXT, "The session that held it"),
    MUST("token", INT, "Its token"),
    MUST("heldMs", INT, "How long it was held"),
};

static const struct member granted[] = {
    MUST_OF("task", ONE, "Task", "The task"),
    MUST_OF("claim", ONE, "Claim", "The claim on it"),
};

static const struct member released[] = {
    MUST("taskId", TEXT, "The task"),
    MUST("reason", TEXT, "Why it was given back"),
    MUST("claimDuration", INT, "How long it was held, in milliseconds"),
};

static const struct member claimed_task[] = {
    MUST("id", ID, "A number when the id is one, else text"),
    NULLABLE("task_type", TEXT, "Kind of work"),
    MUST("status", TEXT, "claimed"),
    MUST("params", JSON, "What the worker needs to know"),
    MUST("priority", INT, "0 to 100; larger is sooner"),
    MUST("attempts", INT, "Claims so far, this one included"),
    MUST("max_attempts", INT, "Claims after which it counts as failed; 0: no limit"),
    MUST("worker_id", TEXT, "The session that holds it"),
    MUST("claimed_at", TIME, "When it was claimed"),
    MUST("created_at", TIME, "When it was created"),
    MUST("title", TEXT, "What is to be done, in one line"),
    MAY("description", TEXT, "What is to be done, at length"),
    MUST("token", INT, "Token of the claim"),
    MUST("expires_at", TIME, "When the lease ends without a heartbeat"),
    MUST("project", TEXT, "Name space of the task"),
    MUST("tags", TEXTS, "Words to filter by"),
    MAY("checkpoint", JSON, "What the attempt before left behind"),
};

static const struct member flight_task[] = {
    MUST("title", TEXT, "What is to be done, in one line"),
    MAY("phase", TEXT, "Phase of the project it is part of"),
    MAY("type", TEXT, "Kind of work"),
    MUST("priority", TEXT, "The nearest word: critical, high, medium, low"),
    MUST("priorityValue", INT, "0 to 100; larger is sooner"),
};
static const struct member in_flight[] = {
    MUST("taskId", TEXT, "The task"),
    MUST_OF("task", ONE, "InFlightTask", "What it is about"),
    MUST_OF("claim", ONE, "Claim", "Who holds it"),
};
static const struct member in_flight_summary[] = {
    MUST("total", INT, "Claims there are, also beyond the listed ones"),
    MUST("bySession", COUNTS, "Listed claims of each session"),
};

static const struct member totals[] = {
    MUST("claimed", INT, "Claims taken"),
    MUST("completed", INT, "that ended with a completed task"),
    MUST("failed", INT, "that ended with a reported failure"),
    MUST("expired", INT, "whose lease ended"),
    MUST("orphaned", INT, "taken back from dead or silent sessions"),
    MUST("released", INT, "given back"),
    MUST("refused", INT, "Claims refused because another session held it"),
    MUST("lateResults", INT, "Results that came after the claim was lost"),
};
static const struct member stats[] = {
    MUST("total", INT, "Claims not ended"),
    MUST("active", INT, "of them, those whose deadline is not past"),
    MUST("expiring", INT, "active ones that end soon"),
    MUST("stale", INT, "active ones without a recent heartbeat"),
    MUST("byAgentType", COUNTS, "Active claims by kind of agent"),
    MUST("bySession", COUNTS, "Active claims by session"),
    MUST("tasksByStatus", COUNTS, "Tasks by status"),
    MUST_OF("totals", ONE, "Totals", "Since the store was made"),
    MUST("averageHoldMs", INT, "How long ended claims were held on average"),
    MUST("oldestClaimableMs", INT, "Age of the oldest claimable task; 0: there is none"),
    MUST("timestamp", TIME, "When this was so"),
};

static const struct member cleaned_claim[] = {
    MAY("taskId", TEXT, "The task"),
    MAY("resource", TEXT, "or the lock, the message, ..."),
    MUST_OF("kind", ONE, "ClaimKind", "What was held"),
    MUST("sessionId", TEXT, "Who held it"),
    MUST("token", INT, "Its token"),
    MUST("claimedAt", TIME, "When it was taken"),
    MUST("expiresAt", TIME, "When its lease ended or would have ended"),
    MAY("reason", TEXT, "orphaned: session_missing, session_stale, process_dead"),
    MAY("staleForMs", INT, "orphaned: how long the session has been silent"),
    MUST("heldForMs", INT, "How long it was held"),
};
static const struct member cleaned[] = {
    MUST("count", INT, "What was cleaned of the type that was asked for"),
    MAY_OF("claims", LIST, "CleanedClaim", "expired, orphaned, session, locks: what was ended"),
    MAY("sessionId", TEXT, "session: whose claims were released"),
    MAY("reason", TEXT, "session: why"),
    MAY("expired", INT, "all: claims whose lease had ended"),
    MAY("orphaned", INT, "all: claims of dead or silent sessions"),
    MAY("locks", INT, "all: locks that had ended"),
    MAY("sessionsStale", INT, "all, sessions: marked as stale"),
    MAY("sessionsEnded", INT, "all, sessions: ended"),
    MAY("eventsPruned", INT, "all, events: removed from the journal"),
    MAY("expiring", INT, "all: claims whose holders were warned"),
};

/* ---- sessions -------------------------------------------------------------------------------- */

static const struct member session[] = {
    MUST("id", TEXT, "Chosen by the caller, else a number"),
    MUST("project", TEXT, "Project it works on"),
    MAY("agentType", TEXT, "Kind of agent"),
    MAY("agentId", TEXT, "The agent it belongs to"),
    MAY("host", TEXT, "Machine of the process"),
    MAY("pid", INT, "Process that must live for the session to live"),
    MUST("incarnation", INT, "1, and one more after each registration of the same id"),
    MUST_OF("status", ONE, "SessionStatus", "As the last sweep left it"),
    MUST_OF("healthStatus", ONE, "Health", "As it is now: that of its worst claim"),
    MUST("registeredAt", TIME, "When it was registered"),
    MUST("lastHeartbeat", TIME, "When it was last heard of"),
    MAY("endedAt", TIME, "When it ended"),
    MAY("endReason", TEXT, "Why it ended"),
    MUST("tasksCompleted", INT, "Claims that ended with a completed task"),
    MUST("tasksTotal", INT, "Claims it has taken"),
    MUST("claims", INT, "Claims it holds"),
    MUST("locks", INT, "Locks it holds"),
    MAY("currentTaskId", TEXT, "Task of its newest claim"),
    MAY("currentTaskClaimedAt", TIME, "When it took that"),
    MAY("metadata", JSON, "Whatever the caller likes"),
};
static const struct member session_card[] = {
    MAY_OF("claimInfo", ONE, "ClaimInfo", "What it works on"),
};
static const struct member session_detail[] = {
    MUST_OF("claimHistory", LIST, "PastClaim", "Ended claims, newest first, at most 10"),
};
static const struct member claim_info[] = {
    MUST("taskId", TEXT, "The task"),
    MUST("title", TEXT, "What is to be done, in one line"),
    MAY("phase", TEXT, "Phase of the project it is part of"),
    MUST("claimedAt", TIME, "When it was claimed"),
    MUST("expiresAt", TIME, "When the lease ends without a heartbeat"),
    MUST("lastHeartbeat", TIME, "When its holder was last heard of"),
    MUST_OF("healthStatus", ONE, "Health", "How it stands with the lease"),
};
static const struct member past_claim[] = {
    MUST("taskId", TEXT, "The task"),
    MUST("claimedAt", TIME, "When it was taken"),
    MUST("releasedAt", TIME, "When it ended"),
    MUST("releaseReason", TEXT, "How it ended"),
    MUST("duration", INT, "How long it was held, in milliseconds"),
    MUST("token", INT, "Its token"),
};
static const struct member current_claim[] = {
    MUST("claimedAt", TIME, "When it was claimed"),
    MUST("remainingMs", INT, "What is left of the lease"),
    MUST("expiresAt", TIME, "When the lease ends without a heartbeat"),
    MUST("token", INT, "Token of the claim"),
};
static const struct member current_task[] = {
    MUST("taskId", TEXT, "The task"),
    MUST("title", TEXT, "What is to be done, in one line"),
    MUST_OF("claim", ONE, "CurrentClaim", "The claim on it"),
};
static const struct member global_metrics[] = {
    MUST("activeCount", INT, "Sessions that are alive"),
    MUST("staleCount", INT, "Sessions that are silent"),
    MUST("inFlight", INT, "Claimed tasks"),
    MUST("tasksCompletedToday", INT, "Since midnight UTC"),
    MUST("tasksByStatus", COUNTS, "Tasks by status"),
};
static const struct member completion[] = {
    MUST("taskId", TEXT, "The task"),
    MUST("title", TEXT, "What was done, in one line"),
    MUST("sessionId", TEXT, "Who did it"),
    MUST("finishedAt", TIME, "When it was completed"),
    MUST("duration", INT, "How long it was held, in milliseconds"),
};

/* ---- the rest -------------------------------------------------------------------------------- */

static const struct member score[] = {
    MUST("agent", TEXT, "Agent, or the session that has none"),
    MUST("claimed", INT, "Claims taken"),
    MUST("completed", INT, "Tasks completed"),
    MUST("failed", INT, "Failures reported"),
    MUST("expired", INT, "Claims that expired"),
    MUST("orphaned", INT, "Claims that were orphaned"),
    MUST("released", INT, "Claims given back"),
    MUST("refused", INT, "Claims refused"),
    MUST("lateResults", INT, "Results that came too late"),
    MUST("averageDurationMs", INT, "Of completed claims"),
    MUST("lastActive", TIME, "When it was last heard of"),
};
static const struct member event[] = {
    MUST("id", INT, "1, 2, 3 ... without gaps"), MUST("type", TEXT, "task:claimed and so on"),
    MUST("at", TIME, "When it happened"),        MAY("project", TEXT, "The project it concerns"),
    MAY("taskId", TEXT, "The task it concerns"), MAY("sessionId", TEXT, "The session it concerns"),
    MUST("data", JSON, "What changed"),
};
static const struct member api_key[] = {
    MUST("id", TEXT, "The part of the key that names it"),
    MUST("name", TEXT, "What people call it"),
    MUST_OF("role", ONE, "Role", "What it may do"),
    MAY("project", TEXT, "The only project it may see and change"),
    MUST("ratePerMinute", INT, "Requests per minute; 0: no limit"),
    MUST("hint", TEXT, "The end of the key, to tell keys apart"),
    MUST("createdAt", TIME, "When it was made"),
    MAY("revokedAt", TIME, "When it was revoked"),
};
static const struct member state[] = {
    MUST("status", TEXT, "ok, ready, or what keeps it from working"),
    MUST("version", TEXT, "Of the program"),
};
static const struct member holder[] = {
    MUST("sessionId", TEXT, "Who holds it"),
    NULLABLE("claimedAt", TIME, "Since when"),
    MUST("remainingMs", INT, "What is left of the lease"),
};
static const struct member filters[] = {
    MAY("task_types", TEXTS, "Types that were asked for"),
    MAY("max_attempts_remaining", INT, "as it was asked for"),
    MAY("project", TEXT, "Project that was asked for"),
    MAY("tags", TEXTS, "Tags that were asked for"),
};
static const struct member refusal[] = {
    MUST("success", BOOL, "false"),
    MUST_OF("error", ONE, "Code", "What it is, for programs"),
    MUST("message", TEXT, "What it is, for people"),
    MAY("field", TEXT, "INVALID_REQUEST: the field it is about"),
    MAY_OF("taskStatus", ONE, "TaskStatus", "The task's present status"),
    MAY_OF("claim", ONE, "Holder", "Who holds it"),
    MAY("cancelRequested", BOOL, "The task was cancelled: stop working on it"),
    MAY("allow", TEXT, "METHOD_NOT_ALLOWED: the methods that the path takes"),
    MAY_OF("filters", ONE, "Filters", "NOTHING_TO_CLAIM: what was asked for"),
};

/* ---- agents ---------------------------------------------------------------------------------- */

static const struct member agent[] = {
    MUST("id", TEXT, "Chosen by whoever registered it, else its name"),
    MUST("name", TEXT, "What @name in a message means"),
    MUST("project", TEXT, "Project it works on"),
    MUST("isLead", BOOL, "It plans and answers; otherwise it is a worker"),
    MUST("maxTasks", INT, "So many tasks and reviews at once"),
    MUST("capabilities", TEXTS, "Words for what it can do"),
    MAY("metadata", JSON, "Whatever the caller likes"),
    MUST_OF("status", ONE, "AgentStatus", "What its sessions are doing"),
    MUST("tasksLive", INT, "Tasks and reviews that its sessions hold"),
    MUST("sessionsLive", INT, "Sessions of it that have not ended"),
    MUST("registeredAt", TIME, "When it was made known"),
    MUST("updatedAt", TIME, "When it was last changed"),
    MUST("lastSeenAt", TIME, "When it last polled, or a session of it began or ended"),
};

static const struct member trigger[] = {
    MUST_OF("type", ONE, "TriggerType", "What there is to do"),
    MAY("taskId", TEXT, "task_offered, task_assigned, pool_task_claimed: the task"),
    MAY_OF("task", ONE, "Task", "The same, in full"),
    MAY_OF("claim", ONE, "Claim", "The lease on it"),
    MAY("count", INT, "How many messages, finished tasks, or tasks in the pool (at most 1,000)"),
    MAY_OF("messages", LIST, "Message", "slack_inbox_message: oldest first, each with its claim"),
    MAY("mentionsCount", INT, "unread_mentions: in all channels"),
    MAY("claimedChannels", TEXTS, "The channels"),
    MAY_OF("channels", LIST, "Mentions", "The same with what was claimed"),
    MAY_OF("tasks", LIST, "Task", "tasks_finished: the tasks"),
    MAY_OF("claims", LIST, "SubjectClaim", "With ack=manual: the leases on the notices of them"),
};

/* ---- inbox ----------------------------------------------------------------------------------- */

static const struct member message[] = {
    MUST("id", TEXT, "Chosen by whoever put it in, else a number"),
    MUST("project", TEXT, "Project it belongs to"),
    NULLABLE("agentId", TEXT, "Whose inbox; null: that of whichever lead asks first"),
    MUST("source", TEXT, "Where it comes from: slack, github, api, ..."),
    MUST_OF("status", ONE, "InboxStatus", "What has become of it"),
    MUST("content", TEXT, "The text"),
    MAY("channel", TEXT, "Channel there"),
    MAY("thread", TEXT, "Thread there"),
    MAY("user", TEXT, "Who wrote it"),
    MAY("matchedText", TEXT, "What in it made it a message for us"),
    MAY("metadata", JSON, "Whatever came with it"),
    MAY("responseText", TEXT, "responded: the answer"),
    MAY("delegatedToTaskId", TEXT, "delegated: the task"),
    MUST("createdAt", TIME, "When it arrived"),
    MUST("lastUpdatedAt", TIME, "When its status last changed"),
    MAY_OF("claim", ONE, "Lease", "processing: who is at it"),
};

/* ---- channels -------------------------------------------------------------------------------- */

static const struct member channel[] = {
    MUST("id", TEXT, "Its name"),
    MUST("project", TEXT, "Agents of this project can be mentioned in it"),
    MAY("description", TEXT, "What it is for"),
    MUST("messages", INT, "How many were posted"),
    MUST("createdAt", TIME, "When it was made"),
};
static const struct member channel_post[] = {
    MUST("id", TEXT, "A number, larger than those of all messages before"),
    MUST("channelId", TEXT, "The channel"),
    MUST("author", TEXT, "Who said it"),
    MUST("content", TEXT, "The text"),
    MAY("replyTo", TEXT, "The message that it answers"),
    MUST("mentions", TEXTS, "Ids of the agents that it names"),
    MUST("createdAt", TIME, "When it was posted"),
};
static const struct member lease[] = {
    MUST("token", INT, "Grows with every claim in the store"),
    MUST("sessionId", TEXT, "Who holds it"),
    MUST("claimedAt", TIME, "Since when"),
    MUST("expiresAt", TIME, "Until when, unless it is renewed"),
    MUST("ttlMs", INT, "How long a heartbeat renews it for"),
};
static const struct member mentions[] = {
    MUST("channelId", TEXT, "The channel"),
    MUST("count", INT, "Unread mentions of the agent when they were claimed"),
    MUST_OF("claim", ONE, "Lease", "The claim on them"),
};

#define OBJECT(title, table, text)                                                                 \
    {                                                                                              \
        .name = title, .doc = text, .members = table, .count = COUNT_OF(table)                     \
    }
#define MORE(title, parent, table, text)                                                           \
    {                                                                                              \
        .name = title, .doc = text, .members = table, .count = COUNT_OF(table), .base = parent     \
    }
#define WORDS(title, list, text)                                                                   \
    {                                                                                              \
        .name = title, .doc = text, .words = list                                                  \
    }

static const struct schema schemas[] = {
    WORDS("TaskStatus", task_status_words, "Where a task stands"),
    WORDS("Health", health_words, "How it stands with a claim, worst first"),
    WORDS("ClaimKind", claim_kind_words, "What a claim is on"),
    WORDS("InboxStatus", inbox_status_words, "What has become of a message"),
    WORDS("SessionStatus", session_status_words, "Whether a session is alive"),
    WORDS("LockMode", lock_mode_words, "Alone, or with others"),
    WORDS("Role", role_words, "What a key may do; each may do what the one before it may"),
    WORDS("Code", code_words, "Every refusal and failure by name"),
    OBJECT("Task", task, "A piece of work"),
    OBJECT("Progress", progress, "What a holder says of its work"),
    OBJECT("Claim", claim, "A lease on a task, live or ended"),
    OBJECT("Lock", lock, "A named lock"),
    OBJECT("SubjectClaim", subject_claim, "A claim on a message, on mentions or on a notice"),
    {.name = "Held", .doc = "A claim of any kind", .any_of = held},
    OBJECT("ReleasedLock", lock_released, "A lock that was given back"),
    OBJECT("Granted", granted, "A task and the claim on it"),
    OBJECT("Released", released, "A task that was given back"),
    OBJECT("ClaimedTask", claimed_task, "A claimed task, in the words of POST /api/tasks/claim"),
    OBJECT("InFlightTask", flight_task, "A claimed task in short"),
    OBJECT("InFlight", in_flight, "A claimed task and who holds it"),
    OBJECT("InFlightSummary", in_flight_summary, "Claims counted"),
    OBJECT("Totals", totals, "Claims since the store was made"),
    OBJECT("ClaimStats", stats, "Claims in numbers"),
    OBJECT("CleanedClaim", cleaned_claim, "A claim that a sweep ended"),
    OBJECT("Cleaned", cleaned, "What a sweep did"),
    OBJECT("Session", session, "A running process that can hold claims"),
    MORE("SessionCard", "Session", session_card, "A session and what it works on"),
    MORE("SessionDetail", "Session", session_detail, "A session and its last claims"),
    OBJECT("ClaimInfo", claim_info, "What a session works on"),
    OBJECT("PastClaim", past_claim, "A claim that has ended"),
    OBJECT("CurrentClaim", current_claim, "The claim on the current task"),
    OBJECT("CurrentTask", current_task, "The task of a session's newest claim"),
    OBJECT("GlobalMetrics", global_metrics, "All at a glance"),
    OBJECT("Completion", completion, "A task that was completed"),
    OBJECT("Score", score, "What the journal says of an agent"),
    OBJECT("Agent", agent, "A durable identity, whose sessions do its work"),
    WORDS("AgentStatus", agent_status_words, "What an agent is doing"),
    OBJECT("Trigger", trigger, "What an agent should do next, claimed for it"),
    WORDS("TriggerType", trigger_words, "What there is to do"),
    OBJECT("Message", message, "A message in an inbox"),
    OBJECT("Channel", channel, "Where messages are posted"),
    OBJECT("Post", channel_post, "A message in a channel"),
    OBJECT("Lease", lease, "A claim on something else than a task or a lock"),
    OBJECT("Mentions", mentions, "Mentions of an agent in a channel, claimed"),
    OBJECT("Event", event, "One line of the journal"),
    OBJECT("ApiKey", api_key, "An API key, without its secret"),
    OBJECT("State", state, "What the daemon says of itself"),
    OBJECT("Holder", holder, "Who holds what was asked for"),
    OBJECT("Filters", filters, "What was asked for when nothing was found"),
    OBJECT("Refusal", refusal, "Why a request was not done"),
};

const struct schema *openapi_schemas(size_t *count)
{
    *count = COUNT_OF(schemas);
    return schemas;
}
