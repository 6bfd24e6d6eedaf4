//! This host: what it is called, and what is reachable from it.

use std::path::Path;

use lifecycle::Hands;
use plan::project::HostId;
use sandbox::Workshop;

use crate::error::CommandError;
use crate::exit::Exit;
use crate::{crew, home, settings};

/// What a host is called that has never registered anything. No resource lies there.
const NEVER_REGISTERED: &str = "this-host-has-registered-nothing";

/// The hands of this host. Looking at them writes nothing.
pub fn hands(home: &Path) -> Result<Hands, CommandError> {
    let faults = crate::faults::of_sandboxes()?;
    let mut workshop = Workshop::new(home, settings::surroundings()).with_faults(faults);
    // Who only looks needs none; who runs something is told that there is none.
    if let Ok(supervisor) = crew::supervisor() {
        workshop = workshop.with_supervisor(supervisor);
    }
    let host = match known(home)? {
        Some(host) => host,
        None => NEVER_REGISTERED
            .parse()
            .expect("BUG: it is a proper name of a host"),
    };
    Ok(Hands { workshop, host })
}

/// The stable id of this host, given at the first registration and kept in the home.
pub fn register(home: &Path) -> Result<HostId, CommandError> {
    if let Some(host) = known(home)? {
        return Ok(host);
    }
    let file = home.join("host");
    let failed = |error: std::io::Error| {
        CommandError::new(
            Exit::Error,
            format!("{} cannot be written: {error}", home::shown(&file)),
        )
    };
    let mut random = [0_u8; 4];
    getrandom::fill(&mut random).map_err(|error| failed(std::io::Error::other(error)))?;
    let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let id = format!("{}-{random}", system_name());
    home::make_private_directory(home).map_err(failed)?;
    // Whoever registers first names the host; the link cannot replace what another process wrote.
    let new = home.join(format!("host.{random}"));
    let written =
        home::write_private_file(&new, &id).and_then(|()| match std::fs::hard_link(&new, &file) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => Ok(()),
        });
    let _ = std::fs::remove_file(&new);
    written.map_err(failed)?;
    known(home)?.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))
}

fn known(home: &Path) -> Result<Option<HostId>, CommandError> {
    let file = home.join("host");
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(CommandError::new(
                Exit::Error,
                format!("{} cannot be read: {error}", home::shown(&file)),
            ));
        }
    };
    text.trim().parse().map(Some).map_err(|_| {
        CommandError::new(
            Exit::Error,
            format!("{} does not hold the id of a host.", home::shown(&file)),
        )
        .hint("Projects know their host by it; restore the file from a backup.")
    })
}

/// What the system calls itself, as far as it can be part of an id.
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
