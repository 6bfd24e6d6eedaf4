-- A plan's terms are frozen at its creation. They have a table of their own, because an UPDATE writes the whole row of a
-- plan. `body` in `plans` holds only the state from here on. `origin_plan` is the plan that this one undoes or continues.

CREATE TABLE plan_terms (
    plan_id     TEXT NOT NULL PRIMARY KEY REFERENCES plans (plan_id),
    origin_plan TEXT,
    body        TEXT NOT NULL
) STRICT;
CREATE INDEX plan_terms_by_origin ON plan_terms (origin_plan, plan_id) WHERE origin_plan IS NOT NULL;
