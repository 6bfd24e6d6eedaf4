-- Everything there is. `WITHOUT ROWID` only where rows stay small: such a table keeps at most a
-- quarter of a page per row in place, and a plan's or a rule's body is often larger.

CREATE TABLE plans (
    plan_id      TEXT NOT NULL PRIMARY KEY,
    id_reversed  TEXT NOT NULL,
    version      INTEGER NOT NULL,
    phase        TEXT NOT NULL,
    state        TEXT NOT NULL,
    action       TEXT,
    needs_person INTEGER NOT NULL CHECK (needs_person IN (0, 1)),
    due_at       INTEGER,
    head         BLOB NOT NULL CHECK (length(head) = 32),
    body         TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX plans_reversed ON plans (id_reversed);
CREATE INDEX plans_by_stage ON plans (phase, state, plan_id);
CREATE INDEX plans_by_action ON plans (action, plan_id);
CREATE INDEX plans_needing ON plans (plan_id) WHERE needs_person = 1;
CREATE INDEX plans_due ON plans (phase, due_at, plan_id) WHERE due_at IS NOT NULL;

-- The position is the order of commits: writes are one after the other and nothing is ever
-- deleted, so the next one is always the largest and no gap appears.
CREATE TABLE events (
    position INTEGER PRIMARY KEY,
    plan_id  TEXT NOT NULL REFERENCES plans (plan_id),
    version  INTEGER NOT NULL,
    body     TEXT NOT NULL,
    texts    TEXT,
    hash     BLOB NOT NULL CHECK (length(hash) = 32),
    UNIQUE (plan_id, version)
) STRICT;

CREATE TABLE leases (
    plan_id    TEXT NOT NULL PRIMARY KEY REFERENCES plans (plan_id),
    owner      TEXT NOT NULL,
    epoch      INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX leases_expiry ON leases (expires_at);

CREATE TABLE verdicts (
    plan_id TEXT NOT NULL PRIMARY KEY REFERENCES plans (plan_id),
    body    TEXT NOT NULL
) STRICT;

CREATE TABLE evidence (
    plan_id  TEXT NOT NULL REFERENCES plans (plan_id),
    entry    INTEGER NOT NULL,
    scope    TEXT NOT NULL,
    name     TEXT NOT NULL,
    revision INTEGER NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (plan_id, entry, scope, name, revision)
) STRICT;

CREATE TABLE actions (
    name TEXT NOT NULL PRIMARY KEY,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE rule_scopes (
    scope    TEXT NOT NULL PRIMARY KEY,
    revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE rules (
    scope TEXT NOT NULL,
    name  TEXT NOT NULL,
    body  TEXT NOT NULL,
    PRIMARY KEY (scope, name)
) STRICT;

CREATE TABLE changesets (
    changeset_id TEXT NOT NULL PRIMARY KEY,
    plan_id      TEXT NOT NULL REFERENCES plans (plan_id),
    epoch        INTEGER NOT NULL,
    node         TEXT NOT NULL,
    sealed       INTEGER NOT NULL CHECK (sealed IN (0, 1)),
    body         TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX changesets_of_plan ON changesets (plan_id, changeset_id);
CREATE INDEX changesets_open ON changesets (plan_id) WHERE sealed = 0;

CREATE TABLE entries (
    changeset_id TEXT NOT NULL REFERENCES changesets (changeset_id),
    path         BLOB NOT NULL,
    body         TEXT NOT NULL,
    PRIMARY KEY (changeset_id, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE commands (
    command_id  TEXT NOT NULL PRIMARY KEY,
    committed   INTEGER NOT NULL CHECK (committed IN (0, 1)),
    key_scope   TEXT,
    key         TEXT,
    fingerprint BLOB,
    receipt     TEXT
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX commands_by_key ON commands (key_scope, key) WHERE key IS NOT NULL;
