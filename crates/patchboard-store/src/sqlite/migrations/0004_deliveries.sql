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
