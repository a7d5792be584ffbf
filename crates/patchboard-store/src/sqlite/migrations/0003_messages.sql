-- Utterances on their way to apps; what happened to them is in their events. number = the number of the message's topic,
-- whose id in `topics` is the sixteen bytes of the message's id and an `m`, so that it can be no run's.
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
