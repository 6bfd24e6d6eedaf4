//! Opens the local host: its id and its sandboxes.

use std::path::Path;

use lifecycle::LocalHost;
use plan::project::HostId;
use sandbox::Sandboxes;

use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::{actor_set, home, settings};

/// Stands in for the id of a host that has registered nothing yet. No resource has it.
const UNREGISTERED_HOST: &str = "this-host-has-registered-nothing";

/// Opens the sandboxes of this host. Writes nothing.
pub fn open_local_host(home: &Path) -> Result<LocalHost, CommandError> {
    let faults = crate::faults::sandbox_faults()?;
    let mut sandboxes = Sandboxes::new(home, settings::read_git_env()).with_faults(faults);
    // Read-only commands need no supervisor. Commands that run something fail with `NoSupervisor`.
    if let Ok(supervisor) = actor_set::make_supervisor() {
        sandboxes = sandboxes.with_supervisor(supervisor);
    }
    let host = match read_host_id(home)? {
        Some(host) => host,
        None => UNREGISTERED_HOST
            .parse()
            .expect("BUG: the constant is a valid host id"),
    };
    Ok(LocalHost { sandboxes, host })
}

/// Returns this host's id. The first call generates it and writes it to the `host` file in the home.
pub fn register_host(home: &Path) -> Result<HostId, CommandError> {
    if let Some(host) = read_host_id(home)? {
        return Ok(host);
    }
    let file = home.join("host");
    let failed = |error: std::io::Error| CommandError::for_file(&file, "written", &error);
    let mut random = [0_u8; 4];
    getrandom::fill(&mut random).map_err(|error| failed(std::io::Error::other(error)))?;
    let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let id = format!("{}-{random}", system_name());
    home::make_private_directory(home).map_err(failed)?;
    // Two processes may register at once. A hard link does not replace an existing file, so the first id wins.
    let new = home.join(format!("host.{random}"));
    let written =
        home::write_private_file(&new, &id).and_then(|()| match std::fs::hard_link(&new, &file) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => Ok(()),
        });
    let _ = std::fs::remove_file(&new);
    written.map_err(failed)?;
    read_host_id(home)?.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))
}

fn read_host_id(home: &Path) -> Result<Option<HostId>, CommandError> {
    let file = home.join("host");
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(CommandError::for_file(&file, "read", &error));
        }
    };
    text.trim().parse().map(Some).map_err(|_| {
        CommandError::new(
            CommandExit::Error,
            format!("{} does not contain a host id.", home::display_path(&file)),
        )
        .with_hint("Projects refer to this host by its id. Restore the file from a backup.")
    })
}

/// The node name, reduced to the characters and length a host id allows.
fn system_name() -> String {
    let name = rustix::system::uname();
    let name: String = name
        .nodename()
        .to_string_lossy()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
        .take(60)
        .collect();
    if name.is_empty() {
        "host".to_owned()
    } else {
        name
    }
}
