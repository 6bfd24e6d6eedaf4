//! Clean checkouts of a result in which a rule's command runs.
//!
//! They contain no agent's work in progress, and nothing is copied back from them. Only one process
//! checks a subject at a time; the others wait and use its verdict.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use plan::changeset::{PathOperation, TreePath};
use plan::{Digest, Epoch, PlanId};
use rustix::fs::FlockOperation;

use crate::compare::{self, TreeDiff};
use crate::error::FileErrorContext;
use crate::local_resource::{ResourceLocation, SandboxKey};
use crate::sandboxes::{Sandbox, Sandboxes};
use crate::{LocalResource, ObjectId, SandboxError, checkout, files};

/// Enough for any `planwright.yaml`.
const MAX_READ_FILE_BYTES: u64 = 1 << 20;

/// A directory for one check; removed when dropped.
#[derive(Debug)]
pub struct CheckDir {
    /// Contains one checkout per resource.
    pub path: PathBuf,
    /// Locked until the check ends.
    _lock: File,
}

impl Drop for CheckDir {
    fn drop(&mut self) {
        // Leftovers are removed by the next check, or with the plan.
        let _ = files::remove_tree(&self.path);
    }
}

/// One changed path and the size of the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathDiffStat {
    /// The new path; the old one if it was deleted.
    pub path: TreePath,
    /// The old path of a rename.
    pub from: Option<TreePath>,
    pub operation: PathOperation,
    /// Added lines; 0 for a binary file.
    pub insertions: u64,
    /// Removed lines; 0 for a binary file.
    pub deletions: u64,
    pub binary: bool,
    /// New size in bytes.
    pub size: u64,
    /// New file mode in octal; empty if the file was deleted.
    pub mode: String,
}

/// Clean checkouts in which the commands of rules run.
#[derive(Clone, Copy)]
pub struct RuleCheckDirs<'a> {
    sandboxes: &'a Sandboxes,
}

impl Sandboxes {
    pub fn checks(&self) -> RuleCheckDirs<'_> {
        RuleCheckDirs { sandboxes: self }
    }
}

impl RuleCheckDirs<'_> {
    /// Creates a directory to check a subject in; `None` while another process checks the same
    /// subject.
    pub fn lock_check_dir(
        &self,
        plan_id: PlanId,
        subject: Digest,
    ) -> Result<Option<CheckDir>, SandboxError> {
        let name = &subject.to_string()[..24];
        let directory = self.sandboxes.home().plan_directory(plan_id).join("trials");
        self.sandboxes.home().make_home_directory(&directory)?;
        let lock_path = directory.join(format!("{name}.turn"));
        let lock_file =
            files::create_private_file(&lock_path).while_being("created", &lock_path)?;
        match rustix::fs::flock(&lock_file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error).while_being("locked", &lock_path),
        }
        let path = directory.join(name);
        files::remove_tree(&path)?;
        files::make_private_directory(&path)?;
        Ok(Some(CheckDir {
            path,
            _lock: lock_file,
        }))
    }

    /// Checks a tree out in a check directory, as a repository of its own.
    pub fn make_check_checkout(
        &self,
        check_dir: &CheckDir,
        key: &SandboxKey<'_>,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<Sandbox, SandboxError> {
        let repository = self.sandboxes.open_repository(key.resource)?;
        let vault = self.sandboxes.vaults().create_vault(key, &repository)?;
        let name = key.dir_name();
        let sandbox = Sandbox {
            path: check_dir.path.join(&name),
            index_path: check_dir.path.join(format!("{name}.index")),
            base: base.clone(),
            creator_epoch: Epoch(0),
            holder_epoch: Epoch(0),
            conflicts: Vec::new(),
            given_repository: None,
        };
        files::make_private_directory(&sandbox.path)?;
        checkout::check_out_tree(&vault, &sandbox, tree)?;
        let branch = match &key.resource.location {
            ResourceLocation::Git { target, .. } => target.as_str(),
            ResourceLocation::Dir { .. } => "refs/heads/main",
        };
        checkout::create_agent_repository(&vault, &repository, &sandbox, branch)?;
        Ok(sandbox)
    }

    /// The tree of a commit in the plan's vault.
    pub fn read_tree_of(
        &self,
        key: &SandboxKey<'_>,
        commit: &ObjectId,
    ) -> Result<ObjectId, SandboxError> {
        self.sandboxes.vaults().vault_for(key).read_tree_of(commit)
    }

    /// Reads a file of a resource at a commit; for a directory resource, its current content.
    /// `None` if the path is not a regular file.
    pub fn read_file_at(
        &self,
        resource: &LocalResource,
        commit: Option<&ObjectId>,
        path: &str,
    ) -> Result<Option<Vec<u8>>, SandboxError> {
        if let ResourceLocation::Dir { path: directory } = &resource.location {
            return read_limited_file(&directory.join(path));
        }
        let Some(commit) = commit else {
            return Ok(None);
        };
        let git = self.sandboxes.open_repository(resource)?.git();
        let name = format!("{commit}:{path}");
        let size = git.try_run(&["cat-file", "-s", &name])?;
        let size = String::from_utf8_lossy(&size.stdout).trim().parse::<u64>();
        match size {
            Ok(size) if size <= MAX_READ_FILE_BYTES => {
                let output = git.try_run(&["cat-file", "blob", &name])?;
                Ok((output.exit_code == 0).then_some(output.stdout))
            }
            Ok(_) => Err(SandboxError::Uncapturable {
                path: TreePath::new(path.as_bytes())?,
                why: "it is larger than a megabyte",
            }),
            Err(_) => Ok(None),
        }
    }
}

impl RuleCheckDirs<'_> {
    /// Reads a file from the working tree of a resource; `None` if it does not exist.
    pub fn read_working_tree_file(
        &self,
        resource: &LocalResource,
        path: &str,
    ) -> Result<Option<Vec<u8>>, SandboxError> {
        read_limited_file(&resource.location.path().join(path))
    }

    pub fn list_paths_at(
        &self,
        resource: &LocalResource,
        commit: &ObjectId,
    ) -> Result<Vec<TreePath>, SandboxError> {
        let git = self.sandboxes.open_repository(resource)?.git();
        let asked = ["ls-tree", "-r", "-z", "--name-only", "--full-tree"];
        let listed = git.run(&[&asked[..], &[commit.as_str()]].concat())?;
        let paths = listed.split(|byte| *byte == 0);
        let paths = paths.filter(|path| !path.is_empty()).map(TreePath::new);
        Ok(paths.collect::<Result<_, _>>()?)
    }
}

fn read_limited_file(path: &Path) -> Result<Option<Vec<u8>>, SandboxError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if files::is_not_found(&error) => return Ok(None),
        Err(error) => return Err(error).while_being("read", path),
    };
    let mut content = Vec::new();
    let mut limited = file.take(MAX_READ_FILE_BYTES);
    limited
        .read_to_end(&mut content)
        .while_being("read", path)?;
    Ok(Some(content))
}

impl TreeDiff {
    pub fn list_path_stats(&self) -> Result<Vec<PathDiffStat>, SandboxError> {
        let lines = compare::read_raw_diff(&self.git, &["-M"], &self.old, &self.new, &[])?;
        let counted = self.count_lines(&[])?;
        let counted: BTreeMap<_, _> = counted.iter().map(|one| (&one.path, one)).collect();
        let sizes = self.read_sizes(&lines)?;
        let mut stats = Vec::new();
        for (line, size) in lines.into_iter().zip(sizes) {
            let counts = counted.get(&line.path);
            let insertions = counts.and_then(|one| one.insertions);
            let deletions = counts.and_then(|one| one.deletions);
            stats.push(PathDiffStat {
                operation: compare::parse_operation(line.status),
                path: line.path,
                from: line.from,
                binary: insertions.is_none(),
                insertions: insertions.unwrap_or(0),
                deletions: deletions.unwrap_or(0),
                size,
                mode: line.after.map(|blob| blob.mode).unwrap_or_default(),
            });
        }
        Ok(stats)
    }

    /// The new size of each path, in bytes.
    fn read_sizes(&self, lines: &[compare::RawDiffLine]) -> Result<Vec<u64>, SandboxError> {
        let mut names = String::new();
        for line in lines {
            // For a deleted path, "0" is not an object; git answers "missing", which counts as 0
            // bytes.
            let id = line.after.as_ref().map_or("0", |blob| blob.id.as_str());
            names.push_str(id);
            names.push('\n');
        }
        let asked = ["cat-file", "--batch-check=%(objectsize)"];
        let answer = self.git.run_with_input(&asked, names.as_bytes())?;
        let answer = String::from_utf8_lossy(&answer);
        let sizes = answer.lines().map(|line| line.parse().unwrap_or(0));
        Ok(sizes.collect())
    }
}
