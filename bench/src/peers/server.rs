//! The PostgreSQL server that `cargo xtask bench peers` started: a database of its own for each run.

use std::process::Command;
use std::time::Duration;

use super::child;
use crate::postgres::program;

const LIMIT: Duration = Duration::from_secs(60);
/// Settings without which a commit would not survive power loss.
const DURABLE: [&str; 3] = ["fsync", "synchronous_commit", "full_page_writes"];

/// A server that keeps what it commits.
pub struct Server {
    url: String,
    pub version: String,
}

impl Server {
    /// The server whose URL is in the environment, if it is durable.
    pub fn find() -> Result<Self, String> {
        let url = std::env::var("PLANWRIGHT_TEST_POSTGRES").map_err(|_| {
            let why = std::env::var("PLANWRIGHT_BENCH_NO_POSTGRES");
            format!(
                "no PostgreSQL: {}",
                why.unwrap_or("PLANWRIGHT_TEST_POSTGRES is not set".to_owned())
            )
        })?;
        for setting in DURABLE {
            let value = ask(&url, &format!("SHOW {setting}"))?;
            if value != "on" {
                return Err(format!(
                    "the PostgreSQL server does not keep what it commits: {setting} is {value}"
                ));
            }
        }
        let version = ask(&url, "SHOW server_version")?;
        let version = version.split(' ').next().unwrap_or_default().to_owned();
        Ok(Self { url, version })
    }

    /// The URL of an empty database, on a server that has nothing else to do.
    pub fn create(&self, name: &str) -> Result<String, String> {
        ask(&self.url, &format!("CREATE DATABASE {name}"))?;
        ask(&self.url, "CHECKPOINT")?;
        let (server, _) = self.url.rsplit_once('/').ok_or("its URL has no database")?;
        Ok(format!("{server}/{name}"))
    }

    pub fn remove(&self, name: &str) -> Result<(), String> {
        ask(&self.url, &format!("DROP DATABASE {name} WITH (FORCE)")).map(drop)
    }
}

fn ask(url: &str, statement: &str) -> Result<String, String> {
    let mut command = Command::new(program("psql"));
    command.args(["--no-psqlrc", "--tuples-only", "--no-align", "--command"]);
    let said = child::output(command.args([statement, url]), LIMIT);
    said.map(|said| said.trim().to_owned())
        .map_err(|why| format!("no PostgreSQL: {why}"))
}
