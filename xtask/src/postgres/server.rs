//! Starts a new server: creates a directory, initializes a cluster in it, and finds a free port.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;

use super::Durability;
use super::account::ServerAccount;
use super::postmaster::{Postmaster, StartOutcome};
use crate::cargo;

/// A server with its own cluster. Dropping it stops it and removes its files.
pub struct PostgresServer {
    port: u16,
    // In this order: the server is stopped before its directory is removed.
    _postmaster: Postmaster,
    _directory: TempDir,
}

impl PostgresServer {
    /// Initializes a cluster with the programs in `programs` and waits until its server accepts connections.
    pub fn start(programs: &Path, durability: Durability) -> anyhow::Result<Self> {
        let account = ServerAccount::choose()?;
        let directory = make_directory(account, durability)
            .context("could not create a temporary directory")?;
        account.give_path(directory.path())?;
        run_initdb(programs, directory.path(), account, durability)?;

        // Another program may take the free port before the server binds to it.
        for _ in 0..PORT_ATTEMPTS {
            let port = free_port().context("no free port on 127.0.0.1")?;
            let settings = server_settings(directory.path(), durability, port);
            let mut postmaster = Postmaster::spawn(programs, directory.path(), account, &settings)?;
            match postmaster.wait_until_ready()? {
                StartOutcome::Ready => {
                    return Ok(Self {
                        port,
                        _postmaster: postmaster,
                        _directory: directory,
                    });
                }
                StartOutcome::PortTaken => {}
            }
        }
        bail!(
            "all {PORT_ATTEMPTS} free ports were taken by other programs before the server could bind"
        )
    }

    /// The URL for the superuser.
    pub fn url(&self) -> String {
        format!("postgres://{SUPERUSER}@127.0.0.1:{}/postgres", self.port)
    }
}

const SUPERUSER: &str = "postgres";
const PORT_ATTEMPTS: u32 = 5;

fn make_directory(account: ServerAccount, durability: Durability) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("planwright-postgres-");
    match (durability, account) {
        (Durability::Throwaway, ServerAccount::CurrentUser) => builder.tempdir(),
        // Root's own temporary directory, where it has one, is closed to other users.
        (Durability::Throwaway, ServerAccount::OtherUser { .. }) => builder.tempdir_in("/tmp"),
        // /tmp is often in memory, where syncing costs nothing; /var/tmp is on a disk.
        (Durability::Full, _) => builder.tempdir_in("/var/tmp"),
    }
}

fn run_initdb(
    programs: &Path,
    directory: &Path,
    account: ServerAccount,
    durability: Durability,
) -> anyhow::Result<()> {
    let mut command = cargo::command_without_cargo_env(programs.join("initdb"));
    account.apply_to(&mut command);
    command
        .current_dir(directory)
        .env("LC_ALL", "C")
        .arg("--pgdata=data")
        .arg(format!("--username={SUPERUSER}"))
        // Safe without passwords, because the server only listens on 127.0.0.1; see `listen_addresses`.
        .args(["--auth=trust", "--encoding=UTF8", "--locale=C"]);
    if durability == Durability::Throwaway {
        command.arg("--no-sync");
    }
    let output = command.output().context("could not run initdb")?;
    ensure!(
        output.status.success(),
        "initdb failed:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// The settings in which this server differs from PostgreSQL's defaults.
fn server_settings(directory: &Path, durability: Durability, port: u16) -> Vec<String> {
    let mut settings = vec![
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
        format!("unix_socket_directories={}", directory.display()),
        // Many tests run at once, each with a pool of its own.
        "max_connections=200".to_owned(),
    ];
    if durability == Durability::Throwaway {
        // Commits stay visible to other sessions as usual. Only syncing to disk is skipped.
        settings.extend(
            ["fsync=off", "full_page_writes=off", "synchronous_commit=on"].map(str::to_owned),
        );
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_throwaway_server_skips_the_disk() {
        let settings_for = |durability| server_settings(Path::new("/somewhere"), durability, 5433);
        assert!(settings_for(Durability::Throwaway).contains(&"fsync=off".to_owned()));
        assert!(
            settings_for(Durability::Full)
                .iter()
                .all(|setting| !setting.contains("fsync"))
        );
    }

    #[test]
    fn servers_only_listen_on_localhost() {
        for durability in [Durability::Throwaway, Durability::Full] {
            let settings = server_settings(Path::new("/somewhere"), durability, 5433);
            assert!(settings.contains(&"listen_addresses=127.0.0.1".to_owned()));
        }
    }
}
