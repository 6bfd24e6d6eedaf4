//! Merging in the object database: no file, no index, no branch is involved.

use plan::changeset::TreePath;

use crate::error::FileErrorContext;
use crate::git::{self, GitCommand, GitOutput};
use crate::vault::{self, Vault};
use crate::{ObjectId, SandboxError};

/// What merging gave.
#[derive(Debug, Clone)]
pub(crate) struct MergeResult {
    /// The tree; where there are conflicts, with their marks in it.
    pub tree: ObjectId,
    /// The paths with conflicts.
    pub conflicts: Vec<TreePath>,
}

impl MergeResult {
    /// Nothing had to be merged.
    pub fn without_conflicts(tree: &ObjectId) -> Self {
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
pub(crate) fn merge_onto_tip(
    vault: &Vault,
    base: &ObjectId,
    tip: &ObjectId,
    work: &ObjectId,
) -> Result<MergeResult, SandboxError> {
    if base == tip {
        return Ok(MergeResult::without_conflicts(&vault.read_tree_of(work)?));
    }
    let ours = vault.create_commit(&vault.read_tree_of(tip)?, Some(base), "Target")?;
    let answered = vault
        .git()
        .try_run(&merge_tree_arguments(ours.as_str(), work.as_str()))?;
    parse_merge_output(&answered)
}

/// The same, with these names in the marks of conflicts instead of commits: what the target is
/// called, and what the work is.
pub(crate) fn merge_with_labels(
    vault: &Vault,
    base: &ObjectId,
    tip: &ObjectId,
    work: &ObjectId,
    labels: [&str; 2],
) -> Result<MergeResult, SandboxError> {
    // What git would take for an object stays one.
    let is_plain = |name: &&str| name.parse::<ObjectId>().is_err();
    if base == tip || labels[0] == labels[1] || !labels.iter().all(is_plain) {
        return merge_onto_tip(vault, base, tip, work);
    }
    let ours = vault.create_commit(&vault.read_tree_of(tip)?, Some(base), "Target")?;
    // git marks the sides with what it was given. So it is given branches, in a repository that
    // nobody else uses and that goes with this merge.
    let scratch = vault.new_scratch_dir();
    let path = &scratch.0;
    vault::create_bare_repository(path, ours.object_format())?;
    vault::mirror_file(vault.path(), path, "shallow")?;
    for (name, commit) in labels.into_iter().zip([&ours, work]) {
        let name = path.join("refs/heads").join(name);
        let parent = name.parent().unwrap_or(path);
        std::fs::create_dir_all(parent).while_being("made", parent)?;
        std::fs::write(&name, format!("{commit}\n")).while_being("written", &name)?;
    }
    let git = GitCommand::at_git_dir(vault.git_env(), path);
    let git = git.with_variable("GIT_OBJECT_DIRECTORY", vault.objects_dir());
    let answered = git.try_run(&merge_tree_arguments(labels[0], labels[1]))?;
    // A name that means something else to git is not worth failing for.
    parse_merge_output(&answered).or_else(|_| merge_onto_tip(vault, base, tip, work))
}

fn merge_tree_arguments<'a>(ours: &'a str, theirs: &'a str) -> [&'a str; 7] {
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

fn parse_merge_output(answered: &GitOutput) -> Result<MergeResult, SandboxError> {
    let mut fields = git::split_nul_fields(&answered.stdout);
    let tree = fields
        .next()
        .and_then(|field| std::str::from_utf8(field).ok())
        .and_then(|text| text.trim().parse().ok());
    let (0 | 1, Some(tree)) = (answered.exit_code, tree) else {
        return Err(SandboxError::GitFailed {
            command: "merge-tree".to_owned(),
            said: answered.stderr.trim().chars().take(2000).collect(),
        });
    };
    let mut conflicts = fields
        .map(|field| Ok(TreePath::new(field)?))
        .collect::<Result<Vec<_>, SandboxError>>()?;
    conflicts.sort();
    conflicts.dedup();
    Ok(MergeResult { tree, conflicts })
}

/// The commits since the base that changed these paths, newest first, at most twenty.
pub(crate) fn list_commits_between(
    vault: &Vault,
    base: &ObjectId,
    tip: &ObjectId,
    paths: &[TreePath],
) -> Result<Vec<ObjectId>, SandboxError> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    const MAX_LOG_PATHS: usize = 100;
    let range = format!("{base}..{tip}");
    let options = ["log", "--format=%H", "--max-count=20", &range, "--"];
    let mut arguments: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
    let shown = paths.iter().take(MAX_LOG_PATHS);
    arguments.extend(shown.map(|path| OsStr::from_bytes(path.as_bytes())));
    let git = vault.git().with_variable("GIT_LITERAL_PATHSPECS", "1");
    let answered = git.try_run(&arguments)?;
    Ok(String::from_utf8_lossy(&answered.stdout)
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect())
}
