-- The node that made the call; several nodes of a run may wait for the model at once.
ALTER TABLE open_calls ADD COLUMN node INTEGER;

-- Small things kept under a key. space = `session/` and the session's key, or `server`.
CREATE TABLE kept (
    space TEXT NOT NULL,
    key   TEXT NOT NULL,
    at    INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (space, key)
) STRICT;
