//! What surrounds Planwright itself, passed in by the program that has it: this crate reads no environment.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The surroundings of the worker.
#[derive(Debug, Clone, Default)]
pub struct HostEnv {
    /// Its environment. What of it an actor gets is decided by name.
    pub environment: Vec<(OsString, OsString)>,
    /// The user's home directory, which `~` stands for.
    pub home: Option<PathBuf>,
    /// What no confined actor reaches, whatever its definition says, but for its own sandboxes and run:
    /// Planwright's home, and the store if it lies elsewhere.
    pub out_of_reach: Vec<PathBuf>,
}

impl HostEnv {
    /// A variable.
    pub(crate) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_os_str())
    }

    /// Where programs are looked for.
    pub(crate) fn path(&self) -> &OsStr {
        self.variable("PATH")
            .unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"))
    }

    /// A path of a definition. None if it is one of the home directory's and there is none.
    pub(crate) fn expand(&self, path: &str) -> Option<PathBuf> {
        match path.strip_prefix("~/") {
            Some(below) => Some(self.home.as_ref()?.join(below)),
            None => Some(Path::new(path).to_owned()),
        }
    }
}
