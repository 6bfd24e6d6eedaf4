-- Plans, their events, and what is stored beside them.
--
-- Text is compared byte by byte, so that it sorts as in the other stores whatever the locale of the
-- database. Moments are microseconds since 1970, UTC.

CREATE TABLE plans (
    plan_id      TEXT COLLATE "C" PRIMARY KEY,
    id_reversed  TEXT COLLATE "C" NOT NULL UNIQUE,
    version      BIGINT NOT NULL,
    phase        TEXT COLLATE "C" NOT NULL,
    state        TEXT COLLATE "C" NOT NULL,
    action       TEXT COLLATE "C",
    needs_person BOOLEAN NOT NULL,
    due_at       BIGINT,
    head         BYTEA NOT NULL,
    body         TEXT NOT NULL
);
CREATE INDEX plans_by_state ON plans (phase, state, plan_id);
CREATE INDEX plans_by_action ON plans (action, plan_id) WHERE action IS NOT NULL;
CREATE INDEX plans_needing_a_person ON plans (plan_id) WHERE needs_person;
CREATE INDEX plans_by_due ON plans (phase, due_at, plan_id) WHERE due_at IS NOT NULL;

-- `xid` is the transaction that wrote the event, counted on across servers (see tail.rs); `position`
-- is the event's place within it.
CREATE TABLE events (
    xid      BIGINT NOT NULL,
    position BIGINT NOT NULL,
    plan_id  TEXT COLLATE "C" NOT NULL REFERENCES plans,
    version  BIGINT NOT NULL,
    body     TEXT NOT NULL,
    texts    TEXT,
    hash     BYTEA NOT NULL,
    PRIMARY KEY (xid, position),
    UNIQUE (plan_id, version)
);

CREATE TABLE leases (
    plan_id    TEXT COLLATE "C" PRIMARY KEY REFERENCES plans,
    owner      TEXT NOT NULL,
    epoch      BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX leases_by_expiry ON leases (expires_at, plan_id);

CREATE TABLE verdicts (
    plan_id TEXT COLLATE "C" PRIMARY KEY REFERENCES plans,
    body    TEXT NOT NULL
);

CREATE TABLE evidence (
    plan_id  TEXT COLLATE "C" NOT NULL REFERENCES plans,
    entry    BIGINT NOT NULL,
    scope    TEXT COLLATE "C" NOT NULL,
    name     TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (plan_id, entry, scope, name, revision)
);

CREATE TABLE actions (
    name TEXT COLLATE "C" PRIMARY KEY,
    body TEXT NOT NULL
);

CREATE TABLE rule_scopes (
    scope    TEXT COLLATE "C" PRIMARY KEY,
    revision BIGINT NOT NULL
);
-- Every other scope is guarded by the row of its action or plan; this one by its own, so it is
-- always there.
INSERT INTO rule_scopes (scope, revision) VALUES ('global', 0);

CREATE TABLE rules (
    scope TEXT COLLATE "C" NOT NULL,
    name  TEXT COLLATE "C" NOT NULL,
    body  TEXT NOT NULL,
    PRIMARY KEY (scope, name)
);

CREATE TABLE changesets (
    changeset_id TEXT COLLATE "C" PRIMARY KEY,
    plan_id      TEXT COLLATE "C" NOT NULL REFERENCES plans,
    epoch        BIGINT NOT NULL,
    node         TEXT COLLATE "C" NOT NULL,
    sealed       BOOLEAN NOT NULL,
    body         TEXT NOT NULL
);
CREATE INDEX changesets_by_plan ON changesets (plan_id, changeset_id);
CREATE INDEX changesets_open ON changesets (plan_id) WHERE NOT sealed;

-- A path may have 4096 bytes, an index entry only about 2700: the key is the path's digest.
CREATE TABLE entries (
    changeset_id TEXT COLLATE "C" NOT NULL REFERENCES changesets,
    path         BYTEA NOT NULL,
    path_digest  BYTEA NOT NULL GENERATED ALWAYS AS (sha256(path)) STORED,
    body         TEXT NOT NULL,
    PRIMARY KEY (changeset_id, path_digest)
);

CREATE TABLE commands (
    command_id  TEXT COLLATE "C" PRIMARY KEY,
    committed   BOOLEAN NOT NULL,
    key_scope   TEXT COLLATE "C",
    key         TEXT COLLATE "C",
    fingerprint BYTEA,
    receipt     TEXT
);
CREATE UNIQUE INDEX commands_by_key ON commands (key_scope, key) WHERE key IS NOT NULL;
