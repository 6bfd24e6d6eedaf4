//! Merges trees in the object database, without files, an index or a branch.

use plan::changeset::TreePath;

use crate::error::FileErrorContext;
use crate::git::{self, GitCommand, GitOutput};
use crate::vault::{self, Vault};
use crate::{ObjectId, SandboxError};

#[derive(Debug, Clone)]
pub(crate) struct MergeResult {
    /// With conflict markers in it, if there are conflicts.
    pub tree: ObjectId,
    pub conflicts: Vec<TreePath>,
}

impl MergeResult {
    pub fn without_conflicts(tree: &ObjectId) -> Self {
        Self {
            tree: tree.clone(),
            conflicts: Vec::new(),
        }
    }
}

/// Applies the changes from `base` to `work`, which is a commit on it, onto `tip`.
///
/// The merge base is given and not looked up: commits that the user removed from history must not
/// come back. So the target's tree is committed on top of `base`, and the two sides have nothing
/// else in common.
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
    let output = vault
        .git()
        .try_run(&merge_tree_arguments(ours.as_str(), work.as_str()))?;
    parse_merge_output(&output)
}

/// Like [`merge_onto_tip`], with these labels in conflict markers instead of commit ids: the
/// target's and the work's.
pub(crate) fn merge_with_labels(
    vault: &Vault,
    base: &ObjectId,
    tip: &ObjectId,
    work: &ObjectId,
    labels: [&str; 2],
) -> Result<MergeResult, SandboxError> {
    // A label that looks like an object id would be resolved as one.
    let is_usable_label = |name: &&str| name.parse::<ObjectId>().is_err();
    if base == tip || labels[0] == labels[1] || !labels.iter().all(is_usable_label) {
        return merge_onto_tip(vault, base, tip, work);
    }
    let ours = vault.create_commit(&vault.read_tree_of(tip)?, Some(base), "Target")?;
    // git labels the sides with the names it was given. So it gets branches, in a scratch
    // repository that is removed after the merge.
    let scratch = vault.new_scratch_dir();
    let path = &scratch.0;
    vault::create_bare_repository(path, ours.object_format())?;
    vault::mirror_file(vault.path(), path, "shallow")?;
    for (name, commit) in labels.into_iter().zip([&ours, work]) {
        let name = path.join("refs/heads").join(name);
        let parent = name.parent().unwrap_or(path);
        std::fs::create_dir_all(parent).while_being("created", parent)?;
        std::fs::write(&name, format!("{commit}\n")).while_being("written", &name)?;
    }
    let git = GitCommand::at_git_dir(vault.git_env(), path);
    let git = git.with_variable("GIT_OBJECT_DIRECTORY", vault.objects_dir());
    let output = git.try_run(&merge_tree_arguments(labels[0], labels[1]))?;
    // A label may mean something else to git. Then merge without labels.
    parse_merge_output(&output).or_else(|_| merge_onto_tip(vault, base, tip, work))
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

fn parse_merge_output(output: &GitOutput) -> Result<MergeResult, SandboxError> {
    let mut fields = git::split_nul_fields(&output.stdout);
    let tree = fields
        .next()
        .and_then(|field| std::str::from_utf8(field).ok())
        .and_then(|text| text.trim().parse().ok());
    let (0 | 1, Some(tree)) = (output.exit_code, tree) else {
        return Err(SandboxError::GitFailed {
            command: "merge-tree".to_owned(),
            said: output.stderr.trim().chars().take(2000).collect(),
        });
    };
    let mut conflicts = fields
        .map(|field| Ok(TreePath::new(field)?))
        .collect::<Result<Vec<_>, SandboxError>>()?;
    conflicts.sort();
    conflicts.dedup();
    Ok(MergeResult { tree, conflicts })
}

/// The newest commits since the base that changed these paths, at most twenty.
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
    let limited = paths.iter().take(MAX_LOG_PATHS);
    arguments.extend(limited.map(|path| OsStr::from_bytes(path.as_bytes())));
    let git = vault.git().with_variable("GIT_LITERAL_PATHSPECS", "1");
    let output = git.try_run(&arguments)?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect())
}
