//! Real databases for tests, each new and removed afterwards.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// The environment variable with the URL of the test server.
const SERVER_VARIABLE: &str = "PLANWRIGHT_TEST_POSTGRES";

/// A path for a SQLite store that does not exist yet. Dropping it removes the directory.
pub struct SqliteFile {
    directory: TempDir,
}

impl SqliteFile {
    pub fn new() -> Self {
        Self {
            directory: TempDir::with_prefix("planwright-test-").unwrap(),
        }
    }

    /// The path of the database.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("planwright.db")
    }

    /// The directory of the database.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Runs statements directly on the database and returns the first column of their rows.
    pub fn run_sql(&self, statement: &str) -> Vec<String> {
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        connection
            .busy_timeout(std::time::Duration::from_secs(10))
            .unwrap();
        let mut prepared = connection.prepare(statement).unwrap();
        let mut rows = prepared.query([]).unwrap();
        let mut found = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            found.push(row.get(0).unwrap());
        }
        found
    }
}

impl Default for SqliteFile {
    fn default() -> Self {
        Self::new()
    }
}

/// A database on the PostgreSQL test server. Dropping it drops the database.
pub struct PostgresDatabase {
    server: String,
    name: String,
}

impl PostgresDatabase {
    /// Creates an empty database.
    ///
    /// # Panics
    ///
    /// Without a server. A skipped test would be an unnoticed failure.
    #[allow(
        clippy::new_without_default,
        reason = "`Default` must not create a database"
    )]
    pub fn new() -> Self {
        static DATABASE_COUNT: AtomicU32 = AtomicU32::new(0);
        let server = server_url();
        let name = format!(
            "planwright_test_{}_{}",
            std::process::id(),
            DATABASE_COUNT.fetch_add(1, Ordering::Relaxed)
        );
        run_statement(
            &server,
            &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
        );
        run_statement(&server, &format!("CREATE DATABASE {name}"));
        Self { server, name }
    }

    pub fn url(&self) -> String {
        let (address, _) = self
            .server
            .rsplit_once('/')
            .unwrap_or_else(|| panic!("{SERVER_VARIABLE} names no database: {}", self.server));
        format!("{address}/{}", self.name)
    }

    /// Runs statements directly on the database and returns the first column of their rows.
    pub fn run_sql(&self, statement: &str) -> Vec<String> {
        run_statement(&self.url(), statement)
    }
}

impl Drop for PostgresDatabase {
    fn drop(&mut self) {
        run_statement(
            &self.server,
            &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name),
        );
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this variable configures the test server"
)]
fn server_url() -> String {
    std::env::var(SERVER_VARIABLE).unwrap_or_else(|_| {
        panic!(
            "{SERVER_VARIABLE} is not set, so there is no PostgreSQL to test on: run `cargo xtask test`, \
             or `cargo xtask postgres -- cargo test …`"
        )
    })
}

fn run_statement(url: &str, statement: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let answers = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let answers = client.simple_query(statement).await;
        drop(client);
        connection.await.unwrap().unwrap();
        answers
    });
    let answers = match answers {
        Ok(answers) => answers,
        Err(error) => panic!("{statement}: {error:?}"),
    };
    let first_column = |answer| match answer {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
        _ => None,
    };
    answers.into_iter().filter_map(first_column).collect()
}
