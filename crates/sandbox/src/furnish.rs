//! Furnishing: files that git ignores and work needs all the same (a `.env`, a cache) are copied from
//! the user's checkout into a new sandbox.
//!
//! Only what is asked for, and only what git ignores on both sides: a file that the sandbox does not
//! ignore would be captured as work and might land. Links are copied as links; no link is followed,
//! neither on the way to a file nor on the way to its copy.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use plan::changeset::TreePath;

use crate::error::Doing;
use crate::files::{self, Copied, IfThere, Spot};
use crate::git::{self, Git};
use crate::repository::Checkout;
use crate::room::{Room, Sandbox, Workshop};
use crate::{Repository, SandboxError};

/// The list a repository may have of what its sandboxes need.
pub(crate) const LIST: &str = ".worktreeinclude";

/// How much of that list is read.
const LONGEST_LIST: u64 = 1 << 20;

/// How much is copied at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FurnishLimits {
    /// So many files.
    pub files: u64,
    /// So many bytes in all.
    pub bytes: u64,
}

impl Default for FurnishLimits {
    fn default() -> Self {
        Self {
            files: 50_000,
            bytes: 2 << 30,
        }
    }
}

/// What a sandbox was given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Furnished {
    /// Files and links that are there now.
    pub files: u64,
    /// How much is in them.
    pub bytes: u64,
    /// Files that were asked for and are not there, because of the limits or because something else
    /// stands in their place.
    pub left_out: u64,
}

impl Workshop {
    /// Copies ignored files into a sandbox: those that match these patterns, written as in a
    /// `.gitignore`, and those in the checkout's `.worktreeinclude`. What is there already stays, so
    /// that repeating it does what is missing.
    pub fn furnish(
        &self,
        room: &Room<'_>,
        sandbox: &Sandbox,
        include: &[String],
    ) -> Result<Furnished, SandboxError> {
        self.furnish_within(room, sandbox, include, FurnishLimits::default())
    }

    /// The same with limits of the caller's.
    pub fn furnish_within(
        &self,
        room: &Room<'_>,
        sandbox: &Sandbox,
        include: &[String],
        limits: FurnishLimits,
    ) -> Result<Furnished, SandboxError> {
        let repository = self.repository(room.site)?;
        let Some(checkout) = repository.own_checkout() else {
            return Ok(Furnished::default());
        };
        let patterns = patterns(&checkout, include)?;
        if patterns.is_empty() {
            return Ok(Furnished::default());
        }
        let wanted = self.wanted(room, &repository, &checkout, sandbox, &patterns)?;
        // Beside the sandbox: half a copy must never be seen in it.
        let aside = sandbox.index.with_extension("copying");
        let furnished = copy_all(&checkout.work_tree, &sandbox.path, &wanted, &aside, limits);
        let _ = std::fs::remove_file(&aside);
        furnished
    }

    /// What matches, and is ignored here and there.
    fn wanted(
        &self,
        room: &Room<'_>,
        repository: &Repository,
        checkout: &Checkout,
        sandbox: &Sandbox,
        patterns: &[u8],
    ) -> Result<Wanted, SandboxError> {
        let list = sandbox.index.with_extension("patterns");
        files::write_private_file(&list, patterns)?;
        let mut from = std::ffi::OsString::from("--exclude-from=");
        from.push(&list);
        let theirs = repository.git_on(checkout, &checkout.git_dir.join("index"));
        let arguments = ["ls-files", "--others", "--ignored", "-z"].map(std::ffi::OsStr::new);
        let mut arguments = arguments.to_vec();
        arguments.push(&from);
        let matching = theirs.run(&arguments);
        let _ = std::fs::remove_file(&list);
        let ours = self
            .vault(room)
            .git()
            .on_tree(&sandbox.path)
            .with_index(&sandbox.index);
        let mut wanted = Wanted::default();
        let mut reachable = Vec::new();
        for path in git::fields(&ignored(&theirs, &matching?)?) {
            // A repository of its own ends in a slash: it is not ours to copy.
            if path.ends_with(b"/") {
                continue;
            }
            if is_barred(&sandbox.path, &TreePath::new(path)?) {
                wanted.barred += 1;
            } else {
                reachable.extend(path);
                reachable.push(0);
            }
        }
        for path in git::fields(&ignored(&ours, &reachable)?) {
            wanted.paths.insert(TreePath::new(path)?);
        }
        Ok(wanted)
    }
}

/// What is to be copied.
#[derive(Default)]
struct Wanted {
    paths: BTreeSet<TreePath>,
    /// Paths that something in the sandbox stands in the way of.
    barred: u64,
}

/// Is there something other than a directory on the way to a path? git would not even say whether
/// it ignores it.
fn is_barred(root: &Path, path: &TreePath) -> bool {
    match Spot::find(root, path) {
        Ok(_) => false,
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// What is asked for, as git reads it.
fn patterns(checkout: &Checkout, include: &[String]) -> Result<Vec<u8>, SandboxError> {
    let mut patterns = Vec::new();
    let list = checkout.work_tree.join(LIST);
    let is_file = std::fs::symlink_metadata(&list).is_ok_and(|metadata| metadata.is_file());
    if is_file {
        std::fs::File::open(&list)
            .and_then(|file| file.take(LONGEST_LIST).read_to_end(&mut patterns))
            .doing("read", &list)?;
        patterns.push(b'\n');
    }
    for pattern in include {
        patterns.extend(pattern.bytes());
        patterns.push(b'\n');
    }
    Ok(patterns)
}

/// Those of the paths that git ignores.
fn ignored(git: &Git, paths: &[u8]) -> Result<Vec<u8>, SandboxError> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let answered = git.ask_with(&["check-ignore", "-z", "--stdin"], paths)?;
    // It answers 1 if it ignores none of them.
    if !matches!(answered.code, 0 | 1) {
        return Err(SandboxError::Git {
            command: "check-ignore".to_owned(),
            said: answered.stderr.trim().chars().take(2000).collect(),
        });
    }
    Ok(answered.stdout)
}

fn copy_all(
    from: &Path,
    to: &Path,
    wanted: &Wanted,
    aside: &Path,
    limits: FurnishLimits,
) -> Result<Furnished, SandboxError> {
    let mut furnished = Furnished {
        left_out: wanted.barred,
        ..Furnished::default()
    };
    for path in &wanted.paths {
        let place = files::below(from, path);
        let left = limits.bytes - furnished.bytes;
        let copied = if furnished.files == limits.files {
            Copied::Not
        } else {
            let source = match Spot::find(from, path) {
                Ok(source) => source,
                // It went since it was listed, or its directory became a link.
                Err(error) if files::is_absent(&error) || is_link(&error) => continue,
                Err(error) => return Err(error).doing("reached", &place),
            };
            match Spot::make(to, path) {
                Ok(copy) => source
                    .copy_to(&copy, aside, left, IfThere::Keep)
                    .doing("copied", &place)?,
                Err(error) if files::is_absent(&error) || is_link(&error) => Copied::Not,
                Err(error) => return Err(error).doing("copied", &place),
            }
        };
        match copied {
            Copied::Bytes(bytes) => {
                furnished.files += 1;
                furnished.bytes += bytes;
            }
            Copied::Not => furnished.left_out += 1,
        }
    }
    Ok(furnished)
}

fn is_link(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}
