-- What people noted while reviewing a plan. No part of a plan's state or log. Deleted when the plan ends.

CREATE TABLE reviews (
    plan_id TEXT NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    person  TEXT NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (plan_id, person)
) STRICT, WITHOUT ROWID;
