//! Tests the schema: absent, created, older, newer, foreign.

use std::path::Path;
use std::sync::Barrier;

use plan::invariant::RuleScope;
use plan::{Phase, PlanVersion};
use store::{
    CommitError, Cursor, EventLog, PlanFilter, PostgresOptions, PostgresStore, StoreError,
    StoreMaintenance, StoreReader, StoreWriter,
};

use crate::postgres::database::{LoginRole, ScratchDatabase};
use crate::postgres::decisions::{append, create, plan_id};
use crate::store_fixture::SUPPORTED_SCHEMA_VERSION;

const NEWER_SCHEMA_VERSION: u32 = SUPPORTED_SCHEMA_VERSION + 1;

/// Guards that reads never write: everything is empty and stays absent.
#[test]
fn an_absent_store_reads_as_empty_and_stays_absent() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    assert_eq!(store.read_plan(plan).unwrap(), None);
    assert_eq!(
        store.list_plans(&PlanFilter::default(), None, 10).unwrap(),
        []
    );
    assert_eq!(store.find_plan_ids("0", 10).unwrap(), []);
    assert_eq!(store.list_due_plans(Phase::Execute, None, 10).unwrap(), []);
    assert_eq!(store.list_expired_leases(10).unwrap(), []);
    assert_eq!(store.read_snapshot(plan).unwrap(), None);
    assert_eq!(store.read_action(&"tidy".parse().unwrap()).unwrap(), None);
    assert_eq!(store.list_actions(None, 10).unwrap(), []);
    assert_eq!(
        store.read_rules(&[RuleScope::Global]).unwrap(),
        plan::invariant::RuleBook::default()
    );
    assert_eq!(
        store.read_rules(&[]).unwrap(),
        plan::invariant::RuleBook::default()
    );
    assert_eq!(store.list_changesets(plan).unwrap(), []);
    assert_eq!(
        store.read_plan_events(plan, PlanVersion(0), 10).unwrap(),
        []
    );
    assert_eq!(store.read_events(&Cursor::START, 10).unwrap().events, []);
    assert_eq!(store.read_latest_cursor().unwrap(), Cursor::START);
    assert_eq!(store.check_integrity().unwrap(), Vec::<String>::new());
    assert!(store.now().unwrap().0 > 1_700_000_000_000_000);
    let info = store.read_info().unwrap();
    assert_eq!(
        (
            info.kind,
            info.schema_version,
            info.supported_schema_version
        ),
        ("postgres", None, SUPPORTED_SCHEMA_VERSION)
    );
    let schemas = database
        .sql()
        .value("SELECT count(*) FROM pg_namespace WHERE nspname = 'planwright'");
    assert_eq!(schemas, "0");
}

/// Guards that every statement matches the tables (`statements::ALL`, prepared by
/// `check_integrity`).
#[test]
fn every_statement_can_be_prepared() {
    let database = ScratchDatabase::new();
    let store = database.store();
    assert_eq!(
        store.migrate_schema().unwrap(),
        (0, SUPPORTED_SCHEMA_VERSION)
    );
    assert_eq!(store.check_integrity().unwrap(), Vec::<String>::new());
    assert_eq!(
        store.migrate_schema().unwrap(),
        (SUPPORTED_SCHEMA_VERSION, SUPPORTED_SCHEMA_VERSION)
    );
    // `check_integrity` would report a mismatch.
    database
        .sql()
        .run("ALTER TABLE leases RENAME COLUMN owner TO holder");
    let problems = database.store().check_integrity().unwrap();
    assert!(
        problems.iter().any(|problem| problem.contains("PUT_LEASE")),
        "{problems:?}"
    );
}

/// Guards the advisory lock around creating the schema.
#[test]
fn ten_stores_set_up_an_empty_database_at_once() {
    let database = ScratchDatabase::new();
    let start = Barrier::new(10);
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                let store = database.store();
                let plan = plan_id();
                start.wait();
                store.commit(create(plan)).unwrap();
                assert!(store.read_plan(plan).unwrap().is_some());
            });
        }
    });
    let store = database.store();
    assert_eq!(
        store
            .list_plans(&PlanFilter::default(), None, 100)
            .unwrap()
            .len(),
        10
    );
    assert_eq!(
        store.read_info().unwrap().schema_version,
        Some(SUPPORTED_SCHEMA_VERSION)
    );
}

/// Guards the direct catalog query. A session that saw the empty database before it waited for the
/// lock would otherwise use its cache and create the store again.
#[test]
fn ten_stores_that_read_first_set_up_an_empty_database_at_once() {
    let database = ScratchDatabase::new();
    let start = Barrier::new(10);
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                let store = database.store();
                let plan = plan_id();
                assert_eq!(store.read_plan(plan).unwrap(), None);
                start.wait();
                store.commit(create(plan)).unwrap();
            });
        }
    });
    let plans = database
        .store()
        .list_plans(&PlanFilter::default(), None, 100);
    assert_eq!(plans.unwrap().len(), 10);
}

/// Guards the difference between no permission and no store: a store that reads as empty invites
/// users to start over.
#[test]
fn a_store_without_permission_does_not_read_as_empty() {
    let role = LoginRole::new("stranger", "");
    let database = ScratchDatabase::new();
    database.store().commit(create(plan_id())).unwrap();
    let store = PostgresStore::new(&role.url(&database), PostgresOptions::default()).unwrap();
    let read = store.read_plan(plan_id());
    let Err(StoreError::Unusable { why, .. }) = read else {
        panic!("{read:?}")
    };
    assert_eq!(why, "this user has no permission for schema planwright");
    let answer = store.commit(create(plan_id()));
    assert!(
        matches!(
            answer,
            Err(CommitError::Failed(StoreError::Unusable { .. }))
        ),
        "{answer:?}"
    );
}

/// Guards that an older schema is refused for reads and writes until it is migrated.
#[test]
fn an_older_schema_is_refused_until_it_is_migrated() {
    let database = ScratchDatabase::new();
    let mut sql = database.sql();
    // A store as the program before the first migration left it.
    sql.run(
        "CREATE SCHEMA planwright; \
         CREATE TABLE planwright.schema_version (singleton BOOLEAN PRIMARY KEY DEFAULT true, \
             version INTEGER NOT NULL, system BIGINT NOT NULL, xid_base BIGINT NOT NULL); \
         INSERT INTO planwright.schema_version (version, system, xid_base) VALUES (0, 0, 0)",
    );
    let store = database.store();
    let plan = plan_id();
    let read = store.read_plan(plan);
    assert!(
        matches!(
            read,
            Err(StoreError::OlderSchema {
                found: 0,
                known: SUPPORTED_SCHEMA_VERSION,
                ..
            })
        ),
        "{read:?}"
    );
    let written = store.commit(create(plan));
    let older = CommitError::Failed(StoreError::OlderSchema {
        place: String::new(),
        found: 0,
        known: SUPPORTED_SCHEMA_VERSION,
    });
    assert_eq!(
        std::mem::discriminant(&written.unwrap_err()),
        std::mem::discriminant(&older)
    );
    assert_eq!(store.read_info().unwrap().schema_version, Some(0));
    assert_eq!(
        store.migrate_schema().unwrap(),
        (0, SUPPORTED_SCHEMA_VERSION)
    );
    store.commit(create(plan)).unwrap();
    assert!(store.read_plan(plan).unwrap().is_some());
}

/// Guards that every transaction checks the version: a running store stops at once.
#[test]
fn a_newer_schema_stops_a_running_store() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let mut sql = database.sql();
    sql.run(&format!(
        "UPDATE schema_version SET version = {NEWER_SCHEMA_VERSION}"
    ));
    let newer = |error: &StoreError| {
        matches!(
            error,
            StoreError::NewerSchema {
                found: NEWER_SCHEMA_VERSION,
                known: SUPPORTED_SCHEMA_VERSION,
                ..
            }
        )
    };
    assert!(matches!(store.commit(append(plan)), Err(CommitError::Failed(error)) if newer(&error)));
    assert!(matches!(store.read_plan(plan), Err(error) if newer(&error)));
    assert!(matches!(store.read_snapshot(plan), Err(error) if newer(&error)));
    assert!(matches!(store.read_events(&Cursor::START, 10), Err(error) if newer(&error)));
    assert!(matches!(store.migrate_schema(), Err(error) if newer(&error)));
    assert_eq!(
        store.read_info().unwrap().schema_version,
        Some(NEWER_SCHEMA_VERSION)
    );
    assert_eq!(sql.value("SELECT count(*) FROM events"), "1");
}

/// Reverts the table of evidence to its form before subjects.
const EVIDENCE_BEFORE: &str = "ALTER TABLE evidence DROP COLUMN subject, \
    ADD PRIMARY KEY (plan_id, entry, scope, name, revision)";

/// Guards the migration that adds projects.
#[test]
fn migrating_the_first_schema_keeps_data_and_adds_projects() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let name: plan::QualifiedName = "house".parse().unwrap();
    store.migrate_schema().unwrap();
    let mut sql = database.sql();
    sql.run("INSERT INTO actions VALUES ('local/kept', '{}')");
    sql.run(EVIDENCE_BEFORE);
    sql.run("DROP TABLE reviews; DROP TABLE transcript_entries; DROP TABLE plan_terms; DROP TABLE reservations; DROP TABLE accounts; DROP TABLE plan_projects; DROP TABLE projects; UPDATE schema_version SET version = 1");
    let store = database.store();
    assert!(matches!(
        store.read_project(&name),
        Err(StoreError::OlderSchema { found: 1, .. })
    ));
    assert_eq!(
        store.migrate_schema().unwrap(),
        (1, SUPPORTED_SCHEMA_VERSION)
    );
    assert_eq!(store.read_project(&name).unwrap(), None);
    assert_eq!(store.check_integrity().unwrap(), Vec::<String>::new());
    assert_eq!(sql.value("SELECT name FROM actions"), "local/kept");
}

/// Guards the migration to evidence by subject.
#[test]
fn evidence_is_migrated_to_subjects() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let mut sql = database.sql();
    sql.run(EVIDENCE_BEFORE);
    sql.run(&format!(
        "INSERT INTO evidence VALUES ('{plan}', 1, 'global', 'a', 1, '{{\"subject\":\"ab\"}}')"
    ));
    sql.run("DROP TABLE reviews; DROP TABLE transcript_entries; DROP TABLE plan_terms; UPDATE schema_version SET version = 3");
    assert_eq!(
        database.store().migrate_schema().unwrap(),
        (3, SUPPORTED_SCHEMA_VERSION)
    );
    assert_eq!(sql.value("SELECT subject FROM evidence"), "ab");
}

/// Guards that a changed table does not count as damage: statements are prepared again.
#[test]
fn statements_are_prepared_again_after_a_table_changed() {
    let database = ScratchDatabase::new();
    // A single connection, so that the one with the prepared statements is reused.
    let store = database.store_with(PostgresOptions {
        max_connections: 1,
        ..PostgresOptions::default()
    });
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    store.read_plan(plan).unwrap();
    database
        .sql()
        .run("ALTER TABLE plans ALTER COLUMN body TYPE VARCHAR");
    assert!(store.read_plan(plan).unwrap().is_some());
    database
        .sql()
        .run("ALTER TABLE plans ALTER COLUMN body TYPE TEXT");
    store.commit(append(plan)).unwrap();
    assert_eq!(
        store.read_plan(plan).unwrap().unwrap().plan.version(),
        PlanVersion(2)
    );
}

/// Guards foreign tables.
#[test]
fn foreign_tables_are_left_alone() {
    let database = ScratchDatabase::new();
    let mut sql = database.sql();
    sql.run("CREATE SCHEMA planwright; CREATE TABLE planwright.plans (mine TEXT)");
    let store = database.store();
    let answer = store.commit(create(plan_id()));
    assert!(
        matches!(
            answer,
            Err(CommitError::Failed(StoreError::NotAStore { .. }))
        ),
        "{answer:?}"
    );
    assert_eq!(
        sql.value("SELECT to_regclass('planwright.schema_version') IS NULL"),
        "t"
    );
}

/// Guards that stores in one database are separate.
#[test]
fn two_schemas_are_two_stores() {
    let database = ScratchDatabase::new();
    let one = database.store();
    let other = database.store_with(PostgresOptions {
        schema: "other".to_owned(),
        ..PostgresOptions::default()
    });
    let plan = plan_id();
    one.commit(create(plan)).unwrap();
    assert_eq!(other.read_plan(plan).unwrap(), None);
    other.commit(create(plan)).unwrap();
    other.commit(append(plan)).unwrap();
    assert_eq!(
        one.read_plan(plan).unwrap().unwrap().plan.version(),
        PlanVersion(1)
    );
}

/// Guards that the hint contains a working command and no password.
#[test]
fn a_backup_suggests_pg_dump_without_the_password() {
    let url = "postgres://ada:swordfish@db.example:5433/plans";
    let store = PostgresStore::new(url, PostgresOptions::default()).unwrap();
    let Err(StoreError::Unsupported { what }) = store.write_backup(Path::new("/tmp/it's.dump"))
    else {
        panic!("a backup was made")
    };
    assert!(!what.contains("swordfish"));
    let command = "pg_dump --format=custom --schema=planwright --file='/tmp/it'\\''s.dump' \
                   'postgres://ada@db.example:5433/plans'";
    assert!(what.ends_with(command), "{what}");
}
