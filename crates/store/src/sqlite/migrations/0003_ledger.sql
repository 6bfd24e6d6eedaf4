-- What was used of what is limited, by all plans and by each, and what is set aside for those at work.

CREATE TABLE accounts (
    name TEXT NOT NULL PRIMARY KEY,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE reservations (
    plan_id TEXT NOT NULL REFERENCES plans (plan_id),
    epoch   INTEGER NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (plan_id, epoch)
) STRICT, WITHOUT ROWID;
