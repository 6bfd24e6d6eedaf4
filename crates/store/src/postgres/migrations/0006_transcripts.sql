-- What agents said and did. No part of a plan's state or log: it may be deleted at any time.
--
-- There is no foreign key: its check would lock the plan's row, and an append must not wait for a transition of the plan,
-- nor the transition for it. Plans are never deleted, and `store verify` looks for entries without one.

CREATE TABLE transcript_entries (
    plan_id  TEXT COLLATE "C" NOT NULL,
    epoch    BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (plan_id, epoch, sequence)
);
