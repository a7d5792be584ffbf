-- The principal whose run made the session (a number of `names`); null where that run is not known any more.
ALTER TABLE sessions ADD COLUMN owner INTEGER;
UPDATE sessions SET owner = (SELECT principal FROM runs WHERE runs.session = sessions.number ORDER BY runs.number LIMIT 1);
