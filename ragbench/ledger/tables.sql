CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    started TEXT NOT NULL,    -- local time, ISO 8601
    complete INTEGER NOT NULL DEFAULT 0,
    notes TEXT NOT NULL       -- what was asked again and why, as JSON
);
CREATE TABLE report (
    run INTEGER PRIMARY KEY,  -- the one that got to its end
    body BLOB NOT NULL        -- all of its report but the cases, as JSON
);
CREATE TABLE origins (
    stage TEXT PRIMARY KEY,
    generation INTEGER NOT NULL,  -- counts up when anything that its outcomes came from changed
    body TEXT NOT NULL            -- the parts that they came from, as JSON
) WITHOUT ROWID;
CREATE TABLE cases (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    position INTEGER UNIQUE,  -- NULL: not among the cases of the latest command
    digest BLOB NOT NULL,
    body BLOB                 -- NULL: the source is read again instead
);
CREATE TABLE texts (
    digest BLOB PRIMARY KEY,
    text TEXT NOT NULL
);
CREATE TABLE outcomes (
    number INTEGER NOT NULL,
    stage TEXT NOT NULL,
    epoch INTEGER NOT NULL,   -- the latest one in which it was found valid; 0: another one is
    run INTEGER NOT NULL,     -- the one that asked for it
    key BLOB NOT NULL,        -- digest of all that it depends on
    status TEXT NOT NULL,
    known TEXT NOT NULL,      -- asked or recorded
    texts BLOB NOT NULL,      -- digests of its context texts, one behind the other
    body BLOB NOT NULL,
    seconds REAL,
    sharing INTEGER NOT NULL, -- cases that shared the call, whose time was divided by them
    digest BLOB NOT NULL,     -- of what it gave
    PRIMARY KEY (number, stage, key)
) WITHOUT ROWID;
CREATE TABLE metrics (
    metric INTEGER PRIMARY KEY,  -- its column in cells is m<metric>, its letter in status this one
    identity TEXT NOT NULL,
    judge BLOB NOT NULL,
    name TEXT NOT NULL,
    position INTEGER,            -- in the report, from 0; NULL: not among the latest command's
    UNIQUE (identity, judge)
);
CREATE TABLE cells (
    number INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,   -- the latest one in which they were found valid
    question BLOB NOT NULL,   -- digest of what cells depend on that read no answer
    answer BLOB NOT NULL,     -- and of those that read it
    status TEXT NOT NULL,     -- a letter per metric: m a s f, and a point where there is no cell
    notes BLOB NOT NULL       -- digest of the notes on them; empty where every cell has a value
);
CREATE TABLE notes (          -- many cases share them, and they are stored once
    digest BLOB NOT NULL,
    metric INTEGER NOT NULL,
    detail BLOB NOT NULL,     -- why its cell has no value
    PRIMARY KEY (digest, metric)
) WITHOUT ROWID;
CREATE TABLE matched (
    number INTEGER NOT NULL,
    stage TEXT NOT NULL,      -- which gave the chunks
    body BLOB NOT NULL,       -- which of them is which relevant context, as JSON
    PRIMARY KEY (number, stage)
) WITHOUT ROWID;
CREATE TABLE causes (
    number INTEGER PRIMARY KEY,  -- as valid as the case's cells: goes when those are replaced
    cause TEXT NOT NULL,
    body BLOB NOT NULL           -- the whole attribution, as JSON
);
CREATE TABLE judgements (
    number INTEGER NOT NULL,
    metric INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (number, metric)
) WITHOUT ROWID;

-- Views. What json_each and friends need is SQLite's own; plain SELECTs are read by DuckDB as well.
CREATE VIEW generate_places AS
    WITH RECURSIVE places(value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM places LIMIT 1000)
    SELECT value FROM places;
CREATE VIEW outcomes_by_case AS
    SELECT cases.id AS case_id, outcomes.stage, outcomes.status, outcomes.known,
           outcomes.seconds, outcomes.sharing, CAST(outcomes.body AS TEXT) AS body
    FROM outcomes JOIN cases USING (number)
    WHERE cases.position IS NOT NULL
      AND outcomes.epoch = (SELECT value FROM meta WHERE key = 'epoch');
CREATE VIEW chunks AS
    SELECT cases.id AS case_id, outcomes.stage, place.value + 1 AS rank,
           json_extract(CAST(outcomes.body AS TEXT),
               '$.context_ids[' || place.value || ']') AS chunk_id,
           json_extract(CAST(outcomes.body AS TEXT),
               '$.scores[' || place.value || ']') AS score,
           texts.text
    FROM outcomes JOIN cases USING (number)
    JOIN generate_places AS place ON place.value < length(outcomes.texts) / 16
    JOIN texts ON texts.digest = substr(outcomes.texts, place.value * 16 + 1, 16)
    WHERE cases.position IS NOT NULL AND outcomes.status = 'measured'
      AND outcomes.epoch = (SELECT value FROM meta WHERE key = 'epoch');
CREATE VIEW causes_by_case AS
    SELECT cases.id AS case_id, causes.cause,
           json_extract(CAST(causes.body AS TEXT), '$.stage') AS stage,
           json_extract(CAST(causes.body AS TEXT), '$.answer') AS answer,
           json_extract(CAST(causes.body AS TEXT), '$.basis') AS basis,
           json_extract(CAST(causes.body AS TEXT), '$.detail') AS detail
    FROM causes JOIN cases USING (number) JOIN cells USING (number)
    WHERE cases.position IS NOT NULL
      AND cells.epoch = (SELECT value FROM meta WHERE key = 'epoch');
CREATE VIEW matches AS
    SELECT cases.id AS case_id, matched.stage, json_extract(one.value, '$.rank') AS rank,
           json_extract(one.value, '$.gold') AS gold,
           CASE WHEN json_extract(CAST(matched.body AS TEXT), '$.is_by_id') THEN
               json_extract(CAST(matched.body AS TEXT),
                   '$.golds[' || json_extract(one.value, '$.gold') || ']') END AS gold_id,
           json_extract(one.value, '$.by') AS how
    FROM matched JOIN cases USING (number) JOIN cells USING (number),
         json_each(CAST(matched.body AS TEXT), '$.matches') AS one
    WHERE cases.position IS NOT NULL
      AND cells.epoch = (SELECT value FROM meta WHERE key = 'epoch');
CREATE VIEW summaries AS
    SELECT metrics.name AS metric, json_extract(one.value, '$.score') AS score,
           json_extract(one.value, '$.interval.low') AS low,
           json_extract(one.value, '$.interval.high') AS high,
           json_extract(one.value, '$.measured') AS measured,
           json_extract(one.value, '$.total') AS total
    FROM report, json_each(CAST(report.body AS TEXT), '$.summaries') AS one
    JOIN metrics ON metrics.position = one.key
    WHERE report.run = (SELECT max(run) FROM runs);
CREATE VIEW judgement_steps AS
    SELECT cases.id AS case_id, metrics.name AS metric,
           CAST(judgements.body AS TEXT) AS judgements
    FROM judgements JOIN cases USING (number) JOIN metrics USING (metric)
    WHERE cases.position IS NOT NULL;
