-- breaking: yes
-- 0001_first: tasks, claims, sessions, locks' queue, the journal and what is counted from it.
--
-- Times are integer milliseconds since 1970 on the store's own clock (src/core/store_clock.c); NULL means "none".
-- Rows that every claim touches are kept small: long texts live in task_body. Checks are written with OR: SQLite builds a
-- table in memory for each IN list, every time.

-- Numbers that only grow: event, token, token_epoch, task and session (ids), task_key, ticket; and marks: cleanup_at,
-- score_upto.
CREATE TABLE counter (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row: store time = steady clock of this boot + offset.
CREATE TABLE clock (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    boot      TEXT NOT NULL,
    offset_ms INTEGER NOT NULL
) STRICT;

-- One row: which file this store was last opened as (inode and time of birth), to notice copies.
CREATE TABLE identity (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    file TEXT NOT NULL
) STRICT;

CREATE TABLE session (
    key              INTEGER PRIMARY KEY,
    id               TEXT NOT NULL UNIQUE,
    project          TEXT NOT NULL,
    agent_type       TEXT,
    agent_id         TEXT,
    host             TEXT,
    pid              INTEGER,
    process_start    TEXT,
    metadata         TEXT,
    incarnation      INTEGER NOT NULL,
    status           TEXT NOT NULL CHECK (status = 'active' OR status = 'stale' OR status = 'ended'),
    registered_at    INTEGER NOT NULL,
    heartbeat_at     INTEGER NOT NULL,
    ended_at         INTEGER,
    end_reason       TEXT,
    claims_total     INTEGER NOT NULL DEFAULT 0,
    claims_completed INTEGER NOT NULL DEFAULT 0,
    last_token       INTEGER,              -- newest claim on a task; older ones by claim.before_in_session
    CHECK ((status = 'ended') = (ended_at IS NOT NULL))
) STRICT;
CREATE INDEX session_live ON session (key) WHERE ended_at IS NULL;

CREATE TABLE task (
    key           INTEGER PRIMARY KEY,     -- also the order of creation
    id            TEXT NOT NULL UNIQUE,
    project       TEXT NOT NULL,
    title         TEXT NOT NULL,
    type          TEXT,
    phase         TEXT,
    status        TEXT NOT NULL CHECK (status = 'open' OR status = 'in_progress' OR status = 'completed'
                                       OR status = 'offered' OR status = 'reviewing' OR status = 'assigned'
                                       OR status = 'blocked' OR status = 'failed' OR status = 'cancelled'),
    ready         INTEGER NOT NULL CHECK (ready = 0 OR ready = 1), -- 1: open and due, so claim-next may take it
    priority      INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 100),
    attempts      INTEGER NOT NULL,
    max_attempts  INTEGER NOT NULL,        -- 0: no limit
    generation    INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    run_after     INTEGER,                 -- as the creator asked
    due_at        INTEGER,                 -- open but not ready: when it will be (run_after or back-off)
    claim_timeout INTEGER,
    assignee      TEXT,
    offered_to    TEXT,
    dedupe_key    TEXT,
    last_token    INTEGER,                 -- newest claim, live or ended; older ones by claim.before_of_task
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    finished_at   INTEGER,
    CHECK (ready = 0 OR status = 'open'),
    CHECK ((finished_at IS NOT NULL) = (status = 'completed' OR status = 'failed' OR status = 'cancelled'))
) STRICT;
-- claim-next walks one of these two and nothing else, so its cost does not grow with the number of tasks
CREATE INDEX task_ready ON task (project, priority DESC, key) WHERE ready = 1;
CREATE INDEX task_ready_type ON task (project, type, priority DESC, key) WHERE ready = 1 AND type IS NOT NULL;
CREATE INDEX task_assigned ON task (assignee, priority DESC, key) WHERE status = 'assigned';
CREATE INDEX task_offered ON task (offered_to) WHERE offered_to IS NOT NULL;
CREATE INDEX task_delayed ON task (due_at) WHERE due_at IS NOT NULL;
CREATE UNIQUE INDEX task_dedupe ON task (project, dedupe_key) WHERE dedupe_key IS NOT NULL AND finished_at IS NULL;

CREATE TABLE task_body (
    task_key         INTEGER PRIMARY KEY REFERENCES task (key),
    description      TEXT,
    params           TEXT,
    metadata         TEXT,
    result           TEXT,
    error            TEXT,
    block_reason     TEXT,
    rejection_reason TEXT
) STRICT;

CREATE TABLE task_tag (
    task_key INTEGER NOT NULL REFERENCES task (key),
    tag      TEXT NOT NULL,
    PRIMARY KEY (task_key, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_tag_by_tag ON task_tag (tag, task_key);

CREATE TABLE task_dependency (
    task_key   INTEGER NOT NULL REFERENCES task (key),
    needs_key  INTEGER NOT NULL REFERENCES task (key),
    PRIMARY KEY (task_key, needs_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_dependency_needed ON task_dependency (needs_key, task_key);

-- Every lease there ever was. Of a task, one row is one attempt and stays for good.
CREATE TABLE claim (
    token             INTEGER PRIMARY KEY,
    kind              TEXT NOT NULL CHECK (kind = 'task' OR kind = 'review' OR kind = 'lock'),
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
    CHECK ((kind = 'lock') = (resource IS NOT NULL)),
    CHECK ((kind = 'lock') = (task_key IS NULL)),
    CHECK ((ended_at IS NULL) = (end_reason IS NULL)),
    CHECK (ended_at IS NOT NULL OR attention = 1)
) STRICT;
CREATE INDEX claim_session ON claim (session_id) WHERE attention = 1;
CREATE INDEX claim_deadline ON claim (expires_at) WHERE ended_at IS NULL;
CREATE INDEX claim_lock ON claim (resource, token) WHERE kind = 'lock' AND ended_at IS NULL;

-- Who waits for a lock, in the order of arrival. The one who lets go hands over to the first.
CREATE TABLE lock_wait (
    ticket      INTEGER PRIMARY KEY,
    resource    TEXT NOT NULL,
    session_id  TEXT NOT NULL,
    shared      INTEGER NOT NULL,
    ttl         INTEGER NOT NULL,
    arrived_at  INTEGER NOT NULL,
    gives_up_at INTEGER NOT NULL
) STRICT;
CREATE INDEX lock_wait_resource ON lock_wait (resource, ticket);

-- What happened: numbered without gaps in the order of commit, written in the transaction of the change.
CREATE TABLE event (
    number     INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    type       TEXT NOT NULL,
    project    TEXT,
    task_key   INTEGER,
    session_id TEXT,
    agent      TEXT,    -- whom it counts for in the scores
    held       INTEGER, -- how long the claim that this event ended was held
    data       TEXT NOT NULL
) STRICT;
CREATE INDEX event_task ON event (task_key, number) WHERE task_key IS NOT NULL;

-- The journal up to counter score_upto, counted by day, agent and type; what came later is counted when asked.
CREATE TABLE score (
    day    INTEGER NOT NULL,
    agent  TEXT NOT NULL,
    type   TEXT NOT NULL,
    count  INTEGER NOT NULL,
    held   INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (day, agent, type)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
    key     TEXT PRIMARY KEY,
    request TEXT NOT NULL, -- SHA-256 of what was asked
    answer  TEXT NOT NULL,
    at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_at ON idempotency (at);

INSERT INTO counter (name, value) VALUES
    ('event', 0), ('token', 0), ('token_epoch', 0), ('task', 0), ('task_key', 0), ('session', 0), ('ticket', 0),
    ('cleanup_at', 0), ('score_upto', 0);
