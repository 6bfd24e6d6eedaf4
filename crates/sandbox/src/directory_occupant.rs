//! Finds processes that work in a directory, as far as `/proc` shows.

use std::path::Path;

pub(crate) enum DirectoryOccupant {
    /// No process, as far as `/proc` shows.
    Nobody,
    Process(u32),
    /// `/proc` cannot be read, so a process may run there.
    Unknown,
}

/// Finds a process whose working directory is in this directory.
pub(crate) fn find_occupant(directory: &Path) -> DirectoryOccupant {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return DirectoryOccupant::Unknown;
    };
    let Ok(directory) = directory.canonicalize() else {
        return DirectoryOccupant::Unknown;
    };
    let mut seen_any = false;
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Ok(working_dir) = std::fs::read_link(process.path().join("cwd")) {
            seen_any = true;
            if working_dir.starts_with(&directory) {
                return DirectoryOccupant::Process(number);
            }
        }
    }
    if seen_any {
        DirectoryOccupant::Nobody
    } else {
        DirectoryOccupant::Unknown
    }
}
