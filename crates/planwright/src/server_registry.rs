//! Which servers run for this home: one file per server, locked by its process.
//!
//! Only a locked file counts. Another program that listens on the port of an ended server is not mistaken for it.

use std::fs::{File, TryLockError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::home;

/// The directory of everything that belongs to servers: registrations, sessions, codes and the log.
pub fn server_directory(home: &Path) -> PathBuf {
    home.join("server")
}

/// The servers of one home and store.
pub struct ServerRegistry {
    directory: PathBuf,
    /// Stands for the store in file names, because an address may contain a password.
    store_digest: String,
}

/// A running server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningServer {
    pub address: SocketAddr,
    pub process: i32,
}

/// This process's registration. Removed when dropped.
pub struct ServerRegistration {
    path: PathBuf,
    /// Locked until the process ends.
    _file: File,
}

impl ServerRegistry {
    pub fn new(home: &Path, store: &str) -> Self {
        let digest = Sha256::digest(store.as_bytes());
        Self {
            directory: server_directory(home).join("running"),
            store_digest: digest
                .iter()
                .take(8)
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        }
    }

    /// Registers this process as a server at this address.
    pub fn register(&self, address: SocketAddr) -> std::io::Result<ServerRegistration> {
        home::make_private_directory(&self.directory)?;
        let name = format!("{}-{}", self.store_digest, address.port());
        let path = self.directory.join(name);
        // Written under another name, so that nobody reads half of it.
        let new = path.with_extension("new");
        home::write_private_file(&new, &format!("{address} {}", std::process::id()))?;
        let file = File::open(&new)?;
        file.lock()?;
        std::fs::rename(&new, &path)?;
        Ok(ServerRegistration { path, _file: file })
    }

    /// Finds a running server.
    pub fn find_running(&self) -> std::io::Result<Option<RunningServer>> {
        let entries = match std::fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let path = entry?.path();
            let is_of_this_store = path.extension().is_none()
                && path
                    .file_name()
                    .and_then(|name| name.to_str())
                    .is_some_and(|name| name.starts_with(&self.store_digest));
            if is_of_this_store && let Some(server) = read_locked(&path)? {
                return Ok(Some(server));
            }
        }
        Ok(None)
    }

    /// The port that a server of this store used last.
    pub fn last_port(&self) -> Option<u16> {
        std::fs::read_to_string(self.port_file()).ok()?.parse().ok()
    }

    /// Remembers the port for the next server: browsers keep sessions and drafts by port.
    pub fn remember_port(&self, port: u16) -> std::io::Result<()> {
        home::write_private_file(&self.port_file(), &port.to_string())
    }

    fn port_file(&self) -> PathBuf {
        self.directory.join(format!("{}.port", self.store_digest))
    }
}

impl Drop for ServerRegistration {
    fn drop(&mut self) {
        // If this fails, the file is found unlocked and ignored.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Reads a registration if its process is alive.
fn read_locked(path: &Path) -> std::io::Result<Option<RunningServer>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => return Ok(None),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let text = std::io::read_to_string(file)?;
    Ok(text.split_once(' ').and_then(|(address, process)| {
        Some(RunningServer {
            address: address.parse().ok()?,
            process: process.parse().ok()?,
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_live_server_of_the_same_store_is_found() {
        let home = tempfile::tempdir().unwrap();
        let registry = ServerRegistry::new(home.path(), "sqlite:a.db");
        assert_eq!(registry.find_running().unwrap(), None);
        let address = "127.0.0.1:7878".parse().unwrap();
        let registration = registry.register(address).unwrap();
        let found = registry.find_running().unwrap().unwrap();
        assert_eq!(found.address, address);
        let other = ServerRegistry::new(home.path(), "sqlite:b.db");
        assert_eq!(other.find_running().unwrap(), None);
        // What a killed process leaves behind: the file without the lock.
        let copy = std::fs::read(&registration.path).unwrap();
        let path = registration.path.clone();
        drop(registration);
        std::fs::write(&path, copy).unwrap();
        assert_eq!(registry.find_running().unwrap(), None);
    }
}
