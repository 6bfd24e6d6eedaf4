//! Who is measured, and how each is started.

use std::path::Path;
use std::process::Command;

/// One program that lives the lives.
pub struct Contender {
    /// What `--only` calls it.
    pub name: &'static str,
    /// What people read.
    pub label: &'static str,
    pub kind: Kind,
    pub driver: Driver,
    pub database: Database,
    /// What must be known to read its figures.
    pub note: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Planwright.
    Own,
    /// What the database does without anybody deciding anything.
    Limit,
    /// Somebody else's.
    Peer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    /// Its own files.
    Files,
    /// A database on the PostgreSQL server.
    Postgres,
}

/// What runs it.
#[derive(Debug, Clone, Copy)]
pub enum Driver {
    /// This program, under `drive`.
    Own,
    /// `drive.py` of this directory under `bench/peers`; its version is the one of this package.
    Python {
        directory: &'static str,
        package: &'static str,
    },
    /// `drive.mjs` of this directory under `bench/peers`.
    Node {
        directory: &'static str,
        package: &'static str,
    },
}

/// Callers at once: one, and many.
pub const CONCURRENCIES: [usize; 2] = [1, 32];

pub const CONTENDERS: [Contender; 12] = [
    Contender {
        name: "planwright-sqlite",
        label: "Planwright, SQLite",
        kind: Kind::Own,
        driver: Driver::Own,
        database: Database::Files,
        note: "decisions in a row share a commit: three a life; many callers share them, too",
    },
    Contender {
        name: "planwright-sqlite-steps",
        label: "Planwright, SQLite, by steps",
        kind: Kind::Own,
        driver: Driver::Own,
        database: Database::Files,
        note: "nine transitions a life, one commit each; many callers share them",
    },
    Contender {
        name: "planwright-postgres",
        label: "Planwright, PostgreSQL",
        kind: Kind::Own,
        driver: Driver::Own,
        database: Database::Postgres,
        note: "decisions in a row share a commit: three a life",
    },
    Contender {
        name: "planwright-postgres-steps",
        label: "Planwright, Postgres, by steps",
        kind: Kind::Own,
        driver: Driver::Own,
        database: Database::Postgres,
        note: "nine transitions a life, one commit each",
    },
    Contender {
        name: "sqlite-by-hand",
        label: "SQLite by hand",
        kind: Kind::Limit,
        driver: Driver::Own,
        database: Database::Files,
        note: "the same rows, nothing read or decided; one transition a transaction, at 32 a hundred",
    },
    Contender {
        name: "pgbench",
        label: "pgbench",
        kind: Kind::Limit,
        driver: Driver::Own,
        database: Database::Postgres,
        note: "the same rows, held and written statement by statement, nothing decided",
    },
    Contender {
        name: "restate",
        label: "Restate",
        kind: Kind::Peer,
        driver: Driver::Node {
            directory: "restate",
            package: "@restatedev/restate-server",
        },
        database: Database::Files,
        note: "a workflow of three durable steps; the server and its journal, all defaults",
    },
    Contender {
        name: "graphile-worker",
        label: "graphile-worker",
        kind: Kind::Peer,
        driver: Driver::Node {
            directory: "graphile-worker",
            package: "graphile-worker",
        },
        database: Database::Postgres,
        note: "three jobs, each adding the next; keeps no history, and the last job's end is committed a moment later",
    },
    Contender {
        name: "pgqueuer",
        label: "PgQueuer",
        kind: Kind::Peer,
        driver: Driver::Python {
            directory: "pgqueuer",
            package: "pgqueuer",
        },
        database: Database::Postgres,
        note: "three jobs, each enqueueing the next; logs their ends in batches, a moment later",
    },
    Contender {
        name: "langgraph-sqlite",
        label: "LangGraph, SQLite",
        kind: Kind::Peer,
        driver: Driver::Python {
            directory: "langgraph",
            package: "langgraph",
        },
        database: Database::Files,
        note: "a graph of three nodes, checkpoints written before the next node starts",
    },
    Contender {
        name: "dbos-sqlite",
        label: "DBOS, SQLite",
        kind: Kind::Peer,
        driver: Driver::Python {
            directory: "dbos",
            package: "dbos",
        },
        database: Database::Files,
        note: "a workflow of three steps",
    },
    Contender {
        name: "dbos-postgres",
        label: "DBOS, PostgreSQL",
        kind: Kind::Peer,
        driver: Driver::Python {
            directory: "dbos",
            package: "dbos",
        },
        database: Database::Postgres,
        note: "a workflow of three steps",
    },
];

impl Contender {
    /// The directory of its driver, if it has to be installed.
    pub fn directory(&self) -> Option<&'static str> {
        match self.driver {
            Driver::Own => None,
            Driver::Python { directory, .. } | Driver::Node { directory, .. } => Some(directory),
        }
    }

    /// The command that drives it, without flags. `installed` is where the peers were set up.
    pub fn command(&self, installed: &Path) -> Result<Command, String> {
        match self.driver {
            Driver::Own => {
                let own = std::env::current_exe().map_err(|error| error.to_string())?;
                let mut command = Command::new(own);
                command.args(["drive", self.name]);
                Ok(command)
            }
            Driver::Python { directory, .. } => {
                let home = installed.join(directory);
                let mut command = Command::new(home.join("venv/bin/python"));
                command
                    .arg(home.join("drive.py"))
                    .env("PYTHONPATH", installed.join("shared"))
                    .env("LANGSMITH_TRACING", "false");
                Ok(command)
            }
            Driver::Node { directory, .. } => {
                let mut command = Command::new("node");
                command.arg(installed.join(directory).join("drive.mjs"));
                Ok(command)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_has_its_driver_and_its_pinned_packages() {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        for contender in &CONTENDERS {
            let files: &[&str] = match contender.driver {
                Driver::Own => continue,
                Driver::Python { .. } => &["drive.py", "requirements.txt"],
                Driver::Node { .. } => &["drive.mjs", "package.json", "package-lock.json"],
            };
            let home = peers.join(contender.directory().unwrap());
            for file in files {
                assert!(home.join(file).exists(), "{} has no {file}", contender.name);
            }
        }
    }

    #[test]
    fn no_lock_file_names_a_registry() {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        for directory in ["restate", "graphile-worker"] {
            let lock = std::fs::read_to_string(peers.join(directory).join("package-lock.json"));
            assert!(!lock.unwrap().contains("\"resolved\""), "{directory}");
        }
    }
}
