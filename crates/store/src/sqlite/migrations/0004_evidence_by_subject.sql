-- What a rule said of one subject stands beside what it said of another: of a result, and of that result merged.

CREATE TABLE evidence_by_subject (
    plan_id  TEXT NOT NULL REFERENCES plans (plan_id),
    entry    INTEGER NOT NULL,
    scope    TEXT NOT NULL,
    name     TEXT NOT NULL,
    revision INTEGER NOT NULL,
    subject  TEXT NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (plan_id, entry, scope, name, revision, subject)
) STRICT;

INSERT INTO evidence_by_subject
SELECT plan_id, entry, scope, name, revision, coalesce(body ->> '$.subject', ''), body FROM evidence;

DROP TABLE evidence;

ALTER TABLE evidence_by_subject RENAME TO evidence;
