-- breaking: yes
-- 0004_swarm: agents, the inbox, channels with mentions, notices of finished tasks, and what is sent out.
--
-- A program that does not know the new kinds of claims would take them for locks.

-- Claims on more than tasks and locks. 'inbox': the id of a message; 'mentions': agent and channel; 'notice': the
-- id of a finished task. They name their subject in `resource`, as locks do.
CREATE TABLE claim_wider (
    token             INTEGER PRIMARY KEY,
    kind              TEXT NOT NULL CHECK (kind = 'task' OR kind = 'review' OR kind = 'lock' OR kind = 'inbox'
                                           OR kind = 'mentions' OR kind = 'notice'),
    task_key          INTEGER REFERENCES task (key),
    resource          TEXT,
    shared            INTEGER NOT NULL DEFAULT 0,
    session_id        TEXT NOT NULL,       -- no foreign key: a claim outlives everything but its own end
    incarnation       INTEGER NOT NULL,
    agent_type        TEXT,
    agent_id          TEXT,
    claimed_at        INTEGER NOT NULL,
    expires_at        INTEGER NOT NULL,
    heartbeat_at      INTEGER NOT NULL,
    heartbeats        INTEGER NOT NULL DEFAULT 0,
    ttl               INTEGER NOT NULL,
    attempt           INTEGER NOT NULL DEFAULT 0,
    generation        INTEGER NOT NULL DEFAULT 0,
    progress_percent  INTEGER,
    progress_message  TEXT,
    checkpoint        TEXT,
    metadata          TEXT,
    ended_at          INTEGER,
    end_reason        TEXT,
    late_result       TEXT,
    warned            INTEGER NOT NULL DEFAULT 0, -- claim-expiring is out
    attention         INTEGER NOT NULL DEFAULT 1, -- 1: live, or ended by others and its session not told yet
    before_of_task    INTEGER,                    -- token of the claim before it on the same task
    before_in_session INTEGER,                    -- token of the session's claim before it
    CHECK ((kind = 'task' OR kind = 'review') = (resource IS NULL)),
    CHECK ((resource IS NULL) = (task_key IS NOT NULL)),
    CHECK ((ended_at IS NULL) = (end_reason IS NULL)),
    CHECK (ended_at IS NOT NULL OR attention = 1)
) STRICT;
INSERT INTO claim_wider (token, kind, task_key, resource, shared, session_id, incarnation, agent_type, agent_id,
                         claimed_at, expires_at, heartbeat_at, heartbeats, ttl, attempt, generation,
                         progress_percent, progress_message, checkpoint, metadata, ended_at, end_reason,
                         late_result, warned, attention, before_of_task, before_in_session)
SELECT token, kind, task_key, resource, shared, session_id, incarnation, agent_type, agent_id, claimed_at,
       expires_at, heartbeat_at, heartbeats, ttl, attempt, generation, progress_percent, progress_message,
       checkpoint, metadata, ended_at, end_reason, late_result, warned, attention, before_of_task,
       before_in_session
FROM claim;
DROP TABLE claim;
ALTER TABLE claim_wider RENAME TO claim;
CREATE INDEX claim_session ON claim (session_id) WHERE attention = 1;
CREATE INDEX claim_deadline ON claim (expires_at) WHERE ended_at IS NULL;
CREATE INDEX claim_lock ON claim (resource, token) WHERE kind = 'lock' AND ended_at IS NULL;

-- ---- agents ------------------------------------------------------------------------------------

CREATE TABLE agent (
    key           INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    name          TEXT NOT NULL UNIQUE,    -- what @name in a message means
    project       TEXT NOT NULL,
    is_lead       INTEGER NOT NULL CHECK (is_lead = 0 OR is_lead = 1),
    max_tasks     INTEGER NOT NULL CHECK (max_tasks > 0),
    capabilities  TEXT NOT NULL,           -- JSON array of words
    metadata      TEXT,
    registered_at INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    seen_at       INTEGER NOT NULL         -- when it was last heard: a poll, a session's beginning or end
) STRICT;
CREATE INDEX agent_lead ON agent (project, key) WHERE is_lead = 1;
CREATE INDEX session_agent ON session (agent_id) WHERE agent_id IS NOT NULL AND ended_at IS NULL;

-- since when a task has been offered to the same agent
ALTER TABLE task ADD COLUMN offered_at INTEGER;
UPDATE task SET offered_at = updated_at WHERE offered_to IS NOT NULL AND (status = 'offered' OR status = 'reviewing');

-- An agent's offers, oldest first; and who has to be woken next for a task that was assigned for later.
DROP INDEX task_offered;
CREATE INDEX task_offered ON task (offered_to, offered_at) WHERE offered_to IS NOT NULL;
CREATE INDEX task_assigned_later ON task (run_after, assignee) WHERE run_after IS NOT NULL AND status = 'assigned';

-- Until now an agent was whoever was named: those that live or have something to do are known from the beginning.
INSERT INTO agent (id, name, project, is_lead, max_tasks, capabilities, registered_at, updated_at, seen_at)
SELECT agent_id, agent_id, project, 0, 1, '[]', heartbeat_at, heartbeat_at, heartbeat_at
FROM session WHERE agent_id IS NOT NULL AND ended_at IS NULL ORDER BY heartbeat_at DESC, key
ON CONFLICT DO NOTHING;
INSERT INTO agent (id, name, project, is_lead, max_tasks, capabilities, registered_at, updated_at, seen_at)
SELECT assignee, assignee, project, 0, 1, '[]', updated_at, updated_at, updated_at
FROM task WHERE assignee IS NOT NULL AND finished_at IS NULL ORDER BY updated_at DESC, key
ON CONFLICT DO NOTHING;
INSERT INTO agent (id, name, project, is_lead, max_tasks, capabilities, registered_at, updated_at, seen_at)
SELECT offered_to, offered_to, project, 0, 1, '[]', updated_at, updated_at, updated_at
FROM task WHERE offered_to IS NOT NULL AND finished_at IS NULL ORDER BY updated_at DESC, key
ON CONFLICT DO NOTHING;

-- ---- inbox -------------------------------------------------------------------------------------

CREATE TABLE inbox_message (
    key          INTEGER PRIMARY KEY,      -- also the order of arrival
    id           TEXT NOT NULL UNIQUE,
    project      TEXT NOT NULL,
    agent_id     TEXT,                     -- whose inbox; NULL: for whichever lead of the project asks first
    source       TEXT NOT NULL,            -- slack, github, api ...
    status       TEXT NOT NULL CHECK (status = 'unread' OR status = 'processing' OR status = 'read'
                                      OR status = 'responded' OR status = 'delegated'),
    content      TEXT NOT NULL,
    channel      TEXT,
    thread       TEXT,
    sender       TEXT,                     -- who wrote it there
    matched_text TEXT,
    metadata     TEXT,
    token        INTEGER,                  -- newest claim
    response     TEXT,
    task_key     INTEGER REFERENCES task (key), -- delegated to
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    CHECK ((status = 'delegated') = (task_key IS NOT NULL)),
    CHECK ((status = 'responded') = (response IS NOT NULL))
) STRICT;
CREATE INDEX inbox_unread ON inbox_message (agent_id, key) WHERE status = 'unread';
CREATE INDEX inbox_unread_leads ON inbox_message (project, key) WHERE status = 'unread' AND agent_id IS NULL;

-- What a webhook delivered, so that the same delivery counts once.
CREATE TABLE delivery (
    source TEXT NOT NULL,
    id     TEXT NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (source, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_at ON delivery (at);

-- Answers on their way to where the message came from.
CREATE TABLE outgoing (
    key         INTEGER PRIMARY KEY,
    message_key INTEGER NOT NULL REFERENCES inbox_message (key),
    target      TEXT NOT NULL,             -- slack
    body        TEXT NOT NULL,             -- JSON
    status      TEXT NOT NULL CHECK (status = 'waiting' OR status = 'sent' OR status = 'failed'),
    attempts    INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,
    error       TEXT,                      -- of the last attempt
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX outgoing_due ON outgoing (due_at) WHERE status = 'waiting';

-- ---- channels ----------------------------------------------------------------------------------

CREATE TABLE channel (
    key         INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    project     TEXT NOT NULL,
    description TEXT,
    created_at  INTEGER NOT NULL
) STRICT;

CREATE TABLE channel_message (
    key         INTEGER PRIMARY KEY,       -- also the order of posting
    id          TEXT NOT NULL UNIQUE,
    channel_key INTEGER NOT NULL REFERENCES channel (key),
    author      TEXT NOT NULL,
    content     TEXT NOT NULL,
    reply_to    INTEGER REFERENCES channel_message (key),
    created_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX channel_message_channel ON channel_message (channel_key, key);

CREATE TABLE mention (
    agent_id    TEXT NOT NULL,
    channel_key INTEGER NOT NULL REFERENCES channel (key),
    message_key INTEGER NOT NULL REFERENCES channel_message (key),
    PRIMARY KEY (agent_id, channel_key, message_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX mention_message ON mention (message_key, agent_id);

-- How far an agent has read, and whether a session of it is at its mentions there.
CREATE TABLE channel_reader (
    agent_id     TEXT NOT NULL,
    channel_key  INTEGER NOT NULL REFERENCES channel (key),
    read_upto    INTEGER NOT NULL,         -- key of a message
    claimed_upto INTEGER,                  -- the newest mention when they were claimed
    token        INTEGER,                  -- the live claim on the mentions
    PRIMARY KEY (agent_id, channel_key),
    CHECK ((token IS NULL) = (claimed_upto IS NULL))
) STRICT, WITHOUT ROWID;

-- ---- notices: finished tasks that a lead has to be told of -------------------------------------

CREATE TABLE notice (
    task_key    INTEGER PRIMARY KEY REFERENCES task (key),
    project     TEXT NOT NULL,
    finished_at INTEGER NOT NULL,
    token       INTEGER,                   -- the live claim of a lead that will acknowledge it
    notified_at INTEGER                    -- NULL: no lead was told
) STRICT;
CREATE INDEX notice_untold ON notice (project, finished_at, task_key) WHERE notified_at IS NULL AND token IS NULL;

INSERT INTO counter (name, value) VALUES ('agent', 0), ('inbox', 0), ('channel', 0), ('message', 0), ('outgoing', 0);
