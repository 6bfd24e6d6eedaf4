//! Planwright's home directory, private files in it, and the identity of the caller.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use plan::Caller;

use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::settings;

/// The home if `PLANWRIGHT_HOME` is not set: `planwright` in the platform's data directory.
pub fn default_home() -> Result<PathBuf, CommandError> {
    match etcetera::choose_base_strategy() {
        Ok(strategy) => Ok(strategy.data_dir().join("planwright")),
        Err(_) => Err(CommandError::new(
            CommandExit::Error,
            "Cannot find a home directory for the store.",
        )
        .with_hint("Set PLANWRIGHT_HOME to a directory you own.")),
    }
}

/// The person at the command line: the user of this process's uid. Ignores `USER` and the like, which can be set.
pub fn current_person() -> Caller {
    let uid = rustix::process::getuid().as_raw();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    Caller::Person(find_user_name(&passwd, uid).unwrap_or_else(|| format!("uid-{uid}")))
}

/// The caller of this command: the person, or the agent inside whose run it was started. An agent may do less.
///
/// This is not a security boundary: an unconfined agent can unset the variable. A confined one cannot reach
/// the store at all.
pub fn current_caller() -> Caller {
    match settings::enclosing_run() {
        Some(run_key) => Caller::Agent(format!("of run {run_key}")),
        None => current_person(),
    }
}

/// The agent that an editor of the current person talks to. Its plans are those of every editor of this person, so that
/// a session can be continued in another one.
pub fn editor_agent() -> Caller {
    Caller::Agent(format!("in an editor of {}", current_person().name()))
}

/// Creates a directory that only its owner can enter, and missing parents. Leaves an existing one unchanged.
pub fn make_private_directory(path: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path)
}

/// Writes a file that only its owner can read and syncs it. Replaces existing content.
pub fn write_private_file(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path)?;
    // `mode` above applies only to new files.
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// A path for people: the home directory of the user is `~`.
pub fn display_path(path: &Path) -> String {
    let user_home = etcetera::home_dir().ok();
    match user_home.and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned)) {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
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
    fn user_name_is_looked_up_by_uid() {
        let passwd = "root:x:0:0::/root:/bin/sh\nada:x:1000:1000:Ada:/home/ada:/bin/sh\n";
        assert_eq!(find_user_name(passwd, 1000).as_deref(), Some("ada"));
        assert_eq!(find_user_name(passwd, 7), None);
    }
}
