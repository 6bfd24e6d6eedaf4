//! A server from nothing: a directory, a cluster in it, a free port, and the postmaster.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;

use super::Durability;
use super::account::ServerAccount;
use super::postmaster::{Postmaster, StartOutcome};
use crate::cargo;

/// A server with a cluster of its own. Dropping it stops it and removes its files.
pub struct PostgresServer {
    port: u16,
    // In this order: the server is stopped before its directory is removed.
    _postmaster: Postmaster,
    _directory: TempDir,
}

impl PostgresServer {
    /// Makes a cluster with the programs in `programs` and waits until its server accepts connections.
    pub fn start(programs: &Path, durability: Durability) -> anyhow::Result<Self> {
        let account = ServerAccount::choose()?;
        let directory =
            make_directory(account, durability).context("could not make a temporary directory")?;
        account.give_path(directory.path())?;
        run_initdb(programs, directory.path(), account, durability)?;

        // Between our asking for a free port and the server's taking it, somebody else may take it.
        for _ in 0..PORT_ATTEMPTS {
            let port = free_port().context("there is no free port on 127.0.0.1")?;
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
        bail!("each of the {PORT_ATTEMPTS} ports we tried was taken by somebody else")
    }

    /// Where the superuser finds the server.
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
        // /tmp is often kept in memory, where waiting for the disk costs nothing; /var/tmp is on a disk.
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
        // Nobody but this machine is listened to; see `listen_addresses`.
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
        // What a commit promises to other sessions stays as it is; only the disk is not waited for.
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
    fn only_this_machine_is_listened_to() {
        for durability in [Durability::Throwaway, Durability::Full] {
            let settings = server_settings(Path::new("/somewhere"), durability, 5433);
            assert!(settings.contains(&"listen_addresses=127.0.0.1".to_owned()));
        }
    }
}
