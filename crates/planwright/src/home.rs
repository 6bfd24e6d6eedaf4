//! Where Planwright keeps its things, and who is asking: the only questions put to the system.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use plan::Caller;

use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::settings;

/// The home when nothing else says so: the data directory of the platform.
pub fn default_home() -> Result<PathBuf, CommandError> {
    match etcetera::choose_base_strategy() {
        Ok(strategy) => Ok(strategy.data_dir().join("planwright")),
        Err(_) => Err(CommandError::new(
            CommandExit::Error,
            "There is no home directory to keep the store in.",
        )
        .with_hint("Set PLANWRIGHT_HOME to a directory of your own.")),
    }
}

/// The person at the command line: the operating system's user, whatever the environment says.
pub fn current_person() -> Caller {
    let uid = rustix::process::getuid().as_raw();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    Caller::Person(find_user_name(&passwd, uid).unwrap_or_else(|| format!("uid-{uid}")))
}

/// On whose word the command is carried out: the person's, unless it is an actor that calls, which may do
/// only what a worker may. A confined one cannot even reach the store; to one that is not, this is a
/// courtesy and no wall.
pub fn current_caller() -> Caller {
    match settings::is_inside_run() {
        true => Caller::Worker("an agent that calls planwright itself".to_owned()),
        false => current_person(),
    }
}

/// Only for people.
pub fn require_person(what: &str) -> Result<(), CommandError> {
    if !settings::is_inside_run() {
        return Ok(());
    }
    let message = format!("An agent cannot {what}: only a person can.");
    Err(CommandError::new(CommandExit::NeedsPerson, message))
}

/// Makes a directory that only its owner can enter, with those above it that are missing; one that is there stays as
/// it is.
pub fn make_private_directory(path: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path)
}

/// Writes a file that only its owner can read, whatever was there.
pub fn write_private_file(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path)?;
    // One that was there keeps its mode otherwise.
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Shortens a path for people.
pub fn display_path(path: &Path) -> String {
    path.display().to_string()
}

fn find_user_name(passwd: &str, uid: u32) -> Option<String> {
    let uid = uid.to_string();
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid && !name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_person_is_found_by_their_number() {
        let passwd = "root:x:0:0::/root:/bin/sh\nada:x:1000:1000:Ada:/home/ada:/bin/sh\n";
        assert_eq!(find_user_name(passwd, 1000).as_deref(), Some("ada"));
        assert_eq!(find_user_name(passwd, 7), None);
    }
}
