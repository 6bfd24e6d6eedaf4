//! Tests addresses that do not lead to a store. Each has its own error, without the password.

use std::path::Path;
use std::time::Duration;

use plan::PlanVersion;
use store::{
    CommitError, PostgresOptions, PostgresStore, StoreError, StoreMaintenance, StoreReader,
    StoreWriter,
};

use crate::postgres::database::{LoginRole, ScratchDatabase, SqlSession, server};
use crate::postgres::decisions::{append, create, plan_id};
use testkit::PostgresCluster;

fn info_error(url: &str) -> StoreError {
    info_error_with(url, PostgresOptions::default())
}

fn info_error_with(url: &str, options: PostgresOptions) -> StoreError {
    let store = PostgresStore::new(url, options).unwrap();
    let error = store.read_info().expect_err("the address leads to a store");
    assert!(
        !format!("{error} {error:?}").contains("swordfish"),
        "{error}"
    );
    let Err(CommitError::Failed(written)) = store.commit(create(plan_id())) else {
        panic!("it was written")
    };
    assert_eq!(
        std::mem::discriminant(&error),
        std::mem::discriminant(&written)
    );
    error
}

#[test]
fn a_closed_port_is_unreachable() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let error = info_error(&format!("postgres://ada:swordfish@{free}/plans"));
    assert!(
        matches!(&error, StoreError::Unreachable { place, .. } if *place == format!("postgres://ada@{free}/plans")),
        "{error}"
    );
}

#[test]
fn a_silent_server_is_unreachable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let silent = std::thread::spawn(move || {
        let mut kept = Vec::new();
        while kept.len() < 2 {
            kept.push(listener.accept().unwrap());
        }
        std::thread::sleep(Duration::from_secs(1));
    });
    // Reading and committing: neither may wait forever for a silent server.
    let store = PostgresStore::new(
        &format!("postgres://ada@{address}/plans?connect_timeout=1"),
        PostgresOptions::default(),
    )
    .unwrap();
    drop(std::net::TcpStream::connect(address).unwrap());
    let began = std::time::Instant::now();
    let error = store.read_info().unwrap_err();
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(30));
    silent.join().unwrap();
}

#[test]
fn a_missing_database_is_reported() {
    let (before, _) = server()
        .rsplit_once('/')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let error = info_error(&format!("{before}/no_such_database"));
    assert!(
        matches!(&error, StoreError::Unusable { why, .. } if why.contains("no_such_database")),
        "{error}"
    );
}

#[test]
fn a_wrong_password_is_reported() {
    let mut cluster = PostgresCluster::create();
    cluster.write_file(
        "pg_hba.conf",
        b"host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n",
    );
    cluster.start_server();
    SqlSession::on(&cluster.url()).run("CREATE ROLE ada LOGIN PASSWORD 'trout'");
    SqlSession::on(&cluster.url()).run("CREATE DATABASE plans OWNER ada");
    let url = |password: &str| {
        format!(
            "postgres://ada:{password}@127.0.0.1:{}/plans",
            cluster.port()
        )
    };
    let error = info_error(&url("swordfish"));
    assert!(
        matches!(&error, StoreError::Unusable { why, .. } if why.contains("password")),
        "{error}"
    );
    let store = PostgresStore::new(&url("trout"), PostgresOptions::default()).unwrap();
    store.commit(create(plan_id())).unwrap();
}

#[test]
fn a_role_without_permission_to_create_a_schema_is_refused() {
    let role = LoginRole::new("mouse", "");
    let database = ScratchDatabase::new();
    let store = PostgresStore::new(&role.url(&database), PostgresOptions::default()).unwrap();
    let plan = plan_id();
    assert_eq!(store.read_plan(plan).unwrap(), None);
    let answer = store.commit(create(plan));
    assert!(
        matches!(
            &answer,
            Err(CommitError::Failed(StoreError::Unusable { .. }))
        ),
        "{answer:?}"
    );
}

/// Guards both directions of `prefer`, and that `require` never falls back.
#[test]
fn sslmode_is_respected() {
    let (before, _) = server()
        .split_once('?')
        .map_or((server(), ()), |(a, _)| (a.to_owned(), ()));
    // The test server offers no encryption.
    for mode in ["disable", "prefer"] {
        let store = PostgresStore::new(
            &format!("{before}?sslmode={mode}"),
            PostgresOptions::default(),
        )
        .unwrap();
        store.read_info().unwrap();
    }
    let error = info_error(&format!("{before}?sslmode=require"));
    assert!(
        matches!(&error, StoreError::Unreachable { why, .. } if why.contains("TLS")),
        "{error}"
    );

    let mut cluster = PostgresCluster::create();
    let authority = certificate(&cluster);
    cluster.append_settings("ssl = on\n");
    cluster.write_file("pg_hba.conf", b"hostssl all all 127.0.0.1/32 trust\n");
    cluster.start_server();
    let url = |host: &str, mode: &str| {
        format!(
            "postgres://postgres@{host}:{}/postgres?sslmode={mode}",
            cluster.port()
        )
    };
    let open = |url: &str, authorities: Option<&Path>| {
        let options = PostgresOptions {
            ca_file: authorities.map(Path::to_owned),
            ..PostgresOptions::default()
        };
        PostgresStore::new(url, options).unwrap().read_info()
    };
    assert!(open(&url("127.0.0.1", "disable"), None).is_err());
    open(&url("127.0.0.1", "prefer"), None).unwrap();
    for mode in ["require", "verify-full"] {
        open(&url("localhost", mode), Some(&authority)).unwrap();
        // An untrusted authority, and a certificate for another host.
        let strangers = open(&url("localhost", mode), None);
        assert!(
            matches!(
                strangers,
                Err(StoreError::Unreachable { .. } | StoreError::Unusable { .. })
            ),
            "{strangers:?}"
        );
        let another = open(&url("127.0.0.1", mode), Some(&authority));
        assert!(
            matches!(another, Err(StoreError::Unreachable { .. })),
            "{another:?}"
        );
    }
}

/// Creates a self-signed certificate for `localhost` in the cluster's directory.
#[expect(clippy::disallowed_methods, reason = "certificates for a test")]
pub fn certificate(cluster: &PostgresCluster) -> std::path::PathBuf {
    let key = cluster.write_file("server.key", b"");
    let certificate = cluster.write_file("server.crt", b"");
    let config = cluster.write_file(
        "openssl.conf",
        b"[req]\nprompt = no\ndistinguished_name = name\nx509_extensions = more\n[name]\nCN = localhost\n\
          [more]\nbasicConstraints = CA:FALSE\nsubjectAltName = DNS:localhost\n",
    );
    let output = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .arg("-config")
        .arg(&config)
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl makes the certificate");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    certificate
}

/// Guards the choice among several servers: a read-only standby lags behind, so recent commits
/// would be missing there.
#[test]
fn the_writable_server_of_several_is_used() {
    let primary = PostgresCluster::start();
    let mut standby = PostgresCluster::create();
    // What a client sees of a standby.
    standby.append_settings("default_transaction_read_only = on\n");
    standby.start_server();
    let url = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres?sslmode=disable",
        standby.port(),
        primary.port()
    );
    let store = PostgresStore::new(&url, PostgresOptions::default()).unwrap();
    let plan = plan_id();
    store.commit(create(plan)).unwrap();
    let elsewhere = PostgresStore::new(&primary.url(), PostgresOptions::default()).unwrap();
    elsewhere.commit(append(plan)).unwrap();
    assert_eq!(
        store.read_plan(plan).unwrap().unwrap().plan.version(),
        PlanVersion(2)
    );
}
