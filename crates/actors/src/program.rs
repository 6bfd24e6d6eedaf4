//! Finding the program that a command names, the way a shell would.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use plan::ActorDefinition;
use plan::actor::ActorKind;

/// Where the program of an actor is, if it can be started: `path` is a list of directories as in the
/// variable PATH. None for an actor that starts none, and for a program that lies in the repository.
pub fn find_installed_program(
    definition: &ActorDefinition,
    search_path: &OsStr,
) -> Option<PathBuf> {
    match &definition.kind {
        ActorKind::Command(command_line) => {
            find_program(OsStr::new(command_line.command.first()?), search_path, None)
        }
        ActorKind::Human { .. } => None,
    }
}

/// The program `name`. One with a slash is taken as it is, from `directory` if it is relative; any other
/// is the first of its name in the directories of `path`. Relative directories are left out, so that what
/// is started does not depend on where.
pub(crate) fn find_program(
    name: &OsStr,
    search_path: &OsStr,
    directory: Option<&Path>,
) -> Option<PathBuf> {
    let given = Path::new(name);
    if given.components().count() > 1 || given.is_absolute() {
        let program = if given.is_absolute() {
            given.to_owned()
        } else {
            directory?.join(given)
        };
        return is_executable_file(&program).then_some(program);
    }
    std::env::split_paths(search_path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(given))
        .find(|program| is_executable_file(program))
}

fn is_executable_file(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
