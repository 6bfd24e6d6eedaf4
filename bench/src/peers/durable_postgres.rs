//! The PostgreSQL server that `cargo xtask bench peers` starts. Every run gets its own database.

use std::process::Command;
use std::time::Duration;

use super::child::run_with_timeout;
use crate::postgres::program_path;

const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);
/// Settings that a commit needs to survive power loss.
const REQUIRED_SETTINGS: [&str; 3] = ["fsync", "synchronous_commit", "full_page_writes"];

/// A server whose commits survive power loss.
pub struct DurablePostgres {
    url: String,
    pub version: String,
}

impl DurablePostgres {
    /// Finds the server whose URL is in the environment, and checks its settings.
    pub fn find_server() -> Result<Self, String> {
        let url = std::env::var("PLANWRIGHT_TEST_POSTGRES").map_err(|_| {
            let reason = std::env::var("PLANWRIGHT_BENCH_NO_POSTGRES");
            format!(
                "no PostgreSQL: {}",
                reason.unwrap_or("PLANWRIGHT_TEST_POSTGRES is not set".to_owned())
            )
        })?;
        for setting in REQUIRED_SETTINGS {
            let value = run_sql(&url, &format!("SHOW {setting}"))?;
            if value != "on" {
                return Err(format!(
                    "the PostgreSQL server is not durable: {setting} is {value}"
                ));
            }
        }
        let version = run_sql(&url, "SHOW server_version")?;
        let version = version.split(' ').next().unwrap_or_default().to_owned();
        Ok(Self { url, version })
    }

    /// Creates a database and returns its URL. The checkpoint keeps writes of earlier runs out of the next one.
    pub fn create_database(&self, name: &str) -> Result<String, String> {
        run_sql(&self.url, &format!("CREATE DATABASE {name}"))?;
        run_sql(&self.url, "CHECKPOINT")?;
        let (server, _) = self
            .url
            .rsplit_once('/')
            .ok_or("the server's URL names no database")?;
        Ok(format!("{server}/{name}"))
    }

    pub fn drop_database(&self, name: &str) -> Result<(), String> {
        run_sql(&self.url, &format!("DROP DATABASE {name} WITH (FORCE)")).map(drop)
    }
}

fn run_sql(url: &str, statement: &str) -> Result<String, String> {
    let mut command = Command::new(program_path("psql"));
    command.args(["--no-psqlrc", "--tuples-only", "--no-align", "--command"]);
    run_with_timeout(command.args([statement, url]), STATEMENT_TIMEOUT)
        .map(|output| output.trim().to_owned())
        .map_err(|error| format!("no PostgreSQL: {error}"))
}
