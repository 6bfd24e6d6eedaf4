//! Permissions of files beyond what git keeps, which is whether the owner may execute one.
//!
//! A file that a landing replaces keeps its permissions; only execution changes if the result changes it. Directories
//! that are no repository have more: their sandboxes start with the same permissions, a new file lands with no more
//! than it had in the sandbox, and one that comes back by an undo with those it had.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use plan::changeset::TreePath;
use serde::{Deserialize, Serialize};

use crate::capture::Change;
use crate::compare::Difference;
use crate::error::Doing;
use crate::files::Spot;
use crate::room::{Room, Sandbox, SitePlace, Workshop};
use crate::{Repository, SandboxError, files, git};

/// Bits that are kept; those that change who executes something are not.
const KEPT: u32 = 0o777;
const EXECUTE: u32 = 0o111;

/// Permissions by path, of files that do not have the usual ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Modes(BTreeMap<TreePath, u32>);

/// As it is stored: names need not be text, and keys in JSON are.
#[derive(Default, Serialize, Deserialize)]
struct Stored(Vec<(TreePath, u32)>);

impl Modes {
    /// Those of the new files of a plan, if its resource is a directory; else those that were known when something
    /// landed in it.
    pub fn known(
        workshop: &Workshop,
        room: &Room<'_>,
        repository: &Repository,
    ) -> Result<Self, SandboxError> {
        if !is_directory(room) {
            return Ok(Self::default());
        }
        let mut modes = Self::read(&of_directory(repository))?;
        modes.0.extend(Self::read(&of_plan(workshop, room))?.0);
        Ok(modes)
    }

    fn read(path: &Path) -> Result<Self, SandboxError> {
        let stored: Stored = files::read_json_or_default(path)?;
        Ok(Self(stored.0.into_iter().collect()))
    }

    fn write(&self, path: &Path) -> Result<(), SandboxError> {
        let stored = Stored(self.0.clone().into_iter().collect());
        let text = serde_json::to_vec(&stored).expect("BUG: modes always encode");
        files::write_whole(path, &text)
    }

    /// Notes the permissions of a file, if there is one and they are not the usual ones.
    fn note(&mut self, root: &Path, path: &TreePath) {
        match mode_of(&files::below(root, path)) {
            Some(mode) if !matches!(mode, 0o644 | 0o755) => {
                self.0.insert(path.clone(), mode);
            }
            Some(_) => {
                self.0.remove(path);
            }
            None => {}
        }
    }

    /// Remembers, with a directory, what is known of the files that a landing brings and takes away.
    pub fn remember(
        mut self,
        room: &Room<'_>,
        repository: &Repository,
        touched: &[Difference],
    ) -> Result<(), SandboxError> {
        let Some(root) = repository.work_tree().filter(|_| is_directory(room)) else {
            return Ok(());
        };
        for one in touched.iter().filter(|one| one.after.is_none()) {
            self.note(root, &one.path);
        }
        let path = of_directory(repository);
        if self == Self::read(&path)? {
            return Ok(());
        }
        self.write(&path)
    }

    /// Gives a file that lies ready to land the permissions it shall have.
    pub fn set_on(
        &self,
        difference: &Difference,
        replaced: &Path,
        ready: &Path,
    ) -> Result<(), SandboxError> {
        let (Some(after), Some(now)) = (&difference.after, mode_of(ready)) else {
            return Ok(());
        };
        let before = difference.before.as_ref().map(|before| &before.mode);
        let is_executable = after.mode == "100755";
        let wanted = match (mode_of(replaced).filter(|_| before.is_some()), before) {
            (Some(old), Some(before)) if *before == after.mode => old,
            (Some(old), _) if is_executable => with_execute(old),
            (Some(old), _) => old & !EXECUTE,
            (None, _) => match self.0.get(&difference.path) {
                // No more than is usual here.
                Some(known) if is_executable => now & with_execute(*known),
                Some(known) => now & known,
                None => return Ok(()),
            },
        };
        if wanted == now {
            return Ok(());
        }
        let permissions = std::fs::Permissions::from_mode(wanted);
        std::fs::set_permissions(ready, permissions).doing("written", ready)
    }
}

impl Workshop {
    /// Remembers the permissions of the new files in the sandbox of a directory.
    pub(crate) fn remember_modes(
        &self,
        room: &Room<'_>,
        sandbox: &Sandbox,
        changes: &[Change],
    ) -> Result<(), SandboxError> {
        if !is_directory(room) {
            return Ok(());
        }
        let mut modes = Modes::default();
        for change in changes.iter().filter(|change| change.after.is_some()) {
            modes.note(&sandbox.path, &change.path);
        }
        let path = of_plan(self, room);
        if modes == Modes::read(&path)? {
            return Ok(());
        }
        modes.write(&path)
    }

    /// Gives the files of a directory's sandbox the permissions that they have in the directory, or had in the
    /// sandbox before.
    pub(crate) fn copy_modes(
        &self,
        room: &Room<'_>,
        sandbox: &Sandbox,
    ) -> Result<(), SandboxError> {
        let SitePlace::Dir { path: directory } = &room.site.place else {
            return Ok(());
        };
        let made = Modes::read(&of_plan(self, room))?;
        let listed = self
            .git_inside(room, sandbox)
            .run(&["ls-files", "-z", "--cached"])?;
        for name in git::fields(&listed) {
            let path = TreePath::new(name)?;
            let place = files::below(&sandbox.path, &path);
            // Behind a link that an agent made lies somebody else's file.
            if Spot::find(&sandbox.path, &path).is_err() {
                continue;
            }
            let known = made.0.get(&path).copied();
            let theirs = mode_of(&files::below(directory, &path));
            let (Some(wanted), Some(now)) = (known.or(theirs), mode_of(&place)) else {
                continue;
            };
            // What nobody could read could not be captured; whether it is executed is git's to say.
            let execute = now & 0o100;
            let wanted = match execute {
                0 => wanted & !EXECUTE,
                _ => wanted | execute,
            };
            let wanted = wanted | 0o400;
            if wanted != now {
                let permissions = std::fs::Permissions::from_mode(wanted);
                std::fs::set_permissions(&place, permissions).doing("written", &place)?;
            }
        }
        Ok(())
    }
}

/// Whoever may read it may execute it as well.
fn with_execute(mode: u32) -> u32 {
    mode | ((mode & 0o444) >> 2)
}

fn is_directory(room: &Room<'_>) -> bool {
    matches!(room.site.place, SitePlace::Dir { .. })
}

fn of_directory(repository: &Repository) -> PathBuf {
    repository.git_dir().join("modes.json")
}

fn of_plan(workshop: &Workshop, room: &Room<'_>) -> PathBuf {
    workshop.vault(room).path().join("modes.json")
}

/// The permissions of a file; a link has none.
fn mode_of(path: &Path) -> Option<u32> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    let mode = metadata.permissions().mode() & KEPT;
    metadata.is_file().then_some(mode)
}
