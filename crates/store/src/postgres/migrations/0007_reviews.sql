-- What people noted while reviewing a plan. No part of a plan's state or log. Deleted when the plan ends.

CREATE TABLE reviews (
    plan_id TEXT COLLATE "C" NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    person  TEXT COLLATE "C" NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (plan_id, person)
);
