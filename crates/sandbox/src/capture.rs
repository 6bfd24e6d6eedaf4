//! Capturing: what the work changed, read from the tree itself, whoever changed it.

use std::collections::BTreeSet;
use std::path::Path;

use plan::Epoch;
use plan::changeset::{Entry, Operation, TreePath};

use crate::compare::{self, GITLINK};
use crate::error::Doing;
use crate::fault::Step;
use crate::git::at_once;
use crate::ignored::IgnoredFiles;
use crate::room::{Entered, Room, Sandbox, Workshop};
use crate::{ObjectId, SandboxError, files, git};

/// What a sandbox holds, against what it started from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// The commit it started from.
    pub base: ObjectId,
    /// The tree it holds.
    pub tree: ObjectId,
    /// Path by path; a rename is one change.
    pub changes: Vec<Change>,
    /// What became of files that git ignores.
    pub ignored: IgnoredFiles,
}

/// What to do about files that cannot be taken into a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Uncapturable {
    /// A result without them would not be what was made.
    Refuse,
    /// Whoever only looks sees the rest.
    LeaveOut,
}

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where it is, or was.
    pub path: TreePath,
    /// What happened to it.
    pub operation: Operation,
    /// Where it came from, for a rename.
    pub from: Option<TreePath>,
    /// The content before.
    pub before: Option<ObjectId>,
    /// The content after.
    pub after: Option<ObjectId>,
    /// File mode after, in octal.
    pub mode: Option<String>,
}

/// Where a repository says how it is worked on; see also [`crate::furnish`].
const SETTINGS: [&[u8]; 2] = [
    plan::invariant::FILE.as_bytes(),
    crate::furnish::LIST.as_bytes(),
];

impl Change {
    /// Does it change how plans work on the repository from now on?
    pub fn is_of_settings(&self) -> bool {
        let paths = [Some(&self.path), self.from.as_ref()];
        let mut paths = paths.into_iter().flatten();
        paths.any(|path| SETTINGS.contains(&path.as_bytes()))
    }

    /// As a changeset records it.
    pub fn entry(&self, resource: &str) -> Entry {
        let mut entry = Entry::new(self.path.clone(), self.operation);
        entry.resource = Some(resource.to_owned());
        entry.from.clone_from(&self.from);
        entry.before = self.before.as_ref().map(ToString::to_string);
        entry.after = self.after.as_ref().map(ToString::to_string);
        entry.mode.clone_from(&self.mode);
        entry
    }
}

impl Workshop {
    /// Remembers the state of a holder's sandbox, and says what it is. On a full disk nothing is left of the attempt.
    pub fn capture(
        &self,
        room: &Room<'_>,
        epoch: Epoch,
        base: &ObjectId,
    ) -> Result<Captured, SandboxError> {
        let captured = self.capture_once(room, epoch, base);
        captured.map_err(|error| {
            let vault = self.vault(room);
            let error = error.explained_by_space(vault.path());
            if error.is_out_of_space() {
                vault.remove_unfinished_objects();
            }
            error
        })
    }

    fn capture_once(
        &self,
        room: &Room<'_>,
        epoch: Epoch,
        base: &ObjectId,
    ) -> Result<Captured, SandboxError> {
        let vault = self.ready_vault(room)?;
        let Entered {
            sandbox,
            hold: _hold,
        } = self.occupy(room, epoch)?;
        let git = self.git_inside(room, &sandbox);
        let (added, before) = at_once(
            || self.add_all(room, &sandbox, &git, base, Uncapturable::Refuse),
            || vault.checkpoint_commit(),
        );
        let ((tree, ignored), before) = (added?, before?);
        let (changes, checkpoint) = at_once(
            || self.acceptable_changes(room, &sandbox, base, &tree),
            || vault.checkpoint(room.plan, epoch, base, &tree),
        );
        let (changes, checkpoint) = (changes?, checkpoint?);
        self.remember_left_out(&sandbox, &ignored)?;
        self.remember_modes(room, &sandbox, &changes)?;
        self.after(Step::TreeWritten, vault.path())?;
        self.remember(room, epoch, &checkpoint, before.as_ref())?;
        self.after(Step::Checkpointed, vault.path())?;
        Ok(Captured {
            base: base.clone(),
            tree,
            changes,
            ignored,
        })
    }

    /// Writes the files of a sandbox as a tree, without remembering it.
    pub(crate) fn write_tree(
        &self,
        room: &Room<'_>,
        sandbox: &Sandbox,
    ) -> Result<ObjectId, SandboxError> {
        let git = self.git_inside(room, sandbox);
        let (base, refuse) = (&sandbox.base, Uncapturable::Refuse);
        let (tree, _) = self.add_all(room, sandbox, &git, base, refuse)?;
        self.acceptable_changes(room, sandbox, base, &tree)?;
        Ok(tree)
    }

    /// What a sandbox holds at this moment, with an index and objects of the caller's.
    pub(crate) fn tree_at_this_moment(
        &self,
        room: &Room<'_>,
        sandbox: &Sandbox,
        git: &git::Git,
    ) -> Result<(ObjectId, IgnoredFiles), SandboxError> {
        let leave_out = Uncapturable::LeaveOut;
        self.add_all(room, sandbox, git, &sandbox.base, leave_out)
    }

    /// The files of a sandbox as a tree. Of the agent's own repository only the names in its index matter,
    /// and only of files that are ignored; the configuration in it nobody may trust.
    fn add_all(
        &self,
        room: &Room<'_>,
        sandbox: &Sandbox,
        git: &git::Git,
        base: &ObjectId,
        uncapturable: Uncapturable,
    ) -> Result<(ObjectId, IgnoredFiles), SandboxError> {
        if !sandbox.is_there() {
            return Err(SandboxError::SandboxGone {
                path: sandbox.path.clone(),
            });
        }
        let git = git
            .clone()
            .with_settings(&["advice.addEmbeddedRepo=false".to_owned()]);
        match uncapturable {
            Uncapturable::Refuse => {
                let added = git.run(&["add", "--all", "--", "."]);
                added
                    .map_err(nested_without_commit)
                    .map_err(refused_names)?;
            }
            Uncapturable::LeaveOut => {
                let arguments = ["add", "--all", "--ignore-errors", "--", "."];
                let answered = git.ask(&arguments)?;
                let said = &answered.stderr;
                let is_left_out = said.contains(WITHOUT_COMMIT) || said.contains(INVALID_PATH);
                if answered.code != 0 && !is_left_out {
                    return Err(git::failed(&arguments, &answered.stderr));
                }
            }
        }
        if uncapturable == Uncapturable::Refuse {
            self.refuse_writes_below_submodules(room, sandbox)?;
        }
        let ignored = self.add_ignored(room, sandbox, &git, base);
        let ignored = match (ignored, uncapturable) {
            (Err(error), Uncapturable::LeaveOut) if error.is_uncapturable() => {
                IgnoredFiles::default()
            }
            (ignored, _) => ignored?,
        };
        Ok((git.object(&["write-tree"])?, ignored))
    }

    /// What changed, if all of it can be taken into a result.
    fn acceptable_changes(
        &self,
        room: &Room<'_>,
        sandbox: &Sandbox,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<Vec<Change>, SandboxError> {
        let git = self.git_inside(room, sandbox);
        let changes = changes(&git, base, tree)?;
        refuse_nested_repositories(&changes)?;
        // Without attributes there is no filter, and git need not be asked.
        let own_attributes = self.vault(room).path().join("info/attributes");
        if own_attributes.exists() || has_attributes(&sandbox.path, &changes) {
            refuse_filtered(&git, &changes)?;
        }
        Ok(changes)
    }

    pub(crate) fn git_inside(&self, room: &Room<'_>, sandbox: &Sandbox) -> git::Git {
        // A lock of this index is ours, left by a process that was killed: agents cannot reach it.
        let _ = std::fs::remove_file(sandbox.index.with_extension("index.lock"));
        let git = self.vault(room).git();
        git.on_tree(&sandbox.path).with_index(&sandbox.index)
    }
}

/// What is wrong with a nested repository.
const NESTED: &str = "it is a repository of its own; remove it or its .git";

/// What git says of one that has no commit.
const WITHOUT_COMMIT: &str = "/' does not have a commit checked out";

/// What git says of a name that it does not store.
const INVALID_PATH: &str = "error: invalid path '";

impl SandboxError {
    /// There is a nested repository.
    pub(crate) fn nested(path: TreePath) -> Self {
        Self::Uncapturable { path, why: NESTED }
    }
}

/// Of a nested repository that has no commit, git has not even a name to add, and says so.
fn nested_without_commit(error: SandboxError) -> SandboxError {
    let SandboxError::Git { said, .. } = &error else {
        return error;
    };
    let named = said
        .lines()
        .filter_map(|line| line.strip_suffix(WITHOUT_COMMIT))
        .find_map(|line| line.strip_prefix("error: '"));
    match named.map(TreePath::new) {
        Some(Ok(path)) => SandboxError::nested(path),
        Some(Err(_)) | None => error,
    }
}

/// git stores no name that some system takes for `.git`, and says so of the first it comes to.
pub(crate) fn refused_names(error: SandboxError) -> SandboxError {
    let SandboxError::Git { said, .. } = &error else {
        return error;
    };
    let named = said
        .lines()
        .filter_map(|line| line.strip_prefix(INVALID_PATH))
        .find_map(|line| line.strip_suffix('\''));
    match named {
        Some(name) => SandboxError::NameRefused {
            name: name.to_owned(),
        },
        None => error,
    }
}

/// A nested repository would land as a mere name.
fn refuse_nested_repositories(changes: &[Change]) -> Result<(), SandboxError> {
    let link = changes
        .iter()
        .find(|change| change.mode.as_deref() == Some(GITLINK));
    if let Some(link) = link {
        return Err(SandboxError::nested(link.path.clone()));
    }
    Ok(())
}

/// Is there a file of attributes on the way to any of the changed paths?
fn has_attributes(root: &Path, changes: &[Change]) -> bool {
    let mut directories = BTreeSet::from([root.to_owned()]);
    for change in changes {
        let place = files::below(root, &change.path);
        let above = place.ancestors().skip(1);
        directories.extend(above.take_while(|one| *one != root).map(Path::to_owned));
    }
    directories
        .iter()
        .any(|directory| directory.join(".gitattributes").symlink_metadata().is_ok())
}

/// Paths under a content filter: what landed would not be what was made.
fn refuse_filtered(git: &git::Git, changes: &[Change]) -> Result<(), SandboxError> {
    let mut paths = Vec::new();
    for change in changes.iter().filter(|change| change.after.is_some()) {
        paths.extend(change.path.as_bytes());
        paths.push(0);
    }
    if paths.is_empty() {
        return Ok(());
    }
    let output = git.run_with(&["check-attr", "-z", "--stdin", "filter"], &paths)?;
    let fields: Vec<&[u8]> = output.split(|byte| *byte == 0).collect();
    for line in fields.chunks_exact(3) {
        if !matches!(line[2], b"unspecified" | b"unset") {
            return Err(SandboxError::Uncapturable {
                path: TreePath::new(line[0])?,
                why: "it is kept by a content filter such as Git LFS, which is not run here",
            });
        }
    }
    Ok(())
}

/// What differs between a base and a tree, renames recognised.
pub(crate) fn changes(
    git: &git::Git,
    base: &ObjectId,
    tree: &ObjectId,
) -> Result<Vec<Change>, SandboxError> {
    let lines = compare::raw(git, &["-M"], base.as_str(), tree.as_str(), &[])?;
    Ok(lines
        .into_iter()
        .map(|line| Change {
            operation: compare::operation(line.status),
            path: line.path,
            from: line.from,
            before: line.before.map(|blob| blob.id),
            mode: line.after.as_ref().map(|blob| blob.mode.clone()),
            after: line.after.map(|blob| blob.id),
        })
        .collect())
}

impl Workshop {
    /// What the process is doing fails here if a test says so.
    pub(crate) fn after(&self, step: Step, path: &std::path::Path) -> Result<(), SandboxError> {
        self.faults().after(step).doing("written", path)
    }
}
