-- Times are microseconds since 1970 UTC. Identifiers that repeat are stored once, in `names` or `topics`, and
-- meant by their number everywhere else. What grows without end is only ever appended to, near the end of its
-- tree, so that a commit costs the same whatever is already stored.

-- Session keys, memory owners (`account/` and the account), principals, surfaces, agents, providers, models, vector
-- spaces. The name is null once it was forgotten: its number is never used for another.
CREATE TABLE names (
    number INTEGER PRIMARY KEY,
    name   TEXT UNIQUE
) STRICT;

-- One row while data of some account is deleted, but its remains are still in the file.
CREATE TABLE remains (
    exist INTEGER NOT NULL
) STRICT;

-- What has an event log of its own: the sixteen bytes of a run id, or those of a message id and an `m`.
CREATE TABLE topics (
    number INTEGER PRIMARY KEY,
    id     BLOB NOT NULL UNIQUE
) STRICT;

-- position = topic << 26 | the record's last sequence number.
CREATE TABLE events (
    position INTEGER PRIMARY KEY,
    width    INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    payload  BLOB NOT NULL
) STRICT;

-- number = the number of the run's topic.
CREATE TABLE runs (
    number     INTEGER PRIMARY KEY,
    session    INTEGER NOT NULL,
    principal  INTEGER NOT NULL,
    surface    INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    outcome    INTEGER,
    -- Its session was purged while it ran: deleted when it ends.
    purge_on_close INTEGER NOT NULL DEFAULT 0,
    -- What was asked for of it while it ran: to end as cancelled, to continue without followers.
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    detach_requested INTEGER NOT NULL DEFAULT 0,
    agent      INTEGER NOT NULL,
    strategy   INTEGER NOT NULL,
    -- The first words of the input; lists never read the input itself, which may be long and stands last.
    title      TEXT NOT NULL,
    client_id  TEXT NOT NULL,
    input      TEXT NOT NULL
) STRICT;
-- Unfinished runs come first (no end), then finished ones in the order they are pruned.
CREATE INDEX runs_by_end ON runs (ended_at);
-- Grouped by blocks of 8192 runs: a new run touches the few pages of the newest block instead of a random page
-- of a large index; a search looks at one block after the other, newest first.
CREATE INDEX runs_by_client ON runs (number >> 13, principal, client_id);
CREATE INDEX runs_by_session ON runs (number >> 13, session);

-- What the settled model calls of a run took, and the model of the newest. Beside the runs, because an update would
-- write a run's whole input anew. run = the number of the run's topic.
CREATE TABLE run_totals (
    run          INTEGER PRIMARY KEY,
    calls        INTEGER NOT NULL,
    input        INTEGER NOT NULL,
    output       INTEGER NOT NULL,
    cost_nanousd INTEGER NOT NULL,
    provider     INTEGER NOT NULL,
    model        INTEGER NOT NULL
) STRICT;

-- One row: how far old events are folded. All runs that ended before this one, and of it the numbers up to `seq`.
CREATE TABLE folded (
    ended_at INTEGER NOT NULL,
    run      INTEGER NOT NULL,
    seq      INTEGER NOT NULL
) STRICT;
INSERT INTO folded VALUES (-9223372036854775808, 0, 0);

-- Model calls under way: opened, not settled.
CREATE TABLE open_calls (
    run             INTEGER NOT NULL,
    call            INTEGER NOT NULL,
    session         INTEGER NOT NULL,
    agent           INTEGER NOT NULL,
    provider        INTEGER NOT NULL,
    model           INTEGER NOT NULL,
    estimated_input INTEGER NOT NULL,
    reserved        INTEGER NOT NULL,
    first_seq       INTEGER NOT NULL,
    -- The node that made the call; several nodes of a run may wait for the model at once.
    node            INTEGER,
    at              INTEGER NOT NULL,
    -- The key whose budget it is charged to.
    key             TEXT,
    PRIMARY KEY (run, call)
) STRICT, WITHOUT ROWID;

-- What runs wait for: approvals, results of clients' tools, answers to questions. A row goes when its run has taken note
-- of the answer, or ends.
CREATE TABLE inputs (
    id          BLOB PRIMARY KEY,
    run         INTEGER NOT NULL,
    session     INTEGER NOT NULL,
    principal   INTEGER NOT NULL,
    asked_at    INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    request     BLOB NOT NULL,
    answer      BLOB,
    answered_by TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX inputs_by_run ON inputs (run);

-- Settled model calls. Outlives the run it names.
CREATE TABLE usage (
    at           INTEGER NOT NULL,
    run          BLOB NOT NULL,
    call         INTEGER NOT NULL,
    session      INTEGER NOT NULL,
    agent        INTEGER NOT NULL,
    provider     INTEGER NOT NULL,
    model        INTEGER NOT NULL,
    input        INTEGER NOT NULL,
    output       INTEGER NOT NULL,
    cost_nanousd INTEGER NOT NULL,
    estimated    INTEGER NOT NULL,
    PRIMARY KEY (at, run, call)
) STRICT, WITHOUT ROWID;

-- Tokens counted per budget scope.
CREATE TABLE spent (
    scope  TEXT PRIMARY KEY,
    tokens INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- number = the number of the key's name. Channel and account are null for keys of other shapes.
CREATE TABLE sessions (
    number       INTEGER PRIMARY KEY,
    created_at   INTEGER NOT NULL,
    used_at      INTEGER NOT NULL,
    cleared      INTEGER NOT NULL DEFAULT 0,
    hidden_turns INTEGER NOT NULL DEFAULT 0,
    channel      TEXT,
    account      TEXT,
    -- The principal whose run created the session; null if that run was never recorded.
    owner        INTEGER,
    title        TEXT,
    -- Left out of lists.
    hidden       INTEGER NOT NULL DEFAULT 0,
    -- Turns up to this number are in `turn_words`; there may be more if `unindexed` is set.
    indexed_turns INTEGER NOT NULL DEFAULT 0,
    unindexed    INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX sessions_unindexed ON sessions (number) WHERE unindexed = 1;
CREATE INDEX sessions_by_use ON sessions (used_at) WHERE cleared = 0;
CREATE INDEX sessions_by_account ON sessions (account, channel);

-- position = session << 30 | the turn's number in its session.
CREATE TABLE turns (
    position INTEGER PRIMARY KEY,
    run      BLOB NOT NULL,
    at       INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    payload  BLOB NOT NULL
) STRICT;

-- Words of turns; a row's number is its turn's position.
CREATE VIRTUAL TABLE turn_words USING fts5 (
    words,
    content = '',
    tokenize = 'unicode61 remove_diacritics 2'
);
-- Deleted words are removed at once instead of at some later merge.
INSERT INTO turn_words (turn_words, rank) VALUES ('secure-delete', 1);

CREATE TABLE facts (
    number        INTEGER PRIMARY KEY,
    owner         INTEGER NOT NULL,
    session       INTEGER NOT NULL,
    -- The run in whose turn it was stated.
    run           BLOB,
    learned_at    INTEGER NOT NULL,
    superseded_at INTEGER,
    superseded_by INTEGER,
    confidence    REAL NOT NULL,
    subject       TEXT NOT NULL,
    predicate     TEXT NOT NULL,
    object        TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX facts_current ON facts (owner, subject, predicate) WHERE superseded_at IS NULL;
CREATE INDEX facts_newest ON facts (owner) WHERE superseded_at IS NULL;
CREATE INDEX facts_superseded ON facts (owner) WHERE superseded_at IS NOT NULL;
CREATE INDEX facts_by_successor ON facts (superseded_by) WHERE superseded_by IS NOT NULL;

-- Words of current facts, each written `<owner>x<word>`: a search for one owner's words cannot even touch another's.
CREATE VIRTUAL TABLE fact_words USING fts5 (
    words,
    content = '',
    tokenize = 'porter unicode61 remove_diacritics 2'
);
INSERT INTO fact_words (fact_words, rank) VALUES ('secure-delete', 1);

-- Vectors of current facts: little-endian 32-bit floats.
CREATE TABLE fact_vectors (
    fact   INTEGER PRIMARY KEY,
    owner  INTEGER NOT NULL,
    space  INTEGER NOT NULL,
    vector BLOB NOT NULL
) STRICT;
CREATE INDEX fact_vectors_by_owner ON fact_vectors (owner, space);

CREATE TABLE audit (
    number    INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    principal INTEGER NOT NULL,
    surface   INTEGER NOT NULL,
    run       BLOB,
    action    TEXT NOT NULL,
    -- Words that name no user; or `session` or `account`, and the number of its name.
    subject   TEXT NOT NULL,
    subject_name INTEGER,
    detail    TEXT NOT NULL
) STRICT;
-- Grows at its end, like the table itself.
CREATE INDEX audit_by_time ON audit (at);

-- Key-value entries. namespace = `session/` and the session's key, `plugins/` and a name, or `server`.
CREATE TABLE kv (
    namespace TEXT NOT NULL,
    key       TEXT NOT NULL,
    -- Grows with every write of any value.
    version   INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    value     BLOB NOT NULL,
    PRIMARY KEY (namespace, key)
) STRICT;

-- Utterances on their way to apps; what happened to them is in their events. number = the number of the message's topic.
-- state: 0 queued, 1 sent, 2 held; from 3 on final: 3 delivered, 4 refused, 5 expired, 6 cancelled.
CREATE TABLE messages (
    number       INTEGER PRIMARY KEY,
    id           BLOB NOT NULL,
    state        INTEGER NOT NULL,
    submitted_at INTEGER NOT NULL,
    changed_at   INTEGER NOT NULL
) STRICT;
-- Lists are read off these backwards. Both grow at the end of what they are sorted by, so that a message touches the
-- same few pages however many there are; a change of state leaves the first alone.
CREATE INDEX messages_by_time ON messages (submitted_at, id);
CREATE INDEX messages_by_state ON messages (state, submitted_at, id);
-- In the order they are pruned.
CREATE INDEX messages_by_end ON messages (changed_at) WHERE state >= 3;

-- Messages of channels on their way to agents, and their answers on the way back.
-- state: 0 received, 1 answered; from 2 on final: 2 sent, 3 failed.
-- Bodies may be long, so the rows are kept by number and only found by what is short.
CREATE TABLE deliveries (
    number      INTEGER PRIMARY KEY,
    id          BLOB NOT NULL UNIQUE,
    channel     TEXT NOT NULL,
    key         TEXT NOT NULL,
    state       INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    changed_at  INTEGER NOT NULL,
    body        BLOB NOT NULL,
    UNIQUE (channel, key)
) STRICT;
-- What is open is read at start; there is never much of it.
CREATE INDEX deliveries_open ON deliveries (received_at, id) WHERE state < 2;
-- In the order they are pruned.
CREATE INDEX deliveries_by_end ON deliveries (changed_at) WHERE state >= 2;
