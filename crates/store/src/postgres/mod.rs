//! The PostgreSQL store: many machines, one server.
//!
//! **Locks.** READ COMMITTED, and every row a decision reads is locked until the commit: the plan,
//! then the action, then the scopes of rules in the order of their names, then entries. Whoever
//! changes a row takes it `FOR UPDATE`, whoever only relies on it `FOR SHARE`. One order for all
//! means that nobody waits in a circle. Before the locks come the turns at these rows, which make a
//! queue: who wants to change a row is not overtaken by those who share it (`facts.rs`). A row that is
//! not there cannot be locked; two who create it collide on its key, and the later decides again
//! (`commit.rs`).
//!
//! **Round trips.** Two per commit: all reads at once, then all writes and COMMIT at once. Therefore
//! a statement that must stop the commit has to fail on the server; nobody looks at its answer before
//! COMMIT is on its way.
//!
//! **Lost answers.** If the connection ends after COMMIT was sent, what became of it is settled
//! through the table of commands on a new connection (`settle.rs`).
//!
//! **Time** is the server's, read when all locks are held.
//!
//! Deliberately absent: any cache of rows, savepoints, and NOTIFY inside a commit, which takes a lock
//! of the whole server (`announce.rs`). The schema belongs to this program: `migrate.rs`.

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
/// Calls block the thread they are made on; an asynchronous program makes them on threads that may
/// block. A store is shared by reference between as many threads as one likes.
pub struct PostgresStore {
    shared: Arc<PostgresShared>,
    announcer: CommitAnnouncer,
    listener: CommitListener,
}

/// How a [`PostgresStore`] behaves.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// The schema its tables lie in, so that several stores can share a database.
    pub schema: String,
    /// Connections it opens at most, besides the one that listens for commits of others.
    pub max_connections: usize,
    /// How long it waits for a lock, a connection or a statement before it says that the store is
    /// busy.
    pub wait_timeout: Duration,
    /// A PEM file of the certificate authorities to trust instead of the system's, where the address
    /// says `sslmode=require`.
    pub ca_file: Option<PathBuf>,
    /// Faults, for tests.
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
    /// Can a store be at this address? Says why not, and shows no password.
    pub fn check_address(url: &str) -> Result<(), StoreError> {
        PostgresAddress::parse(url).map(drop)
    }

    /// A store at an address such as `postgres://user:password@host:5432/database`. Connects when it
    /// is first used.
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

/// What the store shares with its threads.
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

/// The name goes into SQL as it is, and into the name of a channel.
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
        "`{}` cannot be the name of its schema: use up to 40 lower-case letters, digits and `_`",
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
