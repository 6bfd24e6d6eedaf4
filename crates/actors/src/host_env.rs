//! The environment of Planwright itself, passed in by the binary. This crate reads no environment.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The environment of the worker process.
#[derive(Debug, Clone, Default)]
pub struct HostEnv {
    /// All variables. Which of them an agent gets is decided by name.
    pub environment: Vec<(OsString, OsString)>,
    /// The user's home directory, for `~`.
    pub home: Option<PathBuf>,
    /// Paths that a confined agent cannot access, whatever its definition says, except its
    /// sandboxes and run directory: Planwright's home, and the store if it is elsewhere.
    pub out_of_reach: Vec<PathBuf>,
    /// The command of the relay that gives an agent the tools of its run; the file with the connection follows. Empty if
    /// this host has none.
    pub tool_relay: Vec<OsString>,
}

impl HostEnv {
    pub(crate) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_os_str())
    }

    /// The search path for programs.
    pub(crate) fn path(&self) -> &OsStr {
        self.variable("PATH")
            .unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"))
    }

    /// Expands `~/` in a path of a definition. `None` if there is no home directory.
    pub(crate) fn expand(&self, path: &str) -> Option<PathBuf> {
        match path.strip_prefix("~/") {
            Some(below) => Some(self.home.as_ref()?.join(below)),
            None => Some(Path::new(path).to_owned()),
        }
    }
}
