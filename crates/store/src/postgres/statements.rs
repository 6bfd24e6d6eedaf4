//! Every statement this store sends with parameters. `check` prepares each of [`ALL`], and a test
//! runs that on a real, migrated database, so a misspelt column is found before anybody runs into
//! it.
//!
//! Table names are bare: the search path of every connection is the store's schema and nothing
//! else.

/// Defines the statements and the list of all of them, so that none can be left out of it.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $sql:literal;)*) => {
        $($(#[$doc])* pub(super) const $name: &str = $sql;)*

        /// Every statement, by name.
        pub(super) const ALL: &[(&str, &str)] = &[$((stringify!($name), $name)),*];
    };
}

statements! {
    /// Waits for its turn at something that is named by a number, and keeps it to the end of the
    /// transaction. Those who wait are served in their order.
    TAKE_TURN = "SELECT pg_advisory_xact_lock($1)";

    /// The same for several, one after the other; each alone if $2 says so, otherwise together with
    /// others who share it. Who comes later waits behind those who wait, however it wants its turn.
    TAKE_TURNS = "\
        SELECT CASE WHEN alone THEN pg_advisory_xact_lock(turn) ELSE pg_advisory_xact_lock_shared(turn) END \
        FROM unnest($1::bigint[], $2::boolean[]) AS told (turn, alone)";

    /// The same for projects, by name, in the order of $2. Their numbers are made by the server, because
    /// those of a plan's projects are taken before anybody here knows their names.
    TAKE_PROJECT_TURNS = "\
        SELECT CASE WHEN alone THEN pg_advisory_xact_lock(turn) ELSE pg_advisory_xact_lock_shared(turn) END \
        FROM (SELECT hashtextextended('planwright ' || $1::text || ' project ' || name, 0) AS turn, alone \
              FROM unnest($2::text[], $3::boolean[]) WITH ORDINALITY AS told (name, alone, number) \
              ORDER BY number) turns";

    /// The same for the projects of plan $2, shared with others. Which these are never changes.
    TAKE_TURNS_OF_PLAN = "\
        SELECT pg_advisory_xact_lock_shared(turn) \
        FROM (SELECT hashtextextended('planwright ' || $1::text || ' project ' || project, 0) AS turn \
              FROM plan_projects WHERE plan_id = $2 ORDER BY project) turns";

    /// Takes projects, in the order of their names, for a change.
    LOCK_PROJECTS_EXCLUSIVE = "SELECT body FROM projects WHERE name = ANY($1) ORDER BY name FOR UPDATE";

    /// Takes projects, in the order of their names, so that nobody changes them.
    LOCK_PROJECTS_SHARED = "SELECT body FROM projects WHERE name = ANY($1) ORDER BY name FOR SHARE";

    /// Takes the projects of a plan so that nobody changes them.
    LOCK_PROJECTS_OF_PLAN = "\
        SELECT p.body FROM plan_projects u JOIN projects p ON p.name = u.project \
        WHERE u.plan_id = $1 ORDER BY u.project FOR SHARE OF p";

    /// How many plans use a project and have not ended, and the newest of them. Behind the locks of the
    /// project, as FACTS is: who used it before has committed.
    LIVE_PLANS = "\
        SELECT (SELECT count(*) FROM plan_projects WHERE project = $1 AND live), \
               ARRAY(SELECT plan_id FROM plan_projects WHERE project = $1 AND live ORDER BY plan_id DESC LIMIT $2)";

    /// Takes the plan for a change.
    LOCK_PLAN_EXCLUSIVE = "SELECT head, body FROM plans WHERE plan_id = $1 FOR UPDATE";

    /// Takes the plan so that nobody changes it.
    LOCK_PLAN_SHARED = "SELECT head, body FROM plans WHERE plan_id = $1 FOR SHARE";

    /// Takes an action for a change.
    LOCK_ACTION_EXCLUSIVE = "SELECT body FROM actions WHERE name = $1 FOR UPDATE";

    /// Takes an action so that nobody changes it.
    LOCK_ACTION_SHARED = "SELECT body FROM actions WHERE name = $1 FOR SHARE";

    /// Takes a scope of rules for a change.
    LOCK_SCOPE_EXCLUSIVE = "SELECT scope, revision FROM rule_scopes WHERE scope = $1 FOR UPDATE";

    /// Takes scopes of rules, in their order, so that nobody changes them.
    LOCK_SCOPES_SHARED = "SELECT scope, revision FROM rule_scopes WHERE scope = ANY($1) ORDER BY scope FOR SHARE";

    /// Takes the entries of the plan's open changesets at some paths, given by their digests.
    LOCK_ENTRIES_AT = "\
        SELECT e.changeset_id, e.body FROM changesets c JOIN entries e USING (changeset_id) \
        WHERE c.plan_id = $1 AND NOT c.sealed AND e.path_digest = ANY($2) \
        ORDER BY e.changeset_id, e.path FOR UPDATE OF e";

    /// Takes all entries of the plan's open changesets.
    LOCK_ENTRIES = "\
        SELECT e.changeset_id, e.body FROM changesets c JOIN entries e USING (changeset_id) \
        WHERE c.plan_id = $1 AND NOT c.sealed ORDER BY e.changeset_id, e.path FOR UPDATE OF e";

    /// Takes accounts, in the order of their names, for a change. One that nobody wrote to is not there yet;
    /// the turn at the ledger covers it.
    LOCK_ACCOUNTS = "SELECT name, body FROM accounts WHERE name = ANY($1) ORDER BY name FOR UPDATE";

    /// What is set aside for the holders of a plan. Behind the turn at the ledger, without which nobody
    /// changes it.
    RESERVATIONS = "SELECT body FROM reservations WHERE plan_id = $1 ORDER BY epoch";

    /// Accounts, as they are.
    ACCOUNTS = "SELECT name, body FROM accounts WHERE name = ANY($1)";

    /// What needs no lock of its own because those that are held cover it: the schema, the clock, the
    /// lease of plan $1, the answer remembered under the key $2, $3, the rules of the scopes $4, the
    /// open changesets of plan $5.
    ///
    /// It must be a statement of its own, behind the locks: a statement that waited for a row lock
    /// sees the newest version of that row, but everything else as it was before it waited.
    FACTS = "\
        SELECT v.version, v.system, v.xid_base, clock_timestamp(), \
               l.owner, l.epoch, l.expires_at, c.fingerprint, c.receipt, \
               ARRAY(SELECT body FROM rules WHERE scope = ANY($4)), \
               ARRAY(SELECT body FROM changesets WHERE plan_id = $5 AND NOT sealed ORDER BY changeset_id) \
        FROM schema_version v \
        LEFT JOIN leases l ON l.plan_id = $1 \
        LEFT JOIN commands c ON c.key_scope = $2 AND c.key = $3";

    /// A new plan with its events. The events say which transaction wrote them.
    INSERT_PLAN = "\
        WITH made AS ( \
            INSERT INTO plans (plan_id, version, phase, state, needs_person, due_at, head, body, id_reversed, action) \
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)) \
        INSERT INTO events (xid, position, plan_id, version, body, texts, hash) \
        SELECT $11 + pg_current_xact_id()::text::bigint, $12 + number, $1, number, body, texts, hash \
        FROM unnest($13::text[], $14::text[], $15::bytea[]) WITH ORDINALITY AS told (body, texts, hash, number)";

    /// A plan's next version with the events that lead to it from version $9.
    ///
    /// COMMIT travels behind this statement without waiting for its answer, so the statement itself
    /// must fail when the plan is not at the version that was decided on: the column takes no NULL. A
    /// plan that is not there at all makes the events fail.
    UPDATE_PLAN = "\
        WITH moved AS ( \
            UPDATE plans SET version = CASE version WHEN $9 THEN $2::bigint END, phase = $3, state = $4, \
                             needs_person = $5, due_at = $6, head = $7, body = $8 \
            WHERE plan_id = $1) \
        INSERT INTO events (xid, position, plan_id, version, body, texts, hash) \
        SELECT $10 + pg_current_xact_id()::text::bigint, $11 + number, $1, $9 + number, body, texts, hash \
        FROM unnest($12::text[], $13::text[], $14::bytea[]) WITH ORDINALITY AS told (body, texts, hash, number)";

    /// That a new plan uses projects.
    INSERT_PLAN_PROJECTS = "\
        INSERT INTO plan_projects (project, plan_id, live) SELECT project, $1, $2 FROM unnest($3::text[]) AS told (project)";

    /// That a plan has ended.
    END_PLAN_PROJECTS = "UPDATE plan_projects SET live = false WHERE plan_id = $1";

    /// A project nobody had when this was decided. Fails if somebody was faster.
    INSERT_PROJECT = "INSERT INTO projects (name, body) VALUES ($1, $2)";

    /// A project that was read.
    UPDATE_PROJECT = "UPDATE projects SET body = $2 WHERE name = $1";

    /// The end of a project.
    DROP_PROJECT = "DELETE FROM projects WHERE name = $1";

    /// A lease, new or extended.
    PUT_LEASE = "\
        INSERT INTO leases (plan_id, owner, epoch, expires_at) VALUES ($1, $2, $3, $4) \
        ON CONFLICT (plan_id) DO UPDATE \
        SET owner = excluded.owner, epoch = excluded.epoch, expires_at = excluded.expires_at";

    /// The end of a lease.
    DROP_LEASE = "DELETE FROM leases WHERE plan_id = $1";

    /// A verdict, new or instead of the last.
    ///
    /// The plan is marked as waiting for a person: a column to find it by, not the plan itself; what
    /// its next event writes takes it back.
    PUT_VERDICT = "\
        WITH marked AS (UPDATE plans SET needs_person = true WHERE plan_id = $1 AND version = $3) \
        INSERT INTO verdicts (plan_id, body) VALUES ($1, $2) \
        ON CONFLICT (plan_id) DO UPDATE SET body = excluded.body";

    /// What a rule said of a result.
    PUT_EVIDENCE = "\
        INSERT INTO evidence (plan_id, entry, scope, name, revision, subject, body) \
        VALUES ($1, $2, $3, $4, $5, $6, $7) \
        ON CONFLICT (plan_id, entry, scope, name, revision, subject) DO UPDATE SET body = excluded.body";

    /// An action nobody had when this was decided. Fails if somebody was faster, so that it is decided
    /// again.
    INSERT_ACTION = "INSERT INTO actions (name, body) VALUES ($1, $2)";

    /// An action that was read.
    UPDATE_ACTION = "UPDATE actions SET body = $2 WHERE name = $1";

    /// The revision of a scope.
    PUT_SCOPE = "\
        INSERT INTO rule_scopes (scope, revision) VALUES ($1, $2) \
        ON CONFLICT (scope) DO UPDATE SET revision = excluded.revision";

    /// A rule.
    PUT_RULE = "\
        INSERT INTO rules (scope, name, body) VALUES ($1, $2, $3) \
        ON CONFLICT (scope, name) DO UPDATE SET body = excluded.body";

    /// The end of a rule.
    DROP_RULE = "DELETE FROM rules WHERE scope = $1 AND name = $2";

    /// A new changeset.
    INSERT_CHANGESET = "\
        INSERT INTO changesets (changeset_id, plan_id, epoch, node, sealed, body) \
        VALUES ($1, $2, $3, $4, $5, $6)";

    /// A changeset that was read.
    UPDATE_CHANGESET = "UPDATE changesets SET sealed = $2, body = $3 WHERE changeset_id = $1";

    /// An entry nobody had when this was decided. Fails if somebody was faster.
    INSERT_ENTRY = "INSERT INTO entries (changeset_id, path, body) VALUES ($1, $2, $3)";

    /// An entry that was read.
    UPDATE_ENTRY = "UPDATE entries SET body = $3 WHERE changeset_id = $1 AND path_digest = $2";

    /// The end of an entry.
    DROP_ENTRY = "DELETE FROM entries WHERE changeset_id = $1 AND path_digest = $2";

    /// What came of an account.
    PUT_ACCOUNT = "\
        INSERT INTO accounts (name, body) VALUES ($1, $2) \
        ON CONFLICT (name) DO UPDATE SET body = excluded.body";

    /// What is set aside for a holder, or was.
    PUT_RESERVATION = "\
        INSERT INTO reservations (plan_id, epoch, body) VALUES ($1, $2, $3) \
        ON CONFLICT (plan_id, epoch) DO UPDATE SET body = excluded.body";

    /// The end of that.
    DROP_RESERVATION = "DELETE FROM reservations WHERE plan_id = $1 AND epoch = $2";

    /// A submission that is committed with its work.
    INSERT_COMMAND = "\
        INSERT INTO commands (command_id, committed, key_scope, key, fingerprint, receipt) \
        VALUES ($1, true, $2, $3, $4, $5)";

    /// A submission whose COMMIT was not answered, declared never to have happened. Waits for the
    /// transaction that carries it, if that still runs; changes nothing if it committed.
    ABORT_COMMAND = "\
        INSERT INTO commands (command_id, committed) VALUES ($1, false) \
        ON CONFLICT (command_id) DO NOTHING";

    /// What became of a submission.
    COMMAND = "SELECT committed FROM commands WHERE command_id = $1";

    /// May this user look into the schema $1, and is there a store in it? No row if there is no such schema. Asks the
    /// catalog as it is now: `to_regclass` answers from the session's cache, which a lock that was waited for
    /// does not refresh, and takes a schema that may not be used for one that is not there.
    SCHEMA_EXISTS = "\
        SELECT has_schema_privilege(n.oid, 'USAGE'), EXISTS ( \
            SELECT FROM pg_catalog.pg_class c \
            WHERE c.relnamespace = n.oid AND c.relname = 'schema_version') \
        FROM pg_catalog.pg_namespace n WHERE n.nspname = $1";

    /// The first row of a new store. $1 is the identity of the server.
    INSERT_SCHEMA = "INSERT INTO schema_version (version, system, xid_base) VALUES (0, $1, 0)";

    /// The schema, as every read checks it.
    SCHEMA = "SELECT version FROM schema_version";

    /// A plan with what is stored beside it.
    PLAN = "\
        SELECT p.head, p.body, l.owner, l.epoch, l.expires_at, v.body \
        FROM plans p LEFT JOIN leases l USING (plan_id) LEFT JOIN verdicts v USING (plan_id) \
        WHERE p.plan_id = $1";

    /// A page of plans, newest first. Here and below, `LIMIT 1` keeps the planner from reading all
    /// leases and verdicts for a few plans, which it cannot know to be few.
    PLANS = "\
        SELECT p.head, p.body, l.owner, l.epoch, l.expires_at, v.body \
        FROM (SELECT plan_id, head, body FROM plans WHERE plan_id < $1 ORDER BY plan_id DESC LIMIT $2) p \
        LEFT JOIN LATERAL (SELECT * FROM leases l WHERE l.plan_id = p.plan_id LIMIT 1) l ON true \
        LEFT JOIN LATERAL (SELECT * FROM verdicts v WHERE v.plan_id = p.plan_id LIMIT 1) v ON true \
        ORDER BY p.plan_id DESC";

    /// A page of the plans in some phases and states, given pair by pair: a page of each pair from the
    /// index, of which the newest are taken.
    ///
    /// Equality is said by bounds: told that the first columns of the index are equal, the planner
    /// may walk the ids of all plans instead, hoping to meet enough that fit.
    PLANS_BY_STATE = "\
        SELECT p.head, p.body, l.owner, l.epoch, l.expires_at, v.body \
        FROM ( \
            SELECT found.* FROM unnest($3::text[], $4::text[]) AS pair (phase, state) \
            CROSS JOIN LATERAL ( \
                SELECT plan_id, head, body FROM plans \
                WHERE (phase, state) >= (pair.phase, pair.state) \
                  AND (phase, state, plan_id) < (pair.phase, pair.state, $1) \
                ORDER BY phase DESC, state DESC, plan_id DESC LIMIT $2 \
            ) found ORDER BY plan_id DESC LIMIT $2 \
        ) p \
        LEFT JOIN LATERAL (SELECT * FROM leases l WHERE l.plan_id = p.plan_id LIMIT 1) l ON true \
        LEFT JOIN LATERAL (SELECT * FROM verdicts v WHERE v.plan_id = p.plan_id LIMIT 1) v ON true \
        ORDER BY p.plan_id DESC";

    /// A page of the plans of an action, in this phase and state where they are given. Bounds as above.
    PLANS_BY_ACTION = "\
        SELECT p.head, p.body, l.owner, l.epoch, l.expires_at, v.body \
        FROM ( \
            SELECT plan_id, head, body FROM plans WHERE action >= $3 AND (action, plan_id) < ($3, $1) \
              AND ($4::text IS NULL OR phase = $4) AND ($5::text IS NULL OR state = $5) \
            ORDER BY action DESC, plan_id DESC LIMIT $2 \
        ) p \
        LEFT JOIN LATERAL (SELECT * FROM leases l WHERE l.plan_id = p.plan_id LIMIT 1) l ON true \
        LEFT JOIN LATERAL (SELECT * FROM verdicts v WHERE v.plan_id = p.plan_id LIMIT 1) v ON true \
        ORDER BY p.plan_id DESC";

    /// A page of the plans that wait for a person, of this action, phase and state where given.
    PLANS_NEEDING_A_PERSON = "\
        SELECT p.head, p.body, l.owner, l.epoch, l.expires_at, v.body \
        FROM ( \
            SELECT plan_id, head, body FROM plans WHERE needs_person AND plan_id < $1 \
              AND ($3::text IS NULL OR action = $3) \
              AND ($4::text IS NULL OR phase = $4) AND ($5::text IS NULL OR state = $5) \
            ORDER BY plan_id DESC LIMIT $2 \
        ) p \
        LEFT JOIN LATERAL (SELECT * FROM leases l WHERE l.plan_id = p.plan_id LIMIT 1) l ON true \
        LEFT JOIN LATERAL (SELECT * FROM verdicts v WHERE v.plan_id = p.plan_id LIMIT 1) v ON true \
        ORDER BY p.plan_id DESC";

    /// A page of the plans of a project, of this action, phase and state and waiting for a person where
    /// that is given. Bounds as above. Each plan is looked up by its id, in the order of the index.
    PLANS_BY_PROJECT = "\
        SELECT p.head, p.body, l.owner, l.epoch, l.expires_at, v.body \
        FROM ( \
            SELECT found.* FROM ( \
                SELECT project, plan_id FROM plan_projects WHERE project >= $3 AND (project, plan_id) < ($3, $1) \
                ORDER BY project DESC, plan_id DESC \
            ) used CROSS JOIN LATERAL ( \
                SELECT plan_id, head, body FROM plans WHERE plan_id = used.plan_id \
                  AND ($4::text IS NULL OR action = $4) AND ($5::text IS NULL OR phase = $5) \
                  AND ($6::text IS NULL OR state = $6) AND (NOT $7::boolean OR needs_person) LIMIT 1 \
            ) found ORDER BY used.project DESC, used.plan_id DESC LIMIT $2 \
        ) p \
        LEFT JOIN LATERAL (SELECT * FROM leases l WHERE l.plan_id = p.plan_id LIMIT 1) l ON true \
        LEFT JOIN LATERAL (SELECT * FROM verdicts v WHERE v.plan_id = p.plan_id LIMIT 1) v ON true \
        ORDER BY p.plan_id DESC";

    /// Ids that start with $1 or, backwards, with $2. `~` sorts behind every character of an id.
    PLANS_LIKE = "\
        SELECT plan_id FROM ( \
            (SELECT plan_id FROM plans WHERE plan_id >= $1 AND plan_id < $1 || '~' ORDER BY plan_id LIMIT $3) \
            UNION \
            (SELECT plan_id FROM plans WHERE id_reversed >= $2 AND id_reversed < $2 || '~' ORDER BY id_reversed LIMIT $3) \
        ) found ORDER BY plan_id LIMIT $3";

    /// Plans that may be claimed. The moment of the statement, not of each row: only then the index
    /// bounds the search.
    DUE = "\
        SELECT due_at, plan_id FROM plans \
        WHERE phase = $1 AND due_at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint \
          AND (due_at, plan_id) > ($2, $3) \
        ORDER BY due_at, plan_id LIMIT $4";

    /// Those of them that can be claimed.
    CLAIMABLE = "\
        SELECT due_at, plan_id FROM plans \
        WHERE phase = $1 AND due_at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint \
          AND (due_at, plan_id) > ($2, $3) AND state = 'queued' \
        ORDER BY due_at, plan_id LIMIT $4";

    /// Plans whose lease has expired.
    EXPIRED = "\
        SELECT plan_id FROM leases \
        WHERE expires_at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint \
        ORDER BY expires_at, plan_id LIMIT $1";

    /// What rules said of a plan's result.
    EVIDENCE = "SELECT body FROM evidence WHERE plan_id = $1 AND entry = $2";

    /// An action.
    ACTION = "SELECT body FROM actions WHERE name = $1";

    /// A page of actions.
    ACTIONS = "SELECT body FROM actions WHERE name > $1 ORDER BY name LIMIT $2";

    /// A project.
    PROJECT = "SELECT body FROM projects WHERE name = $1";

    /// A page of projects.
    PROJECTS = "SELECT body FROM projects WHERE name > $1 ORDER BY name LIMIT $2";

    /// The revisions of scopes.
    SCOPES_OF = "SELECT scope, revision FROM rule_scopes WHERE scope = ANY($1)";

    /// The revisions of all scopes.
    SCOPES = "SELECT scope, revision FROM rule_scopes";

    /// The rules of scopes.
    RULES_OF = "SELECT body FROM rules WHERE scope = ANY($1)";

    /// All rules.
    RULES = "SELECT body FROM rules";

    /// All changesets of a plan.
    CHANGESETS = "SELECT body FROM changesets WHERE plan_id = $1 ORDER BY changeset_id";

    /// The entries of all changesets of a plan.
    ENTRIES = "\
        SELECT e.changeset_id, e.body FROM changesets c JOIN entries e USING (changeset_id) \
        WHERE c.plan_id = $1 ORDER BY e.changeset_id, e.path";

    /// The server's clock.
    NOW = "SELECT clock_timestamp()";

    /// Events of one plan.
    PLAN_EVENTS = "\
        SELECT xid, position, body, texts, hash FROM events \
        WHERE plan_id = $1 AND version > $2 ORDER BY version LIMIT $3";

    /// Events of all plans that nothing can be inserted before any more (see `tail.rs`). $3 is the
    /// identity of the server, or 0.
    EVENTS = "\
        SELECT xid, position, body, texts, hash FROM events \
        WHERE (xid, position) > ($1, $2) AND xid < ( \
            SELECT CASE WHEN $3::bigint IN (0, system) THEN xid_base + pg_snapshot_xmin(pg_current_snapshot())::text::bigint \
                   ELSE 9223372036854775807 END FROM schema_version) \
        ORDER BY xid, position LIMIT $4";

    /// The last of the events that can be read now.
    LATEST_EVENT = "\
        SELECT xid, position FROM events WHERE xid < ( \
            SELECT CASE WHEN $1::bigint IN (0, system) THEN xid_base + pg_snapshot_xmin(pg_current_snapshot())::text::bigint \
                   ELSE 9223372036854775807 END FROM schema_version) \
        ORDER BY xid DESC, position DESC LIMIT 1";

    /// Are there events that cannot be read yet, because a transaction older than theirs still runs?
    EVENTS_HELD_BACK = "\
        SELECT coalesce((SELECT max(xid) FROM events) >= ( \
            SELECT CASE WHEN $1::bigint IN (0, system) THEN xid_base + pg_snapshot_xmin(pg_current_snapshot())::text::bigint \
                   ELSE 9223372036854775807 END FROM schema_version), false)";

    /// Counts transactions on from where another server left off.
    ADOPT = "\
        UPDATE schema_version \
        SET system = $1, xid_base = greatest(xid_base, (SELECT coalesce(max(xid), 0) FROM events)) \
        WHERE system <> $1";

    /// Sets the schema's version.
    SET_SCHEMA = "UPDATE schema_version SET version = $1";

    /// Plans whose events do not reach their version, or reach further.
    CHECK_VERSIONS = "\
        SELECT p.plan_id, p.version, count(e.version), coalesce(max(e.version), 0) \
        FROM plans p LEFT JOIN events e USING (plan_id) GROUP BY p.plan_id, p.version \
        HAVING count(e.version) <> p.version OR coalesce(max(e.version), 0) <> p.version LIMIT $1";

    /// Plans that cannot be found by the end of their id.
    CHECK_REVERSED = "SELECT plan_id FROM plans WHERE id_reversed <> reverse(plan_id) LIMIT $1";

    /// Plans that cannot be found by their projects: the rows are not those of the encoded plan.
    CHECK_PROJECTS = "\
        SELECT plan_id FROM plans p \
        WHERE ARRAY(SELECT project FROM plan_projects u WHERE u.plan_id = p.plan_id ORDER BY project) \
           <> ARRAY(SELECT DISTINCT (r ->> 'project') COLLATE \"C\" \
                    FROM json_array_elements(p.body::json -> 'resources') r ORDER BY 1) \
           OR EXISTS (SELECT FROM plan_projects u \
                      WHERE u.plan_id = p.plan_id AND u.live = (p.state IN ('applied', 'cancelled'))) LIMIT $1";

    /// Rows that hang in the air. The foreign keys forbid it, unless somebody switched them off.
    CHECK_ORPHANS = "\
        SELECT kind, id FROM ( \
            SELECT 'event', plan_id FROM events WHERE NOT EXISTS (SELECT FROM plans p WHERE p.plan_id = events.plan_id) \
            UNION ALL \
            SELECT 'lease', plan_id FROM leases WHERE NOT EXISTS (SELECT FROM plans p WHERE p.plan_id = leases.plan_id) \
            UNION ALL \
            SELECT 'verdict', plan_id FROM verdicts WHERE NOT EXISTS (SELECT FROM plans p WHERE p.plan_id = verdicts.plan_id) \
            UNION ALL \
            SELECT 'use', plan_id FROM plan_projects WHERE NOT EXISTS (SELECT FROM plans p WHERE p.plan_id = plan_projects.plan_id) \
            UNION ALL \
            SELECT 'reservation', plan_id FROM reservations WHERE NOT EXISTS (SELECT FROM plans p WHERE p.plan_id = reservations.plan_id) \
            UNION ALL \
            SELECT 'evidence', plan_id FROM evidence WHERE NOT EXISTS (SELECT FROM plans p WHERE p.plan_id = evidence.plan_id) \
            UNION ALL \
            SELECT 'changeset', changeset_id FROM changesets WHERE NOT EXISTS (SELECT FROM plans p WHERE p.plan_id = changesets.plan_id) \
            UNION ALL \
            SELECT 'entry', changeset_id FROM entries WHERE NOT EXISTS (SELECT FROM changesets c WHERE c.changeset_id = entries.changeset_id) \
            UNION ALL \
            SELECT 'rule', scope || ' ' || name FROM rules WHERE NOT EXISTS (SELECT FROM rule_scopes s WHERE s.scope = rules.scope) \
        ) orphans (kind, id) LIMIT $1";

    /// Indexes and constraints that are there but not in force. $1 is the schema.
    CHECK_VALIDITY = "\
        SELECT 'index', c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
        WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1::text) AND NOT i.indisvalid \
        UNION ALL \
        SELECT 'constraint', conname::text FROM pg_constraint \
        WHERE connamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1::text) AND NOT convalidated";
}
