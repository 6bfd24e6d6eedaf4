-- Projects, and which plans use them. A project may be removed while plans still use it, so that
-- their rows here refer to the plan only.

CREATE TABLE projects (
    name TEXT NOT NULL PRIMARY KEY,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE plan_projects (
    project TEXT NOT NULL,
    plan_id TEXT NOT NULL REFERENCES plans (plan_id),
    live    INTEGER NOT NULL CHECK (live IN (0, 1)),
    PRIMARY KEY (project, plan_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX plan_projects_of_plan ON plan_projects (plan_id);
CREATE INDEX plan_projects_live ON plan_projects (project, plan_id) WHERE live = 1;
