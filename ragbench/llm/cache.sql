-- The schema of a file of answers (cache.py). Files of earlier releases are given the tables that they lack.

CREATE TABLE IF NOT EXISTS replies (
    key BLOB NOT NULL UNIQUE,
    judge TEXT NOT NULL,    -- fingerprint of the endpoint's identity
    model TEXT NOT NULL,
    purpose TEXT NOT NULL,
    body TEXT NOT NULL,     -- JSON
    size INTEGER NOT NULL,
    created INTEGER NOT NULL,  -- seconds since 1970
    used INTEGER NOT NULL
);

-- What endpoints were found to understand.
CREATE TABLE IF NOT EXISTS dialects (
    judge TEXT PRIMARY KEY,
    body TEXT NOT NULL,     -- JSON
    learned INTEGER NOT NULL  -- seconds since 1970
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS replies_used ON replies (used, created, key, size);
