//! Tests that need private access: other migrations, another file system, a full disk.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io;
use std::path::Path;
use std::time::Duration;

use plan::facts::ReceiptOutcome;
use plan::invariant::{Gate, Rule, RuleCheck, RuleDraft, RuleScope};
use plan::{Caller, CommandId, CommandReceipt, Decision, RowWrite, Timestamp, Verb};

use super::migrate::{MIGRATIONS, SchemaMigration};
use super::*;
use crate::{
    CommitError, CommitOutcome, ReadSet, StoreError, StoreMaintenance, StoreReader, StoreWriter,
};

const SUPPORTED_VERSION: u32 = MIGRATIONS.len() as u32;

const NEXT_MIGRATIONS: &[SchemaMigration] = &with_next_migration(
    "next",
    "CREATE TABLE next (x INTEGER) STRICT; INSERT INTO next VALUES (1);",
);

const BROKEN_MIGRATIONS: &[SchemaMigration] = &with_next_migration(
    "broken",
    "CREATE TABLE next (x INTEGER) STRICT; DROP TABLE nothing;",
);

/// Returns the migrations of a program one schema version newer.
const fn with_next_migration(
    title: &'static str,
    sql: &'static str,
) -> [SchemaMigration; MIGRATIONS.len() + 1] {
    let number = SUPPORTED_VERSION + 1;
    let next = SchemaMigration {
        number,
        title,
        sql,
        convert: None,
    };
    let mut all = [next; MIGRATIONS.len() + 1];
    let mut at = 0;
    while at < MIGRATIONS.len() {
        all[at] = MIGRATIONS[at];
        at += 1;
    }
    all
}

fn open_store(path: &Path, migrations: &'static [SchemaMigration]) -> SqliteStore {
    SqliteStore {
        migrations,
        ..SqliteStore::new(path, SqliteOptions::default())
    }
}

/// Commits one rule, the smallest possible write.
pub(super) fn add_rule(store: &SqliteStore, number: u64) -> Result<CommitOutcome, CommitError> {
    add_rule_with_source(store, number, "true")
}

fn add_rule_with_source(
    store: &SqliteStore,
    number: u64,
    source: &str,
) -> Result<CommitOutcome, CommitError> {
    store.commit(build_rule_submission(number, source))
}

fn build_rule_submission(number: u64, source: &str) -> Submission {
    let rule = Rule {
        scope: RuleScope::Global,
        revision: number,
        draft: RuleDraft {
            name: format!("rule-{number}").parse().unwrap(),
            check: RuleCheck::Expr(source.to_owned()),
            at: vec![Gate::Apply],
            advisory: false,
            non_overridable: false,
        },
        added_at: Timestamp(0),
        added_by: Caller::Person("ada".to_owned()),
    };
    Submission {
        id: CommandId::from_parts(1, u128::from(number)),
        key: None,
        reads: ReadSet::default(),
        decide: Box::new(move |_, now| {
            Ok(Decision {
                plans: Vec::new(),
                rows: vec![RowWrite::PutRule(rule.clone())],
                receipt: CommandReceipt {
                    verb: Verb::AddRule,
                    outcome: ReceiptOutcome::Done,
                    plan: None,
                    version: None,
                    epoch: None,
                    changeset: None,
                    grant: None,
                    at: now,
                },
            })
        }),
    }
}

fn count_rules(store: &SqliteStore) -> usize {
    store.read_rules(&[]).unwrap().rules.len()
}

#[test]
fn readers_report_an_older_schema_and_the_first_write_migrates_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("planwright.db");
    let old = open_store(&path, MIGRATIONS);
    add_rule(&old, 1).unwrap();

    let new = open_store(&path, NEXT_MIGRATIONS);
    let error = new.read_rules(&[]).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::OlderSchema { found, known, .. }
                if found == SUPPORTED_VERSION && known == SUPPORTED_VERSION + 1
        ),
        "{error:?}"
    );
    assert_eq!(
        new.read_info().unwrap().schema_version,
        Some(SUPPORTED_VERSION)
    );
    add_rule(&new, 2).unwrap();
    assert_eq!(
        (count_rules(&new), new.read_info().unwrap().schema_version),
        (2, Some(SUPPORTED_VERSION + 1))
    );

    // The copy has the old schema, and an old program can read it.
    let copy = format!("planwright.db.before-schema-{}", SUPPORTED_VERSION + 1);
    let copy = directory.path().join(copy);
    assert_eq!(count_rules(&open_store(&copy, MIGRATIONS)), 1);

    // An old worker that has the file open is refused.
    let error = add_rule(&old, 3).unwrap_err();
    assert!(
        matches!(
            error,
            CommitError::Failed(StoreError::NewerSchema { found, known, .. })
                if found == SUPPORTED_VERSION + 1 && known == SUPPORTED_VERSION
        ),
        "{error:?}"
    );
    assert!(matches!(
        old.read_rules(&[]),
        Err(StoreError::NewerSchema { .. })
    ));
    assert_eq!(
        new.migrate_schema().unwrap(),
        (SUPPORTED_VERSION + 1, SUPPORTED_VERSION + 1)
    );
}

#[test]
fn migrating_the_first_schema_keeps_data_and_adds_projects() {
    const FIRST: &[SchemaMigration] = MIGRATIONS.split_at(1).0;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("planwright.db");
    let old = open_store(&path, FIRST);
    add_rule(&old, 1).unwrap();
    assert_eq!(old.check_integrity().unwrap(), Vec::<String>::new());
    let new = open_store(&path, MIGRATIONS);
    assert_eq!(new.migrate_schema().unwrap(), (1, SUPPORTED_VERSION));
    assert_eq!(
        (count_rules(&new), new.list_projects(None, 10).unwrap()),
        (1, Vec::new())
    );
    assert_eq!(new.check_integrity().unwrap(), Vec::<String>::new());
}

#[test]
fn migrating_returns_the_versions_before_and_after() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("planwright.db");
    assert_eq!(
        open_store(&path, MIGRATIONS).migrate_schema().unwrap(),
        (0, SUPPORTED_VERSION)
    );
    assert_eq!(
        open_store(&path, NEXT_MIGRATIONS).migrate_schema().unwrap(),
        (SUPPORTED_VERSION, SUPPORTED_VERSION + 1)
    );
}

#[test]
fn a_migration_that_fails_leaves_the_store_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("planwright.db");
    let old = open_store(&path, MIGRATIONS);
    add_rule(&old, 1).unwrap();
    let failed = add_rule(&open_store(&path, BROKEN_MIGRATIONS), 2).unwrap_err();
    assert!(
        matches!(failed, CommitError::Failed(StoreError::Database { .. })),
        "{failed:?}"
    );
    add_rule(&old, 3).unwrap();
    assert_eq!(
        (count_rules(&old), old.read_info().unwrap().schema_version),
        (2, Some(SUPPORTED_VERSION))
    );
}

#[test]
fn a_network_file_system_is_refused_before_anything_is_created() {
    fn remote(_: &Path) -> io::Result<Option<&'static str>> {
        Ok(Some("NFS"))
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/planwright.db");
    let on_network = || SqliteStore {
        file: DatabaseFile::new(&path, remote),
        ..SqliteStore::new(&path, SqliteOptions::default())
    };
    let refused = add_rule(&on_network(), 1).unwrap_err();
    assert!(
        matches!(
            refused,
            CommitError::Failed(StoreError::NetworkFileSystem { kind: "NFS", .. })
        ),
        "{refused:?}"
    );
    assert_eq!(
        count_rules(&on_network()),
        0,
        "an absent store reads as empty"
    );
    assert!(!path.parent().unwrap().exists());
    // An existing file is not even read.
    add_rule(&open_store(&path, MIGRATIONS), 1).unwrap();
    let refused = on_network().read_rules(&[]).unwrap_err();
    assert!(matches!(refused, StoreError::NetworkFileSystem { .. }));
}

/// A read in the meantime must not report that there are no plans, and a write must not start a new store.
#[test]
fn a_removed_file_is_an_unreachable_store_until_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("planwright.db");
    let away = directory.path().join("away.db");
    let store = open_store(&path, MIGRATIONS);
    assert_eq!(count_rules(&store), 0, "a store that never was is empty");
    add_rule(&store, 1).unwrap();
    // All commits are in one file, as after the last connection was closed.
    drop(store);
    let store = open_store(&path, MIGRATIONS);
    assert_eq!(count_rules(&store), 1);
    std::fs::rename(&path, &away).unwrap();
    let refused = store.read_rules(&[]).unwrap_err();
    assert!(
        matches!(refused, StoreError::Unreachable { .. }),
        "{refused:?}"
    );
    assert!(refused.is_transient());
    let refused = add_rule(&store, 2).unwrap_err();
    assert!(
        matches!(refused, CommitError::Failed(StoreError::Unreachable { .. })),
        "{refused:?}"
    );
    assert!(!path.exists(), "no new store was made");
    std::fs::rename(&away, &path).unwrap();
    assert_eq!(count_rules(&store), 1);
    add_rule(&store, 2).unwrap();
    assert_eq!(count_rules(&store), 2);
}

#[test]
fn a_full_disk_is_reported_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("planwright.db");
    let store = open_store(&path, MIGRATIONS);
    add_rule(&store, 1).unwrap();
    let limit = |pages: u32| {
        let mut turn = store.take_write_turn();
        let connection = turn.connection(&store).unwrap();
        connection
            .pragma_update(None, "max_page_count", pages)
            .unwrap();
    };
    limit(1);
    let long = "x".repeat(100_000);
    let full = add_rule_with_source(&store, 2, &long).unwrap_err();
    assert!(
        matches!(full, CommitError::Failed(StoreError::Full { .. })),
        "{full:?}"
    );
    assert_eq!(count_rules(&store), 1);
    // A write that fits still succeeds.
    add_rule(&store, 3).unwrap();
    limit(100_000);
    add_rule_with_source(&store, 2, &long).unwrap();
    assert_eq!(count_rules(&store), 3);
    assert_eq!(store.check_integrity().unwrap(), Vec::<String>::new());
}

#[test]
fn a_foreign_lock_holder_is_reported_as_busy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("planwright.db");
    let store = open_store(&path, MIGRATIONS);
    add_rule(&store, 1).unwrap();
    let shorten_busy_timeout = || {
        let mut turn = store.take_write_turn();
        let connection = turn.connection(&store).unwrap();
        connection
            .busy_timeout(std::time::Duration::from_millis(50))
            .unwrap();
    };
    shorten_busy_timeout();
    let foreign = rusqlite::Connection::open(&path).unwrap();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    let busy = add_rule(&store, 2).unwrap_err();
    assert!(
        matches!(busy, CommitError::Failed(StoreError::Busy { .. })),
        "{busy:?}"
    );
    foreign.execute_batch("ROLLBACK").unwrap();
    add_rule(&store, 2).unwrap();
}

/// Truncating the log blocks all writers, so it waits for readers only briefly. The busy timeout
/// for other statements stays the same.
#[test]
fn truncating_the_log_gives_up_soon_and_keeps_the_busy_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("planwright.db");
    let store = open_store(&path, MIGRATIONS);
    add_rule(&store, 1).unwrap();
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM rules")
        .unwrap();
    add_rule(&store, 2).unwrap();
    let mut turn = store.take_write_turn();
    turn.connection(&store).unwrap();
    let began = std::time::Instant::now();
    turn.try_truncate_wal();
    assert!(began.elapsed() < connection::BUSY_TIMEOUT / 2);
    let busy_millis: u64 = turn
        .connection(&store)
        .unwrap()
        .pragma_query_value(None, "busy_timeout", |row| row.get(0))
        .unwrap();
    assert_eq!(Duration::from_millis(busy_millis), connection::BUSY_TIMEOUT);
}

/// COMMIT fails because of one member: a deferred constraint. The batch is resolved as aborted, and
/// the other members succeed on their own.
#[test]
fn a_failed_commit_is_resolved_and_each_member_is_decided_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("planwright.db");
    let store = open_store(&path, MIGRATIONS);
    add_rule(&store, 1).unwrap();
    let direct = rusqlite::Connection::open(&path).unwrap();
    direct
        .execute_batch(
            "CREATE TABLE trap (x TEXT REFERENCES plans (plan_id) DEFERRABLE INITIALLY DEFERRED);
             CREATE TRIGGER set_trap AFTER INSERT ON rules WHEN NEW.name IN ('rule-13', 'rule-14')
             BEGIN INSERT INTO trap VALUES ('nobody'); END;",
        )
        .unwrap();
    // The failing member comes first, so that the batch is resolved under its id; then under the id
    // of a member that succeeds.
    let failing = [13, 14];
    for batch in [[13, 2, 3], [4, 14, 5]] {
        let (store, turn) = (&store, store.take_write_turn());
        std::thread::scope(|scope| {
            let mut callers = Vec::new();
            for number in batch {
                callers.push((number, scope.spawn(move || add_rule(store, number))));
                // Start the callers in this order.
                while store.queued_callers() < callers.len() {
                    std::thread::yield_now();
                }
            }
            drop(turn);
            for (number, caller) in callers {
                match caller.join().unwrap() {
                    Ok(_) => assert!(!failing.contains(&number), "{number}"),
                    Err(CommitError::Failed(StoreError::Database { .. })) => {
                        assert!(failing.contains(&number), "{number}");
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
    }
    assert_eq!(count_rules(&store), 5);
    let outcomes = "SELECT sum(committed), count(*) FROM commands";
    let outcomes: (i64, i64) = direct
        .query_row(outcomes, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert_eq!(
        outcomes,
        (5, 7),
        "only the failed submissions are recorded as aborted"
    );
}

#[test]
fn a_panic_outside_of_a_decision_leaves_the_store_usable() {
    use std::sync::atomic::{AtomicBool, Ordering};
    static BROKEN_CLOCK: AtomicBool = AtomicBool::new(false);
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions {
        clock: Clock::new(|| {
            assert!(!BROKEN_CLOCK.load(Ordering::SeqCst), "the clock broke");
            Timestamp(1)
        }),
        faults: StoreFaults::default(),
    };
    let store = SqliteStore::new(directory.path().join("planwright.db"), options);
    add_rule(&store, 1).unwrap();
    BROKEN_CLOCK.store(true, Ordering::SeqCst);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| add_rule(&store, 2)));
    assert!(panicked.is_err());
    BROKEN_CLOCK.store(false, Ordering::SeqCst);
    // The panic ended the transaction, so other connections are not blocked until this store's next
    // write.
    let other = rusqlite::Connection::open(directory.path().join("planwright.db")).unwrap();
    other.busy_timeout(std::time::Duration::ZERO).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; ROLLBACK").unwrap();
    add_rule(&store, 2).unwrap();
    assert_eq!(count_rules(&store), 2);
}

#[test]
fn writing_is_durable_and_checked_and_reading_cannot_write() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("planwright.db");
    let store = open_store(&path, MIGRATIONS);
    add_rule(&store, 1).unwrap();
    let mut turn = store.take_write_turn();
    let writer = turn.connection(&store).unwrap();
    let setting = |name: &str| -> rusqlite::types::Value {
        writer
            .pragma_query_value(None, name, |row| row.get(0))
            .unwrap()
    };
    assert_eq!(setting("journal_mode"), "wal".to_owned().into());
    assert_eq!(setting("synchronous"), 2.into(), "FULL");
    assert_eq!(setting("foreign_keys"), 1.into());
    assert_eq!(setting("application_id"), migrate::APPLICATION_ID.into());
    drop(turn);
    let reader = store.readers.take_reader(&store.file).unwrap().unwrap();
    assert!(reader.connection.is_readonly("main").unwrap());
    reader
        .connection
        .execute("DELETE FROM rules", [])
        .unwrap_err();
}

/// An append of a transcript does not sync. The commits after it must.
#[test]
fn appending_a_transcript_keeps_later_commits_durable() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("planwright.db");
    let store = open_store(&path, MIGRATIONS);
    add_rule(&store, 1).unwrap();
    let synchronous = |store: &SqliteStore| -> i64 {
        let mut turn = store.take_write_turn();
        let writer = turn.connection(store).unwrap();
        writer
            .pragma_query_value(None, "synchronous", |row| row.get(0))
            .unwrap()
    };
    let inside = store.write_unsynced(|connection| {
        let level = connection.pragma_query_value(None, "synchronous", |row| row.get(0));
        Ok::<i64, _>(level?)
    });
    assert_eq!(inside.unwrap(), 1, "NORMAL");
    assert_eq!(synchronous(&store), 2, "FULL");
    // A write that fails, and one whose COMMIT fails and leaves the transaction open.
    let failed: Result<(), _> = store.write_unsynced(|_| Err(error::SqliteError::Full));
    failed.unwrap_err();
    assert_eq!(synchronous(&store), 2, "FULL");
    let left_open = store.write_unsynced(|connection| {
        Ok(connection.execute_batch(
            "PRAGMA defer_foreign_keys = 1; INSERT INTO leases VALUES ('nobody', 'ada', 1, 1)",
        )?)
    });
    left_open.unwrap_err();
    assert_eq!(synchronous(&store), 2, "FULL");
    add_rule(&store, 2).unwrap();
    assert_eq!(count_rules(&store), 2);
}

/// SQLite plans a join with a nullable side by its parameter values unless QPSG is on. Without it,
/// every read of a plan would be parsed again.
#[test]
fn no_statement_is_prepared_again_for_other_parameters() {
    let mut connection = rusqlite::Connection::open_in_memory().unwrap();
    connection::configure_writer(&connection).unwrap();
    migrate::run_migrations(&mut connection, MIGRATIONS).unwrap();
    connection.flush_prepared_statement_cache();
    for (name, sql) in statements::ALL
        .iter()
        .filter(|(_, sql)| sql.starts_with("SELECT"))
    {
        for round in 0..3 {
            let mut statement = connection.prepare_cached(sql).unwrap();
            for parameter in 1..=statement.parameter_count() {
                statement
                    .raw_bind_parameter(parameter, format!("{round}"))
                    .unwrap();
            }
            let mut rows = statement.raw_query();
            // A text for a limit is refused; the test only needs the statement to be prepared.
            let _ = rows.next();
        }
        let statement = connection.prepare_cached(sql).unwrap();
        let again = statement.get_status(rusqlite::StatementStatus::RePrepare);
        assert_eq!(again, 0, "{name}");
    }
}
