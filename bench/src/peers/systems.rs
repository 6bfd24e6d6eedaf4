//! The systems that are compared, and how to start each one's driver.

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::driver_install::read_pinned_version;

pub struct SystemUnderTest {
    /// The name for `--only`.
    pub name: &'static str,
    /// The name in tables and charts.
    pub label: &'static str,
    pub kind: SystemKind,
    pub driver: DriverProgram,
    pub storage: SystemStorage,
    /// What its workflow consists of, for the table.
    pub note: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SystemKind {
    #[serde(rename = "own")]
    Planwright,
    /// The database alone, writing the same rows without deciding anything: an upper bound.
    #[serde(rename = "limit")]
    Baseline,
    #[serde(rename = "peer")]
    Peer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemStorage {
    /// Files in the run's directory.
    Files,
    /// A database on the PostgreSQL server.
    Postgres,
}

#[derive(Debug, Clone, Copy)]
pub enum DriverProgram {
    /// `planwright-bench drive`.
    Builtin,
    /// `drive.py` of this directory under `bench/peers`. The system's version is that of `package`.
    Python {
        directory: &'static str,
        package: &'static str,
    },
    /// `drive.mjs` of this directory under `bench/peers`. The system's version is that of `package`.
    Node {
        directory: &'static str,
        package: &'static str,
    },
}

/// How many callers run workflows at the same time.
pub const CONCURRENCIES: [usize; 2] = [1, 32];

pub const SYSTEMS: [SystemUnderTest; 12] = [
    SystemUnderTest {
        name: "planwright-sqlite",
        label: "Planwright, SQLite",
        kind: SystemKind::Planwright,
        driver: DriverProgram::Builtin,
        storage: SystemStorage::Files,
        note: "consecutive decisions share a commit: 3 per workflow; concurrent callers share commits",
    },
    SystemUnderTest {
        name: "planwright-sqlite-steps",
        label: "Planwright, SQLite, by steps",
        kind: SystemKind::Planwright,
        driver: DriverProgram::Builtin,
        storage: SystemStorage::Files,
        note: "9 transitions per workflow, one commit each; concurrent callers share commits",
    },
    SystemUnderTest {
        name: "planwright-postgres",
        label: "Planwright, PostgreSQL",
        kind: SystemKind::Planwright,
        driver: DriverProgram::Builtin,
        storage: SystemStorage::Postgres,
        note: "consecutive decisions share a commit: 3 per workflow",
    },
    SystemUnderTest {
        name: "planwright-postgres-steps",
        label: "Planwright, Postgres, by steps",
        kind: SystemKind::Planwright,
        driver: DriverProgram::Builtin,
        storage: SystemStorage::Postgres,
        note: "9 transitions per workflow, one commit each",
    },
    SystemUnderTest {
        name: "sqlite-by-hand",
        label: "SQLite by hand",
        kind: SystemKind::Baseline,
        driver: DriverProgram::Builtin,
        storage: SystemStorage::Files,
        note: "writes the same rows, reads and decides nothing; 1 transition per transaction, 100 with 32 callers",
    },
    SystemUnderTest {
        name: "pgbench",
        label: "pgbench",
        kind: SystemKind::Baseline,
        driver: DriverProgram::Builtin,
        storage: SystemStorage::Postgres,
        note: "locks and writes the same rows statement by statement, decides nothing",
    },
    SystemUnderTest {
        name: "restate",
        label: "Restate",
        kind: SystemKind::Peer,
        driver: DriverProgram::Node {
            directory: "restate",
            package: "@restatedev/restate-server",
        },
        storage: SystemStorage::Files,
        note: "a workflow of 3 durable steps; the server and its journal with default settings",
    },
    SystemUnderTest {
        name: "graphile-worker",
        label: "graphile-worker",
        kind: SystemKind::Peer,
        driver: DriverProgram::Node {
            directory: "graphile-worker",
            package: "graphile-worker",
        },
        storage: SystemStorage::Postgres,
        note: "3 jobs, each adding the next; keeps no history, and commits the end of the last job a moment later",
    },
    SystemUnderTest {
        name: "pgqueuer",
        label: "PgQueuer",
        kind: SystemKind::Peer,
        driver: DriverProgram::Python {
            directory: "pgqueuer",
            package: "pgqueuer",
        },
        storage: SystemStorage::Postgres,
        note: "3 jobs, each enqueueing the next; logs their ends a moment later, in batches",
    },
    SystemUnderTest {
        name: "langgraph-sqlite",
        label: "LangGraph, SQLite",
        kind: SystemKind::Peer,
        driver: DriverProgram::Python {
            directory: "langgraph",
            package: "langgraph",
        },
        storage: SystemStorage::Files,
        note: "a graph of 3 nodes; writes each checkpoint before the next node starts",
    },
    SystemUnderTest {
        name: "dbos-sqlite",
        label: "DBOS, SQLite",
        kind: SystemKind::Peer,
        driver: DriverProgram::Python {
            directory: "dbos",
            package: "dbos",
        },
        storage: SystemStorage::Files,
        note: "a workflow of 3 steps",
    },
    SystemUnderTest {
        name: "dbos-postgres",
        label: "DBOS, PostgreSQL",
        kind: SystemKind::Peer,
        driver: DriverProgram::Python {
            directory: "dbos",
            package: "dbos",
        },
        storage: SystemStorage::Postgres,
        note: "a workflow of 3 steps",
    },
];

impl SystemUnderTest {
    /// The directory of its driver, if packages must be installed there.
    pub fn driver_directory(&self) -> Option<&'static str> {
        match self.driver {
            DriverProgram::Builtin => None,
            DriverProgram::Python { directory, .. } | DriverProgram::Node { directory, .. } => {
                Some(directory)
            }
        }
    }

    /// `server_version` is that of the PostgreSQL server, if there is one.
    pub fn read_version(&self, server_version: Option<&str>) -> Option<String> {
        match self.driver {
            DriverProgram::Python { directory, package }
            | DriverProgram::Node { directory, package } => read_pinned_version(directory, package),
            DriverProgram::Builtin if self.kind == SystemKind::Planwright => {
                Some(env!("CARGO_PKG_VERSION").to_owned())
            }
            DriverProgram::Builtin if self.name == "pgbench" => server_version.map(str::to_owned),
            DriverProgram::Builtin => Some(rusqlite::version().to_owned()),
        }
    }

    /// The driver's command without flags. `installed` is the directory that the drivers were copied to.
    pub fn driver_command(&self, installed: &Path) -> Result<Command, String> {
        match self.driver {
            DriverProgram::Builtin => {
                let own_program = std::env::current_exe().map_err(|error| error.to_string())?;
                let mut command = Command::new(own_program);
                command.args(["drive", self.name]);
                Ok(command)
            }
            DriverProgram::Python { directory, .. } => {
                let home = installed.join(directory);
                let mut command = Command::new(home.join("venv/bin/python"));
                command
                    .arg(home.join("drive.py"))
                    .env("PYTHONPATH", installed.join("shared"))
                    .env("LANGSMITH_TRACING", "false");
                Ok(command)
            }
            DriverProgram::Node { directory, .. } => {
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
    fn every_peer_has_a_driver_and_pinned_packages() {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        for system in &SYSTEMS {
            let files: &[&str] = match system.driver {
                DriverProgram::Builtin => continue,
                DriverProgram::Python { .. } => &["drive.py", "requirements.txt"],
                DriverProgram::Node { .. } => &["drive.mjs", "package.json", "package-lock.json"],
            };
            let home = peers.join(system.driver_directory().unwrap());
            for file in files {
                assert!(home.join(file).exists(), "{} has no {file}", system.name);
            }
        }
    }

    #[test]
    fn lock_files_name_no_registry() {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        for directory in ["restate", "graphile-worker"] {
            let lock = std::fs::read_to_string(peers.join(directory).join("package-lock.json"));
            assert!(!lock.unwrap().contains("\"resolved\""), "{directory}");
        }
    }
}
