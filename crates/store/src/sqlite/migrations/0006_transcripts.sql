-- What agents said and did. No part of a plan's state or log: it may be deleted at any time.

CREATE TABLE transcript_entries (
    plan_id  TEXT NOT NULL REFERENCES plans (plan_id),
    epoch    INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (plan_id, epoch, sequence)
) STRICT, WITHOUT ROWID;
