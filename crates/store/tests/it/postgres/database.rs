//! A PostgreSQL database for one test, and direct SQL access to it.

use std::sync::atomic::{AtomicU32, Ordering};

use store::{PostgresOptions, PostgresStore};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Returns the URL of the test server. Panics without one, because a skipped test proves nothing.
#[expect(
    clippy::disallowed_methods,
    reason = "`cargo xtask test` sets this variable"
)]
pub fn server() -> String {
    std::env::var("PLANWRIGHT_TEST_POSTGRES")
        .expect("PLANWRIGHT_TEST_POSTGRES is not set: run `cargo xtask test`, which starts a PostgreSQL server")
}

/// A database that is dropped with this value.
pub struct ScratchDatabase {
    server: String,
    name: String,
}

impl ScratchDatabase {
    /// Creates it on the test server.
    pub fn new() -> Self {
        Self::on(&server())
    }

    /// Creates it on the server with this URL.
    pub fn on(server: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("planwright_test_{}_{number}", std::process::id());
        let mut admin = SqlSession::on(server);
        admin.run(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
        admin.run(&format!("CREATE DATABASE {name} TEMPLATE template0"));
        Self {
            server: server.to_owned(),
            name,
        }
    }

    pub fn url(&self) -> String {
        self.at(&self.server)
    }

    /// Returns the URL of this database on another address of the same server.
    pub fn at(&self, server: &str) -> String {
        let (before, _) = server
            .rsplit_once('/')
            .expect("the URL ends with a database");
        format!("{before}/{}?sslmode=disable", self.name)
    }

    pub fn store(&self) -> PostgresStore {
        self.store_with(PostgresOptions::default())
    }

    pub fn store_with(&self, options: PostgresOptions) -> PostgresStore {
        PostgresStore::new(&self.url(), options).unwrap()
    }

    /// Opens a direct connection with the store's schema as search path.
    pub fn sql(&self) -> SqlSession {
        let mut sql = SqlSession::on(&self.url());
        sql.run("SET search_path TO planwright");
        sql
    }
}

impl Drop for ScratchDatabase {
    fn drop(&mut self) {
        if let Some(mut admin) = SqlSession::try_on(&self.server) {
            admin.run(&format!(
                "DROP DATABASE IF EXISTS {} WITH (FORCE)",
                self.name
            ));
        }
    }
}

/// A role that may only log in. Dropped with this value, so declare it before the databases it
/// uses.
pub struct LoginRole {
    name: String,
}

impl LoginRole {
    /// Creates it on the test server, with these options of `CREATE ROLE`.
    pub fn new(purpose: &str, options: &str) -> Self {
        let name = format!("{purpose}_{}", std::process::id());
        SqlSession::on(&server()).run(&format!(
            "DROP ROLE IF EXISTS {name}; CREATE ROLE {name} LOGIN {options}"
        ));
        Self { name }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the URL for this role to a database.
    pub fn url(&self, database: &ScratchDatabase) -> String {
        let server = server();
        let (_, address) = server.rsplit_once('@').expect("the URL names a user");
        database.at(&format!("postgres://{}@{address}", self.name))
    }
}

impl Drop for LoginRole {
    fn drop(&mut self) {
        if let Some(mut admin) = SqlSession::try_on(&server()) {
            admin.run(&format!("DROP ROLE IF EXISTS {}", self.name));
        }
    }
}

/// A direct connection, for SQL.
pub struct SqlSession {
    runtime: Runtime,
    client: Client,
}

impl SqlSession {
    pub fn on(url: &str) -> Self {
        Self::try_on(url).expect("the test server is reachable")
    }

    fn try_on(url: &str) -> Option<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.ok()?;
            tokio::spawn(connection);
            Some(client)
        })?;
        Some(Self { runtime, client })
    }

    /// Runs statements; panics if they fail.
    pub fn run(&mut self, sql: &str) {
        self.rows(sql);
    }

    /// Returns the rows of statements as text.
    pub fn rows(&mut self, sql: &str) -> Vec<Vec<String>> {
        let messages = self.runtime.block_on(self.client.simple_query(sql));
        let messages = messages.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => Some(
                (0..row.len())
                    .map(|at| row.get(at).unwrap_or("NULL").to_owned())
                    .collect(),
            ),
            _ => None,
        };
        messages.into_iter().filter_map(row).collect()
    }

    /// Returns the single value of a query.
    pub fn value(&mut self, sql: &str) -> String {
        let rows = self.rows(sql);
        rows.first()
            .and_then(|row| row.first())
            .unwrap_or_else(|| panic!("{sql}: no row"))
            .clone()
    }
}
