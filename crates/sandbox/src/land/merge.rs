//! Merging in the object database: no file, no index, no branch is involved.

use plan::changeset::TreePath;

use crate::error::Doing;
use crate::git::{self, Answered, Git};
use crate::vault::{self, Vault};
use crate::{ObjectId, SandboxError};

/// What merging gave.
#[derive(Debug, Clone)]
pub(crate) struct Merged {
    /// The tree; where there are conflicts, with their marks in it.
    pub tree: ObjectId,
    /// The paths with conflicts.
    pub conflicts: Vec<TreePath>,
}

impl Merged {
    /// Nothing had to be merged.
    pub fn clean(tree: &ObjectId) -> Self {
        Self {
            tree: tree.clone(),
            conflicts: Vec::new(),
        }
    }
}

/// Brings what happened from `base` to `work`, which is a commit on it, onto `tip`.
///
/// The base is said, not looked for: what a person took out of their history since must not come
/// back. So the target's tree is committed on the base, too, and nothing else is in common.
pub(crate) fn merge(
    vault: &Vault,
    base: &ObjectId,
    tip: &ObjectId,
    work: &ObjectId,
) -> Result<Merged, SandboxError> {
    if base == tip {
        return Ok(Merged::clean(&vault.tree_of(work)?));
    }
    let ours = vault.commit(&vault.tree_of(tip)?, Some(base), "Target")?;
    let answered = vault.git().ask(&merge_tree(ours.as_str(), work.as_str()))?;
    understood(&answered)
}

/// The same, with these names in the marks of conflicts instead of commits: what the target is
/// called, and what the work is.
pub(crate) fn merge_named(
    vault: &Vault,
    base: &ObjectId,
    tip: &ObjectId,
    work: &ObjectId,
    names: [&str; 2],
) -> Result<Merged, SandboxError> {
    // What git would take for an object stays one.
    let is_plain = |name: &&str| name.parse::<ObjectId>().is_err();
    if base == tip || names[0] == names[1] || !names.iter().all(is_plain) {
        return merge(vault, base, tip, work);
    }
    let ours = vault.commit(&vault.tree_of(tip)?, Some(base), "Target")?;
    // git marks the sides with what it was given. So it is given branches, in a repository that
    // nobody else uses and that goes with this merge.
    let scratch = vault.scratch();
    let path = &scratch.0;
    vault::bare_repository(path, ours.format())?;
    vault::copy_if_there(vault.path(), path, "shallow")?;
    for (name, commit) in names.into_iter().zip([&ours, work]) {
        let name = path.join("refs/heads").join(name);
        let parent = name.parent().unwrap_or(path);
        std::fs::create_dir_all(parent).doing("made", parent)?;
        std::fs::write(&name, format!("{commit}\n")).doing("written", &name)?;
    }
    let git = Git::at(vault.surroundings(), path);
    let git = git.with("GIT_OBJECT_DIRECTORY", vault.objects());
    let answered = git.ask(&merge_tree(names[0], names[1]))?;
    // A name that means something else to git is not worth failing for.
    understood(&answered).or_else(|_| merge(vault, base, tip, work))
}

fn merge_tree<'a>(ours: &'a str, theirs: &'a str) -> [&'a str; 7] {
    [
        "merge-tree",
        "--write-tree",
        "-z",
        "--name-only",
        "--no-messages",
        ours,
        theirs,
    ]
}

fn understood(answered: &Answered) -> Result<Merged, SandboxError> {
    let mut fields = git::fields(&answered.stdout);
    let tree = fields
        .next()
        .and_then(|field| std::str::from_utf8(field).ok())
        .and_then(|text| text.trim().parse().ok());
    let (0 | 1, Some(tree)) = (answered.code, tree) else {
        return Err(SandboxError::Git {
            command: "merge-tree".to_owned(),
            said: answered.stderr.trim().chars().take(2000).collect(),
        });
    };
    let mut conflicts = fields
        .map(|field| Ok(TreePath::new(field)?))
        .collect::<Result<Vec<_>, SandboxError>>()?;
    conflicts.sort();
    conflicts.dedup();
    Ok(Merged { tree, conflicts })
}

/// The commits since the base that changed these paths, newest first, at most twenty.
pub(crate) fn commits_between(
    vault: &Vault,
    base: &ObjectId,
    tip: &ObjectId,
    paths: &[TreePath],
) -> Result<Vec<ObjectId>, SandboxError> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    const MOST_PATHS: usize = 100;
    let range = format!("{base}..{tip}");
    let options = ["log", "--format=%H", "--max-count=20", &range, "--"];
    let mut arguments: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
    let shown = paths.iter().take(MOST_PATHS);
    arguments.extend(shown.map(|path| OsStr::from_bytes(path.as_bytes())));
    let git = vault.git().with("GIT_LITERAL_PATHSPECS", "1");
    let answered = git.ask(&arguments)?;
    Ok(String::from_utf8_lossy(&answered.stdout)
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect())
}
