//! Where the plans of a scenario are kept.

use std::sync::Arc;

use planwright::{Lifecycle, MemoryStore, store};
use testkit::proxy::CuttingProxy;
use testkit::{FaultSwitch, PostgresDatabase, SqliteFile};

/// A fresh store of one kind; gone with the scenario.
pub enum ScenarioStore {
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
        proxy: Option<(CuttingProxy, String)>,
    },
}

impl ScenarioStore {
    /// A fresh store of the kind a feature names.
    pub fn new(kind: &str) -> Self {
        match kind {
            "memory" => {
                let faults = FaultSwitch::default();
                let store =
                    MemoryStore::with_clock_and_faults(store::Clock::default(), faults.faults());
                Self::Memory {
                    store: Arc::new(store),
                    faults,
                }
            }
            "sqlite" => Self::Sqlite(SqliteFile::new()),
            "postgres" => Self::Postgres {
                database: PostgresDatabase::new(),
                proxy: None,
            },
            other => panic!("there is no kind of store called `{other}`"),
        }
    }

    /// An engine with a handle of its own, as another process would have.
    pub fn open_engine(&self) -> Lifecycle {
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
            Self::Postgres {
                database,
                proxy: wire,
            } => Some(match wire {
                Some((_, through)) => through.clone(),
                None => database.url(),
            }),
        }
    }

    /// Puts a wire that can be cut between the processes and their server.
    pub fn insert_proxy(&mut self) {
        let Self::Postgres {
            database,
            proxy: wire,
        } = self
        else {
            panic!("only a server is reached by a wire");
        };
        *wire = Some(CuttingProxy::for_url(&database.url()));
    }

    /// That wire.
    pub fn proxy(&self) -> &CuttingProxy {
        match self {
            Self::Postgres {
                proxy: Some((proxy, _)),
                ..
            } => proxy,
            _ => panic!("there is no wire that could be cut"),
        }
    }

    /// Removes every plan behind everybody's back.
    pub fn delete_everything(&self) {
        match self {
            Self::Memory { .. } => panic!("a memory store has no back"),
            Self::Sqlite(file) => {
                let database = rusqlite::Connection::open(file.path()).unwrap();
                database.pragma_update(None, "foreign_keys", false).unwrap();
                let mut tables = database
                    .prepare(
                        "SELECT DISTINCT m.name FROM sqlite_schema m, pragma_table_info(m.name) c
                         WHERE m.type = 'table' AND c.name = 'plan_id'",
                    )
                    .unwrap();
                let tables = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
                for table in tables.map(Result::unwrap) {
                    database
                        .execute(&format!("DELETE FROM {table}"), [])
                        .unwrap();
                }
            }
            Self::Postgres { database, .. } => {
                database.run_sql("TRUNCATE planwright.plans CASCADE");
            }
        }
    }
}
