-- breaking: no
-- 0002_keys: API keys, and which of them registered a session.
--
-- A program that does not know keys may use the store: it works for the owner of the data file, who needs none.

-- Of a key only the digest of its secret is kept. Rows are never deleted, so that an id names one key for ever.
CREATE TABLE api_key (
    id              TEXT PRIMARY KEY,
    name            TEXT NOT NULL,
    digest          TEXT NOT NULL,        -- SHA-256 of the secret, hex
    hint            TEXT NOT NULL,        -- the last characters of the secret, to tell keys apart
    role            TEXT NOT NULL CHECK (role = 'read' OR role = 'worker' OR role = 'admin'),
    project         TEXT,                 -- the only project it may see and change; NULL: all
    rate_per_minute INTEGER NOT NULL CHECK (rate_per_minute >= 0), -- 0: no limit
    created_at      INTEGER NOT NULL,
    revoked_at      INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX api_key_name ON api_key (name) WHERE revoked_at IS NULL;

-- The key that registered the session; NULL: the owner of the data, without a key.
ALTER TABLE session ADD COLUMN key_id TEXT;
