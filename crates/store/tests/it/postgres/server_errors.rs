//! Tests servers that refuse, lack something or hold foreign data. Each case has its own error and
//! writes nothing.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use plan::{PlanVersion, Refusal};
use store::fault::{FaultPoint, StoreFault, StoreFaults};
use store::{
    CommitError, CommitOutcome, PostgresOptions, PostgresStore, RowAccess, StoreError,
    StoreMaintenance, StoreReader, StoreWriter,
};
use testkit::PostgresCluster;

use crate::postgres::database::{LoginRole, ScratchDatabase, SqlSession, server};
use crate::postgres::decisions::{
    append, appended, create, decision, plan_id, reads, receipt, submission,
};

#[track_caller]
fn failed(answer: Result<CommitOutcome, CommitError>) -> StoreError {
    match answer {
        Err(CommitError::Failed(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Guards the mapping of SQLSTATE codes, and that only the primary message is shown: the detail
/// quotes rows.
#[test]
fn server_errors_are_classified() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let mut sql = database.sql();
    let mut answers = Vec::new();
    for code in [
        "53100", "XX001", "XX002", "55P03", "57014", "42501", "25006", "22012", "26000",
    ] {
        sql.run(&format!(
            "CREATE OR REPLACE FUNCTION planwright.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             RAISE EXCEPTION 'not today' USING ERRCODE = '{code}', DETAIL = 'swordfish'; END $$; \
             CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON planwright.events \
             FOR EACH ROW EXECUTE FUNCTION planwright.refuse()"
        ));
        let error = failed(store.commit(append(plan)));
        assert!(!format!("{error} {error:?}").contains("swordfish"));
        let kind = match &error {
            StoreError::Full { .. } => "full",
            StoreError::Corrupt { why, .. } if why.contains("not today") => "corrupt",
            StoreError::Busy { .. } => "busy",
            StoreError::Unusable { why, .. } if why.contains("not today") => "unusable",
            StoreError::Database { why } if why.contains("not today") => "database",
            _ => "something else",
        };
        answers.push((code, kind));
        assert_eq!(
            store.read_plan(plan).unwrap().unwrap().plan.version(),
            PlanVersion(1)
        );
    }
    assert_eq!(
        answers,
        [
            ("53100", "full"),
            ("XX001", "corrupt"),
            ("XX002", "corrupt"),
            ("55P03", "busy"),
            ("57014", "busy"),
            ("42501", "unusable"),
            ("25006", "unusable"),
            ("22012", "database"),
            // Retried on other connections, but not forever.
            ("26000", "database"),
        ]
    );
    sql.run("DROP TRIGGER refuse ON planwright.events");
    store.commit(append(plan)).unwrap();
}

/// Guards that the encoding is checked before anything is stored.
#[test]
fn a_database_of_another_encoding_is_refused() {
    let name = format!("planwright_ascii_{}", std::process::id());
    let mut admin = SqlSession::on(&server());
    admin.run(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
    admin.run(&format!(
        "CREATE DATABASE {name} ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    ));
    let (before, _) = server()
        .rsplit_once('/')
        .map(|(before, name)| (before.to_owned(), name.to_owned()))
        .unwrap();
    let url = format!("{before}/{name}?sslmode=disable");
    let store = PostgresStore::new(&url, PostgresOptions::default()).unwrap();
    let errors = [
        store.read_info().unwrap_err(),
        failed(store.commit(create(plan_id()))),
    ];
    drop(store);
    admin.run(&format!("DROP DATABASE {name} WITH (FORCE)"));
    for error in errors {
        assert!(
            matches!(&error, StoreError::Unusable { why, .. }
                if why == "its encoding is SQL_ASCII; create the database with UTF8"),
            "{error}"
        );
    }
}

/// Guards a role without access to the server's identity: it can still read and write.
#[test]
fn a_role_without_access_to_the_server_identity_works() {
    let role = LoginRole::new("clerk", "");
    let database = ScratchDatabase::new();
    let name = database.sql().value("SELECT current_database()");
    database.sql().run(&format!(
        "REVOKE EXECUTE ON FUNCTION pg_catalog.pg_control_system() FROM PUBLIC; \
         GRANT CREATE ON DATABASE {name} TO {}",
        role.name()
    ));
    let store = PostgresStore::new(&role.url(&database), PostgresOptions::default()).unwrap();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    store.commit(append(plan)).unwrap();
    assert_eq!(
        store.read_plan(plan).unwrap().unwrap().plan.version(),
        PlanVersion(2)
    );
}

/// Guards a store without its version row: the version is not guessed.
#[test]
fn a_store_without_its_version_is_corrupt() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    database.sql().run("DELETE FROM schema_version");
    for error in [
        store.read_plan(plan).unwrap_err(),
        store.read_snapshot(plan).unwrap_err(),
        store.read_info().unwrap_err(),
        store.migrate_schema().unwrap_err(),
        failed(store.commit(append(plan))),
        database.store().read_plan(plan).unwrap_err(),
    ] {
        assert!(
            matches!(&error, StoreError::Corrupt { why, .. }
                if why == "the table `schema_version` is empty"),
            "{error}"
        );
    }
    assert_eq!(database.sql().value("SELECT count(*) FROM events"), "1");
}

/// Guards a foreign table with the name of ours.
#[test]
fn a_foreign_version_table_is_not_a_store() {
    let database = ScratchDatabase::new();
    database
        .sql()
        .run("CREATE SCHEMA planwright; CREATE TABLE planwright.schema_version (mine TEXT)");
    let store = database.store();
    for error in [
        store.read_info().unwrap_err(),
        store.migrate_schema().unwrap_err(),
        failed(store.commit(create(plan_id()))),
    ] {
        assert!(matches!(error, StoreError::NotAStore { .. }), "{error}");
    }
    assert_eq!(
        database
            .sql()
            .value("SELECT count(*) FROM pg_tables WHERE schemaname = 'planwright'"),
        "1"
    );
}

/// Guards the findings of `check_integrity`: every problem is reported, and none in an intact
/// store.
#[test]
fn the_integrity_check_finds_manual_changes() {
    let database = ScratchDatabase::new();
    let store = database.store();
    let [short, lost, unlisted] = [plan_id(), plan_id(), plan_id()];
    for plan in [short, lost, unlisted] {
        store.commit(create(plan)).unwrap();
        store.commit(append(plan)).unwrap();
    }
    assert_eq!(store.check_integrity().unwrap(), Vec::<String>::new());
    let unknown_plan = plan_id();
    database.sql().run(&format!(
        "SET session_replication_role = replica; \
         DELETE FROM events WHERE plan_id = '{short}' AND version = 2; \
         UPDATE plans SET id_reversed = 'x' WHERE plan_id = '{lost}'; \
         DELETE FROM plan_projects WHERE plan_id = '{unlisted}'; \
         UPDATE events SET plan_id = '{unknown_plan}' WHERE plan_id = '{unlisted}' AND version = 2; \
         ALTER TABLE actions ADD CONSTRAINT odd CHECK (name <> 'odd') NOT VALID"
    ));
    let mut problems = store.check_integrity().unwrap();
    problems.sort();
    let mut expected = vec![
        format!("plan {short} is at version 2 but has 1 events, up to number 1"),
        format!("plan {unlisted} is at version 2 but has 1 events, up to number 1"),
        format!("plan {lost}: its reversed id is wrong"),
        format!("plan {unlisted}: its project rows do not match the plan"),
        format!("event of {unknown_plan} has no parent row"),
        "constraint odd is not valid".to_owned(),
    ];
    expected.sort();
    assert_eq!(problems, expected);
}

/// Guards a server without free connections: retried for a while, then busy.
#[test]
fn a_server_without_a_connection_left_is_busy() {
    let role = LoginRole::new("guest", "CONNECTION LIMIT 0");
    let database = ScratchDatabase::new();
    let store = PostgresStore::new(&role.url(&database), PostgresOptions::default()).unwrap();
    let error = store.read_info().unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error}");
}

/// Guards the connection limit: a caller that times out gets an error, and nothing is stored.
#[test]
fn a_store_whose_connections_are_all_in_use_is_busy() {
    let database = ScratchDatabase::new();
    let store = database.store_with(PostgresOptions {
        max_connections: 1,
        wait_timeout: Duration::from_millis(300),
        ..PostgresOptions::default()
    });
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let (begun, begins) = channel();
    let (go_on, goes_on) = channel::<()>();
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| {
            store.commit(submission(
                reads(plan, RowAccess::Exclusive),
                move |facts, now| {
                    begun.send(()).unwrap();
                    goes_on.recv().unwrap();
                    Ok(decision(appended(facts, plan, now)?, Vec::new(), now))
                },
            ))
        });
        begins.recv().unwrap();
        let read = store.read_plan(plan).unwrap_err();
        assert!(matches!(read, StoreError::Busy { .. }), "{read}");
        let written = failed(store.commit(create(plan_id())));
        assert!(matches!(written, StoreError::Busy { .. }), "{written}");
        go_on.send(()).unwrap();
        slow.join().unwrap().unwrap();
    });
    // Waiters that timed out are skipped, and the next caller gets the connection.
    assert_eq!(
        store.read_plan(plan).unwrap().unwrap().plan.version(),
        PlanVersion(2)
    );
}

/// Guards a waiter when the connection it waits for dies.
#[test]
fn a_waiter_replaces_a_connection_that_died() {
    let database = ScratchDatabase::new();
    let store = database.store_with(PostgresOptions {
        max_connections: 1,
        ..PostgresOptions::default()
    });
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let (begun, begins) = channel();
    let (go_on, goes_on) = channel::<()>();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            store.commit(submission(
                reads(plan, RowAccess::Exclusive),
                move |facts, now| {
                    // On later calls the receiver is gone.
                    let _ = begun.send(());
                    let _ = goes_on.recv();
                    Ok(decision(appended(facts, plan, now)?, Vec::new(), now))
                },
            ))
        });
        begins.recv().unwrap();
        let waiter = scope.spawn(|| store.read_plan(plan));
        std::thread::sleep(Duration::from_millis(200));
        database.sql().run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        );
        drop((go_on, begins));
        first.join().unwrap().unwrap();
        assert!(waiter.join().unwrap().unwrap().is_some());
    });
    assert_eq!(
        store.read_plan(plan).unwrap().unwrap().plan.version(),
        PlanVersion(2)
    );
}

/// Guards a decision that writes nothing: it is answered only after its transaction has ended.
#[test]
fn a_fault_before_an_answer_without_writes_is_reported() {
    let database = ScratchDatabase::new();
    let plan = plan_id();
    database.store().commit(create(plan)).unwrap();
    let look = || {
        submission(reads(plan, RowAccess::Shared), move |facts, now| {
            let version = facts
                .plan
                .as_ref()
                .ok_or(Refusal::NoSuchPlan(plan))?
                .version();
            Ok(plan::Decision {
                plans: Vec::new(),
                rows: Vec::new(),
                receipt: receipt(plan, version, now),
            })
        })
    };
    let store = database.store_with(PostgresOptions {
        faults: StoreFaults::new(|point| match point {
            FaultPoint::BeforeCommit => StoreFault::Fail,
            _ => StoreFault::None,
        }),
        ..PostgresOptions::default()
    });
    let error = failed(store.commit(look()));
    assert!(error.to_string().contains("BeforeCommit"), "{error}");
    let seen = database.store().commit(look()).unwrap();
    assert_eq!(seen.receipt.version, Some(PlanVersion(1)));
}

/// Guards TLS 1.2, and a CA file without certificates.
#[test]
fn tls_1_2_works_and_an_empty_ca_file_is_refused() {
    let mut cluster = PostgresCluster::create();
    crate::postgres::connect::certificate(&cluster);
    let nobody = cluster.write_file("nobody.pem", b"");
    cluster.append_settings("ssl = on\nssl_max_protocol_version = 'TLSv1.2'\n");
    cluster.write_file("pg_hba.conf", b"hostssl all all 127.0.0.1/32 trust\n");
    cluster.start_server();
    let url = |mode: &str| {
        format!(
            "postgres://postgres@localhost:{}/postgres?sslmode={mode}",
            cluster.port()
        )
    };
    let store = PostgresStore::new(&url("prefer"), PostgresOptions::default()).unwrap();
    store.commit(create(plan_id())).unwrap();
    let trusting = |file: &Path| {
        let options = PostgresOptions {
            ca_file: Some(file.to_owned()),
            ..PostgresOptions::default()
        };
        PostgresStore::new(&url("require"), options).and_then(|store| store.read_info())
    };
    let error = trusting(&nobody).unwrap_err();
    assert!(
        matches!(&error, StoreError::Unusable { why, .. }
            if why.contains("no trusted certificate authorities found")),
        "{error}"
    );
    let error = trusting(Path::new("/nonexistent/ca.pem")).unwrap_err();
    assert!(
        matches!(&error, StoreError::Unusable { why, .. } if why.contains("/nonexistent/ca.pem")),
        "{error}"
    );
}

/// Guards that an address is checked without connecting, and shown without its password.
#[test]
fn an_address_is_checked_before_it_is_used() {
    for good in [
        "postgres://ada:swordfish@db.example/plans",
        "postgresql://ada@%2Frun%2Fpostgresql/plans",
    ] {
        PostgresStore::check_address(good).unwrap();
    }
    let error = PostgresStore::check_address("postgres://ada:swordfish@db.example:port/plans");
    let error = error.unwrap_err();
    assert!(
        !format!("{error} {error:?}").contains("swordfish"),
        "{error}"
    );
    let socket = PostgresStore::new(
        "postgres://ada@%2Fnonexistent%2Fsocket/plans",
        PostgresOptions::default(),
    );
    let error = socket.unwrap().read_info().unwrap_err();
    assert!(
        matches!(&error, StoreError::Unreachable { place, .. } if place.contains("/nonexistent/socket")),
        "{error}"
    );
}
