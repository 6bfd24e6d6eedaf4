-- What was used of what is limited, by all plans and by each, and what is set aside for those at work.

CREATE TABLE accounts (
    name TEXT COLLATE "C" PRIMARY KEY,
    body TEXT NOT NULL
);

CREATE TABLE reservations (
    plan_id TEXT COLLATE "C" NOT NULL REFERENCES plans,
    epoch   BIGINT NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (plan_id, epoch)
);
