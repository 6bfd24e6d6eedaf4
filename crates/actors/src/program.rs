//! Finds the program that a command names, like a shell does.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use plan::ActorDefinition;

/// The path of an actor's program, if it is installed. `search_path` is a list of directories, as
/// in PATH. `None` for an actor without a program, and for a program in the repository.
pub fn find_installed_program(
    definition: &ActorDefinition,
    search_path: &OsStr,
) -> Option<PathBuf> {
    let words = definition.kind.program_words()?;
    find_program(OsStr::new(words.first()?), search_path, None)
}

/// Finds the program `name`. A name with a slash is a path, relative to `directory`. Other names
/// are looked up in `search_path`. Relative directories in it are skipped, so that the result does
/// not depend on the working directory.
pub fn find_program(
    name: &OsStr,
    search_path: &OsStr,
    directory: Option<&Path>,
) -> Option<PathBuf> {
    let name_path = Path::new(name);
    if name_path.components().count() > 1 || name_path.is_absolute() {
        let program = if name_path.is_absolute() {
            name_path.to_owned()
        } else {
            directory?.join(name_path)
        };
        return is_executable_file(&program).then_some(program);
    }
    std::env::split_paths(search_path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name_path))
        .find(|program| is_executable_file(program))
}

fn is_executable_file(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
