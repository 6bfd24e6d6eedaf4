//! A database for one test, and SQL by hand.

use std::sync::atomic::{AtomicU32, Ordering};

use store::{PostgresOptions, PostgresStore};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Where the server for tests is. Never skipped: a test that did not run proves nothing.
#[expect(
    clippy::disallowed_methods,
    reason = "tests are told so by `cargo xtask test`"
)]
pub fn server() -> String {
    std::env::var("PLANWRIGHT_TEST_POSTGRES")
        .expect("PLANWRIGHT_TEST_POSTGRES is not set: run `cargo xtask test`, which starts a PostgreSQL server")
}

/// A database that is dropped at the end.
pub struct Database {
    server: String,
    name: String,
}

impl Database {
    /// On the server for tests.
    pub fn new() -> Self {
        Self::on(&server())
    }

    /// On the server with this URL.
    pub fn on(server: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("planwright_test_{}_{number}", std::process::id());
        let mut admin = Sql::on(server);
        admin.run(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
        admin.run(&format!("CREATE DATABASE {name} TEMPLATE template0"));
        Self {
            server: server.to_owned(),
            name,
        }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        self.at(&self.server)
    }

    /// Its URL through another address of the same server.
    pub fn at(&self, server: &str) -> String {
        let (before, _) = server
            .rsplit_once('/')
            .expect("the URL ends with a database");
        format!("{before}/{}?sslmode=disable", self.name)
    }

    /// A store in it.
    pub fn store(&self) -> PostgresStore {
        self.store_with(PostgresOptions::default())
    }

    /// A store in it that behaves so.
    pub fn store_with(&self, options: PostgresOptions) -> PostgresStore {
        PostgresStore::new(&self.url(), options).unwrap()
    }

    /// SQL by hand in it, on the store's tables.
    pub fn sql(&self) -> Sql {
        let mut sql = Sql::on(&self.url());
        sql.run("SET search_path TO planwright");
        sql
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(mut admin) = Sql::try_on(&self.server) {
            admin.run(&format!(
                "DROP DATABASE IF EXISTS {} WITH (FORCE)",
                self.name
            ));
        }
    }
}

/// A role that may log in and nothing else; dropped at the end, which is why it is declared before what it uses.
pub struct Role {
    name: String,
}

impl Role {
    /// On the server for tests, with these options of `CREATE ROLE`.
    pub fn new(purpose: &str, options: &str) -> Self {
        let name = format!("{purpose}_{}", std::process::id());
        Sql::on(&server()).run(&format!(
            "DROP ROLE IF EXISTS {name}; CREATE ROLE {name} LOGIN {options}"
        ));
        Self { name }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it reaches a database.
    pub fn url(&self, database: &Database) -> String {
        let server = server();
        let (_, address) = server.rsplit_once('@').expect("the URL names a user");
        database.at(&format!("postgres://{}@{address}", self.name))
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        if let Some(mut admin) = Sql::try_on(&server()) {
            admin.run(&format!("DROP ROLE IF EXISTS {}", self.name));
        }
    }
}

/// A connection for SQL by hand.
pub struct Sql {
    runtime: Runtime,
    client: Client,
}

impl Sql {
    pub fn on(url: &str) -> Self {
        Self::try_on(url).expect("the server for tests answers")
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

    /// Runs statements; they must succeed.
    pub fn run(&mut self, sql: &str) {
        self.rows(sql);
    }

    /// The rows of statements, as text.
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

    /// The one value of a query.
    pub fn value(&mut self, sql: &str) -> String {
        let rows = self.rows(sql);
        rows.first()
            .and_then(|row| row.first())
            .unwrap_or_else(|| panic!("{sql}: no row"))
            .clone()
    }
}
