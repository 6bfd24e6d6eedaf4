//! Every SQL statement of this backend, by name. A test prepares each one on a migrated database
//! and checks the query plans of those that must use an index.

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $sql:expr;)*) => {
        $($(#[$doc])* pub(super) const $name: &str = $sql;)*

        #[cfg(test)]
        pub(super) const ALL: &[(&str, &str)] = &[$((stringify!($name), $name)),*];
    };
}

statements! {
    // Transactions.
    BEGIN_WRITE = "BEGIN IMMEDIATE";
    BEGIN_READ = "BEGIN DEFERRED";
    COMMIT = "COMMIT";
    ROLLBACK = "ROLLBACK";

    // File identity and schema.
    APPLICATION_ID = "PRAGMA application_id";
    SCHEMA_VERSION = "PRAGMA user_version";
    DATA_VERSION = "PRAGMA data_version";
    SCHEMA_OBJECT_COUNT = "SELECT count(*) FROM sqlite_schema";

    // Facts for a decision.
    COMMAND_BY_KEY =
        "SELECT fingerprint, receipt FROM commands WHERE key_scope = ?1 AND key = ?2";
    PLAN_WITH_LEASE =
        "SELECT t.body, p.body, p.head, l.owner, l.epoch, l.expires_at
         FROM plans p
         LEFT JOIN plan_terms t ON t.plan_id = p.plan_id
         LEFT JOIN leases l ON l.plan_id = p.plan_id
         WHERE p.plan_id = ?1";
    PLAN_HEAD = "SELECT head FROM plans WHERE plan_id = ?1";
    ACTION = "SELECT body FROM actions WHERE name = ?1";
    PROJECT = "SELECT body FROM projects WHERE name = ?1";
    LIVE_PLANS_COUNT =
        "SELECT count(*) FROM plan_projects INDEXED BY plan_projects_live
         WHERE project = ?1 AND live = 1";
    LIVE_PLANS =
        "SELECT plan_id FROM plan_projects INDEXED BY plan_projects_live
         WHERE project = ?1 AND live = 1 ORDER BY plan_id DESC LIMIT ?2";
    SCOPE_REVISION = "SELECT revision FROM rule_scopes WHERE scope = ?1";
    RULES_OF_SCOPE = "SELECT body FROM rules WHERE scope = ?1 ORDER BY name";
    OPEN_CHANGESETS =
        "SELECT body FROM changesets INDEXED BY changesets_open
         WHERE plan_id = ?1 AND sealed = 0 ORDER BY changeset_id";
    ENTRY = "SELECT body FROM entries WHERE changeset_id = ?1 AND path = ?2";
    ENTRIES = "SELECT body FROM entries WHERE changeset_id = ?1 ORDER BY path";
    ACCOUNT = "SELECT body FROM accounts WHERE name = ?1";
    REVIEWS = "SELECT body FROM reviews WHERE plan_id = ?1 ORDER BY person";
    RESERVATIONS = "SELECT body FROM reservations WHERE plan_id = ?1 ORDER BY epoch";

    /// Events that contain one of the markers, newest first. Unused markers are NULL.
    COMPLETION_EVENTS =
        "SELECT body, texts FROM events WHERE plan_id = ?1 AND version < ?2
         AND (instr(body, ?3) > 0 OR instr(body, ?4) > 0 OR instr(body, ?5) > 0)
         ORDER BY version DESC LIMIT ?6";

    // Writes of a decision.
    INSERT_PLAN =
        "INSERT INTO plans
         (plan_id, id_reversed, version, phase, state, action, needs_person, due_at, head, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    INSERT_PLAN_TERMS =
        "INSERT INTO plan_terms (plan_id, origin_plan, body) VALUES (?1, ?2, ?3)";
    /// Leaves the id and the action alone: they never change, so their indexes are not touched.
    UPDATE_PLAN =
        "UPDATE plans SET version = ?3, phase = ?4, state = ?5, needs_person = ?6, due_at = ?7,
         head = ?8, body = ?9 WHERE plan_id = ?1 AND version = ?2";
    INSERT_PLAN_PROJECT =
        "INSERT INTO plan_projects (project, plan_id, live) VALUES (?1, ?2, ?3)";
    END_PLAN_PROJECTS =
        "UPDATE plan_projects INDEXED BY plan_projects_of_plan SET live = 0 WHERE plan_id = ?1";
    PUT_PROJECT =
        "INSERT INTO projects (name, body) VALUES (?1, ?2)
         ON CONFLICT (name) DO UPDATE SET body = excluded.body";
    DROP_PROJECT = "DELETE FROM projects WHERE name = ?1";
    INSERT_EVENT =
        "INSERT INTO events (plan_id, version, body, texts, hash) VALUES (?1, ?2, ?3, ?4, ?5)";
    // Compares no epoch: the decision did, in this transaction.
    PUT_LEASE =
        "INSERT INTO leases (plan_id, owner, epoch, expires_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (plan_id) DO UPDATE
         SET owner = excluded.owner, epoch = excluded.epoch, expires_at = excluded.expires_at";
    DROP_LEASE = "DELETE FROM leases WHERE plan_id = ?1";
    PUT_VERDICT =
        "INSERT INTO verdicts (plan_id, body) VALUES (?1, ?2)
         ON CONFLICT (plan_id) DO UPDATE SET body = excluded.body";
    MARK_BLOCKED = "UPDATE plans SET needs_person = 1 WHERE plan_id = ?1 AND version = ?2";
    PUT_EVIDENCE =
        "INSERT INTO evidence (plan_id, entry, scope, name, revision, subject, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (plan_id, entry, scope, name, revision, subject)
         DO UPDATE SET body = excluded.body";
    PUT_ACTION =
        "INSERT INTO actions (name, body) VALUES (?1, ?2)
         ON CONFLICT (name) DO UPDATE SET body = excluded.body";
    PUT_SCOPE_REVISION =
        "INSERT INTO rule_scopes (scope, revision) VALUES (?1, ?2)
         ON CONFLICT (scope) DO UPDATE SET revision = excluded.revision";
    PUT_RULE =
        "INSERT INTO rules (scope, name, body) VALUES (?1, ?2, ?3)
         ON CONFLICT (scope, name) DO UPDATE SET body = excluded.body";
    DROP_RULE = "DELETE FROM rules WHERE scope = ?1 AND name = ?2";
    PUT_CHANGESET =
        "INSERT INTO changesets (changeset_id, plan_id, epoch, node, sealed, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (changeset_id) DO UPDATE SET sealed = excluded.sealed, body = excluded.body";
    PUT_ENTRY =
        "INSERT INTO entries (changeset_id, path, body) VALUES (?1, ?2, ?3)
         ON CONFLICT (changeset_id, path) DO UPDATE SET body = excluded.body";
    DROP_ENTRY = "DELETE FROM entries WHERE changeset_id = ?1 AND path = ?2";
    PUT_ACCOUNT =
        "INSERT INTO accounts (name, body) VALUES (?1, ?2)
         ON CONFLICT (name) DO UPDATE SET body = excluded.body";
    PUT_RESERVATION =
        "INSERT INTO reservations (plan_id, epoch, body) VALUES (?1, ?2, ?3)
         ON CONFLICT (plan_id, epoch) DO UPDATE SET body = excluded.body";
    DROP_RESERVATION = "DELETE FROM reservations WHERE plan_id = ?1 AND epoch = ?2";
    PUT_REVIEW =
        "INSERT INTO reviews (plan_id, person, body) VALUES (?1, ?2, ?3)
         ON CONFLICT (plan_id, person) DO UPDATE SET body = excluded.body";
    DROP_REVIEWS = "DELETE FROM reviews WHERE plan_id = ?1";
    INSERT_COMMAND =
        "INSERT INTO commands (command_id, committed, key_scope, key, fingerprint, receipt)
         VALUES (?1, 1, ?2, ?3, ?4, ?5)";

    // Resolution of a commit in doubt.
    INSERT_ABORTED = "INSERT INTO commands (command_id, committed) VALUES (?1, 0)";
    COMMAND_STATUS = "SELECT committed FROM commands WHERE command_id = ?1";
    DELETE_ABORTED = "DELETE FROM commands WHERE command_id = ?1 AND committed = 0";

    // Reads.
    PLAN_ROW =
        "SELECT t.body, p.body, p.head, l.owner, l.epoch, l.expires_at, v.body
         FROM plans p
         LEFT JOIN plan_terms t ON t.plan_id = p.plan_id
         LEFT JOIN leases l ON l.plan_id = p.plan_id
         LEFT JOIN verdicts v ON v.plan_id = p.plan_id
         WHERE p.plan_id = ?1";
    PLAN_IDS = "SELECT plan_id FROM plans WHERE plan_id < ?1 ORDER BY plan_id DESC LIMIT ?2";
    PLAN_IDS_BY_STAGE =
        "SELECT plan_id FROM plans INDEXED BY plans_by_stage
         WHERE phase = ?1 AND state = ?2 AND plan_id < ?3 ORDER BY plan_id DESC LIMIT ?4";
    PLAN_IDS_BY_ACTION =
        "SELECT plan_id FROM plans INDEXED BY plans_by_action
         WHERE action = ?1 AND plan_id < ?2
         AND (?3 IS NULL OR phase = ?3) AND (?4 IS NULL OR state = ?4)
         ORDER BY plan_id DESC LIMIT ?5";
    PLAN_IDS_NEEDING_A_PERSON =
        "SELECT plan_id FROM plans INDEXED BY plans_needing
         WHERE needs_person = 1 AND plan_id < ?1
         AND (?2 IS NULL OR action = ?2) AND (?3 IS NULL OR phase = ?3)
         AND (?4 IS NULL OR state = ?4)
         ORDER BY plan_id DESC LIMIT ?5";
    /// The cross join fixes the order in which the tables are scanned.
    PLAN_IDS_BY_PROJECT =
        "SELECT u.plan_id FROM plan_projects u CROSS JOIN plans p ON p.plan_id = u.plan_id
         WHERE u.project = ?1 AND u.plan_id < ?2
         AND (?3 IS NULL OR p.action = ?3) AND (?4 IS NULL OR p.phase = ?4)
         AND (?5 IS NULL OR p.state = ?5) AND (?6 = 0 OR p.needs_person = 1)
         ORDER BY u.plan_id DESC LIMIT ?7";
    PLAN_IDS_BY_ORIGIN =
        "SELECT t.plan_id FROM plan_terms t INDEXED BY plan_terms_by_origin
         CROSS JOIN plans p ON p.plan_id = t.plan_id
         WHERE t.origin_plan = ?1 AND t.plan_id < ?2
         AND (?3 IS NULL OR p.action = ?3) AND (?4 IS NULL OR p.phase = ?4)
         AND (?5 IS NULL OR p.state = ?5) AND (?6 = 0 OR p.needs_person = 1)
         AND (?7 IS NULL OR EXISTS
              (SELECT 1 FROM plan_projects u WHERE u.project = ?7 AND u.plan_id = t.plan_id))
         ORDER BY t.plan_id DESC LIMIT ?8";
    PLAN_IDS_BY_START =
        "SELECT plan_id FROM plans WHERE plan_id >= ?1 AND plan_id < ?2 ORDER BY plan_id LIMIT ?3";
    PLAN_IDS_BY_END =
        "SELECT plan_id FROM plans INDEXED BY plans_reversed
         WHERE id_reversed >= ?1 AND id_reversed < ?2 ORDER BY id_reversed LIMIT ?3";
    DUE_PLANS =
        "SELECT due_at, plan_id FROM plans INDEXED BY plans_due
         WHERE phase = ?1 AND due_at <= ?2 AND (due_at, plan_id) > (?3, ?4)
         ORDER BY due_at, plan_id LIMIT ?5";
    CLAIMABLE_PLANS =
        "SELECT due_at, plan_id FROM plans INDEXED BY plans_due
         WHERE phase = ?1 AND due_at <= ?2 AND (due_at, plan_id) > (?3, ?4) AND state = 'queued'
         ORDER BY due_at, plan_id LIMIT ?5";
    // Only candidates: the command that reclaims one checks the expiry again in its own transaction.
    EXPIRED_LEASES =
        "SELECT plan_id FROM leases INDEXED BY leases_expiry
         WHERE expires_at <= ?1 ORDER BY expires_at, plan_id LIMIT ?2";
    EVIDENCE = "SELECT body FROM evidence WHERE plan_id = ?1 AND entry = ?2";
    ACTIONS = "SELECT body FROM actions WHERE name > ?1 ORDER BY name LIMIT ?2";
    PROJECTS = "SELECT body FROM projects WHERE name > ?1 ORDER BY name LIMIT ?2";
    ALL_SCOPE_REVISIONS = "SELECT scope, revision FROM rule_scopes";
    ALL_RULES = "SELECT body FROM rules";
    CHANGESETS =
        "SELECT body FROM changesets INDEXED BY changesets_of_plan
         WHERE plan_id = ?1 ORDER BY changeset_id";

    // The event log.
    PLAN_EVENTS =
        "SELECT body, texts, hash FROM events WHERE plan_id = ?1 AND version > ?2
         ORDER BY version LIMIT ?3";
    EVENTS =
        "SELECT position, body, texts, hash FROM events WHERE position > ?1
         ORDER BY position LIMIT ?2";
    LATEST_POSITION = "SELECT coalesce(max(position), 0) FROM events";

    // Transcripts.
    INSERT_TRANSCRIPT_ENTRY =
        "INSERT INTO transcript_entries (plan_id, epoch, sequence, body) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (plan_id, epoch, sequence) DO NOTHING";
    TRANSCRIPT_ENTRIES =
        "SELECT epoch, sequence, body FROM transcript_entries
         WHERE plan_id = ?1 AND (epoch, sequence) > (?2, ?3) ORDER BY epoch, sequence LIMIT ?4";
    TRANSCRIPT_END =
        "SELECT epoch, sequence FROM transcript_entries
         WHERE plan_id = ?1 ORDER BY epoch DESC, sequence DESC LIMIT 1";
    DELETE_TRANSCRIPT_ENTRIES =
        "DELETE FROM transcript_entries WHERE plan_id = ?1 AND (epoch, sequence) IN
            (SELECT epoch, sequence FROM transcript_entries WHERE plan_id = ?1
             ORDER BY epoch, sequence LIMIT ?2)";

    // Maintenance.
    TRUNCATE_WAL = "PRAGMA wal_checkpoint(TRUNCATE)";
    INTEGRITY_CHECK = "PRAGMA integrity_check(100)";
    /// Plans without terms, or with an origin that differs from the encoded terms.
    WRONG_TERMS_ROWS =
        "SELECT p.plan_id FROM plans p LEFT JOIN plan_terms t ON t.plan_id = p.plan_id
         WHERE t.plan_id IS NULL OR (json_valid(t.body) AND t.origin_plan IS NOT
            coalesce(t.body ->> '$.origin.undo_of', t.body ->> '$.origin.rest_of'))
         LIMIT 100";
    /// Plans whose project rows differ from the encoded terms.
    WRONG_PROJECT_ROWS =
        "SELECT p.plan_id FROM plans p JOIN plan_terms t ON t.plan_id = p.plan_id
         WHERE json_valid(t.body) AND ((SELECT count(*) FROM plan_projects u WHERE u.plan_id = p.plan_id)
            <> (SELECT count(DISTINCT value ->> 'project') FROM json_each(t.body, '$.resources'))
            OR EXISTS (
                SELECT 1 FROM plan_projects u WHERE u.plan_id = p.plan_id
                AND (u.live <> (p.state NOT IN ('applied', 'cancelled'))
                     OR u.project NOT IN
                        (SELECT value ->> 'project' FROM json_each(t.body, '$.resources')))))
         LIMIT 100";
    FOREIGN_KEY_VIOLATIONS = "SELECT \"table\", parent FROM pragma_foreign_key_check LIMIT 100";

    // Migrations.
    /// Plans as schema 4 stored them, each with its first event.
    UNSPLIT_PLANS =
        "SELECT p.plan_id, p.body, e.body
         FROM plans p LEFT JOIN events e ON e.plan_id = p.plan_id AND e.version = 1
         WHERE p.plan_id > ?1 ORDER BY p.plan_id LIMIT ?2";
    SET_PLAN_BODY = "UPDATE plans SET body = ?2 WHERE plan_id = ?1";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{connection, migrate};

    fn open_migrated() -> rusqlite::Connection {
        let mut connection = rusqlite::Connection::open_in_memory().unwrap();
        connection::configure_writer(&connection).unwrap();
        migrate::run_migrations(&mut connection, migrate::MIGRATIONS).unwrap();
        connection
    }

    #[test]
    fn every_statement_prepares() {
        let connection = open_migrated();
        for (name, sql) in ALL {
            connection
                .prepare(sql)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert!(ALL.len() > 40);
    }

    /// Pages, claims and single rows come from an index in order: no scan, no sort. Only statements
    /// that read everything are exempt.
    #[test]
    fn no_statement_scans_a_table_or_sorts() {
        let connection = open_migrated();
        let full_scans = [
            "SCHEMA_OBJECT_COUNT",
            "ALL_SCOPE_REVISIONS",
            "ALL_RULES",
            "LATEST_POSITION",
            "FOREIGN_KEY_VIOLATIONS",
            "WRONG_TERMS_ROWS",
            "WRONG_PROJECT_ROWS",
        ];
        for (name, sql) in ALL {
            if full_scans.contains(name) || sql.starts_with("PRAGMA") {
                continue;
            }
            let mut explain = connection
                .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
                .unwrap();
            let nothing = vec![rusqlite::types::Null; explain.parameter_count()];
            let steps: Vec<String> = explain
                .query_map(rusqlite::params_from_iter(nothing), |row| row.get(3))
                .unwrap()
                .collect::<Result<_, _>>()
                .unwrap();
            for step in steps {
                assert!(
                    !step.starts_with("SCAN") && !step.contains("TEMP B-TREE"),
                    "{name}: {step}"
                );
            }
        }
    }
}
