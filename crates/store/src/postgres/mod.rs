//! The PostgreSQL store: many machines, one server.
//!
//! **Locks.** Transactions run in READ COMMITTED and lock every row a decision reads until the
//! commit: the plan, then the action, then the rule scopes by name, then projects, entries and accounts. A
//! row is locked `FOR UPDATE` if the decision may change it, otherwise `FOR SHARE`. The fixed order
//! prevents deadlocks. Advisory locks on the same rows come first and form a fair queue: a waiting
//! writer is not overtaken by readers (`facts.rs`). An absent row cannot be locked. Two
//! transactions that create it collide on its key, and the later one decides again (`commit.rs`).
//!
//! **Round trips.** Two per commit: all reads, then all writes with COMMIT. A statement that must
//! prevent the commit therefore has to fail on the server, because COMMIT is sent before its answer
//! arrives.
//!
//! **Lost responses.** If the connection ends after COMMIT was sent, a new connection determines
//! the outcome from the table of commands (`in_doubt.rs`).
//!
//! **Time** is the server's, read after all locks were taken.
//!
//! Deliberately absent: a cache of rows, savepoints, and NOTIFY inside a commit, which takes a
//! server-wide lock (`notify.rs`). Only this program changes the schema (`migrate.rs`).

mod address;
mod commit;
mod connection;
mod error;
mod facts;
mod in_doubt;
mod maintain;
mod migrate;
mod notify;
mod pipeline;
mod pool;
mod read;
mod rows;
mod statements;
mod tail;
mod tls;
mod transcript;
mod writes;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::StoreError;
use crate::fault::StoreFaults;
use address::PostgresAddress;
use connection::ConnectionConfig;
use error::unusable_error;
use notify::{CommitAnnouncer, CommitListener, CommitSignal};
use pool::ConnectionPool;

/// A store in a PostgreSQL database.
///
/// Calls block their thread; asynchronous programs must call from threads that may block. A store
/// can be shared by any number of threads.
pub struct PostgresStore {
    shared: Arc<PostgresShared>,
    announcer: CommitAnnouncer,
    listener: CommitListener,
}

#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// The schema of the store's tables. Several stores can share a database.
    pub schema: String,
    /// Limit on open connections, in addition to the one that listens for commits.
    pub max_connections: usize,
    /// The timeout for a lock, a connection or a statement. After it, calls return
    /// [`StoreError::Busy`].
    pub wait_timeout: Duration,
    /// A PEM file with the certificate authorities to trust instead of the system's, used with
    /// `sslmode=require`.
    pub ca_file: Option<PathBuf>,
    /// Faults to inject, for tests.
    pub faults: StoreFaults,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            schema: "planwright".to_owned(),
            max_connections: 32,
            wait_timeout: Duration::from_secs(30),
            ca_file: None,
            faults: StoreFaults::default(),
        }
    }
}

impl PostgresStore {
    /// Checks a connection string without connecting. The error contains no password.
    pub fn check_address(url: &str) -> Result<(), StoreError> {
        PostgresAddress::parse(url).map(drop)
    }

    /// Creates a store for an address such as `postgres://user:password@host:5432/database`.
    /// Connects on first use.
    pub fn new(url: &str, options: PostgresOptions) -> Result<Self, StoreError> {
        let address = PostgresAddress::parse(url)?;
        check_schema_name(&address, &options.schema)?;
        let tls = tls::build_tls_connector(&address, options.ca_file.as_deref())?;
        let connection_config = ConnectionConfig {
            address,
            tls,
            schema: options.schema,
            wait_timeout: options.wait_timeout,
        };
        let shared = Arc::new(PostgresShared {
            pool: ConnectionPool::new(connection_config, options.max_connections),
            faults: options.faults,
            commit_signal: CommitSignal::default(),
        });
        Ok(Self {
            announcer: CommitAnnouncer::new(Arc::clone(&shared)),
            listener: CommitListener::new(Arc::clone(&shared)),
            shared,
        })
    }
}

/// The state shared with the store's threads.
struct PostgresShared {
    pool: ConnectionPool,
    faults: StoreFaults,
    commit_signal: CommitSignal,
}

impl PostgresShared {
    fn place(&self) -> &str {
        &self.pool.connection_config().address.place
    }

    fn schema(&self) -> &str {
        &self.pool.connection_config().schema
    }
}

/// Checks the schema name, which is inserted into SQL and the channel name without quoting.
fn check_schema_name(address: &PostgresAddress, schema: &str) -> Result<(), StoreError> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_valid = (1..=40).contains(&schema.len())
        && schema.chars().all(is_allowed)
        && !schema.starts_with(|c: char| c.is_ascii_digit())
        && !schema.starts_with("pg_");
    if is_valid {
        return Ok(());
    }
    let why = format!(
        "invalid schema name `{}`: use up to 40 lower-case letters, digits and `_`",
        schema.escape_debug()
    );
    Err(unusable_error(&address.place, why))
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_schema_that_would_need_quoting_is_refused() {
        let options = |schema: &str| PostgresOptions {
            schema: schema.to_owned(),
            ..PostgresOptions::default()
        };
        let url = "postgres://ada:swordfish@localhost/plans";
        for bad in ["", "Plans", "a\"b", "1a", "pg_mine", &"a".repeat(41)] {
            let error = PostgresStore::new(url, options(bad)).err();
            assert!(matches!(error, Some(StoreError::Unusable { .. })), "{bad}");
        }
        assert!(PostgresStore::new(url, options("team_1")).is_ok());
    }
}
