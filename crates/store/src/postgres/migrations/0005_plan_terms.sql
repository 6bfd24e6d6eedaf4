-- A plan's terms are frozen at its creation. They have a table of their own, because an UPDATE writes the whole row of a
-- plan. `body` in `plans` holds only the state from here on. `origin_plan` is the plan that this one undoes or continues.

CREATE TABLE plan_terms (
    plan_id     TEXT COLLATE "C" PRIMARY KEY REFERENCES plans,
    origin_plan TEXT COLLATE "C",
    body        TEXT NOT NULL
);
CREATE INDEX plan_terms_by_origin ON plan_terms (origin_plan, plan_id) WHERE origin_plan IS NOT NULL;
