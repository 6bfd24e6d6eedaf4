-- What a rule said of one subject stands beside what it said of another: of a result, and of that result merged.

ALTER TABLE evidence ADD COLUMN subject TEXT COLLATE "C";

UPDATE evidence SET subject = coalesce(body::json ->> 'subject', '');

ALTER TABLE evidence
    ALTER COLUMN subject SET NOT NULL,
    DROP CONSTRAINT evidence_pkey,
    ADD PRIMARY KEY (plan_id, entry, scope, name, revision, subject);
