//! Where the plans of a scenario are kept.

use std::sync::Arc;

use planwright::{Lifecycle, MemoryStore, store};
use testkit::proxy::CuttingProxy;
use testkit::{FaultSwitch, PostgresDatabase, SqliteFile};

/// A fresh store of one kind; gone with the scenario.
pub enum Place {
    /// In this process.
    Memory {
        /// The one store there is.
        store: Arc<MemoryStore>,
        /// Makes it fail on demand.
        faults: FaultSwitch,
    },
    /// In a file.
    Sqlite(SqliteFile),
    /// On a server.
    Postgres {
        /// The database.
        database: PostgresDatabase,
        /// The wire that processes reach it by, if it can be cut.
        wire: Option<(CuttingProxy, String)>,
    },
}

impl Place {
    /// A fresh store of the kind a feature names.
    pub fn new(kind: &str) -> Self {
        match kind {
            "memory" => {
                let faults = FaultSwitch::default();
                let store = MemoryStore::with(store::Clock::default(), faults.faults());
                Self::Memory {
                    store: Arc::new(store),
                    faults,
                }
            }
            "sqlite" => Self::Sqlite(SqliteFile::new()),
            "postgres" => Self::Postgres {
                database: PostgresDatabase::new(),
                wire: None,
            },
            other => panic!("there is no kind of store called `{other}`"),
        }
    }

    /// An engine with a handle of its own, as another process would have.
    pub fn engine(&self) -> Lifecycle {
        match self {
            Self::Memory { store, .. } => Lifecycle::on(Arc::<MemoryStore>::clone(store)),
            Self::Sqlite(file) => {
                planwright::open(&format!("sqlite:{}", file.path().display())).unwrap()
            }
            Self::Postgres { database, .. } => planwright::open(&database.url()).unwrap(),
        }
    }

    /// What processes are given as `--store`. A memory store cannot be shared with any.
    pub fn address(&self) -> Option<String> {
        match self {
            Self::Memory { .. } => None,
            Self::Sqlite(file) => Some(format!("sqlite:{}", file.path().display())),
            Self::Postgres { database, wire } => Some(match wire {
                Some((_, through)) => through.clone(),
                None => database.url(),
            }),
        }
    }

    /// Puts a wire that can be cut between the processes and their server.
    pub fn put_wire_between(&mut self) {
        let Self::Postgres { database, wire } = self else {
            panic!("only a server is reached by a wire");
        };
        *wire = Some(CuttingProxy::to_url(&database.url()));
    }

    /// That wire.
    pub fn wire(&self) -> &CuttingProxy {
        match self {
            Self::Postgres {
                wire: Some((proxy, _)),
                ..
            } => proxy,
            _ => panic!("there is no wire that could be cut"),
        }
    }

    /// Removes every plan behind everybody's back.
    pub fn lose_everything(&self) {
        match self {
            Self::Memory { .. } => panic!("a memory store has no back"),
            Self::Sqlite(file) => {
                for entry in std::fs::read_dir(file.directory()).unwrap() {
                    std::fs::remove_file(entry.unwrap().path()).unwrap();
                }
            }
            Self::Postgres { database, .. } => {
                database.sql("TRUNCATE planwright.plans CASCADE");
            }
        }
    }
}
