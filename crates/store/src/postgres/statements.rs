//! Every statement this store sends with parameters. `check_integrity` prepares each of [`ALL`],
//! and a test runs it on a migrated database, so that a misspelled column is found early.
//!
//! Table names are unqualified: the search path of every connection contains only the store's
//! schema.

/// Defines the statements and the list of all of them, so that the list is complete.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $sql:literal;)*) => {
        $($(#[$doc])* pub(super) const $name: &str = $sql;)*

        pub(super) const ALL: &[(&str, &str)] = &[$((stringify!($name), $name)),*];
    };
}

statements! {
    /// Takes an exclusive lock on a key until the end of the transaction. Waiters are served in
    /// order.
    ADVISORY_LOCK = "SELECT pg_advisory_xact_lock($1)";

    /// Locks several keys one after the other; exclusively if $2 is true, otherwise shared. Unlike
    /// row locks, a new shared locker queues behind those that already wait.
    ADVISORY_LOCKS = "\
        SELECT CASE WHEN exclusive THEN pg_advisory_xact_lock(lock_key) ELSE pg_advisory_xact_lock_shared(lock_key) END \
        FROM unnest($1::bigint[], $2::boolean[]) AS requests (lock_key, exclusive)";

    /// Locks projects by name, in the order of $2. The server computes the keys, because
    /// `ADVISORY_LOCK_PROJECTS_OF_PLAN` locks projects whose names the client does not know yet.
    ADVISORY_LOCK_PROJECTS = "\
        SELECT CASE WHEN exclusive THEN pg_advisory_xact_lock(lock_key) ELSE pg_advisory_xact_lock_shared(lock_key) END \
        FROM (SELECT hashtextextended('planwright ' || $1::text || ' project ' || name, 0) AS lock_key, exclusive \
              FROM unnest($2::text[], $3::boolean[]) WITH ORDINALITY AS requests (name, exclusive, number) \
              ORDER BY number) locks";

    /// Locks the projects of plan $2, shared. A plan's projects never change.
    ADVISORY_LOCK_PROJECTS_OF_PLAN = "\
        SELECT pg_advisory_xact_lock_shared(lock_key) \
        FROM (SELECT hashtextextended('planwright ' || $1::text || ' project ' || project, 0) AS lock_key \
              FROM plan_projects WHERE plan_id = $2 ORDER BY project) locks";

    LOCK_PROJECTS_EXCLUSIVE = "SELECT body FROM projects WHERE name = ANY($1) ORDER BY name FOR UPDATE";

    LOCK_PROJECTS_SHARED = "SELECT body FROM projects WHERE name = ANY($1) ORDER BY name FOR SHARE";

    LOCK_PROJECTS_OF_PLAN = "\
        SELECT p.body FROM plan_projects u JOIN projects p ON p.name = u.project \
        WHERE u.plan_id = $1 ORDER BY u.project FOR SHARE OF p";

    /// Counts the unfinished plans of a project and returns the newest. Sent after the project's
    /// lock, like FACTS: earlier users of the project have committed by then.
    LIVE_PLANS = "\
        SELECT (SELECT count(*) FROM plan_projects WHERE project = $1 AND live), \
               ARRAY(SELECT plan_id FROM plan_projects WHERE project = $1 AND live ORDER BY plan_id DESC LIMIT $2)";

    /// The terms need no lock: they never change.
    LOCK_PLAN_EXCLUSIVE = "\
        SELECT p.head, p.body, t.body FROM plans p LEFT JOIN plan_terms t USING (plan_id) \
        WHERE p.plan_id = $1 FOR UPDATE OF p";

    LOCK_PLAN_SHARED = "\
        SELECT p.head, p.body, t.body FROM plans p LEFT JOIN plan_terms t USING (plan_id) \
        WHERE p.plan_id = $1 FOR SHARE OF p";

    LOCK_ACTION_EXCLUSIVE = "SELECT body FROM actions WHERE name = $1 FOR UPDATE";

    LOCK_ACTION_SHARED = "SELECT body FROM actions WHERE name = $1 FOR SHARE";

    LOCK_SCOPE_EXCLUSIVE = "SELECT scope, revision FROM rule_scopes WHERE scope = $1 FOR UPDATE";

    LOCK_SCOPES_SHARED = "SELECT scope, revision FROM rule_scopes WHERE scope = ANY($1) ORDER BY scope FOR SHARE";

    /// Locks entries of the plan's open changesets by the digests of their paths.
    LOCK_ENTRIES_AT = "\
        SELECT e.changeset_id, e.body FROM changesets c JOIN entries e USING (changeset_id) \
        WHERE c.plan_id = $1 AND NOT c.sealed AND e.path_digest = ANY($2) \
        ORDER BY e.changeset_id, e.path FOR UPDATE OF e";

    /// Locks all entries of the plan's open changesets.
    LOCK_ENTRIES = "\
        SELECT e.changeset_id, e.body FROM changesets c JOIN entries e USING (changeset_id) \
        WHERE c.plan_id = $1 AND NOT c.sealed ORDER BY e.changeset_id, e.path FOR UPDATE OF e";

    /// A missing account cannot be locked; the advisory lock on the ledger covers it.
    LOCK_ACCOUNTS = "SELECT name, body FROM accounts WHERE name = ANY($1) ORDER BY name FOR UPDATE";

    /// The reservations of a plan. Not locked: the advisory lock on the ledger protects them.
    RESERVATIONS = "SELECT body FROM reservations WHERE plan_id = $1 ORDER BY epoch";

    ACCOUNTS = "SELECT name, body FROM accounts WHERE name = ANY($1)";

    /// Reads rows that need no lock of their own because others cover them: the schema version, the
    /// clock, the lease of plan $1, the receipt under the key ($2, $3), the rules of the scopes $4,
    /// and the open changesets of plan $5.
    ///
    /// This must be a separate statement after the locks. A statement that waited for a row lock
    /// sees the newest version of that row, but everything else as it was before the wait.
    FACTS = "\
        SELECT v.version, v.system, v.xid_base, clock_timestamp(), \
               l.owner, l.epoch, l.expires_at, c.fingerprint, c.receipt, \
               ARRAY(SELECT body FROM rules WHERE scope = ANY($4)), \
               ARRAY(SELECT body FROM changesets WHERE plan_id = $5 AND NOT sealed ORDER BY changeset_id) \
        FROM schema_version v \
        LEFT JOIN leases l ON l.plan_id = $1 \
        LEFT JOIN commands c ON c.key_scope = $2 AND c.key = $3";

    /// Events that match one of the patterns $3, newest first. Sent under the plan's lock.
    COMPLETION_EVENTS = "\
        SELECT body, texts FROM events WHERE plan_id = $1 AND version < $2 AND body LIKE ANY($3) \
        ORDER BY version DESC LIMIT $4";

    /// Inserts a plan with its terms and its events. The events record the transaction that wrote them.
    INSERT_PLAN = "\
        WITH made AS ( \
            INSERT INTO plans (plan_id, version, phase, state, needs_person, due_at, head, body, id_reversed, action) \
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)), \
        frozen AS (INSERT INTO plan_terms (plan_id, origin_plan, body) VALUES ($1, $11, $12)) \
        INSERT INTO events (xid, position, plan_id, version, body, texts, hash) \
        SELECT $13 + pg_current_xact_id()::text::bigint, $14 + number, $1, number, body, texts, hash \
        FROM unnest($15::text[], $16::text[], $17::bytea[]) WITH ORDINALITY AS new_events (body, texts, hash, number)";

    /// Updates a plan and inserts the events since version $9.
    ///
    /// COMMIT is sent right after this statement, before its answer arrives. So the statement
    /// itself must fail if the plan is not at the expected version: it then writes NULL into a NOT
    /// NULL column. If the plan does not exist, its events violate the foreign key.
    UPDATE_PLAN = "\
        WITH moved AS ( \
            UPDATE plans SET version = CASE version WHEN $9 THEN $2::bigint END, phase = $3, state = $4, \
                             needs_person = $5, due_at = $6, head = $7, body = $8 \
            WHERE plan_id = $1) \
        INSERT INTO events (xid, position, plan_id, version, body, texts, hash) \
        SELECT $10 + pg_current_xact_id()::text::bigint, $11 + number, $1, $9 + number, body, texts, hash \
        FROM unnest($12::text[], $13::text[], $14::bytea[]) WITH ORDINALITY AS new_events (body, texts, hash, number)";

    INSERT_PLAN_PROJECTS = "\
        INSERT INTO plan_projects (project, plan_id, live) SELECT project, $1, $2 FROM unnest($3::text[]) AS used (project)";

    /// Marks the project rows of a plan that has ended.
    END_PLAN_PROJECTS = "UPDATE plan_projects SET live = false WHERE plan_id = $1";

    /// Fails if another transaction created the project meanwhile.
    INSERT_PROJECT = "INSERT INTO projects (name, body) VALUES ($1, $2)";

    UPDATE_PROJECT = "UPDATE projects SET body = $2 WHERE name = $1";

    DROP_PROJECT = "DELETE FROM projects WHERE name = $1";

    /// Creates or extends a lease. Compares no epoch: the decision did, on the plan that this transaction has locked.
    PUT_LEASE = "\
        INSERT INTO leases (plan_id, owner, epoch, expires_at) VALUES ($1, $2, $3, $4) \
        ON CONFLICT (plan_id) DO UPDATE \
        SET owner = excluded.owner, epoch = excluded.epoch, expires_at = excluded.expires_at";

    DROP_LEASE = "DELETE FROM leases WHERE plan_id = $1";

    /// Inserts or replaces a verdict.
    ///
    /// Also marks the plan's row as waiting for a person. This is only an index column; the plan's
    /// next event overwrites it.
    PUT_VERDICT = "\
        WITH marked AS (UPDATE plans SET needs_person = true WHERE plan_id = $1 AND version = $3) \
        INSERT INTO verdicts (plan_id, body) VALUES ($1, $2) \
        ON CONFLICT (plan_id) DO UPDATE SET body = excluded.body";

    PUT_EVIDENCE = "\
        INSERT INTO evidence (plan_id, entry, scope, name, revision, subject, body) \
        VALUES ($1, $2, $3, $4, $5, $6, $7) \
        ON CONFLICT (plan_id, entry, scope, name, revision, subject) DO UPDATE SET body = excluded.body";

    /// Fails if another transaction created the action meanwhile, so that the command is decided
    /// again.
    INSERT_ACTION = "INSERT INTO actions (name, body) VALUES ($1, $2)";

    UPDATE_ACTION = "UPDATE actions SET body = $2 WHERE name = $1";

    PUT_SCOPE = "\
        INSERT INTO rule_scopes (scope, revision) VALUES ($1, $2) \
        ON CONFLICT (scope) DO UPDATE SET revision = excluded.revision";

    PUT_RULE = "\
        INSERT INTO rules (scope, name, body) VALUES ($1, $2, $3) \
        ON CONFLICT (scope, name) DO UPDATE SET body = excluded.body";

    DROP_RULE = "DELETE FROM rules WHERE scope = $1 AND name = $2";

    INSERT_CHANGESET = "\
        INSERT INTO changesets (changeset_id, plan_id, epoch, node, sealed, body) \
        VALUES ($1, $2, $3, $4, $5, $6)";

    UPDATE_CHANGESET = "UPDATE changesets SET sealed = $2, body = $3 WHERE changeset_id = $1";

    /// Fails if another transaction created the entry meanwhile.
    INSERT_ENTRY = "INSERT INTO entries (changeset_id, path, body) VALUES ($1, $2, $3)";

    UPDATE_ENTRY = "UPDATE entries SET body = $3 WHERE changeset_id = $1 AND path_digest = $2";

    DROP_ENTRY = "DELETE FROM entries WHERE changeset_id = $1 AND path_digest = $2";

    PUT_ACCOUNT = "\
        INSERT INTO accounts (name, body) VALUES ($1, $2) \
        ON CONFLICT (name) DO UPDATE SET body = excluded.body";

    PUT_RESERVATION = "\
        INSERT INTO reservations (plan_id, epoch, body) VALUES ($1, $2, $3) \
        ON CONFLICT (plan_id, epoch) DO UPDATE SET body = excluded.body";

    DROP_RESERVATION = "DELETE FROM reservations WHERE plan_id = $1 AND epoch = $2";

    /// The plan's lock covers its reviews.
    PUT_REVIEW = "\
        INSERT INTO reviews (plan_id, person, body) VALUES ($1, $2, $3) \
        ON CONFLICT (plan_id, person) DO UPDATE SET body = excluded.body";

    DROP_REVIEWS = "DELETE FROM reviews WHERE plan_id = $1";

    /// Records a submission in its own transaction.
    INSERT_COMMAND = "\
        INSERT INTO commands (command_id, committed, key_scope, key, fingerprint, receipt) \
        VALUES ($1, true, $2, $3, $4, $5)";

    /// Records an unanswered submission as aborted. Waits for its transaction if that still runs;
    /// does nothing if it has committed.
    ABORT_COMMAND = "\
        INSERT INTO commands (command_id, committed) VALUES ($1, false) \
        ON CONFLICT (command_id) DO NOTHING";

    COMMAND_STATUS = "SELECT committed FROM commands WHERE command_id = $1";

    /// Checks whether this user may use schema $1 and whether it contains a store. No row if the
    /// schema does not exist.
    ///
    /// Reads the catalog directly. `to_regclass` uses the session's cache, which waiting for a lock
    /// does not refresh, and treats an inaccessible schema as absent.
    SCHEMA_EXISTS = "\
        SELECT has_schema_privilege(n.oid, 'USAGE'), EXISTS ( \
            SELECT FROM pg_catalog.pg_class c \
            WHERE c.relnamespace = n.oid AND c.relname = 'schema_version') \
        FROM pg_catalog.pg_namespace n WHERE n.nspname = $1";

    /// The first row of a new store. $1 identifies the server.
    INSERT_SCHEMA_VERSION = "INSERT INTO schema_version (version, system, xid_base) VALUES (0, $1, 0)";

    SCHEMA_VERSION = "SELECT version FROM schema_version";

    /// Plans as schema 4 stored them, after plan $1, each with its first event.
    UNSPLIT_PLANS = "\
        SELECT p.plan_id, p.body, e.body FROM plans p \
        LEFT JOIN events e ON e.plan_id = p.plan_id AND e.version = 1 \
        WHERE p.plan_id > $1 ORDER BY p.plan_id LIMIT $2";

    /// Stores the terms ($2 origins, $3 bodies) and states ($4) of the plans $1.
    SPLIT_PLANS = "\
        WITH split AS ( \
            SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS s (plan_id, origin_plan, terms, state)), \
        moved AS (UPDATE plans p SET body = split.state FROM split WHERE p.plan_id = split.plan_id) \
        INSERT INTO plan_terms (plan_id, origin_plan, body) SELECT plan_id, origin_plan, terms FROM split";

    PLAN = "\
        SELECT p.head, p.body, l.owner, l.epoch, l.expires_at, v.body, t.body \
        FROM plans p LEFT JOIN plan_terms t USING (plan_id) \
        LEFT JOIN leases l USING (plan_id) LEFT JOIN verdicts v USING (plan_id) \
        WHERE p.plan_id = $1";

    /// A page of plans, newest first. Here and below, `LIMIT 1` stops the planner from reading all
    /// leases and verdicts, because it cannot know that the page has few plans.
    PLANS = "\
        SELECT p.head, p.body, l.owner, l.epoch, l.expires_at, v.body, t.body \
        FROM (SELECT plan_id, head, body FROM plans WHERE plan_id < $1 ORDER BY plan_id DESC LIMIT $2) p \
        LEFT JOIN LATERAL (SELECT * FROM plan_terms t WHERE t.plan_id = p.plan_id LIMIT 1) t ON true \
        LEFT JOIN LATERAL (SELECT * FROM leases l WHERE l.plan_id = p.plan_id LIMIT 1) l ON true \
        LEFT JOIN LATERAL (SELECT * FROM verdicts v WHERE v.plan_id = p.plan_id LIMIT 1) v ON true \
        ORDER BY p.plan_id DESC";

    /// A page of plans in the given pairs of phase and state: reads a page of each pair from the
    /// index and keeps the newest.
    ///
    /// Ranges express equality. With `=` on the first index columns, the planner may instead walk
    /// the ids of all plans until it has found enough matches.
    PLANS_BY_STATE = "\
        SELECT p.head, p.body, l.owner, l.epoch, l.expires_at, v.body, t.body \
        FROM ( \
            SELECT found.* FROM unnest($3::text[], $4::text[]) AS pair (phase, state) \
            CROSS JOIN LATERAL ( \
                SELECT plan_id, head, body FROM plans \
                WHERE (phase, state) >= (pair.phase, pair.state) \
                  AND (phase, state, plan_id) < (pair.phase, pair.state, $1) \
                ORDER BY phase DESC, state DESC, plan_id DESC LIMIT $2 \
            ) found ORDER BY plan_id DESC LIMIT $2 \
        ) p \
        LEFT JOIN LATERAL (SELECT * FROM plan_terms t WHERE t.plan_id = p.plan_id LIMIT 1) t ON true \
        LEFT JOIN LATERAL (SELECT * FROM leases l WHERE l.plan_id = p.plan_id LIMIT 1) l ON true \
        LEFT JOIN LATERAL (SELECT * FROM verdicts v WHERE v.plan_id = p.plan_id LIMIT 1) v ON true \
        ORDER BY p.plan_id DESC";

    /// A page of an action's plans, optionally by phase and state. Ranges as above.
    PLANS_BY_ACTION = "\
        SELECT p.head, p.body, l.owner, l.epoch, l.expires_at, v.body, t.body \
        FROM ( \
            SELECT plan_id, head, body FROM plans WHERE action >= $3 AND (action, plan_id) < ($3, $1) \
              AND ($4::text IS NULL OR phase = $4) AND ($5::text IS NULL OR state = $5) \
            ORDER BY action DESC, plan_id DESC LIMIT $2 \
        ) p \
        LEFT JOIN LATERAL (SELECT * FROM plan_terms t WHERE t.plan_id = p.plan_id LIMIT 1) t ON true \
        LEFT JOIN LATERAL (SELECT * FROM leases l WHERE l.plan_id = p.plan_id LIMIT 1) l ON true \
        LEFT JOIN LATERAL (SELECT * FROM verdicts v WHERE v.plan_id = p.plan_id LIMIT 1) v ON true \
        ORDER BY p.plan_id DESC";

    /// A page of plans that wait for a person, optionally by action, phase and state.
    PLANS_NEEDING_A_PERSON = "\
        SELECT p.head, p.body, l.owner, l.epoch, l.expires_at, v.body, t.body \
        FROM ( \
            SELECT plan_id, head, body FROM plans WHERE needs_person AND plan_id < $1 \
              AND ($3::text IS NULL OR action = $3) \
              AND ($4::text IS NULL OR phase = $4) AND ($5::text IS NULL OR state = $5) \
            ORDER BY plan_id DESC LIMIT $2 \
        ) p \
        LEFT JOIN LATERAL (SELECT * FROM plan_terms t WHERE t.plan_id = p.plan_id LIMIT 1) t ON true \
        LEFT JOIN LATERAL (SELECT * FROM leases l WHERE l.plan_id = p.plan_id LIMIT 1) l ON true \
        LEFT JOIN LATERAL (SELECT * FROM verdicts v WHERE v.plan_id = p.plan_id LIMIT 1) v ON true \
        ORDER BY p.plan_id DESC";

    /// A page of a project's plans, optionally by action, phase, state and waiting for a person.
    /// Ranges as above. Plans are looked up by id, in index order.
    PLANS_BY_PROJECT = "\
        SELECT p.head, p.body, l.owner, l.epoch, l.expires_at, v.body, t.body \
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
        LEFT JOIN LATERAL (SELECT * FROM plan_terms t WHERE t.plan_id = p.plan_id LIMIT 1) t ON true \
        LEFT JOIN LATERAL (SELECT * FROM leases l WHERE l.plan_id = p.plan_id LIMIT 1) l ON true \
        LEFT JOIN LATERAL (SELECT * FROM verdicts v WHERE v.plan_id = p.plan_id LIMIT 1) v ON true \
        ORDER BY p.plan_id DESC";

    /// A page of the plans that undo plan $3 or hold the rest of its result, optionally by action,
    /// phase, state, waiting for a person and project. Ranges as above.
    PLANS_BY_ORIGIN = "\
        SELECT p.head, p.body, l.owner, l.epoch, l.expires_at, v.body, p.terms \
        FROM ( \
            SELECT found.*, derived.body AS terms FROM ( \
                SELECT origin_plan, plan_id, body FROM plan_terms \
                WHERE origin_plan >= $3 AND (origin_plan, plan_id) < ($3, $1) \
                ORDER BY origin_plan DESC, plan_id DESC \
            ) derived CROSS JOIN LATERAL ( \
                SELECT plan_id, head, body FROM plans WHERE plan_id = derived.plan_id \
                  AND ($4::text IS NULL OR action = $4) AND ($5::text IS NULL OR phase = $5) \
                  AND ($6::text IS NULL OR state = $6) AND (NOT $7::boolean OR needs_person) \
                  AND ($8::text IS NULL OR EXISTS ( \
                      SELECT FROM plan_projects u WHERE u.project = $8 AND u.plan_id = derived.plan_id)) LIMIT 1 \
            ) found ORDER BY derived.origin_plan DESC, derived.plan_id DESC LIMIT $2 \
        ) p \
        LEFT JOIN LATERAL (SELECT * FROM leases l WHERE l.plan_id = p.plan_id LIMIT 1) l ON true \
        LEFT JOIN LATERAL (SELECT * FROM verdicts v WHERE v.plan_id = p.plan_id LIMIT 1) v ON true \
        ORDER BY p.plan_id DESC";

    /// Ids that start with $1, or whose reverse starts with $2. `~` sorts after every character of
    /// an id.
    PLAN_IDS_BY_FRAGMENT = "\
        SELECT plan_id FROM ( \
            (SELECT plan_id FROM plans WHERE plan_id >= $1 AND plan_id < $1 || '~' ORDER BY plan_id LIMIT $3) \
            UNION \
            (SELECT plan_id FROM plans WHERE id_reversed >= $2 AND id_reversed < $2 || '~' ORDER BY id_reversed LIMIT $3) \
        ) found ORDER BY plan_id LIMIT $3";

    /// Due plans. Uses the statement's time and not each row's, because only then the index bounds
    /// the search.
    DUE_PLANS = "\
        SELECT due_at, plan_id FROM plans \
        WHERE phase = $1 AND due_at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint \
          AND (due_at, plan_id) > ($2, $3) \
        ORDER BY due_at, plan_id LIMIT $4";

    /// Due plans that can be claimed.
    CLAIMABLE_PLANS = "\
        SELECT due_at, plan_id FROM plans \
        WHERE phase = $1 AND due_at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint \
          AND (due_at, plan_id) > ($2, $3) AND state = 'queued' \
        ORDER BY due_at, plan_id LIMIT $4";

    /// Plans whose lease has expired. Only candidates, read without a lock: the command that reclaims one checks the
    /// expiry again.
    EXPIRED_LEASES = "\
        SELECT plan_id FROM leases \
        WHERE expires_at <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint \
        ORDER BY expires_at, plan_id LIMIT $1";

    EVIDENCE = "SELECT body FROM evidence WHERE plan_id = $1 AND entry = $2";

    REVIEWS = "SELECT body FROM reviews WHERE plan_id = $1 ORDER BY person";

    ACTION = "SELECT body FROM actions WHERE name = $1";

    ACTIONS = "SELECT body FROM actions WHERE name > $1 ORDER BY name LIMIT $2";

    PROJECT = "SELECT body FROM projects WHERE name = $1";

    PROJECTS = "SELECT body FROM projects WHERE name > $1 ORDER BY name LIMIT $2";

    SCOPE_REVISIONS = "SELECT scope, revision FROM rule_scopes WHERE scope = ANY($1)";

    ALL_SCOPE_REVISIONS = "SELECT scope, revision FROM rule_scopes";

    RULES_OF_SCOPES = "SELECT body FROM rules WHERE scope = ANY($1)";

    ALL_RULES = "SELECT body FROM rules";

    CHANGESETS = "SELECT body FROM changesets WHERE plan_id = $1 ORDER BY changeset_id";

    ENTRIES = "\
        SELECT e.changeset_id, e.body FROM changesets c JOIN entries e USING (changeset_id) \
        WHERE c.plan_id = $1 ORDER BY e.changeset_id, e.path";

    NOW = "SELECT clock_timestamp()";

    PLAN_EVENTS = "\
        SELECT xid, position, body, texts, hash FROM events \
        WHERE plan_id = $1 AND version > $2 ORDER BY version LIMIT $3";

    /// Readable events of all plans: no event can be inserted before them any more (see `tail.rs`).
    /// $3 is the server's identity, or 0.
    EVENTS = "\
        SELECT xid, position, body, texts, hash FROM events \
        WHERE (xid, position) > ($1, $2) AND xid < ( \
            SELECT CASE WHEN $3::bigint IN (0, system) THEN xid_base + pg_snapshot_xmin(pg_current_snapshot())::text::bigint \
                   ELSE 9223372036854775807 END FROM schema_version) \
        ORDER BY xid, position LIMIT $4";

    /// The last readable event.
    LATEST_EVENT = "\
        SELECT xid, position FROM events WHERE xid < ( \
            SELECT CASE WHEN $1::bigint IN (0, system) THEN xid_base + pg_snapshot_xmin(pg_current_snapshot())::text::bigint \
                   ELSE 9223372036854775807 END FROM schema_version) \
        ORDER BY xid DESC, position DESC LIMIT 1";

    /// Checks for events that are not readable yet because an older transaction still runs.
    EVENTS_HELD_BACK = "\
        SELECT coalesce((SELECT max(xid) FROM events) >= ( \
            SELECT CASE WHEN $1::bigint IN (0, system) THEN xid_base + pg_snapshot_xmin(pg_current_snapshot())::text::bigint \
                   ELSE 9223372036854775807 END FROM schema_version), false)";

    /// Appends bodies $5 as entries of plan $1 and epoch $3, numbered from $4, if the plan exists
    /// and the store has schema $2. Returns the schema version and the number of plans found.
    APPEND_TRANSCRIPT = "\
        WITH target AS ( \
            SELECT plan_id FROM plans WHERE plan_id = $1 AND EXISTS (SELECT FROM schema_version WHERE version = $2)), \
        added AS ( \
            INSERT INTO transcript_entries (plan_id, epoch, sequence, body) \
            SELECT plan_id, $3, $4::bigint + number - 1, body \
            FROM target, unnest($5::text[]) WITH ORDINALITY AS entries (body, number) \
            ON CONFLICT (plan_id, epoch, sequence) DO NOTHING) \
        SELECT version, (SELECT count(*) FROM target) FROM schema_version";

    TRANSCRIPT_ENTRIES = "\
        SELECT epoch, sequence, body FROM transcript_entries \
        WHERE plan_id = $1 AND (epoch, sequence) > ($2, $3) ORDER BY epoch, sequence LIMIT $4";

    TRANSCRIPT_END = "\
        SELECT epoch, sequence FROM transcript_entries WHERE plan_id = $1 \
        ORDER BY epoch DESC, sequence DESC LIMIT 1";

    /// Deletes the entries of plan $1 if the store has schema $2. Returns the schema version and
    /// the number of entries.
    DELETE_TRANSCRIPT = "\
        WITH deleted AS ( \
            DELETE FROM transcript_entries \
            WHERE plan_id = $1 AND EXISTS (SELECT FROM schema_version WHERE version = $2) RETURNING 1) \
        SELECT version, (SELECT count(*) FROM deleted) FROM schema_version";

    /// Rebases transaction ids after the store moved to this server.
    ADOPT_SERVER = "\
        UPDATE schema_version \
        SET system = $1, xid_base = greatest(xid_base, (SELECT coalesce(max(xid), 0) FROM events)) \
        WHERE system <> $1";

    SET_SCHEMA_VERSION = "UPDATE schema_version SET version = $1";

    /// Plans whose number of events differs from their version.
    CHECK_VERSIONS = "\
        SELECT p.plan_id, p.version, count(e.version), coalesce(max(e.version), 0) \
        FROM plans p LEFT JOIN events e USING (plan_id) GROUP BY p.plan_id, p.version \
        HAVING count(e.version) <> p.version OR coalesce(max(e.version), 0) <> p.version LIMIT $1";

    /// Plans whose reversed id is wrong.
    CHECK_REVERSED = "SELECT plan_id FROM plans WHERE id_reversed <> reverse(plan_id) LIMIT $1";

    /// Plans without terms, or with an origin that differs from the encoded terms.
    CHECK_TERMS = "\
        SELECT p.plan_id FROM plans p LEFT JOIN plan_terms t USING (plan_id) \
        WHERE t.plan_id IS NULL OR t.origin_plan IS DISTINCT FROM \
            coalesce(t.body::json #>> '{origin,undo_of}', t.body::json #>> '{origin,rest_of}') LIMIT $1";

    /// Plans whose project rows differ from the encoded terms.
    CHECK_PROJECTS = "\
        SELECT plan_id FROM plans p JOIN plan_terms t USING (plan_id) \
        WHERE ARRAY(SELECT project FROM plan_projects u WHERE u.plan_id = p.plan_id ORDER BY project) \
           <> ARRAY(SELECT DISTINCT (r ->> 'project') COLLATE \"C\" \
                    FROM json_array_elements(t.body::json -> 'resources') r ORDER BY 1) \
           OR EXISTS (SELECT FROM plan_projects u \
                      WHERE u.plan_id = p.plan_id AND u.live = (p.state IN ('applied', 'cancelled'))) LIMIT $1";

    /// Rows without their parent. Foreign keys prevent them unless they were disabled.
    CHECK_ORPHANS = "\
        SELECT kind, id FROM ( \
            SELECT 'event', plan_id FROM events WHERE NOT EXISTS (SELECT FROM plans p WHERE p.plan_id = events.plan_id) \
            UNION ALL \
            SELECT 'lease', plan_id FROM leases WHERE NOT EXISTS (SELECT FROM plans p WHERE p.plan_id = leases.plan_id) \
            UNION ALL \
            SELECT 'verdict', plan_id FROM verdicts WHERE NOT EXISTS (SELECT FROM plans p WHERE p.plan_id = verdicts.plan_id) \
            UNION ALL \
            SELECT 'terms', plan_id FROM plan_terms WHERE NOT EXISTS (SELECT FROM plans p WHERE p.plan_id = plan_terms.plan_id) \
            UNION ALL \
            SELECT 'use', plan_id FROM plan_projects WHERE NOT EXISTS (SELECT FROM plans p WHERE p.plan_id = plan_projects.plan_id) \
            UNION ALL \
            SELECT DISTINCT 'transcript', plan_id FROM transcript_entries WHERE NOT EXISTS (SELECT FROM plans p WHERE p.plan_id = transcript_entries.plan_id) \
            UNION ALL \
            SELECT 'review', plan_id FROM reviews WHERE NOT EXISTS (SELECT FROM plans p WHERE p.plan_id = reviews.plan_id) \
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

    /// Indexes and constraints that exist but are not valid. $1 is the schema.
    CHECK_VALIDITY = "\
        SELECT 'index', c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
        WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1::text) AND NOT i.indisvalid \
        UNION ALL \
        SELECT 'constraint', conname::text FROM pg_constraint \
        WHERE connamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1::text) AND NOT convalidated";
}
