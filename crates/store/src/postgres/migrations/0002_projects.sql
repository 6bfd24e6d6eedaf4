-- Projects, and which plans use them. A project may be removed while plans still use it, so that
-- their rows here refer to the plan only.

CREATE TABLE projects (
    name TEXT COLLATE "C" PRIMARY KEY,
    body TEXT NOT NULL
);

CREATE TABLE plan_projects (
    project TEXT COLLATE "C" NOT NULL,
    plan_id TEXT COLLATE "C" NOT NULL REFERENCES plans,
    live    BOOLEAN NOT NULL,
    PRIMARY KEY (project, plan_id)
);
CREATE INDEX plan_projects_by_plan ON plan_projects (plan_id, project);
CREATE INDEX plan_projects_live ON plan_projects (project, plan_id) WHERE live;
